//! What of the sessions goes into a slot's record: who declared what, and who came and went.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::forbidding::RightsNote;
use super::intents::Intents;
use super::operating::{Operating, OperatorNote, reason_of};
use super::priority::Sent;
use super::{Ask, Origin, Session, Sessions};
use crate::resolver::state::Standing;
use crate::resolver::{Resolver, SlotOutcome, SystemOp};
use crate::slot::Closed;
use crate::types::{Agent, Intent, IntentKey, Path, Slot, Time, Token};

/// What a slot's record says of sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionNotes {
    /// By whom the declarations and revisions were sent that the slot did not answer at once.
    pub declared: Vec<DeclaredBy>,
    /// What has become since the record before of each session that changed.
    pub sessions: Vec<SessionChange>,
    /// What was forbidden or lowered, and who administered.
    pub rights: Vec<RightsNote>,
    /// What operators did, beside the inputs that it is.
    pub operator: Vec<OperatorNote>,
}

impl SessionNotes {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty()
            && self.sessions.is_empty()
            && self.rights.is_empty()
            && self.operator.is_empty()
    }
}

/// Which session declared an intent, and what people wrote beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredBy {
    /// The input of the slot, by index.
    pub input: usize,
    /// The session's label.
    pub label: Arc<str>,
    /// The note.
    pub note: Arc<str>,
}

/// A session that came, or was taken over, or is forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// This incarnation is in charge of the session from here on.
    Entered {
        /// Whose session.
        agent: Agent,
        /// Its label.
        label: Arc<str>,
        /// Its number.
        number: u64,
        /// Who is in charge.
        incarnation: u128,
        /// Those who were before, up to [`crate::limits::REPLACED_INCARNATIONS`], the oldest first.
        replaced: Vec<u128>,
    },
    /// The session is forgotten.
    Gone {
        /// Whose session.
        agent: Agent,
        /// Its label.
        label: Arc<str>,
    },
}

/// Where news of an intent goes: which session declared it, and what stood beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The session's label.
    pub label: Arc<str>,
    /// The note.
    pub note: Arc<str>,
    /// What was sent of its priority, where less counts.
    pub sent: Option<Sent>,
}

/// An intent in force or undecided, as far as its sessions need to know it.
#[derive(Clone, Debug)]
pub struct Live {
    /// The intent.
    pub key: IntentKey,
    /// What was declared.
    pub intent: Arc<Intent>,
    /// Its grant; `None` while it is undecided.
    pub grant: Option<LiveGrant>,
}

/// A grant, as far as its sessions need to know it.
#[derive(Clone, Copy, Debug)]
pub struct LiveGrant {
    /// The intent's start, before offsets.
    pub start: Time,
    /// The latest end of its claims.
    pub end: Time,
    /// Its token.
    pub token: Token,
}

impl Live {
    /// What the id that stands for `standing` is; `None` where that has ended.
    pub fn of(key: &IntentKey, standing: &Standing) -> Option<Self> {
        let (intent, grant) = match (&standing.grant, &standing.undecided) {
            (Some(it), _) => (&it.intent, Some(LiveGrant { start: it.start, end: it.end, token: it.token })),
            (None, Some(it)) => (&it.intent, None),
            (None, None) => return None,
        };
        Some(Live { key: key.clone(), intent: Arc::clone(intent), grant })
    }
}

/// What sessions go on from after a restart.
#[derive(Debug)]
pub struct Restored {
    intents: Intents,
    sessions: Vec<SessionChange>,
    next_session: u64,
    /// The paths whose capacity was set at run time.
    capacities: Vec<Path>,
}

impl Restored {
    /// The sessions that `sessions` tell of, and the intents `live`, of which `route` knows where their
    /// news goes.
    pub fn new(
        sessions: Vec<SessionChange>,
        next_session: u64,
        live: impl ExactSizeIterator<Item = Live>,
        route: impl Fn(&IntentKey) -> Option<Route>,
    ) -> Self {
        let intents = Intents::restored(live, route);
        Restored { intents, sessions, next_session, capacities: Vec::new() }
    }

