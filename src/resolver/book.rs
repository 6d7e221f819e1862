//! The book: what each intent's id stands for, and every grant in force.

mod consistency;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use super::digest::{Item, ItemHasher, StateDigest};
use super::ledger::{GroupId, Ledger};
pub(super) use super::state::{Ended, Undecided};
use super::state::{Granted, SlotChanges, Standing, StandingChange};
use crate::limits;
use crate::types::{Agent, FixedMap, Intent, IntentKey, Micros, TaskId, Time, Token, Verdict, Window};

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
    fn to_state(&self, windows: &[Window]) -> Granted {
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
            group: _, // a number of this process
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
    pub(super) fn of_state(key: IntentKey, state: &Granted, group: GroupId) -> Self {
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

/// What an id stands for. A grant may have an undecided revision beside it; nothing else goes together.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) undecided: Option<Undecided>,
    pub(super) grant: Option<Token>,
    pub(super) ended: Option<Ended>,
    /// Its part of the state digest, as of the last slot, and whether it has changed since.
    hash: Option<u128>,
    is_touched: bool,
    /// The content that it stood for as of the last slot, where changes are reported.
    settled: Option<Arc<Intent>>,
}

impl Record {
    /// A record as it stands between two slots, and the grant that goes with it.
    pub(super) fn settled(standing: Standing, hash: u128) -> (Self, Option<Granted>) {
        let settled = standing.intent().cloned();
        let Standing { undecided, grant, ended } = standing;
        let token = grant.as_ref().map(|granted| granted.token);
        let record = Record { undecided, grant: token, ended, hash: Some(hash), is_touched: false, settled };
        (record, grant)
    }

    fn is_blank(&self) -> bool {
        self.undecided.is_none() && self.grant.is_none() && self.ended.is_none()
    }
}

/// Every intent that is undecided, granted or remembered.
#[derive(Debug, Default)]
pub(super) struct Book {
    records: FixedMap<IntentKey, Record>,
    grants: BTreeMap<Token, Grant>,
    by_end: BTreeSet<(Time, Token)>,
    /// Each agent's grants, by when it began or begins to hold them.
    by_agent: FixedMap<Agent, BTreeSet<(Time, Token)>>,
    /// How many leases each task holds.
    leases: FixedMap<Task, usize>,
    undecided: BTreeSet<IntentKey>,
    /// Ended intents in the order in which they ended, with that time.
    ended: VecDeque<(Time, IntentKey)>,
    /// Ids whose records changed in this slot, in no order that matters.
    touched: Vec<IntentKey>,
    /// Ids that were remembered in this slot, and how many were forgotten.
    remembered: Vec<IntentKey>,
    forgotten: usize,
}

impl Book {
    /// A book with room for so many records and none yet, that remembers these ended ids.
    pub(super) fn restore(ended: VecDeque<(Time, IntentKey)>, records: usize) -> Self {
        let mut book = Book { ended, ..Book::default() };
        book.records.reserve(records);
        book
    }

    /// Enters a record as it stands between two slots.
    pub(super) fn restore_record(&mut self, key: &IntentKey, record: Record) {
        if record.undecided.is_some() {
            self.undecided.insert(key.clone());
        }
        self.records.insert(key.clone(), record);
    }

    /// Enters the grants of all records: trees are built at once in a fraction of the time that it takes
    /// to insert as much.
    pub(super) fn restore_grants(&mut self, grants: Vec<Grant>) {
        self.by_end = grants.iter().map(|grant| (grant.end, grant.token)).collect();
        grants.iter().for_each(|grant| self.index_holder(grant));
        self.grants = grants.into_iter().map(|grant| (grant.token, grant)).collect();
    }

    /// The id's record, to be changed; a blank one that stays so is dropped at the end of the slot.
    fn touch(&mut self, key: &IntentKey) -> &mut Record {
        let record = self.records.entry(key.clone()).or_default();
        if !std::mem::replace(&mut record.is_touched, true) {
            self.touched.push(key.clone());
        }
        record
    }

    pub(super) fn record(&self, key: &IntentKey) -> Option<&Record> {
        self.records.get(key)
    }

    pub(super) fn grant(&self, token: Token) -> Option<&Grant> {
        self.grants.get(&token)
    }

    pub(super) fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.values()
    }

    pub(super) fn grants_after(&self, after: Token) -> impl Iterator<Item = &Grant> {
        self.grants.range((Excluded(after), Unbounded)).map(|(_, grant)| grant)
    }

    /// The grant that a message of that arrival finds in force.
    pub(super) fn in_force(&self, key: &IntentKey, arrival: Time) -> Option<&Grant> {
        let token = self.records.get(key)?.grant?;
        self.grants.get(&token).filter(|grant| grant.end > arrival)
    }

    pub(super) fn undecided(&self, key: &IntentKey) -> Option<&Undecided> {
        self.records.get(key)?.undecided.as_ref()
    }

    pub(super) fn undecided_mut(&mut self, key: &IntentKey) -> Option<&mut Undecided> {
        self.touch(key).undecided.as_mut()
    }

    /// Every undecided intent, by key.
    pub(super) fn all_undecided(&self) -> impl Iterator<Item = (&IntentKey, &Undecided)> {
        self.undecided.iter().filter_map(|key| Some((key, self.undecided(key)?)))
    }

    pub(super) fn undecided_after(
        &self,
        after: &IntentKey,
    ) -> impl Iterator<Item = (&IntentKey, &Undecided)> {
        let keys = self.undecided.range((Excluded(after), Unbounded));
        keys.filter_map(|key| Some((key, self.undecided(key)?)))
    }

    pub(super) fn has_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// The earliest end of a grant.
    pub(super) fn first_end(&self) -> Option<Time> {
        self.by_end.first().map(|(end, _)| *end)
    }

    /// What the id stands for by its content is `undecided` from here on; a grant beside it stays.
    pub(super) fn set_undecided(&mut self, key: &IntentKey, undecided: Undecided) {
        let record = self.touch(key);
        if undecided.revises.is_none() {
            record.ended = None;
        }
        record.undecided = Some(undecided);
        self.undecided.insert(key.clone());
    }

    pub(super) fn take_undecided(&mut self, key: &IntentKey) -> Option<Undecided> {
        self.undecided.remove(key);
        self.touch(key).undecided.take()
    }

    /// The id stands for this grant from here on.
    pub(super) fn set_grant(&mut self, grant: Grant) {
        let record = self.touch(&grant.key);
        record.grant = Some(grant.token);
        record.ended = None;
        self.index_grant(grant);
    }

    fn index_grant(&mut self, grant: Grant) {
        self.by_end.insert((grant.end, grant.token));
        self.index_holder(&grant);
        self.grants.insert(grant.token, grant);
    }

    fn index_holder(&mut self, grant: &Grant) {
        let of_agent = self.by_agent.entry(grant.key.agent.clone()).or_default();
        of_agent.insert((grant.held_from(), grant.token));
        if grant.intent.hold {
            *self.leases.entry(grant.task()).or_default() += 1;
        }
    }

    /// Takes a grant out; its id stands for nothing by it any longer.
    pub(super) fn take_grant(&mut self, token: Token) -> Option<Grant> {
        let grant = self.grants.remove(&token)?;
        self.by_end.remove(&(grant.end, token));
        let record = self.touch(&grant.key);
        record.grant = record.grant.filter(|current| *current != token);
        let of_agent = self.by_agent.get_mut(&grant.key.agent);
        if of_agent.is_some_and(|held| held.remove(&(grant.held_from(), token)) && held.is_empty()) {
            self.by_agent.remove(&grant.key.agent);
        }
        let leases = self.leases.get_mut(&grant.task()).filter(|_| grant.intent.hold);
        if leases.is_some_and(|count| {
            *count -= 1;
            *count == 0
        }) {
            self.leases.remove(&grant.task());
        }
        Some(grant)
    }

    /// Whether the task holds a lease.
    pub(super) fn holds_lease(&self, task: &Task) -> bool {
        self.leases.contains_key(task)
    }

    pub(super) fn set_end(&mut self, token: Token, end: Time) {
        let Some(grant) = self.grants.get_mut(&token) else { return };
        self.by_end.remove(&(grant.end, token));
        grant.end = end;
        self.by_end.insert((end, token));
        let key = grant.key.clone();
        self.touch(&key);
    }

    /// A message found the id's grant ended: the id stands for what has ended, until the grant
    /// itself expires at the slot's decision time `now`.
    pub(super) fn detach_ended_grant(&mut self, key: &IntentKey, arrival: Time, now: Time) {
        let Some(record) = self.records.get_mut(key) else { return };
        let Some(grant) = record.grant.and_then(|token| self.grants.get_mut(&token)) else { return };
        if grant.end > arrival {
            return;
        }
        let line = (!grant.intent.hold).then(|| grant.line());
        let ended = Ended { intent: grant.intent.clone(), at: now, line };
        record.grant = None;
        self.remember(key, ended);
    }

    /// Remembers what the id stood for and its last line.
    pub(super) fn remember(&mut self, key: &IntentKey, ended: Ended) {
        self.ended.push_back((ended.at, key.clone()));
        self.remembered.push(key.clone());
        self.touch(key).ended = Some(ended);
    }

    /// The last line of an intent that has ended and was still to be told of it.
    pub(super) fn set_ended_line(&mut self, key: &IntentKey, line: Verdict) {
        if let Some(ended) = self.touch(key).ended.as_mut() {
            ended.line = Some(line);
        }
    }

    /// What is remembered of the id for a message of that arrival.
    pub(super) fn remembered(&self, key: &IntentKey, arrival: Time, retention: Micros) -> Option<&Ended> {
        let ended = self.records.get(key)?.ended.as_ref()?;
        (arrival < ended.at.after(retention)).then_some(ended)
    }

    /// Forgets what ended so long ago that no message can find it, and the oldest beyond the limit.
    pub(super) fn forget(&mut self, now: Time, retention: Micros) {
        while let Some((at, _)) = self.ended.front() {
            if at.after(retention) > now && self.ended.len() <= limits::ENDED_IDS {
                return;
            }
            let Some((at, key)) = self.ended.pop_front() else { return };
            self.forgotten += 1;
            let record = self.touch(&key);
            record.ended = record.ended.take().filter(|ended| ended.at != at);
        }
    }

    /// Takes what changed in this slot into the state digest, and drops records that stand for nothing.
    /// Notes what each changed id stands for in `changes`, where somebody wants to know.
    pub(super) fn settle(
        &mut self,
        ledger: &Ledger,
        digest: &mut StateDigest,
        mut changes: Option<&mut SlotChanges>,
    ) {
        for key in std::mem::take(&mut self.touched) {
            let Some(record) = self.records.get_mut(&key) else { continue };
            let grant = record.grant.and_then(|token| self.grants.get(&token));
            let hash = (!record.is_blank()).then(|| record.hash_of(&key, grant, ledger));
            let has_changed = record.hash != hash;
            digest.replace(record.hash, hash);
            record.hash = hash;
            record.is_touched = false;
            if let Some(changes) = changes.as_deref_mut().filter(|_| has_changed) {
                let standing = record.standing(grant, ledger);
                let before = std::mem::replace(&mut record.settled, standing.intent().cloned());
                changes.standings.push(StandingChange { key: key.clone(), standing, before });
            }
            if record.is_blank() {
                self.records.remove(&key);
            }
        }
        let (remembered, forgotten) =
            (std::mem::take(&mut self.remembered), std::mem::take(&mut self.forgotten));
        if let Some(changes) = changes {
            (changes.remembered, changes.forgotten) = (remembered, forgotten);
        }
    }

    /// Takes out the grants all of whose windows end at or before `now`, by token.
    pub(super) fn take_expired(&mut self, now: Time) -> Vec<Grant> {
        let due: BTreeSet<Token> =
            self.by_end.iter().take_while(|(end, _)| *end <= now).map(|(_, token)| *token).collect();
        due.into_iter().filter_map(|token| self.take_grant(token)).collect()
    }

    /// How long the agent's grants in force lay within `span`, summed.
    pub(super) fn held_in_force(&self, agent: &Agent, span: Window) -> Micros {
        let own = self.by_agent.get(agent).into_iter().flatten();
        let begun = own.take_while(|(from, _)| *from < span.end());
        let held = begun.filter_map(|(from, token)| Window::new(*from, self.grants.get(token)?.end));
        held.filter_map(|window| window.overlap(span)).fold(Micros::ZERO, |sum, it| sum.plus(it.duration()))
    }
}

