//! Until when nothing can happen without input. A wait may be long and a slot short: slots in which a
//! single waiting intent would only be found waiting again need not be run one by one.

use super::Resolver;
use super::book::{Undecided, decided_from};
use super::checks;
use super::fit::Plan;
use crate::types::{IntentKey, Slot, Start, Time, Verdict};

impl Resolver {
    /// The next slot in which something may happen without any input, if there is one.
    ///
    /// Every slot before it would decide nothing and leave the state as it is.
    pub fn next_due(&self) -> Option<Slot> {
        let next = self.last_slot.map_or(Slot::new(0), Slot::next);
        if !self.changes.is_empty() {
            return Some(next);
        }
        let waits = self.first_slot_with_news_of_waits(next);
        let expires = self.book.first_expiry().map(|slot| slot.max(next));
        waits.into_iter().chain(expires).min()
    }

    /// The first slot that is decided at or after `at`.
    fn slot_decided_from(&self, at: Time) -> Slot {
        decided_from(at, self.rules.length)
    }

    /// Two that both have a place may change places as they age, and each sees the place held for the
    /// other; one that has none, however long it looks ahead, is in nobody's way.
    fn first_slot_with_news_of_waits(&self, next: Slot) -> Option<Slot> {
        let several = self.book.all_undecided().nth(1).is_some();
        let (mut first, mut places) = (None, 0);
        for (key, it) in self.book.all_undecided() {
            // With preemption, what may be withdrawn changes from slot to slot, and leases may come
            // to stand in a ring by time alone.
            let changes_by_time = self.rules.preemption.is_some()
                || several && self.book.holds_lease(&(key.agent.clone(), it.intent.task));
            let news = (!changes_by_time).then(|| self.first_news_of(key, it, next)).flatten();
            let Some(News { slot, has_place }) = news else { return Some(next) };
            places += usize::from(has_place);
            if places > 1 || slot <= next {
                return Some(next);
            }
            first = first.into_iter().chain([slot]).min();
        }
        first
    }

    /// For an intent in whose way no other waits: the least of the slots in which its wait is over, in
    /// which it could be placed, and in which its offer would be another. `None` where the next slot may
    /// be one.
    fn first_news_of(&self, key: &IntentKey, it: &Undecided, next: Slot) -> Option<News> {
        let Some(Verdict::Conflict(told)) = it.told.as_deref() else { return None };
        let (length, lead) = (self.rules.length, self.rules.min_lead);
        let now = next.opens(length);
        let next_start = now.after(length).after(lead);
        let plan = Plan::new(key.clone(), &it.intent.claims, &self.settings);
        let last = checks::last_start_within_max_hold(it, &self.settings);
        let mut first = it.waits_from.after(it.intent.wait);
        let from = match it.intent.start {
            Start::Asap => next_start,
            Start::At(start) => {
                // It ends once the slot after could not place it any more.
                first = first.min(start.after(it.intent.slack).before(length).before(lead));
                start.max(next_start)
            }
        };
        let place = self.ledger.earliest_free(&plan, from, last);
        match (told.offer, place) {
            (Some(offer), Some(place)) if offer == place => {
                // The offer stands as long as the slot after could still take it.
                first = first.min(offer.before(length).before(lead));
            }
            (None, Some(place)) => {
                // It has an offer once the horizon has come as far as its end.
                let end = place.after(plan.span());
                first = first.min(end.before(self.rules.horizon)).min(place.before(length).before(lead));
            }
            (None, None) => {}
            _ => return None, // what is known of it is of another time
        }
        match (it.intent.start, place) {
            (Start::Asap, Some(place)) => {
                let reach = checks::asap_reach(&it.intent, &self.rules);
                first = first.min(place.before(lead).before(reach));
            }
            // What kept it out of a start that it may take has gone with the slot.
            (Start::At(start), Some(place)) if place <= start.after(it.intent.slack) => return None,
            _ => {}
        }
        Some(News { slot: self.slot_decided_from(first).max(next), has_place: place.is_some() })
    }
}

/// When there may be news of an intent that waits.
struct News {
    slot: Slot,
    /// Whether it has a place at any time to come.
    has_place: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolver::{AgentOp, Input, Rules, SlotBatch, SlotOutcome, SystemOp};
    use crate::types::{Agent, Micros, Path, RawClaim, RawIntent, RawMode, RawTarget};

