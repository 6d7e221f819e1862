//! What an agent knows of the coordinator's clock: bounds, never a guess.
//!
//! Each exchange says: the coordinator's time was `coordinator` at some instant between the sending
//! and the receipt. From there on both bounds move apart by the drift that two clocks may have. The
//! exchange with the narrowest bounds now is the one believed, so the lowest round trips win and an
//! old one gives way in time.

use std::collections::VecDeque;

use super::Local;
use crate::types::{Micros, Time};

/// How far two clocks may drift apart, in millionths: cheap crystals stay within 100 each.
const DRIFT_PPM: i128 = 200;
/// Exchanges remembered: enough that one good round trip outlives a bad minute.
const EXCHANGES: usize = 16;
const MILLION: i128 = 1_000_000;

/// One exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exchange {
    sent: Local,
    received: Local,
    coordinator: Time,
}

/// Bounds of the coordinator's time at one instant: it is at least `earliest` and at most `latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The coordinator's time is not before this.
    pub earliest: Time,
    /// The coordinator's time is not after this.
    pub latest: Time,
}

impl Bounds {
    /// The best single guess.
    pub fn middle(self) -> Time {
        self.earliest.after(Micros::from_us(self.latest.since(self.earliest).as_us() / 2))
    }

    /// How far the guess may be off, either way.
    pub fn uncertainty(self) -> Micros {
        Micros::from_us(self.latest.since(self.earliest).as_us().div_ceil(2))
    }
}

/// The estimate of the coordinator's clock.
#[derive(Clone, Debug, Default)]
pub struct ClockEstimate {
    exchanges: VecDeque<Exchange>,
    /// The greatest time that the coordinator has named, and when it was heard.
    named: Option<(Local, Time)>,
}

impl ClockEstimate {
    /// Takes in an exchange that was `sent` and `received` by the agent's clock. Says whether it
    /// contradicts what was known: then one of the clocks jumped, and only the new one is believed.
    pub fn add(&mut self, sent: Local, received: Local, coordinator: Time) -> bool {
        let new = Exchange { sent, received: received.max(sent), coordinator };
        let known = self.bounds(new.received);
        let told = new.bounds(new.received);
        let jumped = known.is_some_and(|known| told.latest < known.earliest || known.latest < told.earliest);
        if jumped {
            self.exchanges.clear();
            self.named = None;
        }
        if self.exchanges.len() == EXCHANGES {
            self.drop_widest(new.received);
        }
        self.exchanges.push_back(new);
        jumped
    }

    /// The coordinator named `time` in something that arrived at `now`: so late it is at least.
    pub fn heard(&mut self, time: Time, now: Local) {
        if self.bounds(now).is_some_and(|bounds| bounds.earliest < time && time <= bounds.latest) {
            self.named = Some((now, time));
        }
    }

    /// Whether anything is known at all.
    pub fn is_known(&self) -> bool {
        !self.exchanges.is_empty()
    }

    /// Bounds of the coordinator's time at `now`; `None` before the first exchange.
    pub fn bounds(&self, now: Local) -> Option<Bounds> {
        let bounds = self.best(now).map(|exchange| exchange.bounds(now))?;
        let named = self.named.map_or(Time::ZERO, |(heard, named)| named.after(slowed(now.since(heard))));
        Some(Bounds { earliest: bounds.earliest.max(named.min(bounds.latest)), ..bounds })
    }

    /// The first local instant at which the coordinator's time may be `time`: until then it is surely
    /// earlier. This is when a holder must have stopped.
    pub fn may_be(&self, time: Time, now: Local) -> Option<Local> {
        self.best(now).map(|exchange| exchange.may_be(time))
    }

    /// The first local instant at which the coordinator's time surely is `time` or later. This is
    /// when a holder may begin.
    pub fn surely_is(&self, time: Time, now: Local) -> Option<Local> {
        let by_exchange = self.best(now)?.surely_is(time);
        let by_name = self.named.map(|(heard, named)| heard.after(stretched(time.since(named))));
        Some(by_name.map_or(by_exchange, |by_name| by_exchange.min(by_name)))
    }

    fn best(&self, now: Local) -> Option<&Exchange> {
        self.exchanges.iter().min_by_key(|exchange| exchange.bounds(now).uncertainty())
    }

    fn drop_widest(&mut self, now: Local) {
        let width = |at: &usize| self.exchanges[*at].bounds(now).uncertainty();
        if let Some(widest) = (0..self.exchanges.len()).max_by_key(width) {
            self.exchanges.remove(widest);
        }
    }
}

impl Exchange {
    fn bounds(&self, now: Local) -> Bounds {
        let since_sent = micros(now.since(self.sent));
        let told = i128::from(self.coordinator.as_us());
        let fast = since_sent + (since_sent * DRIFT_PPM + MILLION - 1) / MILLION;
        let earliest = self.coordinator.after(slowed(now.since(self.received)));
        Bounds { earliest, latest: time(told + fast) }
    }

    /// The inverse of the upper bound, rounded towards the earlier.
    fn may_be(&self, at: Time) -> Local {
        let ahead = micros(at.since(self.coordinator));
        self.sent.after(span((ahead * MILLION) / (MILLION + DRIFT_PPM)))
    }

