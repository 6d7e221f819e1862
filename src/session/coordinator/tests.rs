//! Sessions driven by random agents through the real collector and core: every request is answered,
//! and the tables follow the core's.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::resolver::{AgentOp, Resolver, Rules, SystemOp};
use crate::slot::{Asked, Collector, Refused, Turned};
use crate::types::{self, Decision, IntentKey, RawClaim, RawIntent, RawMode, RawTarget, Token, TraceContext};
use crate::wire::{Declaration, Declare, Extensions, Hello, Release, Renew, Role, Verdict};

const LENGTH: Micros = Micros::from_ms(10);

/// What one of the agents, or time, does next.
#[derive(Clone, Debug)]
enum Step {
    Connect { name: usize, label: usize, incarnation: u128 },
    Drop { which: usize },
    Bye { which: usize },
    Declare { which: usize, lane: u64, revision: bool, what: What },
    Release { which: usize, lane: u64, id: u64 },
    Renew { which: usize, id: u64, longer: u64 },
    Pass { us: u64 },
}

#[derive(Clone, Copy, Debug)]
struct What {
    id: u64,
    path: usize,
    hold: bool,
    wait: u64,
    class: u64,
    /// From now, or asap.
    start: Option<u64>,
    duration: u64,
}

impl What {
    fn intent(self, now: Time) -> RawIntent {
        let path = ["a", "a/b", "a/b/c", "d"][self.path].to_owned();
        let target = RawTarget::Path(path);
        let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: self.duration };
        RawIntent {
            id: self.id,
            start: self.start.map(|delay| now.as_us() + delay),
            wait: self.wait,
            hold: self.hold,
            class: self.class,
            claims: vec![claim],
            ..RawIntent::default()
        }
    }
}

