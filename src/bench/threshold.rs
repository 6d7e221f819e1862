//! Thresholds: `p99>12ms` and the like, looked up in a report.

use std::fmt;
use std::str::FromStr;

use super::Report;
use super::stats::Quantiles;
use crate::config::parse_duration;

/// What may be written, for people.
pub(super) const THRESHOLD_RULE: &str = "FIGURE OP VALUE. A figure is p50, p90, p99, p999 or max of the whole, or of \
     another span with its name in front (wait_, work_, network_, to_coordinator_, to_agent_, load_delay_, first_sent_, \
     last_sent_, bare_, wake_, collect_, resolve_, publish_, send_, persist_, fdatasync_, bare_sync_), as in work_p99; or first_over_bare, last_over_bare, \
     persist_over_fdatasync, last_over_fdatasync, last_over_bare_sync, late, lost, errors, decisions_per_second. OP is >, >=, < or <=. \
     A span's value has a unit (12ms, 500us), the others are plain numbers";

/// A condition under which a report fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    figure: Figure,
    compare: Compare,
    /// In µs, or a plain number.
    value: f64,
}

/// What is no threshold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}; it must be {THRESHOLD_RULE}")]
pub struct ThresholdError {
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Of(Span, Quantile),
    FirstOverBare,
    LastOverBare,
    PersistOverFdatasync,
    LastOverFdatasync,
    LastOverBareSync,
    Late,
    Lost,
    Errors,
    DecisionsPerSecond,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    Whole,
    Wait,
    Work,
    Network,
    FirstSent,
    LastSent,
    Bare,
    LoadDelay,
    ToCoordinator,
    ToAgent,
    Wake,
    Collect,
    Resolve,
    Publish,
    Send,
    Persist,
    Fdatasync,
    BareSync,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantile {
    P50,
    P90,
    P99,
    P999,
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// None of the names begins with one before it.
const SPANS: [(&str, Span); 18] = [
    ("whole_", Span::Whole),
    ("wait_", Span::Wait),
    ("work_", Span::Work),
    ("network_", Span::Network),
    ("first_sent_", Span::FirstSent),
    ("last_sent_", Span::LastSent),
    ("bare_sync_", Span::BareSync),
    ("bare_", Span::Bare),
    ("load_delay_", Span::LoadDelay),
    ("to_coordinator_", Span::ToCoordinator),
    ("to_agent_", Span::ToAgent),
    ("wake_", Span::Wake),
    ("collect_", Span::Collect),
    ("resolve_", Span::Resolve),
    ("publish_", Span::Publish),
    ("send_", Span::Send),
    ("persist_", Span::Persist),
    ("fdatasync_", Span::Fdatasync),
];

impl Figure {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "first_over_bare" => Figure::FirstOverBare,
            "last_over_bare" => Figure::LastOverBare,
            "persist_over_fdatasync" => Figure::PersistOverFdatasync,
            "last_over_fdatasync" => Figure::LastOverFdatasync,
            "last_over_bare_sync" => Figure::LastOverBareSync,
            "late" => Figure::Late,
            "lost" => Figure::Lost,
            "errors" => Figure::Errors,
            "decisions_per_second" => Figure::DecisionsPerSecond,
            name => {
                let found = SPANS.iter().find_map(|(prefix, span)| Some((*span, name.strip_prefix(prefix)?)));
                let (span, quantile) = found.unwrap_or((Span::Whole, name));
                Figure::Of(span, Quantile::named(quantile)?)
            }
        })
    }

    fn is_span(self) -> bool {
        !matches!(self, Figure::Late | Figure::Lost | Figure::Errors | Figure::DecisionsPerSecond)
    }

    /// Its value in `report`, where that has it.
    fn of(self, report: &Report) -> Option<f64> {
        let whole = |value: u64| value as f64;
        match self {
            Figure::Of(span, quantile) => span.of(report).map(|of| whole(quantile.of(&of))),
            Figure::FirstOverBare => report.over_bare().map(|(first, _)| whole(first)),
            Figure::LastOverBare => report.over_bare().map(|(_, last)| whole(last)),
            Figure::PersistOverFdatasync => report.log.as_ref()?.persist_over_fdatasync().map(whole),
            Figure::LastOverFdatasync => report.last_over_sync().map(|(over_sync, _)| whole(over_sync)),
            Figure::LastOverBareSync => report.last_over_sync().map(|(_, over_bare)| whole(over_bare)),
            Figure::Late => report.slots.map(|slots| whole(slots.late)),
            Figure::Lost => report.sockets.lost().map(whole),
            Figure::Errors => Some(whole(report.errors)),
            Figure::DecisionsPerSecond => Some(report.decisions_per_second),
        }
    }
}

impl Span {
    fn of(self, report: &Report) -> Option<Quantiles> {
        match self {
            Span::Whole => report.whole,
            Span::Wait => report.wait,
            Span::Work => report.work,
            Span::Network => report.network,
            Span::FirstSent => report.first_sent,
            Span::LastSent => report.last_sent,
            Span::Bare => report.bare,
            Span::LoadDelay => report.load_delay,
            Span::ToCoordinator => report.to_coordinator,
            Span::ToAgent => report.to_agent,
            Span::Wake => report.phases?.wake,
            Span::Collect => report.phases?.collect,
            Span::Resolve => report.phases?.resolve,
            Span::Publish => report.phases?.publish,
            Span::Send => report.phases?.send,
            Span::Persist => report.log.as_ref()?.persist,
            Span::Fdatasync => report.log.as_ref()?.fdatasync,
            Span::BareSync => report.log.as_ref()?.bare_sync,
        }
    }
}

