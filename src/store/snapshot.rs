//! Snapshots: what the log amounts to after a closed segment, in a file that is there whole or not at
//! all.
//!
//! A header, then frames as in a segment, chained from the hash of the header: chunks, and an end that
//! counts them.

use std::io;

use super::archive::{Item, Visit};
use super::disk::{Access, Disk, DiskFile};
use super::error::{Fault, OpenError, fault};
use super::layout::{read_fully, snapshot_name, write_aside};
use super::source::FileSource;
use crate::audit::{ChainHash, FORMAT_VERSION, FrameReader, Framed, Link, write_frame};
use crate::limits::{BESIDE_BYTES, SNAPSHOT_CHUNK_BYTES};

const MAGIC: &[u8; 8] = b"PRECLSNP";
const HEADER_BYTES: usize = 80;
/// What a frame of a snapshot holds, by its first byte.
const END: u8 = 0;
const CHUNK: u8 = 1;

/// The end of a closed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The segment; 0 before the first.
    pub segment: u64,
    /// The last record up to its end.
    pub last: Link,
}

/// What a snapshot says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) state_id: u64,
    pub(super) position: Position,
    /// The snapshot that it was made from; 0 for none.
    pub(super) base: u64,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        let numbers = [self.state_id, self.position.segment, self.position.last.seq, self.base];
        for (at, number) in numbers.into_iter().enumerate() {
            bytes[16 + 8 * at..24 + 8 * at].copy_from_slice(&number.to_le_bytes());
        }
        bytes[48..].copy_from_slice(self.position.last.chain.as_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Unfit> {
        let mut blank = *bytes;
        blank[12..16].fill(0);
        let number = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[16 + 8 * at..24 + 8 * at]);
            u64::from_le_bytes(word)
        };
        if &bytes[..8] != MAGIC || bytes[12..16] != crc32fast::hash(&blank).to_le_bytes() {
            return Err(Unfit::Damaged("its header is damaged".to_owned()));
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version > FORMAT_VERSION {
            return Err(Unfit::Newer(version));
        }
        let mut chain = [0; ChainHash::BYTES];
        chain.copy_from_slice(&bytes[48..]);
        let last = Link { chain: ChainHash::from_bytes(chain), seq: number(2) };
        let position = Position { segment: number(1), last };
        Ok(Header { state_id: number(0), position, base: number(3) })
    }
}

/// Why a snapshot is of no use.
#[derive(Debug)]
enum Unfit {
    Newer(u16),
    Damaged(String),
}

/// What came of reading a snapshot.
pub(super) enum Snapshot {
    Read(Header),
    /// It is damaged: what the visitor was given of it does not count.
    Damaged(String),
}

/// Reads the header of the snapshot after `segment`.
pub(super) fn read_header(disk: &dyn Disk, state_id: u64, segment: u64) -> Result<Option<Header>, OpenError> {
    let name = snapshot_name(segment);
    let file = disk.open(&name, Access::Read).map_err(fault("open", &name))?;
    match header(&*file, &name, state_id, segment)? {
        Ok(header) => Ok(Some(header)),
        Err(Unfit::Damaged(_)) => Ok(None),
        Err(Unfit::Newer(version)) => Err(OpenError::Newer { file: name, version }),
    }
}

fn header(file: &dyn DiskFile, name: &str, state: u64, segment: u64) -> Result<Result<Header, Unfit>, Fault> {
    let mut bytes = [0; HEADER_BYTES];
    if read_fully(file, 0, &mut bytes).map_err(fault("read", name))? < HEADER_BYTES {
        return Ok(Err(Unfit::Damaged("it is shorter than its header".to_owned())));
    }
    Ok(Header::read(&bytes).and_then(|header| {
        if header.state_id == state && header.position.segment == segment && header.base < segment {
            return Ok(header);
        }
        Err(Unfit::Damaged("it is another state's or another segment's".to_owned()))
    }))
}

