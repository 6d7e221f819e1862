//! Intents of a world so small that agents are in each other's way.

use preclaim::types::{RawClaim, RawExpect, RawIntent, RawMode, RawTarget};

use super::script::Script;

const PATHS: [&str; 8] = ["a", "a/b", "a/b/c", "p", "p/q", "f", "f/x", "a//b"];
/// Mostly what fits a slot or a few of them.
const SPANS_US: [u64; 8] = [1, 1_000, 10_000, 25_000, 100_000, 400_000, 0, u64::MAX];

/// An intent of `id`, of which most are valid; times count from `now`, in µs.
pub(crate) fn intent(script: &mut Script<'_>, id: u64, now: u64) -> RawIntent {
    let has = script.byte();
    let count = 1 + usize::from(script.below(3));
    let claims = (0..count).map(|_| claim(script)).collect();
    let mut optional = |bit: u8, read: &mut dyn FnMut(&mut Script<'_>) -> u64| {
        if has & (1 << bit) == 0 { 0 } else { read(script) }
    };
    let start = optional(0, &mut |script| now + 10_000 * u64::from(script.byte()));
    let slack = optional(1, &mut span);
    let wait = optional(2, &mut span);
    let task = optional(3, &mut |script| script.below(3).into());
    let class = optional(4, &mut |script| script.below(9).into());
    let urgency = optional(5, &mut |script| script.below(11).into());
    let expect = optional(6, &mut |script| now.saturating_sub(10_000 * u64::from(script.byte())));
    RawIntent {
        id,
        start: (has & 1 != 0).then_some(start),
        slack,
        wait,
        hold: has & 128 != 0,
        task,
        class,
        urgency: urgency as f64 / 10.0,
        claims,
        expects: if expect == 0 { Vec::new() } else { vec![RawExpect { path: "a/b".into(), as_of: expect }] },
        ..RawIntent::default()
    }
}

pub(crate) fn span(script: &mut Script<'_>) -> u64 {
    script.pick(&SPANS_US)
}

fn claim(script: &mut Script<'_>) -> RawClaim {
    let mode = match script.below(4) {
        0 | 1 => RawMode::Exclusive,
        2 => RawMode::Shared,
        _ => RawMode::Units(script.below(6).into()),
    };
    let target = match script.below(5) {
        0..3 => RawTarget::Path(script.pick(&PATHS).into()),
        3 => {
            let mut corner = || vec![f64::from(script.below(16)), f64::from(script.below(16))];
            let (min, max) = (corner(), corner());
            RawTarget::Box { frame: "f".into(), min, max }
        }
        _ => {
            let count = script.below(7);
            let corner = |script: &mut Script<'_>| vec![script.metres(), script.metres()];
            let corners = (0..count).map(|_| corner(script)).collect();
            let height = script.is_so().then(|| vec![script.metres(), script.metres()]);
            RawTarget::Polygon { frame: "f".into(), corners, height }
        }
    };
    let offset = if script.is_so() { span(script) } else { 0 };
    RawClaim { target, mode, offset, duration: span(script) }
}
