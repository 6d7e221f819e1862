//! What the coordinator tells those who watch it, by HTTP: whether it lives and is ready, what it counts
//! (docs/METRICS.md), its last slots, and who holds, waits and is in whose way.
//!
//! Read-only and without secrets, so that it may be asked by anyone who reaches it. It shows names of
//! agents and paths, in `/claims` and `/hot` and, where that is asked for, on the web page and in `/why`; it listens
//! on this machine alone unless it is told otherwise.
//! Whatever is asked costs bounded time and memory, and the slot loop only the picking of some entries.

mod advice;
mod claims;
mod contention;
mod counts;
mod exposition;
mod holds;
mod hot;
mod instrument;
mod leave;
mod metrics;
mod page;
mod recent;
mod spans;
#[cfg(test)]
mod tests;
mod web;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
pub use metrics::Metrics;
pub use spans::SpanCounts;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use self::leave::Leave;
use self::page::Pages;
pub use self::web::Recording;
pub(crate) use self::web::{Kept, Known, place_of as why_of};
use crate::coordinator::View;
use crate::limits;

/// Listens for those who watch.
#[derive(Debug)]
pub struct Telemetry {
    listener: TcpListener,
    addr: SocketAddr,
}

impl Telemetry {
    /// Listens on `addr`; port 0 takes a free one.
    ///
    /// # Errors
    /// Where the address is in use or refused.
    pub async fn bind(addr: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        Ok(Telemetry { listener, addr })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers until it is dropped, about the coordinator that `view` sees and whose observer `metrics`
    /// is. Cancel safe.
    pub async fn serve(self, metrics: Arc<Metrics>, view: View) {
        self.answer_all(Pages::live(metrics, view)).await;
    }

    /// Shows a part of an audit log, by the web page alone, until it is dropped. Cancel safe.
    pub async fn show(self, recording: Recording) {
        self.answer_all(Pages::recorded(recording)).await;
    }

    async fn answer_all(self, pages: Pages) {
        let (mut connections, mut oldest_first) = (JoinSet::new(), VecDeque::<AbortHandle>::new());
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    while connections.try_join_next().is_some() {}
                    oldest_first.retain(|connection| !connection.is_finished());
                    // An answer takes far less than its time: whoever has been there longest asks for none, and would keep
                    // others from asking whether the coordinator lives.
                    if oldest_first.len() >= limits::WATCHING_CONNECTIONS {
                        oldest_first.pop_front().iter().for_each(AbortHandle::abort);
                    }
                    oldest_first.push_back(connections.spawn(answer(stream, pages.clone())));
                }
                // Out of file handles, say: those that are served will give theirs back.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// Serves one connection, until it has not taken anything for some time.
async fn answer(stream: TcpStream, pages: Pages) {
    let leave = Leave::soon();
    let service = service_fn(|request: Request<Incoming>| {
        let (pages, leave) = (pages.clone(), leave.clone());
        async move { Ok::<_, Infallible>(pages.answer(request.method(), request.uri(), &leave).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::WATCHING_TIMEOUT.to_std())
        .max_buf_size(limits::WATCHING_HEADER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // How a watcher's connection ends is its own business.
    tokio::select! {
        _ = connection => {}
        () = leave.time() => {}
    }
}
