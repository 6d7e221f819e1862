//! What is measured: how many agents, how often, against whom.

use std::path::PathBuf;

use crate::client::ClientBuilder;
use crate::config::Durability;
use crate::host::HostConfig;
use crate::limits;
use crate::types::Micros;

/// Which coordinator is measured.
#[derive(Clone, Debug, Default)]
pub enum Place {
    /// One of its own, in this process, over QUIC on the loopback interface all the same.
    #[default]
    InProcess,
    /// One that runs already, reached as these settings say. What only it can see, the work after
    /// the slot's end, is then part of the network's share.
    Remote(Box<ClientBuilder>),
}

/// How a coordinator of its own keeps its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// When a slot's record is on disk.
    pub durability: Durability,
    /// The state directory. What it holds is gone on from; where it is empty or not there, it is begun,
    /// and left there. `None` takes a fresh one among the temporary files and removes it in the end.
    pub dir: Option<PathBuf>,
    /// Grants in force that a state directory is begun with.
    pub grants: u64,
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Agents, each with a schedule of its own; 1 or more.
    pub agents: usize,
    /// Declarations a second of each agent, above 0.
    pub rate: f64,
    /// Share of the declarations on paths that all agents contend for, from 0 to 1.
    pub conflict: f64,
    /// How long is measured.
    pub duration: Micros,
    /// How long the same load runs before that.
    pub warmup: Micros,
    /// Slot length of a coordinator of its own; a running one has its own.
    pub slot: Micros,
    /// Connections, over which the agents are dealt out; `None` is one for each agent.
    pub connections: Option<usize>,
    /// What the schedule's phases and the choice of conflicting declarations are drawn from.
    pub seed: u64,
    /// Whom to measure.
    pub place: Place,
    /// How a coordinator of its own keeps its records; `None` keeps none.
    pub keep: Option<Keep>,
    /// Whether all agents declare at once, as a slot begins, and not spread over the time.
    pub burst: bool,
    /// Threads that compute all the while, as other work on the machine would.
    pub busy: usize,
    /// What the threads of a coordinator of its own ask of the machine.
    pub host: HostConfig,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            agents: 100,
            rate: 10.0,
            conflict: 0.1,
            duration: Micros::from_secs(15),
            warmup: Micros::from_secs(2),
            slot: Micros::from_ms(10),
            connections: None,
            seed: 1,
            place: Place::InProcess,
            keep: None,
            burst: false,
            busy: 0,
            host: HostConfig::default(),
        }
    }
}

/// What of a plan cannot be, and what it may be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {may_be}")]
pub struct PlanError {
    /// Which part.
    pub what: &'static str,
    /// What it may be.
    pub may_be: String,
}

impl Plan {
    /// Whether it can be measured at all.
    ///
    /// # Errors
    /// The first part that cannot be.
    pub fn check(&self) -> Result<(), PlanError> {
        let within = |what, is_within: bool, may_be: String| {
            if is_within { Ok(()) } else { Err(PlanError { what, may_be }) }
        };
        let most = limits::BENCH_AGENTS;
        within("--agents", (1..=most).contains(&self.agents), format!("1 to {most}"))?;
        let rate_is_right = self.rate.is_finite() && (0.001..=1e6).contains(&self.rate);
        within("--rate", rate_is_right, "0.001 to 1000000 a second".to_owned())?;
        within("--conflict", (0.0..=1.0).contains(&self.conflict), "0% to 100%".to_owned())?;
        let slot = limits::SLOT_MIN..=limits::SLOT_MAX;
        within("--slot", slot.contains(&self.slot), "100us to 1s".to_owned())?;
        within("--duration", self.duration > Micros::ZERO, "above zero".to_owned())?;
        let longest = limits::BENCH_LONGEST;
        let time = self.warmup.plus(self.duration);
        within(
            "--duration with --warmup",
            time <= longest,
            format!("at most {} s", longest.as_us() / 1_000_000),
        )?;
        let connections = self.connections();
        let fits = (1..=limits::CONNECTIONS.min(self.agents)).contains(&connections);
        within(
            "--connections",
            fits,
            format!("1 to the number of agents, and at most {}", limits::CONNECTIONS),
        )?;
        let most = limits::BENCH_DECLARATIONS;
        let grants = self.keep.as_ref().map_or(0, |keep| keep.grants);
        within("--grants", grants <= most as u64, format!("at most {most}"))?;
        let is_remote = matches!(self.place, Place::Remote(_));
        let alone = "used without --addr: it is the coordinator in this process that keeps records";
        within("--durability", self.keep.is_none() || !is_remote, alone.to_owned())?;
        let alone = "used without --addr: it is the coordinator in this process whose threads have it";
        within("--realtime, --lock-memory, --cores", !self.host.asks() || !is_remote, alone.to_owned())?;
        within("--busy", self.busy <= limits::BENCH_BUSY, format!("at most {}", limits::BENCH_BUSY))?;
        within(
            "--agents x --rate x time",
            self.declarations() <= most as f64,
            format!("at most {most} declarations"),
        )
    }

    /// Connections in use.
    pub fn connections(&self) -> usize {
        self.connections.unwrap_or(self.agents)
    }

    /// Declarations that are due in all, nearly.
    fn declarations(&self) -> f64 {
        self.agents as f64 * self.rate * self.warmup.plus(self.duration).to_std().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_plan_can_be_measured_in_half_a_minute() {
        let plan = Plan::default();
        assert_eq!(plan.check(), Ok(()));
        assert!(plan.warmup.plus(plan.duration) < Micros::from_secs(25));
    }

    #[test]
    fn what_cannot_be_measured_is_told_by_its_flag() {
        let wrong = |change: fn(&mut Plan)| {
            let mut plan = Plan::default();
            change(&mut plan);
            plan.check().unwrap_err().what
        };
        assert_eq!(wrong(|plan| plan.agents = 0), "--agents");
        assert_eq!(wrong(|plan| plan.rate = f64::NAN), "--rate");
        assert_eq!(wrong(|plan| plan.rate = 0.0), "--rate");
        assert_eq!(wrong(|plan| plan.conflict = 1.5), "--conflict");
        assert_eq!(wrong(|plan| plan.slot = Micros::from_us(99)), "--slot");
        assert_eq!(wrong(|plan| plan.duration = Micros::ZERO), "--duration");
        assert_eq!(wrong(|plan| plan.warmup = Micros::MAX), "--duration with --warmup");
        assert_eq!(wrong(|plan| plan.connections = Some(101)), "--connections");
        assert_eq!(wrong(|plan| plan.connections = Some(0)), "--connections");
        assert_eq!(wrong(|plan| plan.rate = 10_000.0), "--agents x --rate x time");
        fn crowded(grants: u64) -> Option<Keep> {
            Some(Keep { grants, ..Keep::default() })
        }
        assert_eq!(wrong(|plan| plan.keep = crowded(u64::MAX)), "--grants");
        let remote = |plan: &mut Plan| (plan.keep, plan.place) = (crowded(0), Place::Remote(Box::default()));
        assert_eq!(wrong(remote), "--durability");
        let remote =
            |plan: &mut Plan| (plan.host.lock_memory, plan.place) = (true, Place::Remote(Box::default()));
        assert_eq!(wrong(remote), "--realtime, --lock-memory, --cores");
        assert_eq!(wrong(|plan| plan.busy = limits::BENCH_BUSY + 1), "--busy");
    }
}
