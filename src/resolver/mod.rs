//! The decision core: a pure function of state, slot, inputs in arrival order, and rules.
//!
//! [`Resolver::resolve`] takes one [`SlotBatch`] and returns one [`SlotOutcome`]; it cannot fail,
//! knows no clock, and is owned by one caller, so there is no lock around it. docs/DECISIONS.md
//! states the rules.
//!
//! Inside: the `book` knows what each id stands for, the `ledger` which windows stand where, `fit`
//! what conflicts with what, and `history` what has ended. A `run` is one slot while it is decided;
//! `arrivals`, `placement`, `preemption`, `deadlock` and `report` are its steps.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod arrivals;
mod batch;
mod book;
mod capacities;
mod checks;
mod deadlock;
mod digest;
mod few;
mod fit;
mod history;
mod image;
pub mod invariants;
mod keyed;
mod ledger;
mod nodes;
mod outcome;
mod placement;
mod preemption;
mod quiet;
mod records;
mod report;
mod rings;
mod rules;
mod run;
mod settings;
mod shrink;
mod slab;
pub mod state;
mod sums;

pub use batch::{AgentOp, BatchError, Input, RulesChange, SlotBatch, SystemOp};
pub use capacities::CapacityView;
pub use digest::StateDigest;
pub use image::{Image, ImageHead, ImageItem};
pub use outcome::{GrantView, GrantsEnded, Rank, SlotOutcome, StandingView, UndecidedView};
pub use rules::{Resource, Rules};

use state::SlotChanges;

use crate::types::{Conflict, IntentKey, Path, Slot, Time, Token, Verdict};

/// A change that holds from the next slot on.
#[derive(Debug)]
enum Change {
    Rules(Box<RulesChange>),
    /// A capacity that was set after new rules in the same slot: it must outlive their table.
    Capacity(Path, u64),
}

/// The decision core and all its state.
#[derive(Debug)]
pub struct Resolver {
    rules: Rules,
    settings: settings::Settings,
    /// What holds from the next slot on, in the order in which it arrived.
    changes: Vec<Change>,
    book: book::Book,
    ledger: ledger::Ledger,
    ended_windows: history::EndedWindows,
    ended_grants: history::EndedGrants,
    next_token: u64,
    /// Declarations and revisions taken so far: their number orders those of one instant.
    arrivals: u64,
    last_slot: Option<Slot>,
    digest: StateDigest,
    /// The counters' part of the digest, as of the last slot.
    counters_hash: Option<u128>,
    reports_changes: bool,
}

impl Resolver {
    /// A coordinator's state before its first slot.
    pub fn new(rules: Rules) -> Self {
        let settings = settings::Settings::new(&rules.resources);
        let mut ledger = ledger::Ledger::default();
        settings.all_pools().for_each(|path| ledger.open_pool(path));
        let mut book = book::Book::new(rules.length);
        book.follow_holders(rules.model.looks_at_held());
        Resolver {
            settings,
            rules,
            changes: Vec::new(),
            book,
            ledger,
            ended_windows: history::EndedWindows::default(),
            ended_grants: history::EndedGrants::default(),
            next_token: 1,
            arrivals: 0,
            last_slot: None,
            digest: StateDigest::default(),
            counters_hash: None,
            reports_changes: false,
        }
    }

    /// From here on each outcome says what the slot changed in the state.
    #[must_use]
    pub fn reporting_changes(mut self) -> Self {
        self.reports_changes = true;
        self.ended_windows.keep_noted();
        self.ended_grants.keep_noted();
        self
    }

    /// The rules in force. Capacities set at run time are not in their table of resources.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The last slot that was decided, and its decision time; zero both before the first.
    pub fn last_decided(&self) -> (Slot, Time) {
        self.last_slot.map_or_else(Default::default, |slot| (slot, slot.decided_at(self.rules.length)))
    }

    /// Decides one slot. Slots come in rising order; those left out since the last one must lie
    /// before [`Resolver::next_due`], so that nothing would have happened in them.
    pub fn resolve(&mut self, batch: &SlotBatch) -> SlotOutcome {
        debug_assert!(self.last_slot.is_none_or(|last| last < batch.slot()), "slots rise");
        debug_assert!(self.next_due().is_none_or(|due| batch.slot() <= due), "a slot was left out");
        self.last_slot = Some(batch.slot());
        for change in std::mem::take(&mut self.changes) {
            match change {
                Change::Rules(change) => self.change_rules(*change),
                Change::Capacity(path, capacity) => self.set_capacity(&path, capacity),
            }
        }
        run::SlotRun::new(self, batch.slot()).run(batch)
    }

    fn set_capacity(&mut self, path: &Path, capacity: u64) {
        self.settings.set_capacity(path, capacity);
        self.ledger.open_pool(path);
    }

    fn change_rules(&mut self, change: RulesChange) {
        let length = self.rules.length;
        let resources = std::mem::take(&mut self.rules.resources);
        self.rules = Rules { length, ..change.rules };
        self.book.follow_holders(self.rules.model.looks_at_held());
        self.rules.resources = match change.resources {
            Some(resources) => {
                self.settings.replace(&resources);
                self.ledger.resettle(&self.settings);
                resources
            }
            None => resources,
        };
    }

