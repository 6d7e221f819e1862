//! SIGHUP and `preclaim capacity` against the real command under load: what changes, what stays, and that no decision is
//! lost over it.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

#[allow(dead_code)] // a part of it is enough here
mod command;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use command::{Runtime, Said};
use preclaim::client::{ClientBuilder, Event, Events};
use preclaim::{Client, Intent, Outcome, millis, path, secs};
use serde_json::Value;

/// Ends a test that waits for what never comes; no test's outcome depends on it otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// What two configurations differ in.
struct Setting {
    model: &'static str,
    capacity: u64,
    /// Whether agents may claim below `vault`.
    vault: bool,
    undecided: u64,
    certificate: &'static str,
}

const ONE: Setting =
    Setting { model: "weighted", capacity: 8, vault: true, undecided: 1024, certificate: "one" };
const OTHER: Setting =
    Setting { model: "fifo", capacity: 3, vault: false, undecided: 512, certificate: "two" };

impl Setting {
    fn text(&self) -> String {
        let Setting { model, capacity, vault, undecided, certificate } = self;
        let modes = if *vault { "[\"exclusive\"]" } else { "[]" };
        format!(
            "[listen]\naddr = \"127.0.0.1:0\"\n[metrics]\naddr = \"127.0.0.1:0\"\n\
             [tls]\ncert = \"{certificate}.crt\"\nkey = \"{certificate}.key\"\n[auth]\nmode = \"open\"\n\
             [state]\ndir = \"state\"\nsegment_size = \"1MiB\"\n[priority]\nmodel = \"{model}\"\n\
             [[resource]]\npath = \"pool\"\ncapacity = {capacity}\n\
             [[rule]]\nname = \"boss\"\nwho = \"boss\"\nadminister = true\nread = true\n\
             [[rule]]\nname = \"vault\"\npath = \"vault\"\nmodes = {modes}\n[[rule]]\nname = \"rest\"\nread = true\n\
             [limits]\nundecided_per_agent = {undecided}\n"
        )
    }
}

/// A coordinator, and its directory.
struct Home {
    runtime: Runtime,
    serve: Child,
    said: BufReader<std::process::ChildStderr>,
    addr: String,
    watched: String,
    /// What it said up to the line that was waited for last.
    heard: String,
}

impl Home {
    fn open() -> Self {
        let runtime = Runtime::fresh();
        let certs = |args: &[&str]| {
            let mut certs = runtime.command(&["certs"]);
            Said::by(certs.current_dir(runtime.path()).args(args), "").ends(0);
        };
        certs(&["init"]);
        for name in ["one", "two"] {
            certs(&["server", "localhost", "127.0.0.1", "--force"]);
            for ending in ["crt", "key"] {
                let [from, to] = [format!("certs/server.{ending}"), format!("{name}.{ending}")];
                fs::copy(runtime.path().join(from), runtime.path().join(to)).unwrap();
            }
        }
        fs::write(runtime.path().join("preclaim.toml"), ONE.text()).unwrap();
        let mut command =
            runtime.command(&["serve", "--config", "preclaim.toml", "--new", "--check-invariants"]);
        command.current_dir(runtime.path()).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut serve = command.spawn().unwrap();
        let said = BufReader::new(serve.stderr.take().unwrap());
        let mut home =
            Home { runtime, serve, said, addr: String::new(), watched: String::new(), heard: String::new() };
        let line = home.line_with("watched at http://");
        home.watched = line.split('/').nth(2).unwrap().to_owned();
        let line = home.line_with("listening on ");
        let port = line.split_whitespace().nth(2).unwrap().rsplit_once(':').unwrap().1.to_owned();
        home.addr = format!("localhost:{port}");
        home
    }

    fn line_with(&mut self, text: &str) -> String {
        let mut line = String::new();
        self.heard.clear();
        while self.said.read_line(&mut line).unwrap() > 0 {
            self.heard.push_str(&line);
            if line.contains(text) {
                return line;
            }
            line.clear();
        }
        panic!("it ended without saying {text:?}: {}", self.heard);
    }

    fn configure(&self, text: &str) {
        fs::write(self.runtime.path().join("preclaim.toml"), text).unwrap();
    }

