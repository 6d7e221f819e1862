//! The network at work: connections come about, carry bytes and end.

use super::network::{Link, Side, To};
use super::world::{Happening, Payload, World};
use crate::session::agent::Local;
use crate::session::coordinator::{Effect, LaneId, Place};
use crate::wire::{CloseCode, FrameReader, ToAgent, ToCoordinator};

/// An agent waits so long for a connection to stand.
const PATIENCE_US: u64 = 5_000_000;
const HEARTBEAT_US: u64 = 500_000;

impl World {
    pub(super) fn attempt(&mut self, process: usize) {
        if self.waits(process, Happening::Attempt(process)) {
            return;
        }
        let agent = &self.agents[process];
        if agent.link.is_some() || agent.is_replaced {
            return;
        }
        self.count("connections tried");
        let link = self.links.len();
        self.links.push(Link::new(process, self.server.lives, &mut self.dice));
        self.under_way.push(Default::default());
        self.agents[process].link = Some(link);
        let arrival = self.arrival(link, To::Coordinator);
        self.plan(arrival, Happening::Request(link));
        self.later(PATIENCE_US, Happening::AttemptOver(link));
    }

    /// When something that is sent over a link now arrives.
    fn arrival(&mut self, link: usize, to: To) -> u64 {
        let process = self.links[link].process;
        let way = self.agents[process].way.clone();
        self.links[link].send(to, self.at, &way, &mut self.dice)
    }

    pub(super) fn requested(&mut self, link: usize) {
        let time = self.server.time(self.at);
        if self.server.stopped_until >= self.at {
            let until = self.server.stopped_until;
            return self.plan(until + 1, Happening::Request(link));
        }
        let lives = self.server.lives;
        let Some(life) = &mut self.server.life else { return };
        let connection = life.coordinator.connected(time);
        life.peers.insert(connection, super::server::Peer { link, frames: FrameReader::new() });
        let it = &mut self.links[link];
        it.connection = Some(connection);
        it.life = lives;
        it.coordinator = Side::Open { heard: self.at };
        let arrival = self.arrival(link, To::Agent);
        self.plan(arrival, Happening::Established(link));
        self.later(HEARTBEAT_US, Happening::Heartbeat(link));
        self.set_slots();
    }

    pub(super) fn established(&mut self, link: usize) {
        let process = self.links[link].process;
        if self.links[link].agent != Side::Unborn || self.waits(process, Happening::Established(link)) {
            return;
        }
        self.count("connections");
        self.links[link].agent = Side::Open { heard: self.at };
        let agent = &mut self.agents[process];
        agent.frames = FrameReader::new();
        agent.calm_since = self.at;
        let local = agent.local(self.at);
        agent.session.connected(local);
        self.changed(process);
    }

    pub(super) fn attempt_over(&mut self, link: usize) {
        if self.links[link].agent == Side::Unborn {
            self.lose(link);
        }
    }

    /// The agent's side of a link is no more; it tries again after a while.
    pub(super) fn lose(&mut self, link: usize) {
        let process = self.links[link].process;
        let was_open = self.links[link].agent.is_open();
        self.links[link].agent = Side::Closed;
        let agent = &mut self.agents[process];
        if agent.link != Some(link) || agent.is_dead() {
            return;
        }
        agent.link = None;
        agent.calm_since = self.at;
        if was_open {
            agent.session.disconnected();
        }
        self.changed(process);
        let backoff = self.dice.within(10_000, 1_500_000);
        self.later(backoff, Happening::Attempt(process));
    }

    /// The coordinator's side of a link is no more.
    pub(super) fn lose_at_coordinator(&mut self, link: usize) {
        self.links[link].coordinator = Side::Closed;
        let time = self.server.time(self.at);
        if let (Some(connection), Some(life)) = (self.links[link].connection, &mut self.server.life)
            && self.links[link].life == self.server.lives
        {
            life.coordinator.connection_lost(connection, time);
            life.peers.remove(&connection);
            self.set_slots();
        }
    }

