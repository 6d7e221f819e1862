//! Intents, claims and shapes; and declarations that were refused for a value.

use super::read::{Read, wrong_at};
use super::{Reader, Writer};
use crate::limits;
use crate::types::{
    Claim, Class, Expect, HeightRange, Intent, IntentId, Micros, Mode, Outline, Point, RawClaim, RawExpect,
    RawIntent, RawMode, RawTarget, Region, Shape, Start, Target, TaskId, Time, Window,
};

/// What of an intent stands here; the rest has its default.
mod has {
    pub(super) const START: u64 = 1;
    pub(super) const SLACK: u64 = 1 << 1;
    pub(super) const WAIT: u64 = 1 << 2;
    pub(super) const HOLD: u64 = 1 << 3;
    pub(super) const TASK: u64 = 1 << 4;
    pub(super) const CLASS: u64 = 1 << 5;
    pub(super) const URGENCY: u64 = 1 << 6;
    pub(super) const SAFETY_MARGIN: u64 = 1 << 7;
    pub(super) const SOCIAL_VALUE: u64 = 1 << 8;
    pub(super) const EXPECTS: u64 = 1 << 9;
    pub(super) const ALL: u64 = (1 << 10) - 1;
}

mod target {
    pub(super) const PATH: u8 = 0;
    pub(super) const BOX: u8 = 1;
    pub(super) const HIGH_BOX: u8 = 2;
    pub(super) const POLYGON: u8 = 3;
    pub(super) const HIGH_POLYGON: u8 = 4;
    /// The bits of a claim's first byte that hold these.
    pub(super) const BITS: u8 = 7;
}

mod mode {
    pub(super) const SHARED: u8 = 0;
    pub(super) const EXCLUSIVE: u8 = 1;
    pub(super) const UNITS: u8 = 2;
    /// The mode stands above the target.
    pub(super) const SHIFT: u8 = 3;
    pub(super) const BITS: u8 = 3;
}

/// Set in a claim's first byte where an offset follows.
const OFFSET: u8 = 1 << 5;
/// The bits of a claim's first byte that mean something.
const CLAIM_BITS: u8 = (1 << 6) - 1;

/// What is common to an intent and to a declaration of any values.
#[derive(Clone, Copy)]
struct Scalars {
    start: Option<u64>,
    slack: u64,
    wait: u64,
    hold: bool,
    task: u64,
    class: u64,
    inputs: [f64; 3],
    expects: bool,
}

