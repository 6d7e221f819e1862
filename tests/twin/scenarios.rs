//! The twin against the worked scenarios: it must not only agree with the resolver.

use std::fs;
use std::path::Path;

use preclaim::config::Config;
use preclaim::resolver::{Input, SlotBatch};
use preclaim::trace::{TraceReader, write_decision};
use preclaim::types::{Slot, Time};
use serde_json::Value;

use super::reference::Twin;

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn decide(folder: &Path) -> String {
    let config = folder.join("config.toml");
    let text = if config.exists() { read(&config) } else { String::new() };
    let config = Config::parse("config.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let args = folder.join("args");
    let until = if args.exists() { read(&args) } else { String::new() };
    let until = until.split_whitespace().last().map_or(0, |us| us.parse().unwrap_or_else(|_| panic!("{us}")));
    let mut twin = Twin::new(config.rules.clone());
    let length = config.rules.length;
    let mut reader = TraceReader::new(config);
    let line = |line: &str| reader.read(line.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let mut inputs: Vec<Input> = read(&folder.join("trace.jsonl")).lines().filter_map(line).collect();
    let mut slot = inputs.first().map_or(Slot::new(0), |input| Slot::of(input.at(), length));
    let mut out = Vec::new();
    while !inputs.is_empty() || twin.has_undecided() || slot.decided_at(length) <= Time::from_us(until) {
        let later = inputs.iter().position(|input| input.at() >= slot.decided_at(length));
        let arrived: Vec<Input> = inputs.drain(..later.unwrap_or(inputs.len())).collect();
        let batch = SlotBatch::new(slot, length, arrived).unwrap_or_else(|error| panic!("{error}"));
        let outcome = twin.resolve(&batch);
        for decision in &outcome.decisions {
            write_decision(&mut out, slot, outcome.at, decision).unwrap_or_else(|error| panic!("{error}"));
        }
        slot = slot.next();
    }
    String::from_utf8(out).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_twin_decides_every_worked_scenario_as_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let folders = fs::read_dir(&root).unwrap_or_else(|error| panic!("{error}"));
    let mut wrong = Vec::new();
    let mut count = 0;
    for folder in folders.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()) {
        let values = |text: &str| -> Vec<Value> {
            let field_free = |line| {
                let mut value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}"));
                if let Some(rejected) = value.get_mut("rejected").and_then(Value::as_object_mut) {
                    rejected.remove("field");
                }
                value
            };
            text.lines().map(field_free).collect()
        };
        let found = decide(&folder);
        if values(&found) != values(&read(&folder.join("expected.jsonl"))) {
            wrong.push(format!("{}\n{found}", folder.display()));
        }
        count += 1;
    }
    assert!(count >= 44, "scenarios are missing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
