//! Who is inside, and by what it came in: so that a certificate, an authority, a revocation list or a table of tokens
//! can be put in the place of another while connections go on.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, ServerConfig, TransportConfig};
use rustls::pki_types::UnixTime;

use super::hub::Hub;
use crate::config::printable_within;
use crate::limits;
use crate::session::coordinator::{ConnectionId, HelloRefusal};
use crate::transport::{Access, Outbox, Shown};
use crate::types::{Agent, FixedMap};
use crate::wire::{CloseCode, Hello};

/// See the module's documentation. Its lock is taken before the hub's, and never the other way round.
pub(super) struct Gate {
    endpoint: Endpoint,
    hub: Arc<Hub>,
    state: Mutex<State>,
}

struct State {
    access: Arc<Access>,
    /// The settings of new connections; `None` once there are to be none.
    settings: Option<ServerConfig>,
    inside: FixedMap<ConnectionId, Inside>,
}

#[derive(Clone)]
struct Inside {
    agent: Agent,
    shown: Arc<Shown>,
    outbox: Arc<Outbox>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gate {
    pub(super) fn new(endpoint: Endpoint, settings: ServerConfig, access: Access, hub: Arc<Hub>) -> Self {
        let state = State { access: Arc::new(access), settings: Some(settings), inside: FixedMap::default() };
        Gate { endpoint, hub, state: Mutex::new(state) }
    }

    /// Takes a connection into its session, under the name that `shown` proves.
    pub(super) fn enter(
        &self,
        id: ConnectionId,
        shown: Shown,
        hello: &Hello,
        outbox: &Arc<Outbox>,
    ) -> Result<Option<Agent>, HelloRefusal> {
        let shown = Arc::new(shown);
        loop {
            // Verified outside of the lock, where it takes a while, and anew where that was by what counts no more.
            let access = Arc::clone(&self.lock().access);
            let agent = access.certify(&shown, UnixTime::now())?;
            let mut state = self.lock();
            if !Arc::ptr_eq(&state.access, &access) {
                continue;
            }
            self.hub.hello(id, hello, agent.as_ref())?;
            if let Some(agent) = agent.clone() {
                state.inside.insert(id, Inside { agent, shown, outbox: Arc::clone(outbox) });
            }
            return Ok(agent);
        }
    }

    /// The connection has ended.
    pub(super) fn left(&self, id: ConnectionId) {
        self.lock().inside.remove(&id);
    }

    /// New connections get `crypto`, which is for those whom `access` lets in, and `transport` where that is another.
    /// Those that it would not let in any more, or under another name, are ended; how many, is returned. All others go on.
    pub(super) fn replace(
        &self,
        crypto: Arc<QuicServerConfig>,
        access: Access,
        transport: Option<Arc<TransportConfig>>,
    ) -> usize {
        let access = Arc::new(access);
        let inside: Vec<(ConnectionId, Inside)> = {
            let mut state = self.lock();
            let Some(settings) = &mut state.settings else { return 0 };
            settings.crypto = crypto;
            if let Some(transport) = transport {
                settings.transport_config(transport);
            }
            self.endpoint.set_server_config(Some(settings.clone()));
            state.access = Arc::clone(&access);
            // Whoever comes from here on is looked at by the new one.
            state.inside.iter().map(|(id, inside)| (*id, inside.clone())).collect()
        };
        let now = UnixTime::now();
        let ended = inside.into_iter().filter(|(id, inside)| self.ends(*id, inside, &access, now));
        ended.count()
    }

    /// Ends a connection that would not be let in any more. From then on nothing that comes over it counts.
    fn ends(&self, id: ConnectionId, inside: &Inside, access: &Access, now: UnixTime) -> bool {
        let refusal = match access.certify(&inside.shown, now) {
            Ok(Some(agent)) if agent == inside.agent => return false,
            Ok(_) => HelloRefusal {
                code: CloseCode::AnothersName,
                reason: "what it came in by says another name by now".to_owned(),
            },
            Err(refusal) => refusal,
        };
        let agent = printable_within(inside.agent.as_str(), limits::AGENT_BYTES);
        tracing::warn!(agent, "let go: {refusal}");
        self.hub.disconnected(id);
        self.left(id);
        inside.outbox.close(refusal.code, &refusal.reason);
        true
    }

    /// There are to be no more connections.
    pub(super) fn shut(&self) {
        let mut state = self.lock();
        state.settings = None;
        self.endpoint.set_server_config(None);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in here leaves whole tables.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
