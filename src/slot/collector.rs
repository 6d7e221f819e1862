//! The collector: inputs in arrival order, cut into slots.

use std::fmt;

use super::queue::{GivenUp, Queue};
use super::rank::{Asked, Rank, Returns, Turned};
use crate::resolver::{AgentOp, Input, SlotBatch, SystemOp};
use crate::types::{Agent, Micros, Slot, Time};

/// How much a [`Collector`] takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Agents' inputs that arrive in one slot: bounds the work of deciding it.
    pub inputs: usize,
    /// The operator's inputs that arrive in one slot, so that agents cannot crowd them out.
    pub operator_inputs: usize,
    /// All inputs that wait to be decided: bounds the memory where slots run late.
    pub waiting: usize,
}

impl Default for Room {
    fn default() -> Self {
        Room {
            inputs: crate::limits::SLOT_INPUTS,
            operator_inputs: crate::limits::SLOT_OPERATOR_INPUTS,
            waiting: crate::limits::SLOT_INPUTS * crate::limits::WAITING_SLOTS,
        }
    }
}

/// There is no room for another input of the operator's. Nothing was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// There may be room from this time on: the next slot's first instant.
    pub until: Time,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the slot has no room for another input")
    }
}

impl std::error::Error for Full {}

/// Why something was not taken in. The sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No room in this slot.
    Full(Full),
    /// The coordinator is stopping, or has stopped.
    Draining,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Full(full) => full.fmt(f),
            Refused::Draining => f.write_str("the coordinator is stopping, or has stopped"),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Full> for Refused {
    fn from(full: Full) -> Self {
        Refused::Full(full)
    }
}

/// A slot that has been closed: its batch, and where each of its inputs came from, by index.
#[derive(Debug)]
pub struct Closed<O> {
    /// What arrived in the slot, in arrival order.
    pub batch: SlotBatch,
    /// Where each input came from: as many, in the same order.
    pub origins: Vec<O>,
}

impl<O: Clone> Closed<O> {
    /// A slot in which nothing arrived.
    pub fn empty(slot: Slot) -> Self {
        Closed { batch: SlotBatch::empty(slot), origins: Vec::new() }
    }

    /// The slot in which a coordinator starts, whose inputs are its own: all arrive as it opens.
    pub fn boot(slot: Slot, length: Micros, ops: Vec<SystemOp>, own: O) -> Self {
        let at = slot.opens(length);
        let origins = vec![own; ops.len()];
        let inputs = ops.into_iter().map(|op| Input::System { at, op }).collect();
        let batch = SlotBatch::new(slot, length, inputs)
            .unwrap_or_else(|error| unreachable!("all arrive as the slot opens: {error}"));
        Closed { batch, origins }
    }
}

/// Takes in what arrives and hands it on slot by slot, in order. `O` is where an input came from.
///
/// The order of calls is the order of arrival: stamps never fall, whatever `now` says. Slots in
/// which provably nothing happens (no input, and the core has nothing due) are passed over; all
/// others are handed out one by one, however late, each with its own decision time.
///
/// Where a slot is full, what has a higher [`Rank`] takes the place of the input of the lowest rank, of several the
/// one that arrived last; the order of those that stay is that of their arrival. Whatever has no place is
/// handed back, with a time to come back, and is no input: a record of the slots decides the same.
///
/// ```
/// use preclaim::resolver::AgentOp;
/// use preclaim::slot::{Asked, Collector, Rank, Room};
/// use preclaim::types::{Agent, IntentId, Micros, Slot, Time};
///
/// let mut collector = Collector::new(Micros::from_ms(10), Slot::new(0), Time::ZERO, Room::default());
/// let agent = Agent::new("car-7").ok_or("a name")?;
/// let op = AgentOp::Release { id: IntentId::new(1) };
/// let asked = Asked { rank: Rank::Upkeep, op, origin: "lane 0" };
/// let turned = collector.agent_inputs(Time::from_us(9_999), &agent, vec![asked]);
/// assert!(turned.is_empty());
/// assert!(collector.close(Time::from_us(9_999), None).is_none(), "the slot is still open");
/// let closed = collector.close(Time::from_us(10_000), None).ok_or("due")?;
/// assert_eq!((closed.batch.inputs().len(), closed.origins), (1, vec!["lane 0"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Collector<O> {
    length: Micros,
    room: Room,
    /// What it is from the next slot on in which something arrives, where that is another.
    next_room: Option<Room>,
    /// The first slot that is not closed.
    open: Slot,
    /// The latest stamp, or the latest decision time that was closed at.
    latest: Time,
    waiting: Queue<O>,
    returns: Returns,
    /// The latest slot in which something arrived, its first place, and how many inputs of agents and of the
    /// operator have one in it.
    newest: Slot,
    newest_from: u64,
    newest_agents: usize,
    newest_operator: usize,
}

