//! `preclaim declare`, `release` and `renew` as a person or a script uses them.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used, dead_code)] // a helper of a test may fail it; not each test uses each

mod command;

use command::{Dev, Runtime, Said};
use serde_json::Value;

/// Far longer than any of these tests takes.
const LONG: &str = "10m";

#[test]
fn the_first_five_minutes_go_as_the_readme_says() {
    let dev = Dev::start();
    assert!(dev.said.contains("listening on 127.0.0.1:"), "{}", dev.said);
    assert!(dev.said.contains("no authentication, and nothing is kept"), "{}", dev.said);

    let granted = dev.run(&["declare", "file/README.md", "--for", LONG]).ends(0);
    assert!(granted.out.starts_with("granted: file/README.md (exclusive) until "), "{granted:?}");
    let (id, token) = (granted.number_after("intent"), granted.number_after("token"));

    let conflict = dev.run_as("bob", &["declare", "file/README.md", "--for", "5s"]).ends(10);
    assert_eq!(conflict.out, "", "talk is no data");
    let lines: Vec<&str> = conflict.err.lines().collect();
    assert_eq!(lines[0], "conflict: file/README.md (exclusive) is not free");
    let why = format!("  why  ada (intent {id}, token {token}) has file/README.md (exclusive) until ");
    assert!(lines[1].starts_with(&why) && lines[1].contains(", in 9 min "), "{conflict:?}");
    assert!(lines[2].starts_with("  do   preclaim declare file/README.md --for 5s --wait "), "{conflict:?}");
    assert!(lines[3].starts_with("  or   preclaim declare file/README.md --for 5s --at 20"), "{conflict:?}");
    assert!(lines[3].contains("which is free now"), "{conflict:?}");

    let released = dev.run(&["release", &id.to_string()]).ends(0);
    assert_eq!(released.out, format!("released: intent {id}\n"));
    dev.run_as("bob", &["declare", "file/README.md", "--for", "5s"]).ends(0);
}

#[test]
fn a_grant_lives_on_when_its_command_has_ended() {
    let dev = Dev::start();
    let granted = dev.run(&["declare", "a", "b:shared", "--for", LONG, "--output", "json"]).ends(0).json();
    let listed = dev.run(&["ls", "--output", "json"]).ends(0).json();
    assert_eq!(listed["entries"][0]["granted"]["token"], granted["granted"]["token"]);
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn the_offer_can_be_pasted_and_is_granted() {
    let dev = Dev::start();
    dev.run(&["declare", "a", "--for", LONG]).ends(0);
    let conflict = dev.run_as("bob", &["declare", "a", "--for", "5s", "--note", "it's me"]).ends(10);
    let line = conflict.err.lines().find(|line| line.contains("--at ")).unwrap();
    let pasted = line.trim_start_matches("  or   ").split("      ").next().unwrap();
    let path = format!(
        "{}:/usr/bin:/bin",
        std::path::Path::new(env!("CARGO_BIN_EXE_preclaim")).parent().unwrap().display()
    );
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &format!("{pasted} --output table")])
        .env("PATH", path)
        .env("XDG_RUNTIME_DIR", dev.runtime.path());
    let granted = Said::by(shell.env("PRECLAIM_NAME", "bob"), "").ends(0);
    assert!(granted.out.contains(" from ") && granted.out.contains(" until "), "{granted:?}");
}

#[test]
fn json_has_the_same_lines_as_offline() {
    let dev = Dev::start();
    let json = |said: Said, code| said.ends(code).json();
    let granted =
        json(dev.run(&["declare", "a", "--for", LONG, "--hold", "--id", "7", "--output", "json"]), 0);
    let body = &granted["granted"];
    assert_eq!((&granted["agent"], &granted["id"]), (&Value::from("ada"), &Value::from(7)));
    let (start, end) = (body["start"].as_u64().unwrap(), body["end"].as_u64().unwrap());
    assert_eq!(end - start, 600_000_000);
    assert_eq!(body["fence"], Value::from(format!("{start}:{}", body["token"])));

    let conflict = json(dev.run_as("bob", &["declare", "a/b", "--for", "1s", "--output", "json"]), 10);
    let blocker = &conflict["conflict"]["blockers"][0];
    assert_eq!((&blocker["agent"], &blocker["id"]), (&Value::from("ada"), &Value::from(7)));
    assert_eq!(blocker["holding"]["path"], Value::from("a"));
    assert_eq!(blocker["holding"]["window"], Value::from(vec![start, end]));
    assert_eq!(conflict["conflict"]["offer"], Value::from(end));
    assert_eq!(conflict["conflict"]["final"], Value::from(true));

    let renewed = json(dev.run(&["renew", "7", "--for", "20m", "--output", "json"]), 0);
    assert!(renewed["renewed"]["end"].as_u64().unwrap() > end, "{renewed}");
    let released = json(dev.run(&["release", "7", "--output", "json"]), 0);
    assert_eq!(released["released"], serde_json::json!({}));
    let nothing = json(dev.run(&["release", "7", "--output", "json"]), 12);
    assert_eq!(nothing["released"]["unknown"], Value::from(true));
    let nothing = json(dev.run(&["renew", "7", "--for", "1s", "--output", "json"]), 12);
    assert_eq!(nothing["renew_denied"]["unknown"], Value::from(true));
    let rejected = json(dev.run(&["declare", "pool:5", "--for", "1s", "--output", "json"]), 12);
    assert_eq!(rejected["rejected"]["reason"], Value::from("no_capacity"));
}

