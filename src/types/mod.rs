//! The nouns: ids, times, targets, intents and decisions, as every other room uses them.
//!
//! Values of these types are valid by construction (parse, don't validate): what comes from a
//! socket or a file is a [`RawIntent`] first and becomes an [`Intent`] or an [`Invalid`] that names
//! the field at fault. This room does no IO and knows no clock.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod decision;
mod fence;
mod fixed_map;
pub(crate) mod grown;
mod ids;
mod intent;
mod path;
mod raw;
mod shape;
mod time;
mod trace_context;

pub use decision::{Blocker, Conflict, Contested, Decision, Reason, RenewDenial, Verdict};
pub use fence::{Fence, NoFence};
pub use fixed_map::{FixedHasher, FixedMap, FixedSet, Hashed, HashedMap, fixed_hash};
pub use ids::{Agent, Class, IntentId, IntentKey, TaskId, Token};
pub use intent::{Claim, Expect, Intent, Mode, Start};
pub use path::Path;
pub use raw::{Invalid, PATH_RULE, RawClaim, RawExpect, RawIntent, RawMode, RawTarget};
pub use shape::{HeightRange, Outline, Point, Shape};
pub use time::{Micros, Slot, Time, Window};
pub use trace_context::TraceContext;

/// A region: a shape in a coordinate frame. To path claims it is a node just below its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The path that names the coordinate frame.
    pub frame: Path,
    /// The shape in that frame.
    pub shape: Shape,
}

/// What a claim names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A node of the tree of names, and everything below it.
    Path(Path),
    /// A shape in a coordinate frame.
    Region(Region),
}

impl Target {
    /// The path whose configuration holds for this target: the path itself, or a region's frame.
    pub fn path(&self) -> &Path {
        match self {
            Target::Path(path) => path,
            Target::Region(region) => &region.frame,
        }
    }
}
