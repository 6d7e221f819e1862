//! What a slot costs in the decision core alone: by batch size, by the share of conflicts, by the
//! number of live grants, and where one path, one frame or one pool is crowded.
//!
//! `cargo bench --bench resolver`; each figure is one call of `Resolver::resolve` for a whole slot.
//! Beside the figures at a million grants stands a bare lookup in a map of the same size, and beside
//! those of `steady` what the least that could decide the same costs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use preclaim::limits;
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

/// Declarations of one claim each, a thousand a slot, with as many grants that end in each slot by themselves:
/// the number of live ones stays. All of it is counted: arrival, order, placement, expiry, what is
/// remembered and forgotten, the digest, and dropping what was decided and what it was decided from. Making
/// the batch is not.
///
/// Each path has ten windows ahead, one right after the other, so that what is asked for fits exactly.
mod steady {
    use std::collections::{BTreeMap, VecDeque};

    use super::*;

    const PER_SLOT: u64 = if cfg!(debug_assertions) { 20 } else { 1_000 };
    const FEW: u64 = if cfg!(debug_assertions) { 200 } else { 10_000 };
    const MANY: u64 = if cfg!(debug_assertions) { 2_000 } else { 1_000_000 };
    /// Windows on a path at a time.
    const AHEAD: u64 = 10;
    /// Slots with all grants live before the first that is measured: as many ended ids are remembered as the
    /// core ever remembers.
    const WARM: u64 =
        if cfg!(debug_assertions) { 10 } else { preclaim::limits::ENDED_IDS as u64 / PER_SLOT + 2 };
    const SLOTS: u32 = if cfg!(debug_assertions) { 2 } else { 500 };

    /// What is declared, slot by slot.
    #[derive(Clone, Copy)]
    struct Load {
        live: u64,
        /// Of each hundred declarations, so many want a window that another has.
        conflicts: u64,
        /// Segments of a path.
        depth: usize,
        /// For how many slots an ended id is remembered, at most.
        remembered: u64,
    }

    /// As configured where nothing is said: a minute, so that the limit on remembered ids binds.
    const DEFAULT: u64 = 6_000;

    /// A declaration: the path's number and its window's start.
    struct Wanted {
        path: u64,
        start: u64,
    }

    impl Load {
        fn granted(self) -> u64 {
            PER_SLOT * (100 - self.conflicts) / 100
        }

        fn paths(self) -> u64 {
            self.live / AHEAD
        }

        /// How long a window lasts: until its path has its turn again.
        fn duration(self) -> u64 {
            self.paths() / self.granted() * SLOT
        }

        /// What is declared in a slot. Those that conflict ask for the middle one of the windows on their
        /// path, so that the offer lies behind several.
        fn wanted(self, slot: u64) -> impl Iterator<Item = Wanted> {
            let granted = self.granted();
            (0..PER_SLOT).map(move |nth| {
                let (slot, nth, ahead) = match nth.checked_sub(granted) {
                    None => (slot, nth, AHEAD - 1),
                    Some(nth) => (slot - 1, nth % granted, AHEAD / 2),
                };
                // A step through the paths that comes by each once.
                let path = (slot * granted + nth) * 7_919 % self.paths();
                Wanted { path, start: (slot + 1) * SLOT + ahead * self.duration() }
            })
        }

        fn name(self, path: u64) -> String {
            match self.depth {
                1 => format!("cell-{path}"),
                2 => format!("aisle-{}/cell-{path}", path % 97),
                _ => format!("zone-{}/aisle-{}/cell-{path}", path % 7, path % 97),
            }
        }

        fn batch(self, slot: u64) -> SlotBatch {
            let declared = self.wanted(slot).enumerate().map(|(nth, wanted)| {
                let claims = vec![claim(self.name(wanted.path), self.duration())];
                declare(agent(nth as u64), slot * SLOT + 1, intent(slot, Some(wanted.start), claims))
            });
            batch(slot, declared.collect())
        }

        /// A coordinator that has done this for so long that nothing grows any more.
        fn warmed_up(self, reports: bool) -> (Resolver, u64) {
            let retention = Micros::from_us(self.remembered * SLOT);
            let mut resolver = Resolver::new(Rules { retention, ..Rules::default() });
            if reports {
                resolver = resolver.reporting_changes();
            }
            let last = WARM + self.live / self.granted();
            for slot in 1..=last {
                resolver.resolve(&self.batch(slot));
            }
            let (grants, undecided) = resolver.counts();
            assert!(
                grants.abs_diff(self.live as usize) <= self.live as usize / 5 && undecided == 0,
                "{grants}"
            );
            (resolver, last)
        }
    }

