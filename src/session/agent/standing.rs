//! After a reconnect: what has become of what this session holds.
//!
//! What was decided meanwhile and kept for it has been told by then; but news is kept within bounds,
//! is lost where the connection had died before the coordinator knew, and does not outlive the
//! coordinator. So the session asks, and the answer is that of the state itself.

use super::held::Held;
use super::pending::{Ask, Pending};
use super::{AgentSession, Breach, Loss, News};
use crate::limits;
use crate::types::{IntentId, Slot};
use crate::wire::{CloseCode, ListReply, Standing, Verdict};

impl AgentSession {
    /// Asks how all that is held, or waits to be granted again, stands.
    pub(super) fn ask_what_stands(&mut self) {
        let mut ids = self.holdings.ids();
        ids.extend(self.revoked.keys());
        self.ask_standing(&ids);
    }

    pub(super) fn ask_standing(&mut self, ids: &[IntentId]) {
        for some in ids.chunks(limits::STANDINGS) {
            self.ask(Ask::Standing { ids: some.to_vec() });
        }
    }

    pub(super) fn standing_told(&mut self, reply: ListReply) -> Result<(), Breach> {
        let Some(Pending { ask: Ask::Standing { ids }, .. }) = self.pending.get(&reply.request) else {
            return Err(Breach { code: CloseCode::ProtocolOrder, why: "a listing that was not asked for" });
        };
        let ids = ids.clone();
        let Some(told) = Standing::all_in(&reply) else {
            return Err(Breach { code: CloseCode::MalformedBody, why: "no standings in the reply" });
        };
        self.done(reply.request);
        let of = |id: &IntentId| told.iter().find(|standing| standing.id == *id);
        for id in ids.iter().filter(|id| of(id).is_some()) {
            let verdict = of(id).and_then(|standing| standing.verdict.clone());
            if self.heard_of(*id).is_none_or(|heard| heard <= reply.slot) {
                self.stands_so(*id, verdict);
            }
        }
        // As many as fit in one reply are told at a time; none at all would be asked for ever.
        let rest: Vec<IntentId> = ids.into_iter().filter(|id| of(id).is_none()).collect();
        if told.is_empty() {
            rest.into_iter().for_each(|id| self.stands_so(id, None));
        } else {
            self.ask_standing(&rest);
        }
        Ok(())
    }

    /// The slot of the last answer about `id`: the standing may be of an earlier one.
    fn heard_of(&self, id: IntentId) -> Option<Slot> {
        let waiting = self.revoked.get(&id).map(|(_, heard)| *heard);
        self.holdings.of(id).map(Held::heard).or(waiting)
    }

    /// The coordinator says how `id` stands; `None` where it knows nothing of it.
    fn stands_so(&mut self, id: IntentId, verdict: Option<Verdict>) {
        if self.declared.contains_key(&id) {
            return; // a revision is on its way, or it has been declared anew: the answer to that says it
        }
        match verdict {
            Some(Verdict::Granted { start, end, token } | Verdict::Moved { start, end, token }) => {
                match self.holdings.of(id).map(|held| held.token) {
                    Some(known) if known == token => {
                        self.stands_after_all(id);
                        self.ends_at(id, end);
                    }
                    Some(known) if known < token => self.moved(id, start, end, token),
                    // A coordinator that was set back: what it has is not what is believed here.
                    Some(_) => {
                        self.gone(id, Loss::Unknown, false);
                        self.ask(Ask::Release { id });
                    }
                    None => self.granted_anew(id, start, end, token),
                }
            }
            Some(Verdict::Revoked { by, by_id, offer, waiting }) => {
                self.gone(id, Loss::Revoked { by, by_id, offer, waiting }, waiting);
            }
            // A grant that is no more, and its intent waits: it was revoked, and has been told since
            // that it still is in vain.
            Some(Verdict::Conflict(conflict)) if !conflict.is_final => self.gone(id, Loss::Unknown, true),
            Some(Verdict::Expired { .. }) => self.gone(id, Loss::Expired, false),
            Some(Verdict::Released { reason }) => self.gone(id, Loss::Released { reason }, false),
            Some(_) | None => self.gone(id, Loss::Unknown, false),
        }
    }

    fn gone(&mut self, id: IntentId, why: Loss, waits: bool) {
        let waited = self.revoked.remove(&id);
        let waiting = self.holdings.of(id).map(|held| (held.terms.clone(), held.heard())).or(waited.clone());
        self.lose(id, why);
        match waiting {
            Some(waiting) if waits => {
                self.revoked.insert(id, waiting);
            }
            // Of what is neither held nor waited for any more, its end has been told already.
            _ if waited.is_some() => self.news(News::GaveUp { id }),
            _ => {}
        }
    }
}
