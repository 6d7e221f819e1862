//! What was measured, as data.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::load::{Measured, Record};
use super::log_report::LogReport;
use super::machine::{Build, Machine};
use super::probe::Seen;
use super::stats::Quantiles;
use super::{Place, Plan};
use crate::coordinator::{Punctuality, SlotReport, SocketBuffers};
use crate::types::{FixedMap, Micros, Slot, Time};

/// What was measured. Spans of time are in µs; docs/BENCH.md says between which points each is taken.
/// What cannot be seen from here (of a coordinator elsewhere) is `None`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How it was asked for.
    pub command: String,
    /// What was measured with.
    pub build: Build,
    /// On what.
    pub machine: Machine,
    /// The load.
    pub load: Load,
    /// Declarations that were due in the measured time.
    pub declared: u64,
    /// Those that were granted or told a conflict.
    pub decided: u64,
    /// Those that were granted.
    pub granted: u64,
    /// Those that were told a conflict.
    pub conflicts: u64,
    /// Those that were neither: `declared` less `decided`.
    pub errors: u64,
    /// The errors, by why.
    pub errors_by_reason: BTreeMap<&'static str, u64>,
    /// Decisions for each second of the measured time.
    pub decisions_per_second: f64,
    /// Slots in which something was decided.
    pub slots: Option<Slots>,
    /// From due to the answer in hand: the sum of the three that follow, declaration by declaration.
    pub whole: Option<Quantiles>,
    /// From the declaration's arrival to its slot's end: by design 0 to a slot's length. Of a
    /// coordinator elsewhere, from its sending, by the clocks' estimated difference.
    pub wait: Option<Quantiles>,
    /// From the slot's end until the last datagram with its connection's news was handed to the kernel.
    pub work: Option<Quantiles>,
    /// Everything else: the load's own delay, both ways through both kernels, and reading. Of a
    /// coordinator elsewhere, `work` too.
    pub network: Option<Quantiles>,
    /// Of it, from when the load comes to declare it until the coordinator has admitted it.
    pub to_coordinator: Option<Quantiles>,
    /// Of it, from the last datagram with its connection's news until the answer is decoded.
    pub to_agent: Option<Quantiles>,
    /// From a slot's end until its first datagram was handed to the kernel; one span a slot.
    pub first_sent: Option<Quantiles>,
    /// The same for its last datagram.
    pub last_sent: Option<Quantiles>,
    /// How late a thread woke that only slept to each boundary meanwhile: what the machine adds.
    pub bare: Option<Quantiles>,
    /// From due until the load came to declare it: its own delay, part of `network`.
    pub load_delay: Option<Quantiles>,
    /// The slot loop's work, step by step.
    pub phases: Option<Phases>,
    /// How often the kernel had no room for a datagram that was to be sent.
    pub socket_full: Option<u64>,
    /// The sockets of both sides.
    pub sockets: Sockets,
    /// The bursts of a load that declares in bursts.
    pub bursts: Option<Bursts>,
    /// The log of a coordinator that keeps one.
    pub log: Option<LogReport>,
}

/// The load that was put on.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    /// Agents.
    pub agents: usize,
    /// Declarations a second of each.
    pub rate: f64,
    /// Share of them on hot paths.
    pub conflict: f64,
    /// Connections of all of them together.
    pub connections: usize,
    /// Measured time.
    pub duration_us: u64,
    /// The time before it.
    pub warmup_us: u64,
    /// The coordinator's slot length.
    pub slot_us: u64,
    /// What the schedule was drawn from.
    pub seed: u64,
    /// Whether the coordinator was in this process.
    pub in_process: bool,
    /// Whether all agents declared at once.
    pub burst: bool,
    /// Threads that computed all the while.
    pub busy: usize,
    /// The slot loop's real-time priority; the connections' threads had one less.
    pub realtime: Option<u8>,
    /// Whether memory was locked.
    pub lock_memory: bool,
    /// The slot loop's cores, where it had some of its own.
    pub cores: Vec<usize>,
    /// Those of the connections' threads.
    pub network_cores: Vec<usize>,
}

/// The sockets of both sides, over their whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sockets {
    /// What the coordinator's was given.
    pub buffers: Option<SocketBuffers>,
    /// Datagrams that found the coordinator's receive buffer full, and were lost.
    pub lost_by_coordinator: Option<u64>,
    /// Those that found a receive buffer of the load full.
    pub lost_by_load: Option<u64>,
}

impl Sockets {
    /// Datagrams that were lost on both sides.
    pub fn lost(&self) -> Option<u64> {
        let sides = [self.lost_by_coordinator, self.lost_by_load];
        sides.into_iter().flatten().reduce(u64::saturating_add)
    }
}

/// Bursts: in each, all agents declare as a slot opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bursts {
    /// How many.
    pub count: u64,
    /// Slots in which declarations of one burst were decided, at most: 1 where each was taken in within its slot.
    pub slots_at_most: u64,
    /// From all being due until the last answer was decoded; one span a burst.
    pub whole: Option<Quantiles>,
    /// From the end of the last slot of a burst until its last datagram was handed to the kernel; one span a burst.
    pub last_sent: Option<Quantiles>,
}

