//! `preclaim hold`: a command that runs under a lease, on the real thing.
#![cfg(all(feature = "daemon", unix))]
#![allow(clippy::unwrap_used, dead_code)] // a helper of a test may fail it; not each test uses each

mod command;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use command::{Dev, Runtime, Said};
use preclaim::types::Fence;
use serde_json::Value;

/// Far longer than any of these tests takes.
const LONG: &str = "10m";

/// A shell script that says so when it runs, and then runs until it is ended; `trap` comes before.
fn runs(trap: &str) -> String {
    format!("{trap}\necho ready\nwhile :; do sleep 0.05; done")
}

/// How long a test may wait for anything before it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// In the environment of a `hold` and of all that it starts: which one it is.
const MARK: &str = "PRECLAIM_TEST_HOLD";

/// A `hold` that has not ended.
struct Held {
    child: Child,
    stdin: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
    err: Box<dyn BufRead>,
    mark: String,
    /// Gone with this, which the watchman hears.
    _watched: Sender<()>,
}

impl Held {
    /// Of `ada`'s, running `script`; `flags` has claims too.
    fn start(dev: &Dev, flags: &[&str], script: &str) -> Self {
        let args = [&["hold"], flags, &["--", "sh", "-c", script]].concat();
        Held::of(&mut dev.runtime.command(&args))
    }

    fn of(command: &mut Command) -> Self {
        Held::saying_to(command, Stdio::piped())
    }

    fn saying_to(command: &mut Command, err: Stdio) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{MARK}={}-{}.", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        command.env(MARK, mark.split_once('=').unwrap().1);
        // A group of its own, whose parent is of the same session: in the tests' own, which may be an orphaned
        // one, the system would stop nobody.
        let command = command.process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(err).spawn().unwrap();
        let err: Box<dyn BufRead> = match child.stderr.take() {
            Some(err) => Box::new(BufReader::new(err)),
            None => Box::new(std::io::empty()),
        };
        let (stdin, out) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let _watched = watch(&mark);
        Held { child, stdin, out, err, mark, _watched }
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        if self.out.read_line(&mut line).unwrap() == 0 {
            let mut err = String::new();
            self.err.read_to_string(&mut err).unwrap();
            panic!("it ended: {err}");
        }
        line.trim_end().to_owned()
    }

    /// Waits until it says `words` on standard error.
    #[track_caller]
    fn says(&mut self, words: &str) -> String {
        let mut said = String::new();
        while !said.contains(words) {
            assert!(self.err.read_line(&mut said).unwrap() > 0, "no {words:?}: {said}");
        }
        said
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Its end, and what was not read yet.
    fn end(mut self) -> Said {
        drop(self.stdin.take());
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.err.read_to_string(&mut err).unwrap();
        Said { code: self.child.wait().unwrap().code().unwrap_or(-1), out, err }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        end_all(&self.mark);
        let _ = self.child.wait();
    }
}

/// Ends all that has `mark` when the test has waited too long, so that what it waits for fails it.
fn watch(mark: &str) -> Sender<()> {
    let (watched, goes) = mpsc::channel();
    let mark = mark.to_owned();
    std::thread::spawn(move || {
        if goes.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            end_all(&mark);
        }
    });
    watched
}

/// Ends what has `mark` in its environment, also what ignores TERM or has left its parents (Linux).
fn end_all(mark: &str) {
    let marked = || {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            environment.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()).then_some(pid)
        })
    };
    // What was started meanwhile is found the next time.
    while marked().filter(|pid| kill(*pid, "KILL")).count() > 0 {}
}

fn kill(pid: u32, name: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status().unwrap().success()
}

fn signal(pid: u32, name: &str) {
    assert!(kill(pid, name));
}

/// The process's state, as `ps` has it; empty where there is none.
fn state(pid: &str) -> String {
    let state = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    String::from_utf8(state.stdout).unwrap().trim().to_owned()
}

