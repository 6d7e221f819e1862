//! What the system says of itself: files of Linux, read as they are documented in proc(5), cgroups(7) and
//! capabilities(7). Elsewhere, and where a container hides them, there are none, and nothing is known.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::readings::{ClockReading, Quota, Scheduling, Ticks};
use crate::host::{CAP_IPC_LOCK, CAP_SYS_NICE, has_capability, limit};

fn read(file: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(file).ok()
}

/// The one number of a file.
pub(super) fn number(file: &str) -> Option<u64> {
    read(file)?.trim().parse().ok()
}

/// Processor time until now.
pub(super) fn ticks() -> Option<Ticks> {
    ticks_in(&read("/proc/stat")?)
}

fn ticks_in(stat: &str) -> Option<Ticks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests' time, after them, is in user and nice.
    let spent: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    Some(Ticks { total: spent.iter().sum(), steal: *spent.get(7)? })
}

/// The bound on this process's processor time.
pub(super) fn quota() -> Option<Quota> {
    quota_in(&read("/proc/self/cgroup")?, &|file| read(file))
}

/// The least of the bounds of its group and the groups above that one, by `read`.
fn quota_in(groups: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<Quota> {
    let (mut bounds, mut is_known) = (Vec::new(), read("/sys/fs/cgroup/cgroup.controllers").is_some());
    for line in groups.lines() {
        // Number, controllers, path; version 2 is number 0 and has no controllers there.
        let mut words = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            some if some.split(',').any(|name| name == "cpu") => "/sys/fs/cgroup/cpu",
            _ => continue,
        };
        for group in Path::new(path).ancestors() {
            let group = group.display().to_string();
            let file = |name: &str| read(&format!("{root}{}/{name}", group.trim_end_matches('/')));
            let words = file("cpu.max")
                .or_else(|| Some(format!("{} {}", file("cpu.cfs_quota_us")?, file("cpu.cfs_period_us")?)));
            is_known |= words.is_some();
            bounds.extend(words.as_deref().and_then(cores));
        }
    }
    let least = bounds.into_iter().min_by(f64::total_cmp);
    least.map(Quota::Cores).or(is_known.then_some(Quota::None))
}

/// Cores' worth of processor time; `None` where there is no bound.
fn cores(quota_and_period: &str) -> Option<f64> {
    let mut words = quota_and_period.split_whitespace();
    // `max` in version 2, -1 in version 1.
    let quota: u32 = words.next()?.parse().ok()?;
    let period: u32 = words.next()?.parse().ok()?;
    (period > 0).then(|| f64::from(quota) / f64::from(period))
}

/// The different governors of all cores.
pub(super) fn governors() -> Option<Vec<String>> {
    let cores = fs::read_dir("/sys/devices/system/cpu").ok()?.filter_map(Result::ok);
    let governor = |core: fs::DirEntry| read(core.path().join("cpufreq/scaling_governor"));
    let found: BTreeSet<String> = cores.filter_map(governor).map(|name| name.trim().to_owned()).collect();
    (!found.is_empty()).then(|| found.into_iter().collect())
}

/// What the kernel reads the time from, and could.
pub(super) fn clock_source() -> ClockReading {
    let file = |name: &str| read(format!("/sys/devices/system/clocksource/clocksource0/{name}"));
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    ClockReading {
        source: file("current_clocksource").map(|text| text.trim().to_owned()),
        available: file("available_clocksource").map(words).unwrap_or_default(),
        read_ns: None,
    }
}

/// How the calling thread is scheduled.
pub(super) fn scheduling() -> Option<Scheduling> {
    scheduling_in(&read("/proc/thread-self/stat")?)
}

fn scheduling_in(stat: &str) -> Option<Scheduling> {
    // The name, in parentheses, may hold blanks and parentheses; after it comes field 3, and the policy is 41.
    let (_, rest) = stat.rsplit_once(')')?;
    let policy: u32 = rest.split_whitespace().nth(41 - 3)?.parse().ok()?;
    // FIFO, round robin, deadline.
    Some(if matches!(policy, 1 | 2 | 6) { Scheduling::Realtime } else { Scheduling::Normal })
}

