//! The agent's half of preclaim: connect, declare, hold.
//!
//! ```no_run
//! use preclaim::client::Event;
//! use preclaim::{Client, Intent, Outcome, path, secs};
//! # async fn migrate(_: preclaim::types::Fence) {}
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder().name("worker-3").connect().await?;
//! // Made before the declaration, so that nothing of it is missed.
//! let mut events = client.events();
//! tokio::spawn(async move {
//!     while let Some(event) = events.next().await {
//!         match event {
//!             Event::Waiting { offer, .. } => println!("waits; free from {offer:?}"),
//!             Event::Contested { by, note, .. } => println!("{by} wants it too: {note}"),
//!             other => println!("{other:?}"),
//!         }
//!     }
//! });
//!
//! // A lease of ten seconds, which renews itself; it waits up to a minute for whoever has it.
//! let schema = path("db/schema")?.exclusive();
//! let intent = Intent::asap().claim(schema, secs(10)).lease().wait(secs(60)).note("migration 41");
//! match client.declare(intent).await? {
//!     Outcome::Granted(grant) => {
//!         // Dropped at its next await should the grant be lost. The store checks the fence.
//!         grant.guarded(migrate(grant.fence(0))).await?;
//!         grant.release().await?;
//!     }
//!     Outcome::Conflict(conflict) => println!("{conflict}"),
//!     Outcome::Stale(_) => unreachable!("it rests on no reading"),
//!     Outcome::Rejected(why) => println!("{why}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Without [`Intent::lease`] a grant ends when its claims do: claim a little more time than the work
//! takes, since [`Grant::guarded`] begins late and ends early by as much as the clocks may differ, on one
//! machine usually less than a millisecond. Two clients of one name and label are one agent, of which the newer
//! takes over; clones of a [`Client`] are the way to share one.
//!
//! What happens when the coordinator cannot be reached: a grant in hand stays good until its end,
//! no new one can be had, and an agent that must not guess stops at its grant's end; for others there is
//! [`Client::pursue`] with a policy ([`degrade`]). The client tries
//! for a new connection until it is closed, at growing and random intervals of up to five seconds. What is
//! asked meanwhile is sent over it, what was not answered is asked again under its id and decided once,
//! leases are renewed, and what ended in the meantime is told. Every call ends in time
//! ([`ClientBuilder::answer_within`]), and where neither yes nor no is known, as *unknown*. Nothing here may
//! hand out a grant that has ended, or hold one whose handle is gone.

mod builder;
mod connector;
mod credentials;
pub mod degrade;
pub mod discovery;
mod driver;
mod error;
mod event;
mod grant;
mod intent;
mod lanes;
mod look;
mod operate;
mod outcome;
pub(crate) mod private_file;
mod quic;
mod shared;
mod system_clock;
mod traced;
mod tuning;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use builder::ClientBuilder;
#[cfg(feature = "daemon")]
pub(crate) use builder::random;
#[cfg(feature = "testing")]
pub(crate) use connector::{Boxed, Clock, Closed, Connector};
#[cfg(any(feature = "daemon", feature = "testing"))]
pub(crate) use connector::{Lane, Link};
pub use degrade::{
    Attempt, Cause, Conduct, Degradations, Degrade, Degraded, LastPlan, PursueError, Pursued, Setback, Tally,
    Why,
};
pub use error::ConnectError;
pub use event::{Event, Events};
pub use grant::{Grant, Lost};
pub use intent::{Area, Intent, InvalidPath, Place, Use, When, millis, path, secs};
pub use look::{Capacities, Filter, Listing, Watching};
pub use outcome::{
    Conflict, DeclareError, Outcome, Rejected, Released, Renewal, RequestError, Revision, Stale,
};
#[cfg(feature = "testing")]
pub(crate) use quic::GIVE_UP;
#[doc(hidden)]
pub use tuning::{Congestion, Tuning};

use crate::session::agent::{Bounds, Draft, Local, NotTaken, Reply};
use crate::types::{Agent, IntentId, Micros, Time};
use crate::wire::{Administer, DrainAsk, DrainOrder, DrainStands, Welcome};
use shared::{Answered, Asked, Phase, Shared, State};
use traced::DeclareSpan;

