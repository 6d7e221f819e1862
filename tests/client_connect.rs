//! Why there is no connection: each cause is told apart, within the time that the user sets.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

#[allow(dead_code)] // a part of it is enough here
mod command;
mod house;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use house::{House, PATIENCE, soon};
use preclaim::Client;
use preclaim::client::{ClientBuilder, ConnectError};
use preclaim::coordinator::CoordinatorConfig;
use preclaim::resolver::Rules;
use preclaim::types::{Micros, Slot, Time};
use preclaim::wire::{ClockPong, Extensions, ToAgent, Welcome, WireLimits};

/// A certificate for `name`, and a client that trusts it alone.
fn made(name: &str) -> (rcgen::CertifiedKey<rcgen::KeyPair>, ClientBuilder) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let settings = Client::builder().ca_pem(made.cert.pem()).name("car-7");
    (made, settings)
}

async fn error(settings: ClientBuilder, addr: impl ToString) -> ConnectError {
    soon(settings.addr(addr.to_string()).connect()).await.unwrap_err()
}

/// A QUIC server that speaks `alpn`, and nothing else.
fn quic_server(made: &rcgen::CertifiedKey<rcgen::KeyPair>, alpn: &[u8]) -> quinn::Endpoint {
    let key = made.signing_key.serialize_der().try_into().unwrap();
    let mut tls =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
    tls.alpn_protocols = vec![alpn.to_vec()];
    let tls = quinn::crypto::rustls::QuicServerConfig::try_from(tls).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    quinn::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap()
}

/// It takes one connection, as far as its handshake goes.
fn greet_one(server: &quinn::Endpoint) {
    let server = server.clone();
    tokio::spawn(async move { drop(server.accept().await.unwrap().await) });
}

#[tokio::test]
async fn nobody_listens() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, settings) = made("localhost");
    let error = error(settings, free).await;
    assert_eq!(error, ConnectError::NobodyListens { addr: free });
    assert!(error.is_retryable() && error.hint().contains(&free.port().to_string()));
}

#[tokio::test]
async fn an_address_that_is_a_tcp_server_is_told_so() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (_, settings) = made("localhost");
    let addr = server.local_addr().unwrap();
    let error = error(settings.timeout(PATIENCE), addr).await;
    assert_eq!(error, ConnectError::SpeaksTcp { addr });
    assert!(error.is_retryable() && error.to_string().contains("UDP"), "{error}");
}

#[tokio::test]
async fn an_address_silent_on_udp_where_a_tcp_server_listens_is_told_so() {
    // The same port on both, where one is free.
    let (udp, _tcp) = std::iter::repeat_with(|| UdpSocket::bind("127.0.0.1:0").unwrap())
        .find_map(|udp| Some((std::net::TcpListener::bind(udp.local_addr().ok()?).ok()?, udp)))
        .map(|(tcp, udp)| (udp, tcp))
        .unwrap();
    let (_, settings) = made("localhost");
    let addr = udp.local_addr().unwrap();
    assert_eq!(error(settings.timeout(Duration::from_secs(1)), addr).await, ConnectError::SpeaksTcp { addr });
}

#[tokio::test]
async fn nothing_comes_back_within_the_time() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (_, settings) = made("localhost");
    let (addr, after) = (silent.local_addr().unwrap(), Duration::from_millis(50));
    let error = error(settings.timeout(after), addr).await;
    assert_eq!(error, ConnectError::TimedOut { addr, after });
    assert!(error.hint().contains("UDP"));
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_tells_what_it_is_good_for() {
    let house = House::open().await;
    let (_, settings) = made("localhost");
    match error(settings, house.0.local_addr()).await {
        ConnectError::NotTrusted { expected, valid_for, why, .. } => {
            assert_eq!(expected, "127.0.0.1");
            assert!(valid_for.contains(&"localhost".into()) && valid_for.contains(&"127.0.0.1".into()));
            assert!(why.contains("issuer"), "{why}");
        }
        other => panic!("not trusted, not {other:?}"),
    }
    house.close().await;
}

#[tokio::test]
async fn a_certificate_for_another_name_tells_which() {
    let house = House::open().await;
    let settings = house.settings("car-7").server_name("coordinator.example");
    let error = house.refused(settings).await;
    match &error {
        ConnectError::NotTrusted { expected, why, .. } => {
            assert_eq!(expected, "coordinator.example");
            assert!(why.contains("names"), "{why}");
        }
        other => panic!("not trusted, not {other:?}"),
    }
    assert!(error.hint().contains("localhost"));
    house.close().await;
}

