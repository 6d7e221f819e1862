//! What sessions need after a restart: from which session each intent came, and which sessions there are.

use super::read::{Read, wrong_at};
use super::{Reader, Writer};
use crate::limits;
use crate::session::coordinator::{
    Attempt, DeclaredBy, DrainNote, ForbiddenBy, ForbiddenNote, LoweredBy, OperatorNote, Priority,
    ReloadNote, RightsNote, Sent, SessionChange, SessionNotes,
};
use crate::types::{Class, IntentId};

mod kind {
    pub(super) const ENTERED: u8 = 1;
    pub(super) const GONE: u8 = 2;
    pub(super) const FORBIDDEN: u8 = 3;
    pub(super) const LEFT_OUT: u8 = 4;
    pub(super) const LOWERED: u8 = 5;
    pub(super) const ADMINISTERED: u8 = 6;
    pub(super) const DRAIN: u8 = 7;
    pub(super) const RELOAD: u8 = 8;
    pub(super) const REASON: u8 = 9;
}

/// The numbers of what was tried.
mod attempt {
    pub(super) const DECLARE: u8 = 1;
    pub(super) const RENEW: u8 = 2;
    pub(super) const RELEASE: u8 = 3;
    pub(super) const ADMINISTER: u8 = 4;
    pub(super) const LOOK: u8 = 5;
    pub(super) const DRAIN: u8 = 6;
    pub(super) const SET_CAPACITY: u8 = 7;
}

/// What lowered a priority.
mod lowered {
    pub(super) const BY_RULE: u8 = 1;
    pub(super) const BY_ALLOWANCE: u8 = 1 << 1;
}

/// Set where a rule has a name.
const HAS_RULE: u8 = 1;
/// Set where an agent ordered a drain.
const BY_AGENT: u8 = 1;

/// Set where nothing came of a reload.
const IS_REFUSED: u8 = 1;

/// One note of what became of sessions and rights, and of what operators did.
enum Note {
    Session(SessionChange),
    Rights(RightsNote),
    Operator(OperatorNote),
}

