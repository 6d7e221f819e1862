//! `preclaim watch`: every decision, as it is made.

use std::io;

use super::complaint::Complaint;
use super::connect::{self, Connect, Role};
use super::json::Line;
use super::look::Look;
use super::output::{self, Colour, Format, Output, harmless, json};
use super::signal::Stop;
use super::times::Wall;
use super::{ExitCode, explain};
use crate::client::{Client, RequestError};
use crate::wire::{Verdict, WatchEvent};

const EXAMPLE: &str = "\
Examples:
  $ preclaim watch file
  $ preclaim watch --output json | jq -c 'select(.conflict)'

Ends on Ctrl-C, or when nobody reads it any more. With --output json each decision is a line as
preclaim resolve prints it, with the intent's `note`, and `missed`: how many were left out before
it because they were read too slowly.";

/// Watch decisions as they are made
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    #[command(flatten)]
    filter: Look,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: &Args) -> ExitCode {
    args.connect.run("watch", Role::Observer, async |client| {
        let mut stop = match Stop::listen() {
            Ok(stop) => stop,
            Err(error) => return Complaint::new(ExitCode::Failure, error.to_string()).say(),
        };
        tokio::select! {
            biased;
            () = stop.asked() => ExitCode::Done,
            code = watch(args, client) => code,
        }
    })
}

async fn watch(args: &Args, client: &Client) -> ExitCode {
    let mut decisions = match client.watch(args.filter.filter()).await {
        Ok(decisions) => decisions,
        Err(error) => return connect::unanswered(&error).say(),
    };
    let format = args.output.format();
    if format == Format::Table {
        output::talk("watching; Ctrl-C ends it");
    }
    loop {
        let event = match decisions.next().await {
            Some(Ok(event)) => event,
            Some(Err(error)) => return over(&error).say(),
            None => return over(&RequestError::Disconnected).say(),
        };
        let printed = match format {
            Format::Json => output::write(format_args!("{}\n", json(&Line::watched(&event)))),
            Format::Table => {
                let wall = Wall::at(client.coordinator_time().0);
                output::write(format_args!("{}\n", row(&event, &wall)))
            }
        };
        if let Err(error) = printed {
            return output::failed(&error);
        }
    }
}

/// Why a watch that went well ended.
fn over(error: &RequestError) -> Complaint {
    match error {
        RequestError::Unknown | RequestError::Disconnected => {
            Complaint::new(ExitCode::Unreachable, "the connection to the coordinator was lost")
                .todo("the same again, when it is back")
        }
        other => connect::unanswered(other),
    }
}

/// One decision for people.
fn row(event: &WatchEvent, wall: &Wall) -> String {
    let missed = match event.missed {
        0 => String::new(),
        missed => format!("{missed} left out: this reader is too slow\n"),
    };
    let (verdict, rest) = words(&event.verdict, wall);
    // Padded before it is painted: the colour's letters take no room.
    let verdict = painted(&event.verdict, &format!("{verdict:9}"));
    let note = if event.note.is_empty() { String::new() } else { format!("  # {}", harmless(&event.note)) };
    let (at, agent, id) = (wall.clock(event.at), harmless(&event.agent), event.id);
    format!("{missed}{at}  {agent:16}  {id:<16}  {verdict}  {rest}{note}").trim_end().to_owned()
}

fn painted(verdict: &Verdict, word: &str) -> String {
    let colour = match verdict {
        Verdict::Granted { .. } | Verdict::Renewed { .. } => Colour::Green,
        Verdict::Conflict(conflict) if !conflict.is_final => Colour::Yellow,
        Verdict::Moved { .. } => Colour::Yellow,
        Verdict::Conflict(_)
        | Verdict::Stale { .. }
        | Verdict::Rejected { .. }
        | Verdict::Revoked { .. }
        | Verdict::RenewDenied { .. }
        | Verdict::RenewDeniedUnknown => Colour::Red,
        Verdict::Released { .. } | Verdict::ReleasedUnknown | Verdict::Expired { .. } => {
            return word.to_owned();
        }
    };
    output::painted(word, colour, &io::stdout())
}

/// The verdict in one word, and what else there is to it.
fn words(verdict: &Verdict, wall: &Wall) -> (&'static str, String) {
    match verdict {
        Verdict::Granted { start, end, token } | Verdict::Moved { start, end, token } => {
            let word = if matches!(verdict, Verdict::Moved { .. }) { "moved" } else { "granted" };
            let from =
                if *start > wall.now { format!("from {} ", wall.clock(*start)) } else { String::new() };
            (word, format!("token {token} {from}until {}", wall.ahead(*end)))
        }
        Verdict::Conflict(conflict) => {
            let word = if conflict.is_final { "conflict" } else { "waits" };
            let offer = conflict.offer.map(|offer| format!("; free from {}", wall.clock(offer)));
            let deadlock = if conflict.deadlock { "in a ring of waiting: " } else { "" };
            let why = explain::reasons(&conflict.blockers, wall).join("; ");
            (word, format!("{deadlock}{why}{}", offer.unwrap_or_default()))
        }
        Verdict::Stale { path, as_of, .. } => {
            ("stale", format!("{} could change until {}", harmless(path), wall.clock(*as_of)))
        }
        Verdict::Rejected { reason, field, .. } => {
            ("rejected", format!("{} {}", reason.as_str(), harmless(field)))
        }
        Verdict::Released { reason } => ("released", harmless(reason.as_deref().unwrap_or(""))),
        Verdict::ReleasedUnknown => ("released", "nothing: there was no such intent".into()),
        Verdict::Renewed { end } => ("renewed", format!("until {}", wall.ahead(*end))),
        Verdict::RenewDeniedUnknown => ("denied", "there is no such lease".into()),
        Verdict::RenewDenied { end, blockers } => {
            let why = explain::reasons(blockers, wall).join("; ");
            ("denied", format!("ends at {}; {why}", wall.clock(*end)))
        }
        Verdict::Expired { token } => ("expired", format!("token {token}")),
        Verdict::Revoked { by, by_id, waiting, .. } => {
            let waits = if *waiting { ", and waits on" } else { "" };
            ("revoked", format!("for {} (intent {by_id}){waits}", harmless(by)))
        }
    }
}
