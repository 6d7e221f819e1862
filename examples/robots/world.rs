//! Where robots are when: motions as steps, and who meets whom.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use preclaim::millis;
use preclaim::types::Time;

use super::story::Dice;

/// A robot declares its motion in steps of this length.
pub(crate) const STEP: Duration = millis(100);
const STEP_S: f64 = 0.1;

pub(crate) type Corners = [[f64; 2]; 4];

/// What a step uses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// A part of the floor, or of the air above it between two heights, in metres.
    Area { frame: &'static str, corners: Corners, heights: Option<[f64; 2]> },
    /// Something with a name: alone,
    Alone(&'static str),
    /// beside others who do the same,
    Beside(&'static str),
    /// or so much of what it can take.
    Units(&'static str, u64),
}

/// What is used from an offset after a motion's start on, for a while.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) what: What,
    pub(crate) offset: Duration,
    pub(crate) duration: Duration,
}

/// All that one robot uses to carry out an order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Motion(pub(crate) Vec<Step>);

/// A body that moves on straight lines at one speed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub(crate) frame: &'static str,
    pub(crate) half_length: f64,
    pub(crate) half_width: f64,
    pub(crate) heights: Option<[f64; 2]>,
    /// Metres a second.
    pub(crate) speed: f64,
}

impl Motion {
    pub(crate) fn duration(&self) -> Duration {
        self.0.iter().map(|step| step.offset + step.duration).max().unwrap_or_default()
    }

    /// And then this, at the same place of the motion or after what there is.
    pub(crate) fn then(mut self, more: Motion) -> Motion {
        let begin = self.duration();
        self.0.extend(more.0.into_iter().map(|step| Step { offset: begin + step.offset, ..step }));
        self
    }

    pub(crate) fn with(mut self, what: What, offset: Duration, duration: Duration) -> Motion {
        self.0.push(Step { what, offset, duration });
        self
    }
}

impl Body {
    /// Along these points, step by step, each as the area that the body sweeps.
    pub(crate) fn along(&self, points: &[[f64; 2]]) -> Motion {
        let places = self.places(points);
        let step = |(at, pair): (usize, &[[f64; 2]])| Step {
            what: self.swept(pair[0], pair[1]),
            offset: STEP * at as u32,
            duration: STEP,
        };
        Motion(places.windows(2).enumerate().map(step).collect())
    }

    /// At one place for a while.
    pub(crate) fn stays(&self, at: [f64; 2], duration: Duration) -> Motion {
        Motion::default().with(self.swept(at, at), Duration::ZERO, duration)
    }

    /// Where it is at the beginning and after each step.
    fn places(&self, points: &[[f64; 2]]) -> Vec<[f64; 2]> {
        let (mut places, mut along) = (Vec::new(), 0.0);
        for leg in points.windows(2) {
            let ([x0, y0], [x1, y1]) = (leg[0], leg[1]);
            let length = (x1 - x0).hypot(y1 - y0);
            while along < length {
                let share = along / length;
                places.push([x0 + (x1 - x0) * share, y0 + (y1 - y0) * share]);
                along += self.speed * STEP_S;
            }
            along -= length;
        }
        places.extend(points.last());
        places
    }

    /// What it covers on the straight line from one place to another.
    fn swept(&self, from: [f64; 2], to: [f64; 2]) -> What {
        let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
        let length = dx.hypot(dy);
        let [x, y] = if length > 0.0 { [dx / length, dy / length] } else { [1.0, 0.0] };
        let at = |along: f64, left: f64| [from[0] + x * along - y * left, from[1] + y * along + x * left];
        let (rear, front, side) = (-self.half_length, length + self.half_length, self.half_width);
        let corners = [at(rear, -side), at(front, -side), at(front, side), at(rear, side)];
        What::Area { frame: self.frame, corners, heights: self.heights }
    }
}

/// A motion that somebody carries out.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) who: String,
    pub(crate) start: Time,
    pub(crate) motion: Motion,
}

/// Somebody uses something from one time to another.
struct Presence<'a> {
    who: &'a str,
    what: &'a What,
    start: Time,
    end: Time,
}

fn presences(all: &[Done]) -> Vec<Presence<'_>> {
    let of = |done: &Done, step: &Step| (done.start + step.offset, done.start + step.offset + step.duration);
    let mut found = Vec::new();
    for done in all {
        found.extend(done.motion.0.iter().map(|step| {
            let (start, end) = of(done, step);
            Presence { who: &done.who, what: &step.what, start, end }
        }));
    }
    found
}

/// The pairs that are in one place at one time, areas or doors.
pub(crate) fn meetings(all: &[Done]) -> BTreeSet<[String; 2]> {
    let all = presences(all);
    let pairs = all.iter().flat_map(|a| all.iter().map(move |b| (a, b)));
    pairs
        .filter(|(a, b)| a.who < b.who && a.start < b.end && b.start < a.end)
        .filter(|(a, b)| clash(a.what, b.what))
        .map(|(a, b)| [a.who.to_owned(), b.who.to_owned()])
        .collect()
}

