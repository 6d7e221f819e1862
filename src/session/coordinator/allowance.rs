//! What claiming urgency costs: each agent has a purse, which is spent by claims of more than ordinary priority
//! and grows back.
//!
//! What a purse holds follows from what was spent and from the times handed in, and from nothing else. Amounts
//! are whole millionths of millionths of a credit, so that none is rounded away however often a purse is looked at.

use super::priority::Priority;
use crate::limits;
use crate::types::{Agent, FixedMap, Intent, Micros, Time};

/// Millionths of a credit in one.
const MICRO: f64 = 1e6;
/// The parts in which purses count: millionths of millionths of a credit.
const PARTS: f64 = 1e12;

/// An amount of credits, in millionths; what costs so much costs it for each second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credits(u64);

impl Credits {
    /// What an amount may be, for people.
    pub const RULE: &'static str = "a number of credits, 0 to 1e9";

    /// To the nearest millionth; `None` where it is no such amount.
    pub fn new(credits: f64) -> Option<Self> {
        // At most 1e15: exact as binary64.
        (0.0..=1e9).contains(&credits).then(|| Credits((credits * MICRO).round() as u64))
    }

    /// As a number.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / MICRO
    }
}

/// What urgency costs, and what every agent has of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowance {
    /// What a purse holds at most, and at first.
    pub size: Credits,
    /// What it grows by in a second.
    pub refill: Credits,
    /// What costs nothing, and counts where the purse cannot pay.
    pub ordinary: Priority,
    /// For each second of claims and each class above the ordinary one.
    pub class: Credits,
    /// For each second of claims at urgency 1, in proportion below it, above the ordinary one.
    pub urgency: Credits,
    /// For each second of claims at safety margin 0, in proportion above it, below the ordinary one.
    pub safety_margin: Credits,
    /// For each second of claims at social value 1, in proportion below it, above the ordinary one.
    pub social_value: Credits,
}

impl Default for Allowance {
    /// A minute of full urgency, which takes a bit more than an hour and a half to grow back: one hundredth of the time.
    fn default() -> Self {
        let whole = Credits(1_000_000);
        Allowance {
            size: Credits(60_000_000),
            refill: Credits(10_000),
            ordinary: Priority::default(),
            class: whole,
            urgency: whole,
            safety_margin: whole,
            social_value: whole,
        }
    }
}

/// What a claim of more than ordinary priority costs, in the parts in which purses count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost(u128);

impl Cost {
    pub(super) fn is_nothing(self) -> bool {
        self.0 == 0
    }

    pub(super) fn as_credits(self) -> f64 {
        self.0 as f64 / PARTS
    }
}

impl Allowance {
    /// What a second of claims of this priority costs.
    pub fn rate(&self, asked: Priority) -> Credits {
        let Priority { class, urgency, safety_margin, social_value } = self.ordinary;
        let steps = u64::from(asked.class.number().saturating_sub(class.number()));
        let share = |above: f64, cost: Credits| (above.max(0.0) * cost.0 as f64).ceil() as u64;
        let parts = [
            steps.saturating_mul(self.class.0),
            share(asked.urgency - urgency, self.urgency),
            share(safety_margin - asked.safety_margin, self.safety_margin),
            share(asked.social_value - social_value, self.social_value),
        ];
        Credits(parts.into_iter().fold(0, u64::saturating_add))
    }

    /// What the intent costs with this priority, in credits.
    pub fn credits(&self, intent: &Intent, asked: Priority) -> f64 {
        self.cost(intent, asked).as_credits()
    }

    /// What the intent costs with this priority: by the seconds of all its claims together.
    pub(super) fn cost(&self, intent: &Intent, asked: Priority) -> Cost {
        let us: u128 = intent.claims.iter().map(|claim| u128::from(claim.duration.as_us())).sum();
        Cost(us * u128::from(self.rate(asked).0))
    }

    /// What `span` more of one of its claims costs.
    pub(super) fn cost_of(&self, span: Micros, asked: Priority) -> Cost {
        Cost(u128::from(span.as_us()) * u128::from(self.rate(asked).0))
    }

    fn full(&self) -> i128 {
        i128::from(self.size.0) * 1_000_000
    }

    /// What counts of `asked` where the purse cannot pay.
    pub fn ordinary_of(&self, asked: Priority) -> Priority {
        asked.lowered_to(self.ordinary)
    }
}

/// What each agent has left. One whose purse is full is not in it.
#[derive(Debug, Default)]
pub(super) struct Purses {
    purses: FixedMap<Agent, Purse>,
    /// When those that had grown full were last looked for.
    swept: Time,
}

