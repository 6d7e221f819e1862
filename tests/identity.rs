//! Who is let in, against the real command: an agent with its certificate or its token, and nobody else; and
//! certificates that change while work goes on.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

#[allow(dead_code)] // a part of it is enough here
mod command;
mod raw_peer;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use command::{Runtime, Said};
use preclaim::client::{ClientBuilder, ConnectError};
use preclaim::coordinator::{Access, Coordinator, CoordinatorConfig, Identity};
use preclaim::pki::{TokenDigest, Tokens};
use preclaim::resolver::Rules;
use preclaim::types::Agent;
use preclaim::wire::{Bearer, CloseCode, Extensions, Hello};
use preclaim::{Client, Intent, Outcome, millis, path};
use raw_peer::{Peer, hello};
use serde_json::Value;

/// Ends a test that waits for what never comes; no test's outcome depends on it otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// A certificate authority in a directory, and what is made with it.
struct Home(Runtime);

impl Home {
    fn fresh() -> Self {
        let home = Home(Runtime::fresh());
        home.certs(&["init"]).ends(0);
        home.certs(&["server", "localhost", "127.0.0.1"]).ends(0);
        home
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn cert(&self, name: &str) -> PathBuf {
        self.file("certs").join(name)
    }

    fn certs(&self, args: &[&str]) -> Said {
        let mut command = self.0.command(&["certs"]);
        Said::by(command.current_dir(self.0.path()).args(args), "")
    }

    fn config(&self, auth: &str) {
        let text = format!(
            "[listen]\naddr = \"127.0.0.1:0\"\n[tls]\ncert = \"certs/server.crt\"\nkey = \"certs/server.key\"\n\
             [auth]\n{auth}\n[state]\ndir = \"state\"\nsegment_size = \"1MiB\"\n"
        );
        fs::write(self.file("preclaim.toml"), text).unwrap();
    }

    /// What `serve` says that does not start.
    fn serve_fails(&self) -> Said {
        let mut command = self.0.command(&["serve", "--config", "preclaim.toml", "--new"]);
        Said::by(command.current_dir(self.0.path()), "")
    }

    fn serve(&self) -> Serve {
        let mut command = self.0.command(&["serve", "--config", "preclaim.toml", "--new"]);
        let mut child =
            command.current_dir(self.0.path()).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut serve = Serve { child, said, addr: String::new(), heard: String::new() };
        let line = serve.line_with("listening on ");
        serve.addr = line.split_whitespace().nth(2).unwrap().to_owned();
        serve
    }

    fn agent(&self, serve: &Serve) -> ClientBuilder {
        Client::builder().addr(&serve.addr).ca(self.cert("ca.crt")).timeout(PATIENCE)
    }

    /// With the certificate of `name`.
    fn known(&self, serve: &Serve, name: &str) -> ClientBuilder {
        let [cert, key] = ["crt", "key"].map(|ending| self.cert(&format!("agents/{name}.{ending}")));
        self.agent(serve).identity_files(cert, key)
    }
}

struct Serve {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
    addr: String,
    /// All that was read so far.
    heard: String,
}

impl Serve {
    fn line_with(&mut self, text: &str) -> String {
        let mut line = String::new();
        while self.said.read_line(&mut line).unwrap() > 0 {
            self.heard.push_str(&line);
            if line.contains(text) {
                return line;
            }
            line.clear();
        }
        panic!("it ended without saying {text:?}: {}", self.heard);
    }

    fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success()
        );
    }

    /// Has it read its files again; how many connections it ended.
    fn reload(&mut self) -> usize {
        self.signal("-HUP");
        let line = self.line_with("read again: ");
        let words: Vec<&str> = line.split_whitespace().collect();
        words[words.iter().position(|word| *word == "connections").unwrap() - 1].parse().unwrap()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn running() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

const MTLS: &str = "client_ca = \"certs/ca.crt\"\ncrl = \"certs/ca.crl\"";

async fn refused(settings: ClientBuilder) -> ConnectError {
    settings.connect().await.unwrap_err()
}

/// A short window on a path of `name`'s own.
async fn declared(client: &Client, name: &str) -> bool {
    let intent = Intent::asap().claim(path(name).unwrap().exclusive(), millis(1)).wait(millis(500));
    matches!(client.declare(intent).await, Ok(Outcome::Granted(_)))
}

#[test]
fn an_agent_is_let_in_as_its_certificate_says_and_impostors_are_kept_out() {
    let home = Home::fresh();
    home.certs(&["agent", "robot-1"]).ends(0);
    home.certs(&["agent", "robot-2"]).ends(0);
    home.config(MTLS);
    let serve = home.serve();
    running().block_on(async {
        let client = home.known(&serve, "robot-1").connect().await.unwrap();
        assert_eq!(client.name(), "robot-1", "it asked for no name");
        assert!(declared(&client, "a").await);
        let same = home.known(&serve, "robot-1").name("robot-1").label("other").connect().await.unwrap();
        assert_eq!(same.name(), "robot-1");

        let error = refused(home.known(&serve, "robot-1").name("robot-2")).await;
        assert!(matches!(error, ConnectError::AnothersName { .. }), "{error:?}");
        let said = error.to_string();
        assert!(
            said.contains("\"robot-1\"") && said.contains("\"robot-2\"") && !error.is_retryable(),
            "{said}"
        );

        let error = refused(home.agent(&serve).name("robot-1")).await;
        assert!(matches!(error, ConnectError::CertificateRefused { .. }), "{error:?}");
        assert!(error.to_string().contains("none was shown") && error.hint().contains("--cert"), "{error}");
        assert!(!error.is_retryable());

        // Another authority's, that calls itself the same and its agent too.
        let other = Home::fresh();
        other.certs(&["agent", "robot-1"]).ends(0);
        let [cert, key] = ["crt", "key"].map(|ending| other.cert(&format!("agents/robot-1.{ending}")));
        let error = refused(home.agent(&serve).identity_files(cert, key)).await;
        assert!(matches!(error, ConnectError::CertificateRefused { .. }), "{error:?}");

        // The coordinator's own certificate is no agent's.
        let own = home.agent(&serve).identity_files(home.cert("server.crt"), home.cert("server.key"));
        assert!(matches!(refused(own).await, ConnectError::CertificateRefused { .. }));
        client.close().await;
        same.close().await;
    });
}

/// A certificate of the authority in `home` for `agent`, with what `change` does to it.
fn issued(home: &Home, uri: &str, change: impl FnOnce(&mut rcgen::CertificateParams)) -> (String, String) {
    let [ca, key] = ["ca.crt", "ca.key"].map(|name| fs::read_to_string(home.cert(name)).unwrap());
    let issuer = rcgen::Issuer::from_ca_cert_pem(&ca, rcgen::KeyPair::from_pem(&key).unwrap()).unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.subject_alt_names = vec![rcgen::SanType::URI(uri.try_into().unwrap())];
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    change(&mut params);
    let own = rcgen::KeyPair::generate().unwrap();
    (params.signed_by(&own, &issuer).unwrap().pem(), own.serialize_pem())
}

#[test]
fn certificates_that_have_expired_or_say_no_name_let_nobody_in() {
    let home = Home::fresh();
    home.config(MTLS);
    let serve = home.serve();
    let past = |params: &mut rcgen::CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 2, 1);
    };
    let ahead = |params: &mut rcgen::CertificateParams| params.not_before = rcgen::date_time_ymd(2090, 1, 1);
    let two = |params: &mut rcgen::CertificateParams| {
        params.subject_alt_names.push(rcgen::SanType::URI("preclaim://agent/b".try_into().unwrap()));
    };
    let plain = "preclaim://agent/a";
    let cases = [
        issued(&home, plain, past),
        issued(&home, plain, ahead),
        issued(&home, plain, two),
        issued(&home, "preclaim://agents/a", |_| {}),
        issued(&home, "preclaim://agent/", |_| {}),
        issued(&home, "preclaim://agent/a%0Ab", |_| {}),
        issued(&home, &format!("preclaim://agent/{}", "x".repeat(60_000)), |_| {}),
    ];
    running().block_on(async {
        for (at, (cert, key)) in cases.into_iter().enumerate() {
            let error = refused(home.agent(&serve).identity(cert, key)).await;
            assert!(matches!(error, ConnectError::CertificateRefused { .. }), "case {at}: {error:?}");
        }
        let (cert, key) = issued(&home, plain, |_| {});
        let client = home.agent(&serve).identity(cert, key).connect().await.unwrap();
        assert_eq!(client.name(), "a");
        client.close().await;
    });
}

