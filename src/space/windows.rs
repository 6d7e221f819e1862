//! Sets of windows on one thing: which of them overlap a span of time, and where the next gap is.
//!
//! Members may overlap each other in any way. Each part of a set knows its latest end and the largest
//! stretch that none of it covers, so that a search for a gap passes over all parts too crowded for it
//! and comes down where there is one. Nothing here depends on the order in which members came.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};

use super::tree::{Below, Entry, Measure, NodeId, Sorted, Top, Tree};
use crate::types::{Micros, Time, Window};

/// One member of a [`WindowSet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<V> {
    /// When.
    pub window: Window,
    /// Tells members of one start apart.
    pub key: u64,
    /// Its time tolerance: an overlap by no more than this, or by no more than the other's, whichever
    /// is less, is no conflict.
    pub tau: Micros,
    /// What the caller keeps with it.
    pub value: V,
}

impl<V> Member<V> {
    /// Whether a claim on `window` with the tolerance `tau` conflicts with this member.
    pub fn conflicts(&self, window: Window, tau: Micros) -> bool {
        self.window.overlaps_by_more_than(window, tau.min(self.tau))
    }
}

/// A set of windows, in order of (start, key).
pub struct WindowSet<V: Copy> {
    members: Sorted<ByStart<V>>,
}

impl<V: Copy> WindowSet<V> {
    /// An empty set. It takes the room of a pointer.
    pub const fn new() -> Self {
        WindowSet { members: Sorted::new() }
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.members.len() == 0
    }

    /// Puts in a member. Of one start and key there is one member at most: an older one is replaced and
    /// returned.
    pub fn insert(&mut self, window: Window, key: u64, tau: Micros, value: V) -> Option<Member<V>> {
        self.members.insert(Member { window, key, tau, value })
    }

    /// Takes out the member of this window and key; `None` where there is none.
    pub fn remove(&mut self, window: Window, key: u64) -> Option<Member<V>> {
        let at = (window.start().as_us(), key);
        let found = self.members.get(at)?;
        if found.window == window { self.members.remove(at) } else { None }
    }

    /// The latest end of all members; `None` where there are none.
    pub fn latest_end(&self) -> Option<Time> {
        self.members.sum().map(|sum| Time::from_us(sum.end))
    }

    /// Calls `f` with each member that shares an instant with `range`, in order of (start, key).
    pub fn for_each_overlapping(&self, range: Window, mut f: impl FnMut(&Member<V>)) {
        let all: ControlFlow<()> = self.try_for_each_overlapping(range, |member| {
            f(member);
            ControlFlow::Continue(())
        });
        debug_assert!(all.is_continue());
    }

    /// As [`WindowSet::for_each_overlapping`], until `f` breaks.
    pub fn try_for_each_overlapping<B>(
        &self,
        range: Window,
        mut f: impl FnMut(&Member<V>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self.members.top() {
            Top::Items(members) => overlapping_among(members, range, &mut f),
            Top::Tree(tree) => overlapping_below(tree, tree.root(), range, &mut f),
        }
    }

    /// The earliest start from `from` to `limit`, both included, at which a window of `duration` with the
    /// tolerance `tau` conflicts with no member: it may overlap each by no more than the smaller
    /// tolerance of the two. Ends beyond [`Time::MAX`] saturate.
    pub fn earliest_gap(&self, from: Time, duration: Micros, tau: Micros, limit: Time) -> Option<Time> {
        self.finish(GapSearch::new(from, duration, tau, limit))
    }

    fn finish(&self, mut search: GapSearch) -> Option<Time> {
        loop {
            (search.is_unsure, search.again) = (false, false);
            // Whether it broke off early or came to the last member: what it found is in the search.
            let _ = match self.members.top() {
                Top::Items(members) => search.pass_members(members),
                Top::Tree(tree) => search.pass_node(tree, tree.root(), u64::MAX),
            };
            if search.start > search.limit {
                return None;
            }
            if !search.again {
                return Some(Time::from_us(search.start));
            }
        }
    }
}

/// A finger in a set: a search for gaps that comes back again and again, each time for a somewhat later start, mostly
/// finds its answer among the members that it looked at last, or next to them, without the whole way down the tree.
pub struct Finger<'a, V: Copy> {
    set: &'a WindowSet<V>,
    /// From the root down to the run of members that was looked at last.
    path: Vec<Step>,
    members: &'a [Member<V>],
}

/// A node on the way of a finger.
#[derive(Clone, Copy)]
struct Step {
    node: NodeId,
    /// The starts of which this is the way: from `first` on, before `next`, the start of the member after those below
    /// the node.
    first: u64,
    next: u64,
    /// The latest end of all members before those below the node; 0 where there are none.
    ended: u64,
}

