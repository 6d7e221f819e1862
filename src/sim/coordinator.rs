//! A coordinator as one value: the sessions, the open slot, the decision core, and what keeps its
//! records, without a thread, a socket or a clock.
//!
//! How to drive it:
//! 1. [`Coordinator::connected`] for each connection; decode what comes over its lanes, and hand it to
//!    [`Coordinator::receive`], lane by lane in order.
//! 2. [`Coordinator::lane_ended`] when the peer finishes a lane, [`Coordinator::connection_lost`] when
//!    a connection is no more.
//! 3. Call [`Coordinator::advance`] (or [`Coordinator::step`], slot by slot) at the time that
//!    [`Coordinator::next_due`] names.
//! 4. Carry out what each of these returns, in order.
//!
//! It does what `coordinator` does between the same rooms, with two differences: no connection is too
//! slow a reader here, and no number of connections is too many.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::limits;
use crate::resolver::invariants::{Breach, InvariantCheck};
use crate::resolver::{AgentOp, Resolver, Rules, SlotBatch, SlotOutcome, SystemOp};
use crate::session::coordinator::{
    Admission, Bounds, CapacityQuery, ConnectionId, Door, Drained, Drains, Effect, Inbox, LaneId, Open,
    Origin, Place, Query, Recovered, Rights, Room as OutboxRoom, SessionNotes, Sessions, Terms,
};
use crate::slot::{Asked, Clearing, Closed, Collector, Refused, Room, Turned};
use crate::types::{Agent, Micros, Slot, Time};
use crate::wire::{ClockPong, CloseCode, DrainOrder, Hello, List, Refusal, ToAgent, ToCoordinator};

/// Keeps each slot's record before anything of the slot is told.
pub trait Keep: fmt::Debug + Send {
    /// Keeps the record of a slot.
    ///
    /// # Errors
    /// Why it is not kept, or may not be. Nothing of the slot is told then, and no other is decided.
    fn keep(&mut self, batch: &SlotBatch, outcome: &SlotOutcome, notes: &SessionNotes) -> Result<(), String>;
}

#[cfg(feature = "daemon")]
impl<J: crate::audit::Journal + ?Sized> Keep for Box<J> {
    fn keep(&mut self, batch: &SlotBatch, outcome: &SlotOutcome, notes: &SessionNotes) -> Result<(), String> {
        use crate::audit::{Appended, SlotEntry};
        match self.append(SlotEntry { batch, outcome, notes }) {
            Appended::Committed => Ok(()),
            Appended::Refused(why) | Appended::Unknown(why) => Err(why),
        }
    }
}

/// What a coordinator is started with.
#[derive(Debug)]
pub struct Setup {
    /// The rules that it decides by.
    pub rules: Rules,
    /// How much agents may have going.
    pub bounds: Bounds,
    /// How much a slot takes in.
    pub room: Room,
    /// The state's number; that of what is recovered counts where something is.
    pub state: u64,
    /// How long a connection may be without a hello.
    pub hello_timeout: Micros,
    /// Who may claim, read and administer what, and what claiming urgency costs.
    pub rights: Arc<Rights>,
    /// A check of what may be asked for, after that.
    pub admission: Arc<dyn Admission>,
    /// Whether each slot is held against the decision core's invariants. Costs about what deciding costs.
    pub check_invariants: bool,
}

impl Setup {
    /// Open to all, with the limits of a daemon that is not configured.
    pub fn new(rules: Rules) -> Self {
        Setup {
            rules,
            bounds: Bounds::default(),
            room: Room::default(),
            state: 1,
            hello_timeout: limits::HELLO_TIMEOUT,
            rights: Arc::default(),
            admission: Arc::new(Open),
            check_invariants: cfg!(debug_assertions),
        }
    }

