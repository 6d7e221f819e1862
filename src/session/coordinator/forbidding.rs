//! What was forbidden, for the record: who asked for what, and which rule was against it.
//!
//! Whoever is forbidden something may ask again and again, so only a bounded number of refusals a second is kept;
//! the others are counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Denial;
use super::DrainNote;
use super::Sessions;
use super::priority::Sent;
use super::rights::{Forbidden, ForbiddenBy};
use crate::limits;
use crate::types::{Agent, IntentId, Time};
use crate::wire::Refusal;

/// What of rights goes into a slot's record.
#[derive(Clone, Debug, PartialEq)]
pub enum RightsNote {
    /// Something was forbidden since the record before.
    Forbidden(ForbiddenNote),
    /// So many more refusals since the record before, of which nothing else is kept.
    LeftOut(u64),
    /// Of the declaration or revision that is this input, less counts than was sent.
    Lowered {
        /// The input of the slot, by index.
        input: usize,
        /// What was sent.
        sent: Sent,
    },
    /// This input of the operator's was asked for by an agent.
    Administered {
        /// The input of the slot, by index.
        input: usize,
        /// By whom.
        by: Agent,
    },
    /// The coordinator was ordered to drain, or to drain by another deadline.
    Drain(DrainNote),
}

/// Something that was forbidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForbiddenNote {
    /// When it arrived.
    pub at: Time,
    /// Who asked.
    pub agent: Agent,
    /// What for.
    pub asked: Attempt,
    /// The path or the frame at fault; empty for everything.
    pub what: Arc<str>,
    /// By which rule; `None` where none is about it.
    pub rule: Option<Arc<str>>,
    /// Why.
    pub by: ForbiddenBy,
}

/// What was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// To declare, or to revise, this intent.
    Declare(IntentId),
    /// To renew this lease.
    Renew(IntentId),
    /// To release this intent of its own.
    Release(IntentId),
    /// To end this intent of another.
    Administer(Agent, IntentId),
    /// To list or to watch.
    Look,
    /// To have the coordinator drain.
    Drain,
    /// To set a capacity.
    SetCapacity,
}

/// How often something was forbidden since the start, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForbiddenCounts([u64; ForbiddenBy::ALL.len()]);

impl ForbiddenCounts {
    fn note(&mut self, by: ForbiddenBy) {
        let at = ForbiddenBy::ALL.iter().position(|known| *known == by);
        if let Some(count) = at.and_then(|at| self.0.get_mut(at)) {
            *count += 1;
        }
    }

    /// Each reason, with how often.
    pub fn iter(&self) -> impl Iterator<Item = (ForbiddenBy, u64)> + '_ {
        ForbiddenBy::ALL.iter().copied().zip(self.0)
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Forbidding {
    /// What waits for the next record.
    waiting: Vec<ForbiddenNote>,
    left_out: u64,
    /// The second that is counted, and how many of each name were kept in it.
    second: u64,
    kept: BTreeMap<Agent, usize>,
    counts: ForbiddenCounts,
}

impl Forbidding {
    fn add(&mut self, note: ForbiddenNote) {
        let second = note.at.as_us() / 1_000_000;
        if second != self.second {
            self.second = second;
            self.kept.clear();
        }
        let all: usize = self.kept.values().sum();
        let own = self.kept.get(&note.agent).copied().unwrap_or_default();
        let fits = all < limits::FORBIDDEN_KEPT_A_SECOND
            && own < limits::FORBIDDEN_KEPT_OF_A_NAME
            && self.waiting.len() < limits::FORBIDDEN_WAITING;
        if fits {
            *self.kept.entry(note.agent.clone()).or_default() += 1;
            self.waiting.push(note);
        } else {
            self.left_out += 1;
        }
    }

    /// What is to be recorded; it waits no longer.
    pub(super) fn take(&mut self) -> Vec<RightsNote> {
        let left_out = std::mem::take(&mut self.left_out);
        let waiting = std::mem::take(&mut self.waiting);
        let notes = waiting.into_iter().map(RightsNote::Forbidden);
        notes.chain((left_out > 0).then_some(RightsNote::LeftOut(left_out))).collect()
    }
}

impl Sessions {
    /// Whether something that was forbidden, a reload, or an order to drain, waits for a record. What is only counted waits for one that there is anyway:
    /// otherwise each slot would have one.
    pub fn has_to_record(&self) -> bool {
        !self.forbidding.waiting.is_empty() || self.operating.has_to_record() || self.drain.has_to_record()
    }

    /// How often something was forbidden since the start.
    pub fn forbidden(&self) -> ForbiddenCounts {
        self.forbidding.counts
    }

    /// Takes note that something is forbidden, and says what the asker is told.
    pub(super) fn forbid(&mut self, agent: &Agent, asked: Attempt, why: Forbidden, now: Time) -> Denial {
        let Forbidden { rule, by, field, what, hint } = why;
        self.forbidding.counts.note(by);
        if self.changes.is_some() {
            let note = ForbiddenNote { at: now, agent: agent.clone(), asked, what, rule, by };
            self.forbidding.add(note);
        }
        Denial { reason: Refusal::Forbidden, field, hint, retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(agent: &str, us: u64) -> ForbiddenNote {
        ForbiddenNote {
            at: Time::from_us(us),
            agent: Agent::new(agent).unwrap(),
            asked: Attempt::Look,
            what: "".into(),
            rule: None,
            by: ForbiddenBy::NoRule,
        }
    }

    /// How many are kept of those that wait, and how many are left out.
    fn taken(forbidding: &mut Forbidding) -> (usize, u64) {
        let notes = forbidding.take();
        let kept = notes.iter().filter(|note| matches!(note, RightsNote::Forbidden(_))).count();
        let left_out =
            notes.iter().map(|note| if let RightsNote::LeftOut(count) = note { *count } else { 0 });
        (kept, left_out.sum())
    }

    #[test]
    fn one_name_and_all_together_have_so_many_kept_a_second_and_the_rest_is_counted() {
        let mut forbidding = Forbidding::default();
        (0..1_000).for_each(|at| forbidding.add(note("a", at)));
        assert_eq!(taken(&mut forbidding), (limits::FORBIDDEN_KEPT_OF_A_NAME, 996));
        (0..1_000).for_each(|number| forbidding.add(note(&format!("b-{number}"), 2_000)));
        let rest = limits::FORBIDDEN_KEPT_A_SECOND - limits::FORBIDDEN_KEPT_OF_A_NAME;
        assert_eq!(taken(&mut forbidding), (rest, 1_000 - rest as u64), "in the same second");
        forbidding.add(note("a", 999_999));
        assert_eq!(taken(&mut forbidding), (0, 1));
        forbidding.add(note("a", 1_000_000));
        assert_eq!(taken(&mut forbidding), (1, 0), "the next second");
        assert_eq!(taken(&mut forbidding), (0, 0));
    }

    #[test]
    fn what_waits_for_a_record_is_bounded() {
        let mut forbidding = Forbidding::default();
        (0..1_000_u64).for_each(|second| forbidding.add(note("a", second * 1_000_000)));
        let most = limits::FORBIDDEN_WAITING;
        assert_eq!(taken(&mut forbidding), (most, 1_000 - most as u64));
    }
}
