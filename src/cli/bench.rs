//! `preclaim bench`: slot latency on this machine.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{RangedI64ValueParser, RangedU64ValueParser};
use serde::Serialize;

use super::ExitCode;
use super::output::{self, Progress};
use crate::bench::{self, BenchError, Keep, Place, Plan, Threshold, find_limit};
use crate::client::{ClientBuilder, ConnectError};
use crate::config::{self, DURATION_RULE, parse_duration};
use crate::host::HostConfig;
use crate::limits::{CORES, REALTIME_RANGE, SYNC_INTERVAL};
use crate::types::Micros;

const EXAMPLE: &str = "\
Example:
  $ preclaim bench                                   # 100 agents, 10 declarations a second each
  $ preclaim bench --agents 500 --rate 20 --conflict 30% --output json
  $ preclaim bench --fail 'p99>13ms' --fail 'last_over_bare>1ms' --fail 'errors>0'
  $ preclaim bench --durability slot --fail 'last_over_fdatasync>1ms'
  $ preclaim bench --agents 1000 --rate 1 --burst --slot 100ms --fail 'lost>0'
  $ sudo preclaim bench --busy 2 --realtime 10       # beside other work, with real-time priority
  $ preclaim bench --find-limit                      # how much this machine bears
  $ preclaim bench --addr 127.0.0.1:7411 --ca ca.pem # a coordinator that runs

Each declaration is due on a fixed schedule and measured from there, whether or not
those before it have been answered. Times in JSON are microseconds. docs/BENCH.md
says what is measured between which points.

A figure of --fail is p50, p90, p99, p999 or max of the whole, or with a name in front:
wait_, work_, network_, to_coordinator_, to_agent_, load_delay_, first_sent_, last_sent_,
bare_, wake_, collect_, resolve_, publish_, send_ (work_p99>1ms); or first_over_bare,
last_over_bare (p99 less the bare thread's p99), late, lost, errors, decisions_per_second. With --durability also persist_, fdatasync_, bare_sync_, and
persist_over_fdatasync, last_over_fdatasync, last_over_bare_sync. Where one is over its value, or was not measured, it ends with 99.";

/// Measure how fast slots are decided and answered
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Agents, each with a schedule of its own
    #[arg(long, value_name = "N", default_value_t = 100)]
    agents: usize,
    /// Declarations a second of each agent
    #[arg(long, value_name = "PER_SECOND", default_value_t = 10.0)]
    rate: f64,
    /// Share of the declarations on paths that all contend for
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = share)]
    conflict: f64,
    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    duration: Micros,
    /// How long to run before that
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    warmup: Micros,
    /// Slot length of the coordinator in this process
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = duration, conflicts_with = "addr")]
    slot: Micros,
    /// A coordinator that runs, instead of one in this process; what only it can see is not measured
    #[arg(long, value_name = "HOST:PORT")]
    addr: Option<String>,
    /// Certificates to trust there [default: PRECLAIM_CA, or those of `preclaim dev` on this machine]
    #[arg(long, value_name = "FILE", requires = "addr")]
    ca: Option<PathBuf>,
    /// Keep an audit log, and measure it: when a slot's record is on disk. Without this, none is kept
    #[arg(long, value_name = "WHEN", conflicts_with = "addr")]
    durability: Option<Durability>,
    /// The state directory; one with a state is gone on from: take a copy [default: a fresh one among
    /// the temporary files, removed in the end]
    #[arg(long, value_name = "DIR", requires = "durability", conflicts_with = "find_limit")]
    state_dir: Option<PathBuf>,
    /// Grants in force that a fresh state directory is begun with
    #[arg(
        long,
        value_name = "N",
        requires = "durability",
        conflicts_with = "find_limit",
        default_value_t = 0
    )]
    grants: u64,
    /// Connections, over which the agents are dealt out [default: one for each agent]
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// All agents declare at once, as a slot begins, and not spread over the time
    #[arg(long, conflicts_with = "find_limit")]
    burst: bool,
    /// Threads that compute all the while, as other work on the machine would
    #[arg(long, value_name = "N", default_value_t = 0)]
    busy: usize,
    /// Real-time priority of the coordinator's slot loop, as [host] realtime; its connections have one less
    #[arg(long, value_name = "PRIORITY", conflicts_with = "addr", value_parser = priority())]
    realtime: Option<u8>,
    /// Keep all memory in memory, as [host] lock_memory
    #[arg(long, conflicts_with = "addr")]
    lock_memory: bool,
    /// Cores of the slot loop, as [host] cores: 1 or 1,3
    #[arg(long, value_name = "CORES", conflicts_with = "addr", value_delimiter = ',', value_parser = core())]
    cores: Vec<usize>,
    /// Cores of the coordinator's connections, as [host] network_cores
    #[arg(long, value_name = "CORES", conflicts_with = "addr", value_delimiter = ',', value_parser = core())]
    network_cores: Vec<usize>,
    /// What the schedule and the conflicting declarations are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Raise the rate from --rate until slots run late; say how far it went and what limits it
    #[arg(long, conflicts_with_all = ["addr", "duration", "warmup", "fail"])]
    find_limit: bool,
    /// End with 99 where this holds, as in 'p99>12ms'; may be given several times
    #[arg(long, value_name = "CONDITION")]
    fail: Vec<Threshold>,
    /// For people, or for programs [default: table on a terminal, else json]
    #[arg(long, value_name = "FORM")]
    output: Option<Form>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Durability {
    /// Before anything of the slot is sent
    Slot,
    /// At most 50 ms after
    Interval,
    /// When the system writes it
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Table,
    Json,
}

