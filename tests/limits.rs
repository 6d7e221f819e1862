//! Limits: the tables in docs/LIMITS.md are those of the program, and a coordinator at work keeps to them and says so.

#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

mod raw_peer;

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use preclaim::client::{Client, ConnectError};
use preclaim::clock::ManualClock;
use preclaim::config::{Config, LimitRow, Limits, TEMPLATE};
use preclaim::coordinator::{Coordinator, CoordinatorConfig, View};
use preclaim::limits::{self, Limit};
use preclaim::resolver::Rules;
use preclaim::types::{Micros, RawClaim, RawIntent, RawMode, RawTarget, Time};
use preclaim::wire::{ClockPing, CloseCode, Declaration, Declare, Refusal, ToAgent, ToCoordinator, Verdict};
use quinn::{ConnectionError, TransportConfig, TransportErrorCode};
use raw_peer::{Lane, Peer, declare, hello, intent, release, soon};
use rustls::pki_types::CertificateDer;

const DOCUMENT: &str = include_str!("../docs/LIMITS.md");

/// The cells of the rows of each table in the document, heads left out.
fn rows(document: &'static str) -> Vec<Vec<&'static str>> {
    let cells = |line: &'static str| {
        let inner = line.trim_start_matches('|').trim_end_matches('|');
        inner.split('|').map(str::trim).collect()
    };
    let rows = document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| limit"));
    rows.map(cells).collect()
}

