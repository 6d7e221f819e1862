//! The section of coordinate frames: what can be driven in them. It is the daemon's: the decision core knows
//! nothing of it, and `preclaim resolve` checks it and leaves it alone.

use std::collections::BTreeSet;

use super::rules::path;
use super::tree::{Fault, Field};
use crate::space::motion::MotionLimits;
use crate::types::{PATH_RULE, Path};

pub(super) const FRAME: &[&str] = &["path", "max_speed", "max_acceleration", "tolerance"];

/// The greatest value of each: faster than light, and further than any two coordinates are apart.
const MOST: f64 = 1e9;
const SPEED: &str = "metres per second, 0 to 1e9";
const ACCELERATION: &str = "metres per second squared, 0 to 1e9";
const TOLERANCE: &str = "metres, 0 to 1e9";

pub(super) fn frames(field: Field<'_>) -> Result<Vec<(Path, MotionLimits)>, Fault> {
    let mut seen = BTreeSet::new();
    field.list("a list of tables, each under [[frame]]", |item| {
        let frame = item.table(FRAME)?;
        let path = frame.required("path", PATH_RULE, |field| {
            let path = path(field)?;
            let first = seen.insert(path.clone());
            if first { Ok(path) } else { Err(field.wrong("a path that no [[frame]] before it has")) }
        })?;
        let limits = MotionLimits {
            max_speed_um_s: frame.optional("max_speed", |field| micrometres(field, SPEED))?,
            max_acceleration_um_s2: frame
                .optional("max_acceleration", |field| micrometres(field, ACCELERATION))?,
            tolerance_um: frame.optional("tolerance", |field| micrometres(field, TOLERANCE))?,
        };
        Ok((path, limits))
    })
}

/// To the nearest micrometre.
fn micrometres(field: Field<'_>, rule: &str) -> Result<u64, Fault> {
    let metres = field.number(rule)?;
    // At most 1e15: exact as binary64.
    if (0.0..=MOST).contains(&metres) { Ok((metres * 1e6).round() as u64) } else { Err(field.wrong(rule)) }
}
