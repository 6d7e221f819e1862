//! Step 4 of a slot: tasks that hold leases and wait for each other in a ring. The last of their
//! waits in the slot's order ends, until no ring is left.

use std::collections::BTreeMap;

use super::book::{Book, Grant, Task};
use super::fit::{Plan, Seen, View};
use super::ledger::{Group, GroupId, Kind};
use super::rings;
use super::run::{SlotRun, Unplaced};
use super::settings::Settings;
use crate::types::{FixedMap, Time, Token};

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
    let mut stuck = stuck_by_task(run);
    while let Some(index) = last_of_a_ring(run, &stuck) {
        // Granted windows stay as they are, so nobody else is any more or less stuck than before.
        stuck.values_mut().for_each(|of_task| of_task.retain(|it| it.unplaced != index));
        stuck.retain(|_, of_task| !of_task.is_empty());
        let Some(unplaced) = run.unplaced.get_mut(index) else { return };
        debug_assert!(unplaced.waits, "a wait that has ended is in no ring, or rings might never end");
        unplaced.waits = false;
        unplaced.deadlock = true;
        let key = unplaced.key.clone();
        run.state.book.take_undecided(unplaced.record);
        if let Some(group) = run.held.remove(&key) {
            run.state.ledger.remove(group);
        }
    }
}

/// Stuck intents by task.
type StuckByTask = BTreeMap<Task, Vec<Stuck>>;

/// A stuck intent of a blocked task.
struct Wait {
    unplaced: usize,
    /// The numbers of its task and of those that it waits for.
    task: usize,
    others: Vec<usize>,
}

/// The wait that is last in the order among those that wait for a task of their own ring.
fn last_of_a_ring(run: &SlotRun<'_>, stuck: &StuckByTask) -> Option<usize> {
    let waits = waits_of_blocked(run, stuck);
    let tasks = waits.iter().map(|wait| wait.task + 1).max().unwrap_or(0);
    let edges = waits.iter().flat_map(|wait| wait.others.iter().map(|other| (wait.task, *other)));
    let ring_of = rings::components(tasks, &edges.collect::<Vec<_>>());
    let in_ring = waits.iter().filter(|wait| {
        let is_of_it = |other: &usize| ring_of[*other] == ring_of[wait.task];
        wait.others.iter().any(is_of_it)
    });
    in_ring.map(|wait| wait.unplaced).max_by_key(|index| &run.unplaced[*index].turn)
}

fn task_of(unplaced: &Unplaced) -> Task {
    (unplaced.key.agent.clone(), unplaced.undecided.intent.task)
}

/// Every stuck intent. A task that holds no lease keeps nobody out and is left aside.
fn stuck_by_task(run: &SlotRun<'_>) -> StuckByTask {
    let mut waiting: BTreeMap<Task, Vec<usize>> = BTreeMap::new();
    for (index, unplaced) in run.unplaced.iter().enumerate().filter(|(_, it)| it.waits) {
        let task = task_of(unplaced);
        if run.state.book.holds_lease(&task) {
            waiting.entry(task).or_default().push(index);
        }
    }
    let mut by_task = BTreeMap::new();
    if waiting.len() < 2 {
        return by_task; // a ring takes two
    }
    for (task, indexes) in waiting {
        let stuck: Vec<Stuck> = indexes.into_iter().filter_map(|index| stuck(run, &task, index)).collect();
        if !stuck.is_empty() {
            by_task.insert(task, stuck);
        }
    }
    by_task
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

/// The tasks that are blocked, each with its number.
type Blocked<'a> = FixedMap<&'a Task, usize>;

/// Leaves out the tasks that get what they wait for once those who wait for nobody let go, until all
/// that are left are blocked, and says whom each intent that is still stuck then waits for.
fn waits_of_blocked(run: &SlotRun<'_>, stuck: &StuckByTask) -> Vec<Wait> {
    let mut tasks: Vec<(&Task, &Vec<Stuck>)> = stuck.iter().collect();
    loop {
        if tasks.len() < 2 {
            return Vec::new(); // a ring takes two
        }
        let blocked: Blocked<'_> = tasks.iter().enumerate().map(|(at, (task, _))| (*task, at)).collect();
        let still_stuck = |(task, stuck): &(&Task, &'_ Vec<Stuck>)| -> Vec<usize> {
            let gone = |lease: &Grant| is_gone(&blocked, task, lease);
            let is_kept_out = |it: &Stuck| earliest(run, &it.plan, it.first, it.last, gone).is_none();
            (0..stuck.len()).filter(|at| is_kept_out(&stuck[*at])).collect()
        };
        let still: Vec<Vec<usize>> = tasks.iter().map(still_stuck).collect();
        if still.iter().any(Vec::is_empty) {
            let before = tasks.len();
            let mut still = still.iter();
            tasks.retain(|_| still.next().is_some_and(|it| !it.is_empty()));
            debug_assert!(tasks.len() < before, "each round leaves out a task, or they might never end");
            continue;
        }
        let of_task = |(number, still): (usize, Vec<usize>)| {
            let (task, stuck) = tasks[number];
            let wait = |it: &Stuck| Wait {
                unplaced: it.unplaced,
                task: number,
                others: holders_at(run, it, task, &blocked),
            };
            still.into_iter().map(|at| wait(&stuck[at])).collect::<Vec<_>>()
        };
        return still.into_iter().enumerate().flat_map(of_task).collect();
    }
}

/// Whether a lease is gone in the eyes of a blocked task: its own, or of a task that is not blocked.
fn is_gone(blocked: &Blocked<'_>, own: &Task, lease: &Grant) -> bool {
    let task = lease.task();
    task == *own || !blocked.contains_key(&task)
}

/// The blocked tasks whose leases conflict with a stuck intent of `task` at its earliest start.
fn holders_at(run: &SlotRun<'_>, it: &Stuck, task: &Task, blocked: &Blocked<'_>) -> Vec<usize> {
    let (book, settings) = (&run.state.book, &run.state.settings);
    let is_gone = |lease: &Grant| is_gone(blocked, task, lease);
    let view = LeasesLast { book, settings, now: run.now, is_gone };
    let conflicts = run.state.ledger.conflicts(&it.plan, &view, &it.plan.windows(it.start));
    let token_of = |id: GroupId| -> Option<Token> { run.state.ledger.group(id)?.kind.token() };
    let tokens = conflicts.pairs.iter().filter_map(|pair| token_of(pair.theirs.group));
    let leases = tokens.filter_map(|token| book.grant(token)).filter(|grant| grant.intent.hold);
    let mut holders: Vec<usize> = leases.filter_map(|lease| blocked.get(&lease.task()).copied()).collect();
    holders.sort_unstable();
    holders.dedup();
    holders
}
