//! What becomes of one datagram.

use std::time::Duration;

/// How one way of the network treats what goes over it. Shares are from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Link {
    pub(crate) delay: Duration,
    /// On top of the delay, anything from 0 to this. By itself it reorders nothing.
    pub(crate) jitter: Duration,
    pub(crate) loss: f64,
    /// Each of these comes a second time, within [`STRAY`].
    pub(crate) doubled: f64,
    /// Each of these is held back for up to [`STRAY`], so that those behind it overtake it.
    pub(crate) reordered: f64,
}

/// How far a copy, or one that is held back, may stray from its place.
const STRAY: Duration = Duration::from_millis(40);

/// From the agent, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Up = 0,
    Down = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) is_lost: bool,
    pub(crate) delay: Duration,
    pub(crate) held_back: Option<Duration>,
    pub(crate) copy_after: Option<Duration>,
}

/// What becomes of datagram `number` of flow `flow`, both counted from 0.
pub(crate) fn fate(seed: u64, way: Way, flow: u64, number: u64, link: &Link) -> Fate {
    let place = [seed, way as u64, flow, number];
    let mut dice = place.iter().fold(0, |mixed, part| mix(mixed ^ part));
    // All dice are thrown, whatever comes of the first: a share that is changed moves no other.
    let mut throw = || {
        dice = dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (mix(dice) >> 11) as f64 / (1_u64 << 53) as f64
    };
    let is_lost = throw() < link.loss;
    let delay = link.delay + link.jitter.mul_f64(throw());
    let (is_held, held) = (throw() < link.reordered, STRAY.mul_f64(throw()));
    let (is_doubled, after) = (throw() < link.doubled, STRAY.mul_f64(throw()));
    Fate { is_lost, delay, held_back: is_held.then_some(held), copy_after: is_doubled.then_some(after) }
}

/// The finalizer of splitmix64.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
