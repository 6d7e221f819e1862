//! From a state directory to a coordinator that goes on where the last one stopped.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;

use super::{Recovered, drawn_id};
use crate::audit::{Follower, State};
use crate::clock::{Clock, Reading, Run, SystemClock};
use crate::config::{Config, ConfigError, StateConfig, show_duration};
use crate::resolver::{Resolver, Rules, SystemOp};
use crate::session::coordinator::{Live, Restored};
use crate::store::{self, Anchor, Begin, Disk, FileJournal, Log, OpenError, Options, TornTail, UpkeepBy};
use crate::types::{IntentKey, Slot, Time};

/// Whether there is a state already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFrom {
    /// There is, and it goes on.
    State,
    /// There is none: the directory is empty, and tokens begin at this one.
    Nothing {
        /// The first token.
        token_floor: u64,
    },
    /// There may be one, and it may lack what agents have seen: tokens go on at this one at least.
    Doubtful {
        /// The least next token.
        token_floor: u64,
    },
}

/// A coordinator's state as it was found, and all that it takes to go on from it.
#[derive(Debug)]
pub struct Restart {
    /// For the coordinator's configuration.
    pub recovered: Recovered,
    /// Where records go.
    pub journal: FileJournal,
    /// What the coordinator's clock showed at [`Now`]: while the machine runs on, time goes on as if the
    /// coordinator had not been away.
    pub time: Time,
    /// The clock's first reading is this or later, so that no slot is decided twice. Where it is later than
    /// `time`, that is waited for: no more than two slots.
    pub starts_at: Time,
    /// What was found, for people.
    pub report: Report,
}

impl Restart {
    /// The coordinator's clock, from the same reading that it was recovered with. Returns once the clock may be
    /// looked at, which is after two slots at most.
    pub fn clock(&self, now: &Reading) -> SystemClock {
        let clock = SystemClock::showing(now, self.time);
        thread::sleep(self.starts_at.since(clock.now()).to_std());
        clock
    }
}

/// What was found in a state directory.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The last slot of which there is a record.
    pub last_slot: Option<Slot>,
    /// Records read.
    pub records: u64,
    /// Grants in force after the last record.
    pub grants: usize,
    /// Intents undecided after the last record.
    pub undecided: usize,
    /// What a write that was not finished had left, now cut off.
    pub torn: Option<TornTail>,
    /// Snapshots that were damaged and passed over, and why.
    pub passed_over: Vec<(String, String)>,
    /// Where time goes on by the machine's run: µs by which the wall clock is ahead of it.
    pub wall_ahead_us: Option<i64>,
}

/// What the clocks of the machine show when a coordinator starts.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The wall clock.
    pub wall: Time,
    /// How long the machine has run, where that is known.
    pub run: Option<Run>,
}

impl Now {
    /// The coordinator's time now, if it had never been away: known where it ran in this run of the machine before.
    fn goes_on(&self, anchor: Option<Anchor>) -> Option<Time> {
        let (run, anchor) = (self.run?, anchor?);
        (run.id == anchor.run).then(|| Time::from_us(anchor.booted_us.wrapping_add(run.since.as_us())))
    }

    /// What a coordinator's time rests on whose clock shows `time` now.
    fn anchor(&self, time: Time) -> Option<Anchor> {
        let Run { id: run, since } = self.run?;
        Some(Anchor { run, booted_us: time.as_us().wrapping_sub(since.as_us()) })
    }
}

impl From<Time> for Now {
    /// The wall clock alone.
    fn from(wall: Time) -> Self {
        Now { wall, run: None }
    }
}

impl From<Reading> for Now {
    fn from(Reading { wall, run, .. }: Reading) -> Self {
        Now { wall, run }
    }
}

