//! Revisions under way: what they give up may be another's before their answer is here.

use super::*;

/// A grant of ten seconds, as a lease or not, and what it was.
fn holding(hold: bool) -> (Bench, Time, Time) {
    let mut bench = Bench::up();
    let end = bench.grant(1, hold, 9, 10_000_000);
    let start = end.before(Micros::from_secs(10));
    (bench, start, end)
}

fn revise(bench: &mut Bench, start: Option<Time>, span_us: u64, change: impl FnOnce(&mut RawIntent)) -> u64 {
    let mut draft = Draft { revision: true, ..lasting(1, false, span_us) };
    draft.intent.start = start.map(Time::as_us);
    change(&mut draft.intent);
    let request = bench.session.declare(draft, bench.now).unwrap();
    assert!(matches!(bench.sent(), ToCoordinator::Declare(_)));
    request
}

/// Time passes without an answer; whether the grant is in hand at its end.
fn is_in_hand_after(bench: &mut Bench, ms: u64) -> bool {
    bench.run_to(bench.now.after(Micros::from_ms(ms)));
    bench.session.held(IntentId::new(1)).is_some()
}

#[test]
fn what_a_revision_gives_up_is_not_in_hand_once_another_may_have_it() {
    let (mut bench, start, end) = holding(false);
    // In the middle of a slot: it ends 5 ms later, and what it frees may begin 10 ms after that.
    bench.run_to(Local::from_us(55_000));
    let revision = revise(&mut bench, None, 1_000_000, |_| {});
    assert!(is_in_hand_after(&mut bench, 14));
    assert!(!is_in_hand_after(&mut bench, 1));
    assert_eq!(bench.lost(), (1, Loss::Revising));
    assert!(bench.session.stands(IntentId::new(1)), "its handle has something to release");
    let Verdict::Conflict(of) = conflict(true) else { panic!("a conflict") };
    bench.answer(revision, 1, Verdict::Conflict(Conflict { kept: true, ..of }));
    let back = Event::News(News::Revised {
        id: IntentId::new(1),
        start,
        end,
        token: Token::new(9),
        terms: Terms::of(&lasting(1, false, 10_000_000).intent),
    });
    assert_eq!(bench.event(), back, "it was refused, and the grant is in hand as it was");
    assert!(matches!(bench.event(), Event::Reply { reply: Reply::Conflict { .. }, .. }));
    assert_eq!(bench.session.held(IntentId::new(1)).unwrap().end, end);
}

#[test]
fn a_revision_that_is_granted_late_brings_its_own_windows() {
    let (mut bench, ..) = holding(true);
    let revision = revise(&mut bench, None, 1_000_000, |intent| intent.hold = true);
    assert!(!is_in_hand_after(&mut bench, 500));
    assert_eq!(bench.lost(), (1, Loss::Revising));
    let start = bench.coordinator();
    let (end, token) = (start.after(Micros::from_secs(1)), Token::new(12));
    bench.answer(revision, 1, Verdict::Granted { start, end, token });
    assert!(matches!(bench.event(), Event::News(News::Revised { token: new, .. }) if new == token));
    assert!(matches!(bench.event(), Event::Reply { reply: Reply::Granted { .. }, .. }));
    assert_eq!(bench.session.held(IntentId::new(1)).unwrap().token, token);
    assert!(is_in_hand_after(&mut bench, 500), "and nothing is in doubt any more");
}

#[test]
fn a_revision_that_gives_nothing_up_leaves_the_grant_in_hand() {
    let (mut bench, start, _) = holding(false);
    revise(&mut bench, Some(start), 20_000_000, |_| {});
    assert!(is_in_hand_after(&mut bench, 5_000));
}

