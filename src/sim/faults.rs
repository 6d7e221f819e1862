//! What goes wrong, drawn by chance.

use super::agent::Condition;
use super::network::{To, Way};
use super::world::{Happening, World};
use crate::resolver::SystemOp;
use crate::store::sim::Break;
use crate::wire::CloseCode;

impl World {
    /// Something goes wrong, and the next time is planned.
    pub(super) fn fault(&mut self) {
        if self.is_calm {
            return;
        }
        let next = self.dice.within(50_000, self.fault_every);
        self.later(next, Happening::Fault);
        match self.dice.below(100) {
            0..14 => self.way_is_bad(),
            14..28 => self.way_is_blocked(),
            28..32 => self.partition(),
            32..46 => self.cut(),
            46..54 => self.agent_crashes(),
            54..66 => self.agent_stops(),
            66..69 => self.clock_breaks(),
            69..72 => self.twin(),
            72..78 => self.coordinator_stops(),
            78..94 => self.coordinator_crashes(),
            _ => self.operator_releases(),
        }
    }

    fn one_running(&mut self) -> Option<usize> {
        let running: Vec<usize> =
            (0..self.agents.len()).filter(|process| self.agents[*process].runs()).collect();
        (!running.is_empty()).then(|| *self.dice.pick(&running))
    }

    pub(super) fn disturb(&mut self, process: usize, until: u64) {
        let agent = &mut self.agents[process];
        agent.calm_since = agent.calm_since.max(until);
    }

    /// Slow, and much is lost; for good, or until it is so well again.
    fn way_is_bad(&mut self) {
        let Some(process) = self.one_running() else { return };
        self.count("bad ways");
        let way = Way {
            delay: self.dice.within(1_000, 250_000),
            jitter: self.dice.within(0, 250_000),
            loss: self.dice.within(0, 20),
            blocked_until: self.agents[process].way.blocked_until,
        };
        let way = if self.dice.percent(40) {
            let blocked_until = way.blocked_until;
            Way { blocked_until, ..Way::good(&mut self.dice) }
        } else {
            way
        };
        self.agents[process].way = way;
        // As long as it is bad, nothing is promised of renewals.
        self.disturb(process, self.at + 10_000_000);
    }

    /// Nothing gets through, and nobody is told.
    fn way_is_blocked(&mut self) {
        let Some(process) = self.one_running() else { return };
        self.count("black holes");
        let span = if self.dice.percent(25) { 25_000_000 } else { 4_000_000 };
        let until = self.at + self.dice.within(100_000, span);
        self.agents[process].way.blocked_until = until;
        self.disturb(process, until);
    }

    /// Some agents are cut off from the coordinator together.
    fn partition(&mut self) {
        self.count("partitions");
        let until = self.at + self.dice.within(200_000, 15_000_000);
        for process in 0..self.agents.len() {
            if self.dice.percent(60) {
                self.agents[process].way.blocked_until = until;
                self.disturb(process, until);
            }
        }
    }

    /// A connection breaks, on either side or both; the other may be told or not.
    fn cut(&mut self) {
        let Some(process) = self.one_running() else { return };
        let Some(link) = self.agents[process].link.filter(|link| self.links[*link].agent.is_open()) else {
            return;
        };
        self.count("cuts");
        let (at_agent, tells) = (self.dice.percent(60), self.dice.percent(50));
        if at_agent {
            if tells {
                self.send_close(link, To::Coordinator, CloseCode::Done);
            }
            self.lose(link);
        }
        if !at_agent || self.dice.percent(20) {
            let is_open = self.links[link].coordinator.is_open();
            if is_open {
                self.lose_at_coordinator(link);
            }
            if is_open && tells {
                self.send_close(link, To::Agent, CloseCode::Internal);
            }
        }
        self.disturb(process, self.at);
    }

    /// All that it knew is gone. Another of its name comes after a while.
    fn agent_crashes(&mut self) {
        let Some(process) = self.one_running() else { return };
        self.count("agents killed");
        self.kill(process);
        let name = self.names.iter().position(|name| *name == self.agents[process].name).unwrap_or(0);
        let after = self.dice.within(20_000, 4_000_000);
        self.later(after, Happening::Spawn(name));
    }

