//! What an id stands for: in a change, beside what its record has said already, or in a snapshot,
//! where everything is spelled.

use std::sync::Arc;

use super::intent::{are_windows_of, is_same};
use super::read::{Read, wrong_at};
use super::verdict::flag;
use super::{Reader, Writer, line, source};
use crate::audit::record::StoredInput;
use crate::limits;
use crate::resolver::state::{Ended, Granted, Standing, Undecided};
use crate::resolver::{AgentOp, Input};
use crate::types::{Decision, Intent, IntentId, Time, Token, Verdict, Window};

/// What a standing consists of.
pub(super) mod part {
    pub(crate) const UNDECIDED: u8 = 1;
    pub(crate) const GRANT: u8 = 1 << 1;
    pub(crate) const ENDED: u8 = 1 << 2;
    pub(crate) const ALL: u8 = UNDECIDED | GRANT | ENDED;
}

/// The bits of a part's first byte that say where its intent is.
const SOURCE_BITS: u8 = 3;

mod undecided {
    pub(super) const REVISES: u8 = 1 << 2;
    pub(super) const HELD_SINCE: u8 = 1 << 3;
    /// It waits from another time than its arrival.
    pub(super) const WAITS_FROM: u8 = 1 << 4;
    /// Where the line is that it was told.
    pub(super) const LINE_SHIFT: u8 = 5;
}

mod granted {
    pub(super) const HELD_SINCE: u8 = 1 << 2;
    pub(super) const MOVED: u8 = 1 << 3;
    /// Start, end and token are those of the latest decision about the id.
    pub(super) const DECIDED: u8 = 1 << 4;
    /// The windows are those of the claims.
    pub(super) const AS_CLAIMED: u8 = 1 << 5;
    /// It was granted at the time that others count from.
    pub(super) const NOW: u8 = 1 << 6;
}

mod ended {
    pub(super) const LINE_SHIFT: u8 = 2;
    /// It ended at the time that others count from.
    pub(super) const NOW: u8 = 1 << 4;
}

/// What a record has said already, or nothing, and what one id stood for before it.
#[derive(Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) inputs: &'a [Input],
    pub(super) decisions: &'a [Decision],
    pub(super) before: Option<&'a Arc<Intent>>,
}

impl Said<'_> {
    pub(super) const NOTHING: Said<'static> = Said { inputs: &[], decisions: &[], before: None };
}

/// The same, of a record that was read.
pub(super) struct Known<'a> {
    pub(super) inputs: &'a [StoredInput],
    pub(super) decisions: &'a [Decision],
    pub(super) before: Option<Arc<Intent>>,
}

impl Known<'_> {
    pub(super) const NOTHING: Known<'static> = Known { inputs: &[], decisions: &[], before: None };
}

/// What of a standing the record has said already.
struct Links<'a> {
    before: Option<&'a Arc<Intent>>,
    declared: Option<&'a Intent>,
    decided: Option<&'a Verdict>,
}

impl Links<'_> {
    fn source(&self, intent: &Arc<Intent>) -> u8 {
        if self.before.is_some_and(|before| Arc::ptr_eq(before, intent)) {
            source::BEFORE
        } else if self.declared.is_some_and(|declared| is_same(declared, intent)) {
            source::DECLARED
        } else {
            source::SPELLED
        }
    }

    fn line(&self, verdict: Option<&Verdict>) -> u8 {
        match verdict {
            None => line::NONE,
            Some(verdict) if self.decided == Some(verdict) => line::DECIDED,
            Some(_) => line::SPELLED,
        }
    }
}

fn declared(op: &AgentOp) -> Option<&Intent> {
    match op {
        AgentOp::Declare(intent) | AgentOp::Revise(intent) => Some(intent),
        AgentOp::Invalid { .. } | AgentOp::Release { .. } | AgentOp::Renew { .. } => None,
    }
}

pub(super) fn parts(standing: &Standing) -> u8 {
    let Standing { undecided, grant, ended } = standing;
    flag(undecided.is_some(), part::UNDECIDED)
        | flag(grant.is_some(), part::GRANT)
        | flag(ended.is_some(), part::ENDED)
}

