//! The ledger: every window that may be in somebody's way, found by target and time.
//!
//! A *group* is what stands or falls together: the windows of a grant, those that a revision left
//! until the end of its slot, or a place that is held until then. The ledger knows where windows
//! are; what conflicts with what is `fit`'s business.

mod consistency;

use std::sync::Arc;

use super::few::Few;
use super::nodes::{NodeId, Nodes};
use super::settings::Settings;
use super::slab::{Number, Slab};
use crate::limits;
use crate::space::geometry;
use crate::space::profile::Profile;
use crate::space::regions::RegionSet;
use crate::space::windows::{Finger, WindowSet};
use crate::types::{
    Claim, Class, FixedMap, IntentKey, Micros, Mode, Path, Region, Target, Time, Token, Window,
};

/// A group's id: its number, with how many groups there were before it above that. Not reused while anybody
/// may know it, never read for a decision.
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
    pub(super) windows: Few<Window>,
    /// The overlap in time that each claim tolerates.
    pub(super) tolerances: Few<Micros>,
}

impl Group {
    /// The start of its first window.
    pub(super) fn first_start(&self) -> Time {
        self.windows.iter().map(|window| window.start()).min().unwrap_or(Time::ZERO)
    }
}

/// A group, the node of each of its claims, and which of its windows stand in the indexes, one bit a
/// claim.
#[derive(Debug)]
struct Entry {
    id: GroupId,
    group: Group,
    nodes: Few<NodeId>,
    laid: u64,
}

const _: () = assert!(limits::CLAIMS <= u64::BITS as usize, "one bit a claim");
const _: () = assert!(limits::EXPECTS <= limits::CLAIMS, "readings are held as claims");

/// A node of the tree of paths, with the windows on it and below it.
#[derive(Debug, Default)]
struct Node {
    /// Path claims on the node itself, by mode.
    own: [WindowSet<()>; Mode::KINDS],
    /// Claims strictly below the node, by mode; a region is just below its frame.
    below: [WindowSet<()>; Mode::KINDS],
    /// Regions in the frame that the node names, by mode: shared ones meet in great numbers.
    regions: [RegionSet<()>; Mode::KINDS],
}

/// One window of the ledger: a group and the index of one of its claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) group: GroupId,
    pub(super) claim: usize,
}

/// A claim index fits into this many bits of an index key.
const CLAIM_BITS: u32 = 6;
const _: () = assert!(limits::CLAIMS <= 1 << CLAIM_BITS, "an index fits into its bits");

/// How many groups have the same [`number`] before two have the same id: one of the two is long gone.
const GENERATIONS: u64 = u64::MAX >> (Number::BITS + CLAIM_BITS);

/// Where a group of that id stands.
fn number(id: GroupId) -> Number {
    id as Number
}

impl Place {
    fn to_key(self) -> u64 {
        self.group << CLAIM_BITS | self.claim as u64
    }

    fn of_key(key: u64) -> Self {
        Place { group: key >> CLAIM_BITS, claim: (key & ((1 << CLAIM_BITS) - 1)) as usize }
    }
}

/// Within what a claim's place is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The overlap in time that the claim tolerates.
    pub(super) tolerance: Micros,
    /// The overlap ratio up to which regions are in nobody's way.
    pub(super) threshold: f64,
    /// The last start.
    pub(super) last: Time,
}

/// The sets that a claim must find a gap in, each with a finger where it was looked at last.
#[derive(Debug)]
pub(super) struct Way<'a>(Vec<Finger<'a, ()>>);

/// Windows that were lifted, to be laid again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifted {
    group: GroupId,
    bits: u64,
}

/// Every window that may be in somebody's way.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: Slab<Entry>,
    nodes: Nodes<Node>,
    /// The sum of units in use over time, for each path with a capacity. What revisions left is not
    /// in it: beside the new version of the same intent only the larger counts.
    pools: FixedMap<Path, Profile>,
    /// Windows of units that revisions left.
    left_units: usize,
    /// How many groups there were.
    added: u64,
}

impl Ledger {
    /// Adds a group with all its windows.
    pub(super) fn add(&mut self, group: Group) -> GroupId {
        self.added += 1;
        let id = (self.added & GENERATIONS) << Number::BITS | u64::from(self.entries.next());
        let nodes = group.claims.iter().map(|claim| self.nodes.enter(claim.target.path())).collect();
        self.entries.put(Entry { id, group, nodes, laid: 0 });
        self.lay(id, |_| true);
        id
    }