/// What any span is cut to, so that it can be added to any instant.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// A session with a coordinator, under one name and label, over as many connections as it takes. Cheap to
/// clone; it ends when the last clone and the last grant are gone, by [`Client::close`], or when a newer
/// process takes the name and label over.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    welcome: Welcome,
    policies: degrade::Policies,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.begin_close();
    }
}

impl Client {
    /// Settings for a new client; what is left out is found as [`ClientBuilder`] says.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    fn new(shared: Arc<Shared>, welcome: Welcome, policies: degrade::Policies) -> Self {
        Client { inner: Arc::new(Inner { shared, welcome, policies }) }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// The name in force.
    pub fn name(&self) -> &str {
        &self.inner.welcome.name
    }

    /// The label in force.
    pub fn label(&self) -> &str {
        &self.inner.welcome.label
    }

    /// How long the coordinator's slots are.
    pub fn slot_length(&self) -> Duration {
        self.inner.welcome.slot_length.to_std()
    }

    /// Declares an intent and waits until it is decided: a slot at least, and as long as its wait at
    /// most. Where as many declarations as the coordinator takes are unanswered, it waits for room
    /// first; where there is no connection, for the next one. Cancel safe: dropping it withdraws the intent, and
    /// releases what it may have been granted meanwhile.
    ///
    /// # Errors
    /// Where it came to no outcome in time. [`DeclareError::Unknown`] means that it may have been decided:
    /// declare the same again under that id ([`Intent::id`]), or [`Client::release`] it. Until then
    /// it takes its course: a wait runs on, and what it is granted runs to its end, not renewed.
    pub async fn declare(&self, intent: Intent) -> Result<Outcome, DeclareError> {
        self.declare_in(intent, true).await
    }

    /// As [`Client::declare`], but where there is no room, or no connection, it says so at once.
    /// Cancel safe, as that is.
    ///
    /// # Errors
    /// As for [`Client::declare`]; [`DeclareError::Full`] and [`DeclareError::Disconnected`] without a wait.
    pub async fn try_declare(&self, intent: Intent) -> Result<Outcome, DeclareError> {
        self.declare_in(intent, false).await
    }

    /// Declares several intents, each on its own, in as few messages as they fit in, and waits until all are decided:
    /// what each came to, in their order. Those of a message arrive together, so that they are decided in one slot. Past
    /// what the coordinator takes at a time, the rest follows once those ahead are decided. A grant counts from its own
    /// decision on: do not mix intents that wait for long with short ones. Cancel safe: dropping it withdraws
    /// and releases all of them.
    ///
    /// ```no_run
    /// # async fn book(client: &preclaim::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use preclaim::{Intent, Outcome, path, secs};
    ///
    /// let mut intents = Vec::new();
    /// for aisle in 1..=300 {
    ///     let aisle = path(&format!("aisle/{aisle}"))?;
    ///     intents.push(Intent::asap().claim(aisle.exclusive(), secs(6)));
    /// }
    /// let outcomes = client.declare_all(intents).await;
    /// let granted = outcomes.iter().filter(|outcome| matches!(outcome, Ok(Outcome::Granted(_)))).count();
    /// println!("{granted} of {} aisles", outcomes.len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Of each, as for [`Client::declare`].
    pub async fn declare_all(&self, intents: Vec<Intent>) -> Vec<Result<Outcome, DeclareError>> {
        let prepared = intents.into_iter().map(|intent| {
            let plan = self.inner.policies.candidate(&intent);
            self.prepare(intent, Asked::Fresh).map(|prepared| (plan, prepared))
        });
        let mut waiting: VecDeque<_> = prepared.collect();
        let mut outcomes = Vec::with_capacity(waiting.len());
        while !waiting.is_empty() {
            let mut asked = self.hand_in_what_fits(&mut waiting);
            if asked.is_empty()
                && let Some(first) = waiting.pop_front()
            {
                asked.push(match first {
                    Ok((plan, prepared)) => self.hand_in(prepared, true).await.map(|asked| (plan, asked)),
                    Err(error) => Err(error),
                });
            }
            for one in asked {
                outcomes.push(match one {
                    Ok((plan, asked)) => self.outcome(plan, asked.answered().await),
                    Err(error) => Err(error),
                });
            }
        }
        outcomes
    }

