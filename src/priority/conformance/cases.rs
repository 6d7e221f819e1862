//! The arguments that models are asked about: ordinary ones, and the extremes that a declaration may
//! reach.

use std::fmt;
use std::sync::Arc;

use crate::limits;
use crate::priority::Context;
use crate::types::{
    Agent, Claim, Class, Expect, Intent, IntentId, Micros, Mode, Path, Region, Shape, Start, Target, TaskId,
    Time,
};

/// Arguments of one score.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) intent: Intent,
    /// Whether every model should give a finite score here.
    pub(super) is_ordinary: bool,
    agent: Agent,
    arrival: Time,
    waited: Micros,
    now: Time,
    earliest: Time,
    held: Micros,
}

impl Case {
    pub(super) fn context(&self) -> Context<'_> {
        Context {
            agent: &self.agent,
            arrival: self.arrival,
            waited: self.waited,
            now: self.now,
            earliest: self.earliest,
            held: self.held,
        }
    }
}

impl fmt::Display for Case {
    /// The arguments that models look at most; all of them would be a screenful.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let it = &self.intent;
        let kind = if self.is_ordinary { "ordinary" } else { "extreme" };
        write!(f, "{kind} arguments: urgency {}, safety_margin {}", it.urgency, it.safety_margin)?;
        write!(f, ", social_value {}, class {}", it.social_value, it.class.number())?;
        write!(f, ", {} claim(s), ", it.claims.len())?;
        match it.start {
            Start::Asap => write!(f, "start asap")?,
            Start::At(start) => write!(f, "start {} µs", start.as_us())?,
        }
        write!(f, ", slack {} µs, wait {} µs", it.slack.as_us(), it.wait.as_us())?;
        write!(f, ", arrival {} µs, waited {} µs", self.arrival.as_us(), self.waited.as_us())?;
        write!(f, ", now {} µs, held {} µs", self.now.as_us(), self.held.as_us())
    }
}

/// Every case, the ordinary ones first; equal from call to call, and never in the same place in memory.
pub(super) fn all() -> Vec<Case> {
    let plain = plain();
    let mut cases = vec![plain.clone()];
    cases.extend(inputs().into_iter().map(|inputs| with_inputs(&plain, inputs)));
    cases.extend(ordinary_intents(&plain));
    cases.extend(ordinary_contexts(&plain));
    let extremes = extreme_times(&plain).into_iter().chain(extreme_intents(&plain));
    cases.extend(extremes.map(|case| Case { is_ordinary: false, ..case }));
    cases
}

/// An agent that asks for one path, now, of class 0: what most declarations look like.
fn plain() -> Case {
    let arrival = Time::from_us(1_800_000_000_001_200);
    let now = Time::from_us(1_800_000_000_010_000);
    Case {
        intent: Intent {
            id: IntentId::new(1),
            start: Start::Asap,
            slack: Micros::ZERO,
            wait: Micros::ZERO,
            hold: false,
            task: TaskId::new(0),
            class: Class::default(),
            urgency: 0.5,
            safety_margin: 0.5,
            social_value: 0.5,
            claims: claims(1),
            expects: Vec::new().into(),
        },
        is_ordinary: true,
        agent: agent("car-7"),
        arrival,
        waited: now.since(arrival),
        now,
        earliest: now,
        held: Micros::ZERO,
    }
}

/// Priority inputs at both ends, beside them, and between.
fn inputs() -> Vec<[f64; 3]> {
    let ends = [0.0, 1.0];
    let corners = ends.iter().flat_map(|u| ends.iter().flat_map(move |s| ends.map(|v| [*u, *s, v])));
    // The smallest double above 0, the greatest below 1, and two that binary cannot write.
    let odd = [f64::from_bits(1), 1.0 - f64::EPSILON / 2.0, 0.1, 1.0 / 3.0];
    corners.chain(odd.into_iter().map(|value| [value; 3])).collect()
}

fn with_inputs(case: &Case, [urgency, safety_margin, social_value]: [f64; 3]) -> Case {
    let mut case = case.clone();
    case.intent = Intent { urgency, safety_margin, social_value, ..case.intent };
    case
}

fn ordinary_intents(plain: &Case) -> Vec<Case> {
    let with = |change: &dyn Fn(&mut Intent)| {
        let mut case = plain.clone();
        change(&mut case.intent);
        case
    };
    let mut cases = vec![
        with(&|it| it.hold = true),
        with(&|it| it.start = Start::At(plain.now.after(Micros::from_secs(1)))),
        with(&|it| {
            it.start = Start::At(plain.now.after(Micros::from_secs(3600)));
            it.slack = Micros::from_secs(60);
        }),
        with(&|it| it.wait = Micros::from_secs(30)),
        with(&|it| it.expects = expects(1)),
    ];
    cases.extend((1..=limits::CLASS_MAX).filter_map(|number| {
        let class = Class::new(number.into())?;
        Some(with(&|it| it.class = class))
    }));
    cases.extend([2, 3, limits::CLAIMS].map(|count| with(&|it| it.claims = claims(count))));
    cases
}

