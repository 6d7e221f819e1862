//! Traces from the agent to the collector: the real commands, and a collector that reads OTLP by OpenTelemetry's own
//! messages (tests/otlp/collector.py). Its packages are those of tests/otlp/requirements.txt; without them the tests
//! that need it are left out, unless PRECLAIM_OTLP_PYTHON names a Python that is to have them.

#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

#[allow(dead_code)] // other tests use the rest of it
mod command;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use command::{Dev, Runtime, Said};
use serde_json::Value;

const COLLECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/otlp/collector.py");
const PYTHON: &str = "PRECLAIM_OTLP_PYTHON";

/// A collector that runs, and is ended with the test.
struct Collector {
    child: Child,
    stdin: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
    endpoint: String,
}

impl Collector {
    /// `None` where this machine has not what it needs, which is said.
    fn start() -> Option<Self> {
        let asked = std::env::var(PYTHON).ok();
        let python = asked.clone().unwrap_or_else(|| "python3".to_owned());
        let check = "import opentelemetry.proto.collector.trace.v1.trace_service_pb2";
        let has_packages = Command::new(&python).args(["-c", check]).stderr(Stdio::null()).status();
        if !has_packages.is_ok_and(|status| status.success()) {
            assert!(asked.is_none(), "{PYTHON}={python} has not the packages of tests/otlp/requirements.txt");
            println!(
                "left out: {python} has not the packages of tests/otlp/requirements.txt ({PYTHON} names another)"
            );
            return None;
        }
        let mut child =
            Command::new(python).arg(COLLECTOR).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut addr = String::new();
        assert!(said.read_line(&mut addr).unwrap() > 0, "it ended");
        Some(Collector { child, stdin, said, endpoint: format!("http://{}", addr.trim()) })
    }

    /// Ends it; returns all spans that it was sent.
    fn end(mut self) -> Vec<Value> {
        drop(self.stdin.take());
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent's trace, by its number; what the agent does stands below its span 0x11.
fn parent(trace: u128, flags: &str) -> String {
    format!("00-{trace:032x}-{:016x}-{flags}", 0x11)
}

/// A command of `name`'s in a trace, whose spans go to the collector.
fn traced(dev: &Dev, collector: &Collector, name: &str, traceparent: &str, args: &[&str]) -> Command {
    let mut command = dev.runtime.command(args);
    command
        .env("PRECLAIM_NAME", name)
        .env("TRACEPARENT", traceparent)
        .env("TRACESTATE", "shop=1")
        .env("OTEL_SERVICE_NAME", format!("agent {name}"))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint);
    command
}

/// Ends the coordinator as an operator would, so that all that is left is sent.
fn stop(dev: &mut Dev) {
    let status = Command::new("kill").args(["-TERM", &dev.child.id().to_string()]).status().unwrap();
    assert!(status.success());
    assert!(dev.child.wait().unwrap().success());
}

/// Those of a trace, in the order of their starts.
struct Trace<'a>(Vec<&'a Value>);

impl<'a> Trace<'a> {
    fn of(spans: &'a [Value], trace: u128) -> Self {
        let trace = format!("{trace:032x}");
        let mut own: Vec<&Value> = spans.iter().filter(|span| span["trace"] == trace.as_str()).collect();
        own.sort_by_key(|span| span["start_ns"].as_u64());
        Trace(own)
    }

    /// The one span of that name.
    #[track_caller]
    fn one(&self, name: &str) -> &'a Value {
        let found: Vec<&&Value> = self.0.iter().filter(|span| span["name"] == name).collect();
        assert_eq!(found.len(), 1, "{name} among {:#?}", self.0);
        found[0]
    }

    fn names(&self) -> BTreeSet<&str> {
        self.0.iter().map(|span| span["name"].as_str().unwrap()).collect()
    }
}

#[track_caller]
fn is_below(span: &Value, above: &Value) {
    assert_eq!(span["parent"], above["span"], "{span:#} below {above:#}");
    assert_eq!(span["trace"], above["trace"]);
}

