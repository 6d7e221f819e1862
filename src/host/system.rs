//! The calls themselves, where the system has them: Linux.

use std::io;

use super::Refusal;

/// Capabilities by their numbers.
pub(crate) const CAP_IPC_LOCK: u32 = 14;
/// See above.
pub(crate) const CAP_SYS_NICE: u32 = 23;

/// Has the calling thread go before all that have no real-time priority, or a lower one.
#[cfg(target_os = "linux")]
pub(super) fn raise(priority: u8) -> io::Result<()> {
    use thread_priority::{
        Error, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
        set_thread_priority_and_policy, thread_native_id,
    };
    let value = ThreadPriorityValue::try_from(priority).map_err(io::Error::other)?;
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(value), fifo).map_err(
        |error| match error {
            Error::OS(number) => io::Error::from_raw_os_error(number),
            other => io::Error::other(format!("{other:?}")),
        },
    )
}

/// Keeps the calling thread on `cores`, each below `limits::CORES`.
#[cfg(target_os = "linux")]
pub(super) fn pin(cores: &[usize]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for core in cores.iter().filter(|core| **core < crate::limits::CORES) {
        set.set(*core);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// The cores that the calling thread may run on.
#[cfg(all(test, target_os = "linux"))]
pub(super) fn cores_of_this_thread() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).expect("a thread may ask about itself");
    (0..crate::limits::CORES).filter(|core| set.is_set(*core)).collect()
}

/// Has the kernel give this process memory in small pages alone. The allocator asks for huge ones, and whoever first
/// touches one waits until all of it is there: half a millisecond where memory is at hand, and 5 ms where the machine
/// is a virtual one whose host has to find it page by page (docs/BENCHMARKS.md); that is the slot loop, within a slot.
#[cfg(target_os = "linux")]
pub(super) fn take_small_pages() -> io::Result<()> {
    Ok(rustix::thread::disable_transparent_huge_pages(true)?)
}

/// Locks all memory of this process, what comes later too. Refused beforehand where only some may be locked:
/// that would be granted now, and end the process when it has grown.
#[cfg(target_os = "linux")]
pub(super) fn lock_memory() -> Result<(), Refusal> {
    use rustix::mm::{MlockAllFlags, mlockall};
    if has_capability(CAP_IPC_LOCK) != Some(true)
        && let Some(bytes) = limit("Max locked memory").filter(|bytes| *bytes != u64::MAX)
    {
        return Err(Refusal::MemoryLimit { bytes });
    }
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .map_err(|error| Refusal::Memory { error: error.into() })
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Refusal, io};

    fn unsupported() -> io::Error {
        io::Error::new(io::ErrorKind::Unsupported, "it is asked for on Linux alone")
    }

    pub(in super::super) fn raise(_: u8) -> io::Result<()> {
        Err(unsupported())
    }

    pub(in super::super) fn pin(_: &[usize]) -> io::Result<()> {
        Err(unsupported())
    }

    pub(in super::super) fn take_small_pages() -> io::Result<()> {
        Err(unsupported())
    }

    pub(in super::super) fn lock_memory() -> Result<(), Refusal> {
        Err(Refusal::Memory { error: unsupported() })
    }
}
#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{lock_memory, pin, raise};

/// The limit of that name which is in force for this process; all bits set where there is none.
pub(crate) fn limit(name: &str) -> Option<u64> {
    limit_in(&std::fs::read_to_string("/proc/self/limits").ok()?, name)
}

fn limit_in(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// Whether this process has a capability over the whole machine.
pub(crate) fn has_capability(capability: u32) -> Option<bool> {
    let read = |file| std::fs::read_to_string(file).ok();
    Some(has_in(&read("/proc/self/status")?, &read("/proc/self/uid_map")?, capability))
}

/// In a user namespace the same bits hold for what is inside of it, to which processors do not belong.
fn has_in(status: &str, uid_map: &str, capability: u32) -> bool {
    let is_initial = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    is_initial && (bits >> capability) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_in_force_is_the_first_one() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max locked memory         8388608              unlimited            bytes     \n\
                      Max realtime priority     0                    99                             \n\
                      Max realtime timeout      unlimited            unlimited            us        \n";
        assert_eq!(limit_in(limits, "Max locked memory"), Some(8_388_608));
        assert_eq!(limit_in(limits, "Max realtime priority"), Some(0));
        assert_eq!(limit_in(limits, "Max realtime timeout"), Some(u64::MAX));
        assert_eq!(limit_in(limits, "Max nice priority"), None);
    }

    #[test]
    fn a_capability_counts_only_outside_of_a_user_namespace() {
        let (machine, inside) = ("         0          0 4294967295\n", "         0       1000          1\n");
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t0000000000800000\n";
        assert!(has_in(status, machine, CAP_SYS_NICE));
        assert!(!has_in(status, machine, CAP_IPC_LOCK));
        assert!(!has_in(status, inside, CAP_SYS_NICE));
        assert!(!has_in("Name:\tx\n", machine, CAP_SYS_NICE));
    }
}
