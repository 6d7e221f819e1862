//! The agent's half of a session: what was asked and not yet answered, what is held and until when,
//! what the coordinator's clock says. It takes commands, decoded messages and the local time as
//! arguments and yields messages to send and events; it does no IO and reads no clock.
//!
//! A session outlives its connections. What is asked is kept until it is answered, and asked again
//! after each welcome under the number that it had; what is held is asked about then, so that what
//! ended in the meantime is told.
//!
//! How to drive it:
//! 1. [`AgentSession::connected`] when a connection stands, [`AgentSession::disconnected`] when it is lost;
//!    as often as it takes.
//! 2. Send what [`AgentSession::poll_send`] yields, in order, on one lane.
//! 3. Hand each message that arrives to [`AgentSession::receive`].
//! 4. Call [`AgentSession::tick`] at the time that [`AgentSession::next_timeout`] names.
//! 5. After each of these, take what [`AgentSession::poll_event`] yields.

mod answers;
mod clock;
mod draining;
mod event;
mod held;
mod pending;
mod standing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

pub use clock::{Bounds, ClockEstimate};
pub use event::{Event, Loss, News, Reply};
pub use held::{Held, Terms, stop};

use crate::limits;
use crate::types::{IntentId, Micros, RawIntent, Slot, Time, TraceContext};
use crate::wire::{
    Administer, Bearer, Bye, ClockPing, ClockPong, CloseCode, Degradations, Hello, Role, SetCapacity,
    ToAgent, ToCoordinator, VERSIONS, Welcome,
};
use draining::ToldToDrain;
use held::{Due, Holdings};
use pending::{Ask, Pending};

/// Pings sent one after the other at first: the lowest round trip of a few is a good one.
const FIRST_PINGS: u32 = 4;
/// Between two pings later on: at 200 ppm the bounds widen by 0.4 ms in between.
const PING_EVERY: Micros = Micros::from_secs(2);
/// An unanswered ping is given up after this.
const PING_PATIENCE: Micros = Micros::from_secs(2);

/// An instant of the agent's own clock: µs since an origin of the shell's choice. It runs evenly and
/// never backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Local(u64);

impl Local {
    /// The instant `us` microseconds after the origin.
    pub const fn from_us(us: u64) -> Self {
        Local(us)
    }

    /// Microseconds since the origin.
    pub const fn as_us(self) -> u64 {
        self.0
    }

    /// This instant and `span` later, saturating.
    #[must_use]
    pub const fn after(self, span: Micros) -> Self {
        Local(self.0.saturating_add(span.as_us()))
    }

    /// The span from `earlier` to here; zero where `earlier` is later.
    pub const fn since(self, earlier: Local) -> Micros {
        Micros::from_us(self.0.saturating_sub(earlier.0))
    }
}

/// Who the agent is, for the hello.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The name that it asks for.
    pub name: Option<String>,
    /// Which of the name's sessions this is.
    pub label: String,
    /// Random, new for each process.
    pub incarnation: u128,
    /// What it is here for.
    pub role: Role,
    /// Asks to be refused, rather than to take over, where another incarnation is live.
    pub refuse_if_live: bool,
    /// Program and version, for people.
    pub software: String,
    /// Above this the coordinator's time counts as uncertain.
    pub clock_bound: Micros,
    /// The token by which it says who it is, where it has one.
    pub bearer: Option<Bearer>,
}

/// An intent to declare, and what stands beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// The intent.
    pub intent: RawIntent,
    /// For people.
    pub note: String,
    /// Whether it takes the place of what its id stands for.
    pub revision: bool,
    /// Where it stands in a trace; it is no part of its content.
    pub trace: Option<TraceContext>,
}

impl Draft {
    /// Whether it asks for the same: the coordinator takes one for a repeat of the other.
    pub(super) fn asks_the_same(&self, other: &Draft) -> bool {
        let Draft { intent, note, revision, trace: _ } = self;
        *intent == other.intent && *note == other.note && *revision == other.revision
    }
}

