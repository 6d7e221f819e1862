//! The measures against cases worked out by hand, and against the slow twin.

use proptest::prelude::*;
use twin::{twin_contains, twin_meet, twin_ratio_e9};

use super::*;
use crate::types::Shape;

#[path = "geometry_twin.rs"]
mod twin;

const FAR_UM: i64 = 100_000_000_000_000;

fn m(um: i64) -> f64 {
    um as f64 / 1e6
}

fn box_um(min: [i64; 2], max: [i64; 2]) -> Shape {
    Shape::from_box(&min.map(m), &max.map(m)).unwrap()
}

fn block_um(min: [i64; 3], max: [i64; 3]) -> Shape {
    Shape::from_box(&min.map(m), &max.map(m)).unwrap()
}

fn try_polygon(corners: &[[i64; 2]], height: Option<[i64; 2]>) -> Option<Shape> {
    let corners: Vec<Vec<f64>> = corners.iter().map(|c| c.map(m).to_vec()).collect();
    let height = height.map(|range| range.map(m));
    Shape::from_polygon(&corners, height.as_ref().map(|range| range.as_slice())).ok()
}

fn polygon_um(corners: &[[i64; 2]]) -> Shape {
    try_polygon(corners, None).unwrap()
}

/// Compares everything with the twin, both ways round, and returns the ratio.
fn agreed(a: &Shape, b: &Shape) -> u64 {
    for (a, b) in [(a, b), (b, a)] {
        assert_eq!(meet(a, b), twin_meet(a, b), "meet {a:?} {b:?}");
        assert_eq!(overlap_ratio_e9(a, b), twin_ratio_e9(a, b), "ratio {a:?} {b:?}");
        assert_eq!(contains(a, b), twin_contains(a, b), "contains {a:?} {b:?}");
    }
    overlap_ratio_e9(a, b)
}

#[test]
fn shapes_that_touch_do_not_meet() {
    let square = box_um([0, 0], [10, 10]);
    let touching = [
        box_um([10, 0], [20, 10]),
        box_um([10, 10], [20, 20]),
        box_um([0, -5], [10, 0]),
        polygon_um(&[[10, 0], [20, 5], [10, 10]]),
        polygon_um(&[[10, 5], [20, 0], [20, 10]]),
        polygon_um(&[[10, 10], [20, 0], [20, 30]]),
        polygon_um(&[[0, 20], [20, 0], [20, 20]]),
    ];
    for other in &touching {
        assert!(!meet(&square, other), "{other:?}");
        assert_eq!(agreed(&square, other), 0);
    }
    for nearer in [
        box_um([9, 0], [20, 10]),
        box_um([9, 9], [20, 20]),
        polygon_um(&[[9, 5], [20, 0], [20, 10]]),
        polygon_um(&[[0, 19], [20, 0], [20, 20]]),
    ] {
        assert!(meet(&square, &nearer), "{nearer:?}");
        assert!(agreed(&square, &nearer) > 0);
    }
}

#[test]
fn bounding_boxes_that_overlap_are_not_enough() {
    let a = polygon_um(&[[0, 0], [100, 0], [0, 100]]);
    let b = polygon_um(&[[100, 100], [100, 1], [1, 100]]);
    assert!(!meet(&a, &b));
    assert_eq!(agreed(&a, &b), 0);
    let b = polygon_um(&[[100, 100], [100, -1], [1, 100]]);
    assert!(agreed(&a, &b) > 0);
}

#[test]
fn the_same_shape_twice_overlaps_whole() {
    let shapes = [
        box_um([0, 0], [7, 9]),
        block_um([0, 0, 0], [7, 9, 1]),
        polygon_um(&[[0, 0], [7, 1], [3, 9]]),
        polygon_um(&[[0, 0], [FAR_UM, 1], [3, FAR_UM]]),
        box_um([-FAR_UM, -FAR_UM], [FAR_UM, FAR_UM]),
        block_um([-FAR_UM; 3], [FAR_UM; 3]),
    ];
    for shape in &shapes {
        assert_eq!(agreed(shape, shape), 1_000_000_000);
        assert!(contains(shape, shape));
    }
    let (left, right) =
        (polygon_um(&[[0, 0], [7, 0], [7, 9], [0, 9]]), polygon_um(&[[0, 9], [7, 9], [7, 0], [0, 0]]));
    assert_eq!(agreed(&left, &right), 1_000_000_000);
    assert_eq!(agreed(&left, &shapes[0]), 1_000_000_000);
}

#[test]
fn the_smaller_one_of_two_is_the_measure() {
    let (large, small) = (box_um([0, 0], [100, 100]), box_um([10, 10], [20, 20]));
    assert_eq!(agreed(&large, &small), 1_000_000_000);
    assert!(contains(&large, &small) && !contains(&small, &large));
    assert_eq!(agreed(&large, &box_um([90, 90], [110, 110])), 250_000_000);
    let diamond = polygon_um(&[[50, 0], [100, 50], [50, 100], [0, 50]]);
    assert_eq!(agreed(&large, &diamond), 1_000_000_000);
    assert!(contains(&large, &diamond), "edges may touch");
}

