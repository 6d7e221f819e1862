//! Every metric with its name, what it means, and what it is just now. docs/METRICS.md is made of this.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::instrument::{Counters, Histogram, Label, Snapshot};
use super::metrics::Metrics;
use crate::audit::Written;
use crate::coordinator::{Health, Present, ReloadCounts, View};
use crate::limits::Limit;
use crate::session::coordinator::Lowered;
use crate::types::{Micros, Time};

/// The type of what [`text`] writes.
pub(super) const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// What is seen between two slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looked {
    /// When the intent arrived that has waited longest, if any waits.
    pub(super) oldest: Option<Time>,
    /// Capacities of which more is granted than they are.
    pub(super) capacities_over: usize,
}

/// All metrics, as text for Prometheus. `looked` is `None` where the slot loop does not answer.
pub(super) fn text(
    metrics: &Arc<Metrics>,
    view: &View,
    looked: Option<Looked>,
) -> Result<String, fmt::Error> {
    let at = view.now();
    let (written, audit_lag) = metrics.journal(at);
    let since = |arrival| at.since(arrival);
    let oldest_wait = looked.map(|looked| looked.oldest.map_or(Micros::ZERO, since));
    let capacities_over = looked.map(|looked| looked.capacities_over);
    let reached = view.reached().iter().collect();
    let (health, present) = (view.health(), view.present());
    let (is_ready, is_draining) = (health == Health::Ready, health == Health::Draining);
    let drain_left = view.drains().map(|drains| drains.deadline.since(at));
    let now = Now {
        is_ready,
        is_draining,
        drain_left,
        present,
        reached,
        written,
        audit_lag,
        oldest_wait,
        capacities_over,
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { metrics: Arc::clone(metrics), now }));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

/// What is not counted but looked at.
#[derive(Debug)]
struct Now {
    is_ready: bool,
    is_draining: bool,
    /// How long a drain may last yet.
    drain_left: Option<Micros>,
    present: Present,
    reached: Vec<(Limit, u64)>,
    written: Written,
    audit_lag: Micros,
    /// How long the intent that has waited longest has; `None` where the slot loop does not say.
    oldest_wait: Option<Micros>,
    /// Capacities of which more is granted than they are; likewise.
    capacities_over: Option<usize>,
}

#[derive(Debug)]
struct Scrape {
    metrics: Arc<Metrics>,
    now: Now,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut to = Sheet(encoder);
        self.slots(&mut to)?;
        self.decisions(&mut to)?;
        self.rights(&mut to)?;
        self.grants(&mut to)?;
        self.agents(&mut to)?;
        self.operator(&mut to)?;
        self.journal(&mut to)?;
        let spans = self.metrics.spans().iter();
        to.counts(
            "preclaim_spans",
            "Spans that were made: taken by the collector (sent), refused by it (refused), or without room or an answer in \
             time (left_out)",
            spans.map(|(fate, count)| (Some([("result", fate)]), count)),
        )?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        to.gauge("preclaim_build_info", "Always 1; its label says what runs", &[(Some(version), 1.0)])
    }
}

impl Scrape {
    fn slots(&self, to: &mut Sheet<'_>) -> fmt::Result {
        let counts = &self.metrics.counts;
        to.gauge(
            "preclaim_ready",
            "1 while it decides and takes in, as /readyz says",
            &one(self.now.is_ready.into()),
        )?;
        to.gauge(
            "preclaim_draining",
            "1 while it takes nothing new and is to end, by a drain or a stop",
            &one(self.now.is_draining.into()),
        )?;
        to.gauge(
            "preclaim_drain_left_seconds",
            "How long a drain waits yet for the grants in force, at most; NaN where there is none",
            &one(self.now.drain_left.map_or(f64::NAN, seconds)),
        )?;
        to.gauge(
            "preclaim_slot_length_seconds",
            "The length of a slot",
            &one(seconds(self.metrics.length())),
        )?;
        to.counters(
            "preclaim_slots",
            "Slots that were decided: in time (ok), begun in time and ended after the next one's \
             end (late), or begun after that (caught_up)",
            &counts.slots,
        )?;
        to.histogram(
            "preclaim_slot_lag_seconds",
            "From a slot's end to when the slot loop was awake for it",
            &counts.lag,
        )?;
        to.histograms(
            "preclaim_slot_work_seconds",
            "Work on a slot, by phase: taking its messages out of the queue, deciding it, making \
             its record durable, handing its decisions to the connections",
            counts.work.iter(),
        )?;
        to.histogram(
            "preclaim_slot_sent_seconds",
            "From a slot's end to when the last of its news for one connection had been handed to \
             the kernel",
            &counts.sent,
        )?;
        to.counter("preclaim_slot_inputs", "Messages that slots took in", counts.inputs.get())?;
        to.counter(
            "preclaim_socket_full",
            "Datagrams for which the kernel had no room at once",
            counts.socket_full.get(),
        )
    }

