//! A coordinator inside the test, on a free port of this machine, and clients of it.

use std::net::SocketAddr;
use std::time::Duration;

use preclaim::Client;
use preclaim::client::{ClientBuilder, ConnectError};
use preclaim::coordinator::{Coordinator, CoordinatorConfig, CoordinatorError};
use preclaim::resolver::Rules;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Long enough for anything that happens at all, on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running coordinator.
pub(crate) struct House {
    pub(crate) addr: SocketAddr,
    pub(crate) certificate: Vec<u8>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), CoordinatorError>>,
}

impl House {
    pub(crate) async fn open() -> Self {
        House::with(CoordinatorConfig::in_memory(Rules::default()).unwrap()).await
    }

    pub(crate) async fn with(config: CoordinatorConfig) -> Self {
        let coordinator = Coordinator::bind(config).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (addr, certificate) = (coordinator.local_addr(), coordinator.certificate().to_vec());
        let running = tokio::spawn(coordinator.run(async { drop(stopped.await) }));
        House { addr, certificate, stop: Some(stop), running }
    }

    /// Settings that reach it.
    pub(crate) fn settings(&self, name: &str) -> ClientBuilder {
        Client::builder().addr(self.addr.to_string()).ca_der(&self.certificate).name(name).timeout(PATIENCE)
    }

    pub(crate) async fn client(&self, name: &str) -> Client {
        self.settings(name).connect().await.unwrap()
    }

    pub(crate) async fn refused(&self, settings: ClientBuilder) -> ConnectError {
        settings.connect().await.unwrap_err()
    }

    /// Shuts down as on a signal.
    pub(crate) async fn close(mut self) {
        drop(self.stop.take());
        self.running.await.unwrap().unwrap();
    }
}

/// What `what` comes to; a test that waits for ever fails instead.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it never came")
}
