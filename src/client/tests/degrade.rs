//! Pursuits: what is tried again, how it ends without a grant, and what is told of that.

use std::future::ready;
use std::sync::{Mutex, atomic};

use super::*;
use crate::client::degrade::{
    Attempt, Cause, Conduct, Degrade, Degraded, PursueError, Pursued, Setback, TRIES, Tally,
};
use crate::wire::{self, Degradations, Refusal};

pub(super) async fn up_with(settings: ClientBuilder) -> (Client, Peer, Hand, Come) {
    let clock = Hand::new();
    let (peers, mut come) = mpsc::unbounded_channel();
    let connecting = settings.name("car-7").connect_by(Arc::new(Pipes { clock: clock.clone(), peers }));
    let welcoming = async {
        let mut peer = come.recv().await.unwrap();
        peer.welcome().await;
        peer
    };
    let (client, peer) = tokio::join!(connecting, welcoming);
    (client.unwrap(), peer, clock, come)
}

fn all(policy: Degrade) -> ClientBuilder {
    Client::builder().degrade_otherwise(policy)
}

/// Does `doing` while time passes in steps of 10 ms whenever nothing else happens.
async fn meanwhile<T>(clock: &Hand, doing: impl Future<Output = T>) -> T {
    let passing = async {
        loop {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            clock.forward(millis(10));
        }
    };
    tokio::select! {
        biased;
        done = doing => done,
        () = passing => unreachable!("time does not end"),
    }
}

async fn declared(peer: &mut Peer) -> crate::wire::Declaration {
    loop {
        match peer.receive().await {
            ToCoordinator::Declare(mut declare) => break declare.batch.remove(0),
            ToCoordinator::List(_) => {}
            other => panic!("a declaration, not {other:?}"),
        }
    }
}

async fn released(peer: &mut Peer) -> u64 {
    loop {
        match peer.receive().await {
            ToCoordinator::Release(release) => break release.id.number(),
            ToCoordinator::List(_) => {}
            other => panic!("a release, not {other:?}"),
        }
    }
}

fn conflict(offer: Option<Time>) -> Verdict {
    Verdict::Conflict(wire::Conflict {
        is_final: true,
        deadlock: false,
        offer,
        blockers: vec![],
        kept: false,
    })
}

fn overloaded(retry_after: Duration) -> Verdict {
    let retry_after_us = Some(u64::try_from(retry_after.as_micros()).unwrap());
    let reason = Refusal::Overloaded;
    Verdict::Rejected { reason, field: String::new(), hint: String::new(), retry_after_us, kept: false }
}

/// Answers the next declaration.
async fn answered(peer: &mut Peer, verdict: Verdict) {
    let asked = declared(peer).await;
    peer.answer(asked.request, asked.intent.id, verdict).await;
}

fn the_dock(_: Attempt) -> std::future::Ready<Intent> {
    ready(dock())
}

fn degraded(pursued: Result<Pursued, PursueError>) -> Degraded {
    match pursued {
        Ok(Pursued::Degraded(degraded)) => degraded,
        other => panic!("degraded, not {other:?}"),
    }
}

fn cut(peer: &Peer) {
    peer.closed.send_replace(Some(Closed::because("cable cut")));
}

