//! A holder is told that its grant is over before another's window can begin: by its own clock, before the
//! coordinator's time reaches the end, whatever the connection does. Only a process that was stopped is
//! told late, when it goes on.

use std::collections::BTreeMap;

use super::{Happened, Invariant, View};
use crate::session::agent::{Event, Loss, News};
use crate::types::{IntentId, Time};

#[derive(Default)]
pub(super) struct LossesAreToldInTime {
    /// The end of each grant in hand, by process.
    ends: BTreeMap<(usize, IntentId), Time>,
}

impl Invariant for LossesAreToldInTime {
    fn name(&self) -> &'static str {
        "late: a loss is told before another can have what is lost"
    }

    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String> {
        match happened {
            Happened::Changed { process } => {
                let agent = &view.agents[*process];
                for id in agent.in_hand.keys() {
                    // What was over when it came in hand is another matter.
                    if let Some(held) = agent.session.held(*id).filter(|held| view.time < held.end) {
                        self.ends.insert((*process, *id), held.end);
                    }
                }
                Ok(())
            }
            Happened::Event { process, event: Event::News(News::Lost { id, why, .. }) } => {
                let end = self.ends.remove(&(*process, *id));
                let by_itself = matches!(why, Loss::Ended | Loss::Unreachable | Loss::NotRenewed { .. });
                let agent = &view.agents[*process];
                let was_well = |end| agent.resumed_at.max(agent.trusted_at) <= view.server.when(end);
                let is_late = |end: Time| view.time >= end && was_well(end);
                match end.filter(|end| by_itself && agent.doubts.is_none() && is_late(*end)) {
                    Some(end) => Err(format!(
                        "process {process} is told at {:?} that {id:?} is over, which ended at {end:?}",
                        view.time
                    )),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}
