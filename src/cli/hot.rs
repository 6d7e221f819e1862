//! `preclaim hot`: which paths are contended and by whom, and what to do about it.

use super::ExitCode;
use super::complaint::Complaint;
use super::output::{self, Format, Output, harmless, json};
use super::table::Table;
use super::times::{Wall, length};
use super::watching::{Hot, HotPath, Pair, Watched, Watching};
use crate::limits;

const EXAMPLE: &str = "\
Examples:
  $ preclaim hot                                    # beside a `preclaim dev` of yours
  $ preclaim hot --top 5 --watching 127.0.0.1:7412
  $ preclaim hot --output json | jq -r '.paths[] | .path + \": \" + .advice[].text'

A conflict counts where an intent finds no place in its first slot, half as much after each minute, and so on.
docs/METRICS.md says how the advice comes about. With --output json it is one object, that of /hot.";

/// List the most contended paths and who is in whose way there, with what to do about it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// How many paths, and how many pairs of agents
    #[arg(long, value_name = "N", default_value_t = limits::CLAIMS_SHOWN_DEFAULT as u64,
        value_parser = clap::value_parser!(u64).range(1..=limits::CLAIMS_SHOWN as u64))]
    top: u64,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    watching: Watching,
}

pub(super) fn run(args: &Args) -> ExitCode {
    args.watching.run(async |watched: &Watched| {
        let hot = match watched.hot(args.top as usize).await {
            Ok(hot) => hot,
            Err(why) => return Complaint::say(&why),
        };
        match args.output.format() {
            Format::Json => output::print(format_args!("{}\n", json(&hot))),
            Format::Table if hot.paths.is_empty() => {
                output::talk("nothing is contended");
                ExitCode::Done
            }
            Format::Table => output::print(format_args!("{}", text(&hot, &Wall::at(hot.now)))),
        }
    })
}

/// The paths, each with its advice below it, and then the pairs.
fn text(hot: &Hot, wall: &Wall) -> String {
    let mut paths = Table::headed(&["PATH", "CONFLICTS", "WAIT", "HELD BY", "UNTIL", "TYPICALLY HELD"]);
    hot.paths.iter().for_each(|path| paths.row(row(path, wall)));
    let paths = paths.to_string();
    let mut lines = paths.lines();
    let mut text = format!("{}\n", lines.next().unwrap_or_default());
    for (line, path) in lines.zip(&hot.paths) {
        text += &format!("{line}\n");
        path.advice.iter().for_each(|advice| text += &format!("  do  {}\n", harmless(&advice.text)));
    }
    if hot.pairs.is_empty() {
        return text;
    }
    let mut pairs = Table::headed(&["FOUND NO PLACE", "IN THE WAY", "CONFLICTS", "LAST AT", "PATH"]);
    hot.pairs.iter().for_each(|pair| pairs.row(pair_row(pair, wall)));
    text + &format!("\n{pairs}")
}

fn row(path: &HotPath, wall: &Wall) -> [String; 6] {
    let contended = &path.contended;
    let (by, until) = match &contended.holder {
        Some(held) => (harmless(&held.agent), wall.ahead(held.until)),
        None => ("nobody now".into(), String::new()),
    };
    let held = path.held.map(|held| format!("{}, of {}", length(held.typical_us), held.seen));
    let (conflicts, waiting) = (contended.conflicts.to_string(), contended.waiting.to_string());
    [harmless(&contended.path), conflicts, waiting, by, until, held.unwrap_or_default()]
}

fn pair_row(pair: &Pair, wall: &Wall) -> [String; 5] {
    [
        harmless(&pair.asker),
        harmless(&pair.holder),
        pair.conflicts.to_string(),
        wall.clock(pair.last_conflict),
        harmless(&pair.path),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Time;

    const NOW: Time = Time::from_us(1_795_948_258_350_000); // 2026-11-29T10:30:58.35Z

    #[test]
    fn each_path_has_its_advice_below_it_and_pairs_come_after() {
        let now = NOW.as_us();
        let hot = serde_json::json!({
            "now": now,
            "paths": [
                {"path": "aisle/4", "conflicts": 30, "last_conflict": now, "waiting": 2, "exclusive": 30, "below": 0, "above": 0,
                 "holder": {"agent": "robot-1", "id": 41, "token": 7, "path": "aisle/4", "claims": 1, "hold": true,
                            "since": now, "until": now + 8_900_000, "stated_us": 60_000_000},
                 "held": {"seen": 12, "typical_us": 150_000, "stated_us": 60_000_000},
                 "advice": [{"do": "lease_length", "text": "a lease\u{1b} of 300ms to 450ms"}]},
                {"path": "db", "conflicts": 1, "last_conflict": now, "waiting": 0, "exclusive": 0, "below": 0, "above": 0, "advice": []},
            ],
            "pairs": [{"asker": "b", "holder": "a", "conflicts": 3, "last_conflict": now, "path": "aisle/4"}],
            "more": "of a later version",
        });
        let hot: Hot = serde_json::from_value(hot).unwrap();
        let told = "\
PATH     CONFLICTS  WAIT  HELD BY     UNTIL                   TYPICALLY HELD
aisle/4  30         2     robot-1     10:31:07.250, in 8.9 s  150 ms, of 12
  do  a lease\\u{1b} of 300ms to 450ms
db       1          0     nobody now

FOUND NO PLACE  IN THE WAY  CONFLICTS  LAST AT       PATH
b               a           3          10:30:58.350  aisle/4
";
        assert_eq!(text(&hot, &Wall::utc(NOW)), told);
    }
}
