//! Chance from a seed, so that every system gets the same work.

/// Numbers that look drawn by chance and are the same for one seed (splitmix64, by Sebastiano Vigna).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice(seed ^ 0x5851_f42d_4c95_7f2d);
        dice.draw(); // neighbouring seeds begin far apart
        dice
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 where that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// The pause before another try: 5 to 15 ms, as clients of locks without a queue make it.
    pub(crate) fn pause(&mut self) -> std::time::Duration {
        std::time::Duration::from_micros(5000 + self.below(10_000))
    }
}
