//! How much a coordinator bears: the rate is raised until its slots run late, and what keeps them is
//! named.

use std::fmt;

use serde::Serialize;

use super::machine::{Build, Machine};
use super::table::header;
use super::{BenchError, Place, Plan, PlanError, Quantiles, Report, run};
use crate::types::Micros;

/// By how much the rate grows from step to step, until one is too much.
const GROWTH: f64 = 2.0;
/// Steps of growth at most: from one declaration a second to a million.
const GROWING: usize = 20;
/// Steps between the last good rate and the first bad one: they end within a tenth of each other.
const NARROWING: usize = 3;
/// Tries of one rate: on a machine that others use, one that fails may be their doing.
const TRIES: usize = 2;
/// How long a step is measured, and how long it runs before that.
const STEP: (Micros, Micros) = (Micros::from_ms(1_200), Micros::from_ms(300));
/// Of a hundred slots, how many may be late in a good step: a shared machine stops any process for
/// longer than a slot now and then.
const LATE_PER_CENT: u64 = 1;

/// What ends first as the rate rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Bottleneck {
    /// The processor as a whole: the slot loop's thread does not get a core in time.
    Wake,
    /// Taking a slot's messages out of the queue.
    Collect,
    /// Deciding.
    Resolve,
    /// Making the record durable.
    Persist,
    /// Making messages of decisions.
    Publish,
    /// Encrypting and sending: processor time of the tasks that write.
    SenderCpu,
    /// The socket takes no more.
    Socket,
    /// The coordinator refuses more: a limit of its configuration.
    Refusals,
    /// The load itself cannot keep its schedule; the coordinator may bear more.
    Load,
    /// Nothing, as far as the rate was raised.
    NotReached,
}

impl Bottleneck {
    /// What it is, in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Bottleneck::Wake => "processor: all cores are busy, and the slot loop does not get one in time",
            Bottleneck::Collect => "collect: taking the slot's messages out of the queue",
            Bottleneck::Resolve => "resolve: deciding",
            Bottleneck::Persist => "persist: making the record durable",
            Bottleneck::Publish => "publish: making messages of decisions",
            Bottleneck::SenderCpu => "sender: processor time of encrypting and sending",
            Bottleneck::Socket => "socket: it takes no more datagrams",
            Bottleneck::Refusals => "refusals: a limit of the coordinator's configuration",
            Bottleneck::Load => "the load itself, which cannot keep its schedule on this machine",
            Bottleneck::NotReached => "nothing, as far as the rate was raised",
        }
    }
}

/// One rate that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Declarations a second, of each agent.
    pub rate: f64,
    /// Decisions a second, of all.
    pub decisions_per_second: f64,
    /// What gave way, or `None` where all went well.
    pub gave_way: Option<Bottleneck>,
    /// What was measured.
    pub report: Report,
}

/// How much a coordinator bears.
#[derive(Clone, Debug, Serialize)]
pub struct LimitReport {
    /// How it was asked for.
    pub command: String,
    /// What was measured with.
    pub build: Build,
    /// On what.
    pub machine: Machine,
    /// Every rate that was tried, in order.
    pub steps: Vec<Step>,
    /// The highest rate at which all went well: declarations a second of each agent.
    pub last_good_rate: Option<f64>,
    /// Decisions a second of all agents at that rate.
    pub last_good_decisions_per_second: Option<f64>,
    /// What gave way above it.
    pub limited_by: Bottleneck,
}

/// Raises the rate from the plan's until slots run late, then narrows the limit down. Each step is a
/// measurement of its own, a second and a half long, with a coordinator of its own.
///
/// # Errors
/// As [`run`]; and for a coordinator elsewhere, whose slots cannot be seen.
///
/// # Panics
/// Inside a tokio runtime.
pub fn find_limit(plan: &Plan, command: &str, tell: &dyn Fn(&str)) -> Result<LimitReport, BenchError> {
    if matches!(plan.place, Place::Remote(_)) {
        let may_be = "used without --addr: only a coordinator in this process shows its slots".to_owned();
        return Err(PlanError { what: "--find-limit", may_be }.into());
    }
    if plan.keep.as_ref().is_some_and(|keep| keep.dir.is_some()) {
        let may_be = "left out with --find-limit: each step begins with a fresh one".to_owned();
        return Err(PlanError { what: "--state-dir", may_be }.into());
    }
    let mut search = Search { plan, command, tell, steps: Vec::new() };
    let (mut good, mut bad) = (None, None);
    let mut rate = plan.rate;
    for _ in 0..GROWING {
        match search.try_rate(rate)? {
            None => good = Some(rate),
            Some(why) => {
                bad = Some((rate, why));
                break;
            }
        }
        if search.at(rate * GROWTH).check().is_err() {
            break;
        }
        rate *= GROWTH;
    }
    if let (Some(mut low), Some((mut high, mut why))) = (good, bad) {
        for _ in 0..NARROWING {
            let middle = (low * high).sqrt();
            match search.try_rate(middle)? {
                None => low = middle,
                Some(other) => (high, why) = (middle, other),
            }
        }
        (good, bad) = (Some(low), Some((high, why)));
    }
    Ok(search.report(good, bad.map_or(Bottleneck::NotReached, |(_, why)| why)))
}

