//! What makes a slot durable before anything of it is sent.

use std::fmt::Debug;
use std::sync::Arc;

use crate::resolver::{SlotBatch, SlotOutcome};
use crate::session::coordinator::SessionNotes;

/// What a slot's record is made of.
#[derive(Clone, Copy, Debug)]
pub struct SlotEntry<'a> {
    /// What arrived.
    pub batch: &'a SlotBatch,
    /// What was decided, and what that changed.
    pub outcome: &'a SlotOutcome,
    /// What happened to sessions since the record before.
    pub notes: &'a SessionNotes,
}

impl SlotEntry<'_> {
    /// Whether the slot had neither input nor output and changed nothing: it needs no record.
    pub fn is_idle(&self) -> bool {
        let changes = self.outcome.changes.as_ref();
        self.batch.inputs().is_empty()
            && self.outcome.decisions.is_empty()
            && self.notes.is_empty()
            && changes.is_none_or(|changes| changes.is_idle())
    }
}

/// What became of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// It is as durable as configured: what was decided may be told.
    Committed,
    /// It is not in the log and never will be: another coordinator has taken over, or the log takes no
    /// more.
    Refused(String),
    /// It may be in the log or not; a restart will tell.
    Unknown(String),
}

/// How far a journal has come since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Records that were written.
    pub records: u64,
    /// Those of them that are known to be on disk.
    pub synced: u64,
    /// Bytes of all that were written, as the file holds them.
    pub bytes: u64,
}

/// Tells how far a journal has come, while it is written.
pub trait Progress: Debug + Send + Sync {
    /// As of now. Returns within a microsecond or so.
    fn written(&self) -> Written;
}

/// Where the slot loop writes each slot's record, in slot order.
///
/// The loop sends nothing of a slot before its record is [`Appended::Committed`]. After any other
/// answer it decides no further slot: a decision that could be forgotten must not be acted on, and one
/// that others have superseded neither.
pub trait Journal: Debug + Send {
    /// Appends the record of a slot, and returns once what became of it is known.
    fn append(&mut self, entry: SlotEntry<'_>) -> Appended;

    /// For those who watch how far it comes; `None` where it keeps nothing.
    fn progress(&self) -> Option<Arc<dyn Progress>> {
        None
    }

    /// Nothing more will be appended: makes durable what is not yet.
    fn close(&mut self) -> Appended {
        Appended::Committed
    }
}

/// Keeps nothing: for a coordinator in memory only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn append(&mut self, _: SlotEntry<'_>) -> Appended {
        Appended::Committed
    }
}
