//! Snapshots: a head with the small parts of the state, and chunks of items.

use std::sync::Arc;

use super::read::{Read, wrong_at};
use super::standing::{Known, Said, part, parts};
use super::verdict::flag;
use super::{BodyError, Reader, Writer};
use crate::audit::record::StoredOp;
use crate::limits;
use crate::resolver::state::EndedTarget;
use crate::resolver::{ImageHead, ImageItem};
use crate::session::coordinator::{Route, SessionChange};
use crate::types::{IntentKey, Slot, Time};

/// What a snapshot keeps beside the decision core's state.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotExtra {
    /// The rules in force, as the configuration file spells them.
    pub document: Arc<str>,
    /// Inputs that hold from the next slot on.
    pub pending: Vec<StoredOp>,
    /// All sessions, each [`SessionChange::Entered`].
    pub sessions: Vec<SessionChange>,
    /// The number of the next session.
    pub next_session: u64,
}

/// One item of a snapshot.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // read one at a time, and most are the large ones
pub enum SnapshotItem {
    /// Of the decision core's state.
    State(ImageItem),
    /// Where news of an intent goes.
    Route(IntentKey, Route),
}

/// The numbers of items.
mod kind {
    pub(super) const STANDING: u8 = 1;
    pub(super) const ENDED: u8 = 2;
    pub(super) const TARGET: u8 = 3;
    pub(super) const HELD: u8 = 4;
    pub(super) const ROUTE: u8 = 5;
    pub(super) const ROUTE_OF_LOWERED: u8 = 6;
}

mod target {
    /// Bits 0 to 3: the two ends on the path, the two of regions.
    pub(super) const END: u8 = 1;
    pub(super) const FRESH: u8 = 1 << 4;
}

/// Set in a head where a slot was decided.
const HAS_SLOT: u8 = 1;

/// Appends a snapshot's head to `out`.
pub fn encode_head(head: &ImageHead, extra: &SnapshotExtra, out: &mut Vec<u8>) {
    let ImageHead { last_slot, next_token, arrivals, capacities, windows_forgotten, agents_kept } = head;
    let SnapshotExtra { document, pending, sessions, next_session } = extra;
    let mut writer = Writer::new(out, Time::ZERO, 0);
    writer.byte(flag(last_slot.is_some(), HAS_SLOT));
    if let Some(slot) = last_slot {
        writer.number(slot.number());
    }
    for number in [*next_token, *arrivals, windows_forgotten.as_us(), *agents_kept as u64] {
        writer.number(number);
    }
    writer.capacities(capacities);
    writer.text(document);
    writer.list(pending, Writer::stored_op);
    writer.number(*next_session);
    writer.list(sessions, Writer::session);
}

/// Reads a snapshot's head.
///
/// # Errors
/// Where the bytes are no such head, or go on after it.
pub fn decode_head(bytes: &[u8]) -> Result<(ImageHead, SnapshotExtra), BodyError> {
    let mut reader = Reader::new(bytes);
    let has_slot = reader.flags(HAS_SLOT)? == HAS_SLOT;
    let last_slot = if has_slot { Some(Slot::new(reader.number()?)) } else { None };
    let (next_token, arrivals) = (reader.number()?, reader.number()?);
    let (windows_forgotten, agents_kept) = (Time::from_us(reader.number()?), reader.size()?);
    let capacities = reader.capacities()?;
    let document = reader.document()?;
    let pending = reader.list(limits::RECORD_ITEMS, Reader::stored_op)?;
    let next_session = reader.number()?;
    let sessions = reader.list(limits::RECORD_ITEMS, |reader| {
        let at = reader.place();
        match reader.session()? {
            entered @ SessionChange::Entered { .. } => Ok(entered),
            SessionChange::Gone { .. } => Err(wrong_at(at, "a session that is gone")),
        }
    })?;
    reader.end()?;
    let head = ImageHead { last_slot, next_token, arrivals, capacities, windows_forgotten, agents_kept };
    Ok((head, SnapshotExtra { document, pending, sessions, next_session }))
}

/// Writes one chunk of a snapshot: items that [`ItemReader`] reads on their own.
pub struct ItemWriter<'o> {
    writer: Writer<'o>,
}

impl<'o> ItemWriter<'o> {
    /// A chunk at the end of `out`. Times in it are near `near` mostly, and tokens and arrivals near
    /// those of `head`.
    pub fn new(head: &ImageHead, near: Time, out: &'o mut Vec<u8>) -> Self {
        let mut writer = Writer::new(out, near, 0);
        for number in [near.as_us(), head.next_token, head.arrivals] {
            writer.number(number);
        }
        writer.count_from(head.next_token, head.arrivals);
        ItemWriter { writer }
    }

    /// Bytes of what it is written to, so far.
    pub fn written(&self) -> usize {
        self.writer.written()
    }

