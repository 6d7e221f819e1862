//! The protocol's rooms, driven without a thread, a socket or a clock.
//!
//! [`coordinator`] is a whole coordinator as one value: messages and the time go in, what is to be sent
//! comes out. It stands under simulations and under tests of agents. Nothing here reads a clock or
//! draws by chance, so the same calls have the same effects.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod coordinator;
