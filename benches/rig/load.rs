//! Peers that declare: open loop at a rate, in bursts with their returns, or as fast as it goes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use preclaim::bench::Quantiles;
use preclaim::types::{IntentId, Micros, RawClaim, RawIntent, RawMode, RawTarget, Time};
use preclaim::wire::{
    Answer, ClockPing, Declaration, Declare, Extensions, Refusal, Renew, ToAgent, ToCoordinator, Verdict,
};
use tokio::sync::mpsc;

use super::Failed;
use super::peers::{Lane, Peer, Peers};

/// How long answers may take after the last declaration.
const GRACE: Duration = Duration::from_secs(2);
/// Frames that wait to be written on one connection; more are not sent, and counted.
const WAITING_FRAMES: usize = 1024;
/// Unanswered declarations of a connection that declares as fast as it goes.
const WINDOW: usize = 2048;

/// What a connection declares: its number and the count of it make the intent.
pub(crate) type Make = Arc<dyn Fn(usize, u64) -> RawIntent + Send + Sync>;

/// An exclusive claim on `path`, asap, for `duration_us`.
pub(crate) fn asap(id: u64, path: String, duration_us: u64) -> RawIntent {
    RawIntent { id, claims: vec![claim(path, duration_us)], ..RawIntent::default() }
}

pub(crate) fn claim(path: String, duration: u64) -> RawClaim {
    RawClaim { target: RawTarget::Path(path), mode: RawMode::Exclusive, offset: 0, duration }
}

/// One declaration that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    due: Instant,
    /// How often it was made.
    tries: u32,
}

/// One that was decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    pub(crate) due: Instant,
    pub(crate) took: Micros,
    pub(crate) tries: u32,
    pub(crate) granted: bool,
}

/// What came of what one connection declared.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    pending: HashMap<u64, Item>,
    /// Handed on and not answered.
    open: usize,
    pub(crate) offered: u64,
    pub(crate) decided: Vec<Decided>,
    /// When each was due, and after how long it was told to come back.
    pub(crate) refused: Vec<(Instant, Micros)>,
    /// Answered in another way.
    pub(crate) other: u64,
    /// From due until it was handed to the connection.
    pub(crate) delays: Vec<Micros>,
    /// Where those go that were refused and come back.
    returns: Option<mpsc::UnboundedSender<(Instant, Item, Micros)>>,
}

/// A connection that declares.
pub(crate) struct Line {
    number: usize,
    frames: mpsc::Sender<Vec<Item>>,
    noted: Arc<Mutex<Noted>>,
}

impl Line {
    /// Connects. What it declares is made by `make`.
    pub(crate) async fn enter(peers: &Peers, number: usize, make: Make) -> Result<Self, Failed> {
        let peer = peers.enter(&format!("line-{number}")).await?;
        let (frames, due) = mpsc::channel(WAITING_FRAMES);
        let noted = Arc::new(Mutex::new(Noted::default()));
        tokio::spawn(declare_all(peer, number, make, due, Arc::clone(&noted)));
        Ok(Line { number, frames, noted })
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        lock(&self.noted)
    }

    /// Hands on what is due now; whether there was room.
    fn send(&self, items: Vec<Item>) -> bool {
        let count = items.len();
        let has_room = self.frames.try_send(items).is_ok();
        self.noted().open += if has_room { count } else { 0 };
        has_room
    }

    /// What came of it since this was asked before.
    pub(crate) fn take(&self) -> Noted {
        let mut noted = self.noted();
        let (pending, open) = (std::mem::take(&mut noted.pending), noted.open);
        std::mem::replace(&mut *noted, Noted { pending, open, ..Noted::default() })
    }
}

fn lock(noted: &Mutex<Noted>) -> MutexGuard<'_, Noted> {
    noted.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn declare_all(
    peer: Peer,
    number: usize,
    make: Make,
    mut due: mpsc::Receiver<Vec<Item>>,
    noted: Arc<Mutex<Noted>>,
) {
    let Peer { connection: _connection, mut send, lane } = peer;
    let reading = tokio::spawn(read_all(lane, Arc::clone(&noted)));
    let (mut count, mut bytes) = (0, Vec::new());
    while let Some(items) = due.recv().await {
        bytes.clear();
        let batch = items.into_iter().map(|item| {
            count += 1;
            lock(&noted).pending.insert(count, item);
            Declaration { request: count, intent: make(number, count), ..Declaration::default() }
        });
        // Far below the size of a frame; a lost connection shows in what is not answered.
        let _ = ToCoordinator::from(Declare { batch: batch.collect() }).encode(&mut bytes);
        if send.write_all(&bytes).await.is_err() {
            break;
        }
    }
    reading.abort();
}

