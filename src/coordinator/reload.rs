//! Other certificates, rules, rights and limits for a coordinator that runs: all of them from one slot's end on, or none.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::oneshot;

use super::connection::Server;
use super::hub::NextTerms;
use super::{bounds, room};
use crate::client::Tuning;
use crate::clock::Clock;
use crate::config::Limits;
use crate::limits;
use crate::resolver::{CapacityView, Resolver, RulesChange};
use crate::session::coordinator::{Admission, ReloadNote, Rights, Spans};
use crate::slot::Refused;
use crate::transport::{Access, Connections, Identity, IdentityError, transport};
use crate::types::{Micros, Slot, Time};

/// All that takes the place of what a coordinator runs with.
#[derive(Debug)]
pub struct Reload {
    /// The certificate and key of connections from then on.
    pub identity: Identity,
    /// Who is let in, and stays.
    pub access: Access,
    /// The rules of the decision core, where they are others.
    pub rules: Option<RulesChange>,
    /// The earliest start, the horizon and the retention of the rules that hold then.
    pub spans: Spans,
    /// Who may claim, read and administer what.
    pub rights: Arc<Rights>,
    /// The check of what may be asked for, after that.
    pub admission: Arc<dyn Admission>,
    /// How long a drain waits for holders, unless its order says otherwise.
    pub drain_within: Micros,
    /// How much is taken in.
    pub limits: Limits,
    /// What the record says of it: who asked for it, and what changes.
    pub told: Told,
}

/// What the record says of a reload: up to [`limits::RELOAD_KEYS`] changes, and texts of up to
/// [`limits::RELOAD_TEXT_BYTES`] bytes; what is longer is cut off there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// What asked for it.
    pub by: String,
    /// What changes.
    pub changes: Vec<String>,
}

impl Told {
    fn note(&self, at: Time, refused: Option<&str>) -> ReloadNote {
        let text = |text: &str| text[..text.floor_char_boundary(limits::RELOAD_TEXT_BYTES)].into();
        let shown = self.changes.iter().take(limits::RELOAD_KEYS);
        ReloadNote {
            at,
            by: text(&self.by),
            changes: shown.map(|change| text(change)).collect(),
            more: self.changes.len().saturating_sub(limits::RELOAD_KEYS) as u64,
            refused: refused.map(text),
        }
    }
}

/// A reload that has been carried out.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// The first slot in which all of it holds.
    pub from: Slot,
    /// Connections that were ended, since they would not be let in any more.
    pub ended: usize,
    /// Capacities of which more is granted than there is by now, up to [`limits::RELOAD_KEYS`] of those that were looked
    /// at: nothing of it is taken back. Looked for where the rules have changed.
    pub over: Vec<CapacityView>,
}

/// Why nothing of a reload counts.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReloadError {
    /// The certificate and its key, or what says who is let in, cannot be used.
    Identity(IdentityError),
    /// The open slot has no room for more of the operator's inputs, or the coordinator stops.
    Refused(Refused),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReloadError::Identity(error) => error.fmt(f),
            ReloadError::Refused(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for ReloadError {}

impl From<IdentityError> for ReloadError {
    fn from(error: IdentityError) -> Self {
        ReloadError::Identity(error)
    }
}

/// How many reloads there were since the start.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    done: AtomicU64,
    refused: AtomicU64,
    last_us: AtomicU64,
}

/// The same, at some instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReloadCounts {
    pub(crate) done: u64,
    pub(crate) refused: u64,
    /// When the last one was done; `None` where there was none.
    pub(crate) last: Option<Time>,
}

impl Reloads {
    pub(super) fn counts(&self) -> ReloadCounts {
        let [done, refused, last] =
            [&self.done, &self.refused, &self.last_us].map(|it| it.load(Ordering::Relaxed));
        ReloadCounts { done, refused, last: (done > 0).then_some(Time::from_us(last)) }
    }