struct Search<'a> {
    plan: &'a Plan,
    command: &'a str,
    tell: &'a dyn Fn(&str),
    steps: Vec<Step>,
}

impl Search<'_> {
    fn at(&self, rate: f64) -> Plan {
        Plan { rate, duration: STEP.0, warmup: STEP.1, ..self.plan.clone() }
    }

    /// What gave way at `rate`, each time.
    fn try_rate(&mut self, rate: f64) -> Result<Option<Bottleneck>, BenchError> {
        let mut gave_way = None;
        for _ in 0..TRIES {
            gave_way = self.try_once(rate)?;
            if gave_way.is_none() {
                break;
            }
        }
        Ok(gave_way)
    }

    fn try_once(&mut self, rate: f64) -> Result<Option<Bottleneck>, BenchError> {
        let of_all = rate * self.plan.agents as f64;
        let tell = |what: &str| (self.tell)(&format!("{of_all:.0} declarations a second: {what}"));
        let report = run(&self.at(rate), self.command, &tell)?;
        let gave_way = gave_way(&report);
        self.steps.push(Step { rate, decisions_per_second: report.decisions_per_second, gave_way, report });
        Ok(gave_way)
    }

    fn report(self, good: Option<f64>, limited_by: Bottleneck) -> LimitReport {
        let at_good = |step: &&Step| Some(step.rate) == good && step.gave_way.is_none();
        let decisions = self.steps.iter().find(at_good).map(|step| step.decisions_per_second);
        LimitReport {
            command: self.command.to_owned(),
            build: Build::this(),
            machine: Machine::this(),
            steps: self.steps,
            last_good_rate: good,
            last_good_decisions_per_second: decisions,
            limited_by,
        }
    }
}

/// Slots are late where the loop's work, or the last datagram, overran the next boundary more often
/// than now and then; what took most of the time then is what gave way.
fn gave_way(report: &Report) -> Option<Bottleneck> {
    if report.errors > 0 {
        let is_own = |why: &&&str| matches!(**why, "not_sent" | "no_answer" | "connection_lost");
        let own = report.errors_by_reason.keys().filter(is_own).count();
        let refused = own < report.errors_by_reason.len();
        return Some(if refused { Bottleneck::Refusals } else { longest(report) });
    }
    let length = report.load.slot_us;
    let late = report.slots.is_some_and(|slots| slots.late * 100 > slots.run * LATE_PER_CENT);
    if late || report.last_sent.is_some_and(|last| last.p99 > length) {
        return Some(longest(report));
    }
    let behind = report.load_delay.is_some_and(|delay| delay.p99 > length);
    behind.then_some(Bottleneck::Load)
}

/// The step of a slot that takes longest at p90 (p99 is often the machine's doing), or the load, where
/// its own delay is longer. Of the slot loop's waking counts what it takes beyond the bare thread's.
fn longest(report: &Report) -> Bottleneck {
    let Some(phases) = report.phases else { return Bottleneck::Load };
    let send = match report.socket_full {
        Some(1..) => Bottleneck::Socket,
        _ => Bottleneck::SenderCpu,
    };
    let bare = report.bare.map_or(0, |bare| bare.p90);
    let wake = phases.wake.map(|wake| Quantiles { p90: wake.p90.saturating_sub(bare), ..wake });
    let steps = [
        (wake, Bottleneck::Wake),
        (phases.collect, Bottleneck::Collect),
        (phases.resolve, Bottleneck::Resolve),
        (phases.persist, Bottleneck::Persist),
        (phases.publish, Bottleneck::Publish),
        (phases.send, send),
        (report.load_delay, Bottleneck::Load),
    ];
    let spans = steps.iter().filter_map(|(span, which)| Some((span.as_ref()?.p90, *which)));
    spans.max_by_key(|(p90, _)| *p90).map_or(Bottleneck::Load, |(_, which)| which)
}

