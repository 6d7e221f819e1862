//! What those who watch a coordinator see of it: numbers that are at hand, and looks at the decision
//! core's state that are taken between two slots.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::Health;
use super::connection::Server;
use crate::audit::{Progress, Written};
use crate::limits;
use crate::resolver::Resolver;
use crate::session::coordinator::Refusals;
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
    /// What the sessions count of themselves, by name.
    pub(crate) sizes: [(&'static str, usize); 6],
    /// What was refused without the core being asked.
    pub(crate) refusals: Refusals,
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

    /// The coordinator's time.
    pub fn now(&self) -> Time {
        self.server.hub.clock.now()
    }

    /// How far its journal has come; `None` where it keeps nothing.
    pub fn written(&self) -> Option<Written> {
        self.progress.as_ref().map(|progress| progress.written())
    }

    pub(crate) fn present(&self) -> Present {
        let connections = self.server.hub.connections();
        self.server.hub.with_sessions(|sessions, _| Present {
            connections,
            sizes: sessions.sizes(),
            refusals: sessions.refusals(),
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