fn priority() -> RangedI64ValueParser<u8> {
    let (least, most) = REALTIME_RANGE.into_inner();
    RangedI64ValueParser::new().range(i64::from(least)..=i64::from(most))
}

fn core() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..CORES as u64)
}

fn duration(text: &str) -> Result<Micros, String> {
    parse_duration(text).ok_or_else(|| format!("it must be {DURATION_RULE}"))
}

/// `10%` or `0.1`.
fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.parse::<f64>().ok().map(|number| number / scale);
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "it must be 0% to 100%".to_owned())
}

pub(super) fn run(args: Args) -> ExitCode {
    output::start_log();
    let form = args.output.unwrap_or(if io::stdout().is_terminal() { Form::Table } else { Form::Json });
    let (find, fail) = (args.find_limit, args.fail.clone());
    let plan = plan(args);
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let progress = Progress::start();
    let tell = |what: &str| progress.tell(what);
    if find {
        let found = find_limit(&plan, &command, &tell);
        progress.done();
        return found.map_or_else(|error| failed(&error), |report| show(form, &report, &report));
    }
    let report = bench::run(&plan, &command, &tell);
    progress.done();
    let report = match report {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    let shown = show(form, &report, &report);
    let broken: Vec<String> = fail.iter().filter_map(|threshold| threshold.fails(&report)).collect();
    broken.iter().for_each(output::complain);
    if shown == ExitCode::Done && !broken.is_empty() { ExitCode::ThresholdFailed } else { shown }
}

fn plan(args: Args) -> Plan {
    let place = match args.addr {
        None => Place::InProcess,
        Some(addr) => {
            let builder = ClientBuilder::default().addr(addr);
            Place::Remote(Box::new(match args.ca {
                Some(ca) => builder.ca(ca),
                None => builder,
            }))
        }
    };
    let keep = args.durability.map(|durability| Keep {
        durability: match durability {
            Durability::Slot => config::Durability::Slot,
            Durability::Interval => config::Durability::Interval(SYNC_INTERVAL),
            Durability::None => config::Durability::None,
        },
        dir: args.state_dir,
        grants: args.grants,
    });
    Plan {
        agents: args.agents,
        rate: args.rate,
        conflict: args.conflict,
        duration: args.duration,
        warmup: args.warmup,
        slot: args.slot,
        connections: args.connections,
        seed: args.seed,
        place,
        keep,
        burst: args.burst,
        busy: args.busy,
        host: HostConfig {
            realtime: args.realtime,
            lock_memory: args.lock_memory,
            cores: args.cores,
            network_cores: args.network_cores,
        },
    }
}

fn show(form: Form, data: &impl Serialize, table: &impl std::fmt::Display) -> ExitCode {
    match form {
        Form::Table => output::print(format_args!("{table}")),
        Form::Json => match serde_json::to_string(data) {
            Ok(json) => output::print(format_args!("{json}\n")),
            Err(error) => {
                output::complain(error);
                ExitCode::Failure
            }
        },
    }
}

fn failed(error: &BenchError) -> ExitCode {
    let BenchError::Connect(connect) = error else {
        output::complain(error);
        return if matches!(error, BenchError::Plan(_)) { ExitCode::Usage } else { ExitCode::Failure };
    };
    output::complain(format_args!("{connect}\n  do      {}", connect.hint()));
    match connect.cause() {
        ConnectError::BadAddress { .. } | ConnectError::BadCa { .. } | ConnectError::BadIdentity { .. } => {
            ExitCode::Usage
        }
        ConnectError::NotTrusted { .. }
        | ConnectError::NameRefused { .. }
        | ConnectError::AnothersName { .. }
        | ConnectError::CertificateRefused { .. }
        | ConnectError::TokenRefused { .. }
        | ConnectError::SessionLive => ExitCode::Refused,
        ConnectError::VersionMismatch { .. } => ExitCode::VersionMismatch,
        ConnectError::Busy { .. } => ExitCode::Overloaded,
        _ => ExitCode::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_or_a_fraction() {
        assert_eq!(share("10%"), Ok(0.1));
        assert_eq!(share("0.25"), Ok(0.25));
        assert_eq!(share("100%"), Ok(1.0));
        for wrong in ["", "%", "101%", "-1%", "1.5", "NaN", "ten"] {
            assert!(share(wrong).is_err(), "{wrong:?}");
        }
    }
}
