//! The coordinator: the slot loop, and the sessions that feed it.
//!
//! A shell: what is decided, and what a session may do, is decided in the pure rooms. Usable inside
//! another process (tests, examples, benches) as well as from the command line.
//!
//! ```
//! use preclaim::coordinator::{Coordinator, CoordinatorConfig};
//! use preclaim::resolver::Rules;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let coordinator = Coordinator::bind(CoordinatorConfig::in_memory(Rules::default())?)?;
//! let running = coordinator.spawn();
//! let client = running.client("fork-lift-7").connect().await?;
//! println!("{} is connected to {}", client.name(), running.local_addr());
//! running.stop().await?;
//! # Ok(())
//! # }
//! ```

mod connection;
mod decision_log;
mod doorstep;
mod draining;
mod gate;
mod health;
mod hub;
mod intake;
mod listing;
mod observer;
pub(crate) mod pace;
mod peer_log;
mod recovery;
mod reload;
mod running;
mod slot_loop;
mod speed;
mod view;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

pub use draining::Drainer;
pub use health::Health;
pub use observer::{Decided, Departure, Observer, Observers, Punctuality, SlotReport, Trace, TracedDecision};
use quinn::{Endpoint, Incoming};
pub(crate) use recovery::recover_with;
pub use recovery::{Now, RecoveryError, Report, Restart, StartFrom, recover, rules_of};
pub(crate) use reload::ReloadCounts;
pub use reload::{Reload, ReloadError, Reloaded, Reloader, Told};
pub use running::Running;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
pub(crate) use view::Present;
pub use view::View;

use self::connection::Server;
use self::doorstep::{Knock, Verdict};
use self::gate::Gate;
use self::hub::Hub;
use self::intake::Intake;
use self::slot_loop::{Boot, LoopDeath, LoopEnd, SlotLoop};
use crate::audit::{Journal, NoJournal, Progress};
use crate::client::Tuning;
use crate::clock::{Clock, SystemClock};
use crate::config::Limits;
use crate::host::HostConfig;
use crate::limits::{self, Limit};
use crate::resolver::invariants::{Breach, InvariantCheck};
use crate::resolver::{Resolver, Rules, SystemOp};
pub use crate::session::coordinator::{Admission, Denial, Feasibility, Open, Recovered, Spans, Then};
pub use crate::session::coordinator::{Allowance, Drains, Rights, Rule};
use crate::session::coordinator::{Bounds, Origin, Sessions, Terms};
use crate::slot::Room;
pub use crate::slot::{Full, Refused};
pub use crate::space::motion::MotionLimits;
pub use crate::transport::{Access, BindError, Certificates, Identity, IdentityError, SocketBuffers};
use crate::transport::{Bound, Connections, Departures, Sending};
use crate::types::{Micros, Time};
use crate::wire::CloseCode;

/// Everything that a coordinator is started with.
#[derive(Debug)]
pub struct CoordinatorConfig {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// What the decision core is told.
    pub rules: Rules,
    /// How much it takes in.
    pub limits: Limits,
    /// Its certificate and key.
    pub identity: Identity,
    /// Who is let in, and under which name.
    pub access: Access,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Where each slot's record goes before anything of it is sent.
    pub journal: Box<dyn Journal>,
    /// What it goes on from, where it keeps records; `None` begins with nothing and keeps none.
    pub recovered: Option<Recovered>,
    /// Who may claim, read and administer what, and what claiming urgency costs.
    pub rights: Arc<Rights>,
    /// A check of your own of what may be asked for, after that.
    pub admission: Arc<dyn Admission>,
    /// Who is told of its own work; noting it costs a little.
    pub observer: Option<Arc<dyn Observer>>,
    /// Whether each slot is held against the decision core's invariants before anything of it is
    /// sent; a breach ends the coordinator. Costs about what deciding costs; by default it is done where
    /// debug assertions are.
    pub check_invariants: bool,
    /// What the slot loop's thread asks of the machine. The threads of the connections are the runtime's,
    /// which is the caller's: [`HostConfig::settle`] in its `on_thread_start`. What is refused is logged.
    pub host: HostConfig,
    /// How long a drain waits for holders, unless its order says otherwise; see [`Drainer`].
    pub drain_within: Micros,
}

impl CoordinatorConfig {
    /// A coordinator that keeps nothing, on a free port of this machine, with a certificate of its
    /// own making, open to everybody on this machine.
    ///
    /// # Errors
    /// Where a certificate cannot be made.
    pub fn in_memory(rules: Rules) -> Result<Self, IdentityError> {
        let names = ["localhost", "127.0.0.1", "::1"].map(String::from);
        Ok(CoordinatorConfig {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            rules,
            limits: Limits::default().on_one_machine(),
            identity: Identity::self_made(names)?,
            access: Access::Open,
            clock: Arc::new(SystemClock::start(Time::ZERO)),
            journal: Box::new(NoJournal),
            recovered: None,
            rights: Arc::default(),
            admission: Arc::new(Open),
            observer: None,
            check_invariants: cfg!(debug_assertions),
            host: HostConfig::default(),
            drain_within: limits::DRAIN_WITHIN,
        })
    }
}

