//! What a page is told, as JSON. Times are µs since the epoch; ids, tokens and units are texts, since a browser's
//! numbers are exact up to 2^53 alone; lengths are metres.

use serde::Serialize;

use super::super::recent::Shown;
use super::news::{News, SlotNews, blockers};
use crate::limits;
use crate::types::{
    Claim, IntentKey, Mode, Path, Point, RenewDenial, Slot, Start, Target, Time, Verdict, Window,
};

/// One slot, or a part of one: `news` in order.
#[derive(Debug, Serialize)]
pub(super) struct SlotLine<'a> {
    slot: Slot,
    at: Time,
    inputs: usize,
    decisions: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<Shown>,
    news: Vec<NewsLine<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    left_out: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One decision.
#[derive(Debug, Default, Serialize)]
pub(super) struct NewsLine<'a> {
    what: &'static str,
    at: Time,
    agent: &'a str,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<u8>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lease: bool,
    claims: Vec<ClaimLine<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    more_claims: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    arrived: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offer: Option<Time>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rivals: Vec<RivalLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Named<'a>>,
    /// Why it was rejected or released, and at what.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    /// Of a stale reading: of what, and from when on it is to be read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<(&'a str, Time)>,
    /// After its grant was withdrawn it waits on; or an old grant stays beside what was refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    goes_on: bool,
}

#[derive(Debug, Serialize)]
struct Named<'a> {
    agent: &'a str,
    id: String,
}

/// A claim, where it lies or where it was wanted.
#[derive(Debug, Serialize)]
struct ClaimLine<'a> {
    #[serde(flatten)]
    what: Wanted<'a>,
    from: Time,
    until: Time,
}

/// What is claimed, and how.
#[derive(Debug, Serialize)]
struct Wanted<'a> {
    path: &'a str,
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    units: Option<String>,
    /// Corners of a region; its path is the frame's.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<[f64; 2]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<[f64; 2]>,
}

/// Who is in the way of which claim, with what, and where the two windows meet.
#[derive(Debug, Serialize)]
struct RivalLine<'a> {
    #[serde(flatten)]
    who: Named<'a>,
    /// None for a place that is only held for one that waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    claim: usize,
    from: Time,
    until: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    has: Option<Wanted<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    has_until: Option<Time>,
}

impl<'a> SlotLine<'a> {
    /// The slot with `news` of its own.
    pub(super) fn of(slot: &'a SlotNews, news: &'a [News], is_first: bool) -> Self {
        SlotLine {
            slot: slot.slot,
            at: slot.at,
            inputs: slot.inputs,
            decisions: slot.decisions,
            times: slot.report.as_ref().filter(|_| is_first).map(Shown::of),
            news: news.iter().map(NewsLine::of).collect(),
            left_out: if is_first { slot.left_out } else { 0 },
        }
    }
}

impl<'a> NewsLine<'a> {
    pub(super) fn of(news: &'a News) -> Self {
        let mut line = NewsLine {
            at: news.at,
            agent: news.key.agent.as_str(),
            id: news.key.id.to_string(),
            arrived: news.arrived,
            waits_until: news.waits_until,
            rivals: rivals(news),
            ..NewsLine::default()
        };
        line.verdict(&news.verdict);
        if let Some(intent) = &news.intent {
            line.class = Some(intent.class.number());
            line.lease = intent.hold;
            line.more_claims = intent.claims.len().saturating_sub(limits::PAGE_CLAIMS);
            let wanted = match intent.start {
                Start::Asap => news.at,
                Start::At(start) => start,
            };
            let shown = intent.claims.iter().take(limits::PAGE_CLAIMS).enumerate();
            let window = |at: usize, claim: &Claim| {
                news.windows.get(at).copied().unwrap_or_else(|| claim.window(wanted))
            };
            line.claims = shown.map(|(at, claim)| ClaimLine::of(claim, window(at, claim))).collect();
        }
        line
    }

    fn verdict(&mut self, verdict: &'a Verdict) {
        self.what = match verdict {
            Verdict::Granted { end, token, .. } => {
                (self.end, self.token) = (Some(*end), Some(token.to_string()));
                "granted"
            }
            Verdict::Moved { end, token, .. } => {
                (self.end, self.token) = (Some(*end), Some(token.to_string()));
                "moved"
            }
            Verdict::Conflict(conflict) => {
                (self.offer, self.goes_on) = (conflict.offer, conflict.kept);
                match (conflict.deadlock, conflict.is_final) {
                    (true, _) => "deadlock",
                    (false, true) => "refused",
                    (false, false) => "waiting",
                }
            }
            Verdict::Stale { path, as_of, kept } => {
                (self.read, self.goes_on) = (Some((path.as_str(), *as_of)), *kept);
                "stale"
            }
            Verdict::Rejected { reason, field, kept } => {
                (self.why, self.goes_on) = (Some(reason.as_str()), *kept);
                self.field = Some(field.as_str()).filter(|field| !field.is_empty());
                "rejected"
            }
            Verdict::Released { reason } => {
                self.why = reason.as_deref();
                "released"
            }
            Verdict::ReleasedUnknown => "released",
            Verdict::Renewed { end } => {
                self.end = Some(*end);
                "renewed"
            }
            Verdict::RenewDenied(denial) => {
                if let RenewDenial::Kept { end, .. } = denial {
                    self.end = Some(*end);
                }
                "renew_denied"
            }
            Verdict::Expired { token } => {
                self.token = Some(token.to_string());
                "expired"
            }
            Verdict::Revoked { by, offer, waiting } => {
                (self.by, self.offer, self.goes_on) = (Some(Named::of(by)), *offer, *waiting);
                "revoked"
            }
        };
    }
}

fn rivals(news: &News) -> Vec<RivalLine<'_>> {
    let rivals = news.rivals.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    let pairs = blockers(&news.verdict).iter().zip(rivals);
    pairs
        .map(|(blocker, rival)| RivalLine {
            who: Named::of(&blocker.key),
            token: blocker.token.map(|token| token.to_string()),
            claim: blocker.claim,
            from: blocker.window.start(),
            until: blocker.window.end(),
            ratio: blocker.ratio,
            has: rival.map(|rival| Wanted::of(&rival.claim)),
            has_until: rival.and_then(|rival| rival.window).map(Window::end),
        })
        .collect()
}

impl<'a> Named<'a> {
    fn of(key: &'a IntentKey) -> Self {
        Named { agent: key.agent.as_str(), id: key.id.to_string() }
    }
}

impl<'a> ClaimLine<'a> {
    fn of(claim: &'a Claim, window: Window) -> Self {
        ClaimLine { what: Wanted::of(claim), from: window.start(), until: window.end() }
    }
}

impl<'a> Wanted<'a> {
    fn of(claim: &'a Claim) -> Self {
        let (mode, units) = match claim.mode {
            Mode::Shared => ("shared", None),
            Mode::Exclusive => ("exclusive", None),
            Mode::Units(units) => ("units", Some(units.to_string())),
        };
        let (path, shape): (&Path, _) = match &claim.target {
            Target::Path(path) => (path, None),
            Target::Region(region) => (&region.frame, Some(&region.shape)),
        };
        let corner = |corner: &Point| corner.to_metres();
        Wanted {
            path: path.as_str(),
            mode,
            units,
            shape: shape.map(|shape| shape.hull().iter().map(corner).collect()),
            height: shape.and_then(|shape| shape.height()).map(|height| height.to_metres()),
        }
    }
}
