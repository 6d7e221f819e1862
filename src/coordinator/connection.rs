//! One connection: its hello, its lanes, and how it ends.
//!
//! Whatever a peer does here costs bounded memory and, at worst, its own connection.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use quinn::{Connection, ConnectionError, Incoming, VarInt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::doorstep::{Doorstep, Knock, Verdict};
use super::gate::Gate;
use super::hub::Hub;
use super::listing;
use super::peer_log::PeerLog;
use super::speed::{Speed, Speeds, weight};
use crate::config::Limits;
use crate::limits::{self, Limit, Reached};
use crate::session::coordinator::{ConnectionId, LaneId, Place, Request};
use crate::transport::{Departures, LaneError, LaneReader, Outbox, Shown, write_out};
use crate::types::{Agent, Micros, Time};
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
    /// How often each limit was reached.
    pub(super) reached: Arc<Reached>,
    /// How often stores refused agents' writes for their fence, as these told.
    pub(super) fence_refusals: AtomicU64,
    doorstep: Mutex<Doorstep>,
    speeds: Speeds,
    log: PeerLog,
    /// Rates go by this machine's time since then.
    started: Instant,
}

impl Server {
    pub(super) fn new(
        hub: Arc<Hub>,
        gate: Gate,
        limits: Limits,
        departures: Option<Arc<Departures>>,
    ) -> Self {
        let reached = hub.reached();
        Server {
            hub,
            gate: Arc::new(gate),
            departures,
            looks: Arc::new(Semaphore::new(limits::WAITING_LOOKS)),
            doorstep: Mutex::new(Doorstep::new(&limits)),
            speeds: Speeds::new(&limits),
            log: PeerLog::new(Arc::clone(&reached)),
            reached,
            fence_refusals: AtomicU64::new(0),
            limits,
            started: Instant::now(),
        }
    }

    fn now(&self) -> Time {
        let us = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        Time::from_us(us)
    }

    /// The rate of who is at the other end of a connection.
    fn speed_of(&self, who: &Who) -> Arc<Speed> {
        self.speeds.of(who.name.get().map(String::as_str), self.now())
    }

    /// Counts what a message tells beside what it asks for.
    fn note(&self, message: &ToCoordinator) {
        self.fence_refusals.fetch_add(message.fence_refusals().into(), Ordering::Relaxed);
    }

    /// What becomes of one who begins a handshake.
    pub(super) fn knock(&self, knock: Knock) -> Verdict {
        self.at_doorstep(|doorstep| doorstep.knock(knock, self.now()))
    }

