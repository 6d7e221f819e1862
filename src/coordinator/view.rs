//! What those who watch a coordinator see of it: numbers that are at hand, and looks at the decision
//! core's state that are taken between two slots.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::connection::Server;
use super::{Health, ReloadCounts};
use crate::audit::Progress;
use crate::limits::{self, Reached};
use crate::resolver::Resolver;
use crate::session::coordinator::{Drains, ForbiddenCounts, Lowered, Refusals};
use crate::types::Time;

/// A coordinator as those who watch it see it.
#[derive(Clone, Debug)]
pub struct View {
    server: Arc<Server>,
    health: watch::Receiver<Health>,
    progress: Option<Arc<dyn Progress>>,
}

/// Who is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    /// Connections, those before their hello too.
    pub(crate) connections: usize,
    /// Of these, those that have said hello.
    pub(crate) sessions: usize,
    /// Sessions without a connection.
    pub(crate) away: usize,
    /// Names that have a session.
    pub(crate) names: usize,
    /// Watches on decisions.
    pub(crate) watches: usize,
    /// What was refused without the core being asked.
    pub(crate) refusals: Refusals,
    /// Of it, what was forbidden, by why.
    pub(crate) forbidden: ForbiddenCounts,
    /// How often less of a priority counted than was sent.
    pub(crate) lowered: Lowered,
    /// How often stores refused agents' writes for their fence, as these told.
    pub(crate) fence_refusals: u64,
    /// How often the configuration was read again.
    pub(crate) reloads: ReloadCounts,
}

impl View {
    pub(super) fn new(
        server: Arc<Server>,
        health: watch::Receiver<Health>,
        progress: Option<Arc<dyn Progress>>,
    ) -> Self {
        View { server, health, progress }
    }

    /// How it is. One that says it is ready, and whose slot loop has stood still for longer than any
    /// slot takes, is not: it answers nobody.
    pub fn health(&self) -> Health {
        let health = self.health.borrow().clone();
        let standstill = self.server.hub.intake.standstill();
        if health == Health::Ready && standstill > limits::STANDSTILL {
            let why = format!("the slot loop has stood still for {} s", standstill.as_us() / 1_000_000);
            return Health::Halted(why.into());
        }
        health
    }

    /// How its drain stands, if it drains.
    pub fn drains(&self) -> Option<Drains> {
        self.server.hub.drains().borrow().clone()
    }

    /// The coordinator's time.
    pub fn now(&self) -> Time {
        self.server.hub.clock.now()
    }

    /// Its journal, as far as one may follow it; `None` where it keeps nothing.
    pub fn journal(&self) -> Option<Arc<dyn Progress>> {
        self.progress.clone()
    }

    /// How often each limit was reached since the start.
    pub fn reached(&self) -> &Reached {
        &self.server.reached
    }

    pub(crate) fn present(&self) -> Present {
        let connections = self.server.hub.connections();
        let fence_refusals = self.server.fence_refusals.load(Ordering::Relaxed);
        let reloads = self.server.reloads.counts();
        self.server.hub.with_sessions(|sessions, _| {
            let [(_, connected), (_, names), (_, away), _, _, (_, watches), _] = sessions.sizes();
            let (refusals, forbidden, lowered) =
                (sessions.refusals(), sessions.forbidden(), sessions.lowered());
            Present {
                connections,
                sessions: connected,
                away,
                names,
                watches,
                refusals,
                forbidden,
                lowered,
                fence_refusals,
                reloads,
            }
        })
    }

    /// Takes a look between two slots, in which the next slot waits: `look` keeps to a named bound of
    /// work. `None` where the coordinator decides nothing any more, or not in time. Cancel safe.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Resolver) -> T + Send + 'static,
    ) -> Option<T> {
        let taken = async {
            let _permit = self.server.looks.acquire().await.ok()?;
            let (tell, told) = oneshot::channel();
            let look = Box::new(move |resolver: &Resolver| {
                let _ = tell.send(look(resolver));
            });
            self.server.hub.intake.look(look).ok()?;
            told.await.ok()
        };
        timeout(limits::WATCHING_LOOK.to_std(), taken).await.ok().flatten()
    }
}
