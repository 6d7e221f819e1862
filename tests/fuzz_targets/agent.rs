//! The agent's half of a session, under any order of commands, messages, times and lost connections, from a
//! coordinator that may say anything.

use std::collections::{BTreeMap, BTreeSet};

use preclaim::limits;
use preclaim::session::agent::{AgentSession, Draft, Event, Identity, Local, News, Reply};
use preclaim::types::{Class, IntentId, Micros, RawMode, RawTarget, Slot, Time, Token, Window};
use preclaim::wire::{
    Answer, Blocker, ClockPong, Conflict, ContestedNews, Draining, Extensions, Frame, Holding, ListReply,
    Refusal, Replaced, Role, Standing, ToAgent, ToCoordinator, Verdict, WatchEvent, Welcome, WireLimits,
};

use super::declaring;
use super::script::Script;

/// Each request has one final answer, what is in hand has been told of, no timer stands still, and what is
/// sent can be sent.
pub(crate) fn agent(data: &[u8]) {
    let mut script = Script::new(data);
    let mut world = World {
        session: AgentSession::new(identity()),
        now: 1_000_000,
        asked: Vec::new(),
        answered: BTreeSet::new(),
        in_hand: BTreeMap::new(),
    };
    while !script.is_over() {
        world.step(&mut script);
        world.look();
    }
}

fn identity() -> Identity {
    Identity {
        name: None,
        label: "main".into(),
        incarnation: 7,
        role: Role::Agent,
        refuse_if_live: false,
        software: String::new(),
        clock_bound: Micros::from_ms(10),
        bearer: None,
    }
}

struct World {
    session: AgentSession,
    now: u64,
    /// Requests, those that were answered too.
    asked: Vec<u64>,
    answered: BTreeSet<u64>,
    in_hand: BTreeMap<IntentId, Token>,
}

impl World {
    fn local(&self) -> Local {
        Local::from_us(self.now)
    }

    fn step(&mut self, script: &mut Script<'_>) {
        let id = IntentId::new(script.below(4).into());
        let now = self.local();
        match script.below(16) {
            0 | 1 => self.session.connected(now),
            2 => self.session.disconnected(),
            3 | 4 => {
                let (revision, note) = (script.is_so(), String::new());
                let intent = declaring::intent(script, id.number(), self.now);
                let asked = self.session.declare(Draft { intent, note, revision, ..Draft::default() }, now);
                self.asked.extend(asked);
            }
            5 => self.asked.extend(self.session.release(id)),
            6 => self
                .asked
                .extend(self.session.renew(id, Time::from_us(self.now + declaring::span(script) / 2))),
            7 => match script.below(5) {
                0 => self.session.abandon(self.request(script)),
                1 => self.session.abandon_declared(id),
                2 => drop(self.session.give_up(self.request(script))),
                3 => {
                    self.session.forget(id);
                    self.in_hand.remove(&id);
                }
                _ => self.session.leave(),
            },
            8 => self.pass(script),
            9 => while self.session.poll_send().is_some_and(|message| sendable(&message)) {},
            _ => {
                let message = self.message(script, id);
                if self.session.receive(message, now).is_err() {
                    self.session.disconnected();
                }
            }
        }
    }

    fn request(&self, script: &mut Script<'_>) -> u64 {
        let last = usize::from(script.below(8));
        self.asked.iter().rev().nth(last).copied().unwrap_or(last as u64)
    }

    fn pass(&mut self, script: &mut Script<'_>) {
        let span = match script.below(4) {
            0 => script.number(),
            1 => 10_000,
            2 => 2_000_000,
            // To the next timer, as a shell would.
            _ => self.session.next_timeout(self.local()).map_or(0, |at| at.since(self.local()).as_us()),
        };
        self.now = self.now.saturating_add(span).min(u64::MAX / 2);
        self.session.tick(self.local());
        let next = self.session.next_timeout(self.local());
        assert!(next.is_none_or(|at| at > self.local()), "a timer that has rung is set for later: {next:?}");
    }

