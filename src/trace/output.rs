//! Decisions as JSON lines. The names and the order of the fields are part of the contract.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::types::{Blocker, Conflict, Decision, IntentKey, RenewDenial, Slot, Time, Token, Verdict};

/// Writes one decision of `slot`, decided at `at`, as one line.
///
/// # Errors
/// Those of `out`.
pub fn write_decision(out: &mut impl Write, slot: Slot, at: Time, decision: &Decision) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Line { slot, at, decision })?;
    out.write_all(b"\n")
}

struct Line<'a> {
    slot: Slot,
    at: Time,
    decision: &'a Decision,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Decision { key, answers: _, verdict } = self.decision;
        let mut line = serializer.serialize_map(Some(5))?;
        line.serialize_entry("slot", &self.slot)?;
        line.serialize_entry("at", &self.at)?;
        line.serialize_entry("agent", key.agent.as_str())?;
        line.serialize_entry("id", &key.id)?;
        verdict_entry(&mut line, verdict)?;
        line.end()
    }
}

fn verdict_entry<M: SerializeMap>(line: &mut M, verdict: &Verdict) -> Result<(), M::Error> {
    match verdict {
        &Verdict::Granted { start, end, token } => {
            line.serialize_entry("granted", &Placed { start, end, token })
        }
        &Verdict::Moved { start, end, token } => line.serialize_entry("moved", &Placed { start, end, token }),
        Verdict::Conflict(conflict) => line.serialize_entry("conflict", &ConflictBody::of(conflict)),
        Verdict::Stale { path, as_of, kept } => {
            line.serialize_entry("stale", &Stale { path: path.as_str(), as_of: *as_of, kept: *kept })
        }
        Verdict::Rejected { reason, field, kept } => {
            line.serialize_entry("rejected", &Rejected { reason: reason.as_str(), field, kept: *kept })
        }
        Verdict::Released { reason } => {
            line.serialize_entry("released", &Released { reason: reason.as_deref() })
        }
        Verdict::ReleasedUnknown => line.serialize_entry("released", &Unknown { unknown: true }),
        Verdict::Renewed { end } => line.serialize_entry("renewed", &Renewed { end: *end }),
        Verdict::RenewDenied(RenewDenial::Unknown) => {
            line.serialize_entry("renew_denied", &Unknown { unknown: true })
        }
        Verdict::RenewDenied(RenewDenial::Kept { end, blockers }) => {
            line.serialize_entry("renew_denied", &Denied { end: *end, blockers: blocker_bodies(blockers) })
        }
        Verdict::Expired { token } => line.serialize_entry("expired", &Expired { token: *token }),
        Verdict::Revoked { by, offer, waiting } => {
            line.serialize_entry("revoked", &Revoked { by: Key::of(by), offer: *offer, waiting: *waiting })
        }
    }
}

#[derive(Serialize)]
struct Placed {
    start: Time,
    end: Time,
    token: Token,
}

#[derive(Serialize)]
struct ConflictBody<'a> {
    r#final: bool,
    deadlock: bool,
    offer: Option<Time>,
    blockers: Vec<BlockerBody<'a>>,
    #[serde(skip_serializing_if = "is_false")]
    kept: bool,
}

impl<'a> ConflictBody<'a> {
    fn of(conflict: &'a Conflict) -> Self {
        let Conflict { is_final, deadlock, offer, blockers, kept } = conflict;
        let blockers = blocker_bodies(blockers);
        ConflictBody { r#final: *is_final, deadlock: *deadlock, offer: *offer, blockers, kept: *kept }
    }
}

#[derive(Serialize)]
struct BlockerBody<'a> {
    agent: &'a str,
    id: u64,
    token: Option<Token>,
    claim: usize,
    their_claim: usize,
    window: [Time; 2],
    ratio: Option<f64>,
}

fn blocker_bodies(blockers: &[Blocker]) -> Vec<BlockerBody<'_>> {
    blockers.iter().map(BlockerBody::of).collect()
}

impl<'a> BlockerBody<'a> {
    fn of(blocker: &'a Blocker) -> Self {
        let Blocker { key, token, claim, their_claim, window, ratio } = blocker;
        BlockerBody {
            agent: key.agent.as_str(),
            id: key.id.number(),
            token: *token,
            claim: *claim,
            their_claim: *their_claim,
            window: [window.start(), window.end()],
            ratio: *ratio,
        }
    }
}

#[derive(Serialize)]
struct Stale<'a> {
    path: &'a str,
    as_of: Time,
    #[serde(skip_serializing_if = "is_false")]
    kept: bool,
}

#[derive(Serialize)]
struct Rejected<'a> {
    reason: &'static str,
    field: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    kept: bool,
}

#[derive(Serialize)]
struct Released<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct Unknown {
    unknown: bool,
}

#[derive(Serialize)]
struct Renewed {
    end: Time,
}

#[derive(Serialize)]
struct Denied<'a> {
    end: Time,
    blockers: Vec<BlockerBody<'a>>,
}

#[derive(Serialize)]
struct Expired {
    token: Token,
}

#[derive(Serialize)]
struct Revoked<'a> {
    by: Key<'a>,
    offer: Option<Time>,
    waiting: bool,
}

#[derive(Serialize)]
struct Key<'a> {
    agent: &'a str,
    id: u64,
}

impl<'a> Key<'a> {
    fn of(key: &'a IntentKey) -> Self {
        Key { agent: key.agent.as_str(), id: key.id.number() }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
