//! The client against a coordinator on real sockets.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

mod house;

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use house::{House, soon};
use preclaim::client::{
    Client, Conflict, DeclareError, Event, Events, Filter, Lost, Released, Renewal, RequestError, Revision,
};
use preclaim::config::Config;
use preclaim::coordinator::{CoordinatorConfig, Feasibility};
use preclaim::resolver::Rules;
use preclaim::types::{IntentId, Micros};
use preclaim::wire::{EntryState, Refusal, Verdict};
use preclaim::{Grant, Intent, Outcome, millis, path, secs};

fn exclusive(name: &str, for_secs: u64) -> Intent {
    Intent::asap().claim(path(name).unwrap().exclusive(), secs(for_secs))
}

async fn granted(client: &Client, intent: Intent) -> Grant {
    match soon(client.declare(intent)).await.unwrap() {
        Outcome::Granted(grant) => grant,
        other => panic!("granted, not {other:?}"),
    }
}

async fn refused(client: &Client, intent: Intent) -> Conflict {
    match soon(client.declare(intent)).await.unwrap() {
        Outcome::Conflict(conflict) => conflict,
        other => panic!("a conflict, not {other:?}"),
    }
}

/// The first event that `wanted` takes.
async fn event<T>(events: &mut Events, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
    soon(async {
        loop {
            if let Some(found) = wanted(events.next().await.expect("the client ended")) {
                return found;
            }
        }
    })
    .await
}

/// Waits until `client`'s name has nothing any more.
async fn nothing_left(client: &Client) {
    soon(async {
        while !client.mine().await.unwrap().entries.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_intent_is_granted_held_and_released() {
    let house = House::open().await;
    let client = house.client("fork-lift-7").await;
    assert_eq!((client.name(), client.label()), ("fork-lift-7", "main"));
    let grant = granted(&client, exclusive("aisle/4", 30)).await;
    assert_eq!(grant.check(), Ok(()));
    assert_eq!(grant.end(), grant.start().after(Micros::from_secs(30)));
    assert_eq!((grant.fence(0).start, grant.fence(0).token), (grant.start(), grant.token()));
    assert!(grant.until() > grant.begins());
    soon(grant.begun()).await;
    let id = grant.id();
    assert_eq!(soon(grant.release()).await, Ok(Released::Released));
    assert_eq!(soon(client.release(id)).await, Ok(Released::AlreadyEnded(None)));
    let again = granted(&client, exclusive("aisle/4", 30)).await;
    soon(client.close()).await;
    assert!(!client.is_connected());
    assert_eq!(again.check(), Ok(()), "a grant in hand stays good without a connection");
    house.close().await;
}

#[tokio::test]
async fn a_conflict_says_who_is_in_the_way_with_what_and_what_is_free_instead() {
    let house = House::open().await;
    let (planner, worker) = (house.client("planner-2").await, house.client("worker").await);
    let grant = granted(&planner, exclusive("file/src", 30).note("refactoring")).await;
    let conflict = refused(&worker, exclusive("file/src/db.rs", 5)).await;
    let [blocker] = conflict.blockers() else { panic!("one blocker") };
    assert_eq!((blocker.agent.as_str(), blocker.id), ("planner-2", grant.id()));
    assert_eq!((blocker.token, blocker.claim, blocker.their_claim), (Some(grant.token()), 0, 0));
    assert_eq!(blocker.holding.as_ref().unwrap().note, "refactoring");
    assert_eq!(conflict.offer(), Some(grant.end()));
    let later = granted(
        &worker,
        Intent::at(conflict.offer().unwrap()).claim(path("file/src/db.rs").unwrap().exclusive(), secs(5)),
    )
    .await;
    assert_eq!(later.start(), grant.end());
    house.close().await;
}

#[tokio::test]
async fn one_that_waits_is_told_so_and_has_its_grant_when_the_holder_goes() {
    let house = House::open().await;
    let (holder, waiter) = (house.client("holder").await, house.client("waiter").await);
    let grant = granted(&holder, exclusive("dock", 60)).await;
    let (mut news, mut mine) = (waiter.events(), holder.events());
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { granted(&waiter, exclusive("dock", 1).wait(secs(60)).note("parcel 12")).await }
    });
    let blocker = event(&mut news, |event| match event {
        Event::Waiting { blockers, .. } => Some(blockers[0].agent.clone()),
        _ => None,
    })
    .await;
    assert_eq!(blocker, "holder");
    let by = event(&mut mine, |event| match event {
        Event::Contested { id, by, note, .. } => {
            assert_eq!((id, note.as_str()), (grant.id(), "parcel 12"));
            Some(by)
        }
        _ => None,
    })
    .await;
    assert_eq!(by, "waiter");
    drop(grant); // sends the release
    let has = soon(waiting).await.unwrap();
    assert_eq!(has.check(), Ok(()));
    house.close().await;
}

#[tokio::test]
async fn a_declaration_dropped_at_any_of_its_awaits_leaves_nothing_behind() {
    let house = House::open().await;
    let client = house.client("hasty").await;
    let mut finished = 0;
    for polls in 0..60 {
        let mut declaring = pin!(client.declare(exclusive("dock", 60)));
        for _ in 0..polls {
            if declaring.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                finished += 1;
                break;
            }
            tokio::time::sleep(millis(1)).await;
        }
    }
    assert!(finished > 0, "some were dropped after their answer had come");
    nothing_left(&client).await;
    house.close().await;
}

