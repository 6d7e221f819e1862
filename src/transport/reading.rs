//! What the system gives the coordinator's socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use quinn::{Runtime, TokioRuntime};
use serde::Serialize;

use super::endpoint::open;
use crate::config::show_size;
use crate::limits;

/// What a socket's buffers were given, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SocketBuffers {
    /// For what has arrived.
    pub receive_bytes: u64,
    /// For what leaves.
    pub send_bytes: u64,
}

impl SocketBuffers {
    /// Asks the system, which gives less than it was asked for without a word.
    pub(super) fn of(socket: &UdpSocket) -> io::Result<Self> {
        let options = socket2::SockRef::from(socket);
        let (receive, send) = (options.recv_buffer_size()?, options.send_buffer_size()?);
        Ok(SocketBuffers { receive_bytes: given(receive), send_bytes: given(send) })
    }

    /// What of it is less than a coordinator asks for, for people, with what to do.
    pub(crate) fn too_small(&self) -> Vec<String> {
        let needed = limits::SOCKET_BUFFER_BYTES as u64;
        let [receive, send] = [
            (
                self.receive_bytes,
                "receive",
                "rmem_max",
                "what a burst of agents sends within one slot is lost",
            ),
            (self.send_bytes, "send", "wmem_max", "answers of one slot leave one after the other"),
        ]
        .map(|(given, which, name, why)| {
            (given < needed).then(|| {
                let (has, asked) = (show_size(given), show_size(needed));
                let change = raise_limit(name);
                format!("the socket's {which} buffer has {has} of {asked}, past which {why}; {change}")
            })
        });
        receive.into_iter().chain(send).collect()
    }
}

/// The command that has the system allow what a coordinator's socket asks for.
pub(crate) fn raise_limit(name: &str) -> String {
    let needed = limits::SOCKET_BUFFER_BYTES;
    format!(
        "echo net.core.{name}={needed} | sudo tee /etc/sysctl.d/90-preclaim-{name}.conf && sudo sysctl --system"
    )
}

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
        let SocketBuffers { receive_bytes, send_bytes } = SocketBuffers::of(&socket)?;
        let socket = TokioRuntime.wrap_udp_socket(socket)?;
        Ok(SocketReading {
            asked_bytes: limits::SOCKET_BUFFER_BYTES as u64,
            receive_bytes,
            send_bytes,
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
    fn a_buffer_that_is_too_small_is_told_with_the_sysctl_and_one_that_is_not_is_not() {
        let enough = limits::SOCKET_BUFFER_BYTES as u64;
        let of = |receive_bytes, send_bytes| SocketBuffers { receive_bytes, send_bytes }.too_small();
        assert_eq!(of(enough, enough), [""; 0]);
        let told = of(212_992, enough);
        assert_eq!(told.len(), 1);
        for part in ["receive buffer has 208KiB of 4MiB", "net.core.rmem_max=4194304", "sysctl --system"] {
            assert!(told[0].contains(part), "{part} in {told:?}");
        }
        let told = of(enough - 1, enough - 1);
        assert!(told.len() == 2 && told[1].contains("net.core.wmem_max=4194304"), "{told:?}");
    }

    #[test]
    fn a_socket_is_never_given_more_than_it_asked_for() {
        let reading = SocketReading::take().unwrap();
        assert!(reading.segments >= 1);
        for given in [reading.receive_bytes, reading.send_bytes] {
            assert!(given > 0 && (given <= reading.asked_bytes || !cfg!(target_os = "linux")), "{reading:?}");
        }
    }
}