    fn hang_up(&self) {
        let id = self.serve.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }

    /// Has it read `text`; what it says of that.
    fn reload(&mut self, text: &str) -> String {
        self.configure(text);
        self.hang_up();
        self.line_with("read again")
    }

    fn settings(&self, name: &str) -> ClientBuilder {
        let ca = self.runtime.path().join("certs/ca.crt");
        Client::builder().addr(&self.addr).ca(ca).name(name).timeout(PATIENCE)
    }

    /// The command as agent `name`.
    fn by(&self, name: &str, args: &[&str]) -> Said {
        let mut command = self.runtime.command(args);
        command.current_dir(self.runtime.path()).env("PRECLAIM_NAME", name);
        command.env("PRECLAIM_ADDR", &self.addr).env("PRECLAIM_CA", "certs/ca.crt");
        Said::by(&mut command, "")
    }

    fn audit(&self, args: &[&str]) -> String {
        let mut command = self.runtime.command(&["audit"]);
        Said::by(command.current_dir(self.runtime.path()).args(args), "").ends(0).out
    }

    fn records(&self) -> Vec<Value> {
        let lines = self.audit(&["tail", "-n", "100000", "state", "--output", "json"]);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The value of a metric.
    fn metric(&self, name: &str) -> f64 {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(&self.watched).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
    }

    /// Stops it, and holds its log against itself.
    fn close(&mut self) {
        let id = self.serve.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.serve.wait().unwrap().success());
        self.audit(&["verify", "state"]);
        self.audit(&["replay", "state"]);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.serve.kill();
        let _ = self.serve.wait();
    }
}

/// What agents were told, by outcome.
#[derive(Default)]
struct Told {
    asked: AtomicU64,
    granted: AtomicU64,
    conflict: AtomicU64,
    forbidden: AtomicU64,
    over_capacity: AtomicU64,
}

/// Agents that ask without a pause, each for an answer at a time, until they are told to stop.
struct Load {
    runtime: tokio::runtime::Runtime,
    told: Arc<Told>,
    over: Arc<AtomicBool>,
    agents: Vec<tokio::task::JoinHandle<Client>>,
}

const AGENTS: usize = 24;

impl Load {
    fn begin(home: &Home) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (told, over) = (Arc::new(Told::default()), Arc::new(AtomicBool::new(false)));
        let clients: Vec<Client> = (0..AGENTS)
            .map(|number| runtime.block_on(home.settings(&format!("robot-{number}")).connect()).unwrap())
            .collect();
        let begin = |(number, client): (usize, Client)| {
            runtime.spawn(ask_without_a_pause(number, client, Arc::clone(&told), Arc::clone(&over)))
        };
        let agents = clients.into_iter().enumerate().map(begin).collect();
        Load { runtime, told, over, agents }
    }

    /// Waits until so much more was answered.
    fn goes_on(&self) {
        let enough = self.told.asked.load(Ordering::Relaxed) + 2 * AGENTS as u64;
        let began = Instant::now();
        while self.told.asked.load(Ordering::Relaxed) < enough {
            assert!(began.elapsed() < PATIENCE, "nothing is answered any more");
            std::thread::yield_now();
        }
    }

    /// Every agent had one answer to each that it asked, over the connection that it began with.
    fn end(self) -> Arc<Told> {
        self.over.store(true, Ordering::Relaxed);
        for agent in self.agents {
            let client = self.runtime.block_on(agent).unwrap();
            assert!(client.why_disconnected().is_none());
            self.runtime.block_on(client.close());
        }
        self.told
    }
}

