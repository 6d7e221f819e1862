//! The drain: from its beginning on nothing new is granted, and holders go on up to a deadline.
//!
//! What waits undecided ends by the operator's releases, which the slot that is open is given as it is closed
//! ([`Clearing`](crate::slot::Clearing)); what has only arrived is handed back as `draining`. So a record of the slots
//! decides alike, and knows no drain.

use std::sync::Arc;

use super::intents::Route;
use super::ranks;
use super::requests::{Inbox, denial};
use super::{ConnectionId, Denial, Effect, LaneId, Origin, Place, Sessions};
use crate::limits;
use crate::resolver::AgentOp;
use crate::slot::Turned;
use crate::types::{Agent, Claim, Intent, Micros, Start, Time};
use crate::wire::{DrainOrder, DrainStands, Draining, Refusal};

/// How a drain stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drains {
    /// Who ordered it last; `None` for the operator, by a signal.
    pub by: Option<Agent>,
    /// Why, as it was ordered last; may be empty.
    pub reason: Arc<str>,
    /// When it ends at the latest.
    pub deadline: Time,
    /// Grants in force.
    pub left: usize,
    /// Whether nothing is left to wait for.
    pub is_over: bool,
}

/// An order to drain, for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainNote {
    /// When it arrived.
    pub at: Time,
    /// Who gave it; `None` for the operator, by a signal.
    pub by: Option<Agent>,
    /// Why; may be empty.
    pub reason: Arc<str>,
    /// When the drain ends at the latest.
    pub deadline: Time,
}

/// What there is of drains.
#[derive(Debug)]
pub(super) struct DrainState {
    present: Option<Drain>,
    /// How long one lasts unless its order says otherwise.
    within: Micros,
    /// The last order since the record before.
    note: Option<DrainNote>,
}

impl Default for DrainState {
    fn default() -> Self {
        DrainState { present: None, within: limits::DRAIN_WITHIN, note: None }
    }
}

impl DrainState {
    /// Whether an order waits for its record.
    pub(super) fn has_to_record(&self) -> bool {
        self.note.is_some()
    }

    /// What the record of the slot that is decided at `at` says of it: nothing that came after that slot.
    pub(super) fn take_note(&mut self, at: Time) -> Option<DrainNote> {
        self.note.take_if(|note| note.at < at)
    }

    /// A slot was decided at `at`.
    pub(super) fn follow_slot(&mut self, at: Time) {
        if let Some(drain) = &mut self.present {
            drain.is_cleared |= at > drain.since;
        }
    }
}

#[derive(Debug)]
struct Drain {
    since: Time,
    deadline: Time,
    by: Option<Agent>,
    reason: Arc<str>,
    /// The slot in which it began was decided: nobody waits any more.
    is_cleared: bool,
}

impl Drain {
    /// What agents are told.
    fn words(&self) -> String {
        words(&self.reason)
    }

    /// What somebody is told who asks for what is not to be had any more.
    fn denial(&self, hint: &str, now: Time) -> Denial {
        let retry_after = Some(self.deadline.since(now).min(limits::ASK_AGAIN_MOST));
        Denial { retry_after, ..denial(Refusal::Draining, hint) }
    }
}

fn words(reason: &str) -> String {
    let mut words = "the coordinator drains".to_owned();
    if !reason.is_empty() {
        words.push_str(": ");
        words.push_str(reason);
    }
    words.truncate(words.floor_char_boundary(limits::TEXT_BYTES.min(limits::REASON_BYTES)));
    words
}

impl Sessions {
    /// From here on a drain lasts so long unless its order says otherwise.
    pub fn set_drain_within(&mut self, within: Micros) {
        self.drain.within = within.min(limits::DRAIN_MOST);
    }

    /// Begins a drain, or gives the one that there is another deadline and reason. Whoever watches the coordinator is
    /// told by `inbox` before anybody is refused anything. Nothing happens where the coordinator stops already.
    pub fn drain(
        &mut self,
        order: &DrainOrder,
        by: Option<Agent>,
        inbox: &dyn Inbox,
        now: Time,
    ) -> Vec<Effect> {
        if self.draining.is_some() {
            return Vec::new();
        }
        let within = order.within.unwrap_or(self.drain.within).min(limits::DRAIN_MOST);
        let reason: Arc<str> = order.reason.as_str().into();
        let is_first = self.drain.present.is_none();
        let (at, turned) = if is_first {
            let is_new = |agent: &Agent, op: &AgentOp| self.asks_for_more(agent, op, now);
            inbox.clear(&words(&reason), &is_new)
        } else {
            (now, Vec::new())
        };
        let deadline = at.after(within);
        if self.changes.is_some() {
            let (by, reason) = (by.clone(), Arc::clone(&reason));
            self.drain.note = Some(DrainNote { at, by, reason, deadline });
        }
        self.drain.present = Some(match self.drain.present.take() {
            None => Drain { since: at, deadline, by, reason, is_cleared: false },
            Some(drain) => Drain { deadline, by, reason, ..drain },
        });
        let mut effects = self.tell_all_to_drain(now);
        effects.extend(self.hand_back_for_drain(turned, now));
        effects
    }

    fn hand_back_for_drain(&mut self, turned: Vec<Turned<Origin>>, now: Time) -> Vec<Effect> {
        let Some(drain) = &self.drain.present else { return Vec::new() };
        let denial = drain.denial(&drain.words(), now);
        let turned = turned.into_iter().map(|it| (it.agent, denial.clone(), it.op, it.origin)).collect();
        self.hand_back(turned, now)
    }

