//! Every bound of the decision core and the protocol, each with its reason, and the relations that
//! must hold between them. A limit that an operator may change lives in the configuration instead.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::types::Micros;

/// Bytes of an agent's name: room for a certificate's URI.
pub const AGENT_BYTES: usize = 128;
/// Segments of a path: a claim looks at each ancestor, so its cost grows with this.
pub const PATH_SEGMENTS: usize = 16;
/// Bytes of one path segment.
pub const SEGMENT_BYTES: usize = 64;
/// Bytes of a whole path.
pub const PATH_BYTES: usize = 256;
/// Claims of one intent: placement looks at all of them at each start it tries.
pub const CLAIMS: usize = 64;
/// Readings that one intent may rest on.
pub const EXPECTS: usize = 16;
/// The highest class.
pub const CLASS_MAX: u8 = 7;
/// Corners of a polygon, at least and at most: exact intersection costs their product.
pub const CORNERS_MIN: usize = 3;
/// See [`CORNERS_MIN`].
pub const CORNERS_MAX: usize = 16;
/// The greatest coordinate, in metres either way: products of four fit exact integers of 256 bits.
pub const COORDINATE_M: f64 = 1e8;
/// How far a corner may lie inside the hull of its polygon and still count as on it, in micrometres:
/// what rounding two neighbours and itself to whole micrometres can do to a straight line.
pub const HULL_SLACK_UM: i64 = 2;
/// Blockers told with one conflict: enough to act on, and it bounds the answer.
pub const BLOCKERS: usize = 8;
/// Bytes of an intent's note for people.
pub const NOTE_BYTES: usize = 128;
/// Bytes of the reason an operator gives for a release.
pub const REASON_BYTES: usize = 256;
/// Ended ids remembered over all agents, beside the time they are kept: past it the oldest goes.
pub const ENDED_IDS: usize = 1 << 20;
/// Paths and frames whose latest ended windows are remembered; past it the oldest end is forgotten,
/// and a reading from before it is stale.
pub const ENDED_TARGETS: usize = 1 << 20;
/// Ended grants remembered by agent for the `fair` model; past it the oldest goes.
pub const ENDED_GRANTS_BY_AGENT: usize = 4096;
/// The shortest slot: below it the timer's own noise is the slot.
pub const SLOT_MIN: Micros = Micros::from_us(100);
/// The longest slot.
pub const SLOT_MAX: Micros = Micros::from_secs(1);

const _: () = assert!(PATH_BYTES >= PATH_SEGMENTS * 2 - 1, "the deepest path must be spellable");
const _: () = assert!(SEGMENT_BYTES <= PATH_BYTES);
const _: () = assert!(CORNERS_MIN >= 3 && CORNERS_MIN < CORNERS_MAX);
const _: () = assert!(SLOT_MIN.as_us() > 0 && SLOT_MIN.as_us() < SLOT_MAX.as_us());
