//! The way from an intent to those who wait for news of it, and how much each name has going.
//!
//! A route follows the decisions that the core hands out and never runs ahead of them: what has been
//! taken in and not been decided yet is only counted.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Ask, Bounds, Origin, Place};
use crate::limits;
use crate::types::{Agent, Claim, Decision, FixedMap, IntentId, IntentKey, Slot, Time, Verdict};

#[derive(Debug, Default)]
pub(super) struct Intents {
    routes: FixedMap<IntentKey, Route>,
    /// Grants that are no leases, by their end: nobody tells of that.
    ends: BTreeSet<(Time, IntentKey)>,
    loads: FixedMap<Agent, Load>,
    undecided: usize,
}

/// Where news of one intent goes.
#[derive(Debug)]
pub(super) struct Route {
    /// The session that declared it.
    pub(super) label: Arc<str>,
    /// The lane that it was declared on, or taken up again on after a reconnect.
    pub(super) place: Place,
    /// Requests whose fate is still open.
    pub(super) waiters: Vec<Waiter>,
    pub(super) note: Arc<str>,
    pub(super) claims: Arc<[Claim]>,
    hold: bool,
    standing: Standing,
}

/// A request that waits for the fate of its intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) place: Place,
    pub(super) request: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Undecided,
    Granted { end: Time },
}

/// What one name has going.
#[derive(Debug, Default)]
struct Load {
    /// Messages taken in and not decided yet.
    pending: usize,
    undecided: usize,
    granted: usize,
    /// Messages taken in within `slot`.
    slot: Slot,
    inputs: usize,
}

/// Which bound a message would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OverLimit {
    /// Its name's messages in this slot.
    InputsOfSlot,
    /// Intents without a final answer, of its name or over all.
    Undecided,
    /// Intents in force or undecided, of its name or over all.
    Live,
}

impl Intents {
    pub(super) fn route(&self, agent: &Agent, id: IntentId) -> Option<&Route> {
        self.routes.get(&IntentKey { agent: agent.clone(), id })
    }

    pub(super) fn is_granted(&self, agent: &Agent, id: IntentId) -> bool {
        self.route(agent, id).is_some_and(|route| matches!(route.standing, Standing::Granted { .. }))
    }

    /// Counts a message that is about to be taken in during `slot`. `fresh` where it would add an
    /// intent, rather than ask about one that is known.
    pub(super) fn reserve(
        &mut self,
        agent: &Agent,
        slot: Slot,
        fresh: bool,
        bounds: &Bounds,
    ) -> Result<(), OverLimit> {
        let live = self.routes.len();
        let load = self.loads.entry(agent.clone()).or_default();
        if load.slot != slot {
            (load.slot, load.inputs) = (slot, 0);
        }
        if load.inputs >= limits::SLOT_INPUTS_OF_A_NAME {
            return Err(OverLimit::InputsOfSlot);
        }
        let undecided = load.undecided + load.pending;
        if fresh && (undecided >= bounds.undecided_of_a_name || self.undecided >= bounds.undecided) {
            return Err(OverLimit::Undecided);
        }
        if fresh && (undecided + load.granted >= limits::LIVE_OF_A_NAME || live >= limits::LIVE) {
            return Err(OverLimit::Live);
        }
        load.inputs += 1;
        load.pending += 1;
        Ok(())
    }

    /// Takes back the count of a message that was not taken in after all, or has been decided.
    pub(super) fn settle(&mut self, agent: &Agent) {
        if let Some(load) = self.loads.get_mut(agent) {
            load.pending = load.pending.saturating_sub(1);
        }
    }

    /// An intent that is named on a new lane, after the connection that it lived on has ended, goes
    /// on there.
    pub(super) fn move_to(&mut self, agent: &Agent, id: IntentId, place: Place, label: &Arc<str>) {
        if let Some(route) = self.routes.get_mut(&IntentKey { agent: agent.clone(), id }) {
            route.place = place;
            route.label = Arc::clone(label);
        }
    }

