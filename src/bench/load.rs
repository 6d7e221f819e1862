//! The load: a thread that knows what is due when, and connections that declare it and note when the
//! answer came.

mod line;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use self::line::{Driven, Line};
pub(super) use self::line::{Record, run_number};
use super::bare::{Bare, Grid};
use super::burn::Busy;
use super::disk::DiskPlace;
use super::host::{self, Host};
use super::kept::{Kept, Recovery, Synced, Written};
use super::probe::Seen;
use super::report::Sockets;
use super::schedule::{Asks, Due, Schedule};
use super::{BenchError, Plan, drops};
use crate::client::Link;
use crate::clock::{Clock, SystemClock};
use crate::config::Durability;
use crate::host::HostConfig;
use crate::limits;
use crate::types::{Agent, Micros, Time};

/// From the last connection to the first declaration: tasks and threads are up by then.
const LEAD: Micros = Micros::from_ms(20);
/// How long answers may take after the last declaration: past it they count as never come.
const GRACE: Micros = Micros::from_secs(1);
/// Connections that are made at a time: their handshakes are the machine's whole work then.
const CONNECTING: usize = 16;

/// What came of a load.
#[derive(Debug)]
pub(super) struct Measured {
    /// Decisions of what was due in the measured time.
    pub(super) records: Vec<Record>,
    /// What was due in that time.
    pub(super) declared: u64,
    /// What of it was not decided, by why.
    pub(super) failures: BTreeMap<&'static str, u64>,
    /// The name and the local port of each connection.
    pub(super) lines: Vec<(Agent, Option<u16>)>,
    pub(super) grid: Grid,
    /// The measured time, by the local clock.
    pub(super) from: Time,
    pub(super) until: Time,
    /// How late the bare thread woke at each boundary.
    pub(super) bare: Vec<Micros>,
    /// What was written and synced beside a log.
    pub(super) beside: Vec<Synced>,
    pub(super) seen: Option<Seen>,
    pub(super) log: Option<Log>,
    pub(super) sockets: Sockets,
}

pub(super) fn run(plan: &Plan, host: &Host, tell: &dyn Fn(&str)) -> Result<Measured, BenchError> {
    let runtime = host::runtime("bench-load", &HostConfig::default())?;
    let ended = run_on(&runtime, plan, host, tell);
    // Nothing is left that anybody waits for.
    runtime.shutdown_background();
    ended
}

fn run_on(runtime: &Runtime, plan: &Plan, host: &Host, tell: &dyn Fn(&str)) -> Result<Measured, BenchError> {
    tell("connecting");
    let clock = host.clock;
    let run = run_number();
    let (lines, grid) = runtime.block_on(connect(plan, host, run))?;
    let start = clock.now().after(LEAD);
    let from = start.after(plan.warmup);
    let until = from.after(plan.duration);
    let asks = Arc::new(Asks::new(plan, format!("bench/{run:016x}"), grid.length));
    let names: Vec<(Agent, Option<u16>)> =
        lines.iter().map(|line| (line.name.clone(), line.local_port())).collect();
    // So that their sockets can still be asked what they lost when the lines have ended.
    let links: Vec<Arc<dyn Link>> = lines.iter().map(Line::link).collect();
    let (senders, mut driving) = drive_all(runtime, lines, clock, &asks, (from, until));
    let busy = Busy::start(plan.busy, Instant::now() + until.after(GRACE).since(clock.now()).to_std())?;
    let bare = Bare::start(clock, grid, (from, until), above(&plan.host), Some)?;
    let beside = host.kept().map(|kept| kept.write_beside(clock, grid, (from, until))).transpose()?;
    let schedule = Schedule::new(plan, grid, start);
    let pacer = thread::Builder::new()
        .name("bench-pacer".into())
        .spawn(move || pace(&clock, &schedule, (from, until), &senders))?;
    watch_time(&clock, (start, from, until), tell);
    // It only panics where the schedule is broken; nothing was declared then, which shows.
    let not_sent = pacer.join().unwrap_or_default();
    drop(busy);
    let driven: Vec<Driven> = runtime.block_on(async {
        let mut all = Vec::new();
        while let Some(ended) = driving.join_next().await {
            all.extend(ended);
        }
        all
    });
    let sockets = Sockets::ask(host, &names);
    drop(links);
    let mut measured = Measured {
        records: Vec::new(),
        declared: not_sent,
        failures: BTreeMap::new(),
        lines: names,
        grid,
        from,
        until,
        bare: bare.noted(),
        beside: beside.map(Bare::noted).unwrap_or_default(),
        seen: host.seen(),
        log: host.kept().map(|kept| Log::of(kept, clock)),
        sockets,
    };
    measured.fail("not_sent", not_sent);
    driven.into_iter().for_each(|driven| measured.add(driven));
    Ok(measured)
}

/// What was kept by the coordinator in this process.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) durability: Durability,
    pub(super) directory: PathBuf,
    pub(super) disk: Option<DiskPlace>,
    pub(super) recovery: Recovery,
    pub(super) written: Vec<Written>,
    /// From when to when snapshots were made.
    pub(super) snapshots: Vec<(Time, Time)>,
}

