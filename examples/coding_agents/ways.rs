//! The same work done in several ways, each timed from the first thought to the last edit.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use preclaim::coordinator::{Coordinator, CoordinatorConfig};
use preclaim::resolver::Rules;
use tokio::sync::{Mutex, RwLock};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::agent::{Agent, Diary, Habit};
use super::repository::{Repository, Tally};
use super::story::Failure;
use super::work::{FILES, Job};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    NoControl,
    RepositoryLock,
    FileLocks,
    WhenNeeded,
    JustBefore,
    Ahead,
}

/// How it went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) way: Way,
    pub(crate) took: Duration,
    pub(crate) jobs: usize,
    pub(crate) tally: Tally,
    pub(crate) redone: u64,
}

impl Way {
    pub(crate) const ALL: [Way; 6] =
        [Way::NoControl, Way::RepositoryLock, Way::FileLocks, Way::WhenNeeded, Way::JustBefore, Way::Ahead];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::NoControl => "no control",
            Way::RepositoryLock => "one lock for the repository",
            Way::FileLocks => "one lock a file",
            Way::WhenNeeded => "preclaim, when needed",
            Way::JustBefore => "preclaim, two slots before that",
            Way::Ahead => "preclaim, before thinking",
        }
    }

    /// Does all of the plan in this way.
    pub(crate) async fn run(self, plan: &[Vec<Job>], spare: Duration) -> Result<Run, Failure> {
        let repository = Arc::new(Repository::create()?);
        let (took, redone) = match self {
            Way::NoControl => (uncontrolled(plan, &repository).await?, 0),
            Way::RepositoryLock => (under_one_lock(plan, &repository).await?, 0),
            Way::FileLocks => (under_file_locks(plan, &repository).await?, 0),
            Way::WhenNeeded => coordinated(plan, &repository, Habit::WhenNeeded, spare).await?,
            Way::JustBefore => coordinated(plan, &repository, Habit::JustBefore, spare).await?,
            Way::Ahead => coordinated(plan, &repository, Habit::Ahead, spare).await?,
        };
        let jobs = plan.iter().map(Vec::len).sum();
        Ok(Run { way: self, took, jobs, tally: repository.tally()?, redone })
    }
}

async fn coordinated(
    plan: &[Vec<Job>],
    repository: &Arc<Repository>,
    habit: Habit,
    spare: Duration,
) -> Result<(Duration, u64), Failure> {
    let coordinator = Coordinator::bind(CoordinatorConfig::in_memory(Rules::default())?)?.spawn();
    let mut agents = Vec::new();
    for number in 1..=plan.len() {
        let client = coordinator.client(format!("agent-{number}")).connect().await?;
        agents.push(Agent { client, repository: Arc::clone(repository), habit, spare });
    }
    let agents: Arc<[Agent]> = agents.into();
    let (took, diaries) = timed(plan, |number, jobs| {
        let agents = Arc::clone(&agents);
        async move { agents[number].work(&jobs).await }
    })
    .await?;
    for agent in agents.iter() {
        agent.client.close().await;
    }
    coordinator.stop().await?;
    Ok((took, diaries.iter().map(|Diary { redone }| redone).sum()))
}

async fn uncontrolled(plan: &[Vec<Job>], repository: &Arc<Repository>) -> Result<Duration, Failure> {
    let work = |_, jobs: Vec<Job>| {
        let repository = Arc::clone(repository);
        async move {
            for job in jobs {
                sleep(job.think).await;
                edit(&repository, &job).await?;
            }
            Ok(())
        }
    };
    Ok(timed(plan, work).await?.0)
}

async fn under_one_lock(plan: &[Vec<Job>], repository: &Arc<Repository>) -> Result<Duration, Failure> {
    let lock = Arc::new(Mutex::new(()));
    let work = |_, jobs: Vec<Job>| {
        let (repository, lock) = (Arc::clone(repository), Arc::clone(&lock));
        async move {
            for job in jobs {
                sleep(job.think).await;
                let _alone = lock.lock().await;
                edit(&repository, &job).await?;
            }
            Ok(())
        }
    };
    Ok(timed(plan, work).await?.0)
}

/// Locks of many readers or one writer, taken in the order of the files, so that nobody waits in a ring.
async fn under_file_locks(plan: &[Vec<Job>], repository: &Arc<Repository>) -> Result<Duration, Failure> {
    let locks: Arc<[RwLock<()>]> = (0..FILES).map(|_| RwLock::new(())).collect();
    let work = |_, jobs: Vec<Job>| {
        let (repository, locks) = (Arc::clone(repository), Arc::clone(&locks));
        async move {
            for job in jobs {
                sleep(job.think).await;
                let (reads, writes) = (job.files(false), job.files(true));
                let (mut reading, mut writing) = (Vec::new(), Vec::new());
                for (file, lock) in locks.iter().enumerate() {
                    if writes.contains(&file) {
                        writing.push(lock.write().await);
                    } else if reads.contains(&file) {
                        reading.push(lock.read().await);
                    }
                }
                edit(&repository, &job).await?;
            }
            Ok(())
        }
    };
    Ok(timed(plan, work).await?.0)
}

async fn edit(repository: &Repository, job: &Job) -> Result<(), Failure> {
    repository.edit(job, None).await?.map_err(|_| "refused, though it had no fence".into())
}

/// Lets all agents begin at once, each with its jobs, and waits until the last one is done.
async fn timed<T: Send + 'static, F: Future<Output = Result<T, Failure>> + Send + 'static>(
    plan: &[Vec<Job>],
    work: impl Fn(usize, Vec<Job>) -> F,
) -> Result<(Duration, Vec<T>), Failure> {
    let (mut working, begin) = (JoinSet::new(), Instant::now());
    for (number, jobs) in plan.iter().enumerate() {
        working.spawn(work(number, jobs.clone()));
    }
    let mut done = Vec::new();
    while let Some(ended) = working.join_next().await {
        done.push(ended??);
    }
    Ok((begin.elapsed(), done))
}
