//! One run: a coordinator, the way to it, agents that declare by the clock, and what came of it.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use preclaim::client::{ClientBuilder, Tuning};
use preclaim::coordinator::{Coordinator, CoordinatorConfig, Running};
use preclaim::resolver::Rules;
use preclaim::{Client, Intent, Outcome, path};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::udp_proxy::{Faults, Link, Proxy};

pub(crate) type Failed = Box<dyn Error + Send + Sync>;

/// How long each claim is for: a declaration that was lost twice is decided before its own grant is over.
const CLAIM: Duration = Duration::from_secs(2);
/// Paths that one agent goes round: more than it declares while a claim lasts.
const PATHS: u64 = 4096;

/// What agents do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) agents: u32,
    /// How often each declares, a second.
    pub(crate) rate: u32,
    /// How much at a time.
    pub(crate) burst: u32,
    /// Declared and not counted: round trips are learnt meanwhile.
    pub(crate) warmup: Duration,
    pub(crate) measured: Duration,
}

/// What stands between an agent and the coordinator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Straight,
    /// Through the proxy, which treats both ways alike.
    Proxy {
        delay: Duration,
        loss: f64,
    },
}

/// What both ends do about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ends {
    pub(crate) coordinator: Tuning,
    pub(crate) agent: Tuning,
    /// `None` is as many as the client takes by itself.
    pub(crate) lanes: Option<usize>,
}

/// What came of one run, or of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Came {
    pub(crate) declared: u64,
    /// From the instant that each was due until its decision was told, in µs.
    pub(crate) decided: Vec<u64>,
    /// Without a decision, and why the last one of them.
    pub(crate) without: u64,
    pub(crate) why: Option<String>,
    /// Datagrams at the proxy, both ways, and how many of them it lost.
    pub(crate) datagrams: u64,
    pub(crate) lost: u64,
    /// Processor time of both ends, the load and the proxy.
    pub(crate) processor: Duration,
}

impl Came {
    fn count(&mut self, decided: Result<(), String>, took: Duration) {
        self.declared += 1;
        match decided {
            Ok(()) => self.decided.push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
            Err(why) => {
                self.without += 1;
                self.why = Some(why);
            }
        }
    }

    pub(crate) fn add(&mut self, other: Came) {
        self.declared += other.declared;
        self.decided.extend(other.decided);
        self.without += other.without;
        self.why = other.why.or(self.why.take());
        self.datagrams += other.datagrams;
        self.lost += other.lost;
        self.processor += other.processor;
    }
}

/// A coordinator of this process and the way to it. The runtime ends first.
pub(crate) struct Place {
    pub(crate) runtime: Runtime,
    running: Running,
    proxy: Option<Proxy>,
    ends: Ends,
}

impl Place {
    pub(crate) fn open(way: Way, ends: Ends, seed: u64) -> Result<Self, Failed> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let entered = runtime.enter();
        let config = CoordinatorConfig::in_memory(Rules::default())?;
        let running = Coordinator::bind_tuned(config, &ends.coordinator)?.spawn();
        drop(entered);
        let proxy = match way {
            Way::Straight => None,
            Way::Proxy { delay, loss } => {
                let proxy = Proxy::start(running.local_addr(), seed)?;
                proxy.set(Faults::both(Link { delay, loss, ..Link::default() }));
                Some(proxy)
            }
        };
        Ok(Place { runtime, running, proxy, ends })
    }

    pub(crate) fn client(&self, name: u32) -> ClientBuilder {
        let addr: SocketAddr = self.proxy.as_ref().map_or(self.running.local_addr(), Proxy::addr);
        let builder = Client::builder()
            .addr(addr)
            .server_name("localhost")
            .ca_der(self.running.certificate())
            .name(format!("agent-{name}"))
            .tuning(self.ends.agent);
        match self.ends.lanes {
            Some(lanes) => builder.lanes(lanes),
            None => builder,
        }
    }

    /// Datagrams that came to the proxy, and those that it lost.
    fn datagrams(&self) -> (u64, u64) {
        self.proxy.as_ref().map_or((0, 0), |proxy| {
            let counters = proxy.counters();
            (counters.arrived, counters.lost + counters.overflowed)
        })
    }

    pub(crate) fn close(self) -> Result<(), Failed> {
        let Place { runtime, running, .. } = self;
        runtime.block_on(running.stop())?;
        runtime.shutdown_timeout(Duration::from_secs(1));
        Ok(())
    }
}

