//! The bench, end to end on real sockets: what it counts and what it reports. How fast it was is the
//! machine's matter and no test's.

use preclaim::bench::{Keep, Place, Plan, Quantiles, Threshold, find_limit, run};
use preclaim::types::Micros;

/// Some dozens of declarations, half of them on hot paths.
fn short() -> Plan {
    Plan {
        agents: 6,
        rate: 40.0,
        conflict: 0.5,
        duration: Micros::from_ms(300),
        warmup: Micros::from_ms(50),
        connections: Some(3),
        ..Plan::default()
    }
}

#[test]
fn every_declaration_is_decided_or_counted_as_an_error() {
    let report = run(&short(), "a test", &|_| ()).expect("it measures");
    assert!((60..=84).contains(&report.declared), "6 agents x 40/s x 0.3 s: {}", report.declared);
    assert_eq!(report.decided, report.declared - report.errors);
    assert_eq!(report.errors, report.errors_by_reason.values().sum::<u64>());
    assert_eq!(report.decided, report.granted + report.conflicts);
    assert!(report.conflicts > 0, "four hot paths bear no thirty grants of a second each");
    assert!(report.granted > report.decided / 4, "the others are on paths of their own");
    let count = |of: Option<Quantiles>| of.expect("measured").count;
    assert_eq!(count(report.whole), report.decided);
    assert_eq!(count(report.wait), report.decided);
    assert!(count(report.work) <= report.decided && count(report.network) == count(report.work));
    let slots = report.slots.expect("its own coordinator shows them");
    assert!(slots.run > 0 && slots.late <= slots.run && slots.caught_up <= slots.late);
    assert!(report.bare.is_some() && report.phases.is_some());
}

#[test]
fn the_report_as_json_has_what_it_documents() {
    let plan = Plan { connections: None, ..short() };
    let report = run(&plan, "preclaim bench", &|_| ()).expect("it measures");
    let json = serde_json::to_value(&report).expect("it is data");
    assert_eq!(json["command"], "preclaim bench");
    assert_eq!(json["load"]["connections"], 6);
    let spans = "whole wait work network to_coordinator to_agent load_delay first_sent last_sent bare";
    for span in spans.split(' ') {
        for quantile in ["count", "p50", "p90", "p99", "p999", "max"] {
            assert!(json[span][quantile].is_u64(), "{span}.{quantile} in {json}");
        }
    }
    for (part, field) in
        [("machine", "cores"), ("build", "version"), ("slots", "late"), ("phases", "resolve")]
    {
        assert!(!json[part][field].is_null(), "{part}.{field} in {json}");
    }
    for phase in ["wake", "collect", "resolve", "persist", "publish", "send"] {
        assert!(json["phases"][phase]["p99"].is_u64(), "phases.{phase} in {json}");
    }
    assert!(json["sockets"]["buffers"]["receive_bytes"].is_u64() && json["bursts"].is_null(), "{json}");
    let fails = |text: &str| text.parse::<Threshold>().expect("a threshold").fails(&report).is_some();
    assert!(fails("collect_max>=0us") && fails("send_p50>=0us") && fails("to_agent_p50>=0us"));
    assert!(fails("p50>=0us") && fails("decisions_per_second<1000000"));
    assert!(!fails("work_p99>3600s"));
    let table = report.to_string();
    assert!(table.contains("p99.9") && table.contains("slots with decisions"), "{table}");
}

