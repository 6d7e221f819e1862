//! News for the agent, as a stream.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::mpsc;

use super::Lost;
use super::degrade::Tally;
use crate::types::{Class, IntentId, Time, Token, Window};
use crate::wire::{Blocker, InForce};

/// Something that happened, to one of the agent's intents or to the session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A declaration was not placed yet and waits.
    Waiting {
        /// Which intent.
        id: IntentId,
        /// The earliest start that would be free later; it reserves nothing.
        offer: Option<Time>,
        /// Who is in the way.
        blockers: Vec<Blocker>,
    },
    /// Of an intent's priority less counts than was declared, since a rule of the coordinator's caps it or the agent's
    /// allowance is spent; or it counts, and was paid for out of that. Told ahead of what the intent came to.
    InForce {
        /// Which intent.
        id: IntentId,
        /// What counts, why, and what is left of the allowance.
        of: InForce,
    },
    /// Somebody wants what this agent holds, and the holder may yield.
    Contested {
        /// The intent that is in the way.
        id: IntentId,
        /// The token of its grant.
        token: Token,
        /// When that was seen: the decision time of its slot.
        at: Time,
        /// Who wants it.
        by: String,
        /// With which intent.
        by_id: IntentId,
        /// Of which class.
        class: Class,
        /// When, by the coordinator's clock.
        wanted: Window,
        /// How long it may still wait.
        waits: Duration,
        /// What it wrote beside it, for people; may be empty.
        note: String,
    },
    /// The lease ends at `end` now.
    Renewed {
        /// Which intent.
        id: IntentId,
        /// Its end, by the coordinator's clock.
        end: Time,
    },
    /// The lease was not renewed; its end stands.
    RenewalDenied {
        /// Which intent.
        id: IntentId,
        /// The end that stands, by the coordinator's clock.
        end: Time,
        /// Who is in the way.
        blockers: Vec<Blocker>,
    },
    /// The grant was withdrawn for a higher class and placed again: its window and fences are others.
    Moved {
        /// Which intent.
        id: IntentId,
        /// Its start, by the coordinator's clock.
        start: Time,
        /// Its end, by the coordinator's clock.
        end: Time,
        /// Its new token.
        token: Token,
    },
    /// A grant that was revoked has been given again.
    Regranted {
        /// Which intent.
        id: IntentId,
        /// Its start, by the coordinator's clock.
        start: Time,
        /// Its end, by the coordinator's clock.
        end: Time,
        /// Its new token.
        token: Token,
    },
    /// The grant was withdrawn for a higher class.
    Revoked {
        /// Which intent.
        id: IntentId,
        /// The agent that it gave way to.
        by: String,
        /// That agent's intent.
        by_id: IntentId,
        /// The earliest start that would be free.
        offer: Option<Time>,
        /// Whether the intent waits on, and may be granted again.
        waiting: bool,
    },
    /// An intent that waited on after its grant was revoked has ended without another.
    GaveUp {
        /// Which intent.
        id: IntentId,
    },
    /// The grant has ended, by the agent's own clock or by the coordinator's word.
    Expired {
        /// Which intent.
        id: IntentId,
        /// The token of its grant.
        token: Token,
    },
    /// The grant is gone for another reason.
    Lost {
        /// Which intent.
        id: IntentId,
        /// Why.
        why: Lost,
    },
    /// The connection was lost, and is tried for again. Grants in hand stay good until their ends; what
    /// is asked meanwhile is sent as soon as a connection stands.
    Disconnected {
        /// In words.
        why: String,
    },
    /// The connection stands again, under the same session: what was not answered is asked again, leases
    /// are renewed, and what ended meanwhile is told in the events that follow.
    Resumed {
        /// How long there was none.
        away: Duration,
        /// How often this client degraded since that was last told.
        degradations: Tally,
    },
    /// A newer process has taken over this name and label: its grants are that one's.
    Replaced,
    /// The coordinator takes nothing new: it shuts down at once, or drains. What is declared is refused as
    /// [draining](crate::wire::Refusal::Draining), which may be had again from whoever takes over, and what waits ends so. Where it
    /// drains, grants may be used, given back and renewed up to the deadline; what stands then stands on, and whoever takes over
    /// knows it.
    Draining {
        /// Why, for people; may be empty.
        reason: String,
        /// When to try again, where that is known.
        retry_after: Option<Duration>,
        /// Until when holders may go on, by the coordinator's clock; `None` where it stops at once.
        deadline: Option<Time>,
        /// Grants in force, all agents' together, where it drains and this agent may administer.
        left: Option<u64>,
    },
    /// The coordinator's time is known less well than it should be, or one of the clocks jumped.
    ClockUncertain {
        /// How far it may be off, either way.
        uncertainty: Duration,
    },
    /// So many events were left out here, because this stream was not read in time.
    Missed(u64),
}

/// The events from the moment at which it was made, in order. Cancel safe; ends with the client.
#[derive(Debug)]
pub struct Events(pub(super) mpsc::Receiver<Event>);

impl Events {
    /// The next event; `None` when the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }

    /// The next event, where it has happened already.
    pub fn try_next(&mut self) -> Option<Event> {
        self.0.try_recv().ok()
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_recv(cx)
    }
}

/// The sending end of one stream of events.
#[derive(Debug)]
pub(super) struct Subscriber {
    to: mpsc::Sender<Event>,
    missed: u64,
}

impl Subscriber {
    pub(super) fn new(room: usize) -> (Self, Events) {
        let (to, events) = mpsc::channel(room);
        (Subscriber { to, missed: 0 }, Events(events))
    }

    /// Hands over the event, or counts it where the reader is too slow. Says whether there still is
    /// a reader.
    pub(super) fn tell(&mut self, event: &Event) -> bool {
        if self.missed > 0 && self.to.try_send(Event::Missed(self.missed)).is_ok() {
            self.missed = 0;
        }
        let told = self.missed == 0 && self.to.try_send(event.clone()).is_ok();
        self.missed += u64::from(!told);
        !self.to.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumed() -> Event {
        Event::Resumed { away: Duration::ZERO, degradations: Tally::default() }
    }

    #[test]
    fn a_slow_reader_is_told_how_much_it_missed_and_costs_no_memory() {
        let (mut subscriber, mut events) = Subscriber::new(2);
        for _ in 0..5 {
            assert!(subscriber.tell(&resumed()));
        }
        assert_eq!(events.0.try_recv(), Ok(resumed()));
        assert_eq!(events.0.try_recv(), Ok(resumed()));
        assert!(subscriber.tell(&Event::Replaced));
        assert_eq!(events.0.try_recv(), Ok(Event::Missed(3)));
        assert_eq!(events.0.try_recv(), Ok(Event::Replaced));
        drop(events);
        assert!(!subscriber.tell(&Event::Replaced));
    }
}
