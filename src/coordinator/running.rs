//! A coordinator that runs in a task of this process: for tests, examples, and programs that bring
//! their own.

use std::net::SocketAddr;

use rustls::pki_types::CertificateDer;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Coordinator, CoordinatorError, Drainer, Operator};
use crate::client::{Client, ClientBuilder};

/// A coordinator at work in a task of its own. Dropped, it stops without telling anybody; see
/// [`Running::stop`].
#[derive(Debug)]
pub struct Running {
    local_addr: SocketAddr,
    certificate: CertificateDer<'static>,
    operator: Operator,
    drainer: Drainer,
    stop: oneshot::Sender<()>,
    task: Task,
}

#[derive(Debug)]
struct Task(JoinHandle<Result<(), CoordinatorError>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Coordinator {
    /// Runs it in a task of its own.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn spawn(self) -> Running {
        let (local_addr, certificate) = (self.local_addr(), self.certificate().clone());
        let (operator, drainer) = (self.operator(), self.drainer());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(self.run(async { drop(stopped.await) }));
        Running { local_addr, certificate, operator, drainer, stop, task: Task(task) }
    }
}

impl Running {
    /// Settings of a client that reaches it, as the agent `name`. A coordinator that listens on all
    /// addresses is reached only where the system takes that as one's own.
    pub fn client(&self, name: impl Into<String>) -> ClientBuilder {
        Client::builder().addr(self.local_addr).ca_der(&self.certificate).name(name)
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Its certificate, for clients to trust.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The operator's way in.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// The way to have it drain. Once that is over, [`Running::stop`] returns without a wait.
    pub fn drainer(&self) -> &Drainer {
        &self.drainer
    }

    /// Takes nothing new, decides the open slot, tells all agents, and returns within a slot and a
    /// second. Cancel safe: dropped, it stops without telling those who were not told yet.
    ///
    /// # Errors
    /// Where it ended by itself before; see [`CoordinatorError`].
    pub async fn stop(self) -> Result<(), CoordinatorError> {
        let Running { stop, mut task, .. } = self;
        drop(stop);
        match (&mut task.0).await {
            Ok(ended) => ended,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Aborted only by this handle, or with the runtime that this future runs on.
                Err(_) => Err(CoordinatorError::SlotLoopDied),
            },
        }
    }
}
