//! Inputs written as lines of a trace and read back: over the generated traces and the worked ones.

use std::fs;
use std::path::Path;

use preclaim::audit::{StoredInput, StoredOp};
use preclaim::config::Config;
use preclaim::resolver::{AgentOp, Input, Rules, RulesChange, SystemOp};
use preclaim::trace::{TraceReader, write_input};
use preclaim::types::{Micros, RawIntent, RawTarget};

use super::generate;
use super::trace::Trace;

/// Enough to see each kind of line many times.
const TRACES: u64 = 2_000;

/// An input so that two which mean the same are spelled the same.
fn plain(input: &Input) -> String {
    let rules_of = |change: &RulesChange| {
        let patience = change.rules.patience.unwrap_or(Micros::MAX);
        let rules = Rules { patience: Some(patience), resources: Vec::new(), ..change.rules.clone() };
        RulesChange { rules, resources: change.resources.clone(), document: "".into() }
    };
    match input {
        Input::System { at, op: SystemOp::Config(change) } => {
            format!("{at:?} {:?}", rules_of(change))
        }
        _ => format!("{input:?}"),
    }
}

/// What a reader makes of the lines that the inputs are written as.
fn read_back(inputs: &[Input], config: Config) -> Vec<Input> {
    let mut reader = TraceReader::new(config);
    let read = |input: &Input| {
        let mut line = Vec::new();
        write_input(&mut line, &StoredInput::from(input)).expect("memory takes it");
        assert_eq!(line.pop(), Some(b'\n'));
        let read = reader.read(&line);
        let text = String::from_utf8_lossy(&line);
        read.unwrap_or_else(|error| panic!("{error}\n{text}")).unwrap_or_else(|| panic!("blank: {text}"))
    };
    inputs.iter().map(read).collect()
}

fn assert_read_back(inputs: &[Input], config: Config) {
    let read = read_back(inputs, config);
    for (written, read) in inputs.iter().zip(&read) {
        assert_eq!(plain(written), plain(read));
    }
}

fn config_of(trace: &Trace) -> Config {
    Config::parse("the trace's", &trace.spec.toml()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn generated_inputs_are_read_back_from_their_lines() {
    for seed in 1..=TRACES {
        let trace = generate::trace(seed);
        let inputs = trace.batches().iter().flat_map(|batch| batch.inputs().to_vec()).collect::<Vec<_>>();
        assert_read_back(&inputs, config_of(&trace));
    }
}

#[test]
fn inputs_of_the_worked_scenarios_are_read_back_from_their_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let folders = fs::read_dir(root).expect("tests/scenarios is part of the package");
    let mut count = 0;
    for folder in folders.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()) {
        let file = folder.join("config.toml");
        let config =
            if file.exists() { Config::load(&file).expect("it is right") } else { Config::default() };
        let mut reader = TraceReader::new(config.clone());
        let text = fs::read_to_string(folder.join("trace.jsonl")).expect("each has a trace");
        let inputs: Vec<Input> =
            text.lines().filter_map(|line| reader.read(line.as_bytes()).expect("it is right")).collect();
        assert_read_back(&inputs, config);
        count += 1;
    }
    assert!(count >= 44, "scenarios are missing");
}

#[test]
fn a_change_of_rules_is_read_back_through_its_record_whole_and_without_resources() {
    let text = "[slot]\nmin_lead = \"3ms\"\n[preemption]\nenabled = true\n[priority]\nmodel = \"expression\"\n\
        expression = \"urgency + 0.1 * waited\"\naging = 0.30000000000000004\npatience = \"5s\"\n\
        [[resource]]\npath = \"a\"\ncapacity = 3\noverlap_ratio = 0.05\n[[resource]]\npath = \"a/b\"\nmax_hold = \"3s\"\n";
    let config = Config::parse("it", text).unwrap_or_else(|error| panic!("{error}"));
    for resources in [None, Some(config.rules.resources.clone())] {
        let document = config.rules_document().into();
        let change = Box::new(RulesChange { rules: config.rules.clone(), resources, document });
        let input = Input::System { at: Default::default(), op: SystemOp::Config(change) };
        assert_read_back(std::slice::from_ref(&input), Config::default());
        let rules = |text: &str| Config::parse("it", text).map(|config| config.rules);
        let again = StoredInput::from(&input).to_input(rules).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(format!("{again:?}"), format!("{input:?}"));
    }
}

#[test]
fn a_change_to_no_resources_takes_them_all_out() {
    let op = StoredOp::Config { document: "".into(), resources: true };
    let mut line = Vec::new();
    let input = StoredInput::System { at: Default::default(), op };
    write_input(&mut line, &input).expect("memory takes it");
    let mut config = "[priority]\nmodel = \"expression\"\nexpression = \"urgency\"\n".to_owned();
    config.push_str("[[resource]]\npath = \"a\"\ncapacity = 3\n");
    let config = Config::parse("it", &config).unwrap_or_else(|error| panic!("{error}"));
    let read = TraceReader::new(config).read(line.trim_ascii()).unwrap_or_else(|error| panic!("{error}"));
    let Some(Input::System { op: SystemOp::Config(change), .. }) = read else { panic!("it is a change") };
    assert_eq!(change.resources, Some(Vec::new()));
    let model = format!("{:?}", Rules::default().model);
    assert_eq!(format!("{:?}", change.rules.model), model);
}

#[test]
fn a_text_that_is_no_configuration_is_no_line() {
    let op = StoredOp::Config { document: "[slot".into(), resources: true };
    let error = write_input(&mut Vec::new(), &StoredInput::System { at: Default::default(), op });
    assert_eq!(error.map_err(|error| error.kind()), Err(std::io::ErrorKind::InvalidData));
}

#[test]
fn an_invalid_declaration_is_refused_for_the_same_field_again() {
    let path = |text: &str| RawTarget::Path(text.to_owned());
    let flat = RawTarget::Box { frame: "f".into(), min: vec![f64::NAN], max: vec![f64::INFINITY, -0.0] };
    let high = RawTarget::Polygon {
        frame: "f".into(),
        corners: vec![vec![0.0, 0.0], vec![1.5, 0.0], vec![0.0, 1e-9]],
        height: Some(vec![f64::NEG_INFINITY, 1.0]),
    };
    let targets = [path("a\u{0}\"\\/b"), path("a//b"), flat, high];
    for (target, urgency) in targets.into_iter().flat_map(|it| [(it.clone(), 2.0), (it, f64::NAN)]) {
        let claim = preclaim::types::RawClaim {
            target,
            mode: preclaim::types::RawMode::Units(0),
            offset: u64::MAX,
            duration: 0,
        };
        let raw = RawIntent { id: u64::MAX, urgency, claims: vec![claim], ..RawIntent::default() };
        let why = raw.parse().expect_err("it is not right");
        let op = AgentOp::Invalid { revision: true, raw: raw.into(), why: why.clone() };
        let input = Input::Agent { at: Default::default(), agent: super::trace::agent("\"ü"), op };
        let read = read_back(std::slice::from_ref(&input), Config::default());
        let Some(Input::Agent { op: AgentOp::Invalid { revision: true, why: again, .. }, .. }) = read.first()
        else {
            panic!("{read:?}")
        };
        assert_eq!(*again, why);
    }
}
