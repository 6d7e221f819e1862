use num_bigint::BigInt;
use proptest::prelude::*;

use super::*;

/// A box of a metre around `x`, in micrometres.
fn at(x_um: i64, y_um: i64) -> Shape {
    let metres = |um: i64| um as f64 / 1e6;
    Shape::from_box(
        &[metres(x_um - 500_000), metres(y_um - 500_000)],
        &[metres(x_um + 500_000), metres(y_um + 500_000)],
    )
    .unwrap()
}

/// Regions around x at times, both in micro.
fn along(places: &[(i64, u64)], limits: MotionLimits) -> Result<(), Unreachable> {
    plane(&places.iter().map(|(x, at)| (*x, 0, *at)).collect::<Vec<_>>(), limits)
}

fn plane(places: &[(i64, i64, u64)], limits: MotionLimits) -> Result<(), Unreachable> {
    let shapes: Vec<Shape> = places.iter().map(|(x, y, _)| at(*x, *y)).collect();
    let stay = |(claim, (_, _, offset)): (usize, &(i64, i64, u64))| Stay {
        claim,
        offset: Micros::from_us(*offset),
        shape: &shapes[claim],
    };
    check(&places.iter().enumerate().map(stay).collect::<Vec<_>>(), &limits)
}

fn speed_limit(um_s: u64) -> MotionLimits {
    MotionLimits { max_speed_um_s: Some(um_s), tolerance_um: Some(0), ..MotionLimits::default() }
}

fn acceleration_limit(um_s2: u64) -> MotionLimits {
    MotionLimits { max_acceleration_um_s2: Some(um_s2), tolerance_um: Some(0), ..MotionLimits::default() }
}

const SECOND: u64 = 1_000_000;

#[test]
fn exactly_the_speed_is_fine_and_a_micrometre_more_is_not() {
    let limits = speed_limit(20_000_000);
    assert_eq!(along(&[(0, 0), (20_000_000, SECOND)], limits), Ok(()));
    assert_eq!(along(&[(20_000_000, 0), (0, SECOND)], limits), Ok(()));
    let needs = Needs::Speed { needed_um_s: 20_000_001, allowed_um_s: 20_000_000, least_us: Some(1_000_001) };
    let fault = Unreachable { from: 0, to: 1, needs };
    assert_eq!(along(&[(0, 0), (20_000_001, SECOND)], limits), Err(fault));
    // In the same way a microsecond less, and on a slant: 3, 4, 5.
    assert!(along(&[(0, 0), (20_000_000, SECOND - 1)], limits).is_err());
    assert_eq!(plane(&[(0, 0, 0), (12_000_000, 16_000_000, SECOND)], limits), Ok(()));
    assert!(plane(&[(0, 0, 0), (12_000_000, 16_000_001, SECOND)], limits).is_err());
}

#[test]
fn what_it_takes_at_least_would_do() {
    let limits = speed_limit(7_000_000);
    let Err(Unreachable { needs: Needs::Speed { least_us: Some(least), .. }, .. }) =
        plane(&[(0, 0, 0), (10_000_000, 10_000_000, SECOND)], limits)
    else {
        panic!("14 m in a second")
    };
    let least = u64::try_from(least).unwrap();
    assert_eq!(plane(&[(0, 0, 0), (10_000_000, 10_000_000, least)], limits), Ok(()));
    assert!(plane(&[(0, 0, 0), (10_000_000, 10_000_000, least - 1)], limits).is_err());
}

#[test]
fn where_nothing_may_move_the_same_place_is_fine() {
    let limits = speed_limit(0);
    assert_eq!(along(&[(5, 0), (5, 1), (5, SECOND)], limits), Ok(()));
    let needs = Needs::Speed { needed_um_s: 1, allowed_um_s: 0, least_us: None };
    assert_eq!(along(&[(5, 0), (6, SECOND)], limits), Err(Unreachable { from: 0, to: 1, needs }));
}