#[tokio::test]
async fn a_name_that_is_none_is_refused() {
    let house = House::open().await;
    for name in ["", "a\nb", &"n".repeat(129)] {
        let error = house.refused(house.settings(name)).await;
        assert!(matches!(error, ConnectError::NameRefused { .. }), "{error:?}");
    }
    let error = house.refused(house.settings("car-7").label("")).await;
    assert!(matches!(error, ConnectError::NameRefused { .. }), "{error:?}");
    house.close().await;
}

#[tokio::test]
async fn a_server_of_another_protocol_is_a_version_mismatch() {
    let (certificate, settings) = made("127.0.0.1");
    let server = quic_server(&certificate, b"preclaim/9");
    greet_one(&server);
    let error = error(settings, server.local_addr().unwrap()).await;
    assert!(matches!(error, ConnectError::VersionMismatch { .. }), "{error:?}");
}

/// What connecting comes to where the first lane of a connection that is taken is answered with `answer`.
async fn answered_with(answer: Vec<u8>, timeout: Duration) -> ConnectError {
    let (certificate, settings) = made("127.0.0.1");
    let server = quic_server(&certificate, preclaim::wire::ALPN);
    let accepting = server.clone();
    tokio::spawn(async move {
        let connection = accepting.accept().await.unwrap().await.unwrap();
        let (mut send, _receive) = connection.accept_bi().await.unwrap();
        send.write_all(&answer).await.unwrap();
        connection.closed().await
    });
    error(settings.timeout(timeout), server.local_addr().unwrap()).await
}

fn bytes(message: impl Into<ToAgent>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.into().encode(&mut bytes).unwrap();
    bytes
}

fn welcome(version: u16) -> Welcome {
    Welcome {
        version,
        name: "car-7".into(),
        label: "main".into(),
        session: 1,
        resumed: false,
        state: 1,
        slot_length: Micros::from_ms(10),
        min_lead: Micros::from_ms(10),
        horizon: Micros::from_secs(60),
        slot: Slot::new(1),
        now: Time::from_us(1),
        limits: WireLimits { frame_bytes: 65_536, batch: 8, lanes: 8, undecided: 8 },
        software: "a test".into(),
        extensions: Extensions::NONE,
    }
}

#[tokio::test]
async fn a_coordinator_that_answers_nonsense_is_told_so() {
    let pong = bytes(ClockPong { seq: 1, client_us: 1, coordinator: Time::from_us(1) });
    let too_long = b"\xff\xff\xff\xff".to_vec();
    let unknown_kind = b"\x02\x00\x00\x00\x77\x77".to_vec();
    for answer in [too_long, unknown_kind, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), pong] {
        let error = answered_with(answer, PATIENCE).await;
        assert!(matches!(error, ConnectError::Nonsense { .. }), "{error:?}");
        assert!(!error.is_retryable() && error.hint().contains("release"), "{error}");
    }
}

#[tokio::test]
async fn a_coordinator_that_answers_nothing_is_told_so_within_the_time() {
    let after = Duration::from_secs(1);
    let error = answered_with(Vec::new(), after).await;
    assert_eq!(error, ConnectError::NoWelcome { after });
    assert!(error.is_retryable() && error.hint().contains("time"));
}

#[tokio::test]
async fn a_welcome_in_a_version_that_was_not_offered_is_a_version_mismatch() {
    let error = answered_with(bytes(welcome(9)), PATIENCE).await;
    assert!(matches!(error, ConnectError::VersionMismatch { .. }), "{error:?}");
}

#[tokio::test]
async fn too_many_connections_are_told_so() {
    let mut config = CoordinatorConfig::in_memory(Rules::default()).unwrap();
    config.limits.connections = 1;
    let house = House::with(config).await;
    let _first = house.client("first").await;
    let error = house.refused(house.settings("second")).await;
    assert!(matches!(error, ConnectError::Busy { .. }), "{error:?}");
    house.close().await;
}

/// An address at which nobody listens.
fn free() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A client of `house` that is given `addrs` and then the house's own.
async fn reaches(house: &House, addrs: &[String]) {
    let settings = addrs.iter().fold(Client::builder().timeout(PATIENCE), ClientBuilder::addr);
    let settings = settings.addr(house.0.local_addr()).ca_der(house.0.certificate()).name("car-7");
    let client = soon(settings.connect()).await.unwrap();
    assert_eq!(client.name(), "car-7");
}

