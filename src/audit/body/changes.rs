//! What a slot changed in the state.

use std::sync::Arc;

use super::read::{Read, wrong_at};
use super::standing::{Known, Said, part, parts};
use super::verdict::flag;
use super::{Reader, Writer};
use crate::audit::record::Record;
use crate::limits;
use crate::resolver::state::{EndedWindow, SlotChanges, StandingChange};
use crate::resolver::{Input, SlotOutcome};
use crate::types::{Intent, IntentKey, Path};

/// What of the changes stands here.
mod has {
    /// Anything at all.
    pub(super) const CHANGES: u8 = 1;
    pub(super) const CAPACITIES: u8 = 1 << 1;
}

/// Set beside the parts of a standing where the id stood for something before.
const STOOD_BEFORE: u8 = 1 << 3;

/// Looks up what an id stood for before the record.
pub(crate) type Lookup<'a> = &'a dyn Fn(&IntentKey) -> Option<Arc<Intent>>;

impl Writer<'_> {
    pub(crate) fn changes(&mut self, inputs: &[Input], outcome: &SlotOutcome) {
        let Some(changes) = &outcome.changes else { return self.byte(0) };
        let SlotChanges {
            standings,
            remembered,
            forgotten,
            ended_windows,
            held,
            held_from,
            capacities,
            next_token,
            arrivals,
        } = changes;
        self.byte(has::CHANGES | flag(capacities.is_some(), has::CAPACITIES));
        self.number(*next_token);
        self.number(*arrivals);
        self.time(*held_from);
        self.count(*forgotten);
        self.count_from(*next_token, *arrivals);
        self.list(standings, |writer, change| {
            let said = Said { inputs, decisions: &outcome.decisions, before: change.before.as_ref() };
            writer.standing_change(change, said);
        });
        self.list(remembered, |writer, key| {
            writer.key(key);
        });
        self.list(ended_windows, Self::ended_window);
        self.list(held, |writer, (agent, window)| {
            writer.agent(agent);
            writer.window(*window);
        });
        if let Some(capacities) = capacities {
            self.capacities(capacities);
        }
    }

    fn standing_change(&mut self, change: &StandingChange, said: Said<'_>) {
        let StandingChange { key, standing, before } = change;
        self.byte(parts(standing) | flag(before.is_some(), STOOD_BEFORE));
        let place = self.key(key);
        self.standing(standing, place, said);
    }

    fn ended_window(&mut self, it: &EndedWindow) {
        let EndedWindow { key, path, is_region, end } = it;
        self.byte(u8::from(*is_region));
        self.key(key);
        self.path(path);
        self.time(*end);
    }

    pub(super) fn capacities(&mut self, capacities: &[(Path, u64)]) {
        self.list(capacities, |writer, (path, capacity)| {
            writer.path(path);
            writer.number(*capacity);
        });
    }
}

impl Reader<'_> {
    pub(crate) fn changes(&mut self, record: &Record, lookup: Lookup<'_>) -> Read<SlotChanges> {
        let at = self.place();
        let head = self.flags(has::CHANGES | has::CAPACITIES)?;
        if head & has::CHANGES == 0 {
            return Err(wrong_at(at, "a record that does not say what the slot changed"));
        }
        let (next_token, arrivals) = (self.number()?, self.number()?);
        let (held_from, forgotten) = (self.time()?, self.size()?);
        self.count_from(next_token, arrivals);
        let standings = self.list(limits::RECORD_ITEMS, |reader| reader.standing_change(record, lookup))?;
        let remembered = self.list(limits::RECORD_ITEMS, Self::key)?;
        let ended_windows = self.list(limits::RECORD_ITEMS, Self::ended_window)?;
        let held = self.list(limits::RECORD_ITEMS, |reader| Ok((reader.agent()?, reader.window()?)))?;
        let capacities = if head & has::CAPACITIES == 0 { None } else { Some(self.capacities()?) };
        self.end()?;
        Ok(SlotChanges {
            standings,
            remembered,
            forgotten,
            ended_windows,
            held,
            held_from,
            capacities,
            next_token,
            arrivals,
        })
    }

    fn standing_change(&mut self, record: &Record, lookup: Lookup<'_>) -> Read<StandingChange> {
        let at = self.place();
        let head = self.flags(part::ALL | STOOD_BEFORE)?;
        let (key, place) = self.key_and_place()?;
        let before = if head & STOOD_BEFORE == 0 {
            None
        } else {
            let found = lookup(&key);
            Some(found.ok_or_else(|| wrong_at(at, "a change of an intent that did not stand before"))?)
        };
        let known = Known { inputs: &record.inputs, decisions: &record.decisions, before: before.clone() };
        let standing = self.standing(head & part::ALL, key.id, place, known)?;
        Ok(StandingChange { key, standing, before })
    }

    fn ended_window(&mut self) -> Read<EndedWindow> {
        let is_region = self.flags(1)? == 1;
        Ok(EndedWindow { key: self.key()?, path: self.path()?, is_region, end: self.time()? })
    }

    pub(super) fn capacities(&mut self) -> Read<Vec<(Path, u64)>> {
        self.list(limits::RECORD_ITEMS, |reader| Ok((reader.path()?, reader.number()?)))
    }
}
