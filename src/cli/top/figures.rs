//! What `top` shows, as data: from a look at the coordinator and those before it.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::cli::watching::{Agent, Claims, Contended, Held, Scrape, Slot, Slots, Spread, Waiting};
use crate::limits;
use crate::types::{Micros, Time};

/// The conflict rate is good below this.
const CONFLICT_RATE: f64 = 0.05;
/// The 99th percentile of the time to resolve is good below this.
const RESOLVE: Micros = Micros::from_ms(200);
/// Rollbacks, of all grants, are good below this.
const ROLLBACK_RATE: f64 = 0.01;

/// One look at a coordinator.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) metrics: Scrape,
    pub(super) slots: Slots,
    pub(super) claims: Claims,
    pub(super) readiness: String,
}

/// The looks of the last minutes, as far as health is taken from them.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The oldest first.
    tallies: VecDeque<(Time, Tally)>,
    before: Option<Look>,
}

/// What health is made of, counted since the coordinator's start.
#[derive(Clone, Debug, Default)]
struct Tally {
    conflicts: f64,
    /// First answers to intents.
    answered: f64,
    granted: f64,
    rolled_back: f64,
    resolve: Spread,
}

/// What is shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    /// By the coordinator's clock.
    pub(super) at: Time,
    /// Over how long the rates are taken; zero where there was one look alone.
    pub(super) over_us: Micros,
    pub(super) version: String,
    pub(super) ready: bool,
    /// The same in the coordinator's words, with why.
    pub(super) readiness: String,
    pub(super) slot: SlotFigures,
    pub(super) inputs_per_second: f64,
    /// Decisions a second, by outcome.
    pub(super) per_second: BTreeMap<String, f64>,
    pub(super) health: Health,
    pub(super) grants: u64,
    pub(super) undecided: u64,
    /// Whether the lists were made of all grants and waits.
    pub(super) complete: bool,
    pub(super) connected: u64,
    pub(super) away: u64,
    pub(super) contended: Vec<Contended>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) overdue: Vec<Held>,
    pub(super) agents: Vec<Agent>,
}

/// How slots keep their time.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SlotFigures {
    pub(super) number: u64,
    pub(super) length_us: Micros,
    pub(super) per_second: f64,
    /// Of those since the look before: the middle one by how much of its length it took, and the worst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) typical: Option<Slot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) worst: Option<Slot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lag_p99_us: Option<Micros>,
    pub(super) late_per_second: f64,
    pub(super) late: u64,
}

/// The three figures of docs/METRICS.md.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Health {
    /// Over how long; `None`: since the coordinator's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) over_us: Option<Micros>,
    pub(super) conflict_rate: Figure<f64>,
    pub(super) resolve_p99_us: Figure<Micros>,
    pub(super) rollback_rate: Figure<f64>,
}

/// A value and the limit below which it is good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figure<T> {
    /// `None` where nothing happened that it could be of.
    pub(super) value: Option<T>,
    pub(super) limit: T,
    pub(super) good: bool,
}

impl<T: PartialOrd + Copy> Figure<T> {
    fn of(value: Option<T>, limit: T) -> Self {
        Figure { value, limit, good: value.is_none_or(|value| value < limit) }
    }
}

