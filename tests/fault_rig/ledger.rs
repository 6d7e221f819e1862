//! What agents said, in the one order in which it was heard, and the store that they write to, which
//! refuses the writer whose fence is not the highest that it has seen. A process that is killed loses
//! nothing of what it said before; the next of its name is told here what was left open.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Dice;
use super::words::{Ask, Event, Order, Refused, Reply, Said};

#[derive(Clone, Debug)]
pub(super) struct Ledger(Arc<Mutex<Book>>);

/// An agent's name and an intent's id.
pub(super) type Key = (String, u64);

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) cases: BTreeMap<Key, Case>,
    pub(super) stays: Vec<Stay>,
    /// The highest fence that each resource's store has seen.
    gates: BTreeMap<u64, Order>,
    /// Declared to decided, in µs, as agents saw it: of those that may not wait, and of all.
    pub(super) took_at_once: Vec<u64>,
    pub(super) took: Vec<u64>,
    pub(super) events: BTreeMap<Event, u64>,
    pub(super) grants: u64,
    pub(super) unknown: u64,
    pub(super) unsent: u64,
    pub(super) writes: u64,
    pub(super) late_writes: u64,
    pub(super) lost: BTreeMap<String, u64>,
    pub(super) connects_failed: BTreeMap<String, u64>,
    /// Agents' own reasons to end before they were told to.
    pub(super) gone: Vec<String>,
    /// Orderly ends.
    pub(super) byes: u64,
    /// Written by the one, and then by another that came before it.
    pub(super) breaches: Vec<String>,
    /// Processes that may still be heard of.
    speaking: BTreeSet<(String, u64)>,
    is_stopping: bool,
    instants: u64,
    seed: u64,
}

/// One intent of one agent.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) ask: Ask,
    /// Processes of its name that asked.
    pub(super) lives: Vec<u64>,
    pub(super) tokens: Vec<u64>,
    pub(super) refused: Vec<Refused>,
    /// Released, or lost.
    is_over: bool,
    /// What was left open by a process that was killed is not always taken up again.
    is_forgotten: bool,
}

/// For how long an agent is known to have been sure that it held something: its `check()` was good
/// before the first instant and after the last, so the grant was in hand at all between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    pub(super) agent: String,
    pub(super) id: u64,
    pub(super) resource: u64,
    pub(super) fence: Order,
    /// Instants are counted, and no two are the same.
    pub(super) first: u64,
    pub(super) last: u64,
    /// The last write, of which nobody knows yet whether the grant was in hand.
    unproven: Option<u64>,
}

impl Ledger {
    /// Hears nobody.
    pub(super) fn silent() -> Self {
        Ledger(Arc::new(Mutex::new(Book::default())))
    }

