//! The way from an intent to those who wait for news of it, and how much each name has going.
//!
//! A route follows the decisions that the core hands out and never runs ahead of them: what has been
//! taken in and not been decided yet is only counted.

mod of_name;

use std::collections::BTreeMap;
#[cfg(test)]
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) use self::of_name::Load;
use self::of_name::{OfName, Totals};
use super::allowance::Cost;
use super::bounding::{Bounding, EndedBoundings};
#[cfg(test)]
use super::crowd::{Crowd, Windows};
use super::notes::LiveGrant;
use super::priority::Priority;
use super::traces::Trace;
use super::{Ask, Bounds, ConnectionId, LaneId, Origin, Place, notes};
use crate::limits::{self, Limit};
use crate::slot::Rank;
use crate::types::{
    Agent, Claim, Decision, FixedMap, IntentId, IntentKey, Micros, Slot, Time, Token, Verdict,
};

#[derive(Debug, Default)]
pub(super) struct Intents {
    /// What each name has going, which most of what follows is about at once.
    names: FixedMap<Agent, OfName>,
    /// Grants that are no leases, by their end: nobody tells of that.
    ends: BTreeMap<(Time, Token), IntentKey>,
    totals: Totals,
    ended: EndedBoundings,
    /// The decision time of the slot that is followed, and how long the core remembers what ends in it.
    following: (Time, Micros),
    payments: Vec<Payment>,
}

/// Where news of one intent goes.
#[derive(Debug)]
pub(super) struct Route {
    /// The session that declared it.
    pub(super) label: Arc<str>,
    /// The lane that it was declared on, or taken up again on after a reconnect.
    pub(super) place: Place,
    /// Requests whose fate is still open.
    pub(super) waiters: Waiters,
    pub(super) note: Arc<str>,
    /// As they were last asked for.
    pub(super) claims: Arc<[Claim]>,
    /// Those of the grant in force, while a revision of it is undecided: both count.
    revised: Option<Arc<[Claim]>>,
    /// Windows among which it is looked for a place, while it is undecided.
    search: usize,
    standing: Standing,
    /// What was sent, where less counts or it was paid for.
    bounding: Option<Arc<Bounding>>,
    /// The same of a revision of the grant that is still to be decided.
    revising: Option<Arc<Bounding>>,
    /// What was paid for something that has had nothing of it yet.
    unspent: Cost,
    /// Where it stands in a trace, as it was last declared in one.
    pub(super) trace: Option<Arc<Trace>>,
}

/// What becomes of payments by what was decided.
#[derive(Debug)]
pub(super) enum Payment {
    /// It came to nothing, and is given back.
    Back(Agent, Cost),
    /// A lease lasts so much longer, which counts with this priority.
    Renewal(Agent, Micros, Priority),
}

impl Route {
    /// What was sent of what stands, and of what is to take its place.
    pub(super) fn boundings(&self) -> impl Iterator<Item = &Arc<Bounding>> {
        self.bounding.iter().chain(&self.revising)
    }

    /// What counts of what was decided last.
    pub(super) fn bounding(&self) -> Option<&Arc<Bounding>> {
        self.bounding.as_ref()
    }

    /// When its grant starts and ends, where it has one.
    pub(super) fn granted(&self) -> Option<(Time, Time)> {
        match self.standing {
            Standing::Granted { start, end, .. } => Some((start, end)),
            Standing::Undecided => None,
        }
    }

    /// When its grant ends, where it has one.
    pub(super) fn end(&self) -> Option<Time> {
        match self.standing {
            Standing::Granted { end, .. } => Some(end),
            Standing::Undecided => None,
        }
    }
}

/// A request that waits for the fate of its intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) place: Place,
    pub(super) request: u64,
}

/// Waiters in their order; the first, which is mostly the only one, is kept without memory of its own.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    first: Option<Waiter>,
    more: Vec<Waiter>,
}

impl Waiters {
    pub(super) fn iter(&self) -> impl Iterator<Item = Waiter> {
        self.first.iter().chain(&self.more).copied()
    }

    /// One more; past [`limits::WAITERS`] the oldest goes.
    fn add(&mut self, waiter: Waiter) {
        if self.first.is_none() {
            self.first = Some(waiter);
            return;
        }
        if self.more.len() + 1 >= limits::WAITERS {
            self.first = Some(self.more.remove(0));
        }
        self.more.push(waiter);
    }