fn what() -> impl Strategy<Value = What> {
    let start = proptest::option::of(0..40_000_u64);
    let duration = prop_oneof![Just(5_000_u64), Just(25_000)];
    (0..4_u64, 0..4_usize, any::<bool>(), 0..4_u64, 0..3_u64, start, duration).prop_map(
        |(id, path, hold, wait, class, start, duration)| {
            let wait = wait * 11_000;
            What { id, path, hold, wait, class, start, duration }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let (which, lane, id) = (0..6_usize, 0..3_u64, 0..4_u64);
    prop_oneof![
        2 => (0..2_usize, 0..2_usize, 0..2_u128)
            .prop_map(|(name, label, incarnation)| Step::Connect { name, label, incarnation }),
        1 => which.clone().prop_map(|which| Step::Drop { which }),
        1 => which.clone().prop_map(|which| Step::Bye { which }),
        12 => (which.clone(), lane.clone(), any::<bool>(), what())
            .prop_map(|(which, lane, revision, what)| Step::Declare { which, lane, revision, what }),
        4 => (which.clone(), lane, id.clone()).prop_map(|(which, lane, id)| Step::Release { which, lane, id }),
        2 => (which, id, 0..60_000_u64).prop_map(|(which, id, longer)| Step::Renew { which, id, longer }),
        6 => (1..15_000_u64).prop_map(|us| Step::Pass { us }),
    ]
}

#[derive(Debug)]
struct Queue(RefCell<Collector<Origin>>, Time);

impl Inbox for Queue {
    fn take_in(&self, agent: &Agent, batch: Vec<Asked<Origin>>) -> Result<Vec<Turned<Origin>>, Drained> {
        Ok(self.0.borrow_mut().agent_inputs(self.1, agent, batch))
    }

    fn clear(&self, _: &str, is_new: &dyn Fn(&Agent, &AgentOp) -> bool) -> (Time, Vec<Turned<Origin>>) {
        self.0.borrow_mut().turn_out(self.1, is_new)
    }

    fn administer(&self, op: SystemOp, origin: Origin) -> Result<(), Refused> {
        Ok(self.0.borrow_mut().system_input(self.1, op, origin).map(drop)?)
    }
}

/// Of those who only look.
struct NoInbox;

impl Inbox for NoInbox {
    fn take_in(&self, _: &Agent, _: Vec<Asked<Origin>>) -> Result<Vec<Turned<Origin>>, Drained> {
        panic!("nothing is asked of the core")
    }

    fn clear(&self, _: &str, _: &dyn Fn(&Agent, &AgentOp) -> bool) -> (Time, Vec<Turned<Origin>>) {
        panic!("nobody drains")
    }

    fn administer(&self, _: SystemOp, _: Origin) -> Result<(), Refused> {
        panic!("nothing is asked of the core")
    }
}

struct AlwaysRoom;

impl Room for AlwaysRoom {
    fn has_room(&self, _: ConnectionId, _: usize) -> bool {
        true
    }
}

struct World {
    sessions: Sessions,
    queue: Queue,
    resolver: Resolver,
    connections: Vec<ConnectionId>,
    next_connection: u64,
    next_request: u64,
    /// Requests that were sent on a connection and not answered.
    owed: BTreeMap<(ConnectionId, u64), Time>,
    told: BTreeSet<(ConnectionId, u64)>,
}

impl World {
    fn new(room: crate::slot::Room) -> Self {
        let terms = Terms {
            state: 1,
            slot_length: LENGTH,
            min_lead: Micros::ZERO,
            horizon: Micros::from_secs(3600),
            retention: Micros::from_secs(60),
            software: String::new(),
            bounds: Bounds::default(),
        };
        let collector = Collector::new(LENGTH, Slot::new(0), Time::ZERO, room);
        World {
            sessions: Sessions::new(terms).following_traces(),
            queue: Queue(RefCell::new(collector), Time::ZERO),
            resolver: Resolver::new(Rules {
                retention: Micros::from_ms(25),
                preemption: Some(Micros::from_ms(3)),
                ..Rules::default()
            }),
            connections: Vec::new(),
            next_connection: 1,
            next_request: 1,
            owed: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        let now = self.queue.1;
        match *step {
            Step::Connect { name, label, incarnation } => self.connect(name, label, incarnation),
            Step::Drop { which } => {
                if let Some(connection) = self.pick(which) {
                    self.sessions.connection_gone(connection, now);
                    self.forget(connection);
                }
            }
            Step::Bye { which } => {
                if let Some(connection) = self.pick(which) {
                    self.sessions.bye(connection);
                    self.forget(connection);
                }
            }
            Step::Declare { which, lane, revision, what } => {
                let intent = what.intent(now);
                self.ask(which, lane, |sessions, place, request, door| {
                    let declaration =
                        Declaration { request, revision, intent: intent.clone(), ..Declaration::default() };
                    let context = TraceContext::new(7, request, true).unwrap();
                    let declaration = declaration.in_trace(&context);
                    sessions.message(place, Declare { batch: vec![declaration] }.into(), door)
                });
            }
            Step::Release { which, lane, id } => self.ask(which, lane, |sessions, place, request, door| {
                let release = Release { request, id: IntentId::new(id), ..Release::default() };
                sessions.message(place, release.into(), door)
            }),
            Step::Renew { which, id, longer } => {
                let until = now.after(Micros::from_us(longer));
                self.ask(which, 0, |sessions, place, request, door| {
                    let renew = Renew { request, id: IntentId::new(id), until, ..Renew::default() };
                    sessions.message(place, renew.into(), door)
                });
            }
            Step::Pass { us } => self.pass(Micros::from_us(us)),
        }
    }

    fn connect(&mut self, name: usize, label: usize, incarnation: u128) {
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let hello = Hello {
            lowest_version: 1,
            highest_version: 1,
            name: Some(["car", "van"][name].into()),
            label: ["main", "spare"][label].into(),
            incarnation,
            role: Role::Agent,
            refuse_if_live: false,
            seen: None,
            software: String::new(),
            extensions: Extensions::NONE,
        };
        let Ok(effects) = self.sessions.hello(connection, &hello, None, self.queue.1) else { return };
        self.connections.push(connection);
        self.follow(effects);
    }

    fn pick(&self, which: usize) -> Option<ConnectionId> {
        self.connections.get(which % self.connections.len().max(1)).copied()
    }

    fn forget(&mut self, connection: ConnectionId) {
        self.connections.retain(|other| *other != connection);
        self.owed.retain(|(other, _), _| *other != connection);
    }

    fn ask(
        &mut self,
        which: usize,
        lane: u64,
        ask: impl FnOnce(&mut Sessions, Place, u64, &Door<'_>) -> Vec<Effect>,
    ) {
        let Some(connection) = self.pick(which) else { return };
        let (place, request) = (Place { connection, lane: LaneId(lane) }, self.next_request);
        self.next_request += 1;
        self.owed.insert((connection, request), self.queue.1);
        let door = Door { now: self.queue.1, admission: &Open, inbox: &self.queue };
        let effects = ask(&mut self.sessions, place, request, &door);
        self.follow(effects);
    }

    fn follow(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send { to, message: ToAgent::Answer(answer) } if answer.request != 0 => {
                    let key = (to.connection, answer.request);
                    let is_first = self.told.insert(key);
                    let may_repeat = matches!(answer.verdict, Verdict::Conflict(_) | Verdict::Granted { .. })
                        || matches!(answer.verdict, Verdict::Released { .. } | Verdict::Stale { .. });
                    assert!(is_first || may_repeat, "answered twice: {answer:?}");
                    self.owed.remove(&key);
                }
                Effect::Close { connection, .. } => self.forget(connection),
                Effect::Send { .. } => {}
            }
        }
    }

    fn pass(&mut self, span: Micros) {
        self.queue.1 = self.queue.1.after(span);
        let now = self.queue.1;
        loop {
            let due = self.resolver.next_due();
            let Some(closed) = self.queue.0.borrow_mut().close(now, due) else { return };
            let outcome = self.resolver.resolve(&closed.batch);
            let effects = self.sessions.publish(&closed, &outcome, &self.resolver, &AlwaysRoom);
            self.follow(effects);
            self.check_traces(&outcome.decisions);
            self.check(outcome.at);
        }
    }

    /// All were declared in a trace, so what is decided of them without a word of theirs is in it too; but for the end of
    /// what was released in the same slot, of which nobody is told.
    fn check_traces(&mut self, decisions: &[Decision]) {
        let traced = self.sessions.take_traced();
        let traced: BTreeSet<usize> = traced.iter().map(|traced| traced.decision).collect();
        for (at, decision) in decisions.iter().enumerate().filter(|(_, it)| it.answers.is_none()) {
            let is_release = |before: &Decision| {
                before.key == decision.key && matches!(before.verdict, types::Verdict::Released { .. })
            };
            let is_over = decisions[..at].iter().any(is_release);
            assert!(is_over || traced.contains(&at), "{decision:?} among {decisions:#?}");
        }
    }

    fn check(&self, decided_at: Time) {
        let late: Vec<_> = self.owed.iter().filter(|(_, arrival)| **arrival < decided_at).collect();
        assert!(late.is_empty(), "not answered: {late:?}");
        let granted: BTreeMap<IntentKey, Token> =
            self.resolver.grants().map(|grant| (grant.key.clone(), grant.token)).collect();
        let undecided: BTreeSet<IntentKey> =
            self.resolver.undecided().map(|waiting| waiting.key.clone()).collect();
        assert_eq!(self.sessions.intents.tables(), (granted, undecided));
        if self.queue.0.borrow().waiting() == 0 {
            self.sessions.intents.check_counts();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered_and_the_tables_follow_the_core(
        inputs in prop_oneof![1_usize..5, Just(limits::SLOT_INPUTS)],
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let room = crate::slot::Room { inputs, waiting: inputs * 2, ..crate::slot::Room::default() };
        let mut world = World::new(room);
        for step in &steps {
            world.step(step);
        }
        world.pass(Micros::from_secs(2));
        prop_assert!(world.owed.is_empty());
        prop_assert_eq!(world.sessions.intents.tables(), (BTreeMap::new(), BTreeSet::new()));
        prop_assert_eq!(world.sessions.traces.followed(), 0);
    }
}

fn asks_for(name: Option<&str>) -> Hello {
    Hello {
        lowest_version: 1,
        highest_version: 1,
        name: name.map(str::to_owned),
        label: "main".into(),
        incarnation: 7,
        role: Role::Agent,
        refuse_if_live: false,
        seen: None,
        software: String::new(),
        extensions: Extensions::NONE,
    }
}

#[test]
fn a_certified_name_is_the_name_and_who_asks_for_another_is_refused_with_both_told() {
    let mut sessions = World::new(crate::slot::Room::default()).sessions;
    let certified = Agent::new("robot-1").unwrap();
    let mut enter = |connection, name, certified: Option<&Agent>| {
        let effects = sessions.hello(ConnectionId(connection), &asks_for(name), certified, Time::ZERO)?;
        let Some(Effect::Send { message: ToAgent::Welcome(welcome), .. }) = effects.into_iter().next() else {
            panic!("a welcome comes first");
        };
        Ok::<String, HelloRefusal>(welcome.name)
    };
    assert_eq!(enter(1, None, Some(&certified)), Ok("robot-1".into()));
    assert_eq!(enter(2, Some("robot-1"), Some(&certified)), Ok("robot-1".into()));
    let refusal = enter(3, Some("robot-2"), Some(&certified)).unwrap_err();
    assert_eq!(refusal.code, CloseCode::AnothersName);
    assert!(refusal.reason.contains("robot-1") && refusal.reason.contains("robot-2"), "{refusal}");
    assert_eq!(enter(4, Some("\n"), Some(&certified)).unwrap_err().code, CloseCode::NameRefused);
    assert_eq!(enter(5, Some("robot-2"), None), Ok("robot-2".into()));
    assert!(!sessions.members.contains_key(&ConnectionId(3)));
}

/// Sessions of so many names.
fn of_names(names: usize) -> Sessions {
    let mut sessions = World::new(crate::slot::Room::default()).sessions;
    sessions.terms.bounds.names = names;
    sessions
}

#[test]
fn names_that_have_gone_make_room_for_others_and_those_that_are_there_do_not() {
    let mut sessions = of_names(2);
    let enter = |sessions: &mut Sessions, connection, name| {
        sessions.hello(ConnectionId(connection), &asks_for(Some(name)), None, Time::ZERO).map(drop)
    };
    enter(&mut sessions, 1, "a").unwrap();
    enter(&mut sessions, 2, "b").unwrap();
    assert_eq!(enter(&mut sessions, 3, "c").unwrap_err().code, CloseCode::NameRefused);
    sessions.connection_gone(ConnectionId(2), Time::from_us(1));
    enter(&mut sessions, 4, "c").unwrap();
    let names: BTreeSet<&str> = sessions.names.keys().map(Agent::as_str).collect();
    assert_eq!(names, BTreeSet::from(["a", "c"]));
    assert!(sessions.left.is_empty());
    assert_eq!(sessions.reached.count(Limit::Names), 2);
}

#[test]
fn one_name_has_so_many_watches_and_leaves_some_to_others() {
    let mut sessions = of_names(2);
    // How many are taken up of as many as a connection may have, on a session of its own.
    let mut taken_up = |connection, name| {
        let hello = Hello { label: format!("{connection}"), ..asks_for(Some(name)) };
        sessions.hello(ConnectionId(connection), &hello, None, Time::ZERO).unwrap();
        let place = Place { connection: ConnectionId(connection), lane: LaneId::FIRST };
        let watch = |request| crate::wire::Watch { request, ..crate::wire::Watch::default() };
        let requests = 1..=limits::WATCHES_OF_A_CONNECTION as u64;
        let door = Door { now: Time::ZERO, admission: &Open, inbox: &NoInbox };
        requests.filter(|request| sessions.watch(place, &watch(*request), &door).is_empty()).count()
    };
    let of_one_name: usize = (1..=4).map(|connection| taken_up(connection, "greedy")).sum();
    assert_eq!(of_one_name, limits::WATCHES_OF_A_NAME);
    assert_eq!(taken_up(9, "other"), limits::WATCHES_OF_A_CONNECTION);
}