    /// Takes what there is room for from the front of `waiting`, and hands it in at once.
    fn hand_in_what_fits(
        &self,
        waiting: &mut VecDeque<Result<(Plan, Box<Prepared>), DeclareError>>,
    ) -> Vec<Result<(Plan, Declared<'_>), DeclareError>> {
        let shared = self.shared();
        shared.with(|state, now| {
            let mut asked = Vec::new();
            while let Some(next) = waiting.pop_front() {
                let next = next.and_then(|(plan, prepared)| match prepared.hand_in(shared, state, now) {
                    Ok(declared) => Ok(Ok((plan, declared))),
                    Err((prepared, NotTaken::Full)) => Ok(Err((plan, prepared))),
                    Err((prepared, not_taken)) => Err(refused(not_taken, prepared.id)),
                });
                match next {
                    Ok(Ok(declared)) => asked.push(Ok(declared)),
                    Ok(Err(full)) => {
                        waiting.push_front(Ok(full));
                        break;
                    }
                    Err(error) => asked.push(Err(error)),
                }
            }
            asked
        })
    }

    async fn declare_in(&self, intent: Intent, waits: bool) -> Result<Outcome, DeclareError> {
        let plan = self.inner.policies.candidate(&intent);
        let answered = self.ask(intent, Asked::Fresh, waits).await;
        self.outcome(plan, answered)
    }

    fn outcome(
        &self,
        plan: Plan,
        answered: Result<(IntentId, Answered), DeclareError>,
    ) -> Result<Outcome, DeclareError> {
        let (id, answered) = answered?;
        let handle = answered.handle;
        Ok(match (to_outcome(id, answered.reply)?, handle) {
            (Plain::Granted { at }, Some(handle)) => {
                self.inner.policies.granted(plan, id, &handle.standing);
                Outcome::Granted(Grant::new(self.clone(), id, handle.serial, at, handle.standing))
            }
            // A grant of a fresh declaration always has its handle.
            (Plain::Granted { .. }, None) => return Err(DeclareError::Ended { id }),
            (Plain::Conflict(conflict), _) => Outcome::Conflict(conflict),
            (Plain::Stale(stale), _) => Outcome::Stale(stale),
            (Plain::Rejected(why), _) => Outcome::Rejected(why),
        })
    }

    /// Sends a declaration and waits for its final answer.
    async fn ask(
        &self,
        intent: Intent,
        kind: Asked,
        waits: bool,
    ) -> Result<(IntentId, Answered), DeclareError> {
        if !waits && !self.is_connected() {
            return Err(DeclareError::Disconnected);
        }
        self.hand_in(self.prepare(intent, kind)?, waits).await?.answered().await
    }

    fn prepare(&self, intent: Intent, kind: Asked) -> Result<Box<Prepared>, DeclareError> {
        let late = self.late(Duration::from_micros(intent.raw.wait));
        let id = intent.id.unwrap_or_else(|| self.shared().look(|state, _| state.fresh_id()));
        let start = self.start_of(&intent, id)?;
        let mut draft = draft(intent, id, start.map(|(_, time)| time));
        let span = DeclareSpan::begin(self.name(), id, &mut draft.trace);
        Ok(Box::new(Prepared { draft, kind, id, start, late, span }))
    }

