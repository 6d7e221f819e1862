//! What an agent's program does with its session: it declares, revises, releases, renews and drops what
//! it began, by chance, in a world that is small enough for agents to be in each other's way.

use std::collections::BTreeMap;

use super::dice::Dice;
use crate::session::agent::{AgentSession, Bounds, Draft, Event, Local, Loss, News, Reply};
use crate::types::{IntentId, Micros, RawClaim, RawExpect, RawIntent, RawMode, RawTarget, Time};

/// The rules of the world in which the agents of a simulation live: they follow `[slot]` and its length.
pub(super) const RULES: &str = "\
history = \"30s\"\n
[[resource]]\npath = \"pool\"\ncapacity = 4\n
[[resource]]\npath = \"pool/a\"\ncapacity = 3\n
[[resource]]\npath = \"yard/gate\"\nmax_hold = \"4s\"\n";

/// The paths of the world. What is written to a store is written to one of these.
pub(super) const PATHS: [&str; 7] =
    ["yard", "yard/dock/1", "yard/dock/2", "yard/dock", "yard/gate", "db/users/1", "db/users"];

/// What the program thinks of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It waits for the answer to this request.
    Asked(u64),
    /// It has waited for the answer long enough, and asks again, with the same content.
    Unknown,
    /// It has a grant, and gives it up at this reading of its clock.
    Held(u64),
    /// Its grant was withdrawn, and it waits for another.
    Waits,
}

/// An intent that the program has not done with.
#[derive(Clone, Debug)]
pub(super) struct Want {
    pub(super) draft: Draft,
    pub(super) state: State,
}

/// See the module's documentation.
pub(super) struct Work {
    dice: Dice,
    wants: BTreeMap<IntentId, Want>,
    /// The program is about to end: it asks for nothing new.
    pub(super) is_over: bool,
    /// How often it declares, in percent of its turns.
    busy: u64,
    pub(super) declared: u64,
}

impl Work {
    pub(super) fn new(dice: &mut Dice) -> Self {
        let mut dice = dice.fork();
        let busy = dice.within(20, 70);
        Work { dice, wants: BTreeMap::new(), is_over: false, busy, declared: 0 }
    }

    /// The intents that it has not done with.
    pub(super) fn ids(&self) -> impl Iterator<Item = &IntentId> {
        self.wants.keys()
    }

