//! `serve` as docs/OPERATING.md has it: under a service manager, in whose place a socket stands, and with copies of its
//! state. All with the real command.

#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test
#![cfg(target_os = "linux")]

mod private;
mod scratch;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use scratch::Scratch;

/// Long enough for anything that happens at all, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What listens in the manager's place.
struct Manager(UnixDatagram);

impl Manager {
    fn on(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Manager(socket)
    }

    fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.0.recv(&mut bytes).expect("it is told nothing more");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// The next message that is none for the watchdog.
    fn news(&self) -> String {
        loop {
            let message = self.next();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }
}

/// A coordinator as a service, ended with the test.
struct Service {
    child: Child,
    _scratch: Scratch,
}

impl Service {
    fn start(scratch: Scratch, environment: &[(&str, &OsStr)]) -> Self {
        configure(scratch.path(), "state");
        Service::begin(scratch, &["--new"], environment)
    }

    /// With the configuration that is in `scratch`.
    fn begin(scratch: Scratch, args: &[&str], environment: &[(&str, &OsStr)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_preclaim"));
        command.args(["serve", "--config"]).arg(scratch.path().join("preclaim.toml")).args(args);
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        command.envs(environment.iter().copied());
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        Service { child, _scratch: scratch }
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Reads what it says until it listens, and says where.
    fn listens(&mut self) -> String {
        let mut said = BufReader::new(self.child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("listening on ") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended");
        }
        // What it says later is not read; a pipe takes that much.
        self.child.stderr = Some(said.into_inner());
        line.split(' ').nth(2).unwrap().replace("127.0.0.1", "localhost")
    }

    fn stops(&mut self) {
        self.signal("-TERM");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a configuration for the state directory `state`.
fn configure(dir: &Path, state: &str) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key, config) = (dir.join("cert.pem"), dir.join("key.pem"), dir.join("preclaim.toml"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    private::write(&key, &made.signing_key.serialize_pem());
    let state = dir.join(state);
    let text = format!(
        "[listen]\naddr = \"127.0.0.1:0\"\n[tls]\ncert = {cert:?}\nkey = {key:?}\n[auth]\nmode = \"open\"\n\
         [state]\ndir = {state:?}\nsegment_size = \"1MiB\"\n"
    );
    std::fs::write(&config, text).unwrap();
}

fn monotonic_us() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000
}

#[test]
fn it_says_when_it_is_ready_lives_reloads_and_stops() {
    let scratch = Scratch::fresh("notify");
    let path = scratch.path().join("notify");
    let manager = Manager::on(UnixDatagram::bind(&path).unwrap());
    let environment = [("NOTIFY_SOCKET", path.as_os_str()), ("WATCHDOG_USEC", OsStr::new("40000"))];
    let mut service = Service::start(scratch, &environment);
    let ready = manager.next();
    assert!(ready.starts_with("READY=1\nSTATUS=listening on 127.0.0.1:"), "{ready}");
    for _ in 0..3 {
        assert_eq!(manager.next(), "WATCHDOG=1");
    }
    for _ in 0..2 {
        let before = monotonic_us();
        service.signal("-HUP");
        let reloading = manager.news();
        let since =
            reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap_or_else(|| panic!("{reloading}"));
        let since: i128 = since.parse().unwrap();
        assert!((before..=monotonic_us()).contains(&since), "{before} {since}");
        assert_eq!(manager.news(), "READY=1");
    }
    service.stops();
    assert_eq!(manager.news(), "STOPPING=1\nSTATUS=stopping");
}

#[test]
fn the_socket_may_be_in_no_directory_and_without_a_watchdog_nothing_is_said_for_one() {
    let name = format!("preclaim-test-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let manager = Manager::on(socket);
    let (address, another) = (format!("@{name}"), std::process::id().to_string());
    for watchdog in [
        vec![],
        // That of another process.
        vec![("WATCHDOG_USEC", OsStr::new("40000")), ("WATCHDOG_PID", OsStr::new(&another))],
    ] {
        let mut environment = vec![("NOTIFY_SOCKET", OsStr::new(&address))];
        environment.extend(watchdog);
        let mut service = Service::start(Scratch::fresh("notify"), &environment);
        assert!(manager.next().starts_with("READY=1\n"));
        service.stops();
        assert_eq!(manager.next(), "STOPPING=1\nSTATUS=stopping");
    }
}

#[test]
fn a_manager_that_is_not_there_is_complained_of_and_no_reason_not_to_start() {
    let scratch = Scratch::fresh("notify");
    let nowhere = scratch.path().join("nowhere");
    let mut service = Service::start(scratch, &[("NOTIFY_SOCKET", nowhere.as_os_str())]);
    let mut said = BufReader::new(service.child.stderr.take().unwrap());
    let mut all = String::new();
    while !all.contains("listening on ") {
        assert!(said.read_line(&mut all).unwrap() > 0, "it ended: {all}");
    }
    assert!(all.contains("warning: the service manager is told nothing: NOTIFY_SOCKET"), "{all}");
    service.stops();
}

/// Runs another command of the program to its end.
fn preclaim(args: &[&str], at: &str, dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_preclaim"));
    command
        .args(args)
        .env("PRECLAIM_ADDR", at)
        .env("PRECLAIM_CA", dir.join("cert.pem"))
        .env("PRECLAIM_NAME", "ada");
    for name in ["PRECLAIM_CERT", "PRECLAIM_KEY", "PRECLAIM_TOKEN_FILE"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).output().unwrap()
}

/// The one line of JSON that it prints, where it ends with 0.
fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file: PathBuf = file.unwrap().path();
        std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_copy_of_a_running_coordinators_state_is_whole_and_can_be_gone_on_from() {
    let (scratch, elsewhere) = (Scratch::fresh("backup"), Scratch::fresh("backup"));
    let (state, restored) = (scratch.path().join("state"), elsewhere.path().join("restored"));
    let here = scratch.path().to_owned();
    let verified = |state: &Path| json(&preclaim(&["audit", "verify", state.to_str().unwrap()], "", &here));
    let mut service = Service::start(scratch, &[]);
    let at = service.listens();
    let declare = |id: &str, path: &str, at: &str, dir: &Path| {
        let declared = preclaim(&["declare", path, "--for", "1h", "--id", id, "--output", "json"], at, dir);
        json(&declared)["granted"]["token"].as_u64().unwrap()
    };
    assert_eq!(declare("1", "aisle/4", &at, &here), 1);
    copy(&state, &restored);
    let copied = verified(&restored);
    assert!(copied["damaged"].is_null() && copied["declarations"] == 1, "{copied}");
    assert_eq!(declare("2", "aisle/5", &at, &here), 2, "which the copy lacks");
    service.stops();

    configure(elsewhere.path(), "restored");
    let there = elsewhere.path().to_owned();
    let mut service = Service::begin(elsewhere, &["--token-floor", "1000"], &[]);
    let at = service.listens();
    let listed = json(&preclaim(&["ls", "--output", "json"], &at, &there));
    let entries = listed["entries"].as_array().unwrap();
    assert!(entries.len() == 1 && entries[0]["id"] == 1 && entries[0]["granted"]["token"] == 1, "{listed}");
    assert_eq!(declare("3", "aisle/5", &at, &there), 1000, "above all that were given");
    service.stops();
    let went_on = verified(&restored);
    assert!(went_on["damaged"].is_null() && went_on["declarations"] == 2, "{went_on}");
}