impl<'a, V: Copy> Finger<'a, V> {
    /// A finger that has not looked at anything.
    pub fn new(set: &'a WindowSet<V>) -> Self {
        Finger { set, path: Vec::new(), members: &[] }
    }

    /// As [`WindowSet::earliest_gap`].
    pub fn earliest_gap(&mut self, from: Time, duration: Micros, tau: Micros, limit: Time) -> Option<Time> {
        let tree = match self.set.members.top() {
            Top::Items(_) => return self.set.earliest_gap(from, duration, tau, limit),
            Top::Tree(tree) => tree,
        };
        let mut search = GapSearch::new(from, duration, tau, limit);
        loop {
            if !self.has_all_of(&search) {
                self.point_at(tree, search.start);
            }
            if !self.has_all_of(&search) {
                let found = self.set.finish(search)?;
                self.point_at(tree, found.as_us());
                return Some(found);
            }
            (search.is_unsure, search.again) = (false, false);
            let _ = search.pass_members(self.members);
            if search.start > search.limit {
                return None;
            }
            if !search.again && self.has_all_of(&search) {
                return Some(Time::from_us(search.start));
            }
        }
    }

    /// Whether no member but those that it looked at last shares an instant with the window that is looked for.
    fn has_all_of(&self, search: &GapSearch) -> bool {
        self.path.last().is_some_and(|it| it.ended <= search.start && search.end() <= it.next)
    }

    /// Moves to the members around `start`: up as far as it must, and down again.
    fn point_at(&mut self, tree: &'a Tree<ByStart<V>>, start: u64) {
        while self.path.last().is_some_and(|it| start < it.first || it.next <= start) {
            self.path.pop();
        }
        let root = Step { node: tree.root(), first: 0, next: u64::MAX, ended: 0 };
        let mut step = *self.path.last().unwrap_or(&root);
        if self.path.is_empty() {
            self.path.push(root);
        }
        loop {
            let entries = match tree.below(step.node) {
                Below::Items(members) => return self.members = members,
                Below::Entries(entries) => entries,
            };
            let at = entries.iter().take_while(|entry| entry.first.0 <= start).count().saturating_sub(1);
            step = Step {
                node: tree.child(step.node, &entries[at]),
                first: if at == 0 { step.first } else { entries[at].first.0 },
                next: entries.get(at + 1).map_or(step.next, |after| after.first.0),
                ended: entries[..at].iter().map(|entry| entry.sum.end).fold(step.ended, u64::max),
            };
            self.path.push(step);
        }
    }
}

impl<V: Copy> fmt::Debug for Finger<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finger").field("set", self.set).finish_non_exhaustive()
    }
}

impl<V: Copy> Default for WindowSet<V> {
    fn default() -> Self {
        WindowSet::new()
    }
}

impl<V: Copy> Clone for WindowSet<V> {
    fn clone(&self) -> Self {
        WindowSet { members: self.members.clone() }
    }
}

impl<V: Copy> fmt::Debug for WindowSet<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

