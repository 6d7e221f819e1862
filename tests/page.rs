//! The web page and its stream, of a coordinator at work: real sockets, on free ports. What a browser makes of it is
//! looked at by ops/page/check.mjs.

#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

mod watched;

use std::collections::VecDeque;
use std::time::Duration;

use preclaim::coordinator::CoordinatorConfig;
use preclaim::limits;
use preclaim::resolver::Rules;
use preclaim::telemetry::Metrics;
use preclaim::{Intent, Outcome, path};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use watched::{Watched, soon};

/// Legal names, made to break out of an event, a text of JSON, or markup.
const HOSTILE_NAME: &str = "a\"}\\n</script><img src=x onerror=alert(1)>\u{202e}&amp;";
const HOSTILE_PATH: &str = "evil\"}\\n<b>";

const HOUR: Duration = Duration::from_secs(3600);

impl Watched {
    async fn open(has_page: bool) -> Self {
        let config = CoordinatorConfig::in_memory(Rules::default()).unwrap();
        let metrics = Metrics::new(config.rules.length);
        Watched::by(if has_page { metrics.with_page() } else { metrics }, config).await
    }

    /// By HTTP/1.0, in which a body is not cut into chunks and ends with its connection.
    async fn start(&self, method: &str, path: &str) -> BufReader<TcpStream> {
        let mut stream = soon(TcpStream::connect(self.addr)).await.unwrap();
        soon(stream.write_all(format!("{method} {path} HTTP/1.0\r\nhost: here\r\n\r\n").as_bytes()))
            .await
            .unwrap();
        BufReader::new(stream)
    }

    async fn ask(&self, method: &str, path: &str) -> String {
        let mut answer = String::new();
        soon(self.start(method, path).await.read_to_string(&mut answer)).await.unwrap();
        answer
    }

    /// What is told of one intent: records, in which names and paths are texts.
    async fn tells_why(&self, intent: &str) {
        let answer = self.ask("GET", &format!("/why?intent={intent}")).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200") && head.contains("application/json"), "{head}");
        let known: Value = serde_json::from_str(body).unwrap();
        assert_eq!(known["kept"]["whole"], true);
        let records = known["records"].as_array().unwrap();
        let blocker = &records[1]["decisions"][0]["conflict"]["blockers"][0];
        assert_eq!((&blocker["agent"], records.len()), (&HOSTILE_NAME.into(), 2), "{known}");
        assert_eq!(records[0]["inputs"][0]["declare"]["claims"][0]["path"], HOSTILE_PATH);
        assert!(records[1]["ranks"][0]["score"].is_f64(), "{known}");
        for wrong in ["", "?intent=b", "?intent=b/x", "?top=3"] {
            assert!(self.ask("GET", &format!("/why{wrong}")).await.starts_with("HTTP/1.0 400"), "{wrong}");
        }
        assert!(self.ask("POST", "/why?intent=b/1").await.starts_with("HTTP/1.0 405"));
    }

    async fn stream(&self) -> Result<Events, String> {
        let mut events = Events { from: self.start("GET", "/page/events").await, told: VecDeque::new() };
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            soon(events.from.read_line(&mut head)).await.unwrap();
        }
        if head.starts_with("HTTP/1.0 200") { Ok(events) } else { Err(head) }
    }
}

struct Events {
    from: BufReader<TcpStream>,
    /// Decisions of frames that were read, and not looked at yet.
    told: VecDeque<Value>,
}

impl Events {
    async fn next(&mut self) -> (String, Value) {
        let mut lines = [const { String::new() }; 3];
        for line in &mut lines {
            soon(self.from.read_line(line)).await.unwrap();
        }
        let [name, data, end] = lines;
        assert_eq!(end, "\n");
        let name = name.strip_prefix("event: ").unwrap().trim_end().to_owned();
        (name, serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap())
    }

    async fn until(&mut self, name: &str) -> Value {
        loop {
            let (found, data) = self.next().await;
            if found == name {
                return data;
            }
        }
    }

