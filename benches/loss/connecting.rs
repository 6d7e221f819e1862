//! How long it takes to connect over a lossy way: what a round trip is taken for before one has been measured.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::load::{Ends, Failed, Place, Way};
use super::quantile;
use super::rows::{CHOSEN, lossy};

/// Connections made at a time.
const AT_A_TIME: u32 = 40;
/// In each round.
const EACH: u32 = 160;

/// How long each of `count` connections took until the coordinator had welcomed it, in µs.
pub(crate) fn took(ends: Ends, way: Way, count: u32, seed: u64) -> Result<Vec<u64>, Failed> {
    let place = Place::open(way, ends, seed)?;
    let mut all = Vec::new();
    for first in (0..count).step_by(AT_A_TIME as usize) {
        let spans = place.runtime.block_on(async {
            let mut connecting = JoinSet::new();
            for name in first..(first + AT_A_TIME).min(count) {
                let client = place.client(name);
                connecting.spawn(async move {
                    let began = Instant::now();
                    let client = client.connect_within(Duration::from_secs(30)).await?;
                    let took = began.elapsed();
                    client.close().await;
                    Ok::<_, preclaim::client::ConnectError>(took)
                });
            }
            connecting.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()
        })?;
        all.extend(spans.into_iter().map(|span| u64::try_from(span.as_micros()).unwrap_or(u64::MAX)));
    }
    place.close()?;
    Ok(all)
}

pub(crate) fn show(rounds: u64, seed: u64, is_markdown: bool) -> Result<(), Failed> {
    let ms = Duration::from_millis;
    let mut rows = Vec::new();
    for (loss, way) in [("1 %", lossy(0.01)), ("5 %", lossy(0.05))] {
        for rtt in [ms(333), ms(100), ms(50)] {
            let mut ends = CHOSEN;
            ends.agent.initial_rtt = rtt;
            ends.coordinator.initial_rtt = rtt;
            rows.push((format!("{loss}, {} ms", rtt.as_millis()), way, ends, Vec::new()));
        }
    }
    for round in 0..rounds {
        for (name, way, ends, spans) in &mut rows {
            if !is_markdown {
                eprintln!("round {}: connect, {name}", round + 1);
            }
            spans.extend(took(*ends, *way, EACH, seed + round)?);
        }
    }
    println!("\nConnecting, by what a round trip is taken for at first (`--table connect`), ms:\n");
    println!("| | p50 | p90 | p99 | max | connections |");
    println!("|---|---|---|---|---|---|");
    for (name, _, _, spans) in &mut rows {
        spans.sort_unstable();
        let at = [0.5, 0.9, 0.99, 1.0].map(|share| format!("{:.0}", quantile(spans, share) / 1e3));
        println!("| {name} | {} | {} |", at.join(" | "), spans.len());
    }
    Ok(())
}
