//! The coordinator: the slot loop, and the sessions that feed it.
//!
//! A shell: what is decided, and what a session may do, is decided in the pure rooms.

mod intake;
mod journal;
mod observer;
mod slot_loop;

pub use journal::{Journal, NoJournal};
pub use observer::{Departure, Observer, Punctuality, SlotReport};