    fn done(&self, at: Time) {
        self.last_us.store(at.as_us(), Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Puts other certificates, rules, rights and limits in the place of those that a coordinator runs with, without
/// ending a connection that they let in too.
#[derive(Clone)]
pub struct Reloader {
    pub(super) server: Arc<Server>,
    pub(super) tuning: Tuning,
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloader").finish_non_exhaustive()
    }
}

impl Reloader {
    /// New connections get `identity` and are let in by `access`. Connections of agents that `access` does not let in any
    /// more (expired, revoked, of an authority or with a token that has gone) are ended with
    /// [`CloseCode::CertificateRefused`](crate::wire::CloseCode::CertificateRefused) or
    /// [`CloseCode::TokenRefused`](crate::wire::CloseCode::TokenRefused), those whose name is another by now with
    /// [`CloseCode::AnothersName`](crate::wire::CloseCode::AnothersName); how many, is returned. Takes a tenth of a millisecond
    /// for each agent that is connected.
    ///
    /// # Errors
    /// Where the certificate and its key cannot be used; then nothing has changed.
    pub fn replace(&self, identity: Identity, access: Access) -> Result<usize, IdentityError> {
        let crypto = identity.into_crypto(&access)?;
        Ok(self.server.gate.replace(crypto, access, None))
    }

    /// Has all of it hold from the end of the open slot on, and blocks until it does: up to a slot, and another where the rules change.
    ///
    /// The rules are an input of the open slot, so that the record has them, and hold from the next slot on. Rights and
    /// limits are judged as a message comes in: by the new ones from that instant on. What came before is judged by
    /// the old ones and decided all the same. Who is connected keeps the limits of a connection that it came in by, and is
    /// ended as in [`Reloader::replace`].
    ///
    /// # Errors
    /// [`ReloadError`]; then nothing has changed.
    pub fn reload(&self, reload: Reload) -> Result<Reloaded, ReloadError> {
        let Reload { identity, access, rules, spans, rights, admission, drain_within, limits, told } = reload;
        let crypto = identity.into_crypto(&access)?;
        let connections = Connections { lanes: limits.lanes, idle: limits.idle_timeout, tuning: self.tuning };
        let (bounds, room) = (bounds(&limits), room(&limits));
        let terms = NextTerms { rights, admission, bounds, spans, drain_within, room };
        let (server, hub, clock) = (&self.server, &self.server.hub, &self.server.hub.clock);
        let (has_rules, note) = (rules.is_some(), told.note(clock.now(), None));
        let (slot, end) = hub.change_terms(rules, terms, note).map_err(ReloadError::Refused)?;
        // From here on nothing can fail.
        wait_until(&**clock, end);
        server.set_limits(limits);
        let ended = server.gate.replace(crypto, access, Some(transport(&connections)));
        server.reloads.done(end);
        let over = if has_rules { self.over(end) } else { Vec::new() };
        Ok(Reloaded { from: slot.next(), ended, over })
    }

    /// Nothing came of a reload: it is counted, and the record says so.
    pub fn refused(&self, told: &Told, why: &str) {
        self.server.reloads.refused.fetch_add(1, Ordering::Relaxed);
        let at = self.server.hub.clock.now();
        self.server.hub.note_reload(told.note(at, Some(why)));
    }

    /// How many capacities were set at run time, as of the last slot.
    pub fn capacities_set(&self) -> usize {
        self.server.hub.with_sessions(|sessions, _| sessions.capacities_set())
    }

    /// The capacities that are too small, once the rules hold that came in the slot with this end: from the next one on.
    fn over(&self, end: Time) -> Vec<CapacityView> {
        let (clock, length) = (&self.server.hub.clock, self.server.hub.intake.length());
        wait_until(&**clock, end.after(length));
        let now = clock.now();
        let (tell, told) = oneshot::channel();
        let look = move |resolver: &Resolver| {
            let over = resolver.capacities_over(limits::LIST_SCAN, now).take(limits::RELOAD_KEYS);
            let _ = tell.send(over.collect());
        };
        match self.server.hub.intake.look(Box::new(look)) {
            Ok(()) => told.blocking_recv().unwrap_or_default(),
            Err(_) => Vec::new(), // it stops, or too many look: /metrics says it too
        }
    }
}

/// Returns once the clock shows `at`, where it goes on.
fn wait_until(clock: &dyn Clock, at: Time) {
    std::thread::sleep(at.since(clock.now()).to_std());
}
