//! A sorted set with sums over its parts: the wide tree under [`super::windows`] and
//! [`super::profile`].
//!
//! Items lie in leaves, and what a search wants to know about a part of the set (a [`Measure`]) lies in
//! the entry that points at it, so that a search reads one run of entries a level and skips the rest.
//! Nodes are wide and lie in two arenas: few cache misses, and no pointers to own. Most sets are empty
//! or hold an item or two, and there are millions of them: an empty one is a null pointer, and a few
//! items are a short sorted vector.

use std::ops::Range;

use super::packed::{Arena, Packed};

/// Items of one leaf: their sum is taken anew whenever one changes, and a search reads them all.
pub(super) const LEAF: usize = 16;
/// Entries of one inner node: each level costs one or two cache misses a search, each entry 64 bytes
/// or so to move when one is put in.
pub(super) const INNER: usize = 16;
/// Below this a node is merged with a neighbour where both together leave room for more.
const SPARSE: usize = 4;
/// What two merged nodes hold at most, so that the next item does not split them again.
const MERGED: usize = 12;
/// A tree that shrinks to this many items becomes a vector again; half of what made it a tree.
const FEW_AGAIN: usize = LEAF / 2;

const _: () = assert!(SPARSE * 2 <= MERGED && MERGED < LEAF && MERGED < INNER);

/// What is kept about each part of a set.
pub(super) trait Measure: Sized {
    /// What the set holds.
    type Item: Copy;
    /// The order of the items; no two are equal.
    type Key: Copy + Ord;
    /// What an entry says about the items below it.
    type Sum: Copy;

    fn key(item: &Self::Item) -> Self::Key;
    fn of_items(items: &[Self::Item]) -> Self::Sum;
    fn of_entries(entries: &[Entry<Self>]) -> Self::Sum;

    /// Called after the entries `changed` of an inner node were put in or replaced: for sums that
    /// depend on the entries to their left in the same node. `was` is the sum of the one entry that
    /// stood in their place.
    fn settle(tree: &mut Tree<Self>, node: NodeId, changed: Range<usize>, was: Self::Sum) {
        let _ = (tree, node, changed, was);
    }
}

/// A node of a tree: a leaf at level 0, an inner node above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId {
    at: u32,
    level: u8,
}

/// What a node lies under: the least key below it, and its sum.
pub(super) struct Entry<M: Measure> {
    pub(super) first: M::Key,
    pub(super) sum: M::Sum,
    child: u32,
}

impl<M: Measure> Clone for Entry<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Measure> Copy for Entry<M> {}

