//! The two ends at work: what a process and the coordinator do when their time comes.

use super::agent::Condition;
use super::invariant::Happened;
use super::server::{Found, Start};
use super::work::PATHS;
use super::world::{Happening, World};
use crate::session::coordinator::{LaneId, Place};
use crate::sim::coordinator::{Decided, Halt};
use crate::types::{Fence, Micros, Mode, Target};
use crate::wire::{Extensions, Hello, Role, VERSIONS};

impl World {
    /// After anything was done with a session: what it tells, what it sends, when it wants to be woken.
    pub(super) fn changed(&mut self, process: usize) {
        while let Some(event) = self.agents[process].session.poll_event() {
            self.trace.note(self.at, 4, &[], || format!("process {process} is told {event:?}"));
            self.look(&Happened::Event { process, event: &event });
            self.agents[process].hear(&event);
        }
        self.flush(process);
        self.set_alarm(process);
        self.look(&Happened::Changed { process });
        let agent = &self.agents[process];
        let due = agent.next_belief(self.at, &self.ledger);
        if due != agent.belief_due {
            self.agents[process].belief_due = due;
            due.into_iter().for_each(|at| self.plan(at, Happening::Belief(process)));
        }
    }

    fn set_alarm(&mut self, process: usize) {
        let agent = &mut self.agents[process];
        let next = if agent.is_dead() { None } else { agent.next_alarm(self.at) };
        if next != agent.alarm {
            agent.alarm = next;
            next.into_iter().for_each(|at| self.plan(at, Happening::Alarm(process)));
        }
    }

    pub(super) fn alarm(&mut self, process: usize) {
        let is_due = self.agents[process].alarm.is_some_and(|due| due <= self.at);
        if !is_due || self.waits(process, Happening::Alarm(process)) {
            return;
        }
        let agent = &mut self.agents[process];
        agent.alarm = None;
        let local = agent.local(self.at);
        agent.session.tick(local);
        let next = agent.session.next_timeout(local);
        self.trace
            .note(self.at, 6, &[], || format!("process {process} ticks at {local:?}, next at {next:?}"));
        self.changed(process);
    }

    pub(super) fn belief_begins(&mut self, process: usize) {
        let agent = &mut self.agents[process];
        if agent.belief_due.is_some_and(|due| due <= self.at) {
            agent.belief_due = None;
            self.changed(process);
        }
    }

    pub(super) fn resume(&mut self, process: usize) {
        let agent = &mut self.agents[process];
        if matches!(agent.condition, Condition::Stopped { until } if until <= self.at) {
            agent.condition = Condition::Runs;
            agent.calm_since = self.at;
            agent.resumed_at = self.at;
        }
    }

    pub(super) fn turn(&mut self, process: usize) {
        if self.waits(process, Happening::Turn(process)) {
            return;
        }
        let agent = &mut self.agents[process];
        let local = agent.local(self.at);
        agent.work.act(&mut agent.session, local);
        let next = agent.work.next_turn();
        self.later(next, Happening::Turn(process));
        self.write(process);
        self.changed(process);
    }

