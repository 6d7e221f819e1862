//! A store that keeps the highest fence of each path takes every write of a rightful holder, and none of a
//! holder from the past once a later one has written.

use std::collections::BTreeMap;

use super::{Happened, Invariant, View};
use crate::sim::ledger::GrantRecord;
use crate::types::{Claim, Fence, Mode, Target, Time};

#[derive(Default)]
pub(super) struct StoreTakesTheRightful {
    highest: BTreeMap<&'static str, Fence>,
}

impl Invariant for StoreTakesTheRightful {
    fn name(&self) -> &'static str {
        "fence: the store takes the rightful holder, and no one from the past"
    }

    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String> {
        let Happened::Wrote { process, path, fence } = happened else { return Ok(()) };
        let Some(record) = view.ledger.grants.get(&fence.token) else { return Ok(()) };
        if fence.start > view.time {
            // A store that can tell the time refuses it. Who writes so has, or had then, a clock that broke its
            // promise; `belief` looks at the others.
            return Ok(());
        }
        let highest = self.highest.get(path).copied();
        let is_taken = highest.is_none_or(|highest| *fence >= highest);
        let is_rightful = record.ended.is_none() && has(record, path, view);
        if is_rightful && !is_taken {
            // A grant that was withdrawn while its holder could not be told may have written since; and two
            // claims of one grant on the path have fences of their own.
            let excused = highest.is_some_and(|highest| {
                highest.token == fence.token || view.ledger.is_withdrawn(highest.token)
            });
            return if excused {
                Ok(())
            } else {
                Err(format!("process {process} has {path}, and its fence {fence} is below {highest:?}"))
            };
        }
        if !is_taken {
            return Ok(());
        }
        let before = highest.and_then(|highest| view.ledger.grants.get(&highest.token));
        if let Some(before) = before
            && fence.token != highest.map_or(fence.token, |highest| highest.token)
            && !view.ledger.is_withdrawn(fence.token)
            && windows_on(before, path).all(|theirs| windows_on(record, path).all(|mine| mine < theirs))
        {
            return Err(format!(
                "process {process} wrote {path} with {fence} after a later holder with {highest:?}"
            ));
        }
        self.highest.insert(path, *fence);
        Ok(())
    }
}

/// Whether the grant has the path for itself, now.
fn has(record: &GrantRecord, path: &str, view: &View<'_>) -> bool {
    record
        .claims
        .iter()
        .zip(&record.windows)
        .any(|(claim, window)| covers(claim, path) && window.start() <= view.time && view.time < window.end())
}

/// The starts of the windows in which a grant has the path for itself.
fn windows_on<'a>(record: &'a GrantRecord, path: &'a str) -> impl Iterator<Item = Time> + 'a {
    let of_path = record.claims.iter().zip(&record.windows).filter(|(claim, _)| covers(claim, path));
    of_path.map(|(_, window)| window.start())
}

fn covers(claim: &Claim, path: &str) -> bool {
    let Target::Path(of) = &claim.target else { return false };
    let of = of.as_str();
    claim.mode == Mode::Exclusive && (of == path || path.starts_with(&format!("{of}/")))
}
