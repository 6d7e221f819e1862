//! What a full slot does with those it has no room for: on virtual time, from the message to the answer.

use super::tests::{LENGTH, START, answers, enter};
use super::*;
use crate::types::{IntentId, RawClaim, RawIntent, RawMode, RawTarget};
use crate::wire::{Declaration, Declare, Release, Renew, Verdict};

/// One whose slots take in `inputs` messages, `of_a_name` of them of one name.
fn with_room(inputs: usize, of_a_name: usize) -> Coordinator {
    let mut setup = Setup::new(Rules { length: LENGTH, ..Rules::default() });
    setup.room = Room { inputs, ..Room::default() };
    setup.bounds.inputs_of_a_name = of_a_name;
    Coordinator::new(setup, START)
}

/// Of `class`, a path of its own for a second.
fn intent(id: u64, class: u64) -> RawIntent {
    let target = RawTarget::Path(format!("dock/{id}"));
    let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: 1_000_000 };
    RawIntent { id, class, claims: vec![claim], ..RawIntent::default() }
}

fn lease(id: u64) -> RawIntent {
    RawIntent { hold: true, ..intent(id, 0) }
}

/// Declares them in one message, under requests of the intents' numbers.
fn declare(batch: impl IntoIterator<Item = RawIntent>) -> ToCoordinator {
    let one = |intent: RawIntent| Declaration { request: intent.id, intent, ..Declaration::default() };
    Declare { batch: batch.into_iter().map(one).collect() }.into()
}

fn revise(request: u64, intent: RawIntent) -> ToCoordinator {
    let declaration = Declaration { request, revision: true, intent, ..Declaration::default() };
    Declare { batch: vec![declaration] }.into()
}

fn renew(request: u64, id: u64, until: Time) -> ToCoordinator {
    Renew { request, id: IntentId::new(id), until, ..Renew::default() }.into()
}

fn release(request: u64, id: u64) -> ToCoordinator {
    Release { request, id: IntentId::new(id), ..Release::default() }.into()
}

