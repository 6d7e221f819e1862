//! The coordinator's half: names, their sessions, and the way from an intent to those who wait for
//! news of it.
//!
//! Under a name there are several sessions, each with a label; within a name and label the newest
//! incarnation is in charge. Any session of a name may release or renew its intents; news goes to
//! the session that declared, or where that is gone to all sessions of the name, or is kept. What is
//! told apart here by connection is only where to send: ownership follows the name.

mod admission;
mod allowance;
mod bounding;
mod crowd;
mod draining;
mod feasibility;
mod forbidding;
mod hello;
mod intents;
mod listing;
mod looking;
mod mailbox;
mod notes;
mod operating;
mod priority;
mod publish;
mod ranks;
mod requests;
mod rights;
mod standing;
#[cfg(test)]
mod tests;
mod traces;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use admission::{Admission, Denial, Open, Then};
pub use allowance::{Allowance, Credits};
pub use bounding::Lowered;
pub use draining::{DrainNote, Drains};
pub use feasibility::Feasibility;
pub use forbidding::{Attempt, ForbiddenCounts, ForbiddenNote, RightsNote};
pub use hello::HelloRefusal;
pub use listing::{Page, Query, Words};
pub use looking::{Reader, Scope};
pub use notes::{DeclaredBy, Live, LiveGrant, Recovered, Restored, Route, SessionChange, SessionNotes};
pub use operating::{CapacityQuery, OperatorNote, ReloadNote, Spans};
pub use priority::{Caps, LoweredBy, Priority, Sent};
pub use publish::Tell;
pub use requests::{Door, Drained, Inbox, Refusals, Request};
pub use rights::{
    Asked, Forbidden, ForbiddenBy, Judged, Modes, NamePattern, PathPattern, Rights, Rule, What,
};
pub use traces::{Trace, TracedDecision};
pub use watch::Room;

use self::allowance::{Cost, Purses};
use self::bounding::Bounding;
use self::forbidding::Forbidding;
use crate::limits::{self, Limit, Reached};
use crate::types::{Agent, Claim, FixedMap, IntentId, Micros, Slot, Time};
use crate::wire::{CloseCode, ToAgent, ToCoordinator};

/// A connection, numbered in the order in which they come; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// One that is no more: what lived on it before a restart lives on it still, until it is taken up.
    pub const GONE: ConnectionId = ConnectionId(0);
}

/// A lane of a connection; 0 is its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u64);

impl LaneId {
    /// The lane of the hello, which is there as long as the connection is.
    pub const FIRST: LaneId = LaneId(0);
}

/// Where something came from and its answer goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The connection.
    pub connection: ConnectionId,
    /// The lane of it. Where that is closed by now, the first lane stands in.
    pub lane: LaneId,
}

/// What the shell is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send this message.
    Send {
        /// Where to.
        to: Place,
        /// What.
        message: ToAgent,
    },
    /// Close this connection once all that was to be sent on it has been.
    Close {
        /// Which one.
        connection: ConnectionId,
        /// Why.
        code: CloseCode,
        /// Why, for people.
        reason: String,
    },
}

/// Where an input of a slot came from: what its answer needs to find back.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The lane, or `None` for the operator.
    from: Option<Place>,
    label: Arc<str>,
    request: u64,
    ask: Ask,
}

impl Origin {
    /// An input of the operator's.
    pub fn operator() -> Self {
        Origin { from: None, label: Arc::from(""), request: 0, ask: Ask::Other }
    }
}

/// What an input asks for, as far as its answer depends on it.
#[derive(Clone, Debug)]
enum Ask {
    /// A declaration or revision.
    /// `load` is what it adds to the counts of windows until it is decided.
    Declare {
        id: IntentId,
        note: Arc<str>,
        claims: Arc<[Claim]>,
        load: Option<intents::Load>,
        bounding: Option<Arc<Bounding>>,
        trace: Option<Arc<Trace>>,
    },
    /// A declaration or revision with a value outside its range, and what it may be.
    Invalid { hint: &'static str },
    /// The release of another's intent, by this agent.
    Administer { by: Agent },
    /// A capacity that this agent sets.
    SetCapacity { by: Agent, reason: Arc<str> },
    /// Anything else.
    Other,
}

impl Origin {
    /// What was paid for it.
    fn cost(&self) -> Cost {
        match &self.ask {
            Ask::Declare { bounding: Some(bounding), .. } => bounding.cost(),
            _ => Cost::default(),
        }
    }
}

impl Ask {
    /// What it adds to the counts is remembered, and what was sent beside what counts.
    fn bind(&mut self, adds: Option<intents::Load>, bound: Option<Arc<Bounding>>) {
        if let Ask::Declare { load, bounding, .. } = self {
            (*load, *bounding) = (adds, bound);
        }
    }

