//! What lies between one agent and the coordinator, and how the agent's clock runs: as the test says.

use std::time::{Duration, Instant as StdInstant};

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::client::{Boxed, Clock};

const MILLION: i128 = 1_000_000;

/// What holds for one agent at present.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    is_reachable: bool,
    latency: Duration,
    /// Nothing of the agent's runs before this.
    stalled_until: Option<Instant>,
    clock: Running,
}

/// How an agent's clock runs: from `at` on, when it said `said`.
#[derive(Clone, Copy, Debug)]
struct Running {
    at: Instant,
    said: StdInstant,
    ppm: i32,
}

impl Running {
    fn says(&self, now: Instant) -> StdInstant {
        let passed = i128::try_from(now.saturating_duration_since(self.at).as_nanos()).unwrap_or(i128::MAX);
        self.said + nanos(passed.saturating_mul(MILLION + i128::from(self.ppm)) / MILLION)
    }

    /// When it will say `at`, or a little later.
    fn will_say(&self, at: StdInstant) -> Instant {
        let ahead = i128::try_from(at.saturating_duration_since(self.said).as_nanos()).unwrap_or(i128::MAX);
        let rate = MILLION + i128::from(self.ppm);
        self.at + nanos((ahead.saturating_mul(MILLION) + rate - 1) / rate)
    }
}

fn nanos(span: i128) -> Duration {
    Duration::from_nanos(u64::try_from(span.max(0)).unwrap_or(u64::MAX))
}

/// The line of one agent, and its clock.
#[derive(Clone, Debug)]
pub(super) struct Line(watch::Sender<Conditions>);

impl Line {
    pub(super) fn new(latency: Duration) -> Self {
        let at = Instant::now();
        let clock = Running { at, said: at.into_std(), ppm: 0 };
        Line(watch::Sender::new(Conditions { is_reachable: true, latency, stalled_until: None, clock }))
    }

    pub(super) fn is(&self, other: &Line) -> bool {
        self.0.same_channel(&other.0)
    }

    pub(super) fn set_reachable(&self, reachable: bool) {
        self.0.send_modify(|now| now.is_reachable = reachable);
    }

    pub(super) fn set_latency(&self, latency: Duration) {
        self.0.send_modify(|now| now.latency = latency);
    }

    pub(super) fn stall_until(&self, until: Instant) {
        self.0.send_modify(|now| now.stalled_until = now.stalled_until.max(Some(until)));
    }

    /// From here on the clock runs `ppm` millionths fast, and `ahead_us` ahead of what it says now.
    pub(super) fn set_clock(&self, ahead_us: i64, ppm: i32) {
        self.0.send_modify(|conditions| {
            let at = Instant::now();
            let (says, ahead) = (conditions.clock.says(at), Duration::from_micros(ahead_us.unsigned_abs()));
            let said = if ahead_us < 0 { says.checked_sub(ahead).unwrap_or(says) } else { says + ahead };
            conditions.clock = Running { at, said, ppm };
        });
    }

    /// Resolves when something that was sent at `sent` has come through. Cancel safe.
    pub(super) async fn through(&self, sent: Instant) {
        self.until(|now| now.is_reachable.then_some(now.stalled_until.max(Some(sent + now.latency)))).await;
    }

    /// Resolves when the agent is not stalled. Cancel safe.
    pub(super) async fn awake(&self) {
        self.until(|now| Some(now.stalled_until)).await;
    }

    /// Resolves when nothing gets through. Cancel safe.
    pub(super) async fn silent(&self) {
        let mut changes = self.0.subscribe();
        let is_silent = |now: &Conditions| {
            !now.is_reachable || now.stalled_until.is_some_and(|until| until > Instant::now())
        };
        let _ = changes.wait_for(is_silent).await; // the sender is this line's own
    }

    /// Resolves at the time that `due` names, as long as it names the same; waits while it names none.
    async fn until(&self, due: impl Fn(&Conditions) -> Option<Option<Instant>>) {
        let mut changes = self.0.subscribe();
        loop {
            let at = due(&changes.borrow_and_update());
            let passed = async {
                match at {
                    Some(Some(at)) if at > Instant::now() => sleep_until(at).await,
                    Some(_) => {}
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = passed => return,
                _ = changes.changed() => {}
            }
        }
    }
}

impl Clock for Line {
    fn now(&self) -> StdInstant {
        self.0.borrow().clock.says(Instant::now())
    }

    fn sleep_until(&self, at: StdInstant) -> Boxed<'static, ()> {
        let line = self.clone();
        Box::pin(async move {
            line.until(|now| Some(now.stalled_until.max(Some(now.clock.will_say(at))))).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{millis, secs};

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_runs_fast_says_more_and_its_sleepers_wake_sooner() {
        let line = Line::new(Duration::ZERO);
        let (began, said) = (Instant::now(), line.now());
        line.set_clock(2_000_000, 1_000);
        assert_eq!(line.now() - said, secs(2));
        line.sleep_until(said + secs(2) + millis(10_010)).await;
        assert_eq!(began.elapsed(), secs(10));
        assert_eq!(line.now() - said, secs(2) + millis(10_010));
        line.set_clock(-2_000_000, -1_000);
        tokio::time::sleep(secs(10)).await;
        assert_eq!(line.now() - said, millis(10_010 + 9_990));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_wakes_before_a_stall_is_over() {
        let line = Line::new(Duration::ZERO);
        let began = Instant::now();
        let at = line.now() + secs(1);
        let sleeper = tokio::spawn(line.sleep_until(at));
        line.stall_until(began + secs(5));
        sleeper.await.unwrap();
        assert_eq!(began.elapsed(), secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_sent_comes_through_after_the_latency_and_not_while_the_line_is_down() {
        let line = Line::new(millis(20));
        let began = Instant::now();
        line.through(began).await;
        assert_eq!(began.elapsed(), millis(20));
        line.set_reachable(false);
        let waiting = tokio::spawn({
            let line = line.clone();
            async move { line.through(began).await }
        });
        tokio::time::sleep(secs(1)).await;
        assert!(!waiting.is_finished());
        line.set_reachable(true);
        waiting.await.unwrap();
        assert_eq!(began.elapsed(), millis(1_020));
    }
}
