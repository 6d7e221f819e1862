//! The coordinator on real sockets, by the slot, under a clock that the test moves.

#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

mod raw_peer;

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use preclaim::audit::{Appended, Journal, SlotEntry};
use preclaim::clock::ManualClock;
use preclaim::coordinator::{
    Admission, BindError, Coordinator, CoordinatorConfig, CoordinatorError, Denial, Health,
};
use preclaim::priority::{Context, PriorityModel};
use preclaim::resolver::{AgentOp, Rules};
use preclaim::types::{Agent, Intent, IntentId, Micros, RawIntent, Slot, Time};
use preclaim::wire::{
    CloseCode, Declaration, Declare, Extension, Extensions, Hello, List, Refusal, Renew, Role, ToAgent,
    ToCoordinator, Verdict, Watch,
};
use quinn::{TransportConfig, VarInt};
use raw_peer::{Lane, Peer, declare, hello, intent, release, soon};
use rustls::pki_types::CertificateDer;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// 10 ms, in µs.
const SLOT: u64 = 10_000;
const START: Time = Time::from_us(1_000 * SLOT);

/// A coordinator at work.
struct Rig {
    addr: SocketAddr,
    certificate: CertificateDer<'static>,
    clock: Arc<ManualClock>,
    stop: Option<oneshot::Sender<()>>,
    health: tokio::sync::watch::Receiver<Health>,
    running: JoinHandle<Result<(), CoordinatorError>>,
}

impl Rig {
    fn new() -> Self {
        Rig::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut CoordinatorConfig)) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let mut config = CoordinatorConfig::in_memory(Rules::default()).unwrap();
        config.clock = clock.clone();
        change(&mut config);
        let coordinator = Coordinator::bind(config).unwrap();
        let (addr, certificate) = (coordinator.local_addr(), coordinator.certificate().clone());
        let health = coordinator.health();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(coordinator.run(async {
            if stopped.await.is_err() {
                pending::<()>().await; // the test lets it run
            }
        }));
        Rig { addr, certificate, clock, stop: Some(stop), health, running }
    }

    async fn peer(&self) -> Peer {
        Peer::connect(self.addr, &self.certificate).await
    }

    async fn agent(&self, name: &str) -> (Peer, Lane) {
        let peer = self.peer().await;
        let (lane, _) = peer.hello(name).await;
        (peer, lane)
    }

    /// The next slot begins.
    fn next_slot(&self) {
        self.clock.advance(Micros::from_us(SLOT));
    }

    /// An agent that declares and is granted: the coordinator works for it.
    async fn works_for(&self, lane: &mut Lane, id: u64) {
        lane.send(declare(intent(id, &format!("mine/{id}"), 1000))).await;
        lane.settle().await;
        self.next_slot();
        let (request, _, verdict) = lane.verdict().await;
        assert_eq!(request, id);
        assert!(matches!(verdict, Verdict::Granted { .. }), "{verdict:?}");
    }
}

#[tokio::test]
async fn what_arrives_in_a_slot_is_answered_at_its_end_and_not_before() {
    let rig = Rig::new();
    let (_peer, mut lane) = rig.agent("car-7").await;
    rig.clock.advance(Micros::from_us(4_000));
    lane.send(declare(intent(1, "dock/3", 20_000))).await;
    lane.settle().await;
    rig.clock.advance(Micros::from_us(5_999));
    lane.settle().await; // the only answer so far is the clock's
    rig.clock.advance(Micros::from_us(1));
    let answer = lane.answer().await;
    let decided_at = START.after(Micros::from_us(SLOT));
    assert_eq!((answer.slot, answer.at, answer.request), (Slot::new(1_000), decided_at, 1));
    let Verdict::Granted { start, end, token } = answer.verdict else { panic!("{answer:?}") };
    assert_eq!((start, end), (decided_at, decided_at.after(Micros::from_us(20_000))));
    assert_eq!(token.number(), 1);
}

#[tokio::test]
async fn an_arrival_at_the_boundary_belongs_to_the_next_slot() {
    let rig = Rig::new();
    let (_peer, mut lane) = rig.agent("car-7").await;
    rig.next_slot();
    lane.send(declare(intent(1, "dock/3", 20_000))).await;
    lane.settle().await;
    rig.next_slot();
    assert_eq!(lane.answer().await.slot, Slot::new(1_001));
}

