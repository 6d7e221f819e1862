//! The rule, and that nothing comes between check and write.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use super::Keep;
use crate::limits;
use crate::types::{Fence, Time};

/// Stands before the writes of a guarded store, and lets no lower fence in than the highest that it has
/// seen of the key. Shared by all threads that write; where several processes write to one store, the
/// check has to be in the store.
#[derive(Debug)]
pub struct Gate<K> {
    keep: K,
    /// The keys that are being written to, each by one thread; so as many as there are threads inside.
    busy: Mutex<BTreeMap<String, ThreadId>>,
    left: Condvar,
}

/// Why a write was not let in. Nothing of it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused<E> {
    /// A later holder has been here: the grant of this fence is over.
    Lower {
        /// The fence that came with the write.
        fence: Fence,
        /// The highest that was seen of this key.
        highest: Fence,
    },
    /// The window of this fence has not begun.
    Early {
        /// The fence that came with the write.
        fence: Fence,
        /// The time that it was compared with.
        now: Time,
    },
    /// No key: it has no letters, more than [`limits::FENCE_KEY_BYTES`] bytes, or a control character.
    NoKey,
    /// This thread is already inside a write to the same key, and would wait for itself.
    Inside,
    /// What was seen cannot be read or kept, so nothing can be let in.
    Keep(E),
}

impl<K: Keep> Gate<K> {
    /// A gate over what `keep` has kept.
    pub fn new(keep: K) -> Self {
        Gate { keep, busy: Mutex::default(), left: Condvar::new() }
    }

    /// Runs `write` if no higher fence than `fence` was seen of `key`, and hands on what it returns. The
    /// same fence may come any number of times: a holder writes as often as it likes.
    ///
    /// From before the check until `write` has returned (or panicked) no other write to `key` is let in, so
    /// none with a higher fence can have come before a lower one that ends later. Other keys go on. `fence`
    /// is kept before `write` runs: if the process dies in between, or `write` fails, the same
    /// holder may try again and earlier ones stay out.
    ///
    /// It blocks while another thread writes to `key`, for as long as that takes: `write` should have an
    /// end. In async code it belongs on a thread that may block.
    ///
    /// # Errors
    /// Why `write` was not run.
    pub fn admit<T>(
        &self,
        key: &str,
        fence: Fence,
        write: impl FnOnce() -> T,
    ) -> Result<T, Refused<K::Error>> {
        self.admit_if(key, fence, None, write)
    }

    /// As [`Gate::admit`], but refuses a fence whose window begins after `now` too: one that comes early
    /// would shut out the holder before it, whose window it still is. `now` is the coordinator's time at
    /// its latest, such as `Client::coordinator_time` with its uncertainty added.
    ///
    /// # Errors
    /// Why `write` was not run.
    pub fn admit_at<T>(
        &self,
        now: Time,
        key: &str,
        fence: Fence,
        write: impl FnOnce() -> T,
    ) -> Result<T, Refused<K::Error>> {
        self.admit_if(key, fence, Some(now), write)
    }

    fn admit_if<T>(
        &self,
        key: &str,
        fence: Fence,
        now: Option<Time>,
        write: impl FnOnce() -> T,
    ) -> Result<T, Refused<K::Error>> {
        if !is_key(key) {
            return Err(Refused::NoKey);
        }
        if let Some(now) = now.filter(|now| fence.start > *now) {
            return Err(Refused::Early { fence, now });
        }
        let _alone = self.enter(key)?;
        match self.keep.load(key).map_err(Refused::Keep)? {
            Some(highest) if fence < highest => return Err(Refused::Lower { fence, highest }),
            Some(highest) if fence == highest => {}
            _ => self.keep.persist(key, fence).map_err(Refused::Keep)?,
        }
        Ok(write())
    }

    /// The highest fence that was seen of `key`. Another may be let in at the same time.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn highest(&self, key: &str) -> Result<Option<Fence>, K::Error> {
        self.keep.load(key)
    }

    /// Waits until nobody else writes to `key`.
    fn enter(&self, key: &str) -> Result<Alone<'_, K>, Refused<K::Error>> {
        let own = thread::current().id();
        let mut busy = self.busy();
        while let Some(by) = busy.get(key) {
            if *by == own {
                return Err(Refused::Inside);
            }
            busy = self.left.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        busy.insert(key.to_owned(), own);
        Ok(Alone { gate: self, key: key.to_owned() })
    }

    // Nothing panics under the lock that could leave half of something behind.
    fn busy(&self) -> MutexGuard<'_, BTreeMap<String, ThreadId>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to write to a key, given back also where the write panics.
struct Alone<'a, K: Keep> {
    gate: &'a Gate<K>,
    key: String,
}

impl<K: Keep> Drop for Alone<'_, K> {
    fn drop(&mut self) {
        self.gate.busy().remove(&self.key);
        self.gate.left.notify_all();
    }
}

/// What a key may be: a path of the coordinator is one.
pub(super) fn is_key(key: &str) -> bool {
    (1..=limits::FENCE_KEY_BYTES).contains(&key.len()) && !key.chars().any(char::is_control)
}

impl<E: fmt::Display> fmt::Display for Refused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Lower { fence, highest } => {
                write!(f, "the fence {fence} is lower than {highest}, which was here: that grant is over")
            }
            Refused::Early { fence, now } => {
                write!(f, "the window of the fence {fence} has not begun at {}", now.as_us())
            }
            Refused::NoKey => {
                write!(f, "no key: it is 1 to {} bytes without control characters", limits::FENCE_KEY_BYTES)
            }
            Refused::Inside => f.write_str("this thread is inside a write to the same key already"),
            Refused::Keep(error) => write!(f, "what was seen cannot be read or kept: {error}"),
        }
    }
}

impl<E: Error + 'static> Error for Refused<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Refused::Keep(error) => Some(error),
            _ => None,
        }
    }
}
