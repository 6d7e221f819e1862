//! An expression whose types are right, and its value. Each kind of value has its own tree, so that
//! a term which adds a bool to a number cannot be written down.
//!
//! What CEL says holds here: ints are of 64 bits and checked, doubles are binary64, `&&` and `||`
//! pass over an operand without a value where the other one decides.

use crate::priority::Context;
use crate::types::Intent;

/// Why a term has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undefined {
    /// Of ints; doubles become infinite.
    DivisionByZero,
    /// An int that 64 bits do not hold.
    Overflow,
    /// One of two compared doubles is not a number.
    Incomparable,
}

type Value<T> = Result<T, Undefined>;

/// What the variables stand for in one score.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    pub(super) urgency: f64,
    pub(super) safety_margin: f64,
    pub(super) social_value: f64,
    pub(super) waited: f64,
    pub(super) class: i64,
    pub(super) slack: f64,
    pub(super) claims: i64,
    pub(super) held: f64,
}

impl Inputs {
    /// What an expression is tried on: a typical intent, a bare one, and one near the upper ends.
    pub(super) const SAMPLES: [Inputs; 3] = [
        Inputs::sample([0.5, 0.25, 0.75], 0.5, [1, 2], [1.0, 3.0]),
        Inputs::sample([0.0, 0.0, 0.0], 0.0, [0, 1], [0.0, 0.0]),
        Inputs::sample([1.0, 1.0, 1.0], 60.0, [7, 64], [3600.0, 60.0]),
    ];

    pub(super) fn new(intent: &Intent, context: &Context<'_>) -> Self {
        let seconds = |us: u64| us as f64 / 1e6;
        Inputs {
            urgency: intent.urgency,
            safety_margin: intent.safety_margin,
            social_value: intent.social_value,
            waited: seconds(context.waited.as_us()),
            class: intent.class.number().into(),
            slack: seconds(intent.slack.as_us()),
            // At most limits::CLAIMS.
            claims: intent.claims.len() as i64,
            held: seconds(context.held.as_us()),
        }
    }

    const fn sample(
        [urgency, safety_margin, social_value]: [f64; 3],
        waited: f64,
        [class, claims]: [i64; 2],
        [slack, held]: [f64; 2],
    ) -> Self {
        Inputs { urgency, safety_margin, social_value, waited, class, slack, claims, held }
    }
}

/// The variable of that name.
pub(super) fn variable(name: &str) -> Option<Term> {
    let double = |read| Some(Term::Double(Double::Variable(read)));
    let int = |read| Some(Term::Int(Int::Variable(read)));
    match name {
        "urgency" => double(|inputs| inputs.urgency),
        "safety_margin" => double(|inputs| inputs.safety_margin),
        "social_value" => double(|inputs| inputs.social_value),
        "waited" => double(|inputs| inputs.waited),
        "class" => int(|inputs| inputs.class),
        "slack" => double(|inputs| inputs.slack),
        "claims" => int(|inputs| inputs.claims),
        "held" => double(|inputs| inputs.held),
        _ => None,
    }
}

/// A term of any kind.
#[derive(Clone, Debug)]
pub(super) enum Term {
    Double(Double),
    Int(Int),
    Bool(Bool),
}

#[derive(Clone, Debug)]
pub(super) enum Double {
    Literal(f64),
    Variable(fn(&Inputs) -> f64),
    FromInt(Box<Int>),
    Negative(Box<Double>),
    Binary(Arithmetic, Box<[Double; 2]>),
    If(Box<(Bool, Double, Double)>),
}

#[derive(Clone, Debug)]
pub(super) enum Int {
    Literal(i64),
    Variable(fn(&Inputs) -> i64),
    /// Towards zero.
    FromDouble(Box<Double>),
    Negative(Box<Int>),
    Binary(Arithmetic, Box<[Int; 2]>),
    Remainder(Box<[Int; 2]>),
    If(Box<(Bool, Int, Int)>),
}

