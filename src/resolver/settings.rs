//! The table of resources: what holds for a path, by the longest prefix that sets it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::digest::{Item, ItemHasher, StateDigest};
use super::few::Few;
use crate::resolver::Resource;
use crate::types::{Claim, FixedMap, Micros, Mode, Path};

/// Resources by path, with the capacities that were set at run time.
#[derive(Debug, Default)]
pub(super) struct Settings {
    by_path: FixedMap<Path, Resource>,
    /// Every path with a capacity.
    pools: BTreeSet<Path>,
    /// Capacities that were set at run time.
    set_at_run_time: BTreeMap<Path, SetAtRunTime>,
    /// The hashes of those that a new table has replaced.
    dropped: Vec<Option<u128>>,
}

/// A capacity that was set at run time, beside what is in force.
#[derive(Clone, Copy, Debug)]
struct SetAtRunTime {
    /// Its part of the state digest, once it is in.
    hash: Option<u128>,
    /// What the table has.
    configured: Option<u64>,
}

/// A path's capacity, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool<'a> {
    pub(super) path: &'a Path,
    pub(super) capacity: u64,
    /// What the table of resources has.
    pub(super) configured: Option<u64>,
    pub(super) is_set_at_run_time: bool,
}

impl Settings {
    pub(super) fn new(resources: &[Resource]) -> Self {
        let by_path = resources.iter().map(|it| (it.path.clone(), it.clone())).collect();
        let pools = resources.iter().filter(|it| it.capacity.is_some()).map(|it| it.path.clone()).collect();
        Settings { by_path, pools, ..Settings::default() }
    }

    /// Takes a new table, in which nothing is set at run time any longer.
    pub(super) fn replace(&mut self, resources: &[Resource]) {
        let mut dropped = std::mem::take(&mut self.dropped);
        dropped.extend(std::mem::take(&mut self.set_at_run_time).into_values().map(|it| it.hash));
        *self = Settings { dropped, ..Settings::new(resources) };
    }

    /// Takes what changed in this slot into the state digest. The table itself is configuration.
    /// Returns the capacities set at run time, where they changed.
    pub(super) fn settle(&mut self, digest: &mut StateDigest) -> Option<Vec<(Path, u64)>> {
        let is_new = |it: &SetAtRunTime| it.hash.is_none();
        let has_changed = !self.dropped.is_empty() || self.set_at_run_time.values().any(is_new);
        self.dropped.drain(..).for_each(|hash| digest.replace(hash, None));
        for (path, it) in self.set_at_run_time.iter_mut().filter(|(_, it)| is_new(it)) {
            let capacity = self.by_path.get(path).and_then(|it| it.capacity);
            it.hash = capacity.map(|capacity| hash_of_capacity(path, capacity));
            digest.replace(None, it.hash);
        }
        has_changed.then(|| self.capacities().collect())
    }

    /// The capacities that were set at run time, by path.
    fn capacities(&self) -> impl Iterator<Item = (Path, u64)> {
        let capacity = |path: &Path| self.by_path.get(path)?.capacity;
        self.set_at_run_time.keys().filter_map(move |path| Some((path.clone(), capacity(path)?)))
    }

