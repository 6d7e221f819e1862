//! From the decision core's words to the wire's.

use super::answer::{Answer, Blocker, Conflict, ContestedNews, Holding, Refusal, Verdict};
use super::extension::Extensions;
use crate::types::{
    self, Claim, Decision, Intent, IntentKey, Mode, Outline, Point, RawClaim, RawExpect, RawIntent, RawMode,
    RawTarget, Reason, RenewDenial, Slot, Start, Target, Time,
};

impl Answer {
    /// The answer that tells `decision` of `slot`, decided at `at`, to its agent; `request` is the
    /// number of the request that it answers, or 0. `holding` says what a blocker holds, where the
    /// reader may know it.
    pub fn of(
        decision: &Decision,
        request: u64,
        (slot, at): (Slot, Time),
        holding: &dyn Fn(&types::Blocker) -> Option<Holding>,
    ) -> Self {
        let verdict = Verdict::of(&decision.verdict, holding);
        let placed = matches!(
            verdict,
            Verdict::Granted { .. }
                | Verdict::Moved { .. }
                | Verdict::Conflict(_)
                | Verdict::Stale { .. }
                | Verdict::Expired { .. }
                | Verdict::Revoked { .. }
        );
        let repeat = placed && decision.answers.is_some();
        Answer { request, id: decision.key.id, slot, at, repeat, verdict, extensions: Extensions::NONE }
    }
}

impl Verdict {
    /// The wire's form of a verdict; `holding` as for [`Answer::of`].
    pub fn of(verdict: &types::Verdict, holding: &dyn Fn(&types::Blocker) -> Option<Holding>) -> Self {
        use types::Verdict as Core;
        match verdict {
            Core::Granted { start, end, token } => {
                Verdict::Granted { start: *start, end: *end, token: *token }
            }
            Core::Moved { start, end, token } => Verdict::Moved { start: *start, end: *end, token: *token },
            Core::Conflict(conflict) => Verdict::Conflict(Conflict {
                is_final: conflict.is_final,
                deadlock: conflict.deadlock,
                offer: conflict.offer,
                blockers: blockers(&conflict.blockers, holding),
                kept: conflict.kept,
            }),
            Core::Stale { path, as_of, kept } => {
                Verdict::Stale { path: path.as_str().to_owned(), as_of: *as_of, kept: *kept }
            }
            Core::Rejected { reason, field, kept } => Verdict::Rejected {
                reason: refusal_of(*reason),
                field: field.clone(),
                hint: String::new(),
                retry_after_us: None,
                kept: *kept,
            },
            Core::Released { reason } => Verdict::Released { reason: reason.clone() },
            Core::ReleasedUnknown => Verdict::ReleasedUnknown,
            Core::Renewed { end } => Verdict::Renewed { end: *end },
            Core::RenewDenied(RenewDenial::Unknown) => Verdict::RenewDeniedUnknown,
            Core::RenewDenied(RenewDenial::Kept { end, blockers: of }) => {
                Verdict::RenewDenied { end: *end, blockers: blockers(of, holding) }
            }
            Core::Expired { token } => Verdict::Expired { token: *token },
            Core::Revoked { by: IntentKey { agent, id }, offer, waiting } => Verdict::Revoked {
                by: agent.as_str().to_owned(),
                by_id: *id,
                offer: *offer,
                waiting: *waiting,
            },
        }
    }
}

impl ContestedNews {
    /// The wire's form of a piece of news of `slot`, decided at `at`.
    pub fn of(news: &types::Contested, (slot, at): (Slot, Time), note: &str) -> Self {
        ContestedNews {
            id: news.holder.id,
            token: news.token,
            slot,
            at,
            by: news.by.as_str().to_owned(),
            by_id: news.by_id,
            class: news.class,
            wanted: news.wanted,
            waits_us: news.waits.as_us(),
            note: note.to_owned(),
            extensions: Extensions::NONE,
        }
    }
}

