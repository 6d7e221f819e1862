//! A slow twin of the measures: it clips one hull by the edges of the other, corner by corner, in rational
//! coordinates. Tests of this room stand on it, and so does the fuzzing of it.

use std::cmp::Ordering;

use num_bigint::BigInt;

use super::Shape;

/// A rational number in lowest terms: unreduced ones double in length with every cut.
#[derive(Clone, Debug)]
struct Rational(BigInt, BigInt);

impl Rational {
    fn new(num: BigInt, den: BigInt) -> Self {
        let (mut a, mut b) = (num.clone(), den.clone());
        while b != 0.into() {
            (a, b) = (b.clone(), a % b);
        }
        if (a < 0.into()) != (den < 0.into()) {
            a = -a;
        }
        Rational(num / &a, den / a)
    }
    fn whole(value: i64) -> Self {
        Rational(value.into(), 1.into())
    }
    fn plus(&self, other: &Self) -> Self {
        Rational::new(&self.0 * &other.1 + &other.0 * &self.1, &self.1 * &other.1)
    }
    fn less(&self, other: &Self) -> Self {
        Rational::new(&self.0 * &other.1 - &other.0 * &self.1, &self.1 * &other.1)
    }
    fn times(&self, other: &Self) -> Self {
        Rational::new(&self.0 * &other.0, &self.1 * &other.1)
    }
    fn over(&self, other: &Self) -> Self {
        Rational::new(&self.0 * &other.1, &self.1 * &other.0)
    }
    fn sign(&self) -> Ordering {
        self.0.cmp(&0.into())
    }
}

type Corner = (Rational, Rational);

fn twin_side(from: &Corner, to: &Corner, point: &Corner) -> Rational {
    let (dx, dy) = (to.0.less(&from.0), to.1.less(&from.1));
    dx.times(&point.1.less(&from.1)).less(&dy.times(&point.0.less(&from.0)))
}

fn twin_corners(shape: &Shape) -> Vec<Corner> {
    shape.hull().iter().map(|p| (Rational::whole(p.x_um), Rational::whole(p.y_um))).collect()
}

/// One hull cut by the edges of the other, one after the other (Sutherland and Hodgman).
fn twin_clip(a: &Shape, b: &Shape) -> Vec<Corner> {
    let (mut left, borders) = (twin_corners(a), twin_corners(b));
    for k in 0..borders.len() {
        let (from, to) = (&borders[k], &borders[(k + 1) % borders.len()]);
        let mut kept = Vec::new();
        for j in 0..left.len() {
            let (p, q) = (&left[j], &left[(j + 1) % left.len()]);
            let (at_p, at_q) = (twin_side(from, to, p), twin_side(from, to, q));
            if at_p.sign().is_ge() {
                kept.push(p.clone());
            }
            if at_p.sign().is_ne() && at_q.sign().is_ne() && at_p.sign() != at_q.sign() {
                let t = at_p.over(&at_p.less(&at_q));
                let between = |p: &Rational, q: &Rational| p.plus(&t.times(&q.less(p)));
                kept.push((between(&p.0, &q.0), between(&p.1, &q.1)));
            }
        }
        left = kept;
    }
    left
}

fn twin_area(corners: &[Corner]) -> Rational {
    let mut twice = Rational::whole(0);
    for k in 0..corners.len() {
        let (p, q) = (&corners[k], &corners[(k + 1) % corners.len()]);
        twice = twice.plus(&p.0.times(&q.1).less(&p.1.times(&q.0)));
    }
    twice.over(&Rational::whole(2))
}

fn twin_measures(a: &Shape, b: &Shape) -> [Rational; 3] {
    let areas = [twin_area(&twin_clip(a, b)), twin_area(&twin_corners(a)), twin_area(&twin_corners(b))];
    let Some((ah, bh)) = a.height().zip(b.height()) else { return areas };
    let shared = (ah.max_um.min(bh.max_um) - ah.min_um.max(bh.min_um)).max(0);
    let heights = [shared, ah.max_um - ah.min_um, bh.max_um - bh.min_um];
    let with = |k: usize| areas[k].times(&Rational::whole(heights[k]));
    [with(0), with(1), with(2)]
}

pub(super) fn twin_meet(a: &Shape, b: &Shape) -> bool {
    twin_measures(a, b)[0].sign().is_gt()
}

pub(super) fn twin_ratio_e9(a: &Shape, b: &Shape) -> u64 {
    let [part, a_whole, b_whole] = twin_measures(a, b);
    let whole = if a_whole.less(&b_whole).sign().is_lt() { a_whole } else { b_whole };
    let ratio = part.over(&whole).times(&Rational::whole(1_000_000_000)).plus(&Rational(1.into(), 2.into()));
    u64::try_from(ratio.0 / ratio.1).expect("a part of a whole is at most a billion billionths")
}

/// `inner` lies within `outer` exactly where cutting it by `outer` takes nothing away.
pub(super) fn twin_contains(outer: &Shape, inner: &Shape) -> bool {
    let lost = twin_area(&twin_corners(inner)).less(&twin_area(&twin_clip(inner, outer)));
    let heights = match (outer.height(), inner.height()) {
        (Some(outer), Some(inner)) => outer.min_um <= inner.min_um && outer.max_um >= inner.max_um,
        (outer, _) => outer.is_none(),
    };
    lost.sign().is_eq() && heights
}
