//! The coordinator, and the connections to it: one owner of both, driven by a task that sleeps to the
//! time at which the coordinator has something to do.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::line::Line;
use super::link::{Cable, End, end_in_silence, until_the_end};
use crate::client::Closed;
use crate::limits;
use crate::resolver::{StateDigest, SystemOp};
use crate::session::coordinator::{ConnectionId, Drains, Effect, LaneId, Place};
use crate::sim::coordinator::{Coordinator, Setup};
use crate::types::{Micros, Time};
use crate::wire::{CloseCode, DrainOrder, EntryState, List, ListEntry, ToAgent, ToCoordinator};

/// Messages to one lane that are on their way; past that the agent is too slow a reader. Beyond a
/// reconnect's news, all in one instant.
const ON_THE_WAY: usize = 4 * limits::NEWS_OF_A_NAME;

/// Something on its way to an agent: a message's bytes, or the end of the connection.
pub(super) struct Down {
    pub(super) sent: Instant,
    pub(super) what: Result<Vec<u8>, Closed>,
}

/// See the module's documentation.
pub(super) struct Net {
    began: Instant,
    /// The coordinator's time then.
    epoch: Time,
    state: Mutex<State>,
    /// There may be something to do sooner than was known.
    due: Notify,
}

struct State {
    coordinator: Coordinator,
    /// That of the coordinator's state.
    number: u64,
    digest: StateDigest,
    connections: BTreeMap<ConnectionId, Connection>,
    lines: BTreeMap<String, Line>,
    latency: Duration,
    random: u64,
    /// Nobody listens, and nothing is decided.
    is_down: bool,
    is_over: bool,
    moves: u64,
}

struct Connection {
    line: Line,
    end: End,
    lanes: BTreeMap<LaneId, mpsc::Sender<Down>>,
}

impl Net {
    pub(super) fn new(setup: Setup, epoch: Time, seed: u64, latency: Duration) -> Self {
        let state = State {
            number: setup.state,
            coordinator: Coordinator::new(setup, epoch),
            digest: StateDigest::default(),
            connections: BTreeMap::new(),
            lines: BTreeMap::new(),
            latency,
            random: seed,
            is_down: false,
            is_over: false,
            moves: 0,
        };
        Net { began: Instant::now(), epoch, state: Mutex::new(state), due: Notify::new() }
    }

    // A panic under the lock fails the test that it is for; others are not to hide it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The coordinator's time, if it runs.
    pub(super) fn now(&self) -> Time {
        self.epoch.after(Micros::from(self.began.elapsed()))
    }

    pub(super) fn instant(&self, at: Time) -> Instant {
        self.began + at.since(self.epoch).to_std()
    }

