//! What must hold after every slot, whatever came in: checked in tests, and in a coordinator that is
//! told to. It looks at a slot's outcome and the state after it by scans, not by the searches that
//! decided.

use std::collections::BTreeSet;
use std::fmt;

use super::fit::{AsItStands, Plan};
use super::{AgentOp, Input, Resolver, SlotBatch, SlotOutcome};
use crate::types::{Decision, IntentKey, Mode, RenewDenial, Start, Target, Time, Token, Verdict, Window};

/// Something that must never be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which rule is broken.
    pub rule: &'static str,
    /// By what.
    pub detail: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

impl std::error::Error for Breach {}

fn breach(rule: &'static str, detail: impl fmt::Debug) -> Result<(), Breach> {
    Err(Breach { rule, detail: format!("{detail:?}") })
}

/// A grant as it stood before a slot in which its revision or renewal may be refused.
type Standing = (IntentKey, Option<(Token, Vec<Window>)>);

/// Checks one resolver's slots, from its first one on: [`InvariantCheck::before_slot`], then
/// [`Resolver::resolve`], then [`InvariantCheck::after_slot`].
#[derive(Debug, Default)]
pub struct InvariantCheck {
    last_token: Token,
    standing: Vec<Standing>,
}

impl InvariantCheck {
    /// Notes how the grants stand that a refusal must leave alone: of ids with one message in the slot.
    pub fn before_slot(&mut self, resolver: &Resolver, batch: &SlotBatch) {
        let mut seen = BTreeSet::new();
        let mut again = BTreeSet::new();
        for input in batch.inputs() {
            let Some(key) = key_of(input) else { continue };
            if !seen.insert(key.clone()) {
                again.insert(key);
            }
        }
        let once = seen.into_iter().filter(|key| !again.contains(key));
        self.standing = once.map(|key| (key.clone(), standing(resolver, &key))).collect();
    }

    /// Looks at the slot that has just been decided. The cost is that of what the slot decided, squared.
    ///
    /// # Errors
    /// The first breach that is found.
    pub fn after_slot(&mut self, resolver: &Resolver, outcome: &SlotOutcome) -> Result<(), Breach> {
        self.tokens_rise_by_one(resolver, outcome)?;
        self.refusals_change_nothing(resolver, outcome)?;
        for decision in outcome.decisions.iter().filter(|decision| decision.answers.is_none()) {
            new_grant_fits(resolver, decision)?;
            // A refused revision and its withdrawn grant are told apart, under one id.
            let lines = outcome.decisions.iter().filter(|other| other.key == decision.key);
            if lines.count() == 1 {
                what_ended_is_gone(resolver, decision)?;
            }
        }
        let outlasts = resolver.undecided().find(|it| it.waits_until <= outcome.at);
        outlasts.map_or(Ok(()), |it| breach("nothing waits beyond its wait", it.key))
    }

    fn tokens_rise_by_one(&mut self, resolver: &Resolver, outcome: &SlotOutcome) -> Result<(), Breach> {
        let mut told = BTreeSet::new();
        for token in outcome.decisions.iter().filter_map(|decision| token_of(&decision.verdict)) {
            // A repeat tells one again, of an earlier slot or of this one.
            let is_old = resolver.grant(token).is_none_or(|it| it.granted_at < outcome.at);
            if !told.insert(token) || (token <= self.last_token && is_old) {
                continue;
            }
            if token <= self.last_token {
                return breach("tokens rise in the order of granting", token);
            }
            self.last_token = token;
        }
        let next = resolver.next_token;
        let is_above = next > self.last_token.number();
        if is_above { Ok(()) } else { breach("the next token is above all given", next) }
    }