fn blockers(of: &[types::Blocker], holding: &dyn Fn(&types::Blocker) -> Option<Holding>) -> Vec<Blocker> {
    of.iter().map(|blocker| Blocker::of(blocker, holding(blocker))).collect()
}

impl Blocker {
    /// The wire's form of a blocker.
    pub fn of(blocker: &types::Blocker, holding: Option<Holding>) -> Self {
        // An intent has at most 64 claims, so an index always fits.
        let index = |claim: usize| u16::try_from(claim).unwrap_or(u16::MAX);
        Blocker {
            agent: blocker.key.agent.as_str().to_owned(),
            id: blocker.key.id,
            token: blocker.token,
            claim: index(blocker.claim),
            their_claim: index(blocker.their_claim),
            start: blocker.window.start(),
            end: blocker.window.end(),
            ratio: blocker.ratio,
            holding,
        }
    }
}

/// The wire's number for one of the core's reasons.
pub const fn refusal_of(reason: Reason) -> Refusal {
    match reason {
        Reason::Invalid => Refusal::Invalid,
        Reason::IdInUse => Refusal::IdInUse,
        Reason::TooShort => Refusal::TooShort,
        Reason::TooLong => Refusal::TooLong,
        Reason::TooLate => Refusal::TooLate,
        Reason::BeyondHorizon => Refusal::BeyondHorizon,
        Reason::NoCapacity => Refusal::NoCapacity,
        Reason::OverCapacity => Refusal::OverCapacity,
    }
}

/// A mode as it is declared.
pub const fn raw_mode(mode: Mode) -> RawMode {
    match mode {
        Mode::Shared => RawMode::Shared,
        Mode::Exclusive => RawMode::Exclusive,
        Mode::Units(units) => RawMode::Units(units),
    }
}

/// What an intent was declared as, up to spellings that mean the same.
pub fn raw_intent(intent: &Intent) -> RawIntent {
    let claim = |claim: &Claim| RawClaim {
        target: raw_target(&claim.target),
        mode: raw_mode(claim.mode),
        offset: claim.offset.as_us(),
        duration: claim.duration.as_us(),
    };
    let expects = intent.expects.iter();
    RawIntent {
        id: intent.id.number(),
        start: match intent.start {
            Start::Asap => None,
            Start::At(time) => Some(time.as_us()),
        },
        slack: intent.slack.as_us(),
        wait: intent.wait.as_us(),
        hold: intent.hold,
        task: intent.task.number(),
        class: intent.class.number().into(),
        urgency: intent.urgency,
        safety_margin: intent.safety_margin,
        social_value: intent.social_value,
        claims: intent.claims.iter().map(claim).collect(),
        expects: expects
            .map(|it| RawExpect { path: it.path.as_str().to_owned(), as_of: it.as_of.as_us() })
            .collect(),
    }
}

/// A target as it is declared, in metres.
pub fn raw_target(target: &Target) -> RawTarget {
    let region = match target {
        Target::Path(path) => return RawTarget::Path(path.as_str().to_owned()),
        Target::Region(region) => region,
    };
    let frame = region.frame.as_str().to_owned();
    let height = region.shape.height().map(|height| (metres(height.min_um), metres(height.max_um)));
    let corner = |point: &Point| vec![metres(point.x_um), metres(point.y_um)];
    match region.shape.outline() {
        Outline::Box { min, max } => {
            let (least, most) = height.unzip();
            let dimensions = |point, height: Option<f64>| corner(point).into_iter().chain(height).collect();
            RawTarget::Box { frame, min: dimensions(min, least), max: dimensions(max, most) }
        }
        Outline::Polygon(corners) => RawTarget::Polygon {
            frame,
            corners: corners.iter().map(corner).collect(),
            height: height.map(|(least, most)| vec![least, most]),
        },
    }
}

/// Exact to the micrometre within the coordinates that are allowed (1e14 µm, below 2^53).
fn metres(um: i64) -> f64 {
    um as f64 / 1e6
}
