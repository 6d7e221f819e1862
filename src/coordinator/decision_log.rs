//! What the log says of decisions: nothing, unless its level is `debug`.

use tracing::Level;

use crate::resolver::SlotOutcome;
use crate::types::{Decision, Verdict};

/// Writes a slot's decisions to the log, inside a span with the slot's number. Where nobody reads at that level it
/// looks whether that is so, and no more.
pub(super) fn tell(outcome: &SlotOutcome) {
    if outcome.decisions.is_empty() || !tracing::enabled!(Level::DEBUG) {
        return;
    }
    let slot = tracing::debug_span!("slot", slot = outcome.slot.number());
    slot.in_scope(|| outcome.decisions.iter().for_each(tell_of));
}

fn tell_of(Decision { key, verdict, .. }: &Decision) {
    let token = match verdict {
        Verdict::Granted { token, .. } | Verdict::Moved { token, .. } | Verdict::Expired { token } => {
            Some(token.number())
        }
        _ => None,
    };
    let (agent, intent) = (key.agent.as_str(), key.id.number());
    tracing::debug!(agent, intent, outcome = verdict.word(), token, "decided");
}
