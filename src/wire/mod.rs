//! The wire: what agents and the coordinator say to each other, byte by byte. docs/PROTOCOL.md is
//! the law; the golden bytes in `tests/wire_golden.rs` hold this room to it.
//!
//! A lane is a sequence of frames, each a length, a kind and a body. Kinds, reasons and close codes
//! have explicit numbers which are never reused; the shape of a message never changes, it only grows
//! by numbered [`Extensions`]. This room does no IO, knows no clock, and takes no more memory for a
//! message than a small multiple of [`crate::limits::FRAME_BYTES`], whatever a peer sends.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod answer;
mod bearer;
mod capacity;
mod close;
mod codec;
mod convert;
mod degradations;
mod draining;
mod extension;
mod fence_refusals;
mod frame;
mod listing;
mod message;
mod rights;
mod trace_context;

pub use answer::{Answer, Blocker, Conflict, ContestedNews, Holding, Refusal, Verdict};
pub use bearer::Bearer;
pub use capacity::{CapacityEntry, CapacityPage, NoMark, SetCapacity, capacities_of};
pub use close::CloseCode;
pub use codec::CodecError;
pub use convert::{raw_intent, raw_mode, raw_target, refusal_of};
pub use degradations::Degradations;
pub use draining::{DrainAsk, DrainOrder, DrainStands};
pub use extension::{Extension, Extensions};
pub use frame::{Frame, FrameError, FrameReader};
pub use listing::{
    EntryState, List, ListEntry, ListReply, ListedClaim, NoStandings, Standing, Watch, WatchEvent,
    standing_of,
};
pub use message::{
    Bye, ClockPing, ClockPong, Declaration, Declare, DecodeError, Draining, Hello, Release, Renew, Replaced,
    Role, ToAgent, ToCoordinator, Welcome, WireLimits,
};
pub use rights::{Administer, AllowanceLeft, InForce};

/// The protocol's name in the TLS handshake. A peer that speaks another is refused there.
pub const ALPN: &[u8] = b"preclaim/1";

/// The versions of the messages that this build speaks, lowest and highest. The hello offers a range,
/// the welcome names the highest that both speak.
pub const VERSIONS: (u16, u16) = (1, 1);
