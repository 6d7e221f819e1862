//! A journal in memory that answers as it is told to, for tests and simulations of what stands on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Appended, Follower, Journal, SlotEntry, State, encode};

/// What an append comes to that is not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is refused, and not kept.
    Refused,
    /// Nobody knows, and it is kept.
    UnknownKept,
    /// Nobody knows, and it is lost.
    UnknownLost,
}

/// A journal in memory. Clones are the same journal, so that one outlives the coordinator that has it.
#[derive(Clone, Debug, Default)]
pub struct SimJournal {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    bodies: Vec<Vec<u8>>,
    plan: Option<(usize, Trouble)>,
    /// Once it was not committed, nothing is any more, until the next coordinator.
    is_out: bool,
}

impl SimJournal {
    /// Has the append after `records` further ones come to `trouble`.
    pub fn plan(&self, records: usize, trouble: Trouble) {
        let mut inner = self.lock();
        inner.plan = Some((inner.bodies.len() + records, trouble));
    }

    /// A new coordinator takes it over.
    pub fn restart(&self) {
        let mut inner = self.lock();
        (inner.plan, inner.is_out) = (None, false);
    }

    /// How many records are kept.
    pub fn records(&self) -> usize {
        self.lock().bodies.len()
    }

    /// The state that its records make.
    ///
    /// # Panics
    /// Where one does not continue the state before it: each was encoded here.
    pub fn state(&self) -> State {
        let mut follower = Follower::default();
        for body in &self.lock().bodies {
            follower.record(body).unwrap_or_else(|error| unreachable!("a record of this journal: {error}"));
        }
        follower.finish()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for SimJournal {
    fn append(&mut self, entry: SlotEntry<'_>) -> Appended {
        let mut inner = self.lock();
        if inner.is_out {
            return Appended::Refused("an earlier record was not committed".into());
        }
        if entry.is_idle() {
            return Appended::Committed;
        }
        let trouble = inner.plan.filter(|(at, _)| *at == inner.bodies.len()).map(|(_, trouble)| trouble);
        inner.is_out = trouble.is_some();
        if matches!(trouble, None | Some(Trouble::UnknownKept)) {
            let mut body = Vec::new();
            encode(&[0; 32], entry, &mut body);
            inner.bodies.push(body);
        }
        match trouble {
            None => Appended::Committed,
            Some(Trouble::Refused) => Appended::Refused("another has taken over".into()),
            Some(Trouble::UnknownKept | Trouble::UnknownLost) => Appended::Unknown("no answer".into()),
        }
    }
}
