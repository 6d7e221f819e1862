//! What the system gives the coordinator's socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use quinn::{Runtime, TokioRuntime};
use serde::Serialize;

use super::endpoint::open;
use crate::limits;

/// What the coordinator's socket asks for, and what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SocketReading {
    /// Bytes that it asks for, for each of its buffers.
    pub asked_bytes: u64,
    /// Bytes for what has arrived.
    pub receive_bytes: u64,
    /// Bytes for what leaves.
    pub send_bytes: u64,
    /// Datagrams that one call sends at most; 1 where the system has no GSO.
    pub segments: u64,
}

impl SocketReading {
    /// Opens such a socket on the loopback interface, asks, and closes it again. Must not be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// Where the system refuses the socket.
    pub fn take() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let _entered = runtime.enter();
        let socket = open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let options = socket2::SockRef::from(&socket);
        let (receive, send) = (options.recv_buffer_size()?, options.send_buffer_size()?);
        let socket = TokioRuntime.wrap_udp_socket(socket)?;
        Ok(SocketReading {
            asked_bytes: limits::SOCKET_BUFFER_BYTES as u64,
            receive_bytes: given(receive),
            send_bytes: given(send),
            segments: socket.max_transmit_segments() as u64,
        })
    }
}

/// Linux doubles what it gives, for its own overhead, and tells the double (socket(7)).
fn given(told: usize) -> u64 {
    let told = told as u64;
    if cfg!(target_os = "linux") { told / 2 } else { told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_never_given_more_than_it_asked_for() {
        let reading = SocketReading::take().unwrap();
        assert!(reading.segments >= 1);
        for given in [reading.receive_bytes, reading.send_bytes] {
            assert!(given > 0 && (given <= reading.asked_bytes || !cfg!(target_os = "linux")), "{reading:?}");
        }
    }
}