    /// With the paths whose capacity was set at run time.
    #[must_use]
    pub fn with_capacities(self, capacities: Vec<Path>) -> Self {
        Restored { capacities, ..self }
    }
}

/// What a coordinator that keeps records goes on from.
pub struct Recovered {
    /// The decision core as it was after the last record.
    pub resolver: Resolver,
    /// The sessions that there were, and where news of intents went.
    pub sessions: Restored,
    /// The state's number: the same for as long as the state directory lasts.
    pub state: u64,
    /// The slot in which it starts: after the last one decided, and over by the clock's first reading.
    pub boot_slot: Slot,
    /// What the start changes: inputs of that slot.
    pub boot_ops: Vec<SystemOp>,
}

impl fmt::Debug for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovered").field("boot_slot", &self.boot_slot).finish_non_exhaustive()
    }
}

impl Sessions {
    /// From here on, changes of sessions are kept until [`Sessions::notes`] takes them.
    #[must_use]
    pub fn keeping_changes(mut self) -> Self {
        self.changes = Some(BTreeMap::new());
        self
    }

    /// What the record of a slot says of sessions, before anything of the slot is told.
    pub fn notes(&mut self, closed: &Closed<Origin>, outcome: &SlotOutcome) -> SessionNotes {
        let Some(changes) = &mut self.changes else { return SessionNotes::default() };
        let answered: BTreeSet<usize> =
            outcome.decisions.iter().filter_map(|decision| decision.answers).collect();
        let by = |(input, origin): (usize, &Origin)| match &origin.ask {
            Ask::Declare { note, .. } if !answered.contains(&input) => {
                Some(DeclaredBy { input, label: Arc::clone(&origin.label), note: Arc::clone(note) })
            }
            _ => None,
        };
        let mut rights = self.forbidding.take();
        rights.extend(self.drain.take_note(outcome.at).map(RightsNote::Drain));
        rights.extend(closed.origins.iter().enumerate().filter_map(note_of));
        let mut operator = self.operating.take();
        operator.extend(closed.origins.iter().enumerate().filter_map(reason_of));
        SessionNotes {
            declared: closed.origins.iter().enumerate().filter_map(by).collect(),
            sessions: std::mem::take(changes).into_values().collect(),
            rights,
            operator,
        }
    }

    /// Takes up the sessions and intents of a coordinator that was stopped. Nobody is connected; sessions
    /// count as left at `now`, for an outage is nobody's absence.
    pub fn restore(&mut self, restored: Restored, now: Time) {
        let Restored { intents, sessions, next_session, capacities } = restored;
        self.intents = intents;
        self.operating = Operating::restored(capacities);
        self.next_session = self.next_session.max(next_session);
        for change in sessions {
            let SessionChange::Entered { agent, label, number, incarnation, replaced } = change else {
                continue;
            };
            let session = Session { number, incarnation, replaced, connection: None, left: now };
            self.left.insert((now, number), (agent.clone(), Arc::clone(&label)));
            self.names.entry(agent).or_default().sessions.insert(label, session);
        }
    }

    pub(super) fn note_change(&mut self, change: SessionChange) {
        let (SessionChange::Entered { agent, label, .. } | SessionChange::Gone { agent, label }) = &change;
        // The latest of each session counts, so there are never more than there were sessions.
        if let Some(changes) = &mut self.changes {
            changes.insert((agent.clone(), Arc::clone(label)), change);
        }
    }
}

/// What the record says of the rights of one input.
fn note_of((input, origin): (usize, &Origin)) -> Option<RightsNote> {
    match &origin.ask {
        Ask::Declare { bounding, .. } => {
            let sent = bounding.as_ref()?.lowered()?;
            Some(RightsNote::Lowered { input, sent })
        }
        Ask::Administer { by } | Ask::SetCapacity { by, .. } => {
            Some(RightsNote::Administered { input, by: by.clone() })
        }
        Ask::Invalid { .. } | Ask::Other => None,
    }
}
