//! The last slots, for pages: one bounded ring that the slot loop puts in and every page reads at its own pace.
//! A page that is too slow finds that it has missed some; the slot loop never waits for one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::news::SlotNews;
use crate::coordinator::{Decided, SlotReport};
use crate::limits;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Feed(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    slots: VecDeque<(Arc<SlotNews>, usize)>,
    weight: usize,
    /// The number of the next slot that is put in.
    next: u64,
}

/// Up to where a page has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor(u64);

/// Slots that a page has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missed(pub(super) u64);

impl Feed {
    /// A slot was decided. On the slot loop's thread: it copies what is shown of it, and waits for no page for longer
    /// than that takes a few pointers.
    pub(crate) fn slot(&self, report: &SlotReport, decided: &Decided<'_>) {
        self.push(SlotNews::live(report, decided));
    }

    pub(super) fn push(&self, slot: SlotNews) {
        let weight = slot.weight();
        let gone = self.lock().push(Arc::new(slot), weight);
        drop(gone); // outside of the lock
    }

    /// All that is kept, and where to read on after it.
    pub(super) fn past(&self) -> (Vec<Arc<SlotNews>>, Cursor) {
        let ring = self.lock();
        (ring.slots.iter().map(|(slot, _)| Arc::clone(slot)).collect(), Cursor(ring.next))
    }

    /// All that is kept, and whether that is all there ever was.
    pub(super) fn kept(&self) -> (Vec<Arc<SlotNews>>, bool) {
        let (past, Cursor(next)) = self.past();
        let is_whole = past.len() as u64 == next;
        (past, is_whole)
    }

    /// What came after `cursor`, which goes on: up to about [`limits::PAGE_FRAME_NEWS`] decisions.
    ///
    /// # Errors
    /// Where some of it is no longer kept.
    pub(super) fn since(&self, cursor: &mut Cursor) -> Result<Vec<Arc<SlotNews>>, Missed> {
        let ring = self.lock();
        let oldest = ring.next - ring.slots.len() as u64;
        if cursor.0 < oldest {
            return Err(Missed(oldest - cursor.0));
        }
        let from = usize::try_from(cursor.0 - oldest).unwrap_or(usize::MAX);
        let (mut taken, mut news) = (Vec::new(), 0);
        for (slot, _) in ring.slots.iter().skip(from) {
            if news >= limits::PAGE_FRAME_NEWS || taken.len() >= limits::PAGE_FRAME_NEWS {
                break;
            }
            news += slot.news.len();
            taken.push(Arc::clone(slot));
        }
        cursor.0 += taken.len() as u64;
        Ok(taken)
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        // What is in it is whole at any instant.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    /// Puts a slot in; what is no longer kept.
    fn push(&mut self, slot: Arc<SlotNews>, weight: usize) -> Vec<Arc<SlotNews>> {
        let mut gone = Vec::new();
        self.slots.push_back((slot, weight));
        self.weight += weight;
        self.next += 1;
        // The latest stays, whatever it weighs.
        while (self.weight > limits::PAGE_CLAIMS_KEPT && self.slots.len() > 1)
            || self.slots.len() > limits::PAGE_SLOTS_KEPT
        {
            let Some((old, weight)) = self.slots.pop_front() else { break };
            self.weight -= weight;
            gone.push(old);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::super::news::News;
    use super::*;
    use crate::types::{Agent, IntentId, IntentKey, Slot, Time, Verdict};

    fn slot(number: u64, news: usize) -> SlotNews {
        let key = IntentKey { agent: Agent::new("a").unwrap(), id: IntentId::new(number) };
        let at = Time::from_us(number);
        let one = || News {
            key: key.clone(),
            at,
            verdict: Verdict::Released { reason: None },
            rank: None,
            arrived: None,
            intent: None,
            windows: Vec::new(),
            waits_until: None,
            rivals: Vec::new(),
        };
        let news = (0..news).map(|_| one()).collect();
        let slot = Slot::new(number);
        SlotNews { slot, at, inputs: 0, decisions: 0, report: None, news, left_out: 0 }
    }

    fn numbers(slots: &[Arc<SlotNews>]) -> Vec<u64> {
        slots.iter().map(|slot| slot.slot.number()).collect()
    }

    #[test]
    fn each_page_reads_each_slot_once_in_order_at_its_own_pace() {
        let feed = Feed::default();
        let (past, mut quick) = feed.past();
        assert!(past.is_empty());
        let mut slow = quick;
        feed.push(slot(1, 0));
        assert_eq!(numbers(&feed.since(&mut quick).unwrap()), [1]);
        assert!(feed.since(&mut quick).unwrap().is_empty());
        feed.push(slot(2, 3));
        assert_eq!(numbers(&feed.since(&mut quick).unwrap()), [2]);
        assert_eq!(numbers(&feed.since(&mut slow).unwrap()), [1, 2]);
        let (past, mut late) = feed.past();
        assert_eq!(numbers(&past), [1, 2]);
        assert!(feed.kept().1, "nothing was before");
        assert!(feed.since(&mut late).unwrap().is_empty());
    }

    #[test]
    fn one_frame_takes_a_bounded_number_of_decisions_and_of_slots() {
        let feed = Feed::default();
        let mut cursor = Cursor::default();
        (0..2).for_each(|number| feed.push(slot(number, limits::PAGE_FRAME_NEWS)));
        (2..2 + 2 * limits::PAGE_FRAME_NEWS as u64).for_each(|number| feed.push(slot(number, 0)));
        let mut taken = Vec::new();
        let mut read = || {
            let slots = feed.since(&mut cursor).unwrap();
            taken.extend(numbers(&slots));
            slots.len()
        };
        assert_eq!([read(), read()], [1, 1]);
        assert_eq!([read(), read(), read()], [limits::PAGE_FRAME_NEWS, limits::PAGE_FRAME_NEWS, 0]);
        assert!(taken.iter().copied().eq(0..taken.len() as u64));
    }

    #[test]
    fn what_is_kept_is_bounded_by_slots_and_by_claims_and_a_page_is_told_what_it_missed() {
        let feed = Feed::default();
        let mut slow = Cursor::default();
        for number in 0..limits::PAGE_SLOTS_KEPT as u64 + 3 {
            feed.push(slot(number, 0));
        }
        assert_eq!(feed.past().0.len(), limits::PAGE_SLOTS_KEPT);
        assert_eq!(feed.since(&mut slow).unwrap_err(), Missed(3));
        let full = limits::PAGE_CLAIMS_KEPT / 4;
        (0..5).for_each(|number| feed.push(slot(number, full)));
        assert_eq!(numbers(&feed.past().0), [1, 2, 3, 4]);
        feed.push(slot(9, 2 * limits::PAGE_CLAIMS_KEPT));
        assert_eq!(numbers(&feed.past().0), [9], "the latest stays");
    }
}
