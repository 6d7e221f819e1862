//! `preclaim audit tail`: the last records, and those that come.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::super::output::{self, Format, Output};
use super::super::times::Wall;
use super::problem::decoded;
use super::{ExitCode, Place, Problem, words};
use crate::audit::Record;
use crate::clock::{Clock, SystemClock};
use crate::limits::AUDIT_TAIL_RECORDS;
use crate::session::coordinator::{
    Attempt, DrainNote, ForbiddenNote, OperatorNote, Priority, ReloadNote, RightsNote, Sent,
};
use crate::store::{Archive, Found, Rejection, Walk};
use crate::trace::{RankBody, raw_decision, raw_input};
use crate::types::{IntentId, Time};

const EXAMPLE: &str = "\
Examples:
  $ preclaim audit tail /var/lib/preclaim
  $ preclaim audit tail -n 100 --follow --config preclaim.toml --output json

One line for each record, which is a slot in which something arrived or was decided: slot, time, what
arrived, and after -> what was decided.";

/// Print the last records, one line each, and go on with those that come
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// How many records
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(0..=AUDIT_TAIL_RECORDS as i64))]
    records: u32,
    /// Go on with records as they are written
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    output: Output,
}

/// How often a log that is followed is looked at.
const POLL: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Args) -> Result<ExitCode, Problem> {
    let archive = args.place.open()?;
    let format = args.output.format();
    let (lines, mut walk) = last(&archive, args.records as usize, format)?;
    for line in lines {
        output::write(format_args!("{line}\n")).map_err(Problem::Output)?;
    }
    if !args.follow {
        return Ok(ExitCode::Done);
    }
    loop {
        std::thread::sleep(POLL);
        if walk.has_news()? {
            walk.read_on(&mut |found| Ok(output::write(format_args!("{}\n", line(&found, format)?))?))?;
        }
    }
}

/// The last lines, and the walk that goes on after them. Segments are read from the last one backwards,
/// until they hold enough.
fn last(archive: &Archive, count: usize, format: Format) -> Result<(VecDeque<String>, Walk), Problem> {
    let segments = archive.contents()?.segments;
    let mut from = segments.len();
    loop {
        from = from.saturating_sub(1);
        let mut walk = archive.walk(segments.get(from).copied().unwrap_or(1), None);
        let mut lines = VecDeque::new();
        walk.read_on(&mut |found| {
            if lines.len() == count {
                lines.pop_front();
            }
            if count > 0 {
                lines.push_back(line(&found, format)?);
            }
            Ok(())
        })?;
        let has_begun = walk.last().is_some();
        if from == 0 || (has_begun && lines.len() >= count) {
            return Ok((lines, walk));
        }
    }
}

fn line(found: &Found<'_>, format: Format) -> Result<String, Rejection> {
    let record = decoded(found)?;
    match format {
        Format::Json => document(&record),
        Format::Table => {
            let now = SystemClock::start(Time::ZERO).now();
            Ok(for_people(&record, &Wall::at(now)))
        }
    }
}

fn for_people(record: &Record, wall: &Wall) -> String {
    let inputs = record.inputs.iter().map(|input| words::input(input, wall));
    let decisions = record.decisions.iter().map(|decision| words::decision(decision, wall));
    let (rights, operator) = (&record.notes.rights, &record.notes.operator);
    let count = rights.len() + operator.len();
    let rights = rights.iter().map(|note| words::rights(note, &record.inputs, wall));
    let notes = words::several(operator.iter().map(words::operator).chain(rights), count);
    let inputs = words::several(inputs, record.inputs.len());
    let said = match (inputs.is_empty(), notes.is_empty()) {
        (_, true) => inputs,
        (true, false) => format!("[{notes}]"),
        (false, false) => format!("{inputs} [{notes}]"),
    };
    let decisions = words::several(decisions, record.decisions.len());
    let (slot, at) = (record.slot, wall.clock(record.at));
    format!("{slot}  {at}  {said} -> {decisions}", slot = slot.number())
}

#[derive(Serialize)]
struct Document {
    slot: u64,
    at: Time,
    rules_version: u16,
    inputs: Vec<Box<RawValue>>,
    decisions: Vec<Box<RawValue>>,
    /// What ordered each decision.
    ranks: Vec<Option<RankBody>>,
    digest: String,
    /// What was forbidden or lowered, who administered, and orders to drain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rights: Vec<RightsBody>,
    /// What operators did, beside the inputs that it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operator: Vec<OperatorBody>,
}

