//! A coordinator inside a test: how to test an agent of your own against a real one.
//!
//! ```text
//! cargo test --example embedded
//! cargo run --example embedded
//! ```

use std::error::Error;
use std::io::{self, Write};

use preclaim::coordinator::{Coordinator, CoordinatorConfig, Running};
use preclaim::resolver::Rules;
use preclaim::{Client, Grant, Intent, Outcome, path, secs};

type Failure = Box<dyn Error + Send + Sync>;

/// The agent to test: takes the dock for half a minute, now or when it is free.
async fn take_the_dock(client: &Client) -> Result<Grant, Failure> {
    let dock = path("dock/3")?.exclusive();
    match client.declare(Intent::asap().claim(dock.clone(), secs(30))).await? {
        Outcome::Granted(grant) => Ok(grant),
        Outcome::Conflict(conflict) => {
            let offer = conflict.offer().ok_or("the dock is never free")?;
            match client.declare(Intent::at(offer).claim(dock, secs(30))).await? {
                Outcome::Granted(grant) => Ok(grant),
                other => Err(format!("somebody else took the offer: {other:?}").into()),
            }
        }
        other => Err(format!("neither granted nor in conflict: {other:?}").into()),
    }
}

/// A coordinator of this test's own: on a free port of this machine, in memory. There is nothing to
/// install, to start before, or to clean up, and tests that run side by side do not meet.
fn coordinator() -> Result<Running, Failure> {
    Ok(Coordinator::bind(CoordinatorConfig::in_memory(Rules::default())?)?.spawn())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    show(&mut io::stdout()).await
}

pub(crate) async fn show(out: &mut (impl Write + Send)) -> Result<(), Failure> {
    let coordinator = coordinator()?;
    let forklift = take_the_dock(&coordinator.client("forklift").connect().await?).await?;
    let courier = take_the_dock(&coordinator.client("courier").connect().await?).await?;
    for (name, grant) in [("forklift", &forklift), ("courier", &courier)] {
        let [from, to] = [grant.start(), grant.end()].map(|at| at.since(forklift.start()).to_std().as_secs());
        writeln!(out, "{name:<8}  has the dock from {from} s to {to} s")?;
    }
    coordinator.stop().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use preclaim::client::DeclareError;

    use super::*;

    #[tokio::test]
    async fn a_free_dock_is_taken_at_once() {
        let coordinator = coordinator().unwrap();
        let courier = coordinator.client("courier").connect().await.unwrap();
        let grant = take_the_dock(&courier).await.unwrap();
        assert!(grant.start() < grant.decided_at() + courier.slot_length());
        coordinator.stop().await.unwrap();
    }

    #[tokio::test]
    async fn a_dock_in_use_is_taken_right_after_its_holder() {
        let coordinator = coordinator().unwrap();
        let (forklift, courier) = (coordinator.client("forklift"), coordinator.client("courier"));
        let held = take_the_dock(&forklift.connect().await.unwrap()).await.unwrap();
        // Nobody waits for that half minute: a grant may lie in the future.
        let next = take_the_dock(&courier.connect().await.unwrap()).await.unwrap();
        assert_eq!(next.start(), held.end());
        coordinator.stop().await.unwrap();
    }

    #[tokio::test]
    async fn without_a_coordinator_the_dock_in_hand_stays_and_no_new_one_is_had() {
        let coordinator = coordinator().unwrap();
        let courier = coordinator.client("courier").connect().await.unwrap();
        let grant = take_the_dock(&courier).await.unwrap();
        coordinator.stop().await.unwrap();
        assert_eq!(grant.check(), Ok(()));
        let error = take_the_dock(&courier).await.unwrap_err();
        assert!(error.downcast_ref::<DeclareError>().unwrap().is_retryable(), "{error}");
    }
}