/// What lies under a node.
pub(super) enum Below<'a, M: Measure> {
    Items(&'a [M::Item]),
    Entries(&'a [Entry<M>]),
}

/// The tree of a set of many items.
pub(super) struct Tree<M: Measure> {
    leaves: Arena<Packed<M::Item, LEAF>>,
    inners: Arena<Packed<Entry<M>, INNER>>,
    root: NodeId,
    len: usize,
}

impl<M: Measure> Clone for Tree<M> {
    fn clone(&self) -> Self {
        Tree { leaves: self.leaves.clone(), inners: self.inners.clone(), root: self.root, len: self.len }
    }
}

impl<M: Measure> Tree<M> {
    fn of_leaf(items: &[M::Item]) -> Self {
        let (mut leaves, inners) = (Arena::new(), Arena::new());
        let root = NodeId { at: leaves.put(Packed::of(items)), level: 0 };
        Tree { leaves, inners, root, len: items.len() }
    }

    pub(super) fn root(&self) -> NodeId {
        self.root
    }

    pub(super) fn below(&self, node: NodeId) -> Below<'_, M> {
        if node.level == 0 {
            Below::Items(self.leaves.nodes[node.at as usize].as_slice())
        } else {
            Below::Entries(self.entries(node))
        }
    }

    /// The entries of an inner node.
    pub(super) fn entries(&self, node: NodeId) -> &[Entry<M>] {
        self.inners.nodes[node.at as usize].as_slice()
    }

    /// The sum in one entry of an inner node, to settle it.
    pub(super) fn sum_mut(&mut self, node: NodeId, entry: usize) -> &mut M::Sum {
        &mut self.inners.nodes[node.at as usize].slots[entry].sum
    }

    /// The node under one entry of `node`.
    pub(super) fn child(&self, node: NodeId, entry: &Entry<M>) -> NodeId {
        NodeId { at: entry.child, level: node.level.saturating_sub(1) }
    }

    fn entry_of(&self, node: NodeId) -> Entry<M> {
        let (first, sum) = match self.below(node) {
            Below::Items(items) => (M::key(&items[0]), M::of_items(items)),
            Below::Entries(entries) => (entries[0].first, M::of_entries(entries)),
        };
        Entry { first, sum, child: node.at }
    }

    fn get(&self, key: M::Key) -> Option<&M::Item> {
        let mut node = self.root;
        loop {
            match self.below(node) {
                Below::Items(items) => {
                    return find::<M>(items, key).ok().map(|at| &items[at]);
                }
                Below::Entries(entries) => node = self.child(node, &entries[branch(entries, key)]),
            }
        }
    }

    /// Returns the item of the same key that it replaces.
    fn insert(&mut self, item: M::Item) -> Option<M::Item> {
        let (replaced, split) = self.insert_below(self.root, item);
        if let Some(upper) = split {
            let entries = [self.entry_of(self.root), self.entry_of(upper)];
            let was = entries[0].sum;
            let at = self.inners.put(Packed::of(&entries));
            self.root = NodeId { at, level: self.root.level + 1 };
            M::settle(self, self.root, 0..2, was);
        }
        self.len += usize::from(replaced.is_none());
        replaced
    }

    /// Returns what was replaced, and the new node that took the upper part of this one.
    fn insert_below(&mut self, node: NodeId, item: M::Item) -> (Option<M::Item>, Option<NodeId>) {
        if node.level == 0 {
            return self.insert_in_leaf(node, item);
        }
        let entries = self.entries(node);
        let at = branch(entries, M::key(&item));
        let was = entries[at].sum;
        let child = self.child(node, &entries[at]);
        let (replaced, split) = self.insert_below(child, item);
        self.inners.nodes[node.at as usize].slots[at] = self.entry_of(child);
        let Some(upper) = split else {
            M::settle(self, node, at..at + 1, was);
            return (replaced, None);
        };
        let entry = self.entry_of(upper);
        let packed = &mut self.inners.nodes[node.at as usize];
        if !packed.is_full() {
            packed.insert(at + 1, entry);
            M::settle(self, node, at..at + 2, was);
            return (replaced, None);
        }
        let right = packed.insert_and_split(at + 1, entry);
        let right = NodeId { at: self.inners.put(right), level: node.level };
        self.settle_from(node, at);
        self.settle_from(right, 0);
        (replaced, Some(right))
    }

    /// Settles all entries of a node from one on.
    fn settle_from(&mut self, node: NodeId, from: usize) {
        let entries = self.entries(node);
        if let Some(first) = entries.get(from) {
            let (was, all) = (first.sum, from..entries.len());
            M::settle(self, node, all, was);
        }
    }

    fn insert_in_leaf(&mut self, node: NodeId, item: M::Item) -> (Option<M::Item>, Option<NodeId>) {
        let leaf = &mut self.leaves.nodes[node.at as usize];
        match find::<M>(leaf.as_slice(), M::key(&item)) {
            Ok(at) => (Some(std::mem::replace(&mut leaf.slots[at], item)), None),
            Err(at) if !leaf.is_full() => {
                leaf.insert(at, item);
                (None, None)
            }
            Err(at) => {
                let right = leaf.insert_and_split(at, item);
                (None, Some(NodeId { at: self.leaves.put(right), level: 0 }))
            }
        }
    }

    fn remove(&mut self, key: M::Key) -> Option<M::Item> {
        let gone = self.remove_below(self.root, key)?;
        self.len -= 1;
        while self.root.level > 0 && self.entries(self.root).len() == 1 {
            let child = self.child(self.root, &self.entries(self.root)[0]);
            self.free(self.root);
            self.root = child;
        }
        Some(gone)
    }

    fn remove_below(&mut self, node: NodeId, key: M::Key) -> Option<M::Item> {
        if node.level == 0 {
            let leaf = &mut self.leaves.nodes[node.at as usize];
            let at = find::<M>(leaf.as_slice(), key).ok()?;
            return Some(leaf.remove(at));
        }
        let entries = self.entries(node);
        let at = branch(entries, key);
        let was = entries[at].sum;
        let child = self.child(node, &entries[at]);
        let gone = self.remove_below(child, key)?;
        let len = self.len_of(child);
        if len == 0 {
            self.free(child);
            self.inners.nodes[node.at as usize].remove(at);
            self.settle_from(node, at);
        } else if len > SPARSE || !self.merge_at(node, at) {
            self.inners.nodes[node.at as usize].slots[at] = self.entry_of(child);
            M::settle(self, node, at..at + 1, was);
        }
        Some(gone)
    }

    /// Merges the child under one entry with a neighbour, where both together leave room.
    fn merge_at(&mut self, node: NodeId, at: usize) -> bool {
        let entries = self.entries(node);
        let fits = |left: usize| {
            let (left, right) = (entries.get(left)?, entries.get(left + 1)?);
            let (left, right) = (self.child(node, left), self.child(node, right));
            (self.len_of(left) + self.len_of(right) <= MERGED).then_some((left, right))
        };
        let before = at.checked_sub(1);
        let Some((at, (left, right))) =
            fits(at).map(|pair| (at, pair)).or_else(|| before.and_then(|at| Some((at, fits(at)?))))
        else {
            return false;
        };
        self.merge(left, right);
        let merged = self.entry_of(left);
        let packed = &mut self.inners.nodes[node.at as usize];
        packed.remove(at + 1);
        packed.slots[at] = merged;
        self.settle_from(node, at);
        true
    }

    /// Moves all that lies under `right` to `left` and frees `right`.
    fn merge(&mut self, left: NodeId, right: NodeId) {
        if left.level == 0 {
            let moved = self.leaves.nodes[right.at as usize].clone();
            self.leaves.nodes[left.at as usize].append(moved.as_slice());
        } else {
            let moved = self.inners.nodes[right.at as usize].clone();
            let packed = &mut self.inners.nodes[left.at as usize];
            let from = packed.len;
            packed.append(moved.as_slice());
            self.settle_from(left, from);
        }
        self.free(right);
    }

    fn len_of(&self, node: NodeId) -> usize {
        match self.below(node) {
            Below::Items(items) => items.len(),
            Below::Entries(entries) => entries.len(),
        }
    }

    fn free(&mut self, node: NodeId) {
        if node.level == 0 { self.leaves.free.push(node.at) } else { self.inners.free.push(node.at) }
    }

    fn collect_below(&self, node: NodeId, into: &mut Vec<M::Item>) {
        match self.below(node) {
            Below::Items(items) => into.extend_from_slice(items),
            Below::Entries(entries) => {
                for entry in entries {
                    self.collect_below(self.child(node, entry), into);
                }
            }
        }
    }
}

