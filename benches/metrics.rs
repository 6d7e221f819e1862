//! What counting costs the slot loop.
//!
//! `cargo bench --bench metrics`; each figure is one whole slot of so many declarations by as many agents,
//! counted as the daemon does where `[metrics] addr` is set: all granted, also while a path is contended, or all in
//! conflict with one holder.

use divan::{Bencher, black_box};
use preclaim::coordinator::{Decided, Observer, Punctuality, SlotReport};
use preclaim::resolver::{AgentOp, Input, Resolver, Rules, SlotBatch, SlotOutcome};
use preclaim::telemetry::Metrics;
use preclaim::types::{Agent, Micros, RawClaim, RawIntent, RawMode, RawTarget, Slot, Time};

const SLOT: u64 = 10_000;
const FIRST_SLOT: u64 = 179_000_000_000;

fn main() {
    divan::main();
}

/// A slot that was decided.
struct Slots {
    resolver: Resolver,
    batch: SlotBatch,
    outcome: SlotOutcome,
}

impl Slots {
    /// `declarations` of a path each, or all of one that somebody has.
    fn new(declarations: u64, is_contended: bool) -> Self {
        let mut resolver = Resolver::new(Rules::default());
        let path = |number: u64| if is_contended { "aisle/4".to_owned() } else { format!("aisle/{number}") };
        let (first, second) = (Slot::new(FIRST_SLOT), Slot::new(FIRST_SLOT + 1));
        if is_contended {
            resolver.resolve(&batch(first, vec![declaration(first, u64::MAX, &path(0))]));
        }
        let inputs = (0..declarations).map(|number| declaration(second, number, &path(number))).collect();
        let batch = batch(second, inputs);
        let outcome = resolver.resolve(&batch);
        assert_eq!(outcome.decisions.len() as u64, declarations);
        Slots { resolver, batch, outcome }
    }

    fn decided(&self) -> Decided<'_> {
        Decided { batch: &self.batch, outcome: &self.outcome, resolver: &self.resolver, traced: &[] }
    }

    fn report(&self) -> SlotReport {
        let after = |us| self.outcome.at.after(Micros::from_us(us));
        SlotReport {
            slot: self.outcome.slot,
            at: self.outcome.at,
            woken: after(148),
            closed: after(150),
            resolved: after(190),
            persisted: after(190),
            published: after(250),
            inputs: self.batch.inputs().len(),
            decisions: self.outcome.decisions.len(),
            punctuality: Punctuality::OnTime,
        }
    }
}

fn batch(slot: Slot, inputs: Vec<Input>) -> SlotBatch {
    SlotBatch::new(slot, Micros::from_us(SLOT), inputs).unwrap_or_else(|why| panic!("{why}"))
}

fn declaration(slot: Slot, number: u64, path: &str) -> Input {
    let at: Time = slot.opens(Micros::from_us(SLOT)).after(Micros::from_us(number.min(SLOT - 1)));
    let agent = Agent::new(&format!("agent-{number}")).unwrap_or_else(|| panic!("a name"));
    let claim = RawClaim {
        target: RawTarget::Path(path.to_owned()),
        mode: RawMode::Exclusive,
        offset: 0,
        duration: 1_000_000,
    };
    let raw = RawIntent { id: 1, claims: vec![claim], ..RawIntent::default() };
    let intent = raw.parse().unwrap_or_else(|why| panic!("{why:?}"));
    Input::Agent { at, agent, op: AgentOp::Declare(intent) }
}

#[divan::bench(args = [1, 10, 100, 1_000])]
fn granted(bencher: Bencher<'_, '_>, declarations: u64) {
    count(bencher, None, &Slots::new(declarations, false));
}

/// All granted while a path is contended, so that grants are looked at for theirs.
#[divan::bench(args = [1, 10, 100, 1_000])]
fn granted_beside_a_conflict(bencher: Bencher<'_, '_>, declarations: u64) {
    count(bencher, Some(&Slots::new(1, true)), &Slots::new(declarations, false));
}

#[divan::bench(args = [1, 10, 100, 1_000])]
fn in_conflict(bencher: Bencher<'_, '_>, declarations: u64) {
    count(bencher, None, &Slots::new(declarations, true));
}

/// Counts `slots` again and again, after `first` once.
fn count(bencher: Bencher<'_, '_>, first: Option<&Slots>, slots: &Slots) {
    let metrics = Metrics::new(Micros::from_us(SLOT));
    if let Some(first) = first {
        metrics.slot_decided(&first.report(), &first.decided());
    }
    let (report, decided) = (slots.report(), slots.decided());
    bencher.bench_local(|| {
        metrics.slot_done(black_box(&report));
        metrics.slot_decided(black_box(&report), black_box(&decided));
    });
}
