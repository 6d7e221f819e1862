//! The drain from outside: how it is ordered, followed, and when it is over.

use std::sync::Arc;

use tokio::sync::watch;

use super::Drains;
use super::hub::Hub;
use crate::limits;
use crate::types::{Micros, Time};
use crate::wire::DrainOrder;

/// Has a coordinator drain: from then on it is not ready, grants nothing new, ends what waits, and tells all agents until
/// when they may go on. It stops as soon as no grant is in force, or at the deadline; what stands then stands in its
/// state. A drain is not taken back: those who waited have been told that they do not any more.
#[derive(Clone, Debug)]
pub struct Drainer(Arc<Hub>);

impl Drainer {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Drainer(hub)
    }

    /// Drains for up to `within`, at most [`limits::DRAIN_MOST`]; `None` for as long as is configured. `reason` is told to
    /// agents, as much of it as [`limits::REASON_BYTES`] take. Ordered again, it counts from then on: the deadline comes
    /// nearer or is put off.
    pub fn drain(&self, within: Option<Micros>, reason: &str) {
        let reason = reason[..reason.floor_char_boundary(limits::REASON_BYTES)].to_owned();
        self.0.drain(&DrainOrder { within, reason });
    }

    /// How the drain stands; `None` where there is none.
    pub fn stands(&self) -> Option<Drains> {
        self.0.with_sessions(|sessions, _| sessions.drains())
    }

    /// The same, whenever it has changed.
    pub fn follow(&self) -> watch::Receiver<Option<Drains>> {
        self.0.drains()
    }
}

/// Resolves when a drain is over: nothing is left to wait for, or its deadline has come.
pub(super) async fn over(hub: &Hub) {
    let mut drains = hub.drains();
    loop {
        let deadline = match &*drains.borrow_and_update() {
            Some(drains) if drains.is_over => return,
            drains => drains.as_ref().map(|drains| drains.deadline),
        };
        let due = deadline.map(|deadline| deadline.since(hub.clock.now()));
        if due == Some(Micros::ZERO) {
            return;
        }
        tokio::select! {
            changed = drains.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
            () = past(due) => {}
        }
    }
}

/// Resolves when so much time has passed; never with `None`. By the coordinator's clock it may be a little less: whoever
/// waits looks again.
async fn past(due: Option<Micros>) {
    match due {
        Some(due) => tokio::time::sleep(due.to_std()).await,
        None => std::future::pending().await,
    }
}

/// What everybody is told when the coordinator stops.
pub(super) fn last_words(drains: Option<&Drains>, now: Time) -> String {
    match drains {
        None => "the coordinator shuts down".to_owned(),
        Some(Drains { left: 0, .. }) => "the coordinator has drained, and stops".to_owned(),
        Some(Drains { deadline, .. }) if *deadline <= now => {
            "the coordinator stops, as the deadline of its drain has come".to_owned()
        }
        Some(_) => "the coordinator stops ahead of the deadline of its drain".to_owned(),
    }
}
