//! The grants that an agent holds, and when something is due about each: a renewal, or its end.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits;
use crate::types::{IntentId, Micros, RawIntent, Slot, Time, Token};

/// A grant in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its token.
    pub token: Token,
    /// The intent's start, before offsets.
    pub start: Time,
    /// The latest end of its claims.
    pub end: Time,
    /// How its intent wants it to last.
    pub lasting: Lasting,
    renew_at: Option<Time>,
    /// A renewal was asked for and none has been answered since.
    unanswered: bool,
    /// The slot of the last answer about it.
    heard: Slot,
}

/// How an intent wants its grant to last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lasting {
    /// As a lease, which is renewed.
    pub hold: bool,
    /// For how long from its start on, as declared. Each renewal asks for that again; the grant's own
    /// window will not do, which has been renewed before where a new process takes it up.
    pub span: Micros,
}

impl Lasting {
    /// What `intent` wants.
    pub(super) fn of(intent: &RawIntent) -> Self {
        let ends = intent.claims.iter().map(|claim| claim.offset.saturating_add(claim.duration));
        Lasting { hold: intent.hold, span: Micros::from_us(ends.max().unwrap_or_default()) }
    }
}

impl Held {
    /// A grant as it was just given.
    pub(super) fn new(token: Token, start: Time, end: Time, lasting: Lasting) -> Self {
        let mut held =
            Held { token, start, end, lasting, renew_at: None, unanswered: false, heard: Slot::default() };
        held.plan_renewal();
        held
    }

    /// At a third of its time, so that two more tries fit before its end.
    fn plan_renewal(&mut self) {
        let two_thirds = Micros::from_us(self.lasting.span.as_us() / 3 * 2);
        self.renew_at = self.lasting.hold.then(|| self.end.before(two_thirds));
    }

    /// When its holder stops; see [`stop`].
    pub(super) fn stops(&self) -> Time {
        stop(self.start, self.end)
    }

    /// The slot of the last answer about it.
    pub(super) fn heard(&self) -> Slot {
        self.heard
    }

    /// Whether a renewal was asked for and none has been answered since.
    pub(super) fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// The end that a renewal asked for at `now` asks for.
    pub(super) fn wanted_end(&self, now: Time) -> Time {
        now.after(self.lasting.span)
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

    pub(super) fn ids(&self) -> Vec<IntentId> {
        self.held.keys().copied().collect()
    }

    pub(super) fn put(&mut self, id: IntentId, held: Held) {
        self.remove(id);
        self.due.insert((held.stops(), Due::End, id));
        self.due.extend(held.renew_at.map(|at| (at, Due::Renewal, id)));
        self.held.insert(id, held);
    }

    pub(super) fn remove(&mut self, id: IntentId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        self.due.remove(&(held.stops(), Due::End, id));
        if let Some(at) = held.renew_at {
            self.due.remove(&(at, Due::Renewal, id));
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
            let patience = Micros::from_us(held.lasting.span.as_us() / 6).max(twice(slot_length));
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

    /// A renewal was denied: ask again after half of what remains, as long as that is two slots.
    pub(super) fn renewal_denied(&mut self, id: IntentId, now: Time, slot_length: Micros) {
        self.change(id, |held| {
            held.unanswered = false;
            let half = Micros::from_us(held.end.since(now).as_us() / 2);
            held.renew_at = (held.lasting.hold && half >= twice(slot_length)).then(|| now.after(half));
        });
    }

    /// It ends at `end` now. An older answer that arrives late changes nothing: ends only rise.
    pub(super) fn renewed(&mut self, id: IntentId, end: Time) {
        self.change(id, |held| {
            held.end = held.end.max(end);
            held.unanswered = false;
            held.plan_renewal();
        });
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