impl<O> Collector<O> {
    /// A collector for slots of `length` (above zero), whose first slot is `open`. What arrives at `now`
    /// or before belongs to the slot at `now`, or to `open` where that is later.
    pub fn new(length: Micros, open: Slot, now: Time, room: Room) -> Self {
        let latest = now.max(open.opens(length));
        Collector {
            length,
            room,
            next_room: None,
            open,
            latest,
            waiting: Queue::default(),
            returns: Returns::new(length, room.inputs),
            newest: Slot::of(latest, length),
            newest_from: 0,
            newest_agents: 0,
            newest_operator: 0,
        }
    }

    /// Takes in what an agent asks for, in order and with one arrival: `now`, or the latest stamp where that is
    /// later. Returns what has no place: of this, and of what was taken in before and gave way to it.
    pub fn agent_inputs(&mut self, now: Time, agent: &Agent, batch: Vec<Asked<O>>) -> Vec<Turned<O>> {
        let at = self.stamp(now);
        batch.into_iter().filter_map(|asked| self.agent_input(at, agent, asked)).collect()
    }

    /// Takes it in where there is room or another gives way. Returns the one of them that has no place.
    fn agent_input(&mut self, at: Time, agent: &Agent, asked: Asked<O>) -> Option<Turned<O>> {
        let Asked { rank, op, origin } = asked;
        let is_full = self.newest_agents >= self.room.inputs;
        if !is_full && self.waiting.len() < self.room.waiting {
            self.take(at, agent, Asked { rank, op, origin });
            return None;
        }
        // Where this slot is full, a place in another does not help.
        let from = if is_full { self.newest_from } else { 0 };
        let Some(GivenUp { place, rank: lower, input, origin: of }) = self.waiting.give_up(rank, from) else {
            let back = self.returns.book(rank, self.newest);
            return Some(Turned { agent: agent.clone(), op, origin, back });
        };
        self.newest_agents -= usize::from(place >= self.newest_from);
        self.take(at, agent, Asked { rank, op, origin });
        let back = self.returns.book(lower, self.newest);
        match input {
            Input::Agent { agent, op, .. } => Some(Turned { agent, op, origin: of, back }),
            Input::System { .. } => unreachable!("the operator's inputs keep their places"),
        }
    }

    /// Hands back all that waits of agents and of which `is_out` says so, in order; and says when, as an arrival: what
    /// is taken in from here on arrives then or later.
    pub fn turn_out(
        &mut self,
        now: Time,
        is_out: impl Fn(&Agent, &AgentOp) -> bool,
    ) -> (Time, Vec<Turned<O>>) {
        let at = self.stamp(now);
        let given_up = self.waiting.give_up_all(|input| match input {
            Input::Agent { agent, op, .. } => is_out(agent, op),
            Input::System { .. } => false,
        });
        let from = self.newest_from;
        self.newest_agents -= given_up.iter().filter(|it| it.place >= from).count();
        let turned = given_up.into_iter().filter_map(|it| match it.input {
            Input::Agent { agent, op, .. } => Some(Turned { agent, op, origin: it.origin, back: at }),
            Input::System { .. } => None,
        });
        (at, turned.collect())
    }