/// Why a coordinator ended by itself. It has told its agents and decides nothing any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoordinatorError {
    /// The slot loop's thread could not be started.
    #[error("the slot loop cannot be started: {0}")]
    Start(#[source] io::Error),
    /// The slot loop panicked.
    #[error("the slot loop has died; what it said is above")]
    SlotLoopDied,
    /// A slot's record is not in the log, or may not be. Nothing of it was sent.
    #[error("a slot's record could not be kept: {0}")]
    Journal(String),
    /// A slot broke a rule that must always hold. Nothing of it was sent.
    #[error("a slot broke an invariant, and nothing of it was sent: {0}")]
    Invariant(#[source] Breach),
    /// The socket is gone.
    #[error("the socket has failed")]
    Socket,
}

impl From<LoopDeath> for CoordinatorError {
    fn from(death: LoopDeath) -> Self {
        match death {
            LoopDeath::Journal(why) => CoordinatorError::Journal(why),
            LoopDeath::Invariant(breach) => CoordinatorError::Invariant(breach),
            LoopDeath::Panic => CoordinatorError::SlotLoopDied,
        }
    }
}

/// A coordinator that listens, and decides once it is [run](Coordinator::run), or
/// [spawned](Coordinator::spawn).
pub struct Coordinator {
    endpoint: Endpoint,
    local_addr: SocketAddr,
    buffers: SocketBuffers,
    certificate: CertificateDer<'static>,
    server: Arc<Server>,
    slot_loop: SlotLoop<Origin, Arc<Hub>>,
    health: health::Reporter,
    progress: Option<Arc<dyn Progress>>,
    tuning: Tuning,
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator").field("local_addr", &self.local_addr).finish_non_exhaustive()
    }
}

