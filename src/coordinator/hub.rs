//! Where sessions and connections meet: one lock around who is there, held for microseconds.
//!
//! Two locks are ever held at once: this one, then the intake's or an outbox's. Nothing is sent or
//! awaited under any. What has come at once on a lane takes it once, with its values looked at before; a slot takes it once to
//! write down who is told what, and hands that on outside.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::health::{Health, Reporter};
use super::intake::Intake;
use super::slot_loop::Publish;
use crate::clock::Clock;
use crate::limits::{Limit, Reached};
use crate::resolver::{AgentOp, Resolver, RulesChange, SlotOutcome, SystemOp};
use crate::session::coordinator::{
    Admission, Bounds, ConnectionId, Denial, Door, Drained, Drains, Effect, HelloRefusal, Inbox, Origin,
    Place, Reader, ReloadNote, Request, Rights, Room, Scope, SessionNotes, Sessions, Spans, TracedDecision,
};
use crate::slot::{self, Asked, Closed, Refused, Turned};
use crate::transport::{Outbox, SlotNews};
use crate::types::{Agent, FixedMap, Micros, Path, Slot, Time};
use crate::wire::{CloseCode, DrainOrder, Hello, ToAgent};

/// See the module's documentation.
pub(crate) struct Hub {
    state: Mutex<State>,
    pub(crate) intake: Arc<Intake<Origin>>,
    pub(crate) clock: Arc<dyn Clock>,
    health: Reporter,
    drains: watch::Sender<Option<Drains>>,
}

struct State {
    sessions: Sessions,
    admission: Arc<dyn Admission>,
    /// What holds from then on.
    next: Option<(Time, NextTerms)>,
    outboxes: FixedMap<ConnectionId, Arc<Outbox>>,
    next_connection: u64,
    /// The last slot that was decided, and its decision time.
    decided: (Slot, Time),
}

/// What is to hold for what is asked for, beside the rules of the core.
#[derive(Debug)]
pub(crate) struct NextTerms {
    pub(crate) rights: Arc<Rights>,
    pub(crate) admission: Arc<dyn Admission>,
    pub(crate) bounds: Bounds,
    pub(crate) spans: Spans,
    /// How long a drain waits for holders.
    pub(crate) drain_within: Micros,
    /// How much a slot takes in.
    pub(crate) room: slot::Room,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("intake", &self.intake).finish_non_exhaustive()
    }
}

impl Hub {
    pub(crate) fn new(
        sessions: Sessions,
        intake: Arc<Intake<Origin>>,
        clock: Arc<dyn Clock>,
        admission: Arc<dyn Admission>,
        health: Reporter,
    ) -> Self {
        let outboxes = FixedMap::default();
        let decided = (Slot::default(), Time::ZERO);
        let state = State { sessions, admission, next: None, outboxes, next_connection: 1, decided };
        Hub { state: Mutex::new(state), intake, clock, health, drains: watch::Sender::new(None) }
    }

    /// A new connection, whose messages go to `outbox`.
    pub(crate) fn connected(&self, outbox: &Arc<Outbox>) -> ConnectionId {
        let mut state = self.lock();
        let connection = ConnectionId(state.next_connection);
        state.next_connection += 1;
        state.outboxes.insert(connection, Arc::clone(outbox));
        connection
    }

    /// How often each limit was reached.
    pub(crate) fn reached(&self) -> Arc<Reached> {
        Arc::clone(self.lock().sessions.reached())
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.lock().outboxes.len()
    }

