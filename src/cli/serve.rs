//! `preclaim serve`: the coordinator, as its configuration says.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::signal::Stop;
use super::{ExitCode, output};
use crate::audit::NoJournal;
use crate::config::{Config, TlsFiles};
use crate::coordinator::{BindError, Coordinator, CoordinatorConfig, CoordinatorError, Identity, Open};
use crate::types::Time;

const EXAMPLE: &str = "\
Example:
  $ preclaim config init > preclaim.toml      # then name your certificate in [tls]
  $ preclaim serve --config preclaim.toml
  listening on 127.0.0.1:7411 (QUIC), slots of 10ms

The certificate is the coordinator's own, not a CA's. One to try it with, which clients trust
with --ca preclaim.crt:
  $ openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 30 \\
      -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \\
      -addext basicConstraints=critical,CA:FALSE -keyout preclaim.key -out preclaim.crt

SIGINT and SIGTERM stop it: the open slot is decided and answered, agents are told.";

/// Run the coordinator as a configuration file says
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// The configuration; `preclaim config init` prints one
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Hold every slot against the decision core's invariants before anything of it is sent; a breach
    /// ends the coordinator
    #[arg(long)]
    check_invariants: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let config = match Config::load(&args.config) {
        Ok(config) => config,
        Err(error) => {
            output::complain(error);
            return ExitCode::Configuration;
        }
    };
    let identity = match config.tls.as_ref().map(identity_of) {
        Some(Ok(identity)) => identity,
        Some(Err(why)) => return unusable(&args.config, &why),
        None => return unusable(&args.config, "[tls] with cert and key is needed: it names their files"),
    };
    let length = crate::config::show_duration(config.rules.length);
    let config = coordinator_config(config, identity, args.check_invariants);
    run_coordinator(config, |coordinator| {
        output::talk(format_args!("listening on {} (QUIC), slots of {length}", coordinator.local_addr()));
    })
}

fn unusable(config: &Path, why: &str) -> ExitCode {
    output::complain(format_args!(
        "{}: {why}\n  do      preclaim dev needs no certificate, and is for this machine alone",
        config.display()
    ));
    ExitCode::Configuration
}

fn identity_of(files: &TlsFiles) -> Result<Identity, String> {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let (chain, key) = (read(&files.cert)?, read(&files.key)?);
    let names = || format!("{} and {}", files.cert.display(), files.key.display());
    Identity::from_pem(&chain, &key).map_err(|error| format!("{}: {error}", names()))
}

/// The coordinator that `config` describes, which keeps nothing yet.
pub(super) fn coordinator_config(
    config: Config,
    identity: Identity,
    check_invariants: bool,
) -> CoordinatorConfig {
    CoordinatorConfig {
        listen: config.listen,
        rules: config.rules,
        limits: config.limits,
        identity,
        clock: Arc::new(crate::clock::SystemClock::start(Time::ZERO)),
        journal: Box::new(NoJournal),
        recovered: None,
        admission: Arc::new(Open),
        observer: None,
        check_invariants,
    }
}

/// Runs a coordinator until it is asked to stop. `ready` is called once it listens.
pub(super) fn run_coordinator<T>(
    config: CoordinatorConfig,
    ready: impl FnOnce(&Coordinator) -> T,
) -> ExitCode {
    output::start_log();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .thread_name("preclaim-io")
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&CoordinatorError::Start(error)),
    };
    let ended = runtime.block_on(async {
        // Before anything is said: who reads that it listens may stop it at once.
        let stop = stop_signal().map_err(|error| failed(&CoordinatorError::Start(error)))?;
        let coordinator = Coordinator::bind(config).map_err(|error| cannot_listen(&error))?;
        // What it returns lasts as long as the coordinator.
        let _ready = ready(&coordinator);
        coordinator.run(stop).await.map_err(|error| failed(&error))
    });
    // Whatever a task still waits for, the coordinator has ended.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::Done,
        Err(code) => code,
    }
}

/// One thread for each core but at most two: the work on the wire is small, and what it must never
/// do is keep the slot loop waiting for a core.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(2))
}

/// Resolves when the process is asked to stop; a second time ends it at once.
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut stop = Stop::listen()?;
    Ok(async move {
        stop.asked().await;
        output::talk("stopping: the open slot is decided, agents are told");
        tokio::spawn(async move {
            stop.asked().await;
            std::process::exit(ExitCode::Failure as i32);
        });
    })
}

fn failed(error: &CoordinatorError) -> ExitCode {
    output::complain(error);
    ExitCode::Failure
}

fn cannot_listen(error: &BindError) -> ExitCode {
    let advice = match error {
        BindError::InUse { addr } => format!(
            "stop the other one, or listen elsewhere: preclaim dev --listen {}:0, or [listen] addr",
            addr.ip()
        ),
        BindError::Socket { .. } => "give an address of this machine that you may listen on".to_owned(),
        BindError::Identity(_) => "name a certificate and its key, both as PEM, in [tls]".to_owned(),
    };
    output::complain(format_args!("{error}\n  do      {advice}"));
    match error {
        BindError::Identity(_) => ExitCode::Configuration,
        BindError::InUse { .. } | BindError::Socket { .. } => ExitCode::Failure,
    }
}
