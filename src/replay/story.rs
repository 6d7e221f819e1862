//! The story of one intent: what its agent asked, what was decided, and what stood in its way.

use std::collections::{BTreeMap, VecDeque};

use super::{Remedy, remedy, taken_in};
use crate::audit::{Record, StoredInput, StoredOp};
use crate::config::ConfigError;
use crate::coordinator::rules_of;
use crate::limits::AUDIT_STORY;
use crate::resolver::Rank;
use crate::session::coordinator::{Attempt, ForbiddenNote, RightsNote, Sent};
use crate::types::{
    Agent, Blocker, Decision, Intent, IntentKey, Micros, RenewDenial, Slot, Time, Token, Verdict,
};

/// Something that happened to the intent.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A message about it arrived.
    Input {
        /// In which slot.
        slot: Slot,
        /// The message.
        input: StoredInput,
        /// What was sent of its priority, where less counts.
        sent: Option<Sent>,
        /// Who asked for it in the operator's place, where an agent did.
        administered_by: Option<Agent>,
    },
    /// It was asked for, and forbidden: it reached no slot.
    Forbidden {
        /// The slot in whose record that stands.
        slot: Slot,
        /// What was asked, and why not.
        note: ForbiddenNote,
    },
    /// Something was decided about it.
    Decided {
        /// In which slot.
        slot: Slot,
        /// The slot's decision time.
        at: Time,
        /// What.
        decision: Decision,
        /// What ordered it among the others.
        rank: Option<Rank>,
    },
    /// How it stood, of what happened to it before the records.
    Stood {
        /// In which slot that was seen.
        slot: Slot,
        /// That slot's decision time.
        at: Time,
        /// What was declared.
        declared: Option<StoredInput>,
        /// What it was told last.
        decision: Option<Decision>,
    },
}

/// A grant or a held place that was in the way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// Whose.
    pub key: IntentKey,
    /// The grant's token; or, for a place that was only held, the slot in which it was.
    pub of: Result<Token, Slot>,
}

impl Wanted {
    /// What `blocker` is, which was in the way in `slot`.
    pub fn of(blocker: &Blocker, slot: Slot) -> Self {
        Wanted { key: blocker.key.clone(), of: blocker.token.ok_or(slot) }
    }
}

/// What the records say of what was in the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// The slot in which it was granted, or told last that it waits.
    pub slot: Slot,
    /// That slot's decision time.
    pub at: Time,
    /// What ordered it there.
    pub rank: Option<Rank>,
    /// Start and end of its grant.
    pub granted: Option<(Time, Time)>,
    /// What was declared; `None` where that is older than what is kept.
    pub intent: Option<Intent>,
}

/// See the module's documentation. The log is read twice: [`Story::take`] takes every record once, then
/// [`Story::look`] every record again.
#[derive(Debug)]
pub struct Story {
    key: IntentKey,
    first: Vec<Event>,
    last: VecDeque<Event>,
    left_out: u64,
    /// The rules as they were told last; `None` where the log no longer says.
    freeze: Option<Option<Micros>>,
    /// What may be withdrawn for a higher class, when the last conflict was decided.
    freeze_then: Option<Option<Micros>>,
    declared: Option<(Time, Intent)>,
    /// The intent, and when it arrived, as it was when the last conflict was decided.
    declared_then: Option<(Time, Intent)>,
    holders: BTreeMap<Wanted, Option<Holder>>,
    /// The latest declarations of those that were in the way.
    theirs: BTreeMap<IntentKey, Intent>,
}

impl Story {
    /// That of `key`. `is_whole`: whether the records begin with the first one of the log.
    pub fn new(key: IntentKey, is_whole: bool) -> Self {
        Story {
            key,
            first: Vec::new(),
            last: VecDeque::new(),
            left_out: 0,
            freeze: is_whole.then_some(None),
            freeze_then: None,
            declared: None,
            declared_then: None,
            holders: BTreeMap::new(),
            theirs: BTreeMap::new(),
        }
    }

    /// That of `key`, of records without a log: what a coordinator at work still knows. `freeze` is what its rules
    /// keep from being withdrawn, where anything is.
    pub fn known(key: IntentKey, freeze: Option<Micros>) -> Self {
        Story { freeze: Some(freeze), ..Story::new(key, false) }
    }

