//! A grant in hand.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use super::intent::{Intent, When};
use super::outcome::{DeclareError, Released, Renewal, RequestError, Revision};
use super::{Asked, Client, Shared};
use crate::session::agent::Loss;
use crate::types::{Fence, IntentId, Micros, Time, Token};

/// A grant's window and token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) token: Token,
    pub(super) start: Time,
    pub(super) end: Time,
}

/// How a grant stands: its latest window, and why it is gone, if it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) live: Live,
    pub(super) gone: Option<Lost>,
}

impl Standing {
    pub(super) fn live(token: Token, start: Time, end: Time) -> Self {
        Standing { live: Live { token, start, end }, gone: None }
    }
}

/// Why a grant, as it was, is no longer in hand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// Its end has come, or may have, by the agent's own clock less its uncertainty.
    #[error("the grant has ended")]
    Ended,
    /// The lease's end has come, or may have, and none of its renewals was answered: the coordinator could
    /// not be reached.
    #[error("the lease has run out: no coordinator could be reached to renew it")]
    Unreachable,
    /// The coordinator says that the lease has ended.
    #[error("the lease has expired")]
    Expired,
    /// It was released: by its own agent, or by the operator, who may have said why.
    #[error("the grant was released{}", reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Released {
        /// The operator's reason.
        reason: Option<String>,
    },
    /// It was withdrawn for a higher class.
    #[error("the grant was revoked for {by} (intent {by_id})")]
    Revoked {
        /// The agent that it gave way to.
        by: String,
        /// That agent's intent.
        by_id: IntentId,
        /// The earliest start that would be free, by the coordinator's clock.
        offer: Option<Time>,
        /// Whether the intent waits on. Where it is granted again, its [`Grant`] is in force again; where
        /// the `Grant` is dropped before, it is withdrawn.
        waiting: bool,
    },
    /// It has another window and another token now: it was moved for a higher class, or revised.
    #[error("the grant has another window and token now ({token})")]
    Moved {
        /// Its new token.
        token: Token,
    },
    /// It was detached by another handle, and runs on alone.
    #[error("the grant was detached and runs on alone")]
    Detached,
    /// A newer process has taken over this name and label, and the grant with it.
    #[error("a newer process has taken over this name and label")]
    Replaced,
    /// The coordinator does not have it: it ended while this agent was away, so long ago that nobody remembers
    /// why, or the coordinator has lost its state.
    #[error("the coordinator does not have the grant any more")]
    Unknown,
}

impl From<Loss> for Lost {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Ended => Lost::Ended,
            Loss::Unreachable => Lost::Unreachable,
            Loss::Expired => Lost::Expired,
            Loss::Released { reason } => Lost::Released { reason },
            Loss::Revoked { by, by_id, offer, waiting } => Lost::Revoked { by, by_id, offer, waiting },
            Loss::Unknown => Lost::Unknown,
            Loss::Replaced => Lost::Replaced,
        }
    }
}

/// A grant in hand. A lease renews itself at a third of its time for as long as this lives, over new
/// connections too. Clones are handles of the same grant and see the same end. Dropping the last one sends a
/// release, as well as it can; [`Grant::release`] says what came of it, and [`Grant::detach`] lets it
/// run on alone.
#[must_use = "a grant that is dropped is released"]
#[derive(Clone, Debug)]
pub struct Grant {
    inner: Arc<Inner>,
    standing: watch::Receiver<Standing>,
}

/// What the handles of one grant share. The grant lives as long as this does.
#[derive(Debug)]
struct Inner {
    client: Client,
    id: IntentId,
    serial: u64,
    terms: Mutex<Terms>,
}

/// What was asked for, and when it was decided; another after a revision.
#[derive(Clone, Debug)]
struct Terms {
    offsets: Arc<[Micros]>,
    decided_at: Time,
}

impl Inner {
    // A panic under the lock would leave either terms, both whole.
    fn terms(&self) -> MutexGuard<'_, Terms> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Grant {
    pub(super) fn new(
        client: Client,
        id: IntentId,
        serial: u64,
        offsets: Arc<[Micros]>,
        decided_at: Time,
        standing: watch::Receiver<Standing>,
    ) -> Self {
        let terms = Mutex::new(Terms { offsets, decided_at });
        Grant { inner: Arc::new(Inner { client, id, serial, terms }), standing }
    }

