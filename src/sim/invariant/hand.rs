//! What a session has in hand is what its program was told: a grant comes with an answer or news, and
//! goes with the news that it is lost. Its end never falls, and never lies beyond what was decided.

use std::collections::BTreeMap;

use super::{Happened, Invariant, View};
use crate::types::{Time, Token};

#[derive(Default)]
pub(super) struct NothingIsLostInSilence {
    /// The latest end of each grant, by process.
    ends: BTreeMap<(usize, Token), Time>,
}

impl Invariant for NothingIsLostInSilence {
    fn name(&self) -> &'static str {
        "hand: nothing is lost in silence, and ends do not fall"
    }

    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String> {
        let Happened::Changed { process } = happened else { return Ok(()) };
        let agent = &view.agents[*process];
        if agent.is_dead() {
            return Ok(());
        }
        for (id, token) in &agent.in_hand {
            let held = agent.session.held(*id).map(|held| held.token);
            if held != Some(*token) {
                return Err(format!("process {process} has {id:?} as {held:?}, and its program as {token}"));
            }
        }
        for id in agent.work.ids() {
            let Some(held) = agent.session.held(*id) else { continue };
            if agent.in_hand.get(id) != Some(&held.token) {
                return Err(format!(
                    "process {process} has {id:?} as {held:?}, and its program does not know"
                ));
            }
            let end = self.ends.entry((*process, held.token)).or_insert(held.end);
            if held.end < *end {
                return Err(format!("process {process}: the end of {held:?} was {end:?} before"));
            }
            *end = held.end;
            if view.ledger.grants.get(&held.token).is_some_and(|record| record.end < held.end) {
                return Err(format!("process {process}: {held:?} lasts longer than was decided"));
            }
        }
        Ok(())
    }
}
