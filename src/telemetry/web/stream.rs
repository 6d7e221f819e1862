//! What happens, as server-sent events, to one page.
//!
//! A page is told in turn: `begin`, what is still kept of the past (`slots`), how things stand (`held`), that this
//! was all (`settled`), and then the slots as they come (`slots`, also without any, as a beat). One that has read too
//! slowly is told so by another `begin` with what it missed. Of a recorded log it is told the same, up to `settled`.
//! docs/METRICS.md has the fields.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, MissedTickBehavior};

use super::feed::{Cursor, Feed, Missed};
use super::news::{News, SlotNews};
use super::recording::Recording;
use super::words::{NewsLine, SlotLine};
use crate::coordinator::{Health, View};
use crate::limits;
use crate::resolver::Resolver;
use crate::telemetry::leave::Leave;
use crate::types::{Micros, Slot, Time};

/// The type of what is sent.
pub(super) const CONTENT_TYPE: &str = "text/event-stream";

/// A body whose frames come one after the other, no faster than they are read. Each that is taken gives the
/// connection more time.
#[derive(Debug)]
pub(crate) struct Events {
    frames: mpsc::Receiver<Bytes>,
    leave: Leave,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let taken = self.frames.poll_recv(context);
        if let Poll::Ready(Some(_)) = &taken {
            self.leave.put_off();
        }
        taken.map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// The reader has gone.
#[derive(Debug)]
struct Gone;

/// To one page.
#[derive(Debug)]
struct Outlet(mpsc::Sender<Bytes>);

impl Outlet {
    /// Waits until the page has read most of what it was sent before.
    async fn send(&self, name: &str, what: &impl Serialize) -> Result<(), Gone> {
        self.0.send(event(name, what)).await.map_err(|_| Gone)
    }
}

/// One event. JSON has no line break of its own, whatever stands in its texts.
fn event(name: &str, what: &impl Serialize) -> Bytes {
    // Only maps with keys that are no text cannot be written, and none is.
    let data = serde_json::to_string(what).unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

#[derive(Debug, Serialize)]
struct Begin {
    kind: &'static str,
    now: Time,
    slot_us: Micros,
    /// Slots that the page has missed since the last one it was told of.
    missed: u64,
    /// Of a recorded log: its part that is shown, and whether more comes before and after.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<Part>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Part {
    from: Time,
    until: Time,
    more_before: bool,
    more_after: bool,
}

#[derive(Debug, Serialize)]
struct Slots<'a> {
    now: Time,
    slots: Vec<SlotLine<'a>>,
    /// What is wrong with the coordinator, where something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<String>,
}

#[derive(Debug, Serialize)]
struct Held<'a> {
    held: Vec<NewsLine<'a>>,
}

#[derive(Debug, Serialize)]
struct Settled {
    slot: Slot,
    at: Time,
    /// Whether all grants in force and all that waits were told.
    complete: bool,
    grants: usize,
    undecided: usize,
}

/// The coordinator that a page is told of, beside its feed.
pub(super) trait Watched: Send + Sync + 'static {
    fn now(&self) -> Time;

    fn health(&self) -> Health;

    /// How things stand between two slots; `None` where it does not answer.
    fn standing(&self) -> impl Future<Output = Option<Standing>> + Send;
}

impl Watched for View {
    fn now(&self) -> Time {
        View::now(self)
    }

    fn health(&self) -> Health {
        View::health(self)
    }

    async fn standing(&self) -> Option<Standing> {
        self.look(Standing::look).await
    }
}

/// Streams what the coordinator decides, in slots of length `slot`. `permit` is given back when the page has gone.
pub(super) fn live(
    feed: Arc<Feed>,
    watched: impl Watched,
    slot: Micros,
    leave: Leave,
    permit: OwnedSemaphorePermit,
) -> Events {
    let (outlet, events) = opened(leave);
    tokio::spawn(async move {
        let _ends_when_the_page_has_gone = Live { feed, watched, slot, outlet }.run().await;
        drop(permit);
    });
    events
}

/// Streams a recorded log, and ends.
pub(super) fn recorded(recording: Arc<Recording>, leave: Leave, permit: OwnedSemaphorePermit) -> Events {
    let (outlet, events) = opened(leave);
    tokio::spawn(async move {
        let _ends_when_the_page_has_gone = play(&recording, &outlet).await;
        drop(permit);
    });
    events
}

