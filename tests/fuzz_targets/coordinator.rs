//! The coordinator's half: connections that come, say anything in any order, and go; with the core behind it,
//! records after it, and restarts from these.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use preclaim::audit::{Follower, SlotEntry, State, encode};
use preclaim::config::Config;
use preclaim::resolver::{Resolver, Rules, RulesChange, SlotBatch, SlotOutcome, SystemOp};
use preclaim::session::coordinator::{
    ConnectionId, Effect, LaneId, Live, Place, Recovered, Restored, SessionNotes,
};
use preclaim::sim::coordinator::{Coordinator, Keep, Setup};
use preclaim::types::{Agent, IntentId, Micros, Path, Slot, Time};
use preclaim::wire::{
    Bye, ClockPing, Declaration, Declare, Extension, Extensions, Frame, Hello, List, Release, Renew, Role,
    ToAgent, ToCoordinator, Watch, standing_of,
};

use super::declaring;
use super::script::Script;

const CONFIGS: [&str; 4] = [
    "[[resource]]\npath = \"p\"\ncapacity = 4\n",
    "[preemption]\nenabled = true\n[[resource]]\npath = \"p\"\ncapacity = 4\n",
    "[priority]\nmodel = \"fair\"\n[slot]\nhistory = \"1s\"\nretention = \"1s\"\n",
    "[priority]\npatience = \"100ms\"\n[[resource]]\npath = \"a\"\ntime_tolerance = \"2ms\"\noverlap_ratio = 0.2\nmax_hold = \"300ms\"\n",
];
const NAMES: [Option<&str>; 6] = [Some("a"), Some("b"), Some("c"), None, Some(""), Some("a\n")];
const LABELS: [&str; 3] = ["main", "other", ""];
/// Connections that are open at a time.
const CONNECTIONS: usize = 6;

/// Nothing breaks an invariant of the core; each record makes the state that it says; what is sent goes to
/// those who are there, begins with one welcome, answers what was asked, and fits a frame.
pub(crate) fn coordinator(data: &[u8]) {
    let mut script = Script::new(data);
    let config = Config::parse("config", script.pick(&CONFIGS)).unwrap();
    let mut world = World::new(config, Time::from_us(1_000_000_000));
    while !script.is_over() {
        world.step(&mut script);
        assert_eq!(world.coordinator.halt(), None);
        let sizes = world.coordinator.sessions().sizes();
        assert!(sizes[0].1 <= world.peers.len(), "{sizes:?}");
    }
    // What waits has an end, and so has what is in force.
    world.pass(Micros::from_secs(3));
    assert!(!world.coordinator.resolver().undecided().any(|it| it.waits_until <= world.now));
    assert_eq!(world.coordinator.halt(), None);
}

/// A peer as it is seen from outside.
#[derive(Default)]
struct Peer {
    is_welcome: bool,
    is_watching: bool,
    asked: BTreeSet<u64>,
}

struct World {
    config: Config,
    coordinator: Coordinator,
    kept: Kept,
    peers: BTreeMap<ConnectionId, Peer>,
    now: Time,
}

/// The state that the records make.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<State>>);

impl Keep for Kept {
    fn keep(&mut self, batch: &SlotBatch, outcome: &SlotOutcome, notes: &SessionNotes) -> Result<(), String> {
        let mut body = Vec::new();
        encode(&[0; 32], SlotEntry { batch, outcome, notes }, &mut body);
        let applied = self.0.lock().unwrap().apply(&body);
        applied.map(|_| ()).map_err(|error| error.to_string())
    }
}

impl Kept {
    /// The same state, by way of a snapshot.
    fn copied(&self) -> State {
        let mut follower = Follower::default();
        let written = self.0.lock().unwrap().write(|chunk| {
            follower.chunk(chunk).expect("what is written can be read");
            Ok::<(), Infallible>(())
        });
        written.unwrap_or_else(|never| match never {});
        follower.finish()
    }
}

fn rules_of(document: &str) -> Rules {
    Config::parse("rules", document).unwrap().rules
}

