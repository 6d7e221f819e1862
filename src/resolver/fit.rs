//! What conflicts with what, and the earliest start at which nothing does.
//!
//! All questions are asked of a [`View`]: the ledger as it stands, or as it would stand without
//! certain grants or with leases that last. A search goes forward in time from conflict to
//! conflict: each names the first start at which it is over, and no start before that can fit.

use std::sync::Arc;

use super::few::Few;
use super::ledger::{
    Group, GroupId, Ledger, Limits, Place, Way, modes_conflict, overlap_ratio, regions_conflict,
};
use super::settings::{Draw, Settings};
use super::sums::{Step, Sums, Use};
use crate::types::{Blocker, Claim, FixedMap, IntentKey, Micros, Mode, Time, Window};

/// An intent's claims with all that must be known of their targets to place them.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) key: IntentKey,
    pub(super) claims: Arc<[Claim]>,
    pub(super) tolerances: Few<Micros>,
    ratios: Few<f64>,
    draws: Vec<Draw>,
    /// The steps of the plan's own sum on each pool, relative to its start.
    own_steps: Vec<Vec<OwnStep>>,
}

/// A stretch in which a plan draws the same sum on a pool.
#[derive(Clone, Copy, Debug)]
struct OwnStep {
    offset: Micros,
    duration: Micros,
    units: u64,
}

/// How a view sees a window of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// As it stands.
    AsIs,
    /// Not at all.
    Gone,
    /// As lasting until this time.
    Until(Time),
}

/// A way to see the ledger.
pub(super) trait View {
    /// How this view sees the window of `group`'s claim number `claim`.
    fn see(&self, id: GroupId, group: &Group, claim: usize) -> Seen;

    /// From when on windows are looked at: a view that lengthens windows must look back as far as
    /// the earliest stored end of a window that it lengthens.
    fn look_back_to(&self, start: Time) -> Time {
        start
    }
}

/// The ledger as it stands.
pub(super) struct AsItStands;

impl View for AsItStands {
    fn see(&self, _: GroupId, _: &Group, _: usize) -> Seen {
        Seen::AsIs
    }
}

/// One of the asker's claims against one window of somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) claim: usize,
    pub(super) theirs: Place,
    /// Where the two windows overlap.
    pub(super) window: Window,
}

/// Conflicts of a plan with its windows at certain places.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    pub(super) pairs: Vec<Pair>,
    /// How much later the asker would have to start for each of them to be over, at least.
    shift: Micros,
    /// The asker's units exceed a capacity with nobody else there: no start will do.
    pub(super) hopeless: bool,
}

impl Conflicts {
    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty() && !self.hopeless
    }

    /// Notes a conflict that only a start later by `shift` gets past.
    fn note(&mut self, pair: Pair, shift: Micros) {
        self.pairs.push(pair);
        self.shift = self.shift.max(shift);
    }
}

impl Plan {
    pub(super) fn new(key: IntentKey, claims: &Arc<[Claim]>, settings: &Settings) -> Self {
        let ratio = |claim: &Claim| settings.overlap_ratio(claim.target.path());
        let draws = settings.draws(claims);
        Plan {
            key,
            claims: claims.clone(),
            tolerances: settings.tolerances(claims),
            ratios: claims.iter().map(ratio).collect(),
            own_steps: draws.iter().map(|draw| own_steps(draw, claims)).collect(),
            draws,
        }
    }

    /// The windows of all claims for a start at `start`.
    pub(super) fn windows(&self, start: Time) -> Few<Window> {
        self.claims.iter().map(|claim| claim.window(start)).collect()
    }

    /// From the start to the latest end of a claim.
    pub(super) fn span(&self) -> Micros {
        self.claims.iter().map(|claim| claim.offset.plus(claim.duration)).max().unwrap_or(Micros::ZERO)
    }
}

