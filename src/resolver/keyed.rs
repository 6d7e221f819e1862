//! Things by number, found by key too.

use std::hint::black_box;

use super::slab::{Number, Slab};
use crate::types::HashedMap;

/// What is found by a key that it knows itself.
pub(super) trait Keyed {
    type Key: ?Sized + PartialEq;

    fn key(&self) -> &Self::Key;
}

/// A thing, and where the next one stands whose key has the same hash.
#[derive(Clone, Debug)]
struct Linked<T> {
    thing: T,
    hash: u64,
    next: Option<Number>,
}

/// Into how many tables the hashes are parted. A table that grows moves all that it has: each of these does at another
/// time than the others, and at a million things in a fifth of a millisecond.
const PARTS: usize = 256;

/// Things by number and by key. A key stands in its thing alone, so that a look for one reads a table of hashes, which
/// is small, and the thing, which is read next anyway. Who asks brings the key's hash.
#[derive(Clone, Debug)]
pub(super) struct KeyedSlab<T> {
    slab: Slab<Linked<T>>,
    /// The first thing of each hash.
    first: Vec<HashedMap<Number>>,
}

impl<T> Default for KeyedSlab<T> {
    fn default() -> Self {
        KeyedSlab { slab: Slab::default(), first: vec![HashedMap::default(); PARTS] }
    }
}

/// Not by those bits that place a hash within its table.
fn part(hash: u64) -> usize {
    (hash >> 32) as usize % PARTS
}

impl<T: Keyed> KeyedSlab<T> {
    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize) {
        self.first.iter_mut().for_each(|part| part.reserve(more / PARTS));
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn get(&self, no: Number) -> Option<&T> {
        self.slab.get(no).map(|linked| &linked.thing)
    }

    pub(super) fn get_mut(&mut self, no: Number) -> Option<&mut T> {
        self.slab.get_mut(no).map(|linked| &mut linked.thing)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Number, &T)> {
        self.slab.iter().map(|(no, linked)| (no, &linked.thing))
    }

    fn first(&self, hash: u64) -> Option<Number> {
        self.first[part(hash)].get(&hash).copied()
    }

    /// Those whose keys have that hash, from `first` on.
    fn alike(&self, first: Option<Number>) -> impl Iterator<Item = (Number, &Linked<T>)> {
        let at = |no: Number| Some((no, self.slab.get(no)?));
        std::iter::successors(first.and_then(at), move |(_, linked)| at(linked.next?))
    }

    fn find_from(&self, first: Option<Number>, key: &T::Key) -> Option<Number> {
        self.alike(first).find(|(_, linked)| linked.thing.key() == key).map(|(no, _)| no)
    }

    /// The number of the thing with that key, where there is one.
    pub(super) fn find(&self, hash: u64, key: &T::Key) -> Option<Number> {
        self.find_from(self.first(hash), key)
    }

    /// Looks where things of these hashes stand or would stand. Their places lie far apart in large tables: looked at
    /// one right after the other, they come from memory side by side, and are at hand when their turns come.
    pub(super) fn look_ahead(&self, hashes: impl Iterator<Item = u64>) {
        black_box(hashes.filter(|hash| self.first[part(*hash)].contains_key(hash)).count());
    }

    /// The hash that the thing's key was entered with.
    pub(super) fn hash_of(&self, no: Number) -> Option<u64> {
        self.slab.get(no).map(|linked| linked.hash)
    }

    /// The number of the thing with that key, and whether it is a new one, which `make` made.
    pub(super) fn enter(&mut self, hash: u64, key: &T::Key, make: impl FnOnce() -> T) -> (Number, bool) {
        let new = self.slab.next();
        let table = &mut self.first[part(hash)];
        let first = *table.entry(hash).or_insert(new);
        let next = (first != new).then_some(first);
        if let Some(no) = self.find_from(next, key) {
            return (no, false);
        }
        self.slab.put(Linked { thing: make(), hash, next });
        if next.is_some() {
            self.first[part(hash)].insert(hash, new);
        }
        (new, true)
    }

    /// Takes a thing out.
    pub(super) fn remove(&mut self, no: Number) -> Option<T> {
        let Linked { thing, hash, next } = self.slab.take(no)?;
        let table = &mut self.first[part(hash)];
        match (table.get(&hash) == Some(&no), next) {
            (true, Some(next)) => _ = table.insert(hash, next),
            (true, None) => _ = table.remove(&hash),
            (false, _) => self.unlink(hash, no, next),
        }
        Some(thing)
    }

    /// Leads past a thing that is gone and was not the first of its hash.
    fn unlink(&mut self, hash: u64, gone: Number, next: Option<Number>) {
        let before = self.alike(self.first(hash)).find(|(_, linked)| linked.next == Some(gone));
        if let Some(before) = before.map(|(no, _)| no).and_then(|no| self.slab.get_mut(no)) {
            before.next = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::fixed_hash;

    impl Keyed for u64 {
        type Key = u64;

        fn key(&self) -> &u64 {
            self
        }
    }

    /// With a hash that tells nothing apart, with one that tells some apart, and with the real one.
    #[test]
    fn things_of_one_hash_are_told_apart_in_whatever_order_they_go() {
        let hashes: [fn(u64) -> u64; 3] = [|_| 7, |key| key % 2, |key| fixed_hash(&key)];
        for (hash, first) in hashes.into_iter().flat_map(|hash| (0..5).map(move |first| (hash, first))) {
            let mut things = KeyedSlab::default();
            let numbers: Vec<Number> = (0..5).map(|key| things.enter(hash(key), &key, || key).0).collect();
            let again = |key: u64| (numbers[key as usize], false);
            assert!((0..5).all(|key| things.enter(hash(key), &key, || key) == again(key)));
            for nth in 0..5 {
                let gone = (first + 2 * nth) % 5;
                assert_eq!(things.remove(numbers[gone as usize]), Some(gone));
                assert_eq!(things.remove(numbers[gone as usize]), None);
                for key in 0..5 {
                    let is_gone = (0..=nth).any(|nth| (first + 2 * nth) % 5 == key);
                    let found = (!is_gone).then_some(numbers[key as usize]);
                    assert_eq!(things.find(hash(key), &key), found, "{first} {nth} {key}");
                }
            }
            assert!(things.first.iter().all(HashedMap::is_empty) && things.iter().next().is_none());
        }
    }

    #[test]
    fn the_tables_fill_evenly() {
        let mut things = KeyedSlab::default();
        (0..64_000_u64).for_each(|key| _ = things.enter(fixed_hash(&key), &key, || key));
        assert_eq!(things.len(), 64_000);
        assert!(things.first.iter().all(|part| (125..500).contains(&part.len())), "250 on average");
    }
}
