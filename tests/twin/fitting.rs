//! What fits: every pair of claims is looked at, and every instant at which a sum can change.

use std::collections::BTreeSet;
use std::sync::Arc;

use preclaim::limits;
use preclaim::resolver::{Resource, Rules};
use preclaim::space::geometry;
use preclaim::types::{Blocker, Claim, IntentKey, Micros, Mode, Path, Target, Time, Token, Window};

/// Something that takes part of space and time: a grant, what a revision left, or a held place.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) key: IntentKey,
    /// `None` for a held place.
    pub(crate) token: Option<Token>,
    pub(crate) claims: Arc<[Claim]>,
    /// One a claim; `None` where that window is gone.
    pub(crate) windows: Vec<Option<Window>>,
    /// Whether `time_tolerance` counts; it does not for the place that a reading holds.
    pub(crate) tolerant: bool,
}

impl Standing {
    pub(crate) fn parts(&self) -> impl Iterator<Item = (usize, &Claim, Window)> {
        parts(&self.claims, &self.windows)
    }

    pub(crate) fn first_start(&self) -> Time {
        self.parts().map(|(_, _, window)| window.start()).min().unwrap_or(Time::MAX)
    }

    pub(crate) fn end(&self) -> Time {
        self.parts().map(|(_, _, window)| window.end()).max().unwrap_or(Time::ZERO)
    }
}

pub(crate) fn parts<'a>(
    claims: &'a [Claim],
    windows: &'a [Option<Window>],
) -> impl Iterator<Item = (usize, &'a Claim, Window)> {
    claims.iter().zip(windows).enumerate().filter_map(|(at, (claim, window))| Some((at, claim, (*window)?)))
}

pub(crate) fn windows_at(claims: &[Claim], start: Time) -> Vec<Option<Window>> {
    claims.iter().map(|claim| Some(claim.window(start))).collect()
}

fn longest_prefix<'a, T>(
    rules: &'a Rules,
    path: &Path,
    key: impl Fn(&'a Resource) -> Option<T>,
) -> Option<T> {
    let mut best = None;
    for resource in &rules.resources {
        if let Some(value) = key(resource)
            && resource.path.covers(path)
            && best.as_ref().is_none_or(|(depth, _)| *depth < resource.path.depth())
        {
            best = Some((resource.path.depth(), value));
        }
    }
    best.map(|(_, value)| value)
}

pub(crate) fn tolerance(rules: &Rules, path: &Path) -> Micros {
    longest_prefix(rules, path, |resource| resource.time_tolerance).unwrap_or(Micros::ZERO)
}

pub(crate) fn overlap_ratio(rules: &Rules, path: &Path) -> f64 {
    longest_prefix(rules, path, |resource| resource.overlap_ratio).unwrap_or(0.0)
}

pub(crate) fn thresholds(rules: &Rules, path: &Path) -> (Micros, f64) {
    (tolerance(rules, path), overlap_ratio(rules, path))
}

pub(crate) fn max_hold(rules: &Rules, path: &Path) -> Option<Micros> {
    longest_prefix(rules, path, |resource| resource.max_hold)
}

/// Whether a claim with this window is held longer than `max_hold`; in a chain of revisions that
/// counts from the chain's anchor.
pub(crate) fn lasts_too_long(rules: &Rules, claim: &Claim, window: Window, anchor: Option<Time>) -> bool {
    let from = anchor.unwrap_or(window.start());
    max_hold(rules, claim.target.path()).is_some_and(|longest| window.end().since(from) > longest)
}

/// Whether two paths, or a path and a region, or two regions have anything to do with each other.
pub(crate) fn related(rules: &Rules, a: &Target, b: &Target) -> bool {
    match (a, b) {
        (Target::Path(a), Target::Path(b)) => a.is_related_to(b),
        (Target::Path(path), Target::Region(region)) | (Target::Region(region), Target::Path(path)) => {
            path.covers(&region.frame)
        }
        (Target::Region(a), Target::Region(b)) => {
            if a.frame != b.frame || !geometry::meet(&a.shape, &b.shape) {
                return false;
            }
            let threshold = overlap_ratio(rules, &a.frame);
            threshold == 0.0 || geometry::overlap_ratio_e9(&a.shape, &b.shape) as f64 / 1e9 > threshold
        }
    }
}

