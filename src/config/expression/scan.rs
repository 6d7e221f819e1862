//! What is checked before a parser sees the text: its length, its characters, its brackets and the
//! number of its operators. They bound the tree that comes of it, and the stack that it takes.

use super::error::Refusal;
use crate::limits;

/// The text with its comments blanked out, so that it is ASCII and every byte is where it was.
pub(super) fn scan(source: &str) -> Result<String, Refusal> {
    if source.len() > limits::EXPRESSION_BYTES {
        let (has, most) = (source.len(), limits::EXPRESSION_BYTES);
        return Err(Refusal::whole(format!("it has {has} bytes; at most {most} may be")));
    }
    let text = without_comments(source);
    let mut open = Vec::new();
    let mut operators = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => opens(&mut open, at)?,
            ')' | ']' | '}' => closes(&mut open, &text, at, c)?,
            '"' | '\'' => return Err(Refusal::at(at, "a text has no place in a score")),
            _ if !c.is_ascii() || (c.is_control() && !c.is_whitespace()) => {
                return Err(Refusal::at(at, format!("`{}` may not stand here", c.escape_debug())));
            }
            _ if is_operator(text.as_bytes(), at) => operators += 1,
            _ => {}
        }
        if operators > limits::EXPRESSION_OPERATORS {
            let most = limits::EXPRESSION_OPERATORS;
            return Err(Refusal::at(at, format!("too many operators: at most {most} may be")));
        }
    }
    match open.pop() {
        Some(at) => Err(Refusal::at(at, "this bracket is never closed")),
        None if text.trim().is_empty() => Err(Refusal::whole("it is empty")),
        None => Ok(text),
    }
}

/// `//` to the end of the line, each byte replaced by a blank. No text can hold a `//`: there are no
/// texts.
fn without_comments(source: &str) -> String {
    let blank = |line: &str| match line.split_once("//") {
        None => line.to_owned(),
        Some((code, comment)) => {
            let end = if comment.ends_with('\n') { "\n" } else { "" };
            let blanks = " ".repeat(line.len() - code.len() - end.len());
            format!("{code}{blanks}{end}")
        }
    };
    source.split_inclusive('\n').map(blank).collect()
}

fn opens(open: &mut Vec<usize>, at: usize) -> Result<(), Refusal> {
    if open.len() == limits::EXPRESSION_NESTING {
        let most = limits::EXPRESSION_NESTING;
        return Err(Refusal::at(
            at,
            format!("nested too deeply: at most {most} brackets in each other may be"),
        ));
    }
    open.push(at);
    Ok(())
}

fn closes(open: &mut Vec<usize>, text: &str, at: usize, close: char) -> Result<(), Refusal> {
    let opened = open.pop().and_then(|opened| text.get(opened..)).and_then(|rest| rest.chars().next());
    match (opened, close) {
        (Some('('), ')') | (Some('['), ']') | (Some('{'), '}') => Ok(()),
        (Some(opened), _) => Err(Refusal::at(at, format!("`{close}` does not close `{opened}`"))),
        (None, _) => Err(Refusal::at(at, format!("`{close}` closes nothing"))),
    }
}

/// Whether an operator starts here: each may be one more level of the tree. The second character of
/// `&&` and the like starts none, and a dot within a number is none.
fn is_operator(text: &[u8], at: usize) -> bool {
    let byte = |at: usize| text.get(at).copied().unwrap_or_default();
    let before = at.checked_sub(1).map_or(0, byte);
    match byte(at) {
        b'+' | b'-' | b'*' | b'/' | b'%' | b'?' | b'!' | b'<' | b'>' => true,
        b'&' => before != b'&',
        b'|' => before != b'|',
        b'=' => !matches!(before, b'=' | b'!' | b'<' | b'>'),
        b'.' => !byte(at + 1).is_ascii_digit(),
        _ => false,
    }
}
