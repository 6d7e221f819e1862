//! The hook before the core: who may ask for what, and whether it can be carried out at all.

use std::fmt::Debug;

use crate::resolver::AgentOp;
use crate::types::{Agent, Micros};
use crate::wire::Refusal;

/// Why a message was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// One of the reasons that are not the core's, such as [`Refusal::Forbidden`].
    pub reason: Refusal,
    /// The field at fault; may be empty.
    pub field: String,
    /// What to do, for people; may be empty.
    pub hint: String,
    /// When to come back, where that helps.
    pub retry_after: Option<Micros>,
}

/// Looks at each valid message before it reaches the core. What it refuses is answered at once and
/// is no input of the core, so a trace decides the same without it.
///
/// Called with the sessions' lock held: an implementation returns within microseconds and never
/// blocks.
pub trait Admission: Debug + Send + Sync {
    /// Whether `agent` may ask for this.
    ///
    /// # Errors
    /// What the agent is told instead.
    fn admit(&self, agent: &Agent, op: &AgentOp) -> Result<(), Denial>;
}

/// Lets everything in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl Admission for Open {
    fn admit(&self, _: &Agent, _: &AgentOp) -> Result<(), Denial> {
        Ok(())
    }
}
