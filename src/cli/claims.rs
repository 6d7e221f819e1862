//! Claims as they are written on the command line, and the way back.
//!
//! `PATH`, `PATH:shared`, `PATH:exclusive`, `PATH:UNITS`, `FRAME@x0,y0..x1,y1` and
//! `FRAME@x0,y0,z0..x1,y1,z1`, the last two with `:shared` too. The last `:` is the mode where what
//! follows is `shared`, `exclusive` or a whole number, and belongs to the path otherwise; so a path
//! that itself ends like a mode is written with one: `room:5:exclusive`.

use std::fmt;
use std::str::FromStr;

use crate::client::Use;
use crate::types::{RawClaim, RawIntent, RawMode, RawTarget};

/// The ways to write a claim, for help.
pub(super) const SYNTAX: &str = "\
Claims (several: all or nothing):
  file/README.md           that path and all below it, alone
  db/users:shared          beside others that share it
  gpu/pool:5               5 units of its capacity
  yard@0,0..4,2.5          a box in the frame `yard`, in metres: x0,y0..x1,y1
  yard@0,0,0..4,2.5,3      the same with heights: x0,y0,z0..x1,y1,z1
The last `:` is the mode where `shared`, `exclusive` or a whole number follows. A path
that ends like one is written with its mode: `room:5:exclusive`. `-` reads claims from
standard input, one a line.";

/// A claim, and the text that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written {
    text: String,
    target: RawTarget,
    mode: RawMode,
}

impl Written {
    /// As the library takes it.
    pub(super) fn to_use(&self) -> Use {
        Use::new(self.target.clone(), self.mode)
    }

    /// For people: `file/src (exclusive)`.
    pub(super) fn described(&self) -> String {
        described(&self.target, self.mode)
    }

    /// What is claimed.
    pub(super) fn target(&self) -> &RawTarget {
        &self.target
    }