#[tokio::test]
async fn a_waiting_declaration_that_is_dropped_is_withdrawn() {
    let house = House::open().await;
    let (holder, waiter) = (house.client("holder").await, house.client("waiter").await);
    let _grant = granted(&holder, exclusive("dock", 60)).await;
    let mut news = waiter.events();
    tokio::select! {
        biased;
        _ = waiter.declare(exclusive("dock", 1).wait(secs(60))) => panic!("it cannot be decided yet"),
        () = event(&mut news, |event| matches!(event, Event::Waiting { .. }).then_some(())) => {}
    }
    nothing_left(&waiter).await;
    house.close().await;
}

#[tokio::test]
async fn a_lease_renews_itself_for_as_long_as_it_is_held() {
    let house = House::open().await;
    let client = house.client("car-7").await;
    let mut news = client.events();
    let lease = Intent::asap().claim(path("dock").unwrap().exclusive(), millis(300)).lease();
    let grant = granted(&client, lease).await;
    let first = grant.end();
    let mut ends = Vec::new();
    while ends.len() < 3 {
        ends.push(
            event(&mut news, |event| match event {
                Event::Renewed { end, .. } => Some(end),
                _ => None,
            })
            .await,
        );
    }
    assert!(first < ends[0] && ends[0] < ends[1] && ends[1] < ends[2]);
    assert!(grant.end() >= ends[2]);
    drop(grant);
    nothing_left(&client).await;
    house.close().await;
}

#[tokio::test]
async fn a_renewal_by_hand_says_the_end_that_stands() {
    let house = House::open().await;
    let (client, other) = (house.client("car-7").await, house.client("car-8").await);
    let lease = granted(&client, exclusive("dock", 30).lease()).await;
    let end = lease.end().after(Micros::from_secs(10));
    assert_eq!(soon(lease.renew(end)).await, Ok(Renewal::Until(end)));
    assert_eq!(lease.end(), end);
    let next = granted(&other, Intent::at(end).claim(path("dock").unwrap().exclusive(), secs(1))).await;
    match soon(lease.renew(end.after(Micros::from_secs(1)))).await.unwrap() {
        Renewal::Denied { end: stands, blockers } => {
            assert_eq!((stands, blockers[0].id), (end, next.id()));
        }
        other => panic!("denied, not {other:?}"),
    }
    assert_eq!(soon(client.renew(IntentId::new(99), end)).await, Ok(Renewal::Ended));
    house.close().await;
}