#[test]
fn exactly_the_acceleration_is_fine_and_a_little_more_is_not() {
    // From 1 m/s to 5 m/s in a second, and back.
    let limits = acceleration_limit(4_000_000);
    assert_eq!(along(&[(0, 0), (1_000_000, SECOND), (6_000_000, 2 * SECOND)], limits), Ok(()));
    assert_eq!(along(&[(6_000_000, 0), (1_000_000, SECOND), (0, 2 * SECOND)], limits), Ok(()));
    let needs = Needs::Acceleration { after: 0, needed_um_s2: 4_000_001, allowed_um_s2: 4_000_000 };
    assert_eq!(
        along(&[(0, 0), (1_000_000, SECOND), (6_000_001, 2 * SECOND)], limits),
        Err(Unreachable { from: 1, to: 2, needs })
    );
    // Half the time of both steps: 3 s for the first and 1 s for the second give 2 s.
    assert_eq!(along(&[(0, 0), (3_000_000, 3 * SECOND), (12_000_000, 4 * SECOND)], limits), Ok(()));
    assert!(along(&[(0, 0), (3_000_000, 3 * SECOND), (12_000_001, 4 * SECOND)], limits).is_err());
}

#[test]
fn to_turn_and_to_go_back_are_changes_of_velocity() {
    let limits = acceleration_limit(10_000_000);
    let fast = 8_000_000;
    assert_eq!(plane(&[(0, 0, 0), (fast, 0, SECOND), (2 * fast, 0, 2 * SECOND)], limits), Ok(()));
    // 8 m/s east, then 8 m/s north: 11.3 m/s more or less.
    let corner = plane(&[(0, 0, 0), (fast, 0, SECOND), (fast, fast, 2 * SECOND)], limits);
    let needs = Needs::Acceleration { after: 0, needed_um_s2: 11_313_709, allowed_um_s2: 10_000_000 };
    assert_eq!(corner, Err(Unreachable { from: 1, to: 2, needs }));
    assert!(along(&[(0, 0), (fast, SECOND), (0, 2 * SECOND)], limits).is_err());
}

#[test]
fn one_region_and_none_are_always_fine_and_two_have_no_acceleration() {
    for limits in [speed_limit(0), acceleration_limit(0)] {
        assert_eq!(along(&[], limits), Ok(()));
        assert_eq!(along(&[(1, 0)], limits), Ok(()));
    }
    assert_eq!(along(&[(0, 0), (1_000_000, SECOND)], acceleration_limit(0)), Ok(()));
    assert!(along(&[(0, 0), (1_000_000, SECOND)], speed_limit(0)).is_err());
}

#[test]
fn claims_are_taken_in_the_order_of_their_starts() {
    let limits = speed_limit(1_000_000);
    assert_eq!(along(&[(2_000_000, 2 * SECOND), (0, 0), (1_000_000, SECOND)], limits), Ok(()));
    let fault = along(&[(3_000_000, 2 * SECOND), (0, 0), (1_000_000, SECOND)], limits).unwrap_err();
    assert_eq!((fault.from, fault.to), (2, 0));
}

#[test]
fn regions_of_one_start_are_reached_from_the_nearest_before_them() {
    let limits = speed_limit(1_000_000);
    // Far apart at one instant: two bodies, two branches of a plan, or one that is large.
    assert_eq!(along(&[(0, 0), (90_000_000, 0)], limits), Ok(()));
    assert_eq!(along(&[(0, 0), (90_000_000, 0), (1_000_000, SECOND), (89_000_000, SECOND)], limits), Ok(()));
    let fault = along(&[(0, 0), (90_000_000, 0), (1_000_000, SECOND), (88_000_000, SECOND)], limits);
    assert_eq!(fault.map_err(|it| (it.from, it.to)), Err((1, 3)));
    // Only the latest earlier instant counts, and of equally near ones the first.
    assert!(along(&[(0, 0), (1_000_000, SECOND), (3_000_000, 2 * SECOND)], limits).is_err());
    let fault = along(&[(0, 0), (4_000_000, 0), (2_000_000, SECOND)], limits);
    assert_eq!(fault.map_err(|it| (it.from, it.to)), Err((0, 2)));
}

