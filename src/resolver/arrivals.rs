//! Step 1 of a slot: what arrived, one by one. Rejections, repeats, releases, renewals and shrinks
//! are answered here; declarations and revisions become undecided intents.

use std::sync::Arc;

use super::Change;
use super::batch::{AgentOp, Input, SystemOp};
use super::book::{Ended, Grant, RecordNo, Undecided};
use super::checks;
use super::fit::Plan;
use super::ledger::Kind;
use super::run::SlotRun;
use super::shrink;
use crate::types::{Agent, Intent, IntentId, IntentKey, Reason, RenewDenial, Time, Verdict, Window};

/// The input that is being looked at.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// Its index in the batch.
    input: usize,
    at: Time,
}

impl SlotRun<'_> {
    /// Takes in all inputs of the slot, in arrival order.
    pub(super) fn take_arrivals(&mut self, inputs: &[Input]) {
        self.state.book.look_ahead(inputs.iter().filter_map(Input::named));
        for (input, message) in inputs.iter().enumerate() {
            let arrival = Arrival { input, at: message.at() };
            match message {
                Input::Agent { agent, op, .. } => self.take_agent_op(arrival, agent, op),
                Input::System { op, .. } => self.take_system_op(arrival, op),
            }
        }
    }

    fn take_agent_op(&mut self, arrival: Arrival, agent: &Agent, op: &AgentOp) {
        let key = |id: IntentId| IntentKey { agent: agent.clone(), id };
        match op {
            AgentOp::Declare(intent) => self.declare(arrival, key(intent.id), intent),
            AgentOp::Revise(intent) => self.revise(arrival, key(intent.id), intent),
            AgentOp::Invalid { revision, why, .. } => {
                let key = key(op.id());
                let no = self.state.book.find(&key).filter(|_| *revision);
                let kept = no.is_some_and(|no| self.state.book.in_force(no, arrival.at).is_some());
                let field = why.field.clone();
                self.settle(arrival, key, Verdict::Rejected { reason: Reason::Invalid, field, kept });
            }
            AgentOp::Release { id } => self.release(arrival, key(*id)),
            AgentOp::Renew { id, until } => self.renew(arrival, key(*id), *until),
        }
    }

    fn take_system_op(&mut self, arrival: Arrival, op: &SystemOp) {
        match op {
            SystemOp::Capacity { path, capacity } => {
                self.state.set_capacity(path, *capacity);
                if !self.state.changes.is_empty() {
                    self.state.changes.push(Change::Capacity(path.clone(), *capacity));
                }
            }
            SystemOp::Release { agent, id, reason } => {
                let key = IntentKey { agent: agent.clone(), id: *id };
                let reason = Some(reason.clone());
                if self.end_by_release(arrival, &key, reason.clone()) {
                    self.answer(arrival, key, Verdict::Released { reason });
                }
            }
            SystemOp::Config(change) => self.state.changes.push(Change::Rules(change.clone())),
            SystemOp::Restart { next_token } => {
                self.state.next_token = self.state.next_token.max(*next_token);
            }
        }
    }

    fn answer(&mut self, arrival: Arrival, key: IntentKey, verdict: Verdict) {
        self.tell(key, Some(arrival.input), None, verdict);
    }

    /// Answers a declaration or revision at once.
    fn settle(&mut self, arrival: Arrival, key: IntentKey, verdict: Verdict) {
        self.tell(key, Some(arrival.input), Some(arrival.at), verdict);
    }

    fn declare(&mut self, arrival: Arrival, key: IntentKey, intent: &Intent) {
        if let Some(field) = checks::reading_from_the_future(intent, self.now) {
            return self.reject(arrival, key, Reason::Invalid, field, false);
        }
        let (no, is_new) = self.state.book.enter(&key);
        if is_new {
            return self.take_undecided(arrival, (no, key), intent, None); // as most do
        }
        self.state.book.detach_ended_grant(no, arrival.at, self.now);
        match self.standing(no, arrival.at) {
            Some((content, line)) if *content == *intent => self.repeat(arrival, key, line),
            Some(_) => self.reject(arrival, key, Reason::IdInUse, "id".into(), false),
            None => self.take_undecided(arrival, (no, key), intent, None),
        }
    }

    fn revise(&mut self, arrival: Arrival, key: IntentKey, intent: &Intent) {
        let (no, _) = self.state.book.enter(&key);
        self.state.book.detach_ended_grant(no, arrival.at, self.now);
        let old = self.state.book.in_force(no, arrival.at).cloned();
        if let Some(field) = checks::reading_from_the_future(intent, self.now) {
            return self.reject(arrival, key, Reason::Invalid, field, old.is_some());
        }
        match self.standing(no, arrival.at) {
            Some((content, line)) if *content == *intent => self.repeat(arrival, key, line),
            _ => match old {
                Some(old) if self.is_shrink(&old, intent) => self.shrink(arrival, key, intent, &old),
                old => self.take_undecided(arrival, (no, key), intent, old.as_ref()),
            },
        }
    }

    /// The content that an id stands for, and the line that a repeat is answered with: none where it
    /// is still to come in this slot.
    fn standing(&self, no: RecordNo, at: Time) -> Option<(Arc<Intent>, Option<Verdict>)> {
        if let Some(grant) = self.state.book.in_force(no, at) {
            return Some((grant.intent.clone(), Some(grant.line())));
        }
        if let Some(undecided) = self.state.book.undecided(no) {
            return Some((undecided.intent.clone(), undecided.told.as_deref().cloned()));
        }
        let ended = self.state.book.remembered(no, at, self.state.rules.retention)?;
        Some((ended.intent.clone(), ended.line.clone()))
    }

    fn repeat(&mut self, arrival: Arrival, key: IntentKey, line: Option<Verdict>) {
        if let Some(line) = line {
            self.answer(arrival, key, line);
        }
    }

    fn reject(&mut self, arrival: Arrival, key: IntentKey, reason: Reason, field: String, kept: bool) {
        self.settle(arrival, key, Verdict::Rejected { reason, field, kept });
    }

    fn take_undecided(
        &mut self,
        arrival: Arrival,
        (no, key): (RecordNo, IntentKey),
        intent: &Intent,
        old: Option<&Grant>,
    ) {
        let held_since = old.and_then(|grant| self.held_since(grant));
        let checked =
            checks::on_arrival(intent, self.now, held_since, &self.state.rules, &self.state.settings);
        if let Err(refusal) = checked {
            return self.reject(arrival, key, refusal.reason, refusal.field, old.is_some());
        }
        self.state.arrivals += 1;
        let undecided = Undecided {
            intent: Arc::new(intent.clone()),
            arrival: arrival.at,
            arrival_number: self.state.arrivals,
            waits_from: arrival.at,
            revises: old.map(|grant| grant.token),
            held_since,
            told: None,
            withdrawn_for: None,
        };
        self.state.book.set_undecided(no, undecided);
    }

    /// From when on `max_hold` counts for a revision of this grant.
    fn held_since(&self, grant: &Grant) -> Option<Time> {
        let first = self.state.ledger.group(grant.group).map(|group| group.first_start());
        grant.held_since.or(first.filter(|start| *start <= self.now))
    }

    fn is_shrink(&self, old: &Grant, intent: &Intent) -> bool {
        let windows = self.state.ledger.group(old.group).map(|group| &*group.windows);
        windows.is_some_and(|windows| shrink::is_shrink(&old.intent, windows, intent, &self.state.settings))
    }

    /// A revision that asks for nothing new is granted as it stands.
    fn shrink(&mut self, arrival: Arrival, key: IntentKey, intent: &Intent, old: &Grant) {
        let held_since = self.held_since(old);
        let crate::types::Start::At(start) = intent.start else { return };
        if let Err(refusal) = checks::of_duration(intent, start, held_since, &self.state.settings) {
            return self.reject(arrival, key, refusal.reason, refusal.field, true);
        }
        // A revision that was still to have its turn gives way to this one.
        self.state.book.take_undecided(old.record);
        self.state.arrivals += 1;
        let undecided = Undecided {
            intent: Arc::new(intent.clone()),
            arrival: arrival.at,
            arrival_number: self.state.arrivals,
            waits_from: arrival.at,
            revises: Some(old.token),
            held_since,
            told: None,
            withdrawn_for: None,
        };
        let line = self.enter_grant(old.record, &key, &undecided, start);
        self.settle(arrival, key, line);
    }

    fn release(&mut self, arrival: Arrival, key: IntentKey) {
        let verdict = if self.end_by_release(arrival, &key, None) {
            Verdict::Released { reason: None }
        } else {
            Verdict::ReleasedUnknown
        };
        self.answer(arrival, key, verdict);
    }

    /// Ends a grant at once and withdraws what is undecided; says whether there was anything.
    fn end_by_release(&mut self, arrival: Arrival, key: &IntentKey, reason: Option<String>) -> bool {
        let Some(no) = self.state.book.find(key) else { return false };
        self.state.book.detach_ended_grant(no, arrival.at, self.now);
        let undecided = self.state.book.take_undecided(no);
        let grant = self.state.book.in_force(no, arrival.at).map(|grant| grant.token);
        let grant = grant.and_then(|token| self.state.book.take_grant(token));
        if let Some(grant) = &grant {
            self.ended.released += 1;
            self.end_windows(grant, arrival.at);
            self.drop_left_of(key, arrival.at);
        }
        let is_revision = undecided.as_ref().is_some_and(|it| it.revises.is_some());
        let content = match (&grant, &undecided) {
            (Some(grant), _) => Some(grant.intent.clone()),
            (None, Some(undecided)) if !is_revision => Some(undecided.intent.clone()),
            _ => None,
        };
        if let Some(intent) = content {
            let line = Some(Verdict::Released { reason });
            self.state.book.remember(no, Ended { intent, at: self.now, line });
        }
        grant.is_some() || undecided.is_some()
    }

    fn renew(&mut self, arrival: Arrival, key: IntentKey, until: Time) {
        let no = self.state.book.find(&key);
        let Some(grant) = no.and_then(|no| self.state.book.in_force(no, arrival.at)).cloned() else {
            return self.answer(arrival, key, Verdict::RenewDenied(RenewDenial::Unknown));
        };
        let end = grant.end;
        match self.longer_windows(&grant, until) {
            Renewal::Denied => {
                let denial = RenewDenial::Kept { end, blockers: Vec::new() };
                self.answer(arrival, key, Verdict::RenewDenied(denial));
            }
            Renewal::Unchanged => self.answer(arrival, key, Verdict::Renewed { end }),
            Renewal::Asked(longer) => self.renew_windows(arrival, &grant, until, &longer),
        }
    }

    /// The grant's latest-ending claims with their windows until `until`.
    fn longer_windows(&self, grant: &Grant, until: Time) -> Renewal {
        if !grant.intent.hold {
            return Renewal::Denied;
        }
        if until <= grant.end {
            return Renewal::Unchanged;
        }
        let Some(group) = self.state.ledger.group(grant.group) else { return Renewal::Denied };
        let mut longer = Vec::new();
        for (claim, window) in group.windows.iter().enumerate().filter(|(_, it)| it.end() == grant.end) {
            let since = grant.held_since.unwrap_or(window.start());
            let max_hold = self.state.settings.max_hold(group.claims[claim].target.path());
            if max_hold.is_some_and(|most| until.since(since) > most) {
                return Renewal::Denied;
            }
            longer.extend(Window::new(window.start(), until).map(|window| (claim, window)));
        }
        let beyond = until > self.now.after(self.state.rules.horizon);
        if beyond { Renewal::Denied } else { Renewal::Asked(longer) }
    }

    fn renew_windows(&mut self, arrival: Arrival, grant: &Grant, until: Time, longer: &[(usize, Window)]) {
        let plan = Plan::new(grant.key.clone(), &grant.intent.claims, &self.state.settings);
        let conflicts = self.state.ledger.conflicts_of_renewal(&plan, longer, grant.end);
        if !conflicts.is_empty() {
            let blockers = self.state.ledger.blockers(&plan, &conflicts.pairs);
            let denial = RenewDenial::Kept { end: grant.end, blockers };
            return self.answer(arrival, grant.key.clone(), Verdict::RenewDenied(denial));
        }
        self.state.ledger.change(grant.group, |group| {
            longer.iter().for_each(|(claim, window)| group.windows[*claim] = *window);
        });
        self.state.book.set_end(grant.token, until);
        self.answer(arrival, grant.key.clone(), Verdict::Renewed { end: until });
    }

    /// Takes what earlier shrinks in this slot left of the intent out of everybody's way.
    fn drop_left_of(&mut self, key: &IntentKey, ended_at: Time) {
        for id in self.left.remove(key).into_iter().flatten() {
            self.end_group(id, ended_at);
        }
    }

    /// Ends a grant that was taken out of the book, at `ended_at`.
    pub(super) fn end_windows(&mut self, grant: &Grant, ended_at: Time) {
        self.end_group(grant.group, ended_at);
        self.note_held(grant);
    }

    /// Takes a group of granted windows out for good: those that had begun before `ended_at` are
    /// remembered as ended then, or at their own end where that came first.
    pub(super) fn end_group(&mut self, id: u64, ended_at: Time) {
        let Some(group) = self.state.ledger.remove(id) else { return };
        debug_assert!(matches!(group.kind, Kind::Granted(_) | Kind::Left(_)));
        for (claim, window) in group.claims.iter().zip(group.windows.iter()) {
            if let Some(had) = Window::new(window.start(), window.end().min(ended_at)) {
                self.state.ended_windows.note(&group.key, claim, had);
            }
        }
    }

    /// Remembers for the `fair` model how long a grant that ends in this slot was held.
    pub(super) fn note_held(&mut self, grant: &Grant) {
        let held = Window::new(grant.held_from(), grant.end.min(self.now));
        if let Some(held) = held {
            let from = self.now.before(self.state.rules.fair_window);
            self.state.ended_grants.note(&grant.key.agent, held, from);
        }
    }
}

/// What a renewal comes to before anybody else is looked at.
enum Renewal {
    Denied,
    Unchanged,
    Asked(Vec<(usize, Window)>),
}
