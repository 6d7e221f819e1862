//! Who keeps its place in a full slot, and when the others may come back.

use crate::limits;
use crate::resolver::AgentOp;
use crate::types::{Agent, Class, Micros, Slot, Time};

/// How firmly an agent's input holds its place in a full slot: a higher one takes the place of a lower one, an
/// equal one does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// It asks for something, in this class.
    Class(Class),
    /// It keeps up what its agent has, or gives it back. It never gives its place up: a lease must be renewable
    /// however many ask for new ones, and what is given back makes room.
    Upkeep,
}

/// How many ranks may give their places up.
pub(super) const CLASSES: usize = limits::CLASS_MAX as usize + 1;

impl Rank {
    /// How many ranks are below it.
    pub(super) fn above(self) -> usize {
        match self {
            Rank::Class(class) => class.number().into(),
            Rank::Upkeep => CLASSES,
        }
    }
}

/// What an agent asks for, on its way into a slot. `O` is where it came from.
#[derive(Debug)]
pub struct Asked<O> {
    /// How firmly it holds its place.
    pub rank: Rank,
    /// What is asked for.
    pub op: AgentOp,
    /// Where it came from.
    pub origin: O,
}

/// An agent's input that has no place, at once or after all, and is no input of any slot. Its sender is told
/// `overloaded`.
#[derive(Debug)]
pub struct Turned<O> {
    /// Whose.
    pub agent: Agent,
    /// What was asked for.
    pub op: AgentOp,
    /// Where it came from.
    pub origin: O,
    /// When to come back.
    pub back: Time,
}

/// When those who found no room may come back: one behind the other, as many to a slot as it takes in, those
/// of a higher rank ahead, and none later than [`limits::ASK_AGAIN_MOST`]. So a crowd does not come back
/// as a crowd, and comes back the later the more it is. Nothing is kept free for it.
#[derive(Debug)]
pub(super) struct Returns {
    length: Micros,
    /// Places of a slot.
    places: u128,
    /// The next place that is not given away, counted from the first place of slot 0, for each rank. Never rises
    /// with the rank.
    next: [u128; CLASSES + 1],
}

impl Returns {
    pub(super) fn new(length: Micros, places: usize) -> Self {
        Returns { length, places: (places as u128).max(1), next: [0; CLASSES + 1] }
    }

    /// When somebody may come back who found no room in slot `full`: after its end.
    pub(super) fn book(&mut self, rank: Rank, full: Slot) -> Time {
        let first = (u128::from(full.number()) + 1) * self.places;
        let slots = u128::from(limits::ASK_AGAIN_MOST.as_us() / self.length.as_us().max(1)).max(1);
        let last = first + slots * self.places - 1;
        let place = self.next[rank.above()].clamp(first, last);
        // Whoever is of a lower rank stands behind it.
        for next in &mut self.next[..=rank.above()] {
            *next = (*next).clamp(first, last) + 1;
        }
        self.opens(place)
    }

    fn opens(&self, place: u128) -> Time {
        let slot = Slot::new(u64::try_from(place / self.places).unwrap_or(u64::MAX));
        let within = place % self.places * u128::from(self.length.as_us()) / self.places;
        slot.opens(self.length).after(Micros::from_us(u64::try_from(within).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: Micros = Micros::from_ms(10);

    fn class(number: u64) -> Rank {
        Rank::Class(Class::new(number).unwrap())
    }

    fn booked(returns: &mut Returns, ranks: &[Rank], full: u64) -> Vec<u64> {
        ranks.iter().map(|rank| returns.book(*rank, Slot::new(full)).as_us()).collect()
    }

    #[test]
    fn what_keeps_up_ranks_above_every_class_and_classes_by_number() {
        let ranks: Vec<Rank> = (0..=7).map(class).chain([Rank::Upkeep]).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b));
        let above: Vec<usize> = ranks.iter().map(|rank| rank.above()).collect();
        assert_eq!(above, (0..=CLASSES).collect::<Vec<_>>());
    }

    #[test]
    fn as_many_come_back_in_a_slot_as_it_takes_spread_over_it() {
        let mut returns = Returns::new(LENGTH, 4);
        let times = booked(&mut returns, &[class(0); 6], 2);
        assert_eq!(times, [30_000, 32_500, 35_000, 37_500, 40_000, 42_500]);
        assert_eq!(booked(&mut returns, &[class(0)], 3), [45_000], "behind those of the slot before");
        assert_eq!(booked(&mut returns, &[class(0)], 9), [100_000], "they have come by then");
    }

    #[test]
    fn a_higher_rank_comes_back_ahead_of_a_lower_one_which_stands_behind_it() {
        let mut returns = Returns::new(LENGTH, 2);
        assert_eq!(booked(&mut returns, &[class(1); 4], 0), [10_000, 15_000, 20_000, 25_000]);
        assert_eq!(booked(&mut returns, &[class(2), class(1)], 0), [10_000, 35_000]);
        assert_eq!(booked(&mut returns, &[Rank::Upkeep, class(2), class(0)], 0), [10_000, 20_000, 50_000]);
    }

    #[test]
    fn nobody_comes_back_later_than_the_longest_time_and_the_queue_ends_with_it() {
        let mut returns = Returns::new(LENGTH, 1);
        let most = limits::ASK_AGAIN_MOST.as_us();
        let times = booked(&mut returns, &[class(3); 2_000], 0);
        assert_eq!((times[0], times[499], times[500], times[1_999]), (10_000, most, most, most));
        // Half of them are gone after half of the time, though three times as many were told.
        let half = most / 2 / LENGTH.as_us();
        assert_eq!(booked(&mut returns, &[class(3)], half), [most + 10_000]);
        assert_eq!(booked(&mut returns, &[class(3)], 2 * half + 1), [most + 20_000]);
    }

    proptest! {
        #[test]
        fn it_is_after_the_slot_within_the_longest_time_and_never_earlier_for_a_lower_rank(
            length in 100_u64..1_000_000,
            places in 0_usize..5_000,
            asks in proptest::collection::vec((0_u64..9, 0_u64..3), 1..200),
        ) {
            let mut returns = Returns::new(Micros::from_us(length), places);
            let mut full = 17;
            for (rank, later) in asks {
                full += later;
                let rank = if rank == 8 { Rank::Upkeep } else { class(rank) };
                let back = returns.book(rank, Slot::new(full)).as_us();
                prop_assert!(back >= (full + 1) * length);
                prop_assert!(back < (full + 1) * length + limits::ASK_AGAIN_MOST.as_us());
                prop_assert!(returns.next.is_sorted_by(|a, b| a >= b), "{:?}", returns.next);
            }
        }
    }
}
