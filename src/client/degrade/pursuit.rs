//! The pursuit of a grant: one try after the other, as [`super::course`] says.

use std::future::Future;
use std::time::{Duration, Instant};

use super::course::{Bounds, Course, Seen, Step};
use super::policies::Applied;
use super::{Attempt, Cause, Choice, Conduct, Degradations, Degraded, PursueError, Pursued, Setback, Why};
use crate::client::shared::Shared;
use crate::client::{Client, DeclareError, Intent, Outcome, YEAR};
use crate::wire::Refusal;

impl Client {
    /// Declares until there is a grant, or until the [`super::Degrade`] policy of what is claimed says that it
    /// is enough. `next` is asked for the intent of each try and is told what came of the one before: after
    /// a conflict the offer, after a stale answer since when it must be read again.
    ///
    /// Between two tries there is a pause with backoff and jitter, and never a shorter one than the
    /// coordinator asked for. An intent whose answer was lost is declared again under its id, with the same content,
    /// until it is known what came of it; `next` is not asked before. What `next` does takes of the
    /// pursuit's time but is not cut off. Which policy applies is said by the latest intent. `next` is for new
    /// intents; to change one that is granted there is [`crate::Grant::revise`]. While nobody answers, each further pursuit
    /// ends at once: pause in between, or wait for [`crate::Event::Resumed`].
    ///
    /// Cancel safe, as [`Client::declare`] is: dropping it withdraws what it has declared, releases what that
    /// may have been granted meanwhile, and counts as no degradation.
    ///
    /// # Errors
    /// Where trying again does not help: the intent is refused for what it is, or the client is closed or
    /// replaced. Nothing is counted then, and no policy applies.
    pub async fn pursue<F, Fut>(&self, mut next: F) -> Result<Pursued, PursueError>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Intent>,
    {
        let mut pursuit = Pursuit::new(self);
        loop {
            let intent = match pursuit.open.intent.clone() {
                Some(open) => open,
                None => next(pursuit.attempt()).await,
            };
            let applied = self.inner.policies.of(&intent);
            let bounds = &applied.policy.bounds;
            let step = match pursuit.attempted(intent, bounds).await {
                Ok(Tried::Granted(pursued)) => return Ok(pursued),
                Ok(Tried::Setback(seen)) => {
                    let elapsed = pursuit.elapsed();
                    pursuit.course.next(seen, bounds, elapsed)
                }
                Ok(Tried::TooLate(cause)) => Step::Degrade(cause),
                Err(error) => return Err(error),
            };
            let cause = match step {
                Step::Again(pause) => pursuit.paused(pause, bounds).await.err(),
                Step::Degrade(cause) => Some(cause),
            };
            if let Some(cause) = cause {
                return Ok(Pursued::Degraded(pursuit.degraded(cause, &applied)));
            }
        }
    }

    /// How often this client has degraded.
    pub fn degradations(&self) -> Degradations {
        self.shared().look(|state, _| state.degradations())
    }
}

/// What a try came to.
enum Tried {
    Granted(Pursued),
    Setback(Seen),
    TooLate(Cause),
}

struct Pursuit<'a> {
    client: &'a Client,
    course: Course,
    began: Instant,
    /// When the first answer that did not come was due.
    overdue: Option<Instant>,
    last: Option<Setback>,
    open: Open<'a>,
}

impl<'a> Pursuit<'a> {
    fn new(client: &'a Client) -> Self {
        let shared = client.shared();
        // Ids go on from one that was drawn by chance.
        let seed = shared.look(|state, _| state.fresh_id()).number();
        Pursuit {
            client,
            course: Course::new(seed),
            began: shared.clock.now(),
            overdue: None,
            last: None,
            open: Open { shared, intent: None },
        }
    }

    fn attempt(&self) -> Attempt {
        Attempt { number: self.course.tries().saturating_add(1), last: self.last.clone() }
    }

    fn elapsed(&self) -> Duration {
        self.shared().clock.now().saturating_duration_since(self.began)
    }

