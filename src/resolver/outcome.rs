//! What a slot decided, as data, and views of the state for those who look.

use std::sync::Arc;

use super::StateDigest;
use super::state::SlotChanges;
use crate::types::{Contested, Decision, Intent, IntentKey, Slot, Time, Token, Window};

/// What one slot decided.
///
/// The order of `decisions` is part of the contract: the answers to arrivals in arrival order;
/// leases that expired, by token; grants, moves and stale intents in the order of placement; then
/// conflicts and revocations in the order of their last turns. Nothing of it may be sent before the
/// slot's record is as durable as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotOutcome {
    /// Which slot.
    pub slot: Slot,
    /// Its decision time.
    pub at: Time,
    /// What was decided, in order.
    pub decisions: Vec<Decision>,
    /// News for holders whose grants are in somebody's way, at most one for each grant.
    pub contested: Vec<Contested>,
    /// Scores that were not finite and ranked lowest.
    pub scores_not_finite: usize,
    /// What ordered each of `decisions`, as many in the same order; `None` for those that were not
    /// placed in turn.
    pub ranks: Vec<Option<Rank>>,
    /// When the declaration or revision arrived that each of `decisions` decides, as many in the same order;
    /// `None` for those that decide none: repeats, releases, renewals, leases that expired.
    pub arrivals: Vec<Option<Time>>,
    /// The grants that ended.
    pub ended: GrantsEnded,
    /// The digest of the state after the slot.
    pub digest: StateDigest,
    /// What the slot changed in the state, where [`Resolver::reporting_changes`] asked for it.
    ///
    /// [`Resolver::reporting_changes`]: super::Resolver::reporting_changes
    pub changes: Option<SlotChanges>,
}

/// How many grants ended in a slot, by how. Those that were given and withdrawn in one slot count too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrantsEnded {
    /// All their windows had ended.
    pub expired: u64,
    /// Their agent released them, or the operator did.
    pub released: u64,
    /// They were withdrawn for a higher class.
    pub withdrawn: u64,
    /// A revision took their place.
    pub revised: u64,
}

/// What ordered an intent among those of its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank {
    /// Its score, finite or the lowest; 0 where its patience was at an end.
    pub score: f64,
    /// Whether its patience was at an end, so that its arrival ordered it, ahead of all scores.
    pub is_overdue: bool,
}

impl SlotOutcome {
    /// An outcome of `slot` in which nothing was decided.
    pub fn empty(slot: Slot, at: Time) -> Self {
        SlotOutcome {
            slot,
            at,
            decisions: Vec::new(),
            contested: Vec::new(),
            scores_not_finite: 0,
            ranks: Vec::new(),
            arrivals: Vec::new(),
            ended: GrantsEnded::default(),
            changes: None,
            digest: StateDigest::default(),
        }
    }
}

/// A grant in force, as it is shown to people.
#[derive(Clone, Debug)]
pub struct GrantView<'a> {
    /// Whose grant it is.
    pub key: &'a IntentKey,
    /// Its token.
    pub token: Token,
    /// The intent's start, before offsets.
    pub start: Time,
    /// The latest end of its claims.
    pub end: Time,
    /// The decision time of the slot that granted it.
    pub granted_at: Time,
    /// What was declared.
    pub intent: &'a Arc<Intent>,
    /// The window of each claim, renewals included.
    pub windows: &'a [Window],
}

/// An undecided intent, as it is shown to people.
#[derive(Clone, Debug)]
pub struct UndecidedView<'a> {
    /// Whose intent it is.
    pub key: &'a IntentKey,
    /// What was declared.
    pub intent: &'a Arc<Intent>,
    /// When it arrived.
    pub arrival: Time,
    /// When its wait ends.
    pub waits_until: Time,
    /// The offer that it was last told of.
    pub offer: Option<Time>,
}

/// What an id stands for, as it is shown to people. A grant may have an undecided revision beside it.
#[derive(Clone, Debug)]
pub struct StandingView<'a> {
    /// Its grant in force.
    pub grant: Option<GrantView<'a>>,
    /// What of it is undecided.
    pub undecided: Option<UndecidedView<'a>>,
    /// What was declared, where that has ended and is remembered.
    pub ended: Option<&'a Arc<Intent>>,
}
