//! A peer that speaks the protocol by hand, well or badly, for the coordinator's tests.
#![allow(dead_code, clippy::unwrap_used)] // each test program uses its own part; what fails here fails the test

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use preclaim::types::{IntentId, RawClaim, RawIntent, RawMode, RawTarget};
use preclaim::wire::{
    ALPN, Answer, ClockPing, CloseCode, Declaration, Declare, Extensions, FrameReader, Hello, Role, ToAgent,
    ToCoordinator, Verdict, Welcome,
};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, RecvStream, SendStream, TransportConfig};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

/// Ends a test that waits for what never comes; no test's outcome depends on it otherwise.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("came in time")
}

/// A connection, and what keeps it.
pub(crate) struct Peer {
    pub(crate) connection: Connection,
    endpoint: Endpoint,
}

impl Peer {
    pub(crate) async fn connect(addr: SocketAddr, certificate: &CertificateDer<'static>) -> Self {
        Peer::connect_with(addr, certificate, TransportConfig::default()).await
    }

    pub(crate) async fn connect_with(
        addr: SocketAddr,
        certificate: &CertificateDer<'static>,
        transport: TransportConfig,
    ) -> Self {
        Peer::try_connect(addr, certificate, transport).await.unwrap()
    }

    /// As [`Peer::connect_with`], where it may be refused.
    pub(crate) async fn try_connect(
        addr: SocketAddr,
        certificate: &CertificateDer<'static>,
        transport: TransportConfig,
    ) -> Result<Self, ConnectionError> {
        Peer::try_connect_from(Ipv4Addr::LOCALHOST, addr, certificate, transport).await
    }

    /// As [`Peer::try_connect`], from an address of this machine: all of 127.0.0.0/8 is, on Linux.
    pub(crate) async fn try_connect_from(
        from: Ipv4Addr,
        addr: SocketAddr,
        certificate: &CertificateDer<'static>,
        transport: TransportConfig,
    ) -> Result<Self, ConnectionError> {
        let endpoint = Endpoint::client((from, 0).into()).unwrap();
        let config = client_config(certificate, transport);
        let connecting = endpoint.connect_with(config, addr, "localhost").unwrap();
        Ok(Peer { connection: soon(connecting).await?, endpoint })
    }

    pub(crate) async fn lane(&self) -> Lane {
        let (send, receive) = soon(self.connection.open_bi()).await.unwrap();
        Lane { send, receive, frames: FrameReader::new() }
    }

    /// The first lane, after the hello of `name`.
    pub(crate) async fn hello(&self, name: &str) -> (Lane, Welcome) {
        self.say_hello(hello(name, "main", 1)).await
    }

    pub(crate) async fn say_hello(&self, hello: Hello) -> (Lane, Welcome) {
        let mut lane = self.lane().await;
        lane.send(hello).await;
        let ToAgent::Welcome(welcome) = lane.receive().await else { panic!("a welcome comes first") };
        (lane, welcome)
    }

    /// The code that the coordinator closes this connection with.
    pub(crate) async fn close_code(&self) -> CloseCode {
        match soon(self.connection.closed()).await {
            ConnectionError::ApplicationClosed(close) => {
                CloseCode::of(close.error_code.into_inner()).expect("a known code")
            }
            other => panic!("not closed by the coordinator: {other}"),
        }
    }
}

/// What a connection to a coordinator with `certificate` is made with.
pub(crate) fn client_config(
    certificate: &CertificateDer<'static>,
    transport: TransportConfig,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    config.transport_config(Arc::new(transport));
    config
}

/// One lane of a peer.
pub(crate) struct Lane {
    pub(crate) send: SendStream,
    pub(crate) receive: RecvStream,
    frames: FrameReader,
}

impl Lane {
    pub(crate) async fn send(&mut self, message: impl Into<ToCoordinator>) {
        let mut bytes = Vec::new();
        message.into().encode(&mut bytes).unwrap();
        self.send_bytes(&bytes).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        soon(self.send.write_all(bytes)).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> ToAgent {
        loop {
            if let Some(frame) = self.frames.next_frame().unwrap() {
                return ToAgent::decode(frame).unwrap();
            }
            let chunk = soon(self.receive.read_chunk(4096, true)).await.unwrap().expect("the lane goes on");
            self.frames.push(&chunk.bytes);
        }
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        match self.receive().await {
            ToAgent::Answer(answer) => answer,
            other => panic!("not an answer: {other:?}"),
        }
    }

    /// The number of the request, the id and the verdict of the next answer.
    pub(crate) async fn verdict(&mut self) -> (u64, u64, Verdict) {
        let answer = self.answer().await;
        (answer.request, answer.id.number(), answer.verdict)
    }

    /// Waits until the coordinator has taken in everything that was sent on this lane.
    pub(crate) async fn settle(&mut self) {
        self.send(ClockPing { seq: 77, client_us: 0 }).await;
        match self.receive().await {
            ToAgent::ClockPong(pong) => assert_eq!(pong.seq, 77),
            other => panic!("not a pong: {other:?}"),
        }
    }
}

pub(crate) fn hello(name: &str, label: &str, incarnation: u128) -> Hello {
    Hello {
        lowest_version: 1,
        highest_version: 1,
        name: Some(name.into()),
        label: label.into(),
        incarnation,
        role: Role::Agent,
        refuse_if_live: false,
        seen: None,
        software: "a test".into(),
        extensions: Extensions::NONE,
    }
}

/// An exclusive claim on `path` for `duration`, asap.
pub(crate) fn intent(id: u64, path: &str, duration_us: u64) -> RawIntent {
    let target = RawTarget::Path(path.into());
    let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: duration_us };
    RawIntent { id, claims: vec![claim], ..RawIntent::default() }
}

/// One declaration; its request has the number of its id.
pub(crate) fn declare(intent: RawIntent) -> Declare {
    Declare { batch: vec![Declaration { request: intent.id, intent, ..Declaration::default() }] }
}

pub(crate) fn release(request: u64, id: u64) -> preclaim::wire::Release {
    preclaim::wire::Release { request, id: IntentId::new(id), extensions: Extensions::NONE }
}