    fn look(&mut self) {
        while let Some(event) = self.session.poll_event() {
            self.hear(&event);
        }
        assert!(self.session.unanswered() <= 2 * limits::REQUESTS);
        for id in (0..4).map(IntentId::new) {
            if let Some(held) = self.session.held(id) {
                assert_eq!(self.in_hand.get(&id), Some(&held.token), "what is in hand was told of");
                assert!(self.session.stands(id));
            }
        }
    }

    fn hear(&mut self, event: &Event) {
        match event {
            Event::Reply { request, id, reply } => {
                assert!(self.answered.insert(*request), "request {request} is answered twice: {event:?}");
                if let Reply::Granted { token, .. } = reply {
                    self.in_hand.insert(*id, *token);
                }
            }
            Event::News(
                News::Granted { id, token, .. }
                | News::Moved { id, token, .. }
                | News::Revised { id, token, .. },
            ) => {
                self.in_hand.insert(*id, *token);
            }
            Event::News(News::Lost { id, .. }) => {
                self.in_hand.remove(id);
            }
            _ => {}
        }
    }

    fn message(&self, script: &mut Script<'_>, id: IntentId) -> ToAgent {
        match script.below(12) {
            0 => Welcome::into(self.welcome(script)),
            1 => {
                let (seq, client_us) = (script.below(8).into(), script.number());
                ClockPong { seq, client_us, coordinator: self.time(script) }.into()
            }
            2 => Draining {
                reason: "why".into(),
                retry_after_us: Some(script.number()),
                ..Draining::default()
            }
            .into(),
            3 => self.contested(script, id).into(),
            4 => self.standings(script).into(),
            5 => match script.below(4) {
                0 => Replaced::default().into(),
                1 => self.event(script, id).into(),
                _ => raw(script).unwrap_or_else(|| Draining::default().into()),
            },
            _ => self.answer(script, id).into(),
        }
    }

    /// A time of the coordinator's: near the agent's own, or any.
    fn time(&self, script: &mut Script<'_>) -> Time {
        match script.below(3) {
            0 => Time::from_us(self.now),
            1 => Time::from_us(self.now + 1_000 * u64::from(script.byte())),
            _ => Time::from_us(script.number()),
        }
    }

    fn welcome(&self, script: &mut Script<'_>) -> Welcome {
        let undecided = script.pick(&[0, 1, 4096, u32::MAX]);
        Welcome {
            version: script.pick(&[1, 1, 1, 2]),
            name: "a".into(),
            label: "main".into(),
            session: 1,
            resumed: script.is_so(),
            state: script.below(2).into(),
            slot_length: Micros::from_us(script.pick(&[10_000, 10_000, 0, u64::MAX])),
            min_lead: Micros::ZERO,
            horizon: Micros::from_secs(60),
            slot: Slot::new(self.now / 10_000),
            now: self.time(script),
            limits: WireLimits { frame_bytes: 65536, batch: 64, lanes: 8, undecided },
            software: String::new(),
            extensions: Extensions::NONE,
        }
    }

    fn contested(&self, script: &mut Script<'_>, id: IntentId) -> ContestedNews {
        let at = self.time(script);
        let wanted = Window::new(at, at.after(Micros::from_us(7)));
        ContestedNews {
            id,
            token: Token::new(script.below(4).into()),
            slot: Slot::new(script.number()),
            at,
            by: "b".into(),
            by_id: id,
            class: Class::new(1).unwrap(),
            wanted: wanted.unwrap_or_else(|| Window::new(Time::ZERO, Time::from_us(1)).unwrap()),
            waits_us: script.number(),
            note: String::new(),
            extensions: Extensions::NONE,
        }
    }

