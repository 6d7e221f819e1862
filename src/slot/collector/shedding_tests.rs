//! Who keeps its place where a slot is full.

use proptest::prelude::*;

use super::*;
use crate::limits;
use crate::resolver::AgentOp;
use crate::types::{Class, IntentId};

const LENGTH: Micros = Micros::from_us(100);

fn us(at: u64) -> Time {
    Time::from_us(at)
}

fn class(number: u64) -> Rank {
    Rank::Class(Class::new(number).unwrap())
}

fn asked(rank: Rank, id: u64) -> Asked<u64> {
    Asked { rank, op: AgentOp::Release { id: IntentId::new(id) }, origin: id }
}

fn collector(inputs: usize, waiting: usize) -> Collector<u64> {
    Collector::new(LENGTH, Slot::new(0), Time::ZERO, Room { inputs, operator_inputs: 2, waiting })
}

/// Asks, and tells which ids have no place.
fn push(collector: &mut Collector<u64>, at: u64, rank: Rank, id: u64) -> Vec<u64> {
    let agent = Agent::new(&format!("agent-{id}")).unwrap();
    let turned = collector.agent_inputs(us(at), &agent, vec![asked(rank, id)]);
    for turned in &turned {
        assert_eq!(turned.agent.as_str(), format!("agent-{}", turned.origin), "each is told as itself");
        assert_eq!(turned.op.id(), IntentId::new(turned.origin));
    }
    turned.into_iter().map(|turned| turned.origin).collect()
}

fn closed(collector: &mut Collector<u64>, now: u64) -> Vec<u64> {
    collector.close(us(now), None).map(|closed| closed.origins).unwrap_or_default()
}

#[test]
fn a_higher_class_takes_the_place_of_the_lowest_and_an_equal_one_does_not() {
    let mut collector = collector(3, 100);
    for (id, number) in [(1, 2), (2, 1), (3, 2)] {
        assert!(push(&mut collector, id, class(number), id).is_empty());
    }
    assert_eq!(push(&mut collector, 4, class(1), 4), [4], "not below it");
    assert_eq!(push(&mut collector, 5, class(2), 5), [2]);
    assert_eq!(push(&mut collector, 6, class(2), 6), [6], "nothing lower is left");
    assert_eq!(closed(&mut collector, 100), [1, 3, 5], "in the order of their arrival");
}

#[test]
fn of_the_lowest_class_the_latest_gives_way() {
    let mut collector = collector(3, 100);
    for id in 1..=3 {
        push(&mut collector, id, class(0), id);
    }
    assert_eq!(push(&mut collector, 4, class(7), 4), [3]);
    assert_eq!(push(&mut collector, 5, class(7), 5), [2]);
    assert_eq!(push(&mut collector, 6, class(0), 6), [6]);
    assert_eq!(closed(&mut collector, 100), [1, 4, 5]);
}

#[test]
fn what_keeps_up_is_never_given_up_and_gets_the_place_of_any_declaration() {
    let mut collector = collector(2, 100);
    push(&mut collector, 1, Rank::Upkeep, 1);
    push(&mut collector, 2, class(7), 2);
    assert_eq!(push(&mut collector, 3, class(7), 3), [3]);
    assert_eq!(push(&mut collector, 4, Rank::Upkeep, 4), [2]);
    assert_eq!(push(&mut collector, 5, class(7), 5), [5]);
    assert_eq!(push(&mut collector, 6, Rank::Upkeep, 6), [6], "a slot is bounded all the same");
    assert_eq!(closed(&mut collector, 100), [1, 4]);
}

#[test]
fn a_full_slot_takes_no_place_of_another_and_a_full_queue_does() {
    let mut collector = collector(2, 3);
    push(&mut collector, 1, class(0), 1);
    push(&mut collector, 2, class(0), 2);
    push(&mut collector, 101, class(5), 3);
    // The queue is full, the slot is not.
    assert_eq!(push(&mut collector, 102, class(5), 4), [2]);
    // Both are: only what is in the slot could make room in it.
    assert_eq!(push(&mut collector, 103, class(5), 5), [5]);
    assert_eq!(push(&mut collector, 104, class(6), 6), [4]);
    assert_eq!(closed(&mut collector, 300), [1]);
    assert_eq!(closed(&mut collector, 300), [3, 6]);
}

#[test]
fn a_slot_all_of_whose_inputs_gave_way_is_not_run_for_them() {
    let mut collector = collector(2, 1);
    push(&mut collector, 1, class(0), 1);
    assert_eq!(push(&mut collector, 101, class(1), 2), [1]);
    assert_eq!(collector.next_close(None), Some(us(200)));
    assert_eq!((closed(&mut collector, 200), collector.waiting()), (vec![2], 0));
}

#[test]
fn the_operator_takes_no_place_of_an_agents_and_gives_none_up() {
    let mut collector = collector(1, 2);
    let op = || SystemOp::Restart { next_token: 1 };
    collector.system_input(us(1), op(), 8).unwrap();
    push(&mut collector, 2, class(0), 1);
    assert_eq!(push(&mut collector, 3, Rank::Upkeep, 2), [1]);
    collector.system_input(us(4), op(), 9).unwrap();
    assert_eq!(closed(&mut collector, 100), [8, 2, 9]);
}

