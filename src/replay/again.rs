//! Deciding recorded slots again, and the first in which something else is decided.

use std::fmt;

use super::Base;
use crate::audit::Record;
use crate::config::ConfigError;
use crate::coordinator::rules_of;
use crate::resolver::{Input, Rank, Resolver, Rules, SlotBatch, SlotOutcome, SystemOp};
use crate::trace::write_decision;
use crate::types::{Decision, Micros, Slot, Time};

/// The first slot that is decided differently, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The slot.
    pub slot: Slot,
    /// What differs, in a word: `decisions`, `score`, `digest`, `record`.
    pub what: &'static str,
    /// What the log says.
    pub recorded: String,
    /// What is decided now.
    pub decided: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { slot, what, recorded, decided } = self;
        write!(f, "slot {} differs ({what})\n  recorded  {recorded}\n  decided   {decided}", slot.number())
    }
}

impl std::error::Error for Difference {}

/// Decides the records of a log, one after the other, as the coordinator did that wrote it.
#[derive(Debug)]
pub struct Replayer {
    resolver: Resolver,
    length: Micros,
    last: Option<Slot>,
}

impl Replayer {
    /// From `base` on, for slots of `length`.
    ///
    /// # Errors
    /// Where its rules are no configuration that this version reads.
    pub fn new(base: Base, length: Micros) -> Result<Self, ConfigError> {
        let rules = match base.state.document() {
            Some(document) => rules_of(document)?,
            None => Rules { length, ..Rules::default() },
        };
        let pending =
            base.state.pending().iter().map(|op| op.to_op(rules_of)).collect::<Result<Vec<_>, _>>()?;
        Ok(Replayer::under(base, rules, &pending, length))
    }

    /// From `base` on, under other rules than those it holds.
    pub(super) fn under(base: Base, rules: Rules, pending: &[SystemOp], length: Micros) -> Self {
        let (image, _) = base.state.into_parts();
        let last = image.last_slot();
        Replayer { resolver: Resolver::from_image(image, rules, pending), length, last }
    }

    /// Whether some intent is undecided.
    pub fn has_undecided(&self) -> bool {
        self.resolver.has_undecided()
    }

    /// Decides the slots before that of `record`, and that one, and compares.
    ///
    /// # Errors
    /// Where something differs; nothing that follows can be compared.
    pub fn take(&mut self, record: &Record) -> Result<(), Box<Difference>> {
        let inputs =
            record.inputs.iter().map(|input| input.to_input(rules_of)).collect::<Result<Vec<_>, _>>();
        let inputs = inputs.map_err(|error| odd(record, format!("rules that cannot be read: {error}")))?;
        let mut unrecorded = None;
        let outcome = self.decide(record.slot, record.at, inputs, &mut |outcome| {
            if unrecorded.is_none() && !outcome.decisions.is_empty() {
                unrecorded = Some(outcome.clone());
            }
        });
        if let Some(outcome) = unrecorded {
            let decided = line(outcome.slot, outcome.at, outcome.decisions.first());
            let (slot, recorded) = (outcome.slot, "no record of this slot".to_owned());
            return Err(Box::new(Difference { slot, what: "record", recorded, decided }));
        }
        let outcome = outcome.map_err(|why| odd(record, why.to_owned()))?;
        compare(record, &outcome)
    }

    /// Decides the slots that are due before `slot`, each given to `between`, and then that one.
    ///
    /// # Errors
    /// Where no coordinator could have decided that slot with these inputs.
    pub(super) fn decide(
        &mut self,
        slot: Slot,
        at: Time,
        inputs: Vec<Input>,
        between: &mut dyn FnMut(&SlotOutcome),
    ) -> Result<SlotOutcome, &'static str> {
        if self.resolver.rules().length != self.length || slot.decided_at(self.length) != at {
            return Err("a slot of another length");
        }
        if self.last.is_some_and(|last| slot <= last) {
            return Err("a slot that is not after the one before");
        }
        let batch = SlotBatch::new(slot, self.length, inputs);
        let batch = batch.map_err(|_| "an input that did not arrive in its slot and turn")?;
        while let Some(due) = self.resolver.next_due().filter(|due| *due < slot) {
            between(&self.resolver.resolve(&SlotBatch::empty(due)));
        }
        self.last = Some(slot);
        Ok(self.resolver.resolve(&batch))
    }
}

/// A record that no coordinator writes.
fn odd(record: &Record, recorded: String) -> Box<Difference> {
    let decided = "nothing: no coordinator writes such a record".to_owned();
    Box::new(Difference { slot: record.slot, what: "record", recorded, decided })
}

fn compare(record: &Record, outcome: &SlotOutcome) -> Result<(), Box<Difference>> {
    let slot = record.slot;
    let count = record.decisions.len().max(outcome.decisions.len());
    let differs = |at: &usize| record.decisions.get(*at) != outcome.decisions.get(*at);
    if let Some(at) = (0..count).find(differs) {
        let recorded = line(slot, record.at, record.decisions.get(at));
        let decided = line(slot, outcome.at, outcome.decisions.get(at));
        return Err(Box::new(Difference { slot, what: "decisions", recorded, decided }));
    }
    let bits = |rank: Option<&Option<Rank>>| {
        rank.copied().flatten().map(|rank| (rank.score.to_bits(), rank.is_overdue))
    };
    let differs = |at: &usize| bits(record.ranks.get(*at)) != bits(outcome.ranks.get(*at));
    if let Some(at) = (0..count).find(differs) {
        let of = |rank: Option<&Option<Rank>>| {
            let decision = line(slot, record.at, record.decisions.get(at));
            format!("{} of {decision}", score(rank.copied().flatten()))
        };
        let (recorded, decided) = (of(record.ranks.get(at)), of(outcome.ranks.get(at)));
        return Err(Box::new(Difference { slot, what: "score", recorded, decided }));
    }
    if record.digest != outcome.digest {
        let (recorded, decided) = (record.digest.to_string(), outcome.digest.to_string());
        return Err(Box::new(Difference { slot, what: "digest", recorded, decided }));
    }
    Ok(())
}

fn score(rank: Option<Rank>) -> String {
    match rank {
        None => "no score".to_owned(),
        Some(Rank { score, is_overdue: false }) => format!("score {score} ({:016x})", score.to_bits()),
        Some(Rank { is_overdue: true, .. }) => "overdue".to_owned(),
    }
}

/// A decision as a line of JSON.
fn line(slot: Slot, at: Time, decision: Option<&Decision>) -> String {
    let Some(decision) = decision else { return "no such decision".to_owned() };
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = write_decision(&mut out, slot, at, decision);
    String::from_utf8_lossy(&out).trim_end().to_owned()
}
