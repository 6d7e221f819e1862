//! A client finds the `preclaim dev` of the same user with no flags.
#![cfg(all(unix, feature = "daemon"))]
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use preclaim::{Client, Intent, Outcome, path, secs};

struct Dev(Child);

impl Dev {
    /// Started, and listening.
    fn start(runtime: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_preclaim"))
            .args(["dev", "--listen", "127.0.0.1:0"])
            .env("XDG_RUNTIME_DIR", runtime)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        // It tells people last, once clients can find it.
        assert!(said.lines().any(|line| line.unwrap().contains("preclaim declare")));
        Dev(child)
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs one of the ignored tests below in a process of its own, with this runtime directory and
/// nothing else to go by.
fn in_a_process_of_its_own(test: &str, runtime: &Path) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("XDG_RUNTIME_DIR", runtime)
        .env_remove("PRECLAIM_ADDR")
        .env_remove("PRECLAIM_CA")
        .env("PRECLAIM_NAME", "found-it")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn runtime_directory(name: &str) -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_client_on_the_same_machine_needs_no_flags() {
    let runtime = runtime_directory("discovery");
    let dev = Dev::start(&runtime);
    in_a_process_of_its_own("connects_and_is_granted_without_flags", &runtime);
    drop(dev);
    std::fs::remove_dir_all(runtime).unwrap();
}

#[test]
fn where_no_dev_runs_the_error_says_where_it_was_looked_for() {
    let runtime = runtime_directory("nothing");
    in_a_process_of_its_own("is_told_that_none_was_found", &runtime);
    std::fs::remove_dir_all(runtime).unwrap();
}

#[tokio::test]
#[ignore = "run by a test above, in a process of its own"]
async fn connects_and_is_granted_without_flags() {
    let client = Client::builder().connect().await.unwrap();
    assert_eq!(client.name(), "found-it");
    let claim = path("file/README.md").unwrap().exclusive();
    let outcome = client.declare(Intent::asap().claim(claim, secs(30))).await.unwrap();
    assert!(matches!(outcome, Outcome::Granted(_)));
    client.close().await;
}

#[tokio::test]
#[ignore = "run by a test above, in a process of its own"]
async fn is_told_that_none_was_found() {
    let error = Client::builder().connect().await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("no `preclaim dev` runs") && said.contains("preclaim/dev"), "{said}");
    assert!(error.hint().contains("preclaim dev"));
}
