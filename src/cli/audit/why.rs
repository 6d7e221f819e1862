//! `preclaim audit why`: what became of one intent, and why; and how that is told, whoever knows it.

use std::fmt::Write as _;
use std::str::FromStr;

use serde::Serialize;
use serde_json::value::RawValue;

use super::super::output::{self, Format, Output};
use super::super::times::{Wall, at_least, length};
use super::problem::decoded;
use super::tail::{ForbiddenBody, SentBody};
use super::{ExitCode, Place, Problem, Progress, note, words};
use crate::audit::StoredInput;
use crate::clock::{Clock, SystemClock};
use crate::replay::{Event, Holder, Remedy, Story, Wanted};
use crate::resolver::{AgentOp, Rank};
use crate::store::{Archive, Rejection, Take};
use crate::telemetry::Kept;
use crate::trace::{RankBody, raw_decision, raw_input};
use crate::types::{Agent, Blocker, Decision, IntentId, IntentKey, RenewDenial, Slot, Start, Time, Verdict};

const EXAMPLE: &str = "\
Examples:
  $ preclaim audit why car-7/41 /var/lib/preclaim
  $ preclaim audit why car-7/41 --config preclaim.toml --output json

Tells what car-7 asked for intent 41 and what was decided, each decision with the score that ordered
it, who was in the way with their scores and what they held, and what would have made it a grant, as
far as that follows from what is recorded. `preclaim why` tells the same of a coordinator at work.";

const USAGE: &str = "preclaim audit why [OPTIONS] <AGENT/INTENT> <DIR|--config <FILE>>";

/// Tell the story of one intent, and what would have made it a grant
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, override_usage = USAGE)]
pub(super) struct Args {
    #[command(flatten)]
    intent: Named,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

/// Which intent is meant.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Named {
    /// The intent
    #[arg(value_name = "AGENT/INTENT")]
    intent: Name,
}

impl Named {
    pub(in crate::cli) fn key(&self) -> &IntentKey {
        &self.intent.0
    }
}

/// An intent's full name: the last `/` ends the agent's.
#[derive(Clone, Debug)]
struct Name(IntentKey);