async fn is_away(client: &Client) {
    while client.is_connected() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn without_a_coordinator_it_stops_after_its_time_and_the_next_time_at_once() {
    let (client, peer, clock, come) = up_with(all(Degrade::stop().when_silent(secs(3)))).await;
    drop(come);
    cut(&peer);
    is_away(&client).await;
    let began = Clock::now(&clock);
    let it = degraded(meanwhile(&clock, client.pursue(the_dock)).await);
    assert_eq!((it.why().cause(), it.why().tries()), (Cause::Silence, 1));
    assert!(matches!(it.conduct(), Conduct::Stop));
    let took = Clock::now(&clock) - began;
    assert!(took >= secs(3) && took <= secs(3) + millis(10), "{took:?}");
    let it = degraded(meanwhile(&clock, client.pursue(the_dock)).await);
    assert_eq!((it.why().cause(), it.why().tries()), (Cause::Silence, 0), "it has been silent for long");
    let degradations = client.degradations();
    let since_start = degradations.since_start;
    assert_eq!(since_start, degradations.unreported);
    assert_eq!((since_start.stopped, since_start.silence, since_start.total()), (2, 2, 2));
}

#[tokio::test]
async fn a_coordinator_that_hears_and_says_nothing_is_silent_too_but_not_while_the_intent_waits() {
    let (client, mut peer, clock, _come) = up_with(all(Degrade::stop().when_silent(secs(1)))).await;
    let began = Clock::now(&clock);
    let hearing = async {
        let id = declared(&mut peer).await.intent.id;
        // Its pings are answered, and it is not; then it is withdrawn.
        assert_eq!(released(&mut peer).await, id);
    };
    let pursuing = client.pursue(|_| ready(dock().wait(secs(5))));
    let (pursued, ()) = meanwhile(&clock, async { tokio::join!(pursuing, hearing) }).await;
    assert_eq!(degraded(pursued).why().cause(), Cause::Silence);
    let took = Clock::now(&clock) - began;
    assert!(took >= secs(6) && took < secs(7), "{took:?}");
}

#[tokio::test]
async fn as_many_conflicts_and_stale_answers_in_a_row_as_it_takes_end_it_and_a_grant_breaks_the_row() {
    let (client, mut peer, clock, _come) = up_with(all(Degrade::stop().after(3))).await;
    for _ in 0..2 {
        let answering = async {
            answered(&mut peer, conflict(None)).await;
            answered(&mut peer, conflict(None)).await;
            peer.grant(9, Micros::from_secs(1)).await
        };
        let (pursued, id) =
            meanwhile(&clock, async { tokio::join!(client.pursue(the_dock), answering) }).await;
        assert!(matches!(pursued, Ok(Pursued::Granted(grant)) if grant.id().number() == id));
        assert_eq!(released(&mut peer).await, id, "dropped here");
    }
    assert_eq!(client.degradations().since_start, Tally::default());
    let answering = async {
        answered(&mut peer, conflict(None)).await;
        answered(&mut peer, overloaded(millis(1))).await;
        answered(&mut peer, conflict(None)).await;
        let as_of = peer.clock.coordinator();
        answered(&mut peer, Verdict::Stale { path: "dock".into(), as_of, kept: false }).await;
    };
    let (pursued, ()) = meanwhile(&clock, async { tokio::join!(client.pursue(the_dock), answering) }).await;
    let it = degraded(pursued);
    assert_eq!((it.why().cause(), it.why().tries()), (Cause::Stale, 4));
    assert!(matches!(it.why().last(), Some(Setback::Stale(_))));
    assert!(peer.received_by_now().await.is_none(), "and it asks no more");
}

#[tokio::test]
async fn the_next_intent_is_made_of_the_offer_or_of_a_reading_as_new_as_it_has_to_be() {
    let (client, mut peer, clock, _come) = up_with(all(Degrade::stop())).await;
    let place = || path("dock").unwrap();
    let next = |attempt: Attempt| {
        let start = attempt.offer().map_or(Intent::asap(), Intent::at);
        let intent = start.claim(place().exclusive(), secs(1));
        ready(match attempt.read_after() {
            Some(as_of) => intent.expect(place(), as_of),
            None => intent,
        })
    };
    let offer = clock.coordinator().after(Micros::from_secs(7));
    let as_of = clock.coordinator().after(Micros::from_ms(3));
    let answering = async {
        answered(&mut peer, conflict(Some(offer))).await;
        let second = declared(&mut peer).await;
        let stale = Verdict::Stale { path: "dock".into(), as_of, kept: false };
        peer.answer(second.request, second.intent.id, stale).await;
        let third = declared(&mut peer).await;
        let start = peer.clock.coordinator();
        let end = start.after(Micros::from_secs(1));
        let granted = Verdict::Granted { start, end, token: Token::new(2) };
        peer.answer(third.request, third.intent.id, granted).await;
        (second.intent, third.intent)
    };
    let (pursued, (second, third)) =
        meanwhile(&clock, async { tokio::join!(client.pursue(next), answering) }).await;
    assert!(matches!(pursued, Ok(Pursued::Granted(_))));
    assert_eq!(second.start, Some(offer.as_us()));
    assert_eq!((third.start, third.expects[0].as_of), (None, as_of.as_us()));
    assert_ne!(second.id, third.id);
}

#[tokio::test]
async fn what_has_no_known_fate_is_asked_again_as_it_was_before_anything_new_is_asked_for() {
    let settings = all(Degrade::stop().when_silent(secs(30))).answer_within(secs(2));
    let (client, mut peer, clock, _come) = up_with(settings).await;
    let asked_for = atomic::AtomicU32::new(0);
    let begins = Clock::now(&clock) + secs(60);
    let next = |_: Attempt| {
        asked_for.fetch_add(1, atomic::Ordering::Relaxed);
        ready(Intent::at(begins).claim(path("dock").unwrap().exclusive(), secs(1)))
    };
    let answering = async {
        let first = declared(&mut peer).await;
        // It takes its course, and nobody hears of it in time: the number is used up.
        peer.clock.forward(secs(2));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let start = peer.clock.coordinator();
        let end = start.after(Micros::from_secs(90));
        let verdict = Verdict::Granted { start, end, token: Token::new(2) };
        peer.answer(first.request, first.intent.id, verdict.clone()).await;
        let again = declared(&mut peer).await;
        peer.answer(again.request, again.intent.id, overloaded(millis(20))).await;
        let once_more = declared(&mut peer).await;
        peer.answer(once_more.request, once_more.intent.id, verdict).await;
        (first.intent, again.intent, once_more.intent)
    };
    let (pursued, (first, again, once_more)) =
        meanwhile(&clock, async { tokio::join!(client.pursue(next), answering) }).await;
    assert!(matches!(pursued, Ok(Pursued::Granted(grant)) if grant.id().number() == first.id));
    assert_eq!((&first, &first), (&again, &once_more), "the start by the agent's clock included");
    assert_eq!(asked_for.into_inner(), 1);
}

#[tokio::test]
async fn an_unknown_fate_is_not_left_behind_where_it_ends_degraded() {
    let settings = all(Degrade::stop().when_silent(secs(30)).tries(1)).answer_within(secs(2));
    let (client, mut peer, clock, _come) = up_with(settings).await;
    let answering = async {
        let id = declared(&mut peer).await.intent.id;
        assert_eq!(released(&mut peer).await, id);
    };
    let (pursued, ()) = meanwhile(&clock, async { tokio::join!(client.pursue(the_dock), answering) }).await;
    let it = degraded(pursued);
    assert_eq!(it.why().cause(), Cause::Tries);
    assert!(matches!(it.why().last(), Some(Setback::NoOutcome(DeclareError::Unknown { .. }))));
    assert_eq!(client.degradations().since_start.limits, 1);
}

#[tokio::test]
async fn a_pause_is_no_shorter_than_the_coordinator_asks_for_and_the_tries_have_an_end() {
    let (client, mut peer, clock, _come) = up_with(all(Degrade::stop().pauses(millis(10), millis(10)))).await;
    let answering = async {
        let mut last: Option<Instant> = None;
        for _ in 0..TRIES {
            let asked = declared(&mut peer).await;
            let now = Clock::now(&peer.clock);
            assert!(last.is_none_or(|last| now - last >= millis(505)), "{:?}", last.map(|last| now - last));
            last = Some(now);
            peer.answer(asked.request, asked.intent.id, overloaded(millis(500))).await;
        }
    };
    let (pursued, ()) = meanwhile(&clock, async { tokio::join!(client.pursue(the_dock), answering) }).await;
    let it = degraded(pursued);
    assert_eq!((it.why().cause(), it.why().tries()), (Cause::Tries, TRIES));
    // Longer than all of it may take: no pause is made.
    let began = Clock::now(&clock);
    let answering = answered(&mut peer, overloaded(secs(3600)));
    let (pursued, ()) = meanwhile(&clock, async { tokio::join!(client.pursue(the_dock), answering) }).await;
    assert_eq!(degraded(pursued).why().cause(), Cause::Time);
    assert!(Clock::now(&clock) - began < secs(1));
}

#[tokio::test]
async fn what_no_retry_mends_is_an_error_at_once_and_no_degradation() {
    let (client, mut peer, clock, _come) = up_with(all(Degrade::stop())).await;
    let verdict = Verdict::Rejected {
        reason: Refusal::Invalid,
        field: "claims[0].duration".into(),
        hint: String::new(),
        retry_after_us: None,
        kept: false,
    };
    let answering = answered(&mut peer, verdict);
    let (pursued, ()) = meanwhile(&clock, async { tokio::join!(client.pursue(the_dock), answering) }).await;
    assert!(matches!(pursued, Err(PursueError::Rejected(why)) if why.reason() == Refusal::Invalid));
    meanwhile(&clock, client.close()).await;
    let closed = client.pursue(the_dock).await;
    assert!(matches!(closed, Err(PursueError::Declare(DeclareError::Disconnected))), "{closed:?}");
    assert_eq!(client.degradations().since_start, Tally::default());
}

#[tokio::test]
async fn the_last_plan_of_the_resource_is_kept_to_unless_it_was_taken_away() {
    let keep = Degrade::keep_last_plan().after(1);
    let (client, mut peer, clock, _come) =
        up_with(Client::builder().degrade(path("dock").unwrap(), keep)).await;
    let conflicting = async |peer: &mut Peer| {
        let answering = answered(peer, conflict(None));
        let (pursued, ()) =
            meanwhile(&clock, async { tokio::join!(client.pursue(the_dock), answering) }).await;
        degraded(pursued)
    };
    assert!(matches!(conflicting(&mut peer).await.conduct(), Conduct::Stop), "it has had none");
    let grant = granted(&client, &mut peer, dock().note("the plan").lease()).await;
    let (id, end) = (grant.id(), grant.end());
    let it = conflicting(&mut peer).await;
    let Conduct::KeepLastPlan(plan) = it.conduct() else { panic!("its plan, not {it}") };
    assert_eq!((plan.id(), plan.end(), plan.intent().note.as_str()), (id, end, "the plan"));
    assert!(plan.until() <= grant.until());
    // It is followed as it is renewed, and kept to after it has run out.
    clock.forward(millis(400));
    let ToCoordinator::Renew(renew) = peer.receive().await else { panic!("a renewal") };
    peer.answer(renew.request, renew.id.number(), Verdict::Renewed { end: renew.until }).await;
    while grant.end() == end {
        tokio::task::yield_now().await;
    }
    drop(grant);
    assert_eq!(released(&mut peer).await, id.number());
    let it = conflicting(&mut peer).await;
    assert!(matches!(it.conduct(), Conduct::KeepLastPlan(plan) if plan.end() == renew.until));
    // What was taken away is not.
    let grant = granted(&client, &mut peer, dock()).await;
    let revoked =
        Verdict::Revoked { by: "amb-1".into(), by_id: IntentId::new(1), offer: None, waiting: false };
    peer.answer(0, grant.id().number(), revoked).await;
    assert!(matches!(grant.lost().await, Lost::Revoked { .. }));
    assert!(matches!(conflicting(&mut peer).await.conduct(), Conduct::Stop));
    let tally = client.degradations().since_start;
    assert_eq!((tally.stopped, tally.kept_last_plan, tally.conflicts), (2, 2, 4));
}

#[tokio::test]
async fn the_function_that_it_falls_back_to_is_told_why_once() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let policy = Degrade::fall_back(move |why| log.lock().unwrap().push((why.cause(), why.tries()))).after(2);
    let (client, mut peer, clock, _come) =
        up_with(Client::builder().degrade(path("dock").unwrap(), policy)).await;
    let answering = async {
        answered(&mut peer, conflict(None)).await;
        answered(&mut peer, conflict(None)).await;
    };
    let (pursued, ()) = meanwhile(&clock, async { tokio::join!(client.pursue(the_dock), answering) }).await;
    assert!(matches!(degraded(pursued).conduct(), Conduct::FellBack));
    assert_eq!(*told.lock().unwrap(), [(Cause::Conflicts, 2)]);
}