    /// Whose it is.
    pub fn key(&self) -> &IntentKey {
        &self.key
    }

    /// What happened, in order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.first.iter().chain(&self.last)
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// How many events of the middle were not kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// What is known of what was in the way.
    pub fn holder(&self, wanted: &Wanted) -> Option<&Holder> {
        self.holders.get(wanted).and_then(Option::as_ref)
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// Where it holds rules that this version cannot read.
    pub fn take(&mut self, record: &Record) -> Result<(), ConfigError> {
        let slot = record.slot;
        for note in &record.notes.rights {
            if let RightsNote::Forbidden(note) = note
                && self.is_tried(note)
            {
                self.push(Event::Forbidden { slot, note: note.clone() });
            }
        }
        for (at, input) in record.inputs.iter().enumerate() {
            if self.is_about(input) {
                let (sent, administered_by) = rights_of(record, at);
                self.push(Event::Input { slot, input: input.clone(), sent, administered_by });
            }
        }
        if let Some((_, at, intent)) = taken_in(record).filter(|(key, ..)| *key == self.key).last() {
            self.declared = Some((at, intent.clone()));
        }
        let decisions = record.decisions.iter().zip(record.ranks.iter().chain(std::iter::repeat(&None)));
        for (decision, rank) in decisions {
            if decision.key != self.key {
                continue;
            }
            self.want(slot, &decision.verdict);
            let (decision, rank) = (decision.clone(), *rank);
            self.push(Event::Decided { slot, at: record.at, decision, rank });
        }
        let is_config = |input: &StoredInput| match input {
            StoredInput::System { op: StoredOp::Config { document, .. }, .. } => Some(document.clone()),
            _ => None,
        };
        if let Some(document) = record.inputs.iter().rev().find_map(is_config) {
            self.freeze = Some(rules_of(&document)?.preemption);
        }
        Ok(())
    }

    /// Takes how the intent stood, as a record of when that was seen: with what was declared, which came at some time
    /// before, and what it was told last.
    pub fn take_standing(&mut self, record: &Record) {
        let declared = record.inputs.iter().find(|input| self.is_about(input)).cloned();
        let decision = record.decisions.iter().find(|decision| decision.key == self.key).cloned();
        if let Some(decision) = &decision {
            self.want(record.slot, &decision.verdict);
        }
        if declared.is_some() || decision.is_some() {
            self.push(Event::Stood { slot: record.slot, at: record.at, declared, decision });
        }
    }

    fn is_about(&self, input: &StoredInput) -> bool {
        match input {
            StoredInput::Agent { agent, op, .. } => *agent == self.key.agent && op.id() == self.key.id,
            StoredInput::System { op: StoredOp::Release { agent, id, .. }, .. } => {
                *agent == self.key.agent && *id == self.key.id
            }
            StoredInput::System { .. } => false,
        }
    }

    fn is_tried(&self, note: &ForbiddenNote) -> bool {
        match &note.asked {
            Attempt::Declare(id) | Attempt::Renew(id) | Attempt::Release(id) => {
                note.agent == self.key.agent && *id == self.key.id
            }
            Attempt::Administer(agent, id) => *agent == self.key.agent && *id == self.key.id,
            Attempt::Look | Attempt::Drain | Attempt::SetCapacity => false,
        }
    }

    fn push(&mut self, event: Event) {
        if self.first.len() < AUDIT_STORY / 2 {
            self.first.push(event);
            return;
        }
        if self.last.len() == AUDIT_STORY / 2 {
            self.last.pop_front();
            self.left_out += 1;
        }
        self.last.push_back(event);
    }

    /// Takes down what has to be looked for.
    fn want(&mut self, slot: Slot, verdict: &Verdict) {
        let blockers = blockers(verdict);
        if matches!(verdict, Verdict::Conflict(_)) {
            self.freeze_then = self.freeze;
            self.declared_then = self.declared.clone();
        }
        for blocker in blockers {
            // Those of a story that is kept in part may be many.
            if self.holders.len() < AUDIT_STORY {
                self.holders.entry(Wanted::of(blocker, slot)).or_default();
            }
        }
    }

    /// Takes a record the second time, for what was in the way.
    pub fn look(&mut self, record: &Record) {
        for (key, _, intent) in taken_in(record) {
            let least = Wanted { key, of: Ok(Token::new(0)) };
            let is_wanted = self.holders.range(&least..).next().is_some_and(|(it, _)| it.key == least.key);
            if is_wanted {
                self.theirs.insert(least.key, intent.clone());
            }
        }
        let ranks = record.ranks.iter().chain(std::iter::repeat(&None));
        for (decision, rank) in record.decisions.iter().zip(ranks) {
            self.look_at(record, decision, *rank);
        }
    }

    fn look_at(&mut self, record: &Record, decision: &Decision, rank: Option<Rank>) {
        let Decision { key, answers: None, verdict } = decision else { return };
        let (of, granted) = match verdict {
            Verdict::Granted { start, end, token } | Verdict::Moved { start, end, token } => {
                (Some(*token), Some((*start, *end)))
            }
            _ => (None, None),
        };
        let intent = self.theirs.get(key).cloned();
        let (slot, at) = (record.slot, record.at);
        let holder = Holder { slot, at, rank, granted, intent };
        if let Some(token) = of {
            if let Some(found) = self.holders.get_mut(&Wanted { key: key.clone(), of: Ok(token) }) {
                *found = Some(holder);
            }
            return;
        }
        let held = Wanted { key: key.clone(), of: Err(slot) };
        for (wanted, found) in self.holders.range_mut(held..) {
            if wanted.key != *key {
                break;
            }
            *found = Some(holder.clone());
        }
    }

    /// What would have made the last conflict a grant, as far as that follows from what is recorded;
    /// nothing where a grant came after it, or none was refused.
    pub fn remedies(&self) -> Vec<Remedy> {
        let decided = self.events().filter_map(|event| match event {
            Event::Decided { decision, slot, at, rank } if decision.answers.is_none() => {
                Some((decision, *slot, *at, *rank))
            }
            // Of one that waits it holds as it is seen. When another ended is not known, nor what would have helped then.
            Event::Stood { decision: Some(decision), slot, at, .. } if !has_ended(&decision.verdict) => {
                Some((decision, *slot, *at, None))
            }
            _ => None,
        });
        let is_verdict = |verdict: &Verdict| {
            matches!(
                verdict,
                Verdict::Conflict(_)
                    | Verdict::Granted { .. }
                    | Verdict::Moved { .. }
                    | Verdict::Stale { .. }
            )
        };
        let last = decided.filter(|(decision, ..)| is_verdict(&decision.verdict)).last();
        match last {
            Some((Decision { verdict: Verdict::Conflict(conflict), .. }, slot, at, rank)) => {
                let found = |blocker: &Blocker| self.holder(&Wanted::of(blocker, slot));
                let case = remedy::Case {
                    declared: self.declared_then.as_ref(),
                    conflict,
                    slot,
                    at,
                    rank,
                    freeze: self.freeze_then.flatten(),
                };
                case.remedies(&found)
            }
            Some((Decision { verdict: Verdict::Stale { path, as_of, .. }, .. }, ..)) => {
                vec![Remedy::Reading { path: path.clone(), as_of: *as_of }]
            }
            _ => Vec::new(),
        }
    }
}

/// What the record says of the rights of one input.
fn rights_of(record: &Record, input: usize) -> (Option<Sent>, Option<Agent>) {
    let mut found = (None, None);
    for note in &record.notes.rights {
        match note {
            RightsNote::Lowered { input: of, sent } if *of == input => found.0 = Some(sent.clone()),
            RightsNote::Administered { input: of, by } if *of == input => found.1 = Some(by.clone()),
            _ => {}
        }
    }
    found
}

/// Whether that is the end of an intent that was not granted.
fn has_ended(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Conflict(conflict) if conflict.is_final)
}

/// Who was in the way.
fn blockers(verdict: &Verdict) -> &[Blocker] {
    match verdict {
        Verdict::Conflict(conflict) => &conflict.blockers,
        Verdict::RenewDenied(RenewDenial::Kept { blockers, .. }) => blockers,
        _ => &[],
    }
}
