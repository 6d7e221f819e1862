//! A server that decides nothing: for each declaration it writes the bytes of an answer.

use quinn::{Connection, Endpoint};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::line::AT;
use crate::types::{IntentId, Micros, Slot, Time, Token};
use crate::wire::{Answer, Extensions, FrameReader, ToAgent, Verdict, Welcome, WireLimits};

/// Bytes that are taken at once.
const CHUNK: usize = 64 * 1024;
const HELLO: u16 = 0x0001;
const DECLARE: u16 = 0x0003;

/// When what was asked is answered: at once, or at each boundary that is told here.
pub(super) type Gate = Option<watch::Receiver<Time>>;

/// Serves connections until it is dropped.
pub(super) async fn serve(endpoint: Endpoint, gate: Gate) {
    let mut connections = JoinSet::new();
    while let Some(incoming) = endpoint.accept().await {
        let gate = gate.clone();
        connections.spawn(async move {
            if let Ok(connection) = incoming.await {
                echo(&connection, gate).await;
            }
        });
    }
}

/// Answers what comes on the first lane, for as long as it goes on.
async fn echo(connection: &Connection, mut gate: Gate) -> Option<()> {
    let (mut send, mut receive) = connection.accept_bi().await.ok()?;
    let (mut frames, mut bytes) = (FrameReader::new(), Vec::new());
    let one = encoded(&answer(Time::ZERO).into());
    loop {
        let chunk = receive.read_chunk(CHUNK, true).await.ok()??;
        frames.push(&chunk.bytes);
        bytes.clear();
        let mut answers = 0;
        while let Some(frame) = frames.next_frame().ok()? {
            match frame.kind {
                HELLO => bytes = encoded(&welcome().into()),
                DECLARE => answers += u64::from_le_bytes(*frame.body.first_chunk()?),
                _ => {}
            }
        }
        let at = match &mut gate {
            Some(boundaries) if answers > 0 => {
                boundaries.mark_unchanged();
                boundaries.changed().await.ok()?;
                *boundaries.borrow()
            }
            _ => Time::ZERO,
        };
        for _ in 0..answers {
            let start = bytes.len() + HEAD + AT;
            bytes.extend_from_slice(&one);
            bytes[start..start + 8].copy_from_slice(&at.as_us().to_le_bytes());
        }
        send.write_all(&bytes).await.ok()?;
    }
}

/// Bytes of a frame ahead of its body.
const HEAD: usize = 6;

fn encoded(message: &ToAgent) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Far below the size of a frame.
    let _ = message.encode(&mut bytes);
    bytes
}

/// A grant, of the size that each has.
pub(super) fn answer(at: Time) -> Answer {
    Answer {
        request: 1,
        id: IntentId::new(1),
        slot: Slot::default(),
        at,
        repeat: false,
        verdict: Verdict::Granted { start: at, end: at, token: Token::new(1) },
        extensions: Extensions::NONE,
    }
}

fn welcome() -> Welcome {
    Welcome {
        version: 1,
        name: "echo".to_owned(),
        label: "bench".to_owned(),
        session: 1,
        resumed: false,
        state: 1,
        slot_length: Micros::from_us(1),
        min_lead: Micros::ZERO,
        horizon: Micros::ZERO,
        slot: Slot::default(),
        now: Time::ZERO,
        limits: WireLimits { frame_bytes: 0, batch: 0, lanes: 0, undecided: 0 },
        software: String::new(),
        extensions: Extensions::NONE,
    }
}
