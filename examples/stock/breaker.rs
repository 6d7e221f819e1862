//! A circuit breaker: after some time-outs in a row nobody waits for another, until one try has shown that it works again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After so many time-outs in a row it opens.
const AFTER: u32 = 3;
/// For so long; then one is let through, to try.
const OPEN_FOR: Duration = Duration::from_millis(150);

#[derive(Debug, Default)]
pub(crate) struct Breaker(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    timed_out: u32,
    /// Until then nobody is let through, and after it one alone, until that one has succeeded.
    open_until: Option<Instant>,
    trying: bool,
}

impl Breaker {
    /// Whether this one may go on; it then says what came of it.
    pub(crate) fn lets_through(&self, now: Instant) -> bool {
        let mut state = self.state();
        match state.open_until {
            None => true,
            Some(until) if now < until || state.trying => false,
            Some(_) => {
                state.trying = true;
                true
            }
        }
    }

    pub(crate) fn succeeded(&self) {
        *self.state() = State::default();
    }

    pub(crate) fn timed_out(&self, now: Instant) {
        let mut state = self.state();
        state.timed_out += 1;
        state.trying = false;
        if state.timed_out >= AFTER {
            state.open_until = Some(now + OPEN_FOR);
        }
    }

    /// It was not tried after all.
    pub(crate) fn came_to_nothing(&self) {
        self.state().trying = false;
    }

    // Each change is whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_three_time_outs_in_a_row_one_alone_is_let_through_until_it_has_succeeded() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        breaker.timed_out(now);
        breaker.timed_out(now);
        breaker.succeeded();
        breaker.timed_out(now);
        breaker.timed_out(now);
        assert!(breaker.lets_through(now), "two in a row");
        breaker.timed_out(now);
        assert!(!breaker.lets_through(now), "three in a row");
        let later = now + OPEN_FOR;
        assert!(breaker.lets_through(later), "one may try");
        assert!(!breaker.lets_through(later), "and no other meanwhile");
        breaker.timed_out(later);
        assert!(!breaker.lets_through(later), "it did not work");
        assert!(breaker.lets_through(later + OPEN_FOR));
        breaker.came_to_nothing();
        assert!(breaker.lets_through(later + OPEN_FOR), "nothing was learnt");
        breaker.succeeded();
        assert!(breaker.lets_through(now) && breaker.lets_through(now), "all may");
    }
}
