//! Every intent ends exactly once: each id is followed from its declaration, line by line, to its end,
//! by the messages and the lines alone; what they come to must be what the book says.

use std::collections::{BTreeMap, BTreeSet};

use super::{Breach, holds};
use crate::resolver::{AgentOp, Input, Resolver, SlotOutcome, SystemOp};
use crate::types::{Decision, IntentKey, RenewDenial, Time, Token, Verdict};

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A declaration or revision, of a lease or not.
    Intent {
        hold: bool,
    },
    Invalid,
    Release,
    Renew,
    OperatorRelease,
}

/// One message about an id.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Its index in the batch.
    input: usize,
    pub(super) at: Time,
    pub(super) key: IntentKey,
    what: What,
}

impl Asked {
    pub(super) fn of(input: usize, message: &Input) -> Option<Self> {
        let (agent, id, what) = match message {
            Input::Agent { agent, op, .. } => match op {
                AgentOp::Declare(intent) | AgentOp::Revise(intent) => {
                    (agent, intent.id, What::Intent { hold: intent.hold })
                }
                AgentOp::Invalid { .. } => (agent, op.id(), What::Invalid),
                AgentOp::Release { id } => (agent, *id, What::Release),
                AgentOp::Renew { id, .. } => (agent, *id, What::Renew),
            },
            Input::System { op: SystemOp::Release { agent, id, .. }, .. } => {
                (agent, *id, What::OperatorRelease)
            }
            Input::System { .. } => return None,
        };
        Some(Asked { input, at: message.at(), key: IntentKey { agent: agent.clone(), id }, what })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Granted {
    token: Token,
    end: Time,
    hold: bool,
}

/// Whether an id stands for something that is still to be decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Undecided {
    #[default]
    No,
    /// A message without an answer may have repeated a lease whose expiry is still to be told.
    Perhaps,
    /// Declared in this slot, and not told of yet.
    New,
    /// Told that it waits.
    Waits,
}

/// What an id stands for, as far as messages and lines tell.
#[derive(Clone, Debug, Default)]
struct Life {
    granted: Option<Granted>,
    /// A lease that has ended and whose expiry is still to be told.
    expiring: Option<Token>,
    undecided: Undecided,
    /// The token of its last shrink: a repeat tells it again, even of a grant that has ended since.
    shrunk: Option<Token>,
}

/// The lives that have not ended.
#[derive(Debug, Default)]
pub(super) struct Lives {
    by_key: BTreeMap<IntentKey, Life>,
    by_end: BTreeSet<(Time, IntentKey)>,
    granted: usize,
    undecided: usize,
}

/// A slot, as one id's life sees it.
struct Slot<'a> {
    resolver: &'a Resolver,
    now: Time,
    /// Tokens from here on were given in this slot.
    first_token: Token,
    /// Whether a line tells what became of the grant that was in force.
    tells_of_withdrawal: bool,
}

impl Lives {
    /// The lives that the resolver knows of.
    pub(super) fn of(resolver: &Resolver) -> Self {
        let mut lives = Lives::default();
        for grant in resolver.grants() {
            let granted = Granted { token: grant.token, end: grant.end, hold: grant.intent.hold };
            lives.put(grant.key.clone(), Life { granted: Some(granted), ..Life::default() });
        }
        for waiting in resolver.undecided() {
            lives.put(waiting.key.clone(), Life { undecided: Undecided::Waits, ..Life::default() });
        }
        lives
    }