#[tokio::test]
async fn the_loser_is_told_who_is_in_the_way_and_the_winner_that_it_is_contested() {
    let rig = Rig::new();
    let (_first, mut winner) = rig.agent("car-7").await;
    let (_second, mut loser) = rig.agent("car-8").await;
    let mut batch = declare(intent(1, "dock", 50_000));
    batch.batch[0].note = "unloading".into();
    winner.send(batch).await;
    winner.settle().await;
    loser.send(declare(intent(4, "dock/3", 20_000))).await;
    loser.settle().await;
    rig.next_slot();
    assert!(matches!(winner.verdict().await.2, Verdict::Granted { .. }));
    let (request, _, Verdict::Conflict(conflict)) = loser.verdict().await else { panic!("no conflict") };
    assert_eq!((request, conflict.is_final, conflict.blockers.len()), (4, true, 1));
    let blocker = &conflict.blockers[0];
    assert_eq!((blocker.agent.as_str(), blocker.id.number()), ("car-7", 1));
    let holding = blocker.holding.as_ref().expect("it may be known");
    assert_eq!((holding.note.as_str(), holding.window.duration().as_us()), ("unloading", 50_000));
    let ToAgent::Contested(news) = winner.receive().await else { panic!("not told") };
    assert_eq!((news.id.number(), news.by.as_str(), news.by_id.number()), (1, "car-8", 4));
}

#[tokio::test]
async fn a_batch_arrives_together_and_each_intent_is_answered() {
    let rig = Rig::new();
    let (_peer, mut lane) = rig.agent("car-7").await;
    let batch = (1..=3).map(|id| Declaration {
        request: 10 + id,
        intent: intent(id, "dock/3", 20_000),
        ..Declaration::default()
    });
    lane.send(Declare { batch: batch.collect() }).await;
    lane.settle().await;
    rig.next_slot();
    let mut answers = Vec::new();
    for _ in 0..3 {
        let (request, id, verdict) = lane.verdict().await;
        answers.push((request, id, matches!(verdict, Verdict::Granted { .. })));
    }
    assert_eq!(answers, [(11, 1, true), (12, 2, false), (13, 3, false)]);
}

/// In the best of some slots, since a busy machine may have one packet sent again.
#[tokio::test]
async fn what_one_slot_has_for_an_agent_leaves_in_one_piece() {
    let rig = Rig::new();
    let (peer, mut lane) = rig.agent("car-7").await;
    let (mut pieces, mut next) = (Vec::new(), 1..);
    for _ in 0..5 {
        for id in next.by_ref().take(8) {
            lane.send(declare(intent(id, &format!("dock/{id}"), 20_000))).await;
        }
        lane.settle().await;
        let before = peer.connection.stats().frame_rx.stream;
        rig.next_slot();
        for _ in 0..8 {
            assert!(matches!(lane.verdict().await.2, Verdict::Granted { .. }));
        }
        pieces.push(peer.connection.stats().frame_rx.stream - before);
    }
    assert!(pieces.contains(&1), "{pieces:?}");
}

#[tokio::test]
async fn each_intent_is_answered_on_the_lane_it_was_declared_on() {
    let rig = Rig::new();
    let (peer, mut first) = rig.agent("car-7").await;
    let (mut a, mut b) = (peer.lane().await, peer.lane().await);
    a.send(declare(intent(1, "a", 1000))).await;
    a.settle().await;
    b.send(declare(intent(2, "b", 1000))).await;
    b.settle().await;
    // A lane that is finished is answered on the first one.
    let mut c = peer.lane().await;
    c.send(declare(intent(3, "c", 1000))).await;
    c.settle().await;
    c.send.finish().unwrap();
    assert!(soon(c.receive.read_chunk(100, true)).await.unwrap().is_none(), "both halves end");
    rig.next_slot();
    assert_eq!(a.verdict().await.1, 1);
    assert_eq!(b.verdict().await.1, 2);
    assert_eq!(first.verdict().await.1, 3);
}