impl Ledger {
    /// The earliest start from `from` to `last`, both included, at which all claims fit into the
    /// ledger as it stands, by its indexes. The plan's own windows must have been lifted.
    pub(super) fn earliest_free(&self, plan: &Plan, from: Time, last: Time) -> Option<Time> {
        // Several claims may move each other from gap to gap, for as many rounds as there are gaps: then each has
        // its way at hand.
        let mut ways: Vec<Way<'_>> = Vec::new();
        let mut start = from;
        while start <= last {
            let mut next = start;
            for (index, claim) in plan.claims.iter().enumerate() {
                let (at, last) = (next.after(claim.offset), last.after(claim.offset));
                let limits =
                    Limits { tolerance: plan.tolerances[index], threshold: plan.ratios[index], last };
                let found = match ways.get_mut(index) {
                    Some(way) => self.earliest_free_on(way, claim, limits, at),
                    None => self.earliest_free_of_claim(claim, limits, at),
                };
                next = found?.before(claim.offset);
            }
            next = self.earliest_in_pools(plan, next, last)?;
            if next <= start {
                return Some(start);
            }
            start = next;
            if ways.is_empty() && plan.claims.len() > 1 {
                ways = plan.claims.iter().map(|claim| self.way_of(claim)).collect();
            }
        }
        None
    }

    /// A start from `from` on before which the units do not fit.
    fn earliest_in_pools(&self, plan: &Plan, from: Time, last: Time) -> Option<Time> {
        let mut start = from;
        for (draw, steps) in plan.draws.iter().zip(&plan.own_steps) {
            for step in steps {
                let need = (step.units, draw.capacity);
                let (at, last) = (start.after(step.offset), last.after(step.offset));
                let at = self.earliest_in_pool(&draw.pool, step.duration, need, at, last)?;
                start = at.before(step.offset);
            }
        }
        // What revisions left is in no sum: it can only put the start off further.
        if start > from || !self.has_left_units() || plan.draws.is_empty() {
            return Some(start);
        }
        let mut found = Conflicts::default();
        let windows: Vec<Option<Window>> = plan.windows(start).iter().copied().map(Some).collect();
        self.excesses_of(plan, &AsItStands, &windows, None, &mut found);
        (!found.hopeless).then(|| start.after(found.shift))
    }

    /// The earliest start from `from` to `last`, both included, at which all claims fit in `view`. None
    /// fits whose claims would end after the end of time: a window that lasts for ever is never over.
    pub(super) fn earliest(&self, plan: &Plan, view: &impl View, from: Time, last: Time) -> Option<Time> {
        let last = last.min(Time::MAX.before(plan.span()));
        let mut start = from;
        while start <= last {
            let conflicts = self.conflicts(plan, view, &plan.windows(start));
            if conflicts.hopeless {
                return None;
            }
            if conflicts.pairs.is_empty() {
                return Some(start);
            }
            let next = start.after(conflicts.shift);
            if next <= start {
                return None; // the end of time
            }
            start = next;
        }
        None
    }

    /// Every conflict of the plan's claims with their windows at `windows`.
    pub(super) fn conflicts(&self, plan: &Plan, view: &impl View, windows: &[Window]) -> Conflicts {
        let mut found = Conflicts::default();
        for (claim, window) in windows.iter().enumerate() {
            self.pairs_of(plan, view, claim, *window, &mut found);
        }
        self.excesses(plan, view, windows, None, &mut found);
        found
    }

    /// The conflicts of longer windows for the claims `longer`: of units, in the part after `added_from`.
    pub(super) fn conflicts_of_renewal(
        &self,
        plan: &Plan,
        longer: &[(usize, Window)],
        added_from: Time,
    ) -> Conflicts {
        let mut found = Conflicts::default();
        let mut windows: Vec<Option<Window>> = vec![None; plan.claims.len()];
        for (claim, window) in longer {
            self.pairs_of(plan, &AsItStands, *claim, *window, &mut found);
            windows[*claim] = Some(*window);
        }
        self.excesses_of(plan, &AsItStands, &windows, Some(added_from), &mut found);
        found
    }

    /// Conflicts of one claim that do not go by capacity.
    fn pairs_of(&self, plan: &Plan, view: &impl View, claim: usize, window: Window, out: &mut Conflicts) {
        let mine = &plan.claims[claim];
        let Some(range) = Window::new(view.look_back_to(window.start()), window.end()) else { return };
        self.scan(&mine.target, mine.mode, range, |theirs| {
            let Some((group, other)) = self.seen(plan, view, theirs) else { return };
            let their_claim = &group.claims[theirs.claim];
            if !modes_conflict(mine.mode, their_claim.mode) {
                return;
            }
            let tolerance = plan.tolerances[claim].min(group.tolerances[theirs.claim]);
            if !window.overlaps_by_more_than(other, tolerance) {
                return;
            }
            let Some(shared) = window.overlap(other) else { return };
            if regions_conflict(&mine.target, &their_claim.target, plan.ratios[claim]) {
                let shift = other.end().before(tolerance).since(window.start());
                out.note(Pair { claim, theirs, window: shared }, shift);
            }
        });
    }

