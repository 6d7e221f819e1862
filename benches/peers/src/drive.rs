//! Drives agents of any system through a workload, and counts what came of it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::time::{sleep_until as roughly, timeout};

use crate::Failure;
use crate::dice::Dice;
use crate::ledger::{Ledger, overlaps};
use crate::measure::{busy_seconds, cpu_seconds, own_cpu_seconds};
use crate::timer::{sleep, sleep_until};
use crate::work::{Wanted, Workload};

/// How long agents may take to stop once the time is over.
const STOPS_WITHIN: Duration = Duration::from_secs(20);
/// What is booked lies so far ahead, and lasts so long, µs.
const AHEAD_US: u64 = 600_000_000;
const LENGTH_US: u64 = 1_000_000;
/// From one window that nobody else asked for to the next.
const APART: u64 = 6;
const RESOURCES: u64 = 100;

/// One agent at a system that gives out what is to be held.
pub(crate) trait Agent: Send + Sized + 'static {
    /// What it has, for as long as it has it.
    type Held: Send + Sync;

    /// Another agent that shares this one's connection.
    fn twin(&self, index: usize) -> Self;

    /// Whether it asks before what it asks for is needed.
    fn asks_ahead(&self) -> bool {
        false
    }

    /// Returns when all that is wanted is held and may be used: at `needed` or later.
    fn take(
        &mut self,
        wanted: &Wanted,
        needed: Instant,
    ) -> impl Future<Output = Result<Self::Held, Failure>> + Send;

    /// When it ends by itself, by this process's clock.
    fn until(&self, _held: &Self::Held) -> Option<Instant> {
        None
    }

    /// Uses it for `work`, and says when it was last used; `None` where it was lost before that was done, and
    /// nothing was used after.
    fn work(&self, _held: &Self::Held, work: Duration) -> impl Future<Output = Option<Instant>> + Send {
        async move {
            if !work.is_zero() {
                sleep(work).await;
            }
            Some(Instant::now())
        }
    }

    /// Gives it back.
    fn give(&mut self, held: Self::Held) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// One agent at a system that books windows of time.
pub(crate) trait Booker: Send + Sized + 'static {
    /// Books the next free window of `length_us` at or after `from_us` on a resource; returns its start.
    fn book(
        &mut self,
        resource: u64,
        from_us: u64,
        length_us: u64,
    ) -> impl Future<Output = Result<u64, Failure>> + Send;
}

/// For how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    pub(crate) warmup: Duration,
    pub(crate) measured: Duration,
}

/// What is watched beside the agents.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// The servers' processes.
    pub(crate) servers: Vec<u32>,
    /// Messages that agents sent which want an answer or ask for something.
    pub(crate) requests: Arc<AtomicU64>,
}

impl Watched {
    fn cpu(&self) -> [f64; 3] {
        [self.servers.iter().map(|pid| cpu_seconds(*pid)).sum(), own_cpu_seconds(), busy_seconds()]
    }
}

/// What came of one system at one workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Time to a grant, of those that were granted in the measured time, sorted.
    pub(crate) waits: Vec<Duration>,
    /// Grants of each agent in that time.
    pub(crate) shares: Vec<u64>,
    /// The longest that any agent waited, those included that waited in vain when the time was over.
    pub(crate) longest: Duration,
    pub(crate) measured: Duration,
    pub(crate) requests_per_grant: f64,
    /// Work that was cut off since its grant was over.
    pub(crate) cut: u64,
    pub(crate) violations: u64,
    /// Seconds of processor time in the measured time: of the servers, of this process, and of all.
    pub(crate) cpu: [f64; 3],
}

/// What one agent did.
#[derive(Debug, Default)]
struct Own {
    /// When it was granted, and how long that took.
    grants: Vec<(Instant, Duration)>,
    /// For how long it had waited when the time was over.
    in_vain: Duration,
    cut: u64,
    booked: Vec<(u64, u64, u64)>,
}

/// Has agents hold what the workload says, for as long as `spans` says.
pub(crate) async fn hold<A: Agent>(
    agents: Vec<A>,
    workload: Workload,
    spans: Spans,
    watched: &Watched,
) -> Result<Tally, Failure> {
    let ledger = Arc::new(Ledger::default());
    let begun = Instant::now();
    let ends = begun + spans.warmup + spans.measured;
    let tasks = agents.into_iter().enumerate().map(|(index, agent)| {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(hold_one(agent, index, workload, ends, ledger))
    });
    let mut tally = measured(tasks.collect(), begun, spans, watched).await?;
    tally.violations += ledger.violations();
    Ok(tally)
}

