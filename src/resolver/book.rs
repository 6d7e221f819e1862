//! The book: what each intent's id stands for, and every grant in force.

mod consistency;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hint::black_box;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use super::digest::{Item, ItemHasher, StateDigest};
use super::ledger::{GroupId, Ledger};
use super::records::Records;
pub(super) use super::records::{Record, RecordNo};
use super::slab::{Number, Slab};
pub(super) use super::state::{Ended, Undecided};
use super::state::{Granted, SlotChanges, Standing, StandingChange};
use crate::limits;
use crate::types::{
    Agent, FixedMap, Intent, IntentId, IntentKey, Micros, Slot, TaskId, Time, Token, Verdict, Window,
};

/// A task: an agent and what it is doing.
pub(super) type Task = (Agent, TaskId);

/// A grant in force.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) key: IntentKey,
    pub(super) token: Token,
    pub(super) intent: Arc<Intent>,
    pub(super) start: Time,
    pub(super) end: Time,
    /// The decision time of the slot that granted it.
    pub(super) granted_at: Time,
    pub(super) arrival: Time,
    pub(super) arrival_number: u64,
    pub(super) held_since: Option<Time>,
    pub(super) was_moved: bool,
    pub(super) group: GroupId,
    /// Its id's record.
    pub(super) record: RecordNo,
    /// Where it stands among those that expire in the same slot.
    pub(super) nth_expiring: Number,
}

impl Grant {
    pub(super) fn task(&self) -> Task {
        (self.key.agent.clone(), self.intent.task)
    }

    /// From when on it is held: its start, or the decision that granted it, if later.
    pub(super) fn held_from(&self) -> Time {
        self.start.max(self.granted_at)
    }

    /// The grant as data, with the windows that it has.
    pub(super) fn to_state(&self, windows: &[Window]) -> Granted {
        let Grant {
            key: _,
            token,
            intent,
            start,
            end,
            granted_at,
            arrival,
            arrival_number,
            held_since,
            was_moved,
            group: _, // numbers of this process
            record: _,
            nth_expiring: _,
        } = self;
        Granted {
            token: *token,
            intent: intent.clone(),
            start: *start,
            end: *end,
            granted_at: *granted_at,
            arrival: *arrival,
            arrival_number: *arrival_number,
            held_since: *held_since,
            was_moved: *was_moved,
            windows: windows.to_vec(),
        }
    }

    /// The grant of `key` that `state` tells of, whose windows stand in `group`.
    pub(super) fn of_state(key: IntentKey, state: &Granted, group: GroupId, record: RecordNo) -> Self {
        let Granted {
            token,
            intent,
            start,
            end,
            granted_at,
            arrival,
            arrival_number,
            held_since,
            was_moved,
            windows: _, // the ledger's
        } = state;
        Grant {
            key,
            token: *token,
            intent: intent.clone(),
            start: *start,
            end: *end,
            granted_at: *granted_at,
            arrival: *arrival,
            arrival_number: *arrival_number,
            held_since: *held_since,
            was_moved: *was_moved,
            group,
            record,
            nth_expiring: 0,
        }
    }

    /// The line that tells of it, with its present end.
    pub(super) fn line(&self) -> Verdict {
        let (start, end, token) = (self.start, self.end, self.token);
        if self.was_moved {
            Verdict::Moved { start, end, token }
        } else {
            Verdict::Granted { start, end, token }
        }
    }
}

