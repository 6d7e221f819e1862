//! Opening a state directory to go on with its log.

use std::io;
use std::sync::Arc;

use super::archive::{Archive, Read, Tail, Upto, Visit};
use super::disk::{Access, Disk, DiskFile};
use super::error::{Fault, OpenError, fault};
use super::layout::{self, Anchor, Files, LOCK, Listing, plain_name, read_fully};
use super::log::{Durability, Log, Options, Shared, SyncThread, UpkeepBy};
use super::upkeep::{Helper, Upkeep};
use crate::audit::{Damage, FORMAT_VERSION, Link, SEGMENT_HEADER_BYTES, SegmentHeader, What};
use crate::limits::{AUDIT_READ_CHUNK, AUDIT_SEGMENT_RANGE};

/// Whether there is a log already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// There is, and it goes on.
    GoOn,
    /// There is none: the directory is empty and gets this id, drawn by chance.
    New(u64),
}

/// What was found in a state directory.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The directory's id.
    pub state_id: u64,
    /// The segment after which the snapshot was made that was used; 0 where there was none.
    pub base: u64,
    /// Snapshots that were damaged and passed over, and why.
    pub passed_over: Vec<(String, String)>,
    /// The last record.
    pub last: Link,
    /// What a write that was not finished had left, now cut off.
    pub torn: Option<TornTail>,
    /// Up to which number tokens may have been given, where that was written down.
    pub reserve: Option<u64>,
    /// What the coordinator's time rests on, where that was written down.
    pub anchor: Option<Anchor>,
}

/// A torn tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment's file.
    pub file: String,
    /// Where it started.
    pub offset: u64,
    /// How long it was, up to its last byte that was not zero.
    pub bytes: u64,
}

impl Log {
    /// Opens the state directory on `disk` for this process alone, gives what it holds to `visit`, cuts
    /// off a torn tail, and makes durable what was read, so that nothing that follows rests on what only
    /// the system's memory holds.
    ///
    /// # Errors
    /// Where it is locked, empty, foreign, of a later version or damaged, where `visit` would not have
    /// an item, or where the disk fails. Of what it holds nothing was changed, unless the disk failed.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        begin: Begin,
        visit: Visit<'_>,
    ) -> Result<(Log, Recovered), OpenError> {
        let lock = lock(&*disk)?;
        let state_id = enter(&disk, options, begin)?;
        let upkeep = Upkeep { disk: Arc::clone(&disk), state_id, options };
        let read = Archive::new(Arc::clone(&disk), state_id).read(Upto::End, visit)?;
        let listing = Listing::read(&*disk)?;
        check_lengths(&listing)?;
        check_length(&*disk, &read.tail)?;
        let reserve = listing.has_reserve.then(|| layout::read_reserve(&*disk)).transpose()?;
        let anchor = listing.has_clock.then(|| layout::read_clock(&*disk)).transpose()?;
        let torn = clean_up(&upkeep, &listing, &read.tail)?;
        let (segment, offset, file) = place_to_go_on(&upkeep, &listing, &read)?;
        let shared = Arc::new(Shared::new(file, segment, read.last.seq));
        let (helper, syncer) = helpers(upkeep, &shared, segment + 1).map_err(fault("start", "a thread"))?;
        let last = read.last;
        let log = Log {
            disk,
            state_id,
            options,
            shared,
            helper,
            _syncer: syncer,
            segment,
            offset,
            last,
            buffer: Vec::new(),
            _lock: lock,
        };
        let Read { base, passed_over, .. } = read;
        Ok((log, Recovered { state_id, base, passed_over, last, torn, reserve, anchor }))
    }
}

/// No segment is made so short, so that one which is has been cut, be it to nothing at all.
fn check_lengths(listing: &Listing) -> Result<(), OpenError> {
    let too_short =
        |(_, files): &(&u64, &Files)| files.is_plain && files.bytes < *AUDIT_SEGMENT_RANGE.start();
    match listing.segments.iter().find(too_short) {
        Some((number, files)) => Err(OpenError::Damaged {
            file: plain_name(*number),
            damage: Damage { offset: files.bytes, what: What::CutShort },
        }),
        None => Ok(()),
    }
}

