//! What came of agents' intents, counted from inputs and decisions.

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::{State, StoredInput};
use crate::limits;
use crate::resolver::AgentOp;
use crate::types::{Agent, Decision, IntentKey, Micros, Time, Verdict};

/// Of one agent, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Declarations and revisions, repeats left out.
    pub declared: u64,
    /// Grants, moves left out.
    pub granted: u64,
    /// Intents that were told to wait.
    pub waited: u64,
    /// Conflicts that were the end of an intent, and intents that were stale.
    pub conflicts: u64,
    /// Declarations refused on arrival.
    pub rejected: u64,
    /// Grants withdrawn for a higher class, and placed again in the same slot.
    pub moved: u64,
    /// Grants withdrawn for a higher class.
    pub revoked: u64,
    /// Renewals that were denied.
    pub denied: u64,
    /// From arrival to grant, all grants together.
    pub wait: Micros,
    /// The longest of those.
    pub longest_wait: Micros,
    /// Granted time: from each grant's start to its end, its release or its withdrawal, as far as the
    /// log goes.
    pub held: Micros,
}

impl Figures {
    /// The mean wait of a grant.
    pub fn mean_wait(&self) -> Option<Micros> {
        self.wait.as_us().checked_div(self.granted).map(Micros::from_us)
    }

    fn add(&mut self, other: &Figures) {
        self.declared += other.declared;
        self.granted += other.granted;
        self.waited += other.waited;
        self.conflicts += other.conflicts;
        self.rejected += other.rejected;
        self.moved += other.moved;
        self.revoked += other.revoked;
        self.denied += other.denied;
        self.wait = self.wait.plus(other.wait);
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.held = self.held.plus(other.held);
    }
}

/// An undecided intent.
#[derive(Clone, Copy, Debug)]
struct Pending {
    since: Time,
    was_told: bool,
}

/// Counts; see the module's documentation. It holds the figures of each agent, and what is in force and
/// undecided.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    agents: BTreeMap<Agent, Figures>,
    /// Of agents beyond [`limits::AUDIT_AGENTS`], together.
    others: Figures,
    pending: BTreeMap<IntentKey, Pending>,
    /// Grants in force, and when they end.
    grants: BTreeMap<IntentKey, (Time, Time)>,
    ends: BTreeSet<(Time, IntentKey)>,
}

impl Tally {
    /// Counts from `state` on. What is in force there is not counted as granted, but as granted time.
    pub fn new(state: &State) -> Self {
        let mut tally = Tally::default();
        for (key, standing) in state.image().standings() {
            if let Some(grant) = &standing.grant {
                tally.open(key, grant.start, grant.end);
            }
            if let Some(it) = &standing.undecided {
                let pending = Pending { since: it.waits_from, was_told: it.told.is_some() };
                tally.pending.insert(key.clone(), pending);
            }
        }
        tally
    }

    /// The figures of each agent.
    pub fn agents(&self) -> &BTreeMap<Agent, Figures> {
        &self.agents
    }

    /// All agents together.
    pub fn total(&self) -> Figures {
        let mut total = self.others;
        self.agents.values().for_each(|figures| total.add(figures));
        total
    }

    /// Jain's index of the agents' granted time: 1 where all had as much, 1/n where one of n had it all.
    /// Over the agents that declared something; `None` where nobody had any.
    pub fn fairness(&self) -> Option<f64> {
        let held = self.agents.values().filter(|it| it.declared > 0).map(|it| it.held.as_us() as f64);
        let (count, sum, squares) = held
            .fold((0.0, 0.0, 0.0), |(count, sum, squares), it| (count + 1.0, sum + it, squares + it * it));
        (squares > 0.0).then(|| sum * sum / (count * squares))
    }

    fn figures(&mut self, agent: &Agent) -> &mut Figures {
        if !self.agents.contains_key(agent) && self.agents.len() >= limits::AUDIT_AGENTS {
            return &mut self.others;
        }
        self.agents.entry(agent.clone()).or_default()
    }

    /// Counts a slot, decided at `at`.
    pub fn take(&mut self, at: Time, inputs: &[StoredInput], decisions: &[Decision]) {
        let mut answers: BTreeMap<usize, &Verdict> = BTreeMap::new();
        for decision in decisions {
            answers.extend(decision.answers.map(|input| (input, &decision.verdict)));
        }
        for (number, input) in inputs.iter().enumerate() {
            self.arrive(input, answers.get(&number).copied());
        }
        decisions.iter().for_each(|decision| self.decide(at, decision));
        // Last: a renewal that came in time may be decided after the end.
        self.end_until(at);
    }

    fn arrive(&mut self, input: &StoredInput, answer: Option<&Verdict>) {
        let StoredInput::Agent { at, agent, op } = input else { return };
        let is_declaration = matches!(op, AgentOp::Declare(_) | AgentOp::Revise(_) | AgentOp::Invalid { .. });
        match answer {
            Some(Verdict::Rejected { .. }) if is_declaration => {
                self.figures(agent).declared += 1;
                self.figures(agent).rejected += 1;
            }
            Some(Verdict::RenewDenied(_)) => self.figures(agent).denied += 1,
            None if is_declaration => {
                self.figures(agent).declared += 1;
                let key = IntentKey { agent: agent.clone(), id: op.id() };
                self.pending.insert(key, Pending { since: *at, was_told: false });
            }
            _ => {}
        }
    }