#[test]
fn a_certificate_is_rotated_under_work_and_no_declaration_fails() {
    let home = Home::fresh();
    home.certs(&["agent", "robot-1"]).ends(0);
    home.config(MTLS);
    let mut serve = home.serve();
    let runtime = running();
    let client = runtime.block_on(home.known(&serve, "robot-1").connect()).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let (worker, stop) = (client.clone(), Arc::clone(&over));
    let work = runtime.spawn(async move {
        let mut done = 0;
        while !stop.load(Ordering::Relaxed) {
            assert!(declared(&worker, "a").await, "after {done}");
            done += 1;
        }
        done
    });
    for _ in 0..3 {
        let before = fs::read(home.cert("server.crt")).unwrap();
        home.certs(&["rotate", "server"]).ends(0);
        home.certs(&["rotate", "agent", "robot-1"]).ends(0);
        assert_ne!(fs::read(home.cert("server.crt")).unwrap(), before);
        assert_eq!(serve.reload(), 0, "nobody is let go");
        runtime.block_on(async {
            let fresh = home.known(&serve, "robot-1").label("fresh").connect().await.unwrap();
            assert!(declared(&fresh, "b").await);
            fresh.close().await;
        });
    }
    over.store(true, Ordering::Relaxed);
    assert!(runtime.block_on(work).unwrap() > 0);
    assert!(client.why_disconnected().is_none());
    runtime.block_on(client.close());
}

#[test]
fn who_is_revoked_is_let_go_at_the_reload_and_no_other() {
    let home = Home::fresh();
    home.certs(&["agent", "robot-1"]).ends(0);
    home.certs(&["agent", "robot-2"]).ends(0);
    home.config(MTLS);
    let mut serve = home.serve();
    running().block_on(async {
        let [gone, stays] = [home.known(&serve, "robot-1"), home.known(&serve, "robot-2")];
        let (gone, stays) = (gone.connect().await.unwrap(), stays.connect().await.unwrap());
        home.certs(&["revoke", "robot-1"]).ends(0);
        assert!(declared(&gone, "a").await, "until it is read, it counts for nothing");
        assert_eq!(serve.reload(), 1);
        assert!(serve.heard.contains("robot-1") && serve.heard.contains("revoked"), "{}", serve.heard);
        // What it goes on to try for is refused in the handshake.
        while !gone
            .why_disconnected()
            .is_some_and(|why| matches!(why, ConnectError::CertificateRefused { .. }))
        {
            tokio::task::yield_now().await;
        }
        assert!(declared(&stays, "a").await);
        let error = refused(home.known(&serve, "robot-1")).await;
        assert!(error.to_string().contains("revoked"), "{error}");
        // A new certificate lets it in again, and the client that lost its own takes it by itself.
        home.certs(&["agent", "robot-1", "--force"]).ends(0);
        assert!(declared(&gone, "a").await);
        gone.close().await;
        stays.close().await;
    });
}

#[test]
fn a_bad_file_keeps_what_was_read_before_and_says_why() {
    let home = Home::fresh();
    home.certs(&["agent", "robot-1"]).ends(0);
    home.certs(&["agent", "robot-2"]).ends(0);
    home.config(MTLS);
    let mut serve = home.serve();
    running().block_on(async {
        let client = home.known(&serve, "robot-1").connect().await.unwrap();
        home.certs(&["revoke", "robot-2"]).ends(0);
        for bad in ["server.crt", "server.key", "ca.crt", "ca.crl"] {
            let file = home.cert(bad);
            let (good, mode) = (fs::read(&file).unwrap(), fs::metadata(&file).unwrap().permissions());
            fs::write(&file, "-----BEGIN NOTHING-----\n").unwrap();
            serve.signal("-HUP");
            let line = serve.line_with("not read again");
            assert!(line.contains("certs/") && line.contains("goes on"), "{bad}: {line}");
            fs::write(&file, good).unwrap();
            fs::set_permissions(&file, mode).unwrap();
            let unrevoked = home.known(&serve, "robot-2").connect().await.unwrap();
            unrevoked.close().await;
        }
        // A key that fits no certificate, and one that others may read.
        let key = fs::read(home.cert("server.key")).unwrap();
        fs::write(home.cert("server.key"), fs::read(home.cert("ca.key")).unwrap()).unwrap();
        serve.signal("-HUP");
        serve.line_with("not read again");
        fs::write(home.cert("server.key"), key).unwrap();
        fs::set_permissions(home.cert("server.key"), Permissions::from_mode(0o644)).unwrap();
        serve.signal("-HUP");
        assert!(serve.line_with("not read again").contains("chmod 600"));
        fs::set_permissions(home.cert("server.key"), Permissions::from_mode(0o600)).unwrap();
        assert!(declared(&client, "a").await);
        assert_eq!(serve.reload(), 0);
        assert!(matches!(
            refused(home.known(&serve, "robot-2")).await,
            ConnectError::CertificateRefused { .. }
        ));
        client.close().await;
    });
}

