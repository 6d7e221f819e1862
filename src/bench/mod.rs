//! Measures a coordinator under a load of declarations, and takes the time of a decision apart.
//!
//! Open loop: each declaration has its due time on a fixed schedule and is measured from it, whether
//! or not those before it have been answered, so a coordinator that falls behind is not asked less.
//! docs/BENCH.md says what is measured between which points.
//!
//! The load speaks the wire itself on the public client's connections (same addresses, certificates,
//! sockets and TLS) and leaves its sessions out: their handles, renewals and wake-ups cost more than
//! a coordinator's answer does, and on a machine that carries both it is the coordinator that would
//! be slowed. It never asks for more than a short grant, and everything it starts ends with it.
//!
//! ```no_run
//! use preclaim::bench::{Plan, run};
//!
//! let report = run(&Plan { agents: 20, ..Plan::default() }, "in a test", &|_| ())?;
//! println!("p99 from due to decided: {:?} µs", report.whole.map(|whole| whole.p99));
//! # Ok::<(), preclaim::bench::BenchError>(())
//! ```

mod bare;
mod burn;
mod crowd;
mod disk;
mod drops;
mod host;
mod kept;
mod limit;
mod load;
mod log_report;
mod machine;
mod plan;
mod probe;
mod report;
mod schedule;
mod stats;
mod table;
mod threshold;
mod throughput;
mod watched;

use std::io;

pub(crate) use bare::{Grid, sleep_and_wake};
pub use burn::burn;
pub use crowd::{Crowd, fill};
pub use disk::DiskPlace;
pub(crate) use kept::Beside;
pub use limit::{Bottleneck, LimitReport, Step, find_limit};
pub use log_report::{LogReport, Snapshots};
pub use machine::{Build, Machine};
pub use plan::{Keep, Place, Plan, PlanError};
pub use report::{Bursts, Load, Phases, Report, Slots, Sockets};
pub use stats::Quantiles;
pub use threshold::{Threshold, ThresholdError};
pub use throughput::{Answers, Asked, Carried, FanOuts, Flow, Parts, Used, burst, carry, parts};

use crate::client::ConnectError;
use crate::coordinator::{BindError, CoordinatorError, IdentityError, RecoveryError};
use crate::host::Refusal;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The plan asks for what cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No connection to the coordinator.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A connection ended before it was welcomed.
    #[error("the coordinator did not welcome the load: {0}")]
    NotWelcome(String),
    /// No certificate for a coordinator of its own.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A coordinator of its own cannot listen.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The coordinator that it ran ended by itself.
    #[error("the coordinator ended while it was measured: {0}")]
    Coordinator(#[from] CoordinatorError),
    /// The state directory cannot be used.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The log of a state directory could not be written.
    #[error("the state directory cannot be filled: {0}")]
    Journal(String),
    /// The machine refuses what the plan asks of it for the coordinator's threads: figures without it would
    /// be taken for figures with it.
    #[error("{0}")]
    Host(#[from] Refusal),
    /// The machine refuses threads or sockets.
    #[error("the machine refuses: {0}")]
    Machine(#[from] io::Error),
}

/// Measures once. `command` is how it was asked for, for the report; `tell` hears how far it is, a
/// few words at a time.
///
/// Takes the plan's warm-up and duration, and about a second more. Blocks; must not be called inside a
/// tokio runtime.
///
/// # Errors
/// [`BenchError`]. Declarations that failed are no error but counted in the report.
///
/// # Panics
/// Inside a tokio runtime.
pub fn run(plan: &Plan, command: &str, tell: &dyn Fn(&str)) -> Result<Report, BenchError> {
    plan.check()?;
    if let Some(refusal) = plan.host.clone().prepare().1.into_iter().next() {
        return Err(refusal.into());
    }
    let mut host = host::Host::start(plan)?;
    let measured = load::run(plan, &host, tell);
    let ended = host.stop();
    let measured = measured?;
    ended?;
    Ok(report::make(plan, command, measured))
}
