//! Being asked to stop, by SIGINT (Ctrl-C) or SIGTERM.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

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
