//! Steps 3 and 5: the turns of the undecided, preemption, held places, and what the unplaced are told.

use std::cmp::Ordering;

use preclaim::types::{Conflict, Intent, Micros, Start, Time, Token, Verdict};

use super::fitting::{self, Standing, earliest, fits, windows_at};
use super::reference::{Grant, Kind, Twin, Undecided, Unplaced, Work, boundary_from, place_of_readings};

/// What decides whose turn comes first, beside the class.
#[derive(Clone, Copy, Debug)]
struct Rank {
    class: u8,
    impatient: bool,
    score: f64,
    arrival: u64,
}

impl Rank {
    /// `Less` where this one goes first.
    fn order(&self, other: &Rank) -> Ordering {
        let by_score = || other.score.total_cmp(&self.score);
        let both_impatient = self.impatient && other.impatient;
        other
            .class
            .cmp(&self.class)
            .then(other.impatient.cmp(&self.impatient))
            .then_with(|| if both_impatient { Ordering::Equal } else { by_score() })
            .then(self.arrival.cmp(&other.arrival))
    }
}

impl Twin {
    pub(crate) fn place_all(&mut self, work: &mut Work) {
        let undecided = std::mem::take(&mut self.undecided);
        let mut queue: Vec<(Rank, Undecided)> =
            undecided.into_iter().map(|one| (self.rank(work, &one), one)).collect();
        loop {
            let first = (0..queue.len()).min_by(|&a, &b| queue[a].0.order(&queue[b].0));
            let Some(first) = first else { return };
            let (_, one) = queue.remove(first);
            work.turns.push(one.key.clone());
            for gone in self.turn(work, one) {
                self.re_enter(work, &mut queue, gone);
            }
        }
    }

    fn rank(&self, work: &mut Work, one: &Undecided) -> Rank {
        let waited = work.d.since(one.waits_from);
        Rank {
            class: one.intent.class.number(),
            impatient: self.rules.patience.is_some_and(|patience| waited > patience),
            score: self.score(work, one),
            arrival: one.arrival.number,
        }
    }

    /// A withdrawn grant waits for its turn again, unless a revision of it is still to have one.
    fn re_enter(&self, work: &mut Work, queue: &mut Vec<(Rank, Undecided)>, (grant, by): (Grant, Undecided)) {
        let revision = Kind::Revision { of: grant.token };
        if let Some((_, revision)) =
            queue.iter_mut().find(|(_, one)| one.key == *grant.key() && one.kind == revision)
        {
            (revision.kind, revision.anchor) = (Kind::Declared, None);
            self.saw("revision goes on as a declaration");
            return;
        }
        let one = Undecided {
            key: grant.key().clone(),
            intent: grant.intent,
            arrival: grant.arrival,
            waits_from: work.d,
            kind: Kind::Withdrawn { by: by.key },
            anchor: grant.anchor,
            line: None,
        };
        queue.push((self.rank(work, &one), one));
    }

    /// One intent's turn. Returns the grants that were withdrawn for it.
    fn turn(&mut self, work: &mut Work, one: Undecided) -> Vec<(Grant, Undecided)> {
        let (lo, hi) = self.reachable(&one.intent, work.d);
        if let Some(stale) = self.stale(&one, lo, work.d, &[]) {
            self.saw("stale at lo");
            self.end_stale(work, one, stale);
            return Vec::new();
        }
        let view = self.view(&one.key, &work.held);
        let found = earliest(&self.rules, &one.intent.claims, one.anchor, &view, (lo, hi));
        if let Some(start) = found {
            match self.stale(&one, start, work.d, &[]) {
                Some(stale) => {
                    self.saw("stale at the start it would take");
                    self.end_stale(work, one, stale);
                }
                None => self.grant(work, one, start),
            }
            return Vec::new();
        }
        if let Some((start, gone)) = self.whom_to_withdraw(work, &one, (lo, hi)) {
            if let Some(stale) = self.stale(&one, start, work.d, &gone) {
                self.saw("stale, and nothing is withdrawn");
                // So what would have been withdrawn stands, and must be over before the next reading.
                let stale = self.stale(&one, start, work.d, &[]).unwrap_or(stale);
                self.end_stale(work, one, stale);
                return Vec::new();
            }
            let withdrawn = gone.iter().filter_map(|token| self.withdraw(work.d, *token));
            let withdrawn: Vec<_> = withdrawn.map(|grant| (grant, one.clone())).collect();
            if matches!(one.kind, Kind::Withdrawn { .. }) {
                self.saw("a cascade");
            }
            self.grant(work, one, start);
            return withdrawn;
        }
        self.not_placed(work, one, lo);
        Vec::new()
    }

