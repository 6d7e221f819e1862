//! The decision core: a pure function of state, slot, inputs in arrival order, and rules.
//!
//! [`Resolver::resolve`] takes one [`SlotBatch`] and returns one [`SlotOutcome`]; it cannot fail,
//! knows no clock, and is owned by one caller, so there is no lock around it. docs/DECISIONS.md
//! states the rules.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod batch;
mod outcome;
mod rules;

pub use batch::{AgentOp, BatchError, Input, RulesChange, SlotBatch, SystemOp};
pub use outcome::{GrantView, SlotOutcome};
pub use rules::{Resource, Rules};

use crate::types::Slot;

/// The decision core and all its state.
#[derive(Debug)]
pub struct Resolver {
    rules: Rules,
}

impl Resolver {
    /// A coordinator's state before its first slot.
    pub fn new(rules: Rules) -> Self {
        Resolver { rules }
    }

    /// The rules in force.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Decides one slot. Slots come in rising order; those left out since the last one must lie
    /// before [`Resolver::next_due`], so that nothing would have happened in them.
    pub fn resolve(&mut self, batch: SlotBatch) -> SlotOutcome {
        SlotOutcome::empty(batch.slot(), batch.slot().decided_at(self.rules.length))
    }

    /// The next slot in which something may happen without any input, if there is one.
    pub fn next_due(&self) -> Option<Slot> {
        None
    }

    /// Whether some intent is still undecided.
    pub fn has_undecided(&self) -> bool {
        false
    }

    /// Every grant in force, by token.
    pub fn grants(&self) -> impl Iterator<Item = GrantView<'_>> {
        std::iter::empty()
    }
}
