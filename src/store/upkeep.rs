//! What is done beside the log: the next segment made ready, closed ones compressed, old ones removed.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use lz4_flex::frame::{FrameEncoder, FrameInfo};

use super::disk::{Access, Disk, DiskFile};
use super::error::{Fault, OpenError, fault};
use super::layout::{Listing, packed_name, plain_name, unfinished_name};
use super::log::Options;
use super::snapshot;
use super::source::FileSource;
use crate::limits::{AUDIT_READ_CHUNK, BESIDE_BYTES};

/// The work itself, wherever it is done.
#[derive(Clone, Debug)]
pub(super) struct Upkeep {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) state_id: u64,
    pub(super) options: Options,
}

impl Upkeep {
    /// Makes a segment ready: a file of zeros, all of it on disk, so that a sync of what is written
    /// there later is one of those bytes alone.
    pub(super) fn prepare(&self, segment: u64) -> Result<Arc<dyn DiskFile>, Fault> {
        let (name, disk) = (plain_name(segment), &self.disk);
        let aside = unfinished_name(&name);
        let file = disk.create(&aside).map_err(fault("create", &aside))?;
        let size = self.options.segment_bytes;
        let zeros = vec![0; BESIDE_BYTES.min(usize::try_from(size).unwrap_or(BESIDE_BYTES))];
        let mut done = 0;
        while done < size {
            let count = usize::try_from(size - done).unwrap_or(zeros.len()).min(zeros.len());
            file.write_at(done, &zeros[..count]).map_err(fault("fill", &aside))?;
            file.sync().map_err(fault("sync", &aside))?;
            done += count as u64;
        }
        disk.rename(&aside, &name).map_err(fault("rename", &aside))?;
        disk.sync_directory().map_err(fault("sync", disk.place()))?;
        Ok(file)
    }

    /// The segment after the last one that was begun, ready to be written: as it is, where it was made
    /// ready before. It holds nothing but zeros then.
    pub(super) fn ready(&self, listing: &Listing, segment: u64) -> Result<Arc<dyn DiskFile>, Fault> {
        let files = listing.segments.get(&segment);
        if files.is_none_or(|files| files.is_packed || files.bytes != self.options.segment_bytes) {
            return self.prepare(segment);
        }
        let name = plain_name(segment);
        self.disk.open(&name, Access::Write).map_err(fault("open", &name))
    }

    /// Compresses what is closed, as configured, and removes what is too old or too much.
    pub(super) fn tidy(&self, current: u64) -> Result<(), OpenError> {
        if self.options.compress {
            for (number, files) in Listing::read(&*self.disk)?.segments.range(..current) {
                if files.is_plain {
                    self.compress(*number)?;
                }
            }
        }
        self.retain(current)
    }

    fn compress(&self, segment: u64) -> Result<(), Fault> {
        let (plain, packed) = (plain_name(segment), packed_name(segment));
        let aside = unfinished_name(&packed);
        let disk = &self.disk;
        let source = disk.open(&plain, Access::Read).map_err(fault("open", &plain))?;
        let file = disk.create(&aside).map_err(fault("create", &aside))?;
        pack(FileSource::new(source, 0), &*file).map_err(fault("write", &aside))?;
        file.sync().map_err(fault("sync", &aside))?;
        disk.rename(&aside, &packed).map_err(fault("rename", &aside))?;
        disk.sync_directory().map_err(fault("sync", disk.place()))?;
        disk.remove(&plain).map_err(fault("remove", &plain))?;
        disk.sync_directory().map_err(fault("sync", disk.place()))
    }

    /// Removes segments, the oldest first, that are too old or too much together; none that the older
    /// of the two snapshots needs, should the later one be damaged.
    fn retain(&self, current: u64) -> Result<(), OpenError> {
        let listing = Listing::read(&*self.disk)?;
        let Some(&latest) = listing.snapshots.last() else { return Ok(()) };
        let header = snapshot::read_header(&*self.disk, self.state_id, latest)?;
        let base = header.map_or(0, |header| header.base);
        if !listing.snapshots.contains(&base) {
            return Ok(());
        }
        // By the clock that dates the files: what is written now is the latest.
        let now = listing.segments.values().map(|files| files.modified).max().unwrap_or_default();
        let mut total: u64 = listing.segments.values().map(|files| files.bytes).sum();
        let mut has_removed = false;
        for (number, files) in listing.segments.range(..=base.min(current.saturating_sub(1))) {
            let is_old = self.options.keep_for.is_some_and(|keep| now.since(files.modified) > keep);
            let is_too_much = self.options.keep_bytes.is_some_and(|keep| total > keep);
            if !is_old && !is_too_much {
                break;
            }
            let names = [(files.is_plain, plain_name(*number)), (files.is_packed, packed_name(*number))];
            for (_, name) in names.iter().filter(|(is_there, _)| *is_there) {
                self.disk.remove(name).map_err(fault("remove", name))?;
            }
            total = total.saturating_sub(files.bytes);
            has_removed = true;
        }
        if has_removed {
            self.disk.sync_directory().map_err(fault("sync", self.disk.place()))?;
        }
        Ok(())
    }
}

