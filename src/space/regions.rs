//! The live regions of one frame: which of them may be in the way of a shape for a span of time.
//!
//! It holds bounding boxes in x, y and time and answers with candidates; whether two shapes meet is
//! for [`super::geometry`] to say. The boxes of the index are a little larger than the exact ones
//! where a coordinate cannot be written as binary64, and what it finds is compared exactly once more.

use std::fmt;

use rstar::{AABB, RTree, RTreeObject};

use crate::types::{Point, Shape, Window};

/// One live region of a [`RegionSet`].
#[derive(Clone, Copy, Debug)]
pub struct LiveRegion<V> {
    min: Point,
    max: Point,
    /// When.
    pub window: Window,
    /// Tells regions apart that cover the same.
    pub key: u64,
    /// What the caller keeps with it.
    pub value: V,
}

impl<V> LiveRegion<V> {
    fn new(shape: &Shape, window: Window, key: u64, value: V) -> Self {
        LiveRegion { min: shape.min(), max: shape.max(), window, key, value }
    }

    /// Bounding boxes that touch are apart, as the shapes in them are.
    fn is_candidate<W>(&self, asked: &LiveRegion<W>) -> bool {
        self.min.x_um < asked.max.x_um
            && asked.min.x_um < self.max.x_um
            && self.min.y_um < asked.max.y_um
            && asked.min.y_um < self.max.y_um
            && self.window.overlap(asked.window).is_some()
    }
}

/// Regions are the same where bounding box, window and key are.
impl<V> PartialEq for LiveRegion<V> {
    fn eq(&self, other: &Self) -> bool {
        (self.key, self.window, self.min, self.max) == (other.key, other.window, other.min, other.max)
    }
}

impl<V> RTreeObject for LiveRegion<V> {
    type Envelope = AABB<[f64; 3]>;

    // A micrometre and a microsecond count alike: what moves a metre in a second is as long in each
    // direction, which is what the index likes best.
    fn envelope(&self) -> AABB<[f64; 3]> {
        let [opens, shuts] = [self.window.start(), self.window.end()].map(|time| time.as_us());
        // Coordinates reach 1e14, below 2^53: they are exact.
        AABB::from_corners(
            [self.min.x_um as f64, self.min.y_um as f64, at_most(opens)],
            [self.max.x_um as f64, self.max.y_um as f64, at_least(shuts)],
        )
    }
}

/// A number not above `us`.
fn at_most(us: u64) -> f64 {
    let near = us as f64;
    if near as u128 > u128::from(us) { near.next_down() } else { near }
}

/// A number not below `us`.
fn at_least(us: u64) -> f64 {
    let near = us as f64;
    if (near as u128) < u128::from(us) { near.next_up() } else { near }
}

/// The live regions of one frame.
#[derive(Clone)]
pub struct RegionSet<V: Copy> {
    /// None where there are none: an empty index has its first node already.
    regions: Option<Box<RTree<LiveRegion<V>>>>,
}

impl<V: Copy> RegionSet<V> {
    /// A frame without regions. It takes the room of a pointer.
    pub const fn new() -> Self {
        RegionSet { regions: None }
    }

    /// How many regions there are.
    pub fn len(&self) -> usize {
        self.regions.as_ref().map_or(0, |regions| regions.size())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.regions.is_none()
    }

    /// Puts in a region. One of the same bounds, window and key must not be in it already.
    pub fn insert(&mut self, shape: &Shape, window: Window, key: u64, value: V) {
        let regions = self.regions.get_or_insert_with(|| Box::new(RTree::new()));
        regions.insert(LiveRegion::new(shape, window, key, value));
    }

    /// Takes out the region that was put in with the same shape, window and key, and returns its value;
    /// `None` where there is none.
    pub fn remove(&mut self, shape: &Shape, window: Window, key: u64) -> Option<V> {
        let regions = self.regions.as_mut()?;
        // Any value will do to ask with; there is at least one region.
        let value = regions.iter().next()?.value;
        let gone = regions.remove(&LiveRegion::new(shape, window, key, value))?;
        if regions.size() == 0 {
            self.regions = None;
        }
        Some(gone.value)
    }

    /// Calls `f` with each region whose bounding box shares area with that of `shape` and whose window
    /// shares an instant with `range`, in order of (start, key), whatever order they came in.
    pub fn for_each_candidate(&self, shape: &Shape, range: Window, mut f: impl FnMut(&LiveRegion<V>)) {
        let Some(regions) = &self.regions else { return };
        let asked = LiveRegion::new(shape, range, 0, ());
        let found = regions.locate_in_envelope_intersecting(asked.envelope());
        let mut found: Vec<&LiveRegion<V>> = found.filter(|region| region.is_candidate(&asked)).collect();
        found.sort_unstable_by_key(|region| {
            (region.window.start(), region.key, region.window.end(), region.min, region.max)
        });
        found.into_iter().for_each(&mut f);
    }
}

impl<V: Copy> Default for RegionSet<V> {
    fn default() -> Self {
        RegionSet::new()
    }
}

