//! The bytes of records and of snapshots, pinned: whoever changes a shape changes the log's format, and
//! sees it here. `UPDATE=1 cargo test --test audit_body` rewrites the table, for review as a diff. And
//! what happens where the bytes are others.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

#[allow(dead_code)] // this test needs the traces alone
#[path = "twin/generate.rs"]
mod generate;
#[allow(dead_code)]
#[path = "twin/trace.rs"]
mod trace;

use std::fmt::Write as _;
use std::sync::Arc;

use preclaim::audit::*;
use preclaim::resolver::state::*;
use preclaim::resolver::{
    AgentOp, ImageHead, ImageItem, Input, Rank, Resolver, Rules, RulesChange, SlotBatch, SlotOutcome,
    StateDigest, SystemOp,
};
use preclaim::session::coordinator::{
    Attempt, DeclaredBy, DrainNote, ForbiddenBy, ForbiddenNote, LoweredBy, OperatorNote, Priority,
    ReloadNote, RightsNote, Route, Sent, SessionChange, SessionNotes,
};
use preclaim::types::*;
use trace::{agent, path};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/audit_body.txt");
const SLOT_US: u64 = 10_000;
/// The decision time of the slot that is pinned.
const NOW: u64 = 1_000_000;

fn at(us: u64) -> Time {
    Time::from_us(us)
}