    /// Those without a final answer.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = (&IntentId, &State)> {
        let open = |want: &Want| !matches!(want.state, State::Held(_));
        self.wants.iter().filter(move |(_, want)| open(want)).map(|(id, want)| (id, &want.state))
    }

    /// How long until its next turn, in µs.
    pub(super) fn next_turn(&mut self) -> u64 {
        self.dice.within(20_000, 400_000)
    }

    /// One turn of the program. It does what it has to, and sometimes something else.
    pub(super) fn act(&mut self, session: &mut AgentSession, now: Local) {
        let Some(bounds) = session.clock().bounds(now).filter(|_| session.welcome().is_some()) else {
            return;
        };
        self.ask_again(session, now);
        self.give_up(session, now);
        if self.is_over {
            return;
        }
        if self.wants.len() < 6 && self.dice.percent(self.busy) {
            let draft = self.draft(bounds);
            self.declare(session, draft, now);
        }
        match self.dice.below(100) {
            0..10 => self.revise(session, bounds, now),
            10..18 => self.release_one(session),
            18..26 => self.renew_one(session, bounds),
            26..32 => self.drop_one(session),
            32..36 => self.wait_no_longer(session),
            _ => {}
        }
    }

    /// Gives all up, and takes its leave.
    pub(super) fn leave(&mut self, session: &mut AgentSession) {
        self.is_over = true;
        let held: Vec<IntentId> = self.wants.keys().filter(|id| session.stands(**id)).copied().collect();
        for id in held {
            let _ = session.release(id);
            self.wants.remove(&id);
        }
        session.leave();
    }

    /// Takes in what the session tells.
    pub(super) fn hear(&mut self, event: &Event) {
        match event {
            Event::Reply { request, id, reply } => self.answered(*request, *id, reply),
            Event::News(News::Granted { id, .. }) => self.set(*id, State::Held(0)),
            Event::News(News::GaveUp { id }) => drop(self.wants.remove(id)),
            Event::News(News::Lost { id, why, .. }) => self.lost(*id, why),
            _ => {}
        }
    }

    fn answered(&mut self, request: u64, id: IntentId, reply: &Reply) {
        let Some(want) = self.wants.get_mut(&id).filter(|want| want.state == State::Asked(request)) else {
            return;
        };
        match reply {
            Reply::Granted { .. } => want.state = State::Held(0),
            Reply::Unknown => want.state = State::Unknown,
            // Beside a revision that was refused the grant stays, which is lost like any other.
            Reply::Conflict { of, .. } if of.kept => want.state = State::Held(0),
            Reply::Stale { kept: true, .. } | Reply::Rejected { kept: true, .. } => {
                want.state = State::Held(0);
            }
            _ => drop(self.wants.remove(&id)),
        }
    }

    fn lost(&mut self, id: IntentId, why: &Loss) {
        let Some(want) = self.wants.get_mut(&id) else { return };
        match (why, &want.state) {
            // A revision of it is on its way, whose answer counts.
            (_, State::Asked(_) | State::Unknown) => {}
            (Loss::Revoked { waiting: true, .. }, _) => want.state = State::Waits,
            _ => drop(self.wants.remove(&id)),
        }
    }

    fn set(&mut self, id: IntentId, state: State) {
        if let Some(want) = self.wants.get_mut(&id) {
            want.state = state;
        }
    }

    fn ask_again(&mut self, session: &mut AgentSession, now: Local) {
        let unknown = self.wants.iter().filter(|(_, want)| want.state == State::Unknown);
        let again: Vec<Draft> = unknown.map(|(_, want)| want.draft.clone()).collect();
        for draft in again {
            self.declare(session, draft, now);
        }
    }

    fn give_up(&mut self, session: &mut AgentSession, now: Local) {
        let mut over = Vec::new();
        for (id, want) in &mut self.wants {
            let State::Held(until) = &mut want.state else { continue };
            if *until == 0 {
                *until = now.as_us() + self.dice.within(200_000, 8_000_000);
            }
            if *until <= now.as_us() && session.held(*id).is_some() {
                over.push(*id);
            }
        }
        over.into_iter().for_each(|id| self.release(session, id));
    }

    fn declare(&mut self, session: &mut AgentSession, draft: Draft, now: Local) {
        let id = IntentId::new(draft.intent.id);
        if let Ok(request) = session.declare(draft.clone(), now) {
            self.declared += 1;
            self.wants.insert(id, Want { draft, state: State::Asked(request) });
        }
    }

    fn one(&mut self, session: &AgentSession) -> Option<IntentId> {
        let held: Vec<IntentId> =
            self.wants.keys().filter(|id| session.held(**id).is_some()).copied().collect();
        (!held.is_empty()).then(|| *self.dice.pick(&held))
    }

    fn revise(&mut self, session: &mut AgentSession, bounds: Bounds, now: Local) {
        let Some(id) = self.one(session) else { return };
        let Some(want) = self.wants.get(&id).filter(|want| matches!(want.state, State::Held(_))) else {
            return;
        };
        let mut draft = want.draft.clone();
        draft.revision = true;
        draft.intent.expects.clear();
        draft.intent.wait = 0;
        if self.dice.percent(50) {
            draft.intent.start = Some(bounds.latest.as_us() + self.dice.below(1_000_000));
            draft.intent.slack = self.dice.below(300_000);
        }
        draft.intent.claims.iter_mut().for_each(|claim| claim.duration = claim.duration / 2 + 60_000);
        self.declare(session, draft, now);
    }

    fn release_one(&mut self, session: &mut AgentSession) {
        if let Some(id) = self.one(session) {
            self.release(session, id);
        }
    }

    fn release(&mut self, session: &mut AgentSession, id: IntentId) {
        // A revision on its way is withdrawn by it.
        self.wants.remove(&id);
        let _ = session.release(id);
    }

    fn renew_one(&mut self, session: &mut AgentSession, bounds: Bounds) {
        if let Some(id) = self.one(session) {
            let until = bounds.middle().after(Micros::from_us(self.dice.below(6_000_000)));
            let _ = session.renew(id, until);
        }
    }

    /// The program has waited for an answer as long as it wanted to.
    fn wait_no_longer(&mut self, session: &mut AgentSession) {
        let asked = self.wants.iter().find_map(|(id, want)| match want.state {
            State::Asked(request) if session.held(*id).is_none() => Some((*id, request)),
            _ => None,
        });
        let Some((id, request)) = asked else { return };
        if session.give_up(request) {
            self.set(id, State::Unknown);
        } else {
            self.wants.remove(&id);
        }
    }

    /// The program drops what it waits for.
    fn drop_one(&mut self, session: &mut AgentSession) {
        let asked = self.wants.iter().filter_map(|(id, want)| match want.state {
            State::Asked(request) if session.held(*id).is_none() => Some((*id, request)),
            _ => None,
        });
        let asked: Vec<(IntentId, u64)> = asked.collect();
        if !asked.is_empty() {
            let (id, request) = *self.dice.pick(&asked);
            session.abandon(request);
            self.wants.remove(&id);
        }
    }

    fn draft(&mut self, bounds: Bounds) -> Draft {
        let id = self.dice.draw();
        let hold = self.dice.percent(50);
        let claims: Vec<RawClaim> = (0..=self.dice.below(2)).map(|_| self.claim(hold)).collect();
        let mut intent = RawIntent {
            id,
            hold,
            class: self.dice.below(4),
            task: self.dice.below(2),
            urgency: self.dice.below(100) as f64 / 100.0,
            claims,
            ..RawIntent::default()
        };
        match self.dice.below(10) {
            0 | 1 => intent.expects = vec![self.expect(bounds.earliest)],
            2 | 3 => {
                intent.start = Some(bounds.latest.as_us() + self.dice.below(3_000_000));
                intent.slack = self.dice.below(1_000_000);
                intent.wait = self.dice.below(2_000_000);
            }
            _ => {
                intent.slack = self.dice.below(500_000);
                intent.wait = self.dice.below(4) * self.dice.below(1_500_000);
            }
        }
        Draft { intent, note: "sim".to_owned(), ..Draft::default() }
    }

    fn claim(&mut self, hold: bool) -> RawClaim {
        let duration =
            if hold { self.dice.within(1_000_000, 5_000_000) } else { self.dice.within(50_000, 4_000_000) };
        let offset = if self.dice.percent(20) { self.dice.below(200_000) } else { 0 };
        let (target, mode) = match self.dice.below(10) {
            0 | 1 => {
                let path = *self.dice.pick(&["pool/a", "pool/b"]);
                (RawTarget::Path(path.to_owned()), RawMode::Units(self.dice.within(1, 2)))
            }
            2 => {
                let (x, y) = (self.dice.below(6) as f64, self.dice.below(6) as f64);
                let target =
                    RawTarget::Box { frame: "map".to_owned(), min: vec![x, y], max: vec![x + 2.0, y + 2.0] };
                (target, RawMode::Exclusive)
            }
            _ => {
                let path = *self.dice.pick(&PATHS);
                let mode = if self.dice.percent(25) { RawMode::Shared } else { RawMode::Exclusive };
                (RawTarget::Path(path.to_owned()), mode)
            }
        };
        RawClaim { target, mode, offset, duration }
    }

    fn expect(&mut self, read_at: Time) -> RawExpect {
        let path = (*self.dice.pick(&PATHS)).to_owned();
        RawExpect { path, as_of: read_at.before(Micros::from_us(self.dice.below(100_000))).as_us() }
    }
}
