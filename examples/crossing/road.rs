//! The junction, and how vehicles move on it: four lanes that cross, and one set of physics for all who drive.
//!
//! Where a vehicle is on its lane is one number, `s`: metres from the line at which it waits to the middle of its
//! front bumper. Time passes in ticks.

use std::time::Duration;

/// Ticks are as long as the coordinator's slots.
pub(crate) const TICK_MS: u64 = 10;
const TICK_S: f64 = TICK_MS as f64 / 1e3;

/// 50 km/h.
pub(crate) const CRUISE: f64 = 13.9;
/// What a vehicle speeds up with, m/s².
pub(crate) const SPEED_UP: f64 = 2.0;
/// What it brakes with where it has the choice, m/s².
pub(crate) const COMFORT: f64 = 3.0;
/// What it can brake with at all, m/s².
pub(crate) const HARDEST: f64 = 8.0;
/// More than this is an emergency braking, m/s².
pub(crate) const EMERGENCY: f64 = 4.0;

pub(crate) const LENGTH: f64 = 4.5;
const HALF_WIDTH: f64 = 1.0;
/// What a standing vehicle leaves free ahead of it.
pub(crate) const GAP: f64 = 1.0;
/// From the middle of a road to the middle of a lane: vehicles keep to the right.
const LANE: f64 = 2.0;
/// From the middle of the junction to the line.
const LINE: f64 = 5.0;

/// Where vehicles come in sight of this junction.
pub(crate) const ENTRY: f64 = -60.0;
/// From here on a vehicle has left the middle with all of its length.
pub(crate) const CLEAR: f64 = LINE + LANE + HALF_WIDTH + LENGTH + 0.5;
/// Where they leave what is measured.
pub(crate) const EXIT: f64 = 38.0;
/// Where the road ends, as far as anybody plans.
pub(crate) const END: f64 = 73.0;

/// The lanes, by where their vehicles come from.
pub(crate) const LANES: [Lane; 4] = [
    Lane { name: "west", heading: [1.0, 0.0] },
    Lane { name: "south", heading: [0.0, 1.0] },
    Lane { name: "east", heading: [-1.0, 0.0] },
    Lane { name: "north", heading: [0.0, -1.0] },
];

/// A lane, straight through the junction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lane {
    pub(crate) name: &'static str,
    pub(crate) heading: [f64; 2],
}

/// What a vehicle covers, as an axis-aligned box: the least and the greatest corner.
pub(crate) type Area = [[f64; 2]; 2];

impl Lane {
    /// What is covered between two places on the lane, `beside` wider than a vehicle on either side.
    pub(crate) fn area(&self, rear: f64, front: f64, beside: f64) -> Area {
        let [x, y] = self.heading;
        let at = |s: f64, right: f64| [x * (s - LINE) + y * right, y * (s - LINE) - x * right];
        let (a, b) = (at(rear, LANE - HALF_WIDTH - beside), at(front, LANE + HALF_WIDTH + beside));
        [[a[0].min(b[0]), a[1].min(b[1])], [a[0].max(b[0]), a[1].max(b[1])]]
    }

    /// From where to where on the lane an area reaches.
    pub(crate) fn along(&self, [min, max]: Area) -> (f64, f64) {
        let [x, y] = self.heading;
        let s = |corner: [f64; 2]| x * corner[0] + y * corner[1] + LINE;
        (s(min).min(s(max)), s(min).max(s(max)))
    }

    /// Where the vehicles of `other` cross this lane: from the first front that touches to the last rear. `None`
    /// for the same road.
    pub(crate) fn crossing(&self, other: &Lane) -> Option<(f64, f64)> {
        let [x, y] = self.heading;
        // The middle of the other's lane, seen along this one.
        let middle = match x * other.heading[0] + y * other.heading[1] {
            0.0 => LANE * (x * other.heading[1] - y * other.heading[0]) + LINE,
            _ => return None,
        };
        Some((middle - HALF_WIDTH, middle + HALF_WIDTH + LENGTH))
    }
}

/// Where a vehicle is, and how fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) s: f64,
    pub(crate) v: f64,
}

impl State {
    /// The tick in which the speed becomes `v`, evenly.
    fn to_speed(self, v: f64) -> State {
        State { s: self.s + (self.v + v) / 2.0 * TICK_S, v }
    }

