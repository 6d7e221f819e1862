//! What the coordinator decided, as the simulation saw it from outside: each slot that was told, and
//! every grant that there ever was, by token.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::resolver::{Resolver, SlotOutcome};
use crate::types::{Claim, Decision, IntentKey, Slot, Time, Token, Verdict, Window};

/// A grant, in force or ended.
#[derive(Clone, Debug)]
pub(super) struct GrantRecord {
    pub(super) key: IntentKey,
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) hold: bool,
    pub(super) claims: Arc<[Claim]>,
    pub(super) windows: Vec<Window>,
    /// The decision time at which it was no more, and how that came.
    pub(super) ended: Option<(Time, Ending)>,
}

/// How a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// All its windows were over.
    Over,
    /// Its holder, or another process of its name, released it.
    Released,
    /// It was released by the operator, whose word comes before the holder's belief.
    ByOperator,
    /// A revision of its holder's took its place.
    Replaced,
    /// It was withdrawn for a higher class, before its first window began.
    Preempted,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The slots of which something was told.
    pub(super) told: BTreeMap<Slot, Vec<Decision>>,
    pub(super) grants: BTreeMap<Token, GrantRecord>,
    /// Those in force.
    pub(super) live: BTreeSet<Token>,
    /// How many grants each intent has had.
    pub(super) of_intent: BTreeMap<IntentKey, u64>,
}

impl Ledger {
    /// A slot was decided, and told.
    pub(super) fn decided(&mut self, outcome: &SlotOutcome, resolver: &Resolver) {
        if !outcome.decisions.is_empty() {
            self.told.insert(outcome.slot, outcome.decisions.clone());
        }
        self.follow(resolver, outcome.at, &outcome.decisions);
    }

    /// The coordinator goes on from its records, of which there may be more than were told.
    pub(super) fn recovered(&mut self, resolver: &Resolver, at: Time, untold: Vec<(Slot, Vec<Decision>)>) {
        let decisions: Vec<Decision> =
            untold.iter().flat_map(|(_, decisions)| decisions.iter().cloned()).collect();
        self.told.extend(untold);
        self.follow(resolver, at, &decisions);
    }

    fn follow(&mut self, resolver: &Resolver, at: Time, decisions: &[Decision]) {
        decisions.iter().for_each(|decision| self.renew(decision));
        let mut gone = std::mem::take(&mut self.live);
        for view in resolver.grants() {
            gone.remove(&view.token);
            self.live.insert(view.token);
            let known = self.grants.get_mut(&view.token);
            if let Some(record) = known {
                if record.end != view.end {
                    record.end = view.end;
                    record.windows = view.windows.to_vec();
                }
                continue;
            }
            *self.of_intent.entry(view.key.clone()).or_default() += 1;
            let record = GrantRecord {
                key: view.key.clone(),
                start: view.start,
                end: view.end,
                hold: view.intent.hold,
                claims: Arc::clone(&view.intent.claims),
                windows: view.windows.to_vec(),
                ended: None,
            };
            self.grants.insert(view.token, record);
        }
        for token in gone {
            if let Some(record) = self.grants.get_mut(&token) {
                record.ended = Some((at, ending(record, at, decisions)));
            }
        }
    }

    /// A grant may be renewed and end in one slot, after which the core knows it no more.
    fn renew(&mut self, decision: &Decision) {
        let Verdict::Renewed { end } = decision.verdict else { return };
        for token in &self.live {
            let of_it = self.grants.get_mut(token).filter(|record| record.key == decision.key);
            let Some(record) = of_it.filter(|record| record.end < end) else { continue };
            for window in &mut record.windows {
                let longer = Window::new(window.start(), end).filter(|_| window.end() == record.end);
                *window = longer.unwrap_or(*window);
            }
            record.end = end;
        }
    }

    /// Whether what is told of this grant's end may come too late for a holder that acts by its own
    /// clock: it was withdrawn before its time by somebody else.
    pub(super) fn is_withdrawn(&self, token: Token) -> bool {
        let ended = self.grants.get(&token).and_then(|record| record.ended);
        matches!(ended, Some((_, Ending::Preempted | Ending::ByOperator)))
    }
}

fn ending(record: &GrantRecord, at: Time, decisions: &[Decision]) -> Ending {
    let of_it = || decisions.iter().filter(|decision| decision.key == record.key);
    for decision in of_it() {
        match &decision.verdict {
            Verdict::Released { reason: Some(_) } => return Ending::ByOperator,
            Verdict::Released { reason: None } => return Ending::Released,
            Verdict::Revoked { .. } | Verdict::Moved { .. } if decision.answers.is_none() => {
                return Ending::Preempted;
            }
            _ => {}
        }
    }
    if record.end <= at { Ending::Over } else { Ending::Replaced }
}
