//! A slot's record as one JSON object, and back: what a coordinator at work tells of what it has decided lately.
//!
//! Inputs and decisions stand in it as in a trace. What a record has beside them (digest, rules, sessions, rights) does
//! not: it is no record to go on from, but one to tell of.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{TraceReader, write_decision, write_input};
use crate::audit::{RULES_VERSION, Record, StoredInput};
use crate::config::Config;
use crate::resolver::{Rank, StateDigest};
use crate::session::coordinator::SessionNotes;
use crate::types::{
    Agent, Blocker, Conflict, Decision, IntentId, IntentKey, Path, Reason, RenewDenial, Slot, Time, Token,
    Verdict, Window,
};

/// What ordered a decision, as it is spelled.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RankBody {
    /// None for the lowest, which JSON cannot say.
    score: Option<f64>,
    overdue: bool,
}

impl From<Rank> for RankBody {
    fn from(Rank { score, is_overdue }: Rank) -> Self {
        RankBody { score: Some(score).filter(|score| score.is_finite()), overdue: is_overdue }
    }
}

impl From<RankBody> for Rank {
    fn from(RankBody { score, overdue }: RankBody) -> Self {
        Rank { score: score.unwrap_or(f64::NEG_INFINITY), is_overdue: overdue }
    }
}

/// An input as a trace has it.
///
/// # Errors
/// Those of [`write_input`].
pub fn raw_input(input: &StoredInput) -> io::Result<Box<RawValue>> {
    let mut line = Vec::new();
    write_input(&mut line, input)?;
    raw(line)
}

/// A decision of `slot`, decided at `at`, as `resolve` prints it.
///
/// # Errors
/// Those of [`write_decision`].
pub fn raw_decision(slot: Slot, at: Time, decision: &Decision) -> io::Result<Box<RawValue>> {
    let mut line = Vec::new();
    write_decision(&mut line, slot, at, decision)?;
    raw(line)
}

fn raw(line: Vec<u8>) -> io::Result<Box<RawValue>> {
    let text = String::from_utf8(line).map_err(io::Error::other)?;
    Ok(RawValue::from_string(text.trim_end().to_owned())?)
}

#[derive(Serialize, Deserialize)]
struct Body {
    slot: Slot,
    at: Time,
    inputs: Vec<Box<RawValue>>,
    decisions: Vec<Box<RawValue>>,
    /// What ordered each decision.
    ranks: Vec<Option<RankBody>>,
    /// The input that each decision answers, by index.
    answers: Vec<Option<usize>>,
}

/// A record's slot, inputs and decisions as one JSON object.
///
/// # Errors
/// Those of [`write_input`].
pub fn raw_record(record: &Record) -> io::Result<Box<RawValue>> {
    let inputs = record.inputs.iter().map(raw_input).collect::<io::Result<_>>()?;
    let decisions = record.decisions.iter().map(|decision| raw_decision(record.slot, record.at, decision));
    let body = Body {
        slot: record.slot,
        at: record.at,
        inputs,
        decisions: decisions.collect::<io::Result<_>>()?,
        ranks: record.ranks.iter().map(|rank| rank.map(RankBody::from)).collect(),
        answers: record.decisions.iter().map(|decision| decision.answers).collect(),
    };
    Ok(serde_json::value::to_raw_value(&body)?)
}

/// The record that [`raw_record`] spelled. Fields that it does not know are passed over.
///
/// # Errors
/// What is wrong, in words, where it is none.
pub fn read_record(text: &str) -> Result<Record, String> {
    let body: Body = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let inputs = body.inputs.iter().map(|line| read_input(line.get())).collect::<Result<_, _>>()?;
    let answers = body.answers.into_iter().chain(std::iter::repeat(None));
    let decisions = body.decisions.iter().zip(answers).map(|(line, answers)| {
        let (key, verdict) = read_decision(line.get())?;
        Ok(Decision { key, answers, verdict })
    });
    Ok(Record {
        slot: body.slot,
        at: body.at,
        rules_version: RULES_VERSION,
        config_hash: [0; 32],
        inputs,
        decisions: decisions.collect::<Result<_, String>>()?,
        ranks: body.ranks.into_iter().map(|rank| rank.map(Rank::from)).collect(),
        digest: StateDigest::default(),
        notes: SessionNotes::default(),
    })
}

/// Each stands alone: one before it may be later.
fn read_input(line: &str) -> Result<StoredInput, String> {
    let read = TraceReader::new(Config::default()).read(line.as_bytes());
    let input = read.map_err(|error| error.to_string())?.ok_or("an input that is empty")?;
    Ok(StoredInput::from(&input))
}