fn window(start: u64, end: u64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

fn key(name: &str, id: u64) -> IntentKey {
    IntentKey { agent: agent(name), id: IntentId::new(id) }
}

fn claim(target: RawTarget, mode: RawMode, offset: u64, duration: u64) -> RawClaim {
    RawClaim { target, mode, offset, duration }
}

fn on(path: &str) -> RawTarget {
    RawTarget::Path(path.into())
}

/// An intent in which every field stands.
fn full(id: u64) -> RawIntent {
    let flat = |max: &[f64]| {
        let min = if max.len() == 3 { vec![0.0, -1.5, -1e8] } else { vec![0.0, -1.5] };
        RawTarget::Box { frame: "map".into(), min, max: max.to_vec() }
    };
    let corners = vec![vec![0.0, 0.0], vec![4.0, 0.000_001], vec![4.0, 2.0]];
    let prism = |height| RawTarget::Polygon { frame: "map".into(), corners: corners.clone(), height };
    RawIntent {
        id,
        start: Some(NOW + 20_000),
        slack: 6,
        wait: 700,
        hold: true,
        task: 8,
        class: 3,
        urgency: 0.5,
        safety_margin: 0.25,
        social_value: 1.0,
        claims: vec![
            claim(on("dock/3"), RawMode::Exclusive, 1, 2000),
            claim(on("s"), RawMode::Units(300), 0, 4),
            claim(flat(&[4.0, 2.0]), RawMode::Shared, 0, 3),
            claim(flat(&[4.0, 2.0, 1e8]), RawMode::Exclusive, 0, 3),
            claim(prism(None), RawMode::Exclusive, 0, 5),
            claim(prism(Some(vec![-1.0, 3.0])), RawMode::Shared, 0, 5),
        ],
        expects: Vec::new(),
    }
}

fn resting(id: u64) -> RawIntent {
    let expects = vec![RawExpect { path: "db/users".into(), as_of: NOW - 900 }];
    RawIntent {
        id,
        claims: vec![claim(on("dock/3"), RawMode::Exclusive, 0, 7)],
        expects,
        ..RawIntent::default()
    }
}

fn invalid() -> (RawIntent, Invalid) {
    let raw = RawIntent {
        claims: vec![
            claim(on("a//b"), RawMode::Units(0), 1, 0),
            claim(RawTarget::Box { frame: "".into(), min: vec![1e300], max: vec![] }, RawMode::Shared, 0, 1),
            claim(
                RawTarget::Polygon {
                    frame: "f".into(),
                    corners: vec![vec![], vec![1.0]],
                    height: Some(vec![2.0]),
                },
                RawMode::Exclusive,
                0,
                1,
            ),
        ],
        class: 900,
        ..resting(9)
    };
    let why = raw.parse().unwrap_err();
    (raw, why)
}

fn inputs() -> Vec<Input> {
    let from = |us: u64, name: &str, op| Input::Agent { at: at(NOW - SLOT_US + us), agent: agent(name), op };
    let system = |us: u64, op| Input::System { at: at(NOW - SLOT_US + us), op };
    let (raw, why) = invalid();
    let raw = Arc::new(raw);
    let config = |resources| {
        let change = RulesChange { rules: Rules::default(), resources, document: "[slot]\n".into() };
        SystemOp::Config(Box::new(change))
    };
    vec![
        from(0, "lift-1", AgentOp::Declare(full(1).parse().unwrap())),
        from(5, "lift-1", AgentOp::Declare(resting(2).parse().unwrap())),
        from(5, "lift-2", AgentOp::Revise(resting(1).parse().unwrap())),
        from(6, "lift-2", AgentOp::Invalid { revision: false, raw: raw.clone(), why: why.clone() }),
        from(7, "lift-2", AgentOp::Invalid { revision: true, raw, why }),
        from(300, "lift-2", AgentOp::Release { id: IntentId::new(u64::MAX) }),
        from(301, "lift-1", AgentOp::Renew { id: IntentId::new(1), until: at(NOW + 5) }),
        system(400, SystemOp::Capacity { path: path("s"), capacity: 12 }),
        system(
            401,
            SystemOp::Release { agent: agent("lift-3"), id: IntentId::new(4), reason: "repair".into() },
        ),
        system(402, config(None)),
        system(403, config(Some(Vec::new()))),
        system(404, SystemOp::Restart { next_token: 70 }),
    ]
}

fn blockers() -> Vec<Blocker> {
    let blocker = |token, ratio| Blocker {
        key: key("lift-4", 5),
        token,
        claim: 1,
        their_claim: 63,
        window: window(NOW + 1, NOW + 9),
        ratio,
    };
    vec![blocker(Some(Token::new(68)), None), blocker(None, Some(0.25))]
}

fn verdicts() -> Vec<Verdict> {
    let conflict = |is_final, deadlock, offer, blockers, kept| {
        Verdict::Conflict(Conflict { is_final, deadlock, offer, blockers, kept })
    };
    let reasons = [
        Reason::Invalid,
        Reason::IdInUse,
        Reason::TooShort,
        Reason::TooLong,
        Reason::TooLate,
        Reason::BeyondHorizon,
        Reason::NoCapacity,
        Reason::OverCapacity,
    ];
    let mut all = vec![
        granted(),
        Verdict::Moved { start: at(NOW), end: at(NOW + 7), token: Token::new(71) },
        conflict(true, true, None, Vec::new(), true),
        conflict(false, false, Some(at(NOW + 10)), blockers(), false),
        Verdict::Stale { path: path("db/users"), as_of: at(NOW - 1), kept: true },
        Verdict::Stale { path: path("db/users"), as_of: at(NOW - 1), kept: false },
        Verdict::Released { reason: None },
        Verdict::Released { reason: Some("repair".into()) },
        Verdict::ReleasedUnknown,
        Verdict::Renewed { end: Time::MAX },
        Verdict::RenewDenied(RenewDenial::Unknown),
        Verdict::RenewDenied(RenewDenial::Kept { end: at(NOW + 3), blockers: blockers() }),
        Verdict::Expired { token: Token::new(3) },
        Verdict::Revoked { by: key("lift-1", 1), offer: Some(at(NOW + 4)), waiting: true },
        Verdict::Revoked { by: key("lift-1", 1), offer: None, waiting: false },
    ];
    let field = "claims[0].duration".to_owned();
    all.extend(reasons.map(|reason| Verdict::Rejected { reason, field: field.clone(), kept: false }));
    all.push(Verdict::Rejected { reason: Reason::Invalid, field, kept: true });
    all
}

fn granted() -> Verdict {
    Verdict::Granted { start: at(NOW + 20_000), end: at(NOW + 22_001), token: Token::new(70) }
}

fn decisions() -> (Vec<Decision>, Vec<Option<Rank>>) {
    let decision = |(index, verdict): (usize, Verdict)| Decision {
        key: if index == 0 { key("lift-1", 1) } else { key("lift-5", index as u64) },
        answers: (index % 5 == 1).then_some(index),
        verdict,
    };
    let rank = |index: usize| match index % 4 {
        0 => None,
        1 => Some(Rank { score: 0.0, is_overdue: true }),
        _ => Some(Rank { score: 0.3, is_overdue: false }),
    };
    let decisions: Vec<Decision> = verdicts().into_iter().enumerate().map(decision).collect();
    let ranks = (0..decisions.len()).map(rank).collect();
    (decisions, ranks)
}

/// What was sent of a priority of which less counts.
fn sent() -> Sent {
    let class = Class::new(7).unwrap();
    let priority = Priority { class, urgency: 1.0, safety_margin: 0.25, social_value: 0.5 };
    Sent { priority, by: LoweredBy { rule: Some("robots".into()), allowance: true } }
}

fn drain(by: Option<Agent>, reason: &str) -> RightsNote {
    let (at, deadline) = (at(NOW - 2), at(NOW + 30_000_000));
    RightsNote::Drain(DrainNote { at, by, reason: reason.into(), deadline })
}

/// One of each note about rights, and of each attempt.
fn rights() -> Vec<RightsNote> {
    let id = IntentId::new(300);
    let attempts = [
        Attempt::Declare(id),
        Attempt::Renew(id),
        Attempt::Release(id),
        Attempt::Administer(agent("lift-2"), id),
        Attempt::Look,
        Attempt::Drain,
        Attempt::SetCapacity,
    ];
    let forbidden = attempts.into_iter().zip(ForbiddenBy::ALL).map(|(asked, by)| {
        RightsNote::Forbidden(ForbiddenNote {
            at: at(NOW - 3),
            agent: agent("robot-1"),
            what: if asked == Attempt::Look { "".into() } else { "vault".into() },
            rule: (*by != ForbiddenBy::NoRule).then(|| "robots".into()),
            asked,
            by: *by,
        })
    });
    let others = [
        RightsNote::LeftOut(1_000),
        RightsNote::Lowered { input: 0, sent: sent() },
        RightsNote::Administered { input: 8, by: agent("boss") },
        drain(Some(agent("boss")), "upgrade"),
        drain(None, ""),
    ];
    forbidden.chain(others).collect()
}

fn reload(refused: Option<&str>) -> OperatorNote {
    let changes = vec!["priority.model \"weighted\" -> \"fifo\"".into(), "limits.lanes 256 -> 8".into()];
    let (at, by, more) = (at(NOW - 2), "SIGHUP".into(), 300);
    OperatorNote::Reload(ReloadNote { at, by, changes, more, refused: refused.map(Into::into) })
}

fn notes() -> SessionNotes {
    let declared = |input, label: &str| DeclaredBy { input, label: label.into(), note: "a crate".into() };
    let (entered, gone) = (agent("lift-1"), agent("lift-2"));
    let (number, incarnation, replaced) = (3, u128::MAX - 1, vec![1, 2]);
    SessionNotes {
        declared: vec![declared(0, "arm"), declared(1, "arm"), declared(2, "")],
        sessions: vec![
            SessionChange::Entered { agent: entered, label: "arm".into(), number, incarnation, replaced },
            SessionChange::Gone { agent: gone, label: "leg".into() },
        ],
        rights: rights(),
        operator: vec![
            reload(None),
            reload(Some("listen.addr: counts from a start on")),
            OperatorNote::Reason { input: 7, reason: "429".into() },
        ],
    }
}

fn undecided(intent: Arc<Intent>) -> Undecided {
    let mut undecided = Undecided::new(intent, at(NOW - 9_000), 31);
    undecided.waits_from = at(NOW - 8_000);
    undecided.revises = Some(Token::new(69));
    undecided.held_since = Some(at(NOW - 50));
    undecided.told = Some(Arc::new(verdicts()[3].clone()));
    undecided
}

fn grant(intent: Arc<Intent>) -> Granted {
    let start = at(NOW + 20_000);
    let windows = intent.claims.iter().map(|claim| claim.window(start)).collect();
    Granted {
        token: Token::new(70),
        start,
        end: at(NOW + 22_001),
        granted_at: at(NOW),
        arrival: at(NOW - SLOT_US),
        arrival_number: 30,
        held_since: None,
        was_moved: false,
        windows,
        intent,
    }
}

/// Standings in which every field stands, and every way to say less.
fn standings() -> Vec<StandingChange> {
    let before: Arc<Intent> = Arc::new(resting(7).parse().unwrap());
    let declared = Arc::new(full(1).parse().unwrap());
    let renewed = |intent: &Arc<Intent>| Granted {
        held_since: Some(at(NOW - 3)),
        granted_at: at(NOW - 30),
        was_moved: true,
        windows: vec![window(NOW, NOW + 40)],
        ..grant(intent.clone())
    };
    let ended = |at, line| Some(Ended { intent: before.clone(), at, line });
    let change = |key, before: Option<&Arc<Intent>>, undecided, grant, ended| StandingChange {
        key,
        before: before.cloned(),
        standing: Standing { undecided, grant, ended },
    };
    let spelled: Arc<Intent> = Arc::new(resting(8).parse().unwrap());
    vec![
        change(key("lift-1", 1), None, None, Some(grant(declared)), None),
        change(
            key("lift-6", 7),
            Some(&before),
            Some(undecided(before.clone())),
            Some(renewed(&before)),
            None,
        ),
        change(key("lift-6", 8), None, Some(Undecided::new(spelled, at(NOW - 1), 32)), None, None),
        change(key("lift-5", 6), Some(&before), None, None, ended(at(NOW), Some(verdicts()[6].clone()))),
        change(key("lift-5", 7), Some(&before), None, None, ended(at(NOW - 1), Some(granted()))),
        change(key("lift-6", 9), Some(&before), None, None, ended(at(NOW), None)),
        change(key("lift-6", 10), Some(&before), None, None, None),
    ]
    .into_iter()
    .map(|change| with_id(change, before.as_ref()))
    .collect()
}

/// The change with intents of its own id, those that stood before still one allocation.
fn with_id(change: StandingChange, stood: &Intent) -> StandingChange {
    let id = change.key.id;
    let before: Option<Arc<Intent>> = change.before.map(|it| Arc::new(Intent { id, ..(*it).clone() }));
    let own = |intent: Arc<Intent>| match &before {
        Some(before) if *intent == *stood => before.clone(),
        _ => intent,
    };
    let Standing { undecided, grant, ended } = change.standing;
    let undecided = undecided.map(|mut it| {
        it.intent = own(it.intent);
        it
    });
    let grant = grant.map(|it| Granted { intent: own(it.intent.clone()), ..it });
    let ended = ended.map(|it| Ended { intent: own(it.intent.clone()), ..it });
    StandingChange { key: change.key, before, standing: Standing { undecided, grant, ended } }
}

fn changes() -> SlotChanges {
    let ended =
        |is_region, end| EndedWindow { key: key("lift-7", 1), path: path("map"), is_region, end: at(end) };
    SlotChanges {
        standings: standings(),
        remembered: vec![key("lift-5", 6), key("lift-6", 9)],
        forgotten: 2,
        ended_windows: vec![ended(false, NOW - 2), ended(true, NOW - 1)],
        held: vec![(agent("lift-7"), window(NOW - 300, NOW - 2))],
        held_from: Time::ZERO,
        capacities: Some(vec![(path("s"), 12), (path("t"), u64::MAX)]),
        next_token: 72,
        arrivals: 33,
    }
}

fn outcome() -> SlotOutcome {
    let slot = Slot::new(NOW / SLOT_US - 1);
    let (decisions, ranks) = decisions();
    SlotOutcome {
        decisions,
        ranks,
        digest: StateDigest::from_number(0x0123_4567_89ab_cdef_0011_2233_4455_6677),
        changes: Some(changes()),
        ..SlotOutcome::empty(slot, at(NOW))
    }
}

fn record() -> Vec<u8> {
    let outcome = outcome();
    let batch = SlotBatch::new(outcome.slot, Micros::from_us(SLOT_US), inputs()).unwrap();
    let mut body = Vec::new();
    let (entry, hash) = (SlotEntry { batch: &batch, outcome: &outcome, notes: &notes() }, [0xc0; 32]);
    encode(&hash, entry, &mut body);
    body
}

fn head() -> (ImageHead, SnapshotExtra) {
    let head = ImageHead {
        last_slot: Some(Slot::new(99)),
        next_token: 72,
        arrivals: 33,
        capacities: vec![(path("s"), 12)],
        windows_forgotten: at(5),
        agents_kept: 2,
    };
    let inputs: Vec<StoredInput> = inputs().iter().map(StoredInput::from).collect();
    let pending = inputs.into_iter().filter_map(|input| match input {
        StoredInput::System { op, .. } => Some(op),
        StoredInput::Agent { .. } => None,
    });
    let extra = SnapshotExtra {
        document: "[slot]\n".into(),
        pending: pending.collect(),
        sessions: vec![notes().sessions.swap_remove(0)],
        next_session: 4,
    };
    (head, extra)
}

fn items() -> Vec<SnapshotItem> {
    let end = |us, name: &str| Some((at(us), key(name, 1)));
    let target = EndedTarget {
        path: path("map"),
        own: [end(NOW - 1, "lift-1"), None],
        regions: [end(NOW - 2, "lift-2"), end(NOW - 3, "lift-1")],
        last_end: at(NOW),
        is_fresh: true,
    };
    let standings =
        standings().into_iter().map(|it| SnapshotItem::State(ImageItem::Standing(it.key, it.standing)));
    let mut items: Vec<SnapshotItem> = standings.collect();
    items.extend([
        SnapshotItem::State(ImageItem::Ended(at(NOW - 4), key("lift-6", 9))),
        SnapshotItem::State(ImageItem::Target(target)),
        SnapshotItem::State(ImageItem::Held(agent("lift-7"), vec![window(1, 2), window(NOW - 5, NOW)])),
        SnapshotItem::Route(
            key("lift-1", 1),
            Route { label: "arm".into(), note: "a crate".into(), sent: None },
        ),
        SnapshotItem::Route(
            key("lift-1", 2),
            Route { label: "arm".into(), note: "".into(), sent: Some(sent()) },
        ),
    ]);
    items
}

fn chunk() -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ItemWriter::new(&head().0, at(NOW), &mut out);
    for item in items() {
        match item {
            SnapshotItem::State(item) => writer.item(&item),
            SnapshotItem::Route(key, route) => writer.route(&key, &route),
        }
    }
    out
}

