//! What goes wrong in each row of the table.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Dice;
use super::ledger::Ledger;
use crate::udp_proxy::{Faults, Link};

/// Resources that the agents contend for; there are two agents more.
const RESOURCES: u64 = 6;

/// A row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) resources: u64,
    pub(crate) leases: Leases,
    pub(crate) network: Faults,
    /// How often, about, and for how long nothing passes.
    pub(crate) cut: Option<(Duration, Duration)>,
    pub(crate) path_change: Option<Duration>,
    pub(crate) kill: Option<Duration>,
    /// How often, about, and for how long some agents are stopped.
    pub(crate) stop: Option<(Duration, Duration)>,
    pub(crate) agent_skew: Skew,
    pub(crate) coordinator_skew: Skew,
    pub(crate) coordinator_kill: Option<Duration>,
}

/// How long agents ask for. Now and then they hold a short one for longer than it lasts.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Leases {
    /// Shorter than a cut, and than a stall.
    pub(crate) short_ms: u64,
    /// Longer than either.
    pub(crate) long_ms: u64,
}

/// What is done to a process's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skew {
    None,
    /// The wall clock is off by up to two seconds, either way, and jumps about within that.
    Wall,
    /// The monotonic clock has its own origin besides, and runs as much too fast or too slow as the
    /// protocol allows for.
    Monotonic,
    /// The wall clock is off by two seconds, by turns behind and ahead, from one start to the next.
    Restarts,
}

