//! The stories of docs/STORIES.md have the effect that they tell of. Each part is a story's own.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it
#![allow(clippy::duplicate_mod)] // each story brings what all of them share

#[path = "stories/coding_agents.rs"]
mod coding_agents;
#[path = "stories/crossing.rs"]
mod crossing;
#[path = "stories/deadlock.rs"]
mod deadlock;
#[path = "stories/robots.rs"]
mod robots;
#[path = "stories/shared_memory.rs"]
mod shared_memory;
#[path = "stories/stock.rs"]
mod stock;
#[path = "stories/token_budget.rs"]
mod token_budget;
