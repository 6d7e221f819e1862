//! A thread that does nothing but sleep to the same boundaries as the slot loop, or at most one thing
//! when it wakes: how late it is is the machine's doing, and what no coordinator on it can do better than.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

use crate::clock::{Clock, SystemClock};
use crate::host::{HostConfig, Role};
use crate::types::{Micros, Slot, Time};

/// The thread, while it sleeps and wakes.
pub(super) struct Bare<T> {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Vec<T>>,
}

impl<T: Send + 'static> Bare<T> {
    /// Starts it: it wakes at each boundary in `[from, until)`, in `clock`'s time, and gives `note` how
    /// late it is. Its wake-ups are as exact as the slot loop's, and it asks of the machine what that one asks.
    pub(super) fn start(
        clock: SystemClock,
        grid: Grid,
        (from, until): (Time, Time),
        host: HostConfig,
        note: impl FnMut(Micros) -> Option<T> + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("bench-bare".into()).spawn(move || {
            host.settle(Role::SlotLoop);
            sleep_and_wake(&clock, grid, (from, until), &stopped, note)
        })?;
        Ok(Bare { stop, thread })
    }

    /// What was noted, in order. Ends it where it is not at its end.
    pub(super) fn noted(self) -> Vec<T> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

/// Where slots end, in the local clock's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) length: Micros,
    /// Coordinator time less local time, in µs.
    pub(crate) ahead_us: i64,
}

impl Grid {
    /// The first boundary after `at`, both in local time.
    pub(super) fn boundary_after(self, at: Time) -> Time {
        let boundary = Slot::of(self.there(at), self.length).decided_at(self.length);
        self.here(boundary)
    }

    /// The same grid, each boundary half a slot later.
    pub(super) fn half_a_slot_later(self) -> Self {
        let half = i64::try_from(self.length.as_us() / 2).unwrap_or(0);
        Grid { ahead_us: self.ahead_us.saturating_sub(half), ..self }
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

/// Sleeps to each boundary in `[from, until)`, in `clock`'s time, on the calling thread, until `stop`; what `note`
/// makes of how late it is.
pub(crate) fn sleep_and_wake<T>(
    clock: &SystemClock,
    grid: Grid,
    (from, until): (Time, Time),
    stop: &AtomicBool,
    mut note: impl FnMut(Micros) -> Option<T>,
) -> Vec<T> {
    clock.attach();
    let mut noted = Vec::new();
    let mut next = grid.boundary_after(from);
    while next < until {
        clock.park(Some(next));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let now = clock.now();
        if now >= next {
            noted.extend(note(now.since(next)));
            // Boundaries that were slept through are slots that a slot loop would decide late; here
            // they count once, with the whole delay.
            next = grid.boundary_after(clock.now());
        }
    }
    noted
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
        assert_eq!(grid.half_a_slot_later().boundary_after(here), Time::from_us(1_012_000));
    }

    #[test]
    fn it_wakes_at_each_boundary_and_ends_by_itself() {
        let clock = SystemClock::start(Time::ZERO);
        let grid = Grid { length: Micros::from_us(500), ahead_us: 0 };
        let from = clock.now();
        let until = from.after(Micros::from_ms(20));
        let bare = Bare::start(clock, grid, (from, until), HostConfig::default(), Some).unwrap();
        let late = bare.thread.join().unwrap();
        assert!(!late.is_empty() && late.len() <= 41, "{}", late.len());
    }
}
