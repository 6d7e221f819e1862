//! Rights and allowances, through sessions, collector and core, on virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::tests::{START, answers, enter};
use super::*;
use crate::config::Expression;
use crate::priority::{Deadline, Fair, Fifo, PriorityModel, Weighted};
use crate::session::coordinator::{
    Allowance, Caps, Credits, Lowered, Modes, NamePattern, PathPattern, Rights, Rule, What,
};
use crate::sim::dice::Dice;
use crate::types::{Class, IntentId, RawClaim, RawIntent, RawMode, RawTarget};
use crate::wire::{
    Administer, Answer, Declaration, Declare, InForce, ListEntry, Release, Renew, Verdict, Watch,
};

const LENGTH: Micros = Micros::from_ms(10);

fn rule(name: &str, who: &str, path: Option<&str>) -> Rule {
    let what = path.map_or(What::Everything, |path| What::Path(PathPattern::new(path).unwrap()));
    Rule { who: NamePattern::new(who).unwrap(), what, ..Rule::named(name) }
}

fn capped(class: u64, urgency: f64) -> Caps {
    Caps::new(Class::new(class), Some(urgency), None, None)
}

fn coordinator(rules: Vec<Rule>, allowance: Option<Allowance>) -> Coordinator {
    let rights = Arc::new(Rights::new(rules, allowance));
    Coordinator::new(Setup { rights, ..Setup::new(Rules { length: LENGTH, ..Rules::default() }) }, START)
}

fn intent(id: u64, path: &str, ms: u64) -> RawIntent {
    let target = RawTarget::Path(path.into());
    let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: ms * 1_000 };
    RawIntent { id, claims: vec![claim], ..RawIntent::default() }
}

fn message(request: u64, intent: RawIntent, revision: bool) -> ToCoordinator {
    let declaration =
        Declaration { request, revision, intent, note: "a note".into(), ..Declaration::default() };
    Declare { batch: vec![declaration] }.into()
}

fn ask(
    coordinator: &mut Coordinator,
    from: Place,
    message: impl Into<ToCoordinator>,
) -> Vec<(Place, Answer)> {
    let now = coordinator.now();
    let mut told = answers(&coordinator.receive(from, message.into(), now));
    let next = Slot::of(now, LENGTH).decided_at(LENGTH);
    told.extend(answers(&coordinator.advance(next)));
    told
}

/// What a declaration came to in its slot, and what counts of its priority.
fn declare(coordinator: &mut Coordinator, from: Place, intent: RawIntent) -> (Verdict, Option<InForce>) {
    let told = ask(coordinator, from, message(7, intent, false));
    let (_, answer) = told.into_iter().find(|(to, answer)| *to == from && answer.request == 7).unwrap();
    let in_force = InForce::in_extensions(&answer.extensions);
    (answer.verdict, in_force)
}

fn hint(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Rejected { reason: Refusal::Forbidden, hint, .. } => hint,
        other => panic!("not forbidden: {other:?}"),
    }
}

fn is_granted(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Granted { .. })
}

#[test]
fn what_is_forbidden_is_told_at_once_with_its_rule_and_leaves_no_trace() {
    let closed = Rule { modes: Modes::NONE, ..rule("closed", "*", Some("vault")) };
    let mut coordinator = coordinator(vec![closed, rule("rest", "robot-*", None)], None);
    let robot = enter(&mut coordinator, "robot-1", 1);
    let stranger = enter(&mut coordinator, "car-1", 2);
    let now = coordinator.now();
    let told = answers(&coordinator.receive(robot, message(1, intent(1, "vault/a", 5), false), now));
    assert!(hint(&told[0].1.verdict).contains("\"closed\""), "{told:?}");
    assert_eq!(coordinator.next_due(), None, "it reached no slot");
    assert!(is_granted(&declare(&mut coordinator, robot, intent(1, "dock", 5)).0), "its id is free");
    assert!(hint(&declare(&mut coordinator, stranger, intent(1, "dock/2", 5)).0).contains("no rule"));
    let forbidden: BTreeMap<_, _> =
        coordinator.sessions().forbidden().iter().filter(|(_, count)| *count > 0).collect();
    let names: Vec<(&str, u64)> = forbidden.iter().map(|(by, count)| (by.as_str(), *count)).collect();
    assert_eq!(names, [("no_rule", 1), ("mode", 1)]);
}

