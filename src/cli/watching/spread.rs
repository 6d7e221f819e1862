//! How long something took, as a histogram of the coordinator's has it.

use crate::types::Micros;

/// How many took how long.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    /// Upper bound of each bucket in seconds, rising, the last one infinite, and how many are in it.
    buckets: Vec<(f64, f64)>,
    sum: f64,
}

impl Spread {
    /// Of buckets as Prometheus has them: how many are up to each bound.
    pub(super) fn cumulative(mut buckets: Vec<(f64, f64)>, sum: f64) -> Self {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut below = 0.0;
        for (_, count) in &mut buckets {
            (below, *count) = (*count, (*count - below).max(0.0));
        }
        Spread { buckets, sum }
    }

    /// What has been added since `earlier`; all of this, where it has begun anew since.
    pub(crate) fn since(&self, earlier: &Spread) -> Spread {
        let same = |(mine, theirs): (&(f64, f64), &(f64, f64))| mine.0 == theirs.0 && mine.1 >= theirs.1;
        let goes_on = self.buckets.len() == earlier.buckets.len()
            && self.buckets.iter().zip(&earlier.buckets).all(same);
        if !goes_on {
            return self.clone();
        }
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        let buckets = pairs.map(|(mine, theirs)| (mine.0, mine.1 - theirs.1)).collect();
        Spread { buckets, sum: self.sum - earlier.sum }
    }

    /// Both together, of the same buckets.
    pub(super) fn plus(mut self, other: &Spread) -> Spread {
        if self.buckets.is_empty() {
            return other.clone();
        }
        let pairs = self.buckets.iter_mut().zip(&other.buckets);
        pairs.for_each(|(mine, theirs)| mine.1 += theirs.1);
        self.sum += other.sum;
        self
    }

    /// How many there are.
    pub(crate) fn count(&self) -> f64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// In seconds.
    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    /// Upper bound of each bucket in seconds, the last one infinite, and how many are in it.
    pub(crate) fn buckets(&self) -> &[(f64, f64)] {
        &self.buckets
    }

    /// The time that `share` (0 to 1) of them did not exceed, evenly spread within its bucket as Prometheus' own
    /// `histogram_quantile` has it; past the last bound, that bound. `None` where there are none.
    pub(crate) fn quantile(&self, share: f64) -> Option<Micros> {
        let count = self.count();
        if count <= 0.0 {
            return None;
        }
        let rank = share * count;
        let (mut from, mut before) = (0.0, 0.0);
        for (to, inside) in &self.buckets {
            if before + inside >= rank && *inside > 0.0 {
                let seconds = if to.is_finite() {
                    from + (to - from) * ((rank - before) / inside).max(0.0)
                } else {
                    from
                };
                return Some(Micros::from_us((seconds * 1e6).round() as u64));
            }
            before += inside;
            from = if to.is_finite() { *to } else { from };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(up_to: &[(f64, f64)]) -> Spread {
        Spread::cumulative(up_to.to_vec(), 1.0)
    }

    #[test]
    fn quantiles_are_those_of_prometheus() {
        let spread = spread(&[(0.001, 10.0), (0.01, 90.0), (f64::INFINITY, 100.0)]);
        let at = |share| spread.quantile(share).map(Micros::as_us);
        assert_eq!(spread.count(), 100.0);
        assert_eq!([at(0.05), at(0.1), at(0.5)], [Some(500), Some(1_000), Some(5_500)]);
        assert_eq!(at(0.99), Some(10_000), "past the last bound nothing is known");
        assert_eq!(Spread::default().quantile(0.5), None);
    }

    #[test]
    fn what_was_added_is_a_difference_unless_it_began_anew() {
        let bounds = |a, b| spread(&[(0.001, a), (f64::INFINITY, b)]);
        let counts = |spread: Spread| spread.buckets().iter().map(|it| it.1).collect::<Vec<_>>();
        assert_eq!(counts(bounds(5.0, 9.0).since(&bounds(2.0, 5.0))), [3.0, 1.0]);
        assert_eq!(counts(bounds(1.0, 2.0).since(&bounds(2.0, 5.0))), [1.0, 1.0]);
        assert_eq!(counts(bounds(1.0, 2.0).since(&Spread::default())), [1.0, 1.0]);
        assert_eq!(counts(bounds(1.0, 2.0).plus(&bounds(2.0, 5.0))), [3.0, 4.0]);
        assert_eq!(Spread::default().plus(&bounds(1.0, 2.0)), bounds(1.0, 2.0));
    }
}
