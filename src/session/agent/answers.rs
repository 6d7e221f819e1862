//! What an answer of the coordinator's means to a session.

use super::held::Held;
use super::pending::Ask;
use super::{AgentSession, Breach, Local, Loss, News, Reply};
use crate::types::{IntentId, Micros, Slot, Time, Token};
use crate::wire::{Answer, CapacityEntry, CloseCode, Conflict, DrainStands, InForce, Refusal, Verdict};

impl AgentSession {
    pub(super) fn answered(&mut self, answer: Answer, now: Local) -> Result<(), Breach> {
        if answer.extensions.first_not_understood(&[]).is_some() {
            return Err(Breach { code: CloseCode::UnsupportedExtension, why: "in an answer" });
        }
        if let Some(Ask::Drain(_)) = self.pending.get(&answer.request).map(|pending| &pending.ask) {
            self.drain_answered(answer);
            return Ok(());
        }
        // A refusal before the core names a slot that is still open.
        if !matches!(answer.verdict, Verdict::Rejected { .. }) {
            self.seen = self.seen.max(Some(answer.slot));
            self.clock.heard(answer.at, now);
        }
        let (id, slot) = (answer.id, answer.slot);
        if let Some(of) = InForce::in_extensions(&answer.extensions) {
            self.news(News::InForce { id, of });
        }
        match self.pending.get(&answer.request).map(|pending| &pending.ask) {
            Some(Ask::Release { id }) => self.release_answered(answer.request, *id, answer.verdict, now),
            Some(Ask::Administer { id, .. }) => {
                // Its id is another's: it says nothing of what this agent has under the same.
                let id = *id;
                self.administered(answer.request, id, answer.verdict);
                return Ok(());
            }
            Some(Ask::SetCapacity(_)) => {
                self.capacity_set(answer);
                return Ok(());
            }
            Some(Ask::Renew { id, automatic, .. }) => {
                self.renewal_answered(answer.request, *id, *automatic, answer.verdict, now);
            }
            Some(Ask::Declare { .. }) => self.declaration_answered(answer.request, answer, now),
            // It takes nothing in any more; whoever comes after it is asked.
            Some(Ask::Standing { .. } | Ask::Drain(_)) => self.done(answer.request),
            None => self.told_without_a_number(answer, now),
        }
        self.heard(id, slot);
        Ok(())
    }

    /// News, unless it is the fate of something declared whose number the coordinator no longer has.
    /// What was asked again is answered by its number: news of its fate was kept since before that, and
    /// may be out of date.
    fn told_without_a_number(&mut self, answer: Answer, now: Local) {
        let declared = self.declared.get(&answer.id).copied().filter(|_| is_fate(&answer.verdict));
        let asked = declared.and_then(|request| self.pending.get(&request)).map(|pending| pending.asked);
        match (declared, asked) {
            (Some(request), Some(0 | 1)) => self.declaration_answered(request, answer, now),
            (Some(_), _) if !self.stands(answer.id) => {}
            _ => self.told(answer),
        }
    }

    fn heard(&mut self, id: IntentId, slot: Slot) {
        self.holdings.heard(id, slot);
        if let Some((_, heard)) = self.revoked.get_mut(&id) {
            *heard = slot.max(*heard);
        }
    }

    fn release_answered(&mut self, request: u64, id: IntentId, verdict: Verdict, now: Local) {
        let existed = match verdict {
            Verdict::Released { .. } => true,
            Verdict::ReleasedUnknown => false,
            // What was let go must not stay there because the coordinator was busy.
            Verdict::Rejected { reason: Refusal::Overloaded, retry_after_us, .. } => {
                return self.ask_later(request, retry_after_us.map(Micros::from_us), now);
            }
            Verdict::Rejected { reason: Refusal::Draining, .. } => return,
            other => return self.refused(request, id, other, true),
        };
        self.done(request);
        self.lose(id, Loss::Released { reason: None });
        // A declaration of this id that was sent before it and still open has been withdrawn by it.
        let open = self.declared.get(&id).copied().filter(|declared| *declared < request);
        if let Some(declared) = open {
            self.finish(declared, id, Reply::Withdrawn { reason: None });
        }
        self.reply(request, id, Reply::Released { existed });
    }

