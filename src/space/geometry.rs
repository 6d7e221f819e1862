//! Exact measures of shapes. All of it is integer arithmetic on whole micrometres: no rounding
//! decides anything until a ratio is rounded, once, to 9 decimals.
//!
//! Coordinates reach 1e14 either way, so differences reach 2e14, products of two 4e28 and sums of
//! those 8e28: all of that fits an `i128`. What multiplies two of them is done in 256 bits or in
//! big integers, off the path that every pair of claims takes.

use std::cmp::Ordering;

use num_bigint::BigInt;

use crate::types::{HeightRange, Point, Shape};

/// Whether the insides of the two shapes share a positive measure: shapes that touch do not.
pub fn meet(a: &Shape, b: &Shape) -> bool {
    bounds_meet(a, b)
        && heights_meet(a.height(), b.height())
        && ((a.is_box() && b.is_box()) || !(is_split_by_edge_of(a, b) || is_split_by_edge_of(b, a)))
}

/// The overlap ratio `measure(A∩B) / min(measure(A), measure(B))` in billionths, rounded half up.
/// Measures are areas, times height where both shapes have one.
pub fn overlap_ratio_e9(a: &Shape, b: &Shape) -> u64 {
    if !meet(a, b) {
        return 0;
    }
    if a.is_box() && b.is_box() { box_ratio(a, b) } else { hull_ratio(a, b) }
}

/// Whether `inner` lies within `outer`, in the plane and in height; edges may touch. A shape without
/// height covers all heights, so only such a one holds another such.
pub fn contains(outer: &Shape, inner: &Shape) -> bool {
    let heights = match (outer.height(), inner.height()) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(outer), Some(inner)) => outer.min_um <= inner.min_um && inner.max_um <= outer.max_um,
    };
    let (min, max) = (inner.min(), inner.max());
    heights
        && outer.min().x_um <= min.x_um
        && outer.min().y_um <= min.y_um
        && max.x_um <= outer.max().x_um
        && max.y_um <= outer.max().y_um
        && (outer.is_box()
            || edges(outer.hull()).all(|edge| inner.hull().iter().all(|corner| edge.side(*corner) >= 0)))
}

fn bounds_meet(a: &Shape, b: &Shape) -> bool {
    a.min().x_um < b.max().x_um
        && b.min().x_um < a.max().x_um
        && a.min().y_um < b.max().y_um
        && b.min().y_um < a.max().y_um
}

fn heights_meet(a: Option<HeightRange>, b: Option<HeightRange>) -> bool {
    a.zip(b).is_none_or(|(a, b)| a.min_um < b.max_um && b.min_um < a.max_um)
}

/// Whether all of `b` lies on the outer side of an edge of `a`. Two convex shapes have disjoint
/// insides exactly where an edge of the one or the other splits them so.
fn is_split_by_edge_of(a: &Shape, b: &Shape) -> bool {
    edges(a.hull()).any(|edge| b.hull().iter().all(|corner| edge.side(*corner) <= 0))
}

/// An edge of a hull, whose inside lies to the left.
#[derive(Clone, Copy)]
struct Edge {
    from: Point,
    along: Step,
}

#[derive(Clone, Copy)]
struct Step {
    x_um: i64,
    y_um: i64,
}

fn step(from: Point, to: Point) -> Step {
    Step { x_um: to.x_um - from.x_um, y_um: to.y_um - from.y_um }
}

fn cross(a: Step, b: Step) -> i128 {
    i128::from(a.x_um) * i128::from(b.y_um) - i128::from(a.y_um) * i128::from(b.x_um)
}

impl Edge {
    /// Above zero inside, zero on the edge's line, below zero outside.
    fn side(self, point: Point) -> i128 {
        cross(self.along, step(self.from, point))
    }
}

fn edges(hull: &[Point]) -> impl Iterator<Item = Edge> {
    let ends = hull.iter().cycle().skip(1);
    hull.iter().zip(ends).map(|(from, to)| Edge { from: *from, along: step(*from, *to) })
}

/// How long the stretch `[a_min, a_max]` and `[b_min, b_max]` share; they overlap.
fn shared(a_min: i64, a_max: i64, b_min: i64, b_max: i64) -> u128 {
    u128::from(a_max.min(b_max).abs_diff(a_min.max(b_min)))
}

fn shared_height(a: HeightRange, b: HeightRange) -> u128 {
    shared(a.min_um, a.max_um, b.min_um, b.max_um)
}

fn height_of(range: HeightRange) -> u128 {
    u128::from(range.max_um.abs_diff(range.min_um))
}

/// The overlap ratio of two boxes that meet.
fn box_ratio(a: &Shape, b: &Shape) -> u64 {
    let area = |shape: &Shape| {
        let (min, max) = (shape.min(), shape.max());
        u128::from(max.x_um.abs_diff(min.x_um)) * u128::from(max.y_um.abs_diff(min.y_um))
    };
    let wide = shared(a.min().x_um, a.max().x_um, b.min().x_um, b.max().x_um);
    let deep = shared(a.min().y_um, a.max().y_um, b.min().y_um, b.max().y_um);
    let Some((a_height, b_height)) = a.height().zip(b.height()) else {
        return billionths(wide * deep, area(a).min(area(b)));
    };
    let part = (wide * deep).checked_mul(shared_height(a_height, b_height));
    let a_whole = area(a).checked_mul(height_of(a_height));
    let b_whole = area(b).checked_mul(height_of(b_height));
    match (part, a_whole, b_whole) {
        (Some(part), Some(a_whole), Some(b_whole)) => billionths(part, a_whole.min(b_whole)),
        _ => hull_ratio(a, b),
    }
}

