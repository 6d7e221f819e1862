//! Numbers that look drawn by chance and are the same for one seed (splitmix64).

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        // Neighbouring seeds begin far apart.
        let mut dice = Dice(seed ^ 0x5851_f42d_4c95_7f2d);
        dice.draw();
        dice
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 where that is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Whether something happens that does so `percent` times in a hundred.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `all`, of which there is at least one.
    pub(super) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// Other dice, whose numbers do not depend on how often these are thrown from here on.
    pub(super) fn fork(&mut self) -> Dice {
        Dice(self.draw())
    }
}