impl Writer<'_> {
    pub(crate) fn notes(&mut self, notes: &SessionNotes) {
        let SessionNotes { declared, sessions, rights, operator } = notes;
        let mut last = 0;
        self.list(declared, |writer, DeclaredBy { input, label, note }| {
            writer.step(last, *input as u64);
            last = *input as u64;
            writer.common_text(label);
            let note = writer.kept.note(note);
            writer.common_text(&note);
        });
        self.count(sessions.len() + rights.len() + operator.len());
        sessions.iter().for_each(|session| self.session(session));
        rights.iter().for_each(|note| self.rights(note));
        operator.iter().for_each(|note| self.operator(note));
    }

    fn operator(&mut self, note: &OperatorNote) {
        match note {
            OperatorNote::Reload(ReloadNote { at, by, changes, more, refused }) => {
                self.byte(kind::RELOAD);
                self.byte(u8::from(refused.is_some()));
                self.time(*at);
                self.common_text(by);
                self.list(changes, |writer, change| writer.common_text(change));
                self.number(*more);
                if let Some(why) = refused {
                    self.common_text(why);
                }
            }
            OperatorNote::Reason { input, reason } => {
                self.byte(kind::REASON);
                self.count(*input);
                self.common_text(reason);
            }
        }
    }

    fn rights(&mut self, note: &RightsNote) {
        match note {
            RightsNote::Forbidden(note) => {
                self.byte(kind::FORBIDDEN);
                self.forbidden(note);
            }
            RightsNote::LeftOut(count) => {
                self.byte(kind::LEFT_OUT);
                self.number(*count);
            }
            RightsNote::Lowered { input, sent } => {
                self.byte(kind::LOWERED);
                self.count(*input);
                self.sent(sent);
            }
            RightsNote::Administered { input, by } => {
                self.byte(kind::ADMINISTERED);
                self.count(*input);
                self.agent(by);
            }
            RightsNote::Drain(DrainNote { at, by, reason, deadline }) => {
                self.byte(kind::DRAIN);
                self.byte(if by.is_some() { BY_AGENT } else { 0 });
                self.time(*at);
                self.time(*deadline);
                if let Some(by) = by {
                    self.agent(by);
                }
                self.text(reason);
            }
        }
    }

    fn forbidden(&mut self, note: &ForbiddenNote) {
        let ForbiddenNote { at, agent, asked, what, rule, by } = note;
        self.byte(u8::from(rule.is_some()));
        self.byte(by.number());
        self.time(*at);
        self.agent(agent);
        let id = match asked {
            Attempt::Declare(id) => (attempt::DECLARE, Some(id)),
            Attempt::Renew(id) => (attempt::RENEW, Some(id)),
            Attempt::Release(id) => (attempt::RELEASE, Some(id)),
            Attempt::Administer(_, id) => (attempt::ADMINISTER, Some(id)),
            Attempt::Look => (attempt::LOOK, None),
            Attempt::Drain => (attempt::DRAIN, None),
            Attempt::SetCapacity => (attempt::SET_CAPACITY, None),
        };
        self.byte(id.0);
        if let Attempt::Administer(whose, _) = asked {
            self.agent(whose);
        }
        if let Some(id) = id.1 {
            self.number(id.number());
        }
        self.common_text(what);
        if let Some(rule) = rule {
            self.common_text(rule);
        }
    }

    pub(super) fn sent(&mut self, sent: &Sent) {
        let Sent { priority, by: LoweredBy { rule, allowance } } = sent;
        let by_rule = if rule.is_some() { lowered::BY_RULE } else { 0 };
        self.byte(by_rule | if *allowance { lowered::BY_ALLOWANCE } else { 0 });
        let Priority { class, urgency, safety_margin, social_value } = priority;
        self.byte(class.number());
        [urgency, safety_margin, social_value].into_iter().for_each(|share| self.float(*share));
        if let Some(rule) = rule {
            self.common_text(rule);
        }
    }

    pub(super) fn session(&mut self, change: &SessionChange) {
        match change {
            SessionChange::Entered { agent, label, number, incarnation, replaced } => {
                self.byte(kind::ENTERED);
                self.agent(agent);
                self.common_text(label);
                self.number(*number);
                self.wide(*incarnation);
                self.list(replaced, |writer, incarnation| writer.wide(*incarnation));
            }
            SessionChange::Gone { agent, label } => {
                self.byte(kind::GONE);
                self.agent(agent);
                self.common_text(label);
            }
        }
    }
}