fn read_decision(line: &str) -> Result<(IntentKey, Verdict), String> {
    let body: DecisionBody = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let key = key(&body.agent, body.id)?;
    let verdict = body.verdict.read()?;
    Ok((key, verdict))
}

#[derive(Deserialize)]
struct DecisionBody {
    agent: String,
    id: u64,
    #[serde(flatten)]
    verdict: VerdictBody,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum VerdictBody {
    Granted { start: Time, end: Time, token: Token },
    Moved { start: Time, end: Time, token: Token },
    Conflict(ConflictBody),
    Stale(StaleBody),
    Rejected(RejectedBody),
    Released(ReleasedBody),
    Renewed { end: Time },
    RenewDenied(DeniedBody),
    Expired { token: Token },
    Revoked { by: KeyBody, offer: Option<Time>, waiting: bool },
}

#[derive(Deserialize)]
struct ConflictBody {
    r#final: bool,
    deadlock: bool,
    offer: Option<Time>,
    blockers: Vec<BlockerBody>,
    #[serde(default)]
    kept: bool,
}

#[derive(Deserialize)]
struct BlockerBody {
    agent: String,
    id: u64,
    token: Option<Token>,
    claim: usize,
    their_claim: usize,
    window: Window,
    ratio: Option<f64>,
}

#[derive(Deserialize)]
struct StaleBody {
    path: String,
    as_of: Time,
    #[serde(default)]
    kept: bool,
}

#[derive(Deserialize)]
struct RejectedBody {
    reason: String,
    field: String,
    #[serde(default)]
    kept: bool,
}

#[derive(Deserialize)]
struct ReleasedBody {
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    unknown: bool,
}

#[derive(Deserialize)]
struct DeniedBody {
    #[serde(default)]
    unknown: bool,
    #[serde(default)]
    end: Time,
    #[serde(default)]
    blockers: Vec<BlockerBody>,
}

#[derive(Deserialize)]
struct KeyBody {
    agent: String,
    id: u64,
}

impl VerdictBody {
    fn read(self) -> Result<Verdict, String> {
        Ok(match self {
            VerdictBody::Granted { start, end, token } => Verdict::Granted { start, end, token },
            VerdictBody::Moved { start, end, token } => Verdict::Moved { start, end, token },
            VerdictBody::Conflict(body) => {
                let ConflictBody { r#final: is_final, deadlock, offer, blockers, kept } = body;
                Verdict::Conflict(Conflict { is_final, deadlock, offer, blockers: read_all(blockers)?, kept })
            }
            VerdictBody::Stale(StaleBody { path, as_of, kept }) => {
                let path = Path::new(&path).ok_or("a reading of no path")?;
                Verdict::Stale { path, as_of, kept }
            }
            VerdictBody::Rejected(RejectedBody { reason, field, kept }) => {
                Verdict::Rejected { reason: reason_of(&reason)?, field, kept }
            }
            VerdictBody::Released(ReleasedBody { unknown: true, .. }) => Verdict::ReleasedUnknown,
            VerdictBody::Released(ReleasedBody { reason, .. }) => Verdict::Released { reason },
            VerdictBody::Renewed { end } => Verdict::Renewed { end },
            VerdictBody::RenewDenied(DeniedBody { unknown: true, .. }) => {
                Verdict::RenewDenied(RenewDenial::Unknown)
            }
            VerdictBody::RenewDenied(DeniedBody { end, blockers, .. }) => {
                Verdict::RenewDenied(RenewDenial::Kept { end, blockers: read_all(blockers)? })
            }
            VerdictBody::Expired { token } => Verdict::Expired { token },
            VerdictBody::Revoked { by, offer, waiting } => {
                Verdict::Revoked { by: key(&by.agent, by.id)?, offer, waiting }
            }
        })
    }
}

fn read_all(blockers: Vec<BlockerBody>) -> Result<Vec<Blocker>, String> {
    let read = |it: BlockerBody| {
        let BlockerBody { agent, id, token, claim, their_claim, window, ratio } = it;
        Ok(Blocker { key: key(&agent, id)?, token, claim, their_claim, window, ratio })
    };
    blockers.into_iter().map(read).collect()
}

fn key(agent: &str, id: u64) -> Result<IntentKey, String> {
    let agent = Agent::new(agent).ok_or("a name that is none")?;
    Ok(IntentKey { agent, id: IntentId::new(id) })
}

fn reason_of(text: &str) -> Result<Reason, String> {
    const ALL: [Reason; 8] = [
        Reason::Invalid,
        Reason::IdInUse,
        Reason::TooShort,
        Reason::TooLong,
        Reason::TooLate,
        Reason::BeyondHorizon,
        Reason::NoCapacity,
        Reason::OverCapacity,
    ];
    let found = ALL.into_iter().find(|reason| reason.as_str() == text);
    found.ok_or_else(|| format!("a reason that is unknown: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolver::AgentOp;
    use crate::types::{RawClaim, RawIntent, RawMode, RawTarget};

    fn own() -> IntentKey {
        key("ü\"/x", u64::MAX).unwrap()
    }

    fn verdicts() -> Vec<Verdict> {
        let us = Time::from_us;
        let window = Window::new(us(60), us(70)).unwrap();
        let blocker =
            |token| Blocker { key: own(), token, claim: 1, their_claim: 2, window, ratio: Some(0.1 + 0.2) };
        let blockers = vec![blocker(Some(Token::new(7))), blocker(None)];
        let conflict = |is_final: bool, kept: bool| Conflict {
            is_final,
            deadlock: !is_final,
            offer: kept.then_some(us(9)),
            blockers: blockers.clone(),
            kept,
        };
        let (start, end, token) = (us(1), us(u64::MAX), Token::new(3));
        vec![
            Verdict::Granted { start, end, token },
            Verdict::Moved { start, end, token },
            Verdict::Conflict(conflict(true, false)),
            Verdict::Conflict(conflict(false, true)),
            Verdict::Stale { path: Path::new("a/b").unwrap(), as_of: end, kept: true },
            Verdict::Rejected { reason: Reason::TooLate, field: "start".into(), kept: false },
            Verdict::Released { reason: None },
            Verdict::Released { reason: Some("it is\nover".into()) },
            Verdict::ReleasedUnknown,
            Verdict::Renewed { end },
            Verdict::RenewDenied(RenewDenial::Unknown),
            Verdict::RenewDenied(RenewDenial::Kept { end, blockers: blockers.clone() }),
            Verdict::Expired { token },
            Verdict::Revoked { by: own(), offer: Some(end), waiting: true },
        ]
    }

    fn record() -> Record {
        let claim = RawClaim {
            target: RawTarget::Path("a/b".into()),
            mode: RawMode::Units(2),
            offset: 0,
            duration: 10,
        };
        let raw = RawIntent { id: u64::MAX, urgency: 0.3, claims: vec![claim], ..RawIntent::default() };
        let op = AgentOp::Declare(raw.parse().unwrap());
        let input = StoredInput::Agent { at: Time::from_us(5), agent: own().agent, op };
        let decision = |verdict| Decision { key: own(), answers: None, verdict };
        let mut decisions: Vec<Decision> = verdicts().into_iter().map(decision).collect();
        decisions[5].answers = Some(0);
        let mut ranks = vec![None; decisions.len()];
        ranks[0] = Some(Rank { score: 0.1 + 0.2, is_overdue: false });
        ranks[2] = Some(Rank { score: 0.0, is_overdue: true });
        ranks[3] = Some(Rank { score: f64::NEG_INFINITY, is_overdue: false });
        Record {
            slot: Slot::new(4),
            at: Time::from_us(50_000),
            rules_version: RULES_VERSION,
            config_hash: [0; 32],
            inputs: vec![input],
            decisions,
            ranks,
            digest: StateDigest::default(),
            notes: SessionNotes::default(),
        }
    }

    #[test]
    fn a_record_is_read_back_as_it_was_whatever_was_decided() {
        let record = record();
        assert_eq!(read_record(raw_record(&record).unwrap().get()).unwrap(), record);
    }

    #[test]
    fn what_is_no_record_is_told_and_what_is_unknown_is_passed_over() {
        let text = raw_record(&record()).unwrap().get().to_owned();
        assert_eq!(read_record(&text.replace("{\"slot\":4", "{\"later\":[1],\"slot\":4")).unwrap(), record());
        for (part, other) in [
            ("\"inputs\":[", "\"inputs\":[{},"),
            ("\"too_late\"", "\"too_odd\""),
            ("[60,70]", "[70,60]"),
            ("\"a/b\",\"as_of\"", "\"a//b\",\"as_of\""),
            ("\"expired\"", "\"expelled\""),
            ("\"score\":0.0", "\"score\":\"much\""),
        ] {
            let wrong = text.replace(part, other);
            assert!(wrong != text && read_record(&wrong).is_err(), "{part}");
        }
        for wrong in ["", "{}", "[]", "{\"slot\":-1}", &text[..text.len() / 2]] {
            assert!(read_record(wrong).is_err(), "{wrong}");
        }
    }
}
