//! `weighted`: the priority inputs, each by its weight, and a bonus that grows with the wait.

use super::{Context, PriorityModel};
use crate::types::Intent;

/// `((w_u·urgency + w_s·(1 − safety_margin)) + w_v·social_value) + aging·(waited_µs / 1e6)` in
/// binary64, in this order.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighted {
    /// Weight of the urgency.
    pub urgency: f64,
    /// Weight of one less the safety margin.
    pub safety_margin: f64,
    /// Weight of the social value.
    pub social_value: f64,
    /// Bonus for each second waited.
    pub aging: f64,
}

impl Default for Weighted {
    fn default() -> Self {
        Weighted { urgency: 0.5, safety_margin: 0.3, social_value: 0.2, aging: 0.1 }
    }
}

impl PriorityModel for Weighted {
    fn score(&self, intent: &Intent, context: &Context<'_>) -> f64 {
        let inputs = (self.urgency * intent.urgency + self.safety_margin * (1.0 - intent.safety_margin))
            + self.social_value * intent.social_value;
        inputs + self.aging * (context.waited.as_us() as f64 / 1e6)
    }

    fn looks_at_held(&self) -> bool {
        false
    }
}