/// Which entry the key lies under. One is looked at after the other: a search by halves does not know
/// where to look next before it has waited for memory, and what changes a node reads all of it anyway.
fn branch<M: Measure>(entries: &[Entry<M>], key: M::Key) -> usize {
    entries.iter().take_while(|entry| entry.first <= key).count().saturating_sub(1)
}

/// Where in a leaf the item of that key is, or else where it belongs; one after the other likewise.
fn find<M: Measure>(items: &[M::Item], key: M::Key) -> Result<usize, usize> {
    let at = items.iter().take_while(|item| M::key(item) < key).count();
    if items.get(at).is_some_and(|item| M::key(item) == key) { Ok(at) } else { Err(at) }
}

/// A sorted set: nothing, a few items, or a tree.
pub(super) struct Sorted<M: Measure> {
    held: Option<Box<Held<M>>>,
}

enum Held<M: Measure> {
    Few(Vec<M::Item>),
    Many(Box<Tree<M>>),
}

/// Where a search begins.
pub(super) enum Top<'a, M: Measure> {
    Items(&'a [M::Item]),
    Tree(&'a Tree<M>),
}

impl<M: Measure> Sorted<M> {
    pub(super) const fn new() -> Self {
        Sorted { held: None }
    }

    pub(super) fn len(&self) -> usize {
        match self.top() {
            Top::Items(items) => items.len(),
            Top::Tree(tree) => tree.len,
        }
    }

    pub(super) fn top(&self) -> Top<'_, M> {
        match self.held.as_deref() {
            None => Top::Items(&[]),
            Some(Held::Few(items)) => Top::Items(items),
            Some(Held::Many(tree)) => Top::Tree(tree),
        }
    }

    /// The sum of the whole set; `None` where it is empty.
    pub(super) fn sum(&self) -> Option<M::Sum> {
        match self.top() {
            Top::Items([]) => None,
            Top::Items(items) => Some(M::of_items(items)),
            Top::Tree(tree) => Some(tree.entry_of(tree.root).sum),
        }
    }

    pub(super) fn get(&self, key: M::Key) -> Option<&M::Item> {
        match self.top() {
            Top::Items(items) => find::<M>(items, key).ok().map(|at| &items[at]),
            Top::Tree(tree) => tree.get(key),
        }
    }

    /// Returns the item of the same key that it replaces.
    pub(super) fn insert(&mut self, item: M::Item) -> Option<M::Item> {
        let held = self.held.get_or_insert_with(|| Box::new(Held::Few(Vec::new())));
        match held.as_mut() {
            Held::Many(tree) => tree.insert(item),
            Held::Few(items) => match find::<M>(items, M::key(&item)) {
                Ok(at) => Some(std::mem::replace(&mut items[at], item)),
                Err(at) if items.len() < LEAF => {
                    // By doubling from 1: a vector left to itself begins with room for 4.
                    if items.len() == items.capacity() {
                        items.reserve_exact(items.len().max(1));
                    }
                    items.insert(at, item);
                    None
                }
                Err(_) => {
                    let mut tree = Tree::of_leaf(items);
                    let replaced = tree.insert(item);
                    **held = Held::Many(Box::new(tree));
                    replaced
                }
            },
        }
    }

    pub(super) fn remove(&mut self, key: M::Key) -> Option<M::Item> {
        let held = self.held.as_deref_mut()?;
        match held {
            Held::Few(items) => {
                let gone = items.remove(find::<M>(items, key).ok()?);
                if items.is_empty() {
                    self.held = None;
                }
                Some(gone)
            }
            Held::Many(tree) => {
                let gone = tree.remove(key);
                if tree.len <= FEW_AGAIN {
                    let mut items = Vec::with_capacity(LEAF);
                    tree.collect_below(tree.root, &mut items);
                    *held = Held::Few(items);
                }
                gone
            }
        }
    }
}

impl<M: Measure> Clone for Sorted<M> {
    fn clone(&self) -> Self {
        let held = self.held.as_deref().map(|held| match held {
            Held::Few(items) => Held::Few(items.clone()),
            Held::Many(tree) => Held::Many(tree.clone()),
        });
        Sorted { held: held.map(Box::new) }
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
