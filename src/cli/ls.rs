//! `preclaim ls`: who has what, and who waits.

use serde::Serialize;

use super::ExitCode;
use super::claims::{Place, mode_name};
use super::connect::{self, Connect, Role};
use super::json::Listed;
use super::look::Look;
use super::output::{self, Format, Output, harmless, json};
use super::table::Table;
use super::times::Wall;
use crate::client::{Client, Listing};
use crate::types::{Slot, Time};
use crate::wire::{EntryState, ListEntry};

const EXAMPLE: &str = "\
Examples:
  $ preclaim ls
  $ preclaim ls file/src --output json

With --output json it is one object: the entries, and the slot and time (`at`) that they are of.";

/// List what is granted, and what waits
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
    args.connect.run("ls", Role::Observer, async |client| list(args, client).await)
}

async fn list(args: &Args, client: &Client) -> ExitCode {
    let listing = match client.list(args.filter.filter()).await {
        Ok(listing) => listing,
        Err(error) => return connect::unanswered(&error).say(),
    };
    if listing.is_cut {
        let shown = listing.entries.len();
        output::talk(format_args!("only the first {shown} are listed: ask for a path or an --agent"));
    }
    match args.output.format() {
        Format::Json => output::print(format_args!("{}\n", json(&Document::of(&listing)))),
        Format::Table if listing.entries.is_empty() => {
            output::talk("nothing is granted, and nothing waits");
            ExitCode::Done
        }
        Format::Table => {
            let wall = Wall::at(client.coordinator_time().0);
            output::print(format_args!("{}", table(&listing.entries, &wall)))
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    slot: Slot,
    at: Time,
    entries: Vec<Listed<'a>>,
    /// There are more.
    cut: bool,
}

impl<'a> Document<'a> {
    fn of(listing: &'a Listing) -> Self {
        let Listing { slot, at, entries, is_cut } = listing;
        let entries = entries.iter().map(Listed::of).collect();
        Document { slot: *slot, at: *at, entries, cut: *is_cut }
    }
}

/// One line for each claim; what is of the intent stands beside its first.
fn table(entries: &[ListEntry], wall: &Wall) -> Table {
    let mut table = Table::headed(&["AGENT", "INTENT", "STATE", "TOKEN", "WHAT", "MODE", "WHEN", "NOTE"]);
    for entry in entries {
        let (state, token, until) = state(entry, wall);
        let mut first =
            Some([harmless(&entry.agent), entry.id.to_string(), state, token, until, harmless(&entry.note)]);
        for claim in &entry.claims {
            let [agent, id, state, token, until, note] = first.take().unwrap_or_default();
            let (what, mode) = (harmless(&Place(&claim.target).to_string()), mode_name(claim.mode));
            table.row([agent, id, state, token, what, mode, until, note]);
        }
    }
    table
}

/// How it stands, its token, and until when.
fn state(entry: &ListEntry, wall: &Wall) -> (String, String, String) {
    match entry.state {
        EntryState::Granted { start, end, token } => {
            let state = match (start > wall.now, entry.hold) {
                (true, _) => "ahead",
                (false, true) => "lease",
                (false, false) => "granted",
            };
            let from = if start > wall.now { format!("from {} ", wall.clock(start)) } else { String::new() };
            (state.into(), token.to_string(), format!("{from}until {}", wall.ahead(end)))
        }
        EntryState::Undecided { until, .. } => {
            ("waits".into(), String::new(), format!("waits until {}", wall.ahead(until)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Class, IntentId, Micros, RawMode, RawTarget, TaskId, Token};
    use crate::wire::ListedClaim;

    const NOW: Time = Time::from_us(1_795_948_258_350_000); // 2026-11-29T10:30:58.35Z

    fn entry(agent: &str, state: EntryState, claims: &[(&str, RawMode)]) -> ListEntry {
        let claim = |(path, mode): &(&str, RawMode)| ListedClaim {
            target: RawTarget::Path((*path).into()),
            mode: *mode,
            offset_us: 0,
            duration_us: 1,
        };
        ListEntry {
            agent: agent.into(),
            id: IntentId::new(41),
            state,
            hold: false,
            class: Class::default(),
            task: TaskId::new(0),
            since: NOW,
            note: "up\u{7}".into(),
            claims: claims.iter().map(claim).collect(),
        }
    }

    #[test]
    fn each_claim_has_its_line_and_each_intent_is_named_once() {
        let after = |secs| NOW.after(Micros::from_secs(secs));
        let granted = |start| EntryState::Granted { start, end: after(9), token: Token::new(7) };
        let entries = [
            entry("p", granted(NOW), &[("a", RawMode::Exclusive), ("b", RawMode::Units(2))]),
            entry("q", granted(after(1)), &[("c", RawMode::Shared)]),
            entry("r", EntryState::Undecided { until: after(2), offer: None }, &[("d", RawMode::Exclusive)]),
        ];
        let table = table(&entries, &Wall::utc(NOW)).to_string();
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect())
            .collect();
        assert_eq!(
            lines[1],
            ["p", "41", "granted", "7", "a", "exclusive", "until 10:31:07.350, in 9.0 s", r"up\u{7}"]
        );
        assert_eq!(lines[2], ["b", "2 units"]);
        assert_eq!(lines[3][2..4], ["ahead", "7"]);
        assert!(lines[3][6].starts_with("from 10:30:59.350 until"), "{table}");
        assert_eq!(lines[4][2..5], ["waits", "d", "exclusive"]);
    }
}
