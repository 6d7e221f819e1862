//! Decisions: what an agent is told, as data.

use super::{Agent, Class, IntentId, IntentKey, Micros, Path, Time, Token, Window};

/// One decision, or one piece of news, about one intent.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The intent that it is about.
    pub key: IntentKey,
    /// The input of the slot's batch that it answers, by index: repeats, rejections, releases and
    /// renewals. `None` for what placement, expiry and preemption decide.
    pub answers: Option<usize>,
    /// What was decided.
    pub verdict: Verdict,
}

/// What was decided about an intent.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It may go ahead in `[start, end)`; `start` is the intent's, before offsets.
    Granted {
        /// The intent's start, before the claims' offsets.
        start: Time,
        /// The latest end of its claims.
        end: Time,
        /// The grant's token.
        token: Token,
    },
    /// Its grant was withdrawn for a higher class and it was placed again.
    Moved {
        /// The intent's new start.
        start: Time,
        /// The latest end of its claims.
        end: Time,
        /// The new grant's token.
        token: Token,
    },
    /// It cannot be placed, now or for good.
    Conflict(Conflict),
    /// Somebody may have written after the reading that it rests on.
    Stale {
        /// The first stale reading's path.
        path: Path,
        /// Read again at or after this time.
        as_of: Time,
        /// An old grant stays in force beside the refused revision.
        kept: bool,
    },
    /// It was refused on arrival and left no trace.
    Rejected {
        /// Why.
        reason: Reason,
        /// The field at fault.
        field: String,
        /// An old grant stays in force beside the refused revision.
        kept: bool,
    },
    /// It was released or withdrawn.
    Released {
        /// The operator's reason, where the operator released it.
        reason: Option<String>,
    },
    /// There was nothing to release.
    ReleasedUnknown,
    /// The lease ends at `end` now.
    Renewed {
        /// Its present end.
        end: Time,
    },
    /// The lease was not renewed.
    RenewDenied(RenewDenial),
    /// The lease has ended.
    Expired {
        /// The token of the grant that ended.
        token: Token,
    },
    /// Its grant was withdrawn for a higher class.
    Revoked {
        /// The intent that it gave way to.
        by: IntentKey,
        /// The earliest start that would be free in a later slot.
        offer: Option<Time>,
        /// Whether it waits on.
        waiting: bool,
    },
}

impl Verdict {
    /// What it is, in a word.
    pub const fn word(&self) -> &'static str {
        match self {
            Verdict::Granted { .. } => "granted",
            Verdict::Moved { .. } => "moved",
            Verdict::Conflict(Conflict { is_final: false, .. }) => "waiting",
            Verdict::Conflict(_) => "conflict",
            Verdict::Stale { .. } => "stale",
            Verdict::Rejected { .. } => "rejected",
            Verdict::Released { .. } | Verdict::ReleasedUnknown => "released",
            Verdict::Renewed { .. } => "renewed",
            Verdict::RenewDenied(_) => "renew_denied",
            Verdict::Expired { .. } => "expired",
            Verdict::Revoked { .. } => "revoked",
        }
    }
}

/// Why an intent cannot be placed.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// Whether this is its end; otherwise it waits.
    pub is_final: bool,
    /// Whether it ends because tasks wait for each other in a ring.
    pub deadlock: bool,
    /// The earliest start that would be free in a later slot; it reserves nothing.
    pub offer: Option<Time>,
    /// Up to [`crate::limits::BLOCKERS`] pairs of claims in the way at the earliest start.
    pub blockers: Vec<Blocker>,
    /// An old grant stays in force beside the refused revision.
    pub kept: bool,
}

/// A pair of claims that conflict: one of the asker's and one of the holder's.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocker {
    /// The intent in the way.
    pub key: IntentKey,
    /// The token of its grant; `None` for a place that is only held.
    pub token: Option<Token>,
    /// The asker's claim, by index.
    pub claim: usize,
    /// The holder's claim, by index.
    pub their_claim: usize,
    /// Where the two windows overlap.
    pub window: Window,
    /// The overlap ratio of two regions, rounded to 9 decimals.
    pub ratio: Option<f64>,
}

/// Why a renewal was denied.
#[derive(Clone, Debug, PartialEq)]
pub enum RenewDenial {
    /// There is no such grant, or it has ended.
    Unknown,
    /// The grant stays as it was, until `end`.
    Kept {
        /// The end that stands.
        end: Time,
        /// Who is in the way; none where the grant is no lease, or the end is beyond `max_hold` or the horizon.
        blockers: Vec<Blocker>,
    },
}

/// Why a declaration was refused on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A value is outside its range.
    Invalid,
    /// The id stands for another content.
    IdInUse,
    /// A shared or exclusive claim is not longer than twice the time tolerance.
    TooShort,
    /// A claim is longer than `max_hold`.
    TooLong,
    /// Its last start lies before the earliest that can be reached.
    TooLate,
    /// A claim could end beyond the horizon.
    BeyondHorizon,
    /// Units are asked for where no capacity is configured.
    NoCapacity,
    /// Its own units exceed a capacity.
    OverCapacity,
}

impl Reason {
    /// The reason's name, as the contract spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Invalid => "invalid",
            Reason::IdInUse => "id_in_use",
            Reason::TooShort => "too_short",
            Reason::TooLong => "too_long",
            Reason::TooLate => "too_late",
            Reason::BeyondHorizon => "beyond_horizon",
            Reason::NoCapacity => "no_capacity",
            Reason::OverCapacity => "over_capacity",
        }
    }
}

/// News for the holder of a grant that is in somebody's way, so that it may yield.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contested {
    /// The holder's intent.
    pub holder: IntentKey,
    /// The token of the grant that is wanted.
    pub token: Token,
    /// The agent who wants it.
    pub by: Agent,
    /// That agent's intent.
    pub by_id: IntentId,
    /// The class of that intent.
    pub class: Class,
    /// When it is wanted.
    pub wanted: Window,
    /// How long the wanting intent may still wait, from the decision time.
    pub waits: Micros,
}
