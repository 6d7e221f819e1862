//! Connections in memory, which carry the protocol's own frames.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::line::Line;
use super::net::{Down, Net};
use crate::client::{Boxed, Clock, Closed, ConnectError, Connector, GIVE_UP, Lane, Link};
use crate::limits;
use crate::session::coordinator::{ConnectionId, LaneId, Place};
use crate::wire::{CloseCode, FrameReader, ToCoordinator};

/// Messages of one lane that are on their way to the coordinator; past that the agent waits.
const ON_THE_WAY: usize = limits::BATCH;

/// Turns of the scheduler in which an agent has read what was written to it.
const TURNS_TO_READ: u32 = 8;

/// How a connection ended, once it has.
pub(super) type End = watch::Sender<Option<Closed>>;

/// Connects one agent.
pub(super) struct Wire {
    net: Arc<Net>,
    line: Line,
    timeout: Duration,
}

impl Wire {
    pub(super) fn new(net: Arc<Net>, line: Line, timeout: Duration) -> Self {
        Wire { net, line, timeout }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Connector for Wire {
    fn connect(&self) -> Boxed<'_, Result<Arc<dyn Link>, ConnectError>> {
        Box::pin(async move {
            // There and back, as a handshake takes it.
            let came_through = async {
                self.line.through(Instant::now()).await;
                self.line.through(Instant::now()).await;
            };
            tokio::select! {
                biased;
                () = came_through => {}
                () = sleep(self.timeout) => {
                    return Err(ConnectError::TimedOut { addr: address(), after: self.timeout });
                }
            }
            let link = self.net.connect(&self.line);
            link.map(|link| link as Arc<dyn Link>).ok_or(ConnectError::NobodyListens { addr: address() })
        })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.line.clone())
    }

    fn draw(&self) -> u128 {
        self.net.draw()
    }
}

/// What the coordinator's address would be: of those that are kept free for documentation.
fn address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 7411))
}

/// One connection, seen from the agent.
pub(super) struct Cable {
    pub(super) net: Arc<Net>,
    pub(super) id: ConnectionId,
    pub(super) line: Line,
    pub(super) end: End,
    pub(super) lanes: AtomicU64,
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.net.cut(self.id, &self.end, &Closed::because("the agent let it go"));
    }
}

impl Link for Cable {
    fn open_lane(&self) -> Boxed<'_, Result<Lane, Closed>> {
        let lane = LaneId(self.lanes.fetch_add(1, Ordering::Relaxed));
        let place = Place { connection: self.id, lane };
        let opened = self.net.open_lane(place, &self.end).map(|messages| {
            let (here, there) = tokio::io::duplex(limits::READ_CHUNK);
            let ((reader, writer), (from, to)) = (tokio::io::split(here), tokio::io::split(there));
            let pump =
                Pump { net: Arc::clone(&self.net), line: self.line.clone(), end: self.end.clone(), place };
            tokio::spawn(until_the_end(self.end.subscribe(), pump.clone().up(from)));
            tokio::spawn(until_the_end(self.end.subscribe(), pump.down(messages, to)));
            Lane { reader: Box::new(reader), writer: Box::new(writer) }
        });
        Box::pin(async move { opened.ok_or_else(|| Closed::because("the connection has ended")) })
    }

    fn close(&self, _: CloseCode, why: &str) {
        self.net.cut(self.id, &self.end, &Closed::because(why));
    }

    fn closed(&self) -> Boxed<'_, Closed> {
        let mut end = self.end.subscribe();
        Box::pin(async move {
            let ended = end.wait_for(Option::is_some).await.map(|end| end.clone());
            self.line.awake().await;
            ended.ok().flatten().unwrap_or_else(|| Closed::because("the connection has ended"))
        })
    }
}

/// Runs `pump` no longer than the connection stands.
pub(super) async fn until_the_end(mut end: watch::Receiver<Option<Closed>>, pump: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        _ = end.wait_for(Option::is_some) => {}
        () = pump => {}
    }
}

/// Carries one lane's bytes, as fast as the line allows.
#[derive(Clone)]
struct Pump {
    net: Arc<Net>,
    line: Line,
    end: End,
    place: Place,
}

/// What an agent has put on a lane.
enum Up {
    Message(ToCoordinator),
    End,
}

impl Pump {
    async fn up(self, mut reader: impl AsyncRead + Unpin) {
        let (mut frames, mut chunk) = (FrameReader::new(), vec![0; limits::READ_CHUNK]);
        let mut on_the_way: VecDeque<(Instant, Up)> = VecDeque::new();
        let mut ended = false;
        loop {
            let first = on_the_way.front().map(|(sent, _)| *sent);
            tokio::select! {
                biased;
                () = self.line.through(first.unwrap_or_else(Instant::now)), if first.is_some() => {
                    match on_the_way.pop_front() {
                        Some((_, Up::Message(message))) => self.net.receive(self.place, message),
                        Some((_, Up::End)) => return self.net.lane_ended(self.place),
                        None => {}
                    }
                }
                read = reader.read(&mut chunk), if !ended && on_the_way.len() < ON_THE_WAY => {
                    let read = read.unwrap_or(0);
                    ended = read == 0;
                    frames.push(&chunk[..read]);
                    while let Ok(Some(frame)) = frames.next_frame() {
                        let Ok(message) = ToCoordinator::decode(frame) else { continue };
                        on_the_way.push_back((Instant::now(), Up::Message(message)));
                    }
                    on_the_way.extend(ended.then(|| (Instant::now(), Up::End)));
                }
            }
        }
    }

    async fn down(self, mut messages: mpsc::Receiver<Down>, mut writer: impl AsyncWrite + Unpin) {
        while let Some(Down { sent, what }) = messages.recv().await {
            self.line.through(sent).await;
            self.net.has_moved();
            match what {
                Ok(bytes) => {
                    // An agent that has let the lane go is told no more on it.
                    if writer.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Err(closed) => {
                    // What came ahead of it is read first: a real connection waits until that has arrived.
                    for _ in 0..TURNS_TO_READ {
                        tokio::task::yield_now().await;
                    }
                    return self.net.cut(self.place.connection, &self.end, &closed);
                }
            }
        }
    }
}

/// Ends a connection over which nothing has come through for as long as a real one lasts then.
pub(super) async fn end_in_silence(net: Arc<Net>, line: Line, id: ConnectionId, end: End) {
    loop {
        line.silent().await;
        tokio::select! {
            biased;
            () = async { line.through(Instant::now()).await } => {}
            () = sleep(GIVE_UP) => {
                return net.cut(id, &end, &Closed::because("timed out"));
            }
        }
    }
}
