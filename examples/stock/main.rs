//! One item in two regional pools, and more who want it than there are: sold in four ways, under load and with agents
//! that die or stall in the midst of a sale.
//!
//! ```text
//! cargo run --release --example stock
//! cargo run --release --example stock -- --full --markdown
//! ```
//!
//! What to copy is in reserve.rs, all that uses preclaim. without.rs is the same without, store.rs the store's books,
//! world.rs who comes to buy, window.rs the shop window, account.rs and tell.rs the figures.

mod account;
mod breaker;
mod redis;
mod reserve;
mod store;
#[path = "../story/mod.rs"]
mod story;
mod tell;
mod window;
mod without;
mod world;

use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;

use preclaim::Client;
use preclaim::coordinator::{Operator, Running};
use tokio::task::JoinSet;

pub(crate) use account::{Account, Answer};
use breaker::Breaker;
use store::{Counter, Units};
pub(crate) use story::Failure;
use story::Options;
use window::Window;
use without::Plain;
pub(crate) use without::{Guard, Lock};
pub(crate) use world::Scale;
use world::{Link, Queues, REGIONS, Shopper};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let options = Options::from_args(&["full", "markdown"], &world::KEYS)?;
    let scale = Scale::read(&options)?;
    let out = &mut io::stdout();
    let lock = Lock::new()?;
    tell::introduce(&scale, &lock, out)?;
    let unguarded = without(&scale, "read, then write", Guard::Nothing).await?;
    let locked = without(&scale, "a lock that expires", Guard::Lock(lock)).await?;
    let decremented = without(&scale, "the store's decrement", Guard::Decrement).await?;
    let reserved = with(&scale).await?;
    tell::tell(&[&unguarded, &locked, &decremented, &reserved], &reserved, out, options.has("markdown"))?;
    reserved.check_with()?;
    match unguarded.oversold() > 0 && locked.oversold() > 0 {
        true => {
            Ok(writeln!(out, "Nothing was sold that was not there, where it was reserved with preclaim.")?)
        }
        false => Err("without preclaim nothing was oversold: there is no effect to show".into()),
    }
}

/// Serves shoppers of one region, one after another.
trait Agent {
    fn serve(&mut self, shopper: &Shopper) -> impl Future<Output = Result<Answer, Failure>> + Send;

    /// What the shop window shows.
    fn chance(&self, region: usize) -> Option<f64>;
}

/// Lets the agents serve all shoppers.
async fn open<A: Agent + Send + 'static>(
    account: &Arc<Account>,
    scale: &Scale,
    agents: Vec<(usize, A)>,
) -> Result<(), Failure> {
    let queues = Arc::new(Queues::new(scale));
    let mut serving = JoinSet::new();
    for (region, mut agent) in agents {
        let (account, queues) = (Arc::clone(account), Arc::clone(&queues));
        serving.spawn(async move {
            while let Some(shopper) = queues.next(region).await {
                account.comes(region);
                let shown = agent.chance(region);
                let answer = agent.serve(&shopper).await?;
                // From when the shopper came, be it that all agents were busy.
                account.answered(region, answer, (queues.begin + shopper.comes).elapsed(), shown);
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(ended) = serving.join_next().await {
        ended??;
    }
    Ok(())
}

/// The name and the region of each agent.
fn names(scale: &Scale) -> impl Iterator<Item = (usize, String)> {
    let agents = scale.agents;
    (0..REGIONS.len())
        .flat_map(move |region| (0..agents).map(move |it| (region, format!("{}-{it}", REGIONS[region]))))
}

/// Both pools, and all that agents of either region share.
struct Shop {
    units: Units,
    link: Link,
    breakers: [Breaker; 2],
    window: Window,
    account: Arc<Account>,
    scale: Scale,
    /// The shop is an agent too: it looks at what is reserved, and knows the coordinator's time.
    client: Client,
    operator: Operator,
    /// One sale at a time, so that capacities are set in the order of the sales.
    settling: tokio::sync::Mutex<()>,
}

struct WithPreclaim {
    shop: Arc<Shop>,
    coordinator: Arc<Running>,
    client: Client,
}

impl Agent for WithPreclaim {
    async fn serve(&mut self, shopper: &Shopper) -> Result<Answer, Failure> {
        let answer = self.shop.buy(&self.client, shopper).await?;
        if answer == Answer::Died {
            // Started again, under its name; it knows nothing of what it had.
            self.client = self.coordinator.client(self.client.name()).connect().await?;
        }
        Ok(answer)
    }

    fn chance(&self, region: usize) -> Option<f64> {
        Some(self.shop.window.chance(region))
    }
}

/// Sells with preclaim.
pub(crate) async fn with(scale: &Scale) -> Result<Arc<Account>, Failure> {
    let coordinator = Arc::new(reserve::coordinator(scale)?);
    let account = Arc::new(Account::new("preclaim", scale.pools));
    let shop = Arc::new(Shop {
        units: Units::new(scale.pools)?,
        link: Link::new(scale),
        breakers: [Breaker::default(), Breaker::default()],
        window: Window::new(),
        account: Arc::clone(&account),
        scale: scale.clone(),
        client: coordinator.client("shop").connect().await?,
        operator: coordinator.operator().clone(),
        settling: tokio::sync::Mutex::default(),
    });
    let mut agents = Vec::new();
    for (region, name) in names(scale) {
        let client = coordinator.client(name).connect().await?;
        let (shop, coordinator) = (Arc::clone(&shop), Arc::clone(&coordinator));
        agents.push((region, WithPreclaim { shop, coordinator, client }));
    }
    tokio::select! {
        ended = open(&account, scale, agents) => ended?,
        failed = shop.follow_sales() => failed?,
    }
    account.left(shop.units.left(0)? + shop.units.left(1)?);
    drop(shop);
    Arc::into_inner(coordinator).ok_or("an agent has not ended")?.stop().await?;
    Ok(account)
}

struct WithoutPreclaim {
    name: String,
    plain: Arc<Plain>,
}

impl Agent for WithoutPreclaim {
    async fn serve(&mut self, shopper: &Shopper) -> Result<Answer, Failure> {
        self.plain.buy(&self.name, shopper).await
    }

    fn chance(&self, _region: usize) -> Option<f64> {
        None
    }
}

/// Sells without preclaim.
pub(crate) async fn without(scale: &Scale, way: &'static str, guard: Guard) -> Result<Arc<Account>, Failure> {
    let account = Arc::new(Account::new(way, scale.pools));
    let (counter, link) = (Counter::new(scale.pools)?, Link::new(scale));
    let plain = Arc::new(Plain { counter, link, guard, scale: scale.clone() });
    let agents =
        names(scale).map(|(region, name)| (region, WithoutPreclaim { name, plain: Arc::clone(&plain) }));
    open(&account, scale, agents.collect()).await?;
    account.left((plain.counter.read(0)? + plain.counter.read(1)?).try_into()?);
    Ok(account)
}
