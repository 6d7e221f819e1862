//! What was decided: decisions with what ordered them, verdicts, blockers.

use super::read::{Read, wrong_at};
use super::{Reader, Writer};
use crate::limits;
use crate::resolver::Rank;
use crate::types::{Blocker, Conflict, Decision, IntentKey, Reason, RenewDenial, Time, Token, Verdict};

/// The numbers of verdicts.
mod kind {
    pub(super) const GRANTED: u8 = 1;
    pub(super) const MOVED: u8 = 2;
    pub(super) const CONFLICT: u8 = 3;
    pub(super) const STALE: u8 = 4;
    pub(super) const REJECTED: u8 = 5;
    pub(super) const RELEASED: u8 = 6;
    pub(super) const RELEASED_FOR: u8 = 7;
    pub(super) const RELEASED_UNKNOWN: u8 = 8;
    pub(super) const RENEWED: u8 = 9;
    pub(super) const RENEW_UNKNOWN: u8 = 10;
    pub(super) const RENEW_KEPT: u8 = 11;
    pub(super) const EXPIRED: u8 = 12;
    pub(super) const REVOKED: u8 = 13;
    /// The bits of a decision's first byte that hold these.
    pub(super) const BITS: u8 = 31;
}

/// Set in a decision's first byte where the input follows that it answers.
const ANSWERS: u8 = 1 << 5;

/// What ordered a decision, in the upper two bits of its first byte.
mod rank {
    pub(super) const NONE: u8 = 0;
    pub(super) const SCORED: u8 = 1;
    pub(super) const OVERDUE: u8 = 2;
    /// As the ranked decision before.
    pub(super) const AGAIN: u8 = 3;
    pub(super) const SHIFT: u8 = 6;
}

mod conflict {
    pub(super) const FINAL: u8 = 1;
    pub(super) const DEADLOCK: u8 = 1 << 1;
    pub(super) const KEPT: u8 = 1 << 2;
    pub(super) const OFFER: u8 = 1 << 3;
}

mod blocker {
    pub(super) const TOKEN: u8 = 1;
    pub(super) const RATIO: u8 = 1 << 1;
}

mod revoked {
    pub(super) const WAITING: u8 = 1;
    pub(super) const OFFER: u8 = 1 << 1;
}

/// Set in a rejection's first byte, above the reason, where an old grant stays.
const REJECTED_KEPT: u8 = 1 << 7;

/// The numbers of reasons.
const REASONS: [(u8, Reason); 8] = [
    (1, Reason::Invalid),
    (2, Reason::IdInUse),
    (3, Reason::TooShort),
    (4, Reason::TooLong),
    (5, Reason::TooLate),
    (6, Reason::BeyondHorizon),
    (7, Reason::NoCapacity),
    (8, Reason::OverCapacity),
];

fn number_of(reason: Reason) -> u8 {
    match reason {
        Reason::Invalid => 1,
        Reason::IdInUse => 2,
        Reason::TooShort => 3,
        Reason::TooLong => 4,
        Reason::TooLate => 5,
        Reason::BeyondHorizon => 6,
        Reason::NoCapacity => 7,
        Reason::OverCapacity => 8,
    }
}

fn kind_of(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Granted { .. } => kind::GRANTED,
        Verdict::Moved { .. } => kind::MOVED,
        Verdict::Conflict(_) => kind::CONFLICT,
        Verdict::Stale { .. } => kind::STALE,
        Verdict::Rejected { .. } => kind::REJECTED,
        Verdict::Released { reason: None } => kind::RELEASED,
        Verdict::Released { reason: Some(_) } => kind::RELEASED_FOR,
        Verdict::ReleasedUnknown => kind::RELEASED_UNKNOWN,
        Verdict::Renewed { .. } => kind::RENEWED,
        Verdict::RenewDenied(RenewDenial::Unknown) => kind::RENEW_UNKNOWN,
        Verdict::RenewDenied(RenewDenial::Kept { .. }) => kind::RENEW_KEPT,
        Verdict::Expired { .. } => kind::EXPIRED,
        Verdict::Revoked { .. } => kind::REVOKED,
    }
}

/// The flag where it is so.
pub(super) fn flag(is_so: bool, flag: u8) -> u8 {
    u8::from(is_so) * flag
}

