//! An agent that edits a repository which others edit too. What to copy is here: it claims the places of a
//! job all at once, a file, several files or a directory as a whole, and edits only while they are granted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use preclaim::{Client, Grant, Intent, Outcome, path, secs};
use tokio::time::sleep_until;

use super::repository::Repository;
use super::story::Failure;
use super::work::Job;

/// How long an agent would rather wait than be told that somebody is in the way.
const PATIENCE: Duration = secs(120);

/// When an agent declares what it will edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// When it has thought, and could begin: it waits for the slot, and for whoever is there.
    WhenNeeded,
    /// Two slots before it has thought. Where all is free by then, it need not wait at all; else it gets in
    /// line as if it could begin.
    JustBefore,
    /// When it begins to think, for a window in the future: the next that is free from then on.
    Ahead,
}

pub(crate) struct Agent {
    pub(crate) client: Client,
    pub(crate) repository: Arc<Repository>,
    pub(crate) habit: Habit,
    /// What a claim is longer than its job should take: a grant that is used up loses the work. What is left
    /// of it is given back when the job is done.
    pub(crate) spare: Duration,
}

/// What it lived through.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Diary {
    /// Jobs that were done anew, since the grant was over before the job was.
    pub(crate) redone: u64,
}

impl Agent {
    /// Does the jobs, one after the other.
    pub(crate) async fn work(&self, jobs: &[Job]) -> Result<Diary, Failure> {
        let mut diary = Diary::default();
        for job in jobs {
            let mut grant = self.think(job).await?;
            while !self.edit(job, &grant).await? {
                diary.redone += 1;
                grant = self.declare(self.when_free(job)?).await?;
            }
            // Given back at once. Nobody waits for the answer.
            drop(grant);
        }
        Ok(diary)
    }

    /// Thinks about the job, and has its places granted.
    async fn think(&self, job: &Job) -> Result<Grant, Failure> {
        let ready = Instant::now() + job.think;
        let declared = async {
            match self.habit {
                Habit::WhenNeeded => {
                    sleep_until(ready.into()).await;
                    self.declare(self.when_free(job)?).await
                }
                Habit::JustBefore => {
                    sleep_until((ready - 2 * self.client.slot_length()).into()).await;
                    match self.client.declare(self.claims(Intent::at(ready), job)?).await? {
                        Outcome::Granted(grant) => Ok(grant),
                        _in_the_way => self.declare(self.when_free(job)?).await,
                    }
                }
                Habit::Ahead => {
                    let window = Intent::at(ready).slack(PATIENCE);
                    self.declare(self.claims(window, job)?).await
                }
            }
        };
        let (grant, ()) = tokio::join!(declared, sleep_until(ready.into()));
        grant
    }

    async fn declare(&self, intent: Intent) -> Result<Grant, Failure> {
        match self.client.declare(intent).await? {
            Outcome::Granted(grant) => Ok(grant),
            Outcome::Conflict(conflict) => Err(conflict.to_string().into()),
            Outcome::Rejected(why) => Err(why.to_string().into()),
            Outcome::Stale(_) => Err("stale, though it rests on no reading".into()),
        }
    }

    /// Edits from the grant's start on. Says whether that was done before it ended: work that goes on past
    /// it is dropped, and what would be written too late all the same, the repository refuses by its fence.
    async fn edit(&self, job: &Job, grant: &Grant) -> Result<bool, Failure> {
        match grant.guarded(async { self.repository.edit(job, Some(grant.fence(0))).await }).await {
            Ok(edited) => Ok(edited?.is_ok()),
            Err(_lost) => Ok(false),
        }
    }

    /// All places of the job, as soon as they are free together.
    fn when_free(&self, job: &Job) -> Result<Intent, Failure> {
        self.claims(Intent::asap().wait(PATIENCE), job)
    }

    fn claims(&self, mut intent: Intent, job: &Job) -> Result<Intent, Failure> {
        for spot in &job.spots {
            let place = path(&spot.path())?;
            let how = if spot.writes { place.exclusive() } else { place.shared() };
            intent = intent.claim(how, job.guess + self.spare);
        }
        // Of those who wait, whoever has most left to do goes first: the last one to be done holds up all.
        Ok(intent.urgency(job.left))
    }
}