    /// The intent's id.
    pub fn id(&self) -> IntentId {
        self.inner.id
    }

    /// When its declaration, or its latest revision by [`Grant::revise`], was decided, by the
    /// coordinator's clock: the end of that slot.
    pub fn decided_at(&self) -> Time {
        self.inner.terms().decided_at
    }

    /// The token; another one after a move or a revision.
    pub fn token(&self) -> Token {
        self.standing.borrow().live.token
    }

    /// The intent's start, before its claims' offsets, by the coordinator's clock.
    pub fn start(&self) -> Time {
        self.standing.borrow().live.start
    }

    /// The latest end of its claims, renewals included, by the coordinator's clock.
    pub fn end(&self) -> Time {
        self.standing.borrow().live.end
    }

    /// The instant of the agent's own clock from which on the grant surely has begun.
    pub fn begins(&self) -> Instant {
        self.shared().clock.shown(self.shared().from(self.start()))
    }

    /// The instant of the agent's own clock until which it is surely in force, unless it is lost
    /// otherwise: the uncertainty of the coordinator's clock is taken off, and the millisecond by which timers
    /// ring late. It rises with renewals. Where the machine was suspended since, it is earlier than it was said
    /// to be: ask again, or [`Grant::check`].
    pub fn until(&self) -> Instant {
        let live = self.standing.borrow().live;
        self.shared().clock.shown(self.shared().until(live))
    }

    /// The fence of claim number `claim`, counted from 0 in the order in which they were declared.
    ///
    /// # Panics
    /// Where the intent has no such claim.
    pub fn fence(&self, claim: usize) -> Fence {
        let live = self.standing.borrow().live;
        Fence { start: live.start.after(self.inner.terms().offsets[claim]), token: live.token }
    }

    /// Whether it is still in hand, by the clock as it is now: true also after the process was
    /// stopped for a while. Cheap; ask right before each step that must not be taken without it.
    ///
    /// # Errors
    /// Why it is gone.
    pub fn check(&self) -> Result<(), Lost> {
        let standing = self.standing.borrow().clone();
        match standing.gone {
            Some(why) => Err(why),
            None if self.shared().clock.now() >= self.shared().until(standing.live) => {
                Err(over(self.shared(), &self.standing))
            }
            None => Ok(()),
        }
    }