    fn shared(&self) -> &'a Shared {
        self.open.shared
    }

    /// One try, which is given up where an answer comes too late.
    async fn attempted(&mut self, intent: Intent, bounds: &Bounds) -> Result<Tried, PursueError> {
        let (due, cause) = self.due(bounds);
        if self.shared().clock.now() >= due {
            return Ok(Tried::TooLate(cause));
        }
        let wait = Duration::from_micros(intent.raw.wait);
        self.course.begin(wait);
        let answer_due = later(self.shared().clock.now(), wait);
        self.overdue.get_or_insert(answer_due);
        // So that it can be asked again under the id, should its answer be lost.
        let drawn = || self.shared().look(|state, _| state.fresh_id());
        let intent = Intent { id: Some(intent.id.unwrap_or_else(drawn)), ..intent };
        let outcome = tokio::select! {
            biased;
            outcome = self.client.declare(intent.clone()) => outcome,
            cause = self.too_late(bounds) => return Ok(Tried::TooLate(cause)),
        };
        self.came_to(outcome, intent)
    }

    fn came_to(
        &mut self,
        outcome: Result<Outcome, DeclareError>,
        intent: Intent,
    ) -> Result<Tried, PursueError> {
        let seen = match outcome {
            Ok(Outcome::Granted(grant)) => {
                self.open.intent = None;
                return Ok(Tried::Granted(Pursued::Granted(grant)));
            }
            Ok(Outcome::Conflict(conflict)) => {
                self.open.intent = None;
                self.last = Some(Setback::Conflict(conflict));
                Seen::Against(Cause::Conflicts)
            }
            Ok(Outcome::Stale(stale)) => {
                self.open.intent = None;
                self.last = Some(Setback::Stale(stale));
                Seen::Against(Cause::Stale)
            }
            // Says nothing of what the same intent came to before, where that is open.
            Ok(Outcome::Rejected(why)) if is_passing(why.reason()) => {
                let retry_after = why.retry_after();
                self.last = Some(Setback::Refused(why));
                Seen::Undecided { retry_after }
            }
            Ok(Outcome::Rejected(why)) => return Err(PursueError::Rejected(why)),
            Err(error) => return self.no_outcome(error, intent),
        };
        self.overdue = None;
        Ok(Tried::Setback(seen))
    }

    fn no_outcome(&mut self, error: DeclareError, intent: Intent) -> Result<Tried, PursueError> {
        match &error {
            DeclareError::Unknown { .. } => self.open.intent = Some(intent),
            // It was granted while nobody knew, and is over.
            DeclareError::Ended { .. } if self.open.intent.take().is_some() => self.overdue = None,
            DeclareError::Disconnected if !self.shared().look(|state, _| state.is_closed()) => {}
            DeclareError::Full => {}
            // Heard from the coordinator, or no matter of its answers.
            DeclareError::Draining { .. } | DeclareError::ClockUncertain { .. } => self.overdue = None,
            _ => return Err(error.into()),
        }
        self.last = Some(Setback::NoOutcome(error));
        Ok(Tried::Setback(Seen::Undecided { retry_after: None }))
    }

    /// # Errors
    /// Where the pause was cut short, because it is too late for another try.
    async fn paused(&self, pause: Duration, bounds: &Bounds) -> Result<(), Cause> {
        let clock = &self.shared().clock;
        tokio::select! {
            biased;
            () = clock.sleep_until(later(clock.now(), pause)) => Ok(()),
            cause = self.too_late(bounds) => Err(cause),
        }
    }

    /// Resolves when there is no point in waiting any longer, and says why.
    async fn too_late(&self, bounds: &Bounds) -> Cause {
        let shared = self.shared();
        let mut phase = shared.phase.subscribe();
        loop {
            let (due, cause) = self.due(bounds);
            if shared.clock.now() >= due {
                return cause;
            }
            tokio::select! {
                biased;
                // The sender lives as long as the client does.
                _ = phase.changed() => {}
                () = shared.clock.sleep_until(due) => {}
            }
        }
    }

    /// When it is too late, as things stand, and why.
    fn due(&self, bounds: &Bounds) -> (Instant, Cause) {
        let shared = self.shared();
        let away = shared.look(|state, _| state.away_since()).map(|at| shared.instant(at));
        let silent_since = [away, self.overdue].into_iter().flatten().min();
        let out_of_time = later(self.began, self.course.time(bounds));
        match silent_since.map(|since| later(since, bounds.silent)) {
            Some(silent) if silent <= out_of_time => (silent, Cause::Silence),
            _ => (out_of_time, Cause::Time),
        }
    }

    fn degraded(&self, cause: Cause, applied: &Applied<'_>) -> Degraded {
        let (tries, took, last) = (self.course.tries(), self.elapsed(), self.last.clone());
        let why = Why { cause, tries, took, last };
        let choice = &applied.policy.choice;
        let plan = || self.client.inner.policies.last_plan(&applied.resource, self.shared());
        let conduct = match choice {
            Choice::Stop => Conduct::Stop,
            Choice::Keep => plan().map_or(Conduct::Stop, |plan| Conduct::KeepLastPlan(Box::new(plan))),
            Choice::FallBack(_) => Conduct::FellBack,
        };
        let degraded = Degraded { why, conduct };
        let is_first = self.shared().look(|state, _| state.count_degradation(&degraded));
        if is_first {
            tracing::warn!("{degraded}; further ones are counted until they are reported");
        }
        if let Choice::FallBack(act) = choice {
            act(&degraded.why);
        }
        degraded
    }
}

/// An intent that may have been decided, or may be yet. Where nobody will ask for it again, it is released.
struct Open<'a> {
    shared: &'a Shared,
    intent: Option<Intent>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.intent.take().and_then(|intent| intent.id) {
            // Where it is not taken, the session has no say any more.
            let _ = self.shared.with(|state, _| state.release(id));
        }
    }
}

/// Whether the coordinator refuses it for the time being alone.
fn is_passing(reason: Refusal) -> bool {
    matches!(reason, Refusal::Overloaded | Refusal::Draining)
}

fn later(from: Instant, by: Duration) -> Instant {
    from + by.min(YEAR)
}