    fn take(&mut self, at: Time, agent: &Agent, Asked { rank, op, origin }: Asked<O>) {
        self.newest_agents += 1;
        self.waiting.push(Input::Agent { at, agent: agent.clone(), op }, origin, rank);
    }

    /// Takes in what the operator asks for, and returns its arrival. The operator has room of its
    /// own in each slot.
    ///
    /// # Errors
    /// [`Full`] where that room is used up. Nothing is taken in then.
    pub fn system_input(&mut self, now: Time, op: SystemOp, origin: O) -> Result<Time, Full> {
        let at = self.stamp(now);
        let waiting = self.room.waiting.saturating_add(self.room.operator_inputs);
        if self.newest_operator >= self.room.operator_inputs || self.waiting.len() >= waiting {
            return Err(Full { until: self.newest.decided_at(self.length) });
        }
        self.newest_operator += 1;
        self.waiting.push(Input::System { at, op }, origin, Rank::Upkeep);
        Ok(at)
    }

    /// From the slot after this one on so much is taken in; what waits already stays. With `op` it is an input of this
    /// slot. Returns its arrival, in the slot that is meant.
    ///
    /// # Errors
    /// [`Full`] where there is no room for `op`; then nothing has changed.
    pub fn change_room(&mut self, now: Time, room: Room, op: Option<(SystemOp, O)>) -> Result<Time, Full> {
        let at = match op {
            Some((op, origin)) => self.system_input(now, op, origin)?,
            None => self.stamp(now),
        };
        self.next_room = Some(room);
        Ok(at)
    }

    /// When [`Collector::close`] next has a slot to hand out, if it ever has: the decision time of
    /// the first slot with an input, or of `due`, the core's own next slot.
    pub fn next_close(&self, due: Option<Slot>) -> Option<Time> {
        self.next_slot(due).map(|slot| slot.decided_at(self.length))
    }

    /// Closes the next slot in which something may happen, if its decision time has come.
    pub fn close(&mut self, now: Time, due: Option<Slot>) -> Option<Closed<O>> {
        let slot = self.next_slot(due)?;
        let decided_at = slot.decided_at(self.length);
        if now < decided_at {
            return None;
        }
        self.open = slot.next();
        self.latest = self.latest.max(decided_at);
        let (inputs, origins) = self.waiting.cut(decided_at);
        let batch = SlotBatch::new(slot, self.length, inputs)
            .unwrap_or_else(|error| unreachable!("stamps rise and lie in open slots: {error}"));
        Some(Closed { batch, origins })
    }

    /// How many inputs wait to be decided.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn next_slot(&self, due: Option<Slot>) -> Option<Slot> {
        let arrived = self.waiting.first_at().map(|at| Slot::of(at, self.length));
        let due = due.map(|due| due.max(self.open));
        arrived.into_iter().chain(due).min()
    }

    fn stamp(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        let slot = Slot::of(self.latest, self.length);
        if slot != self.newest {
            (self.newest, self.newest_agents, self.newest_operator) = (slot, 0, 0);
            self.newest_from = self.waiting.next_place();
            if let Some(room) = self.next_room.take() {
                self.room = room;
                self.returns = Returns::new(self.length, room.inputs);
            }
        }
        self.latest
    }
}

