//! The slow twin: the contract of the decision core once more, as plain as can be.
//!
//! Lists and full scans, nothing kept that could be computed again. It shares with the real resolver
//! the nouns, the exact geometry and the priority models, and nothing else.

use std::cell::RefCell;
use std::sync::Arc;

use preclaim::priority::{self, Context};
use preclaim::resolver::{Input, Rules, SlotBatch, SlotOutcome, SystemOp};
use preclaim::types::{
    Agent, Blocker, Claim, Decision, Intent, IntentKey, Micros, Mode, Path, Slot, Start, TaskId, Time, Token,
    Verdict, Window,
};

use super::fitting::{Standing, related};

/// A grant in force, or one that has ended and was not removed yet.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) standing: Standing,
    pub(crate) token: Token,
    pub(crate) intent: Intent,
    pub(crate) arrival: Arrival,
    pub(crate) start: Time,
    /// Where `max_hold` counts from, in a chain of revisions that began while it was held.
    pub(crate) anchor: Option<Time>,
    /// The decision time at which it was granted.
    pub(crate) granted_at: Time,
    /// Its line was `moved`.
    pub(crate) moved: bool,
    /// It was granted as a shrink.
    pub(crate) shrunk: bool,
    /// It has ended, is not removed yet, and its id stands for something newer.
    pub(crate) superseded: bool,
}

impl Grant {
    pub(crate) fn key(&self) -> &IntentKey {
        &self.standing.key
    }

    pub(crate) fn end(&self) -> Time {
        self.standing.end()
    }

    pub(crate) fn in_force(&self, at: Time) -> bool {
        at < self.end()
    }

    /// Its decision line, with the present end.
    pub(crate) fn line(&self) -> Verdict {
        let (start, end, token) = (self.start, self.end(), self.token);
        if self.moved { Verdict::Moved { start, end, token } } else { Verdict::Granted { start, end, token } }
    }

    /// The anchor of a revision of it that is decided at `d`.
    pub(crate) fn anchor_for_revision(&self, d: Time) -> Option<Time> {
        let first = self.standing.first_start();
        self.anchor.or((first <= d).then_some(first))
    }

    pub(crate) fn task(&self) -> (Agent, TaskId) {
        (self.key().agent.clone(), self.intent.task)
    }
}

/// When a message arrived, and which one it was of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    pub(crate) number: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Declared, or revised while undecided.
    Declared,
    /// A revision of the grant with this token.
    Revision { of: Token },
    /// Its grant was withdrawn in this slot.
    Withdrawn { by: IntentKey },
}

/// An intent, or a revision of a grant, that is still to be decided.
#[derive(Clone, Debug)]
pub(crate) struct Undecided {
    pub(crate) key: IntentKey,
    pub(crate) intent: Intent,
    pub(crate) arrival: Arrival,
    /// What its wait counts from.
    pub(crate) waits_from: Time,
    pub(crate) kind: Kind,
    pub(crate) anchor: Option<Time>,
    /// Its latest line, if it had one.
    pub(crate) line: Option<Verdict>,
}

impl Undecided {
    pub(crate) fn wait_ends(&self) -> Time {
        self.waits_from.after(self.intent.wait)
    }

    pub(crate) fn is_revision(&self) -> bool {
        matches!(self.kind, Kind::Revision { .. })
    }

    pub(crate) fn task(&self) -> (Agent, TaskId) {
        (self.key.agent.clone(), self.intent.task)
    }
}

/// An id that ended: what it stood for and the last that was said about it.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) key: IntentKey,
    pub(crate) intent: Intent,
    pub(crate) line: Verdict,
    pub(crate) at: Time,
}

/// A window that a writer had.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) key: IntentKey,
    pub(crate) claim: Claim,
    pub(crate) window: Window,
}

/// The span for which an agent held a grant that has ended.
#[derive(Clone, Debug)]
struct Tenure {
    agent: Agent,
    from: Time,
    to: Time,
}

