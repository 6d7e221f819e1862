//! One slot's run: what lives only while a slot is decided, and the steps in their order.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::batch::SlotBatch;
use super::book::{Ended, Grant, RecordNo, Undecided};
use super::ledger::GroupId;
use super::outcome::{GrantsEnded, Rank, SlotOutcome};
use super::state::SlotChanges;
use super::{Resolver, deadlock, report};
use crate::priority::{self, Context};
use crate::types::{
    Agent, Blocker, Class, Contested, Decision, FixedMap, IntentKey, Micros, Slot, Time, Token, Verdict,
    Window,
};

/// A finite score, or the lowest, in its total order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Score(f64);

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Where an intent stands in the slot's order; the least goes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    class: Reverse<Class>,
    /// `false`, which sorts first, for those whose patience is at an end.
    is_patient: bool,
    /// All alike for those whose patience is at an end: their arrival decides.
    score: Reverse<Score>,
    arrival_number: u64,
}

impl Turn {
    fn rank(&self) -> Rank {
        Rank { score: self.score.0.0, is_overdue: !self.is_patient }
    }
}

/// An intent whose last turn in this slot brought no grant.
#[derive(Clone, Debug)]
pub(super) struct Unplaced {
    pub(super) key: IntentKey,
    pub(super) record: RecordNo,
    pub(super) turn: Turn,
    /// It was the slot's n-th turn.
    pub(super) nth: usize,
    pub(super) undecided: Undecided,
    pub(super) blockers: Vec<Blocker>,
    pub(super) waits: bool,
    pub(super) deadlock: bool,
}

/// The turns that are still to come.
#[derive(Debug, Default)]
struct Queue {
    /// As they stood before the first turn, the last of them first: nearly in their order when they come in.
    known: Vec<(Turn, RecordNo)>,
    /// Those whose grants were withdrawn since.
    late: BTreeMap<Turn, RecordNo>,
}

impl Queue {
    fn of(mut known: Vec<(Turn, RecordNo)>) -> Self {
        known.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        Queue { known, late: BTreeMap::new() }
    }

    fn pop_first(&mut self) -> Option<(Turn, RecordNo)> {
        let first_late = self.late.first_key_value().map(|(turn, _)| turn);
        match (self.known.last(), first_late) {
            (Some((known, _)), Some(late)) if late < known => self.late.pop_first(),
            (None, Some(_)) => self.late.pop_first(),
            _ => self.known.pop(),
        }
    }
}

/// A slot while it is decided.
#[derive(Debug)]
pub(super) struct SlotRun<'a> {
    pub(super) state: &'a mut Resolver,
    slot: Slot,
    pub(super) now: Time,
    pub(super) decisions: Vec<Decision>,
    ranks: Vec<Option<Rank>>,
    arrivals: Vec<Option<Time>>,
    pub(super) ended: GrantsEnded,
    pub(super) contested: Vec<Contested>,
    /// What revisions and shrinks left, until the end of the slot, by intent.
    pub(super) left: BTreeMap<IntentKey, Vec<GroupId>>,
    /// The places that are held until the end of the slot, by intent.
    pub(super) held: BTreeMap<IntentKey, GroupId>,
    pub(super) places_held: u64,
    queue: Queue,
    /// In the order of their turns.
    pub(super) unplaced: Vec<Unplaced>,
    /// How many turns there were.
    pub(super) turns: usize,
    /// The turns of those whose grants were withdrawn: they may have had one before, for a revision.
    pub(super) second_turns: FixedMap<IntentKey, usize>,
    held_by_agent: FixedMap<Agent, Micros>,
    scores_not_finite: usize,
}

impl<'a> SlotRun<'a> {
    pub(super) fn new(state: &'a mut Resolver, slot: Slot) -> Self {
        let now = slot.decided_at(state.rules.length);
        SlotRun {
            state,
            slot,
            now,
            decisions: Vec::new(),
            ranks: Vec::new(),
            arrivals: Vec::new(),
            ended: GrantsEnded::default(),
            contested: Vec::new(),
            left: BTreeMap::new(),
            held: BTreeMap::new(),
            places_held: 0,
            queue: Queue::default(),
            unplaced: Vec::new(),
            turns: 0,
            second_turns: FixedMap::default(),
            held_by_agent: FixedMap::default(),
            scores_not_finite: 0,
        }
    }

    /// Runs the steps of the contract in their order.
    pub(super) fn run(mut self, batch: &SlotBatch) -> SlotOutcome {
        self.decisions.reserve(batch.inputs().len());
        self.ranks.reserve(batch.inputs().len());
        self.arrivals.reserve(batch.inputs().len());
        self.take_arrivals(batch.inputs());
        self.expire();
        self.place_all();
        self.drop_left();
        deadlock::resolve(&mut self);
        report::tell_unplaced(&mut self);
        self.state.book.list_fresh();
        debug_assert!(
            self.state.undecided().all(|it| it.waits_until > self.now),
            "what waits beyond its wait might never be decided"
        );
        self.drop_held();
        self.state.book.forget(self.now, self.state.rules.retention);
        let (digest, changes) = self.state.settle();
        let held_from = self.now.before(self.state.rules.fair_window);
        SlotOutcome {
            slot: self.slot,
            at: self.now,
            decisions: self.decisions,
            contested: self.contested,
            scores_not_finite: self.scores_not_finite,
            ranks: self.ranks,
            arrivals: self.arrivals,
            ended: self.ended,
            digest,
            changes: changes.map(|changes| SlotChanges { held_from, ..changes }),
        }
    }