fn head_bytes() -> Vec<u8> {
    let ((head, extra), mut out) = (head(), Vec::new());
    encode_head(&head, &extra, &mut out);
    out
}

fn stood_before(key: &IntentKey) -> Option<Arc<Intent>> {
    standings().into_iter().find(|change| change.key == *key)?.before
}

#[test]
fn bytes_are_as_they_were() {
    let mut table = "# name, then the bytes\n".to_owned();
    for (name, bytes) in [("record", record()), ("snapshot-head", head_bytes()), ("snapshot-items", chunk())]
    {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(table, "{name} {hex}").unwrap();
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(TABLE, &table).unwrap();
    }
    assert_eq!(std::fs::read_to_string(TABLE).unwrap(), table);
}

#[test]
fn a_record_with_everything_in_it_comes_back() {
    let body = record();
    let (record, rest) = Record::decode(&body).unwrap();
    let inputs: Vec<StoredInput> = inputs().iter().map(StoredInput::from).collect();
    assert_eq!((record.config_hash, record.rules_version), ([0xc0; 32], RULES_VERSION));
    assert_eq!((record.slot, record.at), (Slot::new(99), at(NOW)));
    assert_eq!(record.inputs, inputs);
    let (decisions, ranks) = decisions();
    assert_eq!((&record.decisions, &record.ranks), (&decisions, &ranks));
    assert_eq!((record.digest, &record.notes), (outcome().digest, &notes()));
    assert_eq!(rest.decode(&record, &stood_before).unwrap(), changes());
}

