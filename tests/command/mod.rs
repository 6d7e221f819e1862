//! The real command, beside a `preclaim dev` of its own in a runtime directory of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A directory that only this test knows, gone with it.
pub(crate) struct Runtime(PathBuf);

impl Runtime {
    pub(crate) fn fresh() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("preclaim-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Runtime(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The command, away from whatever the user of this machine runs.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_preclaim"));
        let prints = ["declare", "release", "renew", "ls", "watch"].contains(&args[0]);
        command
            .args(args)
            .args(["--output", "table"].iter().filter(|_| prints && !args.contains(&"--output")));
        command.env("XDG_RUNTIME_DIR", &self.0).env("TZ", "UTC").env("PRECLAIM_NAME", "ada");
        for name in [
            "PRECLAIM_ADDR",
            "PRECLAIM_CA",
            "PRECLAIM_CERT",
            "PRECLAIM_KEY",
            "PRECLAIM_TOKEN_FILE",
            "PRECLAIM_LOG",
            "PRECLAIM_WATCHING",
            "NO_COLOR",
            "TRACEPARENT",
            "TRACESTATE",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Runs it to its end. What it prints for people, unless `args` say otherwise: for a reader that
    /// is no terminal it would print JSON.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        Said::by(&mut self.command(args), "")
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Runs `command` with `input` to its end.
    pub(crate) fn by(command: &mut Command, input: &str) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// It ended with `code`.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// The one line of JSON that it printed.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.out).unwrap()
    }

    /// The number after `word` in what it printed, as in `intent 41`.
    #[track_caller]
    pub(crate) fn number_after(&self, word: &str) -> u64 {
        let rest =
            self.out.split(&format!("{word} ")).nth(1).unwrap_or_else(|| panic!("no {word}: {self:?}"));
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    }
}

/// A running `preclaim dev`, ended with the test.
pub(crate) struct Dev {
    pub(crate) runtime: Runtime,
    pub(crate) child: Child,
    /// What it said when it was ready.
    pub(crate) said: String,
}

impl Dev {
    pub(crate) fn start() -> Self {
        Dev::with("")
    }

    /// With a configuration.
    pub(crate) fn with(config: &str) -> Self {
        let runtime = Runtime::fresh();
        let file = runtime.path().join("preclaim.toml");
        std::fs::write(&file, config).unwrap();
        let args = ["dev", "--listen", "127.0.0.1:0", "--config", file.to_str().unwrap()];
        let mut child = runtime.command(&args).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        // Its last line is the command to paste.
        while !said.contains("preclaim declare") {
            assert!(err.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        // What it says later is not read; a pipe takes that much.
        child.stderr = Some(err.into_inner());
        Dev { runtime, child, said }
    }

    /// Runs a command of `ada`'s.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        self.runtime.run(args)
    }

    /// Runs a command of `name`'s.
    pub(crate) fn run_as(&self, name: &str, args: &[&str]) -> Said {
        Said::by(self.runtime.command(args).env("PRECLAIM_NAME", name), "")
    }

    /// Ends it as a crash would: its file stays behind.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
