//! The twin rule by rule, each from both sides, for the rules that the worked scenarios leave out.
//! A story is a few messages; what is expected is each slot's decisions in short.

use preclaim::resolver::{Resource, Rules};
use preclaim::types::{Micros, RawClaim, RawExpect, RawIntent, RawMode, RawTarget, Slot, Verdict};

use super::compare::compare;
use super::coverage::Coverage;
use super::reference::Twin;
use super::trace::{Change, Line, Model, Op, Spec, Trace, path};

fn spec() -> Spec {
    Spec { rules: Rules::default(), model: Model::Fifo }
}

fn with_resources(resources: Vec<Resource>) -> Spec {
    Spec { rules: Rules { resources, ..Rules::default() }, model: Model::Fifo }
}

fn preempting() -> Spec {
    Spec { rules: Rules { preemption: Some(Micros::ZERO), ..Rules::default() }, model: Model::Fifo }
}

fn pool(at: &str, capacity: u64) -> Resource {
    Resource { capacity: Some(capacity), ..Resource::new(path(at)) }
}

fn claim(at: &str, mode: RawMode, duration: u64) -> RawClaim {
    RawClaim { target: RawTarget::Path(at.to_owned()), mode, offset: 0, duration }
}

/// Wants the path alone, as soon as possible.
fn want(id: u64, at: &str, duration: u64) -> RawIntent {
    RawIntent { id, claims: vec![claim(at, RawMode::Exclusive, duration)], ..RawIntent::default() }
}

fn want_at(id: u64, at: &str, start: u64, duration: u64) -> RawIntent {
    RawIntent { start: Some(start), ..want(id, at, duration) }
}

fn units(id: u64, at: &str, n: u64, duration: u64) -> RawIntent {
    RawIntent { id, claims: vec![claim(at, RawMode::Units(n), duration)], ..RawIntent::default() }
}

fn class(class: u64, intent: RawIntent) -> RawIntent {
    RawIntent { class, ..intent }
}

fn lease(intent: RawIntent) -> RawIntent {
    RawIntent { hold: true, ..intent }
}

fn waits(wait: u64, intent: RawIntent) -> RawIntent {
    RawIntent { wait, ..intent }
}

fn rests_on(at: &str, as_of: u64, intent: RawIntent) -> RawIntent {
    RawIntent { expects: vec![RawExpect { path: at.to_owned(), as_of }], ..intent }
}

/// One line for each decision of the twin: the slot, whose, what. The resolver must decide the same.
fn story(spec: Spec, lines: &[(u64, Op)]) -> Vec<String> {
    let lines = lines.iter().map(|(at, op)| Line { at: *at, op: op.clone() }).collect();
    let trace = Trace { spec, lines };
    if let Err(difference) = compare(&trace, &mut Coverage::default()) {
        panic!("{}", difference.print(difference.slot.decided_at(trace.spec.rules.length)));
    }
    let mut twin = Twin::new(trace.spec.rules());
    let mut batches = trace.batches().into_iter();
    let mut told = Vec::new();
    for slot in 0..40 {
        let empty = || preclaim::resolver::SlotBatch::empty(Slot::new(slot));
        let outcome = twin.resolve(&batches.next().unwrap_or_else(empty));
        for decision in outcome.decisions {
            let (agent, id) = (&decision.key.agent, decision.key.id);
            told.push(format!("{slot} {agent}{id} {}", short(&decision.verdict)));
        }
    }
    told
}