/// Every intent that is undecided, granted or remembered.
#[derive(Debug)]
pub(super) struct Book {
    records: Records,
    grants: Slab<Grant>,
    by_token: BTreeMap<Token, Number>,
    /// Grants by the slot in which they expire, in no order that matters; each knows where it stands.
    expiring: BTreeMap<Slot, Vec<Number>>,
    length: Micros,
    /// Each agent's grants, by when it began or begins to hold them: kept where somebody asks.
    by_agent: Option<FixedMap<Agent, BTreeSet<(Time, Token)>>>,
    /// How many leases each task holds.
    leases: FixedMap<Task, usize>,
    /// The undecided, by key, but for those that came to be in this slot.
    undecided: BTreeMap<IntentKey, RecordNo>,
    fresh: Vec<RecordNo>,
    /// Ended intents in the order in which they ended, with that time.
    ended: VecDeque<(Time, RecordNo)>,
    /// Records that changed in this slot, in no order that matters.
    touched: Vec<RecordNo>,
    /// Ids that were remembered in this slot, and how many were forgotten.
    remembered: Vec<RecordNo>,
    forgotten: usize,
    hasher: ItemHasher,
}

impl Book {
    /// An empty book for slots of that length.
    pub(super) fn new(length: Micros) -> Self {
        Book {
            records: Records::default(),
            grants: Slab::default(),
            by_token: BTreeMap::new(),
            expiring: BTreeMap::new(),
            length,
            by_agent: None,
            leases: FixedMap::default(),
            undecided: BTreeMap::new(),
            fresh: Vec::new(),
            ended: VecDeque::new(),
            touched: Vec::new(),
            remembered: Vec::new(),
            forgotten: 0,
            hasher: ItemHasher::default(),
        }
    }

    /// Makes room for so many records.
    pub(super) fn reserve(&mut self, records: usize) {
        self.records.reserve(records);
    }

    /// Enters what an id stands for between two slots, with its part of the digest; returns its number and
    /// the grant that goes with it.
    pub(super) fn restore_record(
        &mut self,
        key: &IntentKey,
        standing: Standing,
        hash: u128,
    ) -> (RecordNo, Option<Granted>) {
        let settled = standing.intent().cloned();
        let Standing { undecided, grant, ended } = standing;
        let is_listed = undecided.is_some();
        let (no, _) = self.records.enter(key);
        if let Some(record) = self.records.get_mut(no) {
            record.grant = grant.as_ref().map(|granted| granted.token);
            (record.undecided, record.ended, record.settled) = (undecided, ended, settled);
            (record.hash, record.is_listed) = (Some(hash), is_listed);
        }
        if is_listed {
            self.undecided.insert(key.clone(), no);
        }
        (no, grant)
    }

    /// Enters the grants of all records: trees are built at once in a fraction of the time that it takes
    /// to insert as much.
    pub(super) fn restore_grants(&mut self, grants: Vec<Grant>) {
        let mut by_token = Vec::with_capacity(grants.len());
        for grant in grants {
            let (token, record) = (grant.token, grant.record);
            let no = self.put_grant(grant);
            by_token.push((token, no));
            if let Some(record) = self.records.get_mut(record) {
                record.grant_no = no;
            }
        }
        self.by_token = by_token.into_iter().collect();
    }

    /// Remembers these ended ids.
    pub(super) fn restore_ended(&mut self, ended: VecDeque<(Time, IntentKey)>) {
        for (at, key) in ended {
            let (no, _) = self.records.enter(&key);
            if let Some(record) = self.records.get_mut(no) {
                record.queued += 1;
                self.ended.push_back((at, no));
            }
        }
    }

    /// From here on it is known what each agent holds, or no longer.
    pub(super) fn follow_holders(&mut self, follow: bool) {
        if !follow {
            self.by_agent = None;
        } else if self.by_agent.is_none() {
            let mut by_agent = FixedMap::default();
            self.grants.iter().for_each(|(_, grant)| note_holder(&mut by_agent, grant));
            self.by_agent = Some(by_agent);
        }
    }

    /// The number of the id's record, and whether it is a new one; one that stays blank is dropped at the end
    /// of the slot.
    pub(super) fn enter(&mut self, key: &IntentKey) -> (RecordNo, bool) {
        let (no, is_new) = self.records.enter(key);
        if is_new {
            self.touch(no);
        }
        (no, is_new)
    }

