//! The one file that names bincode: the fixed configuration in which every body is written.
//!
//! Little endian, integers at their full width, lengths as u64, the variant of an enum as u32 in the
//! order of its declaration, `Option` as one byte. Fixed widths, because then the bytes that a
//! decoder has claimed are exactly the bytes that it has read, so that the limit is exact, and
//! because a table is all that another implementation needs.

use std::fmt;

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use bincode::enc::write::Writer;
use bincode::error::EncodeError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits;

type Layout = Configuration<LittleEndian, Fixint, Limit<{ limits::FRAME_BYTES }>>;

const LAYOUT: Layout =
    bincode::config::standard().with_fixed_int_encoding().with_limit::<{ limits::FRAME_BYTES }>();

/// Why a body could not be written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecError {
    why: String,
}

impl CodecError {
    pub(super) fn new(why: String) -> Self {
        CodecError { why }
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for CodecError {}

/// Appends `body` to `out`.
///
/// # Errors
/// Only for a type that cannot be written; none of this room's is such.
pub(super) fn encode<T: Serialize>(body: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    bincode::serde::encode_into_writer(body, Appending(out), LAYOUT)
        .map_err(|error| CodecError::new(error.to_string()))
}

struct Appending<'a>(&'a mut Vec<u8>);

impl Writer for Appending<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Reads a whole body.
///
/// # Errors
/// Where the bytes are not such a body, end early, or go on after it.
pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    let (value, read) = bincode::serde::decode_from_slice(body, LAYOUT)
        .map_err(|error| CodecError::new(error.to_string()))?;
    if read < body.len() {
        return Err(CodecError::new(format!("{} bytes after the end of the message", body.len() - read)));
    }
    Ok(value)
}