#[test]
fn a_plan_with_two_branches_that_part_is_driven_on_either() {
    // One goes on with 10 m/s, the other brakes with 4 m/s² until it is as far behind as a step is long: from then on
    // the nearest place before each is one of the other branch.
    let limits = MotionLimits { max_acceleration_um_s2: Some(5_000_000), ..speed_limit(12_000_000) };
    let quarter = SECOND as i64 / 4;
    let mut places = vec![(0, 0)];
    for step in 1..10 {
        let braked = (10 * quarter * step) - quarter * step * step / 8;
        places.extend([(10 * quarter * step, step as u64 * SECOND / 4), (braked, step as u64 * SECOND / 4)]);
    }
    assert_eq!(along(&places, limits), Ok(()));
    // Where one of them jumps, it is told of.
    places[12].0 -= 3_000_000;
    assert!(along(&places, limits).is_err());
}

#[test]
fn many_regions_of_one_start_are_looked_at_in_bounded_time() {
    // Each has several ways, and goes on evenly.
    let stood = |count: i64| {
        let first = (0..count).map(|at| (at * 10, 0));
        let second = (0..count).map(|at| (at * 10 + 1_000_000, SECOND));
        first.chain(second).chain([(1_000_000 + 1_000_000, 2 * SECOND)]).collect::<Vec<_>>()
    };
    assert_eq!(along(&stood(40), acceleration_limit(1_000)), Ok(()));
    let most: Vec<_> = (0..21).flat_map(|at| [(at, 0), (at + 9, SECOND), (at - 9, 2 * SECOND)]).collect();
    assert!(along(&most, acceleration_limit(0)).is_err());
}

#[test]
fn the_tolerance_is_taken_off_each_distance() {
    let limits = MotionLimits { tolerance_um: Some(500_000), ..speed_limit(1_000_000) };
    assert_eq!(along(&[(0, 0), (1_500_000, SECOND)], limits), Ok(()));
    assert!(along(&[(0, 0), (1_500_001, SECOND)], limits).is_err());
    // Of a change it is taken off twice.
    let limits = MotionLimits { tolerance_um: Some(500_000), ..acceleration_limit(1_000_000) };
    assert_eq!(along(&[(0, 0), (0, SECOND), (2_000_000, 2 * SECOND)], limits), Ok(()));
    assert!(along(&[(0, 0), (0, SECOND), (2_000_001, 2 * SECOND)], limits).is_err());
    // Where nothing is said, it is a millimetre.
    let limits = MotionLimits { tolerance_um: None, ..speed_limit(1_000_000) };
    assert_eq!(along(&[(0, 0), (1_001_000, SECOND)], limits), Ok(()));
    assert!(along(&[(0, 0), (1_001_001, SECOND)], limits).is_err());
}

#[test]
fn heights_count_where_both_have_some() {
    let flat = at(0, 0);
    let high = |z: f64| Shape::from_box(&[-0.5, -0.5, z], &[0.5, 0.5, z + 1.0]).unwrap();
    let (low, up) = (high(0.0), high(2.0));
    let go = |first: &Shape, second: &Shape, limit| {
        let stay = |claim, us, shape| Stay { claim, offset: Micros::from_us(us), shape };
        check(&[stay(0, 0, first), stay(1, SECOND, second)], &speed_limit(limit))
    };
    assert_eq!(go(&low, &up, 2_000_000), Ok(()));
    assert!(go(&low, &up, 1_999_999).is_err());
    assert_eq!(go(&flat, &up, 0), Ok(()));
    assert_eq!(go(&low, &flat, 0), Ok(()));
}

#[test]
fn the_centre_of_a_polygon_is_the_middle_of_its_bounds() {
    let triangle = Shape::from_polygon(&[vec![0.0, 0.0], vec![4.0, 0.0], vec![0.0, 2.0]], None).unwrap();
    let middle = at(2_000_000, 1_000_000);
    let stay = |claim, us, shape| Stay { claim, offset: Micros::from_us(us), shape };
    assert_eq!(check(&[stay(0, 0, &triangle), stay(1, 1, &middle)], &speed_limit(0)), Ok(()));
}