    fn clear(&mut self) {
        self.first = None;
        self.more.clear();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Undecided,
    Granted { start: Time, end: Time, token: Token, is_lease: bool },
}

/// What a message asks for that is about to be taken in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) rank: Rank,
    /// Of a declaration or revision: its intent and claims.
    pub(super) adds: Option<(IntentId, &'a [Claim])>,
}

/// Which bound a message would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OverLimit {
    pub(super) limit: Limit,
    /// For its name's messages in this slot: there is room for another in the one that ends so many slots later.
    pub(super) slots: u64,
    /// The claim at fault, where it is one.
    pub(super) claim: Option<usize>,
}

impl OverLimit {
    fn of(limit: Limit) -> Self {
        OverLimit { limit, slots: 1, claim: None }
    }
}

impl Intents {
    pub(super) fn has_some_of(&self, agent: &Agent) -> bool {
        self.names.contains_key(agent)
    }

    /// How many intents are in force or undecided.
    pub(super) fn len(&self) -> usize {
        self.totals.live
    }

    /// How many intents are in force.
    pub(super) fn granted(&self) -> usize {
        self.totals.live.saturating_sub(self.totals.undecided)
    }

    /// How many names have something going.
    pub(super) fn names(&self) -> usize {
        self.names.len()
    }

    /// The intents in force or undecided, on a connection that is gone.
    pub(super) fn restored(
        live: impl ExactSizeIterator<Item = notes::Live>,
        route: impl Fn(&IntentKey) -> Option<notes::Route>,
    ) -> Self {
        let mut intents = Intents::default();
        let mut ends = Vec::new();
        for notes::Live { key, intent, grant } in live {
            // An intent of which nothing else is known belongs to the name's plain session.
            let nobody = || notes::Route { label: Arc::from(""), note: Arc::from(""), sent: None };
            let notes::Route { label, note, sent } = route(&key).unwrap_or_else(nobody);
            let standing = match grant {
                None => Standing::Undecided,
                Some(LiveGrant { start, end, token }) => {
                    Standing::Granted { start, end, token, is_lease: intent.hold }
                }
            };
            if let Standing::Granted { end, token, is_lease: false, .. } = standing {
                ends.push(((end, token), key.clone()));
            }
            let name = intents.names.entry(key.agent).or_default();
            name.count(&mut intents.totals, standing, 1);
            let claims = Arc::clone(&intent.claims);
            name.add_windows(&mut intents.totals, &claims);
            let place = Place { connection: ConnectionId::GONE, lane: LaneId::FIRST };
            let bounding = sent.map(|sent| Arc::new(Bounding::recorded(&intent, sent)));
            let route = Route {
                label,
                place,
                waiters: Waiters::default(),
                note,
                claims,
                revised: None,
                search: 0,
                standing,
                bounding,
                revising: None,
                unspent: Cost::default(),
                trace: None,
            };
            name.routes.insert(key.id, route);
        }
        // A map is built at once in a fraction of the time that it takes to insert as much.
        intents.ends = ends.into_iter().collect();
        intents
    }

    pub(super) fn route(&self, agent: &Agent, id: IntentId) -> Option<&Route> {
        self.names.get(agent)?.routes.get(&id)
    }

    fn route_mut(&mut self, key: &IntentKey) -> Option<&mut Route> {
        self.names.get_mut(&key.agent)?.routes.get_mut(&key.id)
    }

    fn standing(&self, key: &IntentKey) -> Option<Standing> {
        self.route(&key.agent, key.id).map(|route| route.standing)
    }

    pub(super) fn is_granted(&self, agent: &Agent, id: IntentId) -> bool {
        self.route(agent, id).is_some_and(|route| matches!(route.standing, Standing::Granted { .. }))
    }

    /// Counts a message that is about to be taken in during `slot`, and says what it adds until it is decided. An
    /// intent is held against the bounds unless it is known already. What keeps up what the name has is counted by
    /// itself, so that a name that asks for too much does not lose what it has.
    pub(super) fn reserve(
        &mut self,
        agent: &Agent,
        slot: Slot,
        wanted: Wanted<'_>,
        bounds: &Bounds,
    ) -> Result<Option<Load>, OverLimit> {
        let reserved = self.try_reserve(agent, slot, wanted, bounds);
        if reserved.is_err() {
            self.forget_idle(agent);
        }
        reserved
    }

