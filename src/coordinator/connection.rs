//! One connection: its hello, its lanes, and how it ends.
//!
//! Whatever a peer does here costs bounded memory and, at worst, its own connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quinn::{Connection, Incoming, VarInt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::gate::Gate;
use super::hub::Hub;
use super::listing;
use crate::config::Limits;
use crate::limits;
use crate::session::coordinator::{ConnectionId, LaneId, Place};
use crate::transport::{Departures, LaneError, LaneReader, Outbox, Shown, write_out};
use crate::types::Agent;
use crate::wire::{ClockPong, CloseCode, Degradations, Hello, ToAgent, ToCoordinator};

/// What all connections share.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) hub: Arc<Hub>,
    pub(super) gate: Arc<Gate>,
    pub(super) limits: Limits,
    pub(super) departures: Option<Arc<Departures>>,
    /// Looks that may wait for the slot loop at a time; others wait in line for it.
    pub(super) looks: Arc<Semaphore>,
    /// How often stores refused agents' writes for their fence, as these told.
    pub(super) fence_refusals: AtomicU64,
}

impl Server {
    /// Counts what a message tells beside what it asks for.
    fn note(&self, message: &ToCoordinator) {
        self.fence_refusals.fetch_add(message.fence_refusals().into(), Ordering::Relaxed);
    }
}

/// Serves one connection to its end.
pub(super) async fn serve(server: Arc<Server>, incoming: Incoming) {
    let peer = incoming.remote_address();
    let Ok(connecting) = incoming.accept() else { return };
    // The idle timeout ends a handshake that goes nowhere; this one is the shorter.
    let connection = match timeout(server.limits.hello_timeout.to_std(), connecting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return tracing::info!(%peer, %error, "a handshake failed"),
        Err(_) => return,
    };
    if server.hub.connections() >= server.limits.connections {
        let code = CloseCode::TooManyConnections;
        return connection.close(VarInt::from_u32(code.number()), code.as_str().as_bytes());
    }
    let outbox = Arc::new(Outbox::default());
    let id = server.hub.connected(&outbox);
    let peer =
        Peer { server, id, outbox, connection, long_frames: Arc::new(Semaphore::new(limits::LONG_FRAMES)) };
    let departures = peer.server.departures.clone();
    // In a set, so that it ends with this task wherever that is dropped.
    let mut writer = JoinSet::new();
    writer.spawn(write_out(Arc::clone(&peer.outbox), peer.connection.clone(), departures));
    if let Err(LaneError::Broken { code, reason }) = peer.converse().await {
        tracing::debug!(peer = %peer.connection.remote_address(), code = code.as_str(), reason, "connection closed");
        peer.outbox.close(code, &reason);
    }
    peer.leave();
    // It closes the connection, or has seen it end.
    writer.join_next().await;
}

/// The other end of a connection.
struct Peer {
    server: Arc<Server>,
    id: ConnectionId,
    outbox: Arc<Outbox>,
    connection: Connection,
    long_frames: Arc<Semaphore>,
}

impl Drop for Peer {
    /// Also where a connection's task panics or is aborted.
    fn drop(&mut self) {
        self.leave();
    }
}

impl Peer {
    fn leave(&self) {
        self.server.gate.left(self.id);
        self.server.hub.disconnected(self.id);
    }

    /// Hello, then lanes, until the connection ends or the peer breaks the protocol.
    async fn converse(&self) -> Result<(), LaneError> {
        let hello = timeout(self.server.limits.hello_timeout.to_std(), self.greet());
        let first = hello.await.unwrap_or_else(|_| {
            Err(LaneError::broken(CloseCode::NoHello, "no hello came on the first lane in time"))
        })?;
        let mut lanes = JoinSet::new();
        lanes.spawn(self.lane(LaneId::FIRST, first).read());
        loop {
            tokio::select! {
                biased;
                Some(ended) = lanes.join_next() => match ended {
                    Ok(Err(broken @ LaneError::Broken { .. })) => return Err(broken),
                    Ok(Ok(()) | Err(LaneError::Lost)) => {}
                    Err(panic) => {
                        tracing::error!(%panic, "a lane's task died");
                        return Err(LaneError::broken(CloseCode::Internal, "a task of this connection died"));
                    }
                },
                lane = self.connection.accept_bi() => {
                    let Ok((send, receive)) = lane else { return Ok(()) };
                    let id = LaneId(receive.id().index());
                    self.outbox.open(id, send);
                    let reader = LaneReader::new(receive, Arc::clone(&self.long_frames));
                    lanes.spawn(self.lane(id, reader).read());
                }
            }
        }
    }

