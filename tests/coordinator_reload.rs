//! What a reload changes counts from one slot's end on: on a clock that the test moves, so that both sides of that instant are
//! looked at.
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

mod raw_peer;

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use preclaim::clock::ManualClock;
use preclaim::config::Limits;
use preclaim::coordinator::{
    Access, Coordinator, CoordinatorConfig, Identity, Operator, Reload, ReloadError, Reloaded, Reloader,
    Rights, Rule, Told,
};
use preclaim::limits;
use preclaim::resolver::{Resource, Rules, RulesChange, SystemOp};
use preclaim::session::coordinator::{Modes, Open, PathPattern, What};
use preclaim::types::{Micros, Path, RawMode, Time};
use preclaim::wire::{ClockPing, Refusal, ToAgent, Verdict};
use quinn::TransportConfig;
use raw_peer::{Lane, Peer, declare, intent, soon};
use rustls::pki_types::CertificateDer;

/// 10 ms, in µs.
const SLOT: u64 = 10_000;

struct Rig {
    addr: SocketAddr,
    certificate: CertificateDer<'static>,
    clock: Arc<ManualClock>,
    reloader: Reloader,
    operator: Operator,
}

/// 8 units of `pool`, unless it is said.
fn rules(capacity: u64) -> Rules {
    let pool = Resource { capacity: Some(capacity), ..Resource::new(Path::new("pool").unwrap()) };
    Rules { resources: vec![pool], ..Rules::default() }
}

impl Rig {
    fn open() -> Self {
        let clock = Arc::new(ManualClock::new(Time::from_us(1_000 * SLOT)));
        let mut config = CoordinatorConfig::in_memory(rules(8)).unwrap();
        config.clock = clock.clone();
        let coordinator = Coordinator::bind(config).unwrap();
        let (addr, certificate) = (coordinator.local_addr(), coordinator.certificate().clone());
        let (reloader, operator) = (coordinator.reloader(), coordinator.operator());
        tokio::spawn(coordinator.run(pending()));
        Rig { addr, certificate, clock, reloader, operator }
    }

    async fn agent(&self, name: &str) -> (Peer, Lane, Micros) {
        let peer = Peer::try_connect(self.addr, &self.certificate, TransportConfig::default()).await.unwrap();
        let (lane, welcome) = peer.hello(name).await;
        (peer, lane, welcome.min_lead)
    }

    /// Nobody may claim `vault`, one intent of an agent may live, windows begin a slot later, and `pool` has 2 units.
    async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let closed = What::Path(PathPattern::new("vault").unwrap());
        let closed = Rule { what: closed, modes: Modes::NONE, ..Rule::named("closed") };
        let rules = Rules { min_lead: Micros::from_us(SLOT), ..rules(2) };
        let resources = Some(rules.resources.clone());
        let reload = Reload {
            identity: Identity::self_made(["localhost".to_owned()]).unwrap(),
            access: Access::Open,
            spans: (&rules).into(),
            rules: Some(RulesChange { rules, resources, document: "".into() }),
            rights: Arc::new(Rights::new(vec![closed, Rule::named("rest")], None)),
            admission: Arc::new(Open),
            drain_within: Micros::from_secs(9),
            limits: Limits { live_per_agent: 2, ..Limits::default().on_one_machine() },
            told: Told { by: "a test".into(), changes: Vec::new() },
        };
        let reloader = self.reloader.clone();
        soon(tokio::task::spawn_blocking(move || reloader.reload(reload))).await.unwrap()
    }

    /// What the agent is told of an intent in the open slot, which ends then.
    async fn asked(&self, lane: &mut Lane, id: u64, path: &str, units: Option<u64>) -> Verdict {
        let mut asked = intent(id, path, 1_000_000);
        asked.claims[0].mode = units.map_or(RawMode::Exclusive, RawMode::Units);
        lane.send(declare(asked)).await;
        lane.send(ClockPing { seq: 7, client_us: 0 }).await;
        let at_once = match lane.receive().await {
            ToAgent::Answer(answer) => Some(answer.verdict),
            _ => None,
        };
        if at_once.is_some() {
            assert!(matches!(lane.receive().await, ToAgent::ClockPong(_)));
        }
        self.clock.advance(Micros::from_us(SLOT));
        match at_once {
            Some(verdict) => verdict,
            None => lane.verdict().await.2,
        }
    }
}

