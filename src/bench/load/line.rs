//! One connection of the load.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::BenchError;
use super::super::schedule::{Asks, Due};
use crate::client::{ClientBuilder, Lane, Link};
use crate::clock::{Clock, SystemClock};
use crate::limits;
use crate::types::{Agent, FixedMap, Micros, Slot, Time};
use crate::wire::{
    Answer, Bye, ClockPing, CloseCode, Declaration, Declare, Extensions, FrameReader, Hello, Role, ToAgent,
    ToCoordinator, VERSIONS, Verdict,
};

/// Clock exchanges, of which the quickest counts.
const PINGS: u64 = 16;
/// Declarations that are written at once where several are due.
const AT_ONCE: usize = 256;

/// How long a connection's end may take to show.
const SOON: Duration = Duration::from_millis(200);

/// A number that no other run has: in its agents' names and paths.
pub(in crate::bench) fn run_number() -> u64 {
    // The standard library seeds its hashers from the system's randomness.
    RandomState::new().build_hasher().finish()
}

/// A connection that has been welcomed.
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) name: Agent,
    pub(super) slot_length: Micros,
    link: Arc<dyn Link>,
    lane: Lane,
    frames: FrameReader,
}

impl Line {
    pub(super) async fn connect(
        builder: &ClientBuilder,
        number: usize,
        run: u64,
    ) -> Result<Self, BenchError> {
        let (link, lane) = builder.open_lane().await?;
        let name = Agent::new(&format!("bench-{run:016x}-{number}"))
            .unwrap_or_else(|| unreachable!("a word and two numbers are a name"));
        let mut line =
            Line { number, name, slot_length: Micros::ZERO, link, lane, frames: FrameReader::new() };
        let hello = Hello {
            lowest_version: VERSIONS.0,
            highest_version: VERSIONS.1,
            name: Some(line.name.as_str().to_owned()),
            label: "bench".to_owned(),
            incarnation: u128::from(run),
            role: Role::Agent,
            refuse_if_live: false,
            seen: None,
            software: concat!("preclaim bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            extensions: Extensions::NONE,
        };
        line.send(&hello.into()).await?;
        match line.receive().await? {
            ToAgent::Welcome(welcome) => {
                // Where the certificate decides, it is another name than the one asked for.
                line.name = Agent::new(&welcome.name).unwrap_or(line.name);
                line.slot_length = welcome.slot_length.max(Micros::from_us(1));
                Ok(line)
            }
            other => {
                Err(BenchError::NotWelcome(format!("a message of kind {:#06x} came first", other.kind())))
            }
        }
    }

    /// The connection: its socket is open for as long as somebody has it.
    pub(super) fn link(&self) -> Arc<dyn Link> {
        Arc::clone(&self.link)
    }

    /// The port that the coordinator sees it come from.
    pub(super) fn local_port(&self) -> Option<u16> {
        self.link.local_port()
    }

    /// How far the coordinator's time runs ahead of `clock`'s, in µs, by the quickest exchange.
    pub(super) async fn ahead_us(&mut self, clock: &SystemClock) -> Result<i64, BenchError> {
        let mut best = (Micros::MAX, 0);
        for seq in 0..PINGS {
            let sent = clock.now();
            self.send(&ClockPing { seq, client_us: sent.as_us() }.into()).await?;
            let pong = loop {
                if let ToAgent::ClockPong(pong) = self.receive().await? {
                    break pong;
                }
            };
            let took = clock.now().since(sent);
            let middle = sent.after(Micros::from_us(took.as_us() / 2));
            let ahead = i128::from(pong.coordinator.as_us()) - i128::from(middle.as_us());
            best = best.min((took, i64::try_from(ahead).unwrap_or(0)));
        }
        Ok(best.1)
    }

    async fn send(&mut self, message: &ToCoordinator) -> Result<(), BenchError> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes).map_err(|error| BenchError::NotWelcome(error.to_string()))?;
        match self.lane.writer.write_all(&bytes).await {
            Ok(()) => Ok(()),
            Err(error) => Err(lost(&*self.link, error).await),
        }
    }

    async fn receive(&mut self) -> Result<ToAgent, BenchError> {
        let broken = |why: String| BenchError::NotWelcome(why);
        let mut chunk = vec![0; limits::READ_CHUNK];
        loop {
            if let Some(frame) = self.frames.next_frame().map_err(|error| broken(error.to_string()))? {
                return ToAgent::decode(frame).map_err(|error| broken(error.to_string()));
            }
            match self.lane.reader.read(&mut chunk).await {
                Ok(0) => return Err(broken("the lane ended".into())),
                Ok(read) => self.frames.push(&chunk[..read]),
                Err(error) => return Err(lost(&*self.link, error).await),
            }
        }
    }

    /// Says goodbye: the coordinator need not keep the session. Its grants end by themselves.
    async fn leave(mut self) {
        if self.send(&Bye::default().into()).await.is_ok() {
            let _ = self.lane.writer.shutdown().await;
            let _ = tokio::time::timeout(SOON, self.link.closed()).await;
        }
        self.link.close(CloseCode::Done, "");
    }
}

