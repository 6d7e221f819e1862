//! The check before the conflict check: whether what an intent claims, region after region, can be driven.

use std::collections::BTreeMap;

use super::{Admission, Denial};
use crate::resolver::AgentOp;
use crate::space::motion::{self, MotionLimits, Needs, Stay, Unreachable};
use crate::types::{Agent, Claim, Intent, Path, Target};
use crate::wire::Refusal;

/// Refuses as [`Refusal::Infeasible`] what cannot be driven, by the limits of each frame.
///
/// Declarations and revisions are looked at, each by itself: what an agent holds already plays no part. The
/// regions of one frame are held against each other as [`motion`] says; those of different frames
/// are apart, and so are paths. Limits hold for their frame and the frames below it, each key on its own: the
/// longest prefix that sets it wins. A frame without limits takes everything.
#[derive(Clone, Debug, Default)]
pub struct Feasibility {
    frames: BTreeMap<Path, MotionLimits>,
}

impl Feasibility {
    /// With these limits; of two for one path the latter holds.
    pub fn new(frames: impl IntoIterator<Item = (Path, MotionLimits)>) -> Self {
        Feasibility { frames: frames.into_iter().collect() }
    }

    /// Whether the intent can be carried out.
    ///
    /// # Errors
    /// What to tell its agent: which two claims, what that needs, what is allowed, and what to do.
    pub fn check(&self, intent: &Intent) -> Result<(), Denial> {
        if self.frames.is_empty() {
            return Ok(());
        }
        let mut seen: Vec<&Path> = Vec::new();
        for frame in intent.claims.iter().filter_map(frame_of) {
            if !seen.contains(&frame) {
                seen.push(frame);
                self.check_frame(frame, &intent.claims)?;
            }
        }
        Ok(())
    }

    fn check_frame(&self, frame: &Path, claims: &[Claim]) -> Result<(), Denial> {
        let limits = self.limits(frame);
        if limits.max_speed_um_s.is_none() && limits.max_acceleration_um_s2.is_none() {
            return Ok(());
        }
        let stays = claims.iter().enumerate().filter_map(|(claim, it)| match &it.target {
            Target::Region(region) if region.frame == *frame => {
                Some(Stay { claim, offset: it.offset, shape: &region.shape })
            }
            _ => None,
        });
        motion::check(&stays.collect::<Vec<_>>(), &limits).map_err(|why| denial(frame, &why))
    }

    fn limits(&self, frame: &Path) -> MotionLimits {
        let mut limits = MotionLimits::default();
        // From the top down: what is set further down takes the place of what is above.
        for found in frame.lineage().filter_map(|node| self.frames.get(node)) {
            let MotionLimits { max_speed_um_s, max_acceleration_um_s2, tolerance_um } = *found;
            limits.max_speed_um_s = max_speed_um_s.or(limits.max_speed_um_s);
            limits.max_acceleration_um_s2 = max_acceleration_um_s2.or(limits.max_acceleration_um_s2);
            limits.tolerance_um = tolerance_um.or(limits.tolerance_um);
        }
        limits
    }
}

impl Admission for Feasibility {
    fn admit(&self, _: &Agent, op: &AgentOp) -> Result<(), Denial> {
        match op {
            AgentOp::Declare(intent) | AgentOp::Revise(intent) => self.check(intent),
            AgentOp::Release { .. } | AgentOp::Renew { .. } | AgentOp::Invalid { .. } => Ok(()),
        }
    }
}

fn frame_of(claim: &Claim) -> Option<&Path> {
    match &claim.target {
        Target::Region(region) => Some(&region.frame),
        Target::Path(_) => None,
    }
}

/// Bytes of a frame's name in a hint: with the numbers around it, a hint stays within
/// [`crate::limits::TEXT_BYTES`].
const FRAME_SHOWN: usize = 48;

fn denial(frame: &Path, why: &Unreachable) -> Denial {
    let Unreachable { from, to, needs } = why;
    let whole = frame.as_str();
    let shown = &whole[..whole.floor_char_boundary(FRAME_SHOWN)];
    let frame = if shown.len() < whole.len() { format!("{shown}…") } else { whole.to_owned() };
    let hint = match needs {
        Needs::Speed { needed_um_s, allowed_um_s, least_us } => {
            let (needed, allowed) = (rounded_up(*needed_um_s), exactly(*allowed_um_s));
            let todo = match least_us {
                Some(us) => {
                    format!("{} ms or more between their starts, or a nearer region", us.div_ceil(1_000))
                }
                None => "the same place, since nothing may move there".to_owned(),
            };
            format!(
                "from claims[{from}] to claims[{to}] it needs {needed} m/s, {frame} allows {allowed} m/s: {todo}"
            )
        }
        Needs::Acceleration { after, needed_um_s2, allowed_um_s2 } => {
            let (needed, allowed) = (rounded_up(*needed_um_s2), exactly(*allowed_um_s2));
            format!(
                "from claims[{from}] to claims[{to}], after claims[{after}], it needs {needed} m/s², {frame} allows \
                 {allowed} m/s²: a smaller change of speed or direction, or more time for it"
            )
        }
    };
    let field = format!("claims[{to}]");
    Denial { reason: Refusal::Infeasible, field, hint, retry_after: None }
}

/// Micrometres as metres to the millimetre, rounded up: what is needed never reads as what is allowed.
fn rounded_up(um: u128) -> String {
    let mm = um.div_ceil(1_000);
    decimal(mm / 1_000, mm % 1_000, 3)
}

/// Micrometres as metres, to the last of them.
fn exactly(um: u64) -> String {
    decimal(u128::from(um) / 1_000_000, u128::from(um) % 1_000_000, 6)
}

fn decimal(whole: u128, part: u128, digits: usize) -> String {
    let decimals = format!("{part:0digits$}");
    match decimals.trim_end_matches('0') {
        "" => whole.to_string(),
        decimals => format!("{whole}.{decimals}"),
    }
}

#[cfg(test)]
#[path = "feasibility_tests.rs"]
mod tests;