    fn run(bencher: Bencher<'_, '_>, load: Load, reports: bool) {
        let (resolver, warm) = load.warmed_up(reports);
        let (resolver, last) = (RefCell::new(resolver), Cell::new(warm));
        bencher
            .counter(ItemsCount::new(PER_SLOT))
            .with_inputs(|| {
                last.set(last.get() + 1);
                load.batch(last.get())
            })
            .bench_local_values(|slot| {
                let outcome = resolver.borrow_mut().resolve(&slot);
                assert_eq!(outcome.decisions.len() as u64, PER_SLOT);
                drop(black_box(outcome));
            });
    }

    /// By the number of live grants, and the segments of a path.
    #[divan::bench(args = [(FEW, 1), (FEW, 2), (FEW, 3), (MANY, 1), (MANY, 2), (MANY, 3)], sample_count = SLOTS, sample_size = 1)]
    fn uncontended(bencher: Bencher<'_, '_>, (live, depth): (u64, usize)) {
        run(bencher, Load { live, conflicts: 0, depth, remembered: DEFAULT }, false);
    }

    /// With ids that are forgotten after so many slots: what it costs that a million of them are remembered,
    /// more than any cache holds.
    #[divan::bench(args = [1, 10, 100], sample_count = SLOTS, sample_size = 1)]
    fn uncontended_and_forgotten_after_slots(bencher: Bencher<'_, '_>, remembered: u64) {
        run(bencher, Load { live: FEW, conflicts: 0, depth: 2, remembered }, false);
    }

    /// With what a record of the slot is made of.
    #[divan::bench(args = [FEW, MANY], sample_count = SLOTS, sample_size = 1)]
    fn uncontended_and_recorded(bencher: Bencher<'_, '_>, live: u64) {
        run(bencher, Load { live, conflicts: 0, depth: 2, remembered: DEFAULT }, true);
    }

    #[divan::bench(args = [FEW, MANY], sample_count = SLOTS, sample_size = 1)]
    fn half_of_them_conflicting(bencher: Bencher<'_, '_>, live: u64) {
        run(bencher, Load { live, conflicts: 50, depth: 2, remembered: DEFAULT }, false);
    }

    /// Windows by resource and start, with their ends.
    type Bare = HashMap<String, BTreeMap<u64, u64>>;

    /// The least that could decide the same: a map of windows for each resource. Each window is looked for and
    /// put in, and after that those are taken out that have ended.
    #[divan::bench(args = [FEW, MANY], sample_count = SLOTS, sample_size = 1)]
    fn bare_check_insert_and_remove(bencher: Bencher<'_, '_>, live: u64) {
        let load = Load { live, conflicts: 0, depth: 2, remembered: DEFAULT };
        let mut bare = Bare::new();
        let mut ends = VecDeque::new();
        let mut last = 0;
        let make = |slot: u64| -> Vec<(String, u64)> {
            load.wanted(slot).map(|wanted| (load.name(wanted.path), wanted.start)).collect()
        };
        for slot in 1..=live / PER_SLOT {
            let wanted = make(slot);
            wanted.iter().for_each(|(path, start)| assert!(enter(&mut bare, path, *start, load.duration())));
            ends.push_back(wanted);
            last = slot;
        }
        let (bare, ends, last) = (RefCell::new(bare), RefCell::new(ends), Cell::new(last));
        bencher
            .counter(ItemsCount::new(PER_SLOT))
            .with_inputs(|| {
                last.set(last.get() + 1);
                let wanted = make(last.get());
                ends.borrow_mut().push_back(wanted.clone());
                (wanted, ends.borrow_mut().pop_front().unwrap_or_default())
            })
            .bench_local_refs(|(wanted, ended)| {
                let mut bare = bare.borrow_mut();
                for (path, start) in wanted.iter() {
                    assert!(enter(&mut bare, path, *start, load.duration()));
                }
                for (path, start) in ended.iter() {
                    bare.get_mut(path).map(|windows| windows.remove(start));
                }
            });
    }

    /// Enters a window where nothing overlaps it.
    fn enter(bare: &mut Bare, path: &str, start: u64, duration: u64) -> bool {
        let end = start + duration;
        if !bare.contains_key(path) {
            bare.insert(path.to_owned(), BTreeMap::new());
        }
        let Some(windows) = bare.get_mut(path) else { return false };
        let is_free = windows.range(..end).next_back().is_none_or(|(_, other)| *other <= start);
        if is_free {
            windows.insert(start, end);
        }
        is_free
    }
}

/// One that wants much, among slivers with which somebody has filled a path: what one agent's ill will costs
/// another in its turn.
mod slivers {
    use super::*;

    const SLIVERS: u64 = if cfg!(debug_assertions) { 2_000 } else { 100_000 };

    /// As many as one name may have on a path, unless configured otherwise.
    const OF_A_NAME: u64 = limits::WINDOWS_OF_A_NAME_ON_A_PATH as u64;
    /// As many as an intent of several claims may be looked for among.
    const OF_ALL: u64 = limits::WINDOWS_ON_A_PATH as u64;