    fn decisions(&self, to: &mut Sheet<'_>) -> fmt::Result {
        let counts = &self.metrics.counts;
        to.counters(
            "preclaim_intents",
            "Decisions about intents, by outcome; one that begins to wait counts as waiting then, \
             and by its end later",
            &counts.intents,
        )?;
        to.histograms(
            "preclaim_decision_seconds",
            "From the arrival of what was asked to its decision being handed to the connections, \
             waits included",
            counts.decisions.iter().filter(|(outcome, _)| outcome.is_answer()),
        )?;
        to.histogram(
            "preclaim_wait_seconds",
            "From the arrival of an intent that was not placed in its first slot to the slot that \
             ended its wait",
            &counts.waits,
        )?;
        to.counter(
            "preclaim_overdue_intents",
            "Decisions about intents whose patience was at an end before they were placed or \
             ended",
            counts.overdue.get(),
        )?;
        to.counters(
            "preclaim_conflicts",
            "Intents that found no place in their first slot, by what was in the way first; and \
             stale readings, and rings of tasks that were broken",
            &counts.conflicts,
        )?;
        to.counters(
            "preclaim_offers",
            "Conflicts that were told with another start (made) and without one (none), and what \
             became of those that were asked for then: granted at that start (taken), or not \
                 (missed)",
            &counts.offers,
        )?;
        to.counter(
            "preclaim_contested",
            "Times that a holder was told that others want what it holds",
            counts.contested.get(),
        )?;
        to.counter(
            "preclaim_scores_not_finite",
            "Priority scores that were no finite number and ranked lowest",
            counts.scores_not_finite.get(),
        )?;
        let by_core = |name: &str| counts.rejections.iter().find(|(reason, _)| reason.as_str() == name);
        let refused = self.now.present.refusals.iter().map(|(reason, count)| {
            let name = reason.as_str();
            (Some([("reason", name)]), count + by_core(name).map_or(0, |(_, count)| count.get()))
        });
        to.counts(
            "preclaim_refusals",
            "Requests that were refused, by reason, before a slot or in one",
            refused,
        )
    }

    fn rights(&self, to: &mut Sheet<'_>) -> fmt::Result {
        let forbidden = self.now.present.forbidden.iter();
        to.counts(
            "preclaim_forbidden",
            "Requests that rights were against, by what of the rule was: `no_rule` where none was about it, `other` \
             where a check of the operator's own was, or an observer asked for more than to look",
            forbidden.map(|(by, count)| (Some([("by", by.as_str())]), count)),
        )?;
        let Lowered { by_rule, by_allowance } = self.now.present.lowered;
        let lowered = [("rule", by_rule), ("allowance", by_allowance)];
        to.counts(
            "preclaim_lowered",
            "Declarations and revisions of whose priority less counted than was sent, by a rule's caps or because the \
             agent's allowance could not pay",
            lowered.map(|(by, count)| (Some([("by", by)]), count)),
        )
    }

    fn grants(&self, to: &mut Sheet<'_>) -> fmt::Result {
        let counts = &self.metrics.counts;
        to.gauge(
            "preclaim_grants_live",
            "Grants in force after the last slot",
            &one(float(counts.grants_live.get())),
        )?;
        to.gauge(
            "preclaim_undecided",
            "Intents that waited after the last slot",
            &one(float(counts.undecided.get())),
        )?;
        to.gauge(
            "preclaim_oldest_wait_seconds",
            "How long the intent that has waited longest has; NaN where the slot loop does not answer",
            &one(self.now.oldest_wait.map_or(f64::NAN, seconds)),
        )?;
        to.counters(
            "preclaim_grants_ended",
            "Grants that ended: by their own end, by a release, for a higher class, or replaced \
             by a revision",
            &counts.ended,
        )?;
        to.counter(
            "preclaim_fence_refusals",
            "Writes that stores refused for a fence that was too low, as agents told",
            self.now.present.fence_refusals,
        )
    }

