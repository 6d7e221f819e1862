//! What the coordinator tells about its own work, for benches and metrics.

use std::fmt::Debug;

pub use crate::transport::Departure;
use crate::types::{Micros, Slot, Time};

/// How a slot kept its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Punctuality {
    /// Its work ended before the next slot's decision time.
    OnTime,
    /// Its work began in time and overran the next slot's decision time.
    Late,
    /// Its work began only after the next slot's decision time, since those before it overran.
    CaughtUp,
}

/// When the work on one slot was done. All times are coordinator time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotReport {
    /// Which slot.
    pub slot: Slot,
    /// Its decision time.
    pub at: Time,
    /// When the loop had woken and closed it.
    pub closed: Time,
    /// When it was resolved.
    pub resolved: Time,
    /// When its record was durable.
    pub persisted: Time,
    /// When its decisions had been handed to the connections.
    pub published: Time,
    /// Messages that arrived in it.
    pub inputs: usize,
    /// Decisions and other answers.
    pub decisions: usize,
    /// How it kept its time.
    pub punctuality: Punctuality,
}

impl Punctuality {
    /// How the slot decided at `at` kept its time, for slots of `length`.
    pub fn of(at: Time, length: Micros, closed: Time, published: Time) -> Self {
        let next = at.after(length);
        match (closed >= next, published >= next) {
            (true, _) => Punctuality::CaughtUp,
            (false, true) => Punctuality::Late,
            (false, false) => Punctuality::OnTime,
        }
    }
}

/// Watches the coordinator at work.
///
/// Called from the slot loop and from the tasks that send: an implementation returns within a
/// microsecond or so and never blocks.
pub trait Observer: Debug + Send + Sync {
    /// A slot's work is done.
    fn slot_done(&self, report: &SlotReport) {
        let _ = report;
    }

    /// A slot's news for one connection has been handed to the kernel.
    fn departed(&self, departure: &Departure) {
        let _ = departure;
    }

    /// The kernel had no room for a datagram; it is sent once there is.
    fn socket_full(&self) {}
}
