//! Step 3 of a slot: one intent's turn. It is found stale, placed, placed by withdrawing others,
//! left waiting, or refused.

use std::sync::Arc;

use super::book::{Ended, Grant, RecordNo, Undecided};
use super::checks::{self, Starts};
use super::few::Few;
use super::fit::{AsItStands, Plan};
use super::ledger::{Group, GroupId, Kind, Lifted};
use super::run::{SlotRun, Turn, Unplaced};
use crate::types::{
    Blocker, Claim, IntentKey, Micros, Mode, Path, Slot, Start, Target, Time, Token, Verdict, Window,
};

/// The first reading that is stale, and from when on to read again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Staleness {
    path: Path,
    as_of: Time,
}

/// An intent in its turn.
struct Asker {
    no: RecordNo,
    turn: Turn,
    undecided: Undecided,
}

impl SlotRun<'_> {
    /// One intent's turn.
    pub(super) fn take_turn(&mut self, turn: Turn, no: RecordNo) {
        let Some(undecided) = self.state.book.lend_undecided(no) else { return };
        let Some(key) = self.state.book.numbered(no).map(|record| record.key.clone()) else { return };
        self.turns += 1;
        if undecided.withdrawn_for.is_some() {
            self.second_turns.insert(key.clone(), self.turns);
        }
        let plan = Plan::new(key, &undecided.intent.claims, &self.state.settings);
        let aside = self.step_aside(no, &plan.key);
        self.decide(Asker { no, turn, undecided }, &plan);
        self.step_back(&aside);
    }

    /// Takes an intent's own windows out of its own way: its old grant, what revisions in this slot
    /// left of it, and the place held for it.
    pub(super) fn step_aside(&mut self, no: RecordNo, key: &IntentKey) -> Vec<Lifted> {
        let record = self.state.book.numbered(no);
        let granted = record.and_then(|record| self.state.book.grant_of(record)).map(|grant| grant.group);
        let left = self.left.get(key).into_iter().flatten();
        let held = self.held.get(key).into_iter();
        let own: Vec<GroupId> = granted.into_iter().chain(left.copied()).chain(held.copied()).collect();
        own.into_iter().map(|id| self.state.ledger.lift(id, |_| true)).collect()
    }

    /// Puts back what stepped aside and is still there.
    pub(super) fn step_back(&mut self, aside: &[Lifted]) {
        aside.iter().for_each(|lifted| self.state.ledger.lay_again(lifted));
    }

    fn decide(&mut self, asker: Asker, plan: &Plan) {
        let undecided = &asker.undecided;
        let starts = self.starts(undecided);
        if let Some(stale) = self.stale_at(plan, undecided, starts.first) {
            return self.end_as_stale(asker, plan, stale);
        }
        let found = self.state.ledger.earliest_free(plan, starts.first, starts.last);
        // Looked at before anybody is withdrawn: what blocked it is what it met.
        let found = match found {
            Some(start) => Ok(start),
            None => {
                let windows = plan.windows(starts.first);
                let conflicts = self.state.ledger.conflicts(plan, &AsItStands, &windows);
                let blockers = self.state.ledger.blockers(plan, &conflicts.pairs);
                self.preempt(plan, undecided, starts).ok_or(blockers)
            }
        };
        match found {
            Ok(start) => match self.stale_at(plan, undecided, start) {
                Some(stale) => self.end_as_stale(asker, plan, stale),
                None => self.grant(&asker, plan, start),
            },
            Err(blockers) => self.leave_unplaced(asker, plan, starts, blockers),
        }
    }

    /// The starts that it may take in this slot, `max_hold` included.
    fn starts(&self, undecided: &Undecided) -> Starts {
        let starts = checks::starts(&undecided.intent, self.now, &self.state.rules);
        let held = checks::last_start_within_max_hold(undecided, &self.state.settings);
        Starts { last: starts.last.min(held), ..starts }
    }

    /// Whether somebody may have written after a reading and before `start`.
    pub(super) fn stale_at(&self, plan: &Plan, undecided: &Undecided, start: Time) -> Option<Staleness> {
        let oldest = self.now.before(self.state.rules.history).max(self.state.ended_windows.forgotten());
        undecided.intent.expects.iter().find_map(|expect| {
            let live = self.latest_live_end(plan, &expect.path, expect.as_of, start);
            let ended = self.state.ended_windows.latest_end(&expect.path, &plan.key, expect.as_of);
            let latest = live.max(ended);
            let as_of = if expect.as_of < oldest { latest.max(Some(self.now))? } else { latest? };
            Some(Staleness { path: expect.path.clone(), as_of })
        })
    }

    /// The latest end of a writer's granted window on the path that overlaps `[as_of, start)`.
    fn latest_live_end(&self, plan: &Plan, path: &Path, as_of: Time, start: Time) -> Option<Time> {
        let range = Window::new(as_of, start)?;
        let mut latest = None;
        self.state.ledger.scan(&Target::Path(path.clone()), Mode::Shared, range, |place| {
            let Some(group) = self.state.ledger.group(place.group) else { return };
            if group.key == plan.key || !group.kind.is_granted() {
                return;
            }
            let window = group.windows[place.claim];
            let end = match group.kind {
                Kind::Left(_) => window.end().min(self.now), // replaced at this decision time
                _ => window.end(),
            };
            let had = Window::new(window.start(), end).and_then(|had| had.overlap(range));
            latest = latest.max(had.map(|_| end));
        });
        latest
    }

    /// It ends as stale. One whose grant was withdrawn in this slot is told of that instead: by whom
    /// it lost the grant is what its holder must know.
    fn end_as_stale(&mut self, asker: Asker, plan: &Plan, stale: Staleness) {
        self.state.book.take_undecided(asker.no);
        if asker.undecided.withdrawn_for.is_some() {
            return self.note_unplaced(asker, plan, Vec::new(), false);
        }
        let kept = self.is_in_force(asker.undecided.revises);
        let line = Verdict::Stale { path: stale.path, as_of: stale.as_of, kept };
        if asker.undecided.revises.is_none() {
            self.remember_ended(asker.no, &asker.undecided, line.clone());
        }
        self.tell_placed(&asker.turn, plan.key.clone(), asker.undecided.arrival, line);
    }

    fn note_unplaced(&mut self, asker: Asker, plan: &Plan, blockers: Vec<Blocker>, waits: bool) {
        let Asker { no, turn, undecided } = asker;
        let (key, nth) = (plan.key.clone(), self.turns);
        let deadlock = false;
        self.unplaced.push(Unplaced { key, record: no, turn, nth, undecided, blockers, waits, deadlock });
    }

    /// Remembers that an intent has ended in this slot with that line.
    pub(super) fn remember_ended(&mut self, no: RecordNo, undecided: &Undecided, line: Verdict) {
        let ended = Ended { intent: undecided.intent.clone(), at: self.now, line: Some(line) };
        self.state.book.remember(no, ended);
    }

    fn grant(&mut self, asker: &Asker, plan: &Plan, start: Time) {
        self.state.book.take_undecided(asker.no);
        let line = self.enter_grant(asker.no, &plan.key, &asker.undecided, start);
        self.hold_readings(&plan.key, &asker.undecided, start);
        self.tell_placed(&asker.turn, plan.key.clone(), asker.undecided.arrival, line);
    }

    /// Enters a grant that starts at `start`, in place of the one that it revises.
    pub(super) fn enter_grant(
        &mut self,
        no: RecordNo,
        key: &IntentKey,
        undecided: &Undecided,
        start: Time,
    ) -> Verdict {
        let old = undecided.revises.and_then(|token| self.state.book.take_grant(token));
        if let Some(old) = old {
            self.ended.revised += 1;
            self.note_held(&old);
            self.state.ledger.change(old.group, |group| group.kind = Kind::Left(old.token));
            self.left.entry(key.clone()).or_default().push(old.group);
        }
        let token = Token::new(self.state.next_token);
        self.state.next_token = token.next().number();
        let intent = undecided.intent.clone();
        let windows: Few<Window> = intent.claims.iter().map(|claim| claim.window(start)).collect();
        let end = windows.iter().map(|window| window.end()).max().unwrap_or(start);
        let group = self.state.ledger.add(Group {
            key: key.clone(),
            kind: Kind::Granted(token),
            class: intent.class,
            claims: intent.claims.clone(),
            windows,
            tolerances: self.state.settings.tolerances(&intent.claims),
        });
        let grant = Grant {
            key: key.clone(),
            token,
            intent,
            start,
            end,
            granted_at: self.now,
            arrival: undecided.arrival,
            arrival_number: undecided.arrival_number,
            held_since: undecided.held_since,
            was_moved: undecided.withdrawn_for.is_some(),
            group,
            record: no,
            nth_expiring: 0, // as it is entered
        };
        let line = grant.line();
        self.state.book.set_grant(grant);
        line
    }

    /// Keeps those later in the order from writing between the decision and the grant's start.
    fn hold_readings(&mut self, key: &IntentKey, undecided: &Undecided, start: Time) {
        let Some(window) = Window::new(self.now, start) else { return };
        if undecided.intent.expects.is_empty() {
            return;
        }
        let claim = |path: &Path| Claim {
            target: Target::Path(path.clone()),
            mode: Mode::Shared,
            offset: Micros::ZERO,
            duration: window.duration(),
        };
        let claims: Arc<[Claim]> = undecided.intent.expects.iter().map(|it| claim(&it.path)).collect();
        self.hold(Group {
            key: key.clone(),
            kind: Kind::Expected(self.places_held),
            class: undecided.intent.class,
            windows: vec![window; claims.len()].into(),
            tolerances: vec![Micros::ZERO; claims.len()].into(),
            claims,
        });
    }

    fn hold(&mut self, place: Group) {
        self.places_held += 1;
        let key = place.key.clone();
        let group = self.state.ledger.add(place);
        self.held.insert(key, group);
    }

    /// It has no place in this slot: it waits, or this is its end.
    fn leave_unplaced(&mut self, asker: Asker, plan: &Plan, starts: Starts, blockers: Vec<Blocker>) {
        let undecided = &asker.undecided;
        if !undecided.intent.expects.is_empty() {
            let place = self.place_up_to_horizon(plan, undecided, starts.first);
            let stale = place.and_then(|place| self.stale_at(plan, undecided, place));
            if let Some(stale) = stale {
                return self.end_as_stale(asker, plan, stale);
            }
        }
        let waits = self.may_wait(undecided);
        if waits {
            self.hold_place(plan, undecided, starts.first);
            self.state.book.give_back(asker.no, undecided.clone());
        } else {
            self.state.book.take_undecided(asker.no);
        }
        self.note_unplaced(asker, plan, blockers, waits);
    }

    /// Holds the place of a waiting asap intent where that lies within its reach.
    fn hold_place(&mut self, plan: &Plan, undecided: &Undecided, first: Time) {
        if undecided.intent.start != Start::Asap {
            return;
        }
        let place = self.place_up_to_horizon(plan, undecided, first);
        let reach = self.last_start_waiting(undecided);
        if let Some(place) = place.filter(|place| *place <= reach) {
            self.hold(Group {
                key: plan.key.clone(),
                kind: Kind::Held(self.places_held),
                class: undecided.intent.class,
                claims: plan.claims.clone(),
                windows: plan.windows(place),
                tolerances: plan.tolerances.clone(),
            });
        }
    }

    /// The earliest start from `from` on at which it fits, all its claims ending within the horizon.
    pub(super) fn place_up_to_horizon(&self, plan: &Plan, undecided: &Undecided, from: Time) -> Option<Time> {
        let horizon = self.now.after(self.state.rules.horizon);
        let span = plan.span();
        if horizon.since(Time::ZERO) < span {
            return None;
        }
        let held = checks::last_start_within_max_hold(undecided, &self.state.settings);
        self.state.ledger.earliest_free(plan, from, horizon.before(span).min(held))
    }

    /// Whether its wait lasts and the next slot could still place it.
    fn may_wait(&self, undecided: &Undecided) -> bool {
        let lasts = undecided.waits_from.after(undecided.intent.wait) > self.now;
        let next = self.now.after(self.state.rules.length).after(self.state.rules.min_lead);
        let reachable = match undecided.intent.start {
            Start::Asap => true,
            Start::At(start) => start.after(undecided.intent.slack) >= next,
        };
        undecided.revises.is_none() && lasts && reachable
    }

    /// The last start that a waiting intent could take in any slot of its wait.
    pub(super) fn last_start_waiting(&self, undecided: &Undecided) -> Time {
        let rules = &self.state.rules;
        let last = match undecided.intent.start {
            Start::At(start) => start.after(undecided.intent.slack),
            Start::Asap => {
                let wait_ends = undecided.waits_from.after(undecided.intent.wait);
                first_boundary_from(wait_ends, rules.length)
                    .after(rules.min_lead)
                    .after(checks::asap_reach(&undecided.intent, rules))
            }
        };
        last.min(checks::last_start_within_max_hold(undecided, &self.state.settings))
    }
}

/// The first slot boundary at or after `at`.
fn first_boundary_from(at: Time, length: Micros) -> Time {
    let opens = Slot::of(at, length).opens(length);
    if opens == at { at } else { opens.after(length) }
}
