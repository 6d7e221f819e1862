//! `preclaim latency`: how long slots and answers take, as a distribution over time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::ExitCode;
use super::complaint::Complaint;
use super::output::{self, Format, Output, json};
use super::times::{self, Wall, length};
use super::watching::{self, Scrape, Spread, Watched, Watching};
use crate::types::{Micros, Time};

const EXAMPLE: &str = "\
Examples:
  $ preclaim latency                                # each second a line: from a slot's end to its last news sent
  $ preclaim latency --of persist --every 5s        # how long making records durable takes
  $ preclaim latency --once                         # every phase, since the coordinator's start
  $ preclaim latency --output json | jq '.phases.decision.p99_us'

Each cell is a bucket of the coordinator's histogram (/metrics), the darker the more fell into it:
  ·· up to 2 %   ░░ up to 10 %   ▒▒ up to 30 %   ▓▓ up to 60 %   ██ above
Where standard output is no terminal each line is JSON and has all phases.";

/// Lines after which the scale is shown again.
const SCALE_AGAIN: usize = 20;
/// Columns of one cell.
const CELL: usize = 2;

/// See how long slots and answers take, as a distribution over time
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Of what
    #[arg(long, value_enum, value_name = "PHASE", default_value = "sent")]
    of: Phase,
    /// All phases, since the coordinator's start
    #[arg(long)]
    once: bool,
    /// How long each line is of
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = watching::every)]
    every: Duration,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    watching: Watching,
}

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Phase {
    /// From a slot's end to when the slot loop was awake for it
    Lag,
    /// Taking a slot's messages out of the queue
    Collect,
    /// Deciding it
    Resolve,
    /// Making its record durable
    Persist,
    /// Handing its decisions to the connections
    Publish,
    /// The whole slot: from its end to when the last of its news for one connection had been handed to the kernel
    Sent,
    /// From the arrival of what was asked to its decision being handed to the connections, waits included
    Decision,
    /// What those waited who were not placed in their first slot
    Wait,
}

impl Phase {
    /// Those within a slot, and those that agents see: their buckets differ.
    const GROUPS: [&[Phase]; 2] = [
        &[Phase::Lag, Phase::Collect, Phase::Resolve, Phase::Persist, Phase::Publish, Phase::Sent],
        &[Phase::Decision, Phase::Wait],
    ];

    fn as_str(self) -> &'static str {
        match self {
            Phase::Lag => "lag",
            Phase::Collect => "collect",
            Phase::Resolve => "resolve",
            Phase::Persist => "persist",
            Phase::Publish => "publish",
            Phase::Sent => "sent",
            Phase::Decision => "decision",
            Phase::Wait => "wait",
        }
    }

    fn of(self, metrics: &Scrape) -> Spread {
        match self {
            Phase::Lag => metrics.spread("preclaim_slot_lag_seconds", None),
            Phase::Sent => metrics.spread("preclaim_slot_sent_seconds", None),
            Phase::Wait => metrics.spread("preclaim_wait_seconds", None),
            Phase::Decision => {
                let outcomes =
                    metrics.by_label("preclaim_decision_seconds_count").map(|(outcome, _)| outcome);
                metrics.spreads("preclaim_decision_seconds", "outcome", outcomes)
            }
            _ => metrics.spread("preclaim_slot_work_seconds", Some(("phase", self.as_str()))),
        }
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    args.watching.run(async |watched: &Watched| {
        let ended = if args.once { once(args, watched).await } else { go_on(args, watched).await };
        ended.unwrap_or_else(|why| why.say())
    })
}

async fn once(args: &Args, watched: &Watched) -> Result<ExitCode, Complaint> {
    let metrics = watched.metrics().await?;
    let line = Line::of(&metrics, None, times::now(), None);
    Ok(match args.output.format() {
        Format::Json => output::print(format_args!("{}\n", json(&line))),
        Format::Table => output::print(format_args!("{}", table(&metrics))),
    })
}

