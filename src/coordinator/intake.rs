//! The door to the slot loop: what sessions hand in, in the order in which it is stamped.
//!
//! The lock here is held for a push or a cut of the queue, never while anything is decided or sent.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use crate::clock::Clock;
use crate::limits;
use crate::resolver::{AgentOp, Resolver, SystemOp};
use crate::slot::{Asked, Clearing, Closed, Collector, Full, Refused, Room, Turned};
use crate::types::{Agent, Micros, Slot, Time};

/// A look at the resolver's state, taken on the slot loop's own thread between two slots. It keeps
/// to a named bound of work, since the next slot waits for it.
pub(crate) type Look = Box<dyn FnOnce(&Resolver) + Send>;

/// What the slot loop does next.
pub(crate) enum Step<O> {
    /// Decide this slot, in which a drain may have begun; and when the loop was awake to do so.
    Decide(Closed<O>, Option<Clearing>, Time),
    /// Let somebody look.
    Show(Look),
    /// Stop: the coordinator drains and nothing waits.
    Stop,
}

/// See the module's documentation.
pub(crate) struct Intake<O> {
    state: Mutex<State<O>>,
    clock: Arc<dyn Clock>,
    length: Micros,
    loop_thread: OnceLock<Thread>,
}

struct State<O> {
    collector: Collector<O>,
    looks: VecDeque<Look>,
    draining: bool,
    /// A slot that is to be decided whatever arrives in it, since something waits for its record.
    to_record: Option<Slot>,
    /// A drain has begun, and the slot in which whatever waits is to end has not been closed.
    clearing: Option<Clearing>,
    /// When the loop wakes by itself; `None` while it is awake, or sleeps until it is rung.
    alarm: Option<Time>,
    /// Since when the loop has been at one slot or look.
    busy: Option<Time>,
}

impl<O> fmt::Debug for Intake<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Intake")
            .field("waiting", &state.collector.waiting())
            .field("draining", &state.draining)
            .finish_non_exhaustive()
    }
}

impl<O> Intake<O> {
    /// The first slot that it collects is `first`, or else the one that is open now.
    pub(crate) fn new(clock: Arc<dyn Clock>, length: Micros, room: Room, first: Option<Slot>) -> Self {
        let now = clock.now();
        let first = first.unwrap_or(Slot::of(now, length));
        let collector = Collector::new(length, first, now, room);
        let state = State {
            collector,
            looks: VecDeque::new(),
            draining: false,
            to_record: None,
            clearing: None,
            alarm: None,
            busy: None,
        };
        Intake { state: Mutex::new(state), clock, length, loop_thread: OnceLock::new() }
    }

    /// The slot length.
    pub(crate) fn length(&self) -> Micros {
        self.length
    }

    /// Takes in what an agent asks for, in order and with one arrival. Returns what has no place in the slot, of
    /// this and of what others asked for before.
    ///
    /// # Errors
    /// The whole batch, where nothing new is taken in.
    pub(crate) fn agent_inputs(
        &self,
        agent: &Agent,
        batch: Vec<Asked<O>>,
    ) -> Result<Vec<Turned<O>>, Vec<Asked<O>>> {
        let mut state = self.lock();
        if state.draining {
            return Err(batch);
        }
        // The stamp is taken under the lock that orders the queue, so arrival order is time order.
        let turned = state.collector.agent_inputs(self.clock.now(), agent, batch);
        self.ring_for_input(&state);
        Ok(turned)
    }

    /// Takes in what the operator asks for; returns its arrival.
    pub(crate) fn system_input(&self, op: SystemOp, origin: O) -> Result<Time, Refused> {
        let mut state = self.lock();
        if state.draining {
            return Err(Refused::Draining);
        }
        let at = state.collector.system_input(self.clock.now(), op, origin)?;
        self.ring_for_input(&state);
        Ok(at)
    }

    /// From the end of the slot that is open on so much is taken in, and `op` holds, which is an input of that slot. Returns
    /// the slot and its end.
    pub(crate) fn change_room(&self, room: Room, op: Option<(SystemOp, O)>) -> Result<(Slot, Time), Refused> {
        let mut state = self.lock();
        if state.draining {
            return Err(Refused::Draining);
        }
        let at = state.collector.change_room(self.clock.now(), room, op)?;
        self.ring_for_input(&state);
        let slot = Slot::of(at, self.length);
        Ok((slot, slot.decided_at(self.length)))
    }