#[tokio::test]
async fn a_wait_is_told_first_and_its_fate_when_the_path_is_free() {
    let rig = Rig::new();
    let (_first, mut holder) = rig.agent("car-7").await;
    let (_second, mut waiting) = rig.agent("car-8").await;
    holder.send(declare(RawIntent { hold: true, ..intent(1, "dock", 1_000_000) })).await;
    holder.settle().await;
    waiting.send(declare(RawIntent { wait: 1_000_000, ..intent(2, "dock", 1_000) })).await;
    waiting.settle().await;
    rig.next_slot();
    assert!(matches!(holder.verdict().await.2, Verdict::Granted { .. }));
    assert!(matches!(holder.receive().await, ToAgent::Contested(_)));
    let (_, _, Verdict::Conflict(conflict)) = waiting.verdict().await else { panic!("no conflict") };
    assert!(!conflict.is_final);
    holder.send(release(9, 1)).await;
    holder.settle().await;
    rig.next_slot();
    assert!(matches!(holder.verdict().await, (9, 1, Verdict::Released { .. })));
    assert!(matches!(waiting.verdict().await, (2, 2, Verdict::Granted { .. })));
}

/// What a peer does wrong after its hello, and the code that it is closed with.
async fn break_protocol(rig: &Rig, bytes: &[u8]) -> CloseCode {
    let (peer, mut lane) = rig.agent("a-bad-one").await;
    lane.send_bytes(bytes).await;
    let _ = lane.send.finish();
    peer.close_code().await
}

#[tokio::test]
async fn each_kind_of_bad_input_has_its_own_close_code_and_costs_its_sender_alone() {
    let rig = Rig::new();
    let (_good, mut good) = rig.agent("a-good-one").await;
    let encoded = |message: ToCoordinator| {
        let mut bytes = Vec::new();
        message.encode(&mut bytes).unwrap();
        bytes
    };
    let whole = encoded(declare(intent(1, "a", 1)).into());
    let mut trailing = encoded(release(1, 1).into());
    trailing.push(0);
    trailing[0] += 1;
    let cases = [
        (vec![0xff; 6], CloseCode::FrameTooLong),
        (vec![1, 0, 0, 0, 9], CloseCode::FrameCutOff),
        (whole[..whole.len() - 1].to_vec(), CloseCode::FrameCutOff),
        (vec![2, 0, 0, 0, 0xee, 0xee], CloseCode::UnknownKind),
        (vec![2, 0, 0, 0, 0x01, 0x01], CloseCode::UnknownKind), // a welcome, which goes the other way
        (trailing, CloseCode::MalformedBody),
        (encoded(hello("a-bad-one", "main", 2).into()), CloseCode::SecondHello),
    ];
    for (at, (bytes, code)) in cases.into_iter().enumerate() {
        assert_eq!(break_protocol(&rig, &bytes).await, code, "case {at}");
        rig.works_for(&mut good, at as u64 + 1).await;
    }
}

#[tokio::test]
async fn a_hello_that_cannot_be_taken_has_its_own_close_code() {
    let rig = Rig::new();
    let (_good, mut good) = rig.agent("a-good-one").await;
    let required = Extension { number: Extension::REQUIRED | 9, value: Vec::new() };
    let extensions = Extensions::new(vec![required]).unwrap();
    let plain = || hello("b", "main", 1);
    let cases: [(ToCoordinator, CloseCode); 5] = [
        (Hello { lowest_version: 7, highest_version: 9, ..plain() }.into(), CloseCode::UnsupportedVersion),
        (Hello { extensions, ..plain() }.into(), CloseCode::UnsupportedExtension),
        (Hello { name: Some(String::new()), ..plain() }.into(), CloseCode::NameRefused),
        (Hello { label: "\n".into(), ..plain() }.into(), CloseCode::NameRefused),
        (declare(intent(1, "a", 1)).into(), CloseCode::ProtocolOrder),
    ];
    for (at, (message, code)) in cases.into_iter().enumerate() {
        let peer = rig.peer().await;
        let mut lane = peer.lane().await;
        lane.send(message).await;
        assert_eq!(peer.close_code().await, code, "case {at}");
        rig.works_for(&mut good, at as u64 + 1).await;
    }
}