    /// A tick of braking with `rate`.
    pub(crate) fn braked(self, rate: f64) -> State {
        self.to_speed((self.v - rate * TICK_S).max(0.0))
    }

    /// A tick towards standstill at `stop`: as fast as may be, with comfort, and where that is too late by up to
    /// `hardest`.
    pub(crate) fn towards(self, stop: f64, hardest: f64) -> State {
        let left = stop - self.s;
        // The speed from which comfort still stops in what is left after this tick.
        let root = TICK_S * TICK_S / 4.0 - 2.0 * (self.v * TICK_S / 2.0 - left) / COMFORT;
        let most = if root > 0.0 { COMFORT * (root.sqrt() - TICK_S / 2.0) } else { 0.0 };
        let gentle = most.min(self.v + SPEED_UP * TICK_S).clamp(0.0, CRUISE);
        if gentle >= self.v - COMFORT * TICK_S {
            return self.to_speed(gentle);
        }
        // A hand's breadth too far does no harm, and the last of the way would ask for anything.
        let needed = if left > -0.05 { self.v * self.v / (2.0 * (left + 0.1)) } else { hardest };
        self.braked(needed.clamp(COMFORT, hardest.max(COMFORT)))
    }

    /// How far it goes until it stands, with comfort.
    pub(crate) fn stopping(self) -> f64 {
        self.v * self.v / (2.0 * COMFORT)
    }
}

/// What one vehicle did: where it was from one tick on, tick by tick, until it left.
#[derive(Clone, Debug)]
pub(crate) struct Track {
    pub(crate) lane: usize,
    /// When it would have come, had the road been free.
    pub(crate) due: usize,
    pub(crate) enters: usize,
    pub(crate) states: Vec<State>,
}

impl Track {
    pub(crate) fn at(&self, tick: usize) -> Option<State> {
        self.states.get(tick.checked_sub(self.enters)?).copied()
    }

    pub(crate) fn leaves(&self) -> usize {
        self.enters + self.states.len()
    }

    /// Seconds behind a vehicle that drives on alone.
    pub(crate) fn delay_s(&self) -> f64 {
        let free = ((EXIT - ENTRY) / CRUISE / TICK_S).ceil() as usize;
        (self.leaves() - self.due).saturating_sub(free + 1) as f64 * TICK_S
    }

    /// How often it began to brake with more than [`EMERGENCY`].
    pub(crate) fn emergencies(&self) -> usize {
        let hard = |pair: &[State]| (pair[0].v - pair[1].v) / TICK_S > EMERGENCY + 1e-6;
        let hard: Vec<bool> = self.states.windows(2).map(hard).collect();
        hard.iter().enumerate().filter(|(at, hard)| **hard && (*at == 0 || !self.is_hard_before(*at))).count()
    }

    /// Whether it braked hard within the half second before: then it is the same braking.
    fn is_hard_before(&self, at: usize) -> bool {
        let from = at.saturating_sub(50);
        self.states[from..=at].windows(2).any(|pair| (pair[0].v - pair[1].v) / TICK_S > EMERGENCY + 1e-6)
    }
}

/// The pairs of vehicles that were in one place at one time.
pub(crate) fn collisions(tracks: &[Track]) -> usize {
    let pairs = tracks.iter().enumerate().flat_map(|(at, a)| tracks[at + 1..].iter().map(move |b| (a, b)));
    pairs.filter(|(a, b)| collide(a, b)).count()
}

fn collide(a: &Track, b: &Track) -> bool {
    let from = a.enters.max(b.enters);
    (from..a.leaves().min(b.leaves())).any(|tick| match (a.at(tick), b.at(tick)) {
        (Some(at), Some(bt)) => {
            let area = |track: &Track, state: State| LANES[track.lane].area(state.s - LENGTH, state.s, 0.0);
            let ([a0, a1], [b0, b1]) = (area(a, at), area(b, bt));
            (0..2).all(|axis| a0[axis] < b1[axis] - 1e-6 && b0[axis] < a1[axis] - 1e-6)
        }
        _ => false,
    })
}

/// The number of the tick that is `seconds` after the beginning.
pub(crate) fn ticks(seconds: f64) -> usize {
    (seconds / TICK_S).round() as usize
}

/// How long so many ticks are.
pub(crate) fn span(ticks: usize) -> Duration {
    Duration::from_millis(ticks as u64 * TICK_MS)
}
