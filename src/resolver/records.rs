//! What each id stands for, by number and by key.

use std::sync::Arc;

use super::book::{Grant, hash_of, windows_of};
use super::digest::ItemHasher;
use super::keyed::{Keyed, KeyedSlab};
use super::ledger::Ledger;
use super::slab::Number;
use super::state::{Ended, Standing, Undecided};
use crate::types::{Agent, Intent, IntentId, IntentKey, Token, fixed_hash};

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

impl Keyed for Record {
    type Key = IntentKey;

    fn key(&self) -> &IntentKey {
        &self.key
    }
}

fn hash_of_key(agent: &Agent, id: IntentId) -> u64 {
    fixed_hash(&(agent, id))
}

/// Records by number, found by key.
#[derive(Debug, Default)]
pub(super) struct Records(KeyedSlab<Record>);

impl Records {
    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize) {
        self.0.reserve(more);
    }

    pub(super) fn get(&self, no: RecordNo) -> Option<&Record> {
        self.0.get(no)
    }

    pub(super) fn get_mut(&mut self, no: RecordNo) -> Option<&mut Record> {
        self.0.get_mut(no)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RecordNo, &Record)> {
        self.0.iter()
    }

    /// Looks where these keys stand or would stand: see [`KeyedSlab::look_ahead`].
    pub(super) fn look_ahead<'a>(&self, keys: impl Iterator<Item = (&'a Agent, IntentId)>) {
        self.0.look_ahead(keys.map(|(agent, id)| hash_of_key(agent, id)));
    }

    /// As [`Records::look_ahead`], for records that are to be dropped.
    pub(super) fn look_ahead_to_drop(&self, numbers: &[RecordNo]) {
        self.0.look_ahead(numbers.iter().filter_map(|no| self.0.hash_of(*no)));
    }

    /// The number of the record of that key, where there is one.
    pub(super) fn find(&self, key: &IntentKey) -> Option<RecordNo> {
        self.0.find(hash_of_key(&key.agent, key.id), key)
    }

    /// The number of the record of that key, and whether it is a new one, which is blank.
    pub(super) fn enter(&mut self, key: &IntentKey) -> (RecordNo, bool) {
        self.0.enter(hash_of_key(&key.agent, key.id), key, || Record::blank(key.clone()))
    }

    /// Drops a record.
    pub(super) fn remove(&mut self, no: RecordNo) {
        self.0.remove(no);
    }
}
