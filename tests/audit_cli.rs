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

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Arc;

use audit_log::{Kept, Life, Said, Site, live, long_trace, preclaim};
use preclaim::coordinator::StartFrom;
use preclaim::resolver::{Rank, Rules, SlotOutcome, StateDigest};
use preclaim::store::{Archive, RealDisk};
use preclaim::types::{RawClaim, RawIntent, RawMode, RawTarget, Time};
use trace::{Line, Model, Op, Spec, Trace};

const NOTHING: StartFrom = StartFrom::Nothing { token_floor: 1 };

/// Traces that each property is tried on.
const SEEDS: std::ops::Range<u64> = 0..12;

/// The inputs resolved, and as far as the export said that decisions go.
fn resolved(inputs: &Said) -> Said {
    let until = inputs.err.split_once("--until ").and_then(|(_, rest)| rest.split('`').next());
    assert_eq!(until.is_none(), inputs.err.is_empty(), "{}", inputs.err);
    let args: Vec<&str> =
        ["resolve"].into_iter().chain(until.into_iter().flat_map(|until| ["--until", until])).collect();
    preclaim(&args, &inputs.out).ends(0)
}

#[test]
fn leases_that_end_after_the_last_input_are_resolved_up_to_when_the_export_says() {
    let site = Site::fresh("lease");
    let spec = Spec { rules: Rules::default(), model: Model::Weighted { aging: 0.0 } };
    let lease = RawIntent { hold: true, ..dock(1, 0.0) };
    let trace = Trace { spec, lines: vec![Line { at: 30_100, op: Op::Declare("a", lease) }] };
    let mut life = Life::start(&site.dir(), &trace.spec.toml(), Kept::default(), NOTHING, Time::ZERO);
    life.run(&trace.batches());
    life.decide_due(|_, _| true);
    let decisions = site.audit(&["export", "--decisions"]).ends(0).out;
    assert!(decisions.contains("expired"), "{decisions}");
    let inputs = site.audit(&["export", "--inputs"]).ends(0);
    assert!(inputs.err.contains("--until"), "{}", inputs.err);
    assert_eq!(resolved(&inputs).out, decisions);
}

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
        assert_eq!(resolved(&inputs).out, decisions.out, "seed {seed}");
        assert_eq!(decisions.err, "");
        let again = site.audit(&["replay"]).ends(0).json();
        assert!(again["differs"].is_null() && again["records"].as_u64().unwrap() > 0, "{again}");
        assert_eq!(again["records"], site.audit(&["verify"]).ends(0).json()["records"]);
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
    let mut life = Life::start(&site.dir(), &trace.spec.toml(), Kept::default(), NOTHING, Time::ZERO);
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
    let again = site.audit(&["replay"]).ends(0);
    assert!(again.json()["records"].as_u64().unwrap() > 10 && again.err.contains("from the state after"));
    let rules = site.file("other.toml", "[priority]\nmodel = \"fifo\"\n");
    let other = site.audit(&["replay", "--config", &rules]).ends(0).json();
    assert_eq!(other["records"], again.json()["records"]);
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

/// Declares `dock` alone for 50 ms, as soon as may be.
fn dock(id: u64, urgency: f64) -> RawIntent {
    let target = RawTarget::Path("dock".into());
    let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: 50_000 };
    RawIntent { id, urgency, claims: vec![claim], ..RawIntent::default() }
}

/// Of two who want the same in one slot, b is more urgent and a was there first. Later c comes.
fn rivals() -> Trace {
    let spec = Spec { rules: Rules::default(), model: Model::Weighted { aging: 0.0 } };
    let line = |at, who, intent| Line { at, op: Op::Declare(who, intent) };
    let lines = vec![
        line(30_100, "a", dock(1, 0.25)),
        line(30_200, "b", dock(7, 0.75)),
        line(200_000, "c", dock(1, 0.0)),
    ];
    Trace { spec, lines }
}