    /// The digest's part of each capacity that was set at run time, made afresh.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u128> {
        self.capacities().map(|(path, capacity)| hash_of_capacity(&path, capacity))
    }

    pub(super) fn set_capacity(&mut self, path: &Path, capacity: u64) {
        let resource = self.by_path.entry(path.clone()).or_insert_with(|| Resource::new(path.clone()));
        let before = resource.capacity.replace(capacity);
        self.pools.insert(path.clone());
        let old = self.set_at_run_time.get(path).copied();
        let configured = old.map_or(before, |old| old.configured);
        self.set_at_run_time.insert(path.clone(), SetAtRunTime { hash: None, configured });
        self.dropped.extend(old.map(|old| old.hash));
    }

    /// The capacity of `path`, where it has one of its own.
    pub(super) fn pool<'a>(&'a self, path: &'a Path) -> Option<Pool<'a>> {
        let capacity = self.by_path.get(path)?.capacity?;
        let set = self.set_at_run_time.get(path);
        let configured = set.map_or(Some(capacity), |set| set.configured);
        Some(Pool { path, capacity, configured, is_set_at_run_time: set.is_some() })
    }

    /// Every path with a capacity from `from` on, in order. Finds the first in logarithmic time.
    pub(super) fn pools_from<'a>(&'a self, from: Bound<&Path>) -> impl Iterator<Item = Pool<'a>> + use<'a> {
        self.pools.range::<Path, _>((from, Bound::Unbounded)).filter_map(|path| self.pool(path))
    }

    /// Those whose capacity was set at run time, by path.
    pub(super) fn pools_set_at_run_time(&self) -> impl Iterator<Item = Pool<'_>> {
        self.set_at_run_time.keys().filter_map(|path| self.pool(path))
    }

    /// The first that is set, from the path upwards.
    fn nearest<T>(&self, path: &Path, key: impl Fn(&Resource) -> Option<T>) -> Option<T> {
        if self.by_path.is_empty() {
            return None;
        }
        path.lineage().rev().filter_map(|node| self.by_path.get(node)).find_map(key)
    }

    /// Overlap in time that is no conflict on this path.
    pub(super) fn time_tolerance(&self, path: &Path) -> Micros {
        self.nearest(path, |it| it.time_tolerance).unwrap_or(Micros::ZERO)
    }

    /// The tolerance of each claim's target.
    pub(super) fn tolerances(&self, claims: &[Claim]) -> Few<Micros> {
        claims.iter().map(|claim| self.time_tolerance(claim.target.path())).collect()
    }

    /// Every path with a capacity.
    pub(super) fn all_pools(&self) -> impl Iterator<Item = &Path> {
        self.pools.iter()
    }

    /// Overlap ratio that is no conflict in this frame; 0 means that any overlap is one.
    pub(super) fn overlap_ratio(&self, path: &Path) -> f64 {
        self.nearest(path, |it| it.overlap_ratio).unwrap_or(0.0)
    }

    /// The longest that a claim on this path may last.
    pub(super) fn max_hold(&self, path: &Path) -> Option<Micros> {
        self.nearest(path, |it| it.max_hold)
    }

    /// The paths with a capacity that a claim of units on `path` draws on, each with its capacity.
    pub(super) fn pools<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = (&'a Path, u64)> + 'a {
        let found = path.lineage().filter_map(|node| self.by_path.get(node));
        found.filter_map(|it| it.capacity.map(|capacity| (&it.path, capacity)))
    }

    /// What the claims of one intent draw on each pool.
    pub(super) fn draws(&self, claims: &[Claim]) -> Vec<Draw> {
        let mut draws: Vec<Draw> = Vec::new();
        for (index, claim) in claims.iter().enumerate() {
            if !matches!(claim.mode, Mode::Units(_)) {
                continue;
            }
            for (pool, capacity) in self.pools(claim.target.path()) {
                match draws.iter_mut().find(|draw| draw.pool == *pool) {
                    Some(draw) => draw.claims.push(index),
                    None => draws.push(Draw { pool: pool.clone(), capacity, claims: vec![index] }),
                }
            }
        }
        draws
    }
}

pub(super) fn hash_of_capacity(path: &Path, capacity: u64) -> u128 {
    ItemHasher::default().hash(Item::Resource, |hasher| {
        hasher.text(path.as_str());
        hasher.option(Some(capacity), ItemHasher::number);
    })
}

/// The claims of one intent that draw on one pool.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    pub(super) pool: Path,
    pub(super) capacity: u64,
    /// Indexes of the claims of units on the pool's path or below it.
    pub(super) claims: Vec<usize>,
}
