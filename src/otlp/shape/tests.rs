use super::super::span::Value;
use super::*;
use crate::types::{Agent, Blocker, IntentId, Path, Reason, Slot as Number, TraceContext, Window};

const TRACE: u128 = 7;
/// The span of the declaration.
const DECLARE: u64 = 9;

fn at(us: u64) -> Time {
    Time::from_us(us)
}

fn key(id: u64) -> IntentKey {
    IntentKey { agent: Agent::new("a").unwrap(), id: IntentId::new(id) }
}

fn told(id: u64, arrival: u64, verdict: Verdict) -> Told {
    let trace = Trace::of(TraceContext::new(TRACE, DECLARE, true).unwrap().with_state("x=y"));
    let decision = Decision { key: key(id), answers: None, verdict };
    let rank = Some(Rank { score: 0.5, is_overdue: false });
    Told { trace, decision, arrival: Some(at(arrival)), rank, is_lease: false }
}

fn news(id: u64, verdict: Verdict) -> Told {
    Told { arrival: None, rank: None, ..told(id, 0, verdict) }
}

/// The slot that ends at `end`, and is published 5 µs later.
fn slot(end: u64, told: Vec<Told>) -> Slot {
    let report = SlotReport {
        slot: Number::new(end / 100),
        at: at(end),
        woken: at(end + 1),
        closed: at(end + 2),
        resolved: at(end + 3),
        persisted: at(end + 4),
        published: at(end + 5),
        inputs: 2,
        decisions: 3,
        punctuality: Punctuality::OnTime,
    };
    Slot { report, told, is_after_gap: false }
}

fn granted(end: u64, token: u64) -> Verdict {
    Verdict::Granted { start: at(100), end: at(end), token: Token::new(token) }
}

fn conflict(is_final: bool) -> Verdict {
    let window = Window::new(at(1), at(2)).unwrap();
    let blocker = Blocker { key: key(3), token: None, claim: 0, their_claim: 0, window, ratio: None };
    let blockers = vec![blocker];
    Verdict::Conflict(Conflict { is_final, deadlock: false, offer: Some(at(900)), blockers, kept: false })
}

struct Script(Shaper);

impl Script {
    fn new() -> Self {
        Script(Shaper::new(Ids::from_seed(1)))
    }

    /// The spans that end with a slot, the slot's own left out, and where that stands.
    fn slot(&mut self, slot: Slot) -> (Vec<Span>, Place) {
        self.0.slot(slot);
        let (of_slot, others): (Vec<Span>, Vec<Span>) =
            self.0.take().into_iter().partition(|span| span.place.trace != TRACE);
        assert_eq!(of_slot.len(), 5, "the slot and its phases");
        (others, of_slot[0].place)
    }

    fn lease(&mut self) {
        let lease = Told { is_lease: true, ..told(1, 50, granted(500, 4)) };
        assert_eq!(self.slot(slot(100, vec![lease])).0.len(), 1);
    }
}

fn value<'a>(span: &'a Span, key: &str) -> &'a Value {
    let found = span.attributes.iter().find(|(name, _)| *name == key);
    &found.unwrap_or_else(|| panic!("{key} is not among {:?}", span.attributes)).1
}

fn number(span: &Span, key: &str) -> i64 {
    match value(span, key) {
        Value::Number(number) => *number,
        other => panic!("{other:?}"),
    }
}

