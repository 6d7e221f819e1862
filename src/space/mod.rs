//! Space and time: which shapes meet, and which windows are free.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod geometry;
pub mod motion;
mod packed;
pub mod profile;
pub mod regions;
mod tree;
pub mod windows;
