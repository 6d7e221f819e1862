//! What the nodes of [`super::tree`] are made of: short runs of items in place, and arenas of nodes.
//! Nothing here knows an order.

/// The first `len` of `slots` count; the others are copies of what was there once.
#[derive(Clone)]
pub(super) struct Packed<T, const N: usize> {
    pub(super) len: usize,
    pub(super) slots: [T; N],
}

impl<T: Copy, const N: usize> Packed<T, N> {
    /// `items` is neither empty nor longer than `N`.
    pub(super) fn of(items: &[T]) -> Self {
        let mut slots = [items[0]; N];
        slots[..items.len()].copy_from_slice(items);
        Packed { len: items.len(), slots }
    }

    pub(super) fn as_slice(&self) -> &[T] {
        &self.slots[..self.len]
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == N
    }

    pub(super) fn insert(&mut self, at: usize, item: T) {
        self.slots.copy_within(at..self.len, at + 1);
        self.slots[at] = item;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, at: usize) -> T {
        let gone = self.slots[at];
        self.slots.copy_within(at + 1..self.len, at);
        self.len -= 1;
        gone
    }

    pub(super) fn append(&mut self, items: &[T]) {
        self.slots[self.len..self.len + items.len()].copy_from_slice(items);
        self.len += items.len();
    }

    /// Puts `item` at `at` of a full node and splits it: the upper part goes into the new one. What is
    /// put in at the end goes alone, since windows are mostly put in as time goes on, and nodes that
    /// nothing more comes into should be full.
    pub(super) fn insert_and_split(&mut self, at: usize, item: T) -> Self {
        if at == N {
            return Packed::of(&[item]);
        }
        let mut upper = Packed::of(&self.slots[N / 2..]);
        self.len = N / 2;
        if at <= N / 2 {
            self.insert(at, item)
        } else {
            upper.insert(at - N / 2, item)
        }
        upper
    }
}

/// Nodes of one kind, and which of them are not in use.
#[derive(Clone)]
pub(super) struct Arena<T> {
    pub(super) nodes: Vec<T>,
    pub(super) free: Vec<u32>,
}

impl<T> Arena<T> {
    pub(super) const fn new() -> Self {
        Arena { nodes: Vec::new(), free: Vec::new() }
    }

    pub(super) fn put(&mut self, node: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return at;
        }
        let at =
            u32::try_from(self.nodes.len()).unwrap_or_else(|_| unreachable!("more nodes than memory holds"));
        self.nodes.push(node);
        at
    }
}