fn opened(leave: Leave) -> (Outlet, Events) {
    let (tell, frames) = mpsc::channel(limits::PAGE_FRAMES);
    (Outlet(tell), Events { frames, leave })
}

struct Live<W> {
    feed: Arc<Feed>,
    watched: W,
    slot: Micros,
    outlet: Outlet,
}

/// How things stand between two slots.
#[derive(Debug)]
pub(super) struct Standing {
    decided: (Slot, Time),
    counts: (usize, usize),
    all: Vec<News>,
}

impl Standing {
    /// Runs where the resolver is owned, between two slots: as much as a look may.
    fn look(resolver: &Resolver) -> Self {
        let decided = resolver.last_decided();
        let grants = resolver.grants().take(limits::LIST_SCAN).map(|grant| News::held(&grant));
        let undecided = resolver.undecided().take(limits::LIST_SCAN);
        let waiting = undecided.filter_map(|it| {
            let told = resolver.standing(it.key, decided.1)?;
            Some(News::waiting(&it, told, resolver))
        });
        Standing { decided, counts: resolver.counts(), all: grants.chain(waiting).collect() }
    }

    fn is_complete(&self) -> bool {
        self.counts.0 <= limits::LIST_SCAN && self.counts.1 <= limits::LIST_SCAN
    }
}

impl<W: Watched> Live<W> {
    async fn run(&self) -> Result<(), Gone> {
        let mut missed = 0;
        loop {
            let mut cursor = self.begin(missed).await?;
            let begun = Instant::now();
            missed = self.follow(&mut cursor).await?.0;
            // Each look holds up the next slot a little: pages that never keep up do not ask for one after the other.
            tokio::time::sleep_until(begun + limits::PAGE_LOOK_EVERY.to_std()).await;
        }
    }

    /// Tells the past and how things stand; where to go on.
    async fn begin(&self, missed: u64) -> Result<Cursor, Gone> {
        let now = self.watched.now();
        let begin = Begin { kind: "live", now, slot_us: self.slot, missed, part: None };
        self.outlet.send("begin", &begin).await?;
        let Some(standing) = self.watched.standing().await else {
            self.beat().await?;
            return Err(Gone); // the page asks again
        };
        let (past, cursor) = self.feed.past();
        let seen = past.partition_point(|slot| slot.slot <= standing.decided.0);
        let (before, after) = past.split_at(seen);
        self.slots(before).await?;
        tell_held(&self.outlet, &standing.all).await?;
        let settled = Settled {
            slot: standing.decided.0,
            at: standing.decided.1,
            complete: standing.is_complete(),
            grants: standing.counts.0,
            undecided: standing.counts.1,
        };
        self.outlet.send("settled", &settled).await?;
        self.slots(after).await?;
        Ok(cursor)
    }

    /// Tells what comes, until the page has missed some.
    async fn follow(&self, cursor: &mut Cursor) -> Result<Missed, Gone> {
        let mut every = tokio::time::interval(limits::PAGE_EVERY.to_std());
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = Instant::now();
        loop {
            every.tick().await;
            loop {
                let slots = match self.feed.since(cursor) {
                    Ok(slots) => slots,
                    Err(missed) => return Ok(missed),
                };
                if slots.is_empty() {
                    break;
                }
                self.slots(&slots).await?;
                told = Instant::now();
                if slots.iter().any(|slot| slot.left_out > 0) {
                    return Ok(Missed(1));
                }
            }
            if told.elapsed() >= limits::PAGE_BEAT.to_std() {
                self.beat().await?;
                told = Instant::now();
            }
        }
    }

    async fn slots(&self, slots: &[Arc<SlotNews>]) -> Result<(), Gone> {
        tell_slots(&self.outlet, slots, &self.health(), || self.watched.now()).await
    }

    /// Tells the time.
    async fn beat(&self) -> Result<(), Gone> {
        let beat = Slots { now: self.watched.now(), slots: Vec::new(), health: self.health() };
        self.outlet.send("slots", &beat).await
    }

    /// What is wrong, where something is.
    fn health(&self) -> Option<String> {
        match self.watched.health() {
            Health::Ready => None,
            Health::Starting => Some("starting".to_owned()),
            Health::Draining => Some("draining: it takes nothing new".to_owned()),
            Health::Halted(why) => Some(format!("halted: {why}")),
        }
    }
}

