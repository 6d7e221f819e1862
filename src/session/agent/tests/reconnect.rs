//! Sessions that outlive their connections.

use super::*;
use crate::wire::{Standing, WireLimits};

impl Bench {
    /// The connection breaks, and another one stands after `away`.
    fn reconnected(&mut self, away: Micros, state: u64) {
        self.session.disconnected();
        assert_eq!(self.event(), Event::News(News::Disconnected));
        self.run_to(self.now.after(away));
        self.session.connected(self.now);
        let Some(ToCoordinator::Hello(hello)) = self.session.poll_send() else { panic!("a hello") };
        assert_eq!(hello.incarnation, identity().incarnation, "the same session");
        let now = self.coordinator();
        self.receive(Welcome { state, resumed: true, ..welcome(now) });
    }

    fn sent_again(&mut self) -> u64 {
        let ToCoordinator::Declare(declare) = self.sent() else { panic!("the declaration again") };
        declare.batch[0].request
    }

    fn comes_back(&mut self) {
        self.reconnected(Micros::from_ms(50), 1);
    }

    fn welcomed(&mut self) {
        assert_eq!(self.event(), Event::Welcomed);
    }

    /// Answers the question how things stand.
    fn stands(&mut self, verdicts: &[(u64, Option<Verdict>)]) {
        let ToCoordinator::List(list) = self.sent() else { panic!("the question how things stand") };
        let asked: Vec<u64> = list.standings().unwrap().unwrap().iter().map(|id| id.number()).collect();
        assert_eq!(list.agent.as_deref(), Some("car-7"));
        assert_eq!(asked, verdicts.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        let told: Vec<Standing> = verdicts
            .iter()
            .map(|(id, verdict)| Standing { id: IntentId::new(*id), verdict: verdict.clone() })
            .collect();
        let at = self.coordinator();
        self.receive(Standing::reply(list.request, (Slot::of(at, Micros::from_ms(10)), at), &told));
    }

    fn held(&self, id: u64) -> Option<Held> {
        self.session.held(IntentId::new(id)).cloned()
    }
}

fn granted(held: &Held) -> Verdict {
    Verdict::Granted { start: held.start, end: held.end, token: held.token }
}

#[test]
fn what_was_not_answered_is_asked_again_in_order_and_decided_once() {
    let mut bench = Bench::up();
    let declared = bench.declare(1, false);
    let release = bench.session.release(IntentId::new(7)).unwrap();
    let renewal = bench.session.renew(IntentId::new(8), Time::from_us(5)).unwrap();
    while bench.sent_at_most().is_some() {}
    bench.comes_back();
    bench.welcomed();
    let ToCoordinator::Declare(again) = bench.sent() else { panic!("the declaration") };
    assert_eq!((again.batch[0].request, again.batch[0].intent.id), (declared, 1));
    assert!(matches!(bench.sent(), ToCoordinator::Release(of) if of.request == release));
    assert!(matches!(bench.sent(), ToCoordinator::Renew(of) if of.request == renewal));
    assert_eq!(bench.sent_at_most(), None);
    let (start, end) = (bench.coordinator(), bench.coordinator().after(Micros::from_secs(1)));
    let verdict = Verdict::Granted { start, end, token: Token::new(4) };
    bench.answer(declared, 1, verdict.clone());
    assert!(matches!(bench.event(), Event::Reply { reply: Reply::Granted { .. }, .. }));
    bench.answer(declared, 1, verdict);
    assert_eq!(bench.session.poll_event(), None, "the same answer a second time is no second grant");
}

#[test]
fn what_is_asked_without_a_connection_goes_out_over_the_next() {
    let mut bench = Bench::up();
    bench.session.disconnected();
    let declared = bench.session.declare(draft(1, false), bench.now).unwrap();
    assert_eq!(bench.sent_at_most(), None);
    bench.session.connected(bench.now);
    assert!(matches!(bench.session.poll_send(), Some(ToCoordinator::Hello(_))));
    let now = bench.coordinator();
    bench.receive(welcome(now));
    let ToCoordinator::Declare(sent) = bench.sent() else { panic!("the declaration") };
    assert_eq!(sent.batch[0].request, declared);
}

#[test]
fn what_still_stands_is_still_held_and_follows_what_became_of_it() {
    let mut bench = Bench::up();
    for (id, token) in [(1, 11), (2, 12), (3, 13)] {
        bench.grant(id, false, token, 5_000_000);
    }
    let [first, second, third] = [1, 2, 3].map(|id| bench.held(id).unwrap());
    bench.comes_back();
    bench.welcomed();
    let mut longer = second.clone();
    longer.end = second.end.after(Micros::from_secs(9));
    let elsewhere = third.start.after(Micros::from_secs(20));
    let (end, token) = (elsewhere.after(Micros::from_secs(5)), Token::new(40));
    bench.stands(&[
        (1, Some(granted(&first))),
        (2, Some(granted(&longer))),
        (3, Some(Verdict::Moved { start: elsewhere, end, token })),
    ]);
    assert_eq!(bench.held(1), Some(first));
    assert_eq!(bench.held(2).unwrap().end, longer.end);
    assert!(matches!(bench.event(), Event::News(News::Renewed { .. })));
    let terms = Terms::of(&lasting(3, false, 5_000_000).intent);
    assert_eq!(
        bench.event(),
        Event::News(News::Moved { id: IntentId::new(3), start: elsewhere, end, token, terms })
    );
    assert_eq!(bench.held(3).unwrap().token, token);
}

#[test]
fn what_ended_meanwhile_is_told_with_its_reason() {
    let mut bench = Bench::up();
    for id in 1..=4 {
        bench.grant(id, true, 10 + id, 5_000_000);
    }
    bench.comes_back();
    bench.welcomed();
    let revoked =
        |waiting| Verdict::Revoked { by: "amb-1".into(), by_id: IntentId::new(5), offer: None, waiting };
    bench.stands(&[
        (1, None),
        (2, Some(Verdict::Expired { token: Token::new(12) })),
        (3, Some(Verdict::Released { reason: Some("night".into()) })),
        (4, Some(revoked(true))),
    ]);
    assert_eq!(bench.lost(), (1, Loss::Unknown));
    assert_eq!(bench.lost(), (2, Loss::Expired));
    assert_eq!(bench.lost(), (3, Loss::Released { reason: Some("night".into()) }));
    assert!(matches!(bench.lost(), (4, Loss::Revoked { waiting: true, .. })));
    assert!((1..=4).all(|id| bench.held(id).is_none()));
    // The one that waits on may still be granted, or may be told over another connection that it was not.
    bench.comes_back();
    bench.welcomed();
    bench.stands(&[(4, None)]);
    assert_eq!(bench.event(), Event::News(News::GaveUp { id: IntentId::new(4) }));
}

#[test]
fn a_revoked_intent_that_was_granted_again_meanwhile_is_in_hand_again() {
    let mut bench = Bench::up();
    bench.grant(1, true, 9, 1_000_000);
    let by = "amb-1".to_owned();
    bench.answer(0, 1, Verdict::Revoked { by, by_id: IntentId::new(5), offer: None, waiting: true });
    assert!(matches!(bench.lost(), (1, _)));
    bench.comes_back();
    bench.welcomed();
    let start = bench.coordinator();
    let (end, token) = (start.after(Micros::from_secs(1)), Token::new(11));
    bench.stands(&[(1, Some(Verdict::Granted { start, end, token }))]);
    assert!(matches!(bench.event(), Event::News(News::Granted { .. })));
    assert!(bench.held(1).unwrap().terms.hold, "a lease as before");
}

#[test]
fn news_of_a_later_slot_counts_before_how_things_stood() {
    let mut bench = Bench::up();
    let end = bench.grant(1, true, 9, 3_000_000);
    bench.comes_back();
    bench.welcomed();
    let ToCoordinator::List(list) = bench.sent() else { panic!("the question") };
    let asked_at = (Slot::of(bench.coordinator(), Micros::from_ms(10)), bench.coordinator());
    bench.now = bench.now.after(Micros::from_ms(30));
    bench.answer(0, 1, Verdict::Renewed { end: end.after(Micros::from_secs(1)) });
    let told = [Standing { id: IntentId::new(1), verdict: None }];
    bench.receive(Standing::reply(list.request, asked_at, &told));
    assert!(bench.held(1).is_some());
}

#[test]
fn a_coordinator_with_another_state_has_nothing_of_what_was_held_and_is_told_what_is_undecided() {
    let mut bench = Bench::up();
    bench.grant(1, false, 9, 5_000_000);
    let declared = bench.declare(2, false);
    bench.reconnected(Micros::from_ms(50), 2);
    bench.welcomed();
    assert_eq!(bench.lost(), (1, Loss::Unknown));
    assert!(matches!(bench.sent(), ToCoordinator::Declare(of) if of.batch[0].request == declared));
}

#[test]
fn a_lease_whose_renewals_were_lost_is_renewed_as_soon_as_a_connection_stands() {
    let mut bench = Bench::up();
    bench.grant(1, true, 9, 3_000_000);
    bench.run_to(bench.now.after(Micros::from_ms(1_100)));
    while bench.sent_at_most().is_some() {}
    bench.reconnected(Micros::from_ms(700), 1);
    bench.welcomed();
    let held = bench.held(1).unwrap();
    bench.stands(&[(1, Some(granted(&held)))]);
    let ToCoordinator::Renew(renewal) = bench.sent() else { panic!("a renewal") };
    let wanted = bench.coordinator().after(Micros::from_secs(3));
    assert!(renewal.until <= wanted && wanted.since(renewal.until) < Micros::from_ms(10));
    bench.answer(renewal.request, 1, Verdict::Renewed { end: renewal.until });
    assert!(matches!(bench.event(), Event::News(News::Renewed { .. })));
    bench.run_to(bench.now.after(Micros::from_ms(900)));
    assert_eq!(bench.sent_at_most(), None, "and then at a third of its time again");
}

#[test]
fn an_abandoned_declaration_leaves_its_release_to_be_made_again_and_one_that_was_never_sent_leaves_nothing() {
    let mut bench = Bench::up();
    let request = bench.declare(1, false);
    bench.session.abandon(request);
    while bench.sent_at_most().is_some() {}
    bench.session.disconnected();
    assert_eq!(bench.event(), Event::News(News::Disconnected));
    let never = bench.session.declare(draft(2, false), bench.now).unwrap();
    bench.session.abandon(never);
    assert_eq!(bench.session.unanswered(), 1);
    bench.session.connected(bench.now);
    let _hello = bench.session.poll_send();
    let now = bench.coordinator();
    bench.receive(welcome(now));
    assert!(matches!(bench.sent(), ToCoordinator::Release(of) if of.id == IntentId::new(1)));
    assert_eq!(bench.sent_at_most(), None);
}

#[test]
fn a_declaration_that_was_given_up_is_no_grant_until_it_is_asked_for_again() {
    let mut bench = Bench::up();
    let request = bench.declare(1, false);
    assert!(bench.session.give_up(request), "it may have been heard");
    assert_eq!(
        bench.session.declare(Draft { note: "another".into(), ..draft(1, false) }, bench.now),
        Err(NotTaken::IdBusy)
    );
    let elsewhere = TraceContext::new(1, 2, true);
    assert_eq!(
        bench.session.declare(Draft { trace: elsewhere, ..draft(1, false) }, bench.now),
        Ok(request),
        "the same goes on, wherever it stands in a trace"
    );
    assert!(bench.session.give_up(request));
    let (start, end) = (bench.coordinator(), bench.coordinator().after(Micros::from_secs(1)));
    let verdict = Verdict::Granted { start, end, token: Token::new(4) };
    bench.answer(request, 1, verdict.clone());
    assert!(matches!(bench.event(), Event::Reply { .. }));
    assert_eq!(bench.held(1), None);
    let again = bench.declare(1, false);
    bench.answer(again, 1, verdict);
    assert_eq!(bench.held(1).unwrap().token, Token::new(4));
}

#[test]
fn what_was_given_up_before_it_was_sent_is_forgotten() {
    let mut bench = Bench::up();
    bench.session.disconnected();
    let request = bench.session.declare(draft(1, false), bench.now).unwrap();
    assert!(!bench.session.give_up(request));
    assert_eq!(bench.session.unanswered(), 0);
    bench.session.declare(draft(1, false), bench.now).unwrap();
}

#[test]
fn no_room_says_nothing_of_what_was_asked_before_so_it_is_asked_again() {
    let mut bench = Bench::up();
    let declared = bench.declare(1, false);
    bench.comes_back();
    bench.welcomed();
    assert!(matches!(bench.sent(), ToCoordinator::Declare(_)));
    let full = no_room();
    bench.answer(declared, 1, full.clone());
    assert_eq!(bench.session.poll_event(), None);
    bench.run_to(bench.now.after(Micros::from_ms(19)));
    assert_eq!(bench.sent_at_most(), None);
    bench.run_to(bench.now.after(Micros::from_ms(2)));
    assert!(matches!(bench.sent(), ToCoordinator::Declare(of) if of.batch[0].request == declared));
    // The first time it is the answer.
    let fresh = bench.declare(2, false);
    bench.answer(fresh, 2, full.clone());
    assert!(matches!(bench.event(), Event::Reply { reply: Reply::Rejected { .. }, .. }));
    // A release has to be made.
    let release = bench.session.release(IntentId::new(3)).unwrap();
    let _first = bench.sent();
    bench.answer(release, 3, full);
    bench.run_to(bench.now.after(Micros::from_ms(21)));
    assert!(matches!(bench.sent(), ToCoordinator::Release(of) if of.request == release));
}

#[test]
fn what_nobody_waits_for_is_not_asked_again_where_there_is_no_room() {
    let mut bench = Bench::up();
    let declared = bench.declare(1, false);
    bench.comes_back();
    bench.welcomed();
    assert!(matches!(bench.sent(), ToCoordinator::Declare(_)));
    assert!(bench.session.give_up(declared));
    bench.answer(declared, 1, no_room());
    assert_eq!(bench.session.unanswered(), 0);
    bench.run_to(bench.now.after(Micros::from_ms(21)));
    assert_eq!(bench.sent_at_most(), None);
    let again = bench.declare(1, false);
    assert!(again > declared, "it can be declared again");
}

fn no_room() -> Verdict {
    Verdict::Rejected {
        reason: crate::wire::Refusal::Overloaded,
        field: String::new(),
        hint: String::new(),
        retry_after_us: Some(20_000),
        kept: false,
    }
}

#[test]
fn a_lease_that_a_new_process_takes_up_is_renewed_by_what_was_declared_and_not_by_how_long_it_has_been() {
    let mut bench = Bench::up();
    let request = bench.session.declare(lasting(1, true, 3_000_000), bench.now).unwrap();
    let _declared = bench.sent();
    let now = bench.coordinator();
    bench.receive(Answer {
        request,
        id: IntentId::new(1),
        slot: Slot::new(3),
        at: now,
        repeat: true,
        verdict: Verdict::Granted {
            start: now.before(Micros::from_secs(3_600)),
            end: now.after(Micros::from_secs(2)),
            token: Token::new(3),
        },
        extensions: Extensions::NONE,
    });
    bench.session.tick(bench.now);
    let ToCoordinator::Renew(renewal) = bench.sent() else { panic!("a renewal") };
    assert!(renewal.until.since(now) <= Micros::from_ms(3_020));
}

#[test]
fn being_replaced_is_final() {
    let mut bench = Bench::up();
    bench.grant(1, false, 9, 1_000_000);
    let declared = bench.declare(2, false);
    bench.receive(crate::wire::Replaced::default());
    assert_eq!(bench.event(), Event::News(News::Replaced));
    assert_eq!(bench.lost(), (1, Loss::Replaced));
    let unknown = Event::Reply { request: declared, id: IntentId::new(2), reply: Reply::Unknown };
    assert_eq!(bench.event(), unknown);
    assert_eq!(bench.session.declare(draft(3, false), bench.now), Err(NotTaken::Replaced));
    assert_eq!(bench.session.release(IntentId::new(1)), Err(NotTaken::Replaced));
    assert!(bench.session.is_replaced());
}

#[test]
fn many_standings_are_asked_for_in_parts_and_what_did_not_fit_is_asked_for_again() {
    let mut bench = Bench::up_with(WireLimits { undecided: 4096, ..welcome(Time::ZERO).limits });
    for id in 0..limits::STANDINGS as u64 + 1 {
        bench.grant(id, false, 1 + id, 5_000_000);
    }
    bench.comes_back();
    bench.welcomed();
    let ToCoordinator::List(first) = bench.sent() else { panic!("the question") };
    let ToCoordinator::List(second) = bench.sent() else { panic!("the rest of it") };
    let ids = |list: &crate::wire::List| list.standings().unwrap().unwrap();
    assert_eq!((ids(&first).len(), ids(&second).len()), (limits::STANDINGS, 1));
    let of = |bench: &Bench, id: IntentId| {
        let reason = Some("x".repeat(200));
        let lives = id.number() == 1;
        let verdict = if lives { granted(&bench.held(1).unwrap()) } else { Verdict::Released { reason } };
        Standing { id, verdict: Some(verdict) }
    };
    let told: Vec<Standing> = ids(&first).into_iter().map(|id| of(&bench, id)).collect();
    let when = (Slot::of(bench.coordinator(), Micros::from_ms(10)), bench.coordinator());
    bench.receive(Standing::reply(first.request, when, &told));
    let mut rest = bench.sent_at_most();
    while let Some(ToCoordinator::List(list)) = rest {
        let told: Vec<Standing> = ids(&list).into_iter().map(|id| of(&bench, id)).collect();
        bench.receive(Standing::reply(list.request, when, &told));
        rest = bench.sent_at_most();
    }
    assert!(bench.held(1).is_some());
    assert!((2..limits::STANDINGS as u64).all(|id| bench.held(id).is_none()));
}

#[test]
fn a_revision_that_is_refused_after_its_grant_has_gone_brings_that_to_light() {
    let mut bench = Bench::up();
    bench.grant(1, false, 9, 5_000_000);
    let held = bench.held(1).unwrap();
    let revision = bench.session.declare(Draft { revision: true, ..draft(1, false) }, bench.now).unwrap();
    let _sent = bench.sent();
    bench.comes_back();
    assert_eq!(bench.lost(), (1, Loss::Revising));
    bench.welcomed();
    bench.stands(&[(1, Some(granted(&held)))]);
    assert!(matches!(bench.sent(), ToCoordinator::Declare(_)));
    bench.now = bench.now.after(Micros::from_ms(20));
    bench.answer(revision, 1, conflict(true)); // not kept
    assert!(matches!(bench.event(), Event::Reply { reply: Reply::Conflict { .. }, .. }));
    bench.now = bench.now.after(Micros::from_ms(20));
    bench.stands(&[(1, Some(Verdict::Released { reason: None }))]);
    assert_eq!(bench.lost(), (1, Loss::Released { reason: None }));
}

#[test]
fn who_was_given_a_name_comes_back_under_it() {
    let mut session = AgentSession::new(Identity { name: None, ..identity() });
    session.connected(Local::from_us(1));
    let Some(ToCoordinator::Hello(first)) = session.poll_send() else { panic!("a hello") };
    assert_eq!(first.name, None);
    session.receive(welcome(Time::from_us(AHEAD)).into(), Local::from_us(2)).unwrap();
    session.disconnected();
    session.connected(Local::from_us(3));
    let Some(ToCoordinator::Hello(second)) = session.poll_send() else { panic!("a hello") };
    assert_eq!(second.name.as_deref(), Some("car-7"));
}

#[test]
fn a_revision_that_waits_has_no_grant_beside_it_any_more() {
    let mut bench = Bench::up();
    bench.grant(1, true, 9, 5_000_000);
    let revision =
        bench.session.declare(Draft { revision: true, ..lasting(1, true, 5_000_000) }, bench.now).unwrap();
    bench.answer(revision, 1, conflict(false));
    assert_eq!(bench.lost(), (1, Loss::Unknown));
    assert!(matches!(bench.event(), Event::News(News::Waiting { .. })));
    let (start, end) = (bench.coordinator(), bench.coordinator().after(Micros::from_secs(5)));
    bench.answer(revision, 1, Verdict::Granted { start, end, token: Token::new(12) });
    assert!(matches!(bench.event(), Event::News(News::Revised { .. })), "its handle is in force again");
    assert!(bench.held(1).is_some());
}

#[test]
fn a_revision_that_is_refused_over_another_connection_brings_to_light_which_grant_was_kept() {
    let mut bench = Bench::up();
    bench.grant(1, false, 9, 5_000_000);
    let revision = bench.session.declare(Draft { revision: true, ..draft(1, false) }, bench.now).unwrap();
    let _sent = bench.sent();
    bench.comes_back();
    assert_eq!(bench.lost(), (1, Loss::Revising));
    bench.welcomed();
    let start = bench.coordinator().after(Micros::from_secs(20));
    let (end, token) = (start.after(Micros::from_secs(5)), Token::new(12));
    let moved = Verdict::Moved { start, end, token };
    bench.stands(&[(1, Some(moved.clone()))]);
    assert_eq!(bench.sent_again(), revision);
    bench.now = bench.now.after(Micros::from_ms(20));
    let Verdict::Conflict(of) = conflict(true) else { panic!("a conflict") };
    bench.answer(revision, 1, Verdict::Conflict(Conflict { kept: true, ..of }));
    assert!(matches!(bench.event(), Event::Reply { reply: Reply::Conflict { .. }, .. }));
    bench.now = bench.now.after(Micros::from_ms(20));
    bench.stands(&[(1, Some(moved))]);
    assert!(matches!(bench.event(), Event::News(News::Moved { .. })));
    assert_eq!(bench.held(1).unwrap().token, token);
}

#[test]
fn news_that_was_kept_is_not_the_answer_to_what_was_asked_again() {
    let mut bench = Bench::up();
    let declared = bench.declare(1, false);
    bench.comes_back();
    bench.welcomed();
    assert_eq!(bench.sent_again(), declared);
    let start = bench.coordinator().before(Micros::from_secs(9));
    let (end, token) = (start.after(Micros::from_secs(2)), Token::new(3));
    bench.answer(0, 1, Verdict::Granted { start, end, token });
    assert_eq!(bench.session.poll_event(), None, "kept since it was decided; it has ended by now");
    let ended = Verdict::Granted { start, end, token };
    bench.answer(declared, 1, ended);
    assert!(
        matches!(bench.event(), Event::Reply { reply: Reply::Ended, .. }),
        "by the agent's own clock too"
    );
    assert_eq!(bench.held(1), None);
}

#[test]
fn a_revision_that_is_granted_after_its_grant_has_gone_belongs_to_the_same_handle() {
    let mut bench = Bench::up();
    bench.grant(1, true, 9, 5_000_000);
    let revision =
        bench.session.declare(Draft { revision: true, ..lasting(1, true, 5_000_000) }, bench.now).unwrap();
    let _sent = bench.sent();
    bench.reconnected(Micros::from_ms(50), 2);
    assert_eq!(bench.lost(), (1, Loss::Revising));
    bench.welcomed();
    assert_eq!(bench.lost(), (1, Loss::Unknown));
    assert_eq!(bench.sent_again(), revision);
    let (start, end) = (bench.coordinator(), bench.coordinator().after(Micros::from_secs(5)));
    bench.answer(revision, 1, Verdict::Granted { start, end, token: Token::new(2) });
    assert!(matches!(bench.event(), Event::News(News::Revised { .. })));

    // Where the handle has gone meanwhile, nobody is to have it.
    let mut bench = Bench::up();
    bench.grant(1, true, 9, 5_000_000);
    bench.session.declare(Draft { revision: true, ..lasting(1, true, 5_000_000) }, bench.now).unwrap();
    let _sent = bench.sent();
    bench.reconnected(Micros::from_ms(50), 2);
    let _again = bench.sent_again();
    bench.session.abandon_declared(IntentId::new(1));
    assert!(matches!(bench.sent(), ToCoordinator::Release(of) if of.id == IntentId::new(1)));
}

#[test]
fn what_nobody_waits_for_is_not_asked_again() {
    let mut bench = Bench::up();
    let request = bench.declare(1, false);
    bench.session.give_up(request);
    bench.comes_back();
    assert_eq!(bench.sent_at_most(), None);
    assert_eq!(bench.session.unanswered(), 0);
    let again = bench.declare(1, false);
    assert_ne!(again, request);
}

#[test]
fn an_end_that_is_learned_in_any_way_is_told() {
    let mut bench = Bench::up();
    let end = bench.grant(1, true, 9, 5_000_000);
    let later = end.after(Micros::from_secs(1));
    bench.answer(0, 1, Verdict::Renewed { end: later });
    assert_eq!(bench.event(), Event::News(News::Renewed { id: IntentId::new(1), end: later }));
    bench.comes_back();
    bench.welcomed();
    let mut held = bench.held(1).unwrap();
    held.end = later.after(Micros::from_secs(1));
    bench.stands(&[(1, Some(granted(&held)))]);
    assert_eq!(bench.event(), Event::News(News::Renewed { id: IntentId::new(1), end: held.end }));
}

#[test]
fn a_grant_whose_end_comes_while_its_agent_is_away_is_released_for_it_may_have_moved() {
    let mut bench = Bench::up();
    bench.grant(1, false, 9, 500_000);
    bench.reconnected(Micros::from_secs(1), 1);
    assert_eq!(bench.lost(), (1, Loss::Ended));
    bench.welcomed();
    assert!(matches!(bench.sent(), ToCoordinator::Release(of) if of.id == IntentId::new(1)));
}

#[test]
fn what_ends_while_its_standing_is_asked_for_is_told_once() {
    let mut bench = Bench::up();
    bench.grant(1, false, 9, 5_000_000);
    bench.comes_back();
    bench.welcomed();
    bench.session.release(IntentId::new(1)).unwrap();
    assert_eq!(bench.lost(), (1, Loss::Released { reason: None }));
    bench.stands(&[(1, None)]);
    assert_eq!(bench.session.poll_event(), None);
}

#[test]
fn what_is_given_up_or_dropped_without_a_connection_is_not_asked_again() {
    for drops in [false, true] {
        let mut bench = Bench::up();
        let request = bench.declare(1, false);
        bench.session.disconnected();
        if drops {
            bench.session.abandon(request);
        } else {
            assert!(bench.session.give_up(request), "it may have been heard");
        }
        bench.session.connected(bench.now);
        let now = bench.coordinator();
        bench.receive(welcome(now));
        let asked: Vec<ToCoordinator> = std::iter::from_fn(|| bench.sent_at_most()).collect();
        assert!(!asked.iter().any(|it| matches!(it, ToCoordinator::Declare(_))), "{asked:?}");
        let releases = asked.iter().filter(|it| matches!(it, ToCoordinator::Release(_))).count();
        assert_eq!(releases, usize::from(drops), "what it may have come to is released");
    }
}

#[test]
fn a_coordinator_that_was_set_back_has_another_grant_than_the_one_in_hand() {
    let mut bench = Bench::up();
    bench.grant(1, true, 9, 5_000_000);
    bench.comes_back();
    bench.welcomed();
    let mut older = bench.held(1).unwrap();
    older.token = Token::new(8);
    bench.stands(&[(1, Some(granted(&older)))]);
    assert_eq!(bench.lost(), (1, Loss::Unknown));
    let released = std::iter::from_fn(|| bench.sent_at_most());
    assert_eq!(released.filter(|it| matches!(it, ToCoordinator::Release(_))).count(), 1);
}
