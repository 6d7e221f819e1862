//! The thread that makes spans and sends them.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{io, thread};

use hyper::body::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::ids::Ids;
use super::queue::Queue;
use super::send::{Sent, post};
use super::shape::Shaper;
use super::span::{Shift, Span};
use super::{Message, Settings, Tracer, encode};
use crate::clock::Clock;
use crate::config::Endpoint;
use crate::limits;
use crate::telemetry::SpanCounts;
use crate::types::{Micros, Time};

/// Makes spans and sends them, on a thread of its own, until it is stopped or dropped.
#[derive(Debug)]
pub struct Exporter {
    to: mpsc::Sender<Message>,
    counts: Arc<SpanCounts>,
    /// Dropped, it stops the thread too.
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Exporter {
    /// Starts the thread. `clock` is the one that slots go by; what becomes of spans is counted in `counts`.
    ///
    /// # Errors
    /// Where the system has no thread for it.
    pub fn start(settings: Settings, clock: Arc<dyn Clock>, counts: Arc<SpanCounts>) -> io::Result<Self> {
        let (to, told) = mpsc::channel(limits::TRACED_WAITING);
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = Work { shaper: Shaper::new(Ids::drawn()), queue: Queue::new(Arc::clone(&counts)), clock };
        let courier = Courier { settings, counts: Arc::clone(&counts), is_failing: false };
        let thread = thread::Builder::new().name("preclaim-spans".into()).spawn(move || {
            runtime.block_on(work.run(courier, told, stopped));
            // A look-up of the collector's name may still be under way.
            runtime.shutdown_background();
        })?;
        Ok(Exporter { to, counts, stop, thread })
    }

    /// The observer that has a coordinator's spans made.
    pub fn tracer(&self) -> Arc<Tracer> {
        Arc::new(Tracer::new(self.to.clone(), Arc::clone(&self.counts)))
    }

    /// What becomes of spans.
    pub fn counts(&self) -> &Arc<SpanCounts> {
        &self.counts
    }

    /// What spans of an agent's own go to.
    #[cfg(feature = "otlp")]
    pub(super) fn sender(&self) -> mpsc::Sender<Message> {
        self.to.clone()
    }

    /// Ends what is open, sends what is left within [`limits::SPANS_FLUSH_WITHIN`], and returns then. Blocks for as long.
    pub fn stop(self) {
        let Exporter { stop, thread, .. } = self;
        let _ = stop.send(()); // it may have died
        let _ = thread.join(); // as its panic has said
    }
}

struct Work {
    shaper: Shaper,
    queue: Queue,
    clock: Arc<dyn Clock>,
}

/// A request under way, with whoever makes it.
type Sending = Pin<Box<dyn Future<Output = Courier>>>;

/// Which way requests are: there, or with one that is under way.
enum Way {
    Free(Courier),
    Busy(Sending),
    /// Never seen: between the two.
    Between,
}

impl Way {
    /// Resolves once it is free again; never, where it is. Cancel safe.
    async fn free(&mut self) {
        match self {
            Way::Busy(sending) => {
                let courier = sending.await;
                *self = Way::Free(courier);
            }
            Way::Free(_) | Way::Between => pending().await,
        }
    }

    /// Has the next spans sent, where it is free, in so many tries at most.
    fn send(&mut self, queue: &mut Queue, tries: u32) {
        *self = match std::mem::replace(self, Way::Between) {
            Way::Free(courier) => match queue.next() {
                Some(batch) => Way::Busy(Box::pin(courier.deliver(batch, tries, post))),
                None => Way::Free(courier),
            },
            busy => busy,
        };
    }
}

impl Work {
    async fn run(
        mut self,
        courier: Courier,
        mut told: mpsc::Receiver<Message>,
        mut stop: oneshot::Receiver<()>,
    ) {
        let mut way = Way::Free(courier);
        let mut every = interval(limits::SPANS_EVERY.to_std());
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut look = interval(limits::TRACED_EVERY.to_std());
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.queue.is_due() {
                way.send(&mut self.queue, limits::SPANS_TRIES);
            }
            tokio::select! {
                biased;
                () = way.free() => {}
                _ = &mut stop => break,
                _ = look.tick() => self.take_all_in(&mut told),
                _ = every.tick() => {
                    self.tick();
                    way.send(&mut self.queue, limits::SPANS_TRIES);
                }
            }
        }
        self.take_all_in(&mut told);
        self.shaper.lose_sight(self.clock.now());
        self.collect();
        let _ = timeout(limits::SPANS_FLUSH_WITHIN.to_std(), flush(&mut way, &mut self.queue)).await;
        self.queue.give_up();
    }

    /// Takes in what is there by now. It is never waited for: then nobody has to wake this thread.
    fn take_all_in(&mut self, told: &mut mpsc::Receiver<Message>) {
        while let Ok(message) = told.try_recv() {
            match message {
                Message::Slot(slot) => self.shaper.slot(*slot),
                Message::Span(span) => self.queue.take_in([*span], Shift::NONE),
            }
        }
        self.collect();
    }

    fn tick(&mut self) {
        self.shaper.tick(self.clock.now());
        self.collect();
    }

    /// What has ended is to be sent, by the wall clock: that is what others go by.
    fn collect(&mut self) {
        let shift = Shift::between(self.clock.now(), wall());
        self.queue.take_in(self.shaper.take(), shift);
    }
}