#[test]
fn what_is_ones_own_may_always_be_given_back_and_is_renewed_as_the_rules_have_it_now() {
    let long = |most: u64| Rule { duration: Some(Micros::from_ms(most)), ..Rule::named("long") };
    let mut coordinator = coordinator(vec![long(100)], None);
    let robot = enter(&mut coordinator, "robot-1", 1);
    let lease = RawIntent { hold: true, ..intent(1, "a", 60) };
    let (Verdict::Granted { start, .. }, _) = declare(&mut coordinator, robot, lease) else {
        panic!("granted")
    };
    let renew = |ms: u64| {
        let until = start.after(Micros::from_ms(ms));
        Renew { request: 8, id: IntentId::new(1), until, ..Renew::default() }
    };
    let told = ask(&mut coordinator, robot, renew(100));
    assert!(matches!(told[0].1.verdict, Verdict::Renewed { .. }), "{told:?}");
    assert!(hint(&ask(&mut coordinator, robot, renew(101))[0].1.verdict).contains("up to 100 ms"));
    let nothing = Rule { modes: Modes::NONE, ..Rule::named("nothing") };
    coordinator.sessions.set_rights(Arc::new(Rights::new(vec![nothing], None)));
    assert!(hint(&ask(&mut coordinator, robot, renew(90))[0].1.verdict).contains("\"nothing\""));
    let release = Release { request: 9, id: IntentId::new(1), ..Release::default() };
    let told = ask(&mut coordinator, robot, release);
    assert!(matches!(told[0].1.verdict, Verdict::Released { reason: None }), "{told:?}");
}

#[test]
fn less_counts_than_the_rule_allows_is_told_and_something_sent_twice_comes_to_the_same() {
    let caps = |class| Rule { caps: capped(class, 0.5), ..Rule::named("capped") };
    let mut coordinator = coordinator(vec![caps(3)], None);
    let robot = enter(&mut coordinator, "robot-1", 1);
    let high = RawIntent { class: 7, urgency: 1.0, ..intent(1, "a", 500) };
    let (verdict, counts) = declare(&mut coordinator, robot, high.clone());
    assert!(is_granted(&verdict));
    let counts = counts.unwrap();
    assert_eq!((counts.class.number(), counts.urgency, counts.rule.as_deref()), (3, 0.5, Some("capped")));
    let granted = coordinator.resolver().grants().next().unwrap();
    assert_eq!((granted.intent.class.number(), granted.intent.urgency), (3, 0.5), "in force for the core");
    coordinator.sessions.set_rights(Arc::new(Rights::new(vec![caps(1)], None)));
    let again = declare(&mut coordinator, robot, high.clone());
    assert_eq!((again.0, again.1.unwrap().class.number()), (verdict, 3), "it stands as it was");
    let other = RawIntent { urgency: 0.9, ..high };
    let (verdict, _) = declare(&mut coordinator, robot, other);
    assert!(matches!(verdict, Verdict::Rejected { reason: Refusal::IdInUse, .. }), "{verdict:?}");
    let (_, plain) = declare(&mut coordinator, robot, RawIntent { class: 1, ..intent(2, "b", 5) });
    assert_eq!(plain, None, "what is within the caps says nothing");
    let Lowered { by_rule, by_allowance } = coordinator.sessions().lowered();
    assert!(by_rule >= 1 && by_allowance == 0);
}

#[test]
fn an_ended_intent_that_is_sent_again_is_answered_as_long_as_its_id_is_remembered() {
    let capped = Rule { caps: capped(3, 0.5), ..Rule::named("capped") };
    let mut coordinator = coordinator(vec![capped], None);
    let robot = enter(&mut coordinator, "robot-1", 1);
    let high = RawIntent { class: 7, ..intent(1, "a", 20) };
    let (Verdict::Granted { token, .. }, _) = declare(&mut coordinator, robot, high.clone()) else {
        panic!()
    };
    coordinator.advance(coordinator.now().after(Micros::from_secs(1)));
    let (again, _) = declare(&mut coordinator, robot, high.clone());
    assert!(matches!(again, Verdict::Granted { token: same, .. } if same == token), "{again:?}");
    coordinator.advance(coordinator.now().after(Micros::from_secs(61)));
    let (anew, _) = declare(&mut coordinator, robot, high);
    assert!(matches!(anew, Verdict::Granted { token: other, .. } if other > token), "{anew:?}");
}

fn purse(size: f64, refill: f64) -> Allowance {
    let credits = |amount| Credits::new(amount).unwrap();
    Allowance { size: credits(size), refill: credits(refill), ..Allowance::default() }
}

fn left(counts: Option<&InForce>) -> f64 {
    (counts.unwrap().allowance.unwrap().left * 1e6).round() / 1e6
}

