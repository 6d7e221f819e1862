//! `preclaim audit replay`: the log decided again, as it was or under another policy.

use std::path::PathBuf;

use serde::Serialize;

use super::super::output::{self, Format, Output, harmless};
use super::super::table::Table;
use super::super::times::length as span;
use super::problem::decoded;
use super::verify::ATTEMPTS;
use super::{ExitCode, Problem, Progress, note};
use crate::audit::{RULES_VERSION, Record};
use crate::config::{Config, show_duration};
use crate::replay::{Base, Comparison, Difference, Figures, Policy, Replayer, Tally, Unfit, slot_length};
use crate::store::{Archive, Found, Rejection};
use crate::types::{Micros, Slot};

const EXAMPLE: &str = "\
Examples:
  $ preclaim audit replay /var/lib/preclaim
  $ preclaim audit replay --config other.toml /var/lib/preclaim

Without a configuration, every recorded slot is decided again, and decisions, scores and digests are
compared bit by bit; the first slot that differs is told, with code 40. With one, what arrived is
decided under its rules from the first slot on, and what came of each agent's intents is told beside
what it was: `was > would have been`. Changes of the rules in the log do not count then, capacities
that the operator set do.";

/// Decide the log again and compare, or see what another configuration would have decided
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Decide under the rules of this configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The state directory, or a copy of one
    dir: PathBuf,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Problem> {
    let config = args.config.as_deref().map(Config::load).transpose();
    let config = config.map_err(|error| Problem::configuration(&error))?;
    for _ in 1..ATTEMPTS {
        match replay(args, config.as_ref()) {
            Err(problem) if problem.is_removed() => {}
            replayed => return replayed,
        }
    }
    replay(args, config.as_ref())
}

fn replay(args: &Args, config: Option<&Config>) -> Result<ExitCode, Problem> {
    let archive = super::open(args.dir.clone())?;
    let base = Base::oldest(&archive)?;
    if base.segment > 0 {
        note(format_args!(
            "the beginning of the log is gone: from the state after segment {} on",
            base.segment
        ));
    }
    match config {
        None => again(&archive, base, args.output.format()),
        Some(config) => compare(&archive, base, config, args.output.format()),
    }
}

