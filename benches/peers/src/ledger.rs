//! Who holds what, kept in the process of all agents: whether any system gave two of them the same.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::work::related;

/// What is held now. Its methods are called by the agents themselves, right when they begin to use what they
/// were granted and right after their last use.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    holders: Vec<Holder>,
    /// Whose time was over when another began, and when it was over.
    passed: Vec<(usize, Instant)>,
    violations: u64,
}

#[derive(Debug)]
struct Holder {
    agent: usize,
    paths: Vec<String>,
    /// Where a grant ends by itself: from then on it is another's, and its holder has to have stopped.
    until: Option<Instant>,
}

impl Ledger {
    /// `agent` begins to use `paths`, unless its time is over: whoever stood still between a look at the clock and
    /// this call must not use what is another's by now. Returns whether it does.
    pub(crate) fn enter(&self, agent: usize, paths: &[String], until: Option<Instant>) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that the order of entries is that of their times.
        inner.enter(agent, paths, until, Instant::now())
    }

    /// `agent` has stopped; `used` is the instant of its last use, if it did not stop before its work was done.
    /// One whose place was taken, as its time was over, must not have used it after that time.
    pub(crate) fn leave(&self, agent: usize, used: Option<Instant>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = inner.holders.iter().position(|holder| holder.agent == agent) {
            inner.holders.swap_remove(at);
        }
        while let Some(at) = inner.passed.iter().position(|(whose, _)| *whose == agent) {
            let (_, until) = inner.passed.swap_remove(at);
            inner.violations += u64::from(used.is_some_and(|used| used > until));
        }
    }

    pub(crate) fn violations(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).violations
    }
}

impl Inner {
    /// Whoever still uses something of `paths` is a violation; not so one whose time is over, as long as it does
    /// nothing more (see [`Ledger::leave`]).
    fn enter(&mut self, agent: usize, paths: &[String], until: Option<Instant>, now: Instant) -> bool {
        if until.is_some_and(|until| until <= now) {
            return false;
        }
        let meets = |holder: &Holder| {
            holder.paths.iter().any(|theirs| paths.iter().any(|mine| related(mine, theirs)))
        };
        let Inner { holders, passed, violations } = self;
        holders.retain(|holder| {
            if !meets(holder) {
                return true;
            }
            match holder.until.filter(|until| *until <= now) {
                Some(until) => passed.push((holder.agent, until)),
                None => *violations += 1,
            }
            false
        });
        holders.push(Holder { agent, paths: paths.to_vec(), until });
        true
    }
}

/// Windows that overlap on one resource: pairs of neighbours, sorted by their starts.
pub(crate) fn overlaps(mut booked: Vec<(u64, u64, u64)>) -> u64 {
    booked.sort_unstable();
    booked.windows(2).filter(|two| two[0].0 == two[1].0 && two[1].1 < two[0].2).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn enter(ledger: &Ledger, agent: usize, path: &str, until: Option<Instant>, now: Instant) -> bool {
        ledger.inner.lock().unwrap().enter(agent, &paths(path), until, now)
    }

    fn paths(path: &str) -> Vec<String> {
        vec![path.to_owned()]
    }

    #[test]
    fn two_who_hold_the_same_are_a_violation_and_one_after_the_other_is_none() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        enter(&ledger, 0, "a", None, now);
        ledger.leave(0, Some(now));
        enter(&ledger, 1, "a/b", None, now);
        assert_eq!(ledger.violations(), 0);
        enter(&ledger, 2, "a", None, now);
        assert_eq!(ledger.violations(), 1);
    }

    #[test]
    fn whose_time_is_over_may_be_followed_and_may_do_nothing_more() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        let until = now + Duration::from_millis(1);
        let after = until + Duration::from_nanos(1);
        for (used, violations) in [(None, 0), (Some(until), 0), (Some(after), 1)] {
            let before = ledger.violations();
            enter(&ledger, 0, "a", Some(until), now);
            enter(&ledger, 1, "a", None, until);
            ledger.leave(0, used);
            ledger.leave(1, Some(after));
            assert_eq!(ledger.violations() - before, violations);
        }
    }

    #[test]
    fn whose_time_is_over_before_it_begins_does_not_begin() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        assert!(enter(&ledger, 1, "a", None, now));
        assert!(!enter(&ledger, 0, "a", Some(now), now));
        ledger.leave(0, None);
        assert_eq!(ledger.violations(), 0);
    }

    #[test]
    fn windows_that_touch_do_not_overlap() {
        assert_eq!(overlaps(vec![(1, 10, 20), (1, 0, 10), (2, 5, 15)]), 0);
        assert_eq!(overlaps(vec![(1, 9, 20), (1, 0, 10)]), 1);
    }
}