impl History {
    /// Takes a look in. Rates are those since the look before, health that of the last five minutes that were seen;
    /// `whole` has it of all since the coordinator's start.
    pub(super) fn take(&mut self, look: Look, whole: bool) -> Figures {
        let (now, tally) = (look.claims.now, Tally::of(&look.metrics));
        if self.tallies.back().is_some_and(|(at, before)| now < *at || tally.answered < before.answered) {
            // Another start of the coordinator: its counts began anew.
            *self = History::default();
        }
        let from = now.before(limits::HEALTH_OVER);
        while self.tallies.front().is_some_and(|(at, _)| *at < from) {
            self.tallies.pop_front();
        }
        let base = if whole { None } else { self.tallies.front() };
        let health = Health::of(&tally, base.map(|(_, tally)| tally), base.map(|(at, _)| now.since(*at)));
        let figures = Figures::of(&look, self.before.as_ref(), health);
        self.tallies.push_back((now, tally));
        if self.tallies.len() > limits::LOOKS_KEPT {
            let mut is_kept = false;
            self.tallies.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        self.before = Some(look);
        figures
    }
}

impl Tally {
    fn of(metrics: &Scrape) -> Self {
        let intents = |outcomes: &[&str]| -> f64 {
            outcomes.iter().map(|it| metrics.labelled("preclaim_intents_total", ("outcome", it))).sum()
        };
        Tally {
            conflicts: metrics.by_label("preclaim_conflicts_total").map(|(_, count)| count).sum(),
            answered: intents(&["granted", "conflict", "stale", "waiting"]),
            granted: intents(&["granted"]),
            rolled_back: intents(&["moved", "revoked", "stale"]),
            resolve: metrics.spreads(
                "preclaim_decision_seconds",
                "outcome",
                ["granted", "conflict", "stale", "rejected"],
            ),
        }
    }
}

impl Health {
    fn of(now: &Tally, base: Option<&Tally>, over_us: Option<Micros>) -> Self {
        let none = Tally::default();
        let base = base.unwrap_or(&none);
        let share = |part: fn(&Tally) -> f64, of: fn(&Tally) -> f64| {
            let (part, of) = (part(now) - part(base), of(now) - of(base));
            (of > 0.0).then(|| part / of)
        };
        Health {
            over_us,
            conflict_rate: Figure::of(share(|it| it.conflicts, |it| it.answered), CONFLICT_RATE),
            resolve_p99_us: Figure::of(now.resolve.since(&base.resolve).quantile(0.99), RESOLVE),
            rollback_rate: Figure::of(share(|it| it.rolled_back, |it| it.granted), ROLLBACK_RATE),
        }
    }
}

impl Figures {
    fn of(look: &Look, before: Option<&Look>, health: Health) -> Self {
        let Look { metrics, claims, readiness, .. } = look;
        let rates = Rates { now: look, before };
        let outcomes = metrics.by_label("preclaim_intents_total");
        let count = |name, label| metrics.labelled(name, label) as u64;
        Figures {
            at: claims.now,
            over_us: rates.over(),
            version: metrics.label_of("preclaim_build_info").unwrap_or_default().to_owned(),
            ready: metrics.value("preclaim_ready") > 0.0,
            readiness: readiness.clone(),
            slot: SlotFigures::of(&rates),
            inputs_per_second: rates.of(|it| it.value("preclaim_slot_inputs_total")),
            per_second: outcomes
                .map(|(outcome, _)| {
                    let rate = rates.of(|it| it.labelled("preclaim_intents_total", ("outcome", outcome)));
                    (outcome.to_owned(), rate)
                })
                .collect(),
            health,
            grants: claims.grants,
            undecided: claims.undecided,
            complete: claims.is_complete,
            connected: count("preclaim_sessions", ("state", "connected")),
            away: count("preclaim_sessions", ("state", "away")),
            contended: claims.contended.clone(),
            waiting: claims.longest_waiting.clone(),
            overdue: claims.overdue.clone(),
            agents: claims.agents.clone(),
        }
    }
}

/// What two looks say of what happened between them.
struct Rates<'a> {
    now: &'a Look,
    before: Option<&'a Look>,
}

impl Rates<'_> {
    fn over(&self) -> Micros {
        self.before.map_or(Micros::ZERO, |before| self.now.claims.now.since(before.claims.now))
    }

    /// How much more of it there is a second; 0 where there was one look alone.
    fn of(&self, count: impl Fn(&Scrape) -> f64) -> f64 {
        let over = self.over().as_us();
        let Some(before) = self.before.filter(|_| over > 0) else { return 0.0 };
        let more = (count(&self.now.metrics) - count(&before.metrics)).max(0.0);
        // To the tenth: more than that is chance.
        (more * 1e7 / over as f64).round() / 10.0
    }
}

