//! The one owner of a client's state: the session, who waits for which answer, and who is told what.
//! Handles and tasks all go through its lock, which is never held over an await.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot, watch};

use super::connector::{Clock, Link};
use super::degrade::{Degradations, Degraded, Tally};
use super::event::{Event, Events, Subscriber};
use super::grant::{Live, Lost, Standing};
use super::intent::When;
use super::{ConnectError, YEAR};
use crate::limits;
use crate::session::agent::{AgentSession, Draft, Local, Loss, News, NotTaken, Reply, stop};
use crate::types::{IntentId, Micros, Time};
use crate::wire::{self, ContestedNews};

/// What handles and tasks share.
pub(super) struct Shared {
    pub(super) clock: Arc<dyn Clock>,
    /// The origin of the session's local time.
    origin: Instant,
    state: Mutex<State>,
    pub(super) wake_writer: Notify,
    pub(super) wake_timer: Notify,
    /// One permit for each declaration that was answered.
    pub(super) room: Notify,
    pub(super) phase: watch::Sender<Phase>,
    /// How long an answer may take, beside what it is waited for.
    pub(super) patience: Duration,
    /// Above this uncertainty no time of the agent's own clock is converted.
    pub(super) clock_bound: Micros,
    /// Over how many lanes its intents are to be spread.
    pub(super) lanes: usize,
}

/// Where the connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// For the first time.
    Connecting,
    Up,
    /// Lost, and tried for again; why the last one ended or could not be had.
    Away(ConnectError),
    /// There will be no other one.
    Over(ConnectError),
}

/// See [`Shared`].
pub(super) struct State {
    pub(super) session: AgentSession,
    waiters: BTreeMap<u64, Waiter>,
    /// What the starts of declarations that ended as unknown were by the coordinator's clock.
    unknown_starts: VecDeque<(IntentId, When, Time)>,
    handles: BTreeMap<IntentId, Handle>,
    subscribers: Vec<Subscriber>,
    pub(super) link: Option<Arc<dyn Link>>,
    last_serial: u64,
    next_id: u64,
    /// Since when the last handle is gone, or the client was closed: flush, say goodbye, end.
    pub(super) closing: Option<Instant>,
    /// No further connection will be tried for.
    over: bool,
    /// Since when there is one.
    up_since: Option<Local>,
    /// When the last connection was lost, as long as there is no other.
    away_since: Option<Local>,
    /// Why it was lost, for the event that tells of it.
    lost_by: String,
    degraded: Tally,
    /// Of these, what the last hello told of, and what the last one did that was welcomed.
    told_degraded: Tally,
    reported_degraded: Tally,
    /// Set by what changed state and cleared by [`Shared::with`].
    answered: u32,
    phase: Option<Phase>,
    /// What the task that lives by the clock was last woken for.
    next_timeout: Option<Local>,
}

struct Waiter {
    to: oneshot::Sender<Answered>,
    kind: Asked,
}

/// What a waiter asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A declaration, whose grant gets a handle of its own.
    Fresh,
    /// A revision of a grant that has its handle.
    Revision,
    /// Anything else.
    Other,
}

/// A final answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) reply: Reply,
    /// For a fresh grant.
    pub(super) handle: Option<NewHandle>,
}

/// What a fresh grant's handle looks at.
#[derive(Debug)]
pub(super) struct NewHandle {
    pub(super) serial: u64,
    pub(super) standing: watch::Receiver<Standing>,
}

