//! The real clock: monotonic, anchored once to the wall clock.

use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Clock;
use crate::types::{Micros, Time};

/// Coordinator time of a real machine.
///
/// Counts on the monotonic clock from the one reading of the wall clock that it was started with,
/// so that setting the wall clock, in either direction and by any amount, changes nothing. Time that
/// the machine spends suspended does not count.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
    origin: Time,
}

impl SystemClock {
    /// A clock that shows the wall clock's time now, or `floor` where that is later: a coordinator
    /// that is restarted must not show a time before its last slot.
    pub fn start(floor: Time) -> Self {
        SystemClock::anchored(wall_clock(), floor)
    }

    /// As [`SystemClock::start`], with the wall clock's reading given.
    pub fn anchored(wall: Time, floor: Time) -> Self {
        SystemClock { started: Instant::now(), origin: wall.max(floor) }
    }
}

/// The wall clock's time. Before the epoch it reads as the epoch.
fn wall_clock() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_us(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let elapsed = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.origin.after(Micros::from_us(elapsed))
    }

    /// The kernel sleeps to an absolute time of the monotonic clock; the remaining span is taken
    /// afresh at each call, so lateness never adds up.
    fn park(&self, until: Option<Time>) {
        let Some(until) = until else { return thread::park() };
        let left = until.since(self.now());
        if left > Micros::ZERO {
            thread::park_timeout(left.to_std());
        }
    }

    fn attach(&self) {
        exact_wake_ups();
    }
}

/// Linux lets a sleeping thread wake up to 50 µs late to save power, unless the thread asks it not to.
/// With that asked, a plain sleep is as exact as a spinning tail would be, and costs no core. Where
/// it is refused, slots are decided those 50 µs later and nothing else changes.
#[cfg(target_os = "linux")]
fn exact_wake_ups() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(not(target_os = "linux"))]
fn exact_wake_ups() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_behind_the_floor_starts_at_the_floor() {
        let floor = Time::from_us(5_000_000);
        assert!(SystemClock::anchored(Time::from_us(7), floor).now() >= floor);
        assert!(SystemClock::anchored(Time::ZERO, floor).now() >= floor);
    }

    #[test]
    fn a_wall_clock_ahead_of_the_floor_is_shown() {
        let wall = Time::from_us(9_000_000);
        let now = SystemClock::anchored(wall, Time::from_us(5)).now();
        assert!(now >= wall && now.since(wall) < Micros::from_secs(3600));
    }

    #[test]
    fn readings_never_fall_over_threads() {
        let clock = SystemClock::start(Time::ZERO);
        let first = clock.now();
        let second = thread::spawn(move || clock.now()).join().unwrap();
        assert!(first <= second && second <= clock.now());
    }

    #[test]
    fn a_time_that_has_passed_is_not_slept_for() {
        let clock = SystemClock::start(Time::ZERO);
        clock.park(Some(Time::ZERO)); // would hang the test
    }

    #[test]
    fn an_unpark_before_the_sleep_is_not_lost() {
        thread::current().unpark();
        SystemClock::start(Time::ZERO).park(None); // would hang the test
    }
}
