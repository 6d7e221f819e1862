//! The same trace decides alike, however often, however it is fed in, and whatever it is built with.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // what cannot be unwrapped here is a test that has failed

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{env, fs};

use preclaim::config::Config;
use preclaim::resolver::{Resolver, SlotBatch};
use preclaim::trace::{self, TraceReader};
use preclaim::types::Slot;

/// One scenario's files.
struct Story {
    name: String,
    config: Config,
    trace: Vec<u8>,
}

fn stories() -> Vec<Story> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut folders: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.join("trace.jsonl").exists());
    folders.sort();
    let story = |folder: PathBuf| {
        let text = fs::read_to_string(folder.join("config.toml")).unwrap_or_default();
        Story {
            name: folder.file_name().unwrap().to_string_lossy().into_owned(),
            config: Config::parse("config.toml", &text).unwrap(),
            trace: fs::read(folder.join("trace.jsonl")).unwrap(),
        }
    };
    let stories: Vec<Story> = folders.into_iter().map(story).collect();
    assert!(stories.len() > 40, "the worked scenarios are there");
    stories
}

/// Gives out what it holds a few bytes at a time.
struct Drip<'a> {
    rest: &'a [u8],
    sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
}

impl Read for Drip<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let size = self.sizes.next().copied().unwrap_or(1).min(into.len()).min(self.rest.len());
        let (now, later) = self.rest.split_at(size);
        into[..size].copy_from_slice(now);
        self.rest = later;
        Ok(size)
    }
}

fn resolved(story: &Story, input: impl Read) -> String {
    let mut out = Vec::new();
    trace::resolve(story.config.clone(), None, input, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_trace_decides_alike_however_it_is_cut_into_reads() {
    for story in stories() {
        let whole = resolved(&story, &story.trace[..]);
        for sizes in [&[1][..], &[7, 1, 64], &[3, 4096]] {
            let drip = Drip { rest: &story.trace, sizes: sizes.iter().cycle() };
            assert_eq!(resolved(&story, drip), whole, "{} in reads of {sizes:?}", story.name);
        }
    }
}

/// The digest after each slot that was due.
fn digests(story: &Story) -> Vec<(u64, String)> {
    let length = story.config.rules.length;
    let mut reader = TraceReader::new(story.config.clone());
    let lines = story.trace.split(|byte| *byte == b'\n');
    let inputs: Vec<_> = lines.filter_map(|line| reader.read(line).unwrap()).collect();
    let mut resolver = Resolver::new(story.config.rules.clone());
    let mut digests = Vec::new();
    let mut run = |resolver: &mut Resolver, batch: &SlotBatch| {
        let outcome = resolver.resolve(batch);
        digests.push((outcome.slot.number(), outcome.digest.to_string()));
    };
    for inputs in inputs.chunk_by(|a, b| Slot::of(a.at(), length) == Slot::of(b.at(), length)) {
        let slot = Slot::of(inputs[0].at(), length);
        while let Some(due) = resolver.next_due().filter(|due| *due < slot) {
            run(&mut resolver, &SlotBatch::empty(due));
        }
        run(&mut resolver, &SlotBatch::new(slot, length, inputs.to_vec()).unwrap());
    }
    while let Some(due) = resolver.next_due().filter(|_| resolver.has_undecided()) {
        run(&mut resolver, &SlotBatch::empty(due));
    }
    digests
}

#[test]
fn two_runs_of_a_trace_have_equal_digests_after_every_slot() {
    for story in stories() {
        assert_eq!(digests(&story), digests(&story), "{}", story.name);
    }
}

/// The digests are written down, so that another machine, another build and another version of the
/// toolchain must come to the same. A change of the state's shape changes them: `UPDATE=1` writes
/// them anew, to be reviewed.
#[test]
fn digests_are_those_that_are_written_down() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/digests.txt");
    let mut found = String::new();
    for story in stories() {
        let (slot, digest) = digests(&story).pop().unwrap();
        writeln!(found, "{} slot {slot} {digest}", story.name).unwrap();
    }
    if env::var_os("UPDATE").is_some() {
        fs::write(&file, &found).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == written, "digests differ from {}; found:\n{found}", file.display());
}