    /// Hands a declaration in; where it `waits`, once there is room for it.
    async fn hand_in(&self, mut prepared: Box<Prepared>, waits: bool) -> Result<Declared<'_>, DeclareError> {
        let shared = self.shared();
        loop {
            let room = shared.room.notified();
            let handed_in = shared.with(|state, now| prepared.hand_in(shared, state, now));
            prepared = match handed_in {
                Ok(declared) => return Ok(declared),
                Err((prepared, NotTaken::Full)) if waits => prepared,
                Err((prepared, not_taken)) => return Err(refused(not_taken, prepared.id)),
            };
            tokio::select! {
                biased;
                () = room => {}
                () = &mut prepared.late => return Err(DeclareError::Full),
            }
        }
    }

    /// Resolves when an answer that is waited for during `wait` is overdue.
    fn late(&self, wait: Duration) -> connector::Boxed<'static, ()> {
        let shared = self.shared();
        let (now, most) = (shared.clock.now(), Duration::from_secs(1 << 32));
        let at = now.checked_add(wait.min(most).saturating_add(shared.patience).min(most));
        shared.clock.sleep_until(at.unwrap_or(now))
    }

    /// The intent's start as the agent gave it and by the coordinator's clock: as it was told before, where
    /// the same is asked again, so that its content is the same.
    fn start_of(&self, intent: &Intent, id: IntentId) -> Result<Option<(When, Time)>, DeclareError> {
        let Some(at) = intent.start else { return Ok(None) };
        if let Some(told) = self.shared().look(|state, _| state.remembered_start(id, at)) {
            return Ok(Some((at, told)));
        }
        let time = self.time_of(at).map_err(|uncertainty| DeclareError::ClockUncertain { uncertainty })?;
        Ok(Some((at, time)))
    }

    /// Releases or withdraws intent `id`, whichever session of this name declared it. Cancel safe: the
    /// release is on its way before the first await, and is made until it is answered, over new
    /// connections too, for as long as the client lives.
    ///
    /// # Errors
    /// Where no answer can be had in time.
    pub async fn release(&self, id: IntentId) -> Result<Released, RequestError> {
        let asked = self.shared().with(|state, _| state.release(id));
        match self.answer_to(asked).await? {
            Reply::Released { existed: true } => Ok(Released::Released),
            Reply::Released { existed: false } => Ok(Released::AlreadyEnded(None)),
            other => Err(not_done(other)),
        }
    }

    /// Releases, or withdraws, the intent `id` of another agent, whom the coordinator tells `reason` (up to
    /// [`limits::REASON_BYTES`](crate::limits::REASON_BYTES) bytes without control characters). A rule of the coordinator's must let this agent administer
    /// all that the intent claims; it stands in the record who did it. Cancel safe: it may or may not be done.
    ///
    /// # Errors
    /// Where no answer can be had in time, or it is [forbidden](crate::wire::Refusal::Forbidden).
    pub async fn release_of(
        &self,
        agent: &Agent,
        id: IntentId,
        reason: impl Into<String>,
    ) -> Result<Released, RequestError> {
        let whose = Administer { agent: agent.clone(), reason: reason.into() };
        let asked = self.shared().with(|state, _| {
            let request = state.session.release_of(whose, id)?;
            Ok((request, state.wait_for(request, Asked::Other)))
        });
        match self.answer_to(asked).await? {
            Reply::Released { existed: true } => Ok(Released::Released),
            Reply::Released { existed: false } => Ok(Released::AlreadyEnded(None)),
            other => Err(not_done(other)),
        }
    }

    /// Has the coordinator drain: from then on it grants nothing new and ends what waits, and all its agents are told until when
    /// they may go on; it stops once no grant is in force, or at the deadline. `within` is how long that is from now, at most
    /// [`limits::DRAIN_MOST`](crate::limits::DRAIN_MOST), or `None` for what it is configured with; `reason` is told to agents
    /// (up to [`limits::REASON_BYTES`](crate::limits::REASON_BYTES) bytes without control characters). Ordered again, the
    /// deadline comes nearer or is put off; it is not taken back. Rules must let this agent administer everything. Cancel
    /// safe: it may or may not be done.
    ///
    /// # Errors
    /// Where no answer can be had in time, or it is [forbidden](crate::wire::Refusal::Forbidden).
    pub async fn drain(
        &self,
        within: Option<Duration>,
        reason: impl Into<String>,
    ) -> Result<DrainStands, RequestError> {
        let order = DrainOrder { within: within.map(Micros::from), reason: reason.into() };
        let stands = self.about_drain(DrainAsk::Order(order)).await?;
        stands.ok_or_else(|| RequestError::Nonsense("it was to drain, and does not".into()))
    }

    /// How the coordinator's drain stands; `None` where there is none. As [`Client::drain`], for those who may administer.
    ///
    /// # Errors
    /// As there.
    pub async fn drain_stands(&self) -> Result<Option<DrainStands>, RequestError> {
        self.about_drain(DrainAsk::How).await
    }

    async fn about_drain(&self, asked: DrainAsk) -> Result<Option<DrainStands>, RequestError> {
        let asked = self.shared().with(|state, _| {
            let request = state.session.drain(asked)?;
            Ok((request, state.wait_for(request, Asked::Other)))
        });
        match self.answer_to(asked).await? {
            Reply::Drains(stands) => Ok(stands),
            other => Err(not_done(other)),
        }
    }

    /// Asks for a new end of the lease `id`, whichever session of this name declared it. Cancel safe: the
    /// renewal may or may not be done.
    ///
    /// # Errors
    /// Where no answer can be had in time.
    pub async fn renew(&self, id: IntentId, until: impl Into<When>) -> Result<Renewal, RequestError> {
        let until = self.time_of(until.into());
        let until = until.map_err(|uncertainty| RequestError::ClockUncertain { uncertainty })?;
        let asked = self.shared().with(|state, _| {
            let request = state.session.renew(id, until)?;
            Ok((request, state.wait_for(request, Asked::Other)))
        });
        match self.answer_to(asked).await? {
            Reply::Renewed { end } => Ok(Renewal::Until(end)),
            Reply::RenewDenied { end: Some(end), blockers } => Ok(Renewal::Denied { end, blockers }),
            Reply::RenewDenied { end: None, .. } => Ok(Renewal::Ended),
            other => Err(not_done(other)),
        }
    }

    /// A store refused a write of this agent's for its fence ([`fence::Refused::Lower`](crate::fence::Refused::Lower), or
    /// what stands for it in a database): the holder came too late, and did not know it. The coordinator is told how
    /// often with whatever this client asks for next, counts it for whoever watches it (`preclaim_fence_refusals_total`), and
    /// decides nothing by it.
    pub fn fence_refused(&self) {
        self.shared().look(|state, _| state.session.fence_refused());
    }

    /// The `as_of` of a reading that starts now: a lower bound of the coordinator's time. Take it
    /// before you read, and hand it to [`Intent::expect`].
    pub fn reading(&self) -> Time {
        self.bounds().earliest
    }

    /// The coordinator's time as this client best knows it, and how far that may be off, either way.
    pub fn coordinator_time(&self) -> (Time, Duration) {
        let bounds = self.bounds();
        (bounds.middle(), bounds.uncertainty().to_std())
    }

    /// The instant of the agent's own clock at which the coordinator's time is `at`, as well as it is
    /// known.
    pub fn instant(&self, at: Time) -> Instant {
        let (now, _) = self.coordinator_time();
        let here = self.shared().clock.now();
        let (ahead, behind) = (at.since(now).to_std(), now.since(at).to_std());
        let there = here.checked_add(ahead).and_then(|here| here.checked_sub(behind)).unwrap_or(here);
        self.shared().clock.shown(there)
    }

    fn bounds(&self) -> Bounds {
        let bounds = self.shared().look(|state, now| state.session.clock().bounds(now));
        // The welcome was the first exchange, so something is always known.
        bounds.unwrap_or(Bounds { earliest: self.inner.welcome.now, latest: self.inner.welcome.now })
    }

    /// # Errors
    /// The uncertainty, where it is too large for a time of the agent's own clock to be told.
    fn time_of(&self, at: When) -> Result<Time, Duration> {
        let at = match at {
            When::There(at) => return Ok(at),
            When::Here(at) => self.shared().clock.taken(at),
        };
        let here = self.shared().clock.now();
        let bounds = self.bounds();
        if bounds.uncertainty() > self.shared().clock_bound {
            return Err(bounds.uncertainty().to_std());
        }
        let ahead = bounds.middle() + at.saturating_duration_since(here);
        Ok(ahead.before(here.saturating_duration_since(at).into()))
    }

    async fn answer_to(&self, asked: Asking) -> Result<Reply, RequestError> {
        let (request, mut answer) = asked.map_err(|not_taken| match not_taken {
            NotTaken::Full => RequestError::Full,
            NotTaken::Replaced => RequestError::Replaced,
            _ => RequestError::Disconnected,
        })?;
        tokio::select! {
            biased;
            answered = &mut answer => answered.map(|it| it.reply).map_err(|_| RequestError::Unknown),
            () = self.late(Duration::ZERO) => match self.shared().with(|state, _| state.give_up(request)) {
                Some(true) => Err(RequestError::Unknown),
                Some(false) => Err(RequestError::Disconnected),
                None => answer.try_recv().map(|it| it.reply).map_err(|_| RequestError::Unknown),
            }
        }
    }

    /// The events from now on. Each stream holds up to [`crate::limits::EVENTS`] that were not read;
    /// past that it says how many it left out. At most [`crate::limits::SUBSCRIBERS`] streams are
    /// kept; the oldest ends when there is one more.
    pub fn events(&self) -> Events {
        self.shared().look(|state, _| state.subscribe())
    }

    /// Whether the connection stands.
    pub fn is_connected(&self) -> bool {
        matches!(*self.shared().phase.borrow(), Phase::Up)
    }

    /// Why there is no connection: why the last one ended, or why the latest try for another came to
    /// nothing. `None` while one stands.
    pub fn why_disconnected(&self) -> Option<ConnectError> {
        match &*self.shared().phase.borrow() {
            Phase::Connecting | Phase::Up => None,
            Phase::Away(why) | Phase::Over(why) => Some(why.clone()),
        }
    }

    /// Withdraws what is undecided, says goodbye, and waits, a second at most, until the coordinator
    /// has had it all; without a connection it tries for one within that second where something is to be said. What is held runs to its end unless it was released. Other clones of this
    /// client are disconnected. Cancel safe.
    pub async fn close(&self) {
        self.shared().begin_close();
        let mut phase = self.shared().phase.subscribe();
        // An error means that the client is gone already.
        let _ = phase.wait_for(|phase| matches!(phase, Phase::Over(_))).await;
    }
}

