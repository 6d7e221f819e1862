//! How many windows there are on which path, and below: what the work of placing an intent among them grows with.
//!
//! Counted are the claims of all intents in force or undecided, and of those that are on their way to the core. It
//! decides nothing: it bounds what is handed to the core. Paths are told apart by their hash, so that a count takes a few
//! bytes; should two paths share one, both count as both.

use crate::limits;
use crate::types::{Claim, HashedMap, Mode, Path, Target, fixed_hash};

/// Claims by mode: shared, exclusive, units.
type Rows = [u32; Mode::KINDS];

fn is_region(claim: &Claim) -> bool {
    matches!(claim.target, Target::Region(_))
}

/// Claims that follow each other and count alike, which those of one intent mostly do.
fn runs(claims: &[Claim]) -> impl Iterator<Item = &[Claim]> {
    claims.chunk_by(|a, b| {
        a.mode.kind() == b.mode.kind() && is_region(a) == is_region(b) && a.target.path() == b.target.path()
    })
}

fn count_of(claims: &[Claim]) -> u32 {
    u32::try_from(claims.len()).unwrap_or(u32::MAX)
}

/// The claims at one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Node {
    /// On it.
    own: Rows,
    /// Below it; a region is just below its frame.
    below: Rows,
    /// Of those below, regions in the frame that it names.
    regions: u32,
}

impl Node {
    fn is_empty(&self) -> bool {
        self.own.iter().chain(&self.below).all(|count| *count == 0)
    }
}

/// See the module's documentation.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Crowd {
    nodes: HashedMap<Node>,
}

impl Crowd {
    /// These claims are there from here on.
    pub(super) fn add(&mut self, claims: &[Claim]) {
        for alike in runs(claims) {
            self.change(&alike[0], |count| *count = count.saturating_add(count_of(alike)));
        }
    }

    /// They are not any more.
    pub(super) fn remove(&mut self, claims: &[Claim]) {
        for alike in runs(claims) {
            self.change(&alike[0], |count| *count = count.saturating_sub(count_of(alike)));
        }
    }

    fn change(&mut self, claim: &Claim, by: impl Fn(&mut u32)) {
        let (path, row) = (claim.target.path(), claim.mode.kind());
        for text in path.lineage() {
            let hash = fixed_hash(&text);
            let node = self.nodes.entry(hash).or_default();
            match &claim.target {
                Target::Path(_) if text == path.as_str() => by(&mut node.own[row]),
                Target::Region(_) if text == path.as_str() => {
                    by(&mut node.below[row]);
                    by(&mut node.regions);
                }
                _ => by(&mut node.below[row]),
            }
            if node.is_empty() {
                self.nodes.remove(&hash);
            }
        }
    }

    fn node(&self, text: &str) -> Node {
        self.nodes.get(&fixed_hash(&text)).copied().unwrap_or_default()
    }

    /// Regions in a frame.
    pub(super) fn regions(&self, frame: &Path) -> usize {
        self.node(frame.as_str()).regions as usize
    }

    /// Claims that may be in the way of `claim` by path and mode, wherever their windows lie: those on its ancestors, on
    /// itself and, for a path, below it. Of the regions of its own frame only those nearby are ever in a region's way, so
    /// they are not counted. Units are in each other's way where an ancestor has a capacity, which is the core's to know:
    /// all below the path's first segment count.
    pub(super) fn in_the_way(&self, claim: &Claim) -> usize {
        let path = claim.target.path();
        let conflicting = claim.mode.kinds_against();
        let sum = |rows: Rows| conflicting.iter().map(|row| rows[*row] as usize).sum::<usize>();
        let mut all = 0;
        for (depth, text) in path.lineage().enumerate() {
            let node = self.node(text);
            all += sum(node.own);
            if text == path.as_str() && matches!(claim.target, Target::Path(_)) {
                all += sum(node.below);
            }
            if depth == 0 && matches!(claim.mode, Mode::Units(_)) {
                all += node.own[Mode::UNITS] as usize + node.below[Mode::UNITS] as usize;
            }
        }
        all
    }