    /// It is followed from here on, where it is a declaration whose values are right.
    fn follow(&mut self, followed: Arc<Trace>) {
        if let Ask::Declare { trace, .. } = self {
            *trace = Some(followed);
        }
    }
}

/// What every session is told in its welcome.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Random, the same for as long as the coordinator's state lasts.
    pub state: u64,
    /// The slot length.
    pub slot_length: Micros,
    /// The earliest start after a decision.
    pub min_lead: Micros,
    /// How far ahead a claim may end.
    pub horizon: Micros,
    /// How long the core remembers an ended id.
    pub retention: Micros,
    /// Program and version, for people.
    pub software: String,
    /// What is taken in.
    pub bounds: Bounds,
}

/// How much agents may have going; what passes it is refused as `overloaded`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Lanes open at a time on one connection.
    pub lanes: usize,
    /// Messages of one name within one slot, so that no name takes the slot from others: of what asks for
    /// something, and as many again of what keeps up or gives back what the name has.
    pub inputs_of_a_name: usize,
    /// Intents of one name without a final answer: each is placed anew in every slot.
    pub undecided_of_a_name: usize,
    /// Intents without a final answer over all names.
    pub undecided: usize,
    /// Intents of one name in force or undecided.
    pub live_of_a_name: usize,
    /// Intents in force or undecided over all names.
    pub live: usize,
    /// Claims of these of one name.
    pub windows_of_a_name: usize,
    /// Of them, those on one path or below it.
    pub windows_of_a_name_on_a_path: usize,
    /// Windows over all names that may be in the way of one of several claims.
    pub windows_on_a_path: usize,
    /// Regions of one frame over all names.
    pub regions_of_a_frame: usize,
    /// Windows among which a slot looks for places for one name's intents of several claims.
    pub search_of_a_name: usize,
    /// The same over all names.
    pub search: usize,
    /// Names that have a session.
    pub names: usize,
    /// Sessions of one name at a time, connected or kept.
    pub sessions_of_a_name: usize,
    /// Sessions without a connection that are kept, over all names.
    pub sessions_kept: usize,
    /// How long they are.
    pub session_kept_for: Micros,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            lanes: limits::LANES,
            inputs_of_a_name: limits::SLOT_INPUTS_OF_A_NAME,
            undecided_of_a_name: limits::UNDECIDED_PER_AGENT,
            undecided: limits::UNDECIDED,
            live_of_a_name: limits::LIVE_OF_A_NAME,
            live: limits::LIVE,
            windows_of_a_name: limits::WINDOWS_OF_A_NAME,
            windows_of_a_name_on_a_path: limits::WINDOWS_OF_A_NAME_ON_A_PATH,
            windows_on_a_path: limits::WINDOWS_ON_A_PATH,
            regions_of_a_frame: limits::REGIONS_OF_A_FRAME,
            search_of_a_name: limits::SEARCH_OF_A_NAME,
            search: limits::SEARCH,
            names: limits::NAMES,
            sessions_of_a_name: limits::SESSIONS_OF_A_NAME,
            sessions_kept: limits::SESSIONS_LEFT,
            session_kept_for: limits::SESSION_KEPT,
        }
    }
}

/// All names, sessions and the lanes that intents live on. See the module's documentation.
#[derive(Debug)]
pub struct Sessions {
    terms: Terms,
    members: FixedMap<ConnectionId, Member>,
    names: FixedMap<Agent, Name>,
    /// Sessions without a connection, the one that has been so longest first.
    left: BTreeMap<(Time, u64), (Agent, Arc<str>)>,
    next_session: u64,
    intents: intents::Intents,
    mailbox: mailbox::Mailbox,
    watchers: watch::Watchers,
    /// What became of sessions since the last record, where there are records.
    changes: Option<BTreeMap<(Agent, Arc<str>), SessionChange>>,
    /// Why nothing at all is taken in, once that is so.
    draining: Option<Arc<str>>,
    drain: draining::DrainState,
    refusals: Refusals,
    reached: Arc<Reached>,
    /// The last limit of one name's that was passed, until it is asked for.
    passed: Option<Limit>,
    rights: Arc<Rights>,
    purses: Purses,
    forbidding: Forbidding,
    lowered: Lowered,
    operating: operating::Operating,
    traces: traces::Traces,
}

/// Who is on a connection.
#[derive(Clone, Debug)]
struct Member {
    agent: Agent,
    /// `None` for an observer, who is no session.
    label: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct Name {
    sessions: BTreeMap<Arc<str>, Session>,
}

#[derive(Debug)]
struct Session {
    number: u64,
    incarnation: u128,
    /// Incarnations that this one took over from, latest last: none of them takes it back.
    replaced: Vec<u128>,
    connection: Option<ConnectionId>,
    /// When it lost its connection.
    left: Time,
}

impl Sessions {
    /// No sessions yet.
    pub fn new(terms: Terms) -> Self {
        Sessions {
            terms,
            members: FixedMap::default(),
            names: FixedMap::default(),
            left: BTreeMap::new(),
            next_session: 1,
            intents: intents::Intents::default(),
            mailbox: mailbox::Mailbox::default(),
            watchers: watch::Watchers::default(),
            changes: None,
            draining: None,
            drain: draining::DrainState::default(),
            refusals: Refusals::default(),
            reached: Arc::default(),
            passed: None,
            rights: Arc::default(),
            purses: Purses::default(),
            forbidding: Forbidding::default(),
            lowered: Lowered::default(),
            operating: operating::Operating::default(),
            traces: traces::Traces::default(),
        }
    }