/// Why a coordinator cannot go on from a state directory.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The directory cannot be used as it is.
    Open(OpenError),
    /// The rules in a record are no configuration that this version reads.
    Rules(ConfigError),
    /// The slot length is a coordinator's for life.
    SlotLength {
        /// As configured.
        configured: String,
        /// As recorded.
        recorded: String,
    },
    /// A thread could not be started.
    Thread(io::Error),
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryError::Open(error) => error.fmt(f),
            RecoveryError::Rules(error) => {
                write!(f, "the audit log holds rules that cannot be read: {error}")
            }
            RecoveryError::SlotLength { configured, recorded } => write!(
                f,
                "slot.length is {configured}, and {recorded} in the audit log: it is a coordinator's for life\n  \
                 do      configure {recorded}, or begin anew in an empty state directory"
            ),
            RecoveryError::Thread(error) => write!(f, "a thread cannot be started: {error}"),
        }
    }
}

impl std::error::Error for RecoveryError {}

impl From<OpenError> for RecoveryError {
    fn from(error: OpenError) -> Self {
        RecoveryError::Open(error)
    }
}

impl From<ConfigError> for RecoveryError {
    fn from(error: ConfigError) -> Self {
        RecoveryError::Rules(error)
    }
}

/// The rules that a text of the audit log spells.
///
/// # Errors
/// Where this version cannot read them.
pub fn rules_of(document: &str) -> Result<Rules, ConfigError> {
    Config::parse("the rules in the audit log", document).map(|config| config.rules)
}

/// Reads the state directory on `disk` and makes ready to go on, under the rules of `config`, from what the
/// clocks show `now`: where the coordinator ran before in this run of the machine, its time goes on by that,
/// and by the wall clock otherwise; in no case does it fall.
///
/// # Errors
/// [`RecoveryError`]; then nothing in the directory has changed, unless the disk failed.
pub fn recover(
    disk: Arc<dyn Disk>,
    config: &Config,
    settings: &StateConfig,
    from: StartFrom,
    now: impl Into<Now>,
) -> Result<Restart, RecoveryError> {
    recover_with(disk, config, options(settings), from, now.into(), drawn_id())
}

/// As [`recover`]. A state that is begun anew has the number `new_id`.
pub(crate) fn recover_with(
    disk: Arc<dyn Disk>,
    config: &Config,
    options: Options,
    from: StartFrom,
    now: Now,
    new_id: u64,
) -> Result<Restart, RecoveryError> {
    let mut follower = Follower::default();
    let mut records = 0;
    let mut open = |begin| {
        Log::open(Arc::clone(&disk), options, begin, &mut |item| {
            records += u64::from(matches!(item, store::Item::Record(..)));
            store::follow(&mut follower, item)
        })
    };
    let (log, found) = match from {
        StartFrom::State => open(Begin::GoOn),
        StartFrom::Nothing { .. } => open(Begin::New(new_id)),
        StartFrom::Doubtful { .. } => match open(Begin::GoOn) {
            Err(OpenError::Empty { .. }) => open(Begin::New(new_id)),
            opened => opened,
        },
    }?;
    let state = follower.finish();
    let length = config.rules.length;
    let rules = match state.document() {
        Some(document) => rules_of(document)?,
        None => Rules { length, ..Rules::default() },
    };
    if rules.length != length {
        let (configured, recorded) = (show_duration(length), show_duration(rules.length));
        return Err(RecoveryError::SlotLength { configured, recorded });
    }
    let token_floor = match from {
        StartFrom::State => 1,
        StartFrom::Nothing { token_floor } | StartFrom::Doubtful { token_floor } => token_floor,
    };
    let next_token = state.image().next_token().max(found.reserve.unwrap_or(1)).max(token_floor);
    let mut boot_ops = vec![SystemOp::Restart { next_token }];
    boot_ops.extend(change_of_rules(&state, config)?);
    let last_slot = state.image().last_slot();
    let goes_on = now.goes_on(found.anchor);
    let time = goes_on.unwrap_or(now.wall);
    let boot_slot = boot_slot(last_slot, Slot::of(time, length));
    let starts_at = time.max(boot_slot.decided_at(length));
    let is_soon = goes_on.is_some() && starts_at.since(time) <= length.plus(length);
    let time = if is_soon { time } else { starts_at };
    keep_anchor(&log, found.anchor, now.anchor(time))?;
    let text = |document: Option<&Arc<str>>| document.map_or("", |it| it).to_owned();
    let (document, next_document) = (text(state.document()), text(state.next_document()));
    let journal = FileJournal::new(log, found.base, &document, &next_document);
    let journal = journal.map_err(RecoveryError::Thread)?;
    let pending = state.pending().iter().map(|op| op.to_op(rules_of)).collect::<Result<Vec<_>, _>>()?;
    let (resolver, sessions) = restored(state, rules, &pending);
    let resolver = resolver.reporting_changes();
    let (grants, undecided) = resolver.counts();
    let report = Report {
        last_slot,
        records,
        grants,
        undecided,
        torn: found.torn,
        passed_over: found.passed_over,
        wall_ahead_us: goes_on.map(|time| now.wall.as_us().wrapping_sub(time.as_us()).cast_signed()),
    };
    let state = found.state_id;
    let recovered = Recovered { resolver, sessions, state, boot_slot, boot_ops };
    Ok(Restart { recovered, journal, time, starts_at, report })
}