    /// Has the slot that is open now decided, whatever arrives in it, so that what waits for a record has one.
    pub(crate) fn record_soon(&self) {
        let mut state = self.lock();
        if state.to_record.is_some() || state.draining {
            return;
        }
        state.to_record = Some(Slot::of(self.clock.now(), self.length));
        self.ring();
    }

    /// Hands back all that waits and `is_out` says of, and has whatever is undecided end with `reason` in the slot that
    /// is open, which is decided whatever arrives in it. Also returns when that is, as an arrival.
    pub(crate) fn clear(
        &self,
        reason: &str,
        is_out: impl Fn(&Agent, &AgentOp) -> bool,
    ) -> (Time, Vec<Turned<O>>) {
        let mut state = self.lock();
        let (at, turned) = state.collector.turn_out(self.clock.now(), is_out);
        if !state.draining {
            state.clearing = Some(Clearing { at, reason: reason.into() });
            self.ring();
        }
        (at, turned)
    }

    /// Has somebody look at the state soon. Refused where too many already wait to.
    pub(crate) fn look(&self, look: Look) -> Result<(), Refused> {
        let mut state = self.lock();
        if state.draining {
            return Err(Refused::Draining);
        }
        if state.looks.len() >= limits::WAITING_LOOKS {
            return Err(Full { until: self.clock.now() }.into());
        }
        state.looks.push_back(look);
        self.ring();
        Ok(())
    }

    /// How long the loop has been at one slot or look, or past the end of one that it has not begun.
    pub(crate) fn standstill(&self) -> Micros {
        let state = self.lock();
        let due = state.collector.next_close(None);
        let since = state.busy.into_iter().chain(due).min();
        since.map_or(Micros::ZERO, |since| self.clock.now().since(since))
    }

    /// Takes in nothing more. The loop decides what has arrived, at its time, and stops.
    pub(crate) fn drain(&self) {
        self.lock().draining = true;
        self.ring();
    }

    /// Waits, on the slot loop's thread, for something to do. `due` is the core's own next slot.
    pub(crate) fn next_step(&self, due: Option<Slot>) -> Step<O> {
        self.loop_thread.get_or_init(|| {
            self.clock.attach();
            thread::current()
        });
        loop {
            let woken = self.clock.now();
            let alarm = {
                let mut state = self.lock();
                match state.step(woken, due, self.length) {
                    Ok(step) => return step,
                    Err(alarm) => alarm,
                }
            };
            self.clock.park(alarm);
        }
    }

    /// Wakes the loop where it would sleep past what has arrived.
    fn ring_for_input(&self, state: &State<O>) {
        if state.alarm.is_none() || state.collector.next_close(None) < state.alarm {
            self.ring();
        }
    }

    fn ring(&self) {
        if let Some(thread) = self.loop_thread.get() {
            thread.unpark();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<O>> {
        // A panic in here is one of the slot loop's or of a session's: the coordinator ends then,
        // and until it has, the queue is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O> State<O> {
    /// The next step, or until when to sleep.
    fn step(&mut self, now: Time, due: Option<Slot>, length: Micros) -> Result<Step<O>, Option<Time>> {
        self.busy = Some(now);
        let to_clear = self.clearing.as_ref().map(|clearing| clearing.slot(length));
        let due_by_hand = self.to_record.into_iter().chain(to_clear).min();
        let due = due.into_iter().chain(due_by_hand).min();
        if let Some(closed) = self.collector.close(now, due) {
            let slot = closed.batch.slot();
            self.to_record = self.to_record.filter(|to_record| *to_record > slot);
            let clearing = self.clearing.take_if(|_| to_clear.is_some_and(|to_clear| to_clear <= slot));
            return Ok(Step::Decide(closed, clearing, now));
        }
        if let Some(look) = self.looks.pop_front() {
            return Ok(Step::Show(look));
        }
        if self.draining && self.collector.waiting() == 0 && due_by_hand.is_none() {
            return Ok(Step::Stop);
        }
        self.busy = None;
        self.alarm = self.collector.next_close(due);
        Err(self.alarm)
    }
}
