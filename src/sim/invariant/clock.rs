//! An agent's bounds of the coordinator's time hold the truth, unless a clock has just broken its
//! promise to run evenly.

use super::{Happened, Invariant, View};

pub(super) struct BoundsHoldTheTruth;

impl Invariant for BoundsHoldTheTruth {
    fn name(&self) -> &'static str {
        "clock: bounds hold the truth"
    }

    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String> {
        let Happened::Changed { process } = happened else { return Ok(()) };
        let agent = &view.agents[*process];
        if agent.is_dead()
            || agent.doubts.is_some()
            || agent.is_right_about(view.time, view.at) != Some(false)
        {
            return Ok(());
        }
        let bounds = agent.session.clock().bounds(agent.local(view.at));
        Err(format!("process {process} takes the time to be {bounds:?}, and it is {:?}", view.time))
    }
}
