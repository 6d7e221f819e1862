//! Worked traces with the right decisions: each folder of tests/scenarios is one test.
//!
//! `about.md` tells the story, `trace.jsonl` is what arrives, `config.toml` the configuration where
//! the defaults do not do, `args` the options, `expected.jsonl` what must be decided. With `UPDATE=1`
//! the expectations are rewritten, for review as a diff.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use preclaim::config::Config;
use preclaim::trace::resolve;
use preclaim::types::Time;
use serde_json::Value;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = folders().into_iter().map(trial).collect();
    trials.push(Trial::test("at_least_the_known_scenarios_are_there", || {
        if folders().len() >= 44 { Ok(()) } else { Err("folders of tests/scenarios are missing".into()) }
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let entries = fs::read_dir(&root).expect("tests/scenarios is part of the package");
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    folders
}

fn trial(folder: PathBuf) -> Trial {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Trial::test(name, move || run(&folder))
}

fn run(folder: &Path) -> Result<(), Failed> {
    let found = decide(folder)?;
    let expected = folder.join("expected.jsonl");
    if std::env::var_os("UPDATE").is_some_and(|update| update == "1") {
        return Ok(fs::write(expected, found)?);
    }
    compare(&fs::read_to_string(expected)?, &found)
        .map_err(|difference| Failed::from(format!("{}\n{difference}", story(folder))))
}

/// What is decided about the folder's trace, as `preclaim resolve` prints it.
fn decide(folder: &Path) -> Result<String, Failed> {
    let config = folder.join("config.toml");
    let config = if config.exists() { Config::load(&config)? } else { Config::default() };
    let until = until(folder)?.map(Time::from_us);
    let mut out = Vec::new();
    resolve(config, until, fs::File::open(folder.join("trace.jsonl"))?, &mut out)?;
    Ok(String::from_utf8(out)?)
}

fn until(folder: &Path) -> Result<Option<u64>, Failed> {
    let Ok(args) = fs::read_to_string(folder.join("args")) else { return Ok(None) };
    match args.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["--until", time] => Ok(Some(time.parse()?)),
        other => Err(format!("the runner knows no options {other:?}").into()),
    }
}

fn story(folder: &Path) -> String {
    fs::read_to_string(folder.join("about.md")).unwrap_or_default()
}

/// Line by line as parsed JSON, numbers by value; the `field` of a rejection is free in its spelling.
fn compare(expected: &str, found: &str) -> Result<(), String> {
    let expected_lines: Vec<&str> = expected.lines().collect();
    let found_lines: Vec<&str> = found.lines().collect();
    for at in 0..expected_lines.len().max(found_lines.len()) {
        let (expected, found) = (expected_lines.get(at).copied(), found_lines.get(at).copied());
        let same = match (expected, found) {
            (Some(expected), Some(found)) => parsed(expected)? == parsed(found)?,
            _ => false,
        };
        if !same {
            let nothing = "(nothing)";
            let (expected, found) = (expected.unwrap_or(nothing), found.unwrap_or(nothing));
            return Err(format!("line {}\n  expected {expected}\n  found    {found}", at + 1));
        }
    }
    Ok(())
}

fn parsed(line: &str) -> Result<Value, String> {
    let mut value: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
    if let Some(rejected) = value.get_mut("rejected").and_then(Value::as_object_mut) {
        rejected.insert("field".into(), Value::Null);
    }
    by_value(&mut value);
    Ok(value)
}

/// Makes numbers that are equal by value equal as JSON: 1.0 is 1.
fn by_value(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(by_value),
        Value::Object(fields) => fields.values_mut().for_each(by_value),
        Value::Number(number) => {
            let whole =
                number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && *float >= 0.0);
            if let Some(whole) = whole.filter(|whole| *whole < 2f64.powi(53)) {
                *value = Value::from(whole as u64);
            }
        }
        _ => {}
    }
}
