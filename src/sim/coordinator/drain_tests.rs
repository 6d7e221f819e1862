//! A drain on virtual time: what is granted, ended, renewed and told from its beginning to its end.

use super::tests::{LENGTH, START, answers, enter};
use super::*;
use crate::session::coordinator::{Rule, What};
use crate::types::{IntentId, RawClaim, RawIntent, RawMode, RawTarget};
use crate::wire::{Answer, Declaration, Declare, DrainAsk, DrainStands, Draining, Release, Renew, Verdict};

const SECOND_US: u64 = 1_000_000;
/// How long the drains here last.
const WITHIN: Micros = Micros::from_secs(30);

fn claim(path: &str, secs: u64) -> RawClaim {
    let target = RawTarget::Path(path.into());
    RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: secs * SECOND_US }
}

/// A lease of `secs` that waits a minute for its path.
fn lease(id: u64, path: &str, secs: u64) -> RawIntent {
    let (hold, wait) = (true, 60 * SECOND_US);
    RawIntent { id, hold, wait, claims: vec![claim(path, secs)], ..RawIntent::default() }
}

fn declare(request: u64, revision: bool, intent: RawIntent) -> ToCoordinator {
    Declare { batch: vec![Declaration { request, revision, intent, ..Declaration::default() }] }.into()
}

fn renew(request: u64, id: u64, until: Time) -> ToCoordinator {
    Renew { request, id: IntentId::new(id), until, ..Renew::default() }.into()
}

fn release(request: u64, id: u64) -> ToCoordinator {
    Release { request, id: IntentId::new(id), ..Release::default() }.into()
}

fn order(within: Micros) -> DrainOrder {
    DrainOrder { within: Some(within), reason: "upgrade".into() }
}

struct Rig {
    coordinator: Coordinator,
    now: Time,
}

impl Rig {
    fn new() -> Self {
        let rules = Rules { length: LENGTH, ..Rules::default() };
        Rig { coordinator: Coordinator::new(Setup::new(rules), START), now: START }
    }

    fn enter(&mut self, name: &str) -> Place {
        self.coordinator.pass(self.now);
        enter(&mut self.coordinator, name, 1)
    }

    /// What is answered at once.
    fn ask(&mut self, from: Place, message: ToCoordinator) -> Vec<Answer> {
        only(from, &self.coordinator.receive(from, message, self.now))
    }

    fn pass(&mut self, span: Micros) -> Vec<Effect> {
        let end = self.now.after(span);
        let mut effects = Vec::new();
        // As a shell drives it, each thing at its time.
        while let Some(due) = self.coordinator.next_due().filter(|due| *due <= end) {
            effects.extend(self.coordinator.advance(due));
            if self.coordinator.has_drained() {
                break;
            }
        }
        self.now = end;
        effects
    }

    /// Asks, and what comes of it within a slot.
    fn settle(&mut self, from: Place, message: ToCoordinator) -> Verdict {
        let now = self.ask(from, message);
        let later = self.pass(LENGTH);
        let mut all: Vec<Answer> = now.into_iter().chain(only(from, &later)).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0).verdict
    }

    /// Has a lease granted.
    fn hold(&mut self, from: Place, intent: RawIntent) -> Time {
        match self.settle(from, declare(1, false, intent)) {
            Verdict::Granted { end, .. } => end,
            other => panic!("{other:?}"),
        }
    }

    fn drain(&mut self, within: Micros) -> Vec<Effect> {
        self.coordinator.drain_until(&order(within), self.now)
    }

    fn left(&self) -> usize {
        self.coordinator.drains().unwrap().left
    }
}

fn only(from: Place, effects: &[Effect]) -> Vec<Answer> {
    answers(effects).into_iter().filter(|(to, _)| *to == from).map(|(_, answer)| answer).collect()
}

fn told(effects: &[Effect]) -> Vec<(Place, Draining)> {
    let told = effects.iter().filter_map(|effect| match effect {
        Effect::Send { to, message: ToAgent::Draining(draining) } => Some((*to, draining.clone())),
        _ => None,
    });
    told.collect()
}

fn closed(effects: &[Effect]) -> usize {
    let is_end = |effect: &&Effect| matches!(effect, Effect::Close { code: CloseCode::ShuttingDown, .. });
    effects.iter().filter(is_end).count()
}

