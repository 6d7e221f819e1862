//! Who may look at others' claims.

use std::sync::Arc;

use super::forbidding::Attempt;
use super::rights::Rights;
use super::{ConnectionId, Denial, Member, Sessions};
use crate::types::{Agent, Path, Target, Time};

/// What a listing or a watch is about.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Only what has a claim at or below this path.
    pub(super) under: Option<Path>,
    /// Only this agent's.
    pub(super) agent: Option<Agent>,
}

impl Scope {
    /// What is asked for; the field at fault where that cannot be understood.
    pub(super) fn of(under: Option<&str>, agent: Option<&str>) -> Result<Self, &'static str> {
        Ok(Scope {
            under: under.map(|text| Path::new(text).ok_or("under")).transpose()?,
            agent: agent.map(|name| Agent::new(name).ok_or("agent")).transpose()?,
        })
    }
}

/// Somebody who looks at claims, and which of them it may see.
#[derive(Clone, Debug)]
pub struct Reader {
    agent: Agent,
    /// `None` where it may see all that it is shown.
    rights: Option<Arc<Rights>>,
}

impl Reader {
    /// Who it is.
    pub(super) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Whether nothing is to be hidden from it.
    pub(super) fn reads_all(&self) -> bool {
        self.rights.is_none()
    }

    /// Whether it may see a claim on `target`.
    pub(super) fn reads(&self, target: &Target) -> bool {
        self.rights.as_ref().is_none_or(|rights| rights.may_read_target(&self.agent, target))
    }
}

impl Sessions {
    /// The agent as somebody who looks at claims.
    pub(super) fn reader(&self, agent: &Agent) -> Reader {
        let reads_all = self.rights.is_open() || self.rights.may_read(agent, None).is_ok();
        Reader { agent: agent.clone(), rights: (!reads_all).then(|| Arc::clone(&self.rights)) }
    }

    /// Whether whoever is on `connection` may look at what is asked for; what is its own, it always may.
    ///
    /// # Errors
    /// What it is told instead. It is noted for the record.
    pub fn may_look(&mut self, connection: ConnectionId, scope: &Scope, now: Time) -> Result<Reader, Denial> {
        // Who is gone meanwhile is told nothing.
        let Some(Member { agent, .. }) = self.members.get(&connection).cloned() else {
            let nobody = Denial {
                reason: crate::wire::Refusal::Forbidden,
                field: String::new(),
                hint: String::new(),
                retry_after: None,
            };
            return Err(nobody);
        };
        if scope.agent.as_ref() == Some(&agent) {
            return Ok(Reader { agent, rights: None });
        }
        let rights = Arc::clone(&self.rights);
        match rights.may_read(&agent, scope.under.as_ref()) {
            Ok(()) => Ok(self.reader(&agent)),
            Err(why) => Err(self.forbid(&agent, Attempt::Look, why, now)),
        }
    }
}
