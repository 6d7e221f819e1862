//! What the coordinator tells those who watch it, by HTTP: whether it lives, and whether it is ready.
//!
//! Read-only and without secrets, so that it may be asked by anyone who reaches it; it listens on this
//! machine alone unless it is told otherwise.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::coordinator::Health;
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

    /// Answers until it is dropped: `/livez` with 200 while the process lives, `/readyz` with 200 while
    /// the coordinator decides and takes in, and else with 503 and why. Cancel safe.
    pub async fn serve(self, health: watch::Receiver<Health>) {
        let room = Arc::new(Semaphore::new(limits::WATCHING_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            // One that is dropped ends, so the set holds as many as there is room for.
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let health = health.clone();
                    connections.spawn(async move {
                        answer(stream, health).await;
                        drop(permit);
                    });
                }
                // Out of file handles, say: those that are served will give theirs back.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// Serves one connection, for a bounded time.
async fn answer(stream: TcpStream, health: watch::Receiver<Health>) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = respond(&request, &health.borrow());
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::WATCHING_TIMEOUT.to_std())
        .max_buf_size(limits::WATCHING_HEADER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // How a watcher's connection ends is its own business.
    let _ = tokio::time::timeout(limits::WATCHING_TIMEOUT.to_std(), connection).await;
}

fn respond<B>(request: &Request<B>, health: &Health) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD\n");
    }
    match request.uri().path() {
        "/livez" => text(StatusCode::OK, "alive\n"),
        "/readyz" => match health {
            Health::Ready => text(StatusCode::OK, "ready\n"),
            Health::Starting => text(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
            Health::Draining => text(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
            Health::Halted(why) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("halted: {why}\n")),
        },
        _ => text(StatusCode::NOT_FOUND, "/livez or /readyz\n"),
    }
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_who_decides_and_takes_in() {
        let ask = |path: &str, health: &Health| {
            let request = Request::builder().uri(path).body(()).unwrap();
            respond(&request, health).status().as_u16()
        };
        assert_eq!(ask("/readyz", &Health::Ready), 200);
        for health in [Health::Starting, Health::Draining, Health::Halted("the disk is full".into())] {
            assert_eq!(ask("/readyz", &health), 503);
            assert_eq!(ask("/livez", &health), 200);
        }
        assert_eq!(ask("/", &Health::Ready), 404);
        let post = Request::builder().method("POST").uri("/readyz").body(()).unwrap();
        assert_eq!(respond(&post, &Health::Ready).status().as_u16(), 405);
    }
}
