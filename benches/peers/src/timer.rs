//! Sleeping to the instant: all agents of all systems think and work for as long as the workload says, not up to
//! a millisecond and a half longer, as tokio's timers would have it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Who is to be woken when, the earliest first.
#[derive(Default)]
struct Sleepers {
    due: Mutex<Due>,
    changed: Condvar,
}

#[derive(Default)]
struct Due {
    instants: BinaryHeap<Reverse<(Instant, u64)>>,
    wakers: std::collections::BTreeMap<u64, oneshot::Sender<()>>,
    last: u64,
}

/// Resolves at `at`, or right after.
pub(crate) async fn sleep_until(at: Instant) {
    if at <= Instant::now() {
        return;
    }
    let (waker, woken) = oneshot::channel();
    let sleepers = sleepers();
    {
        let mut due = sleepers.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.last += 1;
        let nth = due.last;
        due.instants.push(Reverse((at, nth)));
        due.wakers.insert(nth, waker);
    }
    sleepers.changed.notify_one();
    let _ = woken.await; // its thread never ends
}

/// Resolves after `span`.
pub(crate) async fn sleep(span: Duration) {
    sleep_until(Instant::now() + span).await;
}

fn sleepers() -> &'static Sleepers {
    static SLEEPERS: OnceLock<&'static Sleepers> = OnceLock::new();
    SLEEPERS.get_or_init(|| {
        let sleepers: &'static Sleepers = Box::leak(Box::default()); // one, for as long as the process lives
        std::thread::spawn(|| wake_all(sleepers));
        sleepers
    })
}

/// Wakes each in its turn, for ever.
fn wake_all(sleepers: &Sleepers) {
    let mut due = sleepers.due.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let now = Instant::now();
        while let Some(Reverse((at, nth))) = due.instants.peek().copied()
            && at <= now
        {
            due.instants.pop();
            if let Some(waker) = due.wakers.remove(&nth) {
                let _ = waker.send(()); // it may have been dropped meanwhile
            }
        }
        due = match due.instants.peek().copied() {
            Some(Reverse((at, _))) => {
                let woken = sleepers.changed.wait_timeout(due, at.saturating_duration_since(now));
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => sleepers.changed.wait(due).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_is_woken_too_early_whoever_came_first() {
        let begun = Instant::now();
        let (late, early) = (begun + Duration::from_millis(4), begun + Duration::from_millis(2));
        let both = [late, early].map(|at| async move {
            sleep_until(at).await;
            Instant::now() >= at
        });
        let [late, early] = both;
        let (late, early) = tokio::join!(late, early);
        assert!(late && early);
    }
}
