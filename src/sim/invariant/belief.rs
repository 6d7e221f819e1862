//! No two agents believe, at the same instant, that they have what only one of them may have; and
//! no capacity is passed by what agents believe to have of it.
//!
//! An agent believes by its own clock, less its uncertainty. Left out are processes whose clock has just
//! broken its promise, and grants that were withdrawn before their time (by a preemption, or the
//! operator) while the holder could not be told.

use super::{Happened, Invariant, View};
use crate::sim::agent::{Belief, Process};
use crate::types::{Claim, Mode, Region, Target, Token};

pub(super) struct NoTwoBelieve;

/// The capacities of the world's rules.
const POOLS: [(&str, u64); 2] = [("pool", 4), ("pool/a", 3)];

impl Invariant for NoTwoBelieve {
    fn name(&self) -> &'static str {
        "belief: no two agents believe that they have the same"
    }

    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String> {
        let Happened::Changed { process } = happened else { return Ok(()) };
        let mine: Vec<Belief<'_>> = counted(&view.agents[*process], view).collect();
        for belief in &mine {
            for (number, other) in view.agents.iter().enumerate() {
                if number == *process {
                    continue;
                }
                let meets =
                    |theirs: &Belief<'_>| theirs.key != belief.key && excludes(belief.claim, theirs.claim);
                if let Some(theirs) = counted(other, view).find(meets) {
                    let record = |of: &Belief<'_>| view.ledger.grants.get(&of.token);
                    return Err(format!(
                        "{} of process {process} and {} of process {number}: {:?} and {:?}",
                        describe(belief),
                        describe(&theirs),
                        record(belief),
                        record(&theirs)
                    ));
                }
            }
        }
        if mine.iter().any(|belief| matches!(belief.claim.mode, Mode::Units(_))) {
            return POOLS.iter().try_for_each(|(path, capacity)| pool_holds(path, *capacity, view));
        }
        Ok(())
    }
}

/// What a process believes, as far as it counts.
fn counted<'a>(process: &'a Process, view: &View<'a>) -> impl Iterator<Item = Belief<'a>> {
    let ledger = view.ledger;
    let counts = process.doubts.is_none();
    process.beliefs(view.at, ledger).filter(move |belief| counts && !ledger.is_withdrawn(belief.token))
}

fn pool_holds(path: &str, capacity: u64, view: &View<'_>) -> Result<(), String> {
    let mut used: Vec<(Token, u64)> = Vec::new();
    for process in view.agents {
        for belief in counted(process, view) {
            let (Target::Path(of), Mode::Units(units)) = (&belief.claim.target, belief.claim.mode) else {
                continue;
            };
            let inside = of.as_str() == path || of.as_str().starts_with(&format!("{path}/"));
            if inside {
                used.push((belief.token, units));
            }
        }
    }
    let sum: u64 = used.iter().map(|(_, units)| units).sum();
    if sum <= capacity {
        return Ok(());
    }
    let records: Vec<_> = used.iter().map(|(token, _)| view.ledger.grants.get(token)).collect();
    Err(format!("{path} has {capacity} units, and is used by {used:?}: {records:?}"))
}

fn describe(belief: &Belief<'_>) -> String {
    format!("token {} ({:?} {:?}, {:?})", belief.token, belief.claim.target, belief.claim.mode, belief.window)
}

/// Whether two claims may not be had at one instant; written once more, without the decision core.
fn excludes(one: &Claim, other: &Claim) -> bool {
    let harmless = match (one.mode, other.mode) {
        (Mode::Shared, Mode::Shared) | (Mode::Units(_), Mode::Units(_)) => true,
        (Mode::Shared | Mode::Exclusive | Mode::Units(_), _) => false,
    };
    let meet = match (&one.target, &other.target) {
        (Target::Path(a), Target::Path(b)) => related(a.as_str(), b.as_str()),
        (Target::Region(a), Target::Region(b)) => a.frame == b.frame && overlap(a, b),
        // The world has no path claim on a frame.
        (Target::Path(_), Target::Region(_)) | (Target::Region(_), Target::Path(_)) => false,
    };
    !harmless && meet
}

fn related(a: &str, b: &str) -> bool {
    a == b || a.starts_with(&format!("{b}/")) || b.starts_with(&format!("{a}/"))
}

/// Boxes that lie along the axes.
fn overlap(a: &Region, b: &Region) -> bool {
    let corners = |of: &Region| (of.shape.min().to_metres(), of.shape.max().to_metres());
    let ((a_low, a_high), (b_low, b_high)) = (corners(a), corners(b));
    (0..2).all(|axis| a_low[axis] < b_high[axis] && b_low[axis] < a_high[axis])
}
