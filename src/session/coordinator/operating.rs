//! What operators do by the wire and by signals beside ending intents: capacities at run time, and what the record says
//! of them and of reloads.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::forbidding::Attempt;
use super::looking::Scope;
use super::requests::{Denied, denial};
use super::{Ask, Bounds, ConnectionId, Denial, Door, Effect, Member, Origin, Place, Sessions};
use crate::limits::{self, Limit};
use crate::resolver::{Input, Resolver, Rules, SlotOutcome, SystemOp};
use crate::slot::Closed;
use crate::types::{IntentId, Micros, Path, Time};
use crate::wire::{
    Answer, CapacityEntry, CapacityPage, Extensions, List, NoMark, Refusal, SetCapacity, Verdict,
};

/// What of an operator's doings goes into a slot's record, beside the inputs that they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorNote {
    /// The configuration was read again since the record before.
    Reload(ReloadNote),
    /// Why an agent asked for the operator's input that this is.
    Reason {
        /// The input of the slot, by index.
        input: usize,
        /// What it said.
        reason: Arc<str>,
    },
}

/// That the configuration was read again, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadNote {
    /// When.
    pub at: Time,
    /// What asked for it.
    pub by: Arc<str>,
    /// What changed, or would have: up to [`limits::RELOAD_KEYS`] keys with their values.
    pub changes: Vec<Arc<str>>,
    /// Changes beyond those.
    pub more: u64,
    /// Why nothing of it counts; `None` where all of it does.
    pub refused: Option<Arc<str>>,
}

/// What sessions know of operators' doings.
#[derive(Debug, Default)]
pub(super) struct Operating {
    /// The paths whose capacity was set at run time.
    set: BTreeSet<Path>,
    /// Reloads that wait for a record.
    reloads: VecDeque<ReloadNote>,
}

impl Operating {
    /// Those whose capacity had been set before a restart.
    pub(super) fn restored(set: impl IntoIterator<Item = Path>) -> Self {
        Operating { set: set.into_iter().collect(), ..Operating::default() }
    }

    /// Whether something waits for a record.
    pub(super) fn has_to_record(&self) -> bool {
        !self.reloads.is_empty()
    }

    /// What is to be recorded of reloads; it waits no longer.
    pub(super) fn take(&mut self) -> Vec<OperatorNote> {
        std::mem::take(&mut self.reloads).into_iter().map(OperatorNote::Reload).collect()
    }

    fn has_room_for(&self, path: &Path) -> bool {
        self.set.contains(path) || self.set.len() < limits::CAPACITIES_SET
    }

    /// Follows what was decided in a slot.
    pub(super) fn follow(&mut self, inputs: &[Input]) {
        for input in inputs {
            match input {
                Input::System { op: SystemOp::Capacity { path, .. }, .. } => {
                    self.set.insert(path.clone());
                }
                Input::System { op: SystemOp::Config(change), .. } if change.resources.is_some() => {
                    self.set.clear();
                }
                _ => {}
            }
        }
    }
}

/// What an input says of why it was asked for.
pub(super) fn reason_of((input, origin): (usize, &Origin)) -> Option<OperatorNote> {
    match &origin.ask {
        Ask::SetCapacity { reason, .. } if !reason.is_empty() => {
            Some(OperatorNote::Reason { input, reason: Arc::clone(reason) })
        }
        _ => None,
    }
}

/// What the rules say that changes for sessions with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// The earliest start after a decision.
    pub min_lead: Micros,
    /// How far ahead a claim may end.
    pub horizon: Micros,
    /// How long the core remembers an ended id.
    pub retention: Micros,
}

impl From<&Rules> for Spans {
    fn from(rules: &Rules) -> Self {
        Spans { min_lead: rules.min_lead, horizon: rules.horizon, retention: rules.retention }
    }
}