/// A coordinator that goes on from `kept`.
fn start(config: &Config, kept: &Kept, now: Time) -> Coordinator {
    let state = kept.copied();
    let length = config.rules.length;
    let rules = state.document().map_or_else(|| Rules { length, ..Rules::default() }, |it| rules_of(it));
    let pending: Vec<SystemOp> = state
        .pending()
        .iter()
        .map(|op| op.to_op(|text| Ok::<_, Infallible>(rules_of(text))).unwrap())
        .collect();
    let next_token = state.image().next_token() + 3;
    let document: Arc<str> = config.rules_document().into();
    let mut boot_ops = vec![SystemOp::Restart { next_token }];
    if state.next_document() != Some(&document) {
        let (rules, resources) = (config.rules.clone(), Some(config.rules.resources.clone()));
        boot_ops.push(SystemOp::Config(Box::new(RulesChange { rules, resources, document })));
    }
    let over = Slot::new(Slot::of(now, length).number() - 1);
    let boot_slot = state.image().last_slot().map_or(over, |last| over.max(last.next()));
    let sessions = state.sessions().cloned().collect();
    let live: Vec<Live> =
        state.image().standings().filter_map(|(key, standing)| Live::of(key, standing)).collect();
    let next_session = state.next_session();
    let (image, routes) = state.into_parts();
    let sessions = Restored::new(sessions, next_session, live.into_iter(), |key| routes.get(key).cloned());
    let resolver = Resolver::from_image(image, rules, &pending).reporting_changes();
    preclaim::resolver::invariants::tables_agree(&resolver).unwrap_or_else(|breach| panic!("{breach}"));
    let setup = Setup { check_invariants: true, ..Setup::new(config.rules.clone()) };
    let recovered = Recovered { resolver, sessions, state: 1, boot_slot, boot_ops };
    let now = now.max(boot_slot.decided_at(length));
    Coordinator::recovered(setup, recovered, Box::new(kept.clone()), now)
}

impl World {
    fn new(config: Config, now: Time) -> Self {
        let kept = Kept::default();
        let coordinator = start(&config, &kept, now);
        World { config, coordinator, kept, peers: BTreeMap::new(), now }
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.below(16) {
            0 => self.connect(),
            1 => {
                self.connect();
                self.say(script, Self::hello);
            }
            2..5 => self.say(script, Self::declare),
            5 => self.say(script, |_, script| {
                Release { request: script.number(), id: id(script), ..Release::default() }.into()
            }),
            6 => self.say(script, Self::renew),
            7 => self.say(script, Self::look_around),
            8 => self.say(script, |_, script| raw(script)),
            9 => match script.below(4) {
                0 => self.say(script, |_, _| Bye::default().into()),
                1 => self.end_lane(script),
                2 => self.lose(script),
                _ => self.say(script, Self::hello),
            },
            10 => self.operate(script),
            11 => match script.below(8) {
                0 => {
                    let effects = self.coordinator.drain("why");
                    self.carry_out(effects);
                }
                1..3 => self.restart(),
                3 if !self.coordinator.resolver().has_undecided() => self.pass(Micros::from_secs(700)),
                _ => self.pass(Micros::from_secs(1)),
            },
            12 => self.pass(Micros::from_us(100)),
            _ => self.pass(Micros::from_us(10_000)),
        }
    }

    fn connect(&mut self) {
        if self.peers.len() < CONNECTIONS {
            let connection = self.coordinator.connected(self.now);
            assert!(self.peers.insert(connection, Peer::default()).is_none());
        }
    }

    /// One of those who are there, the latest mostly.
    fn someone(&self, script: &mut Script<'_>) -> Option<ConnectionId> {
        let back = usize::from(script.below(CONNECTIONS as u8));
        self.peers.keys().rev().nth(back).or(self.peers.keys().next_back()).copied()
    }

    fn say(
        &mut self,
        script: &mut Script<'_>,
        message: impl FnOnce(&mut Self, &mut Script<'_>) -> ToCoordinator,
    ) {
        let Some(connection) = self.someone(script) else { return };
        let lane = LaneId(script.byte().saturating_sub(250).into());
        let message = message(self, script);
        let peer = self.peers.get_mut(&connection).unwrap();
        match &message {
            ToCoordinator::Declare(it) => peer.asked.extend(it.batch.iter().map(|it| it.request)),
            ToCoordinator::Release(it) => peer.asked.extend([it.request]),
            ToCoordinator::Renew(it) => peer.asked.extend([it.request]),
            ToCoordinator::Watch(it) => {
                peer.is_watching = true;
                peer.asked.extend([it.request]);
            }
            ToCoordinator::List(it) => peer.asked.extend([it.request]),
            _ => {}
        }
        let effects = self.coordinator.receive(Place { connection, lane }, message, self.now);
        self.carry_out(effects);
    }

    fn hello(&mut self, script: &mut Script<'_>) -> ToCoordinator {
        let extensions = match script.below(8) {
            0 => Extension { number: Extension::REQUIRED | 9, value: Vec::new() },
            _ => Extension { number: 2, value: script.short_piece().to_vec() },
        };
        let seen =
            script.is_so().then(|| Slot::new(Slot::of(self.now, self.config.rules.length).number() - 1));
        Hello {
            lowest_version: script.pick(&[1, 1, 1, 2]),
            highest_version: 1,
            name: script.pick(&NAMES).map(str::to_owned),
            label: script.pick(&LABELS).into(),
            incarnation: script.below(3).into(),
            role: if script.below(5) == 0 { Role::Observer } else { Role::Agent },
            refuse_if_live: script.below(5) == 0,
            seen,
            software: String::new(),
            extensions: Extensions::new(vec![extensions]).unwrap_or_default(),
        }
        .into()
    }

    fn declare(&mut self, script: &mut Script<'_>) -> ToCoordinator {
        let count = 1 + script.below(3);
        let one = |script: &mut Script<'_>| {
            let (id, request) = (id(script).number(), script.number());
            let (revision, note) = (script.below(3) == 0, if script.is_so() { "n" } else { "n\n" });
            let intent = declaring::intent(script, id, self.now.as_us());
            Declaration { request, revision, intent, note: note.into(), extensions: Extensions::NONE }
        };
        Declare { batch: (0..count).map(|_| one(script)).collect() }.into()
    }

