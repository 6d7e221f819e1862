//! The ledger: every window that may be in somebody's way, found by target and time.
//!
//! A *group* is what stands or falls together: the windows of a grant, those that a revision left
//! until the end of its slot, or a place that is held until then. The ledger knows where windows
//! are; what conflicts with what is `fit`'s business.

use std::sync::Arc;

use super::window_set::WindowSet;
use crate::limits;
use crate::types::{Claim, Class, FixedMap, IntentKey, Mode, Path, Target, Time, Token, Window};

/// A group's number; never reused within a process, never read for a decision.
pub(super) type GroupId = u64;

/// Why a group's windows stand in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A grant in force.
    Granted(Token),
    /// What a revision or shrink in this slot left of the grant with this token.
    Left(Token),
    /// A place held for a waiting intent, the n-th held in this slot.
    Held(u64),
    /// The shared place of a grant on the readings that it rests on, the n-th held in this slot.
    Expected(u64),
}

impl Kind {
    /// The token of the grant that the windows belong to.
    pub(super) fn token(self) -> Option<Token> {
        match self {
            Kind::Granted(token) | Kind::Left(token) => Some(token),
            Kind::Held(_) | Kind::Expected(_) => None,
        }
    }

    /// Where its blockers stand among others: by token, then places in the order in which they were held.
    pub(super) fn rank(self) -> (bool, u64) {
        match self {
            Kind::Granted(token) | Kind::Left(token) => (false, token.number()),
            Kind::Held(nth) | Kind::Expected(nth) => (true, nth),
        }
    }

    /// Whether the windows are granted ones, as against places that are only held.
    pub(super) fn is_granted(self) -> bool {
        matches!(self, Kind::Granted(_) | Kind::Left(_))
    }
}

/// Windows that stand or fall together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) key: IntentKey,
    pub(super) kind: Kind,
    pub(super) class: Class,
    pub(super) claims: Arc<[Claim]>,
    /// The window of each claim, renewals included.
    pub(super) windows: Vec<Window>,
}

impl Group {
    /// The start of its first window.
    pub(super) fn first_start(&self) -> Time {
        self.windows.iter().map(|window| window.start()).min().unwrap_or(Time::ZERO)
    }
}

/// The three modes as rows of an index.
const MODES: usize = 3;

fn row(mode: Mode) -> usize {
    match mode {
        Mode::Shared => 0,
        Mode::Exclusive => 1,
        Mode::Units(_) => 2,
    }
}

/// Which modes of others conflict with `mine` on related targets (units with units go by capacity).
fn rows_against(mine: Mode) -> &'static [usize] {
    match mine {
        Mode::Shared => &[1, 2],
        Mode::Exclusive => &[0, 1, 2],
        Mode::Units(_) => &[0, 1],
    }
}

/// A node of the tree of paths, with the windows on it and below it.
#[derive(Debug, Default)]
struct Node {
    /// Path claims on the node itself, by mode.
    own: [WindowSet; MODES],
    /// Claims strictly below the node, by mode; a region is just below its frame.
    below: [WindowSet; MODES],
    /// Regions in the frame that the node names.
    regions: WindowSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        self.regions.is_empty() && self.own.iter().chain(&self.below).all(WindowSet::is_empty)
    }
}

/// One window of the ledger: a group and the index of one of its claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) group: GroupId,
    pub(super) claim: usize,
}

/// A claim index fits into this many bits of an index key.
const CLAIM_BITS: u32 = 6;
const _: () = assert!(limits::CLAIMS <= 1 << CLAIM_BITS && limits::EXPECTS <= 1 << CLAIM_BITS);

impl Place {
    fn to_key(self) -> u64 {
        self.group << CLAIM_BITS | self.claim as u64
    }

    fn of_key(key: u64) -> Self {
        Place { group: key >> CLAIM_BITS, claim: (key & ((1 << CLAIM_BITS) - 1)) as usize }
    }
}

/// Every window that may be in somebody's way.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    groups: FixedMap<GroupId, Group>,
    nodes: FixedMap<Path, Node>,
    last_group: GroupId,
}

