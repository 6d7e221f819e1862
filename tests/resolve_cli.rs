//! `preclaim resolve` as a process: codes, streams, and errors that name line and field.
#![cfg(feature = "daemon")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const DOCK: &str =
    r#"{"at":1000,"agent":"a","declare":{"id":1,"claims":[{"path":"dock/1","duration":20000}]}}"#;

fn preclaim(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_preclaim"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let mut stdin = child.stdin.take().expect("it is piped");
    let _ = stdin.write_all(input); // a command that has ended already reads none of it
    drop(stdin);
    child.wait_with_output().expect("it ends by itself")
}

fn resolve(input: &str) -> Output {
    preclaim(&["resolve"], input.as_bytes())
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("output is UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("talk is UTF-8")
}

/// A file of this test's own, under the directory that cargo gives to integration tests.
fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the directory is there and writable");
    path
}

#[track_caller]
fn assert_line_error(input: &str, words: &[&str]) {
    let output = resolve(input);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in:\n{said}");
    }
}

#[track_caller]
fn assert_config_error(name: &str, text: &str, words: &[&str]) {
    let path = file(name, text);
    let output = preclaim(&["resolve", "--config", &path.to_string_lossy()], b"");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(30), "{said}");
    for word in words.iter().chain(&[name]) {
        assert!(said.contains(word), "{word:?} is not in:\n{said}");
    }
}

