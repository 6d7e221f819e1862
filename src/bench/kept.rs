//! The state directory of a coordinator in this process: what its records cost, and beside them what as
//! many bytes cost without a coordinator.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use std::{env, fs, io};

use super::bare::{Bare, Grid};
use super::crowd::{self, Crowd};
use super::watched::Watched;
use super::{BenchError, Keep, Plan};
use crate::audit::{Appended, Journal, SlotEntry};
use crate::clock::{Clock, Reading, SystemClock};
use crate::config::{Config, Durability, StateConfig, TextConfig, show_duration};
use crate::coordinator::{Recovered, StartFrom, recover};
use crate::host::HostConfig;
use crate::limits::AUDIT_SEGMENT_BYTES;
use crate::store::{Disk, DiskFile, FileJournal, RealDisk};
use crate::types::{Micros, Slot, Time};

/// Bytes of the file that is written beside the log; from its end it is written from its start again.
const BARE_BYTES: u64 = 16 << 20;
/// The bytes of it that are made at a time.
const FILL_BYTES: usize = 1 << 20;
/// Its name: a state directory has room for unfinished files, and removes them when it is opened.
const BARE_FILE: &str = "bench.tmp";

/// Such a directory, and what was noted of it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) durability: Durability,
    pub(super) directory: PathBuf,
    pub(super) recovery: Recovery,
    meter: Arc<Meter>,
    disk: Arc<Watched>,
    /// Removed last, where it is to be.
    _fresh: Option<Fresh>,
}

/// What a coordinator found there when it started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    pub(super) took: Micros,
    pub(super) grants: usize,
    pub(super) records: u64,
}

/// What a coordinator goes on from.
pub(super) struct Opened {
    pub(super) kept: Kept,
    pub(super) journal: Box<dyn Journal>,
    pub(super) recovered: Recovered,
    /// Its clock.
    pub(super) clock: SystemClock,
}

/// A record that was appended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) slot: Slot,
    pub(super) segment: u64,
    pub(super) bytes: u64,
}

/// A write and a sync that no coordinator had to do with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Synced {
    /// How late its thread woke.
    pub(super) late: Micros,
    /// How long both took together.
    pub(super) took: Micros,
}

#[derive(Debug, Default)]
struct Meter {
    written: Mutex<Vec<Written>>,
    /// Bytes of the last record.
    last: AtomicU64,
}

impl Kept {
    /// Opens the directory that `keep` names, and says what a coordinator needs to go on from it.
    pub(super) fn open(keep: &Keep, plan: &Plan) -> Result<Opened, BenchError> {
        let fresh = keep.dir.is_none().then(Fresh::new);
        let directory = keep.dir.clone().or(fresh.as_ref().map(|fresh| fresh.0.clone())).unwrap_or_default();
        let disk = Arc::new(Watched::new(RealDisk::create(&directory)?));
        let config = config(plan)?;
        let settings = settings(keep, &directory);
        let mut from = StartFrom::State;
        if fs::read_dir(&directory)?.next().is_none() {
            from = StartFrom::Nothing { token_floor: 1 };
            if keep.grants > 0 {
                crowd::fill(disk.clone(), &config, &settings, Crowd::of(keep.grants), Reading::take().wall)?;
                from = StartFrom::State;
            }
        }
        let (began, now) = (Instant::now(), Reading::take());
        let restart = recover(disk.clone(), &config, &settings, from, now)?;
        let took = micros(began);
        let clock = restart.clock(&now);
        let (grants, records) = (restart.report.grants, restart.report.records);
        let recovery = Recovery { took, grants, records };
        let meter = Arc::new(Meter::default());
        let at = restart.journal.position();
        let journal = Metered { journal: restart.journal, at, meter: Arc::clone(&meter) };
        let kept = Kept { durability: keep.durability, directory, recovery, meter, disk, _fresh: fresh };
        Ok(Opened { kept, journal: Box::new(journal), recovered: restart.recovered, clock })
    }

