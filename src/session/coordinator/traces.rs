//! Which intents are followed for traces: those that were declared with a trace context that is recorded, as far as
//! there is room. They are decided as all others are.

use std::sync::Arc;

use crate::limits;
use crate::types::TraceContext;

/// Where an intent stands in a trace, for as long as somebody follows it.
#[derive(Debug)]
pub struct Trace {
    context: TraceContext,
    /// Held by each of those that are followed: so they are counted.
    _place: Arc<()>,
}

impl Trace {
    /// As its agent declared it.
    pub fn context(&self) -> &TraceContext {
        &self.context
    }

    /// One that is not counted.
    #[cfg(test)]
    pub(crate) fn of(context: TraceContext) -> Arc<Self> {
        Arc::new(Trace { context, _place: Arc::default() })
    }
}

/// A decision about an intent that is followed.
#[derive(Clone, Debug)]
pub struct TracedDecision {
    /// Which of the slot's decisions, by index.
    pub decision: usize,
    /// Where its intent stands in a trace.
    pub trace: Arc<Trace>,
}

/// There is no room for another one.
#[derive(Debug)]
pub(super) struct NoRoom;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Traces {
    is_followed: bool,
    places: Arc<()>,
    decisions: Vec<TracedDecision>,
}

impl Traces {
    /// From here on somebody follows them.
    pub(super) fn follow(&mut self) {
        self.is_followed = true;
    }

    pub(super) fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// How many are followed: by their routes, and by whoever was told of them and is not done.
    pub(super) fn followed(&self) -> usize {
        Arc::strong_count(&self.places) - 1
    }

    /// Follows one that is about to be taken in; `None` where nobody does.
    pub(super) fn take_in(&self, context: TraceContext) -> Result<Option<Arc<Trace>>, NoRoom> {
        if !self.is_followed {
            return Ok(None);
        }
        if self.followed() >= limits::TRACES {
            return Err(NoRoom);
        }
        Ok(Some(Arc::new(Trace { context, _place: Arc::clone(&self.places) })))
    }

    /// The decision at this index is about it.
    pub(super) fn decided(&mut self, decision: usize, trace: Arc<Trace>) {
        self.decisions.push(TracedDecision { decision, trace });
    }

    /// The decisions about those that are followed, since this was asked last.
    pub(super) fn take_decisions(&mut self) -> Vec<TracedDecision> {
        std::mem::take(&mut self.decisions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> TraceContext {
        TraceContext::new(1, 2, true).unwrap()
    }

    #[test]
    fn as_many_are_followed_at_a_time_as_there_is_room_for() {
        let mut traces = Traces::default();
        assert!(matches!(traces.take_in(context()), Ok(None)), "nobody follows");
        traces.follow();
        let mut all: Vec<_> =
            (0..limits::TRACES).map(|_| traces.take_in(context()).unwrap().unwrap()).collect();
        assert!(traces.take_in(context()).is_err());
        all.pop();
        assert!(traces.take_in(context()).is_ok());
    }
}
