//! Times and spans as people write and read them.
//!
//! What is read is a span (`30s`) or a [`Moment`]; what is shown is a time of day in the reader's own
//! zone, or RFC 3339 where it is to be pasted. Coordinator time is taken for Unix time: it is, unless
//! the coordinator's clock was set back.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::config::{DURATION_RULE, parse_duration, show_duration};
use crate::types::{Micros, Time};

/// What a time may look like, for error messages.
const MOMENT_RULE: &str = "now, +2s (from now), an RFC 3339 time such as 2027-01-31T09:30:00Z, or whole \
     microseconds since 1970 as --output json prints them";

/// A time as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Now.
    Now,
    /// This long from now.
    In(Micros),
    /// At this time.
    At(Time),
}

impl Moment {
    /// The time that is meant where it is `now`.
    pub(super) fn time(self, now: Time) -> Time {
        match self {
            Moment::Now => now,
            Moment::In(span) => now.after(span),
            Moment::At(time) => time,
        }
    }
}

/// Reads a span such as `250us`, `10ms`, `30s`, `5m`, `24h`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    parse_duration(text).map(Micros::to_std).ok_or_else(|| format!("it is {DURATION_RULE}"))
}

/// Reads a span above zero.
pub(super) fn lasting(text: &str) -> Result<Duration, String> {
    span(text).and_then(|span| if span.is_zero() { Err("it is at least 1us".into()) } else { Ok(span) })
}

/// Reads a time: `now`, `+SPAN`, RFC 3339, or microseconds since 1970.
pub(super) fn moment(text: &str) -> Result<Moment, String> {
    if text == "now" {
        return Ok(Moment::Now);
    }
    if let Some(span) = text.strip_prefix('+') {
        return parse_duration(span).map(Moment::In).ok_or_else(|| format!("after + comes {DURATION_RULE}"));
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(|us| Moment::At(Time::from_us(us))).map_err(|_| rule());
    }
    let time: Timestamp = text.parse().map_err(|_| rule())?;
    u64::try_from(time.as_microsecond())
        .map(|us| Moment::At(Time::from_us(us)))
        .map_err(|_| "it lies before 1970".into())
}

fn rule() -> String {
    format!("it is {MOMENT_RULE}")
}

/// The reader's clock on the wall: what is shown is relative to it.
#[derive(Clone, Debug)]
pub(super) struct Wall {
    zone: TimeZone,
    /// Now, by the coordinator's clock.
    pub(super) now: Time,
}

impl Wall {
    /// The wall of this machine.
    pub(super) fn at(now: Time) -> Self {
        Wall { zone: TimeZone::system(), now }
    }

    #[cfg(test)]
    pub(super) fn utc(now: Time) -> Self {
        Wall { zone: TimeZone::UTC, now }
    }

    /// The time of day, with its date where that is not today.
    pub(super) fn clock(&self, time: Time) -> String {
        let (Some(at), Some(now)) = (timestamp(time), timestamp(self.now)) else { return micros(time) };
        let (at, now) = (at.to_zoned(self.zone.clone()), now.to_zoned(self.zone.clone()));
        let form = if at.date() == now.date() { "%H:%M:%S%.3f" } else { "%Y-%m-%d %H:%M:%S%.3f" };
        at.strftime(form).to_string()
    }

    /// `10:31:07.250, in 8.9 s`.
    pub(super) fn ahead(&self, time: Time) -> String {
        let clock = self.clock(time);
        if time > self.now {
            format!("{clock}, in {}", length(time.since(self.now)))
        } else {
            format!("{clock}, {} ago", length(self.now.since(time)))
        }
    }
}

/// Now, by this machine's clock.
pub(super) fn now() -> Time {
    Time::from_us(u64::try_from(Timestamp::now().as_microsecond()).unwrap_or_default())
}

/// The time as it can be pasted.
pub(super) fn rfc3339(time: Time) -> String {
    timestamp(time).map_or_else(|| time.as_us().to_string(), |at| at.to_string())
}

/// `None` past the year 9999.
fn timestamp(time: Time) -> Option<Timestamp> {
    i64::try_from(time.as_us()).ok().and_then(|us| Timestamp::from_microsecond(us).ok())
}

fn micros(time: Time) -> String {
    format!("{} µs", time.as_us())
}

