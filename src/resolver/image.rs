//! The state as plain items: what a snapshot is made of and records are applied to. It decides
//! nothing and has no indexes; [`Resolver::from_image`] builds those once.

use std::collections::{BTreeMap, VecDeque};

use super::batch::SystemOp;
use super::book::{self, Grant, RecordNo};
use super::digest::{ItemHasher, StateDigest};
use super::history::{EndedGrants, EndedWindows};
use super::ledger::{Group, Kind, Ledger};
use super::settings::{Settings, hash_of_capacity};
use super::state::{EndedTarget, Granted, SlotChanges, Standing};
use super::{Change, Resolver, Rules, hash_of_counters};
use crate::types::{Agent, IntentKey, Path, Slot, Time, Window};

/// What an id stands for, with its part of the digest.
#[derive(Debug)]
struct Item {
    standing: Standing,
    hash: u128,
}

/// The decision core's whole state after a slot, but for its rules and what of them is about to change.
#[derive(Debug)]
pub struct Image {
    last_slot: Option<Slot>,
    items: BTreeMap<IntentKey, Item>,
    /// Ended ids in the order in which they are forgotten.
    ended: VecDeque<(Time, IntentKey)>,
    ended_windows: EndedWindows,
    ended_grants: EndedGrants,
    capacities: Vec<(Path, u64)>,
    next_token: u64,
    arrivals: u64,
    digest: StateDigest,
    counters_hash: Option<u128>,
    hasher: ItemHasher,
}

impl Default for Image {
    /// The state before the first slot.
    fn default() -> Self {
        Image {
            last_slot: None,
            items: BTreeMap::new(),
            ended: VecDeque::new(),
            ended_windows: EndedWindows::default(),
            ended_grants: EndedGrants::default(),
            capacities: Vec::new(),
            next_token: 1,
            arrivals: 0,
            digest: StateDigest::default(),
            counters_hash: None,
            hasher: ItemHasher::default(),
        }
    }
}

/// The small parts of an [`Image`], whose size does not grow with the number of intents.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageHead {
    /// The slot that was decided last.
    pub last_slot: Option<Slot>,
    /// The next grant's token.
    pub next_token: u64,
    /// Declarations and revisions taken so far.
    pub arrivals: u64,
    /// The capacities set at run time.
    pub capacities: Vec<(Path, u64)>,
    /// A reading from before this may have missed a window that was forgotten.
    pub windows_forgotten: Time,
    /// How many agents were kept when some that held nothing were last forgotten.
    pub agents_kept: usize,
}

/// The large parts of an [`Image`], item by item, in the order in which they are read back.
#[derive(Clone, Debug, PartialEq)]
pub enum ImageItem {
    /// What an id stands for.
    Standing(IntentKey, Standing),
    /// An id that ended then; the one that is forgotten first comes first.
    Ended(Time, IntentKey),
    /// Ended windows; those that are forgotten first come first.
    Target(EndedTarget),
    /// What an agent held that has ended.
    Held(Agent, Vec<Window>),
}

impl Image {
    /// The slot that was decided last.
    pub fn last_slot(&self) -> Option<Slot> {
        self.last_slot
    }

    /// The digest of the state.
    pub fn digest(&self) -> StateDigest {
        self.digest
    }

    /// The next grant's token.
    pub fn next_token(&self) -> u64 {
        self.next_token
    }

    /// What the id stands for.
    pub fn standing(&self, key: &IntentKey) -> Option<&Standing> {
        self.items.get(key).map(|item| &item.standing)
    }

    /// What every id stands for, by key.
    pub fn standings(&self) -> impl Iterator<Item = (&IntentKey, &Standing)> {
        self.items.iter().map(|(key, item)| (key, &item.standing))
    }

    /// Makes the state after `slot`, decided at `at`, of the state before it. Returns its digest.
    pub fn apply(&mut self, slot: Slot, at: Time, changes: SlotChanges) -> StateDigest {
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
        self.last_slot = Some(slot);
        standings.into_iter().for_each(|change| self.set(change.key, change.standing));
        self.ended.extend(remembered.into_iter().map(|key| (at, key)));
        self.ended.drain(..forgotten.min(self.ended.len()));
        self.ended_windows.apply(&ended_windows, &mut self.digest);
        self.ended_grants.apply(&held, held_from, &mut self.digest);
        if let Some(capacities) = capacities {
            self.set_capacities(&capacities);
        }
        (self.next_token, self.arrivals) = (next_token, arrivals);
        self.count();
        self.digest
    }

    fn set(&mut self, key: IntentKey, standing: Standing) {
        let hash = (!standing.is_blank()).then(|| hash_of(&mut self.hasher, &key, &standing));
        let old = match hash {
            Some(hash) => self.items.insert(key, Item { standing, hash }),
            None => self.items.remove(&key),
        };
        self.digest.replace(old.map(|item| item.hash), hash);
    }

    fn set_capacities(&mut self, capacities: &[(Path, u64)]) {
        for (path, capacity) in &self.capacities {
            self.digest.replace(Some(hash_of_capacity(path, *capacity)), None);
        }
        for (path, capacity) in capacities {
            self.digest.replace(None, Some(hash_of_capacity(path, *capacity)));
        }
        self.capacities = capacities.to_vec();
    }

    fn count(&mut self) {
        let hash = hash_of_counters(self.next_token, self.arrivals, self.ended_windows.forgotten());
        self.digest.replace(self.counters_hash, Some(hash));
        self.counters_hash = Some(hash);
    }

