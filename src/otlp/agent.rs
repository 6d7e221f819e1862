//! Spans of this program's own as an agent, for those that have nothing of OpenTelemetry set up beside it: the command
//! line. What is sampled goes by the span above; what has none is recorded.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{
    self, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
    TracerProvider,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue, Value as Given, global};
use tokio::sync::mpsc;

use super::exporter::wall;
use super::ids::Ids;
use super::span::{Kind, Parent, Place, Span, Value};
use super::{Exporter, Message};
use crate::telemetry::SpanCounts;
use crate::types::Time;

/// From here on, what this program does as an agent is traced by `exporter`.
pub(crate) fn trace_by(exporter: &Exporter) {
    global::set_tracer_provider(Provider(Outlet {
        to: exporter.sender(),
        counts: Arc::clone(exporter.counts()),
    }));
}

#[derive(Debug)]
struct Provider(Outlet);

/// Where spans go that have ended; what there is no room for is counted.
#[derive(Clone, Debug)]
struct Outlet {
    to: mpsc::Sender<Message>,
    counts: Arc<SpanCounts>,
}

impl Outlet {
    fn put(&self, span: Span) {
        if self.to.try_send(Message::Span(Box::new(span))).is_err() {
            self.counts.left_out(1);
        }
    }
}

#[derive(Debug)]
struct Tracer {
    ids: Mutex<Ids>,
    to: Outlet,
}

/// A span until its end.
#[derive(Debug)]
struct Recorded {
    context: SpanContext,
    /// `None` where nothing of it is recorded, and after its end.
    span: Option<Box<Span>>,
    to: Outlet,
}

impl TracerProvider for Provider {
    type Tracer = Tracer;

    fn tracer_with_scope(&self, _: InstrumentationScope) -> Tracer {
        Tracer { ids: Mutex::new(Ids::drawn()), to: self.0.clone() }
    }
}

impl trace::Tracer for Tracer {
    type Span = Recorded;

    fn build_with_context(&self, builder: SpanBuilder, parent: &Context) -> Recorded {
        let above = parent.span().span_context().clone();
        let (trace, span) = {
            // One number: whole at any instant.
            let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
            let trace =
                if above.is_valid() { u128::from_be_bytes(above.trace_id().to_bytes()) } else { ids.trace() };
            (trace, ids.span())
        };
        let is_sampled = !above.is_valid() || above.is_sampled();
        let flags = if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
        let (trace_id, span_id) =
            (TraceId::from_bytes(trace.to_be_bytes()), SpanId::from_bytes(span.to_be_bytes()));
        let context = SpanContext::new(trace_id, span_id, flags, false, above.trace_state().clone());
        let parent = above.is_valid().then(|| Parent {
            span: u64::from_be_bytes(above.span_id().to_bytes()),
            is_remote: above.is_remote(),
        });
        let begin = || begin(builder, Place { trace, span }, parent, above.trace_state().header());
        Recorded { context, span: is_sampled.then(|| Box::new(begin())), to: self.to.clone() }
    }
}

fn begin(builder: SpanBuilder, place: Place, parent: Option<Parent>, state: String) -> Span {
    // Names are those of the client's spans, of which there is one.
    let mut span = Span::new(place, parent, "declare", builder.start_time.map_or_else(wall, time));
    span.state = state.into();
    span.kind = match builder.span_kind {
        Some(SpanKind::Client) => Kind::Client,
        Some(SpanKind::Server) => Kind::Server,
        _ => Kind::Internal,
    };
    builder.attributes.into_iter().flatten().for_each(|attribute| set(&mut span, &attribute));
    span
}

fn set(span: &mut Span, KeyValue { key, value, .. }: &KeyValue) {
    const KNOWN: [&str; 3] = ["preclaim.agent", "preclaim.intent", "preclaim.outcome"];
    let Some(key) = KNOWN.into_iter().find(|known| *known == key.as_str()) else { return };
    let value = match value {
        Given::Bool(flag) => Value::Flag(*flag),
        Given::I64(number) => Value::Number(*number),
        Given::F64(ratio) => Value::Ratio(*ratio),
        other => Value::Text(other.to_string()),
    };
    span.set(key, value);
}

fn time(at: SystemTime) -> Time {
    let since_epoch = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_us(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
}

impl trace::Span for Recorded {
    fn add_event_with_timestamp<T: Into<Cow<'static, str>>>(
        &mut self,
        _: T,
        _: SystemTime,
        _: Vec<KeyValue>,
    ) {
        // The client's spans have none.
    }

    fn span_context(&self) -> &SpanContext {
        &self.context
    }

    fn is_recording(&self) -> bool {
        self.span.is_some()
    }

    fn set_attribute(&mut self, attribute: KeyValue) {
        if let Some(span) = &mut self.span {
            set(span, &attribute);
        }
    }

    fn set_status(&mut self, status: Status) {
        if let (Some(span), Status::Error { description }) = (&mut self.span, status) {
            span.error = Some(description.into_owned());
        }
    }

    fn update_name<T: Into<Cow<'static, str>>>(&mut self, _: T) {}

    fn add_link(&mut self, _: SpanContext, _: Vec<KeyValue>) {}

    fn end_with_timestamp(&mut self, at: SystemTime) {
        if let Some(span) = self.span.take() {
            self.to.put(span.ended(time(at)));
        }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        trace::Span::end(self);
    }
}
