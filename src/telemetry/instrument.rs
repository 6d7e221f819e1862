//! Counters and histograms that the slot loop adds to without a lock: each addition is a relaxed atomic
//! one. Their labels are closed lists, so how many series there are does not depend on what agents do.

use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::types::Micros;

/// The values of a label, all of them known.
pub(super) trait Label: Copy + Debug + PartialEq + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Each value, at its index.
    const ALL: &'static [Self];

    /// Where it stands in [`Label::ALL`].
    fn index(self) -> usize;

    /// Its spelling.
    fn as_str(self) -> &'static str;
}

/// The values of a label, with how they are spelled.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident = $label:literal { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum $name { $($variant,)* }

        impl Label for $name {
            const NAME: &'static str = $label;
            const ALL: &'static [Self] = &[$($name::$variant,)*];

            fn index(self) -> usize {
                self as usize
            }

            fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}
pub(super) use label;

/// A number that only grows, or is set.
#[derive(Debug, Default)]
pub(super) struct Number(AtomicU64);

impl Number {
    pub(super) fn add(&self, count: u64) {
        if count > 0 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// One of `T` for each value of a label.
pub(super) struct Each<L, T> {
    each: Box<[T]>,
    label: PhantomData<L>,
}

impl<L, T: Debug> Debug for Each<L, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.each.fmt(f)
    }
}

impl<L: Label, T> Each<L, T> {
    pub(super) fn new(make: impl Fn() -> T) -> Self {
        Each { each: L::ALL.iter().map(|_| make()).collect(), label: PhantomData }
    }

    pub(super) fn of(&self, value: L) -> &T {
        &self.each[value.index()]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (L, &T)> {
        L::ALL.iter().copied().zip(&self.each)
    }
}

/// How many counters there are of each kind.
pub(super) type Counters<L> = Each<L, Number>;

/// How long things took. Sums are of whole microseconds, so they are exact.
#[derive(Debug)]
pub(super) struct Histogram {
    /// Upper bounds, rising.
    bounds: &'static [Micros],
    /// One for each bound, and one for what is above.
    counts: Box<[AtomicU64]>,
    sum_us: AtomicU64,
}

/// A histogram at some instant.
#[derive(Debug, PartialEq)]
pub(super) struct Snapshot {
    /// Upper bound in seconds and count of each bucket, not summed up.
    pub(super) buckets: Vec<(f64, u64)>,
    pub(super) count: u64,
    /// In seconds.
    pub(super) sum: f64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [Micros]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum_us: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, span: Micros) {
        let at = self.bounds.partition_point(|bound| *bound < span);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(span.as_us(), Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let seconds = |us: u64| us as f64 / 1e6;
        let bounds = self.bounds.iter().map(|bound| seconds(bound.as_us())).chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Snapshot { buckets, count, sum: seconds(self.sum_us.load(Ordering::Relaxed)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_takes_what_is_at_its_bound_and_not_what_is_past_it() {
        static BOUNDS: [Micros; 2] = [Micros::from_us(10), Micros::from_us(1_000_000)];
        let histogram = Histogram::new(&BOUNDS);
        for us in [0, 10, 11, 1_000_000, 1_000_001] {
            histogram.observe(Micros::from_us(us));
        }
        let Snapshot { buckets, count, sum } = histogram.snapshot();
        assert_eq!(buckets, [(0.000_01, 2), (1.0, 2), (f64::INFINITY, 1)]);
        assert_eq!((count, sum), (5, 2.000_022));
    }
}