    /// The most windows that may be in the way of one of several claims, with the claim's index; and what all of the
    /// claims cost together, those of one path and mode counted once, where their name has `own` windows.
    ///
    /// Several claims are looked for from gap to gap among all that is in their way. One alone passes over crowded parts
    /// by an index; but where it finds no place, all that it reaches over are gone through for who is told, and regions
    /// in one place are passed one by one. How many that are depends on times and shapes, which are not counted: it is
    /// taken that a name's own windows are in its way, so that who fills a path pays for it, and nobody else.
    pub(super) fn search(&self, claims: &[Claim], own: &Windows) -> Search {
        let mut search = Search::default();
        let mut seen = Vec::with_capacity(claims.len());
        for (index, claim) in claims.iter().enumerate() {
            let this = (fixed_hash(claim.target.path()), claim.mode.kind(), is_region(claim));
            if seen.contains(&this) {
                continue;
            }
            seen.push(this);
            let (in_the_way, own) = (self.in_the_way(claim), own.below_root_of(claim));
            if let Target::Region(region) = &claim.target {
                search.all += self.regions(&region.frame).min(own) / limits::SEARCH_OF_REGIONS;
            }
            if claims.len() == 1 {
                search.all += in_the_way.min(own) / limits::SEARCH_OF_ONE;
                continue;
            }
            search.all = search.all.saturating_add(in_the_way);
            if in_the_way > search.most {
                (search.most, search.claim) = (in_the_way, index);
            }
        }
        search
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// What it costs to place an intent, in windows that are looked among; see [`Crowd::search`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Search {
    pub(super) all: usize,
    pub(super) most: usize,
    pub(super) claim: usize,
}

/// One name's windows, in all and by the first segment of their paths: no path below it has more.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Windows {
    all: usize,
    by_root: HashedMap<u32>,
}

fn root(claim: &Claim) -> u64 {
    fixed_hash(&claim.target.path().lineage().next().unwrap_or_default())
}

impl Windows {
    pub(super) fn add(&mut self, claims: &[Claim]) {
        self.all += claims.len();
        for alike in runs(claims) {
            let count = self.by_root.entry(root(&alike[0])).or_default();
            *count = count.saturating_add(count_of(alike));
        }
    }