async fn ask_without_a_pause(
    number: usize,
    client: Client,
    told: Arc<Told>,
    over: Arc<AtomicBool>,
) -> Client {
    let mut events = client.events();
    let own = format!("own/{number}");
    for turn in 0_u64.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let claim = match turn % 4 {
            0 => path(&own).unwrap().exclusive(),
            1 => path("pool").unwrap().units(1 + turn % 5),
            2 => path("vault/a").unwrap().exclusive(),
            _ => path("shared/one").unwrap().exclusive(),
        };
        let intent = Intent::asap().claim(claim, millis(5)).wait(millis(20)).urgency(0.5);
        let counts = match client.declare(intent).await.unwrap() {
            Outcome::Granted(_) => &told.granted,
            Outcome::Conflict(_) => &told.conflict,
            Outcome::Rejected(why) if why.reason().as_str() == "forbidden" => &told.forbidden,
            Outcome::Rejected(why) if why.reason().as_str() == "over_capacity" => &told.over_capacity,
            other => panic!("{other:?}"),
        };
        counts.fetch_add(1, Ordering::Relaxed);
        told.asked.fetch_add(1, Ordering::Relaxed);
    }
    let lost = |event: &Event| matches!(event, Event::Disconnected { .. } | Event::Resumed { .. });
    while let Some(event) = tokio::time::timeout(Duration::ZERO, events.next()).await.ok().flatten() {
        assert!(!lost(&event), "{event:?}");
    }
    client
}

#[test]
fn a_reload_under_load_loses_no_decision_and_no_connection_and_stands_in_the_record() {
    const RELOADS: usize = 30;
    let mut home = Home::open();
    let load = Load::begin(&home);
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    for round in 0..RELOADS {
        load.goes_on();
        let next = if round % 2 == 0 { &OTHER } else { &ONE };
        let asked = Instant::now();
        let line = home.reload(&next.text());
        longest = longest.max(asked.elapsed());
        for said in [
            "read again: ",
            "priority.model",
            "resource[pool].capacity",
            "rule[vault].modes",
            "limits.undecided",
        ] {
            assert!(line.contains(said), "{said}: {line}");
        }
        assert!(line.contains("from slot ") && line.contains(" 0 connections were ended"), "{line}");
    }
    load.goes_on();
    let spent = began.elapsed();
    let told = load.end();
    let count = |it: &AtomicU64| it.load(Ordering::Relaxed);
    let (asked, forbidden) = (count(&told.asked), count(&told.forbidden));
    println!(
        "{asked} declarations in {spent:?} over {RELOADS} reloads, the longest of which took {longest:?}: {} granted, {} in \
         conflict, {forbidden} forbidden, {} over the capacity",
        count(&told.granted),
        count(&told.conflict),
        count(&told.over_capacity)
    );
    assert!(count(&told.granted) > 0 && forbidden > 0 && count(&told.over_capacity) > 0);
    assert_eq!(home.metric("preclaim_reloads_total{result=\"done\"}"), RELOADS as f64);
    assert_eq!(home.metric("preclaim_reloads_total{result=\"refused\"}"), 0.0);
    assert!(home.metric("preclaim_last_reload_timestamp_seconds") > 1e9);
    home.close();
    let records = home.records();
    let inputs = |kind: &str| records.iter().map(|it| inputs_of(it, kind)).sum::<usize>();
    assert_eq!(inputs("declare") as u64, asked - forbidden, "what was forbidden reached no slot");
    assert_eq!(inputs("config"), RELOADS + 1, "and that of the start");
    let reloads: Vec<&Value> = records.iter().flat_map(reloads_of).collect();
    assert_eq!(reloads.len(), RELOADS);
    assert!(reloads.iter().all(|it| it["done"] == true && it["by"] == "SIGHUP"), "{reloads:?}");
    let mut finals: BTreeMap<(String, u64), usize> = BTreeMap::new();
    for decision in records.iter().flat_map(|it| it["decisions"].as_array().unwrap()) {
        let is_final = ["granted", "rejected"].iter().any(|it| decision.get(it).is_some())
            || decision["conflict"]["final"] == true;
        if is_final {
            let key = (decision["agent"].as_str().unwrap().to_owned(), decision["id"].as_u64().unwrap());
            *finals.entry(key).or_default() += 1;
        }
    }
    assert_eq!(finals.len() as u64, asked - forbidden);
    assert!(finals.values().all(|count| *count == 1), "each was decided once");
}

fn inputs_of(record: &Value, kind: &str) -> usize {
    let has = |input: &&Value| input.get(kind).or(input["system"].get(kind)).is_some();
    record["inputs"].as_array().unwrap().iter().filter(has).count()
}

fn reloads_of(record: &Value) -> Vec<&Value> {
    let notes = record["operator"].as_array().map(Vec::as_slice).unwrap_or_default();
    notes.iter().filter_map(|note| note.get("reload")).collect()
}