    /// Somebody follows traces: see [`Sessions::take_traced`].
    #[must_use]
    pub fn following_traces(mut self) -> Self {
        self.traces.follow();
        self
    }

    /// The decisions of the slot that was published last about intents whose traces are followed.
    pub fn take_traced(&mut self) -> Vec<TracedDecision> {
        self.traces.take_decisions()
    }

    /// From here on these rights hold. What was taken in before stays.
    pub fn set_rights(&mut self, rights: Arc<Rights>) {
        self.rights = rights;
    }

    /// The rights that hold.
    pub fn rights(&self) -> &Arc<Rights> {
        &self.rights
    }

    /// As [`Sessions::request`], for a message as it came. Those that are none for sessions are answered elsewhere.
    pub fn message(&mut self, from: Place, message: ToCoordinator, door: &Door<'_>) -> Vec<Effect> {
        self.request(from, message.into(), door)
    }

    /// The connection has ended. Its session is kept for [`Bounds::session_kept_for`], and what it
    /// declared goes on.
    pub fn connection_gone(&mut self, connection: ConnectionId, now: Time) {
        self.watchers.forget(connection);
        let Some(Member { agent, label: Some(label) }) = self.members.remove(&connection) else { return };
        let session = self.names.get_mut(&agent).and_then(|name| name.sessions.get_mut(&label));
        let Some(session) = session.filter(|session| session.connection == Some(connection)) else { return };
        session.connection = None;
        session.left = now;
        self.left.insert((now, session.number), (agent, label));
        self.forget_left(now);
    }

    /// The session leaves and need not be kept.
    pub fn bye(&mut self, connection: ConnectionId) -> Vec<Effect> {
        if let Some(Member { agent, label: Some(label) }) = self.members.remove(&connection) {
            self.forget_session(&agent, &label);
        }
        self.watchers.forget(connection);
        vec![Effect::Close { connection, code: CloseCode::Done, reason: "goodbye".into() }]
    }

    /// What there is at present, by name, for those who look for what is left over.
    pub fn sizes(&self) -> [(&'static str, usize); 7] {
        [
            ("connections", self.members.len()),
            ("names", self.names.len()),
            ("sessions without a connection", self.left.len()),
            ("intents", self.intents.len()),
            ("loads of names", self.intents.names()),
            ("watches", self.watchers.len()),
            ("allowances that are not full", self.purses.len()),
        ]
    }

    /// What was refused since the start, without the core being asked.
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// How often each limit was reached, here and by whoever else counts with it.
    pub fn reached(&self) -> &Arc<Reached> {
        &self.reached
    }

    /// The last limit of one name's own that a message passed since this was asked last.
    pub fn take_passed(&mut self) -> Option<Limit> {
        self.passed.take()
    }

    /// The note that was written beside an intent in force or undecided.
    pub fn note(&self, agent: &Agent, id: IntentId) -> Option<&str> {
        self.intents.route(agent, id).map(|route| &*route.note)
    }

    /// Whether somebody goes by that name, or has intents in force or undecided under it.
    fn is_known(&self, agent: &Agent) -> bool {
        self.names.contains_key(agent) || self.intents.has_some_of(agent)
    }

    /// The slot that is open at `now`, and its decision time.
    fn open_slot(&self, now: Time) -> (Slot, Time) {
        let slot = Slot::of(now, self.terms.slot_length);
        (slot, slot.decided_at(self.terms.slot_length))
    }

    fn is_live(&self, place: Place) -> bool {
        self.members.contains_key(&place.connection)
    }

    fn forget_session(&mut self, agent: &Agent, label: &Arc<str>) {
        let Some(name) = self.names.get_mut(agent) else { return };
        if let Some(session) = name.sessions.remove(label) {
            self.left.remove(&(session.left, session.number));
        }
        if name.sessions.is_empty() {
            self.names.remove(agent);
        }
        self.note_change(SessionChange::Gone { agent: agent.clone(), label: Arc::clone(label) });
    }

    /// Forgets the sessions that have been without a connection for too long, or are too many.
    fn forget_left(&mut self, now: Time) {
        while let Some((&(left, _), (agent, label))) = self.left.first_key_value() {
            let Bounds { sessions_kept, session_kept_for, .. } = self.terms.bounds;
            let over = self.left.len() > sessions_kept;
            if !over && now.since(left) < session_kept_for {
                return;
            }
            self.reached.note(if over { Limit::SessionsKept } else { Limit::SessionKeptFor });
            let (agent, label) = (agent.clone(), Arc::clone(label));
            self.left.pop_first();
            self.forget_session(&agent, &label);
        }
    }
}