struct Handle {
    serial: u64,
    standing: watch::Sender<Standing>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("phase", &*self.phase.borrow()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(
        session: AgentSession,
        clock: Arc<dyn Clock>,
        first_id: u64,
        (patience, clock_bound): (Duration, Duration),
        lanes: usize,
    ) -> Self {
        let state = State {
            session,
            waiters: BTreeMap::new(),
            unknown_starts: VecDeque::new(),
            handles: BTreeMap::new(),
            subscribers: Vec::new(),
            link: None,
            last_serial: 0,
            next_id: first_id,
            closing: None,
            over: false,
            up_since: None,
            away_since: None,
            lost_by: String::new(),
            degraded: Tally::default(),
            told_degraded: Tally::default(),
            reported_degraded: Tally::default(),
            answered: 0,
            phase: None,
            next_timeout: None,
        };
        Shared {
            origin: clock.now(),
            clock,
            state: Mutex::new(state),
            wake_writer: Notify::new(),
            wake_timer: Notify::new(),
            room: Notify::new(),
            phase: watch::Sender::new(Phase::Connecting),
            patience,
            clock_bound: clock_bound.into(),
            lanes,
        }
    }

    /// Runs `change` on the state, deals out what came of it, and wakes the tasks.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State, Local) -> T) -> T {
        let now = self.now();
        let mut state = self.lock();
        let result = change(&mut state, now);
        state.deal_out(now);
        let answered = std::mem::take(&mut state.answered);
        let phase = state.phase.take();
        let says = state.session.has_to_send() || state.closing.is_some();
        let next = state.session.next_timeout(now);
        let waits = state.closing.is_some() || std::mem::replace(&mut state.next_timeout, next) != next;
        drop(state);
        for _ in 0..answered {
            self.room.notify_one();
        }
        if let Some(phase) = phase {
            self.phase.send_replace(phase);
            self.room.notify_waiters();
        }
        if says {
            self.wake_writer.notify_one();
        }
        if waits {
            self.wake_timer.notify_one();
        }
        result
    }

