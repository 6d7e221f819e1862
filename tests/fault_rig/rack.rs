//! The agents' processes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::house::{House, clean_up_after, lie, set_clock};
use super::ledger::Ledger;
use super::plan::{Leases, Plan, Skew};
use super::words::Orders;
use super::{Dice, GLANCE, agent};

#[derive(Debug)]
pub(super) struct Rack {
    agents: Vec<Agent>,
    ledger: Ledger,
    dir: PathBuf,
    ca: PathBuf,
    addr: SocketAddr,
    seed: u64,
    resources: u64,
    leases: Leases,
    skew: Skew,
    pub(super) kills: u64,
    pub(super) stops: u64,
    /// Ends that nobody asked for.
    pub(super) ended: u64,
}

#[derive(Debug)]
struct Agent {
    name: String,
    life: u64,
    child: Child,
    is_stopped: bool,
}

impl Rack {
    pub(super) fn new(plan: &Plan, house: &House, ledger: &Ledger, addr: SocketAddr, seed: u64) -> Self {
        Rack {
            agents: Vec::new(),
            ledger: ledger.clone(),
            dir: house.dir().to_owned(),
            ca: house.ca(),
            addr,
            seed,
            resources: plan.resources,
            leases: plan.leases,
            skew: plan.agent_skew,
            kills: 0,
            stops: 0,
            ended: 0,
        }
    }

    pub(super) fn start_one(&mut self) {
        let number = self.agents.len();
        let name = format!("agent-{number}");
        let child = self.spawn(number, &name, 0);
        self.agents.push(Agent { name, life: 0, child, is_stopped: false });
    }

    fn spawn(&self, number: usize, name: &str, life: u64) -> Child {
        let orders = Orders {
            ledger: self.dir.join("ledger"),
            name: name.to_owned(),
            life,
            addr: self.addr.to_string(),
            ca: self.ca.clone(),
            seed: self.seed.wrapping_add((number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            resources: self.resources,
            leases: self.leases,
        };
        // This program again. Where it is one of tests, the one test that is an agent.
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([agent::TEST, "--exact", "--nocapture"]);
        command.env(agent::ENTRY, serde_json::to_string(&orders).unwrap());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.lie_to(&mut command, number);
        command.spawn().unwrap()
    }

    fn clock_of(&self, number: usize) -> PathBuf {
        self.dir.join(format!("clock-{number}"))
    }

    fn lie_to(&self, command: &mut Command, number: usize) {
        match self.skew {
            Skew::None => {}
            Skew::Wall | Skew::Restarts => {
                let clock = self.clock_of(number);
                if !clock.exists() {
                    std::fs::write(&clock, ["+2", "-2", "+1", "-1"][number % 4]).unwrap();
                }
                lie(command, false).env("FAKETIME_TIMESTAMP_FILE", clock);
            }
            Skew::Monotonic => {
                let lies = ["+2 x1.00015", "-2 x0.99985", "+1 x0.99985", "-1 x1.00015"];
                lie(command, true).env("FAKETIME", lies[number % 4]);
            }
        }
    }

    pub(super) fn set_clocks(&self, dice: &mut Dice) {
        if self.skew == Skew::Wall {
            (0..self.agents.len()).for_each(|number| set_clock(&self.clock_of(number), dice));
        }
    }

    pub(super) fn kill_one(&mut self, dice: &mut Dice) {
        let number = dice.below(self.agents.len() as u64) as usize;
        let agent = &mut self.agents[number];
        let _ = agent.child.kill(); // SIGKILL
        let _ = agent.child.wait();
        self.kills += 1;
        self.start_again(number);
    }

    fn start_again(&mut self, number: usize) {
        let (name, life) = (self.agents[number].name.clone(), self.agents[number].life + 1);
        // All that the one before said has been heard before the next one asks what is open.
        while self.ledger.hears(&name, life - 1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        clean_up_after(&self.agents[number].child);
        let child = self.spawn(number, &name, life);
        self.agents[number] = Agent { name, life, child, is_stopped: false };
    }

    /// Stops one agent, and with it every second of those that are at work under a lease.
    pub(super) fn stop_some(&mut self, dice: &mut Dice) {
        let chosen = dice.below(self.agents.len() as u64) as usize;
        let mut is_turn = false;
        for number in 0..self.agents.len() {
            let works = self.ledger.is_at_work(&self.agents[number].name);
            is_turn ^= works;
            if number == chosen || (works && is_turn) {
                let agent = &mut self.agents[number];
                signal(&agent.child, Signal::STOP);
                agent.is_stopped = true;
                self.stops += 1;
            }
        }
    }

    pub(super) fn set_all_going(&mut self) {
        for agent in self.agents.iter_mut().filter(|agent| agent.is_stopped) {
            signal(&agent.child, Signal::CONT);
            agent.is_stopped = false;
        }
    }

    /// An agent that could not go on is started again, and counted.
    pub(super) fn start_those_that_ended(&mut self) {
        for number in 0..self.agents.len() {
            if !matches!(self.agents[number].child.try_wait(), Ok(None)) {
                self.ended += 1;
                self.start_again(number);
            }
        }
    }

    /// Until all have ended by themselves; how long that took, or none.
    pub(super) fn until_all_ended(&mut self, patience: Duration) -> Option<Duration> {
        let began = Instant::now();
        while began.elapsed() < patience {
            if self.agents.iter_mut().all(|agent| !matches!(agent.child.try_wait(), Ok(None))) {
                return Some(began.elapsed());
            }
            std::thread::sleep(GLANCE);
        }
        None
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            let _ = agent.child.kill();
            let _ = agent.child.wait();
            clean_up_after(&agent.child);
        }
    }
}

/// Sends a signal to a child that was not waited for yet.
pub(super) fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, signal).unwrap();
}
