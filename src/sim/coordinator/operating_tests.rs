//! Capacities at run time, through sessions, collector and core, on virtual time; and terms that change.

use std::sync::Arc;

use super::tests::{START, answers, enter};
use super::*;
use crate::resolver::RulesChange;
use crate::session::coordinator::{
    Attempt, NamePattern, OperatorNote, PathPattern, ReloadNote, RightsNote, Rule, Spans, What,
};
use crate::types::{Path, RawClaim, RawIntent, RawMode, RawTarget};
use crate::wire::{
    Answer, CapacityEntry, CapacityPage, Declaration, Declare, Extension, Extensions, Release, SetCapacity,
    Verdict, capacities_of,
};

const LENGTH: Micros = Micros::from_ms(10);

fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

fn rule(who: &str, at: &str) -> Rule {
    let what = What::Path(PathPattern::new(at).unwrap());
    Rule { who: NamePattern::new(who).unwrap(), what, ..Rule::named(who) }
}

/// `boss` administers `llm`, and `robot-1` may look there.
fn coordinator() -> Coordinator {
    let rules = vec![
        Rule { administer: true, ..rule("boss", "llm") },
        Rule { read: true, ..rule("robot-1", "llm") },
        Rule::named("rest"),
    ];
    with_rights(Rights::new(rules, None))
}

fn with_rights(rights: Rights) -> Coordinator {
    let rules = Rules { length: LENGTH, ..Rules::default() };
    let mut coordinator = Coordinator::new(Setup { rights: Arc::new(rights), ..Setup::new(rules) }, START);
    coordinator.sessions = coordinator.sessions.keeping_changes();
    coordinator
}

fn order(at: &str, capacity: u64, reason: &str) -> Release {
    SetCapacity { path: path(at), capacity, reason: reason.into() }.order(5)
}

fn ask(coordinator: &mut Coordinator, from: Place, message: impl Into<ToCoordinator>) -> Vec<Answer> {
    let now = coordinator.now();
    let mut told = answers(&coordinator.receive(from, message.into(), now));
    told.extend(answers(&coordinator.advance(Slot::of(now, LENGTH).decided_at(LENGTH))));
    told.into_iter().filter(|(to, _)| *to == from).map(|(_, answer)| answer).collect()
}

fn is_refused(told: &[Answer], reason: Refusal, field: &str) -> bool {
    matches!(told, [Answer { request: 5, verdict: Verdict::Rejected { reason: of, field: at, .. }, .. }]
        if *of == reason && at == field)
}

#[test]
fn who_may_administer_there_sets_a_capacity_and_is_told_how_it_stands_and_nobody_else_does() {
    let mut coordinator = coordinator();
    let (boss, robot) = (enter(&mut coordinator, "boss", 1), enter(&mut coordinator, "robot-1", 2));
    let told = ask(&mut coordinator, boss, order("llm/acct1", 4, "429"));
    let [Answer { request: 5, verdict: Verdict::Released { reason: None }, extensions, .. }] = &told[..]
    else {
        panic!("{told:?}")
    };
    let stands = CapacityEntry::in_extensions(extensions).unwrap();
    assert_eq!((&*stands.path, stands.capacity, stands.is_set_at_run_time), ("llm/acct1", 4, true));
    for (from, at) in [(robot, "llm/acct1"), (boss, "yard"), (boss, "llm-2"), (robot, "yard")] {
        let told = ask(&mut coordinator, from, order(at, 9, ""));
        assert!(is_refused(&told, Refusal::Forbidden, ""), "{at}: {told:?}");
    }
    assert!(coordinator.resolver().capacity(&path("yard"), START).is_none(), "it has left no trace");
    // Everything is more than what a rule says of a part of it.
    let closed = Rule { administer: false, ..rule("boss", "llm/closed") };
    let rules = vec![closed, Rule { administer: true, ..rule("boss", "llm") }];
    let mut coordinator = with_rights(Rights::new(rules, None));
    let boss = enter(&mut coordinator, "boss", 1);
    assert!(is_refused(&ask(&mut coordinator, boss, order("llm", 1, "")), Refusal::Forbidden, ""));
    assert!(matches!(ask(&mut coordinator, boss, order("llm/a", 1, ""))[..], [Answer { .. }]));
}

