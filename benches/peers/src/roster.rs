//! Who takes part in what, and how each is started and asked.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use preclaim::millis;
use tokio::time::sleep;

use crate::Failure;
use crate::claims::{Claims, Manner, Place};
use crate::drive::{Agent, Spans, Tally, Watched, book, hold};
use crate::etcd::{EtcdLock, EtcdTxn};
use crate::fifo::Fifo;
use crate::options::Options;
use crate::postgres::{self, Advisory, Exclusion};
use crate::redis::RedisAgent;
use crate::servers::{self, STARTS_WITHIN, Server};
use crate::work::{BATCH, Workload};

/// What takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Not a service: a fair lock in the agents' process.
    Ideal,
    Preclaim {
        slot: &'static str,
        durability: &'static str,
    },
    Redis {
        synced: bool,
    },
    Redlock,
    EtcdTxn,
    EtcdLock,
    Advisory,
    Exclusion,
}

const fn preclaim(slot: &'static str, durability: &'static str) -> System {
    System::Preclaim { slot, durability }
}

pub(crate) const ALL: [System; 13] = [
    System::Ideal,
    preclaim("250us", "none"),
    preclaim("1ms", "none"),
    preclaim("1ms", "slot"),
    preclaim("10ms", "none"),
    preclaim("10ms", "slot"),
    System::Redis { synced: false },
    System::Redis { synced: true },
    System::Redlock,
    System::EtcdTxn,
    System::EtcdLock,
    System::Advisory,
    System::Exclusion,
];

/// What a window is longer than the work by: an agent stops a millisecond before its end, and begins late and ends
/// early by as much as its clock may differ from the coordinator's.
const MARGIN: Duration = millis(4);
/// The same of a window that begins when the agent has been thinking for a while.
const MARGIN_AHEAD: Duration = millis(3);
/// The same where nothing is done but to begin.
const SHORTEST: Duration = millis(2);
/// PostgreSQL's clients have found their window only after some searching: a shorter one is mostly over by then.
const SHORTEST_RESERVED: Duration = millis(5);
/// How far ahead a claim may end where windows are booked: the default.
const BOOKS_AHEAD: &str = "24h";

impl System {
    pub(crate) fn title(self) -> String {
        match self {
            System::Ideal => "ideal queue: a fair lock in the agents' process".into(),
            System::Preclaim { slot, durability } => {
                format!("preclaim, {}, {durability}", slot.replace("us", " µs").replace("ms", " ms"))
            }
            System::Redis { synced: false } => "Redis, nothing kept".into(),
            System::Redis { synced: true } => "Redis, log synced always".into(),
            System::Redlock => "Redlock over five".into(),
            System::EtcdTxn => "etcd, transaction".into(),
            System::EtcdLock => "etcd, lock service".into(),
            System::Advisory => "PostgreSQL, advisory locks".into(),
            System::Exclusion => "PostgreSQL, exclusion constraint".into(),
        }
    }

    /// Whether what it answers is on the disk by then.
    pub(crate) fn syncs(self) -> bool {
        match self {
            System::Preclaim { durability, .. } => durability == "slot",
            System::Redis { synced } => synced,
            System::EtcdTxn | System::EtcdLock | System::Exclusion => true,
            System::Ideal | System::Redlock | System::Advisory => false,
        }
    }

    /// In which manners it takes part in `workload`; only preclaim has more than one.
    pub(crate) fn manners(self, workload: Workload) -> Vec<Option<Manner>> {
        let System::Preclaim { slot, durability } = self else {
            return if self.takes_part(workload) { vec![None] } else { Vec::new() };
        };
        let kept = durability == "slot";
        let windows = |margin| Manner::NextWindow(margin);
        let manners = match (workload, slot) {
            (Workload::OwnBatch, _) if kept => Vec::new(),
            (Workload::Own | Workload::OwnBatch | Workload::Windows, _) => vec![Manner::AtOnce],
            (Workload::OwnLater, "1ms" | "10ms") if !kept => vec![Manner::Ahead(MARGIN_AHEAD)],
            (Workload::Contended, "1ms" | "10ms") if !kept => vec![windows(MARGIN), Manner::InLine],
            (Workload::Contended, "1ms") => vec![Manner::InLine],
            (Workload::Contended, "10ms") => vec![windows(MARGIN)],
            (Workload::Released, "10ms") if !kept => vec![windows(SHORTEST), Manner::InLine],
            (Workload::Released, "10ms") => vec![windows(SHORTEST)],
            (Workload::Released, _) => vec![Manner::InLine],
            (Workload::Atomic, "10ms") if !kept => vec![windows(MARGIN), Manner::InLine],
            (Workload::Atomic, "10ms") => vec![windows(MARGIN)],
            (Workload::Atomic, "1ms") => vec![Manner::InLine],
            (Workload::Tree, "1ms" | "10ms") if kept => vec![Manner::InLine],
            (Workload::Tree, "1ms" | "10ms") => vec![Manner::InLine, Manner::Ahead(MARGIN_AHEAD)],
            _ => Vec::new(),
        };
        manners.into_iter().map(Some).collect()
    }