/// Sends all that is there, one request after the other.
async fn flush(way: &mut Way, queue: &mut Queue) {
    loop {
        way.send(queue, 1);
        if !matches!(way, Way::Busy(_)) {
            return; // nothing was left
        }
        way.free().await;
    }
}

/// The wall clock's time. Before the epoch it reads as the epoch.
pub(super) fn wall() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_us(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
}

/// Makes requests, and says when they are not taken: once, until one is.
#[derive(Debug)]
struct Courier {
    settings: Settings,
    counts: Arc<SpanCounts>,
    is_failing: bool,
}

/// Spans under way: where nothing becomes of them, they were left out.
struct Unsent<'a> {
    counts: &'a SpanCounts,
    count: u64,
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        self.counts.left_out(self.count);
    }
}

impl Courier {
    /// Sends a batch by `post`.
    async fn deliver(
        mut self,
        batch: Vec<Span>,
        tries: u32,
        post: impl AsyncFn(&Endpoint, Bytes, Micros) -> Sent,
    ) -> Self {
        let counts = Arc::clone(&self.counts);
        let mut unsent = Unsent { counts: &counts, count: batch.len() as u64 };
        let body = Bytes::from(encode::request(&self.settings.resource, &batch));
        drop(batch);
        for tried in 0..tries {
            if tried > 0 {
                sleep(limits::SPANS_EVERY.to_std() * (1 << (tried - 1))).await;
            }
            match post(&self.settings.endpoint, body.clone(), self.settings.timeout).await {
                Sent::Taken { refused } => {
                    let refused = refused.min(unsent.count);
                    counts.sent(unsent.count - refused);
                    counts.refused(refused);
                    unsent.count = 0;
                    self.succeeded();
                    break;
                }
                Sent::Refused(why) => {
                    counts.refused(unsent.count);
                    unsent.count = 0;
                    self.failed(&why);
                    break;
                }
                Sent::NotNow(why) => self.failed(&why),
            }
        }
        drop(unsent);
        self
    }

    fn failed(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let to = &self.settings.endpoint;
            tracing::warn!(%to, "spans are not taken ({why}); until they are, they are left out and counted");
        }
    }

    fn succeeded(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            let to = &self.settings.endpoint;
            tracing::info!(%to, "spans are taken again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::encode::Resource;
    use super::super::span::Place;
    use super::*;
    use crate::clock::ManualClock;

    fn settings(authority: &str) -> Settings {
        let endpoint = Endpoint::of_base(&format!("http://{authority}")).unwrap();
        Settings { endpoint, resource: Resource { service: "s".into() }, timeout: Micros::from_secs(5) }
    }

    fn start(authority: &str) -> Exporter {
        Exporter::start(settings(authority), Arc::new(ManualClock::new(Time::ZERO)), Arc::default()).unwrap()
    }

    fn span() -> Message {
        Message::Span(Box::new(Span::new(Place { trace: 1, span: 2 }, None, "x", Time::from_us(3))))
    }

    fn counted(counts: &SpanCounts) -> Vec<u64> {
        counts.iter().map(|(_, count)| count).collect()
    }

    #[tokio::test]
    async fn what_is_left_is_sent_at_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let exporter = start(&listener.local_addr().unwrap().to_string());
        let counts = Arc::clone(exporter.counts());
        exporter.to.send(span()).await.unwrap();
        let stopped = tokio::task::spawn_blocking(|| exporter.stop());
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = vec![0; 4096];
        assert!(stream.read(&mut heard).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        stopped.await.unwrap();
        assert_eq!(counted(&counts), [1, 0, 0]);
    }

    #[tokio::test]
    async fn what_nobody_takes_is_left_out_and_the_end_waits_for_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let exporter = start(&listener.local_addr().unwrap().to_string());
        drop(listener);
        let counts = Arc::clone(exporter.counts());
        exporter.to.send(span()).await.unwrap();
        tokio::task::spawn_blocking(|| exporter.stop()).await.unwrap();
        assert_eq!(counted(&counts), [0, 0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_not_taken_is_made_again_and_its_spans_are_given_up_then() {
        let busy = || Sent::NotNow("it is busy".into());
        let answers = [busy(), busy(), busy(), busy(), busy(), Sent::Taken { refused: 1 }];
        let answers = RefCell::new(answers.into_iter());
        let asked = async |_: &Endpoint, _: Bytes, _: Micros| answers.borrow_mut().next().unwrap();
        let counts = Arc::new(SpanCounts::default());
        let settings = settings("127.0.0.1:1");
        let courier = Courier { settings, counts: Arc::clone(&counts), is_failing: false };
        let Message::Span(one) = span() else { unreachable!() };
        let batch = || vec![(*one).clone(), (*one).clone()];
        let courier = courier.deliver(batch(), limits::SPANS_TRIES, asked).await;
        assert!(courier.is_failing);
        assert_eq!(counted(&counts), [0, 0, 2]);
        let courier = courier.deliver(batch(), limits::SPANS_TRIES, asked).await;
        assert!(!courier.is_failing);
        assert_eq!(counted(&counts), [1, 1, 2]);
        let refused = async |_: &Endpoint, _: Bytes, _: Micros| Sent::Refused("no".into());
        courier.deliver(batch(), limits::SPANS_TRIES, refused).await;
        assert_eq!(counted(&counts), [1, 3, 2]);
        assert!(answers.borrow_mut().next().is_none());
    }
}