fn short(verdict: &Verdict) -> String {
    let offer = |offer: &Option<preclaim::types::Time>| {
        offer.map_or(String::new(), |at| format!(" offer {}", at.as_us()))
    };
    match verdict {
        Verdict::Granted { start, end, token } => {
            format!("granted {}..{} #{token}", start.as_us(), end.as_us())
        }
        Verdict::Moved { start, end, token } => format!("moved {}..{} #{token}", start.as_us(), end.as_us()),
        Verdict::Conflict(conflict) => {
            let end = if conflict.is_final { "conflict" } else { "waits" };
            let ring = if conflict.deadlock { " deadlock" } else { "" };
            let kept = if conflict.kept { " kept" } else { "" };
            let blocker = |blocker: &preclaim::types::Blocker| {
                let token = blocker.token.map_or("-".to_owned(), |token| token.to_string());
                format!(" by #{token}.{}", blocker.their_claim)
            };
            let blockers: String = conflict.blockers.iter().map(blocker).collect();
            format!("{end}{ring}{kept}{}{blockers}", offer(&conflict.offer))
        }
        Verdict::Stale { path, as_of, kept } => {
            format!("stale {path} {}{}", as_of.as_us(), if *kept { " kept" } else { "" })
        }
        Verdict::Rejected { reason, kept, .. } => {
            format!("rejected {}{}", reason.as_str(), if *kept { " kept" } else { "" })
        }
        Verdict::Released { reason } => format!("released{}", reason.as_ref().map_or("", |_| " by operator")),
        Verdict::ReleasedUnknown => "released unknown".to_owned(),
        Verdict::Renewed { end } => format!("renewed {}", end.as_us()),
        Verdict::RenewDenied(preclaim::types::RenewDenial::Unknown) => "denied unknown".to_owned(),
        Verdict::RenewDenied(preclaim::types::RenewDenial::Kept { end, blockers }) => {
            format!("denied {} by {}", end.as_us(), blockers.len())
        }
        Verdict::Expired { token } => format!("expired #{token}"),
        Verdict::Revoked { by, offer: at, waiting } => {
            format!("revoked by {}{}{}{}", by.agent, by.id, offer(at), if *waiting { " waits" } else { "" })
        }
    }
}

fn declare(at: u64, who: &'static str, intent: RawIntent) -> (u64, Op) {
    (at, Op::Declare(who, intent))
}

fn revise(at: u64, who: &'static str, intent: RawIntent) -> (u64, Op) {
    (at, Op::Revise(who, intent))
}

fn release(at: u64, who: &'static str, id: u64) -> (u64, Op) {
    (at, Op::Release(who, id))
}

fn renew(at: u64, who: &'static str, id: u64, until: u64) -> (u64, Op) {
    (at, Op::Renew(who, id, until))
}

#[test]
fn what_a_shrink_frees_is_free_from_the_next_slot_on() {
    let told = story(
        spec(),
        &[
            declare(0, "a", want_at(1, "p", 20_000, 30_000)),
            revise(11_000, "a", want_at(1, "p", 20_000, 10_000)),
            declare(12_000, "b", want_at(1, "p", 30_000, 10_000)),
            declare(21_000, "b", want_at(2, "p", 30_000, 10_000)),
        ],
    );
    assert_eq!(
        told,
        [
            "0 a1 granted 20000..50000 #1",
            "1 a1 granted 20000..30000 #2",
            "1 b1 conflict offer 30000 by #1.0",
            "2 b2 granted 30000..40000 #3",
        ]
    );
}

#[test]
fn a_release_ends_what_a_shrink_left_too() {
    let told = story(
        spec(),
        &[
            declare(0, "a", want_at(1, "p", 20_000, 30_000)),
            revise(11_000, "a", want_at(1, "p", 20_000, 10_000)),
            release(12_000, "a", 1),
            declare(13_000, "b", want_at(1, "p", 30_000, 10_000)),
        ],
    );
    assert_eq!(told[2..], ["1 a1 released", "1 b1 granted 30000..40000 #3"]);
}

#[test]
fn of_old_and_new_units_the_larger_counts_until_the_slot_ends() {
    let lines = |n| {
        [
            declare(0, "a", RawIntent { start: Some(20_000), ..units(1, "p", 3, 30_000) }),
            revise(11_000, "a", RawIntent { start: Some(20_000), ..units(1, "p", 1, 30_000) }),
            declare(12_000, "b", RawIntent { start: Some(20_000), ..units(1, "p", n, 30_000) }),
        ]
    };
    let fits = story(with_resources(vec![pool("p", 5)]), &lines(2));
    assert_eq!(fits[2..], ["1 b1 granted 20000..50000 #3"]);
    let not = story(with_resources(vec![pool("p", 5)]), &lines(3));
    assert_eq!(not[2..], ["1 b1 conflict offer 30000 by #1.0 by #2.0"]);
}

