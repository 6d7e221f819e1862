//! The collector: inputs in arrival order, cut into slots.

use std::collections::VecDeque;
use std::fmt;

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

/// There is no room for another input. Nothing was taken in; the sender is told `overloaded`.
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
/// ```
/// use preclaim::resolver::AgentOp;
/// use preclaim::slot::{Collector, Room};
/// use preclaim::types::{Agent, IntentId, Micros, Slot, Time};
///
/// let mut collector = Collector::new(Micros::from_ms(10), Slot::new(0), Time::ZERO, Room::default());
/// let agent = Agent::new("car-7").ok_or("a name")?;
/// let op = AgentOp::Release { id: IntentId::new(1) };
/// collector.agent_input(Time::from_us(9_999), agent, op, "lane 0")?;
/// assert!(collector.close(Time::from_us(9_999), None).is_none(), "the slot is still open");
/// let closed = collector.close(Time::from_us(10_000), None).ok_or("due")?;
/// assert_eq!((closed.batch.inputs().len(), closed.origins), (1, vec!["lane 0"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Collector<O> {
    length: Micros,
    room: Room,
    /// The first slot that is not closed.
    open: Slot,
    /// The latest stamp, or the latest decision time that was closed at.
    latest: Time,
    waiting: VecDeque<(Input, O)>,
    /// How many inputs of agents and of the operator arrived in the newest slot.
    newest: Slot,
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
            open,
            latest,
            waiting: VecDeque::new(),
            newest: Slot::of(latest, length),
            newest_agents: 0,
            newest_operator: 0,
        }
    }

    /// Takes in what an agent asks for, and returns its arrival: `now`, or the latest stamp where
    /// that is later.
    ///
    /// # Errors
    /// [`Full`] where the slot, or the whole queue, has no room. Nothing is taken in then.
    pub fn agent_input(&mut self, now: Time, agent: Agent, op: AgentOp, origin: O) -> Result<Time, Full> {
        self.check_room(now)?;
        let at = self.latest;
        self.newest_agents += 1;
        self.waiting.push_back((Input::Agent { at, agent, op }, origin));
        Ok(at)
    }

    /// Takes in what an agent asks for, in order and with one arrival.
    ///
    /// # Errors
    /// Where there is no room for all of it: the rest, in its order, and why.
    pub fn agent_inputs(
        &mut self,
        now: Time,
        agent: &Agent,
        batch: Vec<(AgentOp, O)>,
    ) -> Result<(), (Vec<(AgentOp, O)>, Full)> {
        let mut batch = batch.into_iter();
        loop {
            let full = self.check_room(now).err();
            match (full, batch.next()) {
                (_, None) => return Ok(()),
                (Some(full), Some(input)) => return Err(([input].into_iter().chain(batch).collect(), full)),
                // There is room, so this is taken in.
                (None, Some((op, origin))) => {
                    let _ = self.agent_input(now, agent.clone(), op, origin);
                }
            }
        }
    }

    /// Whether an agent's input that arrives now would be taken in.
    ///
    /// # Errors
    /// [`Full`] where it would not.
    pub fn check_room(&mut self, now: Time) -> Result<(), Full> {
        self.stamp(now);
        let full = self.newest_agents >= self.room.inputs || self.waiting.len() >= self.room.waiting;
        if full { Err(self.full()) } else { Ok(()) }
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
            return Err(self.full());
        }
        self.newest_operator += 1;
        self.waiting.push_back((Input::System { at, op }, origin));
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
        let count = self.waiting.partition_point(|(input, _)| input.at() < decided_at);
        let (inputs, origins) = self.waiting.drain(..count).unzip();
        let batch = SlotBatch::new(slot, self.length, inputs)
            .unwrap_or_else(|error| unreachable!("stamps rise and lie in open slots: {error}"));
        Some(Closed { batch, origins })
    }

    /// How many inputs wait to be decided.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn next_slot(&self, due: Option<Slot>) -> Option<Slot> {
        let arrived = self.waiting.front().map(|(input, _)| Slot::of(input.at(), self.length));
        let due = due.map(|due| due.max(self.open));
        arrived.into_iter().chain(due).min()
    }

    fn stamp(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        let slot = Slot::of(self.latest, self.length);
        if slot != self.newest {
            (self.newest, self.newest_agents, self.newest_operator) = (slot, 0, 0);
        }
        self.latest
    }

    fn full(&self) -> Full {
        Full { until: self.newest.decided_at(self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::IntentId;

    const LENGTH: Micros = Micros::from_us(100);

    fn us(at: u64) -> Time {
        Time::from_us(at)
    }

    fn collector(room: Room) -> Collector<u64> {
        Collector::new(LENGTH, Slot::new(0), Time::ZERO, room)
    }

    fn push(collector: &mut Collector<u64>, at: u64, id: u64) -> Result<Time, Full> {
        let op = AgentOp::Release { id: IntentId::new(id) };
        collector.agent_input(us(at), Agent::new("a").unwrap(), op, id)
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
            push(&mut collector, at, id).unwrap();
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
            push(&mut collector, at, id).unwrap();
        }
        let slots: Vec<_> = std::iter::from_fn(|| close(&mut collector, 1000, None)).collect();
        assert_eq!(slots, [(0, vec![1]), (1, vec![2]), (3, vec![3])]);
    }

    #[test]
    fn a_slot_that_the_core_needs_is_handed_out_without_inputs() {
        let mut collector = collector(Room::default());
        push(&mut collector, 510, 1).unwrap();
        assert_eq!(collector.next_close(Some(Slot::new(2))), Some(us(300)));
        assert_eq!(close(&mut collector, 299, Some(2)), None);
        assert_eq!(close(&mut collector, 300, Some(2)), Some((2, vec![])));
        assert_eq!(close(&mut collector, 600, None), Some((5, vec![1])));
    }

    #[test]
    fn a_due_slot_that_is_closed_already_means_the_open_one() {
        let mut collector = collector(Room::default());
        push(&mut collector, 10, 1).unwrap();
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
        assert_eq!(push(&mut collector, 50, 1), Ok(us(50)));
        assert_eq!(push(&mut collector, 20, 2), Ok(us(50)));
        assert_eq!(close(&mut collector, 130, None), Some((0, vec![1, 2])));
        assert_eq!(push(&mut collector, 60, 3), Ok(us(100)));
        assert_eq!(close(&mut collector, 200, None), Some((1, vec![3])));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_the_next_slot_has_room_again() {
        let mut collector = collector(Room { inputs: 2, operator_inputs: 1, waiting: 3 });
        push(&mut collector, 0, 1).unwrap();
        push(&mut collector, 1, 2).unwrap();
        assert_eq!(push(&mut collector, 2, 3), Err(Full { until: us(100) }));
        push(&mut collector, 100, 4).unwrap();
        assert_eq!(push(&mut collector, 101, 5), Err(Full { until: us(200) }), "the queue is full");
        assert_eq!(close(&mut collector, 200, None), Some((0, vec![1, 2])));
        assert_eq!(close(&mut collector, 200, None), Some((1, vec![4])));
        assert_eq!(collector.waiting(), 0);
    }

    #[test]
    fn the_operator_has_room_where_agents_have_none() {
        let mut collector = collector(Room { inputs: 1, operator_inputs: 1, waiting: 1 });
        push(&mut collector, 0, 1).unwrap();
        assert!(push(&mut collector, 0, 2).is_err());
        let op = || SystemOp::Restart { next_token: 1 };
        assert!(collector.system_input(us(1), op(), 9).is_ok());
        assert!(collector.system_input(us(1), op(), 9).is_err());
    }
}