/// An intent that was not placed in its turn, until its line is settled at the end of the slot.
#[derive(Clone, Debug)]
pub(crate) struct Unplaced {
    pub(crate) undecided: Undecided,
    pub(crate) turn: usize,
    pub(crate) blockers: Vec<Blocker>,
    pub(crate) waits: bool,
    pub(crate) deadlock: bool,
}

/// What one slot has come to so far.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) d: Time,
    pub(crate) lines: Vec<Decision>,
    /// Held places, in the order in which they were held.
    pub(crate) held: Vec<Standing>,
    /// Whose turns there were, in order.
    pub(crate) turns: Vec<IntentKey>,
    pub(crate) unplaced: Vec<Unplaced>,
    pub(crate) scores_not_finite: usize,
}

impl Work {
    pub(crate) fn say(&mut self, key: &IntentKey, answers: Option<usize>, verdict: Verdict) {
        self.lines.push(Decision { key: key.clone(), answers, verdict });
    }
}

/// The twin and all its state.
#[derive(Debug)]
pub(crate) struct Twin {
    pub(crate) rules: Rules,
    pub(crate) next_token: Token,
    messages: u64,
    pub(crate) grants: Vec<Grant>,
    pub(crate) undecided: Vec<Undecided>,
    /// Old windows that revisions and shrinks of this slot left.
    pub(crate) leftovers: Vec<Standing>,
    pub(crate) ended: Vec<Ended>,
    pub(crate) past: Vec<Past>,
    tenures: Vec<Tenure>,
    /// Configuration, and capacities set after it, to be put in force for the next slot.
    pub(crate) later: Vec<SystemOp>,
    /// What happened in the last slot that no decision shows.
    pub(crate) events: RefCell<Vec<&'static str>>,
    /// Whether a restart, and whether a new table of resources, came in the last slot.
    pub(crate) restarted: bool,
    pub(crate) reconfigured: bool,
}

impl Twin {
    pub(crate) fn new(rules: Rules) -> Self {
        Twin {
            rules,
            next_token: Token::new(1),
            messages: 0,
            grants: Vec::new(),
            undecided: Vec::new(),
            leftovers: Vec::new(),
            ended: Vec::new(),
            past: Vec::new(),
            tenures: Vec::new(),
            later: Vec::new(),
            events: RefCell::default(),
            restarted: false,
            reconfigured: false,
        }
    }

    /// Decides one slot. None may be left out.
    pub(crate) fn resolve(&mut self, batch: &SlotBatch) -> SlotOutcome {
        let d = batch.slot().decided_at(self.rules.length);
        let mut work = Work { d, ..Work::default() };
        self.events.borrow_mut().clear();
        (self.restarted, self.reconfigured) = (false, false);
        for (index, input) in batch.inputs().iter().enumerate() {
            self.messages += 1;
            let arrival = Arrival { at: input.at(), number: self.messages };
            match input {
                Input::Agent { agent, op, .. } => self.agent_input(&mut work, index, arrival, agent, op),
                Input::System { op, .. } => self.system_input(&mut work, index, arrival.at, op),
            }
        }
        self.expire(&mut work);
        self.place_all(&mut work);
        self.end_deadlocks(&mut work);
        self.tell_unplaced(&mut work);
        self.end_slot(d);
        let (decisions, scores_not_finite) = (work.lines, work.scores_not_finite);
        SlotOutcome { decisions, scores_not_finite, ..SlotOutcome::empty(batch.slot(), d) }
    }

    fn expire(&mut self, work: &mut Work) {
        let d = work.d;
        let (ended, left): (Vec<Grant>, Vec<Grant>) =
            std::mem::take(&mut self.grants).into_iter().partition(|grant| grant.end() <= d);
        self.grants = left;
        let mut ended = ended;
        ended.sort_by_key(|grant| grant.token);
        for grant in ended {
            self.remember_windows(&grant.standing, Time::MAX);
            self.close_tenure(&grant, d);
            let line = if grant.intent.hold { Verdict::Expired { token: grant.token } } else { grant.line() };
            if grant.intent.hold {
                work.say(grant.key(), None, line.clone());
            }
            if !grant.superseded {
                self.remember(grant.key().clone(), grant.intent, line, d);
            }
        }
    }

