//! What an agent is told is what was decided: each answer has its decision in the slot that it names.

use super::{Happened, Invariant, View};
use crate::types::{Decision, IntentKey, Verdict as Decided};
use crate::wire::Verdict;

pub(super) struct AnswersAreTheRecords;

impl Invariant for AnswersAreTheRecords {
    fn name(&self) -> &'static str {
        "told: answers are what was decided"
    }

    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String> {
        let Happened::Told { process, answer } = happened else { return Ok(()) };
        if matches!(answer.verdict, Verdict::Rejected { .. }) {
            return Ok(()); // some are refused before they reach a slot
        }
        let key = IntentKey { agent: view.agents[*process].name.clone(), id: answer.id };
        let decided = view.ledger.told.get(&answer.slot);
        let is_same = |decision: &Decision| decision.key == key && says(&answer.verdict, &decision.verdict);
        if decided.is_some_and(|decisions| decisions.iter().any(is_same)) {
            return Ok(());
        }
        Err(format!("process {process} was told {answer:?}, and decided was {decided:?}"))
    }
}

fn says(told: &Verdict, decided: &Decided) -> bool {
    match (told, decided) {
        (Verdict::Granted { start, end, token }, Decided::Granted { start: s, end: e, token: t })
        | (Verdict::Moved { start, end, token }, Decided::Moved { start: s, end: e, token: t }) => {
            (start, end, token) == (s, e, t)
        }
        (Verdict::Conflict(told), Decided::Conflict(decided)) => told.is_final == decided.is_final,
        (Verdict::Expired { token }, Decided::Expired { token: decided }) => token == decided,
        (Verdict::Renewed { end }, Decided::Renewed { end: decided }) => end == decided,
        (Verdict::Released { .. }, Decided::Released { .. })
        | (Verdict::Stale { .. }, Decided::Stale { .. })
        | (Verdict::Revoked { .. }, Decided::Revoked { .. })
        | (Verdict::ReleasedUnknown, Decided::ReleasedUnknown)
        | (Verdict::RenewDenied { .. } | Verdict::RenewDeniedUnknown, Decided::RenewDenied(_)) => true,
        _ => false,
    }
}
