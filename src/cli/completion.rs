//! `preclaim completion`: scripts that complete the command line in a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, ExitCode, output};

/// Print the script that completes preclaim's command line
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  $ preclaim completion bash > ~/.local/share/bash-completion/completions/preclaim"
)]
pub(super) struct Args {
    /// For which shell
    shell: Shell,
}

pub(super) fn run(args: Args) -> ExitCode {
    let mut script = Vec::new(); // clap_complete panics where a write fails, as a broken pipe does
    clap_complete::generate(args.shell, &mut Cli::command(), "preclaim", &mut script);
    output::print(format_args!("{}", String::from_utf8_lossy(&script)))
}
