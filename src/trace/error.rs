//! What is wrong with a line of a trace, for the person who wrote it.

use std::fmt;

use super::json::{JsonError, OBJECT_FIELDS, Problem, raw_at};
use crate::config::{Fault, FieldPath, printable};

/// A line of a trace that cannot be read: its message names the line, the field, what was found
/// there and what may stand there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    line: u64,
    message: String,
}

impl TraceError {
    /// The number of the line, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The line itself is unfit, whatever its fields.
    pub(super) fn unfit(line: u64, found: &str, expected: impl fmt::Display) -> Self {
        TraceError { line, message: format!("found {}\n  may be  {expected}", printable(found)) }
    }

    /// The line is no JSON object.
    pub(super) fn json(line: u64, text: &str, wrong: &JsonError) -> Self {
        let field = &wrong.field;
        let message = match (&wrong.problem, raw_at(text, field)) {
            (Problem::Twice, _) => format!("field `{field}`: found it twice\n  may be  there once"),
            (Problem::Crowded, _) => {
                format!(
                    "field `{field}`: found too many fields beside it\n  may be  one of up to {OBJECT_FIELDS}"
                )
            }
            // JSON all the same, so that the number there is just too large; for text, its escapes.
            (Problem::Syntax(_), Some(number))
                if number.starts_with(|c: char| c == '-' || c.is_ascii_digit()) =>
            {
                let number = printable(number);
                format!("{}found {number}\n  may be  a number that binary64 holds", of_field(field))
            }
            (Problem::Syntax(error), raw) => {
                no_json(field, error, raw.unwrap_or_else(|| tail(text, error.column())))
            }
        };
        TraceError { line, message }
    }

    /// A field of the line is wrong.
    pub(super) fn fault(line: u64, text: &str, fault: &Fault) -> Self {
        let found = raw_at(text, &fault.field).unwrap_or("nothing");
        TraceError { line, message: fault.explain(found) }
    }
}

const END_OF_LINE: &str = "the end of the line";

fn no_json(field: &FieldPath, error: &serde_json::Error, found: &str) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let what = error.to_string();
    let what = what.strip_suffix(&place).unwrap_or(&what);
    let found = if error.is_eof() { END_OF_LINE } else { found };
    let (of, column, found) = (of_field(field), error.column(), printable(found));
    format!("{of}found {found}\n  may be  one JSON object; at byte {column} it is none: {what}")
}

fn of_field(field: &FieldPath) -> String {
    if field.is_root() { String::new() } else { format!("field `{field}`: ") }
}

/// The text from the character at `column` on, counted in bytes from 1, or all of it where it goes
/// wrong at once.
fn tail(text: &str, column: usize) -> &str {
    let start = if column <= 2 { 0 } else { column };
    let at = (0..start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    match text.get(at..) {
        Some(rest) if !rest.trim_ascii().is_empty() => rest,
        _ => END_OF_LINE,
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for TraceError {}
