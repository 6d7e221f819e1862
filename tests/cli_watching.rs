//! `preclaim top`, `hot`, `latency` and `why`, beside a `preclaim dev` that they find by themselves.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used, dead_code)] // a helper of a test may fail it; not each test uses each

mod command;

use command::{Dev, Runtime, Said};
use serde_json::Value;

/// A coordinator in which `ada` has all of `aisle/4`, of which others wanted a part.
fn contended() -> Dev {
    let dev = Dev::start();
    dev.run(&["declare", "aisle/4", "--for", "10m"]).ends(0);
    for _ in 0..6 {
        dev.run_as("bob", &["declare", "aisle/4/left", "--for", "5s"]).ends(10);
    }
    dev
}

/// What the command says once it has seen it all: a slot's decisions are told right before they are counted.
fn once_counted(dev: &Dev, args: &[&str], is_counted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let value = dev.run(args).ends(0).json();
        if is_counted(&value) {
            return value;
        }
    }
}

#[test]
fn top_says_which_path_is_contended_and_who_holds_it() {
    let dev = contended();
    let args = ["top", "--once", "--every", "100ms", "--output", "json"];
    let figures = once_counted(&dev, &args, |it| it["contended"][0]["conflicts"] == 6);
    assert_eq!((&figures["ready"], &figures["readiness"]), (&true.into(), &"ready".into()));
    let path = &figures["contended"][0];
    assert_eq!((&path["path"], &path["holder"]["agent"]), (&"aisle/4".into(), &"ada".into()));
    assert_eq!(figures["health"]["conflict_rate"]["good"], false);
    assert_eq!((&figures["grants"], &figures["agents"][0]["agent"]), (&1.into(), &"ada".into()));
    let Said { out, err, .. } = dev.run(&["top", "--once", "--every", "100ms", "--output", "table"]).ends(0);
    assert!(out.contains("CONTENDED") && out.contains("aisle/4") && out.contains("NOT BELOW 5 %"), "{out}");
    assert_eq!(err, "");
}

#[test]
fn hot_says_what_to_do_and_who_was_in_whose_way() {
    let dev = contended();
    let args = ["hot", "--output", "json"];
    let hot = once_counted(&dev, &args, |it| it["paths"][0]["conflicts"] == 6);
    assert_eq!((&hot["paths"][0]["below"], &hot["paths"][0]["holder"]["agent"]), (&6.into(), &"ada".into()));
    assert_eq!(hot["paths"][0]["advice"][0]["do"], "claim_deeper");
    let pair = &hot["pairs"][0];
    assert_eq!((&pair["asker"], &pair["holder"]), (&"bob".into(), &"ada".into()));
    let out = dev.run(&["hot", "--top", "1", "--output", "table"]).ends(0).out;
    assert!(out.contains("  do  claim deeper: in 6 of 6 conflicts"), "{out}");
}