    /// Looks at the state; what `look` changes is not dealt out.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut State, Local) -> T) -> T {
        let now = self.now();
        look(&mut self.lock(), now)
    }

    // What a panic under the lock could leave behind is at worst one event that was not told.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when a connection stands. Cancel safe.
    pub(super) async fn welcomed(&self) {
        // The sender lives as long as this does.
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Up).await;
    }

    /// Resolves when a connection stands, or will never more. Cancel safe.
    pub(super) async fn settled(&self) -> Phase {
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|phase| matches!(phase, Phase::Up | Phase::Over(_))).await;
        // The sender lives as long as this does.
        settled.map_or(Phase::Connecting, |phase| phase.clone())
    }

    pub(super) fn now(&self) -> Local {
        self.local(self.clock.now())
    }

    /// An instant of the agent's clock as the session counts it; what lies before the client was
    /// made counts as then.
    pub(super) fn local(&self, at: Instant) -> Local {
        let since = at.saturating_duration_since(self.origin).as_micros();
        Local::from_us(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// The other way round; what the clock cannot say is cut to a year from now.
    pub(super) fn instant(&self, at: Local) -> Instant {
        let since = Duration::from_micros(at.as_us());
        let cut = || self.clock.now() + YEAR;
        self.origin.checked_add(since).map_or_else(cut, |at| at.min(cut()))
    }

    /// The instant at which the holder of a window stops: the coordinator's time is surely before its end
    /// then, timers that ring late included.
    pub(super) fn until(&self, live: &Live) -> Instant {
        self.stop(live.start, live.end)
    }

    /// As [`Shared::until`], for any window.
    pub(super) fn stop(&self, start: Time, end: Time) -> Instant {
        let stop = stop(start, end);
        let until = self.look(|state, now| state.session.clock().may_be(stop, now));
        until.map_or_else(|| self.clock.now(), |at| self.instant(at))
    }

    /// The instant from which on the coordinator's time surely is `start` or later.
    pub(super) fn from(&self, start: Time) -> Instant {
        let from = self.look(|state, now| state.session.clock().surely_is(start, now));
        from.map_or_else(|| self.clock.now(), |at| self.instant(at))
    }
}

impl State {
    /// A new stream of events; the oldest streams that nobody reads go first.
    pub(super) fn subscribe(&mut self) -> Events {
        let (subscriber, events) = Subscriber::new(limits::EVENTS);
        if self.over {
            return events; // which ends at once
        }
        if self.subscribers.len() == limits::SUBSCRIBERS {
            self.subscribers.remove(0);
        }
        self.subscribers.push(subscriber);
        events
    }

    /// An id that this client has not used and that no other process of this name is likely to use.
    pub(super) fn fresh_id(&mut self) -> IntentId {
        // 53 bits, so that every JSON reader keeps them.
        self.next_id = (self.next_id + 1) & ((1 << 53) - 1);
        IntentId::new(self.next_id)
    }

    pub(super) fn declare(
        &mut self,
        draft: Draft,
        kind: Asked,
        now: Local,
    ) -> Result<(u64, oneshot::Receiver<Answered>), NotTaken> {
        let id = IntentId::new(draft.intent.id);
        let request = self.session.declare(draft, now)?;
        if kind == Asked::Fresh && !self.session.stands(id) {
            // What an ended grant's handle does from here on is not about this.
            self.handles.remove(&id);
        }
        Ok((request, self.wait_for(request, kind)))
    }

    pub(super) fn wait_for(&mut self, request: u64, kind: Asked) -> oneshot::Receiver<Answered> {
        let (to, answer) = oneshot::channel();
        self.waiters.insert(request, Waiter { to, kind });
        answer
    }

    /// Nobody waits for `request` any more.
    pub(super) fn stop_waiting(&mut self, request: u64) -> bool {
        self.waiters.remove(&request).is_some()
    }

    /// Whoever asked has waited for too long; says whether the request may have been heard. `None` where
    /// its answer came at the last moment.
    pub(super) fn give_up(&mut self, request: u64) -> Option<bool> {
        self.stop_waiting(request).then(|| self.session.give_up(request))
    }

    /// A declaration ended as unknown: asked again, it is to have the same content, while the clocks'
    /// offset may be known otherwise by then.
    pub(super) fn remember_start(&mut self, id: IntentId, start: Option<(When, Time)>) {
        let Some((at, told)) = start else { return };
        self.unknown_starts.retain(|(other, ..)| *other != id);
        if self.unknown_starts.len() == limits::UNKNOWN_STARTS {
            self.unknown_starts.pop_front();
        }
        self.unknown_starts.push_back((id, at, told));
    }

    pub(super) fn remembered_start(&self, id: IntentId, at: When) -> Option<Time> {
        let found = self.unknown_starts.iter().find(|(other, when, _)| *other == id && *when == at);
        found.map(|(.., told)| *told)
    }

    /// This client releases `id`, and whoever has a handle of it is told before the coordinator is.
    /// That is no news to the agent, so its handle is taken out first.
    pub(super) fn release(&mut self, id: IntentId) -> Result<(u64, oneshot::Receiver<Answered>), NotTaken> {
        if let Some(handle) = self.handles.remove(&id) {
            let gone = Lost::Released { reason: None };
            handle.standing.send_modify(|standing| standing.gone = standing.gone.take().or(Some(gone)));
        }
        let request = self.session.release(id)?;
        Ok((request, self.wait_for(request, Asked::Other)))
    }

    /// Whether the handle with `serial` is the one of what `id` stands for.
    pub(super) fn is_in_hand(&self, id: IntentId, serial: u64) -> bool {
        self.session.stands(id) && self.handles.get(&id).is_some_and(|handle| handle.serial == serial)
    }

    /// The handle with `serial` is gone; with it goes what it held.
    pub(super) fn drop_handle(&mut self, id: IntentId, serial: u64) {
        if !self.forget_handle(id, serial) {
            return;
        }
        if self.session.stands(id) {
            // Where too much is unanswered it runs to its end.
            let _ = self.session.release(id);
        } else {
            // A revision may still be on its way, and would be granted to nobody.
            self.session.abandon_declared(id);
        }
    }

    /// The handle with `serial` lets what it held run on by itself. Its clones have it no more.
    pub(super) fn detach(&mut self, id: IntentId, serial: u64) {
        self.stand(id, |standing| standing.gone = standing.gone.take().or(Some(Lost::Detached)));
        if self.forget_handle(id, serial) {
            self.session.forget(id);
        }
    }

    /// The handle with `serial` is gone and what it held runs on by itself.
    pub(super) fn forget_handle(&mut self, id: IntentId, serial: u64) -> bool {
        let ours = self.handles.get(&id).is_some_and(|handle| handle.serial == serial);
        if ours {
            self.handles.remove(&id);
        }
        ours
    }

    /// A connection stands, and says hello.
    pub(super) fn connected(&mut self, now: Local) {
        self.told_degraded = self.degraded;
        let Tally { stopped, kept_last_plan, fell_back, .. } = self.degraded.since(&self.reported_degraded);
        self.session.report(wire::Degradations { stopped, kept_last_plan, fell_back });
        self.session.connected(now);
    }

    /// Since when there is no connection, where there is none.
    pub(super) fn away_since(&self) -> Option<Local> {
        self.away_since
    }

    /// Whether the client was closed, or will have no further connection.
    pub(super) fn is_closed(&self) -> bool {
        self.over || self.closing.is_some()
    }

    /// Says whether it is the first since they were last reported.
    pub(super) fn count_degradation(&mut self, degraded: &Degraded) -> bool {
        let is_first = self.degraded == self.reported_degraded;
        self.degraded.count(degraded);
        is_first
    }

    pub(super) fn degradations(&self) -> Degradations {
        let unreported = self.degraded.since(&self.reported_degraded);
        Degradations { since_start: self.degraded, unreported }
    }

    /// A connection has ended, or could not be had. Says how long it stood; `None` where it was the last.
    pub(super) fn connection_over(&mut self, why: ConnectError, now: Local) -> Option<Micros> {
        self.link = None;
        let stood = self.up_since.take().map_or(Micros::ZERO, |since| now.since(since));
        self.lost_by = match &why {
            ConnectError::Lost { why } => why.clone(),
            other => other.to_string(),
        };
        let never_was = self.session.is_new();
        if matches!(why, ConnectError::Replaced { .. }) {
            self.session.replaced();
        }
        self.away_since = self.away_since.or(Some(now));
        self.session.disconnected();
        self.over = never_was
            || self.session.is_replaced()
            || (self.closing.is_some() && !self.session.has_goodbye_to_say());
        if self.over {
            self.end(why);
        } else {
            self.phase = Some(Phase::Away(why));
        }
        (!self.over).then_some(stood)
    }

    /// The client is closed, and what was left to say could not be said.
    pub(super) fn give_up_connecting(&mut self) {
        self.end(ConnectError::Refused { why: "closed by the agent".into() });
    }

    /// There is no further connection: nobody who waits for an answer will have one.
    fn end(&mut self, why: ConnectError) {
        self.over = true;
        self.waiters.clear();
        self.phase = Some(Phase::Over(why));
    }

    /// Whether no further connection will be tried for.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    fn deal_out(&mut self, now: Local) {
        use crate::session::agent::Event as Told;
        while let Some(told) = self.session.poll_event() {
            match told {
                Told::Welcomed => self.welcomed(now),
                Told::Reply { request, id, reply } => self.replied(request, id, reply),
                Told::News(news) => self.news(news),
            }
        }
        if self.over {
            self.subscribers.clear(); // there will be no other news
        }
    }

    fn welcomed(&mut self, now: Local) {
        self.phase = Some(Phase::Up);
        let degradations = self.told_degraded.since(&self.reported_degraded);
        self.reported_degraded = self.told_degraded;
        self.up_since = Some(now);
        if let Some(since) = self.away_since.take() {
            let away = now.since(since).to_std();
            if degradations.total() > 0 {
                tracing::warn!("connected again after {away:?}; without a grant it {degradations}");
            }
            self.tell(&Event::Resumed { away, degradations });
        }
    }

    fn replied(&mut self, request: u64, id: IntentId, reply: Reply) {
        self.answered += 1;
        let Some(Waiter { to, kind }) = self.waiters.remove(&request) else { return };
        let handle = match (&reply, kind) {
            (Reply::Granted { start, end, token, terms, .. }, Asked::Fresh) => {
                let live = Live { token: *token, start: *start, end: *end, terms: terms.clone() };
                Some(self.new_handle(id, live))
            }
            _ => None,
        };
        if let Err(Answered { handle: Some(unwanted), .. }) = to.send(Answered { reply, handle }) {
            self.drop_handle(id, unwanted.serial);
        }
    }

    fn new_handle(&mut self, id: IntentId, live: Live) -> NewHandle {
        self.last_serial += 1;
        let serial = self.last_serial;
        let token = live.token;
        let (sender, standing) = watch::channel(Standing { live, gone: None });
        if let Some(old) = self.handles.insert(id, Handle { serial, standing: sender }) {
            let moved = Lost::Moved { token };
            old.standing.send_modify(|standing| standing.gone = standing.gone.take().or(Some(moved)));
        }
        NewHandle { serial, standing }
    }

    fn news(&mut self, news: News) {
        let event = match news {
            News::Waiting { id, offer, blockers } => Event::Waiting { id, offer, blockers },
            News::InForce { id, of } => Event::InForce { id, of },
            News::Contested(news) => contested(news),
            News::Renewed { id, end } => {
                self.stand(id, |standing| standing.live.end = end);
                Event::Renewed { id, end }
            }
            News::RenewalDenied { id, end, blockers } => Event::RenewalDenied { id, end, blockers },
            News::Moved { id, start, end, token, terms } => {
                self.stand(id, |standing| *standing = Standing::live(token, start, end, terms));
                Event::Moved { id, start, end, token }
            }
            News::Revised { id, start, end, token, terms } => {
                return self.stand(id, |standing| *standing = Standing::live(token, start, end, terms));
            }
            News::Granted { id, start, end, token, terms } => {
                self.stand(id, |standing| *standing = Standing::live(token, start, end, terms));
                Event::Regranted { id, start, end, token }
            }
            News::Lost { id, token, why } => {
                let lost = Lost::from(why.clone());
                self.stand(id, |standing| standing.gone = Some(lost.clone()));
                match why {
                    Loss::Ended | Loss::NotRenewed { .. } | Loss::Expired => Event::Expired { id, token },
                    Loss::Revoked { by, by_id, offer, waiting } => {
                        Event::Revoked { id, by, by_id, offer, waiting }
                    }
                    // The agent's own doing is no news to it.
                    Loss::Released { reason: None } if !self.handles.contains_key(&id) => return,
                    Loss::Revising => return,
                    Loss::Released { .. }
                    | Loss::Unreachable
                    | Loss::Unknown
                    | Loss::Replaced
                    | Loss::Taken { .. } => Event::Lost { id, why: lost },
                }
            }
            News::GaveUp { id } => Event::GaveUp { id },
            News::Draining { reason, retry_after, deadline, left } => {
                Event::Draining { reason, retry_after: retry_after.map(Micros::to_std), deadline, left }
            }
            News::Replaced => Event::Replaced,
            // The agent's own doing is no news to it: the stream ends.
            News::Disconnected if self.closing.is_some() => return,
            News::Disconnected => Event::Disconnected { why: self.lost_by.clone() },
            News::ClockUncertain { uncertainty, .. } => {
                Event::ClockUncertain { uncertainty: uncertainty.to_std() }
            }
        };
        self.tell(&event);
    }

    fn tell(&mut self, event: &Event) {
        self.subscribers.retain_mut(|subscriber| subscriber.tell(event));
    }

    fn stand(&mut self, id: IntentId, change: impl FnOnce(&mut Standing)) {
        if let Some(handle) = self.handles.get(&id) {
            handle.standing.send_modify(change);
        }
    }
}

fn contested(news: ContestedNews) -> Event {
    let ContestedNews { id, token, at, by, by_id, class, wanted, waits_us, note, .. } = news;
    let waits = Micros::from_us(waits_us).to_std();
    Event::Contested { id, token, at, by, by_id, class, wanted, waits, note }
}