/// Whether two claims, not both of units, are in each other's way.
fn clash(rules: &Rules, mine: (&Claim, Window), theirs: (&Claim, Window), tolerant: bool) -> bool {
    match (mine.0.mode, theirs.0.mode) {
        (Mode::Shared, Mode::Shared) | (Mode::Units(_), Mode::Units(_)) => return false,
        _ => {}
    }
    if mine.1.overlap(theirs.1).is_none() || !related(rules, &mine.0.target, &theirs.0.target) {
        return false;
    }
    let tolerated = if tolerant { pair_tolerance(rules, mine.0, theirs.0) } else { Micros::ZERO };
    mine.1.overlaps_by_more_than(theirs.1, tolerated)
}

fn pair_tolerance(rules: &Rules, a: &Claim, b: &Claim) -> Micros {
    tolerance(rules, a.target.path()).min(tolerance(rules, b.target.path()))
}

/// The units that a claim takes out of `pool` at instant `t`.
fn units_at(pool: &Path, claim: &Claim, window: Window, t: Time) -> u128 {
    match claim.mode {
        Mode::Units(n) if window.start() <= t && t < window.end() && pool.covers(claim.target.path()) => {
            u128::from(n)
        }
        _ => 0,
    }
}

/// The capacities that would be exceeded, each with an instant at which it would be. `within` limits
/// the instants that are looked at.
pub(crate) fn overfull<'r>(
    rules: &'r Rules,
    claims: &[Claim],
    windows: &[Option<Window>],
    view: &[&Standing],
    within: Option<Window>,
) -> Vec<(&'r Path, Time)> {
    let mut found = Vec::new();
    if !claims.iter().any(|claim| matches!(claim.mode, Mode::Units(_))) {
        return found;
    }
    let theirs = view.iter().flat_map(|standing| standing.parts());
    let units_only = theirs.filter(|(_, claim, _)| matches!(claim.mode, Mode::Units(_)));
    let mut instants: BTreeSet<Time> = units_only.map(|(_, _, window)| window.start()).collect();
    instants.extend(parts(claims, windows).map(|(_, _, window)| window.start()));
    instants.extend(within.map(Window::start));
    instants.retain(|t| within.is_none_or(|within| within.start() <= *t && *t < within.end()));
    for resource in &rules.resources {
        let Some(capacity) = resource.capacity else { continue };
        for &t in &instants {
            let own: u128 = parts(claims, windows).map(|(_, c, w)| units_at(&resource.path, c, w, t)).sum();
            if own > 0 && own + taken(&resource.path, view, t) > u128::from(capacity) {
                found.push((&resource.path, t));
            }
        }
    }
    found
}

/// What stands out of `pool` at `t`. Of an intent's grant and what revisions left of it, the larger.
fn taken(pool: &Path, view: &[&Standing], t: Time) -> u128 {
    let mut by_intent: Vec<(&IntentKey, u128)> = Vec::new();
    for standing in view {
        let sum: u128 = standing.parts().map(|(_, claim, window)| units_at(pool, claim, window, t)).sum();
        match by_intent.iter_mut().find(|(key, _)| *key == &standing.key) {
            Some((_, largest)) => *largest = sum.max(*largest),
            None => by_intent.push((&standing.key, sum)),
        }
    }
    by_intent.iter().map(|(_, sum)| sum).sum()
}

/// Whether claims with these windows fit beside all that is in view.
pub(crate) fn fits(rules: &Rules, claims: &[Claim], windows: &[Option<Window>], view: &[&Standing]) -> bool {
    for (_, mine, my_window) in parts(claims, windows) {
        for standing in view {
            for (_, theirs, their_window) in standing.parts() {
                if clash(rules, (mine, my_window), (theirs, their_window), standing.tolerant) {
                    return false;
                }
            }
        }
    }
    overfull(rules, claims, windows, view, None).is_empty()
}

