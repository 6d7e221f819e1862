//! More than a coordinator takes: goodput, latency, who is shed and when those may come back.
//! `cargo bench --bench overload [-- --slot-inputs 200 --seconds 8 --frame 16]`. The coordinator runs in a process of
//! its own on one core and the load on another; each slot of 10 ms takes in so many declarations, so that
//! ten times as many can be offered. A minute.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // it reads its arguments and a clock

mod rig;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use preclaim::types::{Micros, RawIntent};
use rig::load::{Leases, Line, Make, Noted, asap, burst, hold, offer, spans};
use rig::peers::Peers;
use rig::served::{Look, Served, Settings};
use rig::{Failed, is_measured, keep_to_core, machine, setting};

/// Declarations that the coordinator could keep up with are this part of what it takes in: at all of it, whatever
/// arrives unevenly is refused.
const SUSTAINABLE: f64 = 0.9;
/// Of what is offered, how much is of which class.
const CLASSES: [(u64, f64); 3] = [(6, 0.05), (3, 0.35), (0, 0.6)];
const LINES_OF_A_CLASS: usize = 8;
const LEASES: u64 = 20;

struct Plan {
    slot_inputs: usize,
    frame: usize,
    lasts: Duration,
}

impl Plan {
    fn rate(&self) -> f64 {
        SUSTAINABLE * self.slot_inputs as f64 * 100.0
    }
}

fn main() -> Result<(), Failed> {
    rig::served::entry();
    let (seconds, slot_inputs) = if is_measured() { (8.0, 200) } else { (0.2, 20) };
    let seconds = setting("seconds")?.unwrap_or(seconds);
    let plan = Plan {
        slot_inputs: setting("slot-inputs")?.unwrap_or(slot_inputs),
        frame: setting("frame")?.unwrap_or(16),
        lasts: Duration::from_secs_f64(seconds),
    };
    println!("{}", machine());
    let served = Served::start(Settings {
        slot_inputs: plan.slot_inputs,
        slot_inputs_per_agent: plan.slot_inputs,
        ..Settings::default()
    })?;
    let apart = keep_to_core(1);
    println!("the load on {}", if apart { "another core" } else { "whatever core there is" });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(&plan, served))
}

/// Each on a path of its own, for a slot.
fn make(class: u64) -> Make {
    let of = move |line: usize, count: u64| RawIntent {
        class,
        ..asap(count, format!("load/{line}/{}", count % 1024), 10_000)
    };
    Arc::new(of)
}

async fn measure(plan: &Plan, mut served: Served) -> Result<(), Failed> {
    let peers = Peers::new(served.addr, &served.certificate)?;
    let mut groups = Vec::new();
    for (at, (class, share)) in CLASSES.into_iter().enumerate() {
        let mut lines = Vec::new();
        for line in 0..LINES_OF_A_CLASS {
            lines.push(Line::enter(&peers, at * LINES_OF_A_CLASS + line, make(class)).await?);
        }
        groups.push((class, share, lines));
    }
    let leases = Arc::new(Mutex::new(Leases::default()));
    let holder = tokio::spawn(hold(peers.enter("holder").await?, LEASES, Arc::clone(&leases)));
    println!(
        "a slot takes in {}; sustainable {:.0} a second, in frames of {}; {LEASES} leases of 500 ms, each renewed 10 times a second",
        plan.slot_inputs,
        plan.rate(),
        plan.frame
    );
    for honours in [true, false] {
        crowd(plan, &groups[2].2, honours).await;
    }
    // By then all those have come back who were told to, and did not.
    tokio::time::sleep(plan.lasts.min(Duration::from_secs(2))).await;
    println!(
        "\n| offered | class | offered/s | decided/s | refused/s | decided after, ms: p50 / p99 / p99.9 / max | come back after, ms: p50 / p99 / p99.9 / max |\n\
         |---|---|---|---|---|---|---|"
    );
    let mut phases = Vec::new();
    for (name, times) in [("1x", 1.0), ("2x", 2.0), ("10x", 10.0), ("1x again", 1.0)] {
        phases.push(phase(plan, name, times, &groups, &mut served).await?);
    }
    show(&phases, *leases.lock().unwrap_or_else(PoisonError::into_inner));
    holder.abort();
    Ok(())
}

struct Phase {
    name: &'static str,
    goodput: f64,
    look: Look,
    delays: String,
    not_sent: u64,
    processor: f64,
}