    fn takes_part(self, workload: Workload) -> bool {
        match self {
            System::Ideal => matches!(workload, Workload::Contended | Workload::Released),
            System::Exclusion => {
                matches!(workload, Workload::Windows | Workload::Contended | Workload::Released)
            }
            System::Redis { synced: false } => workload != Workload::Windows,
            _ => !matches!(workload, Workload::Windows | Workload::OwnLater),
        }
    }

    /// Whether it is started anew for each workload. etcd's lock service gives nobody anything any more once many
    /// that waited have gone, as they do at a workload's end; a coordinator is configured for what it is used for.
    pub(crate) fn starts_afresh(self) -> bool {
        matches!(self, System::EtcdLock | System::Preclaim { .. })
    }

    /// Starts it with a directory of its own in `dir`, and waits until it answers.
    pub(crate) async fn start(self, workload: Workload, options: &Options) -> Result<Running, Failure> {
        let mut running = self.start_servers(workload, &fresh_directory(&options.dir)?, options)?;
        self.answers(&mut running).await?;
        Ok(running)
    }

    fn start_servers(self, workload: Workload, dir: &Path, options: &Options) -> Result<Running, Failure> {
        match self {
            System::Ideal => Ok(Running::default()),
            System::Preclaim { slot, durability } => {
                let horizon =
                    if workload == Workload::Windows { BOOKS_AHEAD } else { options.horizon.as_str() };
                let rules = [slot, horizon, durability];
                let (server, addr, ca) = servers::preclaim(&options.preclaim, dir, rules)?;
                Ok(Running { servers: vec![server], place: Some(Place { addr, ca }), ..Running::default() })
            }
            System::Redis { synced } => Running::of(vec![servers::redis(&dir.join("0"), synced)?]),
            System::Redlock => {
                let one = |nth: u8| servers::redis(&dir.join(nth.to_string()), false);
                Running::of((0..5).map(one).collect::<Result<_, _>>()?)
            }
            System::EtcdTxn | System::EtcdLock => Running::of(vec![servers::etcd(dir)?]),
            System::Advisory | System::Exclusion => Running::of(vec![servers::postgres(dir)?]),
        }
    }

    async fn answers(self, running: &mut Running) -> Result<(), Failure> {
        let asked = Instant::now();
        loop {
            running.servers.iter_mut().try_for_each(Server::still_runs)?;
            let port = running.ports.first().copied().unwrap_or_default();
            let answers = match self {
                System::Ideal | System::Preclaim { .. } => true,
                System::Redis { .. } | System::Redlock => {
                    RedisAgent::connect(&running.ports, "".into(), 0, Arc::default()).await.is_ok()
                }
                System::EtcdTxn | System::EtcdLock => {
                    EtcdLock::connect(port, "".into(), Arc::default()).await.is_ok()
                }
                System::Advisory | System::Exclusion => postgres::answers(port).await,
            };
            if answers {
                return Ok(());
            }
            if asked.elapsed() > STARTS_WITHIN {
                return Err(format!("{} does not answer", self.title()).into());
            }
            sleep(millis(50)).await;
        }
    }