    /// How the drain stands, if there is one.
    pub fn drains(&self) -> Option<Drains> {
        let Drain { deadline, by, reason, is_cleared, .. } = self.drain.present.as_ref()?;
        Some(Drains {
            by: by.clone(),
            reason: Arc::clone(reason),
            deadline: *deadline,
            left: self.intents.granted(),
            is_over: *is_cleared && self.intents.len() == 0,
        })
    }

    /// There is no drain, nor an end: it was started again.
    pub fn forget_drain(&mut self) {
        self.drain.present = None;
        self.draining = None;
    }

    /// Whether there is a drain.
    pub fn is_draining(&self) -> bool {
        self.drain.present.is_some()
    }

    /// Whether a message may go on while the coordinator drains. A renewal beyond the deadline is shortened to it.
    ///
    /// # Errors
    /// What its sender is told instead.
    pub(super) fn pass_drain(&self, agent: &Agent, op: &mut AgentOp, now: Time) -> Result<(), Denial> {
        let Some(drain) = &self.drain.present else { return Ok(()) };
        if self.asks_for_more(agent, op, now) {
            return Err(drain.denial(&drain.words(), now));
        }
        if let AgentOp::Renew { id, until } = op
            && *until > drain.deadline
        {
            match self.intents.route(agent, *id).and_then(Route::end) {
                // It asks for nothing, or there is no such grant: the core says so.
                Some(end) if *until <= end => {}
                Some(end) if end >= drain.deadline => {
                    let hint = format!("{}; leases are renewed up to its deadline", drain.words());
                    return Err(drain.denial(&hint, now));
                }
                _ => *until = drain.deadline,
            }
        }
        Ok(())
    }

    /// Whether something asks for what its agent does not have. What was granted and is asked for again does not, so
    /// that an answer that was lost comes a second time; nor does a revision that stays within its grant's windows.
    fn asks_for_more(&self, agent: &Agent, op: &AgentOp, now: Time) -> bool {
        let (AgentOp::Declare(intent) | AgentOp::Revise(intent)) = op else { return false };
        let (_, decided_at) = self.open_slot(now);
        let route = self.intents.route(agent, intent.id);
        // Until then at least it stands, and nothing can take its place.
        let granted = route.filter(|route| route.end().is_some_and(|end| end > decided_at));
        match op {
            AgentOp::Revise(_) => granted.is_none_or(|route| !stays_within(route, intent)),
            _ => granted.is_none(),
        }
    }

    fn tell_all_to_drain(&self, now: Time) -> Vec<Effect> {
        self.members.keys().filter_map(|connection| self.told_to_drain(*connection, now)).collect()
    }

    /// Tells everybody that the coordinator stops and takes nothing at all, and those who come from here on.
    pub fn draining(&mut self, reason: &str) -> Vec<Effect> {
        self.draining = Some(reason.into());
        self.tell_all_to_drain(Time::ZERO) // there is no time at which to come back here
    }

    /// What who is on the connection is told of the drain or the end, where there is one.
    pub(super) fn told_to_drain(&self, connection: ConnectionId, now: Time) -> Option<Effect> {
        let drain = self.drain.present.as_ref();
        let (mut reason, retry_after) = match (&self.draining, drain) {
            (Some(reason), _) => (reason.to_string(), None),
            (None, Some(drain)) => (drain.words(), Some(drain.deadline.since(now))),
            (None, None) => return None,
        };
        reason.truncate(reason.floor_char_boundary(limits::TEXT_BYTES));
        let stands = drain.map(|drain| self.stands(drain, connection).extensions());
        let (retry_after_us, extensions) = (retry_after.map(Micros::as_us), stands.unwrap_or_default());
        let message = Draining { reason, retry_after_us, extensions }.into();
        Some(Effect::Send { to: Place { connection, lane: LaneId::FIRST }, message })
    }

    /// How it stands, as who is on the connection may know it.
    fn stands(&self, drain: &Drain, connection: ConnectionId) -> DrainStands {
        let agent = self.members.get(&connection).map(|member| &member.agent);
        let may_know = agent.is_some_and(|agent| self.rights.may_drain(agent).is_ok());
        let left = may_know.then(|| self.intents.granted() as u64);
        DrainStands { deadline: drain.deadline, is_over: self.draining.is_some(), left }
    }

    /// The same for an answer to who asked.
    pub(super) fn drain_stands(&self, connection: ConnectionId) -> Option<DrainStands> {
        self.drain.present.as_ref().map(|drain| self.stands(drain, connection))
    }
}

/// Whether a revision of what is in force asks for no window that its grant does not have: what the core grants of it
/// takes nothing from anybody.
fn stays_within(route: &Route, intent: &Intent) -> bool {
    let (Some((old, end)), Start::At(new)) = (route.granted(), intent.start) else { return false };
    let last = route.claims.iter().map(|claim| claim.window(old).end()).max();
    let covers = |was: &Claim, is: &Claim| {
        let (had, wants) = (was.window(old), is.window(new));
        // Those that end last have been renewed.
        let had_until = if Some(had.end()) == last { end } else { had.end() };
        had.start() <= wants.start() && wants.end() <= had_until && ranks::may_be_part(was, is)
    };
    ranks::gives_back(route, intent)
        && intent.claims.iter().all(|is| route.claims.iter().any(|was| covers(was, is)))
}
