//! What of the sessions goes into a slot's record: who declared what, and who came and went.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Ask, Origin, Session, Sessions};
use crate::resolver::{Resolver, SlotOutcome};
use crate::slot::Closed;
use crate::types::{Agent, IntentKey, Time};

/// What a slot's record says of sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionNotes {
    /// By whom the declarations and revisions were sent that the slot did not answer at once.
    pub declared: Vec<DeclaredBy>,
    /// What has become since the record before of each session that changed.
    pub sessions: Vec<SessionChange>,
}

impl SessionNotes {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.sessions.is_empty()
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

/// Where news of an intent goes: which session declared it, and the note beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The session's label.
    pub label: Arc<str>,
    /// The note.
    pub note: Arc<str>,
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
        SessionNotes {
            declared: closed.origins.iter().enumerate().filter_map(by).collect(),
            sessions: std::mem::take(changes).into_values().collect(),
        }
    }

    /// Takes up the sessions of a coordinator that was stopped: those that `sessions` tell of, and the
    /// intents that are in force or undecided in `resolver`, of which `route` knows where their news
    /// goes. Nobody is connected; sessions count as left at `now`, for an outage is nobody's absence.
    pub fn restore(
        &mut self,
        sessions: impl Iterator<Item = SessionChange>,
        route: impl Fn(&IntentKey) -> Option<Route>,
        resolver: &Resolver,
        now: Time,
    ) {
        for change in sessions {
            let SessionChange::Entered { agent, label, number, incarnation, replaced } = change else {
                continue;
            };
            self.next_session = self.next_session.max(number.saturating_add(1));
            let session = Session { number, incarnation, replaced, connection: None, left: now };
            self.left.insert((now, number), (agent.clone(), Arc::clone(&label)));
            self.names.entry(agent).or_default().sessions.insert(label, session);
        }
        self.intents.restore(route, resolver);
    }

    pub(super) fn note_change(&mut self, change: SessionChange) {
        let (SessionChange::Entered { agent, label, .. } | SessionChange::Gone { agent, label }) = &change;
        // The latest of each session counts, so there are never more than there were sessions.
        if let Some(changes) = &mut self.changes {
            changes.insert((agent.clone(), Arc::clone(label)), change);
        }
    }
}