#[test]
fn a_revision_that_is_wider_is_no_shrink_and_a_refused_one_keeps_the_grant() {
    let told = story(
        spec(),
        &[
            declare(0, "a", want_at(1, "p", 20_000, 10_000)),
            declare(0, "b", want_at(1, "p", 35_000, 10_000)),
            revise(11_000, "a", want_at(1, "p", 20_000, 16_000)),
            revise(21_000, "a", want_at(1, "p", 22_000, 13_000)),
            revise(31_000, "a", want_at(1, "p", 22_000, 13_001)),
        ],
    );
    assert_eq!(
        told[2..],
        [
            "1 a1 conflict kept offer 45000 by #2.0",
            // The first decision is at 30000, so 22000 cannot be reached, and it is no shrink.
            "2 a1 rejected too_late kept",
            // By then the grant has ended: a declaration, and too late all the same.
            "3 a1 rejected too_late",
        ]
    );
}

#[test]
fn the_second_revision_in_a_slot_takes_the_place_of_the_first() {
    let told = story(
        spec(),
        &[
            declare(0, "a", want_at(1, "p", 50_000, 10_000)),
            revise(11_000, "a", want_at(1, "p", 60_000, 10_000)),
            revise(12_000, "a", want_at(1, "p", 70_000, 10_000)),
        ],
    );
    assert_eq!(told[1..], ["1 a1 granted 70000..80000 #2"]);
}

#[test]
fn max_hold_counts_from_the_first_grant_in_a_chain_of_revisions() {
    let bound = Resource { max_hold: Some(Micros::from_us(30_000)), ..Resource::new(path("p")) };
    let lines =
        |duration| [declare(0, "a", want(1, "p", 15_000)), revise(11_000, "a", want(1, "p", duration))];
    // Held since 10000, so from 20000 on 20000 more are left, and not one µs longer.
    let told = story(with_resources(vec![bound.clone()]), &lines(20_000));
    assert_eq!(told[1..], ["1 a1 granted 20000..40000 #2"]);
    let told = story(with_resources(vec![bound]), &lines(20_001));
    assert_eq!(told[1..], ["1 a1 rejected too_long kept"]);
}

#[test]
fn a_renewal_is_bounded_by_max_hold_and_by_the_horizon() {
    let bound = Resource { max_hold: Some(Micros::from_us(30_000)), ..Resource::new(path("p")) };
    let told = story(
        with_resources(vec![bound]),
        &[
            declare(0, "a", lease(want(1, "p", 20_000))),
            renew(11_000, "a", 1, 40_001),
            renew(12_000, "a", 1, 40_000),
            renew(13_000, "a", 1, 20_000),
        ],
    );
    assert_eq!(told[1..4], ["1 a1 denied 30000 by 0", "1 a1 renewed 40000", "1 a1 renewed 40000"]);
    let mut short = spec();
    short.rules.horizon = Micros::from_us(50_000);
    let lines = |until| [declare(0, "a", lease(want(1, "p", 20_000))), renew(11_000, "a", 1, until)];
    assert_eq!(story(short.clone(), &lines(70_000))[1], "1 a1 renewed 70000");
    assert_eq!(story(short, &lines(70_001))[1], "1 a1 denied 30000 by 0");
}

#[test]
fn a_grant_that_is_no_lease_cannot_be_renewed() {
    let told = story(spec(), &[declare(0, "a", want(1, "p", 20_000)), renew(11_000, "a", 1, 40_000)]);
    assert_eq!(told[1..], ["1 a1 denied 30000 by 0"]);
}

#[test]
fn an_ended_id_is_remembered_for_the_retention() {
    let mut rules = spec();
    rules.rules.retention = Micros::from_us(5_000);
    // The grant ends in the slot decided at 20000.
    let lines = |at| [declare(0, "a", want(1, "p", 5_000)), declare(at, "a", want(1, "q", 5_000))];
    assert_eq!(story(rules.clone(), &lines(24_999))[1..], ["2 a1 rejected id_in_use"]);
    assert_eq!(story(rules.clone(), &lines(25_000))[1..], ["2 a1 granted 30000..35000 #2"]);
    let again = [declare(0, "a", want(1, "p", 5_000)), declare(24_999, "a", want(1, "p", 5_000))];
    assert_eq!(story(rules, &again)[1..], ["2 a1 granted 10000..15000 #1"]);
}

