//! The state that records make: what a snapshot keeps, and what a restart goes on from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::body::{BodyError, ItemReader, ItemWriter, SnapshotExtra, SnapshotItem, decode_head, encode_head};
use super::record::{ChangesPart, Record, StoredInput, StoredOp};
use crate::limits;
use crate::resolver::{Image, ImageHead, ImageItem, StateDigest};
use crate::session::coordinator::{RightsNote, Route, Sent, SessionChange};
use crate::types::{Agent, FixedMap, IntentKey, Slot, Time};

/// The whole state of a coordinator after a record.
#[derive(Debug, Default)]
pub struct State {
    image: Image,
    /// The decision time of the last record's slot.
    at: Time,
    /// The rules in force, as the configuration file spells them; empty before the first record.
    document: Arc<str>,
    /// Inputs of the last record's slot, from its first change of rules on: they hold from the next.
    pending: Vec<StoredOp>,
    sessions: BTreeMap<(Agent, Arc<str>), SessionChange>,
    next_session: u64,
    routes: FixedMap<IntentKey, Route>,
}

/// Why a record does not continue a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discontinuity {
    /// Its bytes are no body.
    Body(BodyError),
    /// Its slot is not after the last one.
    Order {
        /// Its slot.
        slot: Slot,
    },
    /// Applied, it makes another state than the coordinator had that wrote it.
    Digest {
        /// Its slot.
        slot: Slot,
        /// The digest that it holds.
        recorded: StateDigest,
        /// The digest of the state that it makes.
        reached: StateDigest,
    },
}

impl fmt::Display for Discontinuity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discontinuity::Body(error) => error.fmt(f),
            Discontinuity::Order { slot } => {
                write!(f, "slot {} does not come after that of the record before", slot.number())
            }
            Discontinuity::Digest { slot, recorded, reached } => write!(
                f,
                "slot {}: the record's state digest is {recorded}, and the state that it makes has {reached}",
                slot.number()
            ),
        }
    }
}

impl std::error::Error for Discontinuity {}

impl From<BodyError> for Discontinuity {
    fn from(error: BodyError) -> Self {
        Discontinuity::Body(error)
    }
}

impl State {
    /// The decision core's part.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The rules in force, as the configuration file spells them; `None` before the first record.
    pub fn document(&self) -> Option<&Arc<str>> {
        Some(&self.document).filter(|document| !document.is_empty())
    }

    /// The rules that the next slot is decided by, as the configuration file spells them.
    pub fn next_document(&self) -> Option<&Arc<str>> {
        let pending = self.pending.iter().rev().find_map(|op| match op {
            StoredOp::Config { document, .. } => Some(document),
            _ => None,
        });
        pending.or(self.document())
    }

    /// Inputs of the last record's slot that hold from the next slot on.
    pub fn pending(&self) -> &[StoredOp] {
        &self.pending
    }

    /// Every session, as [`SessionChange::Entered`].
    pub fn sessions(&self) -> impl Iterator<Item = &SessionChange> {
        self.sessions.values()
    }

    /// The number of the next session.
    pub fn next_session(&self) -> u64 {
        self.next_session
    }

    /// Where news of each intent in force or undecided goes.
    pub fn routes(&self) -> &FixedMap<IntentKey, Route> {
        &self.routes
    }

    /// Takes the state apart: the decision core's part, and where news of intents goes.
    pub fn into_parts(self) -> (Image, FixedMap<IntentKey, Route>) {
        (self.image, self.routes)
    }

    /// Goes on by a record. Nothing is decided again: what was decided is applied.
    ///
    /// # Errors
    /// Where it is no record, or not the next one, or makes another state than its digest says; the
    /// state is of no use then.
    pub fn apply(&mut self, body: &[u8]) -> Result<Record, Discontinuity> {
        let (record, changes) = Record::decode(body)?;
        self.apply_decoded(&record, changes)?;
        Ok(record)
    }

    /// As [`State::apply`], for a record that has been decoded already.
    ///
    /// # Errors
    /// Those of [`State::apply`].
    pub fn apply_decoded(&mut self, record: &Record, changes: ChangesPart<'_>) -> Result<(), Discontinuity> {
        let image = &self.image;
        if image.last_slot().is_some_and(|last| record.slot <= last) {
            return Err(Discontinuity::Order { slot: record.slot });
        }
        let changes =
            changes.decode(record, &|key| image.standing(key).and_then(|it| it.intent()).cloned())?;
        self.follow_sessions(record);
        for change in &changes.standings {
            if change.standing.undecided.is_none() && change.standing.grant.is_none() {
                self.routes.remove(&change.key);
            }
        }
        let reached = self.image.apply(record.slot, record.at, changes);
        if reached != record.digest {
            let (slot, recorded) = (record.slot, record.digest);
            return Err(Discontinuity::Digest { slot, recorded, reached });
        }
        self.at = record.at;
        self.follow_rules(record);
        Ok(())
    }

    fn follow_rules(&mut self, record: &Record) {
        if let Some(document) = self.next_document().cloned() {
            self.document = document;
        }
        let ops = record.inputs.iter().filter_map(|input| match input {
            StoredInput::System { op, .. } => Some(op),
            StoredInput::Agent { .. } => None,
        });
        self.pending = ops.skip_while(|op| !matches!(op, StoredOp::Config { .. })).cloned().collect();
    }

