//! The journal of a coordinator on disk: each slot's record goes to the log, and a thread of its own
//! makes snapshots of what is closed.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::log::{Durability, Log, Options, UpkeepBy};
use super::{Archive, Item, OpenError, Position, Upto};
use crate::audit::{Appended, Follower, Journal, Progress, SlotEntry, TextKept, config_hash, encode_keeping};
use crate::limits;
use crate::resolver::{Input, SystemOp};

/// See the module's documentation.
#[derive(Debug)]
pub struct FileJournal {
    log: Log,
    /// The hash of the rules in force, and of those that hold from the next record on.
    config: [u8; 32],
    next_config: [u8; 32],
    /// Tokens up to this one may be given: without a sync for each slot, a restart goes on above it.
    reserve: Option<u64>,
    /// What is kept of agents' free text.
    text: TextKept,
    /// A body before it is appended.
    body: Vec<u8>,
    /// The last segment of which a snapshot was asked for.
    closed: u64,
    snapshots: Snapshots,
}

/// The name of the thread that makes snapshots.
pub const SNAPSHOT_THREAD: &str = "preclaim-snapshots";

/// Bytes of a body's buffer that are kept for the next one.
const BODY_KEPT: usize = 4 << 20;

impl FileJournal {
    /// A journal that goes on with `log`, under rules whose text is `document`; those of the next slot
    /// are `next_document`. `base` is the segment of the latest good snapshot.
    ///
    /// # Errors
    /// Where the thread that makes snapshots cannot be started.
    pub fn new(log: Log, base: u64, document: &str, next_document: &str) -> std::io::Result<Self> {
        let Options { durability, upkeep, .. } = log.options();
        let snapshots = match upkeep {
            UpkeepBy::Thread => Snapshots::start(log.archive(), base)?,
            UpkeepBy::Caller => Snapshots::ByCaller(log.archive()),
        };
        let closed = log.closed();
        let mut journal = FileJournal {
            log,
            config: config_hash(document),
            next_config: config_hash(next_document),
            reserve: (durability != Durability::Slot).then_some(0),
            text: TextKept::All,
            body: Vec::new(),
            closed: base,
            snapshots,
        };
        if closed > base {
            journal.ask_for_snapshot(); // one that the last run did not come to
        }
        Ok(journal)
    }

    /// From the next record on it keeps no more than `text` of agents' free text. What is in the log stays there.
    #[must_use]
    pub fn keeping_text(mut self, text: TextKept) -> Self {
        self.text = text;
        self
    }

    /// Where the next record goes: the segment, and the offset in it.
    pub fn position(&self) -> (u64, u64) {
        self.log.position()
    }

    /// What went wrong last beside the log itself: with snapshots, compression or retention.
    pub fn trouble(&self) -> Option<String> {
        self.log.trouble()
    }

    /// Makes durable that the tokens of this slot may be given, with room for many slots more.
    fn reserve_tokens(&mut self, next_token: u64) -> Result<(), String> {
        let Some(reserve) = self.reserve.filter(|reserve| next_token > *reserve) else { return Ok(()) };
        debug_assert!(reserve < next_token);
        let room = next_token.saturating_add(limits::TOKENS_RESERVED);
        self.log.write_reserve(room).map_err(|fault| fault.to_string())?;
        self.reserve = Some(room);
        Ok(())
    }

    fn ask_for_snapshot(&mut self) {
        self.closed = self.log.closed();
        self.snapshots.ask(self.closed);
    }
}

impl Journal for FileJournal {
    fn append(&mut self, entry: SlotEntry<'_>) -> Appended {
        if entry.is_idle() {
            return Appended::Committed;
        }
        if let Some(changes) = &entry.outcome.changes
            && let Err(why) = self.reserve_tokens(changes.next_token)
        {
            return Appended::Refused(why);
        }
        self.config = self.next_config;
        self.next_config = next_config(entry).unwrap_or(self.config);
        self.body.clear();
        encode_keeping(&self.text, &self.config, entry, &mut self.body);
        let appended = self.log.append(&self.body);
        self.body.shrink_to(BODY_KEPT);
        if self.log.closed() > self.closed {
            self.ask_for_snapshot();
        }
        appended
    }