impl Reader<'_> {
    pub(crate) fn notes(&mut self) -> Read<SessionNotes> {
        let mut last = 0;
        let declared = self.list(limits::RECORD_ITEMS, |reader| {
            let at = reader.place();
            last = reader.step(last)?;
            let input = usize::try_from(last).map_err(|_| wrong_at(at, "an input that cannot be"))?;
            Ok(DeclaredBy { input, label: reader.common_text()?, note: reader.common_text()? })
        })?;
        let (mut sessions, mut rights, mut operator) = (Vec::new(), Vec::new(), Vec::new());
        for note in self.list(limits::RECORD_ITEMS, Self::note)? {
            match note {
                Note::Session(change) => sessions.push(change),
                Note::Rights(note) => rights.push(note),
                Note::Operator(note) => operator.push(note),
            }
        }
        Ok(SessionNotes { declared, sessions, rights, operator })
    }

    fn note(&mut self) -> Read<Note> {
        let at = self.place();
        Ok(Note::Rights(match self.byte()? {
            kind @ (kind::ENTERED | kind::GONE) => return self.session_of(kind).map(Note::Session),
            kind @ (kind::RELOAD | kind::REASON) => return self.operator_of(kind).map(Note::Operator),
            kind::FORBIDDEN => RightsNote::Forbidden(self.forbidden()?),
            kind::LEFT_OUT => RightsNote::LeftOut(self.number()?),
            kind::LOWERED => RightsNote::Lowered { input: self.size()?, sent: self.sent()? },
            kind::ADMINISTERED => RightsNote::Administered { input: self.size()?, by: self.agent()? },
            kind::DRAIN => {
                let by_agent = self.flags(BY_AGENT)? == BY_AGENT;
                let (at, deadline) = (self.time()?, self.time()?);
                let by = if by_agent { Some(self.agent()?) } else { None };
                RightsNote::Drain(DrainNote { at, by, reason: self.owned_text()?.into(), deadline })
            }
            _ => return Err(wrong_at(at, "a note that is not known")),
        }))
    }

    fn operator_of(&mut self, kind: u8) -> Read<OperatorNote> {
        if kind == kind::REASON {
            return Ok(OperatorNote::Reason { input: self.size()?, reason: self.common_text()? });
        }
        let is_refused = self.flags(IS_REFUSED)? == IS_REFUSED;
        let (at, by) = (self.time()?, self.common_text()?);
        let changes = self.list(limits::RELOAD_KEYS, Self::common_text)?;
        let more = self.number()?;
        let refused = if is_refused { Some(self.common_text()?) } else { None };
        Ok(OperatorNote::Reload(ReloadNote { at, by, changes, more, refused }))
    }

    fn forbidden(&mut self) -> Read<ForbiddenNote> {
        let has_rule = self.flags(HAS_RULE)? == HAS_RULE;
        let place = self.place();
        let number = self.byte()?;
        let by = ForbiddenBy::ALL.iter().find(|by| by.number() == number).copied();
        let by = by.ok_or_else(|| wrong_at(place, "a reason that is not known"))?;
        let (at, agent, place) = (self.time()?, self.agent()?, self.place());
        let asked = match self.byte()? {
            attempt::DECLARE => Attempt::Declare(self.id()?),
            attempt::RENEW => Attempt::Renew(self.id()?),
            attempt::RELEASE => Attempt::Release(self.id()?),
            attempt::ADMINISTER => Attempt::Administer(self.agent()?, self.id()?),
            attempt::LOOK => Attempt::Look,
            attempt::DRAIN => Attempt::Drain,
            attempt::SET_CAPACITY => Attempt::SetCapacity,
            _ => return Err(wrong_at(place, "an attempt that is not known")),
        };
        let what = self.common_text()?;
        let rule = if has_rule { Some(self.common_text()?) } else { None };
        Ok(ForbiddenNote { at, agent, asked, what, rule, by })
    }

    fn id(&mut self) -> Read<IntentId> {
        self.number().map(IntentId::new)
    }

    pub(super) fn sent(&mut self) -> Read<Sent> {
        let flags = self.flags(lowered::BY_RULE | lowered::BY_ALLOWANCE)?;
        let place = self.place();
        let class =
            Class::new(self.byte()?.into()).ok_or_else(|| wrong_at(place, "a class that cannot be"))?;
        let [urgency, safety_margin, social_value] = [self.float()?, self.float()?, self.float()?];
        let priority = Priority { class, urgency, safety_margin, social_value };
        let rule = if flags & lowered::BY_RULE == 0 { None } else { Some(self.common_text()?) };
        Ok(Sent { priority, by: LoweredBy { rule, allowance: flags & lowered::BY_ALLOWANCE != 0 } })
    }

    pub(super) fn session(&mut self) -> Read<SessionChange> {
        let at = self.place();
        match self.byte()? {
            kind @ (kind::ENTERED | kind::GONE) => self.session_of(kind),
            _ => Err(wrong_at(at, "a change of a session that is not known")),
        }
    }

    fn session_of(&mut self, kind: u8) -> Read<SessionChange> {
        let (agent, label) = (self.agent()?, self.common_text()?);
        match kind {
            kind::ENTERED => Ok(SessionChange::Entered {
                agent,
                label,
                number: self.number()?,
                incarnation: self.wide()?,
                replaced: self.list(limits::REPLACED_INCARNATIONS, Self::wide)?,
            }),
            _ => Ok(SessionChange::Gone { agent, label }),
        }
    }
}
