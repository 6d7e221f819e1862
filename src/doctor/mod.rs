//! Whether a host keeps a coordinator's beat: reads it, measures it for some seconds, and judges.
//!
//! [`judge()`] alone decides, and from [`Readings`] alone; the other parts only read. What cannot be read is
//! `None`, is said to be unknown, and makes no host unfit. This room starts no coordinator, changes nothing of
//! the host and leaves nothing behind.

mod beat;
mod finding;
mod host;
mod judge;
#[cfg(test)]
mod judge_tests;
mod readings;
mod state;
mod wall;

use std::path::PathBuf;

pub use finding::{Finding, Grade, Verdict, What};
pub use judge::judge;
pub use readings::{ClockReading, Quota, Readings, Scheduling, StateReading, Ticks};
use serde::Serialize;
use wall::WallWatch;

use crate::bench::{Build, Machine};
use crate::config::show_duration;
use crate::transport::SocketReading;
use crate::types::Micros;

/// What is to be found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The beat that is wanted.
    pub slot: Micros,
    /// How long each measurement takes: idle, under load and, where there is a state directory, of its disk.
    pub span: Micros,
    /// The state directory, which has to be there.
    pub state: Option<PathBuf>,
}

/// What was found out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether the host is fit.
    pub verdict: Verdict,
    /// The beat that was wanted.
    #[serde(rename = "slot_us")]
    pub slot: Micros,
    /// How long each measurement took.
    #[serde(rename = "span_us")]
    pub span: Micros,
    /// What was measured with.
    pub build: Build,
    /// The host.
    pub machine: Machine,
    /// What was found, in the order of [`What`].
    pub findings: Vec<Finding>,
    /// What they rest on; spans of time are in µs.
    pub readings: Readings,
}

/// Reads and measures this host, and judges it; `tell` hears what is being measured.
///
/// Takes the plan's span two or three times. Sleeps on the calling thread, so that its priority is measured,
/// and keeps the host busy for one span, with a thread for each core that ends by itself. Must not be called
/// inside a tokio runtime.
pub fn examine(plan: &Plan, tell: &dyn Fn(&str)) -> Report {
    let machine = Machine::this();
    let mut readings = read(&machine);
    measure(plan, &mut readings, tell);
    let findings = judge(plan.slot, &readings);
    Report {
        verdict: Verdict::of(&findings),
        slot: plan.slot,
        span: plan.span,
        build: Build::this(),
        machine,
        findings,
        readings,
    }
}

/// What stands written somewhere, or is told at once.
fn read(machine: &Machine) -> Readings {
    Readings {
        load_average: machine.load_average,
        cores: std::thread::available_parallelism().ok().map(usize::from),
        quota: host::quota(),
        governors: host::governors(),
        clock: ClockReading { read_ns: beat::clock_read_ns(), ..host::clock_source() },
        socket: SocketReading::take().ok(),
        receive_limit: host::number("/proc/sys/net/core/rmem_max"),
        send_limit: host::number("/proc/sys/net/core/wmem_max"),
        scheduling: host::scheduling(),
        may_be_realtime: host::may_be_realtime(),
        lockable_bytes: host::lockable_bytes(),
        swap_bytes: host::swap_bytes(),
        ..Readings::default()
    }
}

/// What takes its time.
fn measure(plan: &Plan, readings: &mut Readings, tell: &dyn Fn(&str)) {
    let (slot, span, threads) = (plan.slot, plan.span, readings.cores.unwrap_or(1));
    let time = show_duration(span);
    let mut wall = WallWatch::default();
    tell(&format!("how late a thread wakes, {time}"));
    readings.idle = beat::lateness(slot, span, &mut wall);
    tell(&format!("the same under a load of {threads} threads, {time}"));
    let before = host::ticks();
    readings.loaded = beat::under_load(threads, span, || beat::lateness(slot, span, &mut wall)).flatten();
    readings.ticks = before.zip(host::ticks()).map(|(before, after)| after.since(before));
    if let Some(directory) = &plan.state {
        tell(&format!("what a sync costs in {}, {time}", directory.display()));
        readings.state = Some(state::measure(directory, slot, span));
    }
    readings.wall_step_us = wall.largest_step_us();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_examined_and_told_what_is_measured() {
        let told = std::cell::RefCell::new(Vec::new());
        let plan = Plan { slot: Micros::from_ms(1), span: Micros::from_ms(20), state: None };
        let report = examine(&plan, &|what| told.borrow_mut().push(what.to_owned()));
        assert_eq!(told.borrow().len(), 2);
        assert_eq!(report.verdict, Verdict::of(&report.findings));
        assert!(report.readings.idle.is_some_and(|idle| idle.count > 0));
        assert!(report.readings.state.is_none());
    }
}
