//! Shapes and their measures.

use preclaim::space::geometry::{contains, meet, overlap_ratio_e9};
use preclaim::space::motion::{MotionLimits, Stay, check};
use preclaim::types::{Micros, Outline, Shape};
use twin::{twin_contains, twin_meet, twin_ratio_e9};

use super::script::Script;

#[path = "../../src/space/geometry_twin.rs"]
mod twin;

const WHOLE: u64 = 1_000_000_000;

/// Two shapes: each is what it was declared as, all that is measured of both is the same either way round,
/// and is what the twin says.
pub(crate) fn geometry(data: &[u8]) {
    let mut script = Script::new(data);
    let (Some(a), Some(b)) = (shape(&mut script), shape(&mut script)) else { return };
    for shape in [&a, &b] {
        is_what_was_declared(shape);
        assert!(meet(shape, shape) && contains(shape, shape));
        assert_eq!(overlap_ratio_e9(shape, shape), WHOLE);
    }
    assert_eq!(meet(&a, &b), meet(&b, &a));
    let ratio = overlap_ratio_e9(&a, &b);
    assert_eq!(ratio, overlap_ratio_e9(&b, &a));
    assert!(ratio <= WHOLE && (ratio == 0 || meet(&a, &b)));
    assert_eq!((meet(&a, &b), ratio), (twin_meet(&a, &b), twin_ratio_e9(&a, &b)), "{a:?} {b:?}");
    for (outer, inner) in [(&a, &b), (&b, &a)] {
        assert_eq!(contains(outer, inner), twin_contains(outer, inner), "{outer:?} {inner:?}");
        assert!(!contains(outer, inner) || ratio == WHOLE);
    }
    moves(&mut script, &a, &b);
}

fn is_what_was_declared(shape: &Shape) {
    let again = Shape::from_outline(shape.outline().clone(), shape.height());
    assert_eq!(again.as_ref(), Ok(shape));
    let height = shape.height().map(|height| height.to_metres().to_vec());
    let again = match shape.outline() {
        Outline::Box { min, max } => {
            let high = |at: usize| height.as_ref().map(|height| height[at]);
            let corner =
                |point: [f64; 2], high: Option<f64>| point.into_iter().chain(high).collect::<Vec<_>>();
            Shape::from_box(&corner(min.to_metres(), high(0)), &corner(max.to_metres(), high(1)))
        }
        Outline::Polygon(corners) => {
            let corners: Vec<Vec<f64>> = corners.iter().map(|corner| corner.to_metres().to_vec()).collect();
            Shape::from_polygon(&corners, height.as_deref())
        }
    };
    assert_eq!(again.as_ref(), Ok(shape), "metres say what micrometres do");
    let hull = shape.hull();
    assert!(hull.len() >= 3);
    for (at, from) in hull.iter().enumerate() {
        let (to, next) = (hull[(at + 1) % hull.len()], hull[(at + 2) % hull.len()]);
        let step = |a: i64, b: i64| i128::from(b) - i128::from(a);
        let turn = step(from.x_um, to.x_um) * step(to.y_um, next.y_um)
            - step(from.y_um, to.y_um) * step(to.x_um, next.x_um);
        assert!(turn > 0, "a hull turns left at each corner: {shape:?}");
        assert!((shape.min().x_um..=shape.max().x_um).contains(&from.x_um));
        assert!((shape.min().y_um..=shape.max().y_um).contains(&from.y_um));
    }
}

/// Where nothing is limited all can be reached; and what can be reached at some speed can at a higher one.
fn moves(script: &mut Script<'_>, a: &Shape, b: &Shape) {
    let offset = |script: &mut Script<'_>| Micros::from_us(script.number());
    let stays = [
        Stay { claim: 0, offset: offset(script), shape: a },
        Stay { claim: 1, offset: offset(script), shape: b },
        Stay { claim: 2, offset: offset(script), shape: a },
    ];
    let speed = script.number();
    let limits = |speed: u64| MotionLimits { max_speed_um_s: Some(speed), ..MotionLimits::default() };
    let acceleration = script.is_so().then(|| script.number());
    let _ = check(&stays, &MotionLimits { max_acceleration_um_s2: acceleration, ..limits(speed) });
    if check(&stays, &limits(speed)).is_ok() {
        assert!(check(&stays, &limits(speed.saturating_mul(2))).is_ok());
    }
    assert!(check(&stays, &MotionLimits::default()).is_ok());
}

fn shape(script: &mut Script<'_>) -> Option<Shape> {
    let kind = script.below(8);
    if kind < 3 {
        let count = if kind == 0 { 3 } else { 2 };
        let mut corner = || (0..count).map(|_| script.metres()).collect::<Vec<_>>();
        let (min, max) = (corner(), corner());
        return Shape::from_box(&min, &max).ok();
    }
    let count = 3 + script.below(6);
    let corners: Vec<Vec<f64>> = (0..count).map(|_| vec![script.metres(), script.metres()]).collect();
    let height = (kind == 3).then(|| [script.metres(), script.metres()]);
    Shape::from_polygon(&corners, height.as_ref().map(|height| &height[..])).ok()
}
