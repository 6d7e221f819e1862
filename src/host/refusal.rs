//! What the machine refused, for the person who asked for it.

use std::fmt;
use std::io;

use crate::config::show_size;

/// What was asked of the machine and not given. Its message says what, why, and what to do.
#[derive(Debug)]
pub enum Refusal {
    /// Real-time priority.
    Realtime {
        /// Which.
        priority: u8,
        /// What the system says.
        error: io::Error,
    },
    /// To run on some cores alone.
    Cores {
        /// Which.
        cores: Vec<usize>,
        /// What the system says.
        error: io::Error,
    },
    /// Memory that is never swapped out: the system refused.
    Memory {
        /// What the system says.
        error: io::Error,
    },
    /// Memory that is never swapped out: only so much may be, and a process that has asked for all of it
    /// ends where it comes to that bound.
    MemoryLimit {
        /// How much.
        bytes: u64,
    },
}

impl Refusal {
    /// Whether it is told by the other one too.
    pub(super) fn is_like(&self, other: &Refusal) -> bool {
        match (self, other) {
            (Refusal::Realtime { .. }, Refusal::Realtime { .. }) => true,
            (Refusal::Cores { cores, .. }, Refusal::Cores { cores: others, .. }) => cores == others,
            (this, other) => this.is_memory() && other.is_memory(),
        }
    }

    fn is_memory(&self) -> bool {
        matches!(self, Refusal::Memory { .. } | Refusal::MemoryLimit { .. })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Realtime { priority, error } => write!(
                f,
                "no real-time priority {priority} ([host] realtime): {error}\n  \
                 why     it takes CAP_SYS_NICE, or RLIMIT_RTPRIO of {priority} or more; in a control group with \
                 CONFIG_RT_GROUP_SCHED, its cpu.rt_runtime_us too\n  \
                 do      AmbientCapabilities=CAP_SYS_NICE in its unit, or LimitRTPRIO={priority}, or docker run \
                 --cap-add SYS_NICE, or sudo setcap cap_sys_nice+ep on the file preclaim after each install"
            ),
            Refusal::Cores { cores, error } => write!(
                f,
                "not on cores {cores:?} alone ([host] cores, network_cores): {error}\n  \
                 why     none of them is there, or this process may use none of them\n  \
                 do      name some that `taskset -pc $$` shows; CPUAffinity= in its unit and the container's \
                 cpuset bound them"
            ),
            Refusal::Memory { error } => write!(
                f,
                "memory is not locked ([host] lock_memory): {error}\n  \
                 why     it takes CAP_IPC_LOCK, or RLIMIT_MEMLOCK without a bound\n  \
                 do      {MEMORY}"
            ),
            Refusal::MemoryLimit { bytes } => write!(
                f,
                "memory is not locked ([host] lock_memory): RLIMIT_MEMLOCK is {}\n  \
                 why     a coordinator that locks all of its memory would end where it grows past that\n  \
                 do      {MEMORY}",
                show_size(*bytes)
            ),
        }
    }
}

const MEMORY: &str = "LimitMEMLOCK=infinity in its unit, or docker run --ulimit memlock=-1, or a host without swap, \
                      where there is nothing to lock";

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied() -> io::Error {
        io::ErrorKind::PermissionDenied.into()
    }

    #[test]
    fn each_says_what_why_and_what_to_do() {
        let realtime = Refusal::Realtime { priority: 10, error: denied() }.to_string();
        for part in ["priority 10", "CAP_SYS_NICE", "RLIMIT_RTPRIO", "AmbientCapabilities=", "setcap"] {
            assert!(realtime.contains(part), "{part} in {realtime}");
        }
        let cores = Refusal::Cores { cores: vec![1, 7], error: denied() }.to_string();
        assert!(cores.contains("[1, 7]") && cores.contains("CPUAffinity="), "{cores}");
        let limit = Refusal::MemoryLimit { bytes: 8 << 20 }.to_string();
        for part in ["8MiB", "RLIMIT_MEMLOCK", "LimitMEMLOCK=infinity"] {
            assert!(limit.contains(part), "{part} in {limit}");
        }
        let memory = Refusal::Memory { error: denied() }.to_string();
        assert!(memory.contains("CAP_IPC_LOCK") && memory.contains("LimitMEMLOCK=infinity"), "{memory}");
    }

    #[test]
    fn the_same_is_told_once() {
        let realtime = |priority| Refusal::Realtime { priority, error: denied() };
        assert!(realtime(10).is_like(&realtime(9)));
        let cores = |cores: &[usize]| Refusal::Cores { cores: cores.to_vec(), error: denied() };
        assert!(cores(&[1]).is_like(&cores(&[1])) && !cores(&[1]).is_like(&cores(&[0])));
        assert!(Refusal::Memory { error: denied() }.is_like(&Refusal::MemoryLimit { bytes: 1 }));
        assert!(!realtime(10).is_like(&cores(&[1])));
    }
}