#[test]
fn urgency_is_paid_for_until_the_allowance_is_spent_and_counts_as_ordinary_then() {
    let mut coordinator = coordinator(Vec::new(), Some(purse(1.0, 0.1)));
    let robot = enter(&mut coordinator, "robot-1", 1);
    let urgent = |id: u64, ms: u64| RawIntent { urgency: 1.0, ..intent(id, &format!("a/{id}"), ms) };
    let (_, first) = declare(&mut coordinator, robot, urgent(1, 600));
    let first = first.unwrap();
    assert_eq!((first.urgency, first.is_lowered(), left(Some(&first))), (1.0, false, 0.4));
    let (verdict, second) = declare(&mut coordinator, robot, urgent(2, 600));
    assert!(is_granted(&verdict), "it is lowered and not refused");
    let second = second.unwrap();
    assert_eq!((second.urgency, second.by_allowance, left(Some(&second))), (0.0, true, 0.401));
    let (_, again) = declare(&mut coordinator, robot, urgent(1, 600));
    assert!(!again.unwrap().is_lowered(), "sent twice, it is not paid for again");
    let (_, plain) = declare(&mut coordinator, robot, intent(3, "c", 10_000));
    assert_eq!(plain, None, "what is ordinary costs nothing");
    coordinator.advance(coordinator.now().after(Micros::from_secs(3)));
    let (_, third) = declare(&mut coordinator, robot, urgent(4, 600));
    assert!(!third.unwrap().is_lowered(), "it has grown back");
}

#[test]
fn what_came_to_nothing_at_once_is_given_back_and_what_waited_is_not() {
    let mut coordinator = coordinator(Vec::new(), Some(purse(1.0, 0.0)));
    let (robot, other) = (enter(&mut coordinator, "robot-1", 1), enter(&mut coordinator, "car-1", 2));
    assert!(is_granted(&declare(&mut coordinator, other, intent(1, "a", 5_000)).0));
    let urgent = |id: u64| RawIntent { urgency: 1.0, ..intent(id, "a", 500) };
    let (verdict, counts) = declare(&mut coordinator, robot, urgent(1));
    assert!(matches!(verdict, Verdict::Conflict(_)) && left(counts.as_ref()) == 0.5);
    let early = RawIntent { start: Some(1), urgency: 1.0, ..intent(2, "b", 500) };
    let (verdict, _) = declare(&mut coordinator, robot, early);
    assert!(matches!(verdict, Verdict::Rejected { reason: Refusal::TooLate, .. }), "{verdict:?}");
    let (_, counts) = declare(&mut coordinator, robot, RawIntent { wait: 30_000, ..urgent(3) });
    assert_eq!(left(counts.as_ref()), 0.5, "both came back");
    coordinator.advance(coordinator.now().after(Micros::from_ms(100)));
    let (_, counts) = declare(&mut coordinator, robot, urgent(4));
    assert_eq!(left(counts.as_ref()), 0.0, "it had its wait");
}

#[test]
fn a_lease_that_was_urgent_is_paid_for_as_long_as_it_lasts() {
    let mut coordinator = coordinator(Vec::new(), Some(purse(1.0, 0.0)));
    let robot = enter(&mut coordinator, "robot-1", 1);
    let lease = RawIntent { urgency: 1.0, hold: true, ..intent(1, "a", 100) };
    let (Verdict::Granted { end, .. }, _) = declare(&mut coordinator, robot, lease) else {
        panic!("granted")
    };
    let until = end.after(Micros::from_ms(500));
    ask(&mut coordinator, robot, Renew { request: 8, id: IntentId::new(1), until, ..Renew::default() });
    let urgent = RawIntent { urgency: 1.0, ..intent(2, "b", 100) };
    assert_eq!(left(declare(&mut coordinator, robot, urgent).1.as_ref()), 0.3);
}

#[test]
fn a_part_of_what_was_granted_stays_in_force_as_it_was_and_costs_nothing() {
    let mut coordinator = coordinator(Vec::new(), Some(purse(1.0, 0.0)));
    let robot = enter(&mut coordinator, "robot-1", 1);
    let whole = RawIntent { class: 1, start: Some(START.as_us() + 50_000), ..intent(1, "a", 1_000) };
    assert!(is_granted(&declare(&mut coordinator, robot, whole.clone()).0));
    let part = RawIntent { class: 1, start: whole.start, ..intent(1, "a", 400) };
    let told = ask(&mut coordinator, robot, message(9, part, true));
    let counts = InForce::in_extensions(&told[0].1.extensions).unwrap();
    assert!(is_granted(&told[0].1.verdict) && counts.class.number() == 1 && !counts.is_lowered());
    let more = RawIntent { class: 1, start: whole.start, ..intent(1, "a/b", 2_000) };
    let told = ask(&mut coordinator, robot, message(10, more, true));
    let counts = InForce::in_extensions(&told[0].1.extensions).unwrap();
    assert!(counts.by_allowance, "what asks for more is paid for anew");
}

