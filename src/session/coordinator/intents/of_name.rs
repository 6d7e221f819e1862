//! What one name has going, and how much of what is bounded that is.

use std::sync::Arc;

use super::super::crowd::{Crowd, Search, Windows};
use super::super::{Ask, Bounds, Origin, Place};
use super::{OverLimit, Route, Standing, Waiter, Waiters};
use crate::limits::Limit;
use crate::slot::Rank;
use crate::types::{Claim, FixedMap, IntentId, Slot, Target};

/// Over all names.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// In force or undecided.
    pub(super) live: usize,
    pub(super) undecided: usize,
    /// Windows, and those on their way to the core.
    pub(super) crowd: Crowd,
    /// As of a name.
    pub(super) search: usize,
}

/// What one name has going.
#[derive(Debug, Default)]
pub(super) struct OfName {
    pub(super) routes: FixedMap<IntentId, Route>,
    /// Messages taken in and not decided yet.
    pub(super) pending: usize,
    pub(super) undecided: usize,
    pub(super) granted: usize,
    /// Messages within `slot`, of either kind.
    pub(super) slot: Slot,
    pub(super) inputs: [usize; 2],
    /// Windows of what is in force or undecided, and of what is on its way to the core.
    pub(super) windows: Windows,
    /// Windows among which a slot looks for places for what is undecided or on its way.
    pub(super) search: usize,
}

/// What an input adds to the counts of windows while it is on its way to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Load {
    /// Windows among which it is looked for a place.
    pub(super) search: usize,
    /// Whether its windows count beside those that its id stands for.
    pub(super) has_windows: bool,
}

impl OfName {
    pub(super) fn count(&mut self, totals: &mut Totals, standing: Standing, change: isize) {
        match standing {
            Standing::Undecided => {
                self.undecided = self.undecided.saturating_add_signed(change);
                totals.undecided = totals.undecided.saturating_add_signed(change);
            }
            Standing::Granted { .. } => self.granted = self.granted.saturating_add_signed(change),
        }
        totals.live = totals.live.saturating_add_signed(change);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.undecided + self.granted + self.pending == 0
    }

    pub(super) fn add_windows(&mut self, totals: &mut Totals, claims: &[Claim]) {
        self.windows.add(claims);
        totals.crowd.add(claims);
    }

    pub(super) fn remove_windows(&mut self, totals: &mut Totals, claims: &[Claim]) {
        self.windows.remove(claims);
        totals.crowd.remove(claims);
    }

    pub(super) fn add_search(&mut self, totals: &mut Totals, search: usize) {
        self.search = self.search.saturating_add(search);
        totals.search = totals.search.saturating_add(search);
    }

    pub(super) fn remove_search(&mut self, totals: &mut Totals, search: usize) {
        self.search = self.search.saturating_sub(search);
        totals.search = totals.search.saturating_sub(search);
    }

    /// What an input added while it was on its way to the core, it does no more.
    pub(super) fn unload(&mut self, totals: &mut Totals, origin: &Origin) {
        let Ask::Declare { claims, load: Some(Load { search, has_windows }), .. } = &origin.ask else {
            return;
        };
        if *has_windows {
            self.remove_windows(totals, claims);
        }
        self.remove_search(totals, *search);
    }

    /// A declaration or revision that the core took in; see [`Intents::bind`]. It adds to the counts what it added on
    /// its way.
    pub(super) fn bind(&mut self, totals: &mut Totals, origin: &Origin, place: Place) {
        let Ask::Declare { id, note, claims, load, bounding, trace } = &origin.ask else { return };
        let search = load.map_or(0, |load| load.search);
        if load.is_none_or(|load| !load.has_windows) {
            self.add_windows(totals, claims);
        }
        let cost = bounding.as_ref().map(|bounding| bounding.cost()).unwrap_or_default();
        let waiter = Waiter { place, request: origin.request };
        if let Some(route) = self.routes.get_mut(id) {
            route.waiters.add(waiter);
            if route.label == origin.label {
                route.place = place;
            }
            if !cost.is_nothing() {
                route.unspent = cost;
            }
            match route.standing {
                Standing::Granted { .. } => route.revising.clone_from(bounding),
                Standing::Undecided => route.bounding.clone_from(bounding),
            }
            route.note = Arc::clone(note);
            if trace.is_some() {
                route.trace.clone_from(trace);
            }
            let before = std::mem::replace(&mut route.claims, Arc::clone(claims));
            let searched = std::mem::replace(&mut route.search, search);
            let is_granted = matches!(route.standing, Standing::Granted { .. });
            if is_granted && route.revised.is_none() {
                route.revised = Some(before);
            } else {
                self.remove_windows(totals, &before);
            }
            self.remove_search(totals, searched);
            return;
        }
        let route = Route {
            label: Arc::clone(&origin.label),
            place,
            waiters: Waiters { first: Some(waiter), more: Vec::new() },
            note: Arc::clone(note),
            claims: Arc::clone(claims),
            revised: None,
            search,
            standing: Standing::Undecided,
            bounding: bounding.clone(),
            revising: None,
            unspent: cost,
            trace: trace.clone(),
        };
        self.routes.insert(*id, route);
        self.count(totals, Standing::Undecided, 1);
    }

