//! The junction: who declares its motion brakes gently, and hits nobody.

#[allow(dead_code, reason = "its main is not called here, nor is all of it needed")]
#[path = "../../examples/crossing/main.rs"]
mod example;

use std::time::Duration;

use example::alone::{self, Rule};
use example::plan::{AHEAD, Motion, Stretch, Wish};
use example::road::{CLEAR, END, LENGTH, State, Track, collisions};
use example::traffic::{DENSITIES, Density, arrivals};
use example::{Options, SIGHT, story::Dice};

/// More than any road carries, so that a few seconds have enough of it.
const RUSH: Density = Density { name: "rush", per_hour: 6000 };

/// A second of traffic that has something to it.
fn a_hard_second() -> Options {
    let seconds = 1.0;
    let is_hard = |seed: &u64| {
        let tracks = alone::drive(Rule::Sight(SIGHT), &arrivals(RUSH, *seed, seconds));
        tracks.iter().map(Track::emergencies).sum::<usize>() >= 3
    };
    let first = (1..).find(is_hard).unwrap();
    Options { seconds, first, densities: vec![RUSH], ..Options::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_declares_its_motion_need_not_brake_hard_and_hits_nobody() {
    let options = a_hard_second();
    let mut printed = Vec::new();
    let report = example::run(&options, &mut printed).await;
    let printed = String::from_utf8(printed).unwrap();
    // It is none where not all got across.
    let report = report.unwrap();
    let (without, with) = report.emergencies();
    assert_eq!(report.collisions(), 0.0, "{printed}");
    assert!(without >= 3.0 && with <= without * 0.11, "{printed}");
    let row = &report.rows[0].1;
    assert!(row.tally.conflicts > 0 && row.tally.revised > 0, "{printed}");
}

/// All agents share one thread, which is stopped for a while again and again: decisions are made meanwhile, and heard
/// of when the vehicle has driven on.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn answers_that_come_too_late_hurt_nobody() {
    let stalls = tokio::spawn(async {
        let mut dice = Dice::new(1);
        loop {
            std::thread::sleep(Duration::from_millis(120));
            tokio::time::sleep(dice.up_to(Duration::from_millis(100))).await;
        }
    });
    // Whether an answer falls into a stall is chance; that it never does, time after time, is not.
    let mut late = 0;
    for _ in 0..8 {
        let mut printed = Vec::new();
        let report = example::run(&a_hard_second(), &mut printed).await.unwrap();
        let printed = String::from_utf8(printed).unwrap();
        assert_eq!((report.collisions(), report.emergencies().1), (0.0, 0.0), "{printed}");
        late += report.rows[0].1.tally.late;
        if late > 0 {
            break;
        }
    }
    stalls.abort();
    assert!(late > 0, "nothing came too late");
}

fn tracks(rule: Rule, density: Density) -> Vec<Vec<Track>> {
    (1..=30).map(|seed| alone::drive(rule, &arrivals(density, seed, 30.0))).collect()
}

#[test]
fn without_anybody_to_ask_they_brake_hard_and_with_one_lock_they_wait() {
    for density in DENSITIES {
        let (sight, lock) = (tracks(Rule::Sight(SIGHT), density), tracks(Rule::Lock, density));
        let emergencies = |all: &[Vec<Track>]| all.iter().flatten().map(Track::emergencies).sum::<usize>();
        let delay_s = |all: &[Vec<Track>]| all.iter().flatten().map(Track::delay_s).sum::<f64>();
        assert!(emergencies(&sight) > 0 && emergencies(&lock) == 0, "{density:?}: {}", emergencies(&lock));
        assert!(delay_s(&lock) > delay_s(&sight), "{density:?}");
        assert!(lock.iter().all(|tracks| collisions(tracks) == 0), "{density:?}");
        for (seed, tracks) in (1..).zip(&sight) {
            assert_eq!(tracks.len(), arrivals(density, seed, 30.0).len(), "all get across");
        }
    }
}

#[test]
fn who_sees_further_than_it_takes_to_stop_need_not_brake_hard() {
    let hard = |sight: f64| -> usize {
        let of = |density, seed| alone::drive(Rule::Sight(sight), &arrivals(density, seed, 30.0));
        let all = DENSITIES.iter().flat_map(|density| (1..=30).flat_map(move |seed| of(*density, seed)));
        all.map(|track| track.emergencies()).sum()
    };
    let [corner, town, open] = [SIGHT, 30.0, 50.0].map(hard);
    println!("emergency brakings with 20, 30 and 50 m of sight: {corner}, {town}, {open}");
    assert!(corner > 5 * town && corner > 5 * open, "{corner}, {town}, {open}");
}

#[test]
fn two_vehicles_in_one_place_at_one_time_are_seen() {
    let drives = |lane: usize| {
        let states = (0..600).map(|tick| State { s: -40.0 + f64::from(tick) * 0.1, v: 10.0 }).collect();
        Track { lane, due: 0, enters: 0, states }
    };
    assert_eq!(collisions(&[drives(0), drives(1)]), 1);
    assert_eq!(collisions(&[drives(0), drives(2)]), 0, "on the two lanes of one road");
    let later = Track { enters: 200, ..drives(1) };
    assert_eq!(collisions(&[drives(0), later]), 0);
}

/// A vehicle somewhere on its way, and what it has learnt: it declares, is granted what it wishes for or is not, and
/// declares again.
fn declared(seed: u64, mut each: impl FnMut(&Motion, Option<&Motion>, &[Stretch], usize)) {
    let mut dice = Dice::new(seed);
    let arrival = &arrivals(RUSH, seed, 9.0)[0];
    let mut motion = Motion::enters(arrival, arrival.due, &Wish::FREE);
    let mut tick = arrival.due;
    while !motion.has_left(tick) && tick < arrival.due + 6_000 {
        let from = tick + 2;
        let wish = Wish {
            crosses_from: from + dice.below(900) as usize,
            stop: if dice.below(3) == 0 { END - dice.unit() * 120.0 } else { END },
            learnt: from,
        };
        let (wished, stretches) = motion.declares(from, &wish);
        each(&motion, wished.as_ref(), &stretches, from);
        if dice.below(4) == 0 {
            motion = wished.unwrap_or(motion);
        }
        tick += 1 + dice.below(30) as usize;
    }
}

/// Whether a vehicle there is within what is claimed at that tick, and until the next.
fn is_within(stretches: &[Stretch], motion: &Motion, tick: usize) -> bool {
    let (rear, front) = (motion.at(tick).s - LENGTH, motion.at(tick + 1).s);
    let now = stretches.iter().filter(|it| it.from <= tick && tick < it.until);
    now.into_iter().any(|it| it.rear <= rear && front <= it.front)
}

#[test]
fn what_a_vehicle_declares_covers_what_it_does_whatever_the_answer_is() {
    let mut wished_for = 0;
    for seed in 0..60 {
        declared(seed, |motion, wished, stretches, from| {
            assert!(!stretches.is_empty() && stretches.len() <= 64, "{}", stretches.len());
            for driven in [Some(motion), wished].into_iter().flatten() {
                assert_eq!(driven.at(from + AHEAD), motion.at(from + AHEAD), "until then both are one");
                assert!((from..from + 2_500).all(|tick| is_within(stretches, driven, tick)), "seed {seed}");
                let rests = driven.at(from + 2_500);
                assert_eq!(rests.v, 0.0, "it ends in standstill");
                assert!(rests.s <= 0.0 || rests.s >= CLEAR, "and not in the middle");
            }
            wished_for += usize::from(wished.is_some());
        });
    }
    assert!(wished_for > 200, "{wished_for}");
}

#[test]
fn what_is_declared_again_lies_within_what_was_declared_before() {
    for seed in 0..60 {
        declared(seed, |motion, _, _, from| {
            let before = motion.covers(motion, from);
            for later in [1, 7, 25, 60] {
                for new in motion.covers(motion, from + later) {
                    let covering = |tick: usize| {
                        let now = before.iter().filter(move |old| old.from <= tick && tick < old.until);
                        now.into_iter().any(|old| old.rear <= new.rear && new.front <= old.front)
                    };
                    // The last place is held for longer each time.
                    let until = new.until.min(new.from + 2_000);
                    assert!((new.from..until).all(covering), "seed {seed}, {later} ticks later");
                }
            }
        });
    }
}

#[test]
fn a_vehicle_brakes_with_comfort_as_long_as_that_is_enough() {
    let mut state = State { s: -40.0, v: 13.9 };
    let mut hardest: f64 = 0.0;
    while state.v > 0.01 {
        let next = state.towards(-0.2, 8.0);
        hardest = hardest.max((state.v - next.v) * 100.0);
        state = next;
    }
    assert!(hardest <= 3.05 && (state.s + 0.2).abs() < 0.15, "{hardest} m/s², stands at {}", state.s);
    let state = State { s: -15.0, v: 13.9 };
    let braked = (state.v - state.towards(-0.2, 8.0).v) * 100.0;
    assert!((6.0..7.0).contains(&braked), "{braked}");
}