#[track_caller]
fn is_refused(verdict: &Verdict, is_kept: bool) {
    match verdict {
        Verdict::Rejected { reason: Refusal::Draining, retry_after_us, kept, hint, .. } => {
            assert!(retry_after_us.is_some_and(|us| us > 0 && us <= limits::ASK_AGAIN_MOST.as_us()));
            assert!(*kept == is_kept && hint.contains("upgrade"), "{verdict:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn everybody_is_told_until_when_and_whoever_comes_later_too() {
    let mut rig = Rig::new();
    let (a, b) = (rig.enter("a"), rig.enter("b"));
    rig.hold(a, lease(1, "dock/1", 60));
    let deadline = rig.now.after(WITHIN);
    let mut said = told(&rig.drain(WITHIN));
    said.sort_by_key(|(to, _)| *to);
    assert_eq!(said.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [a, b]);
    for (_, draining) in said {
        assert_eq!(draining.reason, "the coordinator drains: upgrade");
        assert_eq!(draining.retry_after_us, Some(WITHIN.as_us()));
        // How many are left concerns nobody who may not administer.
        assert_eq!(draining.stands(), Some(DrainStands { deadline, is_over: false, left: None }));
    }
    let late = super::tests::first(rig.coordinator.connected(rig.now));
    let effects = rig.coordinator.receive(late, super::tests::hello(Some("c"), 7), rig.now);
    assert!(matches!(effects[0], Effect::Send { message: ToAgent::Welcome(_), .. }));
    assert_eq!(told(&effects)[0].1.stands().unwrap().deadline, deadline);
    is_refused(&rig.settle(late, declare(1, false, lease(1, "dock/9", 1))), false);
}

#[test]
fn what_waits_ends_in_the_slot_in_which_the_drain_begins_and_what_is_held_stays() {
    let mut rig = Rig::new();
    let (a, b) = (rig.enter("a"), rig.enter("b"));
    rig.hold(a, lease(1, "dock/1", 20));
    assert!(matches!(rig.settle(b, declare(4, false, lease(1, "dock/1", 20))), Verdict::Conflict(_)));
    rig.drain(WITHIN);
    let effects = rig.pass(LENGTH);
    assert!(only(a, &effects).is_empty());
    let ended = only(b, &effects);
    assert_eq!((ended.len(), ended[0].request), (1, 4));
    let reason = Some("the coordinator drains: upgrade".to_owned());
    assert_eq!(ended[0].verdict, Verdict::Released { reason });
    assert!(!rig.coordinator.resolver().has_undecided());
    assert_eq!(rig.left(), 1);
    // Nor does it come back when the path is free.
    assert!(matches!(rig.settle(a, release(5, 1)), Verdict::Released { reason: None }));
    assert!(only(b, &rig.pass(LENGTH)).is_empty());
}

#[test]
fn what_has_only_arrived_is_refused_and_no_input_of_any_slot() {
    let mut rig = Rig::new();
    let a = rig.enter("a");
    rig.hold(a, lease(1, "dock/1", 20));
    assert!(rig.ask(a, declare(2, false, lease(2, "dock/2", 20))).is_empty());
    assert!(rig.ask(a, release(3, 1)).is_empty());
    let refused = only(a, &rig.drain(WITHIN));
    assert_eq!(refused[0].request, 2);
    is_refused(&refused[0].verdict, false);
    let decided = rig.coordinator.step(rig.now.after(LENGTH)).unwrap();
    assert_eq!(decided.closed.batch.inputs().len(), 1, "the release that had come with it");
    assert!(matches!(only(a, &decided.effects)[0].verdict, Verdict::Released { reason: None }));
}

#[test]
fn what_was_granted_in_a_slot_that_is_decided_late_is_no_waiting_intent() {
    let mut rig = Rig::new();
    let (a, b) = (rig.enter("a"), rig.enter("b"));
    rig.hold(a, lease(1, "dock/1", 20));
    rig.settle(b, declare(4, false, lease(1, "dock/1", 20)));
    rig.ask(a, release(5, 1));
    // The slot of the release is over, and has not been decided when the drain begins in the next one.
    rig.now = rig.now.after(LENGTH);
    rig.drain(WITHIN);
    let effects = rig.pass(LENGTH);
    let told = only(b, &effects);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(matches!(told[0].verdict, Verdict::Granted { .. }) && told[0].at <= rig.now.before(LENGTH));
    assert_eq!(rig.left(), 1);
}

#[test]
fn a_lease_is_renewed_up_to_the_deadline_and_no_further() {
    let mut rig = Rig::new();
    let a = rig.enter("a");
    let end = rig.hold(a, lease(1, "dock/1", 10));
    rig.drain(WITHIN);
    let deadline = rig.coordinator.drains().unwrap().deadline;
    let within = end.after(Micros::from_secs(5));
    assert_eq!(rig.settle(a, renew(2, 1, within)), Verdict::Renewed { end: within });
    // What asks for more gets all that there is.
    let beyond = deadline.after(Micros::from_secs(5));
    assert_eq!(rig.settle(a, renew(3, 1, beyond)), Verdict::Renewed { end: deadline });
    let refused = rig.settle(a, renew(4, 1, beyond));
    is_refused(&refused, false);
    assert!(matches!(refused, Verdict::Rejected { hint, .. } if hint.contains("up to its deadline")));
    assert_eq!(rig.settle(a, renew(5, 1, deadline)), Verdict::Renewed { end: deadline }, "as it is");
    assert_eq!(rig.settle(a, renew(6, 2, beyond)), Verdict::RenewDeniedUnknown);
}

#[test]
fn a_lease_that_ends_past_the_deadline_stays_as_it_is() {
    let mut rig = Rig::new();
    let a = rig.enter("a");
    let end = rig.hold(a, lease(1, "dock/1", 120));
    rig.drain(WITHIN);
    is_refused(&rig.settle(a, renew(2, 1, end.after(LENGTH))), false);
    assert_eq!(rig.settle(a, renew(3, 1, end)), Verdict::Renewed { end });
    let grant = rig.coordinator.resolver().grants().next().unwrap();
    assert_eq!(grant.end, end);
}

#[test]
fn a_revision_that_asks_for_more_is_refused_and_one_that_gives_back_is_not() {
    let mut rig = Rig::new();
    let a = rig.enter("a");
    let start = START.after(Micros::from_secs(3)).as_us();
    let plan = |from: u64, paths: &[&str], secs| RawIntent {
        id: 1,
        start: Some(from),
        claims: paths.iter().map(|path| claim(path, secs)).collect(),
        ..RawIntent::default()
    };
    rig.hold(a, plan(start, &["dock/1", "dock/2"], 10));
    rig.drain(WITHIN);
    rig.pass(LENGTH);
    for more in [
        plan(start, &["dock/1", "dock/3"], 10),
        plan(start, &["dock/1", "dock/2"], 11),
        plan(start - SECOND_US, &["dock/1", "dock/2"], 10),
        plan(start + 2 * SECOND_US, &["dock/1"], 9),
    ] {
        is_refused(&rig.settle(a, declare(2, true, more)), true);
    }
    let less = plan(start + SECOND_US, &["dock/2"], 9);
    assert!(matches!(rig.settle(a, declare(3, true, less)), Verdict::Granted { .. }));
}

#[test]
fn what_was_granted_and_is_asked_for_again_is_answered_again() {
    let mut rig = Rig::new();
    let a = rig.enter("a");
    let end = rig.hold(a, lease(1, "dock/1", 20));
    rig.drain(WITHIN);
    rig.pass(LENGTH);
    // As after a connection that broke before the answer came.
    let again = rig.settle(a, declare(9, false, lease(1, "dock/1", 20)));
    assert!(matches!(again, Verdict::Granted { end: of, .. } if of == end));
    let other = rig.settle(a, declare(10, false, lease(1, "dock/2", 20)));
    assert!(matches!(other, Verdict::Rejected { reason: Refusal::IdInUse, .. }), "{other:?}");
    let invalid = RawIntent { claims: Vec::new(), ..lease(2, "dock/1", 1) };
    let invalid = rig.settle(a, declare(11, false, invalid));
    assert!(matches!(invalid, Verdict::Rejected { reason: Refusal::Invalid, .. }));
}

#[test]
fn it_ends_with_the_last_grant() {
    let mut rig = Rig::new();
    let (a, b) = (rig.enter("a"), rig.enter("b"));
    rig.hold(a, lease(1, "dock/1", 20));
    let plain = RawIntent { hold: false, ..lease(1, "dock/2", 2) };
    rig.hold(b, plain);
    rig.drain(WITHIN);
    assert_eq!(rig.left(), 2);
    assert!(closed(&rig.pass(Micros::from_ms(500))) == 0);
    rig.ask(a, release(5, 1));
    assert!(closed(&rig.pass(LENGTH)) == 0);
    assert_eq!(rig.left(), 1, "that of b, whose end nobody tells of");
    let effects = rig.pass(Micros::from_secs(3));
    assert_eq!((closed(&effects), rig.left()), (2, 0));
    assert!(rig.coordinator.has_drained());
    let last = told(&effects);
    assert!(last.len() == 2 && last.iter().all(|(_, draining)| draining.stands().unwrap().is_over));
    assert!(last.iter().all(|(_, draining)| draining.retry_after_us.is_none()));
}

#[test]
fn it_ends_at_the_deadline_and_what_stands_stands() {
    let mut rig = Rig::new();
    let a = rig.enter("a");
    let end = rig.hold(a, lease(1, "dock/1", 120));
    rig.drain(WITHIN);
    let deadline = rig.now.after(WITHIN);
    assert!(closed(&rig.pass(WITHIN.less(Micros::from_us(1)))) == 0);
    assert!(!rig.coordinator.has_drained());
    let effects = rig.pass(Micros::from_us(1));
    assert_eq!((rig.now, closed(&effects), rig.left()), (deadline, 1, 1));
    assert_eq!(rig.coordinator.resolver().grants().next().unwrap().end, end);
}

#[test]
fn a_drain_with_nothing_to_wait_for_ends_within_a_slot() {
    for waits in [false, true] {
        let mut rig = Rig::new();
        let a = rig.enter("a");
        if waits {
            let start = Some(rig.now.after(Micros::from_secs(9)).as_us());
            let never = RawIntent { start, ..lease(1, "dock/1", 1) };
            rig.ask(a, declare(1, false, never));
        }
        rig.drain(WITHIN);
        let effects = rig.pass(LENGTH);
        assert_eq!(closed(&effects), 1, "waits: {waits}");
    }
}

#[test]
fn a_deadline_that_has_come_ends_it_after_its_own_slot_alone() {
    let mut rig = Rig::new();
    let (a, b) = (rig.enter("a"), rig.enter("b"));
    rig.hold(a, lease(1, "dock/1", 20));
    rig.settle(b, declare(4, false, lease(1, "dock/1", 20)));
    rig.drain(Micros::ZERO);
    let effects = rig.pass(LENGTH);
    assert!(matches!(&only(b, &effects)[..], [Answer { verdict: Verdict::Released { .. }, .. }]));
    assert_eq!(closed(&effects), 2);
}

#[test]
fn a_second_order_brings_the_deadline_nearer_or_puts_it_off() {
    let mut rig = Rig::new();
    let a = rig.enter("a");
    rig.hold(a, lease(1, "dock/1", 120));
    rig.drain(WITHIN);
    rig.pass(Micros::from_secs(20));
    let said = told(&rig.drain(WITHIN));
    let deadline = rig.now.after(WITHIN);
    assert_eq!(said[0].1.stands().unwrap().deadline, deadline);
    assert_eq!(closed(&rig.pass(Micros::from_secs(20))), 0, "past the first one");
    rig.drain(Micros::from_secs(1));
    assert_eq!(closed(&rig.pass(Micros::from_secs(1))), 1);
    assert!(rig.now < deadline);
}

#[test]
fn who_administers_everything_may_have_it_drain_and_is_told_how_much_is_left() {
    let rule = |name: &str, who: &str, what, administer| Rule {
        who: crate::session::coordinator::NamePattern::new(who).unwrap(),
        what,
        administer,
        ..Rule::named(name)
    };
    let docks = What::Path(crate::session::coordinator::PathPattern::new("dock").unwrap());
    let rules = vec![
        rule("bosses", "boss", What::Everything, true),
        rule("dockers", "docker", docks, true),
        rule("all", "*", What::Everything, false),
    ];
    let mut rig = Rig::new();
    rig.coordinator.sessions.set_rights(Arc::new(Rights::new(rules, None)));
    let (a, boss, docker) = (rig.enter("a"), rig.enter("boss"), rig.enter("docker"));
    rig.hold(a, lease(1, "dock/1", 120));
    let ask = |asked: DrainAsk| ToCoordinator::from(Release::about_drain(7, &asked));
    assert_eq!(rig.ask(boss, ask(DrainAsk::How))[0].verdict, Verdict::ReleasedUnknown);
    for from in [a, docker] {
        for asked in [DrainAsk::How, DrainAsk::Order(order(WITHIN))] {
            let verdict = rig.ask(from, ask(asked)).remove(0).verdict;
            assert!(matches!(verdict, Verdict::Rejected { reason: Refusal::Forbidden, .. }), "{verdict:?}");
        }
    }
    assert!(rig.coordinator.drains().is_none());
    let deadline = rig.now.after(WITHIN);
    let effects = rig.coordinator.receive(boss, ask(DrainAsk::Order(order(WITHIN))), rig.now);
    let left = |place| told(&effects).iter().find(|(to, _)| *to == place).unwrap().1.stands().unwrap().left;
    assert_eq!((left(boss), left(a), left(docker)), (Some(1), None, None));
    let answer = only(boss, &effects).remove(0);
    assert_eq!((answer.request, answer.slot, answer.at), (7, Slot::new(0), Time::ZERO));
    let stands = DrainStands { deadline, is_over: false, left: Some(1) };
    assert_eq!(DrainStands::in_extensions(&answer.extensions), Some(stands));
    assert_eq!(rig.coordinator.drains().unwrap().by.unwrap().as_str(), "boss");
    rig.settle(a, release(2, 1));
    let answer = rig.ask(boss, ask(DrainAsk::How));
    assert!(answer.is_empty(), "it has ended with the last grant");
}
