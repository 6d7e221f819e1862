//! `preclaim capacity`: what capacities are, and setting one while the coordinator runs.

use std::io;

use clap::Subcommand;
use serde::Serialize;

use super::ExitCode;
use super::connect::{self, Connect, Role};
use super::look::place;
use super::output::{self, Colour, Format, Output, harmless, json};
use super::release::reason;
use super::table::Table;
use super::times::Wall;
use crate::client::{Capacities, Client, Place};
use crate::types::{Slot, Time};
use crate::wire::CapacityEntry;

const EXAMPLE: &str = "\
Examples:
  $ preclaim capacity set llm/acct1 4 --reason '429 from the provider'
  $ preclaim capacity ls llm

A capacity is how many units may be out at one instant, on a path and below it. Lowered below what is granted it takes
nothing back, and nothing more fits until enough has ended.";

/// Say how many units may be out, and see how many are
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Set(Set),
    Ls(Ls),
}

/// Set a capacity from now on: of a path that has one, or none yet
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  $ preclaim capacity set llm/acct1 4 --reason '429 from the provider'\n\n\
    For a name whose rules have `administer` there; with `preclaim dev` for everybody. It holds over restarts, until it\n\
    is set again or a configuration with another table of resources is read. Waiting intents are granted what fits\n\
    now, or have another offer."
)]
struct Set {
    /// The path
    #[arg(value_name = "PATH", value_parser = place)]
    path: Place,
    /// How many units may be out at one instant, there and below; 0 for none
    #[arg(value_name = "UNITS")]
    units: u64,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = reason, default_value = "", hide_default_value = true)]
    reason: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// List capacities: how much is in use, where each comes from, and by how much it is too small
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  $ preclaim capacity ls llm\n\nFor a name that may look at claims there, or administer."
)]
struct Ls {
    /// Only those at or below this path
    #[arg(value_name = "PATH-PREFIX", value_parser = place)]
    under: Option<Place>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: &Args) -> ExitCode {
    match &args.command {
        Command::Set(set) => {
            set.connect.run("capacity", Role::Agent, async |client| set_capacity(set, client).await)
        }
        Command::Ls(ls) => ls.connect.run("capacity", Role::Observer, async |client| list(ls, client).await),
    }
}

async fn set_capacity(args: &Set, client: &Client) -> ExitCode {
    let Set { path, units, reason, .. } = args;
    let entry = match client.set_capacity(path.clone(), *units, reason).await {
        Ok(entry) => entry,
        Err(error) => return connect::unanswered(&error).say(),
    };
    match args.output.format() {
        Format::Json => output::print(format_args!("{}\n", json(&Body::of(&entry)))),
        Format::Table => {
            let wall = Wall::at(client.coordinator_time().0);
            let set = output::painted("set", Colour::Green, &io::stdout());
            output::print(format_args!("{set}: {}\n", said(&entry, &wall)))
        }
    }
}

async fn list(args: &Ls, client: &Client) -> ExitCode {
    let listing = match client.capacities(args.under.clone()).await {
        Ok(listing) => listing,
        Err(error) => return connect::unanswered(&error).say(),
    };
    if listing.is_cut {
        let shown = listing.entries.len();
        output::talk(format_args!("only the first {shown} are listed: ask for a path"));
    }
    match args.output.format() {
        Format::Json => output::print(format_args!("{}\n", json(&Document::of(&listing)))),
        Format::Table if listing.entries.is_empty() => {
            output::talk("no path has a capacity");
            ExitCode::Done
        }
        Format::Table => {
            let wall = Wall::at(client.coordinator_time().0);
            output::print(format_args!("{}", table(&listing.entries, &wall)))
        }
    }
}

/// How it stands after it was set, on a line or two.
fn said(entry: &CapacityEntry, wall: &Wall) -> String {
    let CapacityEntry { path, capacity, configured, most, room_from, .. } = entry;
    let configured = match configured {
        Some(units) => format!("{units} by the configuration"),
        None => "none by the configuration".to_owned(),
    };
    let first = format!("{} has a capacity of {capacity} ({configured})", harmless(path));
    if entry.over() == 0 {
        return first;
    }
    let until = room_from.map_or("it is raised".to_owned(), |from| wall.ahead(from));
    format!(
        "{first}\n  granted now: {most} of {capacity}; nothing is taken back, and nothing new fits until {until}"
    )
}