    /// Appends one item of the decision core's state.
    pub fn item(&mut self, item: &ImageItem) {
        match item {
            ImageItem::Standing(key, standing) => {
                self.writer.byte(kind::STANDING);
                self.writer.byte(parts(standing));
                let place = self.writer.key(key);
                self.writer.standing(standing, place, Said::NOTHING);
            }
            ImageItem::Ended(at, key) => {
                self.writer.byte(kind::ENDED);
                self.writer.key(key);
                self.writer.time(*at);
            }
            ImageItem::Target(target) => self.target(target),
            ImageItem::Held(agent, windows) => {
                self.writer.byte(kind::HELD);
                self.writer.agent(agent);
                self.writer.list(windows, |writer, window| writer.window(*window));
            }
        }
    }

    fn target(&mut self, it: &EndedTarget) {
        let EndedTarget { path, own, regions, last_end, is_fresh } = it;
        let ends = [&own[0], &own[1], &regions[0], &regions[1]];
        let flags = ends.iter().zip(0..).map(|(end, bit)| flag(end.is_some(), target::END << bit));
        let flags: u8 = flags.sum();
        self.writer.byte(kind::TARGET);
        self.writer.byte(flags | flag(*is_fresh, target::FRESH));
        self.writer.path(path);
        self.writer.time(*last_end);
        for (end, key) in ends.into_iter().flatten() {
            self.writer.time(*end);
            self.writer.key(key);
        }
    }

    /// Appends where news of an intent goes.
    pub fn route(&mut self, key: &IntentKey, route: &Route) {
        let Route { label, note, sent } = route;
        self.writer.byte(if sent.is_some() { kind::ROUTE_OF_LOWERED } else { kind::ROUTE });
        self.writer.key(key);
        self.writer.common_text(label);
        self.writer.common_text(note);
        if let Some(sent) = sent {
            self.writer.sent(sent);
        }
    }
}

/// Reads the items of one chunk. Nothing follows an error.
#[derive(Debug)]
pub struct ItemReader<'b> {
    reader: Reader<'b>,
    has_failed: bool,
}

impl<'b> ItemReader<'b> {
    /// The reader of a chunk.
    ///
    /// # Errors
    /// Where the bytes are no chunk.
    pub fn new(chunk: &'b [u8]) -> Result<Self, BodyError> {
        let mut reader = Reader::new(chunk);
        let (near, token, arrivals) = (reader.number()?, reader.number()?, reader.number()?);
        reader.time_from(Time::from_us(near));
        reader.count_from(token, arrivals);
        Ok(ItemReader { reader, has_failed: false })
    }

    fn item(&mut self) -> Read<SnapshotItem> {
        let reader = &mut self.reader;
        let at = reader.place();
        Ok(SnapshotItem::State(match reader.byte()? {
            kind::STANDING => {
                let parts = reader.flags(part::ALL)?;
                let (key, place) = reader.key_and_place()?;
                let standing = reader.standing(parts, key.id, place, Known::NOTHING)?;
                ImageItem::Standing(key, standing)
            }
            kind::ENDED => {
                let key = reader.key()?;
                ImageItem::Ended(reader.time()?, key)
            }
            kind::TARGET => ImageItem::Target(self.target()?),
            kind::HELD => {
                let agent = reader.agent()?;
                ImageItem::Held(agent, reader.list(limits::ENDED_GRANTS_BY_AGENT, Reader::window)?)
            }
            kind @ (kind::ROUTE | kind::ROUTE_OF_LOWERED) => {
                let (key, label, note) = (reader.key()?, reader.common_text()?, reader.common_text()?);
                let sent = if kind == kind::ROUTE { None } else { Some(reader.sent()?) };
                return Ok(SnapshotItem::Route(key, Route { label, note, sent }));
            }
            _ => return Err(wrong_at(at, "an item that is not known")),
        }))
    }

    fn target(&mut self) -> Read<EndedTarget> {
        let reader = &mut self.reader;
        let flags = reader.flags((target::FRESH << 1) - 1)?;
        let (path, last_end) = (reader.path()?, reader.time()?);
        let mut ends = [const { None }; 4];
        for (end, bit) in ends.iter_mut().zip(0..) {
            if flags & (target::END << bit) != 0 {
                *end = Some((reader.time()?, reader.key()?));
            }
        }
        let [first, second, first_region, second_region] = ends;
        let (own, regions) = ([first, second], [first_region, second_region]);
        Ok(EndedTarget { path, own, regions, last_end, is_fresh: flags & target::FRESH != 0 })
    }
}

impl Iterator for ItemReader<'_> {
    type Item = Result<SnapshotItem, BodyError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed || self.reader.is_at_end() {
            return None;
        }
        let item = self.item();
        self.has_failed = item.is_err();
        Some(item)
    }
}