impl Writer<'_> {
    /// All but the id, which its key has.
    pub(super) fn intent(&mut self, intent: &Intent) {
        let Intent {
            id: _,
            start,
            slack,
            wait,
            hold,
            task,
            class,
            urgency,
            safety_margin,
            social_value,
            claims,
            expects,
        } = intent;
        self.scalars(&Scalars {
            start: match start {
                Start::Asap => None,
                Start::At(time) => Some(time.as_us()),
            },
            slack: slack.as_us(),
            wait: wait.as_us(),
            hold: *hold,
            task: task.number(),
            class: u64::from(class.number()),
            inputs: [*urgency, *safety_margin, *social_value],
            expects: !expects.is_empty(),
        });
        self.list(claims, Self::claim);
        if !expects.is_empty() {
            self.list(expects, |writer, expect| {
                writer.path(&expect.path);
                writer.time(expect.as_of);
            });
        }
    }

    fn scalars(&mut self, it: &Scalars) {
        let inputs = it.inputs.map(|input| input.to_bits() != 0);
        let flags = [
            (it.start.is_some(), has::START),
            (it.slack != 0, has::SLACK),
            (it.wait != 0, has::WAIT),
            (it.hold, has::HOLD),
            (it.task != 0, has::TASK),
            (it.class != 0, has::CLASS),
            (inputs[0], has::URGENCY),
            (inputs[1], has::SAFETY_MARGIN),
            (inputs[2], has::SOCIAL_VALUE),
            (it.expects, has::EXPECTS),
        ];
        self.number(flags.iter().map(|(is_set, flag)| u64::from(*is_set) * flag).sum());
        if let Some(start) = it.start {
            self.time(Time::from_us(start));
        }
        for number in [it.slack, it.wait, it.task, it.class] {
            if number != 0 {
                self.number(number);
            }
        }
        for input in it.inputs {
            if input.to_bits() != 0 {
                self.float(input);
            }
        }
    }

    fn claim(&mut self, claim: &Claim) {
        let Claim { target, mode, offset, duration } = claim;
        let target_kind = match target {
            Target::Path(_) => target::PATH,
            Target::Region(Region { shape, .. }) => match (shape.outline(), shape.height()) {
                (Outline::Box { .. }, None) => target::BOX,
                (Outline::Box { .. }, Some(_)) => target::HIGH_BOX,
                (Outline::Polygon(_), None) => target::POLYGON,
                (Outline::Polygon(_), Some(_)) => target::HIGH_POLYGON,
            },
        };
        let mode_kind = match mode {
            Mode::Shared => mode::SHARED,
            Mode::Exclusive => mode::EXCLUSIVE,
            Mode::Units(_) => mode::UNITS,
        };
        let has_offset = u8::from(*offset != Micros::ZERO) * OFFSET;
        self.byte(target_kind | (mode_kind << mode::SHIFT) | has_offset);
        self.path(target.path());
        if let Target::Region(region) = target {
            self.shape(&region.shape);
        }
        if let Mode::Units(units) = mode {
            self.number(*units);
        }
        if *offset != Micros::ZERO {
            self.number(offset.as_us());
        }
        self.number(duration.as_us());
    }

    fn shape(&mut self, shape: &Shape) {
        match shape.outline() {
            Outline::Box { min, max } => {
                self.point(Point { x_um: 0, y_um: 0 }, *min);
                self.point(*min, *max);
            }
            Outline::Polygon(corners) => {
                self.count(corners.len());
                let mut from = Point { x_um: 0, y_um: 0 };
                for corner in corners.iter() {
                    self.point(from, *corner);
                    from = *corner;
                }
            }
        }
        if let Some(HeightRange { min_um, max_um }) = shape.height() {
            self.signed(min_um);
            self.step(min_um.cast_unsigned(), max_um.cast_unsigned());
        }
    }

    fn point(&mut self, from: Point, to: Point) {
        self.step(from.x_um.cast_unsigned(), to.x_um.cast_unsigned());
        self.step(from.y_um.cast_unsigned(), to.y_um.cast_unsigned());
    }

    /// All but the id, which its key has.
    pub(super) fn raw_intent(&mut self, raw: &RawIntent) {
        let RawIntent {
            id: _,
            start,
            slack,
            wait,
            hold,
            task,
            class,
            urgency,
            safety_margin,
            social_value,
            claims,
            expects,
        } = raw;
        self.scalars(&Scalars {
            start: *start,
            slack: *slack,
            wait: *wait,
            hold: *hold,
            task: *task,
            class: *class,
            inputs: [*urgency, *safety_margin, *social_value],
            expects: !expects.is_empty(),
        });
        self.list(claims, Self::raw_claim);
        if !expects.is_empty() {
            self.list(expects, |writer, RawExpect { path, as_of }| {
                writer.path_text(path);
                writer.number(*as_of);
            });
        }
    }

    /// What stands where a path must.
    fn path_text(&mut self, text: &str) {
        let kept = self.kept.path(text);
        self.text(kept);
    }

    fn raw_claim(&mut self, claim: &RawClaim) {
        let RawClaim { target, mode, offset, duration } = claim;
        match target {
            RawTarget::Path(path) => {
                self.byte(target::PATH);
                self.path_text(path);
            }
            RawTarget::Box { frame, min, max } => {
                self.byte(target::BOX);
                self.path_text(frame);
                self.floats(min);
                self.floats(max);
            }
            RawTarget::Polygon { frame, corners, height } => {
                self.byte(if height.is_some() { target::HIGH_POLYGON } else { target::POLYGON });
                self.path_text(frame);
                self.list(corners, |writer, corner| writer.floats(corner));
                if let Some(height) = height {
                    self.floats(height);
                }
            }
        }
        match mode {
            RawMode::Shared => self.byte(mode::SHARED),
            RawMode::Exclusive => self.byte(mode::EXCLUSIVE),
            RawMode::Units(units) => {
                self.byte(mode::UNITS);
                self.number(*units);
            }
        }
        self.number(*offset);
        self.number(*duration);
    }

    fn floats(&mut self, floats: &[f64]) {
        self.list(floats, |writer, float| writer.float(*float));
    }
}

