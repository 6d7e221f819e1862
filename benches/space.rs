//! The indexes of the `space` room at the sizes that they are built for, beside a bare `BTreeMap` of
//! the same size as a measure of the machine: `cargo bench --no-default-features --bench space`.

use std::collections::BTreeMap;
use std::hint::black_box;

use divan::Bencher;
use preclaim::space::geometry::{meet, overlap_ratio_e9};
use preclaim::space::profile::Profile;
use preclaim::space::regions::RegionSet;
use preclaim::space::windows::WindowSet;
use preclaim::types::{Micros, Shape, Time, Window};

fn main() {
    divan::main();
}

// Unoptimised, as where benches are only tried out, they are small.
const CROWD: u64 = if cfg!(debug_assertions) { 2_000 } else { 100_000 };
const MANY: u64 = if cfg!(debug_assertions) { 5_000 } else { 1_000_000 };

/// Numbers that look drawn by chance and are the same in every run (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn window(start: u64, length: u64) -> Window {
    Window::new(Time::from_us(start), Time::from_us(start + length))
        .unwrap_or_else(|| unreachable!("lengths are above 0"))
}

/// Windows put in by chance, one each 100 µs on average, of up to `longest`.
fn windows(count: u64, longest: u64, taus: &[u64]) -> WindowSet<u64> {
    let (mut set, mut dice) = (WindowSet::new(), Dice(1));
    for key in 0..count {
        let window = window(dice.below(100 * count), 1 + dice.below(longest));
        let tau = taus[dice.below(taus.len() as u64) as usize];
        set.insert(window, key, Micros::from_us(tau), key);
    }
    set
}

/// One window after the other, with stretches of 20 µs between them.
fn queue(count: u64, tau: u64) -> WindowSet<u64> {
    let mut set = WindowSet::new();
    for key in 0..count {
        set.insert(window(100 * key, 80), key, Micros::from_us(tau), key);
    }
    set
}

mod btreemap {
    use super::*;

    #[divan::bench(args = [CROWD, MANY])]
    fn lookup(bencher: Bencher<'_, '_>, count: u64) {
        let mut dice = Dice(2);
        let map: BTreeMap<u64, u64> = (0..count).map(|key| (dice.below(100 * count), key)).collect();
        bencher.bench_local(|| map.range(black_box(dice.below(100 * count))..).next());
    }

    #[divan::bench(args = [CROWD, MANY])]
    fn insert_and_remove(bencher: Bencher<'_, '_>, count: u64) {
        let mut dice = Dice(2);
        let mut map: BTreeMap<u64, u64> = (0..count).map(|key| (dice.below(100 * count), key)).collect();
        bencher.bench_local(|| {
            let at = dice.below(100 * count);
            map.insert(at, 0);
            map.remove(&at)
        });
    }
}

mod gap {
    use super::*;

    fn search(bencher: Bencher<'_, '_>, set: &WindowSet<u64>, duration: u64, tau: u64) {
        let (duration, tau) = (Micros::from_us(duration), Micros::from_us(tau));
        bencher.bench_local(|| set.earliest_gap(black_box(Time::from_us(50)), duration, tau, Time::MAX));
    }

    #[divan::bench]
    fn behind_a_queue(bencher: Bencher<'_, '_>) {
        search(bencher, &queue(CROWD, 0), 40, 0);
    }

    #[divan::bench]
    fn behind_a_queue_with_tolerance(bencher: Bencher<'_, '_>) {
        search(bencher, &queue(CROWD, 5), 40, 5);
    }

    #[divan::bench]
    fn behind_windows_that_overlap(bencher: Bencher<'_, '_>) {
        search(bencher, &windows(CROWD, 2_000, &[0]), 2_000, 0);
    }

    #[divan::bench]
    fn behind_windows_that_overlap_now_and_then(bencher: Bencher<'_, '_>) {
        search(bencher, &windows(CROWD, 200, &[0]), 2_000, 0);
    }

    #[divan::bench]
    fn behind_windows_of_several_tolerances(bencher: Bencher<'_, '_>) {
        search(bencher, &windows(CROWD, 200, &[0, 0, 5, 20]), 2_000, 20);
    }

    /// Every long window covers stretches that would do if it were not there.
    #[divan::bench]
    fn behind_long_windows_over_short_ones(bencher: Bencher<'_, '_>) {
        let mut set = queue(CROWD, 0);
        for key in 0..CROWD / 10 {
            set.insert(window(1_000 * key + 50, 1_000), CROWD + key, Micros::ZERO, 0);
        }
        search(bencher, &set, 15, 0);
    }
}

mod members {
    use super::*;

    #[divan::bench(args = [CROWD, MANY])]
    fn insert_and_remove(bencher: Bencher<'_, '_>, count: u64) {
        change(bencher, count, 80);
    }

    #[divan::bench(args = [CROWD, MANY])]
    fn insert_and_remove_among_many_that_overlap(bencher: Bencher<'_, '_>, count: u64) {
        change(bencher, count, 2_000);
    }

    fn change(bencher: Bencher<'_, '_>, count: u64, longest: u64) {
        let (mut set, mut dice) = (windows(count, longest, &[0]), Dice(3));
        bencher.bench_local(|| {
            let window = window(dice.below(100 * count), 1 + dice.below(longest));
            set.insert(window, u64::MAX, Micros::ZERO, 0);
            set.remove(window, u64::MAX)
        });
    }