#[test]
fn a_claim_is_all_or_nothing_and_only_what_is_in_the_way_is_named() {
    let dev = Dev::with("[[resource]]\npath = \"pool\"\ncapacity = 5\n");
    dev.run(&["declare", "pool:3", "yard@0,0..2,2", "--for", LONG]).ends(0);
    dev.run_as("bob", &["declare", "yard@2,0..3,2", "pool:2", "--for", LONG]).ends(0);
    let said = dev.run_as("cy", &["declare", "free", "pool:1", "--for", "1s"]).ends(10);
    assert!(said.err.starts_with("conflict: pool (1 unit) is not free\n"), "{said:?}");
    let said = dev.run_as("cy", &["declare", "yard@1,1..2.5,3:shared", "--for", "1s"]).ends(10);
    assert_eq!(said.err.matches("  why  ").count(), 2, "{said:?}");
    dev.run_as("cy", &["declare", "free", "--for", "1s"]).ends(0);
    let said = dev.run(&["declare", "pool:6", "--for", "1s"]).ends(12);
    assert!(said.err.starts_with("rejected: over_capacity"), "{said:?}");
}

#[test]
fn a_wait_ends_granted_or_says_that_it_passed() {
    let dev = Dev::start();
    let held = dev.run(&["declare", "a", "--for", LONG]).ends(0);
    let said = dev.run_as("bob", &["declare", "a", "--for", "1s", "--wait", "30ms"]).ends(11);
    assert!(said.err.starts_with("conflict: a (exclusive) did not become free within 30 ms\n"), "{said:?}");
    assert!(said.err.contains("--for 1s --wait "), "{said:?}");

    let mut waiting = dev.runtime.command(&["declare", "a", "--for", "1s", "--wait", "5m"]);
    let waiting = waiting.env("PRECLAIM_NAME", "bob").stdout(std::process::Stdio::piped()).spawn().unwrap();
    while !dev.run(&["ls", "--agent", "bob"]).ends(0).out.contains("waits") {}
    dev.run(&["release", &held.number_after("intent").to_string()]).ends(0);
    let output = waiting.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"granted: a"), "{output:?}");
}