fn ordinary_contexts(plain: &Case) -> Vec<Case> {
    let spans = [Micros::from_us(1), Micros::from_ms(10), Micros::from_secs(1), Micros::from_secs(60)];
    let waited = spans.map(|waited| Case {
        waited,
        arrival: plain.now.before(waited),
        intent: Intent { wait: Micros::from_secs(120), ..plain.intent.clone() },
        ..plain.clone()
    });
    let held = spans.map(|held| Case { held, ..plain.clone() });
    let others = ["amb-1", "spiffe://example.org/robot/17", "ж"];
    let named = others.map(|name| Case { agent: agent(name), ..plain.clone() });
    waited.into_iter().chain(held).chain(named).collect()
}

/// Times at both ends of what can be written.
fn extreme_times(plain: &Case) -> Vec<Case> {
    let at = |arrival: Time, now: Time| Case {
        arrival,
        now,
        waited: now.since(arrival),
        earliest: now,
        ..plain.clone()
    };
    let intent = |change: &dyn Fn(&mut Intent)| {
        let mut case = plain.clone();
        change(&mut case.intent);
        case
    };
    vec![
        at(Time::ZERO, Time::ZERO),
        at(Time::ZERO, Time::MAX),
        at(Time::MAX, Time::MAX),
        Case { earliest: Time::MAX, ..plain.clone() },
        Case { held: Micros::MAX, ..plain.clone() },
        intent(&|it| it.start = Start::At(Time::ZERO)),
        intent(&|it| it.start = Start::At(Time::MAX)),
        intent(&|it| it.slack = Micros::MAX),
        intent(&|it| it.wait = Micros::MAX),
        intent(&|it| (it.start, it.slack) = (Start::At(Time::MAX), Micros::MAX)),
        Case {
            intent: Intent { wait: Micros::MAX, slack: Micros::MAX, ..plain.intent.clone() },
            held: Micros::MAX,
            ..at(Time::ZERO, Time::MAX)
        },
    ]
}

/// Counts, names and ids at their limits.
fn extreme_intents(plain: &Case) -> Vec<Case> {
    let mut full = plain.clone();
    full.intent = Intent {
        id: IntentId::new(u64::MAX),
        task: TaskId::new(u64::MAX),
        class: Class::new(limits::CLASS_MAX.into()).unwrap_or_default(),
        hold: true,
        claims: claims(limits::CLAIMS),
        expects: expects(limits::EXPECTS),
        ..plain.intent.clone()
    };
    full.agent = agent(&"n".repeat(limits::AGENT_BYTES));
    let mut longest = plain.clone();
    longest.intent.claims = claims(1)
        .iter()
        .map(|claim| Claim { mode: Mode::Units(u64::MAX), duration: Micros::MAX, ..claim.clone() })
        .collect();
    let mut negative = with_inputs(plain, [-0.0; 3]);
    negative.intent.id = IntentId::new(0);
    vec![full, longest, negative]
}

/// That many claims, of each kind of target and mode in turn.
fn claims(count: usize) -> Arc<[Claim]> {
    let modes = [Mode::Exclusive, Mode::Shared, Mode::Units(3)];
    let claim = |index: usize| {
        let mode = modes[index % modes.len()];
        let target = match (index % 4, shape()) {
            // Regions take no units.
            (3, Some(shape)) if !matches!(mode, Mode::Units(_)) => {
                Target::Region(Region { frame: path("map/junction"), shape })
            }
            _ => Target::Path(path(&format!("dock/{index}"))),
        };
        let offset = Micros::from_ms(index as u64);
        Claim { target, mode, offset, duration: Micros::from_ms(20) }
    };
    (0..count).map(claim).collect()
}

fn shape() -> Option<Shape> {
    Shape::from_box(&[0.0, 0.0], &[4.0, 2.0]).ok()
}

fn expects(count: usize) -> Arc<[Expect]> {
    let expect = |index: usize| Expect { path: path(&format!("db/users/{index}")), as_of: Time::ZERO };
    (0..count).map(expect).collect()
}

fn agent(name: &str) -> Agent {
    Agent::new(name).unwrap_or_else(|| unreachable!("{name} is an agent's name"))
}

fn path(text: &str) -> Path {
    Path::new(text).unwrap_or_else(|| unreachable!("{text} is a path"))
}