impl Shared {
    fn begin_close(&self) {
        let now = self.clock.now();
        self.with(|state, _| {
            if state.closing.is_none() {
                state.closing = Some(now);
                state.session.leave();
            }
        });
        // Those who wait for the end look at `closing` again.
        self.phase.send_modify(|_| ());
    }
}

/// What a policy remembers of an intent until it is granted.
type Plan = Option<degrade::Candidate>;

/// A declaration that has not been handed in.
struct Prepared {
    draft: Draft,
    kind: Asked,
    id: IntentId,
    /// As the agent gave it, and by the coordinator's clock.
    start: Option<(When, Time)>,
    /// Resolves when its answer is overdue.
    late: connector::Boxed<'static, ()>,
    span: DeclareSpan,
}

impl Prepared {
    /// # Errors
    /// Where it is not taken: itself again, and why.
    fn hand_in<'a>(
        self: Box<Self>,
        shared: &'a Arc<Shared>,
        state: &mut State,
        now: Local,
    ) -> Result<Declared<'a>, (Box<Self>, NotTaken)> {
        match state.declare(self.draft.clone(), self.kind, now) {
            Ok((request, answer)) => {
                let undo = Undo { shared, request, id: self.id, kind: self.kind, answer };
                Ok(Declared { undo, start: self.start, late: self.late, span: self.span })
            }
            Err(not_taken) => Err((self, not_taken)),
        }
    }
}