/// A line for each stretch of time, until nobody reads it any more.
async fn go_on(args: &Args, watched: &Watched) -> Result<ExitCode, Complaint> {
    let format = args.output.format();
    let (mut before, mut since) = (watched.metrics().await?, times::now());
    for number in 0_usize.. {
        tokio::time::sleep(args.every).await;
        let (metrics, now) = (watched.metrics().await?, times::now());
        let line = match format {
            Format::Json => json(&Line::of(&metrics, Some(&before), now, Some(now.since(since)))) + "\n",
            Format::Table => {
                let spread = args.of.of(&metrics).since(&args.of.of(&before));
                let scale = if number.is_multiple_of(SCALE_AGAIN) {
                    scale(args.of.as_str(), &spread)
                } else {
                    String::new()
                };
                let clock = Wall::at(now).clock(now);
                scale + &row(clock.split('.').next().unwrap_or(&clock), &spread)
            }
        };
        if let Err(error) = output::write(format_args!("{line}")) {
            return Ok(output::failed(&error));
        }
        (before, since) = (metrics, now);
    }
    Ok(ExitCode::Done)
}

/// For programs. Times in µs.
#[derive(Serialize)]
struct Line {
    at: Time,
    /// Over how long; none: since the coordinator's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    over_us: Option<Micros>,
    phases: BTreeMap<&'static str, Distribution>,
}

#[derive(Serialize)]
struct Distribution {
    count: u64,
    sum_us: u64,
    p50_us: Option<Micros>,
    p90_us: Option<Micros>,
    p99_us: Option<Micros>,
    /// Upper bound (none for the last one) and how many are in it.
    buckets: Vec<(Option<u64>, u64)>,
}

impl Line {
    fn of(metrics: &Scrape, before: Option<&Scrape>, at: Time, over_us: Option<Micros>) -> Self {
        let phases = Phase::GROUPS.into_iter().flatten();
        let spread = |phase: &Phase| match before {
            Some(before) => phase.of(metrics).since(&phase.of(before)),
            None => phase.of(metrics),
        };
        let phases = phases.map(|phase| (phase.as_str(), Distribution::of(&spread(phase)))).collect();
        Line { at, over_us, phases }
    }
}

impl Distribution {
    fn of(spread: &Spread) -> Self {
        let us = |seconds: f64| (seconds * 1e6).round() as u64;
        let bucket = |(bound, count): &(f64, f64)| (bound.is_finite().then(|| us(*bound)), *count as u64);
        Distribution {
            count: spread.count() as u64,
            sum_us: us(spread.sum()),
            p50_us: spread.quantile(0.5),
            p90_us: spread.quantile(0.9),
            p99_us: spread.quantile(0.99),
            buckets: spread.buckets().iter().map(bucket).collect(),
        }
    }
}

/// Every phase, since the coordinator's start.
fn table(metrics: &Scrape) -> String {
    let mut text = String::new();
    for group in Phase::GROUPS {
        let spreads: Vec<_> = group.iter().map(|phase| (phase.as_str(), phase.of(metrics))).collect();
        let head = spreads.first().map_or(String::new(), |(_, spread)| scale("", spread));
        text += &head;
        spreads.iter().for_each(|(name, spread)| text += &row(name, spread));
        text.push('\n');
    }
    text.pop();
    text
}

/// The upper bounds of some buckets, each where its bucket ends.
fn scale(name: &str, spread: &Spread) -> String {
    let mut line = format!("{name:8}  ");
    for bounds in spread.buckets().chunks(3) {
        let bound = bounds.last().map_or(0.0, |(bound, _)| *bound);
        let label = if bounds.len() == 3 && bound.is_finite() { short(bound) } else { String::new() };
        let width = CELL * bounds.len();
        line += &format!("{label:>width$}");
    }
    format!("{line}  {:>8} {:>9} {:>9}\n", "n", "p50", "p99")
}

