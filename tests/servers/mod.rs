//! Servers of this machine, each started for one test, on no port that anybody else can reach, and ended
//! with it. Where one is not installed, a line says so and the test has nothing to do.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::scratch::Scratch;

/// How long a server may take to be there; far longer than any does.
const STARTS_WITHIN: Duration = Duration::from_secs(120);

/// The program, where it is installed: in the search path, or where distributions hide it.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let hidden = versions.map(|version| version.path().join("bin"));
    let mut found = std::env::split_paths(&path).chain(hidden).map(|directory| directory.join(name));
    found.find(|file| file.is_file()).or_else(|| {
        eprintln!("left out: this machine has no {name}");
        None
    })
}

fn ended(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Runs it to its end, and says what it printed.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(format!("{command:?}: {output:?}"))
    }
}

fn until_there(mut asked: impl FnMut() -> Result<String, String>) {
    let began = Instant::now();
    while let Err(why) = asked() {
        assert!(began.elapsed() < STARTS_WITHIN, "it does not start: {why}");
    }
}

/// A PostgreSQL of its own, reached by a socket in its own directory alone.
pub(crate) struct Postgres {
    server: Option<Child>,
    psql: PathBuf,
    scratch: Scratch,
}

impl Postgres {
    pub(crate) fn start() -> Option<Self> {
        let (initdb, postgres, psql) = (program("initdb")?, program("postgres")?, program("psql")?);
        let scratch = Scratch::fresh("postgres");
        let data = scratch.path().join("data");
        let mut init = as_a_user(&initdb, scratch.path())?;
        init.args(["-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "-N", "-D"]).arg(&data);
        output(&mut init).unwrap();
        let mut server = as_a_user(&postgres, scratch.path())?;
        server.arg("-D").arg(&data).arg("-k").arg(scratch.path());
        server.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        let server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let postgres = Postgres { server: Some(server), psql, scratch };
        until_there(|| output(postgres.client().args(["-c", "SELECT 1"])));
        Some(postgres)
    }

    fn client(&self) -> Command {
        let mut psql = Command::new(&self.psql);
        psql.args(["-X", "-A", "-t", "-U", "tester", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-h"]);
        psql.arg(self.scratch.path());
        psql
    }

    /// Runs a script, and says what it printed.
    pub(crate) fn psql(&self, script: &str) -> String {
        let file = self.scratch.path().join("script.sql");
        std::fs::write(&file, script).unwrap();
        output(self.client().arg("-f").arg(&file)).unwrap()
    }

    /// A session that stays open.
    pub(crate) fn session(&self) -> Session {
        let mut psql = self.client();
        let mut psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (psql.stdin.take().unwrap(), BufReader::new(psql.stdout.take().unwrap()));
        Session { psql: Some(psql), to, from }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its immediate shutdown: it ends its own processes, which a kill would leave behind.
        let Some(mut server) = self.server.take() else { return };
        let quit = Command::new("kill").args(["-QUIT", &server.id().to_string()]).status();
        if quit.is_ok_and(|status| status.success()) {
            let _ = server.wait();
        } else {
            ended(server);
        }
    }
}

pub(crate) struct Session {
    psql: Option<Child>,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Session {
    pub(crate) fn ask(&mut self, statements: &str) -> String {
        self.send(statements);
        self.answer()
    }

    pub(crate) fn send(&mut self, statements: &str) {
        writeln!(self.to, "{statements}\n\\echo over").unwrap();
        self.to.flush().unwrap();
    }

    pub(crate) fn answer(&mut self) -> String {
        let mut said = String::new();
        while !said.ends_with("over\n") {
            assert!(self.from.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        said.strip_suffix("over\n").unwrap().to_owned()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.psql.take().into_iter().for_each(ended);
    }
}

/// PostgreSQL does not run as root: it gets the rights of nobody then, and the directory.
fn as_a_user(program: &Path, directory: &Path) -> Option<Command> {
    let is_root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !is_root {
        return Some(Command::new(program));
    }
    let Some(setpriv) = self::program("setpriv") else {
        eprintln!("left out: root cannot run {} without it", program.display());
        return None;
    };
    output(Command::new("chown").arg("nobody").arg(directory)).unwrap();
    let mut command = Command::new(setpriv);
    command.args(["--reuid=nobody", "--clear-groups", "--"]).arg(program).current_dir(directory);
    Some(command)
}

/// A Redis of its own, reached by a socket in its own directory alone.
pub(crate) struct Redis {
    server: Option<Child>,
    cli: PathBuf,
    scratch: Scratch,
}

impl Redis {
    pub(crate) fn start() -> Option<Self> {
        let (server, cli) = (program("redis-server")?, program("redis-cli")?);
        let scratch = Scratch::fresh("redis");
        let mut command = Command::new(server);
        command.current_dir(scratch.path());
        command.args(["--port", "0", "--unixsocket", "redis.sock", "--save", "", "--appendonly", "no"]);
        let server =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let redis = Redis { server: Some(server), cli, scratch };
        until_there(|| match output(redis.client().arg("PING")) {
            Ok(said) if said.trim() == "PONG" => Ok(said),
            Ok(said) | Err(said) => Err(said),
        });
        Some(redis)
    }

    fn client(&self) -> Command {
        let mut cli = Command::new(&self.cli);
        cli.arg("-s").arg(self.scratch.path().join("redis.sock"));
        cli
    }

    /// Sends one command, and says what it printed.
    pub(crate) fn cli(&self, words: &[&str]) -> String {
        output(self.client().args(words)).unwrap()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.server.take().into_iter().for_each(ended);
    }
}
