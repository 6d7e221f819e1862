//! Both sides of each threshold, and that what is unknown makes no host unfit.

use super::*;
use crate::bench::{DiskPlace, Quantiles};

const SLOT: Micros = Micros::from_ms(10);

fn late(p99: u64) -> Option<Quantiles> {
    Some(Quantiles { count: 500, p50: 40, p90: 80, p99, p999: p99, max: p99 })
}

fn place(file_system: &str) -> Option<DiskPlace> {
    let (device, file_system) = ("/dev/a".to_owned(), file_system.to_owned());
    Some(DiskPlace { device, file_system, mounted_at: "/".to_owned() })
}

/// A host without a fault.
fn good() -> Readings {
    Readings {
        idle: late(300),
        loaded: late(2_000),
        load_average: Some(0.2),
        cores: Some(4),
        quota: Some(Quota::None),
        ticks: Some(Ticks { total: 2_000, steal: 0 }),
        governors: Some(vec!["performance".to_owned()]),
        clock: ClockReading {
            source: Some("tsc".to_owned()),
            available: vec!["tsc".to_owned(), "hpet".to_owned()],
            read_ns: Some(25),
        },
        wall_step_us: Some(2),
        socket: Some(SocketReading {
            asked_bytes: 4 << 20,
            receive_bytes: 4 << 20,
            send_bytes: 4 << 20,
            segments: 64,
        }),
        receive_limit: Some(4 << 20),
        send_limit: Some(4 << 20),
        state: Some(StateReading { place: place("ext4"), sync: late(400), ..StateReading::default() }),
        scheduling: Some(Scheduling::Normal),
        may_be_realtime: Some(true),
        lockable_bytes: Some(u64::MAX),
        swap_bytes: Some(0),
    }
}

/// What is found of a good host once `change` was done to it.
fn found(what: What, change: impl FnOnce(&mut Readings)) -> Finding {
    let mut readings = good();
    change(&mut readings);
    let mut findings = judge(SLOT, &readings);
    let at = findings.iter().position(|finding| finding.what == what).expect("it is looked at");
    findings.swap_remove(at)
}

fn state(change: impl FnOnce(&mut StateReading)) -> impl FnOnce(&mut Readings) {
    move |readings| change(readings.state.as_mut().expect("the good host has one"))
}

fn socket(change: impl FnOnce(&mut SocketReading)) -> impl FnOnce(&mut Readings) {
    move |readings| change(readings.socket.as_mut().expect("the good host has one"))
}

#[test]
fn a_good_host_is_fit_and_has_nothing_to_change() {
    let findings = judge(SLOT, &good());
    assert_eq!(Verdict::of(&findings), Verdict::Fit);
    for finding in &findings {
        assert_eq!((finding.grade, finding.change.as_slice()), (Grade::Ok, &[][..]), "{finding:?}");
    }
    assert_eq!(findings.len(), 16);
}

#[test]
fn of_a_host_that_tells_nothing_nothing_is_known_and_it_is_not_unfit() {
    let readings = Readings { state: Some(StateReading::default()), ..Readings::default() };
    for readings in [Readings::default(), readings] {
        let findings = judge(SLOT, &readings);
        assert_eq!(Verdict::of(&findings), Verdict::Fit);
        assert!(findings.iter().all(|finding| finding.grade == Grade::Unknown), "{findings:#?}");
    }
}

#[test]
fn each_thing_is_found_once_and_in_order() {
    let whats: Vec<What> = judge(SLOT, &good()).into_iter().map(|finding| finding.what).collect();
    let mut sorted = whats.clone();
    sorted.sort_by_key(|what| *what as u8);
    sorted.dedup();
    assert_eq!(whats, sorted);
}

#[test]
fn one_unfit_finding_makes_the_host_unfit_and_a_warning_does_not() {
    let warned = judge(SLOT, &Readings { load_average: Some(9.0), ..good() });
    assert_eq!(Verdict::of(&warned), Verdict::Fit);
    let unfit = judge(SLOT, &Readings { idle: late(9_000), ..good() });
    assert_eq!(Verdict::of(&unfit), Verdict::Unfit);
}

#[test]
fn lateness_is_judged_against_the_slot() {
    let idle = |p99| found(What::TimerIdle, |readings| readings.idle = late(p99)).grade;
    assert_eq!([idle(1_000), idle(1_001)], [Grade::Ok, Grade::Warning]);
    assert_eq!([idle(5_000), idle(5_001)], [Grade::Warning, Grade::Unfit]);
    let loaded = |p99| found(What::TimerLoaded, |readings| readings.loaded = late(p99)).grade;
    assert_eq!([loaded(2_500), loaded(2_501)], [Grade::Ok, Grade::Warning]);
    assert_eq!([loaded(10_000), loaded(10_001)], [Grade::Warning, Grade::Unfit]);
    let short = judge(Micros::from_ms(1), &good());
    assert_eq!([short[0].grade, short[1].grade], [Grade::Warning, Grade::Unfit], "300 and 2000 µs of 1 ms");
}

