//! Figures: quantiles, fairness, and processor time as the kernel counts it.

use std::fs;
use std::time::Duration;

/// The least of `sorted` that the share `of` of them does not pass (nearest rank); 0 where there is none.
pub(crate) fn quantile(sorted: &[Duration], of: f64) -> Duration {
    let rank = (of * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
}

/// Jain's index of fairness: 1 where all have the same, 1/n where one has everything.
/// (Jain, Chiu, Hawe: A Quantitative Measure of Fairness, 1984.)
pub(crate) fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// Seconds of processor time of process `pid` and of its children, alive or waited for, so far.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = all.filter_map(|entry| Stat::read(&entry.path().join("stat")));
    stats.filter(|stat| stat.pid == pid || stat.parent == pid).map(|stat| stat.ticks as f64 / ticks).sum()
}

/// Seconds of processor time of this process alone.
pub(crate) fn own_cpu_seconds() -> f64 {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    Stat::read("/proc/self/stat".as_ref()).map_or(0.0, |stat| stat.own as f64 / ticks)
}

/// Seconds that the machine's processors were busy for whomever, so far.
pub(crate) fn busy_seconds() -> f64 {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    busy_ticks(&text).unwrap_or_default() as f64 / ticks
}

/// All but idle (the fourth) and waiting for disks (the fifth), up to time stolen (the eighth).
fn busy_ticks(text: &str) -> Option<u64> {
    let all = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = all.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    Some(fields.iter().take(8).sum::<u64>() - fields.get(3)? - fields.get(4)?)
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    pid: u32,
    parent: u32,
    /// Of itself, in user and kernel mode.
    own: u64,
    /// The same, with that of children that have ended.
    ticks: u64,
}

impl Stat {
    fn read(file: &std::path::Path) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(file).ok()?)
    }

    /// Fields as proc(5) numbers them; the name, in parentheses, may hold anything.
    fn parse(text: &str) -> Option<Stat> {
        let (pid, _) = text.split_once(' ')?;
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let field = |nth: usize| fields.get(nth - 3)?.trim().parse::<u64>().ok();
        let own = field(14)? + field(15)?;
        let ticks = own + field(16)? + field(17)?;
        Some(Stat { pid: pid.parse().ok()?, parent: field(4)? as u32, own, ticks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let sorted: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(quantile(&sorted, 0.5), Duration::from_millis(50));
        assert_eq!(quantile(&sorted, 0.99), Duration::from_millis(99));
        assert_eq!(quantile(&sorted, 1.0), Duration::from_millis(100));
        assert_eq!(quantile(&[], 0.99), Duration::ZERO);
    }

    #[test]
    fn fairness_is_one_for_equal_shares_and_a_part_where_one_has_all() {
        assert_eq!(jain(&[3, 3, 3]), 1.0);
        assert_eq!(jain(&[6, 0, 0]), 1.0 / 3.0);
    }

    #[test]
    fn idle_and_waiting_are_not_busy() {
        assert_eq!(busy_ticks("cpu  1 2 3 100 200 4 5 6 7 8\ncpu0 9"), Some(21));
        assert_eq!(busy_ticks(""), None);
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_is_passed_over() {
        let text = "12 (a) b) S 7 0 0 0 0 0 0 0 0 0 3 4 5 6 0 0";
        assert_eq!(Stat::parse(text), Some(Stat { pid: 12, parent: 7, own: 7, ticks: 18 }));
    }
}