#[tokio::test]
async fn guarded_work_ends_with_the_grant_and_is_done_before_the_release() {
    let house = House::open().await;
    let client = house.client("car-7").await;
    let grant = granted(&client, Intent::asap().claim(path("dock").unwrap().exclusive(), millis(80))).await;
    assert_eq!(soon(grant.guarded(std::future::pending::<()>())).await, Err(Lost::Ended));
    assert_eq!(grant.check(), Err(Lost::Ended));
    assert_eq!(
        soon(grant.guarded(async { panic!("a dead grant guards nothing") })).await,
        Err::<(), _>(Lost::Ended)
    );
    assert_eq!(soon(grant.release()).await, Ok(Released::AlreadyEnded(Some(Lost::Ended))));
    let grant = granted(&client, exclusive("dock", 30)).await;
    assert_eq!(soon(grant.guarded(async { 7 })).await, Ok(7));
    house.close().await;
}

#[tokio::test]
async fn guarded_work_does_not_start_before_the_window() {
    let house = House::open().await;
    let client = house.client("car-7").await;
    let start = client.coordinator_time().0.after(Micros::from_ms(150));
    let grant = granted(&client, Intent::at(start).claim(path("dock").unwrap().exclusive(), secs(30))).await;
    assert_eq!(grant.start(), start);
    let began = soon(grant.guarded(async { client.reading() })).await.unwrap();
    assert!(began >= start);
    house.close().await;
}

#[tokio::test]
async fn a_newer_process_of_a_name_and_label_takes_its_grants_over() {
    let house = House::open().await;
    let older = house.client("car-7").await;
    let grant = granted(&older, exclusive("dock", 60)).await;
    let mut news = older.events();
    let lost = grant.lost();
    let beside = house.settings("car-7").label("cli").connect().await.unwrap();
    assert_eq!(grant.check(), Ok(()), "another label is another session");
    let newer = house.client("car-7").await;
    assert_eq!(soon(lost).await, Lost::Replaced);
    event(&mut news, |event| matches!(event, Event::Disconnected { .. }).then_some(())).await;
    assert!(matches!(older.declare(exclusive("x", 1)).await, Err(DeclareError::Replaced)));
    let id = grant.id();
    drop(grant);
    let listed = soon(newer.mine()).await.unwrap().entries;
    assert_eq!(listed.iter().map(|entry| entry.id).collect::<Vec<_>>(), [id]);
    assert_eq!(soon(beside.release(id)).await, Ok(Released::Released));
    house.close().await;
}

#[tokio::test]
async fn one_that_asks_not_to_take_over_is_refused_where_a_session_is_live() {
    let house = House::open().await;
    let _live = house.client("car-7").await;
    let error = house.refused(house.settings("car-7").refuse_if_live()).await;
    assert_eq!(error, preclaim::client::ConnectError::SessionLive);
    house.close().await;
}

#[tokio::test]
async fn those_who_look_see_grants_waits_and_decisions() {
    let house = House::open().await;
    let (holder, looker) = (house.client("holder").await, house.settings("").observer());
    let looker = looker.name("looker").connect().await.unwrap();
    let mut watching = looker.watch(Filter::all().under(path("dock").unwrap())).await.unwrap();
    // The watch is in force once the coordinator has answered something sent after it.
    let none = soon(looker.list(Filter::all())).await.unwrap();
    assert!(none.entries.is_empty() && !none.is_cut);
    let _aside = granted(&holder, exclusive("yard", 30)).await;
    let grant = granted(&holder, exclusive("dock/3", 30).note("parcel 12")).await;
    let decision = soon(watching.next()).await.unwrap().unwrap();
    assert_eq!((decision.agent.as_str(), decision.id), ("holder", grant.id()));
    assert!(matches!(decision.verdict, Verdict::Granted { token, .. } if token == grant.token()));
    let waiter = holder.clone();
    let mut news = holder.events();
    let waiting = tokio::spawn(async move { waiter.declare(exclusive("dock", 1).wait(secs(60))).await });
    event(&mut news, |event| matches!(event, Event::Waiting { .. }).then_some(())).await;
    let listed = soon(looker.list(Filter::all().under(path("dock").unwrap()))).await.unwrap().entries;
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().any(|entry| entry.note == "parcel 12"
        && matches!(entry.state, EntryState::Granted { end, .. } if end == grant.end())));
    assert!(listed.iter().any(|entry| matches!(entry.state, EntryState::Undecided { .. })));
    let only = soon(looker.list(Filter::all().undecided())).await.unwrap().entries;
    assert_eq!(only.len(), 1);
    drop(grant);
    let has = soon(waiting).await.unwrap().unwrap();
    assert!(matches!(has, Outcome::Granted(_)));
    house.close().await;
}