async fn read_all(mut lane: Lane, noted: Arc<Mutex<Noted>>) {
    while let Ok(message) = lane.next().await {
        if let ToAgent::Answer(answer) = message {
            lock(&noted).take_in(&answer);
        }
    }
}

impl Noted {
    fn take_in(&mut self, answer: &Answer) {
        let Some(item) = self.pending.remove(&answer.request) else { return };
        self.open = self.open.saturating_sub(1);
        let now = Instant::now();
        match &answer.verdict {
            Verdict::Granted { .. } | Verdict::Conflict(_) => {
                let took = Micros::from_us(now.duration_since(item.due).as_micros() as u64);
                let granted = matches!(answer.verdict, Verdict::Granted { .. });
                self.decided.push(Decided { due: item.due, took, tries: item.tries, granted });
            }
            Verdict::Rejected { reason: Refusal::Overloaded, retry_after_us, .. } => {
                let back = Micros::from_us(retry_after_us.unwrap_or(0));
                self.refused.push((item.due, back));
                if let Some(returns) = &self.returns {
                    let _ = returns.send((now, item, back));
                }
            }
            _ => self.other += 1,
        }
    }
}

/// Offers `rate` declarations a second, dealt out evenly to `lines`, so many to a frame, for a time; those whose
/// answers do not come within a grace are left out. Returns how many found their connection's frames full.
pub(crate) async fn offer(groups: &[(&[Line], f64)], frame: usize, lasts: Duration) -> u64 {
    let start = Instant::now() + Duration::from_millis(5);
    let mut next = BinaryHeap::new();
    for (lines, rate) in groups {
        let period = Duration::from_secs_f64(frame as f64 * lines.len() as f64 / rate.max(1e-3));
        for (at, line) in lines.iter().enumerate() {
            let phase = period.mul_f64((at as f64 + 0.5) / lines.len() as f64);
            next.push(Reverse((start + phase, line.number, period)));
        }
    }
    let lines: HashMap<usize, &Line> =
        groups.iter().flat_map(|(lines, _)| lines.iter()).map(|line| (line.number, line)).collect();
    let (end, mut not_sent) = (start + lasts, 0);
    while let Some(Reverse((due, number, period))) = next.pop()
        && due < end
    {
        tokio::time::sleep_until(due.into()).await;
        let line = lines[&number];
        let delay = Micros::from_us(Instant::now().duration_since(due).as_micros() as u64);
        {
            let mut noted = line.noted();
            noted.delays.push(delay);
            noted.offered += frame as u64;
        }
        if !line.send(vec![Item { due, tries: 1 }; frame]) {
            line.noted().offered -= frame as u64;
            not_sent += frame as u64;
        }
        next.push(Reverse((due + period, number, period)));
    }
    all_answered(lines.values().copied()).await;
    not_sent
}

