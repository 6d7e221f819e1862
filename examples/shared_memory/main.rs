//! Three agents change the documents of one memory: who undoes whose work, and what it costs to keep them from it.
//!
//! ```text
//! cargo run --release --example shared_memory
//! cargo run --release --example shared_memory -- --full --markdown
//! ```
//!
//! What to copy is in agent.rs: claims held while thinking, and `expects`. memory.rs is the database, mind.rs
//! what stands for a language model, team.rs the work and what came of it, crash.rs kills an agent, tell.rs prints.

mod agent;
mod crash;
mod memory;
mod mind;
#[path = "../story/mod.rs"]
mod story;
mod team;
mod tell;

use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

use preclaim::Client;
use tokio::task::JoinSet;

use memory::Scratch;
pub(crate) use story::Failure;
use team::{Control, Score, Work};
use tell::Table;

/// How likely two agents want the same document at the same time.
const RATES: [f64; 6] = [0.0, 0.05, 0.10, 0.15, 0.25, 0.50];

/// What can be chosen: `--agents 3 --period-ms 2000 --think-ms 60 --runs 1 --seed 1`, `--full`, `--markdown`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// How many agents are in a team.
    agents: usize,
    /// How long each run takes new tasks.
    period: Duration,
    /// How long an agent thinks, give or take a half.
    think: Duration,
    /// Runs of each kind, each from a seed of its own; the median is shown.
    runs: u64,
    seed: u64,
    /// Prints the table of docs/STORIES.md alone.
    markdown: bool,
}

impl Options {
    fn of(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let (period, think) = (Duration::from_millis(2000), Duration::from_millis(60));
        let mut options = Options { agents: 3, period, think, runs: 1, seed: 1, markdown: false };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--markdown" => options.markdown = true,
                "--full" => (options.period, options.runs) = (Duration::from_secs(10), 5),
                key => {
                    let value: u64 = words.next().ok_or_else(|| format!("{key} what?"))?.parse()?;
                    match key {
                        "--agents" => options.agents = usize::try_from(value)?,
                        "--period-ms" => options.period = Duration::from_millis(value),
                        "--think-ms" => options.think = Duration::from_millis(value),
                        "--runs" => options.runs = value,
                        "--seed" => options.seed = value,
                        _ => return Err(format!("{key} is nothing that can be chosen").into()),
                    }
                }
            }
        }
        Ok(options)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // The agent that is killed is a process of its own: this program, started by itself.
    if crash::is_child() {
        return crash::child().await;
    }
    let options = Options::of(std::env::args().skip(1))?;
    tell(options, &mut io::stdout()).await
}

async fn tell(options: Options, out: &mut (impl Write + Send)) -> Result<(), Failure> {
    let coordinator = agent::coordinator()?;
    if !options.markdown {
        tell::introduce(options, out)?;
    }
    let mut clients = Vec::new();
    for name in 0..options.agents * Control::ALL.len() {
        clients.push(coordinator.client(format!("agent-{}", name + 1)).connect().await?);
    }
    let mut table = Table::default();
    for rate in RATES {
        for seed in options.seed..options.seed + options.runs {
            let work = Work { conflict_rate: rate, period: options.period, think: options.think, seed };
            for (control, score) in all_controls(&clients, options.agents, work).await? {
                table.add(rate, control, score);
            }
        }
        if !options.markdown {
            table.tell_rate(rate, out)?;
        }
    }
    if options.markdown {
        return Ok(table.markdown(out)?);
    }
    table.conclude(out)?;
    for control in [Control::Document, Control::Expects] {
        let itself = Command::new(std::env::current_exe()?);
        let crash = crash::crash(&coordinator, control, itself, options.seed).await?;
        tell::crash(&crash, out)?;
        crash.check()?;
    }
    coordinator.stop().await?;
    table.check()
}

/// Five teams side by side, each with a memory of its own, so that what the machine is busy with slows them all.
async fn all_controls(
    clients: &[Client],
    agents: usize,
    work: Work,
) -> Result<Vec<(Control, Score)>, Failure> {
    let mut teams = JoinSet::new();
    for (control, team) in Control::ALL.into_iter().zip(clients.chunks(agents)) {
        let team = team.to_vec();
        teams.spawn(async move {
            let scratch = Scratch::new()?;
            let score = team::run(&team, control, work, &scratch.file("memory.sqlite")).await?;
            Ok::<_, Failure>((control, score))
        });
    }
    teams.join_all().await.into_iter().collect()
}
