//! A report as a table for people.

use std::fmt;

use super::log_report::LogReport;
use super::machine::{Build, Machine};
use super::report::{Bursts, Load, Phases, Report, Slots, Sockets};
use super::stats::Quantiles;
use crate::config::show_size;

type Row = (&'static str, Option<Quantiles>);

/// What a declaration's time is made of.
fn rows(report: &Report) -> [Row; 10] {
    [
        ("whole: due to decided", report.whole),
        ("  wait for the slot's end", report.wait),
        ("  work, slot's end to sent", report.work),
        ("  network and client", report.network),
        ("    the load's own delay", report.load_delay),
        ("    to the coordinator", report.to_coordinator),
        ("    to the agent", report.to_agent),
        ("slot's end to first sent", report.first_sent),
        ("slot's end to last sent", report.last_sent),
        ("a bare thread, same sleep", report.bare),
    ]
}

/// What a slot's time is made of.
fn budget(phases: Phases) -> [Row; 6] {
    let Phases { wake, collect, resolve, persist, publish, send } = phases;
    [
        ("a slot: its timer's lateness", wake),
        ("  collecting", collect),
        ("  resolving", resolve),
        ("  persisting", persist),
        ("  publishing", publish),
        ("  sending, to the last datagram", send),
    ]
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.command)?;
        writeln!(f, "{}", header(&self.build, &self.machine))?;
        writeln!(f, "{}\n", load(&self.load))?;
        writeln!(f, "{:<32}{:>10}{:>10}{:>10}{:>10}{:>10}", "µs", "p50", "p90", "p99", "p99.9", "max")?;
        let of_log = self.log.iter().flat_map(LogReport::rows);
        let budget = self.phases.into_iter().flat_map(budget);
        let of_bursts = self.bursts.into_iter().flat_map(burst_rows);
        for (name, quantiles) in rows(self).into_iter().chain(budget).chain(of_bursts).chain(of_log) {
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
        if let Some(Bursts { count, slots_at_most, .. }) = self.bursts {
            writeln!(f, "bursts {count}, each decided in {slots_at_most} slots at most")?;
        }
        writeln!(f, "{}", sockets(&self.sockets))?;
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

fn burst_rows(bursts: Bursts) -> [Row; 2] {
    [
        ("a burst: due to its last answer", bursts.whole),
        ("  its last slot's end to last sent", bursts.last_sent),
    ]
}

fn load(load: &Load) -> String {
    let Load { agents, rate, conflict, connections, slot_us, in_process, duration_us, .. } = load;
    let place = if *in_process { "in this process" } else { "elsewhere" };
    let (seconds, slot) = (*duration_us as f64 / 1e6, *slot_us as f64 / 1e3);
    let mut told = format!(
        "{agents} agents on {connections} connections, {rate}/s each{}, {:.1}% on hot paths, {seconds} s, slots of \
         {slot} ms, coordinator {place}",
        if load.burst { " in bursts" } else { "" },
        conflict * 100.0,
    );
    if load.busy > 0 {
        told += &format!("; {} threads compute beside it", load.busy);
    }
    if let Some(priority) = load.realtime {
        told += &format!("; real-time priority {priority}");
    }
    for (cores, whose) in [(&load.cores, "the slot loop"), (&load.network_cores, "the connections")] {
        if !cores.is_empty() {
            told += &format!("; {whose} on cores {cores:?}");
        }
    }
    told + if load.lock_memory { "; memory locked" } else { "" }
}

fn sockets(sockets: &Sockets) -> String {
    let told = |lost: Option<u64>| lost.map_or("unknown".to_owned(), |lost| lost.to_string());
    let (coordinator, load) = (told(sockets.lost_by_coordinator), told(sockets.lost_by_load));
    let buffers = sockets.buffers.map_or(String::new(), |buffers| {
        let (receive, send) = (show_size(buffers.receive_bytes), show_size(buffers.send_bytes));
        format!("; its buffers: receive {receive}, send {send}")
    });
    format!("datagrams lost to full sockets: coordinator {coordinator}, load {load}{buffers}")
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