    fn decide(&mut self, at: Time, decision: &Decision) {
        let Decision { key, answers, verdict } = decision;
        match verdict {
            Verdict::Released { .. } => {
                self.close(key, at);
                self.pending.remove(key);
            }
            Verdict::Renewed { end } => {
                if let Some((start, _)) = self.grants.get(key).copied() {
                    self.open(key, start, *end);
                }
            }
            // A repeat, which is told the same again.
            _ if answers.is_some() => {}
            Verdict::Granted { start, end, .. } => self.grant(at, key, *start, *end),
            Verdict::Moved { start, end, .. } => {
                self.figures(&key.agent).moved += 1;
                self.close(key, at);
                self.open(key, *start, *end);
            }
            Verdict::Conflict(conflict) if !conflict.is_final => self.wait(key),
            Verdict::Conflict(_) | Verdict::Stale { .. } => {
                self.figures(&key.agent).conflicts += 1;
                self.pending.remove(key);
            }
            Verdict::Expired { .. } => self.close(key, at),
            Verdict::Revoked { waiting, .. } => {
                self.figures(&key.agent).revoked += 1;
                self.close(key, at);
                if *waiting {
                    self.pending.insert(key.clone(), Pending { since: at, was_told: true });
                }
            }
            Verdict::Rejected { .. } | Verdict::ReleasedUnknown | Verdict::RenewDenied(_) => {}
        }
    }

    fn grant(&mut self, at: Time, key: &IntentKey, start: Time, end: Time) {
        let waited = self.pending.remove(key).map_or(Micros::ZERO, |pending| at.since(pending.since));
        let figures = self.figures(&key.agent);
        figures.granted += 1;
        figures.wait = figures.wait.plus(waited);
        figures.longest_wait = figures.longest_wait.max(waited);
        self.close(key, at);
        self.open(key, start, end);
    }

    fn wait(&mut self, key: &IntentKey) {
        let Some(pending) = self.pending.get_mut(key) else { return };
        if !std::mem::replace(&mut pending.was_told, true) {
            self.figures(&key.agent).waited += 1;
        }
    }

    fn open(&mut self, key: &IntentKey, start: Time, end: Time) {
        if let Some((_, old)) = self.grants.insert(key.clone(), (start, end)) {
            self.ends.remove(&(old, key.clone()));
        }
        self.ends.insert((end, key.clone()));
    }

    fn close(&mut self, key: &IntentKey, at: Time) {
        let Some((start, end)) = self.grants.remove(key) else { return };
        self.ends.remove(&(end, key.clone()));
        let figures = self.figures(&key.agent);
        figures.held = figures.held.plus(end.min(at).since(start));
    }

    fn end_until(&mut self, at: Time) {
        while let Some((_, key)) = self.ends.first().filter(|(end, _)| *end <= at).cloned() {
            self.close(&key, at);
        }
    }

    /// Nothing more is counted: what is in force has been held until `at`.
    pub fn finish(&mut self, at: Time) {
        while let Some((_, key)) = self.ends.first().cloned() {
            self.close(&key, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{IntentId, Token};

    fn key(agent: &str) -> IntentKey {
        IntentKey { agent: Agent::new(agent).unwrap(), id: IntentId::new(1) }
    }

    fn decided(tally: &mut Tally, at: u64, agent: &str, verdict: Verdict) {
        let decision = Decision { key: key(agent), answers: None, verdict };
        tally.take(Time::from_us(at), &[], &[decision]);
    }

    fn granted(start: u64, end: u64) -> Verdict {
        let (start, end) = (Time::from_us(start), Time::from_us(end));
        Verdict::Granted { start, end, token: Token::new(1) }
    }

    #[test]
    fn granted_time_ends_with_the_grant_its_release_or_its_withdrawal() {
        let mut tally = Tally::default();
        decided(&mut tally, 10, "a", granted(10, 30));
        decided(&mut tally, 10, "b", granted(10, 30));
        decided(&mut tally, 20, "b", Verdict::Released { reason: None });
        decided(&mut tally, 20, "c", granted(50, 90));
        let revoked = Verdict::Revoked { by: key("a"), offer: None, waiting: false };
        decided(&mut tally, 40, "c", revoked);
        decided(&mut tally, 40, "d", granted(40, 90));
        tally.finish(Time::from_us(60));
        let held: Vec<u64> = tally.agents().values().map(|it| it.held.as_us()).collect();
        assert_eq!(held, [20, 10, 0, 20]);
        assert_eq!((tally.total().granted, tally.total().revoked), (4, 1));
    }

    #[test]
    fn fairness_is_one_among_equals_and_less_where_one_has_more() {
        let mut tally = Tally::default();
        for agent in ["a", "b"] {
            decided(&mut tally, 0, agent, granted(0, 10));
            tally.figures(&key(agent).agent).declared = 1;
        }
        let mut skewed = tally.clone();
        tally.finish(Time::from_us(10));
        assert_eq!(tally.fairness(), Some(1.0));
        decided(&mut skewed, 1, "b", Verdict::Released { reason: None });
        skewed.finish(Time::from_us(10));
        assert_eq!(skewed.fairness(), Some(121.0 / 202.0));
        assert_eq!(Tally::default().fairness(), None);
    }
}