    fn terms(&self, state: u64) -> Terms {
        Terms {
            state,
            slot_length: self.rules.length,
            min_lead: self.rules.min_lead,
            horizon: self.rules.horizon,
            retention: self.rules.retention,
            software: concat!("preclaim ", env!("CARGO_PKG_VERSION")).into(),
            bounds: self.bounds,
        }
    }
}

/// Why a coordinator decides nothing any more.
#[derive(Clone, Debug, PartialEq)]
pub enum Halt {
    /// A slot's record is not kept, or may not be; nothing of it was told.
    Record(String),
    /// A slot broke a rule that must always hold; nothing of it was told.
    Invariant(Breach),
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::Record(why) => write!(f, "a slot's record could not be kept: {why}"),
            Halt::Invariant(breach) => write!(f, "a slot broke an invariant: {breach}"),
        }
    }
}

/// A slot that was decided.
#[derive(Debug)]
pub struct Decided {
    /// What arrived in it, and where from.
    pub closed: Closed<Origin>,
    /// What it came to.
    pub outcome: SlotOutcome,
    /// What is to be sent.
    pub effects: Vec<Effect>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Coordinator {
    sessions: Sessions,
    intake: Intake,
    resolver: Resolver,
    keep: Option<Box<dyn Keep>>,
    check: Option<InvariantCheck>,
    admission: Arc<dyn Admission>,
    /// The slot in which it starts and its inputs, until it is decided.
    boot: Option<(Slot, Vec<SystemOp>)>,
    hello_timeout: Micros,
    peers: BTreeMap<ConnectionId, Peer>,
    next_connection: u64,
    decided: (Slot, Time),
    now: Time,
    halt: Option<Halt>,
}

/// A connection that is not closed.
#[derive(Debug)]
struct Peer {
    /// When it is closed where no hello has come; `None` once one has.
    hello_due: Option<Time>,
    /// Its lanes beside the first that have been spoken on and have not ended.
    lanes: BTreeSet<LaneId>,
}

/// The open slot.
#[derive(Debug)]
struct Intake {
    collector: RefCell<Collector<Origin>>,
    /// A drain has begun, and the slot in which whatever waits is to end has not been closed.
    clearing: RefCell<Option<Clearing>>,
    now: Time,
    is_draining: bool,
}

impl Inbox for Intake {
    fn take_in(&self, agent: &Agent, batch: Vec<Asked<Origin>>) -> Result<Vec<Turned<Origin>>, Drained> {
        if self.is_draining {
            return Err(Drained(batch));
        }
        Ok(self.collector.borrow_mut().agent_inputs(self.now, agent, batch))
    }

    fn clear(&self, reason: &str, is_new: &dyn Fn(&Agent, &AgentOp) -> bool) -> (Time, Vec<Turned<Origin>>) {
        let (at, turned) = self.collector.borrow_mut().turn_out(self.now, is_new);
        *self.clearing.borrow_mut() = Some(Clearing { at, reason: reason.into() });
        (at, turned)
    }

    fn administer(&self, op: SystemOp, origin: Origin) -> Result<(), Refused> {
        if self.is_draining {
            return Err(Refused::Draining);
        }
        Ok(self.collector.borrow_mut().system_input(self.now, op, origin).map(drop)?)
    }
}

/// Whoever reads here reads at once.
struct Roomy;

impl OutboxRoom for Roomy {
    fn has_room(&self, _: ConnectionId, _: usize) -> bool {
        true
    }
}

impl Coordinator {
    /// One that begins with nothing and keeps nothing.
    pub fn new(setup: Setup, now: Time) -> Self {
        let sessions = Sessions::new(setup.terms(setup.state));
        let resolver = Resolver::new(setup.rules.clone());
        let first = Slot::of(now, setup.rules.length);
        Coordinator::over(setup, sessions, resolver, first, now)
    }

