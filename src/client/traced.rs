//! The span of a declaration, from the call to its answer: what the agent's own tracing sees of it, and where it has
//! the coordinator go on.

#[cfg(feature = "otlp")]
mod otel;

use tracing::{Span, field};

use super::DeclareError;
use super::shared::Answered;
use crate::session::agent::Reply;
use crate::types::{IntentId, TraceContext};

/// See the module's documentation. Dropped before its end, the declaration was given up.
pub(super) struct DeclareSpan {
    /// For the log, at the level `debug`.
    log: Span,
    #[cfg(feature = "otlp")]
    otel: otel::ClientSpan,
    is_over: bool,
}

impl DeclareSpan {
    /// Begins. `trace` is where the agent says that it stands, and afterwards what is told to the coordinator.
    pub(super) fn begin(agent: &str, id: IntentId, trace: &mut Option<TraceContext>) -> Self {
        let log = tracing::debug_span!("declare", agent, intent = id.number(), outcome = field::Empty);
        #[cfg(feature = "otlp")]
        let otel = otel::ClientSpan::begin(agent, id, trace);
        #[cfg(not(feature = "otlp"))]
        let _ = trace; // as it was given
        DeclareSpan {
            log,
            #[cfg(feature = "otlp")]
            otel,
            is_over: false,
        }
    }

    /// It came to this.
    pub(super) fn end(&mut self, answered: &Result<(IntentId, Answered), DeclareError>) {
        let (outcome, error) = match answered {
            Ok((_, answered)) => (word(&answered.reply), None),
            Err(error) => ("unknown", Some(error)),
        };
        self.over(outcome, error);
    }

    fn over(&mut self, outcome: &'static str, error: Option<&DeclareError>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.log.record("outcome", outcome);
        tracing::debug!(parent: &self.log, "declared");
        #[cfg(feature = "otlp")]
        self.otel.end(outcome, error);
        #[cfg(not(feature = "otlp"))]
        let _ = error; // whoever declared is told it
    }
}

impl Drop for DeclareSpan {
    fn drop(&mut self) {
        self.over("given_up", None);
    }
}

fn word(reply: &Reply) -> &'static str {
    match reply {
        Reply::Granted { .. } => "granted",
        Reply::Conflict { .. } => "conflict",
        Reply::Stale { .. } => "stale",
        Reply::Rejected { .. } => "rejected",
        Reply::Ended => "ended",
        Reply::Withdrawn { .. } => "withdrawn",
        // The others answer no declaration.
        Reply::Released { .. }
        | Reply::Renewed { .. }
        | Reply::RenewDenied { .. }
        | Reply::CapacitySet(_)
        | Reply::Drains(_)
        | Reply::Unknown => "unknown",
    }
}
