//! A thread that does nothing but sleep to the same boundaries as the slot loop: how late it wakes is
//! the machine's doing, and what no coordinator on it can do better than.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

use crate::clock::{Clock, SystemClock};
use crate::types::{Micros, Slot, Time};

/// The thread, while it sleeps and wakes.
pub(super) struct Bare {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Vec<Micros>>,
}

impl Bare {
    /// Starts it: it wakes at each boundary in `[from, until)`. `ahead` is how far the time of the
    /// grid runs ahead of `clock`'s; its wake-ups are as exact as the slot loop's.
    pub(super) fn start(clock: SystemClock, grid: Grid, from: Time, until: Time) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("bench-bare".into())
            .spawn(move || sleep_and_wake(&clock, grid, from, until, &stopped))?;
        Ok(Bare { stop, thread })
    }

    /// How late it woke, each time, in order. Ends it where it is not at its end.
    pub(super) fn lateness(self) -> Vec<Micros> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

/// Where slots end, in the local clock's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) length: Micros,
    /// Coordinator time less local time, in µs.
    pub(super) ahead_us: i64,
}

impl Grid {
    /// The first boundary after `at`, both in local time.
    pub(super) fn boundary_after(self, at: Time) -> Time {
        let boundary = Slot::of(self.there(at), self.length).decided_at(self.length);
        self.here(boundary)
    }

    /// Local time as the coordinator's.
    pub(super) fn there(self, local: Time) -> Time {
        Time::from_us(local.as_us().saturating_add_signed(self.ahead_us))
    }

    /// The coordinator's time as local.
    pub(super) fn here(self, coordinator: Time) -> Time {
        Time::from_us(coordinator.as_us().saturating_add_signed(self.ahead_us.saturating_neg()))
    }
}

fn sleep_and_wake(
    clock: &SystemClock,
    grid: Grid,
    from: Time,
    until: Time,
    stop: &AtomicBool,
) -> Vec<Micros> {
    clock.attach();
    let mut late = Vec::new();
    let mut next = grid.boundary_after(from);
    while next < until {
        clock.park(Some(next));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let now = clock.now();
        if now >= next {
            late.push(now.since(next));
            // Boundaries that were slept through are slots that a slot loop would decide late; here
            // they count once, with the whole delay.
            next = grid.boundary_after(now);
        }
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_the_coordinators_own() {
        let grid = Grid { length: Micros::from_ms(10), ahead_us: 3_000 };
        let here = Time::from_us(1_008_000); // 1 011 000 there
        assert_eq!(grid.boundary_after(here), Time::from_us(1_017_000));
        assert_eq!(grid.there(grid.boundary_after(here)), Time::from_us(1_020_000));
    }

    #[test]
    fn it_wakes_at_each_boundary_and_ends_by_itself() {
        let clock = SystemClock::start(Time::ZERO);
        let grid = Grid { length: Micros::from_us(500), ahead_us: 0 };
        let from = clock.now();
        let bare = Bare::start(clock, grid, from, from.after(Micros::from_ms(20))).unwrap();
        let late = bare.thread.join().unwrap();
        assert!(!late.is_empty() && late.len() <= 41, "{}", late.len());
    }
}
