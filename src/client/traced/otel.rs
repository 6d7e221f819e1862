//! The same span in OpenTelemetry, by whatever the program has set up to record and export spans; without that it
//! costs next to nothing, and the current span is passed on as it is.

use opentelemetry::global::{self, BoxedSpan};
use opentelemetry::trace::{
    Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue};

use crate::client::DeclareError;
use crate::types::{IntentId, TraceContext};

/// See the module's documentation.
pub(super) struct ClientSpan(BoxedSpan);

impl ClientSpan {
    /// Begins below `trace`, or else below the current span; afterwards `trace` is the span itself.
    pub(super) fn begin(agent: &str, id: IntentId, trace: &mut Option<TraceContext>) -> Self {
        let parent = match trace {
            Some(given) => Context::current().with_remote_span_context(to_otel(given)),
            None => Context::current(),
        };
        let tracer = global::tracer("preclaim");
        let builder = tracer.span_builder("declare").with_kind(SpanKind::Client).with_attributes([
            KeyValue::new("preclaim.agent", agent.to_owned()),
            // As text: it may be greater than OpenTelemetry's numbers.
            KeyValue::new("preclaim.intent", id.number().to_string()),
        ]);
        let span = tracer.build_with_context(builder, &parent);
        if let Some(own) = from_otel(span.span_context()) {
            *trace = Some(own);
        }
        ClientSpan(span)
    }

    pub(super) fn end(&mut self, outcome: &'static str, error: Option<&DeclareError>) {
        self.0.set_attribute(KeyValue::new("preclaim.outcome", outcome));
        if let Some(error) = error {
            self.0.set_status(Status::error(error.to_string()));
        }
        self.0.end();
    }
}

/// `None` for that of no span.
fn from_otel(context: &SpanContext) -> Option<TraceContext> {
    let trace = u128::from_be_bytes(context.trace_id().to_bytes());
    let span = u64::from_be_bytes(context.span_id().to_bytes());
    let own = TraceContext::new(trace, span, context.is_sampled())?;
    Some(own.with_state(&context.trace_state().header()))
}

fn to_otel(context: &TraceContext) -> SpanContext {
    let members = context.state().split(',').filter_map(|member| member.trim().split_once('='));
    SpanContext::new(
        TraceId::from_bytes(context.trace().to_be_bytes()),
        SpanId::from_bytes(context.span().to_be_bytes()),
        TraceFlags::new(context.flags()),
        true,
        TraceState::from_key_value(members).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_goes_there_and_back() {
        let context = TraceContext::new(7, 9, true).unwrap().with_state("a=b,c=d");
        assert_eq!(from_otel(&to_otel(&context)), Some(context));
        assert_eq!(from_otel(&SpanContext::NONE), None);
    }
}
