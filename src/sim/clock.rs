//! Clocks as the machines of a simulation have them: each runs a little fast or slow, from an origin of
//! its own, and may jump ahead or stand still.
//!
//! True time is in µs since the simulation began. Only the simulation knows it.

/// A clock: what it shows is a straight line of true time from its last jump on.
#[derive(Clone, Debug)]
pub(super) struct SimClock {
    /// Before this true time it stands still.
    from: u64,
    /// What it shows then.
    shows: u64,
    /// Millionths that it runs fast.
    fast_ppm: i64,
}

const MILLION: i128 = 1_000_000;

impl SimClock {
    pub(super) fn new(from: u64, shows: u64, fast_ppm: i64) -> Self {
        SimClock { from, shows, fast_ppm }
    }

    /// What it shows at the true time `at`.
    pub(super) fn read(&self, at: u64) -> u64 {
        let since = i128::from(at.saturating_sub(self.from));
        let ran = since * (MILLION + i128::from(self.fast_ppm)) / MILLION;
        self.shows.saturating_add(u64::try_from(ran).unwrap_or(u64::MAX))
    }

    /// The first true time at which it shows `reading` or later.
    pub(super) fn when(&self, reading: u64) -> u64 {
        let ahead = i128::from(reading.saturating_sub(self.shows));
        let rate = MILLION + i128::from(self.fast_ppm);
        let since = (ahead * MILLION + rate - 1).div_euclid(rate);
        self.from.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// It jumps ahead, or back.
    pub(super) fn jump(&mut self, at: u64, ahead: i64) {
        *self = SimClock { from: at, shows: self.read(at).saturating_add_signed(ahead), ..*self };
    }

    /// It stands still for `span`, as that of a machine that is suspended.
    pub(super) fn stop(&mut self, at: u64, span: u64) {
        *self = SimClock { from: at + span, shows: self.read(at), ..*self };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_and_its_instant_belong_together() {
        for fast_ppm in [-99, 0, 99] {
            let clock = SimClock::new(1_000, 77, fast_ppm);
            for at in [1_000, 1_001, 500_000, 10_000_000_001] {
                let when = clock.when(clock.read(at));
                assert!(clock.read(when) >= clock.read(at) && when <= at + 1, "{fast_ppm} {at}");
                assert!(when == 0 || clock.read(when - 1) < clock.read(at) || when == 1_000);
            }
        }
    }

    #[test]
    fn a_jump_and_a_stop_are_seen() {
        let mut clock = SimClock::new(0, 0, 0);
        clock.jump(100, 50);
        assert_eq!((clock.read(99), clock.read(100), clock.read(200)), (150, 150, 250));
        clock.stop(200, 1_000);
        assert_eq!((clock.read(1_200), clock.read(1_201)), (250, 251));
    }
}
