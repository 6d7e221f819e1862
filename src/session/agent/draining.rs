//! What a coordinator says that takes nothing new, and how one asks it to.

use std::sync::Arc;

use super::pending::Ask;
use super::{AgentSession, Link, News, NotTaken};
use crate::types::{Micros, Time};
use crate::wire::{DrainAsk, Draining};

/// What a coordinator has said that takes nothing new.
#[derive(Debug)]
pub(super) struct ToldToDrain {
    pub(super) reason: Arc<str>,
    /// Until when holders may go on; `None` where it stops at once.
    pub(super) deadline: Option<Time>,
}

impl ToldToDrain {
    pub(super) fn of(news: &Draining) -> Self {
        ToldToDrain { reason: news.reason.as_str().into(), deadline: deadline_of(news) }
    }
}

fn deadline_of(news: &Draining) -> Option<Time> {
    news.stands().filter(|stands| !stands.is_over).map(|stands| stands.deadline)
}

impl AgentSession {
    /// Has the coordinator drain, or asks how its drain stands, as one who may administer it. The answer is good for this
    /// connection alone: with another one it is not asked again, and is [`Reply::Unknown`](super::Reply::Unknown).
    ///
    /// # Errors
    /// Where it was not taken; nothing was sent.
    pub fn drain(&mut self, asked: DrainAsk) -> Result<u64, NotTaken> {
        self.may_ask()?;
        Ok(self.ask(Ask::Drain(asked)))
    }

    pub(super) fn told_to_drain(&mut self, news: Draining) {
        let left = news.stands().and_then(|stands| stands.left);
        let (deadline, retry_after) = (deadline_of(&news), news.retry_after_us.map(Micros::from_us));
        if deadline.is_some() {
            // It may have been put off.
            self.holdings.renew_what_was_denied();
        }
        self.news(News::Draining { reason: news.reason, retry_after, deadline, left });
    }

    /// Until when holders may go on, where the coordinator has said that it drains.
    pub(super) fn drains_until(&self) -> Option<Time> {
        match &self.link {
            Link::Up { draining, .. } => draining.as_ref()?.deadline,
            Link::Down | Link::Greeting { .. } => None,
        }
    }
}