impl FromStr for Name {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const RULE: &str = "it is an agent's name, `/`, and an intent's number, such as car-7/41";
        let (agent, id) = text.rsplit_once('/').ok_or(RULE)?;
        let id = IntentId::new(id.parse().map_err(|_| RULE)?);
        Ok(Name(IntentKey { agent: Agent::new(agent).ok_or(RULE)?, id }))
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Problem> {
    of_log(&args.place, args.intent.key(), &args.output)
}

/// Tells what the log says of `key`.
pub(super) fn of_log(place: &Place, key: &IntentKey, output: &Output) -> Result<ExitCode, Problem> {
    let archive = place.open()?;
    let first = archive.contents()?.segments.first().copied().unwrap_or(1);
    let mut story = Story::new(key.clone(), first == 1);
    let mut progress = Progress::start();
    read(&archive, first, &mut |found| {
        progress.tick();
        Ok(story.take(&decoded(&found)?)?)
    })?;
    if story.is_empty() {
        let beginning = if first == 1 { "" } else { ", whose beginning is gone" };
        let name = words::key(key);
        return Err(Problem::Usage(format!("{name}: there is nothing of it in this log{beginning}")));
    }
    read(&archive, first, &mut |found| {
        progress.tick();
        story.look(&decoded(&found)?);
        Ok(())
    })?;
    drop(progress);
    if first != 1 {
        note("the beginning of the log is gone: what was declared then is not known");
    }
    let now = SystemClock::start(Time::ZERO).now();
    tell(&story, None, now, output).map_err(Problem::Output)
}

/// Prints the story. `kept` says how far back it goes where it is of no log.
///
/// # Errors
/// Where a part of it cannot be spelled as JSON.
pub(in crate::cli) fn tell(
    story: &Story,
    kept: Option<Kept>,
    now: Time,
    output: &Output,
) -> std::io::Result<ExitCode> {
    Ok(match output.format() {
        Format::Table => output::print(format_args!("{}", for_people(story, &Wall::at(now)))),
        Format::Json => {
            let document = Document { kept, ..Document::of(story)? };
            output::print(format_args!("{}\n", output::json(&document)))
        }
    })
}

fn read(archive: &Archive, first: u64, take: Take<'_>) -> Result<(), Problem> {
    archive.walk(first, None).read_on(&mut |found| -> Result<(), Rejection> { take(found) })?;
    Ok(())
}

fn blockers(verdict: &Verdict) -> &[Blocker] {
    match verdict {
        Verdict::Conflict(conflict) => &conflict.blockers,
        Verdict::RenewDenied(RenewDenial::Kept { blockers, .. }) => blockers,
        _ => &[],
    }
}

/// The decision that an event is or has, and when that was made or seen.
fn decided(event: &Event) -> Option<(Slot, &Decision)> {
    match event {
        Event::Decided { slot, decision, .. } | Event::Stood { slot, decision: Some(decision), .. } => {
            Some((*slot, decision))
        }
        _ => None,
    }
}

fn for_people(story: &Story, wall: &Wall) -> String {
    let mut text = format!("{}\n", words::key(story.key()));
    for event in story.events() {
        // Writing to a string does not fail.
        let _ = match event {
            Event::Stood { slot, at, declared, decision } => {
                let declared = declared.as_ref().map(|input| asked(input, wall));
                let told = decision.as_ref().map(|decision| words::verdict(&decision.verdict, wall));
                let what = declared.into_iter().chain(told).collect::<Vec<_>>().join("; ");
                writeln!(text, "{}  slot {}  from before: {what}", wall.clock(*at), slot.number())
            }
            Event::Input { slot, input, sent, administered_by } => {
                let (at, what) = (wall.clock(input.at()), asked(input, wall));
                let sent = sent.as_ref().map_or_else(String::new, |sent| format!(" ({})", words::sent(sent)));
                let by = administered_by
                    .as_ref()
                    .map_or_else(String::new, |by| format!(" (asked by {})", output::harmless(by.as_str())));
                writeln!(text, "{at}  slot {}  {what}{sent}{by}", slot.number())
            }
            Event::Forbidden { slot, note } => {
                let (at, what) = (wall.clock(note.at), words::forbidden(note));
                writeln!(text, "{at}  slot {}  {what}", slot.number())
            }
            Event::Decided { slot, at, decision, rank } => {
                let (at, what) = (wall.clock(*at), words::verdict(&decision.verdict, wall));
                let rank = rank.map_or_else(String::new, |rank| format!(", {}", ranked(rank)));
                writeln!(text, "{at}  slot {}  {what}{rank}", slot.number())
            }
        };
        if let Some((slot, decision)) = decided(event) {
            for blocker in blockers(&decision.verdict) {
                let holder = story.holder(&Wanted::of(blocker, slot));
                let _ = writeln!(text, "    {}", in_the_way(blocker, holder, wall));
            }
        }
    }
    if story.left_out() > 0 {
        let _ = writeln!(text, "{} inputs and decisions in the middle are left out", story.left_out());
    }
    let remedies = story.remedies();
    if !remedies.is_empty() {
        text.push_str("one of these would have made it a grant, had nothing else come in between:\n");
    }
    for remedy in remedies {
        let _ = writeln!(text, "    {}", told(&remedy, wall));
    }
    text
}

fn asked(input: &StoredInput, wall: &Wall) -> String {
    let StoredInput::Agent { op, .. } = input else { return words::input(input, wall) };
    let (AgentOp::Declare(intent) | AgentOp::Revise(intent)) = op else {
        return words::asked(op, wall);
    };
    let mut text = format!("{}, class {}", words::asked(op, wall), intent.class.number());
    if intent.urgency > 0.0 {
        text.push_str(&format!(", urgency {}", intent.urgency));
    }
    let spans = [("slack", intent.slack), ("wait", intent.wait)];
    for (name, span) in spans.into_iter().filter(|(_, span)| span.as_us() > 0) {
        text.push_str(&format!(", {name} {}", length(span)));
    }
    if let Start::At(start) = intent.start {
        text.push_str(&format!(", from {}", wall.clock(start)));
    }
    text
}

fn ranked(rank: Rank) -> String {
    if rank.is_overdue { "overdue".to_owned() } else { format!("score {}", rank.score) }
}

fn in_the_way(blocker: &Blocker, holder: Option<&Holder>, wall: &Wall) -> String {
    let token = match blocker.token {
        Some(token) => format!("token {token}"),
        None => "waits, and its place is held".to_owned(),
    };
    let (from, to) = (wall.clock(blocker.window.start()), wall.clock(blocker.window.end()));
    let key = words::key(&blocker.key);
    let Some(holder) = holder else {
        return format!("{key} ({token}) from {from} to {to}; it is older than what is kept");
    };
    let rank = holder.rank.map_or_else(String::new, |rank| format!(", {}", ranked(rank)));
    let slot = holder.slot.number();
    let Some(intent) = &holder.intent else {
        return format!("{key} ({token}{rank}, slot {slot}) from {from} to {to}");
    };
    let what = intent.claims.get(blocker.their_claim).map_or_else(|| words::claims(intent), words::claim);
    let class = intent.class.number();
    format!("{key} ({token}, class {class}{rank}, slot {slot}) has {what}, in the way from {from} to {to}")
}

fn told(remedy: &Remedy, wall: &Wall) -> String {
    match remedy {
        Remedy::Start { at, slack, wait } => {
            let wait = wait.map_or_else(String::new, |wait| format!(", or a wait of {}", at_least(wait)));
            format!(
                "a start at {}, which was free: slack of {} reaches it{wait}",
                wall.clock(*at),
                at_least(*slack)
            )
        }
        Remedy::Class { above, by_preemption: false } => {
            format!("a class above {}: it goes first in that slot", above.number())
        }
        Remedy::Class { above, by_preemption: true } => {
            format!("a class above {}: what was in the way could be withdrawn for it", above.number())
        }
        Remedy::Score { above } => {
            format!("a score above {above}: those in the way were decided in the same slot")
        }
        Remedy::Shared => "shared claims: all that was in the way was shared".to_owned(),
        Remedy::Deeper { beside } => {
            let paths =
                words::several(beside.iter().map(|path| output::harmless(path.as_str())), beside.len());
            format!("deeper paths: what was in the way was only {paths}")
        }
        Remedy::Reading { path, as_of } => {
            format!(
                "a reading of {} made at {} or later",
                output::harmless(path.as_str()),
                wall.clock(*as_of)
            )
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    agent: &'a str,
    id: IntentId,
    events: Vec<EventBody<'a>>,
    left_out: u64,
    /// Each alone would have made the last conflict a grant, had nothing else come in between.
    would_have: Vec<RemedyBody>,
    /// How far back it goes, where it is of no log.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<Kept>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EventBody<'a> {
    Stood {
        slot: Slot,
        before: StoodBody,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        in_the_way: Vec<InTheWay<'a>>,
    },
    Input {
        slot: Slot,
        input: Box<RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        sent: Option<SentBody>,
        #[serde(skip_serializing_if = "Option::is_none")]
        administered_by: Option<&'a str>,
    },
    Forbidden {
        slot: Slot,
        forbidden: ForbiddenBody,
    },
    Decided {
        slot: Slot,
        decision: Box<RawValue>,
        rank: Option<RankBody>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        in_the_way: Vec<InTheWay<'a>>,
    },
}

/// What was declared and told last before the slot that it stands in; their times are that slot's where their own are
/// not known.
#[derive(Serialize)]
struct StoodBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<Box<RawValue>>,
}

/// What is known of each blocker of the decision, in their order there.
#[derive(Serialize)]
struct InTheWay<'a> {
    agent: &'a str,
    id: IntentId,
    decided: Option<DecidedBody>,
}

#[derive(Serialize)]
struct DecidedBody {
    slot: Slot,
    at: Time,
    rank: Option<RankBody>,
    granted: Option<[Time; 2]>,
    class: Option<u8>,
    /// What they have that is in the way, for people.
    holds: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum RemedyBody {
    Start { at: Time, slack: u64, wait: Option<u64> },
    ClassAbove { class: u8, by_preemption: bool },
    ScoreAbove(f64),
    Shared(bool),
    DeeperThan(Vec<String>),
    Reading { path: String, as_of: Time },
}

impl<'a> Document<'a> {
    fn of(story: &'a Story) -> std::io::Result<Self> {
        let key = story.key();
        let events = story.events().map(|event| EventBody::of(story, event)).collect::<Result<_, _>>()?;
        Ok(Document {
            agent: key.agent.as_str(),
            id: key.id,
            events,
            left_out: story.left_out(),
            would_have: story.remedies().iter().map(RemedyBody::of).collect(),
            kept: None,
        })
    }
}

impl RemedyBody {
    fn of(remedy: &Remedy) -> Self {
        match remedy {
            Remedy::Start { at, slack, wait } => {
                RemedyBody::Start { at: *at, slack: slack.as_us(), wait: wait.map(|wait| wait.as_us()) }
            }
            Remedy::Class { above, by_preemption } => {
                RemedyBody::ClassAbove { class: above.number(), by_preemption: *by_preemption }
            }
            Remedy::Score { above } => RemedyBody::ScoreAbove(*above),
            Remedy::Shared => RemedyBody::Shared(true),
            Remedy::Deeper { beside } => {
                RemedyBody::DeeperThan(beside.iter().map(|path| path.as_str().to_owned()).collect())
            }
            Remedy::Reading { path, as_of } => {
                RemedyBody::Reading { path: path.as_str().to_owned(), as_of: *as_of }
            }
        }
    }
}

impl<'a> EventBody<'a> {
    fn of(story: &'a Story, event: &'a Event) -> std::io::Result<Self> {
        let in_the_way = || -> Vec<InTheWay<'a>> {
            let Some((slot, decision)) = decided(event) else { return Vec::new() };
            blockers(&decision.verdict).iter().map(|it| InTheWay::of(story, it, slot)).collect()
        };
        Ok(match event {
            Event::Stood { slot, at, declared, decision } => {
                let input = declared.as_ref().map(raw_input).transpose()?;
                let told =
                    decision.as_ref().map(|decision| raw_decision(*slot, *at, decision)).transpose()?;
                let before = StoodBody { input, decision: told };
                EventBody::Stood { slot: *slot, before, in_the_way: in_the_way() }
            }
            Event::Input { slot, input, sent, administered_by } => EventBody::Input {
                slot: *slot,
                input: raw_input(input)?,
                sent: sent.as_ref().map(SentBody::of),
                administered_by: administered_by.as_ref().map(Agent::as_str),
            },
            Event::Forbidden { slot, note } => {
                EventBody::Forbidden { slot: *slot, forbidden: ForbiddenBody::of(note) }
            }
            Event::Decided { slot, at, decision, rank } => EventBody::Decided {
                slot: *slot,
                decision: raw_decision(*slot, *at, decision)?,
                rank: rank.map(RankBody::from),
                in_the_way: in_the_way(),
            },
        })
    }
}

impl<'a> InTheWay<'a> {
    fn of(story: &Story, blocker: &'a Blocker, slot: Slot) -> Self {
        let decided = story.holder(&Wanted::of(blocker, slot)).map(|holder| {
            let intent = holder.intent.as_ref();
            let claim = intent.and_then(|intent| intent.claims.get(blocker.their_claim));
            DecidedBody {
                slot: holder.slot,
                at: holder.at,
                rank: holder.rank.map(RankBody::from),
                granted: holder.granted.map(|(start, end)| [start, end]),
                class: intent.map(|intent| intent.class.number()),
                holds: claim.map(words::claim),
            }
        });
        InTheWay { agent: blocker.key.agent.as_str(), id: blocker.key.id, decided }
    }
}
