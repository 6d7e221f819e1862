//! Frames: how one run of bytes stands in a file so that a reader sees whether all of it is there.
//!
//! ```text
//!  0       4       8                                      40
//!  +-------+-------+--------------------------------------+------------------+
//!  | length| crc32 | prev: the chain hash before this one | length bytes     |
//!  +-------+-------+--------------------------------------+------------------+
//! ```
//! The checksum covers length, prev and content; all numbers are little endian. A length of 0 says
//! that no frame was written here.

use std::convert::Infallible;

use crc32fast::Hasher;

use super::chain::ChainHash;
use crate::limits::{AUDIT_READ_CHUNK, RECORD_BYTES};

/// Bytes before a frame's content.
pub const FRAME_HEAD_BYTES: usize = 8 + ChainHash::BYTES;
/// Bytes before a record's body within its frame: two numbers, see [`Stamp`].
pub const STAMP_BYTES: usize = 16;
/// Bytes of a frame's content.
pub(super) const CONTENT_BYTES: usize = RECORD_BYTES + STAMP_BYTES;

/// Where bytes come from: a file, or a piece of memory.
pub trait Source {
    /// Why no bytes came.
    type Error;

    /// Puts the next bytes into `into` and says how many; 0 at the end only, or where `into` is empty.
    ///
    /// # Errors
    /// Where the bytes could not be read.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, Self::Error>;
}

impl Source for &[u8] {
    type Error = Infallible;

    fn read(&mut self, into: &mut [u8]) -> Result<usize, Infallible> {
        let count = self.len().min(into.len());
        let (now, later) = self.split_at(count);
        into[..count].copy_from_slice(now);
        *self = later;
        Ok(count)
    }
}

impl<S: Source> Source for &mut S {
    type Error = S::Error;

    fn read(&mut self, into: &mut [u8]) -> Result<usize, S::Error> {
        S::read(self, into)
    }
}

/// What a record's frame says of it before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The record's number: 1 for the first of a log, then one more each time.
    pub seq: u64,
    /// The number up to which all records were known to be on disk when this one was written; 0 for
    /// none. What stands before a whole frame with such a mark was there once, whatever is there now.
    pub synced: u64,
}

impl Stamp {
    fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..8].copy_from_slice(&self.seq.to_le_bytes());
        bytes[8..].copy_from_slice(&self.synced.to_le_bytes());
        bytes
    }

    /// The stamp at the start of a frame's content; `None` where it is too short for one.
    pub(super) fn read(content: &[u8]) -> Option<Stamp> {
        Some(Stamp { seq: u64_at(content, 0)?, synced: u64_at(content, 8)? })
    }
}

/// Appends a record's frame to `into`; its chain hash. `None`, and nothing appended, where the body is
/// longer than a record may be.
pub fn write_record(prev: &ChainHash, stamp: Stamp, body: &[u8], into: &mut Vec<u8>) -> Option<ChainHash> {
    write_frame(prev, &[&stamp.to_bytes(), body], into)
}

/// Appends a frame with the content that `parts` are together; its chain hash. `None`, and nothing
/// appended, where that is empty or too long for a frame.
pub fn write_frame(prev: &ChainHash, parts: &[&[u8]], into: &mut Vec<u8>) -> Option<ChainHash> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    if length == 0 || length > CONTENT_BYTES {
        return None;
    }
    let head = Head { length: u32::try_from(length).ok()?, crc: 0, prev: *prev };
    let at = into.len();
    into.reserve(FRAME_HEAD_BYTES + length);
    into.extend_from_slice(&head.to_bytes());
    parts.iter().for_each(|part| into.extend_from_slice(part));
    let content = at + FRAME_HEAD_BYTES;
    let crc = head.checksum(&into[content..]);
    into[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
    Some(prev.then(&into[content..]))
}

/// What stands before a frame's content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) length: u32,
    pub(super) crc: u32,
    pub(super) prev: ChainHash,
}

impl Head {
    /// The head at the start of `bytes`; `None` where they are too few.
    pub(super) fn read(bytes: &[u8]) -> Option<Head> {
        let prev = bytes.get(8..FRAME_HEAD_BYTES)?;
        Some(Head {
            length: u32_at(bytes, 0)?,
            crc: u32_at(bytes, 4)?,
            prev: ChainHash::from_bytes(prev.try_into().ok()?),
        })
    }

    fn to_bytes(self) -> [u8; FRAME_HEAD_BYTES] {
        let mut bytes = [0; FRAME_HEAD_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.crc.to_le_bytes());
        bytes[8..].copy_from_slice(self.prev.as_bytes());
        bytes
    }

    /// The bytes of content that it claims; `None` where no frame has so many.
    pub(super) fn content_bytes(&self) -> Option<usize> {
        let length = usize::try_from(self.length).ok()?;
        (1..=CONTENT_BYTES).contains(&length).then_some(length)
    }

    /// The checksum that a whole frame with this head and this content has.
    pub(super) fn checksum(&self, content: &[u8]) -> u32 {
        let mut hasher = Hasher::new();
        hasher.update(&self.length.to_le_bytes());
        hasher.update(self.prev.as_bytes());
        hasher.update(content);
        hasher.finalize()
    }
}

