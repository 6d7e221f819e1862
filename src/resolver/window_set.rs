//! A set of windows, by start: the plain form of the index that the ledger stands on.

use std::collections::BTreeMap;

use crate::types::{Time, Window};

/// Windows with a key each; a window may stand in it under several keys.
#[derive(Debug, Default)]
pub(super) struct WindowSet {
    by_start: BTreeMap<(Time, u64), Time>,
}

impl WindowSet {
    pub(super) fn insert(&mut self, window: Window, key: u64) {
        self.by_start.insert((window.start(), key), window.end());
    }

    pub(super) fn remove(&mut self, window: Window, key: u64) {
        self.by_start.remove(&(window.start(), key));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    pub(super) fn for_each_overlapping(&self, range: Window, mut f: impl FnMut(u64)) {
        for ((_, key), end) in self.by_start.range(..(range.end(), 0)) {
            if *end > range.start() {
                f(*key);
            }
        }
    }
}
