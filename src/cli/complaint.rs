//! What went wrong, as people read it: what, why, and what to do.

use std::fmt;
use std::io;

use super::ExitCode;
use super::json::Line;
use super::output::{self, Colour, Format};

/// Why a command did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    /// With which code the command ends.
    pub(super) code: ExitCode,
    /// In one line.
    pub(super) what: String,
    /// The reasons, one a line.
    pub(super) why: Vec<String>,
    /// What to do: commands to paste, one a line, each an alternative to the one before.
    pub(super) todo: Vec<String>,
}

impl Complaint {
    pub(super) fn new(code: ExitCode, what: impl Into<String>) -> Self {
        Complaint { code, what: what.into(), why: Vec::new(), todo: Vec::new() }
    }

    /// Adds a reason.
    #[must_use]
    pub(super) fn why(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    /// Adds something to do.
    #[must_use]
    pub(super) fn todo(mut self, todo: impl Into<String>) -> Self {
        self.todo.push(todo.into());
        self
    }

    /// Says it, after its data was printed for a program. People read it in either case: it is talk.
    pub(super) fn beside(&self, format: Format, line: &Line<'_>) -> ExitCode {
        if format == Format::Json {
            match output::print(format_args!("{}\n", output::json(line))) {
                ExitCode::Done => {}
                failed => return failed,
            }
        }
        self.say()
    }

    /// Says it on standard error, and hands on the code.
    pub(super) fn say(&self) -> ExitCode {
        let head = self.code.word();
        let is_conflict = matches!(self.code, ExitCode::Conflict | ExitCode::WaitPassed);
        let colour = if is_conflict { Colour::Yellow } else { Colour::Red };
        let painted = output::painted(head, colour, &io::stderr());
        let text = self.to_string();
        output::talk(format_args!("{painted}{}", text.strip_prefix(head).unwrap_or(&text)));
        self.code
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.word(), self.what)?;
        for why in &self.why {
            write!(f, "\n  why  {why}")?;
        }
        for (at, todo) in self.todo.iter().enumerate() {
            write!(f, "\n  {}   {todo}", if at == 0 { "do" } else { "or" })?;
        }
        Ok(())
    }
}

impl ExitCode {
    /// The word that an ending of this kind begins with.
    fn word(self) -> &'static str {
        match self {
            ExitCode::Conflict | ExitCode::WaitPassed => "conflict",
            ExitCode::Rejected => "rejected",
            ExitCode::Stale => "stale",
            ExitCode::LeaseLost => "lease lost",
            ExitCode::Unknown => "outcome unknown",
            ExitCode::Unreachable => "unreachable",
            ExitCode::Refused => "refused",
            ExitCode::VersionMismatch => "version mismatch",
            ExitCode::Overloaded => "overloaded",
            _ => "error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_why_and_what_to_do_and_then_what_else() {
        let complaint = Complaint::new(ExitCode::Conflict, "a is not free").why("b has it").todo("wait");
        let text = "conflict: a is not free\n  why  b has it\n  do   wait";
        assert_eq!(complaint.to_string(), text);
        assert_eq!(complaint.todo("leave").to_string(), format!("{text}\n  or   leave"));
        assert_eq!(Complaint::new(ExitCode::Failure, "x").to_string(), "error: x");
    }
}
