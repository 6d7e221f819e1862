use super::*;
use crate::limits;
use crate::types::{RawClaim, RawIntent, RawMode, RawTarget};

const LIMITS: MotionLimits = MotionLimits {
    max_speed_um_s: Some(20_000_000),
    max_acceleration_um_s2: Some(8_000_000),
    tolerance_um: Some(0),
};

fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

/// A box of 2 m around `x`, from `ms` on for 100 ms.
fn claim(frame: &str, x: f64, ms: u64) -> RawClaim {
    let target = RawTarget::Box { frame: frame.into(), min: vec![x - 1.0, 0.0], max: vec![x + 1.0, 2.0] };
    RawClaim { target, mode: RawMode::Exclusive, offset: ms * 1_000, duration: 100_000 }
}

fn intent(claims: Vec<RawClaim>) -> Intent {
    RawIntent { id: 1, claims, ..RawIntent::default() }.parse().unwrap()
}

fn told(frames: &[(&str, MotionLimits)], claims: Vec<RawClaim>) -> Option<(String, String)> {
    let check = Feasibility::new(frames.iter().map(|(frame, limits)| (path(frame), *limits)));
    let denial = check.check(&intent(claims)).err()?;
    assert_eq!((denial.reason, denial.retry_after), (Refusal::Infeasible, None));
    assert!(denial.hint.len() <= limits::TEXT_BYTES, "{}", denial.hint.len());
    Some((denial.field, denial.hint))
}

#[test]
fn a_refusal_names_the_pair_the_need_the_limit_and_what_to_do() {
    let drive = |x| vec![claim("map", 0.0, 0), claim("map", x, 100)];
    assert_eq!(told(&[("map", LIMITS)], drive(2.0)), None);
    let (field, hint) = told(&[("map", LIMITS)], drive(3.0001)).unwrap();
    assert_eq!(field, "claims[1]");
    assert_eq!(
        hint,
        "from claims[0] to claims[1] it needs 30.001 m/s, map allows 20 m/s: 151 ms or more between their starts, or a \
         nearer region"
    );
    let jump = vec![claim("map", 0.0, 0), claim("map", 0.0, 100), claim("map", 0.1, 200)];
    let (field, hint) = told(&[("map", LIMITS)], jump).unwrap();
    assert_eq!(field, "claims[2]");
    assert_eq!(
        hint,
        "from claims[1] to claims[2], after claims[0], it needs 10 m/s², map allows 8 m/s²: a smaller change of speed \
         or direction, or more time for it"
    );
    let still = MotionLimits { max_speed_um_s: Some(0), ..LIMITS };
    let (_, hint) = told(&[("map", still)], drive(2.0)).unwrap();
    assert!(hint.ends_with("map allows 0 m/s: the same place, since nothing may move there"), "{hint}");
}

#[test]
fn what_is_needed_never_reads_as_what_is_allowed() {
    let (_, hint) =
        told(&[("map", LIMITS)], vec![claim("map", 0.0, 0), claim("map", 2.000_001, 100)]).unwrap();
    assert!(hint.contains("needs 20.001 m/s, map allows 20 m/s"), "{hint}");
}

#[test]
fn frames_are_apart_and_paths_are_no_places() {
    let two = vec![claim("map/a", 0.0, 0), claim("map/b", 900.0, 100), claim("map/a", 2.0, 100)];
    assert_eq!(told(&[("map", LIMITS)], two), None);
    let target = RawTarget::Path("map/a".into());
    let of_path = RawClaim { target, mode: RawMode::Exclusive, offset: 50_000, duration: 1 };
    let (field, _) =
        told(&[("map", LIMITS)], vec![claim("map/a", 0.0, 0), of_path, claim("map/a", 9.0, 100)]).unwrap();
    assert_eq!(field, "claims[2]");
    // Each frame is looked at, not the first alone.
    let late = vec![claim("map/a", 0.0, 0), claim("map/b", 0.0, 0), claim("map/b", 900.0, 100)];
    assert_eq!(told(&[("map", LIMITS)], late).unwrap().0, "claims[2]");
}

