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
        self.records.iter().map(|(key, record)| {
            let grant = record.grant.and_then(|token| self.grants.get(&token));
            record.hash_of(key, grant, ledger)
        })
    }

    /// # Errors
    /// The first table that says something else than the grants and records do.
    pub(in crate::resolver) fn agrees(&self, ledger: &Ledger) -> Result<(), Breach> {
        holds(self.touched.is_empty(), "what changed has been taken into the digest", &self.touched)?;
        for (key, record) in &self.records {
            self.record_agrees(key, record)?;
        }
        for (token, grant) in &self.grants {
            grant_agrees(*token, grant, ledger)?;
            let stands_for = self.records.get(&grant.key).and_then(|record| record.grant);
            holds(stands_for == Some(*token), "a grant is what its id stands for", token)?;
        }
        self.indexes_agree()
    }

    fn record_agrees(&self, key: &IntentKey, record: &Record) -> Result<(), Breach> {
        holds(!record.is_blank() && !record.is_touched, "a record stands for something", key)?;
        let has_grant = record.grant.is_none_or(|token| self.grants.contains_key(&token));
        holds(has_grant, "an id stands for a grant that is there", key)?;
        if let Some(it) = &record.undecided {
            let is_told = it.told.is_some() && it.withdrawn_for.is_none();
            holds(is_told && it.revises.is_none() && record.grant.is_none(), "a revision never waits", key)?;
        }
        let Some(ended) = &record.ended else { return Ok(()) };
        let is_queued = self.ended.iter().any(|(at, other)| *at == ended.at && other == key);
        holds(is_queued && ended.line.is_some(), "what has ended is forgotten in time", key)
    }

    fn indexes_agree(&self) -> Result<(), Breach> {
        let by_end: BTreeSet<(Time, Token)> = self.grants.values().map(|it| (it.end, it.token)).collect();
        holds(by_end == self.by_end, "grants are found by their ends", &self.by_end)?;
        let mut by_agent: FixedMap<Agent, BTreeSet<(Time, Token)>> = FixedMap::default();
        let mut leases: FixedMap<Task, usize> = FixedMap::default();
        for grant in self.grants.values() {
            by_agent.entry(grant.key.agent.clone()).or_default().insert((grant.held_from(), grant.token));
            if grant.intent.hold {
                *leases.entry(grant.task()).or_default() += 1;
            }
        }
        holds(by_agent == self.by_agent, "grants are found by their agents", &self.by_agent)?;
        holds(leases == self.leases, "leases are counted by their tasks", &self.leases)?;
        let undecided = self.records.iter().filter(|(_, record)| record.undecided.is_some());
        let undecided: BTreeSet<IntentKey> = undecided.map(|(key, _)| key.clone()).collect();
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
