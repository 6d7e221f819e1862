//! From readings to findings. Every threshold stands here, with its reason; nothing is read here.

use super::finding::{Finding, Grade, What};
use super::readings::{Quota, Readings, Scheduling, StateReading};
use crate::bench::Quantiles;
use crate::config::{show_duration, show_size};
use crate::limits;
use crate::transport::raise_limit;
use crate::types::Micros;

/// Percent of a slot by which 99 of 100 wake-ups may be late on the host as it is. About as much is needed for the
/// work between a slot's end and its last answer (docs/BENCH.md), so that a decision is late by a fraction of its slot.
const IDLE_FINE: u64 = 10;
/// Past this one, what is left of the slot does not surely hold its work and a sync.
const IDLE_UNFIT: u64 = 50;
/// The same while every core is busy, which is more than a host should have to do.
const LOADED_FINE: u64 = 25;
/// A whole slot: past it, the loop sleeps through the next slot's end as well.
const LOADED_UNFIT: u64 = 100;
/// Runnable tasks for each core over the last minute, past which the figures are those of a busy host.
const OTHER_LOAD_FINE: f64 = 0.5;
/// One core for the slot loop and one for the connections.
const CORES_FINE: usize = 2;
/// Percent of the processor time that the hypervisor may give to others. Each time it does, a core stands still for
/// milliseconds.
const STEAL_FINE: f64 = 1.0;
/// Past this one, that happens in about every slot of a busy host.
const STEAL_UNFIT: f64 = 10.0;
/// With fewer ticks, one of them would be a percent of all.
const STEAL_TICKS: u64 = 200;
/// What a reading of the clock may cost, in nanoseconds: each message is stamped, and with a thousand of them in a
/// slot of 10 ms this is a tenth of it. Ten times less is usual.
const CLOCK_READ_FINE: u64 = 1_000;
/// Clock sources that are read without a call of the kernel, the best first.
const QUICK_CLOCKS: [&str; 4] = ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"];
/// How far the wall clock may move against the monotonic one between two slots, in µs: both are slewed alike, so that
/// what is more than the two readings' own time is a step.
const STEP_FINE: u64 = 1_000;
/// What a peer may send with one call, 64 datagrams of 1472 bytes, and the kernel's overhead: a buffer without room
/// for that loses datagrams of a single peer.
const BUFFER_UNFIT: u64 = 128 << 10;
/// Percent of a slot that 99 of 100 syncs may take: with `durability = "slot"`, each slot with a decision has one.
const SYNC_FINE: u64 = 25;
/// Past this one, the syncs alone take longer than the slots that they are for.
const SYNC_UNFIT: u64 = 100;
/// As much as a coordinator has with all the intents in force that it takes (`limits::LIVE`).
const LOCKABLE_FINE: u64 = 1 << 30;
/// File systems in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// What `readings` say about slots of `slot`, in the order of [`What`].
pub fn judge(slot: Micros, readings: &Readings) -> Vec<Finding> {
    let loaded = timer_loaded(slot, readings);
    let realtime = realtime_priority(loaded.grade, readings);
    let mut findings = vec![
        timer_idle(slot, readings),
        loaded,
        other_load(readings),
        cores(readings),
        cpu_quota(readings),
        steal_time(readings),
        cpu_governor(readings),
        clock_source(readings),
        wall_clock(readings),
        receive_buffer(readings),
        send_buffer(readings),
        gso(readings),
        fdatasync(slot, readings.state.as_ref()),
    ];
    findings.extend(readings.state.as_ref().and_then(state_directory));
    findings.extend([realtime, memory_locking(readings)]);
    findings
}

/// `value` against the two thresholds, of which each is still on the better side.
fn graded<T: PartialOrd>(value: T, fine: T, unfit: T) -> Grade {
    if value <= fine {
        Grade::Ok
    } else if value <= unfit {
        Grade::Warning
    } else {
        Grade::Unfit
    }
}

fn ok_or_warning(is_ok: bool) -> Grade {
    if is_ok { Grade::Ok } else { Grade::Warning }
}

fn percent_of(slot: Micros, percent: u64) -> u64 {
    slot.as_us().saturating_mul(percent) / 100
}

fn timer_idle(slot: Micros, readings: &Readings) -> Finding {
    let why = "each decision leaves as much later than its slot's end as the slot loop wakes late";
    let (fine, unfit) = (percent_of(slot, IDLE_FINE), percent_of(slot, IDLE_UNFIT));
    let finding = Finding::of(What::TimerIdle, late(fine, unfit), why);
    let Some(idle) = readings.idle else { return finding };
    let finding = finding.is(graded(idle.p99, fine, unfit), spread(&idle));
    finding
        .or_else("stop what else runs here, or keep it off one core: taskset, or CPUAffinity= in its unit")
        .or_else(longer_slots(idle.p99, IDLE_FINE))
}

