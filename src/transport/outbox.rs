//! What waits to leave on one connection, and the task that writes it.
//!
//! Bounded: a peer that reads more slowly than it is written to is let go. The slot loop fills the
//! outbox once a slot and wakes the writer once, whatever the number of lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quinn::{Connection, SendStream, VarInt};
use tokio::time::{Instant, Sleep};

use super::Departures;
use crate::limits::{self, Limit};
use crate::session::coordinator::LaneId;
use crate::types::Slot;
use crate::wire::{CloseCode, ToAgent};

/// What waits to leave on one connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    /// Bytes that may wait, beside one slot's news.
    most: usize,
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox::with_room(limits::OUTBOX_BYTES)
    }
}

#[derive(Debug, Default)]
struct State {
    queue: Vec<Item>,
    /// Bytes in the queue and with the writer.
    bytes: usize,
    /// Bytes of the last slot's news that found room: it comes at once, so however fast its reader is
    /// it waits beside the limit.
    burst: usize,
    closing: Option<(CloseCode, String)>,
    /// The limit that its reader was too slow for.
    too_slow: Option<Limit>,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Item {
    Open(LaneId, SendStream),
    Frames(LaneId, Vec<u8>),
    /// The peer has finished its half of the lane; ours ends once it is written out.
    Finish(LaneId),
    /// What follows is a slot's news: so many messages and bytes.
    SlotNews(Slot, usize, usize),
}

impl Outbox {
    /// One in which `most` bytes may wait, beside one slot's news.
    pub(crate) fn with_room(most: usize) -> Self {
        Outbox { state: Mutex::default(), most }
    }

    /// The limit that its reader was too slow for, once it was.
    pub(crate) fn too_slow(&self) -> Option<Limit> {
        self.lock().too_slow
    }

    /// The sending half of a lane.
    pub(crate) fn open(&self, lane: LaneId, stream: SendStream) {
        self.lock().put([Item::Open(lane, stream)]);
    }

    /// The lane ends, once what waits on it has been written.
    pub(crate) fn finish(&self, lane: LaneId) {
        self.lock().put([Item::Finish(lane)]);
    }

    /// Queues a message.
    pub(crate) fn send(&self, lane: LaneId, message: &ToAgent) {
        let mut news = SlotNews::default();
        news.add(lane, message);
        self.lock().put_frames(news.frames, self.most);
    }

    /// Queues one slot's messages for this connection.
    pub(crate) fn send_slot(&self, slot: Slot, news: SlotNews) {
        let bytes = size(&news.frames);
        let mut state = self.lock();
        state.queue.push(Item::SlotNews(slot, news.messages, bytes));
        if state.bytes <= self.most {
            state.burst = bytes;
        }
        state.put_frames(news.frames, self.most);
    }

    /// Closes the connection once what waits has been written and has arrived, or soon after. The
    /// first reason stands.
    pub(crate) fn close(&self, code: CloseCode, reason: &str) {
        let mut state = self.lock();
        state.closing.get_or_insert_with(|| (code, reason.to_owned()));
        state.wake();
    }

    /// Whether there is room for so many bytes that may as well be left out.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.lock().bytes.saturating_add(bytes) <= self.most / 2
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in here leaves whole items.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put_frames(&mut self, frames: Vec<(LaneId, Vec<u8>)>, most: usize) {
        self.bytes += size(&frames);
        if self.bytes > most.saturating_add(self.burst) {
            self.queue.clear();
            self.too_slow.get_or_insert(Limit::UnreadBytes);
            self.closing = Some((CloseCode::TooSlowReader, "too much waits to be read".to_owned()));
            self.wake();
            return;
        }
        self.put(frames.into_iter().map(|(lane, bytes)| Item::Frames(lane, bytes)));
    }

