//! Hostile clients against the real `preclaim serve`. In each: an honest agent beside them is granted all that it asks
//! for, all the time; the memory of the process is bounded; and the log names who it was, in few lines.
//!
//! On Linux, where all of 127.0.0.0/8 are addresses of this machine and a process's memory can be looked up.
#![cfg(all(feature = "daemon", target_os = "linux"))]
#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

mod hostile_rig;
mod private;
mod raw_peer;
mod scratch;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use hostile_rig::{ATTACKER, Honest, House};
use preclaim::client::{ConnectError, Filter};
use preclaim::limits;
use preclaim::types::{IntentId, RawClaim, RawExpect, RawIntent, RawMode, RawTarget, Slot, Time};
use preclaim::wire::{
    ClockPing, CloseCode, Declaration, Declare, Degradations, EntryState, Extensions, Hello, List, ListEntry,
    Refusal, Renew, Role, ToAgent, ToCoordinator, Verdict, Watch,
};
use quinn::{ConnectionError, Endpoint, TransportConfig, TransportErrorCode, VarInt};
use raw_peer::{client_config, declare, hello, intent, release, soon};
use scratch::Scratch;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::UdpSocket;

/// What a process may grow by under any of these attacks, beyond what the honest need: far less than what is sent to it.
const GROWTH: u64 = 128 << 20;

/// A task that ends with this.
struct Running(tokio::task::JoinHandle<()>);

