//! The coordinator stopped and started again on the same state: its sessions, what waits, and what was
//! told meanwhile go on.

#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

mod raw_peer;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use preclaim::clock::ManualClock;
use preclaim::config::{Config, StateConfig, TextConfig};
use preclaim::coordinator::{
    Coordinator, CoordinatorConfig, CoordinatorError, RecoveryError, StartFrom, recover,
};
use preclaim::store::sim::SimDisk;
use preclaim::types::{Micros, RawIntent, RawMode, RawTarget, Time};
use preclaim::wire::{CloseCode, EntryState, List, Refusal, ToAgent, Verdict};
use raw_peer::{Lane, Peer, declare, hello, intent, release, soon};
use rustls::pki_types::CertificateDer;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// 10 ms, in µs.
const SLOT: u64 = 10_000;
const START: Time = Time::from_us(1_000 * SLOT);

/// A coordinator at work on a disk in memory.
struct Rig {
    addr: SocketAddr,
    certificate: CertificateDer<'static>,
    clock: Arc<ManualClock>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), CoordinatorError>>,
}

impl Rig {
    /// Starts on `disk` at `wall`, as `text` configures.
    fn start(disk: &SimDisk, from: StartFrom, wall: Time, text: &str) -> Self {
        let config = Config::parse("test", text).unwrap();
        let state = StateConfig {
            dir: PathBuf::new(),
            durability: preclaim::config::Durability::Slot,
            segment_bytes: 4096,
            keep_for: None,
            keep_bytes: None,
            compress: true,
            text: TextConfig::default(),
        };
        let restart = recover(Arc::new(disk.clone()), &config, &state, from, wall).unwrap();
        let clock = Arc::new(ManualClock::new(restart.starts_at));
        let mut settings = CoordinatorConfig::in_memory(config.rules).unwrap();
        settings.clock = clock.clone();
        settings.journal = Box::new(restart.journal);
        settings.recovered = Some(restart.recovered);
        let coordinator = Coordinator::bind(settings).unwrap();
        let (addr, certificate) = (coordinator.local_addr(), coordinator.certificate().clone());
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(coordinator.run(async { drop(stopped.await) }));
        Rig { addr, certificate, clock, stop, running }
    }

    async fn peer(&self) -> Peer {
        Peer::connect(self.addr, &self.certificate).await
    }

    fn next_slot(&self) {
        self.clock.advance(Micros::from_us(SLOT));
    }

    /// Stops it and returns its time.
    async fn stop(self) -> Time {
        drop(self.stop);
        self.clock.advance(Micros::from_us(SLOT));
        soon(self.running).await.unwrap().unwrap();
        preclaim::clock::Clock::now(&*self.clock)
    }
}

fn lease(id: u64, path: &str, us: u64) -> RawIntent {
    RawIntent { hold: true, ..intent(id, path, us) }
}