/// What one agent had left at a time. Below zero where it owes.
#[derive(Clone, Copy, Debug)]
struct Purse {
    held: i128,
    at: Time,
}

impl Purse {
    fn now(self, now: Time, allowance: &Allowance) -> i128 {
        let grown = i128::from(now.since(self.at).as_us()) * i128::from(allowance.refill.0);
        self.held.saturating_add(grown).min(allowance.full())
    }
}

impl Purses {
    /// How many are not full.
    pub(super) fn len(&self) -> usize {
        self.purses.len()
    }

    fn held(&self, agent: &Agent, now: Time, allowance: &Allowance) -> i128 {
        self.purses.get(agent).map_or(allowance.full(), |purse| purse.now(now, allowance))
    }

    /// What the agent has left, in credits; below zero where it owes.
    pub(super) fn left(&self, agent: &Agent, now: Time, allowance: &Allowance) -> f64 {
        self.held(agent, now, allowance) as f64 / PARTS
    }

    /// Whether the agent can pay; never where there is no room to remember it.
    pub(super) fn can_pay(&mut self, agent: &Agent, cost: Cost, now: Time, allowance: &Allowance) -> bool {
        let has = self.held(agent, now, allowance);
        has >= signed(cost) && (self.purses.contains_key(agent) || self.has_room(now, allowance))
    }

    /// The agent pays, whether it can or not; what it cannot is owed, up to as much as a purse holds.
    pub(super) fn pay(&mut self, agent: &Agent, cost: Cost, now: Time, allowance: &Allowance) {
        let left = self.held(agent, now, allowance).saturating_sub(signed(cost));
        self.put(agent, left.max(-allowance.full()), now, allowance);
    }

    /// The agent has it back.
    pub(super) fn give_back(&mut self, agent: &Agent, cost: Cost, now: Time, allowance: &Allowance) {
        let left = self.held(agent, now, allowance).saturating_add(signed(cost));
        self.put(agent, left, now, allowance);
    }

    fn put(&mut self, agent: &Agent, held: i128, now: Time, allowance: &Allowance) {
        if held >= allowance.full() {
            self.purses.remove(agent);
        } else if let Some(purse) = self.purses.get_mut(agent) {
            *purse = Purse { held, at: now };
        } else if self.has_room(now, allowance) {
            self.purses.insert(agent.clone(), Purse { held, at: now });
        }
    }

    /// Whether another can be remembered: those that have grown full meanwhile make room, which is looked at
    /// once a second at most.
    fn has_room(&mut self, now: Time, allowance: &Allowance) -> bool {
        if self.purses.len() >= limits::PURSES && now.since(self.swept) >= Micros::from_secs(1) {
            self.swept = now;
            self.purses.retain(|_, purse| purse.now(now, allowance) < allowance.full());
        }
        self.purses.len() < limits::PURSES
    }
}

