//! `preclaim config`: a configuration to start from, and whether one is right.

use std::path::PathBuf;

use clap::Subcommand;

use super::{ExitCode, output};
use crate::config::{Config, TEMPLATE};

/// Print a configuration to start from, or check one
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
    /// Check a configuration; says what is wrong, and ends with code 30
    #[command(after_help = "Example:\n  $ preclaim config check preclaim.toml\n  preclaim.toml is right")]
    Check {
        /// The file
        #[arg(default_value = "preclaim.toml")]
        file: PathBuf,
    },
}

pub(super) fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Init => output::print(format_args!("{TEMPLATE}")),
        Command::Check { file } => match Config::load(&file) {
            Ok(_) => output::print(format_args!("{} is right\n", file.display())),
            Err(error) => {
                output::complain(error);
                ExitCode::Configuration
            }
        },
    }
}
