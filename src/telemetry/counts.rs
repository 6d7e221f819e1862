//! What is counted of each slot, from what it decided. Once a slot, on the slot loop's own thread.

use super::contention::{Clash, Contention};
use super::instrument::{Counters, Each, Histogram, Label, Number, label};
use crate::coordinator::{Decided, Punctuality, SlotReport};
use crate::resolver::{AgentOp, Input, SlotBatch};
use crate::types::{
    Blocker, Claim, Conflict, Decision, Intent, IntentKey, Micros, Mode, Reason, Start, Time, Verdict,
};

label! {
    /// How a slot kept its time.
    Kept = "result" { Ok = "ok", Late = "late", CaughtUp = "caught_up", }
}
label! {
    /// What the work on a slot is made of.
    Phase = "phase" { Collect = "collect", Resolve = "resolve", Persist = "persist", Publish = "publish", }
}
label! {
    /// What was decided about an intent.
    Outcome = "outcome" {
        Granted = "granted",
        Moved = "moved",
        Waiting = "waiting",
        Conflict = "conflict",
        Stale = "stale",
        Rejected = "rejected",
        Revoked = "revoked",
        Released = "released",
        Renewed = "renewed",
        RenewDenied = "renew_denied",
        Expired = "expired",
        Repeated = "repeated",
    }
}
impl Outcome {
    /// Whether somebody waits for it; the others are news of what was decided long before.
    pub(super) fn is_answer(self) -> bool {
        !matches!(self, Outcome::Moved | Outcome::Revoked | Outcome::Expired)
    }
}

label! {
    /// Why an intent found no place.
    Kind = "kind" { Path = "path", Region = "region", Units = "units", Stale = "stale", Deadlock = "deadlock", }
}
label! {
    /// What came of a counter-offer.
    Offer = "result" { Made = "made", None = "none", Taken = "taken", Missed = "missed", }
}
label! {
    /// How a grant ended.
    End = "reason" { Expired = "expired", Released = "released", Withdrawn = "withdrawn", Revised = "revised", }
}
label! {
    /// Why the core refused a declaration.
    Rejection = "reason" {
        Invalid = "invalid",
        IdInUse = "id_in_use",
        TooShort = "too_short",
        TooLong = "too_long",
        TooLate = "too_late",
        BeyondHorizon = "beyond_horizon",
        NoCapacity = "no_capacity",
        OverCapacity = "over_capacity",
    }
}

const fn us(us: u64) -> Micros {
    Micros::from_us(us)
}

/// Bounds for what is done within a slot.
static WORK: [Micros; 16] = [
    us(5),
    us(10),
    us(25),
    us(50),
    us(100),
    us(250),
    us(500),
    us(1_000),
    us(2_500),
    us(5_000),
    us(10_000),
    us(25_000),
    us(50_000),
    us(100_000),
    us(250_000),
    us(1_000_000),
];

/// Bounds for what an agent waits for: 200 ms is the limit of what is healthy.
static WAITS: [Micros; 18] = [
    us(250),
    us(500),
    us(1_000),
    us(2_500),
    us(5_000),
    us(10_000),
    us(15_000),
    us(20_000),
    us(50_000),
    us(100_000),
    us(200_000),
    us(500_000),
    us(1_000_000),
    us(2_500_000),
    us(5_000_000),
    us(15_000_000),
    us(60_000_000),
    us(300_000_000),
];

/// Everything that is counted of slots.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) slots: Counters<Kept>,
    pub(super) lag: Histogram,
    pub(super) work: Each<Phase, Histogram>,
    pub(super) sent: Histogram,
    pub(super) inputs: Number,
    pub(super) intents: Counters<Outcome>,
    pub(super) decisions: Each<Outcome, Histogram>,
    pub(super) waits: Histogram,
    pub(super) overdue: Number,
    pub(super) conflicts: Counters<Kind>,
    pub(super) offers: Counters<Offer>,
    pub(super) contested: Number,
    pub(super) rejections: Counters<Rejection>,
    pub(super) ended: Counters<End>,
    pub(super) grants_live: Number,
    pub(super) undecided: Number,
    pub(super) scores_not_finite: Number,
    pub(super) socket_full: Number,
}

/// A slot while it is counted.
struct Counting<'a> {
    counts: &'a Counts,
    decided: Decided<'a>,
    /// The slot's first instant, and when it was published.
    opened: Time,
    published: Time,
}

impl Counts {
    pub(super) fn new() -> Self {
        Counts {
            slots: Each::new(Number::default),
            lag: Histogram::new(&WORK),
            work: Each::new(|| Histogram::new(&WORK)),
            sent: Histogram::new(&WORK),
            inputs: Number::default(),
            intents: Each::new(Number::default),
            decisions: Each::new(|| Histogram::new(&WAITS)),
            waits: Histogram::new(&WAITS),
            overdue: Number::default(),
            conflicts: Each::new(Number::default),
            offers: Each::new(Number::default),
            contested: Number::default(),
            rejections: Each::new(Number::default),
            ended: Each::new(Number::default),
            grants_live: Number::default(),
            undecided: Number::default(),
            scores_not_finite: Number::default(),
            socket_full: Number::default(),
        }
    }