    fn administered(&mut self, request: u64, id: IntentId, verdict: Verdict) {
        let existed = match verdict {
            Verdict::Released { .. } => true,
            Verdict::ReleasedUnknown => false,
            other => return self.refused(request, id, other, true),
        };
        self.done(request);
        self.reply(request, id, Reply::Released { existed });
    }

    fn capacity_set(&mut self, Answer { request, id, verdict, extensions, .. }: Answer) {
        let stands = match verdict {
            Verdict::Released { .. } => CapacityEntry::in_extensions(&extensions),
            other => return self.refused(request, id, other, true),
        };
        self.done(request);
        self.reply(request, id, Reply::CapacitySet(stands));
    }

    fn drain_answered(&mut self, answer: Answer) {
        let Answer { request, id, verdict, extensions, .. } = answer;
        match verdict {
            Verdict::Released { .. } | Verdict::ReleasedUnknown => {
                self.finish(request, id, Reply::Drains(DrainStands::in_extensions(&extensions)));
            }
            other => self.refused(request, id, other, true),
        }
    }

    fn renewal_answered(
        &mut self,
        request: u64,
        id: IntentId,
        automatic: bool,
        verdict: Verdict,
        now: Local,
    ) {
        let reply = match self.as_denied(id, automatic, verdict) {
            Verdict::Renewed { end } => {
                self.ends_at(id, end);
                Reply::Renewed { end }
            }
            Verdict::RenewDenied { end, blockers } => {
                let slot_length = self.slot_length();
                if let Some(bounds) = self.clock.bounds(now) {
                    let by = blockers.first().map(|blocker| blocker.agent.as_str());
                    self.holdings.renewal_denied(id, bounds.latest, slot_length, by);
                }
                if self.holdings.of(id).is_some() {
                    self.news(News::RenewalDenied { id, end, blockers: blockers.clone() });
                }
                Reply::RenewDenied { end: Some(end), blockers }
            }
            Verdict::RenewDeniedUnknown => {
                self.lose(id, Loss::Unknown);
                Reply::RenewDenied { end: None, blockers: Vec::new() }
            }
            // It is asked for again at the time that was planned when it was asked for.
            other => return self.refused(request, id, other, !automatic),
        };
        self.done(request);
        if !automatic {
            self.reply(request, id, reply);
        }
    }

    /// A renewal of the session's own that rights are against, or a drain whose deadline the lease has come to, is denied,
    /// with nobody in the way: the lease is not renewed, and that is why it ends.
    fn as_denied(&self, id: IntentId, automatic: bool, verdict: Verdict) -> Verdict {
        let is_denied = match &verdict {
            Verdict::Rejected { reason: Refusal::Forbidden, .. } => true,
            // Whoever comes after one that stops at once is asked.
            Verdict::Rejected { reason: Refusal::Draining, .. } => self.drains_until().is_some(),
            _ => false,
        };
        match self.holdings.of(id).filter(|_| automatic && is_denied) {
            Some(held) => Verdict::RenewDenied { end: held.end, blockers: Vec::new() },
            None => verdict,
        }
    }

    /// A release or renewal that was not taken in: nothing has changed, and whoever asked is told.
    fn refused(&mut self, request: u64, id: IntentId, verdict: Verdict, is_asked: bool) {
        let Verdict::Rejected { reason, field, hint, retry_after_us, kept } = verdict else { return };
        self.done(request);
        if is_asked {
            let retry_after = retry_after_us.map(Micros::from_us);
            self.reply(request, id, Reply::Rejected { reason, field, hint, retry_after, kept });
        }
    }

