//! Reading a log from some segment on, also while a coordinator writes, compresses and removes what
//! is read.

use std::io;

use super::archive::{Archive, Rejection, damaged};
use super::error::{Fault, OpenError};
use super::layout::Listing;
use super::open::TornTail;
use super::source::{OpenSegment, read_error};
use crate::audit::{End, Entry, Expected, Link, Place, Scanner, Source, Step};
use crate::limits::AUDIT_READS_AGAIN;

/// A record, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The number of its segment.
    pub segment: u64,
    /// The segment's file.
    pub file: &'a str,
    /// The record.
    pub entry: Entry<'a>,
}

/// Who is given the records.
pub type Take<'a> = &'a mut dyn FnMut(Found<'_>) -> Result<(), Rejection>;

/// What is in a state directory, by number, lowest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Segments, those included that are made ready and not begun.
    pub segments: Vec<u64>,
    /// Snapshots, each named after the segment that it was made after.
    pub snapshots: Vec<u64>,
}

/// Reads records, each once, in order. Where a coordinator is at work it reads as far as that has come,
/// and goes on from there when asked again.
///
/// Bytes that look wrong where the log ends may only be half of what is just being written. They are
/// read again, and believed once they stay as they are.
#[derive(Debug)]
pub struct Walk {
    archive: Archive,
    /// The segment that is read, and where in it the next record starts; 0 before its header.
    segment: u64,
    offset: u64,
    /// The last record before this segment, and the last one that was read.
    before: Option<Link>,
    last: Option<Link>,
}

/// How reading a segment ended.
enum Reached {
    /// It is closed, and all of it was read.
    Next,
    /// The log ends here.
    End,
    /// It ends here, before what a write left that was not finished.
    Torn(TornTail),
}

impl Archive {
    /// What there is.
    ///
    /// # Errors
    /// Where the directory cannot be listed.
    pub fn contents(&self) -> Result<Contents, OpenError> {
        let listing = Listing::read(self.disk())?;
        let segments = listing.segments.into_keys().collect();
        Ok(Contents { segments, snapshots: listing.snapshots.into_iter().collect() })
    }

    /// A walk through the records from segment `segment` on. `after` is the last record before it, where
    /// that is known.
    pub fn walk(&self, segment: u64, after: Option<Link>) -> Walk {
        let archive = self.clone();
        Walk { archive, segment, offset: 0, before: after, last: after }
    }
}

impl Walk {
    /// The segment that is read now.
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// The last record that was read, or what the first one follows.
    pub fn last(&self) -> Option<Link> {
        self.last
    }

    /// Whether [`Walk::read_on`] may find something now. It looks at a few bytes alone: a log without news
    /// costs next to nothing, however often it is asked for.
    ///
    /// # Errors
    /// Where the directory cannot be read.
    pub fn has_news(&self) -> Result<bool, OpenError> {
        let archive = &self.archive;
        let listing = Listing::read(archive.disk())?;
        if !listing.segments.get(&self.segment).is_some_and(|files| files.is_plain) {
            return Ok(listing.segments.range(self.segment..).next().is_some());
        }
        let mut segment = OpenSegment::open_at(archive.disk(), self.segment, self.offset)?;
        let mut length = [0; 4];
        let read = segment.source.read(&mut length);
        let count = read.map_err(|error| read_error(&segment.file, error))?;
        Ok(length[..count] != [0; 4][..count] || archive.is_begun(self.segment + 1)?)
    }

    /// Reads on to where the log ends now, and says what a write left there that was not finished.
    ///
    /// # Errors
    /// Where the log is damaged or has a gap, a segment was removed before its turn, or `take` would not
    /// have a record.
    pub fn read_on(&mut self, take: Take<'_>) -> Result<Option<TornTail>, OpenError> {
        let mut again = 0;
        loop {
            let before = (self.segment, self.offset);
            let reached = self.read_segment(take);
            again = if before == (self.segment, self.offset) { again + 1 } else { 0 };
            match reached {
                Ok(Reached::Next) => {}
                Ok(Reached::End) => return Ok(None),
                Ok(Reached::Torn(_)) | Err(_) if self.may_change(&reached) && again < AUDIT_READS_AGAIN => {}
                Ok(Reached::Torn(torn)) => return Ok(Some(torn)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether another look may find something else.
    fn may_change(&self, reached: &Result<Reached, OpenError>) -> bool {
        match reached {
            Err(OpenError::Rejected(_) | OpenError::Newer { .. }) => false,
            // Its file was given another name or removed since it was listed.
            Err(OpenError::Disk(Fault { error, .. })) => error.kind() == io::ErrorKind::NotFound,
            _ => true,
        }
    }

    fn read_segment(&mut self, take: Take<'_>) -> Result<Reached, OpenError> {
        let (archive, number) = (self.archive.clone(), self.segment);
        // Asked before the segment is opened: what a closed one holds was there then.
        let is_followed = archive.is_begun(number + 1)?;
        let mut segment = match OpenSegment::open_at(archive.disk(), number, self.offset) {
            Err(OpenError::Missing { .. }) => {
                archive.check_gap(&Listing::read(archive.disk())?, number)?;
                return Ok(Reached::End);
            }
            opened => opened?,
        };
        let is_closed = segment.is_packed() || is_followed;
        let end = self.scan(&mut segment, is_closed, take)?;
        let torn = |offset, until| TornTail { file: segment.file.clone(), offset, bytes: until - offset };
        match end {
            End::Clean { .. } => {
                if !is_closed {
                    return Ok(Reached::End);
                }
                (self.segment, self.offset, self.before) = (number + 1, 0, self.last);
                Ok(Reached::Next)
            }
            End::NotBegun => Ok(Reached::End),
            End::Torn { offset, until } => {
                archive.check_nothing_follows(&Listing::read(archive.disk())?, number, offset)?;
                Ok(Reached::Torn(torn(offset, until)))
            }
            End::Damaged(damage) => Err(damaged(segment.file, damage)),
        }
    }

    /// Reads what of a segment was not read yet.
    fn scan(&mut self, segment: &mut OpenSegment, is_closed: bool, take: Take<'_>) -> Result<End, OpenError> {
        let place = if is_closed { Place::Closed } else { Place::Last };
        let goes_on = self.offset > 0 && !segment.is_packed();
        let after = if goes_on { self.last } else { self.before };
        let (state_id, number) = (self.archive.state_id(), self.segment);
        let expected = Expected { state_id, number, after, place };
        let source = &mut segment.source;
        let mut scanner = match goes_on {
            true => Scanner::resume(source, expected, self.offset),
            false => Scanner::new(source, expected),
        };
        loop {
            match scanner.step().map_err(|error| read_error(&segment.file, error))? {
                Step::Entry(entry) => {
                    let next = entry.offset + entry.frame_bytes();
                    // A compressed file is read from its start, also past what was read before that.
                    if entry.offset >= self.offset {
                        take(Found { segment: number, file: &segment.file, entry })
                            .map_err(OpenError::Rejected)?;
                        self.offset = next;
                        self.last = Some(Link { chain: entry.chain, seq: entry.stamp.seq });
                    }
                }
                Step::End(end) => return Ok(end),
            }
        }
    }
}
