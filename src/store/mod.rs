//! The state directory: the audit log on disk, its snapshots, and what a restart finds there.
//!
//! [`Log`] appends records, each durable as configured before it is answered; [`Archive`] reads them,
//! beside a coordinator or without one. What a record holds is not looked at here. All disk access goes
//! through [`Disk`], of which there is a real one and, in [`sim`], one that fails and loses power.
//!
//! # Why segments are filled with zeros ahead
//!
//! A sync of bytes written over zeros that are on disk writes those bytes; after a file has grown, or
//! over space that was only set aside (`fallocate`), it writes the file's metadata as well. Appends of
//! 16 KiB with a sync each take half to six tenths of the time, in the median, of those to a growing
//! file, and those to space that was set aside seven to nine tenths; the log's own append takes a tenth
//! to a fifth more than the bare write and sync. So a thread fills the next segment while the current one
//! is written. `cargo bench --bench store` measures all of them on the machine at hand.

mod archive;
mod disk;
mod error;
mod journal;
mod layout;
mod log;
mod open;
pub mod sim;
mod snapshot;
mod source;
mod upkeep;
mod walk;

pub use archive::{Archive, Item, Read, Rejection, SnapshotRead, Tail, Upto, Visit};
pub use disk::{Access, Disk, DiskFile, Listed, RealDisk};
pub use error::{Fault, OpenError};
pub(crate) use journal::follow;
pub use journal::{FileJournal, SNAPSHOT_THREAD, make_snapshot};
pub use layout::Anchor;
pub use log::{Durability, Log, Options, UpkeepBy};
pub use open::{Begin, Recovered, TornTail, repair_tail};
pub use snapshot::{Position, SnapshotWriter};
pub use walk::{Contents, Found, Take, Walk};

#[cfg(test)]
mod tests;
