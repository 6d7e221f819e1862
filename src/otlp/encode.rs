//! A request of OTLP's, spelled out in protobuf by hand: the few messages of `opentelemetry/proto/trace/v1`, whose
//! fields never change their numbers. A library that generates them would bring a dozen crates.

use super::span::{Attribute, Event, Kind, Place, Span, Value};
use crate::types::Time;

/// How a field's value stands.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;
const FIXED_32: u64 = 5;

/// All these spans are recorded.
const SAMPLED: u32 = 1;
/// It is known whether the span above is another program's; and it is.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// What all spans of a program have in common.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) service: String,
}

/// A message, as bytes.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

/// An `ExportTraceServiceRequest` with these spans.
pub(super) fn request(resource: &Resource, spans: &[Span]) -> Vec<u8> {
    let mut scope = Message::default();
    scope.text(1, "preclaim");
    scope.text(2, env!("CARGO_PKG_VERSION"));
    let mut of_scope = Message::default();
    of_scope.message(1, &scope);
    spans.iter().for_each(|span| of_scope.message(2, &span_of(span)));
    let mut of_resource = Message::default();
    of_resource.message(1, &resource_of(resource));
    of_resource.message(2, &of_scope);
    let mut request = Message::default();
    request.message(1, &of_resource);
    request.0
}

/// How many spans the collector refused, as its `ExportTraceServiceResponse` says; 0 where it says nothing of it.
pub(super) fn refused(response: &[u8]) -> u64 {
    let partial = field(response, 1);
    match partial.and_then(|partial| match partial {
        Found::Bytes(inner) => field(inner, 1),
        Found::Number(_) => None,
    }) {
        Some(Found::Number(count)) => count,
        _ => 0,
    }
}

fn resource_of(resource: &Resource) -> Message {
    let mut message = Message::default();
    let attributes = [
        ("service.name", Value::Text(resource.service.clone())),
        ("service.version", Value::Word(env!("CARGO_PKG_VERSION"))),
        ("process.pid", Value::from(u64::from(std::process::id()))),
    ];
    attributes.iter().for_each(|attribute| message.attribute(1, attribute));
    message
}

fn span_of(span: &Span) -> Message {
    let mut message = Message::default();
    message.place((1, 2), span.place);
    message.text(3, &span.state);
    if let Some(parent) = span.parent {
        message.bytes(4, &parent.span.to_be_bytes());
    }
    message.text(5, span.name);
    message.number(
        6,
        match span.kind {
            Kind::Internal => 1,
            Kind::Server => 2,
            Kind::Client => 3,
        },
    );
    message.time(7, span.start);
    message.time(8, span.end);
    span.attributes.iter().for_each(|attribute| message.attribute(9, attribute));
    span.events.iter().for_each(|event| message.message(11, &event_of(event)));
    message.number(12, span.events_left_out.into());
    span.links.iter().for_each(|link| message.message(13, &link_of(*link)));
    message.number(14, span.links_left_out.into());
    if let Some(why) = &span.error {
        let mut status = Message::default();
        status.text(2, why);
        status.number(3, 2);
        message.message(15, &status);
    }
    let is_remote = span.parent.is_some_and(|parent| parent.is_remote);
    message.flags(16, SAMPLED | HAS_IS_REMOTE | if is_remote { IS_REMOTE } else { 0 });
    message
}

fn event_of(event: &Event) -> Message {
    let mut message = Message::default();
    message.time(1, event.at);
    message.text(2, event.name);
    event.attributes.iter().for_each(|attribute| message.attribute(3, attribute));
    message
}

