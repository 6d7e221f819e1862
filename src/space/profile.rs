//! Profiles: how many units are out at each instant, as the sum of windows put in and taken out.
//!
//! What is kept is the change at each instant at which the sum changes; each part of the profile
//! knows its total and the highest and lowest sum within it, so that parts that are free throughout or
//! taken throughout are passed over. It counts nothing itself: what is taken out must have been put in.

use std::fmt;
use std::ops::ControlFlow;

use super::tree::{Below, Entry, Measure, NodeId, Sorted, Top, Tree};
use crate::types::{Micros, Time, Window};

/// The sum of units over time.
#[derive(Clone)]
pub struct Profile {
    changes: Sorted<ByInstant>,
}

impl Profile {
    /// A profile without units. It takes the room of a pointer.
    pub const fn new() -> Self {
        Profile { changes: Sorted::new() }
    }

    /// Whether the sum is the same, 0, at all times.
    pub fn is_empty(&self) -> bool {
        self.changes.len() == 0
    }

    /// Puts in `units` for the time of `window`.
    pub fn add(&mut self, window: Window, units: u64) {
        self.change(window.start(), i128::from(units));
        self.change(window.end(), -i128::from(units));
    }

    /// Takes out what was put in by [`Profile::add`] with the same arguments, or with windows and units
    /// that come to the same sums.
    pub fn sub(&mut self, window: Window, units: u64) {
        self.change(window.start(), -i128::from(units));
        self.change(window.end(), i128::from(units));
    }

    fn change(&mut self, at: Time, by: i128) {
        let at = at.as_us();
        let by = self.changes.get(at).map_or(0, |change| change.by).saturating_add(by);
        if by == 0 {
            self.changes.remove(at);
        } else {
            self.changes.insert(Change { at, by });
        }
    }

    /// The highest sum at any instant of `window`; [`u64::MAX`] stands for itself and all above.
    pub fn max_over(&self, window: Window) -> u64 {
        let mut walk = Peak { start: window.start().as_us(), end: window.end().as_us(), sum: 0, peak: 0 };
        match self.changes.top() {
            Top::Items(changes) => walk.pass_changes(changes),
            Top::Tree(tree) => walk.pass_node(tree, tree.root(), u64::MAX),
        }
        u64::try_from(walk.peak.max(walk.sum).max(0)).unwrap_or(u64::MAX)
    }

    /// The earliest start from `from` to `limit`, both included, at which `needed` more units keep the
    /// sum within `capacity` at all instants of a window of `duration`. Ends beyond [`Time::MAX`]
    /// saturate.
    pub fn earliest_fit(
        &self,
        from: Time,
        duration: Micros,
        needed: u64,
        capacity: u64,
        limit: Time,
    ) -> Option<Time> {
        let room = i128::from(capacity.checked_sub(needed)?);
        let mut search = FitSearch {
            from: from.as_us(),
            duration: duration.as_us(),
            room,
            limit: limit.as_us(),
            sum: 0,
            open: Some(from.as_us()),
        };
        // Whether it broke off early or came to the last change: what it found is in the search.
        let _ = match self.changes.top() {
            Top::Items(changes) => search.pass_changes(changes),
            Top::Tree(tree) => search.pass_node(tree, tree.root(), u64::MAX),
        };
        search.open.filter(|start| *start <= limit.as_us()).map(Time::from_us)
    }
}

impl Default for Profile {
    fn default() -> Self {
        Profile::new()
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("changes", &self.changes.len()).finish_non_exhaustive()
    }
}

/// The sum changes by this much here.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: u64,
    by: i128,
}

/// How a profile is measured.
struct ByInstant;

/// What is known about a run of changes, counted from the sum before the first of them.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// All changes together.
    total: i128,
    /// The highest sum after any of them.
    peak: i128,
    /// The lowest sum after any of them.
    dip: i128,
}

impl Sum {
    const NOTHING: Sum = Sum { total: 0, peak: i128::MIN, dip: i128::MAX };

    fn then(self, next: Sum) -> Sum {
        Sum {
            total: self.total + next.total,
            peak: self.peak.max(self.total + next.peak),
            dip: self.dip.min(self.total + next.dip),
        }
    }
}

impl Measure for ByInstant {
    type Item = Change;
    type Key = u64;
    type Sum = Sum;

    fn key(change: &Change) -> u64 {
        change.at
    }

    fn of_items(changes: &[Change]) -> Sum {
        let one = |change: &Change| Sum { total: change.by, peak: change.by, dip: change.by };
        changes.iter().map(one).fold(Sum::NOTHING, Sum::then)
    }

    fn of_entries(entries: &[Entry<Self>]) -> Sum {
        entries.iter().map(|entry| entry.sum).fold(Sum::NOTHING, Sum::then)
    }
}

/// Each entry of a node, and an instant after all changes below it; `until` is after all of the node.
fn spans(entries: &[Entry<ByInstant>], until: u64) -> impl Iterator<Item = (&Entry<ByInstant>, u64)> {
    let ends = entries.iter().skip(1).map(|entry| entry.first).chain([until]);
    entries.iter().zip(ends)
}

/// A walk from the first change to the end of a window.
struct Peak {
    start: u64,
    end: u64,
    sum: i128,
    peak: i128,
}

