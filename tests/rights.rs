//! Rights and allowances against the real commands: what rules let agents do, what they are told, and what
//! stands in the record.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

#[allow(dead_code)] // a part of it is enough here
mod command;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use command::{Runtime, Said};
use serde_json::Value;

const RULES: &str = r#"
[[rule]]
name = "vault"
path = "vault"
modes = []
[[rule]]
name = "boss"
who = "boss"
read = true
administer = true
[[rule]]
name = "robots"
who = "robot-*"
path = "aisle/*"
modes = ["exclusive"]
class = 3
duration = "30s"
read = true
[[rule]]
name = "rest"
who = "robot-*"
[allowance]
size = 20
refill = 0.01
"#;

/// A coordinator under these rules, and its directory.
struct Home {
    runtime: Runtime,
    serve: Child,
    addr: String,
}

impl Home {
    fn open() -> Self {
        let runtime = Runtime::fresh();
        for args in [&["init"][..], &["server", "localhost", "127.0.0.1"]] {
            let mut certs = runtime.command(&["certs"]);
            Said::by(certs.current_dir(runtime.path()).args(args), "").ends(0);
        }
        let text = format!(
            "[listen]\naddr = \"127.0.0.1:0\"\n[tls]\ncert = \"certs/server.crt\"\nkey = \"certs/server.key\"\n\
             [auth]\nmode = \"open\"\n[state]\ndir = \"state\"\nsegment_size = \"1MiB\"\n{RULES}"
        );
        fs::write(runtime.path().join("preclaim.toml"), text).unwrap();
        let mut home = Home { serve: Home::serve(&runtime, &["--new"]), runtime, addr: String::new() };
        home.hear_address();
        home
    }

    fn serve(runtime: &Runtime, args: &[&str]) -> Child {
        let mut command = runtime.command(&["serve", "--config", "preclaim.toml"]);
        command.current_dir(runtime.path()).args(args).stdin(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn hear_address(&mut self) {
        let said = BufReader::new(self.serve.stderr.take().unwrap());
        let mut lines = said.lines().map(Result::unwrap);
        let line = lines.find(|line| line.starts_with("listening on ")).expect("it listens");
        let addr = line.split_whitespace().nth(2).unwrap();
        self.addr = format!("localhost:{}", addr.rsplit_once(':').unwrap().1);
        // What else it says has a reader as long as it runs.
        std::thread::spawn(move || lines.for_each(drop));
    }

    /// The command as agent `name`.
    fn by(&self, name: &str, args: &[&str]) -> Said {
        let mut command = self.runtime.command(args);
        command.current_dir(self.runtime.path()).env("PRECLAIM_NAME", name);
        command.env("PRECLAIM_ADDR", &self.addr).env("PRECLAIM_CA", "certs/ca.crt");
        Said::by(&mut command, "")
    }

    /// A command on the log.
    fn audit(&self, args: &[&str]) -> Said {
        let mut command = self.runtime.command(&["audit"]);
        Said::by(command.current_dir(self.runtime.path()).args(args), "").ends(0)
    }

    /// The notes about rights in the last records.
    fn notes(&self) -> Vec<Value> {
        let lines = self.audit(&["tail", "-n", "1000", "state", "--output", "json"]).out;
        let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        records.filter_map(|record| record["rights"].as_array().cloned()).flatten().collect()
    }

    fn stop(&mut self) {
        let id = self.serve.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.serve.wait().unwrap().success());
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.serve.kill();
        let _ = self.serve.wait();
    }
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|why| panic!("{why}: {said:?}"))
}

#[test]
fn rules_say_who_may_claim_look_and_end_and_all_that_they_forbid_stands_in_the_record() {
    let mut home = Home::open();
    home.by("robot-1", &["declare", "aisle/4", "--for", "20s", "--id", "1"]).ends(0);
    let refused = home.by("robot-1", &["declare", "vault/a", "--for", "1s", "--id", "2"]).ends(21);
    assert!(refused.err.contains("forbidden") && refused.err.contains("rule \"vault\""), "{refused:?}");
    let long = home.by("robot-1", &["declare", "aisle/5", "--for", "31s"]).ends(21);
    assert!(long.err.contains("claims[0].duration") && long.err.contains("\"robots\""), "{long:?}");
    let stranger = home.by("car", &["declare", "aisle/5", "--for", "1s"]).ends(21);
    assert!(stranger.err.contains("no rule is about it"), "{stranger:?}");
    let all = home.by("robot-2", &["ls"]).ends(21);
    assert!(all.err.contains("look at others' claims") || all.err.contains("no `read`"), "{all:?}");
    assert!(home.by("robot-2", &["ls", "aisle/4"]).ends(0).out.contains("robot-1"));
    assert!(home.by("robot-1", &["ls", "--agent", "robot-1"]).ends(0).out.contains("aisle/4"));
    home.by("robot-2", &["release", "robot-1/1", "--reason", "mine"]).ends(21);
    home.by("boss", &["release", "robot-1/1", "--reason", "stands on the rail"]).ends(0);
    home.by("boss", &["release", "robot-1/1", "--reason", "again"]).ends(12);
    home.stop();
    let notes = home.notes();
    let forbidden: Vec<(&str, &str, Option<&str>, &str)> = notes
        .iter()
        .filter_map(|note| note.get("forbidden"))
        .map(|it| {
            let text = |key: &str| it[key].as_str().unwrap();
            (text("agent"), text("tried"), it["rule"].as_str(), text("by"))
        })
        .collect();
    let expected = [
        ("robot-1", "declare", Some("vault"), "mode"),
        ("robot-1", "declare", Some("robots"), "duration"),
        ("car", "declare", None, "no_rule"),
        ("robot-2", "look", Some("vault"), "read"),
        ("robot-2", "administer", None, "administer"),
    ];
    assert_eq!(forbidden, expected);
    let administered = notes.iter().filter(|note| note["administered"]["by"] == "boss").count();
    assert_eq!(administered, 2);
    let why = home.audit(&["why", "robot-1/1", "state", "--output", "table"]).out;
    assert!(why.contains("(asked by boss)") && why.contains("robot-2 releases robot-1/1"), "{why}");
    home.audit(&["verify", "state"]);
    home.audit(&["replay", "state"]);
    let inputs = home.audit(&["export", "--inputs", "state"]).out;
    let decided = Said::by(&mut home.runtime.command(&["resolve"]), &inputs).ends(0).out;
    assert!(
        decided.starts_with(&home.audit(&["export", "--decisions", "state"]).out),
        "the core knows nothing of it"
    );
}