/// Runs `load` once.
pub(crate) fn run(load: &Load, way: Way, ends: Ends, seed: u64) -> Result<Came, Failed> {
    let place = Place::open(way, ends, seed)?;
    let clients: Vec<Client> = place.runtime.block_on(async {
        let mut connecting = JoinSet::new();
        for agent in 0..load.agents {
            connecting.spawn(place.client(agent).connect_within(Duration::from_secs(30)));
        }
        connecting.join_all().await.into_iter().collect::<Result<_, _>>()
    })?;
    let mut came = place.runtime.block_on(declare_all(&place, load, seed, &clients));
    let (datagrams, lost) = place.datagrams();
    came.datagrams = datagrams - came.datagrams;
    came.lost = lost - came.lost;
    place.runtime.block_on(async {
        let closing: JoinSet<()> =
            clients.into_iter().map(|client| async move { client.close().await }).collect();
        closing.join_all().await;
    });
    place.close()?;
    Ok(came)
}

/// All agents' declarations, from the first that is due until the last is decided. What the proxy and the
/// processor had done before those that count stands where what they did since will.
async fn declare_all(place: &Place, load: &Load, seed: u64, clients: &[Client]) -> Came {
    let began = Instant::now() + Duration::from_millis(50);
    let counts_from = began + load.warmup;
    let came = Arc::new(Mutex::new(Came::default()));
    let mut agents = JoinSet::new();
    for (agent, client) in clients.iter().enumerate() {
        let phase = (seed.wrapping_mul(31) + agent as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11;
        let phase = (Duration::from_secs(1) / load.rate).mul_f64(phase as f64 / (1_u64 << 53) as f64);
        let schedule = Schedule { first: began + phase, counts_from, load: *load };
        agents.spawn(one_agent(client.clone(), agent, schedule, Arc::clone(&came)));
    }
    tokio::time::sleep_until(counts_from.into()).await;
    let (before, busy) = (place.datagrams(), processor_time());
    agents.join_all().await;
    let processor = processor_time().saturating_sub(busy);
    let came = std::mem::take(&mut *came.lock().unwrap_or_else(PoisonError::into_inner));
    Came { datagrams: before.0, lost: before.1, processor, ..came }
}

struct Schedule {
    first: Instant,
    counts_from: Instant,
    load: Load,
}

/// Declares when it is due, whether or not what went before was answered.
async fn one_agent(client: Client, agent: usize, schedule: Schedule, came: Arc<Mutex<Came>>) {
    let Schedule { first, counts_from, load } = schedule;
    let until = counts_from + load.measured;
    let period = Duration::from_secs(1) / load.rate;
    let mut under_way = JoinSet::new();
    let dues = (0_u32..).map(|number| (number, first + period * number));
    for (number, due) in dues.take_while(|(_, due)| *due < until) {
        tokio::time::sleep_until(due.into()).await;
        for number in number * load.burst..(number + 1) * load.burst {
            let (client, came) = (client.clone(), Arc::clone(&came));
            under_way.spawn(async move {
                let decided = one(&client, agent, u64::from(number)).await;
                let took = due.elapsed();
                if due >= counts_from {
                    came.lock().unwrap_or_else(PoisonError::into_inner).count(decided, took);
                }
            });
        }
        while under_way.try_join_next().is_some() {}
    }
    under_way.join_all().await;
}

async fn one(client: &Client, agent: usize, number: u64) -> Result<(), String> {
    let place = path(&format!("agent-{agent}/{}", number % PATHS)).map_err(|error| error.to_string())?;
    match client.declare(Intent::asap().claim(place.exclusive(), CLAIM)).await {
        Ok(Outcome::Granted(grant)) => {
            // It runs to its end: a release would be one more packet, by which a loss shows sooner.
            grant.detach();
            Ok(())
        }
        Ok(other) => Err(format!("not granted: {other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
