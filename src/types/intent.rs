//! Intents: what an agent declares before it acts.

use std::sync::Arc;

use super::{Class, IntentId, Invalid, Micros, Path, Target, TaskId, Time, Window};
use crate::limits;

/// How a claim uses its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Fine beside other shared claims, and nothing else.
    Shared,
    /// Alone.
    Exclusive,
    /// Takes this many units, at least 1, out of each capacity on the path and above it.
    Units(u64),
}

impl Mode {
    /// How many kinds of mode there are.
    pub(crate) const KINDS: usize = 3;

    /// Which kind it is, as an index.
    pub(crate) fn kind(self) -> usize {
        match self {
            Mode::Shared => 0,
            Mode::Exclusive => 1,
            Mode::Units(_) => Self::UNITS,
        }
    }

    /// The kind of [`Mode::Units`].
    pub(crate) const UNITS: usize = 2;

    /// Which kinds of others conflict with it on related targets (units with units go by capacity).
    pub(crate) fn kinds_against(self) -> &'static [usize] {
        match self {
            Mode::Shared => &[1, 2],
            Mode::Exclusive => &[0, 1, 2],
            Mode::Units(_) => &[0, 1],
        }
    }
}

/// One thing that an intent will use: a target, a mode, and a window relative to the intent's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What is used.
    pub target: Target,
    /// How it is used.
    pub mode: Mode,
    /// From the intent's start to the start of this claim's window.
    pub offset: Micros,
    /// How long the window lasts; at least 1 µs.
    pub duration: Micros,
}

impl Claim {
    /// The claim's window for an intent that starts at `start`. Instants that cannot be written
    /// saturate, and a window is never empty.
    pub fn window(&self, start: Time) -> Window {
        let opens = start.after(self.offset).min(Time::from_us(u64::MAX - 1));
        let shuts = opens.after(self.duration);
        Window::new(opens, shuts).unwrap_or_else(|| unreachable!("a duration is at least 1 µs"))
    }
}

/// When an intent starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// As soon as the slot that decides it.
    Asap,
    /// At this time, or later by up to the slack.
    At(Time),
}

/// A reading that an intent rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    /// The path whose state was read.
    pub path: Path,
    /// The reading was made at or after this time.
    pub as_of: Time,
}

/// A valid intent, as it was declared, defaults filled in. Equality is equality of content: it
/// decides whether a declaration has been sent twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// Unique within its agent.
    pub id: IntentId,
    /// When it starts, before the claims' offsets.
    pub start: Start,
    /// How much later the start may be moved.
    pub slack: Micros,
    /// How long after its arrival it may stay undecided.
    pub wait: Micros,
    /// Whether it is a lease, whose latest-ending claims may be renewed.
    pub hold: bool,
    /// What the agent is doing.
    pub task: TaskId,
    /// The class; the highest goes first.
    pub class: Class,
    /// Priority input, 0 to 1.
    pub urgency: f64,
    /// Priority input, 0 to 1; a small margin is a reason to go first.
    pub safety_margin: f64,
    /// Priority input, 0 to 1.
    pub social_value: f64,
    /// 1 to [`crate::limits::CLAIMS`] claims, granted together or not at all.
    pub claims: Arc<[Claim]>,
    /// Up to [`crate::limits::EXPECTS`] readings that it rests on.
    pub expects: Arc<[Expect]>,
}

impl Intent {
    /// Looks at what the types of the fields do not say by themselves, as
    /// [`RawIntent::parse`](super::RawIntent::parse) does.
    ///
    /// # Errors
    /// The first value outside its range.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.claims.is_empty() || self.claims.len() > limits::CLAIMS {
            return Err(Invalid::new("claims", "1 to 64 claims"));
        }
        for (at, claim) in self.claims.iter().enumerate() {
            claim
                .check()
                .map_err(|(name, expected)| Invalid::new(format!("claims[{at}].{name}"), expected))?;
        }
        if self.expects.len() > limits::EXPECTS {
            return Err(Invalid::new("expects", "up to 16 readings"));
        }
        let plain = self.start == Start::Asap && self.slack == Micros::ZERO && self.wait == Micros::ZERO;
        if !self.expects.is_empty() && !plain {
            return Err(Invalid::new("expects", "none, unless the intent is asap without slack and wait"));
        }
        let inputs = [
            ("urgency", self.urgency),
            ("safety_margin", self.safety_margin),
            ("social_value", self.social_value),
        ];
        match inputs.into_iter().find(|(_, input)| !(0.0..=1.0).contains(input)) {
            Some((name, _)) => Err(Invalid::new(name, "0 to 1")),
            None => Ok(()),
        }
    }
}

