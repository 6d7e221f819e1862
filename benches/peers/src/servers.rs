//! Servers as children of this process: on loopback, on free ports, with directories of their own, and gone
//! when it is, however it ends.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Failure;

/// How long a server may take until it answers, and to end when it is asked to.
pub(crate) const STARTS_WITHIN: Duration = Duration::from_secs(20);
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// The user that PostgreSQL's server runs as where we are root, which it refuses.
const POSTGRES_USER: &str = "postgres";

/// A running server; dropped, it is ended.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    ends_by: Signal,
    log: PathBuf,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// # Errors
    /// Where it has ended by itself.
    pub(crate) fn still_runs(&mut self) -> Result<(), Failure> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("it ended ({status}):\n{}", self.said()).into()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let asked = Instant::now();
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, self.ends_by);
        }
        while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < ENDS_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill(); // by its id; nothing happens where it has ended
        let _ = self.child.wait();
    }
}

/// Starts `command`, whose last words are the program and its arguments. The kernel ends it, too, should this
/// process end without a word: by `setpriv`, which then becomes the program.
fn start(mut command: Command, ends_by: Signal, log: PathBuf) -> Result<Server, Failure> {
    let out = File::create(&log)?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    Ok(Server { child, ends_by, log })
}

fn under_us(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// A port of this machine that nobody listens at.
fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn fresh(dir: &Path) -> Result<(), Failure> {
    Ok(fs::create_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?)
}

/// A redis-server: its append-only file is synced before each answer, or it keeps nothing.
pub(crate) fn redis(dir: &Path, synced: bool) -> Result<(Server, u16), Failure> {
    fresh(dir)?;
    let port = free_port()?;
    let mut command = under_us("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]).arg(dir);
    match synced {
        true => command.args(["--appendonly", "yes", "--appendfsync", "always"]),
        false => command.args(["--appendonly", "no"]),
    };
    Ok((start(command, Signal::TERM, dir.join("log"))?, port))
}

pub(crate) fn etcd(dir: &Path) -> Result<(Server, u16), Failure> {
    let (port, peers) = (free_port()?, free_port()?);
    let (clients, peers) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
    let mut command = under_us("etcd");
    command.arg("--data-dir").arg(dir.join("data")).args(["--name", "one", "--log-level", "error"]);
    command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    command.args(["--initial-cluster", &format!("one={peers}")]);
    Ok((start(command, Signal::TERM, dir.join("log"))?, port))
}

/// PostgreSQL with its defaults, but for the port, the number of connections, and no socket file.
pub(crate) fn postgres(dir: &Path) -> Result<(Server, u16), Failure> {
    let (port, programs) = (free_port()?, postgres_programs()?);
    let (data, is_root) = (dir.join("data"), rustix::process::geteuid().is_root());
    let unprivileged = |program: &str| {
        let mut command = Command::new("setpriv");
        if is_root {
            let user = POSTGRES_USER;
            command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--init-groups"]);
        }
        command.args(["--pdeathsig", "QUIT", "--"]).arg(programs.join(program));
        command.current_dir("/");
        command
    };
    fresh(&data)?;
    if is_root {
        succeeds(Command::new("chown").arg(format!("{POSTGRES_USER}:")).arg(&data))?;
    }
    let mut init = unprivileged("initdb");
    init.args(["--auth", "trust", "--username", "bench", "--encoding", "UTF8", "--no-locale", "--pgdata"]);
    succeeds(init.arg(&data))?;
    let mut command = unprivileged("postgres");
    command.arg("-D").arg(&data).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
    command.args(["-c", "unix_socket_directories=", "-c", "max_connections=200"]);
    Ok((start(command, Signal::QUIT, dir.join("log"))?, port))
}

/// Debian keeps them by version, beside the path.
fn postgres_programs() -> Result<PathBuf, Failure> {
    let versions =
        fs::read_dir("/usr/lib/postgresql").map_err(|error| format!("/usr/lib/postgresql: {error}"))?;
    let version = |dir: &PathBuf| dir.file_name()?.to_str()?.parse::<u32>().ok();
    let all = versions.flatten().map(|entry| entry.path()).filter(|dir| dir.join("bin/postgres").exists());
    let newest = all.max_by_key(version).ok_or("/usr/lib/postgresql has no postgres")?;
    Ok(newest.join("bin"))
}

/// The coordinator as its users run it: `preclaim serve`, with a state directory.
pub(crate) fn preclaim(
    program: &Path,
    dir: &Path,
    [slot, horizon, durability]: [&str; 3],
) -> Result<(Server, String, PathBuf), Failure> {
    let (cert, key) = (dir.join("preclaim.crt"), dir.join("preclaim.key"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    openssl.args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]).arg(&key);
    succeeds(openssl.arg("-out").arg(&cert))?;
    let config = dir.join("preclaim.toml");
    let text = format!(
        "[slot]\nlength = \"{slot}\"\nhorizon = \"{horizon}\"\n[listen]\naddr = \"127.0.0.1:0\"\n[tls]\ncert = {cert:?}\nkey = {key:?}\n\
         [auth]\nmode = \"open\"\n[state]\ndir = {:?}\ndurability = \"{durability}\"\n",
        dir.join("state")
    );
    fs::write(&config, text)?;
    let mut command = under_us(program);
    command.arg("serve").arg("--config").arg(&config).arg("--new");
    let mut server = start(command, Signal::TERM, dir.join("log"))?;
    let asked = Instant::now();
    while asked.elapsed() < STARTS_WITHIN {
        server.still_runs()?;
        let said = server.said();
        let addr = said.split_once("listening on ").and_then(|(_, rest)| rest.split_once(' '));
        if let Some((addr, _)) = addr {
            return Ok((server, addr.to_owned(), cert));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!("preclaim does not listen:\n{}", server.said()).into())
}

fn succeeds(command: &mut Command) -> Result<(), Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} failed ({}):\n{said}", output.status).into())
}
