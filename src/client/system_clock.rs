//! The machine's clock as an agent lives by it: one that does not stand still while the machine is
//! suspended, where the system has such a clock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::connector::{Boxed, Clock};

/// How much later than it should a timer fires where the machine was suspended meanwhile: the system's
/// timers stand still then, so a longer sleep is made of sleeps of this length.
const LATE_AFTER_SUSPEND: Duration = Duration::from_secs(1);

/// The machine's own monotonic clock and, on Linux, the time for which it was suspended since this
/// process first asked. On other systems such time is not counted: a lease may have ended in it, and
/// the agent learns so from the coordinator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemClock;

/// How long the machine was suspended since the first reading, from pairs of readings of two clocks.
#[derive(Debug)]
struct Suspended {
    /// The clock that stands still meanwhile, and then the one that does not, read in this order.
    first: (Instant, Duration),
    nanos: AtomicU64,
}

impl Suspended {
    fn new(still: Instant, running: Duration) -> Self {
        Suspended { first: (still, running), nanos: AtomicU64::new(0) }
    }

    /// Takes in a pair of readings, of which `running` was read first, and says how long it was in all.
    /// The order of the readings makes this, where something came in between, too little and never too
    /// much; the most that any pair showed is kept, so it never falls.
    fn learn(&self, running: Duration, still: Instant) -> Duration {
        let (still_at_first, running_at_first) = self.first;
        let ran = running.saturating_sub(running_at_first);
        let asleep = ran.saturating_sub(still.saturating_duration_since(still_at_first));
        let nanos = u64::try_from(asleep.as_nanos()).unwrap_or(u64::MAX);
        let before = self.nanos.fetch_max(nanos, Ordering::Relaxed);
        Duration::from_nanos(before.max(nanos))
    }
}

/// Now by the clock that stands still while suspended, and for how long it did.
fn read() -> (Instant, Duration) {
    static SUSPENDED: OnceLock<Suspended> = OnceLock::new();
    let suspended = SUSPENDED.get_or_init(|| {
        let still = Instant::now();
        Suspended::new(still, running().unwrap_or_default())
    });
    let running = running();
    let still = Instant::now();
    (still, running.map_or(Duration::ZERO, |running| suspended.learn(running, still)))
}

/// A clock that runs on while the machine is suspended.
#[cfg(target_os = "linux")]
fn running() -> Option<Duration> {
    let read = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Some(Duration::new(read.tv_sec.try_into().ok()?, read.tv_nsec.try_into().ok()?))
}

#[cfg(not(target_os = "linux"))]
fn running() -> Option<Duration> {
    None
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        let (still, asleep) = read();
        still.checked_add(asleep).unwrap_or(still)
    }

    fn sleep_until(&self, at: Instant) -> Boxed<'static, ()> {
        Box::pin(async move {
            while let Some(left) = left(at, SystemClock.now()) {
                tokio::time::sleep(left).await;
            }
        })
    }

    fn shown(&self, at: Instant) -> Instant {
        at.checked_sub(read().1).unwrap_or(at)
    }

    fn taken(&self, at: Instant) -> Instant {
        at.checked_add(read().1).unwrap_or(at)
    }
}

/// How long to sleep before looking again whether it is `at`.
fn left(at: Instant, now: Instant) -> Option<Duration> {
    let left = at.saturating_duration_since(now);
    (!left.is_zero()).then(|| left.min(LATE_AFTER_SUSPEND))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn time_in_which_one_clock_stood_still_and_the_other_did_not_was_suspended() {
        let begun = Instant::now();
        let suspended = Suspended::new(begun, secs(1000));
        assert_eq!(suspended.learn(secs(1005), begun + secs(5)), secs(0));
        assert_eq!(suspended.learn(secs(1065), begun + secs(5)), secs(60));
        assert_eq!(suspended.learn(secs(1070), begun + secs(10)), secs(60));
        assert_eq!(suspended.learn(secs(1080), begun + secs(10)), secs(70));
    }

    #[test]
    fn a_thread_that_waits_between_its_two_readings_makes_nothing_of_it() {
        let begun = Instant::now();
        let suspended = Suspended::new(begun, secs(1000));
        assert_eq!(suspended.learn(secs(1005), begun + secs(9)), secs(0));
        assert_eq!(suspended.learn(secs(1065), begun + secs(10)), secs(55));
        assert_eq!(suspended.learn(secs(1066), begun + secs(14)), secs(55));
    }

    #[test]
    fn a_clock_that_steps_back_changes_nothing() {
        let begun = Instant::now();
        let suspended = Suspended::new(begun, secs(1000));
        assert_eq!(suspended.learn(secs(1060), begun), secs(60));
        assert_eq!(suspended.learn(secs(0), begun), secs(60));
    }

    #[test]
    fn a_long_sleep_is_cut_so_that_a_suspend_shows_soon() {
        let now = Instant::now();
        assert_eq!(left(now + secs(60), now), Some(LATE_AFTER_SUSPEND));
        assert_eq!(left(now + Duration::from_millis(3), now), Some(Duration::from_millis(3)));
        assert_eq!(left(now, now), None);
        assert_eq!(left(now, now + secs(1)), None);
    }

    #[tokio::test]
    async fn it_never_runs_back_and_wakes_no_sooner_than_asked() {
        let clock = SystemClock;
        let mut before = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= before);
            before = now;
        }
        let at = clock.now() + Duration::from_millis(2);
        clock.sleep_until(at).await;
        assert!(clock.now() >= at);
    }

    #[test]
    fn what_is_shown_is_taken_back_as_it_was() {
        let at = SystemClock.now() + secs(60);
        assert_eq!(SystemClock.taken(SystemClock.shown(at)), at);
    }
}
