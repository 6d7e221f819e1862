//! Whether a revision asks for nothing that its grant does not hold already.

use super::settings::Settings;
use crate::space::geometry;
use crate::types::{Claim, Intent, Micros, Mode, Start, Target, Window};

/// Whether `new`, a revision of a grant of `old` whose claims have `windows` by now, is a shrink:
/// a start time and no slack, the same class, task and hold, and each claim, in order, within the
/// first old claim not used yet that covers it.
pub(super) fn is_shrink(old: &Intent, windows: &[Window], new: &Intent, settings: &Settings) -> bool {
    let Start::At(start) = new.start else { return false };
    let same =
        new.slack == Micros::ZERO && (new.class, new.task, new.hold) == (old.class, old.task, old.hold);
    if !same {
        return false;
    }
    let mut used = vec![false; old.claims.len()];
    new.claims.iter().all(|claim| {
        let covers = |index: &usize| {
            let (old, window) = (&old.claims[*index], windows[*index]);
            !used[*index] && window.covers(claim.window(start)) && lies_within(old, claim, settings)
        };
        let found = (0..old.claims.len()).find(covers);
        found.inspect(|index| used[*index] = true).is_some()
    })
}

fn lies_within(old: &Claim, new: &Claim, settings: &Settings) -> bool {
    is_same_or_weaker(old.mode, new.mode) && target_lies_within(old, new, settings)
}

fn is_same_or_weaker(old: Mode, new: Mode) -> bool {
    match (old, new) {
        (Mode::Exclusive, Mode::Exclusive | Mode::Shared) | (Mode::Shared, Mode::Shared) => true,
        (Mode::Units(old), Mode::Units(new)) => new <= old,
        _ => false,
    }
}

fn target_lies_within(old: &Claim, new: &Claim, settings: &Settings) -> bool {
    if old.target == new.target {
        return true;
    }
    let (before, after) = (old.target.path(), new.target.path());
    let same_thresholds = settings.time_tolerance(before) == settings.time_tolerance(after)
        && settings.overlap_ratio(before) == settings.overlap_ratio(after);
    match (&old.target, &new.target) {
        (Target::Path(before), Target::Path(after)) => {
            !matches!(new.mode, Mode::Units(_)) && before.covers(after) && same_thresholds
        }
        (Target::Region(before), Target::Region(after)) => {
            before.frame == after.frame
                && settings.overlap_ratio(&before.frame) == 0.0
                && geometry::contains(&before.shape, &after.shape)
        }
        _ => false,
    }
}
