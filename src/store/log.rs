//! The log: one record after the other, each as durable as configured before it is answered.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::archive::Archive;
use super::disk::{Disk, DiskFile};
use super::error::{Fault, fault};
use super::layout::{self, Anchor, plain_name};
use super::upkeep::Helper;
use crate::audit::{
    Appended, FRAME_HEAD_BYTES, Link, Progress, STAMP_BYTES, SegmentHeader, Stamp, Written, write_record,
};
use crate::limits::{AUDIT_SEGMENT_BYTES, RECORD_BYTES};
use crate::types::Micros;

/// How a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// When a record is on disk.
    pub durability: Durability,
    /// Bytes of a segment, within [`AUDIT_SEGMENT_RANGE`](crate::limits::AUDIT_SEGMENT_RANGE). A longer
    /// record has a longer segment for itself.
    pub segment_bytes: u64,
    /// Whether closed segments are compressed.
    pub compress: bool,
    /// How long closed segments are kept, counted from when they were last written; `None` for ever.
    /// What recovery needs is kept in any case.
    pub keep_for: Option<Micros>,
    /// How many bytes of segments are kept; `None` for all. What recovery needs is kept in any case.
    pub keep_bytes: Option<u64>,
    /// Who makes segments ready, compresses and removes them.
    pub upkeep: UpkeepBy,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            durability: Durability::Slot,
            segment_bytes: AUDIT_SEGMENT_BYTES,
            compress: false,
            keep_for: None,
            keep_bytes: None,
            upkeep: UpkeepBy::Thread,
        }
    }
}

/// When a record is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Before it is answered: one `fdatasync` each.
    #[default]
    Slot,
    /// At most this long after it was answered; a crash of the machine forgets up to so much.
    Interval(Micros),
    /// Whenever the system writes it, and where its segment is closed.
    None,
}

/// Who does what is done beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpkeepBy {
    /// A thread of its own, and one that syncs at intervals.
    Thread,
    /// Whoever appends, between two records, in an order that is always the same; and at intervals
    /// nobody syncs but [`Log::sync`]. For simulations.
    Caller,
}

/// The log of a coordinator, to which it alone appends. After any failed write or sync it takes no
/// record more and tries no sync: what the system has given up, a later sync does not bring back.
pub struct Log {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) state_id: u64,
    pub(super) options: Options,
    pub(super) shared: Arc<Shared>,
    pub(super) helper: Helper,
    pub(super) _syncer: Option<SyncThread>,
    /// The segment that is written.
    pub(super) segment: u64,
    /// Where the next record goes; 0 where the segment has no header yet.
    pub(super) offset: u64,
    pub(super) last: Link,
    /// A frame before it is written.
    pub(super) buffer: Vec<u8>,
    /// Nobody else has the directory while this is held. Last, so that threads end before.
    pub(super) _lock: Box<dyn fmt::Debug + Send + Sync>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log({}, segment {}, offset {})", self.disk.place(), self.segment, self.offset)
    }
}

/// Bytes of the buffer that are kept for the next record.
const BUFFER_KEPT: usize = 4 << 20;

impl Log {
    /// Appends a record, whose number [`last`](Log::last) says then. With [`Durability::Slot`] it returns once the record is on disk, after one
    /// write and one sync; the first record of a segment may wait for the segment to be ready.
    pub fn append(&mut self, body: &[u8]) -> Appended {
        if let Some(why) = self.shared.state().poison.clone() {
            return Appended::Refused(why);
        }
        if body.len() > RECORD_BYTES {
            return Appended::Refused(format!("a record of {} bytes; up to {RECORD_BYTES} fit", body.len()));
        }
        let bytes = (FRAME_HEAD_BYTES + STAMP_BYTES + body.len()) as u64;
        let turns = self.offset > 0 && self.offset + bytes > self.options.segment_bytes;
        if turns && let Err(fault) = self.turn() {
            return Appended::Refused(self.shared.poison(&fault));
        }
        match self.write(body) {
            Ok(()) => {
                if turns {
                    self.look_ahead();
                }
                Appended::Committed
            }
            Err(fault) => Appended::Unknown(self.shared.poison(&fault)),
        }
    }

    /// Goes on to the next segment. All of this one is on disk before the next is written.
    fn turn(&mut self) -> Result<(), Fault> {
        self.shared.sync()?;
        let file = self.helper.take(self.segment + 1)?;
        self.segment += 1;
        self.offset = 0;
        let mut state = self.shared.state();
        state.file = file;
        state.name = plain_name(self.segment);
        Ok(())
    }

    fn write(&mut self, body: &[u8]) -> Result<(), Fault> {
        let (file, synced) = {
            let state = self.shared.state();
            (Arc::clone(&state.file), state.synced)
        };
        self.buffer.clear();
        if self.offset == 0 {
            let bytes = file.bytes().map_err(fault("look at", plain_name(self.segment)))?;
            let header = SegmentHeader {
                state_id: self.state_id,
                number: self.segment,
                chain: self.last.chain,
                made: SegmentHeader::units(bytes),
            };
            self.buffer.extend_from_slice(&header.to_bytes());
        }
        let seq = self.last.seq + 1;
        let too_long = || Fault {
            doing: "write",
            file: plain_name(self.segment),
            error: std::io::ErrorKind::InvalidInput.into(),
        };
        let chain = write_record(&self.last.chain, Stamp { seq, synced }, body, &mut self.buffer)
            .ok_or_else(too_long)?;
        let at = self.offset;
        let name = || format!("{}, offset {at}", plain_name(self.segment));
        file.write_at(at, &self.buffer).map_err(|error| fault("write", name())(error))?;
        self.shared.note_written(seq, self.buffer.len());
        if self.options.durability == Durability::Slot {
            self.shared.sync()?;
        }
        self.last = Link { chain, seq };
        self.offset += self.buffer.len() as u64;
        self.buffer.truncate(BUFFER_KEPT);
        self.buffer.shrink_to(BUFFER_KEPT);
        Ok(())
    }