    /// Numbers that look random and are the same in every run.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }
    }

    fn declare(agent: &str, at: u64, raw: RawIntent) -> Input {
        let agent = Agent::new(agent).unwrap();
        Input::Agent { at: Time::from_us(at), agent, op: AgentOp::Declare(raw.parse().unwrap()) }
    }

    /// Intents that wait, and that nothing can place: the capacity is gone once they have been taken.
    fn hopeless(wait: u64, extra: &[RawClaim], ids: std::ops::Range<u64>) -> Vec<Input> {
        let capacity = |capacity| {
            let op = SystemOp::Capacity { path: Path::new("u").unwrap(), capacity };
            Input::System { at: Time::from_us(2), op }
        };
        let units = RawClaim {
            target: RawTarget::Path("u".into()),
            mode: RawMode::Units(1),
            offset: 0,
            duration: 1_000,
        };
        let claims: Vec<RawClaim> = extra.iter().cloned().chain([units]).collect();
        let raw = |id| RawIntent { id, wait, claims: claims.clone(), ..RawIntent::default() };
        let declared = ids.map(|id| declare("hopeless", 2, raw(id)));
        [capacity(1)].into_iter().chain(declared).chain([capacity(0)]).collect()
    }

    fn claim(dice: &mut Dice) -> RawClaim {
        let target = RawTarget::Path(["a", "a/b"][dice.below(2) as usize].into());
        let (offset, duration) = (dice.below(3) * 4_000, 1_000 + dice.below(9) * 3_000);
        RawClaim { target, mode: RawMode::Exclusive, offset, duration }
    }

    fn trace(dice: &mut Dice) -> (Rules, Vec<Input>) {
        let rules = Rules {
            min_lead: Micros::from_us(dice.below(2) * 3_000),
            horizon: Micros::from_us([200_000, 400_000, 86_400_000_000][dice.below(3) as usize]),
            retention: Micros::from_us(50_000),
            ..Rules::default()
        };
        let mut inputs = Vec::new();
        for id in 0..3 {
            let start = Some(10_000 + dice.below(30) * 3_000);
            let raw = RawIntent { id, start, hold: dice.below(2) == 0, ..RawIntent::default() };
            inputs.push(declare("holder", 0, RawIntent { claims: vec![claim(dice)], ..raw }));
        }
        let raw = RawIntent {
            id: 1,
            start: (dice.below(2) == 0).then(|| 10_000 + dice.below(20) * 2_500),
            slack: dice.below(4) * 7_000,
            wait: dice.below(200) * 1_000,
            claims: (0..=dice.below(2)).map(|_| claim(dice)).collect(),
            ..RawIntent::default()
        };
        inputs.push(declare("waiter", 1, raw));
        if dice.below(2) == 0 {
            inputs.extend(hopeless(dice.below(200) * 1_000, &[claim(dice)], 0..1 + dice.below(2)));
        }
        (rules, inputs)
    }

    /// Runs the trace and 60 slots, all of them or only those that are due.
    fn run(rules: &Rules, inputs: &[Input], all: bool) -> (Vec<SlotOutcome>, usize) {
        let mut resolver = Resolver::new(rules.clone());
        let first = SlotBatch::new(Slot::new(0), rules.length, inputs.to_vec()).unwrap();
        let mut outcomes = vec![resolver.resolve(&first)];
        let mut slots = 0;
        for slot in 1..60 {
            let slot = Slot::new(slot);
            if all || resolver.next_due() == Some(slot) {
                outcomes.push(resolver.resolve(&SlotBatch::empty(slot)));
                slots += 1;
            }
        }
        outcomes.push(resolver.resolve(&SlotBatch::empty(Slot::new(60))));
        (outcomes, slots)
    }

    #[test]
    fn slots_that_are_not_due_would_have_decided_nothing() {
        let mut dice = Dice(7);
        let (mut skipped, mut waited) = (0, 0);
        for _ in 0..4_000 {
            let (rules, inputs) = trace(&mut dice);
            let (every, all) = run(&rules, &inputs, true);
            let (due, run) = run(&rules, &inputs, false);
            let told = |outcomes: &[SlotOutcome]| -> Vec<_> {
                outcomes
                    .iter()
                    .flat_map(|it| it.decisions.iter().map(|line| (it.slot, line.clone())))
                    .collect()
            };
            assert_eq!(told(&every), told(&due), "{rules:?} {inputs:?}");
            assert_eq!(every.last().map(|it| it.digest), due.last().map(|it| it.digest));
            skipped += all - run;
            waited += usize::from(due.len() > 2);
        }
        assert!(skipped > 100_000 && waited > 1_000, "{skipped} skipped, {waited} with several slots");
    }

    #[test]
    fn a_wait_of_all_time_behind_a_long_grant_runs_few_slots() {
        let mut resolver = Resolver::new(Rules::default());
        let claim = |duration| RawClaim {
            target: RawTarget::Path("a".into()),
            mode: RawMode::Exclusive,
            offset: 0,
            duration,
        };
        let holder = RawIntent { id: 1, claims: vec![claim(86_000_000_000)], ..RawIntent::default() };
        let waiter = RawIntent { id: 1, wait: u64::MAX, claims: vec![claim(1_000)], ..RawIntent::default() };
        let inputs = vec![declare("holder", 0, holder), declare("waiter", 0, waiter)];
        resolver.resolve(&SlotBatch::new(Slot::new(0), Micros::from_ms(10), inputs).unwrap());
        let mut slots = 0;
        while resolver.has_undecided() && slots < 10 {
            let due = resolver.next_due().unwrap();
            resolver.resolve(&SlotBatch::empty(due));
            slots += 1;
        }
        assert!(!resolver.has_undecided(), "more than {slots} slots");
    }

    #[test]
    fn waits_of_all_time_for_what_never_comes_run_few_slots() {
        let mut resolver = Resolver::new(Rules::default());
        let inputs = hopeless(u64::MAX, &[], 0..50);
        resolver.resolve(&SlotBatch::new(Slot::new(0), Micros::from_ms(10), inputs).unwrap());
        let due = resolver.next_due().unwrap();
        assert!(resolver.has_undecided() && due.number() > u64::MAX / 20_000, "{due:?}");
    }
}
