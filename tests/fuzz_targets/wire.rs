//! Frames, and the messages in them.

use preclaim::limits;
use preclaim::types::{RawIntent, TraceContext};
use preclaim::wire::{
    DecodeError, Frame, FrameError, FrameReader, Standing, ToAgent, ToCoordinator, raw_intent,
};

/// Bytes of a frame before its body.
const HEAD: usize = 6;

/// A lane, cut into pieces of the first byte's length: the frames that are found do not depend on how it
/// is cut, are all that was there, and no more is held than one frame and a piece.
pub(crate) fn frames(data: &[u8]) {
    let Some((cut, lane)) = data.split_first() else { return };
    let (found, end) = read_lane(lane, usize::from(*cut) + 1);
    let in_one_piece = read_lane(lane, lane.len().max(1));
    assert_eq!((&found, end), (&in_one_piece.0, in_one_piece.1));
    let mut again = Vec::new();
    for (kind, body) in &found {
        again.extend(u32::try_from(body.len() + 2).unwrap().to_le_bytes());
        again.extend(kind.to_le_bytes());
        again.extend(body);
        message(Frame { kind: *kind, body });
    }
    assert_eq!(lane.get(..again.len()), Some(&again[..]), "frames are what was there");
    if end == Ok(()) {
        assert_eq!(lane.len(), again.len(), "a lane that may end here has been read to its end");
    }
}

/// A frame's kind and body.
type Found = (u16, Vec<u8>);

/// The frames of a lane that comes in pieces of `size` bytes, and how it ends.
fn read_lane(lane: &[u8], size: usize) -> (Vec<Found>, Result<(), FrameError>) {
    let (mut reader, mut found) = (FrameReader::new(), Vec::new());
    for piece in lane.chunks(size) {
        reader.push(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(Frame { kind, body })) => found.push((kind, body.to_vec())),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.next_frame(), Err(error), "it says the same each time");
                    return (found, Err(error));
                }
            }
        }
        assert!(reader.held() < limits::FRAME_BYTES + 4);
    }
    let end = reader.finish();
    assert_eq!(end.is_ok(), reader.held() == 0);
    (found, end)
}

/// A message of any kind, which the first byte picks: what is read is written as it was.
pub(crate) fn messages(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    let kinds = [ToCoordinator::KINDS, ToAgent::KINDS].concat();
    message(Frame { kind: kinds[usize::from(*choice) % kinds.len()], body });
}

fn message(frame: Frame<'_>) {
    let (to_coordinator, to_agent) = (ToCoordinator::decode(frame), ToAgent::decode(frame));
    let mut bytes = Vec::new();
    match (to_coordinator, to_agent) {
        (Ok(message), Err(DecodeError::UnknownKind(_))) => {
            message.encode(&mut bytes).unwrap();
            look_at(&message);
        }
        (Err(DecodeError::UnknownKind(_)), Ok(message)) => {
            message.encode(&mut bytes).unwrap();
            if let ToAgent::ListReply(reply) = &message {
                let told = Standing::all_in(reply).map_or(0, |all| all.len());
                assert!(told <= limits::STANDINGS);
            }
        }
        (Err(_), Err(_)) => return,
        both => panic!("a kind goes in one direction: {both:?}"),
    }
    assert_eq!(&bytes[HEAD..], frame.body, "a message is written as it was read");
}

fn look_at(message: &ToCoordinator) {
    match message {
        ToCoordinator::Hello(hello) => {
            let _ = (hello.degradations(), hello.bearer());
        }
        ToCoordinator::Declare(declare) => {
            assert!(declare.batch.len() <= limits::BATCH);
            declare.batch.iter().for_each(|declaration| {
                intent(&declaration.intent);
                if let Some(context) = declaration.trace_context() {
                    assert!(context.state().len() <= limits::TRACESTATE_BYTES);
                    let again = TraceContext::parse(&context.to_string(), context.state());
                    assert_eq!(again, Some(context), "it is written as it was read");
                }
            });
        }
        ToCoordinator::List(list) => {
            let asked = list.standings().ok().flatten();
            assert!(asked.is_none_or(|ids| (1..=limits::STANDINGS).contains(&ids.len())));
        }
        _ => {}
    }
}

/// What is valid stays the same where it is spelled again.
pub(crate) fn intent(raw: &RawIntent) {
    match raw.parse() {
        Ok(intent) => {
            assert_eq!(intent.check(), Ok(()));
            assert_eq!(raw_intent(&intent).parse().as_ref(), Ok(&intent));
        }
        Err(invalid) => assert!(!invalid.field.is_empty() && !invalid.expected.is_empty()),
    }
}
