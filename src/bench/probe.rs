//! What the coordinator in this process tells of its work, and when each declaration reached it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::{Clock, SystemClock};
use crate::coordinator::{Admission, Denial, Departure, Observer, SlotReport};
use crate::resolver::AgentOp;
use crate::types::{Agent, IntentId, Time};

/// Notes what happens; what it means is looked at when all is over.
#[derive(Debug)]
pub(super) struct Probe {
    clock: SystemClock,
    seen: Mutex<Seen>,
}

/// Everything that was noted, each in the order in which it happened.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) slots: Vec<SlotReport>,
    pub(super) departures: Vec<Departure>,
    pub(super) arrivals: Vec<Arrival>,
    /// How often the kernel had no room for a datagram.
    pub(super) socket_full: u64,
}

/// A declaration that has reached the coordinator.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) agent: Agent,
    pub(super) id: IntentId,
    pub(super) at: Time,
}

impl Probe {
    pub(super) fn new(clock: SystemClock) -> Self {
        Probe { clock, seen: Mutex::default() }
    }

    /// Takes out what was noted.
    pub(super) fn take(&self) -> Seen {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // Plain lists, whole at any instant.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Probe {
    fn slot_done(&self, report: &SlotReport) {
        self.lock().slots.push(*report);
    }

    fn departed(&self, departure: &Departure) {
        self.lock().departures.push(*departure);
    }

    fn socket_full(&self) {
        self.lock().socket_full += 1;
    }
}

/// Lets everything in, as a coordinator without rules does; it is here for the time.
impl Admission for Probe {
    fn admit(&self, agent: &Agent, op: &AgentOp) -> Result<(), Denial> {
        if let AgentOp::Declare(intent) = op {
            let arrival = Arrival { agent: agent.clone(), id: intent.id, at: self.clock.now() };
            self.lock().arrivals.push(arrival);
        }
        Ok(())
    }
}
