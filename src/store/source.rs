//! The bytes of a segment, from its plain file or its compressed one.

use std::io::{self, Read};
use std::sync::Arc;

use lz4_flex::frame::FrameDecoder;

use super::disk::{Access, Disk, DiskFile};
use super::error::{Fault, OpenError, fault};
use super::layout::{packed_name, plain_name};
use crate::audit::Source;
use crate::limits::{AUDIT_SEGMENT_RANGE, RECORD_BYTES};

/// A file from some offset on.
#[derive(Debug)]
pub(super) struct FileSource {
    file: Arc<dyn DiskFile>,
    offset: u64,
}

impl FileSource {
    pub(super) fn new(file: Arc<dyn DiskFile>, offset: u64) -> Self {
        FileSource { file, offset }
    }
}

impl Read for FileSource {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.offset, into)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl Source for FileSource {
    type Error = io::Error;

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Read::read(self, into)
    }
}

/// A segment's bytes.
pub(super) enum SegmentSource {
    Plain(FileSource),
    Packed(Box<FrameDecoder<FileSource>>),
}

impl Source for SegmentSource {
    type Error = io::Error;

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            SegmentSource::Plain(source) => Source::read(source, into),
            SegmentSource::Packed(source) => source.read(into),
        }
    }
}

/// A segment that is open to be read.
pub(super) struct OpenSegment {
    pub(super) file: String,
    pub(super) source: SegmentSource,
}

impl OpenSegment {
    /// The segment `number`: its plain file, or its compressed one; a coordinator that works here may
    /// put the one in the place of the other meanwhile.
    pub(super) fn open(disk: &dyn Disk, number: u64) -> Result<OpenSegment, OpenError> {
        Self::open_at(disk, number, 0)
    }

    /// As [`OpenSegment::open`], but a plain file is read from `offset` on; a compressed one starts where
    /// it starts.
    pub(super) fn open_at(disk: &dyn Disk, number: u64, offset: u64) -> Result<OpenSegment, OpenError> {
        let name = plain_name(number);
        match disk.open(&name, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::open_packed(disk, number),
            opened => {
                let file = opened.map_err(fault("open", &name))?;
                let bytes = file.bytes().map_err(fault("read", &name))?;
                if bytes > *AUDIT_SEGMENT_RANGE.end() + 2 * RECORD_BYTES as u64 {
                    let why = format!("no segment has {bytes} bytes");
                    return Err(OpenError::Unreadable { file: name, why });
                }
                Ok(OpenSegment { file: name, source: SegmentSource::Plain(FileSource::new(file, offset)) })
            }
        }
    }

    fn open_packed(disk: &dyn Disk, number: u64) -> Result<OpenSegment, OpenError> {
        let name = packed_name(number);
        match disk.open(&name, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(OpenError::Missing { place: disk.place(), file: plain_name(number) })
            }
            opened => {
                let file = opened.map_err(fault("open", &name))?;
                let decoder = FrameDecoder::new(FileSource::new(file, 0));
                Ok(OpenSegment { file: name, source: SegmentSource::Packed(Box::new(decoder)) })
            }
        }
    }

    /// Whether it is compressed, and so was closed before that.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self.source, SegmentSource::Packed(_))
    }
}

/// Why reading `file` failed: compressed bytes that are damaged, or the disk.
pub(super) fn read_error(file: &str, error: io::Error) -> OpenError {
    let is_damage = error.kind() == io::ErrorKind::UnexpectedEof
        || error.get_ref().is_some_and(|inner| inner.is::<lz4_flex::frame::Error>());
    if is_damage {
        let why = format!("its compressed bytes are damaged: {error}");
        return OpenError::Unreadable { file: file.to_owned(), why };
    }
    OpenError::Disk(Fault { doing: "read", file: file.to_owned(), error })
}
