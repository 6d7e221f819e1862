//! What is in ops/ against the program: the metrics that alerts and dashboard name, and, where this machine has them,
//! the tools that read these files. What it has not is left out, with a line that says so.

#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

mod scratch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use preclaim::coordinator::{Coordinator, CoordinatorConfig};
use preclaim::resolver::Rules;
use preclaim::telemetry::{Metrics, Telemetry};
use scratch::Scratch;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ALERTS: &str = include_str!("../ops/prometheus/alerts.yml");
const ALERT_TESTS: &str = include_str!("../ops/prometheus/alerts_test.yml");
const DASHBOARD: &str = include_str!("../ops/grafana/dashboards/preclaim.json");
const OPERATING: &str = include_str!("../docs/OPERATING.md");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The program, where this machine has it.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file());
    if found.is_none() {
        eprintln!("left out: this machine has no {name}");
    }
    found
}

/// Runs it in the root of the source with `input`, and says what it printed; it ends with 0.
fn passes(command: &mut Command, input: &str) -> String {
    let command =
        command.current_dir(root()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// What a coordinator at work says at /metrics.
async fn live() -> String {
    let mut config = CoordinatorConfig::in_memory(Rules::default()).unwrap();
    let metrics = Arc::new(Metrics::new(config.rules.length));
    config.observer = Some(metrics.clone());
    let coordinator = Coordinator::bind(config).unwrap();
    let telemetry = Telemetry::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let addr = telemetry.local_addr();
    tokio::spawn(telemetry.serve(metrics, coordinator.view()));
    let running = coordinator.spawn();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    running.stop().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The labels of each metric with their values, by the name that its samples have.
type Series = BTreeMap<String, BTreeSet<(String, String)>>;

fn series(text: &str) -> Series {
    let mut found = Series::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split(',').filter_map(|label| label.split_once('='));
        let labels = labels.map(|(label, value)| (label.to_owned(), value.trim_matches('"').to_owned()));
        found.entry(name.to_owned()).or_default().extend(labels);
    }
    found
}

/// Each metric that a query names, with what stands in the braces behind it.
fn named(query: &str) -> Vec<(&str, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(at) = rest.find("preclaim_") {
        let from = &rest[at..];
        let (name, behind) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        let inside =
            behind.strip_prefix('{').and_then(|it| it.split_once('}')).map_or("", |(inside, _)| inside);
        found.push((name, inside));
        rest = behind;
    }
    found
}

/// Why nothing would ever be found by `query`.
fn vain(query: &str, live: &Series) -> Option<String> {
    for (name, matchers) in named(query) {
        let Some(labels) = live.get(name) else { return Some(format!("no metric {name}")) };
        for matcher in matchers.split(',').filter(|matcher| !matcher.is_empty()) {
            let (label, values) = matcher.split_once(['=', '!']).unwrap();
            let values = values.trim_start_matches(['=', '~']).trim_matches('"');
            // Those that Prometheus adds, by a variable of the dashboard.
            if values.starts_with('$') {
                continue;
            }
            let missing =
                values.split('|').find(|value| !labels.contains(&(label.to_owned(), (*value).to_owned())));
            if let Some(value) = missing {
                return Some(format!("{name} has no {label}=\"{value}\""));
            }
        }
    }
    None
}

/// The queries of the dashboard, those of its variables too.
fn dashboard_queries(value: &serde_json::Value) -> Vec<String> {
    match value {
        serde_json::Value::Object(fields) => {
            let is_query = |key: &str| matches!(key, "expr" | "definition");
            let each = fields.iter().flat_map(|(key, value)| match value {
                serde_json::Value::String(text) if is_query(key) => vec![text.clone()],
                other => dashboard_queries(other),
            });
            each.collect()
        }
        serde_json::Value::Array(items) => items.iter().flat_map(dashboard_queries).collect(),
        _ => Vec::new(),
    }
}

/// The names of the alerts.
fn alerts() -> Vec<&'static str> {
    let name = |line: &'static str| line.trim().strip_prefix("- alert: \"")?.strip_suffix('"');
    ALERTS.lines().filter_map(name).collect()
}

#[tokio::test]
async fn each_metric_and_label_that_is_named_is_there() {
    let text = live().await;
    let live = series(&text);
    let dashboard = dashboard_queries(&serde_json::from_str(DASHBOARD).unwrap());
    assert!(dashboard.len() > 20 && named(ALERTS).len() > 10, "the queries were not found");
    for query in dashboard.iter().map(String::as_str).chain([ALERTS]) {
        assert_eq!(vain(query, &live), None, "{query}");
    }
    // Those of the rules' tests are series, in the same form.
    let given = ALERT_TESTS.replace("\\\"", "\"").replace("instance=\"a:7412\",job=\"preclaim\"", "");
    for (name, inside) in named(&given) {
        let inside = inside.split(',').filter(|label| !label.starts_with("le="));
        let query = format!("{name}{{{}}}", inside.collect::<Vec<_>>().join(","));
        assert_eq!(vain(&query, &live), None, "alerts_test.yml");
    }
    if let Some(promtool) = program("promtool") {
        passes(Command::new(promtool).args(["check", "metrics"]), &text);
    }
}

#[test]
fn what_is_not_there_is_found_out() {
    let live = series("preclaim_a_total{kind=\"x\"} 0\npreclaim_a_total{kind=\"y\"} 0\npreclaim_b 1\n");
    for good in ["rate(preclaim_a_total[5m]) / preclaim_b", "preclaim_a_total{job=~\"$job\",kind=~\"x|y\"}"] {
        assert_eq!(vain(good, &live), None, "{good}");
    }
    for bad in [
        "preclaim_b + preclaim_c",
        "preclaim_a_total{kind=\"z\"}",
        "preclaim_a_total{kind!~\"x|z\"}",
        "preclaim_a_total{sort=\"x\"}",
    ] {
        assert!(vain(bad, &live).is_some(), "{bad}");
    }
}

#[test]
fn each_alert_is_explained_and_nothing_else_is() {
    let explained: Vec<&str> =
        OPERATING.lines().filter_map(|line| line.strip_prefix("### Preclaim")).collect();
    let named: Vec<&str> = alerts().iter().map(|name| name.strip_prefix("Preclaim").unwrap()).collect();
    assert!(!named.is_empty());
    assert_eq!(
        explained, named,
        "the sections of docs/OPERATING.md, in the order of ops/prometheus/alerts.yml"
    );
}

#[test]
fn each_alert_is_tested_on_both_sides() {
    for name in alerts() {
        for case in ["fires", "does not fire"] {
            let test = format!("- name: \"{name}: {case}\"");
            assert_eq!(ALERT_TESTS.lines().filter(|line| line.trim() == test).count(), 1, "{test}");
        }
    }
}

#[test]
fn each_panel_has_a_place_of_its_own() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(w > 0 && h > 0 && x + w <= 24, "{panel}");
        let cells = (x..x + w).flat_map(|column| (y..y + h).map(move |row| (column, row)));
        cells.for_each(|cell| assert!(taken.insert(cell), "{cell:?} is taken: {panel}"));
    }
}

