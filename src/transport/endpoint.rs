//! The socket and the limits of every connection on it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::{
    ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::stamped_socket::{Departures, StampedSocket};
use super::{Access, Identity, IdentityError, SocketBuffers};
use crate::client::Tuning;
use crate::limits;
use crate::types::Micros;

/// Why the coordinator cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody listens there already.
    #[error("{addr} is in use: another coordinator, or another program, listens there")]
    InUse {
        /// Where.
        addr: SocketAddr,
    },
    /// The system refused the socket.
    #[error("cannot listen on {addr}: {error}")]
    Socket {
        /// Where.
        addr: SocketAddr,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// A socket on which connections come in.
pub(crate) struct Bound {
    pub(crate) endpoint: Endpoint,
    /// The settings of its connections: with another identity in them, they are those of later ones.
    pub(crate) settings: ServerConfig,
    /// What the socket was given.
    pub(crate) buffers: SocketBuffers,
}

/// What holds for each connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connections {
    /// Lanes at a time.
    pub(crate) lanes: usize,
    /// How long it may be silent.
    pub(crate) idle: Micros,
    /// What is done about loss.
    pub(crate) tuning: Tuning,
}

/// Listens on `addr`, for connections of those whom `access` lets in.
/// With `departures`, what leaves is noted there. Needs a tokio runtime around it.
///
/// # Errors
/// [`BindError`].
pub(crate) fn bind(
    addr: SocketAddr,
    identity: Identity,
    access: &Access,
    connections: &Connections,
    departures: Option<Arc<Departures>>,
) -> Result<Bound, BindError> {
    let endpoint = endpoint(identity.reset_key());
    let mut config = ServerConfig::with_crypto(identity.into_crypto(access)?);
    config.transport_config(transport(connections));
    config.max_incoming(limits::HANDSHAKES);
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { addr },
        _ => BindError::Socket { addr, error },
    };
    let socket = open(addr).map_err(refused)?;
    let buffers = SocketBuffers::of(&socket).map_err(refused)?;
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime);
    let socket = runtime.wrap_udp_socket(socket).map_err(refused)?;
    let socket = match departures {
        Some(departures) => Arc::new(StampedSocket::new(socket, departures)),
        None => socket,
    };
    let listening = Endpoint::new_with_abstract_socket(endpoint, Some(config.clone()), socket, runtime);
    Ok(Bound { endpoint: listening.map_err(refused)?, settings: config, buffers })
}

/// So that agents of a coordinator that was killed learn at their first packet to the one that was started
/// after it that their connections are gone, and not when they have waited long enough.
fn endpoint(reset_key: hmac::Key) -> EndpointConfig {
    let mut config = EndpointConfig::new(Arc::new(reset_key));
    config.cid_generator(|| Box::new(PlainIds(SystemRandom::new()))).min_reset_interval(limits::RESET_EVERY);
    config
}

/// Connection ids without a mark of the process that made them: quinn's own would be taken for no
/// connection's by the next process, and be left without an answer.
#[derive(Debug)]
struct PlainIds(SystemRandom);

/// As long as quinn's own.
const ID_BYTES: usize = 8;

impl ConnectionIdGenerator for PlainIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; ID_BYTES];
        // A system without randomness had none for its TLS keys either, and made no connection.
        let _ = self.0.fill(&mut id);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// A socket whose buffers hold a burst of a whole slot: all agents may answer one slot's news at once.
/// Where the system allows less, it gives what it allows, unless this process may ask for more than that.
pub(super) fn open(addr: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(addr)?;
    let options = socket2::SockRef::from(&socket);
    let _ = options.set_recv_buffer_size(limits::SOCKET_BUFFER_BYTES);
    let _ = options.set_send_buffer_size(limits::SOCKET_BUFFER_BYTES);
    if SocketBuffers::of(&socket).is_ok_and(|buffers| !buffers.too_small().is_empty()) {
        insist(&socket);
    }
    Ok(socket)
}

/// Past what the system allows for everybody: for CAP_NET_ADMIN.
#[cfg(target_os = "linux")]
fn insist(socket: &UdpSocket) {
    use rustix::net::sockopt;
    let _ = sockopt::set_socket_recv_buffer_size_force(socket, limits::SOCKET_BUFFER_BYTES);
    let _ = sockopt::set_socket_send_buffer_size_force(socket, limits::SOCKET_BUFFER_BYTES);
}

#[cfg(not(target_os = "linux"))]
fn insist(_: &UdpSocket) {}

/// What QUIC is told of it.
pub(crate) fn transport(Connections { lanes, idle, tuning }: &Connections) -> Arc<TransportConfig> {
    let bound = |bytes: usize| VarInt::from_u32(u32::try_from(bytes).unwrap_or(u32::MAX));
    let mut config = TransportConfig::default();
    tuning.apply(&mut config);
    config
        .max_concurrent_bidi_streams(bound(*lanes))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(bound(limits::LANE_WINDOW_BYTES))
        .receive_window(bound(limits::CONNECTION_WINDOW_BYTES))
        .send_window(limits::SEND_WINDOW_BYTES as u64)
        .max_idle_timeout(idle.to_std().try_into().ok());
    Arc::new(config)
}