#[test]
fn a_revision_of_an_ended_id_is_a_declaration() {
    let told =
        story(spec(), &[declare(0, "a", want(1, "p", 5_000)), revise(24_000, "a", want(1, "q", 5_000))]);
    assert_eq!(told[1..], ["2 a1 granted 30000..35000 #2"]);
}

#[test]
fn a_repeat_in_its_own_slot_is_not_answered_apart() {
    let told = story(spec(), &[declare(0, "a", want(1, "p", 5_000)), declare(1, "a", want(1, "p", 5_000))]);
    assert_eq!(told, ["0 a1 granted 10000..15000 #1"]);
}

#[test]
fn a_repeat_of_a_waiting_intent_is_answered_with_its_latest_line() {
    let told = story(
        spec(),
        &[
            declare(0, "a", want(1, "p", 50_000)),
            declare(0, "b", waits(30_000, want(1, "p", 5_000))),
            declare(11_000, "b", waits(30_000, want(1, "p", 5_000))),
        ],
    );
    assert_eq!(told[1..3], ["0 b1 waits offer 60000 by #1.0", "1 b1 waits offer 60000 by #1.0"]);
}

#[test]
fn patience_puts_an_intent_before_higher_scores_of_its_class_but_not_before_a_higher_class() {
    let lines = |class_of_rival| {
        [
            declare(0, "a", want(1, "p", 20_000)),
            declare(0, "b", waits(60_000, want(1, "p", 30_000))),
            declare(21_000, "c", class(class_of_rival, RawIntent { urgency: 1.0, ..want(1, "p", 30_000) })),
        ]
    };
    let mut patient = spec();
    patient.model = Model::Weighted { aging: 0.0 };
    patient.rules.patience = Some(Micros::from_us(25_000));
    // In slot 2 (d = 30000) b has waited for 30000; there c would go first by its score.
    assert!(story(patient.clone(), &lines(0)).contains(&"2 b1 granted 30000..60000 #2".to_owned()));
    assert!(story(patient.clone(), &lines(1)).contains(&"2 c1 granted 30000..60000 #2".to_owned()));
    patient.rules.patience = Some(Micros::from_us(30_000));
    assert!(story(patient, &lines(0)).contains(&"2 c1 granted 30000..60000 #2".to_owned()));
}

#[test]
fn among_those_whose_patience_is_at_an_end_arrival_decides_and_not_the_score() {
    let lines = [
        declare(0, "a", want(1, "p", 20_000)),
        declare(1_000, "b", waits(60_000, want(1, "p", 30_000))),
        declare(2_000, "c", waits(60_000, RawIntent { urgency: 1.0, ..want(1, "p", 30_000) })),
    ];
    let mut patient = spec();
    patient.model = Model::Weighted { aging: 0.0 };
    patient.rules.patience = Some(Micros::from_us(15_000));
    // In slot 0 the score decides: c goes first, and a has waited no longer than it may.
    assert_eq!(story(patient.clone(), &lines)[0], "0 c1 granted 10000..40000 #1");
    patient.rules.patience = Some(Micros::from_us(5_000));
    let told = story(patient, &lines);
    assert_eq!(told[0], "0 a1 granted 10000..30000 #1");
    assert!(told.contains(&"2 b1 granted 30000..60000 #2".to_owned()), "{told:?}");
}

#[test]
fn the_fair_model_lets_who_held_less_go_first() {
    let mut fair = spec();
    fair.model = Model::Fair;
    let told = story(
        fair,
        &[
            declare(0, "a", want(1, "p", 8_000)),
            declare(0, "b", want(1, "q", 2_000)),
            declare(21_000, "a", want(2, "p", 10_000)),
            declare(22_000, "b", want(2, "p", 10_000)),
        ],
    );
    assert_eq!(told[2..], ["2 b2 granted 30000..40000 #3", "2 a2 conflict offer 40000 by #3.0"]);
}

