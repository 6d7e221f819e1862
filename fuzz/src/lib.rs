//! The fuzz targets, by name: the same that `cargo test` replays the kept inputs with.

#[path = "../../tests/fuzz_targets/mod.rs"]
mod fuzz_targets;

/// Runs the target of that name on `data`.
///
/// # Panics
/// Where what it drives does not keep its promises.
pub fn run(target: &str, data: &[u8]) {
    fuzz_targets::run(target, data);
}
