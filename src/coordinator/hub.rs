//! Where sessions and connections meet: one lock around who is there, held for microseconds.
//!
//! Two locks are ever held at once: this one, then the intake's or an outbox's. Nothing is sent or
//! awaited under any. What has come at once on a lane takes it once, with its values looked at before; a slot takes it once to
//! write down who is told what, and hands that on outside.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::intake::Intake;
use super::slot_loop::Publish;
use crate::clock::Clock;
use crate::limits::{Limit, Reached};
use crate::resolver::{Resolver, SlotOutcome, SystemOp};
use crate::session::coordinator::{
    Admission, ConnectionId, Denial, Door, Drained, Effect, HelloRefusal, Inbox, Origin, Place, Reader,
    Request, Rights, Room, Scope, SessionNotes, Sessions, TracedDecision,
};
use crate::slot::{Asked, Closed, Refused, Turned};
use crate::transport::{Outbox, SlotNews};
use crate::types::{Agent, FixedMap, Slot, Time};
use crate::wire::{CloseCode, Hello, ToAgent};

/// See the module's documentation.
pub(crate) struct Hub {
    state: Mutex<State>,
    pub(crate) intake: Arc<Intake<Origin>>,
    pub(crate) clock: Arc<dyn Clock>,
    admission: Arc<dyn Admission>,
}

struct State {
    sessions: Sessions,
    outboxes: FixedMap<ConnectionId, Arc<Outbox>>,
    next_connection: u64,
    /// The last slot that was decided, and its decision time.
    decided: (Slot, Time),
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
    ) -> Self {
        let outboxes = FixedMap::default();
        let decided = (Slot::default(), Time::ZERO);
        let state = Mutex::new(State { sessions, outboxes, next_connection: 1, decided });
        Hub { state, intake, clock, admission }
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
        let mut state = self.lock();
        let effects = state.sessions.hello(connection, hello, certified, self.clock.now())?;
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
        let mut state = self.lock();
        let now = self.clock.now();
        let door = Door { now, admission: &*self.admission, inbox: &*self.intake };
        for request in requests {
            let effects = state.sessions.request(from, request, &door);
            state.carry_out(effects);
        }
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
        let now = self.clock.now();
        let mut state = self.lock();
        let looked = state.sessions.may_look(connection, scope, now);
        self.record_soon(&state);
        looked
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

    /// Tells everybody that nothing new is taken in.
    pub(crate) fn tell_draining(&self, reason: &str) {
        let mut state = self.lock();
        let effects = state.sessions.draining(reason);
        state.carry_out(effects);
    }

    /// Closes every connection, once what it was sent has arrived.
    pub(crate) fn close_all(&self, code: CloseCode, reason: &str) {
        self.lock().outboxes.values().for_each(|outbox| outbox.close(code, reason));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in here ends the coordinator where it is the slot loop's; where it is one
        // connection's, others go on with the tables that it left.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
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
        let (parts, traced) = {
            let mut guard = self.lock();
            let state = &mut *guard;
            state.decided = (outcome.slot, outcome.at);
            let room = OutboxRoom { outboxes: &state.outboxes, taken: RefCell::default() };
            let mut parts = Parts::default();
            let mut send = |to: Place, message: &ToAgent| parts.add(&state.outboxes, to, message);
            state.sessions.publish_to(closed, outcome, resolver, &room, &mut send);
            (parts.parts, state.sessions.take_traced())
        };
        for (outbox, news) in parts {
            outbox.send_slot(outcome.slot, news);
        }
        traced
    }
}

impl Inbox for Intake<Origin> {
    fn take_in(&self, agent: &Agent, batch: Vec<Asked<Origin>>) -> Result<Vec<Turned<Origin>>, Drained> {
        self.agent_inputs(agent, batch).map_err(Drained)
    }

    fn administer(&self, op: SystemOp, origin: Origin) -> Result<(), Refused> {
        self.system_input(op, origin).map(drop)
    }
}