    fn end_stale(&mut self, work: &mut Work, one: Undecided, (path, as_of): (preclaim::types::Path, Time)) {
        if let Kind::Withdrawn { .. } = one.kind {
            // It held a grant: what its holder must hear is that this is gone, and by whom.
            self.saw("withdrawn, and stale");
            return self.unplaced(work, one, Vec::new(), false);
        }
        let kept = self.is_kept(&one);
        let line = Verdict::Stale { path, as_of, kept };
        work.say(&one.key, None, line.clone());
        if !one.is_revision() {
            self.remember(one.key, one.intent, line, work.d);
        }
    }

    fn is_kept(&self, one: &Undecided) -> bool {
        matches!(one.kind, Kind::Revision { of } if self.grants.iter().any(|grant| grant.token == of))
    }

    fn grant(&mut self, work: &mut Work, one: Undecided, start: Time) {
        let token = self.take_token();
        if let Kind::Revision { of } = one.kind
            && let Some(old) = self.grants.iter().position(|grant| grant.token == of)
        {
            let old = self.grants.remove(old);
            self.close_tenure(&old, work.d);
            self.leftovers.push(old.standing);
            self.saw(if one.anchor.is_some() {
                "granted, a revision in a chain"
            } else {
                "granted, a revision"
            });
        }
        let (lo, hi) = self.reachable(&one.intent, work.d);
        if start > lo && start <= hi {
            self.saw("granted, later than its lo");
        }
        if one.line.is_some() {
            self.saw("granted after a wait");
        }
        if !one.intent.expects.is_empty() {
            self.saw("granted, with expects");
        }
        super::coverage::kinds(&one.intent.claims).into_iter().for_each(|kind| self.saw(kind));
        work.held.extend(place_of_readings(&one.key, &one.intent, work.d, start));
        let standing = Standing {
            key: one.key,
            token: Some(token),
            claims: one.intent.claims.clone(),
            windows: windows_at(&one.intent.claims, start),
            tolerant: true,
        };
        let grant = Grant {
            standing,
            token,
            intent: one.intent,
            arrival: one.arrival,
            start,
            anchor: one.anchor,
            granted_at: work.d,
            moved: matches!(one.kind, Kind::Withdrawn { .. }),
            shrunk: false,
            superseded: false,
        };
        work.say(grant.key(), None, grant.line());
        self.grants.push(grant);
    }

    /// The start at which it would fit were enough lower grants gone, and which to withdraw.
    fn whom_to_withdraw(
        &self,
        work: &Work,
        one: &Undecided,
        span: (Time, Time),
    ) -> Option<(Time, Vec<Token>)> {
        let frozen_until = work.d.after(self.rules.preemption?);
        let may_go = |grant: &&Grant| {
            grant.key() != &one.key
                && grant.intent.class < one.intent.class
                && grant.standing.first_start() > frozen_until
        };
        let lower: Vec<&Grant> = self.grants.iter().filter(may_go).collect();
        let all: Vec<Token> = lower.iter().map(|grant| grant.token).collect();
        let claims = &one.intent.claims;
        let view = self.view_without(work, one, &all);
        let view: Vec<&Standing> = view.iter().collect();
        let start = earliest(&self.rules, claims, one.anchor, &view, span)?;
        let windows = windows_at(claims, start);
        let fits_without = |gone: &[Token]| {
            let view = self.view_without(work, one, gone);
            fits(&self.rules, claims, &windows, &view.iter().collect::<Vec<_>>())
        };
        let mut gone = Vec::new();
        while !fits_without(&gone) {
            let view = self.view_without(work, one, &gone);
            let view: Vec<&Standing> = view.iter().collect();
            let pairs = fitting::pairs(&self.rules, claims, &windows, &view, None);
            let goes = |grant: &Grant, (at, _, theirs): &(usize, usize, usize)| {
                let left_and_goes = &view[*at].key == grant.key()
                    && view[*at].windows[*theirs].is_some_and(|window| window.start() > frozen_until);
                view[*at].token.is_some() && left_and_goes
            };
            let in_the_way = lower
                .iter()
                .filter(|grant| !gone.contains(&grant.token) && pairs.iter().any(|pair| goes(grant, pair)));
            let next = in_the_way.min_by_key(|grant| (grant.intent.class, std::cmp::Reverse(grant.token)))?;
            gone.push(next.token);
        }
        for token in gone.clone().into_iter().rev() {
            let without: Vec<Token> = gone.iter().copied().filter(|other| *other != token).collect();
            if fits_without(&without) {
                self.saw("withdrawn and put back");
                gone = without;
            }
        }
        Some((start, gone))
    }