#[test]
fn whatever_is_smaller_gives_something_up() {
    type Change = fn(&mut RawIntent);
    let smaller: [(u64, Change); 6] = [
        (9_999_999, |_| {}),
        (20_000_000, |intent| intent.start = intent.start.map(|start| start + 1)),
        (20_000_000, |intent| intent.start = None),
        (20_000_000, |intent| intent.slack = 1),
        (20_000_000, |intent| intent.claims[0].mode = RawMode::Shared),
        (20_000_000, |intent| intent.claims[0].target = RawTarget::Path("dock/1".into())),
    ];
    for (number, (span, change)) in smaller.into_iter().enumerate() {
        let (mut bench, start, _) = holding(false);
        revise(&mut bench, Some(start), span, change);
        assert!(!is_in_hand_after(&mut bench, 30), "number {number}");
    }
    // Of a lease it is the end that it was renewed to which counts.
    let (mut bench, start, end) = holding(true);
    bench.answer(0, 1, Verdict::Renewed { end: end.after(Micros::from_us(1)) });
    revise(&mut bench, Some(start), 10_000_000, |intent| intent.hold = true);
    assert!(!is_in_hand_after(&mut bench, 30));
}

#[test]
fn what_is_in_doubt_still_ends_by_the_agents_own_clock() {
    let (mut bench, ..) = holding(false);
    revise(&mut bench, None, 1_000_000, |_| {});
    assert!(!is_in_hand_after(&mut bench, 10_000));
    assert_eq!(bench.lost(), (1, Loss::Revising));
    assert_eq!(bench.lost(), (1, Loss::Ended));
    assert!(!bench.session.stands(IntentId::new(1)));
}

#[test]
fn a_revision_that_nobody_waits_for_any_more_is_asked_again_for_its_holder() {
    for goes_first in [true, false] {
        let (mut bench, ..) = holding(false);
        let revision = revise(&mut bench, None, 1_000_000, |_| {});
        if goes_first {
            bench.session.disconnected();
        }
        assert!(bench.session.give_up(revision), "it may have been heard");
        bench.session.disconnected();
        bench.session.connected(bench.now);
        let now = bench.coordinator();
        bench.receive(welcome(now));
        let asked = std::iter::from_fn(|| bench.sent_at_most());
        let again =
            asked.filter(|it| matches!(it, ToCoordinator::Declare(it) if it.batch[0].request == revision));
        assert_eq!(again.count(), 1);
    }
}

#[test]
fn a_grant_that_another_session_of_the_name_revised_is_that_ones() {
    let (mut bench, start, end) = holding(true);
    let token = Token::new(12);
    bench.answer(0, 1, Verdict::Granted { start, end, token });
    assert_eq!(bench.lost(), (1, Loss::Taken { token }));
    assert!(!bench.session.stands(IntentId::new(1)));
    assert_eq!(bench.sent_at_most(), None, "and it is not released");
}

#[test]
fn a_lease_that_ends_by_the_agents_own_clock_takes_an_unanswered_revision_with_it() {
    let (mut bench, ..) = holding(true);
    let revision = revise(&mut bench, None, 60_000_000, |intent| intent.hold = true);
    assert!(!is_in_hand_after(&mut bench, 10_000));
    assert_eq!(bench.lost(), (1, Loss::Revising));
    assert_eq!(bench.lost(), (1, Loss::Unreachable));
    assert!(
        matches!(bench.event(), Event::Reply { request, reply: Reply::Ended, .. } if request == revision)
    );
    let asked = std::iter::from_fn(|| bench.sent_at_most());
    assert_eq!(asked.filter(|it| matches!(it, ToCoordinator::Release(_))).count(), 1);
    // Its answer was long under way: the release, which is behind it, ends what it tells of.
    let (start, end) = (bench.coordinator(), bench.coordinator().after(Micros::from_secs(60)));
    bench.answer(revision, 1, Verdict::Granted { start, end, token: Token::new(12) });
    assert_eq!(bench.session.held(IntentId::new(1)), None);
    assert_eq!(
        bench.session.poll_event(),
        None,
        "and whoever waited for the revision has been told what it came to"
    );
}
