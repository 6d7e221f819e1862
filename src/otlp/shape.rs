//! From what slots decided to spans: pure, on the coordinator's clock.
//!
//! An intent in a trace has a span `decide` below its declaration, from its arrival to its answer; a grant has a span
//! `grant` below that, for as long as it lasts. A slot in which something of a trace was decided has a span `slot`, of a
//! trace of its own since it serves many, with its phases below it; each `decide` is linked to the slots in which
//! something was told of it. What the slot loop could not hand on in time is missing: then all that is open is ended as
//! `unknown`, so that nothing is kept for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ids::Ids;
use super::span::{Attribute, Kind, Parent, Place, Span};
use crate::coordinator::{Punctuality, SlotReport, Trace};
use crate::resolver::Rank;
use crate::types::{Conflict, Decision, FixedMap, IntentKey, RenewDenial, Time, Token, Verdict};

/// What the slot loop hands on of one slot.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) report: SlotReport,
    pub(super) told: Vec<Told>,
    /// Whether something was left out since the one that was handed on before.
    pub(super) is_after_gap: bool,
}

/// A decision about an intent in a trace.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) trace: Arc<Trace>,
    pub(super) decision: Decision,
    /// When what it decides had arrived; `None` for what decides no declaration.
    pub(super) arrival: Option<Time>,
    pub(super) rank: Option<Rank>,
    /// Of a grant: whether it is a lease, which ends when that is told.
    pub(super) is_lease: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Shaper {
    ids: Ids,
    undecided: FixedMap<IntentKey, Open>,
    granted: FixedMap<IntentKey, Granted>,
    /// Grants that end without a word.
    ends: BTreeMap<(Time, Token), IntentKey>,
    made: Vec<Span>,
}

/// A span that goes on, and that keeps its trace's place.
#[derive(Debug)]
struct Open {
    span: Span,
    _trace: Arc<Trace>,
}

#[derive(Debug)]
struct Granted {
    open: Open,
    token: Token,
    end: Time,
    is_lease: bool,
}

/// When and where something was told.
#[derive(Clone, Copy, Debug)]
struct Telling {
    slot: Place,
    number: u64,
    at: Time,
    published: Time,
}

impl Shaper {
    pub(super) fn new(ids: Ids) -> Self {
        Shaper {
            ids,
            undecided: FixedMap::default(),
            granted: FixedMap::default(),
            ends: BTreeMap::new(),
            made: Vec::new(),
        }
    }

