//! A real `preclaim serve` under attack, an honest agent that works beside it, and what the process says and takes.
#![allow(dead_code, clippy::unwrap_used)] // what helpers of tests unwrap fails the test

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use preclaim::client::ClientBuilder;
use preclaim::{Client, Intent, Outcome, limits, millis, path, secs};
use quinn::{ConnectionError, TransportConfig};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::private;
use crate::raw_peer::{Lane, Peer, hello, soon};
use crate::scratch::Scratch;

/// Ends a test that waits for what never comes; no test's outcome depends on it otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// So many grants more are taken for being served on.
const GOES_ON: u64 = 5;

/// Where attackers come from, so that the log and the limits tell them from the honest, who are at 127.0.0.1.
pub(crate) const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A running `preclaim serve`, killed with the test.
pub(crate) struct House {
    child: Child,
    home: Scratch,
    pub(crate) addr: SocketAddr,
    watched: SocketAddr,
    pub(crate) certificate: CertificateDer<'static>,
    heard: Arc<Heard>,
    opened: Instant,
}

/// The lines that it said so far.
#[derive(Default)]
struct Heard {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl House {
    /// Open to everybody, with these lines in `[limits]`.
    pub(crate) fn open(limits: &str) -> Self {
        House::start("mode = \"open\"", limits, |_| {})
    }

    /// With these lines in `[auth]`; `prepare` puts beside the configuration what they name.
    pub(crate) fn start(auth: &str, limits: &str, prepare: impl FnOnce(&Scratch)) -> Self {
        let home = Scratch::fresh("hostile");
        let made = rcgen::generate_simple_self_signed(["localhost", "127.0.0.1"].map(str::to_owned)).unwrap();
        std::fs::write(home.path().join("cert.pem"), made.cert.pem()).unwrap();
        private::write(&home.path().join("key.pem"), &made.signing_key.serialize_pem());
        prepare(&home);
        let text = format!(
            "[log]\nformat = \"pretty\"\n[listen]\naddr = \"127.0.0.1:0\"\n[metrics]\naddr = \"127.0.0.1:0\"\n\
             [tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n[auth]\n{auth}\n\
             [state]\ndir = \"state\"\ndurability = \"none\"\nsegment_size = \"1MiB\"\n[limits]\n{limits}\n"
        );
        std::fs::write(home.path().join("preclaim.toml"), text).unwrap();
        let mut command = preclaim_in(&home);
        command.args(["serve", "--config", "preclaim.toml", "--new"]).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (said, heard) = (BufReader::new(child.stderr.take().unwrap()), Arc::<Heard>::default());
        std::thread::spawn({
            let heard = Arc::clone(&heard);
            move || said.lines().map_while(Result::ok).for_each(|line| heard.put(line))
        });
        let watched = heard.until(&["watched at http://"]);
        let watched = watched.split(['/', ' ']).find_map(|word| word.parse().ok()).unwrap();
        let listens = heard.until(&["listening on "]);
        let addr = listens.split(' ').find_map(|word| word.parse().ok()).unwrap();
        let certificate = made.cert.der().clone();
        House { child, home, addr, watched, certificate, heard, opened: Instant::now() }
    }

    /// What the command says, run to its end beside it.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// A command that reaches it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = preclaim_in(&self.home);
        command.args(args).env("PRECLAIM_ADDR", self.addr.to_string()).env("PRECLAIM_CA", "cert.pem");
        command.env("PRECLAIM_NAME", "a-victim").stdin(Stdio::null());
        command
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// Settings of a client that reaches it.
    pub(crate) fn settings(&self) -> ClientBuilder {
        self.settings_by(self.addr)
    }

    /// The same, by way of `addr`.
    pub(crate) fn settings_by(&self, addr: SocketAddr) -> ClientBuilder {
        Client::builder().addr(addr).ca_der(&self.certificate).timeout(PATIENCE)
    }

    /// A connection from `from`, where it may be refused.
    pub(crate) async fn try_peer(&self, from: Ipv4Addr) -> Result<Peer, ConnectionError> {
        self.try_peer_with(from, TransportConfig::default()).await
    }

    pub(crate) async fn try_peer_with(
        &self,
        from: Ipv4Addr,
        transport: TransportConfig,
    ) -> Result<Peer, ConnectionError> {
        Peer::try_connect_from(from, self.addr, &self.certificate, transport).await
    }

    /// A peer that has said hello, with its first lane.
    pub(crate) async fn attacker(&self, name: &str) -> (Peer, Lane) {
        self.attacker_labelled(name, "main").await
    }

    pub(crate) async fn attacker_labelled(&self, name: &str, label: &str) -> (Peer, Lane) {
        let peer = self.try_peer(ATTACKER).await.unwrap();
        let (lane, _) = peer.say_hello(hello(name, label, 1)).await;
        (peer, lane)
    }

    /// Somebody new comes, is let in, and is granted what it asks for.
    pub(crate) async fn serves_a_newcomer(&self) {
        let client = soon(self.settings().name("a-newcomer").connect()).await.unwrap();
        assert!(is_granted(&client, "newcomer").await);
        client.close().await;
    }

    /// The body of what is at `path` of its HTTP port.
    pub(crate) async fn get(&self, path: &str) -> String {
        let mut stream = soon(TcpStream::connect(self.watched)).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n");
        soon(stream.write_all(request.as_bytes())).await.unwrap();
        let mut answer = String::new();
        soon(stream.read_to_string(&mut answer)).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        body.to_owned()
    }

