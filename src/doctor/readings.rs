//! What a host was found to be like, as data.

use serde::Serialize;

use crate::bench::{DiskPlace, Quantiles};
use crate::transport::SocketReading;

/// All that was read and measured. `None` is what could not be.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Readings {
    /// How late a thread woke that slept to each slot's end, in µs. A slot's end that it slept through counts too.
    pub idle: Option<Quantiles>,
    /// The same while a thread for each core was busy.
    pub loaded: Option<Quantiles>,
    /// Runnable tasks over the minute before.
    pub load_average: Option<f64>,
    /// Cores that this process may use.
    pub cores: Option<usize>,
    /// The bound on the processor time of its control group.
    pub quota: Option<Quota>,
    /// Processor time while the load ran.
    pub ticks: Option<Ticks>,
    /// The different governors of its cores' frequencies.
    pub governors: Option<Vec<String>>,
    /// The clock that is counted on.
    pub clock: ClockReading,
    /// The farthest that the wall clock moved against that one between two slots' ends, in µs.
    pub wall_step_us: Option<u64>,
    /// What the coordinator's socket is given.
    pub socket: Option<SocketReading>,
    /// What the system allows for a socket's receive buffer, in bytes.
    pub receive_limit: Option<u64>,
    /// What it allows for its send buffer.
    pub send_limit: Option<u64>,
    /// The state directory, where one was named.
    pub state: Option<StateReading>,
    /// How the thread that measured was scheduled.
    pub scheduling: Option<Scheduling>,
    /// Whether this process may take real-time priority.
    pub may_be_realtime: Option<bool>,
    /// Bytes that it may lock in memory; all bits set where there is no bound.
    pub lockable_bytes: Option<u64>,
    /// Bytes of the swap areas in use by the host.
    pub swap_bytes: Option<u64>,
}

/// A bound on processor time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quota {
    /// There is none.
    None,
    /// So many cores' worth in each period.
    Cores(f64),
}

/// Processor time of all cores, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ticks {
    /// All of it, idle time included.
    pub total: u64,
    /// What the hypervisor gave to others while something was to be done here.
    pub steal: u64,
}

impl Ticks {
    /// Those from `earlier` on.
    #[must_use]
    pub fn since(self, earlier: Ticks) -> Ticks {
        Ticks {
            total: self.total.saturating_sub(earlier.total),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }
}

/// The clock that is counted on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClockReading {
    /// What the kernel reads the time from.
    pub source: Option<String>,
    /// What it could read it from.
    pub available: Vec<String>,
    /// What a reading costs, in nanoseconds.
    pub read_ns: Option<u64>,
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduling {
    /// In turn with all others.
    Normal,
    /// Before all that are not (FIFO, round robin or deadline).
    Realtime,
}

/// A state directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StateReading {
    /// On what it is.
    pub place: Option<DiskPlace>,
    /// What one write and one `fdatasync` of a slot's record took, in µs.
    pub sync: Option<Quantiles>,
    /// Why nothing was measured, as the system says.
    pub trouble: Option<String>,
    /// Whether that would keep a coordinator from its state as well: the disk is full, or read-only.
    pub keeps_nothing: bool,
}
