//! Leases that keep themselves and sessions that outlive their connections, on virtual time: the client
//! against a coordinator in one process, where each instant at which something can break is tried.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use preclaim::client::{ConnectError, DeclareError, Event, Filter, Lost, Released, Renewal, RequestError};
use preclaim::testing::World;
use preclaim::types::{IntentId, Micros, Token};
use preclaim::wire::EntryState;
use preclaim::{Client, Grant, Intent, Outcome, millis, path, secs};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

fn dock(span: Duration) -> Intent {
    Intent::asap().claim(path("dock").unwrap().exclusive(), span)
}

async fn granted(client: &Client, intent: Intent) -> Grant {
    match client.declare(intent).await {
        Ok(Outcome::Granted(grant)) => grant,
        other => panic!("granted, not {other:?}"),
    }
}

/// Numbers that look random (SplitMix64).
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Lets `span` pass, and then so many turns of all tasks.
async fn later(span: Duration, turns: u64) {
    if !span.is_zero() {
        sleep(span).await;
    }
    for _ in 0..turns {
        yield_now().await;
    }
}

/// Drops `work` after a while, finished or not. Says whether it was.
async fn dropped_after<F: Future>(work: F, span: Duration, turns: u64) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = work => Some(output),
        () = later(span, turns) => None,
    }
}

fn assert_nothing_is_left(world: &World, of: &dyn std::fmt::Debug) {
    assert!(world.grants().is_empty(), "{of:?}: {:?}", world.grants());
    assert!(world.waiting().is_empty(), "{of:?}: {:?}", world.waiting());
}

/// What becomes of the client whose declaration is dropped, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Stays,
    CutOff,
    DroppedBefore,
    DroppedAfter,
    ClosedBefore,
    ClosedAfter,
}

/// A declaration that is dropped some time after it was made.
#[derive(Clone, Copy, Debug)]
struct Dropped {
    after: Duration,
    turns: u64,
    then: Then,
    /// Somebody has the place, and it waits.
    waits: bool,
}

/// Says whether it was finished before it was dropped.
async fn dropped(world: &World, case: Dropped) -> bool {
    let mut client = Some(world.client("hasty").await);
    let holder = match case.waits {
        true => Some(granted(&world.client("holder").await, dock(millis(20))).await),
        false => None,
    };
    let mut declaring = Box::pin({
        let (client, wait) = (client.clone().unwrap(), millis(if case.waits { 15 } else { 0 }));
        async move { client.declare(dock(secs(60)).wait(wait)).await.map(drop) }
    });
    let finished = dropped_after(&mut declaring, case.after, case.turns).await.is_some();
    match (case.then, &client) {
        (Then::DroppedBefore, _) => client = None,
        (Then::ClosedBefore, Some(client)) => client.close().await,
        (Then::CutOff, _) => world.disconnect("hasty"),
        _ => {}
    }
    drop(declaring);
    match (case.then, &client) {
        (Then::DroppedAfter, _) => client = None,
        (Then::ClosedAfter, Some(client)) => client.close().await,
        // Over the next connection.
        (Then::CutOff, _) => world.advance(secs(6)).await,
        _ => {}
    }
    drop(holder);
    world.advance(millis(100)).await;
    assert_nothing_is_left(world, &case);
    drop(client);
    finished
}

#[tokio::test(start_paused = true)]
async fn a_declaration_dropped_at_any_instant_leaves_no_grant_and_no_waiting_intent() {
    use Then::{ClosedAfter, ClosedBefore, CutOff, DroppedAfter, DroppedBefore, Stays};
    let (mut finished, mut unfinished) = (0, 0);
    for (latency, longest) in [(0, 22), (1, 24), (7, 36)] {
        let world = World::builder().latency(millis(latency)).build();
        for (after, turns) in (0..longest).flat_map(|after| (0..6).map(move |turns| (millis(after), turns))) {
            for then in [Stays, CutOff, DroppedBefore, DroppedAfter, ClosedBefore, ClosedAfter] {
                for waits in [false, true] {
                    let done = dropped(&world, Dropped { after, turns, then, waits }).await;
                    *(if done { &mut finished } else { &mut unfinished }) += 1;
                }
            }
        }
    }
    assert!(finished > 500 && unfinished > 500, "{finished} finished, {unfinished} not");
}

