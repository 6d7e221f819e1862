//! What sessions need after a restart: from which session each intent came, and which sessions there are.

use super::read::{Read, wrong_at};
use super::{Reader, Writer};
use crate::limits;
use crate::session::coordinator::{DeclaredBy, SessionChange, SessionNotes};

mod kind {
    pub(super) const ENTERED: u8 = 1;
    pub(super) const GONE: u8 = 2;
}

impl Writer<'_> {
    pub(crate) fn notes(&mut self, notes: &SessionNotes) {
        let SessionNotes { declared, sessions } = notes;
        let mut last = 0;
        self.list(declared, |writer, DeclaredBy { input, label, note }| {
            writer.step(last, *input as u64);
            last = *input as u64;
            writer.common_text(label);
            let note = writer.kept.note(note);
            writer.common_text(&note);
        });
        self.list(sessions, Self::session);
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
        let sessions = self.list(limits::RECORD_ITEMS, Self::session)?;
        Ok(SessionNotes { declared, sessions })
    }

    pub(super) fn session(&mut self) -> Read<SessionChange> {
        let at = self.place();
        let kind = self.byte()?;
        let (agent, label) = (self.agent()?, self.common_text()?);
        match kind {
            kind::ENTERED => Ok(SessionChange::Entered {
                agent,
                label,
                number: self.number()?,
                incarnation: self.wide()?,
                replaced: self.list(limits::REPLACED_INCARNATIONS, Self::wide)?,
            }),
            kind::GONE => Ok(SessionChange::Gone { agent, label }),
            _ => Err(wrong_at(at, "a change of a session that is not known")),
        }
    }
}