/// Whether the process is there and is no mere entry of one that has ended.
fn lives(pid: &str) -> bool {
    !state(pid).is_empty() && !state(pid).starts_with('Z')
}

/// Waits until the process has stopped.
#[track_caller]
fn stops(pid: &str) {
    while !state(pid).starts_with('T') {
        assert!(lives(pid), "it has ended");
    }
}

/// What `name` has, as `ls` lists it.
fn entries(dev: &Dev, name: &str) -> Vec<Value> {
    let listed = dev.run(&["ls", "--agent", name, "--output", "json"]).ends(0).json();
    listed["entries"].as_array().unwrap().clone()
}

fn id(dev: &Dev) -> String {
    entries(dev, "ada")[0]["id"].to_string()
}

/// A `preclaim` in the search path, as a script has it.
fn script(dev: &Dev, text: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-ec", text]);
    let directory = std::path::Path::new(env!("CARGO_BIN_EXE_preclaim")).parent().unwrap();
    shell.env("PATH", format!("{}:/usr/bin:/bin", directory.display()));
    shell.env("XDG_RUNTIME_DIR", dev.runtime.path()).env("PRECLAIM_NAME", "ada").env("TZ", "UTC");
    for name in ["PRECLAIM_ADDR", "PRECLAIM_CA", "PRECLAIM_LOG"] {
        shell.env_remove(name);
    }
    shell
}

#[test]
fn the_command_finds_its_fences_and_its_end_and_the_lease_is_released_after_it() {
    let dev = Dev::start();
    let show =
        "echo $PRECLAIM_FENCE $PRECLAIM_FENCE_0 $PRECLAIM_FENCE_1 ${PRECLAIM_FENCE_2-none} $PRECLAIM_UNTIL";
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
    // As in a `hold` inside of another, of more claims.
    let mut command =
        dev.runtime.command(&["hold", "a", "b:shared", "--lease", "1m", "--", "sh", "-c", show]);
    let said = Said::by(command.env("PRECLAIM_FENCE_2", "1:1"), "").ends(0);
    let words: Vec<&str> = said.out.split_whitespace().collect();
    let [first, zero, one, two, until] = words[..] else { panic!("{said:?}") };
    let fence: Fence = first.parse().unwrap();
    assert!(fence.start.as_us() > 0 && fence.token.number() > 0);
    assert_eq!([zero, one, two], [first, first, "none"], "the claims begin together");
    let until = until.parse::<jiff::Timestamp>().unwrap().as_microsecond();
    assert!(until > before, "{said:?}");
    assert_eq!(said.err, "", "where it goes well it says nothing");
    assert!(entries(&dev, "ada").is_empty());
}

#[test]
fn the_lease_is_held_while_the_command_runs_and_says_which() {
    let dev = Dev::start();
    let mut held = Held::start(&dev, &["a", "--lease", LONG], "echo ready; cat");
    assert_eq!(held.line(), "ready");
    let entry = &entries(&dev, "ada")[0];
    assert_eq!((&entry["hold"], &entry["note"]), (&Value::from(true), &Value::from("sh")));
    dev.run_as("bob", &["declare", "a", "--for", "1s"]).ends(10);
    held.stdin.as_mut().unwrap().write_all(b"through\n").unwrap();
    assert_eq!(held.line(), "through");
    held.end().ends(0);
    dev.run_as("bob", &["declare", "a", "--for", "1s"]).ends(0);
}

#[test]
fn its_exit_code_is_the_command_s() {
    let dev = Dev::start();
    dev.run(&["hold", "a", "--", "sh", "-c", "exit 7"]).ends(7);
    dev.run(&["hold", "a", "--", "sh", "-c", "kill -KILL $$"]).ends(137);
    let missing = dev.run(&["hold", "a", "--", "no-such-command"]).ends(127);
    assert_eq!(missing.err, "error: no-such-command: command not found\n");
    let directory = dev.runtime.path().to_str().unwrap();
    let said = dev.run(&["hold", "a", "--", directory]).ends(126);
    assert!(said.err.starts_with(&format!("error: {directory} cannot be run: ")), "{said:?}");
    assert!(entries(&dev, "ada").is_empty(), "each was released");
}

