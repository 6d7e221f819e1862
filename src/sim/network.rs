//! The network between agents and the coordinator: connections as QUIC gives them, which lose nothing
//! and reorder nothing within themselves, but may be slow, stand still, be cut, and stand on one side
//! alone.

use super::dice::Dice;
use crate::session::coordinator::ConnectionId;

/// A side that has heard nothing for so long gives the connection up. QUIC takes the lower of what both
/// sides offer, so they give up about together, but not at once.
const IDLE_US: (u64, u64) = (9_800_000, 10_400_000);

/// How the way between an agent and the coordinator is.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The least that a message takes.
    pub(super) delay: u64,
    /// What it may take beside.
    pub(super) jitter: u64,
    /// Of a hundred messages, how many have to be sent again.
    pub(super) loss: u64,
    /// Until then nothing gets through.
    pub(super) blocked_until: u64,
}

impl Way {
    pub(super) fn good(dice: &mut Dice) -> Self {
        Way {
            delay: dice.within(100, 20_000),
            jitter: dice.within(0, 5_000),
            loss: dice.below(2),
            blocked_until: 0,
        }
    }

    pub(super) fn is_blocked(&self, at: u64) -> bool {
        at < self.blocked_until
    }

    /// When something that is sent at `at` arrives: what is lost is sent again a while later.
    fn arrival(&self, at: u64, dice: &mut Dice) -> u64 {
        let mut arrival = at.max(self.blocked_until) + self.delay + dice.within(0, self.jitter);
        let mut patience = 2 * self.delay + 25_000;
        while dice.percent(self.loss) {
            arrival += patience;
            patience *= 2;
        }
        if self.is_blocked(at) {
            // Sent again ever more rarely while nothing came through.
            arrival += dice.within(0, ((self.blocked_until - at) / 2).min(3_000_000));
        }
        arrival
    }
}

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// It does not know of it yet.
    Unborn,
    /// It stands, and something was heard of the other side at that time.
    Open { heard: u64 },
    /// It is no more.
    Closed,
}

impl Side {
    pub(super) fn is_open(self) -> bool {
        matches!(self, Side::Open { .. })
    }

    pub(super) fn heard(&mut self, at: u64) {
        if let Side::Open { heard } = self {
            *heard = at;
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    /// Whose.
    pub(super) process: usize,
    pub(super) agent: Side,
    pub(super) coordinator: Side,
    /// As the coordinator numbers it, once it does.
    pub(super) connection: Option<ConnectionId>,
    /// Which run of the coordinator it goes to.
    pub(super) life: u64,
    /// When the last thing that was sent arrives, to the coordinator and to the agent.
    last: [u64; 2],
    patience: [u64; 2],
}

/// Which way something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Coordinator,
    Agent,
}

impl Link {
    pub(super) fn new(process: usize, life: u64, dice: &mut Dice) -> Self {
        let (low, high) = IDLE_US;
        Link {
            process,
            agent: Side::Unborn,
            coordinator: Side::Unborn,
            connection: None,
            life,
            last: [0; 2],
            patience: [dice.within(low, high), dice.within(low, high)],
        }
    }

    /// When something that is sent at `at` arrives: after all that was sent before it.
    pub(super) fn send(&mut self, to: To, at: u64, way: &Way, dice: &mut Dice) -> u64 {
        let last = &mut self.last[to as usize];
        *last = way.arrival(at, dice).max(*last + 1);
        *last
    }

    /// Whether a side has heard nothing for too long.
    pub(super) fn is_given_up(&self, side: To, at: u64) -> bool {
        let state = match side {
            To::Coordinator => self.coordinator,
            To::Agent => self.agent,
        };
        matches!(state, Side::Open { heard } if at.saturating_sub(heard) >= self.patience[side as usize])
    }

    /// Whether something that is under way takes long.
    pub(super) fn is_behind(&self, at: u64) -> bool {
        self.last.iter().any(|last| *last > at + 1_000_000)
    }

    pub(super) fn is_over(&self) -> bool {
        !self.agent.is_open() && !self.coordinator.is_open()
    }
}
