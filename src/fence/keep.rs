//! Where a gate keeps what it has seen.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits;
use crate::types::Fence;

/// Where a [`Gate`](super::Gate) keeps the highest fence of each key. The gate asks about one key from one
/// thread at a time, about several keys at once.
///
/// It never forgets: a key that it has no room for is an error, since to forget one is to let everyone in.
/// One store has one `Keep`, of one gate: two would not know of each other.
pub trait Keep {
    /// Why it cannot read or keep.
    type Error;

    /// The fence that was persisted last of `key`; `None` where none ever was.
    ///
    /// # Errors
    /// Where that is not known for sure. `None` would let everyone in.
    fn load(&self, key: &str) -> Result<Option<Fence>, Self::Error>;

    /// Keeps `fence`, which is higher than what [`Keep::load`] said, before it returns: after a crash right
    /// then it is loaded.
    ///
    /// # Errors
    /// Where it may not be kept. It may then be loaded or not; nothing was let in by it.
    fn persist(&self, key: &str, fence: Fence) -> Result<(), Self::Error>;
}

/// Keeps fences for as long as the process lives: for a store that is gone with it, and for tests. Before
/// a store that outlives the process, a restart would let everyone in.
#[derive(Debug)]
pub struct MemoryKeep {
    seen: Mutex<BTreeMap<String, Fence>>,
    room: usize,
}

/// There is no room for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// For how many there is.
    pub room: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it has the fences of {} keys, and no room for another", self.room)
    }
}

impl Error for Full {}

impl Default for MemoryKeep {
    /// With room for [`limits::FENCE_KEYS`] keys.
    fn default() -> Self {
        MemoryKeep::with_room(limits::FENCE_KEYS)
    }
}

impl MemoryKeep {
    /// With room for `room` keys.
    pub fn with_room(room: usize) -> Self {
        MemoryKeep { seen: Mutex::default(), room }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, Fence>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keep for MemoryKeep {
    type Error = Full;

    fn load(&self, key: &str) -> Result<Option<Fence>, Full> {
        Ok(self.seen().get(key).copied())
    }

    fn persist(&self, key: &str, fence: Fence) -> Result<(), Full> {
        let mut seen = self.seen();
        if seen.len() >= self.room && !seen.contains_key(key) {
            return Err(Full { room: self.room });
        }
        seen.insert(key.to_owned(), fence);
        Ok(())
    }
}