#[test]
fn what_is_not_had_is_said_and_the_command_does_not_run() {
    let dev = Dev::start();
    dev.run_as("bob", &["declare", "a", "--for", LONG]).ends(0);
    let mark = dev.runtime.path().join("ran");
    let touch = ["--", "touch", mark.to_str().unwrap()];
    let hold = |flags: &[&str]| dev.run(&[&["hold"], flags, &touch].concat());
    let said = hold(&["a"]).ends(10);
    assert!(said.err.starts_with("conflict: a (exclusive) is not free\n  why  bob (intent "), "{said:?}");
    let advice = format!("\n  do   preclaim hold a --wait 10m -- touch {}", mark.display());
    assert!(said.err.contains(&advice), "{said:?}");
    assert!(!said.err.contains("--at"), "a command has no start to be planned: {said:?}");
    let said = hold(&["a", "--wait", "30ms"]).ends(11);
    assert!(said.err.contains("did not become free within 30 ms"), "{said:?}");
    let said = hold(&["pool:5"]).ends(12);
    assert!(said.err.starts_with("rejected: no_capacity"), "{said:?}");
    let said = hold(&["a", "--output", "json"]).ends(10);
    let line: Value = serde_json::from_str(said.err.trim()).unwrap();
    assert_eq!(line["conflict"]["blockers"][0]["agent"], Value::from("bob"));
    assert_eq!(said.out, "", "standard output is the command's");
    assert!(!mark.exists());
    hold(&["b"]).ends(0);
    assert!(mark.exists(), "it would have been seen");
}

#[test]
fn what_is_no_hold_is_usage_and_without_a_coordinator_nothing_runs() {
    let runtime = Runtime::fresh();
    for (args, says) in [
        (&["hold", "a"][..], "COMMAND"),
        (&["hold", "a", "make"], "COMMAND"),
        (&["hold", "--", "make"], "CLAIM"),
        (&["hold", "a", "--"], "COMMAND"),
        (&["hold", "-", "--", "make"], "it is the command's"),
        (&["hold", "a//b", "--", "make"], "a path of 1 to 16 segments"),
        (&["hold", "a", "--lease", "0s", "--", "make"], "at least 1us"),
        (&["hold", "a", "--grace", "5", "--", "make"], "10ms"),
    ] {
        let said = runtime.run(args).ends(2);
        assert!(said.out.is_empty() && said.err.contains(says), "{args:?}: {said:?}");
    }
    let said = runtime.run(&["hold", "a", "--", "echo", "it ran"]).ends(20);
    assert_eq!(said.out, "");
}

#[test]
fn it_waits_and_runs_when_its_turn_comes() {
    let dev = Dev::start();
    let other = dev.run_as("bob", &["declare", "a", "--for", LONG]).ends(0);
    let mut held = Held::start(&dev, &["a", "--wait", "5m"], "echo ran");
    while entries(&dev, "ada").is_empty() {}
    dev.run_as("bob", &["release", &other.number_after("intent").to_string()]).ends(0);
    assert_eq!(held.line(), "ran");
    held.end().ends(0);
}

#[test]
fn an_interrupted_wait_withdraws_and_runs_nothing() {
    let dev = Dev::start();
    dev.run_as("bob", &["declare", "a", "--for", LONG]).ends(0);
    let held = Held::start(&dev, &["a", "--wait", "5m"], "echo ran");
    while entries(&dev, "ada").is_empty() {}
    held.signal("TERM");
    let said = held.end().ends(1);
    assert!(said.out.is_empty() && said.err.contains("the command did not run"), "{said:?}");
    assert!(entries(&dev, "ada").is_empty());
}