#[tokio::test]
async fn what_was_counted_is_told_once_to_the_agent_and_to_the_coordinator_when_a_connection_stands() {
    let (client, peer, clock, mut come) = up_with(all(Degrade::stop().when_silent(millis(50)))).await;
    let mut news = client.events();
    cut(&peer);
    is_away(&client).await;
    let _ = degraded(meanwhile(&clock, client.pursue(the_dock)).await);
    let _ = degraded(meanwhile(&clock, client.pursue(the_dock)).await);
    assert_eq!(client.degradations().unreported.total(), 2);
    // A connection that is lost before its welcome has told nobody.
    let mut early = meanwhile(&clock, come.recv()).await.unwrap();
    let ToCoordinator::Hello(unheard) = early.receive().await else { panic!("a hello") };
    let both = Some(Degradations { stopped: 2, kept_last_plan: 0, fell_back: 0 });
    assert_eq!(unheard.degradations(), both);
    cut(&early);
    let mut again = meanwhile(&clock, come.recv()).await.unwrap();
    again.welcome().await;
    assert_eq!(again.hello.as_ref().unwrap().degradations(), both);
    assert!(matches!(news.next().await, Some(Event::Disconnected { .. })));
    match news.next().await {
        Some(Event::Resumed { degradations, .. }) => {
            assert_eq!((degradations.stopped, degradations.silence), (2, 2))
        }
        other => panic!("resumed, not {other:?}"),
    }
    assert_eq!(client.degradations().unreported, Tally::default());
    assert_eq!(client.degradations().since_start.total(), 2);
    cut(&again);
    let mut once_more = meanwhile(&clock, come.recv()).await.unwrap();
    once_more.welcome().await;
    assert_eq!(once_more.hello.as_ref().unwrap().degradations(), None, "nothing new");
}

