//! Traces by OpenTelemetry's protocol, OTLP: spans of what is decided about intents that were declared in a trace, sent
//! to a collector by HTTP, in protobuf, without TLS.
//!
//! The slot loop copies what it decided about such intents and hands it on, without waiting. A thread of its own makes
//! spans of that and sends them. Each queue on the way is bounded, and what has no room is left out and counted: a
//! collector that does not answer costs that, and a line in the log.

#[cfg(feature = "otlp")]
mod agent;
mod encode;
mod exporter;
mod ids;
mod queue;
mod send;
mod settings;
mod shape;
mod span;
mod tracer;

#[cfg(feature = "otlp")]
pub(crate) use agent::trace_by;
pub use exporter::Exporter;
pub use settings::Settings;
pub use tracer::Tracer;

/// What comes to the thread that makes and sends spans.
#[derive(Debug)]
enum Message {
    /// What was decided in a slot.
    Slot(Box<shape::Slot>),
    /// A span that is whole, on the wall clock.
    Span(Box<span::Span>),
}
