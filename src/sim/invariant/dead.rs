//! What a program is handed as a grant is one: the coordinator gave it to that name and id with that
//! start, and at the decision that the answer tells of it had not ended. An answer that was long on its
//! way may come after its end: then the agent's own clock says so (`belief`), and it is told (`late`).

use super::{Happened, Invariant, View};
use crate::session::agent::{Event, News, Reply};
use crate::types::{IntentId, Time, Token};

pub(super) struct NothingDeadIsHandedOut;

struct Handed {
    id: IntentId,
    token: Token,
    start: Time,
    end: Time,
    at: Option<Time>,
}

impl Invariant for NothingDeadIsHandedOut {
    fn name(&self) -> &'static str {
        "dead: no grant that has ended is handed out as a live one"
    }

    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String> {
        let Happened::Event { process, event } = happened else { return Ok(()) };
        let Some(Handed { id, token, start, end, at }) = handed(event) else { return Ok(()) };
        let agent = &view.agents[*process];
        let Some(record) = view.ledger.grants.get(&token) else {
            return Err(format!("process {process} was handed token {token}, which was never given"));
        };
        if record.key.agent != agent.name || record.key.id != id || record.start != start {
            return Err(format!("process {process} was handed token {token} as its own: {record:?}"));
        }
        if end > record.end {
            return Err(format!("process {process} was handed token {token} up to {end:?}: {record:?}"));
        }
        // What is released in the very slot that tells of it is told so next.
        let was_over = |at: Time| end <= at || record.ended.is_some_and(|(ended, _)| ended < at);
        if at.is_some_and(was_over) {
            return Err(format!("process {process} was handed token {token} as of {at:?}: {record:?}"));
        }
        Ok(())
    }
}

fn handed(event: &Event) -> Option<Handed> {
    match event {
        Event::Reply { id, reply: Reply::Granted { at, start, end, token, .. }, .. } => {
            Some(Handed { id: *id, token: *token, start: *start, end: *end, at: Some(*at) })
        }
        Event::News(
            News::Granted { id, start, end, token, .. }
            | News::Moved { id, start, end, token, .. }
            | News::Revised { id, start, end, token, .. },
        ) => Some(Handed { id: *id, token: *token, start: *start, end: *end, at: None }),
        _ => None,
    }
}