#[test]
fn who_has_a_token_is_let_in_by_it_alone() {
    let home = Home::fresh();
    let token = home.certs(&["token", "robot-1"]).ends(0).out;
    let other = home.certs(&["token", "robot-2"]).ends(0).out;
    home.config("mode = \"token\"\ntokens = \"certs/tokens\"");
    let mut serve = home.serve();
    running().block_on(async {
        let client = home.agent(&serve).token(&token).connect().await.unwrap();
        assert_eq!(client.name(), "robot-1");
        let stays = home.agent(&serve).token(&other).connect().await.unwrap();
        let error = refused(home.agent(&serve).name("robot-1")).await;
        assert!(matches!(error, ConnectError::TokenRefused { .. }), "{error:?}");
        assert!(error.hint().contains("--token-file"), "{}", error.hint());
        let digit = if token.trim().ends_with('0') { "1" } else { "0" };
        let near = format!("{}{digit}", &token.trim()[..token.trim().len() - 1]);
        assert!(matches!(refused(home.agent(&serve).token(near)).await, ConnectError::TokenRefused { .. }));
        let error = refused(home.agent(&serve).token(&token).name("robot-2")).await;
        assert!(matches!(error, ConnectError::AnothersName { .. }), "{error:?}");
        assert!(matches!(refused(home.agent(&serve).token("x")).await, ConnectError::BadIdentity { .. }));
        home.certs(&["revoke", "robot-1"]).ends(0);
        assert_eq!(serve.reload(), 1);
        assert!(matches!(refused(home.agent(&serve).token(&token)).await, ConnectError::TokenRefused { .. }));
        assert!(declared(&stays, "a").await);
        stays.close().await;
        client.close().await;
    });
    assert!(!serve.heard.contains(&token.trim()[9..]), "a token is in no log");
    serve.signal("-TERM");
    serve.child.wait().unwrap();
    for entry in fs::read_dir(home.file("state")).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let hidden = preclaim::wire::Bearer::parse(&token).unwrap();
        let found = bytes.windows(32).any(|window| window == hidden.bytes());
        assert!(!found, "a token is in no record");
    }
}

#[test]
fn commands_show_who_they_are_by_flags_and_a_refusal_ends_with_21() {
    let home = Home::fresh();
    home.certs(&["agent", "robot-1"]).ends(0);
    home.config(MTLS);
    let serve = home.serve();
    let ca = home.cert("ca.crt").display().to_string();
    let [cert, key] =
        ["crt", "key"].map(|end| home.cert(&format!("agents/robot-1.{end}")).display().to_string());
    let at = ["--addr", serve.addr.as_str(), "--ca", &ca];
    let by = |args: &[&str], name: Option<&str>| {
        let mut command = home.0.command(args);
        command.env_remove("PRECLAIM_NAME");
        command.envs(name.map(|name| ("PRECLAIM_NAME", name)));
        Said::by(&mut command, "")
    };
    let own =
        [&["declare", "a", "--for", "1h", "--output", "json"][..], &at, &["--cert", &cert, "--key", &key]]
            .concat();
    assert_eq!(by(&own, None).ends(0).json()["agent"], "robot-1");
    let said = by(&own, Some("robot-2")).ends(21).err;
    assert!(
        said.starts_with("refused") && said.contains("\"robot-1\"") && said.contains("\"robot-2\""),
        "{said}"
    );
    assert!(said.contains("  do "), "{said}");
    let none = [&["ls"][..], &at].concat();
    let said = by(&none, None).ends(21).err;
    assert!(said.starts_with("refused") && said.contains("--cert"), "{said}");
    let half = [&["ls"][..], &at, &["--cert", &cert]].concat();
    assert!(by(&half, None).ends(21).err.contains("given together"));
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    assert!(by(&own, None).ends(21).err.contains("chmod 600"));
}

#[test]
fn serve_says_what_to_do_where_it_would_let_in_anybody_or_a_key_lies_open() {
    let home = Home::fresh();
    home.config("");
    let said = home.serve_fails().ends(30).err;
    assert!(
        said.contains("client_ca") && said.contains("preclaim certs init") && said.contains("\"open\""),
        "{said}"
    );
    home.config(MTLS);
    fs::set_permissions(home.cert("server.key"), Permissions::from_mode(0o644)).unwrap();
    let said = home.serve_fails().ends(30).err;
    assert!(said.contains("server.key") && said.contains("chmod 600"), "{said}");
    home.config("client_ca = \"nowhere.crt\"");
    fs::set_permissions(home.cert("server.key"), Permissions::from_mode(0o600)).unwrap();
    assert!(home.serve_fails().ends(30).err.contains("nowhere.crt"));
}

