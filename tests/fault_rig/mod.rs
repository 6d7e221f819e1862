//! Real coordinators and real agents, each a process of its own, with a bad network between them, and
//! the judgement of what came of it. [`run`] makes one row of the table in docs/FAULTS.md.
//!
//! - `plan`: what goes wrong in a row, and when.
//! - `agent`: the agent's process: the program that uses this, started again with [`agent::ENTRY`] set.
//! - `ledger`: what agents said, and the guarded store; one owner, so that all that was said has one order.
//! - `house`: the coordinator's process, its directory and what its audit log says.
//! - `rack`: the agents' processes: started, killed, stopped for a while, started again.
//! - `judge`: what held.
#![allow(dead_code, clippy::unwrap_used)] // each program uses its own part; what fails here fails the test

pub(crate) mod agent;
mod house;
mod judge;
mod ledger;
mod plan;
mod rack;
mod words;

use std::time::{Duration, Instant};

pub(crate) use judge::Report;
#[allow(unused_imports)] // each program uses its own
pub(crate) use plan::{Enough, Plan, in_short, rows};

use crate::udp_proxy::Proxy;
use house::House;
use ledger::Ledger;
use plan::{Action, Skew, Timers};
use rack::Rack;

/// How long agents may take to finish once nothing goes wrong any more, and told leases to run out:
/// some reconnects, each with its backoff, and the longest lease.
const SETTLED: Duration = Duration::from_secs(90);
/// How often what has no event of its own is looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// Numbers that look random and are the same in every run.
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// From half of `span` to one and a half of it.
    pub(crate) fn about(&mut self, span: Duration) -> Duration {
        span / 2 + span.mul_f64(self.below(1000) as f64 / 1000.0)
    }
}

/// One row: sets everything up, lets it go wrong until it is enough, lets it settle, and judges. `Err`
/// says why the row could not be run at all.
pub(crate) fn run(plan: &Plan, seed: u64, enough: Enough) -> Result<Report, String> {
    if plan.needs_faketime() && words::faketime().is_none() {
        return Err("libfaketime is not installed".into());
    }
    let mut dice = Dice(seed);
    let mut house = House::open(plan.name, plan.coordinator_skew)?;
    let proxy = Proxy::start(house.addr(), seed).map_err(|error| error.to_string())?;
    let ledger = Ledger::open(&house.dir().join("ledger"), seed);
    let mut rack = Rack::new(plan, &house, &ledger, proxy.addr(), dice.below(u64::MAX));
    (0..plan.agents()).for_each(|_| rack.start_one());
    proxy.set(plan.network);
    let began = Instant::now();
    let mut timers = Timers::of(plan, &mut dice);
    while !enough.is_enough(began, &ledger, &timers) {
        match timers.next(&mut dice) {
            Some(action) => act(action, &mut house, &proxy, &mut rack, &mut dice),
            None => std::thread::sleep(GLANCE),
        }
        rack.start_those_that_ended();
    }
    let lasted = began.elapsed();
    proxy.set(Default::default());
    proxy.mend();
    rack.set_all_going();
    ledger.stop();
    let settled = rack.until_all_ended(SETTLED);
    let emptied = house.until_nothing_is_left(SETTLED);
    let log = house.close()?;
    Ok(judge::judge(
        plan,
        &ledger,
        &rack,
        &proxy.counters(),
        &log,
        judge::Course { lasted, settled, emptied },
    ))
}

fn act(action: Action, house: &mut House, proxy: &Proxy, rack: &mut Rack, dice: &mut Dice) {
    match action {
        Action::Cut => proxy.cut(),
        Action::Mend => proxy.mend(),
        Action::ChangePaths => proxy.change_paths().unwrap(),
        Action::KillAgent => rack.kill_one(dice),
        Action::StopAgents => rack.stop_some(dice),
        Action::SetGoing => rack.set_all_going(),
        Action::SetClocks => rack.set_clocks(dice),
        Action::KillCoordinator => {
            house.kill_and_start_again(dice);
            proxy.retarget(house.addr());
        }
        Action::SetCoordinatorsClock => house.set_clock(dice),
    }
}

impl Plan {
    fn needs_faketime(&self) -> bool {
        self.agent_skew != Skew::None || self.coordinator_skew != Skew::None
    }
}