    #[divan::bench(args = [CROWD, MANY])]
    fn overlapping(bencher: Bencher<'_, '_>, count: u64) {
        let (set, mut dice) = (windows(count, 400, &[0]), Dice(4));
        bencher.bench_local(|| {
            let mut found = 0;
            set.for_each_overlapping(window(dice.below(100 * count), 400), |member| found += member.value);
            found
        });
    }

    /// As the coordinator does all day: what comes in is late, what goes out is early.
    #[divan::bench]
    fn one_in_late_one_out_early(bencher: Bencher<'_, '_>) {
        let (mut set, mut key) = (queue(CROWD, 0), 0);
        bencher.bench_local(|| {
            set.insert(window(100 * (CROWD + key), 80), CROWD + key, Micros::ZERO, 0);
            set.remove(window(100 * key, 80), key);
            key += 1;
        });
    }
}

mod units {
    use super::*;

    fn profile(longest: u64) -> Profile {
        let (mut profile, mut dice) = (Profile::new(), Dice(5));
        for _ in 0..CROWD {
            profile.add(window(dice.below(100 * CROWD), 1 + dice.below(longest)), 1 + dice.below(5));
        }
        profile
    }

    #[divan::bench]
    fn add_and_sub(bencher: Bencher<'_, '_>) {
        let (mut profile, mut dice) = (profile(2_000), Dice(6));
        bencher.bench_local(|| {
            let window = window(dice.below(100 * CROWD), 1 + dice.below(2_000));
            profile.add(window, 3);
            profile.sub(window, 3);
        });
    }

    #[divan::bench(args = [400, 1_000_000])]
    fn max_over(bencher: Bencher<'_, '_>, length: u64) {
        let (profile, mut dice) = (profile(2_000), Dice(7));
        bencher.bench_local(|| profile.max_over(window(dice.below(90 * CROWD), length)));
    }

    /// The sum is about 30 on average; there is room for as many now and then, and never for long.
    #[divan::bench(args = [300, 3_000, 30_000])]
    fn fit_behind_all(bencher: Bencher<'_, '_>, duration: u64) {
        let profile = profile(2_000);
        let duration = Micros::from_us(duration);
        bencher
            .bench_local(|| profile.earliest_fit(black_box(Time::from_us(50)), duration, 30, 40, Time::MAX));
    }
}

mod regions {
    use super::*;

    /// A vehicle's box of up to 4 m by 2 m on a square kilometre, for up to 2 s of a minute.
    fn region(dice: &mut Dice) -> (Shape, Window) {
        let mut metres = |bound: u64| dice.below(bound * 1_000) as f64 / 1_000.0;
        let (x, y) = (metres(1_000), metres(1_000));
        let max = [x + 1.0 + metres(3), y + 1.0 + metres(1)];
        let shape =
            Shape::from_box(&[x, y], &max).unwrap_or_else(|_| unreachable!("a box of a metre or more"));
        (shape, window(dice.below(60_000_000), 1 + dice.below(2_000_000)))
    }

    fn regions(count: u64) -> RegionSet<u64> {
        let (mut set, mut dice) = (RegionSet::new(), Dice(8));
        for key in 0..count {
            let (shape, window) = region(&mut dice);
            set.insert(&shape, window, key, key);
        }
        set
    }

    #[divan::bench]
    fn candidates(bencher: Bencher<'_, '_>) {
        let (set, mut dice) = (regions(CROWD), Dice(9));
        bencher.bench_local(|| {
            let (shape, window) = region(&mut dice);
            let mut found = 0;
            set.for_each_candidate(&shape, window, |region| found += region.value);
            found
        });
    }

    #[divan::bench]
    fn insert_and_remove(bencher: Bencher<'_, '_>) {
        let (mut set, mut dice) = (regions(CROWD), Dice(10));
        bencher.bench_local(|| {
            let (shape, window) = region(&mut dice);
            set.insert(&shape, window, CROWD, 0);
            set.remove(&shape, window, CROWD)
        });
    }
}

mod shapes {
    use super::*;

    /// A regular polygon about (x, 0), a metre and a half across.
    fn polygon(corners: u64, x: f64) -> Shape {
        let angle = |k: u64| (k as f64 + 0.3) * std::f64::consts::TAU / corners as f64;
        let corners: Vec<Vec<f64>> =
            (0..corners).map(|k| vec![x + 0.75 * angle(k).cos(), 0.75 * angle(k).sin()]).collect();
        Shape::from_polygon(&corners, None).unwrap_or_else(|_| unreachable!("a regular polygon is convex"))
    }

    #[divan::bench(args = [4, 16])]
    fn meet_of_two(bencher: Bencher<'_, '_>, corners: u64) {
        let (a, b) = (polygon(corners, 0.0), polygon(corners, 0.5));
        bencher.bench_local(|| meet(black_box(&a), black_box(&b)));
    }

    #[divan::bench(args = [4, 16])]
    fn ratio_of_two(bencher: Bencher<'_, '_>, corners: u64) {
        let (a, b) = (polygon(corners, 0.0), polygon(corners, 0.5));
        bencher.bench_local(|| overlap_ratio_e9(black_box(&a), black_box(&b)));
    }
}
