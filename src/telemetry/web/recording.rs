//! A part of an audit log, for the page.

use std::sync::Arc;

use super::news::{News, SlotNews, Standings};
use crate::audit::Record;
use crate::limits;
use crate::replay::slot_length;
use crate::resolver::Image;
use crate::types::{Conflict, Micros, Time, Verdict};

/// What the page shows of a log: how things stood, and what happened then, up to a bounded number of claims.
#[derive(Debug, Default)]
pub struct Recording {
    held: Vec<News>,
    slots: Vec<Arc<SlotNews>>,
    weight: usize,
    length: Micros,
    has_more_before: bool,
    has_more_after: bool,
}

impl Recording {
    /// What the records of a recording may take together, as [`Recording::weigh`] says it; how things stood
    /// before them takes as much.
    pub const ROOM: usize = limits::VIEW_CLAIMS / 2;

    /// What is shown of a log from where `image` stood on. `has_more_before`: whether it has records before that.
    pub fn after(image: &Image, has_more_before: bool) -> Self {
        let mut recording = Recording { has_more_before, ..Recording::default() };
        let mut room = Recording::ROOM;
        for (key, standing) in image.standings() {
            let Some(view) = image.look_up(key) else { continue };
            let told = standing.undecided.as_ref().and_then(|it| it.told.as_deref().cloned());
            let waiting = view.undecided.map(|it| News::waiting(&it, told.unwrap_or_else(untold), image));
            for news in view.grant.map(|grant| News::held(&grant)).into_iter().chain(waiting) {
                let Some(rest) = room.checked_sub(news.weight()) else { return recording };
                room = rest;
                recording.held.push(news);
            }
        }
        recording
    }

    /// What a record takes of a recording's room; `image` is the state after it.
    pub fn weigh(record: &Record, image: &Image) -> usize {
        SlotNews::recorded(record, image).weight() + 1
    }

    /// Takes the next record; `image` is the state after it. Whether there was room for it.
    pub fn take(&mut self, record: &Record, image: &Image) -> bool {
        let slot = SlotNews::recorded(record, image);
        let weight = self.weight + slot.weight() + 1;
        if self.has_more_after || weight > Recording::ROOM {
            self.has_more_after = true;
            return false;
        }
        self.length = slot_length(record.slot, record.at).unwrap_or(self.length);
        self.weight = weight;
        self.slots.push(Arc::new(slot));
        true
    }

    /// The decision times of its first slot and of its last; `None` where it has none.
    pub fn span(&self) -> Option<(Time, Time)> {
        Some((self.slots.first()?.at, self.slots.last()?.at))
    }

    /// Whether the log has records before it, and after it.
    pub fn has_more(&self) -> (bool, bool) {
        (self.has_more_before, self.has_more_after)
    }

    pub(super) fn slot_length(&self) -> Micros {
        self.length
    }

    pub(super) fn held(&self) -> &[News] {
        &self.held
    }

    pub(super) fn slots(&self) -> &[Arc<SlotNews>] {
        &self.slots
    }
}

/// What one that waits has been told that was told nothing yet.
fn untold() -> Verdict {
    Verdict::Conflict(Conflict {
        is_final: false,
        deadlock: false,
        offer: None,
        blockers: Vec::new(),
        kept: false,
    })
}