    /// Decides each slot when it is over, for as long as this is polled.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let changed = self.due.notified();
            let next = {
                let state = self.lock();
                if state.is_down { None } else { state.coordinator.next_due() }
            };
            let due = async {
                match next {
                    Some(at) => sleep_until(self.instant(at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = due => self.decide(),
                () = changed => {}
            }
        }
    }

    fn decide(&self) {
        let now = self.now();
        let mut state = self.lock();
        let mut effects = Vec::new();
        while let Some(decided) = state.coordinator.step(now) {
            state.digest = decided.outcome.digest;
            effects.extend(decided.effects);
        }
        effects.extend(state.coordinator.late_hellos(now));
        effects.extend(state.coordinator.end_drain(now));
        state.deal_out(effects);
        state.is_down |= state.coordinator.has_drained();
        if let Some(halt) = state.coordinator.halt() {
            let halt = halt.to_string();
            drop(state);
            panic!("{halt}");
        }
    }

    /// Has the coordinator do something now, and sends what comes of it.
    fn drive(&self, change: impl FnOnce(&mut Coordinator, Time) -> Vec<Effect>) {
        let now = self.now();
        let mut state = self.lock();
        let effects = change(&mut state.coordinator, now);
        state.deal_out(effects);
        drop(state);
        self.due.notify_one();
    }

    pub(super) fn receive(&self, from: Place, message: ToCoordinator) {
        self.drive(|coordinator, now| coordinator.receive(from, message, now));
    }

    pub(super) fn lane_ended(&self, place: Place) {
        if place.lane != LaneId::FIRST {
            let mut state = self.lock();
            if let Some(connection) = state.connections.get_mut(&place.connection) {
                connection.lanes.remove(&place.lane);
            }
        }
        self.drive(|coordinator, now| coordinator.lane_ended(place, now));
    }

    /// What the operator asks for.
    ///
    /// # Panics
    /// Where the slot has no room for more of it.
    pub(super) fn operate(&self, op: SystemOp) {
        let now = self.now();
        let taken = self.lock().coordinator.operator(op, now);
        assert!(
            taken.is_ok(),
            "the coordinator has stopped, or there are more than {} inputs of the operator in one slot",
            limits::SLOT_OPERATOR_INPUTS
        );
        self.due.notify_one();
    }

    /// A new connection; `None` where nobody listens.
    pub(super) fn connect(self: &Arc<Self>, line: &Line) -> Option<Arc<Cable>> {
        let now = self.now();
        let mut state = self.lock();
        if state.is_down || state.is_over {
            return None;
        }
        let id = state.coordinator.connected(now);
        let end = watch::Sender::new(None);
        let connection = Connection { line: line.clone(), end: end.clone(), lanes: BTreeMap::new() };
        state.connections.insert(id, connection);
        drop(state);
        self.due.notify_one();
        let silence = end_in_silence(Arc::clone(self), line.clone(), id, end.clone());
        tokio::spawn(until_the_end(end.subscribe(), silence));
        let (net, line, lanes) = (Arc::clone(self), line.clone(), AtomicU64::new(LaneId::FIRST.0));
        Some(Arc::new(Cable { net, id, line, end, lanes }))
    }

    /// What is sent on that lane from here on; `None` where its connection, which ends with `end`, has
    /// ended.
    pub(super) fn open_lane(&self, place: Place, end: &End) -> Option<mpsc::Receiver<Down>> {
        let (to, messages) = mpsc::channel(ON_THE_WAY);
        let mut state = self.lock();
        let connection = state.connections.get_mut(&place.connection);
        connection.filter(|it| it.end.same_channel(end))?.lanes.insert(place.lane, to);
        Some(messages)
    }

    /// Ends the connection that ends with `end`, for both sides; what was on its way is lost.
    pub(super) fn cut(&self, id: ConnectionId, end: &End, why: &Closed) {
        let now = self.now();
        let mut state = self.lock();
        // Another coordinator counts its connections anew.
        if state.connections.get(&id).is_some_and(|it| it.end.same_channel(end)) {
            state.cut(id, why, now);
        }
        drop(state);
        self.due.notify_one();
    }

    /// Ends the connections of which `line` is the line, or all.
    pub(super) fn cut_all(&self, line: Option<&str>, why: &Closed) {
        let mut state = self.lock();
        let of_line = |name: &str| state.lines.get(name).cloned();
        let wanted = line.map(of_line);
        let is_wanted = |connection: &Connection| match &wanted {
            None => true,
            Some(line) => line.as_ref().is_some_and(|line| line.is(&connection.line)),
        };
        let now = self.now();
        let of = |(id, connection): (&ConnectionId, &Connection)| is_wanted(connection).then_some(*id);
        let ids: Vec<ConnectionId> = state.connections.iter().filter_map(of).collect();
        ids.into_iter().for_each(|id| state.cut(id, why, now));
        drop(state);
        self.due.notify_one();
    }

    /// Whether anybody listens from here on. What was due meanwhile is decided then.
    pub(super) fn set_down(&self, down: bool) {
        self.lock().is_down = down;
        if down {
            self.cut_all(None, &Closed::because("the coordinator is gone"));
        } else {
            self.lock().coordinator.start_again();
        }
        self.due.notify_one();
    }

    /// The coordinator drains, as the operator orders it.
    pub(super) fn drain(&self, order: &DrainOrder) {
        self.drive(|coordinator, now| coordinator.drain_until(order, now));
    }

    /// How the drain stands.
    pub(super) fn drains(&self) -> Option<Drains> {
        self.lock().coordinator.drains()
    }

    /// Another coordinator takes this one's place, with a state of its own.
    pub(super) fn replace(&self, setup: impl FnOnce(u64) -> Setup) {
        self.cut_all(None, &Closed::because("the coordinator is gone"));
        let now = self.now();
        let mut state = self.lock();
        state.number += 1;
        state.coordinator = Coordinator::new(setup(state.number), now);
        state.digest = StateDigest::default();
        drop(state);
        self.due.notify_one();
    }

    /// Nobody listens any more, for good.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.cut_all(None, &Closed::because("the world has ended"));
    }