#[test]
fn a_snapshot_with_everything_in_it_comes_back() {
    assert_eq!(decode_head(&head_bytes()), Ok(head()));
    let chunk = chunk();
    let read: Result<Vec<SnapshotItem>, BodyError> = ItemReader::new(&chunk).unwrap().collect();
    assert_eq!(read, Ok(items()));
}

/// Why the bytes are no record whose changes apply to the state that `before` tells of.
fn read_all(body: &[u8], before: &dyn Fn(&IntentKey) -> Option<Arc<Intent>>) -> Result<(), BodyError> {
    let (record, rest) = Record::decode(body)?;
    let changes = rest.decode(&record, before)?;
    let lists = [
        record.inputs.len(),
        record.decisions.len(),
        record.notes.declared.len(),
        record.notes.sessions.len(),
        changes.standings.len(),
        changes.remembered.len(),
        changes.ended_windows.len(),
        changes.held.len(),
    ];
    assert!(lists.iter().sum::<usize>() <= body.len(), "{lists:?}");
    Ok(())
}

fn read_items(chunk: &[u8]) -> Result<(), BodyError> {
    let items: Vec<SnapshotItem> = ItemReader::new(chunk)?.collect::<Result<_, _>>()?;
    assert!(items.len() <= chunk.len());
    Ok(())
}