/// Why a command was not taken; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// A newer incarnation of this name and label has taken over.
    Replaced,
    /// The session leaves, or has left.
    Left,
    /// As many requests as the coordinator takes, or [`limits::REQUESTS`], are unanswered.
    Full,
    /// The coordinator takes nothing new: it shuts down, or drains; and why, as it says.
    Draining(Arc<str>),
    /// The id is being declared, or held, by this session.
    IdBusy,
    /// The declaration does not fit in a frame.
    TooLarge,
}

/// A peer that does not keep to the protocol: the connection is to be closed with `code`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The code to close with.
    pub code: CloseCode,
    /// What was wrong.
    pub why: &'static str,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.why)
    }
}

impl std::error::Error for Breach {}

#[derive(Debug)]
enum Link {
    Down,
    Greeting {
        since: Local,
    },
    /// `draining` says why nothing new is taken in, once that is so.
    Up {
        welcome: Box<Welcome>,
        draining: Option<ToldToDrain>,
    },
}

/// See the module's documentation.
#[derive(Debug)]
pub struct AgentSession {
    identity: Identity,
    /// What the next hello tells; it decides nothing.
    degradations: Degradations,
    /// How often a store refused a write for its fence, until that is told; it decides nothing.
    fence_refusals: u32,
    link: Link,
    clock: ClockEstimate,
    pings: Pings,
    last_request: u64,
    pending: BTreeMap<u64, Pending>,
    /// The pending declaration of each id.
    declared: BTreeMap<IntentId, u64>,
    /// Requests that found no room, and when they are made again.
    again: BTreeSet<(Local, u64)>,
    holdings: Holdings,
    /// Intents whose grants were revoked and that wait on, with the slot of the last answer about each.
    revoked: BTreeMap<IntentId, (Terms, Slot)>,
    seen: Option<Slot>,
    /// The latest instant that this session was told of.
    now: Local,
    /// The state that the coordinator had at the last welcome, and how much it takes.
    known: Option<(u64, usize)>,
    ending: Ending,
    out: VecDeque<ToCoordinator>,
    /// Bytes of the last message in `out`, where that declares.
    last_bytes: usize,
    events: VecDeque<Event>,
}

/// Whether the session has an end in sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Open,
    /// It says goodbye once everything else is said.
    Leaving,
    /// It has said goodbye.
    Left,
    /// A newer incarnation has it.
    Replaced,
}

#[derive(Debug, Default)]
struct Pings {
    last: u64,
    unanswered: Option<(u64, Local)>,
    next: Option<Local>,
    answered: u32,
    uncertain: bool,
}

impl AgentSession {
    /// A session that has not been connected yet.
    pub fn new(identity: Identity) -> Self {
        AgentSession {
            identity,
            degradations: Degradations::default(),
            fence_refusals: 0,
            link: Link::Down,
            clock: ClockEstimate::default(),
            pings: Pings::default(),
            last_request: 0,
            pending: BTreeMap::new(),
            declared: BTreeMap::new(),
            again: BTreeSet::new(),
            holdings: Holdings::default(),
            revoked: BTreeMap::new(),
            seen: None,
            now: Local::default(),
            known: None,
            ending: Ending::Open,
            out: VecDeque::new(),
            last_bytes: 0,
            events: VecDeque::new(),
        }
    }

    /// The next hello tells of so many degradations.
    pub fn report(&mut self, degradations: Degradations) {
        self.degradations = degradations;
    }

    /// A store refused a write of this agent's for its fence: the next message with room for it says so.
    pub fn fence_refused(&mut self) {
        self.fence_refusals = self.fence_refusals.saturating_add(1);
    }

    /// A connection stands: the hello goes out first.
    pub fn connected(&mut self, now: Local) {
        self.now = now;
        self.link = Link::Greeting { since: now };
        self.pings = Pings::default();
        self.out.clear();
        let identity = self.identity.clone();
        let told = self.degradations.extensions();
        let extensions = match &identity.bearer {
            Some(bearer) => told.with(bearer.extension()),
            None => told,
        };
        let hello = Hello {
            lowest_version: VERSIONS.0,
            highest_version: VERSIONS.1,
            name: identity.name,
            label: identity.label,
            incarnation: identity.incarnation,
            role: identity.role,
            refuse_if_live: identity.refuse_if_live,
            seen: self.seen,
            software: identity.software,
            extensions,
        };
        self.out.push_back(hello.into());
    }