/// A declaration whose answer is waited for.
struct Declared<'a> {
    undo: Undo<'a>,
    start: Option<(When, Time)>,
    late: connector::Boxed<'static, ()>,
    span: DeclareSpan,
}

impl Declared<'_> {
    async fn answered(mut self) -> Result<(IntentId, Answered), DeclareError> {
        let answered = self.answer().await;
        self.span.end(&answered);
        answered
    }

    /// Cancel safe: dropped, the declaration is undone with the rest of this.
    async fn answer(&mut self) -> Result<(IntentId, Answered), DeclareError> {
        let Undo { shared, request, id, .. } = self.undo;
        tokio::select! {
            biased;
            answered = &mut self.undo.answer => {
                answered.map(|answered| (id, answered)).map_err(|_| DeclareError::Unknown { id })
            }
            () = &mut self.late => match shared.with(|state, _| state.give_up(request)) {
                Some(true) => {
                    shared.look(|state, _| state.remember_start(id, self.start));
                    Err(DeclareError::Unknown { id })
                }
                Some(false) => Err(DeclareError::Disconnected),
                // It was answered while this was being looked at.
                None => {
                    let answered = self.undo.answer.try_recv();
                    answered.map(|it| (id, it)).map_err(|_| DeclareError::Unknown { id })
                }
            }
        }
    }
}

