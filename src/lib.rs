//! preclaim: a coordinator that takes *intents*.
//!
//! Before it acts, an agent declares what it will use and when. The coordinator collects what all
//! agents declare in fixed slots, orders what overlaps, and answers right after the slot's end: a
//! grant with a fencing token, or a conflict that says who is in the way and what is free instead.
//!
//! An agent's author begins at `client` (feature `client`), who embeds a coordinator at
//! `coordinator` (feature `daemon`, the default), who wants to know how it decides at [`resolver`].
//!
//! The rooms, lowest layer first (docs/ARCHITECTURE.md has the map and the rules between them):
//! [`types`] and [`limits`] hold the nouns; [`space`], [`priority`] and [`resolver`] decide, purely;
//! [`wire`], [`slot`] and [`session`] are the protocol without IO; [`sim`] drives these without a thread or
//! a socket; the others are the shells.

#[cfg(feature = "daemon")]
pub mod audit;
#[cfg(feature = "daemon")]
pub mod bench;
#[cfg(feature = "daemon")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "daemon")]
pub mod clock;
#[cfg(feature = "daemon")]
pub mod config;
#[cfg(feature = "daemon")]
pub mod coordinator;
#[cfg(feature = "daemon")]
pub mod doctor;
pub mod fence;
#[cfg(feature = "daemon")]
pub mod host;
pub mod limits;
#[cfg(all(feature = "daemon", any(feature = "otlp", test)))]
pub mod otlp;
#[cfg(feature = "daemon")]
pub mod pki;
pub mod priority;
#[cfg(feature = "daemon")]
pub mod replay;
pub mod resolver;
pub mod session;
pub mod sim;
pub mod slot;
pub mod space;
#[cfg(feature = "daemon")]
pub mod store;
#[cfg(feature = "daemon")]
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "daemon")]
pub mod trace;
#[cfg(feature = "daemon")]
pub mod transport;
pub mod types;
pub mod wire;

#[cfg(feature = "client")]
pub use client::{Client, Event, Grant, Intent, Outcome, millis, path, secs};

/// The README's code is compiled with the documentation tests.
#[cfg(all(doctest, feature = "daemon", feature = "testing"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