#[test]
fn a_body_that_ends_early_or_goes_on_is_refused_and_the_place_is_told() {
    let body = record();
    assert_eq!(read_all(&body, &stood_before), Ok(()));
    for end in 0..body.len() {
        let error = read_all(&body[..end], &stood_before).unwrap_err();
        assert!(error.at <= end, "{error} of {end}");
    }
    let longer = [&body[..], &[0]].concat();
    let error = read_all(&longer, &stood_before).unwrap_err();
    assert_eq!((error.at, error.what), (body.len(), "bytes after the end of the body"));
    assert_eq!(
        error.to_string(),
        format!("byte {} of the body: bytes after the end of the body", body.len())
    );
    let head = head_bytes();
    assert!((0..head.len()).all(|end| decode_head(&head[..end]).is_err()));
    assert!(decode_head(&[&head[..], &[0]].concat()).is_err());
}

#[test]
fn a_change_of_what_did_not_stand_before_is_refused() {
    let error = read_all(&record(), &|_| None).unwrap_err();
    assert_eq!(error.what, "a change of an intent that did not stand before");
}

#[test]
fn a_record_without_changes_can_be_read_and_not_applied() {
    let outcome = SlotOutcome { changes: None, ..outcome() };
    let (batch, notes, mut body) = (SlotBatch::empty(outcome.slot), notes(), Vec::new());
    encode(&[0; 32], SlotEntry { batch: &batch, outcome: &outcome, notes: &notes }, &mut body);
    let (record, rest) = Record::decode(&body).unwrap();
    let error = rest.decode(&record, &|_| None).unwrap_err();
    assert_eq!(error.what, "a record that does not say what the slot changed");
}