    fn try_reserve(
        &mut self,
        agent: &Agent,
        slot: Slot,
        Wanted { rank, adds }: Wanted<'_>,
        bounds: &Bounds,
    ) -> Result<Option<Load>, OverLimit> {
        let totals = &mut self.totals;
        let name = match self.names.get_mut(agent) {
            Some(name) => name,
            None => self.names.entry(agent.clone()).or_default(),
        };
        if name.slot != slot {
            (name.slot, name.inputs) = (slot, [0; 2]);
        }
        let inputs = &mut name.inputs[usize::from(rank == Rank::Upkeep)];
        let before = *inputs / bounds.inputs_of_a_name.max(1);
        *inputs += 1;
        if before > 0 {
            return Err(OverLimit { slots: before as u64, ..OverLimit::of(Limit::SlotInputsPerAgent) });
        }
        let Some((id, claims)) = adds else {
            name.pending += 1;
            return Ok(None);
        };
        let known = name.routes.get(&id);
        let undecided = name.undecided + name.pending;
        let passed = [
            (undecided >= bounds.undecided_of_a_name, Limit::UndecidedPerAgent),
            (totals.undecided >= bounds.undecided, Limit::Undecided),
            (undecided + name.granted >= bounds.live_of_a_name, Limit::LivePerAgent),
            (totals.live >= bounds.live, Limit::Live),
        ];
        if known.is_none()
            && let Some((_, limit)) = passed.into_iter().find(|(is_passed, _)| *is_passed)
        {
            return Err(OverLimit::of(limit));
        }
        let before = known.map(|known| (Arc::clone(&known.claims), known.search));
        let replaced = before.as_ref().map(|(claims, searched)| (&**claims, *searched));
        let has_windows = replaced.is_none_or(|(before, _)| *before != *claims);
        let search = name.check(totals, rank, replaced, claims, bounds)?;
        if has_windows {
            name.add_windows(totals, claims);
        }
        name.add_search(totals, search);
        name.pending += 1;
        Ok(Some(Load { search, has_windows }))
    }

    /// Takes back the count of a message that was not taken in after all.
    pub(super) fn settle(&mut self, agent: &Agent, origin: &Origin) {
        self.settle_and_bind(agent, origin, None);
    }

    /// Takes back the count of a message that has been decided, or taken in hand: then its `origin` is told at `place`
    /// of its intent's fate from here on; see [`Intents::bind`].
    pub(super) fn settle_and_bind(&mut self, agent: &Agent, origin: &Origin, place: Option<Place>) {
        let Some(name) = self.names.get_mut(agent) else { return };
        name.pending = name.pending.saturating_sub(1);
        match place {
            Some(place) => name.bind(&mut self.totals, origin, place),
            None => name.unload(&mut self.totals, origin),
        }
        if name.is_idle() {
            self.names.remove(agent);
        }
    }

    /// A revision of `agent`'s that only gives back is granted as it is taken in, and its fate is never bound.
    pub(super) fn take_at_once(&mut self, agent: &Agent, origin: &Origin) {
        if let Some(name) = self.names.get_mut(agent) {
            name.take_at_once(&mut self.totals, &origin.ask);
        }
    }

    /// An intent that is named on a new lane, after the connection that it lived on has ended, goes
    /// on there.
    pub(super) fn move_to(&mut self, agent: &Agent, id: IntentId, place: Place, label: &Arc<str>) {
        let routes = self.names.get_mut(agent).map(|name| &mut name.routes);
        if let Some(route) = routes.and_then(|routes| routes.get_mut(&id)) {
            route.place = place;
            route.label = Arc::clone(label);
        }
    }

    /// Something sent twice that waits: its fate is told to its request too from here on. The intent goes on on that
    /// lane, unless another session declared it.
    pub(super) fn bind_repeat(&mut self, agent: &Agent, origin: &Origin, place: Place) {
        let Ask::Declare { id, note, .. } = &origin.ask else { return };
        let routes = self.names.get_mut(agent).map(|name| &mut name.routes);
        let Some(route) = routes.and_then(|routes| routes.get_mut(id)) else { return };
        route.waiters.add(Waiter { place, request: origin.request });
        if route.label == origin.label {
            route.place = place;
        }
        route.note = Arc::clone(note);
    }

