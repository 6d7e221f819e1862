//! What makes a slot durable before anything of it is sent.

use std::fmt::Debug;
use std::io;

use crate::resolver::{SlotBatch, SlotOutcome};

/// Where the slot loop writes each slot's record.
///
/// The loop calls [`inputs`](Journal::inputs) before a slot is resolved and
/// [`outcome`](Journal::outcome) after, in slot order, and sends nothing of the slot before
/// `outcome` has returned. A journal on disk will append the record there and make it as durable
/// as it is configured to be.
pub trait Journal: Debug + Send {
    /// The slot's inputs, before they are decided.
    fn inputs(&mut self, batch: &SlotBatch);

    /// The slot's decisions. Returns once its record is durable.
    ///
    /// # Errors
    /// Where the record may not be durable. The loop ends then and nothing of the slot is sent: a
    /// decision that could be forgotten must not be acted on.
    fn outcome(&mut self, outcome: &SlotOutcome) -> io::Result<()>;
}

/// Keeps nothing: for a coordinator in memory only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn inputs(&mut self, _: &SlotBatch) {}

    fn outcome(&mut self, _: &SlotOutcome) -> io::Result<()> {
        Ok(())
    }
}
