//! The hello: which version, which name, which session, and who is in charge of it.

use std::fmt;
use std::sync::Arc;

use super::{ConnectionId, Effect, LaneId, Member, Name, Place, Session, SessionChange, Sessions};
use crate::limits::{self, Limit};
use crate::types::{Agent, Time};
use crate::wire::{CloseCode, Extensions, Hello, Replaced, Role, VERSIONS, Welcome, WireLimits};

/// Why a hello was refused: the code that the connection is closed with, and what to tell people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelloRefusal {
    /// The close code.
    pub code: CloseCode,
    /// For people.
    pub reason: String,
}

impl fmt::Display for HelloRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.reason)
    }
}

impl std::error::Error for HelloRefusal {}

fn refuse(code: CloseCode, reason: impl Into<String>) -> HelloRefusal {
    HelloRefusal { code, reason: reason.into() }
}

impl Sessions {
    /// Takes a connection in: under the name that is `certified`, where something says who it is, else under the
    /// one that the hello asks for, or one that nobody goes by where it leaves that to the coordinator.
    ///
    /// The effects start with the welcome; what this session missed follows it. An older incarnation
    /// is told that it was replaced, and closed; from here on nothing that it sends counts.
    ///
    /// # Errors
    /// [`HelloRefusal`], with nothing changed.
    pub fn hello(
        &mut self,
        connection: ConnectionId,
        hello: &Hello,
        certified: Option<&Agent>,
        now: Time,
    ) -> Result<Vec<Effect>, HelloRefusal> {
        let version = agree_on_version(hello)?;
        if let Some(number) = hello.extensions.first_not_understood(&[]) {
            return Err(refuse(CloseCode::UnsupportedExtension, format!("extension {number:#06x}")));
        }
        let agent = match (asked_for(hello)?, certified) {
            (Some(asked), Some(certified)) if asked != *certified => return Err(anothers(&asked, certified)),
            (_, Some(certified)) => certified.clone(),
            (Some(asked), None) => asked,
            (None, None) => self.spare_name(hello.incarnation),
        };
        self.forget_left(now);
        let mut effects = Vec::new();
        let (session, resumed, label) = match hello.role {
            Role::Observer => (0, false, None),
            Role::Agent => {
                let label = label_of(hello)?;
                let (number, resumed) = self.enter(connection, &agent, &label, hello, &mut effects)?;
                (number, resumed, Some(label))
            }
        };
        let welcome = self.welcome(version, &agent, hello, (session, resumed), now);
        let to = Place { connection, lane: LaneId::FIRST };
        effects.insert(0, Effect::Send { to, message: welcome.into() });
        if let Some(label) = &label {
            let known = self.names.get(&agent);
            let missed = self.mailbox.take(&agent, label, hello.seen, |other| {
                known.is_some_and(|name| name.sessions.contains_key(other))
            });
            effects.extend(missed.into_iter().map(|message| Effect::Send { to, message }));
        }
        self.members.insert(connection, Member { agent, label });
        effects.extend(self.told_to_drain(connection, now));
        Ok(effects)
    }

    /// A name that nobody goes by; not even before a restart, as long as something of it is left. It is
    /// the incarnation's, so that who comes back with it to a coordinator that has lost its state does
    /// not take over from somebody else.
    fn spare_name(&self, incarnation: u128) -> Agent {
        let mut number = incarnation as u32; // the lowest digits are as random as any
        loop {
            let spare = Agent::new(&format!("agent-{number:08x}"))
                .unwrap_or_else(|| unreachable!("a word and a number are a name"));
            if !self.is_known(&spare) {
                return spare;
            }
            number = number.wrapping_add(1);
        }
    }

    /// Puts the connection in charge of its session; returns the session's number and whether this
    /// incarnation had it before.
    fn enter(
        &mut self,
        connection: ConnectionId,
        agent: &Agent,
        label: &Arc<str>,
        hello: &Hello,
        effects: &mut Vec<Effect>,
    ) -> Result<(u64, bool), HelloRefusal> {
        self.make_room(agent, label)?;
        let name = self.names.entry(agent.clone()).or_default();
        let Some(session) = name.sessions.get_mut(label) else {
            let number = self.next_session;
            self.next_session += 1;
            let session = Session::new(number, hello.incarnation, connection);
            let entered = session.entered(agent, label);
            name.sessions.insert(Arc::clone(label), session);
            self.note_change(entered);
            return Ok((number, false));
        };
        let resumed = session.incarnation == hello.incarnation;
        if !resumed {
            session.check_takeover(hello)?;
            session.take_over(hello.incarnation);
        }
        self.left.remove(&(session.left, session.number));
        if let Some(old) = session.connection.replace(connection) {
            self.members.remove(&old);
            self.watchers.forget(old);
            effects.extend(dismiss(old, resumed, &hello.software));
        }
        let number = session.number;
        if !resumed {
            let entered = session.entered(agent, label);
            self.note_change(entered);
        }
        Ok((number, resumed))
    }

