//! The state as data: what an id stands for, and what a slot changed. What a slot's record keeps of
//! the state, and what a snapshot is made of.

use std::sync::Arc;

use crate::types::{Agent, Intent, IntentKey, Micros, Path, Time, Token, Verdict, Window};

/// A declaration or revision that is still to be decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Undecided {
    /// What was declared.
    pub intent: Arc<Intent>,
    /// When it arrived.
    pub arrival: Time,
    /// Arrivals are numbered: of two at one time, the earlier line goes first.
    pub arrival_number: u64,
    /// From when on its wait counts: its arrival, or the slot in which its grant was withdrawn.
    pub waits_from: Time,
    /// The grant that it revises. A revision never waits.
    pub revises: Option<Token>,
    /// From when on `max_hold` counts, where not from each window's own start.
    pub held_since: Option<Time>,
    /// What it was last told.
    pub told: Option<Arc<Verdict>>,
    /// The intent for which its grant was withdrawn in this slot; none between slots.
    pub(super) withdrawn_for: Option<IntentKey>,
}

impl Undecided {
    /// One that arrived just now, was told nothing, and revises nothing.
    pub fn new(intent: Arc<Intent>, arrival: Time, arrival_number: u64) -> Self {
        Undecided {
            intent,
            arrival,
            arrival_number,
            waits_from: arrival,
            revises: None,
            held_since: None,
            told: None,
            withdrawn_for: None,
        }
    }

    pub(super) fn waited(&self, now: Time) -> Micros {
        now.since(self.waits_from)
    }
}

/// A grant in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    /// Its token.
    pub token: Token,
    /// What was declared.
    pub intent: Arc<Intent>,
    /// The intent's start, before offsets.
    pub start: Time,
    /// The latest end of its claims.
    pub end: Time,
    /// The decision time of the slot that granted it.
    pub granted_at: Time,
    /// When its declaration arrived.
    pub arrival: Time,
    /// See [`Undecided::arrival_number`].
    pub arrival_number: u64,
    /// See [`Undecided::held_since`].
    pub held_since: Option<Time>,
    /// Whether the line that tells of it says `moved`.
    pub was_moved: bool,
    /// The window of each claim, renewals included.
    pub windows: Vec<Window>,
}

/// What is remembered of an intent that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// What was declared.
    pub intent: Arc<Intent>,
    /// The decision time of the slot in which it ended.
    pub at: Time,
    /// Its latest decision line; `None` while that is still to come in the slot.
    pub line: Option<Verdict>,
}

/// What an id stands for. A grant may have an undecided revision beside it; nothing else goes together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// What is still to be decided.
    pub undecided: Option<Undecided>,
    /// The grant in force.
    pub grant: Option<Granted>,
    /// What is remembered of it.
    pub ended: Option<Ended>,
}

impl Standing {
    /// The content that the id stands for: the grant's, the undecided intent's, or what is remembered.
    pub fn intent(&self) -> Option<&Arc<Intent>> {
        let grant = self.grant.as_ref().map(|it| &it.intent);
        let undecided = self.undecided.as_ref().map(|it| &it.intent);
        grant.or(undecided).or(self.ended.as_ref().map(|it| &it.intent))
    }

    /// Whether the id stands for nothing.
    pub fn is_blank(&self) -> bool {
        self.undecided.is_none() && self.grant.is_none() && self.ended.is_none()
    }
}

/// A window of a writer that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedWindow {
    /// Whose it was.
    pub key: IntentKey,
    /// Its path, or the frame of its region.
    pub path: Path,
    /// Whether it was a region of that frame.
    pub is_region: bool,
    /// When it ended.
    pub end: Time,
}

/// The latest ends of writers' windows on one path, of two different intents each.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedTarget {
    /// The path.
    pub path: Path,
    /// On the path itself, the latest first.
    pub own: [Option<(Time, IntentKey)>; 2],
    /// Of regions in the frame that the path names.
    pub regions: [Option<(Time, IntentKey)>; 2],
    /// The latest end on it or below it.
    pub last_end: Time,
    /// Whether something has ended on it since it was last looked at for forgetting.
    pub is_fresh: bool,
}

/// What an id came to stand for in a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct StandingChange {
    /// The id.
    pub key: IntentKey,
    /// What it stands for after the slot; nothing, where it is blank.
    pub standing: Standing,
    /// [`Standing::intent`] of what it stood for before: the same allocation where the content is the
    /// same, so that a record need not repeat it.
    pub before: Option<Arc<Intent>>,
}

/// What one slot changed in the state. Applied to an [`Image`](super::Image) of the state before the
/// slot, it makes the state after it, without anything being decided again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotChanges {
    /// What each id that changed stands for after the slot, each once.
    pub standings: Vec<StandingChange>,
    /// Ids that ended in this slot, in the order in which they are to be forgotten. Twice where an id
    /// ended twice.
    pub remembered: Vec<IntentKey>,
    /// How many of the oldest ended ids were forgotten, after those of this slot were added.
    pub forgotten: usize,
    /// Windows of writers that ended, in the order in which they were noted.
    pub ended_windows: Vec<EndedWindow>,
    /// What agents had held that ended in this slot, in the order in which it was noted.
    pub held: Vec<(Agent, Window)>,
    /// What ended before this is no longer counted as held.
    pub held_from: Time,
    /// The capacities set at run time, where they changed: all of them, by path.
    pub capacities: Option<Vec<(Path, u64)>>,
    /// The next grant's token.
    pub next_token: u64,
    /// Declarations and revisions taken so far.
    pub arrivals: u64,
}

impl SlotChanges {
    /// Whether nothing has changed, in a slot without inputs: counters alone do not move.
    pub fn is_idle(&self) -> bool {
        self.standings.is_empty()
            && self.remembered.is_empty()
            && self.forgotten == 0
            && self.ended_windows.is_empty()
            && self.held.is_empty()
            && self.capacities.is_none()
    }
}
