//! An honest load's latency beside hostile clients, and beside a harmless process that uses as much processor.
//! `cargo bench --bench hostile [-- --only half-open --seconds 8 --rate 1000 --packets 20000]`. The coordinator runs in a
//! process of its own on one core; the load, and what is beside it, on another. Three minutes.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // it reads its arguments and a clock

#[path = "hostile/attacks.rs"]
mod attacks;
#[path = "hostile/beside.rs"]
mod beside;
mod rig;

use std::sync::Arc;
use std::time::{Duration, Instant};

use attacks::Target;
use beside::{Beside, Used};
use preclaim::bench::Quantiles;
use preclaim::types::Micros;
use rig::load::{Line, Make, asap, offer};
use rig::peers::Peers;
use rig::served::{Served, Settings};
use rig::{Failed, is_measured, keep_to_core, machine, setting};

/// Connections of the honest load.
const LINES: usize = 8;
/// How many times as long as beside a harmless process may be taken beside an attacker.
const AT_MOST: f64 = 2.0;
/// How long an attack may take to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone, Copy)]
struct Plan {
    rate: f64,
    lasts: Duration,
    packets: u64,
}

fn main() -> Result<(), Failed> {
    rig::served::entry();
    beside::entry();
    let seconds = if is_measured() { 8.0 } else { 0.1 };
    let plan = Plan {
        rate: setting("rate")?.unwrap_or(1000.0),
        lasts: Duration::from_secs_f64(setting("seconds")?.unwrap_or(seconds)),
        packets: setting("packets")?.unwrap_or(20_000),
    };
    let only: Option<String> = setting("only")?;
    println!("{}; {:.0} declarations a second over {LINES} connections", machine(), plan.rate);
    for (attack, counts) in attacks::ALL {
        println!("{attack}: {counts}");
    }
    let apart = keep_to_core(1);
    println!(
        "the load, and what is beside it, on {}",
        if apart { "another core" } else { "whatever core there is" }
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!(
        "\n| attack | done/s | attacker's core, harmless' core | beside the attacker, ms: p50 / p99 / p99.9 / max | beside a harmless process | times as long | within {AT_MOST} | not decided | coordinator's core | its RSS grew by, MiB |\n\
         |---|---|---|---|---|---|---|---|---|---|"
    );
    for (attack, _) in attacks::ALL {
        if only.as_ref().is_none_or(|only| only == attack) {
            runtime.block_on(row(attack, plan))?;
        }
    }
    Ok(())
}

/// What came of the load while something was beside it.
struct Phase {
    quantiles: Option<Quantiles>,
    /// Declarations that were refused or not answered.
    not_decided: u64,
    /// What is beside it did so much a second, and used so much of a core.
    done: f64,
    share: f64,
    /// Of its core, what the coordinator used.
    coordinator: f64,
    rss_kib: u64,
}

/// Each on a path of its own, for a slot.
fn make() -> Make {
    Arc::new(|line, count| asap(count, format!("load/{line}/{}", count % 1024), 10_000))
}

async fn row(attack: &str, plan: Plan) -> Result<(), Failed> {
    let mut served = Served::start(Settings { on_one_machine: false, ..Settings::default() })?;
    let peers = Peers::new(served.addr, &served.certificate)?;
    let mut lines = Vec::new();
    for number in 0..LINES {
        lines.push(Line::enter(&peers, number, make()).await?);
    }
    offer(&[(&lines[..], plan.rate)], 1, plan.lasts / 4).await;
    let before = served.look()?.rss_kib;
    let target = Target { addr: served.addr, certificate: served.certificate.clone(), packets: plan.packets };
    let attacked = phase(plan, &lines, &mut served, Beside::attacker(attack, &target)?).await?;
    let harmless = phase(plan, &lines, &mut served, Beside::harmless(attacked.share)?).await?;
    let three = |phase: &Phase| phase.quantiles.map(|of| [of.p50, of.p99, of.p999, of.max]);
    let ms = |of: Option<[u64; 4]>| match of {
        Some(of) => of.map(|us| format!("{:.1}", us as f64 / 1000.0)).join(" / "),
        None => "-".to_owned(),
    };
    let (beside_it, beside_harmless) = (three(&attacked), three(&harmless));
    let times: Option<Vec<f64>> = beside_it.zip(beside_harmless).map(|(one, other)| {
        one.iter().zip(other).map(|(one, other)| *one as f64 / other.max(1) as f64).collect()
    });
    // The greatest of all is one event on a machine that others use as well: it is shown, and judged by nobody.
    let is_within = times.as_ref().is_some_and(|times| times[..3].iter().all(|times| *times <= AT_MOST));
    println!(
        "| {attack} | {:.0} | {:.0} %, {:.0} % | {} | {} | {} | {} | {}, {} | {:.0} % | {:.1} |",
        attacked.done,
        100.0 * attacked.share,
        100.0 * harmless.share,
        ms(beside_it),
        ms(beside_harmless),
        times.map_or("-".into(), |times| times
            .iter()
            .map(|it| format!("{it:.2}"))
            .collect::<Vec<_>>()
            .join(" / ")),
        if is_within { "yes" } else { "no" },
        attacked.not_decided,
        harmless.not_decided,
        100.0 * attacked.coordinator,
        attacked.rss_kib.saturating_sub(before) as f64 / 1024.0
    );
    Ok(())
}

async fn phase(plan: Plan, lines: &[Line], served: &mut Served, mut beside: Beside) -> Result<Phase, Failed> {
    let give_up = Instant::now() + BEGINS_WITHIN;
    while beside.look()?.did == 0 {
        if Instant::now() > give_up {
            return Err("it does not begin".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    offer(&[(lines, plan.rate)], 1, plan.lasts / 4).await;
    lines.iter().for_each(|line| drop(line.take()));
    let (first, begun, used) = (beside.look()?, Instant::now(), served.look()?.processor_us);
    offer(&[(lines, plan.rate)], 1, plan.lasts).await;
    let (last, took, look) = (beside.look()?, begun.elapsed().as_secs_f64(), served.look()?);
    let Used { did, processor_us } = last;
    let (mut spans, mut offered) = (Vec::<Micros>::new(), 0);
    for noted in lines.iter().map(Line::take) {
        offered += noted.offered;
        spans.extend(noted.decided.iter().map(|decided| decided.took));
    }
    Ok(Phase {
        not_decided: offered.saturating_sub(spans.len() as u64),
        quantiles: Quantiles::of(spans),
        done: (did - first.did) as f64 / took,
        share: (processor_us - first.processor_us) as f64 / 1e6 / took,
        coordinator: (look.processor_us - used) as f64 / 1e6 / took,
        rss_kib: look.rss_kib,
    })
}
