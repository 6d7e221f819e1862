//! The protocol's rooms, driven without a thread, a socket or a clock.
//!
//! [`coordinator`] is a whole coordinator as one value: messages and the time go in, what is to be sent
//! comes out. It stands under tests of agents, and under `simulate` (feature `daemon`): many agents, a network,
//! clocks, a disk and a coordinator, all of which fail, from a seed. Nothing here reads a clock or draws by chance,
//! so the same calls have the same effects. docs/SIMULATION.md says what is modelled and what is not.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod coordinator;

#[cfg(feature = "daemon")]
mod agent;
#[cfg(feature = "daemon")]
mod clock;
#[cfg(feature = "daemon")]
mod dice;
#[cfg(feature = "daemon")]
mod drive;
#[cfg(feature = "daemon")]
mod faults;
#[cfg(feature = "daemon")]
mod invariant;
#[cfg(feature = "daemon")]
mod ledger;
#[cfg(feature = "daemon")]
mod network;
#[cfg(feature = "daemon")]
mod run;
#[cfg(feature = "daemon")]
mod server;
#[cfg(feature = "daemon")]
mod trace;
#[cfg(feature = "daemon")]
mod wires;
#[cfg(feature = "daemon")]
mod work;
#[cfg(feature = "daemon")]
mod world;

#[cfg(feature = "daemon")]
pub use run::{Failure, Report, simulate};
