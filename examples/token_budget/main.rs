//! A budget that agents overspend, a rate limit that they run into, and a cap that does not hold: without and with
//! preclaim.
//!
//! ```text
//! cargo run --release --example token_budget
//! cargo run --release --example token_budget -- --full --markdown
//! ```
//!
//! What to copy is in agent.rs, all that uses preclaim. bare.rs is the same without, world.rs the model, the
//! provider and the books, account.rs the figures.

mod account;
pub(crate) mod agent;
mod bare;
#[path = "../story/mod.rs"]
mod story;
pub(crate) mod world;

use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use preclaim::coordinator::Running;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

pub(crate) use account::{Account, Budget, Cap, FanOut};
use agent::Agent;
pub(crate) use story::Failure;
use story::{Dice, Options};
use world::{Book, Limits, Model, Provider};

/// A call may cost so much, at first; later an agent asks for less.
pub(crate) const MOST: u64 = 100;
/// Less is not worth a call.
const LEAST: u64 = 10;
/// The period of the budgets: longer than the story.
const PERIOD: Duration = Duration::from_secs(600);
/// Nothing hangs.
const HANGS: Duration = Duration::from_secs(60);

/// How much is done.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub(crate) limits: Limits,
    /// Agents that spend the budget.
    pub(crate) agents: u64,
    /// Calls that would be made at once.
    pub(crate) calls: u64,
    /// Requests of `cents` each.
    pub(crate) requests: u64,
    pub(crate) cents: u64,
    /// How often all of it is done, each from a seed of its own; the median is shown.
    pub(crate) runs: u64,
    pub(crate) seed: u64,
}

