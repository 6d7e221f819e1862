//! Maps without a random seed, for the pure rooms. Their order must still never be read for a
//! decision; where order matters, use a `BTreeMap`.
#![allow(clippy::disallowed_types)] // this file is where the seeded map is replaced

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use siphasher::sip::SipHasher13;

/// A hash map whose hasher has fixed keys.
pub type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<FixedHasher>>;

/// A hash set whose hasher has fixed keys.
pub type FixedSet<K> = HashSet<K, BuildHasherDefault<FixedHasher>>;

/// A map by [`fixed_hash`], which is not hashed again.
pub type HashedMap<V> = HashMap<u64, V, BuildHasherDefault<Hashed>>;

/// Any odd number: half of a key, beside what was hashed so far.
const KEY: u64 = 0x9e37_79b9_7f4a_7c15;

/// What no byte of a text is; the standard library writes it behind one.
const END_OF_TEXT: u8 = 0xff;

/// SipHash-1-3 of one part after the other: each part's hash is half of the next one's key.
///
/// A part is hashed in one go, in about half the time that the standard library's hasher takes to collect
/// it. One that folds word after word in by a multiplication would be faster yet; but agents choose the ids and paths
/// that are hashed, and whatever a name begins with, one exclusive or finds an end with which it hashes like another:
/// a hundred thousand such names, and each look at one compares them all. Here each pair takes a search.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedHasher(u64);

impl Hasher for FixedHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = SipHasher13::new_with_keys(self.0, KEY).hash(bytes);
    }

    fn write_u8(&mut self, byte: u8) {
        if byte == END_OF_TEXT {
            self.0 = self.0.rotate_left(1); // parts are told apart without it
        } else {
            self.write(&[byte]);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The hash of a value, alike in every process.
pub fn fixed_hash(value: &(impl Hash + ?Sized)) -> u64 {
    BuildHasherDefault::<FixedHasher>::default().hash_one(value)
}

/// Takes a hash for what it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = fixed_hash(&(self.0, bytes));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_any_part_differs_in_its_hash() {
        let all = [
            fixed_hash(&("ab", "c")),
            fixed_hash(&("a", "bc")),
            fixed_hash(&("", "abc")),
            fixed_hash(&("abc", "")),
            fixed_hash(&"abc"),
            fixed_hash(&("abc", 0_u8)),
            fixed_hash(&("abc", u8::MAX)),
            fixed_hash(&("abc", 1_u64)),
            fixed_hash(&("abc", 1_u32)),
            fixed_hash(&1_u64),
        ];
        let different: FixedSet<u64> = all.into_iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(fixed_hash(&"abc"), fixed_hash(&String::from("abc")), "as it is looked up");
    }

    #[test]
    fn buckets_fill_evenly_whatever_is_counted_up() {
        let mut buckets = [0_u32; 64];
        for id in 0..64_000_u64 {
            buckets[(fixed_hash(&("agent", id)) % 64) as usize] += 1;
            buckets[(fixed_hash(&(id as u8)) >> 58) as usize] += 1;
        }
        assert!(buckets.iter().all(|count| (800..4_500).contains(count)), "{buckets:?}");
    }

    #[test]
    fn a_hash_is_taken_for_what_it_is() {
        let mut map = HashedMap::default();
        map.insert(7, 'a');
        assert_eq!((map.get(&7), map.get(&8)), (Some(&'a'), None));
        assert_eq!(BuildHasherDefault::<Hashed>::default().hash_one(7_u64), 7);
    }
}
