//! A whole agent, to begin yours with: it takes turns on an aisle under a lease, works in steps, stops at once where
//! the lease is lost, comes through a restart of the coordinator, and leaves on Ctrl-C.
//!
//! ```text
//! preclaim dev                              # in one terminal
//! cargo run --example agent robot-1         # in two others
//! cargo run --example agent robot-2
//! ```

use std::error::Error;

use preclaim::client::DeclareError;
use preclaim::{Client, Grant, Intent, Outcome, millis, path, secs};
use tokio::{signal, time::sleep};

/// Dropped at its next await should the lease be lost. What it writes to compares the fence.
async fn carry(name: &str, grant: &Grant) {
    for step in 1..=12 {
        println!("{name} step {step}, fence {}", grant.fence(0));
        sleep(millis(250)).await;
    }
}

async fn turns(client: &Client) -> Result<(), Box<dyn Error>> {
    loop {
        // In line for a minute, and a lease of 2 s: so long others wait should this process vanish.
        let aisle = Intent::asap().claim(path("aisle/4")?.exclusive(), secs(2)).lease().wait(secs(60));
        match client.declare(aisle).await {
            Ok(Outcome::Granted(grant)) => match grant.guarded(carry(client.name(), &grant)).await {
                Ok(()) => println!("done"), // dropped below, and so released
                Err(lost) => println!("stopped at once: {lost}"),
            },
            Ok(other) => println!("not this time: {other:?}"),
            // Granted while nobody could hear of it, and over by now; or withdrawn by the operator.
            Err(why @ (DeclareError::Ended { .. } | DeclareError::Withdrawn { .. })) => println!("{why}"),
            Err(why) if why.is_retryable() => println!("{why}"),
            Err(why) => return Err(why.into()),
        }
        sleep(secs(1)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Without a name there is nothing to show: `cargo run --example agent robot-1`.
    let Some(name) = std::env::args().nth(1) else { return Ok(()) };
    let client = Client::builder().name(name).connect_within(secs(60)).await?;
    let ended = tokio::select! { ended = turns(&client) => ended, _ = signal::ctrl_c() => Ok(()) };
    client.close().await; // waits until what was dropped is released
    ended
}