    /// How.
    pub(super) fn mode(&self) -> RawMode {
        self.mode
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl FromStr for Written {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (target, mode) = split_mode(text)?;
        let target = match split_box(target) {
            Some((frame, coordinates)) => region(frame, coordinates)?,
            None => RawTarget::Path(target.into()),
        };
        check(&target, mode)?;
        Ok(Written { text: text.into(), target, mode })
    }
}

/// The target, and the mode after the last `:`.
fn split_mode(text: &str) -> Result<(&str, RawMode), String> {
    let Some((target, mode)) = text.rsplit_once(':') else { return Ok((text, RawMode::Exclusive)) };
    match mode {
        "shared" => Ok((target, RawMode::Shared)),
        "exclusive" => Ok((target, RawMode::Exclusive)),
        units if !units.is_empty() && units.bytes().all(|byte| byte.is_ascii_digit()) => {
            let units = units.parse().map_err(|_| format!("so many units cannot be counted: {units}"))?;
            Ok((target, RawMode::Units(units)))
        }
        typo if ["shared", "exclusive"].iter().any(|mode| is_near(typo, mode)) => Err(format!(
            "`{typo}` is no mode: it is `shared`, `exclusive` or a number of units. Where it is the end of \
             the path, write `{text}:exclusive`"
        )),
        _ => Ok((text, RawMode::Exclusive)),
    }
}

/// Whether `text` was meant to be `mode`: a path that ends in a misspelt `:shared` would be claimed
/// alone otherwise, and nobody would notice.
fn is_near(text: &str, mode: &str) -> bool {
    strsim::osa_distance(&text.to_lowercase(), mode) <= 2
}

/// The frame and the coordinates, where what follows the last `@` looks like two corners. An `@` in
/// a path is fine otherwise.
fn split_box(target: &str) -> Option<(&str, &str)> {
    let (frame, corners) = target.rsplit_once('@')?;
    let is_numbers = corners.bytes().all(|byte| byte.is_ascii_digit() || b"+-.,eE ".contains(&byte));
    (is_numbers && corners.contains("..")).then_some((frame, corners))
}

fn region(frame: &str, corners: &str) -> Result<RawTarget, String> {
    let rule = || format!("`{corners}` is no box: it is x0,y0..x1,y1 or x0,y0,z0..x1,y1,z1, in metres");
    let (min, max) = corners.split_once("..").ok_or_else(rule)?;
    let point = |text: &str| text.split(',').map(|number| number.trim().parse::<f64>().ok()).collect();
    let (min, max): (Option<Vec<f64>>, Option<Vec<f64>>) = (point(min), point(max));
    let (min, max) = min.zip(max).ok_or_else(rule)?;
    Ok(RawTarget::Box { frame: frame.into(), min, max })
}

/// Whether the coordinator would take it.
fn check(target: &RawTarget, mode: RawMode) -> Result<(), String> {
    let claim = RawClaim { target: target.clone(), mode, offset: 0, duration: 1 };
    let intent = RawIntent { claims: vec![claim], ..RawIntent::default() };
    let invalid = intent.parse().err();
    invalid.map_or(Ok(()), |invalid| {
        let field = invalid.field.trim_start_matches("claims[0].");
        Err(format!("{field}: it is {}", invalid.expected))
    })
}

/// For people: `file/src (exclusive)`.
pub(super) fn described(target: &RawTarget, mode: RawMode) -> String {
    format!("{} ({})", Place(target), mode_name(mode))
}

/// For people: `exclusive`, `shared` or `5 units`.
pub(super) fn mode_name(mode: RawMode) -> String {
    match mode {
        RawMode::Shared => "shared".into(),
        RawMode::Exclusive => "exclusive".into(),
        RawMode::Units(1) => "1 unit".into(),
        RawMode::Units(units) => format!("{units} units"),
    }
}

/// A target as it is written on the command line; a polygon cannot be, and is shown by its corners.
pub(super) struct Place<'a>(pub(super) &'a RawTarget);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            RawTarget::Path(path) => f.write_str(path),
            RawTarget::Box { frame, min, max } => {
                write!(f, "{frame}@{}..{}", numbers(min), numbers(max))
            }
            RawTarget::Polygon { frame, corners, height } => {
                let corners: Vec<String> = corners.iter().map(|corner| numbers(corner)).collect();
                write!(f, "{frame}@({})", corners.join(" "))?;
                height.as_ref().map_or(Ok(()), |height| write!(f, " heights {}", numbers(height)))
            }
        }
    }
}

