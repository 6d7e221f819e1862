//! What came of what was asked.

use std::fmt;
use std::time::Duration;

use super::Grant;
use crate::types::{IntentId, Time};
use crate::wire::{self, Blocker, Refusal};

/// What came of a declaration. Neither a conflict nor a rejection is an error.
#[derive(Debug)]
pub enum Outcome {
    /// It may go ahead.
    Granted(Grant),
    /// Somebody is in the way.
    Conflict(Conflict),
    /// Somebody may have written after the reading that it rests on.
    Stale(Stale),
    /// It was refused on arrival and left no trace.
    Rejected(Rejected),
}

/// What came of a revision of a grant.
#[derive(Clone, Debug, PartialEq)]
pub enum Revision {
    /// It has taken the grant's place, with a new token.
    Granted,
    /// Somebody is in the way; the grant stays as it was where [`Conflict::kept`] says so.
    Conflict(Conflict),
    /// Stale; the grant stays as it was where [`Stale::kept`] says so.
    Stale(Stale),
    /// Refused; the grant stays as it was where [`Rejected::kept`] says so.
    Rejected(Rejected),
}

/// Why an intent was not placed: who is in the way, until when, and what is free instead. Printed, it says
/// that in words, in spans from [`Conflict::decided_at`] on.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    pub(super) id: IntentId,
    pub(super) at: Time,
    pub(super) of: wire::Conflict,
}

impl Conflict {
    /// The intent's id.
    pub fn id(&self) -> IntentId {
        self.id
    }

    /// When it was decided, by the coordinator's clock: the end of its slot.
    pub fn decided_at(&self) -> Time {
        self.at
    }

    /// The earliest start that would be free, by the coordinator's clock; [`super::Intent::at`] takes it.
    /// It reserves nothing. Behind a lease it is the lease's present end: declared at that, it is a later window that
    /// keeps the lease from being renewed. To come after its holder, whenever that is, [`super::Intent::wait`].
    pub fn offer(&self) -> Option<Time> {
        self.of.offer
    }

    /// Up to 8 pairs of claims in the way at the earliest start.
    pub fn blockers(&self) -> &[Blocker] {
        &self.of.blockers
    }

    /// Whether it ended because tasks wait for each other in a ring.
    pub fn is_deadlock(&self) -> bool {
        self.of.deadlock
    }

    /// Whether an old grant stays in force beside the refused revision.
    pub fn kept(&self) -> bool {
        self.of.kept
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.of.deadlock { "deadlock" } else { "conflict" };
        let later = |at: Time| at.since(self.at).to_std();
        match self.of.blockers.first() {
            Some(Blocker { agent, id, end, .. }) => {
                write!(f, "{why}: {agent} (intent {id}) is in the way of intent {}", self.id)?;
                write!(f, " for another {:.1?}", later(*end))?;
            }
            None => write!(f, "{why}: intent {} cannot be placed", self.id)?,
        }
        match self.of.offer {
            Some(offer) => write!(f, "; it could start in {:.1?}", later(offer)),
            None => f.write_str("; there is no other start to offer"),
        }
    }
}

/// Somebody may have written after the reading that the intent rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    pub(super) id: IntentId,
    pub(super) path: String,
    pub(super) as_of: Time,
    pub(super) kept: bool,
}

impl Stale {
    /// The intent's id.
    pub fn id(&self) -> IntentId {
        self.id
    }

    /// What is to be read again.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Read at or after this time.
    pub fn as_of(&self) -> Time {
        self.as_of
    }

    /// Whether an old grant stays in force beside the refused revision.
    pub fn kept(&self) -> bool {
        self.kept
    }
}

/// Why a declaration was refused on arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub(super) id: IntentId,
    pub(super) reason: Refusal,
    pub(super) field: String,
    pub(super) hint: String,
    pub(super) retry_after: Option<Duration>,
    pub(super) kept: bool,
}

impl Rejected {
    /// The intent's id; it is free.
    pub fn id(&self) -> IntentId {
        self.id
    }

    /// Why.
    pub fn reason(&self) -> Refusal {
        self.reason
    }

    /// The field at fault, as in `claims[0].duration`.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What may stand there or what to do, for people; may be empty.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// When to come back, where the coordinator says so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether an old grant stays in force beside the refused revision.
    pub fn kept(&self) -> bool {
        self.kept
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rejected: {}", self.reason.as_str())?;
        if !self.field.is_empty() {
            write!(f, " ({})", self.field)?;
        }
        if !self.hint.is_empty() {
            write!(f, ", {}", self.hint)?;
        }
        Ok(())
    }
}

/// What came of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// It was in force, or undecided, and is no more.
    Released,
    /// It had ended before, and why, where that is known.
    AlreadyEnded(Option<super::Lost>),
}

/// What came of a renewal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Renewal {
    /// The lease ends at this time now, by the coordinator's clock.
    Until(Time),
    /// The lease was not renewed.
    Denied {
        /// The end that stands, by the coordinator's clock.
        end: Time,
        /// Who is in the way; none where it is no lease, or the end is beyond `max_hold` or the horizon.
        blockers: Vec<Blocker>,
    },
    /// There is no such grant, or it has ended.
    Ended,
}

