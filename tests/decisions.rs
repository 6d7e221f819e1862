//! Every example of docs/DECISIONS.md, decided: the document cannot say what the core does not do.
//!
//! An example is a trace (a fenced block `jsonl trace`, with `until=TIME` where slots go on that
//! long), the configuration before it where the defaults do not do (`toml config`), and what comes
//! of them: the decisions (`jsonl decisions`), and the complaint where there is one (`text complaint`).
//! With `UPDATE=1` what comes of them is rewritten in place, for review as a diff.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use preclaim::config::Config;
use preclaim::trace::resolve;
use preclaim::types::Time;
use serde_json::Value;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/DECISIONS.md");

/// Headings of the third level that state no rule. All others must have an example.
const NO_RULE: &[&str] = &[];

/// Fewer would mean that the reader below no longer sees them.
const EXAMPLES_AT_LEAST: usize = 155;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let text = fs::read_to_string(DOCUMENT).expect("docs/DECISIONS.md is part of the package");
    let examples = match examples(&text) {
        Ok(examples) => examples,
        Err(wrong) => {
            eprintln!("docs/DECISIONS.md: {wrong}");
            return ExitCode::FAILURE;
        }
    };
    if std::env::var_os("UPDATE").is_some_and(|update| update == "1") {
        let updated = rewritten(&text, &examples);
        fs::write(DOCUMENT, updated).expect("docs/DECISIONS.md can be written");
        return ExitCode::SUCCESS;
    }
    let enough = examples.len() >= EXAMPLES_AT_LEAST;
    let bare = headings_without_example(&text, &examples);
    let lost = links_to_nowhere(&text);
    let mut trials: Vec<Trial> = examples.into_iter().map(Example::into_trial).collect();
    trials.push(Trial::test("the_document_is_read_to_its_end", move || {
        if enough { Ok(()) } else { Err("examples of docs/DECISIONS.md are missing".into()) }
    }));
    trials.push(Trial::test("each_heading_that_states_a_rule_has_an_example", move || {
        if bare.is_empty() { Ok(()) } else { Err(format!("no example under {bare:?}").into()) }
    }));
    trials.push(Trial::test("each_link_leads_to_a_heading", move || {
        if lost.is_empty() { Ok(()) } else { Err(format!("no heading for {lost:?}").into()) }
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A trace with what comes of it.
#[derive(Debug, Default)]
struct Example {
    /// The heading that it stands under, and its number there.
    name: String,
    heading: String,
    /// The line of the document on which it begins.
    line: usize,
    config: Option<String>,
    trace: Option<String>,
    until: Option<u64>,
    decisions: Option<Block>,
    complaint: Option<Block>,
}

/// The inside of a fenced block.
#[derive(Debug)]
struct Block {
    text: String,
    /// Where it stands in the document, in bytes.
    span: Range<usize>,
}

/// What a run prints: its decisions, and what it complains about.
struct Found {
    decisions: String,
    complaint: String,
}

impl Example {
    fn into_trial(self) -> Trial {
        Trial::test(self.name.clone(), move || {
            self.check().map_err(|wrong| {
                Failed::from(format!("docs/DECISIONS.md, the example on line {}\n{wrong}", self.line))
            })
        })
    }

    fn check(&self) -> Result<(), String> {
        let found = self.run();
        same_lines(text_of(self.decisions.as_ref()), &found.decisions)?;
        let complaint = text_of(self.complaint.as_ref());
        if complaint.trim_end() == found.complaint.trim_end() {
            return Ok(());
        }
        Err(format!("expected the complaint\n{complaint}\nfound\n{}", found.complaint))
    }

    /// What `preclaim resolve` prints for it.
    fn run(&self) -> Found {
        let nothing = |complaint: String| Found { decisions: String::new(), complaint };
        let config = match Config::parse("preclaim.toml", self.config.as_deref().unwrap_or_default()) {
            Ok(config) => config,
            Err(error) => return nothing(error.to_string()),
        };
        let trace = self.trace.as_deref().unwrap_or_default();
        let mut out = Vec::new();
        let ended = resolve(config, self.until.map(Time::from_us), trace.as_bytes(), &mut out);
        Found {
            decisions: String::from_utf8(out).expect("JSON is UTF-8"),
            complaint: ended.err().map(|error| error.to_string()).unwrap_or_default(),
        }
    }

    /// Takes in a block that belongs to it.
    fn add(&mut self, info: &str, block: Block) -> Result<(), String> {
        let full = match info.split_once(" until=") {
            Some(("jsonl trace", until)) => {
                self.until = Some(until.parse().map_err(|_| format!("no time: {info}"))?);
                self.trace.replace(block.text).is_some()
            }
            _ => match info {
                "toml config" => self.config.replace(block.text).is_some(),
                "jsonl trace" => self.trace.replace(block.text).is_some(),
                "jsonl decisions" => self.decisions.replace(block).is_some(),
                "text complaint" => self.complaint.replace(block).is_some(),
                _ => return Err(format!("no block of an example: {info}")),
            },
        };
        if full { Err(format!("a second block {info} in one example")) } else { Ok(()) }
    }

    /// Whether a block of that kind begins the next example.
    fn is_closed_by(&self, info: &str) -> bool {
        let told = self.decisions.is_some() || self.complaint.is_some();
        told && (info.starts_with("toml config") || info.starts_with("jsonl trace"))
    }
}

fn text_of(block: Option<&Block>) -> &str {
    block.map_or("", |block| &block.text)
}

/// A line of the document, its place, and the fence that it opens or closes.
fn lines(text: &str) -> impl Iterator<Item = (usize, Range<usize>, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').enumerate().map(move |(number, line)| {
        let start = at;
        at += line.len();
        (number + 1, start..at, line.trim_end_matches('\n'))
    })
}

/// All examples, in the order of the document.
fn examples(text: &str) -> Result<Vec<Example>, String> {
    let mut examples = Vec::new();
    let mut heading = String::new();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut open = Example::default();
    let mut fence: Option<(String, usize, usize)> = None;
    for (number, span, line) in lines(text) {
        match fence.take() {
            Some((info, from, began)) if line != "```" => fence = Some((info, from, began)),
            Some((info, ..)) if info.is_empty() => {}
            Some((info, from, began)) => {
                if open.is_closed_by(&info) {
                    examples.push(std::mem::take(&mut open));
                }
                if open.name.is_empty() {
                    let count = numbers.entry(heading.clone()).or_insert(0);
                    *count += 1;
                    open.name = format!("{}_{count}", slug(&heading));
                    open.heading = heading.clone();
                    open.line = began;
                }
                let block = Block { text: text[from..span.start].to_owned(), span: from..span.start };
                open.add(&info, block).map_err(|wrong| format!("line {began}: {wrong}"))?;
            }
            None => {
                if let Some(info) = line.strip_prefix("```").filter(|info| is_of_example(info)) {
                    fence = Some((info.to_owned(), span.end, number));
                } else if line.starts_with("```") {
                    fence = Some((String::new(), 0, number));
                } else if let Some(title) = line.strip_prefix("### ") {
                    finish(&mut examples, &mut open);
                    heading = title.to_owned();
                }
            }
        }
    }
    finish(&mut examples, &mut open);
    Ok(examples)
}

fn finish(examples: &mut Vec<Example>, open: &mut Example) {
    if !open.name.is_empty() {
        examples.push(std::mem::take(open));
    }
}

/// Blocks of an example have a second word that tells their part in it.
fn is_of_example(info: &str) -> bool {
    info.contains(' ')
}

/// A heading as a test's name.
fn slug(heading: &str) -> String {
    let word = |c: char| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let name: String = heading.chars().map(word).collect();
    name.split('_').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}

fn headings_without_example(text: &str, examples: &[Example]) -> Vec<String> {
    let headings = text.lines().filter_map(|line| line.strip_prefix("### "));
    let bare = headings.filter(|heading| {
        !NO_RULE.contains(heading) && !examples.iter().any(|example| example.heading == **heading)
    });
    bare.map(str::to_owned).collect()
}

/// Links within the document that name no heading of it, by the rule of code hosts: lower case,
/// hyphens for spaces, nothing else but letters, digits, hyphens and underscores.
fn links_to_nowhere(text: &str) -> Vec<String> {
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        title.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect::<String>()
    };
    let anchors: Vec<String> = text.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
    let links = text.split("](#").skip(1).filter_map(|rest| rest.split_once(')'));
    let lost = links.map(|(link, _)| link.to_owned()).filter(|link| !anchors.contains(link));
    lost.collect()
}

