//! Reading an audit log again: whether it holds together, whether it would be decided alike, and how.
//!
//! It finds the oldest state from which the records follow ([`Base`]), checks that each record makes
//! the state that it says ([`Checker`]). It changes nothing, prints nothing, and takes records one
//! after the other, so that memory holds the state and not the log.

mod base;
mod check;

pub use base::Base;
pub use check::{Checker, Totals, Unfit};

use crate::types::{Micros, Slot, Time};

/// The slot length that a decision time tells; `None` where it is none of that slot.
pub fn slot_length(slot: Slot, at: Time) -> Option<Micros> {
    let slots = slot.number().checked_add(1)?;
    let length = Micros::from_us(at.as_us() / slots);
    (at.as_us().is_multiple_of(slots) && length > Micros::ZERO).then_some(length)
}
