//! A bad network in a process: a UDP proxy on loopback between agents and one coordinator, which delays,
//! loses, doubles and reorders datagrams, lets nothing pass for a while, and changes the address from
//! which the coordinator sees an agent come. What becomes of a datagram is a pure function of the seed,
//! the way it goes, the number of its flow and its own number in it: the same seed, the same fate.
//!
//! One thread of its own does it all. Nothing grows without bound: see [`HELD`] and [`FLOWS`].
#![allow(dead_code, clippy::unwrap_used)] // each program uses its own part; what fails here fails the test

mod fate;

use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

#[allow(unused_imports)] // each program uses its own
pub(crate) use fate::{Fate, Link, Way, fate};

/// Datagrams that are on their way at a time, over all flows: 24 MB, and seconds of what a dozen busy
/// agents send. Those beyond are dropped, as a router's queue does, and counted.
pub(crate) const HELD: usize = 16_384;
/// Client addresses that are told apart; the one that was silent for longest makes room. Each
/// connection has its own, so this is some minutes of agents that are killed and come back.
pub(crate) const FLOWS: usize = 256;
/// No datagram is longer.
const DATAGRAM: usize = 65_536;

/// What is done to the datagrams of each way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Faults {
    /// From the agents to the coordinator.
    pub(crate) up: Link,
    /// Back.
    pub(crate) down: Link,
}

impl Faults {
    /// The same both ways.
    pub(crate) fn both(link: Link) -> Self {
        Faults { up: link, down: link }
    }
}

/// What it did so far, in datagrams, over both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) arrived: u64,
    /// Sent on, copies included.
    pub(crate) passed: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    /// Held back, so that later ones overtake them.
    pub(crate) held_back: u64,
    /// Dropped because nothing passed then.
    pub(crate) cut: u64,
    /// Dropped because [`HELD`] were on their way, or the socket took no more.
    pub(crate) overflowed: u64,
    /// Addresses of agents that were seen.
    pub(crate) flows: u64,
    /// Flows that were given another address.
    pub(crate) path_changes: u64,
    /// The most that were on their way at a time.
    pub(crate) most_held: usize,
}