    fn standings(&self, script: &mut Script<'_>) -> ListReply {
        let count = script.below(3);
        let one = |script: &mut Script<'_>| Standing {
            id: IntentId::new(script.below(4).into()),
            verdict: script.is_so().then(|| self.verdict(script)),
        };
        let all: Vec<Standing> = (0..count).map(|_| one(script)).collect();
        Standing::reply(self.request(script), (Slot::new(1), self.time(script)), &all)
    }

    fn event(&self, script: &mut Script<'_>, id: IntentId) -> WatchEvent {
        WatchEvent {
            request: 1,
            missed: 0,
            agent: "b".into(),
            id,
            slot: Slot::new(1),
            at: self.time(script),
            verdict: self.verdict(script),
            note: String::new(),
            extensions: Extensions::NONE,
        }
    }

    fn answer(&self, script: &mut Script<'_>, id: IntentId) -> Answer {
        Answer {
            request: if script.is_so() { self.request(script) } else { 0 },
            id,
            slot: Slot::new(script.number()),
            at: self.time(script),
            repeat: script.is_so(),
            verdict: self.verdict(script),
            extensions: Extensions::NONE,
        }
    }

    fn verdict(&self, script: &mut Script<'_>) -> Verdict {
        let token = Token::new(script.below(6).into());
        let (start, kept) = (self.time(script), script.is_so());
        let end =
            if kept { start.after(Micros::from_us(declaring::span(script))) } else { self.time(script) };
        let offer = script.is_so().then_some(start);
        match script.below(13) {
            0..3 => Verdict::Granted { start, end, token },
            3 => Verdict::Moved { start, end, token },
            4 => {
                let (is_final, deadlock) = (script.is_so(), script.is_so());
                Verdict::Conflict(Conflict { is_final, deadlock, offer, blockers: self.blockers(), kept })
            }
            5 => Verdict::Stale { path: "a".into(), as_of: start, kept },
            6 => {
                let reason = script.pick(&[
                    Refusal::Invalid,
                    Refusal::Overloaded,
                    Refusal::Draining,
                    Refusal::Other(9),
                ]);
                let retry_after_us = offer.map(Time::as_us);
                Verdict::Rejected { reason, field: String::new(), hint: String::new(), retry_after_us, kept }
            }
            7 => Verdict::Released { reason: kept.then(|| "why".into()) },
            8 => Verdict::Renewed { end },
            9 => Verdict::RenewDeniedUnknown,
            10 => Verdict::RenewDenied { end, blockers: self.blockers() },
            11 => Verdict::Expired { token },
            _ => {
                let waiting = script.is_so();
                Verdict::Revoked { by: "b".into(), by_id: IntentId::new(1), offer, waiting }
            }
        }
    }

    fn blockers(&self) -> Vec<Blocker> {
        let (start, end) = (Time::from_us(self.now), Time::from_us(self.now + 1));
        let holding = Holding {
            target: RawTarget::Path("a".into()),
            mode: RawMode::Exclusive,
            window: Window::new(start, end).unwrap(),
            hold: true,
            note: String::new(),
        };
        vec![Blocker {
            agent: "b".into(),
            id: IntentId::new(1),
            token: None,
            claim: 0,
            their_claim: 0,
            start,
            end,
            ratio: None,
            holding: Some(holding),
        }]
    }
}

/// A message of any bytes.
fn raw(script: &mut Script<'_>) -> Option<ToAgent> {
    let kind = script.pick(ToAgent::KINDS);
    ToAgent::decode(Frame { kind, body: script.short_piece() }).ok()
}

fn sendable(message: &ToCoordinator) -> bool {
    let (mut bytes, mut again) = (Vec::new(), Vec::new());
    message.encode(&mut bytes).expect("what is sent fits a frame");
    let read = ToCoordinator::decode(Frame { kind: message.kind(), body: &bytes[6..] });
    read.expect("what is sent can be read").encode(&mut again).expect("and fits a frame");
    // By bytes, since what is not a number is not equal to itself.
    assert_eq!(bytes, again);
    true
}
