//! Intents as an agent writes them down, and the small words for it.

use std::fmt;
use std::time::{Duration, Instant};

use crate::types::{
    IntentId, Micros, Path, RawClaim, RawExpect, RawIntent, RawMode, RawTarget, Time, TraceContext,
};

/// `secs` seconds.
pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// `millis` milliseconds.
pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The place that `text` names: a node of the tree of names and everything below it.
///
/// # Errors
/// Where the text is no path: 1 to 16 segments of 1 to 64 bytes with `/` between them, 256 bytes in
/// all, no control characters, no segment that is empty, `.`, `..`, `*` or `**`.
pub fn path(text: &str) -> Result<Place, InvalidPath> {
    Path::new(text).map(Place).ok_or_else(|| InvalidPath { text: text.chars().take(300).collect() })
}

/// A text that is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no path: 1 to 16 segments of 1 to 64 bytes with `/` between them, 256 bytes in all, without \
     control characters, empty segments, `.`, `..`, `*` or `**`"
)]
pub struct InvalidPath {
    text: String,
}

/// A path, about to be claimed in one of three modes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(Path);

impl Place {
    /// Alone.
    pub fn exclusive(self) -> Use {
        self.used(RawMode::Exclusive)
    }

    /// Beside other shared claims.
    pub fn shared(self) -> Use {
        self.used(RawMode::Shared)
    }

    /// `units`, at least 1, out of its capacity and that of each ancestor that has one.
    pub fn units(self, units: u64) -> Use {
        self.used(RawMode::Units(units))
    }

    /// An axis-aligned box, in metres, in the frame of that path; with two coordinates it covers all
    /// heights.
    pub fn area<const N: usize>(self, min: [f64; N], max: [f64; N]) -> Area {
        Area(RawTarget::Box { frame: self.0.as_str().into(), min: min.into(), max: max.into() })
    }

    /// A convex polygon of 3 to 16 corners, in metres, in the frame of that path. It covers all
    /// heights; see [`Area::between`].
    pub fn polygon(self, corners: impl IntoIterator<Item = [f64; 2]>) -> Area {
        let corners = corners.into_iter().map(Vec::from).collect();
        Area(RawTarget::Polygon { frame: self.0.as_str().into(), corners, height: None })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn used(self, mode: RawMode) -> Use {
        Use { target: RawTarget::Path(self.0.as_str().into()), mode }
    }
}

impl From<Path> for Place {
    fn from(path: Path) -> Self {
        Place(path)
    }
}

/// A region, about to be claimed in one of two modes.
#[derive(Clone, Debug, PartialEq)]
pub struct Area(RawTarget);

impl Area {
    /// Only heights from `least` to `most`, in metres.
    #[must_use]
    pub fn between(mut self, least: f64, most: f64) -> Self {
        match &mut self.0 {
            RawTarget::Polygon { height, .. } => *height = Some(vec![least, most]),
            RawTarget::Box { min, max, .. } => {
                min.truncate(2);
                max.truncate(2);
                min.push(least);
                max.push(most);
            }
            RawTarget::Path(_) => {}
        }
        self
    }

    /// Alone.
    pub fn exclusive(self) -> Use {
        Use { target: self.0, mode: RawMode::Exclusive }
    }

    /// Beside other shared claims.
    pub fn shared(self) -> Use {
        Use { target: self.0, mode: RawMode::Shared }
    }
}

/// What is used, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    target: RawTarget,
    mode: RawMode,
}

impl Use {
    /// What `target` and `mode` say, unchecked: the coordinator rejects what is out of range.
    pub fn new(target: RawTarget, mode: RawMode) -> Self {
        Use { target, mode }
    }
}

/// A time, either by the agent's own clock or by the coordinator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// By the agent's own clock; it is converted when the intent is declared.
    Here(Instant),
    /// By the coordinator's, such as an offer.
    There(Time),
}

impl From<Instant> for When {
    fn from(at: Instant) -> Self {
        When::Here(at)
    }
}

impl From<Time> for When {
    fn from(at: Time) -> Self {
        When::There(at)
    }
}

/// An intent to declare: what will be used, and when. What is left out has the contract's default.
///
/// Its own claims never conflict with each other, but two intents of one agent do, as those of two agents
/// would: to change one that is granted, [revise](super::Grant::revise) it. Windows are half-open, so the next
/// one may start right at the end of the one before.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use preclaim::{Intent, millis, path, secs};
///
/// let intent = Intent::asap()
///     .claim(path("aisle/4")?.exclusive(), secs(6))
///     .claim(path("stock/sku-1")?.units(2), secs(6))
///     .slack(secs(2))
///     .wait(millis(80))
///     .urgency(0.7);
/// # let _ = intent;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    pub(super) start: Option<When>,
    pub(super) id: Option<IntentId>,
    pub(super) revision: bool,
    pub(super) note: String,
    pub(super) trace: Option<TraceContext>,
    /// All but the id and the start.
    pub(super) raw: RawIntent,
}