#[test]
fn a_declaration_is_followed_from_the_agent_to_the_end_of_its_grant() {
    let Some(collector) = Collector::start() else { return };
    let mut dev =
        Dev::with(&format!("[otlp]\nendpoint = {:?}\nservice = \"the-house\"\n", collector.endpoint));
    let run = |name: &str, trace: u128, flags: &str, args: &[&str]| {
        Said::by(&mut traced(&dev, &collector, name, &parent(trace, flags), args), "")
    };
    let granted = run("ada", 0xa, "01", &["declare", "dock/3", "--for", "10m"]).ends(0);
    let intent = granted.number_after("intent");
    run("eve", 0xe, "01", &["declare", "dock/3", "--for", "1s"]).ends(10);
    run("una", 0xd, "00", &["declare", "dock/3", "--for", "1s"]).ends(10);
    let no_context =
        &mut traced(&dev, &collector, "mal", "00-nonsense", &["declare", "dock/3", "--for", "1s"]);
    Said::by(no_context, "").ends(10);
    let mut waits = traced(
        &dev,
        &collector,
        "bob",
        &parent(0xb, "01"),
        &["declare", "dock/3", "--for", "10m", "--wait", "1m"],
    );
    let waiting = waits.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !dev.run(&["ls", "--output", "json"]).out.contains("\"bob\"") {}
    dev.run(&["release", &intent.to_string()]).ends(0);
    assert!(waiting.wait_with_output().unwrap().status.success());
    stop(&mut dev);
    let spans = collector.end();
    tell(&spans);
    let slots: Vec<&Value> = spans.iter().filter(|span| span["name"] == "slot").collect();
    of_ada(&Trace::of(&spans, 0xa), &slots);
    of_bob(&Trace::of(&spans, 0xb), &slots);
    let eve = Trace::of(&spans, 0xe);
    assert_eq!(eve.names(), BTreeSet::from(["declare", "decide"]));
    assert_eq!(eve.one("decide")["attributes"]["preclaim.outcome"], "conflict");
    assert_eq!(eve.one("decide")["attributes"]["preclaim.blocker"], format!("ada/{intent}"));
    assert!(Trace::of(&spans, 0xd).0.is_empty(), "what is not sampled is not recorded");
    of_mal(&spans);
    of_slots(&spans, &slots);
}

/// What was seen, for whoever reads the test's output.
fn tell(spans: &[Value]) {
    let count = |name: &str| spans.iter().filter(|span| span["name"] == name).count();
    let counts = ["declare", "decide", "grant", "slot", "collect", "resolve", "persist", "publish"]
        .map(|name| format!("{} {name}", count(name)));
    println!("the collector was sent {} spans: {}", spans.len(), counts.join(", "));
}

fn of_ada(trace: &Trace<'_>, slots: &[&Value]) {
    let [declare, decide, grant] = ["declare", "decide", "grant"].map(|name| trace.one(name));
    assert_eq!(trace.0.len(), 3);
    assert_eq!((&declare["kind"], &declare["parent"]), (&"CLIENT".into(), &format!("{:016x}", 0x11).into()));
    assert_eq!(declare["resource"]["service.name"], "agent ada");
    assert_eq!(declare["attributes"]["preclaim.outcome"], "granted");
    is_below(decide, declare);
    assert_eq!((&decide["kind"], &decide["state"]), (&"SERVER".into(), &"shop=1".into()));
    assert_eq!(decide["resource"]["service.name"], "the-house");
    assert_eq!(decide["attributes"]["preclaim.agent"], "ada");
    assert_eq!(decide["attributes"]["preclaim.intent"], declare["attributes"]["preclaim.intent"]);
    assert!(
        decide["attributes"]["preclaim.score"].is_f64() && decide["attributes"]["preclaim.wait_us"].is_u64()
    );
    assert_eq!(decide["links"].as_array().unwrap().len(), 1);
    assert!(slots.iter().any(|slot| slot["span"] == decide["links"][0]["span"]), "{decide:#}");
    assert_eq!(decide["flags"], 0x301, "sampled, and its parent is another program's");
    is_below(grant, decide);
    assert_eq!((&grant["kind"], &grant["flags"]), (&"INTERNAL".into(), &0x101.into()));
    assert_eq!(grant["attributes"]["preclaim.ended"], "released");
    assert_eq!(grant["attributes"]["preclaim.token"], decide["attributes"]["preclaim.token"]);
    assert!(
        grant["attributes"]["preclaim.end_us"].as_u64() > grant["attributes"]["preclaim.start_us"].as_u64()
    );
}

