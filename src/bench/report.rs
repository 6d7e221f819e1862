//! What was measured, as data and as a table for people.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::load::{Measured, Record};
use super::log_report::LogReport;
use super::machine::{Build, Machine};
use super::probe::Seen;
use super::stats::Quantiles;
use super::{Place, Plan};
use crate::coordinator::{Punctuality, SlotReport};
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
    /// How often the kernel had no room for a datagram.
    pub socket_full: Option<u64>,
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
    /// From the slot's end until its loop had woken and closed it; without slots that were caught up,
    /// which waited for the work on those before them.
    pub wake: Option<Quantiles>,
    /// Deciding.
    pub resolve: Option<Quantiles>,
    /// Making the record durable.
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
        first_sent: seen.as_ref().and_then(|seen| Quantiles::of(seen.sent.values().map(|sent| sent.first))),
        last_sent: seen.as_ref().and_then(|seen| Quantiles::of(seen.sent.values().map(|sent| sent.last))),
        bare: Quantiles::of(measured.bare.iter().copied()),
        load_delay: Quantiles::of(records.iter().map(|record| record.sent.since(record.due))),
        phases: seen.as_ref().map(phases),
        socket_full: measured.seen.as_ref().map(|seen| seen.socket_full),
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
        wake: Quantiles::of(woken.map(|report| report.closed.since(report.at))),
        resolve: step(|report| report.resolved.since(report.closed)),
        persist: step(|report| report.persisted.since(report.resolved)),
        publish: step(|report| report.published.since(report.persisted)),
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
}

impl Parts {
    fn of(record: &Record, measured: &Measured, seen: Option<&Joined>) -> Self {
        let whole = record.received.since(record.due);
        let at = measured.grid.here(record.at);
        let Some(seen) = seen else {
            let wait = at.since(record.sent);
            return Parts { whole, wait, work: None, network: Some(whole.less(wait)) };
        };
        let arrived = seen.arrived.get(&(record.line, record.id)).copied().unwrap_or(record.sent);
        let wait = at.since(arrived);
        let port = measured.lines.get(record.line).and_then(|(_, port)| *port);
        let left = port.and_then(|port| seen.left.get(&(port, record.slot)));
        let work = left.map(|left| left.since(at));
        let network = work.map(|work| whole.less(wait).less(work));
        Parts { whole, wait, work, network }
    }
}

impl Report {
    /// A row of the table: what it is, and its quantiles.
    fn rows(&self) -> [(&'static str, Option<Quantiles>); 8] {
        [
            ("whole: due to decided", self.whole),
            ("  wait for the slot's end", self.wait),
            ("  work, slot's end to sent", self.work),
            ("  network and client", self.network),
            ("slot's end to first sent", self.first_sent),
            ("slot's end to last sent", self.last_sent),
            ("a bare thread, same sleep", self.bare),
            ("the load's own delay", self.load_delay),
        ]
    }

    fn step_rows(&self) -> Vec<(&'static str, Option<Quantiles>)> {
        let Some(Phases { wake, resolve, persist, publish, send }) = self.phases else { return Vec::new() };
        vec![
            ("slot loop: wake", wake),
            ("  resolve", resolve),
            ("  persist", persist),
            ("  publish", publish),
            ("  send", send),
        ]
    }

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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Load { agents, rate, conflict, connections, slot_us, in_process, duration_us, .. } = &self.load;
        let place = if *in_process { "in this process" } else { "elsewhere" };
        let seconds = *duration_us as f64 / 1e6;
        writeln!(f, "{}", self.command)?;
        writeln!(f, "{}", header(&self.build, &self.machine))?;
        writeln!(
            f,
            "{agents} agents on {connections} connections, {rate}/s each, {:.1}% on hot paths, {seconds} s, \
             slots of {} ms, coordinator {place}\n",
            conflict * 100.0,
            *slot_us as f64 / 1e3,
        )?;
        writeln!(f, "{:<32}{:>10}{:>10}{:>10}{:>10}{:>10}", "µs", "p50", "p90", "p99", "p99.9", "max")?;
        let of_log = self.log.iter().flat_map(LogReport::rows);
        for (name, quantiles) in self.rows().into_iter().chain(self.step_rows()).chain(of_log) {
            row(f, name, quantiles)?;
        }
        writeln!(f)?;
        if let Some((first, last)) = self.over_bare() {
            writeln!(f, "p99 over the bare thread's: first sent +{first} µs, last sent +{last} µs")?;
        }
        if let (Some(persist), Some((last, over_bare))) =
            (self.log.as_ref().and_then(LogReport::persist_over_fdatasync), self.last_over_sync())
        {
            writeln!(f, "p99 over that of one fdatasync: persist +{persist} µs, last sent +{last} µs")?;
            writeln!(f, "p99 over a bare thread's sleep and fdatasync: last sent +{over_bare} µs")?;
        }
        if let Some(Slots { run, late, caught_up }) = self.slots {
            writeln!(f, "slots with decisions {run}, late {late} (of them caught up {caught_up})")?;
        }
        self.log.iter().try_for_each(|log| log.fmt(f))?;
        write!(
            f,
            "declared {}, decided {} ({:.0}/s): granted {}, conflict {}; errors {}",
            self.declared, self.decided, self.decisions_per_second, self.granted, self.conflicts, self.errors
        )?;
        self.errors_by_reason.iter().try_for_each(|(why, count)| write!(f, ", {why} {count}"))?;
        writeln!(f)
    }
}

pub(super) fn header(build: &Build, machine: &Machine) -> String {
    let cpu = machine.cpu.as_deref().unwrap_or("unknown processor");
    let kernel = machine.kernel.as_deref().unwrap_or("");
    let load = machine.load_average.map_or(String::new(), |load| format!(", load average {load}"));
    let (Build { version, profile, features }, Machine { cores, os, .. }) = (build, machine);
    let features = features.join("+");
    format!("preclaim {version} ({profile}, {features}) on {cpu}, {cores} cores, {os} {kernel}{load}")
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, quantiles: Option<Quantiles>) -> fmt::Result {
    let Some(Quantiles { p50, p90, p99, p999, max, count: _ }) = quantiles else {
        return writeln!(f, "{name:<32}{:>10}", "-");
    };
    writeln!(f, "{name:<32}{p50:>10}{p90:>10}{p99:>10}{p999:>10}{max:>10}")
}
