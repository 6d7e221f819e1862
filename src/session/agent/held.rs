//! The grants that an agent holds, and when something is due about each: a renewal, or its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Draft, Loss};
use crate::limits;
use crate::types::{IntentId, Micros, RawClaim, RawIntent, Slot, Time, Token};

/// A grant in hand.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Its token.
    pub token: Token,
    /// The intent's start, before offsets.
    pub start: Time,
    /// The latest end of its claims.
    pub end: Time,
    /// What its intent wants.
    pub terms: Terms,
    renew_at: Option<Time>,
    /// A renewal was asked for and none has been answered since.
    unanswered: bool,
    /// The last renewal was denied, and who is in the way, if anybody is.
    denied: Option<Option<Arc<str>>>,
    /// The slot of the last answer about it.
    heard: Slot,
    doubt: Doubt,
}

/// Whether a revision may have taken a grant's place, of which no answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    No,
    /// From then on another may have what the revision gives up.
    From(Time),
    Told,
}

/// What an intent wants of its grant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// As a lease, which is renewed.
    pub hold: bool,
    /// For how long from its start on, as declared. Each renewal asks for that again; the grant's own
    /// window will not do, which has been renewed before where a new process takes it up.
    pub span: Micros,
    /// Its claims.
    pub claims: Arc<[RawClaim]>,
}

impl Terms {
    /// What `intent` wants.
    pub(super) fn of(intent: &RawIntent) -> Self {
        let ends = intent.claims.iter().map(|claim| claim.offset.saturating_add(claim.duration));
        let span = Micros::from_us(ends.max().unwrap_or_default());
        Terms { hold: intent.hold, span, claims: intent.claims.as_slice().into() }
    }

    /// The window of `claim` in a grant from `start` to `end`: the claims of a lease that end last are the
    /// ones that are renewed.
    pub fn window(&self, claim: &RawClaim, start: Time, end: Time) -> (Time, Time) {
        let from = start.after(Micros::from_us(claim.offset));
        let is_last = claim.offset.saturating_add(claim.duration) == self.span.as_us();
        let until = from.after(Micros::from_us(claim.duration));
        (from, if self.hold && is_last { until.max(end) } else { until })
    }
}

impl Held {
    /// A grant as it was just given.
    pub(super) fn new(token: Token, start: Time, end: Time, terms: Terms) -> Self {
        let mut held = Held {
            token,
            start,
            end,
            terms,
            renew_at: None,
            unanswered: false,
            denied: None,
            heard: Slot::default(),
            doubt: Doubt::No,
        };
        held.plan_renewal();
        held
    }

    /// At a third of its time, so that two more tries fit before its end.
    fn plan_renewal(&mut self) {
        let two_thirds = Micros::from_us(self.terms.span.as_us() / 3 * 2);
        self.renew_at = self.terms.hold.then(|| self.end.before(two_thirds));
    }

    /// When its holder stops; see [`stop`].
    pub(super) fn stops(&self) -> Time {
        stop(self.start, self.end)
    }

    /// Whether it may have given way to a revision at the coordinator's time `latest`.
    pub(super) fn is_in_doubt_at(&self, latest: Time) -> bool {
        match self.doubt {
            Doubt::No => false,
            Doubt::From(at) => latest >= at,
            Doubt::Told => true,
        }
    }

    /// Whether it may have given way to a revision, and its holder was told so.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubt == Doubt::Told
    }

    /// Whether everything that it has stays its own where `revision` is granted.
    fn is_covered_by(&self, revision: &RawIntent) -> bool {
        let Some(start) = revision.start.filter(|_| revision.slack == 0).map(Time::from_us) else {
            return false;
        };
        let new = Terms::of(revision);
        let new_end = start.after(new.span);
        self.terms.claims.iter().all(|claim| {
            let (from, until) = self.terms.window(claim, self.start, self.end);
            new.claims.iter().filter(|it| it.target == claim.target && it.mode == claim.mode).any(|it| {
                let (new_from, new_until) = new.window(it, start, new_end);
                new_from <= from && until <= new_until
            })
        })
    }

    /// The slot of the last answer about it.
    pub(super) fn heard(&self) -> Slot {
        self.heard
    }

    /// Why it is no longer in hand where its end has come by the agent's own clock.
    pub(super) fn ended(&self) -> Loss {
        match &self.denied {
            _ if self.unanswered => Loss::Unreachable,
            Some(by) => Loss::NotRenewed { by: by.as_deref().map(str::to_owned) },
            None => Loss::Ended,
        }
    }

    /// The end that a renewal asked for at `now` asks for.
    pub(super) fn wanted_end(&self, now: Time) -> Time {
        now.after(self.terms.span)
    }
}

/// The time at which the holder of a window stops, by the latest that the coordinator's time may be: a little
/// before its end, since timers ring late by their grain, and another's window may begin right there.
/// Of a short window no more than an eighth is given up.
pub fn stop(start: Time, end: Time) -> Time {
    let eighth = Micros::from_us(end.since(start).as_us() / 8);
    end.before(limits::TIMER_GRAIN.min(eighth))
}

/// What is due about a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// It may have ended.
    End,
    /// Its renewal.
    Renewal,
    /// What a revision gives up may be another's.
    Doubt,
}

/// All grants in hand, ordered by what is due next.
#[derive(Clone, Debug, Default)]
pub(super) struct Holdings {
    held: BTreeMap<IntentId, Held>,
    due: BTreeSet<(Time, Due, IntentId)>,
}

