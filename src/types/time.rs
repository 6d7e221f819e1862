//! Coordinator time in whole microseconds, spans of it, half-open windows, and slot numbers.

use std::ops::Add;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant of coordinator time: microseconds since the Unix epoch, from a clock that never runs
/// backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(u64);

impl Time {
    /// The Unix epoch.
    pub const ZERO: Time = Time(0);
    /// The last instant that can be written.
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `us` microseconds after the Unix epoch.
    pub const fn from_us(us: u64) -> Self {
        Time(us)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_us(self) -> u64 {
        self.0
    }

    /// This instant and `span` later, or [`Time::MAX`] where that cannot be written.
    #[must_use]
    pub const fn after(self, span: Micros) -> Self {
        Time(self.0.saturating_add(span.0))
    }

    /// This instant less `span`, or the epoch where that lies before it.
    #[must_use]
    pub const fn before(self, span: Micros) -> Self {
        Time(self.0.saturating_sub(span.0))
    }

    /// The span from `earlier` to here; zero where `earlier` is later.
    pub const fn since(self, earlier: Time) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }
}

/// A span of time in whole microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(u64);

impl Micros {
    /// No time at all.
    pub const ZERO: Micros = Micros(0);
    /// The longest span that can be written.
    pub const MAX: Micros = Micros(u64::MAX);

    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Micros(us)
    }

    /// A span of `ms` milliseconds, saturating.
    pub const fn from_ms(ms: u64) -> Self {
        Micros(ms.saturating_mul(1_000))
    }

    /// A span of `secs` seconds, saturating.
    pub const fn from_secs(secs: u64) -> Self {
        Micros(secs.saturating_mul(1_000_000))
    }

    /// The span in microseconds.
    pub const fn as_us(self) -> u64 {
        self.0
    }

    /// Both spans together, saturating.
    #[must_use]
    pub const fn plus(self, other: Micros) -> Self {
        Micros(self.0.saturating_add(other.0))
    }

    /// This span less `other`, or zero.
    #[must_use]
    pub const fn less(self, other: Micros) -> Self {
        Micros(self.0.saturating_sub(other.0))
    }

    /// The span as the standard library's type.
    pub const fn to_std(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

/// A half-open window `[start, end)` with `end > start`. Windows that only touch do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(Time, Time)")]
pub struct Window {
    start: Time,
    end: Time,
}

impl Window {
    /// The window `[start, end)`, or `None` where it would be empty.
    pub const fn new(start: Time, end: Time) -> Option<Self> {
        if end.0 > start.0 { Some(Window { start, end }) } else { None }
    }

    /// Its first instant.
    pub const fn start(self) -> Time {
        self.start
    }

    /// The first instant after it.
    pub const fn end(self) -> Time {
        self.end
    }

    /// How long it lasts; at least 1 µs.
    pub const fn duration(self) -> Micros {
        Micros(self.end.0 - self.start.0)
    }

    /// What the two windows share.
    pub fn overlap(self, other: Window) -> Option<Window> {
        Window::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// Whether they share more than `tolerance`.
    pub fn overlaps_by_more_than(self, other: Window, tolerance: Micros) -> bool {
        self.overlap(other).is_some_and(|shared| shared.duration() > tolerance)
    }

    /// Whether `other` lies within this one.
    pub fn covers(self, other: Window) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

impl From<Duration> for Micros {
    /// Whole microseconds, rounded down; the longest that can be written where it is longer.
    fn from(span: Duration) -> Self {
        Micros(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// As [`Time::after`].
    fn add(self, span: Duration) -> Time {
        self.after(span.into())
    }
}

impl TryFrom<(Time, Time)> for Window {
    type Error = &'static str;

    fn try_from((start, end): (Time, Time)) -> Result<Self, Self::Error> {
        Window::new(start, end).ok_or("a window ends after its start")
    }
}

/// The number of a slot: slot `k` takes in what arrives in `[k·L, (k+1)·L)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(u64);

impl Slot {
    /// Slot number `number`.
    pub const fn new(number: u64) -> Self {
        Slot(number)
    }

    /// The slot that takes in what arrives at `at`, for slots of `length`. `length` is above zero.
    pub const fn of(at: Time, length: Micros) -> Self {
        Slot(at.0 / length.0)
    }

    /// The slot's number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The slot after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Slot(self.0.saturating_add(1))
    }

    /// The first instant of the slot, saturating.
    pub const fn opens(self, length: Micros) -> Time {
        Time(self.0.saturating_mul(length.0))
    }

    /// The slot's decision time: its end, `(k+1)·L`, saturating.
    pub const fn decided_at(self, length: Micros) -> Time {
        self.next().opens(length)
    }
}