    fn refusals_change_nothing(&self, resolver: &Resolver, outcome: &SlotOutcome) -> Result<(), Breach> {
        for (key, before) in &self.standing {
            let mut of_key = outcome.decisions.iter().filter(|decision| decision.key == *key);
            let (Some(line), None) = (of_key.next(), of_key.next()) else { continue };
            // One that ended by time in this slot, after its refusal, is gone for that.
            let lasts = |(_, windows): &(Token, Vec<Window>)| windows.iter().any(|it| it.end() > outcome.at);
            let lasted = before.as_ref().is_none_or(lasts);
            if is_refusal(&line.verdict) && lasted && standing(resolver, key) != *before {
                return breach("a refused revision or renewal changes nothing", line);
            }
        }
        Ok(())
    }
}

fn key_of(input: &Input) -> Option<IntentKey> {
    let Input::Agent { agent, op, .. } = input else { return None };
    let id = match op {
        AgentOp::Declare(intent) | AgentOp::Revise(intent) => intent.id,
        AgentOp::Invalid { id, .. } | AgentOp::Release { id } | AgentOp::Renew { id, .. } => *id,
    };
    Some(IntentKey { agent: agent.clone(), id })
}

fn standing(resolver: &Resolver, key: &IntentKey) -> Option<(Token, Vec<Window>)> {
    let token = resolver.book.record(key)?.grant?;
    resolver.grant(token).map(|view| (token, view.windows.to_vec()))
}

fn token_of(verdict: &Verdict) -> Option<Token> {
    match verdict {
        Verdict::Granted { token, .. } | Verdict::Moved { token, .. } => Some(*token),
        _ => None,
    }
}

fn is_refusal(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Conflict(conflict) => conflict.kept,
        Verdict::Stale { kept, .. } | Verdict::Rejected { kept, .. } => *kept,
        Verdict::RenewDenied(RenewDenial::Kept { .. }) => true,
        _ => false,
    }
}

/// No two incompatible grants overlap beyond the thresholds, no capacity is exceeded, and nobody
/// writes between a reading and the grant that rests on it. A shrink is granted as it stands, even
/// where a capacity has been lowered: it is no new placement and answers its message.
fn new_grant_fits(resolver: &Resolver, decision: &Decision) -> Result<(), Breach> {
    let Some(grant) = token_of(&decision.verdict).and_then(|token| resolver.grant(token)) else {
        return Ok(());
    };
    let plan = Plan::new(decision.key.clone(), &grant.intent.claims, &resolver.settings);
    let conflicts = resolver.ledger.conflicts(&plan, &AsItStands, grant.windows);
    if !conflicts.is_empty() {
        return breach("what is granted conflicts with no grant", (decision, conflicts.pairs));
    }
    for expect in grant.intent.expects.iter() {
        if writes_between(resolver, &decision.key, &expect.path, expect.as_of, grant.start) {
            return breach("nobody writes between a reading and its grant", decision);
        }
    }
    let in_time = grant.intent.start == Start::Asap
        || matches!(grant.intent.start, Start::At(start) if start <= grant.start);
    if in_time { Ok(()) } else { breach("nothing starts before its start", decision) }
}

fn writes_between(
    resolver: &Resolver,
    key: &IntentKey,
    path: &crate::types::Path,
    as_of: Time,
    start: Time,
) -> bool {
    let Some(range) = Window::new(as_of, start) else { return false };
    let mut found = false;
    resolver.ledger.scan(&Target::Path(path.clone()), Mode::Shared, range, |place| {
        found |= resolver.ledger.group(place.group).is_some_and(|group| group.key != *key);
    });
    found
}

/// An intent whose end has been told stands for nothing any longer.
fn what_ended_is_gone(resolver: &Resolver, decision: &Decision) -> Result<(), Breach> {
    let has_ended = match &decision.verdict {
        Verdict::Conflict(conflict) => conflict.is_final && !conflict.kept,
        Verdict::Stale { kept, .. } => !kept,
        Verdict::Revoked { waiting, .. } => !waiting,
        _ => false,
    };
    let record = resolver.book.record(&decision.key);
    let lives = record.is_some_and(|it| it.grant.is_some() || it.undecided.is_some());
    if has_ended && lives { breach("what has ended is gone", decision) } else { Ok(()) }
}