const BILLION: u32 = 1_000_000_000;

/// `part / whole` in billionths, rounded half up; `part` is at most `whole`.
fn billionths(part: u128, whole: u128) -> u64 {
    let doubled = part.checked_mul(2 * u128::from(BILLION)).and_then(|part| part.checked_add(whole));
    match (doubled, whole.checked_mul(2)) {
        (Some(doubled), Some(whole)) => saturating_u64(doubled / whole),
        _ => billionths_big(BigInt::from(part), BigInt::from(whole)),
    }
}

fn billionths_big(part: BigInt, whole: BigInt) -> u64 {
    let ratio = (part * 2u32 * BILLION + &whole) / (whole * 2u32);
    u128::try_from(ratio).map_or(u64::MAX, saturating_u64)
}

fn saturating_u64(ratio: u128) -> u64 {
    // A part of the whole is at most a billion billionths.
    u64::try_from(ratio).unwrap_or(u64::MAX)
}

/// The overlap ratio of any two shapes that meet.
fn hull_ratio(a: &Shape, b: &Shape) -> u64 {
    let (mut part, scale) = twice_shared_area(a.hull(), b.hull());
    let mut a_whole = BigInt::from(twice_area(a.hull()));
    let mut b_whole = BigInt::from(twice_area(b.hull()));
    if let Some((a_height, b_height)) = a.height().zip(b.height()) {
        part *= shared_height(a_height, b_height);
        a_whole *= height_of(a_height);
        b_whole *= height_of(b_height);
    }
    billionths_big(part, a_whole.min(b_whole) * scale)
}

fn twice_area(hull: &[Point]) -> i128 {
    let origin = hull[0];
    edges(hull).map(|edge| cross(step(origin, edge.from), edge.along)).sum()
}

/// Twice the area of the intersection of two hulls, as a numerator and a denominator above zero.
///
/// An area is the sum over the pieces of its boundary of the triangles between each piece and one
/// fixed point. Every piece of this boundary is the part of an edge of one hull that lies within the
/// other, so the corners of the intersection need not be computed: only where each edge enters the
/// other hull and leaves it.
fn twice_shared_area(a: &[Point], b: &[Point]) -> (BigInt, BigInt) {
    let origin = a[0];
    let mut sum = Sum::default();
    // Where edges of both run along each other, the piece is counted once, for `a`.
    for (own, other, runs_along) in [(a, b, true), (b, a, false)] {
        for edge in edges(own) {
            if let Some((enters, leaves)) = part_within(edge, other, runs_along) {
                let triangle = cross(step(origin, edge.from), edge.along);
                sum.add(triangle, leaves);
                sum.add(-triangle, enters);
            }
        }
    }
    sum.total()
}

/// The part of `edge` inside of `hull`, from and to which fraction of its length.
fn part_within(edge: Edge, hull: &[Point], runs_along: bool) -> Option<(Fraction, Fraction)> {
    let (mut enters, mut leaves) = (Fraction::ZERO, Fraction::ONE);
    for border in edges(hull) {
        let begins = border.side(edge.from);
        let nears = cross(border.along, edge.along);
        let at = Fraction { num: begins.unsigned_abs(), den: nears.unsigned_abs() };
        match (nears.cmp(&0), begins.cmp(&0)) {
            (Ordering::Greater, Ordering::Less) => enters = enters.max(at),
            (Ordering::Less, Ordering::Greater) => leaves = leaves.min(at),
            (Ordering::Less, _) | (Ordering::Equal, Ordering::Less) => return None,
            (Ordering::Equal, Ordering::Equal) if !runs_along => return None,
            _ => {}
        }
    }
    (enters < leaves).then_some((enters, leaves))
}

/// A fraction of an edge's length. Both numbers are at most 8e28.
#[derive(Clone, Copy, Debug)]
struct Fraction {
    num: u128,
    den: u128,
}

impl Fraction {
    const ZERO: Fraction = Fraction { num: 0, den: 1 };
    const ONE: Fraction = Fraction { num: 1, den: 1 };
}

impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> Ordering {
        let product = |a: u128, b: u128| {
            let (low, high) = a.carrying_mul(b, 0);
            (high, low)
        };
        product(self.num, other.den).cmp(&product(other.num, self.den))
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Fraction {}

/// A sum of fractions. Those of one denominator are added up first: the two pieces that end where two
/// edges cross have the same one, and each denominator left makes the total longer.
#[derive(Default)]
struct Sum {
    whole: i128,
    parts: Vec<(u128, BigInt)>,
}

impl Sum {
    /// Adds `factor` times `fraction`.
    fn add(&mut self, factor: i128, fraction: Fraction) {
        if factor == 0 || fraction.num == 0 {
            return;
        }
        if fraction.num == fraction.den {
            self.whole += factor;
            return;
        }
        let part = BigInt::from(factor) * fraction.num;
        match self.parts.iter_mut().find(|(den, _)| *den == fraction.den) {
            Some((_, sum)) => *sum += part,
            None => self.parts.push((fraction.den, part)),
        }
    }

    fn total(self) -> (BigInt, BigInt) {
        let (mut num, mut den) = (BigInt::from(self.whole), BigInt::from(1u32));
        for (part_den, part) in self.parts {
            num = num * part_den + part * &den;
            den *= part_den;
        }
        (num, den)
    }
}

#[cfg(test)]
#[path = "geometry_tests.rs"]
mod tests;
