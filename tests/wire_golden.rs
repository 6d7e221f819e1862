//! The bytes of every message, pinned: whoever changes a shape changes the protocol, and sees it here.
//! `UPDATE=1 cargo test --test wire_golden` rewrites the table, for review as a diff.
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

use std::fmt::Write as _;

use preclaim::types::{
    Agent, Class, IntentId, Micros, RawClaim, RawExpect, RawIntent, RawMode, RawTarget, Slot, TaskId, Time,
    Token, Window,
};
use preclaim::wire::*;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/wire.txt");

fn at(us: u64) -> Time {
    Time::from_us(us)
}

fn window(start: u64, end: u64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

fn extensions() -> Extensions {
    let optional = Extension { number: 2, value: b"trace".to_vec() };
    let required = Extension { number: 0x8003, value: Vec::new() };
    Extensions::new(vec![optional, required]).unwrap()
}

fn intent() -> RawIntent {
    let path = RawClaim {
        target: RawTarget::Path("dock/3".into()),
        mode: RawMode::Exclusive,
        offset: 1,
        duration: 2,
    };
    let flat = RawTarget::Box { frame: "map".into(), min: vec![0.0, -1.5], max: vec![4.0, 2.0] };
    let flat = RawClaim { target: flat, mode: RawMode::Shared, offset: 0, duration: 3 };
    let stock =
        RawClaim { target: RawTarget::Path("s".into()), mode: RawMode::Units(5), offset: 0, duration: 4 };
    let corners = vec![vec![0.0, 0.0], vec![4.0, 0.0], vec![4.0, 2.0]];
    let prism = RawTarget::Polygon { frame: "map".into(), corners, height: Some(vec![0.0, 3.0]) };
    let prism = RawClaim { target: prism, mode: RawMode::Exclusive, offset: 0, duration: 5 };
    RawIntent {
        id: 41,
        start: Some(25_000),
        slack: 6,
        wait: 7,
        hold: true,
        task: 8,
        class: 3,
        urgency: 0.5,
        safety_margin: 0.25,
        social_value: 1.0,
        claims: vec![path, flat, stock, prism],
        expects: vec![RawExpect { path: "db/users".into(), as_of: 9 }],
    }
}

fn blocker(held: bool) -> Blocker {
    let holding = Holding {
        target: RawTarget::Path("file/src".into()),
        mode: RawMode::Exclusive,
        window: window(25_000, 45_000),
        hold: true,
        note: "nightly build".into(),
    };
    Blocker {
        agent: "planner-2".into(),
        id: IntentId::new(41),
        token: (!held).then_some(Token::new(1043)),
        claim: 0,
        their_claim: 1,
        start: at(25_000),
        end: at(45_000),
        ratio: held.then_some(0.25),
        holding: (!held).then_some(holding),
    }
}

fn verdicts() -> Vec<(&'static str, Verdict)> {
    let (start, end, token) = (at(25_000), at(45_000), Token::new(7));
    let rejected = |reason, retry_after_us| Verdict::Rejected {
        reason,
        field: "claims[0].duration".into(),
        hint: "at least 1 µs".into(),
        retry_after_us,
        kept: false,
    };
    vec![
        ("granted", Verdict::Granted { start, end, token }),
        ("moved", Verdict::Moved { start, end, token }),
        (
            "conflict",
            Verdict::Conflict(Conflict {
                is_final: true,
                deadlock: false,
                offer: Some(at(45_000)),
                blockers: vec![blocker(false), blocker(true)],
                kept: true,
            }),
        ),
        ("stale", Verdict::Stale { path: "db/users/123".into(), as_of: at(45_000), kept: false }),
        ("rejected", rejected(Refusal::Invalid, None)),
        ("overloaded", rejected(Refusal::Overloaded, Some(20_000))),
        ("released", Verdict::Released { reason: None }),
        ("released-by-operator", Verdict::Released { reason: Some("maintenance".into()) }),
        ("released-unknown", Verdict::ReleasedUnknown),
        ("renewed", Verdict::Renewed { end }),
        ("renew-denied-unknown", Verdict::RenewDeniedUnknown),
        ("renew-denied", Verdict::RenewDenied { end, blockers: vec![blocker(false)] }),
        ("expired", Verdict::Expired { token }),
        (
            "revoked",
            Verdict::Revoked { by: "amb-1".into(), by_id: IntentId::new(1), offer: None, waiting: true },
        ),
    ]
}

fn answer(verdict: Verdict) -> Answer {
    Answer {
        request: 3,
        id: IntentId::new(41),
        slot: Slot::new(2),
        at: at(30_000),
        repeat: false,
        verdict,
        extensions: Extensions::NONE,
    }
}

fn to_coordinator() -> Vec<(&'static str, ToCoordinator)> {
    let declaration = Declaration {
        request: 3,
        revision: true,
        intent: intent(),
        note: "nightly build".into(),
        extensions: extensions(),
    };
    let (request, id, extensions) = (4, IntentId::new(41), Extensions::NONE);
    let order = DrainOrder { within: Some(Micros::from_secs(30)), reason: "upgrade".into() };
    vec![
        (
            "hello",
            Hello {
                lowest_version: 1,
                highest_version: 2,
                name: Some("fork-lift-7".into()),
                label: "main".into(),
                incarnation: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
                role: Role::Agent,
                refuse_if_live: true,
                seen: Some(Slot::new(5)),
                software: "preclaim 0.1.0".into(),
                extensions: self::extensions(),
            }
            .into(),
        ),
        (
            "hello-observer",
            Hello {
                lowest_version: 1,
                highest_version: 1,
                name: None,
                label: "ls".into(),
                incarnation: 1,
                role: Role::Observer,
                refuse_if_live: false,
                seen: None,
                software: String::new(),
                extensions: Extensions::NONE,
            }
            .into(),
        ),
        (
            "hello-token",
            Hello {
                lowest_version: 1,
                highest_version: 1,
                name: None,
                label: "main".into(),
                incarnation: 1,
                role: Role::Agent,
                refuse_if_live: false,
                seen: None,
                software: String::new(),
                extensions: Extensions::NONE.with(Bearer::new([0xcd; Bearer::BYTES]).extension()),
            }
            .into(),
        ),
        ("clock-ping", ClockPing { seq: 1, client_us: 2 }.into()),
        ("declare", Declare { batch: vec![Declaration::default(), declaration] }.into()),
        ("release", Release { request, id, extensions: extensions.clone() }.into()),
        (
            "release-of-another",
            Release::of_another(
                request,
                id,
                &Administer { agent: Agent::new("car-7").unwrap(), reason: "maintenance".into() },
            )
            .into(),
        ),
        ("release-that-drains", Release::about_drain(request, &DrainAsk::Order(order)).into()),
        ("release-that-asks-of-the-drain", Release::about_drain(request, &DrainAsk::How).into()),
        ("renew", Renew { request, id, until: at(90_000), extensions: extensions.clone() }.into()),
        (
            "list",
            List {
                request,
                under: Some("file".into()),
                agent: None,
                granted: true,
                undecided: false,
                after: vec![1, 2, 3],
                limit: 10,
                extensions: extensions.clone(),
            }
            .into(),
        ),
        (
            "watch",
            Watch { request, under: None, agent: Some("planner-2".into()), extensions: extensions.clone() }
                .into(),
        ),
        ("bye", Bye { extensions }.into()),
    ]
}

fn listing() -> ListReply {
    let claim = ListedClaim {
        target: RawTarget::Path("file/src".into()),
        mode: RawMode::Shared,
        offset_us: 0,
        duration_us: 20_000,
    };
    let entry = |state| ListEntry {
        agent: "planner-2".into(),
        id: IntentId::new(41),
        state,
        hold: true,
        class: Class::new(3).unwrap(),
        task: TaskId::new(8),
        since: at(20_000),
        note: "nightly build".into(),
        claims: vec![claim.clone()],
    };
    ListReply {
        request: 4,
        slot: Slot::new(2),
        at: at(30_000),
        entries: vec![
            entry(EntryState::Granted { start: at(25_000), end: at(45_000), token: Token::new(7) }),
            entry(EntryState::Undecided { until: at(50_000), offer: Some(at(45_000)) }),
        ],
        next: vec![9],
        extensions: Extensions::NONE,
    }
}

fn welcome() -> Welcome {
    Welcome {
        version: 1,
        name: "fork-lift-7".into(),
        label: "main".into(),
        session: 12,
        resumed: true,
        state: 13,
        slot_length: Micros::from_ms(10),
        min_lead: Micros::from_ms(2),
        horizon: Micros::from_secs(86_400),
        slot: Slot::new(2),
        now: at(29_000),
        limits: WireLimits { frame_bytes: 65_536, batch: 256, lanes: 256, undecided: 1024 },
        software: "preclaim 0.1.0".into(),
        extensions: extensions(),
    }
}

fn to_agent() -> Vec<(&'static str, ToAgent)> {
    let contested = ContestedNews {
        id: IntentId::new(41),
        token: Token::new(7),
        slot: Slot::new(2),
        at: at(30_000),
        by: "amb-1".into(),
        by_id: IntentId::new(1),
        class: Class::new(7).unwrap(),
        wanted: window(31_000, 32_000),
        waits_us: 80_000,
        note: "call 112".into(),
        extensions: Extensions::NONE,
    };
    let event = WatchEvent {
        request: 4,
        missed: 2,
        agent: "planner-2".into(),
        id: IntentId::new(41),
        slot: Slot::new(2),
        at: at(30_000),
        verdict: Verdict::ReleasedUnknown,
        note: "nightly build".into(),
        extensions: Extensions::NONE,
    };
    let draining = Draining { reason: "upgrade".into(), retry_after_us: Some(5), extensions: extensions() };
    let stands = DrainStands { deadline: at(30_050_000), is_over: false, left: Some(3) };
    let until = Draining {
        reason: "the coordinator drains: upgrade".into(),
        retry_after_us: Some(30_000_000),
        extensions: stands.extensions(),
    };
    let mut table = vec![
        ("welcome", welcome().into()),
        ("clock-pong", ClockPong { seq: 1, client_us: 2, coordinator: at(3) }.into()),
        ("contested", contested.into()),
        ("list-reply", listing().into()),
        ("watch-event", event.into()),
        ("draining", draining.into()),
        ("draining-until", until.into()),
        ("replaced", Replaced { by: "preclaim 0.2.0".into(), extensions: Extensions::NONE }.into()),
    ];
    table.extend(verdicts().into_iter().map(|(name, verdict)| (name, answer(verdict).into())));
    let repeat = Answer { repeat: true, extensions: extensions(), ..answer(Verdict::ReleasedUnknown) };
    table.push(("repeat-with-extensions", repeat.into()));
    let in_force = InForce {
        class: Class::new(3).unwrap(),
        urgency: 0.5,
        safety_margin: 0.25,
        social_value: 1.0,
        rule: Some("robots".into()),
        by_allowance: true,
        allowance: Some(AllowanceLeft { left: -1.5, size: 60.0, refill: 0.01 }),
    };
    let (start, end, token) = (at(40_000), at(60_000), Token::new(9));
    let lowered =
        Answer { extensions: in_force.extensions(), ..answer(Verdict::Granted { start, end, token }) };
    table.push(("granted-with-what-counts", lowered.into()));
    let drains = Answer {
        id: IntentId::new(0),
        slot: Slot::new(0),
        at: at(0),
        extensions: stands.extensions(),
        ..answer(Verdict::Released { reason: None })
    };
    table.push(("drains", drains.into()));
    table
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn rendered() -> String {
    let mut lines = String::from("# name, then the frame's bytes: length, kind, body\n");
    let mut line = |name: &str, frame: Vec<u8>| writeln!(lines, "{name} {}", hex(&frame)).unwrap();
    for (name, message) in to_coordinator() {
        let mut frame = Vec::new();
        message.encode(&mut frame).unwrap();
        line(name, frame);
    }
    for (name, message) in to_agent() {
        let mut frame = Vec::new();
        message.encode(&mut frame).unwrap();
        line(name, frame);
    }
    lines
}

#[test]
fn every_message_has_the_bytes_that_it_has_always_had() {
    let now = rendered();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(TABLE, &now).unwrap();
    }
    let pinned = std::fs::read_to_string(TABLE).unwrap();
    for (now, pinned) in now.lines().zip(pinned.lines()) {
        assert_eq!(now, pinned);
    }
    assert_eq!(now.lines().count(), pinned.lines().count());
}

#[test]
fn every_pinned_frame_reads_back_as_its_message() {
    for (name, message) in to_coordinator() {
        let mut frame = Vec::new();
        message.encode(&mut frame).unwrap();
        let mut reader = FrameReader::new();
        reader.push(&frame);
        let read = ToCoordinator::decode(reader.next_frame().unwrap().unwrap()).unwrap();
        assert_eq!(read, message, "{name}");
    }
    for (name, message) in to_agent() {
        let mut frame = Vec::new();
        message.encode(&mut frame).unwrap();
        let mut reader = FrameReader::new();
        reader.push(&frame);
        let read = ToAgent::decode(reader.next_frame().unwrap().unwrap()).unwrap();
        assert_eq!(read, message, "{name}");
    }
}

#[test]
fn the_table_has_every_kind_of_message() {
    let theirs: Vec<u16> = to_coordinator().iter().map(|(_, message)| message.kind()).collect();
    assert!(ToCoordinator::KINDS.iter().all(|kind| theirs.contains(kind)));
    let ours: Vec<u16> = to_agent().iter().map(|(_, message)| message.kind()).collect();
    assert!(ToAgent::KINDS.iter().all(|kind| ours.contains(kind)));
    assert_eq!(ToCoordinator::KINDS, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(ToAgent::KINDS, [0x101, 0x102, 0x103, 0x104, 0x105, 0x106, 0x107, 0x108]);
}

#[test]
fn reasons_and_close_codes_keep_their_numbers() {
    let reasons: Vec<_> = Refusal::ALL.iter().map(|reason| (reason.number(), reason.as_str())).collect();
    assert_eq!(
        reasons,
        [
            (1, "invalid"),
            (2, "id_in_use"),
            (3, "too_short"),
            (4, "too_long"),
            (5, "too_late"),
            (6, "beyond_horizon"),
            (7, "no_capacity"),
            (8, "over_capacity"),
            (64, "forbidden"),
            (65, "overloaded"),
            (66, "draining"),
            (67, "infeasible"),
            (68, "unsupported"),
        ]
    );
    assert_eq!(Refusal::of(9_999), Refusal::Other(9_999));
    for (number, code) in CloseCode::ALL.iter().enumerate() {
        assert_eq!(code.number() as usize, number);
        assert_eq!(CloseCode::of(number as u64), Some(*code));
    }
    assert_eq!(CloseCode::Replaced.number(), 10);
    assert_eq!(CloseCode::TooManyLanes.number(), 17);
    assert_eq!(CloseCode::AnothersName.number(), 20);
    assert_eq!(CloseCode::of(21), None);
}