    /// The spans that have ended since this was asked last.
    pub(super) fn take(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.made)
    }

    /// Takes in what was decided in a slot.
    pub(super) fn slot(&mut self, Slot { report, told, is_after_gap }: Slot) {
        if is_after_gap {
            self.lose_sight(report.at);
        }
        let place = Place { trace: self.ids.trace(), span: self.ids.span() };
        let telling =
            Telling { slot: place, number: report.slot.number(), at: report.at, published: report.published };
        self.slot_span(place, &report, told.len());
        told.into_iter().for_each(|told| self.told(told, telling));
    }

    /// Ends the grants whose windows have ended by `now`, of which nobody tells.
    pub(super) fn tick(&mut self, now: Time) {
        while let Some(entry) = self.ends.first_entry()
            && entry.key().0 <= now
        {
            let ((end, _), key) = entry.remove_entry();
            self.end_grant(&key, end, "expired", Vec::new());
        }
    }

    /// Nothing more comes, or something is missing: all that is open ends at `now`, and nobody knows how.
    pub(super) fn lose_sight(&mut self, now: Time) {
        let keys: Vec<IntentKey> = self.granted.keys().cloned().collect();
        keys.iter().for_each(|key| self.end_grant(key, now, "unknown", Vec::new()));
        for (_, Open { mut span, .. }) in self.undecided.drain() {
            span.set("preclaim.outcome", "unknown");
            self.made.push(span.ended(now));
        }
    }

    fn slot_span(&mut self, place: Place, report: &SlotReport, traced: usize) {
        let mut span = Span::new(place, None, "slot", report.at);
        span.set("preclaim.slot", report.slot.number());
        span.set("preclaim.inputs", report.inputs);
        span.set("preclaim.decisions", report.decisions);
        span.set("preclaim.traced", traced);
        span.set(
            "preclaim.kept",
            match report.punctuality {
                Punctuality::OnTime => "ok",
                Punctuality::Late => "late",
                Punctuality::CaughtUp => "caught_up",
            },
        );
        self.made.push(span.ended(report.published));
        let parent = Parent { span: place.span, is_remote: false };
        for (name, from, to) in [
            ("collect", report.woken, report.closed),
            ("resolve", report.closed, report.resolved),
            ("persist", report.resolved, report.persisted),
            ("publish", report.persisted, report.published),
        ] {
            let phase = Place { span: self.ids.span(), ..place };
            self.made.push(Span::new(phase, Some(parent), name, from).ended(to));
        }
    }

    fn told(&mut self, told: Told, telling: Telling) {
        let repeats = told.decision.answers.is_some() && told.arrival.is_none();
        let Told { trace, decision: Decision { key, verdict, .. }, arrival, rank, is_lease } = told;
        let about = About { trace: &trace, key: &key, arrival, rank };
        match &verdict {
            Verdict::Released { reason } => {
                let by = if reason.is_some() { "operator" } else { "agent" };
                self.decide_open(&key, "released", telling);
                self.end_grant(&key, telling.at, "released", vec![("preclaim.released_by", by.into())]);
            }
            Verdict::ReleasedUnknown => {}
            Verdict::Renewed { end } => self.renewed(&key, *end, telling),
            Verdict::RenewDenied(denial) => self.renewal_denied(&key, denial, telling),
            Verdict::Expired { token } => {
                if self.granted.get(&key).is_some_and(|granted| granted.token == *token) {
                    self.end_grant(&key, telling.at, "expired", Vec::new());
                }
            }
            Verdict::Revoked { by, offer, waiting } => {
                let by = vec![("preclaim.revoked_for", named(by).into())];
                self.end_grant(&key, telling.at, "revoked", by);
                if *waiting {
                    self.waits(about, *offer, None, telling);
                }
            }
            _ if repeats => {
                let what = vec![("preclaim.repeated", verdict.word().into())];
                self.decide(about, "repeated", what, telling);
            }
            Verdict::Granted { start, end, token } => {
                let grant = Grant { window: (*start, *end), token: *token, is_lease };
                self.placed(about, "granted", grant, telling);
            }
            Verdict::Moved { start, end, token } => {
                let grant = Grant { window: (*start, *end), token: *token, is_lease };
                self.placed(about, "moved", grant, telling);
            }
            Verdict::Conflict(conflict) if !conflict.is_final => {
                self.waits(about, conflict.offer, Some(conflict), telling);
            }
            Verdict::Conflict(conflict) => {
                self.decide(about, "conflict", of_conflict(conflict), telling);
            }
            Verdict::Stale { path, .. } => {
                let path = vec![("preclaim.path", path.to_string().into())];
                self.decide(about, "stale", path, telling);
            }
            Verdict::Rejected { reason, field, .. } => {
                let why = vec![
                    ("preclaim.reason", reason.as_str().into()),
                    ("preclaim.field", field.clone().into()),
                ];
                self.decide(about, "rejected", why, telling);
            }
        }
    }

    /// It has its answer. Returns where its span stands.
    fn decide(
        &mut self,
        about: About<'_>,
        outcome: &'static str,
        more: Vec<Attribute>,
        telling: Telling,
    ) -> Place {
        // A repeat has a span of its own beside what is still open.
        let is_open = outcome != "repeated";
        let open = if is_open { self.undecided.remove(about.key) } else { None };
        let mut span = open.map_or_else(|| self.begin(about, telling), |open| open.span);
        span.link(telling.slot);
        span.set("preclaim.slot", telling.number);
        span.set("preclaim.outcome", outcome);
        span.set("preclaim.wait_us", telling.at.since(span.start));
        if let Some(Rank { score, is_overdue }) = about.rank {
            span.set("preclaim.score", score);
            span.set("preclaim.overdue", is_overdue);
        }
        span.attributes.extend(more);
        let place = span.place;
        self.made.push(span.ended(telling.published));
        place
    }

    /// It is not placed yet. `conflict` is why, where that is told.
    fn waits(
        &mut self,
        about: About<'_>,
        offer: Option<Time>,
        conflict: Option<&Conflict>,
        telling: Telling,
    ) {
        let mut open = match self.undecided.remove(about.key) {
            Some(open) => open,
            None => Open { span: self.begin(about, telling), _trace: Arc::clone(about.trace) },
        };
        let mut attributes = vec![("preclaim.slot", telling.number.into())];
        attributes.extend(offer.map(|offer| ("preclaim.offer_us", offer.into())));
        attributes.extend(conflict.map(|conflict| ("preclaim.blockers", conflict.blockers.len().into())));
        open.span.event(telling.at, "waiting", attributes);
        open.span.link(telling.slot);
        self.undecided.insert(about.key.clone(), open);
    }

    /// What is undecided ends without being placed.
    fn decide_open(&mut self, key: &IntentKey, outcome: &'static str, telling: Telling) {
        let Some(Open { mut span, .. }) = self.undecided.remove(key) else { return };
        span.link(telling.slot);
        span.set("preclaim.slot", telling.number);
        span.set("preclaim.outcome", outcome);
        self.made.push(span.ended(telling.published));
    }

    fn placed(&mut self, about: About<'_>, outcome: &'static str, grant: Grant, telling: Telling) {
        let Grant { window: (start, end), token, is_lease } = grant;
        let ends_as = if outcome == "moved" { "moved" } else { "revised" };
        self.end_grant(about.key, telling.at, ends_as, Vec::new());
        let of_token = vec![("preclaim.token", token.number().into())];
        let decided = self.decide(about, outcome, of_token, telling);
        let place = Place { span: self.ids.span(), ..decided };
        let parent = Parent { span: decided.span, is_remote: false };
        let mut span = Span::new(place, Some(parent), "grant", telling.at);
        span.state = about.trace.context().state().into();
        about.name(&mut span);
        span.set("preclaim.token", token.number());
        span.set("preclaim.start_us", start);
        span.set("preclaim.end_us", end);
        span.set("preclaim.lease", is_lease);
        let open = Open { span, _trace: Arc::clone(about.trace) };
        if !is_lease {
            self.ends.insert((end, token), about.key.clone());
        }
        self.granted.insert(about.key.clone(), Granted { open, token, end, is_lease });
    }

    fn renewed(&mut self, key: &IntentKey, end: Time, telling: Telling) {
        if let Some(granted) = self.granted.get_mut(key) {
            granted.end = end;
            granted.open.span.event(telling.at, "renewed", vec![("preclaim.end_us", end.into())]);
        }
    }

    fn renewal_denied(&mut self, key: &IntentKey, denial: &RenewDenial, telling: Telling) {
        let RenewDenial::Kept { end, blockers } = denial else { return };
        if let Some(granted) = self.granted.get_mut(key) {
            let why = vec![("preclaim.end_us", (*end).into()), ("preclaim.blockers", blockers.len().into())];
            granted.open.span.event(telling.at, "renewal denied", why);
        }
    }

    fn end_grant(&mut self, key: &IntentKey, at: Time, how: &'static str, more: Vec<Attribute>) {
        let Some(Granted { open, token, end, is_lease }) = self.granted.remove(key) else { return };
        if !is_lease {
            self.ends.remove(&(end, token));
        }
        let mut span = open.span;
        span.set("preclaim.ended", how);
        span.set("preclaim.ended_us", at);
        span.attributes.extend(more);
        self.made.push(span.ended(at));
    }

    /// The span of what is to be decided of an intent.
    fn begin(&mut self, about: About<'_>, telling: Telling) -> Span {
        let context = about.trace.context();
        let place = Place { trace: context.trace(), span: self.ids.span() };
        let parent = Parent { span: context.span(), is_remote: true };
        let mut span = Span::new(place, Some(parent), "decide", about.arrival.unwrap_or(telling.at));
        span.kind = Kind::Server;
        span.state = context.state().into();
        about.name(&mut span);
        span
    }
}

/// What is known of the intent that something is told about.
#[derive(Clone, Copy, Debug)]
struct About<'a> {
    trace: &'a Arc<Trace>,
    key: &'a IntentKey,
    arrival: Option<Time>,
    rank: Option<Rank>,
}

impl About<'_> {
    fn name(&self, span: &mut Span) {
        span.set("preclaim.agent", self.key.agent.as_str().to_owned());
        // As text: it may be greater than OpenTelemetry's numbers.
        span.set("preclaim.intent", self.key.id.number().to_string());
    }
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    window: (Time, Time),
    token: Token,
    is_lease: bool,
}

fn named(key: &IntentKey) -> String {
    format!("{}/{}", key.agent, key.id)
}

fn of_conflict(conflict: &Conflict) -> Vec<Attribute> {
    let mut attributes = vec![
        ("preclaim.blockers", conflict.blockers.len().into()),
        ("preclaim.deadlock", conflict.deadlock.into()),
    ];
    if let Some(first) = conflict.blockers.first() {
        attributes.push(("preclaim.blocker", named(&first.key).into()));
    }
    attributes.extend(conflict.offer.map(|offer| ("preclaim.offer_us", offer.into())));
    attributes
}

#[cfg(test)]
mod tests;
