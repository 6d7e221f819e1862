//! What the system says of this process's threads and of its sockets, and a slot loop of its work.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::coordinator::{Observer, SlotReport};

/// How the names of the threads of a server begin, and of those that ask it.
const SERVER: &str = "preclaim-";
const LOAD: &str = "bench-load";

/// Processor time of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Of the server's threads: those for the wire, and a coordinator's slot loop.
    pub server: Duration,
    /// Of the slot loop alone.
    pub slots: Duration,
    /// Of the threads that ask.
    pub load: Duration,
}

impl Used {
    pub(super) fn since(&self, before: &Used) -> Used {
        Used {
            server: self.server.saturating_sub(before.server),
            slots: self.slots.saturating_sub(before.slots),
            load: self.load.saturating_sub(before.load),
        }
    }
}

/// What a slot loop did, summed over its slots.
#[derive(Debug, Default)]
pub(super) struct Work {
    inputs: AtomicU64,
    slots: AtomicU64,
    resolving_us: AtomicU64,
    publishing_us: AtomicU64,
}

/// The work of a slot loop by declaration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// Declarations in a slot.
    pub per_slot: f64,
    /// Deciding each, in µs.
    pub resolving_us: f64,
    /// Finding who is to know, writing down what, and waking them: for each, in µs.
    pub publishing_us: f64,
}

impl Work {
    pub(super) fn parts(&self) -> Parts {
        let [inputs, slots, resolving, publishing] =
            [&self.inputs, &self.slots, &self.resolving_us, &self.publishing_us]
                .map(|sum| sum.load(Ordering::Relaxed) as f64);
        let (resolving_us, publishing_us) = (resolving / inputs, publishing / inputs);
        Parts { per_slot: inputs / slots, resolving_us, publishing_us }
    }
}

impl Observer for Work {
    fn slot_done(&self, report: &SlotReport) {
        let add = |sum: &AtomicU64, more: u64| {
            let _ = sum.fetch_add(more, Ordering::Relaxed);
        };
        add(&self.inputs, report.inputs as u64);
        add(&self.slots, 1);
        add(&self.resolving_us, report.resolved.since(report.closed).as_us());
        add(&self.publishing_us, report.published.since(report.persisted).as_us());
    }
}

/// What the threads of this process have used so far. Known on Linux alone.
pub(super) fn processor() -> Option<Used> {
    let mut used = Used::default();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let thread = thread.ok()?.path();
        // A thread that has ended meanwhile is none of those that are asked about.
        let read = |file| fs::read_to_string(thread.join(file)).unwrap_or_default();
        let (name, ran) = (read("comm"), read("schedstat"));
        let ran = ran.split_whitespace().next().and_then(|ran| ran.parse().ok());
        let ran = Duration::from_nanos(ran.unwrap_or(0));
        if name.starts_with(LOAD) {
            used.load += ran;
        } else if name.starts_with(SERVER) {
            used.server += ran;
            if name.starts_with("preclaim-slots") {
                used.slots += ran;
            }
        }
    }
    Some(used)
}

/// Datagrams that found a full socket buffer on this machine so far. Known on Linux alone.
pub(super) fn received_nowhere() -> Option<u64> {
    let text = fs::read_to_string("/proc/net/snmp").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let named = names.split_whitespace().zip(values.split_whitespace());
    let full = named.filter(|(name, _)| matches!(*name, "RcvbufErrors" | "SndbufErrors"));
    full.map(|(_, count)| count.parse::<u64>().ok()).sum()
}
