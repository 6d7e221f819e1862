//! A process of an agent: the real session, its machine's clock, and what its program asks for.

use std::collections::BTreeMap;

use super::clock::SimClock;
use super::dice::Dice;
use super::ledger::Ledger;
use super::network::Way;
use super::work::Work;
use crate::session::agent::{AgentSession, Event, Identity, Local, News, Reply};
use crate::types::{Agent, Claim, Fence, IntentId, IntentKey, Micros, Time, Token, Window};
use crate::wire::{FrameReader, Role};

/// How a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Runs,
    /// It is stopped, and does nothing until then; what arrives waits for it.
    Stopped {
        until: u64,
    },
    /// It is no more.
    Dead,
}

/// See the module's documentation.
pub(super) struct Process {
    pub(super) name: Agent,
    pub(super) session: AgentSession,
    pub(super) clock: SimClock,
    pub(super) condition: Condition,
    pub(super) way: Way,
    /// The connection that it uses, or tries to.
    pub(super) link: Option<usize>,
    pub(super) frames: FrameReader,
    pub(super) work: Work,
    /// The true time of the timer that is set.
    pub(super) alarm: Option<u64>,
    /// The true time at which the next belief of it begins by itself, where that is awaited.
    pub(super) belief_due: Option<u64>,
    /// The true time since which nothing has disturbed it.
    pub(super) calm_since: u64,
    /// The true time at which it last went on after it had been stopped.
    pub(super) resumed_at: u64,
    /// Its clock, or the coordinator's, broke its promise; what it believes counts again after an
    /// exchange that began at this reading or later.
    pub(super) doubts: Option<u64>,
    /// The true time at which that last was so.
    pub(super) trusted_at: u64,
    /// The grants that its program was handed and that it was not told the end of.
    pub(super) in_hand: BTreeMap<IntentId, Token>,
    /// It was told that a newer process has its name.
    pub(super) is_replaced: bool,
}

/// A claim that an agent believes to have now.
pub(super) struct Belief<'a> {
    pub(super) key: IntentKey,
    pub(super) token: Token,
    pub(super) claim: &'a Claim,
    pub(super) window: Window,
}

impl Belief<'_> {
    pub(super) fn fence(&self) -> Fence {
        Fence { start: self.window.start(), token: self.token }
    }
}

impl Process {
    pub(super) fn new(name: &Agent, at: u64, dice: &mut Dice) -> Self {
        let incarnation = u128::from(dice.draw()) << 64 | u128::from(dice.draw());
        let identity = Identity {
            name: Some(name.as_str().to_owned()),
            label: "main".to_owned(),
            incarnation,
            role: Role::Agent,
            refuse_if_live: false,
            software: "sim".to_owned(),
            clock_bound: Micros::from_ms(100),
            bearer: None,
        };
        // A process counts from an origin of its own; its machine runs up to 99 millionths fast or slow.
        let fast_ppm = i64::try_from(dice.below(199)).unwrap_or(0) - 99;
        let clock = SimClock::new(at, dice.below(4_000_000), fast_ppm);
        Process {
            name: name.clone(),
            session: AgentSession::new(identity),
            clock,
            condition: Condition::Runs,
            way: Way::good(dice),
            link: None,
            frames: FrameReader::new(),
            work: Work::new(dice),
            alarm: None,
            belief_due: None,
            calm_since: at,
            resumed_at: at,
            trusted_at: at,
            doubts: None,
            in_hand: BTreeMap::new(),
            is_replaced: false,
        }
    }

    pub(super) fn local(&self, at: u64) -> Local {
        Local::from_us(self.clock.read(at))
    }

    pub(super) fn runs(&self) -> bool {
        self.condition == Condition::Runs
    }

    pub(super) fn is_dead(&self) -> bool {
        self.condition == Condition::Dead
    }

    /// The true time at which its session wants to be woken.
    pub(super) fn next_alarm(&self, at: u64) -> Option<u64> {
        let next = self.session.next_timeout(self.local(at))?;
        Some(self.clock.when(next.as_us()).max(at))
    }

    /// Takes in what the session tells the program.
    pub(super) fn hear(&mut self, event: &Event) {
        match event {
            Event::Reply { id, reply: Reply::Granted { token, .. }, .. }
                if self.session.held(*id).is_some() =>
            {
                self.in_hand.insert(*id, *token);
            }
            Event::News(News::Granted { id, token, .. } | News::Moved { id, token, .. }) => {
                self.in_hand.insert(*id, *token);
            }
            Event::News(News::Revised { id, token, .. }) => {
                self.in_hand.insert(*id, *token);
            }
            Event::News(News::Lost { id, .. }) => {
                self.in_hand.remove(id);
            }
            Event::News(News::Replaced) => self.is_replaced = true,
            _ => {}
        }
        self.work.hear(event);
    }

    /// The grants in its session's hands, with the windows that it has to take them for.
    fn held<'a>(&'a self, at: u64, ledger: &'a Ledger) -> impl Iterator<Item = Belief<'a>> {
        let now = self.local(at);
        let of_id = move |id: &IntentId| {
            let held = self.session.held(*id).filter(|_| !self.session.may_have_given_way(*id, now))?;
            let record = ledger.grants.get(&held.token)?;
            Some((*id, held, record))
        };
        self.work.ids().filter_map(of_id).flat_map(move |(id, held, record)| {
            let last = record.claims.iter().map(|claim| claim.window(held.start).end()).max();
            record.claims.iter().filter_map(move |claim| {
                let plain = claim.window(held.start);
                let end = if held.terms.hold && Some(plain.end()) == last { held.end } else { plain.end() };
                let window = Window::new(plain.start(), end)?;
                let key = IntentKey { agent: self.name.clone(), id };
                Some(Belief { key, token: held.token, claim, window })
            })
        })
    }

    /// What it believes to have at the true time `at`, and may act on: by its own clock each window
    /// has surely begun and cannot have ended.
    pub(super) fn beliefs<'a>(&'a self, at: u64, ledger: &'a Ledger) -> impl Iterator<Item = Belief<'a>> {
        let bounds = self.session.clock().bounds(self.local(at));
        let counts = !self.is_dead();
        self.held(at, ledger).filter(move |belief| {
            let holds = |bounds: &crate::session::agent::Bounds| {
                bounds.earliest >= belief.window.start() && bounds.latest < belief.window.end()
            };
            counts && bounds.as_ref().is_some_and(holds)
        })
    }

    /// The true time after `at` at which the next window of it begins by its own clock.
    pub(super) fn next_belief(&self, at: u64, ledger: &Ledger) -> Option<u64> {
        let local = self.local(at);
        let starts = self.held(at, ledger).filter_map(|belief| {
            let begins = self.session.clock().surely_is(belief.window.start(), local)?;
            Some(self.clock.when(begins.as_us()))
        });
        starts.filter(|start| *start > at).min()
    }

    /// Whether its bounds of the coordinator's time are what they promise: `None` before it has any.
    pub(super) fn is_right_about(&self, coordinator: Time, at: u64) -> Option<bool> {
        let bounds = self.session.clock().bounds(self.local(at))?;
        Some(bounds.earliest <= coordinator && coordinator <= bounds.latest)
    }
}
