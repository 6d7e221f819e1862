//! The same without preclaim, as it is written most often.

use std::time::Duration;

use tokio::time::sleep;

use super::story::Dice;
use super::world::{Book, MINUTE, Provider};

/// Reads what is left, thinks, calls, and writes down what was spent: whoever wrote in between is undone.
pub(crate) async fn spend(
    book: &Book,
    budget: u64,
    most: u64,
    think: Duration,
    call: impl AsyncFnOnce() -> u64,
) -> Option<u64> {
    let spent = book.read();
    if spent + most > budget {
        return None;
    }
    sleep(think).await;
    let actual = call().await;
    book.write(spent + actual);
    Some(actual)
}

/// Looks whether it is there, and takes it a moment later. Nothing is undone: the book adds in one step.
pub(crate) async fn pay(book: &Book, cap: u64, cents: u64, think: Duration) -> bool {
    let fits = book.read() + cents <= cap;
    sleep(think).await;
    if fits {
        book.add(cents);
    }
    fits
}

/// Calls until it is taken, with exponential backoff and full jitter.
pub(crate) async fn call(provider: &Provider, tokens: u64, dice: &mut Dice) {
    let mut longest = MINUTE / 60;
    while provider.call(tokens).is_err() {
        sleep(dice.up_to(longest)).await;
        longest = (longest * 2).min(MINUTE);
    }
}