impl Ledger {
    /// Adds a group with all its windows.
    pub(super) fn add(&mut self, group: Group) -> GroupId {
        self.last_group += 1;
        self.groups.insert(self.last_group, group);
        self.lay(self.last_group, |_| true);
        self.last_group
    }

    /// Takes a group out for good. Its windows may have been lifted before.
    pub(super) fn remove(&mut self, id: GroupId) -> Option<Group> {
        self.lift(id, |_| true);
        self.groups.remove(&id)
    }

    pub(super) fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// Changes what stands in a group, windows included.
    pub(super) fn change(&mut self, id: GroupId, change: impl FnOnce(&mut Group)) {
        self.lift(id, |_| true);
        if let Some(group) = self.groups.get_mut(&id) {
            change(group);
        }
        self.lay(id, |_| true);
    }

    /// Takes those windows of a group out of everybody's way that `which` names, for a while.
    pub(super) fn lift(&mut self, id: GroupId, which: impl Fn(Window) -> bool) {
        self.each_window(id, which, |set, window, key| set.remove(window, key));
    }

    /// Puts windows back that were lifted.
    pub(super) fn lay(&mut self, id: GroupId, which: impl Fn(Window) -> bool) {
        self.each_window(id, which, |set, window, key| set.insert(window, key));
    }

    fn each_window(
        &mut self,
        id: GroupId,
        which: impl Fn(Window) -> bool,
        mut act: impl FnMut(&mut WindowSet, Window, u64),
    ) {
        let Some(group) = self.groups.get(&id) else { return };
        for (claim, (declared, window)) in group.claims.iter().zip(&group.windows).enumerate() {
            if which(*window) {
                let key = Place { group: id, claim }.to_key();
                each_set(&mut self.nodes, declared, |set| act(set, *window, key));
            }
        }
    }

    /// Calls `f` with each window that overlaps `range` and whose target and mode may conflict with
    /// `target` in `mode`. Regions are candidates: whether their shapes meet is not looked at.
    pub(super) fn scan(&self, target: &Target, mode: Mode, range: Window, mut f: impl FnMut(Place)) {
        let mut visit = |set: &WindowSet| set.for_each_overlapping(range, |key| f(Place::of_key(key)));
        let path = target.path();
        let last = path.as_str().len();
        for (node, is_last) in
            path.lineage().filter_map(|text| self.nodes.get(text).map(|node| (node, text.len() == last)))
        {
            rows_against(mode).iter().for_each(|row| visit(&node.own[*row]));
            match target {
                Target::Path(_) if is_last => {
                    rows_against(mode).iter().for_each(|row| visit(&node.below[*row]));
                }
                Target::Region(_) if is_last => visit(&node.regions),
                _ => {}
            }
        }
    }

    /// Calls `f` with each window of units, on `pool` or below it, that overlaps `range`.
    pub(super) fn scan_units(&self, pool: &Path, range: Window, mut f: impl FnMut(Place)) {
        if let Some(node) = self.nodes.get(pool) {
            let units = row(Mode::Units(1));
            node.own[units].for_each_overlapping(range, |key| f(Place::of_key(key)));
            node.below[units].for_each_overlapping(range, |key| f(Place::of_key(key)));
        }
    }
}

/// Calls `act` with each set in which a window of `claim` stands, making nodes as needed and
/// dropping those that are left empty.
fn each_set(nodes: &mut FixedMap<Path, Node>, claim: &Claim, mut act: impl FnMut(&mut WindowSet)) {
    let (path, row) = (claim.target.path(), row(claim.mode));
    let is_region = matches!(claim.target, Target::Region(_));
    for text in path.lineage() {
        let is_last = text.len() == path.as_str().len();
        if !nodes.contains_key(text) {
            let made = if is_last { Some(path.clone()) } else { Path::new(text) };
            nodes.extend(made.map(|made| (made, Node::default())));
        }
        let Some(node) = nodes.get_mut(text) else { continue };
        match (is_last, is_region) {
            (true, false) => act(&mut node.own[row]),
            (true, true) => {
                act(&mut node.regions);
                act(&mut node.below[row]);
            }
            (false, _) => act(&mut node.below[row]),
        }
        if node.is_empty() {
            nodes.remove(text);
        }
    }
}
