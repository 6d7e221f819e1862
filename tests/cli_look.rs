//! `preclaim ls` and `preclaim watch`, and what commands say when nobody is there.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used, dead_code)] // a helper of a test may fail it; not each test uses each

mod command;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use command::{Dev, Runtime, Said};
use serde_json::Value;

/// A running `preclaim watch`.
struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    fn start(dev: &Dev, args: &[&str]) -> Self {
        let mut command = dev.runtime.command(&[&["watch"], args].concat());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out: BufReader<ChildStdout> = BufReader::new(child.stdout.take().unwrap());
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    return; // and with it goes the reading end of the pipe
                }
            }
        });
        Watch { child, lines }
    }

    /// Its first line: something is decided, again and again, until it is in force.
    fn first(&self, dev: &Dev, path: &str) -> String {
        loop {
            dev.run(&["declare", path, "--for", "1us", "--note", "poke"]).ends(0);
            match self.lines.try_recv() {
                Ok(line) => return line,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => panic!("the watch ended"),
            }
        }
    }

    /// The next line that has `text` in it.
    fn with(&self, text: &str) -> String {
        self.lines.iter().find(|line| line.contains(text)).expect("the watch ended")
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn ls_shows_who_what_how_until_when_and_why() {
    let dev = Dev::start();
    let none = dev.run(&["ls"]).ends(0);
    assert!(none.out.is_empty() && none.err.contains("nothing is granted"), "{none:?}");
    let args = ["declare", "file/src", "db:shared", "--for", "10m", "--id", "7", "--note", "refactor"];
    dev.run(&args).ends(0);
    dev.run_as("bob", &["declare", "yard@0,0..1,1", "--for", "10m", "--in", "5m", "--id", "8"]).ends(0);
    let said = dev.run(&["ls"]).ends(0);
    let lines: Vec<Vec<&str>> = said.out.lines().map(cells).collect();
    assert_eq!(lines[0], ["AGENT", "INTENT", "STATE", "TOKEN", "WHAT", "MODE", "WHEN", "NOTE"]);
    assert_eq!(lines[1][..6], ["ada", "7", "granted", "1", "file/src", "exclusive"]);
    assert!(lines[1][6].starts_with("until ") && lines[1][7] == "refactor", "{said:?}");
    assert_eq!(lines[2], ["db", "shared"]);
    assert_eq!(lines[3][..5], ["bob", "8", "ahead", "2", "yard@0,0..1,1"]);
    assert_eq!(lines.len(), 4);
}

#[test]
fn ls_takes_a_prefix_and_an_agent_and_prints_json() {
    let dev = Dev::start();
    dev.run(&["declare", "file/a", "--for", "10m"]).ends(0);
    dev.run_as("bob", &["declare", "file/b", "--for", "10m"]).ends(0);
    dev.run_as("bob", &["declare", "files", "--for", "10m"]).ends(0);
    let agents = |args: &[&str]| -> Vec<Value> {
        let listed = dev.run(&[&["ls", "--output", "json"], args].concat()).ends(0).json();
        assert_eq!(listed["cut"], Value::from(false));
        listed["entries"].as_array().unwrap().iter().map(|entry| entry["agent"].clone()).collect()
    };
    assert_eq!(agents(&[]).len(), 3);
    assert_eq!(agents(&["file/"]), ["ada", "bob"]);
    assert_eq!(agents(&["file", "--agent", "bob"]), ["bob"]);
    assert!(agents(&["file/c"]).is_empty());
}

#[test]
fn ls_pages_through_all() {
    let dev = Dev::start();
    // More than one page has: batches of one intent each would take as many commands.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let file = std::fs::read_to_string(dev.runtime.path().join("preclaim/dev")).unwrap();
    let addr = file.lines().find_map(|line| line.strip_prefix("addr ")).unwrap();
    let pem = &file[file.find("-----BEGIN").unwrap()..];
    runtime.block_on(async {
        let client = preclaim::Client::builder().addr(addr).ca_pem(pem).name("many").connect().await.unwrap();
        let declare = async |at: u64| {
            let place = preclaim::path(&format!("many/{at}")).unwrap();
            let intent = preclaim::Intent::asap().claim(place.exclusive(), preclaim::secs(600));
            match client.declare(intent).await.unwrap() {
                preclaim::Outcome::Granted(grant) => grant.detach(),
                other => panic!("granted, not {other:?}"),
            }
        };
        for at in (0..300).step_by(3) {
            tokio::join!(declare(at), declare(at + 1), declare(at + 2));
        }
        client.close().await;
    });
    let listed = dev.run(&["ls", "--output", "json"]).ends(0).json();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 300);
    assert_eq!(dev.run(&["ls", "many"]).ends(0).out.lines().count(), 301);
}

