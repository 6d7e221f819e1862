//! `fair`: who held least lately goes first.

use super::{Context, PriorityModel};
use crate::types::Intent;

/// Minus the seconds that the agent held grants within the `fair_window`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fair;

impl PriorityModel for Fair {
    fn score(&self, _: &Intent, context: &Context<'_>) -> f64 {
        -(context.held.as_us() as f64 / 1e6)
    }
}