    fn put(&mut self, items: impl IntoIterator<Item = Item>) {
        self.queue.extend(items);
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

fn size(frames: &[(LaneId, Vec<u8>)]) -> usize {
    frames.iter().map(|(_, bytes)| bytes.len()).sum()
}

/// One slot's messages for one connection as frames, those that follow each other on one lane together.
#[derive(Debug, Default)]
pub(crate) struct SlotNews {
    frames: Vec<(LaneId, Vec<u8>)>,
    messages: usize,
}

impl SlotNews {
    /// A message that does not fit in a frame cannot be made by the coordinator: what is in it is bounded by limits that
    /// are asserted to fit.
    pub(crate) fn add(&mut self, lane: LaneId, message: &ToAgent) {
        self.messages += 1;
        if self.frames.last().is_none_or(|(last, _)| *last != lane) {
            self.frames.push((lane, Vec::with_capacity(ANSWER_BYTES)));
        }
        if let Some((_, bytes)) = self.frames.last_mut()
            && let Err(error) = message.encode(bytes)
        {
            tracing::error!(kind = message.kind(), %error, "a message does not fit in a frame");
        }
    }
}

/// Bytes of a granted intent's answer, and a few more.
const ANSWER_BYTES: usize = 80;

/// Writes what is put into `outbox` until the connection ends, or the outbox is closed. Its reader may read nothing
/// for `unread` at most.
pub(crate) async fn write_out(
    outbox: Arc<Outbox>,
    connection: Connection,
    departures: Option<Arc<Departures>>,
    unread: Duration,
) {
    let mut writer = Writer {
        outbox,
        to: connection.remote_address(),
        departures,
        lanes: BTreeMap::new(),
        busy: BTreeSet::new(),
        stalled: Box::pin(tokio::time::sleep(Duration::ZERO)),
        is_stalled: false,
        unread,
    };
    let ended = tokio::select! {
        biased;
        ended = std::future::poll_fn(|cx| writer.poll(cx)) => ended,
        _ = connection.closed() => return,
    };
    let (code, reason) = ended;
    if code != CloseCode::TooSlowReader {
        let arrived = writer.finish_all();
        let _ = tokio::time::timeout(limits::CLOSE_LINGER.to_std(), arrived).await;
    }
    connection.close(VarInt::from_u32(code.number()), reason.as_bytes());
}

struct Writer {
    outbox: Arc<Outbox>,
    to: SocketAddr,
    departures: Option<Arc<Departures>>,
    lanes: BTreeMap<LaneId, Lane>,
    /// Lanes on which something waits to be written.
    busy: BTreeSet<LaneId>,
    /// When nothing has been written for so long though something waits.
    stalled: Pin<Box<Sleep>>,
    is_stalled: bool,
    /// How long that may last.
    unread: Duration,
}

struct Lane {
    stream: SendStream,
    waiting: Vec<u8>,
    written: usize,
    finish: bool,
}

impl Writer {
    /// Writes what can be written; ready with how to close once that is called for.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(CloseCode, String)> {
        let (items, closing) = self.take(cx);
        items.into_iter().for_each(|item| self.accept(item));
        let written = self.write_busy(cx);
        self.outbox.lock().bytes -= written;
        if let Some((CloseCode::TooSlowReader, reason)) = closing {
            return Poll::Ready((CloseCode::TooSlowReader, reason));
        }
        if self.busy.is_empty() {
            self.is_stalled = false;
            return closing.map_or(Poll::Pending, Poll::Ready);
        }
        self.poll_stall(cx, written > 0)
    }

    /// What was put in since the last time. Wakes for more from here on.
    fn take(&mut self, cx: &mut Context<'_>) -> (Vec<Item>, Option<(CloseCode, String)>) {
        let mut state = self.outbox.lock();
        state.waker = Some(cx.waker().clone());
        (std::mem::take(&mut state.queue), state.closing.clone())
    }

    fn accept(&mut self, item: Item) {
        match item {
            Item::Open(lane, stream) => {
                self.lanes.insert(lane, Lane { stream, waiting: Vec::new(), written: 0, finish: false });
            }
            Item::Frames(lane, bytes) => {
                // Where the lane is closed by now, the first one stands in.
                let lane = if self.lanes.contains_key(&lane) { lane } else { LaneId::FIRST };
                let Some(open) = self.lanes.get_mut(&lane) else { return self.give_up(bytes.len()) };
                open.waiting.extend_from_slice(&bytes);
                self.busy.insert(lane);
            }
            Item::Finish(lane) => {
                if let Some(open) = self.lanes.get_mut(&lane) {
                    open.finish = true;
                    self.busy.insert(lane);
                }
            }
            Item::SlotNews(slot, messages, bytes) => {
                if let Some(departures) = &self.departures {
                    departures.expect(self.to, slot, messages, bytes);
                }
            }
        }
    }

    fn give_up(&self, bytes: usize) {
        self.outbox.lock().bytes -= bytes;
    }

    /// Writes on every busy lane as much as it takes; returns how many bytes are done with.
    fn write_busy(&mut self, cx: &mut Context<'_>) -> usize {
        let mut done = 0;
        for lane in std::mem::take(&mut self.busy) {
            let Some(open) = self.lanes.get_mut(&lane) else { continue };
            match open.poll_write(cx, &mut done) {
                Poll::Pending => {
                    self.busy.insert(lane);
                }
                Poll::Ready(Progress::Written) => {}
                Poll::Ready(Progress::Over) => {
                    self.lanes.remove(&lane);
                }
            }
        }
        done
    }

    /// Ready once the peer has read nothing for too long.
    fn poll_stall(&mut self, cx: &mut Context<'_>, progress: bool) -> Poll<(CloseCode, String)> {
        if progress || !self.is_stalled {
            self.is_stalled = true;
            self.stalled.as_mut().reset(Instant::now() + self.unread);
        }
        self.stalled.as_mut().poll(cx).map(|()| {
            self.outbox.lock().too_slow.get_or_insert(Limit::UnreadTimeout);
            (CloseCode::TooSlowReader, "nothing was read for too long".to_owned())
        })
    }

    /// Finishes every lane; resolves once all that was written has arrived.
    fn finish_all(self) -> impl Future<Output = ()> {
        let mut arrivals = Vec::new();
        for (_, mut lane) in self.lanes {
            let _ = lane.stream.finish();
            arrivals.push(lane.stream.stopped());
        }
        async move {
            for arrival in arrivals {
                let _ = arrival.await;
            }
        }
    }
}

enum Progress {
    /// All is written.
    Written,
    /// All is written and the lane has ended, or the peer wants nothing more on it.
    Over,
}

impl Lane {
    fn poll_write(&mut self, cx: &mut Context<'_>, done: &mut usize) -> Poll<Progress> {
        while self.written < self.waiting.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.waiting[self.written..]) {
                Poll::Ready(Ok(count)) => {
                    self.written += count;
                    *done += count;
                }
                Poll::Ready(Err(_)) => {
                    *done += self.waiting.len() - self.written;
                    return Poll::Ready(Progress::Over);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        self.waiting.clear();
        self.written = 0;
        if self.finish {
            let _ = self.stream.finish();
            return Poll::Ready(Progress::Over);
        }
        Poll::Ready(Progress::Written)
    }
}
