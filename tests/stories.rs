//! The stories of docs/STORIES.md have the effect that they tell of. Each part is a story's own.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

#[path = "stories/crossing.rs"]
mod crossing;
