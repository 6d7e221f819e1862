//! Exact measures of shapes. All of it is integer arithmetic on whole micrometres: no rounding
//! decides anything until a ratio is rounded, once, to 9 decimals.

use crate::types::Shape;

/// Whether the insides of the two shapes share a positive measure: shapes that touch do not.
pub fn meet(a: &Shape, b: &Shape) -> bool {
    let _ = (a, b);
    false
}

/// The overlap ratio `measure(A∩B) / min(measure(A), measure(B))` in billionths, rounded half up.
/// Measures are areas, times height where both shapes have one.
pub fn overlap_ratio_e9(a: &Shape, b: &Shape) -> u64 {
    let _ = (a, b);
    0
}

/// Whether `inner` lies within `outer`, in the plane and in height; edges may touch.
pub fn contains(outer: &Shape, inner: &Shape) -> bool {
    let _ = (outer, inner);
    false
}