impl Scale {
    fn read(options: &Options) -> Result<Self, Failure> {
        let or = |short, full| if options.has("full") { full } else { short };
        let scale = Scale {
            limits: Limits {
                budget: options.number("budget", 1000),
                cap_cents: options.number("cap-cents", 500),
                calls: options.number("calls-a-minute", 10),
                tokens: options.number("tokens-a-minute", 6000),
            },
            agents: options.number("agents", 8),
            calls: options.number("calls", 40),
            requests: options.number("requests", 1000),
            cents: options.number("cents", 10),
            runs: options.number("runs", or(1, 10)),
            seed: options.number("seed", 1),
        };
        let some = [scale.limits.calls, scale.agents, scale.calls, scale.requests, scale.cents, scale.runs];
        match some.into_iter().all(|number| (1..=1000).contains(&number)) && scale.limits.tokens >= 1000 {
            true => Ok(scale),
            false => Err("numbers from 1 to 1000, and 1000 tokens a minute at least".into()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let keys = [
        "budget",
        "cap-cents",
        "calls-a-minute",
        "tokens-a-minute",
        "agents",
        "calls",
        "requests",
        "cents",
        "runs",
        "seed",
    ];
    let options = Options::from_args(&["full", "markdown"], &keys)?;
    let scale = Scale::read(&options)?;
    let account = measure(&scale).await?;
    account.tell(options.has("markdown"), &mut io::stdout())?;
    io::stdout().flush()?;
    account.check()
}

/// Does all of it, and says what came of it.
pub(crate) async fn measure(scale: &Scale) -> Result<Account, Failure> {
    let mut account = Account::new(scale.clone());
    for seed in scale.seed..scale.seed + scale.runs {
        account.budget.push(budgets(scale, seed).await?);
        account.fan_out.push(fan_outs(scale, seed).await?);
        account.cap.push(caps(scale, seed).await?);
    }
    Ok(account)
}

/// A budget without and with preclaim. Each part has a coordinator of its own: the budgets are whole.
pub(crate) async fn budgets(scale: &Scale, seed: u64) -> Result<[Budget; 2], Failure> {
    let coordinator = agent::coordinator(&scale.limits)?;
    let agents = agents(&coordinator, scale.agents).await?;
    let budgets = [bare_budget(scale, seed).await?, budget(scale, &agents, seed).await?];
    coordinator.stop().await?;
    Ok(budgets)
}

/// Calls that would be made at once, without and with preclaim.
pub(crate) async fn fan_outs(scale: &Scale, seed: u64) -> Result<[FanOut; 2], Failure> {
    let coordinator = agent::coordinator(&scale.limits)?;
    let agents = agents(&coordinator, scale.agents).await?;
    let fan_outs = [bare_fan_out(scale, seed).await?, fan_out(scale, &agents, seed).await?];
    coordinator.stop().await?;
    Ok(fan_outs)
}

/// Requests for a cap, without and with preclaim.
pub(crate) async fn caps(scale: &Scale, seed: u64) -> Result<[Cap; 2], Failure> {
    let coordinator = agent::coordinator(&scale.limits)?;
    let agents = agents(&coordinator, scale.agents).await?;
    let caps = [bare_cap(scale, seed).await?, cap(scale, &agents, seed).await?];
    coordinator.stop().await?;
    Ok(caps)
}

async fn agents(coordinator: &Running, count: u64) -> Result<Vec<Agent>, Failure> {
    let mut agents = Vec::new();
    for number in 1..=count {
        let client = coordinator.client(format!("agent-{number}")).connect().await?;
        let period_end = client.coordinator_time().0 + PERIOD;
        agents.push(Agent { client, period_end });
    }
    // One period for all.
    let period_end = agents.first().ok_or("no agents")?.period_end;
    agents.iter_mut().for_each(|agent| agent.period_end = period_end);
    Ok(agents)
}

/// Waits for all of `works`, which run at once.
async fn all<T: Send + 'static>(
    works: impl Iterator<Item = impl Future<Output = Result<T, Failure>> + Send + 'static>,
) -> Result<Vec<T>, Failure> {
    let works: JoinSet<_> = works.collect();
    timeout(HANGS, works.join_all()).await?.into_iter().collect()
}

fn dice(seed: u64, number: u64) -> Dice {
    Dice::new((seed << 32) + number)
}

/// How long an agent thinks before a call.
fn thought(dice: &mut Dice) -> Duration {
    Duration::from_millis(20) + dice.up_to(Duration::from_millis(20))
}

/// Each agent calls for as long as it is let, and asks for half as much where there is not enough.
async fn bare_budget(scale: &Scale, seed: u64) -> Result<Budget, Failure> {
    let (book, model) = (Arc::new(Book::default()), Arc::new(Model::default()));
    let budget = scale.limits.budget;
    let works = (0..scale.agents).map(|number| {
        let (book, model, mut dice) = (Arc::clone(&book), Arc::clone(&model), dice(seed, number));
        async move {
            let mut most = MOST;
            while most >= LEAST {
                let think = thought(&mut dice);
                let call = async || model.answer(most, &mut dice).await;
                if bare::spend(&book, budget, most, think, call).await.is_none() {
                    most /= 2;
                }
            }
            Ok(())
        }
    });
    all(works).await?;
    Ok(Budget::new(&model, book.read()))
}

async fn budget(scale: &Scale, agents: &[Agent], seed: u64) -> Result<Budget, Failure> {
    let model = Arc::new(Model::default());
    let works = agents.iter().cloned().zip(0..).map(|(agent, number)| {
        let (model, mut dice) = (Arc::clone(&model), dice(seed, number));
        async move {
            let mut most = MOST;
            while most >= LEAST {
                let think = thought(&mut dice);
                let call = async || model.answer(most, &mut dice).await;
                if agent.spend(most, think, call).await?.is_none() {
                    most /= 2;
                }
            }
            Ok(())
        }
    });
    all(works).await?;
    let first = agents.first().ok_or("no agents")?;
    let claimed = first.claimed().await?;
    if !first.next_period_is_whole(scale.limits.budget).await? {
        return Err("something of this period's is claimed in the next".into());
    }
    Ok(Budget::new(&model, claimed))
}

/// How many tokens each call of a fan-out takes.
fn sizes(scale: &Scale, seed: u64) -> Vec<u64> {
    let mut dice = dice(seed, 1 << 20);
    (0..scale.calls).map(|_| 200 + dice.below(801)).collect()
}

async fn bare_fan_out(scale: &Scale, seed: u64) -> Result<FanOut, Failure> {
    let provider = Arc::new(Provider::new(scale.limits));
    let begin = Instant::now();
    let works = sizes(scale, seed).into_iter().zip(0..).map(|(tokens, number)| {
        let (provider, mut dice) = (Arc::clone(&provider), dice(seed, number));
        async move {
            bare::call(&provider, tokens, &mut dice).await;
            Ok(())
        }
    });
    all(works).await?;
    Ok(FanOut::new(&provider, begin))
}

async fn fan_out(scale: &Scale, agents: &[Agent], seed: u64) -> Result<FanOut, Failure> {
    let provider = Arc::new(Provider::new(scale.limits));
    let begin = Instant::now();
    let works = sizes(scale, seed).into_iter().zip(agents.iter().cycle().cloned()).map(|(tokens, agent)| {
        let provider = Arc::clone(&provider);
        async move {
            let called = agent.call(tokens, async || provider.call(tokens)).await?;
            called.map_err(|_| Failure::from("the provider refused a call in its turn"))
        }
    });
    all(works).await?;
    Ok(FanOut::new(&provider, begin))
}

/// When each request comes: all of them within 400 ms.
fn comes(dice: &mut Dice) -> Duration {
    dice.up_to(Duration::from_millis(400))
}

async fn bare_cap(scale: &Scale, seed: u64) -> Result<Cap, Failure> {
    let book = Arc::new(Book::default());
    let (cap, cents) = (scale.limits.cap_cents, scale.cents);
    let works = (0..scale.requests).map(|number| {
        let (book, mut dice) = (Arc::clone(&book), dice(seed, number));
        async move {
            sleep(comes(&mut dice)).await;
            Ok(bare::pay(&book, cap, cents, thought(&mut dice)).await)
        }
    });
    Ok(Cap::of(all(works).await?))
}

async fn cap(scale: &Scale, agents: &[Agent], seed: u64) -> Result<Cap, Failure> {
    let cents = scale.cents;
    let works = agents.iter().cycle().cloned().zip(0..scale.requests).map(|(agent, number)| {
        let mut dice = dice(seed, number);
        async move {
            sleep(comes(&mut dice)).await;
            let paid = agent.pay(cents).await?;
            sleep(thought(&mut dice)).await;
            Ok(paid)
        }
    });
    Ok(Cap::of(all(works).await?))
}
