//! What a coordinator counts of its own work, for as long as it lives.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::contention::{Contention, Heat, OfPair, OnPath};
use super::counts::Counts;
use super::recent::Recent;
use super::spans::SpanCounts;
use super::web::Feed;
use crate::audit::{Progress, Written};
use crate::coordinator::{Decided, Departure, Observer, SlotReport};
use crate::types::{Agent, Micros, Path, Time};

/// Counts a coordinator's work, as its observer, and keeps its last slots and the paths that are contended.
///
/// It is told of each slot on the slot loop's thread, which never waits for more than the copying of some
/// hundred small values.
#[derive(Debug)]
pub struct Metrics {
    length: Micros,
    pub(super) counts: Counts,
    recent: Mutex<Recent>,
    contention: Mutex<Contention>,
    journal: OnceLock<Arc<dyn Progress>>,
    behind: Behind,
    spans: Arc<SpanCounts>,
    /// What was decided lately, where that is kept.
    feed: Option<Arc<Feed>>,
    has_page: bool,
}

impl Metrics {
    /// Nothing counted yet, of slots of `length`.
    pub fn new(length: Micros) -> Self {
        Metrics {
            length,
            counts: Counts::new(),
            recent: Mutex::default(),
            contention: Mutex::default(),
            journal: OnceLock::new(),
            behind: Behind::default(),
            spans: Arc::default(),
            feed: None,
            has_page: false,
        }
    }

    /// With the web page: the last slots are kept with what was decided in them.
    #[must_use]
    pub fn with_page(self) -> Self {
        Metrics { has_page: true, ..self.with_decisions() }
    }

    /// The last slots are kept with what was decided in them, for `/why` alone: without the web page.
    #[must_use]
    pub fn with_decisions(self) -> Self {
        Metrics { feed: Some(Arc::default()), ..self }
    }

    /// What becomes of spans, for whoever exports some.
    pub fn spans(&self) -> &Arc<SpanCounts> {
        &self.spans
    }

    /// Whether there is a page.
    pub(super) fn has_page(&self) -> bool {
        self.has_page
    }

    /// What was decided lately.
    pub(super) fn feed(&self) -> Option<&Arc<Feed>> {
        self.feed.as_ref()
    }

    /// The coordinator's journal, whose records it follows to the disk; the first one stands.
    pub(super) fn follow(&self, journal: Arc<dyn Progress>) {
        self.journal.get_or_init(|| journal);
    }

    /// How far the journal has come, and how long the oldest record has waited to be on disk.
    pub(super) fn journal(&self, now: Time) -> (Written, Micros) {
        let written = self.journal.get().map(|journal| journal.written()).unwrap_or_default();
        (written, self.behind.lag(written, now))
    }

    /// The slot length.
    pub(super) fn length(&self) -> Micros {
        self.length
    }

    /// The last slots, the latest first.
    pub(super) fn recent(&self) -> Vec<SlotReport> {
        lock(&self.recent).latest()
    }

    /// The most contended paths, the most contended first.
    pub(super) fn most_contended(&self, count: usize, now: Time) -> Vec<(Path, Heat<OnPath>)> {
        lock(&self.contention).most(count, now)
    }

    /// The agents who are in each other's way most, the most first: who asked, and who was in the way.
    pub(super) fn most_opposed(&self, count: usize, now: Time) -> Vec<((Agent, Agent), Heat<OfPair>)> {
        lock(&self.contention).pairs(count, now)
    }
}

/// What is in these locks is whole at any instant.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Metrics {
    fn slot_done(&self, report: &SlotReport) {
        lock(&self.recent).push(*report);
    }

    fn slot_decided(&self, report: &SlotReport, decided: &Decided<'_>) {
        self.counts.slot(report, *decided, &mut lock(&self.contention));
        self.journal(report.published);
        if let Some(feed) = &self.feed {
            feed.slot(report, decided);
        }
    }

    fn departed(&self, departure: &Departure) {
        let decided_at = departure.slot.decided_at(self.length);
        self.counts.sent.observe(departure.last.since(decided_at));
    }

    fn socket_full(&self) {
        self.counts.socket_full.add(1);
    }
}

/// Since when records wait to be on disk, from looks at how far the journal has come.
#[derive(Debug, Default)]
struct Behind(Mutex<Option<(u64, Time)>>);

impl Behind {
    /// How long the oldest record that waits has been seen to. Looked at every now and then, it is short of the
    /// truth by the time between two looks at most.
    fn lag(&self, written: Written, now: Time) -> Micros {
        let mut oldest = lock(&self.0);
        if written.synced >= written.records {
            *oldest = None;
            return Micros::ZERO;
        }
        let (_, since) = match *oldest {
            Some((record, since)) if record > written.synced => (record, since),
            _ => *oldest.insert((written.records, now)),
        };
        now.since(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_is_that_of_the_oldest_record_that_waits() {
        let behind = Behind::default();
        let lag = |records, synced, at| {
            behind.lag(Written { records, synced, bytes: 0 }, Time::from_us(at)).as_us()
        };
        assert_eq!(lag(0, 0, 10), 0);
        assert_eq!(lag(3, 2, 20), 0);
        assert_eq!(lag(9, 2, 50), 30, "record 3 waits since 20");
        assert_eq!(lag(9, 5, 60), 0, "all up to 5 are on disk: the next was not looked at before");
        assert_eq!(lag(9, 5, 90), 30);
        assert_eq!(lag(9, 9, 95), 0);
        assert_eq!(lag(10, 9, 100), 0);
    }
}
