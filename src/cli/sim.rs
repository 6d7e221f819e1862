//! `preclaim sim`: everything fails, from a seed, and nothing may be granted twice, lost or left over.

use std::hash::{BuildHasher, RandomState};

use serde::Serialize;

use super::ExitCode;
use super::output::{self, Format, Output};
use crate::config::{DURATION_RULE, parse_duration, show_duration};
use crate::limits::{SLOT_MAX, SLOT_MIN};
use crate::sim::{Failure, Report, simulate};
use crate::types::Micros;

const EXAMPLE: &str = "\
Example:
  $ preclaim sim --seed 42 --for 10m     # what happens from seed 42, for ten minutes of virtual time
  $ preclaim sim --seeds 1000 --for 20s  # a thousand seeds

Agents, a coordinator, the network between them, their clocks and a disk run in this
process on virtual time, and all of them fail. The same seed, time and version have the
same digest. Where something is wrong it ends with 1, and says what, when, and how to see
it again. docs/SIMULATION.md says what is modelled.";

/// Have everything fail, from a seed, and see that what must hold does
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// The first seed [default: drawn by chance]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many seeds, one after the other
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Virtual time with faults, for each seed; some more follows in which all has to be settled
    #[arg(long = "for", value_name = "TIME", default_value = "1m", value_parser = duration)]
    span: Micros,
    /// The coordinator's slot length
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = slot)]
    slot: Micros,
    /// How much of what happened last is told where something is wrong, in lines
    #[arg(long, value_name = "LINES", default_value_t = 400)]
    last: u32,
    #[command(flatten)]
    output: Output,
}

fn duration(text: &str) -> Result<Micros, String> {
    parse_duration(text).ok_or_else(|| DURATION_RULE.to_owned())
}

fn slot(text: &str) -> Result<Micros, String> {
    let within = |slot: &Micros| (SLOT_MIN..=SLOT_MAX).contains(slot);
    parse_duration(text).filter(within).ok_or_else(|| "it must be 100us to 1s".to_owned())
}

pub(super) fn run(args: &Args) -> ExitCode {
    let first = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
    for seed in first..=first.saturating_add(args.seeds - 1) {
        let told = match simulate(seed, args.slot, args.span, args.last as usize) {
            Ok(report) => tell(&report, args.output.format()),
            Err(failure) => return tell_failure(&failure, args),
        };
        if told != ExitCode::Done {
            return told;
        }
    }
    ExitCode::Done
}

#[derive(Serialize)]
struct Line<'a> {
    seed: u64,
    digest: String,
    happened: u64,
    counts: &'a std::collections::BTreeMap<&'static str, u64>,
}

fn tell(report: &Report, format: Format) -> ExitCode {
    let digest = format!("{:032x}", report.digest);
    let Report { seed, happened, counts, .. } = report;
    match format {
        Format::Json => {
            let line = Line { seed: *seed, digest, happened: *happened, counts };
            output::print(format_args!("{}\n", output::json(&line)))
        }
        Format::Table => {
            let counts: String =
                counts.iter().map(|(what, count)| format!("  {count:>9}  {what}\n")).collect();
            output::print(format_args!("seed {seed}  digest {digest}  {happened} events\n{counts}"))
        }
    }
}

#[derive(Serialize)]
struct FailureLine<'a> {
    seed: u64,
    failed: &'a str,
    why: &'a str,
    at_us: u64,
    again: &'a str,
}

fn tell_failure(failure: &Failure, args: &Args) -> ExitCode {
    let Failure { seed, invariant, why, at, last } = failure;
    let (span, slot) = (show_duration(args.span), show_duration(args.slot));
    let again = format!("preclaim sim --seed {seed} --slot {slot} --for {span}");
    last.iter().for_each(output::talk);
    if args.output.format() == Format::Json {
        let line = FailureLine { seed: *seed, failed: invariant, why, at_us: at.as_us(), again: &again };
        let told = output::print(format_args!("{}\n", output::json(&line)));
        return if told == ExitCode::Done { ExitCode::Failure } else { told };
    }
    output::complain(format_args!(
        "seed {seed}, after {:.6} s of virtual time: {invariant}\n  {why}\n  again   {again}",
        at.as_us() as f64 / 1e6
    ));
    ExitCode::Failure
}