#[test]
fn without_a_rule_nobody_sets_one_unless_everybody_administers() {
    let mut coordinator = with_rights(Rights::default());
    let boss = enter(&mut coordinator, "boss", 1);
    assert!(is_refused(&ask(&mut coordinator, boss, order("a", 1, "")), Refusal::Forbidden, ""));
    let mut coordinator = with_rights(Rights::default().everybody_administers());
    let boss = enter(&mut coordinator, "boss", 1);
    assert!(
        CapacityEntry::in_extensions(&ask(&mut coordinator, boss, order("a", 1, ""))[0].extensions).is_some()
    );
    let rules = Rights::new(vec![Rule::named("all")], None).everybody_administers();
    let mut coordinator = with_rights(rules);
    let boss = enter(&mut coordinator, "boss", 1);
    assert!(
        is_refused(&ask(&mut coordinator, boss, order("a", 1, "")), Refusal::Forbidden, ""),
        "rules decide"
    );
}

#[test]
fn an_order_that_is_not_right_is_told_with_its_field_and_one_with_more_that_must_be_understood_is_refused() {
    let mut coordinator = with_rights(Rights::default().everybody_administers());
    let boss = enter(&mut coordinator, "boss", 1);
    let long = ask(&mut coordinator, boss, order("a", 1, &"x".repeat(limits::REASON_BYTES + 1)));
    assert!(is_refused(&long, Refusal::Invalid, "reason"), "{long:?}");
    let mut more = order("a", 1, "");
    more.extensions = more.extensions.with(Extension { number: 0x8fff, value: vec![] });
    let told = ask(&mut coordinator, boss, more);
    assert!(is_refused(&told, Refusal::Unsupported, ""), "{told:?}");
    assert_eq!(coordinator.sessions().capacities_set(), 0);
}

#[test]
fn so_many_are_set_at_run_time_and_those_that_are_may_be_set_again() {
    let mut coordinator = with_rights(Rights::default().everybody_administers());
    let boss = enter(&mut coordinator, "boss", 1);
    for number in 0..limits::CAPACITIES_SET {
        let told = ask(&mut coordinator, boss, order(&format!("a/{number}"), 1, ""));
        assert!(matches!(told[..], [Answer { verdict: Verdict::Released { .. }, .. }]), "{number}: {told:?}");
    }
    let full = ask(&mut coordinator, boss, order("b", 1, ""));
    assert!(is_refused(&full, Refusal::Overloaded, ""), "{full:?}");
    assert!(!is_refused(&ask(&mut coordinator, boss, order("a/7", 2, "")), Refusal::Overloaded, ""));
    let reached = coordinator.sessions().reached().count(limits::Limit::CapacitiesSet);
    assert_eq!((coordinator.sessions().capacities_set(), reached), (limits::CAPACITIES_SET, 1));
    // A new table of resources leaves none of them.
    let change = |resources| RulesChange { rules: Rules::default(), resources, document: "".into() };
    for (resources, left) in [(None, limits::CAPACITIES_SET), (Some(Vec::new()), 0)] {
        let now = coordinator.now();
        coordinator.operator(SystemOp::Config(Box::new(change(resources))), now).unwrap();
        coordinator.advance(Slot::of(now, LENGTH).decided_at(LENGTH));
        assert_eq!(coordinator.sessions().capacities_set(), left);
    }
}

