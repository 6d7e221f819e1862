//! What hostile clients do that is about load, each for as long as its process lives.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use preclaim::limits;
use preclaim::types::{RawClaim, RawIntent, RawMode, RawTarget};
use preclaim::wire::{ClockPing, Declaration, Declare, List, ToAgent, ToCoordinator, Watch};
use quinn::VarInt;
use rustls::pki_types::CertificateDer;
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::rig::Failed;
use crate::rig::load::asap;
use crate::rig::peers::{Peer, Peers, lane_on};

/// Whom it attacks.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) addr: SocketAddr,
    pub(crate) certificate: CertificateDer<'static>,
    /// First packets of handshakes a second, of those that are never finished.
    pub(crate) packets: u64,
}

/// Each attack, and what it counts.
pub(crate) const ALL: [(&str, &str); 10] = [
    ("handshakes", "handshakes begun, and given up as soon as they are done"),
    ("half-open", "first packets of handshakes that are never finished, from 31 addresses"),
    ("declarations", "declarations, each on a path of its own"),
    ("conflicts", "declarations, all on a path that is taken"),
    ("searches", "declarations of 64 claims at odd offsets, on a path full of slivers"),
    ("lanes", "lanes with half a frame, given up and opened again"),
    ("lengths", "connections that announce a frame of 4 GiB"),
    ("listings", "pages of a listing"),
    ("pings", "clock pings"),
    ("watches", "watches that are never read"),
];

/// Where attackers come from.
const HOST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Handshakes, or connections, that one attacker has going at a time.
const AT_A_TIME: usize = 16;
/// Declarations that it leaves without an answer.
const WINDOW: usize = 2048;
/// Of those that look far for a place.
const SEARCHES: usize = 16;
/// Different first packets; the ids in them make each a handshake of its own.
const PACKETS: usize = 2000;

type Did = Arc<AtomicU64>;

/// Attacks until the process ends.
pub(crate) async fn run(attack: &str, target: Target, did: Did) -> Result<(), Failed> {
    let peers = Peers::from(HOST, target.addr, &target.certificate)?;
    match attack {
        "handshakes" => handshakes(&peers, &did).await,
        "half-open" => half_open(&peers, &target, &did).await,
        "declarations" => {
            let peer = peers.enter("mallory").await?;
            declare(peer, WINDOW, &did, |id| asap(id, format!("flood/{}", id % 4096), 10_000)).await
        }
        "conflicts" => conflicts(&peers, &did).await,
        "searches" => searches(&peers, &did).await,
        "lanes" => lanes(&peers, &did).await,
        "lengths" => lengths(&peers, &did).await,
        "listings" => listings(&peers, &did).await,
        "pings" => pings(&peers, &did).await,
        "watches" => watches(&peers, &did).await,
        other => Err(format!("there is no attack {other}").into()),
    }
}

fn encoded(message: impl Into<ToCoordinator>) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::new();
    message.into().encode(&mut bytes)?;
    Ok(bytes)
}

/// Has as many of `one` going as may be at a time, for ever.
async fn many<F: Future<Output = ()> + Send + 'static>(
    mut one: impl FnMut(usize) -> F,
) -> Result<(), Failed> {
    let mut all = JoinSet::new();
    (0..AT_A_TIME).for_each(|at| drop(all.spawn(one(at))));
    all.join_next().await;
    Err("an attack goes on for ever".into())
}

async fn handshakes(peers: &Peers, did: &Did) -> Result<(), Failed> {
    many(|_| {
        let (peers, did) = (peers.clone(), Arc::clone(did));
        async move {
            loop {
                did.fetch_add(1, Relaxed);
                if let Ok(connection) = peers.connect().await {
                    connection.close(VarInt::from_u32(0), b"");
                }
            }
        }
    })
    .await
}