    /// Listens at `socket` for agents' processes.
    pub(super) fn open(socket: &Path, seed: u64) -> Self {
        let ledger = Ledger::silent();
        ledger.book().seed = seed;
        let listener = UnixListener::bind(socket).unwrap();
        let shared = ledger.clone();
        // Both threads end with the program; they hold nothing but this.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let ledger = shared.clone();
                std::thread::spawn(move || ledger.listen(stream));
            }
        });
        ledger
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No new declarations from here on.
    pub(super) fn stop(&self) {
        self.book().is_stopping = true;
    }

    pub(super) fn grants(&self) -> u64 {
        self.book().grants
    }

    /// Whether there may be more to hear from that process, dead or alive.
    pub(super) fn hears(&self, agent: &str, life: u64) -> bool {
        self.book().speaking.contains(&(agent.to_owned(), life))
    }

    /// Whether the agent is in the middle of a visit.
    pub(super) fn is_at_work(&self, agent: &str) -> bool {
        let book = self.book();
        let last = book.stays.iter().rev().find(|stay| stay.agent == agent);
        last.and_then(|stay| book.cases.get(&(agent.to_owned(), stay.id))).is_some_and(|case| !case.is_over)
    }

    fn listen(&self, stream: UnixStream) {
        let mut agent = None;
        self.listen_to(stream, &mut agent);
        if let Some(agent) = agent {
            self.book().speaking.remove(&agent);
        }
    }

    fn listen_to(&self, stream: UnixStream, agent: &mut Option<(String, u64)>) {
        let mut writer = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // A process that was killed in the middle of a line.
            let Ok(said) = serde_json::from_str::<Said>(&line) else { return };
            if let Said::Hello { name, life } = &said {
                *agent = Some((name.clone(), *life));
                self.book().speaking.insert((name.clone(), *life));
            }
            let Some((name, life)) = &agent else { return };
            let reply = self.book().hear(name, *life, said);
            let mut answer = serde_json::to_string(&reply).unwrap();
            answer.push('\n');
            if writer.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

impl Book {
    pub(super) fn hear(&mut self, agent: &str, life: u64, said: Said) -> Reply {
        self.instants += 1;
        let (mut accepted, mut open) = (true, Vec::new());
        match said {
            Said::Hello { .. } => open = self.open_of(agent, life),
            Said::Next => {}
            Said::Declared(ask) => {
                let case = Case::new(ask, life);
                self.cases.insert((agent.into(), ask.id), case);
            }
            Said::Granted { id, token, took_us } => {
                self.grants += 1;
                self.decided(agent, id, took_us);
                self.change(agent, id, |case| case.tokens.push(token));
            }
            Said::Refused { id, what, took_us } => {
                self.decided(agent, id, took_us);
                self.change(agent, id, |case| case.refused.push(what));
            }
            Said::Enter { id, fence } => accepted = self.write(agent, id, fence, true),
            Said::Write { id, fence } => accepted = self.write(agent, id, fence, false),
            Said::Held { id } => self.was_held(agent, id),
            Said::Lost { id, why } => {
                let why = why.split([' ', '{']).next().unwrap_or_default().to_owned();
                *self.lost.entry(why).or_default() += 1;
                self.change(agent, id, |case| case.is_over = true);
            }
            Said::Released { id, .. } => self.change(agent, id, |case| case.is_over = true),
            Said::Unknown { .. } | Said::ReleaseUnknown { .. } => self.unknown += 1,
            Said::Unsent { .. } => self.unsent += 1,
            Said::ConnectFailed { why } => *self.connects_failed.entry(why).or_default() += 1,
            Said::Event { what } => *self.events.entry(what).or_default() += 1,
            Said::Gone { why } => self.gone.push(format!("{agent}: {why}")),
            Said::Bye => self.byes += 1,
        }
        Reply { accepted, stop: self.is_stopping, open }
    }

    fn change(&mut self, agent: &str, id: u64, change: impl FnOnce(&mut Case)) {
        match self.cases.get_mut(&(agent.to_owned(), id)) {
            Some(case) => change(case),
            None => self.breaches.push(format!("{agent} speaks of an intent {id} that it never declared")),
        }
    }

    fn decided(&mut self, agent: &str, id: u64, took_us: Option<u64>) {
        let Some(took) = took_us else { return };
        self.took.push(took);
        if self.cases.get(&(agent.to_owned(), id)).is_some_and(|case| case.ask.wait_ms == 0) {
            self.took_at_once.push(took);
        }
    }

    /// What earlier processes of this name left undecided, and half of what they left granted: the other
    /// half is left to run out.
    fn open_of(&mut self, agent: &str, life: u64) -> Vec<Ask> {
        let mut dice = Dice(self.seed ^ life);
        let cases = self.cases.iter_mut().filter(|((name, _), _)| name == agent).map(|(_, case)| case);
        let mut open = Vec::new();
        for case in cases.filter(|case| case.is_open()) {
            if case.tokens.is_empty() || dice.below(2) == 0 {
                case.lives.push(life);
                open.push(case.ask);
            } else {
                case.is_forgotten = true;
            }
        }
        open
    }

    /// A write at the guarded store, which the store itself knows to be in order or not.
    fn write(&mut self, agent: &str, id: u64, fence: Order, is_first: bool) -> bool {
        let now = self.instants;
        let Some(case) = self.cases.get(&(agent.to_owned(), id)) else { return false };
        let resource = case.ask.resource;
        let highest = self.gates.entry(resource).or_default();
        if fence < *highest {
            self.late_writes += 1;
            return false;
        }
        *highest = fence;
        self.writes += 1;
        if is_first {
            let agent = agent.to_owned();
            self.stays.push(Stay { agent, id, resource, fence, first: now, last: 0, unproven: Some(now) });
        } else if let Some(stay) = self.stay(agent, id) {
            stay.unproven = Some(now);
        }
        true
    }

    fn was_held(&mut self, agent: &str, id: u64) {
        if let Some(stay) = self.stay(agent, id)
            && let Some(proven) = stay.unproven.take()
        {
            stay.last = proven;
        }
    }

    fn stay(&mut self, agent: &str, id: u64) -> Option<&mut Stay> {
        self.stays.iter_mut().rev().find(|stay| stay.agent == agent && stay.id == id)
    }
}

impl Case {
    fn new(ask: Ask, life: u64) -> Self {
        let (lives, tokens, refused) = (vec![life], Vec::new(), Vec::new());
        Case { ask, lives, tokens, refused, is_over: false, is_forgotten: false }
    }

    fn is_open(&self) -> bool {
        !self.is_over && !self.is_forgotten && self.refused.is_empty()
    }
}

impl Stay {
    /// Whether the agent surely held it at all.
    pub(super) fn is_proven(&self) -> bool {
        self.last >= self.first
    }
}