    /// A window of somebody else, as the view sees it.
    fn seen(&self, plan: &Plan, view: &impl View, place: Place) -> Option<(&Group, Window)> {
        let group = self.group(place.group)?;
        if group.key == plan.key {
            return None;
        }
        let stored = *group.windows.get(place.claim)?;
        match view.see(place.group, group, place.claim) {
            Seen::AsIs => Some((group, stored)),
            Seen::Gone => None,
            Seen::Until(end) => Some((group, Window::new(stored.start(), end.max(stored.end()))?)),
        }
    }

    fn excesses(
        &self,
        plan: &Plan,
        view: &impl View,
        windows: &[Window],
        from: Option<Time>,
        out: &mut Conflicts,
    ) {
        if !plan.draws.is_empty() {
            let windows: Vec<Option<Window>> = windows.iter().copied().map(Some).collect();
            self.excesses_of(plan, view, &windows, from, out);
        }
    }

    /// Whether the units at `place` are there at an instant at which the plan's own, for a start at
    /// `start`, exceed a capacity. The plan's own windows must have been lifted.
    pub(super) fn exceeds_at(&self, plan: &Plan, start: Time, place: Place) -> bool {
        if self.has_left_units() {
            let conflicts = self.conflicts(plan, &AsItStands, &plan.windows(start));
            return conflicts.pairs.iter().any(|pair| pair.theirs == place);
        }
        let Some(group) = self.group(place.group) else { return false };
        let (path, window) = (group.claims[place.claim].target.path(), group.windows[place.claim]);
        let exceeds = |draw: &Draw, step: &OwnStep| {
            let own = Window::new(start.after(step.offset), start.after(step.offset).after(step.duration));
            let both = own.and_then(|own| own.overlap(window));
            both.is_some_and(|both| {
                u128::from(self.most_in_pool(&draw.pool, both)) + u128::from(step.units)
                    > u128::from(draw.capacity)
            })
        };
        let draws = plan.draws.iter().zip(&plan.own_steps).filter(|(draw, _)| draw.pool.covers(path));
        draws.into_iter().any(|(draw, steps)| steps.iter().any(|step| exceeds(draw, step)))
    }

    /// Conflicts by capacity: each claim of units that is there at an instant at which a sum is exceeded.
    fn excesses_of(
        &self,
        plan: &Plan,
        view: &impl View,
        windows: &[Option<Window>],
        from: Option<Time>,
        out: &mut Conflicts,
    ) {
        let first_new = out.pairs.len();
        for draw in &plan.draws {
            self.excess(plan, view, draw, windows, from, out);
        }
        // A pair that exceeds two pools stands once.
        if plan.draws.len() > 1 {
            let mut new: Vec<Pair> = out.pairs.split_off(first_new);
            new.sort_unstable_by_key(|pair| (pair.claim, pair.theirs));
            new.dedup();
            out.pairs.append(&mut new);
        }
    }

