//! The protocol's rooms, driven without a thread, a socket or a clock.
//!
//! [`coordinator`] is a whole coordinator as one value: messages and the time go in, what is to be sent
//! comes out. It stands under tests of agents, and under `simulate` (feature `sim`): many agents, a network, clocks, a
//! disk and a coordinator, all of which fail, from a seed. Nothing here reads a clock or draws by chance,
//! so the same calls have the same effects. docs/SIMULATION.md says what is modelled and what is not.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod coordinator;

#[cfg(feature = "sim")]
mod agent;
#[cfg(feature = "sim")]
mod clock;
#[cfg(feature = "sim")]
mod dice;
#[cfg(feature = "sim")]
mod drive;
#[cfg(feature = "sim")]
mod faults;
#[cfg(feature = "sim")]
mod invariant;
#[cfg(feature = "sim")]
mod ledger;
#[cfg(feature = "sim")]
mod network;
#[cfg(feature = "sim")]
mod run;
#[cfg(feature = "sim")]
mod server;
#[cfg(feature = "sim")]
mod trace;
#[cfg(feature = "sim")]
mod wires;
#[cfg(feature = "sim")]
mod work;
#[cfg(feature = "sim")]
mod world;

#[cfg(feature = "sim")]
pub use run::{Failure, Report, simulate};
