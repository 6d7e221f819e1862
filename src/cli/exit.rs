//! Exit codes: one meaning each, the same for every command.

use super::output;

/// How a command ended. Scripts rely on the numbers: none is ever given another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done, or granted.
    Done = 0,
    /// An unexpected failure.
    Failure = 1,
    /// The command line or the input is not right.
    Usage = 2,
    /// The intent conflicts.
    Conflict = 10,
    /// The wait passed.
    WaitPassed = 11,
    /// The intent was rejected.
    Rejected = 12,
    /// The reading that the intent rests on is stale.
    Stale = 13,
    /// The lease was lost while the command ran.
    LeaseLost = 14,
    /// Nobody knows what came of it.
    Unknown = 15,
    /// The coordinator cannot be reached.
    Unreachable = 20,
    /// The coordinator refused the connection.
    Refused = 21,
    /// Client and coordinator speak different versions.
    VersionMismatch = 22,
    /// The coordinator has too much to do.
    Overloaded = 23,
    /// The configuration is invalid.
    Configuration = 30,
    /// The audit log is damaged or differs.
    AuditDiffers = 40,
    /// A threshold failed, or a host is not fit.
    ThresholdFailed = 99,
}

/// The table that `preclaim help exit-codes` prints.
const TABLE: &str = "\
Exit codes of every command:

   0  done or granted
   1  unexpected failure
   2  usage: the command line or the input is not right
  10  conflict
  11  the wait passed
  12  rejected (the reason says why: invalid, too late, over capacity, ...)
  13  stale
  14  lease lost while the command ran (hold)
  15  outcome unknown: ask again with the same id
  20  coordinator unreachable
  21  refused (certificate, identity, rights)
  22  version mismatch
  23  overloaded; the message says when to come back
  30  configuration invalid
  40  the audit log is damaged or differs
  99  a threshold failed (bench --fail 'p99>12ms'), or the host is not fit (doctor)

hold ends with its command's own code, unless the lease was not had or was lost. Of the command:
 126  it cannot be run
 127  not found
 128+N  ended by signal N";

/// What the exit codes mean
#[derive(Debug, clap::Args)]
#[command(help_template = "{after-help}", after_help = TABLE)]
pub(super) struct Args {}

pub(super) fn run(Args {}: Args) -> ExitCode {
    output::print(format_args!("{TABLE}\n"))
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        std::process::ExitCode::from(code as u8)
    }
}
