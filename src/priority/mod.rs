//! Priority models: how intents of one class are ordered. Policy is a trait; the order of classes,
//! patience and arrival around it is the resolver's and cannot be changed here.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod conformance;
mod deadline;
mod fair;
mod fifo;
mod weighted;

use std::fmt;
use std::sync::Arc;

pub use deadline::Deadline;
pub use fair::Fair;
pub use fifo::Fifo;
pub use weighted::Weighted;

use crate::types::{Agent, Intent, Micros, Time};

/// What a model may look at beside the intent itself.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Whose intent it is.
    pub agent: &'a Agent,
    /// When it arrived.
    pub arrival: Time,
    /// How long it has been undecided at the decision time.
    pub waited: Micros,
    /// The decision time.
    pub now: Time,
    /// The earliest start that it may take in this slot.
    pub earliest: Time,
    /// How long its agent held grants within the `fair_window` before the decision time, summed.
    pub held: Micros,
}

/// Maps an intent and its context to a score; the highest goes first.
///
/// A score must depend on nothing but the arguments: the same trace is decided again in audits and
/// on other machines. NaN and infinite scores rank lowest and are counted.
///
/// ```
/// use preclaim::priority::{Context, PriorityModel};
/// use preclaim::types::Intent;
///
/// /// Small intents first.
/// #[derive(Debug)]
/// struct FewestClaims;
///
/// impl PriorityModel for FewestClaims {
///     fn score(&self, intent: &Intent, _: &Context<'_>) -> f64 {
///         -(intent.claims.len() as f64)
///     }
/// }
/// ```
pub trait PriorityModel: fmt::Debug + Send + Sync {
    /// The intent's score in this slot.
    fn score(&self, intent: &Intent, context: &Context<'_>) -> f64;

    /// Whether the score depends on [`Context::held`]. Summing that up costs time for an agent with many
    /// grants; for a model that says no here, it is left at zero.
    fn looks_at_held(&self) -> bool {
        true
    }
}

impl<M: PriorityModel + ?Sized> PriorityModel for &M {
    fn score(&self, intent: &Intent, context: &Context<'_>) -> f64 {
        (**self).score(intent, context)
    }

    fn looks_at_held(&self) -> bool {
        (**self).looks_at_held()
    }
}

impl<M: PriorityModel + ?Sized> PriorityModel for Arc<M> {
    fn score(&self, intent: &Intent, context: &Context<'_>) -> f64 {
        (**self).score(intent, context)
    }

    fn looks_at_held(&self) -> bool {
        (**self).looks_at_held()
    }
}

/// A score as it orders: finite, or below every finite one.
///
/// Not a number and both infinities map to the lowest rank; the flag says that it happened.
pub fn rank(score: f64) -> (f64, bool) {
    if score.is_finite() { (score + 0.0, false) } else { (f64::NEG_INFINITY, true) }
}

/// The code on the page runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../docs/PRIORITY.md")]
struct Page;

#[cfg(test)]
mod tests;