    /// Follows every life that the slot's messages, lines or time touch.
    pub(super) fn follow(
        &mut self,
        resolver: &Resolver,
        asked: &[Asked],
        outcome: &SlotOutcome,
        first_token: Token,
    ) -> Result<(), Breach> {
        let mut touched: BTreeMap<IntentKey, (Vec<&Asked>, Vec<&Decision>)> = BTreeMap::new();
        for it in asked {
            touched.entry(it.key.clone()).or_default().0.push(it);
        }
        for it in &outcome.decisions {
            touched.entry(it.key.clone()).or_default().1.push(it);
        }
        for (_, key) in self.by_end.iter().take_while(|(end, _)| *end <= outcome.at) {
            touched.entry(key.clone()).or_default();
        }
        for (key, (asked, lines)) in touched {
            let mut life = self.take(&key);
            let withdrawal = |it: &&Decision| {
                it.answers.is_none() && matches!(it.verdict, Verdict::Moved { .. } | Verdict::Revoked { .. })
            };
            let tells_of_withdrawal = lines.iter().any(withdrawal);
            let slot = Slot { resolver, now: outcome.at, first_token, tells_of_withdrawal };
            life.pass_slot(&slot, &asked, &lines)?;
            life.is_as_the_book_says(resolver, &key)?;
            self.put(key, life);
        }
        let counts = (self.granted, self.undecided);
        holds(resolver.book.counts() == counts, "what is granted or undecided has been told", counts)
    }

    fn take(&mut self, key: &IntentKey) -> Life {
        let life = self.by_key.remove(key).unwrap_or_default();
        if let Some(granted) = life.granted {
            self.by_end.remove(&(granted.end, key.clone()));
            self.granted -= 1;
        }
        self.undecided -= usize::from(life.undecided != Undecided::No);
        life
    }

    fn put(&mut self, key: IntentKey, life: Life) {
        if let Some(granted) = life.granted {
            self.by_end.insert((granted.end, key.clone()));
            self.granted += 1;
        }
        self.undecided += usize::from(life.undecided != Undecided::No);
        if life.granted.is_some() || life.undecided != Undecided::No {
            self.by_key.insert(key, life);
        }
    }
}

impl Life {
    /// The slot's messages with their answers, then expiry, then what is told unasked.
    fn pass_slot(&mut self, slot: &Slot<'_>, asked: &[&Asked], lines: &[&Decision]) -> Result<(), Breach> {
        for it in asked {
            self.pass_time(it.at);
            let answer = lines.iter().find(|line| line.answers == Some(it.input));
            self.pass_message(slot, it, answer.map(|line| &line.verdict))?;
        }
        self.pass_time(slot.now);
        for line in lines.iter().filter(|line| line.answers.is_none()) {
            self.pass_line(slot, line)?;
        }
        holds(self.expiring.is_none(), "a lease that expires is told of it", lines)?;
        if self.undecided == Undecided::Perhaps {
            self.undecided = Undecided::No; // so it was a repeat
        }
        holds(self.undecided != Undecided::New, "what is declared is told of in its slot", (asked, lines))
    }

    fn pass_time(&mut self, at: Time) {
        if let Some(ended) = self.granted.take_if(|granted| granted.end <= at) {
            self.expiring = ended.hold.then_some(ended.token);
        }
    }

