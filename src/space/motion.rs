//! Whether regions, one after the other, can be reached: how fast what is in them would have to go, and how
//! hard it would have to change its velocity.
//!
//! What is in a region is taken to be at its *centre* at the start of its window: the middle of the shape's
//! bounding box, and the middle of its heights where it has some. A region is *reached from* one of those whose
//! windows start at the latest earlier instant: one of the [`WAYS`] nearest, and that one does is enough. Regions whose
//! windows start at one instant are not held against each other: a body may need several, and a plan may have branches.
//!
//! - The **speed** from one region to the next is the distance between their centres over the time between the
//!   starts of their windows; whether the windows overlap plays no part. Heights count where both have some.
//! - The **acceleration** is the change of velocity between two such steps that follow each other, over half the
//!   time that both take: to speed up, to brake, to turn and to go back are all changes.
//! - The **tolerance** is by how far the distance of a step may be off. Only what exceeds a limit whatever the true
//!   distances are within the tolerance is refused; what needs exactly the limit is not.
//!
//! All of it is integer arithmetic on whole micrometres and microseconds, without rounding; nothing here can fail. What is told
//! of a refusal is rounded, always away from what is allowed.

use num_bigint::BigUint;

use crate::types::{Micros, Shape};

/// What can be done in a frame. What is left out is not limited, and 1 mm is tolerated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MotionLimits {
    /// The greatest speed, in micrometres per second.
    pub max_speed_um_s: Option<u64>,
    /// The greatest change of velocity, in micrometres per second squared.
    pub max_acceleration_um_s2: Option<u64>,
    /// By how far the distance of one step may be off, in micrometres.
    pub tolerance_um: Option<u64>,
}

/// What is tolerated unless it is configured: coordinates are rounded to micrometres and times to
/// microseconds, and a millimetre covers that up to 1,000 m/s.
pub const TOLERANCE_UM: u64 = 1_000;

/// From so many of the regions before it, the nearest, a region may be reached: enough for the branches of a plan, and
/// it bounds the work where all 64 claims of an intent start at a few instants.
pub const WAYS: usize = 4;

/// A region of an intent: which claim, from when after the intent's start, and its shape.
#[derive(Clone, Copy, Debug)]
pub struct Stay<'a> {
    /// The index of the claim.
    pub claim: usize,
    /// From the intent's start to the start of the window.
    pub offset: Micros,
    /// The shape.
    pub shape: &'a Shape,
}

/// Two regions of which the second cannot be reached from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// The claim that it would be reached from.
    pub from: usize,
    /// The claim that cannot be reached.
    pub to: usize,
    /// What that would need.
    pub needs: Needs,
}

/// What a step would need, and what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Too much speed, in micrometres per second.
    Speed {
        /// What it would need, rounded up.
        needed_um_s: u128,
        /// What is allowed.
        allowed_um_s: u64,
        /// The shortest time between the starts of the windows that would do, in microseconds; none would where
        /// nothing may move.
        least_us: Option<u128>,
    },
    /// Too great a change of velocity, in micrometres per second squared.
    Acceleration {
        /// The claim that `from` was reached from.
        after: usize,
        /// What it would need, rounded up.
        needed_um_s2: u128,
        /// What is allowed.
        allowed_um_s2: u64,
    },
}