#[tokio::test]
async fn a_watch_ends_with_the_reason_and_one_too_many_is_refused() {
    let house = House::open().await;
    let looker = house.settings("looker").observer().connect().await.unwrap();
    let mut watching = Vec::new();
    for _ in 0..preclaim::limits::WATCHES_OF_A_CONNECTION {
        watching.push(looker.watch(Filter::all()).await.unwrap());
        soon(looker.list(Filter::all())).await.unwrap();
    }
    let mut one_more = looker.watch(Filter::all()).await.unwrap();
    match soon(one_more.next()).await {
        Some(Err(RequestError::Rejected { reason: Refusal::Overloaded, .. })) => {}
        other => panic!("refused, not {other:?}"),
    }
    assert!(soon(one_more.next()).await.is_none());
    house.close().await;
    assert!(matches!(soon(watching[0].next()).await, Some(Err(RequestError::Unknown))));
}

#[tokio::test]
async fn an_observers_declaration_is_refused() {
    let house = House::open().await;
    let looker = house.settings("looker").observer().connect().await.unwrap();
    match soon(looker.declare(exclusive("dock", 1))).await.unwrap() {
        Outcome::Rejected(why) => assert_eq!(why.reason(), Refusal::Forbidden),
        other => panic!("rejected, not {other:?}"),
    }
    house.close().await;
}

#[tokio::test]
async fn a_reading_that_was_overtaken_is_stale_and_read_again_it_is_not() {
    let house = House::open().await;
    let (reader, writer) = (house.client("reader").await, house.client("writer").await);
    let as_of = reader.reading();
    let write =
        granted(&writer, Intent::asap().claim(path("db/users").unwrap().exclusive(), millis(1))).await;
    let rests = |as_of| {
        let place = path("db/users").unwrap();
        Intent::asap().claim(place.clone().exclusive(), millis(10)).expect(place, as_of)
    };
    let stale = match soon(reader.declare(rests(as_of))).await.unwrap() {
        Outcome::Stale(stale) => stale,
        other => panic!("stale, not {other:?}"),
    };
    assert_eq!(stale.path(), "db/users");
    assert!(stale.as_of() >= write.start());
    let fresh = soon(async {
        loop {
            let reading = reader.reading();
            if reading >= stale.as_of() {
                break reading;
            }
            tokio::time::sleep(millis(1)).await;
        }
    })
    .await;
    let _grant = granted(&reader, rests(fresh)).await;
    house.close().await;
}

#[tokio::test]
async fn a_rejection_names_the_field_and_what_may_stand_there() {
    let house = House::open().await;
    let client = house.client("car-7").await;
    let why = match soon(client.declare(exclusive("dock", 0))).await.unwrap() {
        Outcome::Rejected(why) => why,
        other => panic!("rejected, not {other:?}"),
    };
    assert_eq!((why.reason(), why.field()), (Refusal::Invalid, "claims[0].duration"));
    assert!(!why.hint().is_empty(), "{why}");
    house.close().await;
}

#[tokio::test]
async fn a_revision_takes_the_grants_place_or_leaves_it_as_it_was() {
    let house = House::open().await;
    let (client, other) = (house.client("car-7").await, house.client("car-8").await);
    let grant = granted(&client, exclusive("dock/3", 30)).await;
    let _yard = granted(&other, exclusive("yard", 60)).await;
    let (token, lost) = (grant.token(), grant.lost());
    match soon(grant.revise(exclusive("yard", 30))).await.unwrap() {
        Revision::Conflict(conflict) => assert!(conflict.kept()),
        other => panic!("a conflict, not {other:?}"),
    }
    assert_eq!((grant.token(), grant.check()), (token, Ok(())));
    assert_eq!(soon(grant.revise(exclusive("dock/4", 40))).await, Ok(Revision::Granted));
    assert!(grant.token() > token);
    assert_eq!(soon(lost).await, Lost::Moved { token: grant.token() });
    assert_eq!(grant.check(), Ok(()), "the grant goes on under its new token");
    assert_eq!(grant.fence(0).token, grant.token());
    drop(grant);
    nothing_left(&client).await;
    house.close().await;
}

