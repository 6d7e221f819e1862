//! How far a long run has come, on a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shown from a second on, and twice a second from there.
#[derive(Debug)]
pub(super) struct Progress {
    started: Instant,
    shown: Option<Instant>,
    records: u64,
    is_wanted: bool,
}

impl Progress {
    pub(super) fn start() -> Self {
        let is_wanted = io::stderr().is_terminal();
        Progress { started: Instant::now(), shown: None, records: 0, is_wanted }
    }

    /// A record more was read.
    pub(super) fn tick(&mut self) {
        self.records += 1;
        if !self.is_wanted || !self.records.is_multiple_of(256) {
            return;
        }
        let due =
            self.shown.map_or(self.started + Duration::from_secs(1), |at| at + Duration::from_millis(500));
        if Instant::now() >= due {
            self.shown = Some(Instant::now());
            // Nobody waits for it.
            let _ = write!(io::stderr(), "\r{} records", self.records);
        }
    }

    /// How long it took so far.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Records a second so far.
    pub(super) fn rate(&self) -> u64 {
        (self.records as f64 / self.elapsed().as_secs_f64().max(1e-9)) as u64
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}