#[test]
fn a_lost_lease_ends_the_command_by_term() {
    let dev = Dev::start();
    let mut held =
        Held::start(&dev, &["a", "--lease", LONG, "--grace", LONG], &runs("trap 'echo told; exit 3' TERM"));
    assert_eq!(held.line(), "ready");
    dev.run(&["release", &id(&dev)]).ends(0);
    let said = held.end().ends(14);
    assert_eq!(said.out, "told\n");
    let words = "lease lost: the grant was released; the command gets TERM now, and KILL in 10m\n";
    assert!(said.err.contains(words), "{said:?}"); // the shell may say something too
}

#[test]
fn what_ignores_term_is_killed_with_all_that_it_started() {
    let dev = Dev::start();
    // One below the command, one whose parent has ended, one in a session of its own.
    let start = "trap '' TERM\nsleep 600 & echo $!\n(sleep 600 & echo $!)\nsetsid sleep 600 & echo $!";
    let mut held = Held::start(&dev, &["a", "--lease", LONG, "--grace", "50ms"], &runs(start));
    let mut started: Vec<String> = (0..3).map(|_| held.line()).collect();
    assert_eq!(held.line(), "ready");
    started.retain(|pid| lives(pid));
    assert_eq!(started.len(), 3, "they run");
    dev.run(&["release", &id(&dev)]).ends(0);
    assert_eq!(held.child.wait().unwrap().code(), Some(14));
    started.retain(|pid| lives(pid));
    assert!(started.is_empty(), "{started:?} are left");
    held.says("and KILL in 50ms");
}

#[test]
fn a_command_that_was_stopped_hears_of_its_end_too() {
    let dev = Dev::start();
    let script = format!("echo $$\n{}", runs("trap 'echo told; exit' TERM"));
    let mut held = Held::start(&dev, &["a", "--lease", LONG, "--grace", LONG], &script);
    let pid = held.line();
    assert_eq!(held.line(), "ready");
    signal(pid.parse().unwrap(), "STOP");
    dev.run(&["release", &id(&dev)]).ends(0);
    assert_eq!(held.end().ends(14).out, "told\n");
}

#[test]
fn a_denied_renewal_is_told_and_ends_the_command_before_the_lease() {
    let dev = Dev::start();
    let mut held = Held::start(&dev, &["a", "--lease", "3s"], &runs("trap 'echo told; exit' TERM"));
    assert_eq!(held.line(), "ready");
    dev.run_as("bob", &["declare", "a", "--for", LONG, "--in", "3500ms"]).ends(0);
    let said = held.says("not renewed") + &held.says("the command gets TERM then");
    assert!(said.contains("not renewed: the lease ends at ") && said.contains("why  bob (intent "), "{said}");
    assert_eq!(held.line(), "told");
    let said = held.end().ends(14);
    let words = "and was not renewed; the command gets TERM now, and KILL then\n";
    let mut lines = said.err.split_inclusive('\n'); // the shell may say something too
    let is_it = |line: &str| line.starts_with("lease lost: it ends at ") && line.ends_with(words);
    assert!(lines.any(is_it), "{said:?}");
}

#[test]
fn a_lease_is_renewed_for_as_long_as_the_command_runs() {
    let dev = Dev::start();
    let mut held = Held::start(&dev, &["a", "--lease", "3s"], "echo ready; cat");
    assert_eq!(held.line(), "ready");
    let end = |dev: &Dev| entries(dev, "ada")[0]["granted"]["end"].as_u64().unwrap();
    let first = end(&dev);
    while end(&dev) < first + 3_000_000 {}
    held.end().ends(0);
}

