//! What a lossy way costs, and what both ends do about it: the tables of docs/BENCHMARKS.md, "Under loss".
//!
//! `cargo bench --bench loss -- [--table NAME] [--only TEXT] [--rounds 3] [--seconds 6] [--seed 1] [--markdown]`.
//! Real clients and a real coordinator, through a UDP proxy that delays and loses; open loop: each declaration
//! counts from the instant that it was due. Rows are run in turn, round after round, so that what the machine does
//! beside hits all of them alike. Ends with code 1 where a declaration had no decision.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // it reads its arguments and a clock

#[path = "loss/connecting.rs"]
mod connecting;
#[path = "loss/load.rs"]
mod load;
#[path = "loss/rows.rs"]
mod rows;
#[path = "../tests/udp_proxy/mod.rs"]
mod udp_proxy;

use std::process::ExitCode;
use std::time::Duration;

use load::{Came, Failed, Load, Way};
use rows::{CHOSEN, Row, Table};

struct Settings {
    table: Option<String>,
    only: Option<String>,
    rounds: u64,
    seconds: u64,
    seed: u64,
    is_markdown: bool,
    is_measured: bool,
}

fn main() -> ExitCode {
    let done = settings().and_then(|settings| match settings.is_measured {
        true => measure(&settings),
        false => try_out(),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn settings() -> Result<Settings, Failed> {
    let mut settings = Settings {
        table: None,
        only: None,
        rounds: 3,
        seconds: 6,
        seed: 1,
        is_markdown: false,
        is_measured: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--table" => settings.table = Some(value()?),
            "--only" => settings.only = Some(value()?),
            "--rounds" => settings.rounds = value()?.parse()?,
            "--seconds" => settings.seconds = value()?.parse()?,
            "--seed" => settings.seed = value()?.parse()?,
            "--markdown" => settings.is_markdown = true,
            "--bench" => settings.is_measured = true,
            _ => {}
        }
    }
    Ok(settings)
}

/// Where benches are only tried out: each kind of run for a moment.
fn try_out() -> Result<bool, Failed> {
    let moment = Load {
        agents: 4,
        rate: 50,
        burst: 2,
        warmup: Duration::from_millis(100),
        measured: Duration::from_millis(300),
    };
    let lossy = rows::lossy(0.05);
    let mut spread = CHOSEN;
    spread.lanes = Some(16);
    for (way, ends) in [(Way::Straight, CHOSEN), (lossy, CHOSEN), (lossy, rows::PLAIN), (lossy, spread)] {
        let came = load::run(&moment, way, ends, 1)?;
        if came.without > 0 || came.declared == 0 {
            return Err(
                format!("{} of {} without a decision: {:?}", came.without, came.declared, came.why).into()
            );
        }
    }
    connecting::took(CHOSEN, lossy, 4, 1)?;
    Ok(true)
}

/// Runs the tables that are wanted; whether nothing was left without a decision.
fn measure(settings: &Settings) -> Result<bool, Failed> {
    let is_wanted = |name: &str| settings.table.as_ref().is_none_or(|table| table == name);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let Settings { seed, rounds, seconds, .. } = settings;
    println!("{cores} cores, load {}; {rounds} rounds of {seconds} s, seed {seed}", load.trim());
    let mut all_decided = true;
    for mut table in rows::tables().into_iter().filter(|table| is_wanted(table.name)) {
        table.rows.retain(|row| settings.only.as_ref().is_none_or(|only| row.name.contains(only.as_str())));
        all_decided &= show(&table, settings)?;
    }
    if is_wanted("connect") {
        connecting::show(settings.rounds, settings.seed, settings.is_markdown)?;
    }
    Ok(all_decided)
}

/// Runs a table's rows in turn, round after round, and shows what came of them.
fn show(table: &Table, settings: &Settings) -> Result<bool, Failed> {
    let mut all: Vec<Came> = table.rows.iter().map(|_| Came::default()).collect();
    for round in 0..settings.rounds {
        for (row, came) in table.rows.iter().zip(&mut all) {
            if !settings.is_markdown {
                eprintln!("round {}: {}", round + 1, row.name);
            }
            let load = Load { measured: Duration::from_secs(settings.seconds), ..row.load };
            came.add(load::run(&load, row.way, row.ends, settings.seed + round)?);
        }
    }
    println!("\n{} (`--table {}`), ms from due to decided:\n", table.title, table.name);
    println!(
        "| | p50 | p90 | p99 | p99.9 | max | declared | undecided | lost | datagrams each | µs of processor each |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    table.rows.iter().zip(&mut all).for_each(|(row, came)| line(row, came));
    Ok(all.iter().all(|came| came.without == 0))
}

fn line(row: &Row, came: &mut Came) {
    came.decided.sort_unstable();
    let at = [0.5, 0.9, 0.99, 0.999, 1.0].map(|share| format!("{:.1}", quantile(&came.decided, share) / 1e3));
    let each = |count: f64| count / came.declared.max(1) as f64;
    let processor = each(came.processor.as_secs_f64() * 1e6);
    println!(
        "| {} | {} | {} | {} | {} | {:.2} | {processor:.0} |",
        row.name,
        at.join(" | "),
        came.declared,
        came.without,
        came.lost,
        each(came.datagrams as f64),
    );
    if let Some(why) = &came.why {
        println!("<!-- {}: {why} -->", row.name);
    }
}

/// Of sorted spans in µs, the shortest that `share` of them do not exceed.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).map_or(f64::NAN, |us| *us as f64)
}
