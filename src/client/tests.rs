//! The client on virtual lanes and a clock that stands until it is told: what no real network shows
//! on demand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};

use super::connector::{Boxed, Clock, Closed, Connector, Lane, Link};
use super::*;
use crate::types::{Fence, Slot, Token};
use crate::wire::{
    Answer, ClockPong, CloseCode, Extensions, FrameReader, Hello, ToAgent, ToCoordinator, Verdict, Welcome,
    WireLimits,
};

mod degrade;
mod lanes;

/// A clock that is moved by hand.
#[derive(Clone, Debug)]
struct Hand {
    origin: Instant,
    since: watch::Sender<Duration>,
}

impl Hand {
    fn new() -> Self {
        Hand { origin: Instant::now(), since: watch::Sender::new(Duration::ZERO) }
    }

    fn forward(&self, by: Duration) {
        self.since.send_modify(|since| *since += by);
    }

    /// Moves on, but wakes nobody: as after a process was stopped, before any of its tasks has run.
    fn forward_unnoticed(&self, by: Duration) {
        self.since.send_if_modified(|since| {
            *since += by;
            false
        });
    }

    /// The coordinator's clock, 100 s ahead of the agent's.
    fn coordinator(&self) -> Time {
        let since = u64::try_from(self.since.borrow().as_micros()).unwrap();
        Time::from_us(100_000_000 + since)
    }
}

impl Clock for Hand {
    fn now(&self) -> Instant {
        self.origin + *self.since.borrow()
    }

    fn sleep_until(&self, at: Instant) -> Boxed<'static, ()> {
        let (origin, mut since) = (self.origin, self.since.subscribe());
        Box::pin(async move {
            if since.wait_for(|since| origin + *since >= at).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// A connection whose other end is in the test.
struct Pipe {
    lanes: mpsc::UnboundedSender<DuplexStream>,
    closed: watch::Sender<Option<Closed>>,
}

impl Link for Pipe {
    fn open_lane(&self) -> Boxed<'_, Result<Lane, Closed>> {
        let (here, there) = tokio::io::duplex(1 << 16);
        let open = self.lanes.send(there).is_ok();
        let (reader, writer) = tokio::io::split(here);
        let lost = Closed::because("gone");
        let lane = Lane { reader: Box::new(reader), writer: Box::new(writer) };
        Box::pin(async move { open.then_some(lane).ok_or(lost) })
    }

    fn close(&self, _: CloseCode, why: &str) {
        self.closed.send_replace(Some(Closed::because(why)));
    }

    fn closed(&self) -> Boxed<'_, Closed> {
        let mut closed = self.closed.subscribe();
        Box::pin(async move {
            match closed.wait_for(Option::is_some).await.map(|closed| closed.clone()) {
                Ok(Some(closed)) => closed,
                _ => std::future::pending().await,
            }
        })
    }
}

#[derive(Debug)]
struct Pipes {
    clock: Hand,
    peers: mpsc::UnboundedSender<Peer>,
}

impl Connector for Pipes {
    fn connect(&self) -> Boxed<'_, Result<Arc<dyn Link>, ConnectError>> {
        let (lanes, opened) = mpsc::unbounded_channel();
        let closed = watch::Sender::new(None);
        let peer = Peer {
            lanes: opened,
            lane: None,
            frames: FrameReader::new(),
            clock: self.clock.clone(),
            closed: closed.clone(),
            hello: None,
        };
        let nobody = self.peers.send(peer).is_err();
        Box::pin(async move {
            if nobody {
                return Err(ConnectError::Local { why: "the test takes no more connections".into() });
            }
            Ok(Arc::new(Pipe { lanes, closed }) as Arc<dyn Link>)
        })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    /// Nothing by chance: a pause before another try is as long as it can be, and ids go on from here.
    fn draw(&self) -> u128 {
        0xffff_ffff_0000_0001
    }
}

/// The coordinator's end, scripted by the test.
#[derive(Debug)]
struct Peer {
    lanes: mpsc::UnboundedReceiver<DuplexStream>,
    lane: Option<(ReadHalf<DuplexStream>, WriteHalf<DuplexStream>)>,
    frames: FrameReader,
    clock: Hand,
    closed: watch::Sender<Option<Closed>>,
    /// What it was greeted with.
    hello: Option<Hello>,
}

impl Peer {
    async fn send(&mut self, message: impl Into<ToAgent>) {
        let mut bytes = Vec::new();
        message.into().encode(&mut bytes).unwrap();
        self.lane.as_mut().unwrap().1.write_all(&bytes).await.unwrap();
    }

