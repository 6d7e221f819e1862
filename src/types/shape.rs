//! Shapes: boxes and convex polygons in whole micrometres, with or without a height range.

use std::sync::Arc;

use super::Invalid;
use crate::limits;

/// A point in the plane of a frame, in whole micrometres.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// East, say.
    pub x_um: i64,
    /// North, say.
    pub y_um: i64,
}

impl Point {
    /// The coordinates in metres, as [`Shape::from_polygon`] reads them back to the same point.
    pub fn to_metres(self) -> [f64; 2] {
        [metres(self.x_um), metres(self.y_um)]
    }

    fn is_within(self) -> bool {
        is_within(self.x_um) && is_within(self.y_um)
    }
}

/// The outline of a shape as it was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outline {
    /// An axis-aligned box.
    Box {
        /// The least coordinates.
        min: Point,
        /// The greatest coordinates, each above the least.
        max: Point,
    },
    /// A convex polygon, corners in the order in which they were declared.
    Polygon(Arc<[Point]>),
}

/// Heights from `min_um` to `max_um`, `min_um < max_um`, in whole micrometres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeightRange {
    /// The least height.
    pub min_um: i64,
    /// The greatest height.
    pub max_um: i64,
}

impl HeightRange {
    /// The least and the greatest height in metres, as [`Shape::from_polygon`] reads them back.
    pub fn to_metres(self) -> [f64; 2] {
        [metres(self.min_um), metres(self.max_um)]
    }

    fn rises(self) -> bool {
        self.min_um < self.max_um
    }
}

/// A valid shape with area. Without a height range it covers all heights.
///
/// Two shapes are equal when they were declared alike: the same outline, corner by corner, and the
/// same heights. What is covered follows from that, not the other way round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    outline: Outline,
    height: Option<HeightRange>,
    /// The corners of the convex hull, counter-clockwise, collinear ones left out.
    hull: Arc<[Point]>,
    /// The least and greatest coordinates of the hull.
    bounds: (Point, Point),
}

const EXTENTS: &str = "2 or 3 coordinates in metres, finite, from -1e8 to 1e8";
const BOX_MAX: &str = "as many coordinates as `min`, in metres, finite, from -1e8 to 1e8, each at least \
     1 µm above that of `min`";
const COORDINATES: &str = "3 to 16 corners of two coordinates in metres, finite, from -1e8 to 1e8";
const DISTINCT: &str = "corners that differ by 1 µm or more";
const AREA: &str = "corners that are not all on one line";
const CONVEX: &str = "the corners of a convex polygon, once around in either direction";
const HEIGHT: &str = "the least and the greatest height in metres, finite, from -1e8 to 1e8, the greatest at \
     least 1 µm above the least";

impl Shape {
    /// A box of 2 or 3 dimensions, in metres.
    ///
    /// # Errors
    /// `box.min` or `box.max`, with what it may be.
    pub fn from_box(min: &[f64], max: &[f64]) -> Result<Self, Invalid> {
        let least = extents(min).ok_or_else(|| Invalid::new("box.min", EXTENTS))?;
        let greatest = extents(max).ok_or_else(|| Invalid::new("box.max", BOX_MAX))?;
        if least.1.is_some() != greatest.1.is_some() {
            return Err(Invalid::new("box.max", BOX_MAX));
        }
        let height = least.1.zip(greatest.1).map(|(min_um, max_um)| HeightRange { min_um, max_um });
        Shape::of_box(least.0, greatest.0, height)
    }

    fn of_box(min: Point, max: Point, height: Option<HeightRange>) -> Result<Self, Invalid> {
        let rises = min.x_um < max.x_um && min.y_um < max.y_um && height.is_none_or(HeightRange::rises);
        if !rises {
            return Err(Invalid::new("box.max", BOX_MAX));
        }
        let corner = |x_um, y_um| Point { x_um, y_um };
        let hull = [min, corner(max.x_um, min.y_um), max, corner(min.x_um, max.y_um)];
        Ok(Shape { outline: Outline::Box { min, max }, height, hull: hull.into(), bounds: (min, max) })
    }

