//! A trace as it is generated, shrunk and printed: messages with their arrival, and the rules.

use std::fmt::Write as _;
use std::sync::Arc;

use preclaim::priority::{Deadline, Fair, Fifo, PriorityModel, Weighted};
use preclaim::resolver::{AgentOp, Input, Resource, Rules, RulesChange, SlotBatch, SystemOp};
use preclaim::types::{Agent, IntentId, Micros, Path, RawClaim, RawIntent, RawMode, RawTarget, Slot, Time};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Model {
    Weighted { aging: f64 },
    Fifo,
    Deadline,
    Fair,
}

/// All rules; `rules.model` stays the default and `model` is what counts.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) rules: Rules,
    pub(crate) model: Model,
}

/// New values of some keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Change {
    pub(crate) min_lead: Option<u64>,
    pub(crate) horizon: Option<u64>,
    /// `Some(None)` switches preemption off.
    pub(crate) freeze: Option<Option<u64>>,
    pub(crate) model: Option<Model>,
    pub(crate) resources: Option<Vec<Resource>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Declare(&'static str, RawIntent),
    Revise(&'static str, RawIntent),
    Release(&'static str, u64),
    Renew(&'static str, u64, u64),
    Capacity(&'static str, u64),
    OperatorRelease(&'static str, u64),
    Config(Change),
    Restart(u64),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) at: u64,
    pub(crate) op: Op,
}

#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) spec: Spec,
    pub(crate) lines: Vec<Line>,
}

pub(crate) fn path(text: &str) -> Path {
    Path::new(text).unwrap_or_else(|| panic!("{text:?} is no path"))
}

pub(crate) fn agent(name: &str) -> Agent {
    Agent::new(name).unwrap_or_else(|| panic!("{name:?} is no name"))
}

impl Spec {
    pub(crate) fn rules(&self) -> Rules {
        let model: Arc<dyn PriorityModel> = match self.model {
            Model::Weighted { aging } => Arc::new(Weighted { aging, ..Weighted::default() }),
            Model::Fifo => Arc::new(Fifo),
            Model::Deadline => Arc::new(Deadline),
            Model::Fair => Arc::new(Fair),
        };
        Rules { model, ..self.rules.clone() }
    }

    fn with_resources(&self, resources: Option<&[Resource]>) -> Spec {
        let mut spec = self.clone();
        resources.into_iter().for_each(|it| spec.rules.resources = it.to_vec());
        spec
    }

    fn change(&mut self, change: &Change) {
        let micros = |us: u64| Micros::from_us(us);
        self.rules.min_lead = change.min_lead.map_or(self.rules.min_lead, micros);
        self.rules.horizon = change.horizon.map_or(self.rules.horizon, micros);
        self.rules.preemption = change.freeze.map_or(self.rules.preemption, |freeze| freeze.map(micros));
        self.model = change.model.unwrap_or(self.model);
    }
}

fn op_of(intent: &RawIntent, revision: bool) -> AgentOp {
    match intent.parse() {
        Ok(intent) if revision => AgentOp::Revise(intent),
        Ok(intent) => AgentOp::Declare(intent),
        Err(why) => AgentOp::Invalid { revision, raw: Arc::new(intent.clone()), why },
    }
}

impl Trace {
    pub(crate) fn is_in_order(&self) -> bool {
        self.lines.is_sorted_by_key(|line| line.at)
    }

    /// One batch for each slot, from the first to the last in which something arrives.
    pub(crate) fn batches(&self) -> Vec<SlotBatch> {
        let length = self.spec.rules.length;
        let mut spec = self.spec.clone();
        let mut by_slot: Vec<Vec<Input>> = Vec::new();
        for line in &self.lines {
            let slot = Slot::of(Time::from_us(line.at), length).number() as usize;
            by_slot.resize(by_slot.len().max(slot + 1), Vec::new());
            by_slot[slot].push(input(&mut spec, line));
        }
        let batch = |(slot, inputs)| SlotBatch::new(Slot::new(slot as u64), length, inputs);
        by_slot
            .into_iter()
            .enumerate()
            .map(|one| batch(one).expect("lines are in order of arrival"))
            .collect()
    }
}

fn input(spec: &mut Spec, line: &Line) -> Input {
    let at = Time::from_us(line.at);
    let from = |name: &str, op| Input::Agent { at, agent: agent(name), op };
    let system = |op| Input::System { at, op };
    match &line.op {
        Op::Declare(who, intent) => from(who, op_of(intent, false)),
        Op::Revise(who, intent) => from(who, op_of(intent, true)),
        Op::Release(who, id) => from(who, AgentOp::Release { id: IntentId::new(*id) }),
        Op::Renew(who, id, until) => {
            from(who, AgentOp::Renew { id: IntentId::new(*id), until: Time::from_us(*until) })
        }
        Op::Capacity(at, capacity) => system(SystemOp::Capacity { path: path(at), capacity: *capacity }),
        Op::OperatorRelease(who, id) => {
            let (agent, id, reason) = (agent(who), IntentId::new(*id), "maintenance".to_owned());
            system(SystemOp::Release { agent, id, reason })
        }
        Op::Config(change) => {
            spec.change(change);
            let resources = change.resources.clone();
            let document = spec.with_resources(resources.as_deref()).toml().into();
            system(SystemOp::Config(Box::new(RulesChange { rules: spec.rules(), resources, document })))
        }
        Op::Restart(next_token) => system(SystemOp::Restart { next_token: *next_token }),
    }
}

// Printing, as section 7 of the contract spells it.

impl Trace {
    /// The rules as TOML and the trace as JSON Lines.
    pub(crate) fn print(&self) -> String {
        let mut out = String::from("-- config.toml\n");
        out.push_str(&self.spec.toml());
        out.push_str("-- trace.jsonl\n");
        for line in &self.lines {
            let _ = writeln!(out, "{}", json_line(line));
        }
        out
    }
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Model::Weighted { .. } => "weighted",
            Model::Fifo => "fifo",
            Model::Deadline => "deadline",
            Model::Fair => "fair",
        }
    }
}

impl Spec {
    pub(crate) fn toml(&self) -> String {
        let rules = &self.rules;
        let us = |span: Micros| format!("\"{}us\"", span.as_us());
        let mut out = String::new();
        let _ = writeln!(out, "[slot]\nlength = {}\nmin_lead = {}", us(rules.length), us(rules.min_lead));
        let _ = writeln!(out, "horizon = {}\nhistory = {}", us(rules.horizon), us(rules.history));
        let _ = writeln!(out, "retention = {}\n[preemption]", us(rules.retention));
        match rules.preemption {
            Some(freeze) => {
                let _ = writeln!(out, "enabled = true\nfreeze = {}", us(freeze));
            }
            None => out.push_str("enabled = false\n"),
        }
        let _ = writeln!(out, "[priority]\nmodel = \"{}\"", self.model.name());
        if let Model::Weighted { aging } = self.model {
            let _ = writeln!(out, "aging = {aging:?}");
        }
        let _ = writeln!(out, "fair_window = {}", us(rules.fair_window));
        if let Some(patience) = rules.patience {
            let _ = writeln!(out, "patience = {}", us(patience));
        }
        for resource in &rules.resources {
            let _ = writeln!(out, "[[resource]]\npath = \"{}\"", resource.path);
            let keys = resource_keys(resource).into_iter().map(|(key, value)| format!("{key} = {value}\n"));
            out.extend(keys);
        }
        out
    }
}

fn resource_keys(resource: &Resource) -> Vec<(&'static str, String)> {
    let us = |span: Micros| format!("\"{}us\"", span.as_us());
    let keys = [
        ("capacity", resource.capacity.map(|n| n.to_string())),
        ("time_tolerance", resource.time_tolerance.map(us)),
        ("overlap_ratio", resource.overlap_ratio.map(|ratio| format!("{ratio:?}"))),
        ("max_hold", resource.max_hold.map(us)),
    ];
    keys.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn json_line(line: &Line) -> String {
    let at = line.at;
    let from = |who: &str, op: String| format!(r#"{{"at":{at},"agent":"{who}",{op}}}"#);
    let system = |op: String| format!(r#"{{"at":{at},"system":{{{op}}}}}"#);
    match &line.op {
        Op::Declare(who, intent) => from(who, format!(r#""declare":{}"#, json_intent(intent))),
        Op::Revise(who, intent) => from(who, format!(r#""revise":{}"#, json_intent(intent))),
        Op::Release(who, id) => from(who, format!(r#""release":{{"id":{id}}}"#)),
        Op::Renew(who, id, until) => from(who, format!(r#""renew":{{"id":{id},"until":{until}}}"#)),
        Op::Capacity(path, n) => system(format!(r#""capacity":{{"path":"{path}","capacity":{n}}}"#)),
        Op::OperatorRelease(who, id) => {
            system(format!(r#""release":{{"agent":"{who}","id":{id},"reason":"maintenance"}}"#))
        }
        Op::Config(change) => system(format!(r#""config":{{{}}}"#, json_change(change))),
        Op::Restart(next) => system(format!(r#""restart":{{"next_token":{next}}}"#)),
    }
}

fn json_change(change: &Change) -> String {
    let mut sections = Vec::new();
    let slot = [("min_lead", change.min_lead), ("horizon", change.horizon)];
    let slot = slot.into_iter().filter_map(|(key, us)| Some(format!(r#""{key}":"{}us""#, us?)));
    let slot: Vec<_> = slot.collect();
    if !slot.is_empty() {
        sections.push(format!(r#""slot":{{{}}}"#, slot.join(",")));
    }
    sections.extend(change.freeze.map(|freeze| match freeze {
        Some(us) => format!(r#""preemption":{{"enabled":true,"freeze":"{us}us"}}"#),
        None => r#""preemption":{"enabled":false}"#.to_owned(),
    }));
    sections.extend(change.model.map(|model| format!(r#""priority":{{"model":"{}"}}"#, model.name())));
    if let Some(resources) = &change.resources {
        let one = |resource: &Resource| {
            let keys = resource_keys(resource);
            let keys: String = keys.iter().map(|(key, value)| format!(r#","{key}":{value}"#)).collect();
            format!(r#"{{"path":"{}"{keys}}}"#, resource.path)
        };
        let all: Vec<_> = resources.iter().map(one).collect();
        sections.push(format!(r#""resource":[{}]"#, all.join(",")));
    }
    sections.join(",")
}

fn json_intent(intent: &RawIntent) -> String {
    let mut out = format!(r#"{{"id":{}"#, intent.id);
    if let Some(start) = intent.start {
        let _ = write!(out, r#","start":{start}"#);
    }
    let numbers =
        [("slack", intent.slack), ("wait", intent.wait), ("task", intent.task), ("class", intent.class)];
    for (key, value) in numbers.into_iter().filter(|(_, value)| *value != 0) {
        let _ = write!(out, r#","{key}":{value}"#);
    }
    if intent.hold {
        out.push_str(r#","hold":true"#);
    }
    let inputs = [
        ("urgency", intent.urgency),
        ("safety_margin", intent.safety_margin),
        ("social_value", intent.social_value),
    ];
    for (key, value) in inputs.into_iter().filter(|(_, value)| *value != 0.0) {
        let _ = write!(out, r#","{key}":{value:?}"#);
    }
    if !intent.expects.is_empty() {
        let one = |e: &preclaim::types::RawExpect| format!(r#"{{"path":"{}","as_of":{}}}"#, e.path, e.as_of);
        let all: Vec<_> = intent.expects.iter().map(one).collect();
        let _ = write!(out, r#","expects":[{}]"#, all.join(","));
    }
    let claims: Vec<_> = intent.claims.iter().map(json_claim).collect();
    let _ = write!(out, r#","claims":[{}]}}"#, claims.join(","));
    out
}

fn json_claim(claim: &RawClaim) -> String {
    let target = match &claim.target {
        RawTarget::Path(path) => format!(r#""path":"{path}""#),
        RawTarget::Box { frame, min, max } => {
            format!(r#""frame":"{frame}","box":{{"min":{min:?},"max":{max:?}}}"#)
        }
        RawTarget::Polygon { frame, corners, height } => {
            let height = height.as_ref().map_or(String::new(), |h| format!(r#","height":{h:?}"#));
            format!(r#""frame":"{frame}","polygon":{{"corners":{corners:?}{height}}}"#)
        }
    };
    let mode = match claim.mode {
        RawMode::Shared => r#","mode":"shared""#.to_owned(),
        RawMode::Exclusive => String::new(),
        RawMode::Units(n) => format!(r#","mode":{{"units":{n}}}"#),
    };
    let offset = if claim.offset == 0 { String::new() } else { format!(r#","offset":{}"#, claim.offset) };
    format!(r#"{{{target}{mode}{offset},"duration":{}}}"#, claim.duration)
}
