//! A coordinator at work that is watched by HTTP, on free ports of this machine.
#![allow(clippy::unwrap_used)] // what fails here fails the test

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use preclaim::Client;
use preclaim::coordinator::{Coordinator, CoordinatorConfig, Running};
use preclaim::telemetry::{Metrics, Telemetry};
use tokio::task::JoinHandle;

/// Long enough for anything that happens at all, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `what` comes to; a test that waits for ever fails instead.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it never came")
}

/// A coordinator that is watched.
pub(crate) struct Watched {
    pub(crate) running: Running,
    pub(crate) addr: SocketAddr,
    pub(crate) _serving: JoinHandle<()>,
}

impl Watched {
    pub(crate) async fn by(metrics: Metrics, mut config: CoordinatorConfig) -> Self {
        let metrics = Arc::new(metrics);
        config.observer = Some(metrics.clone());
        let coordinator = Coordinator::bind(config).unwrap();
        let telemetry = Telemetry::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let addr = telemetry.local_addr();
        let serving = tokio::spawn(telemetry.serve(metrics, coordinator.view()));
        Watched { running: coordinator.spawn(), addr, _serving: serving }
    }

    pub(crate) async fn client(&self, name: &str) -> Client {
        self.running.client(name).timeout(PATIENCE).connect().await.unwrap()
    }
}