#[test]
fn a_late_host_is_told_of_longer_slots_and_of_real_time_priority() {
    let finding = found(What::TimerLoaded, |readings| readings.loaded = late(4_000));
    assert!(
        finding.change[0].contains("chrt --reset-on-fork --fifo 10 preclaim doctor --slot 10ms"),
        "{finding:?}"
    );
    assert!(finding.change.iter().any(|change| change.contains("\"16ms\"")), "{finding:?}");
    let finding = found(What::TimerLoaded, |readings| {
        readings.loaded = late(4_000);
        readings.scheduling = Some(Scheduling::Realtime);
    });
    assert!(finding.change.iter().all(|change| !change.contains("chrt")), "it has that already: {finding:?}");
}

#[test]
fn a_load_that_would_go_before_all_else_is_not_run_and_that_is_said() {
    let finding = found(What::TimerLoaded, |readings| {
        (readings.loaded, readings.scheduling) = (None, Some(Scheduling::Realtime));
    });
    assert_eq!(finding.grade, Grade::Unknown);
    assert!(finding.measured.contains("--reset-on-fork"), "{finding:?}");
}

#[test]
fn other_load_is_judged_by_the_cores() {
    let load = |load, cores| {
        found(What::OtherLoad, |readings| (readings.load_average, readings.cores) = (Some(load), Some(cores)))
            .grade
    };
    assert_eq!([load(1.0, 2), load(1.01, 2), load(1.01, 4)], [Grade::Ok, Grade::Warning, Grade::Ok]);
}

#[test]
fn a_core_alone_a_quota_and_a_governor_that_lowers_are_warned_of() {
    let cores = |cores| found(What::Cores, |readings| readings.cores = Some(cores)).grade;
    assert_eq!([cores(2), cores(1)], [Grade::Ok, Grade::Warning]);
    let quota = found(What::CpuQuota, |readings| readings.quota = Some(Quota::Cores(1.5)));
    assert_eq!((quota.grade, quota.measured.as_str()), (Grade::Warning, "1.50 cores"));
    let governed = |names: &[&str]| {
        let governors = names.iter().map(|name| (*name).to_owned()).collect();
        found(What::CpuGovernor, |readings| readings.governors = Some(governors)).grade
    };
    assert_eq!(governed(&["performance", "powersave"]), Grade::Warning);
}

#[test]
fn steal_time_is_a_share_and_needs_enough_ticks() {
    let steal =
        |total, steal| found(What::StealTime, |readings| readings.ticks = Some(Ticks { total, steal })).grade;
    assert_eq!([steal(1_000, 10), steal(1_000, 11)], [Grade::Ok, Grade::Warning]);
    assert_eq!([steal(1_000, 100), steal(1_000, 101)], [Grade::Warning, Grade::Unfit]);
    assert_eq!([steal(200, 100), steal(199, 100)], [Grade::Unfit, Grade::Unknown]);
}

#[test]
fn a_slow_clock_is_to_be_replaced_by_a_quick_one_where_there_is_one() {
    let clock = |ns, source: &str, available: &[&str]| {
        let available = available.iter().map(|name| (*name).to_owned()).collect();
        let clock = ClockReading { source: Some(source.to_owned()), available, read_ns: Some(ns) };
        found(What::ClockSource, |readings| readings.clock = clock)
    };
    assert_eq!(clock(1_000, "hpet", &[]).grade, Grade::Ok);
    let slow = clock(1_001, "hpet", &["hpet", "kvm-clock", "tsc"]);
    assert_eq!(slow.grade, Grade::Warning);
    assert!(slow.change[0].starts_with("echo tsc | "), "{slow:?}");
    assert!(clock(1_001, "hpet", &["hpet", "acpi_pm"]).change[0].contains("dmesg"));
}

#[test]
fn a_step_of_the_wall_clock_is_warned_of() {
    let step = |us| found(What::WallClock, |readings| readings.wall_step_us = Some(us)).grade;
    assert_eq!([step(1_000), step(1_001), step(u64::MAX)], [Grade::Ok, Grade::Warning, Grade::Warning]);
}

#[test]
fn buffers_are_judged_by_what_was_given_and_the_command_names_the_right_one() {
    let receive = |bytes| found(What::UdpReceiveBuffer, socket(|socket| socket.receive_bytes = bytes));
    let send = |bytes| found(What::UdpSendBuffer, socket(|socket| socket.send_bytes = bytes));
    assert_eq!([receive(4 << 20).grade, receive((4 << 20) - 1).grade], [Grade::Ok, Grade::Warning]);
    assert_eq!([receive(128 << 10).grade, receive((128 << 10) - 1).grade], [Grade::Warning, Grade::Unfit]);
    assert_eq!([send(4 << 20).grade, send((4 << 20) - 1).grade], [Grade::Ok, Grade::Warning]);
    assert_eq!([send(128 << 10).grade, send((128 << 10) - 1).grade], [Grade::Warning, Grade::Unfit]);
    assert!(receive(212_992).change[0].starts_with("echo net.core.rmem_max=4194304 | "));
    assert!(send(212_992).change[0].starts_with("echo net.core.wmem_max=4194304 | "));
    assert_eq!(receive(212_992).measured, "208KiB of 4MiB, rmem_max is 4194304");
}