    /// A process that may write does, and its write takes a while to arrive.
    fn write(&mut self, process: usize) {
        let mine: Vec<(&'static str, Fence)> = self.agents[process]
            .beliefs(self.at, &self.ledger)
            .filter(|belief| belief.claim.mode == Mode::Exclusive)
            .flat_map(|belief| {
                let Target::Path(of) = &belief.claim.target else { return Vec::new() };
                let inside =
                    |path: &&&str| **path == of.as_str() || path.starts_with(&format!("{}/", of.as_str()));
                PATHS.iter().filter(inside).map(|path| (*path, belief.fence())).collect()
            })
            .collect();
        if !mine.is_empty() && self.dice.percent(50) {
            let (path, fence) = *self.dice.pick(&mine);
            let after = if self.dice.percent(20) { 3_000_000 } else { 20_000 };
            let after = self.dice.below(after);
            self.later(after, Happening::Write(process, path, fence));
        }
    }

    /// Sets the coordinator's timer.
    pub(super) fn set_slots(&mut self) {
        let Some(life) = &self.server.life else { return };
        let due = life.coordinator.next_due().map(|due| self.server.when(due).max(self.at));
        let Some(life) = &mut self.server.life else { return };
        if due != life.alarm {
            life.alarm = due;
            due.into_iter().for_each(|at| self.plan(at, Happening::Slots));
        }
    }

    pub(super) fn slots(&mut self) {
        let Some(life) = &mut self.server.life else { return };
        if life.alarm.is_none_or(|due| due > self.at) {
            return;
        }
        if self.server.stopped_until >= self.at {
            return self.plan(self.server.stopped_until + 1, Happening::Slots);
        }
        life.alarm = None;
        let time = self.server.time(self.at);
        while let Some(life) = &mut self.server.life
            && let Some(decided) = life.coordinator.step(time)
        {
            self.decided(decided);
            if self.broken.is_some() {
                return;
            }
        }
        let Some(life) = &mut self.server.life else { return };
        let late = life.coordinator.late_hellos(time);
        self.carry_out(late);
        self.set_slots();
    }

    fn decided(&mut self, decided: Decided) {
        let Decided { closed, outcome, effects } = decided;
        let Some(life) = &self.server.life else { return };
        self.trace.note(self.at, 5, &outcome.digest.to_string().into_bytes(), || {
            format!("slot {} is decided: {:?}", outcome.slot.number(), outcome.decisions)
        });
        match life.coordinator.halt().cloned() {
            None => {
                self.ledger.decided(&outcome, life.coordinator.resolver());
                *self.counts.entry("decisions").or_default() += outcome.decisions.len() as u64;
                self.count("slots");
                self.look(&Happened::Decided { inputs: closed.batch.inputs(), outcome: &outcome });
                self.carry_out(effects);
            }
            Some(Halt::Invariant(breach)) => {
                self.is_wrong("decision: a slot keeps the invariants of the core", breach.to_string());
            }
            Some(Halt::Record(_)) => {
                self.count("records refused");
                self.carry_out(effects);
                // Whoever watches over it starts it again.
                let loses_power = !self.server.disk.has_power();
                self.crash(loses_power);
            }
        }
    }

    /// The coordinator is gone; a while later another is started.
    pub(super) fn crash(&mut self, loses_power: bool) {
        if self.server.life.is_none() {
            return;
        }
        self.count(if loses_power { "power losses" } else { "coordinators killed" });
        self.server.stop(loses_power);
        for link in &mut self.links {
            if link.coordinator.is_open() {
                link.coordinator = super::network::Side::Closed;
            }
        }
        let outage = self.dice.within(20_000, 5_000_000);
        self.disturb_all(self.at + outage);
        self.later(outage, Happening::Start);
    }

    pub(super) fn start_coordinator(&mut self) {
        if self.server.life.is_some() {
            return;
        }
        match self.server.start(self.at) {
            Ok(Start::Runs(found)) => self.started(&found),
            Ok(Start::PutOff(why)) => {
                self.trace.note(self.at, 0, &[], || format!("the start is put off: {why}"));
                let loses_power = !self.server.disk.has_power();
                self.server.stop(loses_power);
                self.later(500_000, Happening::Start);
            }
            Err(why) => self.is_wrong("recovery: a coordinator goes on from what is on its disk", why),
        }
    }

    fn started(&mut self, found: &Found) {
        self.count("starts");
        self.look(&Happened::Recovered { found });
        let told = &self.ledger.told;
        let untold: Vec<_> = found
            .records
            .iter()
            .filter(|(slot, ..)| !told.contains_key(slot))
            .map(|(slot, decisions, _)| (*slot, decisions.clone()))
            .collect();
        let time = self.server.time(self.at);
        if let Some(life) = &self.server.life {
            self.ledger.recovered(life.coordinator.resolver(), time, untold);
        }
        if !found.clock_goes_on {
            self.count("coordinator clocks that jumped");
            for agent in &mut self.agents {
                agent.doubts = Some(agent.clock.read(self.at));
            }
        }
        self.set_slots();
    }

    /// All agents give up what they have and take their leave.
    pub(super) fn leave(&mut self) {
        for process in 0..self.agents.len() {
            let agent = &mut self.agents[process];
            if !agent.is_dead() {
                agent.work.leave(&mut agent.session);
                self.changed(process);
            }
        }
        self.run_until(self.at + 5_000_000);
        for process in 0..self.agents.len() {
            self.kill(process);
        }
    }

    /// Waits until sessions that nobody came back to are forgotten. That is done where somebody comes.
    pub(super) fn forget_sessions(&mut self, kept: Micros) {
        self.run_until(self.at + kept.as_us() + 60_000_000);
        let time = self.server.time(self.at);
        let Some(life) = &mut self.server.life else { return };
        let connection = life.coordinator.connected(time);
        let from = Place { connection, lane: LaneId::FIRST };
        let hello = Hello {
            lowest_version: VERSIONS.0,
            highest_version: VERSIONS.1,
            name: Some("probe".to_owned()),
            label: "probe".to_owned(),
            incarnation: 1,
            role: Role::Observer,
            refuse_if_live: false,
            seen: None,
            software: "sim".to_owned(),
            extensions: Extensions::NONE,
        };
        life.coordinator.receive(from, hello.into(), time);
        life.coordinator.connection_lost(connection, time);
    }

    /// Until then no agent is undisturbed.
    pub(super) fn disturb_all(&mut self, until: u64) {
        for agent in &mut self.agents {
            agent.calm_since = agent.calm_since.max(until);
        }
    }
}
