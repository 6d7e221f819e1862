//! The same work on preclaim and on what people use today, on one machine and in one run. `benches/peers/run`
//! builds and starts it; docs/BENCHMARKS.md has the figures and what they mean.

mod claims;
mod dice;
mod drive;
mod etcd;
mod fifo;
mod ideal;
mod ledger;
mod measure;
mod options;
mod picture;
mod postgres;
mod redis;
mod report;
mod roster;
mod servers;
mod timer;
mod work;

use std::time::{Duration, Instant};

use options::Options;
use report::Row;
use roster::System;

/// Why there are no figures.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Between two workloads of one system: what the first left to do is done.
const SETTLES: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let options = match Options::from_args() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}");
            return std::process::ExitCode::from(2);
        }
    };
    let mut rows = Vec::new();
    let ran = run(&options, &mut rows).await;
    if !options.check {
        print!("{}", report::markdown(&rows, &options));
    }
    if let (Some(file), false) = (&options.picture, rows.is_empty())
        && let Err(error) = std::fs::write(file, picture::svg(&rows))
    {
        eprintln!("{}: {error}", file.display());
    }
    let wrong: Vec<String> = rows.iter().filter_map(Row::complaint).collect();
    wrong.iter().for_each(|complaint| eprintln!("FAILED: {complaint}"));
    match ran {
        Err(why) => {
            eprintln!("FAILED: {why}");
            std::process::ExitCode::FAILURE
        }
        Ok(()) if !wrong.is_empty() => std::process::ExitCode::FAILURE,
        Ok(()) => std::process::ExitCode::SUCCESS,
    }
}

async fn run(options: &Options, rows: &mut Vec<Row>) -> Result<(), Failure> {
    let begun = Instant::now();
    for system in roster::ALL.into_iter().filter(|system| options.takes(*system)) {
        let named = |why: Failure| -> Failure { format!("{}: {why}", system.title()).into() };
        one_system(system, options, rows, begun).await.map_err(named)?;
    }
    Ok(())
}

/// All workloads of one system.
async fn one_system(
    system: System,
    options: &Options,
    rows: &mut Vec<Row>,
    begun: Instant,
) -> Result<(), Failure> {
    let mut running = None;
    for workload in work::ALL.into_iter().filter(|workload| options.does(*workload)) {
        for manner in system.manners(workload) {
            let started = match running.take() {
                Some(running) => running,
                None => system.start(workload, options).await?,
            };
            let tally = system.run(&started, workload, manner, options.spans).await;
            let tally = tally.map_err(|why| format!("{}: {why}", workload.title()))?;
            let row = Row::new(system, workload, manner, tally);
            eprintln!("{:>5.1} s  {}", begun.elapsed().as_secs_f64(), row.line());
            rows.push(row);
            tokio::time::sleep(SETTLES).await;
            running = Some(started).filter(|_| !system.starts_afresh());
        }
    }
    Ok(())
}
