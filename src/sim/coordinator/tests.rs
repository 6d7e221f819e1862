use super::*;
use crate::types::{IntentId, RawClaim, RawIntent, RawMode, RawTarget};
use crate::wire::{Answer, Bye, ClockPing, Declaration, Declare, Release, Role, Verdict, Watch};

pub(super) const LENGTH: Micros = Micros::from_ms(10);
pub(super) const START: Time = Time::from_us(5_000_000);

pub(super) fn hello(name: Option<&str>, incarnation: u128) -> ToCoordinator {
    let name = name.map(str::to_owned);
    let hello = Hello {
        lowest_version: 1,
        highest_version: 1,
        name,
        label: "main".into(),
        incarnation,
        role: Role::Agent,
        refuse_if_live: false,
        seen: None,
        software: "test".into(),
        extensions: Default::default(),
    };
    hello.into()
}

fn intent(id: u64, duration_ms: u64) -> RawIntent {
    let target = RawTarget::Path("dock/1".into());
    let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: duration_ms * 1_000 };
    RawIntent { id, claims: vec![claim], ..RawIntent::default() }
}

fn declare(request: u64, id: u64) -> ToCoordinator {
    let intent = intent(id, 1_000);
    let extensions = Default::default();
    let declaration = Declaration { request, revision: false, intent, note: "a note".into(), extensions };
    Declare { batch: vec![declaration] }.into()
}

pub(super) fn first(connection: ConnectionId) -> Place {
    Place { connection, lane: LaneId::FIRST }
}

fn new() -> Coordinator {
    Coordinator::new(Setup::new(Rules { length: LENGTH, ..Rules::default() }), START)
}

/// A connection of an agent that has been welcomed.
pub(super) fn enter(coordinator: &mut Coordinator, name: &str, incarnation: u128) -> Place {
    let place = first(coordinator.connected(coordinator.now()));
    let effects = coordinator.receive(place, hello(Some(name), incarnation), coordinator.now());
    assert!(matches!(&effects[0], Effect::Send { to, message: ToAgent::Welcome(_) } if *to == place));
    place
}

pub(super) fn answers(effects: &[Effect]) -> Vec<(Place, Answer)> {
    let answer = |effect: &Effect| match effect {
        Effect::Send { to, message: ToAgent::Answer(answer) } => Some((*to, answer.clone())),
        _ => None,
    };
    effects.iter().filter_map(answer).collect()
}

fn codes(effects: &[Effect]) -> Vec<CloseCode> {
    let code = |effect: &Effect| match effect {
        Effect::Close { code, .. } => Some(*code),
        Effect::Send { .. } => None,
    };
    effects.iter().filter_map(code).collect()
}

#[test]
fn a_declaration_is_answered_at_the_end_of_its_slot_and_not_before() {
    let mut coordinator = new();
    let place = enter(&mut coordinator, "a", 1);
    assert_eq!(coordinator.next_due(), None);
    assert_eq!(coordinator.receive(place, declare(7, 1), START.after(Micros::from_us(3))), []);
    let due = coordinator.next_due().unwrap();
    assert_eq!(due, START.after(LENGTH));
    assert_eq!(coordinator.advance(due.before(Micros::from_us(1))), []);
    let told = answers(&coordinator.advance(due));
    let [(to, Answer { request: 7, at, verdict: Verdict::Granted { start, .. }, .. })] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((*to, *at, *start), (place, due, due));
}

#[test]
fn slots_that_were_slept_through_are_decided_one_by_one() {
    let mut coordinator = new();
    let place = enter(&mut coordinator, "a", 1);
    coordinator.receive(place, declare(1, 1), START);
    coordinator.receive(place, declare(2, 2), START.after(LENGTH));
    let late = START.after(Micros::from_secs(1));
    let slots: Vec<Time> = std::iter::from_fn(|| coordinator.step(late)).map(|it| it.outcome.at).collect();
    assert_eq!(slots, [START.after(LENGTH), START.after(LENGTH).after(LENGTH)]);
}

#[test]
fn pings_and_listings_are_answered_at_once() {
    let mut coordinator = new();
    let place = enter(&mut coordinator, "a", 1);
    coordinator.receive(place, declare(1, 1), START);
    let now = START.after(LENGTH);
    coordinator.advance(now);
    let pong = coordinator.receive(place, ClockPing { seq: 4, client_us: 9 }.into(), now);
    let expected = ClockPong { seq: 4, client_us: 9, coordinator: now };
    assert_eq!(pong, [Effect::Send { to: place, message: ToAgent::ClockPong(expected) }]);
    let list = List { request: 5, granted: true, ..List::default() };
    let [Effect::Send { message: ToAgent::ListReply(page), .. }] =
        &coordinator.receive(place, list.into(), now)[..]
    else {
        panic!("no page")
    };
    let entries: Vec<(u64, &str)> = page.entries.iter().map(|it| (it.id.number(), &*it.note)).collect();
    assert_eq!((page.request, page.at, entries), (5, now, vec![(1, "a note")]));
    let wrong = List { request: 6, under: Some("/".into()), ..List::default() };
    let refused = answers(&coordinator.receive(place, wrong.into(), now));
    assert!(matches!(&refused[0].1.verdict, Verdict::Rejected { field, .. } if field == "under"));
}

