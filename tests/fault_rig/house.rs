//! The coordinator's process, and what its audit log says in the end.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::plan::Skew;
use super::words::faketime;
use super::{Dice, GLANCE};
use crate::private;

/// A running `preclaim serve` with a directory of its own, both gone with this.
#[derive(Debug)]
pub(super) struct House {
    dir: PathBuf,
    daemon: Daemon,
    skew: Skew,
    starts: u64,
    pub(super) kills: u64,
}

#[derive(Debug)]
struct Daemon {
    child: Child,
    addr: SocketAddr,
}

/// A grant as the audit log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) agent: String,
    pub(super) id: u64,
    pub(super) token: u64,
    pub(super) start: u64,
    /// With its renewals, and cut short by its release.
    pub(super) end: u64,
}

/// What the audit log says.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) granted: Vec<Granted>,
    /// Answered with a final refusal.
    pub(super) refused: Vec<(String, u64)>,
    /// What `preclaim audit verify` complained of.
    pub(super) damage: Option<String>,
    /// How often the coordinator was killed.
    pub(super) kills: u64,
}

impl House {
    pub(super) fn open(row: &str, skew: Skew) -> Result<Self, String> {
        let name: String = row.chars().filter(char::is_ascii_alphanumeric).collect();
        let dir = std::env::temp_dir().join(format!("preclaim-faults-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("run")).map_err(|error| error.to_string())?;
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let (cert, key, state) = (dir.join("cert.pem"), dir.join("key.pem"), dir.join("state"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        private::write(&key, &made.signing_key.serialize_pem());
        let text = format!(
            "[listen]\naddr = \"127.0.0.1:0\"\n[tls]\ncert = {cert:?}\nkey = {key:?}\n[auth]\nmode = \"open\"\n[state]\ndir = {state:?}\n"
        );
        std::fs::write(dir.join("preclaim.toml"), text).unwrap();
        std::fs::write(dir.join("clock"), "+0").unwrap();
        let daemon = Daemon::start(&dir, skew, 0)?;
        Ok(House { dir, daemon, skew, starts: 1, kills: 0 })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn ca(&self) -> PathBuf {
        self.dir.join("cert.pem")
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.daemon.addr
    }

    pub(super) fn kill_and_start_again(&mut self, dice: &mut Dice) {
        self.daemon.kill();
        self.kills += 1;
        // For as long as a supervisor takes.
        std::thread::sleep(Duration::from_millis(50 + dice.below(500)));
        self.daemon = Daemon::start(&self.dir, self.skew, self.starts).unwrap();
        self.starts += 1;
    }

    /// Sets its wall clock, where it has one of its own.
    pub(super) fn set_clock(&self, dice: &mut Dice) {
        set_clock(&self.dir.join("clock"), dice);
    }

    /// Until nothing is granted and nothing waits; how long that took, or none.
    pub(super) fn until_nothing_is_left(&self, patience: Duration) -> Option<Duration> {
        let began = Instant::now();
        while began.elapsed() < patience {
            if self.listed() == Some(0) {
                return Some(began.elapsed());
            }
            std::thread::sleep(10 * GLANCE);
        }
        None
    }

    /// Entries that `preclaim ls` prints.
    fn listed(&self) -> Option<usize> {
        let mut command = self.command(&["ls", "--output", "json", "--name", "looker", "--addr"]);
        let output = command.arg(self.addr().to_string()).arg("--ca").arg(self.ca()).output().ok()?;
        let listing: Value = serde_json::from_slice(&output.stdout).ok()?;
        listing["entries"].as_array().map(Vec::len)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_preclaim"));
        command.args(args).env("XDG_RUNTIME_DIR", self.dir.join("run"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Ends it as on a signal, and reads its log.
    pub(super) fn close(mut self) -> Result<Log, String> {
        self.daemon.end();
        let state = self.dir.join("state");
        let run = |args: &[&str]| {
            let output = self.command(args).arg(&state).output().map_err(|error| error.to_string())?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            if output.status.success() { Ok(out) } else { Err(format!("{args:?}: {out}{err}")) }
        };
        let damage = run(&["audit", "verify"]).err();
        let mut log = Log { damage, kills: self.kills, ..Log::default() };
        log.read(&run(&["audit", "export", "--decisions"])?);
        Ok(log)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.daemon.kill();
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

impl Daemon {
    fn start(dir: &Path, skew: Skew, starts: u64) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_preclaim"));
        command.args(["serve", "--check-invariants", "--config"]).arg(dir.join("preclaim.toml"));
        command.args((starts == 0).then_some("--new")).env("XDG_RUNTIME_DIR", dir.join("run"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        match skew {
            Skew::None => {}
            Skew::Restarts => {
                let side = if starts.is_multiple_of(2) { "-2" } else { "+2" };
                lie(&mut command, false).env("FAKETIME", side);
            }
            Skew::Wall | Skew::Monotonic => {
                lie(&mut command, false).env("FAKETIME_TIMESTAMP_FILE", dir.join("clock"));
            }
        }
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let (mut all, mut addr) = (String::new(), None);
        while addr.is_none() {
            let mut line = String::new();
            if said.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
                return Err(format!("the coordinator ended: {all}"));
            }
            addr = line.strip_prefix("listening on ").map(|rest| rest.split(' ').next().unwrap().to_owned());
            all.push_str(&line);
        }
        // What it says later is passed on, so that its pipe never fills up.
        std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = said.read_to_string(&mut rest);
            eprint!("{rest}");
        });
        let addr = addr.unwrap().parse().map_err(|_| format!("no address: {all}"))?;
        Ok(Daemon { child, addr })
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        clean_up_after(&self.child);
    }

    fn end(&mut self) {
        super::rack::signal(&self.child, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Sets the wall clock in `file` anywhere within two seconds of the true one.
pub(super) fn set_clock(file: &Path, dice: &mut Dice) {
    let (sign, off) = (if dice.below(2) == 0 { '-' } else { '+' }, dice.below(2001));
    // Written beside it and renamed, so that nobody reads a half.
    let beside = file.with_extension("new");
    std::fs::write(&beside, format!("{sign}{}.{:03}", off / 1000, off % 1000)).unwrap();
    std::fs::rename(beside, file).unwrap();
}

/// Removes what the library that lies leaves behind of a process that was killed.
pub(super) fn clean_up_after(child: &Child) {
    for name in ["faketime_shm_", "sem.faketime_sem_"] {
        let _ = std::fs::remove_file(format!("/dev/shm/{name}{}", child.id()));
    }
}

/// Makes `command` one whose wall clock lies, its monotonic clock too where that is said.
pub(super) fn lie(command: &mut Command, monotonic_too: bool) -> &mut Command {
    command.env("LD_PRELOAD", faketime().unwrap_or_default());
    // The file is read again at each call.
    command.env("FAKETIME_NO_CACHE", "1");
    let plain = if monotonic_too { "0" } else { "1" };
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", plain).env("DONT_FAKE_MONOTONIC", plain)
}

impl Log {
    /// Reads exported decisions, in their order.
    fn read(&mut self, lines: &str) {
        let mut live: BTreeMap<(String, u64), usize> = BTreeMap::new();
        for line in lines.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let (Some(agent), Some(id)) = (line["agent"].as_str(), line["id"].as_u64()) else { continue };
            let (key, number) = ((agent.to_owned(), id), |value: &Value| value.as_u64().unwrap());
            if let Some(granted) = line.get("granted") {
                let (start, end) = (number(&granted["start"]), number(&granted["end"]));
                let token = number(&granted["token"]);
                // Answered again, it is the same grant still.
                if self.granted.iter().rev().any(|known| known.token == token) {
                    continue;
                }
                live.insert(key.clone(), self.granted.len());
                self.granted.push(Granted { agent: key.0, id, token, start, end });
            } else if let Some(renewed) = line.get("renewed") {
                if let Some(at) = live.get(&key) {
                    self.granted[*at].end = number(&renewed["end"]);
                }
            } else if line.get("released").is_some_and(|released| released.get("unknown").is_none()) {
                if let Some(at) = live.remove(&key) {
                    let grant = &mut self.granted[at];
                    grant.end = grant.end.min(number(&line["at"]));
                }
            } else if line.get("conflict").is_some_and(|conflict| conflict["final"] == true) {
                self.refused.push(key);
            }
        }
    }
}
