//! A team of agents at work on one memory for a while, and what came of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use preclaim::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::Failure;
use super::agent::{Agent, Scope};
use super::memory::{Memory, Task};
use super::mind::{Done, Mind};
use super::story::Dice;

/// Nothing hangs: past this a run counts as hanging.
const HANGS: Duration = Duration::from_secs(60);

/// How the agents keep out of each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Control {
    /// Not at all.
    Nothing,
    /// By the database alone: it compares the version of the row.
    Version,
    /// A claim on the whole memory, held while thinking.
    Memory,
    /// A claim on the document, held while thinking.
    Document,
    /// No claim while thinking, then a short window that rests on what was read.
    Expects,
}

impl Control {
    pub(crate) const ALL: [Control; 5] =
        [Control::Nothing, Control::Version, Control::Memory, Control::Document, Control::Expects];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Control::Nothing => "nothing",
            Control::Version => "version",
            Control::Memory => "memory",
            Control::Document => "document",
            Control::Expects => "expects",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Control::ALL.into_iter().find(|control| control.name() == name)
    }
}

impl Agent {
    /// Does one task.
    pub(crate) async fn carry_out(&mut self, task: &Task, control: Control) -> Result<Done, Failure> {
        match control {
            Control::Nothing => {
                let doc = self.memory.find(task)?;
                let body = self.mind.think(&doc, task).await;
                self.memory.write_blind(&doc.key, &body)?;
                Ok(Done { thoughts: 1, ..Done::default() })
            }
            Control::Version => {
                let mut done = Done::default();
                loop {
                    let doc = self.memory.find(task)?;
                    done.thoughts += 1;
                    let body = self.mind.think(&doc, task).await;
                    if self.memory.write_if_unchanged(&doc, &body)? {
                        return Ok(done);
                    }
                    done.stale += 1;
                }
            }
            Control::Memory => self.claims(task, Scope::Memory).await,
            Control::Document => self.claims(task, Scope::Document).await,
            Control::Expects => self.expects(task).await,
        }
    }
}

/// What a team is set to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// How likely it is that two tasks want the same document.
    pub(crate) conflict_rate: f64,
    /// How long they take new tasks.
    pub(crate) period: Duration,
    /// How long they think about one, give or take a half.
    pub(crate) think: Duration,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Score {
    /// Tasks that were done within the period, a second.
    pub(crate) per_second: f64,
    /// Writes that were acknowledged.
    pub(crate) acknowledged: usize,
    /// Of these, how many are not there in the end.
    pub(crate) lost: usize,
    /// Topics without a document of their own in the end, or with two.
    pub(crate) misplaced: usize,
    pub(crate) done: Done,
}

/// The tasks of one agent, without end: adds and updates of documents of its own, and of one that all want.
#[derive(Debug)]
pub(crate) struct Tasks {
    agent: usize,
    dice: Dice,
    /// How likely a task is about what all want.
    hot: f64,
    taken: u64,
    topics: u64,
}

impl Tasks {
    pub(crate) fn new(agent: usize, conflict_rate: f64, seed: u64) -> Self {
        // Two tasks are both about it with the square of this.
        let (dice, hot) = (Dice::new(seed ^ ((agent as u64 + 1) << 32)), conflict_rate.sqrt());
        Tasks { agent, dice, hot, taken: 0, topics: 0 }
    }

    pub(crate) fn next(&mut self) -> Task {
        self.taken += 1;
        let id = format!("agent-{}/{}", self.agent + 1, self.taken);
        // All are drawn each time, so that the tasks of two rates differ in nothing else.
        let (is_hot, adds, which) = (self.dice.unit() < self.hot, self.dice.below(4) == 0, self.dice.draw());
        if is_hot {
            return Task::new(id, 0);
        }
        let topic = if adds || self.topics == 0 {
            self.topics += 1;
            self.topics
        } else {
            which % self.topics + 1
        };
        Task::new(id, topic + (self.agent as u64 + 1) * 10_000)
    }
}

/// Has an agent for each of `clients` work on a memory in `file`, and looks at what is there in the end.
pub(crate) async fn run(
    clients: &[Client],
    control: Control,
    work: Work,
    file: &Path,
) -> Result<Score, Failure> {
    let root = format!("memory/{}-{}-{}", control.name(), work.conflict_rate, work.seed);
    let begin = Instant::now();
    let mut agents = JoinSet::new();
    for (number, client) in clients.iter().enumerate() {
        let mind = Mind::new(work.seed ^ (number as u64 + 1), work.think);
        let mut agent =
            Agent { client: client.clone(), memory: Memory::open(file)?, mind, root: root.clone() };
        agents.spawn(async move {
            let mut tasks = Tasks::new(number, work.conflict_rate, work.seed);
            let mut log = Vec::new();
            while begin.elapsed() < work.period {
                let task = tasks.next();
                let done = agent.carry_out(&task, control).await?;
                log.push((task, done, begin.elapsed()));
            }
            Ok::<_, Failure>(log)
        });
    }
    let mut log = Vec::new();
    while let Some(ended) = timeout(work.period + HANGS, agents.join_next()).await? {
        log.extend(ended??);
    }
    let in_time = log.iter().filter(|(_, _, at)| *at < work.period).count();
    let mut result = Score {
        per_second: in_time as f64 / work.period.as_secs_f64(),
        acknowledged: log.len(),
        ..Score::default()
    };
    for (_, done, _) in &log {
        result.done.thoughts += done.thoughts;
        result.done.stale += done.stale;
        result.done.lost += done.lost;
    }
    let tasks: Vec<Task> = log.into_iter().map(|(task, ..)| task).collect();
    (result.lost, result.misplaced) = missing(&Memory::open(file)?, &tasks)?;
    Ok(result)
}

/// Of tasks that were acknowledged: how many are in no document, and how many topics do not have one
/// document, and one alone.
pub(crate) fn missing(memory: &Memory, tasks: &[Task]) -> Result<(usize, usize), Failure> {
    let docs = memory.all()?;
    let there: BTreeSet<&str> = docs.values().flat_map(|doc| doc.ids()).collect();
    let lost = tasks.iter().filter(|task| !there.contains(task.id.as_str())).count();
    let topics: BTreeSet<&str> = tasks.iter().map(|task| task.words.as_str()).collect();
    let about = |words: &str| docs.values().filter(|doc| doc.body.contains(words)).count();
    Ok((lost, topics.into_iter().filter(|words| about(words) != 1).count()))
}