#[tokio::test]
async fn an_invalid_claim_is_rejected_with_its_field_and_the_lane_goes_on() {
    let rig = Rig::new();
    let (_peer, mut lane) = rig.agent("car-7").await;
    lane.send(declare(intent(1, "a//b", 1000))).await;
    lane.settle().await;
    let mut long_note = declare(intent(2, "a", 1000));
    long_note.batch[0].note = "n".repeat(129);
    lane.send(long_note).await;
    // A note decides nothing, so that a wrong one is answered before the slot's end.
    let mut is_rejected_for = async |id, at_fault| {
        let (request, _, Verdict::Rejected { reason, field, hint, .. }) = lane.verdict().await else {
            panic!("not rejected")
        };
        assert_eq!((request, reason, field.as_str()), (id, Refusal::Invalid, at_fault));
        assert!(!hint.is_empty());
    };
    is_rejected_for(2, "note").await;
    rig.next_slot();
    is_rejected_for(1, "claims[0].path").await;
    rig.works_for(&mut lane, 3).await;
}

#[tokio::test]
async fn a_peer_that_sends_nothing_is_let_go() {
    let rig = Rig::with(|config| config.limits.hello_timeout = Micros::from_ms(50));
    assert_eq!(rig.peer().await.close_code().await, CloseCode::NoHello);
    let peer = rig.peer().await;
    let mut half = peer.lane().await;
    half.send_bytes(&[9]).await;
    assert_eq!(peer.close_code().await, CloseCode::NoHello, "and so is one that stops in its hello");
}

#[tokio::test]
async fn a_peer_that_never_reads_is_let_go_and_others_go_on() {
    let rig = Rig::new();
    let (_good, mut good) = rig.agent("a-good-one").await;
    let mut narrow = TransportConfig::default();
    narrow.stream_receive_window(VarInt::from_u32(4096)).receive_window(VarInt::from_u32(4096));
    let peer = Peer::connect_with(rig.addr, &rig.certificate, narrow).await;
    let (mut lane, _) = peer.hello("a-bad-one").await;
    let mut pings = Vec::new();
    for _ in 0..1000 {
        ToCoordinator::from(preclaim::wire::ClockPing { seq: 1, client_us: u64::MAX })
            .encode(&mut pings)
            .unwrap();
    }
    // Until the coordinator closes the connection; each answer is as long as its question.
    while soon(lane.send.write_all(&pings)).await.is_ok() {}
    assert_eq!(peer.close_code().await, CloseCode::TooSlowReader);
    rig.works_for(&mut good, 1).await;
}

#[tokio::test]
async fn the_newest_incarnation_takes_over_and_the_older_one_does_not_take_it_back() {
    let rig = Rig::new();
    let old = rig.peer().await;
    let (mut old_lane, welcome) = old.say_hello(hello("car-7", "main", 1)).await;
    old_lane.send(declare(intent(1, "dock", 1_000_000))).await;
    old_lane.settle().await;
    rig.next_slot();
    assert!(matches!(old_lane.verdict().await.2, Verdict::Granted { .. }));

    let new = rig.peer().await;
    let (mut new_lane, new_welcome) = new.say_hello(hello("car-7", "main", 2)).await;
    assert_eq!((new_welcome.session, new_welcome.resumed), (welcome.session, false));
    assert!(matches!(old_lane.receive().await, ToAgent::Replaced(_)));
    assert_eq!(old.close_code().await, CloseCode::Replaced);

    new_lane.send(release(1, 1)).await;
    new_lane.settle().await;
    rig.next_slot();
    assert!(matches!(new_lane.verdict().await, (1, 1, Verdict::Released { .. })), "its grants pass over");

    let back = rig.peer().await;
    back.lane().await.send(hello("car-7", "main", 1)).await;
    assert_eq!(back.close_code().await, CloseCode::Replaced);
    rig.works_for(&mut new_lane, 2).await;
}

#[tokio::test]
async fn a_hello_that_asks_for_it_is_refused_where_the_session_is_live() {
    let rig = Rig::new();
    let (_peer, mut lane) = rig.agent("car-7").await;
    let second = rig.peer().await;
    second.lane().await.send(Hello { refuse_if_live: true, ..hello("car-7", "main", 2) }).await;
    assert_eq!(second.close_code().await, CloseCode::SessionLive);
    rig.works_for(&mut lane, 1).await;
}

