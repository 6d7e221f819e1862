//! `preclaim release`: ends a grant before its time, or withdraws what is undecided.

use std::io;
use std::str::FromStr;

use super::ExitCode;
use super::complaint::Complaint;
use super::connect::{self, Connect, Role};
use super::json::{Line, Released as Body, Told};
use super::output::{self, Colour, Format, Output, harmless, json};
use crate::client::{Client, Released};
use crate::limits;
use crate::types::{Agent, IntentId};

const EXAMPLE: &str = "\
Examples:
  $ preclaim release 4711
  $ preclaim release car-7/41 --reason 'stands on the rail'      # another's, where a rule has `administer`

Ends with 0 when released, and with 12 when there was nothing to release: it had ended, or it is
another name's.";

/// Give back what was granted, or withdraw what is undecided
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// The intent's id, as preclaim declare and preclaim ls print it; of another agent's, AGENT/ID
    #[arg(value_name = "ID|AGENT/ID")]
    what: What,
    /// Why, which the other agent is told; for AGENT/ID alone, and needed there
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// Whose intent, where it is another's, and which.
#[derive(Clone, Debug, PartialEq)]
struct What {
    agent: Option<Agent>,
    id: IntentId,
}

impl FromStr for What {
    type Err = &'static str;

    /// The last `/` ends the agent's name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const RULE: &str = "it is an intent's number, or an agent's name, `/` and that, such as car-7/41";
        let (agent, id) = match text.rsplit_once('/') {
            Some((agent, id)) => (Some(Agent::new(agent).ok_or(RULE)?), id),
            None => (None, text),
        };
        Ok(What { agent, id: IntentId::new(id.parse().map_err(|_| RULE)?) })
    }
}

/// Reads why an operator does something.
pub(super) fn reason(text: &str) -> Result<String, String> {
    let fits = text.len() <= limits::REASON_BYTES && !text.contains(char::is_control);
    let rule = || format!("it is up to {} bytes without control characters", limits::REASON_BYTES);
    if fits { Ok(text.to_owned()) } else { Err(rule()) }
}

pub(super) fn run(args: &Args) -> ExitCode {
    match (&args.what.agent, &args.reason) {
        (None, Some(_)) => Complaint::new(ExitCode::Usage, "--reason is for another's intent")
            .todo("AGENT/ID, or leave --reason out")
            .say(),
        _ => args.connect.run("release", Role::Agent, async |client| release(args, client).await),
    }
}

async fn release(args: &Args, client: &Client) -> ExitCode {
    let What { agent, id } = &args.what;
    // What is one's own is one's own, whichever way it is spelled.
    let (agent, id) = (agent.as_ref().filter(|agent| agent.as_str() != client.name()), *id);
    let name = agent.map_or(client.name(), Agent::as_str);
    let released = match (agent, &args.reason) {
        (Some(_), None) => {
            return Complaint::new(ExitCode::Usage, "another's intent is released with a reason")
                .todo("--reason TEXT, which its agent is told")
                .say();
        }
        (Some(agent), Some(reason)) => client.release_of(agent, id, reason.clone()).await,
        (None, _) => client.release(id).await,
    };
    let unknown = match released {
        Ok(Released::Released) => false,
        Ok(Released::AlreadyEnded(_)) => true,
        Err(error) => return connect::unanswered(&error).say(),
    };
    let format = args.output.format();
    let line = Line::told(name, id, Told::Released(Body { reason: args.reason.as_deref(), unknown }));
    match format {
        _ if unknown => nothing(name, id).beside(format, &line),
        Format::Json => output::print(format_args!("{}\n", json(&line))),
        Format::Table => {
            let released = output::painted("released", Colour::Green, &io::stdout());
            let whose = agent.map_or_else(String::new, |agent| format!(" of {}", harmless(agent.as_str())));
            output::print(format_args!("{released}: intent {id}{whose}\n"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slash_ends_the_name_of_another() {
        let of = |text: &str| {
            text.parse::<What>().map(|what| (what.agent.map(|it| it.to_string()), what.id.number()))
        };
        assert_eq!(of("41"), Ok((None, 41)));
        assert_eq!(of("team/car-7/41"), Ok((Some("team/car-7".into()), 41)));
        assert!(of("car-7/").is_err() && of("/41").is_err() && of("car-7").is_err());
    }
}
