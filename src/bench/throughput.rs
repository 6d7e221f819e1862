//! How many declarations a second come through QUIC and are decided, beside an echo of the same bytes
//! over the same connections that decides nothing; and how long a burst of all agents takes to be answered.
//!
//! Closed loop: each connection keeps so many messages under way, and sends another for each that was
//! answered. So it measures what a machine carries at most, and says nothing of latency under a rate, which
//! [`super::run`] measures.

mod agents;
mod asks;
mod echo;
mod line;
mod processor;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::asks::Asks;
use self::line::Line;
pub use self::processor::{Parts, Used};
use self::processor::{Work, processor, received_nowhere};
use self::server::Serving;
use super::{BenchError, host};
use crate::clock::{Clock, SystemClock};
use crate::coordinator::Observer;
use crate::host::HostConfig;
use crate::types::{Micros, Slot, Time};

/// Connections that are made at a time.
const CONNECTING: usize = 16;
/// The longest that all agents together may wait for the answers of one burst.
const BURST_WITHIN: Duration = Duration::from_secs(20);

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// An echo: for each declaration the bytes of an answer, at once, on the coordinator's own kind of socket.
    Echo,
    /// A coordinator that keeps nothing, with slots of this length.
    Coordinator(Micros),
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Connections that write bytes which were made before, and look at no more of an answer than what it is:
    /// the least that a generator can cost.
    Bytes,
    /// The public client, each declaration an await of its own.
    Client,
    /// The public client, a message's declarations with one call.
    ClientAtOnce,
}

/// What is kept under way, and for how long it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Connections, each an agent of its own; 1 to 10,000.
    pub connections: usize,
    /// Messages under way on each; 1 or more. With `batch`, at most 512 declarations.
    pub messages: usize,
    /// Declarations in each message, 1 to [`crate::limits::BATCH`].
    pub batch: usize,
    /// Not measured.
    pub warmup: Duration,
    /// Measured.
    pub span: Duration,
}

/// What came of a flow, while it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// Declarations that were granted.
    pub granted: u64,
    /// Declarations that were answered otherwise.
    pub refused: u64,
    /// How long it was measured.
    pub took: Duration,
    /// Processor time of both sides, where the system tells.
    pub used: Option<Used>,
}

impl Carried {
    /// Grants a second.
    pub fn rate(&self) -> f64 {
        self.granted as f64 / self.took.as_secs_f64()
    }

    /// The server's processor time for each grant, in µs.
    pub fn server_us(&self) -> Option<f64> {
        Some(self.used?.server.as_secs_f64() * 1e6 / self.granted as f64)
    }
}

/// What the connections have counted.
#[derive(Debug, Default)]
struct Tally {
    granted: AtomicU64,
    refused: AtomicU64,
}

impl Tally {
    fn add(&self, granted: u64, refused: u64) {
        self.granted.fetch_add(granted, Ordering::Relaxed);
        if refused > 0 {
            self.refused.fetch_add(refused, Ordering::Relaxed);
        }
    }

