//! How the work of a slot grows with agents, grants in force, claims of an intent and conflicts.
//! `cargo bench --bench growth [-- --only agents|grants|claims|conflicts]`. The coordinator runs in a process of its
//! own on one core and the load on another. Two minutes, and two gigabytes of memory.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // it reads its arguments and a clock

mod rig;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use preclaim::types::RawIntent;
use rig::load::{Line, Make, Noted, asap, claim, fill, idle, offer, spans};
use rig::peers::Peers;
use rig::served::{Look, Served, Settings};
use rig::{Failed, is_measured, keep_to_core, machine, setting};
use tokio::task::JoinSet;

/// Declarations a second under which the work of a slot is looked at: twenty to a slot.
const RATE: f64 = 2000.0;
/// Connections that declare.
const LINES: usize = 8;
/// Connections that are made at a time.
const CONNECTING: usize = 16;
/// Grants in force on one path, one after the other.
const ON_A_PATH: u64 = 10;
/// Paths that conflicting declarations are on.
const HOT_PATHS: u64 = 8;

/// How far each table goes.
struct Plan {
    agents: &'static [usize],
    grants: &'static [u64],
    claims: &'static [u64],
    conflicts: &'static [u64],
    lasts: Duration,
}

const MEASURED: Plan = Plan {
    agents: &[10, 100, 1_000, 10_000],
    grants: &[0, 10_000, 100_000, 1_000_000],
    claims: &[1, 4, 16, 64],
    conflicts: &[0, 25, 50, 75, 100],
    lasts: Duration::from_secs(4),
};

const TRIED: Plan = Plan {
    agents: &[2, 10],
    grants: &[0, 200],
    claims: &[1, 4],
    conflicts: &[0, 100],
    lasts: Duration::from_millis(100),
};

/// Nothing is refused: it is the work that is looked at.
const ROOMY: Settings = Settings {
    slot_inputs: 100_000,
    slot_inputs_per_agent: 100_000,
    connections: 20_000,
    retention: preclaim::types::Micros::from_secs(1),
    core: 0,
    on_one_machine: true,
};

fn main() -> Result<(), Failed> {
    rig::served::entry();
    let plan = if is_measured() { MEASURED } else { TRIED };
    let only: Option<String> = setting("only")?;
    let is_wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    println!("{}; {RATE:.0} declarations a second over {LINES} connections", machine());
    // The coordinators' processes choose their core by themselves.
    keep_to_core(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if is_wanted("agents") {
            agents(&plan).await?;
        }
        if is_wanted("grants") {
            grants(&plan).await?;
        }
        if is_wanted("claims") {
            claims(&plan).await?;
        }
        if is_wanted("conflicts") {
            conflicts(&plan).await?;
        }
        Ok(())
    })
}

/// A coordinator, and who connects to it.
struct Rig {
    served: Served,
    peers: Peers,
    lines: usize,
}

impl Rig {
    fn start() -> Result<Self, Failed> {
        let served = Served::start(ROOMY)?;
        let peers = Peers::new(served.addr, &served.certificate)?;
        Ok(Rig { served, peers, lines: 0 })
    }

    async fn lines(&mut self, make: &Make) -> Result<Vec<Line>, Failed> {
        let mut lines = Vec::new();
        for number in self.lines..self.lines + LINES {
            lines.push(Line::enter(&self.peers, number, Arc::clone(make)).await?);
        }
        self.lines += LINES;
        Ok(lines)
    }

    /// The work of slots under a load, as the cells of a row.
    async fn work(&mut self, lines: &[Line], rate: f64, lasts: Duration) -> Result<String, Failed> {
        offer(&[(lines, rate)], 1, lasts / 4).await;
        lines.iter().for_each(|line| drop(line.take()));
        self.served.look()?;
        offer(&[(lines, rate)], 1, lasts).await;
        let Look { slots, late, wake, resolve, publish, .. } = self.served.look()?;
        let noted: Vec<Noted> = lines.iter().map(Line::take).collect();
        let decided = || noted.iter().flat_map(|noted| &noted.decided);
        let (count, granted) = (decided().count(), decided().filter(|decided| decided.granted).count());
        let [wake, resolve, publish] =
            [wake, resolve, publish].map(|spans| spans.map(|us| us.to_string()).join(" / "));
        Ok(format!(
            "{slots} | {late} | {wake} | {resolve} | {publish} | {count} | {granted} | {}",
            spans(decided().map(|decided| decided.took))
        ))
    }
}

const WORK: &str = "slots | late | slot loop woke, µs: p50 / p99 / max | resolve | publish | decided | granted | decided after, ms: p50 / p99 / p99.9 / max";

fn headings(first: &str) {
    let columns = first.matches('|').count() + WORK.matches('|').count() + 2;
    println!("\n| {first} | {WORK} |\n|{}", "---|".repeat(columns));
}

/// Each on a path of its own for a slot.
fn own() -> Make {
    Arc::new(|line, count| asap(count, format!("load/{line}/{}", count % 1024), 10_000))
}