async fn granted(rig: &Rig, lane: &mut Lane, intent: RawIntent) -> u64 {
    let id = intent.id;
    lane.send(declare(intent)).await;
    lane.settle().await;
    rig.next_slot();
    match lane.verdict().await {
        (_, of, Verdict::Granted { token, .. }) if of == id => token.number(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_session_goes_on_under_its_incarnation_and_one_that_was_replaced_stays_so() {
    let disk = SimDisk::new(1);
    let rig = Rig::start(&disk, StartFrom::Nothing { token_floor: 1 }, START, "");
    let (_first, _) = rig.peer().await.say_hello(hello("car-7", "main", 1)).await;
    let (mut lane, before) = rig.peer().await.say_hello(hello("car-7", "main", 2)).await;
    let mut noted = declare(lease(1, "dock/1", 60_000_000));
    noted.batch[0].note = "lifts a crate".into();
    lane.send(noted).await;
    lane.settle().await;
    rig.next_slot();
    assert!(matches!(lane.verdict().await, (1, 1, Verdict::Granted { .. })));
    let now = rig.stop().await;

    let rig = Rig::start(&disk, StartFrom::State, now, "");
    let (mut lane, after) = rig.peer().await.say_hello(hello("car-7", "main", 2)).await;
    assert!(after.resumed && !before.resumed);
    assert_eq!((after.session, after.state), (before.session, before.state));
    let old = rig.peer().await;
    let mut old_lane = old.lane().await;
    old_lane.send(hello("car-7", "main", 1)).await;
    assert_eq!(old.close_code().await, CloseCode::Replaced);
    // Another session has a number of its own.
    let (_other, other) = rig.peer().await.say_hello(hello("car-8", "main", 1)).await;
    assert!(other.session > before.session);
    lane.send(List { request: 9, granted: true, ..List::default() }).await;
    let ToAgent::ListReply(listed) = lane.receive().await else { panic!("no list") };
    assert_eq!(listed.entries[0].note, "lifts a crate");
    lane.send(release(10, 1)).await;
    lane.settle().await;
    rig.next_slot();
    assert!(matches!(lane.verdict().await, (10, 1, Verdict::Released { .. })));
    rig.stop().await;
}

#[tokio::test]
async fn what_the_outage_outlasted_has_ended_and_its_holder_is_told_when_it_is_back() {
    let disk = SimDisk::new(2);
    let rig = Rig::start(&disk, StartFrom::Nothing { token_floor: 1 }, START, "");
    let (mut lane, _) = rig.peer().await.say_hello(hello("car-7", "main", 1)).await;
    let short = granted(&rig, &mut lane, lease(1, "dock/1", 200_000)).await;
    let long = granted(&rig, &mut lane, lease(2, "dock/2", 60_000_000)).await;
    let now = rig.stop().await;

    let rig = Rig::start(&disk, StartFrom::State, now.after(Micros::from_secs(1)), "");
    // Once the boot's slots are decided a first declaration is answered.
    let (mut other, _) = rig.peer().await.say_hello(hello("car-8", "main", 1)).await;
    let next = granted(&rig, &mut other, lease(1, "dock/1", 200_000)).await;
    assert!(next > long, "the path is free, and tokens rise");
    let (mut lane, _) = rig.peer().await.say_hello(hello("car-7", "main", 1)).await;
    match lane.answer().await {
        answer if answer.id.number() == 1 => {
            assert!(matches!(answer.verdict, Verdict::Expired { token } if token.number() == short));
        }
        answer => panic!("{answer:?}"),
    }
    lane.send(List { request: 9, agent: Some("car-7".into()), granted: true, ..List::default() }).await;
    let ToAgent::ListReply(listed) = lane.receive().await else { panic!("no list") };
    let EntryState::Granted { token, .. } = listed.entries[0].state else { panic!("{listed:?}") };
    assert_eq!((listed.entries.len(), token.number()), (1, long));
    rig.stop().await;
}

#[tokio::test]
async fn an_intent_that_waits_goes_on_waiting_and_is_granted_when_its_path_is_free() {
    let disk = SimDisk::new(3);
    let rig = Rig::start(&disk, StartFrom::Nothing { token_floor: 500 }, START, "");
    let (mut holder, _) = rig.peer().await.say_hello(hello("holder", "main", 1)).await;
    assert_eq!(granted(&rig, &mut holder, lease(1, "dock/1", 60_000_000)).await, 500);
    let (mut waiter, _) = rig.peer().await.say_hello(hello("waiter", "main", 1)).await;
    waiter.send(declare(RawIntent { wait: 30_000_000, ..lease(1, "dock/1", 1_000_000) })).await;
    waiter.settle().await;
    rig.next_slot();
    assert!(matches!(waiter.verdict().await, (1, 1, Verdict::Conflict(conflict)) if !conflict.is_final));
    let now = rig.stop().await;

    // The wall clock was set back by an hour: slots and times rise all the same.
    let rig = Rig::start(&disk, StartFrom::State, now.before(Micros::from_secs(3600)), "");
    let (mut waiter, _) = rig.peer().await.say_hello(hello("waiter", "main", 1)).await;
    let (mut holder, _) = rig.peer().await.say_hello(hello("holder", "main", 1)).await;
    holder.send(release(2, 1)).await;
    holder.settle().await;
    rig.next_slot();
    assert!(matches!(holder.verdict().await, (2, 1, Verdict::Released { .. })));
    let answer = waiter.answer().await;
    assert!(matches!(answer.verdict, Verdict::Granted { token, .. } if token.number() == 501), "{answer:?}");
    assert!(answer.at > now.before(Micros::from_us(SLOT)));
    rig.stop().await;
}

/// A claim of one unit of `pool`.
fn unit(id: u64) -> RawIntent {
    let mut unit = intent(id, "pool", 60_000_000);
    unit.claims[0].mode = RawMode::Units(1);
    assert!(matches!(unit.claims[0].target, RawTarget::Path(_)));
    unit
}

#[tokio::test]
async fn a_changed_configuration_holds_from_the_start_and_another_slot_length_is_refused() {
    let disk = SimDisk::new(4);
    let pool = |units: u64| format!("[[resource]]\npath = \"pool\"\ncapacity = {units}\n");
    let rig = Rig::start(&disk, StartFrom::Nothing { token_floor: 1 }, START, &pool(1));
    let (mut lane, _) = rig.peer().await.say_hello(hello("car-7", "main", 1)).await;
    granted(&rig, &mut lane, unit(1)).await;
    let now = rig.stop().await;

    let rig = Rig::start(&disk, StartFrom::State, now, &pool(2));
    let (mut lane, _) = rig.peer().await.say_hello(hello("car-7", "main", 1)).await;
    granted(&rig, &mut lane, unit(2)).await;
    lane.send(declare(unit(3))).await;
    lane.settle().await;
    rig.next_slot();
    assert!(matches!(lane.verdict().await, (3, 3, Verdict::Conflict(_))));
    let now = rig.stop().await;

    let rig = Rig::start(&disk, StartFrom::State, now, "");
    let (mut lane, _) = rig.peer().await.say_hello(hello("car-7", "main", 1)).await;
    lane.send(declare(unit(4))).await;
    lane.settle().await;
    rig.next_slot();
    let (_, _, Verdict::Rejected { reason, .. }) = lane.verdict().await else { panic!("no pool is left") };
    assert_eq!(reason, Refusal::NoCapacity);
    let now = rig.stop().await;

    let other = Config::parse("test", "[slot]\nlength = \"20ms\"\n").unwrap();
    let state = Config::parse("test", "[state]\ndir = \"d\"\n").unwrap().state.unwrap();
    let refused = recover(Arc::new(disk), &other, &state, StartFrom::State, now);
    assert!(matches!(refused, Err(RecoveryError::SlotLength { .. })), "{refused:?}");
}
