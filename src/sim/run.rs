//! One simulation from its seed to its end: faults, then time to settle, then leave-taking.

use std::collections::BTreeMap;
use std::fmt;

use super::invariant::Happened;
use super::world::World;
use crate::limits;
use crate::types::Micros;

/// After the faults: connections are given up and made anew, waits and leases run out.
const SETTLE_US: u64 = 60_000_000;
/// How often, and how far apart, an instant is looked for at which nothing is on its way.
const LOOKS: usize = 100;
const LOOK_US: u64 = 7_000;
/// After the agents have left: the last windows run out.
const LEAVE_US: u64 = 30_000_000;

/// What happened in a simulation in which nothing was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// The digest of all that happened: the same for the same seed, span and version.
    pub digest: u128,
    /// How many things happened.
    pub happened: u64,
    /// How often what happened, faults among it.
    pub counts: BTreeMap<&'static str, u64>,
}

/// What was wrong in a simulation.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What should hold.
    pub invariant: String,
    /// Why it does not.
    pub why: String,
    /// When, since the simulation began.
    pub at: Micros,
    /// What happened last, a line each.
    pub last: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, after {:.6} s", self.seed, self.at.as_us() as f64 / 1e6)?;
        self.last.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        write!(f, "{}\n  {}", self.invariant, self.why)
    }
}

impl std::error::Error for Failure {}

/// Simulates from `seed`, with slots of `slot` and faults for `span` of virtual time.
///
/// # Errors
/// The first thing that was wrong, with the last `told` things that happened.
pub fn simulate(seed: u64, slot: Micros, span: Micros, told: usize) -> Result<Report, Box<Failure>> {
    match simulate_in(seed, slot, span, 0) {
        Ok(report) => Ok(report),
        // Words cost more than the rest, so they are only made where they are read.
        Err(failure) => Err(simulate_in(seed, slot, span, told).err().unwrap_or(failure)),
    }
}

fn simulate_in(seed: u64, slot: Micros, span: Micros, told: usize) -> Result<Report, Box<Failure>> {
    let setup = |why| {
        let invariant = "setup: a simulation begins".to_owned();
        Box::new(Failure { seed, invariant, why, at: Micros::ZERO, last: Vec::new() })
    };
    let mut world = World::new(seed, slot, told).map_err(setup)?;
    pass(&mut world, span);
    let happened = world.trace.happened();
    match world.broken {
        None => {
            let digest = world.trace.digest();
            Ok(Report { seed, digest, happened, counts: world.counts })
        }
        Some(broken) => {
            let last = world.trace.into_tail();
            let at = Micros::from_us(broken.at);
            Err(Box::new(Failure { seed, invariant: broken.invariant, why: broken.why, at, last }))
        }
    }
}

/// Faults for `span`, time to settle, leave-taking; or up to what is wrong.
fn pass(world: &mut World, span: Micros) {
    world.run_until(span.as_us());
    if world.broken.is_some() {
        return;
    }
    world.heal();
    world.run_until(world.at + SETTLE_US);
    // Leases are renewed for ever: an instant between two questions is as good as any.
    let asks =
        |world: &World| world.agents.iter().any(|agent| !agent.is_dead() && agent.session.unanswered() > 0);
    for _ in 0..LOOKS {
        if asks(world) {
            world.run_until(world.at + LOOK_US);
        }
    }
    world.look(&Happened::Settled);
    if world.broken.is_some() {
        return;
    }
    world.leave();
    world.run_until(world.at + LEAVE_US);
    world.forget_sessions(limits::SESSION_KEPT);
    world.look(&Happened::Over);
}
