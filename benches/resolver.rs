//! What a slot costs in the decision core alone: by batch size, by the share of conflicts, by the
//! number of live grants, and where one path, one frame or one pool is crowded.
//!
//! `cargo bench --bench resolver`; each figure is one call of `Resolver::resolve` for a whole slot.
//! Beside the figures at a million grants stands a bare lookup in a map of the same size.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use divan::{Bencher, black_box};
use preclaim::resolver::{AgentOp, Input, Resolver, Rules, SlotBatch};
use preclaim::types::{Agent, Micros, RawClaim, RawIntent, RawMode, RawTarget, Slot, Time};

fn main() {
    divan::main();
}

const SLOT: u64 = 10_000;

fn claim(path: String, duration: u64) -> RawClaim {
    RawClaim { target: RawTarget::Path(path), mode: RawMode::Exclusive, offset: 0, duration }
}

fn declare(agent: Agent, at: u64, raw: RawIntent) -> Input {
    let intent = raw.parse().unwrap_or_else(|why| panic!("{}: {}", why.field, why.expected));
    Input::Agent { at: Time::from_us(at), agent, op: AgentOp::Declare(intent) }
}

fn intent(id: u64, start: Option<u64>, claims: Vec<RawClaim>) -> RawIntent {
    RawIntent { id, start, claims, ..RawIntent::default() }
}

fn agent(number: u64) -> Agent {
    Agent::new(&format!("agent-{number}")).unwrap_or_else(|| panic!("a short name is valid"))
}

fn batch(slot: u64, inputs: Vec<Input>) -> SlotBatch {
    let length = Micros::from_us(SLOT);
    SlotBatch::new(Slot::new(slot), length, inputs).unwrap_or_else(|why| panic!("{why}"))
}

/// A coordinator with `grants` live grants of a second each, an hour ahead, on paths of depth 3, ten
/// to a path, a second apart.
fn with_live_grants(grants: u64) -> Resolver {
    let mut resolver = Resolver::new(Rules::default());
    let paths = (grants / 10).max(1);
    let inputs = (0..grants).map(|number| {
        let (cell, nth) = (number % paths, number / paths);
        let path = format!("zone-{}/row-{}/cell-{cell}", cell % 100, cell % 1000);
        let start = 3_600_000_000 + nth * 2_000_000;
        declare(agent(number % 1000), 1, intent(number + 1, Some(start), vec![claim(path, 1_000_000)]))
    });
    resolver.resolve(&batch(0, inputs.collect()));
    resolver
}

/// `size` declarations of two claims, of which a share collides with each other.
fn declarations(slot: u64, size: u64, conflict_percent: u64) -> SlotBatch {
    let inputs = (0..size).map(|number| {
        let cell = if number % 100 < conflict_percent { number % 7 } else { 1_000_000 + number };
        let paths = [format!("zone-1/row-1/new-{cell}"), format!("zone-2/row-2/new-{cell}")];
        let claims = paths.into_iter().map(|path| claim(path, 5_000)).collect();
        declare(agent(number), slot * SLOT + 1, intent(slot * 1_000_000 + number, None, claims))
    });
    batch(slot, inputs.collect())
}

/// Runs one slot of `make` after another on a resolver that lives on; making them is not measured.
fn slots(bencher: Bencher<'_, '_>, resolver: Resolver, make: impl Fn(u64) -> SlotBatch) {
    let (resolver, last) = (RefCell::new(resolver), Cell::new(1));
    bencher
        .with_inputs(|| {
            last.set(last.get() + 1);
            make(last.get())
        })
        .bench_local_values(|slot| black_box(resolver.borrow_mut().resolve(&slot)));
}

#[divan::bench(args = [1, 10, 100, 1000], sample_count = 30, sample_size = 1)]
fn batch_size(bencher: Bencher<'_, '_>, size: u64) {
    slots(bencher, Resolver::new(Rules::default()), |slot| declarations(slot, size, 10));
}

#[divan::bench(args = [0, 10, 50, 100], sample_count = 30, sample_size = 1)]
fn conflict_percent_of_100(bencher: Bencher<'_, '_>, percent: u64) {
    slots(bencher, Resolver::new(Rules::default()), |slot| declarations(slot, 100, percent));
}