    /// Looks where these ids stand: see [`Records::look_ahead`].
    pub(super) fn look_ahead<'a>(&self, keys: impl Iterator<Item = (&'a Agent, IntentId)>) {
        self.records.look_ahead(keys);
    }

    /// The number of the id's record, where there is one.
    pub(super) fn find(&self, key: &IntentKey) -> Option<RecordNo> {
        self.records.find(key)
    }

    /// A record, to be changed.
    fn touch(&mut self, no: RecordNo) -> Option<&mut Record> {
        let record = self.records.get_mut(no)?;
        if !std::mem::replace(&mut record.is_touched, true) {
            self.touched.push(no);
        }
        Some(record)
    }

    pub(super) fn record(&self, key: &IntentKey) -> Option<&Record> {
        self.records.get(self.find(key)?)
    }

    pub(super) fn numbered(&self, no: RecordNo) -> Option<&Record> {
        self.records.get(no)
    }

    pub(super) fn grant(&self, token: Token) -> Option<&Grant> {
        self.grants.get(*self.by_token.get(&token)?)
    }

    /// The grant that the record stands for.
    pub(super) fn grant_of(&self, record: &Record) -> Option<&Grant> {
        record.grant.and_then(|_| self.grants.get(record.grant_no))
    }

    pub(super) fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.by_token.values().filter_map(|no| self.grants.get(*no))
    }

    pub(super) fn grants_after(&self, after: Token) -> impl Iterator<Item = &Grant> {
        self.by_token.range((Excluded(after), Unbounded)).filter_map(|(_, no)| self.grants.get(*no))
    }

    /// The grant that a message of that arrival finds in force.
    pub(super) fn in_force(&self, no: RecordNo, arrival: Time) -> Option<&Grant> {
        self.grant_of(self.records.get(no)?).filter(|grant| grant.end > arrival)
    }

    pub(super) fn undecided(&self, no: RecordNo) -> Option<&Undecided> {
        self.records.get(no)?.undecided.as_ref()
    }

    pub(super) fn undecided_mut(&mut self, no: RecordNo) -> Option<&mut Undecided> {
        self.touch(no)?.undecided.as_mut()
    }

    /// Every undecided intent, by key, but for those that came to be in this slot.
    pub(super) fn all_undecided(&self) -> impl Iterator<Item = (&IntentKey, &Undecided)> {
        self.undecided.iter().filter_map(|(key, no)| Some((key, self.undecided(*no)?)))
    }

    /// The numbers of all that are undecided, in no order that matters.
    pub(super) fn numbers_of_undecided(&self) -> Vec<RecordNo> {
        let fresh = self.fresh.iter().filter(|no| self.undecided(**no).is_some());
        self.undecided.values().chain(fresh).copied().collect()
    }

    pub(super) fn undecided_after(
        &self,
        after: &IntentKey,
    ) -> impl Iterator<Item = (&IntentKey, &Undecided)> {
        let listed = self.undecided.range((Excluded(after), Unbounded));
        listed.filter_map(|(key, no)| Some((key, self.undecided(*no)?)))
    }

    pub(super) fn has_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// Lists those that came to be undecided in this slot and still are: most are decided in it.
    pub(super) fn list_fresh(&mut self) {
        for no in std::mem::take(&mut self.fresh) {
            let Some(record) = self.records.get_mut(no) else { continue };
            record.is_fresh = false;
            if record.undecided.is_some() {
                record.is_listed = true;
                self.undecided.insert(record.key.clone(), no);
            }
        }
    }

    /// The slot in which the next grant expires.
    pub(super) fn first_expiry(&self) -> Option<Slot> {
        self.expiring.first_key_value().map(|(slot, _)| *slot)
    }

    /// What the id stands for by its content is `undecided` from here on; a grant beside it stays.
    pub(super) fn set_undecided(&mut self, no: RecordNo, undecided: Undecided) {
        let Some(record) = self.touch(no) else { return };
        if undecided.revises.is_none() {
            record.ended = None;
        }
        record.undecided = Some(undecided);
        if !record.is_listed && !std::mem::replace(&mut record.is_fresh, true) {
            self.fresh.push(no);
        }
    }

    /// What is undecided of the id, in its turn, to be kept out of the book until it is decided; or given back,
    /// where it waits.
    pub(super) fn lend_undecided(&mut self, no: RecordNo) -> Option<Undecided> {
        self.records.get_mut(no)?.undecided.take()
    }

    /// See [`Book::lend_undecided`].
    pub(super) fn give_back(&mut self, no: RecordNo, undecided: Undecided) {
        if let Some(record) = self.records.get_mut(no) {
            record.undecided = Some(undecided);
        }
    }

    pub(super) fn take_undecided(&mut self, no: RecordNo) -> Option<Undecided> {
        let record = self.touch(no)?;
        let taken = record.undecided.take();
        if std::mem::replace(&mut record.is_listed, false) {
            let key = record.key.clone();
            self.undecided.remove(&key);
        }
        taken
    }

    /// The id stands for this grant from here on.
    pub(super) fn set_grant(&mut self, grant: Grant) {
        let (token, record) = (grant.token, grant.record);
        let no = self.put_grant(grant);
        self.by_token.insert(token, no);
        if let Some(record) = self.touch(record) {
            record.grant = Some(token);
            record.grant_no = no;
            record.ended = None;
        }
    }

    /// Puts a grant into all indexes but that by token.
    fn put_grant(&mut self, mut grant: Grant) -> Number {
        if let Some(by_agent) = &mut self.by_agent {
            note_holder(by_agent, &grant);
        }
        if grant.intent.hold {
            *self.leases.entry(grant.task()).or_default() += 1;
        }
        let no = self.grants.next();
        grant.nth_expiring = self.enter_expiry(no, grant.end);
        self.grants.put(grant)
    }

    fn enter_expiry(&mut self, no: Number, end: Time) -> Number {
        let expiring = self.expiring.entry(decided_from(end, self.length)).or_default();
        expiring.push(no);
        (expiring.len() - 1) as Number
    }

    /// Takes a grant out from among those that expire in its slot; the last of them takes its place there.
    fn leave_expiry(&mut self, end: Time, nth: Number) {
        let slot = decided_from(end, self.length);
        let Some(expiring) = self.expiring.get_mut(&slot) else { return };
        expiring.swap_remove(nth as usize);
        if let Some(moved) = expiring.get(nth as usize).and_then(|no| self.grants.get_mut(*no)) {
            moved.nth_expiring = nth;
        }
        if expiring.is_empty() {
            self.expiring.remove(&slot);
        }
    }

    /// Takes a grant out; its id stands for nothing by it any longer.
    pub(super) fn take_grant(&mut self, token: Token) -> Option<Grant> {
        let no = *self.by_token.get(&token)?;
        let (end, nth) = self.grants.get(no).map(|grant| (grant.end, grant.nth_expiring))?;
        self.leave_expiry(end, nth);
        self.take_numbered(no)
    }

    /// Takes out a grant that is no longer among those that expire.
    fn take_numbered(&mut self, no: Number) -> Option<Grant> {
        let grant = self.grants.take(no)?;
        let token = grant.token;
        self.by_token.remove(&token);
        if let Some(record) = self.touch(grant.record) {
            record.grant = record.grant.filter(|current| *current != token);
        }
        if let Some(by_agent) = &mut self.by_agent {
            let of_agent = by_agent.get_mut(&grant.key.agent);
            if of_agent.is_some_and(|held| held.remove(&(grant.held_from(), token)) && held.is_empty()) {
                by_agent.remove(&grant.key.agent);
            }
        }
        if grant.intent.hold {
            let task = grant.task();
            let left = self.leases.get_mut(&task).map(|count| {
                *count -= 1;
                *count
            });
            if left == Some(0) {
                self.leases.remove(&task);
            }
        }
        Some(grant)
    }

    /// Whether the task holds a lease.
    pub(super) fn holds_lease(&self, task: &Task) -> bool {
        self.leases.contains_key(task)
    }

    pub(super) fn set_end(&mut self, token: Token, end: Time) {
        let Some(no) = self.by_token.get(&token).copied() else { return };
        let Some((was, nth)) = self.grants.get(no).map(|grant| (grant.end, grant.nth_expiring)) else {
            return;
        };
        self.leave_expiry(was, nth);
        let nth = self.enter_expiry(no, end);
        let Some(grant) = self.grants.get_mut(no) else { return };
        (grant.end, grant.nth_expiring) = (end, nth);
        let record = grant.record;
        self.touch(record);
    }

    /// A message found the id's grant ended: the id stands for what has ended, until the grant
    /// itself expires at the slot's decision time `now`.
    pub(super) fn detach_ended_grant(&mut self, no: RecordNo, arrival: Time, now: Time) {
        let Some(grant) = self.records.get(no).and_then(|record| self.grant_of(record)) else { return };
        if grant.end > arrival {
            return;
        }
        let line = (!grant.intent.hold).then(|| grant.line());
        let ended = Ended { intent: grant.intent.clone(), at: now, line };
        if let Some(record) = self.touch(no) {
            record.grant = None;
        }
        self.remember(no, ended);
    }

    /// Remembers what the id stood for and its last line.
    pub(super) fn remember(&mut self, no: RecordNo, ended: Ended) {
        let at = ended.at;
        let Some(record) = self.touch(no) else { return };
        record.queued += 1;
        record.ended = Some(ended);
        self.ended.push_back((at, no));
        self.remembered.push(no);
    }

    /// The last line of an intent that has ended and was still to be told of it.
    pub(super) fn set_ended_line(&mut self, no: RecordNo, line: Verdict) {
        if let Some(ended) = self.touch(no).and_then(|record| record.ended.as_mut()) {
            ended.line = Some(line);
        }
    }

    /// What is remembered of the id for a message of that arrival.
    pub(super) fn remembered(&self, no: RecordNo, arrival: Time, retention: Micros) -> Option<&Ended> {
        let ended = self.records.get(no)?.ended.as_ref()?;
        (arrival < ended.at.after(retention)).then_some(ended)
    }

    /// Forgets what ended so long ago that no message can find it, and the oldest beyond the limit.
    pub(super) fn forget(&mut self, now: Time, retention: Micros) {
        let mut gone = Vec::new();
        while let Some((at, no)) = self.ended.front().copied() {
            if at.after(retention) > now && self.ended.len() <= limits::ENDED_IDS {
                break;
            }
            self.ended.pop_front();
            self.forgotten += 1;
            let Some(record) = self.touch(no) else { continue };
            record.queued -= 1;
            gone.extend(record.ended.take_if(|ended| ended.at == at));
        }
        look_ahead_to_drop(&gone);
    }

    /// Takes what changed in this slot into the state digest, and drops records that stand for nothing.
    /// Notes what each changed id stands for in `changes`, where somebody wants to know.
    pub(super) fn settle(
        &mut self,
        ledger: &Ledger,
        digest: &mut StateDigest,
        mut changes: Option<&mut SlotChanges>,
    ) {
        let (remembered, forgotten) =
            (std::mem::take(&mut self.remembered), std::mem::take(&mut self.forgotten));
        if let Some(changes) = changes.as_deref_mut() {
            let keys = remembered.iter().filter_map(|no| Some(self.records.get(*no)?.key.clone()));
            (changes.remembered, changes.forgotten) = (keys.collect(), forgotten);
        }
        let mut blank = Vec::new();
        for no in std::mem::take(&mut self.touched) {
            let Some(record) = self.records.get_mut(no) else { continue };
            let grant = record.grant.and_then(|_| self.grants.get(record.grant_no));
            let is_blank = record.is_blank();
            let hash = (!is_blank).then(|| record.hash_of(&mut self.hasher, grant, ledger));
            let has_changed = record.hash != hash;
            digest.replace(record.hash, hash);
            record.hash = hash;
            record.is_touched = false;
            if let Some(changes) = changes.as_deref_mut().filter(|_| has_changed) {
                let standing = record.standing(grant, ledger);
                let before = std::mem::replace(&mut record.settled, standing.intent().cloned());
                changes.standings.push(StandingChange { key: record.key.clone(), standing, before });
            }
            if is_blank && record.queued == 0 {
                blank.push(no);
            }
        }
        self.records.look_ahead_to_drop(&blank);
        blank.into_iter().for_each(|no| self.records.remove(no));
    }

    /// Takes out the grants all of whose windows have ended in the slot, by token.
    pub(super) fn take_expired(&mut self, slot: Slot) -> Vec<Grant> {
        let mut due = Vec::new();
        while let Some(first) = self.expiring.first_entry().filter(|first| *first.key() <= slot) {
            due.extend(first.remove());
        }
        let token = |no: Number| self.grants.get(no).map(|grant| (grant.token, no));
        let mut due: Vec<(Token, Number)> = due.into_iter().filter_map(token).collect();
        due.sort_unstable();
        due.into_iter().filter_map(|(_, no)| self.take_numbered(no)).collect()
    }

    /// How long the agent's grants in force lay within `span`, summed; zero where holders are not followed.
    pub(super) fn held_in_force(&self, agent: &Agent, span: Window) -> Micros {
        let own = self.by_agent.as_ref().and_then(|by_agent| by_agent.get(agent)).into_iter().flatten();
        let begun = own.take_while(|(from, _)| *from < span.end());
        let held = begun.filter_map(|(from, token)| Window::new(*from, self.grant(*token)?.end));
        held.filter_map(|window| window.overlap(span)).fold(Micros::ZERO, |sum, it| sum.plus(it.duration()))
    }
}