async fn phase(
    plan: &Plan,
    name: &'static str,
    times: f64,
    groups: &[(u64, f64, Vec<Line>)],
    served: &mut Served,
) -> Result<Phase, Failed> {
    let shares: Vec<(&[Line], f64)> =
        groups.iter().map(|(_, share, lines)| (&lines[..], share * times * plan.rate())).collect();
    let warm = plan.lasts.mul_f64(0.1);
    offer(&shares, plan.frame, warm).await;
    groups.iter().flat_map(|(_, _, lines)| lines).for_each(|line| drop(line.take()));
    let before = served.look()?.processor_us;
    let began = std::time::Instant::now();
    let not_sent = offer(&shares, plan.frame, plan.lasts).await;
    let took = began.elapsed().as_secs_f64();
    let look = served.look()?;
    let (mut decided, mut delays) = (0, Vec::new());
    for (class, _, lines) in groups {
        let noted: Vec<Noted> = lines.iter().map(Line::take).collect();
        decided += row(name, *class, &noted, plan.lasts.as_secs_f64());
        delays.extend(noted.into_iter().flat_map(|noted| noted.delays));
    }
    Ok(Phase {
        name,
        goodput: decided as f64 / plan.lasts.as_secs_f64(),
        look,
        delays: spans(delays),
        not_sent,
        processor: (look.processor_us - before) as f64 / 1e6 / took,
    })
}

fn row(name: &str, class: u64, noted: &[Noted], seconds: f64) -> usize {
    let each = |count: usize| count as f64 / seconds;
    let offered: u64 = noted.iter().map(|noted| noted.offered).sum();
    let decided: usize = noted.iter().map(|noted| noted.decided.len()).sum();
    let refused: usize = noted.iter().map(|noted| noted.refused.len()).sum();
    let took = spans(noted.iter().flat_map(|noted| &noted.decided).map(|decided| decided.took));
    let back = spans(noted.iter().flat_map(|noted| &noted.refused).map(|(_, back)| *back));
    println!(
        "| {name} | {class} | {:.0} | {:.0} | {:.0} | {took} | {back} |",
        offered as f64 / seconds,
        each(decided),
        each(refused)
    );
    let answered = decided + refused;
    if offered != answered as u64 {
        println!("{answered} of {offered} were decided or refused");
    }
    decided
}

fn show(phases: &[Phase], leases: Leases) {
    println!(
        "\n| offered | goodput/s | of the peak | slots | late | most in a slot | slot loop woke, µs: p50 / p99 / max | resolve | publish | core in use | RSS, MiB | load's own delay, ms: p50 / p99 / p99.9 / max | not sent |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    let peak = phases.iter().map(|phase| phase.goodput).fold(0.0, f64::max);
    for Phase { name, goodput, look, delays, not_sent, processor } in phases {
        let three = |spans: [u64; 3]| spans.map(|us| us.to_string()).join(" / ");
        println!(
            "| {name} | {goodput:.0} | {:.0} % | {} | {} | {} | {} | {} | {} | {:.0} % | {:.1} | {delays} | {not_sent} |",
            100.0 * goodput / peak,
            look.slots,
            look.late,
            look.inputs_most,
            three(look.wake),
            three(look.resolve),
            three(look.publish),
            100.0 * processor,
            look.rss_kib as f64 / 1024.0
        );
    }
    let Leases { held, renewed, refused, lost } = leases;
    println!("\nleases: {held} held, {renewed} renewals, {refused} refused, {lost} leases lost");
}

/// Twenty slots' worth at once: how often each asks until it is decided.
async fn crowd(plan: &Plan, lines: &[Line], honours: bool) {
    let each = 20 * plan.slot_inputs / lines.len();
    let (decided, refusals) = burst(lines, each, honours).await;
    let all = lines.len() * each;
    let tries: u32 = decided.iter().map(|decided| decided.tries).sum();
    let most = decided.iter().map(|decided| decided.tries).max().unwrap_or(0);
    let took: Vec<Micros> = decided.iter().map(|decided| decided.took).collect();
    println!(
        "{all} at once, coming back {}: {} decided, after ms {}; {refusals} refusals, {:.1} tries each, {most} at most",
        if honours { "when they were told to" } else { "one slot later, whatever they were told" },
        decided.len(),
        spans(took),
        f64::from(tries) / decided.len().max(1) as f64
    );
}
