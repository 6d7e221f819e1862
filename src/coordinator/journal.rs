//! What makes a slot durable before anything of it is sent.

use std::fmt::Debug;
use std::io;

use crate::resolver::{SlotBatch, SlotOutcome};

/// Where the slot loop writes each slot's record, in slot order.
///
/// The loop sends nothing of a slot before [`append`](Journal::append) has returned. A journal on
/// disk appends the record there and makes it as durable as it is configured to be.
pub trait Journal: Debug + Send {
    /// What arrived in a slot and what was decided. Returns once the record is durable.
    ///
    /// # Errors
    /// Where the record may not be durable. The loop ends then and nothing of the slot is sent: a
    /// decision that could be forgotten must not be acted on.
    fn append(&mut self, batch: &SlotBatch, outcome: &SlotOutcome) -> io::Result<()>;
}

/// Keeps nothing: for a coordinator in memory only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn append(&mut self, _: &SlotBatch, _: &SlotOutcome) -> io::Result<()> {
        Ok(())
    }
}
