//! The slot in which a drain begins: whatever waits undecided ends in it, by the operator's releases.
//!
//! They are inputs like any other, added as the slot is closed, when it is certain who waits: so a record of the slot
//! decides alike, and a grant that was decided in the slot before is never taken for one who waits.

use std::sync::Arc;

use super::Closed;
use crate::resolver::{Input, SlotBatch, SystemOp};
use crate::types::{IntentKey, Micros, Slot, Time};

/// What is to be ended, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clearing {
    /// When the drain began.
    pub at: Time,
    /// What those who wait are told.
    pub reason: Arc<str>,
}

impl Clearing {
    /// The slot in which it is done, of slots of `length`.
    pub fn slot(&self, length: Micros) -> Slot {
        Slot::of(self.at, length)
    }
}

impl<O: Clone> Closed<O> {
    /// The slot with a release of each of `undecided` at its end. It is the slot of `clearing`, and `own` is where its
    /// releases come from.
    #[must_use]
    pub fn clear(
        self,
        length: Micros,
        clearing: &Clearing,
        undecided: impl Iterator<Item = IntentKey>,
        own: &O,
    ) -> Self {
        let Closed { batch, mut origins } = self;
        let mut inputs = batch.inputs().to_vec();
        let opens = batch.slot().opens(length);
        let at = inputs.last().map_or(opens, Input::at).max(clearing.at);
        for IntentKey { agent, id } in undecided {
            let op = SystemOp::Release { agent, id, reason: clearing.reason.to_string() };
            inputs.push(Input::System { at, op });
            origins.push(own.clone());
        }
        let batch = SlotBatch::new(batch.slot(), length, inputs)
            .unwrap_or_else(|error| unreachable!("it began in that slot: {error}"));
        Closed { batch, origins }
    }
}