fn section(head: &str) -> &'static str {
    let from = DOCUMENT.find(head).expect("the section is there");
    let rest = &DOCUMENT[from + head.len()..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

#[test]
fn the_document_has_each_limit_that_can_be_configured_with_its_default_and_range() {
    let written: Vec<[String; 4]> = rows(section("## What can be configured"))
        .into_iter()
        .map(|cells| {
            assert_eq!(cells.len(), 6, "{cells:?}");
            assert!(cells.iter().all(|cell| !cell.is_empty()), "{cells:?}");
            [cells[0].trim_matches('`'), cells[1], cells[2], cells[3]].map(str::to_owned)
        })
        .collect();
    let of = |LimitRow { key, default, least, most }: LimitRow| [key.to_owned(), default, least, most];
    assert_eq!(written, Limits::table().into_iter().map(of).collect::<Vec<_>>());
}

#[test]
fn the_document_has_each_limit_that_is_counted_and_each_that_is_fixed() {
    for limit in Limit::ALL {
        assert!(DOCUMENT.contains(&format!("`{}`", limit.as_str())), "{}", limit.as_str());
    }
    let fixed = rows(section("## What is fixed"));
    let value_of = |name: &str| {
        let row = fixed.iter().find(|cells| cells[0] == name).unwrap_or_else(|| panic!("{name}"));
        let numbers = row[1].split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        numbers.map(|digits| digits.parse().unwrap()).collect::<Vec<u64>>()
    };
    let within = limits::PEER_LINES_WITHIN.as_us() / 1_000_000;
    let log_within = limits::LOG_LINES_WITHIN.as_us() / 1_000_000;
    let known: [(&str, &[u64]); 30] = [
        ("frame", &[limits::FRAME_BYTES as u64]),
        ("batch", &[limits::BATCH as u64]),
        ("claims of an intent", &[limits::CLAIMS as u64]),
        ("readings of an intent", &[limits::EXPECTS as u64]),
        ("corners of a polygon", &[limits::CORNERS_MAX as u64]),
        ("segments of a path", &[limits::PATH_SEGMENTS as u64]),
        ("bytes of a path", &[limits::PATH_BYTES as u64]),
        ("bytes of a name", &[limits::AGENT_BYTES as u64]),
        ("bytes of a label", &[limits::LABEL_BYTES as u64]),
        ("bytes of a note", &[limits::NOTE_BYTES as u64]),
        ("extensions of a message", &[limits::EXTENSIONS as u64]),
        ("bytes of all extensions", &[limits::EXTENSIONS_BYTES as u64]),
        ("handshakes at a time", &[limits::HANDSHAKES as u64]),
        ("`addresses`", &[limits::ADDRESSES_BESIDE as u64]),
        (
            "`watches`",
            &[limits::WATCHES_OF_A_CONNECTION, limits::WATCHES_OF_A_NAME, limits::WATCHES]
                .map(|it| it as u64),
        ),
        ("`capacities_set`", &[limits::CAPACITIES_SET as u64]),
        ("listings of a connection", &[limits::LISTINGS_OF_A_CONNECTION as u64]),
        ("connections by HTTP", &[limits::WATCHING_CONNECTIONS as u64]),
        ("`news_kept`", &[limits::NEWS_OF_A_NAME as u64, limits::NEWS_KEPT as u64]),
        ("`peer_lines`", &[limits::PEER_LINES_OF_AN_ADDRESS, limits::PEER_LINES, within]),
        ("addresses in the log", &[limits::PEER_LINES_ADDRESSES as u64]),
        ("lines of the log from one place of the program", &[limits::LOG_LINES, log_within]),
        ("`traces`", &[limits::TRACES as u64]),
        ("traced decisions of a slot", &[limits::TRACED_OF_A_SLOT as u64]),
        ("slots that wait to be made spans of", &[limits::TRACED_WAITING as u64]),
        ("spans that wait to be sent", &[limits::SPANS as u64]),
        ("spans of a request", &[limits::SPANS_AT_ONCE as u64]),
        ("bytes of a `tracestate`", &[limits::TRACESTATE_BYTES as u64]),
        ("bytes of a file with certificates, keys, lists or tokens", &[limits::PEM_BYTES as u64]),
        ("seconds of a drain", &[limits::DRAIN_MOST.as_us() / 1_000_000]),
    ];
    for (name, values) in known {
        assert_eq!(value_of(name), values, "{name}");
    }
    assert_eq!(value_of("bytes of a configuration"), [limits::CONFIG_BYTES as u64]);
    assert_eq!(fixed.len(), known.len() + 1, "each is held against the program here");
}

#[test]
fn the_template_has_each_limit_with_its_default() {
    let shown = Config::parse("template", TEMPLATE).unwrap().to_toml();
    let from = TEMPLATE.find("[limits]").expect("the section is there");
    for LimitRow { key, default, .. } in Limits::table() {
        let value = if default.parse::<u64>().is_ok() { default } else { format!("\"{default}\"") };
        let line = format!("\n{key} = {value}");
        assert!(TEMPLATE[from..].contains(&line) && shown.contains(&line), "{line}");
    }
}

/// 10 ms, in µs.
const SLOT: u64 = 10_000;
/// In µs.
const HOUR: u64 = 3_600_000_000;

/// A coordinator at work, in slots that the test ends.
struct Rig {
    addr: SocketAddr,
    certificate: CertificateDer<'static>,
    clock: Arc<ManualClock>,
    view: View,
}

impl Rig {
    fn with(change: impl FnOnce(&mut Limits)) -> Self {
        let clock = Arc::new(ManualClock::new(Time::from_us(1_000 * SLOT)));
        let mut config = CoordinatorConfig::in_memory(Rules::default()).unwrap();
        config.clock = clock.clone();
        change(&mut config.limits);
        let coordinator = Coordinator::bind(config).unwrap();
        let (addr, certificate) = (coordinator.local_addr(), coordinator.certificate().clone());
        let view = coordinator.view();
        tokio::spawn(coordinator.run(pending()));
        Rig { addr, certificate, clock, view }
    }

    async fn try_peer(&self) -> Result<Peer, ConnectionError> {
        Peer::try_connect(self.addr, &self.certificate, TransportConfig::default()).await
    }

    async fn agent(&self, name: &str) -> (Peer, Lane) {
        let peer = self.try_peer().await.unwrap();
        let (lane, _) = peer.hello(name).await;
        (peer, lane)
    }

    fn reached(&self, limit: Limit) -> u64 {
        self.view.reached().count(limit)
    }

    async fn until_reached(&self, limit: Limit) {
        let is_reached = async {
            while self.reached(limit) == 0 {
                tokio::task::yield_now().await;
            }
        };
        soon(is_reached).await;
    }

    /// The verdict on what an agent asks for: at once, or once the slot has ended.
    async fn verdict(&self, lane: &mut Lane, intent: RawIntent) -> Verdict {
        self.asked(lane, declare(intent)).await
    }

    async fn revised(&self, lane: &mut Lane, intent: RawIntent) -> Verdict {
        let mut revision = declare(intent);
        revision.batch[0].revision = true;
        self.asked(lane, revision).await
    }

    async fn asked(&self, lane: &mut Lane, declare: Declare) -> Verdict {
        lane.send(declare).await;
        lane.send(ClockPing { seq: 7, client_us: 0 }).await;
        let mut verdict = None;
        if let ToAgent::Answer(answer) = lane.receive().await {
            verdict = Some(answer.verdict);
            assert!(matches!(lane.receive().await, ToAgent::ClockPong(_)));
        }
        self.clock.advance(Micros::from_us(SLOT));
        match verdict {
            Some(verdict) => verdict,
            None => lane.verdict().await.2,
        }
    }
}

fn claims(paths: &[&str], start: u64) -> RawIntent {
    let claim = |path: &&str| {
        let target = RawTarget::Path((*path).into());
        RawClaim { target, mode: RawMode::Exclusive, offset: start, duration: HOUR }
    };
    RawIntent { id: start, claims: paths.iter().map(claim).collect(), ..RawIntent::default() }
}

fn is_over(verdict: &Verdict, limit: Limit) -> bool {
    matches!(verdict, Verdict::Rejected { reason: Refusal::Overloaded, hint, retry_after_us: Some(_), .. }
        if hint.ends_with(&format!("({})", limit.as_str())))
}

#[tokio::test]
async fn past_the_connections_of_an_address_one_is_told_so_and_closed_until_another_ends() {
    let rig = Rig::with(|limits| {
        limits.connections_per_address = 2;
        limits.handshakes_per_second_per_address = 1_000_000;
        limits.handshakes_per_second = 1_000_000;
    });
    let (first, _lane) = rig.agent("a").await;
    let (_second, _other) = rig.agent("b").await;
    let third = rig.try_peer().await.unwrap();
    let ConnectionError::ApplicationClosed(close) = soon(third.connection.closed()).await else {
        panic!("not closed by the coordinator")
    };
    assert_eq!(CloseCode::of(close.error_code.into_inner()), Some(CloseCode::TooManyConnections));
    assert_eq!(&close.reason[..], b"too many connections from this address");
    assert_eq!(rig.reached(Limit::ConnectionsPerAddress), 1);
    first.connection.close(0_u32.into(), b"");
    let comes_in = async { while !is_let_in(&rig.try_peer().await.unwrap()).await {} };
    soon(comes_in).await;
}

/// Whether a hello is answered.
async fn is_let_in(peer: &Peer) -> bool {
    let Ok((mut send, mut receive)) = peer.connection.open_bi().await else { return false };
    let mut bytes = Vec::new();
    ToCoordinator::from(hello("c", "main", 1)).encode(&mut bytes).unwrap();
    send.write_all(&bytes).await.is_ok() && matches!(receive.read_chunk(1, true).await, Ok(Some(_)))
}

#[tokio::test]
async fn past_the_handshakes_of_an_address_it_has_to_prove_itself_and_is_then_refused() {
    let rig = Rig::with(|limits| limits.handshakes_per_second_per_address = 1);
    let mut refused = 0;
    // One without proof, one with it, and then none within the second.
    for _ in 0..20 {
        match rig.try_peer().await {
            Ok(_) => {}
            Err(ConnectionError::ConnectionClosed(close)) => {
                assert_eq!(close.error_code, TransportErrorCode::CONNECTION_REFUSED);
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0);
    assert!(
        rig.reached(Limit::HandshakesPerAddress) > refused,
        "those that had to prove themselves count too"
    );
}

#[tokio::test]
async fn with_no_handshake_unproven_every_address_is_proved_and_let_in() {
    let rig = Rig::with(|limits| limits.handshakes_unproven = 0);
    let (_peer, mut lane) = rig.agent("a").await;
    lane.settle().await;
    assert_eq!(rig.reached(Limit::HandshakesUnproven), 1);
}

#[tokio::test]
async fn what_comes_too_fast_is_read_later_and_none_of_it_is_lost() {
    let rig = Rig::with(|limits| limits.messages_per_second = limits::BATCH);
    let (_peer, mut lane) = rig.agent("a").await;
    let pings = limits::BATCH as u64 + 50;
    for seq in 0..pings {
        lane.send(ClockPing { seq, client_us: 0 }).await;
    }
    for seq in 0..pings {
        assert!(matches!(lane.receive().await, ToAgent::ClockPong(pong) if pong.seq == seq));
    }
    rig.until_reached(Limit::Messages).await;
    let rig = Rig::with(|limits| limits.bytes_per_second = limits::FRAME_BYTES as u64);
    let (_peer, mut lane) = rig.agent("a").await;
    let notes = |id| Declaration {
        request: id,
        note: "n".repeat(limits::NOTE_BYTES),
        intent: intent(id, &format!("{}/{id}", "p".repeat(60)), 1000),
        ..Declaration::default()
    };
    let batch: Vec<Declaration> = (1..=100).map(notes).collect();
    for _ in 0..3 {
        lane.send(Declare { batch: batch.clone() }).await;
    }
    lane.settle().await;
    rig.until_reached(Limit::Bytes).await;
}

#[tokio::test]
async fn a_hello_that_does_not_come_and_too_long_a_frame_count_as_their_limits() {
    let rig = Rig::with(|limits| limits.hello_timeout = Micros::from_ms(100));
    let silent = rig.try_peer().await.unwrap();
    assert_eq!(silent.close_code().await, CloseCode::NoHello);
    assert_eq!(rig.reached(Limit::HelloTimeout), 1);
    let (peer, mut lane) = rig.agent("a").await;
    lane.send_bytes(&u32::MAX.to_le_bytes()).await;
    assert_eq!(peer.close_code().await, CloseCode::FrameTooLong);
    assert_eq!(rig.reached(Limit::FrameBytes), 1);
}

#[tokio::test]
async fn one_agents_windows_on_a_path_and_below_it_are_bounded_and_others_are_not_bounded_by_them() {
    let rig = Rig::with(|limits| limits.windows_per_agent_and_path = limits::CLAIMS);
    let (_greedy, mut greedy) = rig.agent("greedy").await;
    let slivers: Vec<String> = (0..limits::CLAIMS).map(|it| format!("a/{it}")).collect();
    let all: Vec<&str> = slivers.iter().map(String::as_str).collect();
    assert!(matches!(rig.verdict(&mut greedy, claims(&all, 1)).await, Verdict::Granted { .. }));
    let verdict = rig.verdict(&mut greedy, claims(&["a/more"], 2)).await;
    assert!(is_over(&verdict, Limit::WindowsPerAgentAndPath), "{verdict:?}");
    assert!(matches!(&verdict, Verdict::Rejected { field, .. } if field == "claims[0]"));
    assert_eq!(rig.reached(Limit::WindowsPerAgentAndPath), 1);
    // Elsewhere, as a repeat, and for others there is room.
    assert!(matches!(rig.verdict(&mut greedy, claims(&["b"], 3)).await, Verdict::Granted { .. }));
    assert!(matches!(rig.verdict(&mut greedy, claims(&all, 1)).await, Verdict::Granted { .. }));
    let (_other, mut other) = rig.agent("other").await;
    assert!(matches!(rig.verdict(&mut other, claims(&["a/more"], 2)).await, Verdict::Granted { .. }));
    // What is given back makes room.
    greedy.send(release(9, 1)).await;
    greedy.settle().await;
    rig.clock.advance(Micros::from_us(SLOT));
    assert!(matches!(greedy.verdict().await.2, Verdict::Released { .. }));
    assert!(matches!(rig.verdict(&mut greedy, claims(&["a/mine"], 2)).await, Verdict::Granted { .. }));
}

#[tokio::test]
async fn a_revision_counts_in_place_of_its_grant_once_it_is_granted_and_not_where_it_came_to_nothing() {
    let rig = Rig::with(|limits| limits.windows_per_agent = limits::CLAIMS);
    let (_other, mut other) = rig.agent("other").await;
    assert!(matches!(rig.verdict(&mut other, claims(&["x"], 1)).await, Verdict::Granted { .. }));
    let (_agent, mut agent) = rig.agent("agent").await;
    let paths: Vec<String> = (0..limits::CLAIMS).map(|it| format!("a/{it}")).collect();
    let all: Vec<&str> = paths.iter().map(String::as_str).collect();
    assert!(matches!(rig.verdict(&mut agent, claims(&all, 1)).await, Verdict::Granted { .. }));
    let revised = |path| RawIntent { id: 1, ..claims(&[path], 0) };
    let kept = rig.revised(&mut agent, revised("x")).await;
    assert!(matches!(&kept, Verdict::Conflict(conflict) if conflict.kept), "{kept:?}");
    let more = rig.verdict(&mut agent, claims(&["b"], 2)).await;
    assert!(is_over(&more, Limit::WindowsPerAgent), "all of the grant's windows stand: {more:?}");
    assert!(matches!(rig.revised(&mut agent, revised("c")).await, Verdict::Granted { .. }));
    assert!(matches!(rig.verdict(&mut agent, claims(&["b"], 2)).await, Verdict::Granted { .. }));
}

#[tokio::test]
async fn an_agent_that_has_as_much_as_it_may_still_gives_back_a_part() {
    let rig = Rig::with(|limits| limits.windows_per_agent = limits::CLAIMS);
    let (_agent, mut agent) = rig.agent("agent").await;
    let paths: Vec<String> = (0..limits::CLAIMS).map(|it| format!("a/{it}")).collect();
    let all: Vec<&str> = paths.iter().map(String::as_str).collect();
    let Verdict::Granted { start, .. } = rig.verdict(&mut agent, claims(&all, 1)).await else {
        panic!("not granted")
    };
    let part = RawIntent { start: Some(start.as_us()), ..claims(&all[..10], 1) };
    assert!(matches!(rig.revised(&mut agent, part).await, Verdict::Granted { .. }));
    let more = rig.verdict(&mut agent, claims(&["b"], 2)).await;
    assert!(matches!(more, Verdict::Granted { .. }), "{more:?}");
}

#[tokio::test]
async fn where_a_path_is_crowded_several_claims_are_refused_and_one_is_not() {
    let rig = Rig::with(|limits| limits.windows_per_path = limits::CLAIMS);
    let (_many, mut many) = rig.agent("many").await;
    let slivers: Vec<String> = (0..limits::CLAIMS).map(|it| format!("a/{it}")).collect();
    let all: Vec<&str> = slivers.iter().map(String::as_str).collect();
    assert!(matches!(rig.verdict(&mut many, claims(&all, 1)).await, Verdict::Granted { .. }));
    assert!(matches!(rig.verdict(&mut many, claims(&["a/more"], 2)).await, Verdict::Granted { .. }));
    let (_other, mut other) = rig.agent("other").await;
    let verdict = rig.verdict(&mut other, claims(&["b", "a"], 3)).await;
    assert!(is_over(&verdict, Limit::WindowsPerPath), "{verdict:?}");
    assert!(matches!(&verdict, Verdict::Rejected { field, .. } if field == "claims[1]"));
    assert!(!is_over(&rig.verdict(&mut other, claims(&["a"], 4)).await, Limit::WindowsPerPath));
    let beside = rig.verdict(&mut other, claims(&["a/b", "a/c"], 5)).await;
    assert!(matches!(beside, Verdict::Granted { .. }), "{beside:?}");
}

#[tokio::test]
async fn all_intents_of_an_agent_in_one_slot_are_searched_for_among_a_bounded_number_of_windows() {
    let rig = Rig::with(|limits| limits.search_per_agent = limits::CLAIMS);
    let (_many, mut many) = rig.agent("many").await;
    let slivers: Vec<String> = (0..limits::CLAIMS / 2 + 1).map(|it| format!("a/{it}")).collect();
    let all: Vec<&str> = slivers.iter().map(String::as_str).collect();
    assert!(matches!(rig.verdict(&mut many, claims(&all, 1)).await, Verdict::Granted { .. }));
    let (_peer, mut other) = rig.agent("other").await;
    for id in [2, 3] {
        other.send(declare(claims(&["a", "b"], id))).await;
    }
    let (request, _, verdict) = other.verdict().await;
    assert!(request == 3 && is_over(&verdict, Limit::SearchPerAgent), "{request}: {verdict:?}");
    other.settle().await;
    rig.clock.advance(Micros::from_us(SLOT));
    assert_eq!(other.verdict().await.0, 2, "it was looked for a place");
    let again = rig.verdict(&mut other, claims(&["a", "b"], 3)).await;
    assert!(!is_over(&again, Limit::SearchPerAgent), "in the next slot there is room again");
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_without_an_end_is_not_read_to_its_end() {
    let connecting = Client::builder().addr("127.0.0.1:1").ca("/dev/zero").name("a").connect();
    match soon(connecting).await {
        Err(ConnectError::BadCa { why }) => {
            assert_eq!(why, format!("/dev/zero: longer than {} bytes", limits::PEM_BYTES));
        }
        other => panic!("{other:?}"),
    }
}