/// The most units of each name that are taken at one instant.
pub(crate) fn most_units(all: &[Done]) -> BTreeMap<&'static str, u64> {
    let all = presences(all);
    let mut most = BTreeMap::new();
    for begin in all.iter().map(|presence| presence.start) {
        let mut now = BTreeMap::new();
        for presence in all.iter().filter(|it| it.start <= begin && begin < it.end) {
            if let What::Units(name, units) = presence.what {
                *now.entry(*name).or_insert(0) += units;
            }
        }
        for (name, units) in now {
            let most = most.entry(name).or_insert(0);
            *most = units.max(*most);
        }
    }
    most
}

fn clash(a: &What, b: &What) -> bool {
    match (a, b) {
        (
            What::Area { frame, corners, heights },
            What::Area { frame: other_frame, corners: other_corners, heights: other_heights },
        ) => {
            let apart = |[low, high]: [f64; 2], [other_low, other_high]: [f64; 2]| {
                high <= other_low || other_high <= low
            };
            let level = heights.zip(*other_heights).is_none_or(|(a, b)| !apart(a, b));
            frame == other_frame && level && overlap(corners, other_corners)
        }
        (What::Alone(a), What::Alone(b) | What::Beside(b)) | (What::Beside(a), What::Alone(b)) => a == b,
        _ => false,
    }
}

/// Whether two convex shapes overlap: no edge of either has the other wholly on its far side.
fn overlap(a: &Corners, b: &Corners) -> bool {
    let parted = |a: &Corners, b: &Corners| {
        (0..4).any(|at| {
            let ([x0, y0], [x1, y1]) = (a[at], a[(at + 1) % 4]);
            let side = |[x, y]: &[f64; 2]| (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0);
            // Coordinates are rounded to micrometres: what only touches must count as parted.
            let least = |shape: &Corners| shape.iter().map(side).fold(f64::INFINITY, f64::min);
            let greatest = |shape: &Corners| shape.iter().map(side).fold(f64::NEG_INFINITY, f64::max);
            greatest(b) <= least(a) + 1e-4 || least(b) >= greatest(a) - 1e-4
        })
    };
    !parted(a, b) && !parted(b, a)
}

const DRONE: Body =
    Body { frame: "yard/air", half_length: 0.5, half_width: 0.5, heights: Some([4.5, 5.5]), speed: 10.0 };
const ROBOT: Body =
    Body { frame: "yard/bridge", half_length: 0.5, half_width: 0.4, heights: None, speed: 5.0 };
/// The robots of the hall.
pub(crate) const CART: Body = Body { frame: "hall/floor", ..ROBOT };

/// To the point and back to its own pad, and the same to a point of its own where it may hold.
pub(crate) fn drone_flights(dice: &mut Dice, number: usize) -> [Motion; 2] {
    let angle = (number as f64 + 0.3 * (dice.unit() - 0.5)) * std::f64::consts::FRAC_PI_2;
    let away = 5.0 + 2.0 * dice.unit();
    let on_the_way = |share: f64| [away * share * angle.cos(), away * share * angle.sin()];
    let flight = |to: f64| {
        let out = DRONE.along(&[on_the_way(1.0), on_the_way(to)]);
        let back = DRONE.along(&[on_the_way(to), on_the_way(1.0)]);
        out.then(DRONE.stays(on_the_way(to), 2 * STEP)).then(back)
    };
    [flight(0.0), flight(0.5)]
}

/// Over the bridge, six metres of one lane: from the right-hand lane on one side to that on the other.
pub(crate) fn bridge_crossing(eastward: bool) -> Motion {
    let way = [[-2.0, -1.0], [0.0, 0.0], [6.0, 0.0], [8.0, -1.0]];
    let turned = way.map(|[x, y]| [6.0 - x, -y]);
    ROBOT.along(if eastward { &way } else { &turned })
}

pub(crate) const LIFT_ROUND: Duration = millis(800);
pub(crate) const LIFT_PLACES: u64 = 3;
pub(crate) const LIFT_KG: u64 = 900;

/// The lift's own motion: open below, up, open above, down. While it is not at a door, nobody uses that.
pub(crate) fn lift_rounds(rounds: u32) -> Motion {
    let quarter = LIFT_ROUND / 4;
    let mut motion = Motion::default();
    for round in 0..rounds {
        let begin = LIFT_ROUND * round;
        motion = motion
            .with(What::Alone("lift/door-below"), begin + quarter, 3 * quarter)
            .with(What::Alone("lift/door-above"), begin, 2 * quarter)
            .with(What::Alone("lift/door-above"), begin + 3 * quarter, quarter);
    }
    motion
}

/// In below, up, and out above, with a place and a weight for as long.
pub(crate) fn lift_ride(kg: u64) -> Motion {
    let quarter = LIFT_ROUND / 4;
    Motion::default()
        .with(What::Beside("lift/door-below"), Duration::ZERO, quarter)
        .with(What::Units("lift/places", 1), Duration::ZERO, 3 * quarter)
        .with(What::Units("lift/kg", kg), Duration::ZERO, 3 * quarter)
        .with(What::Beside("lift/door-above"), 2 * quarter, quarter)
}
