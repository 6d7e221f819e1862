//! A grant in hand.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::watch;

use super::intent::{Intent, When};
use super::outcome::{DeclareError, Released, Renewal, RequestError, Revision};
use super::{Asked, Client, Shared};
use crate::session::agent::{Loss, Terms};
use crate::types::{Fence, IntentId, Micros, Time, Token};

/// A grant's window and token, and what they were granted to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Live {
    pub(super) token: Token,
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) terms: Terms,
}

impl Live {
    fn window(&self, claim: usize) -> (Time, Time) {
        self.terms.window(&self.terms.claims[claim], self.start, self.end)
    }

    /// When the first of its windows begins.
    fn first(&self) -> Time {
        let offsets = self.terms.claims.iter().map(|claim| claim.offset);
        self.start.after(Micros::from_us(offsets.min().unwrap_or_default()))
    }
}

/// How a grant stands: its latest window, and why it is gone, if it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    pub(super) live: Live,
    pub(super) gone: Option<Lost>,
}

impl Standing {
    pub(super) fn live(token: Token, start: Time, end: Time, terms: Terms) -> Self {
        Standing { live: Live { token, start, end, terms }, gone: None }
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
    /// The lease's end has come, or may have, and it could not be renewed: somebody was granted a later window on it,
    /// or it would have been longer than is allowed. [`super::Event::RenewalDenied`] told of it when it was denied.
    #[error("the lease has ended: {}", by.as_ref().map_or_else(|| "it may be no longer".to_owned(), |by| format!("it was not renewed, since {by} has what it holds from then on")))]
    NotRenewed {
        /// Who has the later window, where that is why.
        by: Option<String>,
    },
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
    /// A revision of it is unanswered, and what that gives up may be another's by now. Once it is answered the
    /// [`Grant`] is in force again: as it was where that was refused, and as revised where it was granted.
    #[error("a revision of the grant is on its way, and may have taken its place")]
    Revising,
    /// It has another window and another token now: it was moved for a higher class, or revised, maybe by another
    /// process of this name, which has it then.
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
            Loss::NotRenewed { by } => Lost::NotRenewed { by },
            Loss::Expired => Lost::Expired,
            Loss::Released { reason } => Lost::Released { reason },
            Loss::Revoked { by, by_id, offer, waiting } => Lost::Revoked { by, by_id, offer, waiting },
            Loss::Unknown => Lost::Unknown,
            Loss::Replaced => Lost::Replaced,
            Loss::Revising => Lost::Revising,
            Loss::Taken { token } => Lost::Moved { token },
        }
    }
}

/// A grant in hand. A lease renews itself at a third of its time for as long as this lives, over new
/// connections too. Clones are handles of the same grant and see the same end. Dropping the last one sends a
/// release, as well as it can, and does not wait: what another client declares right after may still find it there.
/// [`Grant::release`] says what came of it, and [`Grant::detach`] lets it run on alone.
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
    /// µs of coordinator time; another after a revision.
    decided_at: AtomicU64,
}

impl Grant {
    pub(super) fn new(
        client: Client,
        id: IntentId,
        serial: u64,
        decided_at: Time,
        standing: watch::Receiver<Standing>,
    ) -> Self {
        let decided_at = AtomicU64::new(decided_at.as_us());
        Grant { inner: Arc::new(Inner { client, id, serial, decided_at }), standing }
    }

    /// The client that has it.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The intent's id.
    pub fn id(&self) -> IntentId {
        self.inner.id
    }