    /// Tells what was decided apart from any turn; `arrival` is that of the declaration that it decides.
    pub(super) fn tell(
        &mut self,
        key: IntentKey,
        answers: Option<usize>,
        arrival: Option<Time>,
        verdict: Verdict,
    ) {
        self.decisions.push(Decision { key, answers, verdict });
        self.ranks.push(None);
        self.arrivals.push(arrival);
    }

    /// Tells what came of the turn of an intent that arrived at `arrival`.
    pub(super) fn tell_placed(&mut self, turn: &Turn, key: IntentKey, arrival: Time, verdict: Verdict) {
        self.decisions.push(Decision { key, answers: None, verdict });
        self.ranks.push(Some(turn.rank()));
        self.arrivals.push(Some(arrival));
    }

    /// Step 2: takes out the grants all of whose windows have ended.
    fn expire(&mut self) {
        for grant in self.state.book.take_expired(self.slot) {
            self.end_windows(&grant, self.now);
            self.ended.expired += 1;
            let line = if grant.intent.hold {
                let line = Verdict::Expired { token: grant.token };
                self.tell(grant.key.clone(), None, None, line.clone());
                line
            } else {
                grant.line()
            };
            self.remember_expired(&grant, line);
        }
    }

    /// What the id stands for once its grant has expired, unless it stands for something newer.
    fn remember_expired(&mut self, grant: &Grant, line: Verdict) {
        let Some(record) = self.state.book.numbered(grant.record) else { return };
        let is_newer = |it: &Undecided| it.revises != Some(grant.token);
        let has_newer = record.grant.is_some() || record.undecided.as_ref().is_some_and(is_newer);
        match &record.ended {
            // A message of this slot found it ended already.
            Some(ended) if Arc::ptr_eq(&ended.intent, &grant.intent) => {
                self.state.book.set_ended_line(grant.record, line);
            }
            None if !has_newer => {
                let ended = Ended { intent: grant.intent.clone(), at: self.now, line: Some(line) };
                self.state.book.remember(grant.record, ended);
            }
            _ => {}
        }
    }

    /// Step 3: scores are taken once, before the first is placed; then one after the other.
    fn place_all(&mut self) {
        let undecided = self.state.book.numbers_of_undecided();
        let mut turns = Vec::with_capacity(undecided.len());
        for no in undecided {
            turns.extend(self.turn_of(no).map(|turn| (turn, no)));
        }
        self.queue = Queue::of(turns);
        let mut last = None;
        while let Some((turn, no)) = self.queue.pop_first() {
            debug_assert!(last < Some(turn.clone()), "turns go down the order, or they might never end");
            last = Some(turn.clone());
            self.take_turn(turn, no);
        }
    }

    /// Puts an undecided intent into the slot's order, after its first has begun.
    pub(super) fn enqueue(&mut self, no: RecordNo) {
        if let Some(turn) = self.turn_of(no) {
            self.queue.late.insert(turn, no);
        }
    }

    /// Where an undecided intent stands in the slot's order.
    fn turn_of(&mut self, no: RecordNo) -> Option<Turn> {
        let held = match self.state.rules.model.looks_at_held() {
            true => self.held_lately(&self.state.book.numbered(no)?.key.agent.clone()),
            false => Micros::ZERO,
        };
        let record = self.state.book.numbered(no)?;
        let undecided = record.undecided.as_ref()?;
        let waited = undecided.waited(self.now);
        let context = Context {
            agent: &record.key.agent,
            arrival: undecided.arrival,
            waited,
            now: self.now,
            earliest: super::checks::starts(&undecided.intent, self.now, &self.state.rules).first,
            held,
        };
        let (score, is_odd) = priority::rank(self.state.rules.model.score(&undecided.intent, &context));
        self.scores_not_finite += usize::from(is_odd);
        let is_patient = self.state.rules.patience.is_none_or(|patience| waited <= patience);
        Some(Turn {
            class: Reverse(undecided.intent.class),
            is_patient,
            score: Reverse(Score(if is_patient { score } else { 0.0 })),
            arrival_number: undecided.arrival_number,
        })
    }

    /// How long the agent held grants within the `fair_window` before the decision time.
    fn held_lately(&mut self, agent: &Agent) -> Micros {
        if let Some(held) = self.held_by_agent.get(agent) {
            return *held;
        }
        let span = Window::new(self.now.before(self.state.rules.fair_window), self.now);
        let held = span.map_or(Micros::ZERO, |span| {
            self.state.ended_grants.held(agent, span).plus(self.state.book.held_in_force(agent, span))
        });
        self.held_by_agent.insert(agent.clone(), held);
        held
    }

    /// What revisions and shrinks left is out of everybody's way once all have had their turns.
    fn drop_left(&mut self) {
        for id in std::mem::take(&mut self.left).into_values().flatten() {
            self.end_group(id, self.now);
        }
    }

    /// Step 6: held places do not outlive the slot.
    fn drop_held(&mut self) {
        for group in std::mem::take(&mut self.held).into_values() {
            self.state.ledger.remove(group);
        }
    }

    /// The grant that an intent's revision would replace, while it is in force.
    pub(super) fn is_in_force(&self, token: Option<Token>) -> bool {
        token.is_some_and(|token| self.state.book.grant(token).is_some())
    }
}
