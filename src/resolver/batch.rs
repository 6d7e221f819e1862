//! One slot's inputs, in arrival order: what the decision core is fed with.

use std::fmt;
use std::sync::Arc;

use crate::resolver::{Resource, Rules};
use crate::types::{Agent, Intent, IntentId, Invalid, Micros, Path, RawIntent, Slot, Time};

/// What an agent asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentOp {
    /// Declares an intent.
    Declare(Intent),
    /// Declares the same id again, in place of what it stands for.
    Revise(Intent),
    /// A declaration or revision with a value outside its range: it is answered in its turn.
    Invalid {
        /// Whether it is a revision.
        revision: bool,
        /// What was sent; a record of it is refused alike.
        raw: Arc<RawIntent>,
        /// What is wrong with it.
        why: Invalid,
    },
    /// Ends a grant, or withdraws what is undecided.
    Release {
        /// Which intent.
        id: IntentId,
    },
    /// Asks for a new end of a lease.
    Renew {
        /// Which intent.
        id: IntentId,
        /// The new end.
        until: Time,
    },
}

impl AgentOp {
    /// The intent that it names.
    pub fn id(&self) -> IntentId {
        match self {
            AgentOp::Declare(intent) | AgentOp::Revise(intent) => intent.id,
            AgentOp::Invalid { raw, .. } => IntentId::new(raw.id),
            AgentOp::Release { id } | AgentOp::Renew { id, .. } => *id,
        }
    }
}

/// What is not an agent's own and an input all the same, so that a trace decides as the live
/// coordinator did.
#[derive(Clone, Debug)]
pub enum SystemOp {
    /// The operator sets a capacity; it holds from here on.
    Capacity {
        /// Where.
        path: Path,
        /// How many units; may be 0.
        capacity: u64,
    },
    /// The operator releases an intent.
    Release {
        /// Whose.
        agent: Agent,
        /// Which intent.
        id: IntentId,
        /// Why; the holder is told.
        reason: String,
    },
    /// New rules from the next slot on.
    Config(Box<RulesChange>),
    /// The coordinator was restarted: tokens go on at `next_token` at least.
    Restart {
        /// The least next token.
        next_token: u64,
    },
}

/// New rules. The slot length is the coordinator's for life and is not changed.
#[derive(Clone, Debug)]
pub struct RulesChange {
    /// All rules but the resources.
    pub rules: Rules,
    /// The new table of resources; `None` keeps the present one, capacities set at run time included.
    pub resources: Option<Vec<Resource>>,
    /// The rules, resources included, as the configuration file spells them. For the record; what
    /// decides is above.
    pub document: Arc<str>,
}

/// One message, stamped with its arrival.
#[derive(Clone, Debug)]
pub enum Input {
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
        op: SystemOp,
    },
}

impl Input {
    /// When it arrived.
    pub fn at(&self) -> Time {
        match self {
            Input::Agent { at, .. } | Input::System { at, .. } => *at,
        }
    }

    /// The intent that it names, if it names one.
    pub(super) fn named(&self) -> Option<(&Agent, IntentId)> {
        match self {
            Input::Agent { agent, op, .. } => Some((agent, op.id())),
            Input::System { op: SystemOp::Release { agent, id, .. }, .. } => Some((agent, *id)),
            Input::System { .. } => None,
        }
    }
}

/// Why a batch cannot be built: an input that does not belong to the slot or its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchError {
    /// The input at fault, by index.
    pub input: usize,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "input {} arrived outside the slot or before the input ahead of it", self.input)
    }
}

impl std::error::Error for BatchError {}

/// All that arrived in one slot, in arrival order.
#[derive(Clone, Debug)]
pub struct SlotBatch {
    slot: Slot,
    inputs: Vec<Input>,
}

impl SlotBatch {
    /// The batch of `slot`.
    ///
    /// # Errors
    /// Where an input did not arrive within the slot, or arrives before the one ahead of it.
    pub fn new(slot: Slot, length: Micros, inputs: Vec<Input>) -> Result<Self, BatchError> {
        let mut last = slot.opens(length);
        for (input, message) in inputs.iter().enumerate() {
            if message.at() < last || message.at() >= slot.decided_at(length) {
                return Err(BatchError { input });
            }
            last = message.at();
        }
        Ok(SlotBatch { slot, inputs })
    }

    /// A slot in which nothing arrived.
    pub fn empty(slot: Slot) -> Self {
        SlotBatch { slot, inputs: Vec::new() }
    }

    /// Which slot it is.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The inputs, in arrival order.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }
}
