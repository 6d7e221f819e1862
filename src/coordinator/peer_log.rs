//! What the log says of peers: who it was and what it did, at a bounded rate, with how much was left out.
//!
//! Every line that a peer can cause goes through here, so that nobody fills the log, or hides in it behind a flood of
//! lines about others: each address has its own room, and all together have theirs.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::doorstep::one_of;
use super::pace::{Pace, Rate};
use crate::config::printable_within;
use crate::limits::{self, Limit, Reached};
use crate::types::{FixedMap, Time};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct PeerLog {
    state: Mutex<State>,
    reached: Arc<Reached>,
}

#[derive(Debug, Default)]
struct State {
    addresses: FixedMap<IpAddr, OfAddress>,
    all: Pace,
    /// Lines that were left out about addresses that are not in the table.
    others: u64,
}

#[derive(Debug, Default)]
struct OfAddress {
    pace: Pace,
    left_out: u64,
}

fn lines(count: u64) -> Rate {
    Rate::new(count, limits::PEER_LINES_WITHIN)
}

/// Lines that were left out: about whom, and how many.
type LeftOut = Vec<(Option<IpAddr>, u64)>;

impl State {
    /// Whether a line about `address` is written, and how many were left out before it.
    fn admit(&mut self, address: IpAddr, now: Time) -> Option<u64> {
        let (each, all) = (lines(limits::PEER_LINES_OF_AN_ADDRESS), lines(limits::PEER_LINES));
        if !self.addresses.contains_key(&address) && self.addresses.len() >= limits::PEER_LINES_ADDRESSES {
            self.addresses.retain(|_, of| of.left_out > 0 || !of.pace.is_at_rest(now));
        }
        if !self.addresses.contains_key(&address) && self.addresses.len() >= limits::PEER_LINES_ADDRESSES {
            self.others += 1;
            return None;
        }
        let of = self.addresses.entry(address).or_default();
        if of.pace.lets_through(now, each) && self.all.lets_through(now, all) {
            return Some(std::mem::take(&mut of.left_out));
        }
        of.left_out += 1;
        None
    }

    /// What was left out and is to be told by now. As many lines as there is room for.
    fn owed(&mut self, now: Time) -> LeftOut {
        let all = lines(limits::PEER_LINES);
        let mut owed = LeftOut::new();
        if self.others > 0 && self.all.lets_through(now, all) {
            owed.push((None, std::mem::take(&mut self.others)));
        }
        for (address, of) in &mut self.addresses {
            if of.left_out > 0 && self.all.lets_through(now, all) {
                owed.push((Some(*address), std::mem::take(&mut of.left_out)));
            }
        }
        self.addresses.retain(|_, of| of.left_out > 0 || !of.pace.is_at_rest(now));
        owed
    }

    /// How much is left out that has not been told.
    fn rest(&mut self) -> u64 {
        let of_addresses = self.addresses.values_mut().map(|of| std::mem::take(&mut of.left_out));
        of_addresses.sum::<u64>() + std::mem::take(&mut self.others)
    }
}

impl PeerLog {
    pub(super) fn new(reached: Arc<Reached>) -> Self {
        PeerLog { state: Mutex::default(), reached }
    }

    /// Writes that the peer at `address`, under the name `agent` where one is known, did `what`; or leaves it out
    /// and counts it.
    pub(super) fn tell(&self, address: IpAddr, agent: Option<&str>, now: Time, what: impl fmt::Display) {
        let admitted = self.lock().admit(one_of(address), now);
        let Some(left_out) = admitted else { return self.reached.note(Limit::PeerLines) };
        // It may hold what a peer sent, such as its reason to close.
        let what = shown(&what.to_string(), limits::PEER_LINE_CHARACTERS);
        let agent = agent.map(|agent| shown(agent, limits::AGENT_BYTES));
        match left_out {
            0 => tracing::warn!(peer = %address, agent, "{what}"),
            left_out => tracing::warn!(peer = %address, agent, left_out, "{what}"),
        }
    }

    /// Says what was left out and has not been told since. To be called every
    /// [`limits::PEER_LINES_WITHIN`].
    pub(super) fn tell_left_out(&self, now: Time) {
        let owed = self.lock().owed(now);
        for (address, left_out) in owed {
            match address {
                Some(peer) => tracing::warn!(%peer, left_out, "lines about this address were left out"),
                None => tracing::warn!(left_out, "lines about other addresses were left out"),
            }
        }
    }

    /// Says how much is left out that has not been told, when nothing more will be.
    pub(super) fn tell_rest(&self) {
        let left_out = self.lock().rest();
        if left_out > 0 {
            tracing::warn!(left_out, "lines about peers were left out");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Plain values, whole at any instant.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a peer sent, as it may stand in a line: it ends none, and nothing in it looks like one of the line's own fields.
fn shown(text: &str, most: usize) -> String {
    printable_within(text, most).replace('=', "\\u{3d}")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(number))
    }

    fn second(number: u64) -> Time {
        Time::from_us(number * 1_000_000)
    }

    #[test]
    fn what_a_peer_sent_ends_no_line_and_forges_no_field() {
        let text = shown("x\n2026 WARN peer=192.0.2.1 \u{202e}", 100);
        assert_eq!(text, "x\\n2026 WARN peer\\u{3d}192.0.2.1 \\u{202e}");
    }

    #[test]
    fn one_address_has_its_lines_and_the_next_one_says_how_many_were_left_out() {
        let mut state = State::default();
        let told = (0..100).filter(|_| state.admit(address(1), second(5)).is_some()).count();
        assert_eq!(told as u64, limits::PEER_LINES_OF_AN_ADDRESS);
        assert_eq!(state.admit(address(2), second(5)), Some(0), "another one");
        assert_eq!(state.admit(address(1), second(9)), Some(100 - told as u64));
        assert_eq!(state.admit(address(1), second(20)), Some(0));
    }

    #[test]
    fn what_was_left_out_is_told_even_where_nothing_comes_after_it() {
        let mut state = State::default();
        for _ in 0..100 {
            state.admit(address(1), second(5));
        }
        let left_out = 100 - limits::PEER_LINES_OF_AN_ADDRESS;
        assert_eq!(state.owed(second(15)), [(Some(address(1)), left_out)]);
        assert_eq!(state.rest(), 0);
        assert_eq!(state.owed(second(25)), []);
        assert!(state.addresses.is_empty());
    }

    #[test]
    fn all_addresses_together_have_their_lines_and_bounded_room() {
        let mut state = State::default();
        let (peers, mut told) = (3 * limits::PEER_LINES_ADDRESSES as u32, 0);
        for number in 0..peers {
            told += u64::from(state.admit(address(number), second(5)).is_some());
            assert!(state.addresses.len() <= limits::PEER_LINES_ADDRESSES);
        }
        assert_eq!(told, limits::PEER_LINES);
        let mut owed = 0;
        for round in 1.. {
            let lines = state.owed(second(5 + 10 * round));
            assert!(lines.len() as u64 <= limits::PEER_LINES);
            owed += lines.iter().map(|(_, left_out)| left_out).sum::<u64>();
            if lines.is_empty() {
                break;
            }
        }
        assert_eq!(told + owed, u64::from(peers), "nothing is lost in silence");
    }
}