    /// The line of the agent of that name.
    pub(super) fn line(&self, name: &str) -> Line {
        let mut state = self.lock();
        let latency = state.latency;
        state.lines.entry(name.to_owned()).or_insert_with(|| Line::new(latency)).clone()
    }

    /// Drawn from the world's seed (SplitMix64).
    pub(super) fn draw(&self) -> u128 {
        let mut state = self.lock();
        let mut next = || {
            state.random = state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state.random ^ (state.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            u128::from(mixed ^ (mixed >> 31))
        };
        next() << 64 | next()
    }

    /// What is in force, or undecided.
    pub(super) fn list(&self, granted: bool) -> Vec<ListEntry> {
        let state = self.lock();
        let (mut entries, mut after) = (Vec::new(), Vec::new());
        loop {
            let list = List { granted, undecided: !granted, after, ..List::default() };
            let ToAgent::ListReply(page) = state.coordinator.listing(&list, state.coordinator.now()) else {
                return entries;
            };
            // A slot in which nothing but an end is due need not have been run.
            let now = self.now();
            let is_over = |it: &ListEntry| matches!(it.state, EntryState::Granted { end, .. } if end <= now);
            entries.extend(page.entries.into_iter().filter(|entry| !is_over(entry)));
            if page.next.is_empty() {
                return entries;
            }
            after = page.next;
        }
    }

    pub(super) fn digest(&self) -> StateDigest {
        self.lock().digest
    }

    /// Something has come through.
    pub(super) fn has_moved(&self) {
        self.lock().moves += 1;
    }

    /// How much has happened so far.
    pub(super) fn moves(&self) -> u64 {
        self.lock().moves
    }
}

impl State {
    fn deal_out(&mut self, effects: Vec<Effect>) {
        self.moves += 1;
        let sent = Instant::now();
        for effect in effects {
            match effect {
                Effect::Send { to, message } => {
                    let mut bytes = Vec::new();
                    // What the coordinator makes fits.
                    if message.encode(&mut bytes).is_ok() {
                        self.send(to, Down { sent, what: Ok(bytes) });
                    }
                }
                Effect::Close { connection, code, reason } => {
                    let closed = Closed { code: Some(code), ..Closed::because(reason) };
                    let to = Place { connection, lane: LaneId::FIRST };
                    self.send(to, Down { sent, what: Err(closed) });
                }
            }
        }
    }

    fn send(&mut self, to: Place, down: Down) {
        let Some(connection) = self.connections.get(&to.connection) else { return };
        let Some(lane) = connection.lanes.get(&to.lane).or(connection.lanes.get(&LaneId::FIRST)) else {
            // It never said anything.
            return self.end_with(to.connection, down);
        };
        match lane.try_send(down) {
            Ok(()) => {}
            Err(TrySendError::Closed(down)) => self.end_with(to.connection, down),
            Err(TrySendError::Full(_)) => {
                let code = CloseCode::TooSlowReader;
                let why = Closed { code: Some(code), ..Closed::because(code.as_str()) };
                self.cut(to.connection, &why, self.coordinator.now());
            }
        }
    }

    /// Nobody reads what is sent. Where it is the connection's end, it ends.
    fn end_with(&mut self, id: ConnectionId, down: Down) {
        if let Err(why) = down.what {
            self.cut(id, &why, self.coordinator.now());
        }
    }

    fn cut(&mut self, id: ConnectionId, why: &Closed, now: Time) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.moves += 1;
        connection.end.send_replace(Some(why.clone()));
        self.coordinator.connection_lost(id, now);
    }
}