    /// One that goes on from what was recovered, and has its records kept by `keep`. `now` is at or
    /// after the end of the slot in which it starts.
    pub fn recovered(setup: Setup, recovered: Recovered, keep: Box<dyn Keep>, now: Time) -> Self {
        let Recovered { resolver, sessions: restored, state, boot_slot, boot_ops } = recovered;
        let mut sessions = Sessions::new(setup.terms(state)).keeping_changes();
        sessions.restore(restored, now);
        let mut coordinator = Coordinator::over(setup, sessions, resolver, boot_slot.next(), now);
        coordinator.boot = Some((boot_slot, boot_ops));
        coordinator.keep = Some(keep);
        coordinator
    }

    fn over(setup: Setup, mut sessions: Sessions, resolver: Resolver, first: Slot, now: Time) -> Self {
        sessions.set_rights(setup.rights);
        let collector = RefCell::new(Collector::new(setup.rules.length, first, now, setup.room));
        Coordinator {
            sessions,
            intake: Intake { collector, clearing: RefCell::default(), now, is_draining: false },
            resolver,
            keep: None,
            check: setup.check_invariants.then(InvariantCheck::default),
            admission: setup.admission,
            boot: None,
            hello_timeout: setup.hello_timeout,
            peers: BTreeMap::new(),
            next_connection: 1,
            decided: (Slot::default(), Time::ZERO),
            now,
            halt: None,
        }
    }

    /// The decision core.
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// The sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Why it decides nothing any more, where that is so.
    pub fn halt(&self) -> Option<&Halt> {
        self.halt.as_ref()
    }

    /// The coordinator's time: the latest that it was told of.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A new connection. It is closed where no hello comes over it in time.
    pub fn connected(&mut self, now: Time) -> ConnectionId {
        let now = self.pass(now);
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let hello_due = Some(now.after(self.hello_timeout));
        self.peers.insert(connection, Peer { hello_due, lanes: BTreeSet::new() });
        connection
    }

    /// The connection is no more. What was declared over it goes on.
    pub fn connection_lost(&mut self, connection: ConnectionId, now: Time) {
        let now = self.pass(now);
        self.peers.remove(&connection);
        self.sessions.connection_gone(connection, now);
    }

    /// The peer has finished the lane. What is still to be said on it is said on the first lane.
    pub fn lane_ended(&mut self, place: Place, now: Time) -> Vec<Effect> {
        let now = self.pass(now);
        let Some(peer) = self.peers.get_mut(&place.connection) else { return Vec::new() };
        if peer.hello_due.is_some() {
            let why = "the first lane ended without a hello";
            return self.break_off(place.connection, CloseCode::NoHello, why, now);
        }
        peer.lanes.remove(&place.lane);
        self.sessions.lane_gone(place);
        Vec::new()
    }

    /// Takes in a message. What comes over a connection that was closed counts no more.
    pub fn receive(&mut self, from: Place, message: ToCoordinator, now: Time) -> Vec<Effect> {
        let now = self.pass(now);
        let Some(peer) = self.peers.get_mut(&from.connection) else { return Vec::new() };
        if from.lane != LaneId::FIRST {
            peer.lanes.insert(from.lane);
        }
        let is_greeted = peer.hello_due.is_none();
        match (message, is_greeted) {
            (ToCoordinator::Hello(hello), false) if from.lane == LaneId::FIRST => {
                self.greet(from.connection, &hello, now)
            }
            (_, false) => {
                let why = "the first message must be a hello";
                self.break_off(from.connection, CloseCode::ProtocolOrder, why, now)
            }
            (ToCoordinator::Hello(_), true) => {
                let why = "a connection says hello once";
                self.break_off(from.connection, CloseCode::SecondHello, why, now)
            }
            (ToCoordinator::ClockPing(ping), true) => {
                let pong = ClockPong { seq: ping.seq, client_us: ping.client_us, coordinator: now };
                self.carry(vec![Effect::Send { to: from, message: ToAgent::ClockPong(pong) }])
            }
            (ToCoordinator::List(list), true) => {
                let message = self.listing_for(from.connection, &list, now);
                self.carry(vec![Effect::Send { to: from, message }])
            }
            (message, true) => self.hand_on(from, message, now),
        }
    }