    fn renew(&mut self, script: &mut Script<'_>) -> ToCoordinator {
        let until = self.now.after(Micros::from_us(declaring::span(script)));
        Renew { request: script.number(), id: id(script), until, ..Renew::default() }.into()
    }

    fn look_around(&mut self, script: &mut Script<'_>) -> ToCoordinator {
        let request = script.number();
        let under = script.is_so().then(|| script.pick(&["a", "a//b", "f"]).to_owned());
        let agent = script.pick(&NAMES).map(str::to_owned);
        match script.below(4) {
            0 => ClockPing { seq: request, client_us: script.number() }.into(),
            1 => Watch { request, under, agent, ..Watch::default() }.into(),
            2 => standing_of(request, "a", &[IntentId::new(1), IntentId::new(2)]).into(),
            _ => {
                let after = script.short_piece().to_vec();
                let (granted, undecided, limit) = (script.is_so(), script.is_so(), script.number() as u32);
                List { request, under, agent, granted, undecided, after, limit, ..List::default() }.into()
            }
        }
    }

    fn end_lane(&mut self, script: &mut Script<'_>) {
        let Some(connection) = self.someone(script) else { return };
        let lane = LaneId(script.below(4).into());
        let effects = self.coordinator.lane_ended(Place { connection, lane }, self.now);
        self.carry_out(effects);
    }

    fn lose(&mut self, script: &mut Script<'_>) {
        let Some(connection) = self.someone(script) else { return };
        self.peers.remove(&connection);
        self.coordinator.connection_lost(connection, self.now);
    }

    fn operate(&mut self, script: &mut Script<'_>) {
        let op = match script.below(4) {
            0 => SystemOp::Capacity { path: Path::new("p").unwrap(), capacity: script.below(6).into() },
            1 => {
                let config = Config::parse("config", script.pick(&CONFIGS)).unwrap();
                let resources = script.is_so().then(|| config.rules.resources.clone());
                let document = config.rules_document().into();
                SystemOp::Config(Box::new(RulesChange { rules: config.rules, resources, document }))
            }
            _ => {
                let agent = Agent::new(script.pick(&["a", "b"])).unwrap();
                SystemOp::Release { agent, id: id(script), reason: "why".into() }
            }
        };
        let _ = self.coordinator.operator(op, self.now);
    }

    fn pass(&mut self, span: Micros) {
        self.now = self.now.after(span);
        let effects = self.coordinator.advance(self.now);
        self.carry_out(effects);
    }

    /// It dies, and another goes on from the records.
    fn restart(&mut self) {
        self.peers.clear();
        let before = self.kept.0.lock().unwrap().image().digest();
        self.coordinator = start(&self.config, &self.kept, self.now);
        self.now = self.now.max(self.coordinator.now());
        assert_eq!(self.kept.copied().image().digest(), before, "a snapshot is the state");
        self.pass(Micros::from_us(0));
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send { to, message } => {
                    let peer = self.peers.get_mut(&to.connection).expect("who is written to is there");
                    peer.take(&message);
                }
                Effect::Close { connection, .. } => {
                    assert!(self.peers.remove(&connection).is_some(), "who is let go was there");
                }
            }
        }
    }
}

impl Peer {
    fn take(&mut self, message: &ToAgent) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes).expect("what is sent fits a frame");
        let frame = Frame { kind: message.kind(), body: &bytes[6..] };
        assert_eq!(ToAgent::decode(frame).as_ref(), Ok(message), "what is sent can be read");
        let is_first = !std::mem::replace(&mut self.is_welcome, true);
        assert_eq!(is_first, matches!(message, ToAgent::Welcome(_)), "the welcome comes first, and once");
        let answers = match message {
            ToAgent::Answer(answer) => answer.request,
            ToAgent::ListReply(reply) => reply.request,
            ToAgent::WatchEvent(event) => {
                assert!(self.is_watching);
                event.request
            }
            _ => 0,
        };
        assert!(answers == 0 || self.asked.contains(&answers), "{message:?} answers what was not asked");
    }
}

fn id(script: &mut Script<'_>) -> IntentId {
    IntentId::new(1 + u64::from(script.below(3)))
}

/// A message of any bytes, or a goodbye where they are none.
fn raw(script: &mut Script<'_>) -> ToCoordinator {
    let kind = script.pick(ToCoordinator::KINDS);
    ToCoordinator::decode(Frame { kind, body: script.short_piece() })
        .unwrap_or_else(|_| Bye::default().into())
}