    /// The inverse of the lower bound, rounded towards the later.
    fn surely_is(&self, at: Time) -> Local {
        self.received.after(stretched(at.since(self.coordinator)))
    }
}

/// The least that the coordinator's clock can have run in `span` of the agent's.
fn slowed(local: Micros) -> Micros {
    let us = micros(local);
    span(us - (us * DRIFT_PPM + MILLION - 1) / MILLION)
}

/// The most that the agent's clock can run while the coordinator's runs `ahead`.
fn stretched(ahead: Micros) -> Micros {
    if ahead == Micros::ZERO { ahead } else { span(micros(ahead) * MILLION / (MILLION - DRIFT_PPM) + 2) }
}

fn micros(span: Micros) -> i128 {
    i128::from(span.as_us())
}

fn time(us: i128) -> Time {
    Time::from_us(u64::try_from(us.max(0)).unwrap_or(u64::MAX))
}

fn span(us: i128) -> Micros {
    Micros::from_us(u64::try_from(us.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn local(us: u64) -> Local {
        Local::from_us(us)
    }

    #[test]
    fn nothing_is_known_before_the_first_exchange() {
        let clock = ClockEstimate::default();
        assert!(!clock.is_known());
        assert_eq!(clock.bounds(local(5)), None);
        assert_eq!(clock.may_be(Time::from_us(7), local(5)), None);
    }

    #[test]
    fn the_bounds_are_the_round_trip_and_widen_with_age() {
        let mut clock = ClockEstimate::default();
        clock.add(local(1_000), local(1_400), Time::from_us(50_000));
        let fresh = clock.bounds(local(1_400)).unwrap();
        assert_eq!((fresh.earliest, fresh.latest), (Time::from_us(50_000), Time::from_us(50_401)));
        let later = clock.bounds(local(1_001_400)).unwrap();
        assert_eq!(later.uncertainty(), Micros::from_us(401));
        assert_eq!(later.middle(), Time::from_us(1_050_200));
    }

    #[test]
    fn the_lowest_round_trip_wins_until_its_age_has_made_it_worse() {
        let mut clock = ClockEstimate::default();
        clock.add(local(0), local(100), Time::from_us(10_050));
        clock.add(local(1_000), local(9_000), Time::from_us(15_000));
        assert_eq!(clock.bounds(local(9_000)).unwrap().earliest, Time::from_us(10_050 + 8_900 - 2));
        // 8 ms of round trip are reached by the drift of 40 s.
        clock.add(local(60_000_000), local(60_003_000), Time::from_us(60_011_500));
        assert_eq!(clock.bounds(local(60_003_000)).unwrap().earliest, Time::from_us(60_011_500));
    }

    #[test]
    fn a_clock_that_jumped_is_believed_anew() {
        let mut clock = ClockEstimate::default();
        assert!(!clock.add(local(0), local(100), Time::from_us(10_000)));
        assert!(clock.add(local(1_000), local(1_100), Time::from_us(3_000_000)));
        assert_eq!(clock.bounds(local(1_100)).unwrap().earliest, Time::from_us(3_000_000));
    }

    #[test]
    fn a_time_that_the_coordinator_named_is_a_floor() {
        let mut clock = ClockEstimate::default();
        clock.add(local(0), local(100_000), Time::from_us(1_000_000));
        clock.heard(Time::from_us(1_060_000), local(110_000));
        assert_eq!(clock.bounds(local(110_000)).unwrap().earliest, Time::from_us(1_060_000));
        assert_eq!(clock.surely_is(Time::from_us(1_060_000), local(110_000)), Some(local(110_000)));
        clock.heard(Time::from_us(9_000_000), local(110_000));
        assert_eq!(
            clock.bounds(local(110_000)).unwrap().earliest,
            Time::from_us(1_060_000),
            "not beyond belief"
        );
    }

    proptest! {
        /// A coordinator whose clock is anywhere and runs up to 200 ppm fast or slow, asked over
        /// links of any delay.
        #[test]
        fn the_truth_lies_within_the_bounds(
            offset in 1_000_000_u64..1 << 50,
            ppm in -190_i128..190,
            exchanges in proptest::collection::vec((1_u64..5_000_000, 0_u64..300_000, 0_u64..300_000), 1..40),
            later in 0_u64..100_000_000,
        ) {
            let truth = |at: u64| time(i128::from(offset) + i128::from(at) * (MILLION + ppm) / MILLION);
            let (mut clock, mut at) = (ClockEstimate::default(), 0);
            for (gap, there, back) in exchanges {
                let sent = at + gap;
                let read = sent + there;
                at = read + back;
                prop_assert!(!clock.add(local(sent), local(at), truth(read)));
            }
            let bounds = clock.bounds(local(at + later)).unwrap();
            prop_assert!(bounds.earliest <= truth(at + later) && truth(at + later) <= bounds.latest);
            let due = truth(at + later);
            let stop = clock.may_be(due, local(at)).unwrap();
            prop_assert!(stop <= local(at + later), "a holder stops no later than its end");
            let begin = clock.surely_is(due, local(at)).unwrap();
            prop_assert!(truth(begin.as_us()) >= due, "a holder begins no earlier than its start");
        }
    }
}