/// The connection's own reason says more than the lane's.
async fn lost(link: &dyn Link, error: std::io::Error) -> BenchError {
    let soon = tokio::time::timeout(SOON, link.closed()).await;
    BenchError::NotWelcome(soon.map_or_else(|_| error.to_string(), |closed| closed.why))
}

/// One decision. Times are the local clock's, but for `at`.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Record {
    /// The connection's number.
    pub(in crate::bench) line: usize,
    pub(in crate::bench) id: u64,
    pub(in crate::bench) due: Time,
    /// When the load came to declare it.
    pub(in crate::bench) sent: Time,
    pub(in crate::bench) slot: Slot,
    /// The slot's decision time, coordinator time.
    pub(in crate::bench) at: Time,
    pub(in crate::bench) received: Time,
    pub(in crate::bench) granted: bool,
}

/// What one connection declares, and what came of it.
pub(super) struct Driven {
    line: usize,
    clock: SystemClock,
    asks: Arc<Asks>,
    measured: Range<Time>,
    waiting: FixedMap<u64, (Time, Time)>,
    last_id: u64,
    pub(super) declared: u64,
    pub(super) records: Vec<Record>,
    pub(super) failures: BTreeMap<&'static str, u64>,
}

impl Driven {
    pub(super) fn new(line: usize, clock: SystemClock, asks: Arc<Asks>, measured: Range<Time>) -> Self {
        Driven {
            line,
            clock,
            asks,
            measured,
            waiting: FixedMap::default(),
            last_id: 0,
            declared: 0,
            records: Vec::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Declares what comes over `dues` and takes the answers in, until all are there or it is time to
    /// give up.
    pub(super) async fn drive(
        mut self,
        mut line: Line,
        mut dues: mpsc::Receiver<Due>,
        give_up: Instant,
    ) -> Self {
        let (mut chunk, mut due, mut bytes) = (vec![0; limits::READ_CHUNK], Vec::new(), Vec::new());
        let mut over = std::pin::pin!(tokio::time::sleep_until(give_up));
        let mut goes_on = true;
        while goes_on || !self.waiting.is_empty() {
            tokio::select! {
                read = line.lane.reader.read(&mut chunk) => {
                    let read = read.unwrap_or(0);
                    line.frames.push(&chunk[..read]);
                    if read == 0 || !self.take_all(&mut line.frames) {
                        self.fail_all("connection_lost");
                        break;
                    }
                }
                count = dues.recv_many(&mut due, AT_ONCE), if goes_on => {
                    goes_on = count > 0;
                    bytes.clear();
                    due.drain(..).for_each(|due| self.declare(&due, &mut bytes));
                    // An error shows when reading, which comes next.
                    let _ = line.lane.writer.write_all(&bytes).await;
                }
                () = &mut over => {
                    self.fail_all("no_answer");
                    break;
                }
            }
        }
        line.leave().await;
        self
    }

    fn declare(&mut self, due: &Due, bytes: &mut Vec<u8>) {
        let sent = self.clock.now();
        self.last_id += 1;
        let id = self.last_id;
        self.declared += u64::from(self.measured.contains(&due.at));
        self.waiting.insert(id, (due.at, sent));
        let intent = self.asks.intent(due, id);
        let declaration = Declaration { request: id, intent, ..Declaration::default() };
        // Far below the size of a frame.
        let _ = ToCoordinator::from(Declare { batch: vec![declaration] }).encode(bytes);
    }

    /// Whether what came was as the protocol says.
    fn take_all(&mut self, frames: &mut FrameReader) -> bool {
        loop {
            match frames.next_frame() {
                Ok(None) => return true,
                Ok(Some(frame)) => match ToAgent::decode(frame) {
                    Ok(ToAgent::Answer(answer)) => self.take(&answer),
                    Ok(_) => {}
                    Err(_) => return false,
                },
                Err(_) => return false,
            }
        }
    }

    fn take(&mut self, answer: &Answer) {
        let Some((due, sent)) = self.waiting.remove(&answer.request) else { return };
        if !self.measured.contains(&due) {
            return;
        }
        let granted = match &answer.verdict {
            Verdict::Granted { .. } => true,
            Verdict::Conflict(_) => false,
            Verdict::Rejected { reason, .. } => return self.fail(reason.as_str()),
            _ => return self.fail("another_answer"),
        };
        let received = self.clock.now();
        let (line, id, slot, at) = (self.line, answer.request, answer.slot, answer.at);
        self.records.push(Record { line, id, due, sent, slot, at, received, granted });
    }

    fn fail(&mut self, why: &'static str) {
        *self.failures.entry(why).or_default() += 1;
    }

    fn fail_all(&mut self, why: &'static str) {
        for (due, _) in std::mem::take(&mut self.waiting).into_values() {
            if self.measured.contains(&due) {
                self.fail(why);
            }
        }
    }
}
