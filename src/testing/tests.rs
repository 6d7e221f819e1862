use super::*;
use crate::client::{DeclareError, Event, Grant, Intent, Lost, Outcome, millis, secs};
use crate::types::{Micros, Token};
use crate::wire::EntryState;

fn dock() -> Intent {
    Intent::asap().claim(crate::client::path("dock").unwrap().exclusive(), secs(1))
}

async fn granted(client: &Client, intent: Intent) -> Grant {
    match client.declare(intent).await {
        Ok(Outcome::Granted(grant)) => grant,
        other => panic!("granted, not {other:?}"),
    }
}

#[tokio::test]
#[should_panic(expected = "time is real here: write #[tokio::test(start_paused = true)]")]
async fn a_world_refuses_real_time() {
    World::new();
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "a runtime of one thread")]
async fn a_world_refuses_a_runtime_of_several_threads() {
    World::new();
}

#[test]
#[should_panic(expected = "a tokio runtime around it")]
fn a_world_refuses_to_be_without_a_runtime() {
    World::new();
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a slot lasts from")]
async fn a_world_refuses_a_slot_that_no_coordinator_has() {
    World::with_rules(Rules { length: Micros::from_secs(2), ..Rules::default() });
}

#[tokio::test(start_paused = true)]
async fn a_declaration_is_decided_at_the_end_of_its_slot() {
    let world = World::new();
    let client = world.client("car-7").await;
    let began = world.now();
    let declaring = tokio::spawn({
        let client = client.clone();
        async move { granted(&client, dock()).await }
    });
    world.advance_slots(0).await;
    assert_eq!((world.now(), declaring.is_finished()), (began, false));
    world.advance_slots(1).await;
    assert_eq!(world.now(), began.after(Micros::from_ms(10)));
    assert!(declaring.is_finished(), "all that came of the slot has run");
    let grant = declaring.await.unwrap();
    let [entry] = &world.grants()[..] else { panic!("one grant") };
    assert_eq!((&*entry.agent, entry.id), ("car-7", grant.id()));
    assert!(matches!(entry.state, EntryState::Granted { token, .. } if token == Token::new(1)));
    world.advance_slots(100).await;
    assert!(world.grants().is_empty());
    assert_eq!(world.now(), began.after(Micros::from_ms(1_010)));
}

/// Agents that wait, break off, renew and give up, as the seed has it.
async fn busy(seed: u64) -> (StateDigest, Vec<String>) {
    let world = World::builder().seed(seed).latency(millis(3)).build();
    let mut agents = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let client = world.client(name).await;
        agents.push(tokio::spawn(async move {
            let mut told = Vec::new();
            let mut news = client.events();
            for round in 0..20 {
                let grant = client.declare(dock().lease().wait(millis(700))).await;
                told.push(format!("{name} {round} {grant:?}").replace(char::is_whitespace, ""));
                tokio::time::sleep(millis(300)).await;
            }
            while let Ok(event) = tokio::time::timeout(millis(1), news.next()).await {
                told.push(format!("{name} {event:?}"));
            }
            told
        }));
    }
    for round in 0..40 {
        world.advance(millis(97)).await;
        world.disconnect(["a", "b", "c", "d"][round % 4]);
    }
    let mut told = Vec::new();
    for agent in agents {
        told.extend(agent.await.unwrap());
    }
    (world.digest(), told)
}

fn once(seed: u64) -> (StateDigest, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let (digest, told) = runtime.unwrap().block_on(busy(seed));
    // An agent's own instants differ from run to run, as the machine's do.
    let without_instants = |line: String| line.split("Instant").next().unwrap_or_default().to_owned();
    (digest, told.into_iter().map(without_instants).collect())
}

#[test]
fn the_same_seed_does_the_same_twice_and_another_seed_something_else() {
    let (first, second) = (once(1), once(1));
    assert_eq!(first.1, second.1);
    assert_eq!(first.0, second.0);
    assert_ne!(first.1, once(2).1);
}