    fn at_doorstep<T>(&self, then: impl FnOnce(&mut Doorstep) -> T) -> T {
        // Counts, whole at any instant.
        then(&mut self.doorstep.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has the log say what the peer at `address` did, under the name `agent` where one is known.
    pub(super) fn tell(&self, address: IpAddr, agent: Option<&str>, what: impl fmt::Display) {
        self.log.tell(address, agent, self.now(), what);
    }

    /// The same of who is at the other end of a connection.
    fn tell_of(&self, who: &Who, what: impl fmt::Display) {
        self.tell(who.address, who.name.get().map(String::as_str), what);
    }

    /// Has the log say what it left out.
    pub(super) fn tell_left_out(&self) {
        self.log.tell_left_out(self.now());
    }

    /// Has the log say how much is left out that it has not told of, when nothing more will be.
    pub(super) fn tell_rest(&self) {
        self.log.tell_rest();
    }
}

/// A connection's place among those of its address, for as long as it is there.
struct Entered {
    server: Arc<Server>,
    address: IpAddr,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.server.at_doorstep(|doorstep| doorstep.left(self.address));
    }
}

/// Serves one connection to its end.
pub(super) async fn serve(server: Arc<Server>, incoming: Incoming) {
    let address = incoming.remote_address().ip();
    let connecting = match incoming.accept() {
        Ok(connecting) => connecting,
        Err(error) => return server.tell(address, None, format_args!("a handshake failed: {error}")),
    };
    // The idle timeout ends a handshake that goes nowhere; this one is the shorter.
    let connection = match timeout(server.limits.hello_timeout.to_std(), connecting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return server.tell(address, None, format_args!("a handshake failed: {error}")),
        Err(_) => {
            server.reached.note(Limit::HelloTimeout);
            return server.tell(address, None, "a handshake was not finished in time");
        }
    };
    if server.hub.connections() >= server.limits.connections {
        let code = CloseCode::TooManyConnections;
        return turn_away(&server, address, &connection, Limit::Connections, code.as_str());
    }
    if !server.at_doorstep(|doorstep| doorstep.entered(address)) {
        let reason = "too many connections from this address";
        return turn_away(&server, address, &connection, Limit::ConnectionsPerAddress, reason);
    }
    let _entered = Entered { server: Arc::clone(&server), address };
    let unread = server.limits.unread_bytes;
    let outbox = Arc::new(Outbox::with_room(usize::try_from(unread).unwrap_or(usize::MAX)));
    let id = server.hub.connected(&outbox);
    let long_frames = Arc::new(Semaphore::new(limits::LONG_FRAMES));
    let who = Arc::new(Who { address, name: OnceLock::new() });
    let listings = Arc::new(Semaphore::new(limits::LISTINGS_OF_A_CONNECTION));
    let peer = Peer { server, id, outbox, connection, long_frames, listings, speed: OnceLock::new(), who };
    // In a set, so that it ends with this task wherever that is dropped.
    let mut writer = JoinSet::new();
    let (departures, unread) = (peer.server.departures.clone(), peer.server.limits.unread_timeout.to_std());
    writer.spawn(write_out(Arc::clone(&peer.outbox), peer.connection.clone(), departures, unread));
    if let Err(LaneError::Broken { code, reason }) = peer.converse().await {
        peer.tell_broken(code, &reason);
        peer.outbox.close(code, &reason);
    }
    peer.leave();
    // It closes the connection, or has seen it end.
    writer.join_next().await;
    peer.tell_limit();
}

/// Closes a connection for which there is no room.
fn turn_away(server: &Server, address: IpAddr, connection: &Connection, limit: Limit, reason: &str) {
    server.reached.note(limit);
    server.tell(address, None, format_args!("a connection was refused: {}", limit.as_str()));
    connection.close(VarInt::from_u32(CloseCode::TooManyConnections.number()), reason.as_bytes());
}

/// Who is at the other end, for the log.
struct Who {
    address: IpAddr,
    /// Its name, once it has said hello.
    name: OnceLock<String>,
}

/// The other end of a connection.
struct Peer {
    server: Arc<Server>,
    id: ConnectionId,
    outbox: Arc<Outbox>,
    connection: Connection,
    long_frames: Arc<Semaphore>,
    listings: Arc<Semaphore>,
    /// Its name's, once it has said hello.
    speed: OnceLock<Arc<Speed>>,
    who: Arc<Who>,
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

    /// It is let go for what it did.
    fn tell_broken(&self, code: CloseCode, reason: &str) {
        if code == CloseCode::FrameTooLong {
            self.server.reached.note(Limit::FrameBytes);
        }
        self.server.tell_of(&self.who, format_args!("let go, {}: {reason}", code.as_str()));
    }

    /// It was let go for what it did not do.
    fn tell_limit(&self) {
        if let Some(limit) = self.outbox.too_slow() {
            self.server.reached.note(limit);
            self.server.tell_of(&self.who, format_args!("let go: it reads too slowly ({})", limit.as_str()));
        }
        if self.connection.close_reason() == Some(ConnectionError::TimedOut) {
            self.server.reached.note(Limit::IdleTimeout);
        }
    }