    /// Hands in what the operator asks for; returns when it arrived.
    ///
    /// # Errors
    /// Where the slot has no room for more of the operator's inputs, or nothing new is taken in.
    pub fn operator(&mut self, op: SystemOp, now: Time) -> Result<Time, Refused> {
        let now = self.pass(now);
        if self.intake.is_draining {
            return Err(Refused::Draining);
        }
        Ok(self.intake.collector.borrow_mut().system_input(now, op, Origin::operator())?)
    }

    /// Drains up to a deadline, as the operator's `order` says, or by another deadline than before: nothing new is granted,
    /// what waits ends, holders may go on. [`Coordinator::advance`] stops it as [`Coordinator::drain`] does once no grant is
    /// in force, or at the deadline.
    pub fn drain_until(&mut self, order: &DrainOrder, now: Time) -> Vec<Effect> {
        let now = self.pass(now);
        let effects = self.sessions.drain(order, None, &self.intake, now);
        self.carry(effects)
    }

    /// How the drain stands, if it drains.
    pub fn drains(&self) -> Option<Drains> {
        self.sessions.drains()
    }

    /// Whether a drain has ended and all is said: it decides nothing any more, and its connections are closed.
    pub fn has_drained(&self) -> bool {
        let nothing_waits =
            self.intake.collector.borrow().waiting() == 0 && self.intake.clearing.borrow().is_none();
        self.intake.is_draining && nothing_waits && self.sessions.is_draining()
    }

    /// Stops where a drain is over, and closes the connections once what had arrived is decided.
    pub fn end_drain(&mut self, now: Time) -> Vec<Effect> {
        let now = self.pass(now);
        let is_over = |drains: &Drains| drains.is_over || drains.deadline <= now;
        let mut effects = Vec::new();
        if !self.intake.is_draining && self.drains().as_ref().is_some_and(is_over) {
            effects = self.drain("the coordinator has drained, and stops");
        }
        if self.has_drained() {
            let code = CloseCode::ShuttingDown;
            let close = |connection: &ConnectionId| Effect::Close {
                connection: *connection,
                code,
                reason: code.as_str().to_owned(),
            };
            let closed = self.peers.keys().map(close).collect();
            effects.extend(self.carry(closed));
        }
        effects
    }

    /// Goes on as one that was started again: whoever comes finds no drain.
    pub fn start_again(&mut self) {
        self.intake.is_draining = false;
        self.sessions.forget_drain();
    }

    /// Takes in nothing at all, and tells everybody. What has arrived is decided at its time.
    pub fn drain(&mut self, reason: &str) -> Vec<Effect> {
        self.intake.is_draining = true;
        let effects = self.sessions.draining(reason);
        self.carry(effects)
    }

    /// When [`Coordinator::advance`] next has something to do, if it ever has.
    pub fn next_due(&self) -> Option<Time> {
        let hello = self.peers.values().filter_map(|peer| peer.hello_due).min();
        let slot = match (&self.halt, &self.boot) {
            (Some(_), _) => None,
            (None, Some((slot, _))) => Some(slot.decided_at(self.resolver.rules().length)),
            (None, None) => self.intake.collector.borrow().next_close(self.due()),
        };
        let drained = self
            .drains()
            .filter(|_| !self.intake.is_draining)
            .map(|drains| if drains.is_over { self.now } else { drains.deadline });
        hello.into_iter().chain(slot).chain(drained).min()
    }

    /// The next slot that is decided whatever arrives in it.
    fn due(&self) -> Option<Slot> {
        let length = self.resolver.rules().length;
        let to_clear = self.intake.clearing.borrow().as_ref().map(|clearing| clearing.slot(length));
        self.resolver.next_due().into_iter().chain(to_clear).min()
    }

