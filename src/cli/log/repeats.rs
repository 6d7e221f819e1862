//! How often a place of the program may write to the log: so many lines within a time, with how many were left out.

use std::collections::HashMap;
use std::hash::Hash;

use crate::coordinator::pace::{Pace, Rate};
use crate::limits;
use crate::types::Time;

/// See the module's documentation. `P` is a place, `W` what is said of it.
#[derive(Debug)]
pub(super) struct Repeats<P, W> {
    places: HashMap<P, OfPlace<W>>,
}

#[derive(Debug)]
struct OfPlace<W> {
    pace: Pace,
    left_out: u64,
    what: W,
}

impl<P, W> Default for Repeats<P, W> {
    fn default() -> Self {
        Repeats { places: HashMap::new() }
    }
}

fn rate() -> Rate {
    Rate::new(limits::LOG_LINES, limits::LOG_LINES_WITHIN)
}

impl<P: Eq + Hash, W: Copy> Repeats<P, W> {
    /// Whether a line of `place` is written, and how many were left out before it.
    pub(super) fn admit(&mut self, place: P, what: W, now: Time) -> Option<u64> {
        if !self.places.contains_key(&place) && self.places.len() >= limits::LOG_PLACES {
            self.places.retain(|_, of| of.left_out > 0 || !of.pace.is_at_rest(now));
            if self.places.len() >= limits::LOG_PLACES {
                return None; // there are not so many places
            }
        }
        let of = self.places.entry(place).or_insert(OfPlace { pace: Pace::default(), left_out: 0, what });
        if of.pace.lets_through(now, rate()) {
            return Some(std::mem::take(&mut of.left_out));
        }
        of.left_out += 1;
        None
    }

    /// What was left out and is to be told by now, of places that have room for a line.
    pub(super) fn owed(&mut self, now: Time) -> Vec<(W, u64)> {
        let mut owed = Vec::new();
        for of in self.places.values_mut() {
            if of.left_out > 0 && of.pace.lets_through(now, rate()) {
                owed.push((of.what, std::mem::take(&mut of.left_out)));
            }
        }
        owed
    }

    /// All that was left out and has not been told, when nothing more will be.
    pub(super) fn rest(&mut self) -> Vec<(W, u64)> {
        let all = self.places.values_mut().map(|of| (of.what, std::mem::take(&mut of.left_out)));
        all.filter(|(_, left_out)| *left_out > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: u64) -> Time {
        Time::from_us(number * 1_000_000)
    }

    #[test]
    fn a_place_has_its_lines_and_the_next_one_says_how_many_were_left_out() {
        let mut repeats = Repeats::default();
        let told = (0..1_000).filter(|_| repeats.admit("a", 1, second(5)).is_some()).count() as u64;
        assert_eq!(told, limits::LOG_LINES);
        assert_eq!(repeats.admit("b", 2, second(5)), Some(0), "another place");
        assert_eq!(repeats.admit("a", 1, second(6)), Some(1_000 - told));
        assert_eq!(repeats.admit("a", 1, second(6)), Some(0));
        assert_eq!(repeats.owed(second(20)), []);
    }

    #[test]
    fn what_was_left_out_is_told_even_where_nothing_comes_after_it() {
        let mut repeats = Repeats::default();
        (0..100).for_each(|_| {
            let _ = repeats.admit("a", 1, second(5));
        });
        assert_eq!(repeats.owed(second(5)), [], "there is no room yet");
        (0..3).for_each(|_| {
            let _ = repeats.admit("b", 2, second(5));
        });
        assert_eq!(repeats.owed(second(15)), [(1, 100 - limits::LOG_LINES)]);
        assert_eq!(repeats.owed(second(25)), []);
        (0..100).for_each(|_| {
            let _ = repeats.admit("a", 1, second(25));
        });
        assert_eq!(repeats.rest(), [(1, 100 - limits::LOG_LINES)]);
        assert_eq!(repeats.rest(), []);
    }

    #[test]
    fn places_are_bounded_and_those_at_rest_make_room() {
        let mut repeats = Repeats::default();
        (0..limits::LOG_PLACES).for_each(|place| assert!(repeats.admit(place, 1, second(5)).is_some()));
        assert_eq!(repeats.admit(usize::MAX, 1, second(5)), None);
        assert_eq!(repeats.admit(usize::MAX, 1, second(60)), Some(0));
        assert_eq!(repeats.places.len(), 1);
    }
}