#[test]
fn a_bad_line_is_named_with_its_field_what_was_found_and_what_may_stand_there() {
    let intent = |fields: &str| format!(r#"{{"at":5,"agent":"a","declare":{{"id":1,{fields}}}}}"#);
    let claim = |fields: &str| intent(&format!(r#""claims":[{{"path":"p","duration":5}},{{{fields}}}]"#));
    let cases: &[(String, &[&str])] = &[
        ("nonsense".into(), &["line 1", "nonsense", "JSON"]),
        ("[1]".into(), &["line 1", "found [1]", "at, agent"]),
        (r#"{"agent":"a","release":{"id":1}}"#.into(), &["line 1", "`at` is missing"]),
        (r#"{"at":5}"#.into(), &["exactly one of agent, system"]),
        (r#"{"at":5,"agent":"a"}"#.into(), &["exactly one of declare, revise, release, renew"]),
        (r#"{"at":5,"agent":"a","relase":{"id":1}}"#.into(), &["`relase`", "nearest release"]),
        (
            r#"{"at":5,"agent":"a","release":{"id":1},"renew":{"id":1,"until":9}}"#.into(),
            &["`release` beside `renew`"],
        ),
        (r#"{"at":5,"agent":"","release":{"id":1}}"#.into(), &["`agent`", r#"found """#, "1 to 128 bytes"]),
        (r#"{"at":5,"agent":"a","release":{}}"#.into(), &["`release.id` is missing"]),
        (r#"{"at":5,"agent":"a","release":{"id":1,"id":1}}"#.into(), &["`release.id`", "twice"]),
        (r#"{"at":5.0,"agent":"a","release":{"id":1}}"#.into(), &["`at`", "found 5.0", "whole number"]),
        (r#"{"at":-5,"agent":"a","release":{"id":1}}"#.into(), &["`at`", "found -5"]),
        (
            r#"{"at":5,"agent":"a","release":{"id":18446744073709551616}}"#.into(),
            &["`release.id`", "18446744073709551616"],
        ),
        (r#"{"at":18446744073709551615,"agent":"a","release":{"id":1}}"#.into(), &["`at`", "slot"]),
        (intent(r#""slak":1,"claims":[]"#), &["`declare.slak`", "nearest slack"]),
        (intent(r#""class":1e0,"claims":[]"#), &["`declare.class`", "found 1e0"]),
        (intent(r#""urgency":1e999,"claims":[]"#), &["`declare.urgency`", "found 1e999", "binary64"]),
        (r#"{"at":5,"agent":"\ud800"}"#.into(), &["`agent`", "JSON", "escape"]),
        (intent(r#""hold":1,"claims":[]"#), &["`declare.hold`", "true or false"]),
        (intent(r#""start":"now","claims":[]"#), &["`declare.start`", r#"found "now""#, "asap"]),
        (intent(r#""note":"x","claims":[]"#), &["`declare.note`"]),
        (intent(r#""hold":true"#), &["`declare.claims` is missing"]),
        (claim(r#""path":"p""#), &["`declare.claims[1].duration` is missing"]),
        (claim(r#""duration":5"#), &["`declare.claims[1]`", "exactly one of path, frame"]),
        (claim(r#""frame":"f","duration":5"#), &["`declare.claims[1]`", "exactly one of box, polygon"]),
        (claim(r#""path":"p","box":{},"duration":5"#), &["`path` beside `box`"]),
        (
            claim(r#""path":"p","mode":"exlusive","duration":5"#),
            &["`declare.claims[1].mode`", "exlusive", "shared"],
        ),
        (
            claim(r#""path":"p","mode":{"units":-1},"duration":5"#),
            &["`declare.claims[1].mode.units`", "found -1"],
        ),
        (
            claim(r#""frame":"f","box":{"min":[0,"1"],"max":[1,1]},"duration":5"#),
            &["claims[1].box.min[1]", "number"],
        ),
        (r#"{"at":5,"system":{}}"#.into(), &["`system`", "capacity"]),
        (
            r#"{"at":5,"system":{"restart":{"next_tokn":5}}}"#.into(),
            &["system.restart.next_tokn", "nearest next_token"],
        ),
        (
            r#"{"at":5,"system":{"capacity":{"path":"a//b","capacity":5}}}"#.into(),
            &["system.capacity.path", "a//b"],
        ),
        (
            r#"{"at":5,"system":{"config":{"slot":{"min_led":"2ms"}}}}"#.into(),
            &["system.config.slot.min_led", "nearest min_lead"],
        ),
        (r#"{"at":5,"system":{"config":{"slot":{"length":"5ms"}}}}"#.into(), &["config.slot.length", "10ms"]),
    ];
    for (line, words) in cases {
        assert_line_error(line, words);
    }
}

#[test]
fn a_time_that_goes_back_is_named_with_its_line() {
    let back = DOCK.replace("1000", "999");
    assert_line_error(&format!("{DOCK}\n\n{back}\n"), &["line 3", "`at`", "found 999", "1000 or later"]);
}

#[test]
fn a_line_that_is_no_text_or_has_no_end_is_an_error_of_the_line() {
    let output = preclaim(&["resolve"], b"{\"at\":\xff}\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("line 1") && stderr(&output).contains("UTF-8"));
    let output = preclaim(&["resolve"], &vec![b' '; 3 << 20]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("1048576 bytes"), "{}", stderr(&output));
}

#[test]
fn an_escape_sequence_in_a_trace_does_not_reach_the_terminal() {
    let output = resolve("{\"at\":5,\"agent\":\"a\",\"\\u001b[2J\":1}");
    assert_eq!(output.status.code(), Some(2));
    assert!(!stderr(&output).contains('\u{1b}'));
}

#[test]
fn what_was_decided_before_a_bad_line_is_printed() {
    let second = DOCK.replace("1000", "20000").replace(r#""id":1"#, r#""id":2"#);
    let output = resolve(&format!("{DOCK}\n{second}\n{{}}\n"));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output).lines().count(), 1, "slot 0 ended, slot 2 did not: {}", stdout(&output));
    assert!(stdout(&output).starts_with(r#"{"slot":0,"at":10000,"agent":"a","id":1,"granted":{"#));
}

#[test]
fn a_value_outside_its_range_is_rejected_and_the_trace_goes_on() {
    let class = DOCK.replace(r#""id":1"#, r#""id":7,"class":8"#);
    let output = resolve(&format!("{class}\n{DOCK}\n"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines: Vec<&str> = stdout(&output).lines().collect();
    assert_eq!(
        lines[0],
        r#"{"slot":0,"at":10000,"agent":"a","id":7,"rejected":{"reason":"invalid","field":"class"}}"#
    );
    assert_eq!(
        lines[1],
        r#"{"slot":0,"at":10000,"agent":"a","id":1,"granted":{"start":10000,"end":30000,"token":1}}"#
    );
}

#[test]
fn file_dash_and_nothing_read_the_same_trace() {
    let path = file("dock.jsonl", DOCK);
    let named = preclaim(&["resolve", &path.to_string_lossy()], b"");
    assert_eq!(named.status.code(), Some(0), "{}", stderr(&named));
    assert!(stdout(&named).contains("granted"));
    assert_eq!(named.stdout, preclaim(&["resolve", "-"], DOCK.as_bytes()).stdout);
    assert_eq!(named.stdout, resolve(DOCK).stdout);
}

#[test]
fn until_lets_leases_expire_and_without_it_the_trace_ends() {
    let lease = DOCK.replace(r#""id":1"#, r#""id":1,"hold":true"#);
    assert_eq!(stdout(&resolve(&lease)).lines().count(), 1);
    let output = preclaim(&["resolve", "--until", "30000"], lease.as_bytes());
    assert!(stdout(&output).ends_with("\"expired\":{\"token\":1}}\n"), "{}", stdout(&output));
    assert_eq!(stdout(&preclaim(&["resolve", "--until", "29999"], lease.as_bytes())).lines().count(), 1);
}

#[test]
fn a_trace_may_leap_over_years_and_end_at_the_last_slot_that_can_be_written() {
    let far = DOCK.replace("1000", "1767225600123456").replace(r#""id":1"#, r#""id":2"#);
    let last = DOCK.replace("1000", "18446744073709549999").replace(r#""id":1"#, r#""id":3"#);
    let output = resolve(&format!("{DOCK}\n{far}\n{last}\n"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 3);
    let until = u64::MAX.to_string();
    assert_eq!(preclaim(&["resolve", "--until", &until], DOCK.as_bytes()).status.code(), Some(0));
}

#[test]
fn a_reader_that_has_gone_ends_it_quietly() {
    let mut lines = String::new();
    for at in 0..20_000 {
        lines += &format!("{{\"at\":{at},\"agent\":\"a\",\"release\":{{\"id\":1}}}}\n");
    }
    let path = file("long.jsonl", &lines);
    let mut child = Command::new(env!("CARGO_BIN_EXE_preclaim"))
        .arg("resolve")
        .arg(path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends by itself");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_configuration_that_is_wrong_is_named_with_file_line_key_value_and_the_nearest_key() {
    let cases: &[(&str, &[&str])] = &[
        ("[slot]\nlenght = \"10ms\"\n", &["line 2", "`slot.lenght`", "nearest length", "min_lead"]),
        ("[slots]\n", &["line 1", "`slots`", "nearest slot"]),
        ("\n[slot]\nlength = \"2s\"\n", &["line 3", "`slot.length`", "found \"2s\"", "100us to 1s"]),
        ("[slot]\nlength = 10\n", &["line 2", "found 10", "us, ms, s, m or h"]),
        ("[slot]\nlength = \"10 minutes\"\n", &["line 2", "10 minutes"]),
        ("[slot]\nlength = \"10ms\"\nlength = \"10ms\"\n", &["line 3", "duplicate"]),
        ("[slot\n", &["line 1"]),
        ("slot = 5\n", &["line 1", "`slot`", "found 5", "table"]),
        ("[preemption]\nenabled = \"yes\"\n", &["line 2", "true or false"]),
        ("[priority]\nmodel = \"weigthed\"\n", &["line 2", "weigthed", "weighted", "deadline"]),
        ("[priority]\nmodel = \"expression\"\n", &["line 1", "field `priority.expression` is missing"]),
        (
            "[priority]\nmodel = \"expression\"\nexpression = \"urgency + waitd\"\n",
            &["line 3", "line 1, column 11: there is no variable `waitd`", "nearest waited"],
        ),
        ("[priority]\nurgency = nan\n", &["line 2", "`priority.urgency`", "finite"]),
        ("[[resource]]\ncapacity = 5\n", &["line 1", "`resource[0].path` is missing"]),
        ("[[resource]]\npath = \"a/../b\"\n", &["line 2", "a/../b"]),
        ("[[resource]]\npath = \"a\"\ncapacity = -1\n", &["line 3", "found -1", "0 or more"]),
        ("[[resource]]\npath = \"a\"\noverlap_ratio = 1.0\n", &["line 3", "below 1"]),
        ("[[resource]]\npath = \"a\"\n[[resource]]\npath = \"a\"\n", &["line 4", "`resource[1].path`"]),
        ("[listen]\naddr = \"localhost\"\n", &["line 2", "`listen.addr`", "port"]),
        ("[tls]\ncert = \"c.pem\"\n", &["line 1", "`tls.key` is missing"]),
        ("[auth]\nmode = \"mtls\"\n", &["line 2", "found \"mtls\"", "\"open\""]),
        ("[limits]\nconnections = 0\n", &["line 2", "1 to 1000000"]),
        ("[limits]\nhello_timeout = \"1h\"\n", &["line 2", "100ms to 1m"]),
    ];
    for (at, (text, words)) in cases.iter().enumerate() {
        assert_config_error(&format!("wrong-{at}.toml"), text, words);
    }
}

#[test]
fn a_configuration_that_is_not_there_is_code_30_and_a_trace_that_is_not_there_code_2() {
    let output = preclaim(&["resolve", "--config", "no/such.toml"], b"");
    assert_eq!(output.status.code(), Some(30));
    assert!(stderr(&output).contains("no/such.toml"));
    let output = preclaim(&["resolve", "no/such.jsonl"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no/such.jsonl"));
}

#[test]
fn the_configuration_decides() {
    let config = file("fine.toml", "[slot]\nlength = \"1ms\"\n[listen]\naddr = \"127.0.0.1:0\"\n");
    let output = preclaim(&["resolve", "--config", &config.to_string_lossy()], DOCK.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).starts_with(r#"{"slot":1,"at":2000,"#), "{}", stdout(&output));
}

#[test]
fn init_prints_a_configuration_that_check_finds_right() {
    let init = preclaim(&["config", "init"], b"");
    assert_eq!(init.status.code(), Some(0));
    let path = file("init.toml", stdout(&init));
    let check = preclaim(&["config", "check", &path.to_string_lossy()], b"");
    assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
}

#[test]
fn usage_errors_are_code_2_and_help_is_data() {
    assert_eq!(preclaim(&["resolve", "--untl", "5"], b"").status.code(), Some(2));
    assert_eq!(preclaim(&["nonsense"], b"").status.code(), Some(2));
    for args in [&["--help"][..], &["resolve", "--help"], &["help", "exit-codes"], &["completion", "bash"]] {
        let output = preclaim(args, b"");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
    assert!(stdout(&preclaim(&["resolve", "--help"], b"")).contains("$ preclaim resolve"));
    assert!(stdout(&preclaim(&["help", "exit-codes"], b"")).contains("30  configuration invalid"));
}