impl Writer<'_> {
    /// The parts of the standing, whose flags stand before. `place` is that of its key.
    pub(super) fn standing(&mut self, standing: &Standing, place: usize, said: Said<'_>) {
        let told = *self.told(place);
        let input = told.declared.and_then(|index| said.inputs.get(index as usize));
        let decision = told.decided.and_then(|index| said.decisions.get(index as usize));
        let links = Links {
            before: said.before,
            declared: input.and_then(|input| match input {
                Input::Agent { op, .. } => declared(op),
                Input::System { .. } => None,
            }),
            decided: decision.map(|decision| &decision.verdict),
        };
        let Standing { undecided, grant, ended } = standing;
        if let Some(undecided) = undecided {
            self.undecided(undecided, &links);
        }
        if let Some(grant) = grant {
            self.granted(grant, &links);
        }
        if let Some(ended) = ended {
            self.ended(ended, &links);
        }
    }

    fn undecided(&mut self, it: &Undecided, links: &Links<'_>) {
        let told = it.told.as_deref();
        let (source, line) = (links.source(&it.intent), links.line(told));
        let flags = flag(it.revises.is_some(), undecided::REVISES)
            | flag(it.held_since.is_some(), undecided::HELD_SINCE)
            | flag(it.waits_from != it.arrival, undecided::WAITS_FROM);
        self.byte(source | flags | (line << undecided::LINE_SHIFT));
        self.sourced(source, &it.intent);
        self.time(it.arrival);
        self.arrival_number(it.arrival_number);
        if it.waits_from != it.arrival {
            self.time(it.waits_from);
        }
        if let Some(token) = it.revises {
            self.token(token);
        }
        if let Some(since) = it.held_since {
            self.time(since);
        }
        self.line(line, told);
    }

    fn granted(&mut self, it: &Granted, links: &Links<'_>) {
        let Granted {
            token,
            intent,
            start,
            end,
            granted_at,
            arrival,
            arrival_number,
            held_since,
            was_moved,
            windows,
        } = it;
        let source = links.source(intent);
        let is_decided = links.decided.and_then(placed) == Some((*start, *end, *token));
        let is_claimed = are_windows_of(windows, &intent.claims, *start);
        let flags = flag(held_since.is_some(), granted::HELD_SINCE)
            | flag(*was_moved, granted::MOVED)
            | flag(is_decided, granted::DECIDED)
            | flag(is_claimed, granted::AS_CLAIMED)
            | flag(self.is_base(*granted_at), granted::NOW);
        self.byte(source | flags);
        self.sourced(source, intent);
        if !is_decided {
            self.placed(*start, *end, *token);
        }
        if !self.is_base(*granted_at) {
            self.time(*granted_at);
        }
        self.time(*arrival);
        self.arrival_number(*arrival_number);
        if let Some(since) = held_since {
            self.time(*since);
        }
        if !is_claimed {
            self.list(windows, |writer, window| writer.window(*window));
        }
    }

    fn ended(&mut self, it: &Ended, links: &Links<'_>) {
        let Ended { intent, at, line } = it;
        let (source, kind) = (links.source(intent), links.line(line.as_ref()));
        self.byte(source | (kind << ended::LINE_SHIFT) | flag(self.is_base(*at), ended::NOW));
        self.sourced(source, intent);
        if !self.is_base(*at) {
            self.time(*at);
        }
        self.line(kind, line.as_ref());
    }

    fn sourced(&mut self, source: u8, intent: &Intent) {
        if source == source::SPELLED {
            self.intent(intent);
        }
    }

    fn line(&mut self, kind: u8, line: Option<&Verdict>) {
        if let Some(verdict) = line
            && kind == line::SPELLED
        {
            self.verdict(verdict);
        }
    }
}

fn placed(verdict: &Verdict) -> Option<(Time, Time, Token)> {
    match verdict {
        Verdict::Granted { start, end, token } | Verdict::Moved { start, end, token } => {
            Some((*start, *end, *token))
        }
        _ => None,
    }
}

/// One id while its standing is read.
struct Looking<'a> {
    id: IntentId,
    before: Option<Arc<Intent>>,
    declared: Option<&'a Intent>,
    decided: Option<&'a Verdict>,
}