impl Quantile {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "p50" => Quantile::P50,
            "p90" => Quantile::P90,
            "p99" => Quantile::P99,
            "p999" | "p99.9" => Quantile::P999,
            "max" => Quantile::Max,
            _ => return None,
        })
    }

    fn of(self, of: &Quantiles) -> u64 {
        match self {
            Quantile::P50 => of.p50,
            Quantile::P90 => of.p90,
            Quantile::P99 => of.p99,
            Quantile::P999 => of.p999,
            Quantile::Max => of.max,
        }
    }
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let wrong = |why: String| ThresholdError { why };
        let at = text.find(['<', '>']).ok_or_else(|| wrong(format!("{text:?} compares nothing")))?;
        let (name, rest) = text.split_at(at);
        let compare =
            [(">=", Compare::AtLeast), ("<=", Compare::AtMost), (">", Compare::Above), ("<", Compare::Below)];
        let found = compare.iter().find_map(|(sign, compare)| Some((*compare, rest.strip_prefix(sign)?)));
        let (compare, value) = found.ok_or_else(|| wrong(format!("{text:?} compares nothing")))?;
        let name = name.trim();
        let figure = Figure::named(name).ok_or_else(|| wrong(format!("{name:?} is no figure")))?;
        let value = value.trim();
        let read = if figure.is_span() {
            parse_duration(value).map(|span| span.as_us() as f64)
        } else {
            value.parse().ok().filter(|number: &f64| number.is_finite())
        };
        let value = read.ok_or_else(|| wrong(format!("{value:?} is no value of {name}")))?;
        Ok(Threshold { text: text.to_owned(), figure, compare, value })
    }
}

impl Threshold {
    /// Whether `report` fails by it: where the condition holds, and where the report lacks the
    /// figure, since what was asked for could not be seen. Says how.
    pub fn fails(&self, report: &Report) -> Option<String> {
        let Some(found) = self.figure.of(report) else {
            return Some(format!("{self}: it was not measured"));
        };
        let holds = match self.compare {
            Compare::Above => found > self.value,
            Compare::AtLeast => found >= self.value,
            Compare::Below => found < self.value,
            Compare::AtMost => found <= self.value,
        };
        let unit = if self.figure.is_span() { " µs" } else { "" };
        holds.then(|| format!("{self}: it is {found}{unit}"))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Figure, Compare, f64) {
        let Threshold { figure, compare, value, .. } = text.parse().unwrap();
        (figure, compare, value)
    }

    #[test]
    fn a_bare_quantile_is_of_the_whole() {
        let p99 = Figure::Of(Span::Whole, Quantile::P99);
        assert_eq!(parsed("p99>12ms"), (p99, Compare::Above, 12_000.0));
        assert_eq!(parsed(" whole_p99 >= 1.5s "), (p99, Compare::AtLeast, 1_500_000.0));
        assert_eq!(parsed("p99.9<500us").0, Figure::Of(Span::Whole, Quantile::P999));
    }

    #[test]
    fn every_span_and_count_has_its_name() {
        for (prefix, span) in SPANS {
            assert_eq!(
                parsed(&format!("{prefix}max>1ms")),
                (Figure::Of(span, Quantile::Max), Compare::Above, 1_000.0)
            );
        }
        assert_eq!(parsed("late>0"), (Figure::Late, Compare::Above, 0.0));
        assert_eq!(parsed("errors>0").0, Figure::Errors);
        assert_eq!(parsed("lost>0").0, Figure::Lost);
        assert_eq!(parsed("last_over_bare>1ms"), (Figure::LastOverBare, Compare::Above, 1_000.0));
        assert_eq!(parsed("persist_over_fdatasync>1ms").0, Figure::PersistOverFdatasync);
        assert_eq!(parsed("last_over_fdatasync>1ms").0, Figure::LastOverFdatasync);
        assert_eq!(parsed("last_over_bare_sync>1ms").0, Figure::LastOverBareSync);
        assert_eq!(parsed("first_over_bare>500us").0, Figure::FirstOverBare);
        assert_eq!(
            parsed("decisions_per_second<=900.5"),
            (Figure::DecisionsPerSecond, Compare::AtMost, 900.5)
        );
    }

    #[test]
    fn what_is_no_threshold_says_which_part() {
        let why = |text: &str| text.parse::<Threshold>().unwrap_err().why;
        assert_eq!(why("p99"), "\"p99\" compares nothing");
        assert_eq!(why("p98>1ms"), "\"p98\" is no figure");
        assert_eq!(why("work>1ms"), "\"work\" is no figure");
        assert_eq!(why("p99>12"), "\"12\" is no value of p99");
        assert_eq!(why("late>1ms"), "\"1ms\" is no value of late");
        assert_eq!(why("late>NaN"), "\"NaN\" is no value of late");
        assert_eq!(why(">1ms"), "\"\" is no figure");
    }
}