#[tokio::test]
async fn sessions_of_one_name_share_its_intents_and_the_declarer_hears_of_it() {
    let rig = Rig::new();
    let (_first, mut declarer) = rig.agent("car-7").await;
    declarer.send(declare(RawIntent { hold: true, ..intent(1, "dock", 100_000) })).await;
    declarer.settle().await;
    rig.next_slot();
    assert!(matches!(declarer.verdict().await.2, Verdict::Granted { .. }));
    let command = rig.peer().await;
    let (mut lane, _) = command.say_hello(hello("car-7", "a-command", 5)).await;
    let until = START.after(Micros::from_us(500_000));
    lane.send(Renew { request: 3, id: IntentId::new(1), until, ..Renew::default() }).await;
    lane.settle().await;
    rig.next_slot();
    assert_eq!(lane.verdict().await, (3, 1, Verdict::Renewed { end: until }));
    assert_eq!(declarer.verdict().await, (0, 1, Verdict::Renewed { end: until }));
    lane.send(release(4, 1)).await;
    lane.settle().await;
    rig.next_slot();
    assert!(matches!(lane.verdict().await, (4, 1, Verdict::Released { .. })));
    assert!(matches!(declarer.verdict().await, (0, 1, Verdict::Released { .. })));
}

#[tokio::test]
async fn what_was_decided_while_an_agent_was_away_is_told_when_it_is_back() {
    let rig = Rig::new();
    let (_other, mut holder) = rig.agent("car-8").await;
    holder.send(declare(RawIntent { hold: true, ..intent(1, "dock", 1_000_000) })).await;
    holder.settle().await;
    rig.next_slot();
    assert!(matches!(holder.verdict().await.2, Verdict::Granted { .. }));

    let (peer, mut lane) = rig.agent("car-7").await;
    lane.send(declare(RawIntent { wait: 10_000_000, ..intent(2, "dock", 1_000) })).await;
    lane.settle().await;
    rig.next_slot();
    assert!(matches!(lane.verdict().await.2, Verdict::Conflict(_)));
    let (mut watcher, _) = rig.peer().await.say_hello(hello("observer", "w", 1)).await;
    watcher.send(Watch { request: 1, agent: Some("car-7".into()), ..Watch::default() }).await;
    watcher.settle().await;
    peer.connection.close(VarInt::from_u32(0), b"gone");
    holder.receive().await; // contested
    holder.send(release(2, 1)).await;
    holder.settle().await;
    rig.next_slot();
    let ToAgent::WatchEvent(event) = watcher.receive().await else { panic!("no event") };
    assert!(matches!(event.verdict, Verdict::Granted { .. }));

    let back = rig.peer().await;
    let (mut lane, welcome) = back.say_hello(hello("car-7", "main", 1)).await;
    assert!(welcome.resumed);
    assert!(matches!(lane.verdict().await, (0, 2, Verdict::Granted { .. })));
    // Asked again, it is not decided again.
    lane.send(declare(RawIntent { wait: 10_000_000, ..intent(2, "dock", 1_000) })).await;
    lane.settle().await;
    rig.next_slot();
    let answer = lane.answer().await;
    assert!(answer.repeat && answer.request == 2, "{answer:?}");
}