impl Record {
    fn hash_of(&self, key: &IntentKey, grant: Option<&Grant>, ledger: &Ledger) -> u128 {
        hash_of(
            key,
            self.undecided.as_ref(),
            grant.map(|grant| (grant, windows_of(grant, ledger))),
            self.ended.as_ref(),
        )
    }

    fn standing(&self, grant: Option<&Grant>, ledger: &Ledger) -> Standing {
        Standing {
            undecided: self.undecided.clone(),
            grant: grant.map(|grant| grant.to_state(windows_of(grant, ledger))),
            ended: self.ended.clone(),
        }
    }
}

fn windows_of<'a>(grant: &Grant, ledger: &'a Ledger) -> &'a [Window] {
    ledger.group(grant.group).map_or(&[], |group| &group.windows)
}

/// The digest's part of what an id stands for.
pub(super) fn hash_of(
    key: &IntentKey,
    undecided: Option<&Undecided>,
    grant: Option<(&Grant, &[Window])>,
    ended: Option<&Ended>,
) -> u128 {
    let mut hasher = ItemHasher::new(Item::Record);
    hasher.key(key);
    hasher.option(undecided, ItemHasher::undecided);
    hasher.option(grant, |hasher, (grant, windows)| hasher.grant(grant, windows));
    hasher.option(ended, ItemHasher::ended);
    hasher.finish()
}