/// Why a declaration came to no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeclareError {
    /// It was sent, and no answer came in time. Declare the same content under this id to learn what
    /// came of it, or [`super::Client::release`] it.
    #[error("no answer came for intent {id} in time; it may have been decided: ask again with the same id")]
    Unknown {
        /// The intent's id.
        id: IntentId,
    },
    /// There was no connection in time; nothing was sent. [`super::Client::why_disconnected`] says why.
    #[error("not connected; nothing was sent")]
    Disconnected,
    /// A newer process has taken over this name and label; nothing can be asked any more.
    #[error("a newer process has taken over this name and label")]
    Replaced,
    /// The start is by the agent's own clock, and the coordinator's is not known well enough to tell it:
    /// see [`super::ClientBuilder::clock_bound`]. Nothing was sent.
    #[error("the coordinator's clock is known to within {uncertainty:?} only; nothing was sent")]
    ClockUncertain {
        /// How far it may be off, either way.
        uncertainty: Duration,
    },
    /// The coordinator takes nothing new: it shuts down, drains, or cannot keep records. Nothing was sent.
    #[error("the coordinator takes nothing new ({reason}); nothing was sent")]
    Draining {
        /// Why, as it says.
        reason: String,
    },
    /// From [`super::Client::try_declare`]: as many declarations as the coordinator takes are unanswered.
    #[error("as many declarations as the coordinator takes are unanswered")]
    Full,
    /// The id is being declared, or held, by this client.
    #[error("intent {id} is being declared, or held, by this client")]
    IdBusy {
        /// The intent's id.
        id: IntentId,
    },
    /// The intent with its note does not fit in one message.
    #[error("the intent is too large for one message")]
    TooLarge,
    /// It was declared before under this id, and what it was granted has ended.
    #[error("intent {id} was granted before and has ended")]
    Ended {
        /// The intent's id.
        id: IntentId,
    },
    /// It was withdrawn while it was undecided, by another session of this name or by the operator.
    #[error("intent {id} was withdrawn while it was undecided{}", reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Withdrawn {
        /// The intent's id.
        id: IntentId,
        /// The operator's reason.
        reason: Option<String>,
    },
}

impl DeclareError {
    /// Whether the same declaration, under the same id, may come to an outcome later.
    pub fn is_retryable(&self) -> bool {
        match self {
            DeclareError::Unknown { .. }
            | DeclareError::Disconnected
            | DeclareError::Draining { .. }
            | DeclareError::ClockUncertain { .. }
            | DeclareError::Full => true,
            DeclareError::Replaced
            | DeclareError::IdBusy { .. }
            | DeclareError::TooLarge
            | DeclareError::Ended { .. }
            | DeclareError::Withdrawn { .. } => false,
        }
    }
}

/// Why a release, a renewal, a listing or a watch came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No answer came in time: it may or may not have been done. Asking again does no harm.
    #[error("no answer came in time; asking again does no harm")]
    Unknown,
    /// There was no connection in time; nothing was sent. [`super::Client::why_disconnected`] says why.
    #[error("not connected; nothing was sent")]
    Disconnected,
    /// A newer process has taken over this name and label; nothing can be asked any more.
    #[error("a newer process has taken over this name and label")]
    Replaced,
    /// The end is by the agent's own clock, and the coordinator's is not known well enough to tell it.
    #[error("the coordinator's clock is known to within {uncertainty:?} only; nothing was sent")]
    ClockUncertain {
        /// How far it may be off, either way.
        uncertainty: Duration,
    },
    /// Too many requests are unanswered.
    #[error("too many requests are unanswered")]
    Full,
    /// The coordinator refuses it, and nothing was done.
    #[error("refused: {}{}", reason.as_str(), described(field, hint))]
    Rejected {
        /// Why.
        reason: Refusal,
        /// The field at fault; may be empty.
        field: String,
        /// What to do, for people; may be empty.
        hint: String,
    },
    /// What the coordinator answered is no answer.
    #[error("the coordinator's answer makes no sense: {0}")]
    Nonsense(String),
}

impl RequestError {
    /// Whether asking again may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            RequestError::Unknown
            | RequestError::Disconnected
            | RequestError::ClockUncertain { .. }
            | RequestError::Full => true,
            RequestError::Rejected { reason, .. } => {
                matches!(reason, Refusal::Overloaded | Refusal::Draining)
            }
            RequestError::Nonsense(_) | RequestError::Replaced => false,
        }
    }
}

fn described(field: &str, hint: &str) -> String {
    [field, hint].iter().filter(|text| !text.is_empty()).map(|text| format!(", {text}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(blockers: Vec<Blocker>, offer: Option<Time>) -> String {
        let of = wire::Conflict { is_final: true, deadlock: false, offer, blockers, kept: false };
        Conflict { id: IntentId::new(41), at: Time::from_us(1_000_000), of }.to_string()
    }

    #[test]
    fn a_conflict_says_who_is_in_whose_way_and_for_how_long() {
        let blocker = Blocker {
            agent: "planner-2".into(),
            id: IntentId::new(7),
            token: None,
            claim: 0,
            their_claim: 0,
            start: Time::from_us(1_000_000),
            end: Time::from_us(9_900_000),
            ratio: None,
            holding: None,
        };
        assert_eq!(
            conflict(vec![blocker], Some(Time::from_us(1_250_000))),
            "conflict: planner-2 (intent 7) is in the way of intent 41 for another 8.9s; it could start in 250.0ms"
        );
        assert_eq!(
            conflict(Vec::new(), None),
            "conflict: intent 41 cannot be placed; there is no other start to offer"
        );
    }
}