    /// Counts a slot. `contention` is told of who was in whose way.
    pub(super) fn slot(&self, report: &SlotReport, decided: Decided<'_>, contention: &mut Contention) {
        self.timing(report);
        let outcome = decided.outcome;
        self.inputs.add(report.inputs as u64);
        self.contested.add(outcome.contested.len() as u64);
        self.scores_not_finite.add(outcome.scores_not_finite as u64);
        let ended = &outcome.ended;
        self.ended.of(End::Expired).add(ended.expired);
        self.ended.of(End::Released).add(ended.released);
        self.ended.of(End::Withdrawn).add(ended.withdrawn);
        self.ended.of(End::Revised).add(ended.revised);
        let opened = outcome.slot.opens(decided.resolver.rules().length);
        let counting = Counting { counts: self, decided, opened, published: report.published };
        for at in 0..outcome.decisions.len() {
            counting.decision(at, contention);
        }
        // Last: who sees how things stand now sees also what has made them so.
        let (live, undecided) = decided.resolver.counts();
        self.grants_live.set(live as u64);
        self.undecided.set(undecided as u64);
    }

    fn timing(&self, report: &SlotReport) {
        let kept = match report.punctuality {
            Punctuality::OnTime => Kept::Ok,
            Punctuality::Late => Kept::Late,
            Punctuality::CaughtUp => Kept::CaughtUp,
        };
        self.slots.of(kept).add(1);
        self.lag.observe(report.wake());
        self.work.of(Phase::Collect).observe(report.collect());
        self.work.of(Phase::Resolve).observe(report.resolve());
        self.work.of(Phase::Persist).observe(report.persist());
        self.work.of(Phase::Publish).observe(report.publish());
    }
}

impl Counting<'_> {
    fn decision(&self, at: usize, contention: &mut Contention) {
        let outcome = self.decided.outcome;
        let Some(decision) = outcome.decisions.get(at) else { return };
        let arrival = outcome.arrivals.get(at).copied().flatten();
        let is_new = arrival.is_some_and(|arrival| arrival >= self.opened);
        if outcome.ranks.get(at).copied().flatten().is_some_and(|rank| rank.is_overdue) && !is_new {
            self.counts.overdue.add(1);
        }
        let what = outcome_of(decision, arrival);
        self.follow(decision, contention);
        if let Some(arrival) = arrival {
            self.details(decision, arrival, contention);
        }
        if what == Outcome::Waiting && !is_new {
            return; // told again, since its offer has changed: it was counted when it began to wait
        }
        self.counts.intents.of(what).add(1);
        self.times(decision, what, arrival, is_new);
    }

    /// Whether a grant of a contended path begins, or has ended.
    fn follow(&self, decision: &Decision, contention: &mut Contention) {
        if contention.is_calm() {
            return;
        }
        match &decision.verdict {
            Verdict::Granted { token, .. } | Verdict::Moved { token, .. } if decision.answers.is_none() => {
                if let Some(grant) = self.decided.resolver.grant(*token) {
                    contention.follow(&grant);
                }
            }
            Verdict::Released { .. } | Verdict::Expired { .. } => {
                contention.ended(&decision.key, self.decided.outcome.at);
            }
            Verdict::Revoked { .. } => contention.forget(&decision.key),
            _ => {}
        }
    }

    /// What a decision about a declaration that arrived at `arrival` means beside its outcome.
    fn details(&self, decision: &Decision, arrival: Time, contention: &mut Contention) {
        let agent = &decision.key.agent;
        match &decision.verdict {
            Verdict::Granted { start, .. } => {
                let taken = contention.was_offered(agent, *start);
                self.counts.offers.of(Offer::Taken).add(taken.into());
            }
            Verdict::Conflict(conflict) => {
                if arrival >= self.opened {
                    self.first_conflict(decision, conflict, arrival, contention);
                }
                self.counts.conflicts.of(Kind::Deadlock).add(conflict.deadlock.into());
                self.offer(conflict.offer);
                if conflict.is_final {
                    contention.offered(agent, conflict.offer);
                }
            }
            Verdict::Revoked { offer, .. } => self.offer(*offer),
            Verdict::Stale { .. } => self.counts.conflicts.of(Kind::Stale).add(1),
            Verdict::Rejected { reason, .. } => self.counts.rejections.of(rejection(*reason)).add(1),
            _ => {}
        }
    }

    /// How long the asker waited: for what it asked in this slot, or for the end of its wait.
    fn times(&self, decision: &Decision, what: Outcome, arrival: Option<Time>, is_new: bool) {
        if !what.is_answer() {
            return;
        }
        let inputs = self.decided.batch.inputs();
        let asked = || decision.answers.and_then(|input| inputs.get(input)).map(Input::at);
        let Some(asked) = arrival.or_else(asked) else { return };
        self.counts.decisions.of(what).observe(self.published.since(asked));
        if arrival.is_some() && !is_new {
            self.counts.waits.observe(self.decided.outcome.at.since(asked));
        }
    }

    fn offer(&self, offer: Option<Time>) {
        let what = if offer.is_some() { Offer::Made } else { Offer::None };
        self.counts.offers.of(what).add(1);
    }

    /// An intent found no place in its first slot.
    fn first_conflict(
        &self,
        decision: &Decision,
        conflict: &Conflict,
        arrival: Time,
        contention: &mut Contention,
    ) {
        let declared = declared(self.decided.batch, &decision.key, arrival);
        if let Some(Start::At(start)) = declared.map(|intent| intent.start) {
            let missed = contention.was_offered(&decision.key.agent, start);
            self.counts.offers.of(Offer::Missed).add(missed.into());
        }
        let first = conflict.blockers.first();
        let holder = first.and_then(|it| self.decided.resolver.grant(it.token?));
        let theirs =
            first.zip(holder.as_ref()).and_then(|(it, grant)| grant.intent.claims.get(it.their_claim));
        let mine = declared.and_then(|intent| intent.claims.get(first.map_or(0, |it| it.claim)));
        if let Some(claim) = theirs.or(mine) {
            let is_alone = |claim: &Claim| claim.mode == Mode::Exclusive;
            contention.note(&Clash {
                at: self.decided.outcome.at,
                asker: &decision.key.agent,
                holder: first.map(|blocker| &blocker.key.agent),
                token: first.and_then(|blocker| blocker.token),
                path: claim.target.path(),
                asked: mine.map(|claim| claim.target.path()),
                is_exclusive: mine.is_some_and(is_alone) && theirs.is_some_and(is_alone),
            });
        }
        if !conflict.deadlock {
            self.counts.conflicts.of(kind(first, mine, theirs)).add(1);
        }
    }
}

