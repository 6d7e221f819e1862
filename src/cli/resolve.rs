//! `preclaim resolve`: the decision core on a trace, offline.

use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};

use super::{ExitCode, output};
use crate::config::Config;
use crate::trace::{ResolveError, resolve};
use crate::types::Time;

const EXAMPLE: &str = r#"Example:
  $ cat trace.jsonl
  {"at":1200,"agent":"car-7","declare":{"id":1,"claims":[{"path":"dock/3","duration":20000}]}}
  $ preclaim resolve trace.jsonl
  {"slot":0,"at":10000,"agent":"car-7","id":1,"granted":{"start":10000,"end":30000,"token":1}}

All times are whole microseconds. A line that is wrong ends it with code 2,
after the decisions of the slots before it; a configuration that is wrong,
with code 30."#;

/// Decide a trace offline: inputs as JSON lines in, decisions as JSON lines out
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Configuration to decide under; without it, the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Go on at least until this time, in microseconds
    #[arg(long, value_name = "TIME")]
    until: Option<u64>,
    /// The trace; `-` or none is standard input
    input: Option<PathBuf>,
}

pub(super) fn run(args: Args) -> ExitCode {
    let config = match args.config.as_deref().map(Config::load).transpose() {
        Ok(config) => config.unwrap_or_default(),
        Err(error) => {
            output::complain(error);
            return ExitCode::Configuration;
        }
    };
    let path = args.input.as_deref().filter(|path| *path != Path::new("-"));
    let name = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
    let input: Box<dyn Read> = match path.map(File::open).transpose() {
        Ok(None) => Box::new(io::stdin().lock()),
        Ok(Some(file)) => Box::new(file),
        Err(error) => {
            output::complain(format_args!("{name}: {error}"));
            return ExitCode::Usage;
        }
    };
    let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match resolve(config, args.until.map(Time::from_us), input, out) {
        Ok(()) => ExitCode::Done,
        Err(error) => ended(&name, &error),
    }
}

fn ended(name: &str, error: &ResolveError) -> ExitCode {
    match error {
        ResolveError::Write(error) => output::failed(error),
        ResolveError::Line(error) => {
            output::complain(format_args!("{name}, {error}"));
            ExitCode::Usage
        }
        ResolveError::Read(_) => {
            output::complain(format_args!("{name}: {error}"));
            ExitCode::Failure
        }
    }
}
