//! Records: what arrived in one slot, what was decided about it, and what that changed.

use std::sync::Arc;

use super::body::{BodyError, Reader, Writer};
use super::{SlotEntry, TextKept};
use crate::resolver::state::SlotChanges;
use crate::resolver::{AgentOp, Input, Rank, Rules, RulesChange, StateDigest, SystemOp};
use crate::session::coordinator::SessionNotes;
use crate::types::{Agent, Decision, Intent, IntentId, IntentKey, Path, Slot, Time};

/// The version of the decision rules (docs/DECISIONS.md). It goes up with any change of what is
/// decided, so that a replay knows why it differs.
pub const RULES_VERSION: u16 = 1;

/// What a record says of its slot, but for what the slot changed in the state.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Which slot it is of.
    pub slot: Slot,
    /// The slot's decision time.
    pub at: Time,
    /// The version of the rules by which it was decided: [`RULES_VERSION`] of that build.
    pub rules_version: u16,
    /// The hash of the configuration under which it was decided.
    pub config_hash: [u8; 32],
    /// What arrived, in arrival order.
    pub inputs: Vec<StoredInput>,
    /// What was decided, in order.
    pub decisions: Vec<Decision>,
    /// What ordered each decision; see [`SlotOutcome::ranks`](crate::resolver::SlotOutcome::ranks).
    pub ranks: Vec<Option<Rank>>,
    /// The digest of the state after the slot.
    pub digest: StateDigest,
    /// What sessions need to go on.
    pub notes: SessionNotes,
}

/// An input as a record keeps it.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredInput {
    /// From an agent.
    Agent {
        /// When it arrived.
        at: Time,
        /// From whom.
        agent: Agent,
        /// What it asks for.
        op: AgentOp,
    },
    /// From the operator or the coordinator itself.
    System {
        /// When it arrived.
        at: Time,
        /// What it sets.
        op: StoredOp,
    },
}

/// A [`SystemOp`] in which a change of the rules is the text of a configuration: this room cannot
/// read one.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredOp {
    /// See [`SystemOp::Capacity`].
    Capacity {
        /// Where.
        path: Path,
        /// How many units.
        capacity: u64,
    },
    /// See [`SystemOp::Release`].
    Release {
        /// Whose.
        agent: Agent,
        /// Which intent.
        id: IntentId,
        /// Why.
        reason: String,
    },
    /// See [`SystemOp::Config`].
    Config {
        /// The rules, resources included, as the configuration file spells them.
        document: Arc<str>,
        /// Whether its table of resources takes the place of the present one.
        resources: bool,
    },
    /// See [`SystemOp::Restart`].
    Restart {
        /// The least next token.
        next_token: u64,
    },
}

impl StoredInput {
    /// When it arrived.
    pub fn at(&self) -> Time {
        match self {
            StoredInput::Agent { at, .. } | StoredInput::System { at, .. } => *at,
        }
    }

    /// The input as the decision core takes it; `read_rules` reads the text of a configuration.
    ///
    /// # Errors
    /// That of `read_rules`.
    pub fn to_input<E>(&self, read_rules: impl FnOnce(&str) -> Result<Rules, E>) -> Result<Input, E> {
        Ok(match self {
            StoredInput::Agent { at, agent, op } => {
                Input::Agent { at: *at, agent: agent.clone(), op: op.clone() }
            }
            StoredInput::System { at, op } => Input::System { at: *at, op: op.to_op(read_rules)? },
        })
    }
}

impl From<&Input> for StoredInput {
    fn from(input: &Input) -> Self {
        match input {
            Input::Agent { at, agent, op } => {
                StoredInput::Agent { at: *at, agent: agent.clone(), op: op.clone() }
            }
            Input::System { at, op } => StoredInput::System { at: *at, op: op.into() },
        }
    }
}