    /// A connection to its HTTP port, on which `first` was written.
    pub(crate) async fn http(&self, first: &[u8]) -> TcpStream {
        let mut stream = soon(TcpStream::connect(self.watched)).await.unwrap();
        // It may be hung up on while it still writes.
        let _ = soon(stream.write_all(first)).await;
        stream
    }

    /// A sample of its metrics.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let text = self.get("/metrics").await;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
    }

    /// Waits until a limit has been reached so often.
    pub(crate) async fn until_reached(&self, limit: &str, times: u32) {
        let series = format!("preclaim_limits_reached_total{{limit=\"{limit}\"}}");
        let is_reached = async { while self.metric(&series).await < f64::from(times) {} };
        soon(is_reached).await;
    }

    /// Waits for a line of the log with all of `texts` in it.
    pub(crate) fn until_line(&self, texts: &[&str]) -> String {
        self.heard.until(texts)
    }

    /// All that it said so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.heard.lines.lock().unwrap().clone()
    }

    /// What it said of peers is bounded: about each address, and in all.
    #[track_caller]
    pub(crate) fn says_little_of_peers(&self) {
        let begun = self.opened.elapsed().as_micros() as u64 / limits::PEER_LINES_WITHIN.as_us() + 1;
        // A full allowance at the start, and what has grown back since; with each, a line that says what was left out.
        let most = |lines: u64| (lines * (begun + 1) + begun) as usize;
        let lines = self.lines();
        let peers: Vec<&str> =
            lines.iter().filter_map(|line| line.split("peer=").nth(1)?.split(' ').next()).collect();
        assert!(peers.len() <= most(limits::PEER_LINES), "{} lines", peers.len());
        for peer in &peers {
            let about = peers.iter().filter(|other| *other == peer).count();
            assert!(about <= most(limits::PEER_LINES_OF_AN_ADDRESS), "{about} about {peer}: {lines:#?}");
        }
    }

    /// Bytes of memory that the process holds.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }

    /// It holds no more than `most` bytes more than `before`.
    #[track_caller]
    pub(crate) fn has_grown_by_at_most(&self, before: u64, most: u64) {
        let now = self.resident();
        assert!(now.saturating_sub(before) <= most, "{before} grew to {now}");
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("it said:\n{}", self.heard.lines.lock().unwrap().join("\n"));
        }
    }
}

impl Heard {
    fn put(&self, line: String) {
        self.lines.lock().unwrap().push(line);
        self.more.notify_all();
    }

    fn until(&self, texts: &[&str]) -> String {
        let mut lines = self.lines.lock().unwrap();
        let give_up = Instant::now() + PATIENCE;
        loop {
            let found = lines.iter().find(|line| texts.iter().all(|text| line.contains(text)));
            if let Some(line) = found {
                return line.clone();
            }
            let left = give_up.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no line with {texts:?} in {lines:#?}");
            lines = self.more.wait_timeout(lines, left).unwrap().0;
        }
    }
}

/// The command in a directory, away from whatever the user of this machine runs.
fn preclaim_in(home: &Scratch) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_preclaim"));
    command.current_dir(home.path()).env("XDG_RUNTIME_DIR", home.path()).env("TZ", "UTC");
    ["PRECLAIM_CERT", "PRECLAIM_KEY", "PRECLAIM_TOKEN_FILE", "PRECLAIM_LOG", "NO_COLOR"].iter().for_each(
        |name| {
            command.env_remove(name);
        },
    );
    command
}

/// A moment on a path of its own.
async fn is_granted(client: &Client, on: &str) -> bool {
    let intent = Intent::asap().claim(path(on).unwrap().exclusive(), millis(1)).wait(secs(20));
    matches!(soon(client.declare(intent)).await, Ok(Outcome::Granted(_)))
}

/// An agent that declares and is granted, one after the other, for as long as it is there.
pub(crate) struct Honest {
    client: Client,
    grants: watch::Receiver<u64>,
    stop: watch::Sender<bool>,
    work: JoinHandle<()>,
}

impl Honest {
    pub(crate) async fn at(house: &House) -> Self {
        Honest::with(house.settings().name("an-honest-one")).await
    }

    pub(crate) async fn with(settings: ClientBuilder) -> Self {
        let client = soon(settings.connect()).await.unwrap();
        let ((tell, grants), (stop, stopped)) = (watch::channel(0), watch::channel(false));
        let worker = client.clone();
        let work = tokio::spawn(async move {
            while !*stopped.borrow() {
                assert!(is_granted(&worker, "honest").await, "after {}", *tell.borrow());
                tell.send_modify(|count| *count += 1);
            }
        });
        let mut honest = Honest { client, grants, stop, work };
        honest.goes_on().await;
        honest
    }

    /// Waits until it was granted a few times more.
    pub(crate) async fn goes_on(&mut self) {
        let until = *self.grants.borrow() + GOES_ON;
        soon(self.grants.wait_for(|count| *count >= until)).await.expect("it is served");
    }

    /// It was granted all that it asked for, over one connection; how often, is returned.
    pub(crate) async fn ends(self) -> u64 {
        self.stop.send(true).unwrap();
        soon(self.work).await.unwrap();
        assert!(self.client.why_disconnected().is_none());
        self.client.close().await;
        *self.grants.borrow()
    }
}