#[test]
fn watch_streams_decisions_for_people() {
    let dev = Dev::start();
    let watch = Watch::start(&dev, &["file"]);
    watch.first(&dev, "file/poke");
    dev.run_as("bob", &["declare", "elsewhere", "--for", "10m"]).ends(0);
    let id = dev
        .run_as("bob", &["declare", "file/x", "--for", "10m", "--note", "mine"])
        .ends(0)
        .number_after("intent");
    let granted = watch.with("# mine");
    assert!(!granted.contains("elsewhere"), "{granted}");
    let granted = cells(&granted);
    assert_eq!(granted[1..4], ["bob", &id.to_string(), "granted"]);
    dev.run(&["declare", "file", "--for", "1s"]).ends(10);
    let conflict = watch.with("conflict");
    assert!(conflict.contains(&format!("bob (intent {id}, token ")), "{conflict}");
    assert!(conflict.contains("has file/x (exclusive) until"), "{conflict}");
    dev.run_as("bob", &["release", &id.to_string()]).ends(0);
    watch.with("released");
}

#[test]
fn watch_streams_decisions_as_json_lines_until_it_is_interrupted() {
    let dev = Dev::start();
    let mut watch = Watch::start(&dev, &["--agent", "ada", "--output", "json"]);
    let line: Value = serde_json::from_str(&watch.first(&dev, "poke")).unwrap();
    assert_eq!((&line["agent"], &line["note"]), (&Value::from("ada"), &Value::from("poke")));
    assert!(line["slot"].is_u64() && line["at"].is_u64() && line["granted"]["token"].is_u64(), "{line}");
    let pid = watch.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(watch.code(), Some(0));
}