async fn hold_one<A: Agent>(
    mut agent: A,
    index: usize,
    workload: Workload,
    ends: Instant,
    ledger: Arc<Ledger>,
) -> Result<Own, Failure> {
    let mut own = Own::default();
    for round in 0.. {
        let wanted = workload.wanted(index, round);
        let mut needed = Instant::now() + wanted.think;
        if !agent.asks_ahead() && !wanted.think.is_zero() {
            sleep_until(needed).await;
        }
        if !workload.is_known_before() {
            needed = Instant::now();
        }
        // What was cut off is asked for again, and has waited since it was first needed.
        loop {
            let taken = tokio::select! {
                biased;
                taken = agent.take(&wanted, needed) => taken?,
                () = roughly(ends.into()) => {
                    own.in_vain = Instant::now().saturating_duration_since(needed);
                    return Ok(own);
                }
            };
            let now = Instant::now();
            let mut done = None;
            if ledger.enter(index, &wanted.paths, agent.until(&taken)) {
                done = agent.work(&taken, wanted.work).await;
                ledger.leave(index, done);
            }
            agent.give(taken).await?;
            if done.is_some() {
                own.grants.push((now, now.saturating_duration_since(needed)));
                break;
            }
            own.cut += 1;
        }
        if Instant::now() >= ends {
            break;
        }
    }
    Ok(own)
}

/// The windows that are asked for: mostly one that nobody asked for, and in 30 of 100 cases one that overlaps
/// the last that was.
#[derive(Debug)]
struct Asks {
    from_us: u64,
    last: Vec<AtomicU64>,
}

impl Asks {
    fn next(&self, dice: &mut Dice) -> (u64, u64) {
        let resource = dice.below(RESOURCES);
        let last = &self.last[resource as usize];
        let nth = if dice.below(100) < 30 {
            last.load(Ordering::Relaxed)
        } else {
            last.fetch_add(1, Ordering::Relaxed) + 1
        };
        (resource, self.from_us + nth * APART * LENGTH_US)
    }
}

/// Has agents book windows of time, for as long as `spans` says. `now_us` is the system's own time.
pub(crate) async fn book<B: Booker>(
    bookers: Vec<B>,
    now_us: u64,
    spans: Spans,
    watched: &Watched,
) -> Result<Tally, Failure> {
    let last = (0..RESOURCES).map(|_| AtomicU64::new(0)).collect();
    let asks = Arc::new(Asks { from_us: now_us + AHEAD_US, last });
    let begun = Instant::now();
    let ends = begun + spans.warmup + spans.measured;
    let tasks = bookers.into_iter().enumerate().map(|(index, booker)| {
        let asks = Arc::clone(&asks);
        tokio::spawn(book_one(booker, index, ends, asks))
    });
    measured(tasks.collect(), begun, spans, watched).await
}

async fn book_one<B: Booker>(
    mut booker: B,
    index: usize,
    ends: Instant,
    asks: Arc<Asks>,
) -> Result<Own, Failure> {
    let (mut own, mut dice) = (Own::default(), Dice::new(index as u64));
    loop {
        let (asked, (resource, from_us)) = (Instant::now(), asks.next(&mut dice));
        if asked >= ends {
            return Ok(own);
        }
        let start = tokio::select! {
            biased;
            start = booker.book(resource, from_us, LENGTH_US) => start?,
            () = roughly((ends + Duration::from_secs(5)).into()) => {
                own.in_vain = asked.elapsed();
                return Ok(own);
            }
        };
        let now = Instant::now();
        own.booked.push((resource, start, start + LENGTH_US));
        own.grants.push((now, now - asked));
    }
}

type Tasks = Vec<tokio::task::JoinHandle<Result<Own, Failure>>>;

/// Waits for the agents, and reads the processors' clocks where the measured time begins and ends.
async fn measured(tasks: Tasks, begun: Instant, spans: Spans, watched: &Watched) -> Result<Tally, Failure> {
    let from = begun + spans.warmup;
    let to = from + spans.measured;
    sleep_until(from).await;
    let before = watched.cpu();
    sleep_until(to).await;
    let after = watched.cpu();
    let stops: Vec<_> = tasks.iter().map(|task| task.abort_handle()).collect();
    let all = timeout(STOPS_WITHIN, try_join_all(tasks)).await;
    stops.iter().for_each(|task| task.abort());
    let all: Result<Vec<Own>, Failure> = all.map_err(|_| "agents do not stop")??.into_iter().collect();
    let mut tally = count(all?, from, to, watched);
    tally.cpu = [0, 1, 2].map(|nth| after[nth] - before[nth]);
    Ok(tally)
}

fn count(all: Vec<Own>, from: Instant, to: Instant, watched: &Watched) -> Tally {
    let mut tally = Tally { measured: to - from, ..Tally::default() };
    let granted: usize = all.iter().map(|own| own.grants.len()).sum();
    tally.requests_per_grant = watched.requests.load(Ordering::Relaxed) as f64 / granted.max(1) as f64;
    let mut booked = Vec::new();
    for own in all {
        let waits = own.grants.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, wait)| *wait);
        let before = tally.waits.len();
        tally.waits.extend(waits);
        tally.shares.push((tally.waits.len() - before) as u64);
        tally.longest = tally.longest.max(own.in_vain);
        tally.cut += own.cut;
        booked.extend(own.booked);
    }
    tally.violations = overlaps(booked);
    tally.waits.sort_unstable();
    tally.longest = tally.longest.max(tally.waits.last().copied().unwrap_or_default());
    tally
}
