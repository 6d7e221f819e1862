//! Declarations as they come from a socket or a file: the right types, any values.

use serde::{Deserialize, Serialize};

use super::grown::{grown, grown_lists, grown_option};
use super::{
    Claim, Class, Expect, Intent, IntentId, Micros, Mode, Path, Region, Shape, Start, Target, TaskId, Time,
};
use crate::limits;

/// A declaration before its values were looked at. [`RawIntent::parse`] makes an [`Intent`] of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RawIntent {
    /// See [`Intent::id`].
    pub id: u64,
    /// The start in µs since the Unix epoch; `None` means asap.
    pub start: Option<u64>,
    /// In µs.
    pub slack: u64,
    /// In µs.
    pub wait: u64,
    /// See [`Intent::hold`].
    pub hold: bool,
    /// See [`Intent::task`].
    pub task: u64,
    /// 0 to 7.
    pub class: u64,
    /// 0 to 1.
    pub urgency: f64,
    /// 0 to 1.
    pub safety_margin: f64,
    /// 0 to 1.
    pub social_value: f64,
    /// 1 to 64.
    #[serde(deserialize_with = "grown")]
    pub claims: Vec<RawClaim>,
    /// Up to 16.
    #[serde(deserialize_with = "grown")]
    pub expects: Vec<RawExpect>,
}

/// A claim before its values were looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RawClaim {
    /// What is used.
    pub target: RawTarget,
    /// How it is used.
    pub mode: RawMode,
    /// In µs from the intent's start.
    pub offset: u64,
    /// In µs, at least 1.
    pub duration: u64,
}

/// A target before its values were looked at. Coordinates are metres.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RawTarget {
    /// A path.
    Path(String),
    /// An axis-aligned box of 2 or 3 dimensions in a frame.
    Box {
        /// The path of the frame.
        frame: String,
        /// The least coordinate in each dimension.
        #[serde(deserialize_with = "grown")]
        min: Vec<f64>,
        /// The greatest coordinate in each dimension.
        #[serde(deserialize_with = "grown")]
        max: Vec<f64>,
    },
    /// A convex polygon in a frame.
    Polygon {
        /// The path of the frame.
        frame: String,
        /// 3 to 16 corners of two coordinates, once around in either direction.
        #[serde(deserialize_with = "grown_lists")]
        corners: Vec<Vec<f64>>,
        /// The least and greatest height; left out, it covers all heights.
        #[serde(deserialize_with = "grown_option")]
        height: Option<Vec<f64>>,
    },
}

/// A mode before its values were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RawMode {
    /// See [`Mode::Shared`].
    Shared,
    /// See [`Mode::Exclusive`].
    Exclusive,
    /// See [`Mode::Units`].
    Units(u64),
}

/// A reading before its values were looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RawExpect {
    /// The path that was read.
    pub path: String,
    /// In µs since the Unix epoch.
    pub as_of: u64,
}

/// A value outside its range: which field, and what it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The field, as in `claims[0].duration`.
    pub field: String,
    /// What the value may be, for people.
    pub expected: &'static str,
}

impl Invalid {
    /// The value of `field` is not what is `expected`.
    pub fn new(field: impl Into<String>, expected: &'static str) -> Self {
        Invalid { field: field.into(), expected }
    }
}

/// What a path may be, for people.
pub const PATH_RULE: &str = "a path of 1 to 16 segments of 1 to 64 bytes, 256 bytes in all, without \
     control characters, empty segments, `.`, `..`, `*` or `**`";

impl RawIntent {
    /// Looks at every value.
    ///
    /// # Errors
    /// The first value outside its range, in the order of the fields above.
    pub fn parse(&self) -> Result<Intent, Invalid> {
        let claims = self.parse_claims()?;
        let expects = self.parse_expects()?;
        Ok(Intent {
            id: IntentId::new(self.id),
            start: self.start.map_or(Start::Asap, |at| Start::At(Time::from_us(at))),
            slack: Micros::from_us(self.slack),
            wait: Micros::from_us(self.wait),
            hold: self.hold,
            task: TaskId::new(self.task),
            class: Class::new(self.class).ok_or_else(|| Invalid::new("class", "0 to 7"))?,
            urgency: unit_interval("urgency", self.urgency)?,
            safety_margin: unit_interval("safety_margin", self.safety_margin)?,
            social_value: unit_interval("social_value", self.social_value)?,
            claims: claims.into(),
            expects: expects.into(),
        })
    }

    fn parse_claims(&self) -> Result<Vec<Claim>, Invalid> {
        if self.claims.is_empty() || self.claims.len() > limits::CLAIMS {
            return Err(Invalid::new("claims", "1 to 64 claims"));
        }
        self.claims.iter().enumerate().map(|(at, claim)| claim.parse(at)).collect()
    }

    fn parse_expects(&self) -> Result<Vec<Expect>, Invalid> {
        if self.expects.len() > limits::EXPECTS {
            return Err(Invalid::new("expects", "up to 16 readings"));
        }
        let plain = self.start.is_none() && self.slack == 0 && self.wait == 0;
        if !self.expects.is_empty() && !plain {
            return Err(Invalid::new("expects", "none, unless the intent is asap without slack and wait"));
        }
        let parse = |(at, expect): (usize, &RawExpect)| {
            let path = Path::new(&expect.path)
                .ok_or_else(|| Invalid::new(format!("expects[{at}].path"), PATH_RULE))?;
            Ok(Expect { path, as_of: Time::from_us(expect.as_of) })
        };
        self.expects.iter().enumerate().map(parse).collect()
    }
}

impl RawClaim {
    fn parse(&self, at: usize) -> Result<Claim, Invalid> {
        let field = |name: &str| format!("claims[{at}].{name}");
        let target = self.target.parse(&field)?;
        let mode = match self.mode {
            RawMode::Shared => Mode::Shared,
            RawMode::Exclusive => Mode::Exclusive,
            RawMode::Units(units) => Mode::Units(units),
        };
        let (offset, duration) = (Micros::from_us(self.offset), Micros::from_us(self.duration));
        let claim = Claim { target, mode, offset, duration };
        claim.check().map_err(|(name, expected)| Invalid::new(field(name), expected))?;
        Ok(claim)
    }
}

impl RawTarget {
    fn parse(&self, field: &dyn Fn(&str) -> String) -> Result<Target, Invalid> {
        let path =
            |name: &str, text: &str| Path::new(text).ok_or_else(|| Invalid::new(field(name), PATH_RULE));
        let (frame, shape) = match self {
            RawTarget::Path(text) => return Ok(Target::Path(path("path", text)?)),
            RawTarget::Box { frame, min, max } => (path("frame", frame)?, Shape::from_box(min, max)),
            RawTarget::Polygon { frame, corners, height } => {
                (path("frame", frame)?, Shape::from_polygon(corners, height.as_deref()))
            }
        };
        let shape = shape.map_err(|bad| Invalid::new(field(&bad.field), bad.expected))?;
        Ok(Target::Region(Region { frame, shape }))
    }
}

fn unit_interval(field: &str, value: f64) -> Result<f64, Invalid> {
    // `+ 0.0` makes a negative zero positive, so that equal inputs have equal bits.
    if (0.0..=1.0).contains(&value) { Ok(value + 0.0) } else { Err(Invalid::new(field, "0 to 1")) }
}