#[test]
fn a_number_beyond_64_bits_and_a_long_list_are_refused_before_anything_is_taken() {
    let after = |bytes: &[u8]| Record::decode(bytes).map(|_| ()).unwrap_err();
    assert_eq!(after(&[0xff; 10]).what, "a number beyond 64 bits");
    assert_eq!(after(&[0x80; 11]).what, "a number beyond 64 bits");
    let mut body = [0; 51]; // slot, time, version, hash and digest
    body[2] = 1;
    let counted = |count: &[u8]| after(&[&body[..], count].concat());
    assert_eq!(counted(&[0xff, 0xff, 0xff, 0x07]).what, "a list of more than there are bytes left");
    assert_eq!(counted(&[0xff, 0xff, 0xff, 0x7f]).what, "a list of more than there may be");
    assert_eq!(counted(&[0xff, 0xff, 0xff, 0x7f]).at, body.len());
}

/// Reads the bytes as they are and with each byte changed in turn, in a few ways.
fn attack(bytes: &[u8], read: &dyn Fn(&[u8]) -> Result<(), BodyError>) {
    let mut copy = bytes.to_vec();
    for place in 0..bytes.len() {
        for change in [0x01, 0x02, 0x04, 0x10, 0x40, 0x80, 0xff] {
            copy[place] ^= change;
            if let Err(error) = read(&copy) {
                assert!(error.at <= copy.len(), "{error}");
            }
            copy[place] ^= change;
        }
        if let Err(error) = read(&bytes[..place]) {
            assert!(error.at <= place, "{error}");
        }
    }
}

#[test]
fn a_flipped_bit_never_panics_and_takes_no_more_than_there_are_bytes() {
    attack(&record(), &|body| read_all(body, &stood_before));
    attack(&head_bytes(), &|bytes| decode_head(bytes).map(|_| ()));
    attack(&chunk(), &read_items);
}