    /// Whether a decision grants what was not granted so before: a repeat shows the token that stands.
    pub(super) fn is_new_grant(&self, decision: &Decision) -> bool {
        let Verdict::Granted { token: new, .. } = decision.verdict else { return false };
        match self.standing(&decision.key) {
            Some(Standing::Granted { token, .. }) => token != new,
            Some(Standing::Undecided) => true,
            None => false,
        }
    }

    /// Whether the intent is granted under this token.
    pub(super) fn stands(&self, key: &IntentKey, token: Token) -> bool {
        matches!(self.standing(key), Some(Standing::Granted { token: stands, .. }) if stands == token)
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
            Verdict::Granted { start, end, token } if self.is_new_grant(decision) => {
                self.take_over(key);
                self.grant(key, (*start, *end), *token, is_lease(*token));
            }
            Verdict::Moved { start, end, token } => {
                self.grant(key, (*start, *end), *token, is_lease(*token));
            }
            Verdict::Conflict(conflict) if decision.answers.is_none() => {
                match (conflict.kept, conflict.is_final) {
                    (true, _) => self.keep(key),
                    (false, true) => self.end_unless(goes_on, key),
                    (false, false) => self.wait(key),
                }
            }
            Verdict::Stale { kept: true, .. } if decision.answers.is_none() => self.keep(key),
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
        while let Some(entry) = self.ends.first_entry()
            && entry.key().0 <= at
        {
            let key = entry.remove();
            self.end(&key);
        }
    }

    /// A revision takes the grant's place.
    fn take_over(&mut self, key: &IntentKey) {
        if let Some(route) = self.route_mut(key)
            && let Standing::Granted { .. } = route.standing
        {
            route.bounding = route.revising.take();
        }
    }

    fn grant(&mut self, key: &IntentKey, (start, end): (Time, Time), token: Token, is_lease: bool) {
        self.settle_claims(key, true);
        self.spend(key);
        self.fate_is_told(key);
        self.stand(key, Standing::Granted { start, end, token, is_lease });
    }

    /// What was paid has had its effect.
    fn spend(&mut self, key: &IntentKey) {
        if let Some(route) = self.route_mut(key) {
            route.unspent = Cost::default();
        }
    }

    /// A revision came to nothing, and the grant goes on: what was paid for it comes back.
    fn keep(&mut self, key: &IntentKey) {
        self.settle_claims(key, false);
        if let Some(route) = self.route_mut(key) {
            route.revising = None;
            let unspent = std::mem::take(&mut route.unspent);
            self.pay_back(&key.agent, unspent);
        }
        self.fate_is_told(key);
    }

    fn pay_back(&mut self, agent: &Agent, cost: Cost) {
        if !cost.is_nothing() {
            self.payments.push(Payment::Back(agent.clone(), cost));
        }
    }

    /// A slot is followed from here on, decided at `at`; the core remembers for `retention` what ends in it.
    pub(super) fn follow_slot(&mut self, at: Time, retention: Micros) {
        self.following = (at, retention);
    }

    /// What became of payments since they were taken last.
    pub(super) fn take_payments(&mut self) -> Vec<Payment> {
        std::mem::take(&mut self.payments)
    }

    /// What was sent of those that have ended.
    pub(super) fn ended_boundings(&self) -> &EndedBoundings {
        &self.ended
    }

    fn settle_claims(&mut self, key: &IntentKey, is_granted: bool) {
        if let Some(name) = self.names.get_mut(&key.agent) {
            name.settle_claims(&mut self.totals, key.id, is_granted);
        }
    }

    fn renew(&mut self, key: &IntentKey, until: Time) {
        if let Some(Standing::Granted { start, end, token, is_lease }) = self.standing(key) {
            let bounding = self.route(&key.agent, key.id).and_then(Route::bounding);
            let longer = until.since(end);
            if let Some(bounding) = bounding.filter(|_| longer > Micros::ZERO) {
                let in_force = bounding.in_force();
                self.payments.push(Payment::Renewal(key.agent.clone(), longer, in_force));
            }
            self.stand(key, Standing::Granted { start, end: until, token, is_lease });
        }
    }

    fn wait(&mut self, key: &IntentKey) {
        self.drop_revised(key);
        self.spend(key);
        self.stand(key, Standing::Undecided);
    }

