//! How much of what an intent says of its priority counts: as much as its rules and its agent's purse allow.
//!
//! What counts is what the core is given, so a trace decides the same without any of this. What was sent is
//! remembered as long as its id is, so that something sent twice comes to the core as it did before, and is not
//! paid for again.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Sessions;
use super::allowance::Cost;
use super::intents::Route;
use super::priority::{Caps, LoweredBy, Priority, Sent};
use super::ranks::gives_back;
use crate::limits;
use crate::resolver::AgentOp;
use crate::types::{Agent, FixedMap, Intent, IntentKey, Micros, Time};
use crate::wire::{AllowanceLeft, InForce};

/// How often less counted than was sent, by what lowered it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lowered {
    /// By a rule's caps.
    pub by_rule: u64,
    /// By an allowance that could not pay.
    pub by_allowance: u64,
}

/// A declaration of which less counts than was sent, or that was paid for.
#[derive(Debug)]
pub(super) struct Bounding {
    /// As it was sent.
    sent: Intent,
    in_force: Priority,
    by: LoweredBy,
    /// What it cost.
    cost: Cost,
    /// What was left then.
    left: Option<AllowanceLeft>,
}

impl Bounding {
    /// One that the record tells of: `intent` is as it counts.
    pub(super) fn recorded(intent: &Intent, sent: Sent) -> Self {
        let in_force = Priority::of(intent);
        let mut whole = intent.clone();
        sent.priority.put(&mut whole);
        Bounding { sent: whole, in_force, by: sent.by, cost: Cost::default(), left: None }
    }

    pub(super) fn cost(&self) -> Cost {
        self.cost
    }

    pub(super) fn in_force(&self) -> Priority {
        self.in_force
    }

    /// What was sent, where less counts.
    pub(super) fn lowered(&self) -> Option<Sent> {
        let sent = Sent { priority: Priority::of(&self.sent), by: self.by.clone() };
        (!self.by.is_nothing()).then_some(sent)
    }

    /// What its agent is told.
    pub(super) fn told(&self) -> InForce {
        let Priority { class, urgency, safety_margin, social_value } = self.in_force;
        InForce {
            class,
            urgency,
            safety_margin,
            social_value,
            rule: self.by.rule.as_deref().map(str::to_owned),
            by_allowance: self.by.allowance,
            allowance: self.left,
        }
    }

    /// The same, sent again: it is not paid for twice.
    fn again(&self, sent: &Intent) -> Self {
        let Bounding { sent: _, in_force, by, cost: _, left } = self;
        Bounding {
            sent: sent.clone(),
            in_force: *in_force,
            by: by.clone(),
            cost: Cost::default(),
            left: *left,
        }
    }
}

/// What was sent of intents that have ended, for as long as the core remembers their ids.
#[derive(Debug, Default)]
pub(super) struct EndedBoundings {
    kept: FixedMap<IntentKey, (Time, Arc<Bounding>)>,
    order: VecDeque<(Time, IntentKey)>,
}

impl EndedBoundings {
    /// An intent ended in the slot decided at `at`. Those that ended more than `retention` ago go, and past
    /// [`limits::BOUNDED_KEPT`] the oldest.
    pub(super) fn keep(&mut self, key: IntentKey, bounding: Arc<Bounding>, at: Time, retention: Micros) {
        while let Some((ended, _)) = self.order.front()
            && (ended.after(retention) <= at || self.order.len() >= limits::BOUNDED_KEPT)
        {
            let Some((ended, key)) = self.order.pop_front() else { break };
            if self.kept.get(&key).is_some_and(|(kept, _)| *kept == ended) {
                self.kept.remove(&key);
            }
        }
        self.order.push_back((at, key.clone()));
        self.kept.insert(key, (at, bounding));
    }

    fn of(&self, key: &IntentKey, now: Time, retention: Micros) -> Option<&Arc<Bounding>> {
        let (ended, bounding) = self.kept.get(key)?;
        (now < ended.after(retention)).then_some(bounding)
    }

    fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

impl Sessions {
    /// Has `op` say what counts, and returns what is to be remembered of that. Nothing is paid yet.
    pub(super) fn bound(
        &mut self,
        agent: &Agent,
        op: &mut AgentOp,
        caps: &Caps,
        now: Time,
    ) -> Option<Arc<Bounding>> {
        let (AgentOp::Declare(intent) | AgentOp::Revise(intent)) = &*op else { return None };
        let bounding = match self.before(agent, intent, matches!(op, AgentOp::Revise(_)), now) {
            Some(before) => before.again(intent),
            None => self.counts(agent, intent, caps, now)?,
        };
        if let AgentOp::Declare(intent) | AgentOp::Revise(intent) = op {
            bounding.in_force.put(intent);
        }
        Some(Arc::new(bounding))
    }

    /// The bounding of what stands under this id, where this is the same again, or gives some of it back.
    fn before(&self, agent: &Agent, intent: &Intent, is_revision: bool, now: Time) -> Option<Arc<Bounding>> {
        let retention = self.terms.retention;
        if let Some(route) = self.intents.route(agent, intent.id) {
            let is_remembered = route.end().is_none_or(|end| now < end.after(retention));
            let found = route.boundings().find(|it| is_same(it, intent, route, is_revision));
            return found.filter(|_| is_remembered).cloned();
        }
        let ended = self.intents.ended_boundings();
        if ended.is_empty() {
            return None;
        }
        let key = IntentKey { agent: agent.clone(), id: intent.id };
        ended.of(&key, now, retention).filter(|it| it.sent == *intent).cloned()
    }

    fn counts(&mut self, agent: &Agent, intent: &Intent, caps: &Caps, now: Time) -> Option<Bounding> {
        let sent = Priority::of(intent);
        let (capped, rule) = caps.lower(sent);
        let mut bounding = Bounding {
            sent: intent.clone(),
            in_force: capped,
            by: LoweredBy { rule, allowance: false },
            cost: Cost::default(),
            left: None,
        };
        let priced = self.rights.allowance().map(|allowance| (allowance, allowance.cost(intent, capped)));
        if let Some((allowance, cost)) = priced.filter(|(_, cost)| !cost.is_nothing()) {
            if self.purses.can_pay(agent, cost, now, allowance) {
                bounding.cost = cost;
            } else {
                bounding.in_force = allowance.ordinary_of(capped);
                bounding.by.allowance = true;
            }
            let left = self.purses.left(agent, now, allowance) - bounding.cost.as_credits();
            let (size, refill) = (allowance.size.as_f64(), allowance.refill.as_f64());
            bounding.left = Some(AllowanceLeft { left, size, refill });
        }
        let is_plain = bounding.by.is_nothing() && bounding.cost.is_nothing();
        (!is_plain).then_some(bounding)
    }

    /// What was taken in is paid for, and counted.
    pub(super) fn pay_for(&mut self, agent: &Agent, bounding: &Bounding, now: Time) {
        self.lowered.by_rule += u64::from(bounding.by.rule.is_some());
        self.lowered.by_allowance += u64::from(bounding.by.allowance);
        if let Some(allowance) = self.rights.allowance().filter(|_| !bounding.cost.is_nothing()) {
            self.purses.pay(agent, bounding.cost, now, allowance);
        }
    }

    /// What came to nothing is given back.
    pub(super) fn pay_back(&mut self, agent: &Agent, cost: Cost, now: Time) {
        if let Some(allowance) = self.rights.allowance().filter(|_| !cost.is_nothing()) {
            self.purses.give_back(agent, cost, now, allowance);
        }
    }

    /// A lease that counts for more than ordinary lasts longer: that costs what declaring it so would have.
    pub(super) fn pay_for_renewal(&mut self, agent: &Agent, span: Micros, in_force: Priority, now: Time) {
        if let Some(allowance) = self.rights.allowance() {
            let cost = allowance.cost_of(span, in_force);
            if !cost.is_nothing() {
                self.purses.pay(agent, cost, now, allowance);
            }
        }
    }

    /// How often less counted than was sent, since the start.
    pub fn lowered(&self) -> Lowered {
        self.lowered
    }
}

/// Whether `intent` asks for nothing that `before` has not asked for.
fn is_same(before: &Bounding, intent: &Intent, route: &Route, is_revision: bool) -> bool {
    let is_part = || Priority::of(&before.sent) == Priority::of(intent) && gives_back(route, intent);
    before.sent == *intent || is_revision && is_part()
}