    /// The connection has ended.
    pub(crate) fn disconnected(&self, connection: ConnectionId) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.outboxes.remove(&connection);
        state.sessions.connection_gone(connection, now);
    }

    /// Takes a connection into its session, under the name that is certified, where one is.
    pub(crate) fn hello(
        &self,
        connection: ConnectionId,
        hello: &Hello,
        certified: Option<&Agent>,
    ) -> Result<(), HelloRefusal> {
        let (mut state, now) = self.lock_now();
        let effects = state.sessions.hello(connection, hello, certified, now)?;
        // Under the lock: nothing that a slot decides from here on may overtake the welcome.
        state.carry_out(effects);
        Ok(())
    }

    /// Messages for the core, watches, a goodbye, in order: all that came at once under one lock. Returns a limit of one
    /// agent's that they reached, where they did.
    pub(crate) fn requests(&self, from: Place, requests: Vec<Request>) -> Option<Limit> {
        if requests.is_empty() {
            return None;
        }
        let (mut state, now) = self.lock_now();
        let admission = Arc::clone(&state.admission);
        let door = Door { now, admission: &*admission, inbox: &self.way() };
        for request in requests {
            let effects = state.sessions.request(from, request, &door);
            state.carry_out(effects);
        }
        self.follow_drain(&state);
        self.record_soon(&state);
        state.sessions.take_passed()
    }

    /// The lane has ended.
    pub(crate) fn lane_gone(&self, place: Place) {
        self.lock().sessions.lane_gone(place);
    }

    /// Looks at the sessions, and at which slot was decided last.
    pub(crate) fn with_sessions<T>(&self, look: impl FnOnce(&Sessions, (Slot, Time)) -> T) -> T {
        let state = self.lock();
        look(&state.sessions, state.decided)
    }

    /// Whether whoever is on `connection` may look at what is asked for.
    pub(crate) fn may_look(&self, connection: ConnectionId, scope: &Scope) -> Result<Reader, Denial> {
        let (mut state, now) = self.lock_now();
        let looked = state.sessions.may_look(connection, scope, now);
        self.record_soon(&state);
        looked
    }

    /// Whether whoever is on `connection` may see how the capacities there stand.
    pub(crate) fn may_see_capacities(
        &self,
        connection: ConnectionId,
        under: Option<&Path>,
    ) -> Result<(), Denial> {
        let (mut state, now) = self.lock_now();
        let may = state.sessions.may_see_capacities(connection, under, now);
        self.record_soon(&state);
        may
    }

    /// What was forbidden is recorded, whether anything else happens or not.
    fn record_soon(&self, state: &State) {
        if state.sessions.has_to_record() {
            self.intake.record_soon();
        }
    }

    /// From here on these rights hold.
    pub(crate) fn set_rights(&self, rights: Arc<Rights>) {
        self.lock().sessions.set_rights(rights);
    }

    /// From the end of the slot that is open on these terms hold, and the `rules`; the record says so by `note`. Returns
    /// the slot and its end.
    ///
    /// # Errors
    /// Where the slot has no room for more of the operator's inputs, or nothing new is taken in; then nothing has
    /// changed.
    pub(crate) fn change_terms(
        &self,
        rules: Option<RulesChange>,
        terms: NextTerms,
        note: ReloadNote,
    ) -> Result<(Slot, Time), Refused> {
        let (mut state, _) = self.lock_now();
        let op = rules.map(|rules| (SystemOp::Config(Box::new(rules)), Origin::operator()));
        let (slot, end) = self.intake.change_room(terms.room, op)?;
        state.next = Some((end, terms));
        state.sessions.note_reload(note);
        self.record_soon(&state);
        Ok((slot, end))
    }

    /// Has the next record say that nothing came of a reload.
    pub(crate) fn note_reload(&self, note: ReloadNote) {
        let mut state = self.lock();
        state.sessions.note_reload(note);
        self.record_soon(&state);
    }

    /// Tells everybody that nothing new is taken in.
    pub(crate) fn tell_draining(&self, reason: &str) {
        let mut state = self.lock();
        let effects = state.sessions.draining(reason);
        state.carry_out(effects);
    }

    /// Begins a drain of the operator's, or changes the one that there is.
    pub(crate) fn drain(&self, order: &DrainOrder) {
        let mut state = self.lock();
        let effects = state.sessions.drain(order, None, &self.way(), self.clock.now());
        state.carry_out(effects);
        self.follow_drain(&state);
        self.record_soon(&state);
    }

    /// How the drain stands, whenever that changes.
    pub(crate) fn drains(&self) -> watch::Receiver<Option<Drains>> {
        self.drains.subscribe()
    }

    fn follow_drain(&self, state: &State) {
        if state.sessions.is_draining() {
            let drains = state.sessions.drains();
            self.drains.send_if_modified(|present| {
                let is_new = *present != drains;
                if is_new {
                    *present = drains;
                }
                is_new
            });
        }
    }

    fn way(&self) -> Way<'_> {
        Way { intake: &self.intake, health: &self.health }
    }

    /// Closes every connection, once what it was sent has arrived.
    pub(crate) fn close_all(&self, code: CloseCode, reason: &str) {
        self.lock().outboxes.values().for_each(|outbox| outbox.close(code, reason));
    }

    /// The state as it is for what is asked for now, and what time that is.
    fn lock_now(&self) -> (MutexGuard<'_, State>, Time) {
        let mut state = self.lock();
        let now = self.clock.now();
        state.keep_up(now);
        (state, now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in here ends the coordinator where it is the slot loop's; where it is one
        // connection's, others go on with the tables that it left.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What was to hold from a time on holds, once that has come.
    fn keep_up(&mut self, now: Time) {
        let Some((_, terms)) = self.next.take_if(|(from, _)| now >= *from) else { return };
        let NextTerms { rights, admission, bounds, spans, drain_within, room: _ } = terms;
        self.admission = admission;
        self.sessions.set_rights(rights);
        self.sessions.set_bounds(bounds);
        self.sessions.set_spans(spans);
        self.sessions.set_drain_within(drain_within);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send { to, message } => {
                    if let Some(outbox) = self.outboxes.get(&to.connection) {
                        outbox.send(to.lane, &message);
                    }
                }
                Effect::Close { connection, code, reason } => {
                    if let Some(outbox) = self.outboxes.get(&connection) {
                        outbox.close(code, &reason);
                    }
                }
            }
        }
    }
}

