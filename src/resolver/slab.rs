//! Things by number: found without a hash and without a tree, and close together.

/// A thing's number, while it is there. It is used again once the thing is gone.
pub(super) type Number = u32;

/// Numbered things.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<Number>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn reserve(&mut self, more: usize) {
        self.slots.reserve(more);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The number that the next one gets.
    pub(super) fn next(&self) -> Number {
        self.free.last().copied().unwrap_or(self.slots.len() as Number)
    }

    pub(super) fn put(&mut self, thing: T) -> Number {
        let number = self.next();
        match self.free.pop() {
            Some(free) => self.slots[free as usize] = Some(thing),
            None => self.slots.push(Some(thing)),
        }
        number
    }

    pub(super) fn get(&self, number: Number) -> Option<&T> {
        self.slots.get(number as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: Number) -> Option<&mut T> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn take(&mut self, number: Number) -> Option<T> {
        let gone = self.slots.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(gone)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Number, &T)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(number, slot)| slot.as_ref().map(|thing| (number as Number, thing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_once_its_thing_is_gone_and_not_before() {
        let mut slab = Slab::default();
        let (a, b) = (slab.put('a'), slab.put('b'));
        assert!(a != b && slab.len() == 2);
        assert_eq!(slab.take(a), Some('a'));
        assert_eq!((slab.take(a), slab.get(a), slab.len()), (None, None, 1));
        assert_eq!((slab.next(), slab.put('c')), (a, a));
        slab.get_mut(b).map(|thing| *thing = 'd').unwrap();
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(a, &'c'), (b, &'d')]);
        assert!(slab.next() == 2 && slab.get(2).is_none());
    }
}