#[test]
fn huge_numbers_neither_overflow_nor_slip_through() {
    let most = 99_999_999_000_000;
    for limits in [speed_limit(u64::MAX), acceleration_limit(u64::MAX)] {
        let limits = MotionLimits { tolerance_um: Some(u64::MAX), ..limits };
        assert_eq!(plane(&[(-most, -most, 0), (most, most, 1), (-most, -most, 2)], limits), Ok(()));
    }
    let far = plane(&[(-most, -most, 0), (most, most, 1)], speed_limit(1));
    let Err(Unreachable { needs: Needs::Speed { needed_um_s, least_us, .. }, .. }) = far else {
        panic!("283,000 km in a microsecond")
    };
    assert_eq!(needed_um_s, least_us.unwrap());
    assert_eq!(needed_um_s, 282_842_709_646_192_000_000);
    let times = [0, 1, u64::MAX];
    let there_and_back: Vec<_> = [-most, most, -most].into_iter().zip(times).collect();
    let Err(Unreachable { needs: Needs::Acceleration { needed_um_s2, .. }, .. }) =
        along(&there_and_back, acceleration_limit(1))
    else {
        panic!("a great deal")
    };
    assert_eq!(needed_um_s2, 21_684_044, "4e20 µm/s in half of 585,000 years");
    assert_eq!(along(&there_and_back, acceleration_limit(21_684_044)), Ok(()));
    assert!(along(&there_and_back, acceleration_limit(21_684_043)).is_err());
    assert!(along(&[(0, 0), (0, u64::MAX - 1), (most, u64::MAX)], acceleration_limit(1)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The rules in plain fractions of big integers, without a short cut.
    #[test]
    fn the_short_cuts_decide_as_plain_fractions_do(
        xs in prop::array::uniform3((-60_000_i64..60_000, -60_000_i64..60_000)),
        times in (1_u64..200_000, 1_u64..200_000),
        scale in prop::sample::select(vec![1_i64, 1_000, 1_000_000_000]),
        limit in prop_oneof![0_u64..40_000_000, Just(u64::MAX), 0_u64..1_000],
        tolerance in prop_oneof![Just(0_u64), 0_u64..2_000_000],
    ) {
        let starts = [0, times.0, times.0 + times.1];
        let places: Vec<_> = xs.iter().zip(starts).map(|((x, y), at)| (x * scale, y * scale, at)).collect();
        let speed = MotionLimits { tolerance_um: Some(tolerance), ..speed_limit(limit) };
        prop_assert_eq!(plane(&places, speed).is_err(), is_too_fast_twin(&places, limit, tolerance));
        let change = MotionLimits { tolerance_um: Some(tolerance), ..acceleration_limit(limit) };
        prop_assert_eq!(plane(&places, change).is_err(), is_too_much_twin(&places, limit, tolerance));
    }
}

/// 4 * distance^2 * 1e12 > (2 * (limit * us + tolerance * 1e6))^2, for either step.
fn is_too_fast_twin(places: &[(i64, i64, u64)], limit: u64, tolerance: u64) -> bool {
    places.windows(2).any(|pair| {
        let [(x0, y0, t0), (x1, y1, t1)] = pair else { unreachable!("windows of two") };
        let (dx, dy) = (BigInt::from(x1 - x0), BigInt::from(y1 - y0));
        let reach = BigInt::from(limit) * (t1 - t0) + BigInt::from(tolerance) * 1_000_000;
        (&dx * &dx + &dy * &dy) * 1_000_000_000_000_u64 > &reach * &reach
    })
}

fn is_too_much_twin(places: &[(i64, i64, u64)], limit: u64, tolerance: u64) -> bool {
    let [(x0, y0, t0), (x1, y1, t1), (x2, y2, t2)] = places else { unreachable!("three places") };
    let (one, two) = (BigInt::from(t1 - t0), BigInt::from(t2 - t1));
    let turn = |a: i64, b: i64, c: i64| BigInt::from(c - b) * &one - BigInt::from(b - a) * &two;
    let (x, y) = (turn(*x0, *x1, *x2), turn(*y0, *y1, *y2));
    // In whole micrometres: |turn| * 2e12 > limit * one * two * (one + two) + 2e12 * tolerance * (one + two).
    let both = &one + &two;
    let reach = &both * &one * &two * limit + &both * tolerance * 2_000_000_000_000_u64;
    (&x * &x + &y * &y) * BigInt::from(2_000_000_000_000_u64).pow(2) > &reach * &reach
}