#[test]
fn a_file_that_is_not_right_or_needs_a_start_changes_nothing_and_says_why() {
    let mut home = Home::open();
    let load = Load::begin(&home);
    let right = OTHER.text();
    let wrong = |from: &str, to: &str| right.replace(from, to);
    let cases: [(String, &[&str]); 7] = [
        (wrong("\"fifo\"", "\"fiffo\""), &["preclaim.toml, line ", "`priority.model`", "\"fiffo\""]),
        (wrong("capacity = 3", "capacity = -3"), &["preclaim.toml, line ", "`resource[0].capacity`"]),
        (wrong("two.key", "one.key"), &["cannot be used"]),
        (wrong("two.crt", "none.crt"), &["none.crt"]),
        (
            right.clone() + "[slot]\nlength = \"20ms\"\n",
            &["slot.length \"10ms\" -> \"20ms\": counts from a start"],
        ),
        (
            wrong("dir = \"state\"", "dir = \"other\""),
            &["state.dir \"state\" -> \"other\": counts from a start"],
        ),
        (
            wrong("mode = \"open\"", "mode = \"certificate\"\nclient_ca = \"certs/ca.crt\""),
            &["auth.mode \"open\""],
        ),
    ];
    for (text, says) in cases {
        load.goes_on();
        let line = home.reload(&text);
        assert!(line.contains("not read again, what was read before goes on"), "{line}");
        assert!(says.iter().all(|it| line.contains(it)), "{says:?}: {line}");
        let listed = home.by("boss", &["capacity", "ls", "--output", "json"]).ends(0).json();
        assert_eq!(listed["capacities"][0]["capacity"], 8, "{listed}");
    }
    // What is right then is taken as if nothing had been.
    load.goes_on();
    assert!(home.reload(&right).starts_with("read again: "));
    load.goes_on();
    let told = load.end();
    assert!(told.forbidden.load(Ordering::Relaxed) > 0);
    assert_eq!(home.metric("preclaim_reloads_total{result=\"refused\"}"), 7.0);
    home.close();
    let records = home.records();
    let reloads: Vec<&Value> = records.iter().flat_map(reloads_of).collect();
    let done: Vec<bool> = reloads.iter().map(|it| it["done"].as_bool().unwrap()).collect();
    assert_eq!(done, [[false; 7].as_slice(), &[true]].concat());
    assert!(reloads[4]["why"].as_str().unwrap().contains("slot.length"), "{reloads:?}");
    assert!(
        home.audit(&["tail", "-n", "100000", "state", "--output", "table"])
            .contains("[not read again by SIGHUP: ")
    );
    assert_eq!(
        records.iter().map(|it| inputs_of(it, "config")).sum::<usize>(),
        2,
        "that of the start, and one"
    );
}

/// The next offer to who waits.
async fn offered(events: &mut Events) -> preclaim::types::Time {
    loop {
        if let Some(Event::Waiting { offer: Some(offer), .. }) = events.next().await {
            return offer;
        }
    }
}