    /// The process is no more. Its machine may tell the coordinator so, or not.
    pub(super) fn kill(&mut self, process: usize) {
        self.agents[process].condition = Condition::Dead;
        if let Some(link) = self.agents[process].link.take() {
            if self.links[link].agent.is_open() && self.dice.percent(30) {
                self.send_close(link, To::Coordinator, CloseCode::Done);
            }
            self.links[link].agent = super::network::Side::Closed;
        }
    }

    fn agent_stops(&mut self) {
        let Some(process) = self.one_running() else { return };
        self.count("agents stopped");
        let longest = if self.dice.percent(20) { 20_000_000 } else { 6_000_000 };
        let until = self.at + self.dice.within(50_000, longest);
        self.agents[process].condition = Condition::Stopped { until };
        self.disturb(process, until);
        if self.dice.percent(20) {
            // Its whole machine is suspended, clock and all: that breaks what the clock promises.
            self.count("machines suspended");
            let at = self.at;
            let agent = &mut self.agents[process];
            agent.clock.stop(at, until - at);
            agent.doubts = Some(agent.clock.read(until) + 1);
        }
        self.plan(until, Happening::Resume(process));
    }

    /// An agent's clock jumps ahead, which it has promised not to do; or the wall clock of the
    /// coordinator's machine is set, which is seen at its next start.
    fn clock_breaks(&mut self) {
        if self.dice.percent(50) {
            let ahead = self.dice.within(0, 6_000_000) as i64 - 3_000_000;
            self.server.set_wall(self.at, ahead);
            return self.count("wall clocks set");
        }
        let Some(process) = self.one_running() else { return };
        self.count("clocks that jumped");
        let ahead = self.dice.within(1_000_000, 5_000_000) as i64;
        let at = self.at;
        let agent = &mut self.agents[process];
        agent.clock.jump(at, ahead);
        agent.doubts = Some(agent.clock.read(at));
        self.disturb(process, at);
        self.changed(process);
    }

    /// A second process starts under a name that has one.
    fn twin(&mut self) {
        self.count("twins");
        let name = self.dice.below(self.names.len() as u64) as usize;
        self.later(0, Happening::Spawn(name));
    }

    fn coordinator_stops(&mut self) {
        self.count("coordinator stopped");
        let span = self.dice.within(5_000, 3_000_000);
        self.server.stopped_until = self.at + span;
        self.disturb_all(self.at + span);
    }

    fn coordinator_crashes(&mut self) {
        if self.server.life.is_none() {
            return;
        }
        match self.dice.below(4) {
            0 => self.crash(false),
            1 => self.crash(true),
            // One of the next calls of the disk fails, or the power goes in the midst of it.
            2 => {
                self.count("disk failures planned");
                let call = self.dice.below(60);
                self.server.disk.break_at(call, Break::Fail);
            }
            _ => {
                let call = self.dice.below(60);
                self.server.disk.break_at(call, Break::PowerLoss);
            }
        }
    }

    fn operator_releases(&mut self) {
        let live: Vec<_> = self.ledger.live.iter().copied().collect();
        let time = self.server.time(self.at);
        let Some(life) = self.server.life.as_mut().filter(|_| !live.is_empty()) else { return };
        let token = *self.dice.pick(&live);
        let Some(record) = self.ledger.grants.get(&token) else { return };
        let (agent, id) = (record.key.agent.clone(), record.key.id);
        let op = SystemOp::Release { agent, id, reason: "maintenance".into() };
        let taken = life.coordinator.operator(op, time).is_ok();
        if taken {
            self.count("released by the operator");
            self.set_slots();
        }
    }

    /// No more faults: all that can be well again is.
    pub(super) fn heal(&mut self) {
        self.is_calm = true;
        self.server.stopped_until = self.server.stopped_until.min(self.at);
        self.server.disk.break_at(u64::MAX / 2, Break::Fail);
        for process in 0..self.agents.len() {
            let good = Way::good(&mut self.dice);
            let at = self.at;
            let agent = &mut self.agents[process];
            agent.way = good;
            agent.work.is_over = true;
            agent.calm_since = agent.calm_since.max(at + 5_000_000);
            // One that is stopped goes on when it was to: what waits for it is planned for then.
        }
    }
}