    /// A convex polygon, in metres. Corners go once around, in either direction; collinear ones are
    /// fine, and so is one up to [`limits::HULL_SLACK_UM`] inside the hull of all: the shape is the
    /// hull.
    ///
    /// # Errors
    /// `polygon.corners` or `polygon.height`, with what it may be.
    pub fn from_polygon(corners: &[Vec<f64>], height: Option<&[f64]>) -> Result<Self, Invalid> {
        let corners = points(corners).ok_or_else(|| Invalid::new("polygon.corners", COORDINATES))?;
        let shape = Shape::of_corners(corners.into())?;
        let height = height
            .map(|range| height_range(range).ok_or_else(|| Invalid::new("polygon.height", HEIGHT)))
            .transpose()?;
        Ok(Shape { height, ..shape })
    }

    /// The polygon without a height range.
    fn of_corners(corners: Arc<[Point]>) -> Result<Self, Invalid> {
        let wrong = |expected| Invalid::new("polygon.corners", expected);
        if has_repeats(&corners) {
            return Err(wrong(DISTINCT));
        }
        let hull = hull_of(&corners);
        if hull.len() < 3 {
            return Err(wrong(AREA));
        }
        if !goes_once_around(&corners, &hull) {
            return Err(wrong(CONVEX));
        }
        let bounds = bounds_of(&hull);
        Ok(Shape { outline: Outline::Polygon(corners), height: None, hull: hull.into(), bounds })
    }

    /// The shape of which [`Shape::outline`] and [`Shape::height`] told.
    ///
    /// # Errors
    /// As those of [`Shape::from_box`] and [`Shape::from_polygon`].
    pub fn from_outline(outline: Outline, height: Option<HeightRange>) -> Result<Self, Invalid> {
        let is_high = height.is_none_or(|it| is_within(it.min_um) && is_within(it.max_um));
        match outline {
            Outline::Box { min, .. } if !min.is_within() => Err(Invalid::new("box.min", EXTENTS)),
            Outline::Box { max, .. } if !max.is_within() || !is_high => Err(Invalid::new("box.max", BOX_MAX)),
            Outline::Box { min, max } => Shape::of_box(min, max, height),
            Outline::Polygon(corners) => {
                let count = limits::CORNERS_MIN..=limits::CORNERS_MAX;
                if !count.contains(&corners.len()) || !corners.iter().all(|corner| corner.is_within()) {
                    return Err(Invalid::new("polygon.corners", COORDINATES));
                }
                let shape = Shape::of_corners(corners)?;
                if !is_high || !height.is_none_or(HeightRange::rises) {
                    return Err(Invalid::new("polygon.height", HEIGHT));
                }
                Ok(Shape { height, ..shape })
            }
        }
    }

    /// The outline as it was declared.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// The heights it covers; `None` means all.
    pub fn height(&self) -> Option<HeightRange> {
        self.height
    }

    /// The corners of its convex hull, counter-clockwise, collinear ones left out.
    pub fn hull(&self) -> &[Point] {
        &self.hull
    }

    /// The least x and y of the hull.
    pub fn min(&self) -> Point {
        self.bounds.0
    }

    /// The greatest x and y of the hull.
    pub fn max(&self) -> Point {
        self.bounds.1
    }

    /// Whether the shape is its bounding box: then [`Shape::min`] and [`Shape::max`] say all.
    pub fn is_box(&self) -> bool {
        matches!(self.outline, Outline::Box { .. })
    }
}

fn metres(um: i64) -> f64 {
    // At most 1e14: exact as binary64, and the quotient is near enough that rounding undoes it.
    um as f64 / UM_PER_M
}

const UM_PER_M: f64 = 1e6;

/// Whether the coordinate is in the range.
fn is_within(um: i64) -> bool {
    const MOST_UM: u64 = (limits::COORDINATE_M * UM_PER_M) as u64; // 1e14: exact
    um.unsigned_abs() <= MOST_UM
}

/// The nearest whole micrometre, halves away from zero; `None` where that is not a number or lies
/// outside the range.
fn micrometres(metres: f64) -> Option<i64> {
    let um = (metres * UM_PER_M).round();
    // A NaN fails the comparison. What is left fits an i64 exactly; a negative zero becomes 0.
    (um.abs() <= limits::COORDINATE_M * UM_PER_M).then_some(um as i64)
}

