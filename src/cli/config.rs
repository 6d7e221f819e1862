//! `preclaim config`: a configuration to start from, what one means, and whether it is right.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::{ExitCode, may, output};
use crate::config::{Auth, Config, TEMPLATE};

/// Print a configuration to start from, show or check one
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  $ preclaim config init > preclaim.toml\n  $ preclaim config check preclaim.toml"
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a whole configuration: every key, with its default and what it means
    #[command(after_help = "Example:\n  $ preclaim config init > preclaim.toml")]
    Init,
    /// Print a configuration with all that it leaves out filled in
    #[command(after_help = "Example:\n  $ preclaim config show preclaim.toml")]
    Show {
        /// The file
        #[arg(default_value = FILE)]
        file: PathBuf,
    },
    /// Check a configuration; says what is wrong, and ends with code 30. With --as, what its rules let an agent claim,
    /// and why; ends with 21 where that is forbidden
    #[command(after_help = CHECK)]
    Check(Box<may::Args>),
}

const CHECK: &str = "\
Examples:
  $ preclaim config check preclaim.toml
  preclaim.toml is right
  $ preclaim config check --as robot-7 aisle/4 --for 10s --class 7
  $ preclaim config check --as robot-7               # all rules about that name, in order";

/// The configuration that is meant where none is named.
const FILE: &str = "preclaim.toml";

pub(super) fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Init => output::print(format_args!("{TEMPLATE}")),
        Command::Show { file } => with(&file, |config| output::print(format_args!("{}", config.to_toml()))),
        Command::Check(args) => check(&args),
    }
}

fn check(args: &may::Args) -> ExitCode {
    let file = match args.file(FILE) {
        Ok(file) => file,
        Err(complaint) => return complaint.say(),
    };
    with(&file, |config| match args.name() {
        Some(name) => may::tell(args, name, config),
        None => {
            let is_unknown = matches!(config.auth, Auth::Certificate { client_ca: None, .. });
            let lacks = [
                (config.tls.is_none(), "[tls]"),
                (is_unknown, "[auth] client_ca"),
                (config.state.is_none(), "[state]"),
            ];
            let lacks: Vec<&str> = lacks.into_iter().filter_map(|(lacks, it)| lacks.then_some(it)).collect();
            if !lacks.is_empty() {
                output::talk(format_args!(
                    "for `dev` and `resolve`; `serve` needs {} too",
                    lacks.join(" and ")
                ));
            }
            output::print(format_args!("{} is right\n", file.display()))
        }
    })
}

fn with(file: &Path, then: impl FnOnce(&Config) -> ExitCode) -> ExitCode {
    match Config::load(file) {
        Ok(config) => then(&config),
        Err(error) => {
            output::complain(error);
            ExitCode::Configuration
        }
    }
}
