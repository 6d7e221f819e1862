//! What the agents of a contended path may do about it, from what was seen there. docs/METRICS.md, "What is
//! advised", is made of this.

use std::fmt::{self, Display};

use serde::Serialize;

use super::contention::{Heat, OnPath};
use crate::config::show_duration;
use crate::types::{Micros, Path};

/// Conflicts below which nothing is advised: they may be chance.
const CONFLICTS: u64 = 5;
/// Holds below which nothing is said about how long leases should be.
const HOLDS: u64 = 8;
/// Up to here a typical hold is short: what is done then is often a look, or one of several that could go on side
/// by side.
const SHORT: Micros = Micros::from_secs(1);

/// Something to do.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Advice {
    #[serde(rename = "do")]
    what: What,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum What {
    ClaimDeeper,
    SharedOrUnits,
    LeaseLength,
}

/// What is advised for `path`: nothing where nothing stands out.
pub(super) fn of(path: &Path, heat: &Heat<OnPath>) -> Vec<Advice> {
    if heat.conflicts < CONFLICTS {
        return Vec::new();
    }
    [deeper(path, heat), side_by_side(heat), lease(&heat.of)].into_iter().flatten().collect()
}

/// Half of the conflicts or more are between a path and one below it.
fn deeper(path: &Path, heat: &Heat<OnPath>) -> Option<Advice> {
    let OnPath { below, above, named, .. } = &heat.of;
    let named = named.as_ref()?;
    let conflicts = heat.conflicts;
    let text = if below * 2 >= conflicts {
        format!(
            "claim deeper: in {below} of {conflicts} conflicts somebody held all of {path} and another wanted a part of it{}",
            Example(path, named)
        )
    } else if above * 2 >= conflicts {
        format!(
            "claim deeper: in {above} of {conflicts} conflicts somebody wanted more than {path}, of which only that part was taken{}",
            Example(named, path)
        )
    } else {
        return None;
    };
    Some(Advice { what: What::ClaimDeeper, text })
}

/// A part, as an example, where it is one.
struct Example<'a>(&'a Path, &'a Path);

impl Display for Example<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Example(whole, part) = self;
        if whole.covers(part) { write!(f, " ({part}, say)") } else { Ok(()) }
    }
}

/// All of the conflicts, as good as, are of two who claim alone, and hold it for a short time.
fn side_by_side(heat: &Heat<OnPath>) -> Option<Advice> {
    let OnPath { exclusive, below, above, holds, .. } = &heat.of;
    let typical = holds.as_ref()?.typical().filter(|typical| *typical <= SHORT)?;
    let is_of_one_path = (below + above) * 2 < heat.conflicts;
    if exclusive * 4 < heat.conflicts * 3 || !is_of_one_path {
        return None;
    }
    let text = format!(
        "claim it shared where it is only read, or give it a capacity and claim units: {exclusive} of {} \
         conflicts were between two who claimed it alone, typically for {}",
        heat.conflicts,
        Rounded(typical)
    );
    Some(Advice { what: What::SharedOrUnits, text })
}

/// What is claimed lasts longer than three times what is typically needed. One that is shorter is renewed, which
/// costs a message now and then and lets go sooner of who dies: nothing to change.
fn lease(of: &OnPath) -> Option<Advice> {
    let holds = of.holds.as_ref().filter(|holds| holds.count() >= HOLDS)?;
    let typical = holds.typical()?;
    let times = |factor: u64| Micros::from_us(typical.as_us().saturating_mul(factor));
    let (least, most) = (times(2), times(3));
    if holds.stated <= most {
        return None;
    }
    let text = format!(
        "a lease of {} to {}, two to three times what is typical: of {} that were seen to end half were held for \
         {} or less, and the last one was claimed for {}",
        Rounded(least),
        Rounded(most),
        holds.count(),
        Rounded(typical),
        show_duration(holds.stated)
    );
    Some(Advice { what: What::LeaseLength, text })
}

