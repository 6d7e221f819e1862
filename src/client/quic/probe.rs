//! What can be learnt about an address beside QUIC's own silence. Its socket is not connected, so the
//! system keeps from it what others say.

use std::future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::ConnectError;

/// For how long an address is silent before it is asked whether a TCP server listens there: an answer
/// takes less, on all but the slowest links.
const SILENCE: Duration = Duration::from_millis(250);
/// How long the question may take where it is known that nobody listens on UDP.
const ASKED: Duration = Duration::from_millis(250);

/// Resolves when this machine's system, or another on the way, says that `addr` cannot be reached; never
/// where nobody says anything.
pub(super) async fn refused(addr: SocketAddr, deadline: Instant) -> ConnectError {
    let error = match complaint_about(addr).await {
        Err(error) => error,
        Ok(_) => return future::pending().await,
    };
    match error.kind() {
        ErrorKind::ConnectionRefused if speaks_tcp(addr, deadline.min(Instant::now() + ASKED)).await => {
            ConnectError::SpeaksTcp { addr }
        }
        ErrorKind::ConnectionRefused => ConnectError::NobodyListens { addr },
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable | ErrorKind::AddrNotAvailable => {
            ConnectError::NoRoute { addr, why: error.to_string() }
        }
        _ => future::pending().await,
    }
}

async fn complaint_about(addr: SocketAddr) -> io::Result<usize> {
    let socket = UdpSocket::bind(super::unspecified(addr)).await?;
    socket.connect(addr).await?;
    // No packet of any version of QUIC: a server drops it unread.
    socket.send(&[0]).await?;
    socket.recv(&mut [0]).await
}

/// Resolves at `deadline`, which is `after` the connector began, with what an address that has been
/// silent until then is.
pub(super) async fn silent(addr: SocketAddr, deadline: Instant, after: Duration) -> ConnectError {
    let now = Instant::now();
    sleep_until(now + SILENCE.min((deadline - now) / 2)).await;
    let tcp = speaks_tcp(addr, deadline).await;
    sleep_until(deadline).await;
    if tcp { ConnectError::SpeaksTcp { addr } } else { ConnectError::TimedOut { addr, after } }
}

async fn speaks_tcp(addr: SocketAddr, deadline: Instant) -> bool {
    matches!(timeout_at(deadline, TcpStream::connect(addr)).await, Ok(Ok(_)))
}
