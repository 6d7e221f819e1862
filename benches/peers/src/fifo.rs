//! The ideal queue: a fair lock in the agents' own process. No message, no server, no other process; whoever
//! came first is next. It is what no service can pass, measured with the same agents and the same timers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::OwnedMutexGuard;

use crate::Failure;
use crate::drive::Agent;
use crate::work::Wanted;

type Locks = BTreeMap<String, Arc<tokio::sync::Mutex<()>>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Fifo(Arc<Mutex<Locks>>);

impl Agent for Fifo {
    type Held = Vec<OwnedMutexGuard<()>>;

    fn twin(&self, _index: usize) -> Self {
        self.clone()
    }

    async fn take(&mut self, wanted: &Wanted, _needed: Instant) -> Result<Self::Held, Failure> {
        let mut held = Vec::new();
        for path in &wanted.paths {
            let lock = {
                let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(locks.entry(path.clone()).or_default())
            };
            held.push(lock.lock_owned().await);
        }
        Ok(held)
    }

    async fn give(&mut self, held: Self::Held) -> Result<(), Failure> {
        drop(held);
        tokio::task::yield_now().await; // so that with nothing to do, the others have a turn
        Ok(())
    }
}