/// Looks at what is dropped with what has been forgotten. That was last looked at long ago: one after the
/// other, side by side, it comes from memory in a fraction of the time that it takes to wait for each.
fn look_ahead_to_drop(gone: &[Ended]) {
    let intents = gone.iter().map(|ended| Arc::strong_count(&ended.intent));
    black_box(intents.sum::<usize>());
    let claims = gone.iter().map(|ended| Arc::strong_count(&ended.intent.claims));
    black_box(claims.sum::<usize>());
    let paths =
        gone.iter().filter_map(|ended| ended.intent.claims.first()?.target.path().as_str().bytes().next());
    black_box(paths.map(usize::from).sum::<usize>());
}

fn note_holder(by_agent: &mut FixedMap<Agent, BTreeSet<(Time, Token)>>, grant: &Grant) {
    let of_agent = by_agent.entry(grant.key.agent.clone()).or_default();
    of_agent.insert((grant.held_from(), grant.token));
}

/// The first slot that is decided at or after `at`.
pub(super) fn decided_from(at: Time, length: Micros) -> Slot {
    Slot::of(at.before(Micros::from_us(1)), length)
}

/// The windows of a grant.
pub(super) fn windows_of<'a>(grant: &Grant, ledger: &'a Ledger) -> &'a [Window] {
    ledger.group(grant.group).map_or(&[], |group| &group.windows)
}

/// The digest's part of what an id stands for.
pub(super) fn hash_of(
    hasher: &mut ItemHasher,
    key: &IntentKey,
    undecided: Option<&Undecided>,
    grant: Option<(&Grant, &[Window])>,
    ended: Option<&Ended>,
) -> u128 {
    hasher.hash(Item::Record, |hasher| {
        hasher.key(key);
        hasher.option(undecided, ItemHasher::undecided);
        hasher.option(grant, |hasher, (grant, windows)| hasher.grant(grant, windows));
        hasher.option(ended, ItemHasher::ended);
    })
}