async fn half_open(peers: &Peers, target: &Target, did: &Did) -> Result<(), Failed> {
    let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let (mut begun, mut packets, mut packet) = (Vec::new(), BTreeMap::new(), [0; 2048]);
    while packets.len() < PACKETS {
        begun.push(peers.begin(sink.local_addr()?)?);
        let (length, _) = sink.recv_from(&mut packet).await?;
        // By the id that it chose for the coordinator: some come again.
        let id = packet.get(6..6 + usize::from(packet[5])).ok_or("a first packet has an id")?;
        packets.insert(id.to_vec(), packet[..length].to_vec());
    }
    let mut sockets = Vec::new();
    for last in 2..=32 {
        sockets.push(UdpSocket::bind((Ipv4Addr::new(127, 0, 0, last), 0)).await?);
    }
    let mut due = tokio::time::interval(Duration::from_millis(1));
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let mut sending = packets.values().cycle().zip(sockets.iter().cycle());
    loop {
        due.tick().await;
        for (packet, socket) in sending.by_ref().take(usize::try_from(target.packets / 1000)?.max(1)) {
            let _ = socket.send_to(packet, target.addr).await;
            did.fetch_add(1, Relaxed);
        }
    }
}

/// Declares what `make` makes, as fast as it is answered, so many of them unanswered.
async fn declare(
    peer: Peer,
    window: usize,
    did: &Did,
    mut make: impl FnMut(u64) -> RawIntent,
) -> Result<(), Failed> {
    let Peer { connection: _connection, mut send, mut lane } = peer;
    let room = Arc::new(Semaphore::new(window));
    let reading = tokio::spawn({
        let (room, did) = (Arc::clone(&room), Arc::clone(did));
        async move {
            while let Ok(message) = lane.next().await {
                if matches!(message, ToAgent::Answer(_)) {
                    did.fetch_add(1, Relaxed);
                    room.add_permits(1);
                }
            }
        }
    });
    let (mut id, batch) = (0, limits::BATCH.min(window / 2).min(8.max(window / 8)));
    while !reading.is_finished() {
        room.acquire_many(u32::try_from(batch)?).await?.forget();
        let one = |_| {
            id += 1;
            Declaration { request: id, intent: make(id), ..Declaration::default() }
        };
        send.write_all(&encoded(Declare { batch: (0..batch).map(one).collect() })?).await?;
    }
    Err("the connection has ended".into())
}

async fn conflicts(peers: &Peers, did: &Did) -> Result<(), Failed> {
    let mut holder = peers.enter("mallory").await?;
    let held = RawIntent { hold: true, ..asap(1, "taken".into(), 3_600_000_000) };
    let first = Declaration { request: 1, intent: held, ..Declaration::default() };
    holder.send.write_all(&encoded(Declare { batch: vec![first] })?).await?;
    holder.lane.next().await?;
    tokio::spawn(async move { while holder.lane.next().await.is_ok() {} });
    let peer = peers.enter_labelled("mallory", "conflicts").await?;
    declare(peer, WINDOW, did, |id| asap(id + 1, "taken".into(), 10_000)).await
}

async fn searches(peers: &Peers, did: &Did) -> Result<(), Failed> {
    let claim = |offset, duration| RawClaim {
        target: RawTarget::Path("slivers".into()),
        mode: RawMode::Exclusive,
        offset,
        duration,
    };
    let mut peer = peers.enter("mallory").await?;
    // An hour of slivers, by intents of as many claims as one may have.
    for id in 1..=100 {
        let claims = (0..limits::CLAIMS as u64).map(|at| claim(at * 500_000, 250_000)).collect();
        let intent = RawIntent { id, claims, slack: 3_600_000_000, ..RawIntent::default() };
        let one = Declaration { request: id, intent, ..Declaration::default() };
        peer.send.write_all(&encoded(Declare { batch: vec![one] })?).await?;
        while !matches!(peer.lane.next().await?, ToAgent::Answer(_)) {}
    }
    declare(peer, SEARCHES, did, |id| {
        let claims = (0..limits::CLAIMS as u64).map(|at| claim(at * 700_001, 300_000)).collect();
        RawIntent { id: id + 100, claims, slack: 3_600_000_000, ..RawIntent::default() }
    })
    .await
}

