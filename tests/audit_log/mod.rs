//! State directories with a log in them, as a coordinator leaves them: random traces decided and
//! journaled on a real disk, without a clock or a socket.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use preclaim::audit::{Appended, Journal, SlotEntry};
use preclaim::config::{Config, Durability, StateConfig, TextConfig};
use preclaim::coordinator::{RecoveryError, Restart, StartFrom, recover};
use preclaim::resolver::{Input, Resolver, SlotBatch, SlotOutcome};
use preclaim::session::coordinator::SessionNotes;
use preclaim::store::{FileJournal, OpenError, RealDisk};
use preclaim::types::{Slot, Time};

use super::trace::{Line, Trace};

/// Held while a child is made: until it runs its program it has what this process has locked, though
/// this process may have let go of it.
static FORKING: Mutex<()> = Mutex::new(());

/// A state directory of one test, gone with it.
#[derive(Debug)]
pub(crate) struct Site(PathBuf);

impl Site {
    /// An empty place. `name` is of one test alone.
    pub(crate) fn fresh(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("audit-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Site(path)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.0.join("state")
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The segment files, lowest number first.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let is_segment = |path: &PathBuf| path.to_str().is_some_and(|name| name.contains(".log"));
        let files = std::fs::read_dir(self.dir()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> = files.filter(is_segment).collect();
        files.sort();
        files
    }

    /// Runs `preclaim audit COMMAND.. DIR`.
    pub(crate) fn audit(&self, command: &[&str]) -> Said {
        let mut args = vec!["audit"];
        args.extend(command);
        let dir = self.dir();
        args.push(dir.to_str().unwrap());
        preclaim(&args, "")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.out.trim_end()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs the command with `input` to its end.
pub(crate) fn preclaim(args: &[&str], input: &str) -> Said {
    use std::io::Write;
    let mut child = spawn(args, Stdio::piped());
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes()); // a command that has ended reads none of it
    });
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
}

pub(crate) fn spawn(args: &[&str], stdin: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_preclaim"));
    command.args(args).env("TZ", "UTC").stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let _forking = FORKING.lock();
    command.spawn().unwrap()
}

/// How the log of a trace is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) segment_bytes: u64,
    pub(crate) compress: bool,
    pub(crate) keep_bytes: Option<u64>,
    /// How often the coordinator is started.
    pub(crate) lives: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Kept { segment_bytes: 1 << 20, compress: false, keep_bytes: None, lives: 2 }
    }
}

/// A coordinator without clock and agents.
pub(crate) struct Life {
    pub(crate) resolver: Resolver,
    pub(crate) journal: FileJournal,
    last: Slot,
}

impl Life {
    /// Starts it in `dir`, under the configuration `text`.
    pub(crate) fn start(dir: &Path, text: &str, kept: Kept, from: StartFrom, wall: Time) -> Self {
        let config = Config::parse("the test's", text).unwrap();
        let settings = StateConfig {
            dir: dir.to_owned(),
            durability: Durability::None,
            segment_bytes: kept.segment_bytes,
            keep_for: None,
            keep_bytes: kept.keep_bytes,
            compress: kept.compress,
            text: TextConfig::default(),
        };
        let _no_child_has_it = FORKING.lock();
        let started = || recover(Arc::new(RealDisk::create(dir).unwrap()), &config, &settings, from, wall);
        // A child that was just made may not yet have let go either: its maker goes on a moment before.
        let is_locked =
            |error: &RecoveryError| matches!(error, RecoveryError::Open(OpenError::Locked { .. }));
        let mut restart = started();
        while restart.as_ref().is_err_and(is_locked) {
            std::thread::yield_now();
            restart = started();
        }
        let Restart { recovered, journal, .. } = restart.unwrap();
        let slot = recovered.boot_slot;
        let mut life = Life { resolver: recovered.resolver, journal, last: slot };
        life.decide_due(|_, due| due < slot);
        let length = life.resolver.rules().length;
        let at = slot.opens(length);
        let inputs = recovered.boot_ops.into_iter().map(|op| Input::System { at, op }).collect();
        life.decide(&SlotBatch::new(slot, length, inputs).unwrap());
        life
    }

    pub(crate) fn decide(&mut self, batch: &SlotBatch) {
        let outcome = self.resolver.resolve(batch);
        self.keep(batch, &outcome);
    }

    /// Puts a slot's record into the log, whatever it says.
    pub(crate) fn keep(&mut self, batch: &SlotBatch, outcome: &SlotOutcome) {
        let entry = SlotEntry { batch, outcome, notes: &SessionNotes::default() };
        assert_eq!(self.journal.append(entry), Appended::Committed);
        self.last = batch.slot();
    }

    pub(crate) fn decide_due(&mut self, more: impl Fn(&Resolver, Slot) -> bool) {
        while let Some(due) = self.resolver.next_due().filter(|due| more(&self.resolver, *due)) {
            self.decide(&SlotBatch::empty(due));
        }
    }

    /// Decides those of the batches that come after what was decided.
    pub(crate) fn run(&mut self, batches: &[SlotBatch]) {
        for batch in batches.iter().filter(|batch| !batch.inputs().is_empty()) {
            if batch.slot() > self.last {
                self.decide_due(|_, due| due < batch.slot());
                self.decide(batch);
            }
        }
    }

    /// Goes on until nothing is undecided: as far as `resolve` does.
    pub(crate) fn settle(&mut self) {
        self.decide_due(|resolver, _| resolver.has_undecided());
    }
}

/// Leaves the log of a trace in the site's directory.
pub(crate) fn live(site: &Site, trace: &Trace, kept: Kept) {
    let (dir, text, batches) = (site.dir(), trace.spec.toml(), trace.batches());
    let (mut from, mut at) = (StartFrom::Nothing { token_floor: 1 }, Time::ZERO);
    for (number, part) in batches.chunks(batches.len().div_ceil(kept.lives)).enumerate() {
        let mut life = Life::start(&dir, &text, kept, from, at);
        life.run(part);
        if number + 1 == kept.lives {
            life.settle();
        }
        let length = life.resolver.rules().length;
        (from, at) = (StartFrom::State, life.last.next().next().decided_at(length));
    }
}

/// The traces of these seeds, one after the other, under the rules of the first.
pub(crate) fn long_trace(seeds: std::ops::Range<u64>) -> Trace {
    let mut traces = seeds.map(super::generate::trace);
    let mut all = traces.next().unwrap();
    for trace in traces {
        let shift = all.lines.last().map_or(0, |line| line.at);
        all.lines.extend(trace.lines.into_iter().map(|line| Line { at: line.at + shift, ..line }));
    }
    all
}
