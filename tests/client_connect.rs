//! Why there is no connection: each cause is told apart, within the time that the user sets.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

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

#[tokio::test]
async fn nobody_listens() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, settings) = made("localhost");
    let error = error(settings, free).await;
    assert_eq!(error, ConnectError::NobodyListens { addr: free });
    assert!(error.is_retryable() && error.hint().contains(&free.port().to_string()));
}

#[tokio::test]
async fn an_address_that_is_a_tcp_server_has_nobody_who_listens() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (_, settings) = made("localhost");
    let addr = server.local_addr().unwrap();
    assert_eq!(error(settings, addr).await, ConnectError::NobodyListens { addr });
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
    let accepting = server.clone();
    tokio::spawn(async move { drop(accepting.accept().await.unwrap().await) });
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

#[tokio::test]
async fn the_first_address_that_answers_is_taken() {
    let house = House::open().await;
    let free: SocketAddr = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = Client::builder().addr(free).addr(house.0.local_addr());
    let client = soon(settings.ca_der(house.0.certificate()).name("car-7").connect()).await.unwrap();
    assert_eq!(client.name(), "car-7");
    house.close().await;
}

#[tokio::test]
async fn an_address_that_is_none_is_told() {
    let (_, settings) = made("localhost");
    assert!(matches!(error(settings, "no-port").await, ConnectError::BadAddress { .. }));
}
