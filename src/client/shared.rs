//! The one owner of a client's state: the session, who waits for which answer, and who is told what.
//! Handles and tasks all go through its lock, which is never held over an await.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, oneshot, watch};

use super::connector::{Clock, Closed, Link};
use super::event::{Event, Events, Subscriber};
use super::grant::{Live, Lost, Standing};
use crate::limits;
use crate::session::agent::{AgentSession, Draft, Local, Loss, News, NotTaken, Reply};
use crate::types::{IntentId, Micros, Time};
use crate::wire::ContestedNews;

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
}

/// Where the connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Connecting,
    Up,
    Down(Closed),
}

/// See [`Shared`].
pub(super) struct State {
    pub(super) session: AgentSession,
    waiters: BTreeMap<u64, Waiter>,
    handles: BTreeMap<IntentId, Handle>,
    subscribers: Vec<Subscriber>,
    pub(super) link: Option<Arc<dyn Link>>,
    last_serial: u64,
    next_id: u64,
    /// The last handle is gone, or the client was closed: flush, say goodbye, end.
    pub(super) closing: bool,
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
    pub(super) fn new(session: AgentSession, clock: Arc<dyn Clock>, first_id: u64) -> Self {
        let state = State {
            session,
            waiters: BTreeMap::new(),
            handles: BTreeMap::new(),
            subscribers: Vec::new(),
            link: None,
            last_serial: 0,
            next_id: first_id,
            closing: false,
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
        }
    }

    /// Runs `change` on the state, deals out what came of it, and wakes the tasks.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State, Local) -> T) -> T {
        let now = self.now();
        let mut state = self.lock();
        let result = change(&mut state, now);
        state.deal_out();
        let answered = std::mem::take(&mut state.answered);
        let phase = state.phase.take();
        let says = state.session.has_to_send() || state.closing;
        let next = state.session.next_timeout(now);
        let waits = state.closing || std::mem::replace(&mut state.next_timeout, next) != next;
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
        const YEAR: u64 = 365 * 24 * 3600;
        let since = std::time::Duration::from_micros(at.as_us());
        let cut = || self.clock.now() + std::time::Duration::from_secs(YEAR);
        self.origin.checked_add(since).map_or_else(cut, |at| at.min(cut()))
    }

    /// The instant until which the coordinator's time is surely before `end`.
    pub(super) fn until(&self, end: Time) -> Instant {
        let until = self.look(|state, now| state.session.clock().may_be(end, now));
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
    ) -> Result<(u64, oneshot::Receiver<Answered>), NotTaken> {
        let request = self.session.declare(draft)?;
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

    /// This client releases `id`, and whoever has a handle of it is told before the coordinator is.
    /// That is no news to the agent, so its handle is taken out first.
    pub(super) fn release(&mut self, id: IntentId) -> Result<oneshot::Receiver<Answered>, NotTaken> {
        if let Some(handle) = self.handles.remove(&id) {
            let gone = Lost::Released { reason: None };
            handle.standing.send_modify(|standing| standing.gone = standing.gone.take().or(Some(gone)));
        }
        let request = self.session.release(id)?;
        Ok(self.wait_for(request, Asked::Other))
    }

    /// Whether the handle with `serial` is the one of what `id` stands for.
    pub(super) fn is_in_hand(&self, id: IntentId, serial: u64) -> bool {
        self.session.stands(id) && self.handles.get(&id).is_some_and(|handle| handle.serial == serial)
    }

    /// The handle with `serial` is gone; with it goes what it held.
    pub(super) fn drop_handle(&mut self, id: IntentId, serial: u64) {
        if self.forget_handle(id, serial) && self.session.stands(id) {
            // Best effort: without a connection it runs to its end.
            let _ = self.session.release(id);
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

    /// The connection is over.
    pub(super) fn connection_lost(&mut self, closed: Closed) {
        self.link = None;
        self.session.disconnected();
        self.deal_out_with(&closed);
        self.phase = Some(Phase::Down(closed));
    }

    fn deal_out(&mut self) {
        self.deal_out_with(&Closed::because(""));
    }

    fn deal_out_with(&mut self, closed: &Closed) {
        use crate::session::agent::Event as Told;
        while let Some(told) = self.session.poll_event() {
            match told {
                Told::Welcomed => self.phase = Some(Phase::Up),
                Told::Reply { request, id, reply } => self.replied(request, id, reply),
                Told::News(news) => self.news(news, closed),
            }
        }
    }

    fn replied(&mut self, request: u64, id: IntentId, reply: Reply) {
        self.answered += 1;
        let Some(Waiter { to, kind }) = self.waiters.remove(&request) else { return };
        let handle = match (&reply, kind) {
            (Reply::Granted { start, end, token, .. }, Asked::Fresh) => {
                Some(self.new_handle(id, Live { token: *token, start: *start, end: *end }))
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
        let (sender, standing) = watch::channel(Standing { live, gone: None });
        self.handles.insert(id, Handle { serial, standing: sender });
        NewHandle { serial, standing }
    }

    fn news(&mut self, news: News, closed: &Closed) {
        let event = match news {
            News::Waiting { id, offer, blockers } => Event::Waiting { id, offer, blockers },
            News::Contested(news) => contested(news),
            News::Renewed { id, end } => {
                self.stand(id, |standing| standing.live.end = end);
                Event::Renewed { id, end }
            }
            News::RenewalDenied { id, end, blockers } => Event::RenewalDenied { id, end, blockers },
            News::Moved { id, start, end, token } => {
                self.stand(id, |standing| *standing = Standing::live(token, start, end));
                Event::Moved { id, start, end, token }
            }
            News::Revised { id, start, end, token } => {
                return self.stand(id, |standing| *standing = Standing::live(token, start, end));
            }
            News::Granted { id, start, end, token } => {
                self.stand(id, |standing| *standing = Standing::live(token, start, end));
                Event::Regranted { id, start, end, token }
            }
            News::Lost { id, token, why } => {
                let lost = Lost::from(why.clone());
                self.stand(id, |standing| standing.gone = Some(lost.clone()));
                match why {
                    Loss::Ended | Loss::Expired => Event::Expired { id, token },
                    Loss::Revoked { by, by_id, offer, waiting } => {
                        Event::Revoked { id, by, by_id, offer, waiting }
                    }
                    // The agent's own doing is no news to it.
                    Loss::Released { reason: None } if !self.handles.contains_key(&id) => return,
                    Loss::Released { .. } | Loss::Unknown | Loss::Replaced => Event::Lost { id, why: lost },
                }
            }
            News::GaveUp { id } => Event::GaveUp { id },
            News::Draining { reason, retry_after } => {
                Event::Draining { reason, retry_after: retry_after.map(Micros::to_std) }
            }
            News::Replaced => Event::Replaced,
            // The agent's own doing is no news to it: the stream ends.
            News::Disconnected if self.closing => return,
            News::Disconnected => Event::Disconnected { why: closed.why.clone() },
            News::ClockUncertain { uncertainty, .. } => {
                Event::ClockUncertain { uncertainty: uncertainty.to_std() }
            }
        };
        self.subscribers.retain_mut(|subscriber| subscriber.tell(&event));
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