#[test]
fn a_held_place_is_within_reach_of_the_last_turn_or_not_held() {
    // The last turn is at 40000 (wait ends at 31000), and asap reaches 9999 further.
    let lines = |busy| {
        [
            declare(0, "a", want(1, "p", busy)),
            declare(0, "b", waits(31_000, want(1, "p", 10_000))),
            declare(1_000, "c", want_at(1, "p", busy + 10_000, 5_000)),
        ]
    };
    assert_eq!(story(spec(), &lines(39_999))[1], "0 b1 waits offer 49999 by #1.0");
    assert_eq!(story(spec(), &lines(39_999))[2], "0 c1 conflict offer 59999 by #-.0");
    assert_eq!(story(spec(), &lines(40_000))[1], "0 c1 granted 50000..55000 #2");
}

#[test]
fn lowest_class_then_newest_is_withdrawn_and_what_can_stay_is_put_back() {
    let mut rules = preempting();
    rules.rules.resources = vec![pool("p", 4)];
    let at = |start, intent| RawIntent { start: Some(start), ..intent };
    let told = story(
        rules,
        &[
            declare(0, "a", class(1, at(50_000, units(1, "p", 3, 10_000)))),
            declare(0, "b", at(50_000, units(1, "p", 1, 10_000))),
            declare(11_000, "c", class(2, at(50_000, units(1, "p", 3, 10_000)))),
        ],
    );
    // b goes first, then a, and then b can stay after all.
    assert_eq!(told[2..], ["1 c1 granted 50000..60000 #3", "1 a1 revoked by c1 offer 60000"]);
}

#[test]
fn a_grant_of_the_same_class_or_one_that_begins_within_the_freeze_is_safe() {
    let mut freezing = preempting();
    freezing.rules.preemption = Some(Micros::from_us(5_000));
    let lines = |start, of| {
        [
            declare(0, "a", want_at(1, "p", start, 10_000)),
            declare(11_000, "b", class(of, want_at(1, "p", start, 10_000))),
        ]
    };
    // Decided at 20000, so the freeze lasts until 25000.
    assert_eq!(story(freezing.clone(), &lines(25_000, 1))[1..], ["1 b1 conflict offer 35000 by #1.0"]);
    assert_eq!(
        story(freezing.clone(), &lines(25_001, 1))[1..],
        ["1 b1 granted 25001..35001 #2", "1 a1 revoked by b1 offer 35001"]
    );
    assert_eq!(story(freezing, &lines(25_001, 0))[1..], ["1 b1 conflict offer 35001 by #1.0"]);
}

#[test]
fn a_revoked_intent_waits_on_from_the_decision_that_withdrew_it() {
    let told = story(
        preempting(),
        &[
            declare(0, "a", waits(15_000, want(1, "p", 10_000))),
            declare(0, "b", waits(15_000, want_at(1, "q", 50_000, 10_000))),
            declare(0, "b", waits(15_000, RawIntent { slack: 4_000, ..want_at(2, "r", 50_000, 10_000) })),
            declare(11_000, "c", class(1, want_at(1, "q", 50_000, 10_000))),
            declare(11_000, "c", class(1, want_at(2, "r", 50_000, 10_000))),
        ],
    );
    assert_eq!(
        told[3..],
        [
            "1 c1 granted 50000..60000 #4",
            "1 c2 granted 50000..60000 #5",
            "1 b1 revoked by c1 offer 60000 waits",
            "1 b2 revoked by c2 offer 60000 waits",
            "3 b1 conflict offer 60000 by #4.0",
            "3 b2 conflict offer 60000 by #5.0",
        ]
    );
}

#[test]
fn a_revision_whose_grant_is_withdrawn_goes_on_as_a_declaration() {
    let told = story(
        preempting(),
        &[
            declare(0, "a", want_at(1, "p", 50_000, 10_000)),
            revise(11_000, "a", waits(30_000, want_at(1, "p", 52_000, 10_000))),
            declare(12_000, "b", class(1, want_at(1, "p", 50_000, 10_000))),
        ],
    );
    assert_eq!(told[1..3], ["1 b1 granted 50000..60000 #2", "1 a1 waits offer 60000 by #2.0"]);
}

