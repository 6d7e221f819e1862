//! What must always hold, one file each. An invariant looks at everything that happens, and says what is
//! wrong in words.

mod belief;
mod clock;
mod dead;
mod fence;
mod hand;
mod kept;
mod late;
mod lease;
mod once;
mod progress;
mod told;

use super::agent::Process;
use super::ledger::Ledger;
use super::server::{Found, Server};
use crate::resolver::Input;
use crate::resolver::SlotOutcome;
use crate::session::agent::Event;
use crate::types::{Fence, Time};
use crate::wire::Answer;

/// Everything, as it is now.
pub(super) struct View<'a> {
    /// True time.
    pub(super) at: u64,
    /// The coordinator's time; while none runs, what it would be.
    pub(super) time: Time,
    pub(super) ledger: &'a Ledger,
    pub(super) agents: &'a [Process],
    pub(super) server: &'a Server,
}

/// Something that happened.
pub(super) enum Happened<'a> {
    /// A slot was decided, and what came of it is being told.
    Decided { inputs: &'a [Input], outcome: &'a SlotOutcome },
    /// A coordinator started; the ledger is still that of the last one.
    Recovered { found: &'a Found },
    /// An answer is about to be handed to a session.
    Told { process: usize, answer: &'a Answer },
    /// A session told its program something.
    Event { process: usize, event: &'a Event },
    /// A process may have changed what it believes.
    Changed { process: usize },
    /// A write of a process has arrived at the store.
    Wrote { process: usize, path: &'static str, fence: Fence },
    /// Faults have stopped, and there was time enough for everything to be settled.
    Settled,
    /// All agents have left, and all that they had is over.
    Over,
}

/// See the module's documentation.
pub(super) trait Invariant {
    fn name(&self) -> &'static str;

    /// # Errors
    /// What is wrong.
    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String>;
}

/// All of them.
pub(super) fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(belief::NoTwoBelieve),
        Box::new(clock::BoundsHoldTheTruth),
        Box::new(dead::NothingDeadIsHandedOut),
        Box::new(fence::StoreTakesTheRightful::default()),
        Box::new(hand::NothingIsLostInSilence::default()),
        Box::new(kept::WhatWasToldIsKept::default()),
        Box::new(late::LossesAreToldInTime::default()),
        Box::new(lease::LeasesKeepThemselves::default()),
        Box::new(once::DecidedOnce::default()),
        Box::new(progress::AllIsSettled),
        Box::new(told::AnswersAreTheRecords),
    ]
}
