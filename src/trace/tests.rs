use super::*;
use crate::config::Config;
use crate::resolver::{AgentOp, Input, SystemOp};
use crate::types::{
    Agent, Blocker, Conflict, Decision, IntentId, IntentKey, Mode, Path, Reason, RenewDenial, Slot, Start,
    Target, Time, Token, Verdict, Window,
};

fn read(line: &str) -> Input {
    TraceReader::new(Config::default()).read(line.as_bytes()).unwrap().expect("the line is not blank")
}

fn declared(fields: &str) -> AgentOp {
    let claims = r#""claims":[{"path":"p","duration":5}]"#;
    match read(&format!(r#"{{"at":5,"agent":"a","declare":{{"id":1,{fields}{claims}}}}}"#)) {
        Input::Agent { op, .. } => op,
        Input::System { .. } => unreachable!("it names an agent"),
    }
}

fn line(verdict: Verdict) -> String {
    let key = IntentKey { agent: Agent::new("ü\"").unwrap(), id: IntentId::new(u64::MAX) };
    let mut out = Vec::new();
    let decision = Decision { key, answers: Some(3), verdict };
    write_decision(&mut out, Slot::new(0), Time::from_us(10_000), &decision).unwrap();
    let line = String::from_utf8(out).unwrap();
    let rest = line.strip_prefix(r#"{"slot":0,"at":10000,"agent":"ü\"","id":18446744073709551615,"#);
    rest.and_then(|rest| rest.strip_suffix("}\n")).unwrap_or_else(|| panic!("{line}")).to_owned()
}

#[test]
fn what_is_left_out_has_its_default() {
    let AgentOp::Declare(intent) = declared("") else { panic!("it is right") };
    assert_eq!((intent.start, intent.slack.as_us(), intent.wait.as_us()), (Start::Asap, 0, 0));
    assert_eq!((intent.hold, intent.task.number(), intent.class.number()), (false, 0, 0));
    assert_eq!((intent.urgency, intent.safety_margin, intent.social_value), (0.0, 0.0, 0.0));
    assert_eq!((intent.claims[0].mode, intent.claims[0].offset.as_us()), (Mode::Exclusive, 0));
    assert!(intent.expects.is_empty());
}

#[test]
fn the_greatest_numbers_are_read_exactly() {
    let AgentOp::Declare(intent) = declared(r#""start":18446744073709551614,"task":18446744073709551615,"#)
    else {
        panic!("it is right")
    };
    assert_eq!(intent.start, Start::At(Time::from_us(u64::MAX - 1)));
    assert_eq!(intent.task.number(), u64::MAX);
}

#[test]
fn priority_inputs_are_the_nearest_binary64() {
    // Halfway cases and long decimals, which a fast parser gets wrong by the last bit.
    for text in [
        "0.1",
        "0.30000000000000004",
        "0.4999999999999999722444243843710864894092082977294921875",
        "1",
        "1e-7",
    ] {
        let AgentOp::Declare(intent) = declared(&format!(r#""urgency":{text},"#)) else { panic!("{text}") };
        assert_eq!(intent.urgency.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
    }
}

#[test]
fn a_value_outside_its_range_is_an_input_that_is_invalid() {
    let AgentOp::Invalid { revision, raw, why } = declared(r#""urgency":1.5,"#) else {
        panic!("1.5 is too much")
    };
    assert_eq!((raw.id, revision, why.field.as_str()), (1, false, "urgency"));
}

#[test]
fn each_operation_is_read() {
    let op = |text: &str| match read(&format!(r#"{{"at":5,"agent":"a",{text}}}"#)) {
        Input::Agent { at, agent, op } => {
            assert_eq!((at, agent.as_str()), (Time::from_us(5), "a"));
            op
        }
        Input::System { .. } => unreachable!("it names an agent"),
    };
    let (id, until) = (IntentId::new(7), Time::from_us(9));
    assert_eq!(op(r#""release":{"id":7}"#), AgentOp::Release { id });
    assert_eq!(op(r#""renew":{"until":9,"id":7}"#), AgentOp::Renew { id, until });
    let shape = r#""polygon":{"corners":[[0,0],[4,0],[4,2]],"height":[0,3]}"#;
    let revise =
        format!(r#""revise":{{"id":7,"claims":[{{"frame":"f",{shape},"mode":"shared","duration":5}}]}}"#);
    let AgentOp::Revise(intent) = op(&revise) else { panic!("it is a revision") };
    let Target::Region(region) = &intent.claims[0].target else { panic!("it is a region") };
    assert_eq!((region.frame.as_str(), region.shape.height().is_some()), ("f", true));
}

#[test]
fn each_input_of_the_operator_is_read() {
    let op = |text: &str| match read(&format!(r#"{{"at":5,"system":{text}}}"#)) {
        Input::System { op, .. } => format!("{op:?}"),
        Input::Agent { .. } => unreachable!("it names no agent"),
    };
    let debug = |op: SystemOp| format!("{op:?}");
    let (path, agent) = (Path::new("p/q").unwrap(), Agent::new("a").unwrap());
    assert_eq!(
        op(r#"{"capacity":{"path":"p/q","capacity":0}}"#),
        debug(SystemOp::Capacity { path, capacity: 0 })
    );
    let release = SystemOp::Release { agent, id: IntentId::new(1), reason: "off".into() };
    assert_eq!(op(r#"{"release":{"agent":"a","id":1,"reason":"off"}}"#), debug(release));
    assert_eq!(op(r#"{"restart":{"next_token":5000}}"#), debug(SystemOp::Restart { next_token: 5000 }));
    assert!(op(r#"{"config":{"slot":{"min_lead":"2ms"}}}"#).contains("min_lead: Micros(2000)"));
}

#[test]
fn blank_lines_are_passed_over_and_counted() {
    let mut reader = TraceReader::new(Config::default());
    assert!(reader.read(b" \r").unwrap().is_none());
    assert_eq!(reader.read(b"x").unwrap_err().line(), 2);
}

fn message(line: &str) -> String {
    TraceReader::new(Config::default()).read(line.as_bytes()).unwrap_err().to_string()
}

#[test]
fn what_no_terminal_shows_is_told_by_its_number() {
    assert!(message("\u{feff}{}").contains("found \\u{feff}{}\n"), "{}", message("\u{feff}{}"));
    assert!(message("\u{a0}").contains("found \\u{a0}\n"), "{}", message("\u{a0}"));
    let turned = message("{\"at\u{202e}\":5}");
    assert!(turned.contains("field `at\\u{202e}`") && !turned.contains('\u{202e}'), "{turned}");
}

#[test]
fn a_line_that_stops_short_is_told_so() {
    for line in ["{", "{\"at\":5", "{\"at\":", "{\"at\":5,\"agent\":\"a"] {
        assert!(message(line).contains("found the end of the line\n"), "{}", message(line));
    }
}

#[test]
fn a_restart_leaves_tokens_to_give() {
    let line = |token: u64| format!(r#"{{"at":5,"system":{{"restart":{{"next_token":{token}}}}}}}"#);
    read(&line(crate::limits::NEXT_TOKEN));
    let told = message(&line(crate::limits::NEXT_TOKEN + 1));
    assert!(told.contains("`system.restart.next_token`") && told.contains("18446744069414584320"), "{told}");
}

#[test]
fn lines_made_to_be_slow_or_deep_are_errors() {
    let many: Vec<String> = (0..100_000).map(|at| format!("\"{at}\":1")).collect();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for text in [format!("{{{}}}", many.join(",")), deep] {
        TraceReader::new(Config::default()).read(text.as_bytes()).unwrap_err();
    }
}

#[test]
fn each_verdict_is_spelled_as_the_contract_has_it() {
    let (start, end, token) = (Time::from_us(1), Time::MAX, Token::new(9));
    let path = Path::new("db/x").unwrap();
    let by = IntentKey { agent: Agent::new("b").unwrap(), id: IntentId::new(2) };
    let cases = [
        (
            Verdict::Granted { start, end, token },
            r#""granted":{"start":1,"end":18446744073709551615,"token":9}"#,
        ),
        (Verdict::Moved { start, end, token }, r#""moved":{"start":1,"end":18446744073709551615,"token":9}"#),
        (
            Verdict::Stale { path: path.clone(), as_of: start, kept: false },
            r#""stale":{"path":"db/x","as_of":1}"#,
        ),
        (
            Verdict::Stale { path, as_of: start, kept: true },
            r#""stale":{"path":"db/x","as_of":1,"kept":true}"#,
        ),
        (
            Verdict::Rejected { reason: Reason::TooLate, field: "start".into(), kept: false },
            r#""rejected":{"reason":"too_late","field":"start"}"#,
        ),
        (Verdict::Released { reason: None }, r#""released":{}"#),
        (Verdict::Released { reason: Some("off".into()) }, r#""released":{"reason":"off"}"#),
        (Verdict::ReleasedUnknown, r#""released":{"unknown":true}"#),
        (Verdict::Renewed { end: start }, r#""renewed":{"end":1}"#),
        (Verdict::RenewDenied(RenewDenial::Unknown), r#""renew_denied":{"unknown":true}"#),
        (
            Verdict::RenewDenied(RenewDenial::Kept { end: start, blockers: vec![] }),
            r#""renew_denied":{"end":1,"blockers":[]}"#,
        ),
        (Verdict::Expired { token }, r#""expired":{"token":9}"#),
        (
            Verdict::Revoked { by, offer: None, waiting: true },
            r#""revoked":{"by":{"agent":"b","id":2},"offer":null,"waiting":true}"#,
        ),
    ];
    for (verdict, expected) in cases {
        assert_eq!(line(verdict), expected);
    }
}

#[test]
fn a_conflict_names_its_blockers() {
    let key = IntentKey { agent: Agent::new("b").unwrap(), id: IntentId::new(2) };
    let window = Window::new(Time::from_us(3), Time::from_us(4)).unwrap();
    let held = Blocker { key, token: None, claim: 0, their_claim: 1, window, ratio: Some(0.25) };
    let granted = Blocker { token: Some(Token::new(5)), ratio: None, ..held.clone() };
    let blockers = vec![granted, held];
    let conflict = Conflict { is_final: false, deadlock: true, offer: Some(Time::MAX), blockers, kept: true };
    assert_eq!(
        line(Verdict::Conflict(conflict)),
        concat!(
            r#""conflict":{"final":false,"deadlock":true,"offer":18446744073709551615,"blockers":["#,
            r#"{"agent":"b","id":2,"token":5,"claim":0,"their_claim":1,"window":[3,4],"ratio":null},"#,
            r#"{"agent":"b","id":2,"token":null,"claim":0,"their_claim":1,"window":[3,4],"ratio":0.25}],"kept":true}"#
        )
    );
}
