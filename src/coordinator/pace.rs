//! Rates: so much within a span of time. Pure: time comes in as an argument.

use crate::types::{Micros, Time};

/// What has been let through at a rate, as one instant: that at which all of it would be through, had it come
/// evenly. It takes no memory for what has come, and none at all of those who keep to their rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    through: Time,
}

/// So many within a span of time, all of which may come at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    count: u64,
    within: Micros,
}

impl Rate {
    /// At least one within `within`.
    pub(crate) fn new(count: u64, within: Micros) -> Self {
        Rate { count: count.max(1), within }
    }

    /// At least one a second.
    pub(crate) fn a_second(count: u64) -> Self {
        Rate::new(count, Micros::from_secs(1))
    }

    /// How long `count` take at this rate.
    fn span(self, count: u64) -> Micros {
        let us = u128::from(count) * u128::from(self.within.as_us()) / u128::from(self.count);
        Micros::from_us(u64::try_from(us).unwrap_or(u64::MAX))
    }
}

impl Pace {
    /// Lets one more through, where the rate has room for it.
    pub(crate) fn lets_through(&mut self, now: Time, rate: Rate) -> bool {
        let through = self.with(now, rate, 1);
        let fits = through.since(now) <= rate.within;
        if fits {
            self.through = through;
        }
        fits
    }

    /// Counts `count` that have come already, and says how long to take in no more for it.
    pub(crate) fn charge(&mut self, now: Time, rate: Rate, count: u64) -> Micros {
        let through = self.with(now, rate, count);
        self.through = through;
        through.since(now.after(rate.within))
    }

    /// When all is through with `count` more.
    fn with(&self, now: Time, rate: Rate, count: u64) -> Time {
        self.through.max(now).after(rate.span(count))
    }

    /// Whether nothing that has come counts any more: a new one would do the same.
    pub(crate) fn is_at_rest(&self, now: Time) -> bool {
        self.through <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_us(ms * 1_000)
    }

    fn let_through(pace: &mut Pace, ms: u64, rate: Rate, tries: usize) -> usize {
        (0..tries).filter(|_| pace.lets_through(at(ms), rate)).count()
    }

    #[test]
    fn a_seconds_worth_comes_at_once_and_from_then_on_as_time_goes_by() {
        let (mut pace, rate) = (Pace::default(), Rate::a_second(10));
        assert_eq!(let_through(&mut pace, 5_000, rate, 30), 10);
        assert_eq!(let_through(&mut pace, 5_099, rate, 30), 0);
        assert_eq!(let_through(&mut pace, 5_100, rate, 30), 1);
        assert_eq!(let_through(&mut pace, 5_400, rate, 30), 3);
        assert!(!pace.is_at_rest(at(6_399)) && pace.is_at_rest(at(6_400)));
        assert_eq!(let_through(&mut pace, 90_000, rate, 30), 10, "no more for having been away");
    }

    #[test]
    fn what_has_come_is_charged_whole_and_waited_for() {
        let (mut pace, rate) = (Pace::default(), Rate::a_second(1_000));
        assert_eq!(pace.charge(at(0), rate, 1_000), Micros::ZERO);
        assert_eq!(pace.charge(at(0), rate, 500), Micros::from_ms(500));
        assert_eq!(pace.charge(at(500), rate, 0), Micros::ZERO);
        assert_eq!(pace.charge(at(500), rate, 1), Micros::from_ms(1));
    }

    #[test]
    fn no_count_and_no_time_overflows() {
        let (mut pace, rate) = (Pace::default(), Rate::a_second(0));
        assert!(pace.charge(Time::MAX, rate, u64::MAX) >= Micros::ZERO);
        assert!(pace.charge(Time::ZERO, rate, u64::MAX) > Micros::from_secs(1));
        assert!(!pace.lets_through(Time::ZERO, rate));
    }
}
