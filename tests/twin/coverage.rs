//! Which decisions and features the traces reached, so that a silent generator is seen.

use std::collections::BTreeMap;

use preclaim::resolver::{AgentOp, Input, SlotBatch};
use preclaim::types::{Conflict, Decision, Mode, RenewDenial, Target, Time, Verdict};

use super::reference::Twin;

/// Counts of all that was seen.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    pub(crate) traces: u64,
    seen: BTreeMap<String, u64>,
}

/// What every long run must have seen.
pub(crate) const EXPECTED: [&str; 63] = [
    "granted",
    "granted again",
    "granted, a revision",
    "granted, a shrink",
    "granted, later than its lo",
    "granted, with expects",
    "granted after a wait",
    "moved",
    "revoked, final",
    "revoked, waiting",
    "a cascade",
    "withdrawn and put back",
    "revoked again",
    "moved again",
    "conflict, final",
    "conflict, waiting",
    "conflict, waiting, offer changed",
    "conflict, deadlock",
    "conflict, kept",
    "conflict, no offer",
    "conflict, again",
    "blocker, held place",
    "blocker, reading's place",
    "blocker, units",
    "blocker, regions",
    "blocker, what a revision left",
    "blockers, eight",
    "stale at lo",
    "stale at its place",
    "stale, as_of too old",
    "stale, kept",
    "rejected invalid",
    "rejected id_in_use",
    "rejected too_short",
    "rejected too_long",
    "rejected too_late",
    "rejected beyond_horizon",
    "rejected no_capacity",
    "rejected over_capacity",
    "rejected, kept",
    "released",
    "released, undecided",
    "released by the operator",
    "released, unknown",
    "renewed",
    "renew denied, blockers",
    "renew denied, no blockers",
    "renew denied, unknown",
    "expired",
    "revision as a declaration",
    "revision of an undecided",
    "revision goes on as a declaration",
    "second revision in one slot",
    "sent twice, answered",
    "sent twice, still to come",
    "released with what a shrink left",
    "granted, a revision in a chain",
    "granted, units",
    "granted, a region",
    "granted, shared",
    "stale, and nothing is withdrawn",
    "withdrawn, and stale",
    "configured anew",
];

impl Coverage {
    fn count(&mut self, what: &str) {
        match self.seen.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.seen.insert(what.to_owned(), 1)),
        }
    }

    pub(crate) fn missing(&self) -> Vec<&'static str> {
        EXPECTED.into_iter().filter(|what| !self.seen.contains_key(*what)).collect()
    }

    pub(crate) fn report(&self) -> String {
        let mut out = format!("{} traces\n", self.traces);
        for (what, count) in &self.seen {
            out.push_str(&format!("{count:>9}  {what}\n"));
        }
        out
    }

    /// Looks at one slot of the twin after it was decided.
    pub(crate) fn look(&mut self, batch: &SlotBatch, decided: &[Decision], twin: &Twin, d: Time) {
        for decision in decided {
            self.verdict(batch, decision, twin, d);
        }
        for event in twin.events.borrow().iter() {
            self.count(event);
        }
    }

    fn verdict(&mut self, batch: &SlotBatch, decision: &Decision, twin: &Twin, d: Time) {
        let again = decision.answers.is_some();
        match &decision.verdict {
            Verdict::Granted { token, .. } => {
                let grant = twin.grants.iter().find(|grant| grant.token == *token);
                let fresh = grant.is_some_and(|grant| grant.granted_at == d);
                self.count(if again && !fresh { "granted again" } else { "granted" });
            }
            Verdict::Moved { .. } => self.count(if again { "moved again" } else { "moved" }),
            Verdict::Revoked { .. } if again => self.count("revoked again"),
            Verdict::Revoked { waiting, .. } => {
                self.count(if *waiting { "revoked, waiting" } else { "revoked, final" });
            }
            Verdict::Conflict(_) if again => self.count("conflict, again"),
            Verdict::Conflict(conflict) => self.conflict(conflict),
            Verdict::Stale { kept, .. } => {
                self.count("stale");
                if *kept {
                    self.count("stale, kept");
                }
            }
            Verdict::Rejected { reason, kept, .. } => {
                self.count(&format!("rejected {}", reason.as_str()));
                if *kept {
                    self.count("rejected, kept");
                }
            }
            Verdict::Released { reason } => {
                let by_repeat = decision.answers.and_then(|at| batch.inputs().get(at)).is_some_and(|input| {
                    matches!(input, Input::Agent { op: AgentOp::Declare(_) | AgentOp::Revise(_), .. })
                });
                self.count(match reason {
                    _ if by_repeat => "released again",
                    Some(_) => "released by the operator",
                    None => "released",
                });
            }
            Verdict::ReleasedUnknown => self.count("released, unknown"),
            Verdict::Renewed { .. } => self.count("renewed"),
            Verdict::RenewDenied(RenewDenial::Unknown) => self.count("renew denied, unknown"),
            Verdict::RenewDenied(RenewDenial::Kept { blockers, .. }) => {
                self.count(if blockers.is_empty() {
                    "renew denied, no blockers"
                } else {
                    "renew denied, blockers"
                });
            }
            Verdict::Expired { .. } => self.count("expired"),
        }
    }

    fn conflict(&mut self, conflict: &Conflict) {
        self.count(if conflict.is_final { "conflict, final" } else { "conflict, waiting" });
        if conflict.deadlock {
            self.count("conflict, deadlock");
        }
        if conflict.kept {
            self.count("conflict, kept");
        }
        if conflict.offer.is_none() {
            self.count("conflict, no offer");
        }
        if conflict.blockers.len() == preclaim::limits::BLOCKERS {
            self.count("blockers, eight");
        }
        for blocker in &conflict.blockers {
            if blocker.token.is_none() {
                self.count("blocker, held place");
            }
            if blocker.ratio.is_some() {
                self.count("blocker, regions");
            }
        }
    }
}

/// What kind of claims a granted intent has, for the report.
pub(crate) fn kinds(claims: &[preclaim::types::Claim]) -> Vec<&'static str> {
    let kind = |claim: &preclaim::types::Claim| match (&claim.target, claim.mode) {
        (Target::Region(_), _) => "granted, a region",
        (Target::Path(_), Mode::Units(_)) => "granted, units",
        (Target::Path(_), Mode::Shared) => "granted, shared",
        (Target::Path(_), Mode::Exclusive) => "granted, exclusive",
    };
    claims.iter().map(kind).collect()
}
