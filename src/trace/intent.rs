//! Declarations as they stand in a line: the right fields and types, any values.

use crate::config::{Fault, Field, Fields};
use crate::types::{RawClaim, RawExpect, RawIntent, RawMode, RawTarget};

/// What a time or a span may look like, for error messages.
pub(super) const MICROS_RULE: &str = "a whole number of µs, 0 to 18446744073709551615";
/// What a number of things may look like, for error messages.
pub(super) const COUNT_RULE: &str = "a whole number, 0 to 18446744073709551615";

const NUMBER_RULE: &str = "a number";
const MODE_RULE: &str = "\"shared\", \"exclusive\" or {\"units\": a whole number}";
const INTENT: &[&str] = &[
    "id",
    "start",
    "slack",
    "wait",
    "hold",
    "task",
    "class",
    "urgency",
    "safety_margin",
    "social_value",
    "claims",
    "expects",
];

/// The declaration at `field`, defaults filled in.
pub(super) fn raw_intent(field: Field<'_>) -> Result<RawIntent, Fault> {
    let intent = field.table(INTENT)?;
    let micros = |name| intent.optional(name, micros).map(Option::unwrap_or_default);
    let count = |name| intent.optional(name, count).map(Option::unwrap_or_default);
    let number = |name| intent.optional(name, number).map(Option::unwrap_or_default);
    Ok(RawIntent {
        id: intent.required("id", COUNT_RULE, self::count)?,
        start: intent.optional("start", start)?.flatten(),
        slack: micros("slack")?,
        wait: micros("wait")?,
        hold: intent.optional("hold", |field| field.flag())?.unwrap_or_default(),
        task: count("task")?,
        class: count("class")?,
        urgency: number("urgency")?,
        safety_margin: number("safety_margin")?,
        social_value: number("social_value")?,
        claims: intent
            .required("claims", "a list of claims", |field| field.list("a list of claims", claim))?,
        expects: intent
            .optional("expects", |field| field.list("a list of readings", expect))?
            .unwrap_or_default(),
    })
}

fn start(field: Field<'_>) -> Result<Option<u64>, Fault> {
    const RULE: &str = "\"asap\" or a whole number of µs";
    match field.word(&["asap"]) {
        Ok(_) => Ok(None),
        Err(_) => field.count(RULE).map(Some),
    }
}

fn claim(field: Field<'_>) -> Result<RawClaim, Fault> {
    let claim = field.table(&["path", "frame", "box", "polygon", "mode", "offset", "duration"])?;
    Ok(RawClaim {
        target: target(&claim)?,
        mode: claim.optional("mode", mode)?.unwrap_or(RawMode::Exclusive),
        offset: claim.optional("offset", micros)?.unwrap_or_default(),
        duration: claim.required("duration", MICROS_RULE, micros)?,
    })
}

fn target(claim: &Fields<'_>) -> Result<RawTarget, Fault> {
    const FRAME_RULE: &str = "the path of a frame";
    if claim.exactly_one(&["path", "frame"])? == "path" {
        claim.none_beside("path", &["box", "polygon"])?;
        return claim.required("path", "a path", |field| text(field, "a path")).map(RawTarget::Path);
    }
    let frame = claim.required("frame", FRAME_RULE, |field| text(field, FRAME_RULE))?;
    match claim.exactly_one(&["box", "polygon"])? {
        "box" => claim.required("box", "a box", |field| {
            let corners = field.table(&["min", "max"])?;
            let (min, max) =
                (corners.required("min", POINT_RULE, point)?, corners.required("max", POINT_RULE, point)?);
            Ok(RawTarget::Box { frame, min, max })
        }),
        _ => claim.required("polygon", "a polygon", |field| {
            let polygon = field.table(&["corners", "height"])?;
            let list = |field: Field<'_>| field.list("a list of corners", point);
            let corners = polygon.required("corners", "a list of corners", list)?;
            Ok(RawTarget::Polygon { frame, corners, height: polygon.optional("height", point)? })
        }),
    }
}

const POINT_RULE: &str = "a list of numbers";

fn point(field: Field<'_>) -> Result<Vec<f64>, Fault> {
    field.list(POINT_RULE, number)
}

fn mode(field: Field<'_>) -> Result<RawMode, Fault> {
    match field.word(&["shared", "exclusive"]) {
        Ok(0) => Ok(RawMode::Shared),
        Ok(_) => Ok(RawMode::Exclusive),
        Err(_) if field.is_table() => {
            let units = field.table(&["units"])?.required("units", COUNT_RULE, count)?;
            Ok(RawMode::Units(units))
        }
        Err(_) => Err(field.wrong(MODE_RULE)),
    }
}

fn expect(field: Field<'_>) -> Result<RawExpect, Fault> {
    let expect = field.table(&["path", "as_of"])?;
    Ok(RawExpect {
        path: expect.required("path", "a path", |field| text(field, "a path"))?,
        as_of: expect.required("as_of", MICROS_RULE, micros)?,
    })
}

pub(super) fn micros(field: Field<'_>) -> Result<u64, Fault> {
    field.count(MICROS_RULE)
}

pub(super) fn count(field: Field<'_>) -> Result<u64, Fault> {
    field.count(COUNT_RULE)
}

fn number(field: Field<'_>) -> Result<f64, Fault> {
    field.number(NUMBER_RULE)
}

fn text(field: Field<'_>, expected: &str) -> Result<String, Fault> {
    field.text(expected).map(str::to_owned)
}
