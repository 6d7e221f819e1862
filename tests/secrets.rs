//! Nothing secret is told to anybody: the real command, with tokens, keys and texts that can be recognised, well used
//! and badly used, at the most talkative level of its log; and all that it wrote, searched.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

#[allow(dead_code)] // a part of it is enough here
mod command;
mod raw_peer;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use command::{Runtime, Said};
use preclaim::audit::TextKey;
use preclaim::pki::TokenDigest;
use preclaim::types::{RawIntent, RawTarget};
use preclaim::wire::{Bearer, Declaration, Declare, Hello, Verdict};
use raw_peer::{Peer, hello, intent};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Ends a test that waits for what never comes; no test's outcome depends on it otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

const NOTE: &str = "ring Ann Example at 555-0199";
/// What stands where a path must, and is none.
const NO_PATH: &str = "for Bob Example//";
const TEXT_KEY: &str = "the text key 5bb1f0c7a2d94e55 of this test";
const REASON: &str = "Cara Example";

/// What must be found nowhere: a name for it, and its bytes in each form that a program might write it in.
struct Secret {
    what: &'static str,
    forms: Vec<Vec<u8>>,
}

impl Secret {
    fn text(what: &'static str, text: &str) -> Self {
        Secret { what, forms: vec![text.trim().as_bytes().to_vec()] }
    }

    /// A token: as it is shown once; its bytes as they are, as hexadecimal digits and as a list; and its hash.
    fn token(what: &'static str, text: &str) -> Self {
        let token = Bearer::parse(text.trim()).expect("it is a token");
        let bytes = token.bytes().to_vec();
        let lower: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let listed = format!("{bytes:?}").trim_matches(['[', ']']).to_owned();
        let texts =
            [text.trim().to_owned(), lower.to_uppercase(), lower, listed, TokenDigest::of(&token).to_hex()];
        Secret { what, forms: texts.map(String::into_bytes).into_iter().chain([bytes]).collect() }
    }

    /// A key: each line of its text, and what these come to in any other form.
    fn key(what: &'static str, path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("-----") && line.len() > 20);
        let forms: Vec<Vec<u8>> = lines.map(|line| line.as_bytes().to_vec()).collect();
        assert!(!forms.is_empty(), "{what} is a key");
        Secret { what, forms }
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| bytes.windows(form.len()).any(|window| window == form))
    }
}

/// Where all that is of one test lies.
struct Home {
    runtime: Runtime,
    /// What commands have said.
    said: Vec<(String, Vec<u8>)>,
}

impl Home {
    fn fresh() -> Self {
        let home = Home { runtime: Runtime::fresh(), said: Vec::new() };
        home.certs(&["init"]);
        home.certs(&["server", "localhost", "127.0.0.1"]);
        home
    }

    fn file(&self, name: &str) -> PathBuf {
        self.runtime.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.runtime.command(args);
        command.current_dir(self.runtime.path()).env("PRECLAIM_LOG", "trace");
        command
    }

    /// What is said is kept, whatever comes of it.
    fn keep(&mut self, args: &[&str], mut command: Command) -> Said {
        let said = Said::by(&mut command, "");
        let all = format!("{}{}", said.out, said.err);
        self.said.push((args.join(" "), all.into_bytes()));
        said
    }

    fn run(&mut self, args: &[&str]) -> Said {
        let command = self.command(args);
        self.keep(args, command)
    }

    fn certs(&self, args: &[&str]) -> Said {
        let mut command = self.command(&["certs"]);
        command.args(args);
        Said::by(&mut command, "").ends(0)
    }

