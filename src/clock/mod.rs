//! The coordinator's clock, and the sleep of the one thread that must wake on time.
//!
//! Coordinator time is microseconds since the Unix epoch from a source that never runs backwards.
//! The wall clock is read once, when the clock starts; whatever is done to it afterwards moves no
//! slot. A coordinator that is started again while its machine has run on goes on as if it had never been
//! away, whatever the wall clock shows ([`Run`]). This room decides nothing and must never hand out an instant earlier than one before it.

mod manual;
mod system;

use std::fmt::Debug;

pub use manual::ManualClock;
pub use system::{Reading, Run, SystemClock};

use crate::types::Time;

/// A source of coordinator time that a thread can sleep by.
///
/// Readings never fall, over all threads: where one reading happens before another, it is not the
/// greater of the two.
pub trait Clock: Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Time;

    /// Puts the calling thread to sleep until `until`, or with `None` until somebody unparks it
    /// ([`std::thread::Thread::unpark`]). May return early, so callers look at what they wait for
    /// again; an unpark that came before the call makes it return at once, so none is lost.
    fn park(&self, until: Option<Time>);

    /// Called once by a thread that will [`park`](Clock::park), on that thread: asks the system for
    /// wake-ups as exact as it has.
    fn attach(&self) {}
}
