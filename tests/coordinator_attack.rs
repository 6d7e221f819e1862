//! The coordinator under peers that flood, stall, flap and vanish: others are served all along, and
//! what was taken in is answered.

#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

mod raw_peer;

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use preclaim::clock::ManualClock;
use preclaim::coordinator::{Coordinator, CoordinatorConfig};
use preclaim::limits;
use preclaim::resolver::Rules;
use preclaim::types::{Micros, RawIntent, RawMode, Time};
use preclaim::wire::{
    CloseCode, Declaration, Declare, Extension, Extensions, Hello, List, ListReply, Refusal, Role, ToAgent,
    ToCoordinator, Verdict, Watch,
};
use quinn::{TransportConfig, VarInt};
use raw_peer::{Lane, Peer, declare, hello, intent, release, soon};
use rustls::pki_types::CertificateDer;

/// 10 ms, in µs.
const SLOT: u64 = 10_000;

/// A coordinator at work, in slots that the test ends.
struct Rig {
    addr: SocketAddr,
    certificate: CertificateDer<'static>,
    clock: Arc<ManualClock>,
}

impl Rig {
    fn new() -> Self {
        Rig::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut CoordinatorConfig)) -> Self {
        let clock = Arc::new(ManualClock::new(Time::from_us(1_000 * SLOT)));
        let mut config = CoordinatorConfig::in_memory(Rules::default()).unwrap();
        config.clock = clock.clone();
        change(&mut config);
        let coordinator = Coordinator::bind(config).unwrap();
        let (addr, certificate) = (coordinator.local_addr(), coordinator.certificate().clone());
        tokio::spawn(coordinator.run(pending()));
        Rig { addr, certificate, clock }
    }

    async fn peer(&self) -> Peer {
        Peer::connect(self.addr, &self.certificate).await
    }

    async fn agent(&self, name: &str) -> (Peer, Lane) {
        let peer = self.peer().await;
        let (lane, _) = peer.hello(name).await;
        (peer, lane)
    }

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

    /// All that is granted, as an observer sees it.
    async fn granted(&self) -> ListReply {
        let hello = Hello { role: Role::Observer, name: None, ..hello("", "ls", 1) };
        let peer = self.peer().await;
        let (mut lane, _) = peer.say_hello(hello).await;
        lane.send(List { request: 1, granted: true, ..List::default() }).await;
        let ToAgent::ListReply(reply) = lane.receive().await else { panic!("no listing") };
        reply
    }
}

/// Intents as one batch after the other, as large as they may be.
async fn declare_all(lane: &mut Lane, intents: impl Iterator<Item = RawIntent>) {
    let all: Vec<_> =
        intents.map(|intent| Declaration { request: intent.id, intent, ..Declaration::default() }).collect();
    for batch in all.chunks(limits::BATCH) {
        lane.send(Declare { batch: batch.to_vec() }).await;
    }
}

/// The frame of a message, of `total` bytes after its length, filled up by an extension.
fn filled_up(total: usize) -> Vec<u8> {
    let batch = |count: usize, fill: usize| {
        let value = vec![0; fill];
        let full = vec![0; limits::EXTENSION_BYTES];
        let with = |value| Extensions::new(vec![Extension { number: 40, value }]).unwrap();
        let mut batch: Vec<_> = (1..=count as u64)
            .map(|id| Declaration {
                request: id,
                intent: intent(id, &format!("exact/{id}"), 1000),
                extensions: with(full.clone()),
                ..Declaration::default()
            })
            .collect();
        batch[0].extensions = with(value);
        let mut bytes = Vec::new();
        ToCoordinator::from(Declare { batch }).encode(&mut bytes).unwrap();
        bytes
    };
    let count = total / (limits::EXTENSION_BYTES + 200) + 1;
    let bare = batch(count, 0).len();
    batch(count, total + 4 - bare)
}

