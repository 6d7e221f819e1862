//! Shapes: boxes and convex polygons in whole micrometres, with or without a height range.

use std::sync::Arc;

use super::Invalid;

/// A point in the plane of a frame, in whole micrometres.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// East, say.
    pub x_um: i64,
    /// North, say.
    pub y_um: i64,
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

/// A valid shape with area. Without a height range it covers all heights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    outline: Outline,
    height: Option<HeightRange>,
    /// The corners of the convex hull, counter-clockwise, collinear ones left out.
    hull: Arc<[Point]>,
}

impl Shape {
    /// A box of 2 or 3 dimensions, in metres.
    ///
    /// # Errors
    /// `box.min` or `box.max`, with what it may be.
    pub fn from_box(min: &[f64], max: &[f64]) -> Result<Self, Invalid> {
        let _ = (min, max);
        Err(Invalid::new("box", "not built yet"))
    }

    /// A convex polygon, in metres.
    ///
    /// # Errors
    /// `polygon.corners` or `polygon.height`, with what it may be.
    pub fn from_polygon(corners: &[Vec<f64>], height: Option<&[f64]>) -> Result<Self, Invalid> {
        let _ = (corners, height);
        Err(Invalid::new("polygon", "not built yet"))
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
}