    fn agents(&self, to: &mut Sheet<'_>) -> fmt::Result {
        let Present { connections, sessions, away, names, watches, .. } = self.now.present;
        to.gauge(
            "preclaim_connections",
            "Connections that are open, those before their hello too",
            &one(float(connections as u64)),
        )?;
        let sessions = [("connected", sessions), ("away", away)];
        let sessions = sessions.map(|(state, count)| (Some([("state", state)]), float(count as u64)));
        to.gauge(
            "preclaim_sessions",
            "Sessions of agents and observers: with a connection, or without one and kept for \
             their return",
            &sessions,
        )?;
        to.gauge("preclaim_names", "Names that have a session", &one(float(names as u64)))?;
        to.gauge("preclaim_watches", "Watches that are told of each decision", &one(float(watches as u64)))?;
        let reached =
            self.now.reached.iter().copied().map(|(limit, count)| (Some([("limit", limit.as_str())]), count));
        to.counts(
            "preclaim_limits_reached",
            "Times that a limit was reached, by limit; docs/LIMITS.md says what each is",
            reached,
        )
    }

    fn operator(&self, to: &mut Sheet<'_>) -> fmt::Result {
        let ReloadCounts { done, refused, last } = self.now.present.reloads;
        to.counts(
            "preclaim_reloads",
            "Times that the configuration was read again: all of it was taken (done), or something was against it and \
             nothing was (refused)",
            [("done", done), ("refused", refused)].map(|(result, count)| (Some([("result", result)]), count)),
        )?;
        to.gauge(
            "preclaim_last_reload_timestamp_seconds",
            "When that was done last, in seconds since 1970; NaN where it was not since the start",
            &one(last.map_or(f64::NAN, |at| at.as_us() as f64 / 1e6)),
        )?;
        to.gauge(
            "preclaim_capacities_over",
            "Capacities of which more is granted than they are by now, at some instant to come: nothing new fits there; NaN \
             where the slot loop does not answer",
            &one(self.now.capacities_over.map_or(f64::NAN, |count| float(count as u64))),
        )
    }

    fn journal(&self, to: &mut Sheet<'_>) -> fmt::Result {
        let Written { records, synced, bytes } = self.now.written;
        to.counter(
            "preclaim_audit_records",
            "Records that were written to the audit log since the start",
            records,
        )?;
        to.counter("preclaim_audit_bytes", "Bytes of these records", bytes)?;
        let unsynced = float(records.saturating_sub(synced));
        to.gauge(
            "preclaim_audit_unsynced_records",
            "Records that a crash of this machine could lose",
            &one(unsynced),
        )?;
        to.gauge(
            "preclaim_audit_lag_seconds",
            "How long the oldest of these has waited to be on disk",
            &one(seconds(self.now.audit_lag)),
        )
    }
}

/// One label and its value; `None` where a metric has none.
type OneLabel = Option<[(&'static str, &'static str); 1]>;

/// The value of a gauge without a label.
fn one(value: f64) -> [(OneLabel, f64); 1] {
    [(None, value)]
}

fn float(count: u64) -> f64 {
    count as f64
}

fn seconds(span: Micros) -> f64 {
    span.as_us() as f64 / 1e6
}

/// What is written, metric by metric. The encoder appends `_total` to counters.
struct Sheet<'a>(DescriptorEncoder<'a>);

impl Sheet<'_> {
    fn counter(&mut self, name: &str, help: &str, count: u64) -> fmt::Result {
        self.counts(name, help, [(None, count)])
    }

    fn counters<L: Label>(&mut self, name: &str, help: &str, counters: &Counters<L>) -> fmt::Result {
        self.counts(name, help, counters.iter().map(|(label, count)| (labelled(label), count.get())))
    }

    fn counts(
        &mut self,
        name: &str,
        help: &str,
        all: impl IntoIterator<Item = (OneLabel, u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (label, count) in all {
            series(&mut metric, label, |it| it.encode_counter::<NoLabelSet, _, u64>(&count, None))?;
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, all: &[(OneLabel, f64)]) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (label, value) in all {
            series(&mut metric, *label, |it| it.encode_gauge(value))?;
        }
        Ok(())
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        spread(&mut metric, None, &histogram.snapshot())
    }

    fn histograms<'h, L: Label>(
        &mut self,
        name: &str,
        help: &str,
        all: impl Iterator<Item = (L, &'h Histogram)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (label, histogram) in all {
            spread(&mut metric, labelled(label), &histogram.snapshot())?;
        }
        Ok(())
    }
}

fn labelled<L: Label>(label: L) -> OneLabel {
    Some([(L::NAME, label.as_str())])
}

fn spread(metric: &mut MetricEncoder<'_>, label: OneLabel, snapshot: &Snapshot) -> fmt::Result {
    let Snapshot { buckets, count, sum } = snapshot;
    series(metric, label, |it| it.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None))
}

/// Writes one series of a metric.
fn series(
    metric: &mut MetricEncoder<'_>,
    label: OneLabel,
    write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    match label {
        Some(label) => write(&mut metric.encode_family(&label)?),
        None => write(metric),
    }
}
