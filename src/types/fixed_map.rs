//! Maps without a random seed, for the pure rooms. Their order must still never be read for a
//! decision; where order matters, use a `BTreeMap`.
#![allow(clippy::disallowed_types)] // this file is where the seeded map is replaced

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A hash map whose hasher has fixed keys.
pub type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<FoldHasher>>;

/// A hash set whose hasher has fixed keys.
pub type FixedSet<K> = HashSet<K, BuildHasherDefault<FoldHasher>>;

/// Folds each word in by one multiplication: a few times faster than the standard library's, whose strength would be
/// wasted here. Keys that anybody knows keep nobody from making collisions.
#[derive(Clone, Copy, Debug)]
pub struct FoldHasher(u64);

/// Digits of pi, which have no pattern.
const SEED: u64 = 0x243F_6A88_85A3_08D3;
const FACTOR: u64 = 0x1319_8A2E_0370_7344 | 1;

impl Default for FoldHasher {
    fn default() -> Self {
        FoldHasher(SEED)
    }
}

impl FoldHasher {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        // Low bits choose the bucket, high bits tell entries apart: each half has to know of the other.
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for FoldHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.fold(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            // With how many there are, so that zeros at the end count.
            let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.fold(last | (rest.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.fold(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.fold(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.fold(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.fold(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, Hash};

    use super::*;

    fn hash(what: impl Hash) -> u64 {
        BuildHasherDefault::<FoldHasher>::default().hash_one(what)
    }

    #[test]
    fn numbers_and_names_that_follow_each_other_spread_over_buckets_and_tags() {
        let names: Vec<u64> = (0..4096).map(|n| hash(format!("zone-{}/cell-{n}", n % 7))).collect();
        let numbers: Vec<u64> = (0..4096_u64).map(hash).collect();
        let steps: Vec<u64> = (0..4096_u64).map(|n| hash(n << 20)).collect();
        for hashes in [names, numbers, steps] {
            for shift in [0, 52] {
                let mut used = vec![0_u32; 4096];
                hashes.iter().for_each(|hash| used[(hash >> shift) as usize % 4096] += 1);
                let (taken, most) = (used.iter().filter(|count| **count > 0).count(), used.iter().max());
                // By chance 1 - 1/e of them would be taken, 2,589, and the fullest have about 7.
                assert!((2000..=4096).contains(&taken) && most < Some(&12), "{taken} {most:?}");
            }
        }
    }

    #[test]
    fn what_differs_in_length_alone_differs() {
        assert_ne!(hash(b"ab".as_slice()), hash(b"ab\0".as_slice()));
        assert_ne!(hash("a"), hash("a\0"));
        assert_ne!(hash(("ab", "c")), hash(("a", "bc")));
    }
}
