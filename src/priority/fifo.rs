//! `fifo`: arrival alone decides.

use super::{Context, PriorityModel};
use crate::types::Intent;

/// Scores everything 0, so that arrival decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fifo;

impl PriorityModel for Fifo {
    fn score(&self, _: &Intent, _: &Context<'_>) -> f64 {
        0.0
    }

    fn looks_at_held(&self) -> bool {
        false
    }
}