/// Waits until nothing is pending, or for the grace at most.
async fn all_answered<'a>(lines: impl Iterator<Item = &'a Line> + Clone) {
    let give_up = Instant::now() + GRACE;
    while lines.clone().any(|line| line.noted().open > 0) && Instant::now() < give_up {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Declares so many on each line at once. Who is refused comes back when it was told to, or one slot later where
/// `honours` is not set. Returns what came of each, and how many refusals there were.
pub(crate) async fn burst(lines: &[Line], each: usize, honours: bool) -> (Vec<Decided>, usize) {
    let (tell, mut returns) = mpsc::unbounded_channel();
    let due = Instant::now();
    for line in lines {
        line.take();
        let (number, tell) = (line.number, tell.clone());
        let (of_line, mut told) = mpsc::unbounded_channel();
        line.noted().returns = Some(of_line);
        tokio::spawn(async move {
            while let Some((now, item, back)) = told.recv().await {
                let _ = tell.send((now, number, item, back));
            }
        });
        for at in (0..each).step_by(64) {
            line.send(vec![Item { due, tries: 1 }; 64.min(each - at)]);
        }
    }
    drop(tell);
    let mut back = BinaryHeap::new();
    let give_up = due + Duration::from_secs(20);
    let all = lines.len() * each;
    let count = || lines.iter().map(|line| line.noted().decided.len()).sum::<usize>();
    while count() < all && Instant::now() < give_up {
        let soon = Instant::now() + Duration::from_millis(5);
        let first = back.peek().map_or(soon, |Reverse((at, _, _, _))| *at).min(soon);
        tokio::select! {
            Some((now, number, item, after)) = returns.recv() => {
                let item: Item = item;
                let after: Micros = if honours { after } else { Micros::from_ms(10) };
                let at = now + after.to_std();
                back.push(Reverse((at, number, item.tries, item.due)));
            }
            () = tokio::time::sleep_until(first.into()) => {}
        }
        let now = Instant::now();
        while let Some(Reverse((_, number, tries, due))) = back.pop_if_due(now) {
            let line = lines.iter().find(|line| line.number == number);
            if let Some(line) = line {
                line.send(vec![Item { due, tries: tries + 1 }]);
            }
        }
    }
    let noted: Vec<Noted> = lines.iter().map(Line::take).collect();
    let refusals = noted.iter().map(|noted| noted.refused.len()).sum();
    (noted.into_iter().flat_map(|noted| noted.decided).collect(), refusals)
}

type Returning = Reverse<(Instant, usize, u32, Instant)>;

trait PopIfDue {
    fn pop_if_due(&mut self, now: Instant) -> Option<Returning>;
}

impl PopIfDue for BinaryHeap<Returning> {
    fn pop_if_due(&mut self, now: Instant) -> Option<Returning> {
        if self.peek().is_some_and(|Reverse((at, ..))| *at <= now) { self.pop() } else { None }
    }
}

/// Declares `total`, as fast as they are answered.
pub(crate) async fn fill(lines: &[Line], total: u64) -> Result<(), Failed> {
    let (mut sent, give_up) = (0, Instant::now() + Duration::from_secs(120));
    while sent < total && Instant::now() < give_up {
        for line in lines {
            if line.noted().open < WINDOW && sent < total {
                let frame = usize::try_from(total - sent)?.min(64);
                sent += if line.send(vec![Item { due: Instant::now(), tries: 1 }; frame]) {
                    frame as u64
                } else {
                    0
                };
            }
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    all_answered(lines.iter()).await;
    let granted: usize =
        lines.iter().map(|line| line.take().decided.iter().filter(|it| it.granted).count()).sum();
    if granted as u64 == total { Ok(()) } else { Err(format!("{granted} of {total} were granted").into()) }
}

/// Pings as an idle client does, every 2 s, until it is dropped.
pub(crate) async fn idle(mut peer: Peer, first: Duration) {
    tokio::time::sleep(first).await;
    for seq in 0.. {
        let mut bytes = Vec::new();
        let _ = ToCoordinator::from(ClockPing { seq, client_us: 0 }).encode(&mut bytes);
        if peer.send.write_all(&bytes).await.is_err() || peer.lane.next().await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// What became of leases.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leases {
    pub(crate) held: u64,
    pub(crate) renewed: u64,
    pub(crate) refused: u64,
    pub(crate) lost: u64,
}

/// Holds `count` leases of half a second and renews each ten times a second.
pub(crate) async fn hold(mut peer: Peer, count: u64, noted: Arc<Mutex<Leases>>) -> Result<(), Failed> {
    let intent = |id| RawIntent { hold: true, ..asap(id, format!("leases/{id}"), 500_000) };
    let one = |id| Declaration { request: id, intent: intent(id), ..Declaration::default() };
    let mut bytes = Vec::new();
    ToCoordinator::from(Declare { batch: (1..=count).map(one).collect() }).encode(&mut bytes)?;
    peer.send.write_all(&bytes).await?;
    let mut every = tokio::time::interval(Duration::from_millis(100));
    let (mut base, mut request) = ((Time::ZERO, Instant::now()), count);
    loop {
        tokio::select! {
            message = peer.lane.next() => {
                let ToAgent::Answer(answer) = message? else { continue };
                base = (answer.at, Instant::now());
                let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                match answer.verdict {
                    Verdict::Granted { .. } => noted.held += 1,
                    Verdict::Renewed { .. } => noted.renewed += 1,
                    Verdict::Rejected { .. } => noted.refused += 1,
                    _ => noted.lost += 1,
                }
            }
            _ = every.tick() => {
                if noted.lock().unwrap_or_else(PoisonError::into_inner).held == 0 {
                    continue;
                }
                let now = base.0.after(Micros::from_us(base.1.elapsed().as_micros() as u64));
                let until = now.after(Micros::from_ms(500));
                bytes.clear();
                for id in (1..=count).map(IntentId::new) {
                    request += 1;
                    let extensions = Extensions::NONE;
                    ToCoordinator::from(Renew { request, id, until, extensions }).encode(&mut bytes)?;
                }
                peer.send.write_all(&bytes).await?;
            }
        }
    }
}

/// p50, p99, p99.9 and the greatest, µs as ms.
pub(crate) fn spans(of: impl IntoIterator<Item = Micros>) -> String {
    let ms = |us: u64| format!("{:.1}", us as f64 / 1000.0);
    match Quantiles::of(of) {
        Some(Quantiles { p50, p99, p999, max, .. }) => [p50, p99, p999, max].map(ms).join(" / "),
        None => "-".into(),
    }
}