/// As for a declaration: each grant that the coordinator gave out has been released.
#[tokio::test]
async fn a_pursuit_that_is_dropped_at_any_await_leaves_no_grant_behind() {
    for polls in 0..40 {
        let settings = all(Degrade::stop().when_silent(secs(60))).answer_within(millis(20));
        let (client, mut peer, clock, _come) = up_with(settings).await;
        let mut pursuing = Box::pin(client.pursue(|_| ready(dock().id(5))));
        let mut live = false;
        for poll in 0..polls {
            if futures_poll(&mut pursuing).await.is_some() {
                break; // the grant is dropped here
            }
            // Time passes, so that it becomes unknown, pauses, and is asked again.
            clock.forward(millis(7));
            if let Some(ToCoordinator::Declare(declare)) = peer.received_by_now().await {
                // Granted each time, and told only to who asks late enough.
                live = true;
                if poll > 25 {
                    let start = peer.clock.coordinator();
                    let end = start.after(Micros::from_secs(1));
                    let verdict = Verdict::Granted { start, end, token: Token::new(3) };
                    peer.answer(declare.batch[0].request, 5, verdict).await;
                }
            }
        }
        drop(pursuing);
        // The client lives on: its goodbye would withdraw what is left.
        while let Some(message) = peer.received_by_now().await {
            match message {
                ToCoordinator::Declare(_) => live = true,
                ToCoordinator::Release(release) => {
                    assert_eq!(release.id, IntentId::new(5));
                    live = false;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(!live, "after {polls} polls");
    }
}
