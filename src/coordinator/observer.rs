//! What the coordinator tells about its own work, for benches and metrics.

use std::fmt::Debug;
use std::sync::Arc;

use crate::resolver::{Resolver, SlotBatch, SlotOutcome};
pub use crate::session::coordinator::{Trace, TracedDecision};
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

/// When the work on one slot was done: its budget, step by step. All times are coordinator time; none is
/// before the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotReport {
    /// Which slot.
    pub slot: Slot,
    /// Its decision time.
    pub at: Time,
    /// When the loop was awake.
    pub woken: Time,
    /// When it had closed the slot.
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

impl SlotReport {
    /// How late the loop's timer was.
    pub fn wake(&self) -> Micros {
        self.woken.since(self.at)
    }

    /// Closing: the slot's messages taken out of the queue that sessions put them in.
    pub fn collect(&self) -> Micros {
        self.closed.since(self.woken)
    }

    /// Deciding.
    pub fn resolve(&self) -> Micros {
        self.resolved.since(self.closed)
    }

    /// Making the record, and making it durable.
    pub fn persist(&self) -> Micros {
        self.persisted.since(self.resolved)
    }

    /// Making messages of decisions and handing them to the connections.
    pub fn publish(&self) -> Micros {
        self.published.since(self.persisted)
    }
}

impl Punctuality {
    /// How the slot decided at `at` kept its time, for slots of `length`.
    pub fn of(at: Time, length: Micros, woken: Time, published: Time) -> Self {
        let next = at.after(length);
        match (woken >= next, published >= next) {
            (true, _) => Punctuality::CaughtUp,
            (false, true) => Punctuality::Late,
            (false, false) => Punctuality::OnTime,
        }
    }
}

/// A slot that has been decided and published, for those who count.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// What arrived in it.
    pub batch: &'a SlotBatch,
    /// What was decided.
    pub outcome: &'a SlotOutcome,
    /// How things stand after it.
    pub resolver: &'a Resolver,
    /// Which of the decisions are about intents in traces, for whom follows these.
    pub traced: &'a [TracedDecision],
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

    /// What was decided in that slot; called right after [`Observer::slot_done`]. The next slot waits
    /// for it too, so it does no more than a small part of what deciding took.
    fn slot_decided(&self, report: &SlotReport, decided: &Decided<'_>) {
        let _ = (report, decided);
    }

    /// A slot's news for one connection has been handed to the kernel.
    fn departed(&self, departure: &Departure) {
        let _ = departure;
    }

    /// The kernel had no room for a datagram; it is sent once there is.
    fn socket_full(&self) {}

    /// Whether it is to be told which decisions are about intents in traces: asked once, before the start.
    fn follows_traces(&self) -> bool {
        false
    }
}

/// Several observers, told one after the other.
#[derive(Debug)]
pub struct Observers(pub Vec<Arc<dyn Observer>>);

impl Observer for Observers {
    fn slot_done(&self, report: &SlotReport) {
        self.0.iter().for_each(|observer| observer.slot_done(report));
    }

    fn slot_decided(&self, report: &SlotReport, decided: &Decided<'_>) {
        self.0.iter().for_each(|observer| observer.slot_decided(report, decided));
    }

    fn departed(&self, departure: &Departure) {
        self.0.iter().for_each(|observer| observer.departed(departure));
    }

    fn socket_full(&self) {
        self.0.iter().for_each(|observer| observer.socket_full());
    }

    fn follows_traces(&self) -> bool {
        self.0.iter().any(|observer| observer.follows_traces())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_a_slot_add_up_to_its_whole() {
        let us = Time::from_us;
        let report = SlotReport {
            slot: Slot::new(9),
            at: us(100),
            woken: us(101),
            closed: us(103),
            resolved: us(107),
            persisted: us(115),
            published: us(131),
            inputs: 0,
            decisions: 0,
            punctuality: Punctuality::OnTime,
        };
        let steps = [report.wake(), report.collect(), report.resolve(), report.persist(), report.publish()];
        assert_eq!(steps.map(Micros::as_us), [1, 2, 4, 8, 16]);
    }

    #[test]
    fn a_slot_is_late_from_the_next_boundary_on_and_caught_up_where_it_began_there() {
        let of = |woken, published| {
            Punctuality::of(
                Time::from_us(100),
                Micros::from_us(10),
                Time::from_us(woken),
                Time::from_us(published),
            )
        };
        assert_eq!(of(100, 109), Punctuality::OnTime);
        assert_eq!(of(109, 110), Punctuality::Late);
        assert_eq!(of(110, 110), Punctuality::CaughtUp);
    }
}
