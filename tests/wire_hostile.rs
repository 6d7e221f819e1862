//! Whatever bytes a peer sends, the wire answers with a message or an error.
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

use preclaim::limits;
use preclaim::types::{IntentId, RawClaim, RawExpect, RawIntent, RawMode, RawTarget, Time};
use preclaim::wire::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn frame(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(body.len() + 2).unwrap().to_le_bytes().to_vec();
    bytes.extend(kind.to_le_bytes());
    bytes.extend(body);
    bytes
}

fn encoded(message: &ToCoordinator) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes).unwrap();
    bytes
}

fn decoded(bytes: &[u8]) -> Result<ToCoordinator, DecodeError> {
    let mut reader = FrameReader::new();
    reader.push(bytes);
    ToCoordinator::decode(reader.next_frame().unwrap().unwrap())
}

fn target() -> impl Strategy<Value = RawTarget> {
    let path = "[a-z/.*]{0,12}".prop_map(RawTarget::Path);
    let numbers = || vec(any::<f64>(), 0..4);
    let square = ("[a-z/]{0,8}", numbers(), numbers());
    let square = square.prop_map(|(frame, min, max)| RawTarget::Box { frame, min, max });
    let polygon = ("[a-z/]{0,8}", vec(numbers(), 0..6), option::of(numbers()));
    let polygon = polygon.prop_map(|(frame, corners, height)| RawTarget::Polygon { frame, corners, height });
    prop_oneof![path, square, polygon]
}

fn claim() -> impl Strategy<Value = RawClaim> {
    let mode =
        prop_oneof![Just(RawMode::Shared), Just(RawMode::Exclusive), any::<u64>().prop_map(RawMode::Units)];
    (target(), mode, any::<u64>(), any::<u64>()).prop_map(|(target, mode, offset, duration)| RawClaim {
        target,
        mode,
        offset,
        duration,
    })
}

prop_compose! {
    fn intent()(
        (id, start, slack, wait, hold) in any::<(u64, Option<u64>, u64, u64, bool)>(),
        (task, class, urgency, safety_margin, social_value) in any::<(u64, u64, f64, f64, f64)>(),
        claims in vec(claim(), 0..5),
        expects in vec(("[a-z/]{0,8}", any::<u64>()), 0..3),
    ) -> RawIntent {
        let expects = expects.into_iter().map(|(path, as_of)| RawExpect { path, as_of }).collect();
        RawIntent {
            id, start, slack, wait, hold, task, class, urgency, safety_margin, social_value, claims, expects,
        }
    }
}

fn extensions() -> impl Strategy<Value = Extensions> {
    let one = (any::<u16>(), vec(any::<u8>(), 0..20)).prop_map(|(number, value)| Extension { number, value });
    vec(one, 0..4).prop_map(|list| Extensions::new(list).unwrap())
}

fn message() -> impl Strategy<Value = ToCoordinator> {
    let declaration = (any::<(u64, bool)>(), intent(), ".{0,20}", extensions()).prop_map(
        |((request, revision), intent, note, extensions)| Declaration {
            request,
            revision,
            intent,
            note,
            extensions,
        },
    );
    let declare = vec(declaration, 0..4).prop_map(|batch| Declare { batch }.into());
    let release = (any::<(u64, u64)>(), extensions()).prop_map(|((request, id), extensions)| {
        Release { request, id: IntentId::new(id), extensions }.into()
    });
    let renew = (any::<(u64, u64, u64)>(), extensions()).prop_map(|((request, id, until), extensions)| {
        Renew { request, id: IntentId::new(id), until: Time::from_us(until), extensions }.into()
    });
    let ping = any::<(u64, u64)>().prop_map(|(seq, client_us)| ClockPing { seq, client_us }.into());
    prop_oneof![declare, release, renew, ping]
}

