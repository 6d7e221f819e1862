//! Watchers: lanes that are sent every decision, as long as they keep up.

use super::looking::Scope;
use super::{ConnectionId, Place};
use crate::limits;
use crate::types::{Claim, IntentKey, Path, Slot, Target, Time};
use crate::wire::{Conflict, Extensions, ToAgent, Verdict, WatchEvent};

/// Whether a connection has room for what may as well be left out.
pub trait Room {
    /// Whether `connection` has room for a message of so many bytes more, which takes it up: what one
    /// slot adds has to fit together.
    fn has_room(&self, connection: ConnectionId, bytes: usize) -> bool;
}

/// Bytes of a message's frame; what fits in none has no room anywhere.
pub(super) fn size(message: &ToAgent) -> usize {
    let mut frame = Vec::new();
    message.encode(&mut frame).map_or(usize::MAX, |()| frame.len())
}

#[derive(Debug, Default)]
pub(super) struct Watchers(Vec<Watcher>);

#[derive(Debug)]
struct Watcher {
    place: Place,
    request: u64,
    scope: Scope,
    /// Nothing is hidden from it.
    reads_all: bool,
    missed: u64,
}

/// One decision, as watchers see it.
pub(super) struct Seen<'a> {
    pub(super) key: &'a IntentKey,
    pub(super) slot: Slot,
    pub(super) at: Time,
    pub(super) verdict: &'a Verdict,
    pub(super) claims: &'a [Claim],
    pub(super) note: &'a str,
}

/// As many watches as there may be.
pub(super) struct TooManyWatches;

impl Watchers {
    pub(super) fn add(
        &mut self,
        place: Place,
        request: u64,
        scope: Scope,
        reads_all: bool,
    ) -> Result<(), TooManyWatches> {
        let of_connection = self.0.iter().filter(|other| other.place.connection == place.connection);
        if of_connection.count() >= limits::WATCHES_OF_A_CONNECTION || self.0.len() >= limits::WATCHES {
            return Err(TooManyWatches);
        }
        self.0.push(Watcher { place, request, scope, reads_all, missed: 0 });
        Ok(())
    }

    /// How many there are on connections of which `is_meant` holds.
    pub(super) fn count(&self, is_meant: impl Fn(ConnectionId) -> bool) -> usize {
        self.0.iter().filter(|watcher| is_meant(watcher.place.connection)).count()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn forget(&mut self, connection: ConnectionId) {
        self.0.retain(|watcher| watcher.place.connection != connection);
    }

    pub(super) fn forget_lane(&mut self, place: Place) {
        self.0.retain(|watcher| watcher.place != place);
    }

    /// The events that tell `seen`. A watcher without room misses it, and is told how many it missed
    /// with the next one.
    pub(super) fn events(&mut self, seen: &Seen<'_>, room: &dyn Room) -> Vec<(Place, ToAgent)> {
        let mut events = Vec::new();
        // Only numbers of fixed width tell the events of those apart from whom nothing is hidden: they are of one size.
        let mut bytes = None;
        for watcher in self.0.iter_mut().filter(|watcher| watcher.wants(seen)) {
            let event = watcher.event(seen).into();
            let bytes = match watcher.reads_all {
                true => *bytes.get_or_insert_with(|| size(&event)),
                false => size(&event),
            };
            if room.has_room(watcher.place.connection, bytes) {
                events.push((watcher.place, event));
                watcher.missed = 0;
            } else {
                watcher.missed += 1;
            }
        }
        events
    }
}

impl Watcher {
    fn wants(&self, seen: &Seen<'_>) -> bool {
        let Scope { under, agent } = &self.scope;
        agent.as_ref().is_none_or(|agent| *agent == seen.key.agent)
            && under.as_ref().is_none_or(|under| seen.claims.iter().any(|claim| is_under(claim, under)))
    }

    fn event(&self, seen: &Seen<'_>) -> WatchEvent {
        WatchEvent {
            request: self.request,
            missed: self.missed,
            agent: seen.key.agent.as_str().to_owned(),
            id: seen.key.id,
            slot: seen.slot,
            at: seen.at,
            verdict: if self.reads_all { seen.verdict.clone() } else { without_holdings(seen.verdict) },
            note: seen.note.to_owned(),
            extensions: Extensions::NONE,
        }
    }
}

/// Who is in the way, without what it holds there, which the watcher may not look at.
fn without_holdings(verdict: &Verdict) -> Verdict {
    let mut verdict = verdict.clone();
    if let Verdict::Conflict(Conflict { blockers, .. }) | Verdict::RenewDenied { blockers, .. } = &mut verdict
    {
        blockers.iter_mut().for_each(|blocker| blocker.holding = None);
    }
    verdict
}

/// Whether a claim lies at or below `under`. A region lies just below its frame.
pub(super) fn is_under(claim: &Claim, under: &Path) -> bool {
    match &claim.target {
        Target::Path(path) => under.covers(path),
        Target::Region(region) => under.covers(&region.frame),
    }
}