#[test]
fn an_administrator_ends_anothers_grant_with_a_reason_and_nobody_else_does() {
    let boss = Rule { administer: true, ..rule("boss", "boss", None) };
    let mut coordinator = coordinator(vec![boss, rule("rest", "*", None)], None);
    let holder = enter(&mut coordinator, "car-1", 1);
    let (chief, other) = (enter(&mut coordinator, "boss", 2), enter(&mut coordinator, "car-2", 3));
    assert!(is_granted(&declare(&mut coordinator, holder, intent(4, "a", 5_000)).0));
    let whose = Administer { agent: Agent::new("car-1").unwrap(), reason: "it burns".into() };
    let release = Release::of_another(3, IntentId::new(4), &whose);
    assert!(hint(&ask(&mut coordinator, other, release.clone())[0].1.verdict).contains("administer there"));
    let told = ask(&mut coordinator, chief, release.clone());
    let released = Verdict::Released { reason: Some("it burns".into()) };
    let to: Vec<(Place, u64)> = told.iter().map(|(to, answer)| (*to, answer.request)).collect();
    assert_eq!(to, [(chief, 3), (holder, 0)], "the holder is told too");
    assert!(told.iter().all(|(_, answer)| answer.verdict == released), "{told:?}");
    let told = ask(&mut coordinator, chief, release);
    assert_eq!((told.len(), &told[0].1.verdict), (1, &Verdict::ReleasedUnknown), "there is nothing any more");
}

fn listed(coordinator: &mut Coordinator, from: Place, list: List) -> Result<Vec<ListEntry>, Verdict> {
    let now = coordinator.now();
    let list = List { granted: true, undecided: true, ..list };
    match coordinator.receive(from, list.into(), now).pop() {
        Some(Effect::Send { message: ToAgent::ListReply(reply), .. }) => Ok(reply.entries),
        Some(Effect::Send { message: ToAgent::Answer(answer), .. }) => Err(answer.verdict),
        other => panic!("{other:?}"),
    }
}

#[test]
fn others_claims_are_shown_to_those_who_may_look_and_ones_own_always() {
    let map = Rule { read: true, ..rule("map", "*", Some("map")) };
    let mut coordinator = coordinator(vec![map, rule("rest", "*", None)], None);
    let (first, second) = (enter(&mut coordinator, "car-1", 1), enter(&mut coordinator, "car-2", 2));
    let mut both = intent(1, "map/a", 5_000);
    both.claims.push(intent(0, "vault", 5_000).claims.remove(0));
    assert!(is_granted(&declare(&mut coordinator, first, both).0));
    let under = |path: &str| List { under: Some(path.into()), ..List::default() };
    let of = |agent: &str| List { agent: Some(agent.into()), ..List::default() };
    let shown = listed(&mut coordinator, second, under("map")).unwrap();
    assert_eq!((shown.len(), shown[0].claims.len()), (1, 1), "what else it claims is left out");
    assert!(hint(&listed(&mut coordinator, second, List::default()).unwrap_err()).contains("\"rest\""));
    assert!(hint(&listed(&mut coordinator, second, under("vault")).unwrap_err()).contains("\"rest\""));
    assert!(listed(&mut coordinator, second, of("car-1")).is_err());
    assert_eq!(listed(&mut coordinator, first, of("car-1")).unwrap()[0].claims.len(), 2);
    let now = coordinator.now();
    let watch = Watch { request: 6, ..Watch::default() };
    let refused = answers(&coordinator.receive(second, watch.clone().into(), now));
    assert!(hint(&refused[0].1.verdict).contains("\"rest\""), "{refused:?}");
    let watch = Watch { under: Some("map".into()), ..watch };
    assert_eq!(coordinator.receive(second, watch.into(), now), []);
    // Who is in the way is told, and what it has there to those alone who may look.
    for (id, path, holding) in [(8, "map/a", true), (9, "vault", false)] {
        let (verdict, _) = declare(&mut coordinator, second, intent(id, path, 5));
        let Verdict::Conflict(conflict) = verdict else { panic!("{verdict:?}") };
        let blocker = &conflict.blockers[0];
        assert_eq!((blocker.agent.as_str(), blocker.holding.is_some()), ("car-1", holding), "{path}");
    }
}

/// How one agent of the contention below asks.
#[derive(Clone, Copy, Debug)]
struct Says {
    class: u64,
    urgency: f64,
    social_value: f64,
}

