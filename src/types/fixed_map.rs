//! Maps without a random seed, for the pure rooms. Their order must still never be read for a
//! decision; where order matters, use a `BTreeMap`.
#![allow(clippy::disallowed_types)] // this file is where the seeded map is replaced

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};

/// A hash map whose hasher has fixed keys.
pub type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// A hash set whose hasher has fixed keys.
pub type FixedSet<K> = HashSet<K, BuildHasherDefault<DefaultHasher>>;
