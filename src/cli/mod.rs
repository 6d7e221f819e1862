//! The command line: parses, calls one function of the library, says what came of it.
//!
//! One file a command: `src/cli/NAME.rs` with an `Args` (clap) and a `run(args) -> ExitCode`; its
//! line in `Command` and in [`main`] is all that it needs here. Data goes to standard output, talk
//! to standard error, and every command ends with a code of [`exit::ExitCode`]. No command decides
//! anything itself.

mod bench;
mod completion;
mod config;
mod dev;
pub mod exit;
mod output;
mod resolve;
mod serve;

use clap::{Parser, Subcommand};
pub use exit::ExitCode;

/// A coordinator that takes intents: who declares first what it will use, and when, is granted it or
/// told who is in the way.
#[derive(Debug, Parser)]
#[command(name = "preclaim", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dev(dev::Args),
    Serve(serve::Args),
    Resolve(resolve::Args),
    Bench(bench::Args),
    Config(config::Args),
    Completion(completion::Args),
    ExitCodes(exit::Args),
}

/// Runs the command that this process was started with.
pub fn main() -> ExitCode {
    let Cli { command } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_a_command(&error),
    };
    match command {
        Command::Dev(args) => dev::run(args),
        Command::Serve(args) => serve::run(&args),
        Command::Resolve(args) => resolve::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Config(args) => config::run(args),
        Command::Completion(args) => completion::run(args),
        Command::ExitCodes(args) => exit::run(args),
    }
}

/// Help and version go to standard output and are no failure; the rest is usage.
fn not_a_command(error: &clap::Error) -> ExitCode {
    let is_failure = error.use_stderr();
    match error.print() {
        Err(broken) if !is_failure => output::failed(&broken),
        _ if is_failure => ExitCode::Usage,
        _ => ExitCode::Done,
    }
}