#[test]
fn a_turn_of_45_degrees_shares_the_octagon() {
    // Over a square of side 2, the turned one of the same area leaves 4 corners: 2(√2-1) of the area.
    let square = box_um([-1_000_000, -1_000_000], [1_000_000, 1_000_000]);
    let r = 1_414_214;
    let turned = polygon_um(&[[r, 0], [0, r], [-r, 0], [0, -r]]);
    let ratio = agreed(&square, &turned);
    assert!((828_427_000..=828_427_400).contains(&ratio), "{ratio}");
}

#[test]
fn a_third_is_rounded_down_two_thirds_up_and_a_half_up() {
    let whole = box_um([0, 0], [3, 1]);
    assert_eq!(agreed(&whole, &box_um([2, 0], [9, 1])), 333_333_333);
    assert_eq!(agreed(&whole, &box_um([1, 0], [9, 1])), 666_666_667);
    // 1 part in 2e9 is half a billionth.
    let wide = box_um([0, 0], [2_000_000_000, 1]);
    assert_eq!(agreed(&wide, &box_um([1_999_999_999, 0], [8_000_000_000, 1])), 1);
    let wider = box_um([0, 0], [2_000_000_001, 1]);
    assert_eq!(agreed(&wider, &box_um([2_000_000_000, 0], [8_000_000_000, 1])), 0);
    assert!(meet(&wider, &box_um([2_000_000_000, 0], [8_000_000_000, 1])), "meeting knows no rounding");
}

#[test]
fn heights_count_only_where_both_have_one() {
    let (low, high) = (block_um([0, 0, 0], [10, 10, 4]), block_um([0, 0, 3], [10, 10, 7]));
    assert_eq!(agreed(&low, &high), 250_000_000);
    let (above, flat) = (block_um([0, 0, 4], [10, 10, 5]), box_um([5, 0], [15, 10]));
    assert_eq!(agreed(&low, &above), 0);
    assert!(!meet(&low, &above));
    assert_eq!(agreed(&low, &flat), 500_000_000);
    assert!(contains(&box_um([0, 0], [10, 10]), &low) && !contains(&low, &box_um([0, 0], [10, 10])));
    let prism = try_polygon(&[[0, 0], [10, 0], [0, 10]], Some([2, 6])).unwrap();
    assert_eq!(agreed(&low, &prism), 500_000_000);
    assert!(!contains(&low, &prism));
}

#[test]
fn the_largest_volumes_are_exact() {
    let all = block_um([-FAR_UM; 3], [FAR_UM; 3]);
    let corner = block_um([0; 3], [FAR_UM; 3]);
    assert_eq!(agreed(&all, &corner), 1_000_000_000);
    let shifted = block_um([-FAR_UM + 1; 3], [FAR_UM; 3]);
    assert_eq!(agreed(&all, &shifted), 1_000_000_000);
    assert!(contains(&all, &shifted) && !contains(&shifted, &all));
    let slab = block_um([-FAR_UM, -FAR_UM, -FAR_UM], [FAR_UM, FAR_UM, -FAR_UM + 3]);
    let next = block_um([-FAR_UM, -FAR_UM, -FAR_UM + 2], [FAR_UM, FAR_UM, -FAR_UM + 5]);
    assert_eq!(agreed(&slab, &next), 333_333_333);
}

#[test]
fn needles_a_kilometre_long_and_a_millimetre_wide_are_told_apart() {
    let (long, wide) = (1_000_000_000, 1_000);
    let needle =
        |y: i64, rise: i64| polygon_um(&[[0, y], [long, y + rise], [long, y + rise + wide], [0, y + wide]]);
    let a = needle(0, 0);
    assert_eq!(agreed(&a, &needle(wide, 0)), 0);
    assert_eq!(agreed(&a, &needle(wide - 1, 0)), 1_000_000);
    assert_eq!(agreed(&a, &needle(wide, 1)), 0);
    assert!(agreed(&a, &needle(wide, -1)) > 0);
    assert!(agreed(&a, &needle(-5_000_000, 10_000_000)) > 0, "crossing at half way");
    let sharp = polygon_um(&[[0, 0], [long, 1], [long, 0]]);
    assert!(agreed(&sharp, &needle(-wide, 0)) == 0);
    assert!(agreed(&sharp, &a) > 999_999_999, "within");
    assert!(meet(&sharp, &polygon_um(&[[long - 1, -5], [long, -5], [long, 1], [long - 1, 1]])));
}

