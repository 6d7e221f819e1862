//! Reading a segment: record after record, to an end that is exactly one of four.

use std::fmt;

use super::chain::ChainHash;
use super::frame::{FRAME_HEAD_BYTES, Head, STAMP_BYTES, Source, Stamp, Window, whole_frame};
use super::segment::{FORMAT_VERSION, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::tail::{self, Verdict};

/// What is known of a segment before it is read.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The state directory.
    pub state_id: u64,
    /// The segment's number.
    pub number: u64,
    /// The last record before it: chain hash and number. `None` where what came before is gone.
    pub after: Option<Link>,
    /// Where it stands in the log.
    pub place: Place,
}

/// The end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The chain hash after the last record.
    pub chain: ChainHash,
    /// That record's number; 0 where there is none yet.
    pub seq: u64,
}

impl Link {
    /// Before the first record of a log.
    pub const START: Link = Link { chain: ChainHash::START, seq: 0 };
}

/// Whether a segment may end in a torn tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Another one follows it: all of it was on disk before that one was begun.
    Closed,
    /// The last one that was begun.
    Last,
}

/// A record as it stands in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Where its frame starts.
    pub offset: u64,
    /// Its number, and what was on disk when it was written.
    pub stamp: Stamp,
    /// What it holds.
    pub body: &'a [u8],
    /// The chain hash after it.
    pub chain: ChainHash,
}

impl Entry<'_> {
    /// Bytes of its frame.
    pub fn frame_bytes(&self) -> u64 {
        (FRAME_HEAD_BYTES + STAMP_BYTES + self.body.len()) as u64
    }
}

/// What comes next in a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A whole record that follows the one before.
    Entry(Entry<'a>),
    /// The end, and how it looks.
    End(End),
}

/// How a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing but zeros: a segment that was made ready and not yet begun.
    NotBegun,
    /// After the last record, nothing.
    Clean {
        /// Where the next record goes; 0 for an empty file.
        offset: u64,
    },
    /// After the last whole record, what a write left that was not finished.
    Torn {
        /// Where it starts; 0 where the header too is not whole.
        offset: u64,
        /// Where the last byte ends that is not zero.
        until: u64,
    },
    /// What was written once is not there now, or was changed.
    Damaged(Damage),
}

/// Damage to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where the header or frame starts that is wrong.
    pub offset: u64,
    /// What is wrong with it.
    pub what: What,
}

/// What may be wrong with a segment's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It does not start as a segment does.
    NoSegment,
    /// The header's checksum does not fit the header.
    HeaderChecksum,
    /// A later version of the format, which this program cannot read.
    Newer(u16),
    /// It belongs to another state directory, with this id.
    OtherState(u64),
    /// It says that it is another segment, with this number.
    OtherNumber(u64),
    /// Its records do not follow the record before them.
    HeaderChain,
    /// No frame has this length, or its length was another once.
    Length(u32),
    /// The checksum does not fit the frame.
    Checksum,
    /// The frame is whole and does not follow the one before.
    Chain,
    /// The frame is whole and its record's number is not the next.
    Sequence {
        /// The next number.
        expected: u64,
        /// What the frame says.
        found: u64,
    },
    /// Where the log ends, bytes follow that are no frame.
    AfterEnd,
    /// The file ends before the length that it was made with.
    CutShort,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::CutShort => {
                f.write_str("the file ends here, and was longer before its first record was written")
            }
            What::NoSegment => f.write_str("it does not start as a segment does"),
            What::HeaderChecksum => f.write_str("the header's checksum does not fit the header"),
            What::Newer(version) => {
                write!(f, "its format has version {version}; this program reads up to {FORMAT_VERSION}")
            }
            What::OtherState(id) => write!(f, "it belongs to another state directory ({id:016x})"),
            What::OtherNumber(number) => write!(f, "it says that it is segment {number}"),
            What::HeaderChain => f.write_str("its records do not follow the record before them"),
            What::Length(length) => write!(f, "the frame's length, {length}, is not what was written"),
            What::Checksum => f.write_str("the frame's checksum does not fit the frame"),
            What::Chain => f.write_str("the frame does not follow the one before it"),
            What::Sequence { expected, found } => {
                write!(f, "record {found} stands where record {expected} belongs")
            }
            What::AfterEnd => f.write_str("bytes that are no frame follow the last one"),
        }
    }
}

/// Reads one segment. It holds one record at a time, and the rest of the segment where a frame is not
/// whole and has to be judged.
#[derive(Debug)]
pub struct Scanner<S> {
    window: Window<S>,
    expected: Expected,
    /// The chain hash after the last record.
    chain: ChainHash,
    /// The last record's number, where it is known.
    seq: Option<u64>,
    /// How it ended, once it has.
    end: Option<End>,
}

impl<S: Source> Scanner<S> {
    /// A reader of the segment that starts where `source` starts.
    pub fn new(source: S, expected: Expected) -> Self {
        let chain = expected.after.map_or(ChainHash::START, |after| after.chain);
        let seq = expected.after.map(|after| after.seq);
        Scanner { window: Window::new(source), expected, chain, seq, end: None }
    }

    /// A reader that goes on in the middle of a segment: `source` starts at `offset` of it, where a
    /// record ends that `expected.after` is.
    pub fn resume(source: S, expected: Expected, offset: u64) -> Self {
        let mut scanner = Scanner::new(source, expected);
        scanner.window.start_at(offset);
        scanner
    }

    /// The last record that was read, or what the segment's records follow. `None` where nothing says
    /// yet which number that has.
    pub fn last(&self) -> Option<Link> {
        self.seq.map(|seq| Link { chain: self.chain, seq })
    }

