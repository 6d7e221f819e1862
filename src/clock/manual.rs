//! A clock that stands still until it is told to go on: for tests and virtual time.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};

use super::Clock;
use crate::types::{Micros, Time};

/// A clock that moves only by [`ManualClock::advance`] and [`ManualClock::set`], and wakes those who
/// sleep by it when it does.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Time,
    sleepers: Vec<Thread>,
}

impl State {
    fn wake(&mut self) {
        self.sleepers.drain(..).for_each(|sleeper| sleeper.unpark());
    }
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn new(now: Time) -> Self {
        ManualClock { state: Mutex::new(State { now, sleepers: Vec::new() }) }
    }

    /// Moves on by `span` and wakes every sleeper.
    pub fn advance(&self, span: Micros) {
        let mut state = self.lock();
        state.now = state.now.after(span);
        state.wake();
    }

    /// Shows `now` from here on, or stays where that lies in the past, as a coordinator's clock does
    /// when the wall clock is set back. Wakes every sleeper.
    pub fn set(&self, now: Time) {
        let mut state = self.lock();
        state.now = state.now.max(now);
        state.wake();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // The state is two plain values, each whole at any instant.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        self.lock().now
    }

    fn park(&self, until: Option<Time>) {
        {
            let mut state = self.lock();
            if until.is_some_and(|until| until <= state.now) {
                return;
            }
            let me = thread::current();
            if state.sleepers.iter().all(|sleeper| sleeper.id() != me.id()) {
                state.sleepers.push(me);
            }
        }
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn setting_it_back_changes_nothing() {
        let clock = ManualClock::new(Time::from_us(100));
        clock.set(Time::from_us(40));
        assert_eq!(clock.now(), Time::from_us(100));
    }

    #[test]
    fn moving_on_wakes_a_sleeper_at_its_time() {
        let clock = Arc::new(ManualClock::new(Time::ZERO));
        let sleeper = thread::spawn({
            let clock = Arc::clone(&clock);
            move || {
                let until = Time::from_us(30);
                while clock.now() < until {
                    clock.park(Some(until));
                }
                clock.now()
            }
        });
        clock.advance(Micros::from_us(10));
        clock.advance(Micros::from_us(20));
        assert_eq!(sleeper.join().unwrap(), Time::from_us(30));
    }
}