impl Holdings {
    pub(super) fn of(&self, id: IntentId) -> Option<&Held> {
        self.held.get(&id)
    }

    /// Whether `draft`, of `id`, revises a grant in hand, whose holder it is for.
    pub(super) fn are_revised_by(&self, id: IntentId, draft: &Draft) -> bool {
        draft.revision && self.held.contains_key(&id)
    }

    pub(super) fn ids(&self) -> Vec<IntentId> {
        self.held.keys().copied().collect()
    }

    pub(super) fn put(&mut self, id: IntentId, held: Held) {
        self.remove(id);
        self.due.insert((held.stops(), Due::End, id));
        self.due.extend(held.renew_at.map(|at| (at, Due::Renewal, id)));
        if let Doubt::From(at) = held.doubt {
            self.due.insert((at, Due::Doubt, id));
        }
        self.held.insert(id, held);
    }

    pub(super) fn remove(&mut self, id: IntentId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        self.due.remove(&(held.stops(), Due::End, id));
        if let Some(at) = held.renew_at {
            self.due.remove(&(at, Due::Renewal, id));
        }
        if let Doubt::From(at) = held.doubt {
            self.due.remove(&(at, Due::Doubt, id));
        }
        Some(held)
    }

    /// What is due first, and when, in coordinator time.
    pub(super) fn first_due(&self) -> Option<(Time, Due, IntentId)> {
        self.due.first().copied()
    }

    /// A renewal was asked for at `now`: ask again after a sixth of the lease's time, but not within
    /// two slots, in which no answer can be expected.
    pub(super) fn renewal_asked(&mut self, id: IntentId, now: Time, slot_length: Micros) {
        self.change(id, |held| {
            let patience = Micros::from_us(held.terms.span.as_us() / 6).max(twice(slot_length));
            held.renew_at = Some(now.after(patience)).filter(|at| *at < held.end);
            held.unanswered = true;
        });
    }

    /// A new connection stands: what was asked over the last one in vain is due at once.
    pub(super) fn renew_what_was_not_answered(&mut self) {
        let unanswered = self.held.iter().filter(|(_, held)| held.unanswered);
        let ids: Vec<IntentId> = unanswered.map(|(id, _)| *id).collect();
        for id in ids {
            self.change(id, |held| held.renew_at = Some(Time::ZERO));
        }
    }

    /// What a renewal was denied for may be no more: those that were are due at once.
    pub(super) fn renew_what_was_denied(&mut self) {
        let denied = self.held.iter().filter(|(_, held)| held.terms.hold && held.denied.is_some());
        let ids: Vec<IntentId> = denied.map(|(id, _)| *id).collect();
        for id in ids {
            self.change(id, |held| held.renew_at = Some(Time::ZERO));
        }
    }

    /// A renewal was denied: ask again after half of what remains, as long as that is two slots.
    pub(super) fn renewal_denied(&mut self, id: IntentId, now: Time, slot_length: Micros, by: Option<&str>) {
        self.change(id, |held| {
            held.unanswered = false;
            held.denied = Some(by.map(Arc::from));
            let half = Micros::from_us(held.end.since(now).as_us() / 2);
            held.renew_at = (held.terms.hold && half >= twice(slot_length)).then(|| now.after(half));
        });
    }

    /// It ends at `end` now. An older answer that arrives late changes nothing: ends only rise.
    pub(super) fn renewed(&mut self, id: IntentId, end: Time) {
        self.change(id, |held| {
            held.end = held.end.max(end);
            held.unanswered = false;
            held.denied = None;
            held.plan_renewal();
        });
    }

    /// `revision` of it is on its way, and what that gives up may be another's from `at` on.
    pub(super) fn revised_from(&mut self, id: IntentId, revision: &RawIntent, at: Time) {
        self.change(id, |held| {
            if held.doubt == Doubt::No && !held.is_covered_by(revision) {
                held.doubt = Doubt::From(at);
            }
        });
    }

    /// Its holder is told that it may have given way. Says which grant it is.
    pub(super) fn doubt(&mut self, id: IntentId) -> Option<Token> {
        self.change(id, |held| held.doubt = Doubt::Told);
        self.of(id).map(|held| held.token)
    }

    /// It has not given way. Says what is in hand again, where it was in doubt.
    pub(super) fn stands_after_all(&mut self, id: IntentId) -> Option<&Held> {
        let was_told = self.of(id).is_some_and(Held::is_in_doubt);
        self.change(id, |held| held.doubt = Doubt::No);
        self.of(id).filter(|_| was_told)
    }

    /// The coordinator said something about it in `slot`.
    pub(super) fn heard(&mut self, id: IntentId, slot: Slot) {
        if let Some(held) = self.held.get_mut(&id) {
            held.heard = held.heard.max(slot);
        }
    }

    fn change(&mut self, id: IntentId, change: impl FnOnce(&mut Held)) {
        if let Some(mut held) = self.remove(id) {
            change(&mut held);
            self.put(id, held);
        }
    }
}

fn twice(slot_length: Micros) -> Micros {
    slot_length.plus(slot_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_stops_a_timers_grain_before_the_end_and_gives_up_little_of_a_short_window() {
        let (start, us) = (Time::from_us(5_000_000), Micros::from_us);
        assert_eq!(stop(start, start.after(us(1_000_000))), start.after(us(999_000)));
        assert_eq!(stop(start, start.after(us(8_000))), start.after(us(7_000)));
        assert_eq!(stop(start, start.after(us(800))), start.after(us(700)));
        assert_eq!(stop(start, start), start);
    }
}
