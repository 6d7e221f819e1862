//! The same without preclaim: mutexes with a time-out, a try-lock, a queue, and a valve that does what it is told.

use std::time::{Duration, Instant};

use tokio::sync::{Barrier, Mutex, Semaphore};
use tokio::time::{sleep, timeout};

use super::Failure;
use super::story::Dice;
use super::world::{Acting, Action, Ring, Turns, Valve, work};

/// After how long an agent takes a wait for a ring. Shorter ones give up on waits that would have ended.
const TIME_OUT: Duration = Duration::from_millis(100);
/// The first pause after a try-lock that found nothing, doubled each time up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// Takes one mutex and then the other; where the second does not come in time, lets go and begins anew, after
/// a pause drawn by chance: without it all would run into each other again.
pub(crate) async fn two_mutexes(
    [first, second]: [&Mutex<()>; 2],
    all_have_one: &Barrier,
    ring: &Ring,
    mut dice: Dice,
) {
    let mut has_met = false;
    loop {
        let one = first.lock().await;
        if !has_met {
            all_have_one.wait().await;
            has_met = true;
        }
        if let Ok(_other) = timeout(TIME_OUT, second.lock()).await {
            return work().await;
        }
        ring.timed_out();
        drop(one);
        sleep(dice.up_to(TIME_OUT)).await;
    }
}

/// Takes turns by trying, with pauses that grow.
pub(crate) async fn try_turns(pool: &Semaphore, agent: usize, turns: &Turns) {
    while turns.are_left() {
        let (asked, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            if let Ok(_turn) = pool.try_acquire() {
                turns.taken(agent, asked.elapsed());
                work().await;
                break;
            }
            if !turns.are_left() {
                return turns.waited(asked.elapsed());
            }
            sleep(turns.up_to(agent, pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Takes turns in the order in which they were asked for: in one process that is easily had.
pub(crate) async fn queue_for_turns(pool: &Semaphore, agent: usize, turns: &Turns) -> Result<(), Failure> {
    while turns.are_left() {
        let asked = Instant::now();
        let turn = pool.acquire().await?;
        turns.taken(agent, asked.elapsed());
        work().await;
        drop(turn);
    }
    Ok(())
}

/// Both act at one moment, and the valve adds up what nobody has decided on.
pub(crate) async fn add_up(valve: &Valve, actions: &[Action; 2]) {
    tokio::join!(valve.change(&actions[0]), valve.change(&actions[1]));
}

/// Both read the valve, work out where it is to be, and set it: the later one undoes the other's.
pub(crate) async fn last_wins(valve: &Valve, actions: &[Action; 2]) {
    let both_have_read = Barrier::new(2);
    let set = async |action: &Action| {
        let _acting = Acting::new(valve);
        let target = valve.open() + action.percent;
        both_have_read.wait().await;
        valve.set(target);
        sleep(action.takes_effect / 10).await;
    };
    tokio::join!(set(&actions[0]), set(&actions[1]));
}