#[test]
fn a_micrometre_decides_at_the_ends_of_the_range() {
    let near = FAR_UM - 5_000;
    let a = box_um([near, near], [FAR_UM, FAR_UM]);
    let strip = |x: i64| polygon_um(&[[x - 1_000, near], [x, near], [x, FAR_UM], [x - 1_000, FAR_UM]]);
    assert_eq!(agreed(&a, &strip(near)), 0);
    assert_eq!(agreed(&a, &strip(near + 1)), 1_000_000);
    // The diagonal of the whole range, and a triangle one µm beyond it on either side.
    let upper = polygon_um(&[[-FAR_UM, -FAR_UM], [FAR_UM, FAR_UM], [-FAR_UM, FAR_UM]]);
    let lower = |k: i64| polygon_um(&[[-FAR_UM + k, -FAR_UM], [FAR_UM, FAR_UM - k], [FAR_UM, -FAR_UM]]);
    assert_eq!(agreed(&upper, &lower(0)), 0);
    assert_eq!(agreed(&upper, &lower(1)), 0);
    let crossing = polygon_um(&[[-FAR_UM, -FAR_UM], [FAR_UM, -FAR_UM], [FAR_UM, FAR_UM], [0, 1]]);
    assert!(meet(&upper, &crossing));
    agreed(&upper, &crossing);
    let sliver = polygon_um(&[[-FAR_UM, -FAR_UM], [FAR_UM, FAR_UM], [FAR_UM - 1, FAR_UM]]);
    assert!(meet(&upper, &sliver) && contains(&upper, &sliver));
    assert!(!meet(&lower(0), &sliver));
    agreed(&upper, &sliver);
}

/// Corners of a convex polygon from any points: the hull of them, walked in either direction.
fn hull_of(points: &[[i64; 2]], reversed: bool) -> Option<Vec<[i64; 2]>> {
    let mut sorted = points.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let turns = |a: [i64; 2], b: [i64; 2], c: [i64; 2]| {
        i128::from(b[0] - a[0]) * i128::from(c[1] - a[1]) - i128::from(b[1] - a[1]) * i128::from(c[0] - a[0])
    };
    // Gift wrapping, since the code under test builds hulls by chains.
    let mut walk = vec![*sorted.first()?];
    loop {
        let from = *walk.last()?;
        let mut to = *sorted.iter().find(|p| **p != from)?;
        for p in sorted.iter().copied().filter(|p| *p != from) {
            let turn = turns(from, to, p);
            let farther = |p: [i64; 2]| (p[0] - from[0]).unsigned_abs() + (p[1] - from[1]).unsigned_abs();
            if turn < 0 || (turn == 0 && farther(p) > farther(to)) {
                to = p;
            }
        }
        if to == walk[0] {
            break;
        }
        walk.push(to);
    }
    if reversed {
        walk.reverse();
    }
    (walk.len() >= 3).then_some(walk)
}

fn small_heights() -> impl Strategy<Value = Option<[i64; 2]>> {
    proptest::option::of((0i64..5, 1i64..4).prop_map(|(min, rise)| [min, min + rise]))
}

/// Shapes on a grid of 12 × 12, so that edges and corners coincide often.
fn small_shape() -> impl Strategy<Value = Shape> {
    let boxes =
        (-6i64..6, -6i64..6, 1i64..7, 1i64..7, small_heights()).prop_map(
            |(x, y, w, d, height)| match height {
                None => box_um([x, y], [x + w, y + d]),
                Some([low, high]) => block_um([x, y, low], [x + w, y + d, high]),
            },
        );
    let points = proptest::collection::vec([-6i64..7, -6i64..7], 3..9);
    let polygons = (points, any::<bool>(), small_heights())
        .prop_filter_map("no area", |(points, back, height)| try_polygon(&hull_of(&points, back)?, height));
    prop_oneof![boxes, polygons]
}

/// Polygons of up to 16 corners whose coordinates span the whole range or the last metre of it.
fn large_shape() -> impl Strategy<Value = Shape> {
    let span = prop_oneof![Just(FAR_UM), Just(1_000_000), Just(1_000), Just(20)];
    let points = proptest::collection::vec([-1_000_000i64..=1_000_000, -1_000_000i64..=1_000_000], 3..30);
    let corner = (any::<bool>(), any::<bool>());
    (span, points, corner, any::<bool>()).prop_filter_map("no area", |(span, points, corner, back)| {
        let at = |unit: i64, positive: bool| {
            let inward = (i128::from(unit + 1_000_000) * i128::from(span) / 1_000_000) as i64;
            if positive { FAR_UM - inward } else { inward - FAR_UM }
        };
        let points: Vec<[i64; 2]> = points.iter().map(|p| [at(p[0], corner.0), at(p[1], corner.1)]).collect();
        try_polygon(&hull_of(&points, back)?, None)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn small_shapes_agree_with_the_twin(a in small_shape(), b in small_shape()) {
        agreed(&a, &b);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn large_shapes_agree_with_the_twin(a in large_shape(), b in large_shape()) {
        agreed(&a, &b);
    }

    #[test]
    fn any_two_numbers_of_256_bits_compare_as_fractions(
        a in [1u128.., 1u128..], b in [1u128.., 1u128..],
    ) {
        let (a, b) = (Fraction { num: a[0], den: a[1] }, Fraction { num: b[0], den: b[1] });
        let twin = (BigInt::from(a.num) * b.den).cmp(&(BigInt::from(b.num) * a.den));
        prop_assert_eq!(a.cmp(&b), twin);
    }
}
