//! `deadline`: the earliest last start goes first.

use super::{Context, PriorityModel};
use crate::types::{Intent, Start};

/// Minus the last start in seconds: start plus slack, or arrival plus wait for an asap intent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline;

impl PriorityModel for Deadline {
    fn score(&self, intent: &Intent, context: &Context<'_>) -> f64 {
        let last = match intent.start {
            Start::At(start) => start.after(intent.slack),
            Start::Asap => context.arrival.after(intent.wait),
        };
        -(last.as_us() as f64 / 1e6)
    }

    fn looks_at_held(&self) -> bool {
        false
    }
}