/// Compresses what a segment holds.
fn pack(mut source: FileSource, file: &dyn DiskFile) -> io::Result<()> {
    let info = FrameInfo::new().content_checksum(true);
    let mut encoder = FrameEncoder::with_frame_info(info, FileSink { file, offset: 0, synced: 0 });
    let mut chunk = vec![0; AUDIT_READ_CHUNK];
    loop {
        match io::Read::read(&mut source, &mut chunk)? {
            0 => break,
            count => encoder.write_all(&chunk[..count])?,
        }
    }
    encoder.finish().map_err(io::Error::other)?;
    Ok(())
}

struct FileSink<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
    synced: u64,
}

impl Write for FileSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        // As where a segment is filled.
        if self.offset - self.synced >= BESIDE_BYTES as u64 {
            self.file.sync()?;
            self.synced = self.offset;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Who does the upkeep.
#[derive(Debug)]
pub(super) enum Helper {
    /// Whoever appends, in between: for simulations.
    Inline {
        upkeep: Upkeep,
        ready: Option<(u64, Arc<dyn DiskFile>)>,
    },
    Thread(HelperThread),
}

/// What a helper is asked to do.
#[derive(Clone, Copy, Debug)]
enum Work {
    Prepare(u64),
    /// Everything before this segment is closed.
    Tidy(u64),
}

/// A segment, ready to be written, or why it is not.
type Prepared = (u64, Result<Arc<dyn DiskFile>, Fault>);

#[derive(Debug)]
pub(super) struct HelperThread {
    /// Taken out to end the thread.
    work: Option<SyncSender<Work>>,
    ready: Mutex<Receiver<Prepared>>,
    thread: Option<JoinHandle<()>>,
    /// Whether tidying waits to be done: once is enough.
    is_tidying_asked: Arc<AtomicBool>,
    /// What went wrong last, beside the log.
    trouble: Arc<Mutex<Option<String>>>,
}

impl Drop for HelperThread {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was told where it happened.
            let _ = thread.join();
        }
    }
}

/// Pieces of work that wait for the helper's thread: what to make ready, and a round of tidying.
const WAITING_WORK: usize = 2;

impl Helper {
    /// Whoever calls, who makes segment `first` ready right away.
    pub(super) fn inline(upkeep: Upkeep, first: u64) -> Helper {
        let mut helper = Helper::Inline { upkeep, ready: None };
        helper.prepare(first);
        helper
    }

    /// A thread that makes segment `first` ready to begin with.
    pub(super) fn thread(upkeep: Upkeep, first: u64) -> io::Result<Helper> {
        let (work, todo) = sync_channel(WAITING_WORK);
        let (done, ready) = sync_channel(WAITING_WORK);
        let trouble = Arc::new(Mutex::new(None));
        let is_tidying_asked = Arc::new(AtomicBool::new(false));
        let (told, asked) = (Arc::clone(&trouble), Arc::clone(&is_tidying_asked));
        let run = move || {
            for work in todo {
                match work {
                    Work::Prepare(segment) => {
                        if done.send((segment, upkeep.prepare(segment))).is_err() {
                            return;
                        }
                    }
                    Work::Tidy(current) => {
                        asked.store(false, Ordering::Release);
                        let trouble = upkeep.tidy(current).err().map(|error| error.to_string());
                        *told.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("audit upkeep".to_owned()).spawn(run)?;
        let thread = Some(thread);
        let ready = Mutex::new(ready);
        let helper = HelperThread { work: Some(work), ready, thread, is_tidying_asked, trouble };
        helper.ask(Work::Prepare(first));
        Ok(Helper::Thread(helper))
    }

    /// Asks for a segment to be made ready.
    pub(super) fn prepare(&mut self, segment: u64) {
        match self {
            // Where that fails, whoever needs it tries again and is told.
            Helper::Inline { upkeep, ready } => {
                *ready = upkeep.prepare(segment).ok().map(|file| (segment, file));
            }
            Helper::Thread(thread) => thread.ask(Work::Prepare(segment)),
        }
    }

    /// A segment that was asked for, once it is ready.
    pub(super) fn take(&mut self, segment: u64) -> Result<Arc<dyn DiskFile>, Fault> {
        match self {
            Helper::Inline { upkeep, ready } => match ready.take().filter(|(number, _)| *number == segment) {
                Some((_, file)) => Ok(file),
                None => upkeep.prepare(segment),
            },
            Helper::Thread(thread) => {
                let ready = thread.ready.lock().unwrap_or_else(PoisonError::into_inner);
                while let Ok((number, file)) = ready.recv() {
                    if number == segment {
                        return file;
                    }
                }
                let error = io::Error::other("the thread that makes segments ready has ended");
                Err(Fault { doing: "fill", file: plain_name(segment), error })
            }
        }
    }

    /// Asks for what is closed to be compressed and removed, where that is not being done already.
    pub(super) fn tidy(&mut self, current: u64) {
        match self {
            Helper::Inline { upkeep, .. } => drop(upkeep.tidy(current)),
            Helper::Thread(thread) => {
                if !thread.is_tidying_asked.swap(true, Ordering::AcqRel) {
                    thread.ask(Work::Tidy(current));
                }
            }
        }
    }

    /// What went wrong last in compressing and removing.
    pub(super) fn trouble(&self) -> Option<String> {
        match self {
            Helper::Inline { .. } => None,
            Helper::Thread(thread) => thread.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl HelperThread {
    /// Each kind of work waits once at most, so that this does not wait for room.
    fn ask(&self, work: Work) {
        if let Some(sender) = &self.work {
            // Where the thread has ended, whoever takes a segment is told.
            let _ = sender.send(work);
        }
    }
}
