//! What is counted and measured in one way of selling, and what it comes to.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use preclaim::types::Slot;

use super::Failure;
use super::story::Figures;

/// What a shopper was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is theirs, from that pool.
    Sold {
        pool: usize,
    },
    SoldOut,
    /// They paid and got nothing.
    Refunded,
    /// They had a unit, by what they were told, and there was none.
    PromiseBroken,
    ChangedMind,
    /// The agent died while they paid.
    Died,
    /// The other region did not confirm in time.
    TransferFailed,
    /// The other region was not asked, since it has not confirmed in time of late.
    NotTried,
}

impl Answer {
    /// Whether a unit was found for the shopper, whatever became of it.
    fn found_one(self) -> bool {
        !matches!(self, Answer::SoldOut | Answer::TransferFailed | Answer::NotTried)
    }
}

/// One way of selling.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) way: &'static str,
    pools: [u64; 2],
    tally: Mutex<Tally>,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    came: [u64; 2],
    answers: Vec<Answer>,
    transferred: u64,
    took_when_sold: Figures,
    took_otherwise: Figures,
    recent: [f64; 2],
    shares: Figures,
    settled: [u64; 2],
    /// What the window had shown, and whether there was one.
    shown: Vec<(f64, bool)>,
    left: u64,
}

impl Account {
    pub(crate) fn new(way: &'static str, pools: [u64; 2]) -> Self {
        let tally = Tally { recent: [1.0; 2], ..Tally::default() };
        Account { way, pools, tally: Mutex::new(tally) }
    }

    // A panic under the lock fails the run anyway.
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn comes(&self, region: usize) {
        self.tally().came[region] += 1;
    }

    /// A shopper of `region` was answered so long after coming, and had been shown such a chance.
    pub(crate) fn answered(&self, region: usize, answer: Answer, took: Duration, shown: Option<f64>) {
        let mut tally = self.tally();
        tally.answers.push(answer);
        if let Some(chance) = shown.filter(|_| !matches!(answer, Answer::TransferFailed | Answer::NotTried)) {
            tally.shown.push((chance, answer.found_one()));
        }
        let Answer::Sold { pool } = answer else { return tally.took_otherwise.add_ms(took) };
        tally.took_when_sold.add_ms(took);
        tally.transferred += u64::from(pool != region);
        tally.recent = tally.recent.map(|sales| 0.95 * sales);
        tally.recent[region] += 1.0;
        let share = tally.recent[0] / tally.recent.iter().sum::<f64>();
        tally.shares.add(share);
    }

    /// A sale has lowered the capacity, and given the reservation back, in these slots.
    pub(crate) fn settled(&self, [lowered, released]: [Slot; 2]) {
        self.tally().settled[usize::from(lowered != released)] += 1;
    }

    /// What the shelves hold at the end.
    pub(crate) fn left(&self, units: u64) {
        self.tally().left = units;
    }

    /// How many have come, from each region.
    pub(crate) fn came(&self) -> [u64; 2] {
        self.tally().came
    }

    /// The region's share of the recent sales.
    pub(crate) fn recent_share(&self, region: usize) -> f64 {
        let recent = self.tally().recent;
        recent[region] / (recent[0] + recent[1])
    }

    /// How many of those who had a unit gave it back, so far.
    pub(crate) fn share_given_back(&self) -> f64 {
        let tally = self.tally();
        let had = tally.answers.iter().filter(|answer| answer.found_one()).count() as f64;
        tally.answers.iter().filter(|answer| **answer == Answer::ChangedMind).count() as f64 / had.max(1.0)
    }

    pub(crate) fn count(&self, answer: Answer) -> u64 {
        self.tally().answers.iter().filter(|it| **it == answer).count() as u64
    }

    pub(crate) fn sold(&self) -> u64 {
        self.count(Answer::Sold { pool: 0 }) + self.count(Answer::Sold { pool: 1 })
    }

    /// How many more than there were have been sold.
    pub(crate) fn oversold(&self) -> u64 {
        let sold = [0, 1].map(|pool| self.count(Answer::Sold { pool }));
        sold.iter().zip(self.pools).map(|(sold, there)| sold.saturating_sub(there)).sum()
    }

    pub(crate) fn units(&self) -> u64 {
        self.pools.iter().sum()
    }

    pub(crate) fn left_over(&self) -> u64 {
        self.tally().left
    }

    pub(crate) fn transferred(&self) -> u64 {
        self.tally().transferred
    }

    /// How long it took, in ms: those who were sold one, and all others.
    pub(crate) fn took(&self) -> (Figures, Figures) {
        let tally = self.tally();
        (tally.took_when_sold.clone(), tally.took_otherwise.clone())
    }

    /// Of how many sales capacity and reservation changed in one slot, and of how many in two.
    pub(crate) fn settlements(&self) -> [u64; 2] {
        self.tally().settled
    }

    /// The north's share of the recent sales, least and most.
    pub(crate) fn shares(&self) -> [f64; 2] {
        let tally = self.tally();
        [0.0, 100.0].map(|percent| tally.shares.percentile(percent))
    }

    /// Of the shoppers who were shown a chance from `least` up to below `less_than`: how many, what they were
    /// shown on average, and how many found one.
    pub(crate) fn shown(&self, least: f64, less_than: f64) -> (usize, f64, usize) {
        let tally = self.tally();
        let band = tally.shown.iter().filter(|(chance, _)| (least..less_than).contains(chance));
        let shown: f64 = band.clone().map(|(chance, _)| chance).sum();
        let (count, found) = (band.clone().count(), band.filter(|(_, found)| *found).count());
        (count, shown / count.max(1) as f64, found)
    }

    /// Whether the effect of preclaim is there.
    pub(crate) fn check_with(&self) -> Result<(), Failure> {
        if self.oversold() > 0 {
            return Err(format!("{} were sold that were not there", self.oversold()).into());
        }
        if self.count(Answer::PromiseBroken) > 0 {
            return Err("a unit was reserved that was not there".into());
        }
        if self.sold() + self.left_over() != self.units() {
            return Err("the store has sold what no shopper was told, or the other way round".into());
        }
        Ok(())
    }
}
