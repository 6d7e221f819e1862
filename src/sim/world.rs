//! What happens, one thing after the other: the events of a simulation, in the order of true time.

use std::collections::{BTreeMap, VecDeque};

use super::agent::{Condition, Process};
use super::dice::Dice;
use super::invariant::{self, Happened, Invariant, View};
use super::ledger::Ledger;
use super::network::{Link, To};
use super::server::Server;
use super::trace::Trace;
use crate::types::{Agent, Fence, Micros};
use crate::wire::CloseCode;

/// What is to happen.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    /// The next of what is under way on a link arrives.
    Arrival(usize, To),
    /// A process tries to connect.
    Attempt(usize),
    /// The handshake of a link reaches the coordinator.
    Request(usize),
    /// It is answered.
    Established(usize),
    /// The agent waits no longer for that.
    AttemptOver(usize),
    /// Both sides of a link look whether the other is still there.
    Heartbeat(usize),
    /// The timer of a session.
    Alarm(usize),
    /// A turn of a program.
    Turn(usize),
    /// A process may begin to believe something.
    Belief(usize),
    /// A process that was stopped goes on.
    Resume(usize),
    /// The timer of the coordinator.
    Slots,
    /// A coordinator is started.
    Start,
    /// Something goes wrong.
    Fault,
    /// A write arrives at the store.
    Write(usize, &'static str, Fence),
    /// A process of that name starts.
    Spawn(usize),
}

/// Something that is under way.
#[derive(Debug)]
pub(super) enum Payload {
    Bytes(Vec<u8>),
    Closed(CloseCode),
}

/// What was found to be wrong.
pub(super) struct Broken {
    /// When it was found.
    pub(super) at: u64,
    pub(super) invariant: String,
    pub(super) why: String,
}

/// See the module's documentation.
pub(super) struct World {
    /// True time.
    pub(super) at: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    pub(super) dice: Dice,
    pub(super) trace: Trace,
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) server: Server,
    pub(super) names: Vec<Agent>,
    pub(super) agents: Vec<Process>,
    pub(super) links: Vec<Link>,
    pub(super) under_way: Vec<[VecDeque<Payload>; 2]>,
    pub(super) ledger: Ledger,
    invariants: Vec<Box<dyn Invariant>>,
    pub(super) broken: Option<Broken>,
    /// No fault happens any more.
    pub(super) is_calm: bool,
    /// How long until the next fault, at most.
    pub(super) fault_every: u64,
}

impl World {
    pub(super) fn new(seed: u64, slot: Micros, told: usize) -> Result<Self, String> {
        let mut dice = Dice::new(seed);
        let server = Server::new(&mut dice, slot)?;
        let count = dice.within(3, 6);
        let name = |number| Agent::new(&format!("agent-{number}")).ok_or("a name");
        let names = (0..count).map(name).collect::<Result<Vec<Agent>, _>>()?;
        let fault_every = dice.within(400_000, 4_000_000);
        let mut world = World {
            at: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            dice,
            trace: Trace::new(told),
            counts: BTreeMap::new(),
            server,
            names,
            agents: Vec::new(),
            links: Vec::new(),
            under_way: Vec::new(),
            ledger: Ledger::default(),
            invariants: invariant::all(),
            broken: None,
            is_calm: false,
            fault_every,
        };
        world.later(0, Happening::Start);
        for name in 0..world.names.len() {
            let after = world.dice.within(1_000, 300_000);
            world.later(after, Happening::Spawn(name));
        }
        let first = world.dice.within(1_000_000, 3_000_000);
        world.later(first, Happening::Fault);
        Ok(world)
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// `happening` happens at `at`, after what was planned for then already.
    pub(super) fn plan(&mut self, at: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at.max(self.at), self.sequence), happening);
    }

    pub(super) fn later(&mut self, after: u64, happening: Happening) {
        self.plan(self.at + after, happening);
    }

    /// Lets everything happen up to the true time `until`, or until something is wrong.
    pub(super) fn run_until(&mut self, until: u64) {
        while self.broken.is_none()
            && let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= until)
        {
            let ((at, _), happening) = entry.remove_entry();
            self.at = at;
            self.happen(happening);
        }
        self.at = self.at.max(until);
    }

    fn happen(&mut self, happening: Happening) {
        let at = self.at;
        if !matches!(happening, Happening::Arrival(..)) {
            let words = format!("{happening:?}");
            self.trace.note(at, 0, words.as_bytes(), || words.clone());
        }
        match happening {
            Happening::Arrival(link, To::Coordinator) => self.arrives_at_coordinator(link),
            Happening::Arrival(link, To::Agent) => self.arrives_at_agent(link),
            Happening::Attempt(process) => self.attempt(process),
            Happening::Request(link) => self.requested(link),
            Happening::Established(link) => self.established(link),
            Happening::AttemptOver(link) => self.attempt_over(link),
            Happening::Heartbeat(link) => self.heartbeat(link),
            Happening::Alarm(process) => self.alarm(process),
            Happening::Turn(process) => self.turn(process),
            Happening::Belief(process) => self.belief_begins(process),
            Happening::Resume(process) => self.resume(process),
            Happening::Slots => self.slots(),
            Happening::Start => self.start_coordinator(),
            Happening::Fault => self.fault(),
            Happening::Write(process, path, fence) => {
                self.count("writes");
                self.look(&Happened::Wrote { process, path, fence });
            }
            Happening::Spawn(name) => self.spawn(name),
        }
    }

    /// Has every invariant look at what happened.
    pub(super) fn look(&mut self, happened: &Happened<'_>) {
        if self.broken.is_some() {
            return;
        }
        let view = View {
            at: self.at,
            time: self.server.time(self.at),
            ledger: &self.ledger,
            agents: &self.agents,
            server: &self.server,
        };
        for invariant in &mut self.invariants {
            if let Err(why) = invariant.look(happened, &view) {
                self.broken = Some(Broken { at: self.at, invariant: invariant.name().to_owned(), why });
                return;
            }
        }
    }

    pub(super) fn is_wrong(&mut self, invariant: &str, why: String) {
        self.broken.get_or_insert(Broken { at: self.at, invariant: invariant.to_owned(), why });
    }

    fn spawn(&mut self, name: usize) {
        let process = Process::new(&self.names[name].clone(), self.at, &mut self.dice);
        self.agents.push(process);
        if let Some(process) = self.agents.last_mut() {
            process.work.is_over = self.is_calm;
        }
        let number = self.agents.len() - 1;
        self.later(0, Happening::Attempt(number));
        self.later(50_000, Happening::Turn(number));
    }

    /// True where a process does nothing now; what was to happen to it does when it goes on again.
    pub(super) fn waits(&mut self, process: usize, happening: Happening) -> bool {
        match self.agents[process].condition {
            Condition::Runs => false,
            Condition::Dead => true,
            Condition::Stopped { until } => {
                self.plan(until + 1, happening);
                true
            }
        }
    }
}
