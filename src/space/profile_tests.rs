//! The profile against a slow twin that holds the windows and adds them up instant by instant.

use proptest::prelude::*;

use super::*;

fn window(start: u64, end: u64) -> Window {
    Window::new(Time::from_us(start), Time::from_us(end)).unwrap()
}

fn t(us: u64) -> Time {
    Time::from_us(us)
}

#[derive(Default)]
struct Twin(Vec<(Window, u64)>);

impl Twin {
    /// The sum at each instant up to `span`.
    fn sums(&self, span: u64) -> Vec<u64> {
        let mut sums = vec![0; span as usize];
        for (window, units) in &self.0 {
            let (start, end) = (window.start().as_us().min(span), window.end().as_us().min(span));
            sums[start as usize..end as usize].iter_mut().for_each(|sum| *sum += units);
        }
        sums
    }
}

fn twin_fit(sums: &[u64], from: u64, duration: u64, needed: u64, capacity: u64, limit: u64) -> Option<u64> {
    let at = |instant: u64| sums.get(instant as usize).copied().unwrap_or(0);
    (from..=limit).find(|start| (*start..start + duration).all(|instant| at(instant) + needed <= capacity))
}

#[derive(Clone, Debug)]
enum Op {
    Add(Window, u64),
    /// Takes out the window at this place, counted around.
    Sub(usize),
}

fn ops(span: u64, longest: u64, most: usize) -> impl Strategy<Value = Vec<Op>> {
    let add = (0..span, 1..=longest, 0u64..4)
        .prop_map(|(start, length, units)| Op::Add(window(start, start + length), units));
    proptest::collection::vec(prop_oneof![3 => add, 1 => any::<usize>().prop_map(Op::Sub)], 0..most)
}

fn built(ops: &[Op]) -> (Profile, Twin) {
    let (mut profile, mut twin) = (Profile::new(), Twin::default());
    for op in ops {
        match op {
            Op::Add(window, units) => {
                profile.add(*window, *units);
                twin.0.push((*window, *units));
            }
            Op::Sub(_) if twin.0.is_empty() => {}
            Op::Sub(at) => {
                let (window, units) = twin.0.swap_remove(at % twin.0.len());
                profile.sub(window, units);
            }
        }
    }
    (profile, twin)
}

fn compare(profile: &Profile, twin: &Twin, span: u64) {
    let sums = twin.sums(2 * span);
    let highest = sums.iter().copied().max().unwrap_or(0);
    for start in (0..span).step_by(3) {
        for length in [1, 2, 7, 40, span] {
            let range = window(start, start + length);
            let twin = sums[start as usize..].iter().take(length as usize).copied().max().unwrap_or(0);
            assert_eq!(profile.max_over(range), twin, "{range:?}");
        }
        for duration in [1, 2, 5, 11, 30, 90, 260, 500] {
            for (needed, capacity) in [(1, highest), (1, highest / 2), (2, 3), (highest / 3, highest), (4, 3)]
            {
                for limit in [start, start + 9, 2 * span] {
                    let fit =
                        profile.earliest_fit(t(start), Micros::from_us(duration), needed, capacity, t(limit));
                    let twin = twin_fit(&sums, start, duration, needed, capacity, limit);
                    assert_eq!(fit, twin.map(t), "from {start} for {duration}: {needed} of {capacity}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn short_windows_agree_with_the_twin(ops in ops(600, 6, 700)) {
        let (profile, twin) = built(&ops);
        compare(&profile, &twin, 600);
    }

    #[test]
    fn windows_of_all_lengths_agree_with_the_twin(ops in ops(300, 120, 300)) {
        let (profile, twin) = built(&ops);
        compare(&profile, &twin, 300);
    }

    #[test]
    fn few_windows_agree_with_the_twin(ops in ops(30, 20, 14)) {
        let (profile, twin) = built(&ops);
        compare(&profile, &twin, 30);
    }

    /// Bursts of short windows, each far wider than a node, with stretches between that may or may not do.
    #[test]
    fn bursts_agree_with_the_twin(
        bursts in proptest::collection::vec((0u64..700, proptest::collection::vec((0u64..600, 1u64..3), 200..500)), 3..5),
        durations in proptest::collection::vec(400u64..1_500, 6),
    ) {
        let (mut ops, mut begins) = (Vec::new(), 0);
        for (pause, windows) in &bursts {
            begins += pause;
            ops.extend(windows.iter().map(|(at, length)| Op::Add(window(begins + at, begins + at + length), 1)));
            begins += 600;
        }
        let (profile, twin) = built(&ops);
        let sums = twin.sums(begins + 10);
        for (start, duration) in (0..begins).step_by(307).flat_map(|start| durations.iter().map(move |d| (start, *d))) {
            for capacity in [1, 2, 4] {
                let fit = profile.earliest_fit(t(start), Micros::from_us(duration), 1, capacity, Time::MAX);
                prop_assert_eq!(fit, twin_fit(&sums, start, duration, 1, capacity, u64::MAX).map(t));
            }
        }
    }

    #[test]
    fn when_all_is_taken_out_nothing_is_left(windows in proptest::collection::vec((0u64..400, 1u64..60, 1u64..9), 1..400)) {
        let mut profile = Profile::new();
        for (start, length, units) in &windows {
            profile.add(window(*start, start + length), *units);
        }
        prop_assert!(profile.max_over(window(0, 500)) > 0);
        for (start, length, units) in &windows {
            profile.sub(window(*start, start + length), *units);
        }
        prop_assert!(profile.is_empty());
    }
}

#[test]
fn sums_beyond_what_can_be_written_are_told_as_the_greatest() {
    let mut profile = Profile::new();
    for _ in 0..3 {
        profile.add(window(5, u64::MAX), u64::MAX);
    }
    assert_eq!(profile.max_over(window(0, 5)), 0);
    assert_eq!(profile.max_over(window(0, 6)), u64::MAX);
    profile.sub(window(5, u64::MAX), u64::MAX);
    profile.sub(window(5, u64::MAX), u64::MAX);
    assert_eq!(profile.max_over(window(5, u64::MAX)), u64::MAX);
    let fit = |needed, limit| profile.earliest_fit(t(0), Micros::MAX, needed, u64::MAX, limit);
    assert_eq!(fit(0, Time::MAX), Some(t(0)));
    assert_eq!(fit(1, t(u64::MAX - 1)), None);
    assert_eq!(fit(1, Time::MAX), Some(Time::MAX), "a window there is empty");
    profile.sub(window(5, u64::MAX), u64::MAX);
    assert!(profile.is_empty());
}

#[test]
fn windows_that_touch_do_not_add_up() {
    let mut profile = Profile::new();
    for k in 0..1_000 {
        profile.add(window(10 * k, 10 * k + 10), 3);
    }
    assert_eq!(profile.max_over(window(0, 20_000)), 3);
    assert_eq!(profile.earliest_fit(t(0), Micros::from_us(1), 1, 3, Time::MAX), Some(t(10_000)));
    assert_eq!(profile.earliest_fit(t(0), Micros::from_us(1), 1, 4, Time::MAX), Some(t(0)));
    profile.sub(window(7_000, 7_010), 3);
    assert_eq!(profile.earliest_fit(t(0), Micros::from_us(10), 1, 3, Time::MAX), Some(t(7_000)));
    assert_eq!(profile.earliest_fit(t(0), Micros::from_us(11), 1, 3, Time::MAX), Some(t(10_000)));
    assert_eq!(profile.earliest_fit(t(0), Micros::from_us(11), 4, 3, Time::MAX), None);
}