    /// Takes what changed in a slot into the state digest, and says what that was where it is to.
    fn settle(&mut self) -> (StateDigest, Option<SlotChanges>) {
        let mut changes = self.reports_changes.then(SlotChanges::default);
        self.book.settle(&self.ledger, &mut self.digest, changes.as_mut());
        let ended_windows = self.ended_windows.settle(&mut self.digest);
        let held = self.ended_grants.settle(&mut self.digest);
        let capacities = self.settings.settle(&mut self.digest);
        let hash = Some(hash_of_counters(self.next_token, self.arrivals, self.ended_windows.forgotten()));
        self.digest.replace(self.counters_hash, hash);
        self.counters_hash = hash;
        let changes = changes.map(|changes| SlotChanges {
            ended_windows,
            held,
            capacities,
            next_token: self.next_token,
            arrivals: self.arrivals,
            ..changes
        });
        (self.digest, changes)
    }

    /// Whether some intent is still undecided.
    pub fn has_undecided(&self) -> bool {
        self.book.has_undecided()
    }

    /// How many grants are in force, and how many intents are undecided.
    pub fn counts(&self) -> (usize, usize) {
        self.book.counts()
    }

    /// Every grant in force, by token.
    pub fn grants(&self) -> impl Iterator<Item = GrantView<'_>> {
        self.book.grants().filter_map(|grant| self.view(grant))
    }

    /// Every grant in force with a token above `after`, by token. Finds the first in logarithmic time.
    pub fn grants_after(&self, after: Token) -> impl Iterator<Item = GrantView<'_>> {
        self.book.grants_after(after).filter_map(|grant| self.view(grant))
    }

    /// The grant with that token, while it is in force.
    pub fn grant(&self, token: Token) -> Option<GrantView<'_>> {
        self.book.grant(token).and_then(|grant| self.view(grant))
    }

    /// What a repeat of what `key` stands for would be told at `at`; `None` where it is not in force,
    /// undecided or remembered. Of an undecided one that has been told nothing yet: a conflict that goes on.
    pub fn standing(&self, key: &IntentKey, at: Time) -> Option<Verdict> {
        let no = self.book.find(key)?;
        if let Some(grant) = self.book.in_force(no, at) {
            return Some(grant.line());
        }
        if let Some(undecided) = self.book.undecided(no) {
            let untold = || {
                let blockers = Vec::new();
                Verdict::Conflict(Conflict {
                    is_final: false,
                    deadlock: false,
                    offer: None,
                    blockers,
                    kept: false,
                })
            };
            return Some(undecided.told.as_deref().cloned().unwrap_or_else(untold));
        }
        self.book.remembered(no, at, self.rules.retention)?.line.clone()
    }

    /// What `key` stands for; `None` where it stands for nothing.
    pub fn look_up<'a>(&'a self, key: &'a IntentKey) -> Option<StandingView<'a>> {
        let record = self.book.record(key)?;
        Some(StandingView {
            grant: self.book.grant_of(record).and_then(|grant| self.view(grant)),
            undecided: record.undecided.as_ref().map(|it| view_undecided((key, it))),
            ended: record.ended.as_ref().map(|ended| &ended.intent),
        })
    }

    fn view<'a>(&'a self, grant: &'a book::Grant) -> Option<GrantView<'a>> {
        let group = self.ledger.group(grant.group)?;
        Some(GrantView {
            key: &grant.key,
            token: grant.token,
            start: grant.start,
            end: grant.end,
            granted_at: grant.granted_at,
            intent: &grant.intent,
            windows: &group.windows,
        })
    }

    /// Every undecided intent, by agent and id.
    pub fn undecided(&self) -> impl Iterator<Item = UndecidedView<'_>> {
        self.book.all_undecided().map(view_undecided)
    }

    /// Every undecided intent after that key, by agent and id. Finds the first in logarithmic time.
    pub fn undecided_after(&self, after: &IntentKey) -> impl Iterator<Item = UndecidedView<'_>> {
        self.book.undecided_after(after).map(view_undecided)
    }
}

fn hash_of_counters(next_token: u64, arrivals: u64, forgotten: Time) -> u128 {
    digest::ItemHasher::default().hash(digest::Item::Counters, |counters| {
        counters.number(next_token);
        counters.number(arrivals);
        counters.time(forgotten);
    })
}

fn view_undecided<'a>((key, it): (&'a IntentKey, &'a book::Undecided)) -> UndecidedView<'a> {
    let offer = match it.told.as_deref() {
        Some(Verdict::Conflict(conflict)) => conflict.offer,
        Some(Verdict::Revoked { offer, .. }) => *offer,
        _ => None,
    };
    let waits_until = it.waits_from.after(it.intent.wait);
    UndecidedView { key, intent: &it.intent, arrival: it.arrival, waits_until, offer }
}