    /// Lets time pass up to `now`: slots that are over are decided, in order, connections that owe
    /// their hello are closed, and a drain that is over ends.
    pub fn advance(&mut self, now: Time) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(decided) = self.step(now) {
            effects.extend(decided.effects);
        }
        effects.extend(self.late_hellos(now));
        effects.extend(self.end_drain(now));
        effects
    }

    /// Decides the next slot that is over at `now`, if there is one.
    pub fn step(&mut self, now: Time) -> Option<Decided> {
        let now = self.pass(now);
        if self.halt.is_some() {
            return None;
        }
        let closed = self.next_slot(now)?;
        self.check.iter_mut().for_each(|check| check.before_slot(&self.resolver, &closed.batch));
        let outcome = self.resolver.resolve(&closed.batch);
        let effects = match self.keep(&closed, &outcome) {
            Ok(()) => {
                self.decided = (outcome.slot, outcome.at);
                self.sessions.publish(&closed, &outcome, &self.resolver, &Roomy)
            }
            Err(halt) => self.stand_still(halt),
        };
        let effects = self.carry(effects);
        Some(Decided { closed, outcome, effects })
    }

    /// Closes the connections over which no hello came in time.
    pub fn late_hellos(&mut self, now: Time) -> Vec<Effect> {
        let now = self.pass(now);
        let is_late = |peer: &Peer| peer.hello_due.is_some_and(|due| due <= now);
        let late: Vec<ConnectionId> =
            self.peers.iter().filter(|(_, peer)| is_late(peer)).map(|(id, _)| *id).collect();
        let why = "no hello came on the first lane in time";
        late.into_iter().flat_map(|id| self.break_off(id, CloseCode::NoHello, why, now)).collect()
    }

    /// The slots of the outage first, empty and in order, then the one that starts, then those that
    /// collected something or in which something is due.
    fn next_slot(&mut self, now: Time) -> Option<Closed<Origin>> {
        let due = self.resolver.next_due();
        let Some((boot, _)) = &self.boot else {
            let due = self.due();
            let closed = self.intake.collector.borrow_mut().close(now, due)?;
            return Some(self.cleared(closed));
        };
        if let Some(due) = due.filter(|due| due < boot) {
            return Some(Closed::empty(due));
        }
        let (slot, ops) = self.boot.take()?;
        Some(Closed::boot(slot, self.resolver.rules().length, ops, Origin::operator()))
    }

    /// The slot, with the end of whatever waits where a drain began in it.
    fn cleared(&self, closed: Closed<Origin>) -> Closed<Origin> {
        let length = self.resolver.rules().length;
        let is_due = |clearing: &mut Clearing| clearing.slot(length) <= closed.batch.slot();
        let Some(clearing) = self.intake.clearing.borrow_mut().take_if(is_due) else { return closed };
        let undecided = self.resolver.undecided().map(|it| it.key.clone());
        closed.clear(length, &clearing, undecided, &Origin::operator())
    }

    fn keep(&mut self, closed: &Closed<Origin>, outcome: &SlotOutcome) -> Result<(), Halt> {
        if let Some(check) = &mut self.check {
            check.after_slot(&self.resolver, outcome).map_err(Halt::Invariant)?;
        }
        let Some(keep) = &mut self.keep else { return Ok(()) };
        let notes = self.sessions.notes(closed, outcome);
        keep.keep(&closed.batch, outcome, &notes).map_err(Halt::Record)
    }

    /// Nothing can be granted any more, and what was taken in is answered by nobody: all are told why
    /// and let go.
    fn stand_still(&mut self, halt: Halt) -> Vec<Effect> {
        let why = halt.to_string();
        self.halt = Some(halt);
        self.intake.is_draining = true;
        let mut effects = self.sessions.draining(&why);
        let close = |connection: &ConnectionId| Effect::Close {
            connection: *connection,
            code: CloseCode::Internal,
            reason: why.clone(),
        };
        effects.extend(self.peers.keys().map(close));
        effects
    }