    /// What stands in the way of `one` with these grants gone, and with them the old windows of
    /// theirs that begin after the freeze.
    fn view_without(&self, work: &Work, one: &Undecided, gone: &[Token]) -> Vec<Standing> {
        let gone: Vec<&Grant> = self.grants.iter().filter(|grant| gone.contains(&grant.token)).collect();
        let mut view: Vec<Standing> = self.view(&one.key, &work.held).into_iter().cloned().collect();
        view.retain(|standing| !gone.iter().any(|grant| standing.token == Some(grant.token)));
        for standing in view.iter_mut().filter(|standing| standing.token.is_some()) {
            if gone.iter().any(|grant| grant.key() == &standing.key) {
                self.drop_unfrozen(work.d, standing);
            }
        }
        view
    }

    fn drop_unfrozen(&self, d: Time, standing: &mut Standing) {
        let frozen_until = d.after(self.rules.preemption.unwrap_or(Micros::MAX));
        for window in &mut standing.windows {
            *window = window.filter(|window| window.start() <= frozen_until);
        }
    }

    fn withdraw(&mut self, d: Time, token: Token) -> Option<Grant> {
        let at = self.grants.iter().position(|grant| grant.token == token)?;
        let grant = self.grants.remove(at);
        self.close_tenure(&grant, d);
        let mut leftovers = std::mem::take(&mut self.leftovers);
        for left in leftovers.iter_mut().filter(|left| &left.key == grant.key()) {
            self.drop_unfrozen(d, left);
        }
        self.leftovers = leftovers;
        Some(grant)
    }

    fn not_placed(&mut self, work: &mut Work, one: Undecided, lo: Time) {
        let d = work.d;
        let intent = &one.intent;
        let view = self.view(&one.key, &work.held);
        let place = self.place(&one, &view, (lo, d));
        let next = d.after(self.rules.length).after(self.rules.min_lead);
        let in_time = match intent.start {
            Start::Asap => true,
            Start::At(start) => start.after(intent.slack) >= next,
        };
        let waits = !one.is_revision() && one.wait_ends() > d && in_time;
        let stale = place.filter(|_| !waits).and_then(|place| self.stale(&one, place, d, &[]));
        if let Some(stale) = stale {
            self.saw("stale at its place");
            return self.end_stale(work, one, stale);
        }
        let windows = windows_at(&intent.claims, lo);
        let blockers = fitting::blockers(&self.rules, &intent.claims, &windows, &view, None);
        self.look_at_blockers(work, &view, &blockers);
        let held = place.filter(|place| waits && intent.start == Start::Asap && *place <= self.reach(&one));
        if let Some(start) = held {
            let (claims, windows) = (intent.claims.clone(), windows_at(&intent.claims, start));
            work.held.push(Standing { key: one.key.clone(), token: None, claims, windows, tolerant: true });
        }
        self.unplaced(work, one, blockers, waits);
    }