impl Intent {
    /// It starts as soon as the slot that decides it, or later by up to [`Intent::slack`].
    pub fn asap() -> Self {
        let (note, raw) = (String::new(), RawIntent::default());
        Intent { start: None, id: None, revision: false, note, trace: None, raw }
    }

    /// It starts at `start`, or later by up to [`Intent::slack`].
    pub fn at(start: impl Into<When>) -> Self {
        Intent { start: Some(start.into()), ..Intent::asap() }
    }

    /// Also uses `what`, for `duration` from the intent's start. Up to 64 claims, granted together or
    /// not at all.
    #[must_use]
    pub fn claim(self, what: Use, duration: Duration) -> Self {
        self.claim_after(Duration::ZERO, what, duration)
    }

    /// Also uses `what`, for `duration` from `offset` after the intent's start.
    #[must_use]
    pub fn claim_after(mut self, offset: Duration, what: Use, duration: Duration) -> Self {
        let (offset, duration) = (micros(offset), micros(duration));
        self.raw.claims.push(RawClaim { target: what.target, mode: what.mode, offset, duration });
        self
    }

    /// The start may be later by up to `slack`.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Self {
        self.raw.slack = micros(slack);
        self
    }

    /// It may stay undecided for `wait` before it ends as a conflict.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.raw.wait = micros(wait);
        self
    }

    /// It is a lease: renewed at a third of its time for as long as its [`super::Grant`] lives, or until somebody has
    /// been granted a later window on what it holds: from then on its end stands ([`super::Event::RenewalDenied`],
    /// [`super::Lost::NotRenewed`]). So let it be as long as the longest piece of work that must not be cut off. Whoever
    /// waits ([`Intent::wait`]) stands in no renewal's way. Of several claims those that end last are renewed; the others
    /// end as declared.
    #[must_use]
    pub fn lease(mut self) -> Self {
        self.raw.hold = true;
        self
    }

    /// Which of several things that the agent does at once it is for; leases and waits of one task
    /// never deadlock with each other.
    #[must_use]
    pub fn task(mut self, task: u64) -> Self {
        self.raw.task = task;
        self
    }

    /// 0 to 7; the highest class goes first.
    #[must_use]
    pub fn class(mut self, class: u8) -> Self {
        self.raw.class = class.into();
        self
    }

    /// Priority input, 0 to 1.
    #[must_use]
    pub fn urgency(mut self, urgency: f64) -> Self {
        self.raw.urgency = urgency;
        self
    }

    /// Priority input, 0 to 1; a small margin is a reason to go first.
    #[must_use]
    pub fn safety_margin(mut self, safety_margin: f64) -> Self {
        self.raw.safety_margin = safety_margin;
        self
    }

    /// Priority input, 0 to 1.
    #[must_use]
    pub fn social_value(mut self, social_value: f64) -> Self {
        self.raw.social_value = social_value;
        self
    }

    /// It rests on a reading of `place` made at or after `as_of` (see [`super::Client::reading`]): it ends
    /// as stale where somebody may have written there since. Only for an asap intent without slack
    /// and wait.
    #[must_use]
    pub fn expect(mut self, place: impl Into<Place>, as_of: Time) -> Self {
        let path = place.into().0.as_str().to_owned();
        self.raw.expects.push(RawExpect { path, as_of: as_of.as_us() });
        self
    }

    /// For people, up to 128 bytes: what for, who, a link. Others see it; it decides nothing.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Where it stands in a trace: what the coordinator does for it is recorded there too, where that is sampled and the
    /// coordinator exports traces. It decides nothing. With the feature `otlp` the span that is current where it is
    /// declared stands in for it. [`TraceContext::parse`] reads one from headers or from the environment.
    #[must_use]
    pub fn trace_context(mut self, context: TraceContext) -> Self {
        self.trace = Some(context);
        self
    }

    /// Its id, unique within the agent's name. Left out, a fresh one is drawn. To ask again after
    /// [`super::DeclareError::Unknown`], declare the same content under the id that it names.
    #[must_use]
    pub fn id(mut self, id: impl Into<IntentId>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// It takes the place of what `id` stands for: for a grant in hand there is [`super::Grant::revise`].
    #[must_use]
    pub fn revises(mut self, id: impl Into<IntentId>) -> Self {
        self.revision = true;
        self.id(id)
    }

    /// A copy of what was read from somewhere else, under its own id.
    pub fn from_raw(raw: RawIntent) -> Self {
        let start = raw.start.map(|at| When::There(Time::from_us(at)));
        Intent { start, id: Some(IntentId::new(raw.id)), raw, ..Intent::asap() }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::Here(at) => write!(f, "{at:?}"),
            When::There(at) => write!(f, "{} µs", at.as_us()),
        }
    }
}

fn micros(span: Duration) -> u64 {
    Micros::from(span).as_us()
}