fn signed(cost: Cost) -> i128 {
    i128::try_from(cost.0).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::{Class, RawClaim, RawIntent, RawMode, RawTarget};

    fn agent(number: usize) -> Agent {
        Agent::new(&format!("a-{number}")).unwrap()
    }

    fn credits(amount: f64) -> Credits {
        Credits::new(amount).unwrap()
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO.after(Micros::from_secs(seconds))
    }

    fn urgent(urgency: f64, class: u64) -> Priority {
        Priority { urgency, class: Class::new(class).unwrap(), ..Priority::default() }
    }

    fn intent(seconds: &[u64]) -> Intent {
        let claim = |seconds: &u64| RawClaim {
            target: RawTarget::Path("p".into()),
            mode: RawMode::Exclusive,
            offset: 0,
            duration: seconds * 1_000_000,
        };
        let claims = seconds.iter().map(claim).collect();
        RawIntent { id: 1, claims, ..RawIntent::default() }.parse().unwrap()
    }

    #[test]
    fn a_rate_is_of_what_lies_above_the_ordinary_in_each_part() {
        let plain = Allowance::default();
        assert_eq!(plain.rate(Priority::default()), credits(0.0));
        assert_eq!(plain.rate(urgent(1.0, 0)), credits(1.0));
        assert_eq!(plain.rate(urgent(0.25, 3)), credits(3.25));
        let ordinary = Priority { safety_margin: 0.5, social_value: 0.1, ..urgent(0.3, 2) };
        let raised = Allowance { ordinary, class: credits(10.0), ..plain };
        let asked = Priority { safety_margin: 0.5, social_value: 0.1, ..urgent(0.3, 2) };
        assert_eq!(raised.rate(asked), credits(0.0));
        assert_eq!(raised.rate(Priority { class: Class::default(), urgency: 0.0, ..asked }), credits(0.0));
        assert_eq!(raised.rate(Priority { safety_margin: 0.25, ..asked }), credits(0.25));
        assert_eq!(raised.rate(Priority { class: Class::new(4).unwrap(), ..asked }), credits(20.0));
        assert_eq!(raised.ordinary_of(Priority::highest()), ordinary);
        let less = Priority { safety_margin: 0.9, ..Priority::default() };
        assert_eq!(raised.ordinary_of(less), less, "what asks for less than that stays as it is");
    }

    #[test]
    fn a_purse_pays_what_it_holds_and_grows_back_to_its_size_and_no_further() {
        let allowance = Allowance { size: credits(10.0), refill: credits(0.5), ..Allowance::default() };
        let mut purses = Purses::default();
        let whole = allowance.cost(&intent(&[4, 6]), urgent(1.0, 0));
        let more = allowance.cost(&intent(&[11]), urgent(1.0, 0));
        assert!(!purses.can_pay(&agent(1), more, at(0), &allowance), "more than a purse holds");
        assert!(purses.can_pay(&agent(1), whole, at(0), &allowance));
        purses.pay(&agent(1), whole, at(0), &allowance);
        assert_eq!(purses.left(&agent(1), at(0), &allowance), 0.0);
        assert_eq!(purses.left(&agent(1), at(7), &allowance), 3.5);
        let three = allowance.cost(&intent(&[3]), urgent(1.0, 0));
        assert!(purses.can_pay(&agent(1), three, at(6), &allowance));
        assert!(!purses.can_pay(&agent(1), three, Time::from_us(5_999_999), &allowance));
        assert_eq!(purses.left(&agent(1), at(1_000), &allowance), 10.0);
        assert_eq!(purses.left(&agent(2), at(0), &allowance), 10.0, "another's is its own");
        purses.give_back(&agent(1), whole, at(0), &allowance);
        assert_eq!(purses.len(), 0, "a full one is not remembered");
    }

    #[test]
    fn what_is_owed_is_paid_back_first_and_never_more_than_a_purse() {
        let allowance = Allowance { size: credits(10.0), refill: credits(1.0), ..Allowance::default() };
        let mut purses = Purses::default();
        let long = allowance.cost_of(Micros::from_secs(15), urgent(1.0, 0));
        purses.pay(&agent(1), long, at(0), &allowance);
        assert_eq!(purses.left(&agent(1), at(0), &allowance), -5.0);
        purses.pay(&agent(1), long, at(0), &allowance);
        assert_eq!(purses.left(&agent(1), at(0), &allowance), -10.0);
        assert_eq!(purses.left(&agent(1), at(12), &allowance), 2.0);
    }

    #[test]
    fn names_past_the_limit_cannot_pay_until_others_have_grown_full() {
        let allowance = Allowance { size: credits(1.0), refill: credits(1.0), ..Allowance::default() };
        let cost = allowance.cost(&intent(&[1]), urgent(1.0, 0));
        let mut purses = Purses::default();
        for number in 0..limits::PURSES {
            purses.pay(&agent(number), cost, at(5), &allowance);
        }
        let late = agent(limits::PURSES);
        assert!(!purses.can_pay(&late, cost, at(5), &allowance));
        purses.pay(&late, cost, at(5), &allowance);
        assert_eq!(purses.len(), limits::PURSES);
        assert!(purses.can_pay(&late, cost, at(6), &allowance));
        assert_eq!(purses.len(), 0);
    }

    proptest! {
        #[test]
        fn however_often_it_is_looked_at_a_purse_gives_its_size_and_its_growth_and_no_more(
            steps in proptest::collection::vec((0_u64..3_000_000, 1_u64..5), 1..200),
        ) {
            let allowance =
                Allowance { size: credits(7.0), refill: credits(0.333_333), ..Allowance::default() };
            let (mut purses, mut now, mut paid) = (Purses::default(), Time::ZERO, 0_u128);
            for (later, seconds) in steps {
                now = now.after(Micros::from_us(later));
                let cost = allowance.cost(&intent(&[seconds]), urgent(1.0, 0));
                if purses.can_pay(&agent(1), cost, now, &allowance) {
                    purses.pay(&agent(1), cost, now, &allowance);
                    paid += cost.0;
                }
                let most = 7_000_000_000_000 + u128::from(now.as_us()) * 333_333;
                prop_assert!(paid <= most, "{paid} of {most}");
            }
        }
    }
}
