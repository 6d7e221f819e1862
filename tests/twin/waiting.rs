//! A waiting asap intent is not passed for ever by smaller ones of no higher order.
//!
//! The contract gives a bound for it. Its place is held in the slot in which it first waits, if that is
//! within its reach; nobody later in the order may take it, so in the next slot it finds that place or
//! an earlier one, and so on until the place is within a turn's reach. Where nobody of a higher order
//! comes and no lease is renewed into it, the intent begins no later than at the place that was first
//! held, which is the first offer that it is told of, however many small ones come in its wait.

use preclaim::resolver::{Resolver, SlotBatch};
use preclaim::types::{RawClaim, RawIntent, RawMode, RawTarget, Slot, Verdict};

use super::compare::compare;
use super::coverage::Coverage;
use super::generate::Random;
use super::trace::{Line, Model, Op, Spec, Trace, path};

const CASES: u64 = 200;
/// Longer than any of the grants that are ahead of it, so that its place is within its reach.
const WAIT_US: u64 = 200_000;
const SLOT_US: u64 = 10_000;
const WAITER: u64 = 1;
const PATHS: [&str; 4] = ["a", "a/b", "a/c", "p"];

fn claim(at: &str, mode: RawMode, offset: u64, duration: u64) -> RawClaim {
    RawClaim { target: RawTarget::Path(at.to_owned()), mode, offset, duration }
}

fn mode(random: &mut Random, most: u64) -> RawMode {
    match random.below(3) {
        0 => RawMode::Units(1 + random.below(most)),
        1 => RawMode::Shared,
        _ => RawMode::Exclusive,
    }
}

/// Grants ahead, all over by 60 ms; then one that takes much, and small ones in every slot of its wait.
fn case(seed: u64) -> Trace {
    let mut random = Random::new(seed);
    let mut spec = Spec { rules: Default::default(), model: Model::Fifo };
    let pool =
        preclaim::resolver::Resource { capacity: Some(4), ..preclaim::resolver::Resource::new(path("a")) };
    let other =
        preclaim::resolver::Resource { capacity: Some(4), ..preclaim::resolver::Resource::new(path("p")) };
    spec.rules.resources = vec![pool, other];
    let mut lines = Vec::new();
    for id in 0..1 + random.below(5) {
        let start = 10_000 + random.below(20) * 1_000;
        let what =
            claim(PATHS[random.below(4) as usize], mode(&mut random, 4), 0, 5_000 + random.below(26) * 1_000);
        let intent = RawIntent { id, start: Some(start), claims: vec![what], ..RawIntent::default() };
        lines.push(Line { at: 0, op: Op::Declare("ahead", intent) });
    }
    let mut claims = vec![claim("a", RawMode::Exclusive, 0, 10_000 + random.below(20) * 1_000)];
    if random.below(2) == 0 {
        claims.push(claim("p", RawMode::Units(4), random.below(10) * 1_000, 15_000));
    }
    let big = RawIntent { id: WAITER, wait: WAIT_US, claims, ..RawIntent::default() };
    lines.push(Line { at: 1_000, op: Op::Declare("big", big) });
    for id in 0..120 {
        let at = 1_000 + id * WAIT_US / 120;
        let what =
            claim(PATHS[random.below(4) as usize], mode(&mut random, 2), 0, 1_000 + random.below(12) * 1_000);
        let ahead = at + random.below(40) * 1_000;
        let intent = RawIntent {
            id,
            start: (random.below(2) == 0).then_some(ahead / 1_000 * 1_000),
            slack: random.below(3) * 5_000,
            wait: random.below(3) * 20_000,
            claims: vec![what],
            ..RawIntent::default()
        };
        lines.push(Line { at, op: Op::Declare("small", intent) });
    }
    Trace { spec, lines }
}

/// What became of the one that takes much: its first offer where it had to wait, and its start; with the
/// number of small ones that were granted ahead of it once it waited.
#[derive(Debug, Default)]
struct Fate {
    first_offer: Option<u64>,
    start: Option<u64>,
    slipped_in: usize,
}

fn fate(trace: &Trace) -> Fate {
    let mut resolver = Resolver::new(trace.spec.rules());
    let mut batches = trace.batches().into_iter();
    let mut fate = Fate::default();
    for slot in (0..=(WAIT_US / SLOT_US + 2)).map(Slot::new) {
        let batch = batches.next().unwrap_or_else(|| SlotBatch::empty(slot));
        for line in resolver.resolve(&batch).decisions {
            match (line.key.agent.as_str(), &line.verdict) {
                ("big", Verdict::Conflict(conflict)) if fate.first_offer.is_none() => {
                    fate.first_offer = conflict.offer.map(|offer| offer.as_us());
                }
                ("big", Verdict::Granted { start, .. }) => fate.start = Some(start.as_us()),
                ("small", Verdict::Granted { .. }) if fate.start.is_none() => fate.slipped_in += 1,
                _ => {}
            }
        }
    }
    fate
}

#[test]
fn a_stream_of_small_intents_keeps_no_large_one_waiting_beyond_the_place_first_held() {
    let (mut waited, mut slipped_in) = (0, 0);
    for seed in 0..CASES {
        let trace = case(seed);
        let fate = fate(&trace);
        let Some(bound) = fate.first_offer else { continue };
        let is_kept = fate.start.is_some_and(|start| start <= bound);
        assert!(is_kept, "seed {seed}: {fate:?}\n{}", trace.print());
        waited += 1;
        slipped_in += fate.slipped_in;
        if seed % 20 == 0 {
            assert!(compare(&trace, &mut Coverage::default()).is_ok(), "seed {seed}\n{}", trace.print());
        }
    }
    // Without these it would not have been tried: most wait, and some small ones fit in before them.
    assert!(waited > CASES / 2 && slipped_in > CASES as usize, "{waited} waited, {slipped_in} slipped in");
}

/// The same stream against one that may not wait for its place: where none is held, it is passed.
#[test]
fn a_place_beyond_the_reach_of_its_wait_is_not_held_and_may_be_taken() {
    let mut passed = 0;
    for seed in 0..CASES {
        let mut trace = case(seed);
        for line in &mut trace.lines {
            if let Op::Declare("big", intent) = &mut line.op {
                intent.wait = 1; // its only turn is at once
            }
        }
        let fate = fate(&trace);
        passed += u64::from(fate.first_offer.is_some() && fate.start.is_none());
    }
    assert!(passed > CASES / 2, "{passed}");
}