/// Bytes of memory that this process holds, where the system says so.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[tokio::test]
async fn lanes_left_in_the_middle_of_a_frame_cost_nobody_else_anything() {
    let rig = Rig::new();
    let (_good, mut good) = rig.agent("a-good-one").await;
    let (bad, mut first) = rig.agent("a-bad-one").await;
    let mut lanes = Vec::new();
    for _ in 1..limits::LANES {
        let mut lane = bad.lane().await;
        lane.send_bytes(&filled_up(8_000)[..100]).await;
        lanes.push(lane);
    }
    rig.works_for(&mut good, 1).await;
    rig.works_for(&mut first, 1).await;
    for mut lane in lanes {
        lane.send.reset(VarInt::from_u32(0)).unwrap();
    }
    // Each of them makes room for another one.
    for id in 2..40 {
        let mut lane = bad.lane().await;
        rig.works_for(&mut lane, id).await;
        lane.send.finish().unwrap();
    }
}

#[tokio::test]
async fn long_frames_on_many_lanes_at_a_time_are_all_taken_in() {
    let rig = Rig::new();
    let (peer, mut first) = rig.agent("car-7").await;
    let frame = filled_up(20_000);
    let (start, rest) = frame.split_at(8_000);
    let mut lanes = Vec::new();
    for _ in 0..20 {
        let mut lane = peer.lane().await;
        lane.send_bytes(start).await;
        lanes.push(lane);
    }
    first.settle().await;
    // The last ones first: the coordinator has to take them in whichever it has begun with.
    for lane in lanes.iter_mut().rev() {
        lane.send_bytes(rest).await;
    }
    for lane in &mut lanes {
        lane.settle().await;
    }
}

#[tokio::test]
async fn a_frame_of_just_the_limit_is_decided_and_one_byte_more_is_not() {
    let rig = Rig::new();
    let (_peer, mut lane) = rig.agent("car-7").await;
    let frame = filled_up(limits::FRAME_BYTES);
    assert_eq!(frame.len(), limits::FRAME_BYTES + 4);
    lane.send_bytes(&frame).await;
    lane.settle().await;
    rig.next_slot();
    assert!(matches!(lane.verdict().await, (1, 1, Verdict::Granted { .. })));
    let (other, mut lane) = rig.agent("car-8").await;
    let mut longer = frame;
    let length = u32::try_from(limits::FRAME_BYTES + 1).unwrap();
    longer[..4].copy_from_slice(&length.to_le_bytes());
    lane.send_bytes(&longer[..4]).await;
    assert_eq!(other.close_code().await, CloseCode::FrameTooLong);
}

#[tokio::test]
async fn past_the_limit_of_a_name_each_declaration_is_refused_and_none_is_lost() {
    let rig = Rig::with(|config| config.limits.undecided_per_agent = 100);
    let (_good, mut good) = rig.agent("a-good-one").await;
    let (_peer, mut lane) = rig.agent("a-greedy-one").await;
    declare_all(&mut lane, (1..=1000).map(|id| intent(id, &format!("a/{id}"), 1000))).await;
    for _ in 100..1000 {
        let (request, id, Verdict::Rejected { reason, retry_after_us, .. }) = lane.verdict().await else {
            panic!("not refused")
        };
        assert!(request > 100 && request == id);
        assert!(reason == Refusal::Overloaded && retry_after_us.is_some());
    }
    rig.works_for(&mut good, 1).await;
    for expected in 1..=100 {
        assert!(matches!(lane.verdict().await, (request, _, Verdict::Granted { .. }) if request == expected));
    }
    rig.works_for(&mut lane, 2000).await;
}

