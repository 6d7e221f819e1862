//! One line of a trace: who, when, and what.

use std::sync::Arc;

use super::error::TraceError;
use super::intent::{COUNT_RULE, MICROS_RULE, count, micros, raw_intent};
use super::json;
use crate::config::{Config, Fault, Field, Fields, Value};
use crate::limits;
use crate::resolver::{AgentOp, Input, SystemOp};
use crate::types::{Agent, IntentId, Micros, PATH_RULE, Path, Slot, Time};

const AGENT_RULE: &str = "a name of 1 to 128 bytes without control characters";
const TOKEN_RULE: &str = "a whole number, 0 to 18446744069414584320, so that tokens do not run out";
const LINE: &[&str] = &["at", "agent", "declare", "revise", "release", "renew", "system"];
const AGENT_OPS: &[&str] = &["declare", "revise", "release", "renew"];
const SYSTEM_OPS: &[&str] = &["capacity", "release", "config", "restart"];

/// Makes inputs of lines, one after the other.
#[derive(Debug)]
pub struct TraceReader {
    config: Config,
    lines: u64,
    last: Time,
}

impl TraceReader {
    /// A reader of the trace of a coordinator that started with `config`.
    pub fn new(config: Config) -> Self {
        TraceReader { config, lines: 0, last: Time::ZERO }
    }

    /// The input that the next line spells; `None` for a line of nothing but white space.
    ///
    /// # Errors
    /// Where the line is none, names a time before the line ahead of it, or is longer than
    /// [`limits::TRACE_LINE_BYTES`]. The reader stays at the last good line.
    pub fn read(&mut self, line: &[u8]) -> Result<Option<Input>, TraceError> {
        self.lines += 1;
        if line.len() > limits::TRACE_LINE_BYTES {
            let most = format!("a line of up to {} bytes", limits::TRACE_LINE_BYTES);
            return Err(TraceError::unfit(self.lines, "a longer line", most));
        }
        let text = std::str::from_utf8(line).map_err(|error| {
            let found = format!("bytes that are no UTF-8 from byte {} on", error.valid_up_to() + 1);
            TraceError::unfit(self.lines, &found, "UTF-8 text")
        })?;
        if text.trim_ascii().is_empty() {
            return Ok(None);
        }
        let node = json::read(text).map_err(|wrong| TraceError::json(self.lines, text, &wrong))?;
        let input = self.input(Field::root(&node));
        let input = input.map_err(|fault| TraceError::fault(self.lines, text, &fault))?;
        self.last = input.at();
        Ok(Some(input))
    }

    /// The error that the line read last is one too many for its slot.
    pub(super) fn slot_overflows(&self) -> TraceError {
        let most = format!("up to {} bytes of lines that arrive in one slot", limits::TRACE_SLOT_BYTES);
        TraceError::unfit(self.lines, "more lines with an `at` in this slot", most)
    }

    fn input(&mut self, root: Field<'_>) -> Result<Input, Fault> {
        let line = root.table(LINE)?;
        let (length, last) = (self.config.rules.length, self.last);
        let at = line.required("at", MICROS_RULE, |field| arrival(field, length, last))?;
        if line.exactly_one(&["agent", "system"])? == "system" {
            line.none_beside("system", AGENT_OPS)?;
            let op = line.required("system", "an object", |field| self.system_op(field))?;
            return Ok(Input::System { at, op });
        }
        let agent = line.required("agent", AGENT_RULE, agent)?;
        Ok(Input::Agent { at, agent, op: agent_op(&line)? })
    }

    fn system_op(&mut self, field: Field<'_>) -> Result<SystemOp, Fault> {
        let system = field.table(SYSTEM_OPS)?;
        match system.exactly_one(SYSTEM_OPS)? {
            "capacity" => system.required("capacity", "an object", capacity),
            "release" => system.required("release", "an object", operator_release),
            "config" => system.required("config", "an object", |field| {
                let Value::Table(named) = field.value() else {
                    return Err(field.wrong("an object of sections"));
                };
                let change = self.config.patch(named).map_err(|fault| fault.below(&field))?;
                Ok(SystemOp::Config(Box::new(change)))
            }),
            _ => system.required("restart", "an object", |field| {
                let restart = field.table(&["next_token"])?;
                Ok(SystemOp::Restart { next_token: restart.required("next_token", TOKEN_RULE, next_token)? })
            }),
        }
    }
}

