//! The daemon as a process: what it prints, how it stops, and what a second one is told.

#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test

mod private;
mod raw_peer;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use preclaim::wire::{CloseCode, Degradations, Hello};
use raw_peer::{Peer, hello};
use rustls::pki_types::CertificateDer;
use serde_json::Value;

/// A `preclaim` that was started, and is ended with the test.
struct Daemon {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Daemon {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_preclaim"))
            .args(args)
            // Not the user's own: that is for the `dev` that the user runs.
            .env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        Daemon { child, said }
    }

    /// The address after `listening on`.
    fn addr(&mut self) -> String {
        let line = self.line_with("listening on ");
        line.trim().strip_prefix("listening on ").unwrap().split(' ').next().unwrap().to_owned()
    }

    /// The next line with `text` in it.
    fn line_with(&mut self, text: &str) -> String {
        let mut line = String::new();
        while self.said.read_line(&mut line).unwrap() > 0 {
            if line.contains(text) {
                return line;
            }
            line.clear();
        }
        panic!("it ended without saying {text:?}");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    fn end(&mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap(), rest)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is answered to a request for `path`.
fn ask(addr: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Asks a coordinator whether it is ready until it is.
fn until_ready(addr: &str) -> String {
    loop {
        let answer = ask(addr, "/readyz");
        if answer.starts_with("HTTP/1.1 200") {
            return answer;
        }
        assert!(answer.contains("503") && answer.contains("starting"), "{answer}");
    }
}

#[test]
fn it_stops_with_code_0_on_either_signal() {
    for signal in ["-TERM", "-INT"] {
        let mut daemon = Daemon::start(&["dev", "--listen", "127.0.0.1:0"]);
        daemon.addr();
        daemon.signal(signal);
        let (status, said) = daemon.end();
        assert_eq!(status.code(), Some(0), "{signal}: {said}");
    }
}

#[test]
fn a_second_one_on_the_same_port_says_so_and_what_to_do() {
    let mut first = Daemon::start(&["dev", "--listen", "127.0.0.1:0"]);
    let addr = first.addr();
    let (status, said) = Daemon::start(&["dev", "--listen", &addr]).end();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains(&format!("{addr} is in use")) && said.contains("--listen"), "{said}");
    first.signal("-TERM");
    assert_eq!(first.end().0.code(), Some(0));
}

/// A directory with a configuration that lets in everybody, its file, and the coordinator's certificate.
fn open_to_all(name: &str) -> (PathBuf, PathBuf, CertificateDer<'static>) {
    let dir = std::env::temp_dir().join(format!("preclaim-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key, config) = (dir.join("cert.pem"), dir.join("key.pem"), dir.join("preclaim.toml"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    private::write(&key, &made.signing_key.serialize_pem());
    let state = dir.join("state");
    let text = format!(
        "[listen]\naddr = \"127.0.0.1:0\"\n[tls]\ncert = {cert:?}\nkey = {key:?}\n\
         [auth]\nmode = \"open\"\n[state]\ndir = {state:?}\nsegment_size = \"1MiB\"\n[metrics]\naddr = \"127.0.0.1:0\"\n"
    );
    std::fs::write(&config, text).unwrap();
    (dir, config, made.cert.der().clone())
}

#[test]
fn a_peer_that_is_let_go_again_and_again_is_named_in_the_log_a_few_times_and_the_rest_is_counted() {
    const TIMES: usize = 20;
    let (dir, config, certificate) = open_to_all("peers");
    let mut daemon = Daemon::start(&["serve", "--config", config.to_str().unwrap(), "--new"]);
    let addr = daemon.addr().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for _ in 0..TIMES {
            let peer = Peer::connect(addr, &certificate).await;
            peer.lane().await.send_bytes(&u32::MAX.to_le_bytes()).await;
            assert_eq!(peer.close_code().await, CloseCode::FrameTooLong);
        }
    });
    daemon.signal("-TERM");
    let (status, said) = daemon.end();
    assert_eq!(status.code(), Some(0));
    // Nobody reads it at a terminal: each line of the log is an object.
    let logged: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let is_about_it = |line: &&Value| line["message"].as_str().unwrap().contains("let go, frame too long");
    let lines: Vec<&Value> = logged.iter().filter(is_about_it).collect();
    assert!((4..TIMES).contains(&lines.len()), "{said}");
    for line in &lines {
        assert_eq!(
            (&line["level"], &line["fields"]["peer"]),
            (&"warn".into(), &"127.0.0.1".into()),
            "{line}"
        );
        assert!(line["at"].as_str().unwrap().ends_with('Z') && line["target"].is_string(), "{line}");
    }
    let left_out: u64 = logged.iter().filter_map(|line| line["fields"]["left_out"].as_u64()).sum();
    assert_eq!(lines.len() as u64 + left_out, TIMES as u64, "{said}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn serve_takes_its_certificate_from_files_and_tells_agents_when_it_stops() {
    let (dir, config, certificate) = open_to_all("serve");
    let (status, said) = Daemon::start(&["serve", "--config", config.to_str().unwrap()]).end();
    assert_eq!(status.code(), Some(30), "tokens that were given before would be given again: {said}");
    assert!(said.contains("--new"), "{said}");
    let mut daemon = Daemon::start(&["serve", "--config", config.to_str().unwrap(), "--new"]);
    let watched = daemon.line_with("watched at http://").trim().to_owned();
    let watched = watched.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let addr = daemon.addr().parse().unwrap();
    assert!(until_ready(&watched).contains("ready"));
    let counted = ask(&watched, "/metrics");
    for (name, value) in
        [("preclaim_ready", 1.0), ("preclaim_audit_records_total", 1.0), ("preclaim_audit_lag_seconds", 0.0)]
    {
        let sample = counted.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        assert_eq!(sample.and_then(|it| it.parse::<f64>().ok()), Some(value), "{name} in {counted}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let peer = Peer::connect(addr, &certificate).await;
        let told = Degradations { stopped: 2, kept_last_plan: 0, fell_back: 1 };
        let hello = Hello { extensions: told.extensions(), ..hello("car-7", "main", 1) };
        let (_lane, _) = peer.say_hello(hello).await;
        let line: Value = serde_json::from_str(&daemon.line_with("went without grants")).unwrap();
        assert_eq!((&line["level"], &line["fields"]["agent"]), (&"warn".into(), &"car-7".into()), "{line}");
        daemon.signal("-TERM");
        assert_eq!(peer.close_code().await, CloseCode::ShuttingDown);
    });
    assert_eq!(daemon.end().0.code(), Some(0));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn where_all_is_well_the_log_says_nothing_at_info() {
    let (dir, config, certificate) = open_to_all("quiet");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}[log]\nlevel = \"info\"\n")).unwrap();
    let mut daemon = Daemon::start(&["serve", "--config", config.to_str().unwrap(), "--new"]);
    let addr = daemon.addr().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let peer = Peer::connect(addr, &certificate).await;
        let (_lane, _) = peer.say_hello(hello("car-7", "main", 1)).await;
        daemon.signal("-TERM");
        assert_eq!(peer.close_code().await, CloseCode::ShuttingDown);
    });
    let (status, said) = daemon.end();
    assert_eq!(status.code(), Some(0));
    let logged = said.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
    assert_eq!(logged, 0, "{said}");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// What a build has, and what it has not.
#[cfg(not(feature = "otlp"))]
#[test]
fn traces_are_refused_by_a_build_that_exports_none() {
    let path = std::env::temp_dir().join(format!("preclaim-otlp-{}.toml", std::process::id()));
    std::fs::write(&path, "[otlp]\nendpoint = \"http://127.0.0.1:4318\"\n").unwrap();
    let (status, said) = Daemon::start(&["serve", "--config", path.to_str().unwrap()]).end();
    assert_eq!(status.code(), Some(30));
    assert!(said.contains("--features otlp"), "{said}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn serve_without_a_certificate_is_a_configuration_error() {
    let path = std::env::temp_dir().join(format!("preclaim-empty-{}.toml", std::process::id()));
    std::fs::write(&path, "").unwrap();
    let (status, said) = Daemon::start(&["serve", "--config", path.to_str().unwrap()]).end();
    assert_eq!(status.code(), Some(30));
    assert!(said.contains("[tls]"), "{said}");
    std::fs::remove_file(&path).unwrap();
}
