//! Step 4: tasks that wait for each other's leases in a ring.

use std::collections::{BTreeMap, BTreeSet};

use preclaim::types::{Agent, TaskId, Time, Window};

use super::fitting::{self, Standing, earliest, max_hold, windows_at};
use super::reference::{Grant, Twin, Undecided, Work};

type Task = (Agent, TaskId);

/// A waiting intent that leases keep out, by its index among the unplaced.
struct Stuck {
    at: usize,
    task: Task,
    /// The earliest start at which it would fit with all leases gone.
    start: Time,
}

impl Twin {
    pub(crate) fn end_deadlocks(&self, work: &mut Work) {
        while let Some(victim) = self.victim(work) {
            let one = &mut work.unplaced[victim];
            (one.waits, one.deadlock) = (false, true);
            let key = one.undecided.key.clone();
            work.held.retain(|held| held.key != key);
        }
    }

    fn victim(&self, work: &Work) -> Option<usize> {
        let stuck = self.stuck(work);
        let mut blocked: BTreeSet<Task> = stuck.iter().map(|one| one.task.clone()).collect();
        let keeps_out = |one: &Stuck, blocked: &BTreeSet<Task>| {
            let view = self.leased(|task| task != &one.task && blocked.contains(task));
            self.within_reach(work, &work.unplaced[one.at].undecided, &view).is_none()
        };
        loop {
            let free = blocked.iter().find(|task| {
                let mut own = stuck.iter().filter(|one| &one.task == *task);
                !own.any(|one| keeps_out(one, &blocked))
            });
            let Some(free) = free.cloned() else { break };
            blocked.remove(&free);
        }
        let still = stuck.iter().filter(|one| blocked.contains(&one.task) && keeps_out(one, &blocked));
        let edges: Vec<(&Stuck, BTreeSet<Task>)> =
            still.map(|one| (one, self.waits_for(work, one, &blocked))).collect();
        let reached = reach_of_all(&edges);
        let on_ring = |(one, tasks): &&(&Stuck, BTreeSet<Task>)| {
            tasks
                .iter()
                .any(|task| reached.get(task).is_some_and(|from_there| from_there.contains(&one.task)))
        };
        let last = edges.iter().filter(on_ring).max_by_key(|(one, _)| work.unplaced[one.at].turn);
        last.map(|(one, _)| one.at)
    }

    fn stuck(&self, work: &Work) -> Vec<Stuck> {
        let no_lease = self.leased(|_| false);
        let mut stuck = Vec::new();
        for (at, one) in work.unplaced.iter().enumerate().filter(|(_, one)| one.waits) {
            let task = one.undecided.task();
            let start = self.within_reach(work, &one.undecided, &no_lease);
            let others = self.leased(|other| other != &task);
            if let Some(start) = start
                && self.within_reach(work, &one.undecided, &others).is_none()
            {
                stuck.push(Stuck { at, task, start });
            }
        }
        stuck
    }

    fn within_reach(&self, work: &Work, one: &Undecided, view: &[Standing]) -> Option<Time> {
        let (lo, _) = self.reachable(&one.intent, work.d);
        let view: Vec<&Standing> = view.iter().collect();
        earliest(&self.rules, &one.intent.claims, one.anchor, &view, (lo, self.reach(one)))
    }

    /// The granted windows with the leases of the tasks that `last`, as lasting, and no other leases.
    fn leased(&self, lasts: impl Fn(&Task) -> bool) -> Vec<Standing> {
        let seen = self.grants.iter().filter(|grant| !grant.intent.hold || lasts(&grant.task()));
        seen.map(|grant| if grant.intent.hold { self.lasting(grant) } else { grant.standing.clone() })
            .collect()
    }

    /// A lease's latest-ending claims go on for as long as `max_hold` lets them be renewed.
    fn lasting(&self, grant: &Grant) -> Standing {
        let end = grant.end();
        let latest = grant.standing.parts().filter(|(_, _, window)| window.end() == end);
        let bounds = latest.filter_map(|(_, claim, window)| {
            let longest = max_hold(&self.rules, claim.target.path())?;
            Some(grant.anchor.unwrap_or(window.start()).after(longest))
        });
        let until = bounds.min().unwrap_or(Time::MAX).max(end);
        let mut standing = grant.standing.clone();
        for window in &mut standing.windows {
            *window = window.and_then(|window| {
                Window::new(window.start(), if window.end() == end { until } else { window.end() })
            });
        }
        standing
    }

    /// The blocked tasks whose leases conflict with it at the start at which it would fit without.
    fn waits_for(&self, work: &Work, one: &Stuck, blocked: &BTreeSet<Task>) -> BTreeSet<Task> {
        let view = self.leased(|task| task != &one.task && blocked.contains(task));
        let claims = &work.unplaced[one.at].undecided.intent.claims;
        let windows = windows_at(claims, one.start);
        let pairs = fitting::pairs(&self.rules, claims, &windows, &view.iter().collect::<Vec<_>>(), None);
        let lease = |at: usize| {
            self.grants.iter().find(|grant| Some(grant.token) == view[at].token && grant.intent.hold)
        };
        pairs.into_iter().filter_map(|(at, _, _)| lease(at)).map(Grant::task).collect()
    }
}

/// For each task, the tasks that it waits for, directly or through others.
fn reach_of_all(edges: &[(&Stuck, BTreeSet<Task>)]) -> BTreeMap<Task, BTreeSet<Task>> {
    let mut reached: BTreeMap<Task, BTreeSet<Task>> = BTreeMap::new();
    for (one, tasks) in edges {
        reached.entry(one.task.clone()).or_default().extend(tasks.iter().cloned());
    }
    loop {
        let before = reached.clone();
        for tasks in reached.values_mut() {
            let further: Vec<Task> =
                tasks.iter().filter_map(|task| before.get(task)).flatten().cloned().collect();
            tasks.extend(further);
        }
        if reached == before {
            return reached;
        }
    }
}
