//! Who comes when, from a seed.

use std::time::Duration;

use super::road::{LANES, ticks};
use super::story::Dice;

/// How much there is on the road.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Density {
    pub(crate) name: &'static str,
    /// Vehicles an hour, on all lanes together.
    pub(crate) per_hour: u32,
}

pub(crate) const DENSITIES: [Density; 3] = [
    Density { name: "light", per_hour: 600 },
    Density { name: "busy", per_hour: 1200 },
    Density { name: "dense", per_hour: 1800 },
];

/// Vehicles of one lane are at least so far apart when they come.
const HEADWAY_S: f64 = 1.5;

/// A vehicle that is about to come.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) lane: usize,
    pub(crate) due: usize,
}

/// The arrivals of `seconds`, in the order in which they are due.
pub(crate) fn arrivals(density: Density, seed: u64, seconds: f64) -> Vec<Arrival> {
    let mean = LANES.len() as f64 * 3600.0 / f64::from(density.per_hour);
    let mut arrivals = Vec::new();
    for lane in 0..LANES.len() {
        let mut dice = Dice::new(seed.wrapping_mul(LANES.len() as u64).wrapping_add(lane as u64));
        let mut gap =
            || HEADWAY_S + dice.exponential(Duration::from_secs_f64(mean - HEADWAY_S)).as_secs_f64();
        let mut at = gap() - HEADWAY_S;
        while at < seconds {
            arrivals.push(Arrival { lane, due: ticks(at) });
            at += gap();
        }
    }
    arrivals.sort_by_key(|arrival| arrival.due);
    arrivals
}
