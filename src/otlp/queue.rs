//! Spans that wait to be sent: bounded, and what has no room is counted.

use std::collections::VecDeque;
use std::sync::Arc;

use super::span::{Shift, Span};
use crate::limits;
use crate::telemetry::SpanCounts;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Queue {
    spans: VecDeque<Span>,
    counts: Arc<SpanCounts>,
}

impl Queue {
    pub(super) fn new(counts: Arc<SpanCounts>) -> Self {
        Queue { spans: VecDeque::new(), counts }
    }

    /// Takes these in, moved to another clock. Those that are there already go first: they are older.
    pub(super) fn take_in(&mut self, spans: impl IntoIterator<Item = Span>, shift: Shift) {
        for mut span in spans {
            if self.spans.len() == limits::SPANS {
                self.counts.left_out(1);
                continue;
            }
            span.shift(shift);
            self.spans.push_back(span);
        }
    }

    /// Whether there are as many as one request takes.
    pub(super) fn is_due(&self) -> bool {
        self.spans.len() >= limits::SPANS_AT_ONCE
    }

    /// What is to be sent next; `None` where there is nothing.
    pub(super) fn next(&mut self) -> Option<Vec<Span>> {
        let count = self.spans.len().min(limits::SPANS_AT_ONCE);
        (count > 0).then(|| self.spans.drain(..count).collect())
    }

    /// Gives up what is left.
    pub(super) fn give_up(&mut self) {
        self.counts.left_out(self.spans.len() as u64);
        self.spans.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::span::Place;
    use super::*;
    use crate::types::{Micros, Time};

    fn span(number: u64) -> Span {
        Span::new(Place { trace: 1, span: number }, None, "x", Time::from_us(number))
    }

    fn counted(counts: &SpanCounts) -> Vec<u64> {
        counts.iter().map(|(_, count)| count).collect()
    }

    #[test]
    fn what_has_no_room_is_counted_and_what_is_there_goes_in_order_and_at_once() {
        let counts = Arc::new(SpanCounts::default());
        let mut queue = Queue::new(Arc::clone(&counts));
        assert!(queue.next().is_none());
        queue.take_in((0..limits::SPANS as u64 + 5).map(span), Shift::Ahead(Micros::from_us(3)));
        assert_eq!(counted(&counts), [0, 0, 5]);
        assert!(queue.is_due());
        let first = queue.next().unwrap();
        assert_eq!(first.len(), limits::SPANS_AT_ONCE);
        assert_eq!((first[0].start, first[1].start), (Time::from_us(3), Time::from_us(4)));
        queue.give_up();
        assert_eq!(counted(&counts), [0, 0, 5 + (limits::SPANS - limits::SPANS_AT_ONCE) as u64]);
        assert!(queue.next().is_none() && !queue.is_due());
    }
}