    /// Runs one workload.
    pub(crate) async fn run(
        self,
        running: &Running,
        workload: Workload,
        manner: Option<Manner>,
        spans: Spans,
    ) -> Result<Tally, Failure> {
        let requests: Arc<AtomicU64> = Arc::default();
        let servers = running.servers.iter().map(Server::pid).collect();
        let watched = Watched { servers, requests: Arc::clone(&requests) };
        let port = running.ports.first().copied().unwrap_or_default();
        let prefix: Arc<str> = format!("{}-{manner:?}", workload.name()).into();
        let asked = || Arc::clone(&requests);
        let prefixed = || Arc::clone(&prefix);
        match self {
            System::Ideal => {
                let fifo = Fifo::default();
                hold(agents(workload, async |_| Ok(fifo.clone())).await?, workload, spans, &watched).await
            }
            System::Preclaim { .. } => preclaims(running, workload, manner, spans, &watched).await,
            System::Redis { .. } | System::Redlock => {
                let connect =
                    async |index| RedisAgent::connect(&running.ports, prefixed(), index, asked()).await;
                hold(agents(workload, connect).await?, workload, spans, &watched).await
            }
            System::EtcdTxn => {
                let connect = async |index| EtcdTxn::connect(port, prefixed(), index, asked()).await;
                hold(agents(workload, connect).await?, workload, spans, &watched).await
            }
            System::EtcdLock => {
                let connect = async |_| EtcdLock::connect(port, prefixed(), asked()).await;
                hold(agents(workload, connect).await?, workload, spans, &watched).await
            }
            System::Advisory => {
                let connect = async |_| Advisory::connect(port, asked()).await;
                hold(agents(workload, connect).await?, workload, spans, &watched).await
            }
            System::Exclusion => exclusions(port, workload, spans, &watched).await,
        }
    }
}

async fn preclaims(
    running: &Running,
    workload: Workload,
    manner: Option<Manner>,
    spans: Spans,
    watched: &Watched,
) -> Result<Tally, Failure> {
    let place = running.place.as_ref().ok_or("no coordinator")?;
    let manner = manner.unwrap_or(Manner::AtOnce);
    let connect = async |index| Claims::connect(place, manner, index, Arc::clone(&watched.requests)).await;
    let agents: Vec<Claims> = agents(workload, connect).await?;
    match workload {
        Workload::Windows => {
            let now_us = agents.first().map_or(0, Claims::now_us);
            book(agents, now_us, spans, watched).await
        }
        _ => hold(agents, workload, spans, watched).await,
    }
}

async fn exclusions(
    port: u16,
    workload: Workload,
    spans: Spans,
    watched: &Watched,
) -> Result<Tally, Failure> {
    postgres::prepare(port).await?;
    let margin = if workload == Workload::Released { SHORTEST_RESERVED } else { MARGIN };
    let connect = async |_| Exclusion::connect(port, margin, Arc::clone(&watched.requests)).await;
    let agents: Vec<Exclusion> = agents(workload, connect).await?;
    match workload {
        Workload::Windows => book(agents, postgres::now_us(), spans, watched).await,
        _ => hold(agents, workload, spans, watched).await,
    }
}

/// Connects the agents of a workload, one after the other, since what preclaim's clients know of the clock rests
/// on round trips that no crowd held up; in batches, 64 of them share a connection.
async fn agents<A: Agent, F: Future<Output = Result<A, Failure>>>(
    workload: Workload,
    connect: impl Fn(usize) -> F,
) -> Result<Vec<A>, Failure> {
    let mut connected = Vec::new();
    for index in 0..workload.agents() {
        connected.push(connect(index).await?);
    }
    if workload != Workload::OwnBatch {
        return Ok(connected);
    }
    let twins = connected
        .iter()
        .enumerate()
        .flat_map(|(nth, agent)| (0..BATCH).map(move |of| agent.twin(nth * BATCH + of)));
    Ok(twins.collect())
}

/// What was started for a system; dropped, it is ended.
#[derive(Debug, Default)]
pub(crate) struct Running {
    servers: Vec<Server>,
    ports: Vec<u16>,
    place: Option<Place>,
}

impl Running {
    fn of(started: Vec<(Server, u16)>) -> Result<Self, Failure> {
        let (servers, ports) = started.into_iter().unzip();
        Ok(Running { servers, ports, place: None })
    }
}

/// A directory in `dir` that was not there before.
fn fresh_directory(dir: &Path) -> Result<PathBuf, Failure> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let fresh = dir.join(format!("system-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    std::fs::create_dir(&fresh).map_err(|error| format!("{}: {error}", fresh.display()))?;
    Ok(fresh)
}