fn extents(metres: &[f64]) -> Option<(Point, Option<i64>)> {
    let point = |x, y| Some(Point { x_um: micrometres(x)?, y_um: micrometres(y)? });
    match *metres {
        [x, y] => Some((point(x, y)?, None)),
        [x, y, z] => Some((point(x, y)?, Some(micrometres(z)?))),
        _ => None,
    }
}

fn height_range(metres: &[f64]) -> Option<HeightRange> {
    let &[min, max] = metres else { return None };
    Some(HeightRange { min_um: micrometres(min)?, max_um: micrometres(max)? }).filter(|it| it.rises())
}

fn points(corners: &[Vec<f64>]) -> Option<Vec<Point>> {
    if !(limits::CORNERS_MIN..=limits::CORNERS_MAX).contains(&corners.len()) {
        return None;
    }
    let point = |corner: &Vec<f64>| {
        let &[x, y] = corner.as_slice() else { return None };
        Some(Point { x_um: micrometres(x)?, y_um: micrometres(y)? })
    };
    corners.iter().map(point).collect()
}

fn has_repeats(corners: &[Point]) -> bool {
    corners.iter().enumerate().any(|(at, corner)| corners[..at].contains(corner))
}

/// Twice the signed area of the triangle `a`, `b`, `c`: above zero where they turn left. Differences
/// are at most 2e14, so the products fit with room to spare.
fn turn(a: Point, b: Point, c: Point) -> i128 {
    let wide = |from: i64, to: i64| i128::from(to - from);
    wide(a.x_um, b.x_um) * wide(a.y_um, c.y_um) - wide(a.y_um, b.y_um) * wide(a.x_um, c.x_um)
}

/// The corners of the convex hull, counter-clockwise from the least, collinear ones left out. Fewer
/// than 3 where all lie on one line.
fn hull_of(corners: &[Point]) -> Vec<Point> {
    let mut sorted = corners.to_vec();
    sorted.sort_unstable();
    let mut hull = half_hull(sorted.iter().copied());
    hull.extend(half_hull(sorted.iter().rev().copied()));
    hull
}

/// One chain of the hull, without its last corner, which begins the other chain.
fn half_hull(sorted: impl Iterator<Item = Point>) -> Vec<Point> {
    let mut chain: Vec<Point> = Vec::with_capacity(limits::CORNERS_MAX);
    for point in sorted {
        while let [.., a, b] = chain[..]
            && turn(a, b, point) <= 0
        {
            chain.pop();
        }
        chain.push(point);
    }
    chain.pop();
    chain
}

/// Whether the corners pass the hull's in order, in either direction, and those in between keep to the
/// edge that they are on and do not go back on it.
fn goes_once_around(corners: &[Point], hull: &[Point]) -> bool {
    let Some(first) = corners.iter().position(|corner| *corner == hull[0]) else { return false };
    let around = || corners[first..].iter().chain(&corners[..first]).copied();
    keeps_to(around(), hull.iter().copied())
        || keeps_to(around(), hull[..1].iter().chain(hull[1..].iter().rev()).copied())
}

/// Whether `corners`, which begin at the first of `hull`, follow its edges one after the other.
fn keeps_to(corners: impl Iterator<Item = Point>, hull: impl Iterator<Item = Point> + Clone) -> bool {
    let mut edges = hull.clone().zip(hull.clone().skip(1).chain(hull.take(1)));
    let Some(mut edge) = edges.next() else { return false };
    let mut last = edge.0;
    for corner in corners.skip(1) {
        if goes_back(last, corner, edge) || goes_back(corner, edge.1, edge) || !is_near(corner, edge) {
            return false;
        }
        if corner == edge.1 {
            let Some(next) = edges.next() else { return false };
            edge = next;
        }
        last = corner;
    }
    // What is left is the edge back to the first corner, which must not lie behind the last.
    edges.next().is_none() && !goes_back(last, edge.1, edge)
}