    /// When its declaration, or its latest revision by [`Grant::revise`], was decided, by the
    /// coordinator's clock: the end of that slot.
    pub fn decided_at(&self) -> Time {
        Time::from_us(self.inner.decided_at.load(Ordering::Relaxed))
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

    /// The window of claim number `claim`, counted from 0 in the order in which they were declared, by the
    /// coordinator's clock and half-open. Of a lease, the claims that end last are renewed; the others end as they were
    /// declared.
    ///
    /// # Panics
    /// Where the intent has no such claim.
    pub fn window(&self, claim: usize) -> (Time, Time) {
        self.standing.borrow().live.window(claim)
    }

    /// The instant of the agent's own clock from which on the grant surely has begun: its first window.
    pub fn begins(&self) -> Instant {
        let first = self.standing.borrow().live.first();
        self.shared().clock.shown(self.shared().from(first))
    }

    /// The instant of the agent's own clock until which it is surely in force, unless it is lost
    /// otherwise: the uncertainty of the coordinator's clock is taken off, and the millisecond by which timers
    /// ring late. It rises with renewals. Where the machine was suspended since, it is earlier than it was said
    /// to be: ask again, or [`Grant::check`].
    pub fn until(&self) -> Instant {
        let standing = self.standing.borrow().clone();
        self.shared().clock.shown(self.shared().until(&standing.live))
    }

    /// The fence of claim number `claim`, counted from 0 in the order in which they were declared.
    ///
    /// # Panics
    /// Where the intent has no such claim.
    pub fn fence(&self, claim: usize) -> Fence {
        let live = &self.standing.borrow().live;
        Fence { start: live.window(claim).0, token: live.token }
    }

    /// Whether it is still in hand, by the clock as it is now: true also after the process was
    /// stopped for a while. Cheap; ask right before each step that must not be taken without it. It looks at the grant
    /// as a whole, up to the latest end of its claims; for a claim whose window is another, ask
    /// [`Grant::check_claim`].
    ///
    /// # Errors
    /// Why it is gone.
    pub fn check(&self) -> Result<(), Lost> {
        let standing = self.standing.borrow().clone();
        let shared = self.shared();
        let has_given_way = || shared.look(|state, now| state.session.may_have_given_way(self.inner.id, now));
        match standing.gone {
            Some(why) => Err(why),
            None if shared.clock.now() >= shared.until(&standing.live) || has_given_way() => {
                Err(over(shared, &self.standing))
            }
            None => Ok(()),
        }
    }

    /// As [`Grant::check`], and whether the window of claim number `claim` surely has begun and surely is not over.
    ///
    /// # Errors
    /// Why it may not be used now: [`Lost::Ended`] where its own window is over, and `None` where it has not
    /// begun.
    ///
    /// # Panics
    /// Where the intent has no such claim.
    pub fn check_claim(&self, claim: usize) -> Result<(), Option<Lost>> {
        self.check().map_err(Some)?;
        let (from, until) = self.window(claim);
        let (shared, now) = (self.shared(), self.shared().clock.now());
        if now >= shared.stop(from, until) {
            return Err(Some(Lost::Ended));
        }
        if now < shared.from(from) { Err(None) } else { Ok(()) }
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
                if let Some(why) = over_or_changed(&shared, &mut standing, &now.live).await {
                    return why;
                }
            }
        }
    }

    /// Resolves when the grant is in hand neither as it is now nor as it is moved or revised.
    fn lost_for_good(&self) -> impl Future<Output = Lost> + Send + 'static {
        let (shared, mut standing) = (Arc::clone(self.shared()), self.standing.clone());
        async move {
            loop {
                let now = standing.borrow_and_update().clone();
                let why = match now.gone {
                    None => over_or_changed(&shared, &mut standing, &now.live).await,
                    // Its answer, or its end, changes the standing.
                    Some(Lost::Revising) => changed(&mut standing).await,
                    why => why,
                };
                if let Some(why) = why {
                    return why;
                }
            }
        }
    }

    /// Resolves when the grant surely has begun: the first of its windows. Cancel safe.
    pub async fn begun(&self) {
        let shared = self.shared();
        loop {
            let first = self.standing.borrow().live.first();
            let begins = shared.from(first);
            if shared.clock.now() >= begins {
                return;
            }
            shared.clock.sleep_until(begins).await;
        }
    }

    /// Runs `work` while the grant is in force: from its first window's start, and no longer than it is in hand, which
    /// is up to the latest end of its claims: where they have other windows, `work` looks at
    /// [`Grant::check_claim`]. Where it is lost, moved or revised, `work` is dropped at its next await and the reason
    /// returned; that includes a revision that is unanswered for so long that what it gives up may be another's
    /// ([`Lost::Revising`]).
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

    /// As [`Grant::guarded`], but `work` goes on where the grant is moved or revised, and while a revision is
    /// under way: it is to look at [`Grant::check`], [`Grant::window`] and [`Grant::fence`] again, which are others then,
    /// and [`super::Event::Moved`] says when. It waits for nothing: where the new window has not begun, `work` is not
    /// stopped. Cancel safe as far as `work` is.
    ///
    /// # Errors
    /// Why the grant is no longer in hand; [`Lost::Moved`] only where this handle is not the one that has it now.
    pub async fn guarded_through_moves<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        self.check()?;
        let lost = self.lost_for_good();
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

    /// Declares `intent` in the grant's place. Where it is refused, the grant stays as it was. What a granted
    /// revision gives up may be another's before its answer is here: where that can be so, because the answer takes longer
    /// than a slot, the grant is not in hand ([`Lost::Revising`]) until the answer has come. One whose windows all lie in
    /// those of an intent with a fixed start and no slack gives up nothing, and stays in hand all along. Not
    /// cancel safe: once sent it takes its course, and the grant follows what comes of it.
    ///
    /// # Errors
    /// Where it came to no outcome; see [`DeclareError`].
    pub async fn revise(&self, intent: Intent) -> Result<Revision, DeclareError> {
        let intent = intent.revises(self.inner.id);
        let policies = &self.inner.client.inner.policies;
        let plan = policies.candidate(&intent);
        let (id, answered) = self.inner.client.ask(intent, Asked::Revision, true).await?;
        match super::to_outcome(id, answered.reply)? {
            super::Plain::Granted { at } => {
                self.inner.decided_at.store(at.as_us(), Ordering::Relaxed);
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

/// `None` where the standing has changed before `live` is over.
async fn over_or_changed(
    shared: &Shared,
    standing: &mut watch::Receiver<Standing>,
    live: &Live,
) -> Option<Lost> {
    let until = shared.until(live);
    if shared.clock.now() >= until {
        return Some(over(shared, standing));
    }
    tokio::select! {
        biased;
        why = changed(standing) => why,
        () = shared.clock.sleep_until(until) => None,
    }
}

/// `None` where the standing has changed; why the grant is gone where it never will.
async fn changed(standing: &mut watch::Receiver<Standing>) -> Option<Lost> {
    match standing.changed().await {
        Ok(()) => None,
        Err(_) => Some(standing.borrow().gone.clone().unwrap_or(Lost::Released { reason: None })),
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