impl Reader<'_> {
    /// The standing of the id with those parts, whose key is at `place`.
    pub(super) fn standing(
        &mut self,
        parts: u8,
        id: IntentId,
        place: usize,
        known: Known<'_>,
    ) -> Read<Standing> {
        let told = *self.told(place);
        let input = told.declared.and_then(|index| known.inputs.get(index as usize));
        let decision = told.decided.and_then(|index| known.decisions.get(index as usize));
        let looking = Looking {
            id,
            before: known.before,
            declared: input.and_then(|input| match input {
                StoredInput::Agent { op, .. } => declared(op),
                StoredInput::System { .. } => None,
            }),
            decided: decision.map(|decision| &decision.verdict),
        };
        let mut standing = Standing::default();
        if parts & part::UNDECIDED != 0 {
            standing.undecided = Some(self.undecided(&looking)?);
        }
        if parts & part::GRANT != 0 {
            standing.grant = Some(self.granted(&looking)?);
        }
        if parts & part::ENDED != 0 {
            standing.ended = Some(self.ended(&looking)?);
        }
        Ok(standing)
    }

    fn undecided(&mut self, looking: &Looking<'_>) -> Read<Undecided> {
        let at = self.place();
        let head = self.byte()?;
        let is_set = |flag| head & flag != 0;
        let intent = self.sourced(head, looking)?;
        let arrival = self.time()?;
        let mut it = Undecided::new(intent, arrival, self.arrival_number()?);
        if is_set(undecided::WAITS_FROM) {
            it.waits_from = self.time()?;
        }
        it.revises = if is_set(undecided::REVISES) { Some(self.token()?) } else { None };
        it.held_since = if is_set(undecided::HELD_SINCE) { Some(self.time()?) } else { None };
        it.told = self.line(head >> undecided::LINE_SHIFT, at, looking)?.map(Arc::new);
        Ok(it)
    }

    fn granted(&mut self, looking: &Looking<'_>) -> Read<Granted> {
        let at = self.place();
        let head = self.flags((granted::NOW << 1) - 1)?;
        let is_set = |flag| head & flag != 0;
        let intent = self.sourced(head, looking)?;
        let (start, end, token) = if is_set(granted::DECIDED) {
            let decided = looking.decided.and_then(placed);
            decided.ok_or_else(|| wrong_at(at, "a grant as decided, and no such decision"))?
        } else {
            self.placed()?
        };
        let granted_at = if is_set(granted::NOW) { self.base() } else { self.time()? };
        let (arrival, arrival_number) = (self.time()?, self.arrival_number()?);
        let held_since = if is_set(granted::HELD_SINCE) { Some(self.time()?) } else { None };
        let windows: Vec<Window> = if is_set(granted::AS_CLAIMED) {
            intent.claims.iter().map(|claim| claim.window(start)).collect()
        } else {
            self.list(limits::CLAIMS, Self::window)?
        };
        if windows.len() != intent.claims.len() {
            return Err(wrong_at(at, "a grant with another number of windows than claims"));
        }
        let was_moved = is_set(granted::MOVED);
        Ok(Granted {
            token,
            intent,
            start,
            end,
            granted_at,
            arrival,
            arrival_number,
            held_since,
            was_moved,
            windows,
        })
    }

    fn ended(&mut self, looking: &Looking<'_>) -> Read<Ended> {
        let at = self.place();
        let head = self.flags((ended::NOW << 1) - 1)?;
        let intent = self.sourced(head, looking)?;
        let ended_at = if head & ended::NOW != 0 { self.base() } else { self.time()? };
        let line = self.line((head & !ended::NOW) >> ended::LINE_SHIFT, at, looking)?;
        Ok(Ended { intent, at: ended_at, line })
    }

    fn sourced(&mut self, head: u8, looking: &Looking<'_>) -> Read<Arc<Intent>> {
        let found = match head & SOURCE_BITS {
            source::SPELLED => return self.intent(looking.id).map(Arc::new),
            source::BEFORE => looking.before.clone(),
            source::DECLARED => looking.declared.map(|intent| Arc::new(intent.clone())),
            _ => None,
        };
        found.ok_or_else(|| self.wrong("an intent as said before, and none was"))
    }

    fn line(&mut self, kind: u8, at: usize, looking: &Looking<'_>) -> Read<Option<Verdict>> {
        match kind {
            line::NONE => Ok(None),
            line::SPELLED => self.verdict().map(Some),
            line::DECIDED if looking.decided.is_some() => Ok(looking.decided.cloned()),
            _ => Err(wrong_at(at, "a line as decided, and no such decision")),
        }
    }
}
