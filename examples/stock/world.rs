//! Who comes to buy and how that goes, and the line between the regions; all of it from a seed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Failure;
use super::story::{Dice, Options};

pub(crate) const REGIONS: [&str; 2] = ["north", "south"];

/// How much there is, and how much is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    /// Units in the north and in the south.
    pub(crate) pools: [u64; 2],
    /// Agents in each region.
    pub(crate) agents: usize,
    pub(crate) shoppers: u64,
    /// Of a hundred shoppers so many are from the north: of the first half, and of the second.
    pub(crate) northern: [u64; 2],
    /// From one shopper to the next.
    pub(crate) apart: Duration,
    /// How long a unit is reserved.
    pub(crate) reservation: Duration,
    /// After how long the lock expires, which is too short for some.
    pub(crate) lock_expires: Duration,
    /// How long an agent waits for the other region.
    pub(crate) confirm_within: Duration,
    /// With which confirmation the line between the regions falls silent for a while.
    pub(crate) silent_at: u64,
    /// Of a hundred sales so many kill their agent, and as many stall it.
    pub(crate) mishaps: u64,
    pub(crate) seed: u64,
}

pub(crate) const KEYS: [&str; 11] = [
    "north",
    "south",
    "agents",
    "shoppers",
    "apart-ms",
    "reserve-ms",
    "lock-ms",
    "confirm-ms",
    "silent-at",
    "mishaps",
    "seed",
];

impl Scale {
    pub(crate) fn read(options: &Options) -> Result<Self, Failure> {
        let times = if options.has("full") { 5 } else { 1 };
        let ms = |key, otherwise| Duration::from_millis(options.number(key, otherwise));
        let pools = [options.number("north", 100 * times), options.number("south", 80 * times)];
        let scale = Scale {
            pools,
            agents: usize::try_from(options.number("agents", 8))?,
            shoppers: options.number("shoppers", (pools[0] + pools[1]) * 5 / 3),
            // At first most are from the north, later most are from the south.
            northern: [70, 40],
            apart: ms("apart-ms", 10),
            reservation: ms("reserve-ms", 1000),
            lock_expires: ms("lock-ms", 40),
            confirm_within: ms("confirm-ms", 80),
            silent_at: options.number("silent-at", 6),
            mishaps: options.number("mishaps", 3),
            seed: options.number("seed", 1),
        };
        let fits = scale.agents.clamp(1, 256) == scale.agents && scale.shoppers <= 100_000;
        if fits { Ok(scale) } else { Err("1 to 256 agents a region, and up to 100,000 shoppers".into()) }
    }
}

/// What comes of a shopper who has found a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pays,
    ChangesMind,
    /// The agent that serves this shopper dies while the shopper pays.
    KillsAgent,
    /// The agent is stopped as a whole after the payment, past all that it held, and goes on.
    StallsAgent,
}

/// How a payment went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paid {
    Yes,
    ChangedMind,
    Died,
}

#[derive(Clone, Debug)]
pub(crate) struct Shopper {
    pub(crate) region: usize,
    /// After the beginning.
    pub(crate) comes: Duration,
    pays_in: Duration,
    fate: Fate,
    stalls_for: Duration,
}

impl Shopper {
    fn nth(number: u64, scale: &Scale) -> Self {
        let mut dice = Dice::new(scale.seed.wrapping_mul(1 << 20).wrapping_add(number));
        let northern = scale.northern[usize::from(number >= scale.shoppers / 2)];
        let region = usize::from(dice.below(100) >= northern);
        let fate = match dice.below(100) {
            lot if lot < scale.mishaps => Fate::KillsAgent,
            lot if lot < 2 * scale.mishaps => Fate::StallsAgent,
            lot if lot < 2 * scale.mishaps + 8 => Fate::ChangesMind,
            _ => Fate::Pays,
        };
        let pays_in = Duration::from_millis(5) + dice.exponential(Duration::from_millis(20));
        let comes = scale.apart.saturating_mul(number.try_into().unwrap_or(u32::MAX));
        let stalls_for = scale.reservation + Duration::from_millis(100);
        Shopper { region, comes, pays_in: pays_in.min(Duration::from_millis(100)), fate, stalls_for }
    }

    /// Enters a card number, and what may happen meanwhile.
    pub(crate) async fn pays(&self) -> Paid {
        sleep(self.pays_in).await;
        match self.fate {
            Fate::Pays | Fate::StallsAgent => Paid::Yes,
            Fate::ChangesMind => Paid::ChangedMind,
            Fate::KillsAgent => Paid::Died,
        }
    }

    /// Where the agent is stopped as a whole, nothing in it notices: here a wait that nothing ends.
    pub(crate) async fn stalls(&self) {
        if self.fate == Fate::StallsAgent {
            sleep(self.stalls_for).await;
        }
    }
}

/// The shoppers of each region who have not been served.
#[derive(Debug)]
pub(crate) struct Queues {
    of_region: [Mutex<VecDeque<Shopper>>; 2],
    pub(crate) begin: Instant,
}

impl Queues {
    pub(crate) fn new(scale: &Scale) -> Self {
        let all = || (0..scale.shoppers).map(|number| Shopper::nth(number, scale));
        let of_region = [0, 1].map(|region| Mutex::new(all().filter(|it| it.region == region).collect()));
        Queues { of_region, begin: Instant::now() }
    }

    /// The region's next shopper, once that one comes.
    pub(crate) async fn next(&self, region: usize) -> Option<Shopper> {
        let next = self.of_region[region].lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        tokio::time::sleep_until((self.begin + next.comes).into()).await;
        Some(next)
    }
}

/// The line between the regions, over which a transfer is confirmed. It falls silent once, for a while.
#[derive(Debug)]
pub(crate) struct Link(Mutex<LinkState>);

#[derive(Debug)]
struct LinkState {
    confirmations: u64,
    silent_at: u64,
    silent_until: Option<Instant>,
    dice: Dice,
}

const SILENT_FOR: Duration = Duration::from_millis(300);

impl Link {
    pub(crate) fn new(scale: &Scale) -> Self {
        let (silent_at, dice) = (scale.silent_at, Dice::new(scale.seed));
        Link(Mutex::new(LinkState { confirmations: 0, silent_at, silent_until: None, dice }))
    }

    /// Comes back once the other region has confirmed; while the line is silent, never.
    pub(crate) async fn confirm(&self) {
        match self.takes() {
            Some(long) => sleep(long).await,
            None => std::future::pending().await,
        }
    }

    fn takes(&self) -> Option<Duration> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.confirmations += 1;
        if state.confirmations == state.silent_at {
            state.silent_until = Some(Instant::now() + SILENT_FOR);
        }
        let is_silent = state.silent_until.is_some_and(|until| Instant::now() < until);
        let long = Duration::from_millis(5) + state.dice.up_to(Duration::from_millis(10));
        (!is_silent).then_some(long)
    }
}