/// Slots in which something was decided, by how they kept their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Slots {
    /// All of them.
    pub run: u64,
    /// Of these, those whose work overran the next boundary.
    pub late: u64,
    /// Of these, those that began only after it, since one before them overran.
    pub caught_up: u64,
}

/// The steps of a slot, one span a slot.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Phases {
    /// How late the slot loop's timer was; without slots that were caught up, which waited for the work
    /// on those before them.
    pub wake: Option<Quantiles>,
    /// Closing: taking the slot's messages out of the queue that sessions put them in.
    pub collect: Option<Quantiles>,
    /// Deciding.
    pub resolve: Option<Quantiles>,
    /// Making the record, and making it durable.
    pub persist: Option<Quantiles>,
    /// Making messages of the decisions and handing them to the connections.
    pub publish: Option<Quantiles>,
    /// From then until the last datagram was handed to the kernel.
    pub send: Option<Quantiles>,
}

pub(super) fn make(plan: &Plan, command: &str, measured: Measured) -> Report {
    let records = &measured.records;
    let granted = records.iter().filter(|record| record.granted).count() as u64;
    let decided = records.len() as u64;
    let seen = measured.seen.as_ref().map(|seen| Joined::of(seen, &measured));
    let spans: Vec<Parts> =
        records.iter().map(|record| Parts::of(record, &measured, seen.as_ref())).collect();
    let seconds = plan.duration.to_std().as_secs_f64();
    Report {
        command: command.to_owned(),
        build: Build::this(),
        machine: Machine::this(),
        load: load(plan, &measured),
        declared: measured.declared,
        decided,
        granted,
        conflicts: decided - granted,
        errors: measured.declared.saturating_sub(decided),
        decisions_per_second: decided as f64 / seconds,
        slots: seen.as_ref().map(|seen| slots(&seen.slots)),
        whole: Quantiles::of(spans.iter().map(|parts| parts.whole)),
        wait: Quantiles::of(spans.iter().map(|parts| parts.wait)),
        work: Quantiles::of(spans.iter().filter_map(|parts| parts.work)),
        network: Quantiles::of(spans.iter().filter_map(|parts| parts.network)),
        to_coordinator: Quantiles::of(spans.iter().filter_map(|parts| parts.to_coordinator)),
        to_agent: Quantiles::of(spans.iter().filter_map(|parts| parts.to_agent)),
        first_sent: seen.as_ref().and_then(|seen| Quantiles::of(seen.sent.values().map(|sent| sent.first))),
        last_sent: seen.as_ref().and_then(|seen| Quantiles::of(seen.sent.values().map(|sent| sent.last))),
        bare: Quantiles::of(measured.bare.iter().copied()),
        load_delay: Quantiles::of(records.iter().map(|record| record.sent.since(record.due))),
        phases: seen.as_ref().map(phases),
        socket_full: measured.seen.as_ref().map(|seen| seen.socket_full),
        sockets: measured.sockets,
        bursts: plan.burst.then(|| bursts(records, seen.as_ref())),
        log: seen.as_ref().and_then(|seen| LogReport::of(&measured, &seen.slots)),
        errors_by_reason: measured.failures,
    }
}

fn load(plan: &Plan, measured: &Measured) -> Load {
    Load {
        agents: plan.agents,
        rate: plan.rate,
        conflict: plan.conflict,
        connections: plan.connections(),
        duration_us: plan.duration.as_us(),
        warmup_us: plan.warmup.as_us(),
        slot_us: measured.grid.length.as_us(),
        seed: plan.seed,
        in_process: matches!(plan.place, Place::InProcess),
        burst: plan.burst,
        busy: plan.busy,
        realtime: plan.host.realtime,
        lock_memory: plan.host.lock_memory,
        cores: plan.host.cores.clone(),
        network_cores: plan.host.network_cores.clone(),
    }
}

/// The declarations that were due at one time are a burst.
fn bursts(records: &[Record], seen: Option<&Joined>) -> Bursts {
    let mut all: BTreeMap<Time, (BTreeSet<Slot>, Time)> = BTreeMap::new();
    for record in records {
        let (slots, last) = all.entry(record.due).or_insert((BTreeSet::new(), record.received));
        slots.insert(record.slot);
        *last = record.received.max(*last);
    }
    let sent = |slots: &BTreeSet<Slot>| seen?.sent.get(slots.last()?).map(|sent| sent.last);
    Bursts {
        count: all.len() as u64,
        slots_at_most: all.values().map(|(slots, _)| slots.len() as u64).max().unwrap_or(0),
        whole: Quantiles::of(all.iter().map(|(due, (_, last))| last.since(*due))),
        last_sent: Quantiles::of(all.values().filter_map(|(slots, _)| sent(slots))),
    }
}