    fn follow_sessions(&mut self, record: &Record) {
        for change in &record.notes.sessions {
            match change {
                SessionChange::Entered { agent, label, number, .. } => {
                    self.next_session = self.next_session.max(number.saturating_add(1));
                    self.sessions.insert((agent.clone(), Arc::clone(label)), change.clone());
                }
                SessionChange::Gone { agent, label } => {
                    self.sessions.remove(&(agent.clone(), Arc::clone(label)));
                }
            }
        }
        let sent: BTreeMap<usize, &Sent> = record.notes.rights.iter().filter_map(lowered).collect();
        for by in &record.notes.declared {
            let Some(StoredInput::Agent { agent, op, .. }) = record.inputs.get(by.input) else { continue };
            let key = IntentKey { agent: agent.clone(), id: op.id() };
            let new = || Route { label: Arc::clone(&by.label), note: Arc::clone(&by.note), sent: None };
            // The session that declared it first stays the one that hears of it.
            let route = self.routes.entry(key).or_insert_with(new);
            route.note = Arc::clone(&by.note);
            route.sent = sent.get(&by.input).copied().cloned();
        }
    }

    /// Writes the state down, in chunks of bounded size, each handed to `write`.
    ///
    /// # Errors
    /// The first of `write`.
    pub fn write<E>(&self, mut write: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let head = self.image.head();
        let extra = SnapshotExtra {
            document: Arc::clone(&self.document),
            pending: self.pending.clone(),
            sessions: self.sessions.values().cloned().collect(),
            next_session: self.next_session,
        };
        let mut chunk = Vec::new();
        encode_head(&head, &extra, &mut chunk);
        write(&chunk)?;
        let state = self.image.items().map(SnapshotItem::State);
        let mut routes: Vec<(&IntentKey, &Route)> = self.routes.iter().collect();
        routes.sort_unstable_by_key(|(key, _)| *key);
        let routes = routes.into_iter().map(|(key, route)| SnapshotItem::Route(key.clone(), route.clone()));
        let mut items = state.chain(routes).peekable();
        while items.peek().is_some() {
            chunk.clear();
            let mut writer = ItemWriter::new(&head, self.at, &mut chunk);
            while writer.written() < limits::SNAPSHOT_CHUNK_MOSTLY
                && let Some(item) = items.next()
            {
                match &item {
                    SnapshotItem::State(item) => writer.item(item),
                    SnapshotItem::Route(key, route) => writer.route(key, route),
                }
            }
            write(&chunk)?;
        }
        Ok(())
    }
}

/// Makes the state that a log holds, piece by piece: a snapshot's chunks, then records.
#[derive(Debug, Default)]
pub struct Follower {
    snapshot: Option<SnapshotParts>,
    state: State,
}

/// What has been read of a snapshot.
#[derive(Debug)]
struct SnapshotParts {
    head: ImageHead,
    extra: SnapshotExtra,
    items: Vec<ImageItem>,
    routes: Vec<(IntentKey, Route)>,
}

impl Follower {
    /// Takes the next chunk of a snapshot that [`State::write`] wrote.
    ///
    /// # Errors
    /// Where it is none.
    pub fn chunk(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        let Some(parts) = &mut self.snapshot else {
            let (head, extra) = decode_head(bytes)?;
            self.snapshot = Some(SnapshotParts { head, extra, items: Vec::new(), routes: Vec::new() });
            return Ok(());
        };
        for item in ItemReader::new(bytes)? {
            match item? {
                SnapshotItem::State(item) => parts.items.push(item),
                SnapshotItem::Route(key, route) => parts.routes.push((key, route)),
            }
        }
        Ok(())
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// Those of [`State::apply`].
    pub fn record(&mut self, body: &[u8]) -> Result<Record, Discontinuity> {
        self.settle();
        self.state.apply(body)
    }

    /// The state after all that it took.
    pub fn finish(mut self) -> State {
        self.settle();
        self.state
    }

    /// The snapshot is complete.
    fn settle(&mut self) {
        let Some(SnapshotParts { head, extra, items, routes }) = self.snapshot.take() else { return };
        let SnapshotExtra { document, pending, sessions, next_session } = extra;
        let at = Time::ZERO; // the next record tells
        let image = Image::from_parts(head, items.into_iter());
        let routes = routes.into_iter().collect();
        self.state = State { image, at, document, pending, sessions: BTreeMap::new(), next_session, routes };
        for change in sessions {
            let (SessionChange::Entered { agent, label, .. } | SessionChange::Gone { agent, label }) =
                &change;
            self.state.sessions.insert((agent.clone(), Arc::clone(label)), change.clone());
        }
    }
}

/// The input of which a note says that less counts than was sent, and what was.
fn lowered(note: &RightsNote) -> Option<(usize, &Sent)> {
    match note {
        RightsNote::Lowered { input, sent } => Some((*input, sent)),
        RightsNote::Forbidden(_)
        | RightsNote::LeftOut(_)
        | RightsNote::Administered { .. }
        | RightsNote::Drain(_) => None,
    }
}