    /// Takes a group out for good. Its windows may have been lifted before.
    pub(super) fn remove(&mut self, id: GroupId) -> Option<Group> {
        self.lift(id, |_| true);
        self.entry(id)?;
        let Entry { group, nodes, .. } = self.entries.take(number(id))?;
        nodes.iter().for_each(|node| self.nodes.leave(*node));
        Some(group)
    }

    pub(super) fn group(&self, id: GroupId) -> Option<&Group> {
        self.entry(id).map(|entry| &entry.group)
    }

    fn entry(&self, id: GroupId) -> Option<&Entry> {
        self.entries.get(number(id)).filter(|entry| entry.id == id)
    }

    fn entry_mut(&mut self, id: GroupId) -> Option<&mut Entry> {
        self.entries.get_mut(number(id)).filter(|entry| entry.id == id)
    }

    /// Changes what stands in a group, windows included.
    pub(super) fn change(&mut self, id: GroupId, change: impl FnOnce(&mut Group)) {
        self.lift(id, |_| true);
        if let Some(entry) = self.entry_mut(id) {
            change(&mut entry.group);
        }
        self.lay(id, |_| true);
    }

    /// Takes those windows of a group out of everybody's way that `which` names, as far as they stand
    /// in it, for a while or for good; [`Ledger::lay_again`] undoes it.
    pub(super) fn lift(&mut self, id: GroupId, which: impl Fn(Window) -> bool) -> Lifted {
        Lifted { group: id, bits: self.toggle(id, which, true) }
    }

    /// Puts back exactly the windows that were lifted, where the group is still there.
    pub(super) fn lay_again(&mut self, lifted: &Lifted) {
        self.toggle_bits(lifted.group, lifted.bits, false);
    }

    fn lay(&mut self, id: GroupId, which: impl Fn(Window) -> bool) {
        self.toggle(id, which, false);
    }

    fn toggle(&mut self, id: GroupId, which: impl Fn(Window) -> bool, lifts: bool) -> u64 {
        let windows = self.entry(id).map_or(&[][..], |entry| &entry.group.windows);
        let named = windows.iter().enumerate().filter(|(_, window)| which(**window));
        let bits = named.fold(0, |bits, (claim, _)| bits | 1 << claim);
        self.toggle_bits(id, bits, lifts)
    }

    /// Lifts or lays the windows that `bits` names, and says which of them it did that to.
    fn toggle_bits(&mut self, id: GroupId, bits: u64, lifts: bool) -> u64 {
        let Some(entry) = self.entries.get_mut(number(id)).filter(|entry| entry.id == id) else { return 0 };
        let Entry { id: _, group, nodes, laid } = entry;
        let bits = if lifts { bits & *laid } else { bits & !*laid };
        *laid ^= bits;
        for claim in (0..group.claims.len()).filter(|claim| bits >> claim & 1 == 1) {
            let (declared, window) = (&group.claims[claim], group.windows[claim]);
            let key = Place { group: id, claim }.to_key();
            let tolerance = group.tolerances[claim];
            toggle_window(
                &mut self.nodes,
                nodes[claim],
                declared,
                window,
                key,
                (!lifts).then_some(tolerance),
            );
            let Mode::Units(units) = declared.mode else { continue };
            if matches!(group.kind, Kind::Left(_)) {
                self.left_units = if lifts { self.left_units - 1 } else { self.left_units + 1 };
                continue;
            }
            for pool in declared.target.path().lineage() {
                let Some(profile) = self.pools.get_mut(pool) else { continue };
                if lifts { profile.sub(window, units) } else { profile.add(window, units) }
            }
        }
        bits
    }

    /// From here on the sum of units on `path` is kept.
    pub(super) fn open_pool(&mut self, path: &Path) {
        if self.pools.contains_key(path) {
            return;
        }
        let mut profile = Profile::default();
        self.scan_units(path, ALL_TIME, |place| {
            let group = self.group(place.group).filter(|group| !matches!(group.kind, Kind::Left(_)));
            if let Some((Mode::Units(units), window)) =
                group.map(|group| (group.claims[place.claim].mode, group.windows[place.claim]))
            {
                profile.add(window, units);
            }
        });
        self.pools.insert(path.clone(), profile);
    }

    /// Takes new tolerances and pools, after the table of resources has been replaced.
    pub(super) fn resettle(&mut self, settings: &Settings) {
        let ids: Vec<GroupId> = self.entries.iter().map(|(_, entry)| entry.id).collect();
        for id in ids {
            self.change(id, |group| group.tolerances = settings.tolerances(&group.claims));
        }
        self.pools.clear();
        settings.all_pools().for_each(|path| self.open_pool(path));
    }