    fn greet(&mut self, connection: ConnectionId, hello: &Hello, now: Time) -> Vec<Effect> {
        match self.sessions.hello(connection, hello, None, now) {
            Ok(effects) => {
                self.peers.get_mut(&connection).into_iter().for_each(|peer| peer.hello_due = None);
                self.carry(effects)
            }
            Err(refusal) => self.break_off(connection, refusal.code, &refusal.reason, now),
        }
    }

    /// The page that `list` asks for, or why there is none. It is the operator's: no rights are asked.
    pub fn listing(&self, list: &List, now: Time) -> ToAgent {
        let refuse = |reason, field| self.sessions.refuse_look(list.request, reason, field, now);
        match Query::of(list) {
            Err(field) => refuse(Refusal::Invalid, field),
            Ok(_) if self.intake.is_draining => refuse(Refusal::Draining, ""),
            Ok(query) => query.page(&self.resolver).words(&self.sessions, self.decided).fit_in_frame(),
        }
    }

    /// The same for whoever asks over `asker`, as far as it may look.
    fn listing_for(&mut self, asker: ConnectionId, list: &List, now: Time) -> ToAgent {
        match CapacityQuery::of(list) {
            Ok(Some(query)) => return self.capacities_for(asker, list.request, &query, now),
            Ok(None) => {}
            Err(field) => return self.sessions.refuse_look(list.request, Refusal::Invalid, field, now),
        }
        let query = match Query::of(list) {
            Ok(query) if !self.intake.is_draining => query,
            _ => return self.listing(list, now),
        };
        match self.sessions.may_look(asker, &query.scope(), now) {
            Err(denial) => self.sessions.refuse(list.request, denial, now),
            Ok(reader) => {
                let page = query.page(&self.resolver).read_by(&reader);
                page.words(&self.sessions, self.decided).fit_in_frame()
            }
        }
    }

    fn capacities_for(
        &mut self,
        asker: ConnectionId,
        request: u64,
        query: &CapacityQuery,
        now: Time,
    ) -> ToAgent {
        match self.sessions.may_see_capacities(asker, query.under(), now) {
            Err(denial) => self.sessions.refuse(request, denial, now),
            Ok(()) => query.page(&self.resolver, now).reply(request, self.decided).into(),
        }
    }

    fn hand_on(&mut self, from: Place, message: ToCoordinator, now: Time) -> Vec<Effect> {
        let door = Door { now, admission: &*self.admission, inbox: &self.intake };
        let effects = self.sessions.message(from, message, &door);
        self.carry(effects)
    }

    /// What is to be sent and closed, as far as the connection is there: on the first lane where the
    /// lane has ended. What is closed counts no more.
    fn carry(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let mut carried = Vec::with_capacity(effects.len());
        for effect in effects {
            match effect {
                Effect::Send { mut to, message } => {
                    let Some(peer) = self.peers.get(&to.connection) else { continue };
                    if !peer.lanes.contains(&to.lane) {
                        to.lane = LaneId::FIRST;
                    }
                    carried.push(Effect::Send { to, message });
                }
                Effect::Close { connection, .. } => {
                    if self.peers.remove(&connection).is_some() {
                        carried.push(effect);
                    }
                }
            }
        }
        carried
    }

    /// A peer that broke the protocol loses its connection.
    fn break_off(
        &mut self,
        connection: ConnectionId,
        code: CloseCode,
        reason: &str,
        now: Time,
    ) -> Vec<Effect> {
        self.connection_lost(connection, now);
        vec![Effect::Close { connection, code, reason: reason.to_owned() }]
    }

    fn pass(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.intake.now = self.now;
        self.now
    }
}

#[cfg(test)]
mod drain_tests;
#[cfg(test)]
mod operating_tests;
#[cfg(test)]
mod overload_tests;
#[cfg(test)]
#[cfg(feature = "daemon")] // which has the dice, and expressions
mod rights_tests;
#[cfg(test)]
mod tests;
