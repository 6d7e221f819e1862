//! What the agent's half of a session tells the program around it.

use super::Terms;
use crate::types::{IntentId, Micros, Time, Token};
use crate::wire::{Blocker, CapacityEntry, Conflict, ContestedNews, DrainStands, InForce, Refusal};

/// Something for the program, in the order in which it happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The coordinator took the hello; see [`super::AgentSession::welcome`].
    Welcomed,
    /// The one final answer to a request.
    Reply {
        /// Which request.
        request: u64,
        /// The intent that it was about.
        id: IntentId,
        /// The answer.
        reply: Reply,
    },
    /// What no request asked for.
    News(News),
}

/// The final answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To a declaration: it may go ahead in `[start, end)`.
    Granted {
        /// When it was decided.
        at: Time,
        /// The intent's start, before offsets.
        start: Time,
        /// The latest end of its claims.
        end: Time,
        /// The grant's token.
        token: Token,
        /// What it was declared as.
        terms: Terms,
    },
    /// To a declaration: it cannot be placed.
    Conflict {
        /// When it was decided.
        at: Time,
        /// Who is in the way, and what is free instead.
        of: Conflict,
    },
    /// To a declaration: somebody may have written after the reading that it rests on.
    Stale {
        /// The first stale reading's path.
        path: String,
        /// Read again at or after this time.
        as_of: Time,
        /// An old grant stays in force beside the refused revision.
        kept: bool,
    },
    /// To a declaration: it was refused on arrival.
    Rejected {
        /// Why.
        reason: Refusal,
        /// The field at fault.
        field: String,
        /// What may stand there or what to do, for people; may be empty.
        hint: String,
        /// Come back after this long.
        retry_after: Option<Micros>,
        /// An old grant stays in force beside the refused revision.
        kept: bool,
    },
    /// To a declaration that was sent before: what it was granted has ended.
    Ended,
    /// To a declaration: it was withdrawn by another of the name's sessions or by the operator, or by
    /// the release of the same id.
    Withdrawn {
        /// The operator's reason.
        reason: Option<String>,
    },
    /// To a release.
    Released {
        /// Whether there was anything to release.
        existed: bool,
    },
    /// To a renewal: the lease ends at `end` now.
    Renewed {
        /// Its present end.
        end: Time,
    },
    /// To a renewal: the lease was not renewed.
    RenewDenied {
        /// The end that stands; `None` where there is no such grant.
        end: Option<Time>,
        /// Who is in the way.
        blockers: Vec<Blocker>,
    },
    /// To an order to drain, or to the question: how the drain stands; `None` where there is none.
    Drains(Option<DrainStands>),
    /// To who has set a capacity: how it stands after the slot; `None` where that is told in a form that is not known.
    CapacitySet(Option<CapacityEntry>),
    /// It may or may not have been decided, and this session will not hear of it any more.
    Unknown,
}

/// News about an intent, or about the session.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// It is not placed yet and waits.
    Waiting {
        /// Which intent.
        id: IntentId,
        /// The latest counter-offer.
        offer: Option<Time>,
        /// Who is in the way.
        blockers: Vec<Blocker>,
    },
    /// Less of its priority counts than was sent, or it was paid for out of the agent's allowance. Told ahead of what
    /// it came to.
    InForce {
        /// Which intent.
        id: IntentId,
        /// What counts.
        of: InForce,
    },
    /// Somebody wants what this agent holds.
    Contested(ContestedNews),
    /// The lease ends at `end` now.
    Renewed {
        /// Which intent.
        id: IntentId,
        /// Its present end.
        end: Time,
    },
    /// The lease was not renewed; its end stands.
    RenewalDenied {
        /// Which intent.
        id: IntentId,
        /// The end that stands.
        end: Time,
        /// Who is in the way.
        blockers: Vec<Blocker>,
    },
    /// The grant has another window and token now.
    Moved {
        /// Which intent.
        id: IntentId,
        /// The intent's new start.
        start: Time,
        /// The latest end of its claims.
        end: Time,
        /// The new token.
        token: Token,
        /// What it was declared as.
        terms: Terms,
    },
    /// A revision of this session's own took the grant's place; or it did not, and the grant that was in
    /// doubt for its sake stands as it was.
    Revised {
        /// Which intent.
        id: IntentId,
        /// The intent's start.
        start: Time,
        /// The latest end of its claims.
        end: Time,
        /// The new token.
        token: Token,
        /// What it was declared as.
        terms: Terms,
    },
    /// An intent whose grant was revoked has one again.
    Granted {
        /// Which intent.
        id: IntentId,
        /// The intent's start.
        start: Time,
        /// The latest end of its claims.
        end: Time,
        /// The new token.
        token: Token,
        /// What it was declared as.
        terms: Terms,
    },
    /// The grant is no longer in hand.
    Lost {
        /// Which intent.
        id: IntentId,
        /// The token of the grant.
        token: Token,
        /// Why.
        why: Loss,
    },
    /// An intent whose grant was revoked has ended without another.
    GaveUp {
        /// Which intent.
        id: IntentId,
    },
    /// The coordinator takes nothing new: it shuts down, or drains.
    Draining {
        /// Why, for people.
        reason: String,
        /// When to try again.
        retry_after: Option<Micros>,
        /// Until when holders may go on; `None` where it stops at once.
        deadline: Option<Time>,
        /// Grants in force, all agents' together, where this one may administer.
        left: Option<u64>,
    },
    /// A newer incarnation of this name and label has taken over.
    Replaced,
    /// The connection was lost. Grants in hand stay good until their ends.
    Disconnected,
    /// The coordinator's time is known less well than it should be.
    ClockUncertain {
        /// How far it may be off, either way.
        uncertainty: Micros,
        /// One of the two clocks jumped.
        jumped: bool,
    },
}

/// Why a grant is no longer in hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its end may have come, by the agent's own clock less its uncertainty.
    Ended,
    /// So has the lease's, because none of its renewals was answered.
    Unreachable,
    /// So has the lease's, because its renewal was denied.
    NotRenewed {
        /// Who has a later window on it, where that is why.
        by: Option<String>,
    },
    /// The coordinator says that the lease has ended.
    Expired,
    /// It was released.
    Released {
        /// The operator's reason, where the operator released it.
        reason: Option<String>,
    },
    /// It was withdrawn for a higher class.
    Revoked {
        /// The agent that it gave way to.
        by: String,
        /// That agent's intent.
        by_id: IntentId,
        /// The earliest start that would be free.
        offer: Option<Time>,
        /// Whether the intent waits on.
        waiting: bool,
    },
    /// A revision of it is unanswered, and what that gives up may be another's by now. Where it turns out that
    /// the revision was refused, [`News::Revised`] tells that the grant stands.
    Revising,
    /// Another session of this name has revised it, and has it now.
    Taken {
        /// The token that it has now.
        token: Token,
    },
    /// The coordinator does not have it, and does not remember why.
    Unknown,
    /// A newer incarnation of this name and label has taken over.
    Replaced,
}
