//! The slow twin: the contract of the decision core written once more, as plain as can be, and its
//! comparison with the real resolver on random traces.
//!
//! `PRECLAIM_TWIN_TRACES=N`, `PRECLAIM_TWIN_SEED=S` and `PRECLAIM_TWIN_SECONDS=T` choose another number
//! of traces, another first seed, and a run for a given time. A difference is shrunk and printed as a
//! scenario: the rules as TOML, the trace as JSON Lines, and what each of the two decided.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a test reads its environment and a clock

#[path = "twin/arrivals.rs"]
mod arrivals;
#[path = "twin/by_rule.rs"]
mod by_rule;
#[cfg(feature = "daemon")]
#[path = "twin/codec.rs"]
mod codec;
#[path = "twin/compare.rs"]
mod compare;
#[path = "twin/coverage.rs"]
mod coverage;
#[path = "twin/deadlock.rs"]
mod deadlock;
#[path = "twin/fitting.rs"]
mod fitting;
#[path = "twin/generate.rs"]
mod generate;
#[path = "twin/invariants.rs"]
mod invariants;
#[cfg(feature = "daemon")]
#[path = "twin/lines.rs"]
mod lines;
#[path = "twin/placement.rs"]
mod placement;
#[path = "twin/reference.rs"]
mod reference;
#[cfg(feature = "daemon")]
#[path = "twin/scenarios.rs"]
mod scenarios;
#[path = "twin/shrink.rs"]
mod shrink;
#[path = "twin/trace.rs"]
mod trace;
#[path = "twin/waiting.rs"]
mod waiting;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use compare::{Difference, compare};
use coverage::Coverage;
use trace::Trace;

/// Enough to see each of the rare kinds a few times; some 10 s on one core.
const TRACES: u64 = 40_000;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is no number")))
}

/// The differing trace made small, with what each of the two decided, ready to be pasted.
fn report(seed: u64, trace: &Trace) -> String {
    let differs = |trace: &Trace| trace.is_in_order() && compare(trace, &mut Coverage::default()).is_err();
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    let small = shrink::shrink(trace, differs);
    drop(std::panic::take_hook());
    let printed = match compare(&small, &mut Coverage::default()) {
        Err(difference) => print(&small, &difference),
        Ok(()) => "the shrunk trace does not differ any more\n".to_owned(),
    };
    format!("seed {seed}\n{}{printed}", small.print())
}

fn print(trace: &Trace, difference: &Difference) -> String {
    difference.print(difference.slot.decided_at(trace.spec.rules.length))
}

/// Writes a few differences of each kind to the folder and lets the run go on.
fn collect(
    folder: &str,
    seed: u64,
    trace: &Trace,
    difference: &Difference,
    kinds: &mut BTreeMap<String, u64>,
) {
    let seen = kinds.entry(difference.kind()).or_insert(0);
    *seen += 1;
    if *seen <= 3 {
        let file = format!("{folder}/{seed}.txt");
        std::fs::write(&file, report(seed, trace)).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

#[test]
fn the_resolver_decides_as_its_twin_does() {
    let first = setting("PRECLAIM_TWIN_SEED").unwrap_or(1);
    let seconds = setting("PRECLAIM_TWIN_SECONDS").map(Duration::from_secs);
    let traces = setting("PRECLAIM_TWIN_TRACES").unwrap_or(TRACES);
    let began = Instant::now();
    let mut coverage = Coverage::default();
    let mut kinds = BTreeMap::new();
    for seed in first.. {
        let enough = match seconds {
            Some(seconds) => began.elapsed() >= seconds,
            None => coverage.traces >= traces,
        };
        if enough {
            break;
        }
        let trace = generate::trace(seed);
        if let Err(difference) = compare(&trace, &mut coverage) {
            let Ok(folder) = std::env::var("PRECLAIM_TWIN_DIFFS") else { panic!("{}", report(seed, &trace)) };
            collect(&folder, seed, &trace, &difference, &mut kinds);
        }
        coverage.traces += 1;
    }
    println!("{}in {:?}", coverage.report(), began.elapsed());
    assert!(kinds.is_empty(), "differences by kind: {kinds:#?}");
    if coverage.traces >= TRACES {
        assert_eq!(coverage.missing(), Vec::<&str>::new(), "never seen");
    }
}