    /// Hello, then lanes, until the connection ends or the peer breaks the protocol.
    async fn converse(&self) -> Result<(), LaneError> {
        let hello = timeout(self.server.limits.hello_timeout.to_std(), self.greet());
        let first = hello.await.unwrap_or_else(|_| {
            self.server.reached.note(Limit::HelloTimeout);
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
                        self.server.tell_of(&self.who, format_args!("a lane's task died: {panic}"));
                        return Err(LaneError::broken(CloseCode::Internal, "a task of this connection died"));
                    }
                },
                lane = self.connection.accept_bi() => {
                    let Ok((send, receive)) = lane else { return Ok(()) };
                    let id = LaneId(receive.id().index());
                    self.outbox.open(id, send);
                    let reader = LaneReader::new(receive, Arc::clone(&self.long_frames));
                    lanes.spawn(self.lane(id, reader).read());
                    if lanes.len() == self.server.limits.lanes {
                        // QUIC has it wait before it opens another.
                        self.server.reached.note(Limit::Lanes);
                    }
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
        if let Some(name) = certified.as_ref().map(Agent::as_str).or(hello.name.as_deref()) {
            self.who.name.get_or_init(|| name.to_owned());
        }
        // Once a connection, as there is one hello.
        if let Some(told) = hello.degradations() {
            let Degradations { stopped, kept_last_plan, fell_back } = told;
            self.server.tell_of(&self.who, format_args!(
                "went without grants, in its session \"{}\": stopped {stopped}, kept its last plan {kept_last_plan}, \
                 fell back {fell_back} times",
                hello.label
            ));
        }
        Ok(())
    }

    fn lane(&self, lane: LaneId, reader: LaneReader) -> Lane {
        let place = Place { connection: self.id, lane };
        Lane {
            server: Arc::clone(&self.server),
            outbox: Arc::clone(&self.outbox),
            place,
            reader,
            listings: Arc::clone(&self.listings),
            speed: Arc::clone(self.speed.get_or_init(|| self.server.speed_of(&self.who))),
            who: Arc::clone(&self.who),
        }
    }
}

/// One lane, after the hello.
struct Lane {
    server: Arc<Server>,
    outbox: Arc<Outbox>,
    place: Place,
    reader: LaneReader,
    /// For its turn among the connection's lanes that have something listed.
    listings: Arc<Semaphore>,
    speed: Arc<Speed>,
    who: Arc<Who>,
}

impl Lane {
    /// Takes messages in, in order, until the peer finishes the lane. What is still to be said on it then is
    /// said on the first lane.
    async fn read(mut self) -> Result<(), LaneError> {
        // It costs as much as a message, whether one comes on it or not.
        self.slow_down(1, 0).await;
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
        let mut messages = 0;
        while let Ok(Some(message)) = next {
            messages += weight(&message);
            match message {
                ToCoordinator::Hello(_) => {
                    self.hand_in(requests);
                    return Err(LaneError::broken(CloseCode::SecondHello, "a connection says hello once"));
                }
                ToCoordinator::ClockPing(ping) => {
                    // Its pong says that what came ahead of it has been taken in.
                    self.hand_in(std::mem::take(&mut requests));
                    let coordinator = self.server.hub.clock.now();
                    let pong = ClockPong { seq: ping.seq, client_us: ping.client_us, coordinator };
                    self.outbox.send(self.place.lane, &ToAgent::ClockPong(pong));
                }
                ToCoordinator::List(list) => {
                    self.hand_in(std::mem::take(&mut requests));
                    // Never closed. Without it, a peer with many lanes would stand in line for others' turns.
                    let _turn = self.listings.acquire().await;
                    let reply = listing::answer(&self.server, self.place.connection, &list).await;
                    self.outbox.send(self.place.lane, &reply);
                }
                message => {
                    self.server.note(&message);
                    requests.push(message.into());
                }
            }
            next = self.reader.held();
        }
        self.hand_in(requests);
        let bytes = self.reader.bytes();
        self.slow_down(messages, bytes).await;
        next.map(drop)
    }

    fn hand_in(&self, requests: Vec<Request>) {
        if let Some(limit) = self.server.hub.requests(self.place, requests) {
            self.server
                .tell_of(&self.who, format_args!("it asks for more than it may have ({})", limit.as_str()));
        }
    }

    /// Reads nothing for a while, where so much has come faster than it may. What is on its way fills QUIC's windows, and
    /// then the peer has to wait.
    async fn slow_down(&self, messages: u64, bytes: u64) {
        let (wait, limit) = self.speed.charge(self.server.now(), messages, bytes);
        if wait > Micros::ZERO {
            self.server.reached.note(limit);
            self.server.tell_of(
                &self.who,
                format_args!("it is read more slowly than it sends ({})", limit.as_str()),
            );
            tokio::time::sleep(wait.to_std()).await;
        }
    }
}