    /// A revision that was granted as it was taken in: its claims are those in force.
    pub(super) fn take_at_once(&mut self, totals: &mut Totals, ask: &Ask) {
        let Ask::Declare { id, claims, bounding, trace, .. } = ask else { return };
        let Some(route) = self.routes.get_mut(id) else { return };
        route.revising.clone_from(bounding);
        if trace.is_some() {
            route.trace.clone_from(trace);
        }
        let before = std::mem::replace(&mut route.claims, Arc::clone(claims));
        self.remove_windows(totals, &before);
        self.add_windows(totals, claims);
    }

    /// The fate of what was last asked for about an intent is known: where it `is_granted`, its claims are those in
    /// force; otherwise a grant that it would have revised goes on.
    pub(super) fn settle_claims(&mut self, totals: &mut Totals, id: IntentId, is_granted: bool) {
        let Some(route) = self.routes.get_mut(&id) else { return };
        let search = std::mem::take(&mut route.search);
        let gone = match route.revised.take() {
            Some(revised) if is_granted => Some(revised),
            Some(revised) => Some(std::mem::replace(&mut route.claims, revised)),
            None => None,
        };
        self.remove_search(totals, search);
        if let Some(gone) = gone {
            self.remove_windows(totals, &gone);
        }
    }

    /// Which bound on windows a declaration or revision would pass, or else among how many it is looked for a place.
    /// What it is to take the place of, `before`, is not in its way.
    pub(super) fn check(
        &mut self,
        totals: &mut Totals,
        rank: Rank,
        before: Option<(&[Claim], usize)>,
        claims: &[Claim],
        bounds: &Bounds,
    ) -> Result<usize, OverLimit> {
        let (replaced, searched) = before.unwrap_or_default();
        self.remove_windows(totals, replaced);
        let search = totals.crowd.search(claims, &self.windows);
        // What gives back needs no more room, and of its searches one at least is let through.
        let gives_back = rank == Rank::Upkeep;
        let has_room = if gives_back || replaced == claims {
            Ok(())
        } else {
            self.check_windows(totals, claims, bounds)
        };
        let wanted = if gives_back { Search::default() } else { search };
        let checked = has_room.and_then(|()| match search.all {
            0 => Ok(()),
            _ => self.check_search(totals, wanted, searched, bounds),
        });
        self.add_windows(totals, replaced);
        checked.map(|()| search.all)
    }

    pub(super) fn check_windows(
        &self,
        totals: &Totals,
        claims: &[Claim],
        bounds: &Bounds,
    ) -> Result<(), OverLimit> {
        let past = |limit, claim| Err(OverLimit { claim, ..OverLimit::of(limit) });
        if self.windows.len() + claims.len() > bounds.windows_of_a_name {
            return past(Limit::WindowsPerAgent, None);
        }
        let crowded = self.windows.first_past(claims, bounds.windows_of_a_name_on_a_path);
        if crowded.is_some() {
            return past(Limit::WindowsPerAgentAndPath, crowded);
        }
        let is_full = |claim: &Claim| match &claim.target {
            Target::Region(region) => totals.crowd.regions(&region.frame) >= bounds.regions_of_a_frame,
            Target::Path(_) => false,
        };
        let full = claims.iter().position(is_full);
        if full.is_some() {
            return past(Limit::RegionsPerFrame, full);
        }
        Ok(())
    }

    /// Of what is counted, `searched` is taken back where it is let in.
    pub(super) fn check_search(
        &self,
        totals: &Totals,
        search: Search,
        searched: usize,
        bounds: &Bounds,
    ) -> Result<(), OverLimit> {
        let is_past =
            |counted: usize, most| counted.saturating_sub(searched).saturating_add(search.all) > most;
        let passed = [
            (search.most > bounds.windows_on_a_path, Limit::WindowsPerPath),
            (is_past(self.search, bounds.search_of_a_name), Limit::SearchPerAgent),
            (is_past(totals.search, bounds.search) && search.all > 0, Limit::Search),
        ];
        match passed.into_iter().find(|(is_passed, _)| *is_passed) {
            Some((_, limit)) => Err(OverLimit { claim: Some(search.claim), ..OverLimit::of(limit) }),
            None => Ok(()),
        }
    }
}
