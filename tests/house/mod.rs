//! A coordinator inside the test, on a free port of this machine, and clients of it.

use std::time::Duration;

use preclaim::Client;
use preclaim::client::{ClientBuilder, ConnectError};
use preclaim::coordinator::{Coordinator, CoordinatorConfig, Running};
use preclaim::resolver::Rules;

/// Long enough for anything that happens at all, on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running coordinator.
pub(crate) struct House(pub(crate) Running);

impl House {
    pub(crate) async fn open() -> Self {
        House::with(CoordinatorConfig::in_memory(Rules::default()).unwrap()).await
    }

    pub(crate) async fn with(config: CoordinatorConfig) -> Self {
        House(Coordinator::bind(config).unwrap().spawn())
    }

    /// Settings that reach it.
    pub(crate) fn settings(&self, name: &str) -> ClientBuilder {
        self.0.client(name).timeout(PATIENCE)
    }

    pub(crate) async fn client(&self, name: &str) -> Client {
        self.settings(name).connect().await.unwrap()
    }

    pub(crate) async fn refused(&self, settings: ClientBuilder) -> ConnectError {
        settings.connect().await.unwrap_err()
    }

    /// Shuts down as on a signal.
    pub(crate) async fn close(self) {
        self.0.stop().await.unwrap();
    }
}

/// What `what` comes to; a test that waits for ever fails instead.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it never came")
}
