//! What the client stands on: a clock, and connections that carry lanes. QUIC is one connector; a
//! test kit puts virtual ones here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite};

use super::ConnectError;
use super::builder::random;
use crate::wire::CloseCode;

/// A future on the heap, so that connectors can be swapped at run time.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The agent's own clock.
pub(crate) trait Clock: Send + Sync + std::fmt::Debug {
    /// Now; never before what it said earlier.
    fn now(&self) -> Instant;

    /// Resolves at `at`, or a little later.
    fn sleep_until(&self, at: Instant) -> Boxed<'static, ()>;

    /// `at` as [`Instant::now`] counts, which may have stood still meanwhile: what programs compare
    /// it with.
    fn shown(&self, at: Instant) -> Instant {
        at
    }

    /// The other way round.
    fn taken(&self, at: Instant) -> Instant {
        at
    }
}

/// Makes connections to one coordinator.
pub(crate) trait Connector: Send + Sync + std::fmt::Debug {
    /// A new connection.
    fn connect(&self) -> Boxed<'_, Result<Arc<dyn Link>, ConnectError>>;

    /// The clock by which the agent lives.
    fn clock(&self) -> Arc<dyn Clock>;

    /// 128 bits by chance: for what must differ from process to process, and from try to try.
    fn draw(&self) -> u128 {
        random()
    }
}

/// One connection.
pub(crate) trait Link: Send + Sync {
    /// Opens a lane.
    fn open_lane(&self) -> Boxed<'_, Result<Lane, Closed>>;

    /// Closes the connection at once; what was not yet sent may be lost.
    fn close(&self, code: CloseCode, why: &str);

    /// The port that the coordinator sees it come from, where that is known.
    #[cfg(feature = "daemon")]
    fn local_port(&self) -> Option<u16> {
        None
    }

    /// Resolves when the connection is over, whoever ended it.
    fn closed(&self) -> Boxed<'_, Closed>;
}

/// An ordered stream of bytes each way.
pub(crate) struct Lane {
    /// From the coordinator.
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    /// To the coordinator.
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
}

/// How the words about a breach begin.
pub(super) const BROKE: &str = "the coordinator broke the protocol: ";

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The peer's close code, where it gave one that is known.
    pub(crate) code: Option<CloseCode>,
    /// With which code it was closed from here, where what came over it is against the protocol.
    pub(crate) breach: Option<CloseCode>,
    /// In words.
    pub(crate) why: String,
}

impl Closed {
    /// It ended, and nobody gave a code.
    pub(crate) fn because(why: impl Into<String>) -> Self {
        Closed { code: None, breach: None, why: why.into() }
    }

    /// It was closed from here with `code`: the coordinator did not keep to the protocol.
    pub(crate) fn breach(code: CloseCode, why: &str) -> Self {
        Closed { breach: Some(code), ..Closed::because(format!("{BROKE}{why}")) }
    }
}
