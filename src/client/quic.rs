//! The connector that speaks QUIC. The one file of the client that names quinn and rustls.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, TransportConfig, VarInt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::UdpSocket;

use super::ConnectError;
use super::connector::{Boxed, Clock, Closed, Connector, Lane, Link};
use super::system_clock::SystemClock;
use crate::wire::{ALPN, CloseCode};

/// A connection over which nothing came for so long is given up. The session pings every 2 s.
const IDLE: Duration = Duration::from_secs(10);
/// A connection on which only watchers and listings wait is kept open by this.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// The TLS alert of a server that speaks none of the protocols offered, as QUIC numbers it.
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;

/// Connects to the first of some addresses that answers.
#[derive(Debug)]
pub(crate) struct QuicConnector {
    addrs: Vec<String>,
    server_name: Option<String>,
    roots: Arc<RootCertStore>,
    timeout: Duration,
}

impl QuicConnector {
    pub(crate) fn new(
        addrs: Vec<String>,
        server_name: Option<String>,
        ca_pem: &str,
        timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let roots = Arc::new(roots(ca_pem)?);
        Ok(QuicConnector { addrs, server_name, roots, timeout })
    }

    async fn connect_to_any(&self) -> Result<Arc<dyn Link>, ConnectError> {
        let mut last = ConnectError::NoAddress { looked: "none was given".into() };
        for addr in &self.addrs {
            for resolved in resolve(addr).await? {
                match self.connect_to(addr, resolved).await {
                    Ok(link) => return Ok(link),
                    Err(error) => last = error,
                }
            }
        }
        Err(last)
    }

    async fn connect_to(&self, host: &str, addr: SocketAddr) -> Result<Arc<dyn Link>, ConnectError> {
        let local = |error: &dyn std::error::Error| ConnectError::Local { why: error.to_string() };
        let unspecified = if addr.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let bind = unspecified.parse().map_err(|error: std::net::AddrParseError| local(&error))?;
        let endpoint = Endpoint::client(bind).map_err(|error| local(&error))?;
        let complaint = Arc::new(Mutex::new(None));
        let config = self.config(&complaint)?;
        let name = self.server_name.as_deref().unwrap_or_else(|| host_of(host));
        let connecting = endpoint
            .connect_with(config, addr, name)
            .map_err(|error| ConnectError::BadAddress { addr: host.into(), why: error.to_string() })?;
        tokio::select! {
            biased;
            connected = connecting => match connected {
                Ok(connection) => Ok(Arc::new(QuicLink { connection, endpoint })),
                Err(error) => {
                    let complaint = complaint.lock().unwrap_or_else(PoisonError::into_inner).take();
                    Err(self.failed(addr, name, error, complaint))
                }
            },
            () = refused(addr) => Err(ConnectError::NobodyListens { addr }),
            () = tokio::time::sleep(self.timeout) => Err(ConnectError::TimedOut { addr, after: self.timeout }),
        }
    }

    fn failed(
        &self,
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
            ConnectionError::TimedOut => ConnectError::TimedOut { addr, after: self.timeout },
            other => ConnectError::before_welcome(closed(other)),
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
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| local(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let tls = QuicClientConfig::try_from(tls).map_err(|error| local(&error))?;
        let mut transport = TransportConfig::default();
        // The coordinator opens no streams and sends no datagrams.
        transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
        transport.max_concurrent_uni_streams(VarInt::from_u32(0));
        transport.datagram_receive_buffer_size(None);
        transport.keep_alive_interval(Some(KEEP_ALIVE));
        transport.max_idle_timeout(Some(IDLE.try_into().map_err(|error| local(&error))?));
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport));
        Ok(config)
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

struct QuicLink {
    connection: Connection,
    /// Lives as long as its connection.
    #[cfg_attr(not(feature = "daemon"), expect(dead_code, reason = "a connection ends with it"))]
    endpoint: Endpoint,
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
        Box::pin(async { closed(self.connection.closed().await) })
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
        other => Closed::because(other.to_string()),
    }
}

fn roots(pem: &str) -> Result<RootCertStore, ConnectError> {
    let bad = |why: String| ConnectError::BadCa { why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if roots.is_empty() { Err(bad("there is no certificate in it".into())) } else { Ok(roots) }
}

async fn resolve(addr: &str) -> Result<Vec<SocketAddr>, ConnectError> {
    let bad = |why: String| ConnectError::BadAddress { addr: addr.to_owned(), why };
    let found = tokio::net::lookup_host(addr).await.map_err(|error| bad(error.to_string()))?;
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() { Err(bad("the host has no address".into())) } else { Ok(found) }
}

/// `HOST` of `HOST:PORT`, without the brackets of an IPv6 address.
fn host_of(addr: &str) -> &str {
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Resolves when the host says that nobody listens at `addr`; never where it says nothing. QUIC's own
/// socket is not connected, so the system keeps such news from it.
async fn refused(addr: SocketAddr) {
    let probe = async {
        let socket = UdpSocket::bind(if addr.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).await?;
        socket.connect(addr).await?;
        // No packet of any version of QUIC: a server drops it unread.
        socket.send(&[0]).await?;
        socket.recv(&mut [0]).await
    };
    match probe.await {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
        _ => std::future::pending().await,
    }
}

/// What the verifier did not like.
#[derive(Debug)]
struct Complaint {
    why: String,
    valid_for: Vec<String>,
}

/// Verifies as rustls does, and remembers what was wrong: of the handshake's own error only an alert
/// is left.
#[derive(Debug)]
struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    complaint: Arc<Mutex<Option<Complaint>>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if let Err(error) = &verified {
            let why = match error {
                // A bad signature: signed by another issuer of the same name.
                rustls::Error::InvalidCertificate(
                    CertificateError::UnknownIssuer | CertificateError::BadSignature,
                ) => "its issuer is not among the certificates to trust".to_owned(),
                rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                ) => "it is for other names".to_owned(),
                other => other.to_string(),
            };
            let complaint = Complaint { why, valid_for: names_in(end_entity) };
            *self.complaint.lock().unwrap_or_else(PoisonError::into_inner) = Some(complaint);
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The names that a certificate is good for: what rustls lists when asked for one that nobody has.
fn names_in(certificate: &CertificateDer<'_>) -> Vec<String> {
    let nobody = ServerName::try_from("nobody.invalid");
    let (Ok(parsed), Ok(nobody)) = (ParsedCertificate::try_from(certificate), nobody) else {
        return Vec::new();
    };
    match verify_server_name(&parsed, &nobody) {
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            presented,
            ..
        })) => presented.iter().map(|name| plain(name)).collect(),
        _ => Vec::new(),
    }
}

/// rustls writes names as `DnsName("localhost")` and `IpAddress(127.0.0.1)`.
fn plain(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_what_stands_before_the_port() {
        assert_eq!(host_of("localhost:7431"), "localhost");
        assert_eq!(host_of("127.0.0.1:7431"), "127.0.0.1");
        assert_eq!(host_of("[::1]:7431"), "::1");
    }

    #[test]
    fn a_certificate_file_without_certificates_is_told() {
        assert!(matches!(roots(""), Err(ConnectError::BadCa { .. })));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";
        assert!(matches!(roots(broken), Err(ConnectError::BadCa { .. })));
    }

    #[test]
    fn names_are_written_plainly() {
        assert_eq!(plain("DnsName(\"localhost\")"), "localhost");
        assert_eq!(plain("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(plain("localhost"), "localhost");
    }
}
