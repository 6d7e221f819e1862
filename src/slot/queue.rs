//! What waits to be decided, in the order of its arrival, some of which may give its place up.

use std::collections::VecDeque;

use super::rank::{CLASSES, Rank};
use crate::resolver::Input;
use crate::types::{Class, Time};

/// See the module's documentation. Places are numbered in the order in which they are taken.
#[derive(Debug)]
pub(super) struct Queue<O> {
    /// The number of the first entry.
    first: u64,
    entries: VecDeque<Entry<O>>,
    /// Entries that are not given up.
    kept: usize,
    /// Those that may be given up, by class, in order.
    by_class: [VecDeque<u64>; CLASSES],
}

#[derive(Debug)]
struct Entry<O> {
    at: Time,
    /// `None` once it has given its place up. At most as many times as there are classes is one taken again,
    /// so given up places are a bounded part of all.
    input: Option<(Input, O)>,
}

/// What gave its place up.
#[derive(Debug)]
pub(super) struct GivenUp<O> {
    pub(super) place: u64,
    pub(super) rank: Rank,
    pub(super) input: Input,
    pub(super) origin: O,
}

impl<O> Default for Queue<O> {
    fn default() -> Self {
        Queue { first: 0, entries: VecDeque::new(), kept: 0, by_class: Default::default() }
    }
}

impl<O> Queue<O> {
    /// How many inputs are in it.
    pub(super) fn len(&self) -> usize {
        self.kept
    }

    /// When the first of them arrived.
    pub(super) fn first_at(&self) -> Option<Time> {
        self.entries.front().map(|entry| entry.at)
    }

    /// The number of the place that is taken next.
    pub(super) fn next_place(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Takes in what arrived last. With a rank below [`Rank::Upkeep`] it may be given up for others.
    pub(super) fn push(&mut self, input: Input, origin: O, rank: Rank) {
        let place = self.next_place();
        self.by_class.get_mut(rank.above()).into_iter().for_each(|class| class.push_back(place));
        self.entries.push_back(Entry { at: input.at(), input: Some((input, origin)) });
        self.kept += 1;
    }

    /// Gives up the latest of the lowest rank below `rank` from place `from` on, if there is one.
    pub(super) fn give_up(&mut self, rank: Rank, from: u64) -> Option<GivenUp<O>> {
        let is_there = |class: &VecDeque<u64>| class.back().is_some_and(|place| *place >= from);
        let lowest = self.by_class[..rank.above()].iter().position(is_there)?;
        let rank = Rank::Class(Class::new(lowest as u64)?);
        let place = self.by_class[lowest].pop_back()?;
        let index = usize::try_from(place - self.first).ok()?;
        let (input, origin) = self.entries.get_mut(index)?.input.take()?;
        self.kept -= 1;
        self.drop_empty_front();
        Some(GivenUp { place, rank, input, origin })
    }

    /// Gives up all that `is_out` says of, whatever its rank, in order.
    pub(super) fn give_up_all(&mut self, mut is_out: impl FnMut(&Input) -> bool) -> Vec<GivenUp<O>> {
        let mut given_up = Vec::new();
        for (place, entry) in (self.first..).zip(&mut self.entries) {
            if let Some((input, origin)) = entry.input.take_if(|(input, _)| is_out(input)) {
                let at = |class: &VecDeque<u64>| class.binary_search(&place).ok();
                let rank = self.by_class.iter_mut().enumerate().find_map(|(number, class)| {
                    class.remove(at(class)?);
                    Class::new(number as u64).map(Rank::Class)
                });
                given_up.push(GivenUp { place, rank: rank.unwrap_or(Rank::Upkeep), input, origin });
            }
        }
        self.kept -= given_up.len();
        self.drop_empty_front();
        given_up
    }

    /// Hands out what arrived before `end`.
    pub(super) fn cut(&mut self, end: Time) -> (Vec<Input>, Vec<O>) {
        let count = self.entries.partition_point(|entry| entry.at < end);
        let cut: (Vec<Input>, Vec<O>) = self.entries.drain(..count).filter_map(|entry| entry.input).unzip();
        self.kept -= cut.0.len();
        self.first += count as u64;
        for class in &mut self.by_class {
            let gone = class.partition_point(|place| *place < self.first);
            class.drain(..gone);
        }
        self.drop_empty_front();
        cut
    }

    /// The first entry is one that was not given up, so that its time is that of the first input.
    fn drop_empty_front(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.input.is_none()) {
            self.entries.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
impl<O> Queue<O> {
    /// Entries in memory, given up or not.
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }
}