/// A slot's news by connection; who is told first comes first.
#[derive(Default)]
struct Parts {
    places: FixedMap<ConnectionId, usize>,
    parts: Vec<(Arc<Outbox>, SlotNews)>,
}

impl Parts {
    fn add(&mut self, outboxes: &FixedMap<ConnectionId, Arc<Outbox>>, to: Place, message: &ToAgent) {
        let place = match self.places.get(&to.connection) {
            Some(place) => *place,
            None => {
                let Some(outbox) = outboxes.get(&to.connection) else { return };
                self.places.insert(to.connection, self.parts.len());
                self.parts.push((Arc::clone(outbox), SlotNews::default()));
                self.parts.len() - 1
            }
        };
        self.parts[place].1.add(to.lane, message);
    }
}

/// The room in the outboxes, less what a slot has taken of it and not put in yet.
struct OutboxRoom<'a> {
    outboxes: &'a FixedMap<ConnectionId, Arc<Outbox>>,
    taken: RefCell<FixedMap<ConnectionId, usize>>,
}

impl Room for OutboxRoom<'_> {
    fn has_room(&self, connection: ConnectionId, bytes: usize) -> bool {
        let Some(outbox) = self.outboxes.get(&connection) else { return false };
        let mut all = self.taken.borrow_mut();
        let taken = all.entry(connection).or_default();
        let with_it = taken.saturating_add(bytes);
        let has_room = outbox.has_room(with_it);
        if has_room {
            *taken = with_it;
        }
        has_room
    }
}

/// Each message is written down as soon as it is known, and nothing of it is kept otherwise. Each connection is handed
/// its part of a slot at once and woken once, outside of the lock.
impl Publish<Origin> for Arc<Hub> {
    fn notes(&mut self, closed: &Closed<Origin>, outcome: &SlotOutcome) -> SessionNotes {
        self.lock().sessions.notes(closed, outcome)
    }

    fn publish(
        &mut self,
        closed: &Closed<Origin>,
        outcome: &SlotOutcome,
        resolver: &Resolver,
    ) -> Vec<TracedDecision> {
        let (parts, traced, drains) = {
            let mut guard = self.lock();
            let state = &mut *guard;
            state.decided = (outcome.slot, outcome.at);
            let room = OutboxRoom { outboxes: &state.outboxes, taken: RefCell::default() };
            let mut parts = Parts::default();
            let mut send = |to: Place, message: &ToAgent| parts.add(&state.outboxes, to, message);
            state.sessions.publish_to(closed, outcome, resolver, &room, &mut send);
            (parts.parts, state.sessions.take_traced(), state.sessions.is_draining())
        };
        for (outbox, news) in parts {
            outbox.send_slot(outcome.slot, news);
        }
        if drains {
            // After all that: what is said at the drain's end comes behind the slot's answers.
            self.follow_drain(&self.lock());
        }
        traced
    }
}

/// The way to the slot loop.
struct Way<'a> {
    intake: &'a Intake<Origin>,
    health: &'a Reporter,
}

impl Inbox for Way<'_> {
    fn take_in(&self, agent: &Agent, batch: Vec<Asked<Origin>>) -> Result<Vec<Turned<Origin>>, Drained> {
        self.intake.agent_inputs(agent, batch).map_err(Drained)
    }

    fn clear(&self, reason: &str, is_new: &dyn Fn(&Agent, &AgentOp) -> bool) -> (Time, Vec<Turned<Origin>>) {
        // Ahead of the first refusal: who balances loads by it sends nobody here any more.
        self.health.report(Health::Draining);
        self.intake.clear(reason, is_new)
    }

    fn administer(&self, op: SystemOp, origin: Origin) -> Result<(), Refused> {
        self.intake.system_input(op, origin).map(drop)
    }
}