#[tokio::test]
async fn a_listing_shows_what_is_granted_and_undecided() {
    let rig = Rig::new();
    let (_peer, mut lane) = rig.agent("car-7").await;
    let mut noted = declare(RawIntent { hold: true, ..intent(1, "dock/3", 100_000) });
    noted.batch[0].note = "unloading".into();
    lane.send(noted).await;
    lane.send(declare(RawIntent { wait: 1_000_000, ..intent(2, "dock", 1_000) })).await;
    lane.settle().await;
    rig.next_slot();
    for _ in 0..3 {
        lane.receive().await; // granted, waiting, contested
    }
    let observer = rig.peer().await;
    let role = Role::Observer;
    let (mut looking, _) = observer.say_hello(Hello { role, name: None, ..hello("", "ls", 1) }).await;
    looking.send(List { request: 5, granted: true, undecided: true, ..List::default() }).await;
    let ToAgent::ListReply(reply) = looking.receive().await else { panic!("no listing") };
    let shown: Vec<_> = reply.entries.iter().map(|entry| (entry.id.number(), entry.note.as_str())).collect();
    assert_eq!((reply.request, shown), (5, vec![(1, "unloading"), (2, "")]));
    assert!(reply.next.is_empty());
    looking.send(List { request: 6, under: Some("/".into()), ..List::default() }).await;
    let (request, _, Verdict::Rejected { field, .. }) = looking.verdict().await else {
        panic!("not refused")
    };
    assert_eq!((request, field.as_str()), (6, "under"));
    looking.send(declare(intent(1, "a", 1))).await;
    let (_, _, Verdict::Rejected { reason, .. }) = looking.verdict().await else { panic!("not refused") };
    assert_eq!(reason, Refusal::Forbidden);
}

#[tokio::test]
async fn more_undecided_intents_than_a_name_may_have_are_overloaded_with_a_time_to_come_back() {
    let rig = Rig::with(|config| config.limits.undecided_per_agent = 1);
    let (_peer, mut lane) = rig.agent("car-7").await;
    lane.send(declare(intent(1, "a", 1000))).await;
    lane.send(declare(intent(2, "b", 1000))).await;
    let (request, _, Verdict::Rejected { reason, retry_after_us, .. }) = lane.verdict().await else {
        panic!("not refused")
    };
    assert_eq!((request, reason), (2, Refusal::Overloaded));
    assert!(retry_after_us.is_some());
    rig.next_slot();
    assert!(matches!(lane.verdict().await, (1, 1, Verdict::Granted { .. })));
    rig.works_for(&mut lane, 3).await;
}

#[derive(Debug)]
struct NotTheVault;

impl Admission for NotTheVault {
    fn admit(&self, agent: &Agent, op: &AgentOp) -> Result<(), Denial> {
        let AgentOp::Declare(intent) = op else { return Ok(()) };
        let vault = intent.claims.iter().any(|claim| claim.target.path().as_str() == "vault");
        let reason = Refusal::Forbidden;
        let field = "claims[0].path".to_owned();
        let hint = format!("{agent} may not");
        if vault { Err(Denial { reason, field, hint, retry_after: None }) } else { Ok(()) }
    }
}

#[tokio::test]
async fn what_the_admission_hook_denies_never_reaches_the_core() {
    let rig = Rig::with(|config| config.admission = Arc::new(NotTheVault));
    let (_peer, mut lane) = rig.agent("car-7").await;
    lane.send(declare(intent(1, "vault", 1000))).await;
    let (_, _, Verdict::Rejected { reason, hint, .. }) = lane.verdict().await else { panic!("not denied") };
    assert_eq!((reason, hint.as_str()), (Refusal::Forbidden, "car-7 may not"));
    rig.works_for(&mut lane, 1).await;
}

