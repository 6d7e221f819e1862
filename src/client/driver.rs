//! The tasks behind a client: one that lives by the clock, and one for each connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::connector::{Closed, Lane, Link};
use super::shared::Shared;
use crate::limits;
use crate::session::agent::Breach;
use crate::wire::{CloseCode, DecodeError, FrameError, FrameReader, ToAgent};

/// How long a client that leaves waits for the coordinator to have had its last words.
const GOODBYE: Duration = Duration::from_secs(1);
/// How long the reason of a connection's end may take to show, once a lane has broken.
const REASON: Duration = Duration::from_millis(200);

/// Lets time pass for the session: ends, renewals, pings. Nothing that a peer does or leaves undone
/// can hold it up.
pub(super) async fn keep_time(shared: Arc<Shared>) {
    loop {
        let woken = shared.wake_timer.notified();
        let (next, over) = shared
            .look(|state, now| (state.session.next_timeout(now), state.closing && state.link.is_none()));
        if over {
            return;
        }
        match next {
            None => woken.await,
            Some(at) => {
                let due = shared.clock.sleep_until(shared.instant(at));
                tokio::select! {
                    biased;
                    () = due => shared.with(|state, now| state.session.tick(now)),
                    () = woken => {}
                }
            }
        }
    }
}

/// Drives one connection to its end, whoever ends it.
pub(super) async fn run(shared: Arc<Shared>, link: Arc<dyn Link>, lane: Lane) {
    let Lane { reader, writer } = lane;
    shared.with(|state, now| {
        state.link = Some(Arc::clone(&link));
        state.session.connected(now);
    });
    let closed = tokio::select! {
        biased;
        closed = link.closed() => closed,
        broken = read(&shared, reader) => broken_off(&shared, &*link, broken).await,
        broken = write(&shared, writer) => broken_off(&shared, &*link, broken).await,
        () = goodbye(&shared) => {
            link.close(CloseCode::Done, "");
            Closed::because("closed by the agent")
        }
    };
    shared.with(|state, _| state.connection_lost(closed));
}

/// Why a lane is of no more use.
enum Broken {
    /// The peer ended it.
    Ended,
    /// The connection below it failed.
    Failed(String),
    /// What came over it is against the protocol.
    Against(CloseCode, String),
}

impl From<FrameError> for Broken {
    fn from(error: FrameError) -> Self {
        let code = match error {
            FrameError::TooLong { .. } => CloseCode::FrameTooLong,
            FrameError::TooShort { .. } | FrameError::CutOff => CloseCode::FrameCutOff,
        };
        Broken::Against(code, error.to_string())
    }
}

impl From<DecodeError> for Broken {
    fn from(error: DecodeError) -> Self {
        let code = match error {
            DecodeError::UnknownKind(_) => CloseCode::UnknownKind,
            DecodeError::Malformed { .. } => CloseCode::MalformedBody,
        };
        Broken::Against(code, error.to_string())
    }
}

impl From<Breach> for Broken {
    fn from(breach: Breach) -> Self {
        Broken::Against(breach.code, breach.to_string())
    }
}

async fn broken_off(shared: &Shared, link: &dyn Link, broken: Broken) -> Closed {
    let why = match broken {
        Broken::Against(code, why) => {
            link.close(code, &why);
            return Closed::breach(code, &why);
        }
        Broken::Ended => "the coordinator ended the lane".to_owned(),
        Broken::Failed(why) => why,
    };
    // The connection's own reason says more than its lane's, where there is one.
    let soon = shared.clock.sleep_until(shared.clock.now() + REASON);
    tokio::select! {
        biased;
        closed = link.closed() => closed,
        () = soon => {
            link.close(CloseCode::Done, "");
            Closed::because(why)
        }
    }
}

async fn read(shared: &Shared, reader: impl AsyncRead + Unpin) -> Broken {
    match read_on(shared, reader).await {
        Ok(()) => Broken::Ended,
        Err(broken) => broken,
    }
}

async fn read_on(shared: &Shared, mut reader: impl AsyncRead + Unpin) -> Result<(), Broken> {
    let (mut frames, mut chunk) = (FrameReader::new(), vec![0; limits::READ_CHUNK]);
    loop {
        let read = reader.read(&mut chunk).await.map_err(|error| Broken::Failed(error.to_string()))?;
        if read == 0 {
            return Ok(frames.finish()?);
        }
        frames.push(&chunk[..read]);
        // All that came at once under one lock, so that its events are dealt out together.
        shared.with(|state, now| {
            while let Some(frame) = frames.next_frame()? {
                state.session.receive(ToAgent::decode(frame)?, now)?;
            }
            Ok::<(), Broken>(())
        })?;
    }
}

/// Writes what the session has to say. When the client is closing and all is said, it ends the lane
/// and waits for the peer.
async fn write(shared: &Shared, mut writer: impl AsyncWrite + Unpin) -> Broken {
    let failed = |error: std::io::Error| Broken::Failed(error.to_string());
    let mut bytes = Vec::new();
    loop {
        let woken = shared.wake_writer.notified();
        bytes.clear();
        let closing = shared.look(|state, _| {
            while bytes.len() < limits::WRITE_CHUNK {
                let Some(message) = state.session.poll_send() else { break };
                // The session checks the size of the one message that can be too large.
                let _ = message.encode(&mut bytes);
            }
            state.closing
        });
        if !bytes.is_empty() {
            if let Err(error) = writer.write_all(&bytes).await {
                return failed(error);
            }
        } else if closing {
            break;
        } else {
            woken.await;
        }
    }
    if let Err(error) = writer.shutdown().await {
        return failed(error);
    }
    std::future::pending().await
}

/// Resolves a while after the client began to close.
async fn goodbye(shared: &Shared) {
    let mut phase = shared.phase.subscribe();
    while !shared.look(|state, _| state.closing) {
        if phase.changed().await.is_err() {
            return;
        }
    }
    shared.clock.sleep_until(shared.clock.now() + GOODBYE).await;
}