#[cfg(test)]
mod shedding_tests;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::IntentId;

    use crate::slot::Clearing;

    const LENGTH: Micros = Micros::from_us(100);

    fn us(at: u64) -> Time {
        Time::from_us(at)
    }

    fn collector(room: Room) -> Collector<u64> {
        Collector::new(LENGTH, Slot::new(0), Time::ZERO, room)
    }

    /// When to come back, where there is no room.
    fn push(collector: &mut Collector<u64>, at: u64, id: u64) -> Option<Time> {
        let op = AgentOp::Release { id: IntentId::new(id) };
        let asked = Asked { rank: Rank::Upkeep, op, origin: id };
        let turned = collector.agent_inputs(us(at), &Agent::new("a").unwrap(), vec![asked]);
        turned.first().map(|turned| turned.back)
    }

    /// The slot's number and the ids in it.
    fn close(collector: &mut Collector<u64>, now: u64, due: Option<u64>) -> Option<(u64, Vec<u64>)> {
        let closed = collector.close(us(now), due.map(Slot::new))?;
        assert_eq!(closed.batch.inputs().len(), closed.origins.len());
        Some((closed.batch.slot().number(), closed.origins))
    }

    #[test]
    fn what_arrives_at_the_decision_time_belongs_to_the_next_slot() {
        let mut collector = collector(Room::default());
        for (at, id) in [(0, 1), (99, 2), (100, 3)] {
            assert_eq!(push(&mut collector, at, id), None);
        }
        assert_eq!(close(&mut collector, 99, None), None);
        assert_eq!(close(&mut collector, 100, None), Some((0, vec![1, 2])));
        assert_eq!(close(&mut collector, 199, None), None);
        assert_eq!(close(&mut collector, 200, None), Some((1, vec![3])));
        assert_eq!(close(&mut collector, 1000, None), None);
    }

    #[test]
    fn slots_that_were_not_run_in_time_come_one_by_one() {
        let mut collector = collector(Room::default());
        for (at, id) in [(10, 1), (110, 2), (350, 3)] {
            assert_eq!(push(&mut collector, at, id), None);
        }
        let slots: Vec<_> = std::iter::from_fn(|| close(&mut collector, 1000, None)).collect();
        assert_eq!(slots, [(0, vec![1]), (1, vec![2]), (3, vec![3])]);
    }

    #[test]
    fn a_slot_that_the_core_needs_is_handed_out_without_inputs() {
        let mut collector = collector(Room::default());
        push(&mut collector, 510, 1);
        assert_eq!(collector.next_close(Some(Slot::new(2))), Some(us(300)));
        assert_eq!(close(&mut collector, 299, Some(2)), None);
        assert_eq!(close(&mut collector, 300, Some(2)), Some((2, vec![])));
        assert_eq!(close(&mut collector, 600, None), Some((5, vec![1])));
    }

    #[test]
    fn a_due_slot_that_is_closed_already_means_the_open_one() {
        let mut collector = collector(Room::default());
        push(&mut collector, 10, 1);
        assert_eq!(close(&mut collector, 100, None), Some((0, vec![1])));
        assert_eq!(collector.next_close(Some(Slot::new(0))), Some(us(200)));
    }

    #[test]
    fn nothing_to_do_asks_for_no_wake_up() {
        assert_eq!(collector(Room::default()).next_close(None), None);
    }

    #[test]
    fn stamps_never_fall_and_never_reach_back_into_a_closed_slot() {
        let mut collector = collector(Room::default());
        push(&mut collector, 50, 1);
        push(&mut collector, 20, 2);
        let closed = collector.close(us(130), None).unwrap();
        assert_eq!(closed.batch.inputs().iter().map(Input::at).collect::<Vec<_>>(), [us(50), us(50)]);
        push(&mut collector, 60, 3);
        let closed = collector.close(us(200), None).unwrap();
        assert_eq!((closed.batch.slot().number(), closed.batch.inputs()[0].at()), (1, us(100)));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_the_next_slot_has_room_again() {
        let mut collector = collector(Room { inputs: 2, operator_inputs: 1, waiting: 3 });
        push(&mut collector, 0, 1);
        push(&mut collector, 1, 2);
        assert_eq!(push(&mut collector, 2, 3), Some(us(100)));
        assert_eq!(push(&mut collector, 100, 4), None);
        assert_eq!(push(&mut collector, 101, 5), Some(us(200)), "the queue is full");
        assert_eq!(close(&mut collector, 200, None), Some((0, vec![1, 2])));
        assert_eq!(close(&mut collector, 200, None), Some((1, vec![4])));
        assert_eq!(collector.waiting(), 0);
    }

    #[test]
    fn another_room_counts_from_the_next_slot_on_and_takes_back_nothing() {
        let room = |inputs| Room { inputs, operator_inputs: 1, waiting: 100 };
        let mut collector = collector(room(2));
        push(&mut collector, 0, 1);
        assert_eq!(collector.change_room(us(10), room(1), None), Ok(us(10)));
        assert_eq!(push(&mut collector, 99, 2), None, "in this slot all is as it was");
        assert!(push(&mut collector, 99, 3).is_some());
        assert_eq!(push(&mut collector, 100, 4), None);
        assert_eq!(push(&mut collector, 101, 5), Some(us(200)));
        let op = || Some((SystemOp::Restart { next_token: 1 }, 9));
        assert_eq!(collector.change_room(us(102), room(3), op()), Ok(us(102)));
        assert_eq!(collector.change_room(us(103), room(9), op()), Err(Full { until: us(200) }));
        assert_eq!(close(&mut collector, 200, None), Some((0, vec![1, 2])));
        assert_eq!(close(&mut collector, 200, None), Some((1, vec![4, 9])));
        assert_eq!((0..4).filter(|id| push(&mut collector, 200, *id).is_none()).count(), 3);
    }

    #[test]
    fn what_is_turned_out_comes_back_whole_makes_room_and_the_rest_keeps_its_order() {
        let mut collector = collector(Room { inputs: 3, operator_inputs: 1, waiting: 9 });
        (1..=3).for_each(|id| assert_eq!(push(&mut collector, 10 + id, id), None));
        assert!(collector.system_input(us(14), SystemOp::Restart { next_token: 1 }, 9).is_ok());
        let (at, turned) = collector.turn_out(us(12), |_, op| op.id() != IntentId::new(2));
        assert_eq!(at, us(14), "not before what was taken in");
        assert_eq!(turned.iter().map(|it| it.origin).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(push(&mut collector, 15, 4), None);
        assert_eq!(push(&mut collector, 16, 5), None);
        assert!(push(&mut collector, 17, 6).is_some(), "three have their places again");
        assert_eq!(close(&mut collector, 100, None), Some((0, vec![2, 9, 4, 5])));
        assert_eq!(collector.turn_out(us(20), |_, _| true).0, us(100), "in the slot that is open");
    }

    #[test]
    fn a_slot_that_is_cleared_ends_what_waits_after_all_that_arrived_in_it() {
        use crate::types::IntentKey;
        let mut collector = collector(Room::default());
        push(&mut collector, 10, 1);
        let clearing = Clearing { at: collector.turn_out(us(20), |_, _| false).0, reason: "upgrade".into() };
        assert_eq!(clearing.slot(LENGTH), Slot::new(0));
        push(&mut collector, 90, 2);
        let closed = collector.close(us(100), None).unwrap();
        let keys = [7, 8].map(|id| IntentKey { agent: Agent::new("b").unwrap(), id: IntentId::new(id) });
        let closed = closed.clear(LENGTH, &clearing, keys.into_iter(), &0);
        assert_eq!(closed.origins, [1, 2, 0, 0]);
        let ended = closed.batch.inputs().iter().filter_map(|input| match input {
            Input::System { at, op: SystemOp::Release { id, reason, .. } } => {
                Some((at.as_us(), id.number(), &**reason))
            }
            _ => None,
        });
        assert_eq!(ended.collect::<Vec<_>>(), [(90, 7, "upgrade"), (90, 8, "upgrade")]);
    }

    #[test]
    fn the_operator_has_room_where_agents_have_none() {
        let mut collector = collector(Room { inputs: 1, operator_inputs: 1, waiting: 1 });
        push(&mut collector, 0, 1);
        assert!(push(&mut collector, 0, 2).is_some());
        let op = || SystemOp::Restart { next_token: 1 };
        assert!(collector.system_input(us(1), op(), 9).is_ok());
        assert_eq!(collector.system_input(us(1), op(), 9), Err(Full { until: us(100) }));
    }
}
