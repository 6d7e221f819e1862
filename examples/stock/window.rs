//! The shop window: how likely it is that a shopper who comes now gets a unit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use preclaim::client::Listing;
use preclaim::types::RawTarget;
use preclaim::wire::{EntryState, ListedClaim};

use super::account::Account;
use super::reserve::pool;

/// How often it is looked at what is left and what is reserved.
pub(crate) const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// What it shows to each region.
#[derive(Debug)]
pub(crate) struct Window(Mutex<Shown>);

#[derive(Clone, Copy, Debug)]
struct Shown {
    chance: [f64; 2],
    /// How many had come by the last look, from each region.
    came: [u64; 2],
    /// How many come between two looks, of late.
    coming: [f64; 2],
}

impl Window {
    pub(crate) fn new() -> Self {
        Window(Mutex::new(Shown { chance: [1.0; 2], came: [0; 2], coming: [0.0; 2] }))
    }

    pub(crate) fn chance(&self, region: usize) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).chance[region]
    }

    /// Shows how likely it is, from what is left and reserved in each pool.
    pub(crate) fn show(&self, left: [u64; 2], reservations: &Listing, account: &Account) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (region, came) in account.came().into_iter().enumerate() {
            let since = (came - shown.came[region]) as f64;
            shown.coming[region] = 0.7 * shown.coming[region] + 0.3 * since;
            shown.came[region] = came;
        }
        let before = shown.coming.iter().sum::<f64>();
        let reserved = [0, 1].map(|region| reserved(region, reservations));
        // Of those reserved some are given back, as of late, and those near their end: who has not paid by then
        // does not pay any more.
        let [all, ending] = [0, 1].map(|column| reserved.iter().map(|it| it[column]).sum::<u64>() as f64);
        let back = account.share_given_back() * (all - ending) + ending;
        for region in 0..2 {
            let other = 1 - region;
            // At home all that is free; over there what is not kept for those there.
            let lent = left[other] - kept(other, left[other], account);
            let free =
                left[region].saturating_sub(reserved[region][0]) + lent.saturating_sub(reserved[other][0]);
            shown.chance[region] = chance(free, back, before);
        }
    }
}

/// How many are reserved of the region's pool, and how many of these to an end that is near.
fn reserved(region: usize, reservations: &Listing) -> [u64; 2] {
    let near = reservations.at + LOOKS_EVERY * 2;
    let mut reserved = [0; 2];
    for entry in &reservations.entries {
        let ends_soon = matches!(entry.state, EntryState::Granted { end, .. } if end < near);
        let is_here = |claim: &ListedClaim| matches!(&claim.target, RawTarget::Path(of) if of.starts_with(&pool(region)));
        let claims = entry.claims.iter().filter(|claim| is_here(claim)).count() as u64;
        reserved[0] += claims;
        reserved[1] += if ends_soon { claims } else { 0 };
    }
    reserved
}

/// How many of those that are left a pool keeps for its own region: as large a share as that region has of the
/// recent sales.
pub(crate) fn kept(region: usize, left: u64, account: &Account) -> u64 {
    (account.recent_share(region) * left as f64).floor() as u64
}

/// How likely it is that there is one for the next: of so many that are free, after as many as come `before` on
/// average have taken theirs, and with as many as come `back` on average.
fn chance(free: u64, back: f64, before: f64) -> f64 {
    // Beyond these nothing adds up to anything.
    let (most_back, most_before) = (20, 100);
    let takes = |free: u64| (0..free.min(most_before)).map(|took| poisson(before, took)).sum::<f64>();
    (0..=most_back).map(|more| poisson(back, more) * takes(free + more)).sum()
}

/// How likely `count` independent events are where there are `mean` on average.
fn poisson(mean: f64, count: u64) -> f64 {
    (1..=count).fold((-mean).exp(), |chance, nth| chance * mean / nth as f64)
}

#[cfg(test)]
mod tests {
    use super::chance;

    #[test]
    fn the_chance_falls_with_those_who_come_before_and_rises_with_what_comes_back() {
        let near =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
        near(chance(5, 0.0, 0.0), 1.0);
        near(chance(0, 0.0, 0.0), 0.0);
        near(chance(1, 0.0, 1.0), (-1.0_f64).exp());
        near(chance(0, 1.0, 0.0), 1.0 - (-1.0_f64).exp());
        assert!(chance(100, 0.0, 1.0) > 0.999_999);
    }
}
