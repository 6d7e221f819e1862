//! Twenty agents edit one repository of two hundred files: with no control, under locks, and with claims
//! on the tree of its files, against the best that could be done.
//!
//! ```text
//! cargo run --release --example coding_agents
//! ```
//!
//! What to copy is in agent.rs. work.rs draws the jobs, repository.rs counts edits, ways.rs has the other
//! ways to do the same work, schedule.rs computes the ideal, account.rs prints.

mod account;
pub(crate) mod agent;
pub(crate) mod repository;
pub(crate) mod schedule;
#[path = "../story/mod.rs"]
mod story;
pub(crate) mod ways;
pub(crate) mod work;

use std::io::{self, Write};
use std::time::Duration;

use account::{Account, Round};
use preclaim::millis;
use schedule::ideal;
use story::{Failure, Options};
use ways::Way;
use work::{Load, plan};

/// What is run, how often, and what is asked of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) load: Load,
    /// As many times, each with a seed of its own.
    pub(crate) rounds: u64,
    /// The least throughput of preclaim, in percent of the ideal.
    pub(crate) goal: u64,
    /// What a claim is longer than its job should take.
    pub(crate) spare: Duration,
    pub(crate) markdown: bool,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let keys =
        ["seed", "agents", "jobs", "scale", "rounds", "loose", "goal", "think", "hold", "hot", "spare"];
    let options = Options::from_args(&["full", "markdown"], &keys)?;
    let full = options.has("full");
    let default = |short, long| if full { long } else { short };
    let load = Load {
        agents: options.number("agents", 20) as usize,
        jobs: options.number("jobs", default(6, 10)) as usize,
        seed: options.number("seed", 1),
        scale: options.number("scale", default(100, 50)).clamp(1, 10_000) as u32,
        loose: options.number("loose", 0),
        think: options.number("think", 30),
        hold: options.number("hold", 10),
        hot: options.number("hot", 3).clamp(1, 9) as i32,
    };
    let rounds = options.number("rounds", default(1, 3));
    let goal = options.number("goal", default(75, 90));
    let spare = millis(options.number("spare", 20));
    run(Plan { load, rounds, goal, spare, markdown: options.has("markdown") }, &mut io::stdout()).await
}

/// Runs it and prints what happened; fails where that is not what it is to show.
pub(crate) async fn run(what: Plan, out: &mut (impl Write + Send)) -> Result<(), Failure> {
    let mut account = Account::new(what);
    account.introduce(out)?;
    for round in 0..what.rounds {
        let load = Load { seed: what.load.seed + round, ..what.load };
        let jobs = plan(load);
        let mut runs = Vec::new();
        for way in Way::ALL {
            runs.push(way.run(&jobs, what.spare).await?);
        }
        account.add(Round { seed: load.seed, ideal: ideal(&jobs, load.seed), runs });
    }
    account.tell(out)?;
    account.check()
}