/// One distribution, with its name or its time before it.
fn row(name: &str, spread: &Spread) -> String {
    let count = spread.count();
    let cells: String = spread.buckets().iter().map(|(_, inside)| shade(inside / count.max(1.0))).collect();
    let at = |share| spread.quantile(share).map_or_else(|| "–".to_owned(), length);
    format!("{name:8}  {cells}  {count:>8.0} {:>9} {:>9}\n", at(0.5), at(0.99))
}

fn shade(share: f64) -> &'static str {
    match share {
        _ if share <= 0.0 => "  ",
        _ if share <= 0.02 => "··",
        _ if share <= 0.1 => "░░",
        _ if share <= 0.3 => "▒▒",
        _ if share <= 0.6 => "▓▓",
        _ => "██",
    }
}

/// A bound in as few letters as it takes: `25µs`, `2.5ms`, `1s`.
fn short(seconds: f64) -> String {
    match seconds {
        _ if seconds < 0.999e-3 => format!("{}µs", (seconds * 1e6).round()),
        _ if seconds < 0.999 => format!("{}ms", (seconds * 1e4).round() / 10.0),
        _ => format!("{}s", (seconds * 10.0).round() / 10.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a phase, so many up to each bound.
    fn metrics(counts: [u64; 4]) -> Scrape {
        let bounds = ["0.000025", "0.0025", "0.25", "+Inf"];
        let lines = bounds
            .iter()
            .zip(counts)
            .map(|(bound, count)| format!("preclaim_slot_sent_seconds_bucket{{le=\"{bound}\"}} {count}\n"));
        let decided = "preclaim_decision_seconds_count{outcome=\"granted\"} 3\n\
                       preclaim_decision_seconds_bucket{le=\"0.01\",outcome=\"granted\"} 1\n\
                       preclaim_decision_seconds_bucket{le=\"+Inf\",outcome=\"granted\"} 3\n";
        Scrape::read(&(lines.collect::<String>() + "preclaim_slot_sent_seconds_sum 0.5\n" + decided))
    }

    #[test]
    fn a_line_shows_what_fell_into_each_bucket_and_the_scale_where_each_ends() {
        let spread = Phase::Sent.of(&metrics([1, 75, 100, 100]));
        let scale = scale("sent", &spread);
        assert_eq!(scale, "sent       250ms           n       p50       p99\n");
        assert_eq!(row("10:30:58", &spread), "10:30:58  ··██▒▒         100      1 ms    240 ms\n");
        let nothing = spread.since(&spread);
        assert_eq!(row("10:30:59", &nothing), "10:30:59                   0         –         –\n");
    }

    #[test]
    fn shades_and_bounds_are_told_apart() {
        let shades = [0.0, 0.02, 0.1, 0.3, 0.6, 1.0].map(shade);
        assert_eq!(shades, ["  ", "··", "░░", "▒▒", "▓▓", "██"]);
        let bounds = [0.000_005, 0.000_25, 0.001, 0.002_5, 0.25, 1.0, 2.5, 300.0].map(short);
        assert_eq!(bounds, ["5µs", "250µs", "1ms", "2.5ms", "250ms", "1s", "2.5s", "300s"]);
    }

    #[test]
    fn as_json_it_has_every_phase_and_what_was_added() {
        let (before, now) = (metrics([1, 2, 3, 3]), metrics([1, 4, 6, 7]));
        let at = Time::from_us(9);
        let line = serde_json::to_value(Line::of(&now, Some(&before), at, Some(Micros::from_us(4)))).unwrap();
        assert_eq!((&line["at"], &line["over_us"]), (&9.into(), &4.into()));
        assert_eq!(line["phases"].as_object().unwrap().len(), 8);
        let sent = &line["phases"]["sent"];
        assert_eq!(sent["count"], 4);
        assert_eq!(sent["buckets"], serde_json::json!([[25, 0], [2_500, 2], [250_000, 1], [null, 1]]));
        let whole = serde_json::to_value(Line::of(&now, None, at, None)).unwrap();
        assert_eq!(whole.get("over_us"), None);
        assert_eq!(whole["phases"]["decision"]["count"], 3);
        assert_eq!(whole["phases"]["lag"]["p50_us"], serde_json::Value::Null);
    }
}
