//! What each id stands for, by number and by key.

use std::hint::black_box;
use std::sync::Arc;

use super::book::{Grant, hash_of, windows_of};
use super::digest::ItemHasher;
use super::ledger::Ledger;
use super::slab::{Number, Slab};
use super::state::{Ended, Standing, Undecided};
use crate::types::{Agent, HashedMap, Intent, IntentId, IntentKey, Token, fixed_hash};

/// A record's number, while there is something that it stands for or that waits to be forgotten.
pub(super) type RecordNo = Number;

/// What an id stands for. A grant may have an undecided revision beside it; nothing else goes together.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) key: IntentKey,
    pub(super) undecided: Option<Undecided>,
    pub(super) grant: Option<Token>,
    /// The number of that grant.
    pub(super) grant_no: Number,
    pub(super) ended: Option<Ended>,
    /// How often it stands in the line of ended ids.
    pub(super) queued: u32,
    /// Its part of the state digest, as of the last slot, and whether it has changed since.
    pub(super) hash: Option<u128>,
    pub(super) is_touched: bool,
    /// Whether it is listed among the undecided; in the slot in which it comes to be, it is fresh.
    pub(super) is_listed: bool,
    pub(super) is_fresh: bool,
    /// The content that it stood for as of the last slot, where changes are reported.
    pub(super) settled: Option<Arc<Intent>>,
    key_hash: u64,
    /// The next record whose key has the same hash.
    next: Option<RecordNo>,
}

impl Record {
    pub(super) fn blank(key: IntentKey) -> Self {
        Record {
            key,
            undecided: None,
            grant: None,
            grant_no: 0,
            ended: None,
            queued: 0,
            hash: None,
            is_touched: false,
            is_listed: false,
            is_fresh: false,
            settled: None,
            key_hash: 0, // as it is entered
            next: None,
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        self.undecided.is_none() && self.grant.is_none() && self.ended.is_none()
    }

    pub(super) fn hash_of(&self, hasher: &mut ItemHasher, grant: Option<&Grant>, ledger: &Ledger) -> u128 {
        hash_of(
            hasher,
            &self.key,
            self.undecided.as_ref(),
            grant.map(|grant| (grant, windows_of(grant, ledger))),
            self.ended.as_ref(),
        )
    }

    pub(super) fn standing(&self, grant: Option<&Grant>, ledger: &Ledger) -> Standing {
        Standing {
            undecided: self.undecided.clone(),
            grant: grant.map(|grant| grant.to_state(windows_of(grant, ledger))),
            ended: self.ended.clone(),
        }
    }
}

/// Records by number, found by key. A key stands in its record alone, so that a look for one reads the table of
/// hashes, which is small, and the record, which is read next anyway.
#[derive(Debug)]
pub(super) struct Records {
    slab: Slab<Record>,
    /// The first record of each hash of a key.
    first: HashedMap<RecordNo>,
    hash: fn(&Agent, IntentId) -> u64,
}

impl Default for Records {
    fn default() -> Self {
        let hash = |agent: &Agent, id: IntentId| fixed_hash(&(agent, id));
        Records { slab: Slab::default(), first: HashedMap::default(), hash }
    }
}

impl Records {
    pub(super) fn reserve(&mut self, more: usize) {
        self.slab.reserve(more);
        self.first.reserve(more);
    }

    pub(super) fn get(&self, no: RecordNo) -> Option<&Record> {
        self.slab.get(no)
    }

    pub(super) fn get_mut(&mut self, no: RecordNo) -> Option<&mut Record> {
        self.slab.get_mut(no)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RecordNo, &Record)> {
        self.slab.iter()
    }

    fn hash_of_key(&self, key: &IntentKey) -> u64 {
        (self.hash)(&key.agent, key.id)
    }