    /// Has the next segment made ready and the closed ones seen to.
    fn look_ahead(&mut self) {
        self.helper.prepare(self.segment + 1);
        self.tidy();
    }

    /// Has closed segments compressed and removed as configured; done by itself where a segment is
    /// closed, and worth asking for after a snapshot.
    pub fn tidy(&mut self) {
        self.helper.tidy(self.segment);
    }

    /// Syncs what was written so far.
    ///
    /// # Errors
    /// Where that fails, now or before; the log takes no record more then.
    pub fn sync(&self) -> Result<(), String> {
        if let Some(why) = self.shared.state().poison.clone() {
            return Err(why);
        }
        self.shared.sync().map_err(|fault| self.shared.poison(&fault))
    }

    /// Why the log takes no record more; `None` where it does.
    pub fn poison(&self) -> Option<String> {
        self.shared.state().poison.clone()
    }

    /// What went wrong last in compressing and removing segments, for people; the log itself goes on.
    pub fn trouble(&self) -> Option<String> {
        self.helper.trouble()
    }

    /// How it is kept.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The last record.
    pub fn last(&self) -> Link {
        self.last
    }

    /// Where the next record goes, where it fits: the segment, and the offset in it.
    pub fn position(&self) -> (u64, u64) {
        (self.segment, self.offset)
    }

    /// The last segment that is closed; 0 where none is.
    pub fn closed(&self) -> u64 {
        self.segment - 1
    }

    /// The number up to which all records are known to be on disk.
    pub fn synced(&self) -> u64 {
        self.shared.state().synced
    }

    /// For those who watch how far it comes.
    pub fn progress(&self) -> Arc<dyn Progress> {
        Arc::<Shared>::clone(&self.shared)
    }

    /// The directory to read, from another thread too.
    pub fn archive(&self) -> Archive {
        Archive::new(Arc::clone(&self.disk), self.state_id)
    }

    /// Makes durable that tokens up to this number may be given: where records are synced later than
    /// they are answered, a restart goes on above it.
    ///
    /// # Errors
    /// Where the disk fails. The one before still stands then.
    pub fn write_reserve(&self, token: u64) -> Result<(), Fault> {
        layout::write_reserve(&*self.disk, token)
    }

    /// Makes durable what the coordinator's time rests on.
    ///
    /// # Errors
    /// Where the disk fails. The one before still stands then.
    pub fn write_anchor(&self, anchor: Anchor) -> Result<(), Fault> {
        layout::write_clock(&*self.disk, anchor)
    }
}

/// What the log and the thread that syncs it share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Held during each sync: a system tells of a failed write once, and whoever hears of it must have
    /// said so before another's sync is believed.
    syncing: Mutex<()>,
}

#[derive(Debug)]
struct State {
    file: Arc<dyn DiskFile>,
    name: String,
    /// The last record that was written.
    written: u64,
    /// The last one that is known to be on disk, with all before it.
    synced: u64,
    /// The last record that there was when it was opened.
    opened: u64,
    /// Bytes that were written since.
    bytes: u64,
    poison: Option<String>,
}

impl Shared {
    pub(super) fn new(file: Arc<dyn DiskFile>, segment: u64, seq: u64) -> Shared {
        let name = plain_name(segment);
        let state = State { file, name, written: seq, synced: seq, opened: seq, bytes: 0, poison: None };
        let state = Mutex::new(state);
        Shared { state, syncing: Mutex::new(()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_written(&self, seq: u64, bytes: usize) {
        let mut state = self.state();
        state.written = seq;
        state.bytes += bytes as u64;
    }

    /// Keeps what went wrong, and says what to tell.
    fn poison(&self, fault: &Fault) -> String {
        let why = format!("{fault}; no more is granted until a restart, which keeps all that was answered");
        self.state().poison.get_or_insert(why).clone()
    }

    fn sync(&self) -> Result<(), Fault> {
        let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, name, written) = {
            let state = self.state();
            if state.synced == state.written {
                return Ok(());
            }
            (Arc::clone(&state.file), state.name.clone(), state.written)
        };
        if let Some(why) = self.state().poison.clone() {
            return Err(Fault { doing: "sync", file: name, error: std::io::Error::other(why) });
        }
        if let Err(error) = file.sync() {
            let fault = Fault { doing: "sync", file: name, error };
            self.poison(&fault);
            return Err(fault);
        }
        let mut state = self.state();
        state.synced = state.synced.max(written);
        Ok(())
    }
}

impl Progress for Shared {
    fn written(&self) -> Written {
        let State { written, synced, opened, bytes, .. } = *self.state();
        Written { records: written - opened, synced: synced - opened, bytes }
    }
}

/// The thread that syncs at intervals.
#[derive(Debug)]
pub(super) struct SyncThread {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    pub(super) fn start(shared: Arc<Shared>, interval: Micros) -> std::io::Result<SyncThread> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = Arc::clone(&stop);
        let run = move || {
            while !wait(&stopped, interval.to_std()) {
                if shared.sync().is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("audit sync".to_owned()).spawn(run)?;
        Ok(SyncThread { stop, thread: Some(thread) })
    }
}

/// Waits that long, or until it is time to stop, and says whether it is.
fn wait(stop: &(Mutex<bool>, Condvar), interval: Duration) -> bool {
    let stopped = stop.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = stop.1.wait_timeout_while(stopped, interval, |stopped| !*stopped);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there was told where it happened.
            let _ = thread.join();
        }
    }
}