impl Peak {
    fn pass_changes(&mut self, changes: &[Change]) {
        let end = self.end;
        for change in changes.iter().take_while(|change| change.at < end) {
            if change.at > self.start {
                self.peak = self.peak.max(self.sum);
            }
            self.sum += change.by;
        }
    }

    fn pass_node(&mut self, tree: &Tree<ByInstant>, node: NodeId, until: u64) {
        let entries = match tree.below(node) {
            Below::Items(changes) => return self.pass_changes(changes),
            Below::Entries(entries) => entries,
        };
        let end = self.end;
        for (entry, until) in spans(entries, until).take_while(|(entry, _)| entry.first < end) {
            if until - 1 <= self.start {
                self.sum += entry.sum.total;
            } else if entry.first > self.start && until <= end {
                self.peak = self.peak.max(self.sum).max(self.sum + entry.sum.peak);
                self.sum += entry.sum.total;
            } else {
                self.pass_node(tree, tree.child(node, entry), until);
            }
        }
    }
}

/// A search for the earliest stretch of `duration` throughout which the sum is at most `room`.
struct FitSearch {
    from: u64,
    duration: u64,
    room: i128,
    limit: u64,
    /// The sum after the changes passed so far.
    sum: i128,
    /// From when on the sum has been at most `room`, up to here.
    open: Option<u64>,
}

/// Whether the search goes on to the next change.
type Pass = ControlFlow<()>;

impl FitSearch {
    /// Breaks off where the answer is known before a change at `at`.
    fn arrive(&self, at: u64) -> Pass {
        let is_known = match self.open {
            Some(start) => at >= start.saturating_add(self.duration),
            None => at > self.limit,
        };
        if is_known { Pass::Break(()) } else { Pass::Continue(()) }
    }

    fn pass_changes(&mut self, changes: &[Change]) -> Pass {
        for change in changes {
            if change.at > self.from {
                self.arrive(change.at)?;
            }
            self.sum += change.by;
            self.open = match self.open {
                _ if self.sum > self.room => None,
                Some(start) => Some(start),
                None => Some(change.at.max(self.from)),
            };
        }
        Pass::Continue(())
    }

    fn pass_node(&mut self, tree: &Tree<ByInstant>, node: NodeId, until: u64) -> Pass {
        let entries = match tree.below(node) {
            Below::Items(changes) => return self.pass_changes(changes),
            Below::Entries(entries) => entries,
        };
        for (entry, until) in spans(entries, until) {
            let after = self.sum + entry.sum.total;
            if until - 1 <= self.from {
                self.open = (after <= self.room).then_some(self.from);
            } else if entry.first <= self.from {
                self.pass_node(tree, tree.child(node, entry), until)?;
            } else {
                self.arrive(entry.first)?;
                self.pass_part(tree, tree.child(node, entry), entry, until)?;
            }
            self.sum = after;
        }
        Pass::Continue(())
    }

    /// Passes what lies below one entry, after `from`, and leaves the sum to the caller.
    fn pass_part(
        &mut self,
        tree: &Tree<ByInstant>,
        child: NodeId,
        entry: &Entry<ByInstant>,
        until: u64,
    ) -> Pass {
        if self.sum + entry.sum.peak <= self.room {
            self.open.get_or_insert(entry.first);
        } else if self.sum + entry.sum.dip > self.room {
            self.open = None;
        } else if until - entry.first <= self.duration {
            // No stretch fits between two instants in here: it ends here or begins here.
            if self.open.is_some()
                && let Some(taken) = self.first_taken(tree, child, self.sum)
            {
                self.arrive(taken)?;
            }
            self.open = self.last_opened(tree, child, self.sum);
        } else {
            self.pass_node(tree, child, until)?;
        }
        Pass::Continue(())
    }

    /// The first instant below `node` at which the sum, `sum` before, is above the room.
    fn first_taken(&self, tree: &Tree<ByInstant>, node: NodeId, mut sum: i128) -> Option<u64> {
        match tree.below(node) {
            Below::Items(changes) => {
                let is_taken = |change: &&Change| {
                    sum += change.by;
                    sum > self.room
                };
                changes.iter().find(is_taken).map(|change| change.at)
            }
            Below::Entries(entries) => {
                for entry in entries {
                    if sum + entry.sum.peak > self.room {
                        return self.first_taken(tree, tree.child(node, entry), sum);
                    }
                    sum += entry.sum.total;
                }
                None
            }
        }
    }

    /// The instant below `node` from which on the sum, `sum` before, is at most the room up to the last
    /// change; `None` where it is above it after that.
    fn last_opened(&self, tree: &Tree<ByInstant>, node: NodeId, mut sum: i128) -> Option<u64> {
        match tree.below(node) {
            Below::Items(changes) => {
                let mut opened = None;
                for change in changes {
                    sum += change.by;
                    opened = if sum > self.room { None } else { opened.or(Some(change.at)) };
                }
                opened
            }
            Below::Entries(entries) => {
                let mut taken = None;
                let mut opened = None;
                for entry in entries {
                    if sum + entry.sum.peak > self.room {
                        (taken, opened) = (Some((entry, sum)), None);
                    } else {
                        opened = opened.or(Some(entry.first));
                    }
                    sum += entry.sum.total;
                }
                let within =
                    taken.and_then(|(entry, sum)| self.last_opened(tree, tree.child(node, entry), sum));
                within.or(opened)
            }
        }
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
