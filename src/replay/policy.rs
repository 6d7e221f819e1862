//! What would have been decided under other rules.

use super::{Base, Difference, Replayer, Tally};
use crate::audit::{Record, StoredInput, StoredOp};
use crate::coordinator::rules_of;
use crate::resolver::{Rules, SystemOp};
use crate::types::{Micros, Slot, Time};

/// The log's inputs decided under other rules from the first slot on, counted beside what was decided.
///
/// The operator's inputs and restarts stay, changes of the rules do not count. A release or renewal of
/// a grant that was not had here is answered as any other such.
#[derive(Debug)]
pub struct Policy {
    replayer: Replayer,
    recorded: Tally,
    other: Tally,
    at: Time,
    slots: Option<(Slot, Slot)>,
    records: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Comparison {
    /// As it was.
    pub recorded: Tally,
    /// As it would have been.
    pub other: Tally,
    /// The first slot and the last.
    pub slots: Option<(Slot, Slot)>,
    /// Records.
    pub records: u64,
}

impl Policy {
    /// From `base` on, under `rules`, whose slots are of `length`.
    pub fn new(base: Base, rules: Rules, length: Micros) -> Self {
        let tally = Tally::new(&base.state);
        let at = Time::ZERO;
        let set = base.state.pending().iter().filter_map(|op| match op {
            StoredOp::Capacity { path, capacity } => {
                Some(SystemOp::Capacity { path: path.clone(), capacity: *capacity })
            }
            _ => None,
        });
        let pending: Vec<SystemOp> = set.collect();
        let rules = Rules { length, ..rules };
        let replayer = Replayer::under(base, rules, &pending, length);
        Policy { replayer, recorded: tally.clone(), other: tally, at, slots: None, records: 0 }
    }

    /// Decides the next record's slot.
    ///
    /// # Errors
    /// Where it is none that a coordinator writes.
    pub fn take(&mut self, record: &Record) -> Result<(), Box<Difference>> {
        let is_change =
            |input: &&StoredInput| !matches!(input, StoredInput::System { op: StoredOp::Config { .. }, .. });
        let stored: Vec<StoredInput> = record.inputs.iter().filter(is_change).cloned().collect();
        let inputs = stored.iter().map(|input| input.to_input(rules_of)).collect::<Result<Vec<_>, _>>();
        let odd = |why: String| Difference {
            slot: record.slot,
            what: "record",
            recorded: why,
            decided: "nothing: no coordinator writes such a record".to_owned(),
        };
        let inputs = inputs.map_err(|error| Box::new(odd(error.to_string())))?;
        let (other, recorded) = (&mut self.other, &mut self.recorded);
        let mut between = |outcome: &crate::resolver::SlotOutcome| {
            other.take(outcome.at, &[], &outcome.decisions);
        };
        let outcome = self.replayer.decide(record.slot, record.at, inputs, &mut between);
        let outcome = outcome.map_err(|why| Box::new(odd(why.to_owned())))?;
        other.take(outcome.at, &stored, &outcome.decisions);
        recorded.take(record.at, &record.inputs, &record.decisions);
        self.at = record.at;
        self.slots = Some((self.slots.map_or(record.slot, |(first, _)| first), record.slot));
        self.records += 1;
        Ok(())
    }

    /// Both, up to the last record.
    pub fn finish(mut self) -> Comparison {
        self.recorded.finish(self.at);
        self.other.finish(self.at);
        let Policy { recorded, other, slots, records, .. } = self;
        Comparison { recorded, other, slots, records }
    }
}