fn link_of(place: Place) -> Message {
    let mut message = Message::default();
    message.place((1, 2), place);
    message.flags(6, SAMPLED | HAS_IS_REMOTE);
    message
}

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn key(&mut self, field: u64, form: u64) {
        self.varint(field << 3 | form);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.key(field, BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Left out where it is empty, as defaults are.
    fn text(&mut self, field: u64, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    /// Left out where it is 0.
    fn number(&mut self, field: u64, number: u64) {
        if number > 0 {
            self.key(field, VARINT);
            self.varint(number);
        }
    }

    fn flags(&mut self, field: u64, flags: u32) {
        self.key(field, FIXED_32);
        self.0.extend_from_slice(&flags.to_le_bytes());
    }

    /// In nanoseconds.
    fn time(&mut self, field: u64, at: Time) {
        self.key(field, FIXED_64);
        self.0.extend_from_slice(&at.as_us().saturating_mul(1_000).to_le_bytes());
    }

    fn place(&mut self, (trace, span): (u64, u64), place: Place) {
        self.bytes(trace, &place.trace.to_be_bytes());
        self.bytes(span, &place.span.to_be_bytes());
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn attribute(&mut self, field: u64, (key, value): &Attribute) {
        let mut any = Message::default();
        // One of several is written whatever it is, defaults too.
        match value {
            Value::Text(text) => any.bytes(1, text.as_bytes()),
            Value::Word(word) => any.bytes(1, word.as_bytes()),
            Value::Flag(flag) => {
                any.key(2, VARINT);
                any.varint((*flag).into());
            }
            Value::Number(number) => {
                any.key(3, VARINT);
                any.varint(number.cast_unsigned());
            }
            Value::Ratio(ratio) => {
                any.key(4, FIXED_64);
                any.0.extend_from_slice(&ratio.to_le_bytes());
            }
        }
        let mut attribute = Message::default();
        attribute.text(1, key);
        attribute.message(2, &any);
        self.message(field, &attribute);
    }
}

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The last value of `field` in a message, where it is a number or bytes; `None` where the message is malformed before
/// that, too.
fn field(message: &[u8], field: u64) -> Option<Found<'_>> {
    let (mut rest, mut found) = (message, None);
    while !rest.is_empty() {
        let key;
        (key, rest) = varint(rest)?;
        let value;
        (value, rest) = match key & 7 {
            VARINT => varint(rest).map(|(number, rest)| (Some(Found::Number(number)), rest))?,
            FIXED_64 => (None, rest.get(8..)?),
            FIXED_32 => (None, rest.get(4..)?),
            BYTES => {
                let (length, rest) = varint(rest)?;
                let (bytes, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Some(Found::Bytes(bytes)), rest)
            }
            _ => return None,
        };
        if key >> 3 == field {
            found = value;
        }
    }
    found
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::span::Parent;
    use super::*;

    /// The field of a message that must be there.
    fn inside(message: &[u8], number: u64) -> Vec<u8> {
        match field(message, number) {
            Some(Found::Bytes(bytes)) => bytes.to_vec(),
            other => panic!("{number}: {other:?}"),
        }
    }

    #[test]
    fn numbers_are_as_long_as_they_need_to_be() {
        for (number, bytes) in [(0, &[0][..]), (1, &[1]), (127, &[127]), (128, &[0x80, 1]), (300, &[0xac, 2])]
        {
            let mut message = Message::default();
            message.varint(number);
            assert_eq!(message.0, bytes);
            assert_eq!(varint(bytes), Some((number, &[][..])));
        }
        let mut longest = Message::default();
        longest.varint(u64::MAX);
        assert_eq!((longest.0.len(), varint(&longest.0)), (10, Some((u64::MAX, &[][..]))));
        assert_eq!(varint(&[0x80; 11]), None);
        assert_eq!(varint(&[]), None);
    }

    #[test]
    fn a_span_stands_where_the_protocol_has_it() {
        let place = Place { trace: 0x0102 << 112 | 3, span: 4 };
        let mut span =
            Span::new(place, Some(Parent { span: 5, is_remote: true }), "decide", Time::from_us(6));
        span.kind = Kind::Server;
        span.state = "a=b".into();
        span.set("text", "x".to_owned());
        span.set("score", 0.5);
        span.event(Time::from_us(7), "waiting", vec![("n", Value::Number(-1))]);
        span.link(Place { trace: 8, span: 9 });
        span.error = Some("why".into());
        let bytes = request(&Resource { service: "s".into() }, &[span.ended(Time::from_us(10))]);
        let of_resource = inside(&bytes, 1);
        let service = inside(&of_resource, 1);
        assert!(service.windows(12).any(|part| part == b"service.name"));
        let span = inside(&inside(&of_resource, 2), 2);
        assert_eq!(inside(&span, 1), place.trace.to_be_bytes());
        assert_eq!(inside(&span, 2), [0, 0, 0, 0, 0, 0, 0, 4]);
        assert_eq!((inside(&span, 3), inside(&span, 5)), (b"a=b".to_vec(), b"decide".to_vec()));
        assert_eq!(inside(&span, 4), [0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(field(&span, 6), Some(Found::Number(2)));
        let event = inside(&span, 11);
        let value = inside(&inside(&event, 3), 2);
        assert_eq!(field(&value, 3), Some(Found::Number(u64::MAX)), "-1 in two's complement");
        assert_eq!(inside(&inside(&span, 13), 2), [0, 0, 0, 0, 0, 0, 0, 9]);
        let status = inside(&span, 15);
        assert_eq!((inside(&status, 2), field(&status, 3)), (b"why".to_vec(), Some(Found::Number(2))));
    }

    #[test]
    fn each_kind_has_its_number() {
        for (kind, number) in [(Kind::Internal, 1), (Kind::Server, 2), (Kind::Client, 3)] {
            let mut span = Span::new(Place { trace: 1, span: 2 }, None, "x", Time::from_us(3));
            span.kind = kind;
            assert_eq!(field(&span_of(&span).0, 6), Some(Found::Number(number)));
        }
    }

    #[test]
    fn what_a_collector_refused_is_read_and_what_is_no_answer_says_nothing() {
        let mut partial = Message::default();
        partial.number(1, 300);
        partial.text(2, "too many");
        let mut response = Message::default();
        response.message(1, &partial);
        assert_eq!(refused(&response.0), 300);
        for other in [&[][..], &[0x0a], &[0x0a, 0xff], &[0x08, 1], &[0xff; 40], b"<html>"] {
            assert_eq!(refused(other), 0, "{other:?}");
        }
    }
}