    fn progress(&self) -> Option<Arc<dyn Progress>> {
        Some(self.log.progress())
    }

    fn close(&mut self) -> Appended {
        match self.log.sync() {
            Ok(()) => Appended::Committed,
            Err(why) => Appended::Unknown(why),
        }
    }
}

/// The hash of the rules that a slot's inputs bring for the next one.
fn next_config(entry: SlotEntry<'_>) -> Option<[u8; 32]> {
    let changes = entry.batch.inputs().iter().rev().find_map(|input| match input {
        Input::System { op: SystemOp::Config(change), .. } => Some(change),
        _ => None,
    });
    changes.map(|change| config_hash(&change.document))
}

/// The thread that makes snapshots: of closed segments alone, which nobody writes any more, and by the
/// code that recovers. So a snapshot costs the slot loop nothing, and each was checked against the
/// digest of every record that it stands for.
#[derive(Debug)]
enum Snapshots {
    ByThread {
        ask: Option<SyncSender<u64>>,
        thread: Option<JoinHandle<()>>,
    },
    /// For simulations.
    ByCaller(Archive),
}

impl Snapshots {
    fn start(archive: Archive, base: u64) -> std::io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        let thread = thread::Builder::new()
            .name(SNAPSHOT_THREAD.into())
            .spawn(move || make_snapshots(&archive, base, &asked))?;
        Ok(Snapshots::ByThread { ask: Some(ask), thread: Some(thread) })
    }

    /// Asks for a snapshot after segment `closed`. Where one is being made already, the next to be asked
    /// for stands for this one too.
    fn ask(&self, closed: u64) {
        match self {
            Snapshots::ByThread { ask, .. } => {
                if let Some(ask) = ask {
                    let _ = ask.try_send(closed);
                }
            }
            Snapshots::ByCaller(archive) => tell_of(closed, make_snapshot(archive, closed)),
        }
    }
}

impl Drop for Snapshots {
    /// A snapshot that is being made is finished: it is only read again otherwise.
    fn drop(&mut self) {
        let Snapshots::ByThread { ask, thread } = self else { return };
        *ask = None;
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
    }
}

fn make_snapshots(archive: &Archive, mut base: u64, asked: &Receiver<u64>) {
    yield_to_others();
    while let Ok(closed) = asked.recv() {
        if closed <= base {
            continue;
        }
        let made = make_snapshot(archive, closed);
        base = if made.is_ok() { closed } else { base };
        tell_of(closed, made);
    }
}

/// The log goes on without a snapshot: the next start takes longer, and the next segment tries again.
fn tell_of(closed: u64, made: Result<(), OpenError>) {
    if let Err(error) = made {
        tracing::error!("no snapshot was made after segment {closed}: {error}");
    }
}

/// The slot loop and the wire come first. Where the system would not have it, nothing else changes.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10);
}

/// Makes the snapshot after segment `closed`.
///
/// # Errors
/// Where the log cannot be read up to there, or the snapshot cannot be written.
pub fn make_snapshot(archive: &Archive, closed: u64) -> Result<(), OpenError> {
    let mut follower = Follower::default();
    let read = archive.read(Upto::Closed(closed), &mut |item| follow(&mut follower, item))?;
    let state = follower.finish();
    let position = Position { segment: closed, last: read.last };
    archive.write_snapshot(position, read.base, |snapshot| state.write(|chunk| snapshot.chunk(chunk)))?;
    Ok(())
}

/// Gives what a log holds to a follower.
///
/// # Errors
/// Where it would not have it.
pub(crate) fn follow(follower: &mut Follower, item: Item<'_>) -> Result<(), super::Rejection> {
    match item {
        Item::Start(_) => *follower = Follower::default(),
        Item::Chunk(bytes) => follower.chunk(bytes)?,
        Item::Record(_, entry) => {
            follower.record(entry.body)?;
        }
    }
    Ok(())
}