    pub(super) fn remove(&mut self, claims: &[Claim]) {
        self.all = self.all.saturating_sub(claims.len());
        for alike in runs(claims) {
            let root = root(&alike[0]);
            let Some(count) = self.by_root.get_mut(&root) else { continue };
            *count = count.saturating_sub(count_of(alike));
            if *count == 0 {
                self.by_root.remove(&root);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all
    }

    /// Those below the first segment of the claim's path.
    fn below_root_of(&self, claim: &Claim) -> usize {
        self.by_root.get(&root(claim)).copied().unwrap_or_default() as usize
    }

    /// The first of `claims` with which there would be more than `most` below its first segment.
    pub(super) fn first_past(&self, claims: &[Claim], most: usize) -> Option<usize> {
        let roots: Vec<u64> = claims.iter().map(root).collect();
        let is_past = |index: &usize| {
            let before = self.by_root.get(&roots[*index]).copied().unwrap_or_default() as usize;
            // All of them there is more than there can be, so mostly there is nothing to count.
            before + claims.len() > most
                && before + roots[..=*index].iter().filter(|it| **it == roots[*index]).count() > most
        };
        (0..claims.len()).find(is_past)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Micros, RawClaim, RawIntent, RawMode, RawTarget};

    fn claim(path: &str, mode: Mode) -> Claim {
        let target = Target::Path(Path::new(path).unwrap());
        Claim { target, mode, offset: Micros::ZERO, duration: Micros::from_ms(1) }
    }

    fn region(frame: &str) -> Claim {
        let target = RawTarget::Box { frame: frame.into(), min: vec![0.0, 0.0], max: vec![1.0, 1.0] };
        let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: 1_000 };
        RawIntent { id: 1, claims: vec![claim], ..RawIntent::default() }.parse().unwrap().claims[0].clone()
    }

    fn crowd(claims: &[Claim]) -> Crowd {
        let mut crowd = Crowd::default();
        crowd.add(claims);
        crowd
    }

    const X: Mode = Mode::Exclusive;
    const S: Mode = Mode::Shared;

    #[test]
    fn a_claim_meets_its_ancestors_itself_and_what_is_below_it_and_nobody_beside_it() {
        let crowd = crowd(&["a", "a/b", "a/b/c", "a/b/d", "a/e", "ab", "f"].map(|path| claim(path, X)));
        for (path, met) in [("a", 5), ("a/b", 4), ("a/b/c", 3), ("a/x", 1), ("f", 1), ("g", 0), ("f/g", 1)] {
            assert_eq!(crowd.in_the_way(&claim(path, X)), met, "{path}");
        }
    }

    #[test]
    fn slivers_below_a_path_add_up_for_whoever_claims_the_path() {
        let slivers: Vec<Claim> = (0..50).map(|it| claim(&format!("a/{it}"), X)).collect();
        let crowd = crowd(&slivers);
        assert_eq!(crowd.in_the_way(&claim("a", X)), 50);
        assert_eq!(crowd.in_the_way(&claim("a/7", X)), 1);
    }

    #[test]
    fn modes_that_get_along_are_in_nobodys_way() {
        let crowd = crowd(&[claim("a", S), claim("a", S), claim("a", X), claim("a/b", Mode::Units(3))]);
        assert_eq!(crowd.in_the_way(&claim("a", S)), 2);
        assert_eq!(crowd.in_the_way(&claim("a", X)), 4);
        assert_eq!(crowd.in_the_way(&claim("a/b", Mode::Units(1))), 4, "units draw on what is above");
        assert_eq!(crowd.in_the_way(&claim("a/c", Mode::Units(1))), 4);
    }

    #[test]
    fn a_region_is_below_its_frame_for_paths_and_apart_for_other_regions() {
        let crowd = crowd(&[region("map/a"), region("map/a"), claim("map", X)]);
        assert_eq!(crowd.regions(&Path::new("map/a").unwrap()), 2);
        assert_eq!(crowd.in_the_way(&claim("map/a", X)), 3);
        assert_eq!(crowd.in_the_way(&region("map/a")), 1);
        assert_eq!(crowd.in_the_way(&claim("map/a/lane", X)), 1);
    }

    #[test]
    fn several_claims_are_searched_for_among_all_in_their_way_and_each_path_once() {
        let (crowd, own) = (crowd(&["a", "a", "b"].map(|path| claim(path, X))), Windows::default());
        assert_eq!(crowd.search(&[claim("a", X)], &own), Search::default());
        let searched = crowd.search(&[claim("b", X), claim("a", X), claim("a", X)], &own);
        assert_eq!(searched, Search { all: 3, most: 2, claim: 1 });
    }

    #[test]
    fn who_fills_a_path_pays_for_a_single_claim_there_and_nobody_else() {
        let slivers = vec![claim("a", X); 10 * limits::SEARCH_OF_ONE];
        let regions = vec![region("map"); 10 * limits::SEARCH_OF_REGIONS];
        let mut all = crowd(&slivers);
        all.add(&regions);
        let mut own = Windows::default();
        own.add(&slivers);
        own.add(&regions);
        for (claim, cost) in
            [(claim("a", X), 10), (claim("b", X), 0), (claim("a/b", S), 10), (region("map"), 10)]
        {
            assert_eq!(
                all.search(std::slice::from_ref(&claim), &own),
                Search { all: cost, ..Search::default() }
            );
            assert_eq!(all.search(&[claim], &Windows::default()), Search::default());
        }
        assert_eq!(all.search(&[region("map"), region("map")], &own).all, 10);
    }

    #[test]
    fn what_is_taken_out_leaves_nothing() {
        let claims = [claim("a/b", X), region("a/b"), claim("a", Mode::Units(1))];
        let mut crowd = crowd(&claims);
        crowd.remove(&claims);
        assert!(crowd.is_empty());
        let mut windows = Windows::default();
        windows.add(&claims);
        assert_eq!(windows.len(), 3);
        windows.remove(&claims);
        assert!(windows.len() == 0 && windows.by_root.is_empty());
    }

    #[test]
    fn one_names_windows_are_bounded_by_the_first_segment_of_their_paths() {
        let mut windows = Windows::default();
        windows.add(&["a/1", "a/2", "a/3", "b"].map(|path| claim(path, X)));
        let past = |paths: &[&str], most| {
            let claims: Vec<Claim> = paths.iter().map(|path| claim(path, X)).collect();
            windows.first_past(&claims, most)
        };
        assert_eq!(past(&["a/4"], 4), None);
        assert_eq!(past(&["a/4"], 3), Some(0));
        assert_eq!(past(&["b", "a/4", "b/1", "a/5"], 4), Some(3));
        assert_eq!(past(&["b", "c", "d", "e"], 2), None);
    }
}