impl Sessions {
    /// From here on so much is taken in. What is there already stays, however much it is.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.terms.bounds = bounds;
    }

    /// From here on these are told to who comes, and rights are judged by them.
    pub fn set_spans(&mut self, Spans { min_lead, horizon, retention }: Spans) {
        (self.terms.min_lead, self.terms.horizon, self.terms.retention) = (min_lead, horizon, retention);
    }

    /// How many capacities were set at run time.
    pub fn capacities_set(&self) -> usize {
        self.operating.set.len()
    }

    /// Has the next record say that the configuration was read again, where there are records. Of more than
    /// [`limits::RELOADS_WAITING`] that wait the oldest goes.
    pub fn note_reload(&mut self, note: ReloadNote) {
        if self.changes.is_none() {
            return;
        }
        if self.operating.reloads.len() >= limits::RELOADS_WAITING {
            self.operating.reloads.pop_front();
        }
        self.operating.reloads.push_back(note);
    }

    /// Sets a capacity, where the rights say so.
    pub(super) fn set_capacity(
        &mut self,
        from: Place,
        request: u64,
        what: Result<SetCapacity, Denied>,
        door: &Door<'_>,
    ) -> Vec<Effect> {
        let Some(member) = self.members.get(&from.connection).cloned() else { return Vec::new() };
        let asked = what.and_then(|SetCapacity { path, capacity, reason }| {
            self.may_set_capacity(&member, &path, door)
                .map_err(|denial| Denied::of_order(request, denial))?;
            let ask = Ask::SetCapacity { by: member.agent.clone(), reason: reason.as_str().into() };
            Ok((SystemOp::Capacity { path, capacity }, ask))
        });
        self.operate(from, &member, (request, IntentId::new(0)), asked, door)
    }

    fn may_set_capacity(&mut self, member: &Member, path: &Path, door: &Door<'_>) -> Result<(), Denial> {
        if member.label.is_none() {
            return Err(self.forbid_observer(&member.agent, Attempt::SetCapacity, door));
        }
        let rights = Arc::clone(&self.rights);
        if let Err(why) = rights.may_administer_path(&member.agent, path) {
            return Err(self.forbid(&member.agent, Attempt::SetCapacity, why, door.now));
        }
        if self.operating.has_room_for(path) {
            return Ok(());
        }
        self.reached.note(Limit::CapacitiesSet);
        let hint = format!("too many capacities are set at run time ({})", Limit::CapacitiesSet.as_str());
        Err(denial(Refusal::Overloaded, &hint))
    }

    /// Whether whoever is on `connection` may see how the capacities there stand: who may look at claims there, and who
    /// may set them.
    ///
    /// # Errors
    /// What it is told instead. It is noted for the record.
    pub fn may_see_capacities(
        &mut self,
        connection: ConnectionId,
        under: Option<&Path>,
        now: Time,
    ) -> Result<(), Denial> {
        let administers = |member: &Member| {
            under.is_some_and(|under| self.rights.may_administer_path(&member.agent, under).is_ok())
        };
        if self.members.get(&connection).is_some_and(administers) {
            return Ok(());
        }
        let scope = Scope { under: under.cloned(), agent: None };
        self.may_look(connection, &scope, now).map(drop)
    }
}

/// The answer to who set a capacity: how it stands after the slot.
pub(super) fn capacity_answer(
    path: &Path,
    request: u64,
    outcome: &SlotOutcome,
    resolver: &Resolver,
) -> Answer {
    let stands = resolver.capacity(path, outcome.at).map(CapacityEntry::from);
    let extensions = stands.map_or(Extensions::NONE, |stands| stands.extensions());
    let (slot, at, verdict) = (outcome.slot, outcome.at, Verdict::Released { reason: None });
    Answer { request, id: IntentId::new(0), slot, at, repeat: false, verdict, extensions }
}

/// What is asked for of capacities, checked.
#[derive(Debug)]
pub struct CapacityQuery {
    under: Option<Path>,
    after: Option<Path>,
}

impl CapacityQuery {
    /// What `list` asks for, where it asks for capacities.
    ///
    /// # Errors
    /// The field of it that cannot be understood.
    pub fn of(list: &List) -> Result<Option<Self>, &'static str> {
        let Some(after) = list.capacities().map_err(|NoMark| "extensions")? else { return Ok(None) };
        let Scope { under, .. } = Scope::of(list.under.as_deref(), None)?;
        Ok(Some(CapacityQuery { under, after }))
    }

    /// At and below which path they are asked for.
    pub fn under(&self) -> Option<&Path> {
        self.under.as_ref()
    }

    /// Runs where the resolver is owned, between two slots: looks at no more than [`limits::LIST_SCAN`] paths.
    pub fn page(&self, resolver: &Resolver, now: Time) -> CapacityPage {
        let from = match (&self.after, &self.under) {
            (Some(after), Some(under)) if after < under => Bound::Included(under),
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(under)) => Bound::Included(under),
            (None, None) => Bound::Unbounded,
        };
        let (mut page, mut last) = (CapacityPage::default(), None);
        for (looked_at, path) in resolver.paths_with_capacity(from).enumerate() {
            if !self.under.as_ref().is_none_or(|under| path.as_str().starts_with(under.as_str())) {
                break; // what is below it stands together
            }
            if looked_at == limits::LIST_SCAN || page.entries.len() == limits::CAPACITY_PAGE {
                page.next = last.map(|last: &Path| last.as_str().to_owned());
                break;
            }
            last = Some(path);
            if self.under.as_ref().is_none_or(|under| under.covers(path)) {
                page.entries.extend(resolver.capacity(path, now).map(CapacityEntry::from));
            }
        }
        page
    }
}

/// The inputs of a slot that set a capacity for an agent, with where it is told.
pub(super) fn capacities_set_in(closed: &Closed<Origin>) -> impl Iterator<Item = (&Path, Place, u64)> {
    closed.batch.inputs().iter().zip(&closed.origins).filter_map(|(input, origin)| match input {
        Input::System { op: SystemOp::Capacity { path, .. }, .. } => {
            Some((path, origin.from?, origin.request))
        }
        _ => None,
    })
}
