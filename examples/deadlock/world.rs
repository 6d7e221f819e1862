//! What is worked with, and what is counted: rings, turns, and a valve.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::story::{Dice, Figures, jain};

/// How long an agent works with what it has.
const WORK: Duration = Duration::from_millis(15);
pub(crate) async fn work() {
    tokio::time::sleep(WORK).await;
}

/// A value that several tasks add to.
#[derive(Debug, Default)]
struct Shared<T>(Mutex<T>);

impl<T> Shared<T> {
    // A panic under the lock leaves a count that is one short, and fails the run anyway.
    fn with<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What came of agents that each held one thing and wanted the next one's.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    told: Shared<Figures>,
    timed_out: AtomicU64,
    rounds: Shared<Figures>,
}

impl Ring {
    /// An agent was told of the ring so long after it had asked.
    pub(crate) fn told(&self, after: Duration) {
        self.told.with(|told| told.add_ms(after));
    }

    /// An agent gave up without knowing why it had waited.
    pub(crate) fn timed_out(&self) {
        self.timed_out.fetch_add(1, Relaxed);
    }

    /// All agents have had both things.
    pub(crate) fn round(&self, took: Duration) {
        self.rounds.with(|rounds| rounds.add_ms(took));
    }

    pub(crate) fn times_told(&self) -> usize {
        self.told.with(|told| told.count())
    }

    pub(crate) fn time_outs(&self) -> u64 {
        self.timed_out.load(Relaxed)
    }

    /// How long until they were told, in ms, and how long each round took.
    pub(crate) fn figures(&self) -> (Figures, Figures) {
        (self.told.with(|told| told.clone()), self.rounds.with(|rounds| rounds.clone()))
    }
}

/// Turns at resources of which there are fewer than agents.
#[derive(Debug)]
pub(crate) struct Turns {
    left: AtomicI64,
    taken: Shared<Vec<u64>>,
    waits: Shared<Figures>,
    dice: Shared<Vec<Dice>>,
}

impl Turns {
    pub(crate) fn new(agents: usize, turns: u64, seed: u64) -> Self {
        let dice = (0..agents as u64).map(|agent| Dice::new(seed.wrapping_add(agent))).collect();
        Turns {
            left: AtomicI64::new(turns.try_into().unwrap_or(i64::MAX)),
            taken: Shared(Mutex::new(vec![0; agents])),
            waits: Shared::default(),
            dice: Shared(Mutex::new(dice)),
        }
    }

    pub(crate) fn are_left(&self) -> bool {
        self.left.load(Relaxed) > 0
    }

    /// The agent has its turn, after such a wait.
    pub(crate) fn taken(&self, agent: usize, waited: Duration) {
        self.left.fetch_sub(1, Relaxed);
        self.taken.with(|taken| taken[agent] += 1);
        self.waited(waited);
    }

    /// The agent waited so long, be it for a turn or in vain.
    pub(crate) fn waited(&self, waited: Duration) {
        self.waits.with(|waits| waits.add_ms(waited));
    }

    /// A time of up to `most`, from the agent's own dice.
    pub(crate) fn up_to(&self, agent: usize, most: Duration) -> Duration {
        self.dice.with(|dice| dice[agent].up_to(most))
    }

    pub(crate) fn shares(&self) -> Vec<u64> {
        self.taken.with(|taken| taken.clone())
    }

    pub(crate) fn fairness(&self) -> f64 {
        jain(&self.shares().into_iter().map(|turns| turns as f64).collect::<Vec<_>>())
    }

    pub(crate) fn waits(&self) -> Figures {
        self.waits.with(|waits| waits.clone())
    }
}

/// One of two actions on a valve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action {
    pub(crate) who: &'static str,
    pub(crate) percent: i64,
    pub(crate) urgency: f64,
    pub(crate) takes_effect: Duration,
}

/// The room is cold, and the boiler is too hot: each is right on what it sees.
pub(crate) const ACTIONS: [Action; 2] = [
    Action { who: "heating", percent: 20, urgency: 0.3, takes_effect: Duration::from_millis(200) },
    Action { who: "safety", percent: -30, urgency: 0.9, takes_effect: Duration::from_millis(200) },
];

impl Action {
    pub(crate) fn what(&self) -> String {
        format!("{:+} %", self.percent)
    }
}

/// A valve, open by so many per cent, and how many actions are in effect at once.
#[derive(Debug)]
pub(crate) struct Valve {
    open: AtomicI64,
    acting: AtomicI64,
    most_acting: AtomicI64,
}

impl Valve {
    pub(crate) fn new() -> Self {
        Valve { open: AtomicI64::new(100), acting: AtomicI64::new(0), most_acting: AtomicI64::new(0) }
    }

    pub(crate) fn open(&self) -> i64 {
        self.open.load(Relaxed)
    }

    pub(crate) fn set(&self, percent: i64) {
        self.open.store(percent, Relaxed);
    }

    /// Whether two actions were ever in effect at one time.
    pub(crate) fn was_contended(&self) -> bool {
        self.most_acting.load(Relaxed) > 1
    }

    /// The valve takes each change as it comes, and lets it take effect.
    pub(crate) async fn change(&self, action: &Action) {
        let _acting = Acting::new(self);
        self.open.fetch_add(action.percent, Relaxed);
        tokio::time::sleep(action.takes_effect / 10).await;
    }
}

/// An action while it is in effect.
pub(crate) struct Acting<'a>(&'a Valve);

impl<'a> Acting<'a> {
    pub(crate) fn new(valve: &'a Valve) -> Self {
        let acting = valve.acting.fetch_add(1, Relaxed) + 1;
        valve.most_acting.fetch_max(acting, Relaxed);
        Acting(valve)
    }
}

impl Drop for Acting<'_> {
    fn drop(&mut self) {
        self.0.acting.fetch_sub(1, Relaxed);
    }
}