fn timer_loaded(slot: Micros, readings: &Readings) -> Finding {
    let why =
        "where others keep every core busy, the slot loop waits for its turn, and slots are decided late";
    let (fine, unfit) = (percent_of(slot, LOADED_FINE), percent_of(slot, LOADED_UNFIT));
    let finding = Finding::of(What::TimerLoaded, late(fine, unfit), why);
    let is_realtime = readings.scheduling == Some(Scheduling::Realtime);
    let Some(loaded) = readings.loaded else {
        let hindered = "not measured: the load would have real-time priority too (chrt --reset-on-fork)";
        return if is_realtime { finding.is(Grade::Unknown, hindered) } else { finding };
    };
    let finding = finding.is(graded(loaded.p99, fine, unfit), spread(&loaded));
    let priority = format!(
        "real-time priority: realtime = 10 in [host]; what that gives: sudo chrt --reset-on-fork --fifo 10 preclaim \
         doctor --slot {}",
        show_duration(slot)
    );
    let finding = if is_realtime { finding } else { finding.or_else(priority) };
    finding
        .or_else("keep other work off one core: CPUAffinity= in the units, or the kernel's isolcpus=")
        .or_else(longer_slots(loaded.p99, LOADED_FINE))
}

fn late(fine: u64, unfit: u64) -> String {
    format!("p99 up to {}, unfit over {}", span(fine), span(unfit))
}

fn spread(of: &Quantiles) -> String {
    format!("p50 {}, p99 {}, max {}", span(of.p50), span(of.p99), span(of.max))
}

/// The slots of whole milliseconds for which so much would be well.
fn longer_slots(us: u64, percent: u64) -> String {
    let needed = us.saturating_mul(100).div_ceil(percent);
    let slot = Micros::from_ms(needed.div_ceil(1_000)).min(limits::SLOT_MAX);
    format!("longer slots: length = \"{}\" in [slot]", show_duration(slot))
}

fn other_load(readings: &Readings) -> Finding {
    let why = "what else ran while it was measured took its share: measure again when the host does what it will do \
               beside the coordinator, and nothing else";
    let fine = OTHER_LOAD_FINE * readings.cores.unwrap_or(1) as f64;
    let finding = Finding::of(What::OtherLoad, format!("load average up to {fine:.1}"), why);
    let Some(load) = readings.load_average else { return finding };
    finding
        .is(ok_or_warning(load <= fine), format!("load average {load:.2}"))
        .or_else("top, and this once more")
}

fn cores(readings: &Readings) -> Finding {
    let why = "the slot loop and the connections want a core each, or wait for each other";
    let finding = Finding::of(What::Cores, format!("{CORES_FINE}"), why);
    let Some(cores) = readings.cores else { return finding };
    finding
        .is(ok_or_warning(cores >= CORES_FINE), cores.to_string())
        .or_else("another core, or more of them allowed: taskset, CPUAffinity=, docker run --cpus 2")
}

fn cpu_quota(readings: &Readings) -> Finding {
    let why = "once it is used up, every thread stands still until the period ends, up to 100 ms";
    let finding = Finding::of(What::CpuQuota, "none", why);
    let (grade, measured) = match readings.quota {
        None => return finding,
        Some(Quota::None) => (Grade::Ok, "none".to_owned()),
        Some(Quota::Cores(cores)) => (Grade::Warning, format!("{cores:.2} cores")),
    };
    finding.is(grade, measured).or_else(
        "no quota, and a cpuset or a weight instead: CPUQuota= in the unit, docker run without --cpus, no \
         limits.cpu of the pod",
    )
}

fn steal_time(readings: &Readings) -> Finding {
    let why = "while the hypervisor runs others on a core, no thread on it is on time, whatever its priority";
    let finding = Finding::of(What::StealTime, format!("up to {STEAL_FINE} %"), why);
    let Some(ticks) = readings.ticks else { return finding };
    if ticks.total < STEAL_TICKS {
        return finding.is(Grade::Unknown, "measured for too short a time: --for 5s");
    }
    let percent = 100.0 * ticks.steal as f64 / ticks.total as f64;
    finding
        .is(graded(percent, STEAL_FINE, STEAL_UNFIT), format!("{percent:.1} %"))
        .or_else("cores of its own from whoever runs the hypervisor: a dedicated or pinned instance")
}

