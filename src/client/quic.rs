//! The connector that speaks QUIC. The one room of the client that names quinn and rustls.

mod own;
mod probe;
mod reach;
mod trust;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, TransportConfig, TransportErrorCode, VarInt,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use tokio::time::Instant;

use super::ConnectError;
use super::connector::{Boxed, Clock, Closed, Connector, Lane, Link};
use super::credentials::Credentials;
use super::system_clock::SystemClock;
use super::tuning::Tuning;
use crate::limits;
use crate::wire::{ALPN, CloseCode};
use reach::{Candidate, Given, Learnt};
use trust::{Complaint, Verifier};

/// A connection over which nothing came for so long is given up. A lease of 10 s is renewed when a third
/// of it has passed, so that 6.7 s of it are left when the way is lost just then: what remains after
/// this is for a new connection. The session pings every 2 s, and QUIC sends again what is lost.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(5);
/// After how long a silent connection is asked for a sign of life: one on which only watchers and
/// listings wait is kept open by this.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// After how long a silent connection is moved to a fresh socket: a sign of life was asked for, and a
/// second has passed without it. What remains until it is given up is for the move.
const MOVE: Duration = Duration::from_secs(3);
/// How often it is looked whether a connection is silent.
const LOOK: Duration = Duration::from_millis(500);
/// The most that a connection is waited for: what the system's clock can add.
const LONGEST: Duration = Duration::from_secs(1 << 32);
/// The TLS alert of a server that speaks none of the protocols offered, as QUIC numbers it.
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

/// Connects to the first of some addresses that answers. It remembers which one did, and begins with
/// that the next time; one that sent us away comes last.
#[derive(Debug)]
pub(crate) struct QuicConnector {
    given: Vec<Given>,
    attempts: Arc<Attempts>,
    learnt: Arc<Mutex<Learnt>>,
}

impl QuicConnector {
    /// Connects to one of `addrs`, as `HOST:PORT`, within `timeout` for all of them together, and shows
    /// `credentials` there.
    pub(crate) fn new(
        addrs: Vec<String>,
        server_name: Option<String>,
        ca_pem: &str,
        credentials: Option<Credentials>,
        timeout: Duration,
        tuning: Tuning,
    ) -> Result<Self, ConnectError> {
        if addrs.len() > limits::ADDRESSES {
            return Err(ConnectError::TooManyAddresses { given: addrs.len() });
        }
        let given = addrs.iter().map(|addr| Given::read(addr)).collect::<Result<_, _>>()?;
        let roots = Arc::new(trust::roots(ca_pem)?);
        let timeout = timeout.min(LONGEST);
        // What cannot be used is told before anybody is asked.
        credentials.as_ref().map(own::load).transpose()?;
        let attempts = Attempts { server_name, roots, timeout, credentials, tuning };
        Ok(QuicConnector { given, attempts: Arc::new(attempts), learnt: Arc::default() })
    }

    async fn connect_to_any(&self) -> Result<Arc<dyn Link>, ConnectError> {
        let deadline = Instant::now() + self.attempts.timeout;
        let learnt = lock(&self.learnt).clone();
        let attempt = |candidate| Arc::clone(&self.attempts).connect(candidate, deadline);
        let (candidate, connection, endpoint) = reach::race(&self.given, &learnt, deadline, attempt).await?;
        lock(&self.learnt).answers(&candidate);
        let learnt = Arc::clone(&self.learnt);
        Ok(Arc::new(QuicLink { connection, endpoint, candidate, learnt }))
    }
}

/// Any port of any address of this machine, of the family of `addr`.
fn unspecified(addr: SocketAddr) -> SocketAddr {
    let ip: IpAddr = if addr.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(ip, 0)
}

/// A socket whose buffer holds all that may come at once: a slot answers everything that was asked in it together.
/// Where the system allows less, it gives what it allows.
fn socket_towards(addr: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(unspecified(addr))?;
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(limits::CLIENT_BUFFER_BYTES);
    Ok(socket)
}

fn client_endpoint(towards: SocketAddr) -> std::io::Result<Endpoint> {
    let runtime = Arc::new(quinn::TokioRuntime);
    Endpoint::new(quinn::EndpointConfig::default(), None, socket_towards(towards)?, runtime)
}

