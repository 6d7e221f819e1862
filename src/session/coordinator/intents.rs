//! The way from an intent to those who wait for news of it, and how much each name has going.
//!
//! A route follows the decisions that the core hands out and never runs ahead of them: what has been
//! taken in and not been decided yet is only counted.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Ask, Bounds, ConnectionId, LaneId, Origin, Place, notes};
use crate::limits;
use crate::types::{Agent, Claim, Decision, FixedMap, IntentId, IntentKey, Slot, Time, Token, Verdict};

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
    Granted { end: Time, token: Token, is_lease: bool },
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
    pub(super) fn has_some_of(&self, agent: &Agent) -> bool {
        self.loads.contains_key(agent)
    }

    /// How many intents are in force or undecided.
    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    /// How many names have something going.
    pub(super) fn names(&self) -> usize {
        self.loads.len()
    }

    /// The intents in force or undecided, on a connection that is gone.
    pub(super) fn restored(
        live: impl ExactSizeIterator<Item = notes::Live>,
        route: impl Fn(&IntentKey) -> Option<notes::Route>,
    ) -> Self {
        let mut intents = Intents::default();
        intents.routes.reserve(live.len());
        let mut ends = Vec::new();
        for notes::Live { key, claims, grant } in live {
            // An intent of which nothing else is known belongs to the name's plain session.
            let nobody = || notes::Route { label: Arc::from(""), note: Arc::from("") };
            let notes::Route { label, note } = route(&key).unwrap_or_else(nobody);
            let standing = match grant {
                None => Standing::Undecided,
                Some((end, token, is_lease)) => Standing::Granted { end, token, is_lease },
            };
            if let Standing::Granted { end, is_lease: false, .. } = standing {
                ends.push((end, key.clone()));
            }
            intents.count(&key.agent, standing, 1);
            let place = Place { connection: ConnectionId::GONE, lane: LaneId::FIRST };
            intents.routes.insert(key, Route { label, place, waiters: Vec::new(), note, claims, standing });
        }
        // A set is built at once in a fraction of the time that it takes to insert as much.
        intents.ends = ends.into_iter().collect();
        intents
    }

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
        let undecided = load.undecided + load.pending;
        let over = if load.inputs >= limits::SLOT_INPUTS_OF_A_NAME {
            Some(OverLimit::InputsOfSlot)
        } else if fresh && (undecided >= bounds.undecided_of_a_name || self.undecided >= bounds.undecided) {
            Some(OverLimit::Undecided)
        } else if fresh && (undecided + load.granted >= limits::LIVE_OF_A_NAME || live >= limits::LIVE) {
            Some(OverLimit::Live)
        } else {
            load.inputs += 1;
            load.pending += 1;
            None
        };
        self.forget_idle(agent);
        over.map_or(Ok(()), Err)
    }

    /// Takes back the count of a message that was not taken in after all, or has been decided.
    pub(super) fn settle(&mut self, agent: &Agent) {
        if let Some(load) = self.loads.get_mut(agent) {
            load.pending = load.pending.saturating_sub(1);
        }
        self.forget_idle(agent);
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
    /// The intent goes on on that lane, unless another session declared it.
    pub(super) fn bind(&mut self, agent: &Agent, origin: &Origin, place: Place) {
        let Ask::Declare { id, note, claims } = &origin.ask else { return };
        let key = IntentKey { agent: agent.clone(), id: *id };
        let waiter = Waiter { place, request: origin.request };
        if let Some(route) = self.routes.get_mut(&key) {
            if route.waiters.len() >= limits::WAITERS {
                route.waiters.remove(0);
            }
            route.waiters.push(waiter);
            if route.label == origin.label {
                route.place = place;
            }
            (route.note, route.claims) = (Arc::clone(note), Arc::clone(claims));
            return;
        }
        let route = Route {
            label: Arc::clone(&origin.label),
            place,
            waiters: vec![waiter],
            note: Arc::clone(note),
            claims: Arc::clone(claims),
            standing: Standing::Undecided,
        };
        self.routes.insert(key, route);
        self.count(agent, Standing::Undecided, 1);
    }

    /// Whether a decision grants what was not granted so before: a repeat shows the token that stands.
    pub(super) fn is_new_grant(&self, decision: &Decision) -> bool {
        let Verdict::Granted { token: new, .. } = decision.verdict else { return false };
        let stands = self.routes.get(&decision.key).map(|route| route.standing);
        match stands {
            Some(Standing::Granted { token, .. }) => token != new,
            Some(Standing::Undecided) => true,
            None => false,
        }
    }

    /// Whether the intent is granted under this token.
    pub(super) fn stands(&self, key: &IntentKey, token: Token) -> bool {
        let standing = self.routes.get(key).map(|route| route.standing);
        matches!(standing, Some(Standing::Granted { token: stands, .. }) if stands == token)
    }

    /// What stood is over, and there is more to come about the intent.
    pub(super) fn go_on(&mut self, key: &IntentKey) {
        self.wait(key);
    }

    /// Follows a decision. `goes_on` where there is more to come about the intent in this slot;
    /// `is_lease` says of a grant whether it is one.
    pub(super) fn follow(&mut self, decision: &Decision, goes_on: bool, is_lease: &dyn Fn(Token) -> bool) {
        let key = &decision.key;
        match &decision.verdict {
            Verdict::Granted { end, token, .. } if self.is_new_grant(decision) => {
                self.grant(key, *end, *token, is_lease(*token));
            }
            Verdict::Moved { end, token, .. } => self.grant(key, *end, *token, is_lease(*token)),
            Verdict::Conflict(conflict) if decision.answers.is_none() => {
                match (conflict.kept, conflict.is_final) {
                    (true, _) => self.fate_is_told(key),
                    (false, true) => self.end_unless(goes_on, key),
                    (false, false) => self.wait(key),
                }
            }
            Verdict::Stale { kept: true, .. } if decision.answers.is_none() => self.fate_is_told(key),
            Verdict::Stale { kept: false, .. } if decision.answers.is_none() => {
                self.end_unless(goes_on, key);
            }
            Verdict::Revoked { waiting: true, .. } if decision.answers.is_none() => self.wait(key),
            Verdict::Revoked { waiting: false, .. } if decision.answers.is_none() => self.end(key),
            Verdict::Released { .. } => self.end(key),
            Verdict::Expired { token } if decision.answers.is_none() => self.expire(key, *token),
            Verdict::Renewed { end } => self.renew(key, *end),
            // Answers to what changed nothing.
            Verdict::Granted { .. }
            | Verdict::Conflict(_)
            | Verdict::Stale { .. }
            | Verdict::Revoked { .. }
            | Verdict::Expired { .. }
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

    fn grant(&mut self, key: &IntentKey, end: Time, token: Token, is_lease: bool) {
        if let Some(route) = self.routes.get_mut(key) {
            route.waiters.clear();
            self.stand(key, Standing::Granted { end, token, is_lease });
        }
    }

    fn renew(&mut self, key: &IntentKey, until: Time) {
        if let Some(Route { standing: Standing::Granted { token, is_lease, .. }, .. }) = self.routes.get(key)
        {
            let (token, is_lease) = (*token, *is_lease);
            self.stand(key, Standing::Granted { end: until, token, is_lease });
        }
    }

    fn wait(&mut self, key: &IntentKey) {
        self.stand(key, Standing::Undecided);
    }

    fn expire(&mut self, key: &IntentKey, token: Token) {
        if self.stands(key, token) {
            self.end(key);
        }
    }

    fn stand(&mut self, key: &IntentKey, standing: Standing) {
        let Some(route) = self.routes.get_mut(key) else { return };
        let before = std::mem::replace(&mut route.standing, standing);
        if let Standing::Granted { end, .. } = before {
            self.ends.remove(&(end, key.clone()));
        }
        if let Standing::Granted { end, is_lease: false, .. } = standing {
            self.ends.insert((end, key.clone()));
        }
        self.count(&key.agent, before, -1);
        self.count(&key.agent, standing, 1);
    }

    fn fate_is_told(&mut self, key: &IntentKey) {
        if let Some(route) = self.routes.get_mut(key) {
            route.waiters.clear();
        }
    }

    fn end_unless(&mut self, goes_on: bool, key: &IntentKey) {
        if goes_on {
            self.fate_is_told(key);
            self.go_on(key);
        } else {
            self.end(key);
        }
    }

    fn end(&mut self, key: &IntentKey) {
        let Some(route) = self.routes.remove(key) else { return };
        if let Standing::Granted { end, .. } = route.standing {
            self.ends.remove(&(end, key.clone()));
        }
        self.count(&key.agent, route.standing, -1);
    }

    fn count(&mut self, agent: &Agent, standing: Standing, change: isize) {
        let load = self.loads.entry(agent.clone()).or_default();
        match standing {
            Standing::Undecided => {
                load.undecided = load.undecided.saturating_add_signed(change);
                self.undecided = self.undecided.saturating_add_signed(change);
            }
            Standing::Granted { .. } => load.granted = load.granted.saturating_add_signed(change),
        }
        self.forget_idle(agent);
    }

    /// A name that has nothing going leaves no trace here.
    fn forget_idle(&mut self, agent: &Agent) {
        let idle = |load: &Load| load.undecided + load.granted + load.pending == 0;
        if self.loads.get(agent).is_some_and(idle) {
            self.loads.remove(agent);
        }
    }
}

#[cfg(test)]
impl Intents {
    /// The intents in force, with their tokens, and those undecided.
    pub(super) fn tables(&self) -> (std::collections::BTreeMap<IntentKey, Token>, BTreeSet<IntentKey>) {
        let mut tables = (std::collections::BTreeMap::new(), BTreeSet::new());
        for (key, route) in &self.routes {
            match route.standing {
                Standing::Granted { token, .. } => drop(tables.0.insert(key.clone(), token)),
                Standing::Undecided => drop(tables.1.insert(key.clone())),
            }
        }
        tables
    }

    /// Panics where the counts are not those of the tables, while nothing is pending.
    pub(super) fn check_counts(&self) {
        let (granted, undecided) = self.tables();
        assert_eq!(self.undecided, undecided.len());
        let loads = self.loads.values();
        let counted = loads.map(|load| (load.pending, load.undecided, load.granted));
        let sum = counted.fold((0, 0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1, sum.2 + it.2));
        assert_eq!(sum, (0, undecided.len(), granted.len()));
        assert!(self.loads.keys().all(|agent| self.routes.keys().any(|key| key.agent == *agent)));
        let is_plain = |route: &&Route| matches!(route.standing, Standing::Granted { is_lease: false, .. });
        assert_eq!(self.ends.len(), self.routes.values().filter(is_plain).count());
    }
}