impl Coordinator {
    /// Listens. Clients that connect from now on wait until it runs.
    ///
    /// # Errors
    /// [`BindError`], where the address is in use or refused, or the certificate cannot be used.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn bind(config: CoordinatorConfig) -> Result<Self, BindError> {
        Coordinator::bind_tuned(config, &Tuning::CHOSEN)
    }

    /// As [`Coordinator::bind`], with something else done about loss: for benches that compare.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    #[doc(hidden)]
    pub fn bind_tuned(config: CoordinatorConfig, tuning: &Tuning) -> Result<Self, BindError> {
        let CoordinatorConfig {
            listen,
            rules,
            limits,
            identity,
            access,
            clock,
            journal,
            recovered,
            rights,
            admission,
            observer,
            check_invariants,
            host,
            drain_within,
        } = config;
        let certificate = identity.certificate();
        let departures = observer.clone().map(|observer| departures_told_to(observer, &clock));
        let connections = Connections { lanes: limits.lanes, idle: limits.idle_timeout, tuning: *tuning };
        let Bound { endpoint, settings, buffers } =
            crate::transport::bind(listen, identity, &access, &connections, departures.clone())?;
        buffers.too_small().iter().for_each(|small| tracing::warn!("{small}"));
        let local_addr = endpoint.local_addr().map_err(|error| BindError::Socket { addr: listen, error })?;
        let room = room(&limits);
        let mut terms = terms(&rules, &limits);
        let mut boot = None;
        let (resolver, mut sessions) = match recovered {
            None => (Resolver::new(rules.clone()), Sessions::new(terms)),
            Some(Recovered { resolver, sessions: restored, state, boot_slot, boot_ops }) => {
                terms.state = state;
                boot = Some(Boot { slot: boot_slot, ops: boot_ops });
                let mut sessions = Sessions::new(terms).keeping_changes();
                sessions.restore(restored, clock.now());
                (resolver, sessions)
            }
        };
        sessions.set_rights(rights);
        sessions.set_drain_within(drain_within);
        if observer.as_ref().is_some_and(|observer| observer.follows_traces()) {
            sessions = sessions.following_traces();
        }
        let first = boot.as_ref().map(|boot| boot.slot.next());
        let intake = Arc::new(Intake::new(Arc::clone(&clock), rules.length, room, first));
        let health = health::Reporter::default();
        let hub = Hub::new(sessions, Arc::clone(&intake), Arc::clone(&clock), admission, health.clone());
        let hub = Arc::new(hub);
        let gate = Gate::new(endpoint.clone(), settings, access, Arc::clone(&hub));
        let server = Arc::new(Server::new(Arc::clone(&hub), gate, limits, departures));
        let progress = journal.progress();
        let check = check_invariants.then(InvariantCheck::default);
        let own = Origin::operator();
        let slot_loop =
            SlotLoop { intake, clock, resolver, journal, publisher: hub, observer, check, boot, host, own };
        let tuning = *tuning;
        Ok(Coordinator {
            endpoint,
            local_addr,
            buffers,
            certificate,
            server,
            slot_loop,
            health,
            progress,
            tuning,
        })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// What its socket was given.
    pub fn buffers(&self) -> SocketBuffers {
        self.buffers
    }

    /// Its certificate, for clients to trust.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// How it is, from here on.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.follow()
    }

    /// What those who watch it see, good for as long as it runs and after.
    pub fn view(&self) -> View {
        View::new(Arc::clone(&self.server), self.health(), self.progress.clone())
    }

    /// The operator's way in, good for as long as it runs.
    pub fn operator(&self) -> Operator {
        Operator(Arc::clone(&self.server.hub))
    }

    /// The way to have it drain, good for as long as it runs and, to look at, after.
    pub fn drainer(&self) -> Drainer {
        Drainer::new(Arc::clone(&self.server.hub))
    }

    /// What puts other certificates, rules, rights and limits in the place of its own, for as long as it runs.
    pub fn reloader(&self) -> Reloader {
        Reloader { server: Arc::clone(&self.server), tuning: self.tuning }
    }

    /// Serves until `shutdown` resolves, or a drain is over ([`Drainer`]); then takes nothing new, decides the open slot,
    /// tells all agents, and returns within a slot and a second.
    ///
    /// Dropped before it returns, it stops without telling anybody.
    ///
    /// # Errors
    /// [`CoordinatorError`], where it cannot go on deciding.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), CoordinatorError> {
        let Coordinator { endpoint, server, slot_loop, health, .. } = self;
        let mut loop_end = slot_loop.spawn(health.clone()).map_err(CoordinatorError::Start)?;
        // Where this future is dropped, the loop still has to end.
        let _stop = StopOnDrop(Arc::clone(&server));
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        let stopped = tokio::select! {
            biased;
            () = &mut shutdown => None,
            () = draining::over(&server.hub) => None,
            error = accept(&endpoint, &server, &mut loop_end, &mut connections) => Some(error),
        };
        let ended = match stopped {
            Some(error @ CoordinatorError::Journal(_)) => {
                stand_still(&endpoint, &server, &error, &health, shutdown, &mut connections).await;
                Err(error)
            }
            Some(error) => {
                health.report(Health::Halted(error.to_string().into()));
                Err(error)
            }
            None => {
                health.report(Health::Draining);
                stop(&server, &mut loop_end).await
            }
        };
        let code = if ended.is_ok() { CloseCode::ShuttingDown } else { CloseCode::Internal };
        server.hub.close_all(code, code.as_str());
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(limits::CLOSE_ALL_WITHIN.to_std(), all).await;
        endpoint.close(code.number().into(), code.as_str().as_bytes());
        let _ = timeout(limits::CLOSE_LINGER.to_std(), endpoint.wait_idle()).await;
        server.tell_rest();
        ended
    }
}

/// Takes connections in until something that cannot go on; says what.
async fn accept(
    endpoint: &Endpoint,
    server: &Arc<Server>,
    loop_end: &mut LoopEnd,
    connections: &mut JoinSet<()>,
) -> CoordinatorError {
    tokio::select! {
        biased;
        // The loop ends without an error only when it is drained, which is not done here.
        ended = loop_end.wait() => ended.err().map_or(CoordinatorError::SlotLoopDied, CoordinatorError::from),
        () = take_in(endpoint, server, connections) => CoordinatorError::Socket,
    }
}

/// Takes connections in until the socket is gone.
async fn take_in(endpoint: &Endpoint, server: &Arc<Server>, connections: &mut JoinSet<()>) {
    let mut left_out = tokio::time::interval(limits::PEER_LINES_WITHIN.to_std());
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            _ = left_out.tick() => server.tell_left_out(),
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => admit(endpoint, server, incoming, connections),
                None => return,
            },
        }
    }
}

/// Nothing can be granted any more, and what was taken in is answered by nobody: all are told why and
/// let go, so that they know what they do not know. Those who come are told so too, until it is
/// stopped: a restart recovers.
async fn stand_still(
    endpoint: &Endpoint,
    server: &Arc<Server>,
    error: &CoordinatorError,
    health: &health::Reporter,
    shutdown: impl Future<Output = ()>,
    connections: &mut JoinSet<()>,
) {
    tracing::error!("{error}; stop it, see to the cause, and start it again");
    let reason = error.to_string();
    health.report(Health::Halted(reason.as_str().into()));
    server.hub.intake.drain();
    server.hub.tell_draining(&reason);
    server.hub.close_all(CloseCode::Internal, &reason);
    tokio::select! {
        () = shutdown => {}
        () = take_in(endpoint, server, connections) => {}
    }
}

