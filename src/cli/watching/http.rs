//! One question by HTTP, whose answer is bounded in time and size.

use std::error::Error;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::limits;

/// What was said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Asks `addr` for `path`. Cancel safe.
///
/// # Errors
/// In words: it cannot be reached, it does not answer in time, or with too much.
pub(super) async fn get(addr: &str, path: &str) -> Result<Answer, String> {
    let within = limits::WATCHED_WITHIN;
    match tokio::time::timeout(within.to_std(), exchange(addr, path)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", within.as_us() / 1_000_000)),
    }
}

async fn exchange(addr: &str, path: &str) -> Result<Answer, Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(addr).await?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(limits::WATCHING_HEADER_BYTES)
        .handshake(TokioIo::new(stream))
        .await?;
    let request = Request::get(path).header(HOST, addr).body(Empty::<Bytes>::new())?;
    let answered = async {
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), limits::WATCHED_BYTES).collect().await?.to_bytes();
        Ok(Answer { status, body: String::from_utf8(body.to_vec())? })
    };
    // The connection moves what is asked and answered along, for as long as that takes.
    tokio::pin!(connection);
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        ended = &mut connection => {
            ended?;
            answered.await
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Asks one who answers `text`, and hangs up.
    async fn asked(text: String) -> Result<Answer, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let answering = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut heard = vec![0; 4096];
            let length = stream.read(&mut heard).await.unwrap();
            // It may hang up before it has read all.
            let _ = stream.write_all(text.as_bytes()).await;
            String::from_utf8_lossy(&heard[..length]).into_owned()
        });
        let answer = get(&addr, "/claims?top=3").await;
        let heard = answering.await.unwrap();
        assert!(heard.starts_with("GET /claims?top=3 HTTP/1.1\r\n") && heard.contains(&addr), "{heard}");
        answer
    }

    #[tokio::test]
    async fn what_is_said_comes_with_its_status() {
        let text = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 9\r\n\r\ndraining\n";
        let answer = asked(text.into()).await.unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (503, "draining\n"));
    }

    #[tokio::test]
    async fn too_much_or_no_http_at_all_is_refused() {
        let long = limits::WATCHED_BYTES + 1;
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {long}\r\n\r\n{}", "x".repeat(long));
        assert!(asked(text).await.is_err());
        assert!(asked("220 mail.example ESMTP\r\n".into()).await.is_err());
    }

    #[tokio::test]
    async fn where_nobody_listens_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        drop(listener);
        assert!(get(&addr, "/livez").await.is_err());
    }
}