    /// The earliest start from `from` to the last one, both included, at which a window of `claim` is in
    /// nobody's way, units among units left aside.
    pub(super) fn earliest_free_of_claim(&self, claim: &Claim, limits: Limits, from: Time) -> Option<Time> {
        let Limits { tolerance, last, .. } = limits;
        let sets = self.sets_against(&claim.target, claim.mode);
        self.earliest_past(claim, limits, from, |mut at| {
            for set in sets.clone() {
                at = set.earliest_gap(at, claim.duration, tolerance, last)?;
            }
            Some(at)
        })
    }

    /// The sets that `claim` must find a gap in, for a search that comes back to them again and again.
    pub(super) fn way_of(&self, claim: &Claim) -> Way<'_> {
        Way(self.sets_against(&claim.target, claim.mode).map(Finger::new).collect())
    }

    /// As [`Ledger::earliest_free_of_claim`], on the claim's way.
    pub(super) fn earliest_free_on(
        &self,
        way: &mut Way<'_>,
        claim: &Claim,
        limits: Limits,
        from: Time,
    ) -> Option<Time> {
        let Limits { tolerance, last, .. } = limits;
        if let ([set], Target::Path(_)) = (&mut way.0[..], &claim.target) {
            return set.earliest_gap(from, claim.duration, tolerance, last);
        }
        self.earliest_past(claim, limits, from, |mut at| {
            for set in &mut way.0 {
                at = set.earliest_gap(at, claim.duration, tolerance, last)?;
            }
            Some(at)
        })
    }

    /// Goes forward until neither the sets, which `past_sets` goes past, nor a region of the same frame is in the way.
    fn earliest_past(
        &self,
        claim: &Claim,
        Limits { tolerance, threshold, last }: Limits,
        from: Time,
        mut past_sets: impl FnMut(Time) -> Option<Time>,
    ) -> Option<Time> {
        let mut at = from;
        loop {
            let before = at;
            at = past_sets(at)?;
            if let Target::Region(region) = &claim.target {
                at = self.earliest_beside_regions(region, claim, tolerance, threshold, at, last)?;
            }
            if at == before {
                return Some(at);
            }
            debug_assert!(at > before, "a search goes forward, or it might never end");
        }
    }

    /// The earliest start at which the units of a window fit into the pool on `path`.
    pub(super) fn earliest_in_pool(
        &self,
        path: &Path,
        duration: Micros,
        (units, capacity): (u64, u64),
        from: Time,
        last: Time,
    ) -> Option<Time> {
        match self.pools.get(path) {
            Some(profile) => profile.earliest_fit(from, duration, units, capacity, last),
            None => Some(from),
        }
    }

    /// The most units that are out of the pool on `path` at an instant of `window`.
    pub(super) fn most_in_pool(&self, path: &Path, window: Window) -> u64 {
        self.pools.get(path).map_or(0, |profile| profile.max_over(window))
    }

    /// Whether revisions in this slot left windows of units, so that sums alone do not tell what fits.
    pub(super) fn has_left_units(&self) -> bool {
        self.left_units > 0
    }

    /// Calls `f` with each window that overlaps `range` and whose target and mode may conflict with
    /// `target` in `mode`. Regions are candidates: whether their shapes meet is not looked at.
    pub(super) fn scan(&self, target: &Target, mode: Mode, range: Window, mut f: impl FnMut(Place)) {
        for set in self.sets_against(target, mode) {
            set.for_each_overlapping(range, |it| f(Place::of_key(it.key)));
        }
        if let Target::Region(region) = target
            && let Some(node) = self.node(&region.frame)
        {
            for row in mode.kinds_against() {
                node.regions[*row].for_each_candidate(&region.shape, range, |it| f(Place::of_key(it.key)));
            }
        }
    }

    /// Calls `f` with each window of units, on `pool` or below it, that overlaps `range`.
    pub(super) fn scan_units(&self, pool: &Path, range: Window, mut f: impl FnMut(Place)) {
        if let Some(node) = self.node(pool) {
            let units = Mode::UNITS;
            node.own[units].for_each_overlapping(range, |it| f(Place::of_key(it.key)));
            node.below[units].for_each_overlapping(range, |it| f(Place::of_key(it.key)));
        }
    }

    /// The sets with windows on related paths whose modes conflict with `mode`; regions of the same
    /// frame, whose shapes decide, stand apart.
    fn sets_against(&self, target: &Target, mode: Mode) -> impl Iterator<Item = &WindowSet<()>> + Clone {
        let path = target.path();
        let rows = mode.kinds_against();
        let lineage = self.nodes.find_lineage(path);
        let itself = lineage.clone().next().filter(|id| self.nodes.path(*id) == Some(path));
        let below = itself.filter(|_| matches!(target, Target::Path(_)));
        let below = below.and_then(|id| self.nodes.value(id)).map(|node| &node.below);
        let own = lineage.filter_map(|id| self.nodes.value(id)).map(|node| &node.own);
        let sets = own.chain(below).flat_map(|by_mode| rows.iter().map(|row| &by_mode[*row]));
        sets.filter(|set| !set.is_empty())
    }

    /// Goes forward from region to region of the same frame that meets this one.
    fn earliest_beside_regions(
        &self,
        region: &Region,
        claim: &Claim,
        tolerance: Micros,
        threshold: f64,
        from: Time,
        last: Time,
    ) -> Option<Time> {
        let Some(node) = self.node(&region.frame) else { return Some(from) };
        let mut at = from;
        while at <= last {
            let window = Window::new(at, at.after(claim.duration))?;
            let mut next = at;
            for row in claim.mode.kinds_against() {
                node.regions[*row].for_each_candidate(&region.shape, window, |it| {
                    let Some((other, tolerated)) = self.claim_at(Place::of_key(it.key)) else { return };
                    let end = it.window.end().before(tolerance.min(tolerated));
                    // Exact shapes last: they cost the most.
                    if end > next
                        && window.overlaps_by_more_than(it.window, tolerance.min(tolerated))
                        && regions_conflict(&claim.target, &other.target, threshold)
                    {
                        next = end;
                    }
                });
            }
            if next == at {
                return Some(at);
            }
            at = next;
        }
        None
    }

    fn node(&self, path: &Path) -> Option<&Node> {
        self.nodes.value(self.nodes.find(path.as_str())?)
    }

    fn claim_at(&self, place: Place) -> Option<(&Claim, Micros)> {
        let group = self.group(place.group)?;
        Some((group.claims.get(place.claim)?, *group.tolerances.get(place.claim)?))
    }
}

