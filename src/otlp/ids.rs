//! Numbers of traces and spans: drawn from a seed (splitmix64), which is drawn by chance. Nobody's safety rests on them.

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Ids(u64);

impl Ids {
    pub(super) fn from_seed(seed: u64) -> Self {
        Ids(seed)
    }

    /// Drawn by chance.
    pub(super) fn drawn() -> Self {
        Ids::from_seed(crate::client::random() as u64)
    }

    pub(super) fn trace(&mut self) -> u128 {
        u128::from(self.span()) << 64 | u128::from(self.span())
    }

    pub(super) fn span(&mut self) -> u64 {
        loop {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            if mixed != 0 {
                return mixed;
            }
        }
    }
}
