//! Whom the load talks to: a coordinator in this process, or one that runs elsewhere.

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::kept::{Kept, Opened, micros};
use super::probe::{Probe, Seen};
use super::{BenchError, Place, Plan};
use crate::client::ClientBuilder;
use crate::clock::SystemClock;
use crate::coordinator::{Coordinator, CoordinatorConfig, CoordinatorError, SocketBuffers};
use crate::host::{HostConfig, Role};
use crate::resolver::Rules;
use crate::types::Time;

pub(super) struct Host {
    pub(super) clock: SystemClock,
    pub(super) builder: ClientBuilder,
    own: Option<Own>,
}

/// A coordinator of its own, on a runtime of its own: so the load's tasks do not stand in line with it.
struct Own {
    runtime: Runtime,
    probe: Arc<Probe>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), CoordinatorError>>,
    kept: Option<Kept>,
    port: u16,
    buffers: SocketBuffers,
}

impl Host {
    pub(super) fn start(plan: &Plan) -> Result<Self, BenchError> {
        match &plan.place {
            Place::Remote(builder) => {
                Ok(Host { clock: SystemClock::start(Time::ZERO), builder: (**builder).clone(), own: None })
            }
            Place::InProcess => Host::start_own(plan),
        }
    }

    fn start_own(plan: &Plan) -> Result<Self, BenchError> {
        let opened = plan.keep.as_ref().map(|keep| Kept::open(keep, plan)).transpose()?;
        // One clock for both sides, so that what each of them stamps can be compared.
        let clock = opened.as_ref().map_or_else(|| SystemClock::start(Time::ZERO), |opened| opened.clock);
        let probe = Arc::new(Probe::new(clock));
        let rules = Rules { length: plan.slot, ..Rules::default() };
        let mut config = CoordinatorConfig {
            clock: Arc::new(clock),
            admission: probe.clone(),
            observer: Some(probe.clone()),
            host: plan.host.clone(),
            ..CoordinatorConfig::in_memory(rules)?
        };
        let mut kept = opened.map(|Opened { kept, journal, recovered, .. }| {
            (config.journal, config.recovered) = (journal, Some(recovered));
            kept
        });
        let runtime = runtime("preclaim-io", &plan.host)?;
        let entered = runtime.enter();
        let began = Instant::now();
        let coordinator = Coordinator::bind(config)?;
        // It takes up sessions there.
        kept.iter_mut().for_each(|kept| kept.recovery.took = kept.recovery.took.plus(micros(began)));
        let builder = ClientBuilder::default()
            .addr(coordinator.local_addr().to_string())
            .ca_der(coordinator.certificate());
        let (port, buffers) = (coordinator.local_addr().port(), coordinator.buffers());
        let (stop, stopped) = oneshot::channel();
        let running = runtime.spawn(coordinator.run(async { drop(stopped.await) }));
        drop(entered);
        Ok(Host { clock, builder, own: Some(Own { runtime, probe, stop, running, kept, port, buffers }) })
    }

    /// Whether the coordinator is of this process, and on the same clock.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// What the coordinator told of itself, where it is of this process.
    pub(super) fn seen(&self) -> Option<Seen> {
        self.own.as_ref().map(|own| own.probe.take())
    }

    /// The port of the coordinator of this process, and what its socket was given.
    pub(super) fn socket(&self) -> Option<(u16, SocketBuffers)> {
        self.own.as_ref().map(|own| (own.port, own.buffers))
    }

    /// The state directory, where the coordinator of this process has one.
    pub(super) fn kept(&self) -> Option<&Kept> {
        self.own.as_ref()?.kept.as_ref()
    }

    /// Stops a coordinator of its own.
    pub(super) fn stop(&mut self) -> Result<(), BenchError> {
        let Some(Own { runtime, stop, running, kept, .. }) = self.own.take() else { return Ok(()) };
        // Where it has ended by itself, nobody listens, and what it ended with says why.
        let _ = stop.send(());
        let ended = runtime.block_on(running);
        runtime.shutdown_background();
        drop(kept); // once nobody writes there any more
        // A panic of its task is on standard error already.
        Ok(ended.unwrap_or(Err(CoordinatorError::SlotLoopDied))?)
    }
}

/// As many threads as the daemon takes: one for each core but at most two. They ask what the daemon's ask.
pub(super) fn runtime(name: &str, host: &HostConfig) -> std::io::Result<Runtime> {
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(2));
    let host = host.clone();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .on_thread_start(move || host.settle(Role::Network))
        .enable_all()
        .build()
}