fn document(record: &Record) -> Result<String, Rejection> {
    let inputs = record.inputs.iter().map(raw_input).collect::<io::Result<_>>()?;
    let decisions = record.decisions.iter().map(|decision| raw_decision(record.slot, record.at, decision));
    Ok(output::json(&Document {
        slot: record.slot.number(),
        at: record.at,
        rules_version: record.rules_version,
        inputs,
        decisions: decisions.collect::<io::Result<_>>()?,
        ranks: record.ranks.iter().map(|rank| rank.map(RankBody::from)).collect(),
        digest: record.digest.to_string(),
        rights: record.notes.rights.iter().map(RightsBody::of).collect(),
        operator: record.notes.operator.iter().map(OperatorBody::of).collect(),
    }))
}

/// A note about rights.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RightsBody {
    Forbidden(ForbiddenBody),
    /// So many more were forbidden.
    LeftOut(u64),
    Lowered {
        input: usize,
        #[serde(flatten)]
        sent: SentBody,
    },
    Administered {
        input: usize,
        by: String,
    },
    /// The coordinator was ordered to drain.
    Drain {
        at: Time,
        /// `null` by a signal.
        by: Option<String>,
        reason: String,
        deadline: Time,
    },
}

/// A note about what operators did.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OperatorBody {
    Reload {
        at: Time,
        by: String,
        done: bool,
        changes: Vec<String>,
        /// Changes beyond those.
        #[serde(skip_serializing_if = "is_none")]
        more: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    Reason {
        input: usize,
        reason: String,
    },
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl OperatorBody {
    fn of(note: &OperatorNote) -> Self {
        match note {
            OperatorNote::Reason { input, reason } => {
                OperatorBody::Reason { input: *input, reason: reason.to_string() }
            }
            OperatorNote::Reload(ReloadNote { at, by, changes, more, refused }) => OperatorBody::Reload {
                at: *at,
                by: by.to_string(),
                done: refused.is_none(),
                changes: changes.iter().map(ToString::to_string).collect(),
                more: *more,
                why: refused.as_ref().map(ToString::to_string),
            },
        }
    }
}

#[derive(Serialize)]
pub(super) struct ForbiddenBody {
    at: Time,
    agent: String,
    tried: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<IntentId>,
    what: String,
    rule: Option<String>,
    by: &'static str,
}

/// What was sent of a priority, and what lowered it.
#[derive(Serialize)]
pub(super) struct SentBody {
    class: u8,
    urgency: f64,
    safety_margin: f64,
    social_value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    by_allowance: bool,
}

impl RightsBody {
    fn of(note: &RightsNote) -> Self {
        match note {
            RightsNote::Forbidden(note) => RightsBody::Forbidden(ForbiddenBody::of(note)),
            RightsNote::LeftOut(count) => RightsBody::LeftOut(*count),
            RightsNote::Lowered { input, sent } => {
                RightsBody::Lowered { input: *input, sent: SentBody::of(sent) }
            }
            RightsNote::Administered { input, by } => {
                RightsBody::Administered { input: *input, by: by.as_str().to_owned() }
            }
            RightsNote::Drain(DrainNote { at, by, reason, deadline }) => RightsBody::Drain {
                at: *at,
                by: by.as_ref().map(|by| by.as_str().to_owned()),
                reason: reason.to_string(),
                deadline: *deadline,
            },
        }
    }
}

impl ForbiddenBody {
    pub(super) fn of(note: &ForbiddenNote) -> Self {
        let ForbiddenNote { at, agent, asked, what, rule, by } = note;
        let (tried, of, id) = match asked {
            Attempt::Declare(id) => ("declare", None, Some(*id)),
            Attempt::Renew(id) => ("renew", None, Some(*id)),
            Attempt::Release(id) => ("release", None, Some(*id)),
            Attempt::Administer(of, id) => ("administer", Some(of.as_str().to_owned()), Some(*id)),
            Attempt::Look => ("look", None, None),
            Attempt::Drain => ("drain", None, None),
            Attempt::SetCapacity => ("set_capacity", None, None),
        };
        ForbiddenBody {
            at: *at,
            agent: agent.as_str().to_owned(),
            tried,
            of,
            id,
            what: what.to_string(),
            rule: rule.as_ref().map(|rule| rule.to_string()),
            by: by.as_str(),
        }
    }
}

impl SentBody {
    pub(super) fn of(sent: &Sent) -> Self {
        let Sent { priority: Priority { class, urgency, safety_margin, social_value }, by } = sent;
        SentBody {
            class: class.number(),
            urgency: *urgency,
            safety_margin: *safety_margin,
            social_value: *social_value,
            rule: by.rule.as_ref().map(|rule| rule.to_string()),
            by_allowance: by.allowance,
        }
    }
}
