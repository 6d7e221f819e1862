//! Listing and watching, each on a lane of its own.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::connector::Lane;
use super::shared::Phase;
use super::{Client, ConnectError, Place, RequestError};
use crate::limits;
use crate::types::{Slot, Time};
use crate::wire::{
    self, Answer, CapacityEntry, CapacityPage, Extensions, FrameReader, List, ListEntry, ListReply, ToAgent,
    ToCoordinator, Verdict, Watch, WatchEvent,
};

/// What is to be listed or watched; all of it, unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    under: Option<String>,
    agent: Option<String>,
    only_granted: bool,
    only_undecided: bool,
}

impl Filter {
    /// Everything.
    pub fn all() -> Self {
        Filter::default()
    }

    /// Only what has a claim at or below `place`.
    #[must_use]
    pub fn under(mut self, place: Place) -> Self {
        self.under = Some(place.path().as_str().to_owned());
        self
    }

    /// Only what is of `agent`.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// For a listing: only grants.
    #[must_use]
    pub fn granted(mut self) -> Self {
        self.only_granted = true;
        self
    }

    /// For a listing: only undecided intents.
    #[must_use]
    pub fn undecided(mut self) -> Self {
        self.only_undecided = true;
        self
    }
}

/// What was granted and undecided.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The last slot that had been decided when the last page was made.
    pub slot: Slot,
    /// Its decision time.
    pub at: Time,
    /// Up to [`limits::LISTED`] entries.
    pub entries: Vec<ListEntry>,
    /// Whether there is more than that.
    pub is_cut: bool,
}

/// How capacities stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacities {
    /// The last slot that had been decided when the last page was made.
    pub slot: Slot,
    /// Its decision time.
    pub at: Time,
    /// By path, up to [`limits::LISTED`] and a page.
    pub entries: Vec<CapacityEntry>,
    /// Whether there are more than that.
    pub is_cut: bool,
}

/// Decisions as they are made. The error that ends it, a lost connection or a refusal, is its last
/// item; dropping it ends the watch.
#[derive(Debug)]
pub struct Watching(mpsc::Receiver<Result<WatchEvent, RequestError>>);

impl Watching {
    /// The next decision; `None` after the error that ended it. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<WatchEvent, RequestError>> {
        self.0.recv().await
    }
}

impl Stream for Watching {
    type Item = Result<WatchEvent, RequestError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

impl Client {
    /// What is granted and undecided now, all agents'. Read page by page: what comes or goes in
    /// between may be in it or not. Where a connection is lost over it, it begins anew. Cancel safe.
    ///
    /// # Errors
    /// Where no answer can be had in time.
    pub async fn list(&self, filter: Filter) -> Result<Listing, RequestError> {
        self.look_until_answered(async || self.list_once(&filter).await).await
    }

    /// How the capacities at and below `under` stand, or all of them: for a name that may look there, or administer it. Read
    /// page by page; where a connection is lost over it, it begins anew. Cancel safe.
    ///
    /// # Errors
    /// Where no answer can be had in time, or it is [forbidden](crate::wire::Refusal::Forbidden).
    pub async fn capacities(&self, under: Option<Place>) -> Result<Capacities, RequestError> {
        let under = under.map(|under| under.path().as_str().to_owned());
        self.look_until_answered(async || self.capacities_once(under.as_deref()).await).await
    }

    /// Asks over one connection after the other, until one lasts for as long as that takes.
    async fn look_until_answered<T>(
        &self,
        once: impl AsyncFn() -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        let mut late = self.late(Duration::ZERO);
        loop {
            let looked = tokio::select! {
                biased;
                looked = once() => looked,
                () = &mut late => {
                    let connected = self.is_connected();
                    return Err(if connected { RequestError::Unknown } else { RequestError::Disconnected });
                }
            };
            if !matches!(looked, Err(RequestError::Unknown)) {
                return looked;
            }
            // Where the connection still stands, it is about to be found lost.
            let mut phase = self.shared().phase.subscribe();
            tokio::select! {
                biased;
                _ = phase.wait_for(|phase| *phase != Phase::Up) => {}
                () = &mut late => return Err(RequestError::Unknown),
            }
        }
    }

    async fn list_once(&self, filter: &Filter) -> Result<Listing, RequestError> {
        let mut lane = LookingLane::open(self).await?;
        let mut listing = Listing { slot: Slot::new(0), at: Time::ZERO, entries: Vec::new(), is_cut: false };
        let mut after = Vec::new();
        for request in 1.. {
            let page = lane.page(list(filter, request, after)).await?;
            (listing.slot, listing.at, after) = (page.slot, page.at, page.next);
            listing.entries.extend(page.entries);
            listing.is_cut = !after.is_empty() && listing.entries.len() >= limits::LISTED;
            if after.is_empty() || listing.is_cut {
                break;
            }
        }
        Ok(listing)
    }