/// A segment is made as long as it is to be, and on disk so, before it is begun: no crash leaves a
/// shorter file, and whoever cut it may have cut off records that were answered.
fn check_length(disk: &dyn Disk, tail: &Tail) -> Result<(), OpenError> {
    if !tail.is_plain || tail.segment == 0 {
        return Ok(());
    }
    let name = plain_name(tail.segment);
    let file = disk.open(&name, Access::Read).map_err(fault("open", &name))?;
    let bytes = file.bytes().map_err(fault("look at", &name))?;
    let mut header = [0; SEGMENT_HEADER_BYTES];
    read_fully(&*file, 0, &mut header).map_err(fault("read", &name))?;
    match SegmentHeader::read(&header) {
        Ok(header) if header.is_cut_short(bytes) => {
            Err(OpenError::Damaged { file: name, damage: Damage { offset: bytes, what: What::CutShort } })
        }
        _ => Ok(()), // what else is wrong with it the reading has told
    }
}

fn lock(disk: &dyn Disk) -> Result<Box<dyn std::fmt::Debug + Send + Sync>, OpenError> {
    disk.lock(LOCK).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked { place: disk.place() },
        _ => fault("lock", format!("{}/{LOCK}", disk.place()))(error).into(),
    })
}

/// The id of the directory, which is begun where it is to be.
fn enter(disk: &Arc<dyn Disk>, options: Options, begin: Begin) -> Result<u64, OpenError> {
    let listing = Listing::read(&**disk)?;
    let place = || disk.place();
    if let Some(file) = listing.foreign {
        return Err(OpenError::Foreign { place: place(), file });
    }
    let is_empty = !listing.has_state && listing.snapshots.is_empty() && is_unused(&**disk, &listing)?;
    match begin {
        Begin::GoOn if is_empty => Err(OpenError::Empty { place: place() }),
        Begin::GoOn if !listing.has_state => {
            Err(OpenError::Missing { place: place(), file: layout::STATE.to_owned() })
        }
        Begin::GoOn => layout::read_state(&**disk),
        Begin::New(_) if !is_empty => Err(OpenError::NotEmpty { place: place() }),
        Begin::New(state_id) => {
            // The first segment before `state`: a directory that has the one and not the other has
            // lost something.
            Upkeep { disk: Arc::clone(disk), state_id, options }.prepare(1)?;
            layout::write_state(&**disk, state_id)?;
            Ok(state_id)
        }
    }
}

/// Whether there is no segment but perhaps a first one that was not begun, as a beginning leaves it that
/// was cut short.
fn is_unused(disk: &dyn Disk, listing: &Listing) -> Result<bool, OpenError> {
    if listing.segments.iter().any(|(number, files)| *number != 1 || files.is_packed) {
        return Ok(false);
    }
    if listing.segments.is_empty() {
        return Ok(true);
    }
    let name = plain_name(1);
    let file = disk.open(&name, Access::Read).map_err(fault("open", &name))?;
    let mut header = [0; SEGMENT_HEADER_BYTES];
    read_fully(&*file, 0, &mut header).map_err(fault("read", &name))?;
    Ok(header == [0; SEGMENT_HEADER_BYTES])
}

/// Cuts off what was not finished, writes again what may not be on disk, and removes what does not
/// count.
fn clean_up(upkeep: &Upkeep, listing: &Listing, tail: &Tail) -> Result<Option<TornTail>, Fault> {
    let disk = &*upkeep.disk;
    for name in &listing.unfinished {
        disk.remove(name).map_err(fault("remove", name))?;
    }
    if tail.is_plain {
        let name = plain_name(tail.segment);
        let file = disk.open(&name, Access::Write).map_err(fault("open", &name))?;
        blank(&*file, tail.offset, tail.until).map_err(fault("write", &name))?;
        write_again(&*file, tail.sure, tail.offset).map_err(fault("write", &name))?;
        file.sync().map_err(fault("sync", &name))?;
    }
    let next = plain_name(tail.segment + 1);
    if tail.spoiled > 0 {
        let file = disk.open(&next, Access::Write).map_err(fault("open", &next))?;
        blank(&*file, 0, tail.spoiled).map_err(fault("write", &next))?;
        file.sync().map_err(fault("sync", &next))?;
    }
    // Made ready too early: more than the one that comes next.
    for number in listing.segments.range(tail.segment + 2..).map(|(number, _)| *number) {
        let name = plain_name(number);
        disk.remove(&name).map_err(fault("remove", &name))?;
    }
    disk.sync_directory().map_err(fault("sync", disk.place()))?;
    let torn = |file, offset, until| TornTail { file, offset, bytes: until - offset };
    Ok(if tail.until > tail.offset {
        Some(torn(plain_name(tail.segment), tail.offset, tail.until))
    } else {
        (tail.spoiled > 0).then(|| torn(next, 0, tail.spoiled))
    })
}