fn of_bob(trace: &Trace<'_>, slots: &[&Value]) {
    let [declare, decide, grant] = ["declare", "decide", "grant"].map(|name| trace.one(name));
    is_below(decide, declare);
    is_below(grant, decide);
    assert_eq!(decide["events"][0]["name"], "waiting");
    assert_eq!(decide["events"][0]["attributes"]["preclaim.blockers"], 1);
    let links = decide["links"].as_array().unwrap();
    assert!(links.len() >= 2, "the slot that it was first in, and the one that granted it: {decide:#}");
    assert!(links.iter().all(|link| slots.iter().any(|slot| slot["span"] == link["span"])));
    assert_eq!(grant["attributes"]["preclaim.ended"], "unknown", "it stood when the coordinator ended");
}

/// A context that cannot be read is none: the declaration begins a trace of its own.
fn of_mal(spans: &[Value]) {
    let of_mal = |span: &&Value| span["attributes"]["preclaim.agent"] == "mal";
    let own: Vec<&Value> = spans.iter().filter(of_mal).collect();
    assert_eq!(own.len(), 2, "{own:#?}");
    let declare = own.iter().find(|span| span["name"] == "declare").unwrap();
    assert_eq!((&declare["parent"], &declare["state"]), (&Value::Null, &"".into()));
    is_below(own.iter().find(|span| span["name"] == "decide").unwrap(), declare);
}

fn of_slots(spans: &[Value], slots: &[&Value]) {
    assert!(slots.len() >= 4);
    let traces: BTreeSet<&str> = slots.iter().map(|slot| slot["trace"].as_str().unwrap()).collect();
    assert_eq!(traces.len(), slots.len(), "each has a trace of its own");
    for slot in slots {
        assert_eq!((&slot["parent"], &slot["kind"]), (&Value::Null, &"INTERNAL".into()));
        assert!(slot["attributes"]["preclaim.traced"].as_u64() >= Some(1), "{slot:#}");
        for phase in ["collect", "resolve", "persist", "publish"] {
            let is_it = |span: &&Value| span["trace"] == slot["trace"] && span["name"] == phase;
            is_below(spans.iter().find(is_it).unwrap(), slot);
        }
    }
}

#[test]
fn a_collector_that_does_not_answer_costs_a_line_in_the_log() {
    let runtime = Runtime::fresh();
    let file = runtime.path().join("preclaim.toml");
    // Nobody listens on a port that was free a moment ago, and is not given out again so soon.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::fs::write(&file, format!("[otlp]\nendpoint = \"http://{free}\"\n")).unwrap();
    let args = ["dev", "--listen", "127.0.0.1:0", "--config", file.to_str().unwrap()];
    let child = runtime.command(&args).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut dev = Dev { runtime, child, said: String::new() };
    let mut err = BufReader::new(dev.child.stderr.take().unwrap());
    let mut lines = Vec::new();
    let mut until = |text: &str, lines: &mut Vec<String>| {
        loop {
            let mut line = String::new();
            assert!(err.read_line(&mut line).unwrap() > 0, "it ended: {lines:#?}");
            lines.push(line);
            if lines.last().unwrap().contains(text) {
                return lines.last().unwrap().clone();
            }
        }
    };
    until("preclaim declare", &mut lines);
    assert!(
        lines.iter().any(|line| line.contains(&format!("traces go to http://{free}/v1/traces"))),
        "{lines:#?}"
    );
    let declare = |at: &str| {
        let mut command = dev.runtime.command(&["declare", at, "--for", "1s"]);
        Said::by(command.env("TRACEPARENT", parent(1, "01")), "").ends(0)
    };
    declare("a");
    let line = until("spans are not taken", &mut lines);
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["level"], &line["target"]), (&"warn".into(), &"preclaim::otlp::exporter".into()));
    assert_eq!(line["fields"]["to"], format!("http://{free}/v1/traces"));
    declare("b");
    stop(&mut dev);
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("spans are not taken"), "it is said once: {rest}");
}

#[test]
fn variables_that_are_not_right_are_told_by_their_names() {
    let dev = Dev::start();
    let mut command = dev.runtime.command(&["declare", "a", "--for", "1s"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:4318");
    let said = Said::by(&mut command, "").ends(0);
    assert!(said.err.contains("warning: OTEL_EXPORTER_OTLP_ENDPOINT"), "{said:?}");
    let mut command = dev.runtime.command(&["dev", "--listen", "127.0.0.1:0"]);
    command
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let said = Said::by(&mut command, "").ends(30);
    assert!(said.err.contains("http/protobuf"), "{said:?}");
}