/// The pairs of claims that conflict, as (index in view, my claim, their claim), in that order.
pub(crate) fn pairs(
    rules: &Rules,
    claims: &[Claim],
    windows: &[Option<Window>],
    view: &[&Standing],
    within: Option<Window>,
) -> BTreeSet<(usize, usize, usize)> {
    let full = overfull(rules, claims, windows, view, within);
    let mut found = BTreeSet::new();
    for (at, standing) in view.iter().enumerate() {
        for (my_claim, mine, my_window) in parts(claims, windows) {
            for (their_claim, theirs, their_window) in standing.parts() {
                let exceeds = full.iter().any(|&(pool, t)| {
                    units_at(pool, mine, my_window, t) > 0 && units_at(pool, theirs, their_window, t) > 0
                });
                if exceeds || clash(rules, (mine, my_window), (theirs, their_window), standing.tolerant) {
                    found.insert((at, my_claim, their_claim));
                }
            }
        }
    }
    found
}

/// The pairs of claims that conflict, as they are told.
pub(crate) fn blockers(
    rules: &Rules,
    claims: &[Claim],
    windows: &[Option<Window>],
    view: &[&Standing],
    within: Option<Window>,
) -> Vec<Blocker> {
    let tell = |(at, claim, their_claim): (usize, usize, usize)| {
        let standing = view[at];
        let window = windows[claim]?.overlap(standing.windows[their_claim]?)?;
        let ratio = match (&claims[claim].target, &standing.claims[their_claim].target) {
            (Target::Region(a), Target::Region(b)) => {
                Some(geometry::overlap_ratio_e9(&a.shape, &b.shape) as f64 / 1e9)
            }
            _ => None,
        };
        let (key, token) = (standing.key.clone(), standing.token);
        Some((at, Blocker { key, token, claim, their_claim, window, ratio }))
    };
    let mut told: Vec<_> = pairs(rules, claims, windows, view, within).into_iter().filter_map(tell).collect();
    told.sort_by_key(|(at, blocker)| {
        (
            blocker.token.map_or((1, *at as u64), |token| (0, token.number())),
            blocker.claim,
            blocker.their_claim,
        )
    });
    told.into_iter().map(|(_, blocker)| blocker).take(limits::BLOCKERS).collect()
}

/// The starts from `from` to `to` at which something may begin to fit: `from`, and each at which a
/// claim has just passed the end of a window, with and without the tolerance.
fn candidates(rules: &Rules, claims: &[Claim], view: &[&Standing], from: Time, to: Time) -> BTreeSet<Time> {
    let mut starts = BTreeSet::from([from]);
    for (_, theirs, window) in view.iter().flat_map(|standing| standing.parts()) {
        for mine in claims {
            for tolerated in [Micros::ZERO, pair_tolerance(rules, mine, theirs)] {
                let passed = window.end().as_us().checked_sub(mine.offset.as_us());
                starts.extend(passed.and_then(|us| us.checked_sub(tolerated.as_us())).map(Time::from_us));
            }
        }
    }
    starts.retain(|start| from <= *start && *start <= to);
    starts
}

/// The earliest start from `from` to `to` at which the claims fit and none lasts too long.
pub(crate) fn earliest(
    rules: &Rules,
    claims: &[Claim],
    anchor: Option<Time>,
    view: &[&Standing],
    (from, to): (Time, Time),
) -> Option<Time> {
    let is_in_time = |start: &Time| {
        let ends = |claim: &Claim| {
            let parts = [start.as_us(), claim.offset.as_us(), claim.duration.as_us()];
            parts.into_iter().map(u128::from).sum::<u128>() <= u128::from(u64::MAX)
        };
        claims.iter().all(ends)
    };
    candidates(rules, claims, view, from, to).into_iter().filter(is_in_time).find(|&start| {
        let windows = windows_at(claims, start);
        let short = parts(claims, &windows).all(|(_, claim, w)| !lasts_too_long(rules, claim, w, anchor));
        short && fits(rules, claims, &windows, view)
    })
}
