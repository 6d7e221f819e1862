//! What a guarded store does with a fence: it keeps the highest that it has seen of each key, and refuses
//! a write that comes with a lower one.
//!
//! A lease alone protects nothing from its own holder: one that was stopped past its end goes on as if it
//! still held it. Only the store that it writes to can refuse it, and it can once the next holder has been
//! there, since that one's [`Fence`] is higher. The fence comes with the write, from `Grant::fence` or from
//! `PRECLAIM_FENCE`, and a [`Gate`] stands before the write:
//!
//! ```
//! use preclaim::fence::{Gate, MemoryKeep, Refused};
//! use preclaim::types::Fence;
//!
//! let gate = Gate::new(MemoryKeep::default());
//! let (first, second): (Fence, Fence) = ("1000:7".parse()?, "5000:4".parse()?);
//! let mut file = String::new();
//! gate.admit("file/README.md", first, || file.push_str("first "))?;
//! gate.admit("file/README.md", second, || file.push_str("second "))?;
//! // The first holder was stopped, and wakes.
//! let late = gate.admit("file/README.md", first, || file.push_str("late"));
//! assert!(matches!(late, Err(Refused::Lower { highest, .. }) if highest == second));
//! assert_eq!(file, "first second ");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Keep`] is where the gate keeps what it has seen: [`MemoryKeep`] for what is gone with the process
//! anyway, [`FileKeep`] for a file. Where the store is a database, the fence belongs into the row that it
//! guards, checked and written by one statement: docs/FENCING.md has it for SQLite, PostgreSQL and Redis.
//!
//! This room must never admit a write before its fence is as durable as its [`Keep`] makes it, and never
//! take what cannot be read for a store that has seen nothing.

mod file;
mod gate;
mod keep;

pub use file::{FileError, FileKeep};
pub use gate::{Gate, Refused};
pub use keep::{Full, Keep, MemoryKeep};

pub use crate::types::Fence;