    /// The next message; pings are answered on the way.
    async fn receive(&mut self) -> ToCoordinator {
        if self.lane.is_none() {
            self.lane = Some(tokio::io::split(self.lanes.recv().await.unwrap()));
        }
        loop {
            match self.frames.next_frame().unwrap().map(|frame| ToCoordinator::decode(frame).unwrap()) {
                Some(ToCoordinator::ClockPing(ping)) => {
                    let coordinator = self.clock.coordinator();
                    self.send(ClockPong { seq: ping.seq, client_us: ping.client_us, coordinator }).await;
                }
                Some(message) => return message,
                None => {
                    let mut chunk = [0; 1024];
                    let read = self.lane.as_mut().unwrap().0.read(&mut chunk).await.unwrap();
                    assert!(read > 0, "the client ended the lane");
                    self.frames.push(&chunk[..read]);
                }
            }
        }
    }

    /// As [`Peer::receive`], where there is something by now.
    async fn received_by_now(&mut self) -> Option<ToCoordinator> {
        tokio::select! {
            biased;
            message = self.receive() => Some(message),
            () = async { for _ in 0..10 { tokio::task::yield_now().await } } => None,
        }
    }

    async fn welcome(&mut self) {
        let ToCoordinator::Hello(hello) = self.receive().await else { panic!("a hello") };
        self.hello = Some(hello.clone());
        let limits = WireLimits { frame_bytes: 65_536, batch: 256, lanes: 8, undecided: 8 };
        self.send(Welcome {
            version: 1,
            name: hello.name.unwrap(),
            label: hello.label,
            session: 1,
            resumed: false,
            state: 1,
            slot_length: Micros::from_ms(10),
            min_lead: Micros::ZERO,
            horizon: Micros::from_secs(86_400),
            slot: Slot::new(1),
            now: self.clock.coordinator(),
            limits,
            software: String::new(),
            extensions: Extensions::NONE,
        })
        .await;
    }

    async fn answer(&mut self, request: u64, id: u64, verdict: Verdict) {
        let at = self.clock.coordinator();
        let (id, slot) = (IntentId::new(id), Slot::of(at, Micros::from_ms(10)));
        let extensions = Extensions::NONE;
        self.send(Answer { request, id, slot, at, repeat: false, verdict, extensions }).await;
    }

