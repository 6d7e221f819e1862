//! Sessions: who is connected under which name, and which lane an intent lives on; both halves.
//!
//! Sans-IO: messages and the time come in as arguments, what is to be sent comes out as data. This
//! room must never decide anything about an intent; that is the resolver's.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod agent;
pub mod coordinator;