/// Every window lies in it, but for one that ends at the last instant that can be written.
const ALL_TIME: Window = match Window::new(Time::ZERO, Time::MAX) {
    Some(all) => all,
    None => unreachable!(),
};

/// Puts a window of `claim`, whose node is `leaf`, into each set in which it stands, or takes it out
/// where there is no tolerance.
fn toggle_window(
    nodes: &mut Nodes<Node>,
    leaf: NodeId,
    claim: &Claim,
    window: Window,
    key: u64,
    tolerance: Option<Micros>,
) {
    let row = claim.mode.kind();
    let mut next = Some(leaf);
    while let Some(id) = next {
        let Some(node) = nodes.value_mut(id) else { return };
        let region = match &claim.target {
            Target::Region(region) if id == leaf => Some(region),
            _ => None,
        };
        let set = if id == leaf && region.is_none() { &mut node.own[row] } else { &mut node.below[row] };
        match tolerance {
            Some(tolerance) => {
                set.insert(window, key, tolerance, ());
                region.inspect(|region| node.regions[row].insert(&region.shape, window, key, ()));
            }
            None => {
                set.remove(window, key);
                region.inspect(|region| _ = node.regions[row].remove(&region.shape, window, key));
            }
        }
        next = nodes.parent(id);
    }
}

/// Whether two claims on related targets may conflict by their modes alone.
pub(super) fn modes_conflict(mine: Mode, theirs: Mode) -> bool {
    mine.kinds_against().contains(&theirs.kind())
}

/// Whether the shapes leave a conflict standing; of other than two regions there are none to look at.
pub(super) fn regions_conflict(mine: &Target, theirs: &Target, threshold: f64) -> bool {
    let (Target::Region(mine), Target::Region(theirs)) = (mine, theirs) else { return true };
    geometry::meet(&mine.shape, &theirs.shape) && (threshold == 0.0 || ratio(mine, theirs) > threshold)
}

/// The overlap ratio of two regions.
pub(super) fn overlap_ratio(mine: &Target, theirs: &Target) -> Option<f64> {
    match (mine, theirs) {
        (Target::Region(mine), Target::Region(theirs)) => Some(ratio(mine, theirs)),
        _ => None,
    }
}

/// A whole number of billionths divided by a billion is the binary64 nearest to the decimal, so it
/// compares with a configured decimal as the decimals do.
fn ratio(mine: &Region, theirs: &Region) -> f64 {
    geometry::overlap_ratio_e9(&mine.shape, &theirs.shape) as f64 / 1e9
}