    /// A declaration or revision that the core took in: its fate is told to its request from here on.
    pub(super) fn bind(&mut self, agent: &Agent, origin: &Origin, place: Place) {
        let Ask::Declare { id, note, claims, hold } = &origin.ask else { return };
        let key = IntentKey { agent: agent.clone(), id: *id };
        let waiter = Waiter { place, request: origin.request };
        if let Some(route) = self.routes.get_mut(&key) {
            if route.waiters.len() >= limits::WAITERS {
                route.waiters.remove(0);
            }
            route.waiters.push(waiter);
            route.label = Arc::clone(&origin.label);
            (route.place, route.note) = (place, Arc::clone(note));
            (route.claims, route.hold) = (Arc::clone(claims), *hold);
            return;
        }
        let route = Route {
            label: Arc::clone(&origin.label),
            place,
            waiters: vec![waiter],
            note: Arc::clone(note),
            claims: Arc::clone(claims),
            hold: *hold,
            standing: Standing::Undecided,
        };
        self.routes.insert(key, route);
        self.count(agent, Some(Standing::Undecided), 1);
    }

    /// Follows a decision.
    pub(super) fn follow(&mut self, decision: &Decision) {
        let key = &decision.key;
        match &decision.verdict {
            Verdict::Granted { end, .. } if decision.answers.is_none() => self.grant(key, *end),
            Verdict::Moved { end, .. } => self.grant(key, *end),
            Verdict::Conflict(conflict) if decision.answers.is_none() => {
                match (conflict.kept, conflict.is_final) {
                    (true, _) => self.fate_is_told(key),
                    (false, true) => self.end(key),
                    (false, false) => self.wait(key),
                }
            }
            Verdict::Stale { kept: true, .. } if decision.answers.is_none() => self.fate_is_told(key),
            Verdict::Stale { kept: false, .. } if decision.answers.is_none() => self.end(key),
            Verdict::Revoked { waiting: true, .. } => self.wait(key),
            Verdict::Revoked { waiting: false, .. } | Verdict::Released { .. } | Verdict::Expired { .. } => {
                self.end(key);
            }
            Verdict::Renewed { end } => self.renew(key, *end),
            // Answers to what changed nothing.
            Verdict::Granted { .. }
            | Verdict::Conflict(_)
            | Verdict::Stale { .. }
            | Verdict::Rejected { .. }
            | Verdict::ReleasedUnknown
            | Verdict::RenewDenied(_) => {}
        }
    }

    /// Forgets the grants that have ended by `at` and of which nobody tells.
    pub(super) fn forget_ended(&mut self, at: Time) {
        while let Some((end, _)) = self.ends.first()
            && *end <= at
            && let Some((_, key)) = self.ends.pop_first()
        {
            self.end(&key);
        }
    }

    fn grant(&mut self, key: &IntentKey, end: Time) {
        let Some(route) = self.routes.get_mut(key) else { return };
        let before = std::mem::replace(&mut route.standing, Standing::Granted { end });
        route.waiters.clear();
        let is_lease = route.hold;
        self.note_end(key, before, Some(end).filter(|_| !is_lease));
        self.count(&key.agent, Some(before), -1);
        self.count(&key.agent, Some(Standing::Granted { end }), 1);
    }

    fn renew(&mut self, key: &IntentKey, end: Time) {
        if let Some(Route { standing: Standing::Granted { end: old }, .. }) = self.routes.get_mut(key) {
            *old = end;
        }
    }

    fn wait(&mut self, key: &IntentKey) {
        let Some(route) = self.routes.get_mut(key) else { return };
        let before = std::mem::replace(&mut route.standing, Standing::Undecided);
        self.note_end(key, before, None);
        self.count(&key.agent, Some(before), -1);
        self.count(&key.agent, Some(Standing::Undecided), 1);
    }

    fn fate_is_told(&mut self, key: &IntentKey) {
        if let Some(route) = self.routes.get_mut(key) {
            route.waiters.clear();
        }
    }

    fn end(&mut self, key: &IntentKey) {
        let Some(route) = self.routes.remove(key) else { return };
        self.note_end(key, route.standing, None);
        self.count(&key.agent, Some(route.standing), -1);
    }

    fn note_end(&mut self, key: &IntentKey, before: Standing, after: Option<Time>) {
        if let Standing::Granted { end } = before {
            self.ends.remove(&(end, key.clone()));
        }
        if let Some(end) = after {
            self.ends.insert((end, key.clone()));
        }
    }

    fn count(&mut self, agent: &Agent, standing: Option<Standing>, change: isize) {
        let load = self.loads.entry(agent.clone()).or_default();
        match standing {
            Some(Standing::Undecided) => {
                load.undecided = load.undecided.saturating_add_signed(change);
                self.undecided = self.undecided.saturating_add_signed(change);
            }
            Some(Standing::Granted { .. }) => load.granted = load.granted.saturating_add_signed(change),
            None => {}
        }
        if load.undecided + load.granted + load.pending == 0 {
            self.loads.remove(agent);
        }
    }
}
