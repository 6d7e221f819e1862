//! A drain of the real `serve` under the load of many agents, by command and by signal: no decision is lost, nothing
//! is granted that was not before it began, and the audit log decides the same again.
#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

mod private;
mod raw_peer;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use preclaim::types::{RawIntent, Time};
use preclaim::wire::{CloseCode, Refusal, ToAgent, Verdict};
use raw_peer::{Lane, Peer, declare, intent, release, soon};
use rustls::pki_types::CertificateDer;
use serde_json::Value;
use tokio::sync::watch;

/// Agents under load, each with so many declarations on their way at a time.
const AGENTS: usize = 24;
const AT_A_TIME: u64 = 4;
/// Paths that they want all the time.
const PATHS: u64 = 12;
/// Decisions that there are before the drain begins.
const BEFORE: usize = 2_000;
/// Declarations that each agent makes after it was told of the drain.
const LATE: u64 = 3;
const WITHIN_US: u64 = 60_000_000;

struct Serve {
    child: Child,
    said: BufReader<ChildStderr>,
    dir: PathBuf,
    addr: SocketAddr,
    watched: String,
    certificate: CertificateDer<'static>,
}

fn preclaim(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_preclaim"));
    command.args(args).stdin(Stdio::null()).env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"));
    command
}

impl Serve {
    fn start(name: &str) -> Self {
        Serve::start_logging(name, "warn")
    }

