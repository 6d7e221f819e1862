//! What is wrong with an expression, and at which character.

use std::fmt;

/// What is wrong, at a byte of the text.
#[derive(Debug)]
pub(super) struct Refusal {
    at: Option<usize>,
    message: String,
    nearest: Option<String>,
}

impl Refusal {
    pub(super) fn at(at: usize, message: impl Into<String>) -> Self {
        Refusal { at: Some(at), message: message.into(), nearest: None }
    }

    /// Wrong as a whole.
    pub(super) fn whole(message: impl Into<String>) -> Self {
        Refusal { at: None, message: message.into(), nearest: None }
    }

    pub(super) fn with_nearest(self, nearest: Option<String>) -> Self {
        Refusal { nearest, ..self }
    }

    /// The first thing that the parser could not read, in our own words: the crate's are a list of the
    /// tokens of its grammar.
    pub(super) fn syntax(text: &str, errors: &cel::ParseErrors) -> Self {
        const SYNTAX: &str = "Syntax error";
        // What follows from an error may stand before it: a conditional that is never ended is told
        // of at its start too.
        let first = errors.errors.iter().find(|error| error.msg.starts_with(SYNTAX));
        let Some(error) = first.or(errors.errors.first()) else {
            return Refusal::whole("it is no expression");
        };
        let at = offset(text, error.pos);
        let message = match text.get(at..).map(first_word) {
            _ if !error.msg.starts_with(SYNTAX) => error.msg.clone(),
            None | Some("") => "it ends where something must follow".to_owned(),
            Some(word) => format!("`{word}` may not stand here"),
        };
        Refusal::at(at, message)
    }
}

/// An expression that cannot be used. Its message has what is wrong, and where: line, column, and
/// the line itself with a mark below the character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    line: usize,
    column: usize,
    message: String,
    nearest: Option<String>,
}

impl ExpressionError {
    pub(super) fn new(source: &str, refusal: Refusal) -> Self {
        let Refusal { at, message, nearest } = refusal;
        let Some(at) = at else { return ExpressionError { line: 1, column: 1, message, nearest } };
        let before = source.get(..at).unwrap_or(source);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        let (shown, mark) = excerpt(source.split('\n').nth(line - 1).unwrap_or_default(), column);
        let message = format!("line {line}, column {column}: {message}\n    {shown}\n    {mark}");
        ExpressionError { line, column, message, nearest }
    }

    /// The line within the expression, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The character of the line, from 1; one past the last where the expression ends too early.
    pub fn column(&self) -> usize {
        self.column
    }

    /// The known name that is nearest to an unknown one, where one is near.
    pub fn nearest(&self) -> Option<&str> {
        self.nearest.as_deref()
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExpressionError {}

/// The part of a line around a column, and the mark below it.
fn excerpt(line: &str, column: usize) -> (String, String) {
    const BEFORE: usize = 48; // with as much after it, the excerpt fits a terminal
    let skipped = column.saturating_sub(BEFORE + 1);
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = line.chars().skip(skipped).take(BEFORE + 24).map(visible).collect();
    (shown, format!("{}^", " ".repeat(column - 1 - skipped)))
}

/// The byte at a line and column, both from 1, of a text in ASCII.
fn offset(text: &str, (line, column): (isize, isize)) -> usize {
    let [line, column] = [line, column].map(|from_1| usize::try_from(from_1 - 1).unwrap_or(0));
    let before: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    (before + column).min(text.len())
}

/// A name or number, or one character; empty at the end.
fn first_word(text: &str) -> &str {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = match text.find(|c| !is_word(c)) {
        Some(0) => text.chars().next().map_or(0, char::len_utf8),
        Some(end) => end,
        None => text.len(),
    };
    text.get(..end).unwrap_or_default().trim()
}