impl Log {
    fn of(kept: &Kept, clock: SystemClock) -> Self {
        let (directory, recovery) = (kept.directory.clone(), kept.recovery);
        let disk = DiskPlace::of(&directory);
        let (written, snapshots) = (kept.written(), kept.snapshots(clock));
        Log { durability: kept.durability, directory, disk, recovery, written, snapshots }
    }
}

impl Measured {
    fn add(&mut self, driven: Driven) {
        self.declared += driven.declared;
        self.records.extend(driven.records);
        driven.failures.into_iter().for_each(|(why, count)| self.fail(why, count));
    }

    fn fail(&mut self, why: &'static str, count: u64) {
        if count > 0 {
            *self.failures.entry(why).or_default() += count;
        }
    }
}

/// What the bare thread asks of the machine: what the slot loop asks, and to go before that, since both wake at the
/// same instants and it needs a few microseconds.
fn above(host: &HostConfig) -> HostConfig {
    HostConfig { realtime: host.realtime.map(|priority| priority.saturating_add(1)), ..host.clone() }
}

impl Sockets {
    /// What the sockets on both sides lost until now.
    fn ask(host: &Host, lines: &[(Agent, Option<u16>)]) -> Self {
        let ports: BTreeSet<u16> = lines.iter().filter_map(|(_, port)| *port).collect();
        let own = host.socket();
        Sockets {
            buffers: own.map(|(_, buffers)| buffers),
            lost_by_coordinator: own.and_then(|(port, _)| drops::on_ports(&BTreeSet::from([port]))),
            lost_by_load: drops::on_ports(&ports),
        }
    }
}

/// All connections, in their order, and the grid of the coordinator's slots.
async fn connect(plan: &Plan, host: &Host, run: u64) -> Result<(Vec<Line>, Grid), BenchError> {
    let at_a_time = Arc::new(Semaphore::new(CONNECTING));
    let mut connecting = JoinSet::new();
    for number in 0..plan.connections() {
        let (builder, turn) = (host.builder.clone(), Arc::clone(&at_a_time));
        connecting.spawn(async move {
            let _turn = turn.acquire_owned().await;
            Line::connect(&builder, number, run).await
        });
    }
    let mut lines = Vec::new();
    while let Some(line) = connecting.join_next().await {
        // A panic there is a defect of this room, and is on standard error.
        lines.push(line.unwrap_or_else(|_| Err(BenchError::NotWelcome("its task died".into())))?);
    }
    lines.sort_by_key(|line| line.number);
    let Some(first) = lines.first_mut() else {
        return Err(BenchError::NotWelcome("there is no connection".into()));
    };
    let ahead_us = if host.is_own() { 0 } else { first.ahead_us(&host.clock).await? };
    let grid = Grid { length: first.slot_length, ahead_us };
    Ok((lines, grid))
}

type Senders = Vec<mpsc::Sender<Due>>;

fn drive_all(
    runtime: &Runtime,
    lines: Vec<Line>,
    clock: SystemClock,
    asks: &Arc<Asks>,
    (from, until): (Time, Time),
) -> (Senders, JoinSet<Driven>) {
    let mut driving = JoinSet::new();
    let give_up = tokio::time::Instant::now() + until.after(GRACE).since(clock.now()).to_std();
    let senders = lines.into_iter().map(|line| {
        let (send, dues) = mpsc::channel(limits::BENCH_WAITING);
        let driven = Driven::new(line.number, clock, Arc::clone(asks), from..until);
        driving.spawn_on(driven.drive(line, dues, give_up), runtime.handle());
        send
    });
    (senders.collect(), driving)
}

/// Hands out what is due, when it is due; returns how much of what is measured could not be, since its
/// connection is gone or too far behind.
fn pace(clock: &SystemClock, schedule: &Schedule, (from, until): (Time, Time), senders: &Senders) -> u64 {
    clock.attach();
    let mut not_sent = 0;
    for due in schedule.dues().take_while(|due| due.at < until) {
        while clock.now() < due.at {
            clock.park(Some(due.at));
        }
        let sent = senders[due.agent % senders.len()].try_send(due);
        not_sent += u64::from(sent.is_err() && due.at >= from);
    }
    not_sent
}

/// Tells each second how far it is, until the load is over.
fn watch_time(clock: &SystemClock, (start, from, until): (Time, Time, Time), tell: &dyn Fn(&str)) {
    const SECOND: Duration = Duration::from_secs(1);
    loop {
        let now = clock.now();
        if now >= until {
            return;
        }
        let (what, begun, end) =
            if now < from { ("warming up", start, from) } else { ("measuring", from, until) };
        let whole = |span: Micros| span.as_us().div_ceil(1_000_000);
        tell(&format!("{what}: {} of {} s", whole(now.since(begun)), whole(end.since(begun))));
        thread::sleep(end.since(now).to_std().min(SECOND));
    }
}
