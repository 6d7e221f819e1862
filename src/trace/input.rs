//! Inputs as JSON lines, which [`TraceReader`](super::TraceReader) reads back to the same inputs.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::value::RawValue;

use crate::audit::{StoredInput, StoredOp};
use crate::config::Config;
use crate::resolver::AgentOp;
use crate::types::{RawClaim, RawExpect, RawIntent, RawMode, RawTarget, Time};
use crate::wire::raw_intent;

/// Writes one input as one line. What has its default may be left out.
///
/// The line is exact, but for two things that JSON cannot say: a number of an invalid declaration that
/// is infinite or none is written as 1e308, which is refused likewise, and a patience that was not set
/// as the longest that there is.
///
/// # Errors
/// Those of `out`; and `InvalidData` where the text of a [`StoredOp::Config`] is no configuration.
pub fn write_input(out: &mut impl Write, input: &StoredInput) -> io::Result<()> {
    let line = match input {
        StoredInput::Agent { at, agent, op } => {
            Line { at: *at, agent: Some(agent.as_str()), op: agent_op(op) }
        }
        StoredInput::System { at, op } => Line { at: *at, agent: None, op: system_op(op)? },
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct Line<'a> {
    at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(flatten)]
    op: Op<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Op<'a> {
    Declare(Declaration),
    Revise(Declaration),
    Release { id: u64 },
    Renew { id: u64, until: Time },
    System(SystemOp<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum SystemOp<'a> {
    Capacity { path: &'a str, capacity: u64 },
    Release { agent: &'a str, id: u64, reason: &'a str },
    Config(Box<RawValue>),
    Restart { next_token: u64 },
}

fn agent_op(op: &AgentOp) -> Op<'_> {
    match op {
        AgentOp::Declare(intent) => Op::Declare(Declaration::of(&raw_intent(intent))),
        AgentOp::Revise(intent) => Op::Revise(Declaration::of(&raw_intent(intent))),
        AgentOp::Invalid { revision: false, raw, why: _ } => Op::Declare(Declaration::of(raw)),
        AgentOp::Invalid { revision: true, raw, why: _ } => Op::Revise(Declaration::of(raw)),
        AgentOp::Release { id } => Op::Release { id: id.number() },
        AgentOp::Renew { id, until } => Op::Renew { id: id.number(), until: *until },
    }
}

fn system_op(op: &StoredOp) -> io::Result<Op<'_>> {
    Ok(Op::System(match op {
        StoredOp::Capacity { path, capacity } => {
            SystemOp::Capacity { path: path.as_str(), capacity: *capacity }
        }
        StoredOp::Release { agent, id, reason } => {
            SystemOp::Release { agent: agent.as_str(), id: id.number(), reason }
        }
        StoredOp::Config { document, resources } => {
            let patch = Config::patch_of_rules(document, *resources);
            let patch = patch.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            SystemOp::Config(RawValue::from_string(patch)?)
        }
        StoredOp::Restart { next_token } => SystemOp::Restart { next_token: *next_token },
    }))
}

/// A number as JSON has it.
#[derive(Clone, Copy, PartialEq)]
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(if self.0.is_finite() { self.0 } else { 1e308 })
    }
}

fn numbers(numbers: &[f64]) -> Vec<Number> {
    numbers.iter().copied().map(Number).collect()
}

#[derive(Serialize)]
struct Declaration {
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<u64>,
    #[serde(skip_serializing_if = "is_zero")]
    slack: u64,
    #[serde(skip_serializing_if = "is_zero")]
    wait: u64,
    #[serde(skip_serializing_if = "is_false")]
    hold: bool,
    #[serde(skip_serializing_if = "is_zero")]
    task: u64,
    #[serde(skip_serializing_if = "is_zero")]
    class: u64,
    #[serde(skip_serializing_if = "is_nought")]
    urgency: Number,
    #[serde(skip_serializing_if = "is_nought")]
    safety_margin: Number,
    #[serde(skip_serializing_if = "is_nought")]
    social_value: Number,
    claims: Vec<ClaimBody>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expects: Vec<RawExpect>,
}

impl Declaration {
    fn of(raw: &RawIntent) -> Self {
        Declaration {
            id: raw.id,
            start: raw.start,
            slack: raw.slack,
            wait: raw.wait,
            hold: raw.hold,
            task: raw.task,
            class: raw.class,
            urgency: Number(raw.urgency),
            safety_margin: Number(raw.safety_margin),
            social_value: Number(raw.social_value),
            claims: raw.claims.iter().map(ClaimBody::of).collect(),
            expects: raw.expects.clone(),
        }
    }
}

#[derive(Serialize)]
struct ClaimBody {
    #[serde(flatten)]
    target: TargetBody,
    #[serde(skip_serializing_if = "is_exclusive")]
    mode: ModeBody,
    #[serde(skip_serializing_if = "is_zero")]
    offset: u64,
    duration: u64,
}

impl ClaimBody {
    fn of(claim: &RawClaim) -> Self {
        let RawClaim { target, mode, offset, duration } = claim;
        let mode = match *mode {
            RawMode::Shared => ModeBody::Shared,
            RawMode::Exclusive => ModeBody::Exclusive,
            RawMode::Units(units) => ModeBody::Units(units),
        };
        ClaimBody { target: TargetBody::of(target), mode, offset: *offset, duration: *duration }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum TargetBody {
    Path { path: String },
    Box { frame: String, r#box: BoxBody },
    Polygon { frame: String, polygon: PolygonBody },
}

impl TargetBody {
    fn of(target: &RawTarget) -> Self {
        match target {
            RawTarget::Path(path) => TargetBody::Path { path: path.clone() },
            RawTarget::Box { frame, min, max } => TargetBody::Box {
                frame: frame.clone(),
                r#box: BoxBody { min: numbers(min), max: numbers(max) },
            },
            RawTarget::Polygon { frame, corners, height } => TargetBody::Polygon {
                frame: frame.clone(),
                polygon: PolygonBody {
                    corners: corners.iter().map(|corner| numbers(corner)).collect(),
                    height: height.as_deref().map(numbers),
                },
            },
        }
    }
}

#[derive(Serialize)]
struct BoxBody {
    min: Vec<Number>,
    max: Vec<Number>,
}

#[derive(Serialize)]
struct PolygonBody {
    corners: Vec<Vec<Number>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<Vec<Number>>,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ModeBody {
    Shared,
    Exclusive,
    Units(u64),
}

fn is_exclusive(mode: &ModeBody) -> bool {
    *mode == ModeBody::Exclusive
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_nought(number: &Number) -> bool {
    number.0 == 0.0
}

fn is_false(flag: &bool) -> bool {
    !flag
}