#[tokio::test]
async fn a_higher_class_takes_a_grant_that_has_not_begun_and_its_holder_is_told() {
    let rules = Rules { preemption: Some(Micros::from_ms(50)), ..Rules::default() };
    let house = House::with(CoordinatorConfig::in_memory(rules).unwrap()).await;
    let (car, ambulance) = (house.client("car-7").await, house.client("amb-1").await);
    let start = car.coordinator_time().0.after(Micros::from_secs(20));
    let junction = |class, slack| {
        Intent::at(start)
            .claim(path("junction").unwrap().exclusive(), secs(5))
            .class(class)
            .slack(secs(slack))
    };
    let (moves, revoked) = (granted(&car, junction(1, 60)).await, path("bridge").unwrap());
    let stays = granted(&car, Intent::at(start).claim(revoked.clone().exclusive(), secs(5)).class(1)).await;
    let (mut news, lost_move, lost_stay) = (car.events(), moves.lost(), stays.lost());
    let _first = granted(&ambulance, junction(7, 0)).await;
    let _second = granted(&ambulance, Intent::at(start).claim(revoked.exclusive(), secs(5)).class(7)).await;
    assert_eq!(soon(lost_move).await, Lost::Moved { token: moves.token() });
    assert!(moves.start() >= start.after(Micros::from_secs(5)));
    assert!(matches!(soon(lost_stay).await, Lost::Revoked { by, waiting: false, .. } if by == "amb-1"));
    event(&mut news, |event| matches!(event, Event::Moved { id, .. } if id == moves.id()).then_some(()))
        .await;
    event(&mut news, |event| matches!(event, Event::Revoked { id, .. } if id == stays.id()).then_some(()))
        .await;
    house.close().await;
}

#[tokio::test]
async fn more_declarations_than_the_coordinator_takes_wait_for_room() {
    let mut config = CoordinatorConfig::in_memory(Rules::default()).unwrap();
    config.limits.undecided_per_agent = 4;
    let house = House::with(config).await;
    let client = house.client("busy").await;
    let declaring: Vec<_> = (0..20)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move { client.declare(exclusive(&format!("bay/{number}"), 60)).await })
        })
        .collect();
    for one in declaring {
        assert!(matches!(soon(one).await.unwrap(), Ok(Outcome::Granted(_))));
    }
    house.close().await;
}

#[tokio::test]
async fn a_detached_grant_runs_on_alone() {
    let house = House::open().await;
    let client = house.client("car-7").await;
    let id = granted(&client, exclusive("dock", 60)).await.detach();
    soon(client.close()).await;
    let back = house.settings("car-7").label("again").connect().await.unwrap();
    assert_eq!(soon(back.mine()).await.unwrap().entries[0].id, id);
    assert_eq!(soon(back.release(id)).await, Ok(Released::Released));
    house.close().await;
}

#[tokio::test]
async fn when_the_coordinator_goes_agents_are_told_and_grants_in_hand_stay_good() {
    let house = House::open().await;
    let client = house.client("car-7").await;
    let mut news = client.events();
    let grant = granted(&client, exclusive("dock", 60)).await;
    let waiter = client.clone();
    let waiting =
        tokio::spawn(async move { waiter.declare(exclusive("dock", 1).wait(secs(60)).id(5)).await });
    event(&mut news, |event| matches!(event, Event::Waiting { .. }).then_some(())).await;
    house.close().await;
    event(&mut news, |event| matches!(event, Event::Draining { .. }).then_some(())).await;
    event(&mut news, |event| matches!(event, Event::Disconnected { .. }).then_some(())).await;
    assert_eq!(grant.check(), Ok(()));
    soon(client.close()).await;
    let unknown = soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(unknown, DeclareError::Unknown { id: IntentId::new(5) });
    assert!(unknown.is_retryable());
    assert!(matches!(client.declare(exclusive("x", 1)).await, Err(DeclareError::Disconnected)));
}

