//! Replays the inputs that fuzzing has kept, of all targets, and those that crashed once: docs/FUZZING.md.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // what cannot be unwrapped here is a test that has failed

mod fuzz_targets;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, panic};

use fuzz_targets::{TARGETS, run};

const DOCUMENT: &str = include_str!("../docs/FUZZING.md");

/// All inputs together: they are read by whoever clones the repository.
const CORPUS_BYTES: u64 = 640 * 1024;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz_corpus").join(target)
}

/// The inputs of a target, by name.
fn inputs(target: &str) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder(target)).unwrap_or_else(|error| panic!("{target}: {error}"));
    let mut inputs: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    inputs
}

/// Runs every input of a target, and one of nothing.
fn replay(target: &str) {
    let inputs = inputs(target);
    assert!(inputs.len() > 10, "{target} has a corpus");
    run(target, &[]);
    for input in inputs {
        let data = fs::read(&input).unwrap();
        let ran = panic::catch_unwind(|| run(target, &data));
        assert!(ran.is_ok(), "{target} fails on {}: see above", input.display());
    }
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn each_target_is_replayed_and_each_has_its_program() {
            let named: BTreeSet<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(named, BTreeSet::from([$(stringify!($name)),*]));
            for target in named {
                let program = format!("{}/fuzz/fuzz_targets/{target}.rs", env!("CARGO_MANIFEST_DIR"));
                let text = fs::read_to_string(&program).unwrap_or_else(|error| panic!("{program}: {error}"));
                assert!(text.contains(&format!("run(\"{target}\", data)")), "{program} runs {target}");
                assert!(DOCUMENT.contains(&format!("| `{target}` |")), "{target} has its row");
            }
        }
    };
}

replays! {
    frames messages coordinator agent trace config expression geometry space audit_record audit_snapshot audit_log
}

#[test]
fn the_inputs_are_small() {
    let of =
        |target: &str| inputs(target).iter().map(|input| fs::metadata(input).unwrap().len()).sum::<u64>();
    let bytes: u64 = TARGETS.iter().map(|(target, _)| of(target)).sum();
    assert!(bytes <= CORPUS_BYTES, "{bytes} bytes");
}
