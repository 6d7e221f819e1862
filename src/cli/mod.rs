//! The command line: parses, calls one function of the library, says what came of it.
//!
//! One file a command: `src/cli/NAME.rs` with an `Args` (clap) and a `run(args) -> ExitCode`; its
//! line in `Command` and in [`main`] is all that it needs here. Data goes to standard output, talk
//! to standard error, and every command ends with a code of [`exit::ExitCode`]. No command decides
//! anything itself.

mod audit;
mod bench;
mod capacity;
mod certs;
mod claims;
mod complaint;
mod completion;
mod config;
mod connect;
mod declare;
mod dev;
mod doctor;
mod drain;
pub mod exit;
mod expect;
mod explain;
mod hold;
mod hot;
mod json;
mod latency;
mod log;
mod look;
mod ls;
mod man;
mod may;
mod output;
mod quote;
mod release;
mod renew;
mod resolve;
mod serve;
mod signal;
mod sim;
mod table;
mod times;
mod top;
mod traced;
mod voice;
mod watch;
mod watching;
mod why;

use std::process;

use clap::{Parser, Subcommand};
pub use exit::ExitCode;

const EXAMPLE: &str = "\
Try it:
  $ preclaim dev                                   # in one terminal: needs nothing
  $ preclaim declare file/README.md --for 30s      # in another: granted
  $ preclaim declare file/README.md --for 5s       # conflict: who, until when, what is free instead
  $ preclaim ls                                    # who has what, and who waits";

/// A coordinator that takes intents: who declares first what it will use, and when, is granted it or
/// told who is in the way.
#[derive(Debug, Parser)]
#[command(name = "preclaim", version, arg_required_else_help = true, after_help = EXAMPLE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dev(dev::Args),
    Serve(serve::Args),
    Declare(declare::Args),
    Release(release::Args),
    Renew(renew::Args),
    Drain(drain::Args),
    Hold(hold::Args),
    /// What `hold` starts, on its way to become the command
    #[command(hide = true)]
    HoldInner(hold::Inner),
    Ls(ls::Args),
    Watch(watch::Args),
    Top(top::Args),
    Hot(hot::Args),
    Why(why::Args),
    Latency(latency::Args),
    Capacity(capacity::Args),
    Resolve(resolve::Args),
    Audit(audit::Args),
    Bench(bench::Args),
    Doctor(doctor::Args),
    Sim(sim::Args),
    Certs(certs::Args),
    Config(config::Args),
    Completion(completion::Args),
    /// Print the manual page of preclaim, or write those of all its commands
    #[command(hide = true)]
    Man(man::Args),
    ExitCodes(exit::Args),
}

/// Runs the command that this process was started with.
pub fn main() -> process::ExitCode {
    let Cli { command } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_a_command(&error).into(),
    };
    let code = match command {
        // Their codes are their command's.
        Command::Hold(args) => return hold::run(&args),
        Command::HoldInner(args) => return hold::run_inner(&args).into(),
        Command::Dev(args) => dev::run(args),
        Command::Serve(args) => serve::run(&args),
        Command::Declare(args) => declare::run(&args),
        Command::Release(args) => release::run(&args),
        Command::Renew(args) => renew::run(&args),
        Command::Drain(args) => drain::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Hot(args) => hot::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Latency(args) => latency::run(&args),
        Command::Capacity(args) => capacity::run(&args),
        Command::Resolve(args) => resolve::run(args),
        Command::Audit(args) => audit::run(&args),
        Command::Bench(args) => bench::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Certs(args) => certs::run(&args),
        Command::Config(args) => config::run(args),
        Command::Completion(args) => completion::run(args),
        Command::Man(args) => man::run(&args),
        Command::ExitCodes(args) => exit::run(args),
    };
    code.into()
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_whole_and_each_command_has_an_example() {
        let mut cli = Cli::command();
        cli.build();
        cli.clone().debug_assert();
        let silent = |command: &&clap::Command| {
            !command.is_hide_set() && !matches!(command.get_name(), "help" | "exit-codes")
        };
        for command in cli.get_subcommands().filter(silent) {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let own = format!("$ preclaim {}", command.get_name());
            assert!(examples.contains(&own), "{}: {examples:?}", command.get_name());
        }
    }
}
