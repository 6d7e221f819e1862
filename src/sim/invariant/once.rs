//! Tokens rise and none is given twice, over all lives of the coordinator; and a declaration is decided
//! once, however often it is sent: an intent has one grant, and one more for each revision and each time
//! that it was moved or withdrawn.

use std::collections::BTreeMap;

use super::{Happened, Invariant, View};
use crate::resolver::{AgentOp, Input};
use crate::types::{Decision, IntentKey, Token, Verdict};

#[derive(Default)]
pub(super) struct DecidedOnce {
    last: Token,
    /// How many grants each intent may have had, beside its first.
    more: BTreeMap<IntentKey, u64>,
}

impl Invariant for DecidedOnce {
    fn name(&self) -> &'static str {
        "once: a declaration is decided once, and no token is given twice"
    }

    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String> {
        match happened {
            Happened::Decided { inputs, outcome } => {
                for input in *inputs {
                    if let Input::Agent { agent, op: AgentOp::Revise(intent), .. } = input {
                        let key = IntentKey { agent: agent.clone(), id: intent.id };
                        *self.more.entry(key).or_default() += 1;
                    }
                }
                self.decisions(&outcome.decisions)?;
                for key in outcome.decisions.iter().map(|decision| &decision.key) {
                    let granted = view.ledger.of_intent.get(key).copied().unwrap_or_default();
                    let may = 1 + self.more.get(key).copied().unwrap_or_default();
                    if granted > may {
                        return Err(format!("{key:?} was granted {granted} times, where {may} are due"));
                    }
                }
                Ok(())
            }
            Happened::Recovered { found } => {
                let untold = found.records.iter().filter(|(slot, ..)| !view.ledger.told.contains_key(slot));
                untold.map(|(_, decisions, _)| decisions).try_for_each(|decisions| {
                    // What was decided and told to nobody may have been revisions, too.
                    for decision in decisions {
                        *self.more.entry(decision.key.clone()).or_default() += 1;
                    }
                    self.decisions(decisions)
                })
            }
            _ => Ok(()),
        }
    }
}

impl DecidedOnce {
    fn decisions(&mut self, decisions: &[Decision]) -> Result<(), String> {
        for decision in decisions {
            match decision.verdict {
                Verdict::Moved { .. } | Verdict::Revoked { .. } => {
                    *self.more.entry(decision.key.clone()).or_default() += 1;
                }
                _ => {}
            }
            let token = match decision.verdict {
                Verdict::Granted { token, .. } | Verdict::Moved { token, .. } => token,
                _ => continue,
            };
            if decision.answers.is_some() {
                continue; // what stands already, told again; or a shrink
            }
            if token <= self.last {
                return Err(format!("token {token} was given after {}", self.last));
            }
            self.last = token;
        }
        Ok(())
    }
}