/// Gives the chunks of the snapshot after `segment` to `visit`.
pub(super) fn read(
    disk: &dyn Disk,
    state_id: u64,
    segment: u64,
    visit: Visit<'_>,
) -> Result<Snapshot, OpenError> {
    let name = snapshot_name(segment);
    let file = disk.open(&name, Access::Read).map_err(fault("open", &name))?;
    let header = match header(&*file, &name, state_id, segment)? {
        Ok(header) => header,
        Err(Unfit::Newer(version)) => return Err(OpenError::Newer { file: name, version }),
        Err(Unfit::Damaged(why)) => return Ok(Snapshot::Damaged(why)),
    };
    let chain = ChainHash::START.then(&header.to_bytes());
    let mut frames = FrameReader::new(FileSource::new(file, HEADER_BYTES as u64), chain);
    let (mut chunks, mut bytes) = (0_u64, 0_u64);
    loop {
        let offset = HEADER_BYTES as u64 + frames.offset();
        let damaged = |what: &str| Ok(Snapshot::Damaged(format!("offset {offset}: {what}")));
        match frames.next_frame().map_err(fault("read", &name))? {
            Framed::Content([CHUNK, chunk @ ..]) => {
                chunks += 1;
                bytes += chunk.len() as u64;
                visit(Item::Chunk(chunk)).map_err(OpenError::Rejected)?;
            }
            Framed::Content(content) if content == end(chunks, bytes) => break,
            Framed::Content(_) => return damaged("a frame holds neither a chunk nor the right end"),
            Framed::End => return damaged("its end is missing"),
            Framed::Broken => return damaged("a frame is damaged"),
        }
    }
    match frames.next_frame().map_err(fault("read", &name))? {
        Framed::End => Ok(Snapshot::Read(header)),
        _ => Ok(Snapshot::Damaged("something follows its end".to_owned())),
    }
}

fn end(chunks: u64, bytes: u64) -> [u8; 17] {
    let mut content = [END; 17];
    content[1..9].copy_from_slice(&chunks.to_le_bytes());
    content[9..].copy_from_slice(&bytes.to_le_bytes());
    content
}

/// Writes the snapshot with `header`, whose chunks `fill` gives.
pub(super) fn write(
    disk: &dyn Disk,
    header: Header,
    fill: impl FnOnce(&mut SnapshotWriter<'_>) -> io::Result<()>,
) -> Result<(), Fault> {
    write_aside(disk, &snapshot_name(header.position.segment), |file| {
        let bytes = header.to_bytes();
        let chain = ChainHash::START.then(&bytes);
        let mut writer =
            SnapshotWriter { file, offset: 0, buffer: bytes.to_vec(), chain, chunks: 0, bytes: 0 };
        fill(&mut writer)?;
        let content = end(writer.chunks, writer.bytes);
        writer.frame(&[&content])?;
        writer.flush()
    })
}

/// Takes a snapshot's chunks.
#[derive(Debug)]
pub struct SnapshotWriter<'a> {
    file: &'a dyn DiskFile,
    /// Where the buffer goes.
    offset: u64,
    buffer: Vec<u8>,
    chain: ChainHash,
    chunks: u64,
    bytes: u64,
}

impl SnapshotWriter<'_> {
    /// Adds a chunk of up to [`SNAPSHOT_CHUNK_BYTES`].
    ///
    /// # Errors
    /// Where it is longer, or the disk fails: the snapshot is not made then.
    pub fn chunk(&mut self, chunk: &[u8]) -> io::Result<()> {
        if chunk.len() > SNAPSHOT_CHUNK_BYTES {
            let why = format!("a chunk of {} bytes; up to {SNAPSHOT_CHUNK_BYTES} fit", chunk.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.chunks += 1;
        self.bytes += chunk.len() as u64;
        self.frame(&[&[CHUNK], chunk])
    }

    fn frame(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let Some(chain) = write_frame(&self.chain, parts, &mut self.buffer) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        self.chain = chain;
        if self.buffer.len() < BESIDE_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(self.offset, &self.buffer)?;
        self.file.sync()?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