    fn now(&self) -> (u64, u64) {
        (self.granted.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}

/// Has `flow` asked by `asked` and answered by `answers`, both in this process on threads of their own, and
/// measures it. Blocks; must not be called inside a tokio runtime.
///
/// # Errors
/// [`BenchError`], where a server cannot be started or reached.
///
/// # Panics
/// Inside a tokio runtime.
pub fn carry(answers: Answers, asked: Asked, flow: &Flow) -> Result<Carried, BenchError> {
    carry_observed(answers, asked, flow, None)
}

/// As [`carry`] of bytes by a coordinator with slots of `slot`, for what its slot loop does meanwhile. Being
/// observed costs a little by itself. Blocks; must not be called inside a tokio runtime.
///
/// # Errors
/// [`BenchError`], where the coordinator cannot be started or reached.
///
/// # Panics
/// Inside a tokio runtime.
pub fn parts(slot: Micros, flow: &Flow) -> Result<Parts, BenchError> {
    let work = Arc::new(Work::default());
    carry_observed(Answers::Coordinator(slot), Asked::Bytes, flow, Some(work.clone()))?;
    Ok(work.parts())
}

fn carry_observed(
    answers: Answers,
    asked: Asked,
    flow: &Flow,
    observer: Option<Arc<dyn Observer>>,
) -> Result<Carried, BenchError> {
    let serving = Serving::start(answers, SystemClock::start(Time::ZERO), None, observer)?;
    let runtime = host::runtime("bench-load", &HostConfig::default())?;
    let tally = Arc::new(Tally::default());
    let carried = runtime.block_on(async {
        let _asking = match asked {
            Asked::Bytes => flow_of_bytes(&serving, flow, &tally).await?,
            Asked::Client | Asked::ClientAtOnce => agents::flow(&serving, asked, flow, &tally).await?,
        };
        tokio::time::sleep(flow.warmup).await;
        let (began, before, used) = (Instant::now(), tally.now(), processor());
        tokio::time::sleep(flow.span).await;
        let (took, after) = (began.elapsed(), tally.now());
        let used = used.zip(processor()).map(|(before, after)| after.since(&before));
        Ok(Carried { granted: after.0 - before.0, refused: after.1 - before.1, took, used })
    });
    runtime.shutdown_background();
    serving.stop();
    carried
}

/// The connections, at work until they are dropped.
async fn flow_of_bytes(
    serving: &Serving,
    flow: &Flow,
    tally: &Arc<Tally>,
) -> Result<JoinSet<()>, BenchError> {
    let lines = connect(serving, flow.connections).await?;
    let mut asking = JoinSet::new();
    for line in lines {
        asking.spawn(line.keep_under_way(flow.messages, Asks::new(flow.batch), Arc::clone(tally)));
    }
    Ok(asking)
}

async fn connect(serving: &Serving, connections: usize) -> Result<Vec<Line>, BenchError> {
    let room = Arc::new(tokio::sync::Semaphore::new(CONNECTING));
    let mut connecting = JoinSet::new();
    for number in 0..connections {
        let (builder, room) = (serving.client(), Arc::clone(&room));
        connecting.spawn(async move {
            // It is never closed; without it all would connect at once.
            let _turn = room.acquire_owned().await;
            Line::connect(&builder, number).await
        });
    }
    let mut lines = Vec::with_capacity(connections);
    while let Some(line) = connecting.join_next().await {
        lines.push(line.map_err(|error| BenchError::NotWelcome(error.to_string()))??);
    }
    Ok(lines)
}

/// Bursts in which all agents declare within one slot and are answered at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FanOuts {
    /// From the slot's end to the last answer's receipt, of each burst in one slot.
    pub fan_outs: Vec<Micros>,
    /// Bursts that did not arrive within one slot, which say nothing.
    pub spread: usize,
    /// Datagrams that the system dropped meanwhile because a socket's buffer was full; where it tells.
    pub dropped: Option<u64>,
}

/// Has `agents` connections declare one intent each within one slot of `slot`, `rounds` times. An echo
/// answers at the same boundaries all that it was sent, woken as a slot loop is. Blocks; must not be called
/// inside a tokio runtime.
///
/// # Errors
/// [`BenchError`], where a server cannot be started or reached, or does not answer.
///
/// # Panics
/// Inside a tokio runtime.
pub fn burst(is_echo: bool, slot: Micros, agents: usize, rounds: usize) -> Result<FanOuts, BenchError> {
    let clock = SystemClock::start(Time::ZERO);
    let answers = if is_echo { Answers::Echo } else { Answers::Coordinator(slot) };
    let serving = Serving::start(answers, clock, Some(slot), None)?;
    let runtime = host::runtime("bench-load", &HostConfig::default())?;
    let dropped = received_nowhere();
    let told = runtime.block_on(async {
        let lines = connect(&serving, agents).await?;
        let (go, _) = watch::channel(());
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut asking = JoinSet::new();
        for line in lines {
            asking.spawn(line.answer_bursts(go.subscribe(), clock, tell.clone()));
        }
        let mut bursts = FanOuts { fan_outs: Vec::new(), spread: 0, dropped: None };
        for _ in 0..rounds {
            // From the start of a slot on, so that there is all of it to arrive in.
            sleep_until(&clock, Slot::of(clock.now(), slot).decided_at(slot)).await;
            go.send_replace(());
            let round = collect(&mut told, agents);
            let answers = tokio::time::timeout(BURST_WITHIN, round).await;
            let answers = answers.map_err(|_| BenchError::NotWelcome("a burst was not answered".into()))?;
            match fan_out(&answers) {
                Some(span) => bursts.fan_outs.push(span),
                None => bursts.spread += 1,
            }
        }
        Ok(bursts)
    });
    runtime.shutdown_background();
    serving.stop();
    let dropped = dropped.zip(received_nowhere()).map(|(before, after)| after - before);
    told.map(|bursts| FanOuts { dropped, ..bursts })
}

async fn sleep_until(clock: &SystemClock, at: Time) {
    while clock.now() < at {
        tokio::time::sleep(at.since(clock.now()).to_std()).await;
    }
}

async fn collect(told: &mut mpsc::UnboundedReceiver<(Time, Time)>, count: usize) -> Vec<(Time, Time)> {
    let mut answers = Vec::with_capacity(count);
    while answers.len() < count && told.recv_many(&mut answers, count).await > 0 {}
    answers
}

/// From the one decision time of all `answers` to the last receipt of one; none where they have several.
fn fan_out(answers: &[(Time, Time)]) -> Option<Micros> {
    let (at, _) = *answers.first()?;
    let last = answers.iter().map(|(_, received)| *received).max()?;
    answers.iter().all(|(other, _)| *other == at).then(|| last.since(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: Flow = Flow {
        connections: 3,
        messages: 2,
        batch: 4,
        warmup: Duration::from_millis(50),
        span: Duration::from_millis(100),
    };

    #[test]
    fn what_is_asked_is_answered_by_either_and_by_any_client() {
        let slot = Answers::Coordinator(Micros::from_ms(1));
        for (answers, asked) in [
            (Answers::Echo, Asked::Bytes),
            (slot, Asked::Bytes),
            (slot, Asked::Client),
            (slot, Asked::ClientAtOnce),
        ] {
            let carried = carry(answers, asked, &FLOW).unwrap();
            assert!(carried.granted > 0 && carried.refused == 0, "{answers:?} {asked:?}: {carried:?}");
        }
    }

    #[test]
    fn the_slot_loops_work_is_told_by_declaration() {
        let parts = parts(Micros::from_ms(1), &FLOW).unwrap();
        assert!(parts.per_slot > 0.0 && parts.resolving_us.is_finite(), "{parts:?}");
    }

    #[test]
    fn a_burst_is_answered_at_one_boundary_by_either() {
        for is_echo in [true, false] {
            let bursts = burst(is_echo, Micros::from_ms(200), 5, 2).unwrap();
            assert_eq!(bursts.fan_outs.len() + bursts.spread, 2, "{bursts:?}");
        }
    }

    #[test]
    fn answers_of_two_slots_are_no_burst() {
        let [one, two, three] = [1, 2, 3].map(Time::from_us);
        assert_eq!(fan_out(&[(one, two), (one, three)]), Some(Micros::from_us(2)));
        assert_eq!(fan_out(&[(one, two), (two, three)]), None);
        assert_eq!(fan_out(&[]), None);
    }
}
