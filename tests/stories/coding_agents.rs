//! Agents on one repository lose edits without control and none with it, many of them at once.

#[allow(dead_code, reason = "its main and its printing are not called here")]
#[path = "../../examples/coding_agents/main.rs"]
mod example;

use std::time::Duration;

use example::repository::{Repository, TooLate};
use example::schedule::ideal;
use example::ways::{Run, Way};
use example::work::{Job, Load, plan};
use preclaim::millis;
use preclaim::types::{Fence, Time, Token};
use tokio::task::JoinSet;

const LOAD: Load = Load { agents: 20, jobs: 4, seed: 1, scale: 200, loose: 0, think: 30, hold: 10, hot: 3 };

fn edits(plan: &[Vec<Job>]) -> u64 {
    plan.iter().flatten().map(|job| job.files(true).len() as u64).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_are_lost_without_control_and_none_is_with_claims_that_many_hold_at_once() {
    let jobs = plan(LOAD);
    let mut running = JoinSet::new();
    for way in Way::ALL {
        let jobs = jobs.clone();
        running.spawn(async move { way.run(&jobs, millis(20)).await });
    }
    let mut runs: Vec<Run> = Vec::new();
    while let Some(run) = running.join_next().await {
        runs.push(run.unwrap().unwrap());
    }
    let of = |way: Way| runs.iter().find(|run| run.way == way).unwrap();
    assert!(of(Way::NoControl).tally.lost > 0, "{runs:?}");
    for run in runs.iter().filter(|run| run.way != Way::NoControl) {
        assert_eq!((run.tally.acknowledged, run.tally.lost), (edits(&jobs), 0), "{run:?}");
        assert_eq!(run.tally.changed, 0, "{run:?}");
    }
    let alone = of(Way::RepositoryLock);
    assert_eq!(alone.tally.most_editing, 1);
    for way in [Way::WhenNeeded, Way::JustBefore, Way::Ahead] {
        assert!(of(way).tally.most_editing > 3, "{:?}", of(way));
        // It is three to four times; what a busy machine makes of it is still this.
        assert!(of(way).took.mul_f64(1.5) < alone.took, "{:?} {alone:?}", of(way));
    }
}

#[tokio::test]
async fn the_repository_refuses_who_comes_after_a_later_holder_has_been_there() {
    let repository = Repository::create().unwrap();
    let plan = plan(Load { agents: 1, jobs: 1, scale: 10_000, ..LOAD });
    let (job, fence) = (&plan[0][0], |token| Fence { start: Time::from_us(1), token: Token::new(token) });
    // The later one comes while the earlier one is at work.
    let (earlier, later) =
        tokio::join!(repository.edit(job, Some(fence(1))), repository.edit(job, Some(fence(2))));
    assert_eq!((earlier.unwrap(), later.unwrap()), (Err(TooLate), Ok(())));
    let tally = repository.tally().unwrap();
    assert_eq!((tally.acknowledged, tally.lost, tally.refused), (job.files(true).len() as u64, 0, 1));
}

#[test]
fn the_ideal_lies_between_its_bounds() {
    for seed in 1..20 {
        let jobs = plan(Load { seed, ..LOAD });
        let ideal = ideal(&jobs, seed);
        assert!(ideal.makespan >= ideal.longest_agent.max(ideal.busiest_file), "{ideal:?}");
        assert!(ideal.makespan <= ideal.first_come, "{ideal:?}");
    }
}

#[test]
fn the_ideal_of_two_who_want_one_file_is_one_after_the_other() {
    let job = |think: u64, hold: u64| {
        let jobs = plan(Load { agents: 1, jobs: 1, ..LOAD });
        Job { think: millis(think), hold: millis(hold), ..jobs[0][0].clone() }
    };
    // The second could begin first. Whoever goes first, the other waits for it.
    let ideal = ideal(&[vec![job(20, 50)], vec![job(10, 30)]], 1);
    assert_eq!(ideal.makespan, Duration::from_millis(10 + 30 + 50));
    assert_eq!((ideal.longest_agent, ideal.busiest_file), (millis(70), millis(80)));
}
