//! Who waits for whom: rings that are found, turns that come round, and actions that do not add up.
//!
//! ```text
//! cargo run --release --example deadlock
//! cargo run --release --example deadlock -- --full --markdown
//! ```
//!
//! What to copy is in agents.rs, all that uses preclaim. locks.rs is the same without, world.rs what is worked
//! with, account.rs the figures.

mod account;
mod agents;
mod locks;
#[path = "../story/mod.rs"]
mod story;
mod world;

use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use preclaim::Client;
use preclaim::coordinator::Running;
use tokio::sync::{Barrier, Mutex, Semaphore};
use tokio::task::JoinSet;

pub(crate) use account::{Account, PRECLAIM, Sum};
use agents::Acted;
pub(crate) use story::Failure;
use story::{Dice, Options};
use world::{ACTIONS, Ring, Turns, Valve};

/// How much is done.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    /// Agents in a ring.
    pub(crate) ring: usize,
    /// Rings, and pairs of actions.
    pub(crate) rounds: u64,
    /// N, of N + 2 agents.
    pub(crate) resources: u64,
    /// Turns of all agents together.
    pub(crate) turns: u64,
    pub(crate) seed: u64,
}

impl Scale {
    fn read(options: &Options) -> Result<Self, Failure> {
        let full = options.has("full");
        let or = |short, long| if full { long } else { short };
        let ring = usize::try_from(options.number("ring", 2))?;
        let scale = Scale {
            ring,
            rounds: options.number("rounds", or(20, 200)),
            resources: options.number("resources", 4),
            turns: options.number("turns", or(300, 3000)),
            seed: options.number("seed", 1),
        };
        match (2..=64).contains(&ring) && (1..=64).contains(&scale.resources) {
            true => Ok(scale),
            false => Err("a ring is of 2 to 64 agents, and there are 1 to 64 resources".into()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let keys = ["ring", "rounds", "resources", "turns", "seed"];
    let options = Options::from_args(&["full", "markdown"], &keys)?;
    let account = measure(&Scale::read(&options)?).await?;
    account.print(&mut io::stdout(), options.has("markdown"))?;
    account.check()?;
    writeln!(
        io::stdout(),
        "Each ring was told to one agent alone, nobody starved, and no two actions added up."
    )?;
    Ok(())
}

pub(crate) async fn measure(scale: &Scale) -> Result<Account, Failure> {
    let coordinator = agents::coordinator(scale.resources)?;
    let agents = scale.ring.max(usize::try_from(scale.resources)? + 2);
    let clients = agents::connect(&coordinator, agents).await?;
    let account = Account {
        ring_size: scale.ring,
        rounds: scale.rounds,
        resources: scale.resources,
        mutexes: ring_of_mutexes(scale).await?,
        leases: ring_of_leases(scale, &clients).await?,
        intents: ring_of_intents(scale, &clients).await?,
        turns: turns(scale, &clients).await?,
        sums: sums(scale, &coordinator).await?,
    };
    coordinator.stop().await?;
    Ok(account)
}

/// Runs `agent` for each of `agents` at once, to the end of all.
async fn all<F>(agents: usize, agent: impl Fn(usize) -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let mut running: JoinSet<_> = (0..agents).map(agent).collect();
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

async fn ring_of_mutexes(scale: &Scale) -> Result<Ring, Failure> {
    let ring = Arc::new(Ring::default());
    for round in 0..scale.rounds {
        let things: Arc<Vec<Mutex<()>>> = Arc::new((0..scale.ring).map(|_| Mutex::new(())).collect());
        let (meet, begun) = (Arc::new(Barrier::new(scale.ring)), Instant::now());
        all(scale.ring, |agent| {
            let (ring, things, meet) = (Arc::clone(&ring), Arc::clone(&things), Arc::clone(&meet));
            let dice = Dice::new(scale.seed.wrapping_add(round << 8).wrapping_add(agent as u64));
            async move {
                let next = (agent + 1) % things.len();
                locks::two_mutexes([&things[agent], &things[next]], &meet, &ring, dice).await;
                Ok(())
            }
        })
        .await?;
        ring.round(begun.elapsed());
    }
    unshared(ring)
}

async fn ring_of_leases(scale: &Scale, clients: &[Client]) -> Result<Ring, Failure> {
    let ring = Arc::new(Ring::default());
    for _ in 0..scale.rounds {
        let (meet, begun, size) = (Arc::new(Barrier::new(scale.ring)), Instant::now(), scale.ring);
        all(size, |agent| {
            let (client, ring, meet) = (clients[agent].clone(), Arc::clone(&ring), Arc::clone(&meet));
            async move {
                let [one, other] = [agent, (agent + 1) % size].map(|thing| format!("thing/{thing}"));
                agents::two_leases(&client, [&one, &other], &meet, &ring).await
            }
        })
        .await?;
        ring.round(begun.elapsed());
    }
    unshared(ring)
}

async fn ring_of_intents(scale: &Scale, clients: &[Client]) -> Result<Ring, Failure> {
    let ring = Ring::default();
    for _ in 0..scale.rounds {
        let (begun, size) = (Instant::now(), scale.ring);
        all(size, |agent| {
            let client = clients[agent].clone();
            async move {
                let [one, other] = [agent, (agent + 1) % size].map(|thing| format!("thing/{thing}"));
                agents::one_intent(&client, [&one, &other]).await
            }
        })
        .await?;
        ring.round(begun.elapsed());
    }
    Ok(ring)
}

async fn turns(scale: &Scale, clients: &[Client]) -> Result<Vec<(&'static str, Turns)>, Failure> {
    let agents = usize::try_from(scale.resources)? + 2;
    let fresh = || Arc::new(Turns::new(agents, scale.turns, scale.seed));
    let pool = || Arc::new(Semaphore::new(agents - 2));

    let (tried, semaphore) = (fresh(), pool());
    all(agents, |agent| {
        let (pool, turns) = (Arc::clone(&semaphore), Arc::clone(&tried));
        async move {
            locks::try_turns(&pool, agent, &turns).await;
            Ok(())
        }
    })
    .await?;
    let (queued, semaphore) = (fresh(), pool());
    all(agents, |agent| {
        let (pool, turns) = (Arc::clone(&semaphore), Arc::clone(&queued));
        async move { locks::queue_for_turns(&pool, agent, &turns).await }
    })
    .await?;
    let granted = fresh();
    all(agents, |agent| {
        let (client, turns) = (clients[agent].clone(), Arc::clone(&granted));
        async move { agents::take_turns(&client, agent, &turns).await }
    })
    .await?;
    Ok(vec![
        ("try-lock, with growing pauses", unshared(tried)?),
        ("a queue in one process", unshared(queued)?),
        (PRECLAIM, unshared(granted)?),
    ])
}

async fn sums(scale: &Scale, coordinator: &Running) -> Result<Vec<Sum>, Failure> {
    let mut added = Sum { way: "the valve adds them up", ..Sum::default() };
    let mut overwritten = Sum { way: "read, work out, set", ..Sum::default() };
    for _ in 0..scale.rounds {
        let valve = Valve::new();
        locks::add_up(&valve, &ACTIONS).await;
        added.after(&valve);
        let valve = Valve::new();
        locks::last_wins(&valve, &ACTIONS).await;
        overwritten.after(&valve);
    }
    let mut decided = Sum { way: PRECLAIM, ..Sum::default() };
    let heating = coordinator.client(ACTIONS[0].who).connect().await?;
    let safety = coordinator.client(ACTIONS[1].who).connect().await?;
    while decided.stood.count() < usize::try_from(scale.rounds)? {
        decide(&mut decided, [&heating, &safety]).await?;
    }
    Ok(vec![added, overwritten, decided])
}

/// Both want to act at one moment, and ask.
async fn decide(sum: &mut Sum, clients: [&Client; 2]) -> Result<(), Failure> {
    let (valve, moment) = (Valve::new(), agents::soon(clients[0]));
    let (heats, cools) = tokio::join!(
        agents::act(clients[0], &valve, &ACTIONS[0], moment),
        agents::act(clients[1], &valve, &ACTIONS[1], moment),
    );
    let conflict = match (heats?, cools?) {
        // Once more: nothing has been done, or one alone was in time.
        (Acted::TooLate, _) | (_, Acted::TooLate) => return Ok(()),
        (Acted::AtThatMoment, Acted::Told(conflict)) | (Acted::Told(conflict), Acted::AtThatMoment) => {
            conflict
        }
        other => return Err(format!("not one granted and one told: {other:?}").into()),
    };
    sum.told += 1;
    sum.offered_the_end += u64::from(conflict.offer() == Some(moment + ACTIONS[0].takes_effect));
    sum.after(&valve);
    Ok(())
}

impl Sum {
    fn after(&mut self, valve: &Valve) {
        self.both_at_once += u64::from(valve.was_contended());
        self.stood.add(valve.open() as f64);
    }
}

/// What all tasks had a share of, once all have ended.
fn unshared<T>(shared: Arc<T>) -> Result<T, Failure> {
    Arc::try_unwrap(shared).map_err(|_| "a task has not ended".into())
}
