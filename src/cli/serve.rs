//! `preclaim serve`: the coordinator, as its configuration says.

mod draining;
mod manager;
mod material;
mod reload;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::draining::Draining;
use self::manager::Manager;
use self::material::Material;
use self::reload::Reloading;
use super::signal::{DrainSignal, Hangup, Stop};
use super::traced::Traced;
use super::{ExitCode, output, signal, times};
use crate::audit::NoJournal;
use crate::clock::Reading;
use crate::config::{Config, Durability, StateConfig, show_duration};
use crate::coordinator::{
    self, Access, BindError, Coordinator, CoordinatorConfig, CoordinatorError, Feasibility, Identity,
    RecoveryError, Report, Restart, StartFrom,
};
use crate::host::{HostConfig, Role};
use crate::store::{self, OpenError, RealDisk};
use crate::telemetry::{Metrics, Telemetry};
use crate::types::{Micros, Time};

/// A wall clock that is so far off is told of.
const WALL_OFF_US: u64 = 1_000_000;

const EXAMPLE: &str = "\
Example:
  $ preclaim certs init && preclaim certs server localhost 127.0.0.1 && preclaim certs agent robot-1
  $ cat preclaim.toml                         # `preclaim config init` prints all that there is
  [tls]
  cert = \"certs/server.crt\"
  key = \"certs/server.key\"
  [auth]
  client_ca = \"certs/ca.crt\"
  crl = \"certs/ca.crl\"
  [state]
  dir = \"state\"
  $ preclaim serve --config preclaim.toml --new     # the first time; from then on without --new
  listening on 127.0.0.1:7411 (QUIC), slots of 10ms
  $ preclaim ls --addr localhost:7411 --ca certs/ca.crt \\
      --cert certs/agents/robot-1.crt --key certs/agents/robot-1.key

SIGHUP has it read its configuration and the files that it names again: all of it counts from one slot's end on, or, where
something is not right or counts from a start on alone, none of it, and why is said (docs/CONFIGURATION.md). SIGINT and
SIGTERM stop it: the open slot is decided and answered, agents are told. SIGUSR2 has it drain, as `preclaim drain`
does. A service manager that listens on NOTIFY_SOCKET (systemd, Type=notify)
is told when it is ready, reloads and stops, and its watchdog while the slot loop gets on.";

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
    /// Begin in an empty state directory. Only where no agent ever had a token: they begin at 1
    #[arg(long)]
    new: bool,
    /// Go on with tokens from N on, in the state directory as it is or in an empty one: where the state
    /// was lost, or put back from a copy that is not the latest, a number above all that were given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=crate::limits::NEXT_TOKEN))]
    token_floor: Option<u64>,
    #[command(flatten)]
    watching: Watching,
}

/// How it is watched, beside what the configuration says.
#[derive(Debug, clap::Args)]
pub(super) struct Watching {
    /// The web page too: at the configuration's [metrics] addr, or at 127.0.0.1:7412. It shows whoever reaches
    /// that address names of agents and paths
    #[arg(long)]
    page: bool,
}

/// Where and by what a coordinator is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    addr: SocketAddr,
    has_page: bool,
    /// Whether `preclaim why` may ask it, also without the page.
    keeps_decisions: bool,
}

impl Watched {
    /// By a free port of this machine; `is_open` where everybody there may watch what is decided in any case.
    pub(super) fn anywhere(is_open: bool) -> Self {
        let addr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
        Watched { addr, has_page: false, keeps_decisions: is_open }
    }

    fn metrics(self, length: Micros) -> Metrics {
        let metrics = Metrics::new(length);
        match (self.has_page, self.keeps_decisions) {
            (true, _) => metrics.with_page(),
            (false, true) => metrics.with_decisions(),
            (false, false) => metrics,
        }
    }
}

impl Watching {
    /// Where and by what; `None` where nobody is to.
    pub(super) fn of(&self, config: &Config) -> Option<Watched> {
        let unless_said = self.page.then_some(PAGE_ADDR);
        let addr = config.metrics.or(unless_said)?;
        Some(Watched { addr, has_page: self.page || config.page, keeps_decisions: false })
    }
}

/// Where the page is, unless it is said.
const PAGE_ADDR: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7412));