#[test]
fn leases_that_max_hold_bounds_keep_nobody_out_for_ever() {
    let lines = [
        declare(0, "a", lease(want(1, "x", 20_000))),
        declare(0, "b", lease(want(1, "y", 20_000))),
        declare(1_000, "a", waits(50_000, want(2, "y", 10_000))),
        declare(1_000, "b", waits(50_000, want(2, "x", 10_000))),
    ];
    assert!(story(spec(), &lines)[3].starts_with("0 b2 conflict deadlock"));
    // With max_hold both leases end at 40000 at the latest, within the reach of the waits.
    let bound = |at| Resource { max_hold: Some(Micros::from_us(30_000)), ..Resource::new(path(at)) };
    assert!(story(with_resources(vec![bound("x"), bound("y")]), &lines)[3].starts_with("0 b2 waits"));
}

#[test]
fn leases_of_one_task_are_no_ring_and_those_of_two_tasks_of_one_agent_are() {
    let lines = |task| {
        [
            declare(0, "a", lease(want(1, "x", 20_000))),
            declare(0, "a", RawIntent { task, ..lease(want(2, "y", 20_000)) }),
            declare(1_000, "a", waits(500_000, want(3, "y", 10_000))),
            declare(1_000, "a", RawIntent { task, ..waits(500_000, want(4, "x", 10_000)) }),
        ]
    };
    assert!(story(spec(), &lines(0))[3].starts_with("0 a4 waits"));
    assert!(story(spec(), &lines(1))[3].starts_with("0 a4 conflict deadlock"));
}

#[test]
fn a_ring_with_a_way_out_is_no_deadlock() {
    // c holds z and waits for nothing, so who waits for x or z may be helped by it.
    let lines = |c_waits: bool| {
        let mut lines = vec![
            declare(0, "a", lease(units(1, "x", 1, 20_000))),
            declare(0, "b", lease(want(1, "y", 20_000))),
            declare(0, "c", lease(units(1, "x", 1, 20_000))),
            declare(1_000, "a", waits(500_000, want(2, "y", 10_000))),
            declare(1_000, "b", waits(500_000, units(2, "x", 1, 10_000))),
        ];
        if c_waits {
            lines.push(declare(1_000, "c", waits(500_000, want(2, "y", 10_000))));
        }
        lines
    };
    let rules = || with_resources(vec![pool("x", 2)]);
    assert!(!story(rules(), &lines(false)).iter().any(|line| line.contains("deadlock")));
    assert!(story(rules(), &lines(true)).iter().any(|line| line.starts_with("0 c2 conflict deadlock")));
}

#[test]
fn a_reading_is_beaten_by_a_window_that_had_begun_and_not_by_one_that_had_not() {
    let lines = |released_at| {
        [
            declare(0, "a", want_at(1, "p", 12_000, 30_000)),
            release(released_at, "a", 1),
            declare(16_000, "b", rests_on("p/q", 10_000, want(1, "r", 5_000))),
        ]
    };
    assert_eq!(story(spec(), &lines(12_001))[2], "1 b1 stale p/q 12001");
    assert_eq!(story(spec(), &lines(12_000))[2], "1 b1 granted 20000..25000 #2");
}

#[test]
fn a_granted_reading_keeps_writers_out_until_its_start() {
    let told = story(
        spec(),
        &[
            declare(0, "a", want(1, "r", 4_000)),
            declare(1_000, "b", rests_on("p", 9_000, want(1, "r", 5_000))),
            declare(2_000, "c", want(1, "p", 3_000)),
            declare(3_000, "d", want_at(1, "p", 10_000, 3_000)),
        ],
    );
    // b begins at 14000, so nobody writes to p between 10000 and that.
    assert_eq!(
        told,
        [
            "0 a1 granted 10000..14000 #1",
            "0 b1 granted 14000..19000 #2",
            "0 c1 granted 14000..17000 #3",
            "0 d1 conflict offer 20000 by #-.0",
        ]
    );
}

#[test]
fn a_reading_too_old_is_stale_and_must_be_made_again_after_the_decision() {
    let mut rules = spec();
    rules.rules.history = Micros::from_us(5_000);
    let lines = |as_of| [declare(0, "a", rests_on("p", as_of, want(1, "r", 5_000)))];
    assert_eq!(story(rules.clone(), &lines(4_999)), ["0 a1 stale p 10000"]);
    assert_eq!(story(rules, &lines(5_000)), ["0 a1 granted 10000..15000 #1"]);
    assert_eq!(story(spec(), &lines(10_001)), ["0 a1 rejected invalid"]);
}

