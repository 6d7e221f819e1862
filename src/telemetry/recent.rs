//! The last slots, and how they are shown.

use std::collections::VecDeque;

use serde::Serialize;

use crate::coordinator::{Punctuality, SlotReport};
use crate::limits;
use crate::types::{Micros, Slot, Time};

/// The last [`limits::SLOTS_SHOWN`] slots.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<SlotReport>);

impl Recent {
    pub(super) fn push(&mut self, report: SlotReport) {
        if self.0.len() >= limits::SLOTS_SHOWN {
            self.0.pop_back();
        }
        self.0.push_front(report);
    }

    /// The latest first.
    pub(super) fn latest(&self) -> Vec<SlotReport> {
        self.0.iter().copied().collect()
    }
}

/// `/slots`.
#[derive(Debug, Serialize)]
pub(super) struct Slots {
    length_us: Micros,
    slots: Vec<Shown>,
}

/// One slot: when it was to be decided, how late the loop woke for it, and how long each phase took, in µs.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    slot: Slot,
    at: Time,
    result: &'static str,
    lag_us: Micros,
    collect_us: Micros,
    resolve_us: Micros,
    persist_us: Micros,
    publish_us: Micros,
    /// From its decision time to its end.
    done_us: Micros,
    inputs: usize,
    decisions: usize,
}

impl Slots {
    pub(super) fn new(length: Micros, slots: &[SlotReport]) -> Self {
        Slots { length_us: length, slots: slots.iter().map(Shown::of).collect() }
    }
}

impl Shown {
    pub(super) fn of(report: &SlotReport) -> Self {
        Shown {
            slot: report.slot,
            at: report.at,
            result: match report.punctuality {
                Punctuality::OnTime => "ok",
                Punctuality::Late => "late",
                Punctuality::CaughtUp => "caught_up",
            },
            lag_us: report.wake(),
            collect_us: report.collect(),
            resolve_us: report.resolve(),
            persist_us: report.persist(),
            publish_us: report.publish(),
            done_us: report.published.since(report.at),
            inputs: report.inputs,
            decisions: report.decisions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_slots_are_kept_the_latest_first() {
        let mut recent = Recent::default();
        let at = Time::from_us(0);
        for number in 0..limits::SLOTS_SHOWN as u64 + 3 {
            recent.push(SlotReport {
                slot: Slot::new(number),
                at,
                woken: at,
                closed: at,
                resolved: at,
                persisted: at,
                published: at,
                inputs: 0,
                decisions: 0,
                punctuality: Punctuality::OnTime,
            });
        }
        let latest = recent.latest();
        assert_eq!(latest.len(), limits::SLOTS_SHOWN);
        assert_eq!((latest[0].slot.number(), latest[latest.len() - 1].slot.number()), (258, 3));
    }
}