proptest! {
    #[test]
    fn random_bytes_never_panic_and_never_hold_more_than_a_frame(
        chunks in vec(vec(any::<u8>(), 0..200), 0..20),
    ) {
        let mut reader = FrameReader::new();
        for chunk in &chunks {
            reader.push(chunk);
            while let Ok(Some(frame)) = reader.next_frame() {
                let _ = ToCoordinator::decode(frame);
                let _ = ToAgent::decode(frame);
            }
            if reader.next_frame().is_err() {
                break;
            }
            prop_assert!(reader.held() < limits::FRAME_BYTES + 4);
        }
    }

    #[test]
    fn random_bodies_of_every_kind_never_panic(body in vec(any::<u8>(), 0..400)) {
        for kind in ToCoordinator::KINDS {
            let _ = ToCoordinator::decode(Frame { kind: *kind, body: &body });
        }
        for kind in ToAgent::KINDS {
            let _ = ToAgent::decode(Frame { kind: *kind, body: &body });
        }
    }

    #[test]
    fn a_message_reads_back_as_it_was_written(message in message()) {
        let bytes = encoded(&message);
        let read = decoded(&bytes).unwrap();
        // By bytes, since a NaN is not equal to itself.
        prop_assert_eq!(encoded(&read), bytes);
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut(
        messages in vec(message(), 1..5), cuts in vec(1_usize..50, 1..20),
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(encoded).collect();
        let (mut reader, mut rest, mut read) = (FrameReader::new(), bytes.as_slice(), Vec::new());
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            reader.push(now);
            while let Some(frame) = reader.next_frame().unwrap() {
                read.extend(encoded(&ToCoordinator::decode(frame).unwrap()));
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(read, bytes);
        prop_assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn a_message_that_is_cut_short_or_goes_on_is_malformed(message in message(), cut in any::<usize>()) {
        let bytes = encoded(&message);
        let body = &bytes[6..];
        let short = Frame { kind: message.kind(), body: &body[..cut % body.len()] };
        let is_malformed = |read| matches!(read, Err(DecodeError::Malformed { .. }));
        prop_assert!(is_malformed(ToCoordinator::decode(short)));
        let long = [body, &[0]].concat();
        let long = Frame { kind: message.kind(), body: &long };
        prop_assert!(is_malformed(ToCoordinator::decode(long)));
    }

    #[test]
    fn one_flipped_bit_never_panics(message in message(), at in any::<usize>(), bit in 0_u8..8) {
        let mut bytes = encoded(&message);
        let at = 6 + at % (bytes.len() - 6);
        bytes[at] ^= 1 << bit;
        let _ = decoded(&bytes);
    }
}

#[test]
fn a_frame_past_the_limit_is_refused_by_its_prefix_alone() {
    let mut reader = FrameReader::new();
    let length = limits::FRAME_BYTES + 1;
    reader.push(&u32::try_from(length).unwrap().to_le_bytes());
    assert_eq!(reader.next_frame(), Err(FrameError::TooLong { length }));
    assert_eq!(reader.next_frame(), Err(FrameError::TooLong { length }), "and each time that it is asked");
}

#[test]
fn a_frame_of_just_the_limit_is_taken() {
    let mut reader = FrameReader::new();
    reader.push(&frame(0x7fff, &vec![0; limits::FRAME_BYTES - 2]));
    assert_eq!(reader.next_frame().unwrap().unwrap().kind, 0x7fff);
}

#[test]
fn a_frame_without_room_for_its_kind_is_refused() {
    let mut reader = FrameReader::new();
    reader.push(&[1, 0, 0, 0, 9]);
    assert_eq!(reader.next_frame(), Err(FrameError::TooShort { length: 1 }));
}

#[test]
fn a_lane_that_ends_inside_a_frame_is_cut_off() {
    let mut reader = FrameReader::new();
    let bytes = frame(2, &[0; 16]);
    reader.push(&bytes[..bytes.len() - 1]);
    assert_eq!(reader.next_frame(), Ok(None));
    assert_eq!(reader.finish(), Err(FrameError::CutOff));
}

#[test]
fn an_unknown_kind_is_told_apart_from_a_malformed_message() {
    assert_eq!(decoded(&frame(0x7777, &[1, 2, 3])), Err(DecodeError::UnknownKind(0x7777)));
    let of_the_other_direction = frame(0x0101, &[]);
    assert_eq!(decoded(&of_the_other_direction), Err(DecodeError::UnknownKind(0x0101)));
    assert!(matches!(decoded(&frame(2, &[0; 15])), Err(DecodeError::Malformed { kind: 2, .. })));
}

#[test]
fn a_length_that_lies_is_malformed_and_reserves_nothing() {
    for lie in [u64::MAX, 1 << 62, 1 << 40, 1 << 20] {
        // Declare { batch: a list of `lie` declarations }, and nothing after it.
        assert!(matches!(decoded(&frame(3, &lie.to_le_bytes())), Err(DecodeError::Malformed { .. })));
        // Watch { request, under: a text of `lie` bytes }.
        let mut watch = vec![0; 8];
        watch.push(1);
        watch.extend(lie.to_le_bytes());
        assert!(matches!(decoded(&frame(7, &watch)), Err(DecodeError::Malformed { .. })));
    }
}

#[test]
fn a_batch_of_more_than_the_limit_is_malformed() {
    let batch = |count| ToCoordinator::from(Declare { batch: vec![Declaration::default(); count] });
    let mut bytes = Vec::new();
    batch(limits::BATCH).encode(&mut bytes).unwrap();
    assert!(decoded(&bytes).is_ok());
    bytes.clear();
    batch(limits::BATCH + 1).encode(&mut bytes).unwrap();
    assert!(matches!(decoded(&bytes), Err(DecodeError::Malformed { .. })));
}

#[test]
fn what_does_not_fit_in_a_frame_is_not_written_at_all() {
    let note = "n".repeat(limits::FRAME_BYTES);
    let message =
        ToCoordinator::from(Declare { batch: vec![Declaration { note, ..Declaration::default() }] });
    let mut bytes = b"before".to_vec();
    assert!(message.encode(&mut bytes).is_err());
    assert_eq!(bytes, b"before");
}

#[test]
fn the_largest_legal_declaration_fits_in_a_frame() {
    let name = |fill: &str| [fill.repeat(64), fill.repeat(64), fill.repeat(64), fill.repeat(61)].join("/");
    let polygon = RawTarget::Polygon {
        frame: name("f"),
        corners: vec![vec![0.5, 0.5]; limits::CORNERS_MAX],
        height: Some(vec![0.0, 1.0]),
    };
    let claim = RawClaim { target: polygon, mode: RawMode::Units(1), offset: 0, duration: 1 };
    let expect = RawExpect { path: name("e"), as_of: 1 };
    let intent = RawIntent {
        claims: vec![claim; limits::CLAIMS],
        expects: vec![expect; limits::EXPECTS],
        ..RawIntent::default()
    };
    let half = Extension { number: 2, value: vec![0; limits::EXTENSION_BYTES] };
    let extensions = Extensions::new(vec![half.clone(), half]).unwrap();
    let note = "n".repeat(limits::NOTE_BYTES);
    let declaration = Declaration { request: 1, revision: false, intent, note, extensions };
    let message = ToCoordinator::from(Declare { batch: vec![declaration] });
    let mut bytes = Vec::new();
    message.encode(&mut bytes).unwrap();
    assert_eq!(decoded(&bytes).unwrap(), message);
}

#[test]
fn unknown_optional_extensions_are_skipped_and_required_ones_are_named() {
    let optional = Extension { number: 40, value: b"anything".to_vec() };
    let required = Extension { number: Extension::REQUIRED | 41, value: Vec::new() };
    let skipped = Extensions::new(vec![optional.clone()]).unwrap();
    assert_eq!(skipped.first_not_understood(&[]), None);
    let both = Extensions::new(vec![optional, required.clone()]).unwrap();
    assert_eq!(both.first_not_understood(&[]), Some(required.number));
    assert_eq!(both.first_not_understood(&[required.number]), None);
    assert_eq!(both.value(40), Some(&b"anything"[..]));
    let release = ToCoordinator::from(Release { request: 1, id: IntentId::new(2), extensions: both });
    assert_eq!(decoded(&encoded(&release)).unwrap(), release);
}

#[test]
fn extensions_past_their_bounds_are_malformed() {
    let list = |count: usize, bytes: usize| {
        let mut body = [0; 16].to_vec(); // request and id of a release
        body.extend((count as u64).to_le_bytes());
        for _ in 0..count {
            body.extend(2_u16.to_le_bytes());
            body.extend((bytes as u64).to_le_bytes());
            body.extend(vec![0; bytes]);
        }
        decoded(&frame(4, &body))
    };
    assert!(list(limits::EXTENSIONS, 1).is_ok());
    assert!(list(limits::EXTENSIONS + 1, 1).is_err());
    assert!(list(2, limits::EXTENSION_BYTES).is_ok());
    assert!(list(1, limits::EXTENSION_BYTES + 1).is_err());
    assert!(list(3, limits::EXTENSION_BYTES).is_err());
}