#[test]
fn new_rules_hold_from_the_next_slot_on_and_a_capacity_at_once() {
    let change = Change { min_lead: Some(5_000), ..Change::default() };
    let told = story(
        with_resources(vec![pool("p", 1)]),
        &[
            (0, Op::Config(change)),
            (0, Op::Capacity("p", 2)),
            declare(0, "a", units(1, "p", 2, 1_000)),
            declare(10_000, "a", units(2, "p", 2, 1_000)),
        ],
    );
    assert_eq!(told, ["0 a1 granted 10000..11000 #1", "1 a2 granted 25000..26000 #2"]);
}

#[test]
fn a_restart_sets_the_next_token_where_that_is_higher() {
    let lines = |next| {
        [
            declare(0, "a", want(1, "p", 1_000)),
            (10_000, Op::Restart(next)),
            declare(10_000, "a", want(2, "p", 1_000)),
        ]
    };
    assert_eq!(story(spec(), &lines(50))[1], "1 a2 granted 20000..21000 #50");
    assert_eq!(story(spec(), &lines(1))[1], "1 a2 granted 20000..21000 #2");
}

#[test]
fn what_a_shrink_left_goes_with_its_withdrawn_grant_for_all_turns_to_come() {
    let told = story(
        preempting(),
        &[
            declare(0, "b", class(3, want_at(1, "p", 42_000, 10_000))),
            declare(20_000, "c", class(4, want_at(3, "p", 45_000, 5_000))),
            declare(20_000, "c", want_at(4, "p", 39_000, 5_000)),
            revise(20_000, "b", class(3, want_at(1, "p", 42_000, 5_000))),
        ],
    );
    assert_eq!(
        told[1..],
        [
            "2 b1 granted 42000..47000 #2",
            "2 c3 granted 45000..50000 #3",
            "2 c4 granted 39000..44000 #4",
            "2 b1 revoked by c3 offer 50000",
        ]
    );
}

/// At 20000 b's grant, from 25000 on q and from 30000 on p, is shrunk to begin at 25001; `after` comes
/// in the same slot.
fn shrunk_at_the_freeze(freeze: u64, after: &[(u64, Op)]) -> Vec<String> {
    let grant = |start, q_lasts| {
        let p = RawClaim { offset: 30_000 - start, ..claim("p", RawMode::Exclusive, 10_000) };
        let q = claim("q", RawMode::Exclusive, q_lasts);
        RawIntent { id: 1, start: Some(start), claims: vec![q, p], ..RawIntent::default() }
    };
    let mut freezing = preempting();
    freezing.rules.preemption = Some(Micros::from_us(freeze));
    let shrunk = [declare(0, "b", grant(25_000, 10_000)), revise(11_000, "b", grant(25_001, 9_999))];
    let told = story(freezing, &[&shrunk, after].concat());
    assert_eq!(told[..2], ["0 b1 granted 25000..40000 #1", "1 b1 granted 25001..40000 #2"]);
    told[2..].to_vec()
}

#[test]
fn what_a_shrink_left_that_begins_within_the_freeze_is_safe_whatever_becomes_of_the_rest() {
    // What is left on q begins at 25000, where a freeze of 5 ms lasts until then: it stays.
    let above = [declare(12_000, "c", class(1, want_at(1, "q", 25_000, 5_000)))];
    assert_eq!(shrunk_at_the_freeze(5_000, &above), ["1 c1 conflict offer 35000 by #1.0 by #2.0"]);
    assert_eq!(
        shrunk_at_the_freeze(4_999, &above),
        ["1 c1 granted 25000..30000 #3", "1 b1 revoked by c1 offer 30000"]
    );
    // It stays too where its grant is withdrawn for p, and keeps those out who come later in the order.
    let for_p = [
        declare(12_000, "c", class(1, want_at(1, "p", 30_000, 5_000))),
        declare(12_001, "e", want_at(1, "q", 25_000, 5_000)),
    ];
    assert_eq!(
        shrunk_at_the_freeze(5_000, &for_p),
        [
            "1 c1 granted 30000..35000 #3",
            "1 b1 revoked by c1 offer 30001",
            "1 e1 conflict offer 30000 by #1.0"
        ]
    );
    assert_eq!(
        shrunk_at_the_freeze(4_999, &for_p),
        ["1 c1 granted 30000..35000 #3", "1 e1 granted 25000..30000 #4", "1 b1 revoked by c1 offer 30001"]
    );
}

