//! From the tree that the crate parsed to a term: types are checked, and what has no place in a
//! score is refused at the character where it stands.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};

use super::error::Refusal;
use super::term::{Arithmetic, Bool, Comparison, Double, Int, Term, variable};
use super::{Parsed, VARIABLES};
use crate::config::tree::{nearest, printable};

const FUNCTIONS: [&str; 2] = ["double", "int"];

/// The score that a parsed text stands for.
pub(super) fn lower(text: &str, (root, places): &Parsed) -> Result<Double, Refusal> {
    let lowering = Lowering { text, places };
    let score = lowering.number(root)?;
    Ok(score.into_double())
}

struct Lowering<'a> {
    text: &'a str,
    places: &'a SourceInfo,
}

// The depth of these calls is bounded by what `scan` lets through.
impl Lowering<'_> {
    fn term(&self, node: &IdedExpr) -> Result<Term, Refusal> {
        match &node.expr {
            Expr::Literal(literal) => self.literal(node, literal),
            Expr::Ident(name) => variable(name).ok_or_else(|| self.unknown_variable(node, name)),
            Expr::Call(call) if call.target.is_none() => self.call(node, call),
            _ => Err(self.no_place(node)),
        }
    }

    fn literal(&self, node: &IdedExpr, literal: &LiteralValue) -> Result<Term, Refusal> {
        match literal {
            LiteralValue::Boolean(value) => Ok(Term::Bool(Bool::Literal(*value.inner()))),
            LiteralValue::Double(value) => Ok(Term::Double(Double::Literal(*value.inner()))),
            LiteralValue::Int(value) => Ok(Term::Int(Int::Literal(*value.inner()))),
            LiteralValue::UInt(_) => {
                Err(self.refuse(node, "unsigned numbers have no place in a score; leave the `u` away"))
            }
            LiteralValue::Bytes(_) | LiteralValue::Null | LiteralValue::String(_) => Err(self.no_place(node)),
        }
    }

    fn call(&self, node: &IdedExpr, call: &CallExpr) -> Result<Term, Refusal> {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, then, otherwise]) => {
                self.conditional(condition, then, otherwise)
            }
            (operators::LOGICAL_AND, [a, b]) => Ok(Term::Bool(Bool::And(self.bools(a, b)?))),
            (operators::LOGICAL_OR, [a, b]) => Ok(Term::Bool(Bool::Or(self.bools(a, b)?))),
            (operators::LOGICAL_NOT, [a]) => Ok(Term::Bool(Bool::Not(Box::new(self.bool(a)?)))),
            (operators::NEGATE, [a]) => Ok(match self.number(a)? {
                Number::Double(a) => Term::Double(Double::Negative(Box::new(a))),
                Number::Int(a) => Term::Int(Int::Negative(Box::new(a))),
            }),
            (operators::MODULO, [a, b]) => {
                Ok(Term::Int(Int::Remainder(Box::new([self.int(a)?, self.int(b)?]))))
            }
            ("double", [a]) => Ok(Term::Double(self.number(a)?.into_double())),
            ("int", [a]) => Ok(Term::Int(match self.number(a)? {
                Number::Double(a) => Int::FromDouble(Box::new(a)),
                Number::Int(a) => a,
            })),
            (_, [a, b]) if let Some(operator) = arithmetic(name) => {
                Ok(match pair(self.number(a)?, self.number(b)?) {
                    Pair::Doubles(terms) => Term::Double(Double::Binary(operator, terms)),
                    Pair::Ints(terms) => Term::Int(Int::Binary(operator, terms)),
                })
            }
            (_, [a, b]) if let Some(comparison) = comparison(name) => self.comparison(comparison, a, b),
            _ => Err(self.unknown_call(node, call)),
        }
    }

    fn conditional(
        &self,
        condition: &IdedExpr,
        then: &IdedExpr,
        otherwise: &IdedExpr,
    ) -> Result<Term, Refusal> {
        let condition = self.bool(condition)?;
        // Each once: a conditional in a conditional would else double the work at every level.
        let (first, second) = (self.term(then)?, self.term(otherwise)?);
        Ok(match (first, second) {
            (Term::Bool(first), Term::Bool(second)) => {
                Term::Bool(Bool::If(Box::new((condition, first, second))))
            }
            (Term::Bool(_), _) => return Err(self.refuse(otherwise, "found a number beside a bool")),
            (_, Term::Bool(_)) => return Err(self.refuse(otherwise, "found a bool beside a number")),
            (Term::Int(first), Term::Int(second)) => Term::Int(Int::If(Box::new((condition, first, second)))),
            (first, second) => {
                let [first, second] = [self.as_number(then, first)?, self.as_number(otherwise, second)?];
                Term::Double(Double::If(Box::new((condition, first.into_double(), second.into_double()))))
            }
        })
    }

    fn comparison(&self, comparison: Comparison, a: &IdedExpr, b: &IdedExpr) -> Result<Term, Refusal> {
        let (first, second) = (self.term(a)?, self.term(b)?);
        Ok(Term::Bool(match (first, second, comparison) {
            (Term::Bool(first), Term::Bool(second), Comparison::Equal) => {
                Bool::Same(Box::new([first, second]))
            }
            (Term::Bool(first), Term::Bool(second), Comparison::NotEqual) => {
                Bool::Not(Box::new(Bool::Same(Box::new([first, second]))))
            }
            (first, second, _) => match pair(self.as_number(a, first)?, self.as_number(b, second)?) {
                Pair::Doubles(terms) => Bool::Doubles(comparison, terms),
                Pair::Ints(terms) => Bool::Ints(comparison, terms),
            },
        }))
    }

    fn bools(&self, a: &IdedExpr, b: &IdedExpr) -> Result<Box<[Bool; 2]>, Refusal> {
        Ok(Box::new([self.bool(a)?, self.bool(b)?]))
    }

    fn bool(&self, node: &IdedExpr) -> Result<Bool, Refusal> {
        match self.term(node)? {
            Term::Bool(term) => Ok(term),
            Term::Int(_) | Term::Double(_) => {
                Err(self.refuse(node, "found a number where a bool must stand, such as `class > 0`"))
            }
        }
    }

    fn int(&self, node: &IdedExpr) -> Result<Int, Refusal> {
        match self.number(node)? {
            Number::Int(term) => Ok(term),
            Number::Double(_) => {
                Err(self.refuse(node, "found a double where an int must stand; int() makes one"))
            }
        }
    }

    fn number(&self, node: &IdedExpr) -> Result<Number, Refusal> {
        self.as_number(node, self.term(node)?)
    }

    fn as_number(&self, node: &IdedExpr, term: Term) -> Result<Number, Refusal> {
        match term {
            Term::Int(term) => Ok(Number::Int(term)),
            Term::Double(term) => Ok(Number::Double(term)),
            Term::Bool(_) => {
                Err(self.refuse(node, "found a bool where a number must stand; `it ? 1 : 0` makes one"))
            }
        }
    }

    fn refuse(&self, node: &IdedExpr, message: impl Into<String>) -> Refusal {
        let start = self.places.offset_for(node.id).map(|(start, _)| start as usize);
        match start {
            Some(start) => Refusal::at(start, message),
            None => Refusal::whole(message),
        }
    }

    fn no_place(&self, node: &IdedExpr) -> Refusal {
        self.refuse(
            node,
            "only numbers, true and false, variables, operators, int() and double() have a place in a score",
        )
    }

    fn unknown_variable(&self, node: &IdedExpr, name: &str) -> Refusal {
        let known = VARIABLES.map(|(name, _, _)| name);
        let message = format!("there is no variable `{}`", printable(name));
        self.refuse(node, message).with_nearest(nearest(name, &known))
    }

    fn unknown_call(&self, node: &IdedExpr, call: &CallExpr) -> Refusal {
        let name = call.func_name.as_str();
        if FUNCTIONS.contains(&name) {
            return self.refuse(node, format!("{name}() takes one number"));
        }
        // What the crate calls an operator is no name that anyone wrote.
        if name.starts_with(|c: char| !c.is_ascii_alphabetic()) {
            return self.no_place(node);
        }
        // The crate places a call at its bracket; the name stands before it.
        let bracket = self.places.offset_for(node.id).map(|(start, _)| start as usize);
        let start =
            bracket.and_then(|bracket| self.text.get(..bracket)).and_then(|before| before.rfind(name));
        let message = format!("there is no function `{}`", printable(name));
        let refusal = match start {
            Some(start) => Refusal::at(start, message),
            None => self.refuse(node, message),
        };
        refusal.with_nearest(nearest(name, &FUNCTIONS))
    }
}

