//! Whatever was told is in the log after every crash, word by word; and after each of its records the
//! state is the one that was decided then.

use std::collections::BTreeMap;

use super::{Happened, Invariant, View};
use crate::resolver::StateDigest;
use crate::types::Slot;

#[derive(Default)]
pub(super) struct WhatWasToldIsKept {
    digests: BTreeMap<Slot, StateDigest>,
}

impl Invariant for WhatWasToldIsKept {
    fn name(&self) -> &'static str {
        "kept: what was told is in the log"
    }

    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String> {
        match happened {
            // A slot in which nothing happened needs no record, and may be decided again after a restart.
            Happened::Decided { inputs, outcome } if !inputs.is_empty() || !outcome.decisions.is_empty() => {
                if self.digests.insert(outcome.slot, outcome.digest).is_some() {
                    return Err(format!("slot {:?} was decided twice", outcome.slot));
                }
                Ok(())
            }
            Happened::Recovered { found } => {
                let records: BTreeMap<Slot, _> = found
                    .records
                    .iter()
                    .map(|(slot, decisions, digest)| (*slot, (decisions, *digest)))
                    .collect();
                for (slot, told) in &view.ledger.told {
                    let kept = records.get(slot).map(|(decisions, _)| *decisions);
                    if kept != Some(told) {
                        return Err(format!("slot {slot:?} was told as {told:?}, and kept as {kept:?}"));
                    }
                }
                for (slot, (_, digest)) in &records {
                    let before = *self.digests.entry(*slot).or_insert(*digest);
                    if before != *digest {
                        return Err(format!("slot {slot:?} has digest {digest}, and had {before}"));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
