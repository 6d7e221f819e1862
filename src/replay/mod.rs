//! Reading an audit log again: whether it holds together, whether it would be decided alike, what
//! another policy had decided, and what became of one intent.
//!
//! It finds the oldest state from which the records follow ([`Base`]), checks that each record makes
//! the state that it says ([`Checker`]), decides records again ([`Replayer`]) or under other rules
//! ([`Policy`]), and tells the story of one intent ([`Story`]). It changes nothing and prints nothing.
//! Records come one after the other, so that memory holds the state and not the log.

mod again;
mod base;
mod check;
mod policy;
mod remedy;
mod story;
mod tally;

pub use again::{Difference, Replayer};
pub use base::Base;
pub use check::{Checker, Totals, Unfit};
pub use policy::{Comparison, Policy};
pub use remedy::Remedy;
pub use story::{Event, Holder, Story, Wanted};
pub use tally::{Figures, Tally};

use crate::audit::{Record, StoredInput};
use crate::resolver::AgentOp;
use crate::types::{Intent, IntentKey, Micros, Slot, Time};

/// The slot length that a decision time tells; `None` where it is none of that slot.
pub fn slot_length(slot: Slot, at: Time) -> Option<Micros> {
    let slots = slot.number().checked_add(1)?;
    let length = Micros::from_us(at.as_us() / slots);
    (at.as_us().is_multiple_of(slots) && length > Micros::ZERO).then_some(length)
}

/// The declarations and revisions of a record that were taken in, each with its arrival. Those that
/// were refused or only repeated were answered at once.
fn taken_in(record: &Record) -> impl Iterator<Item = (IntentKey, Time, &Intent)> {
    let is_answered = |at: usize| record.decisions.iter().any(|decision| decision.answers == Some(at));
    let declared = record.inputs.iter().enumerate().filter_map(|(number, input)| match input {
        StoredInput::Agent { at, agent, op: AgentOp::Declare(intent) | AgentOp::Revise(intent) } => {
            Some((number, IntentKey { agent: agent.clone(), id: intent.id }, *at, intent))
        }
        _ => None,
    });
    declared.filter(move |(number, ..)| !is_answered(*number)).map(|(_, key, at, intent)| (key, at, intent))
}
