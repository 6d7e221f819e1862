//! Step 4 of a slot: tasks that hold leases and wait for each other in a ring. The last of their
//! waits in the slot's order ends, until no ring is left.

use std::collections::{BTreeMap, BTreeSet};

use super::book::{Book, Grant, Task};
use super::fit::{Plan, Seen, View};
use super::ledger::{Group, GroupId, Kind};
use super::run::{SlotRun, Unplaced};
use super::settings::Settings;
use crate::types::{Time, Token};

/// Granted windows alone, where some leases are gone and the others last until they are released.
struct LeasesLast<'a, F> {
    book: &'a Book,
    settings: &'a Settings,
    now: Time,
    is_gone: F,
}

impl<F: Fn(&Grant) -> bool> View for LeasesLast<'_, F> {
    fn see(&self, _: GroupId, group: &Group, claim: usize) -> Seen {
        let Kind::Granted(token) = group.kind else { return Seen::Gone };
        let Some(lease) = self.book.grant(token).filter(|grant| grant.intent.hold) else { return Seen::AsIs };
        if (self.is_gone)(lease) {
            Seen::Gone
        } else if group.windows[claim].end() == lease.end {
            Seen::Until(lasts_until(lease, group, self.settings))
        } else {
            Seen::AsIs
        }
    }

    /// A lease whose present end lies before the window that is asked for may last into it; every
    /// grant in force ends after the decision time.
    fn look_back_to(&self, start: Time) -> Time {
        start.min(self.now)
    }
}

/// The latest end that renewals could give to a lease: they move its latest-ending claims together.
fn lasts_until(lease: &Grant, group: &Group, settings: &Settings) -> Time {
    let latest =
        group.windows.iter().zip(group.claims.iter()).filter(|(window, _)| window.end() == lease.end);
    let limits = latest.filter_map(|(window, claim)| {
        let since = lease.held_since.unwrap_or(window.start());
        settings.max_hold(claim.target.path()).map(|most| since.after(most))
    });
    limits.min().unwrap_or(Time::MAX).max(lease.end)
}

/// A waiting intent that leases keep out.
struct Stuck {
    /// Its index among the unplaced.
    unplaced: usize,
    plan: Plan,
    first: Time,
    last: Time,
    /// The earliest start that would do with all leases gone.
    start: Time,
}

/// Ends waits until no ring of tasks is left.
pub(super) fn resolve(run: &mut SlotRun<'_>) {
    while let Some(index) = last_of_a_ring(run) {
        let Some(unplaced) = run.unplaced.get_mut(index) else { return };
        unplaced.waits = false;
        unplaced.deadlock = true;
        let key = unplaced.key.clone();
        run.state.book.take_undecided(&key);
        if let Some(group) = run.held.remove(&key) {
            run.state.ledger.remove(group);
        }
    }
}

/// The wait that is last in the order among those that wait for a task of their own ring.
fn last_of_a_ring(run: &SlotRun<'_>) -> Option<usize> {
    let mut blocked = blocked_tasks(run);
    reduce(run, &mut blocked);
    let waits = waits_for(run, &blocked);
    let in_ring = |task: &Task, other: &Task| reaches(&waits, other, task);
    let mut last: Option<usize> = None;
    for (task, of_intents) in &waits {
        for (index, others) in of_intents {
            let is_later = last.is_none_or(|it| run.unplaced[*index].turn > run.unplaced[it].turn);
            if is_later && others.iter().any(|other| in_ring(task, other)) {
                last = Some(*index);
            }
        }
    }
    last
}

fn task_of(unplaced: &Unplaced) -> Task {
    (unplaced.key.agent.clone(), unplaced.undecided.intent.task)
}

/// The tasks with a stuck intent. A task that holds no lease keeps nobody out and is left aside.
fn blocked_tasks(run: &SlotRun<'_>) -> BTreeMap<Task, Vec<Stuck>> {
    let mut waiting: BTreeMap<Task, Vec<usize>> = BTreeMap::new();
    for (index, unplaced) in run.unplaced.iter().enumerate().filter(|(_, it)| it.waits) {
        let task = task_of(unplaced);
        if run.state.book.holds_lease(&task) {
            waiting.entry(task).or_default().push(index);
        }
    }
    let mut blocked = BTreeMap::new();
    if waiting.len() < 2 {
        return blocked; // a ring takes two
    }
    for (task, indexes) in waiting {
        let stuck: Vec<Stuck> = indexes.into_iter().filter_map(|index| stuck(run, &task, index)).collect();
        if !stuck.is_empty() {
            blocked.insert(task, stuck);
        }
    }
    blocked
}

