//! The `preclaim` command: see `preclaim --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    preclaim::cli::main()
}