#[tokio::test]
async fn the_first_address_that_answers_is_taken_whatever_the_others_do() {
    let house = House::open().await;
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (other, _) = made("127.0.0.1");
    let untrusted = quic_server(&other, preclaim::wire::ALPN);
    greet_one(&untrusted);
    for addr in [
        free().to_string(),
        silent.local_addr().unwrap().to_string(),
        untrusted.local_addr().unwrap().to_string(),
        "nobody.invalid:7411".into(),
    ] {
        reaches(&house, &[addr]).await;
    }
    reaches(&house, &vec![silent.local_addr().unwrap().to_string(); 15]).await;
    house.close().await;
}

#[tokio::test]
async fn where_all_fail_all_are_named_and_the_most_telling_first() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (free, silent_at) = (free(), silent.local_addr().unwrap());
    let (other, _) = made("127.0.0.1");
    let untrusted = quic_server(&other, preclaim::wire::ALPN);
    greet_one(&untrusted);
    let untrusted_at = untrusted.local_addr().unwrap();
    let (_, settings) = made("localhost");
    let settings = settings.addr("nobody.invalid:7411").addr(silent_at).addr(free);
    let error = error(settings.timeout(Duration::from_secs(2)), untrusted_at).await;
    let ConnectError::NoneOf { errors } = &error else { panic!("none of them, not {error:?}") };
    assert!(
        matches!(
            &errors[..],
            [
                ConnectError::NotTrusted { .. },
                ConnectError::NobodyListens { .. },
                ConnectError::TimedOut { .. },
                ConnectError::Unresolved { .. }
            ]
        ),
        "{error:?}"
    );
    assert!(matches!(error.cause(), ConnectError::NotTrusted { .. }));
    assert!(error.is_retryable() && error.hint() == error.cause().hint());
    for named in [free.to_string(), silent_at.to_string(), untrusted_at.to_string(), "nobody.invalid".into()]
    {
        assert!(error.to_string().contains(&named), "{error}");
    }
}

#[tokio::test]
async fn a_name_that_cannot_be_resolved_may_be_tried_again() {
    let (_, settings) = made("localhost");
    let error = error(settings, "nobody.invalid:7411").await;
    assert!(matches!(&error, ConnectError::Unresolved { host, .. } if host == "nobody.invalid"), "{error:?}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn as_many_addresses_as_are_tried_are_taken_and_no_more() {
    let house = House::open().await;
    let most = preclaim::limits::ADDRESSES;
    reaches(&house, &vec![free().to_string(); most - 1]).await;
    let (_, settings) = made("localhost");
    let settings = (0..most).fold(settings, |settings, _| settings.addr(free()));
    assert_eq!(error(settings, free()).await, ConnectError::TooManyAddresses { given: most + 1 });
    house.close().await;
}

#[tokio::test]
async fn an_address_that_is_none_is_told_whatever_stands_beside_it() {
    let house = House::open().await;
    for none in ["no-port", "host:", ":7411", "host:port", "127.0.0.1:0", "::1:7411", "host:70000"] {
        let (_, settings) = made("localhost");
        let error = error(settings.addr(house.0.local_addr()), none).await;
        assert!(matches!(&error, ConnectError::BadAddress { addr, .. } if addr == none), "{error:?}");
        assert!(!error.is_retryable());
    }
    house.close().await;
}

/// The code with which `preclaim ls` ends where `addr` is the coordinator's address and `certificate` the
/// one to trust, and what it says.
async fn listed(addr: SocketAddr, certificate: String) -> (i32, String) {
    let listing = tokio::task::spawn_blocking(move || {
        let runtime = command::Runtime::fresh();
        let ca = runtime.path().join("ca.pem");
        std::fs::write(&ca, certificate).unwrap();
        runtime.run(&["ls", "--addr", &addr.to_string(), "--ca", ca.to_str().unwrap()])
    });
    let said = soon(listing).await.unwrap();
    (said.code, said.err)
}

#[tokio::test]
async fn the_command_line_has_a_code_and_advice_for_each() {
    let (mine, _) = made("127.0.0.1");
    let (other, _) = made("127.0.0.1");
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, said) = listed(tcp.local_addr().unwrap(), mine.cert.pem()).await;
    assert!(code == 20 && said.contains("takes TCP connections") && said.contains("\n  do   "), "{said}");

    let untrusted = quic_server(&other, preclaim::wire::ALPN);
    greet_one(&untrusted);
    let (code, said) = listed(untrusted.local_addr().unwrap(), mine.cert.pem()).await;
    assert!(code == 21 && said.contains("not trusted") && said.contains("\n  do   "), "{said}");

    let newer = quic_server(&mine, b"preclaim/9");
    greet_one(&newer);
    let (code, said) = listed(newer.local_addr().unwrap(), mine.cert.pem()).await;
    assert!(code == 22 && said.contains("same release"), "{said}");
}