/// Whom, the request, and what it came to: the word, and after how many µs to come back.
type Told = (Place, u64, &'static str, Option<u64>);

fn told(effects: &[Effect]) -> Vec<Told> {
    let of = |(place, answer): (Place, crate::wire::Answer)| {
        let (word, back) = match &answer.verdict {
            Verdict::Granted { .. } => ("granted", None),
            Verdict::Conflict(_) => ("conflict", None),
            Verdict::Renewed { .. } => ("renewed", None),
            Verdict::Released { .. } => ("released", None),
            Verdict::ReleasedUnknown => ("nothing", None),
            Verdict::Rejected { reason, retry_after_us, .. } => (reason.as_str(), *retry_after_us),
            _ => ("another", None),
        };
        (place, answer.request, word, back)
    };
    answers(effects).into_iter().map(of).collect()
}

/// What is told at the end of the open slot, those that keep their places.
fn decided(coordinator: &mut Coordinator) -> Vec<Told> {
    let end = coordinator.next_due().unwrap();
    let decided = coordinator.step(end).unwrap();
    assert!(decided.closed.batch.inputs().len() <= 3, "what was shed is no input");
    told(&decided.effects)
}

#[test]
fn the_lowest_class_gives_way_and_is_told_at_once_when_to_come_back() {
    let mut coordinator = with_room(2, 100);
    let (low, high) = (enter(&mut coordinator, "low", 1), enter(&mut coordinator, "high", 2));
    let now = START.after(Micros::from_ms(4));
    assert_eq!(coordinator.receive(low, declare([intent(1, 0), intent(2, 1)]), now), []);
    let effects = coordinator.receive(high, declare([intent(3, 3)]), now);
    assert_eq!(told(&effects), [(low, 1, "overloaded", Some(6_000))], "as the next slot opens");
    let effects = coordinator.receive(low, declare([intent(4, 1)]), now);
    assert_eq!(told(&effects), [(low, 4, "overloaded", Some(6_000))], "ahead of a lower class");
    let effects = coordinator.receive(low, declare([intent(5, 1)]), now);
    assert_eq!(told(&effects), [(low, 5, "overloaded", Some(11_000))], "half a slot behind it");
    assert_eq!(decided(&mut coordinator), [(high, 3, "granted", None), (low, 2, "granted", None)]);
    let again = coordinator.receive(low, declare([intent(1, 0)]), coordinator.now());
    assert_eq!((again, decided(&mut coordinator)), (vec![], vec![(low, 1, "granted", None)]));
}

#[test]
fn a_lease_is_renewed_and_given_back_whatever_others_ask_for() {
    let mut coordinator = with_room(2, 100);
    let (holder, crowd) = (enter(&mut coordinator, "holder", 1), enter(&mut coordinator, "crowd", 2));
    coordinator.receive(holder, declare([lease(1), lease(2)]), START);
    decided(&mut coordinator);
    let now = coordinator.now();
    coordinator.receive(crowd, declare([intent(3, 7), intent(4, 7)]), now);
    let until = now.after(Micros::from_secs(2));
    assert_eq!(told(&coordinator.receive(holder, renew(7, 1, until), now))[0].1, 4);
    assert_eq!(told(&coordinator.receive(holder, release(8, 2), now))[0].1, 3);
    let refused = told(&coordinator.receive(crowd, declare([intent(5, 7)]), now));
    assert_eq!((refused[0].1, refused[0].2), (5, "overloaded"));
    assert_eq!(decided(&mut coordinator), [(holder, 7, "renewed", None), (holder, 8, "released", None)]);
}

#[test]
fn renewing_and_releasing_what_one_does_not_have_pushes_nobody_out() {
    let mut coordinator = with_room(1, 100);
    let (one, other) = (enter(&mut coordinator, "one", 1), enter(&mut coordinator, "other", 2));
    coordinator.receive(one, declare([intent(1, 0)]), START);
    let until = START.after(Micros::from_secs(2));
    for message in [release(7, 1), renew(7, 1, until)] {
        let refused = told(&coordinator.receive(other, message, START));
        assert_eq!((refused[0].0, refused[0].1, refused[0].2), (other, 7, "overloaded"));
    }
    assert_eq!(decided(&mut coordinator), [(one, 1, "granted", None)]);
    assert_eq!(coordinator.receive(other, release(8, 1), coordinator.now()), []);
    assert_eq!(decided(&mut coordinator), [(other, 8, "nothing", None)], "where there is room");
}

/// A grant of two docks for a second, from two seconds after the start on.
fn planned() -> RawIntent {
    let start = Some(START.after(Micros::from_secs(2)).as_us());
    let claims = [1, 2].map(|id| intent(id, 0).claims.remove(0));
    RawIntent { start, claims: claims.into(), ..intent(1, 0) }
}

/// Whether that revision of [`planned`] gets a place among declarations of the highest class.
fn gets_a_place(change: impl FnOnce(&mut RawIntent)) -> bool {
    let mut coordinator = with_room(1, 100);
    let (holder, crowd) = (enter(&mut coordinator, "holder", 1), enter(&mut coordinator, "crowd", 2));
    coordinator.receive(holder, declare([planned()]), START);
    decided(&mut coordinator);
    let now = coordinator.now();
    coordinator.receive(crowd, declare([intent(3, 7)]), now);
    let mut revised = planned();
    change(&mut revised);
    let told = told(&coordinator.receive(holder, revise(9, revised), now));
    let (place, request, word, _) = told[0];
    assert_eq!((told.len(), word), (1, "overloaded"));
    let gave_way = (place, request) == (crowd, 3);
    assert!(gave_way || (place, request) == (holder, 9));
    gave_way
}

#[test]
fn a_revision_that_only_gives_back_keeps_its_place_and_one_that_asks_for_more_does_not() {
    assert!(gets_a_place(|revised| drop(revised.claims.remove(0))));
    assert!(gets_a_place(|revised| revised.claims[1].duration = 1));
    assert!(gets_a_place(|revised| revised.claims[0].mode = RawMode::Shared));
    assert!(gets_a_place(|revised| revised.claims[1].target = RawTarget::Path("dock/2/left".into())));
    assert!(!gets_a_place(|revised| revised.claims[1].duration += 1));
    assert!(!gets_a_place(|revised| revised.claims[1].target = RawTarget::Path("dock/3".into())));
    assert!(!gets_a_place(|revised| revised.claims.push(intent(3, 0).claims.remove(0))));
    assert!(!gets_a_place(|revised| revised.start = revised.start.map(|start| start + 1)));
    assert!(!gets_a_place(|revised| revised.start = None));
    assert!(!gets_a_place(|revised| revised.slack = 1));
    assert!(!gets_a_place(|revised| revised.id = 4), "it is of no grant");
}

#[test]
fn a_name_has_its_share_of_the_slot_and_keeps_up_what_it_has_beside_it() {
    let mut coordinator = with_room(100, 2);
    let (greedy, other) = (enter(&mut coordinator, "greedy", 1), enter(&mut coordinator, "other", 2));
    coordinator.receive(greedy, declare([lease(1)]), START);
    decided(&mut coordinator);
    let now = coordinator.now();
    let told_now = told(&coordinator.receive(greedy, declare((2..=7).map(|id| intent(id, 7))), now));
    let (ms10, ms20) = (Some(10_000), Some(20_000));
    let expected = [(4, ms10), (5, ms10), (6, ms20), (7, ms20)];
    assert_eq!(told_now, expected.map(|(request, back)| (greedy, request, "overloaded", back)));
    let until = now.after(Micros::from_secs(3));
    assert_eq!(coordinator.receive(greedy, renew(8, 1, until), now), []);
    assert_eq!(coordinator.receive(other, declare([intent(9, 0)]), now), []);
    let end = coordinator.next_due().unwrap();
    let words = told(&coordinator.advance(end)).into_iter().map(|(_, request, word, _)| (request, word));
    let expected = [(8, "renewed"), (2, "granted"), (3, "granted"), (9, "granted")];
    assert_eq!(words.collect::<Vec<_>>(), expected);
}

#[test]
fn what_gave_way_counts_no_more_and_may_be_asked_again_under_its_number() {
    let mut setup = Setup::new(Rules { length: LENGTH, ..Rules::default() });
    setup.room.inputs = 1;
    setup.bounds.undecided_of_a_name = 1;
    let mut coordinator = Coordinator::new(setup, START);
    let (low, high) = (enter(&mut coordinator, "low", 1), enter(&mut coordinator, "high", 2));
    coordinator.receive(low, declare([intent(1, 0)]), START);
    assert_eq!(told(&coordinator.receive(high, declare([intent(2, 1)]), START))[0].1, 1);
    assert_eq!(decided(&mut coordinator), [(high, 2, "granted", None)]);
    assert_eq!(coordinator.receive(low, declare([intent(1, 0)]), coordinator.now()), []);
    assert_eq!(decided(&mut coordinator), [(low, 1, "granted", None)]);
}

#[test]
fn what_is_invalid_is_told_so_where_there_is_no_room_for_it() {
    let mut coordinator = with_room(1, 100);
    let (low, high) = (enter(&mut coordinator, "low", 1), enter(&mut coordinator, "high", 2));
    coordinator.receive(low, declare([RawIntent { urgency: 2.0, ..intent(1, 7) }]), START);
    let effects = coordinator.receive(high, declare([intent(2, 1)]), START);
    assert_eq!(told(&effects), [(low, 1, "invalid", None)]);
}

#[test]
fn who_has_gone_when_it_gives_way_is_told_nothing() {
    let mut coordinator = with_room(1, 100);
    let (low, high) = (enter(&mut coordinator, "low", 1), enter(&mut coordinator, "high", 2));
    coordinator.receive(low, declare([intent(1, 0)]), START);
    coordinator.connection_lost(low.connection, START);
    assert_eq!(coordinator.receive(high, declare([intent(2, 1)]), START), []);
    assert_eq!(decided(&mut coordinator), [(high, 2, "granted", None)]);
}
