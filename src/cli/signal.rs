//! Being asked to stop, by SIGINT (Ctrl-C) or SIGTERM, to read files again, by SIGHUP, or to drain, by SIGUSR2.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGUSR2};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// From here on SIGHUP and SIGUSR2 do not end the process, whether they are heard yet or not.
pub(super) fn hold_off() {
    for signal in [SIGHUP, SIGUSR2] {
        // Where the system takes no handler, one that comes too early ends the process, as it always has.
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

/// Hears both signals from its making on; neither ends the process by itself any more.
pub(super) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    /// # Errors
    /// Where the system does not hand the signals over.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Stop { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Resolves when the process is asked to stop, once more each time. Cancel safe.
    pub(super) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Hears SIGHUP from its making on; it does not end the process any more.
pub(super) struct Hangup(Signal);

impl Hangup {
    /// # Errors
    /// Where the system does not hand the signal over.
    pub(super) fn listen() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Hangup)
    }

    /// Resolves when it comes, once for those that came meanwhile. Cancel safe.
    pub(super) async fn asked(&mut self) {
        if self.0.recv().await.is_none() {
            // It comes no more.
            std::future::pending().await
        }
    }
}

/// Hears SIGUSR2 from its making on; it does not end the process any more.
pub(super) struct DrainSignal(Signal);

impl DrainSignal {
    /// # Errors
    /// Where the system does not hand the signal over.
    pub(super) fn listen() -> io::Result<Self> {
        signal(SignalKind::user_defined2()).map(DrainSignal)
    }

    /// Resolves when it comes, once for those that came meanwhile. Cancel safe.
    pub(super) async fn asked(&mut self) {
        if self.0.recv().await.is_none() {
            // It comes no more.
            std::future::pending().await
        }
    }
}