    /// Each side looks whether the other is still there. One whose peer knows nothing of the connection
    /// is told so as soon as it is heard, or not at all.
    pub(super) fn heartbeat(&mut self, link: usize) {
        let process = self.links[link].process;
        if self.links[link].is_over() && self.links[link].agent != Side::Unborn {
            return;
        }
        let agent = &self.agents[process];
        let is_up = self.server.life.is_some() && self.server.stopped_until < self.at;
        let passes = !agent.way.is_blocked(self.at) && agent.runs() && is_up;
        if self.links[link].is_behind(self.at) {
            self.disturb(process, self.at);
        }
        let it = &mut self.links[link];
        let stands = it.agent.is_open() && it.coordinator.is_open();
        let at = self.at;
        if passes && stands {
            it.agent.heard(at);
            it.coordinator.heard(at);
        }
        let told = passes && !stands && self.dice.percent(40);
        let it = &self.links[link];
        let agent_gives_up = it.agent.is_open() && (told || it.is_given_up(To::Agent, at));
        let coordinator_gives_up = it.coordinator.is_open() && (told || it.is_given_up(To::Coordinator, at));
        if agent_gives_up && self.agents[process].runs() {
            self.count("given up by the agent");
            self.lose(link);
        }
        if coordinator_gives_up && is_up && it_is_known(&self.links[link]) {
            self.count("given up by the coordinator");
            self.lose_at_coordinator(link);
        }
        self.later(HEARTBEAT_US, Happening::Heartbeat(link));
    }

    /// Sends bytes over a link, sometimes in two pieces.
    fn send(&mut self, link: usize, to: To, bytes: Vec<u8>) {
        let cut = if self.dice.percent(5) { self.dice.below(bytes.len() as u64) as usize } else { 0 };
        let (first, second) = bytes.split_at(cut);
        for piece in [first, second].into_iter().filter(|piece| !piece.is_empty()) {
            self.under_way[link][to as usize].push_back(Payload::Bytes(piece.to_vec()));
            let arrival = self.arrival(link, to);
            self.plan(arrival, Happening::Arrival(link, to));
        }
    }

    /// What is sent last, and lost where nothing gets through.
    pub(super) fn send_close(&mut self, link: usize, to: To, code: CloseCode) {
        let process = self.links[link].process;
        if self.agents[process].way.is_blocked(self.at) {
            return;
        }
        self.under_way[link][to as usize].push_back(Payload::Closed(code));
        let arrival = self.arrival(link, to);
        self.plan(arrival, Happening::Arrival(link, to));
    }

    /// Sends what a session has to say.
    pub(super) fn flush(&mut self, process: usize) {
        let mut bytes = Vec::new();
        while let Some(message) = self.agents[process].session.poll_send() {
            if let Err(error) = message.encode(&mut bytes) {
                return self.is_wrong("wire: what a session says fits in a frame", error.to_string());
            }
        }
        let Some(link) = self.agents[process].link.filter(|link| self.links[*link].agent.is_open()) else {
            return;
        };
        if !bytes.is_empty() {
            self.send(link, To::Coordinator, bytes);
        }
    }

    pub(super) fn arrives_at_coordinator(&mut self, link: usize) {
        if self.server.stopped_until >= self.at && self.server.life.is_some() {
            let until = self.server.stopped_until;
            return self.plan(until + 1, Happening::Arrival(link, To::Coordinator));
        }
        let Some(payload) = self.under_way[link][To::Coordinator as usize].pop_front() else { return };
        let it = &mut self.links[link];
        if !it.coordinator.is_open() || it.life != self.server.lives {
            return;
        }
        it.coordinator.heard(self.at);
        let at = self.at;
        match payload {
            Payload::Closed(_) => self.lose_at_coordinator(link),
            Payload::Bytes(bytes) => {
                self.trace
                    .note(at, link as u64, &bytes, || format!("link {link}: {} bytes arrive", bytes.len()));
                if let Err(error) = self.read_at_coordinator(link, &bytes) {
                    self.is_wrong("wire: a session keeps to the protocol", error);
                }
                self.set_slots();
            }
        }
    }