impl fmt::Display for LimitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n", self.command, header(&self.build, &self.machine))?;
        writeln!(
            f,
            "{:>12}{:>12}{:>12}{:>12}{:>12}{:>8}  gave way",
            "rate/agent", "decisions/s", "whole p99", "last p99", "bare p99", "late"
        )?;
        for Step { rate, decisions_per_second, gave_way, report } in &self.steps {
            let p99 = |of: Option<Quantiles>| of.map_or("-".to_owned(), |of| of.p99.to_string());
            let (whole, last, bare) = (p99(report.whole), p99(report.last_sent), p99(report.bare));
            let late = report.slots.map_or("-".to_owned(), |slots| format!("{}/{}", slots.late, slots.run));
            let gave_way = gave_way.map_or("", Bottleneck::as_str);
            writeln!(
                f,
                "{rate:>12.1}{decisions_per_second:>12.0}{whole:>12}{last:>12}{bare:>12}{late:>8}  {gave_way}"
            )?;
        }
        match (self.last_good_rate, self.last_good_decisions_per_second) {
            (Some(rate), Some(decisions)) => {
                writeln!(
                    f,
                    "\nlast good rate: {rate:.1}/s of each agent, {decisions:.0} decisions a second"
                )?;
            }
            _ => writeln!(f, "\nno good rate: already the first is too much")?,
        }
        writeln!(f, "limited by {}", self.limited_by.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::report::{Load, Phases, Slots, Sockets};

    fn all(us: u64) -> Option<Quantiles> {
        Some(Quantiles { count: 100, p50: us, p90: us, p99: us, p999: us, max: us })
    }

    /// A second of slots of 10 ms, all decided in a millisecond.
    fn at_ease() -> Report {
        let load = Load {
            agents: 10,
            rate: 10.0,
            conflict: 0.1,
            connections: 10,
            duration_us: 1_000_000,
            warmup_us: 0,
            slot_us: 10_000,
            seed: 1,
            in_process: true,
            burst: false,
            busy: 0,
            realtime: None,
            lock_memory: false,
            cores: Vec::new(),
            network_cores: Vec::new(),
        };
        let phases = Phases {
            wake: all(50),
            collect: all(2),
            resolve: all(300),
            persist: all(1),
            publish: all(200),
            send: all(400),
        };
        Report {
            command: String::new(),
            build: Build::this(),
            machine: Machine::this(),
            load,
            declared: 100,
            decided: 100,
            granted: 90,
            conflicts: 10,
            errors: 0,
            errors_by_reason: BTreeMap::new(),
            decisions_per_second: 100.0,
            slots: Some(Slots { run: 100, late: 1, caught_up: 0 }),
            whole: all(6_000),
            wait: all(5_000),
            work: all(900),
            network: all(100),
            to_coordinator: all(60),
            to_agent: all(40),
            first_sent: all(600),
            last_sent: all(950),
            bare: all(40),
            load_delay: all(60),
            phases: Some(phases),
            socket_full: Some(0),
            sockets: Sockets { buffers: None, lost_by_coordinator: Some(0), lost_by_load: Some(0) },
            bursts: None,
            log: None,
        }
    }

    fn of(change: impl FnOnce(&mut Report, &mut Phases)) -> Option<Bottleneck> {
        let mut report = at_ease();
        let mut phases = report.phases.expect("it has them");
        change(&mut report, &mut phases);
        report.phases = Some(phases);
        gave_way(&report)
    }

    #[test]
    fn a_slot_in_a_hundred_may_be_late() {
        assert_eq!(of(|_, _| ()), None);
        let late = Slots { run: 100, late: 2, caught_up: 0 };
        assert_eq!(of(|report, _| report.slots = Some(late)), Some(Bottleneck::SenderCpu));
    }

    #[test]
    fn what_takes_longest_gave_way() {
        let late = |report: &mut Report| report.last_sent = all(10_001);
        let with = |change: fn(&mut Report, &mut Phases)| {
            of(|report, phases| {
                late(report);
                change(report, phases);
            })
        };
        assert_eq!(with(|_, phases| phases.resolve = all(9_000)), Some(Bottleneck::Resolve));
        assert_eq!(with(|_, phases| phases.collect = all(9_000)), Some(Bottleneck::Collect));
        assert_eq!(with(|_, phases| phases.persist = all(9_000)), Some(Bottleneck::Persist));
        assert_eq!(with(|_, phases| phases.publish = all(9_000)), Some(Bottleneck::Publish));
        assert_eq!(with(|_, phases| phases.wake = all(9_000)), Some(Bottleneck::Wake));
        assert_eq!(with(|report, _| report.socket_full = Some(3)), Some(Bottleneck::Socket));
        assert_eq!(with(|report, _| report.load_delay = all(9_000)), Some(Bottleneck::Load));
    }

    #[test]
    fn waking_late_is_no_fault_of_the_rate_where_a_bare_thread_does_too() {
        let gave_way = of(|report, phases| {
            report.last_sent = all(10_001);
            (report.bare, phases.wake) = (all(9_000), all(9_100));
        });
        assert_eq!(gave_way, Some(Bottleneck::SenderCpu));
    }

    #[test]
    fn refusals_are_told_apart_from_what_never_came() {
        let with = |why: &'static str| {
            of(|report, _| {
                report.errors = 1;
                report.errors_by_reason = BTreeMap::from([(why, 1)]);
            })
        };
        assert_eq!(with("overloaded"), Some(Bottleneck::Refusals));
        assert_eq!(with("no_answer"), Some(Bottleneck::SenderCpu));
    }

    #[test]
    fn a_load_that_is_behind_its_schedule_proves_nothing() {
        assert_eq!(of(|report, _| report.load_delay = all(10_001)), Some(Bottleneck::Load));
    }
}
