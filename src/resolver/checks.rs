//! What an intent is judged by on arrival, in the contract's precedence.

use super::book::Undecided;
use super::rules::Rules;
use super::settings::Settings;
use crate::types::{Claim, Intent, Micros, Mode, Reason, Start, Time};

/// Why an intent is refused on arrival.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) reason: Reason,
    pub(super) field: String,
}

impl Refusal {
    fn of_claim(reason: Reason, claim: usize, field: &str) -> Self {
        Refusal { reason, field: format!("claims[{claim}].{field}") }
    }
}

/// The starts that an intent may take in a slot, both included; none where `last < first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Starts {
    pub(super) first: Time,
    pub(super) last: Time,
}

/// The starts that `intent` may take in the slot decided at `now`, before `max_hold`.
pub(super) fn starts(intent: &Intent, now: Time, rules: &Rules) -> Starts {
    let soonest = now.after(rules.min_lead);
    match intent.start {
        Start::At(start) => Starts { first: start.max(soonest), last: start.after(intent.slack) },
        Start::Asap => Starts { first: soonest, last: soonest.after(asap_reach(intent, rules)) },
    }
}

/// How far after its earliest start an asap intent may begin: anywhere before the next slot's turn.
pub(super) fn asap_reach(intent: &Intent, rules: &Rules) -> Micros {
    intent.slack.max(rules.length.less(Micros::from_us(1)))
}

/// The last start at which no claim lasts beyond `max_hold`; one that is not bounded by it has none,
/// and one that cannot keep to it (the bound was lowered while it waited) has only times long past.
pub(super) fn last_start_within_max_hold(undecided: &Undecided, settings: &Settings) -> Time {
    let last = |claim: &Claim| {
        let most = settings.max_hold(claim.target.path())?;
        Some(match undecided.held_since {
            Some(since) => since.after(most).before(claim.offset).before(claim.duration),
            None if claim.duration > most => Time::ZERO,
            None => Time::MAX,
        })
    };
    undecided.intent.claims.iter().filter_map(last).min().unwrap_or(Time::MAX)
}

/// The first reading that claims to be from after the decision time.
pub(super) fn reading_from_the_future(intent: &Intent, now: Time) -> Option<String> {
    let at = intent.expects.iter().position(|expect| expect.as_of > now)?;
    Some(format!("expects[{at}].as_of"))
}

/// Judges a declaration or revision that arrived in the slot decided at `now`. `held_since`: from
/// when on `max_hold` counts where it revises a grant that has begun.
pub(super) fn on_arrival(
    intent: &Intent,
    now: Time,
    held_since: Option<Time>,
    rules: &Rules,
    settings: &Settings,
) -> Result<(), Refusal> {
    let starts = starts(intent, now, rules);
    of_duration(intent, starts.first, held_since, settings)?;
    if starts.last < starts.first {
        return Err(Refusal { reason: Reason::TooLate, field: "start".into() });
    }
    within_horizon(intent, starts.last, now, rules)?;
    within_capacity(intent, settings)
}

/// `too_short` and `too_long`, for a start at `start`.
pub(super) fn of_duration(
    intent: &Intent,
    start: Time,
    held_since: Option<Time>,
    settings: &Settings,
) -> Result<(), Refusal> {
    for (index, claim) in intent.claims.iter().enumerate() {
        let least = settings.time_tolerance(claim.target.path()).as_us().saturating_mul(2);
        if !matches!(claim.mode, Mode::Units(_)) && claim.duration.as_us() <= least {
            return Err(Refusal::of_claim(Reason::TooShort, index, "duration"));
        }
    }
    for (index, claim) in intent.claims.iter().enumerate() {
        let Some(most) = settings.max_hold(claim.target.path()) else { continue };
        let lasts = match held_since {
            Some(since) => start.after(claim.offset).after(claim.duration).since(since),
            None => claim.duration,
        };
        if lasts > most {
            return Err(Refusal::of_claim(Reason::TooLong, index, "duration"));
        }
    }
    Ok(())
}

fn within_horizon(intent: &Intent, last: Time, now: Time, rules: &Rules) -> Result<(), Refusal> {
    let limit = u128::from(now.as_us()) + u128::from(rules.horizon.as_us());
    for (index, claim) in intent.claims.iter().enumerate() {
        let parts = [last.as_us(), claim.offset.as_us(), claim.duration.as_us()];
        // An end that no time can hold lies beyond any horizon.
        let end: u128 = parts.into_iter().map(u128::from).sum();
        if end > limit || end > u128::from(u64::MAX) {
            return Err(Refusal::of_claim(Reason::BeyondHorizon, index, "duration"));
        }
    }
    Ok(())
}

fn within_capacity(intent: &Intent, settings: &Settings) -> Result<(), Refusal> {
    for (index, claim) in intent.claims.iter().enumerate() {
        let is_units = matches!(claim.mode, Mode::Units(_));
        if is_units && settings.pools(claim.target.path()).next().is_none() {
            return Err(Refusal::of_claim(Reason::NoCapacity, index, "mode"));
        }
    }
    for draw in settings.draws(&intent.claims) {
        let over = draw.claims.iter().find(|index| {
            let at = intent.claims[**index].offset;
            let there = draw.claims.iter().map(|other| &intent.claims[*other]);
            let present = there.filter(|it| it.offset <= at && at < it.offset.plus(it.duration));
            let sum: u128 = present.map(|it| u128::from(units(it))).sum();
            sum > u128::from(draw.capacity)
        });
        if let Some(index) = over {
            return Err(Refusal::of_claim(Reason::OverCapacity, *index, "mode"));
        }
    }
    Ok(())
}

fn units(claim: &Claim) -> u64 {
    match claim.mode {
        Mode::Units(units) => units,
        Mode::Shared | Mode::Exclusive => 0,
    }
}
