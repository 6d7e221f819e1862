//! Sums of units over time, where what a revision left in this slot stands beside the new version and
//! only the larger of the two counts.

use super::ledger::GroupId;
use crate::types::{Time, Window};

/// Units in use in a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// Uses of one intent have one number, counted from 0 on without a gap.
    pub(super) key: usize,
    /// Uses of one version of it add up.
    pub(super) version: GroupId,
    pub(super) window: Window,
    pub(super) units: u64,
}

/// A stretch of time in which the same uses are there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) window: Window,
    pub(super) sum: u128,
}

/// The units of one version of an intent that are out.
#[derive(Clone, Copy, Debug)]
struct Version {
    version: GroupId,
    units: u128,
    uses: usize,
}

/// A walk over the instants at which uses begin and end. It keeps the sum as it goes, so that its cost
/// is that of sorting them.
#[derive(Debug)]
pub(super) struct Sums {
    uses: Vec<Use>,
    /// The versions of each intent that are out now: one, or two in a slot that revises it.
    out: Vec<Vec<Version>>,
    sum: u128,
    present: usize,
}

impl Sums {
    pub(super) fn of(uses: Vec<Use>) -> Self {
        let keys = uses.iter().map(|it| it.key + 1).max().unwrap_or(0);
        Sums { uses, out: vec![Vec::new(); keys], sum: 0, present: 0 }
    }

    /// The steps of the sum over time; stretches without any use are left out.
    pub(super) fn steps(mut self) -> Vec<Step> {
        let uses = std::mem::take(&mut self.uses);
        let edge = |(at, it): (usize, &Use)| [(it.window.start(), true, at), (it.window.end(), false, at)];
        let mut edges: Vec<(Time, bool, usize)> = uses.iter().enumerate().flat_map(edge).collect();
        edges.sort_unstable();
        let mut steps = Vec::new();
        let mut last = Time::ZERO;
        for (at, begins, index) in edges {
            if let Some(window) = Window::new(last, at).filter(|_| self.present > 0) {
                steps.push(Step { window, sum: self.sum });
            }
            last = at;
            if begins { self.begin(uses[index]) } else { self.end(uses[index]) }
        }
        steps
    }

    fn begin(&mut self, it: Use) {
        self.present += 1;
        let units = u128::from(it.units);
        self.change(it.key, |versions| match versions.iter_mut().find(|other| other.version == it.version) {
            Some(same) => {
                same.units += units;
                same.uses += 1;
            }
            None => versions.push(Version { version: it.version, units, uses: 1 }),
        });
    }

    fn end(&mut self, it: Use) {
        self.present -= 1;
        self.change(it.key, |versions| {
            for same in versions.iter_mut().filter(|other| other.version == it.version) {
                same.units -= u128::from(it.units);
                same.uses -= 1;
            }
            versions.retain(|it| it.uses > 0);
        });
    }

    fn change(&mut self, key: usize, change: impl FnOnce(&mut Vec<Version>)) {
        let most = |versions: &[Version]| versions.iter().map(|it| it.units).max().unwrap_or(0);
        let versions = &mut self.out[key];
        self.sum -= most(versions);
        change(versions);
        self.sum += most(versions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn using(key: usize, version: GroupId, start: u64, end: u64, units: u64) -> Use {
        let window = Window::new(Time::from_us(start), Time::from_us(end)).unwrap();
        Use { key, version, window, units }
    }

    fn steps(uses: &[Use]) -> Vec<(u64, u64, u128)> {
        let steps = Sums::of(uses.to_vec()).steps();
        steps.iter().map(|it| (it.window.start().as_us(), it.window.end().as_us(), it.sum)).collect()
    }

    #[test]
    fn intents_add_up_and_of_two_versions_of_one_the_larger_counts() {
        let two = [using(0, 7, 0, 10, 3), using(1, 8, 5, 15, 4)];
        assert_eq!(steps(&two), [(0, 5, 3), (5, 10, 7), (10, 15, 4)]);
        let versions = [using(0, 7, 0, 10, 3), using(0, 8, 5, 15, 4), using(0, 8, 5, 7, 1)];
        assert_eq!(steps(&versions), [(0, 5, 3), (5, 7, 5), (7, 10, 4), (10, 15, 4)]);
    }

    #[test]
    fn stretches_without_a_use_are_no_steps() {
        assert_eq!(
            steps(&[using(0, 1, 2, 4, 1), using(1, 2, 6, 8, u64::MAX)]),
            [(2, 4, 1), (6, 8, u128::from(u64::MAX))]
        );
        assert_eq!(steps(&[using(0, 1, 2, 4, 1), using(1, 2, 4, 8, 1)]), [(2, 4, 1), (4, 8, 1)]);
        assert!(steps(&[]).is_empty());
    }
}