/// A hundred declarations of two claims each, placed among so many live grants; and the same with the
/// expiry of the hundred before them.
#[divan::bench(args = [1_000, 100_000, 1_000_000], sample_count = 100, sample_size = 1)]
fn live_grants_100_placed(bencher: Bencher<'_, '_>, grants: u64) {
    slots(bencher, with_live_grants(grants), |slot| {
        let start = Some(7_200_000_000 + slot * SLOT);
        batch(
            slot,
            (0..100).map(|it| declare(agent(it), slot * SLOT + 1, two_claims(slot, it, start))).collect(),
        )
    });
}

#[divan::bench(args = [1_000, 100_000, 1_000_000], sample_count = 100, sample_size = 1)]
fn live_grants_100_placed_and_100_expired(bencher: Bencher<'_, '_>, grants: u64) {
    slots(bencher, with_live_grants(grants), |slot| declarations(slot, 100, 0));
}

/// On two live paths of depth 3, in a gap between the grants there.
fn two_claims(slot: u64, number: u64, start: Option<u64>) -> RawIntent {
    let path = |cell: u64| format!("zone-{}/row-{}/cell-{cell}", cell % 100, cell % 1000);
    let cell = (slot * 7_919 + number * 101) % 100;
    let claims = vec![claim(path(cell), 5_000), claim(path(cell + 1), 5_000)];
    RawIntent { slack: 60_000_000, ..intent(slot * 1_000_000 + number, start, claims) }
}

#[divan::bench(sample_count = 30, sample_size = 1000)]
fn bare_lookup_in_a_map_of_1_000_000(bencher: Bencher<'_, '_>) {
    let name = |it: u64| format!("zone-{}/row-{}/cell-{it}", it % 100, it % 1000);
    let map: HashMap<String, u64> = (0..1_000_000).map(|it| (name(it), it)).collect();
    let at = Cell::new(0_u64);
    bencher
        .with_inputs(|| {
            at.set((at.get() + 7_919) % 1_000_000);
            name(at.get())
        })
        .bench_local_values(|name| black_box(map.get(&name).copied()));
}

/// A thousand that all want the same path in one slot.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn same_path_1000(bencher: Bencher<'_, '_>) {
    slots(bencher, Resolver::new(Rules::default()), |slot| {
        let wanted = |it| intent(slot * 1000 + it, None, vec![claim("hot/path".into(), 5_000)]);
        batch(slot, (0..1000).map(|it| declare(agent(it), slot * SLOT + 1, wanted(it))).collect())
    });
}

/// One declaration with slack on a path that holds 100,000 windows with gaps too small for it.
#[divan::bench(sample_count = 30, sample_size = 1)]
fn no_gap_near_among_100_000(bencher: Bencher<'_, '_>) {
    let mut resolver = Resolver::new(Rules::default());
    let on_path = |id, start, duration| intent(id, Some(start), vec![claim("long/queue".into(), duration)]);
    let live =
        (0..100_000).map(|it| declare(agent(it % 1000), 1, on_path(it + 1, 1_000_000 + it * 200, 150)));
    resolver.resolve(&batch(0, live.collect()));
    slots(bencher, resolver, |slot| {
        let raw = RawIntent { slack: 60_000_000, ..on_path(1_000_000 + slot, 1_000_000, 100) };
        batch(slot, vec![declare(agent(1), slot * SLOT + 1, raw)])
    });
}

/// One region declared among 100,000 live ones in the same frame.
#[divan::bench(sample_count = 30, sample_size = 1)]
fn one_region_among_100_000(bencher: Bencher<'_, '_>) {
    let region = |it: u64, duration| {
        let (x, y) = ((it % 316) as f64 * 3.0, (it / 316) as f64 * 3.0);
        let (min, max) = (vec![x, y], vec![x + 2.0, y + 2.0]);
        let target = RawTarget::Box { frame: "map/floor".into(), min, max };
        vec![RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration }]
    };
    let mut resolver = Resolver::new(Rules::default());
    let live = (0..100_000)
        .map(|it| declare(agent(it % 1000), 1, intent(it + 1, Some(1_000_000_000), region(it, 60_000_000))));
    resolver.resolve(&batch(0, live.collect()));
    slots(bencher, resolver, |slot| {
        let start = 1_000_000_000 + 60_000_000 + slot * 10;
        let raw = intent(1_000_000 + slot, Some(start), region(slot % 100_000, 10));
        batch(slot, vec![declare(agent(1), slot * SLOT + 1, raw)])
    });
}