fn is_granted(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Granted { .. })
}

fn is_refused(verdict: &Verdict, reason: Refusal) -> bool {
    matches!(verdict, Verdict::Rejected { reason: of, .. } if *of == reason)
}

#[tokio::test]
async fn what_was_asked_before_the_slots_end_is_judged_by_the_old_and_what_comes_after_by_the_new() {
    let rig = Rig::open();
    let (_peer, mut lane, min_lead) = rig.agent("a").await;
    assert_eq!(min_lead, Micros::ZERO);
    let reloaded = rig.reload().await.unwrap();
    assert_eq!((reloaded.from.number(), reloaded.ended), (1_001, 0));
    // The clock stands still: it is the slot in which the rules came.
    assert!(is_granted(&rig.asked(&mut lane, 1, "vault/a", None).await), "by the old rights");
    // From here on it is the next one.
    assert!(is_refused(&rig.asked(&mut lane, 2, "vault/b", None).await, Refusal::Forbidden));
    let Verdict::Granted { start, .. } = rig.asked(&mut lane, 3, "pool", Some(2)).await else {
        panic!("it fits")
    };
    assert_eq!(start.as_us(), 1_004 * SLOT, "a slot after its decision");
    assert!(is_refused(&rig.asked(&mut lane, 4, "dock", None).await, Refusal::Overloaded), "two live");
    let stranger = Peer::try_connect(rig.addr, &rig.certificate, TransportConfig::default()).await;
    assert!(stranger.is_err(), "who comes is shown the new certificate, which this peer does not know");
}

#[tokio::test]
async fn without_room_for_the_rules_in_the_slot_nothing_of_it_counts_and_in_the_next_one_all_of_it() {
    let rig = Rig::open();
    let (_peer, mut lane, _) = rig.agent("a").await;
    for _ in 0..limits::SLOT_OPERATOR_INPUTS {
        let op = SystemOp::Capacity { path: Path::new("pool").unwrap(), capacity: 8 };
        rig.operator.submit(op).unwrap();
    }
    assert!(matches!(rig.reload().await, Err(ReloadError::Refused(_))));
    for (id, path) in [(1, "vault/a"), (2, "vault/b"), (3, "vault/c")] {
        assert!(is_granted(&rig.asked(&mut lane, id, path, None).await), "{path}");
    }
    rig.reload().await.unwrap();
    assert!(is_granted(&rig.asked(&mut lane, 4, "vault/d", None).await), "in that slot still");
    assert!(is_refused(&rig.asked(&mut lane, 5, "vault/e", None).await, Refusal::Forbidden));
}

#[tokio::test]
async fn a_capacity_below_what_is_granted_is_told_and_takes_nothing_back() {
    let rig = Rig::open();
    let (_peer, mut lane, _) = rig.agent("a").await;
    let (_other, mut late, _) = rig.agent("b").await;
    let Verdict::Granted { end, .. } = rig.asked(&mut lane, 1, "pool", Some(6)).await else {
        panic!("it fits")
    };
    rig.reload().await.unwrap();
    rig.clock.advance(Micros::from_us(SLOT));
    let Verdict::Conflict(conflict) = rig.asked(&mut late, 2, "pool", Some(1)).await else {
        panic!("nothing more fits")
    };
    assert_eq!((conflict.offer, conflict.is_final), (Some(end), true));
    lane.send(raw_peer::release(9, 1)).await;
    lane.send(ClockPing { seq: 8, client_us: 0 }).await;
    // The holder hears that another wants it, too.
    while !matches!(lane.receive().await, ToAgent::ClockPong(_)) {}
    rig.clock.advance(Micros::from_us(SLOT));
    let verdict = loop {
        if let ToAgent::Answer(answer) = lane.receive().await {
            break answer.verdict;
        }
    };
    assert!(matches!(verdict, Verdict::Released { .. }), "it was there to its end");
    assert!(is_granted(&rig.asked(&mut late, 3, "pool", Some(2)).await));
}
