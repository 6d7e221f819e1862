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
    /// `agent` begins to use `paths`. Whoever still uses something of it is a violation; not so one whose
    /// time is over, as long as it does nothing more (see [`Ledger::leave`]).
    pub(crate) fn enter(&self, agent: usize, paths: &[String], until: Option<Instant>, now: Instant) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let meets = |holder: &Holder| {
            holder.paths.iter().any(|theirs| paths.iter().any(|mine| related(mine, theirs)))
        };
        let Inner { holders, violations } = &mut *inner;
        holders.retain(|holder| {
            if !meets(holder) {
                return true;
            }
            let is_over = holder.until.is_some_and(|until| until <= now);
            *violations += u64::from(!is_over);
            !is_over
        });
        holders.push(Holder { agent, paths: paths.to_vec(), until });
    }

    /// `agent` has stopped; `used` says whether it went on to the end of its work. One whose place was taken
    /// by then, as its time was over, must not have.
    pub(crate) fn leave(&self, agent: usize, used: bool) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.holders.iter().position(|holder| holder.agent == agent) {
            Some(at) => drop(inner.holders.swap_remove(at)),
            None => inner.violations += u64::from(used),
        }
    }

    pub(crate) fn violations(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).violations
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

    fn paths(path: &str) -> Vec<String> {
        vec![path.to_owned()]
    }

    #[test]
    fn two_who_hold_the_same_are_a_violation_and_one_after_the_other_is_none() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        ledger.enter(0, &paths("a"), None, now);
        ledger.leave(0, true);
        ledger.enter(1, &paths("a/b"), None, now);
        assert_eq!(ledger.violations(), 0);
        ledger.enter(2, &paths("a"), None, now);
        assert_eq!(ledger.violations(), 1);
    }

    #[test]
    fn whose_time_is_over_may_be_followed_and_may_do_nothing_more() {
        let (ledger, now) = (Ledger::default(), Instant::now());
        let until = Some(now + Duration::from_millis(1));
        ledger.enter(0, &paths("a"), until, now);
        ledger.enter(1, &paths("a"), None, now + Duration::from_millis(1));
        ledger.leave(0, false);
        assert_eq!(ledger.violations(), 0);
        ledger.enter(0, &paths("b"), until, now);
        ledger.enter(2, &paths("b"), None, now + Duration::from_millis(1));
        ledger.leave(0, true);
        assert_eq!(ledger.violations(), 1);
    }

    #[test]
    fn windows_that_touch_do_not_overlap() {
        assert_eq!(overlaps(vec![(1, 10, 20), (1, 0, 10), (2, 5, 15)]), 0);
        assert_eq!(overlaps(vec![(1, 9, 20), (1, 0, 10)]), 1);
    }
}
