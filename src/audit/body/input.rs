//! Inputs: what agents asked for, and what the operator and the coordinator set.

use std::sync::Arc;

use super::read::{Read, wrong_at};
use super::{Reader, Writer};
use crate::audit::record::{StoredInput, StoredOp};
use crate::limits;
use crate::resolver::{AgentOp, Input, SystemOp};
use crate::types::{Agent, IntentKey, Invalid, Time};

/// The numbers of inputs.
mod kind {
    pub(super) const DECLARE: u8 = 1;
    pub(super) const REVISE: u8 = 2;
    pub(super) const INVALID_DECLARE: u8 = 3;
    pub(super) const INVALID_REVISE: u8 = 4;
    pub(super) const RELEASE: u8 = 5;
    pub(super) const RENEW: u8 = 6;
    pub(super) const CAPACITY: u8 = 16;
    pub(super) const OPERATOR_RELEASE: u8 = 17;
    pub(super) const CONFIG: u8 = 18;
    pub(super) const CONFIG_WITH_RESOURCES: u8 = 19;
    pub(super) const RESTART: u8 = 20;
}

/// What an invalid value may be, where a later version than that which refused it would take it.
const EARLIER_RULE: &str = "what the version took that refused it";

impl Writer<'_> {
    /// All inputs of a record.
    pub(crate) fn inputs(&mut self, inputs: &[Input], base: Time) {
        self.count(inputs.len());
        let mut last = base;
        for (index, input) in inputs.iter().enumerate() {
            match input {
                Input::Agent { agent, op, .. } => self.agent_input(index, last, input.at(), agent, op),
                Input::System { op, .. } => self.system_op(op, |writer| {
                    writer.step(last.as_us(), input.at().as_us());
                }),
            }
            last = input.at();
        }
    }

    fn agent_input(&mut self, index: usize, last: Time, at: Time, agent: &Agent, op: &AgentOp) {
        self.byte(match op {
            AgentOp::Declare(_) => kind::DECLARE,
            AgentOp::Revise(_) => kind::REVISE,
            AgentOp::Invalid { revision: false, .. } => kind::INVALID_DECLARE,
            AgentOp::Invalid { revision: true, .. } => kind::INVALID_REVISE,
            AgentOp::Release { .. } => kind::RELEASE,
            AgentOp::Renew { .. } => kind::RENEW,
        });
        self.step(last.as_us(), at.as_us());
        let place = self.key_of(agent, op.id());
        match op {
            AgentOp::Declare(intent) | AgentOp::Revise(intent) => {
                self.intent(intent);
                self.told(place).declared = Some(index as u32);
            }
            AgentOp::Invalid { revision: _, raw, why } => {
                self.text(&why.field);
                self.raw_intent(raw);
            }
            AgentOp::Release { id: _ } => {}
            AgentOp::Renew { id: _, until } => self.time(*until),
        }
    }

    /// What the operator sets; `then` writes what follows the kind.
    fn system_op(&mut self, op: &SystemOp, then: impl FnOnce(&mut Self)) {
        match op {
            SystemOp::Capacity { path, capacity } => {
                self.byte(kind::CAPACITY);
                then(self);
                self.path(path);
                self.number(*capacity);
            }
            SystemOp::Release { agent, id, reason } => {
                self.byte(kind::OPERATOR_RELEASE);
                then(self);
                self.key_of(agent, *id);
                self.text(reason);
            }
            SystemOp::Config(change) => {
                let with = change.resources.is_some();
                self.byte(if with { kind::CONFIG_WITH_RESOURCES } else { kind::CONFIG });
                then(self);
                self.text(&change.document);
            }
            SystemOp::Restart { next_token } => {
                self.byte(kind::RESTART);
                then(self);
                self.number(*next_token);
            }
        }
    }

    /// What the operator set and is still to hold.
    pub(super) fn stored_op(&mut self, op: &StoredOp) {
        match op {
            StoredOp::Capacity { path, capacity } => {
                self.byte(kind::CAPACITY);
                self.path(path);
                self.number(*capacity);
            }
            StoredOp::Release { agent, id, reason } => {
                self.byte(kind::OPERATOR_RELEASE);
                self.key_of(agent, *id);
                self.text(reason);
            }
            StoredOp::Config { document, resources } => {
                self.byte(if *resources { kind::CONFIG_WITH_RESOURCES } else { kind::CONFIG });
                self.text(document);
            }
            StoredOp::Restart { next_token } => {
                self.byte(kind::RESTART);
                self.number(*next_token);
            }
        }
    }
}

impl Reader<'_> {
    /// All inputs of a record.
    pub(crate) fn inputs(&mut self) -> Read<Vec<StoredInput>> {
        let (mut last, mut index) = (self.base(), 0);
        self.list(limits::RECORD_ITEMS, |reader| {
            let input = reader.input(index, last)?;
            last = input.at();
            index += 1;
            Ok(input)
        })
    }

    fn input(&mut self, index: u32, last: Time) -> Read<StoredInput> {
        let place = self.place();
        let kind = self.byte()?;
        let at = Time::from_us(self.step(last.as_us())?);
        if kind >= kind::CAPACITY {
            return Ok(StoredInput::System { at, op: self.op_of(kind, place)? });
        }
        let (IntentKey { agent, id }, key) = self.key_and_place()?;
        let op = match kind {
            kind::DECLARE | kind::REVISE => {
                let intent = self.intent(id)?;
                self.told(key).declared = Some(index);
                if kind == kind::REVISE { AgentOp::Revise(intent) } else { AgentOp::Declare(intent) }
            }
            kind::INVALID_DECLARE | kind::INVALID_REVISE => {
                let field = self.owned_text()?;
                let raw = Arc::new(self.raw_intent(id)?);
                let why = raw.parse().err().filter(|why| why.field == field);
                let why = why.unwrap_or_else(|| Invalid::new(field, EARLIER_RULE));
                AgentOp::Invalid { revision: kind == kind::INVALID_REVISE, raw, why }
            }
            kind::RELEASE => AgentOp::Release { id },
            kind::RENEW => AgentOp::Renew { id, until: self.time()? },
            _ => return Err(wrong_at(place, "an input that is not known")),
        };
        Ok(StoredInput::Agent { at, agent, op })
    }

    pub(super) fn stored_op(&mut self) -> Read<StoredOp> {
        let place = self.place();
        let kind = self.byte()?;
        self.op_of(kind, place)
    }

    fn op_of(&mut self, kind: u8, place: usize) -> Read<StoredOp> {
        Ok(match kind {
            kind::CAPACITY => StoredOp::Capacity { path: self.path()?, capacity: self.number()? },
            kind::OPERATOR_RELEASE => {
                let IntentKey { agent, id } = self.key()?;
                StoredOp::Release { agent, id, reason: self.owned_text()? }
            }
            kind::CONFIG | kind::CONFIG_WITH_RESOURCES => StoredOp::Config {
                document: self.document()?,
                resources: kind == kind::CONFIG_WITH_RESOURCES,
            },
            kind::RESTART => StoredOp::Restart { next_token: self.number()? },
            _ => return Err(wrong_at(place, "an input that is not known")),
        })
    }

    pub(super) fn document(&mut self) -> Read<Arc<str>> {
        self.text(limits::RULES_DOCUMENT_BYTES).map(Arc::from)
    }
}