#[test]
fn who_wants_it_is_told() {
    let dev = Dev::start();
    let mut held = Held::start(&dev, &["a", "--lease", LONG], "echo ready; cat");
    assert_eq!(held.line(), "ready");
    dev.run_as("cy", &["declare", "a", "--for", "1s"]).ends(10);
    let said = held.says("contested");
    assert!(said.starts_with("contested: cy (intent ") && !said.contains("waits"), "{said}");
    let mut waits =
        dev.runtime.command(&["declare", "a", "--for", "1s", "--wait", "5m", "--note", "deploys"]);
    let waits =
        waits.env("PRECLAIM_NAME", "bob").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let said = held.says("contested");
    assert!(said.starts_with("contested: bob (intent ") && said.contains(", and waits "), "{said}");
    assert!(said.ends_with(": deploys\n"), "{said}");
    assert_eq!(held.end().ends(0).err, "", "each is told once");
    assert!(waits.wait_with_output().unwrap().status.success());
}

#[test]
fn a_coordinator_that_is_gone_ends_the_command_before_the_lease() {
    let mut dev = Dev::start();
    let mut held = Held::start(&dev, &["a", "--lease", "2s"], &runs("trap 'echo told; exit' TERM"));
    assert_eq!(held.line(), "ready");
    dev.kill();
    let said = held.end().ends(14);
    assert_eq!(said.out, "told\n");
    assert!(said.err.contains("lease lost: "), "{said:?}");
}

#[test]
fn signals_are_handed_on_to_the_command() {
    let dev = Dev::start();
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)] {
        let mut held = Held::start(&dev, &["a"], "ulimit -c 0; echo ready; exec sleep 600");
        assert_eq!(held.line(), "ready");
        held.signal(name);
        assert_eq!(held.end().ends(code).err, "", "{name}");
        assert!(entries(&dev, "ada").is_empty(), "it is released");
    }
    let trap = "trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'exit 5' TERM";
    let mut held = Held::start(&dev, &["a"], &runs(trap));
    assert_eq!(held.line(), "ready");
    held.signal("USR1");
    assert_eq!(held.line(), "usr1");
    held.signal("USR2");
    assert_eq!(held.line(), "usr2");
    held.signal("TERM");
    held.end().ends(5);
}

#[test]
fn a_command_that_was_told_to_end_leaves_nothing_that_goes_on_without_the_lease() {
    let dev = Dev::start();
    let mut held = Held::start(
        &dev,
        &["a", "--grace", "50ms"],
        "(trap '' TERM; echo ready; sleep 600; sleep 600) & echo $!; wait",
    );
    let pid = [held.line(), held.line()].into_iter().find(|line| line != "ready").unwrap();
    held.signal("TERM");
    assert_eq!(held.child.wait().unwrap().code(), Some(143));
    assert!(!lives(&pid));
    assert!(entries(&dev, "ada").is_empty());
}

#[test]
fn what_a_command_leaves_behind_by_itself_goes_on() {
    let dev = Dev::start();
    let said = dev.run(&["hold", "a", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]).ends(0);
    assert!(lives(said.out.trim()));
    signal(said.out.trim().parse().unwrap(), "KILL");
}

#[test]
fn signals_that_were_ignored_from_the_beginning_stay_so() {
    let dev = Dev::start();
    let inside = r#"sh -c 'kill -HUP $$; echo survived'"#;
    let said =
        Said::by(&mut script(&dev, &format!("trap '' HUP; exec preclaim hold a -- {inside}")), "").ends(0);
    assert_eq!(said.out, "survived\n");
    Said::by(&mut script(&dev, &format!("exec preclaim hold a -- {inside}")), "").ends(129);
}

#[test]
fn a_reader_that_goes_ends_the_command_as_without_hold() {
    let dev = Dev::start();
    let mut held = Held::of(&mut dev.runtime.command(&["hold", "a", "--", "yes"]));
    assert_eq!(held.line(), "y");
    let Held { child, .. } = &mut held;
    let pid = child.id();
    drop(std::mem::replace(&mut held.out, BufReader::new(closed())));
    assert_eq!(held.child.wait().unwrap().code(), Some(141), "{pid}");
    assert!(entries(&dev, "ada").is_empty());
}