/// The content of the whole frame at the start of `bytes`; `None` where there is none.
pub(super) fn whole_frame(bytes: &[u8]) -> Option<(Head, &[u8])> {
    let head = Head::read(bytes)?;
    let content = bytes.get(FRAME_HEAD_BYTES..FRAME_HEAD_BYTES + head.content_bytes()?)?;
    (head.checksum(content) == head.crc).then_some((head, content))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The next bytes of a source, as many as are asked for. It holds no more than were there.
#[derive(Debug)]
pub(super) struct Window<S> {
    source: S,
    bytes: Vec<u8>,
    /// How many of `bytes` are done with.
    done: usize,
    /// Where in the source the first byte after those stands.
    offset: u64,
    has_ended: bool,
}

impl<S: Source> Window<S> {
    pub(super) fn new(source: S) -> Self {
        Window { source, bytes: Vec::new(), done: 0, offset: 0, has_ended: false }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Says that the source starts at `offset`; for one of which nothing was read.
    pub(super) fn start_at(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Reads until `count` bytes are there or the source has ended; the bytes that are.
    pub(super) fn fill(&mut self, count: usize) -> Result<&[u8], S::Error> {
        while self.bytes.len() - self.done < count && !self.has_ended {
            self.read_more()?;
        }
        Ok(self.peek(count))
    }

    /// The bytes that are there, up to `count`.
    pub(super) fn peek(&self, count: usize) -> &[u8] {
        let there = self.bytes.get(self.done..).unwrap_or_default();
        there.get(..count).unwrap_or(there)
    }

    /// Goes on by `count` bytes, which are there.
    pub(super) fn advance(&mut self, count: usize) {
        self.done += count;
        self.offset += count as u64;
    }

    /// The last `count` bytes that were gone past.
    pub(super) fn passed(&self, count: usize) -> &[u8] {
        self.bytes.get(self.done.saturating_sub(count)..self.done).unwrap_or_default()
    }

    fn read_more(&mut self) -> Result<(), S::Error> {
        self.bytes.drain(..self.done);
        self.done = 0;
        let there = self.bytes.len();
        self.bytes.resize(there + AUDIT_READ_CHUNK, 0);
        let read = self.source.read(&mut self.bytes[there..]);
        let count = *read.as_ref().unwrap_or(&0);
        self.bytes.truncate(there + count.min(AUDIT_READ_CHUNK));
        self.has_ended |= count == 0;
        read.map(drop)
    }

    /// Whether nothing but zeros follows. Goes past those that there are.
    pub(super) fn is_zero(&mut self) -> Result<bool, S::Error> {
        while !self.fill(1)?.is_empty() {
            let there = self.peek(usize::MAX);
            if there.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            self.advance(there.len());
        }
        Ok(true)
    }

    /// Goes past zeros. Where something else follows, the zeros and all that follows them; `None`
    /// where nothing does.
    pub(super) fn all_unless_zero(&mut self) -> Result<Option<Vec<u8>>, S::Error> {
        let start = self.offset;
        if self.is_zero()? {
            return Ok(None);
        }
        let zeros = usize::try_from(self.offset - start).unwrap_or(usize::MAX);
        let mut all = vec![0; zeros];
        all.extend_from_slice(self.fill(usize::MAX)?);
        Ok(Some(all))
    }

    /// All that follows.
    pub(super) fn all(&mut self) -> Result<&[u8], S::Error> {
        self.fill(usize::MAX)
    }
}

/// Reads frames one after the other from a file that holds nothing else, each chained to the one
/// before.
#[derive(Debug)]
pub struct FrameReader<S> {
    window: Window<S>,
    chain: ChainHash,
}

/// What a [`FrameReader`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Framed<'a> {
    /// The content of the next frame.
    Content(&'a [u8]),
    /// The file ends here, at a frame's end.
    End,
    /// There is no whole frame that follows the one before.
    Broken,
}

impl<S: Source> FrameReader<S> {
    /// A reader of frames, the first of them chained to `chain`.
    pub fn new(source: S, chain: ChainHash) -> Self {
        FrameReader { window: Window::new(source), chain }
    }

    /// Where the next frame starts, counted from where the source started.
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// The next frame. After [`Framed::End`] and [`Framed::Broken`] it says the same again.
    ///
    /// # Errors
    /// Where the source fails.
    pub fn next_frame(&mut self) -> Result<Framed<'_>, S::Error> {
        let head = self.window.fill(FRAME_HEAD_BYTES)?;
        if head.is_empty() {
            return Ok(Framed::End);
        }
        let Some(length) = Head::read(head).and_then(|head| head.content_bytes()) else {
            return Ok(Framed::Broken);
        };
        let bytes = FRAME_HEAD_BYTES + length;
        match whole_frame(self.window.fill(bytes)?) {
            Some((head, content)) if head.prev == self.chain => self.chain = head.prev.then(content),
            _ => return Ok(Framed::Broken),
        }
        self.window.advance(bytes);
        Ok(Framed::Content(self.window.passed(length)))
    }
}