impl StoredOp {
    /// What the decision core takes; `read_rules` reads the text of a configuration.
    ///
    /// # Errors
    /// That of `read_rules`.
    pub fn to_op<E>(&self, read_rules: impl FnOnce(&str) -> Result<Rules, E>) -> Result<SystemOp, E> {
        Ok(match self {
            StoredOp::Capacity { path, capacity } => {
                SystemOp::Capacity { path: path.clone(), capacity: *capacity }
            }
            StoredOp::Release { agent, id, reason } => {
                SystemOp::Release { agent: agent.clone(), id: *id, reason: reason.clone() }
            }
            StoredOp::Config { document, resources } => {
                let rules = read_rules(document)?;
                let resources = resources.then(|| rules.resources.clone());
                SystemOp::Config(Box::new(RulesChange { rules, resources, document: document.clone() }))
            }
            StoredOp::Restart { next_token } => SystemOp::Restart { next_token: *next_token },
        })
    }
}

impl From<&SystemOp> for StoredOp {
    fn from(op: &SystemOp) -> Self {
        match op {
            SystemOp::Capacity { path, capacity } => {
                StoredOp::Capacity { path: path.clone(), capacity: *capacity }
            }
            SystemOp::Release { agent, id, reason } => {
                StoredOp::Release { agent: agent.clone(), id: *id, reason: reason.clone() }
            }
            SystemOp::Config(change) => {
                StoredOp::Config { document: change.document.clone(), resources: change.resources.is_some() }
            }
            SystemOp::Restart { next_token } => StoredOp::Restart { next_token: *next_token },
        }
    }
}

/// Appends the body of a slot's record to `out`.
///
/// `config_hash` is that of the configuration in force. A record of an outcome without changes can be read, but not applied.
pub fn encode(config_hash: &[u8; 32], entry: SlotEntry<'_>, out: &mut Vec<u8>) {
    encode_keeping(&TextKept::All, config_hash, entry, out);
}

/// As [`encode`], and of agents' free text with what `kept` says. What is decided by the record is the same, and
/// so is the state that it makes.
pub fn encode_keeping(kept: &TextKept, config_hash: &[u8; 32], entry: SlotEntry<'_>, out: &mut Vec<u8>) {
    let SlotEntry { batch, outcome, notes } = entry;
    let inputs = batch.inputs();
    let mut writer = Writer::new(out, outcome.at, inputs.len().max(outcome.decisions.len()));
    writer.keep_text(kept);
    writer.number(outcome.slot.number());
    writer.number(outcome.at.as_us());
    writer.number(RULES_VERSION.into());
    writer.bytes(config_hash);
    writer.wide(outcome.digest.to_number());
    writer.inputs(inputs, outcome.at);
    writer.decisions(&outcome.decisions, &outcome.ranks);
    writer.notes(notes);
    writer.changes(inputs, outcome);
}

impl Record {
    /// Reads a record's body, up to what the slot changed.
    ///
    /// # Errors
    /// Where the bytes are no such body.
    pub fn decode(body: &[u8]) -> Result<(Self, ChangesPart<'_>), BodyError> {
        let mut reader = Reader::new(body);
        let (slot, at) = (Slot::new(reader.number()?), Time::from_us(reader.number()?));
        reader.time_from(at);
        let version = reader.place();
        let rules_version = u16::try_from(reader.number()?)
            .map_err(|_| BodyError { at: version, what: "a version of the rules that cannot be" })?;
        let config_hash = reader.array()?;
        let digest = StateDigest::from_number(reader.wide()?);
        let inputs = reader.inputs()?;
        let (decisions, ranks) = reader.decisions()?;
        let notes = reader.notes()?;
        let record = Record { slot, at, rules_version, config_hash, inputs, decisions, ranks, digest, notes };
        Ok((record, ChangesPart { reader }))
    }
}

/// The rest of a record's body: what the slot changed.
#[derive(Debug)]
pub struct ChangesPart<'b> {
    reader: Reader<'b>,
}

impl ChangesPart<'_> {
    /// Reads it. `record` is the one that it came with; `lookup` tells what an id stood for before the
    /// slot, by the state that the changes are to be applied to.
    ///
    /// # Errors
    /// Where the bytes are no such changes, or go on after them; or the state is not the one before.
    pub fn decode(
        mut self,
        record: &Record,
        lookup: &dyn Fn(&IntentKey) -> Option<Arc<Intent>>,
    ) -> Result<SlotChanges, BodyError> {
        self.reader.changes(record, lookup)
    }
}