    fn look_at_blockers(&self, work: &Work, view: &[&Standing], blockers: &[preclaim::types::Blocker]) {
        for blocker in blockers {
            if self.leftovers.iter().any(|left| left.token == blocker.token) {
                self.saw("blocker, what a revision left");
            }
            if blocker.token.is_none()
                && work.held.iter().any(|held| held.key == blocker.key && !held.tolerant)
            {
                self.saw("blocker, reading's place");
            }
            let standing = view.iter().find(|standing| standing.token == blocker.token);
            let claim = standing.and_then(|standing| standing.claims.get(blocker.their_claim));
            if claim.is_some_and(|claim| matches!(claim.mode, preclaim::types::Mode::Units(_))) {
                self.saw("blocker, units");
            }
        }
    }

    fn unplaced(
        &mut self,
        work: &mut Work,
        undecided: Undecided,
        blockers: Vec<preclaim::types::Blocker>,
        waits: bool,
    ) {
        let turn = work.turns.len() - 1;
        work.unplaced.push(Unplaced { undecided, turn, blockers, waits, deadlock: false });
    }

    /// The earliest start at or after `from` at which it fits in view, all claims ending by `d + horizon`.
    fn place(&self, one: &Undecided, view: &[&Standing], (from, d): (Time, Time)) -> Option<Time> {
        let last = d.after(self.rules.horizon);
        let latest = |intent: &Intent| {
            let spans = intent.claims.iter().map(|claim| claim.offset.plus(claim.duration));
            last.as_us().checked_sub(spans.max()?.as_us()).map(Time::from_us)
        };
        earliest(&self.rules, &one.intent.claims, one.anchor, view, (from, latest(&one.intent)?))
    }

    /// The last start that an undecided intent could still take in its last slot.
    pub(crate) fn reach(&self, one: &Undecided) -> Time {
        match one.intent.start {
            Start::At(start) => start.after(one.intent.slack),
            Start::Asap => boundary_from(one.wait_ends(), self.rules.length)
                .after(self.rules.min_lead)
                .after(self.asap_slack(&one.intent)),
        }
    }

    /// Step 5, and the lines of all that was not placed.
    pub(crate) fn tell_unplaced(&mut self, work: &mut Work) {
        let mut unplaced = std::mem::take(&mut work.unplaced);
        let last_turn = |one: &Unplaced| work.turns.iter().rposition(|turn| turn == &one.undecided.key);
        unplaced.sort_by_key(|one| (last_turn(one), one.turn));
        for one in unplaced {
            let offer = self.offer(work, &one.undecided);
            self.tell_one(work, one, offer);
        }
    }

    fn offer(&self, work: &Work, one: &Undecided) -> Option<Time> {
        let next = work.d.after(self.rules.length).after(self.rules.min_lead);
        let from = match one.intent.start {
            Start::At(start) => start.max(next),
            Start::Asap => next,
        };
        let granted = self.grants.iter().map(|grant| &grant.standing);
        let view: Vec<&Standing> =
            granted.chain(&work.held).filter(|standing| standing.key != one.key).collect();
        self.place(one, &view, (from, work.d))
    }

    fn tell_one(&mut self, work: &mut Work, one: Unplaced, offer: Option<Time>) {
        let Unplaced { mut undecided, blockers, waits, deadlock, .. } = one;
        let kept = self.is_kept(&undecided);
        let line = match &undecided.kind {
            Kind::Withdrawn { by } => Verdict::Revoked { by: by.clone(), offer, waiting: waits },
            _ => Verdict::Conflict(Conflict { is_final: !waits, deadlock, offer, blockers, kept }),
        };
        let told = match &undecided.line {
            Some(Verdict::Conflict(Conflict { offer, .. }) | Verdict::Revoked { offer, .. }) => Some(*offer),
            _ => None,
        };
        let is_news = !waits || told != Some(offer);
        if waits && is_news && told.is_some() {
            self.saw("conflict, waiting, offer changed");
        }
        if is_news {
            work.say(&undecided.key, None, line.clone());
        }
        if waits {
            if is_news {
                undecided.line = Some(line);
            }
            undecided.kind = Kind::Declared;
            self.undecided.push(undecided);
        } else if !undecided.is_revision() {
            self.remember(undecided.key, undecided.intent, line, work.d);
        }
    }
}