impl Args {
    fn start_from(&self) -> StartFrom {
        match (self.token_floor, self.new) {
            (Some(token_floor), true) => StartFrom::Nothing { token_floor },
            (Some(token_floor), false) => StartFrom::Doubtful { token_floor },
            (None, true) => StartFrom::Nothing { token_floor: 1 },
            (None, false) => StartFrom::State,
        }
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    output::start_log();
    // What recovers is not ended by what it is to hear later; it is read, or drains, once it runs and is asked again.
    signal::hold_off();
    let config = match Config::load(&args.config) {
        Ok(config) => config,
        Err(error) => {
            output::complain(error);
            return ExitCode::Configuration;
        }
    };
    output::configure_log(&config.log);
    let traced = match Traced::of(&config) {
        Ok(traced) => traced,
        Err(code) => return code,
    };
    let material = match Material::of(&config) {
        Ok(material) => material,
        Err(why) => return unusable(&args.config, &why),
    };
    let (identity, access) = match material.read() {
        Ok(both) => both,
        Err(why) => return unusable(&args.config, &why),
    };
    let Some(state) = config.state.clone() else {
        return unusable(
            &args.config,
            "[state] with dir is needed: there the audit log is kept\n  do      name an empty directory in [state] dir",
        );
    };
    let text = match material::text_kept(&state) {
        Ok(text) => text,
        Err(why) => return unusable(&args.config, &why),
    };
    let now = Reading::take();
    let restart = match restart(&config, &state, args.start_from(), now) {
        Ok(restart) => restart,
        Err(error) => {
            output::complain(&error);
            return code_of(&error);
        }
    };
    let length = show_duration(config.rules.length);
    let kept = tell_kept(&state, &restart.report);
    let watched = args.watching.of(&config);
    let reloading = Reloading::new(args.config.clone(), config.clone());
    let mut config = coordinator_config(config, identity, args.check_invariants);
    config.access = access;
    config.clock = Arc::new(restart.clock(&now));
    config.journal = Box::new(restart.journal.keeping_text(text));
    config.recovered = Some(restart.recovered);
    run_coordinator(config, (watched, traced), Some(reloading), |coordinator, _| {
        let addr = coordinator.local_addr();
        output::talk(format_args!("listening on {addr} (QUIC), slots of {length}\n{kept}"));
    })
}

fn restart(
    config: &Config,
    state: &StateConfig,
    from: StartFrom,
    now: Reading,
) -> Result<Restart, RecoveryError> {
    let disk = match from {
        StartFrom::State if !state.dir.exists() => {
            return Err(OpenError::Empty { place: state.dir.display().to_string() }.into());
        }
        StartFrom::State => Ok(RealDisk::new(&state.dir)),
        StartFrom::Nothing { .. } | StartFrom::Doubtful { .. } => RealDisk::create(&state.dir),
    };
    let fault = |error| store::Fault { doing: "create", file: state.dir.display().to_string(), error };
    let disk = Arc::new(disk.map_err(|error| OpenError::Disk(fault(error)))?);
    coordinator::recover(disk, config, state, from, now)
}

/// What was found, and what a crash may forget from here on.
fn tell_kept(state: &StateConfig, report: &Report) -> String {
    for (file, why) in &report.passed_over {
        output::complain(format_args!("{file}: {why}; an older snapshot and the log stand in for it"));
    }
    if let Some(torn) = &report.torn {
        output::complain(format_args!(
            "{}, offset {}: a write of {} bytes was not finished, and is cut off; nothing of it was ever sent",
            torn.file, torn.offset, torn.bytes
        ));
    }
    if let Some(ahead_us) = report.wall_ahead_us.filter(|ahead_us| ahead_us.unsigned_abs() >= WALL_OFF_US) {
        let off = times::length(Micros::from_us(ahead_us.unsigned_abs()));
        let way = if ahead_us > 0 { "ahead of" } else { "behind" };
        output::talk(format_args!(
            "warning: the wall clock is {off} {way} the coordinator's time, which goes on as before so that no lease \
             ends early; it takes the wall clock again after this machine's next boot"
        ));
    }
    let found = match report.last_slot {
        None => "a new state".to_owned(),
        Some(slot) => format!(
            "{} records after the last snapshot, up to slot {}: {} grants in force, {} intents undecided",
            report.records,
            slot.number(),
            report.grants,
            report.undecided
        ),
    };
    let forgets = match state.durability {
        Durability::Slot => "no decision is sent before it is on disk".to_owned(),
        Durability::Interval(most) => {
            format!("a crash of this machine may forget the last {}", show_duration(most))
        }
        Durability::None => "a crash of this machine may forget the last minute".to_owned(),
    };
    format!("state in {}: {found}\n{forgets}", state.dir.display())
}

fn code_of(error: &RecoveryError) -> ExitCode {
    match error {
        RecoveryError::Open(OpenError::Locked { .. } | OpenError::Disk(_)) | RecoveryError::Thread(_) => {
            ExitCode::Failure
        }
        RecoveryError::Open(
            OpenError::Empty { .. }
            | OpenError::NotEmpty { .. }
            | OpenError::Foreign { .. }
            | OpenError::Newer { .. },
        )
        | RecoveryError::SlotLength { .. } => ExitCode::Configuration,
        _ => ExitCode::AuditDiffers,
    }
}

fn unusable(config: &Path, why: &str) -> ExitCode {
    output::complain(format_args!(
        "{}: {why}\n  or      preclaim dev needs no certificate, and is for this machine alone",
        config.display()
    ));
    ExitCode::Configuration
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
        access: Access::Open,
        clock: Arc::new(crate::clock::SystemClock::start(Time::ZERO)),
        journal: Box::new(NoJournal),
        recovered: None,
        rights: Arc::new(config.rights),
        admission: Arc::new(Feasibility::new(config.frames)),
        observer: None,
        check_invariants,
        host: config.host,
        drain_within: config.drain_within,
    }
}