#[tokio::test(start_paused = true)]
async fn declarations_in_flight_when_a_client_goes_leave_nothing_in_either_order() {
    let mut drawn = Drawn(5);
    let world = World::builder().latency(millis(2)).build();
    for round in 0..1_000 {
        let client = world.client("planner").await;
        let declaring: Vec<_> = (0..10)
            .map(|number| {
                let client = client.clone();
                let place = path(&format!("shelf/{number}")).unwrap().exclusive();
                tokio::spawn(
                    async move { client.declare(Intent::asap().claim(place, secs(60))).await.map(drop) },
                )
            })
            .collect();
        later(millis(drawn.below(16)), drawn.below(4)).await;
        let closes_first = round % 2 == 0;
        if closes_first {
            client.close().await;
        }
        declaring.iter().for_each(|task| task.abort());
        drop(client);
        world.advance(millis(40)).await;
        assert_nothing_is_left(&world, &round);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_at_a_third_of_its_time_and_outlives_its_connections() {
    let world = World::builder().latency(millis(5)).build();
    let client = world.client("car-7").await;
    let mut news = client.events();
    let grant = granted(&client, dock(secs(3)).lease()).await;
    let (began, first) = (world.now(), grant.end());
    loop {
        if let Some(Event::Renewed { end, .. }) = news.next().await {
            let waited = world.now().since(began).to_std();
            assert!(waited >= millis(980) && waited <= millis(1_030), "{waited:?}");
            assert!(end > first);
            break;
        }
    }
    let mut drawn = Drawn(3);
    for _ in 0..200 {
        world.disconnect("car-7");
        world.advance(millis(11_000 + drawn.below(3_000))).await;
        assert_eq!(grant.check(), Ok(()));
    }
    let [entry] = &world.grants()[..] else { panic!("one grant") };
    assert!(matches!(entry.state, EntryState::Granted { token, .. } if token == grant.token()));
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_right_after_anothers_release_is_renewed_in_time() {
    let mut drawn = Drawn(11);
    let world = World::builder().latency(millis(1)).build();
    let (first, second) = (world.client("first").await, world.client("second").await);
    for round in 0..1_000 {
        let holder = granted(&first, dock(millis(300)).lease()).await;
        let next = tokio::spawn({
            let (second, before) = (second.clone(), millis(drawn.below(400)));
            async move {
                sleep(before).await;
                granted(&second, dock(millis(300)).lease().wait(secs(2))).await
            }
        });
        later(millis(drawn.below(400)), drawn.below(4)).await;
        drop(holder);
        let next = next.await.unwrap();
        sleep(millis(900)).await;
        assert_eq!(next.check(), Ok(()), "round {round}");
        assert_eq!(next.release().await, Ok(Released::Released));
    }
}

/// By the coordinator's time, which is the true one here.
#[tokio::test(start_paused = true)]
async fn lost_resolves_before_anothers_window_begins_whatever_the_agents_clock_says() {
    let mut drawn = Drawn(23);
    for round in 0..400 {
        let world = World::builder().seed(round).build();
        world.latency("car-7", millis(drawn.below(40)));
        let ppm = i32::try_from(drawn.below(381)).unwrap() - 190;
        world.set_clock("car-7", i64::try_from(drawn.below(4_000_001)).unwrap() - 2_000_000, ppm);
        sleep(Duration::from_micros(drawn.below(50_000))).await;
        let client = world.client("car-7").await;
        let span = millis(200 + drawn.below(3_000));
        let grant = granted(&client, dock(span).lease()).await;
        let other = world.client("other").await;
        let next = tokio::spawn(async move { granted(&other, dock(secs(1)).wait(secs(60))).await });
        let lost = tokio::spawn({
            let (lost, world) = (grant.lost(), world.clone());
            async move { (lost.await, world.now()) }
        });
        sleep(millis(drawn.below(5_000))).await;
        world.unreachable("car-7", true);
        let (why, at) = lost.await.unwrap();
        assert_eq!(why, Lost::Unreachable, "round {round}");
        let next = next.await.unwrap();
        assert!(at <= next.start(), "round {round}: lost at {at:?}, another's from {:?}", next.start());
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_renewal_is_told_at_once_with_the_end_that_stands_and_by_whom() {
    let world = World::new();
    let (client, other) = (world.client("car-7").await, world.client("other").await);
    let mut news = client.events();
    let grant = granted(&client, dock(secs(3)).lease()).await;
    let later =
        Intent::at(grant.end().after(Micros::from_ms(200))).claim(path("dock").unwrap().exclusive(), secs(1));
    let theirs = granted(&other, later).await;
    loop {
        match news.next().await.unwrap() {
            Event::RenewalDenied { id, end, blockers } => {
                assert_eq!((id, end), (grant.id(), grant.end()));
                assert_eq!((&*blockers[0].agent, blockers[0].id), ("other", theirs.id()));
                break;
            }
            Event::Lost { .. } | Event::Expired { .. } => panic!("it was not told"),
            _ => {}
        }
    }
    let asked = world.now().since(grant.start()).to_std();
    assert!(asked >= secs(1) && asked < millis(1_030), "at the first renewal: {asked:?}");
    grant.lost().await;
    assert!(world.now() <= theirs.start());
}

#[tokio::test(start_paused = true)]
async fn guarded_work_is_cancelled_with_the_grant_and_the_release_comes_after_its_end() {
    struct Work(World, Arc<AtomicUsize>);
    impl Drop for Work {
        fn drop(&mut self) {
            self.1.store(self.0.grants().len(), Ordering::Relaxed);
        }
    }
    let world = World::new();
    let client = world.client("car-7").await;
    let in_force = Arc::new(AtomicUsize::new(9));
    let work = || {
        let work = Work(world.clone(), Arc::clone(&in_force));
        async move {
            let _work = work;
            std::future::pending::<()>().await;
        }
    };
    let grant = granted(&client, dock(secs(3)).lease()).await;
    let (id, guarded) = (grant.id(), work());
    let guarded = tokio::spawn(async move { grant.guarded(guarded).await });
    sleep(secs(10)).await;
    world.release("car-7", id, "night");
    assert_eq!(guarded.await.unwrap(), Err(Lost::Released { reason: Some("night".into()) }));
    assert_eq!(in_force.load(Ordering::Relaxed), 0, "it was cancelled when it was lost");

    let grant = granted(&client, dock(secs(3)).lease()).await;
    let guarded = work();
    let guarded = tokio::spawn(async move { grant.guarded(guarded).await });
    sleep(secs(10)).await;
    guarded.abort();
    world.advance_slots(2).await;
    assert_eq!(in_force.load(Ordering::Relaxed), 1, "not released before the work had ended");
    assert_nothing_is_left(&world, &"after it");
}

#[tokio::test(start_paused = true)]
async fn renewals_end_with_the_guard_also_where_its_release_cannot_be_sent() {
    let world = World::new();
    let client = world.client("car-7").await;
    let grant = granted(&client, dock(secs(3)).lease()).await;
    sleep(secs(10)).await;
    world.unreachable("car-7", true);
    drop(grant);
    world.advance(millis(3_010)).await;
    assert_nothing_is_left(&world, &"its time is over");

    world.unreachable("car-7", false);
    world.advance(secs(20)).await;
    let grant = granted(&client, dock(secs(3)).lease()).await;
    let panicking =
        tokio::spawn(async move { grant.guarded(async { panic!("planted, as the message says") }).await });
    assert!(panicking.await.is_err_and(|error| error.is_panic()));
    world.advance_slots(2).await;
    assert_nothing_is_left(&world, &"the work panicked");
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_at_the_longest_that_the_rules_let_anybody_hold() {
    let world = World::builder().max_hold("dock", secs(5)).build();
    let client = world.client("car-7").await;
    let grant = granted(&client, dock(secs(1)).lease()).await;
    let lost = grant.lost().await;
    let held = world.now().since(grant.start()).to_std();
    assert!(matches!(lost, Lost::Ended | Lost::NotRenewed { by: None } | Lost::Expired), "{lost:?}");
    assert!(held > millis(4_300) && held <= secs(5), "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn a_declaration_is_decided_once_wherever_its_connection_breaks() {
    for latency in [0, 1, 7] {
        let world = World::builder().latency(millis(latency)).build();
        let client = world.client("car-7").await;
        let mut last = 0;
        for after in 0..30 {
            for turns in 0..8 {
                let declaring = tokio::spawn({
                    let client = client.clone();
                    async move { granted(&client, dock(secs(60))).await }
                });
                later(millis(after), turns).await;
                world.disconnect("car-7");
                let grant = declaring.await.unwrap();
                last += 1;
                assert_eq!(
                    grant.token(),
                    Token::new(last),
                    "{latency} ms, after {after} ms and {turns} turns"
                );
                assert_eq!(world.grants().len(), 1);
                assert_eq!(grant.check(), Ok(()));
                assert_eq!(grant.release().await, Ok(Released::Released));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_and_a_renewal_that_cross_leave_nothing_of_the_grant() {
    let mut drawn = Drawn(31);
    let world = World::builder().latency(millis(6)).build();
    for round in 0..500 {
        // Another session of the same name, so that the two go over lanes of their own.
        let client = world.client("car-7").await;
        let other = world.connect(Client::builder().name("car-7").label("other")).await.unwrap();
        let grant = granted(&client, dock(secs(2)).lease()).await;
        let (id, until) = (grant.id(), grant.end().after(Micros::from_secs(5)));
        let (first, second) = (millis(drawn.below(20)), millis(drawn.below(20)));
        let renewing = async {
            sleep(first).await;
            if round % 2 == 0 { client.renew(id, until).await } else { other.renew(id, until).await }
        };
        let releasing = async {
            sleep(second).await;
            grant.release().await
        };
        let (renewed, released) = tokio::join!(renewing, releasing);
        assert!(matches!(renewed, Ok(Renewal::Until(_) | Renewal::Ended)), "{renewed:?}");
        assert_eq!(released, Ok(Released::Released));
        world.advance_slots(2).await;
        assert_nothing_is_left(&world, &round);
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_process_of_a_name_takes_over_and_its_predecessors_grants_are_lost_at_once() {
    let world = World::new();
    let old = world.client("car-7").await;
    let mut news = old.events();
    let grant = granted(&old, dock(secs(60))).await;
    let waiting = tokio::spawn({
        let old = old.clone();
        async move { old.declare(dock(secs(1)).wait(secs(9))).await.map(drop) }
    });
    world.advance_slots(1).await;
    let refused = world.connect(Client::builder().name("car-7").refuse_if_live()).await;
    assert!(matches!(refused, Err(ConnectError::SessionLive)));
    assert_eq!(grant.check(), Ok(()));
    let began = world.now();
    let new = world.client("car-7").await;
    assert_eq!(grant.lost().await, Lost::Replaced);
    assert_eq!(world.now(), began, "at once");
    assert!(waiting.await.unwrap().is_err());
    assert_eq!(old.declare(dock(secs(1))).await.map(drop), Err(DeclareError::Replaced));
    while news.next().await.expect("it is told") != Event::Replaced {}
    assert!(
        new.mine().await.unwrap().entries.iter().any(|entry| entry.id == grant.id()),
        "the name still has it"
    );
    drop((grant, old));
    world.advance(secs(1)).await;
    assert!(new.is_connected(), "the old one lets go of nothing that is the new one's");
    assert_eq!(world.grants().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_the_grants_end_is_not_handed_out() {
    let world = World::builder().latency(millis(20)).build();
    let client = world.client("car-7").await;
    let declaring = tokio::spawn({
        let client = client.clone();
        async move { client.declare(dock(millis(300)).id(5)).await.map(drop) }
    });
    world.advance(millis(35)).await;
    assert_eq!(world.grants().len(), 1, "decided, and its answer on its way");
    world.disconnect("car-7");
    world.unreachable("car-7", true);
    world.advance(secs(1)).await;
    assert_nothing_is_left(&world, &"it has ended");
    world.unreachable("car-7", false);
    assert_eq!(declaring.await.unwrap(), Err(DeclareError::Ended { id: IntentId::new(5) }));
}

/// What stands in the way of an answer.
#[derive(Clone, Copy, Debug)]
enum Broken {
    Silent,
    Gone,
    Flapping,
    Slow,
}

#[tokio::test(start_paused = true)]
async fn every_call_ends_in_time_whatever_is_broken() {
    for broken in [Broken::Silent, Broken::Gone, Broken::Flapping, Broken::Slow] {
        for call in 0..5 {
            let world = World::new();
            let client = world.connect(Client::builder().name("car-7").answer_within(secs(2))).await.unwrap();
            let grant = granted(&client, dock(secs(60)).lease()).await;
            let breaking = tokio::spawn({
                let world = world.clone();
                async move {
                    match broken {
                        Broken::Silent => world.unreachable("car-7", true),
                        Broken::Gone => world.restart(secs(60)).await,
                        Broken::Slow => world.latency("car-7", secs(9)),
                        Broken::Flapping => loop {
                            world.disconnect("car-7");
                            sleep(millis(7)).await;
                        },
                    }
                }
            });
            world.advance_slots(1).await;
            let began = Instant::now();
            match call {
                0 => drop(client.declare(dock(secs(1)).wait(secs(1))).await),
                1 => drop(client.release(grant.id()).await),
                2 => drop(client.renew(grant.id(), grant.end()).await),
                3 => drop(client.mine().await),
                _ => drop(client.watch(Filter::all()).await),
            }
            assert!(began.elapsed() <= millis(3_002), "{broken:?}, call {call}: {:?}", began.elapsed());
            breaking.abort();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_did_not_come_in_time_is_unknown_and_is_had_by_asking_again() {
    let world = World::new();
    let client = world.connect(Client::builder().name("car-7").answer_within(secs(2))).await.unwrap();
    world.latency("car-7", secs(9));
    let asked = client.declare(dock(secs(60)).id(5)).await.map(drop);
    assert_eq!(asked, Err(DeclareError::Unknown { id: IntentId::new(5) }));
    world.latency("car-7", Duration::ZERO);
    world.advance(secs(10)).await;
    assert_eq!(world.grants().len(), 1, "it takes its course");
    let again = granted(&client, dock(secs(60)).id(5)).await;
    assert_eq!(again.token(), Token::new(1), "decided once");
    world.unreachable("car-7", true);
    world.advance(secs(11)).await;
    let released = client.release(again.id()).await;
    assert_eq!(released, Err(RequestError::Disconnected));
    world.unreachable("car-7", false);
    world.advance(secs(10)).await;
    assert_nothing_is_left(&world, &"released as soon as it could be");
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_with_another_state_has_nothing_and_everything_held_is_lost() {
    let world = World::new();
    let client = world.client("car-7").await;
    let mut news = client.events();
    let held = granted(&client, dock(secs(60))).await;
    let lease = Intent::asap().claim(path("gate").unwrap().exclusive(), secs(60)).lease();
    let lease = granted(&client, lease).await;
    world.lose_state();
    assert_eq!(held.lost().await, Lost::Unknown);
    assert_eq!(lease.lost().await, Lost::Unknown);
    let mut told = 0;
    while told < 2 {
        told += usize::from(matches!(news.next().await.unwrap(), Event::Lost { why: Lost::Unknown, .. }));
    }
    assert_eq!(granted(&client, dock(secs(1))).await.check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn what_ended_while_an_agent_was_away_is_told_when_it_is_back() {
    let world = World::new();
    let client = world.client("car-7").await;
    let grant = granted(&client, dock(secs(600))).await;
    let mut news = client.events();
    world.unreachable("car-7", true);
    world.advance(secs(20)).await;
    world.release("car-7", grant.id(), "night");
    world.advance(secs(20)).await;
    world.unreachable("car-7", false);
    assert_eq!(grant.lost().await, Lost::Released { reason: Some("night".into()) });
    assert!(matches!(news.next().await, Some(Event::Disconnected { .. })));
    assert!(matches!(news.next().await, Some(Event::Resumed { away, .. }) if away >= secs(30)));
    assert!(matches!(news.next().await, Some(Event::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_finds_its_lease_lost_before_it_acts() {
    let mut drawn = Drawn(41);
    let world = World::builder().latency(millis(1)).build();
    for _ in 0..100 {
        let client = world.client("car-7").await;
        let grant = granted(&client, dock(millis(500)).lease()).await;
        sleep(millis(drawn.below(2_000))).await;
        world.stall("car-7", millis(510 + drawn.below(1_000))).await;
        assert!(grant.check().is_err(), "the first thing it does");
        drop(grant);
        sleep_until(Instant::now() + millis(50)).await;
        assert_nothing_is_left(&world, &"after the stall");
    }
}