impl<V: Copy> fmt::Debug for RegionSet<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::space::geometry::meet;
    use crate::types::Time;

    fn window(start: u64, end: u64) -> Window {
        Window::new(Time::from_us(start), Time::from_us(end)).unwrap()
    }

    fn m(um: i64) -> f64 {
        um as f64 / 1e6
    }

    fn box_um(x: i64, y: i64, wide: i64, deep: i64) -> Shape {
        Shape::from_box(&[x, y].map(m), &[x + wide, y + deep].map(m)).unwrap()
    }

    fn triangle_um(x: i64, y: i64, size: i64) -> Shape {
        let corners = [[x, y], [x + size, y], [x, y + size]];
        Shape::from_polygon(&corners.map(|corner| corner.map(m).to_vec()), None).unwrap()
    }

    fn shape() -> impl Strategy<Value = Shape> {
        (-20i64..20, -20i64..20, 1i64..9, 1i64..9, any::<bool>()).prop_map(|(x, y, wide, deep, is_box)| {
            if is_box { box_um(x, y, wide, deep) } else { triangle_um(x, y, wide) }
        })
    }

    fn region() -> impl Strategy<Value = (Shape, Window)> {
        (shape(), 0u64..40, 1u64..12)
            .prop_map(|(shape, start, length)| (shape, window(start, start + length)))
    }

    fn keys(set: &RegionSet<usize>, shape: &Shape, range: Window) -> Vec<(Time, u64)> {
        let mut found = Vec::new();
        set.for_each_candidate(shape, range, |region| {
            assert_eq!(region.value as u64, region.key);
            found.push((region.window.start(), region.key));
        });
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn candidates_agree_with_the_twin_and_none_that_meets_is_missed(
            regions in proptest::collection::vec(region(), 1..200),
            gone in proptest::collection::vec(any::<usize>(), 0..100),
            asked in proptest::collection::vec(region(), 1..20),
        ) {
            let mut set = RegionSet::new();
            let mut twin: Vec<Option<&(Shape, Window)>> = regions.iter().map(Some).collect();
            for (key, (shape, window)) in regions.iter().enumerate() {
                set.insert(shape, *window, key as u64, key);
            }
            for at in gone {
                let at = at % regions.len();
                let (shape, window) = &regions[at];
                prop_assert_eq!(set.remove(shape, *window, at as u64), twin[at].take().map(|_| at));
            }
            let left = twin.iter().flatten().count();
            prop_assert_eq!((set.len(), set.is_empty()), (left, left == 0));
            for (shape, range) in &asked {
                let found = keys(&set, shape, *range);
                let live = twin.iter().enumerate().filter_map(|(key, region)| Some((key, (*region)?)));
                let live = live.filter(|(_, region)| region.1.overlap(*range).is_some());
                let boxes_meet = |other: &Shape| {
                    let bounds = |shape: &Shape| {
                        let (min, max) = (shape.min(), shape.max());
                        box_um(min.x_um, min.y_um, max.x_um - min.x_um, max.y_um - min.y_um)
                    };
                    meet(&bounds(shape), &bounds(other))
                };
                let mut candidates = Vec::new();
                for (key, region) in live {
                    let at = (region.1.start(), key as u64);
                    prop_assert!(!meet(shape, &region.0) || found.contains(&at));
                    candidates.extend(boxes_meet(&region.0).then_some(at));
                }
                candidates.sort_unstable();
                prop_assert_eq!(found, candidates);
            }
        }

        #[test]
        fn times_are_rounded_outward(us in any::<u64>()) {
            prop_assert!(at_most(us) as u128 <= u128::from(us));
            prop_assert!(at_least(us) as u128 >= u128::from(us));
        }
    }

    #[test]
    fn regions_that_cover_the_same_are_told_apart_by_their_keys() {
        let (mut set, shape, at) = (RegionSet::new(), box_um(0, 0, 5, 5), window(10, 20));
        for key in 0..50 {
            set.insert(&shape, at, key as u64, key);
        }
        assert_eq!(set.remove(&shape, at, 7), Some(7));
        assert_eq!(set.remove(&shape, at, 7), None);
        assert_eq!(set.remove(&shape, window(10, 21), 8), None);
        let found = keys(&set, &shape, window(19, 30));
        assert_eq!(found.len(), 49);
        assert!(found.is_sorted());
        assert!(keys(&set, &shape, window(20, 30)).is_empty(), "windows that touch");
        assert!(keys(&set, &box_um(5, 0, 5, 5), at).is_empty(), "shapes that touch");
    }

    #[test]
    fn the_ends_of_space_and_time_are_found() {
        let far = 100_000_000_000_000;
        let all = box_um(-far, -far, 2 * far, 2 * far);
        let mut set = RegionSet::new();
        set.insert(&all, window(0, u64::MAX), 0, 0);
        set.insert(&box_um(far - 1, far - 1, 1, 1), window(u64::MAX - 1, u64::MAX), 1, 1);
        set.insert(&box_um(-far, -far, 1, 1), window((1 << 53) + 1, (1 << 53) + 2), 2, 2);
        assert_eq!(keys(&set, &all, window(u64::MAX - 1, u64::MAX)).len(), 2);
        assert_eq!(keys(&set, &all, window((1 << 53) + 1, (1 << 53) + 2)).len(), 2);
        assert_eq!(keys(&set, &all, window((1 << 53) + 2, (1 << 53) + 3)).len(), 1);
    }
}