async fn agents(plan: &Plan) -> Result<(), Failed> {
    headings("agents, idle but for 8 | connected in, s | RSS, MiB | KiB each | core of an idle one, µs/s");
    let mut rig = Rig::start()?;
    let lines = rig.lines(&own()).await?;
    let empty = rig.served.look()?.rss_kib;
    let mut there = 0;
    for agents in plan.agents {
        let began = Instant::now();
        connect(&rig.peers, there..*agents).await?;
        there = *agents;
        let took = began.elapsed().as_secs_f64();
        tokio::time::sleep(plan.lasts / 2).await;
        let before = rig.served.look()?;
        let began = Instant::now();
        tokio::time::sleep(plan.lasts).await;
        let after = rig.served.look()?;
        let core = (after.processor_us - before.processor_us) as f64 / began.elapsed().as_secs_f64();
        let kib = after.rss_kib.saturating_sub(empty) as f64 / there as f64;
        let rss = after.rss_kib as f64 / 1024.0;
        let each = core / there as f64;
        let work = rig.work(&lines, RATE, plan.lasts).await?;
        println!("| {agents} | {took:.1} | {rss:.1} | {kib:.1} | {each:.1} | {work} |");
    }
    Ok(())
}

/// Connects them, some at a time. They ping as clients do until the runtime ends.
async fn connect(peers: &Peers, numbers: std::ops::Range<usize>) -> Result<(), Failed> {
    let mut entering = JoinSet::new();
    for number in numbers {
        if entering.len() >= CONNECTING
            && let Some(entered) = entering.join_next().await
        {
            entered??;
        }
        let peers = peers.clone();
        entering.spawn(async move {
            let peer = peers.enter(&format!("idle-{number}")).await?;
            let first = Duration::from_millis((number * 7 % 2000) as u64);
            tokio::spawn(idle(peer, first));
            Ok::<(), Failed>(())
        });
    }
    while let Some(entered) = entering.join_next().await {
        entered??;
    }
    Ok(())
}

async fn grants(plan: &Plan) -> Result<(), Failed> {
    headings("grants in force | granted in, s | RSS, MiB | bytes each");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let begin = u64::try_from(now.as_micros())? + 3_600_000_000;
    let mut rig = Rig::start()?;
    let lines = rig.lines(&own()).await?;
    let ahead = rig.lines(&ahead(begin)).await?;
    let empty = rig.served.look()?.rss_kib;
    let mut there = 0;
    for grants in plan.grants {
        let began = Instant::now();
        fill(&ahead, grants - there).await?;
        there = *grants;
        let took = began.elapsed().as_secs_f64();
        let rss = rig.served.look()?.rss_kib;
        let each = 1024 * rss.saturating_sub(empty) / there.max(1);
        let work = rig.work(&lines, RATE, plan.lasts).await?;
        println!("| {grants} | {took:.1} | {:.1} | {each} | {work} |", rss as f64 / 1024.0);
    }
    Ok(())
}

/// Each a second, with a second to the next one on its path of depth 4. Over so many first segments that a name keeps
/// to what it may have below one.
fn ahead(begin: u64) -> Make {
    let of = move |line: usize, count: u64| {
        let (cell, nth) = (count / ON_A_PATH, count % ON_A_PATH);
        let path = format!("zone-{line}-{}/row-{}/cell-{cell}", cell % 16, cell % 1000);
        RawIntent { start: Some(begin + nth * 2_000_000), ..asap(count, path, 1_000_000) }
    };
    Arc::new(of)
}

async fn claims(plan: &Plan) -> Result<(), Failed> {
    headings("claims of an intent | claims/s");
    let mut rig = Rig::start()?;
    for claims in plan.claims.iter().copied() {
        let of = move |line: usize, count: u64| {
            let path = |nth| format!("load/{line}/{}/{nth}", count % 256);
            let claims = (0..claims).map(|nth| claim(path(nth), 10_000)).collect();
            RawIntent { claims, ..asap(count, path(0), 10_000) }
        };
        let lines = rig.lines(&(Arc::new(of) as Make)).await?;
        // A quarter of the rate: with 64 claims it is as much as one core reads.
        let rate = RATE / 4.0;
        let work = rig.work(&lines, rate, plan.lasts).await?;
        println!("| {claims} | {:.0} | {work} |", rate * claims as f64);
    }
    Ok(())
}

async fn conflicts(plan: &Plan) -> Result<(), Failed> {
    headings("on paths that all want, %");
    let mut rig = Rig::start()?;
    for share in plan.conflicts.iter().copied() {
        let of = move |line: usize, count: u64| {
            // Spread evenly: 7 and 100 have no factor in common.
            if count * 7 % 100 < share {
                return asap(count, format!("hot/{}", count % HOT_PATHS), 1_000_000);
            }
            asap(count, format!("load/{line}/{}", count % 1024), 10_000)
        };
        let lines = rig.lines(&(Arc::new(of) as Make)).await?;
        let work = rig.work(&lines, RATE, plan.lasts).await?;
        println!("| {share} | {work} |");
    }
    Ok(())
}
