//! The conformance suite: whether a priority model can be trusted to decide, on your own model too.
//!
//! A trace is decided again in audits, on other machines and after restarts, so a model must give
//! the same score for the same arguments whenever, and however often, it is asked. [`check`] asks on
//! ordinary arguments and on the extremes that an agent may declare, over and over and in several
//! orders. It sees what differs within one process; what a model reads elsewhere (a clock, a file,
//! the environment) it sees only where that changes meanwhile.
//!
//! ```
//! use preclaim::priority::{Context, PriorityModel, conformance};
//! use preclaim::types::Intent;
//!
//! /// Small intents first.
//! #[derive(Debug)]
//! struct FewestClaims;
//!
//! impl PriorityModel for FewestClaims {
//!     fn score(&self, intent: &Intent, _: &Context<'_>) -> f64 {
//!         -(intent.claims.len() as f64)
//!     }
//! }
//!
//! conformance::check(|| FewestClaims).unwrap(); // on an error, it prints what is wrong
//! ```

mod cases;
mod violation;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cases::Case;
pub use violation::{Violation, Violations};

use super::PriorityModel;

/// How many other arguments a model is asked about between two questions about the same ones: each
/// case meets this many neighbours, which costs their product and finds what the last call left.
const NEIGHBOURS: usize = 16;

/// Checks the models that `make` makes: a daemon makes one when it starts, an audit makes another,
/// and both must decide alike. For a model that already is, `check(|| &model)`.
///
/// - A score depends on the arguments alone: not on what was asked before, how often or in which
///   order, on where in memory they lie, or on which of two models is asked.
/// - No arguments make it panic.
/// - It is finite on ordinary arguments. On the extremes it need not be: a score that is not finite
///   ranks lowest and is counted.
///
/// Takes some milliseconds for a model as cheap as the built-in ones. Panics of the model are caught
/// (unless the build aborts on panic) and reported.
///
/// # Errors
/// Everything that was found, at most one violation of each kind for each case.
pub fn check<M: PriorityModel>(make: impl Fn() -> M) -> Result<(), Violations> {
    let (cases, model) = (cases::all(), make());
    let mut found = Vec::new();
    let first: Vec<Option<f64>> = cases.iter().map(|case| first_score(&model, case, &mut found)).collect();
    for asking in [Asking::AtOnce, Asking::Backwards, Asking::Interleaved] {
        found.extend(differences(&model, &cases, &first, asking));
    }
    let copies = cases::all();
    found.extend(differences(&model, &copies, &first, Asking::Copied));
    found.extend(differences(&make(), &copies, &first, Asking::Elsewhere));
    if found.is_empty() { Ok(()) } else { Err(Violations(found)) }
}

/// How the questions are put again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// The same question, at once.
    AtOnce,
    /// All questions, from the last to the first.
    Backwards,
    /// Between questions about other arguments.
    Interleaved,
    /// With equal arguments that lie elsewhere in memory, of the same model.
    Copied,
    /// The same as copied, of another model, made in the same way.
    Elsewhere,
}

/// The score that all later ones are held against, where there is one.
fn first_score(model: &dyn PriorityModel, case: &Case, found: &mut Vec<Violation>) -> Option<f64> {
    match ask(model, case) {
        Ok(score) => {
            if case.is_ordinary && !score.is_finite() {
                found.push(Violation::NotFinite { case: case.to_string(), score });
            }
            Some(score)
        }
        Err(message) => {
            found.push(Violation::Panicked { case: case.to_string(), message });
            None
        }
    }
}

/// Where the model now gives something else than it gave at first; each case once, for a model that
/// never repeats itself would fill the screen.
fn differences(
    model: &dyn PriorityModel,
    cases: &[Case],
    first: &[Option<f64>],
    asking: Asking,
) -> Vec<Violation> {
    let mut found: BTreeMap<usize, Violation> = BTreeMap::new();
    for at in order(cases.len(), asking) {
        let (Some(case), Some(Some(first))) = (cases.get(at), first.get(at).copied()) else { continue };
        let violation = match ask(model, case) {
            Ok(again) if is_same(first, again) => continue,
            Ok(again) => Violation::Unstable { case: case.to_string(), asking, first, again },
            Err(message) => Violation::Panicked { case: case.to_string(), message },
        };
        found.entry(at).or_insert(violation);
    }
    found.into_values().collect()
}

/// In which order the cases are asked about.
fn order(cases: usize, asking: Asking) -> Vec<usize> {
    match asking {
        Asking::AtOnce => (0..cases).flat_map(|at| [at, at]).collect(),
        Asking::Backwards => (0..cases).rev().collect(),
        Asking::Copied | Asking::Elsewhere => (0..cases).collect(),
        Asking::Interleaved => {
            let pairs = |at: usize| (1..=NEIGHBOURS).flat_map(move |by| [(at + by) % cases, at]);
            (0..cases).flat_map(pairs).collect()
        }
    }
}

/// One score, or the message of the panic.
fn ask(model: &dyn PriorityModel, case: &Case) -> Result<f64, String> {
    // A model that panics is reported as such, whatever state it left behind.
    catch_unwind(AssertUnwindSafe(|| model.score(&case.intent, &case.context()))).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
    })
}

/// Equal bit for bit; which of the many bit patterns says "not a number" decides nothing.
fn is_same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[cfg(test)]
mod tests;