/// Reads all records after `base`; the first has the slot's length told.
fn each<T>(
    archive: &Archive,
    base: Base,
    start: impl FnOnce(Base, Micros) -> Result<T, Rejection>,
    mut take: impl FnMut(&mut T, &Found<'_>, &Record) -> Result<(), Rejection>,
) -> Result<(Option<T>, u64), Problem> {
    let mut progress = Progress::start();
    let mut walk = archive.walk(base.segment + 1, Some(base.last));
    let (mut starting, mut state) = (Some((base, start)), None);
    walk.read_on(&mut |found| {
        progress.tick();
        let record = decoded(&found)?;
        if let Some((base, start)) = starting.take() {
            let why = "its time is not the end of its slot".to_owned();
            let unfit = Unfit { file: found.file.to_owned(), offset: found.entry.offset, why };
            state = Some(start(base, slot_length(record.slot, record.at).ok_or(unfit)?)?);
        }
        state.iter_mut().try_for_each(|state| take(state, &found, &record))
    })?;
    Ok((state, progress.rate()))
}

#[derive(Debug, Default, Serialize)]
struct Again {
    records: u64,
    first_slot: Option<Slot>,
    last_slot: Option<Slot>,
    records_per_second: u64,
    rules_version: u16,
    /// The first slot that was decided by another version of the rules.
    other_version: Option<OtherVersion>,
    differs: Option<Differs>,
}

#[derive(Debug, Serialize)]
struct OtherVersion {
    slot: Slot,
    rules_version: u16,
}

#[derive(Debug, Serialize)]
struct Differs {
    slot: Slot,
    what: &'static str,
    recorded: String,
    decided: String,
    file: String,
    offset: u64,
}

fn again(archive: &Archive, base: Base, format: Format) -> Result<ExitCode, Problem> {
    let mut report = Again { rules_version: RULES_VERSION, ..Again::default() };
    let start = |base, length| Ok(Replayer::new(base, length)?);
    let read = each(archive, base, start, |replayer, found, record| {
        report.count(record);
        replayer.take(record).map_err(|difference| {
            let Difference { slot, what, recorded, decided } = (*difference).clone();
            let (file, offset) = (found.file.to_owned(), found.entry.offset);
            report.differs = Some(Differs { slot, what, recorded, decided, file, offset });
            difference
        })?;
        Ok(())
    });
    match (read, &report.differs) {
        (Ok((_, rate)), _) => report.records_per_second = rate,
        (Err(_), Some(_)) => {}
        (Err(problem), None) => return Err(problem),
    }
    if let Some(OtherVersion { slot, rules_version }) = report.other_version {
        note(format_args!(
            "slot {slot} and what follows was decided by version {rules_version} of the rules, and is decided here by version {RULES_VERSION}",
            slot = slot.number()
        ));
    }
    let printed = match format {
        Format::Json => output::print(format_args!("{}\n", output::json(&report))),
        Format::Table => output::print(format_args!("{}", report.for_people())),
    };
    let Some(differs) = report.differs.filter(|_| printed == ExitCode::Done) else { return Ok(printed) };
    output::complain(format_args!(
        "slot {}: the log does not say what is decided from it ({})\n  why     {}, offset {}\n  \
         do      compare the rules' versions; where they are the same, the log was changed, or a rule was",
        differs.slot.number(),
        differs.what,
        differs.file,
        differs.offset
    ));
    Ok(ExitCode::AuditDiffers)
}

impl Again {
    fn count(&mut self, record: &Record) {
        self.records += 1;
        self.first_slot.get_or_insert(record.slot);
        self.last_slot = Some(record.slot);
        if record.rules_version != RULES_VERSION && self.other_version.is_none() {
            let (slot, rules_version) = (record.slot, record.rules_version);
            self.other_version = Some(OtherVersion { slot, rules_version });
        }
    }

    fn for_people(&self) -> String {
        if let Some(differs) = &self.differs {
            let Differs { slot, what, recorded, decided, .. } = differs;
            return format!(
                "slot {} differs ({what})\n  recorded  {}\n  decided   {}\n",
                slot.number(),
                harmless(recorded),
                harmless(decided)
            );
        }
        let slots = match (self.first_slot, self.last_slot) {
            (Some(first), Some(last)) => format!(", slots {} to {}", first.number(), last.number()),
            _ => String::new(),
        };
        format!(
            "records     {}{slots}\nspeed       {} records a second\nall are decided alike\n",
            self.records, self.records_per_second
        )
    }
}

fn compare(archive: &Archive, base: Base, config: &Config, format: Format) -> Result<ExitCode, Problem> {
    let mut other = None;
    let start = |base, length| {
        other = Some(length).filter(|length| *length != config.rules.length);
        Ok(Policy::new(base, config.rules.clone(), length))
    };
    let (policy, _) = each(archive, base, start, |policy, found, record| {
        let (file, offset) = (found.file.to_owned(), found.entry.offset);
        policy.take(record).map_err(|why| Unfit { file, offset, why: why.to_string() })?;
        Ok(())
    })?;
    let Some(policy) = policy else {
        return Err(Problem::Usage("the log has no record yet".to_owned()));
    };
    if let Some(length) = other {
        note(format_args!("slots stay as long as they were: {}", show_duration(length)));
    }
    let comparison = policy.finish();
    Ok(match format {
        Format::Json => output::print(format_args!("{}\n", output::json(&Document::of(&comparison)))),
        Format::Table => output::print(format_args!("{}\n{}", totals(&comparison), agents(&comparison))),
    })
}

#[derive(Serialize)]
struct Document<'a> {
    records: u64,
    first_slot: Option<Slot>,
    last_slot: Option<Slot>,
    recorded: Side,
    other: Side,
    /// Who gains most granted time first.
    agents: Vec<AgentBody<'a>>,
}

#[derive(Serialize)]
struct Side {
    #[serde(flatten)]
    figures: FiguresBody,
    /// Jain's index of granted time.
    fairness: Option<f64>,
}

#[derive(Serialize)]
struct AgentBody<'a> {
    agent: &'a str,
    gains_us: i64,
    recorded: FiguresBody,
    other: FiguresBody,
}

#[derive(Serialize)]
struct FiguresBody {
    declared: u64,
    granted: u64,
    waited: u64,
    conflicts: u64,
    rejected: u64,
    moved: u64,
    revoked: u64,
    renewals_denied: u64,
    mean_wait_us: Option<u64>,
    max_wait_us: u64,
    granted_time_us: u64,
}

impl From<&Figures> for FiguresBody {
    fn from(it: &Figures) -> Self {
        FiguresBody {
            declared: it.declared,
            granted: it.granted,
            waited: it.waited,
            conflicts: it.conflicts,
            rejected: it.rejected,
            moved: it.moved,
            revoked: it.revoked,
            renewals_denied: it.denied,
            mean_wait_us: it.mean_wait().map(Micros::as_us),
            max_wait_us: it.longest_wait.as_us(),
            granted_time_us: it.held.as_us(),
        }
    }
}

impl Side {
    fn of(tally: &Tally) -> Self {
        Side { figures: (&tally.total()).into(), fairness: tally.fairness() }
    }
}