#[test]
fn whoever_breaks_the_protocol_loses_the_connection_and_nothing_else() {
    let mut coordinator = new();
    let place = enter(&mut coordinator, "a", 1);
    let stranger = first(coordinator.connected(START));
    assert_eq!(codes(&coordinator.receive(stranger, declare(1, 1), START)), [CloseCode::ProtocolOrder]);
    assert_eq!(coordinator.receive(stranger, hello(Some("b"), 2), START), [], "it is closed");
    let mute = first(coordinator.connected(START));
    assert_eq!(codes(&coordinator.lane_ended(mute, START)), [CloseCode::NoHello]);
    assert_eq!(codes(&coordinator.receive(place, hello(Some("a"), 1), START)), [CloseCode::SecondHello]);
    assert_eq!(coordinator.receive(place, declare(1, 1), START), []);
    assert_eq!(coordinator.next_due(), None, "what came over a closed connection was not taken in");
}

#[test]
fn a_connection_without_a_hello_is_closed_in_time() {
    let mut coordinator = new();
    enter(&mut coordinator, "a", 1);
    let mute = coordinator.connected(START);
    let due = START.after(limits::HELLO_TIMEOUT);
    assert_eq!(coordinator.next_due(), Some(due));
    assert_eq!(coordinator.advance(due.before(Micros::from_us(1))), []);
    let closed = coordinator.advance(due);
    assert!(
        matches!(&closed[..], [Effect::Close { connection, code: CloseCode::NoHello, .. }] if *connection == mute)
    );
    assert_eq!(coordinator.next_due(), None);
}

#[test]
fn a_newer_incarnation_takes_over_and_what_the_old_one_sends_counts_no_more() {
    let mut coordinator = new();
    let old = enter(&mut coordinator, "a", 1);
    let new = first(coordinator.connected(START));
    let effects = coordinator.receive(new, hello(Some("a"), 2), START);
    assert!(matches!(&effects[0], Effect::Send { to, message: ToAgent::Welcome(_) } if *to == new));
    assert!(matches!(&effects[1], Effect::Send { to, message: ToAgent::Replaced(_) } if *to == old));
    assert_eq!(codes(&effects), [CloseCode::Replaced]);
    assert_eq!(coordinator.receive(old, declare(1, 1), START), []);
    assert_eq!(coordinator.next_due(), None);
}

#[test]
fn news_of_an_intent_whose_lane_has_ended_comes_on_the_first_lane() {
    let mut coordinator = new();
    let place = enter(&mut coordinator, "a", 1);
    let other = Place { lane: LaneId(3), ..place };
    coordinator.receive(other, declare(1, 1), START);
    let watch = Watch { request: 8, ..Watch::default() };
    coordinator.receive(other, watch.into(), START);
    assert_eq!(coordinator.lane_ended(other, START), []);
    let effects = coordinator.advance(START.after(LENGTH));
    let [Effect::Send { to, message: ToAgent::Answer(_) }] = &effects[..] else {
        panic!("{effects:?}: the watch ended with its lane")
    };
    assert_eq!(*to, place);
}

