//! Budgets, rate limits and caps hold with preclaim and do not without; and what an agent leaves that dies.

#[allow(dead_code, reason = "its main and its printing are not called here")]
#[path = "../../examples/token_budget/main.rs"]
mod example;

use std::future::pending;
use std::time::Duration;

use example::agent::Agent;
use example::world::{Limits, MINUTE, Provider, TooMany};
use example::{Scale, budgets, caps, fan_outs};
use preclaim::testing::World;

const LIMITS: Limits = Limits { budget: 1000, cap_cents: 500, calls: 10, tokens: 6000 };
const SCALE: Scale =
    Scale { limits: LIMITS, agents: 8, calls: 20, requests: 1000, cents: 10, runs: 1, seed: 1 };

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_overspent_by_lost_updates_and_kept_to_the_token_by_claims() {
    let [without, with] = budgets(&SCALE, 1).await.unwrap();
    assert!(without.spent > without.booked, "what others wrote in between is undone: {without:?}");
    assert!(without.spent > LIMITS.budget, "{without:?}");
    assert_eq!(with.spent, with.booked, "the coordinator's book is the invoice");
    assert!(with.spent <= LIMITS.budget, "{with:?}");
    // What reservations do not need is given back: without that it would be 10 calls, and half of the budget.
    assert!(with.calls > 10 && with.spent > LIMITS.budget * 8 / 10, "{with:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_runs_into_the_rate_limit_and_is_spread_by_its_starts() {
    let [without, with] = fan_outs(&SCALE, 1).await.unwrap();
    assert!(without.refused > 0, "{without:?}");
    assert_eq!((with.refused, with.taken.len()), (0, 20), "{with:?}");
    let first = with.taken.iter().filter(|at| **at < 0.9).count();
    assert!((1..=10).contains(&first), "the others start in later minutes: {with:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_thousand_requests_of_a_dime_for_five_exactly_fifty_are_granted() {
    let [without, with] = caps(&SCALE, 1).await.unwrap();
    assert_eq!((with.requests, with.paid), (1000, 50));
    assert!(without.paid > 50, "{without:?}");
}

async fn world_with_an_agent() -> (World, Agent) {
    let world = World::builder().capacity("budget/team", LIMITS.budget).build();
    let client = world.client("agent-1").await;
    let period_end = client.coordinator_time().0 + Duration::from_secs(60);
    (world, Agent { client, period_end })
}

/// Dies without a word, a while after it began to spend.
async fn dies(world: &World, agent: &Agent, think: Duration) {
    let dying = agent.clone();
    let work =
        tokio::spawn(
            async move { dying.spend(100, think, async || pending().await).await.map(drop).is_ok() },
        );
    world.advance(Duration::from_millis(200)).await;
    world.unreachable("agent-1", true);
    work.abort();
    assert!(work.await.unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn who_dies_before_its_call_gives_all_back_and_who_dies_in_it_keeps_the_most_that_it_may_have_spent() {
    let (world, agent) = world_with_an_agent().await;
    dies(&world, &agent, Duration::from_secs(3600)).await;
    assert_eq!(world.grants().len(), 1, "reserved");
    world.advance(Duration::from_secs(1)).await;
    assert!(world.grants().is_empty(), "the lease has ended");

    let (world, agent) = world_with_an_agent().await;
    dies(&world, &agent, Duration::from_millis(20)).await;
    world.advance(Duration::from_secs(1)).await;
    assert_eq!(world.grants().len(), 1, "it may have been spent");
    let other = Agent { client: world.client("agent-2").await, period_end: agent.period_end };
    assert_eq!(other.claimed().await.unwrap(), 100);
    world.advance(Duration::from_secs(60)).await;
    assert!(world.grants().is_empty(), "a new period");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_counts_as_the_most_that_it_may_have_spent() {
    let (world, agent) = world_with_an_agent().await;
    let cancelled = agent.clone();
    let think = Duration::from_millis(20);
    let work =
        tokio::spawn(async move { cancelled.spend(100, think, async || pending().await).await.is_ok() });
    world.advance(Duration::from_millis(200)).await;
    work.abort();
    assert!(work.await.unwrap_err().is_cancelled());
    world.advance(Duration::from_millis(200)).await;
    assert_eq!(agent.claimed().await.unwrap(), 100);
}

#[tokio::test(start_paused = true)]
async fn what_was_reserved_and_not_spent_is_free_for_the_next_one() {
    let (_world, agent) = world_with_an_agent().await;
    let think = Duration::from_millis(20);
    assert_eq!(agent.spend(1000, think, async || 400).await.unwrap(), Some(400));
    assert_eq!(agent.claimed().await.unwrap(), 400);
    assert_eq!(agent.spend(601, think, async || 1).await.unwrap(), None, "600 are left");
    assert_eq!(agent.spend(600, think, async || 600).await.unwrap(), Some(600));
    assert_eq!(agent.spend(1, think, async || 1).await.unwrap(), None, "nothing is left");
    assert!(agent.next_period_is_whole(1000).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_provider_takes_no_more_than_it_says_within_any_minute() {
    let provider = Provider::new(LIMITS);
    assert_eq!(provider.call(6001), Err(TooMany), "tokens");
    (0..10).for_each(|_| assert_eq!(provider.call(1), Ok(())));
    tokio::time::advance(MINUTE - Duration::from_millis(1)).await;
    assert_eq!(provider.call(1), Err(TooMany), "calls");
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(provider.call(6000), Ok(()));
}