impl Writer<'_> {
    /// All decisions of a record, each with what ordered it.
    pub(crate) fn decisions(&mut self, decisions: &[Decision], ranks: &[Option<Rank>]) {
        self.count(decisions.len());
        let mut before = None;
        for (index, decision) in decisions.iter().enumerate() {
            let rank = ranks.get(index).copied().flatten();
            self.decision(index, decision, rank, before);
            before = rank.or(before);
        }
    }

    fn decision(&mut self, index: usize, decision: &Decision, rank: Option<Rank>, before: Option<Rank>) {
        let Decision { key, answers, verdict } = decision;
        let ranked = match rank {
            None => rank::NONE,
            Some(rank) if before.is_some_and(|before| bits(before) == bits(rank)) => rank::AGAIN,
            Some(Rank { is_overdue: false, .. }) => rank::SCORED,
            Some(Rank { is_overdue: true, .. }) => rank::OVERDUE,
        };
        self.byte(kind_of(verdict) | flag(answers.is_some(), ANSWERS) | (ranked << rank::SHIFT));
        let place = self.key(key);
        if let Some(answers) = answers {
            self.count(*answers);
        }
        if let Some(rank) = rank
            && ranked != rank::AGAIN
        {
            self.float(rank.score);
        }
        self.verdict_fields(verdict);
        self.told(place).decided = Some(index as u32);
    }

    pub(super) fn verdict(&mut self, verdict: &Verdict) {
        self.byte(kind_of(verdict));
        self.verdict_fields(verdict);
    }

    fn verdict_fields(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Granted { start, end, token } | Verdict::Moved { start, end, token } => {
                self.placed(*start, *end, *token);
            }
            Verdict::Conflict(conflict) => self.conflict(conflict),
            Verdict::Stale { path, as_of, kept } => {
                self.byte(u8::from(*kept));
                self.path(path);
                self.time(*as_of);
            }
            Verdict::Rejected { reason, field, kept } => {
                self.byte(number_of(*reason) | flag(*kept, REJECTED_KEPT));
                self.text(field);
            }
            Verdict::Released { reason: Some(reason) } => self.text(reason),
            Verdict::Released { reason: None }
            | Verdict::ReleasedUnknown
            | Verdict::RenewDenied(RenewDenial::Unknown) => {}
            Verdict::Renewed { end } => self.time(*end),
            Verdict::RenewDenied(RenewDenial::Kept { end, blockers }) => {
                self.time(*end);
                self.list(blockers, Self::blocker);
            }
            Verdict::Expired { token } => self.token(*token),
            Verdict::Revoked { by, offer, waiting } => {
                self.byte(flag(*waiting, revoked::WAITING) | flag(offer.is_some(), revoked::OFFER));
                self.key(by);
                if let Some(offer) = offer {
                    self.time(*offer);
                }
            }
        }
    }

    pub(super) fn placed(&mut self, start: Time, end: Time, token: Token) {
        self.time(start);
        self.step(start.as_us(), end.as_us());
        self.token(token);
    }

    fn conflict(&mut self, it: &Conflict) {
        let Conflict { is_final, deadlock, offer, blockers, kept } = it;
        let flags = flag(*is_final, conflict::FINAL) | flag(*deadlock, conflict::DEADLOCK);
        self.byte(flags | flag(*kept, conflict::KEPT) | flag(offer.is_some(), conflict::OFFER));
        if let Some(offer) = offer {
            self.time(*offer);
        }
        self.list(blockers, Self::blocker);
    }

    fn blocker(&mut self, it: &Blocker) {
        let Blocker { key, token, claim, their_claim, window, ratio } = it;
        self.byte(flag(token.is_some(), blocker::TOKEN) | flag(ratio.is_some(), blocker::RATIO));
        self.key(key);
        if let Some(token) = token {
            self.token(*token);
        }
        self.count(*claim);
        self.count(*their_claim);
        self.window(*window);
        if let Some(ratio) = ratio {
            self.float(*ratio);
        }
    }
}

fn bits(rank: Rank) -> (u64, bool) {
    (rank.score.to_bits(), rank.is_overdue)
}