/// A running proxy; it ends with this.
#[derive(Debug)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    addr: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free port of this machine for agents of the coordinator at `upstream`. It passes
    /// everything until it is told otherwise.
    pub(crate) fn start(upstream: SocketAddr, seed: u64) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let front = socket()?;
        let (addr, reader) = (front.local_addr()?, front.try_clone()?);
        let reader = {
            let _inside = runtime.enter();
            UdpSocket::from_std(reader)?
        };
        let shared = Arc::new(Shared {
            seed,
            front,
            handle: runtime.handle().clone(),
            state: Mutex::new(State::toward(upstream)),
            wake: Notify::new(),
            stop: Notify::new(),
        });
        let thread = std::thread::Builder::new().name("udp-proxy".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                runtime.spawn(from_agents(Arc::clone(&shared), reader));
                runtime.spawn(on_time(Arc::clone(&shared)));
                runtime.block_on(shared.stop.notified());
            }
        })?;
        Ok(Proxy { shared, addr, thread: Some(thread) })
    }

    /// Where agents connect to.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// From now on datagrams that arrive fare like this.
    pub(crate) fn set(&self, faults: Faults) {
        self.shared.lock().faults = faults;
    }

    /// Nothing passes from now on, nor does what is on its way.
    pub(crate) fn cut(&self) {
        self.shared.lock().is_cut = true;
    }

    /// What arrives passes again.
    pub(crate) fn mend(&self) {
        self.shared.lock().is_cut = false;
    }

    /// The coordinator sees each agent come from another address from now on; what it still sends to
    /// the old one is lost, as behind a router that forgot.
    pub(crate) fn change_paths(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        let state = &mut *state;
        for (agent, flow) in &mut state.flows {
            flow.rebind(&self.shared, *agent)?;
            state.counters.path_changes += 1;
        }
        Ok(())
    }

    /// The coordinator is at `upstream` now.
    pub(crate) fn retarget(&self, upstream: SocketAddr) {
        self.shared.lock().upstream = upstream;
    }

    pub(crate) fn counters(&self) -> Counters {
        self.shared.lock().counters
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Debug)]
struct Shared {
    seed: u64,
    /// Which sends; what comes is read by [`from_agents`] from the same socket. Plain sockets send at
    /// once, where the runtime's wait to hear from the kernel first that they can.
    front: std::net::UdpSocket,
    handle: Handle,
    state: Mutex<State>,
    /// Something earlier than all before is on its way.
    wake: Notify,
    stop: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct State {
    upstream: SocketAddr,
    faults: Faults,
    is_cut: bool,
    flows: BTreeMap<SocketAddr, Flow>,
    on_their_way: BinaryHeap<OnItsWay>,
    /// Datagrams that were put on their way: those due at one time go in this order.
    sent: u64,
    counters: Counters,
}

impl State {
    fn toward(upstream: SocketAddr) -> Self {
        State {
            upstream,
            faults: Faults::default(),
            is_cut: false,
            flows: BTreeMap::new(),
            on_their_way: BinaryHeap::new(),
            sent: 0,
            counters: Counters::default(),
        }
    }
}

/// One agent's address.
#[derive(Debug)]
struct Flow {
    number: u64,
    /// From which the coordinator sees it come.
    back: std::net::UdpSocket,
    reader: AbortHandle,
    heard: Instant,
    ways: [WayState; 2],
}

#[derive(Clone, Copy, Debug)]
struct WayState {
    arrived: u64,
    /// When the last one that is not held back goes on: those after it do not overtake it.
    last_due: Instant,
}

impl Flow {
    fn open(shared: &Arc<Shared>, agent: SocketAddr, number: u64, now: Instant) -> io::Result<Self> {
        let (back, reader) = back_socket(shared, agent)?;
        let ways = [WayState { arrived: 0, last_due: now }; 2];
        Ok(Flow { number, back, reader, heard: now, ways })
    }