/// Tells slots in frames of bounded size.
async fn tell_slots(
    outlet: &Outlet,
    slots: &[Arc<SlotNews>],
    health: &Option<String>,
    now: impl Fn() -> Time,
) -> Result<(), Gone> {
    let (mut lines, mut room) = (Vec::new(), limits::PAGE_FRAME_NEWS);
    for slot in slots {
        let (mut rest, mut is_first) = (&slot.news[..], true);
        while is_first || !rest.is_empty() {
            let (part, after) = rest.split_at(rest.len().min(room));
            lines.push(SlotLine::of(slot, part, is_first));
            (rest, is_first, room) = (after, false, room - part.len());
            if room == 0 || lines.len() >= limits::PAGE_FRAME_NEWS {
                let slots = std::mem::take(&mut lines);
                outlet.send("slots", &Slots { now: now(), slots, health: health.clone() }).await?;
                room = limits::PAGE_FRAME_NEWS;
            }
        }
    }
    if !lines.is_empty() {
        outlet.send("slots", &Slots { now: now(), slots: lines, health: health.clone() }).await?;
    }
    Ok(())
}

async fn tell_held(outlet: &Outlet, all: &[News]) -> Result<(), Gone> {
    for part in all.chunks(limits::PAGE_FRAME_NEWS) {
        outlet.send("held", &Held { held: part.iter().map(NewsLine::of).collect() }).await?;
    }
    Ok(())
}