/// What 1024 declarations against eight holders come to: 1024 long answers, and 8192 times "contested".
#[tokio::test]
async fn a_flood_of_conflicts_is_answered_and_does_not_cut_off_the_holder() {
    // Otherwise it would be cut off sooner, since what it asks for there it would have to pay for.
    let rig = Rig::with(|config| config.limits.search_per_agent = *limits::SEARCH_RANGE.end());
    let (holder, mut held) = rig.agent(&"h".repeat(limits::AGENT_BYTES)).await;
    let mut shared = declare(RawIntent { hold: true, ..intent(1, "dock", 60_000_000) });
    shared.batch[0].intent.claims[0].mode = RawMode::Shared;
    shared.batch[0].note = "n".repeat(limits::NOTE_BYTES);
    for id in 1..=8 {
        (shared.batch[0].request, shared.batch[0].intent.id) = (id, id);
        held.send(shared.clone()).await;
    }
    held.settle().await;
    rig.next_slot();
    for _ in 0..8 {
        assert!(matches!(held.verdict().await.2, Verdict::Granted { .. }));
    }
    let (_flood, mut lane) = rig.agent(&"f".repeat(limits::AGENT_BYTES)).await;
    let count = limits::SLOT_INPUTS_OF_A_NAME as u64;
    declare_all(&mut lane, (1..=count).map(|id| intent(id, "dock", 20_000))).await;
    lane.settle().await;
    rig.next_slot();
    for _ in 0..count {
        let (_, _, verdict) = lane.verdict().await;
        assert!(matches!(&verdict, Verdict::Conflict(it) if it.blockers.len() == 8), "{verdict:?}");
    }
    held.send(release(99, 1)).await;
    rig.works_for(&mut lane, 5000).await;
    loop {
        match held.receive().await {
            ToAgent::Contested(_) => {}
            ToAgent::Answer(answer) => break assert_eq!(answer.request, 99),
            other => panic!("{other:?}"),
        }
    }
    assert!(holder.connection.close_reason().is_none());
}

#[tokio::test]
async fn a_watcher_that_reads_is_told_how_much_of_a_flood_it_missed_and_one_that_never_reads_costs_little() {
    let rig = Rig::new();
    let before = resident();
    let (watching, mut watcher) = rig.agent("watcher").await;
    let mut narrow = TransportConfig::default();
    narrow.stream_receive_window(VarInt::from_u32(4096)).receive_window(VarInt::from_u32(4096));
    let asleep = Peer::connect_with(rig.addr, &rig.certificate, narrow).await;
    let (mut sleeper, _) = asleep.hello("sleeper").await;
    for request in 1..=limits::WATCHES_OF_A_CONNECTION as u64 {
        watcher.send(Watch { request, ..Watch::default() }).await;
        sleeper.send(Watch { request, ..Watch::default() }).await;
    }
    watcher.settle().await;
    sleeper.settle().await;
    let mut floods = Vec::new();
    for name in ["f-1", "f-2", "f-3"] {
        let (peer, mut lane) = rig.agent(name).await;
        let paths = (1..=1000).map(|id| intent(id, &format!("{name}/{id}"), 1000));
        declare_all(&mut lane, paths).await;
        lane.settle().await;
        floods.push((peer, lane));
    }
    rig.next_slot();
    for (_, lane) in &mut floods {
        for _ in 0..1000 {
            assert!(matches!(lane.verdict().await.2, Verdict::Granted { .. }));
        }
    }
    // What waited is read; the decision after it says what was left out.
    let mut seen = 0;
    watcher.send(preclaim::wire::ClockPing { seq: 5, client_us: 0 }).await;
    loop {
        match watcher.receive().await {
            ToAgent::WatchEvent(event) => seen += 1 + event.missed,
            ToAgent::ClockPong(_) => break,
            other => panic!("{other:?}"),
        }
    }
    rig.works_for(&mut floods[0].1, 5000).await;
    let total = (3000 + 1) * limits::WATCHES_OF_A_CONNECTION as u64;
    while seen < total {
        let ToAgent::WatchEvent(event) = watcher.receive().await else { panic!("no event") };
        seen += 1 + event.missed;
    }
    assert_eq!(seen, total);
    assert!(watching.connection.close_reason().is_none());
    if let (Some(before), Some(after)) = (before, resident()) {
        assert!(after.saturating_sub(before) < 512 << 20, "{before} grew to {after}");
    }
}

#[tokio::test]
async fn marks_that_were_never_handed_out_are_refused_or_lead_to_an_end() {
    let rig = Rig::new();
    let (_peer, mut lane) = rig.agent("car-7").await;
    rig.works_for(&mut lane, 1).await;
    let long = vec![2; limits::CURSOR_BYTES];
    let bad: [&[u8]; 6] = [b"\x01", b"\x00", b"\xff\xff\xff", b"\x0112345678x", b"\x0212345678\xff", &long];
    for (at, after) in bad.into_iter().enumerate() {
        let list =
            List { request: 9, granted: true, undecided: true, after: after.into(), ..List::default() };
        lane.send(list).await;
        match lane.receive().await {
            ToAgent::Answer(answer) => assert!(
                matches!(&answer.verdict, Verdict::Rejected { field, .. } if field == "after"),
                "case {at}"
            ),
            ToAgent::ListReply(reply) => assert!(reply.entries.is_empty() && reply.next.is_empty()),
            other => panic!("case {at}: {other:?}"),
        }
    }
    for after in [&b"\x01\xff\xff\xff\xff\xff\xff\xff\xff"[..], b"\x02", b"\x0212345678nobody"] {
        let list =
            List { request: 9, granted: true, undecided: true, after: after.into(), ..List::default() };
        lane.send(list).await;
        let ToAgent::ListReply(reply) = lane.receive().await else { panic!("no listing") };
        assert!(reply.entries.is_empty() && reply.next.is_empty());
    }
    rig.works_for(&mut lane, 2).await;
}