impl<'a> Document<'a> {
    fn of(comparison: &'a Comparison) -> Self {
        let agents = by_gain(comparison).into_iter().map(|(agent, gains_us, recorded, other)| AgentBody {
            agent,
            gains_us,
            recorded: (&recorded).into(),
            other: (&other).into(),
        });
        Document {
            records: comparison.records,
            first_slot: comparison.slots.map(|(first, _)| first),
            last_slot: comparison.slots.map(|(_, last)| last),
            recorded: Side::of(&comparison.recorded),
            other: Side::of(&comparison.other),
            agents: agents.collect(),
        }
    }
}

/// Each agent with what it gains in granted time and its figures, the greatest gain first.
fn by_gain(comparison: &Comparison) -> Vec<(&str, i64, Figures, Figures)> {
    let (recorded, other) = (comparison.recorded.agents(), comparison.other.agents());
    let only_there = other.keys().filter(|agent| !recorded.contains_key(*agent));
    let figures =
        |of: &std::collections::BTreeMap<_, Figures>, agent| of.get(agent).copied().unwrap_or_default();
    let mut all: Vec<_> = recorded
        .keys()
        .chain(only_there)
        .map(|agent| {
            let (was, is) = (figures(recorded, agent), figures(other, agent));
            (agent.as_str(), is.held.as_us().wrapping_sub(was.held.as_us()).cast_signed(), was, is)
        })
        .collect();
    all.sort_by_key(|(_, gain, ..)| std::cmp::Reverse(*gain));
    all
}

fn was_and_is(was: impl Into<String>, is: impl Into<String>) -> String {
    let (was, is) = (was.into(), is.into());
    if was == is { was } else { format!("{was} > {is}") }
}

fn counts(of: impl Fn(&Figures) -> u64, was: &Figures, is: &Figures) -> String {
    was_and_is(of(was).to_string(), of(is).to_string())
}

fn mean(figures: &Figures) -> String {
    figures.mean_wait().map_or_else(|| "-".to_owned(), span)
}

/// One of the figures.
type Count = fn(&Figures) -> u64;

fn totals(comparison: &Comparison) -> Table {
    let (was, is) = (comparison.recorded.total(), comparison.other.total());
    let fairness = |tally: &Tally| tally.fairness().map_or_else(|| "-".to_owned(), |it| format!("{it:.3}"));
    let mut table = Table::headed(&["", "RECORDED", "OTHER"]);
    let mut row = |name: &str, was: String, is: String| table.row([name.to_owned(), was, is]);
    let count = |of: Count| (of(&was).to_string(), of(&is).to_string());
    let numbers: [(&str, Count); 8] = [
        ("declared", |it| it.declared),
        ("granted", |it| it.granted),
        ("waited", |it| it.waited),
        ("conflicts", |it| it.conflicts),
        ("rejected", |it| it.rejected),
        ("moved", |it| it.moved),
        ("revoked", |it| it.revoked),
        ("renewals denied", |it| it.denied),
    ];
    for (name, of) in numbers {
        let (was, is) = count(of);
        row(name, was, is);
    }
    row("mean wait", mean(&was), mean(&is));
    row("longest wait", span(was.longest_wait), span(is.longest_wait));
    row("granted time", span(was.held), span(is.held));
    row("fairness (Jain, granted time)", fairness(&comparison.recorded), fairness(&comparison.other));
    table
}

/// Agents that a table lists of those who gain, and of those who lose.
const LISTED: usize = 20;

fn agents(comparison: &Comparison) -> Table {
    let all = by_gain(comparison);
    let mut table = Table::headed(&[
        "AGENT",
        "GAINS",
        "GRANTED TIME",
        "GRANTED",
        "WAITED",
        "CONFLICTS",
        "REVOKED",
        "MEAN WAIT",
        "LONGEST WAIT",
    ]);
    let is_listed = |at: &usize| *at < LISTED || *at + LISTED >= all.len();
    for (_, (agent, gain, was, is)) in all.iter().enumerate().filter(|(at, _)| is_listed(at)) {
        let sign = if *gain < 0 { "-" } else { "+" };
        let gains = if *gain == 0 {
            "0".to_owned()
        } else {
            format!("{sign}{}", span(Micros::from_us(gain.unsigned_abs())))
        };
        table.row([
            harmless(agent),
            gains,
            was_and_is(span(was.held), span(is.held)),
            counts(|it| it.granted, was, is),
            counts(|it| it.waited, was, is),
            counts(|it| it.conflicts, was, is),
            counts(|it| it.revoked + it.moved, was, is),
            was_and_is(mean(was), mean(is)),
            was_and_is(span(was.longest_wait), span(is.longest_wait)),
        ]);
    }
    if all.len() > 2 * LISTED {
        note(format_args!("{} agents between those are left out; JSON has all", all.len() - 2 * LISTED));
    }
    table
}
