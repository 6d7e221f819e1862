//! `preclaim why`: what became of one intent, and why, from who decides or from its log.

use std::path::PathBuf;

use super::ExitCode;
use super::audit::{self, Named};
use super::complaint::Complaint;
use super::output::{self, Output, harmless};
use super::quote::Words;
use super::times::Wall;
use super::watching::{Watched, Watching};
use crate::replay::Story;
use crate::telemetry::{Kept, Known, why_of};
use crate::types::{IntentKey, Time};

const EXAMPLE: &str = "\
Examples:
  $ preclaim why car-7/41                              # beside a `preclaim dev` of yours
  $ preclaim why car-7/41 --watching 127.0.0.1:7412    # or PRECLAIM_WATCHING: [metrics] addr of a `serve` with a page
  $ preclaim why car-7/41 --config preclaim.toml       # from the log of the `serve` on this machine, at work or not
  $ preclaim why car-7/41 --output json | jq .would_have

Tells what car-7 asked for intent 41 and what was decided, each decision with the score that ordered it, who was in
the way with their scores and what they held, and what would have made it a grant, as far as that follows from what
is known. A coordinator at work knows what it has decided lately and what stands; its log has all.";

/// Tell the story of one intent, and what would have made it a grant
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    #[command(flatten)]
    intent: Named,
    /// Read the log in this state directory, or in a copy of one, and ask nobody
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Read the log in the state directory that this configuration's [state] names, and ask nobody
    #[arg(long, value_name = "FILE", conflicts_with = "dir")]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    watching: Watching,
}

pub(super) fn run(args: &Args) -> ExitCode {
    if args.dir.is_some() || args.config.is_some() {
        return audit::why(args.dir.clone(), args.config.clone(), args.intent.key(), &args.output);
    }
    args.watching.run(async |watched: &Watched| ask(args, watched).await.unwrap_or_else(|why| why.say()))
}

async fn ask(args: &Args, watched: &Watched) -> Result<ExitCode, Complaint> {
    let key = args.intent.key();
    let known = watched.known(key).await?;
    let story = known.story(key).map_err(|why| watched.not_understood(&why_of(key), &why))?;
    told(&story, &known, &args.output)
}

fn told(story: &Story, known: &Known, output: &Output) -> Result<ExitCode, Complaint> {
    let (now, kept) = (known.now, known.kept);
    if story.is_empty() {
        return Err(unknown(story.key(), kept, now));
    }
    if let Some(reach) = reach(story.key(), known) {
        output::talk(reach);
    }
    audit::tell(story, Some(kept), now, output)
        .map_err(|error| Complaint::new(ExitCode::Failure, error.to_string()))
}

/// How far back the coordinator knows, where there may be more, and where that is.
fn reach(key: &IntentKey, known: &Known) -> Option<String> {
    let (mut lines, kept) = (Vec::new(), known.kept);
    if !kept.whole || known.is_cut() {
        let since = Wall::at(known.now).clock(kept.since);
        let log = of_log(key);
        lines
            .push(format!("it knows what it decided since {since}, and what stands; its log has all: {log}"));
    }
    if kept.left_out > 0 {
        lines.push(format!("{} decisions since then are left out", kept.left_out));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn unknown(key: &IntentKey, kept: Kept, now: Time) -> Complaint {
    let name = harmless(&spelled(key));
    let since = match kept.whole {
        true => "its start".to_owned(),
        false => format!("{}, in {} slots", Wall::at(now).clock(kept.since), kept.slots),
    };
    let stands = Words::of(&["preclaim", "ls", "--agent", key.agent.as_str()]);
    Complaint::new(ExitCode::Usage, format!("{name}: the coordinator knows nothing of it"))
        .why(format!("nothing of it stands, nor is in what is kept of the decisions since {since}"))
        .todo(format!("{}        on its machine, where it has a log: that has all", of_log(key)))
        .todo(format!("{stands}        what stands of this agent"))
}

fn of_log(key: &IntentKey) -> Words {
    Words::of(&["preclaim", "why", &spelled(key), "--config", "FILE"])
}

fn spelled(key: &IntentKey) -> String {
    format!("{}/{}", key.agent.as_str(), key.id)
}
