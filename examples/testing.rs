//! An agent and its tests: what it does when it has to wait, when it is granted, and when it loses what it was
//! granted, each in a fraction of a second, on virtual time.
//!
//! ```text
//! cargo test --example testing
//! cargo run --example testing
//! ```

use std::error::Error;
use std::io::{self, Write};
use std::time::Duration;

use preclaim::client::{Lost, Released};
use preclaim::testing::World;
use preclaim::{Client, Intent, Outcome, path, secs};
use tokio::time::sleep;

type Failure = Box<dyn Error + Send + Sync>;

/// How long the battery takes.
const CHARGING: Duration = secs(3600);

/// What came of it.
#[derive(Debug, PartialEq)]
enum Ended {
    Charged,
    /// The charger was not to be had within ten minutes.
    GaveUp,
    /// Somebody at the coordinator sent it away.
    SentAway(String),
    /// It unplugged by itself: nobody could be asked any more.
    CutOff,
}

/// The agent to test: waits for the charger, charges under a lease, and unplugs as soon as it may no
/// longer be there.
async fn charge(client: &Client) -> Result<Ended, Failure> {
    let charger = path("charger/1")?.exclusive();
    let lease = Intent::asap().claim(charger, secs(10)).lease().wait(secs(600)).note("battery low");
    let grant = match client.declare(lease).await? {
        Outcome::Granted(grant) => grant,
        Outcome::Conflict(_) => return Ok(Ended::GaveUp),
        other => return Err(format!("neither granted nor in conflict: {other:?}").into()),
    };
    match grant.guarded(sleep(CHARGING)).await {
        Ok(()) => match grant.release().await? {
            Released::Released => Ok(Ended::Charged),
            other => Err(format!("it was not there any more: {other:?}").into()),
        },
        Err(Lost::Released { reason }) => Ok(Ended::SentAway(reason.unwrap_or_default())),
        Err(Lost::Unreachable) => Ok(Ended::CutOff),
        Err(why) => Err(why.into()),
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Failure> {
    let began = std::time::Instant::now();
    show(&mut io::stdout()).await?;
    eprintln!("the machine took {:?} for it", began.elapsed());
    Ok(())
}

/// Three robots and one charger, told as it happens.
pub(crate) async fn show(out: &mut (impl Write + Send)) -> Result<(), Failure> {
    let world = World::new();
    let began = world.now();
    let robots = ["lifter", "picker", "sweeper"].map(|name| {
        let world = world.clone();
        tokio::spawn(async move {
            let client = world.client(name).await;
            let ended = charge(&client).await;
            (name, ended, world.now())
        })
    });
    world.advance(secs(300)).await;
    let holder = world.grants().remove(0);
    writeln!(out, "{:>5} s  {} charges, {} wait", 300, holder.agent, world.waiting().len())?;
    world.release(&holder.agent, holder.id, "the sweeper is needed");
    world.advance_slots(1).await;
    let holder = world.grants().remove(0);
    world.unreachable(&holder.agent, true);
    for robot in robots {
        let (name, ended, at) = robot.await?;
        writeln!(out, "{:>5} s  {name}: {:?}", at.since(began).to_std().as_secs(), ended?)?;
    }
    Ok(())
}

/// What to copy.
#[cfg(test)]
mod tests {
    use super::*;

    fn start(client: Client) -> tokio::task::JoinHandle<Ended> {
        tokio::spawn(async move { charge(&client).await.unwrap() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_free_charger_is_used_for_an_hour_and_given_back() {
        let world = World::new();
        assert_eq!(charge(&world.client("car-7").await).await.unwrap(), Ended::Charged);
        assert!(world.grants().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_while_somebody_else_charges_and_no_longer_than_ten_minutes() {
        let world = World::new();
        let first = start(world.client("car-7").await);
        world.advance_slots(1).await;
        let second = start(world.client("car-8").await);
        world.advance_slots(1).await;
        assert_eq!((world.grants().len(), world.waiting().len()), (1, 1));
        assert_eq!(second.await.unwrap(), Ended::GaveUp);
        assert_eq!(first.await.unwrap(), Ended::Charged);
    }

    #[tokio::test(start_paused = true)]
    async fn it_unplugs_when_the_operator_sends_it_away_and_the_next_one_has_the_charger() {
        let world = World::new();
        let first = start(world.client("car-7").await);
        world.advance_slots(1).await;
        let second = start(world.client("car-8").await);
        world.advance(secs(60)).await;
        let grant = world.grants().remove(0);
        world.release("car-7", grant.id, "fire drill");
        assert_eq!(first.await.unwrap(), Ended::SentAway("fire drill".into()));
        world.advance_slots(1).await;
        assert_eq!(world.grants().remove(0).agent, "car-8");
        assert_eq!(second.await.unwrap(), Ended::Charged);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_breaks_is_no_reason_to_unplug() {
        let world = World::new();
        let charging = start(world.client("car-7").await);
        for _ in 0..60 {
            world.advance(secs(50)).await;
            world.disconnect("car-7");
        }
        assert_eq!(charging.await.unwrap(), Ended::Charged);
    }

    #[tokio::test(start_paused = true)]
    async fn it_unplugs_before_anybody_else_may_have_the_charger_where_nobody_can_be_asked() {
        let world = World::new();
        let charging = start(world.client("car-7").await);
        world.advance(secs(60)).await;
        world.unreachable("car-7", true);
        assert_eq!(charging.await.unwrap(), Ended::CutOff);
        assert_eq!(world.grants().len(), 1, "the coordinator still keeps the charger for it");
    }
}