/// Lets a coordinator decide the last slot of a trace, and keeps a record of it that says something else.
fn plant(site: &Site, trace: &Trace, tamper: impl FnOnce(&mut SlotOutcome)) {
    let batches = trace.batches();
    let (last, before) = batches.split_last().unwrap();
    let mut life = Life::start(&site.dir(), &trace.spec.toml(), Kept::default(), NOTHING, Time::ZERO);
    life.run(before);
    life.decide_due(|_, due| due < last.slot());
    let mut outcome = life.resolver.resolve(last);
    tamper(&mut outcome);
    life.keep(last, &outcome);
}

#[test]
fn a_record_that_is_not_what_is_decided_is_found_by_its_slot() {
    let site = Site::fresh("planted");
    plant(&site, &rivals(), |outcome| {
        let rank = outcome.ranks[0].as_mut().unwrap();
        *rank = Rank { score: f64::from_bits(rank.score.to_bits() ^ 1), ..*rank };
    });
    site.audit(&["verify"]).ends(0);
    let said = site.audit(&["replay"]).ends(40);
    let differs = &said.json()["differs"];
    assert_eq!((&differs["slot"], &differs["what"]), (&20.into(), &"score".into()), "{differs}");
    assert!(said.err.contains("slot 20: ") && said.err.contains("0000000001.log, offset "), "{}", said.err);
    let table = site.audit(&["replay", "--output", "table"]).ends(40).out;
    assert!(table.contains("recorded  ") && table.contains("decided   "), "{table}");
}

#[test]
fn a_digest_that_the_changes_do_not_make_is_damage() {
    let site = Site::fresh("digest");
    plant(&site, &rivals(), |outcome| {
        outcome.digest = StateDigest::from_number(outcome.digest.to_number() ^ 1);
    });
    let said = site.audit(&["verify"]).ends(40);
    let damaged = &said.json()["damaged"];
    assert!(damaged["why"].as_str().unwrap().starts_with("slot 20: "), "{damaged}");
    assert_eq!(site.audit(&["replay"]).ends(40).json()["differs"]["what"], "digest");
}