#[test]
fn watch_ends_quietly_when_its_reader_has_gone() {
    let dev = Dev::start();
    let mut command = dev.runtime.command(&["watch", "--output", "json"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (to, first) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = out.read_line(&mut line);
        drop(out);
        let _ = to.send(line);
    });
    while let Err(TryRecvError::Empty) = first.try_recv() {
        dev.run(&["declare", "poke", "--for", "1us"]).ends(0);
    }
    // Its next line finds nobody.
    while child.try_wait().unwrap().is_none() {
        dev.run(&["declare", "poke", "--for", "1us"]).ends(0);
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_watch_says_that_the_coordinator_has_gone() {
    let mut dev = Dev::start();
    let mut watch = Watch::start(&dev, &[]);
    watch.first(&dev, "poke");
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &dev.child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    dev.child.wait().unwrap();
    assert_eq!(watch.code(), Some(20));
}

#[test]
fn without_a_coordinator_each_command_says_what_to_do() {
    let runtime = Runtime::fresh();
    for args in [
        &["declare", "a", "--for", "1s"][..],
        &["release", "7"],
        &["renew", "7", "--for", "1s"],
        &["ls"],
        &["watch"],
    ] {
        let said = runtime.run(args).ends(20);
        assert!(said.err.starts_with("unreachable: "), "{said:?}");
        assert!(said.err.contains("\n  do   preclaim dev") && said.err.contains("PRECLAIM_ADDR"), "{said:?}");
    }
}

#[test]
fn a_coordinator_that_ended_is_told_apart_from_none() {
    let mut dev = Dev::start();
    dev.kill();
    let said = dev.run(&["ls"]).ends(20);
    assert!(said.err.starts_with("unreachable: nobody listens at 127.0.0.1:"), "{said:?}");
    assert!(said.err.contains("has ended\n  do   preclaim dev"), "{said:?}");
}

#[test]
fn flags_and_variables_lead_to_a_coordinator_and_are_in_what_is_pasted() {
    let dev = Dev::start();
    let file = std::fs::read_to_string(dev.runtime.path().join("preclaim/dev")).unwrap();
    let addr = file.lines().find_map(|line| line.strip_prefix("addr ")).unwrap();
    let ca = dev.runtime.path().join("ca.pem");
    std::fs::write(&ca, &file[file.find("-----BEGIN").unwrap()..]).unwrap();
    let ca = ca.to_str().unwrap();

    let away = Runtime::fresh();
    let reach = ["--addr", addr, "--ca", ca, "--name", "cy"];
    let said = away.run(&[&["declare", "a", "--for", "10m"][..], &reach].concat()).ends(0);
    let id = said.number_after("intent");
    let flags = reach.join(" ");
    assert!(said.err.contains(&format!("preclaim release {id} {flags}")), "{said:?}");

    let mut by_env = away.command(&["ls", "--output", "json"]);
    let listed = Said::by(by_env.env("PRECLAIM_ADDR", addr).env("PRECLAIM_CA", ca), "").ends(0).json();
    assert_eq!(listed["entries"][0]["agent"], Value::from("cy"));

    let mut no_ca = away.command(&["ls"]);
    let said = Said::by(no_ca.env("PRECLAIM_ADDR", addr), "").ends(21);
    assert!(said.err.starts_with("refused: no certificate to trust"), "{said:?}");
    let bad = away.run(&["ls", "--addr", addr, "--ca", "/nowhere.pem"]).ends(21);
    assert!(bad.err.contains("/nowhere.pem"), "{bad:?}");
}

#[test]
fn without_a_name_it_is_the_user_s_on_this_machine() {
    let dev = Dev::start();
    let mut command = dev.runtime.command(&["declare", "a", "--for", "1s", "--output", "json"]);
    let said = Said::by(command.env_remove("PRECLAIM_NAME").env("USER", "grace"), "").ends(0).json();
    assert!(said["agent"].as_str().unwrap().starts_with("grace@"), "{said}");
}

#[test]
fn off_a_terminal_data_is_json_and_talk_is_still_for_people() {
    let dev = Dev::start();
    dev.run(&["declare", "a", "--for", "10m"]).ends(0);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_preclaim"));
    command.args(["declare", "a", "--for", "1s"]).env("XDG_RUNTIME_DIR", dev.runtime.path());
    let said = Said::by(command.env_remove("PRECLAIM_ADDR").env_remove("PRECLAIM_CA"), "").ends(10);
    assert_eq!(said.json()["conflict"]["blockers"][0]["agent"], Value::from("ada"));
    assert!(said.err.starts_with("conflict: a (exclusive) is not free\n  why  ada (intent "), "{said:?}");
}

#[test]
fn nothing_is_coloured_off_a_terminal() {
    let dev = Dev::start();
    let granted = dev.run(&["declare", "a", "--for", "10m"]).ends(0);
    let conflict = dev.run_as("bob", &["declare", "a", "--for", "1s"]).ends(10);
    for said in [&granted, &conflict] {
        assert!(!said.out.contains('\u{1b}') && !said.err.contains('\u{1b}'), "{said:?}");
    }
}

#[test]
fn completion_is_there_for_each_shell() {
    let runtime = Runtime::fresh();
    for shell in ["bash", "zsh", "fish"] {
        let said = runtime.run(&["completion", shell]).ends(0);
        assert!(said.out.contains("declare") && said.out.contains("watch"), "{shell}");
    }
    runtime.run(&["completion", "csh"]).ends(2);
}

/// As on a disk that is full: what a command says is lost, and not what it does.
#[cfg(target_os = "linux")]
#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let dev = Dev::start();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = dev.runtime.command(&["ls", "--output", "json"]);
    let ended = command.env("PRECLAIM_LOG", "trace").stdout(Stdio::null()).stderr(full).status().unwrap();
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn a_dev_coordinator_drains_without_flags_and_ends_with_what_stands() {
    let mut dev = Dev::start();
    dev.run(&["declare", "dock/1", "--for", "60s"]).ends(0);
    let said = dev.run(&["drain", "--deadline", "0s", "--reason", "done"]).ends(0);
    assert_eq!(said.json()["drained"]["left"], 1, "{said:?}");
    assert_eq!(dev.child.wait().unwrap().code(), Some(0));
}
