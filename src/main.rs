//! The `preclaim` command: see `preclaim --help`.

use std::process::ExitCode;

/// What comes in on one thread is given back on another, the slot loop's, which this takes at half the cost of the
/// system's.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    preclaim::cli::main()
}