    fn start_logging(name: &str, level: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("preclaim-drain-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (cert, key, config) = (dir.join("cert.pem"), dir.join("key.pem"), dir.join("preclaim.toml"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        private::write(&key, &made.signing_key.serialize_pem());
        let state = dir.join("state");
        let text = format!(
            "[listen]\naddr = \"127.0.0.1:0\"\n[tls]\ncert = {cert:?}\nkey = {key:?}\n[auth]\nmode = \"open\"\n\
             [state]\ndir = {state:?}\n[metrics]\naddr = \"127.0.0.1:0\"\n[drain]\ndeadline = \"60s\"\n\
             [[rule]]\nwho = \"boss\"\nread = true\nadminister = true\n[[rule]]\nwho = \"agent-*\"\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut child = preclaim(&["serve", "--config", config.to_str().unwrap(), "--new"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .env("PRECLAIM_LOG", level)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let after = |line: String, word: &str| {
            let rest = line.split(word).nth(1).unwrap().trim().to_owned();
            rest.split(['/', ' ']).next().unwrap().to_owned()
        };
        let watched = after(line_with(&mut said, "watched at http://"), "http://");
        let addr = after(line_with(&mut said, "listening on "), "listening on ").parse().unwrap();
        Serve { child, said, dir, addr, watched, certificate: made.cert.der().clone() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = preclaim(args);
        command.args(["--addr", &format!("localhost:{}", self.addr.port())]);
        command.args(["--ca", self.dir.join("cert.pem").to_str().unwrap(), "--name", "boss"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Its exit code, and what it said until then.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }

    fn audit(&self, args: &[&str]) -> String {
        let state = self.dir.join("state");
        let output = preclaim(&["audit"]).args(args).arg(state).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(output.stderr));
        text(output.stdout)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn line_with(said: &mut impl BufRead, text: &str) -> String {
    let mut line = String::new();
    while said.read_line(&mut line).unwrap() > 0 {
        if line.contains(text) {
            return line;
        }
        line.clear();
    }
    panic!("it ended without saying {text:?}");
}

fn readyz(watched: &str) -> String {
    let mut stream = TcpStream::connect(watched).unwrap();
    write!(stream, "GET /readyz HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What became of one declaration.
#[derive(Debug)]
enum Fate {
    Granted(Time),
    Conflict,
    /// Refused as draining.
    Draining,
    /// It waited when the drain began.
    Ended,
    Overloaded,
}

fn fate(verdict: &Verdict, at: Time) -> Option<Fate> {
    Some(match verdict {
        Verdict::Granted { .. } => Fate::Granted(at),
        Verdict::Conflict(conflict) if !conflict.is_final => return None,
        Verdict::Conflict(_) => Fate::Conflict,
        Verdict::Rejected { reason: Refusal::Draining, retry_after_us, .. } => {
            assert!(retry_after_us.is_some());
            Fate::Draining
        }
        Verdict::Rejected { reason: Refusal::Overloaded, .. } => Fate::Overloaded,
        Verdict::Released { reason: Some(reason) } => {
            assert!(reason.starts_with("the coordinator drains"), "{reason}");
            Fate::Ended
        }
        other => panic!("{other:?}"),
    })
}

/// What all agents share.
struct Load {
    decided: AtomicUsize,
    enough: watch::Sender<bool>,
    watched: String,
}

/// One agent, which declares until some while after it was told of the drain.
struct Worker {
    load: Arc<Load>,
    number: u64,
    lane: Lane,
    declared: u64,
    /// By request; each exactly once.
    fates: BTreeMap<u64, Fate>,
    /// When the drain ends, once it was told.
    deadline: Option<Time>,
    late: u64,
}

impl Worker {
    async fn declare(&mut self) {
        self.declared += 1;
        let path = format!("yard/{}", (self.number * 7 + self.declared) % PATHS);
        let wanted = RawIntent { wait: 200_000, ..intent(self.declared, &path, 15_000) };
        self.lane.send(declare(wanted)).await;
    }

    /// Takes in the next message, and declares anew where one has had its answer.
    async fn next(&mut self) {
        match self.lane.receive().await {
            ToAgent::Answer(answer) => {
                let Some(fate) = fate(&answer.verdict, answer.at) else { return };
                if matches!(fate, Fate::Draining) && self.late == 0 {
                    let watched = self.load.watched.clone();
                    let ready = tokio::task::spawn_blocking(move || readyz(&watched)).await.unwrap();
                    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("draining: "), "{ready}");
                }
                let before = self.fates.insert(answer.request, fate);
                assert!(before.is_none(), "a second answer to {}: {before:?}", answer.request);
                if self.load.decided.fetch_add(1, Ordering::Relaxed) + 1 == BEFORE {
                    self.load.enough.send_replace(true);
                }
                if self.deadline.is_none() {
                    self.declare().await;
                }
            }
            ToAgent::Draining(draining) => {
                let stands = draining.stands().unwrap();
                assert!(!stands.is_over && stands.left.is_none(), "{stands:?}");
                self.deadline = Some(stands.deadline);
            }
            ToAgent::Contested(_) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn work(mut self, peer: Peer) -> (Peer, Worker) {
        for _ in 0..AT_A_TIME {
            self.declare().await;
        }
        while self.deadline.is_none() {
            self.next().await;
        }
        for _ in 0..LATE {
            self.declare().await;
        }
        while (self.fates.len() as u64) < self.declared {
            self.next().await;
            self.late += 1;
        }
        (peer, self)
    }

    /// Reads on to the end of the connection: nothing more is said of what was answered.
    async fn until_the_end(mut self, peer: Peer) -> Worker {
        while let Ok(Some(chunk)) = soon(self.lane.receive.read_chunk(4096, true)).await {
            let mut frames = preclaim::wire::FrameReader::new();
            frames.push(&chunk.bytes);
            while let Ok(Some(frame)) = frames.next_frame() {
                let told = ToAgent::decode(frame).unwrap();
                assert!(matches!(told, ToAgent::Draining(_)), "{told:?}");
            }
        }
        assert_eq!(peer.close_code().await, CloseCode::ShuttingDown);
        self
    }
}

async fn agent(serve: (SocketAddr, CertificateDer<'static>), number: u64, load: Arc<Load>) -> (Peer, Worker) {
    let peer = Peer::connect(serve.0, &serve.1).await;
    let (lane, _) = peer.hello(&format!("agent-{number}")).await;
    let worker = Worker { load, number, lane, declared: 0, fates: BTreeMap::new(), deadline: None, late: 0 };
    worker.work(peer).await
}

/// Has a lease of the whole time, which the drain waits for.
async fn holder(serve: &Serve) -> (Peer, Lane) {
    let peer = Peer::connect(serve.addr, &serve.certificate).await;
    let (mut lane, _) = peer.hello("agent-holder").await;
    lane.send(declare(RawIntent { hold: true, ..intent(1, "hall", WITHIN_US * 10) })).await;
    assert!(matches!(lane.verdict().await.2, Verdict::Granted { .. }));
    (peer, lane)
}

/// What became of all declarations, by kind.
fn judge(workers: &[Worker]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for worker in workers {
        assert_eq!(worker.fates.len() as u64, worker.declared);
        let began = worker.deadline.unwrap().as_us() - WITHIN_US;
        for fate in worker.fates.values() {
            if let Fate::Granted(at) = fate {
                assert!(at.as_us() <= began, "granted at {at:?}, and the drain began at {began}");
            }
            let name = match fate {
                Fate::Granted(_) => "granted",
                Fate::Conflict => "conflicts",
                Fate::Draining => "refused",
                Fate::Ended => "ended while they waited",
                Fate::Overloaded => "overloaded",
            };
            *counts.entry(name).or_insert(0) += 1;
        }
    }
    counts
}

/// A drain in the middle of the load, begun by `begin`, and its whole story.
fn drained_by(name: &str, begin: impl FnOnce(&Serve) -> Option<Child>, by: &str) {
    let mut serve = Serve::start(name);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (child, counts) = runtime.block_on(async {
        let (held_by, mut held) = holder(&serve).await;
        let enough = watch::Sender::new(false);
        let mut began = enough.subscribe();
        let load = Load { decided: AtomicUsize::new(0), enough, watched: serve.watched.clone() };
        let load = Arc::new(load);
        let at = (serve.addr, serve.certificate.clone());
        let agents: Vec<_> = (0..AGENTS as u64)
            .map(|number| tokio::spawn(agent(at.clone(), number, Arc::clone(&load))))
            .collect();
        soon(began.wait_for(|enough| *enough)).await.unwrap();
        assert!(readyz(&serve.watched).starts_with("HTTP/1.1 200"));
        let child = begin(&serve);
        let mut ends = Vec::new();
        for agent in agents {
            let (peer, worker) = agent.await.unwrap();
            ends.push(tokio::spawn(worker.until_the_end(peer)));
        }
        assert!(matches!(held.receive().await, ToAgent::Draining(_)));
        let metrics = readyz(&serve.watched);
        assert!(metrics.contains("grants in force"), "{metrics}");
        held.send(release(2, 1)).await;
        assert!(matches!(held.verdict().await.2, Verdict::Released { reason: None }));
        let ToAgent::Draining(last) = held.receive().await else { panic!("it says that it ends") };
        assert!(last.stands().unwrap().is_over);
        assert_eq!(held_by.close_code().await, CloseCode::ShuttingDown);
        let mut workers = Vec::new();
        for end in ends {
            workers.push(end.await.unwrap());
        }
        (child, judge(&workers))
    });
    let (code, said) = serve.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("draining until ") && said.contains(&format!(", by {by}")), "{said}");
    assert!(said.contains("drained: no grant is in force"), "{said}");
    if let Some(child) = child {
        let output = child.wait_with_output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{out}{err}");
        let line: Value = serde_json::from_str(out.trim()).unwrap();
        assert_eq!(line["drained"]["left"], 0, "{out}");
    }
    eprintln!("{name}: {counts:?}");
    assert!(counts["granted"] > 0 && counts["refused"] >= AGENTS * LATE as usize, "{counts:?}");
    serve.audit(&["verify"]);
    serve.audit(&["replay"]);
    let tail = serve.audit(&["tail", "-n", "1000", "--output", "table"]);
    assert!(tail.contains("drains until ") && tail.contains(&format!("by {by}")), "{tail}");
    let ended = counts.get("ended while they waited").copied().unwrap_or(0);
    let tail = serve.audit(&["tail", "-n", "1000", "--output", "json"]);
    let records = tail.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let drains = |record: &Value| {
        record["rights"].as_array().is_some_and(|notes| notes.iter().any(|note| note["drain"].is_object()))
    };
    let record = records.into_iter().find(drains).unwrap();
    let releases = record["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|input| input.to_string().contains("the coordinator drains"));
    assert_eq!(releases.count(), ended, "those that waited end in the record that tells of the drain");
}

#[test]
fn a_drain_by_command_under_load_loses_no_decision() {
    let begin = |serve: &Serve| {
        let args = ["drain", "--deadline", "60s", "--reason", "upgrade", "--output", "json"];
        Some(serve.command(&args).spawn().unwrap())
    };
    drained_by("command", begin, "boss: upgrade");
}

#[test]
fn a_drain_by_signal_under_load_loses_no_decision() {
    let begin = |serve: &Serve| {
        let status = Command::new("kill").args(["-USR2", &serve.child.id().to_string()]).status().unwrap();
        assert!(status.success());
        None
    };
    drained_by("signal", begin, "a signal");
}

#[test]
fn at_the_deadline_it_ends_with_what_stands_and_a_stop_ends_it_at_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for stops in [false, true] {
        let mut serve = Serve::start(if stops { "stop" } else { "deadline" });
        let (peer, mut lane) = runtime.block_on(holder(&serve));
        let deadline = if stops { "1h" } else { "100ms" };
        let began = serve.command(&["drain", "--deadline", deadline, "--no-wait", "--output", "json"]);
        let began = { began }.output().unwrap();
        assert_eq!(began.status.code(), Some(0), "{began:?}");
        let line: Value = serde_json::from_slice(&began.stdout).unwrap();
        assert_eq!(line["draining"]["left"], 1);
        runtime.block_on(async {
            assert!(matches!(lane.receive().await, ToAgent::Draining(_)));
            if stops {
                let pid = serve.child.id().to_string();
                assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            }
            let ToAgent::Draining(last) = lane.receive().await else { panic!("it says that it ends") };
            assert!(last.stands().unwrap().is_over, "{last:?}");
            assert_eq!(peer.close_code().await, CloseCode::ShuttingDown);
        });
        let (code, said) = serve.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("ended with 1 grant in force: they stand in its state"), "{said}");
    }
}

#[test]
fn who_may_not_administer_has_nothing_drained() {
    let serve = Serve::start("forbidden");
    let mut command = preclaim(&["drain", "--addr", &format!("localhost:{}", serve.addr.port())]);
    command.args(["--ca", serve.dir.join("cert.pem").to_str().unwrap(), "--name", "agent-1"]);
    let said = command.output().unwrap();
    assert_eq!(said.status.code(), Some(21), "{said:?}");
    assert!(readyz(&serve.watched).starts_with("HTTP/1.1 200"));
}

#[test]
fn whoever_does_not_read_what_it_says_holds_up_neither_decisions_nor_its_end() {
    // Far more than a pipe takes.
    let mut serve = Serve::start_logging("unread", "trace");
    for at in 0..12 {
        let path = format!("yard/{at}");
        let declared = serve.command(&["declare", &path, "--for", "1ms"]).output().unwrap();
        assert_eq!(declared.status.code(), Some(0), "{declared:?}");
    }
    let pid = serve.child.id().to_string();
    let kill = |with: &str| assert!(Command::new("kill").args([with, &pid]).status().unwrap().success());
    kill("-TERM");
    let (tell, told) = std::sync::mpsc::channel();
    let other = preclaim(&["help"]).stdout(Stdio::null()).spawn().unwrap();
    let mut child = std::mem::replace(&mut serve.child, other);
    std::thread::spawn(move || tell.send(child.wait().unwrap().code()));
    let ended = told.recv_timeout(Duration::from_secs(60));
    if ended.is_err() {
        kill("-KILL");
    }
    assert_eq!(ended, Ok(Some(0)), "it waits for its reader");
}
