//! The doorstep: who may begin a handshake, by address and in all, before anything is spent on it.
//!
//! An address that nobody has proved may be somebody else's, whom a flood of forged packets must not lock out. So
//! what comes from one is counted apart, and what is too much of it is asked for proof (QUIC's retry, which costs no
//! memory), never refused; what is proved and too much is refused. How many addresses are counted is bounded.

use std::net::IpAddr;

use super::pace::{Pace, Rate};
use crate::config::Limits;
use crate::limits::{self, Limit};
use crate::types::{FixedMap, Time};

/// What becomes of one who knocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its handshake goes on.
    Enter,
    /// It has to prove that its address is its own first.
    Prove(Limit),
    /// It is refused.
    Refuse(Limit),
}

/// One who knocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knock {
    pub(super) address: IpAddr,
    /// Whether it has proved that the address is its own.
    pub(super) is_proved: bool,
    /// Handshakes that are going on.
    pub(super) in_handshake: usize,
}

/// How much is let in.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    connections_per_address: usize,
    unproven: usize,
    rate: Rate,
    rate_per_address: Rate,
    addresses: usize,
}

impl Bounds {
    fn of(limits: &Limits) -> Self {
        Bounds {
            connections_per_address: limits.connections_per_address,
            unproven: limits.handshakes_unproven,
            rate: Rate::a_second(limits.handshakes_per_second as u64),
            rate_per_address: Rate::a_second(limits.handshakes_per_second_per_address as u64),
            addresses: limits.connections.saturating_add(limits::ADDRESSES_BESIDE),
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Doorstep {
    bounds: Bounds,
    all: Counted,
    addresses: FixedMap<IpAddr, Known>,
    /// When the table was last gone through for those that need not be known any more.
    swept: Time,
}

/// What is known of one address.
#[derive(Debug, Default)]
struct Known {
    connections: usize,
    counted: Counted,
}

/// Handshakes of those who proved their address, and of those who did not.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    proved: Pace,
    unproved: Pace,
}

impl Counted {
    fn of(&mut self, is_proved: bool) -> &mut Pace {
        if is_proved { &mut self.proved } else { &mut self.unproved }
    }

    fn is_at_rest(&self, now: Time) -> bool {
        self.proved.is_at_rest(now) && self.unproved.is_at_rest(now)
    }
}

impl Known {
    fn is_idle(&self, now: Time) -> bool {
        self.connections == 0 && self.counted.is_at_rest(now)
    }
}

impl Doorstep {
    pub(super) fn new(limits: &Limits) -> Self {
        let bounds = Bounds::of(limits);
        Doorstep { bounds, all: Counted::default(), addresses: FixedMap::default(), swept: Time::ZERO }
    }

    /// From here on so much is let in; who is inside stays.
    pub(super) fn set_limits(&mut self, limits: &Limits) {
        self.bounds = Bounds::of(limits);
    }

    /// What becomes of one who knocks at `now`.
    pub(super) fn knock(&mut self, knock: Knock, now: Time) -> Verdict {
        let Knock { address, is_proved, in_handshake } = knock;
        let too_much = |limit| if is_proved { Verdict::Refuse(limit) } else { Verdict::Prove(limit) };
        if !is_proved && in_handshake >= self.bounds.unproven {
            return Verdict::Prove(Limit::HandshakesUnproven);
        }
        let address = one_of(address);
        if !self.addresses.contains_key(&address) && !self.has_room(now) {
            return too_much(Limit::Addresses);
        }
        let known = self.addresses.entry(address).or_default();
        if is_proved && known.connections >= self.bounds.connections_per_address {
            return Verdict::Refuse(Limit::ConnectionsPerAddress);
        }
        if !known.counted.of(is_proved).lets_through(now, self.bounds.rate_per_address) {
            return too_much(Limit::HandshakesPerAddress);
        }
        if !self.all.of(is_proved).lets_through(now, self.bounds.rate) {
            return too_much(Limit::Handshakes);
        }
        Verdict::Enter
    }

    /// A handshake with `address` has come to a connection, which proves the address. Whether it may stay; then
    /// [`Doorstep::left`] has to be called once.
    pub(super) fn entered(&mut self, address: IpAddr) -> bool {
        let known = self.addresses.entry(one_of(address)).or_default();
        let has_room = known.connections < self.bounds.connections_per_address;
        known.connections += usize::from(has_room);
        has_room
    }

    /// A connection of `address` has ended.
    pub(super) fn left(&mut self, address: IpAddr) {
        if let Some(known) = self.addresses.get_mut(&one_of(address)) {
            known.connections = known.connections.saturating_sub(1);
        }
    }

    /// Whether one more address can be known. Those of which nothing counts any more are forgotten for it, at most
    /// once a second: going through all takes a while.
    fn has_room(&mut self, now: Time) -> bool {
        if self.addresses.len() >= self.bounds.addresses
            && now.since(self.swept) >= limits::ADDRESSES_SWEPT_EVERY
        {
            self.swept = now;
            self.addresses.retain(|_, known| !known.is_idle(now));
        }
        self.addresses.len() < self.bounds.addresses
    }
}

/// What counts as one address: of IPv6 the network, since whoever has one address there has all of it.
pub(super) fn one_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let network = u128::from(v6) & !(u128::MAX >> limits::ADDRESS_BITS_V6);
            IpAddr::V6(network.into())
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn doorstep(change: impl FnOnce(&mut Limits)) -> Doorstep {
        let mut limits = Limits::default();
        change(&mut limits);
        Doorstep::new(&limits)
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(number))
    }

