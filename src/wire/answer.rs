//! What an agent is told about an intent.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::extension::Extensions;
use crate::limits;
use crate::types::grown::grown_up_to;
use crate::types::{Class, IntentId, RawMode, RawTarget, Slot, Time, Token, Window};

/// One answer, or one piece of news, about one of the reader's intents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The number of the request that this answers: of the release or renewal, or of the declaration
    /// or revision whose fate it is. 0 for news that no request of this connection asked for.
    pub request: u64,
    /// Which intent.
    pub id: IntentId,
    /// The slot in which it was decided. A refusal before the core names the slot that was open.
    pub slot: Slot,
    /// The decision time of that slot.
    pub at: Time,
    /// Something sent twice is answered with what it came to before, rather than decided anew.
    pub repeat: bool,
    /// What was decided.
    pub verdict: Verdict,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// What was decided. The variants' order is their number on the wire: append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// It may go ahead in `[start, end)`. In a repeat, an `end` at or before the answer's `at` says
    /// that the grant has ended.
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
        path: String,
        /// Read again at or after this time.
        as_of: Time,
        /// An old grant stays in force beside the refused revision.
        kept: bool,
    },
    /// It was refused on arrival and left no trace.
    Rejected {
        /// Why.
        reason: Refusal,
        /// The field at fault.
        field: String,
        /// What may stand there or what to do, for people; may be empty.
        hint: String,
        /// Come back after this long, in µs.
        retry_after_us: Option<u64>,
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
    /// There is nothing to renew: no such grant, or it has ended.
    RenewDeniedUnknown,
    /// The lease was not renewed; the grant stays as it was, until `end`.
    RenewDenied {
        /// The end that stands.
        end: Time,
        /// Who is in the way.
        #[serde(deserialize_with = "grown_up_to::<_, _, { limits::BLOCKERS }>")]
        blockers: Vec<Blocker>,
    },
    /// The lease has ended.
    Expired {
        /// The token of the grant that ended.
        token: Token,
    },
    /// Its grant was withdrawn for a higher class.
    Revoked {
        /// The agent that it gave way to.
        by: String,
        /// That agent's intent.
        by_id: IntentId,
        /// The earliest start that would be free in a later slot.
        offer: Option<Time>,
        /// Whether it waits on.
        waiting: bool,
    },
}

/// Why an intent cannot be placed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conflict {
    /// Whether this is its end; otherwise it waits.
    pub is_final: bool,
    /// Whether it ends because tasks wait for each other in a ring.
    pub deadlock: bool,
    /// The earliest start that would be free in a later slot; it reserves nothing.
    pub offer: Option<Time>,
    /// At most [`limits::BLOCKERS`].
    #[serde(deserialize_with = "grown_up_to::<_, _, { limits::BLOCKERS }>")]
    pub blockers: Vec<Blocker>,
    /// An old grant stays in force beside the refused revision.
    pub kept: bool,
}

/// A pair of claims that conflict: one of the asker's and one of the holder's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blocker {
    /// Who is in the way.
    pub agent: String,
    /// With which intent.
    pub id: IntentId,
    /// The token of its grant; `None` for a place that is only held.
    pub token: Option<Token>,
    /// The asker's claim, by index.
    pub claim: u16,
    /// The holder's claim, by index.
    pub their_claim: u16,
    /// The start of the overlap of the two windows.
    pub start: Time,
    /// The end of that overlap.
    pub end: Time,
    /// The overlap ratio of two regions, rounded to 9 decimals.
    pub ratio: Option<f64>,
    /// What the holder has there, where the asker may know it.
    pub holding: Option<Holding>,
}

/// What is held, in words for people: the claim in the way, and what its holder wrote beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    /// The target of the claim in the way.
    pub target: RawTarget,
    /// Its mode.
    pub mode: RawMode,
    /// Its whole window.
    pub window: Window,
    /// Whether it is a lease, which may be renewed past that window.
    pub hold: bool,
    /// The intent's note for people; may be empty.
    pub note: String,
}

/// News for the holder of a grant that is in somebody's way, so that it may yield.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContestedNews {
    /// The holder's intent.
    pub id: IntentId,
    /// The token of the grant that is wanted.
    pub token: Token,
    /// The slot in which it was seen.
    pub slot: Slot,
    /// The decision time of that slot.
    pub at: Time,
    /// The agent who wants it.
    pub by: String,
    /// That agent's intent.
    pub by_id: IntentId,
    /// The class of that intent.
    pub class: Class,
    /// When it is wanted.
    pub wanted: Window,
    /// How long the wanting intent may still wait, from `at`, in µs; 0 where it has ended.
    pub waits_us: u64,
    /// The wanting intent's note for people; may be empty.
    pub note: String,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why a declaration was refused on arrival. Numbers are never reused; those below 64 are
        /// the decision core's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Refusal {
            $($(#[$doc])* $name,)*
            /// A reason that this build does not know.
            Other(u16),
        }

        impl Refusal {
            /// Every known reason, by number.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$name,)*];

            /// Its number on the wire.
            pub const fn number(self) -> u16 {
                match self {
                    $(Refusal::$name => $number,)*
                    Refusal::Other(number) => number,
                }
            }

            /// The reason of that number.
            pub const fn of(number: u16) -> Self {
                match number {
                    $($number => Refusal::$name,)*
                    other => Refusal::Other(other),
                }
            }

            /// Its name, as the contract spells it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Refusal::$name => $text,)*
                    Refusal::Other(_) => "other",
                }
            }
        }
    };
}

refusals! {
    /// A value is outside its range.
    Invalid = 1, "invalid";
    /// The id stands for another content.
    IdInUse = 2, "id_in_use";
    /// A shared or exclusive claim is not longer than twice the time tolerance.
    TooShort = 3, "too_short";
    /// A claim is longer than `max_hold`.
    TooLong = 4, "too_long";
    /// Its last start lies before the earliest that can be reached.
    TooLate = 5, "too_late";
    /// A claim could end beyond the horizon.
    BeyondHorizon = 6, "beyond_horizon";
    /// Units are asked for where no capacity is configured.
    NoCapacity = 7, "no_capacity";
    /// Its own units exceed a capacity.
    OverCapacity = 8, "over_capacity";
    /// The agent has no right to it.
    Forbidden = 64, "forbidden";
    /// The coordinator has no room for it now; see `retry_after_us`.
    Overloaded = 65, "overloaded";
    /// The coordinator shuts down or drains, and takes nothing new.
    Draining = 66, "draining";
    /// An admission check of the operator's found that it cannot be carried out.
    Infeasible = 67, "infeasible";
    /// An extension must be understood and is not.
    Unsupported = 68, "unsupported";
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.number().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Refusal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        u16::deserialize(from).map(Refusal::of)
    }
}
