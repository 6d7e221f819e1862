//! Slots: what arrives is stamped, put in order, and handed on slot by slot.
//!
//! Pure: time comes in as an argument, and nothing here sleeps, locks or sends. It must never lose
//! an input that it took in without handing it back, nor let one that arrives at or after a slot's decision time into it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod clearing;
mod collector;
mod queue;
mod rank;

pub use clearing::Clearing;
pub use collector::{Closed, Collector, Full, Refused, Room};
pub use rank::{Asked, Rank, Turned};
