//! The `expression` model: a score written in the configuration, in CEL (the Common Expression
//! Language, <https://cel.dev>), such as `urgency + (waited > 5.0 ? 1.0 : 0.0)`.
//!
//! The language is the arithmetic of CEL: numbers, the variables of [`VARIABLES`], `+ - * / %`,
//! comparisons, `&& || !`, `?:`, `int()` and `double()`. It has no loops, lists, texts, clocks or
//! randomness, so what a score costs is bounded by the expression's length, and the same arguments
//! give the same score for ever. One thing is added to CEL: where an int and a double meet, the int
//! is taken as a double, as if `double()` stood around it.
//!
//! In four steps, of which each trusts the one before: `scan` bounds the text before any parser sees
//! it; the `cel` crate parses; `lower` checks the types and keeps what may be in a score; `term`
//! works it out. The crate's own evaluator is not used: without optimisation it takes some 60 KiB of
//! stack for each operator, and it allocates, while scores are taken thousands of times in a slot.
//! The tests hold the two evaluators against each other.

mod error;
mod lower;
mod scan;
mod term;

use std::fmt;
use std::thread;

use cel::common::ast::SourceInfo;
pub use error::ExpressionError;
use error::Refusal;
use term::{Double, Inputs, Undefined};

use crate::limits;
use crate::priority::{Context, PriorityModel};
use crate::types::Intent;

/// The variables of an expression: name, type, and meaning with unit and range.
pub const VARIABLES: [(&str, &str, &str); 8] = [
    ("urgency", "double", "as declared, 0 to 1"),
    ("safety_margin", "double", "as declared, 0 to 1; a small margin is a reason to go first"),
    ("social_value", "double", "as declared, 0 to 1"),
    ("waited", "double", "seconds from the arrival to the decision, 0 or more"),
    ("class", "int", "the intent's class, 0 to 7; a higher class goes first whatever the score"),
    ("slack", "double", "seconds by which the start may be moved later, 0 or more"),
    ("claims", "int", "how many claims the intent has, 1 to 64"),
    ("held", "double", "seconds that the agent held grants within `fair_window`, summed, 0 or more"),
];

/// A priority model that works out an expression.
///
/// ```
/// use preclaim::config::Expression;
/// use preclaim::priority::conformance;
///
/// let model = Expression::parse("urgency + 0.1 * waited - 0.01 * claims").unwrap();
/// conformance::check(|| &model).unwrap();
///
/// let error = Expression::parse("urgency + waitd").unwrap_err();
/// assert_eq!((error.line(), error.column()), (1, 11));
/// assert_eq!(error.nearest(), Some("waited"));
/// ```
#[derive(Clone)]
pub struct Expression {
    source: String,
    score: Double,
}

impl Expression {
    /// Reads an expression, checks it, and tries it on sample values.
    ///
    /// # Errors
    /// Where it is longer than [`limits::EXPRESSION_BYTES`], more deeply nested than
    /// [`limits::EXPRESSION_NESTING`], has more than [`limits::EXPRESSION_OPERATORS`], is not right,
    /// is no number, or gives no finite number on any of the samples.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        let score = read(source).map_err(|refusal| ExpressionError::new(source, refusal))?;
        Ok(Expression { source: source.to_owned(), score })
    }

    /// The expression as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl PriorityModel for Expression {
    /// Not a number where the expression has no value: a division by zero, an int beyond 64 bits, a
    /// comparison with what is not a number.
    fn score(&self, intent: &Intent, context: &Context<'_>) -> f64 {
        self.score.value(&Inputs::new(intent, context)).unwrap_or(f64::NAN)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}

fn read(source: &str) -> Result<Double, Refusal> {
    let text = scan::scan(source)?;
    let score = on_own_stack(|| lower::lower(&text, &parse(&text)?))?;
    try_on_samples(&score)?;
    Ok(score)
}

/// What the crate made of a text: the tree, and where its nodes stand.
type Parsed = (cel::IdedExpr, SourceInfo);

/// Lets the crate parse a text that is within the limits.
fn parse(text: &str) -> Result<Parsed, Refusal> {
    let parser = cel::Env::default().with_optional_support(false).parser();
    let parsed = parser.max_recursion_depth(RECURSION).parse_with_source_info(text);
    parsed.map_err(|errors| Refusal::syntax(text, &errors))
}

/// Runs `work` on a thread of its own: the parser takes more stack than the caller may have, and
/// nothing that it does can take the caller down.
fn on_own_stack<T: Send>(work: impl FnOnce() -> Result<T, Refusal> + Send) -> Result<T, Refusal> {
    let done = thread::scope(|scope| {
        let worker = thread::Builder::new().stack_size(limits::EXPRESSION_STACK);
        worker.spawn_scoped(scope, work).map(thread::ScopedJoinHandle::join)
    });
    match done {
        Ok(Ok(result)) => result,
        Ok(Err(_panic)) => Err(Refusal::whole("the parser cannot read it")),
        Err(error) => Err(Refusal::whole(format!("the parser cannot be started: {error}"))),
    }
}

/// The parser's own bound, set so that what passes `scan` never meets it: its default would come
/// first, with an error that names no limit of ours.
const RECURSION: u16 = (limits::EXPRESSION_NESTING + limits::EXPRESSION_OPERATORS + 1) as u16;

/// A score that is finite for nobody orders nothing: better told now than counted later.
fn try_on_samples(score: &Double) -> Result<(), Refusal> {
    let results = Inputs::SAMPLES.map(|inputs| score.value(&inputs));
    if results.iter().any(|result| result.is_ok_and(f64::is_finite)) {
        return Ok(());
    }
    let why = match results.first() {
        Some(Err(Undefined::DivisionByZero)) => "a division by zero",
        Some(Err(Undefined::Overflow)) => "an int beyond 64 bits",
        Some(Err(Undefined::Incomparable)) => "a comparison with what is not a number",
        Some(Ok(_)) | None => "infinite, or not a number",
    };
    Err(Refusal::whole(format!("on no sample values does it give a finite number: {why}")))
}

#[cfg(test)]
mod tests;