    /// Refuses one name, or one session of a name, too many; sessions without a connection give way, the one that has been
    /// so longest first.
    fn make_room(&mut self, agent: &Agent, label: &Arc<str>) -> Result<(), HelloRefusal> {
        let Some(name) = self.names.get(agent) else {
            if self.names.len() < self.terms.bounds.names {
                return Ok(());
            }
            self.reached.note(Limit::Names);
            // Those that came and went would keep everybody else out otherwise.
            while self.names.len() >= self.terms.bounds.names {
                let Some((agent, label)) = self.left.first_entry().map(|longest| longest.get().clone())
                else {
                    return Err(refuse(CloseCode::NameRefused, "too many names at once"));
                };
                self.forget_session(&agent, &label);
            }
            return Ok(());
        };
        if name.sessions.contains_key(label) || name.sessions.len() < self.terms.bounds.sessions_of_a_name {
            return Ok(());
        }
        self.reached.note(Limit::SessionsPerAgent);
        let oldest = name.oldest_left().ok_or_else(|| {
            refuse(CloseCode::NameRefused, "this name has as many sessions as it may have at once")
        })?;
        self.forget_session(agent, &oldest);
        Ok(())
    }

    fn welcome(
        &self,
        version: u16,
        agent: &Agent,
        hello: &Hello,
        (session, resumed): (u64, bool),
        now: Time,
    ) -> Welcome {
        let bound = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
        Welcome {
            version,
            name: agent.as_str().to_owned(),
            label: hello.label.clone(),
            session,
            resumed,
            state: self.terms.state,
            slot_length: self.terms.slot_length,
            min_lead: self.terms.min_lead,
            horizon: self.terms.horizon,
            slot: self.open_slot(now).0,
            now,
            limits: WireLimits {
                frame_bytes: bound(limits::FRAME_BYTES),
                batch: bound(limits::BATCH),
                lanes: bound(self.terms.bounds.lanes),
                undecided: bound(self.terms.bounds.undecided_of_a_name),
            },
            software: self.terms.software.clone(),
            extensions: Extensions::NONE,
        }
    }
}

const NAME_RULE: &str = "a name is 1 to 128 bytes without control characters";
const LABEL_RULE: &str = "a label is 1 to 64 bytes without control characters";

fn agree_on_version(hello: &Hello) -> Result<u16, HelloRefusal> {
    let (lowest, highest) = VERSIONS;
    let version = highest.min(hello.highest_version);
    if version < lowest.max(hello.lowest_version) {
        let theirs = (hello.lowest_version, hello.highest_version);
        let reason = format!("versions {} to {} here, {} to {} there", lowest, highest, theirs.0, theirs.1);
        return Err(refuse(CloseCode::UnsupportedVersion, reason));
    }
    Ok(version)
}

fn asked_for(hello: &Hello) -> Result<Option<Agent>, HelloRefusal> {
    let name = |name: &String| Agent::new(name).ok_or_else(|| refuse(CloseCode::NameRefused, NAME_RULE));
    hello.name.as_ref().map(name).transpose()
}

/// Nobody goes by a name that its certificate or token does not say. Both names are told: who has this
/// certificate knows them anyway.
fn anothers(asked: &Agent, certified: &Agent) -> HelloRefusal {
    let reason = format!("it is \"{certified}\" by its certificate or token, and asks to be \"{asked}\"");
    refuse(CloseCode::AnothersName, reason)
}

fn label_of(hello: &Hello) -> Result<Arc<str>, HelloRefusal> {
    let fits = Hello::is_label(&hello.label);
    if fits { Ok(hello.label.as_str().into()) } else { Err(refuse(CloseCode::NameRefused, LABEL_RULE)) }
}

/// Closes an older connection of a session. One of the same incarnation knows itself that it has
/// come back; another is told who took over.
fn dismiss(old: ConnectionId, resumed: bool, by: &str) -> Vec<Effect> {
    if resumed {
        let reason = "this incarnation has a newer connection".into();
        return vec![Effect::Close { connection: old, code: CloseCode::Done, reason }];
    }
    let to = Place { connection: old, lane: LaneId::FIRST };
    let message = Replaced { by: by.to_owned(), extensions: Extensions::NONE }.into();
    let reason = "a newer incarnation of this name and label has taken over".into();
    vec![Effect::Send { to, message }, Effect::Close { connection: old, code: CloseCode::Replaced, reason }]
}

impl Session {
    fn new(number: u64, incarnation: u128, connection: ConnectionId) -> Self {
        Session { number, incarnation, replaced: Vec::new(), connection: Some(connection), left: Time::ZERO }
    }

    fn entered(&self, agent: &Agent, label: &Arc<str>) -> SessionChange {
        SessionChange::Entered {
            agent: agent.clone(),
            label: Arc::clone(label),
            number: self.number,
            incarnation: self.incarnation,
            replaced: self.replaced.clone(),
        }
    }

    /// Whether another incarnation may take over: not one that was itself replaced, or two live
    /// processes would take the session from each other for ever.
    fn check_takeover(&self, hello: &Hello) -> Result<(), HelloRefusal> {
        if self.replaced.contains(&hello.incarnation) {
            return Err(refuse(CloseCode::Replaced, "this incarnation was replaced by a newer one"));
        }
        if hello.refuse_if_live && self.connection.is_some() {
            return Err(refuse(CloseCode::SessionLive, "its incarnation is connected"));
        }
        Ok(())
    }

    fn take_over(&mut self, incarnation: u128) {
        if self.replaced.len() >= limits::REPLACED_INCARNATIONS {
            self.replaced.remove(0);
        }
        self.replaced.push(self.incarnation);
        self.incarnation = incarnation;
    }
}

impl Name {
    fn oldest_left(&self) -> Option<Arc<str>> {
        let left = self.sessions.iter().filter(|(_, session)| session.connection.is_none());
        left.min_by_key(|(_, session)| session.left).map(|(label, _)| Arc::clone(label))
    }
}
