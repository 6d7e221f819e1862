//! Paths: names of nodes in a tree.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::limits;

/// A path such as `db/users/123`: it covers that node and everything below it. Compared byte by byte.
///
/// 1 to [`limits::PATH_SEGMENTS`] segments, each of 1 to [`limits::SEGMENT_BYTES`] bytes of UTF-8
/// without control characters, [`limits::PATH_BYTES`] bytes in all; no segment `.`, `..`, `*` or `**`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Arc<str>);

impl Path {
    /// The path that `text` spells, or `None` where it breaks one of the rules above.
    pub fn new(text: &str) -> Option<Self> {
        let fits = text.len() <= limits::PATH_BYTES
            && text.split('/').take(limits::PATH_SEGMENTS + 1).count() <= limits::PATH_SEGMENTS
            && text.split('/').all(is_segment);
        fits.then(|| Path(text.into()))
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How many segments it has, at least 1.
    pub fn depth(&self) -> usize {
        self.0.split('/').count()
    }

    /// The path itself and its ancestors, from the top down, as text.
    pub fn lineage(&self) -> impl DoubleEndedIterator<Item = &str> + '_ {
        let ends = self.0.match_indices('/').map(|(at, _)| at).chain([self.0.len()]);
        ends.map(|end| &self.0[..end])
    }

    /// The path one segment shorter; none above a path of one segment.
    pub fn parent(&self) -> Option<Path> {
        self.0.rfind('/').map(|end| Path(self.0[..end].into()))
    }

    /// Whether this path is `other` or one of its ancestors.
    pub fn covers(&self, other: &Path) -> bool {
        let rest = other.0.strip_prefix(&*self.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether the two are equal or one is an ancestor of the other.
    pub fn is_related_to(&self, other: &Path) -> bool {
        self.covers(other) || other.covers(self)
    }
}

fn is_segment(segment: &str) -> bool {
    let sized = !segment.is_empty() && segment.len() <= limits::SEGMENT_BYTES;
    sized && !matches!(segment, "." | ".." | "*" | "**") && !segment.chars().any(char::is_control)
}

impl Borrow<str> for Path {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::new(text).unwrap()
    }

    #[test]
    fn relation_goes_by_segments_not_letters() {
        assert!(path("a/b").is_related_to(&path("a")));
        assert!(path("a").is_related_to(&path("a/b/c")));
        assert!(!path("a/b").is_related_to(&path("a/bc")));
        assert!(!path("a").is_related_to(&path("ab")));
    }

    #[test]
    fn lineage_runs_from_the_top_down() {
        assert_eq!(path("a/b/c").lineage().collect::<Vec<_>>(), ["a", "a/b", "a/b/c"]);
    }

    #[test]
    fn each_rule_refuses_just_past_its_edge() {
        let segment = "s".repeat(64);
        assert!(Path::new(&segment).is_some());
        assert!(Path::new(&"s".repeat(65)).is_none());
        assert!(Path::new(&vec!["a"; 16].join("/")).is_some());
        assert!(Path::new(&vec!["a"; 17].join("/")).is_none());
        let long = [&segment[..63], &segment[..63], &segment[..63], &segment[..]].join("/");
        assert_eq!(long.len(), 256);
        assert!(Path::new(&long).is_some());
        assert!(Path::new(&[&segment[..], &segment[..63], &segment[..63], &segment[..]].join("/")).is_none());
        for bad in ["", "/a", "a/", "a//b", ".", "a/..", "*", "a/**", "a/\u{7f}", "a/\u{85}", "a\n"] {
            assert!(Path::new(bad).is_none(), "{bad:?}");
        }
        for fine in ["...", "***", "a*", "ü/ñ", "a b"] {
            assert!(Path::new(fine).is_some(), "{fine:?}");
        }
    }
}