/// Runs a coordinator until it is asked to stop, `watched` and `traced` where it is to be, `reloading` its configuration
/// when it is asked to. `ready` is called once it listens, and told where it is watched.
pub(super) fn run_coordinator<T>(
    mut config: CoordinatorConfig,
    (watched, traced): (Option<Watched>, Traced),
    reloading: Option<Reloading>,
    ready: impl FnOnce(&Coordinator, Option<SocketAddr>) -> T,
) -> ExitCode {
    output::start_log();
    // Whoever does not read what is said is no reason to decide nothing, nor not to stop.
    output::talk_without_waiting();
    let (host, refused) = std::mem::take(&mut config.host).prepare();
    for refusal in refused {
        output::talk(format_args!(
            "warning: {refusal}\n  it goes on without: decisions are the same, and may be later"
        ));
    }
    config.host = host.clone();
    let runtime = match runtime_on(host) {
        Ok(runtime) => runtime,
        Err(error) => return failed(&CoordinatorError::Start(error)),
    };
    let watched = watched.map(|watched| (watched, Arc::new(watched.metrics(config.rules.length))));
    let metrics = watched.as_ref().map(|(_, metrics)| metrics);
    let exporting = match traced.start(&config.clock, metrics) {
        Ok(exporting) => exporting,
        Err(code) => return code,
    };
    config.observer = exporting.observer_beside(metrics);
    let manager = Arc::new(Manager::of_environment());
    let keeps = config.recovered.is_some();
    let ended = runtime.block_on(async {
        // Before anything is said: who reads that it listens may stop it at once.
        let stop = stop_signal().map_err(|error| failed(&CoordinatorError::Start(error)))?;
        let hangup = reloading.is_some().then(Hangup::listen).transpose();
        let hangup = hangup.map_err(|error| failed(&CoordinatorError::Start(error)))?;
        let drain = DrainSignal::listen().map_err(|error| failed(&CoordinatorError::Start(error)))?;
        let coordinator = Coordinator::bind(config).map_err(|error| cannot_listen(&error))?;
        let watched_at = match watched {
            Some((watched, metrics)) => Some(watch(watched, metrics, &coordinator).await?),
            None => None,
        };
        if let (Some(reloading), Some(hangup)) = (reloading, hangup) {
            tokio::spawn(reloading.follow(hangup, coordinator.reloader(), Arc::clone(&manager)));
        }
        manager.follow(&coordinator);
        let draining = Draining::attend(&coordinator, drain, Arc::clone(&manager), keeps);
        tokio::spawn(output::tell_what_the_log_left_out());
        // What it returns lasts as long as the coordinator.
        let _ready = ready(&coordinator, watched_at);
        let stop = async {
            stop.await;
            manager.stops();
        };
        let ended = coordinator.run(stop).await.map_err(|error| failed(&error));
        // A drain ends by itself, too.
        manager.stops();
        draining.tell_end();
        ended
    });
    // Whatever a task still waits for, the coordinator has ended.
    runtime.shutdown_background();
    exporting.stop();
    output::end_log();
    output::flush();
    match ended {
        Ok(()) => ExitCode::Done,
        Err(code) => code,
    }
}

/// Has those who watch the coordinator answered, for as long as the runtime lasts. Says where.
async fn watch(
    watched: Watched,
    metrics: Arc<Metrics>,
    coordinator: &Coordinator,
) -> Result<SocketAddr, ExitCode> {
    let telemetry = Telemetry::bind(watched.addr).await.map_err(|error| {
        output::complain(format_args!(
            "cannot listen on {} for those who watch: {error}\n  do      name a free address in [metrics] addr",
            watched.addr
        ));
        ExitCode::Failure
    })?;
    let addr = telemetry.local_addr();
    output::talk(format_args!("watched at http://{addr}/metrics and http://{addr}/readyz"));
    if watched.has_page {
        output::talk(format_args!("seen at http://{addr}/page"));
    }
    if !addr.ip().is_loopback() {
        let page = if watched.has_page { " and on the page" } else { "" };
        output::talk(format_args!(
            "warning: whoever reaches that address is shown names of agents and paths in /claims and /hot{page}"
        ));
    }
    tokio::spawn(telemetry.serve(metrics, coordinator.view()));
    Ok(addr)
}

/// What connections are served on.
fn runtime_on(host: HostConfig) -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .thread_name("preclaim-io")
        .on_thread_start(move || host.settle(Role::Network))
        .enable_all()
        .build()
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
        BindError::Identity(_) => {
            "name a certificate and its key, both as PEM, in [tls]; `preclaim certs server` makes them"
                .to_owned()
        }
    };
    output::complain(format_args!("{error}\n  do      {advice}"));
    match error {
        BindError::Identity(_) => ExitCode::Configuration,
        BindError::InUse { .. } | BindError::Socket { .. } => ExitCode::Failure,
    }
}