    /// The connection is lost. What was not answered is asked again over the next one; what is held
    /// stays good to its end.
    pub fn disconnected(&mut self) {
        if matches!(self.link, Link::Down) {
            return;
        }
        let was_up = self.welcome().is_some();
        self.link = Link::Down;
        self.out.clear();
        self.again.clear();
        self.forget_what_goes_with_a_connection();
        if was_up {
            self.news(News::Disconnected);
        }
    }

    /// The welcome, while connected.
    pub fn welcome(&self) -> Option<&Welcome> {
        match &self.link {
            Link::Up { welcome, .. } => Some(welcome),
            Link::Down | Link::Greeting { .. } => None,
        }
    }

    /// What is known of the coordinator's clock.
    pub fn clock(&self) -> &ClockEstimate {
        &self.clock
    }

    /// The grant that is held under `id`: not while a revision of it may have taken its place.
    pub fn held(&self, id: IntentId) -> Option<&Held> {
        self.holdings.of(id).filter(|held| !held.is_in_doubt())
    }

    /// Whether a revision may have taken the place of the grant under `id` by now, though no timer has run yet:
    /// as after the process was stopped.
    pub fn may_have_given_way(&self, id: IntentId, now: Local) -> bool {
        let bounds = self.clock.bounds(now);
        self.holdings.of(id).zip(bounds).is_some_and(|(held, bounds)| held.is_in_doubt_at(bounds.latest))
    }

    /// Whether `id` stands for something that this session has: a grant in hand, or an intent that
    /// waits on after its grant was revoked.
    pub fn stands(&self, id: IntentId) -> bool {
        self.holdings.of(id).is_some() || self.revoked.contains_key(&id)
    }

    /// Whether it was never welcomed.
    pub fn is_new(&self) -> bool {
        self.known.is_none()
    }

    /// Whether this session leaves, holds or has asked for something, and has not said goodbye yet.
    pub fn has_goodbye_to_say(&self) -> bool {
        self.ending == Ending::Leaving && !self.pending.is_empty()
    }

    /// Requests without a final answer.
    pub fn unanswered(&self) -> usize {
        self.pending.len()
    }

    /// Declares `draft`. The answer comes as a [`Event::Reply`] with the number that is returned. Without
    /// a connection it is sent over the next one. A declaration that was given up, and is declared again
    /// with the same content, goes on under the number that it has.
    ///
    /// # Errors
    /// Where it was not taken; nothing was sent.
    pub fn declare(&mut self, mut draft: Draft, now: Local) -> Result<u64, NotTaken> {
        self.may_declare(&draft)?;
        self.now = now;
        let id = IntentId::new(draft.intent.id);
        if let Some(request) = self.declared.get(&id).copied() {
            return self.claim_again(request, &draft).ok_or(NotTaken::IdBusy);
        }
        if self.stands(id) && !draft.revision {
            return Err(NotTaken::IdBusy);
        }
        let undecided = self.known.map_or(limits::REQUESTS, |(_, undecided)| undecided);
        if self.declared.len() >= undecided.min(limits::REQUESTS) {
            return Err(NotTaken::Full);
        }
        let bytes = pending::fit(&mut draft).ok_or(NotTaken::TooLarge)?;
        let request = self.ask(Ask::declare(id, draft, bytes));
        self.declared.insert(id, request);
        Ok(request)
    }

    fn may_declare(&self, draft: &Draft) -> Result<(), NotTaken> {
        match (self.ending, &self.link) {
            (Ending::Replaced, _) => Err(NotTaken::Replaced),
            (Ending::Leaving | Ending::Left, _) => Err(NotTaken::Left),
            // A revision may give back, which is the coordinator's to say.
            (Ending::Open, Link::Up { draining: Some(told), .. })
                if !(draft.revision && told.deadline.is_some()) =>
            {
                Err(NotTaken::Draining(Arc::clone(&told.reason)))
            }
            (Ending::Open, Link::Up { .. } | Link::Down | Link::Greeting { .. }) => Ok(()),
        }
    }

