//! A thread that sleeps to the ends of slots, as the slot loop does, and a load beside it.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::host;
use super::readings::Scheduling;
use super::wall::WallWatch;
use crate::bench::{Grid, Quantiles, burn, sleep_and_wake};
use crate::clock::{Clock, SystemClock};
use crate::types::{Micros, Time};

/// The load ends so long after the measurement should have, whatever became of that.
const LOAD_OUTLASTS: Duration = Duration::from_secs(1);
/// Readings of the clock that are timed together.
const CLOCK_READS: u32 = 1_000;
/// How often; the quickest counts, in which the thread was not interrupted.
const CLOCK_ROUNDS: u32 = 10;

/// How late the calling thread wakes at the ends of slots, for `span`.
pub(super) fn lateness(slot: Micros, span: Micros, wall: &mut WallWatch) -> Option<Quantiles> {
    let noted = on_the_beat(slot, span, &AtomicBool::new(false), |late| {
        wall.look();
        Some(late)
    });
    Quantiles::of(noted.into_iter().flat_map(|late| each_boundary(late, slot)))
}

/// Calls `note` at the end of each slot, on the calling thread, with how late it is; for `span`, or until `stop`.
pub(super) fn on_the_beat<T>(
    slot: Micros,
    span: Micros,
    stop: &AtomicBool,
    note: impl FnMut(Micros) -> Option<T>,
) -> Vec<T> {
    let clock = SystemClock::start(Time::ZERO);
    let from = clock.now();
    sleep_and_wake(&clock, Grid { length: slot, ahead_us: 0 }, (from, from.after(span)), stop, note)
}

/// Where a thread slept through boundaries, each of those slots would have been late by what was left:
/// counted once, a long standstill would hide among the many that were on time.
fn each_boundary(late: Micros, slot: Micros) -> impl Iterator<Item = Micros> {
    (0..=late.as_us() / slot.as_us().max(1))
        .map(move |slept| Micros::from_us(late.as_us() - slept * slot.as_us()))
}

/// What `measure` gives while `threads` threads are busy; `None` where the system has no threads, or would put
/// them before all else.
pub(super) fn under_load<T>(threads: usize, span: Micros, measure: impl FnOnce() -> T) -> Option<T> {
    let (stop, until) = (AtomicBool::new(false), Instant::now() + span.to_std() + LOAD_OUTLASTS);
    let (tell, told) = mpsc::channel();
    let busy = || {
        // It would take the core from all that is not real-time, and from this measurement too.
        let burns = host::scheduling() != Some(Scheduling::Realtime);
        let _ = tell.send(burns);
        if burns {
            burn(until, &stop);
        }
    };
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().name("doctor-load".into()).spawn_scoped(scope, busy).is_ok();
        let is_busy = (0..threads).all(start) && told.iter().take(threads).all(|burns| burns);
        let measured = is_busy.then(measure);
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

/// What reading the clock costs, in nanoseconds.
pub(super) fn clock_read_ns() -> Option<u64> {
    let round = |_| {
        let began = Instant::now();
        for _ in 0..CLOCK_READS {
            black_box(Instant::now());
        }
        began.elapsed() / CLOCK_READS
    };
    let quickest = (0..CLOCK_ROUNDS).map(round).min()?;
    u64::try_from(quickest.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_that_was_slept_through_is_late_by_what_was_left() {
        let slot = Micros::from_ms(10);
        let counted =
            |late| each_boundary(Micros::from_us(late), slot).map(Micros::as_us).collect::<Vec<_>>();
        assert_eq!(counted(0), [0]);
        assert_eq!(counted(9_999), [9_999]);
        assert_eq!(counted(10_000), [10_000, 0]);
        assert_eq!(counted(35_000), [35_000, 25_000, 15_000, 5_000]);
    }

    #[test]
    fn a_load_is_there_while_it_is_measured_and_gone_afterwards() {
        // `under_load` returns once its threads have ended.
        let measured = under_load(2, Micros::from_secs(60), || 7);
        let is_realtime = host::scheduling() == Some(Scheduling::Realtime);
        assert_eq!(measured, (!is_realtime).then_some(7));
    }

    #[test]
    fn lateness_is_measured_at_each_boundary() {
        let mut wall = WallWatch::default();
        let late = lateness(Micros::from_us(500), Micros::from_ms(20), &mut wall).unwrap();
        assert!(late.count >= 1 && late.p50 <= late.max);
    }
}