#[test]
fn dev_listens_on_this_machine_alone_unless_it_is_told_that_this_is_insecure() {
    let runtime = Runtime::fresh();
    for addr in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let said = runtime.run(&["dev", "--listen", addr]).ends(2).err;
        assert!(said.contains("--insecure") && said.contains("preclaim serve"), "{said}");
    }
    // Where nobody may listen it is refused by the system, and no more by the command.
    let said = runtime.run(&["dev", "--insecure", "--listen", "192.0.2.1:0"]).ends(1).err;
    assert!(said.contains("cannot listen"), "{said}");
}

#[test]
fn what_was_issued_is_listed_with_its_days_and_never_written_over() {
    let home = Home::fresh();
    home.certs(&["agent", "robot 1/ü", "--days", "9"]).ends(0);
    let said = home.certs(&["agent", "robot 1/ü"]).ends(1).err;
    assert!(said.contains("is there already") && said.contains("rotate"), "{said}");
    home.certs(&["rotate", "agent", "robot 1/ü"]).ends(0);
    home.certs(&["token", "robot-2"]).ends(0);
    let lines = home.certs(&["list", "--output", "json"]).ends(0).out;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).cloned().collect::<Vec<Value>>();
    assert_eq!((of("ca").len(), of("server").len(), of("agent").len(), of("token").len()), (1, 1, 2, 1));
    let of_server = of("server")[0]["days_left"].as_i64().unwrap();
    assert!((364..=365).contains(&of_server), "{of_server}");
    let days: Vec<i64> = of("agent").iter().map(|line| line["days_left"].as_i64().unwrap()).collect();
    assert!(days.iter().all(|days| (8..=9).contains(days)), "{days:?}");
    let mut states: Vec<String> =
        of("agent").iter().map(|line| line["state"].as_str().unwrap().to_owned()).collect();
    states.sort();
    assert_eq!(states, ["good", "replaced"]);
    assert_eq!(of("agent")[0]["name"], "robot 1/ü");
    let table = home.certs(&["list", "--output", "table"]).ends(0).out;
    assert!(
        table.starts_with("KIND") && table.contains("DAYS LEFT") && table.contains("robot 1/ü"),
        "{table}"
    );
    let said = home.certs(&["revoke", "nobody"]).ends(1).err;
    assert!(said.contains("nothing was issued for nobody"), "{said}");
    home.certs(&["server", "not a host", "--force"]).ends(1);
}

/// The access of those who have these tokens.
fn tokens(list: &[(&Bearer, &str)]) -> Access {
    let one = |(token, name): &(&Bearer, &str)| (TokenDigest::of(token), Agent::new(name).unwrap());
    Access::Tokens(Tokens::new(list.iter().map(one)).unwrap())
}

#[tokio::test]
async fn a_connection_that_would_not_be_let_in_any_more_ends_with_a_code_of_its_own() {
    let [one, two] = [Bearer::new([1; 32]), Bearer::new([2; 32])];
    let access = tokens(&[(&one, "car-1"), (&two, "car-2")]);
    let config = CoordinatorConfig { access, ..CoordinatorConfig::in_memory(Rules::default()).unwrap() };
    let coordinator = Coordinator::bind(config).unwrap();
    let reloader = coordinator.reloader();
    let running = coordinator.spawn();
    let enter = async |token: &Bearer| {
        let peer = Peer::connect(running.local_addr(), running.certificate()).await;
        let extensions = Extensions::NONE.with(token.extension());
        let (lane, welcome) = peer.say_hello(Hello { name: None, extensions, ..hello("", "main", 1) }).await;
        (peer, lane, welcome.name)
    };
    let (first, mut lane, name) = enter(&one).await;
    assert_eq!(name, "car-1");
    let (second, _lane, _) = enter(&two).await;
    let fresh = || Identity::self_made(["localhost".to_owned()]).unwrap();
    let same = tokens(&[(&two, "car-2"), (&one, "car-1")]);
    assert_eq!(reloader.replace(fresh(), same).unwrap(), 0);
    lane.settle().await;
    assert_eq!(reloader.replace(fresh(), tokens(&[(&one, "car-1"), (&two, "car-3")])).unwrap(), 1);
    assert_eq!(second.close_code().await, CloseCode::AnothersName);
    lane.settle().await;
    assert_eq!(reloader.replace(fresh(), tokens(&[])).unwrap(), 1);
    assert_eq!(first.close_code().await, CloseCode::TokenRefused);
    running.stop().await.unwrap();
}