    fn rebind(&mut self, shared: &Arc<Shared>, agent: SocketAddr) -> io::Result<()> {
        let (back, reader) = back_socket(shared, agent)?;
        self.reader.abort();
        (self.back, self.reader) = (back, reader);
        Ok(())
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

fn socket() -> io::Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn back_socket(shared: &Arc<Shared>, agent: SocketAddr) -> io::Result<(std::net::UdpSocket, AbortHandle)> {
    let back = socket()?;
    let reader = {
        let _inside = shared.handle.enter();
        UdpSocket::from_std(back.try_clone()?)?
    };
    let reader = shared.handle.spawn(from_coordinator(Arc::clone(shared), reader, agent));
    Ok((back, reader.abort_handle()))
}

/// A datagram that goes on at `due`.
#[derive(Debug)]
struct OnItsWay {
    due: Instant,
    order: u64,
    way: Way,
    agent: SocketAddr,
    bytes: Box<[u8]>,
}

impl PartialEq for OnItsWay {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OnItsWay {}

impl PartialOrd for OnItsWay {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OnItsWay {
    /// The heap's greatest is the one due first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

async fn from_agents(shared: Arc<Shared>, front: UdpSocket) {
    let mut bytes = vec![0; DATAGRAM];
    loop {
        // An error is the news of an agent that is gone.
        let Ok((length, agent)) = front.recv_from(&mut bytes).await else { continue };
        let _ = arrived(&shared, Way::Up, agent, &bytes[..length]);
    }
}

async fn from_coordinator(shared: Arc<Shared>, back: UdpSocket, agent: SocketAddr) {
    let mut bytes = vec![0; DATAGRAM];
    loop {
        let Ok((length, from)) = back.recv_from(&mut bytes).await else { continue };
        let is_upstream = shared.lock().upstream == from;
        if is_upstream {
            let _ = arrived(&shared, Way::Down, agent, &bytes[..length]);
        }
    }
}

/// Decides what becomes of a datagram, and sends it on at once where nothing holds it.
fn arrived(shared: &Arc<Shared>, way: Way, agent: SocketAddr, bytes: &[u8]) -> io::Result<()> {
    let now = Instant::now();
    let mut guard = shared.lock();
    let state = &mut *guard;
    state.counters.arrived += 1;
    if way == Way::Up && !state.flows.contains_key(&agent) {
        state.make_room();
        let flow = Flow::open(shared, agent, state.counters.flows, now)?;
        state.counters.flows += 1;
        state.flows.insert(agent, flow);
    }
    let Some(flow) = state.flows.get_mut(&agent) else { return Ok(()) };
    let link = match way {
        Way::Up => state.faults.up,
        Way::Down => state.faults.down,
    };
    let this_way = &mut flow.ways[way as usize];
    let fate = fate(shared.seed, way, flow.number, this_way.arrived, &link);
    this_way.arrived += 1;
    flow.heard = now;
    if state.is_cut {
        state.counters.cut += 1;
        return Ok(());
    }
    if fate.is_lost {
        state.counters.lost += 1;
        return Ok(());
    }
    let due = match fate.held_back {
        Some(longer) => {
            state.counters.held_back += 1;
            now + fate.delay + longer
        }
        None => {
            this_way.last_due = this_way.last_due.max(now + fate.delay);
            this_way.last_due
        }
    };
    state.go(shared, OnItsWay { due, order: 0, way, agent, bytes: bytes.into() }, now);
    if let Some(later) = fate.copy_after {
        state.counters.doubled += 1;
        state.go(shared, OnItsWay { due: due + later, order: 0, way, agent, bytes: bytes.into() }, now);
    }
    Ok(())
}

impl State {
    fn make_room(&mut self) {
        if self.flows.len() < FLOWS {
            return;
        }
        let silent = self.flows.iter().min_by_key(|(_, flow)| flow.heard).map(|(agent, _)| *agent);
        silent.and_then(|agent| self.flows.remove(&agent));
    }

    fn go(&mut self, shared: &Shared, mut datagram: OnItsWay, now: Instant) {
        if datagram.due <= now {
            return self.pass(&shared.front, &datagram);
        }
        if self.on_their_way.len() == HELD {
            self.counters.overflowed += 1;
            return;
        }
        datagram.order = self.sent;
        self.sent += 1;
        let is_first = self.on_their_way.peek().is_none_or(|first| datagram.due < first.due);
        self.on_their_way.push(datagram);
        self.counters.most_held = self.counters.most_held.max(self.on_their_way.len());
        if is_first {
            shared.wake.notify_one();
        }
    }

    /// It leaves now, or never.
    fn pass(&mut self, front: &std::net::UdpSocket, datagram: &OnItsWay) {
        if self.is_cut {
            self.counters.cut += 1;
            return;
        }
        let Some(flow) = self.flows.get(&datagram.agent) else { return };
        let sent = match datagram.way {
            Way::Up => flow.back.send_to(&datagram.bytes, self.upstream),
            Way::Down => front.send_to(&datagram.bytes, datagram.agent),
        };
        match sent {
            Ok(_) => self.counters.passed += 1,
            Err(_) => self.counters.overflowed += 1,
        }
    }
}

/// Sends on what is due.
async fn on_time(shared: Arc<Shared>) {
    loop {
        let woken = shared.wake.notified();
        let next = {
            let mut state = shared.lock();
            let now = Instant::now();
            while state.on_their_way.peek().is_some_and(|first| first.due <= now) {
                let Some(datagram) = state.on_their_way.pop() else { break };
                state.pass(&shared.front, &datagram);
            }
            state.on_their_way.peek().map(|first| first.due)
        };
        match next {
            None => woken.await,
            Some(due) => {
                let _ = tokio::time::timeout_at(due.into(), woken).await;
            }
        }
    }
}