    /// Nobody waits for the declaration `request` any more: it is withdrawn, and what it may have
    /// been granted meanwhile is released. A revision is left to its course, since its withdrawal
    /// would end the grant that it revises.
    pub fn abandon(&mut self, request: u64) {
        let Some(Pending { asked, ask: Ask::Declare { id, abandoned, .. }, .. }) =
            self.pending.get_mut(&request)
        else {
            return;
        };
        let id = *id;
        if self.holdings.of(id).is_some() || *abandoned {
            return;
        }
        *abandoned = true;
        let was_asked = *asked > 0;
        if self.welcome().is_none() {
            self.done(request); // the release goes first over the next connection
        }
        if was_asked {
            self.ask(Ask::Release { id });
        } else {
            self.done(request);
        }
    }

    /// As [`AgentSession::abandon`], for what is being declared under `id`, if anything is.
    pub fn abandon_declared(&mut self, id: IntentId) {
        if let Some(request) = self.declared.get(&id).copied() {
            self.abandon(request);
        }
    }

    /// Whoever asked waits no longer for `request`. A declaration is left to its course: declared again
    /// with the same content it goes on, and a grant of it is not taken in hand before. Says whether it
    /// may have been heard; where it was not, it is forgotten.
    pub fn give_up(&mut self, request: u64) -> bool {
        let Some(pending) = self.pending.get_mut(&request) else { return true };
        let may_be_heard = pending.asked > 0;
        let is_up = matches!(self.link, Link::Up { .. });
        match &mut pending.ask {
            // Without a connection it would be decided for nobody when there is one again; but a revision is
            // for the holder of what it revises.
            Ask::Declare { id, draft, claimed, .. }
                if may_be_heard && (is_up || self.holdings.are_revised_by(*id, draft)) =>
            {
                *claimed = false;
            }
            // What is released is released, whoever waits for it.
            Ask::Release { .. } | Ask::Standing { .. } => {}
            Ask::Declare { .. }
            | Ask::Administer { .. }
            | Ask::SetCapacity(_)
            | Ask::Drain(_)
            | Ask::Renew { .. } => {
                self.done(request);
            }
        }
        may_be_heard
    }

    /// Releases or withdraws `id`. From here on it is not held. The release is made until it is answered,
    /// over as many connections as that takes.
    ///
    /// # Errors
    /// Where it was not taken. A grant in hand is given up all the same; it runs to its end.
    pub fn release(&mut self, id: IntentId) -> Result<u64, NotTaken> {
        self.revoked.remove(&id);
        self.lose(id, Loss::Released { reason: None });
        self.may_ask()?;
        Ok(self.ask(Ask::Release { id }))
    }

    /// Releases the intent `id` of another agent, as one who may administer it.
    ///
    /// # Errors
    /// Where it was not taken; nothing was sent.
    pub fn release_of(&mut self, whose: Administer, id: IntentId) -> Result<u64, NotTaken> {
        self.may_ask()?;
        Ok(self.ask(Ask::Administer { id, whose }))
    }

    /// Sets a capacity, as one who may administer there.
    ///
    /// # Errors
    /// Where it was not taken; nothing was sent.
    pub fn set_capacity(&mut self, what: SetCapacity) -> Result<u64, NotTaken> {
        self.may_ask()?;
        Ok(self.ask(Ask::SetCapacity(what)))
    }

    /// Forgets the grant under `id` without releasing it: it runs to its end by itself.
    pub fn forget(&mut self, id: IntentId) {
        self.holdings.remove(id);
        self.revoked.remove(&id);
    }

    /// Asks for a new end of a lease.
    ///
    /// # Errors
    /// Where it was not taken; nothing was sent.
    pub fn renew(&mut self, id: IntentId, until: Time) -> Result<u64, NotTaken> {
        self.may_ask()?;
        Ok(self.ask(Ask::Renew { id, until, automatic: false }))
    }