const HIGHEST: Says = Says { class: 7, urgency: 1.0, social_value: 1.0 };
const PLAIN: Says = Says { class: 0, urgency: 0.0, social_value: 0.0 };

/// Has `agents` agents want one path without a pause for `seconds`, of which the first always says `always` and the
/// others say that something is urgent once in fifty times; which share of the grants the first one has.
fn share(
    model: Arc<dyn PriorityModel>,
    allowance: Option<Allowance>,
    (agents, seed, seconds): (usize, u64, u64),
    always: Says,
) -> f64 {
    let length = Micros::from_ms(100);
    let rules = Rules { length, model, ..Rules::default() };
    let rights = Arc::new(Rights::new(Vec::new(), allowance));
    let setup = Setup { rights, check_invariants: false, ..Setup::new(rules) };
    let mut coordinator = Coordinator::new(setup, START);
    let places: Vec<Place> =
        (0..agents).map(|it| enter(&mut coordinator, &format!("a-{it}"), it as u128 + 1)).collect();
    let mut dice = Dice::new(seed);
    let mut due: BTreeMap<(Time, u64), usize> = BTreeMap::new();
    for agent in 0..agents {
        due.insert((START, dice.below(1 << 32)), agent);
    }
    let (mut granted, mut all, mut id) = (0_u64, 0_u64, 0);
    let until = START.after(Micros::from_secs(seconds));
    loop {
        let next = due.first_key_value().map(|((at, _), _)| *at);
        let now = next.into_iter().chain(coordinator.next_due()).min().unwrap();
        if now >= until {
            return granted as f64 / all as f64;
        }
        while let Some(entry) = due.first_entry()
            && entry.key().0 <= now
        {
            let agent = entry.remove();
            id += 1;
            let rare = dice.below(50) == 0;
            let says = match agent {
                0 => always,
                _ if rare => Says { class: 3, urgency: 0.8, social_value: 0.0 },
                _ => PLAIN,
            };
            let raw = RawIntent {
                class: says.class,
                urgency: says.urgency,
                social_value: says.social_value,
                wait: 3_600_000_000,
                ..intent(id, "crossing", 1_000)
            };
            coordinator.receive(places[agent], message(id, raw, false), now);
        }
        for (to, answer) in answers(&coordinator.advance(now)) {
            if let Verdict::Granted { end, .. } = answer.verdict {
                let agent = places.iter().position(|place| *place == to).unwrap();
                granted += u64::from(agent == 0);
                all += 1;
                due.insert((end.after(Micros::from_us(dice.below(100_000))), dice.below(1 << 32)), agent);
            }
        }
    }
}

fn models() -> Vec<(&'static str, Arc<dyn PriorityModel>)> {
    let expression = Expression::parse("urgency + social_value + 0.1 * waited").unwrap();
    vec![
        ("weighted", Arc::new(Weighted::default())),
        ("weighted without aging", Arc::new(Weighted { aging: 0.0, ..Weighted::default() })),
        ("fifo", Arc::new(Fifo)),
        ("deadline", Arc::new(Deadline)),
        ("fair", Arc::new(Fair)),
        ("expression", Arc::new(expression)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// Who cries wolf. The allowance is the default one but for its first minute, which would weigh too much in so
    /// short a time.
    #[test]
    fn an_agent_that_always_claims_the_most_gets_its_share_of_what_is_contested_and_no_more(
        agents in 2_usize..=8,
        seed in any::<u64>(),
    ) {
        let allowance = Allowance { size: Credits::new(10.0).unwrap(), ..Allowance::default() };
        let fair = 1.0 / agents as f64;
        for (name, model) in models() {
            for always in [HIGHEST, Says { class: 0, ..HIGHEST }, Says { urgency: 0.0, social_value: 0.0, ..HIGHEST }] {
                let run = (agents, seed, 4_000);
                let share = share(Arc::clone(&model), Some(allowance.clone()), run, always);
                prop_assert!(share <= 1.1 * fair, "{name}, {agents} agents, {always:?}: {share} of {fair}");
                prop_assert!(share >= 0.9 * fair, "{name}, {agents} agents, {always:?}: {share} of {fair}");
            }
        }
    }
}

#[test]
fn without_an_allowance_it_gets_more_than_its_share() {
    for (name, model) in models() {
        let with_class = share(Arc::clone(&model), None, (4, 1, 400), HIGHEST);
        assert!(with_class > 0.45, "{name}: {with_class}");
        let plain = share(model, None, (4, 1, 400), PLAIN);
        assert!((0.2..0.3).contains(&plain), "{name}: {plain}");
    }
}
