//! What must hold after every slot, whatever came in: checked in tests, and in a coordinator that is
//! told to. It never decides and never changes anything.
//!
//! It looks at a slot's lines and at the state after it by other means than those that decided:
//! `lives` follows each id from line to line, `stood` keeps the windows that were told in plain sets of
//! its own, and `tables` compares all tables of the state with each other.

mod lives;
mod stood;
mod tables;

use std::collections::BTreeSet;
use std::fmt;

use super::{Input, Resolver, SlotBatch, SlotOutcome, SystemOp};
use crate::types::{Decision, IntentKey, RenewDenial, Token, Verdict, Window};
use lives::{Asked, Lives};
use stood::Stood;
pub use tables::tables_agree;

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

/// A breach of `rule` where it does not hold.
pub(super) fn holds(holds: bool, rule: &'static str, detail: impl fmt::Debug) -> Result<(), Breach> {
    if holds { Ok(()) } else { Err(Breach { rule, detail: format!("{detail:?}") }) }
}

/// A grant as it stood before a slot in which its revision or renewal may be refused.
type Standing = (IntentKey, Option<(Token, Vec<Window>)>);

/// Checks one resolver's slots: [`InvariantCheck::before_slot`], then [`Resolver::resolve`], then
/// [`InvariantCheck::after_slot`]. It may begin at any slot and must miss none from there on, but for
/// those that [`Resolver::next_due`] lets be left out.
#[derive(Debug, Default)]
pub struct InvariantCheck {
    has_begun: bool,
    /// The resolver's before the slot.
    next_token: Token,
    standing: Vec<Standing>,
    asked: Vec<Asked>,
    /// Whether the slot's inputs set a capacity, before or after what they renew.
    sets_capacity: bool,
    restarts: bool,
    lives: Lives,
    stood: Stood,
}

impl InvariantCheck {
    /// Notes what is asked for, and how the grants stand that a refusal must leave alone: of ids with
    /// one message in the slot. The first call looks at the whole state.
    pub fn before_slot(&mut self, resolver: &Resolver, batch: &SlotBatch) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.lives = Lives::of(resolver);
            self.stood = Stood::of(resolver);
        }
        self.next_token = Token::new(resolver.next_token);
        self.asked =
            batch.inputs().iter().enumerate().filter_map(|(at, input)| Asked::of(at, input)).collect();
        let has = |which: fn(&SystemOp) -> bool| {
            batch.inputs().iter().any(|it| matches!(it, Input::System { op, .. } if which(op)))
        };
        self.sets_capacity = has(|op| matches!(op, SystemOp::Capacity { .. }));
        self.restarts = has(|op| matches!(op, SystemOp::Restart { .. }));
        let mut seen = BTreeSet::new();
        let mut again = BTreeSet::new();
        for key in self.asked.iter().map(|asked| &asked.key) {
            if !seen.insert(key) {
                again.insert(key);
            }
        }
        let once = seen.difference(&again);
        self.standing = once.map(|key| ((*key).clone(), standing(resolver, key))).collect();
    }

    /// Looks at the slot that has just been decided. The cost is that of what the slot decided, squared,
    /// and of the windows around it in time.
    ///
    /// # Errors
    /// The first breach that is found.
    pub fn after_slot(&mut self, resolver: &Resolver, outcome: &SlotOutcome) -> Result<(), Breach> {
        self.tokens_rise_by_one(resolver, outcome)?;
        self.refusals_change_nothing(resolver, outcome)?;
        self.lives.follow(resolver, &self.asked, outcome, self.next_token)?;
        self.stood.follow(resolver, &self.asked, outcome);
        self.stood.new_grants_fit(resolver, outcome, self.next_token)?;
        self.stood.renewals_fit(resolver, outcome, self.sets_capacity)?;
        self.stood.forget_old();
        let outlasts = resolver.undecided().find(|it| it.waits_until <= outcome.at);
        holds(outlasts.is_none(), "nothing waits beyond its wait", outlasts.map(|it| it.key))
    }

    /// Where the coordinator was restarted in the slot, tokens may leave out some.
    fn tokens_rise_by_one(&self, resolver: &Resolver, outcome: &SlotOutcome) -> Result<(), Breach> {
        let mut next = self.next_token;
        for decision in &outcome.decisions {
            let Some(token) = token_of(&decision.verdict) else { continue };
            let is_repeat = decision.answers.is_some() && token < next;
            if is_repeat {
                continue;
            }
            let is_next = if self.restarts { token >= next } else { token == next };
            holds(is_next, "tokens rise by one in the order of granting", (decision, next))?;
            next = token.next();
        }
        let after = Token::new(resolver.next_token);
        let is_next = if self.restarts { after >= next } else { after == next };
        holds(is_next, "no token is left out", (after, next))
    }

    fn refusals_change_nothing(&self, resolver: &Resolver, outcome: &SlotOutcome) -> Result<(), Breach> {
        for (key, before) in &self.standing {
            let mut of_key = outcome.decisions.iter().filter(|decision| decision.key == *key);
            let (Some(line), None) = (of_key.next(), of_key.next()) else { continue };
            // One that ended by time in this slot, after its refusal, is gone for that.
            let lasts = |(_, windows): &(Token, Vec<Window>)| windows.iter().any(|it| it.end() > outcome.at);
            let lasted = before.as_ref().is_none_or(lasts);
            let is_kept = !is_refusal(&line.verdict) || !lasted || standing(resolver, key) == *before;
            holds(is_kept, "a refused revision or renewal changes nothing", line)?;
        }
        Ok(())
    }
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

/// The tokens of the grants that were placed in the slot: not those of repeats, nor of shrinks, which
/// are granted as they stand.
fn placed(outcome: &SlotOutcome) -> impl Iterator<Item = (&Decision, Token)> {
    let unasked = outcome.decisions.iter().filter(|decision| decision.answers.is_none());
    unasked.filter_map(|decision| Some((decision, token_of(&decision.verdict)?)))
}

fn is_refusal(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Conflict(conflict) => conflict.kept,
        Verdict::Stale { kept, .. } | Verdict::Rejected { kept, .. } => *kept,
        Verdict::RenewDenied(RenewDenial::Kept { .. }) => true,
        _ => false,
    }
}
