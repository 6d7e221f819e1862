//! The rules: the configuration of the decision core, already checked.

use std::sync::Arc;

use crate::priority::{PriorityModel, Weighted};
use crate::types::{Micros, Path};

/// Everything that the decision core can be told, beside its inputs.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Slot length, 100 µs to 1 s.
    pub length: Micros,
    /// Earliest start after the decision time.
    pub min_lead: Micros,
    /// How far ahead a claim may end.
    pub horizon: Micros,
    /// How old a reading may be that an intent rests on.
    pub history: Micros,
    /// How long an ended id is remembered, so that a repeat is answered and not decided again.
    pub retention: Micros,
    /// `Some(freeze)` where preemption is enabled: grants whose first window begins up to `freeze`
    /// after the decision time are safe.
    pub preemption: Option<Micros>,
    /// The priority model.
    pub model: Arc<dyn PriorityModel>,
    /// What the model's `held` looks back on.
    pub fair_window: Micros,
    /// After being undecided for longer than this, an intent goes before the others of its class.
    pub patience: Option<Micros>,
    /// Capacities, thresholds and bounds by path; at most one entry a path.
    pub resources: Vec<Resource>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            length: Micros::from_ms(10),
            min_lead: Micros::ZERO,
            horizon: Micros::from_secs(24 * 3600),
            history: Micros::from_secs(3600),
            retention: Micros::from_secs(60),
            preemption: None,
            model: Arc::new(Weighted::default()),
            fair_window: Micros::from_secs(60),
            patience: None,
            resources: Vec::new(),
        }
    }
}

/// What holds for a path: its capacity, and for it and everything below, unless a longer prefix
/// sets the same key, the thresholds and the longest hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// The path.
    pub path: Path,
    /// Units that may be out at one instant, at the path and below it together. May be 0.
    pub capacity: Option<u64>,
    /// Overlap in time that is no conflict yet.
    pub time_tolerance: Option<Micros>,
    /// Overlap ratio of two regions that is no conflict yet, in `[0, 1)`.
    pub overlap_ratio: Option<f64>,
    /// The longest that a claim may last, renewals included.
    pub max_hold: Option<Micros>,
}

impl Resource {
    /// A path about which nothing is set.
    pub fn new(path: Path) -> Self {
        Resource { path, capacity: None, time_tolerance: None, overlap_ratio: None, max_hold: None }
    }
}