fn cpu_governor(readings: &Readings) -> Finding {
    let why = "a core whose frequency was lowered is slow in the first moments after each wake-up";
    let finding = Finding::of(What::CpuGovernor, "performance", why);
    let Some(governors) = &readings.governors else { return finding };
    let is_ok = governors.iter().all(|governor| governor == "performance");
    finding.is(ok_or_warning(is_ok), governors.join(", ")).or_else(
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor (until the next boot)",
    )
}

fn clock_source(readings: &Readings) -> Finding {
    let why = "the clock is read for each message and several times a slot";
    let finding = Finding::of(What::ClockSource, format!("up to {CLOCK_READ_FINE} ns a reading"), why);
    let clock = &readings.clock;
    let Some(ns) = clock.read_ns else { return finding };
    let source = clock.source.as_deref().unwrap_or("source unknown");
    let quicker = QUICK_CLOCKS.iter().find(|name| clock.available.iter().any(|other| other == *name));
    finding.is(ok_or_warning(ns <= CLOCK_READ_FINE), format!("{source}, {ns} ns a reading")).or_else(
        match quicker.filter(|name| **name != source) {
            Some(name) => format!(
                "echo {name} | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource \
                 (until the next boot; clocksource={name} for the kernel)"
            ),
            None => "sudo dmesg | grep -i clocksource says why there is no quicker one".to_owned(),
        },
    )
}

fn wall_clock(readings: &Readings) -> Finding {
    let why = "a coordinator that runs keeps its beat all the same; its time is the wall clock's at its machine's \
               boot, and times in logs are meant by it";
    let finding = Finding::of(What::WallClock, format!("no step over {}", span(STEP_FINE)), why);
    let Some(step) = readings.wall_step_us else { return finding };
    let is_ok = step <= STEP_FINE;
    let measured = if is_ok { "no step".to_owned() } else { format!("a step of {}", span(step)) };
    finding
        .is(ok_or_warning(is_ok), measured)
        .or_else("have time daemons slew it, and step it at the start only: makestep 1 3 for chrony")
}

fn receive_buffer(readings: &Readings) -> Finding {
    let given = readings.socket.map(|socket| (socket.receive_bytes, socket.asked_bytes));
    let why = "what a burst of agents sends within one slot waits there; what finds no room is lost, and sent again \
               tens of milliseconds later";
    buffer(What::UdpReceiveBuffer, given, readings.receive_limit, why)
}

fn send_buffer(readings: &Readings) -> Finding {
    let given = readings.socket.map(|socket| (socket.send_bytes, socket.asked_bytes));
    let why = "the answers of one slot leave at once; those that find no room leave later";
    buffer(What::UdpSendBuffer, given, readings.send_limit, why)
}

fn buffer(what: What, given_and_asked: Option<(u64, u64)>, limit: Option<u64>, why: &str) -> Finding {
    let needed = limits::SOCKET_BUFFER_BYTES as u64;
    let finding = Finding::of(what, show_size(needed), why);
    let Some((given, asked)) = given_and_asked else { return finding };
    let grade = match given {
        given if given >= needed => Grade::Ok,
        given if given >= BUFFER_UNFIT => Grade::Warning,
        _ => Grade::Unfit,
    };
    let name = if what == What::UdpReceiveBuffer { "rmem_max" } else { "wmem_max" };
    let allowed = limit.map_or(String::new(), |limit| format!(", {name} is {limit}"));
    let measured = format!("{} of {}{allowed}", show_size(given), show_size(asked));
    finding.is(grade, measured).or_else(raise_limit(name))
}

fn gso(readings: &Readings) -> Finding {
    let why = "without it each datagram is a call of its own, and an answer of several of them leaves later";
    let finding = Finding::of(What::Gso, "yes", why);
    let Some(socket) = readings.socket else { return finding };
    let measured = match socket.segments {
        0 | 1 => "no".to_owned(),
        segments => format!("yes, {segments} datagrams a call"),
    };
    finding
        .is(ok_or_warning(socket.segments > 1), measured)
        .or_else("Linux 4.18 or later, outside of sandboxes that have a network stack of their own")
}

fn fdatasync(slot: Micros, state: Option<&StateReading>) -> Finding {
    let why = "with durability = \"slot\", no decision is sent before its record is synced";
    let (fine, unfit) = (percent_of(slot, SYNC_FINE), percent_of(slot, SYNC_UNFIT));
    let finding = Finding::of(What::Fdatasync, late(fine, unfit), why);
    let Some(state) = state else {
        return finding.is(Grade::Unknown, "not measured: --state DIR names the directory");
    };
    match (&state.sync, &state.trouble) {
        (Some(sync), _) => finding
            .is(graded(sync.p99, fine, unfit), spread(sync))
            .or_else("a disk that may acknowledge from memory, since it writes that when it loses power")
            .or_else(
                "durability = \"interval\" in [state], where a crash of the machine may forget that much",
            ),
        (None, Some(trouble)) => {
            let grade = if state.keeps_nothing { Grade::Unfit } else { Grade::Unknown };
            finding.is(grade, trouble.as_str()).or_else("a directory that can be written to")
        }
        (None, None) => finding.is(Grade::Unknown, "measured for too short a time: --for 5s"),
    }
}