    /// The agent leaves: every undecided declaration is withdrawn, and the session need not be kept.
    /// What is held runs to its end unless it was released before.
    pub fn leave(&mut self) {
        let open: Vec<u64> = self.declared.values().copied().collect();
        for request in open {
            self.abandon(request);
        }
        if self.ending == Ending::Open {
            self.ending = Ending::Leaving;
            self.say_goodbye();
        }
    }

    fn say_goodbye(&mut self) {
        if self.ending == Ending::Leaving && self.welcome().is_some() {
            self.out.push_back(Bye::default().into());
        }
    }

    /// Takes in a message.
    ///
    /// # Errors
    /// Where the coordinator does not keep to the protocol: close the connection.
    pub fn receive(&mut self, message: ToAgent, now: Local) -> Result<(), Breach> {
        let order = |why| Err(Breach { code: CloseCode::ProtocolOrder, why });
        match (message, &mut self.link) {
            (ToAgent::Welcome(welcome), Link::Greeting { since }) => {
                let since = *since;
                self.welcomed(welcome, since, now)
            }
            (ToAgent::Welcome(_), _) => order("a second welcome"),
            (ToAgent::Draining(draining), Link::Greeting { .. }) => {
                self.told_to_drain(draining);
                Ok(())
            }
            (_, Link::Down | Link::Greeting { .. }) => order("a message before the welcome"),
            (ToAgent::ClockPong(pong), Link::Up { .. }) => {
                self.pong(pong, now);
                Ok(())
            }
            (ToAgent::Answer(answer), Link::Up { .. }) => self.answered(answer, now),
            (ToAgent::Contested(news), Link::Up { .. }) => {
                self.news(News::Contested(news));
                Ok(())
            }
            (ToAgent::Draining(news), Link::Up { draining, .. }) => {
                *draining = Some(ToldToDrain::of(&news));
                self.told_to_drain(news);
                Ok(())
            }
            (ToAgent::Replaced(_), Link::Up { .. }) => {
                self.replaced();
                Ok(())
            }
            (ToAgent::ListReply(reply), Link::Up { .. }) => self.standing_told(reply),
            (ToAgent::WatchEvent(_), Link::Up { .. }) => order("a watcher's event on the session's lane"),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Local) {
        self.now = now;
        self.tick_pings(now);
        self.ask_again(now);
        while let Some((due, what, id)) = self.holdings.first_due() {
            let Some(bounds) = self.clock.bounds(now).filter(|bounds| bounds.latest >= due) else { break };
            // After a stall its end may be due as well as its renewal.
            let is_over = self.holdings.of(id).is_some_and(|held| bounds.latest >= held.stops());
            match what {
                Due::Renewal if !is_over => self.renew_by_itself(id, bounds),
                Due::Renewal | Due::End => self.ended_by_own_clock(id),
                Due::Doubt if is_over => self.ended_by_own_clock(id),
                Due::Doubt => self.doubt(id),
            }
        }
    }

    /// When [`AgentSession::tick`] is to be called next, if at all.
    pub fn next_timeout(&self, now: Local) -> Option<Local> {
        let due = self.holdings.first_due().and_then(|(due, ..)| self.clock.may_be(due, now));
        let given_up = self.pings.unanswered.map(|(_, sent)| sent.after(PING_PATIENCE));
        let ping = given_up.or(self.pings.next).filter(|_| self.welcome().is_some());
        let again = self.again.first().map(|(at, _)| *at);
        // A microsecond more, since the bounds are rounded outwards: without it a timer could find
        // nothing due yet and be set for the same instant again.
        [due.map(|at| at.after(Micros::from_us(1))), ping, again].into_iter().flatten().min()
    }

    /// Whether there is a message to send.
    pub fn has_to_send(&self) -> bool {
        !self.out.is_empty()
    }

    /// The next message to send.
    pub fn poll_send(&mut self) -> Option<ToCoordinator> {
        let mut message = self.out.pop_front()?;
        if matches!(message, ToCoordinator::Bye(_)) {
            self.ending = Ending::Left;
        }
        // What is lost with a connection stays untold: it is a figure for people.
        if self.fence_refusals > 0 && message.tell_fence_refusals(self.fence_refusals) {
            self.fence_refusals = 0;
        }
        Some(message)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn may_ask(&self) -> Result<(), NotTaken> {
        match self.ending {
            Ending::Replaced => Err(NotTaken::Replaced),
            Ending::Open | Ending::Leaving | Ending::Left => {
                let has_room = self.pending.len() < 2 * limits::REQUESTS;
                if has_room { Ok(()) } else { Err(NotTaken::Full) }
            }
        }
    }

    fn welcomed(&mut self, welcome: Welcome, since: Local, now: Local) -> Result<(), Breach> {
        if !(VERSIONS.0..=VERSIONS.1).contains(&welcome.version) {
            return Err(Breach {
                code: CloseCode::UnsupportedVersion,
                why: "a version that was not offered",
            });
        }
        if welcome.extensions.first_not_understood(&[]).is_some() {
            return Err(Breach { code: CloseCode::UnsupportedExtension, why: "in the welcome" });
        }
        if !(limits::SLOT_MIN..=limits::SLOT_MAX).contains(&welcome.slot_length) {
            return Err(Breach { code: CloseCode::MalformedBody, why: "slots of a length that none has" });
        }
        self.learn_time(since, now, welcome.now);
        self.pings.next = Some(now);
        // The session comes back under the name that it was given.
        self.identity.name = Some(welcome.name.clone());
        let undecided = usize::try_from(welcome.limits.undecided).unwrap_or(usize::MAX);
        let before = self.known.replace((welcome.state, undecided));
        let is_another_state = before.is_some_and(|(state, _)| state != welcome.state);
        self.link = Link::Up { welcome: Box::new(welcome), draining: None };
        self.events.push_back(Event::Welcomed);
        self.tick_pings(now);
        self.take_up(is_another_state);
        self.tick(now);
        Ok(())
    }

    /// Goes on where the last connection broke off.
    fn take_up(&mut self, is_another_state: bool) {
        if is_another_state {
            // It has nothing of what this session holds, and will never have heard of it.
            self.lose_all(&Loss::Unknown);
            let waited = std::mem::take(&mut self.revoked).into_keys();
            waited.for_each(|id| self.events.push_back(Event::News(News::GaveUp { id })));
        }
        self.ask_what_stands();
        self.ask_all_again();
        self.holdings.renew_what_was_not_answered();
        self.say_goodbye();
    }

    fn tick_pings(&mut self, now: Local) {
        let given_up = |&(_, sent): &(u64, Local)| now >= sent.after(PING_PATIENCE);
        if self.welcome().is_none() || self.pings.unanswered.is_some_and(|ping| !given_up(&ping)) {
            return;
        }
        if self.pings.unanswered.take().is_none() && self.pings.next.is_none_or(|next| now < next) {
            return;
        }
        self.pings.last += 1;
        self.pings.unanswered = Some((self.pings.last, now));
        self.out.push_back(ClockPing { seq: self.pings.last, client_us: now.as_us() }.into());
        self.judge_clock(now, false);
    }

    fn pong(&mut self, pong: ClockPong, now: Local) {
        // By its own note of when it was sent: the time that the peer echoes proves nothing.
        let Some((_, sent)) = self.pings.unanswered.filter(|(seq, _)| *seq == pong.seq) else { return };
        self.pings.unanswered = None;
        self.pings.answered += 1;
        let soon = self.pings.answered < FIRST_PINGS;
        self.pings.next = Some(if soon { now } else { now.after(PING_EVERY) });
        self.learn_time(sent, now, pong.coordinator);
        self.tick_pings(now);
    }

    fn learn_time(&mut self, sent: Local, now: Local, coordinator: Time) {
        let jumped = self.clock.add(sent, now, coordinator);
        self.judge_clock(now, jumped);
    }

    fn judge_clock(&mut self, now: Local, jumped: bool) {
        let Some(bounds) = self.clock.bounds(now) else { return };
        let uncertainty = bounds.uncertainty();
        let uncertain = uncertainty > self.identity.clock_bound;
        if jumped || (uncertain && !self.pings.uncertain) {
            self.news(News::ClockUncertain { uncertainty, jumped });
        }
        self.pings.uncertain = uncertain;
    }

    fn ended_by_own_clock(&mut self, id: IntentId) {
        let Some(held) = self.holdings.of(id) else { return };
        let (hold, why) = (held.terms.hold, held.ended());
        self.lose(id, why);
        // A renewal may be on its way, or, without a connection, the news of a move: what this agent has
        // given up must not live on there.
        if (hold || self.welcome().is_none()) && self.may_ask().is_ok() {
            self.end_revision(id);
            self.ask(Ask::Release { id });
        }
    }

    /// What goes out next releases `id`, and what a revision of it has come to by then.
    fn end_revision(&mut self, id: IntentId) {
        let Some(request) = self.declared.get(&id).copied() else { return };
        let is_up = matches!(self.link, Link::Up { .. });
        let Some(pending) = self.pending.get_mut(&request).filter(|_| is_up) else {
            return self.finish(request, id, Reply::Ended);
        };
        if let Ask::Declare { abandoned, .. } = &mut pending.ask {
            *abandoned = true;
        }
        if !std::mem::replace(&mut pending.is_told, true) {
            self.reply(request, id, Reply::Ended);
        }
    }

    /// A revision is unanswered for so long that what it gives up may be another's.
    fn doubt(&mut self, id: IntentId) {
        if let Some(token) = self.holdings.doubt(id) {
            self.news(News::Lost { id, token, why: Loss::Revising });
        }
    }

    /// The revision that put the grant under `id` in doubt has not taken its place.
    fn stands_after_all(&mut self, id: IntentId) {
        if let Some(Held { start, end, token, terms, .. }) = self.holdings.stands_after_all(id).cloned() {
            self.news(News::Revised { id, start, end, token, terms });
        }
    }

    fn renew_by_itself(&mut self, id: IntentId, bounds: Bounds) {
        let slot_length = self.slot_length();
        let Some(until) = self.holdings.of(id).map(|held| held.wanted_end(bounds.middle())) else { return };
        self.holdings.renewal_asked(id, bounds.latest, slot_length);
        // Over the next connection it is asked for with the time of then.
        if self.welcome().is_some() && self.may_ask().is_ok() {
            self.ask(Ask::Renew { id, until, automatic: true });
        }
    }

    fn slot_length(&self) -> Micros {
        self.welcome().map_or(limits::SLOT_MAX, |welcome| welcome.slot_length)
    }

    /// A newer incarnation has taken over this name and label, as the coordinator has said: nothing that
    /// this one holds is its own any more, and nothing can be asked for. Final.
    pub fn replaced(&mut self) {
        if self.ending == Ending::Replaced {
            return;
        }
        self.ending = Ending::Replaced;
        self.news(News::Replaced);
        self.lose_all(&Loss::Replaced);
        self.revoked.clear();
        self.declared.clear();
        self.again.clear();
        for (request, pending) in std::mem::take(&mut self.pending) {
            if !pending.is_told {
                self.reply(request, pending.ask.id(), Reply::Unknown);
            }
        }
    }

    /// Whether a newer incarnation has taken over.
    pub fn is_replaced(&self) -> bool {
        self.ending == Ending::Replaced
    }

    fn lose_all(&mut self, why: &Loss) {
        for id in self.holdings.ids() {
            self.lose(id, why.clone());
        }
    }

    fn lose(&mut self, id: IntentId, why: Loss) {
        if let Some(held) = self.holdings.remove(id) {
            self.news(News::Lost { id, token: held.token, why });
        }
    }

    fn reply(&mut self, request: u64, id: IntentId, reply: Reply) {
        self.events.push_back(Event::Reply { request, id, reply });
    }

    fn news(&mut self, news: News) {
        self.events.push_back(Event::News(news));
    }
}

#[cfg(test)]
mod tests;