impl SlotFigures {
    fn of(rates: &Rates<'_>) -> Self {
        let Rates { now, before } = rates;
        let late = |it: &Scrape| -> f64 {
            ["late", "caught_up"]
                .iter()
                .map(|kept| it.labelled("preclaim_slots_total", ("result", kept)))
                .sum()
        };
        let slots = |it: &Scrape| it.by_label("preclaim_slots_total").map(|(_, count)| count).sum::<f64>();
        let lag = |it: &Scrape| it.spread("preclaim_slot_lag_seconds", None);
        let lags = before.map_or_else(Spread::default, |before| lag(&before.metrics));
        let last = before.and_then(|before| before.slots.slots.first()).map_or(0, |slot| slot.slot);
        let mut since: Vec<Slot> = now.slots.slots.iter().copied().filter(|slot| slot.slot > last).collect();
        since.sort_by_key(|slot| slot.done_us);
        SlotFigures {
            number: now.claims.slot,
            length_us: now.slots.length_us,
            per_second: rates.of(slots),
            typical: since.get(since.len() / 2).copied(),
            worst: since.last().copied(),
            lag_p99_us: lag(&now.metrics).since(&lags).quantile(0.99),
            late_per_second: rates.of(late),
            late: late(&now.metrics) as u64,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A look at `us`, when so many were granted and in conflict.
    pub(in crate::cli::top) fn look(us: u64, granted: u64, conflicts: u64) -> Look {
        let text = format!(
            "preclaim_ready 1\npreclaim_build_info{{version=\"0.1.0\"}} 1\n\
             preclaim_intents_total{{outcome=\"granted\"}} {granted}\n\
             preclaim_intents_total{{outcome=\"conflict\"}} {conflicts}\n\
             preclaim_intents_total{{outcome=\"moved\"}} 0\n\
             preclaim_conflicts_total{{kind=\"path\"}} {conflicts}\n\
             preclaim_slots_total{{result=\"ok\"}} {granted}\n\
             preclaim_slots_total{{result=\"late\"}} 2\n\
             preclaim_decision_seconds_bucket{{le=\"0.01\",outcome=\"granted\"}} {granted}\n\
             preclaim_decision_seconds_bucket{{le=\"+Inf\",outcome=\"granted\"}} {granted}\n\
             preclaim_decision_seconds_bucket{{le=\"0.01\",outcome=\"conflict\"}} 0\n\
             preclaim_decision_seconds_bucket{{le=\"+Inf\",outcome=\"conflict\"}} 0\n"
        );
        let done = |slot, us| Slot { slot, done_us: Micros::from_us(us), ..Slot::default() };
        Look {
            metrics: Scrape::read(&text),
            slots: Slots {
                length_us: Micros::from_ms(10),
                slots: vec![done(us / 10_000, 900), done(us / 10_000 - 1, 200), done(us / 10_000 - 2, 300)],
            },
            claims: Claims {
                slot: us / 10_000,
                now: Time::from_us(us),
                is_complete: true,
                ..Claims::default()
            },
            readiness: "ready".into(),
        }
    }

    #[test]
    fn rates_are_those_since_the_look_before() {
        let mut history = History::default();
        let first = history.take(look(1_000_000, 100, 10), false);
        assert_eq!((first.over_us, first.per_second["granted"]), (Micros::ZERO, 0.0));
        let second = history.take(look(3_000_000, 300, 11), false);
        assert_eq!(second.over_us, Micros::from_secs(2));
        assert_eq!((second.per_second["granted"], second.per_second["conflict"]), (100.0, 0.5));
        assert_eq!((second.slot.late, second.slot.late_per_second), (2, 0.0));
        let done = |slot: Option<Slot>| slot.map(|slot| slot.done_us.as_us());
        assert_eq!((done(second.slot.typical), done(second.slot.worst)), (Some(300), Some(900)));
    }

    #[test]
    fn health_is_of_what_was_seen_for_up_to_five_minutes_or_of_all() {
        let mut history = History::default();
        let whole = history.take(look(1_000_000, 900, 100), true).health;
        assert_eq!((whole.over_us, whole.conflict_rate.value), (None, Some(0.1)));
        assert!(!whole.conflict_rate.good && whole.resolve_p99_us.good && whole.rollback_rate.good);
        let next = history.take(look(11_000_000, 999, 101), false).health;
        assert_eq!((next.over_us, next.conflict_rate.value), (Some(Micros::from_secs(10)), Some(0.01)));
        assert!(next.conflict_rate.good);
        let much_later = history.take(look(400_000_000, 1_000, 101), false).health;
        assert_eq!(much_later.over_us, None, "what was seen is longer ago than that");
    }

    #[test]
    fn where_nothing_happened_health_is_good_and_has_no_value() {
        let mut history = History::default();
        history.take(look(1_000_000, 9, 1), false);
        let health = history.take(look(2_000_000, 9, 1), false).health;
        assert_eq!(health.conflict_rate, Figure { value: None, limit: CONFLICT_RATE, good: true });
        assert_eq!(health.resolve_p99_us.value, None);
    }

    #[test]
    fn another_start_of_the_coordinator_begins_anew() {
        let mut history = History::default();
        history.take(look(1_000_000, 900, 100), false);
        let figures = history.take(look(2_000_000, 5, 0), false);
        assert_eq!((figures.over_us, figures.health.over_us), (Micros::ZERO, None));
    }

    #[test]
    fn a_long_watch_takes_bounded_room() {
        let mut history = History::default();
        for at in 0..3 * limits::LOOKS_KEPT as u64 {
            history.take(look(1_000_000 + at * 10_000, at, 0), false);
            assert!(history.tallies.len() <= limits::LOOKS_KEPT);
        }
        let oldest = history.tallies.front().map(|(at, _)| at.as_us());
        assert_eq!(oldest, Some(1_000_000), "the span stays, its looks are fewer");
    }
}
