//! One lane, read: bytes to messages, in bounded memory.

use std::sync::Arc;

use quinn::{ReadError, RecvStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits;
use crate::wire::{CloseCode, DecodeError, FrameError, FrameReader, ToCoordinator};

/// Why a lane ends before its peer finished it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LaneError {
    /// The peer broke the protocol: its connection is closed with this code.
    Broken {
        /// The close code.
        code: CloseCode,
        /// For people.
        reason: String,
    },
    /// The peer gave the lane up, or the connection has ended.
    Lost,
}

impl LaneError {
    pub(crate) fn broken(code: CloseCode, reason: impl Into<String>) -> Self {
        LaneError::Broken { code, reason: reason.into() }
    }
}

impl From<FrameError> for LaneError {
    fn from(error: FrameError) -> Self {
        let code = match error {
            FrameError::TooLong { .. } => CloseCode::FrameTooLong,
            FrameError::TooShort { .. } | FrameError::CutOff => CloseCode::FrameCutOff,
        };
        LaneError::broken(code, error.to_string())
    }
}

impl From<DecodeError> for LaneError {
    fn from(error: DecodeError) -> Self {
        let code = match error {
            DecodeError::UnknownKind(_) => CloseCode::UnknownKind,
            DecodeError::Malformed { .. } => CloseCode::MalformedBody,
        };
        LaneError::broken(code, error.to_string())
    }
}

impl From<ReadError> for LaneError {
    fn from(_: ReadError) -> Self {
        LaneError::Lost
    }
}

/// Reads the messages of one lane.
///
/// A lane holds a small part of a frame for free; for more it waits for one of its connection's few
/// permits, so a peer that leaves frames unfinished on all of its lanes only stops itself.
#[derive(Debug)]
pub(crate) struct LaneReader {
    stream: RecvStream,
    frames: FrameReader,
    long_frames: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    /// Bytes that were read since this was asked last.
    bytes: u64,
}

impl LaneReader {
    pub(crate) fn new(stream: RecvStream, long_frames: Arc<Semaphore>) -> Self {
        LaneReader { stream, frames: FrameReader::new(), long_frames, permit: None, bytes: 0 }
    }

    /// The next message, or `None` where the peer has finished the lane.
    ///
    /// Not cancel safe: dropped while it waits, it may lose bytes that it has read.
    pub(crate) async fn next(&mut self) -> Result<Option<ToCoordinator>, LaneError> {
        loop {
            if let Some(message) = self.held()? {
                return Ok(Some(message));
            }
            self.make_room().await;
            match self.stream.read_chunk(limits::SHORT_FRAME_BYTES, true).await? {
                Some(chunk) => {
                    self.bytes += chunk.bytes.len() as u64;
                    self.frames.push(&chunk.bytes);
                }
                None => {
                    self.frames.finish()?;
                    return Ok(None);
                }
            }
        }
    }

    /// The next message where all of it has been read already.
    pub(crate) fn held(&mut self) -> Result<Option<ToCoordinator>, LaneError> {
        let Some(frame) = self.frames.next_frame()? else { return Ok(None) };
        Ok(Some(ToCoordinator::decode(frame)?))
    }

    /// How many bytes were read since this was asked last.
    pub(crate) fn bytes(&mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }

    async fn make_room(&mut self) {
        if self.frames.held() < limits::SHORT_FRAME_BYTES {
            self.permit = None;
        } else if self.permit.is_none() {
            // The semaphore is never closed; without it the lane would only read on.
            self.permit = Arc::clone(&self.long_frames).acquire_owned().await.ok();
        }
    }
}
