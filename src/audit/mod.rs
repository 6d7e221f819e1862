//! The audit log as data and as bytes: what a slot's record holds, and records in frames, chained by
//! hashes, in segments.
//!
//! It says what stands in a segment and where it ends, cleanly, torn or damaged; docs/AUDIT_FORMAT.md
//! draws every byte. It never reads or writes a file (the `store` room does), and it takes no memory
//! on the word of bytes that may be wrong: what it holds was there.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod body;
mod chain;
mod frame;
mod journal;
mod record;
mod scan;
mod segment;
pub mod sim;
mod state;
mod tail;
mod text;

pub use body::{BodyError, ItemReader, ItemWriter, SnapshotExtra, SnapshotItem, decode_head, encode_head};
pub use chain::{ChainHash, config_hash};
pub use frame::{
    FRAME_HEAD_BYTES, FrameReader, Framed, STAMP_BYTES, Source, Stamp, write_frame, write_record,
};
pub use journal::{Appended, Journal, NoJournal, Progress, SlotEntry, Written};
pub use record::{ChangesPart, RULES_VERSION, Record, StoredInput, StoredOp, encode, encode_keeping};
pub use scan::{Damage, End, Entry, Expected, Link, Place, Scanner, Step, What};
pub use segment::{FORMAT_VERSION, SEGMENT_HEADER_BYTES, SegmentHeader};
pub use state::{Discontinuity, Follower, State};
pub use text::{TextKept, TextKey};

#[cfg(test)]
mod frame_tests;
