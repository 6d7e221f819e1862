//! Vehicles cross a junction: each brakes on sight, or they take turns at one lock, or they declare their motion.
//!
//! ```text
//! cargo run --release --example crossing -- --svg crossing.svg
//! ```
//!
//! What to copy is in agent.rs. road.rs has the physics, plan.rs how a vehicle plans ahead, traffic.rs who comes
//! when, alone.rs the junction without preclaim; measure.rs, report.rs and picture.rs tell what came of it.

mod agent;
pub(crate) mod alone;
mod measure;
mod picture;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod road;
#[path = "../story/mod.rs"]
pub(crate) mod story;
pub(crate) mod traffic;

use std::io::{self, Write};
use std::path::PathBuf;

use agent::Agent;
use alone::Rule;
use measure::Tally;
use preclaim::millis;
use preclaim::types::{Micros, Slot};
use report::Report;
use road::{TICK_MS, Track};
use story::Failure;
use tokio::task::JoinSet;
use traffic::{Arrival, DENSITIES, Density, arrivals};

const HELP: &str = "\
Vehicles cross a junction, three ways to get along, three densities of traffic.

  --full          30 seeds of 30 s, 6 junctions at a time (otherwise 1 of 20 s)
  --seeds N       so many seeds
  --first N       the first seed (1)
  --seconds S     so long vehicles come
  --at-once N     so many junctions at a time (3)
  --sight M       metres from the line at which a vehicle sees who comes from the side (20)
  --svg FILE      a picture of the busiest run
  --markdown      the table of docs/STORIES.md";

/// At 50 km/h, 0.3 s and 4 m/s² take 28 m; corners in towns often leave less.
pub(crate) const SIGHT: f64 = 20.0;

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) full: bool,
    pub(crate) seeds: u64,
    pub(crate) first: u64,
    pub(crate) seconds: f64,
    pub(crate) at_once: usize,
    pub(crate) sight: f64,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) markdown: bool,
    pub(crate) densities: Vec<Density>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            full: false,
            seeds: 1,
            first: 1,
            seconds: 20.0,
            at_once: 3,
            sight: SIGHT,
            svg: None,
            markdown: false,
            densities: DENSITIES.to_vec(),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    match options(std::env::args().skip(1))? {
        Some(options) => run(&options, &mut io::stdout()).await?.check(options.full),
        None => {
            println!("{HELP}");
            Ok(())
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, Failure> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--full" => (options.full, options.seeds, options.seconds, options.at_once) = (true, 30, 30.0, 6),
            "--seeds" => options.seeds = value()?.parse()?,
            "--first" => options.first = value()?.parse()?,
            "--seconds" => options.seconds = value()?.parse()?,
            "--at-once" => options.at_once = value()?.parse()?,
            "--sight" => options.sight = value()?.parse()?,
            "--svg" => options.svg = Some(value()?.into()),
            "--markdown" => options.markdown = true,
            "--help" => return Ok(None),
            other => return Err(format!("{other} is not known; --help says what is").into()),
        }
    }
    Ok(Some(options))
}

/// One junction for a while: which traffic it has.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) density: Density,
    pub(crate) seed: u64,
    pub(crate) arrivals: Vec<Arrival>,
}

/// What came of it, with each way to get along.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) sight: Vec<Track>,
    pub(crate) lock: Vec<Track>,
    pub(crate) preclaim: Vec<Track>,
    pub(crate) tally: Tally,
}

/// Runs all of it and prints what happened.
pub(crate) async fn run(options: &Options, out: &mut (impl Write + Send)) -> Result<Report, Failure> {
    let seeds = options.first..options.first + options.seeds;
    let cases: Vec<Case> = seeds
        .flat_map(|seed| options.densities.iter().map(move |density| (seed, *density)))
        .map(|(seed, density)| Case { density, seed, arrivals: arrivals(density, seed, options.seconds) })
        .collect();
    introduce(options, cases.len(), out)?;
    let mut report = Report::new(&options.densities);
    let mut picture = None;
    for batch in cases.chunks(options.at_once.max(1)) {
        let driven = together(batch).await?;
        for (case, (preclaim, tally)) in batch.iter().zip(driven) {
            let sight = alone::drive(Rule::Sight(options.sight), &case.arrivals);
            let lock = alone::drive(Rule::Lock, &case.arrivals);
            let seen = Seen { sight, lock, preclaim, tally };
            count(&mut report, case, &seen)?;
            if options.densities.last() == Some(&case.density) && picture.is_none() {
                picture = Some(seen);
            }
        }
    }
    if options.markdown {
        report.markdown(out)?
    } else {
        report.tell(out)?
    }
    if let (Some(file), Some(seen)) = (&options.svg, picture) {
        std::fs::write(file, picture::draw(&seen))?;
        writeln!(out, "drawn                {}", file.display())?;
    }
    Ok(report)
}

/// Several junctions at one coordinator, in real time.
async fn together(cases: &[Case]) -> Result<Vec<(Vec<Track>, Tally)>, Failure> {
    let coordinator = agent::coordinator()?;
    let mut agents = Vec::new();
    for (junction, case) in cases.iter().enumerate() {
        for arrival in &case.arrivals {
            agents.push((junction, Agent::connect(&coordinator, junction, arrival.clone()).await?));
        }
    }
    let mut driven = vec![(Vec::new(), Tally::default()); cases.len()];
    let Some((_, first)) = agents.first() else { return Ok(driven) };
    let slot = Micros::from_ms(TICK_MS);
    let begin = Slot::of(first.client.coordinator_time().0 + millis(300), slot).opens(slot);
    let mut driving = JoinSet::new();
    for (junction, mut agent) in agents {
        agent.begin = begin;
        driving.spawn(async move { (junction, agent.drive().await) });
    }
    while let Some(ended) = driving.join_next().await {
        let (junction, ended) = ended?;
        let (track, tally) = ended?;
        driven[junction].0.push(track);
        driven[junction].1.add(&tally);
    }
    coordinator.stop().await?;
    Ok(driven)
}

fn count(report: &mut Report, case: &Case, seen: &Seen) -> Result<(), Failure> {
    let came = case.arrivals.len();
    for (how, tracks) in [("on sight", &seen.sight), ("one lock", &seen.lock), ("preclaim", &seen.preclaim)] {
        if tracks.len() != came {
            return Err(format!("{how}, seed {}: {} of {came} got across", case.seed, tracks.len()).into());
        }
    }
    let row = report.row(case.density).ok_or("an unknown density")?;
    row.sight.add(&seen.sight);
    row.lock.add(&seen.lock);
    row.preclaim.add(&seen.preclaim);
    row.tally.add(&seen.tally);
    Ok(())
}

fn introduce(options: &Options, cases: usize, out: &mut impl Write) -> io::Result<()> {
    if options.markdown {
        return Ok(());
    }
    writeln!(
        out,
        "\
A junction of four lanes. Vehicles come at 50 km/h, speed up with 2 m/s² and brake with 3 m/s² where they have the
choice; more than 4 m/s² is an emergency braking, 8 m/s² is all there is. {cases} junctions, {} s of arrivals each.
  on sight   each drives on until it sees somebody who will be in its way, within {} m of the line, and brakes
  one lock   first come first served: asked for where a vehicle can still stop, held until it has left the middle
  preclaim   every 10 ms each declares its motion until it stands, and drives what it was granted
",
        options.seconds, options.sight
    )?;
    out.flush()
}