#[test]
fn no_record_of_a_generated_trace_panics_where_a_bit_is_flipped() {
    for seed in 1..=40 {
        let trace = generate::trace(seed);
        let mut resolver = Resolver::new(trace.spec.rules()).reporting_changes();
        for batch in trace.batches() {
            if resolver.next_due().is_some_and(|due| due < batch.slot()) {
                break; // what is due without input is the twin's test
            }
            let outcome = resolver.resolve(&batch);
            let before = |key: &IntentKey| {
                let changes = outcome.changes.as_ref()?;
                changes.standings.iter().find(|change| change.key == *key)?.before.clone()
            };
            let notes = SessionNotes::default();
            let entry = SlotEntry { batch: &batch, outcome: &outcome, notes: &notes };
            let mut body = Vec::new();
            encode(&[0; 32], entry, &mut body);
            assert_eq!(read_all(&body, &before), Ok(()));
            attack(&body, &|body| read_all(body, &before));
        }
    }
}

/// The record with no more of agents' free text than `kept`.
fn record_keeping(kept: &TextKept) -> Vec<u8> {
    let outcome = outcome();
    let batch = SlotBatch::new(outcome.slot, Micros::from_us(SLOT_US), inputs()).unwrap();
    let (notes, mut body) = (notes(), Vec::new());
    encode_keeping(
        kept,
        &[0xc0; 32],
        SlotEntry { batch: &batch, outcome: &outcome, notes: &notes },
        &mut body,
    );
    body
}

#[test]
fn free_text_that_is_left_out_or_hashed_is_in_no_byte_and_all_else_is_as_it_was() {
    assert_eq!(record_keeping(&TextKept::All), record());
    let key = TextKey::new(&"k".repeat(40)).unwrap();
    let hash = key.hash("a crate");
    let found = |body: &[u8], text: &str| body.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(found(&record(), "a crate") && found(&record(), "a//b"));
    for (kept, note) in [(TextKept::Nothing, ""), (TextKept::Hashes(key), hash.as_str())] {
        let body = record_keeping(&kept);
        assert!(!found(&body, "a crate") && !found(&body, "a//b") && found(&body, "arm"), "{kept:?}");
        let (record, rest) = Record::decode(&body).unwrap();
        assert_eq!(rest.decode(&record, &stood_before).unwrap(), changes());
        assert_eq!((&record.decisions, record.digest), (&decisions().0, outcome().digest));
        let notes: Vec<&str> = record.notes.declared.iter().map(|by| &*by.note).collect();
        assert_eq!(notes, [note; 3]);
        for (input, kept) in inputs().iter().zip(&record.inputs) {
            let (Input::Agent { op: AgentOp::Invalid { why, .. }, .. }, StoredInput::Agent { op, .. }) =
                (input, kept)
            else {
                assert_eq!(*kept, StoredInput::from(input));
                continue;
            };
            let AgentOp::Invalid { raw, why: again, .. } = op else { panic!("it is still none: {op:?}") };
            assert_eq!((again, raw.parse().as_ref()), (why, Err(why)), "for the same field");
        }
    }
}

#[test]
fn floats_keep_their_bits() {
    for bits in [f64::MIN_POSITIVE, -f64::NAN, f64::NEG_INFINITY, -0.0, 0.1 + 0.2].map(f64::to_bits) {
        let raw = RawIntent { urgency: f64::from_bits(bits), ..RawIntent::default() };
        let why = raw.parse().unwrap_err();
        let op = AgentOp::Invalid { revision: false, raw: Arc::new(raw), why };
        let input = Input::Agent { at: at(NOW - 1), agent: agent("a"), op };
        let outcome = outcome();
        let batch = SlotBatch::new(outcome.slot, Micros::from_us(SLOT_US), vec![input]).unwrap();
        let (notes, mut body) = (notes(), Vec::new());
        encode(&[0; 32], SlotEntry { batch: &batch, outcome: &outcome, notes: &notes }, &mut body);
        let (record, _) = Record::decode(&body).unwrap();
        let StoredInput::Agent { op: AgentOp::Invalid { raw, .. }, .. } = &record.inputs[0] else { panic!() };
        assert_eq!(raw.urgency.to_bits(), bits);
    }
}
