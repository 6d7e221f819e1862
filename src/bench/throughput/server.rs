//! The two servers, on the same kind of socket and runtime.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};

use rustls::pki_types::CertificateDer;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::super::bare::{Grid, sleep_and_wake};
use super::super::host;
use super::{Answers, BenchError, echo};
use crate::client::{ClientBuilder, Tuning};
use crate::clock::{Clock, SystemClock};
use crate::config::Limits;
use crate::coordinator::{Coordinator, CoordinatorConfig, Identity, Observer};
use crate::host::HostConfig;
use crate::resolver::Rules;
use crate::transport::{self, Access, Bound, Connections};
use crate::types::{Micros, Slot, Time};

/// Inputs that one slot takes: what all connections have under way fits where a slot comes late, so that what is
/// measured is work and no refusals.
const SLOT_INPUTS: usize = 1 << 16;

/// A server at work, on threads of its own.
pub(super) struct Serving {
    runtime: Runtime,
    addr: SocketAddr,
    certificate: CertificateDer<'static>,
    gate: Option<Beat>,
}

impl Serving {
    /// With `gate`, an echo answers at the boundaries of slots of that length alone. An `observer` hears of a
    /// coordinator's slots.
    pub(super) fn start(
        answers: Answers,
        clock: SystemClock,
        gate: Option<Micros>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self, BenchError> {
        let runtime = host::runtime("preclaim-io", &HostConfig::default())?;
        let entered = runtime.enter();
        let (addr, certificate, gate) = match answers {
            Answers::Echo => {
                let identity = Identity::self_made(["localhost", "127.0.0.1"].map(String::from))?;
                let certificate = identity.certificate();
                let Limits { lanes, idle_timeout: idle, .. } = Limits::default();
                let connections = Connections { lanes, idle, tuning: Tuning::CHOSEN };
                let addr = (Ipv4Addr::LOCALHOST, 0).into();
                let Bound { endpoint, .. } =
                    transport::bind(addr, identity, &Access::Open, &connections, None)?;
                let addr = endpoint.local_addr()?;
                let (gate, boundaries) = gate.map(|length| Beat::start(clock, length)).transpose()?.unzip();
                runtime.spawn(echo::serve(endpoint, boundaries));
                (addr, certificate, gate)
            }
            Answers::Coordinator(length) => {
                let rules = Rules { length, ..Rules::default() };
                let limits = Limits { slot_inputs: SLOT_INPUTS, ..Limits::default() }.on_one_machine();
                let clock = Arc::new(clock);
                let in_memory = CoordinatorConfig::in_memory(rules)?;
                let coordinator =
                    Coordinator::bind(CoordinatorConfig { clock, limits, observer, ..in_memory })?;
                let (addr, certificate) = (coordinator.local_addr(), coordinator.certificate().clone());
                // It ends with its runtime.
                runtime.spawn(coordinator.run(std::future::pending()));
                (addr, certificate, None)
            }
        };
        drop(entered);
        Ok(Serving { runtime, addr, certificate, gate })
    }

    /// Settings of a client that reaches it.
    pub(super) fn client(&self) -> ClientBuilder {
        ClientBuilder::default().addr(self.addr.to_string()).ca_der(&self.certificate)
    }

    pub(super) fn stop(self) {
        drop(self.gate);
        self.runtime.shutdown_background();
    }
}

/// A thread that wakes at each boundary, as a slot loop does, and tells which one it is.
struct Beat {
    over: Arc<AtomicBool>,
    thread: Thread,
    _ended: JoinHandle<()>,
}

impl Beat {
    fn start(clock: SystemClock, length: Micros) -> std::io::Result<(Self, watch::Receiver<Time>)> {
        let (tell, told) = watch::channel(Time::ZERO);
        let over = Arc::new(AtomicBool::new(false));
        let until_over = Arc::clone(&over);
        let grid = Grid { length, ahead_us: 0 };
        let ended = thread::Builder::new().name("preclaim-slots".into()).spawn(move || {
            let note = |late: Micros| {
                let at = Slot::of(clock.now().before(late), length).opens(length);
                tell.send_replace(at);
                None::<()>
            };
            sleep_and_wake(&clock, grid, (clock.now(), Time::from_us(u64::MAX)), &until_over, note);
        })?;
        Ok((Beat { over, thread: ended.thread().clone(), _ended: ended }, told))
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}