    /// The next decision of that kind.
    async fn news(&mut self, what: &str) -> Value {
        loop {
            while let Some(news) = self.told.pop_front() {
                if news["what"] == what {
                    return news;
                }
            }
            let data = self.until("slots").await;
            let slots = data["slots"].as_array().unwrap();
            self.told.extend(slots.iter().flat_map(|slot| slot["news"].as_array().unwrap().clone()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_no_page_unless_it_is_asked_for() {
    let watched = Watched::open(false).await;
    for path in ["/", "/page", "/page/events", "/page/main.js"] {
        assert!(watched.ask("GET", path).await.starts_with("HTTP/1.0 404"), "{path}");
    }
    let why = watched.ask("GET", "/why?intent=a/1").await;
    assert!(why.starts_with("HTTP/1.0 403") && why.contains("page"), "{why}");
    assert!(watched.ask("GET", "/livez").await.starts_with("HTTP/1.0 200"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_part_comes_with_a_policy_that_lets_nothing_else_in() {
    let watched = Watched::open(true).await;
    let parts = [
        ("/", "text/html"),
        ("/page", "text/html"),
        ("/page/page.css", "text/css"),
        ("/page/main.js", "text/javascript"),
    ];
    for (path, kind) in parts {
        let answer = watched.ask("GET", path).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        for wanted in [
            "HTTP/1.0 200",
            &format!("content-type: {kind}"),
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(head.contains(wanted), "{path}: {wanted}: {head}");
        }
        assert!(!head.contains("unsafe-inline") && !body.is_empty());
    }
    let head = watched.ask("HEAD", "/page/events").await;
    assert!(head.starts_with("HTTP/1.0 200") && head.contains("text/event-stream"), "{head}");
    assert!(watched.ask("POST", "/page/events").await.starts_with("HTTP/1.0 405"));
    assert!(watched.ask("GET", "/page/none.js").await.starts_with("HTTP/1.0 404"));
    assert!(watched.ask("GET", "/livez").await.starts_with("HTTP/1.0 200"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_told_who_holds_who_is_refused_why_and_what_would_be_free() {
    let watched = Watched::open(true).await;
    let holder = watched.client(HOSTILE_NAME).await;
    let claim = |at: &str| Intent::asap().claim(path(at).unwrap().exclusive(), HOUR);
    let Outcome::Granted(grant) = holder.declare(claim(HOSTILE_PATH)).await.unwrap() else {
        panic!("it is free")
    };

    let mut events = watched.stream().await.unwrap();
    assert_eq!(events.next().await.0, "begin");
    let past = events.news("granted").await;
    let held = events.until("held").await;
    assert_eq!(held["held"][0]["token"], past["token"], "what was decided, and what stands");
    let held = &held["held"][0];
    assert_eq!((&held["agent"], &held["claims"][0]["path"]), (&HOSTILE_NAME.into(), &HOSTILE_PATH.into()));
    assert_eq!(held["token"], grant.token().to_string());
    let settled = events.until("settled").await;
    assert_eq!((&settled["complete"], &settled["grants"]), (&true.into(), &1.into()));

    let other = watched.client("b").await;
    assert!(matches!(other.declare(claim(HOSTILE_PATH)).await.unwrap(), Outcome::Conflict(_)));
    let refused = events.news("refused").await;
    assert_eq!(refused["agent"], "b");
    assert_eq!(refused["claims"][0]["path"], HOSTILE_PATH);
    let rival = &refused["rivals"][0];
    assert_eq!((&rival["agent"], &rival["has"]["path"]), (&HOSTILE_NAME.into(), &HOSTILE_PATH.into()));
    assert_eq!((&rival["token"], &rival["has_until"]), (&held["token"], &held["claims"][0]["until"]));
    assert_eq!(refused["offer"], held["claims"][0]["until"], "what would be free");
    watched.tells_why(&format!("b/{}", refused["id"].as_str().unwrap())).await;

    let waits = other.clone();
    let waiting = claim(HOSTILE_PATH).wait(HOUR);
    let waiting =
        tokio::spawn(async move { waits.declare(waiting).await.map(|outcome| format!("{outcome:?}")) });
    let told = events.news("waiting").await;
    assert_eq!(told["rivals"][0]["agent"], HOSTILE_NAME);
    assert!(told["waits_until"].as_u64().unwrap() > told["arrived"].as_u64().unwrap());

    let mut late = watched.stream().await.unwrap();
    let held = late.until("held").await;
    let what: Vec<&Value> = held["held"].as_array().unwrap().iter().map(|news| &news["what"]).collect();
    assert_eq!(what, ["granted", "waiting"], "who comes later is told both");
    assert_eq!(held["held"][1]["rivals"][0]["agent"], HOSTILE_NAME);

    grant.release().await.unwrap();
    assert_eq!(events.news("released").await["agent"], HOSTILE_NAME);
    assert_eq!(events.news("granted").await["agent"], "b");
    drop(waiting);
    watched.running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_pages_and_no_more_and_one_that_is_closed_makes_room() {
    let watched = Watched::open(true).await;
    let mut open = Vec::new();
    for _ in 0..limits::PAGE_STREAMS {
        let mut events = watched.stream().await.unwrap();
        events.until("settled").await;
        open.push(events);
    }
    let refused = watched.stream().await.err().unwrap();
    assert!(refused.starts_with("HTTP/1.0 503"), "{refused}");
    assert!(watched.ask("GET", "/metrics").await.starts_with("HTTP/1.0 200"), "others have their room");
    open.pop();
    soon(async { while watched.stream().await.is_err() {} }).await;
    // Those that stay go on.
    open[0].until("slots").await;
}