#[tokio::test]
async fn a_stop_decides_the_open_slot_takes_nothing_new_and_tells_everybody() {
    let mut rig = Rig::new();
    let (peer, mut lane) = rig.agent("car-7").await;
    lane.send(declare(intent(1, "a", 1000))).await;
    lane.settle().await;
    soon(rig.health.wait_for(|health| *health == Health::Ready)).await.unwrap();
    rig.stop.take().unwrap().send(()).unwrap();
    assert!(matches!(lane.receive().await, ToAgent::Draining(_)));
    lane.send(declare(intent(2, "b", 1000))).await;
    let (_, _, Verdict::Rejected { reason, .. }) = lane.verdict().await else { panic!("taken in") };
    assert_eq!(reason, Refusal::Draining);
    assert_eq!(*rig.health.borrow(), Health::Draining);
    rig.next_slot();
    assert!(matches!(lane.verdict().await, (1, 1, Verdict::Granted { .. })));
    assert_eq!(peer.close_code().await, CloseCode::ShuttingDown);
    assert!(soon(rig.running).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_coordinator_that_is_dropped_lets_go_of_its_connections() {
    let rig = Rig::new();
    let (peer, _lane) = rig.agent("car-7").await;
    rig.running.abort();
    assert!(soon(rig.running).await.unwrap_err().is_cancelled());
    soon(peer.connection.closed()).await;
}

#[derive(Debug)]
struct Panics;

impl PriorityModel for Panics {
    fn score(&self, _: &Intent, _: &Context<'_>) -> f64 {
        panic!("a planted fault: this message is expected")
    }
}

#[tokio::test]
async fn a_coordinator_whose_slot_loop_dies_ends_and_says_so() {
    let rig = Rig::with(|config| config.rules.model = Arc::new(Panics));
    let (peer, mut lane) = rig.agent("car-7").await;
    lane.send(declare(intent(1, "a", 1000))).await;
    lane.settle().await;
    rig.next_slot();
    assert_eq!(peer.close_code().await, CloseCode::Internal);
    assert!(matches!(soon(rig.running).await.unwrap(), Err(CoordinatorError::SlotLoopDied)));
    assert!(matches!(&*rig.health.borrow(), Health::Halted(why) if why.contains("slot loop has died")));
}

#[derive(Debug)]
struct FullDisk;

impl Journal for FullDisk {
    fn append(&mut self, _: SlotEntry<'_>) -> Appended {
        Appended::Unknown("no space left on device".into())
    }
}

#[tokio::test]
async fn nothing_of_a_slot_is_sent_whose_record_is_not_durable_and_everybody_is_told_why() {
    let mut rig = Rig::with(|config| config.journal = Box::new(FullDisk));
    let (peer, mut lane) = rig.agent("car-7").await;
    lane.send(declare(intent(1, "a", 1000))).await;
    lane.settle().await;
    rig.next_slot();
    let is_told_why = |message: ToAgent| match message {
        ToAgent::Draining(draining) => assert!(draining.reason.contains("no space left"), "{draining:?}"),
        other => panic!("nothing else may be said: {other:?}"),
    };
    is_told_why(lane.receive().await);
    assert!(matches!(&*rig.health.borrow(), Health::Halted(why) if why.contains("no space left")));
    assert_eq!(peer.close_code().await, CloseCode::Internal);
    let came = soon(lane.receive.read_chunk(100, true)).await;
    assert!(!matches!(came, Ok(Some(_))), "an answer came before the close");

    let (_late, mut lane) = rig.agent("car-8").await;
    is_told_why(lane.receive().await);
    lane.send(declare(intent(1, "b", 1000))).await;
    let (_, _, Verdict::Rejected { reason, hint, .. }) = lane.verdict().await else { panic!("taken in") };
    assert_eq!(reason, Refusal::Draining);
    assert!(hint.contains("no space left"), "{hint}");
    for (request, message) in [
        (2, ToCoordinator::from(release(2, 1))),
        (3, List { request: 3, granted: true, ..List::default() }.into()),
        (4, Watch { request: 4, ..Watch::default() }.into()),
    ] {
        lane.send(message).await;
        let (of, _, Verdict::Rejected { reason, hint, .. }) = lane.verdict().await else {
            panic!("taken in")
        };
        assert_eq!((of, reason), (request, Refusal::Draining));
        assert!(hint.contains("no space left"), "{hint}");
    }
    rig.stop.take().unwrap().send(()).unwrap();
    assert!(matches!(soon(rig.running).await.unwrap(), Err(CoordinatorError::Journal(_))));
}

#[tokio::test]
async fn a_second_coordinator_on_one_port_is_told_that_it_is_in_use() {
    let rig = Rig::new();
    let mut config = CoordinatorConfig::in_memory(Rules::default()).unwrap();
    config.listen = rig.addr;
    let second = Coordinator::bind(config);
    assert!(matches!(second, Err(BindError::InUse { addr }) if addr == rig.addr));
    let (_peer, mut lane) = rig.agent("car-7").await;
    rig.works_for(&mut lane, 1).await;
}

#[tokio::test]
async fn past_the_number_of_connections_a_peer_is_told_so() {
    let rig = Rig::with(|config| config.limits.connections = 1);
    let (_peer, mut lane) = rig.agent("car-7").await;
    assert_eq!(rig.peer().await.close_code().await, CloseCode::TooManyConnections);
    rig.works_for(&mut lane, 1).await;
}