fn slots(reports: &[SlotReport]) -> Slots {
    let count = |which| reports.iter().filter(|report| report.punctuality == which).count() as u64;
    let caught_up = count(Punctuality::CaughtUp);
    Slots { run: reports.len() as u64, late: count(Punctuality::Late) + caught_up, caught_up }
}

fn phases(seen: &Joined) -> Phases {
    let step = |step: fn(&SlotReport) -> Micros| Quantiles::of(seen.slots.iter().map(step));
    let published = |report: &SlotReport| report.published.since(report.at);
    let send = |report: &SlotReport| Some(seen.sent.get(&report.slot)?.last.less(published(report)));
    let woken = seen.slots.iter().filter(|report| report.punctuality != Punctuality::CaughtUp);
    Phases {
        wake: Quantiles::of(woken.map(SlotReport::wake)),
        collect: step(SlotReport::collect),
        resolve: step(SlotReport::resolve),
        persist: step(SlotReport::persist),
        publish: step(SlotReport::publish),
        send: Quantiles::of(seen.slots.iter().filter_map(send)),
    }
}

/// What the coordinator told, put in relation to what was measured.
struct Joined {
    slots: Vec<SlotReport>,
    sent: FixedMap<Slot, Sent>,
    /// When the last of a slot's news had left for a port.
    left: FixedMap<(u16, Slot), Time>,
    /// By connection and id.
    arrived: FixedMap<(usize, u64), Time>,
}

/// When a slot's datagrams left, from the slot's end.
#[derive(Clone, Copy)]
struct Sent {
    first: Micros,
    last: Micros,
}

impl Joined {
    fn of(seen: &Seen, measured: &Measured) -> Self {
        let is_measured = |at: Time| at >= measured.from && at < measured.until;
        let length = measured.grid.length;
        let mut sent: FixedMap<Slot, Sent> = FixedMap::default();
        let mut left = FixedMap::default();
        for departure in &seen.departures {
            left.insert((departure.peer.port(), departure.slot), departure.last);
            let at = departure.slot.decided_at(length);
            if is_measured(at) {
                let (first, last) = (departure.first.since(at), departure.last.since(at));
                let slot = sent.entry(departure.slot).or_insert(Sent { first, last });
                *slot = Sent { first: slot.first.min(first), last: slot.last.max(last) };
            }
        }
        let numbers: FixedMap<&str, usize> =
            measured.lines.iter().enumerate().map(|(number, (name, _))| (name.as_str(), number)).collect();
        let arrival = |arrival: &super::probe::Arrival| {
            let number = numbers.get(arrival.agent.as_str())?;
            Some(((*number, arrival.id.number()), arrival.at))
        };
        let slots = seen.slots.iter().filter(|report| is_measured(report.at)).copied().collect();
        Joined { slots, sent, left, arrived: seen.arrivals.iter().filter_map(arrival).collect() }
    }
}

/// A decision's time, taken apart.
struct Parts {
    whole: Micros,
    wait: Micros,
    work: Option<Micros>,
    network: Option<Micros>,
    to_coordinator: Option<Micros>,
    to_agent: Option<Micros>,
}

impl Parts {
    fn of(record: &Record, measured: &Measured, seen: Option<&Joined>) -> Self {
        let whole = record.received.since(record.due);
        let at = measured.grid.here(record.at);
        let Some(seen) = seen else {
            let wait = at.since(record.sent);
            let network = Some(whole.less(wait));
            return Parts { whole, wait, work: None, network, to_coordinator: None, to_agent: None };
        };
        let arrived = seen.arrived.get(&(record.line, record.id)).copied();
        let wait = at.since(arrived.unwrap_or(record.sent));
        let port = measured.lines.get(record.line).and_then(|(_, port)| *port);
        let left = port.and_then(|port| seen.left.get(&(port, record.slot)));
        let work = left.map(|left| left.since(at));
        Parts {
            whole,
            wait,
            work,
            network: work.map(|work| whole.less(wait).less(work)),
            to_coordinator: arrived.map(|arrived| arrived.since(record.sent)),
            to_agent: left.map(|left| record.received.since(*left)),
        }
    }
}

impl Report {
    /// By how much the p99 of a slot's first and last datagram lie above the bare thread's, in µs.
    pub fn over_bare(&self) -> Option<(u64, u64)> {
        let (bare, first, last) = (self.bare?.p99, self.first_sent?.p99, self.last_sent?.p99);
        Some((first.saturating_sub(bare), last.saturating_sub(bare)))
    }

    /// By how much the p99 of a slot's last datagram lies above that of one `fdatasync` of the bytes of
    /// a record, and of a bare thread that sleeps to an instant and then does that, in µs.
    pub fn last_over_sync(&self) -> Option<(u64, u64)> {
        let log = self.log.as_ref()?;
        let (last, sync, bare) = (self.last_sent?.p99, log.fdatasync?.p99, log.bare_sync?.p99);
        Some((last.saturating_sub(sync), last.saturating_sub(bare)))
    }
}
