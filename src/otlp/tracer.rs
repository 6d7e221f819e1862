//! The observer that follows traces: on the slot loop's thread it copies what is about them, and no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use super::Message;
use super::shape::{Slot, Told};
use crate::coordinator::{Decided, Observer, SlotReport, TracedDecision};
use crate::limits;
use crate::telemetry::SpanCounts;
use crate::types::Verdict;

/// Hands on what is decided about intents in traces, as a coordinator's observer. It never waits: what there is no room
/// for is counted and left out.
#[derive(Debug)]
pub struct Tracer {
    to: mpsc::Sender<Message>,
    counts: Arc<SpanCounts>,
    /// Something was left out since a slot was handed on.
    has_left_out: AtomicBool,
}

impl Tracer {
    pub(super) fn new(to: mpsc::Sender<Message>, counts: Arc<SpanCounts>) -> Self {
        Tracer { to, counts, has_left_out: AtomicBool::new(false) }
    }

    fn leave_out(&self, decisions: usize) {
        self.counts.left_out(decisions as u64);
        self.has_left_out.store(true, Ordering::Relaxed);
    }
}

impl Observer for Tracer {
    fn slot_decided(&self, report: &SlotReport, decided: &Decided<'_>) {
        if decided.traced.is_empty() {
            return;
        }
        let (taken, rest) = decided.traced.split_at(decided.traced.len().min(limits::TRACED_OF_A_SLOT));
        let told: Vec<Told> = taken.iter().filter_map(|traced| told(decided, traced)).collect();
        let count = told.len();
        let is_after_gap = self.has_left_out.swap(false, Ordering::Relaxed);
        let slot = Box::new(Slot { report: *report, told, is_after_gap });
        if self.to.try_send(Message::Slot(slot)).is_err() {
            self.leave_out(count);
        }
        if !rest.is_empty() {
            self.leave_out(rest.len());
        }
    }

    fn follows_traces(&self) -> bool {
        true
    }
}

fn told(decided: &Decided<'_>, TracedDecision { decision: at, trace }: &TracedDecision) -> Option<Told> {
    let outcome = decided.outcome;
    let decision = outcome.decisions.get(*at)?.clone();
    let is_lease = match &decision.verdict {
        Verdict::Granted { token, .. } | Verdict::Moved { token, .. } => {
            decided.resolver.grant(*token).is_some_and(|grant| grant.intent.hold)
        }
        _ => false,
    };
    Some(Told {
        trace: Arc::clone(trace),
        decision,
        arrival: outcome.arrivals.get(*at).copied().flatten(),
        rank: outcome.ranks.get(*at).copied().flatten(),
        is_lease,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::{Punctuality, Trace};
    use crate::resolver::{Resolver, Rules, SlotBatch, SlotOutcome};
    use crate::types::{Agent, Decision, IntentId, IntentKey, Slot as Number, Time, TraceContext};

    fn report() -> SlotReport {
        let at = Time::from_us(1);
        SlotReport {
            slot: Number::new(1),
            at,
            woken: at,
            closed: at,
            resolved: at,
            persisted: at,
            published: at,
            inputs: 0,
            decisions: 0,
            punctuality: Punctuality::OnTime,
        }
    }

    /// Tells of a slot in which the first `traced` of `decisions` are about intents in traces.
    fn tell(tracer: &Tracer, decisions: usize, traced: usize) {
        let mut outcome = SlotOutcome::empty(Number::new(1), Time::from_us(1));
        let decision = |id: usize| {
            let key = IntentKey { agent: Agent::new("a").unwrap(), id: IntentId::new(id as u64) };
            Decision { key, answers: None, verdict: Verdict::ReleasedUnknown }
        };
        outcome.decisions = (0..decisions).map(decision).collect();
        let trace = Trace::of(TraceContext::new(1, 2, true).unwrap());
        let of = |decision| TracedDecision { decision, trace: Arc::clone(&trace) };
        let traced: Vec<TracedDecision> = (0..traced).map(of).collect();
        let (batch, resolver) = (SlotBatch::empty(Number::new(1)), Resolver::new(Rules::default()));
        let decided = Decided { batch: &batch, outcome: &outcome, resolver: &resolver, traced: &traced };
        tracer.slot_decided(&report(), &decided);
    }

    fn left_out(counts: &SpanCounts) -> u64 {
        counts.iter().find(|(fate, _)| *fate == "left_out").map(|(_, count)| count).unwrap()
    }

    #[test]
    fn only_what_is_in_a_trace_is_handed_on_and_what_has_no_room_is_counted() {
        let (to, mut told) = mpsc::channel(1);
        let counts = Arc::new(SpanCounts::default());
        let tracer = Tracer::new(to, Arc::clone(&counts));
        tell(&tracer, 5, 0);
        assert!(told.try_recv().is_err(), "nothing of that slot");
        tell(&tracer, 5, 2);
        tell(&tracer, 5, 3);
        assert_eq!(left_out(&counts), 3);
        let slot = |message: Message| match message {
            Message::Slot(slot) => (slot.told.len(), slot.is_after_gap),
            Message::Span(span) => panic!("{span:?}"),
        };
        assert_eq!(slot(told.try_recv().unwrap()), (2, false));
        tell(&tracer, 5, 1);
        assert_eq!(slot(told.try_recv().unwrap()), (1, true));
        let many = limits::TRACED_OF_A_SLOT + 7;
        tell(&tracer, many, many);
        assert_eq!(slot(told.try_recv().unwrap()), (limits::TRACED_OF_A_SLOT, false));
        assert_eq!(left_out(&counts), 10);
        tell(&tracer, 1, 1);
        assert_eq!(slot(told.try_recv().unwrap()), (1, true));
    }
}
