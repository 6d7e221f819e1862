//! Where a declaration stands in a trace, as it travels beside it. It decides nothing.

use super::extension::Extension;
use super::message::Declaration;
use crate::types::TraceContext;

/// The extension that tells it: a `traceparent`, and a `tracestate` right after it.
const TRACE_CONTEXT: u16 = 9;

impl Declaration {
    /// Adds where it stands in a trace, as the last extension.
    #[must_use]
    pub fn in_trace(mut self, context: &TraceContext) -> Self {
        let value = format!("{context}{}", context.state()).into_bytes();
        self.extensions = self.extensions.with(Extension { number: TRACE_CONTEXT, value });
        self
    }

    /// Where it stands in a trace; `None` where it says nothing of it, or nothing that can be read: a wrong one is
    /// skipped, as an unknown extension would be.
    pub fn trace_context(&self) -> Option<TraceContext> {
        let value = self.extensions.value(TRACE_CONTEXT)?;
        let (parent, state) = value.split_at_checked(TraceContext::PARENT_BYTES)?;
        // A state that is no text is none.
        TraceContext::parse(std::str::from_utf8(parent).ok()?, std::str::from_utf8(state).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Declare, Extensions, FrameReader, ToCoordinator};

    fn arrived(declaration: Declaration) -> Declaration {
        let mut bytes = Vec::new();
        ToCoordinator::from(Declare { batch: vec![declaration] }).encode(&mut bytes).unwrap();
        let mut frames = FrameReader::new();
        frames.push(&bytes);
        match ToCoordinator::decode(frames.next_frame().unwrap().unwrap()).unwrap() {
            ToCoordinator::Declare(mut declare) => declare.batch.remove(0),
            other => panic!("{other:?}"),
        }
    }

    fn with_value(value: &[u8]) -> Option<TraceContext> {
        let extension = Extension { number: TRACE_CONTEXT, value: value.to_vec() };
        assert!(!extension.is_required());
        let extensions = Extensions::new(vec![extension]).unwrap();
        arrived(Declaration { extensions, ..Declaration::default() }).trace_context()
    }

    #[test]
    fn a_context_arrives_with_its_state_and_without() {
        for state in ["", "a=b,c=d"] {
            let context = TraceContext::new(7, 9, true).unwrap().with_state(state);
            let declaration = Declaration::default().in_trace(&context);
            assert_eq!(arrived(declaration).trace_context(), Some(context));
        }
        assert_eq!(arrived(Declaration::default()).trace_context(), None);
    }

    #[test]
    fn what_is_malformed_is_skipped_and_a_wrong_state_alone_is_left_out() {
        let parent = TraceContext::new(7, 9, true).unwrap().to_string();
        let bytes = parent.as_bytes();
        for wrong in [&[][..], &bytes[..54], &[0xff; 55], "0".repeat(55).as_bytes()] {
            assert_eq!(with_value(wrong), None, "{wrong:?}");
        }
        for state in [&b"no state"[..], &[0xff], "é".as_bytes()] {
            let context = with_value(&[bytes, state].concat()).unwrap();
            assert_eq!((context.to_string(), context.state()), (parent.clone(), ""));
        }
    }
}