    /// The next record, or the end, which it then says again.
    ///
    /// # Errors
    /// Where the source fails.
    pub fn step(&mut self) -> Result<Step<'_>, S::Error> {
        if self.end.is_none() && self.window.offset() == 0 {
            self.end = self.header()?;
        }
        let offset = self.window.offset();
        let end = match self.end {
            Some(end) => end,
            None => match self.frame()? {
                Ok((stamp, length)) => {
                    let body = &self.window.passed(length)[STAMP_BYTES..];
                    return Ok(Step::Entry(Entry { offset, stamp, body, chain: self.chain }));
                }
                Err(end) => end,
            },
        };
        self.end = Some(end);
        Ok(Step::End(end))
    }

    /// Reads the header; the end where there is none that will do.
    fn header(&mut self) -> Result<Option<End>, S::Error> {
        let bytes = self.window.fill(SEGMENT_HEADER_BYTES)?;
        if bytes.iter().all(|byte| *byte == 0) {
            return self.no_header().map(Some);
        }
        let wrong = match <&[u8; SEGMENT_HEADER_BYTES]>::try_from(bytes).map(SegmentHeader::read) {
            Err(_) if self.expected.place == Place::Last && SegmentHeader::may_start(bytes) => {
                return Ok(Some(End::Torn { offset: 0, until: tail::last_byte(bytes) as u64 }));
            }
            Err(_) => Some(What::NoSegment),
            Ok(Err(what)) => Some(what),
            Ok(Ok(header)) => self.contradiction(&header),
        };
        if let Some(what) = wrong {
            return Ok(Some(End::Damaged(Damage { offset: 0, what })));
        }
        self.window.advance(SEGMENT_HEADER_BYTES);
        Ok(None)
    }

    /// The end of a segment whose header is all zero.
    fn no_header(&mut self) -> Result<End, S::Error> {
        let damage = End::Damaged(Damage { offset: 0, what: What::NoSegment });
        if self.expected.place == Place::Closed {
            return Ok(damage);
        }
        let Some(all) = self.window.all_unless_zero()? else { return Ok(End::NotBegun) };
        let first = self.seq.unwrap_or(0).saturating_add(1);
        if tail::has_record_that_follows(&all, first) {
            return Ok(damage);
        }
        Ok(End::Torn { offset: 0, until: tail::last_byte(&all) as u64 })
    }

    /// What in the header is not as expected. Takes over the chain hash where that is new.
    fn contradiction(&mut self, header: &SegmentHeader) -> Option<What> {
        if header.state_id != self.expected.state_id {
            return Some(What::OtherState(header.state_id));
        }
        if header.number != self.expected.number {
            return Some(What::OtherNumber(header.number));
        }
        if self.expected.after.is_none() {
            self.chain = header.chain;
        }
        (header.chain != self.chain).then_some(What::HeaderChain)
    }

    /// Goes past the next frame; its stamp and how long its content is, or the end.
    fn frame(&mut self) -> Result<Result<(Stamp, usize), End>, S::Error> {
        let offset = self.window.offset();
        let head = self.window.fill(FRAME_HEAD_BYTES)?;
        if head.iter().take(4).all(|byte| *byte == 0) {
            return Ok(Err(self.after_last(offset)?));
        }
        let claimed = Head::read(head).and_then(|head| head.content_bytes());
        let Some(length) = claimed.filter(|length| *length >= STAMP_BYTES) else {
            return Ok(Err(self.judge(offset)?));
        };
        let bytes = FRAME_HEAD_BYTES + length;
        self.window.fill(bytes)?;
        let Some((head, content)) = whole_frame(self.window.peek(bytes)) else {
            return Ok(Err(self.judge(offset)?));
        };
        let found = Stamp::read(content).unwrap_or(Stamp { seq: 0, synced: 0 });
        let expected = self.seq.map_or(found.seq, |seq| seq.saturating_add(1));
        let what = if head.prev != self.chain {
            What::Chain
        } else if found.seq != expected {
            What::Sequence { expected, found: found.seq }
        } else {
            self.chain = head.prev.then(content);
            self.seq = Some(found.seq);
            self.window.advance(bytes);
            return Ok(Ok((found, length)));
        };
        Ok(Err(End::Damaged(Damage { offset, what })))
    }

    /// The end where the next frame has no length.
    fn after_last(&mut self, offset: u64) -> Result<End, S::Error> {
        let damage = End::Damaged(Damage { offset, what: What::AfterEnd });
        if self.expected.place == Place::Closed {
            return Ok(if self.window.is_zero()? { End::Clean { offset } } else { damage });
        }
        let Some(rest) = self.window.all_unless_zero()? else { return Ok(End::Clean { offset }) };
        Ok(verdict(&rest, offset, self.seq))
    }

    /// The end where the next frame is not whole. All that could be one is in the window.
    fn judge(&mut self, offset: u64) -> Result<End, S::Error> {
        if self.expected.place == Place::Closed {
            return Ok(End::Damaged(Damage { offset, what: tail::what(self.window.peek(usize::MAX)) }));
        }
        let seq = self.seq;
        Ok(verdict(self.window.all()?, offset, seq))
    }
}

/// The end of the last segment at `offset`, where the frame that `rest` starts with is not whole.
fn verdict(rest: &[u8], offset: u64, last: Option<u64>) -> End {
    match tail::judge(rest, offset, last.unwrap_or(0).saturating_add(1)) {
        Verdict::Torn { until } => End::Torn { offset, until: offset.saturating_add(until as u64) },
        Verdict::Damaged(what) => End::Damaged(Damage { offset, what }),
    }
}