#[tokio::test]
async fn however_often_a_session_changes_hands_one_is_in_charge_and_its_grant_goes_on() {
    let rig = Rig::new();
    let (mut old, mut lane) = rig.agent("car-7").await;
    lane.send(declare(RawIntent { hold: true, ..intent(1, "dock", 60_000_000) })).await;
    lane.settle().await;
    rig.next_slot();
    assert!(matches!(lane.verdict().await.2, Verdict::Granted { .. }));
    for incarnation in 2..=50 {
        let new = rig.peer().await;
        let (mut new_lane, welcome) = new.say_hello(hello("car-7", "main", incarnation)).await;
        assert!(!welcome.resumed);
        assert!(matches!(lane.receive().await, ToAgent::Replaced(_)));
        assert_eq!(old.close_code().await, CloseCode::Replaced);
        let back = rig.peer().await;
        back.lane().await.send(hello("car-7", "main", incarnation - 1)).await;
        assert_eq!(back.close_code().await, CloseCode::Replaced);
        rig.works_for(&mut new_lane, incarnation as u64).await;
        (old, lane) = (new, new_lane);
    }
    let reply = rig.granted().await;
    assert!(reply.entries.iter().any(|entry| entry.id.number() == 1 && entry.hold));
    lane.send(release(99, 1)).await;
    lane.settle().await;
    rig.next_slot();
    assert!(matches!(lane.verdict().await, (99, 1, Verdict::Released { .. })));
    drop(old);
}

#[tokio::test]
async fn what_is_declared_and_left_behind_ends_by_itself() {
    let rig = Rig::new();
    let (_good, mut good) = rig.agent("a-good-one").await;
    for round in 0..200 {
        let (peer, mut lane) = rig.agent(&format!("gone-{}", round % 7)).await;
        lane.send(declare(RawIntent { wait: 20_000, ..intent(round + 1, "dock", 5_000) })).await;
        peer.connection.close(VarInt::from_u32(0), b"gone");
        if round % 10 == 0 {
            rig.works_for(&mut good, round + 1).await;
        }
    }
    for id in 1000..1010 {
        rig.works_for(&mut good, id).await;
    }
    let reply = rig.granted().await;
    assert!(reply.entries.iter().all(|entry| entry.agent == "a-good-one"), "{:?}", reply.entries);
}

#[tokio::test]
async fn a_place_among_the_connections_is_free_again_once_its_peer_is_gone() {
    let rig = Rig::with(|config| config.limits.connections = 1);
    for round in 1..=10 {
        let (peer, mut lane) = served(&rig).await;
        assert_eq!(rig.peer().await.close_code().await, CloseCode::TooManyConnections);
        rig.works_for(&mut lane, round).await;
        peer.connection.close(VarInt::from_u32(0), b"gone");
    }
}

/// A connection that is taken in. One that was closed here is forgotten there a little later, and until
/// then others are told that there are too many.
async fn served(rig: &Rig) -> (Peer, Lane) {
    for _ in 0..1000 {
        let peer = rig.peer().await;
        let mut lane = peer.lane().await;
        let mut bytes = Vec::new();
        ToCoordinator::from(hello("car-7", "main", 1)).encode(&mut bytes).unwrap();
        let sent = soon(lane.send.write_all(&bytes)).await;
        if sent.is_ok() && soon(lane.receive.read_chunk(limits::FRAME_BYTES, true)).await.is_ok() {
            return (peer, lane);
        }
    }
    panic!("it is never free again");
}