fn numbers(point: &[f64]) -> String {
    point.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> (RawTarget, RawMode) {
        let claim: Written = text.parse().unwrap();
        (claim.target, claim.mode)
    }

    fn refused(text: &str) -> String {
        text.parse::<Written>().unwrap_err()
    }

    fn at(path: &str) -> RawTarget {
        RawTarget::Path(path.into())
    }

    #[test]
    fn the_last_colon_is_the_mode_where_a_mode_follows() {
        assert_eq!(read("file/README.md"), (at("file/README.md"), RawMode::Exclusive));
        assert_eq!(read("db:shared"), (at("db"), RawMode::Shared));
        assert_eq!(read("db:exclusive"), (at("db"), RawMode::Exclusive));
        assert_eq!(read("gpu/pool:5"), (at("gpu/pool"), RawMode::Units(5)));
        assert_eq!(read("host:8080/lock"), (at("host:8080/lock"), RawMode::Exclusive));
        assert_eq!(read("urn:isbn:x"), (at("urn:isbn:x"), RawMode::Exclusive));
        assert_eq!(read("room:5:exclusive"), (at("room:5"), RawMode::Exclusive));
        assert_eq!(read("room:shared:2"), (at("room:shared"), RawMode::Units(2)));
        assert_eq!(read("end:"), (at("end:"), RawMode::Exclusive));
    }

    #[test]
    fn a_misspelt_mode_is_not_taken_for_the_end_of_a_path() {
        for bad in ["db:shraed", "db:Shared", "db:share", "db:exlusive", "db:EXCLUSIVE"] {
            assert!(refused(bad).contains(&format!("{bad}:exclusive")), "{bad}: {}", refused(bad));
        }
        assert_eq!(read("db:shraed:exclusive").0, at("db:shraed"));
    }

    #[test]
    fn boxes_have_two_corners_in_two_or_three_dimensions() {
        let flat = RawTarget::Box { frame: "yard".into(), min: vec![0.0, -1.5], max: vec![4.0, 2.5] };
        assert_eq!(read("yard@0,-1.5..4,2.5"), (flat.clone(), RawMode::Exclusive));
        assert_eq!(read("yard@0, -1.5..4, 2.5:shared"), (flat, RawMode::Shared));
        let tall = RawTarget::Box { frame: "a/b".into(), min: vec![0.0, 0.0, 0.0], max: vec![1.0, 1.0, 3.0] };
        assert_eq!(read("a/b@0,0,0..1,1,3").0, tall);
        assert_eq!(read("user@host").0, at("user@host"));
        assert_eq!(read("a@1..x").0, at("a@1..x"));
    }

    #[test]
    fn what_is_no_claim_is_refused_with_what_it_may_be() {
        for (bad, says) in [
            ("", "path"),
            ("a//b", "path"),
            ("/a", "path"),
            ("a/*", "path"),
            (":shared", "path"),
            ("pool:0", "at least 1 unit"),
            ("pool:99999999999999999999", "units"),
            ("yard@0,0..4", "as many coordinates"),
            ("yard@0,0..0,4", "above that of"),
            ("yard@0,,0..1,1", "x0,y0..x1,y1"),
            ("yard@0,0..1,1..2", "x0,y0..x1,y1"),
            ("yard@0,0..1e9,1", "metres"),
            ("yard@0,0..1,1:3", "shared or exclusive"),
            ("@0,0..1,1", "path"),
        ] {
            let why = refused(bad);
            assert!(why.contains(says), "{bad:?}: {why}");
        }
    }

    #[test]
    fn a_claim_is_described_for_people() {
        let described = |text: &str| text.parse::<Written>().unwrap().described();
        assert_eq!(described("file/src"), "file/src (exclusive)");
        assert_eq!(described("pool:1"), "pool (1 unit)");
        assert_eq!(described("yard@0,0..4,2.50:shared"), "yard@0,0..4,2.5 (shared)");
        let corners = vec![vec![0.0, 0.0], vec![1.0, 0.0], vec![0.0, 1.0]];
        let polygon = RawTarget::Polygon { frame: "yard".into(), corners, height: Some(vec![0.0, 2.0]) };
        assert_eq!(Place(&polygon).to_string(), "yard@(0,0 1,0 0,1) heights 0,2");
    }

    proptest! {
        #[test]
        fn a_path_with_its_mode_is_read_as_it_is_whatever_it_ends_in(
            path in "[a-z@:,.0-9]{1,12}(/[a-z:]{1,8}){0,2}",
            units in 1u64..=u64::MAX,
        ) {
            let is_path = crate::types::Path::new(&path).is_some();
            prop_assume!(is_path && split_box(&path).is_none());
            for (mode, spelled) in [
                (RawMode::Shared, "shared".to_owned()),
                (RawMode::Exclusive, "exclusive".to_owned()),
                (RawMode::Units(units), units.to_string()),
            ] {
                prop_assert_eq!(read(&format!("{path}:{spelled}")), (at(&path), mode));
            }
        }

        #[test]
        fn a_box_reads_back_as_it_is_shown(
            least in proptest::collection::vec(-1_000i32..1_000, 2..4),
            size in 1i32..500,
        ) {
            let min: Vec<f64> = least.iter().map(|at| f64::from(*at) / 8.0).collect();
            let max: Vec<f64> = min.iter().map(|at| at + f64::from(size) / 8.0).collect();
            let target = RawTarget::Box { frame: "yard".into(), min, max };
            prop_assert_eq!(read(&Place(&target).to_string()).0, target);
        }

        #[test]
        fn no_text_is_too_strange_to_be_answered(text in "\\PC{0,40}") {
            let _ = text.parse::<Written>();
        }
    }
}