fn overlapping_among<V, B>(
    members: &[Member<V>],
    range: Window,
    f: &mut impl FnMut(&Member<V>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    for member in members.iter().take_while(|member| member.window.start() < range.end()) {
        if member.window.end() > range.start() {
            f(member)?;
        }
    }
    ControlFlow::Continue(())
}

fn overlapping_below<V: Copy, B>(
    tree: &Tree<ByStart<V>>,
    node: NodeId,
    range: Window,
    f: &mut impl FnMut(&Member<V>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match tree.below(node) {
        Below::Items(members) => overlapping_among(members, range, f),
        Below::Entries(entries) => {
            for entry in entries.iter().take_while(|entry| entry.first.0 < range.end().as_us()) {
                if entry.sum.end > range.start().as_us() {
                    overlapping_below(tree, tree.child(node, entry), range, f)?;
                }
            }
            ControlFlow::Continue(())
        }
    }
}

/// How a set of windows is measured.
struct ByStart<V>(PhantomData<V>);

/// What is known about a run of members, in order of their starts.
///
/// Members no longer than their own tolerance are in the way of next to nobody, so they are left out
/// of what a search for a gap passes over by: it finds them one by one where it matters.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// The latest end.
    end: u64,
    /// The first start of a longer member; [`u64::MAX`] where there is none.
    opens: u64,
    /// The latest end of longer members; 0 where there are none.
    covered: u64,
    /// The largest stretch from the latest end so far to the next start, of longer members; below zero
    /// where they overlap.
    gap: i64,
    /// The same where all to the left in the same node is counted in, and the stretch up to the first
    /// start too.
    gap_in_node: i64,
    /// At most the least tolerance.
    tau_min: u32,
    /// At least the greatest tolerance; [`u32::MAX`] stands for any.
    tau_max: u32,
}

/// Nothing has ended before the first member, so no stretch ends where it starts.
const NO_GAP: i64 = i64::MIN;

impl Sum {
    const NOTHING: Sum = Sum {
        end: 0,
        opens: u64::MAX,
        covered: 0,
        gap: NO_GAP,
        gap_in_node: NO_GAP,
        tau_min: u32::MAX,
        tau_max: 0,
    };

    fn tau_max_us(&self) -> u64 {
        if self.tau_max == u32::MAX { u64::MAX } else { u64::from(self.tau_max) }
    }
}

/// From an end to a start, below zero where they overlap.
fn stretch(end: u64, start: u64) -> i64 {
    let span = i64::try_from(start.abs_diff(end)).unwrap_or(i64::MAX);
    if start >= end { span } else { -span }
}

/// The largest stretch between longer members, with all covered up to `covered`, 0 standing for
/// nothing: every member ends later than that.
fn gap_among<V>(members: &[Member<V>], mut covered: u64) -> i64 {
    let mut gap = NO_GAP;
    for member in members.iter().filter(|member| is_long(member)) {
        if covered > 0 {
            gap = gap.max(stretch(covered, member.window.start().as_us()));
        }
        covered = covered.max(member.window.end().as_us());
    }
    gap
}

fn is_long<V>(member: &Member<V>) -> bool {
    member.window.duration() > member.tau
}

impl<V: Copy> Measure for ByStart<V> {
    type Item = Member<V>;
    type Key = (u64, u64);
    type Sum = Sum;

    fn key(member: &Member<V>) -> (u64, u64) {
        (member.window.start().as_us(), member.key)
    }

    fn of_items(members: &[Member<V>]) -> Sum {
        let mut sum = Sum { gap: gap_among(members, 0), ..Sum::NOTHING };
        for member in members {
            let tau = u32::try_from(member.tau.as_us()).unwrap_or(u32::MAX);
            sum.end = sum.end.max(member.window.end().as_us());
            sum.tau_min = sum.tau_min.min(tau);
            sum.tau_max = sum.tau_max.max(tau);
            if is_long(member) {
                sum.opens = sum.opens.min(member.window.start().as_us());
                sum.covered = sum.covered.max(member.window.end().as_us());
            }
        }
        sum
    }

    fn of_entries(entries: &[Entry<Self>]) -> Sum {
        let mut sum = Sum::NOTHING;
        for Entry { sum: part, .. } in entries {
            sum.end = sum.end.max(part.end);
            sum.opens = sum.opens.min(part.opens);
            sum.covered = sum.covered.max(part.covered);
            sum.gap = sum.gap.max(part.gap_in_node);
            sum.tau_min = sum.tau_min.min(part.tau_min);
            sum.tau_max = sum.tau_max.max(part.tau_max);
        }
        sum
    }

    /// Brings `gap_in_node` up to date where entries changed, and to the right of them for as long as
    /// more or less is covered before an entry than it was.
    fn settle(tree: &mut Tree<Self>, node: NodeId, changed: Range<usize>, was: Sum) {
        let before = &tree.entries(node)[..changed.start];
        let mut covered = before.iter().map(|entry| entry.sum.covered).max().unwrap_or(0);
        let mut was_covered = covered.max(was.covered);
        for at in changed.start..tree.entries(node).len() {
            if at >= changed.end && covered == was_covered {
                break;
            }
            let entry = tree.entries(node)[at];
            tree.sum_mut(node, at).gap_in_node = gap_below(tree, node, &entry, covered);
            covered = covered.max(entry.sum.covered);
            if at >= changed.end {
                was_covered = was_covered.max(entry.sum.covered);
            }
        }
    }
}

/// The largest stretch that ends at a start below `entry`, with all covered up to `covered`. What has
/// to be looked into is one child a level: to the right of the first that reaches beyond `covered`,
/// `gap_in_node` is the answer already.
fn gap_below<V: Copy>(tree: &Tree<ByStart<V>>, node: NodeId, entry: &Entry<ByStart<V>>, covered: u64) -> i64 {
    let sum = entry.sum;
    if covered == 0 || sum.covered == 0 {
        return sum.gap;
    }
    if covered <= sum.opens {
        return sum.gap.max(stretch(covered, sum.opens));
    }
    if sum.covered <= covered {
        // No start lies later than this, so no stretch is longer.
        return stretch(covered, sum.covered - 1);
    }
    let child = tree.child(node, entry);
    let entries = match tree.below(child) {
        Below::Items(members) => return gap_among(members, covered),
        Below::Entries(entries) => entries,
    };
    let (mut gap, mut reached) = (NO_GAP, 0);
    for entry in entries {
        let is_settled = reached >= covered;
        gap =
            gap.max(if is_settled { entry.sum.gap_in_node } else { gap_below(tree, child, entry, covered) });
        reached = reached.max(entry.sum.covered);
    }
    gap
}

/// A search for the earliest start that conflicts with nothing.
///
/// A member `[a, b)` with the tolerance `t`, the smaller of the two, is in the way of the starts above
/// `a + t - duration` and below `b - t`, and of none where it or the window asked for is not longer
/// than `t`. A pass goes through the members in order of their starts and moves the start to `b - t` of
/// each that is in its way. With one tolerance for all, those that it has passed stay out of the way.
/// With several, one that was still ahead may be in the way of a later start: then the pass is
/// made again, until it moves nothing.
struct GapSearch {
    start: u64,
    duration: u64,
    tau: u64,
    limit: u64,
    /// A member passed in this pass may be in the way of a later start.
    is_unsure: bool,
    /// Another pass is needed.
    again: bool,
}

/// Whether the pass goes on to the next member.
type Pass = ControlFlow<()>;

impl GapSearch {
    fn new(from: Time, duration: Micros, tau: Micros, limit: Time) -> Self {
        GapSearch {
            start: from.as_us(),
            duration: duration.as_us(),
            tau: tau.as_us(),
            limit: limit.as_us(),
            is_unsure: false,
            again: false,
        }
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.duration)
    }

    /// No start before `start` is free.
    fn advance(&mut self, start: u64) -> Pass {
        self.start = start;
        self.again |= self.is_unsure;
        if start > self.limit { Pass::Break(()) } else { Pass::Continue(()) }
    }

    fn pass_members<V>(&mut self, members: &[Member<V>]) -> Pass {
        for member in members {
            let (a, b) = (member.window.start().as_us(), member.window.end().as_us());
            if a >= self.end() {
                return Pass::Break(());
            }
            let tau = self.tau.min(member.tau.as_us());
            if self.duration.min(b - a) <= tau || b - tau <= self.start {
                continue;
            }
            if self.end() <= a + tau {
                self.is_unsure = true;
            } else {
                self.advance(b - tau)?;
            }
        }
        Pass::Continue(())
    }

    /// `tau_max` is at least the greatest tolerance below `node`.
    fn pass_node<V: Copy>(&mut self, tree: &Tree<ByStart<V>>, node: NodeId, tau_max: u64) -> Pass {
        let entries = match tree.below(node) {
            Below::Items(members) => return self.pass_members(members),
            Below::Entries(entries) => entries,
        };
        for entry in entries {
            if entry.first.0 >= self.end() {
                return Pass::Break(());
            }
            let tau_min = self.tau.min(u64::from(entry.sum.tau_min));
            if entry.sum.end.saturating_sub(tau_min) <= self.start {
                continue;
            }
            let tau = self.tau.min(tau_max);
            if let Some(start) = self.beyond(&entry.sum, tau) {
                // Exact only where all of one tolerance were counted in: some member may end later.
                self.again |= tau != tau_min || entry.sum.end > entry.sum.covered;
                self.advance(start)?;
            } else {
                self.pass_node(tree, tree.child(node, entry), entry.sum.tau_max_us())?;
            }
        }
        Pass::Continue(())
    }

    /// A later start before which none is free of the members that `sum` is of.
    ///
    /// None of them and of those to their left in the node tolerates more than `tau`, so a start after
    /// one of them and before the next takes a stretch of `duration - 2 tau` between them, and one after
    /// them all lies at their latest end less `tau` or later. What is left is a start before the first
    /// of them: it must lie behind us.
    fn beyond(&self, sum: &Sum, tau: u64) -> Option<u64> {
        let start = sum.covered.saturating_sub(tau);
        let takes = i128::from(self.duration) - 2 * i128::from(tau);
        let is_crowded = i128::from(sum.gap_in_node) < takes && sum.gap_in_node < i64::MAX;
        let is_past_first = self.end() > sum.opens.saturating_add(tau);
        (self.duration > tau && is_crowded && is_past_first && start > self.start).then_some(start)
    }
}

#[cfg(test)]
#[path = "windows_tests.rs"]
mod tests;