    /// A file that nobody else may read.
    fn write_secret(&self, name: &str, text: &str) {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(self.file(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn config(&self, rest: &str) {
        let text = format!(
            "[listen]\naddr = \"127.0.0.1:0\"\n[metrics]\naddr = \"127.0.0.1:0\"\n\
             [tls]\ncert = \"certs/server.crt\"\nkey = \"certs/server.key\"\n{rest}"
        );
        fs::write(self.file("preclaim.toml"), text).unwrap();
    }

    /// All that was written anywhere that is no secret's own file.
    fn written(&self) -> Vec<(String, Vec<u8>)> {
        let mut all = self.said.clone();
        for entry in fs::read_dir(self.file("state")).unwrap() {
            let path = entry.unwrap().path();
            all.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
        all
    }

    #[track_caller]
    fn none_is_told(&self, secrets: &[Secret]) {
        for (place, bytes) in self.written() {
            for secret in secrets {
                assert!(
                    !secret.is_in(&bytes),
                    "{place} tells {}:\n{}",
                    secret.what,
                    String::from_utf8_lossy(&bytes)
                );
            }
        }
    }

    fn is_told(&self, text: &str) -> bool {
        let secret = Secret::text("", text);
        self.written().iter().any(|(_, bytes)| secret.is_in(bytes))
    }
}

/// A running `serve`, of which all that it says is kept.
struct Serve {
    child: Child,
    lines: Receiver<String>,
    heard: String,
    addr: String,
    watched: String,
}

impl Serve {
    fn start(home: &Home, args: &[&str]) -> Self {
        let mut command = home.command(&[&["serve", "--config", "preclaim.toml"], args].concat());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let pipes: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for pipe in pipes {
            let send = send.clone();
            // Read to its end, so that it never waits for who reads.
            thread::spawn(move || {
                let mut pipe = BufReader::new(pipe);
                let mut line = Vec::new();
                while pipe.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                    let _ = send.send(String::from_utf8_lossy(&line).into_owned());
                    line.clear();
                }
            });
        }
        let mut serve =
            Serve { child, lines, heard: String::new(), addr: String::new(), watched: String::new() };
        // The two may come in either order.
        while serve.addr.is_empty() || serve.watched.is_empty() {
            let line = serve.line();
            if let Some(rest) = line.strip_prefix("listening on ") {
                let addr = rest.split_whitespace().next().unwrap();
                serve.addr = addr.replace("127.0.0.1", "localhost");
            } else if let Some(rest) = line.strip_prefix("watched at http://") {
                serve.watched = rest.split('/').next().unwrap().to_owned();
            }
        }
        serve
    }

    fn line(&mut self) -> String {
        let line =
            self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{error}: {}", self.heard));
        self.heard.push_str(&line);
        line
    }

    fn line_with(&mut self, text: &str) {
        while !self.line().contains(text) {}
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    fn page(&self, path: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.watched).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut page = Vec::new();
        stream.read_to_end(&mut page).unwrap();
        page
    }

    /// Asks for all pages, stops it, and hands over all that it said.
    fn stop(mut self, home: &mut Home) {
        for path in ["/metrics", "/livez", "/readyz", "/slots", "/claims", "/claims?top=20", "/version", "/x"]
        {
            home.said.push((path.to_owned(), self.page(path)));
        }
        self.signal("-TERM");
        assert!(self.child.wait().unwrap().success());
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.heard.push_str(&line);
        }
        home.said.push(("serve".to_owned(), std::mem::take(&mut self.heard).into_bytes()));
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// By a peer of its own: a declaration whose path is none.
fn declare_no_path(home: &Home, serve: &Serve, token: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ca = CertificateDer::from_pem_file(home.file("certs/ca.crt")).unwrap();
        let addr = serve.addr.replace("localhost", "127.0.0.1").parse().unwrap();
        let peer = Peer::connect(addr, &ca).await;
        let token = Bearer::parse(token.trim()).unwrap();
        let hello = hello("", "raw", 1);
        let hello =
            Hello { name: None, extensions: hello.extensions.clone().with(token.extension()), ..hello };
        let (mut lane, _) = peer.say_hello(hello).await;
        let mut claims = intent(9, "dock/3", 1000).claims;
        claims[0].target = RawTarget::Path(NO_PATH.into());
        let raw = RawIntent { id: 9, claims, ..RawIntent::default() };
        let declaration =
            Declaration { request: 9, intent: raw, note: NOTE.into(), ..Declaration::default() };
        lane.send(Declare { batch: vec![declaration] }).await;
        let (_, _, verdict) = lane.verdict().await;
        assert!(matches!(verdict, Verdict::Rejected { .. }), "{verdict:?}");
    });
}

/// What reads the log and the configuration says, and that the log is as it must be.
fn read_everything(home: &mut Home) {
    for (args, code) in [
        (&["config", "show", "preclaim.toml"][..], 0),
        (&["config", "check", "preclaim.toml"], 0),
        (&["audit", "tail", "state"], 0),
        (&["audit", "export", "--inputs", "state"], 0),
        (&["audit", "why", "robot-1/1", "state"], 0),
        (&["audit", "verify", "state"], 0),
        (&["audit", "replay", "state"], 0),
        (&["certs", "list"], 0),
    ] {
        home.run(args).ends(code);
    }
}

#[test]
fn tokens_keys_and_texts_that_are_hashed_are_told_to_nobody() {
    let mut home = Home::fresh();
    let good = home.certs(&["token", "robot-1"]).out;
    let other = home.certs(&["token", "robot-2"]).out;
    let unknown = Bearer::new([0xa7; Bearer::BYTES]).reveal();
    home.write_secret("good.token", &good);
    home.write_secret("unknown.token", &unknown);
    home.write_secret("text.key", TEXT_KEY);
    let text = "[state]\ndir = \"state\"\ntext = \"hash\"\ntext_key = \"text.key\"\n";
    home.config(&format!("[auth]\nmode = \"token\"\ntokens = \"certs/tokens\"\n{text}"));
    let mut serve = Serve::start(&home, &["--new"]);
    let at = ["--addr", &serve.addr.clone(), "--ca", "certs/ca.crt"].map(str::to_owned);
    let by = |home: &mut Home, args: &[&str], token: &str| {
        let args = [args, &at.each_ref().map(String::as_str), &["--token-file", token]].concat();
        let mut command = home.command(&args);
        command.env_remove("PRECLAIM_NAME");
        home.keep(&args, command)
    };
    by(&mut home, &["declare", "dock/3", "--for", "1h", "--id", "1", "--note", NOTE], "good.token").ends(0);
    by(&mut home, &["ls"], "good.token").ends(0);
    let listed = home.said.pop().unwrap().1;
    assert!(String::from_utf8_lossy(&listed).contains(NOTE), "who may ask is told");
    by(&mut home, &["ls"], "unknown.token").ends(21);
    by(&mut home, &["ls", "--name", "robot-2"], "good.token").ends(21);
    by(&mut home, &["ls"], "certs/server.key").ends(21);
    declare_no_path(&home, &serve, &good);
    // An operator's mistakes: a token itself in the list of their hashes, and a key that is none.
    let list = fs::read_to_string(home.file("certs/tokens")).unwrap();
    fs::write(home.file("certs/tokens"), format!("{list}{unknown} robot-3\n{}\n", other.trim())).unwrap();
    serve.signal("-HUP");
    serve.line_with("not read again");
    fs::write(home.file("certs/tokens"), &list).unwrap();
    let key = fs::read_to_string(home.file("certs/server.key")).unwrap();
    home.write_secret("certs/server.key", &key.replacen("-----BEGIN", "----BEGIN", 1));
    serve.signal("-HUP");
    serve.line_with("not read again");
    home.write_secret("certs/server.key", &key);
    serve.signal("-HUP");
    serve.line_with("read again: ");
    home.certs(&["revoke", "robot-1"]);
    serve.signal("-HUP");
    serve.line_with("read again: ");
    serve.stop(&mut home);
    read_everything(&mut home);
    home.none_is_told(&[
        Secret::token("a token", &good),
        Secret::token("another's token", &other),
        Secret::token("a token that is none", &unknown),
        Secret::key("the coordinator's key", &home.file("certs/server.key")),
        Secret::key("the authority's key", &home.file("certs/ca.key")),
        Secret::text("the key of texts", TEXT_KEY),
    ]);
    // What was told in the window is none of the log's.
    home.said.retain(|(place, _)| !place.starts_with("declare"));
    home.none_is_told(&[Secret::text("a note", NOTE), Secret::text("a text", NO_PATH)]);
    assert!(home.is_told(&TextKey::new(TEXT_KEY).unwrap().hash(NOTE)), "its hash is");
    assert!(home.is_told("robot-1"), "what is told is found");
}

#[test]
fn certificates_keys_and_texts_that_are_left_out_are_told_to_nobody() {
    let mut home = Home::fresh();
    home.certs(&["agent", "robot-1"]);
    home.config(
        "[auth]\nclient_ca = \"certs/ca.crt\"\ncrl = \"certs/ca.crl\"\n[state]\ndir = \"state\"\ntext = \"omit\"\n",
    );
    let serve = Serve::start(&home, &["--new"]);
    let at = ["--addr", &serve.addr.clone(), "--ca", "certs/ca.crt"].map(str::to_owned);
    let known = ["--cert", "certs/agents/robot-1.crt", "--key", "certs/agents/robot-1.key"];
    let by = |home: &mut Home, args: &[&str], identity: &[&str]| {
        let args = [args, &at.each_ref().map(String::as_str), identity].concat();
        let mut command = home.command(&args);
        command.env_remove("PRECLAIM_NAME");
        home.keep(&args, command)
    };
    by(&mut home, &["declare", "dock/3", "--for", "1h", "--id", "1", "--note", NOTE], &known).ends(0);
    by(&mut home, &["ls"], &["--cert", "certs/server.crt", "--key", "certs/server.key"]).ends(21);
    by(&mut home, &["ls"], &["--cert", "certs/agents/robot-1.crt", "--key", "certs/ca.key"]).ends(21);
    by(&mut home, &["ls"], &[]).ends(21);
    serve.stop(&mut home);
    // A restart goes on from a log without them.
    let serve = Serve::start(&home, &[]);
    let at = ["--addr", &serve.addr.clone(), "--ca", "certs/ca.crt"].map(str::to_owned);
    let args = [&["ls"], &at.each_ref().map(String::as_str)[..], &known].concat();
    let said = home.run(&[&args[..], &["--name", "robot-1"]].concat()).ends(0);
    assert!(said.out.contains("dock/3"), "{said:?}");
    serve.stop(&mut home);
    read_everything(&mut home);
    home.none_is_told(&[
        Secret::key("the agent's key", &home.file("certs/agents/robot-1.key")),
        Secret::key("the coordinator's key", &home.file("certs/server.key")),
        Secret::key("the authority's key", &home.file("certs/ca.key")),
    ]);
    home.said.retain(|(place, _)| !place.starts_with("declare"));
    home.none_is_told(&[Secret::text("a note", NOTE)]);
}

#[test]
fn unless_it_is_configured_texts_are_in_the_log() {
    let mut home = Home::fresh();
    let token = home.certs(&["token", "robot-1"]).out;
    home.write_secret("good.token", &token);
    home.config("[auth]\nmode = \"token\"\ntokens = \"certs/tokens\"\n[state]\ndir = \"state\"\n");
    let serve = Serve::start(&home, &["--new"]);
    declare_no_path(&home, &serve, &token);
    let args = ["--addr", &serve.addr.clone(), "--ca", "certs/ca.crt", "--token-file", "good.token"];
    let args = [&["declare", "dock/3", "--for", "1h", "--id", "1", "--note", NOTE], &args[..]].concat();
    let mut command = home.command(&args);
    Said::by(command.env_remove("PRECLAIM_NAME"), "").ends(0);
    serve.stop(&mut home);
    home.said.clear();
    assert!(home.is_told(NOTE) && home.is_told(NO_PATH), "the search finds what is there");
    home.none_is_told(&[Secret::text("what nobody wrote", REASON)]);
}

#[test]
fn a_key_of_texts_that_others_may_read_or_that_is_short_is_refused() {
    let mut home = Home::fresh();
    let state = "[state]\ndir = \"state\"\ntext = \"hash\"\ntext_key = \"text.key\"\n";
    home.config(&format!("[auth]\nmode = \"open\"\n{state}"));
    let serve = ["serve", "--config", "preclaim.toml", "--new"];
    assert!(home.run(&serve).ends(30).err.contains("text.key"), "it is not there");
    fs::write(home.file("text.key"), TEXT_KEY).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(home.file("text.key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(home.run(&serve).ends(30).err.contains("chmod 600"));
    fs::remove_file(home.file("text.key")).unwrap();
    home.write_secret("text.key", "short");
    let said = home.run(&serve).ends(30).err;
    assert!(said.contains("32 characters") && !said.contains("short"), "{said}");
    assert!(!home.file("state").exists(), "nothing was begun");
}
