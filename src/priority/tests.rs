//! The built-in models give exactly these bits, and `rank` orders all doubles.

use super::{Context, Deadline, Fair, Fifo, PriorityModel, Weighted, rank};
use crate::types::{Agent, Claim, Class, Intent, IntentId, Micros, Mode, Path, Start, Target, TaskId, Time};

fn intent(start: Start, slack: Micros, wait: Micros) -> Intent {
    let claim = Claim {
        target: Target::Path(Path::new("dock/3").unwrap()),
        mode: Mode::Exclusive,
        offset: Micros::ZERO,
        duration: Micros::from_ms(20),
    };
    Intent {
        id: IntentId::new(1),
        start,
        slack,
        wait,
        hold: false,
        task: TaskId::new(0),
        class: Class::default(),
        urgency: 0.0,
        safety_margin: 0.0,
        social_value: 0.0,
        claims: vec![claim].into(),
        expects: Vec::new().into(),
    }
}

fn asap() -> Intent {
    intent(Start::Asap, Micros::ZERO, Micros::ZERO)
}

/// Arrived 1 s after the epoch, and is decided `waited` later.
fn context(agent: &Agent, waited: Micros) -> Context<'_> {
    let arrival = Time::from_us(1_000_000);
    let now = arrival.after(waited);
    Context { agent, arrival, waited, now, earliest: now, held: Micros::ZERO }
}

fn score(model: &dyn PriorityModel, intent: &Intent, change: impl Fn(&mut Context<'_>)) -> f64 {
    let agent = Agent::new("car-7").unwrap();
    let mut context = context(&agent, Micros::ZERO);
    change(&mut context);
    model.score(intent, &context)
}

fn bits(score: f64) -> u64 {
    score.to_bits()
}

#[test]
fn weighted_sums_the_inputs_in_the_order_of_its_formula_bit_for_bit() {
    let it = Intent { urgency: 0.1, safety_margin: 0.7, social_value: 0.7, ..asap() };
    let given = score(&Weighted::default(), &it, |at| at.waited = Micros::from_us(300_000));
    // Worked out with another implementation of binary64; every other order of the sum gives other
    // bits with these numbers.
    assert_eq!(bits(given), 0x3fd3_d70a_3d70_a3d8, "{given}");
    let (urgency, margin, value, waited) = (0.5 * 0.1, 0.3 * (1.0 - 0.7), 0.2 * 0.7, 0.1 * 0.3);
    assert_ne!(bits(given), bits(urgency + (margin + (value + waited))));
    assert_ne!(bits(given), bits((urgency + margin) + (value + waited)));
    assert_ne!(bits(given), bits((urgency + (margin + value)) + waited));
}

#[test]
fn weighted_prefers_urgency_a_small_margin_and_social_value_by_their_weights() {
    let model = Weighted::default();
    let of = |urgency, safety_margin, social_value| {
        score(&model, &Intent { urgency, safety_margin, social_value, ..asap() }, |_| {})
    };
    assert_eq!(of(0.0, 1.0, 0.0), 0.0);
    assert_eq!(of(1.0, 1.0, 0.0), 0.5);
    assert_eq!(of(0.0, 0.0, 0.0), 0.3);
    assert_eq!(of(0.0, 1.0, 1.0), 0.2);
    assert_eq!(of(1.0, 0.0, 1.0), 1.0);
}

#[test]
fn weighted_adds_its_bonus_for_each_second_waited() {
    let model = Weighted { aging: 0.25, ..Weighted::default() };
    let it = Intent { safety_margin: 1.0, ..asap() };
    assert_eq!(score(&model, &it, |at| at.waited = Micros::from_secs(3)), 0.75);
    assert_eq!(score(&model, &it, |at| at.waited = Micros::from_ms(500)), 0.125);
    assert_eq!(score(&model, &it, |_| {}), 0.0);
}

#[test]
fn weighted_takes_weights_of_either_sign() {
    let model = Weighted { urgency: -2.0, safety_margin: 0.0, social_value: 0.0, aging: 0.0 };
    assert_eq!(score(&model, &Intent { urgency: 0.5, ..asap() }, |_| {}), -1.0);
}

#[test]
fn fifo_scores_everything_zero() {
    let urgent = Intent { urgency: 1.0, social_value: 1.0, ..asap() };
    for it in [asap(), urgent, intent(Start::At(Time::MAX), Micros::MAX, Micros::MAX)] {
        assert_eq!(bits(score(&Fifo, &it, |at| at.waited = Micros::MAX)), 0);
    }
}

#[test]
fn deadline_is_minus_the_last_start_in_seconds() {
    let at = Start::At(Time::from_us(2_500_000));
    assert_eq!(score(&Deadline, &intent(at, Micros::ZERO, Micros::from_secs(9)), |_| {}), -2.5);
    assert_eq!(score(&Deadline, &intent(at, Micros::from_ms(250), Micros::ZERO), |_| {}), -2.75);
}

#[test]
fn the_deadline_of_an_asap_intent_is_its_arrival_and_its_wait() {
    let slack_counts_for_nothing = intent(Start::Asap, Micros::from_secs(100), Micros::from_ms(500));
    assert_eq!(score(&Deadline, &slack_counts_for_nothing, |_| {}), -1.5);
    let later = |at: &mut Context<'_>| at.now = Time::from_us(9_000_000);
    assert_eq!(score(&Deadline, &slack_counts_for_nothing, later), -1.5, "waiting does not move it");
}

#[test]
fn deadline_tells_apart_two_starts_of_one_microsecond_in_this_century() {
    let at = |us| intent(Start::At(Time::from_us(us)), Micros::ZERO, Micros::ZERO);
    let (earlier, later) = (at(1_800_000_000_000_000), at(1_800_000_000_000_001));
    assert!(score(&Deadline, &earlier, |_| {}) > score(&Deadline, &later, |_| {}));
}

#[test]
fn a_deadline_past_the_end_of_time_is_the_end_of_time() {
    let endless = intent(Start::At(Time::MAX), Micros::MAX, Micros::ZERO);
    assert_eq!(score(&Deadline, &endless, |_| {}), -(u64::MAX as f64 / 1e6));
}

#[test]
fn fair_is_minus_the_seconds_that_the_agent_held() {
    assert_eq!(score(&Fair, &asap(), |at| at.held = Micros::from_us(1_250_000)), -1.25);
    let nothing = score(&Fair, &asap(), |_| {});
    let little = score(&Fair, &asap(), |at| at.held = Micros::from_us(1));
    assert!(nothing > little, "who held nothing goes first");
}

#[test]
fn a_rank_orders_finite_scores_as_numbers_and_all_others_below_them() {
    assert_eq!(rank(0.25), (0.25, false));
    assert_eq!(rank(-f64::MAX), (-f64::MAX, false));
    for odd in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let (ranked, is_odd) = rank(odd);
        assert!(is_odd && ranked.total_cmp(&-f64::MAX).is_lt(), "{odd}");
    }
}

#[test]
fn the_two_zeros_rank_the_same() {
    assert_eq!(bits(rank(-0.0).0), bits(rank(0.0).0));
}