async fn lanes(peers: &Peers, did: &Did) -> Result<(), Failed> {
    let half = [&60_000_u32.to_le_bytes()[..], &[3, 0], &[0; 1000]].concat();
    many(|at| {
        let (peers, did, half) = (peers.clone(), Arc::clone(did), half.clone());
        async move {
            loop {
                let Ok(peer) = peers.enter_labelled("mallory", &format!("{at}")).await else { continue };
                let mut open = Vec::new();
                while let Ok((mut send, lane)) = lane_on(&peer.connection).await {
                    if send.write_all(&half).await.is_err() {
                        break;
                    }
                    did.fetch_add(1, Relaxed);
                    open.push((send, lane));
                    if open.len() >= limits::LANES / 2 {
                        for (mut send, _) in open.drain(..) {
                            let _ = send.reset(VarInt::from_u32(0));
                        }
                    }
                }
            }
        }
    })
    .await
}

async fn lengths(peers: &Peers, did: &Did) -> Result<(), Failed> {
    many(|at| {
        let (peers, did) = (peers.clone(), Arc::clone(did));
        async move {
            loop {
                let Ok(mut peer) = peers.enter_labelled("mallory", &format!("{at}")).await else { continue };
                let _ = peer.send.write_all(&u32::MAX.to_le_bytes()).await;
                peer.connection.closed().await;
                did.fetch_add(1, Relaxed);
            }
        }
    })
    .await
}

async fn listings(peers: &Peers, did: &Did) -> Result<(), Failed> {
    let mut filler = peers.enter("filler").await?;
    let one = |id| Declaration {
        request: id,
        intent: asap(id, format!("full/{id}"), 3_600_000_000),
        ..Declaration::default()
    };
    let batch = (1..=limits::BATCH as u64).map(one).collect();
    filler.send.write_all(&encoded(Declare { batch })?).await?;
    let list = encoded(List { request: 1, granted: true, undecided: true, ..List::default() })?;
    many(|at| {
        let (peers, did, list) = (peers.clone(), Arc::clone(did), list.clone());
        async move {
            loop {
                let Ok(peer) = peers.enter_labelled("mallory", &format!("{at}")).await else { continue };
                let mut all = JoinSet::new();
                for _ in 0..AT_A_TIME {
                    let Ok((mut send, mut lane)) = lane_on(&peer.connection).await else { break };
                    let (did, list) = (Arc::clone(&did), list.clone());
                    all.spawn(async move {
                        while send.write_all(&list).await.is_ok() && lane.next().await.is_ok() {
                            did.fetch_add(1, Relaxed);
                        }
                    });
                }
                all.join_all().await;
            }
        }
    })
    .await
}

async fn pings(peers: &Peers, did: &Did) -> Result<(), Failed> {
    let pings = encoded(ClockPing { seq: 1, client_us: u64::MAX })?.repeat(limits::BATCH);
    loop {
        let Ok(Peer { connection: _connection, mut send, mut lane }) = peers.enter("mallory").await else {
            continue;
        };
        let did = Arc::clone(did);
        let answers = tokio::spawn(async move {
            while lane.next().await.is_ok() {
                did.fetch_add(1, Relaxed);
            }
        });
        // It is let go when too many answers wait, and comes again.
        while send.write_all(&pings).await.is_ok() {}
        answers.abort();
    }
}

async fn watches(peers: &Peers, did: &Did) -> Result<(), Failed> {
    many(|at| {
        let (peers, did) = (peers.clone(), Arc::clone(did));
        async move {
            loop {
                let Ok(mut peer) = peers.enter_labelled("mallory", &format!("{at}")).await else { continue };
                for request in 1..=limits::WATCHES_OF_A_CONNECTION as u64 {
                    let Ok(watch) = encoded(Watch { request, ..Watch::default() }) else { return };
                    let _ = peer.send.write_all(&watch).await;
                    did.fetch_add(1, Relaxed);
                }
                // It is let go when too much waits, and comes again.
                peer.connection.closed().await;
            }
        }
    })
    .await
}