#[test]
fn a_batch_is_taken_in_as_far_as_there_is_room_and_the_rest_is_handed_back() {
    let mut collector = collector(3, 100);
    let agent = Agent::new("a").unwrap();
    let batch = (1..=5).map(|id| asked(class(id % 2), id)).collect();
    let turned = collector.agent_inputs(us(7), &agent, batch);
    assert_eq!(turned.iter().map(|turned| turned.origin).collect::<Vec<_>>(), [4, 2]);
    let closed = collector.close(us(100), None).unwrap();
    assert_eq!(closed.origins, [1, 3, 5]);
    assert!(closed.batch.inputs().iter().all(|input| input.at() == us(7)));
}

#[test]
fn those_who_are_turned_away_come_back_one_behind_the_other() {
    let mut collector = collector(2, 100);
    let mut back = |at, rank, id| {
        let agent = Agent::new("a").unwrap();
        let turned = collector.agent_inputs(us(at), &agent, vec![asked(rank, id)]);
        turned.into_iter().map(|turned| (turned.origin, turned.back.as_us())).collect::<Vec<_>>()
    };
    assert_eq!((back(1, class(1), 1), back(2, class(1), 2)), (vec![], vec![]));
    assert_eq!(back(3, class(1), 3), [(3, 100)]);
    assert_eq!(back(4, class(1), 4), [(4, 150)]);
    assert_eq!(back(5, class(1), 5), [(5, 200)]);
    assert_eq!(back(6, class(2), 6), [(2, 250)], "what gave way stands behind them");
    assert_eq!(back(7, class(0), 7), [(7, 300)]);
    assert_eq!(back(8, class(2), 8), [(1, 300)], "ahead of a lower class");
}

/// What the twin does next.
#[derive(Clone, Debug)]
enum Step {
    Ask { rank: u64 },
    Operator,
    Pass { us: u64 },
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0_u64..9).prop_map(|rank| Step::Ask { rank }),
        1 => Just(Step::Operator),
        2 => (0_u64..150).prop_map(|us| Step::Pass { us }),
        2 => Just(Step::Close),
    ]
}

/// The slow twin: one list, looked through as a whole each time.
#[derive(Default)]
struct Twin {
    /// Slot, rank (9 the operator's), id; in the order of arrival.
    waiting: Vec<(u64, u64, u64)>,
    open: u64,
}

impl Twin {
    /// Which id has no place.
    fn ask(&mut self, slot: u64, rank: u64, id: u64, room: Room) -> Option<u64> {
        let in_slot = self.waiting.iter().filter(|(of, rank, _)| *of == slot && *rank < 9).count();
        let is_full = in_slot >= room.inputs;
        if is_full || self.waiting.len() >= room.waiting {
            let may_go =
                |(of, other, _): &&(u64, u64, u64)| (!is_full || *of == slot) && *other < rank.min(8);
            let lowest = self.waiting.iter().filter(may_go).map(|(_, other, _)| *other).min();
            let Some(lowest) = lowest else { return Some(id) };
            let is_it = |it: &(u64, u64, u64)| may_go(&it) && it.1 == lowest;
            let latest = self.waiting.iter().rposition(is_it).unwrap();
            let (_, _, gone) = self.waiting.remove(latest);
            self.waiting.push((slot, rank, id));
            return Some(gone);
        }
        self.waiting.push((slot, rank, id));
        None
    }

    fn operator(&mut self, slot: u64, id: u64, room: Room) -> bool {
        let in_slot = self.waiting.iter().filter(|(of, rank, _)| *of == slot && *rank == 9).count();
        let fits = in_slot < room.operator_inputs && self.waiting.len() < room.waiting + room.operator_inputs;
        if fits {
            self.waiting.push((slot, 9, id));
        }
        fits
    }

    fn close(&mut self, now: u64) -> Option<(u64, Vec<u64>)> {
        let slot = self.waiting.iter().map(|(slot, _, _)| *slot).min()?;
        if (slot + 1) * LENGTH.as_us() > now {
            return None;
        }
        self.open = slot + 1;
        let ids = self.waiting.iter().filter(|it| it.0 == slot).map(|it| it.2).collect();
        self.waiting.retain(|it| it.0 != slot);
        Some((slot, ids))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn it_sheds_as_its_slow_twin_does_and_its_memory_is_bounded(
        (inputs, waiting) in (1_usize..6, 1_usize..15),
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let room = Room { inputs, operator_inputs: 2, waiting };
        let (mut fast, mut slow) = (collector(inputs, waiting), Twin::default());
        let (mut now, mut given) = (0, 0);
        for (id, step) in (1..).zip(&steps) {
            let slot = (now / LENGTH.as_us()).max(slow.open);
            match step {
                Step::Ask { rank } => {
                    let rank_of = if *rank == 8 { Rank::Upkeep } else { class(*rank) };
                    let turned = push(&mut fast, now, rank_of, id);
                    given += 1;
                    prop_assert_eq!(turned, Vec::from_iter(slow.ask(slot, *rank, id, room)));
                }
                Step::Operator => {
                    let op = SystemOp::Restart { next_token: 1 };
                    prop_assert_eq!(fast.system_input(us(now), op, id).is_ok(), slow.operator(slot, id, room));
                }
                Step::Pass { us } => now += us,
                Step::Close => {
                    let closed = fast.close(us(now), None);
                    let closed = closed.map(|closed| (closed.batch.slot().number(), closed.origins));
                    prop_assert_eq!(closed, slow.close(now));
                }
            }
            prop_assert_eq!(fast.waiting(), slow.waiting.len());
            let most = (waiting + 2) * (usize::from(limits::CLASS_MAX) + 2);
            prop_assert!(fast.waiting.places() <= most, "{} of {given}", fast.waiting.places());
        }
    }
}
