//! Robots that would meet: four drones ordered to one point, two robots at a one-lane bridge, an idle one
//! that blocks a lane, and a lift that takes three.
//!
//! ```text
//! cargo run --release --example robots
//! ```
//!
//! What to copy is in agent.rs. world.rs is about motion and shapes, yard.rs gives the orders, measure.rs
//! counts slots, account.rs prints.

mod account;
pub(crate) mod agent;
mod measure;
#[path = "../story/mod.rs"]
mod story;
pub(crate) mod world;
pub(crate) mod yard;

use std::io::{self, Write};

use account::Account;
use story::{Failure, Options};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let options = Options::from_args(&["full", "markdown"], &["seed", "rounds"])?;
    let rounds = options.number("rounds", if options.has("full") { 20 } else { 3 });
    run(options.number("seed", 1), rounds, options.has("markdown"), &mut io::stdout()).await
}

/// Gives the orders so many times and prints what happened; fails where that is not what it is to show.
pub(crate) async fn run(
    seed: u64,
    rounds: u64,
    markdown: bool,
    out: &mut (impl Write + Send),
) -> Result<(), Failure> {
    let mut account = Account::default();
    for round in seed..seed + rounds.max(1) {
        let round = yard::round(round).await?;
        if account.is_empty() {
            account::tell(&round, out)?;
        }
        account.add(round);
    }
    account.sum_up(markdown, out)?;
    account.check()
}