fn stuck(run: &SlotRun<'_>, task: &Task, index: usize) -> Option<Stuck> {
    let unplaced = &run.unplaced[index];
    let plan = Plan::new(unplaced.key.clone(), &unplaced.undecided.intent.claims, &run.state.settings);
    let first = super::checks::starts(&unplaced.undecided.intent, run.now, &run.state.rules).first;
    let last = run.last_start_waiting(&unplaced.undecided);
    let start = earliest(run, &plan, first, last, |_| true)?;
    let fits = earliest(run, &plan, first, last, |lease| lease.task() == *task).is_some();
    (!fits).then_some(Stuck { unplaced: index, plan, first, last, start })
}

fn earliest(
    run: &SlotRun<'_>,
    plan: &Plan,
    first: Time,
    last: Time,
    is_gone: impl Fn(&Grant) -> bool,
) -> Option<Time> {
    let (book, settings) = (&run.state.book, &run.state.settings);
    let view = LeasesLast { book, settings, now: run.now, is_gone };
    run.state.ledger.earliest(plan, &view, first, last)
}

/// Takes out the tasks that get what they wait for once those who wait for nobody let go.
fn reduce(run: &SlotRun<'_>, blocked: &mut BTreeMap<Task, Vec<Stuck>>) {
    loop {
        let fits = |task: &Task, it: &Stuck| {
            let gone = |lease: &Grant| is_gone(blocked, task, lease);
            earliest(run, &it.plan, it.first, it.last, gone).is_some()
        };
        let free: BTreeSet<Task> = blocked
            .iter()
            .filter(|(task, stuck)| stuck.iter().all(|it| fits(task, it)))
            .map(|(task, _)| task.clone())
            .collect();
        if free.is_empty() {
            return;
        }
        blocked.retain(|task, _| !free.contains(task));
    }
}

/// Whether a lease is gone in the eyes of a blocked task: its own, or of a task that is not blocked.
fn is_gone(blocked: &BTreeMap<Task, Vec<Stuck>>, own: &Task, lease: &Grant) -> bool {
    let task = lease.task();
    task == *own || !blocked.contains_key(&task)
}

/// For each blocked task, which of its intents waits for which other blocked tasks.
type Waits = BTreeMap<Task, Vec<(usize, BTreeSet<Task>)>>;

fn waits_for(run: &SlotRun<'_>, blocked: &BTreeMap<Task, Vec<Stuck>>) -> Waits {
    let mut waits = Waits::new();
    for (task, stuck) in blocked {
        for it in stuck {
            let gone = |lease: &Grant| is_gone(blocked, task, lease);
            if earliest(run, &it.plan, it.first, it.last, gone).is_some() {
                continue; // no longer stuck
            }
            let others = holders_at(run, &it.plan, it.start, gone);
            waits.entry(task.clone()).or_default().push((it.unplaced, others));
        }
    }
    waits
}

/// The tasks whose leases conflict with the plan at `start`.
fn holders_at(
    run: &SlotRun<'_>,
    plan: &Plan,
    start: Time,
    is_gone: impl Fn(&Grant) -> bool,
) -> BTreeSet<Task> {
    let (book, settings) = (&run.state.book, &run.state.settings);
    let view = LeasesLast { book, settings, now: run.now, is_gone };
    let conflicts = run.state.ledger.conflicts(plan, &view, &plan.windows(start));
    let token_of = |id: GroupId| -> Option<Token> { run.state.ledger.group(id)?.kind.token() };
    let tokens = conflicts.pairs.iter().filter_map(|pair| token_of(pair.theirs.group));
    tokens.filter_map(|token| book.grant(token)).filter(|it| it.intent.hold).map(Grant::task).collect()
}

/// Whether waiting leads from `from` to `to`.
fn reaches(waits: &Waits, from: &Task, to: &Task) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(task) = open.pop() {
        if task == to {
            return true;
        }
        let next = waits.get(task).into_iter().flatten().flat_map(|(_, others)| others);
        open.extend(next.filter(|other| seen.insert(other)));
    }
    false
}
