//! Vehicles that drive straight through the crossing of two roads, and where they are when.

use std::collections::BTreeSet;
use std::time::Duration;

use preclaim::client::InvalidPath;
use preclaim::types::Time;
use preclaim::{Intent, millis, path};

/// The coordinate frame of the junction: metres from its middle, east and north.
const FRAME: &str = "map/junction";
/// A vehicle declares its motion in steps of this length.
pub(crate) const STEP: Duration = millis(100);
/// How far a vehicle comes in a step: 50 km/h.
const STEP_M: f64 = 1.4;
/// From the middle of a road to the middle of a lane.
const LANE_M: f64 = 2.0;
const HALF_WIDTH_M: f64 = 1.25;
/// From the middle of the junction to the line at which a vehicle waits: its lane is its own up to there.
const LINE_M: f64 = 4.0;

/// A vehicle. It keeps to the right.
#[derive(Clone, Debug)]
pub(crate) struct Vehicle {
    pub(crate) name: &'static str,
    /// Where it drives, as a unit vector.
    pub(crate) heading: [f64; 2],
    pub(crate) length: f64,
    /// What the coordinator orders the intents of a slot by.
    pub(crate) urgency: f64,
    /// When it comes in sight.
    pub(crate) enters: Duration,
}

/// The next thing that a vehicle does: maybe wait, and then drive some steps.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    vehicle: Vehicle,
    /// How far past the middle of the junction its front is before it.
    front: f64,
    steps: u32,
    pub(crate) waits: Duration,
    pub(crate) crosses: bool,
}

/// Where a vehicle is, from an offset after its action's start, for a while.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) corners: [[f64; 2]; 4],
    pub(crate) offset: Duration,
    pub(crate) duration: Duration,
    pub(crate) waits: bool,
}

impl Vehicle {
    /// What it does, one after the other: up to the line step by step, across in one go, and on.
    pub(crate) fn route(&self) -> Vec<Action> {
        let across = ((2.0 * LINE_M + self.length) / STEP_M).ceil() as u32;
        let mut front = -LINE_M - 4.0 * STEP_M;
        let mut next = |steps: u32| {
            let action = Action {
                vehicle: self.clone(),
                front,
                steps,
                waits: Duration::ZERO,
                // Whoever is in the middle must be able to leave it, so this is granted as a whole.
                crosses: steps > 1,
            };
            front += STEP_M * f64::from(steps);
            action
        };
        [1, 1, 1, 1, across, 1, 1, 1].into_iter().map(&mut next).collect()
    }

    /// The corners of what it covers while its front goes from `from` to `to`.
    fn swept(&self, from: f64, to: f64) -> [[f64; 2]; 4] {
        let [x, y] = self.heading;
        let at = |along: f64, right: f64| [x * along + y * right, y * along - x * right];
        let (rear, left, right) = (from - self.length, LANE_M - HALF_WIDTH_M, LANE_M + HALF_WIDTH_M);
        [at(rear, left), at(rear, right), at(to, right), at(to, left)]
    }
}

impl Action {
    /// The intent to do it from `start` on, or up to a step later, should an answer be late.
    pub(crate) fn intent(&self, start: Time) -> Result<Intent, InvalidPath> {
        let mut intent = Intent::at(start).slack(STEP).urgency(self.vehicle.urgency).note(self.note());
        for Place { corners, offset, duration, .. } in self.places() {
            intent = intent.claim_after(offset, path(FRAME)?.polygon(corners).exclusive(), duration);
        }
        Ok(intent)
    }

    fn note(&self) -> &'static str {
        if self.crosses { "crosses" } else { "keeps to its lane" }
    }

    /// Where the vehicle is while it does this, each step as the region that it sweeps.
    pub(crate) fn places(&self) -> Vec<Place> {
        let stands = Place {
            corners: self.vehicle.swept(self.front, self.front),
            offset: Duration::ZERO,
            duration: self.waits,
            waits: true,
        };
        let drives = (0..self.steps).map(|step| {
            let from = self.front + STEP_M * f64::from(step);
            let corners = self.vehicle.swept(from, from + STEP_M);
            Place { corners, offset: self.waits + STEP * step, duration: STEP, waits: false }
        });
        Some(stands).filter(|_| !self.waits.is_zero()).into_iter().chain(drives).collect()
    }
}

/// Where a vehicle is in a window of coordinator time.
#[derive(Clone, Debug)]
pub(crate) struct Presence {
    pub(crate) who: &'static str,
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) corners: [[f64; 2]; 4],
    /// How it is drawn: it waits, crosses, or is on its own lane.
    pub(crate) mark: char,
}

/// Where the vehicle is when it does `action` from `start` on.
pub(crate) fn presences(action: &Action, start: Time) -> impl Iterator<Item = Presence> {
    let (who, crosses) = (action.vehicle.name, action.crosses);
    action.places().into_iter().map(move |Place { corners, offset, duration, waits }| {
        let start = start + offset;
        let mark = if waits { '.' } else { ['-', '#'][usize::from(crosses)] };
        Presence { who, start, end: start + duration, corners, mark }
    })
}

/// The pairs of vehicles that are in one place at one time.
pub(crate) fn collisions(all: &[Presence]) -> BTreeSet<[&'static str; 2]> {
    let pairs = all.iter().flat_map(|a| all.iter().map(move |b| (a, b)));
    pairs
        .filter(|(a, b)| a.who < b.who && a.start < b.end && b.start < a.end)
        .filter(|(a, b)| meet(&a.corners, &b.corners))
        .map(|(a, b)| [a.who, b.who])
        .collect()
}

/// Whether two convex shapes overlap: no edge of either has the other wholly on its far side.
fn meet(a: &[[f64; 2]; 4], b: &[[f64; 2]; 4]) -> bool {
    let parted = |a: &[[f64; 2]; 4], b: &[[f64; 2]; 4]| {
        (0..4).any(|at| {
            let ([x0, y0], [x1, y1]) = (a[at], a[(at + 1) % 4]);
            let side = |[x, y]: &[f64; 2]| (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0);
            // Coordinates are rounded to micrometres: what only touches must count as parted.
            let least = |shape: &[[f64; 2]; 4]| shape.iter().map(side).fold(f64::INFINITY, f64::min);
            let greatest = |shape: &[[f64; 2]; 4]| shape.iter().map(side).fold(f64::NEG_INFINITY, f64::max);
            greatest(b) <= least(a) + 1e-4 || least(b) >= greatest(a) - 1e-4
        })
    };
    !parted(a, b) && !parted(b, a)
}
