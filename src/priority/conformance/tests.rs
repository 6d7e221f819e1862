//! The built-in models pass; each way to go wrong is found.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Asking, Violation, check};
use crate::priority::{Context, Deadline, Fair, Fifo, PriorityModel, Weighted};
use crate::types::Intent;

/// A model from a closure.
struct By<F>(F);

impl<F> std::fmt::Debug for By<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("By")
    }
}

impl<F: Fn(&Intent, &Context<'_>) -> f64 + Send + Sync> PriorityModel for By<F> {
    fn score(&self, intent: &Intent, context: &Context<'_>) -> f64 {
        (self.0)(intent, context)
    }
}

fn unstable(violations: &super::Violations) -> Vec<Asking> {
    let asking = |violation: &Violation| match violation {
        Violation::Unstable { asking, .. } => Some(*asking),
        _ => None,
    };
    violations.iter().filter_map(asking).collect()
}

#[test]
fn every_built_in_model_conforms() {
    check(Weighted::default).unwrap();
    check(|| Weighted { urgency: -3.0, safety_margin: 1e9, social_value: 0.0, aging: -1e-9 }).unwrap();
    check(|| Fifo).unwrap();
    check(|| Deadline).unwrap();
    check(|| Fair).unwrap();
}

#[test]
fn a_model_that_already_is_can_be_checked_by_reference() {
    let model: &dyn PriorityModel = &Fifo;
    check(|| model).unwrap();
    let shared: std::sync::Arc<dyn PriorityModel> = std::sync::Arc::new(Fair);
    check(|| &*shared).unwrap();
}

#[test]
fn a_model_that_counts_its_calls_is_found() {
    let calls = AtomicU64::new(0);
    let counter = By(|_: &Intent, _: &Context<'_>| calls.fetch_add(1, Ordering::Relaxed) as f64);
    let violations = check(|| &counter).unwrap_err();
    assert!(unstable(&violations).contains(&Asking::AtOnce), "{violations}");
    assert!(violations.to_string().contains("scored 0.0 at first, and "), "{violations}");
}

#[test]
fn a_model_that_remembers_the_call_before_is_found() {
    let last = AtomicU64::new(0);
    // Right as long as the questions come in one order: each score is that of the class before it.
    let lagging =
        By(|it: &Intent, _: &Context<'_>| last.swap(it.class.number().into(), Ordering::Relaxed) as f64);
    let violations = check(|| &lagging).unwrap_err();
    assert!(unstable(&violations).contains(&Asking::Interleaved), "{violations}");
}

#[test]
fn a_model_that_looks_where_its_arguments_lie_is_found() {
    let address = By(|it: &Intent, _: &Context<'_>| it.claims.as_ptr() as usize as f64);
    let violations = check(|| &address).unwrap_err();
    assert!(unstable(&violations).contains(&Asking::Copied), "{violations}");
}

#[test]
fn a_model_seeded_anew_each_time_it_is_made_is_found() {
    let seeded = || {
        let seed = RandomState::new();
        By(move |it: &Intent, _: &Context<'_>| seed.hash_one(it.id) as f64)
    };
    let violations = check(seeded).unwrap_err();
    assert!(unstable(&violations).iter().all(|asking| *asking == Asking::Elsewhere), "{violations}");
}

#[test]
fn a_model_that_panics_on_the_largest_intent_is_found_and_its_message_told() {
    let narrow = By(|it: &Intent, _: &Context<'_>| {
        assert!(it.claims.len() < 64, "too many for me");
        0.0
    });
    let violations = check(|| &narrow).unwrap_err();
    assert!(violations.to_string().contains("panicked (too many for me) on "), "{violations}");
    assert!(violations.to_string().contains("64 claim(s)"), "{violations}");
}

#[test]
fn a_model_that_overflows_at_the_end_of_time_is_found() {
    let unchecked = By(|it: &Intent, context: &Context<'_>| {
        let last = context.arrival.as_us().checked_add(it.wait.as_us()).expect("time has no end");
        -(last as f64)
    });
    let violations = check(|| &unchecked).unwrap_err();
    assert!(violations.iter().all(|violation| matches!(violation, Violation::Panicked { .. })));
    assert!(violations.to_string().contains("extreme arguments"), "{violations}");
}

#[test]
fn a_score_that_is_not_finite_is_found_on_ordinary_arguments_only() {
    let divides = By(|it: &Intent, _: &Context<'_>| 1.0 / it.urgency);
    let violations = check(|| &divides).unwrap_err();
    assert!(
        violations.iter().all(|it| matches!(it, Violation::NotFinite { score, .. } if score.is_infinite()))
    );
    assert!(violations.iter().all(|it| it.case().contains("ordinary")), "{violations}");

    let endless =
        By(|_: &Intent, context: &Context<'_>| if context.now.as_us() == u64::MAX { f64::NAN } else { 0.0 });
    check(|| &endless).unwrap();
}

#[test]
fn a_long_list_of_violations_is_cut_off_with_their_number() {
    let nan = By(|_: &Intent, _: &Context<'_>| f64::NAN);
    let text = format!("{:?}", check(|| &nan).unwrap_err());
    assert!(text.starts_with("the priority model\n- scored NaN, which ranks lowest, on ordinary"), "{text}");
    assert!(text.lines().count() == 10 && text.contains(" more"), "{text}");
}
