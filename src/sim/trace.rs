//! What happened, summed up in a digest; and where it is asked for, the last of it in words.

use std::collections::VecDeque;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// See the module's documentation.
pub(super) struct Trace {
    hasher: SipHasher13,
    happened: u64,
    tail: VecDeque<String>,
    /// Lines that are kept of what happened last.
    kept: usize,
}

impl Trace {
    /// `kept` lines of the last of it are to be told: words cost more than the rest of a simulation.
    pub(super) fn new(kept: usize) -> Self {
        Trace { hasher: SipHasher13::new(), happened: 0, tail: VecDeque::new(), kept }
    }

    /// Notes that something happened at the true time `at` to `who`.
    pub(super) fn note(&mut self, at: u64, who: u64, bytes: &[u8], words: impl FnOnce() -> String) {
        self.hasher.write_u64(at);
        self.hasher.write_u64(who);
        self.hasher.write_usize(bytes.len());
        self.hasher.write(bytes);
        self.happened += 1;
        if self.kept == 0 {
            return;
        }
        if self.tail.len() == self.kept {
            self.tail.pop_front();
        }
        self.tail.push_back(format!("{:>12.6} s  {}", at as f64 / 1e6, words()));
    }

    pub(super) fn digest(&self) -> u128 {
        self.hasher.finish128().as_u128()
    }

    pub(super) fn happened(&self) -> u64 {
        self.happened
    }

    pub(super) fn into_tail(self) -> Vec<String> {
        self.tail.into()
    }
}