    /// Conflicts on one pool: wherever a step of the asker's own units meets a step of everybody
    /// else's and both together exceed the capacity.
    fn excess(
        &self,
        plan: &Plan,
        view: &impl View,
        draw: &Draw,
        windows: &[Option<Window>],
        from: Option<Time>,
        out: &mut Conflicts,
    ) {
        let cut = |window: Window| Window::new(window.start().max(from.unwrap_or(Time::ZERO)), window.end());
        let own = draw.claims.iter().filter_map(|claim| Some((*claim, windows[*claim]?)));
        let own: Vec<(usize, Window, Window)> =
            own.filter_map(|(claim, whole)| Some((claim, whole, cut(whole)?))).collect();
        let own_use = |(claim, _, there): &(usize, Window, Window)| own_use(*claim, *there, &plan.claims);
        let steps = Sums::of(own.iter().map(own_use).collect()).steps();
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return };
        let start = view.look_back_to(first.window.start());
        let Some(range) = Window::new(start, last.window.end()) else { return };
        let theirs = self.uses_of_others(plan, view, draw, range);
        let sums = Sums::of(theirs.iter().map(|(it, _)| *it).collect()).steps();
        let exceeded = exceeded(&steps, &sums, draw.capacity, out);
        if exceeded.is_empty() {
            return;
        }
        for (claim, whole, there) in own {
            for (other, theirs) in &theirs {
                let both = there.overlap(other.window);
                if both.is_some_and(|both| meets_one_of(both, &exceeded))
                    && let Some(window) = whole.overlap(other.window)
                {
                    out.pairs.push(Pair { claim, theirs: *theirs, window });
                }
            }
        }
    }

    /// Everybody else's units on a pool, as far as they are there in `range`.
    fn uses_of_others(&self, plan: &Plan, view: &impl View, draw: &Draw, range: Window) -> Vec<(Use, Place)> {
        let mut keys: FixedMap<&IntentKey, usize> = FixedMap::default();
        let mut uses = Vec::new();
        self.scan_units(&draw.pool, range, |place| {
            if let Some((group, window)) = self.seen(plan, view, place) {
                let next = keys.len();
                let key = *keys.entry(&group.key).or_insert(next);
                let units = units(&group.claims[place.claim]);
                uses.push((Use { key, version: place.group, window, units }, place));
            }
        });
        uses
    }

    /// The pairs as they are told: by token, held places last, then claim and claim; each once.
    pub(super) fn blockers(&self, plan: &Plan, pairs: &[Pair]) -> Vec<Blocker> {
        let rank = |pair: &Pair| self.group(pair.theirs.group).map(|group| group.kind.rank());
        // There may be thousands of them: those that are told are picked, and the others not put in order.
        let mut told = Vec::with_capacity(crate::limits::BLOCKERS + 1);
        for pair in pairs {
            let key = (rank(pair), pair.claim, pair.theirs);
            if let Err(at) = told.binary_search_by_key(&key, |(key, _)| *key)
                && at < crate::limits::BLOCKERS
            {
                told.insert(at, (key, pair));
                told.truncate(crate::limits::BLOCKERS);
            }
        }
        told.into_iter().filter_map(|(_, pair)| self.blocker(plan, pair)).collect()
    }

    fn blocker(&self, plan: &Plan, pair: &Pair) -> Option<Blocker> {
        let group = self.group(pair.theirs.group)?;
        Some(Blocker {
            key: group.key.clone(),
            token: group.kind.token(),
            claim: pair.claim,
            their_claim: pair.theirs.claim,
            window: pair.window,
            ratio: overlap_ratio(&plan.claims[pair.claim].target, &group.claims[pair.theirs.claim].target),
        })
    }
}

/// The stretches at which both sums together exceed the capacity, in order. Notes in `out` how far
/// they keep the asker from starting, and whether its own units alone exceed it.
fn exceeded(own: &[Step], theirs: &[Step], capacity: u64, out: &mut Conflicts) -> Vec<Window> {
    let mut found = Vec::new();
    for mine in own {
        out.hopeless |= mine.sum > u128::from(capacity);
        let first = theirs.partition_point(|step| step.window.end() <= mine.window.start());
        for step in theirs.iter().skip(first).take_while(|step| step.window.start() < mine.window.end()) {
            if mine.sum.saturating_add(step.sum) > u128::from(capacity) {
                out.shift = out.shift.max(step.window.end().since(mine.window.start()));
                found.extend(mine.window.overlap(step.window));
            }
        }
    }
    found
}

/// Whether `window` shares an instant with one of `stretches`, which are apart and in order.
fn meets_one_of(window: Window, stretches: &[Window]) -> bool {
    let first = stretches.partition_point(|stretch| stretch.end() <= window.start());
    stretches.get(first).is_some_and(|stretch| stretch.start() < window.end())
}

/// The steps of what the claims of one intent draw on a pool together.
fn own_steps(draw: &Draw, claims: &[Claim]) -> Vec<OwnStep> {
    let own = draw.claims.iter().map(|claim| own_use(*claim, claims[*claim].window(Time::ZERO), claims));
    let own_step = |step: Step| OwnStep {
        offset: step.window.start().since(Time::ZERO),
        duration: step.window.duration(),
        units: u64::try_from(step.sum).unwrap_or(u64::MAX),
    };
    Sums::of(own.collect()).steps().into_iter().map(own_step).collect()
}

fn own_use(claim: usize, window: Window, claims: &[Claim]) -> Use {
    Use { key: 0, version: 0, window, units: units(&claims[claim]) }
}

fn units(claim: &Claim) -> u64 {
    match claim.mode {
        Mode::Units(units) => units,
        Mode::Shared | Mode::Exclusive => 0,
    }
}