    /// Looks where these keys stand or would stand. Their places lie far apart in a large table: looked at one
    /// right after the other, they come from memory side by side, and are at hand when their turns come.
    pub(super) fn look_ahead<'a>(&self, keys: impl Iterator<Item = (&'a Agent, IntentId)>) {
        let found = keys.filter(|(agent, id)| self.first.contains_key(&(self.hash)(agent, *id)));
        black_box(found.count());
    }

    /// As [`Records::look_ahead`], for records that are to be dropped.
    pub(super) fn look_ahead_to_drop(&self, numbers: &[RecordNo]) {
        let hashes = numbers.iter().filter_map(|no| Some(self.slab.get(*no)?.key_hash));
        black_box(hashes.filter(|hash| self.first.contains_key(hash)).count());
    }

    /// The number of the record of that key, where there is one.
    pub(super) fn find(&self, key: &IntentKey) -> Option<RecordNo> {
        self.find_from(self.first.get(&self.hash_of_key(key)).copied(), key)
    }

    fn find_from(&self, first: Option<RecordNo>, key: &IntentKey) -> Option<RecordNo> {
        let next = |no: &RecordNo| self.slab.get(*no)?.next;
        let mut alike = std::iter::successors(first, next);
        alike.find(|no| self.slab.get(*no).is_some_and(|record| record.key == *key))
    }

    /// The number of the record of that key, and whether it is a new one, which is blank.
    pub(super) fn enter(&mut self, key: &IntentKey) -> (RecordNo, bool) {
        let (new, key_hash) = (self.slab.next(), self.hash_of_key(key));
        let first = *self.first.entry(key_hash).or_insert(new);
        let others = (first != new).then_some(first);
        if let Some(no) = self.find_from(others, key) {
            return (no, false);
        }
        self.slab.put(Record { key_hash, next: others, ..Record::blank(key.clone()) });
        if others.is_some() {
            self.first.insert(key_hash, new);
        }
        (new, true)
    }

    /// Drops a record.
    pub(super) fn remove(&mut self, no: RecordNo) {
        let Some(gone) = self.slab.take(no) else { return };
        let hash = gone.key_hash;
        if self.first.get(&hash) != Some(&no) {
            let is_before = |at: &RecordNo| self.slab.get(*at).is_some_and(|it| it.next == Some(no));
            let before = self.of_hash(hash).find(is_before);
            if let Some(before) = before.and_then(|at| self.slab.get_mut(at)) {
                before.next = gone.next;
            }
        } else if let Some(next) = gone.next {
            self.first.insert(hash, next);
        } else {
            self.first.remove(&hash);
        }
    }

    /// The numbers of the records whose keys have that hash.
    fn of_hash(&self, hash: u64) -> impl Iterator<Item = RecordNo> {
        std::iter::successors(self.first.get(&hash).copied(), |no| self.slab.get(*no)?.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u64) -> IntentKey {
        IntentKey { agent: Agent::new("a").unwrap(), id: IntentId::new(id) }
    }

    /// With a hash that tells nothing apart, and with one that tells some apart.
    #[test]
    fn records_of_one_hash_are_told_apart_in_whatever_order_they_go() {
        let hashes: [fn(&Agent, IntentId) -> u64; 3] =
            [|_, _| 7, |_, id| id.number() % 2, |agent, id| fixed_hash(&(agent, id))];
        for (hash, first) in hashes.into_iter().flat_map(|hash| (0..5).map(move |first| (hash, first))) {
            let mut records = Records { hash, ..Records::default() };
            let numbers: Vec<RecordNo> = (0..5).map(|id| records.enter(&key(id)).0).collect();
            assert!((0..5).all(|id| records.enter(&key(id)) == (numbers[id as usize], false)));
            for nth in 0..5 {
                let gone = (first + 2 * nth) % 5;
                records.remove(numbers[gone as usize]);
                for id in 0..5 {
                    let is_gone = (0..=nth).any(|nth| (first + 2 * nth) % 5 == id);
                    let found = (!is_gone).then_some(numbers[id as usize]);
                    assert_eq!(records.find(&key(id)), found, "{first} {nth} {id}");
                }
            }
            assert!(records.first.is_empty() && records.iter().next().is_none());
        }
    }
}