/// `None` where it is not told on what that is.
fn state_directory(state: &StateReading) -> Option<Finding> {
    let place = state.place.as_ref()?;
    let why = "what is kept there is gone with the memory or the container that it is in, and a coordinator that \
               forgot its grants gives them again";
    let is_lost = IN_MEMORY.contains(&place.file_system.as_str()) || place.file_system == "overlay";
    let finding = Finding::of(What::StateDirectory, "a file system on a disk", why);
    let change = "a directory on a disk, or a volume of the container: docker run -v preclaim:DIR";
    Some(finding.is(ok_or_warning(!is_lost), place.to_string()).or_else(change))
}

/// A remedy: it is missed only where there is something to be mended.
fn realtime_priority(loaded: Grade, readings: &Readings) -> Finding {
    let why = "with it, the slot loop goes before all other work, however busy the host is";
    let is_wanted = matches!(loaded, Grade::Warning | Grade::Unfit);
    let needed = if is_wanted { "allowed" } else { "not needed" };
    let finding = Finding::of(What::RealtimePriority, needed, why);
    if readings.scheduling == Some(Scheduling::Realtime) {
        return finding.is(Grade::Ok, "in use");
    }
    let Some(is_allowed) = readings.may_be_realtime else { return finding };
    let measured = if is_allowed { "allowed" } else { "not allowed" };
    finding
        .is(ok_or_warning(is_allowed || !is_wanted), measured)
        .or_else("AmbientCapabilities=CAP_SYS_NICE in the unit, or docker run --cap-add SYS_NICE; and realtime = 10 in [host]")
        .or_else("a line for its user in /etc/security/limits.conf: preclaim - rtprio 10")
}

fn memory_locking(readings: &Readings) -> Finding {
    let why = "memory that was swapped out is read from the disk again in the middle of a slot";
    let needed = format!("no swap, or {} lockable", show_size(LOCKABLE_FINE));
    let finding = Finding::of(What::MemoryLocking, needed, why);
    let swap = readings.swap_bytes.map(|bytes| match bytes {
        0 => "no swap".to_owned(),
        bytes => format!("{} of swap", show_size(bytes)),
    });
    let lockable = readings.lockable_bytes.map(|bytes| match bytes {
        u64::MAX => "all lockable".to_owned(),
        bytes => format!("{} lockable", show_size(bytes)),
    });
    let grade = match (readings.swap_bytes, readings.lockable_bytes) {
        (Some(0), _) => Grade::Ok,
        (_, Some(bytes)) if bytes >= LOCKABLE_FINE => Grade::Ok,
        (Some(_), Some(_)) => Grade::Warning,
        _ => Grade::Unknown,
    };
    let told: Vec<String> = swap.into_iter().chain(lockable).collect();
    if told.is_empty() {
        return finding;
    }
    finding
        .is(grade, told.join(", "))
        .or_else("MemorySwapMax=0 in the unit, or sudo swapoff -a")
        .or_else("LimitMEMLOCK=infinity in the unit, or docker run --ulimit memlock=-1")
}

/// A span for people.
fn span(us: u64) -> String {
    let in_unit = |unit: u64, name: &str| {
        let number = format!("{:.2}", us as f64 / unit as f64);
        format!("{} {name}", number.trim_end_matches('0').trim_end_matches('.'))
    };
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => in_unit(1_000, "ms"),
        _ => in_unit(1_000_000, "s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_their_own_unit() {
        for (us, text) in
            [(0, "0 µs"), (999, "999 µs"), (1_000, "1 ms"), (12_340, "12.34 ms"), (100_000, "100 ms")]
        {
            assert_eq!(span(us), text);
        }
        assert_eq!(span(2_500_000), "2.5 s");
    }

    #[test]
    fn longer_slots_are_as_long_as_is_needed_and_no_longer_than_slots_may_be() {
        assert!(longer_slots(2_500, 25).contains("\"10ms\""));
        assert!(longer_slots(2_501, 25).contains("\"11ms\""));
        assert!(longer_slots(u64::MAX, 10).contains("\"1s\""));
    }
}
