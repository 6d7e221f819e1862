//! Rings are found and told to one, turns come round, and two actions at one moment are decided.

#[allow(dead_code, reason = "its main and its printing are not called here")]
#[path = "../../examples/deadlock/main.rs"]
mod example;

use example::{Account, PRECLAIM, Scale, measure};

async fn account(ring: usize, rounds: u64, turns: u64) -> Account {
    measure(&Scale { ring, rounds, resources: 3, turns, seed: 7 }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_ring_one_is_told_and_all_get_their_turn_and_of_two_actions_one_is_decided() {
    let account = account(2, 5, 60).await;
    account.check().unwrap();
    assert_eq!((account.leases.times_told(), account.leases.time_outs()), (5, 0));
    assert_eq!((account.intents.times_told(), account.intents.time_outs()), (0, 0));
    assert!(account.mutexes.time_outs() >= 5, "without it, an agent waits until it gives up");

    let (_, turns) = account.turns.iter().find(|(way, _)| *way == PRECLAIM).unwrap();
    let shares = turns.shares();
    assert_eq!(shares.len(), 5);
    assert!(shares.iter().all(|turns| *turns >= 6), "half of an equal share at least: {shares:?}");

    let stood = |way: &str| {
        let sum = account.sums.iter().find(|sum| sum.way == way).unwrap();
        (sum.both_at_once, sum.told, sum.stood.percentile(0.0), sum.stood.worst())
    };
    assert_eq!(stood("the valve adds them up"), (5, 0, 90.0, 90.0), "which nobody has decided on");
    let (at_once, told, least, most) = stood(PRECLAIM);
    assert_eq!((at_once, told), (0, 5));
    assert!([least, most].iter().all(|open| [70.0, 120.0].contains(open)), "one of the two: {least}, {most}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_of_five_is_told_to_one_and_the_others_go_on() {
    let account = account(5, 2, 10).await;
    assert_eq!((account.leases.times_told(), account.leases.time_outs()), (2, 0));
    assert_eq!((account.intents.times_told(), account.intents.time_outs()), (0, 0));
    assert_eq!(account.leases.figures().1.count(), 2, "both rounds have ended");
}