/// An agent that tries again and again, until it is told to stop: when that is.
fn pursued(seed: u64) -> Micros {
    let pursuing = async {
        let world = World::builder().seed(seed).build();
        let _held = granted(&world.client("holder").await, dock().lease()).await;
        let (client, began) = (world.client("car-7").await, world.now());
        assert!(matches!(client.pursue(async |_| dock()).await, Ok(crate::client::Pursued::Degraded(_))));
        world.now().since(began)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(pursuing)
}

#[test]
fn how_long_a_client_tries_follows_from_the_seed_too() {
    assert_eq!(pursued(1), pursued(1));
    assert_ne!(pursued(1), pursued(2));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_be_reached_is_told_when_it_can_be_again() {
    let world = World::new();
    let client = world.client("car-7").await;
    let grant = granted(&client, dock().lease()).await;
    let mut news = client.events();
    world.unreachable("car-7", true);
    world.release("car-7", grant.id(), "night");
    world.advance_slots(2).await;
    assert!(world.grants().is_empty());
    assert_eq!(grant.check(), Ok(()), "it cannot know");
    world.unreachable("car-7", false);
    world.advance_slots(0).await;
    assert_eq!(grant.check(), Err(Lost::Released { reason: Some("night".into()) }));
    assert!(matches!(news.next().await, Some(Event::Lost { .. })), "and its connection stood all the while");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_silent_for_long_loses_its_connection_and_no_new_one_is_had_over_it() {
    let world = World::new();
    let client = world.client("car-7").await;
    world.unreachable("car-7", true);
    world.advance(crate::client::GIVE_UP - millis(1)).await;
    assert!(client.is_connected());
    world.advance(millis(2)).await;
    assert!(!client.is_connected());
    let other = world.connect(Client::builder().name("car-7").timeout(secs(3))).await;
    assert!(matches!(other, Err(ConnectError::TimedOut { after, .. }) if after == secs(3)));
    world.unreachable("car-7", false);
    world.advance(secs(6)).await;
    assert!(client.is_connected());
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_is_gone_for_a_while_has_all_that_it_had_and_one_without_its_state_nothing() {
    let world = World::new();
    let client = world.client("car-7").await;
    let grant =
        granted(&client, dock().claim(crate::client::path("hall").unwrap().shared(), secs(20)).lease()).await;
    let restart = tokio::spawn({
        let world = world.clone();
        async move { world.restart(millis(300)).await }
    });
    world.advance(millis(100)).await;
    assert!(!client.is_connected());
    let nobody = world.connect(Client::builder().name("car-8")).await;
    assert!(matches!(nobody, Err(ConnectError::NobodyListens { .. })));
    restart.await.unwrap();
    world.advance(secs(5)).await;
    assert_eq!(grant.check(), Ok(()));
    world.lose_state();
    world.advance(secs(6)).await;
    assert_eq!(grant.check(), Err(Lost::Unknown));
    assert!(world.grants().is_empty());
    assert_eq!(granted(&client, dock()).await.token(), Token::new(1));
}

#[tokio::test(start_paused = true)]
async fn capacities_are_set_by_the_builder_and_by_the_operator() {
    let world = World::builder().capacity("stock", 1).capacity("stock", 2).build();
    let client = world.client("car-7").await;
    let take = || Intent::asap().claim(crate::client::path("stock").unwrap().units(2), secs(9));
    let grant = granted(&client, take()).await;
    drop(grant);
    world.set_capacity("stock", 1);
    world.advance_slots(2).await;
    assert!(matches!(client.declare(take()).await, Ok(Outcome::Rejected(_) | Outcome::Conflict(_))));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_stopped_past_its_lease_finds_it_lost_before_it_acts() {
    let world = World::new();
    let client = world.client("car-7").await;
    let grant = granted(&client, dock().lease()).await;
    let acted = std::sync::atomic::AtomicBool::new(false);
    let work = async {
        world.stall("car-7", secs(5)).await;
        acted.store(grant.check().is_ok(), std::sync::atomic::Ordering::Relaxed);
        tokio::task::yield_now().await;
    };
    assert!(grant.guarded(work).await.is_err());
    assert!(!acted.into_inner());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_world_ends_its_connections() {
    let world = World::new();
    let client = world.client("car-7").await;
    drop(world);
    while client.is_connected() {
        tokio::task::yield_now().await;
    }
    let declared = client.declare(dock()).await.map(|_| ());
    assert_eq!(declared, Err(DeclareError::Disconnected));
    assert!(matches!(client.why_disconnected(), Some(ConnectError::NobodyListens { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_waits_renews_leases_up_to_its_deadline_and_the_next_coordinator_goes_on() {
    let world = World::new();
    let (holder, waiter) = (world.client("car-7").await, world.client("car-8").await);
    let grant = granted(&holder, dock().lease()).await;
    let mut events = holder.events();
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { waiter.declare(dock().wait(secs(600))).await }
    });
    world.advance(secs(1)).await;
    assert_eq!(world.waiting().len(), 1);
    let deadline = world.now().after(Micros::from_secs(5));
    world.drain(secs(5), "upgrade");
    world.advance_slots(1).await;
    let Ok(Outcome::Rejected(refused)) = waiting.await.unwrap() else { panic!("it waits no more") };
    assert!(refused.reason() == crate::wire::Refusal::Draining && refused.hint().contains("upgrade"));
    let late = waiter.declare(dock()).await;
    assert!(matches!(late, Err(DeclareError::Draining { .. })), "{late:?}");
    let told = std::iter::from_fn(|| events.try_next()).find_map(|event| match event {
        Event::Draining { deadline, .. } => Some(deadline),
        _ => None,
    });
    assert_eq!(told, Some(Some(deadline)));
    world.advance(secs(4)).await;
    assert!(grant.check().is_ok(), "it has been renewed");
    assert_eq!(world.drains().unwrap().left, 1);
    world.advance(secs(1)).await;
    assert!(!holder.is_connected());
    assert!(grant.check().is_err(), "up to the deadline, and no further");
    world.restart(millis(10)).await;
    world.advance(secs(10)).await;
    assert!(world.drains().is_none());
    let regained = granted(&holder, dock()).await;
    drop(regained);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_with_the_last_release_and_longer_grants_outlive_it() {
    let world = World::new();
    let client = world.client("car-7").await;
    let grant = granted(&client, dock()).await;
    world.drain(secs(3_600), "");
    grant.release().await.unwrap();
    world.advance_slots(2).await;
    assert!(!client.is_connected(), "the coordinator has ended");

    let world = World::new();
    let client = world.client("car-7").await;
    let long = Intent::asap().claim(crate::client::path("dock").unwrap().exclusive(), secs(60)).lease();
    let grant = granted(&client, long).await;
    world.drain(secs(5), "");
    world.advance(secs(6)).await;
    assert!(!client.is_connected() && grant.check().is_ok(), "it stands on");
    world.restart(millis(10)).await;
    world.advance(secs(120)).await;
    assert!(grant.check().is_ok(), "and is renewed by whoever comes after");
}
