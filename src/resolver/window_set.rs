//! Plain stand-ins for the indexes of windows and units: right, and linear.

use std::collections::BTreeMap;

use crate::types::{Micros, Time, Window};

/// Windows with a key each; a window may stand in it under several keys.
#[derive(Debug, Default)]
pub(super) struct WindowSet {
    by_start: BTreeMap<(Time, u64), (Time, Micros)>,
}

impl WindowSet {
    pub(super) fn insert(&mut self, window: Window, key: u64, tau: Micros) {
        self.by_start.insert((window.start(), key), (window.end(), tau));
    }

    pub(super) fn remove(&mut self, window: Window, key: u64) {
        self.by_start.remove(&(window.start(), key));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    pub(super) fn for_each_overlapping(&self, range: Window, mut f: impl FnMut(Window, u64)) {
        for ((start, key), (end, _)) in self.by_start.range(..(range.end(), 0)) {
            if let Some(window) = Window::new(*start, *end).filter(|it| it.overlap(range).is_some()) {
                f(window, *key);
            }
        }
    }

    pub(super) fn earliest_gap(&self, from: Time, duration: Micros, tau: Micros, last: Time) -> Option<Time> {
        let mut at = from;
        for ((start, _), (end, theirs)) in &self.by_start {
            let tolerance = tau.min(*theirs);
            let (Some(mine), Some(window)) = (Window::new(at, at.after(duration)), Window::new(*start, *end))
            else {
                break;
            };
            if mine.overlaps_by_more_than(window, tolerance) {
                at = end.before(tolerance);
            }
        }
        (at <= last).then_some(at)
    }
}

/// The sum of units over time.
#[derive(Debug, Default)]
pub(super) struct Profile {
    steps: BTreeMap<Time, i128>,
}

impl Profile {
    pub(super) fn add(&mut self, window: Window, units: u64) {
        self.change(window.start(), i128::from(units));
        self.change(window.end(), -i128::from(units));
    }

    pub(super) fn sub(&mut self, window: Window, units: u64) {
        self.change(window.start(), -i128::from(units));
        self.change(window.end(), i128::from(units));
    }

    fn change(&mut self, at: Time, by: i128) {
        let step = self.steps.entry(at).or_default();
        *step += by;
        if *step == 0 {
            self.steps.remove(&at);
        }
    }

    pub(super) fn earliest_fit(
        &self,
        from: Time,
        duration: Micros,
        need: u64,
        capacity: u64,
        last: Time,
    ) -> Option<Time> {
        let room = i128::from(capacity) - i128::from(need);
        let (mut at, mut sum) = (from, 0);
        let edges: Vec<(Time, i128)> = self.steps.iter().map(|(at, by)| (*at, *by)).collect();
        for (index, (edge, by)) in edges.iter().enumerate() {
            sum += by;
            let until = edges.get(index + 1).map_or(Time::MAX, |(next, _)| *next);
            if sum > room && *edge < at.after(duration) && until > at {
                at = until;
            }
        }
        (room >= 0 && at <= last).then_some(at)
    }
}