    /// Takes the next declaration and grants it for `span` from now on.
    async fn grant(&mut self, token: u64, span: Micros) -> u64 {
        let ToCoordinator::Declare(declare) = self.receive().await else { panic!("a declaration") };
        let (request, id) = (declare.batch[0].request, declare.batch[0].intent.id);
        let start = self.clock.coordinator();
        let verdict = Verdict::Granted { start, end: start.after(span), token: Token::new(token) };
        self.answer(request, id, verdict).await;
        id
    }
}

/// The connections that the client makes.
type Come = mpsc::UnboundedReceiver<Peer>;

async fn up() -> (Client, Peer, Hand) {
    let (client, peer, clock, _) = up_for_more().await;
    (client, peer, clock)
}

async fn up_for_more() -> (Client, Peer, Hand, Come) {
    let clock = Hand::new();
    let (peers, mut come) = mpsc::unbounded_channel();
    let connector = Pipes { clock: clock.clone(), peers };
    let connecting = Client::builder().name("car-7").connect_by(Arc::new(connector));
    let welcoming = async {
        let mut peer = come.recv().await.unwrap();
        peer.welcome().await;
        peer
    };
    let (client, peer) = tokio::join!(connecting, welcoming);
    (client.unwrap(), peer, clock, come)
}

/// Breaks the connection, and lets the client have another.
async fn reconnected(peer: &Peer, clock: &Hand, come: &mut Come) -> Peer {
    peer.closed.send_replace(Some(Closed::because("cable cut")));
    let mut again = loop {
        clock.forward(millis(20));
        tokio::select! {
            biased;
            peer = come.recv() => break peer.unwrap(),
            () = tokio::task::yield_now() => {}
        }
    };
    again.welcome().await;
    again
}

fn dock() -> Intent {
    Intent::asap().claim(path("dock").unwrap().exclusive(), secs(1))
}

async fn granted(client: &Client, peer: &mut Peer, intent: Intent) -> Grant {
    let (outcome, _) = tokio::join!(client.declare(intent), peer.grant(9, Micros::from_secs(1)));
    match outcome {
        Ok(Outcome::Granted(grant)) => grant,
        other => panic!("granted, not {other:?}"),
    }
}

#[tokio::test]
async fn a_process_that_was_stopped_past_its_lease_finds_it_lost_before_it_acts() {
    let (client, mut peer, clock) = up().await;
    let grant = granted(&client, &mut peer, dock().lease()).await;
    assert_eq!(grant.check(), Ok(()));
    clock.forward_unnoticed(secs(2));
    assert_eq!(grant.check(), Err(Lost::Ended), "though no timer has run");
    assert_eq!(grant.guarded(async { panic!("it must not act") }).await, Err::<(), _>(Lost::Ended));
}

#[tokio::test]
async fn a_grant_is_lost_by_its_own_timer_while_the_coordinator_says_nothing() {
    let (client, mut peer, clock) = up().await;
    let grant = granted(&client, &mut peer, dock().lease()).await;
    let mut news = client.events();
    let lost = tokio::spawn(grant.lost());
    clock.forward(millis(400));
    assert!(matches!(peer.receive().await, ToCoordinator::Renew(_)), "asked, and never answered");
    clock.forward(millis(590));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!lost.is_finished());
    clock.forward(millis(10));
    assert_eq!(lost.await.unwrap(), Lost::Unreachable, "its renewals were not answered");
    assert!(matches!(news.next().await, Some(Event::Lost { why: Lost::Unreachable, .. })));
    loop {
        // More renewals may have been asked for on the way.
        match peer.receive().await {
            ToCoordinator::Renew(_) => {}
            ToCoordinator::Release(release) => break assert_eq!(release.id, grant.id()),
            other => panic!("a release, not {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_grant_in_hand_outlives_its_connection_and_what_was_not_answered_is_asked_again() {
    let (client, mut peer, clock, mut come) = up_for_more().await;
    let grant = granted(&client, &mut peer, dock()).await;
    let mut news = client.events();
    let open = tokio::spawn({
        let client = client.clone();
        async move { client.declare(dock().id(5)).await }
    });
    let ToCoordinator::Declare(first) = peer.receive().await else { panic!("a declaration") };
    let mut peer = reconnected(&peer, &clock, &mut come).await;
    assert_eq!(news.next().await, Some(Event::Disconnected { why: "cable cut".into() }));
    assert!(matches!(news.next().await, Some(Event::Resumed { .. })));
    assert_eq!(grant.check(), Ok(()));
    let ToCoordinator::List(list) = peer.receive().await else { panic!("the question how things stand") };
    assert_eq!(list.standings(), Ok(Some(vec![grant.id()])));
    let ToCoordinator::Declare(second) = peer.receive().await else { panic!("a declaration") };
    assert_eq!(first, second);
    let start = clock.coordinator();
    let verdict = Verdict::Granted { start, end: start.after(Micros::from_secs(1)), token: Token::new(12) };
    peer.answer(second.batch[0].request, 5, verdict).await;
    assert!(matches!(open.await.unwrap(), Ok(Outcome::Granted(grant)) if grant.token() == Token::new(12)));
    clock.forward(secs(1));
    assert_eq!(grant.lost().await, Lost::Ended);
}

#[tokio::test]
async fn a_call_ends_in_time_as_unknown_where_it_may_have_been_heard_and_as_disconnected_where_not() {
    let (client, mut peer, clock, _come) = up_for_more().await;
    let declare = |id| {
        let client = client.clone();
        tokio::spawn(async move { client.declare(dock().id(id)).await.map(|_| ()) })
    };
    let heard = declare(5);
    assert!(matches!(peer.receive().await, ToCoordinator::Declare(_)));
    peer.closed.send_replace(Some(Closed::because("cable cut")));
    while client.is_connected() {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.try_declare(dock()).await.map(|_| ()), Err(DeclareError::Disconnected), "at once");
    let unheard = declare(6);
    tokio::task::yield_now().await;
    clock.forward(secs(10));
    assert_eq!(heard.await.unwrap(), Err(DeclareError::Unknown { id: IntentId::new(5) }));
    assert_eq!(unheard.await.unwrap(), Err(DeclareError::Disconnected));
    assert!(matches!(client.why_disconnected(), Some(ConnectError::Lost { .. })));
}

#[tokio::test]
async fn a_move_ends_guarded_work_unless_it_goes_through_moves() {
    let (client, mut peer, clock) = up().await;
    let grant = granted(&client, &mut peer, dock()).await;
    let id = grant.id().number();
    let guarded = tokio::spawn({
        let grant = grant.clone();
        async move { grant.guarded(std::future::pending::<()>()).await }
    });
    let going_on = tokio::spawn({
        let grant = grant.clone();
        async move { grant.guarded_through_moves(std::future::pending::<()>()).await }
    });
    tokio::task::yield_now().await;
    let start = clock.coordinator();
    let (end, token) = (start.after(Micros::from_secs(5)), Token::new(12));
    peer.answer(0, id, Verdict::Moved { start, end, token }).await;
    assert_eq!(guarded.await.unwrap(), Err(Lost::Moved { token }));
    assert_eq!(grant.fence(0).token, token);
    peer.answer(0, id, Verdict::Released { reason: Some("night".into()) }).await;
    assert_eq!(going_on.await.unwrap(), Err(Lost::Released { reason: Some("night".into()) }));
}

#[tokio::test]
async fn what_is_asked_again_has_the_same_start_whatever_has_been_learned_of_the_clocks_since() {
    let (client, mut peer, clock) = up().await;
    let intent = Intent::at(Clock::now(&clock) + secs(60)).claim(path("dock").unwrap().exclusive(), secs(1));
    let declare = || {
        let (client, intent) = (client.clone(), intent.clone().id(5));
        tokio::spawn(async move { client.declare(intent).await.map(|_| ()) })
    };
    let first = declare();
    let ToCoordinator::Declare(asked) = peer.receive().await else { panic!("a declaration") };
    let start = clock.coordinator();
    clock.forward(secs(10));
    assert_eq!(first.await.unwrap(), Err(DeclareError::Unknown { id: IntentId::new(5) }));
    // It comes to a grant that nobody takes in hand: the number is used up when it is asked again.
    let verdict = Verdict::Granted { start, end: start.after(Micros::from_secs(90)), token: Token::new(4) };
    peer.answer(asked.batch[0].request, 5, verdict.clone()).await;
    // An exchange over a slower path, so that the offset is known otherwise.
    clock.forward(secs(2));
    assert!(peer.received_by_now().await.is_none(), "a ping was answered on the way");
    let again = declare();
    let ToCoordinator::Declare(asked_again) = peer.receive().await else { panic!("a declaration") };
    assert_eq!(asked_again.batch[0].intent, asked.batch[0].intent);
    peer.answer(asked_again.batch[0].request, 5, verdict).await;
    assert_eq!(again.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_grant_whose_revision_is_not_answered_is_in_hand_again_once_it_is() {
    let (client, mut peer, clock) = up().await;
    let grant = granted(&client, &mut peer, dock()).await;
    let going_on = tokio::spawn({
        let grant = grant.clone();
        async move { grant.guarded_through_moves(std::future::pending::<()>()).await }
    });
    let revising = tokio::spawn({
        let grant = grant.clone();
        let two = Intent::asap().claim(path("dock").unwrap().exclusive(), millis(50));
        async move {
            grant.revise(two.claim_after(millis(20), path("ramp").unwrap().exclusive(), millis(30))).await
        }
    });
    let ToCoordinator::Declare(revision) = peer.receive().await else { panic!("a revision") };
    let lost = grant.lost();
    clock.forward(millis(30));
    assert_eq!(lost.await, Lost::Revising, "another may have the dock by now");
    assert_eq!(grant.check(), Err(Lost::Revising));
    let start = clock.coordinator();
    let (end, token) = (start.after(Micros::from_ms(50)), Token::new(12));
    let id = grant.id().number();
    peer.answer(revision.batch[0].request, id, Verdict::Granted { start, end, token }).await;
    assert_eq!(revising.await.unwrap(), Ok(Revision::Granted));
    assert_eq!(grant.check(), Ok(()));
    assert_eq!(grant.fence(1), Fence { start: start.after(Micros::from_ms(20)), token });
    assert_eq!(grant.window(0), (start, end));
    assert_eq!((grant.check_claim(0), grant.check_claim(1)), (Ok(()), Err(None)));
    clock.forward(millis(25));
    assert_eq!(grant.check_claim(1), Ok(()));
    assert!(!going_on.is_finished());
    clock.forward(millis(25));
    assert_eq!(going_on.await.unwrap(), Err(Lost::Ended));
    assert_eq!(grant.check_claim(0), Err(Some(Lost::Ended)));
}

#[tokio::test]
async fn a_process_that_was_stopped_with_a_revision_under_way_finds_that_before_it_acts() {
    let (client, mut peer, clock) = up().await;
    let grant = granted(&client, &mut peer, dock()).await;
    let revising = tokio::spawn({
        let grant = grant.clone();
        async move { grant.revise(dock()).await }
    });
    let ToCoordinator::Declare(_) = peer.receive().await else { panic!("a revision") };
    assert_eq!(grant.check(), Ok(()));
    clock.forward_unnoticed(millis(30));
    assert_eq!(grant.check(), Err(Lost::Revising), "though no timer has run");
    drop(revising);
}

#[tokio::test]
async fn work_through_moves_ends_where_another_handle_has_the_grant() {
    let (client, mut peer, _) = up().await;
    let grant = granted(&client, &mut peer, dock()).await;
    let id = grant.id();
    let going_on =
        tokio::spawn(async move { grant.guarded_through_moves(std::future::pending::<()>()).await });
    tokio::task::yield_now().await;
    let newer = granted(&client, &mut peer, dock().revises(id)).await;
    assert!(matches!(going_on.await.unwrap(), Err(Lost::Moved { .. })));
    assert_eq!(newer.check(), Ok(()));
}

#[tokio::test]
async fn events_end_with_the_client_and_no_call_hangs_for_want_of_a_time() {
    let (client, _peer, clock) = up().await;
    let (mut news, other) = (client.events(), client.clone());
    let closing = tokio::spawn(async move { other.close().await });
    tokio::task::yield_now().await;
    clock.forward(secs(2));
    assert_eq!(news.next().await, None);
    closing.await.unwrap();
    assert_eq!(client.events().next().await, None, "nor will there be any");
    let forever = Client::builder().name("car-7").timeout(Duration::MAX);
    let (peers, come) = mpsc::unbounded_channel();
    drop(come);
    let pipes = Pipes { clock: clock.clone(), peers };
    assert!(matches!(forever.connect_by(Arc::new(pipes)).await, Err(ConnectError::Local { .. })));
}

#[tokio::test]
async fn the_handle_of_an_ended_grant_does_not_withdraw_what_is_declared_anew_under_its_id() {
    let (client, mut peer, clock) = up().await;
    let older = granted(&client, &mut peer, dock().id(5)).await;
    clock.forward(secs(1));
    assert_eq!(older.lost().await, Lost::Ended);
    let declaring = tokio::spawn({
        let client = client.clone();
        async move { client.declare(dock().id(5)).await.map(|_| ()) }
    });
    let ToCoordinator::Declare(declare) = peer.receive().await else { panic!("a declaration") };
    drop(older);
    let start = clock.coordinator();
    let verdict = Verdict::Granted { start, end: start.after(Micros::from_secs(1)), token: Token::new(11) };
    peer.answer(declare.batch[0].request, 5, verdict).await;
    assert_eq!(declaring.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_session_that_was_taken_over_tries_no_more() {
    let (client, mut peer, _, mut come) = up_for_more().await;
    let grant = granted(&client, &mut peer, dock()).await;
    let closed = Closed { code: Some(CloseCode::Replaced), ..Closed::because("replaced") };
    peer.closed.send_replace(Some(closed));
    assert_eq!(grant.lost().await, Lost::Replaced);
    assert_eq!(client.declare(dock()).await.map(|_| ()), Err(DeclareError::Replaced));
    assert_eq!(client.release(IntentId::new(5)).await, Err(RequestError::Replaced));
    assert_eq!(client.mine().await, Err(RequestError::Replaced));
    assert!(come.try_recv().is_err());
}

#[tokio::test]
async fn all_handles_of_a_grant_see_its_one_end_and_the_last_to_go_releases_it() {
    let (client, mut peer, _) = up().await;
    let grant = granted(&client, &mut peer, dock()).await;
    let id = grant.id();
    let other = grant.clone();
    drop(grant);
    assert_eq!(other.check(), Ok(()));
    drop(other);
    assert!(matches!(peer.receive().await, ToCoordinator::Release(release) if release.id == id));

    let grant = granted(&client, &mut peer, dock()).await;
    let other = grant.clone();
    let (released, _) = tokio::join!(grant.release(), async {
        let ToCoordinator::Release(release) = peer.receive().await else { panic!("a release") };
        peer.answer(release.request, release.id.number(), Verdict::Released { reason: None }).await;
    });
    assert_eq!(released, Ok(Released::Released));
    assert_eq!(other.check(), Err(Lost::Released { reason: None }));
    assert_eq!(other.lost().await, Lost::Released { reason: None });
    let again = other.release().await;
    assert_eq!(again, Ok(Released::AlreadyEnded(Some(Lost::Released { reason: None }))));
}

#[tokio::test]
async fn a_panic_in_guarded_work_ends_the_renewals_and_releases_the_lease() {
    let (client, mut peer, _) = up().await;
    let grant = granted(&client, &mut peer, dock().lease()).await;
    let id = grant.id();
    let work =
        tokio::spawn(async move { grant.guarded(async { panic!("planted, as the message says") }).await });
    assert!(work.await.is_err_and(|error| error.is_panic()));
    assert!(matches!(peer.receive().await, ToCoordinator::Release(release) if release.id == id));
}

/// Whether what was dropped unfinished was undone is seen by the coordinator: each grant that it gave
/// out there has been released, or is in hand.
#[tokio::test]
async fn a_declaration_that_is_dropped_at_any_await_leaves_no_grant_behind() {
    for polls in 0..12 {
        let (client, mut peer, _) = up().await;
        let mut declaring = Box::pin(client.declare(dock().id(5)));
        for _ in 0..polls {
            let outcome = futures_poll(&mut declaring).await;
            if let Some(outcome) = outcome {
                assert!(matches!(outcome, Ok(Outcome::Granted(_))));
                break; // the grant is dropped here
            }
            if polls > 3 {
                // The coordinator is quicker than the one who asked.
                if let Some(ToCoordinator::Declare(declare)) = peer.received_by_now().await {
                    let start = peer.clock.coordinator();
                    let end = start.after(Micros::from_secs(1));
                    let verdict = Verdict::Granted { start, end, token: Token::new(3) };
                    peer.answer(declare.batch[0].request, 5, verdict).await;
                }
            }
        }
        drop(declaring);
        drop(client);
        let (mut declared, mut released) = (0, 0);
        loop {
            match peer.receive().await {
                ToCoordinator::Declare(_) => declared += 1,
                ToCoordinator::Release(release) => {
                    assert_eq!(release.id, IntentId::new(5));
                    released += 1;
                }
                ToCoordinator::Bye(_) => break,
                other => panic!("{other:?}"),
            }
        }
        let heard = declared > 0 || polls > 3;
        assert_eq!(released, u32::from(heard && polls > 0), "after {polls} polls");
    }
}

#[tokio::test]
async fn what_is_declared_at_once_leaves_in_one_message_and_each_has_its_own_outcome_in_order() {
    let (client, mut peer, clock) = up().await;
    let conflict = |is_final| {
        let of = crate::wire::Conflict {
            is_final,
            deadlock: false,
            offer: None,
            blockers: Vec::new(),
            kept: false,
        };
        Verdict::Conflict(of)
    };
    let start = clock.coordinator();
    let grant =
        |token| Verdict::Granted { start, end: start.after(Micros::from_secs(1)), token: Token::new(token) };
    // One more than the coordinator takes at a time, and one whose id is taken by then.
    let intents = (1..=9).map(|id| dock().id(id)).chain([dock().id(9)]).collect();
    let answering = async {
        let ToCoordinator::Declare(declare) = peer.receive().await else { panic!("declarations") };
        assert_eq!(declare.batch.iter().map(|it| it.intent.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
        for it in declare.batch.iter().rev() {
            let verdict = if it.intent.id == 2 { conflict(true) } else { grant(it.intent.id) };
            peer.answer(it.request, it.intent.id, verdict).await;
        }
        assert_eq!(peer.grant(9, Micros::from_secs(1)).await, 9);
    };
    let (outcomes, ()) = tokio::join!(client.declare_all(intents), answering);
    let tokens: Vec<u64> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(Outcome::Granted(grant)) => grant.token().number(),
            Ok(Outcome::Conflict(_)) => 0,
            Err(DeclareError::IdBusy { .. }) => 100,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(tokens, [1, 0, 3, 4, 5, 6, 7, 8, 9, 100]);
    assert_eq!(client.declare_all(Vec::new()).await.len(), 0);
}

#[tokio::test]
async fn what_was_declared_at_once_is_withdrawn_all_together_where_it_is_dropped() {
    let (client, mut peer, _) = up().await;
    let mut declaring = Box::pin(client.declare_all((1..=3).map(|id| dock().id(id)).collect()));
    assert!(futures_poll(&mut declaring).await.is_none());
    let ToCoordinator::Declare(declare) = peer.receive().await else { panic!("declarations") };
    assert_eq!(declare.batch.len(), 3);
    drop(declaring);
    for id in 1..=3 {
        let ToCoordinator::Release(release) = peer.receive().await else { panic!("a release") };
        assert_eq!(release.id, IntentId::new(id));
    }
}

/// Polls once and lets all tasks run; the output where it is there.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let polled = std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    polled
}

#[tokio::test]
async fn the_release_of_an_older_grant_leaves_a_newer_one_of_the_same_id_alone() {
    let (client, mut peer, clock) = up().await;
    let mut news = client.events();
    let older = granted(&client, &mut peer, dock().id(5)).await;
    clock.forward(secs(1));
    assert!(matches!(news.next().await, Some(Event::Expired { .. })));
    let newer = granted(&client, &mut peer, dock().id(5)).await;
    assert_eq!(older.release().await, Ok(Released::AlreadyEnded(Some(Lost::Ended))));
    assert_eq!(newer.check(), Ok(()));
}

#[tokio::test]
async fn an_agents_wrong_clock_does_not_matter() {
    let (client, mut peer, clock) = up().await;
    let here = Clock::now(&clock);
    let declaring = client.declare(Intent::at(here + secs(3)).claim(path("dock").unwrap().shared(), secs(1)));
    let asking = async {
        let ToCoordinator::Declare(declare) = peer.receive().await else { panic!("a declaration") };
        declare.batch[0].intent.start
    };
    tokio::select! {
        biased;
        start = asking => {
            let wanted = clock.coordinator().after(Micros::from_secs(3)).as_us();
            assert!(start.unwrap().abs_diff(wanted) <= 1_000, "in the coordinator's time");
        }
        _ = declaring => panic!("it was not answered"),
    }
}

#[tokio::test]
async fn a_coordinator_that_breaks_the_protocol_is_left() {
    let (client, mut peer, _) = up().await;
    let mut news = client.events();
    peer.lane.as_mut().unwrap().1.write_all(&[0xff; 4]).await.unwrap();
    match news.next().await {
        Some(Event::Disconnected { why }) => assert!(why.contains("broke the protocol"), "{why}"),
        other => panic!("disconnected, not {other:?}"),
    }
    assert!(!client.is_connected());
}

#[tokio::test]
async fn what_was_said_before_it_left_still_goes_out_and_then_goodbye() {
    let (client, mut peer, _) = up().await;
    let grant = granted(&client, &mut peer, dock()).await;
    let id = grant.id();
    drop((grant, client));
    assert!(matches!(peer.receive().await, ToCoordinator::Release(release) if release.id == id));
    assert!(matches!(peer.receive().await, ToCoordinator::Bye(_)));
}