impl Plan {
    pub(crate) fn agents(&self) -> u64 {
        self.resources + 2
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const NOTHING: Plan = Plan {
    name: "none",
    what: "nothing goes wrong; all goes through the proxy",
    resources: RESOURCES,
    leases: Leases { short_ms: 3000, long_ms: 12_000 },
    network: Faults { up: CLEAR, down: CLEAR },
    cut: None,
    path_change: None,
    kill: None,
    stop: None,
    agent_skew: Skew::None,
    coordinator_skew: Skew::None,
    coordinator_kill: None,
};
const CLEAR: Link = Link { delay: ms(0), jitter: ms(0), loss: 0.0, doubled: 0.0, reordered: 0.0 };
const SLOW: Link = Link { jitter: ms(500), ..CLEAR };

const fn over(link: Link) -> Faults {
    Faults { up: link, down: link }
}

/// All rows, in the order of the table.
pub(crate) fn rows() -> Vec<Plan> {
    vec![
        NOTHING,
        Plan {
            name: "delay",
            what: "each datagram 0 to 500 ms late, each way",
            network: over(SLOW),
            ..NOTHING
        },
        Plan {
            name: "loss",
            what: "20 % of the datagrams lost, each way",
            network: over(Link { loss: 0.2, ..CLEAR }),
            ..NOTHING
        },
        Plan {
            name: "duplication",
            what: "30 % of the datagrams come twice",
            network: over(Link { doubled: 0.3, ..CLEAR }),
            ..NOTHING
        },
        Plan {
            name: "reordering",
            what: "30 % of the datagrams are held back for up to 40 ms and overtaken",
            network: over(Link { reordered: 0.3, ..CLEAR }),
            ..NOTHING
        },
        Plan { name: "cut", what: "nothing passes for 5 s", cut: Some((ms(7000), ms(5000))), ..NOTHING },
        Plan {
            name: "long cut",
            what: "nothing passes for 12 s, longer than a connection lives without an answer",
            cut: Some((ms(4000), ms(12_000))),
            ..NOTHING
        },
        Plan {
            name: "path change",
            what: "all agents come from other addresses, every second or so",
            path_change: Some(ms(1000)),
            ..NOTHING
        },
        Plan {
            name: "crashes",
            what: "an agent is killed (SIGKILL) every 400 ms or so, and started again",
            kill: Some(ms(400)),
            ..NOTHING
        },
        Plan {
            name: "stalls",
            what: "agents at work are stopped (SIGSTOP) for 4 s, longer than their short leases",
            stop: Some((ms(1000), ms(4000))),
            ..NOTHING
        },
        Plan {
            name: "agents' wall clocks",
            what: "off by up to 2 s either way, and jumping about within that",
            agent_skew: Skew::Wall,
            ..NOTHING
        },
        Plan {
            name: "agents' monotonic clocks",
            what: "wall and monotonic clocks off by up to 2 s, and 150 millionths too fast or too slow",
            agent_skew: Skew::Monotonic,
            ..NOTHING
        },
        Plan {
            name: "coordinator's wall clock",
            what: "off by up to 2 s either way, and jumping about within that",
            coordinator_skew: Skew::Wall,
            ..NOTHING
        },
        Plan {
            name: "coordinator killed",
            what: "the coordinator is killed (SIGKILL) and started again on its state directory",
            coordinator_kill: Some(ms(6000)),
            ..NOTHING
        },
        Plan {
            name: "coordinator killed, clock off",
            what: "as above, its wall clock by turns 2 s behind and 2 s ahead at each start; agents too are killed",
            kill: Some(ms(400)),
            coordinator_kill: Some(ms(6000)),
            coordinator_skew: Skew::Restarts,
            ..NOTHING
        },
        all_together(),
    ]
}

/// Everything at once, the coordinator's own death included.
pub(crate) fn all_together() -> Plan {
    Plan {
        name: "all together",
        what: "all of the network's, with crashes, stalls, agents' clocks and the coordinator killed",
        network: over(Link { delay: ms(0), jitter: ms(500), loss: 0.2, doubled: 0.3, reordered: 0.3 }),
        cut: Some((ms(14_000), ms(5000))),
        path_change: Some(ms(3000)),
        kill: Some(ms(2500)),
        stop: Some((ms(5000), ms(4000))),
        agent_skew: Skew::Monotonic,
        coordinator_skew: Skew::Wall,
        coordinator_kill: Some(ms(12_000)),
        ..NOTHING
    }
}

/// All that a few seconds are enough for, at once and less of each; no clock that lies.
pub(crate) fn in_short() -> Plan {
    Plan {
        name: "in short",
        what: "the network's faults, crashes and stalls at once, for a few seconds",
        resources: 3,
        leases: Leases { short_ms: 1000, long_ms: 4000 },
        network: over(Link { delay: ms(0), jitter: ms(30), loss: 0.05, doubled: 0.1, reordered: 0.1 }),
        cut: Some((ms(1500), ms(1500))),
        path_change: Some(ms(700)),
        kill: Some(ms(500)),
        stop: Some((ms(1500), ms(1500))),
        ..NOTHING
    }
}

/// When a row has gone wrong for long enough.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Enough {
    After(Duration),
    /// Each thing of the plan has happened at least once and is over, and there were so many grants; or
    /// the time given has passed, so that a test ends.
    Grants(u64, Duration),
}

impl Enough {
    pub(super) fn is_enough(self, began: Instant, ledger: &Ledger, timers: &Timers) -> bool {
        match self {
            Enough::After(span) => began.elapsed() >= span,
            Enough::Grants(grants, late) => {
                began.elapsed() >= late || (timers.all_have_run() && ledger.grants() >= grants)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Cut,
    Mend,
    ChangePaths,
    KillAgent,
    StopAgents,
    SetGoing,
    SetClocks,
    KillCoordinator,
    SetCoordinatorsClock,
}

/// What is to be done when.
#[derive(Debug)]
pub(super) struct Timers {
    timers: Vec<Timer>,
    /// What undoes what was done.
    undo: Vec<(Instant, Action)>,
}

#[derive(Debug)]
struct Timer {
    at: Instant,
    every: Duration,
    action: Action,
    /// What undoes it, and after how long.
    then: Option<(Action, Duration)>,
    runs: u64,
}

impl Timers {
    pub(super) fn of(plan: &Plan, dice: &mut Dice) -> Self {
        let jumps = |skew| (skew != Skew::None && skew != Skew::Restarts).then_some(ms(1000));
        let plain = [
            (plan.path_change, Action::ChangePaths),
            (plan.kill, Action::KillAgent),
            (plan.coordinator_kill, Action::KillCoordinator),
            (jumps(plan.agent_skew), Action::SetClocks),
            (jumps(plan.coordinator_skew), Action::SetCoordinatorsClock),
        ];
        let plain = plain.into_iter().filter_map(|(every, action)| Some((every?, action, None)));
        let undone =
            [(plan.cut, Action::Cut, Action::Mend), (plan.stop, Action::StopAgents, Action::SetGoing)];
        let undone = undone.into_iter().filter_map(|(span, action, undo)| {
            let (every, lasts) = span?;
            Some((every, action, Some((undo, lasts))))
        });
        let timers = plain.chain(undone).map(|(every, action, then)| {
            let at = Instant::now() + dice.about(every);
            Timer { at, every, action, then, runs: 0 }
        });
        Timers { timers: timers.collect(), undo: Vec::new() }
    }

    /// What is to be done now.
    pub(super) fn next(&mut self, dice: &mut Dice) -> Option<Action> {
        let now = Instant::now();
        if let Some(due) = self.undo.iter().position(|(at, _)| *at <= now) {
            return Some(self.undo.remove(due).1);
        }
        let timer = self.timers.iter_mut().find(|timer| timer.at <= now)?;
        timer.runs += 1;
        timer.at = now + dice.about(timer.every);
        if let Some((undo, lasts)) = timer.then {
            // Not again before it is over.
            timer.at += lasts;
            self.undo.push((now + lasts, undo));
        }
        Some(timer.action)
    }

    pub(super) fn all_have_run(&self) -> bool {
        self.undo.is_empty() && self.timers.iter().all(|timer| timer.runs > 0)
    }

    pub(super) fn runs(&self, action: Action) -> u64 {
        self.timers.iter().filter(|timer| timer.action == action).map(|timer| timer.runs).sum()
    }
}