// Plain values, whole at any instant.
fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all attempts of a connector have in common.
#[derive(Debug)]
struct Attempts {
    server_name: Option<String>,
    roots: Arc<RootCertStore>,
    /// For all of them together.
    timeout: Duration,
    credentials: Option<Credentials>,
    tuning: Tuning,
}

type Won = (Candidate, Connection, Endpoint);

impl Attempts {
    /// A handshake with `candidate`, by `deadline`.
    async fn connect(self: Arc<Self>, candidate: Candidate, deadline: Instant) -> Result<Won, ConnectError> {
        let addr = candidate.addr;
        let handshake = async {
            loop {
                match self.handshake(&candidate).await {
                    // QUIC gives up sooner than this agent does.
                    Err(ConnectError::TimedOut { .. }) => {}
                    ended => return ended,
                }
            }
        };
        let (connection, endpoint) = tokio::select! {
            biased;
            connected = handshake => connected?,
            error = probe::refused(addr, deadline) => return Err(error),
            error = probe::silent(addr, deadline, self.timeout) => return Err(error),
        };
        Ok((candidate, connection, endpoint))
    }

    async fn handshake(
        &self,
        Candidate { host, addr }: &Candidate,
    ) -> Result<(Connection, Endpoint), ConnectError> {
        let local = |error: &dyn std::error::Error| ConnectError::Local { why: error.to_string() };
        let endpoint = client_endpoint(*addr).map_err(|error| local(&error))?;
        let complaint = Arc::new(Mutex::new(None));
        let config = self.config(&complaint)?;
        let name = self.server_name.as_deref().unwrap_or(host);
        let connecting = endpoint
            .connect_with(config, *addr, name)
            .map_err(|error| ConnectError::BadAddress { addr: host.to_string(), why: error.to_string() })?;
        match connecting.await {
            Ok(connection) => Ok((connection, endpoint)),
            Err(error) => Err(failed(*addr, name, error, lock(&complaint).take())),
        }
    }

    fn config(&self, complaint: &Arc<Mutex<Option<Complaint>>>) -> Result<ClientConfig, ConnectError> {
        let local = |error: &dyn std::error::Error| ConnectError::Local { why: error.to_string() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let inner =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&self.roots), Arc::clone(&provider))
                .build()
                .map_err(|error| ConnectError::BadCa { why: error.to_string() })?;
        let verifier = Verifier { inner, complaint: Arc::clone(complaint) };
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| local(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut tls = own::show(tls, self.credentials.as_ref())?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let tls = QuicClientConfig::try_from(tls).map_err(|error| local(&error))?;
        let mut transport = TransportConfig::default();
        self.tuning.apply(&mut transport);
        // The coordinator opens no streams and sends no datagrams.
        transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
        transport.max_concurrent_uni_streams(VarInt::from_u32(0));
        transport.datagram_receive_buffer_size(None);
        transport.keep_alive_interval(Some(KEEP_ALIVE));
        transport.max_idle_timeout(Some(GIVE_UP.try_into().map_err(|error| local(&error))?));
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport));
        Ok(config)
    }
}

fn failed(
    addr: SocketAddr,
    expected: &str,
    error: ConnectionError,
    complaint: Option<Complaint>,
) -> ConnectError {
    if let Some(Complaint { why, valid_for }) = complaint {
        return ConnectError::NotTrusted { addr, expected: expected.into(), valid_for, why };
    }
    let mismatch = |why: String| ConnectError::VersionMismatch { why };
    match error {
        ConnectionError::VersionMismatch => mismatch("no version of QUIC in common".into()),
        ConnectionError::TransportError(error) if u64::from(error.code) == NO_APPLICATION_PROTOCOL => {
            mismatch("no protocol in common".into())
        }
        ConnectionError::ConnectionClosed(closed)
            if u64::from(closed.error_code) == NO_APPLICATION_PROTOCOL =>
        {
            mismatch("it speaks no preclaim/1".into())
        }
        ConnectionError::TimedOut => ConnectError::TimedOut { addr, after: GIVE_UP },
        other => ConnectError::before_welcome(closed(other)),
    }
}

impl Connector for QuicConnector {
    fn connect(&self) -> Boxed<'_, Result<Arc<dyn Link>, ConnectError>> {
        Box::pin(self.connect_to_any())
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }
}

/// Since when nothing has come.
struct Silence {
    heard: u64,
    since: Instant,
}

impl Silence {
    fn new(now: Instant) -> Self {
        Silence { heard: 0, since: now }
    }

