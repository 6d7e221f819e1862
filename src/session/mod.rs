//! Sessions: who is who over connections that come and go, both halves without IO.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod agent;
