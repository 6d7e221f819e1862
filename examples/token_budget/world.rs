//! What is spent and called: a model whose calls cost what they cost, a provider with a rate limit, and the books
//! that people keep without a coordinator.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::story::Dice;

/// A minute of the provider: 1 ms stands for 100 ms.
pub(crate) const MINUTE: Duration = Duration::from_millis(600);

/// What there is to share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Tokens in a period.
    pub(crate) budget: u64,
    /// Cents in a period.
    pub(crate) cap_cents: u64,
    /// The provider's calls a minute.
    pub(crate) calls: u64,
    /// The provider's tokens a minute.
    pub(crate) tokens: u64,
}

/// A language model: it answers in 5 to 15 ms, and in as many tokens as it likes up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Model {
    spent: Mutex<(u64, usize)>,
}

impl Model {
    pub(crate) async fn answer(&self, most: u64, dice: &mut Dice) -> u64 {
        sleep(Duration::from_millis(5) + dice.up_to(Duration::from_millis(10))).await;
        // Half of what was allowed, mostly: who asks never knows.
        let tokens = (most / 5 + dice.below(most * 3 / 5)).clamp(1, most);
        let mut spent = locked(&self.spent);
        *spent = (spent.0 + tokens, spent.1 + 1);
        tokens
    }

    /// Tokens and calls, as the invoice will say.
    pub(crate) fn invoice(&self) -> (u64, usize) {
        *locked(&self.spent)
    }
}

/// A number in a place that all can read and write, and nothing more.
#[derive(Debug, Default)]
pub(crate) struct Book(Mutex<u64>);

impl Book {
    pub(crate) fn read(&self) -> u64 {
        *locked(&self.0)
    }

    pub(crate) fn write(&self, number: u64) {
        *locked(&self.0) = number;
    }

    /// Adds in one step, as a good database does.
    pub(crate) fn add(&self, number: u64) {
        *locked(&self.0) += number;
    }
}

/// It takes so many calls and tokens within any minute, and refuses more (HTTP status 429).
#[derive(Debug)]
pub(crate) struct Provider {
    limits: Limits,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    within_a_minute: VecDeque<(Instant, u64)>,
    taken: Vec<Instant>,
    refused: usize,
}

/// Status 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Provider {
    pub(crate) fn new(limits: Limits) -> Self {
        Provider { limits, seen: Mutex::default() }
    }

    pub(crate) fn call(&self, tokens: u64) -> Result<(), TooMany> {
        let mut seen = locked(&self.seen);
        let now = Instant::now();
        while seen.within_a_minute.front().is_some_and(|(at, _)| *at + MINUTE <= now) {
            seen.within_a_minute.pop_front();
        }
        let used: u64 = seen.within_a_minute.iter().map(|(_, tokens)| tokens).sum();
        let calls = seen.within_a_minute.len() as u64;
        if calls >= self.limits.calls || used + tokens > self.limits.tokens {
            seen.refused += 1;
            return Err(TooMany);
        }
        seen.within_a_minute.push_back((now, tokens));
        seen.taken.push(now);
        Ok(())
    }

    /// How many it refused, and when it took each of the others.
    pub(crate) fn seen(&self) -> (usize, Vec<Instant>) {
        let seen = locked(&self.seen);
        (seen.refused, seen.taken.clone())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whole at each step, whoever panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