#[test]
fn who_brings_no_name_is_given_one_that_is_free() {
    let mut coordinator = new();
    enter(&mut coordinator, "agent-00000002", 1);
    let place = first(coordinator.connected(START));
    let effects = coordinator.receive(place, hello(None, 2), START);
    let [Effect::Send { message: ToAgent::Welcome(welcome), .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(welcome.name, "agent-00000003");
}

#[test]
fn draining_decides_what_has_arrived_and_takes_in_nothing_new() {
    let mut coordinator = new();
    let place = enter(&mut coordinator, "a", 1);
    coordinator.receive(place, declare(1, 1), START);
    assert!(matches!(
        &coordinator.drain("the end")[..],
        [Effect::Send { message: ToAgent::Draining(_), .. }]
    ));
    let refused = answers(&coordinator.receive(place, declare(2, 2), START));
    assert!(matches!(refused[0].1.verdict, Verdict::Rejected { reason: Refusal::Draining, .. }));
    let told = answers(&coordinator.advance(START.after(LENGTH)));
    assert!(matches!(told[..], [(_, Answer { request: 1, .. })]));
    assert_eq!(codes(&coordinator.receive(place, Bye::default().into(), START)), [CloseCode::Done]);
}

#[test]
fn the_operators_release_is_an_input_of_its_slot() {
    let mut coordinator = new();
    let place = enter(&mut coordinator, "a", 1);
    coordinator.receive(place, declare(1, 1), START);
    let now = START.after(LENGTH);
    coordinator.advance(now);
    let agent = Agent::new("a").unwrap();
    let op = SystemOp::Release { agent, id: IntentId::new(1), reason: "maintenance".into() };
    assert_eq!(coordinator.operator(op, now), Ok(now));
    let told = answers(&coordinator.advance(now.after(LENGTH)));
    assert!(
        matches!(&told[..], [(_, Answer { verdict: Verdict::Released { reason: Some(why) }, .. })] if why == "maintenance")
    );
    let release = Release { request: 2, id: IntentId::new(1), extensions: Default::default() };
    coordinator.receive(place, release.into(), now.after(LENGTH));
    let told = answers(&coordinator.advance(now.after(LENGTH).after(LENGTH)));
    assert!(matches!(told[0].1.verdict, Verdict::ReleasedUnknown));
}

#[cfg(feature = "daemon")]
mod kept {
    use super::*;
    use crate::audit::sim::{SimJournal, Trouble};
    use crate::audit::{Journal, State};
    use crate::session::coordinator::{Live, Restored};

    fn recovered(journal: &SimJournal, boot_slot: Slot) -> Coordinator {
        let state: State = journal.state();
        let (sessions, next_session) = (state.sessions().cloned().collect(), state.next_session());
        let live: Vec<Live> =
            state.image().standings().filter_map(|(key, standing)| Live::of(key, standing)).collect();
        let next_token = state.image().next_token();
        let (image, routes) = state.into_parts();
        let sessions =
            Restored::new(sessions, next_session, live.into_iter(), |key| routes.get(key).cloned());
        let rules = Rules { length: LENGTH, ..Rules::default() };
        let resolver = Resolver::from_image(image, rules.clone(), &[]).reporting_changes();
        let boot_ops = vec![SystemOp::Restart { next_token }];
        let recovered = Recovered { resolver, sessions, state: 9, boot_slot, boot_ops };
        let keep: Box<dyn Journal> = Box::new(journal.clone());
        let mut coordinator = Coordinator::recovered(
            Setup::new(rules),
            recovered,
            Box::new(keep),
            boot_slot.decided_at(LENGTH),
        );
        assert_eq!(coordinator.advance(coordinator.now()), []);
        coordinator
    }

    #[test]
    fn what_was_told_is_there_after_a_restart_and_the_session_goes_on() {
        let journal = SimJournal::default();
        let mut before = recovered(&journal, Slot::of(START, LENGTH));
        let place = enter(&mut before, "a", 1);
        before.receive(place, declare(1, 1), before.now());
        let told = answers(&before.advance(before.next_due().unwrap()));
        let [(_, Answer { verdict: Verdict::Granted { end, token, .. }, .. })] = told[..] else {
            panic!("{told:?}")
        };
        drop(before);
        journal.restart();

        let mut after = recovered(&journal, Slot::of(START, LENGTH).next().next().next());
        let place = first(after.connected(after.now()));
        let effects = after.receive(place, hello(Some("a"), 1), after.now());
        let Effect::Send { message: ToAgent::Welcome(welcome), .. } = &effects[0] else {
            panic!("{effects:?}")
        };
        assert!(welcome.resumed);
        after.receive(place, declare(2, 1), after.now());
        let told = answers(&after.advance(after.next_due().unwrap()));
        let again = &told[0].1;
        assert!(again.repeat);
        assert!(matches!(again.verdict, Verdict::Granted { end: e, token: t, .. } if (e, t) == (end, token)));
    }

    #[test]
    fn nothing_is_told_of_a_slot_that_is_not_kept_and_all_are_let_go() {
        for trouble in [Trouble::Refused, Trouble::UnknownKept, Trouble::UnknownLost] {
            let journal = SimJournal::default();
            let mut coordinator = recovered(&journal, Slot::of(START, LENGTH));
            let place = enter(&mut coordinator, "a", 1);
            journal.plan(0, trouble);
            coordinator.receive(place, declare(1, 1), coordinator.now());
            let effects = coordinator.advance(coordinator.next_due().unwrap());
            assert_eq!(answers(&effects), []);
            assert!(matches!(&effects[0], Effect::Send { message: ToAgent::Draining(_), .. }));
            assert_eq!(codes(&effects), [CloseCode::Internal]);
            assert!(matches!(coordinator.halt(), Some(Halt::Record(_))));
            assert_eq!(coordinator.next_due(), None);
            let late = enter_draining(&mut coordinator);
            assert_eq!(late, 2, "the welcome, and why nothing is decided");
        }
    }

    fn enter_draining(coordinator: &mut Coordinator) -> usize {
        let place = first(coordinator.connected(coordinator.now()));
        coordinator.receive(place, hello(Some("b"), 3), coordinator.now()).len()
    }
}