impl Reader<'_> {
    /// All decisions of a record, and what ordered each.
    pub(crate) fn decisions(&mut self) -> Read<(Vec<Decision>, Vec<Option<Rank>>)> {
        let (mut ranks, mut before) = (Vec::new(), None);
        let decisions = self.list(limits::RECORD_ITEMS, |reader| {
            let (decision, rank) = reader.decision(ranks.len(), before)?;
            before = rank.or(before);
            ranks.push(rank);
            Ok(decision)
        })?;
        Ok((decisions, ranks))
    }

    fn decision(&mut self, index: usize, before: Option<Rank>) -> Read<(Decision, Option<Rank>)> {
        let at = self.place();
        let head = self.byte()?;
        let (key, place) = self.key_and_place()?;
        let answers = if head & ANSWERS == 0 { None } else { Some(self.size()?) };
        let rank = match head >> rank::SHIFT {
            rank::NONE => None,
            rank::AGAIN => Some(before.ok_or_else(|| wrong_at(at, "a rank as before, and none before"))?),
            ranked => Some(Rank { score: self.float()?, is_overdue: ranked == rank::OVERDUE }),
        };
        let verdict = self.verdict_of(head & kind::BITS, at)?;
        self.told(place).decided = Some(index as u32);
        Ok((Decision { key, answers, verdict }, rank))
    }

    pub(super) fn verdict(&mut self) -> Read<Verdict> {
        let at = self.place();
        let kind = self.byte()?;
        self.verdict_of(kind, at)
    }

    fn verdict_of(&mut self, kind: u8, at: usize) -> Read<Verdict> {
        Ok(match kind {
            kind::GRANTED => {
                let (start, end, token) = self.placed()?;
                Verdict::Granted { start, end, token }
            }
            kind::MOVED => {
                let (start, end, token) = self.placed()?;
                Verdict::Moved { start, end, token }
            }
            kind::CONFLICT => Verdict::Conflict(self.conflict()?),
            kind::STALE => {
                let kept = self.flags(1)? == 1;
                Verdict::Stale { path: self.path()?, as_of: self.time()?, kept }
            }
            kind::REJECTED => {
                let (reason, kept) = self.reason()?;
                Verdict::Rejected { reason, field: self.owned_text()?, kept }
            }
            kind::RELEASED => Verdict::Released { reason: None },
            kind::RELEASED_FOR => Verdict::Released { reason: Some(self.owned_text()?) },
            kind::RELEASED_UNKNOWN => Verdict::ReleasedUnknown,
            kind::RENEWED => Verdict::Renewed { end: self.time()? },
            kind::RENEW_UNKNOWN => Verdict::RenewDenied(RenewDenial::Unknown),
            kind::RENEW_KEPT => {
                let (end, blockers) = (self.time()?, self.list(limits::BLOCKERS, Self::blocker)?);
                Verdict::RenewDenied(RenewDenial::Kept { end, blockers })
            }
            kind::EXPIRED => Verdict::Expired { token: self.token()? },
            kind::REVOKED => {
                let flags = self.flags(revoked::WAITING | revoked::OFFER)?;
                let by: IntentKey = self.key()?;
                let offer = if flags & revoked::OFFER == 0 { None } else { Some(self.time()?) };
                Verdict::Revoked { by, offer, waiting: flags & revoked::WAITING != 0 }
            }
            _ => return Err(wrong_at(at, "a verdict that is not known")),
        })
    }

    /// A text that its own room bounds.
    pub(super) fn owned_text(&mut self) -> Read<String> {
        self.text(limits::RECORD_TEXT_BYTES).map(str::to_owned)
    }

    fn reason(&mut self) -> Read<(Reason, bool)> {
        let at = self.place();
        let byte = self.byte()?;
        let number = byte & !REJECTED_KEPT;
        let reason = REASONS.iter().find(|(of, _)| *of == number);
        let (_, reason) = reason.ok_or_else(|| wrong_at(at, "a reason that is not known"))?;
        Ok((*reason, byte & REJECTED_KEPT != 0))
    }

    pub(super) fn placed(&mut self) -> Read<(Time, Time, Token)> {
        let start = self.time()?;
        let end = Time::from_us(self.step(start.as_us())?);
        Ok((start, end, self.token()?))
    }

    fn conflict(&mut self) -> Read<Conflict> {
        let known = conflict::FINAL | conflict::DEADLOCK | conflict::KEPT | conflict::OFFER;
        let flags = self.flags(known)?;
        let is_set = |flag| flags & flag != 0;
        let offer = if is_set(conflict::OFFER) { Some(self.time()?) } else { None };
        let blockers = self.list(limits::BLOCKERS, Self::blocker)?;
        let (is_final, deadlock) = (is_set(conflict::FINAL), is_set(conflict::DEADLOCK));
        Ok(Conflict { is_final, deadlock, offer, blockers, kept: is_set(conflict::KEPT) })
    }

    fn blocker(&mut self) -> Read<Blocker> {
        let flags = self.flags(blocker::TOKEN | blocker::RATIO)?;
        let key = self.key()?;
        let token = if flags & blocker::TOKEN == 0 { None } else { Some(self.token()?) };
        let (claim, their_claim, window) = (self.size()?, self.size()?, self.window()?);
        let ratio = if flags & blocker::RATIO == 0 { None } else { Some(self.float()?) };
        Ok(Blocker { key, token, claim, their_claim, window, ratio })
    }
}