/// The document with what comes of each example as it is found.
fn rewritten(text: &str, examples: &[Example]) -> String {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for example in examples {
        let found = example.run();
        for (block, now) in [(&example.decisions, found.decisions), (&example.complaint, found.complaint)] {
            let Some(block) = block else { continue };
            let end = if now.is_empty() || now.ends_with('\n') { "" } else { "\n" };
            edits.push((block.span.clone(), now + end));
        }
    }
    edits.sort_by_key(|(span, _)| span.start);
    let mut out = text.to_owned();
    for (span, now) in edits.into_iter().rev() {
        out.replace_range(span, &now);
    }
    out
}

/// Line by line as parsed JSON, numbers by value.
fn same_lines(expected: &str, found: &str) -> Result<(), String> {
    let (expected, found): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    for at in 0..expected.len().max(found.len()) {
        let (expected, found) = (expected.get(at), found.get(at));
        let same = match (expected, found) {
            (Some(expected), Some(found)) => same(&parsed(expected)?, &parsed(found)?),
            _ => false,
        };
        if !same {
            let (expected, found) = (expected.unwrap_or(&"(nothing)"), found.unwrap_or(&"(nothing)"));
            return Err(format!("decision {}\n  expected {expected}\n  found    {found}", at + 1));
        }
    }
    Ok(())
}

fn parsed(line: &str) -> Result<Value, String> {
    serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))
}

fn same(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let equal = |(key, value)| right.get(key).is_some_and(|other| same(value, other));
            left.len() == right.len() && left.iter().all(equal)
        }
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        _ => expected == found,
    }
}