/// Whether this process may take real-time priority.
pub(super) fn may_be_realtime() -> Option<bool> {
    let is_off = read("/proc/sys/kernel/sched_rt_runtime_us").is_some_and(|text| text.trim() == "0");
    let highest = limit("Max realtime priority")?;
    Some(!is_off && (has_capability(CAP_SYS_NICE)? || highest > 0))
}

/// Bytes that this process may lock in memory.
pub(super) fn lockable_bytes() -> Option<u64> {
    let bytes = limit("Max locked memory")?;
    Some(if has_capability(CAP_IPC_LOCK)? { u64::MAX } else { bytes })
}

/// Bytes of all swap areas.
pub(super) fn swap_bytes() -> Option<u64> {
    Some(swap_in(&read("/proc/swaps")?))
}

fn swap_in(swaps: &str) -> u64 {
    // After a line of headings: file, type, size in KiB, …
    let size = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    swaps.lines().skip(1).filter_map(size).map(|kib| kib.saturating_mul(1024)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_time_is_the_eighth_number_and_guests_are_not_counted_twice() {
        let stat = "cpu  10 1 20 300 4 0 2 7 10 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(ticks_in(stat), Some(Ticks { total: 344, steal: 7 }));
        assert_eq!(ticks_in("cpu  10 1 20 300\n"), None, "a kernel without steal time");
        assert_eq!(ticks_in("intr 1 2 3\n"), None);
    }

    #[test]
    fn the_least_bound_of_a_group_and_those_above_it_holds() {
        let quota = |groups: &str, files: &[(&str, &str)]| {
            let read =
                |file: &str| files.iter().find(|(name, _)| *name == file).map(|(_, text)| (*text).to_owned());
            quota_in(groups, &read)
        };
        let two =
            [("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"), ("/sys/fs/cgroup/a/cpu.max", "150000 100000\n")];
        assert_eq!(quota("0::/a/b\n", &two), Some(Quota::Cores(1.5)));
        assert_eq!(quota("0::/a/b\n", &two[..1]), Some(Quota::None));
        let container = [("/sys/fs/cgroup/cpu.max", "50000 100000\n")];
        assert_eq!(quota("0::/\n", &container), Some(Quota::Cores(0.5)));
        let first = "4:memory:/m\n1:cpu,cpuacct:/c\n0::/\n";
        let bound = [
            ("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "200000\n"),
            ("/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota(first, &bound), Some(Quota::Cores(2.0)));
        let none = [
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
        ];
        assert_eq!(quota(first, &none), Some(Quota::None));
        assert_eq!(quota("0::/\n", &[("/sys/fs/cgroup/cgroup.controllers", "cpu")]), Some(Quota::None));
        assert_eq!(quota(first, &[]), None, "nothing can be read");
    }

    #[test]
    fn a_policy_is_read_behind_a_name_with_blanks_and_parentheses() {
        let stat = |policy: u32| {
            let between: String = (4..41).map(|field| format!("{field} ")).collect();
            format!("17 (a (b) c) R {between}{policy} 0 0\n")
        };
        for (policy, found) in [(0, Scheduling::Normal), (1, Scheduling::Realtime), (2, Scheduling::Realtime)]
        {
            assert_eq!(scheduling_in(&stat(policy)), Some(found), "{policy}");
        }
        assert_eq!(scheduling_in(&stat(3)), Some(Scheduling::Normal));
        assert_eq!(scheduling_in(&stat(6)), Some(Scheduling::Realtime));
        assert_eq!(scheduling_in("17 (a) R 1 2"), None);
    }

    #[test]
    fn swap_areas_are_added_up() {
        let swaps =
            "Filename Type Size Used Priority\n/swapfile file 2048 0 -2\n/dev/zram0 partition 1024 1 100\n";
        assert_eq!(swap_in(swaps), 3 << 20);
        assert_eq!(swap_in("Filename Type Size Used Priority\n"), 0);
    }
}
