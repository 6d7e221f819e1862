//! Preemption: a higher class takes the place of grants of lower ones that begin late enough.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::book::{Book, Undecided};
use super::checks::Starts;
use super::fit::{AsItStands, Plan, Seen, View};
use super::ledger::{Group, GroupId, Kind, Ledger, Lifted, Place};
use super::run::SlotRun;
use crate::types::{Class, IntentKey, Mode, Time, Token, Window};

/// Which grants may be withdrawn: strictly lower class, first window after the freeze.
#[derive(Clone, Copy)]
struct Withdrawable<'a> {
    book: &'a Book,
    ledger: &'a Ledger,
    class: Class,
    /// The decision time plus the freeze.
    safe_until: Time,
}

impl Withdrawable<'_> {
    /// The grant that goes where this window has to go, if one may be withdrawn for it.
    fn grant_of(&self, group: &Group, claim: usize) -> Option<Token> {
        match group.kind {
            Kind::Granted(token) => self.may_go(group).then_some(token),
            Kind::Left(_) => {
                // What a revision left goes with its grant, as far as it begins late enough.
                let token = self.book.record(&group.key)?.grant?;
                let heir = self.ledger.group(self.book.grant(token)?.group)?;
                let is_late = group.windows[claim].start() > self.safe_until;
                (is_late && self.may_go(heir)).then_some(token)
            }
            Kind::Held(_) | Kind::Expected(_) => None,
        }
    }

    fn may_go(&self, group: &Group) -> bool {
        group.class < self.class && group.first_start() > self.safe_until
    }
}

impl View for Withdrawable<'_> {
    fn see(&self, _: GroupId, group: &Group, claim: usize) -> Seen {
        if self.grant_of(group, claim).is_some() { Seen::Gone } else { Seen::AsIs }
    }
}

/// A grant that is in the way as long as nothing has been withdrawn.
struct Obstacle {
    token: Token,
    /// Whether it is in the way by itself, whatever else goes.
    meets: bool,
    /// Its units, which are in the way as long as a capacity is exceeded where they are.
    units: Vec<Place>,
}

impl SlotRun<'_> {
    /// Looks for a start that lower grants alone keep it from, and withdraws those of them that
    /// have to go. Nothing is withdrawn where it would be stale there: the start is given all the
    /// same, and the caller finds it stale.
    pub(super) fn preempt(&mut self, plan: &Plan, undecided: &Undecided, starts: Starts) -> Option<Time> {
        let safe_until = self.now.after(self.state.rules.preemption?);
        let start = {
            let view = self.withdrawable(undecided, safe_until);
            self.state.ledger.earliest(plan, &view, starts.first, starts.last)?
        };
        let windows = plan.windows(start);
        let mut withdrawn = Vec::new();
        for obstacle in self.obstacles(plan, undecided, &windows, safe_until) {
            let of = self.state.book.grant(obstacle.token).map(|grant| grant.intent.class);
            debug_assert!(
                of.is_some_and(|of| of < undecided.intent.class),
                "equals would oust each other for ever"
            );
            if self.is_in_the_way(plan, start, &obstacle) {
                let aside = self.stand_aside(obstacle.token, safe_until);
                withdrawn.push((obstacle, aside));
            }
        }
        // Last withdrawn first, those that can stay are put back.
        let mut gone = Vec::new();
        for (obstacle, aside) in withdrawn.into_iter().rev() {
            self.step_back(&aside);
            if self.is_in_the_way(plan, start, &obstacle) {
                gone.push((obstacle.token, self.stand_aside(obstacle.token, safe_until)));
            }
        }
        if self.stale_at(plan, undecided, start).is_some() {
            gone.iter().for_each(|(_, aside)| self.step_back(aside));
        } else {
            gone.into_iter().for_each(|(token, _)| self.withdraw(token, &plan.key));
        }
        Some(start)
    }

    fn withdrawable(&self, undecided: &Undecided, safe_until: Time) -> Withdrawable<'_> {
        let (book, ledger) = (&self.state.book, &self.state.ledger);
        Withdrawable { book, ledger, class: undecided.intent.class, safe_until }
    }

    /// The grants in the way that may be withdrawn: the lowest class first, then the newest token. As
    /// they go, those that are left may be in nobody's way any more, and none comes to be.
    fn obstacles(
        &self,
        plan: &Plan,
        undecided: &Undecided,
        windows: &[Window],
        safe_until: Time,
    ) -> Vec<Obstacle> {
        let view = self.withdrawable(undecided, safe_until);
        let conflicts = self.state.ledger.conflicts(plan, &AsItStands, windows);
        let class_of = |token: Token| self.state.book.grant(token).map(|grant| grant.intent.class);
        let mut found: BTreeMap<_, Obstacle> = BTreeMap::new();
        for pair in conflicts.pairs {
            let Some(group) = self.state.ledger.group(pair.theirs.group) else { continue };
            let Some(token) = view.grant_of(group, pair.theirs.claim) else { continue };
            let obstacle = found.entry((class_of(token), Reverse(token))).or_insert_with(|| Obstacle {
                token,
                meets: false,
                units: Vec::new(),
            });
            let modes = (plan.claims[pair.claim].mode, group.claims[pair.theirs.claim].mode);
            match modes {
                (Mode::Units(_), Mode::Units(_)) => obstacle.units.push(pair.theirs),
                _ => obstacle.meets = true,
            }
        }
        found.into_values().collect()
    }

    fn is_in_the_way(&self, plan: &Plan, start: Time, obstacle: &Obstacle) -> bool {
        let exceeds = |place: &Place| self.state.ledger.exceeds_at(plan, start, *place);
        obstacle.meets || obstacle.units.iter().any(exceeds)
    }

    /// Takes a grant out of the way, with what its revisions in this slot left after the freeze.
    fn stand_aside(&mut self, token: Token, safe_until: Time) -> Vec<Lifted> {
        let is_late = |window: Window| window.start() > safe_until;
        let groups = self.groups_of(token).into_iter();
        groups.map(|group| self.state.ledger.lift(group, is_late)).collect()
    }

    /// The group of a grant, and those that its revisions in this slot left.
    fn groups_of(&self, token: Token) -> Vec<GroupId> {
        let Some(grant) = self.state.book.grant(token) else { return Vec::new() };
        let left = self.left.get(&grant.key).into_iter().flatten();
        left.copied().chain([grant.group]).collect()
    }

    /// Ends a grant that stands aside for good: its intent goes back into the slot's order.
    fn withdraw(&mut self, token: Token, by: &IntentKey) {
        let Some(grant) = self.state.book.take_grant(token) else { return };
        self.ended.withdrawn += 1;
        self.state.ledger.remove(grant.group);
        self.note_held(&grant); // its start may have passed, though no window of it had begun
        if let Some(revision) = self.state.book.undecided_mut(grant.record) {
            // Its revision is still to have its turn, and goes on as a declaration, whose
            // claims count from their own starts.
            revision.revises = None;
            revision.held_since = None;
            return;
        }
        let undecided = Undecided {
            intent: grant.intent,
            arrival: grant.arrival,
            arrival_number: grant.arrival_number,
            waits_from: self.now,
            revises: None,
            held_since: grant.held_since,
            told: None,
            withdrawn_for: Some(by.clone()),
        };
        self.state.book.set_undecided(grant.record, undecided);
        self.enqueue(grant.record);
    }
}