    fn declaration_answered(&mut self, request: u64, answer: Answer, now: Local) {
        let Some(pending) = self.pending.get(&request) else { return };
        let (asked_again, id) = (pending.asked > 1, pending.ask.id());
        let at = answer.at;
        if let Verdict::Rejected { reason, retry_after_us, .. } = &answer.verdict
            && asked_again
        {
            // That nothing new is taken in says nothing of what the same request came to before.
            match reason {
                Refusal::Overloaded => {
                    return self.ask_later(request, retry_after_us.map(Micros::from_us), now);
                }
                Refusal::Draining => return,
                _ => {}
            }
        }
        let reply = match answer.verdict {
            Verdict::Granted { start, end, token } | Verdict::Moved { start, end, token } => {
                let is_over = answer.repeat && end <= at
                    || asked_again && self.clock.bounds(now).is_some_and(|bounds| bounds.latest >= end);
                if is_over {
                    self.granted_too_late(request, id)
                } else {
                    self.take(request, Held::new(token, start, end, self.terms_of(request)), at)
                }
            }
            Verdict::Conflict(Conflict { is_final: false, offer, blockers, .. }) => {
                self.revises_nothing(id);
                return self.news(News::Waiting { id, offer, blockers });
            }
            Verdict::Revoked { waiting: true, offer, .. } => {
                self.revises_nothing(id);
                return self.news(News::Waiting { id, offer, blockers: Vec::new() });
            }
            Verdict::Conflict(of) => Reply::Conflict { at, of },
            Verdict::Revoked { offer, .. } => {
                let blockers = Vec::new();
                let of = Conflict { is_final: true, deadlock: false, offer, blockers, kept: false };
                Reply::Conflict { at, of }
            }
            Verdict::Stale { path, as_of, kept } => Reply::Stale { path, as_of, kept },
            Verdict::Rejected { reason, field, hint, retry_after_us, kept } => Reply::Rejected {
                reason,
                field,
                hint,
                retry_after: retry_after_us.map(Micros::from_us),
                kept,
            },
            Verdict::Expired { .. } => Reply::Ended,
            Verdict::Released { reason } => self.withdrawn(reason),
            // Of no declaration.
            Verdict::ReleasedUnknown
            | Verdict::Renewed { .. }
            | Verdict::RenewDeniedUnknown
            | Verdict::RenewDenied { .. } => return,
        };
        // That a grant is kept does not say that it is the one that is known here.
        let is_granted = matches!(reply, Reply::Granted { .. });
        let is_sure = is_granted || (!asked_again && keeps_a_grant(&reply));
        if is_sure && !is_granted {
            self.stands_after_all(id);
        }
        let may_be_gone = self.holdings.of(id).is_some() && !is_sure;
        self.finish(request, id, reply);
        if may_be_gone {
            // A revision that was refused, and the coordinator does not have the grant that it was to revise.
            self.ask_standing(&[id]);
        }
    }

    /// It was withdrawn while it was undecided. What waited when a drain began ends by that, and is to be had again of
    /// whoever takes over.
    fn withdrawn(&self, reason: Option<String>) -> Reply {
        let (kept, field, retry_after) = (false, String::new(), None);
        match (self.drains_until(), reason) {
            (Some(_), Some(hint)) => {
                Reply::Rejected { reason: Refusal::Draining, field, hint, retry_after, kept }
            }
            (_, reason) => Reply::Withdrawn { reason },
        }
    }

    /// What was asked again was granted and has ended. A first answer is handed out all the same: it was good
    /// then, and `check` says that it is over.
    fn granted_too_late(&mut self, request: u64, id: IntentId) -> Reply {
        if self.terms_of(request).hold && self.may_ask().is_ok() {
            self.ask(Ask::Release { id }); // a renewal by another session may be on its way
        }
        Reply::Ended
    }

    /// A revision beside a grant never waits: where one does, the grant that it was to revise was
    /// withdrawn in the same slot, and nothing else tells of that.
    fn revises_nothing(&mut self, id: IntentId) {
        let Some(held) = self.holdings.of(id) else { return };
        let waiting = (held.terms.clone(), held.heard());
        self.lose(id, Loss::Unknown);
        self.revoked.insert(id, waiting);
    }