    /// Held places are dropped with `work`; what revisions left is dropped here.
    fn end_slot(&mut self, d: Time) {
        for left in std::mem::take(&mut self.leftovers) {
            self.remember_windows(&left, d);
        }
        for op in std::mem::take(&mut self.later) {
            match op {
                SystemOp::Config(change) => {
                    let (length, kept) = (self.rules.length, std::mem::take(&mut self.rules.resources));
                    self.rules = change.rules;
                    self.rules.length = length;
                    self.reconfigured |= change.resources.is_some();
                    self.rules.resources = change.resources.unwrap_or(kept);
                    self.saw("configured anew");
                }
                SystemOp::Capacity { path, capacity } => self.set_capacity(&path, capacity),
                SystemOp::Release { .. } | SystemOp::Restart { .. } => {}
            }
        }
    }

    /// Notes for the report of what the traces reached.
    pub(crate) fn saw(&self, event: &'static str) {
        self.events.borrow_mut().push(event);
    }

    pub(crate) fn take_token(&mut self) -> Token {
        let token = self.next_token;
        self.next_token = token.next();
        token
    }

    pub(crate) fn remember(&mut self, key: IntentKey, intent: Intent, line: Verdict, at: Time) {
        self.ended.retain(|ended| ended.key != key);
        self.ended.push(Ended { key, intent, line, at });
    }

    /// What writers had of these windows until `cut`: one that had not begun by then never was.
    pub(crate) fn remember_windows(&mut self, standing: &Standing, cut: Time) {
        for (_, claim, window) in standing.parts() {
            if let Some(window) = Window::new(window.start(), window.end().min(cut))
                && claim.mode != Mode::Shared
            {
                self.past.push(Past { key: standing.key.clone(), claim: claim.clone(), window });
            }
        }
    }

    /// A grant has ended, or was replaced, in the slot decided at `d`.
    pub(crate) fn close_tenure(&mut self, grant: &Grant, d: Time) {
        let (from, to) = (grant.start.max(grant.granted_at), grant.end().min(d));
        self.tenures.push(Tenure { agent: grant.key().agent.clone(), from, to });
    }

    /// How long the agent held grants within `fair_window` before `d`.
    fn held_by(&self, agent: &Agent, d: Time) -> Micros {
        let opens = d.before(self.rules.fair_window);
        let closed = self.tenures.iter().filter(|tenure| &tenure.agent == agent);
        let open = self.grants.iter().filter(|grant| &grant.key().agent == agent);
        let closed = closed.map(|tenure| (tenure.from, tenure.to));
        let open = open.map(|grant| (grant.start.max(grant.granted_at), grant.end()));
        let spans = closed.chain(open).map(|(from, to)| to.min(d).since(from.max(opens)));
        spans.fold(Micros::ZERO, Micros::plus)
    }

    /// The starts that an intent may take in the slot decided at `d`, both ends included.
    pub(crate) fn reachable(&self, intent: &Intent, d: Time) -> (Time, Time) {
        let earliest = d.after(self.rules.min_lead);
        match intent.start {
            Start::At(start) => (start.max(earliest), start.after(intent.slack)),
            Start::Asap => (earliest, earliest.after(self.asap_slack(intent))),
        }
    }

    pub(crate) fn asap_slack(&self, intent: &Intent) -> Micros {
        intent.slack.max(self.rules.length.less(Micros::from_us(1)))
    }

