//! A lease whose agent is undisturbed is not lost to its own client, unless somebody else is in the
//! way of its renewal.

use std::collections::BTreeSet;

use super::{Happened, Invariant, View};
use crate::session::agent::{Event, Loss, News};
use crate::types::IntentId;

#[derive(Default)]
pub(super) struct LeasesKeepThemselves {
    /// Leases whose renewal was denied.
    denied: BTreeSet<(usize, IntentId)>,
}

/// An agent that has been undisturbed for so long has had time for every renewal of the world's leases.
const CALM_US: u64 = 12_000_000;

impl Invariant for LeasesKeepThemselves {
    fn name(&self) -> &'static str {
        "lease: renewals keep a lease alive"
    }

    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String> {
        let Happened::Event { process, event: Event::News(news) } = happened else { return Ok(()) };
        match news {
            News::RenewalDenied { id, .. } => {
                self.denied.insert((*process, *id));
            }
            News::Lost {
                id,
                token,
                why: why @ (Loss::Ended | Loss::Unreachable | Loss::Expired | Loss::Unknown),
            } => {
                let is_lease = view.ledger.grants.get(token).is_some_and(|record| record.hold);
                let agent = &view.agents[*process];
                let is_calm = view.at.saturating_sub(agent.calm_since) >= CALM_US;
                if is_lease && is_calm && !self.denied.contains(&(*process, *id)) {
                    return Err(format!("process {process} lost the lease {id:?}, token {token}: {why:?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