    /// The small parts.
    pub fn head(&self) -> ImageHead {
        ImageHead {
            last_slot: self.last_slot,
            next_token: self.next_token,
            arrivals: self.arrivals,
            capacities: self.capacities.clone(),
            windows_forgotten: self.ended_windows.forgotten(),
            agents_kept: self.ended_grants.by_agent().1,
        }
    }

    /// The large parts, one after the other.
    pub fn items(&self) -> impl Iterator<Item = ImageItem> {
        let standings =
            self.items.iter().map(|(key, item)| ImageItem::Standing(key.clone(), item.standing.clone()));
        let ended = self.ended.iter().map(|(at, key)| ImageItem::Ended(*at, key.clone()));
        let targets = self.ended_windows.targets().map(ImageItem::Target);
        let (held, _) = self.ended_grants.by_agent();
        let held =
            held.map(|(agent, windows)| ImageItem::Held(agent.clone(), windows.iter().copied().collect()));
        standings.chain(ended).chain(targets).chain(held)
    }

    /// The image whose parts these are.
    pub fn from_parts(head: ImageHead, items: impl Iterator<Item = ImageItem>) -> Self {
        let ImageHead { last_slot, next_token, arrivals, capacities, windows_forgotten, agents_kept } = head;
        let mut image = Image { last_slot, next_token, arrivals, ..Image::default() };
        let (mut standings, mut targets, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for item in items {
            match item {
                ImageItem::Standing(key, standing) => {
                    let hash = hash_of(&mut image.hasher, &key, &standing);
                    standings.push((key, Item { standing, hash }));
                }
                ImageItem::Ended(at, key) => image.ended.push_back((at, key)),
                ImageItem::Target(target) => targets.push(target),
                ImageItem::Held(agent, windows) => held.push((agent, windows)),
            }
        }
        image.items = standings.into_iter().collect();
        image.items.values().for_each(|item| image.digest.replace(None, Some(item.hash)));
        image.ended_windows = EndedWindows::restore(targets, windows_forgotten, &mut image.digest);
        image.ended_grants = EndedGrants::restore(held, agents_kept, &mut image.digest);
        image.set_capacities(&capacities);
        if image.last_slot.is_some() {
            image.count();
        }
        image
    }
}

fn hash_of(hasher: &mut ItemHasher, key: &IntentKey, standing: &Standing) -> u128 {
    let Standing { undecided, grant, ended } = standing;
    let grant = grant.as_ref().map(|state| (Grant::of_state(key.clone(), state, 0, 0), &*state.windows));
    let grant = grant.as_ref().map(|(grant, windows)| (grant, *windows));
    book::hash_of(hasher, key, undecided.as_ref(), grant, ended.as_ref())
}

impl Resolver {
    /// The decision core in the state of `image`, under `rules`. `pending` are the inputs of the last
    /// slot from its first change of rules on: they hold from the next slot on.
    pub fn from_image(image: Image, rules: Rules, pending: &[SystemOp]) -> Self {
        let mut settings = Settings::new(&rules.resources);
        image.capacities.iter().for_each(|(path, capacity)| settings.set_capacity(path, *capacity));
        settings.settle(&mut StateDigest::default()); // the image's digest has them already
        let mut ledger = Ledger::default();
        settings.all_pools().for_each(|path| ledger.open_pool(path));
        let mut resolver = Resolver {
            next_token: image.next_token,
            arrivals: image.arrivals,
            last_slot: image.last_slot,
            digest: image.digest,
            counters_hash: image.counters_hash,
            ended_windows: image.ended_windows,
            ended_grants: image.ended_grants,
            settings,
            ledger,
            ..Resolver::new(rules)
        };
        resolver.book.reserve(image.items.len());
        let mut grants = Vec::new();
        for (key, Item { standing, hash }) in image.items {
            let (no, granted) = resolver.book.restore_record(&key, standing, hash);
            grants.extend(granted.map(|granted| (key, no, granted)));
        }
        resolver.book.restore_ended(image.ended);
        // As they were given: their windows come nearly in order too, and the newest lie together.
        grants.sort_unstable_by_key(|(_, _, granted)| granted.token);
        let grants = grants.into_iter().map(|(key, no, granted)| resolver.restore_group(key, no, granted));
        let grants = grants.collect();
        resolver.book.restore_grants(grants);
        resolver.changes = pending.iter().filter_map(Change::of).collect();
        resolver
    }

    /// Lays a grant's windows.
    fn restore_group(&mut self, key: IntentKey, record: RecordNo, mut granted: Granted) -> Grant {
        let group = self.ledger.add(Group {
            key: key.clone(),
            kind: Kind::Granted(granted.token),
            class: granted.intent.class,
            claims: granted.intent.claims.clone(),
            tolerances: self.settings.tolerances(&granted.intent.claims),
            windows: std::mem::take(&mut granted.windows).into(),
        });
        Grant::of_state(key, &granted, group, record)
    }
}

impl Change {
    /// What an operator's input changes from the next slot on, once a change of rules is under way.
    fn of(op: &SystemOp) -> Option<Self> {
        match op {
            SystemOp::Config(change) => Some(Change::Rules(change.clone())),
            SystemOp::Capacity { path, capacity } => Some(Change::Capacity(path.clone(), *capacity)),
            SystemOp::Release { .. } | SystemOp::Restart { .. } => None,
        }
    }
}
