//! Connections that speak the protocol by hand: over a few sockets, so that ten thousand are no matter of file
//! descriptors.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use preclaim::wire::{ALPN, Extensions, FrameReader, Hello, Role, ToAgent, ToCoordinator};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connecting, Connection, Endpoint, RecvStream, SendStream, TransportConfig};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::Failed;

/// As the client asks for a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
const GIVE_UP: Duration = Duration::from_secs(60);

/// Sockets: one has not the room for what ten thousand connections are sent.
const SOCKETS: usize = 16;

/// What all connections share.
#[derive(Clone)]
pub(crate) struct Peers {
    endpoints: Vec<Endpoint>,
    next: Arc<AtomicUsize>,
    config: ClientConfig,
    addr: SocketAddr,
}

impl Peers {
    /// Must be called inside a runtime.
    pub(crate) fn new(addr: SocketAddr, certificate: &CertificateDer<'static>) -> Result<Self, Failed> {
        Peers::from(Ipv4Addr::LOCALHOST, addr, certificate)
    }

    /// As [`Peers::new`], from an address of this machine.
    pub(crate) fn from(
        host: Ipv4Addr,
        addr: SocketAddr,
        certificate: &CertificateDer<'static>,
    ) -> Result<Self, Failed> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let mut transport = TransportConfig::default();
        transport.keep_alive_interval(Some(KEEP_ALIVE)).max_idle_timeout(Some(GIVE_UP.try_into()?));
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        config.transport_config(Arc::new(transport));
        let endpoint = |_| Endpoint::client((host, 0).into());
        let endpoints = (0..SOCKETS).map(endpoint).collect::<Result<_, _>>()?;
        Ok(Peers { endpoints, next: Arc::default(), config, addr })
    }

    /// Begins to connect to `addr`.
    pub(crate) fn begin(&self, addr: SocketAddr) -> Result<Connecting, Failed> {
        let endpoint = &self.endpoints[self.next.fetch_add(1, Relaxed) % SOCKETS];
        Ok(endpoint.connect_with(self.config.clone(), addr, "localhost")?)
    }

    /// A connection over which nothing was said.
    pub(crate) async fn connect(&self) -> Result<Connection, Failed> {
        Ok(self.begin(self.addr)?.await?)
    }

    /// A connection that has been welcomed as `name`.
    pub(crate) async fn enter(&self, name: &str) -> Result<Peer, Failed> {
        self.enter_labelled(name, "main").await
    }

    /// The same in a session of its own.
    pub(crate) async fn enter_labelled(&self, name: &str, label: &str) -> Result<Peer, Failed> {
        let connection = self.connect().await?;
        let (send, lane) = lane_on(&connection).await?;
        let mut peer = Peer { connection, send, lane };
        let hello = Hello {
            lowest_version: 1,
            highest_version: 1,
            name: Some(name.into()),
            label: label.into(),
            incarnation: 1,
            role: Role::Agent,
            refuse_if_live: false,
            seen: None,
            software: "a bench".into(),
            extensions: Extensions::NONE,
        };
        let mut bytes = Vec::new();
        ToCoordinator::from(hello).encode(&mut bytes)?;
        peer.send.write_all(&bytes).await?;
        match peer.lane.next().await? {
            ToAgent::Welcome(_) => Ok(peer),
            other => Err(format!("a message of kind {:#06x} came before the welcome", other.kind()).into()),
        }
    }
}

/// A connection with its first lane. It is there as long as this is.
pub(crate) struct Peer {
    pub(crate) connection: Connection,
    pub(crate) send: SendStream,
    pub(crate) lane: Lane,
}

/// Another lane of a connection, in its two halves.
pub(crate) async fn lane_on(connection: &Connection) -> Result<(SendStream, Lane), Failed> {
    let (send, receive) = connection.open_bi().await?;
    Ok((send, Lane { receive, frames: FrameReader::new() }))
}

/// What comes over a lane.
pub(crate) struct Lane {
    receive: RecvStream,
    frames: FrameReader,
}

impl Lane {
    /// Waits for what comes next.
    pub(crate) async fn next(&mut self) -> Result<ToAgent, Failed> {
        loop {
            if let Some(frame) = self.frames.next_frame()? {
                return Ok(ToAgent::decode(frame)?);
            }
            let chunk = self.receive.read_chunk(64 << 10, true).await?.ok_or("the lane has ended")?;
            self.frames.push(&chunk.bytes);
        }
    }
}
