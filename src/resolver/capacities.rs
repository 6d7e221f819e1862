//! How capacities stand: what is out of each, and from when on there is room. For those who look; nothing is
//! decided by it.

use std::ops::Bound;

use super::Resolver;
use super::settings::Pool;
use crate::types::{Micros, Path, Time, Window};

/// A path's capacity as it stands at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityView {
    /// The path.
    pub path: Path,
    /// Units that may be out at one instant, at the path and below it.
    pub capacity: u64,
    /// What the table of resources has; `None` where it has none.
    pub configured: Option<u64>,
    /// Whether it was set at run time, be it to what the table has.
    pub is_set_at_run_time: bool,
    /// Units that are out at that time.
    pub in_use: u64,
    /// The most that are granted at any instant from then on.
    pub most: u64,
    /// From when on one unit more has room by what is granted; `None` where the capacity is 0.
    pub room_from: Option<Time>,
}

impl CapacityView {
    /// By how much more is granted than there is, at the worst instant. Nothing is taken back for it: nothing more
    /// fits where that is so.
    pub fn over(&self) -> u64 {
        self.most.saturating_sub(self.capacity)
    }
}

impl Resolver {
    /// How the capacity of `path` stands at `now`; `None` where it has none of its own.
    pub fn capacity(&self, path: &Path, now: Time) -> Option<CapacityView> {
        self.settings.pool(path).map(|pool| self.view_pool(pool, now))
    }

