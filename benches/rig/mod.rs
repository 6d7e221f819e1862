//! A coordinator in a process of its own, on a core of its own, and peers that put a load on it from another:
//! what benches/overload.rs, benches/growth.rs and benches/hostile.rs share.
#![allow(dead_code)] // each bench uses its own part

pub(crate) mod load;
pub(crate) mod peers;
pub(crate) mod served;

/// What goes wrong ends the bench.
pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Whether it is measured, rather than tried out once, for a moment.
pub(crate) fn is_measured() -> bool {
    std::env::args().any(|arg| arg == "--bench")
}

/// The value after `--name`, where it is given.
pub(crate) fn setting<T: std::str::FromStr>(name: &str) -> Result<Option<T>, Failed> {
    let mut args = std::env::args().skip_while(|arg| *arg != format!("--{name}")).skip(1);
    let Some(value) = args.next() else { return Ok(None) };
    value.parse().map(Some).map_err(|_| format!("--{name} {value}: not understood").into())
}

/// Keeps this thread, and those that it starts, to one core. `false` where the machine has no such core, or does
/// not let it.
pub(crate) fn keep_to_core(core: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        let mut set = rustix::thread::CpuSet::new();
        set.set(core);
        rustix::thread::sched_setaffinity(None, &set).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = core;
        false
    }
}

/// One line about what it runs on.
pub(crate) fn machine() -> String {
    let machine = preclaim::bench::Machine::this();
    let build = preclaim::bench::Build::this();
    format!(
        "{}, {} cores, load average {}, {} build",
        machine.cpu.unwrap_or_else(|| "an unknown processor".into()),
        machine.cores,
        machine.load_average.map_or_else(|| "unknown".into(), |load| format!("{load:.1}")),
        build.profile
    )
}
