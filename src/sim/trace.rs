//! What happened, summed up in a digest; and where it is asked for, the last of it in words.

use std::collections::VecDeque;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// Lines that are kept of what happened last.
const TAIL: usize = 400;

/// See the module's documentation.
pub(super) struct Trace {
    hasher: SipHasher13,
    happened: u64,
    tail: Option<VecDeque<String>>,
}

impl Trace {
    /// `in_words` where the last of it is to be told: it costs more than the rest of a simulation.
    pub(super) fn new(in_words: bool) -> Self {
        Trace { hasher: SipHasher13::new(), happened: 0, tail: in_words.then(VecDeque::new) }
    }

    /// Notes that something happened at the true time `at` to `who`.
    pub(super) fn note(&mut self, at: u64, who: u64, bytes: &[u8], words: impl FnOnce() -> String) {
        self.hasher.write_u64(at);
        self.hasher.write_u64(who);
        self.hasher.write_usize(bytes.len());
        self.hasher.write(bytes);
        self.happened += 1;
        let Some(tail) = &mut self.tail else { return };
        if tail.len() == TAIL {
            tail.pop_front();
        }
        tail.push_back(format!("{:>12.6} s  {}", at as f64 / 1e6, words()));
    }

    pub(super) fn digest(&self) -> u128 {
        self.hasher.finish128().as_u128()
    }

    pub(super) fn happened(&self) -> u64 {
        self.happened
    }

    pub(super) fn into_tail(self) -> Vec<String> {
        self.tail.unwrap_or_default().into()
    }
}
