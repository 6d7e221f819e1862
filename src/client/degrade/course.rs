//! What to do after a try that came to no grant: again, and after how long, or no more. It reads no clock
//! and draws no randomness; the time and the seed are arguments.

use std::time::Duration;

use super::Cause;

/// How much is put up with, and how long is waited between tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Conflicts and stale answers in a row.
    pub(super) after: u32,
    /// How long no coordinator may answer.
    pub(super) silent: Duration,
    /// Tries in all.
    pub(super) tries: u32,
    /// Time in all, beside the waits of what is declared.
    pub(super) within: Duration,
    /// The longest first pause.
    pub(super) first: Duration,
    /// The longest pause of all.
    pub(super) most: Duration,
}

/// What a try came to, where it was no grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The coordinator decided against it: a conflict, or a stale reading.
    Against(Cause),
    /// It was not decided, or nobody knows; who had no room may have said when to come back.
    Undecided { retry_after: Option<Duration> },
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Try again after this pause.
    Again(Duration),
    /// No more.
    Degrade(Cause),
}

/// The tries so far.
#[derive(Clone, Debug)]
pub(super) struct Course {
    tries: u32,
    in_a_row: u32,
    waits: Duration,
    jitter: Jitter,
}

impl Course {
    pub(super) fn new(seed: u64) -> Self {
        Course { tries: 0, in_a_row: 0, waits: Duration::ZERO, jitter: Jitter(seed) }
    }

    /// One more try begins, for something that may itself wait for `wait`.
    pub(super) fn begin(&mut self, wait: Duration) {
        self.tries = self.tries.saturating_add(1);
        self.waits = self.waits.saturating_add(wait);
    }

    /// Tries that have begun.
    pub(super) fn tries(&self) -> u32 {
        self.tries
    }

    /// How long all of it may take, the waits of what was declared so far included.
    pub(super) fn time(&self, bounds: &Bounds) -> Duration {
        bounds.within.saturating_add(self.waits)
    }

    /// What to do after a try, `elapsed` after the first one began.
    pub(super) fn next(&mut self, seen: Seen, bounds: &Bounds, elapsed: Duration) -> Step {
        let retry_after = match seen {
            Seen::Against(cause) => {
                self.in_a_row = self.in_a_row.saturating_add(1);
                if self.in_a_row >= bounds.after {
                    return Step::Degrade(cause);
                }
                None
            }
            // Says nothing of who is in the way: the row is neither longer nor broken.
            Seen::Undecided { retry_after } => retry_after,
        };
        if self.tries >= bounds.tries {
            return Step::Degrade(Cause::Tries);
        }
        let most = longest_pause(self.tries, bounds);
        let pause = retry_after.unwrap_or_default().saturating_add(self.jitter.below(most));
        // A pause after which there would be no time left is not made.
        if elapsed.saturating_add(pause) >= self.time(bounds) {
            return Step::Degrade(Cause::Time);
        }
        Step::Again(pause)
    }
}

/// The longest pause after so many tries: twice as long each time.
fn longest_pause(tries: u32, bounds: &Bounds) -> Duration {
    let doublings = tries.saturating_sub(1).min(31);
    bounds.first.saturating_mul(1 << doublings).min(bounds.most)
}

/// Random numbers from a seed (splitmix64), so that the tries of many agents spread out.
#[derive(Clone, Debug)]
struct Jitter(u64);

impl Jitter {
    /// From half of `most` up to it: not at once, and not with all the others.
    fn below(&mut self, most: Duration) -> Duration {
        most / 2 + (most / 2).mul_f64(self.fraction())
    }

    /// From 0 to 1, without 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const CONFLICT: Seen = Seen::Against(Cause::Conflicts);
    const STALE: Seen = Seen::Against(Cause::Stale);
    const UNDECIDED: Seen = Seen::Undecided { retry_after: None };

    fn bounds() -> Bounds {
        let (ms, secs) = (Duration::from_millis, Duration::from_secs);
        Bounds { after: 3, silent: secs(10), tries: 6, within: secs(60), first: ms(100), most: secs(1) }
    }

    /// What follows each of `seen`, on a time that only the pauses pass.
    fn run(seed: u64, bounds: &Bounds, seen: impl IntoIterator<Item = Seen>) -> Vec<Step> {
        let (mut course, mut elapsed, mut steps) = (Course::new(seed), Duration::ZERO, Vec::new());
        for seen in seen {
            course.begin(Duration::ZERO);
            let step = course.next(seen, bounds, elapsed);
            steps.push(step);
            match step {
                Step::Again(pause) => elapsed += pause,
                Step::Degrade(_) => break,
            }
        }
        steps
    }

