//! One of three agents, a process of its own, is killed while it thinks (SIGKILL: no goodbye). What is left of
//! it, and how long do the others wait?

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use preclaim::Client;
use preclaim::client::discovery;
use preclaim::coordinator::Running;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::Failure;
use super::agent::Agent;
use super::memory::{Memory, Scratch, Task};
use super::mind::Mind;
use super::team::{Control, missing};

/// What an agent in a process of its own is told: the file of the memory, and how it keeps out of others' way.
const FILE: &str = "SHARED_MEMORY_FILE";
const CONTROL: &str = "SHARED_MEMORY_CONTROL";
/// Tasks of each agent; all are about one document.
const TASKS: usize = 12;
/// The task at which the agent is killed.
const STUCK_AT: usize = 5;
const ROOT: &str = "memory/crash";
const THINK: Duration = Duration::from_millis(20);
/// Nothing hangs.
const HANGS: Duration = Duration::from_secs(30);

/// What came of it.
#[derive(Debug)]
pub(crate) struct Crash {
    pub(crate) control: Control,
    /// Tasks of all three agents.
    pub(crate) tasks: usize,
    /// Tasks that the killed one had done.
    pub(crate) done_by_it: usize,
    /// Tasks that it left, done by another one.
    pub(crate) taken_over: usize,
    pub(crate) lost: usize,
    /// The longest that any task of the others took.
    pub(crate) longest: Duration,
}

impl Crash {
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match (self.lost, self.done_by_it) {
            (0, 1..) => Ok(()),
            _ => Err(format!("a killed agent took others' work with it: {self:?}").into()),
        }
    }
}

/// Runs three agents, the third by `command`, and kills that one.
pub(crate) async fn crash(
    coordinator: &Running,
    control: Control,
    mut command: Command,
    seed: u64,
) -> Result<Crash, Failure> {
    let scratch = Scratch::new()?;
    let file = scratch.file("memory.sqlite");
    let certificate = scratch.file("coordinator.pem");
    fs::write(&certificate, discovery::pem(coordinator.certificate()))?;
    Memory::open(&file)?;
    command.env("PRECLAIM_ADDR", coordinator.local_addr().to_string()).env("PRECLAIM_CA", certificate);
    command.env(FILE, &file).env(CONTROL, control.name()).stdin(Stdio::null()).stdout(Stdio::piped());

    let killed = tokio::task::spawn_blocking(move || kill_while_it_thinks(command.spawn()?));
    let mut others = JoinSet::new();
    for number in [1, 2] {
        let name = format!("{}-agent-{number}", control.name());
        let client = coordinator.client(name).connect().await?;
        let mut agent = agent(client, &file, Mind::new(seed + number, THINK))?;
        others.spawn(async move {
            let longest = work(&mut agent, control, tasks_of(number as usize)).await?;
            Ok::<_, Failure>((agent, longest))
        });
    }
    let killed = timeout(HANGS, killed).await???;
    let all: Vec<Task> = [1, 2, 3].into_iter().flat_map(tasks_of).collect();
    let left: Vec<Task> = tasks_of(3).into_iter().filter(|task| !killed.contains(&task.id)).collect();
    let (mut longest, mut free) = (Duration::ZERO, None);
    while let Some(ended) = timeout(HANGS, others.join_next()).await? {
        let (agent, its_longest) = ended??;
        longest = longest.max(its_longest);
        free = Some(agent);
    }
    // What it did not say to be done is done again. Where it had been written all the same, that is seen.
    let mut free = free.ok_or("nobody is left")?;
    let taken_over = left.len();
    longest = longest.max(timeout(HANGS, work(&mut free, control, left)).await??);
    let (lost, misplaced) = missing(&Memory::open(&file)?, &all)?;
    let (tasks, done_by_it) = (all.len(), killed.len());
    Ok(Crash { control, tasks, done_by_it, taken_over, lost: lost + misplaced, longest })
}

/// Reads what the agent says until it is at the task at which it is to be killed, and kills it. Returns what it
/// has said to be done.
fn kill_while_it_thinks(mut child: Child) -> Result<Vec<String>, Failure> {
    let said = child.stdout.take().ok_or("it cannot be heard")?;
    let (mut done, last) = (Vec::new(), tasks_of(3).remove(STUCK_AT).id);
    for line in BufReader::new(said).lines() {
        let line = line?;
        match line.split_once(' ') {
            Some(("done", id)) => done.push(id.to_owned()),
            Some(("thinks", id)) if id == last => break,
            _ => {}
        }
    }
    child.kill()?;
    child.wait()?;
    Ok(done)
}

/// Whether this process is to be the agent that is killed.
pub(crate) fn is_child() -> bool {
    env::var_os(FILE).is_some()
}

/// That agent. It finds the coordinator by what `PRECLAIM_ADDR` and `PRECLAIM_CA` say.
pub(crate) async fn child() -> Result<(), Failure> {
    let (file, control) = (env::var(FILE)?, env::var(CONTROL)?);
    let control = Control::named(&control).ok_or("no such control")?;
    let tasks = tasks_of(3);
    let client = Client::builder().name(format!("{}-agent-3", control.name())).connect().await?;
    let mind = Mind::new(3, THINK).stuck_at(tasks[STUCK_AT].id.clone());
    let mut agent = agent(client, Path::new(&file), mind)?;
    for task in tasks {
        agent.carry_out(&task, control).await?;
        println!("done {}", task.id);
    }
    Ok(())
}

fn agent(client: Client, file: &Path, mind: Mind) -> Result<Agent, Failure> {
    Ok(Agent { client, memory: Memory::open(file)?, mind, root: ROOT.to_owned() })
}

/// Tasks of agent `number`, all about the same.
fn tasks_of(number: usize) -> Vec<Task> {
    (1..=TASKS).map(|nth| Task::new(format!("agent-{number}/{nth}"), 0)).collect()
}

/// Does `tasks`, and says how long the longest took.
async fn work(agent: &mut Agent, control: Control, tasks: Vec<Task>) -> Result<Duration, Failure> {
    let mut longest = Duration::ZERO;
    for task in tasks {
        let begin = Instant::now();
        agent.carry_out(&task, control).await?;
        longest = longest.max(begin.elapsed());
    }
    Ok(longest)
}