    fn filled() -> Resolver {
        filled_with(SLIVERS)
    }

    /// Windows of 100 µs, 200 µs apart, from an hour on.
    fn filled_with(slivers: u64) -> Resolver {
        let mut resolver = Resolver::new(Rules::default());
        let sliver = |it: u64| {
            let raw = intent(it + 1, Some(3_600_000_000 + it * 200), vec![claim("long/queue".into(), 100)]);
            declare(agent(it % 1000), 1, raw)
        };
        resolver.resolve(&batch(0, (0..slivers).map(sliver).collect()));
        resolver
    }

    /// `claims` claims of 90 µs, each an odd number of microseconds after the one before, that fit between
    /// the slivers one by one and not together; `slack` from the first sliver on.
    fn odd(slot: u64, claims: u64, slack: u64) -> SlotBatch {
        let claims = (0..claims).map(|it| {
            let target = RawTarget::Path("long/queue".into());
            RawClaim { target, mode: RawMode::Exclusive, offset: it * 7_333, duration: 90 }
        });
        let raw = RawIntent { slack, ..intent(10_000_000 + slot, Some(3_600_000_000), claims.collect()) };
        batch(slot, vec![declare(agent(1), slot * SLOT + 1, raw)])
    }

    /// Behind all of them, since no gap is long enough.
    #[divan::bench(sample_count = 30, sample_size = 1)]
    fn placed_behind_all(bencher: Bencher<'_, '_>) {
        slots(bencher, filled(), |slot| {
            let raw = intent(10_000_000 + slot, Some(3_600_000_000), vec![claim("long/queue".into(), 150)]);
            batch(slot, vec![declare(agent(1), slot * SLOT + 1, RawIntent { slack: 60_000_000, ..raw })])
        });
    }

    #[divan::bench(args = [1, 2, 8, 64], sample_count = 3, sample_size = 1)]
    fn claims_at_odd_offsets(bencher: Bencher<'_, '_>, claims: u64) {
        slots(bencher, filled(), |slot| odd(slot, claims, 60_000_000));
    }

    /// The worst that the limits on windows let through: as many claims as there may be, among as many windows as one
    /// name, and all names together, may have there.
    #[divan::bench(args = [OF_A_NAME, OF_ALL], sample_count = 3, sample_size = 1)]
    fn most_claims_among_the_most_windows(bencher: Bencher<'_, '_>, windows: u64) {
        let windows = if cfg!(debug_assertions) { SLIVERS } else { windows };
        slots(bencher, filled_with(windows), |slot| odd(slot, 64, 60_000_000));
    }

    /// A claim over all windows that one name may have on a path: each is in its way, and it is told of eight.
    #[divan::bench(sample_count = 10, sample_size = 1)]
    fn a_claim_over_the_most_windows(bencher: Bencher<'_, '_>) {
        let windows = if cfg!(debug_assertions) { SLIVERS } else { OF_A_NAME };
        slots(bencher, filled_with(windows), |slot| {
            let over_all = vec![claim("long/queue".into(), windows * 200)];
            let raw = intent(10_000_000 + slot, Some(3_600_000_000), over_all);
            batch(slot, vec![declare(agent(1), slot * SLOT + 1, raw)])
        });
    }

    /// Regions in one place, as many as one name may have in a frame: a region goes past them one by one.
    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn a_region_among_the_most_in_one_place(bencher: Bencher<'_, '_>) {
        let windows = if cfg!(debug_assertions) { SLIVERS } else { OF_A_NAME };
        let region = |start, duration| {
            let target =
                RawTarget::Box { frame: "map/floor".into(), min: vec![0.0, 0.0], max: vec![1.0, 1.0] };
            let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration };
            move |id| intent(id, Some(start), vec![claim])
        };
        let mut resolver = Resolver::new(Rules::default());
        let sliver = |it: u64| declare(agent(it % 1000), 1, region(3_600_000_000 + it * 200, 100)(it + 1));
        resolver.resolve(&batch(0, (0..windows).map(sliver).collect()));
        slots(bencher, resolver, |slot| {
            let raw = RawIntent { slack: 60_000_000, ..region(3_600_000_000, 150)(10_000_000 + slot) };
            batch(slot, vec![declare(agent(1), slot * SLOT + 1, raw)])
        });
    }

    /// Without slack: the counter-offer alone looks ahead.
    #[divan::bench(args = [1, 2, 8, 64], sample_count = 3, sample_size = 1)]
    fn offer_for_claims_at_odd_offsets(bencher: Bencher<'_, '_>, claims: u64) {
        slots(bencher, filled(), |slot| odd(slot, claims, 0));
    }
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
