//! Three agents change the documents of one memory: who undoes whose work, and what it costs to keep them from it.
//!
//! ```text
//! cargo run --release --example shared_memory
//! cargo run --release --example shared_memory -- --full --markdown
//! ```
//!
//! What to copy is in agent.rs: claims held while thinking, and `expects`. memory.rs is the database, mind.rs
//! what stands for a language model, team.rs the work and what came of it, crash.rs kills an agent, tell.rs prints.

pub(crate) mod agent;
pub(crate) mod crash;
pub(crate) mod memory;
mod mind;
#[path = "../story/mod.rs"]
mod story;
pub(crate) mod team;
mod tell;

use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

use preclaim::Client;
use tokio::task::JoinSet;

use crash::Crash;
use memory::Scratch;
pub(crate) use story::Failure;
use story::Options;
use team::{Control, Score, Work};
use tell::Account;

/// How likely two agents want the same document at the same time.
const RATES: [f64; 6] = [0.0, 0.05, 0.10, 0.15, 0.25, 0.50];

/// What can be chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// How many agents are in a team.
    pub(crate) agents: usize,
    /// How long each run takes new tasks.
    pub(crate) period: Duration,
    /// How long an agent thinks, give or take a half.
    pub(crate) think: Duration,
    /// Runs of each kind, each from a seed of its own; the median is shown.
    pub(crate) runs: u64,
    pub(crate) seed: u64,
}

impl Scale {
    fn read(options: &Options) -> Result<Self, Failure> {
        let or = |short, full| if options.has("full") { full } else { short };
        let scale = Scale {
            agents: usize::try_from(options.number("agents", 3))?,
            period: Duration::from_millis(options.number("period-ms", or(2000, 10_000))),
            think: Duration::from_millis(options.number("think-ms", 60)),
            runs: options.number("runs", or(1, 5)),
            seed: options.number("seed", 1),
        };
        match (1..=64).contains(&scale.agents) && scale.runs > 0 && !scale.period.is_zero() {
            true => Ok(scale),
            false => Err("1 to 64 agents, a run and a millisecond at least".into()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // The agent that is killed is a process of its own: this program, started by itself.
    if crash::is_child() {
        return crash::child().await;
    }
    let keys = ["agents", "period-ms", "think-ms", "runs", "seed"];
    let options = Options::from_args(&["full", "markdown"], &keys)?;
    tell(Scale::read(&options)?, options.has("markdown"), &mut io::stdout()).await
}

/// Runs all of it and prints what came of it; fails where that is not what it is to show.
async fn tell(scale: Scale, markdown: bool, out: &mut (impl Write + Send)) -> Result<(), Failure> {
    let coordinator = agent::coordinator()?;
    if !markdown {
        tell::introduce(&scale, out)?;
    }
    let mut clients = Vec::new();
    for number in 1..=scale.agents * Control::ALL.len() {
        clients.push(coordinator.client(format!("agent-{number}")).connect().await?);
    }
    let mut account = Account::default();
    for rate in RATES {
        for seed in scale.seed..scale.seed + scale.runs {
            let work = Work { conflict_rate: rate, period: scale.period, think: scale.think, seed };
            for (control, score) in all_controls(&clients, scale.agents, work).await? {
                account.add(rate, control, score);
            }
        }
    }
    account.tell(markdown, out)?;
    let mut crashes = Vec::new();
    for control in [Control::Document, Control::Expects] {
        let itself = Command::new(std::env::current_exe()?);
        crashes.push(crash::crash(&coordinator, control, itself, scale.seed).await?);
    }
    tell::crashes(&crashes, markdown, out)?;
    coordinator.stop().await?;
    crashes.iter().try_for_each(Crash::check)?;
    account.check()
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
