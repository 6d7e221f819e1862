//! Frames: a length (u32, little endian, of what follows it), a kind (u16) and a body.

use std::fmt;

use crate::limits;

/// Bytes of the length prefix.
const PREFIX: usize = 4;
/// Bytes of the kind.
const KIND: usize = 2;

/// One frame, still undecoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which message it is.
    pub kind: u16,
    /// The message, encoded.
    pub body: &'a [u8],
}

/// Why what arrived is no sequence of frames. None of them can be recovered from: where the next
/// frame would start is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A length above the limit.
    TooLong {
        /// The length that was announced.
        length: usize,
    },
    /// A length below that of the kind.
    TooShort {
        /// The length that was announced.
        length: usize,
    },
    /// The lane ended inside a frame.
    CutOff,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLong { length } => {
                write!(f, "a frame of {length} bytes; at most {} are taken", limits::FRAME_BYTES)
            }
            FrameError::TooShort { length } => {
                write!(f, "a frame of {length} bytes has no room for its kind")
            }
            FrameError::CutOff => f.write_str("the lane ended inside a frame"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Appends a frame of `kind` whose body `write` appends.
///
/// # Errors
/// [`FrameError::TooLong`] where the body does not fit, and whatever `write` says. `out` is then as
/// it was.
pub(super) fn put<E: From<FrameError>>(
    kind: u16,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend([0; PREFIX]);
    out.extend(kind.to_le_bytes());
    let written = write(out).and_then(|()| {
        let length = out.len() - start - PREFIX;
        let prefix = u32::try_from(length).ok().filter(|_| length <= limits::FRAME_BYTES);
        prefix.ok_or_else(|| FrameError::TooLong { length }.into())
    });
    match written {
        Ok(prefix) => out[start..start + PREFIX].copy_from_slice(&prefix.to_le_bytes()),
        Err(_) => out.truncate(start),
    }
    written.map(|_| ())
}

/// Cuts what arrives on a lane into frames.
///
/// Feed it with [`FrameReader::push`], then take frames until there is none; so it holds at most one
/// unfinished frame and what was pushed last.
#[derive(Debug, Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
    /// Where the next frame starts in `buffer`.
    at: usize,
}

impl FrameReader {
    /// A reader at the start of a lane.
    pub fn new() -> Self {
        FrameReader::default()
    }

    /// Takes in the next bytes of the lane.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, or `None` until more has been pushed.
    ///
    /// # Errors
    /// As soon as a length prefix is out of bounds, whether or not the rest has come. The lane
    /// cannot be read on: each further call says the same.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let rest = &self.buffer[self.at..];
        let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > limits::FRAME_BYTES {
            return Err(FrameError::TooLong { length });
        }
        if length < KIND {
            return Err(FrameError::TooShort { length });
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        self.at += PREFIX + length;
        let (kind, body) = frame.split_at(KIND);
        Ok(Some(Frame { kind: u16::from_le_bytes([kind[0], kind[1]]), body }))
    }

    /// Whether the lane may end here.
    ///
    /// # Errors
    /// [`FrameError::CutOff`] inside a frame.
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.at == self.buffer.len() { Ok(()) } else { Err(FrameError::CutOff) }
    }

    /// Bytes that it holds at present.
    pub fn held(&self) -> usize {
        self.buffer.len() - self.at
    }
}