#[tokio::test]
async fn a_client_that_goes_with_declarations_in_flight_leaves_no_orphan() {
    let house = House::open().await;
    for round in 0..20 {
        let client = house.settings("hasty").label(format!("round-{round}")).connect().await.unwrap();
        let declaring = tokio::spawn({
            let client = client.clone();
            async move { drop(client.declare(exclusive(&format!("bay/{round}"), 60)).await) }
        });
        tokio::time::sleep(millis(round % 12)).await;
        soon(client.close()).await;
        declaring.abort();
    }
    nothing_left(&house.settings("hasty").label("after").connect().await.unwrap()).await;
    house.close().await;
}

/// A box of 2 m that is `x` metres on, `ms` after the start.
fn driving(intent: Intent, x: f64, ms: u64) -> Intent {
    let area = path("map/junction").unwrap().area([x - 1.0, 0.0], [x + 1.0, 2.0]);
    intent.claim_after(millis(ms), area.exclusive(), millis(100))
}

#[tokio::test]
async fn what_cannot_be_driven_is_rejected_as_infeasible_and_leaves_a_grant_as_it_was() {
    let text = "[[frame]]\npath = \"map\"\nmax_speed = 20\nmax_acceleration = 8\ntolerance = 0\n";
    let frames = Config::parse("test.toml", text).unwrap().frames;
    let mut config = CoordinatorConfig::in_memory(Rules::default()).unwrap();
    config.admission = Arc::new(Feasibility::new(frames));
    let house = House::with(config).await;
    let client = house.client("car-7").await;
    let drive = |x| driving(driving(Intent::asap(), 0.0, 0), x, 100);

    let Outcome::Rejected(why) = soon(client.declare(drive(2.5))).await.unwrap() else { panic!("25 m/s") };
    assert_eq!((why.reason(), why.field(), why.kept()), (Refusal::Infeasible, "claims[1]", false));
    assert_eq!(
        why.hint(),
        "from claims[0] to claims[1] it needs 25 m/s, map/junction allows 20 m/s: 125 ms or more between their starts, or \
         a nearer region"
    );
    let grant = granted(&client, drive(2.0)).await;
    let revised = soon(grant.revise(driving(drive(2.0), 8.0, 200))).await.unwrap();
    let Revision::Rejected(why) = revised else { panic!("60 m/s") };
    assert_eq!((why.reason(), why.field(), why.kept()), (Refusal::Infeasible, "claims[2]", true));
    house.close().await;
}

#[tokio::test]
async fn intents_on_many_lanes_are_granted_renewed_and_released_as_on_one() {
    let house = House::open().await;
    let client = soon(house.settings("gateway").lanes(8).connect()).await.unwrap();
    let declare = |number: u32| {
        let client = client.clone();
        async move { granted(&client, exclusive(&format!("bay/{number}"), 30).lease()).await }
    };
    let mut declaring: tokio::task::JoinSet<Grant> = (0..40).map(declare).collect();
    let mut grants = Vec::new();
    while let Some(grant) = soon(declaring.join_next()).await {
        grants.push(grant.unwrap());
    }
    let [first, second, ..] = &grants[..] else { panic!("forty") };
    assert!(matches!(
        soon(first.renew(first.end().after(Micros::from_secs(10)))).await,
        Ok(Renewal::Until(_))
    ));
    let revised = exclusive("bay/50", 30).lease();
    assert!(matches!(soon(second.revise(revised)).await, Ok(Revision::Granted)));
    // Nobody waits for these, and goodbye does not overtake them.
    drop(grants);
    soon(client.close()).await;
    nothing_left(&house.client("gateway").await).await;
}