    /// Takes a grant in hand, unless nobody waits for it any more: then its release is on its way, or
    /// it is left to its course until it is asked for again.
    fn take(&mut self, request: u64, held: Held, at: Time) -> Reply {
        let Held { token, start, end, terms, .. } = held.clone();
        let Some(Ask::Declare { id, abandoned, claimed, .. }) = self.pending.get(&request).map(|it| &it.ask)
        else {
            return Reply::Unknown;
        };
        let (id, abandoned, claimed) = (*id, *abandoned, *claimed);
        let stands = self.holdings.of(id).is_some() || self.revoked.remove(&id).is_some();
        if !abandoned && (claimed || stands) {
            self.holdings.put(id, held);
            // Also where its grant had gone meanwhile: the handle of that is the handle of this one.
            if stands || self.is_revision(request) {
                self.news(News::Revised { id, start, end, token, terms: terms.clone() });
            }
        }
        Reply::Granted { at, start, end, token, terms }
    }

    /// News about what was declared and answered before.
    fn told(&mut self, answer: Answer) {
        let id = answer.id;
        match answer.verdict {
            Verdict::Granted { start, end, token } => self.granted_anew(id, start, end, token),
            Verdict::Moved { start, end, token } => self.moved(id, start, end, token),
            Verdict::Revoked { by, by_id, offer, waiting } => {
                let Some(terms) = self.holdings.of(id).map(|held| held.terms.clone()) else { return };
                self.lose(id, Loss::Revoked { by, by_id, offer, waiting });
                if waiting {
                    self.revoked.insert(id, (terms, answer.slot));
                }
            }
            Verdict::Expired { token } if self.has(id, token) => self.lose(id, Loss::Expired),
            Verdict::Released { reason } => {
                if self.revoked.remove(&id).is_some() {
                    self.news(News::GaveUp { id });
                }
                self.lose(id, Loss::Released { reason });
            }
            Verdict::Renewed { end } => self.ends_at(id, end),
            Verdict::Conflict(conflict) if self.revoked.contains_key(&id) => {
                if conflict.is_final {
                    self.revoked.remove(&id);
                    self.news(News::GaveUp { id });
                } else {
                    self.news(News::Waiting { id, offer: conflict.offer, blockers: conflict.blockers });
                }
            }
            _ => {}
        }
    }

    /// A revoked intent has a grant again. One in hand that has another token was revised by another session of
    /// the name, and is that one's.
    pub(super) fn granted_anew(&mut self, id: IntentId, start: Time, end: Time, token: Token) {
        if self.has(id, token) {
            return self.ends_at(id, end);
        }
        if self.holdings.of(id).is_some_and(|held| held.token < token) {
            return self.lose(id, Loss::Taken { token });
        }
        let Some((terms, _)) = self.revoked.remove(&id) else { return };
        self.holdings.put(id, Held::new(token, start, end, terms.clone()));
        self.news(News::Granted { id, start, end, token, terms });
    }

    /// The grant's end, as it was renewed by whichever session: ends only rise.
    pub(super) fn ends_at(&mut self, id: IntentId, end: Time) {
        let rises = self.holdings.of(id).is_some_and(|held| held.end < end);
        self.holdings.renewed(id, end);
        if rises {
            self.news(News::Renewed { id, end });
        }
    }

    pub(super) fn moved(&mut self, id: IntentId, start: Time, end: Time, token: Token) {
        let Some(held) = self.holdings.of(id).filter(|held| held.token < token) else { return };
        let terms = held.terms.clone();
        self.holdings.put(id, Held::new(token, start, end, terms.clone()));
        self.news(News::Moved { id, start, end, token, terms });
    }

    fn has(&self, id: IntentId, token: Token) -> bool {
        self.holdings.of(id).is_some_and(|held| held.token == token)
    }
}

/// Whether there is a grant after this answer to a declaration: its own, or the one that it was to revise.
fn keeps_a_grant(reply: &Reply) -> bool {
    match reply {
        Reply::Granted { .. } => true,
        Reply::Conflict { of, .. } => of.kept,
        Reply::Stale { kept, .. } | Reply::Rejected { kept, .. } => *kept,
        _ => false,
    }
}

/// Whether a verdict can be the fate of a declaration.
fn is_fate(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Granted { .. } | Verdict::Conflict(_) | Verdict::Stale { .. } | Verdict::Rejected { .. }
    )
}
