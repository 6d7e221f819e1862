//! Requests to a collector: OTLP by HTTP, in protobuf, without TLS.

use std::error::Error;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::encode;
use crate::config::Endpoint;
use crate::limits;
use crate::types::Micros;

/// What a request came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It was taken, but for so many spans.
    Taken { refused: u64 },
    /// It was refused, and would be again.
    Refused(String),
    /// It was not taken, and may be when it is made again.
    NotNow(String),
}

/// Makes one request, which takes `within` at most. Cancel safe: it was taken or not.
pub(super) async fn post(to: &Endpoint, body: Bytes, within: Micros) -> Sent {
    match tokio::time::timeout(within.to_std(), exchange(to, body)).await {
        Ok(Ok((status, body))) => judge(status, &body),
        Ok(Err(error)) => Sent::NotNow(error.to_string()),
        Err(_) => Sent::NotNow(format!("no answer within {} ms", within.as_us() / 1_000)),
    }
}

/// As OTLP has it: these four may be better next time, and no other.
fn judge(status: u16, body: &[u8]) -> Sent {
    match status {
        200..=299 => Sent::Taken { refused: encode::refused(body) },
        429 | 502 | 503 | 504 => Sent::NotNow(format!("it answers with {status}")),
        _ => Sent::Refused(format!("it answers with {status}")),
    }
}

async fn exchange(to: &Endpoint, body: Bytes) -> Result<(u16, Bytes), Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(&to.authority).await?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(limits::WATCHING_HEADER_BYTES)
        .handshake(TokioIo::new(stream))
        .await?;
    let request = Request::post(&to.path)
        .header(HOST, &to.authority)
        .header(CONTENT_TYPE, "application/x-protobuf")
        .header(CONNECTION, "close")
        .body(Full::new(body))?;
    let answered = async {
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        // What is too long to be an answer says nothing.
        let body = Limited::new(response.into_body(), limits::SPANS_ANSWER_BYTES).collect().await;
        Ok((status, body.map(|body| body.to_bytes()).unwrap_or_default()))
    };
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

    #[test]
    fn what_may_be_better_next_time_is_made_again_and_nothing_else() {
        assert_eq!(judge(200, &[]), Sent::Taken { refused: 0 });
        for status in [429, 502, 503, 504] {
            assert!(matches!(judge(status, &[]), Sent::NotNow(_)), "{status}");
        }
        for status in [301, 400, 401, 404, 413, 500, 501] {
            assert!(matches!(judge(status, &[]), Sent::Refused(_)), "{status}");
        }
    }

    /// What comes of a request to one who answers `text`, and what it heard.
    async fn asked(text: &'static str) -> (Sent, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = Endpoint::of_base(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let answering = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut heard = vec![0; 4096];
            let length = stream.read(&mut heard).await.unwrap();
            let _ = stream.write_all(text.as_bytes()).await;
            String::from_utf8_lossy(&heard[..length]).into_owned()
        });
        let sent = post(&to, Bytes::from_static(b"spans"), Micros::from_secs(5)).await;
        (sent, answering.await.unwrap())
    }

    #[tokio::test]
    async fn a_request_says_what_it_is() {
        let (sent, heard) = asked("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(sent, Sent::Taken { refused: 0 });
        assert!(heard.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{heard}");
        assert!(heard.contains("content-type: application/x-protobuf\r\n"), "{heard}");
        let (sent, _) = asked("220 mail.example ESMTP\r\n").await;
        assert!(matches!(sent, Sent::NotNow(_)), "{sent:?}");
    }

    #[tokio::test]
    async fn nobody_and_a_silent_one_are_told_apart_from_a_refusal() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = Endpoint::of_base(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let silent = post(&to, Bytes::new(), Micros::from_ms(1)).await;
        assert_eq!(silent, Sent::NotNow("no answer within 1 ms".into()));
        drop(listener);
        assert!(matches!(post(&to, Bytes::new(), Micros::from_secs(5)).await, Sent::NotNow(_)));
    }
}