/// A standard output from which nothing comes.
fn closed() -> ChildStdout {
    let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    child.wait().unwrap();
    child.stdout.take().unwrap()
}

#[test]
fn it_works_in_pipes_and_under_set_e() {
    let dev = Dev::start();
    let said =
        Said::by(&mut script(&dev, "printf 'b\\na\\n' | preclaim hold a -- sort | tr a-z A-Z"), "").ends(0);
    assert_eq!(said.out, "A\nB\n");
    let text = "preclaim hold a -- true; echo after; preclaim hold a -- sh -c 'exit 9'; echo never";
    let said = Said::by(&mut script(&dev, text), "").ends(9);
    assert_eq!(said.out, "after\n");
    let said =
        Said::by(&mut script(&dev, "preclaim hold a -- preclaim hold b -- sh -c 'echo in both'"), "").ends(0);
    assert_eq!(said.out, "in both\n");
    // The inner one is in conflict with the outer one, as any other intent.
    Said::by(&mut script(&dev, "preclaim hold a -- preclaim hold a -- true"), "").ends(10);
}

#[test]
fn programs_are_told_which_grant_it_is() {
    let dev = Dev::start();
    let said = dev.run(&["hold", "a", "--output", "json", "--", "sh", "-c", "echo $PRECLAIM_FENCE"]).ends(0);
    let line: Value = serde_json::from_str(said.err.trim()).unwrap();
    assert_eq!(line["granted"]["fence"], Value::from(said.out.trim()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_hold_that_is_killed_tells_its_command_and_its_lease_runs_out() {
    let dev = Dev::start();
    let script = "trap 'echo told; exit' TERM\necho ready; read line; echo 'it was not told'";
    let mut held = Held::start(&dev, &["a", "--lease", LONG], script);
    assert_eq!(held.line(), "ready");
    held.signal("KILL");
    held.child.wait().unwrap();
    // It has been told by now, or never will be.
    let _ = held.stdin.as_mut().unwrap().write_all(b"\n");
    assert_eq!(held.line(), "told");
    assert_eq!(entries(&dev, "ada").len(), 1, "nobody could release it");
}

/// A shell's script in a terminal of its own, by `script` of util-linux, in which `preclaim` is found; none where
/// the machine has no such program.
#[cfg(target_os = "linux")]
fn in_terminal(dev: &Dev, flags: &str, text: &str) -> Option<Held> {
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("left out: this machine has no script");
        return None;
    }
    let file = dev.runtime.path().join("in-terminal.sh");
    std::fs::write(&file, text).unwrap();
    let mut shell = script(dev, &format!("exec script -qefc 'exec sh {flags} {}' /dev/null", file.display()));
    Some(Held::of(shell.env("SHELL", "/bin/sh")))
}

/// What comes until `words` have come.
#[cfg(target_os = "linux")]
#[track_caller]
fn until(held: &mut Held, words: &str) -> String {
    let mut said = String::new();
    while !said.contains(words) {
        said += &format!("{}\n", held.line());
    }
    said
}

#[cfg(target_os = "linux")]
fn types(held: &mut Held, keys: &str) {
    held.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn in_a_terminal_the_command_reads_from_it_and_ctrl_c_reaches_it_once() {
    let dev = Dev::start();
    let text = r#"exec preclaim hold a -- sh -c '
        trap "echo interrupted" INT
        echo ready; read line; while [ -z "$line" ]; do read line; done; echo "read $line"; exit 4'"#;
    let Some(mut held) = in_terminal(&dev, "", text) else { return };
    assert!(until(&mut held, "ready").contains("held: a (exclusive) until "));
    types(&mut held, "\x03");
    let mut said = until(&mut held, "interrupted");
    types(&mut held, "words\n");
    said += &until(&mut held, "read words");
    assert_eq!(said.matches("interrupted").count(), 1, "{said}");
    assert_eq!(held.child.wait().unwrap().code(), Some(4));
}

#[cfg(target_os = "linux")]
#[test]
fn in_a_terminal_what_is_sent_to_hold_alone_is_handed_on() {
    let dev = Dev::start();
    let text = r#"exec preclaim hold a -- sh -c '
        trap "echo interrupted" INT; trap "echo quit; exit 4" QUIT
        echo "of $PPID."; while :; do sleep 0.05; done'"#;
    let Some(mut held) = in_terminal(&dev, "", text) else { return };
    let said = until(&mut held, "of ");
    let pid = said.split("of ").last().unwrap().split('.').next().unwrap().parse().unwrap();
    signal(pid, "INT");
    until(&mut held, "interrupted");
    signal(pid, "QUIT");
    until(&mut held, "quit");
    assert_eq!(held.child.wait().unwrap().code(), Some(4));
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_z_stops_hold_and_command_for_the_shell_and_fg_continues_both() {
    let dev = Dev::start();
    let text = r#"
        preclaim hold a -- sh -c 'echo ready; read line; while [ -z "$line" ]; do read line; done; echo "read $line"; exit 4'
        echo "stopped $?"
        fg
        echo "ended $?""#;
    let Some(mut held) = in_terminal(&dev, "-m", text) else { return };
    until(&mut held, "ready");
    types(&mut held, "\x1a");
    until(&mut held, "stopped 1");
    types(&mut held, "words\n");
    until(&mut held, "read words");
    until(&mut held, "ended 4");
    assert!(entries(&dev, "ada").is_empty(), "it is released");
}

#[test]
fn a_stop_that_hold_alone_is_asked_for_stops_its_command_and_both_continue() {
    let dev = Dev::start();
    let script = format!("echo $$\n{}", runs("trap 'echo continued' CONT"));
    let mut held = Held::start(&dev, &["a", "--lease", LONG], &script);
    let command = held.line();
    assert_eq!(held.line(), "ready");
    held.signal("TSTP");
    stops(&command);
    stops(&held.child.id().to_string());
    held.signal("CONT");
    assert_eq!(held.line(), "continued");
    held.signal("TERM");
    held.end().ends(143);
}

#[test]
fn a_stop_that_the_command_takes_no_notice_of_does_not_stop_hold() {
    let dev = Dev::start();
    let script = runs("trap '' TSTP; trap 'echo usr1' USR1");
    let mut held = Held::start(&dev, &["a", "--lease", LONG], &script);
    assert_eq!(held.line(), "ready");
    held.signal("TSTP");
    held.signal("USR1");
    assert_eq!(held.line(), "usr1");
    assert_eq!(entries(&dev, "ada").len(), 1);
    held.signal("TERM");
    held.end().ends(143);
}

#[test]
fn a_hold_that_was_stopped_for_longer_than_its_lease_ends_the_command_at_once() {
    let dev = Dev::start();
    let script = format!("echo $$\n{}", runs("trap '' TERM"));
    let mut held = Held::start(&dev, &["a", "--lease", "2s", "--grace", LONG], &script);
    let command = held.line();
    assert_eq!(held.line(), "ready");
    held.signal("STOP");
    while !entries(&dev, "ada").is_empty() {}
    assert!(lives(&command), "nobody ends it while hold is stopped");
    held.signal("CONT");
    let said = held.end().ends(14);
    assert!(said.err.contains("lease lost: "), "{said:?}");
    assert!(!lives(&command));
}

#[test]
fn what_is_left_of_a_command_that_was_told_to_end_does_not_outlive_a_lease_that_nobody_renews() {
    let mut dev = Dev::start();
    let script = "(trap '' TERM; echo ready; sleep 600; sleep 600) & echo $!; wait";
    let mut held = Held::start(&dev, &["a", "--lease", "3s", "--grace", LONG], script);
    let pid = [held.line(), held.line()].into_iter().find(|line| line != "ready").unwrap();
    dev.kill();
    held.signal("TERM");
    let code = held.child.wait().unwrap().code();
    // By which of the two it ended is a matter of what came first.
    assert!([Some(143), Some(14)].contains(&code), "{code:?}");
    assert!(!lives(&pid));
}

/// A pipe that takes nothing more, and its reader, which does not read.
#[cfg(target_os = "linux")]
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    use rustix::fs::{OFlags, fcntl_setfl};
    let (reader, mut writer) = std::io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}

#[cfg(target_os = "linux")]
#[test]
fn a_standard_error_that_nobody_reads_keeps_neither_the_loss_from_the_command_nor_hold_from_its_end() {
    let dev = Dev::start();
    let script = format!("exec 2>&1\n{}", runs("trap 'echo told; exit' TERM"));
    let args = ["hold", "a", "--lease", LONG, "--grace", LONG, "--output", "json", "--", "sh", "-c", &script];
    let (_reader, writer) = full_pipe();
    let mut held = Held::saying_to(&mut dev.runtime.command(&args), writer.into());
    assert_eq!(held.line(), "ready");
    dev.run(&["release", &id(&dev)]).ends(0);
    while held.line() != "told" {} // the shell may say something before it
    held.end().ends(14);
}

/// As another user than the one who runs the tests, who is root.
fn as_nobody(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
    command
}

/// The runtime directory of `dev` again, as if that user had it.
fn given_to_nobody(dev: &Dev) -> std::path::PathBuf {
    use std::os::unix::fs::{PermissionsExt, chown};
    let own = dev.runtime.path().join("nobody");
    std::fs::create_dir_all(own.join("preclaim")).unwrap();
    for entry in std::fs::read_dir(dev.runtime.path().join("preclaim")).unwrap() {
        let entry = entry.unwrap();
        let copy = own.join("preclaim").join(entry.file_name());
        std::fs::copy(entry.path(), &copy).unwrap();
        chown(copy, Some(65534), Some(65534)).unwrap();
    }
    let directory = own.join("preclaim");
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
    chown(directory, Some(65534), Some(65534)).unwrap();
    own
}

/// A program that runs what it is given as root, whoever starts it.
fn becomes_root(dev: &Dev) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = dev.runtime.path().join("becomes-root");
    let found = Command::new("sh").args(["-c", "command -v setpriv"]).output().unwrap();
    if std::fs::copy(String::from_utf8(found.stdout).unwrap().trim(), &path).is_ok() {
        let _ = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755));
    }
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_command_that_hold_may_not_signal_is_given_up_and_that_is_said() {
    let dev = Dev::start();
    let root = becomes_root(&dev);
    let uid = as_nobody(&root).args(["--reuid=0", "--", "id", "-u"]).output();
    let own = as_nobody(env!("CARGO_BIN_EXE_preclaim")).arg("--version").output();
    if uid.is_err() || uid.unwrap().stdout != b"0\n" || !own.unwrap().status.success() {
        eprintln!("left out: only root can try it, where programs may change their user");
        return;
    }
    let hold = ["hold", "a", "--lease", LONG, "--grace", "50ms", "--"];
    let script = "echo $$; echo ready; exec sleep 600";
    let mut command = as_nobody(env!("CARGO_BIN_EXE_preclaim"));
    command.args(hold).args([&root, "--reuid=0", "--", "sh", "-c", script]);
    command.env("XDG_RUNTIME_DIR", given_to_nobody(&dev)).env("PRECLAIM_NAME", "ada");
    for name in ["PRECLAIM_ADDR", "PRECLAIM_CA"] {
        command.env_remove(name);
    }
    let mut held = Held::of(&mut command);
    let pid = held.line();
    assert_eq!(held.line(), "ready");
    dev.run(&["release", &id(&dev)]).ends(0);
    held.says("the command cannot be ended, and goes on");
    assert_eq!(held.child.wait().unwrap().code(), Some(14));
    assert!(lives(&pid));
}