#[test]
fn the_record_says_who_set_it_and_why_and_what_was_forbidden() {
    let mut coordinator = coordinator();
    let (boss, robot) = (enter(&mut coordinator, "boss", 1), enter(&mut coordinator, "robot-1", 2));
    let notes = |coordinator: &mut Coordinator, from, order: Release| {
        let now = coordinator.now();
        coordinator.receive(from, order.into(), now);
        let batch =
            coordinator.intake.collector.borrow_mut().close(now.after(LENGTH), Some(Slot::of(now, LENGTH)));
        let closed = batch.unwrap();
        let outcome = coordinator.resolver.resolve(&closed.batch);
        coordinator.now = now.after(LENGTH);
        coordinator.sessions.notes(&closed, &outcome)
    };
    let told = notes(&mut coordinator, boss, order("llm/a", 4, "429"));
    let by = |notes: &[RightsNote]| match notes {
        [RightsNote::Administered { input: 0, by }] => by.as_str().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(by(&told.rights), "boss");
    assert_eq!(told.operator, [OperatorNote::Reason { input: 0, reason: "429".into() }]);
    assert!(notes(&mut coordinator, boss, order("llm/a", 5, "")).operator.is_empty());
    let told = notes(&mut coordinator, robot, order("llm/a", 6, ""));
    let [RightsNote::Forbidden(note)] = &told.rights[..] else { panic!("{told:?}") };
    assert_eq!((&note.asked, &*note.what, note.agent.as_str()), (&Attempt::SetCapacity, "llm/a", "robot-1"));
}

/// The paths told, page by page.
fn listed(coordinator: &mut Coordinator, from: Place, under: Option<&str>) -> Result<Vec<String>, Verdict> {
    let (mut paths, mut after) = (Vec::new(), String::new());
    loop {
        let now = coordinator.now();
        let list = capacities_of(9, under, &after);
        let [Effect::Send { message, .. }] = &coordinator.receive(from, list.into(), now)[..] else {
            panic!("one answer")
        };
        let reply = match message {
            ToAgent::ListReply(reply) => reply,
            ToAgent::Answer(answer) => return Err(answer.verdict.clone()),
            other => panic!("{other:?}"),
        };
        let CapacityPage { entries, next } = CapacityPage::in_reply(reply).unwrap();
        assert!(entries.len() <= limits::CAPACITY_PAGE);
        paths.extend(entries.into_iter().map(|entry| entry.path));
        match next {
            Some(next) => after = next,
            None => return Ok(paths),
        }
    }
}

#[test]
fn they_are_listed_page_by_page_for_who_may_look_or_administer_there() {
    let mut coordinator = coordinator();
    let (boss, robot, other) = (
        enter(&mut coordinator, "boss", 1),
        enter(&mut coordinator, "robot-1", 2),
        enter(&mut coordinator, "robot-2", 3),
    );
    let mut expected: Vec<String> = (0..200).map(|number| format!("llm/{number:03}")).collect();
    for at in expected.iter().map(String::as_str).chain(["llm-2", "yard", "llm"]) {
        let now = coordinator.now();
        let op = SystemOp::Capacity { path: path(at), capacity: 1 };
        coordinator.operator(op, now).unwrap();
        coordinator.advance(Slot::of(now, LENGTH).decided_at(LENGTH));
    }
    expected.insert(0, "llm".into());
    assert_eq!(listed(&mut coordinator, boss, Some("llm")).unwrap(), expected, "and not what is beside it");
    assert_eq!(listed(&mut coordinator, robot, Some("llm")).unwrap(), expected);
    assert_eq!(listed(&mut coordinator, robot, Some("llm/007")).unwrap(), ["llm/007"]);
    for (from, under) in [(other, Some("llm")), (boss, None), (robot, Some("yard"))] {
        let refused = listed(&mut coordinator, from, under);
        assert!(matches!(refused, Err(Verdict::Rejected { reason: Refusal::Forbidden, .. })), "{under:?}");
    }
    let mut open = with_rights(Rights::default());
    let anybody = enter(&mut open, "a", 1);
    assert_eq!(listed(&mut open, anybody, None).unwrap(), [""; 0]);
    let now = open.now();
    let broken = List {
        extensions: Extensions::new(vec![Extension { number: 8, value: vec![0xff] }]).unwrap(),
        ..List::default()
    };
    let told = answers(&open.receive(anybody, broken.into(), now));
    assert!(matches!(&told[0].1.verdict, Verdict::Rejected { field, .. } if field == "extensions"));
}

fn declaration(request: u64, id: u64, at: &str) -> ToCoordinator {
    let target = RawTarget::Path(at.into());
    let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: 1_000_000 };
    let intent = RawIntent { id, claims: vec![claim], ..RawIntent::default() };
    Declare { batch: vec![Declaration { request, intent, ..Declaration::default() }] }.into()
}