#[test]
fn the_files_are_what_the_script_makes() {
    let Some(python) = program("python3") else { return };
    passes(Command::new(python).args(["ops/generate", "--check"]), "");
}

#[test]
fn prometheus_takes_the_rules_and_they_pass_their_tests() {
    let Some(promtool) = program("promtool") else { return };
    passes(Command::new(&promtool).args(["check", "config", "ops/prometheus/prometheus.yml"]), "");
    passes(Command::new(&promtool).args(["check", "rules", "ops/prometheus/alerts.yml"]), "");
    passes(Command::new(&promtool).args(["test", "rules", "ops/prometheus/alerts_test.yml"]), "");
    let Some(python) = program("python3") else { return };
    let queries = passes(Command::new(python).args(["ops/generate", "--queries"]), "");
    let scratch = Scratch::fresh("ops");
    let file = scratch.path().join("queries.yml");
    fs::write(&file, queries).unwrap();
    passes(Command::new(promtool).args(["check", "rules"]).arg(file), "");
}

#[test]
fn systemd_takes_the_unit() {
    let Some(analyze) = program("systemd-analyze") else { return };
    let scratch = Scratch::fresh("ops");
    let unit = fs::read_to_string(root().join("ops/systemd/preclaim.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/preclaim serve "));
    // The program that is here, in the place of one that may not be installed.
    let here = unit.replace("/usr/bin/preclaim", env!("CARGO_BIN_EXE_preclaim"));
    let file = scratch.path().join("preclaim.service");
    fs::write(&file, here).unwrap();
    let dropins = scratch.path().join("preclaim.service.d");
    for with_host in [false, true] {
        if with_host {
            fs::create_dir(&dropins).unwrap();
            fs::copy(root().join("ops/systemd/host.conf"), dropins.join("host.conf")).unwrap();
        }
        let said = passes(Command::new(&analyze).args(["verify", "--man=no"]).arg(&file), "");
        assert!(!said.contains("preclaim.service"), "{said}");
    }
}

#[test]
fn compose_takes_the_file() {
    // The plugin of docker, or the program that came before it.
    let plugin = program("docker").is_some_and(|docker| {
        Command::new(docker).args(["compose", "version"]).output().is_ok_and(|output| output.status.success())
    });
    let mut compose = match program("docker-compose") {
        Some(compose) => Command::new(compose),
        None if plugin => {
            let mut docker = Command::new("docker");
            docker.arg("compose");
            docker
        }
        None => return,
    };
    passes(compose.args(["-f", "ops/compose.yaml", "config", "-q"]), "");
    let text = fs::read_to_string(root().join("ops/compose.yaml")).unwrap();
    for line in text.lines().filter_map(|line| line.trim().strip_prefix("- ./")) {
        let file = line.split(':').next().unwrap();
        assert!(root().join("ops").join(file).exists(), "ops/{file} is not there");
    }
}

/// The configuration that compose brings is one.
#[test]
fn the_configuration_in_containers_is_one() {
    let config = preclaim::config::Config::load(&root().join("ops/preclaim.toml")).unwrap();
    assert!(config.tls.is_some() && config.state.is_some() && config.metrics.is_some());
}
