//! What uses preclaim: two leases and the ring that they may close, one intent for both, a turn at one of
//! several resources, and one of two actions on an actuator.

use std::time::{Duration, Instant};

use preclaim::client::Conflict;
use preclaim::coordinator::{Coordinator, CoordinatorConfig, Running};
use preclaim::resolver::{Resource, Rules};
use preclaim::types::Time;
use preclaim::wire::Refusal;
use preclaim::{Client, Intent, Outcome, millis, path, secs};
use tokio::sync::Barrier;

use super::Failure;
use super::world::{Action, Ring, Turns, Valve, work};

/// A lease renews itself for as long as its handle lives: this is how long others wait for one whose agent has died.
const LEASE: Duration = secs(10);
/// How long an agent would wait. Nobody waits so long here: a ring is found in the slot that closes it.
const PATIENCE: Duration = secs(30);

/// A coordinator on a free port of this machine, for a pool of `resources` that are all alike.
pub(crate) fn coordinator(resources: u64) -> Result<Running, Failure> {
    let mut pool = Resource::new(path("pool")?.path().clone());
    pool.capacity = Some(resources);
    let rules = Rules { resources: vec![pool], ..Rules::default() };
    Ok(Coordinator::bind(CoordinatorConfig::in_memory(rules)?)?.spawn())
}

pub(crate) async fn connect(coordinator: &Running, agents: usize) -> Result<Vec<Client>, Failure> {
    let mut clients = Vec::new();
    for agent in 0..agents {
        clients.push(coordinator.client(format!("agent-{agent}")).connect().await?);
    }
    Ok(clients)
}

/// Takes one thing and then another, as two leases, works with both, and gives both back. All that meet at
/// `all_have_one` hold one thing, and each wants the next one's: a ring. Whoever is told so lets go and begins anew.
pub(crate) async fn two_leases(
    client: &Client,
    [first, second]: [&str; 2],
    all_have_one: &Barrier,
    ring: &Ring,
) -> Result<(), Failure> {
    let lease = |what: &str| -> Result<Intent, Failure> {
        Ok(Intent::asap().claim(path(what)?.exclusive(), LEASE).lease().wait(PATIENCE))
    };
    let mut has_met = false;
    loop {
        let Outcome::Granted(one) = client.declare(lease(first)?).await? else {
            return Err("nobody who holds something waits for this one".into());
        };
        if !has_met {
            all_have_one.wait().await;
            has_met = true;
        }
        let asked = Instant::now();
        match client.declare(lease(second)?).await? {
            Outcome::Granted(other) => {
                one.guarded(other.guarded(work())).await??;
                other.release().await?;
                one.release().await?;
                return Ok(());
            }
            Outcome::Conflict(conflict) if conflict.is_deadlock() => {
                ring.told(asked.elapsed());
                one.release().await?;
            }
            other => return Err(format!("neither granted nor told of a ring: {other:?}").into()),
        }
    }
}

/// The same as one intent, which is granted whole or not at all: nobody holds one and waits for the other.
pub(crate) async fn one_intent(client: &Client, both: [&str; 2]) -> Result<(), Failure> {
    let [one, other] = both.map(path);
    let intent = Intent::asap().claim(one?.exclusive(), LEASE).claim(other?.exclusive(), LEASE);
    match client.declare(intent.lease().wait(PATIENCE)).await? {
        Outcome::Granted(grant) => {
            grant.guarded(work()).await?;
            grant.release().await?;
            Ok(())
        }
        other => Err(format!("not granted: {other:?}").into()),
    }
}

/// Takes a turn at any of the pool's resources, again and again, until all turns have been taken.
pub(crate) async fn take_turns(client: &Client, agent: usize, turns: &Turns) -> Result<(), Failure> {
    while turns.are_left() {
        let asked = Instant::now();
        let intent = Intent::asap().claim(path("pool")?.units(1), LEASE).lease().wait(PATIENCE);
        let Outcome::Granted(turn) = client.declare(intent).await? else {
            return Err(format!("agent {agent} starved").into());
        };
        turns.taken(agent, asked.elapsed());
        turn.guarded(work()).await?;
        // Dropped, it is released. The next try comes in the same slot, and whoever has waited goes first.
    }
    Ok(())
}

/// What became of an action that was wanted at a moment.
#[derive(Debug)]
pub(crate) enum Acted {
    AtThatMoment,
    /// Somebody else acted then: who, until when, and what is free instead.
    Told(Conflict),
    /// The moment had passed before it could ask, or act: this machine stalled.
    TooLate,
}

/// Acts on the valve at that very moment and for as long as the action takes effect, or is told who does.
pub(crate) async fn act(
    client: &Client,
    valve: &Valve,
    action: &Action,
    moment: Time,
) -> Result<Acted, Failure> {
    let intent = Intent::at(moment).claim(path("boiler/valve")?.exclusive(), action.takes_effect);
    match client.declare(intent.urgency(action.urgency).note(action.what())).await? {
        Outcome::Granted(grant) => {
            let acted = grant.guarded(valve.change(action)).await;
            grant.release().await?;
            Ok(if acted.is_ok() { Acted::AtThatMoment } else { Acted::TooLate })
        }
        Outcome::Conflict(conflict) => Ok(Acted::Told(conflict)),
        Outcome::Rejected(why) if why.reason() == Refusal::TooLate => Ok(Acted::TooLate),
        other => Err(format!("neither granted nor in conflict: {other:?}").into()),
    }
}

/// A moment far enough ahead that both can ask for it.
pub(crate) fn soon(client: &Client) -> Time {
    client.coordinator_time().0 + millis(100)
}
