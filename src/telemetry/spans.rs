//! What became of spans, counted by whoever exports them.

use super::instrument::{Counters, Each, Label, Number, label};

label! {
    /// What became of a span.
    Fate = "result" { Sent = "sent", Refused = "refused", LeftOut = "left_out", }
}

/// How many spans came to what. Counting takes no lock.
#[derive(Debug)]
pub struct SpanCounts(Counters<Fate>);

impl Default for SpanCounts {
    fn default() -> Self {
        SpanCounts(Each::new(Number::default))
    }
}

impl SpanCounts {
    /// So many were taken by the collector.
    pub fn sent(&self, count: u64) {
        self.0.of(Fate::Sent).add(count);
    }

    /// So many were refused by the collector, whatever is done.
    pub fn refused(&self, count: u64) {
        self.0.of(Fate::Refused).add(count);
    }

    /// So many were left out: there was no room for them, or nobody took them in time.
    pub fn left_out(&self, count: u64) {
        self.0.of(Fate::LeftOut).add(count);
    }

    /// Each word for what became of a span, with how many it was.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(fate, count)| (fate.as_str(), count.get()))
    }
}
