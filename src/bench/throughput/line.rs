//! One connection that asks as cheaply as can be.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use super::asks::Asks;
use super::{BenchError, Tally};
use crate::client::{ClientBuilder, Lane, Link};
use crate::clock::{Clock, SystemClock};
use crate::types::Time;
use crate::wire::{Extensions, Frame, FrameReader, Hello, Role, ToAgent, ToCoordinator, VERSIONS};

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// Where an answer says the slot's decision time, and what was decided.
pub(super) const AT: usize = 24;
const VERDICT: usize = 33;

/// A connection that was welcomed.
pub(super) struct Line {
    number: usize,
    /// It lives as long as this.
    _link: Arc<dyn Link>,
    lane: Lane,
    frames: FrameReader,
    chunk: Vec<u8>,
}

impl Line {
    pub(super) async fn connect(builder: &ClientBuilder, number: usize) -> Result<Self, BenchError> {
        let (link, lane) = builder.open_lane().await?;
        let mut line = Line { number, _link: link, lane, frames: FrameReader::new(), chunk: vec![0; CHUNK] };
        let hello = Hello {
            lowest_version: VERSIONS.0,
            highest_version: VERSIONS.1,
            name: Some(format!("bench-{number:04}")),
            label: "bench".to_owned(),
            incarnation: 1,
            role: Role::Agent,
            refuse_if_live: false,
            seen: None,
            software: String::new(),
            extensions: Extensions::NONE,
        };
        let mut bytes = Vec::new();
        let encoded = ToCoordinator::from(hello).encode(&mut bytes);
        encoded.map_err(|error| BenchError::NotWelcome(error.to_string()))?;
        line.lane.writer.write_all(&bytes).await?;
        let mut welcomed = false;
        while !welcomed {
            line.read(|frame| welcomed |= matches!(ToAgent::decode(frame), Ok(ToAgent::Welcome(_)))).await?;
        }
        Ok(line)
    }

    /// Takes in what has come, once something has.
    async fn read(&mut self, mut take: impl FnMut(Frame<'_>)) -> Result<(), BenchError> {
        let read = self.lane.reader.read(&mut self.chunk).await?;
        if read == 0 {
            return Err(BenchError::NotWelcome("the lane ended".into()));
        }
        self.frames.push(&self.chunk[..read]);
        let broken = |error: crate::wire::FrameError| BenchError::NotWelcome(error.to_string());
        while let Some(frame) = self.frames.next_frame().map_err(broken)? {
            take(frame);
        }
        Ok(())
    }

    /// Keeps so many messages under way until it is dropped, or the connection ends.
    pub(super) async fn keep_under_way(mut self, messages: usize, mut asks: Asks, tally: Arc<Tally>) {
        let (mut next, mut owed, mut bytes) = (1, messages * asks.batch(), Vec::new());
        loop {
            bytes.clear();
            while owed >= asks.batch() {
                asks.write(self.number, next, &mut bytes);
                next += asks.batch() as u64;
                owed -= asks.batch();
            }
            if !bytes.is_empty() && self.lane.writer.write_all(&bytes).await.is_err() {
                return;
            }
            let (mut granted, mut refused) = (0, 0);
            let read = self.read(|frame| match is_grant(frame) {
                Some(true) => granted += 1,
                Some(false) => refused += 1,
                None => {}
            });
            if read.await.is_err() {
                return;
            }
            tally.add(granted, refused);
            owed += (granted + refused) as usize;
        }
    }

    /// Declares one intent whenever `go` says so, and tells the decision time and the receipt of its answer.
    pub(super) async fn answer_bursts(
        mut self,
        mut go: watch::Receiver<()>,
        clock: SystemClock,
        tell: mpsc::UnboundedSender<(Time, Time)>,
    ) {
        let (mut asks, mut bytes) = (Asks::new(1), Vec::new());
        for id in 1.. {
            if go.changed().await.is_err() {
                return;
            }
            bytes.clear();
            asks.write(self.number, id, &mut bytes);
            if self.lane.writer.write_all(&bytes).await.is_err() {
                return;
            }
            let mut at = None;
            while at.is_none() {
                if self.read(|frame| at = is_grant(frame).and(decided_at(frame.body))).await.is_err() {
                    return;
                }
            }
            let _ = at.map(|at| tell.send((at, clock.now())));
        }
    }
}

/// Whether an answer is a grant; none where it is no answer.
fn is_grant(frame: Frame<'_>) -> Option<bool> {
    const ANSWER: u16 = 0x0103;
    (frame.kind == ANSWER).then(|| frame.body.get(VERDICT..VERDICT + 4) == Some(&[0; 4]))
}

fn decided_at(body: &[u8]) -> Option<Time> {
    let at = body.get(AT..)?.first_chunk()?;
    Some(Time::from_us(u64::from_le_bytes(*at)))
}

#[cfg(test)]
mod tests {
    use super::super::echo::answer;
    use super::*;
    use crate::wire::{Answer, Verdict};

    #[test]
    fn answers_are_told_apart_as_the_codec_writes_them() {
        let grant = answer(Time::from_us(77));
        let other = Answer { verdict: Verdict::ReleasedUnknown, ..grant.clone() };
        for (answer, is) in [(grant, true), (other, false)] {
            let (mut bytes, mut frames) = (Vec::new(), FrameReader::new());
            ToAgent::from(answer).encode(&mut bytes).unwrap();
            frames.push(&bytes);
            let frame = frames.next_frame().unwrap().unwrap();
            assert_eq!(is_grant(frame), Some(is));
            assert_eq!(decided_at(frame.body), Some(Time::from_us(77)));
        }
        assert_eq!(is_grant(Frame { kind: 0x0102, body: &[] }), None);
    }
}
