//! What a coordinator at work tells those who watch it: real sockets, on free ports.

#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

mod watched;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use preclaim::coordinator::{Admission, CoordinatorConfig, Denial};
use preclaim::resolver::{AgentOp, Rules};
use preclaim::telemetry::Metrics;
use preclaim::types::Agent;
use preclaim::wire::Refusal;
use preclaim::{Intent, Outcome, path};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use watched::{Watched, soon};

const DOCUMENT: &str = include_str!("../docs/METRICS.md");

/// Legal names, made to break out of a label or of a JSON text.
const HOSTILE_NAME: &str = "a\"} 1 # \\ <script>{label=\"x\"}";
const HOSTILE_PATH: &str = "evil\"} 9/\\n<b>";

impl Watched {
    async fn open() -> Self {
        Watched::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut CoordinatorConfig)) -> Self {
        let mut config = CoordinatorConfig::in_memory(Rules::default()).unwrap();
        change(&mut config);
        Watched::by(Metrics::new(config.rules.length), config).await
    }

    async fn close(self) {
        self.running.stop().await.unwrap();
    }

    async fn ask(&self, request: &str) -> String {
        let mut stream = soon(TcpStream::connect(self.addr)).await.unwrap();
        soon(stream.write_all(request.as_bytes())).await.unwrap();
        let mut answer = String::new();
        soon(stream.read_to_string(&mut answer)).await.unwrap();
        answer
    }

    /// The body of what is at `path`.
    async fn get(&self, path: &str) -> String {
        let answer = self.ask(&format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    async fn json(&self, path: &str) -> serde_json::Value {
        serde_json::from_str(&self.get(path).await).unwrap()
    }

    /// Two agents of which one is in the other's way, one that waits, and a hostile pair.
    async fn some_work(&self) -> Vec<Box<dyn std::any::Any>> {
        let [a, b, evil] = ["a", "b", HOSTILE_NAME].map(|name| self.client(name));
        let (a, b, evil) = (a.await, b.await, evil.await);
        let hour = Duration::from_secs(3600);
        let claim = |at: &str| Intent::asap().claim(path(at).unwrap().exclusive(), hour);
        let mut kept: Vec<Box<dyn std::any::Any>> = Vec::new();
        for (client, at) in [(&a, "aisle/4"), (&evil, HOSTILE_PATH)] {
            match client.declare(claim(at)).await.unwrap() {
                Outcome::Granted(grant) => kept.push(Box::new(grant)),
                other => panic!("{at}: {other:?}"),
            }
        }
        for (client, at) in [(&b, "aisle/4"), (&b, "aisle"), (&a, HOSTILE_PATH)] {
            assert!(matches!(client.declare(claim(at)).await.unwrap(), Outcome::Conflict(_)));
        }
        let (waits, waiting) = (b.clone(), claim("aisle/4").wait(hour));
        tokio::spawn(async move { waits.declare(waiting).await.map(|outcome| format!("{outcome:?}")) });
        soon(async {
            while !self.get("/metrics").await.contains("preclaim_undecided 1") {
                tokio::task::yield_now().await;
            }
        })
        .await;
        kept.extend([a, b, evil].map(|client| Box::new(client) as Box<dyn std::any::Any>));
        kept
    }
}

/// The samples of a scrape, by series.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

/// Each metric as docs/METRICS.md lists it: name, type, labels, meaning.
fn rows(text: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
        let mut labels: Vec<(String, String)> = Vec::new();
        while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
            let series = sample.rsplit_once(' ').unwrap().0;
            let inside = series.split_once('{').map_or("", |(_, rest)| rest.strip_suffix('}').unwrap());
            for label in inside.split(',').filter(|label| !label.is_empty() && !label.starts_with("le=")) {
                let (label, value) = label.split_once('=').unwrap();
                let label = (label.to_owned(), value.trim_matches('"').to_owned());
                if !labels.contains(&label) {
                    labels.push(label);
                }
            }
        }
        let names = labels.first().map_or(String::new(), |(label, _)| {
            let version = label == "version";
            let values = labels.iter().map(|(_, value)| if version { "…" } else { value.as_str() });
            format!("`{label}`: {}", values.collect::<Vec<_>>().join(", "))
        });
        rows.push(format!("| `{name}` | {kind} | {names} | {help} |"));
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_lists_what_is_there_and_nothing_else() {
    let watched = Watched::open().await;
    let live = rows(&watched.get("/metrics").await);
    let written: Vec<&str> = DOCUMENT.lines().filter(|line| line.starts_with("| `preclaim_")).collect();
    assert_eq!(written, live, "docs/METRICS.md should say:\n{}", live.join("\n"));
    watched.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_follow_the_work_and_no_name_or_path_is_a_label() {
    let watched = Watched::open().await;
    // Asked before the slot loop runs, it says of some that it does not know.
    let before = soon(async {
        loop {
            let text = watched.get("/metrics").await;
            if text.contains("preclaim_oldest_wait_seconds 0") {
                break text;
            }
        }
    })
    .await;
    assert_eq!(samples(&before)["preclaim_intents_total{outcome=\"granted\"}"], 0.0);
    let work = watched.some_work().await;
    let text = watched.get("/metrics").await;
    let now = samples(&text);
    for (series, value) in [
        ("preclaim_ready", 1.0),
        ("preclaim_intents_total{outcome=\"granted\"}", 2.0),
        ("preclaim_intents_total{outcome=\"conflict\"}", 3.0),
        ("preclaim_intents_total{outcome=\"waiting\"}", 1.0),
        ("preclaim_conflicts_total{kind=\"path\"}", 4.0),
        ("preclaim_grants_live", 2.0),
        ("preclaim_undecided", 1.0),
        ("preclaim_connections", 3.0),
        ("preclaim_sessions{state=\"connected\"}", 3.0),
        ("preclaim_names", 3.0),
        ("preclaim_slot_inputs_total", 6.0),
        ("preclaim_decision_seconds_count{outcome=\"granted\"}", 2.0),
        ("preclaim_audit_records_total", 0.0),
    ] {
        assert_eq!(now.get(series), Some(&value), "{series}\n{text}");
    }
    let slots: f64 = ["ok", "late", "caught_up"]
        .iter()
        .map(|it| now[&*format!("preclaim_slots_total{{result=\"{it}\"}}")])
        .sum();
    assert!(slots >= 1.0 && now["preclaim_slot_lag_seconds_count"] == slots);
    assert_eq!(
        now.keys().collect::<Vec<_>>(),
        samples(&before).keys().collect::<Vec<_>>(),
        "no series comes or goes"
    );
    for hostile in ["evil", "script", "aisle"] {
        assert!(!text.contains(hostile), "{hostile}");
    }
    assert!(
        now["preclaim_oldest_wait_seconds"] > 0.0 && samples(&before)["preclaim_oldest_wait_seconds"] == 0.0
    );
    drop(work);
    watched.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stores_refused_is_counted_as_agents_tell_it() {
    let watched = Watched::open().await;
    let client = watched.client("a").await;
    let hour = Duration::from_secs(3600);
    for (refused, all) in [(0, 0), (1, 1), (3, 4), (0, 4)] {
        for _ in 0..refused {
            client.fence_refused();
        }
        // What comes with a declaration is counted before it is answered.
        client.declare(Intent::asap().claim(path("aisle/4").unwrap().exclusive(), hour)).await.unwrap();
        let text = watched.get("/metrics").await;
        assert_eq!(samples(&text)["preclaim_fence_refusals_total"], f64::from(all));
    }
    watched.close().await;
}

/// Has nobody in.
#[derive(Debug)]
struct Nobody;

impl Admission for Nobody {
    fn admit(&self, _: &Agent, _: &AgentOp) -> Result<(), Denial> {
        let (field, hint) = (String::new(), String::new());
        Err(Denial { reason: Refusal::Infeasible, field, hint, retry_after: None })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_before_the_core_and_by_it_counts_by_its_reason() {
    for (deny, series) in [(true, "infeasible"), (false, "no_capacity")] {
        let watched = Watched::with(|config| {
            if deny {
                config.admission = Arc::new(Nobody);
            }
        })
        .await;
        let client = watched.client("a").await;
        let intent = Intent::asap().claim(path("pool").unwrap().units(1), Duration::from_secs(1));
        assert!(matches!(client.declare(intent).await.unwrap(), Outcome::Rejected(_)));
        // Answered right before it is counted, where the core refuses.
        let series = format!("preclaim_refusals_total{{reason=\"{series}\"}} 1");
        soon(async {
            while !watched.get("/metrics").await.contains(&series) {
                tokio::task::yield_now().await;
            }
        })
        .await;
        watched.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_and_claims_say_who_has_what_and_who_is_in_the_way() {
    let watched = Watched::open().await;
    let work = watched.some_work().await;
    let slots = watched.json("/slots").await;
    assert_eq!(slots["length_us"], 10_000);
    let listed = slots["slots"].as_array().unwrap();
    assert!(
        !listed.is_empty() && listed.iter().all(|slot| slot["resolve_us"].is_u64() && slot["at"].is_u64())
    );
    assert!(
        listed.windows(2).all(|pair| pair[0]["slot"].as_u64() > pair[1]["slot"].as_u64()),
        "the latest first"
    );
    let claims = watched.json("/claims?top=20").await;
    assert_eq!(
        (&claims["grants"], &claims["undecided"], &claims["complete"]),
        (&2.into(), &1.into(), &true.into())
    );
    let contended = claims["contended"].as_array().unwrap();
    assert_eq!(
        (&contended[0]["path"], &contended[0]["conflicts"]),
        (&"aisle/4".into(), &3.into()),
        "{claims}"
    );
    assert_eq!(
        (&contended[0]["holder"]["agent"], &contended[0]["waiting"]),
        (&"a".into(), &1.into()),
        "{claims}"
    );
    assert_eq!(contended[1]["holder"]["agent"], HOSTILE_NAME);
    assert_eq!(contended[1]["path"], HOSTILE_PATH);
    assert_eq!(claims["longest_waiting"][0]["agent"], "b");
    assert_eq!(claims["longest_held"].as_array().unwrap().len(), 2);
    assert_eq!(watched.json("/claims?top=1").await["longest_held"].as_array().unwrap().len(), 1);
    drop(work);
    watched.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_get_and_head_of_what_there_is() {
    let watched = Watched::open().await;
    let version = watched.json("/version").await;
    assert_eq!(
        (&version["name"], &version["version"]),
        (&"preclaim".into(), &env!("CARGO_PKG_VERSION").into())
    );
    assert_eq!(watched.get("/livez").await, "alive\n");
    let head = watched.ask("HEAD /metrics HTTP/1.1\r\nhost: here\r\n\r\n").await;
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("version=0.0.4") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let lost = watched.ask("GET /nowhere HTTP/1.1\r\nhost: here\r\n\r\n").await;
    assert!(
        lost.starts_with("HTTP/1.1 404") && lost.contains("/claims") && lost.contains("/metrics"),
        "{lost}"
    );
    let posted = watched.ask("POST /metrics HTTP/1.1\r\nhost: here\r\ncontent-length: 0\r\n\r\n").await;
    assert!(posted.starts_with("HTTP/1.1 405") && posted.contains("GET, HEAD"), "{posted}");
    let asked = watched.ask("GET /claims?top=1000 HTTP/1.1\r\nhost: here\r\n\r\n").await;
    assert!(asked.starts_with("HTTP/1.1 400"), "{asked}");
    let mut stream = TcpStream::connect(watched.addr).await.unwrap();
    let long = format!("GET /livez HTTP/1.1\r\nhost: {}\r\n\r\n", "x".repeat(20_000));
    // It may be hung up on while it still writes.
    let _ = soon(stream.write_all(long.as_bytes())).await;
    let mut answer = Vec::new();
    let _ = soon(stream.read_to_end(&mut answer)).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(watched.get("/readyz").await, "ready\n");
    let Watched { running, addr, _serving } = watched;
    running.stop().await.unwrap();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("draining"), "{answer}");
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("preclaim_oldest_wait_seconds NaN\n"), "nobody knows: {answer}");
}
