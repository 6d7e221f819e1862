//! The best list schedule of the work that was done: what agents could have got through, had each begun at
//! the very instant at which nothing was in its way.

use std::time::Duration;

use crate::work::{Workload, related};

/// What an agent did in one round: the same work is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) think: Duration,
    pub(crate) work: Duration,
}

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
    round: usize,
    path: String,
}

/// How many rounds all agents together get through within `span`, by the best of a few list schedules of the
/// rounds in `done`; past what an agent did, its rounds begin again, with the paths that it would have had.
pub(crate) fn rounds_within(workload: Workload, done: &[Vec<Round>], span: Duration) -> usize {
    let schedule = |rule| scheduled(workload, done, span, rule);
    [Rule::Longest, Rule::Behind, Rule::Deepest].into_iter().map(schedule).max().unwrap_or(0)
}

fn scheduled(workload: Workload, done: &[Vec<Round>], span: Duration, rule: Rule) -> usize {
    let round = |agent: usize, nth: usize| done[agent].get(nth % done[agent].len().max(1)).copied();
    let think = |agent: usize, nth: usize| round(agent, nth).map_or(span, |round| round.think);
    let begins = |agent: usize, nth: usize, now: Duration| One {
        state: State::Thinks { until: now + think(agent, nth) },
        round: nth,
        path: workload.wanted(agent, nth as u64).paths.swap_remove(0),
    };
    let mut all: Vec<One> = (0..done.len()).map(|agent| begins(agent, 0, Duration::ZERO)).collect();
    let (mut now, mut finished) = (Duration::ZERO, 0);
    while now < span {
        for (agent, one) in all.iter_mut().enumerate() {
            match one.state {
                State::Thinks { until } if until <= now => one.state = State::Waits { since: until },
                State::Works { until } if until <= now => {
                    finished += 1;
                    *one = begins(agent, one.round + 1, now);
                }
                _ => {}
            }
        }
        for agent in in_order(&all, rule) {
            let path = &all[agent].path;
            let works = |one: &One| matches!(one.state, State::Works { .. });
            if !all.iter().any(|one| works(one) && related(&one.path, path)) {
                let work = round(agent, all[agent].round).map_or(span, |round| round.work);
                all[agent].state = State::Works { until: now + work };
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
            let depth = one.path.matches('/').count();
            let key = match rule {
                Rule::Longest => (0, since),
                Rule::Behind => (one.round, since),
                Rule::Deepest => (16_usize.saturating_sub(depth), since),
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
        let done = vec![vec![Round { think: millis(50), work: millis(5) }; 3]];
        assert_eq!(rounds_within(Workload::Tree, &done, millis(551)), 10);
    }

    #[test]
    fn agents_at_one_resource_come_one_after_the_other() {
        // Agents 0 and 8 need resource 0, and never think: together they do one round each 20 ms.
        let done = vec![vec![Round { think: Duration::ZERO, work: millis(20) }]; 9];
        let alone = rounds_within(Workload::Contended, &done[..1], millis(201));
        assert_eq!(alone, 10);
        assert_eq!(rounds_within(Workload::Contended, &done, millis(201)), 8 * 10);
    }
}
