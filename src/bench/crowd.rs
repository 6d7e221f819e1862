//! State directories with many grants in force, as a coordinator would have left them.

use std::sync::Arc;

use super::BenchError;
use crate::audit::{Appended, SlotEntry, config_hash, encode};
use crate::config::{Config, StateConfig};
use crate::resolver::{AgentOp, Input, Resolver, RulesChange, SlotBatch, SlotOutcome, SystemOp};
use crate::session::coordinator::{DeclaredBy, SessionNotes};
use crate::store::{Begin, Disk, Durability, Log, Options};
use crate::types::{Agent, Micros, RawClaim, RawIntent, RawMode, RawTarget, Slot, Time};

/// Agents that the grants belong to.
const AGENTS: u64 = 1000;
/// Grants on one path, one after the other.
const ON_A_PATH: u64 = 10;
/// How far ahead the first of them begins.
const AHEAD: Micros = Micros::from_secs(3600);
/// From one of them to the next, of which each lasts half.
const APART: Micros = Micros::from_secs(2);
/// How much earlier than now the last of its slots is over.
const AGO: Micros = Micros::from_secs(1);

/// Grants, and in how many slots they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// How many grants; all in force for an hour.
    pub grants: u64,
    /// Declarations of one slot, each granted; 1 or more.
    pub per_slot: u64,
}

impl Crowd {
    /// So many grants, in slots of a thousand.
    pub fn of(grants: u64) -> Self {
        Crowd { grants, per_slot: 1000 }
    }
}

/// Begins a state directory on `disk`, which is empty, with the log of a coordinator that has given the
/// grants of `crowd` up to `now`. It makes no snapshot.
///
/// # Errors
/// Where the directory is not empty or the disk fails.
pub fn fill(
    disk: Arc<dyn Disk>,
    config: &Config,
    settings: &StateConfig,
    crowd: Crowd,
    now: Time,
) -> Result<(), BenchError> {
    let options = Options {
        durability: Durability::None,
        segment_bytes: settings.segment_bytes,
        compress: settings.compress,
        ..Options::default()
    };
    let id = super::load::run_number();
    let (log, _) = Log::open(disk, options, Begin::New(id), &mut |_| Ok(()))
        .map_err(|error| BenchError::Recovery(error.into()))?;
    let length = config.rules.length;
    let per_slot = crowd.per_slot.max(1);
    let slots = crowd.grants.div_ceil(per_slot) + 1;
    let span = Micros::from_us(length.as_us().saturating_mul(slots));
    let first = Slot::of(now.before(AGO.plus(span)), length);
    let resolver = Resolver::new(config.rules.clone()).reporting_changes();
    let document: Arc<str> = config.rules_document().into();
    let mut filling = Filling { log, resolver, length, hash: config_hash(&document), body: Vec::new() };
    filling.begin(config, &document, first)?;
    let begin = now.after(AHEAD);
    for nth in 0..slots - 1 {
        let numbers = nth * per_slot..crowd.grants.min((nth + 1) * per_slot);
        filling.slot(Slot::new(first.number() + 1 + nth), begin, numbers, crowd.grants)?;
    }
    filling.log.sync().map_err(BenchError::Journal)
}

struct Filling {
    log: Log,
    resolver: Resolver,
    length: Micros,
    hash: [u8; 32],
    body: Vec<u8>,
}

impl Filling {
    /// The first slot of a coordinator.
    fn begin(&mut self, config: &Config, document: &Arc<str>, slot: Slot) -> Result<(), BenchError> {
        let rules = config.rules.clone();
        let resources = Some(rules.resources.clone());
        let change = RulesChange { rules, resources, document: Arc::clone(document) };
        let ops = [SystemOp::Restart { next_token: 1 }, SystemOp::Config(Box::new(change))];
        let at = slot.opens(self.length);
        let inputs = ops.into_iter().map(|op| Input::System { at, op }).collect();
        let hash = std::mem::replace(&mut self.hash, config_hash(""));
        self.decide(slot, inputs, &SessionNotes::default())?;
        self.hash = hash;
        Ok(())
    }

    fn slot(
        &mut self,
        slot: Slot,
        begin: Time,
        numbers: std::ops::Range<u64>,
        grants: u64,
    ) -> Result<(), BenchError> {
        let at = slot.opens(self.length);
        let paths = grants.div_ceil(ON_A_PATH);
        let (label, note): (Arc<str>, Arc<str>) = ("".into(), "".into());
        let inputs: Vec<Input> = numbers.map(|number| declare(at, begin, number, paths)).collect();
        let declared = (0..inputs.len()).map(|input| {
            let (label, note) = (Arc::clone(&label), Arc::clone(&note));
            DeclaredBy { input, label, note }
        });
        let notes = SessionNotes { declared: declared.collect(), ..SessionNotes::default() };
        self.decide(slot, inputs, &notes)
    }

    fn decide(&mut self, slot: Slot, inputs: Vec<Input>, notes: &SessionNotes) -> Result<(), BenchError> {
        let batch = SlotBatch::new(slot, self.length, inputs)
            .unwrap_or_else(|error| unreachable!("all arrive as the slot opens: {error}"));
        let outcome: SlotOutcome = self.resolver.resolve(&batch);
        self.body.clear();
        encode(&self.hash, SlotEntry { batch: &batch, outcome: &outcome, notes }, &mut self.body);
        match self.log.append(&self.body) {
            Appended::Committed => Ok(()),
            Appended::Refused(why) | Appended::Unknown(why) => Err(BenchError::Journal(why)),
        }
    }
}

/// The declaration of one grant: on a path of depth 3 that it shares with others, before and after it.
fn declare(at: Time, begin: Time, number: u64, paths: u64) -> Input {
    let (cell, nth) = (number % paths, number / paths);
    let path = format!("zone-{}/row-{}/cell-{cell}", cell % 100, cell % 1000);
    let duration = APART.as_us() / 2;
    let claim = RawClaim { target: RawTarget::Path(path), mode: RawMode::Exclusive, offset: 0, duration };
    let start = Some(begin.as_us() + nth * APART.as_us());
    let raw = RawIntent { id: number + 1, start, claims: vec![claim], ..RawIntent::default() };
    let intent = raw.parse().unwrap_or_else(|why| unreachable!("{}: {}", why.field, why.expected));
    let name = format!("agent-{}", number % AGENTS);
    let agent = Agent::new(&name).unwrap_or_else(|| unreachable!("a word and a number are a name"));
    Input::Agent { at, agent, op: AgentOp::Declare(intent) }
}
