//! The real clock: monotonic, anchored once.

use std::thread;
#[cfg(target_os = "linux")]
use std::time::Duration;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Clock;
use crate::types::{Micros, Time};

/// Coordinator time of a real machine.
///
/// Counts on the monotonic clock from the one reading that it was started with,
/// so that setting the wall clock, in either direction and by any amount, changes nothing. Time that
/// the machine spends suspended does not count.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
    origin: Time,
}

impl SystemClock {
    /// A clock that shows the wall clock's time now, or `floor` where that is later.
    pub fn start(floor: Time) -> Self {
        let now = Reading::take();
        SystemClock::showing(&now, now.wall.max(floor))
    }

    /// A clock that showed `time` at that reading.
    pub fn showing(reading: &Reading, time: Time) -> Self {
        SystemClock { started: reading.at, origin: time }
    }
}

/// What the clocks of this machine showed at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    at: Instant,
    /// The wall clock. Before the epoch it reads as the epoch.
    pub wall: Time,
    /// How long the machine has run, where the system tells.
    pub run: Option<Run>,
}

impl Reading {
    /// Reads them.
    pub fn take() -> Self {
        Reading { at: Instant::now(), wall: wall_clock(), run: Run::now() }
    }
}

/// One run of a machine, from a boot to its end, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Another one after each boot.
    pub id: u64,
    /// Since its boot, by the clock that [`SystemClock`] counts on.
    pub since: Micros,
}

impl Run {
    /// This machine's. Known on Linux alone: there the kernel draws an id at each boot.
    #[cfg(target_os = "linux")]
    fn now() -> Option<Run> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        let id = u64::from_str_radix(&digits, 16).ok()?;
        let since = Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic)).ok()?;
        Some(Run { id, since: since.into() })
    }

    #[cfg(not(target_os = "linux"))]
    fn now() -> Option<Run> {
        None
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
    fn it_goes_on_from_what_it_showed_at_its_reading_whatever_the_wall_clock_shows() {
        for shown in [Time::from_us(5_000_000), wall_clock().after(Micros::from_secs(86_400))] {
            let now = SystemClock::showing(&Reading::take(), shown).now();
            assert!(now >= shown && now.since(shown) < Micros::from_secs(3600));
        }
        let floor = wall_clock().after(Micros::from_secs(86_400));
        assert!(SystemClock::start(floor).now() >= floor);
        assert!(SystemClock::start(Time::ZERO).now() > Time::ZERO);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_run_of_the_machine_is_told_from_others_and_goes_on_evenly() {
        let (before, after) = (Reading::take(), Reading::take());
        let (run, later) = (before.run.unwrap(), after.run.unwrap());
        assert_eq!(run.id, later.id);
        assert!(run.since > Micros::ZERO && later.since >= run.since);
        // By the clock that is counted on: what has passed is the same by both.
        let passed = u64::try_from((after.at - before.at).as_micros()).unwrap();
        assert!(later.since.as_us() - run.since.as_us() <= passed + 1_000_000);
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