impl Running {
    fn start(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Running(tokio::spawn(work))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn bytes(message: impl Into<ToCoordinator>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.into().encode(&mut bytes).unwrap();
    bytes
}

/// An agent's claims on what is its own, each id on a path of its own.
fn batch(ids: std::ops::RangeInclusive<u64>, under: &str) -> Declare {
    let one = |id| Declaration {
        request: id,
        intent: intent(id, &format!("{under}/{id}"), 60_000_000),
        ..Declaration::default()
    };
    Declare { batch: ids.map(one).collect() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_connections_and_of_handshakes_from_one_address_leaves_the_others_room() {
    let limits = "connections = 64\nconnections_per_address = 8\nhandshakes_per_second_per_address = 40";
    let house = House::open(limits);
    let mut honest = Honest::at(&house).await;
    let before = house.resident();
    let (mut kept, mut refused) = (Vec::new(), 0);
    while refused < 20 {
        match house.try_peer(ATTACKER).await {
            // For some of them there is no room: those are closed a little later.
            Ok(peer) => kept.push(peer),
            Err(ConnectionError::ConnectionClosed(close)) => {
                assert_eq!(close.error_code, TransportErrorCode::CONNECTION_REFUSED);
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    honest.goes_on().await;
    house.serves_a_newcomer().await;
    house.until_reached("connections_per_address", 1).await;
    house.has_grown_by_at_most(before, GROWTH);
    house.until_line(&["connections_per_address", "peer=127.0.0.2"]);
    honest.ends().await;
    house.says_little_of_peers();
}

/// The first packets of so many handshakes, with which nobody goes on.
async fn first_packets(house: &House, count: usize) -> Vec<Vec<u8>> {
    let sink = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let config = client_config(&house.certificate, TransportConfig::default());
    // By the id that each chose for the coordinator: some come again.
    let (mut begun, mut packets, mut packet) = (Vec::new(), BTreeMap::new(), [0; 2048]);
    while packets.len() < count {
        begun.push(endpoint.connect_with(config.clone(), sink.local_addr().unwrap(), "localhost").unwrap());
        let (length, _) = soon(sink.recv_from(&mut packet)).await.unwrap();
        let id = packet[6..6 + usize::from(packet[5])].to_vec();
        packets.insert(id, packet[..length].to_vec());
    }
    packets.into_values().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_that_are_never_finished_from_addresses_that_may_be_forged_keep_nobody_out() {
    let house = Arc::new(House::open("handshakes_unproven = 32\nhello_timeout = \"500ms\""));
    let mut honest = Honest::at(&house).await;
    let before = house.resident();
    let packets = first_packets(&house, 200).await;
    // In the name of those who are honest, too.
    let hosts = [1, 3, 4, 5, 6, 7, 8, 9].map(|last| Ipv4Addr::new(127, 0, 0, last));
    let flood = Running::start({
        let house = Arc::clone(&house);
        async move {
            let mut sockets = Vec::new();
            for host in hosts {
                sockets.push(UdpSocket::bind((host, 0)).await.unwrap());
            }
            loop {
                for (packet, socket) in packets.iter().zip(sockets.iter().cycle()) {
                    let _ = socket.send_to(packet, house.addr).await;
                }
                // Not faster than the process answers at all.
                house.get("/livez").await;
            }
        }
    });
    house.until_reached("handshakes_unproven", 100).await;
    house.until_reached("hello_timeout", 20).await;
    honest.goes_on().await;
    house.serves_a_newcomer().await;
    house.has_grown_by_at_most(before, GROWTH);
    house.until_line(&["a handshake was not finished in time", "peer=127.0.0."]);
    drop(flood);
    honest.ends().await;
    house.says_little_of_peers();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_lanes_lanes_that_never_end_and_lengths_that_never_come_cost_their_sender_alone() {
    let house = House::open("hello_timeout = \"1m\"");
    let mut honest = Honest::at(&house).await;
    let before = house.resident();
    let announced = u32::try_from(limits::FRAME_BYTES).unwrap().to_le_bytes();
    let mut attackers = Vec::new();
    for at in 0..4 {
        let (peer, first) = house.attacker_labelled("mallory", &format!("slow-{at}")).await;
        let mut lanes = Vec::new();
        for _ in 1..limits::LANES {
            let mut lane = peer.lane().await;
            lane.send_bytes(&[&announced[..], &[3, 0], &[0; 2000]].concat()).await;
            lanes.push(lane);
        }
        attackers.push((peer, first, lanes));
    }
    // One that does not even say hello, byte by byte.
    let silent = house.try_peer(ATTACKER).await.unwrap();
    let mut never = silent.lane().await;
    let greeting = bytes(hello("mallory", "never", 1));
    for byte in &greeting[..greeting.len() - 1] {
        never.send_bytes(&[*byte]).await;
        for (_, _, lanes) in &mut attackers {
            lanes[0].send_bytes(&[0]).await;
        }
    }
    house.until_reached("lanes", 4).await;
    honest.goes_on().await;
    // Its own first lane goes on as well.
    attackers[0].1.settle().await;
    for length in [limits::FRAME_BYTES as u32 + 1, u32::MAX - 3, u32::MAX].into_iter().cycle().take(30) {
        let (peer, mut lane) = house.attacker("mallory").await;
        lane.send_bytes(&length.to_le_bytes()).await;
        assert_eq!(peer.close_code().await, CloseCode::FrameTooLong);
    }
    honest.goes_on().await;
    house.has_grown_by_at_most(before, GROWTH);
    house.until_line(&[CloseCode::FrameTooLong.as_str(), "peer=127.0.0.2", "agent=\"mallory\""]);
    honest.ends().await;
    house.says_little_of_peers();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_declarations_takes_what_one_name_may_have_and_no_more() {
    let house = House::open("slot_inputs_per_agent = 300\nlive_per_agent = 1000");
    let mut honest = Honest::at(&house).await;
    let before = house.resident();
    let (_peer, mut lane) = house.attacker("mallory").await;
    let (mut granted, mut refused) = (0, 0);
    for round in 0..20 {
        lane.send(batch(round * 256 + 1..=(round + 1) * 256, "flood")).await;
        for _ in 0..256 {
            match lane.verdict().await.2 {
                Verdict::Granted { .. } => granted += 1,
                Verdict::Rejected { reason: Refusal::Overloaded, hint, .. } => {
                    assert!(hint.contains("_per_agent)"), "{hint}");
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((granted, refused), (1000, 20 * 256 - 1000));
    honest.goes_on().await;
    house.serves_a_newcomer().await;
    house.has_grown_by_at_most(before, GROWTH);
    house.until_line(&["asks for more than it may have", "peer=127.0.0.2", "agent=\"mallory\""]);
    honest.ends().await;
    house.says_little_of_peers();
}

/// Puts a list in another order, the same each time.
fn shuffled<T>(mut list: Vec<T>) -> Vec<T> {
    let mut number = 7_u64;
    for at in (1..list.len()).rev() {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list.swap(at, (number >> 33) as usize % (at + 1));
    }
    list
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_come_again_and_in_any_order_are_each_answered_and_grant_nothing_twice() {
    let house = House::open("");
    let mut honest = Honest::at(&house).await;
    let (peer, first) = house.attacker("mallory").await;
    let mut frames = Vec::new();
    for id in 1..=20 {
        let renew = Renew {
            request: 200 + id,
            id: IntentId::new(id),
            until: Time::from_us(u64::MAX),
            extensions: Extensions::NONE,
        };
        let declared = bytes(batch(id..=id, "again"));
        let frame_of = [(id, declared), (100 + id, bytes(release(100 + id, id))), (200 + id, bytes(renew))];
        for frame in frame_of {
            frames.extend([frame.clone(), frame.clone(), frame]);
        }
    }
    let (mut lanes, frames) = (vec![first], shuffled(frames));
    for _ in 0..5 {
        lanes.push(peer.lane().await);
    }
    // A request that came several times on one lane is one, and may be answered once.
    let mut asked: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); lanes.len()];
    for (at, (request, frame)) in frames.iter().enumerate() {
        let lane = at % lanes.len();
        lanes[lane].send_bytes(frame).await;
        asked[lane].insert(*request);
    }
    let mut tokens: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (lane, mut asked) in lanes.iter_mut().zip(asked) {
        while !asked.is_empty() {
            let (request, id, verdict) = lane.verdict().await;
            asked.remove(&request);
            if let Verdict::Granted { token, .. } = verdict {
                tokens.entry(id).or_default().insert(token.number());
            }
        }
    }
    assert!(tokens.values().all(|tokens| tokens.len() == 1), "{tokens:?}");
    honest.goes_on().await;
    honest.ends().await;
}

/// Somebody on the way between an agent and the coordinator, who keeps what the agent sends.
struct Wiretap {
    addr: std::net::SocketAddr,
    /// From which the coordinator sees the agent come.
    back: Arc<UdpSocket>,
    kept: Arc<Mutex<Vec<Vec<u8>>>>,
    _running: Running,
}

impl Wiretap {
    async fn on_the_way_to(house: &House) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let kept: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let (addr, to) = (front.local_addr().unwrap(), house.addr);
        let running = Running::start({
            let (back, kept) = (Arc::clone(&back), Arc::clone(&kept));
            async move {
                let (mut agent, mut up, mut down) = (None, vec![0; 65_536], vec![0; 65_536]);
                loop {
                    tokio::select! {
                        Ok((length, from)) = front.recv_from(&mut up) => {
                            agent = Some(from);
                            kept.lock().unwrap().push(up[..length].to_vec());
                            let _ = back.send_to(&up[..length], to).await;
                        }
                        Ok((length, _)) = back.recv_from(&mut down) => {
                            if let Some(agent) = agent {
                                let _ = front.send_to(&down[..length], agent).await;
                            }
                        }
                    }
                }
            }
        });
        Wiretap { addr, back, kept, _running: running }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_sent_is_of_no_use_to_whoever_sends_it_again() {
    let house = House::open("hello_timeout = \"500ms\"");
    let tap = Wiretap::on_the_way_to(&house).await;
    let mut honest = Honest::with(house.settings_by(tap.addr).name("an-honest-one")).await;
    let stranger = UdpSocket::bind((ATTACKER, 0)).await.unwrap();
    for _ in 0..3 {
        honest.goes_on().await;
        let kept = tap.kept.lock().unwrap().clone();
        for packet in kept.iter().rev().chain(&shuffled(kept.clone())) {
            let _ = tap.back.send_to(packet, house.addr).await;
            let _ = stranger.send_to(packet, house.addr).await;
        }
        honest.goes_on().await;
    }
    let granted = honest.ends().await;
    let series = "preclaim_intents_total{outcome=\"granted\"}";
    let counted = async { while house.metric(series).await < granted as f64 {} };
    soon(counted).await;
    assert_eq!(house.metric(series).await, granted as f64, "nothing was declared twice");
    let is_left = async { while house.metric("preclaim_names").await > 0.0 {} };
    soon(is_left).await; // and nobody else has come in
    house.says_little_of_peers();
}

/// What is granted to `agent`, as an observer sees it.
async fn granted_to(house: &House, agent: &str) -> Vec<ListEntry> {
    let peer = house.try_peer(Ipv4Addr::LOCALHOST).await.unwrap();
    let (mut lane, _) =
        peer.say_hello(Hello { role: Role::Observer, name: None, ..hello("", "ls", 1) }).await;
    lane.send(List { request: 1, agent: Some(agent.into()), granted: true, ..List::default() }).await;
    let ToAgent::ListReply(reply) = lane.receive().await else { panic!("no listing") };
    reply.entries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_releases_renews_or_revises_what_is_anothers() {
    let house = House::open("");
    let mut honest = Honest::at(&house).await;
    let owner = house.try_peer(Ipv4Addr::LOCALHOST).await.unwrap();
    let (mut owned, _) = owner.hello("the-owner").await;
    let lease = |id| RawIntent { hold: true, ..intent(id, "dock", 60_000_000) };
    owned.send(declare(lease(1))).await;
    assert!(matches!(owned.verdict().await.2, Verdict::Granted { .. }));
    let before = granted_to(&house, "the-owner").await;
    let EntryState::Granted { end, .. } = before[0].state else { panic!("{before:?}") };

    // Another name: ids are of its own, whatever they are.
    let (_peer, mut lane) = house.attacker("mallory").await;
    for (at, id) in [1, 0, 2, u64::MAX].into_iter().enumerate() {
        let request = 10 * at as u64 + 1;
        lane.send(release(request, id)).await;
        assert_eq!(lane.verdict().await.2, Verdict::ReleasedUnknown);
        let renew =
            |until, request| Renew { request, id: IntentId::new(id), until, extensions: Extensions::NONE };
        for (until, request) in [(Time::ZERO, request + 1), (end, request + 2)] {
            lane.send(renew(until, request)).await;
            assert_eq!(lane.verdict().await.2, Verdict::RenewDeniedUnknown);
        }
        let revision = Declaration {
            request: request + 3,
            revision: true,
            intent: RawIntent { class: 7, urgency: 1.0, ..lease(id) },
            ..Declaration::default()
        };
        lane.send(Declare { batch: vec![revision] }).await;
        let verdict = lane.verdict().await.2;
        assert!(matches!(verdict, Verdict::Conflict(_) | Verdict::Rejected { .. }), "{verdict:?}");
    }
    assert_eq!(granted_to(&house, "the-owner").await, before);

    // Another session that was in charge before: nothing that it sends counts any more.
    let heir = house.try_peer(Ipv4Addr::LOCALHOST).await.unwrap();
    let (mut inherited, _) = heir.say_hello(hello("the-owner", "main", 2)).await;
    let _ = soon(owned.send.write_all(&bytes(release(5, 1)))).await;
    assert_eq!(owner.close_code().await, CloseCode::Replaced);
    inherited.settle().await;
    assert_eq!(granted_to(&house, "the-owner").await, before);
    honest.goes_on().await;
    honest.ends().await;
    house.says_little_of_peers();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lies_about_the_time_move_nobodys_clock_and_nobodys_window() {
    let house = House::open("");
    let mut honest = Honest::at(&house).await;
    let peer = house.try_peer(ATTACKER).await.unwrap();
    let seen = Some(Slot::new(u64::MAX));
    let (mut lane, welcome) = peer.say_hello(Hello { seen, ..hello("mallory", "main", 1) }).await;
    let mut last = welcome.now;
    for (seq, client_us) in
        [(7, u64::MAX), (7, 0), (u64::MAX, 1), (0, u64::MAX), (7, 7)].into_iter().cycle().take(500)
    {
        lane.send(ClockPing { seq, client_us }).await;
        let ToAgent::ClockPong(pong) = lane.receive().await else { panic!("no pong") };
        assert_eq!((pong.seq, pong.client_us), (seq, client_us), "it is only told again");
        assert!(pong.coordinator >= last);
        last = pong.coordinator;
    }
    let claim = |offset, duration| {
        let target = RawTarget::Path("mallorys".into());
        RawClaim { target, mode: RawMode::Exclusive, offset, duration }
    };
    let plain = || intent(0, "mallorys", 1000);
    let expects = vec![RawExpect { path: "honest".into(), as_of: u64::MAX }];
    let lies = [
        RawIntent { start: Some(u64::MAX), ..plain() },
        RawIntent { start: Some(0), ..plain() },
        RawIntent { start: Some(last.as_us().saturating_sub(60_000_000)), ..plain() },
        RawIntent { wait: u64::MAX, ..plain() },
        RawIntent { slack: u64::MAX, ..plain() },
        RawIntent { claims: vec![claim(u64::MAX, 1)], ..plain() },
        RawIntent { claims: vec![claim(0, u64::MAX)], ..plain() },
        RawIntent { claims: vec![claim(u64::MAX, u64::MAX)], ..plain() },
        RawIntent { expects, ..plain() },
    ];
    for (id, lie) in (1..).zip(lies) {
        lane.send(declare(RawIntent { id, ..lie.clone() })).await;
        let verdict = lane.verdict().await.2;
        // A wait without an end is none where nobody is in the way.
        let is_plain = matches!(verdict, Verdict::Granted { end, .. } if lie.wait > 0 && end.since(last) < welcome.horizon);
        assert!(is_plain || matches!(verdict, Verdict::Rejected { .. }), "{lie:?}: {verdict:?}");
    }
    lane.send(declare(RawIntent { hold: true, ..intent(99, "mallorys", 60_000_000) })).await;
    assert!(matches!(lane.verdict().await.2, Verdict::Granted { .. }));
    for until in [u64::MAX, u64::MAX - 1, 0] {
        let (id, until) = (IntentId::new(99), Time::from_us(until));
        lane.send(Renew { request: 99, id, until, extensions: Extensions::NONE }).await;
        let verdict = lane.verdict().await.2;
        let is_bounded = match &verdict {
            Verdict::Renewed { end } => end.since(last) <= welcome.horizon,
            Verdict::RenewDenied { .. } | Verdict::Rejected { .. } => true,
            _ => false,
        };
        assert!(is_bounded, "{verdict:?}");
    }
    honest.goes_on().await;
    honest.ends().await;
}

/// Legal, and made to steer a terminal, to break out of a label or of a line, or to look like something else.
const ODD: [&str; 6] = [
    "\u{202e}yrollam\u{2066}odd",
    "odd\"} 1\n# ",
    "odd' \\ $(reboot) `x` <b>",
    "\u{200b}\u{feff}odd\u{200f}\u{61c}",
    "odd\u{2028}2026-01-01T00:00:00Z  WARN all is well\u{2029}",
    "odd\" peer=127.0.0.1 agent=\"an-honest-one",
];

/// What is not legal anywhere.
const STEERING: [&str; 7] = ["\u{1b}[2J", "a\u{1b}]0;x\u{7}", "a\nb", "a\rb", "a\0b", "\u{9b}31m", "\u{7f}"];

/// Without what would steer a terminal, is not seen, or turns round what stands beside it.
#[track_caller]
fn is_harmless(text: &str) {
    let harms = |c: &char| {
        let is_mark = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        is_mark || c.is_control() && *c != '\n'
    };
    assert_eq!(text.chars().find(harms), None, "{text:?}");
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// The lines that a running `preclaim watch` prints.
struct Watching(std::process::Child, std::io::Lines<BufReader<std::process::ChildStdout>>);

impl Watching {
    fn start(house: &House, format: &str) -> Self {
        let mut command = house.command(&["watch", "--output", format]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The honest agent's: from here on it is told everything.
        lines.next().unwrap().unwrap();
        Watching(child, lines)
    }

    fn line_with(&mut self, text: &str) -> String {
        self.1.by_ref().map(Result::unwrap).find(|line| line.contains(text)).expect("the watch ended")
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_labels_notes_and_paths_with_what_steers_a_terminal_are_refused() {
    let house = House::open("handshakes_per_second_per_address = 1000");
    let mut honest = Honest::at(&house).await;
    let (_peer, mut lane) = house.attacker("mallory").await;
    for (at, odd) in STEERING.into_iter().enumerate() {
        for hello in [hello(odd, "main", 1), hello("mallory", odd, 1)] {
            let peer = house.try_peer(ATTACKER).await.unwrap();
            peer.lane().await.send(Hello { software: odd.into(), ..hello }).await;
            assert_eq!(peer.close_code().await, CloseCode::NameRefused, "{odd:?}");
        }
        let id = at as u64 + 1;
        let in_path = intent(id, odd, 1000);
        let expects = vec![RawExpect { path: odd.into(), as_of: 1 }];
        let in_reading = RawIntent { expects, ..intent(id, "a", 1000) };
        for intent in [in_path, in_reading] {
            lane.send(declare(intent)).await;
            let verdict = lane.verdict().await.2;
            assert!(
                matches!(verdict, Verdict::Rejected { reason: Refusal::Invalid, .. }),
                "{odd:?}: {verdict:?}"
            );
        }
        let mut with_note = declare(intent(id, "a", 1000));
        with_note.batch[0].note = odd.into();
        lane.send(with_note).await;
        let Verdict::Rejected { field, hint, .. } = lane.verdict().await.2 else { panic!("{odd:?}") };
        assert_eq!(field, "note");
        is_harmless(&hint);
    }
    honest.goes_on().await;
    house.until_line(&[CloseCode::NameRefused.as_str(), "peer=127.0.0.2"]);
    honest.ends().await;
    house.lines().iter().for_each(|line| is_harmless(line));
    house.says_little_of_peers();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_names_labels_notes_and_paths_are_shown_to_people_harmlessly_and_to_programs_as_they_are() {
    let house = House::open("");
    let honest = Honest::at(&house).await;
    let (mut table, mut json) = (Watching::start(&house, "table"), Watching::start(&house, "json"));
    // Not all of them are legal: the newline is left out.
    let odd: Vec<String> = ODD.iter().map(|odd| odd.replace('\n', " ")).collect();
    let mut peers = Vec::new();
    for (at, odd) in odd.iter().enumerate() {
        let from = Ipv4Addr::new(127, 0, 1, at as u8 + 1);
        let peer = house.try_peer(from).await.unwrap();
        let told = Degradations { stopped: 1, ..Degradations::default() }.extensions();
        let hello = Hello { extensions: told, software: STEERING[at].into(), ..hello(odd, odd, 1) };
        let (mut lane, _) = peer.say_hello(hello).await;
        let mut claims = declare(RawIntent { hold: true, ..intent(1, &format!("odd/{odd}"), 600_000_000) });
        claims.batch[0].note = format!("mark-{at} {odd}");
        lane.send(claims).await;
        assert!(matches!(lane.verdict().await.2, Verdict::Granted { .. }), "{odd:?}");
        peers.push((peer, lane));
    }
    for (at, odd) in odd.iter().enumerate() {
        let mark = format!("mark-{at} ");
        is_harmless(&table.line_with(&mark));
        let line: Value = serde_json::from_str(&json.line_with(&mark)).unwrap();
        assert_eq!((&line["agent"], &line["note"]), (&Value::from(odd.as_str()), &Value::from(mark + odd)));
        house.until_line(&["went without grants", &format!("peer=127.0.1.{}", at + 1)]);
    }
    let listed = text(house.run(&["ls", "odd", "--output", "table"]).stdout);
    is_harmless(&listed);
    assert_eq!(listed.lines().count(), odd.len() + 1, "one line each: {listed}");
    let listed = text(house.run(&["ls", "odd", "--output", "json"]).stdout);
    let entries = serde_json::from_str::<Value>(&listed).unwrap()["entries"].clone();
    let agents = entries.as_array().unwrap().iter().map(|entry| entry["agent"].as_str().unwrap().to_owned());
    assert_eq!(agents.collect::<BTreeSet<_>>(), odd.iter().cloned().collect());
    // Who is in the way of somebody who declares above all of them, is in their way, and asks why.
    let said = house.run(&["declare", "odd", "--for", "1s", "--output", "table"]);
    assert_eq!(said.status.code(), Some(10), "{said:?}");
    is_harmless(&(text(said.stdout) + &text(said.stderr)));
    is_harmless(&table.line_with("conflict"));
    let state = house.state().display().to_string();
    for odd in &odd {
        let said = house.run(&["audit", "why", &format!("{odd}/1"), &state, "--output", "table"]);
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        is_harmless(&(text(said.stdout) + &text(said.stderr)));
    }
    let metrics = house.get("/metrics").await;
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok() && !line.contains("odd"), "{line}");
    }
    let claims: Value = serde_json::from_str(&house.get("/claims").await).unwrap();
    let held = claims["longest_held"].as_array().unwrap();
    assert!(held.iter().any(|entry| entry["agent"] == odd[0].as_str()), "{claims}");
    honest.ends().await;
    let lines = house.lines();
    lines.iter().for_each(|line| is_harmless(line));
    // A name, a label or a note begins no line of its own, and is taken for no other field.
    assert!(
        lines.iter().filter(|line| line.contains("WARN")).all(|line| line.starts_with("2")),
        "{lines:#?}"
    );
    assert!(!lines.iter().any(|line| line.contains("peer=127.0.0.1 ")), "{lines:#?}");
    house.says_little_of_peers();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_never_read_and_a_flood_of_listings_leave_the_others_both() {
    let house = House::open("unread_timeout = \"1s\"");
    let mut honest = Honest::at(&house).await;
    let (_filler, mut full) = house.attacker("filler").await;
    full.send(batch(1..=256, "full")).await;
    for _ in 0..256 {
        assert!(matches!(full.verdict().await.2, Verdict::Granted { .. }));
    }
    let before = house.resident();
    let (mut attackers, mut taken_up) = (Vec::new(), 0);
    for at in 0..8 {
        let mut narrow = TransportConfig::default();
        narrow.stream_receive_window(VarInt::from_u32(4096)).receive_window(VarInt::from_u32(4096));
        let peer = house.try_peer_with(ATTACKER, narrow).await.unwrap();
        let (mut lane, _) = peer.say_hello(hello("mallory", &format!("watch-{at}"), 1)).await;
        for request in 1..=limits::WATCHES_OF_A_CONNECTION as u64 {
            lane.send(Watch { request, ..Watch::default() }).await;
        }
        lane.send(ClockPing { seq: 1, client_us: 0 }).await;
        taken_up += limits::WATCHES_OF_A_CONNECTION;
        loop {
            match lane.receive().await {
                ToAgent::Answer(answer) => {
                    assert!(matches!(answer.verdict, Verdict::Rejected { reason: Refusal::Overloaded, .. }));
                    taken_up -= 1;
                }
                ToAgent::WatchEvent(_) => {}
                ToAgent::ClockPong(_) => break,
                other => panic!("{other:?}"),
            }
        }
        attackers.push((peer, lane));
    }
    assert_eq!(taken_up, limits::WATCHES_OF_A_NAME);
    let client = house.settings().name("a-watcher").connect().await.unwrap();
    let mut watching = client.watch(Filter::all()).await.unwrap();
    let list = bytes(List { request: 1, granted: true, undecided: true, ..List::default() });
    let mut lanes = Vec::new();
    for (peer, _) in &attackers {
        for _ in 0..30 {
            // Those that are let go meanwhile open no more.
            let Ok((mut send, receive)) = soon(peer.connection.open_bi()).await else { break };
            let _ = soon(send.write_all(&list.repeat(100))).await;
            lanes.push((send, receive));
        }
    }
    for _ in 0..5 {
        assert!(soon(watching.next()).await.unwrap().is_ok());
    }
    assert_eq!(soon(client.list(Filter::all())).await.unwrap().entries.len() / 256, 1);
    honest.goes_on().await;
    house.until_line(&["reads too slowly", "peer=127.0.0.2", "agent=\"mallory\""]);
    house.has_grown_by_at_most(before, GROWTH);
    client.close().await;
    honest.ends().await;
    house.says_little_of_peers();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_by_http_that_never_end_keep_nobody_from_an_answer() {
    let house = House::open("");
    let mut honest = Honest::at(&house).await;
    let before = house.resident();
    let mut kept = Vec::new();
    let head = "POST /metrics HTTP/1.1\r\nhost: here\r\n";
    let endless = format!("{head}content-length: 1000000000000\r\n\r\n");
    let chunked = "GET /metrics HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n";
    for begun in ["GET /met", head, &endless, chunked, "x", ""] {
        for _ in 0..limits::WATCHING_CONNECTIONS {
            let mut stream = house.http(begun.as_bytes()).await;
            kept.push(Running::start(async move {
                // As long as it is taken.
                while stream.write_all(&[b'1'; 4096]).await.is_ok() {}
            }));
        }
        assert_eq!(house.get("/readyz").await, "ready\n");
        assert!(house.get("/metrics").await.contains("preclaim_ready 1"));
    }
    drop(kept);
    // Far more than could have their time one after the other while somebody waits.
    let mut silent = Vec::new();
    for _ in 0..4 * limits::WATCHING_CONNECTIONS {
        silent.push(house.http(b"GET /met").await);
    }
    assert_eq!(house.get("/livez").await, "alive\n");
    honest.goes_on().await;
    house.has_grown_by_at_most(before, GROWTH);
    honest.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_come_and_go_keep_no_other_name_out() {
    let house = House::open("names = 16\nsessions_per_agent = 8");
    let mut honest = Honest::at(&house).await;
    for number in 0..40 {
        let (peer, mut lane) = house.attacker(&format!("mallory-{number}")).await;
        lane.settle().await;
        peer.connection.close(VarInt::from_u32(0), b"gone");
        let (peer, mut lane) = house.attacker_labelled("mallory", &format!("label-{number}")).await;
        lane.settle().await;
        peer.connection.close(VarInt::from_u32(0), b"gone");
    }
    house.until_reached("names", 1).await;
    house.until_reached("sessions_per_agent", 1).await;
    house.serves_a_newcomer().await;
    honest.goes_on().await;
    honest.ends().await;
    house.says_little_of_peers();
}

/// An authority, and certificates of it.
struct Authority(String, String);

impl Authority {
    fn fresh() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "an authority");
        Authority(params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    /// A certificate and its key that say `name`, as it stands in a URI.
    fn issue(&self, name: &str) -> (String, String) {
        let issuer =
            rcgen::Issuer::from_ca_cert_pem(&self.0, rcgen::KeyPair::from_pem(&self.1).unwrap()).unwrap();
        let mut params = rcgen::CertificateParams::default();
        let uri = format!("preclaim://agent/{name}");
        params.subject_alt_names = vec![rcgen::SanType::URI(uri.as_str().try_into().unwrap())];
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_shows_anothers_certificate_or_asks_for_anothers_name_stays_out_and_is_named() {
    let (own, foreign) = (Authority::fresh(), Authority::fresh());
    let house = House::start("client_ca = \"ca.pem\"", "", |home: &Scratch| {
        std::fs::write(home.path().join("ca.pem"), &own.0).unwrap();
    });
    let by = |authority: &Authority, name| {
        let (cert, key) = authority.issue(name);
        house.settings().identity(cert, key)
    };
    let mut honest = Honest::with(by(&own, "an-honest-one")).await;
    for _ in 0..10 {
        let error = soon(by(&own, "mallory%E2%80%AE%22").name("an-honest-one").connect()).await.unwrap_err();
        assert!(matches!(error, ConnectError::AnothersName { .. }), "{error:?}");
        let error = soon(by(&foreign, "an-honest-one").connect()).await.unwrap_err();
        assert!(matches!(error, ConnectError::CertificateRefused { .. }), "{error:?}");
        let error = soon(by(&own, "mallory%1B%5B2J").connect()).await.unwrap_err();
        assert!(matches!(error, ConnectError::CertificateRefused { .. }), "{error:?}");
    }
    honest.goes_on().await;
    let mallory = soon(by(&own, "mallory%E2%80%AE%22").connect()).await.unwrap();
    assert_eq!(mallory.name(), "mallory\u{202e}\"");
    house.until_line(&[CloseCode::AnothersName.as_str(), "mallory", "peer=127.0.0.1"]);
    house.until_line(&["a handshake failed", "peer=127.0.0.1"]);
    mallory.close().await;
    honest.ends().await;
    house.lines().iter().for_each(|line| is_harmless(line));
    house.says_little_of_peers();
}
