//! `preclaim audit`: what a state directory holds, read beside a coordinator, in a copy, or after one.
//!
//! Nothing here takes the directory's lock or writes to it, but for `verify --repair-tail`.

mod export;
mod problem;
mod progress;
mod replay;
mod tail;
mod verify;
mod view;
mod why;
mod words;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;
use problem::Problem;
use progress::Progress;

use self::why::of_log;
pub(super) use self::why::{Named, tell};
use super::output::Output;
use super::{ExitCode, output};
use crate::config::Config;
use crate::store::{Archive, RealDisk};
use crate::types::IntentKey;

const EXAMPLE: &str = "\
Examples:
  $ preclaim audit verify /var/lib/preclaim
  $ preclaim audit tail --follow --config preclaim.toml
  $ preclaim audit export --inputs /var/lib/preclaim | preclaim resolve

All of them only read, also beside a running coordinator, which does not notice. A log that is
damaged or differs is told with file and offset, and ends them with code 40.";

/// Look into the audit log: check it, follow it, take it out, decide it again, see it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Tail(tail::Args),
    Verify(verify::Args),
    Export(export::Args),
    Replay(replay::Args),
    Why(why::Args),
    View(view::Args),
}

pub(super) fn run(args: &Args) -> ExitCode {
    let ended = match &args.command {
        Command::Tail(args) => tail::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Export(args) => export::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Why(args) => why::run(args),
        Command::View(args) => view::run(args),
    };
    ended.unwrap_or_else(Problem::say)
}

/// As `preclaim audit why`, of the state directory `dir` or of the one that the configuration `config` names.
pub(super) fn why(
    dir: Option<PathBuf>,
    config: Option<PathBuf>,
    key: &IntentKey,
    output: &Output,
) -> ExitCode {
    of_log(&Place { dir, config }, key, output).unwrap_or_else(Problem::say)
}

/// Which state directory is meant.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Place {
    /// The state directory, or a copy of one
    dir: Option<PathBuf>,
    /// The configuration whose [state] names it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Place {
    fn open(&self) -> Result<Archive, Problem> {
        open(self.dir()?)
    }

    fn dir(&self) -> Result<PathBuf, Problem> {
        if let Some(dir) = &self.dir {
            return Ok(dir.clone());
        }
        let file = self.config.clone().unwrap_or_default();
        let config = Config::load(&file).map_err(|error| Problem::configuration(&error))?;
        let unnamed = || {
            let why = format!("{}: it has no [state] with dir, so that nothing is kept", file.display());
            Problem::configuration(&why)
        };
        config.state.map(|state| state.dir).ok_or_else(unnamed)
    }
}

fn open(dir: PathBuf) -> Result<Archive, Problem> {
    Ok(Archive::open(Arc::new(RealDisk::new(dir)))?)
}

/// What goes on standard error beside the data.
fn note(what: impl std::fmt::Display) {
    output::talk(what);
}
