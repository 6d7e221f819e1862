//! Quantiles of spans of time.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::types::Micros;

/// Where the spans of a list lie, in µs, each to three digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// How many there are; at least 1.
    pub count: u64,
    /// Half are at most this.
    pub p50: u64,
    /// 90 % are.
    pub p90: u64,
    /// 99 % are.
    pub p99: u64,
    /// 99.9 % are; below a thousand spans that is the greatest.
    pub p999: u64,
    /// The greatest.
    pub max: u64,
}

/// Longer spans than this are counted as this one: an hour.
const LONGEST_US: u64 = 3_600_000_000;

impl Quantiles {
    /// Those of `spans`, or `None` where there are none.
    pub fn of(spans: impl IntoIterator<Item = Micros>) -> Option<Self> {
        // Fails only for bounds or digits that are out of range; these are constants.
        let mut histogram = Histogram::<u64>::new_with_bounds(1, LONGEST_US, 3).ok()?;
        let mut max = 0;
        for span in spans {
            histogram.saturating_record(span.as_us());
            max = max.max(span.as_us());
        }
        let at = |quantile| histogram.value_at_quantile(quantile).min(max);
        let (p50, p90, p99, p999) = (at(0.5), at(0.9), at(0.99), at(0.999));
        (!histogram.is_empty()).then_some(Quantiles { count: histogram.len(), p50, p90, p99, p999, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth_and_the_greatest_is_exact() {
        let quantiles = Quantiles::of((1..=100_000).map(Micros::from_us)).unwrap();
        assert_eq!((quantiles.count, quantiles.max), (100_000, 100_000));
        for (found, exact) in [
            (quantiles.p50, 50_000),
            (quantiles.p90, 90_000),
            (quantiles.p99, 99_000),
            (quantiles.p999, 99_900),
        ] {
            assert!(found.abs_diff(exact) <= exact / 1_000 + 1, "{found} for {exact}");
        }
    }

    #[test]
    fn one_span_is_all_its_quantiles_and_none_has_none() {
        let one = Quantiles::of([Micros::from_us(12_345)]).unwrap();
        assert_eq!([one.p50, one.p90, one.p99, one.p999, one.max], [12_345; 5]);
        assert_eq!(Quantiles::of([]), None);
    }

    #[test]
    fn zero_and_what_is_longer_than_an_hour_are_counted() {
        let quantiles = Quantiles::of([Micros::ZERO, Micros::MAX]).unwrap();
        assert_eq!((quantiles.count, quantiles.p50, quantiles.max), (2, 0, u64::MAX));
    }
}
