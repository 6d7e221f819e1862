//! Watchers: lanes that are sent every decision, as long as they keep up.

use super::{ConnectionId, Place};
use crate::limits;
use crate::types::{Agent, Claim, IntentKey, Path, Slot, Target, Time};
use crate::wire::{Extensions, ToAgent, Verdict, Watch, WatchEvent};

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
    under: Option<Path>,
    agent: Option<Agent>,
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

/// Why a watch was not taken up: which field is at fault, or `None` where there are too many.
pub(super) struct NoWatch(pub(super) Option<&'static str>);

impl Watchers {
    pub(super) fn add(&mut self, place: Place, watch: &Watch) -> Result<(), NoWatch> {
        let of_connection = self.0.iter().filter(|other| other.place.connection == place.connection);
        if of_connection.count() >= limits::WATCHES_OF_A_CONNECTION || self.0.len() >= limits::WATCHES {
            return Err(NoWatch(None));
        }
        let under = watch.under.as_deref().map(|text| Path::new(text).ok_or(NoWatch(Some("under"))));
        let agent = watch.agent.as_deref().map(|name| Agent::new(name).ok_or(NoWatch(Some("agent"))));
        let (under, agent) = (under.transpose()?, agent.transpose()?);
        self.0.push(Watcher { place, request: watch.request, under, agent, missed: 0 });
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
        // Only numbers of fixed width tell the watchers' events apart: they are of one size.
        let mut bytes = None;
        for watcher in self.0.iter_mut().filter(|watcher| watcher.wants(seen)) {
            let event = watcher.event(seen).into();
            let bytes = *bytes.get_or_insert_with(|| size(&event));
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
        let agent = self.agent.as_ref().is_none_or(|agent| *agent == seen.key.agent);
        agent
            && self.under.as_ref().is_none_or(|under| seen.claims.iter().any(|claim| is_under(claim, under)))
    }

    fn event(&self, seen: &Seen<'_>) -> WatchEvent {
        WatchEvent {
            request: self.request,
            missed: self.missed,
            agent: seen.key.agent.as_str().to_owned(),
            id: seen.key.id,
            slot: seen.slot,
            at: seen.at,
            verdict: seen.verdict.clone(),
            note: seen.note.to_owned(),
            extensions: Extensions::NONE,
        }
    }
}

/// Whether a claim lies at or below `under`. A region lies just below its frame.
pub(super) fn is_under(claim: &Claim, under: &Path) -> bool {
    match &claim.target {
        Target::Path(path) => under.covers(path),
        Target::Region(region) => under.covers(&region.frame),
    }
}