/// Tells a recorded log: how things stood at its beginning, and then what happened.
async fn play(recording: &Recording, outlet: &Outlet) -> Result<(), Gone> {
    let (from, until) = recording.span().unwrap_or_default();
    let (more_before, more_after) = recording.has_more();
    let part = Some(Part { from, until, more_before, more_after });
    let begin = Begin { kind: "recorded", now: until, slot_us: recording.slot_length(), missed: 0, part };
    outlet.send("begin", &begin).await?;
    tell_held(outlet, recording.held()).await?;
    for slots in recording.slots().chunks(limits::PAGE_FRAME_NEWS) {
        tell_slots(outlet, slots, &None, || until).await?;
    }
    let slot = recording.slots().last().map_or_else(Slot::default, |slot| slot.slot);
    let settled = Settled { slot, at: until, complete: false, grants: 0, undecided: 0 };
    outlet.send("settled", &settled).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Agent, IntentId, IntentKey, Verdict};

    /// A legal name that tries to end the event, the text, and the script.
    const HOSTILE: &str = "a\\n\\n\"}</script><img src=x onerror=alert(1)>\u{2028}data: x";

    fn released(number: u64, count: usize) -> Arc<SlotNews> {
        let at = Time::from_us(number);
        let news = |id| News {
            key: IntentKey { agent: Agent::new(HOSTILE).unwrap(), id: IntentId::new(id) },
            at,
            verdict: Verdict::Released { reason: Some("one\r\n\r\nevent: begin\ndata: {}".to_owned()) },
            rank: None,
            arrived: None,
            intent: None,
            windows: Vec::new(),
            waits_until: None,
            rivals: Vec::new(),
        };
        let news = (0..count as u64).map(news).collect();
        let slot = Slot::new(number);
        Arc::new(SlotNews { slot, at, inputs: 0, decisions: 0, report: None, news, left_out: 0 })
    }

    fn parsed(frame: &Bytes) -> (String, serde_json::Value) {
        let text = std::str::from_utf8(frame).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!((lines.len(), lines[2], lines[3]), (4, "", ""), "one event and no more: {text:?}");
        assert!(!text.contains('\r'));
        let data = serde_json::from_str(lines[1].strip_prefix("data: ").unwrap()).unwrap();
        (lines[0].strip_prefix("event: ").unwrap().to_owned(), data)
    }

    #[tokio::test]
    async fn whatever_agents_and_operators_write_stays_a_text_in_one_event() {
        let (tell, mut frames) = mpsc::channel(8);
        let slots = [released(7, 1)];
        tell_slots(&Outlet(tell), &slots, &None, || Time::from_us(9)).await.unwrap();
        let (name, data) = parsed(&frames.recv().await.unwrap());
        assert_eq!(name, "slots");
        let news = &data["slots"][0]["news"][0];
        assert_eq!(news["agent"], HOSTILE);
        assert_eq!(news["why"], "one\r\n\r\nevent: begin\ndata: {}");
        assert_eq!(news["id"], "0", "an id is a text");
        assert!(frames.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_slot_of_many_decisions_is_told_in_frames_of_bounded_size_and_counted_once() {
        let most = limits::PAGE_FRAME_NEWS;
        let (tell, mut frames) = mpsc::channel(64);
        let slots = [released(1, 2 * most + 1), released(2, 0), released(3, 2)];
        tell_slots(&Outlet(tell), &slots, &None, || Time::ZERO).await.unwrap();
        let mut ids = Vec::new();
        while let Some(frame) = frames.recv().await {
            let (_, data) = parsed(&frame);
            let lines = data["slots"].as_array().unwrap();
            let news: Vec<&serde_json::Value> =
                lines.iter().flat_map(|line| line["news"].as_array().unwrap()).collect();
            assert!(news.len() <= most);
            ids.extend(lines.iter().map(|line| line["slot"].as_u64().unwrap()));
        }
        assert_eq!(ids, [1, 1, 1, 2, 3]);
    }

    #[tokio::test]
    async fn a_page_that_does_not_read_holds_up_its_own_stream_alone() {
        let (tell, frames) = mpsc::channel(limits::PAGE_FRAMES);
        let outlet = Outlet(tell);
        let slots: Vec<_> = (0..50).map(|number| released(number, limits::PAGE_FRAME_NEWS)).collect();
        let mut telling = Box::pin(tell_slots(&outlet, &slots, &None, || Time::ZERO));
        let waits = std::future::poll_fn(|context| Poll::Ready(telling.as_mut().poll(context).is_pending()));
        assert!(waits.await, "it has no room for more than a few frames");
        drop(frames);
        assert!(telling.await.is_err(), "and ends with its reader");
    }

    /// A coordinator that has decided slot 3, in which one intent was granted and nothing else stands.
    struct Quiet;

    impl Watched for Quiet {
        fn now(&self) -> Time {
            Time::from_us(9)
        }

        fn health(&self) -> Health {
            Health::Draining
        }

        async fn standing(&self) -> Option<Standing> {
            Some(Standing { decided: (Slot::new(3), Time::from_us(3)), counts: (0, 0), all: Vec::new() })
        }
    }

    fn owned(slot: Arc<SlotNews>) -> SlotNews {
        Arc::into_inner(slot).unwrap()
    }

    async fn next(events: &mut Events) -> (String, serde_json::Value) {
        parsed(&events.frames.recv().await.unwrap())
    }

    fn numbers(data: &serde_json::Value) -> Vec<u64> {
        data["slots"].as_array().unwrap().iter().map(|slot| slot["slot"].as_u64().unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_told_the_past_what_stands_what_comes_and_what_it_missed() {
        let feed = Arc::new(Feed::default());
        (2..5).for_each(|number| feed.push(owned(released(number, 1))));
        let permit = Arc::new(tokio::sync::Semaphore::new(1)).try_acquire_owned().unwrap();
        let mut events = live(Arc::clone(&feed), Quiet, Micros::from_ms(10), Leave::soon(), permit);
        let (name, begin) = next(&mut events).await;
        assert_eq!((name.as_str(), &begin["kind"], &begin["missed"]), ("begin", &"live".into(), &0.into()));
        let (name, past) = next(&mut events).await;
        assert_eq!((name.as_str(), numbers(&past)), ("slots", vec![2, 3]), "up to the slot of the look");
        assert_eq!(past["health"], "draining: it takes nothing new");
        let (name, settled) = next(&mut events).await;
        assert_eq!(
            (name.as_str(), &settled["slot"], &settled["complete"]),
            ("settled", &3.into(), &true.into())
        );
        assert_eq!(numbers(&next(&mut events).await.1), [4], "what came after the look");
        assert_eq!(numbers(&next(&mut events).await.1), Vec::<u64>::new(), "a beat");
        feed.push(owned(released(5, 1)));
        assert_eq!(numbers(&next(&mut events).await.1), [5]);
        // It reads nothing while more comes than is kept.
        let last = limits::PAGE_SLOTS_KEPT as u64 + 1_000;
        (6..=last).for_each(|number| feed.push(owned(released(number, 0))));
        loop {
            let (name, data) = next(&mut events).await;
            if name == "begin" {
                assert_eq!(data["missed"], last - 5 - limits::PAGE_SLOTS_KEPT as u64);
                break;
            }
        }
        assert_eq!(next(&mut events).await.0, "settled", "nothing of what is kept is from before the look");
        assert_eq!(numbers(&next(&mut events).await.1).len(), limits::PAGE_FRAME_NEWS);
    }
}
