//! Reading what a state directory holds: the latest good snapshot and the records after it.

use std::fmt;
use std::sync::Arc;

use super::disk::Disk;
use super::error::{Fault, OpenError};
use super::layout::{self, Listing, snapshot_name};
use super::snapshot::{self, Header, Position, Snapshot, SnapshotWriter};
use super::source::{OpenSegment, read_error};
use crate::audit::{
    Damage, End, Entry, Expected, Link, Place, SEGMENT_HEADER_BYTES, Scanner, Source, Step, What,
};

/// What a state directory holds, piece by piece, oldest first.
#[derive(Debug)]
pub enum Item<'a> {
    /// All begins here; what came before does not count. With the segment after which the snapshot was
    /// made whose chunks follow, 0 where there is none and the records begin with the first.
    Start(u64),
    /// The next piece of the snapshot.
    Chunk(&'a [u8]),
    /// The next record, and the number of its segment.
    Record(u64, Entry<'a>),
}

/// Why whoever was given an [`Item`] would not have it; the reading stops there.
pub type Rejection = Box<dyn std::error::Error + Send + Sync>;

/// Who is given the items.
pub type Visit<'a> = &'a mut dyn FnMut(Item<'_>) -> Result<(), Rejection>;

/// How far to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upto {
    /// To the end of the log.
    End,
    /// To the end of this segment, which is closed.
    Closed(u64),
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// The segment after which the snapshot was made that was used; 0 where there was none.
    pub base: u64,
    /// Snapshots that were damaged and passed over, and why.
    pub passed_over: Vec<(String, String)>,
    /// The last record.
    pub last: Link,
    /// Where the log ends.
    pub tail: Tail,
}

/// What came of reading a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotRead {
    /// All of it was there: the state after this position.
    Whole(Position),
    /// It is damaged, and what was given of it does not count. With what is wrong, for people.
    Damaged(String),
}

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The last segment that has records; the one before the first where none has.
    pub segment: u64,
    /// Where its next record would go.
    pub offset: u64,
    /// Where the torn tail ends that was found there; `offset` where there is none.
    pub until: u64,
    /// Up to where it is known to have been on disk when its last record was written.
    pub sure: u64,
    /// Whether it can be gone on with: it is not compressed.
    pub is_plain: bool,
    /// Where, in the segment after it, the last byte ends of a first write that was not finished.
    pub spoiled: u64,
}

/// A state directory to read, whether a coordinator has it or not. It changes nothing, but for the
/// snapshots it is told to write.
#[derive(Clone)]
pub struct Archive {
    disk: Arc<dyn Disk>,
    state_id: u64,
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Archive({}, {:016x})", self.disk.place(), self.state_id)
    }
}

