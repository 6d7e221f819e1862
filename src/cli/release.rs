//! `preclaim release`: ends a grant before its time, or withdraws what is undecided.

use std::io;

use super::ExitCode;
use super::complaint::Complaint;
use super::connect::{self, Connect, Role};
use super::json::{Line, Released as Body, Told};
use super::output::{self, Colour, Format, Output, harmless, json};
use crate::client::{Client, Released};
use crate::types::IntentId;

const EXAMPLE: &str = "\
Example:
  $ preclaim release 4711

Ends with 0 when released, and with 12 when there was nothing to release: it had ended, or it is
another name's.";

/// Give back what was granted, or withdraw what is undecided
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// The intent's id, as preclaim declare and preclaim ls print it
    #[arg(value_name = "ID")]
    id: u64,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: &Args) -> ExitCode {
    args.connect.run("release", Role::Agent, async |client| release(args, client).await)
}

async fn release(args: &Args, client: &Client) -> ExitCode {
    let id = IntentId::new(args.id);
    let unknown = match client.release(id).await {
        Ok(Released::Released) => false,
        Ok(Released::AlreadyEnded(_)) => true,
        Err(error) => return connect::unanswered(&error).say(),
    };
    let format = args.output.format();
    let line = Line::told(client.name(), id, Told::Released(Body { reason: None, unknown }));
    match format {
        _ if unknown => nothing(client.name(), id).beside(format, &line),
        Format::Json => output::print(format_args!("{}\n", json(&line))),
        Format::Table => {
            let released = output::painted("released", Colour::Green, &io::stdout());
            output::print(format_args!("{released}: intent {id}\n"))
        }
    }
}

/// There is no such intent.
pub(super) fn nothing(name: &str, id: IntentId) -> Complaint {
    let name = harmless(name);
    Complaint::new(ExitCode::Rejected, format!("{name} has no intent {id} that is granted or undecided"))
        .why("it has ended, or it is another name's")
        .todo("preclaim ls      shows whose is what; then --name or PRECLAIM_NAME")
}
