//! How long a path is held, from the grants of it that were seen to end: a histogram of fixed size.

use crate::types::{Intent, Micros};

/// The upper bound of the first bucket is two to this power, in microseconds: about a millisecond.
const FIRST_POWER: u32 = 10;
/// Buckets: two for each doubling, so the last one begins at about a day and a half.
const BUCKETS: usize = 56;

/// How often a path was held for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holds {
    counts: [u32; BUCKETS],
    /// How long the last one was said to last.
    pub(super) stated: Micros,
}

impl Default for Holds {
    fn default() -> Self {
        Holds { counts: [0; BUCKETS], stated: Micros::ZERO }
    }
}

impl Holds {
    /// It was held for `span`, and said to be for `stated`.
    pub(super) fn note(&mut self, span: Micros, stated: Micros) {
        let count = &mut self.counts[bucket(span)];
        *count = count.saturating_add(1);
        self.stated = stated;
    }

    /// Makes each count half as much, so many times.
    pub(super) fn cool(&mut self, halves: u32) {
        self.counts.iter_mut().for_each(|count| *count = count.checked_shr(halves).unwrap_or(0));
    }

    /// How many were seen.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// The time that half of them did not last longer than, as exact as the buckets are: within a fifth of it.
    /// `None` where none was seen.
    pub(super) fn typical(&self) -> Option<Micros> {
        let half = self.count().checked_sub(1)? / 2;
        let mut before = 0;
        for (at, count) in self.counts.iter().enumerate() {
            let count = u64::from(*count);
            if half < before + count {
                let (from, to) = (bound(at), bound(at + 1));
                // In the middle of its share of the bucket.
                let inside = (to - from).saturating_mul(2 * (half - before) + 1) / (2 * count);
                return Some(Micros::from_us(from + inside));
            }
            before += count;
        }
        None
    }
}

/// How long an intent says that it lasts, from its start to the end of the last of its claims.
pub(super) fn stated(intent: &Intent) -> Micros {
    let ends = intent.claims.iter().map(|claim| claim.offset.plus(claim.duration));
    ends.max().unwrap_or(Micros::ZERO)
}

/// The bucket of a span: the first up to two to the [`FIRST_POWER`], then two for each power.
fn bucket(span: Micros) -> usize {
    let us = span.as_us();
    let Some(power) = us.checked_ilog2().filter(|power| *power >= FIRST_POWER) else { return 0 };
    let is_upper = us >> (power - 1) & 1;
    let at = 1 + 2 * (power - FIRST_POWER) as usize + is_upper as usize;
    at.min(BUCKETS - 1)
}

/// Where a bucket begins, in microseconds.
fn bound(at: usize) -> u64 {
    let Some(at) = at.checked_sub(1) else { return 0 };
    let whole = 1 << (FIRST_POWER as usize + at / 2);
    if at.is_multiple_of(2) { whole } else { whole + whole / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(spans: &[u64]) -> Holds {
        let mut holds = Holds::default();
        spans.iter().for_each(|us| holds.note(Micros::from_us(*us), Micros::from_us(9)));
        holds
    }

    #[test]
    fn each_span_lies_within_the_bounds_of_its_bucket() {
        for us in [0, 1, 1_023, 1_024, 1_535, 1_536, 2_047, 2_048, 30_000_000, 86_400_000_000] {
            let at = bucket(Micros::from_us(us));
            assert!(bound(at) <= us && us < bound(at + 1), "{us}: {at}");
        }
        assert_eq!(bucket(Micros::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_typical_one_is_near_the_middle_one_whatever_the_others_are() {
        assert_eq!(holds(&[]).typical(), None);
        for middle in [20_000, 150_000, 7_000_000, 600_000_000] {
            let typical = holds(&[1, middle, 80_000_000_000]).typical().unwrap().as_us();
            assert!(typical.abs_diff(middle) * 5 <= middle, "{middle}: {typical}");
        }
    }

    #[test]
    fn what_was_seen_long_ago_counts_no_more() {
        let mut holds = holds(&[5_000, 5_000, 900_000]);
        assert_eq!((holds.count(), holds.stated.as_us()), (3, 9));
        holds.cool(1);
        assert_eq!(holds.count(), 1);
        holds.cool(99);
        assert_eq!((holds.count(), holds.typical()), (0, None));
    }
}
