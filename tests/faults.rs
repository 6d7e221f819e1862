//! Real processes and a bad network, for a few seconds, and the network's own faults one by one where a
//! held lease has to outlive them. The whole table is `cargo bench --bench faults`; see docs/FAULTS.md.
#![cfg(all(feature = "daemon", unix))]
#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a test reads its environment and a clock

mod fault_rig;
#[allow(dead_code)] // its other helpers are of other tests
mod house;
mod private;
mod udp_proxy;
#[path = "udp_proxy/tests.rs"]
mod udp_proxy_tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use fault_rig::{Enough, in_short};
use house::{House, soon};
use preclaim::client::{Event, Events};
use preclaim::types::Time;
use preclaim::{Client, Intent, Outcome, path, secs};
use udp_proxy::Proxy;

/// Grants after which a test has seen enough.
const FEW: u64 = 15;

/// Not a test but an agent, where it is started as one.
#[test]
fn an_agent_of_the_rig() {
    fault_rig::agent::entry();
}

#[test]
fn agents_and_network_that_fail_at_once_cost_no_grant_and_no_decision() {
    let report = fault_rig::run(&in_short(), 1, Enough::Grants(FEW, secs(60))).unwrap();
    println!("{}\n{}\n{}", fault_rig::Report::headings(), report.row(), report.details);
    assert!(report.held(), "{:#?}", report.wrong);
    assert!(report.grants >= FEW && report.agent_kills > 0, "hardly anything happened");
}

/// A coordinator behind a proxy, and a client of it that holds a lease.
struct Held {
    house: House,
    proxy: Proxy,
    events: Events,
    grant: preclaim::client::Grant,
    _client: Client,
}

impl Held {
    async fn a_lease_of(span: Duration) -> Self {
        let house = House::open().await;
        let coordinator = SocketAddr::from((Ipv4Addr::LOCALHOST, house.0.local_addr().port()));
        let proxy = Proxy::start(coordinator, 1).unwrap();
        let settings = Client::builder().addr(proxy.addr()).ca_der(house.0.certificate());
        let client = settings.server_name("localhost").name("walker").connect().await.unwrap();
        let events = client.events();
        let dock = path("dock/1").unwrap().exclusive();
        let outcome = client.declare(Intent::asap().claim(dock, span).lease()).await.unwrap();
        let Outcome::Granted(grant) = outcome else { panic!("{outcome:?}") };
        Held { house, proxy, events, grant, _client: client }
    }

    /// The end that the next renewal brings; any other news fails the test.
    async fn renewed(&mut self) -> Time {
        match soon(self.events.next()).await {
            Some(Event::Renewed { end, .. }) => end,
            other => panic!("{other:?}"),
        }
    }

    async fn end_well(self) {
        self.grant.check().unwrap();
        self.grant.release().await.unwrap();
        self.house.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lease_survives_changes_of_path_without_a_reconnect() {
    let mut held = Held::a_lease_of(secs(2)).await;
    let (token, mut end) = (held.grant.token(), held.grant.end());
    for _ in 0..4 {
        let before = held.proxy.counters().path_changes;
        held.proxy.change_paths().unwrap();
        assert!(held.proxy.counters().path_changes > before);
        // Whatever the coordinator answers now, it answers to another address, or nobody hears it.
        let later = held.renewed().await;
        assert!(later > end);
        end = later;
    }
    assert_eq!(held.grant.token(), token);
    held.end_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lease_survives_a_cut_in_which_it_was_to_be_renewed() {
    let lease = secs(9);
    let mut held = Held::a_lease_of(lease).await;
    let (token, end) = (held.grant.token(), held.grant.end());
    held.proxy.cut();
    // Past a third of its time. QUIC tries again at the latest after as long as nothing passed, so the
    // renewal has a quarter of the lease left to arrive in.
    tokio::time::sleep(lease * 11 / 30).await;
    assert!(held.proxy.counters().cut > 0);
    held.grant.check().unwrap();
    held.proxy.mend();
    assert!(held.renewed().await > end);
    assert_eq!(held.grant.token(), token);
    held.end_well().await;
}