impl Claim {
    /// The name of the first field that is wrong, and what it may be.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        match (self.mode, &self.target) {
            (Mode::Units(0), _) => Err(("mode", "at least 1 unit")),
            (Mode::Units(_), Target::Region(_)) => Err(("mode", "shared or exclusive, for a region")),
            _ if self.duration == Micros::ZERO => Err(("duration", "at least 1 µs")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{RawClaim, RawExpect, RawIntent, RawMode, RawTarget};

    fn valid(target: RawTarget) -> (RawIntent, Intent) {
        let claim = RawClaim { target, mode: RawMode::Shared, offset: 0, duration: 5 };
        let raw = RawIntent { id: 1, claims: vec![claim.clone(), claim], ..RawIntent::default() };
        let intent = raw.parse().unwrap();
        (raw, intent)
    }

    type Spoiler = Box<dyn Fn(&mut RawIntent)>;

    #[test]
    fn a_check_finds_what_parsing_finds() {
        let claims =
            |change: fn(&mut RawClaim)| move |raw: &mut RawIntent| change(raw.claims.last_mut().unwrap());
        let read = |raw: &mut RawIntent| raw.expects = vec![RawExpect { path: "p".into(), as_of: 3 }; 16];
        let spoilers: Vec<Spoiler> = vec![
            Box::new(|raw| raw.claims.clear()),
            Box::new(|raw| raw.claims = vec![raw.claims[0].clone(); limits::CLAIMS]),
            Box::new(|raw| raw.claims = vec![raw.claims[0].clone(); limits::CLAIMS + 1]),
            Box::new(claims(|claim| claim.mode = RawMode::Units(0))),
            Box::new(claims(|claim| claim.mode = RawMode::Units(1))),
            Box::new(claims(|claim| claim.duration = 0)),
            Box::new(read),
            Box::new(move |raw| {
                read(raw);
                raw.expects.push(raw.expects[0].clone());
            }),
            Box::new(move |raw| {
                read(raw);
                raw.start = Some(0);
            }),
            Box::new(move |raw| {
                read(raw);
                raw.slack = 1;
            }),
            Box::new(move |raw| {
                read(raw);
                raw.wait = 1;
            }),
            Box::new(|raw| raw.urgency = 1.5),
            Box::new(|raw| raw.safety_margin = -0.1),
            Box::new(|raw| raw.social_value = f64::NAN),
        ];
        let region = RawTarget::Box { frame: "f".into(), min: vec![0.0; 2], max: vec![1.0; 2] };
        for target in [RawTarget::Path("p".into()), region] {
            for spoil in &spoilers {
                let (mut raw, _) = valid(target.clone());
                spoil(&mut raw);
                assert_eq!(of_raw(&raw).check().err(), raw.parse().err());
            }
        }
    }

    /// The intent of the same values, without a look at them.
    fn of_raw(raw: &RawIntent) -> Intent {
        let target = raw.claims.first().map(|claim| claim.target.clone());
        let (_, intent) = valid(target.unwrap_or(RawTarget::Path("p".into())));
        let claim = |raw: &RawClaim| Claim {
            mode: match raw.mode {
                RawMode::Shared => Mode::Shared,
                RawMode::Exclusive => Mode::Exclusive,
                RawMode::Units(units) => Mode::Units(units),
            },
            duration: Micros::from_us(raw.duration),
            ..intent.claims[0].clone()
        };
        let expect =
            |raw: &RawExpect| Expect { path: Path::new(&raw.path).unwrap(), as_of: Time::from_us(raw.as_of) };
        Intent {
            claims: raw.claims.iter().map(claim).collect(),
            expects: raw.expects.iter().map(expect).collect(),
            start: raw.start.map_or(Start::Asap, |at| Start::At(Time::from_us(at))),
            slack: Micros::from_us(raw.slack),
            wait: Micros::from_us(raw.wait),
            urgency: raw.urgency,
            safety_margin: raw.safety_margin,
            social_value: raw.social_value,
            ..intent
        }
    }
}
