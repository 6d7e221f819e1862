//! Is a frame that is not whole the torn tail of a write that was never finished, or damage?
//!
//! A disk writes sectors of 512 bytes, each whole or not at all, in any order, over zeros. So a write
//! that was not finished leaves, within its frame, at least one sector's share that is all zero, or the
//! file ends there. It is damage all the same:
//! - where a whole record follows that was written after this one was known to be on disk;
//! - where one flipped bit explains it. A checksum of 32 bits tells which bit of a frame it was; only
//!   where that bit stands in a share that is all zero could the share have been lost as well.

use super::frame::{CONTENT_BYTES, FRAME_HEAD_BYTES, Head, STAMP_BYTES, Stamp, whole_frame};
use super::scan::What;

/// What a disk writes whole or not at all.
const SECTOR: u64 = 512;
/// CRC-32 (IEEE), lowest bit first.
const POLYNOMIAL: u32 = 0xedb8_8320;
/// How often the search for later records may check the bytes that it looks through. Bytes that were
/// made to look like the start of a long record everywhere would hold it up for hours otherwise.
const CHECKS_OF_A_BYTE: usize = 16;

/// What a frame is that is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A write that was not finished left it. `until`: where, from its start, the last byte ends that
    /// is not zero.
    Torn { until: usize },
    /// It was whole once.
    Damaged(What),
}

/// Judges the frame, not whole, that starts `rest`, which goes on to the file's end; `offset` is where
/// it stands in the file, and `next` the number that its record should have.
pub(super) fn judge(rest: &[u8], offset: u64, next: u64) -> Verdict {
    let until = last_byte(rest);
    if has_record_that_follows(rest, next) || is_one_flip(rest, offset) {
        return Verdict::Damaged(what(rest));
    }
    if Extent::claimed(rest, offset).has_lost_sector() {
        return Verdict::Torn { until };
    }
    Verdict::Damaged(what(rest))
}

/// What to say of a frame that is not whole.
pub(super) fn what(rest: &[u8]) -> What {
    match Head::read(rest) {
        Some(head) if head.length == 0 => What::AfterEnd,
        Some(head) if record_bytes(&head).is_none_or(|bytes| bytes > rest.len()) => What::Length(head.length),
        _ => What::Checksum,
    }
}