/// A span for people, to two or three digits.
pub(super) fn length(span: Micros) -> String {
    let us = span.as_us();
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{} ms", us / 1_000),
        1_000_000..120_000_000 => format!("{}.{} s", us / 1_000_000, us / 100_000 % 10),
        120_000_000..7_200_000_000 => format!("{} min {} s", us / 60_000_000, us / 1_000_000 % 60),
        _ => format!("{} h {} min", us / 3_600_000_000, us / 60_000_000 % 60),
    }
}

/// A span that reaches at least as far, short to type: whole seconds, and minutes above ten of them.
pub(super) fn at_least(span: Micros) -> String {
    let unit_us = if span.as_us() > 600_000_000 { 60_000_000 } else { 1_000_000 };
    let rounded = span.as_us().div_ceil(unit_us).max(1).saturating_mul(unit_us);
    show_duration(Micros::from_us(rounded))
}

/// A span as [`span`] reads it.
pub(super) fn spelled(span: Duration) -> String {
    show_duration(Micros::from_us(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MORNING: Time = Time::from_us(1_795_948_258_350_000); // 2026-11-29T10:30:58.35Z

    #[test]
    fn each_way_to_write_a_time_is_read() {
        let two = Micros::from_secs(2);
        assert_eq!(moment("now"), Ok(Moment::Now));
        assert_eq!(moment("+2s"), Ok(Moment::In(two)));
        assert_eq!(moment("2026-11-29T10:30:58.350Z"), Ok(Moment::At(MORNING)));
        assert_eq!(moment("2026-11-29T11:30:58.35+01:00"), Ok(Moment::At(MORNING)));
        assert_eq!(moment("1795948258350000"), Ok(Moment::At(MORNING)));
        assert_eq!(moment(&rfc3339(MORNING)), Ok(Moment::At(MORNING)));
        assert_eq!(Moment::Now.time(MORNING), MORNING);
        assert_eq!(Moment::In(two).time(MORNING), MORNING.after(two));
    }

    #[test]
    fn what_is_no_time_is_refused_with_what_it_may_be() {
        for bad in [
            "",
            "soon",
            "+2",
            "+",
            "+-2s",
            "-2s",
            "10:30",
            "2026-11-29",
            "2026-11-29T10:30:58",
            "2026-13-29T10:30:58Z",
            "1969-12-31T23:59:59Z",
            "18446744073709551616",
        ] {
            assert!(moment(bad).is_err(), "{bad:?}");
        }
        assert!(moment("soon").is_err_and(|why| why.contains("RFC 3339")));
        assert!(moment("+2").is_err_and(|why| why.contains("10ms")));
    }

    #[test]
    fn spans_are_those_of_the_configuration_and_some_must_last() {
        assert_eq!(span("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(span("0s"), Ok(Duration::ZERO));
        assert!(span("5").is_err_and(|why| why.contains("10ms")));
        assert_eq!(lasting("5m"), Ok(Duration::from_secs(300)));
        assert!(lasting("0s").is_err());
        assert_eq!(spelled(Duration::from_millis(1_500)), "1500ms");
    }

    #[test]
    fn a_time_is_shown_by_the_clock_on_the_wall_and_how_far_it_is() {
        let wall = Wall::utc(MORNING);
        assert_eq!(wall.ahead(Time::from_us(1_795_948_267_250_900)), "10:31:07.250, in 8.9 s");
        assert_eq!(wall.ahead(MORNING.before(Micros::from_ms(20))), "10:30:58.330, 20 ms ago");
        assert_eq!(wall.clock(MORNING.after(Micros::from_secs(86_400))), "2026-11-30 10:30:58.350");
        assert_eq!(wall.clock(Time::MAX), "18446744073709551615 µs");
        assert_eq!(rfc3339(Time::from_us(1_795_948_267_250_900)), "2026-11-29T10:31:07.2509Z");
    }

    #[test]
    fn spans_are_shown_in_the_unit_that_people_think_in() {
        for (us, text) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_000, "1 ms"),
            (999_999, "999 ms"),
            (8_950_000, "8.9 s"),
            (119_999_999, "119.9 s"),
            (120_000_000, "2 min 0 s"),
            (7_260_000_000, "2 h 1 min"),
        ] {
            assert_eq!(length(Micros::from_us(us)), text);
        }
    }

    #[test]
    fn a_wait_that_is_proposed_is_never_too_short() {
        assert_eq!(at_least(Micros::from_ms(8_900)), "9s");
        assert_eq!(at_least(Micros::from_us(9_000_001)), "10s");
        assert_eq!(at_least(Micros::ZERO), "1s");
        assert_eq!(at_least(Micros::from_secs(600)), "10m");
        assert_eq!(at_least(Micros::from_secs(601)), "11m");
    }
}