    pub(crate) fn score(&self, work: &mut Work, undecided: &Undecided) -> f64 {
        let context = Context {
            agent: &undecided.key.agent,
            arrival: undecided.arrival.at,
            waited: work.d.since(undecided.waits_from),
            now: work.d,
            earliest: self.reachable(&undecided.intent, work.d).0,
            held: self.held_by(&undecided.key.agent, work.d),
        };
        let (score, not_finite) = priority::rank(self.rules.model.score(&undecided.intent, &context));
        work.scores_not_finite += usize::from(not_finite);
        score
    }

    /// Everything that others than `key` hold or have granted.
    pub(crate) fn view<'a>(&'a self, key: &IntentKey, held: &'a [Standing]) -> Vec<&'a Standing> {
        let granted = self.grants.iter().map(|grant| &grant.standing);
        granted.chain(&self.leftovers).chain(held).filter(|standing| &standing.key != key).collect()
    }

    /// Where an intent is stale at start `s`: the first stale reading's path, and when to read again.
    /// Grants with a token in `gone` are looked past.
    pub(crate) fn stale(&self, who: &Undecided, s: Time, d: Time, gone: &[Token]) -> Option<(Path, Time)> {
        who.intent.expects.iter().find_map(|expect| {
            let too_old = (expect.as_of < d.before(self.rules.history)).then_some(d);
            let written = Window::new(expect.as_of, s)
                .and_then(|span| self.last_write(who, &expect.path, span, d, gone));
            let as_of = too_old.max(written)?;
            if too_old.is_some() {
                self.saw("stale, as_of too old");
            }
            Some((expect.path.clone(), as_of))
        })
    }

    fn last_write(
        &self,
        who: &Undecided,
        path: &Path,
        span: Window,
        d: Time,
        gone: &[Token],
    ) -> Option<Time> {
        let target = preclaim::types::Target::Path(path.clone());
        let is_write = |key: &IntentKey, claim: &Claim, window: Option<Window>| {
            key != &who.key
                && claim.mode != Mode::Shared
                && window.is_some_and(|window| window.overlap(span).is_some())
                && related(&self.rules, &target, &claim.target)
        };
        let mut latest = None;
        for past in &self.past {
            if is_write(&past.key, &past.claim, Some(past.window)) {
                latest = latest.max(Some(past.window.end()));
            }
        }
        for grant in self.grants.iter().filter(|grant| !gone.contains(&grant.token)) {
            for (_, claim, window) in grant.standing.parts() {
                if is_write(grant.key(), claim, Some(window)) {
                    latest = latest.max(Some(window.end()));
                }
            }
        }
        for left in &self.leftovers {
            for (_, claim, window) in left.parts() {
                // What a revision replaced was had until the d of that.
                let had = Window::new(window.start(), window.end().min(d));
                if is_write(&left.key, claim, had) {
                    latest = latest.max(had.map(Window::end));
                }
            }
        }
        latest
    }

    pub(crate) fn has_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// Whether something may happen in `slot` or later without any input.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.undecided.is_empty() && !self.grants.iter().any(|grant| grant.intent.hold)
    }
}

/// The first boundary at or after `t`.
pub(crate) fn boundary_from(t: Time, length: Micros) -> Time {
    let slot = Slot::of(t, length);
    if slot.opens(length) == t { t } else { slot.decided_at(length) }
}

/// The place that a granted intent's readings hold: shared, from `d` to its start.
pub(crate) fn place_of_readings(key: &IntentKey, intent: &Intent, d: Time, start: Time) -> Option<Standing> {
    let window = Window::new(d, start)?;
    let claim = |expect: &preclaim::types::Expect| Claim {
        target: preclaim::types::Target::Path(expect.path.clone()),
        mode: Mode::Shared,
        offset: Micros::ZERO,
        duration: window.duration(),
    };
    let claims: Arc<[Claim]> = intent.expects.iter().map(claim).collect();
    let windows = vec![Some(window); claims.len()];
    (!claims.is_empty()).then(|| Standing { key: key.clone(), token: None, claims, windows, tolerant: false })
}
