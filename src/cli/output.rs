//! What commands print, and how they end when it cannot be printed.

use std::fmt;
use std::io::{self, Write};

use super::ExitCode;

/// Prints data.
pub(super) fn print(data: fmt::Arguments<'_>) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_fmt(data).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::Done,
        Err(error) => failed(&error),
    }
}

/// How a command ends that could not write its data: quietly, where its reader has gone.
pub(super) fn failed(error: &io::Error) -> ExitCode {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return ExitCode::Done;
    }
    complain(format_args!("standard output: {error}"));
    ExitCode::Failure
}

/// Says what is wrong.
pub(super) fn complain(what: impl fmt::Display) {
    // Where nobody can be told, the exit code still tells.
    let _ = writeln!(io::stderr(), "error: {what}");
}

/// Says what is going on.
pub(super) fn talk(what: impl fmt::Display) {
    // As above: talk is no data, and nobody waits for it.
    let _ = writeln!(io::stderr(), "{what}");
}

/// Sends the log to standard error: warnings, unless `PRECLAIM_LOG` asks for more.
pub(super) fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PRECLAIM_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // Where a log is set up already, that one stays.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).try_init();
}
