//! The longest slot of a decision core that grows: what grows by copying itself stands still as it does.
//! `cargo bench --bench steps`; half a minute, and a gigabyte of memory.

use std::time::{Duration, Instant};

use preclaim::resolver::{AgentOp, Input, Resolver, Rules, SlotBatch};
use preclaim::types::{Agent, Micros, RawClaim, RawIntent, RawMode, RawTarget, Slot, Time};

const SLOT: Micros = Micros::from_us(10_000);
const EACH_SLOT: u64 = 100;
/// Far enough that no grant ends while the core grows.
const LEASE_US: u64 = 3_600_000_000;

fn main() {
    let is_measured = std::env::args().any(|arg| arg == "--bench");
    let most: u64 = if is_measured { 1 << 20 } else { 1 << 10 };
    let mut resolver = Resolver::new(Rules::default());
    println!("one claim each on a path of its own, {EACH_SLOT} a slot; microseconds a slot");
    println!("{:>17} {:>8} {:>8} {:>8} {:>8}", "grants in force", "p50", "p99", "p99.9", "max");
    let (mut slot, mut grants, mut until) = (0, 0, 1 << 10);
    while until <= most {
        let mut took = Vec::new();
        while grants < until {
            let batch = declarations(slot, grants);
            let begun = Instant::now();
            let outcome = resolver.resolve(&batch);
            took.push(begun.elapsed());
            assert_eq!(outcome.decisions.len() as u64, EACH_SLOT, "each is granted at once");
            (slot, grants) = (slot + 1, grants + EACH_SLOT);
        }
        print(grants, &mut took);
        until *= 2;
    }
}

fn print(grants: u64, took: &mut [Duration]) {
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_micros();
    println!("{grants:>17} {:>8} {:>8} {:>8} {:>8}", at(0.5), at(0.99), at(0.999), at(1.0));
}

fn declarations(slot: u64, from: u64) -> SlotBatch {
    let at = Time::from_us(slot * SLOT.as_us() + 1);
    let inputs = (from..from + EACH_SLOT).map(|number| {
        let path = format!("zone-{}/row-{}/cell-{number}", number % 100, number % 1000);
        let claim = RawClaim {
            target: RawTarget::Path(path),
            mode: RawMode::Exclusive,
            offset: 0,
            duration: LEASE_US,
        };
        let raw = RawIntent { id: number + 1, claims: vec![claim], ..RawIntent::default() };
        let intent = raw.parse().unwrap_or_else(|why| panic!("{}: {}", why.field, why.expected));
        let agent = Agent::new(&format!("agent-{}", number % 1000)).unwrap_or_else(|| panic!("a valid name"));
        Input::Agent { at, agent, op: AgentOp::Declare(intent) }
    });
    SlotBatch::new(Slot::new(slot), SLOT, inputs.collect()).unwrap_or_else(|why| panic!("{why}"))
}