#[test]
fn a_socket_without_gso_is_warned_of() {
    let gso = |segments| found(What::Gso, socket(|socket| socket.segments = segments)).grade;
    assert_eq!([gso(2), gso(1)], [Grade::Ok, Grade::Warning]);
}

#[test]
fn a_sync_is_judged_against_the_slot() {
    let sync = |p99| found(What::Fdatasync, state(|state| state.sync = late(p99))).grade;
    assert_eq!([sync(2_500), sync(2_501)], [Grade::Ok, Grade::Warning]);
    assert_eq!([sync(10_000), sync(10_001)], [Grade::Warning, Grade::Unfit]);
    let unasked = found(What::Fdatasync, |readings| readings.state = None);
    assert_eq!(unasked.grade, Grade::Unknown);
    assert!(unasked.measured.contains("--state"), "{unasked:?}");
}

#[test]
fn a_directory_that_takes_nothing_is_unfit_only_where_no_coordinator_could_write_there() {
    let trouble = |keeps_nothing| {
        let change = |state: &mut StateReading| {
            (state.sync, state.trouble) = (None, Some("no".to_owned()));
            state.keeps_nothing = keeps_nothing;
        };
        found(What::Fdatasync, state(change))
    };
    assert_eq!([trouble(true).grade, trouble(false).grade], [Grade::Unfit, Grade::Unknown]);
    assert_eq!(trouble(false).measured, "no");
}

#[test]
fn a_state_directory_in_memory_or_in_a_containers_layer_is_warned_of() {
    let on = |name| found(What::StateDirectory, state(|state| state.place = place(name))).grade;
    assert_eq!([on("ext4"), on("xfs"), on("nfs4")], [Grade::Ok; 3]);
    assert_eq!([on("tmpfs"), on("ramfs"), on("overlay")], [Grade::Warning; 3]);
}

#[test]
fn real_time_priority_is_missed_only_where_the_host_is_late_under_load() {
    let realtime = |p99, is_allowed| {
        found(What::RealtimePriority, |readings| {
            (readings.loaded, readings.may_be_realtime) = (late(p99), Some(is_allowed));
        })
    };
    assert_eq!([realtime(2_500, false).grade, realtime(2_501, false).grade], [Grade::Ok, Grade::Warning]);
    assert_eq!([realtime(2_501, true).grade, realtime(10_001, false).grade], [Grade::Ok, Grade::Warning]);
    let in_use = found(What::RealtimePriority, |readings| readings.scheduling = Some(Scheduling::Realtime));
    assert_eq!(in_use.measured, "in use");
}

#[test]
fn memory_is_to_be_lockable_only_where_there_is_swap() {
    let locking = |swap, lockable| {
        found(What::MemoryLocking, |readings| {
            (readings.swap_bytes, readings.lockable_bytes) = (swap, lockable)
        })
        .grade
    };
    let least = 1 << 30;
    assert_eq!(locking(Some(0), Some(0)), Grade::Ok);
    assert_eq!(locking(Some(1), Some(least)), Grade::Ok);
    assert_eq!(locking(Some(1), Some(least - 1)), Grade::Warning);
    assert_eq!(
        [locking(None, Some(least)), locking(None, Some(0)), locking(Some(1), None)],
        [Grade::Ok, Grade::Unknown, Grade::Unknown]
    );
}

#[test]
fn whatever_is_not_well_has_something_to_change() {
    let bad = Readings {
        idle: late(1_000_000),
        loaded: late(1_000_000),
        load_average: Some(99.0),
        cores: Some(1),
        quota: Some(Quota::Cores(0.1)),
        ticks: Some(Ticks { total: 1_000, steal: 900 }),
        governors: Some(vec!["powersave".to_owned()]),
        clock: ClockReading { source: None, available: Vec::new(), read_ns: Some(9_999) },
        wall_step_us: Some(9_999_999),
        socket: Some(SocketReading { asked_bytes: 4 << 20, receive_bytes: 1, send_bytes: 1, segments: 1 }),
        state: Some(StateReading { place: place("tmpfs"), sync: late(1_000_000), ..StateReading::default() }),
        may_be_realtime: Some(false),
        lockable_bytes: Some(0),
        swap_bytes: Some(1),
        ..Readings::default()
    };
    for finding in judge(SLOT, &bad) {
        assert!(matches!(finding.grade, Grade::Warning | Grade::Unfit), "{finding:?}");
        assert!(!finding.change.is_empty() && !finding.why.is_empty(), "{finding:?}");
    }
}
