//! What the fuzz targets do with their bytes. `fuzz/` drives them with new inputs, guided by coverage; tests/fuzz_corpus.rs
//! replays the inputs that are kept. Each holds what it drives against its promises, so that a wrong answer is found
//! as a panic is.
#![allow(dead_code, clippy::unwrap_used)] // each program uses its own part; what fails here fails the input

mod agent;
mod audit_body;
mod audit_log;
mod config;
mod coordinator;
mod declaring;
mod geometry;
mod script;
mod space;
mod trace;
mod wire;

/// What is done with the bytes.
type Target = fn(&[u8]);

/// Every target by its name, which is that of its corpus in tests/fuzz_corpus/ and of its program in fuzz/.
pub(crate) const TARGETS: &[(&str, Target)] = &[
    ("frames", wire::frames),
    ("messages", wire::messages),
    ("coordinator", coordinator::coordinator),
    ("agent", agent::agent),
    ("trace", trace::trace),
    ("config", config::config),
    ("expression", config::expression),
    ("geometry", geometry::geometry),
    ("space", space::space),
    ("audit_record", audit_body::record),
    ("audit_snapshot", audit_body::snapshot),
    ("audit_log", audit_log::audit_log),
];

/// Runs the target of that name on `data`.
pub(crate) fn run(target: &str, data: &[u8]) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of that name");
    run(data);
}