/// A declaration that is waited for. Dropped before its answer was taken, it undoes the declaration.
struct Undo<'a> {
    shared: &'a Arc<Shared>,
    request: u64,
    id: IntentId,
    kind: Asked,
    answer: tokio::sync::oneshot::Receiver<Answered>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if self.kind == Asked::Revision {
            // It takes its course, for the handle that its grant has.
            self.shared.with(|state, _| state.give_up(self.request));
            return;
        }
        self.shared.with(|state, _| {
            if state.stop_waiting(self.request) {
                state.session.abandon(self.request);
            } else if let Ok(Answered { handle: Some(handle), .. }) = self.answer.try_recv() {
                state.drop_handle(self.id, handle.serial);
            }
        });
    }
}

/// A final answer to a declaration, the grant without its handle.
enum Plain {
    Granted { at: Time },
    Conflict(Conflict),
    Stale(Stale),
    Rejected(Rejected),
}

fn to_outcome(id: IntentId, reply: Reply) -> Result<Plain, DeclareError> {
    Ok(match reply {
        Reply::Granted { at, .. } => Plain::Granted { at },
        Reply::Conflict { at, of } => Plain::Conflict(Conflict { id, at, of }),
        Reply::Stale { path, as_of, kept } => Plain::Stale(Stale { id, path, as_of, kept }),
        Reply::Rejected { reason, field, hint, retry_after, kept } => {
            let retry_after = retry_after.map(Micros::to_std);
            Plain::Rejected(Rejected { id, reason, field, hint, retry_after, kept })
        }
        Reply::Ended => return Err(DeclareError::Ended { id }),
        Reply::Withdrawn { reason } => return Err(DeclareError::Withdrawn { id, reason }),
        // The others answer no declaration.
        Reply::Unknown
        | Reply::Released { .. }
        | Reply::Renewed { .. }
        | Reply::RenewDenied { .. }
        | Reply::Drains(_)
        | Reply::CapacitySet(_) => return Err(DeclareError::Unknown { id }),
    })
}

fn refused(not_taken: NotTaken, id: IntentId) -> DeclareError {
    match not_taken {
        NotTaken::Replaced => DeclareError::Replaced,
        NotTaken::Left => DeclareError::Disconnected,
        NotTaken::Full => DeclareError::Full,
        NotTaken::Draining(reason) => DeclareError::Draining { reason: reason.to_string() },
        NotTaken::IdBusy => DeclareError::IdBusy { id },
        NotTaken::TooLarge => DeclareError::TooLarge,
    }
}

/// Why a release or a renewal was not done.
fn not_done(reply: Reply) -> RequestError {
    match reply {
        Reply::Rejected { reason, field, hint, .. } => RequestError::Rejected { reason, field, hint },
        _ => RequestError::Unknown,
    }
}

fn draft(intent: Intent, id: IntentId, start: Option<Time>) -> Draft {
    let Intent { revision, note, trace, mut raw, .. } = intent;
    raw.id = id.number();
    raw.start = start.map(Time::as_us);
    Draft { intent: raw, note, revision, trace }
}

type Asking = Result<(u64, tokio::sync::oneshot::Receiver<Answered>), NotTaken>;

#[cfg(test)]
mod tests;