    fn pass_message(&mut self, slot: &Slot<'_>, it: &Asked, answer: Option<&Verdict>) -> Result<(), Breach> {
        let has_something = self.granted.is_some() || self.undecided != Undecided::No;
        let has_surely =
            self.granted.is_some() || !matches!(self.undecided, Undecided::No | Undecided::Perhaps);
        match (it.what, answer) {
            (What::Intent { .. }, None) => {
                let is_idle = !has_surely && self.expiring.is_some();
                self.undecided = if is_idle { Undecided::Perhaps } else { Undecided::New };
            }
            (What::Intent { hold }, Some(Verdict::Granted { token, end, .. }))
                if *token >= slot.first_token =>
            {
                if self.shrunk.replace(*token) != Some(*token) {
                    holds(self.granted.is_some(), "only a grant in force can shrink", (it, token))?;
                    self.undecided = Undecided::No;
                    self.granted = Some(Granted { token: *token, end: *end, hold });
                }
            }
            (What::Release | What::OperatorRelease, Some(Verdict::Released { .. })) => {
                holds(has_something, "what is released was there and had not ended", it)?;
                self.granted = None;
                self.undecided = Undecided::No;
            }
            (What::Release, Some(Verdict::ReleasedUnknown)) | (What::OperatorRelease, None) => {
                holds(!has_surely, "what is there can be released", it)?;
                self.undecided = Undecided::No;
            }
            (What::Renew, Some(Verdict::Renewed { end })) => {
                let Some(granted) = &mut self.granted else {
                    return holds(false, "only a grant in force is renewed", it);
                };
                holds(granted.hold && granted.end <= *end, "a renewal of a lease takes nothing", it)?;
                granted.end = *end;
            }
            (What::Renew, Some(Verdict::RenewDenied(RenewDenial::Unknown))) => {
                holds(self.granted.is_none(), "a grant in force is known", it)?;
            }
            (What::Renew, Some(Verdict::RenewDenied(RenewDenial::Kept { end, .. }))) => {
                let is_kept = self.granted.is_some_and(|granted| granted.end == *end);
                holds(is_kept, "a renewal that is denied tells the end that stands", it)?;
            }
            (_, answer) => holds(answer.is_some(), "every release and renewal is answered", it)?,
        }
        Ok(())
    }

    fn pass_line(&mut self, slot: &Slot<'_>, line: &Decision) -> Result<(), Breach> {
        let was_undecided = self.undecided != Undecided::No;
        let hold = |token| slot.resolver.grant(token).is_some_and(|grant| grant.intent.hold);
        match &line.verdict {
            Verdict::Expired { token } => {
                holds(self.expiring.take() == Some(*token), "only a lease expires, at its end, once", line)?;
            }
            Verdict::Granted { token, end, .. } => {
                holds(was_undecided, "only what is undecided is granted", line)?;
                self.undecided = Undecided::No;
                self.granted = Some(Granted { token: *token, end: *end, hold: hold(*token) });
            }
            Verdict::Moved { token, end, .. } => {
                holds(self.granted.is_some(), "only what was granted is moved", line)?;
                self.granted = Some(Granted { token: *token, end: *end, hold: hold(*token) });
            }
            Verdict::Conflict(conflict) => {
                holds(was_undecided, "only what is undecided is refused, once", line)?;
                self.undecided = if conflict.is_final { Undecided::No } else { Undecided::Waits };
                self.lose_grant_unless(conflict.kept || slot.tells_of_withdrawal);
            }
            Verdict::Stale { kept, .. } => {
                holds(was_undecided, "only what is undecided is stale, once", line)?;
                self.undecided = Undecided::No;
                self.lose_grant_unless(*kept || slot.tells_of_withdrawal);
            }
            Verdict::Revoked { waiting, .. } => {
                holds(self.granted.take().is_some(), "only what was granted is revoked", line)?;
                if *waiting {
                    self.undecided = Undecided::Waits;
                }
            }
            _ => return holds(false, "nothing else is told unasked", line),
        }
        Ok(())
    }

    /// A revision whose grant was withdrawn goes on as a declaration: its line is the end of that grant.
    fn lose_grant_unless(&mut self, kept: bool) {
        if !kept {
            self.granted = None;
        }
    }

    fn is_as_the_book_says(&self, resolver: &Resolver, key: &IntentKey) -> Result<(), Breach> {
        let record = resolver.book.record(key);
        let token = record.and_then(|record| record.grant);
        let is_undecided = record.is_some_and(|record| record.undecided.is_some());
        let end = token.and_then(|token| resolver.grant(token)).map(|grant| grant.end);
        let told =
            (self.granted.map(|it| it.token), self.granted.map(|it| it.end), self.undecided != Undecided::No);
        let told_all = told == (token, end, is_undecided);
        holds(
            told_all,
            "every intent ends exactly once, and is told of it",
            (key, told, token, end, is_undecided),
        )
    }
}