    /// The grant that a revision would have replaced is gone, and what was asked for goes on by itself.
    fn drop_revised(&mut self, key: &IntentKey) {
        let Some(name) = self.names.get_mut(&key.agent) else { return };
        let revised = name.routes.get_mut(&key.id).and_then(|route| route.revised.take());
        revised.into_iter().for_each(|claims| name.remove_windows(&mut self.totals, &claims));
    }

    fn expire(&mut self, key: &IntentKey, token: Token) {
        if self.stands(key, token) {
            self.end(key);
        }
    }

    fn stand(&mut self, key: &IntentKey, standing: Standing) {
        let Some(name) = self.names.get_mut(&key.agent) else { return };
        let Some(route) = name.routes.get_mut(&key.id) else { return };
        let before = std::mem::replace(&mut route.standing, standing);
        name.count(&mut self.totals, before, -1);
        name.count(&mut self.totals, standing, 1);
        self.forget_end(before);
        if let Standing::Granted { end, token, is_lease: false, .. } = standing {
            self.ends.insert((end, token), key.clone());
        }
    }

    fn fate_is_told(&mut self, key: &IntentKey) {
        if let Some(route) = self.route_mut(key) {
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
        let Some(name) = self.names.get_mut(&key.agent) else { return };
        let Some(route) = name.routes.remove(&key.id) else { return };
        name.count(&mut self.totals, route.standing, -1);
        name.remove_windows(&mut self.totals, &route.claims);
        route.revised.iter().for_each(|claims| name.remove_windows(&mut self.totals, claims));
        name.remove_search(&mut self.totals, route.search);
        if name.is_idle() {
            self.names.remove(&key.agent);
        }
        self.forget_end(route.standing);
        self.pay_back(&key.agent, route.unspent);
        if let Some(bounding) = route.bounding {
            let (at, retention) = self.following;
            self.ended.keep(key.clone(), bounding, at, retention);
        }
    }

    /// What stood is over, and so is what was noted of its end.
    fn forget_end(&mut self, before: Standing) {
        if let Standing::Granted { end, token, is_lease: false, .. } = before {
            self.ends.remove(&(end, token));
        }
    }

    /// A name that has nothing going leaves no trace here.
    fn forget_idle(&mut self, agent: &Agent) {
        if self.names.get(agent).is_some_and(OfName::is_idle) {
            self.names.remove(agent);
        }
    }
}

#[cfg(test)]
impl Intents {
    /// The intents in force, with their tokens, and those undecided.
    pub(super) fn tables(&self) -> (BTreeMap<IntentKey, Token>, BTreeSet<IntentKey>) {
        let mut tables = (BTreeMap::new(), BTreeSet::new());
        for (agent, name) in &self.names {
            for (id, route) in &name.routes {
                let key = IntentKey { agent: agent.clone(), id: *id };
                match route.standing {
                    Standing::Granted { token, .. } => drop(tables.0.insert(key, token)),
                    Standing::Undecided => drop(tables.1.insert(key)),
                }
            }
        }
        tables
    }

    /// Panics where the counts are not those of the tables, while nothing is pending.
    pub(super) fn check_counts(&self) {
        let (granted, undecided) = self.tables();
        let Totals { live, undecided: all_undecided, .. } = self.totals;
        assert_eq!((live, all_undecided), (granted.len() + undecided.len(), undecided.len()));
        self.check_windows();
        let counted = self.names.values().map(|name| (name.pending, name.undecided, name.granted));
        let sum = counted.fold((0, 0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1, sum.2 + it.2));
        assert_eq!(sum, (0, undecided.len(), granted.len()));
        assert!(self.names.values().all(|name| !name.routes.is_empty()));
        let routes = self.names.values().flat_map(|name| name.routes.values());
        let is_plain = |route: &&Route| matches!(route.standing, Standing::Granted { is_lease: false, .. });
        assert_eq!(self.ends.len(), routes.filter(is_plain).count());
    }

    /// Panics where what is counted of windows is not what the routes have.
    fn check_windows(&self) {
        let mut crowd = Crowd::default();
        let mut search = 0;
        for name in self.names.values() {
            let mut windows = Windows::default();
            let mut searched = 0;
            for route in name.routes.values() {
                assert!(route.revised.is_none(), "nothing is on its way");
                windows.add(&route.claims);
                crowd.add(&route.claims);
                searched += route.search;
            }
            assert_eq!((&name.windows, name.search), (&windows, searched));
            search += searched;
        }
        assert_eq!((&self.totals.crowd, self.totals.search), (&crowd, search));
    }
}