    /// Records appended since.
    pub(super) fn written(&self) -> Vec<Written> {
        std::mem::take(&mut *self.meter.written.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From when to when, by `clock`, each snapshot was made.
    pub(super) fn snapshots(&self, clock: SystemClock) -> Vec<(Time, Time)> {
        let ago = |at: Instant| clock.now().before(micros(at));
        self.disk.snapshots().into_iter().map(|(begun, done)| (ago(begun), ago(done))).collect()
    }

    /// Starts a thread that half a slot after each boundary writes as many bytes as the last record has,
    /// to a file of its own on the same disk, and syncs them.
    ///
    /// In the same seconds as the log, since a disk that others use changes from one second to the next;
    /// and half a slot apart from it, when the log's own sync is mostly over.
    pub(super) fn write_beside(
        &self,
        clock: SystemClock,
        grid: Grid,
        time: (Time, Time),
    ) -> io::Result<Bare<Synced>> {
        let meter = Arc::clone(&self.meter);
        let mut beside = Beside::new(self.disk.clone())?;
        Bare::start(clock, grid.half_a_slot_later(), time, HostConfig::default(), move |late| {
            let bytes = meter.last.load(Ordering::Relaxed);
            let took = (bytes > 0).then(|| beside.write(bytes))?.ok()?;
            Some(Synced { late, took })
        })
    }
}

pub(super) fn micros(since: Instant) -> Micros {
    Micros::from_us(u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX))
}

/// What a coordinator with the plan's slots is configured with, otherwise by default.
fn config(plan: &Plan) -> Result<Config, BenchError> {
    let text = format!("[slot]\nlength = \"{}\"\n", show_duration(plan.slot));
    Config::parse("the bench's own configuration", &text).map_err(|error| BenchError::Recovery(error.into()))
}

fn settings(keep: &Keep, directory: &Path) -> StateConfig {
    StateConfig {
        dir: directory.to_owned(),
        durability: keep.durability,
        segment_bytes: AUDIT_SEGMENT_BYTES,
        keep_for: None,
        keep_bytes: None,
        compress: true,
        text: TextConfig::default(),
    }
}

/// A directory among the temporary files that is removed in the end.
#[derive(Debug)]
struct Fresh(PathBuf);

impl Fresh {
    fn new() -> Self {
        let name = format!("preclaim-bench-{:016x}", super::load::run_number());
        Fresh(env::temp_dir().join(name))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // What is left over is in the way of nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A coordinator's journal, of whose records the sizes are noted.
#[derive(Debug)]
struct Metered {
    journal: FileJournal,
    at: (u64, u64),
    meter: Arc<Meter>,
}

impl Journal for Metered {
    fn append(&mut self, entry: SlotEntry<'_>) -> Appended {
        let slot = entry.outcome.slot;
        let appended = self.journal.append(entry);
        let (segment, offset) = self.journal.position();
        let before = std::mem::replace(&mut self.at, (segment, offset));
        if before != self.at {
            let bytes = if before.0 == segment { offset - before.1 } else { offset };
            let written = Written { slot, segment, bytes };
            self.meter.last.store(bytes, Ordering::Relaxed);
            self.meter.written.lock().unwrap_or_else(PoisonError::into_inner).push(written);
        }
        appended
    }

    fn close(&mut self) -> Appended {
        self.journal.close()
    }
}

/// A file filled with zeros, as the log's segments are, for writes beside a log. It is removed in the end.
pub(crate) struct Beside {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    offset: u64,
    bytes: Vec<u8>,
}

impl Beside {
    /// Creates it, as large as it gets.
    ///
    /// # Errors
    /// Where the disk fails.
    pub(crate) fn new(disk: Arc<dyn Disk>) -> io::Result<Self> {
        let file = disk.create(BARE_FILE)?;
        let zeros = vec![0; FILL_BYTES];
        for offset in (0..BARE_BYTES).step_by(FILL_BYTES) {
            file.write_at(offset, &zeros)?;
        }
        file.sync()?;
        Ok(Beside { disk, file, offset: 0, bytes: Vec::new() })
    }

    /// Writes and syncs `bytes` more of it, and says how long both took together.
    ///
    /// # Errors
    /// Where the disk fails.
    pub(crate) fn write(&mut self, bytes: u64) -> io::Result<Micros> {
        let bytes = bytes.min(BARE_BYTES);
        if self.offset + bytes > BARE_BYTES {
            self.offset = 0;
        }
        self.bytes.resize(usize::try_from(bytes).unwrap_or(FILL_BYTES), 0x5a);
        let began = Instant::now();
        self.file.write_at(self.offset, &self.bytes)?;
        self.file.sync()?;
        self.offset += bytes;
        Ok(micros(began))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Left over, it is removed when the directory is opened again.
        let _ = self.disk.remove(BARE_FILE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_beside_is_written_from_its_start_again_and_a_fresh_directory_is_removed() {
        let fresh = Fresh::new();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(&fresh.0).unwrap());
        let mut beside = Beside::new(Arc::clone(&disk)).unwrap();
        for (bytes, end) in [(100, 100), (BARE_BYTES - 100, BARE_BYTES), (7, 7), (u64::MAX, BARE_BYTES)] {
            beside.write(bytes).unwrap();
            assert_eq!(beside.offset, end);
        }
        assert_eq!(beside.file.bytes().unwrap(), BARE_BYTES);
        drop(beside);
        assert_eq!(disk.list().unwrap(), []);
        let path = fresh.0.clone();
        drop(fresh);
        assert!(!path.exists());
    }
}