#[test]
fn a_capacity_is_set_under_load_by_who_may_and_reaches_who_waits() {
    let mut home = Home::open();
    home.by("boss", &["capacity", "set", "llm/acct1", "6", "--reason", "a new account"]).ends(0);
    let load = Load::begin(&home);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = |name: &str| runtime.block_on(home.settings(name).connect()).unwrap();
    let (holder, waiter) = (client("holder"), client("waiter"));
    let units =
        |count, for_secs| Intent::asap().claim(path("llm/acct1").unwrap().units(count), secs(for_secs));
    let held = |count, for_secs| match runtime.block_on(holder.declare(units(count, for_secs))).unwrap() {
        Outcome::Granted(grant) => grant,
        other => panic!("{other:?}"),
    };
    let (long, short) = (held(2, 600), held(4, 300));
    let mut events = waiter.events();
    let waiting = runtime.spawn({
        let waiter = waiter.clone();
        async move { waiter.declare(units(1, 1).wait(secs(900))).await.unwrap() }
    });
    assert_eq!(runtime.block_on(offered(&mut events)), short.window(0).1);

    load.goes_on();
    let refused = home.by("robot-1", &["capacity", "set", "llm/acct1", "100"]).ends(21);
    assert!(refused.err.contains("administer"), "{refused:?}");
    let lowered =
        home.by("boss", &["capacity", "set", "llm/acct1", "2", "--reason", "429", "--output", "json"]);
    let lowered = lowered.ends(0).json();
    assert_eq!(
        [&lowered["capacity"], &lowered["in_use"], &lowered["over"], &lowered["room_from"]],
        [&2.into(), &6.into(), &4.into(), &Value::from(long.window(0).1.as_us())]
    );
    assert_eq!(runtime.block_on(offered(&mut events)), long.window(0).1, "the new offer");
    assert_eq!(home.metric("preclaim_capacities_over"), 1.0);
    let listed = home.by("boss", &["capacity", "ls", "llm", "--output", "table"]).ends(0).out;
    assert!(listed.contains("llm/acct1") && listed.contains("run time"), "{listed}");
    assert!(!listed.contains("pool"), "{listed}");

    // A reload that leaves the table of resources alone leaves it too; one with another table takes its place.
    let line = home.reload(&ONE.text().replace("weighted", "deadline"));
    assert!(line.contains("1 capacities set at run time stay"), "{line}");
    let listed = home.by("boss", &["capacity", "ls", "llm", "--output", "json"]).ends(0).json();
    assert_eq!(listed["capacities"][0]["capacity"], 2);

    let raised = home.by("boss", &["capacity", "set", "llm/acct1", "7", "--output", "table"]).ends(0).out;
    assert!(raised.contains("llm/acct1 has a capacity of 7 (none by the configuration)"), "{raised}");
    let Outcome::Granted(grant) = runtime.block_on(waiting).unwrap() else { panic!("it fits now") };
    runtime.block_on(grant.release()).unwrap();
    assert_eq!(home.metric("preclaim_capacities_over"), 0.0);

    let line = home.reload(
        &ONE.text().replace("capacity = 8", "capacity = 8\n[[resource]]\npath = \"llm/acct1\"\ncapacity = 5"),
    );
    assert!(line.contains("takes the place of 1 capacities"), "{line}");
    assert!(home.heard.contains("warning: llm/acct1: 6 of 5 units are granted"), "{}", home.heard);
    let listed = home.by("boss", &["capacity", "ls", "llm", "--output", "json"]).ends(0).json();
    assert_eq!(
        [&listed["capacities"][0]["from"], &listed["capacities"][0]["over"]],
        [&Value::from("configuration"), &1.into()],
        "{listed}"
    );
    assert_eq!(home.metric("preclaim_capacities_over"), 1.0);
    load.end();
    runtime.block_on(async {
        holder.close().await;
        waiter.close().await;
    });
    home.close();
    let records = home.records();
    let lowered = |input: &Value| input["system"]["capacity"]["capacity"] == 2;
    let record =
        records.iter().find(|record| record["inputs"].as_array().unwrap().iter().any(lowered)).unwrap();
    assert!(record["operator"].to_string().contains("\"reason\":\"429\""), "{record}");
    assert!(record["rights"].to_string().contains("\"by\":\"boss\""), "{record}");
    let forbidden = |record: &&Value| record["rights"].to_string().contains("\"tried\":\"set_capacity\"");
    assert_eq!(records.iter().filter(forbidden).count(), 1);
}

#[test]
fn a_capacity_is_set_in_dev_without_a_flag() {
    let dev = command::Dev::with("[[resource]]\npath = \"pool\"\ncapacity = 2\n");
    let set = dev.runtime.run(&["capacity", "set", "pool", "1", "--output", "json"]).ends(0).json();
    assert_eq!([&set["capacity"], &set["configured"]], [&Value::from(1), &2.into()]);
    let listed = dev.runtime.run(&["capacity", "ls", "--output", "table"]).ends(0).out;
    assert!(listed.contains("run time (configuration: 2)"), "{listed}");
    dev.runtime.run(&["capacity", "set", "pool//x", "1"]).ends(2);
    dev.runtime.run(&["capacity", "set", "pool", "-1"]).ends(2);
}