    /// Waits for the hello on the first lane, and answers it.
    async fn greet(&self) -> Result<LaneReader, LaneError> {
        let (send, receive) = self.connection.accept_bi().await.map_err(|_| LaneError::Lost)?;
        self.outbox.open(LaneId::FIRST, send);
        let mut reader = LaneReader::new(receive, Arc::clone(&self.long_frames));
        let hello = match reader.next().await? {
            Some(ToCoordinator::Hello(hello)) => hello,
            Some(_) => {
                return Err(LaneError::broken(CloseCode::ProtocolOrder, "the first message must be a hello"));
            }
            None => {
                return Err(LaneError::broken(CloseCode::NoHello, "the first lane ended without a hello"));
            }
        };
        self.enter(&hello)?;
        self.server.note(&ToCoordinator::Hello(hello));
        Ok(reader)
    }

    fn enter(&self, hello: &Hello) -> Result<(), LaneError> {
        let entered =
            self.server.gate.enter(self.id, Shown::by(&self.connection, hello), hello, &self.outbox);
        let certified = entered.map_err(|refusal| LaneError::broken(refusal.code, refusal.reason))?;
        // Once a connection, as there is one hello.
        if let Some(told) = hello.degradations() {
            let Degradations { stopped, kept_last_plan, fell_back } = told;
            let certified = certified.as_ref().map(Agent::as_str);
            let agent = certified.or(hello.name.as_deref()).unwrap_or("an agent without a name");
            tracing::warn!(
                agent,
                label = hello.label,
                stopped,
                kept_last_plan,
                fell_back,
                "went without grants"
            );
        }
        Ok(())
    }

    fn lane(&self, lane: LaneId, reader: LaneReader) -> Lane {
        let place = Place { connection: self.id, lane };
        Lane { server: Arc::clone(&self.server), outbox: Arc::clone(&self.outbox), place, reader }
    }
}

/// One lane, after the hello.
struct Lane {
    server: Arc<Server>,
    outbox: Arc<Outbox>,
    place: Place,
    reader: LaneReader,
}

impl Lane {
    /// Takes messages in, in order, until the peer finishes the lane. What is still to be said on it then is
    /// said on the first lane.
    async fn read(mut self) -> Result<(), LaneError> {
        let ended = loop {
            match self.reader.next().await {
                Ok(Some(message)) => match self.take_all(message).await {
                    Ok(()) => {}
                    Err(error) => break Err(error),
                },
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.server.hub.lane_gone(self.place);
        if self.place.lane != LaneId::FIRST {
            self.outbox.finish(self.place.lane);
        }
        ended
    }

    /// Takes `first` in and all that has come with it: what goes to the sessions goes together.
    async fn take_all(&mut self, first: ToCoordinator) -> Result<(), LaneError> {
        let (mut requests, mut next) = (Vec::new(), Ok(Some(first)));
        while let Ok(Some(message)) = next {
            match message {
                ToCoordinator::Hello(_) => {
                    self.server.hub.requests(self.place, requests);
                    return Err(LaneError::broken(CloseCode::SecondHello, "a connection says hello once"));
                }
                ToCoordinator::ClockPing(ping) => {
                    // Its pong says that what came ahead of it has been taken in.
                    self.server.hub.requests(self.place, std::mem::take(&mut requests));
                    let coordinator = self.server.hub.clock.now();
                    let pong = ClockPong { seq: ping.seq, client_us: ping.client_us, coordinator };
                    self.outbox.send(self.place.lane, &ToAgent::ClockPong(pong));
                }
                ToCoordinator::List(list) => {
                    self.server.hub.requests(self.place, std::mem::take(&mut requests));
                    let reply = listing::answer(&self.server, &list).await;
                    self.outbox.send(self.place.lane, &reply);
                }
                message => {
                    self.server.note(&message);
                    requests.push(message.into());
                }
            }
            next = self.reader.held();
        }
        self.server.hub.requests(self.place, requests);
        next.map(drop)
    }
}
