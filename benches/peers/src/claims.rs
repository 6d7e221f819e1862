//! preclaim as its users do it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use preclaim::types::Time;
use preclaim::{Client, Grant, Intent, Outcome, path, secs};

use crate::Failure;
use crate::drive::{Agent, Booker};
use crate::timer::{sleep, sleep_until};
use crate::work::Wanted;

/// How an agent declares what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Now or never: what is its own is always free.
    AtOnce,
    /// In line: it waits, and is granted in the slot in which the holder has released.
    InLine,
    /// The next free window, of the work's length and this margin: decided in one slot, one after the other
    /// without a gap.
    NextWindow(Duration),
    /// As that, and declared as soon as it is known that it will be needed.
    Ahead(Duration),
}

/// How long somebody waits in line, and how far ahead a window may be, at the most.
const PATIENCE: Duration = secs(60);
const FAR: Duration = secs(10);
/// A lease's length: longer than any work here. Two of them one after the other pass the coordinator's horizon.
const LEASE: Duration = secs(30);
/// What is free for whoever has it alone is granted for so long, and released long before.
const OWN: Duration = secs(5);

/// Where the coordinator is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) addr: String,
    pub(crate) ca: PathBuf,
}

#[derive(Clone)]
pub(crate) struct Claims {
    client: Client,
    manner: Manner,
    requests: Arc<AtomicU64>,
}

impl Claims {
    pub(crate) async fn connect(
        place: &Place,
        manner: Manner,
        index: usize,
        requests: Arc<AtomicU64>,
    ) -> Result<Self, Failure> {
        let builder = Client::builder().addr(&place.addr).ca(&place.ca).name(format!("agent-{index}"));
        Ok(Claims { client: builder.connect().await?, manner, requests })
    }

    /// The coordinator's time, in µs since 1970.
    pub(crate) fn now_us(&self) -> u64 {
        self.client.coordinator_time().0.as_us()
    }

    fn intent(&self, wanted: &Wanted, needed: Instant) -> Result<Intent, Failure> {
        let (intent, length) = match self.manner {
            Manner::AtOnce => (Intent::asap(), OWN),
            Manner::InLine => (Intent::asap().lease().wait(PATIENCE), LEASE),
            Manner::NextWindow(margin) => (Intent::asap().slack(FAR), wanted.work + margin),
            Manner::Ahead(margin) => (Intent::at(needed).slack(FAR), wanted.work + margin),
        };
        wanted.paths.iter().try_fold(intent, |intent, it| Ok(intent.claim(path(it)?.exclusive(), length)))
    }

    async fn declare(&self, intent: Intent) -> Result<Grant, Failure> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        match self.client.declare(intent).await? {
            Outcome::Granted(grant) => Ok(grant),
            other => Err(format!("preclaim: {other:?}").into()),
        }
    }
}

impl Agent for Claims {
    type Held = Grant;

    fn twin(&self, _index: usize) -> Self {
        self.clone()
    }

    fn asks_ahead(&self) -> bool {
        matches!(self.manner, Manner::Ahead(_))
    }

    async fn take(&mut self, wanted: &Wanted, needed: Instant) -> Result<Self::Held, Failure> {
        let grant = self.declare(self.intent(wanted, needed)?).await?;
        sleep_until(grant.begins()).await;
        Ok(grant)
    }

    fn until(&self, held: &Self::Held) -> Option<Instant> {
        Some(held.until())
    }

    async fn work(&self, held: &Self::Held, work: Duration) -> Option<Instant> {
        let work = async {
            if !work.is_zero() {
                sleep(work).await;
            }
            Instant::now()
        };
        let used = held.guarded(work).await.ok();
        used.filter(|_| held.check().is_ok())
    }

    /// Dropped, a grant is released. A short window that others were granted the time right after ends by itself.
    async fn give(&mut self, held: Self::Held) -> Result<(), Failure> {
        if matches!(self.manner, Manner::NextWindow(_)) {
            held.detach();
            return Ok(());
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        drop(held);
        Ok(())
    }
}

impl Booker for Claims {
    async fn book(&mut self, resource: u64, from_us: u64, length_us: u64) -> Result<u64, Failure> {
        let claim = path(&format!("window/{resource}"))?.exclusive();
        let intent = Intent::at(Time::from_us(from_us)).claim(claim, Duration::from_micros(length_us));
        let grant = self.declare(intent.slack(secs(3600))).await?;
        let start = grant.start().as_us();
        grant.detach(); // it stands: the agent comes back for it
        Ok(start)
    }
}