fn word<'a>(span: &'a Span, key: &str) -> &'a str {
    match value(span, key) {
        Value::Word(word) => word,
        Value::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_slot_has_a_trace_of_its_own_with_its_phases() {
    let mut shaper = Shaper::new(Ids::from_seed(1));
    shaper.slot(slot(100, vec![told(1, 50, conflict(true))]));
    let spans = shaper.take();
    let names: Vec<&str> = spans.iter().map(|span| span.name).collect();
    assert_eq!(names, ["slot", "collect", "resolve", "persist", "publish", "decide"]);
    let own = &spans[0];
    assert_eq!((own.parent, own.start, own.end, own.kind), (None, at(100), at(105), Kind::Internal));
    assert_eq!((number(own, "preclaim.slot"), number(own, "preclaim.inputs")), (1, 2));
    assert_eq!((number(own, "preclaim.traced"), word(own, "preclaim.kept")), (1, "ok"));
    for (phase, from) in spans[1..5].iter().zip(101..) {
        assert_eq!(phase.place.trace, own.place.trace);
        assert_eq!(phase.parent, Some(Parent { span: own.place.span, is_remote: false }));
        assert_eq!((phase.start, phase.end), (at(from), at(from + 1)));
    }
}

#[test]
fn a_decision_is_below_its_declaration_and_linked_to_its_slot() {
    let mut script = Script::new();
    let (spans, slot) = script.slot(slot(100, vec![told(1, 50, conflict(true))]));
    let [decide] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((decide.name, decide.kind), ("decide", Kind::Server));
    assert_eq!(decide.parent, Some(Parent { span: DECLARE, is_remote: true }));
    assert_eq!((decide.start, decide.end, &*decide.state), (at(50), at(105), "x=y"));
    assert_eq!(decide.links, [slot]);
    assert_eq!((word(decide, "preclaim.agent"), word(decide, "preclaim.intent")), ("a", "1"));
    assert_eq!((word(decide, "preclaim.outcome"), word(decide, "preclaim.blocker")), ("conflict", "a/3"));
    assert_eq!((number(decide, "preclaim.wait_us"), number(decide, "preclaim.slot")), (50, 1));
    assert_eq!(
        (value(decide, "preclaim.score"), number(decide, "preclaim.blockers")),
        (&Value::Ratio(0.5), 1)
    );
}

#[test]
fn what_waits_is_one_span_with_each_telling_and_its_grant_is_below_it() {
    let mut script = Script::new();
    let (spans, first) = script.slot(slot(100, vec![told(1, 50, conflict(false))]));
    assert!(spans.is_empty(), "it goes on");
    let (spans, second) = script.slot(slot(300, vec![told(1, 50, granted(500, 4))]));
    let [decide] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((decide.start, decide.end), (at(50), at(305)));
    assert_eq!((&decide.links[..], decide.events.len()), (&[first, second][..], 1));
    assert_eq!((word(decide, "preclaim.outcome"), number(decide, "preclaim.wait_us")), ("granted", 250));
    script.0.tick(at(499));
    assert!(script.0.take().is_empty());
    script.0.tick(at(500));
    let spans = script.0.take();
    let [grant] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(grant.parent, Some(Parent { span: decide.place.span, is_remote: false }));
    assert_eq!((grant.name, grant.start, grant.end), ("grant", at(300), at(500)));
    assert_eq!((word(grant, "preclaim.ended"), number(grant, "preclaim.token")), ("expired", 4));
    assert_eq!((number(grant, "preclaim.start_us"), number(grant, "preclaim.end_us")), (100, 500));
}

#[test]
fn a_lease_ends_when_that_is_told_and_not_by_its_first_end() {
    let mut script = Script::new();
    script.lease();
    script.slot(slot(400, vec![news(1, Verdict::Renewed { end: at(900) })]));
    script.0.tick(at(5_000));
    assert!(script.0.take().is_empty());
    let (other, _) = script.slot(slot(800, vec![news(1, Verdict::Expired { token: Token::new(3) })]));
    assert!(other.is_empty(), "another grant's end");
    let (spans, _) = script.slot(slot(900, vec![news(1, Verdict::Expired { token: Token::new(4) })]));
    let [grant] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((word(grant, "preclaim.ended"), grant.events.len(), grant.end), ("expired", 1, at(900)));
}

#[test]
fn each_way_to_end_a_grant_is_told() {
    let by = key(8);
    let revoked = Verdict::Revoked { by: by.clone(), offer: None, waiting: false };
    let ways = [
        ("released", news(1, Verdict::Released { reason: None }), 1),
        ("revoked", news(1, revoked), 1),
        ("revised", told(1, 150, granted(700, 5)), 2),
        ("moved", told(1, 50, Verdict::Moved { start: at(1), end: at(2), token: Token::new(6) }), 2),
    ];
    for (how, told, spans) in ways {
        let mut script = Script::new();
        script.lease();
        let (ended, _) = script.slot(slot(200, vec![told]));
        assert_eq!(ended.len(), spans, "{how}");
        assert_eq!((ended[0].name, word(&ended[0], "preclaim.ended"), ended[0].end), ("grant", how, at(200)));
    }
}

#[test]
fn a_grant_that_gives_way_and_waits_on_is_undecided_again() {
    let mut script = Script::new();
    script.lease();
    let revoked = Verdict::Revoked { by: key(8), offer: Some(at(900)), waiting: true };
    assert_eq!(script.slot(slot(200, vec![news(1, revoked)])).0.len(), 1);
    let (spans, _) = script.slot(slot(300, vec![told(1, 50, granted(700, 5))]));
    assert_eq!((spans.len(), word(&spans[0], "preclaim.outcome")), (1, "granted"));
    assert_eq!((spans[0].start, spans[0].links.len()), (at(200), 2));
}

#[test]
fn what_is_refused_withdrawn_or_repeated_has_a_span_and_no_grant() {
    let mut script = Script::new();
    let rejected = Verdict::Rejected { reason: Reason::TooLong, field: "claims[0]".into(), kept: false };
    let stale = Verdict::Stale { path: Path::new("db").unwrap(), as_of: at(1), kept: false };
    let (spans, _) = script.slot(slot(
        100,
        vec![
            told(1, 50, rejected),
            told(2, 51, stale),
            told(3, 52, conflict(false)),
            Told {
                decision: Decision { answers: Some(3), ..news(3, conflict(false)).decision },
                ..news(3, conflict(false))
            },
            news(4, Verdict::ReleasedUnknown),
        ],
    ));
    let outcomes: Vec<&str> = spans.iter().map(|span| word(span, "preclaim.outcome")).collect();
    assert_eq!(outcomes, ["rejected", "stale", "repeated"]);
    assert_eq!((word(&spans[0], "preclaim.reason"), word(&spans[1], "preclaim.path")), ("too_long", "db"));
    let (spans, _) = script.slot(slot(200, vec![news(3, Verdict::Released { reason: None })]));
    assert_eq!((spans.len(), word(&spans[0], "preclaim.outcome"), spans[0].start), (1, "released", at(52)));
    script.0.lose_sight(at(300));
    assert!(script.0.take().is_empty());
}

#[test]
fn what_is_open_when_nothing_more_is_heard_ends_as_unknown() {
    let mut script = Script::new();
    script.lease();
    script.slot(slot(200, vec![told(2, 150, conflict(false)), told(5, 150, granted(900, 7))]));
    script.0.lose_sight(at(250));
    let spans = script.0.take();
    let how = |span: &Span| {
        word(span, if span.name == "grant" { "preclaim.ended" } else { "preclaim.outcome" }).to_owned()
    };
    assert_eq!(spans.iter().map(how).collect::<Vec<_>>(), ["unknown"; 3]);
    assert!(script.0.ends.is_empty());
    script.0.tick(Time::MAX);
    assert!(script.0.take().is_empty());
}

#[test]
fn after_a_gap_nobody_knows_how_what_is_open_goes_on() {
    let mut script = Script::new();
    script.lease();
    let (spans, _) =
        script.slot(Slot { is_after_gap: true, ..slot(200, vec![told(2, 150, granted(900, 7))]) });
    let names: Vec<&str> = spans.iter().map(|span| span.name).collect();
    assert_eq!(names, ["grant", "decide"]);
    assert_eq!(word(&spans[0], "preclaim.ended"), "unknown");
}

#[test]
fn events_and_links_of_a_span_are_bounded() {
    let mut script = Script::new();
    let tellings = crate::limits::SPAN_EVENTS as u64 + 5;
    for number in 1..=tellings {
        script.slot(slot(number * 100, vec![told(1, 50, conflict(false))]));
    }
    let (spans, _) = script.slot(slot(90_000, vec![told(1, 50, conflict(true))]));
    assert_eq!(spans[0].events.len(), crate::limits::SPAN_EVENTS);
    assert_eq!((spans[0].events_left_out, spans[0].links_left_out), (5, 6));
}