    fn knock(doorstep: &mut Doorstep, number: u32, is_proved: bool) -> Verdict {
        knock_at(doorstep, number, is_proved, Time::from_us(1))
    }

    fn knock_at(doorstep: &mut Doorstep, number: u32, is_proved: bool, now: Time) -> Verdict {
        doorstep.knock(Knock { address: address(number), is_proved, in_handshake: 0 }, now)
    }

    #[test]
    fn past_the_handshakes_at_a_time_whoever_has_not_proved_its_address_has_to() {
        let mut doorstep = doorstep(|limits| limits.handshakes_unproven = 3);
        for (in_handshake, is_proved, verdict) in [
            (2, false, Verdict::Enter),
            (3, false, Verdict::Prove(Limit::HandshakesUnproven)),
            (3, true, Verdict::Enter),
        ] {
            let knock = Knock { address: address(1), is_proved, in_handshake };
            assert_eq!(doorstep.knock(knock, Time::ZERO), verdict);
        }
    }

    #[test]
    fn one_address_has_its_rate_and_forged_packets_do_not_use_it_up() {
        let mut doorstep = doorstep(|limits| limits.handshakes_per_second_per_address = 2);
        let limit = Limit::HandshakesPerAddress;
        let enter = Verdict::Enter;
        let unproved: Vec<_> = (0..3).map(|_| knock(&mut doorstep, 1, false)).collect();
        assert_eq!(unproved, [enter, enter, Verdict::Prove(limit)]);
        let proved: Vec<_> = (0..3).map(|_| knock(&mut doorstep, 1, true)).collect();
        assert_eq!(proved, [enter, enter, Verdict::Refuse(limit)]);
        assert_eq!(knock(&mut doorstep, 2, true), enter, "another address");
        assert_eq!(knock_at(&mut doorstep, 1, true, Time::from_us(600_000)), enter);
    }

    #[test]
    fn all_together_have_their_rate() {
        let mut doorstep = doorstep(|limits| limits.handshakes_per_second = 3);
        for number in 0..3 {
            assert_eq!(knock(&mut doorstep, number, true), Verdict::Enter);
        }
        assert_eq!(knock(&mut doorstep, 3, true), Verdict::Refuse(Limit::Handshakes));
        assert_eq!(knock(&mut doorstep, 4, false), Verdict::Enter, "counted apart");
    }

    #[test]
    fn one_address_has_so_many_connections_until_one_of_them_ends() {
        let mut doorstep = doorstep(|limits| limits.connections_per_address = 2);
        assert!(doorstep.entered(address(1)) && doorstep.entered(address(1)));
        assert!(!doorstep.entered(address(1)));
        assert_eq!(knock(&mut doorstep, 1, true), Verdict::Refuse(Limit::ConnectionsPerAddress));
        assert_eq!(
            knock(&mut doorstep, 1, false),
            Verdict::Enter,
            "it may be another's: seen once it is proved"
        );
        assert!(doorstep.entered(address(2)));
        doorstep.left(address(1));
        assert_eq!(knock(&mut doorstep, 1, true), Verdict::Enter);
        assert!(doorstep.entered(address(1)));
    }

    #[test]
    fn fewer_connections_of_an_address_take_none_back_and_let_none_in_until_there_are_less() {
        let mut doorstep = doorstep(|limits| limits.connections_per_address = 3);
        assert!((0..3).all(|_| doorstep.entered(address(1))));
        doorstep.set_limits(&Limits { connections_per_address: 2, ..Limits::default() });
        assert!(!doorstep.entered(address(1)));
        doorstep.left(address(1));
        assert_eq!(knock(&mut doorstep, 1, true), Verdict::Refuse(Limit::ConnectionsPerAddress));
        doorstep.left(address(1));
        assert!(doorstep.entered(address(1)));
        doorstep.set_limits(&Limits { connections_per_address: 3, ..Limits::default() });
        assert!(doorstep.entered(address(1)) && !doorstep.entered(address(1)));
    }

    #[test]
    fn addresses_of_any_number_take_bounded_room_and_those_with_connections_stay_known() {
        let mut doorstep = doorstep(|limits| limits.connections = 1);
        let room = 1 + limits::ADDRESSES_BESIDE as u32;
        assert!(doorstep.entered(address(0)));
        let far = |second: u64| Time::from_us(second * 1_000_000);
        for number in 1..room {
            assert_ne!(knock_at(&mut doorstep, number, true, far(10)), Verdict::Refuse(Limit::Addresses));
        }
        assert_eq!(knock_at(&mut doorstep, room, true, far(10)), Verdict::Refuse(Limit::Addresses));
        assert_eq!(knock_at(&mut doorstep, room, false, far(10)), Verdict::Prove(Limit::Addresses));
        assert_eq!(doorstep.addresses.len(), room as usize);
        // Nothing of those counts any more.
        assert_eq!(knock_at(&mut doorstep, room, true, far(20)), Verdict::Enter);
        assert_eq!(doorstep.addresses.len(), 2);
        assert_eq!(doorstep.addresses[&address(0)].connections, 1);
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_count_as_one_and_a_mapped_one_as_its_own() {
        let parse = |text: &str| one_of(text.parse().unwrap());
        assert_eq!(parse("2001:db8:1:2:3:4:5:6"), parse("2001:db8:1:2::1"));
        assert_ne!(parse("2001:db8:1:2::1"), parse("2001:db8:1:3::1"));
        assert_eq!(parse("::ffff:192.0.2.1"), parse("192.0.2.1"));
        assert_ne!(parse("192.0.2.1"), parse("192.0.2.2"));
    }
}