/// A time of arrival: not before the last one, and in a slot whose end can be written.
fn arrival(field: Field<'_>, length: Micros, last: Time) -> Result<Time, Fault> {
    let at = Time::from_us(micros(field)?);
    if at < last {
        return Err(field.wrong(format!("{} or later, the time of the line before", last.as_us())));
    }
    match end_of(Slot::of(at, length), length) {
        Some(_) => Ok(at),
        None => Err(field.wrong("a time whose slot ends at 18446744073709551615 or before")),
    }
}

/// The end of `slot`, where it can be written.
pub(super) fn end_of(slot: Slot, length: Micros) -> Option<Time> {
    let next = slot.number().checked_add(1)?;
    next.checked_mul(length.as_us()).map(Time::from_us)
}

fn agent_op(line: &Fields<'_>) -> Result<AgentOp, Fault> {
    match line.exactly_one(AGENT_OPS)? {
        "declare" => line.required("declare", "an object", |field| declaration(field, false)),
        "revise" => line.required("revise", "an object", |field| declaration(field, true)),
        "release" => line.required("release", "an object", |field| {
            Ok(AgentOp::Release { id: id(&field.table(&["id"])?)? })
        }),
        _ => line.required("renew", "an object", |field| {
            let renew = field.table(&["id", "until"])?;
            let until = Time::from_us(renew.required("until", MICROS_RULE, micros)?);
            Ok(AgentOp::Renew { id: id(&renew)?, until })
        }),
    }
}

fn declaration(field: Field<'_>, revision: bool) -> Result<AgentOp, Fault> {
    let raw = raw_intent(field)?;
    Ok(match raw.parse() {
        Ok(intent) if revision => AgentOp::Revise(intent),
        Ok(intent) => AgentOp::Declare(intent),
        Err(why) => AgentOp::Invalid { revision, raw: Arc::new(raw), why },
    })
}

fn capacity(field: Field<'_>) -> Result<SystemOp, Fault> {
    let capacity = field.table(&["path", "capacity"])?;
    let path = capacity.required("path", PATH_RULE, |field| {
        Path::new(field.text(PATH_RULE)?).ok_or_else(|| field.wrong(PATH_RULE))
    })?;
    Ok(SystemOp::Capacity { path, capacity: capacity.required("capacity", COUNT_RULE, count)? })
}

fn operator_release(field: Field<'_>) -> Result<SystemOp, Fault> {
    const REASON_RULE: &str = "a text of up to 256 bytes";
    let release = field.table(&["agent", "id", "reason"])?;
    let reason = release.required("reason", REASON_RULE, |field| {
        let reason = field.text(REASON_RULE)?;
        if reason.len() <= limits::REASON_BYTES {
            Ok(reason.to_owned())
        } else {
            Err(field.wrong(REASON_RULE))
        }
    })?;
    Ok(SystemOp::Release { agent: release.required("agent", AGENT_RULE, agent)?, id: id(&release)?, reason })
}

fn next_token(field: Field<'_>) -> Result<u64, Fault> {
    let token = field.count(TOKEN_RULE)?;
    if token <= limits::NEXT_TOKEN { Ok(token) } else { Err(field.wrong(TOKEN_RULE)) }
}

fn agent(field: Field<'_>) -> Result<Agent, Fault> {
    Agent::new(field.text(AGENT_RULE)?).ok_or_else(|| field.wrong(AGENT_RULE))
}

fn id(fields: &Fields<'_>) -> Result<IntentId, Fault> {
    fields.required("id", COUNT_RULE, count).map(IntentId::new)
}