#[test]
fn a_log_is_kept_and_measured_and_a_fresh_directory_is_gone_afterwards() {
    let keep = Keep { grants: 50, ..Keep::default() };
    let report = run(&Plan { keep: Some(keep), ..short() }, "a test", &|_| ()).expect("it measures");
    let log = report.log.as_ref().expect("there is one");
    assert_eq!((log.recovered_grants, log.recovered_records), (50, 2));
    assert!(log.records > 0 && log.records <= report.slots.expect("its own").run);
    assert!(log.bytes > log.records * 40 && log.segments == 1, "{log:?}");
    assert_eq!(log.bytes_per_declaration, Some(log.bytes as f64 / report.declared as f64));
    assert_eq!(log.persist.expect("measured").count, log.records);
    assert_eq!(log.fdatasync.expect("measured").count, log.bare_sync.expect("measured").count);
    assert!(!std::path::Path::new(&log.directory).exists());
    let fails = |text: &str| text.parse::<Threshold>().expect("a threshold").fails(&report).is_some();
    assert!(fails("persist_max>=0us") && fails("bare_sync_p50>=0us") && fails("last_over_bare_sync>=0us"));
    assert!(!fails("persist_over_fdatasync>3600s") && !fails("last_over_fdatasync>3600s"));
    let table = report.to_string();
    assert!(table.contains("durability slot") && table.contains("gone on from 50 grants"), "{table}");
}

#[test]
fn a_state_directory_that_is_named_is_left_to_be_gone_on_from() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-state");
    drop(std::fs::remove_dir_all(&dir));
    let durability = preclaim::config::Durability::None;
    let keep = Keep { durability, dir: Some(dir.clone()), grants: 7 };
    for grants in [7, 0] {
        let plan = Plan { keep: Some(keep.clone()), duration: Micros::from_ms(50), ..short() };
        let report = run(&plan, "a test", &|_| ()).expect("it measures");
        let log = report.log.expect("there is one");
        assert!(log.recovered_grants >= 7 && log.durability == "none", "{log:?}");
        assert_eq!(grants == 7, log.recovered_records == 2, "{log:?}");
        assert!(!dir.join("bench.tmp").exists());
    }
    let error =
        find_limit(&Plan { keep: Some(keep), ..short() }, "a test", &|_| ()).expect_err("a directory");
    assert!(error.to_string().starts_with("--state-dir must be"), "{error}");
}

#[test]
fn in_bursts_all_declare_at_once_and_what_sockets_lose_is_counted() {
    let plan =
        Plan { burst: true, rate: 10.0, connections: None, slot: Micros::from_ms(20), busy: 1, ..short() };
    let report = run(&plan, "a test", &|_| ()).expect("it measures");
    let bursts = report.bursts.expect("it was asked for");
    assert!((2..=3).contains(&bursts.count), "300 ms, each 100 ms: {bursts:?}");
    assert_eq!(report.decided, bursts.count * 6);
    assert!(bursts.slots_at_most >= 1 && bursts.whole.expect("measured").count == bursts.count);
    assert!(report.sockets.buffers.is_some_and(|buffers| buffers.receive_bytes > 0));
    if cfg!(target_os = "linux") {
        // Six agents fill no socket.
        assert_eq!(report.sockets.lost(), Some(0));
    }
    let table = report.to_string();
    assert!(
        table.contains("in bursts") && table.contains("bursts ") && table.contains("1 threads compute"),
        "{table}"
    );
}

#[test]
fn short_slots_decide_all_the_same() {
    for slot in [Micros::from_ms(1), Micros::from_us(250)] {
        let report = run(&Plan { slot, ..short() }, "a test", &|_| ()).expect("it measures");
        assert_eq!((report.decided, report.errors), (report.declared, 0), "slots of {slot:?}");
        assert!(report.load.slot_us == slot.as_us() && report.conflicts > 0 && report.granted > 0);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn figures_are_not_given_for_cores_that_are_not_there() {
    let host = preclaim::host::HostConfig { cores: vec![preclaim::limits::CORES - 1], ..Default::default() };
    let error = run(&Plan { host, ..short() }, "a test", &|_| ()).expect_err("no machine has so many");
    assert!(error.to_string().contains("not on cores [1023]"), "{error}");
}

#[test]
fn a_plan_that_cannot_be_is_refused_before_anything_is_started() {
    let error = run(&Plan { agents: 0, ..Plan::default() }, "a test", &|_| ()).expect_err("no agents");
    assert!(error.to_string().starts_with("--agents must be"), "{error}");
    let place = Place::Remote(Box::default());
    let error = find_limit(&Plan { place, ..short() }, "a test", &|_| ()).expect_err("its slots are unseen");
    assert!(error.to_string().starts_with("--find-limit must be"), "{error}");
}