#[test]
fn latency_has_every_phase_and_goes_on_until_nobody_reads_it() {
    let dev = contended();
    let all = once_counted(&dev, &["latency", "--once", "--output", "json"], |it| {
        it["phases"]["decision"]["count"].as_u64() >= Some(7)
    });
    assert!(all["phases"]["resolve"]["p99_us"].is_u64(), "{all}");
    let table = dev.run(&["latency", "--once", "--output", "table"]).ends(0).out;
    assert!(table.contains("persist") && table.contains("decision"), "{table}");
    let mut command = dev.runtime.command(&["latency", "--every", "100ms"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert!(line["over_us"].is_u64() && line["phases"]["sent"]["buckets"].is_array(), "{line}");
    drop(out);
    assert!(child.wait().unwrap().success(), "a broken pipe ends it quietly");
}

#[test]
fn why_tells_what_was_decided_about_one_intent_and_what_would_have_helped() {
    let dev = Dev::start();
    dev.run(&["declare", "aisle/4", "--for", "10m", "--id", "1"]).ends(0);
    dev.run_as("bob & co", &["declare", "aisle", "--for", "5s", "--id", "7"]).ends(10);
    let said = dev.run(&["why", "bob & co/7", "--output", "json"]).ends(0);
    assert_eq!(said.err, "", "all since its start is kept");
    let said = said.json();
    assert_eq!(
        (&said["agent"], &said["id"], &said["kept"]["whole"]),
        (&"bob & co".into(), &7.into(), &true.into())
    );
    assert_eq!(said["events"][0]["input"]["declare"]["claims"][0]["path"], "aisle");
    let decided = &said["events"][1];
    assert_eq!(decided["decision"]["conflict"]["final"], true);
    assert!(decided["rank"]["score"].is_f64(), "{said}");
    let holder = &decided["in_the_way"][0];
    assert_eq!(
        (&holder["agent"], &holder["decided"]["holds"]),
        (&"ada".into(), &"aisle/4 (exclusive)".into())
    );
    assert!(holder["decided"]["rank"]["score"].is_f64(), "{said}");
    assert_eq!(said["would_have"][0]["start"]["at"], decided["decision"]["conflict"]["offer"]);
    assert_eq!(said["would_have"][1]["deeper_than"][0], "aisle/4");
    let told = dev.run(&["why", "bob & co/7", "--output", "table"]).ends(0).out;
    for what in
        ["declares aisle (exclusive) 5.0 s, class 0", "ada/1 (token 1, class 0, score 0", "deeper paths: "]
    {
        assert!(told.contains(what), "{what}: {told}");
    }
}

#[test]
fn why_says_where_else_to_ask_of_what_is_not_known_or_not_shown() {
    let dev = contended();
    let said = dev.run(&["why", "car 7/41"]).ends(2);
    assert!(said.err.contains("car 7/41: the coordinator knows nothing of it"), "{said:?}");
    assert!(said.err.contains("preclaim why 'car 7/41' --config FILE"), "{said:?}");
    assert!(said.err.contains("preclaim ls --agent 'car 7'"), "{said:?}");
    dev.run(&["why", "car-7"]).ends(2);
    let shown_less = Dev::with("[metrics]\naddr = \"127.0.0.1:0\"\n");
    let said = shown_less.run(&["why", "car-7/41"]).ends(21);
    assert!(said.err.contains("--page") && said.err.contains("--config FILE"), "{said:?}");
    let said = dev.run(&["why", "car-7/41", "--dir", "/nowhere", "--watching", "127.0.0.1:1"]);
    assert!(said.err.contains("/nowhere"), "a log is read, and nobody asked: {said:?}");
}

#[test]
fn where_nobody_can_be_asked_it_says_what_to_set() {
    let runtime = Runtime::fresh();
    for command in ["top", "hot", "latency", "why"] {
        let args = match command {
            "top" => vec!["top", "--once"],
            "why" => vec!["why", "car-7/41"],
            _ => vec![command],
        };
        let said = runtime.run(&args).ends(20);
        assert!(said.err.contains("PRECLAIM_WATCHING") && said.err.contains("[metrics] addr"), "{said:?}");
        let said = runtime.run(&[&args[..], &["--watching", "http://127.0.0.1:1/metrics"]].concat()).ends(20);
        assert!(said.err.contains("http://127.0.0.1:1/") && said.err.contains("[metrics] addr"), "{said:?}");
    }
    let said = runtime.run(&["top", "--output", "table"]).ends(2);
    assert!(said.err.contains("--once"), "{said:?}");
}

#[cfg(target_os = "linux")]
mod terminal {
    use std::fs::File;
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::ffi::OsStrExt;
    use std::process::{Child, Stdio};

    use rustix::process::{Pid, Signal, kill_process};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

    use super::contended;
    use crate::command::Dev;

    /// A terminal of the test's own: what is typed and read on one side is a terminal on the other.
    struct Terminal {
        ours: File,
        theirs: File,
    }

    impl Terminal {
        fn open() -> Self {
            let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
            grantpt(&ours).unwrap();
            unlockpt(&ours).unwrap();
            let name = ptsname(&ours, Vec::new()).unwrap();
            let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
            let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
            let theirs = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
            let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
            tcsetwinsize(&theirs, size).unwrap();
            Terminal { ours: ours.into(), theirs: theirs.into() }
        }

        fn top(&self, dev: &Dev) -> Child {
            let side = || Stdio::from(self.theirs.try_clone().unwrap());
            let mut command = dev.runtime.command(&["top"]);
            command.env("TERM", "xterm").stdin(side()).stdout(side()).stderr(side()).spawn().unwrap()
        }

        /// Reads until `text` was shown.
        fn until(&mut self, text: &str) -> String {
            let mut shown = Vec::new();
            while !String::from_utf8_lossy(&shown).contains(text) {
                let mut some = [0; 4096];
                let length = self.ours.read(&mut some).unwrap();
                shown.extend(&some[..length]);
            }
            String::from_utf8_lossy(&shown).into_owned()
        }

        /// What is still to be read once nobody has the other side any more.
        fn rest(self) -> String {
            let Terminal { mut ours, theirs } = self;
            drop(theirs);
            let mut shown = Vec::new();
            match ours.read_to_end(&mut shown) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.raw_os_error(), Some(5), "{:?} {error}", ErrorKind::Other),
            }
            String::from_utf8_lossy(&shown).into_owned()
        }
    }

    #[test]
    fn the_screen_names_the_path_and_the_terminal_is_put_back_by_a_key_and_by_a_signal() {
        let dev = contended();
        for by_key in [true, false] {
            let mut terminal = Terminal::open();
            let before = tcgetattr(&terminal.theirs).unwrap();
            let mut top = terminal.top(&dev);
            let shown = terminal.until("aisle/4");
            assert!(shown.contains("\u{1b}[?1049h"), "it has a screen of its own: {shown:?}");
            let meanwhile = tcgetattr(&terminal.theirs).unwrap();
            assert_ne!(meanwhile.local_modes, before.local_modes, "keys come one by one");
            if by_key {
                terminal.ours.write_all(b"q").unwrap();
            } else {
                let pid = Pid::from_raw(top.id().try_into().unwrap()).unwrap();
                kill_process(pid, Signal::TERM).unwrap();
            }
            assert!(top.wait().unwrap().success());
            assert_eq!(tcgetattr(&terminal.theirs).unwrap().local_modes, before.local_modes);
            let rest = terminal.rest();
            assert!(rest.contains("\u{1b}[?1049l") && rest.contains("\u{1b}[?25h"), "{rest:?}");
        }
    }
}
