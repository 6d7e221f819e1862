//! Why a command about the log did not come to its end.

use std::fmt;
use std::io;

use serde::Serialize;

use super::super::{ExitCode, output};
use crate::audit::{BodyError, Record};
use crate::config::ConfigError;
use crate::replay::Unfit;
use crate::store::{Found, OpenError};

/// See the module's documentation.
#[derive(Debug)]
pub(super) enum Problem {
    /// The log or the directory.
    Log(OpenError),
    /// A record or a snapshot that does not fit what comes before it.
    Unfit(Unfit),
    /// A configuration, or the rules in the log.
    Configuration(String),
    /// The data could not be written; see [`output::failed`].
    Output(io::Error),
    /// The command line asks for what is not there.
    Usage(String),
}

/// Where a log is damaged, as programs read it.
#[derive(Debug, Serialize)]
pub(super) struct Damaged {
    pub(super) file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) offset: Option<u64>,
    pub(super) why: String,
}

impl Problem {
    pub(super) fn configuration(why: &impl fmt::Display) -> Self {
        Problem::Configuration(why.to_string())
    }

    /// Where the log is damaged; `None` where it is something else.
    pub(super) fn damaged(&self) -> Option<Damaged> {
        match self {
            Problem::Log(OpenError::Damaged { file, damage }) => {
                let (file, why) = (file.clone(), damage.what.to_string());
                Some(Damaged { file, offset: Some(damage.offset), why })
            }
            Problem::Log(OpenError::Missing { file, .. }) => {
                Some(Damaged { file: file.clone(), offset: None, why: "it is missing".to_owned() })
            }
            Problem::Log(OpenError::Unreadable { file, why }) => {
                Some(Damaged { file: file.clone(), offset: None, why: why.clone() })
            }
            Problem::Unfit(Unfit { file, offset, why }) => {
                Some(Damaged { file: file.clone(), offset: Some(*offset), why: why.clone() })
            }
            _ => None,
        }
    }

    /// Whether it was the segment that was to be read next, which is not there any more.
    pub(super) fn is_removed(&self) -> bool {
        match self {
            Problem::Log(OpenError::Missing { .. }) => true,
            Problem::Log(OpenError::Disk(fault)) => fault.error.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Says it on standard error; how the command ends.
    pub(super) fn say(self) -> ExitCode {
        match self {
            Problem::Log(error) => {
                output::complain(&error);
                match error {
                    OpenError::Locked { .. } | OpenError::Disk(_) => ExitCode::Failure,
                    OpenError::Empty { .. } | OpenError::Foreign { .. } => ExitCode::Usage,
                    OpenError::Newer { .. } => ExitCode::Configuration,
                    _ => ExitCode::AuditDiffers,
                }
            }
            Problem::Unfit(unfit) => {
                output::complain(format_args!(
                    "{unfit}\n  do      put the file back from a copy; nothing was changed"
                ));
                ExitCode::AuditDiffers
            }
            Problem::Configuration(why) => {
                output::complain(why);
                ExitCode::Configuration
            }
            Problem::Output(error) => output::failed(&error),
            Problem::Usage(why) => {
                output::complain(why);
                ExitCode::Usage
            }
        }
    }
}

impl From<OpenError> for Problem {
    /// What a command gave back for a record itself is told as that.
    fn from(error: OpenError) -> Self {
        let OpenError::Rejected(why) = error else { return Problem::Log(error) };
        let why = match why.downcast::<Unfit>() {
            Ok(unfit) => return Problem::Unfit(*unfit),
            Err(why) => why,
        };
        let why = match why.downcast::<ConfigError>() {
            Ok(error) => return Problem::configuration(&format_args!("the rules in the log: {error}")),
            Err(why) => why,
        };
        match why.downcast::<io::Error>() {
            Ok(error) => Problem::Output(*error),
            Err(why) => Problem::Log(OpenError::Rejected(why)),
        }
    }
}

/// The record that was found.
pub(super) fn decoded(found: &Found<'_>) -> Result<Record, Unfit> {
    let unfit = |error: BodyError| Unfit {
        file: found.file.to_owned(),
        offset: found.entry.offset,
        why: error.to_string(),
    };
    Record::decode(found.entry.body).map(|(record, _)| record).map_err(unfit)
}