/// Cuts off the torn tail of a log that no coordinator has, and nothing else: only bytes that a write
/// left which was not finished become zero. Returns once that is on disk; `None` where there is none.
///
/// # Errors
/// Where a coordinator has the directory, the log is damaged or the disk fails. Nothing was changed,
/// unless the disk failed.
pub fn repair_tail(disk: &Arc<dyn Disk>) -> Result<Option<TornTail>, OpenError> {
    let archive = Archive::open(Arc::clone(disk))?;
    let _lock = lock(&**disk)?;
    let tail = archive.read(Upto::End, &mut |_| Ok(()))?.tail;
    let (segment, offset, until) = match tail {
        Tail { segment, offset, until, .. } if until > offset => (segment, offset, until),
        Tail { segment, spoiled, .. } if spoiled > 0 => (segment + 1, 0, spoiled),
        _ => return Ok(None),
    };
    let name = plain_name(segment);
    let file = disk.open(&name, Access::Write).map_err(fault("open", &name))?;
    blank(&*file, offset, until).map_err(fault("write", &name))?;
    file.sync().map_err(fault("sync", &name))?;
    Ok(Some(TornTail { file: name, offset, bytes: until - offset }))
}

/// Puts zeros where something else stands.
fn blank(file: &dyn DiskFile, from: u64, until: u64) -> io::Result<()> {
    let zeros = vec![0; AUDIT_READ_CHUNK];
    let mut at = from;
    while at < until {
        let count = usize::try_from(until - at).unwrap_or(zeros.len()).min(zeros.len());
        file.write_at(at, &zeros[..count])?;
        at += count as u64;
    }
    Ok(())
}

/// Writes what stands there once more. After a failed sync the system may hold bytes that it never wrote
/// and never will, unless they are written anew.
fn write_again(file: &dyn DiskFile, from: u64, until: u64) -> io::Result<()> {
    let mut chunk = vec![0; AUDIT_READ_CHUNK];
    let mut at = from;
    while at < until {
        let count = usize::try_from(until - at).unwrap_or(chunk.len()).min(chunk.len());
        let count = read_fully(file, at, &mut chunk[..count])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_at(at, &chunk[..count])?;
        at += count as u64;
    }
    Ok(())
}

/// The segment that the next record goes to, where in it, and its file. A segment that is compressed or
/// in a snapshot is closed for good; and so is one of an earlier version, which says so in its header, and whose
/// readers need not know what this one writes.
fn place_to_go_on(
    upkeep: &Upkeep,
    listing: &Listing,
    read: &Read,
) -> Result<(u64, u64, Arc<dyn DiskFile>), Fault> {
    let Tail { segment, offset, is_plain, .. } = read.tail;
    let is_in_snapshot = listing.snapshots.range(segment..).next().is_some();
    if is_plain && !is_in_snapshot {
        let name = plain_name(segment);
        let file = upkeep.disk.open(&name, Access::Write).map_err(fault("open", &name))?;
        let mut header = [0; SEGMENT_HEADER_BYTES];
        let is_begun = offset > 0;
        if is_begun {
            read_fully(&*file, 0, &mut header).map_err(fault("read", &name))?;
        }
        if !is_begun || SegmentHeader::version(&header) == FORMAT_VERSION {
            return Ok((segment, offset, file));
        }
    }
    Ok((segment + 1, 0, upkeep.ready(listing, segment + 1)?))
}

fn helpers(upkeep: Upkeep, shared: &Arc<Shared>, next: u64) -> io::Result<(Helper, Option<SyncThread>)> {
    match (upkeep.options.upkeep, upkeep.options.durability) {
        (UpkeepBy::Caller, _) => Ok((Helper::inline(upkeep, next), None)),
        (UpkeepBy::Thread, Durability::Interval(interval)) => {
            let syncer = SyncThread::start(Arc::clone(shared), interval)?;
            Ok((Helper::thread(upkeep, next)?, Some(syncer)))
        }
        (UpkeepBy::Thread, _) => Ok((Helper::thread(upkeep, next)?, None)),
    }
}
