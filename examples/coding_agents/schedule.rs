//! The ideal: the same jobs, placed by one who knows them all beforehand and needs no time to say so.
//! A greedy list schedule starts, whenever something ends, each job that is thought through and whose
//! files are free, by some order of priority; many orders are tried, and the best is kept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::story::Dice;
use super::work::{FILES, Job};

/// Orders drawn by chance that are tried beside the rules.
const CHANCES: u64 = 300;

/// How soon all could be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ideal {
    /// The best list schedule.
    pub(crate) makespan: Duration,
    /// The rule that gave it.
    pub(crate) rule: &'static str,
    /// As it would be if whoever was ready first went first.
    pub(crate) first_come: Duration,
    /// No schedule ends before the busiest agent has done its jobs one after the other,
    pub(crate) longest_agent: Duration,
    /// nor before the most used file was held by each of its writers.
    pub(crate) busiest_file: Duration,
}

/// A job as the schedule sees it.
struct Task {
    think: u64,
    hold: u64,
    reads: Vec<usize>,
    writes: Vec<usize>,
    /// What its agent has to do from its start on.
    left: u64,
    /// What all jobs hold of its most used file.
    crowd: u64,
}

pub(crate) fn ideal(plan: &[Vec<Job>], seed: u64) -> Ideal {
    let mut held = vec![0; FILES];
    for job in plan.iter().flatten() {
        job.files(true).into_iter().for_each(|file| held[file] += us(job.hold));
    }
    let tasks: Vec<Vec<Task>> = plan.iter().map(|jobs| tasks_of(jobs, &held)).collect();
    let first_come = makespan(&tasks, &mut |_, ready| -(ready as f64));
    let mut best = (first_come, "first come first");
    let mut try_rule = |rule: &'static str, priority: &mut dyn FnMut(&Task, u64) -> f64| {
        best = best.min((makespan(&tasks, priority), rule));
    };
    try_rule("most left to do", &mut |task, _| task.left as f64);
    try_rule("longest hold", &mut |task, _| task.hold as f64);
    try_rule("shortest hold", &mut |task, _| -(task.hold as f64));
    try_rule("most files", &mut |task, _| (task.reads.len() + task.writes.len()) as f64);
    try_rule("most crowded file", &mut |task, _| task.crowd as f64);
    try_rule("most left, crowded", &mut |task, _| (task.left + task.crowd) as f64);
    for chance in 0..CHANCES {
        let mut dice = Dice::new(seed ^ (chance << 32));
        let blur = 0.1 + 0.9 * dice.unit();
        try_rule("most left, by chance", &mut |task, _| task.left as f64 * (1.0 + blur * dice.unit()));
    }
    let agents = tasks.iter().map(|tasks| tasks.first().map_or(0, |task| task.left + task.think));
    Ideal {
        makespan: Duration::from_micros(best.0),
        rule: best.1,
        first_come: Duration::from_micros(first_come),
        longest_agent: Duration::from_micros(agents.max().unwrap_or(0)),
        busiest_file: Duration::from_micros(held.into_iter().max().unwrap_or(0)),
    }
}

fn tasks_of(jobs: &[Job], held: &[u64]) -> Vec<Task> {
    let mut left = 0;
    let mut tasks: Vec<Task> = Vec::new();
    for job in jobs.iter().rev() {
        let (reads, writes) = (job.files(false), job.files(true));
        let crowd = writes.iter().map(|file| held[*file]).max().unwrap_or(0);
        left += us(job.hold);
        tasks.push(Task { think: us(job.think), hold: us(job.hold), reads, writes, left, crowd });
        left += us(job.think);
    }
    tasks.reverse();
    tasks
}

fn us(time: Duration) -> u64 {
    time.as_micros() as u64
}

/// Who is on a file.
#[derive(Clone, Copy, Default)]
struct Users {
    readers: u32,
    writers: u32,
}

/// When all is done, where jobs that could start do so in the order of `priority`, highest first.
fn makespan(tasks: &[Vec<Task>], priority: &mut dyn FnMut(&Task, u64) -> f64) -> u64 {
    let mut files = vec![Users::default(); FILES];
    // (when, agent, job, whether the job ends then, or was thought through)
    let mut events = BinaryHeap::new();
    for (agent, jobs) in tasks.iter().enumerate().filter(|(_, jobs)| !jobs.is_empty()) {
        events.push(Reverse((jobs[0].think, agent, 0, false)));
    }
    let mut ready: Vec<(f64, usize, usize)> = Vec::new();
    let mut last = 0;
    while let Some(Reverse((now, agent, at, ends))) = events.pop() {
        let task = &tasks[agent][at];
        if ends {
            last = now;
            leave(&mut files, task);
            if let Some(next) = tasks[agent].get(at + 1) {
                events.push(Reverse((now + next.think, agent, at + 1, false)));
            }
        } else {
            ready.push((priority(task, now), agent, at));
            ready.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        if events.peek().is_some_and(|Reverse(next)| next.0 == now) {
            continue;
        }
        ready.retain(|(_, agent, at)| {
            let task = &tasks[*agent][*at];
            let starts = enter(&mut files, task);
            if starts {
                events.push(Reverse((now + task.hold, *agent, *at, true)));
            }
            !starts
        });
    }
    last
}

fn enter(files: &mut [Users], task: &Task) -> bool {
    let unwritten = |file: &usize| files[*file].writers == 0;
    let unused = |file: &usize| unwritten(file) && files[*file].readers == 0;
    let free = task.reads.iter().all(unwritten) && task.writes.iter().all(unused);
    if free {
        task.reads.iter().for_each(|file| files[*file].readers += 1);
        task.writes.iter().for_each(|file| files[*file].writers += 1);
    }
    free
}

fn leave(files: &mut [Users], task: &Task) {
    task.reads.iter().for_each(|file| files[*file].readers -= 1);
    task.writes.iter().for_each(|file| files[*file].writers -= 1);
}