impl Archive {
    /// The state directory on `disk`.
    ///
    /// # Errors
    /// Where there is none, or of a later version, or where it has lost what it was begun with.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Archive, OpenError> {
        let listing = Listing::read(&*disk)?;
        let missing = |file| Err(OpenError::Missing { place: disk.place(), file });
        let is_empty = listing.segments.is_empty() && listing.snapshots.is_empty();
        match (listing.has_state, is_empty) {
            (false, true) => return Err(OpenError::Empty { place: disk.place() }),
            (false, false) => return missing(layout::STATE.to_owned()),
            // It was begun with its first segment.
            (true, _) if listing.segments.is_empty() => return missing(layout::plain_name(1)),
            (true, _) => {}
        }
        let state_id = layout::read_state(&*disk)?;
        Ok(Archive { disk, state_id })
    }

    pub(super) fn new(disk: Arc<dyn Disk>, state_id: u64) -> Archive {
        Archive { disk, state_id }
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// The state directory's id.
    pub fn state_id(&self) -> u64 {
        self.state_id
    }

    /// Reads the latest good snapshot and the records after it. A snapshot that is damaged is passed
    /// over for the one before; `visit` is told by [`Item::Start`] where it has to begin anew.
    ///
    /// # Errors
    /// Where the log is damaged or has a gap, or `visit` would not have an item.
    pub fn read(&self, upto: Upto, visit: Visit<'_>) -> Result<Read, OpenError> {
        let listing = Listing::read(&*self.disk)?;
        let mut passed_over = Vec::new();
        let mut from = Position { segment: 0, last: Link::START };
        for &segment in listing.snapshots.iter().rev() {
            if matches!(upto, Upto::Closed(last) if last < segment) {
                continue;
            }
            visit(Item::Start(segment)).map_err(OpenError::Rejected)?;
            match snapshot::read(&*self.disk, self.state_id, segment, visit)? {
                Snapshot::Read(header) => {
                    from = header.position;
                    break;
                }
                Snapshot::Damaged(why) => passed_over.push((snapshot_name(segment), why)),
            }
        }
        if from.segment == 0 {
            visit(Item::Start(0)).map_err(OpenError::Rejected)?;
        }
        let after = Some(from.last);
        let (last, tail) = match self.segments(&listing, from.segment + 1, after, upto, visit) {
            Err(OpenError::Missing { .. }) if !passed_over.is_empty() => {
                let (file, why) = passed_over.swap_remove(0);
                return Err(OpenError::Unreadable { file, why });
            }
            read => read?,
        };
        Ok(Read { base: from.segment, passed_over, last: last.unwrap_or(from.last), tail })
    }

    /// Reads all records that are still there, from the oldest segment on, and no snapshot.
    ///
    /// # Errors
    /// As [`read`](Archive::read).
    pub fn read_all(&self, visit: Visit<'_>) -> Result<Tail, OpenError> {
        let listing = Listing::read(&*self.disk)?;
        let first = listing.segments.keys().next().copied().unwrap_or(1);
        let after = (first == 1).then_some(Link::START);
        Ok(self.segments(&listing, first, after, Upto::End, visit)?.1)
    }

    /// Where the directory is, for people.
    pub fn place(&self) -> String {
        self.disk.place()
    }

    /// The name of the file of the snapshot after `segment`.
    pub fn snapshot_file(segment: u64) -> String {
        snapshot_name(segment)
    }

    /// Gives the chunks of the snapshot after `segment` to `take`, and says where that stands.
    ///
    /// # Errors
    /// Where it is not there or cannot be read, or `take` would not have a chunk.
    pub fn read_snapshot(
        &self,
        segment: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Rejection>,
    ) -> Result<SnapshotRead, OpenError> {
        let read = snapshot::read(&*self.disk, self.state_id, segment, &mut |item| match item {
            Item::Chunk(bytes) => take(bytes),
            Item::Start(_) | Item::Record(..) => Ok(()),
        });
        Ok(match read? {
            Snapshot::Read(header) => SnapshotRead::Whole(header.position),
            Snapshot::Damaged(why) => SnapshotRead::Damaged(why),
        })
    }

    /// Writes the snapshot after a closed segment, made from the one after segment `base` (0 for none)
    /// and what followed it, and removes all older ones but that one. Returns once it is durable.
    ///
    /// # Errors
    /// Where the disk fails, or `fill` does: then no snapshot was made.
    pub fn write_snapshot(
        &self,
        position: Position,
        base: u64,
        fill: impl FnOnce(&mut SnapshotWriter<'_>) -> std::io::Result<()>,
    ) -> Result<(), Fault> {
        snapshot::write(&*self.disk, Header { state_id: self.state_id, position, base }, fill)?;
        let listing = Listing::read(&*self.disk)?;
        let older = listing.snapshots.range(..position.segment).filter(|segment| **segment != base);
        for segment in older {
            let name = snapshot_name(*segment);
            self.disk.remove(&name).map_err(super::error::fault("remove", &name))?;
        }
        self.disk.sync_directory().map_err(super::error::fault("sync", self.disk.place()))
    }

    /// The segments from `first` on.
    fn segments(
        &self,
        listing: &Listing,
        first: u64,
        mut after: Option<Link>,
        upto: Upto,
        visit: Visit<'_>,
    ) -> Result<(Option<Link>, Tail), OpenError> {
        let mut tail = Tail { segment: first - 1, offset: 0, until: 0, sure: 0, is_plain: false, spoiled: 0 };
        for number in first.. {
            if matches!(upto, Upto::Closed(last) if last < number) {
                break;
            }
            // Where later ones are there, opening it tells whether this one is: a listing that is made
            // while a file takes the place of another may have neither.
            if number > first && listing.segments.range(number..).next().is_none() {
                break;
            }
            let mut segment = OpenSegment::open(&*self.disk, number)?;
            let is_closed = upto != Upto::End || segment.is_packed() || self.is_begun(number + 1)?;
            let place = if is_closed { Place::Closed } else { Place::Last };
            let expected = Expected { state_id: self.state_id, number, after, place };
            let found = scan(&mut segment, expected, visit)?;
            after = found.last.or(after);
            match found.end {
                End::NotBegun => break,
                End::Torn { offset: 0, until } => {
                    tail.spoiled = until;
                    break;
                }
                End::Torn { offset, until } => {
                    self.check_nothing_follows(listing, number, offset)?;
                    tail = found.tail(number, offset, until);
                    break;
                }
                End::Clean { offset } => tail = found.tail(number, offset, offset),
                End::Damaged(damage) => return Err(damaged(segment.file, damage)),
            }
        }
        Ok((after, tail))
    }

    /// A gap where segment `number` is missing and a later one is there.
    pub(super) fn check_gap(&self, listing: &Listing, number: u64) -> Result<(), OpenError> {
        match listing.segments.range(number..).next() {
            None => Ok(()),
            Some(_) => Err(OpenError::Missing { place: self.disk.place(), file: layout::plain_name(number) }),
        }
    }

    /// Whether a segment has a header.
    pub(super) fn is_begun(&self, number: u64) -> Result<bool, OpenError> {
        let mut segment = match OpenSegment::open(&*self.disk, number) {
            Err(OpenError::Missing { .. }) => return Ok(false),
            opened => opened?,
        };
        let mut header = [0; SEGMENT_HEADER_BYTES];
        let mut done = 0;
        while done < header.len() {
            let read = segment.source.read(&mut header[done..]);
            match read.map_err(|error| read_error(&segment.file, error))? {
                0 => break,
                count => done += count,
            }
        }
        Ok(header.iter().any(|byte| *byte != 0))
    }

    /// A segment is on disk before the next one is begun: where that holds anything, this one cannot be
    /// torn.
    pub(super) fn check_nothing_follows(
        &self,
        listing: &Listing,
        number: u64,
        offset: u64,
    ) -> Result<(), OpenError> {
        if !listing.segments.contains_key(&(number + 1)) {
            return Ok(());
        }
        let mut next = OpenSegment::open(&*self.disk, number + 1)?;
        let mut chunk = vec![0; crate::limits::AUDIT_READ_CHUNK];
        loop {
            let count = next.source.read(&mut chunk).map_err(|error| read_error(&next.file, error))?;
            if count == 0 {
                return Ok(());
            }
            if chunk[..count].iter().any(|byte| *byte != 0) {
                return Err(damaged(layout::plain_name(number), Damage { offset, what: What::Checksum }));
            }
        }
    }
}

pub(super) fn damaged(file: String, damage: Damage) -> OpenError {
    match damage.what {
        What::Newer(version) => OpenError::Newer { file, version },
        _ => OpenError::Damaged { file, damage },
    }
}

/// What a segment came to.
struct Scanned {
    last: Option<Link>,
    end: End,
    sure: u64,
    is_plain: bool,
}

impl Scanned {
    fn tail(&self, segment: u64, offset: u64, until: u64) -> Tail {
        Tail { segment, offset, until, sure: self.sure, is_plain: self.is_plain, spoiled: 0 }
    }
}

fn scan(segment: &mut OpenSegment, expected: Expected, visit: Visit<'_>) -> Result<Scanned, OpenError> {
    let is_plain = !segment.is_packed();
    let mut scanner = Scanner::new(&mut segment.source, expected);
    let mut sure = 0;
    loop {
        match scanner.step().map_err(|error| read_error(&segment.file, error))? {
            Step::Entry(entry) => {
                // All before it was on disk when it was written.
                if entry.stamp.synced.saturating_add(1) >= entry.stamp.seq {
                    sure = entry.offset;
                }
                visit(Item::Record(expected.number, entry)).map_err(OpenError::Rejected)?;
            }
            Step::End(end) => return Ok(Scanned { last: scanner.last(), end, sure, is_plain }),
        }
    }
}
