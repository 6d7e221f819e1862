//! Spans as data.

use crate::limits;
use crate::types::{Micros, Time};

/// A span in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) trace: u128,
    pub(super) span: u64,
}

/// Which end of what is done a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Internal,
    /// Does something for another.
    Server,
    /// Has another do something.
    Client,
}

/// The span above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) span: u64,
    /// Whether it is another program's.
    pub(super) is_remote: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Word(&'static str),
    Number(i64),
    Ratio(f64),
    Flag(bool),
}

pub(super) type Attribute = (&'static str, Value);

/// Something within a span.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub(super) at: Time,
    pub(super) name: &'static str,
    pub(super) attributes: Vec<Attribute>,
}

/// A span that has ended, or is to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) place: Place,
    pub(super) parent: Option<Parent>,
    /// What tracing systems say of its trace.
    pub(super) state: Box<str>,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) attributes: Vec<Attribute>,
    pub(super) events: Vec<Event>,
    /// Those past [`limits::SPAN_EVENTS`].
    pub(super) events_left_out: u32,
    pub(super) links: Vec<Place>,
    /// Those past [`limits::SPAN_EVENTS`].
    pub(super) links_left_out: u32,
    /// Why it went wrong, where it did.
    pub(super) error: Option<String>,
}

impl Span {
    /// One of no length at `start`.
    pub(super) fn new(place: Place, parent: Option<Parent>, name: &'static str, start: Time) -> Self {
        Span {
            place,
            parent,
            state: "".into(),
            name,
            kind: Kind::Internal,
            start,
            end: start,
            attributes: Vec::new(),
            events: Vec::new(),
            events_left_out: 0,
            links: Vec::new(),
            links_left_out: 0,
            error: None,
        }
    }

    pub(super) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.attributes.push((key, value.into()));
    }

    pub(super) fn event(&mut self, at: Time, name: &'static str, attributes: Vec<Attribute>) {
        if self.events.len() < limits::SPAN_EVENTS {
            self.events.push(Event { at, name, attributes });
        } else {
            self.events_left_out += 1;
        }
    }

    /// It has to do with that span of another trace.
    pub(super) fn link(&mut self, place: Place) {
        if self.links.len() < limits::SPAN_EVENTS {
            self.links.push(place);
        } else {
            self.links_left_out += 1;
        }
    }

    /// Ends it, not before its start.
    pub(super) fn ended(mut self, end: Time) -> Self {
        self.end = end.max(self.start);
        self
    }

    /// Moves it to another clock.
    pub(super) fn shift(&mut self, by: Shift) {
        self.start = by.of(self.start);
        self.end = by.of(self.end);
        self.events.iter_mut().for_each(|event| event.at = by.of(event.at));
    }
}

/// By how much the wall clock is ahead of the coordinator's, or behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    Ahead(Micros),
    Behind(Micros),
}

impl Shift {
    pub(super) const NONE: Shift = Shift::Ahead(Micros::ZERO);

    /// That of a wall clock that shows `wall` when the coordinator's time is `own`.
    pub(super) fn between(own: Time, wall: Time) -> Self {
        if wall >= own { Shift::Ahead(wall.since(own)) } else { Shift::Behind(own.since(wall)) }
    }

    fn of(self, at: Time) -> Time {
        match self {
            Shift::Ahead(by) => at.after(by),
            Shift::Behind(by) => at.before(by),
        }
    }
}

impl From<&'static str> for Value {
    fn from(word: &'static str) -> Self {
        Value::Word(word)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Flag(flag)
    }
}

impl From<f64> for Value {
    fn from(ratio: f64) -> Self {
        Value::Ratio(ratio)
    }
}

impl From<u64> for Value {
    /// The greatest number of OpenTelemetry's stands for all above it.
    fn from(number: u64) -> Self {
        Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Value::from(number as u64)
    }
}

impl From<Micros> for Value {
    fn from(span: Micros) -> Self {
        Value::from(span.as_us())
    }
}

impl From<Time> for Value {
    fn from(at: Time) -> Self {
        Value::from(at.as_us())
    }
}
