//! Counts slots where they are made: a journal, which the coordinator hands each slot's record before it
//! sends anything of it. A robot needs nothing of this.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use preclaim::audit::{Appended, Journal, SlotEntry};
use preclaim::resolver::{AgentOp, Input};
use preclaim::types::{IntentKey, Micros, Slot, Time, Verdict};

/// Every declaration and revision: when it arrived, and when it was first answered and decided.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Declared>>>);

#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) key: IntentKey,
    pub(crate) arrived: Time,
    /// Granted, refused, or told that it waits.
    pub(crate) told: Option<Time>,
}

impl Ledger {
    pub(crate) fn all(&self) -> Vec<Declared> {
        self.lock().clone()
    }

    // A panic under the lock leaves entries that are whole.
    fn lock(&self) -> MutexGuard<'_, Vec<Declared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for Ledger {
    fn append(&mut self, entry: SlotEntry<'_>) -> Appended {
        let mut all = self.lock();
        for input in entry.batch.inputs() {
            if let Input::Agent { at, agent, op: AgentOp::Declare(intent) | AgentOp::Revise(intent) } = input
            {
                let key = IntentKey { agent: agent.clone(), id: intent.id };
                all.push(Declared { key, arrived: *at, told: None });
            }
        }
        for decision in &entry.outcome.decisions {
            if let Verdict::Granted { .. } | Verdict::Conflict(_) | Verdict::Rejected { .. } =
                decision.verdict
            {
                let open = |it: &&mut Declared| it.told.is_none() && it.key == decision.key;
                all.iter_mut().filter(open).for_each(|it| it.told = Some(entry.outcome.at));
            }
        }
        Appended::Committed
    }
}

/// How many slots it takes from what arrived at one time to what was decided at another, the slot of the
/// arrival included: 1 is the least.
pub(crate) fn slots(arrived: Time, decided: Time, length: Micros) -> u64 {
    decided.since(Slot::of(arrived, length).opens(length)).as_us() / length.as_us()
}
