//! Whether boundaries that fall on the kernel's own tick are kept worse than others: how late a thread wakes that
//! sleeps to instants at a fixed distance from a whole multiple of 4 ms of the machine's clock, which is a multiple of
//! the tick's period where the kernel has 250, 500 or 1000 of them a second.
//! `cargo bench --bench tick -- [--busy THREADS] [--realtime PRIORITY]`, half a minute.
//!
//! All distances take turns, so that what else the machine does meets all of them alike.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use preclaim::bench::{Quantiles, burn};
use preclaim::clock::{Clock, Reading, SystemClock};
use preclaim::host::{HostConfig, Role};
use preclaim::types::{Micros, Time};

/// From one boundary to the next: whole multiples of the tick.
const PERIOD_US: u64 = 8_000;
/// From a multiple of it to the boundary.
const PHASES_US: [u64; 11] = [0, 20, 50, 130, 300, 500, 1_000, 2_000, 3_000, 3_500, 3_900];
/// Unmeasured, where benches are only tried out.
const ROUNDS: usize = 8;
const WAKES: usize = 50;
/// What computes beside it ends by then, whatever comes of the rest.
const LONGEST: Duration = Duration::from_secs(600);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u8>().ok()
    };
    let is_measured = arguments.iter().any(|argument| argument == "--bench");
    let (rounds, wakes) = if is_measured { (ROUNDS, WAKES) } else { (1, 1) };
    let host = HostConfig { realtime: value("--realtime"), ..HostConfig::default() };
    let (stop, longest) = (AtomicBool::new(false), Instant::now() + LONGEST);
    let late = thread::scope(|scope| {
        for _ in 0..value("--busy").unwrap_or(0) {
            scope.spawn(|| burn(longest, &stop));
        }
        let measured = scope.spawn(|| measure(&host, rounds, wakes)).join();
        stop.store(true, Ordering::Relaxed);
        measured
    });
    let late = late.map_err(|_| "it panicked")??;
    println!("{:>12}{:>10}{:>10}{:>10}{:>10}", "µs after", "p50", "p90", "p99", "max");
    for (phase, late) in PHASES_US.iter().zip(late) {
        if let Some(Quantiles { p50, p90, p99, max, .. }) = Quantiles::of(late) {
            println!("{phase:>12}{p50:>10}{p90:>10}{p99:>10}{max:>10}");
        }
    }
    Ok(())
}

/// How late the thread was, by phase.
fn measure(host: &HostConfig, rounds: usize, wakes: usize) -> Result<Vec<Vec<Micros>>, String> {
    if let Some(refusal) = host.take(Role::SlotLoop).into_iter().next() {
        return Err(refusal.to_string());
    }
    // Shows how long the machine has run, by the clock that its tick goes by.
    let reading = Reading::take();
    let run = reading.run.ok_or("this system does not tell how long it has run")?;
    let clock = SystemClock::showing(&reading, Time::from_us(run.since.as_us()));
    clock.attach();
    let mut late = vec![Vec::new(); PHASES_US.len()];
    for _ in 0..rounds {
        for (phase, late) in PHASES_US.iter().zip(&mut late) {
            for _ in 0..wakes {
                let boundary = Time::from_us((clock.now().as_us() / PERIOD_US + 1) * PERIOD_US + phase);
                while clock.now() < boundary {
                    clock.park(Some(boundary));
                }
                late.push(clock.now().since(boundary));
            }
        }
    }
    Ok(late)
}