#[test]
fn what_counts_of_a_priority_is_told_and_recorded_and_outlives_a_restart() {
    let mut home = Home::open();
    let declare = |home: &Home, path: &str, more: &[&str]| {
        home.by("robot-1", &[&["declare", path, "--for"], more].concat()).ends(0)
    };
    let urgent = ["20s", "--urgency", "1", "--output", "json"];
    let paid = json(&declare(&home, "aisle/2", &urgent));
    let left = paid["in_force"]["allowance"]["left"].as_f64().unwrap();
    assert!(paid["in_force"]["lowered"] == false && (0.0..0.1).contains(&left), "{paid}");
    let spent = json(&declare(&home, "aisle/1", &[&urgent[..], &["--id", "1"]].concat()));
    let counts = &spent["in_force"];
    assert_eq!(
        (&counts["urgency"], &counts["by_allowance"]),
        (&Value::from(0.0), &Value::from(true)),
        "{spent}"
    );
    let said = declare(&home, "aisle/1", &["20s", "--urgency", "1", "--id", "1"]);
    assert!(said.err.contains("class 0, urgency 0 count") && said.err.contains("of 20 credits"), "{said:?}");
    let high = declare(&home, "aisle/3", &["5s", "--class", "7", "--id", "3"]);
    assert!(high.err.contains("rule \"robots\" has no more; the allowance"), "{high:?}");
    home.stop();
    let sent: Vec<Value> = home.notes().into_iter().filter_map(|note| note.get("lowered").cloned()).collect();
    let said: Vec<_> = sent.iter().map(|it| (it["class"].clone(), it["urgency"].clone())).collect();
    // The second is the first again.
    let expected = [(0, 1.0), (0, 1.0), (7, 0.0)].map(|(class, urgency)| (class.into(), urgency.into()));
    assert_eq!(said, expected);
    let why = home.audit(&["why", "robot-1/3", "state", "--output", "table"]).out;
    assert!(
        why.contains("class 0 (sent class 7, urgency 0, lowered by rule \"robots\" and its allowance)"),
        "{why}"
    );
    home.serve = Home::serve(&home.runtime, &[]);
    home.hear_address();
    // The allowance is full now: it would count for more, and be another intent.
    let again = json(&declare(&home, "aisle/1", &[&urgent[..], &["--id", "1"]].concat()));
    assert_eq!(again["granted"]["token"], spent["granted"]["token"], "{again}");
    assert_eq!(again["in_force"]["urgency"], 0.0);
}

#[test]
fn a_check_says_what_an_agent_may_claim_and_why() {
    let runtime = Runtime::fresh();
    fs::write(runtime.path().join("rules.toml"), RULES).unwrap();
    let check = |args: &[&str]| {
        let mut command = runtime.command(&["config", "check"]);
        Said::by(command.current_dir(runtime.path()).args(args), "")
    };
    let asked = |more: &[&str]| check(&[&["--config", "rules.toml", "--as", "robot-7"], more].concat());
    let allowed = asked(&["aisle/4", "--for", "10s", "--class", "7", "--output", "table"]).ends(0);
    for says in [
        "allowed: robot-7",
        "rule \"robots\": robot-* on aisle/*: exclusive, for up to 30.0 s",
        "class 3, urgency 0 count, no more by rule \"robots\"",
        "30 credits, and a purse holds 20",
    ] {
        assert!(allowed.out.contains(says), "{says}: {allowed:?}");
    }
    let forbidden = json(&asked(&["aisle/4", "vault", "--output", "json"]).ends(21));
    assert_eq!(
        (&forbidden["allowed"], &forbidden["forbidden"]["rule"]),
        (&Value::from(false), &Value::from("vault"))
    );
    let each: Vec<bool> =
        forbidden["claims"].as_array().unwrap().iter().map(|it| it["allowed"].as_bool().unwrap()).collect();
    assert_eq!(each, [true, false]);
    let rules = asked(&["--output", "table"]).ends(0).out;
    assert_eq!(rules.lines().filter(|line| line.starts_with("rule ")).count(), 3, "{rules}");
    check(&["rules.toml"]).ends(0);
    check(&["rules.toml", "--as", "robot-7"]).ends(2);
    check(&["--config", "rules.toml", "--as", "robot-7", "a//b"]).ends(2);
}