    /// Resolves when the grant, as it is now, is no longer in hand: lost, moved or revised. It lives by
    /// the agent's own clock, whatever the connection does, and needs this handle no longer.
    /// Cancel safe.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        let (shared, mut standing) = (Arc::clone(self.shared()), self.standing.clone());
        let token = standing.borrow().live.token;
        async move {
            loop {
                let now = standing.borrow_and_update().clone();
                if let Some(why) = now.gone {
                    return why;
                }
                if now.live.token != token {
                    return Lost::Moved { token: now.live.token };
                }
                let until = shared.until(now.live);
                if shared.clock.now() >= until {
                    return over(&shared, &standing);
                }
                tokio::select! {
                    biased;
                    changed = standing.changed() => if changed.is_err() {
                        return standing.borrow().gone.clone().unwrap_or(Lost::Released { reason: None });
                    },
                    () = shared.clock.sleep_until(until) => {}
                }
            }
        }
    }

    /// Resolves when the grant surely has begun. Cancel safe.
    pub async fn begun(&self) {
        let shared = self.shared();
        loop {
            let begins = shared.from(self.start());
            if shared.clock.now() >= begins {
                return;
            }
            shared.clock.sleep_until(begins).await;
        }
    }

    /// Runs `work` while the grant is in force: from its start, and no longer than it is in hand. Where
    /// it is lost, moved or revised, `work` is dropped at its next await and the reason returned.
    /// Cancel safe as far as `work` is. Code between two awaits of `work` cannot be stopped; it can
    /// ask [`Grant::check`], and the store that it writes to must check the fence.
    ///
    /// # Errors
    /// Why the grant is no longer in hand.
    pub async fn guarded<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        self.check()?;
        let lost = self.lost();
        let work = async {
            self.begun().await;
            work.await
        };
        tokio::select! {
            biased;
            why = lost => Err(why),
            output = work => Ok(output),
        }
    }

    /// As [`Grant::guarded`], but `work` goes on where the grant is moved or revised: it is to look at
    /// [`Grant::start`] and [`Grant::fence`] again, which are others then, and [`super::Event::Moved`] says
    /// when. It waits for nothing: where the new window has not begun, `work` is not stopped. Cancel safe as far as
    /// `work` is.
    ///
    /// # Errors
    /// Why the grant is no longer in hand; never [`Lost::Moved`].
    pub async fn guarded_through_moves<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        self.check()?;
        let lost = async {
            loop {
                match self.lost().await {
                    Lost::Moved { .. } => {}
                    why => return why,
                }
            }
        };
        let work = async {
            self.begun().await;
            work.await
        };
        tokio::select! {
            biased;
            why = lost => Err(why),
            output = work => Ok(output),
        }
    }

    /// Asks for a new end of a lease: a time, by either clock. An end at or before the present one
    /// changes nothing. Cancel safe: the renewal may or may not be done.
    ///
    /// # Errors
    /// Where no answer can be had.
    pub async fn renew(&self, until: impl Into<When>) -> Result<Renewal, RequestError> {
        self.inner.client.renew(self.inner.id, until).await
    }

    /// Declares `intent` in the grant's place. Where it is refused, the grant stays as it was. Until it is
    /// known what came of it, count on what is in the old windows and in the new ones alike, and on nothing else: what a
    /// granted revision leaves may be another's before its answer is here. Not
    /// cancel safe: once sent it takes its course, and the grant follows what comes of it.
    ///
    /// # Errors
    /// Where it came to no outcome; see [`DeclareError`].
    pub async fn revise(&self, intent: Intent) -> Result<Revision, DeclareError> {
        let intent = intent.revises(self.inner.id);
        let offsets = super::offsets_of(&intent);
        let policies = &self.inner.client.inner.policies;
        let plan = policies.candidate(&intent);
        let (id, answered) = self.inner.client.ask(intent, Asked::Revision, true).await?;
        match super::to_outcome(id, answered.reply)? {
            super::Plain::Granted { at } => {
                *self.inner.terms() = Terms { offsets, decided_at: at };
                policies.granted(plan, id, &self.standing);
                Ok(Revision::Granted)
            }
            super::Plain::Conflict(conflict) => Ok(Revision::Conflict(conflict)),
            super::Plain::Stale(stale) => Ok(Revision::Stale(stale)),
            super::Plain::Rejected(why) => Ok(Revision::Rejected(why)),
        }
    }

    /// Releases it, and says whether there was anything left to release. From the call on it is not
    /// in hand, whatever comes of it, and its clones see that it was released. Cancel safe: the release is
    /// on its way before the first await.
    ///
    /// # Errors
    /// Where no answer can be had in time: it is released as soon as a connection stands, or runs to its
    /// end. That the grant has ended already is none.
    pub async fn release(self) -> Result<Released, RequestError> {
        // What has ended is not asked about: its id may stand for something new by now.
        let in_hand = self.shared().with(|state, now| {
            state.session.tick(now);
            state.is_in_hand(self.inner.id, self.inner.serial)
        });
        match self.standing.borrow().gone.clone() {
            Some(why) if !in_hand => return Ok(Released::AlreadyEnded(Some(why))),
            _ => {}
        }
        self.inner.client.release(self.inner.id).await
    }

    /// Lets it run on alone, to its end: it is neither renewed nor released when its handles go, and clones
    /// see [`Lost::Detached`].
    /// Returns its id, by which [`Client::release`] can end it.
    pub fn detach(self) -> IntentId {
        let (id, serial) = (self.inner.id, self.inner.serial);
        self.shared().with(|state, _| state.detach(id, serial));
        id
    }

    fn shared(&self) -> &Arc<Shared> {
        self.inner.client.shared()
    }
}

/// Why a grant is gone whose end has come by the agent's own clock: the session knows it once its timer
/// has run, which need not have been yet.
fn over(shared: &Shared, standing: &watch::Receiver<Standing>) -> Lost {
    shared.with(|state, now| state.session.tick(now));
    standing.borrow().gone.clone().unwrap_or(Lost::Ended)
}

impl Drop for Inner {
    fn drop(&mut self) {
        let (id, serial) = (self.id, self.serial);
        self.client.shared().with(|state, _| state.drop_handle(id, serial));
    }
}