/// What leaves, told to `observer`.
fn departures_told_to(observer: Arc<dyn Observer>, clock: &Arc<dyn Clock>) -> Arc<Departures> {
    Arc::new(Departures::new(Arc::clone(clock), move |sending| match sending {
        Sending::Left(departure) => observer.departed(&departure),
        Sending::Full => observer.socket_full(),
    }))
}

/// A connection is served, has to prove its address first, or is refused unseen.
fn admit(endpoint: &Endpoint, server: &Arc<Server>, incoming: Incoming, connections: &mut JoinSet<()>) {
    let open = endpoint.open_connections();
    let address = incoming.remote_address().ip();
    let verdict = if open >= server.limits().connections.saturating_add(limits::CONNECTIONS_TO_REFUSE) {
        Verdict::Refuse(Limit::Connections)
    } else {
        let in_handshake = open.saturating_sub(server.hub.connections());
        server.knock(Knock { address, is_proved: incoming.remote_address_validated(), in_handshake })
    };
    match verdict {
        Verdict::Enter => drop(connections.spawn(connection::serve(Arc::clone(server), incoming))),
        Verdict::Prove(limit) => {
            server.reached.note(limit);
            // Whoever has not proved its address may be asked to, so this cannot fail.
            let _ = incoming.retry();
        }
        Verdict::Refuse(limit) => {
            server.reached.note(limit);
            server.tell(address, None, format_args!("a handshake was refused: {}", limit.as_str()));
            incoming.refuse();
        }
    }
}

/// Takes in nothing new and waits until the open slot has been decided and answered.
async fn stop(server: &Server, loop_end: &mut LoopEnd) -> Result<(), CoordinatorError> {
    server.gate.shut();
    server.hub.intake.drain();
    let drains = server.hub.drains().borrow().clone();
    server.hub.tell_draining(&draining::last_words(drains.as_ref(), server.hub.clock.now()));
    loop_end.wait().await.map_err(CoordinatorError::from)
}

/// The operator's way in: what it sets is an input of the slot it arrives in, as agents' messages are.
#[derive(Clone, Debug)]
pub struct Operator(Arc<Hub>);

impl Operator {
    /// Hands in what the operator asks for; returns when it arrived. It takes its turn in that slot.
    ///
    /// # Errors
    /// [`Refused`], where the slot has no room for more of the operator's inputs, or the coordinator
    /// stops.
    pub fn submit(&self, op: SystemOp) -> Result<Time, Refused> {
        self.0.intake.system_input(op, Origin::operator())
    }

    /// From here on these rights hold for what is asked; what was taken in before stays.
    pub fn set_rights(&self, rights: Arc<Rights>) {
        self.0.set_rights(rights);
    }
}

struct StopOnDrop(Arc<Server>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.hub.intake.drain();
    }
}

/// A state's number, drawn by chance: the standard library seeds its maps from the system's source of
/// randomness.
fn drawn_id() -> u64 {
    RandomState::new().hash_one(0)
}

fn terms(rules: &Rules, limits: &Limits) -> Terms {
    Terms {
        state: drawn_id(),
        slot_length: rules.length,
        min_lead: rules.min_lead,
        horizon: rules.horizon,
        retention: rules.retention,
        software: concat!("preclaim ", env!("CARGO_PKG_VERSION")).into(),
        bounds: bounds(limits),
    }
}

/// How much a slot takes in.
fn room(limits: &Limits) -> Room {
    Room {
        inputs: limits.slot_inputs,
        operator_inputs: limits::SLOT_OPERATOR_INPUTS,
        waiting: limits.slot_inputs.saturating_mul(limits::WAITING_SLOTS),
    }
}

/// How much agents may have going.
fn bounds(limits: &Limits) -> Bounds {
    Bounds {
        lanes: limits.lanes,
        inputs_of_a_name: limits.slot_inputs_per_agent,
        undecided_of_a_name: limits.undecided_per_agent,
        undecided: limits.undecided,
        live_of_a_name: limits.live_per_agent,
        live: limits.live,
        windows_of_a_name: limits.windows_per_agent,
        windows_of_a_name_on_a_path: limits.windows_per_agent_and_path,
        windows_on_a_path: limits.windows_per_path,
        regions_of_a_frame: limits.regions_per_frame,
        search_of_a_name: limits.search_per_agent,
        search: limits.search,
        names: limits.names,
        sessions_of_a_name: limits.sessions_per_agent,
        sessions_kept: limits.sessions_kept,
        session_kept_for: limits.session_kept_for,
    }
}
