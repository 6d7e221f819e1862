//! What the suite found, for the person who wrote the model.

use std::fmt;

use super::Asking;

/// One thing that a priority model must not do.
#[derive(Clone, Debug, PartialEq)]
pub enum Violation {
    /// It panicked.
    Panicked {
        /// The arguments, in words.
        case: String,
        /// What the panic said.
        message: String,
    },
    /// Its score was not finite on ordinary arguments.
    NotFinite {
        /// The arguments, in words.
        case: String,
        /// NaN or an infinity.
        score: f64,
    },
    /// It gave two scores for the same arguments.
    Unstable {
        /// The arguments, in words.
        case: String,
        /// How it was asked the second time.
        asking: Asking,
        /// The score at first.
        first: f64,
        /// The score then.
        again: f64,
    },
}

impl Violation {
    /// The arguments on which it happened, in words.
    pub fn case(&self) -> &str {
        match self {
            Violation::Panicked { case, .. }
            | Violation::NotFinite { case, .. }
            | Violation::Unstable { case, .. } => case,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Panicked { case, message } => write!(f, "panicked ({message}) on {case}"),
            Violation::NotFinite { case, score } => {
                write!(f, "scored {score:?}, which ranks lowest, on {case}")
            }
            Violation::Unstable { case, asking, first, again } => {
                write!(f, "scored {first:?} at first, and {again:?} when asked {asking}, on {case}")
            }
        }
    }
}

impl fmt::Display for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Asking::AtOnce => "again at once",
            Asking::Backwards => "in the opposite order",
            Asking::Interleaved => "between questions about others",
            Asking::Copied => "with equal arguments elsewhere in memory",
            Asking::Elsewhere => "of another model, made in the same way",
        })
    }
}

/// What is wrong with a model; at least one violation. `Debug` prints the same as `Display`, so that
/// an `unwrap` in a test is readable.
#[derive(Clone, PartialEq)]
pub struct Violations(pub(super) Vec<Violation>);

impl Violations {
    /// Each of them, in the order in which they were found.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Violation> {
        self.0.iter()
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Enough to see the pattern.
        const SHOWN: usize = 8;
        write!(f, "the priority model")?;
        for violation in self.0.iter().take(SHOWN) {
            write!(f, "\n- {violation}")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n- and {more} more"),
        }
    }
}

impl fmt::Debug for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Violations {}