    /// Every path with a capacity of its own from `from` on, in order. Finds the first in logarithmic time.
    pub fn paths_with_capacity<'a>(&'a self, from: Bound<&Path>) -> impl Iterator<Item = &'a Path> + use<'a> {
        self.settings.pools_from(from).map(|pool| pool.path)
    }

    /// Of up to `looked_at` capacities, those that were set at run time first: those that have more granted than they
    /// are, at whatever instant from `now` on.
    pub fn capacities_over(&self, looked_at: usize, now: Time) -> impl Iterator<Item = CapacityView> {
        let set = self.settings.pools_set_at_run_time();
        let configured = self.settings.pools_from(Bound::Unbounded).filter(|it| !it.is_set_at_run_time);
        let over = set
            .chain(configured)
            .take(looked_at)
            .filter(move |pool| self.most_from(pool.path, now) > pool.capacity);
        over.map(move |pool| self.view_pool(pool, now))
    }

    fn most_from(&self, path: &Path, now: Time) -> u64 {
        Window::new(now, Time::MAX).map_or(0, |ahead| self.ledger.most_in_pool(path, ahead))
    }

    fn view_pool(&self, pool: Pool<'_>, now: Time) -> CapacityView {
        let Pool { path, capacity, configured, is_set_at_run_time } = pool;
        let instant = Micros::from_us(1);
        let at_once = Window::new(now, now.after(instant));
        CapacityView {
            path: path.clone(),
            capacity,
            configured,
            is_set_at_run_time,
            in_use: at_once.map_or(0, |at_once| self.ledger.most_in_pool(path, at_once)),
            most: self.most_from(path, now),
            room_from: self.ledger.earliest_in_pool(path, instant, (1, capacity), now, Time::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolver::{AgentOp, Input, Resource, Rules, SlotBatch, SystemOp};
    use crate::types::{Agent, RawClaim, RawIntent, RawMode, RawTarget, Slot};

    const LENGTH: u64 = 10_000;

    fn path(text: &str) -> Path {
        Path::new(text).unwrap()
    }

    fn us(at: u64) -> Time {
        Time::from_us(at)
    }

    fn declare(at: u64, id: u64, on: &str, units: u64, duration: u64) -> Input {
        let target = RawTarget::Path(on.into());
        let claim = RawClaim { target, mode: RawMode::Units(units), offset: 0, duration };
        let intent = RawIntent { id, claims: vec![claim], ..RawIntent::default() };
        let op = AgentOp::Declare(intent.parse().unwrap());
        Input::Agent { at: us(at), agent: Agent::new("a").unwrap(), op }
    }

    fn set(at: u64, on: &str, capacity: u64) -> Input {
        Input::System { at: us(at), op: SystemOp::Capacity { path: path(on), capacity } }
    }

    fn resolver(capacities: &[(&str, u64)]) -> Resolver {
        let resource =
            |(on, units): &(&str, u64)| Resource { capacity: Some(*units), ..Resource::new(path(on)) };
        Resolver::new(Rules { resources: capacities.iter().map(resource).collect(), ..Rules::default() })
    }

    fn decide(resolver: &mut Resolver, slot: u64, inputs: Vec<Input>) {
        let batch = SlotBatch::new(Slot::new(slot), Micros::from_us(LENGTH), inputs).unwrap();
        resolver.resolve(&batch);
    }

    #[test]
    fn lowered_below_what_is_granted_it_says_by_how_much_and_when_there_is_room_and_takes_nothing_back() {
        let mut resolver = resolver_with_grants();
        let before = resolver.capacity(&path("llm/acct1"), us(20_000)).unwrap();
        assert_eq!((before.over(), before.room_from), (0, Some(us(20_000))));
        decide(&mut resolver, 1, vec![set(10_001, "llm/acct1", 4)]);
        let view = resolver.capacity(&path("llm/acct1"), us(20_000)).unwrap();
        assert_eq!((view.capacity, view.configured, view.is_set_at_run_time), (4, Some(10), true));
        assert_eq!((view.in_use, view.most, view.over()), (7, 7, 3));
        // Four stay until 110000, which is all there is; the three end at 60000 and make no room.
        assert_eq!(view.room_from, Some(us(110_000)));
        assert_eq!(resolver.grants().count(), 2);
        let over = |looked_at, at| resolver.capacities_over(looked_at, us(at)).count();
        assert_eq!((over(10, 20_000), over(0, 20_000)), (1, 0));
        assert_eq!(over(10, 60_000), 0, "no more than there is");
    }

    /// 4 units on `llm/acct1` until 110000 and 3 below it until 60000.
    fn resolver_with_grants() -> Resolver {
        let mut resolver = resolver(&[("llm/acct1", 10)]);
        let inputs = vec![declare(1, 1, "llm/acct1", 4, 100_000), declare(2, 2, "llm/acct1/big", 3, 50_000)];
        decide(&mut resolver, 0, inputs);
        resolver
    }

    #[test]
    fn a_capacity_of_nothing_has_no_room_ever_and_one_that_is_set_anew_keeps_what_was_configured() {
        let mut resolver = resolver_with_grants();
        decide(&mut resolver, 1, vec![set(10_001, "llm/acct1", 0), set(10_002, "yard", 2)]);
        decide(&mut resolver, 2, vec![set(20_001, "llm/acct1", 0), set(20_002, "yard", 3)]);
        let closed = resolver.capacity(&path("llm/acct1"), us(30_000)).unwrap();
        assert_eq!((closed.capacity, closed.configured, closed.room_from), (0, Some(10), None));
        let yard = resolver.capacity(&path("yard"), us(30_000)).unwrap();
        assert_eq!((yard.capacity, yard.configured, yard.is_set_at_run_time), (3, None, true));
        assert_eq!(resolver.capacity(&path("llm"), us(30_000)), None, "it has none of its own");
    }

    #[test]
    fn all_are_listed_by_path_from_any_of_them_on() {
        let mut resolver = resolver(&[("b", 1), ("a/x", 2)]);
        decide(&mut resolver, 0, vec![set(1, "a", 3)]);
        let listed = |from: Bound<&Path>| -> Vec<String> {
            resolver.paths_with_capacity(from).map(|it| it.as_str().to_owned()).collect()
        };
        assert_eq!(listed(Bound::Unbounded), ["a", "a/x", "b"]);
        assert_eq!(listed(Bound::Excluded(&path("a"))), ["a/x", "b"]);
        assert_eq!(listed(Bound::Included(&path("a/x"))), ["a/x", "b"]);
    }

    #[test]
    fn a_new_table_takes_the_place_of_what_was_set_and_none_leaves_it() {
        let mut resolver = resolver_with_grants();
        decide(&mut resolver, 1, vec![set(10_001, "llm/acct1", 4)]);
        let change = |resources| {
            let rules = Rules::default();
            let change = crate::resolver::RulesChange { rules, resources, document: "".into() };
            Input::System { at: us(20_001), op: SystemOp::Config(Box::new(change)) }
        };
        decide(&mut resolver, 2, vec![change(None)]);
        decide(&mut resolver, 3, vec![]);
        assert_eq!(resolver.capacity(&path("llm/acct1"), us(40_000)).unwrap().capacity, 4);
        let table = vec![Resource { capacity: Some(6), ..Resource::new(path("llm/acct1")) }];
        let Input::System { op, .. } = change(Some(table)) else { unreachable!() };
        decide(&mut resolver, 4, vec![Input::System { at: us(40_001), op }]);
        decide(&mut resolver, 5, vec![]);
        let view = resolver.capacity(&path("llm/acct1"), us(60_000)).unwrap();
        assert_eq!((view.capacity, view.configured, view.is_set_at_run_time), (6, Some(6), false));
        assert_eq!((view.in_use, view.over()), (4, 0), "the three have ended");
    }
}