    async fn capacities_once(&self, under: Option<&str>) -> Result<Capacities, RequestError> {
        let mut lane = LookingLane::open(self).await?;
        let mut all = Capacities { slot: Slot::new(0), at: Time::ZERO, entries: Vec::new(), is_cut: false };
        let mut after = Some(String::new());
        let mut request = 0;
        while let Some(mark) = after.take_if(|_| !all.is_cut) {
            request += 1;
            let reply = lane.page(wire::capacities_of(request, under, &mark)).await?;
            let untold = || RequestError::Nonsense("a listing without capacities".to_owned());
            let CapacityPage { entries, next } = CapacityPage::in_reply(&reply).ok_or_else(untold)?;
            (all.slot, all.at, after) = (reply.slot, reply.at, next);
            all.entries.extend(entries);
            all.is_cut = after.is_some() && all.entries.len() >= limits::LISTED;
        }
        Ok(all)
    }

    /// What the coordinator thinks this agent's name has: grants and undecided intents of all its
    /// sessions. Cancel safe.
    ///
    /// # Errors
    /// Where no answer can be had.
    pub async fn mine(&self) -> Result<Listing, RequestError> {
        self.list(Filter::all().agent(self.name())).await
    }

    /// Every decision from now on, all agents'. A reader that is too slow is told how many it missed. It
    /// ends with its connection: what is decided between two of them could not be told. Cancel safe.
    ///
    /// # Errors
    /// Where the watch cannot be asked for in time.
    pub async fn watch(&self, filter: Filter) -> Result<Watching, RequestError> {
        let mut lane = tokio::select! {
            biased;
            lane = LookingLane::open(self) => lane?,
            () = self.late(Duration::ZERO) => return Err(RequestError::Disconnected),
        };
        let Filter { under, agent, .. } = filter;
        let watch = Watch { request: 1, under, agent, extensions: Extensions::NONE };
        lane.send(&watch.into()).await?;
        let (to, watching) = mpsc::channel(limits::EVENTS);
        tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    biased;
                    () = to.closed() => return,
                    event = lane.watched() => event,
                };
                let over = event.is_err();
                if to.send(event).await.is_err() || over {
                    return;
                }
            }
        });
        Ok(Watching(watching))
    }
}

fn list(filter: &Filter, request: u64, after: Vec<u8>) -> List {
    List {
        request,
        under: filter.under.clone(),
        agent: filter.agent.clone(),
        granted: filter.only_granted || !filter.only_undecided,
        undecided: filter.only_undecided || !filter.only_granted,
        after,
        limit: 0,
        extensions: Extensions::NONE,
    }
}

/// What anything but the answer to a listing or a watch means.
fn refusal(message: ToAgent) -> RequestError {
    match message {
        ToAgent::Answer(Answer { verdict: Verdict::Rejected { reason, field, hint, .. }, .. }) => {
            RequestError::Rejected { reason, field, hint }
        }
        other => RequestError::Nonsense(format!("a message of kind {:#06x}", other.kind())),
    }
}

/// A lane on which one thing is asked at a time.
struct LookingLane {
    lane: Lane,
    frames: FrameReader,
    chunk: Vec<u8>,
}

impl LookingLane {
    /// Opens a lane as soon as a connection stands.
    async fn open(client: &Client) -> Result<Self, RequestError> {
        let shared = client.shared();
        match shared.settled().await {
            Phase::Up => {}
            Phase::Over(ConnectError::Replaced { .. }) => return Err(RequestError::Replaced),
            _ => return Err(RequestError::Disconnected),
        }
        let link = shared.look(|state, _| state.link.clone()).ok_or(RequestError::Unknown)?;
        let lane = link.open_lane().await.map_err(|_| RequestError::Unknown)?;
        Ok(LookingLane { lane, frames: FrameReader::new(), chunk: vec![0; limits::READ_CHUNK] })
    }

    async fn send(&mut self, message: &ToCoordinator) -> Result<(), RequestError> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes).map_err(|error| RequestError::Nonsense(error.to_string()))?;
        self.lane.writer.write_all(&bytes).await.map_err(|_| RequestError::Unknown)
    }

    async fn page(&mut self, list: List) -> Result<ListReply, RequestError> {
        let request = list.request;
        self.send(&list.into()).await?;
        match self.message().await? {
            ToAgent::ListReply(page) if page.request == request => Ok(page),
            other => Err(refusal(other)),
        }
    }

    async fn watched(&mut self) -> Result<WatchEvent, RequestError> {
        match self.message().await? {
            ToAgent::WatchEvent(event) => Ok(event),
            other => Err(refusal(other)),
        }
    }

    async fn message(&mut self) -> Result<ToAgent, RequestError> {
        let nonsense = |error: &dyn std::error::Error| RequestError::Nonsense(error.to_string());
        loop {
            if let Some(frame) = self.frames.next_frame().map_err(|error| nonsense(&error))? {
                return ToAgent::decode(frame).map_err(|error| nonsense(&error));
            }
            let read = self.lane.reader.read(&mut self.chunk).await.map_err(|_| RequestError::Unknown)?;
            if read == 0 {
                return Err(RequestError::Unknown);
            }
            self.frames.push(&self.chunk[..read]);
        }
    }
}