/// Whether each of these regions of one frame can be reached from the one before it.
///
/// # Errors
/// The first that cannot, in the order of starts and then of claims; its speed is looked at first.
pub fn check(stays: &[Stay<'_>], limits: &MotionLimits) -> Result<(), Unreachable> {
    let mut places: Vec<Place> = stays.iter().map(Place::of).collect();
    places.sort_by_key(|place| (place.start_us, place.claim));
    let limits = Limits {
        speed: limits.max_speed_um_s,
        acceleration: limits.max_acceleration_um_s2,
        tolerance: limits.tolerance_um.unwrap_or(TOLERANCE_UM).into(),
    };
    let mut before: Vec<Reached> = Vec::new();
    for group in places.chunk_by(|a, b| a.start_us == b.start_us) {
        let reached = group.iter().map(|place| reach(&before, *place, &limits));
        before = reached.collect::<Result<_, _>>()?;
    }
    Ok(())
}

/// The limits with what is left out filled in.
struct Limits {
    speed: Option<u64>,
    acceleration: Option<u64>,
    tolerance: u128,
}

/// Where something is from when on. Coordinates are doubled, so that a middle is whole.
#[derive(Clone, Copy)]
struct Place {
    claim: usize,
    start_us: u64,
    x2: i64,
    y2: i64,
    z2: Option<i64>,
}

impl Place {
    fn of(stay: &Stay<'_>) -> Self {
        let (min, max) = (stay.shape.min(), stay.shape.max());
        Place {
            claim: stay.claim,
            start_us: stay.offset.as_us(),
            x2: min.x_um + max.x_um,
            y2: min.y_um + max.y_um,
            z2: stay.shape.height().map(|height| height.min_um + height.max_um),
        }
    }
}

/// From one place to another: at most 4e14 half micrometres each way, in 1 µs or more.
#[derive(Clone, Copy)]
struct Step {
    along: [i64; 3],
    us: u64,
}

impl Step {
    fn between(from: Place, to: Place) -> Self {
        let z = from.z2.zip(to.z2).map_or(0, |(from, to)| to - from);
        Step { along: [to.x2 - from.x2, to.y2 - from.y2, z], us: to.start_us - from.start_us }
    }

    /// The square of the distance, in half micrometres: at most 4.8e29.
    fn squared(self) -> u128 {
        self.along.iter().map(|way| u128::from(way.unsigned_abs()).pow(2)).sum()
    }
}

/// A place, and the ways there: none where it is one of the first.
struct Reached {
    place: Place,
    ways: Vec<Way>,
}

/// A step, and the claim that it begins at.
#[derive(Clone, Copy)]
struct Way {
    from: usize,
    step: Step,
}

/// Of the ways to `place` those that can be gone.
fn reach(before: &[Reached], place: Place, limits: &Limits) -> Result<Reached, Unreachable> {
    let mut nearest: Vec<(&Reached, Way)> =
        before.iter().map(|from| (from, way(from.place, place))).collect();
    // Of equally near ones the first: `before` is in the order of claims, and the order is kept.
    nearest.sort_by_key(|(_, way)| way.step.squared());
    nearest.truncate(WAYS);
    let Some((_, shortest)) = nearest.first().copied() else {
        return Ok(Reached { place, ways: Vec::new() });
    };
    if let Some(allowed) = limits.speed {
        nearest.retain(|(_, way)| !is_too_fast(way.step, allowed, limits.tolerance));
        if nearest.is_empty() {
            let needs = speed(shortest.step, allowed, limits.tolerance);
            return Err(Unreachable { from: shortest.from, to: place.claim, needs });
        }
    }
    let can_be_gone = |from: &Reached, way: &Way| {
        let turns = |last: &Way| Change { first: last.step, second: way.step };
        from.ways.is_empty()
            || limits.acceleration.is_none_or(|allowed| {
                from.ways.iter().any(|last| !turns(last).is_too_much(allowed, limits.tolerance))
            })
    };
    let ways: Vec<Way> =
        nearest.iter().filter(|(from, way)| can_be_gone(from, way)).map(|(_, way)| *way).collect();
    match limits.acceleration {
        Some(allowed) if ways.is_empty() => {
            Err(least_change(&nearest, place.claim, allowed, limits.tolerance))
        }
        _ => Ok(Reached { place, ways }),
    }
}

fn way(from: Place, to: Place) -> Way {
    Way { from: from.claim, step: Step::between(from, to) }
}

/// What the gentlest of the ways to a claim would need; there is one.
fn least_change(ways: &[(&Reached, Way)], to: usize, allowed_um_s2: u64, tolerance_um: u128) -> Unreachable {
    let changes = ways.iter().flat_map(|(from, way)| {
        from.ways.iter().map(|last| {
            let needed = Change { first: last.step, second: way.step }.needed(tolerance_um);
            (needed, last.from, way.from)
        })
    });
    // None cannot be: a way from one of the first places can always be gone.
    let (needed_um_s2, after, from) = changes.min_by_key(|(needed, ..)| *needed).unwrap_or_default();
    Unreachable { from, to, needs: Needs::Acceleration { after, needed_um_s2, allowed_um_s2 } }
}

const MILLION: u128 = 1_000_000;

/// Whether `sqrt(squared) / 2 - tolerance`, in micrometres, is more than `allowed` gives in the step's time.
fn is_too_fast(step: Step, allowed_um_s: u64, tolerance_um: u128) -> bool {
    // sqrt(squared) * 1e6 > reach, on both sides squared. The reach may saturate: nothing is that far.
    let reach = u128::from(allowed_um_s)
        .saturating_mul(step.us.into())
        .saturating_add(tolerance_um.saturating_mul(MILLION))
        .saturating_mul(2);
    wide(step.squared(), MILLION * MILLION) > wide(reach, reach)
}

/// The product in 256 bits, high half first.
fn wide(a: u128, b: u128) -> (u128, u128) {
    let (low, high) = a.carrying_mul(b, 0);
    (high, low)
}

fn speed(step: Step, allowed_um_s: u64, tolerance_um: u128) -> Needs {
    // In half micrometres, rounded up: at most 7e14, so that nothing below overflows.
    let beyond = up_sqrt(step.squared()).saturating_sub(tolerance_um.saturating_mul(2));
    let needed_um_s = (beyond * MILLION).div_ceil(2 * u128::from(step.us));
    let least = |speed: u128| (beyond * MILLION).div_ceil(2 * speed);
    let least_us = (allowed_um_s > 0).then(|| least(allowed_um_s.into()));
    Needs::Speed { needed_um_s, allowed_um_s, least_us }
}

fn up_sqrt(square: u128) -> u128 {
    let root = square.isqrt();
    if root * root == square { root } else { root + 1 }
}

/// Two steps that follow each other.
///
/// In half micrometres and microseconds the velocities are `along / us`; their difference is `turn / (us of the
/// one * us of the other)`. It is made in half the time of both.
#[derive(Clone, Copy)]
struct Change {
    first: Step,
    second: Step,
}

impl Change {
    /// At most 1.5e34 each.
    fn turn(self) -> [u128; 3] {
        let Change { first, second } = self;
        let part = |at: usize| {
            let there = i128::from(second.along[at]) * i128::from(first.us);
            (there - i128::from(first.along[at]) * i128::from(second.us)).unsigned_abs()
        };
        [part(0), part(1), part(2)]
    }

    /// Whether the length of the turn times 1e12 is more than
    /// `allowed * us * us * (us + us) + 2e12 * tolerance * (us + us)`.
    fn is_too_much(self, allowed_um_s2: u64, tolerance_um: u128) -> bool {
        self.is_plainly_too_much(allowed_um_s2, tolerance_um).unwrap_or_else(|| {
            let reach = self.product() * allowed_um_s2 + self.slack(tolerance_um);
            self.squared() * big(MILLION).pow(4) > &reach * &reach
        })
    }

    /// The same in 128 bits, where they hold it and the answer is no matter of the last digit: so it is for all
    /// but what is made up.
    fn is_plainly_too_much(self, allowed_um_s2: u64, tolerance_um: u128) -> Option<bool> {
        let squared =
            self.turn().iter().try_fold(0_u128, |sum, part| sum.checked_add(part.checked_mul(*part)?))?;
        let (one, two) = (u128::from(self.first.us), u128::from(self.second.us));
        let product = (one + two).checked_mul(one)?.checked_mul(two)?;
        let reach = product.checked_mul(allowed_um_s2.into())?;
        let slack = (one + two).checked_mul(tolerance_um)?.checked_mul(2 * MILLION * MILLION)?;
        let reach = reach.checked_add(slack)? / (MILLION * MILLION);
        if squared > (reach + 1).checked_mul(reach + 1)? {
            Some(true)
        } else if squared <= reach * reach {
            Some(false)
        } else {
            None
        }
    }

    /// What the change needs, in micrometres per second squared, rounded up.
    fn needed(self, tolerance_um: u128) -> u128 {
        let squared = self.squared();
        let root = squared.sqrt();
        let turn = if &root * &root == squared { root } else { root + 1u32 };
        let (turn, slack) = (turn * (MILLION * MILLION), self.slack(tolerance_um));
        if turn <= slack {
            return 0;
        }
        let product = self.product();
        let needed = (turn - slack + &product - 1u32) / product;
        u128::try_from(needed).unwrap_or(u128::MAX)
    }

    fn squared(self) -> BigUint {
        self.turn().iter().map(|part| big(*part).pow(2)).sum()
    }

    fn both(self) -> u128 {
        u128::from(self.first.us) + u128::from(self.second.us)
    }

    fn product(self) -> BigUint {
        big(self.both()) * self.first.us * self.second.us
    }

    fn slack(self, tolerance_um: u128) -> BigUint {
        big(tolerance_um) * self.both() * (2 * MILLION * MILLION)
    }
}

fn big(number: u128) -> BigUint {
    BigUint::from(number)
}

#[cfg(test)]
#[path = "motion_tests.rs"]
mod tests;
