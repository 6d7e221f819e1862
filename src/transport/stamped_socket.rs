//! A socket that notes when a slot's news is handed to the kernel: what a bench calls sent.
//!
//! Buffered is not sent, so the stamp is taken here, right after the call that gives the datagram
//! away. Without an observer nothing is noted and nothing is locked.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use crate::clock::Clock;
use crate::types::{FixedMap, Slot, Time};

/// News of one slot that has left for one connection: the kernel has taken the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Where it went.
    pub peer: SocketAddr,
    /// Which slot the news is of.
    pub slot: Slot,
    /// When the first datagram was handed to the kernel.
    pub first: Time,
    /// When the last one was.
    pub last: Time,
    /// How many messages they carried.
    pub messages: usize,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// With it, the last of a slot's news for its peer has left.
    Left(Departure),
    /// The kernel had no room for it; it is tried again once there is.
    Full,
}

/// What is on its way to each peer, and who is told when it has left.
pub(crate) struct Departures {
    clock: Arc<dyn Clock>,
    tell: Box<dyn Fn(Sending) + Send + Sync>,
    expected: Mutex<FixedMap<SocketAddr, Expected>>,
}

#[derive(Clone, Copy)]
struct Expected {
    slot: Slot,
    messages: usize,
    /// Bytes of stream data that have not left yet.
    bytes: usize,
    first: Option<Time>,
}

impl std::fmt::Debug for Departures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Departures").finish_non_exhaustive()
    }
}

impl Departures {
    pub(crate) fn new(clock: Arc<dyn Clock>, tell: impl Fn(Sending) + Send + Sync + 'static) -> Self {
        Departures { clock, tell: Box::new(tell), expected: Mutex::default() }
    }

    /// `messages` of `slot`, of `bytes` together, are about to be written to the streams of the
    /// connection to `to`. A datagram that only acknowledges and leaves between this call and the
    /// write counts as well: it makes the stamp early by the time of that write, some microseconds.
    pub(crate) fn expect(&self, to: SocketAddr, slot: Slot, messages: usize, bytes: usize) {
        self.lock().insert(to, Expected { slot, messages, bytes, first: None });
    }

    /// A datagram of `bytes` has been handed to the kernel.
    fn left(&self, to: SocketAddr, bytes: usize) {
        let mut expected = self.lock();
        let Some(it) = expected.get_mut(&to) else { return };
        let now = self.clock.now();
        let first = *it.first.get_or_insert(now);
        it.bytes = it.bytes.saturating_sub(bytes);
        if it.bytes > 0 {
            return;
        }
        let departure = Departure { peer: to, slot: it.slot, first, last: now, messages: it.messages };
        expected.remove(&to);
        drop(expected);
        (self.tell)(Sending::Left(departure));
    }

    fn lock(&self) -> MutexGuard<'_, FixedMap<SocketAddr, Expected>> {
        // Plain values, whole at any instant.
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket whose departures are noted.
#[derive(Debug)]
pub(super) struct StampedSocket {
    socket: Arc<dyn AsyncUdpSocket>,
    departures: Arc<Departures>,
}

impl StampedSocket {
    pub(super) fn new(socket: Arc<dyn AsyncUdpSocket>, departures: Arc<Departures>) -> Self {
        StampedSocket { socket, departures }
    }
}

impl AsyncUdpSocket for StampedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.socket).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let sent = self.socket.try_send(transmit);
        match &sent {
            Ok(()) => self.departures.left(transmit.destination, transmit.contents.len()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (self.departures.tell)(Sending::Full),
            Err(_) => {}
        }
        sent
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::types::Micros;

    #[test]
    fn news_has_left_when_as_many_bytes_have() {
        let clock = Arc::new(ManualClock::new(Time::from_us(100)));
        let (tell, told) = std::sync::mpsc::channel();
        let departures = Departures::new(clock.clone(), move |it| tell.send(it).unwrap());
        let [a, b] = ["127.0.0.1:1", "127.0.0.1:2"].map(|to| to.parse::<SocketAddr>().unwrap());
        departures.left(a, 40);
        departures.expect(a, Slot::new(7), 3, 1000);
        departures.left(b, 5000);
        departures.left(a, 900);
        assert!(told.try_recv().is_err());
        clock.advance(Micros::from_us(5));
        departures.left(a, 900);
        let (first, last) = (Time::from_us(100), Time::from_us(105));
        let departure = Departure { peer: a, slot: Slot::new(7), first, last, messages: 3 };
        assert_eq!(told.try_recv(), Ok(Sending::Left(departure)));
        departures.left(a, 900);
        assert!(told.try_recv().is_err());
    }
}
