//! The bodies of records and of snapshots' chunks, byte by byte. docs/AUDIT_FORMAT.md is the law; the
//! golden bytes in `tests/audit_body.rs` hold this room to it.
//!
//! Numbers are LEB128, signed ones in zigzag, times count from the body's own time, and a name is
//! spelled where it stands first and numbered from there on, so that what a busy slot repeats costs a
//! byte or two. Every kind has an explicit number which is never reused.
//!
//! What is read may be anything: a length is believed only as far as there are bytes, and each value
//! goes through its type's own checks.

mod changes;
mod input;
mod intent;
mod notes;
mod read;
mod snapshot;
mod standing;
mod verdict;
mod write;

use std::fmt;

pub(super) use read::Reader;
pub use snapshot::{ItemReader, ItemWriter, SnapshotExtra, SnapshotItem, decode_head, encode_head};
pub(super) use write::Writer;

/// Bytes that are no body: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyError {
    /// The offset in the body, in bytes, of what is wrong.
    pub at: usize,
    /// What is wrong there, for people.
    pub what: &'static str,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of the body: {}", self.at, self.what)
    }
}

impl std::error::Error for BodyError {}

/// Where an intent is to be found that a record need not spell.
pub(super) mod source {
    /// It is spelled here.
    pub(crate) const SPELLED: u8 = 0;
    /// As what the id stood for before the slot.
    pub(crate) const BEFORE: u8 = 1;
    /// As the latest input of this record that declares the id.
    pub(crate) const DECLARED: u8 = 2;
}

/// Where a decision line is to be found that a record need not spell.
pub(super) mod line {
    /// There is none.
    pub(crate) const NONE: u8 = 0;
    /// It is spelled here.
    pub(crate) const SPELLED: u8 = 1;
    /// As the latest decision of this record about the id.
    pub(crate) const DECIDED: u8 = 2;
}
