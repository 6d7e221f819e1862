//! `preclaim doctor`, the real command: what it prints and how it ends. Whether the machine of the test is fit
//! is no test's matter.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used, dead_code)] // a helper of a test may fail it; not each test uses each

mod command;

use std::fs;

use command::{Runtime, Said};
use serde_json::Value;

/// All that is looked at where a state directory is named, in order.
const WHATS: [&str; 15] = [
    "timer_idle",
    "timer_loaded",
    "other_load",
    "cores",
    "cpu_quota",
    "steal_time",
    "cpu_governor",
    "clock_source",
    "wall_clock",
    "udp_receive_buffer",
    "udp_send_buffer",
    "gso",
    "fdatasync",
    "realtime_priority",
    "memory_locking",
];

/// The verdict and the code say the same.
#[track_caller]
fn ends_with_its_verdict(said: &Said, is_fit: bool) {
    assert_eq!(said.code, if is_fit { 0 } else { 99 }, "{said:?}");
}

#[test]
fn as_json_each_finding_has_all_its_parts_and_the_code_is_the_verdicts() {
    let runtime = Runtime::fresh();
    let state = runtime.path().join("state");
    fs::create_dir(&state).unwrap();
    let directory = state.to_str().unwrap();
    let said = runtime.run(&["doctor", "--for", "200ms", "--state", directory, "--output", "json"]);
    let report = said.json();
    ends_with_its_verdict(&said, report["verdict"] == "fit");
    assert_eq!((&report["slot_us"], &report["span_us"]), (&Value::from(10_000), &Value::from(200_000)));

    let findings = report["findings"].as_array().unwrap();
    // Not every system tells on what a directory is.
    let whats: Vec<&str> = findings.iter().map(|finding| finding["what"].as_str().unwrap()).collect();
    let known: Vec<&str> = whats.iter().copied().filter(|what| *what != "state_directory").collect();
    assert_eq!(known, WHATS);
    for finding in findings {
        for part in ["grade", "measured", "needed", "why"] {
            assert!(finding[part].as_str().is_some_and(|text| !text.is_empty()), "{part} of {finding}");
        }
        let grade = finding["grade"].as_str().unwrap();
        assert!(["ok", "unknown", "warning", "unfit"].contains(&grade), "{finding}");
        let changes = finding["change"].as_array().unwrap();
        assert_eq!(changes.is_empty(), ["ok", "unknown"].contains(&grade), "{finding}");
    }
    let is_unfit = findings.iter().any(|finding| finding["grade"] == "unfit");
    assert_eq!(is_unfit, report["verdict"] == "unfit");

    let readings = &report["readings"];
    for quantiles in [&readings["idle"], &readings["state"]["sync"]] {
        assert!(quantiles["count"].as_u64().is_some_and(|count| count > 0), "{readings}");
    }
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0, "nothing is left there");
}

#[test]
fn for_people_it_ends_with_the_verdict_and_says_what_to_do_about_each_fault() {
    let runtime = Runtime::fresh();
    let said = runtime.run(&["doctor", "--for", "50ms", "--slot", "1ms", "--output", "table"]);
    let last = said.out.lines().last().unwrap();
    let is_fit = last.starts_with("fit for slots of 1ms");
    assert!(is_fit || last.starts_with("not fit for slots of 1ms, "), "{said:?}");
    ends_with_its_verdict(&said, is_fit);
    assert!(said.out.contains("timer, under load") && said.out.contains("UDP receive buffer"), "{said:?}");
    let faults = |word: &str| said.out.lines().filter(|line| line.starts_with(word)).count();
    let at_length = faults("warning: ") + faults("unfit: ");
    assert_eq!(faults("warning  ") + faults("unfit  "), at_length, "a row, and at length: {said:?}");
    assert_eq!([faults("  why  "), faults("  do   ")], [at_length; 2], "{said:?}");
    assert_eq!(said.err, "", "no terminal looks at its progress");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_measured() {
    let runtime = Runtime::fresh();
    for args in [&["--slot", "99us"][..], &["--slot", "2s"], &["--for", "1ms"], &["--for", "soon"]] {
        let said = runtime.run(&[&["doctor"], args].concat()).ends(2);
        assert!(said.err.contains(args[0]) && said.out.is_empty(), "{said:?}");
    }
    let said = runtime.run(&["doctor", "--state", "/nowhere/at all"]).ends(2);
    assert!(said.err.contains("/nowhere/at all is no directory"), "{said:?}");
}