    /// Whether it has lasted for [`MOVE`], where `heard` datagrams have come so far. Once it has, it
    /// begins anew.
    fn is_long(&mut self, heard: u64, now: Instant) -> bool {
        let is_long = self.heard == heard && now >= self.since + MOVE;
        if is_long || self.heard != heard {
            *self = Silence { heard, since: now };
        }
        is_long
    }
}

struct QuicLink {
    connection: Connection,
    /// Lives as long as its connection.
    endpoint: Endpoint,
    candidate: Candidate,
    learnt: Arc<Mutex<Learnt>>,
}

impl QuicLink {
    /// Whoever hears nothing any more may have lost its address, or the interface that it had it on: a
    /// fresh socket goes by the way that the system has now, and QUIC moves the connection there.
    async fn move_when_silent(&self) -> Infallible {
        let mut silence = Silence::new(Instant::now());
        loop {
            tokio::time::sleep(LOOK).await;
            if silence.is_long(self.connection.stats().udp_rx.datagrams, Instant::now()) {
                match self.fresh_socket() {
                    Ok(()) => tracing::debug!("a silent connection goes by a fresh socket"),
                    Err(error) => tracing::debug!(%error, "no fresh socket for a silent connection"),
                }
            }
        }
    }

    fn fresh_socket(&self) -> std::io::Result<()> {
        self.endpoint.rebind(socket_towards(self.candidate.addr)?)
    }

    /// A coordinator that has no room, or stops, is asked last the next time.
    fn learn_from(&self, closed: &Closed) {
        if matches!(closed.code, Some(CloseCode::TooManyConnections | CloseCode::ShuttingDown)) {
            lock(&self.learnt).turns_away(&self.candidate);
        }
    }
}

impl Link for QuicLink {
    fn open_lane(&self) -> Boxed<'_, Result<Lane, Closed>> {
        Box::pin(async {
            let (writer, reader) = self.connection.open_bi().await.map_err(closed)?;
            Ok(Lane { reader: Box::new(reader), writer: Box::new(writer) })
        })
    }

    fn close(&self, code: CloseCode, why: &str) {
        self.connection.close(VarInt::from_u32(code.number()), why.as_bytes());
    }

    #[cfg(feature = "daemon")]
    fn local_port(&self) -> Option<u16> {
        self.endpoint.local_addr().ok().map(|addr| addr.port())
    }

    fn closed(&self) -> Boxed<'_, Closed> {
        Box::pin(async {
            let closed = tokio::select! {
                biased;
                error = self.connection.closed() => closed(error),
                never = self.move_when_silent() => match never {},
            };
            self.learn_from(&closed);
            closed
        })
    }
}

fn closed(error: ConnectionError) -> Closed {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            let code = CloseCode::of(close.error_code.into_inner());
            let said = String::from_utf8_lossy(&close.reason);
            let why = match code {
                Some(code) if said.is_empty() => code.as_str().to_owned(),
                Some(code) => format!("{}: {said}", code.as_str()),
                None => format!("close code {}: {said}", close.error_code),
            };
            Closed { code, ..Closed::because(why) }
        }
        ConnectionError::ConnectionClosed(close)
            if close.error_code == TransportErrorCode::CONNECTION_REFUSED =>
        {
            let why = "it takes in no more handshakes just now";
            Closed { code: Some(CloseCode::TooManyConnections), ..Closed::because(why) }
        }
        ConnectionError::ConnectionClosed(close) => match own::refused(close.error_code.into()) {
            Some(why) => Closed { code: Some(CloseCode::CertificateRefused), ..Closed::because(why) },
            None => Closed::because(ConnectionError::ConnectionClosed(close).to_string()),
        },
        other => Closed::because(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_long_once_it_has_lasted_and_then_begins_anew() {
        let begun = Instant::now();
        let mut silence = Silence::new(begun);
        let after = |times: u32| begun + MOVE * times;
        let almost = Duration::from_millis(1);
        assert!(!silence.is_long(7, begun));
        assert!(!silence.is_long(7, after(1) - almost));
        assert!(!silence.is_long(8, after(1)));
        assert!(!silence.is_long(8, after(2) - almost));
        assert!(silence.is_long(8, after(2)));
        assert!(!silence.is_long(8, after(3) - almost));
        assert!(silence.is_long(8, after(3)));
    }
}
