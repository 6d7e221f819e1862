//! `preclaim audit` as a process, on logs of random traces with preemption, revisions, capacities,
//! changes of the rules and restarts.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

mod audit_log;
#[path = "twin/generate.rs"]
mod generate;
#[allow(dead_code)] // what else it does is the twin's
#[path = "twin/trace.rs"]
mod trace;

use audit_log::{Kept, Life, Site, live, long_trace, preclaim};
use preclaim::coordinator::StartFrom;
use preclaim::types::Time;

/// Traces that each property is tried on.
const SEEDS: std::ops::Range<u64> = 0..12;

#[test]
fn what_is_exported_resolves_to_the_decisions_that_are_exported() {
    let site = Site::fresh("export");
    for seed in SEEDS {
        let _ = std::fs::remove_dir_all(site.dir());
        live(
            &site,
            &generate::trace(seed),
            Kept { segment_bytes: 8192, compress: seed % 2 == 0, ..Kept::default() },
        );
        let inputs = site.audit(&["export", "--inputs"]).ends(0);
        let decisions = site.audit(&["export", "--decisions"]).ends(0);
        assert!(inputs.out.contains(r#""restart""#) && inputs.out.contains(r#""config""#), "{}", inputs.out);
        let resolved = preclaim(&["resolve"], &inputs.out).ends(0);
        assert_eq!(resolved.out, decisions.out, "seed {seed}");
        assert_eq!((inputs.err.as_str(), decisions.err.as_str()), ("", ""));
    }
}

#[test]
fn the_slots_of_an_export_can_be_bounded_and_its_rules_be_printed() {
    let site = Site::fresh("bounds");
    let mut trace = generate::trace(3);
    trace.spec.rules.length = preclaim::types::Micros::from_ms(20);
    live(&site, &trace, Kept { lives: 1, ..Kept::default() });
    let inputs = site.audit(&["export", "--inputs"]).ends(0);
    assert!(inputs.err.contains("resolve --config"), "{}", inputs.err);
    let rules = site.audit(&["export", "--config"]).ends(0);
    let rules = site.file("rules.toml", &rules.out);
    let decisions = site.audit(&["export", "--decisions"]).ends(0);
    assert_eq!(preclaim(&["resolve", "--config", &rules], &inputs.out).ends(0).out, decisions.out);
    let some = site.audit(&["export", "--decisions", "--from", "2", "--to", "4"]).ends(0);
    let is_between =
        |line: &&str| ["2,", "3,", "4,"].iter().any(|slot| line.starts_with(&format!("{{\"slot\":{slot}")));
    let expected: String = decisions.out.lines().filter(is_between).map(|line| format!("{line}\n")).collect();
    assert_eq!(some.out, expected);
    let late = site.audit(&["export", "--inputs", "--from", "2"]).ends(0);
    assert!(late.err.contains("cannot decide them alone"), "{}", late.err);
}

#[test]
fn a_whole_log_is_verified_with_all_its_snapshots() {
    let site = Site::fresh("verify");
    for (seed, compress) in [(1, false), (2, true)] {
        let _ = std::fs::remove_dir_all(site.dir());
        live(&site, &long_trace(seed..seed + 8), Kept { segment_bytes: 4096, compress, ..Kept::default() });
        let report = site.audit(&["verify"]).ends(0).json();
        assert!(report["records"].as_u64().unwrap() > 10, "{report}");
        assert!(report["snapshots"].as_u64().unwrap() > 0, "{report}");
        assert!(report["bytes_per_declaration"].as_u64().unwrap() > 0, "{report}");
        assert!(report["damaged"].is_null() && report["torn"].is_null() && report["digest"].is_string());
        let said = site.audit(&["verify", "--output", "table"]).ends(0);
        assert!(said.out.ends_with("whole\n") && said.err.is_empty(), "{said:?}");
    }
}

#[test]
fn a_flipped_bit_is_told_with_file_and_offset() {
    let site = Site::fresh("flip");
    live(&site, &long_trace(4..12), Kept { segment_bytes: 4096, ..Kept::default() });
    let file = site.segments().remove(0);
    let whole = std::fs::read(&file).unwrap();
    for at in [70, whole.len() / 2] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        let said = site.audit(&["verify"]).ends(40);
        let damaged = &said.json()["damaged"];
        assert_eq!(damaged["file"], "0000000001.log");
        let offset = damaged["offset"].as_u64().unwrap() as usize;
        assert!(offset <= at && at < offset + 4096, "{damaged}");
        assert!(said.err.contains(&format!("0000000001.log, offset {offset}: ")), "{}", said.err);
        assert!(said.err.contains("\n  do "), "{}", said.err);
        site.audit(&["export", "--decisions"]).ends(40);
        site.audit(&["tail", "-n", "100000"]).ends(40);
    }
}

#[test]
fn a_damaged_snapshot_is_told_by_name() {
    let site = Site::fresh("snapshot");
    live(&site, &long_trace(5..13), Kept { segment_bytes: 4096, ..Kept::default() });
    let snapshot = std::fs::read_dir(site.dir()).unwrap().map(|entry| entry.unwrap().path());
    let file = snapshot.filter(|path| path.to_str().unwrap().contains("snapshot-")).max().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 0x40;
    std::fs::write(&file, &bytes).unwrap();
    let said = site.audit(&["verify"]).ends(40);
    assert_eq!(said.json()["damaged"]["file"], file.file_name().unwrap().to_str().unwrap());
}

#[test]
fn a_torn_tail_is_a_note_and_is_cut_off_only_when_asked_and_alone() {
    let site = Site::fresh("torn");
    live(&site, &generate::trace(6), Kept { lives: 1, ..Kept::default() });
    let file = site.segments().remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let records = site.audit(&["verify"]).ends(0).json()["records"].as_u64().unwrap();
    let decisions = site.audit(&["export", "--decisions"]).ends(0).out;
    bytes.truncate(end - 3);
    std::fs::write(&file, &bytes).unwrap();

    let said = site.audit(&["verify"]).ends(0);
    assert_eq!(said.json()["records"], records - 1);
    let torn = said.json()["torn"].clone();
    assert_eq!(torn["file"], "0000000001.log");
    assert!(said.err.contains("--repair-tail"), "{}", said.err);
    assert_eq!(std::fs::read(&file).unwrap(), bytes, "it only reads");
    let shorter = site.audit(&["export", "--decisions"]).ends(0).out;
    assert!(decisions.starts_with(&shorter));
    site.audit(&["tail"]).ends(0);

    let said = site.audit(&["verify", "--repair-tail"]).ends(0);
    assert_eq!(said.json()["repaired"], torn);
    let repaired = std::fs::read(&file).unwrap();
    let offset = torn["offset"].as_u64().unwrap() as usize;
    assert_eq!(repaired[..offset], bytes[..offset], "nothing before it was touched");
    assert!(repaired[offset..].iter().all(|byte| *byte == 0));
    let said = site.audit(&["verify"]).ends(0);
    assert!(said.json()["torn"].is_null() && said.err.is_empty(), "{said:?}");
}

#[test]
fn a_running_coordinators_log_is_read_and_not_repaired() {
    let site = Site::fresh("running");
    let trace = generate::trace(7);
    let nothing = StartFrom::Nothing { token_floor: 1 };
    let mut life = Life::start(&site.dir(), &trace.spec.toml(), Kept::default(), nothing, Time::ZERO);
    life.run(&trace.batches());
    let said = site.audit(&["verify", "--repair-tail"]).ends(1);
    assert!(said.err.contains("another coordinator has this state directory"), "{}", said.err);
    site.audit(&["verify"]).ends(0);
    let before = site.audit(&["export", "--decisions"]).ends(0).out;
    life.settle();
    assert!(site.audit(&["export", "--decisions"]).ends(0).out.starts_with(&before));
}

#[test]
fn the_last_records_are_told_one_a_line() {
    let site = Site::fresh("tail");
    live(&site, &long_trace(8..16), Kept { segment_bytes: 4096, ..Kept::default() });
    let all = site.audit(&["tail", "-n", "100000"]).ends(0).out;
    let last = site.audit(&["tail", "-n", "3"]).ends(0).out;
    assert_eq!(last.lines().count(), 3);
    assert!(all.ends_with(&last) && all.lines().count() > 10);
    let decided: Vec<serde_json::Value> =
        all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_records: usize = decided.iter().map(|record| record["decisions"].as_array().unwrap().len()).sum();
    assert_eq!(of_records, site.audit(&["export", "--decisions"]).ends(0).out.lines().count());
    let table = site.audit(&["tail", "--output", "table"]).ends(0).out;
    assert_eq!(table.lines().count(), 10);
    assert!(table.lines().all(|line| line.contains(" -> ")), "{table}");
}

#[test]
fn a_log_whose_beginning_was_removed_is_verified_from_a_snapshot_and_exported_with_a_word() {
    let site = Site::fresh("retention");
    let kept = Kept { segment_bytes: 4096, keep_bytes: Some(1), lives: 6, ..Kept::default() };
    live(&site, &long_trace(9..33), kept);
    let first = site.segments().remove(0);
    assert!(!first.ends_with("0000000001.log"), "retention removed nothing: {first:?}");
    site.audit(&["verify"]).ends(0);
    let said = site.audit(&["export", "--inputs"]).ends(0);
    assert!(said.err.contains("cannot decide them alone"), "{}", said.err);
}

#[test]
fn a_directory_that_holds_no_log_is_told_apart() {
    let site = Site::fresh("none");
    std::fs::create_dir_all(site.dir()).unwrap();
    site.audit(&["verify"]).ends(2);
    let config = site.file("preclaim.toml", "[slot]\nlength = \"10ms\"\n");
    let said = preclaim(&["audit", "verify", "--config", &config], "").ends(30);
    assert!(said.err.contains("[state]"), "{}", said.err);
}
