//! Whether the wall clock is set while the clock that is counted on goes on.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Two clocks are read one after the other; a pair of readings that took longer than this says nothing.
const READ_WITHIN: Duration = Duration::from_micros(100);

/// Compares the two clocks.
#[derive(Debug, Default)]
pub(super) struct WallWatch {
    /// An instant that all others are counted from.
    origin: Option<Instant>,
    /// The wall clock's time less the other's, in µs.
    last: Option<i128>,
    largest: u64,
    /// Pairs of readings that were compared.
    compared: u64,
}

impl WallWatch {
    /// Reads both.
    pub(super) fn look(&mut self) {
        let before = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let took = before.elapsed();
        let counted = before.duration_since(*self.origin.get_or_insert(before));
        if took <= READ_WITHIN {
            self.note(micros(wall) - micros(counted));
        }
    }

    /// How far they were apart.
    fn note(&mut self, apart: i128) {
        if let Some(last) = self.last {
            let step = u64::try_from(apart.abs_diff(last)).unwrap_or(u64::MAX);
            self.largest = self.largest.max(step);
            self.compared += 1;
        }
        self.last = Some(apart);
    }

    /// The farthest that one moved against the other between two looks; `None` where there were no two.
    pub(super) fn largest_step_us(&self) -> Option<u64> {
        (self.compared > 0).then_some(self.largest)
    }
}

fn micros(span: Duration) -> i128 {
    i128::try_from(span.as_micros()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farthest_step_counts_whichever_way_it_went() {
        let mut wall = WallWatch::default();
        wall.note(1_000_000);
        assert_eq!(wall.largest_step_us(), None, "one look compares nothing");
        wall.note(1_000_003);
        assert_eq!(wall.largest_step_us(), Some(3));
        wall.note(995_003);
        wall.note(995_503);
        assert_eq!(wall.largest_step_us(), Some(5_000));
    }

    #[test]
    fn looks_at_the_real_clocks_are_compared() {
        let mut wall = WallWatch::default();
        while wall.largest_step_us().is_none() {
            wall.look();
        }
    }
}
