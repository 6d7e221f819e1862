//! What to copy: an agent that changes documents which others change too, in two ways under preclaim.
//!
//! An agent reads a document, thinks for a long time, and writes the whole of it back. Whoever wrote in
//! between is undone by that. So either nobody else may come near it all the while ([`Agent::claims`]), or the
//! agent says at the end what its thinking rested on, and starts again where that has changed
//! ([`Agent::expects`]).

use std::time::Duration;

use preclaim::coordinator::{Coordinator, CoordinatorConfig, Running};
use preclaim::resolver::Rules;
use preclaim::types::Time;
use preclaim::{Client, Intent, Outcome, millis, path, secs};
use tokio::time::{Instant, sleep_until};

use super::Failure;
use super::memory::{Memory, Task};
use super::mind::{Done, Mind};

/// When the lease of an agent that has died while it was thinking ends. A living one renews it.
pub(crate) const LEASE: Duration = millis(500);
/// How long a write may take, once it is decided.
const WRITE: Duration = millis(30);
/// The id of all that an optimist writes, one after the other: an intent is never stale by windows of its own
/// id, which is to say, by what this agent has written itself just before. Where there is nothing under it, `revises`
/// declares.
const WRITES: u64 = 1;
/// How long it waits for others: longer than all of them can take.
const PATIENCE: Duration = secs(60);

/// What an agent claims while it thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The whole memory: simple, and nobody else works meanwhile.
    Memory,
    /// The one document.
    Document,
}

/// One of the agents: a connection to the coordinator, one to the database, and something that thinks.
pub(crate) struct Agent {
    pub(crate) client: Client,
    pub(crate) memory: Memory,
    pub(crate) mind: Mind,
    /// The path of the memory: `memory/team-7`. Each document is a node below it.
    pub(crate) root: String,
}

/// A coordinator in this process: on a free port of this machine, in memory.
pub(crate) fn coordinator() -> Result<Running, Failure> {
    Ok(Coordinator::bind(CoordinatorConfig::in_memory(Rules::default())?)?.spawn())
}

impl Agent {
    /// Pessimistic: nobody else writes from before it reads until it has written. Others wait in line.
    pub(crate) async fn claims(&mut self, task: &Task, scope: Scope) -> Result<Done, Failure> {
        let mut done = Done::default();
        loop {
            let key = self.memory.find(task)?.key;
            let held = match scope {
                Scope::Memory => path(&self.root)?,
                Scope::Document => path(&format!("{}/{key}", self.root))?,
            };
            let lease = Intent::asap().claim(held.exclusive(), LEASE).lease().wait(PATIENCE);
            let grant = match self.client.declare(lease).await? {
                Outcome::Granted(grant) => grant,
                other => return Err(format!("nobody holds it that long: {other:?}").into()),
            };
            // It is read after the grant: whoever had it before has written.
            let doc = self.memory.read(&key)?;
            done.thoughts += 1;
            // Should the lease be lost, the thought is dropped, and it starts again.
            let Ok(body) = grant.guarded(self.mind.think(&doc, task)).await else {
                done.lost += 1;
                continue;
            };
            // The database refuses the fence where a later holder has written. If the grant is still in hand
            // after the write, it was written in time, and the next holder reads it.
            if self.memory.write(grant.fence(0), &key, &body)? && grant.check().is_ok() {
                return Ok(done); // the grant is dropped here, and with that released
            }
            done.lost += 1;
        }
    }

    /// Optimistic: it thinks without a claim, then asks for a short window to write in, which is granted only where
    /// nobody can have written since it read.
    pub(crate) async fn expects(&mut self, task: &Task) -> Result<Done, Failure> {
        let mut done = Done::default();
        loop {
            let as_of = self.client.reading(); // before it reads, not after
            let doc = self.memory.find(task)?;
            done.thoughts += 1;
            let body = self.mind.think(&doc, task).await;
            let place = path(&format!("{}/{}", self.root, doc.key))?;
            let write = Intent::asap().claim(place.clone().exclusive(), WRITE).expect(place, as_of);
            match self.client.declare(write.revises(WRITES)).await? {
                Outcome::Granted(grant) => {
                    if self.memory.write(grant.fence(0), &doc.key, &body)? && grant.check().is_ok() {
                        return Ok(done);
                    }
                    done.lost += 1;
                }
                Outcome::Stale(stale) => {
                    done.stale += 1;
                    reached(&self.client, stale.as_of()).await; // whoever is writing is done by then
                }
                Outcome::Conflict(conflict) => {
                    done.stale += 1;
                    reached(&self.client, conflict.offer().unwrap_or(conflict.decided_at())).await;
                }
                Outcome::Rejected(why) => return Err(why.to_string().into()),
            }
        }
    }
}

/// Waits until the coordinator's clock shows `at`.
async fn reached(client: &Client, at: Time) {
    sleep_until(Instant::from_std(client.instant(at))).await;
}