#[test]
fn lower_bounds_take_back_nothing_and_let_nothing_in_until_there_is_less() {
    let mut coordinator = with_rights(Rights::default());
    let agent = enter(&mut coordinator, "a", 1);
    for id in 1..=3 {
        ask(&mut coordinator, agent, declaration(5, id, &format!("p/{id}")));
    }
    coordinator.sessions.set_bounds(Bounds { live_of_a_name: 2, ..Bounds::default() });
    let told = ask(&mut coordinator, agent, declaration(5, 4, "p/4"));
    assert!(is_refused(&told, Refusal::Overloaded, ""), "{told:?}");
    assert_eq!(coordinator.resolver().grants().count(), 3);
    for id in [1, 2] {
        ask(
            &mut coordinator,
            agent,
            Release { request: 6, id: crate::types::IntentId::new(id), ..Release::default() },
        );
    }
    assert!(!is_refused(&ask(&mut coordinator, agent, declaration(5, 4, "p/4")), Refusal::Overloaded, ""));
    assert!(is_refused(&ask(&mut coordinator, agent, declaration(5, 5, "p/5")), Refusal::Overloaded, ""));
}

#[test]
fn reloads_wait_for_a_record_in_bounded_number_and_new_spans_are_told_to_who_comes() {
    let mut coordinator = with_rights(Rights::default());
    let note = |number: u64| ReloadNote {
        at: START.after(Micros::from_us(number)),
        by: "SIGHUP".into(),
        changes: Vec::new(),
        more: 0,
        refused: None,
    };
    assert!(!coordinator.sessions().has_to_record());
    for number in 0..limits::RELOADS_WAITING as u64 + 1 {
        coordinator.sessions.note_reload(note(number));
    }
    assert!(coordinator.sessions().has_to_record());
    let slot = Slot::of(START, LENGTH);
    let (closed, outcome) = (Closed::empty(slot), SlotOutcome::empty(slot, slot.decided_at(LENGTH)));
    let told = coordinator.sessions.notes(&closed, &outcome).operator;
    assert_eq!(told.len(), limits::RELOADS_WAITING);
    assert_eq!(told[0], OperatorNote::Reload(note(1)), "the oldest has gone");
    assert!(!coordinator.sessions().has_to_record());
    let spans = Spans { min_lead: LENGTH, horizon: Micros::from_secs(9), retention: LENGTH };
    coordinator.sessions.set_spans(spans);
    let connection = coordinator.connected(START);
    let hello = Hello {
        lowest_version: 1,
        highest_version: 1,
        name: Some("b".into()),
        label: "main".into(),
        incarnation: 4,
        role: crate::wire::Role::Agent,
        refuse_if_live: false,
        seen: None,
        software: String::new(),
        extensions: Extensions::NONE,
    };
    let from = Place { connection, lane: LaneId::FIRST };
    let effects = coordinator.receive(from, hello.into(), START);
    let Some(Effect::Send { message: ToAgent::Welcome(welcome), .. }) = effects.first() else {
        panic!("{effects:?}")
    };
    assert_eq!((welcome.min_lead, welcome.horizon), (spans.min_lead, spans.horizon));
}
