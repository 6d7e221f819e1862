//! What may be wrong with a state directory, and what whoever reads it can do.

use std::fmt;
use std::io;

use crate::audit::{Damage, FORMAT_VERSION};

/// A call of the disk that failed.
#[derive(Debug)]
pub struct Fault {
    /// What was being done, as in "cannot *sync*".
    pub doing: &'static str,
    /// The file.
    pub file: String,
    /// What the system said.
    pub error: io::Error,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.file, self.error)
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Says of a disk's answer which call it was.
pub(super) fn fault(doing: &'static str, file: impl Into<String>) -> impl FnOnce(io::Error) -> Fault {
    move |error| Fault { doing, file: file.into(), error }
}

/// A state directory that cannot be used as it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it.
    Locked {
        /// The directory.
        place: String,
    },
    /// It holds nothing, and was not to be begun.
    Empty {
        /// The directory.
        place: String,
    },
    /// It was to be begun, and holds a log already.
    NotEmpty {
        /// The directory.
        place: String,
    },
    /// It holds what is none of a state directory's.
    Foreign {
        /// The directory.
        place: String,
        /// The first such file.
        file: String,
    },
    /// A later version wrote it.
    Newer {
        /// The file that says so.
        file: String,
        /// The version.
        version: u16,
    },
    /// A file is not there without which the log has a gap.
    Missing {
        /// The directory.
        place: String,
        /// The file.
        file: String,
    },
    /// A segment is damaged.
    Damaged {
        /// The segment's file.
        file: String,
        /// Where, and what is wrong.
        damage: Damage,
    },
    /// A small file or a snapshot is damaged, and nothing stands in for it.
    Unreadable {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A call of the disk failed.
    Disk(Fault),
    /// Who was given what the log holds would not have it.
    Rejected(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Locked { place } => write!(
                f,
                "{place}: another coordinator has this state directory\n  do      stop that one, or give this one a directory of its own"
            ),
            OpenError::Empty { place } => write!(
                f,
                "{place}: the state directory is empty, so that tokens given before would be given again\n  do      if no agent ever had a token, start with --new; else put the directory back, or start with --token-floor N, above all tokens given: docs/COMMAND_LINE.md says how to find N, and what to wait for"
            ),
            OpenError::NotEmpty { place } => write!(
                f,
                "{place}: the state directory is to be begun anew, and holds a log\n  do      start without --new to go on with it, or name an empty directory"
            ),
            OpenError::Foreign { place, file } => write!(
                f,
                "{place}: {file} is no file of a state directory\n  do      name a directory that is used for nothing else"
            ),
            OpenError::Newer { file, version } => write!(
                f,
                "{file}: its format has version {version}, this program reads up to {FORMAT_VERSION}\n  do      start the version that wrote it, or a later one"
            ),
            OpenError::Missing { place, file } => write!(
                f,
                "{place}: {file} is missing, without which there is a gap in the log\n  do      put it back from a copy; nothing was changed"
            ),
            OpenError::Damaged { file, damage } => write!(
                f,
                "{file}, offset {}: {}; it was whole once, so that decisions may be lost that agents have seen\n  do      put this very file back, not one of an earlier day; without it, docs/COMMAND_LINE.md says how to begin anew; nothing was changed",
                damage.offset, damage.what
            ),
            OpenError::Unreadable { file, why } => {
                write!(f, "{file}: {why}\n  do      put the file back from a copy; nothing was changed")
            }
            OpenError::Disk(fault) => {
                write!(f, "{fault}\n  do      see to the disk and its permissions, then start again")
            }
            OpenError::Rejected(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        OpenError::Disk(fault)
    }
}