/// Nothing is granted before it is known what the time rests on.
fn keep_anchor(log: &Log, before: Option<Anchor>, anchor: Option<Anchor>) -> Result<(), RecoveryError> {
    match anchor {
        Some(anchor) if before != Some(anchor) => {
            log.write_anchor(anchor).map_err(|fault| OpenError::Disk(fault).into())
        }
        _ => Ok(()),
    }
}

/// The decision core and the sessions of a state. Each takes its time where there are a million grants,
/// and neither needs the other, so they are made side by side.
fn restored(state: State, rules: Rules, pending: &[SystemOp]) -> (Resolver, Restored) {
    let sessions = state.sessions().cloned().collect();
    let next_session = state.next_session();
    let live: Vec<Live> =
        state.image().standings().filter_map(|(key, standing)| Live::of(key, standing)).collect();
    let capacities = state.image().head().capacities.into_iter().map(|(path, _)| path).collect();
    let (image, routes) = state.into_parts();
    thread::scope(|scope| {
        let sessions = scope.spawn(move || {
            let route = |key: &IntentKey| routes.get(key).cloned();
            Restored::new(sessions, next_session, live.into_iter(), route).with_capacities(capacities)
        });
        let resolver = Resolver::from_image(image, rules, pending);
        let sessions = sessions.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (resolver, sessions)
    })
}

/// The slot in which a coordinator starts: the last that is over, or the first after the last decided
/// one where that is later; the clock starts at its end.
fn boot_slot(last: Option<Slot>, open: Slot) -> Slot {
    let over = Slot::new(open.number().saturating_sub(1));
    last.map_or(over, |last| over.max(last.next()))
}

/// The input that brings the configured rules, where they are not those in the log. A table of
/// resources that is the same leaves the capacities alone that were set at run time.
fn change_of_rules(state: &State, config: &Config) -> Result<Option<SystemOp>, ConfigError> {
    let before = state.next_document().map(|text| rules_of(text).map(|rules| (text, rules))).transpose()?;
    let before = before.as_ref().map(|(text, rules)| (&***text, rules));
    Ok(config.change_of_rules(before).map(|change| SystemOp::Config(Box::new(change))))
}

fn options(settings: &StateConfig) -> Options {
    Options {
        durability: settings.durability,
        segment_bytes: settings.segment_bytes,
        compress: settings.compress,
        keep_for: settings.keep_for,
        keep_bytes: settings.keep_bytes,
        upkeep: UpkeepBy::Thread,
    }
}

#[cfg(test)]
mod tests;