#[derive(Clone, Debug)]
pub(super) enum Bool {
    Literal(bool),
    Not(Box<Bool>),
    And(Box<[Bool; 2]>),
    Or(Box<[Bool; 2]>),
    Doubles(Comparison, Box<[Double; 2]>),
    Ints(Comparison, Box<[Int; 2]>),
    /// Both the same.
    Same(Box<[Bool; 2]>),
    If(Box<(Bool, Bool, Bool)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Double {
    pub(super) fn value(&self, inputs: &Inputs) -> Value<f64> {
        Ok(match self {
            Double::Literal(value) => *value,
            Double::Variable(read) => read(inputs),
            Double::FromInt(int) => int.value(inputs)? as f64,
            Double::Negative(term) => -term.value(inputs)?,
            Double::Binary(operator, terms) => {
                let [a, b] = [terms[0].value(inputs)?, terms[1].value(inputs)?];
                match operator {
                    Arithmetic::Add => a + b,
                    Arithmetic::Subtract => a - b,
                    Arithmetic::Multiply => a * b,
                    Arithmetic::Divide => a / b,
                }
            }
            Double::If(parts) if parts.0.value(inputs)? => parts.1.value(inputs)?,
            Double::If(parts) => parts.2.value(inputs)?,
        })
    }
}

impl Int {
    fn value(&self, inputs: &Inputs) -> Value<i64> {
        match self {
            Int::Literal(value) => Ok(*value),
            Int::Variable(read) => Ok(read(inputs)),
            Int::FromDouble(term) => truncated(term.value(inputs)?),
            Int::Negative(term) => term.value(inputs)?.checked_neg().ok_or(Undefined::Overflow),
            Int::Binary(operator, terms) => {
                let [a, b] = [terms[0].value(inputs)?, terms[1].value(inputs)?];
                let result = match operator {
                    Arithmetic::Add => a.checked_add(b),
                    Arithmetic::Subtract => a.checked_sub(b),
                    Arithmetic::Multiply => a.checked_mul(b),
                    Arithmetic::Divide if b == 0 => return Err(Undefined::DivisionByZero),
                    Arithmetic::Divide => a.checked_div(b),
                };
                result.ok_or(Undefined::Overflow)
            }
            Int::Remainder(terms) => match [terms[0].value(inputs)?, terms[1].value(inputs)?] {
                [_, 0] => Err(Undefined::DivisionByZero),
                [a, b] => a.checked_rem(b).ok_or(Undefined::Overflow),
            },
            Int::If(parts) if parts.0.value(inputs)? => parts.1.value(inputs),
            Int::If(parts) => parts.2.value(inputs),
        }
    }
}

impl Bool {
    fn value(&self, inputs: &Inputs) -> Value<bool> {
        match self {
            Bool::Literal(value) => Ok(*value),
            Bool::Not(term) => Ok(!term.value(inputs)?),
            Bool::And(terms) => match terms[0].value(inputs) {
                Ok(false) => Ok(false),
                first => {
                    if terms[1].value(inputs)? {
                        first
                    } else {
                        Ok(false)
                    }
                }
            },
            Bool::Or(terms) => match terms[0].value(inputs) {
                Ok(true) => Ok(true),
                first => {
                    if terms[1].value(inputs)? {
                        Ok(true)
                    } else {
                        first
                    }
                }
            },
            Bool::Doubles(comparison, terms) => {
                compare(*comparison, terms[0].value(inputs)?, terms[1].value(inputs)?)
            }
            Bool::Ints(comparison, terms) => {
                compare(*comparison, terms[0].value(inputs)?, terms[1].value(inputs)?)
            }
            Bool::Same(terms) => Ok(terms[0].value(inputs)? == terms[1].value(inputs)?),
            Bool::If(parts) if parts.0.value(inputs)? => parts.1.value(inputs),
            Bool::If(parts) => parts.2.value(inputs),
        }
    }
}

/// What is not a number equals nothing, and is neither above nor below anything.
fn compare<T: PartialOrd>(comparison: Comparison, a: T, b: T) -> Value<bool> {
    let order = a.partial_cmp(&b);
    Ok(match comparison {
        Comparison::Equal => order.is_some_and(|order| order.is_eq()),
        Comparison::NotEqual => order.is_none_or(|order| order.is_ne()),
        Comparison::Less => order.ok_or(Undefined::Incomparable)?.is_lt(),
        Comparison::LessOrEqual => order.ok_or(Undefined::Incomparable)?.is_le(),
        Comparison::Greater => order.ok_or(Undefined::Incomparable)?.is_gt(),
        Comparison::GreaterOrEqual => order.ok_or(Undefined::Incomparable)?.is_ge(),
    })
}

/// Towards zero; none where an int might not hold it, both ends excluded as CEL has it.
fn truncated(value: f64) -> Value<i64> {
    const END: f64 = (1u64 << 63) as f64;
    if -END < value && value < END { Ok(value as i64) } else { Err(Undefined::Overflow) }
}