fn goes_back(from: Point, to: Point, edge: (Point, Point)) -> bool {
    let wide = |from: i64, to: i64| i128::from(to - from);
    let along = wide(from.x_um, to.x_um) * wide(edge.0.x_um, edge.1.x_um);
    along + wide(from.y_um, to.y_um) * wide(edge.0.y_um, edge.1.y_um) < 0
}

/// Whether `corner`, which lies beside the edge, is within [`limits::HULL_SLACK_UM`] of it.
fn is_near(corner: Point, edge: (Point, Point)) -> bool {
    let slack = i128::from(limits::HULL_SLACK_UM);
    let dx = i128::from(edge.1.x_um - edge.0.x_um).abs();
    let dy = i128::from(edge.1.y_um - edge.0.y_um).abs();
    // The distance is area / length. The square of an area need not fit, so those that are too large
    // by far are left out first: no length exceeds the sum of its sides.
    let area = turn(edge.0, edge.1, corner).abs();
    area <= slack * (dx + dy) && area * area <= slack * slack * (dx * dx + dy * dy)
}

fn bounds_of(hull: &[Point]) -> (Point, Point) {
    let fold = |pick: fn(i64, i64) -> i64| {
        let merge = |a: Point, b: &Point| Point { x_um: pick(a.x_um, b.x_um), y_um: pick(a.y_um, b.y_um) };
        hull.iter().fold(hull[0], merge)
    };
    (fold(i64::min), fold(i64::max))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn polygon(corners: &[[f64; 2]]) -> Result<Shape, Invalid> {
        let corners: Vec<Vec<f64>> = corners.iter().map(|c| c.to_vec()).collect();
        Shape::from_polygon(&corners, None)
    }

    /// A polygon whose corners are given in micrometres.
    fn polygon_um(corners: &[[i64; 2]]) -> Result<Shape, Invalid> {
        polygon(&corners.iter().map(|c| [metres(c[0]), metres(c[1])]).collect::<Vec<_>>())
    }

    fn field<T: std::fmt::Debug>(result: Result<T, Invalid>) -> String {
        result.unwrap_err().field
    }

    fn p(x_um: i64, y_um: i64) -> Point {
        Point { x_um, y_um }
    }

    #[test]
    fn a_box_has_two_or_three_dimensions() {
        let flat = Shape::from_box(&[0.0, 0.0], &[4.0, 2.0]).unwrap();
        assert_eq!(*flat.outline(), Outline::Box { min: p(0, 0), max: p(4_000_000, 2_000_000) });
        assert_eq!(flat.hull(), [p(0, 0), p(4_000_000, 0), p(4_000_000, 2_000_000), p(0, 2_000_000)]);
        assert_eq!((flat.min(), flat.max()), (p(0, 0), p(4_000_000, 2_000_000)));
        assert_eq!(flat.height(), None);
        let tall = Shape::from_box(&[0.0, 0.0, -1.0], &[4.0, 2.0, 1.5]).unwrap();
        assert_eq!(tall.height(), Some(HeightRange { min_um: -1_000_000, max_um: 1_500_000 }));
        assert_ne!(flat, tall);
    }

    #[test]
    fn a_box_names_the_end_at_fault() {
        assert_eq!(field(Shape::from_box(&[0.0], &[1.0])), "box.min");
        assert_eq!(field(Shape::from_box(&[], &[])), "box.min");
        assert_eq!(field(Shape::from_box(&[0.0; 4], &[1.0; 4])), "box.min");
        assert_eq!(field(Shape::from_box(&[0.0, f64::NAN], &[1.0, 1.0])), "box.min");
        assert_eq!(field(Shape::from_box(&[0.0, -1.1e8], &[1.0, 1.0])), "box.min");
        assert_eq!(field(Shape::from_box(&[0.0, 0.0], &[1.0, f64::INFINITY])), "box.max");
        assert_eq!(field(Shape::from_box(&[0.0, 0.0], &[1.0, 1.0, 1.0])), "box.max");
        assert_eq!(field(Shape::from_box(&[0.0, 0.0, 0.0], &[1.0, 1.0])), "box.max");
        for flat in [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [1.0, 1.0, -1.0]] {
            assert_eq!(field(Shape::from_box(&[0.0; 3], &flat)), "box.max");
        }
    }

    #[test]
    fn sides_are_compared_after_rounding() {
        assert_eq!(field(Shape::from_box(&[0.0, 0.0], &[0.000_000_4, 1.0])), "box.max");
        let thin = Shape::from_box(&[0.0, 0.0], &[0.000_000_6, 1.0]).unwrap();
        assert_eq!(thin.max(), p(1, 1_000_000));
        let crossed = Shape::from_box(&[-0.000_000_6, -0.0], &[-0.000_000_4, 1.0]).unwrap();
        assert_eq!((crossed.min(), crossed.max()), (p(-1, 0), p(0, 1_000_000)));
    }

    #[test]
    fn the_whole_range_is_open_and_nothing_beyond() {
        let all = Shape::from_box(&[-1e8, -1e8, -1e8], &[1e8, 1e8, 1e8]).unwrap();
        assert_eq!(all.max(), p(100_000_000_000_000, 100_000_000_000_000));
        let beyond = 1e8 + 0.000_001;
        assert_eq!(field(Shape::from_box(&[0.0, 0.0], &[1.0, beyond])), "box.max");
        assert_eq!(field(polygon(&[[0.0, 0.0], [beyond, 0.0], [0.0, 1.0]])), "polygon.corners");
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN] {
            assert_eq!(field(Shape::from_box(&[bad, 0.0], &[1.0, 1.0])), "box.min");
            assert_eq!(field(polygon(&[[0.0, 0.0], [1.0, bad], [0.0, 1.0]])), "polygon.corners");
        }
    }

    #[test]
    fn a_negative_zero_is_zero() {
        let a = Shape::from_box(&[-0.0, -0.0], &[1.0, 1.0]).unwrap();
        assert_eq!(a, Shape::from_box(&[0.0, 0.0], &[1.0, 1.0]).unwrap());
        let b = polygon(&[[-0.0, 0.0], [1.0, -0.0], [0.0, 1.0]]).unwrap();
        assert_eq!(b, polygon(&[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).unwrap());
        assert_eq!(field(polygon(&[[-0.0, 0.0], [0.0, -0.0], [1.0, 1.0]])), "polygon.corners");
    }

    #[test]
    fn corners_go_in_either_direction() {
        let left = polygon(&[[0.0, 0.0], [4.0, 0.0], [4.0, 2.0]]).unwrap();
        let right = polygon(&[[4.0, 2.0], [4.0, 0.0], [0.0, 0.0]]).unwrap();
        assert_eq!(left.hull(), right.hull());
        assert_ne!(left, right, "equality is of what was declared");
    }

    #[test]
    fn a_polygon_has_three_to_sixteen_corners_of_two_coordinates() {
        assert_eq!(field(polygon(&[[0.0, 0.0], [1.0, 1.0]])), "polygon.corners");
        let circle = |n: u32| {
            let angle = |k: u32| f64::from(k) * std::f64::consts::TAU / f64::from(n);
            polygon(&(0..n).map(|k| [angle(k).cos(), angle(k).sin()]).collect::<Vec<_>>())
        };
        assert_eq!(circle(16).unwrap().hull().len(), 16);
        assert_eq!(field(circle(17)), "polygon.corners");
        let odd = [vec![0.0, 0.0], vec![1.0], vec![0.0, 1.0]];
        assert_eq!(field(Shape::from_polygon(&odd, None)), "polygon.corners");
        let deep = [vec![0.0, 0.0, 0.0], vec![1.0, 0.0], vec![0.0, 1.0]];
        assert_eq!(field(Shape::from_polygon(&deep, None)), "polygon.corners");
    }

    #[test]
    fn repeated_corners_are_refused_also_where_rounding_makes_them_so() {
        assert!(polygon_um(&[[0, 0], [9, 0], [9, 9], [0, 0]]).is_err());
        assert!(polygon_um(&[[0, 0], [9, 0], [9, 0], [9, 9]]).is_err());
        assert!(polygon(&[[0.0, 0.0], [1.0, 0.0], [1.000_000_4, 0.0], [0.0, 1.0]]).is_err());
    }

    #[test]
    fn corners_on_one_line_have_no_area() {
        assert!(polygon_um(&[[0, 0], [1, 1], [2, 2]]).is_err());
        assert!(polygon_um(&[[0, 0], [100_000_000_000_000, 1], [50_000_000_000_000, 1]]).is_ok());
        assert!(polygon_um(&[[-7, 3], [0, 3], [12, 3], [5, 3]]).is_err());
    }

    #[test]
    fn shapes_that_are_not_convex_are_refused() {
        assert!(polygon_um(&[[0, 0], [90, 0], [45, 20], [90, 90]]).is_err(), "a dent");
        assert!(polygon_um(&[[0, 0], [90, 90], [90, 0], [0, 90]]).is_err(), "crossed");
        assert!(polygon_um(&[[0, 0], [1, 1], [1, 0], [0, 1]]).is_err(), "crossed, at 1 µm");
        let star = |k: f64| {
            [(k * 4.0 * std::f64::consts::PI / 5.0).cos(), (k * 4.0 * std::f64::consts::PI / 5.0).sin()]
        };
        assert!(polygon(&[star(0.0), star(1.0), star(2.0), star(3.0), star(4.0)]).is_err(), "a pentagram");
        assert!(
            polygon_um(&[[0, 0], [90, 0], [45, 90], [1, 1], [89, 1], [45, 88]]).is_err(),
            "twice around, the second time just inside"
        );
    }

    #[test]
    fn collinear_corners_are_fine_while_they_go_forward() {
        let square = polygon_um(&[[0, 0], [5, 0], [9, 0], [9, 4], [9, 9], [0, 9], [0, 3], [0, 1]]).unwrap();
        assert_eq!(square.hull(), [p(0, 0), p(9, 0), p(9, 9), p(0, 9)]);
        assert!(polygon_um(&[[5, 0], [9, 0], [9, 9], [0, 9], [0, 0]]).is_ok(), "the first corner may be one");
        assert!(polygon_um(&[[0, 0], [7, 0], [3, 0], [9, 0], [9, 9]]).is_err(), "back and forth");
    }

    #[test]
    fn a_corner_may_lie_two_micrometres_inside_the_hull() {
        let dented = |depth: i64| polygon_um(&[[0, 0], [500, depth], [1000, 0], [1000, 900], [0, 900]]);
        assert_eq!(dented(2).unwrap().hull().len(), 4);
        assert!(dented(3).is_err());
        // 45°: at (x, x - k) the distance from the diagonal is k/√2.
        let diagonal = |k: i64| polygon_um(&[[0, 0], [500 - k, 500], [1000, 1000], [1000, 0]]);
        assert!(diagonal(-2).is_ok());
        assert!(diagonal(-3).is_err(), "2.1 µm");
        assert!(diagonal(3).unwrap().hull().contains(&p(497, 500)), "outward is a corner of the hull");
    }

    #[test]
    fn a_dent_is_judged_exactly_at_the_ends_of_the_range() {
        let far = 100_000_000_000_000;
        let dented =
            |depth| polygon_um(&[[-far, -far], [0, depth - far], [far, -far], [far, far], [-far, far]]);
        assert!(dented(2).is_ok());
        assert!(dented(3).is_err());
        let slanted = |k: i64| polygon_um(&[[-far, -far], [k, 0], [far, far], [far, -far]]);
        assert!(slanted(2).is_ok());
        assert!(slanted(3).is_err());
    }

    #[test]
    fn heights_rise_and_lie_within_the_range() {
        let corners = [vec![0.0, 0.0], vec![4.0, 0.0], vec![4.0, 2.0]];
        let with = |height: &[f64]| Shape::from_polygon(&corners, Some(height));
        let shape = with(&[0.0, 3.0]).unwrap();
        assert_eq!(shape.height(), Some(HeightRange { min_um: 0, max_um: 3_000_000 }));
        assert_eq!(shape.height().unwrap().to_metres(), [0.0, 3.0]);
        for bad in
            [&[][..], &[1.0], &[0.0, 1.0, 2.0], &[1.0, 1.0], &[2.0, 1.0], &[0.0, 4e-7], &[f64::NAN, 1.0]]
        {
            assert_eq!(field(with(bad)), "polygon.height");
        }
    }

    /// The rule written down again, by the angles of the walk: all turns one way, and once around.
    fn is_strictly_convex(corners: &[[i64; 2]]) -> bool {
        let n = corners.len();
        let at = |k: usize| p(corners[k % n][0], corners[k % n][1]);
        let left = (0..n).all(|k| turn(at(k), at(k + 1), at(k + 2)) > 0);
        let right = (0..n).all(|k| turn(at(k), at(k + 1), at(k + 2)) < 0);
        // Turning one way all the time, the walk goes round once where x rises and falls once.
        let rises = |k: usize| at(k % n) < at((k + 1) % n);
        let flips = (0..n).filter(|k| rises(*k) != rises((*k + 1) % n)).count();
        (left || right) && flips == 2
    }

    proptest! {
        #[test]
        fn strictly_convex_polygons_and_no_grossly_dented_ones_are_taken(
            corners in proptest::collection::vec([-4i64..5, -4i64..5], 3..8),
        ) {
            // Scaled so that no dent is within the slack.
            let scaled: Vec<[i64; 2]> = corners.iter().map(|c| [c[0] * 100, c[1] * 100]).collect();
            let taken = polygon_um(&scaled);
            if is_strictly_convex(&scaled) {
                prop_assert_eq!(taken.unwrap().hull().len(), scaled.len());
            } else if let Ok(shape) = taken {
                prop_assert!(shape.hull().len() < scaled.len(), "only collinear corners can be left out");
                let all_on_edge = scaled.iter().all(|c| {
                    let hull = shape.hull();
                    (0..hull.len()).any(|k| turn(hull[k], hull[(k + 1) % hull.len()], p(c[0], c[1])) == 0)
                });
                prop_assert!(all_on_edge);
            }
        }

        #[test]
        fn where_the_walk_begins_and_which_way_it_goes_changes_nothing(
            corners in proptest::collection::vec([-6i64..7, -6i64..7], 3..9),
            first in 0usize..9,
        ) {
            let mut turned = corners.clone();
            turned.rotate_left(first % corners.len());
            turned.reverse();
            let (a, b) = (polygon_um(&corners), polygon_um(&turned));
            prop_assert_eq!(a.is_ok(), b.is_ok());
            if let (Ok(a), Ok(b)) = (a, b) {
                prop_assert_eq!(a.hull(), b.hull());
            }
        }

        #[test]
        fn a_shape_is_made_again_of_its_outline(
            corners in proptest::collection::vec([-6i64..7, -6i64..7], 2..9),
            low in -3i64..3,
            high in -3i64..3,
            far in any::<bool>(),
        ) {
            let scale = if far { 100_000_000_000_000 / 6 + 1 } else { 1 };
            let points: Vec<Point> = corners.iter().map(|c| p(c[0] * scale, c[1] * scale)).collect();
            let height = Some(HeightRange { min_um: low, max_um: high }).filter(|_| low != 0);
            let metres: Vec<Vec<f64>> = points.iter().map(|point| point.to_metres().to_vec()).collect();
            let range = height.map(HeightRange::to_metres);
            let polygon = Shape::from_outline(Outline::Polygon(points.clone().into()), height);
            let alike = Shape::from_polygon(&metres, range.as_ref().map(|range| &range[..]));
            prop_assert_eq!(polygon, alike);
            let with = |at: usize| {
                let mut corner = metres[at].clone();
                corner.extend(range.map(|range| range[at]));
                corner
            };
            let boxed = Shape::from_outline(Outline::Box { min: points[0], max: points[1] }, height);
            prop_assert_eq!(boxed, Shape::from_box(&with(0), &with(1)));
        }

        #[test]
        fn metres_are_read_back_to_the_same_micrometre(um in -100_000_000_000_000i64..=100_000_000_000_000) {
            prop_assert_eq!(micrometres(metres(um)), Some(um));
        }
    }
}