/// A term that is a number.
enum Number {
    Double(Double),
    Int(Int),
}

impl Number {
    fn into_double(self) -> Double {
        match self {
            Number::Double(term) => term,
            Number::Int(term) => Double::FromInt(Box::new(term)),
        }
    }
}

/// Two numbers, brought to one kind: where an int and a double meet, the int becomes a double.
enum Pair {
    Doubles(Box<[Double; 2]>),
    Ints(Box<[Int; 2]>),
}

fn pair(a: Number, b: Number) -> Pair {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => Pair::Ints(Box::new([a, b])),
        (a, b) => Pair::Doubles(Box::new([a.into_double(), b.into_double()])),
    }
}

fn arithmetic(name: &str) -> Option<Arithmetic> {
    Some(match name {
        operators::ADD => Arithmetic::Add,
        operators::SUBSTRACT => Arithmetic::Subtract,
        operators::MULTIPLY => Arithmetic::Multiply,
        operators::DIVIDE => Arithmetic::Divide,
        _ => return None,
    })
}

fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        operators::EQUALS => Comparison::Equal,
        operators::NOT_EQUALS => Comparison::NotEqual,
        operators::LESS => Comparison::Less,
        operators::LESS_EQUALS => Comparison::LessOrEqual,
        operators::GREATER => Comparison::Greater,
        operators::GREATER_EQUALS => Comparison::GreaterOrEqual,
        _ => return None,
    })
}