    fn read_at_coordinator(&mut self, link: usize, bytes: &[u8]) -> Result<(), String> {
        let (time, at) = (self.server.time(self.at), self.at);
        let (Some(connection), Some(life)) = (self.links[link].connection, &mut self.server.life) else {
            return Ok(());
        };
        let from = Place { connection, lane: LaneId::FIRST };
        let mut effects = Vec::new();
        let Some(peer) = life.peers.get_mut(&connection) else { return Ok(()) };
        peer.frames.push(bytes);
        while let Some(frame) = peer.frames.next_frame().map_err(|error| error.to_string())? {
            let message = ToCoordinator::decode(frame).map_err(|error| error.to_string())?;
            self.trace.note(at, 1, &[], || format!("link {link} -> {message:?}"));
            effects.extend(life.coordinator.receive(from, message, time));
        }
        self.carry_out(effects);
        Ok(())
    }

    /// Does what the coordinator wants done.
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let connection = match &effect {
                Effect::Send { to, .. } => to.connection,
                Effect::Close { connection, .. } => *connection,
            };
            let Some(life) = &mut self.server.life else { return };
            let Some(link) = life.peers.get(&connection).map(|peer| peer.link) else { continue };
            match effect {
                Effect::Send { message, .. } => {
                    let mut bytes = Vec::new();
                    if let Err(error) = message.encode(&mut bytes) {
                        return self.is_wrong("wire: what is told fits in a frame", error.to_string());
                    }
                    self.send(link, To::Agent, bytes);
                }
                Effect::Close { code, .. } => {
                    life.peers.remove(&connection);
                    self.count("closed by the coordinator");
                    self.links[link].coordinator = Side::Closed;
                    self.send_close(link, To::Agent, code);
                }
            }
        }
    }

    pub(super) fn arrives_at_agent(&mut self, link: usize) {
        let process = self.links[link].process;
        if self.waits(process, Happening::Arrival(link, To::Agent)) {
            return;
        }
        let Some(payload) = self.under_way[link][To::Agent as usize].pop_front() else { return };
        let it = &mut self.links[link];
        if !it.agent.is_open() {
            return;
        }
        it.agent.heard(self.at);
        let at = self.at;
        match payload {
            Payload::Closed(code) => {
                if code == CloseCode::Replaced {
                    self.agents[process].session.replaced();
                    self.agents[process].is_replaced = true;
                }
                self.trace.note(at, 3, &[], || format!("process {process}: closed, {code:?}"));
                self.lose(link);
            }
            Payload::Bytes(bytes) => {
                self.trace.note(at, link as u64, &bytes, || {
                    format!("link {link}: {} bytes come back", bytes.len())
                });
                if let Err(error) = self.read_at_agent(process, &bytes) {
                    self.is_wrong("wire: the coordinator keeps to the protocol", error);
                }
                self.changed(process);
            }
        }
    }

    fn read_at_agent(&mut self, process: usize, bytes: &[u8]) -> Result<(), String> {
        self.agents[process].frames.push(bytes);
        loop {
            let agent = &mut self.agents[process];
            let Some(frame) = agent.frames.next_frame().map_err(|error| error.to_string())? else {
                return Ok(());
            };
            let message = ToAgent::decode(frame).map_err(|error| error.to_string())?;
            self.trace.note(self.at, 2, &[], || format!("process {process} <- {message:?}"));
            let local = agent.local(self.at);
            if let ToAgent::Answer(answer) = &message {
                let answer = answer.clone();
                self.look(&super::invariant::Happened::Told { process, answer: &answer });
            }
            let asked = match &message {
                ToAgent::ClockPong(pong) => Some(Local::from_us(pong.client_us)),
                _ => None,
            };
            let agent = &mut self.agents[process];
            agent.session.receive(message, local).map_err(|breach| breach.to_string())?;
            let is_right = agent.is_right_about(self.server.time(self.at), self.at) == Some(true);
            if asked.is_some_and(|asked| agent.doubts.is_some_and(|since| asked.as_us() >= since)) && is_right
            {
                agent.doubts = None;
                agent.trusted_at = self.at;
            }
        }
    }
}

fn it_is_known(link: &Link) -> bool {
    link.connection.is_some()
}