/// Where the last byte ends that is not zero.
pub(super) fn last_byte(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

/// Whether a whole record stands anywhere in `rest` that was written when record `next` was on disk.
pub(super) fn has_record_that_follows(rest: &[u8], next: u64) -> bool {
    let mut checks = rest.len().saturating_mul(CHECKS_OF_A_BYTE);
    // A record may end in zeros, and starts with none.
    for at in 1..last_byte(rest) {
        let Some(content) = may_follow(&rest[at..], at, next) else { continue };
        // Rather a question too many than a record lost in silence.
        let Some(left) = checks.checked_sub(content) else { return true };
        checks = left;
        if whole_frame(&rest[at..]).is_some() {
            return true;
        }
    }
    false
}

/// The bytes of the frame that starts `bytes`, if its head and stamp are those of a record that
/// follows `next`, `at` bytes after it.
fn may_follow(bytes: &[u8], at: usize, next: u64) -> Option<usize> {
    let head = Head::read(bytes)?;
    let total = record_bytes(&head).filter(|total| *total <= bytes.len())?;
    let stamp = Stamp::read(&bytes[FRAME_HEAD_BYTES..])?;
    let most = next.saturating_add((at / (FRAME_HEAD_BYTES + STAMP_BYTES)) as u64 + 1);
    let follows = stamp.seq > next && stamp.seq <= most && (next..stamp.seq).contains(&stamp.synced);
    follows.then_some(total)
}

/// The bytes of the whole frame that a record's head claims; `None` where no record has so many.
fn record_bytes(head: &Head) -> Option<usize> {
    let length = usize::try_from(head.length).ok()?;
    (STAMP_BYTES..=CONTENT_BYTES).contains(&length).then_some(FRAME_HEAD_BYTES + length)
}

/// Whether the frame that starts `rest` is whole but for one bit, which cannot be a lost sector's.
fn is_one_flip(rest: &[u8], offset: u64) -> bool {
    let Some(head) = Head::read(rest) else { return false };
    let in_length = (0..u32::BITS).filter_map(|bit| {
        let total = record_bytes(&Head { length: head.length ^ (1 << bit), ..head })?;
        let mut frame = rest.get(..total)?.to_vec();
        frame[bit as usize / 8] ^= 1 << (bit % 8);
        whole_frame(&frame).map(|_| (total, bit as usize / 8))
    });
    let elsewhere =
        record_bytes(&head).and_then(|total| Some((total, flipped_byte(&head, rest.get(..total)?)?)));
    in_length.chain(elsewhere).any(|(total, at)| {
        let extent = Extent { bytes: &rest[..total], offset, ends: End::Within, length_is_there: true };
        !extent.shares().any(|(start, share)| (start..start + share.len()).contains(&at) && is_zero(share))
    })
}

/// The byte of `frame`, its length aside, in which one bit has to be flipped for the checksum to fit.
fn flipped_byte(head: &Head, frame: &[u8]) -> Option<usize> {
    let syndrome = head.checksum(&frame[FRAME_HEAD_BYTES..]) ^ head.crc;
    if syndrome.is_power_of_two() {
        return Some(4 + syndrome.trailing_zeros() as usize / 8);
    }
    // What a flip of the last bit does to the checksum, then of the one before it, and so on.
    let (mut effect, bits) = (POLYNOMIAL, (frame.len() - 8) * 8);
    for back in 0..bits {
        if effect == syndrome {
            return Some(frame.len() - 1 - back / 8);
        }
        effect = (effect >> 1) ^ if effect & 1 == 1 { POLYNOMIAL } else { 0 };
    }
    None
}

/// Where a frame that is not whole was to stand.
struct Extent<'a> {
    /// What is there of it.
    bytes: &'a [u8],
    /// Where it starts in the file.
    offset: u64,
    ends: End,
    /// Whether its length can be believed.
    length_is_there: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The frame ends within the file.
    Within,
    /// The file ends within the frame.
    File,
}

impl<'a> Extent<'a> {
    /// The extent that the frame at the start of `rest` claims.
    fn claimed(rest: &'a [u8], offset: u64) -> Self {
        let total = Head::read(rest).and_then(|head| record_bytes(&head));
        match total.map(|total| rest.get(..total)) {
            Some(Some(bytes)) => Extent { bytes, offset, ends: End::Within, length_is_there: true },
            Some(None) => Extent { bytes: rest, offset, ends: End::File, length_is_there: true },
            None if rest.len() < FRAME_HEAD_BYTES => {
                Extent { bytes: rest, offset, ends: End::File, length_is_there: true }
            }
            None => Extent { bytes: rest, offset, ends: End::Within, length_is_there: false },
        }
    }

    /// Whether a share of a sector was lost. Where the length is none that a frame has, it has to be
    /// one that the length is in: a sector that is there tells the truth.
    fn has_lost_sector(&self) -> bool {
        let counts = |start: usize| self.length_is_there || start < 4;
        self.ends == End::File || self.shares().any(|(start, share)| counts(start) && is_zero(share))
    }

    /// What of the extent stands in each sector, and where, from the extent's start, that is.
    fn shares(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let first = usize::try_from(SECTOR - self.offset % SECTOR).unwrap_or(1).min(self.bytes.len());
        let (head, rest) = self.bytes.split_at(first);
        let later = rest.chunks(SECTOR as usize).scan(first, |start, share| {
            let at = *start;
            *start += share.len();
            Some((at, share))
        });
        std::iter::once((0, head)).chain(later)
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