#[test]
fn an_interrupted_wait_withdraws_its_intent() {
    let dev = Dev::start();
    dev.run(&["declare", "a", "--for", LONG]).ends(0);
    let mut waiting = dev.runtime.command(&["declare", "a", "--for", "1s", "--wait", "5m"]);
    let mut waiting =
        waiting.env("PRECLAIM_NAME", "bob").stderr(std::process::Stdio::null()).spawn().unwrap();
    while !dev.run(&["ls", "--agent", "bob"]).ends(0).out.contains("waits") {}
    let kill = std::process::Command::new("kill").args(["-INT", &waiting.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(waiting.wait().unwrap().code(), Some(1));
    assert_eq!(dev.run(&["ls", "--agent", "bob"]).ends(0).out, "");
}

#[test]
fn what_was_read_before_somebody_wrote_is_stale() {
    let dev = Dev::start();
    dev.run_as("bob", &["declare", "cfg/app", "--for", LONG]).ends(0);
    let args = ["declare", "out/app", "--for", "1s", "--expect", "cfg/app@now"];
    let said = dev.run(&args).ends(13);
    assert!(said.err.starts_with("stale: cfg/app may have changed since it was read\n"), "{said:?}");
    assert!(said.err.contains("read cfg/app again, then preclaim declare out/app --for 1s"), "{said:?}");
    let json = dev.run(&[&args[..], &["--output", "json"]].concat()).ends(13).json();
    assert_eq!(json["stale"]["path"], Value::from("cfg/app"));
    dev.run(&["declare", "out/app", "--for", "1s", "--expect", "cfg/other@now"]).ends(0);
}

#[test]
fn what_comes_too_late_is_rejected_with_the_field_and_advice() {
    let dev = Dev::start();
    let said = dev.run(&["declare", "a", "--for", "1s", "--at", "2020-01-31T09:30:00Z"]).ends(12);
    assert!(said.err.starts_with("rejected: too_late, in start\n  why  "), "{said:?}");
    assert!(said.err.contains("\n  do   a later --at, or more --slack"), "{said:?}");
}

#[test]
fn starts_are_taken_in_every_spelling() {
    let dev = Dev::start();
    for start in [["--at", "+1m"], ["--in", "3m"], ["--at", "now"]] {
        dev.run(&["declare", "a", "--for", "1s", start[0], start[1]]).ends(0);
    }
    let now = dev.run(&["ls", "--output", "json"]).json()["at"].as_u64().unwrap();
    let later = (now + 300_000_000).to_string();
    let granted = dev.run(&["declare", "a", "--for", "1s", "--at", &later, "--output", "json"]).ends(0);
    assert_eq!(granted.json()["granted"]["start"].to_string(), later);
}

#[test]
fn a_lease_is_renewed_until_somebody_is_in_the_way() {
    let dev = Dev::start();
    dev.run(&["declare", "a", "--for", "1m", "--hold", "--id", "7"]).ends(0);
    let renewed = dev.run(&["renew", "7", "--until", "+2m"]).ends(0);
    assert!(renewed.out.starts_with("renewed: intent 7 until "), "{renewed:?}");
    dev.run_as("bob", &["declare", "a", "--for", "1m", "--in", "3m"]).ends(0);
    let denied = dev.run(&["renew", "7", "--for", "4m"]).ends(10);
    assert!(denied.err.starts_with("conflict: intent 7 is not renewed until "), "{denied:?}");
    assert!(denied.err.contains("  why  bob (intent ") && denied.err.contains("--until 20"), "{denied:?}");
    dev.run(&["declare", "b", "--for", "1m", "--id", "8"]).ends(0);
    let no_lease = dev.run(&["renew", "8", "--for", "4m"]).ends(12);
    assert!(no_lease.err.contains("--hold"), "{no_lease:?}");
    let other = dev.run_as("bob", &["release", "7"]).ends(12);
    assert!(other.err.contains("another name's"), "{other:?}");
}

#[test]
fn the_same_id_and_content_asks_what_came_of_it() {
    let dev = Dev::start();
    let args = ["declare", "a", "--for", LONG, "--id", "7", "--output", "json"];
    let first = dev.run(&args).ends(0).json();
    assert_eq!(dev.run(&args).ends(0).json(), first);
    let other = dev.run(&["declare", "b", "--for", LONG, "--id", "7"]).ends(12);
    assert!(other.err.contains("id_in_use") && other.err.contains("without --id"), "{other:?}");
}

#[test]
fn claims_may_come_from_standard_input() {
    let dev = Dev::start();
    let mut command = dev.runtime.command(&["declare", "-", "c", "--for", LONG]);
    let said = Said::by(&mut command, "a:shared\n\nroom:5:exclusive\n").ends(0);
    let what = "granted: a (shared), room:5 (exclusive), c (exclusive) until ";
    assert!(said.out.starts_with(what), "{said:?}");
    let mut command = dev.runtime.command(&["declare", "-", "--for", LONG]);
    Said::by(&mut command, "\n").ends(2);
}

#[test]
fn what_is_no_declaration_is_usage_and_says_what_may_stand_there() {
    let runtime = Runtime::fresh();
    for (args, says) in [
        (&["declare", "a//b", "--for", "1s"][..], "a path of 1 to 16 segments"),
        (&["declare", "a:shraed", "--for", "1s"], "a:shraed:exclusive"),
        (&["declare", "yard@0,0..1", "--for", "1s"], "yard@0,0..1"),
        (&["declare", "pool:0", "--for", "1s"], "at least 1 unit"),
        (&["declare", "a"], "--for"),
        (&["declare", "a", "--for", "5"], "10ms"),
        (&["declare", "a", "--for", "0s"], "at least 1us"),
        (&["declare", "a", "--for", "1s", "--at", "soon"], "RFC 3339"),
        (&["declare", "a", "--for", "1s", "--at", "now", "--in", "1s"], "cannot be used with"),
        (&["declare", "a", "--for", "1s", "--urgency", "1.5"], "from 0 to 1"),
        (&["declare", "a", "--for", "1s", "--class", "8"], "0..=7"),
        (&["declare", "a", "--for", "1s", "--expect", "cfg"], "PATH@TIME"),
        (&["declare", "a", "--for", "1s", "--expect", "cfg@now", "--wait", "1s"], "cannot be used with"),
        (&["renew", "7"], "--for"),
        (&["release", "x"], "invalid"),
    ] {
        let said = runtime.run(args).ends(2);
        assert!(said.out.is_empty() && said.err.contains(says), "{args:?}: {said:?}");
    }
    let claims: Vec<String> = (0..65).map(|at| format!("c{at}")).collect();
    let mut args = vec!["declare", "--for", "1s"];
    args.extend(claims.iter().map(String::as_str));
    assert!(runtime.run(&args).ends(2).err.contains("64"));
}