#[test]
fn another_policy_tells_who_gains_and_who_loses() {
    let site = Site::fresh("policy");
    live(&site, &rivals(), Kept { lives: 1, ..Kept::default() });
    let fifo = site.file("fifo.toml", "[priority]\nmodel = \"fifo\"\n");
    let said = site.audit(&["replay", "--config", &fifo]).ends(0).json();
    let agents: Vec<(&str, i64)> = said["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["agent"].as_str().unwrap(), it["gains_us"].as_i64().unwrap()))
        .collect();
    assert_eq!(agents, [("a", 50_000), ("c", 0), ("b", -50_000)]);
    assert_eq!((&said["recorded"]["granted"], &said["other"]["granted"]), (&2.into(), &2.into()));
    assert_eq!(said["agents"][0]["recorded"]["conflicts"], 1);
    assert!((said["recorded"]["fairness"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-9, "{said}");
    let table = site.audit(&["replay", "--config", &fifo, "--output", "table"]).ends(0).out;
    assert!(table.contains("+50 ms") && table.contains("-50 ms") && table.contains("Jain"), "{table}");
}

#[test]
fn the_rules_that_were_in_force_would_have_decided_as_they_did() {
    let site = Site::fresh("same-policy");
    live(&site, &rivals(), Kept { lives: 1, ..Kept::default() });
    let same = site.file("same.toml", &rivals().spec.toml());
    let said = site.audit(&["replay", "--config", &same]).ends(0).json();
    assert_eq!(said["recorded"], said["other"]);
}

#[test]
fn why_tells_who_was_in_the_way_with_scores_and_what_would_have_helped() {
    let site = Site::fresh("why");
    live(&site, &rivals(), Kept { lives: 1, ..Kept::default() });
    let dir = site.dir();
    let why = |name: &str, output: &str| {
        preclaim(&["audit", "why", name, dir.to_str().unwrap(), "--output", output], "")
    };
    let said = why("a/1", "json").ends(0).json();
    assert_eq!(said["events"][0]["input"]["declare"]["id"], 1);
    let decided = &said["events"][1];
    assert_eq!(decided["decision"]["conflict"]["final"], true);
    let holder = &decided["in_the_way"][0];
    assert_eq!((&holder["agent"], &holder["id"]), (&"b".into(), &7.into()));
    assert!(holder["decided"]["rank"]["score"].as_f64() > decided["rank"]["score"].as_f64(), "{said}");
    assert_eq!(holder["decided"]["holds"], "dock (exclusive)");
    let remedies = said["would_have"].as_array().unwrap();
    assert_eq!(remedies[0]["start"]["at"], decided["decision"]["conflict"]["offer"], "{said}");
    assert_eq!(remedies[1]["score_above"], holder["decided"]["rank"]["score"]);
    let told = why("a/1", "table").ends(0).out;
    assert!(told.contains("declares dock (exclusive) 50 ms, class 0"), "{told}");
    assert!(told.contains("b/7 (token 1, class 0, score 0."), "{told}");
    assert!(told.contains("would have made it a grant"), "{told}");
    assert!(!why("b/7", "table").ends(0).out.contains("would have"));
    why("a/2", "json").ends(2);
    why("a", "json").ends(2);
    let file = site.file("why.toml", &format!("[state]\ndir = {:?}\n", dir.to_str().unwrap()));
    for place in [["--dir", dir.to_str().unwrap()], ["--config", &file]] {
        for output in ["json", "table"] {
            let said = preclaim(&["why", "a/1", place[0], place[1], "--output", output], "").ends(0);
            assert_eq!(said.out, why("a/1", output).out, "it is the same by another name");
        }
        preclaim(&["why", "a/2", place[0], place[1]], "").ends(2);
    }
    preclaim(&["why", "a/1", "--dir", dir.to_str().unwrap(), "--config", &file], "").ends(2);
}

#[test]
fn every_intent_of_a_busy_log_has_its_story() {
    let site = Site::fresh("stories");
    live(&site, &long_trace(20..24), Kept::default());
    let decisions = site.audit(&["export", "--decisions"]).ends(0).out;
    let mut names: Vec<String> = Vec::new();
    for line in decisions.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        names.push(format!("{}/{}", line["agent"].as_str().unwrap(), line["id"]));
    }
    let all = names.len();
    names.sort();
    names.dedup();
    let mut told = 0;
    for name in &names {
        let dir = site.dir();
        let said = preclaim(&["audit", "why", name, dir.to_str().unwrap()], "").ends(0).json();
        let events = said["events"].as_array().unwrap();
        told += events.iter().filter(|event| event.get("decision").is_some()).count();
        preclaim(&["audit", "why", name, dir.to_str().unwrap(), "--output", "table"], "").ends(0);
    }
    assert_eq!(told, all, "each decision is in one story");
}

#[test]
fn a_walk_goes_on_through_segments_that_are_turned_over_and_compressed_meanwhile() {
    let site = Site::fresh("walk");
    let trace = long_trace(40..52);
    let kept = Kept { segment_bytes: 4096, compress: true, ..Kept::default() };
    let mut life = Life::start(&site.dir(), &trace.spec.toml(), kept, NOTHING, Time::ZERO);
    let archive = Archive::open(Arc::new(RealDisk::new(site.dir()))).unwrap();
    let mut walk = archive.walk(1, None);
    let mut seqs = Vec::new();
    for batches in trace.batches().chunks(3) {
        life.run(batches);
        let torn = walk.read_on(&mut |found| {
            seqs.push(found.entry.stamp.seq);
            Ok(())
        });
        assert_eq!(torn.unwrap(), None);
        assert!(!walk.has_news().unwrap() || archive.contents().unwrap().segments[0] > 1);
    }
    assert!(seqs.len() > 20 && walk.segment() > 2);
    assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "{seqs:?}");
    drop(life);
    assert_eq!(site.audit(&["verify"]).ends(0).json()["records"], seqs.len());
}

#[test]
fn a_log_that_is_followed_goes_on_with_what_comes() {
    let site = Site::fresh("follow");
    let trace = rivals();
    let batches = trace.batches();
    let (last, before) = batches.split_last().unwrap();
    let mut life = Life::start(&site.dir(), &trace.spec.toml(), Kept::default(), NOTHING, Time::ZERO);
    life.run(before);
    let dir = site.dir();
    let args = ["audit", "tail", "--follow", "--output", "json", dir.to_str().unwrap()];
    let mut child = audit_log::spawn(&args, Stdio::null());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<serde_json::Value>(&lines.next().unwrap().unwrap()).unwrap();
    while next()["slot"] != 3 {}
    life.run(std::slice::from_ref(last));
    while next()["slot"] != 20 {}
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The events that the page of a log is told, by name, from its first record on or as `args` say.
fn shown(site: &Site, args: &[&str]) -> Vec<(String, serde_json::Value)> {
    let dir = site.dir();
    let all: Vec<&str> = ["audit", "view", dir.to_str().unwrap()].iter().chain(args).copied().collect();
    let mut child = audit_log::spawn(&all, Stdio::null());
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = said.find(|line| line.as_ref().is_ok_and(|line| line.contains("seen at"))).unwrap().unwrap();
    let addr = line.split_once("http://").unwrap().1.split_once("/page").unwrap().0.to_owned();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&addr).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nhost: here\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/page").contains("default-src 'none'"));
    assert!(get("/metrics").starts_with("HTTP/1.0 404"), "nothing but the page");
    let events = get("/page/events");
    child.kill().unwrap();
    child.wait().unwrap();
    let (_, body) = events.split_once("\r\n\r\n").unwrap();
    let event = |text: &str| {
        let (name, data) = text.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        (name.to_owned(), serde_json::from_str(data).unwrap())
    };
    body.split_terminator("\n\n").map(event).collect()
}

fn slots(events: &[(String, serde_json::Value)]) -> Vec<&serde_json::Value> {
    let told = events.iter().filter(|(name, _)| name == "slots");
    told.flat_map(|(_, data)| data["slots"].as_array().unwrap()).collect()
}

#[test]
fn a_log_is_shown_on_its_page_record_by_record_or_from_a_time_on() {
    let site = Site::fresh("view");
    live(&site, &long_trace(1..5), Kept { segment_bytes: 4096, ..Kept::default() });
    let report = site.audit(&["verify"]).ends(0).json();
    let events = shown(&site, &[]);
    assert_eq!((events[0].0.as_str(), events.last().unwrap().0.as_str()), ("begin", "settled"));
    let begin = &events[0].1;
    assert_eq!((&begin["kind"], &begin["part"]["more_before"]), (&"recorded".into(), &false.into()));
    let all = slots(&events);
    assert_eq!(all.len() as u64, report["records"].as_u64().unwrap());
    assert_eq!((&begin["part"]["from"], &begin["part"]["until"]), (&all[0]["at"], &all[all.len() - 1]["at"]));
    let exported = site.audit(&["export", "--decisions"]).ends(0).out;
    let count = |what: &str| exported.lines().filter(|line| line.contains(&format!("\"{what}\":{{"))).count();
    let news: Vec<&serde_json::Value> =
        all.iter().flat_map(|slot| slot["news"].as_array().unwrap()).collect();
    let told = |what: &str| news.iter().filter(|news| news["what"] == what).count();
    assert_eq!((told("expired"), told("revoked")), (count("expired"), count("revoked")));
    let granted: Vec<_> = news.iter().filter(|news| news["what"] == "granted").collect();
    assert!(!granted.is_empty() && granted.iter().all(|news| !news["claims"].as_array().unwrap().is_empty()));
    let refused = news.iter().filter(|news| news["what"] == "refused");
    let has_rivals = |news: &&&serde_json::Value| news["rivals"].as_array().is_some_and(|it| !it.is_empty());
    assert!(refused.filter(has_rivals).count() > 0, "who was in the way is told");

    let middle = all[all.len() / 2]["at"].as_u64().unwrap();
    let events = shown(&site, &["--from", &middle.to_string()]);
    assert_eq!(events[0].1["part"]["more_before"], true);
    assert_eq!(slots(&events)[0]["at"], middle);
    let late = (all[all.len() - 1]["at"].as_u64().unwrap() + 1).to_string();
    assert!(site.audit(&["view", "--from", &late]).ends(2).err.contains("no record"));
}
