//! A way that changes under a connection: the session goes on by QUIC's own means, and nobody is told of
//! a reconnect since there is none.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

#[allow(dead_code)] // a part of it is enough here
mod house;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use house::{House, PATIENCE, soon};
use preclaim::client::{Event, Events, Grant};
use preclaim::{Client, Intent, Outcome, path, secs};
use tokio::net::UdpSocket;
use tokio::sync::watch;

/// Carries datagrams between one client and the coordinator. The coordinator sees them come from here.
struct Way {
    at: SocketAddr,
    /// How many sockets towards the coordinator have been in use, one after the other.
    outside: watch::Sender<u32>,
    /// The addresses that the client has come from, of which the last is answered, and those that
    /// nothing comes from any more.
    inside: watch::Sender<Vec<SocketAddr>>,
    dead: watch::Sender<Option<SocketAddr>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Way {
    async fn to(coordinator: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (outside, inside, dead) =
            (watch::Sender::new(1), watch::Sender::default(), watch::Sender::new(None));
        let (at, changes) = (socket.local_addr().unwrap(), outside.subscribe());
        let task = tokio::spawn(carry(socket, coordinator, changes, inside.clone(), dead.subscribe()));
        Way { at, outside, inside, dead, task }
    }

    /// From here on the coordinator sees the client come from another address.
    fn change_outside(&self) {
        self.outside.send_modify(|count| *count += 1);
    }

    /// From here on nothing passes from or to the address that the client has: its interface is gone.
    fn cut_inside(&self) {
        let last = self.inside.borrow().last().copied();
        self.dead.send_replace(last);
    }

    /// Waits until the client has come from so many addresses.
    async fn inside(&self, count: usize) {
        soon(self.inside.subscribe().wait_for(|inside| inside.len() >= count)).await.unwrap();
    }
}

async fn carry(
    socket: UdpSocket,
    coordinator: SocketAddr,
    mut changes: watch::Receiver<u32>,
    inside: watch::Sender<Vec<SocketAddr>>,
    dead: watch::Receiver<Option<SocketAddr>>,
) {
    let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
    let mut outside = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    loop {
        tokio::select! {
            Ok((length, from)) = socket.recv_from(&mut up) => {
                // One byte is the client's question whether anybody listens, from a socket of its own.
                if length == 1 || *dead.borrow() == Some(from) {
                    continue;
                }
                inside.send_if_modified(|inside| {
                    let is_new = !inside.contains(&from);
                    if is_new {
                        inside.push(from);
                    }
                    is_new
                });
                let _ = outside.send_to(&up[..length], coordinator).await;
            }
            Ok((length, _)) = outside.recv_from(&mut down) => {
                let to = inside.borrow().last().copied();
                if let Some(to) = to.filter(|to| *dead.borrow() != Some(*to)) {
                    let _ = socket.send_to(&down[..length], to).await;
                }
            }
            Ok(()) = changes.changed() => {
                outside = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
            }
        }
    }
}

/// A client that reaches the house by a way of its own, and holds a lease.
async fn holder(house: &House) -> (Way, Client, Events, Grant) {
    let way = Way::to(house.0.local_addr()).await;
    let settings = Client::builder().addr(way.at).ca_der(house.0.certificate()).name("robot-1");
    let client = soon(settings.timeout(PATIENCE).connect()).await.unwrap();
    let events = client.events();
    let lease = Intent::asap().claim(path("aisle/4").unwrap().exclusive(), secs(60)).lease();
    let Outcome::Granted(grant) = soon(client.declare(lease)).await.unwrap() else { panic!("it is free") };
    (way, client, events, grant)
}

/// The lease can still be renewed, a declaration is still answered, and nothing was told in between but
/// that.
async fn goes_on(client: &Client, mut events: Events, grant: &Grant) {
    soon(grant.renew(client.coordinator_time().0 + secs(90))).await.unwrap();
    let other = Intent::asap().claim(path("aisle/5").unwrap().exclusive(), secs(1));
    assert!(matches!(soon(client.declare(other)).await.unwrap(), Outcome::Granted(_)));
    assert!(client.is_connected() && grant.check().is_ok());
    // What was told so far: the answers came after it.
    while let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
        assert!(matches!(event, Event::Renewed { .. }), "{event:?}");
    }
}

#[tokio::test]
async fn a_client_that_is_seen_to_come_from_another_address_keeps_its_session() {
    let house = House::open().await;
    let (way, client, events, grant) = holder(&house).await;
    way.change_outside();
    goes_on(&client, events, &grant).await;
    house.close().await;
}

#[tokio::test]
async fn a_client_whose_own_address_is_gone_takes_another_and_keeps_its_session() {
    let house = House::open().await;
    let (way, client, events, grant) = holder(&house).await;
    way.cut_inside();
    way.inside(2).await;
    goes_on(&client, events, &grant).await;
    house.close().await;
}
