//! Whether the tables of the book agree, by looking at all of them.

use super::*;
use crate::resolver::invariants::{Breach, holds};

impl Book {
    /// How many grants are in force, and how many intents are undecided.
    pub(in crate::resolver) fn counts(&self) -> (usize, usize) {
        (self.grants.len(), self.undecided.len())
    }

    /// The digest's part of each record, made afresh.
    pub(in crate::resolver) fn hashes(&self, ledger: &Ledger) -> impl Iterator<Item = u128> {
        let mut hasher = ItemHasher::default();
        let known = self.records.iter().filter(|(_, record)| !record.is_blank());
        known.map(move |(_, record)| record.hash_of(&mut hasher, self.grant_of(record), ledger))
    }

    /// # Errors
    /// The first table that says something else than the grants and records do.
    pub(in crate::resolver) fn agrees(&self, ledger: &Ledger) -> Result<(), Breach> {
        holds(self.touched.is_empty(), "what changed has been taken into the digest", &self.touched)?;
        for (no, record) in self.records.iter() {
            holds(self.find(&record.key) == Some(no), "a record is found by its key", &record.key)?;
            self.record_agrees(no, record)?;
        }
        for (token, no) in &self.by_token {
            let Some(grant) = self.grants.get(*no) else {
                return holds(false, "a token is a grant's", token);
            };
            grant_agrees(*token, grant, ledger)?;
            let record = self.records.get(grant.record).filter(|record| record.key == grant.key);
            let stands_for = record.filter(|record| record.grant_no == *no).and_then(|record| record.grant);
            holds(stands_for == Some(*token), "a grant is what its id stands for", token)?;
        }
        holds(self.by_token.len() == self.grants.len(), "each grant has its token", self.grants.len())?;
        self.indexes_agree()
    }

    fn record_agrees(&self, no: RecordNo, record: &Record) -> Result<(), Breach> {
        let key = &record.key;
        let is_needed = !record.is_blank() || record.queued > 0;
        holds(is_needed && !record.is_touched, "a record stands for something", key)?;
        let queued = self.ended.iter().filter(|(_, other)| *other == no).count();
        holds(queued == record.queued as usize, "it is known how often a record is to be forgotten", key)?;
        let is_undecided = record.undecided.is_some();
        holds(record.is_listed == is_undecided && !record.is_fresh, "the undecided are listed", key)?;
        let has_grant = record.grant.is_none_or(|token| self.by_token.contains_key(&token));
        holds(has_grant, "an id stands for a grant that is there", key)?;
        if let Some(it) = &record.undecided {
            let is_told = it.told.is_some() && it.withdrawn_for.is_none();
            holds(is_told && it.revises.is_none() && record.grant.is_none(), "a revision never waits", key)?;
        }
        let Some(ended) = &record.ended else { return Ok(()) };
        let is_queued = self.ended.iter().any(|(at, other)| *at == ended.at && *other == no);
        holds(is_queued && ended.line.is_some(), "what has ended is forgotten in time", key)
    }

    fn indexes_agree(&self) -> Result<(), Breach> {
        let expiring: usize = self.expiring.values().map(Vec::len).sum();
        holds(expiring == self.grants.len(), "each grant expires once", expiring)?;
        let mut by_agent: FixedMap<Agent, BTreeSet<(Time, Token)>> = FixedMap::default();
        let mut leases: FixedMap<Task, usize> = FixedMap::default();
        for (no, grant) in self.grants.iter() {
            let expiring = self.expiring.get(&decided_from(grant.end, self.length));
            let nth = expiring.and_then(|expiring| expiring.get(grant.nth_expiring as usize));
            holds(nth == Some(&no), "grants are found by their ends", grant.token)?;
            note_holder(&mut by_agent, grant);
            if grant.intent.hold {
                *leases.entry(grant.task()).or_default() += 1;
            }
        }
        let is_known = self.by_agent.as_ref().is_none_or(|known| *known == by_agent);
        holds(is_known, "grants are found by their agents", &self.by_agent)?;
        holds(leases == self.leases, "leases are counted by their tasks", &self.leases)?;
        let undecided = self.records.iter().filter(|(_, record)| record.undecided.is_some());
        let undecided: BTreeMap<IntentKey, RecordNo> =
            undecided.map(|(no, record)| (record.key.clone(), no)).collect();
        holds(self.fresh.is_empty(), "the undecided are listed after a slot", &self.fresh)?;
        holds(undecided == self.undecided, "the undecided are listed", &self.undecided)?;
        let is_in_order = self.ended.iter().is_sorted_by_key(|(at, _)| *at);
        holds(is_in_order, "the ended are listed in their order", &self.ended)
    }
}

fn grant_agrees(token: Token, grant: &Grant, ledger: &Ledger) -> Result<(), Breach> {
    let windows = ledger.group(grant.group).map_or(&[][..], |group| &group.windows);
    let end = windows.iter().map(|window| window.end()).max();
    let is_whole = token == grant.token && windows.len() == grant.intent.claims.len();
    holds(is_whole && end == Some(grant.end), "a grant has all its windows, to its end", token)
}