#[test]
fn limits_hold_below_their_frame_and_each_key_is_for_itself() {
    let fast = MotionLimits { max_speed_um_s: Some(50_000_000), ..MotionLimits::default() };
    let frames = [("map", LIMITS), ("map/track", fast)];
    let drive = |frame, x| vec![claim(frame, 0.0, 0), claim(frame, x, 100)];
    assert!(told(&frames, drive("map", 4.0)).is_some());
    assert!(told(&frames, drive("map/yard", 4.0)).is_some());
    assert!(told(&frames, drive("map/track", 4.0)).is_none());
    assert!(told(&frames, drive("map/track/north", 6.0)).is_some());
    let jump = vec![claim("map/track", 0.0, 0), claim("map/track", 0.0, 100), claim("map/track", 1.0, 200)];
    assert!(told(&frames, jump).unwrap().1.contains("m/s²"), "that of the frame above still holds");
    assert!(told(&frames, drive("mapping", 400.0)).is_none());
    assert!(
        told(
            &[("map", MotionLimits { tolerance_um: Some(0), ..MotionLimits::default() })],
            drive("map", 1e7)
        )
        .is_none()
    );
    assert!(told(&[], drive("map", 1e7)).is_none());
}

#[test]
fn revisions_are_looked_at_and_what_names_no_regions_passes() {
    let check = Feasibility::new([(path("map"), LIMITS)]);
    let agent = Agent::new("car-7").unwrap();
    let wild = intent(vec![claim("map", 0.0, 0), claim("map", 90.0, 100)]);
    for op in [AgentOp::Declare(wild.clone()), AgentOp::Revise(wild.clone())] {
        assert!(check.admit(&agent, &op).is_err());
    }
    assert!(check.admit(&agent, &AgentOp::Release { id: wild.id }).is_ok());
}

#[test]
fn one_check_after_the_other_tells_what_the_first_found() {
    #[derive(Debug)]
    struct Never;
    impl Admission for Never {
        fn admit(&self, _: &Agent, _: &AgentOp) -> Result<(), Denial> {
            let (field, hint) = (String::new(), String::new());
            Err(Denial { reason: Refusal::Forbidden, field, hint, retry_after: None })
        }
    }
    let agent = Agent::new("car-7").unwrap();
    let reason = |check: &dyn Admission, x: f64| {
        let drive = intent(vec![claim("map", 0.0, 0), claim("map", x, 100)]);
        check.admit(&agent, &AgentOp::Declare(drive)).err().map(|denial| denial.reason)
    };
    let drives = || Feasibility::new([(path("map"), LIMITS)]);
    assert_eq!(reason(&drives().then(Never), 90.0), Some(Refusal::Infeasible));
    assert_eq!(reason(&drives().then(Never), 1.0), Some(Refusal::Forbidden));
    assert_eq!(reason(&Never.then(drives()), 90.0), Some(Refusal::Forbidden));
    assert_eq!(reason(&super::super::Open.then(drives()), 1.0), None);
    let shared: std::sync::Arc<dyn Admission> = std::sync::Arc::new(drives());
    assert_eq!(reason(&shared.then(Never), 90.0), Some(Refusal::Infeasible));
}

#[test]
fn the_longest_hint_fits_an_answer() {
    let frame = vec!["é".repeat(25); 5].join("/");
    let frames =
        [(frame.as_str(), MotionLimits { max_acceleration_um_s2: Some(1), ..MotionLimits::default() })];
    let wild = |x: f64, us| RawClaim { offset: us, ..claim(&frame, x, 0) };
    let mut claims = vec![wild(-9e7, 0); 61];
    claims.extend([wild(9e7, 1), wild(-9e7, 2), wild(9e7, 3)]);
    let (_, hint) = told(&frames, claims.clone()).unwrap();
    assert!(hint.contains("m/s²") && hint.contains('…'), "{hint}");
    let frames = [(frame.as_str(), MotionLimits { max_speed_um_s: Some(1), ..MotionLimits::default() })];
    assert!(told(&frames, claims).unwrap().1.contains("m/s,"));
}