    fn tries_until(end: Cause, bounds: &Bounds, seen: impl IntoIterator<Item = Seen>) -> usize {
        let steps = run(7, bounds, seen);
        assert_eq!(steps.last(), Some(&Step::Degrade(end)));
        steps.len()
    }

    #[test]
    fn the_row_ends_it_at_its_number_exactly_whatever_lies_in_between() {
        let bounds = bounds();
        assert_eq!(tries_until(Cause::Conflicts, &bounds, [CONFLICT; 9]), 3);
        assert_eq!(
            tries_until(Cause::Stale, &bounds, [CONFLICT, CONFLICT, STALE]),
            3,
            "the last one names it"
        );
        let broken = [CONFLICT, UNDECIDED, CONFLICT, UNDECIDED, STALE];
        assert_eq!(tries_until(Cause::Stale, &bounds, broken), 5);
        assert!(run(7, &bounds, [CONFLICT, CONFLICT]).iter().all(|step| matches!(step, Step::Again(_))));
        let once = Bounds { after: 1, ..bounds };
        assert_eq!(tries_until(Cause::Conflicts, &once, [CONFLICT; 9]), 1);
    }

    #[test]
    fn the_number_of_tries_is_reached_exactly() {
        assert_eq!(tries_until(Cause::Tries, &bounds(), [UNDECIDED; 99]), 6);
        let one = Bounds { tries: 1, ..bounds() };
        assert_eq!(tries_until(Cause::Tries, &one, [UNDECIDED; 99]), 1);
        assert_eq!(tries_until(Cause::Tries, &one, [CONFLICT; 99]), 1, "though the row is not full");
    }

    #[test]
    fn no_pause_is_begun_that_would_end_after_the_time_and_waits_are_given_on_top() {
        let bounds = Bounds { first: Duration::ZERO, within: Duration::from_secs(5), ..bounds() };
        let told = |us| Seen::Undecided { retry_after: Some(Duration::from_micros(us)) };
        let after = |course: &mut Course, us, elapsed| course.next(told(us), &bounds, elapsed);
        let mut course = Course::new(1);
        course.begin(Duration::ZERO);
        let four = Duration::from_secs(4);
        assert_eq!(after(&mut course, 999_999, four), Step::Again(Duration::from_micros(999_999)));
        assert_eq!(after(&mut course, 1_000_000, four), Step::Degrade(Cause::Time));
        assert_eq!(after(&mut course, u64::MAX, four), Step::Degrade(Cause::Time));
        course.begin(Duration::from_secs(2));
        assert_eq!(after(&mut course, 1_000_000, four), Step::Again(Duration::from_secs(1)));
        assert_eq!(after(&mut course, 3_000_000, four), Step::Degrade(Cause::Time));
    }

    #[test]
    fn one_seed_gives_one_schedule_and_other_seeds_others() {
        let schedule = |seed| format!("{:?}", run(seed, &bounds(), [UNDECIDED; 5]));
        assert_eq!(schedule(3), schedule(3));
        let different: BTreeSet<String> = (0..100).map(schedule).collect();
        assert_eq!(different.len(), 100);
    }

    proptest! {
        #[test]
        fn each_pause_lies_in_the_upper_half_of_its_bound_and_never_below_what_was_told(
            seed in any::<u64>(),
            first in 0_u64..1_000_000,
            most in 0_u64..10_000_000,
            told in proptest::collection::vec(proptest::option::of(0_u64..1_000_000), 1..40),
        ) {
            let (first, most) = (Duration::from_micros(first), Duration::from_micros(most));
            let bounds = Bounds { tries: 1_000, within: Duration::MAX, first, most, ..bounds() };
            let told: Vec<_> = told.into_iter().map(|us| us.map(Duration::from_micros)).collect();
            let seen = told.iter().map(|retry_after| Seen::Undecided { retry_after: *retry_after });
            // The slow twin of the bound: doubled one try after the other.
            let mut bound = first;
            for (step, told) in run(seed, &bounds, seen).into_iter().zip(&told) {
                let Step::Again(pause) = step else { panic!("no limit is near") };
                let (told, longest) = (told.unwrap_or_default(), bound.min(most));
                prop_assert!(pause >= told + longest / 2, "{pause:?} after {told:?}");
                prop_assert!(pause <= told + longest);
                bound = (bound * 2).min(most.max(first));
            }
        }

        #[test]
        fn whatever_happens_it_ends(
            seed in any::<u64>(),
            seen in proptest::collection::vec(prop_oneof![Just(CONFLICT), Just(STALE), Just(UNDECIDED)], 6),
        ) {
            let steps = run(seed, &bounds(), seen);
            prop_assert!(matches!(steps.last(), Some(Step::Degrade(_))));
        }
    }
}