impl Reader<'_> {
    /// A valid intent of that id.
    pub(super) fn intent(&mut self, id: IntentId) -> Read<Intent> {
        let at = self.place();
        let it = self.scalars()?;
        let claims = self.list(limits::CLAIMS, Self::claim)?;
        let expect = |reader: &mut Self| Ok(Expect { path: reader.path()?, as_of: reader.time()? });
        let expects = if it.expects { self.list(limits::EXPECTS, expect)? } else { Vec::new() };
        let class = Class::new(it.class).ok_or_else(|| wrong_at(at, "a class above 7"))?;
        let [urgency, safety_margin, social_value] = it.inputs;
        let intent = Intent {
            id,
            start: it.start.map_or(Start::Asap, |start| Start::At(Time::from_us(start))),
            slack: Micros::from_us(it.slack),
            wait: Micros::from_us(it.wait),
            hold: it.hold,
            task: TaskId::new(it.task),
            class,
            urgency,
            safety_margin,
            social_value,
            claims: claims.into(),
            expects: expects.into(),
        };
        intent.check().map_err(|why| wrong_at(at, why.expected))?;
        Ok(intent)
    }

    fn scalars(&mut self) -> Read<Scalars> {
        let at = self.place();
        let flags = self.number()?;
        if flags & !has::ALL != 0 {
            return Err(wrong_at(at, "a flag that is not known"));
        }
        let is_set = |flag| flags & flag != 0;
        let start = if is_set(has::START) { Some(self.time()?.as_us()) } else { None };
        let mut number = |flag| if is_set(flag) { self.number() } else { Ok(0) };
        let (slack, wait) = (number(has::SLACK)?, number(has::WAIT)?);
        let (task, class) = (number(has::TASK)?, number(has::CLASS)?);
        let mut float = |flag| if is_set(flag) { self.float() } else { Ok(0.0) };
        let inputs = [float(has::URGENCY)?, float(has::SAFETY_MARGIN)?, float(has::SOCIAL_VALUE)?];
        let (hold, expects) = (is_set(has::HOLD), is_set(has::EXPECTS));
        Ok(Scalars { start, slack, wait, hold, task, class, inputs, expects })
    }

    fn claim(&mut self) -> Read<Claim> {
        let at = self.place();
        let head = self.flags(CLAIM_BITS)?;
        let path = self.path()?;
        let target = match head & target::BITS {
            target::PATH => Target::Path(path),
            kind => Target::Region(Region { frame: path, shape: self.shape(kind)? }),
        };
        let mode = match (head >> mode::SHIFT) & mode::BITS {
            mode::SHARED => Mode::Shared,
            mode::EXCLUSIVE => Mode::Exclusive,
            mode::UNITS => Mode::Units(self.number()?),
            _ => return Err(wrong_at(at, "a mode that is not known")),
        };
        let offset = if head & OFFSET == 0 { Micros::ZERO } else { self.micros()? };
        Ok(Claim { target, mode, offset, duration: self.micros()? })
    }

    fn shape(&mut self, kind: u8) -> Read<Shape> {
        let at = self.place();
        let origin = Point { x_um: 0, y_um: 0 };
        let (outline, is_high) = match kind {
            target::BOX | target::HIGH_BOX => {
                let min = self.point(origin)?;
                (Outline::Box { min, max: self.point(min)? }, kind == target::HIGH_BOX)
            }
            target::POLYGON | target::HIGH_POLYGON => {
                let mut from = origin;
                let corners = self.list(limits::CORNERS_MAX, |reader| {
                    from = reader.point(from)?;
                    Ok(from)
                })?;
                (Outline::Polygon(corners.into()), kind == target::HIGH_POLYGON)
            }
            _ => return Err(wrong_at(at, "a target that is not known")),
        };
        let height = if is_high { Some(self.height()?) } else { None };
        Shape::from_outline(outline, height).map_err(|why| wrong_at(at, why.expected))
    }

    fn height(&mut self) -> Read<HeightRange> {
        let min_um = self.signed()?;
        let max_um = self.step(min_um.cast_unsigned())?.cast_signed();
        Ok(HeightRange { min_um, max_um })
    }

    fn point(&mut self, from: Point) -> Read<Point> {
        let x_um = self.step(from.x_um.cast_unsigned())?.cast_signed();
        Ok(Point { x_um, y_um: self.step(from.y_um.cast_unsigned())?.cast_signed() })
    }

    /// A declaration of that id, of any values.
    pub(super) fn raw_intent(&mut self, id: IntentId) -> Read<RawIntent> {
        let it = self.scalars()?;
        let claims = self.list(limits::RECORD_ITEMS, Self::raw_claim)?;
        let expect = |reader: &mut Self| Ok(RawExpect { path: reader.raw_text()?, as_of: reader.number()? });
        let expects = if it.expects { self.list(limits::RECORD_ITEMS, expect)? } else { Vec::new() };
        let [urgency, safety_margin, social_value] = it.inputs;
        Ok(RawIntent {
            id: id.number(),
            start: it.start,
            slack: it.slack,
            wait: it.wait,
            hold: it.hold,
            task: it.task,
            class: it.class,
            urgency,
            safety_margin,
            social_value,
            claims,
            expects,
        })
    }

    fn raw_claim(&mut self) -> Read<RawClaim> {
        let at = self.place();
        let kind = self.byte()?;
        let text = self.raw_text()?;
        let target = match kind {
            target::PATH => RawTarget::Path(text),
            target::BOX => RawTarget::Box { frame: text, min: self.floats()?, max: self.floats()? },
            target::POLYGON | target::HIGH_POLYGON => RawTarget::Polygon {
                frame: text,
                corners: self.list(limits::RECORD_ITEMS, Self::floats)?,
                height: if kind == target::HIGH_POLYGON { Some(self.floats()?) } else { None },
            },
            _ => return Err(wrong_at(at, "a target that is not known")),
        };
        let at = self.place();
        let mode = match self.byte()? {
            mode::SHARED => RawMode::Shared,
            mode::EXCLUSIVE => RawMode::Exclusive,
            mode::UNITS => RawMode::Units(self.number()?),
            _ => return Err(wrong_at(at, "a mode that is not known")),
        };
        Ok(RawClaim { target, mode, offset: self.number()?, duration: self.number()? })
    }

    fn floats(&mut self) -> Read<Vec<f64>> {
        self.list(limits::RECORD_ITEMS, Self::float)
    }

    /// What stands for a path in a declaration of any values: as long as a line of a trace may be.
    fn raw_text(&mut self) -> Read<String> {
        self.text(limits::TRACE_LINE_BYTES).map(str::to_owned)
    }
}

/// Whether the two are the same bit by bit.
pub(super) fn is_same(a: &Intent, b: &Intent) -> bool {
    let bits = |it: &Intent| [it.urgency, it.safety_margin, it.social_value].map(f64::to_bits);
    a == b && bits(a) == bits(b)
}

/// Whether the windows are those of the claims of an intent that starts at `start`.
pub(super) fn are_windows_of(windows: &[Window], claims: &[Claim], start: Time) -> bool {
    windows.len() == claims.len()
        && windows.iter().zip(claims).all(|(window, claim)| claim.window(start) == *window)
}