fn table(entries: &[CapacityEntry], wall: &Wall) -> Table {
    let mut table = Table::headed(&["PATH", "CAPACITY", "IN USE", "OVER", "ROOM FROM", "SET BY"]);
    for entry in entries {
        let CapacityEntry { path, capacity, configured, is_set_at_run_time, in_use, room_from, .. } = entry;
        let over = if entry.over() > 0 { entry.over().to_string() } else { String::new() };
        let room = match room_from {
            Some(from) if *from <= wall.now => "now".to_owned(),
            Some(from) => wall.ahead(*from),
            None => "never".to_owned(),
        };
        let by = match (is_set_at_run_time, configured) {
            (false, _) => "configuration".to_owned(),
            (true, Some(units)) => format!("run time (configuration: {units})"),
            (true, None) => "run time".to_owned(),
        };
        table.row([harmless(path), capacity.to_string(), in_use.to_string(), over, room, by]);
    }
    table
}

#[derive(Serialize)]
struct Document<'a> {
    slot: Slot,
    at: Time,
    capacities: Vec<Body<'a>>,
    /// There are more.
    cut: bool,
}

impl<'a> Document<'a> {
    fn of(listing: &'a Capacities) -> Self {
        let Capacities { slot, at, entries, is_cut } = listing;
        Document { slot: *slot, at: *at, capacities: entries.iter().map(Body::of).collect(), cut: *is_cut }
    }
}

/// How a capacity stands.
#[derive(Serialize)]
struct Body<'a> {
    path: &'a str,
    capacity: u64,
    /// What the configuration has.
    configured: Option<u64>,
    /// `configuration`, or `run_time`.
    from: &'static str,
    in_use: u64,
    /// The most that are granted at any instant from now on.
    most: u64,
    over: u64,
    room_from: Option<Time>,
}

impl<'a> Body<'a> {
    fn of(entry: &'a CapacityEntry) -> Self {
        let CapacityEntry { path, capacity, configured, is_set_at_run_time, in_use, most, room_from } = entry;
        Body {
            path,
            capacity: *capacity,
            configured: *configured,
            from: if *is_set_at_run_time { "run_time" } else { "configuration" },
            in_use: *in_use,
            most: *most,
            over: entry.over(),
            room_from: *room_from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Micros;

    const NOW: Time = Time::from_us(1_795_948_258_350_000); // 2026-11-29T10:30:58.35Z

    fn entry() -> CapacityEntry {
        CapacityEntry {
            path: "llm/acct1".into(),
            capacity: 4,
            configured: Some(10),
            is_set_at_run_time: true,
            in_use: 7,
            most: 7,
            room_from: Some(NOW.after(Micros::from_secs(9))),
        }
    }

    #[test]
    fn what_is_too_small_says_so_and_until_when() {
        let wall = Wall::utc(NOW);
        assert_eq!(
            said(&entry(), &wall),
            "llm/acct1 has a capacity of 4 (10 by the configuration)\n  granted now: 7 of 4; nothing is taken back, and \
             nothing new fits until 10:31:07.350, in 9.0 s"
        );
        let enough = CapacityEntry { most: 4, in_use: 4, ..entry() };
        assert_eq!(said(&enough, &wall), "llm/acct1 has a capacity of 4 (10 by the configuration)");
        let closed = CapacityEntry { capacity: 0, configured: None, room_from: None, ..entry() };
        assert!(said(&closed, &wall).contains("(none by the configuration)"));
        assert!(said(&closed, &wall).ends_with("until it is raised"));
    }

    #[test]
    fn a_listing_has_a_row_for_each_with_where_it_comes_from() {
        let plain = CapacityEntry {
            path: "yard\u{7}".into(),
            capacity: 9,
            configured: Some(9),
            is_set_at_run_time: false,
            in_use: 2,
            most: 2,
            room_from: Some(NOW),
        };
        let closed = CapacityEntry { capacity: 0, configured: None, room_from: None, ..entry() };
        let table = table(&[entry(), plain, closed], &Wall::utc(NOW)).to_string();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        let first = ["llm/acct1", "4", "7", "3", "10:31:07.350, in 9.0 s", "run time (configuration: 10)"];
        assert_eq!(rows[1], first);
        assert_eq!(rows[2], [r"yard\u{7}", "9", "2", "now", "configuration"]);
        assert_eq!(rows[3][4..], ["never", "run time"]);
    }

    #[test]
    fn json_says_where_it_comes_from_and_by_how_much_it_is_too_small() {
        let told = serde_json::to_value(Body::of(&entry())).unwrap();
        assert_eq!(
            (&told["from"], &told["over"], &told["in_use"]),
            (&"run_time".into(), &3.into(), &7.into())
        );
        assert_eq!(told["room_from"], NOW.after(Micros::from_secs(9)).as_us());
    }
}
