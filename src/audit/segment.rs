//! The first bytes of a segment: whose it is, which one, and what its records follow.
//!
//! ```text
//!  0          8     10    12      16         24         32                              64
//!  +----------+-----+-----+-------+----------+----------+-------------------------------+
//!  | PRECLAIM | ver |made | crc32 | state id | number   | chain hash before its records |
//!  +----------+-----+-----+-------+----------+----------+-------------------------------+
//! ```
//! `made` is how long its file was made before its first record, in units of 16 KiB, rounded down: one
//! that is shorter was cut short by somebody. The checksum covers all 64 bytes, its own four taken as zero. Magic, version and checksum stand in
//! the same place in every version, so that any reader can tell a later one from a damaged one.

use super::chain::ChainHash;
use super::frame::{u32_at, u64_at};
use super::scan::What;

/// The version of the format that is written, and the latest that is read.
///
/// 2 is 1 with notes about rights (docs/AUDIT_FORMAT.md, section 8).
pub const FORMAT_VERSION: u16 = 2;
/// Bytes of a segment before its first frame.
pub const SEGMENT_HEADER_BYTES: usize = 64;

const MAGIC: &[u8; 8] = b"PRECLAIM";

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The state directory that it belongs to.
    pub state_id: u64,
    /// Its number, from 1.
    pub number: u64,
    /// The chain hash before its first record.
    pub chain: ChainHash,
    /// How long its file was made before that, in units of [`SegmentHeader::UNIT`]; as many as fit.
    pub made: u16,
}

impl SegmentHeader {
    /// Bytes of a unit of `made`.
    pub const UNIT: u64 = 16 * 1024;

    /// The units of a file of so many bytes, as far as they can be written.
    pub fn units(bytes: u64) -> u16 {
        u16::try_from(bytes / Self::UNIT).unwrap_or(u16::MAX)
    }

    /// Whether a file of so many bytes is shorter than it was made.
    pub fn is_cut_short(&self, bytes: u64) -> bool {
        bytes < u64::from(self.made) * Self::UNIT
    }

    /// The version of the format that these bytes of a header say, whatever else they are.
    pub fn version(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> u16 {
        u16::from_le_bytes([bytes[8], bytes[9]])
    }

    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.made.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.state_id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..].copy_from_slice(self.chain.as_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Whether a header may start with these bytes, which are too few for one.
    pub(super) fn may_start(bytes: &[u8]) -> bool {
        bytes.iter().zip(MAGIC).all(|(found, expected)| found == expected)
    }

    /// The header that these bytes are, whatever segment was expected.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<SegmentHeader, What> {
        if &bytes[..8] != MAGIC {
            return Err(What::NoSegment);
        }
        let mut blank = *bytes;
        blank[12..16].fill(0);
        if u32_at(bytes, 12) != Some(crc32fast::hash(&blank)) {
            return Err(What::HeaderChecksum);
        }
        let version = SegmentHeader::version(bytes);
        if version > FORMAT_VERSION {
            return Err(What::Newer(version));
        }
        let mut chain = [0; ChainHash::BYTES];
        chain.copy_from_slice(&bytes[32..]);
        let (state_id, number) =
            (u64_at(bytes, 16).unwrap_or_default(), u64_at(bytes, 24).unwrap_or_default());
        let made = u16::from_le_bytes([bytes[10], bytes[11]]);
        Ok(SegmentHeader { state_id, number, chain: ChainHash::from_bytes(chain), made })
    }
}