/// A span to two digits, as a configuration or a command line takes it.
struct Rounded(Micros);

impl Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0.as_us();
        let step = 10_u64.pow(us.checked_ilog10().unwrap_or(0).saturating_sub(1));
        f.write_str(&show_duration(Micros::from_us((us + step / 2) / step * step)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::holds::Holds;
    use crate::types::Time;

    fn path(text: &str) -> Path {
        Path::new(text).unwrap()
    }

    fn held(times: usize, us: u64, stated: u64) -> Option<Box<Holds>> {
        let mut holds = Holds::default();
        (0..times).for_each(|_| holds.note(Micros::from_us(us), Micros::from_us(stated)));
        Some(Box::new(holds))
    }

    fn advised(conflicts: u64, of: OnPath) -> Vec<What> {
        let heat = Heat { conflicts, last: Time::ZERO, of };
        super::of(&path("x/y"), &heat).into_iter().map(|advice| advice.what).collect()
    }

    #[test]
    fn of_a_few_conflicts_nothing_is_said() {
        let of = || OnPath { below: 4, named: Some(path("x/y/z")), ..OnPath::default() };
        assert_eq!(advised(4, of()), []);
        assert_eq!(advised(5, of()), [What::ClaimDeeper]);
    }

    #[test]
    fn who_holds_a_whole_or_asks_for_one_is_told_to_claim_deeper_from_half_of_the_conflicts_on() {
        let below = |below| OnPath { below, named: Some(path("x/y/z")), ..OnPath::default() };
        assert_eq!(advised(10, below(4)), []);
        assert_eq!(advised(10, below(5)), [What::ClaimDeeper]);
        let above = |above| OnPath { above, named: Some(path("x")), ..OnPath::default() };
        assert_eq!(advised(10, above(4)), []);
        assert_eq!(advised(10, above(5)), [What::ClaimDeeper]);
        let heat = Heat { conflicts: 10, last: Time::ZERO, of: above(5) };
        assert!(super::of(&path("x/y"), &heat)[0].text.contains("(x/y, say)"));
    }

    #[test]
    fn shared_or_units_are_for_short_holds_of_one_path_that_all_claim_alone() {
        let of = |exclusive, us| OnPath { exclusive, holds: held(1, us, us), ..OnPath::default() };
        assert_eq!(advised(8, of(6, 20_000)), [What::SharedOrUnits]);
        assert_eq!(advised(8, of(5, 20_000)), []);
        assert_eq!(advised(8, of(8, 2_000_000)), [], "long holds are no looks");
        let mixed = OnPath { below: 4, ..of(8, 20_000) };
        assert_eq!(advised(8, mixed), [], "nothing of what to do deeper without a name, and no sharing");
    }

    #[test]
    fn a_lease_is_two_to_three_times_what_is_typical() {
        let of = |times, us, stated| OnPath { holds: held(times, us, stated), ..OnPath::default() };
        assert_eq!(advised(5, of(7, 10_000_000, 60_000_000)), [], "too few were seen");
        assert_eq!(advised(5, of(8, 10_000_000, 60_000_000)), [What::LeaseLength]);
        assert_eq!(advised(5, of(8, 10_000_000, 25_000_000)), [], "it is that already");
        assert_eq!(advised(5, of(8, 10_000_000, 1_000_000)), [], "it is renewed");
        let heat = Heat { conflicts: 5, last: Time::ZERO, of: of(8, 10_000_000, 60_000_000) };
        let text = &super::of(&path("x"), &heat)[0].text;
        assert!(text.starts_with("a lease of 2") && text.ends_with("claimed for 1m"), "{text}");
    }

    #[test]
    fn spans_are_rounded_to_two_digits() {
        let rounded = |us| Rounded(Micros::from_us(us)).to_string();
        assert_eq!([rounded(7), rounded(1_234), rounded(1_460_000)], ["7us", "1200us", "1500ms"]);
    }
}