#[test]
fn both_lines_of_an_intent_with_two_turns_stand_at_the_last() {
    let by_wait = Spec { model: Model::Weighted { aging: 0.1 }, ..preempting() };
    let told = story(
        by_wait,
        &[
            declare(0, "a", want_at(1, "p", 37_000, 25_000)),
            declare(10_000, "b", want(2, "p", 5_000)),
            revise(10_000, "a", class(2, want(1, "p", 5_000))),
            declare(10_000, "a", class(1, RawIntent { start: Some(40_000), ..want(4, "p", 5_000) })),
            declare(10_000, "a", class(3, want(2, "p", 10_000))),
        ],
    );
    // a1's revision is refused at once, then b2 has its turn after a1's grant was withdrawn for a4.
    assert_eq!(
        told[1..],
        [
            "1 a2 granted 20000..30000 #2",
            "1 a4 granted 40000..45000 #3",
            "1 b2 conflict offer 30000 by #2.0",
            "1 a1 conflict offer 30000 by #2.0",
            "1 a1 revoked by a4 offer 45000",
        ]
    );
}

#[test]
fn a_withdrawn_intent_that_is_stale_is_told_by_whom_it_was_revoked() {
    let mut late = rests_on("q", 10_000, want(1, "p", 5_000));
    late.claims[0].offset = 20_000;
    let told = story(
        preempting(),
        &[
            declare(0, "c", late),
            declare(0, "a", want_at(2, "q", 12_000, 5_000)),
            declare(10_000, "a", class(2, want_at(1, "p", 27_000, 5_000))),
        ],
    );
    assert_eq!(told[2..], ["1 a1 granted 27000..32000 #3", "1 c1 revoked by a1 offer 30000"]);
}

#[test]
fn a_capacity_set_after_a_table_of_resources_outlives_it() {
    let table = Change { resources: Some(vec![pool("p", 1)]), ..Change::default() };
    let told = story(
        spec(),
        &[(0, Op::Config(table)), (0, Op::Capacity("p", 2)), declare(10_000, "a", units(1, "p", 2, 1_000))],
    );
    assert_eq!(told, ["1 a1 granted 20000..21000 #1"]);
}

#[test]
fn a_max_hold_lowered_while_an_intent_waits_leaves_it_no_start() {
    let bound = Resource { max_hold: Some(Micros::from_us(15_000)), ..Resource::new(path("p")) };
    let lines = |duration| {
        [
            declare(0, "a", want(1, "p", 10_000)),
            declare(0, "b", waits(30_000, want(1, "p", duration))),
            (0, Op::Config(Change { resources: Some(vec![bound.clone()]), ..Change::default() })),
        ]
    };
    assert_eq!(story(spec(), &lines(15_000))[2..], ["1 b1 granted 20000..35000 #2"]);
    assert_eq!(story(spec(), &lines(15_001))[2..], ["1 b1 waits", "2 b1 conflict"]);
}

#[test]
fn a_grant_that_is_withdrawn_before_its_window_makes_nobody_stale() {
    let mut reader = class(5, want(8, "p", 5_000));
    reader.claims[0].mode = RawMode::Shared;
    let told = story(
        preempting(),
        &[
            declare(0, "a", want_at(4, "q", 41_000, 10_000)),
            declare(30_000, "b", reader),
            declare(30_000, "c", {
                let mut both = rests_on("q", 25_000, class(4, want(11, "p", 5_000)));
                both.claims.push(claim("q", RawMode::Exclusive, 5_000));
                both
            }),
        ],
    );
    assert_eq!(
        told[1..],
        ["3 b8 granted 40000..45000 #2", "3 c11 granted 45000..50000 #3", "3 a4 revoked by c11 offer 50000",]
    );
}
