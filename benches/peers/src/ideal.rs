//! The best list schedule of the same work: what agents would get through, did each begin at the very instant
//! at which nothing is in its way, think and work for exactly as long as it says, and cost no time beside that.

use std::time::Duration;

use crate::work::{Wanted, Workload, related};

/// In which order those that wait are looked at.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// Who waits for longest.
    Longest,
    /// Who got through least.
    Behind,
    /// The deepest path: what is in the way of least.
    Deepest,
}

#[derive(Clone, Debug)]
enum State {
    Thinks { until: Duration },
    Waits { since: Duration },
    Works { until: Duration },
}

#[derive(Clone, Debug)]
struct One {
    state: State,
    round: u64,
    wanted: Wanted,
}

impl One {
    fn begins(workload: Workload, agent: usize, round: u64, now: Duration) -> One {
        let wanted = workload.wanted(agent, round);
        One { state: State::Thinks { until: now + wanted.think }, round, wanted }
    }

    fn is_in_the_way_of(&self, other: &One) -> bool {
        let meets = |path: &String| other.wanted.paths.iter().any(|theirs| related(path, theirs));
        matches!(self.state, State::Works { .. }) && self.wanted.paths.iter().any(meets)
    }
}

/// How many rounds a second all agents together get through, by the best of a few list schedules; measured as
/// that of a system is, between two instants at which it is under way.
pub(crate) fn rounds_a_second(workload: Workload) -> f64 {
    let agents = workload.agents();
    let measured = |rule| scheduled(workload, agents, ENDS, rule) - scheduled(workload, agents, BEGINS, rule);
    let most = [Rule::Longest, Rule::Behind, Rule::Deepest].into_iter().map(measured).max();
    most.unwrap_or(0) as f64 / (ENDS - BEGINS).as_secs_f64()
}

/// What counts of a schedule.
const BEGINS: Duration = Duration::from_millis(500);
const ENDS: Duration = Duration::from_millis(3500);

fn scheduled(workload: Workload, agents: usize, span: Duration, rule: Rule) -> usize {
    let begins = |agent: usize| One::begins(workload, agent, 0, Duration::ZERO);
    let mut all: Vec<One> = (0..agents).map(begins).collect();
    let (mut now, mut finished) = (Duration::ZERO, 0);
    while now < span {
        for (agent, one) in all.iter_mut().enumerate() {
            if let State::Works { until } = one.state
                && until <= now
            {
                finished += 1;
                *one = One::begins(workload, agent, one.round + 1, now);
            }
            if let State::Thinks { until } = one.state
                && until <= now
            {
                one.state = State::Waits { since: until };
            }
        }
        for agent in in_order(&all, rule) {
            if !all.iter().any(|one| one.is_in_the_way_of(&all[agent])) {
                all[agent].state = State::Works { until: now + all[agent].wanted.work };
            }
        }
        let next = all.iter().filter_map(|one| match one.state {
            State::Thinks { until } | State::Works { until } => Some(until),
            State::Waits { .. } => None,
        });
        now = next.min().unwrap_or(span).max(now + Duration::from_nanos(1));
    }
    finished
}

fn in_order(all: &[One], rule: Rule) -> Vec<usize> {
    let waits = |(agent, one): (usize, &One)| match one.state {
        State::Waits { since } => {
            let depth = one.wanted.paths.first().map_or(0, |path| path.matches('/').count()) as u64;
            let key = match rule {
                Rule::Longest => (0, since),
                Rule::Behind => (one.round, since),
                Rule::Deepest => (16_u64.saturating_sub(depth), since),
            };
            Some((key, agent))
        }
        _ => None,
    };
    let mut order: Vec<_> = all.iter().enumerate().filter_map(waits).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, agent)| agent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn one_agent_alone_is_never_in_its_own_way() {
        assert_eq!(scheduled(Workload::Tree, 1, millis(551), Rule::Longest), 10);
    }

    #[test]
    fn agents_at_one_resource_come_one_after_the_other() {
        // Agents 0 and 8 need resource 0: nine do no more than eight.
        assert_eq!(scheduled(Workload::Contended, 8, millis(201), Rule::Longest), 8 * 10);
        assert_eq!(scheduled(Workload::Contended, 9, millis(201), Rule::Behind), 8 * 10);
    }

    #[test]
    fn three_of_ten_are_held_by_at_most_three_at_once() {
        let rounds = rounds_a_second(Workload::Atomic);
        assert!((400.0..=600.0).contains(&rounds), "{rounds}");
    }
}