/// What kept an intent from its place: the first pair of claims that is in the way.
fn kind(first: Option<&Blocker>, mine: Option<&Claim>, theirs: Option<&Claim>) -> Kind {
    let is_units = |claim: &Claim| matches!(claim.mode, Mode::Units(_));
    match first {
        Some(blocker) if blocker.ratio.is_some() => Kind::Region,
        // Two that both take units are in each other's way by their sum alone; what is not there any
        // more took up as much.
        _ if mine.is_some_and(is_units) && theirs.is_none_or(is_units) => Kind::Units,
        _ => Kind::Path,
    }
}

/// The declaration or revision of `key` that arrived at `arrival`.
fn declared<'a>(batch: &'a SlotBatch, key: &IntentKey, arrival: Time) -> Option<&'a Intent> {
    let inputs = batch.inputs();
    let from = inputs.partition_point(|input| input.at() < arrival);
    let at_once = inputs.get(from..)?.iter().take_while(|input| input.at() == arrival);
    at_once
        .filter_map(|input| match input {
            Input::Agent { agent, op: AgentOp::Declare(intent) | AgentOp::Revise(intent), .. } => {
                (intent.id == key.id && *agent == key.agent).then_some(intent)
            }
            _ => None,
        })
        // Of two in one message the later one is what was decided last.
        .last()
}

/// `arrival` is that of the declaration that it decides.
fn outcome_of(decision: &Decision, arrival: Option<Time>) -> Outcome {
    let repeats = decision.answers.is_some() && arrival.is_none();
    match &decision.verdict {
        Verdict::Released { .. } | Verdict::ReleasedUnknown => Outcome::Released,
        Verdict::Renewed { .. } => Outcome::Renewed,
        Verdict::RenewDenied(_) => Outcome::RenewDenied,
        _ if repeats => Outcome::Repeated,
        Verdict::Granted { .. } => Outcome::Granted,
        Verdict::Moved { .. } => Outcome::Moved,
        Verdict::Conflict(conflict) if conflict.is_final => Outcome::Conflict,
        Verdict::Conflict(_) => Outcome::Waiting,
        Verdict::Stale { .. } => Outcome::Stale,
        Verdict::Rejected { .. } => Outcome::Rejected,
        Verdict::Expired { .. } => Outcome::Expired,
        Verdict::Revoked { .. } => Outcome::Revoked,
    }
}

fn rejection(reason: Reason) -> Rejection {
    match reason {
        Reason::Invalid => Rejection::Invalid,
        Reason::IdInUse => Rejection::IdInUse,
        Reason::TooShort => Rejection::TooShort,
        Reason::TooLong => Rejection::TooLong,
        Reason::TooLate => Rejection::TooLate,
        Reason::BeyondHorizon => Rejection::BeyondHorizon,
        Reason::NoCapacity => Rejection::NoCapacity,
        Reason::OverCapacity => Rejection::OverCapacity,
    }
}
