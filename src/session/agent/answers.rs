//! What an answer of the coordinator's means to a session.

use super::held::Held;
use super::{AgentSession, Breach, Local, Loss, News, Pending, Reply};
use crate::types::{IntentId, Micros, Time, Token};
use crate::wire::{Answer, CloseCode, Conflict, Verdict};

impl AgentSession {
    pub(super) fn answered(&mut self, answer: Answer, now: Local) -> Result<(), Breach> {
        if answer.extensions.first_not_understood(&[]).is_some() {
            return Err(Breach { code: CloseCode::UnsupportedExtension, why: "in an answer" });
        }
        self.seen = self.seen.max(Some(answer.slot));
        // A refusal before the core names a slot that is still open.
        if !matches!(answer.verdict, Verdict::Rejected { .. }) {
            self.clock.heard(answer.at, now);
        }
        match self.pending.get(&answer.request).copied() {
            Some(Pending::Release { id }) => self.release_answered(answer.request, id, answer.verdict),
            Some(Pending::Renew { id, automatic }) => {
                self.renewal_answered(answer.request, id, automatic, answer.verdict, now);
            }
            Some(Pending::Declare { .. }) => self.declaration_answered(answer.request, answer),
            // News, unless it is the fate of something declared whose number the coordinator no
            // longer has.
            None => match self.declared.get(&answer.id).copied() {
                Some(request) if is_fate(&answer.verdict) => self.declaration_answered(request, answer),
                _ => self.told(answer),
            },
        }
        Ok(())
    }

    fn release_answered(&mut self, request: u64, id: IntentId, verdict: Verdict) {
        let existed = match verdict {
            Verdict::Released { .. } => true,
            Verdict::ReleasedUnknown => false,
            other => return self.refused(request, id, other, true),
        };
        self.pending.remove(&request);
        self.lose(id, Loss::Released { reason: None });
        // A declaration of this id that was sent before it and still open has been withdrawn by it.
        let open = self.declared.get(&id).copied().filter(|declared| *declared < request);
        if let Some(declared) = open {
            self.declared.remove(&id);
            self.pending.remove(&declared);
            self.reply(declared, id, Reply::Withdrawn { reason: None });
        }
        self.reply(request, id, Reply::Released { existed });
    }

    fn renewal_answered(
        &mut self,
        request: u64,
        id: IntentId,
        automatic: bool,
        verdict: Verdict,
        now: Local,
    ) {
        let reply = match verdict {
            Verdict::Renewed { end } => {
                self.holdings.renewed(id, end);
                if self.holdings.of(id).is_some() {
                    self.news(News::Renewed { id, end });
                }
                Reply::Renewed { end }
            }
            Verdict::RenewDenied { end, blockers } => {
                let slot_length = self.slot_length();
                if let Some(bounds) = self.clock.bounds(now) {
                    self.holdings.renewal_denied(id, bounds.latest, slot_length);
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
        self.pending.remove(&request);
        if !automatic {
            self.reply(request, id, reply);
        }
    }

    /// A release or renewal that was not taken in: nothing has changed, and whoever asked is told.
    fn refused(&mut self, request: u64, id: IntentId, verdict: Verdict, is_asked: bool) {
        let Verdict::Rejected { reason, field, hint, retry_after_us, kept } = verdict else { return };
        self.pending.remove(&request);
        if is_asked {
            let retry_after = retry_after_us.map(Micros::from_us);
            self.reply(request, id, Reply::Rejected { reason, field, hint, retry_after, kept });
        }
    }

    fn declaration_answered(&mut self, request: u64, answer: Answer) {
        let Some(Pending::Declare { id, hold, abandoned }) = self.pending.get(&request).copied() else {
            return;
        };
        let at = answer.at;
        let reply = match answer.verdict {
            Verdict::Granted { start, end, token } | Verdict::Moved { start, end, token } => {
                if answer.repeat && end <= at {
                    Reply::Ended
                } else {
                    self.take(id, abandoned, Held::new(token, start, end, hold), at)
                }
            }
            Verdict::Conflict(Conflict { is_final: false, offer, blockers, .. }) => {
                return self.news(News::Waiting { id, offer, blockers });
            }
            Verdict::Revoked { waiting: true, offer, .. } => {
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
            Verdict::Released { reason } => Reply::Withdrawn { reason },
            // Of no declaration.
            Verdict::ReleasedUnknown
            | Verdict::Renewed { .. }
            | Verdict::RenewDeniedUnknown
            | Verdict::RenewDenied { .. } => return,
        };
        self.pending.remove(&request);
        self.declared.remove(&id);
        self.reply(request, id, reply);
    }

    /// Takes a grant in hand, unless nobody waits for it any more: then its release is on its way.
    fn take(&mut self, id: IntentId, abandoned: bool, held: Held, at: Time) -> Reply {
        let Held { token, start, end, .. } = held;
        let revised = self.holdings.of(id).is_some() || self.revoked.remove(&id).is_some();
        if !abandoned {
            self.holdings.put(id, held);
            if revised {
                self.news(News::Revised { id, start, end, token });
            }
        }
        Reply::Granted { at, start, end, token }
    }

    /// News about what was declared and answered before.
    fn told(&mut self, answer: Answer) {
        let id = answer.id;
        match answer.verdict {
            Verdict::Granted { start, end, token } => self.granted_anew(id, start, end, token),
            Verdict::Moved { start, end, token } => self.moved(id, start, end, token),
            Verdict::Revoked { by, by_id, offer, waiting } => {
                let Some(hold) = self.holdings.of(id).map(|held| held.hold) else { return };
                self.lose(id, Loss::Revoked { by, by_id, offer, waiting });
                if waiting {
                    self.revoked.insert(id, hold);
                }
            }
            Verdict::Expired { token } if self.has(id, token) => self.lose(id, Loss::Expired),
            Verdict::Released { reason } => {
                self.revoked.remove(&id);
                self.lose(id, Loss::Released { reason });
            }
            Verdict::Renewed { end } => self.holdings.renewed(id, end),
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

    /// A revoked intent has a grant again, or one in hand was revised by another session.
    fn granted_anew(&mut self, id: IntentId, start: Time, end: Time, token: Token) {
        if self.has(id, token) {
            return self.holdings.renewed(id, end);
        }
        let known = self.holdings.of(id).filter(|held| held.token < token).map(|held| held.hold);
        let Some(hold) = self.revoked.remove(&id).or(known) else { return };
        self.holdings.put(id, Held::new(token, start, end, hold));
        self.news(News::Granted { id, start, end, token });
    }

    fn moved(&mut self, id: IntentId, start: Time, end: Time, token: Token) {
        let Some(held) = self.holdings.of(id).filter(|held| held.token < token) else { return };
        let hold = held.hold;
        self.holdings.put(id, Held::new(token, start, end, hold));
        self.news(News::Moved { id, start, end, token });
    }

    fn has(&self, id: IntentId, token: Token) -> bool {
        self.holdings.of(id).is_some_and(|held| held.token == token)
    }
}

/// Whether a verdict can be the fate of a declaration.
fn is_fate(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Granted { .. } | Verdict::Conflict(_) | Verdict::Stale { .. } | Verdict::Rejected { .. }
    )
}
