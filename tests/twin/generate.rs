//! Random traces in which collisions are dense: few agents, ids and paths, coarse times, and in each
//! trace another mix of the features.

use preclaim::resolver::{Resource, Rules};
use preclaim::types::{Micros, RawClaim, RawExpect, RawIntent, RawMode, RawTarget};

use super::trace::{Change, Line, Model, Op, Spec, Trace, path};

const AGENTS: [&str; 4] = ["a", "b", "c", "d"];
const PATHS: [&str; 8] = ["a", "a/b", "a/b/c", "a/c", "p", "p/q", "f", "f/x"];
const SLOT_US: u64 = 10_000;

/// A small generator with a fixed sequence for each seed (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `below - 1`.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.next() % below.max(1)
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True in `percent` of a hundred draws.
    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// How likely each feature is in one trace, in percent.
#[derive(Clone, Debug)]
struct Mix {
    agents: u64,
    paths: Vec<&'static str>,
    hold: u64,
    wait: u64,
    slack: u64,
    units: u64,
    shared: u64,
    regions: u64,
    expects: u64,
    class: u64,
    task: u64,
    claims: u64,
    asap: u64,
    odd: u64,
    /// Ids that were used before.
    known: u64,
    /// Whether classes rise with time, so that what was granted ahead gets in the way of higher ones.
    rising: bool,
    /// How far ahead starts may lie, in ms.
    ahead: u64,
    /// Out of all messages: revisions, repeats, releases, renewals, the operator's.
    revise: u64,
    repeat: u64,
    release: u64,
    renew: u64,
    system: u64,
}

/// What the generator remembers of what it declared, so that later messages refer to it.
#[derive(Clone, Debug)]
struct Declared {
    who: &'static str,
    intent: RawIntent,
    /// The decision time of the slot that it arrived in.
    d: u64,
}

struct Generator {
    random: Random,
    mix: Mix,
    spec: Spec,
    declared: Vec<Declared>,
    now: u64,
    last_id: u64,
}

/// The trace of a seed.
pub(crate) fn trace(seed: u64) -> Trace {
    let mut random = Random::new(seed);
    let mix = mix(&mut random);
    let spec = spec(&mut random, &mix);
    let mut generator = Generator { random, mix, spec, declared: Vec::new(), now: 0, last_id: 0 };
    let lines = generator.lines();
    Trace { spec: generator.spec, lines }
}

fn mix(r: &mut Random) -> Mix {
    let general = general(r);
    let focus = r.below(10);
    let mut sometimes = |percent: u64, much: u64| if r.chance(percent) { much } else { 0 };
    match focus {
        0 | 1 => Mix {
            // Leases on a few nodes and long waits for the others': rings.
            paths: vec!["a/b", "a/c", "p", "f"][..2 + sometimes(60, 1) as usize + sometimes(30, 1) as usize]
                .to_vec(),
            hold: 65,
            wait: 90,
            asap: 90,
            slack: 10,
            expects: 0,
            regions: sometimes(15, 40),
            units: sometimes(30, 40),
            class: sometimes(30, 30),
            known: 5,
            revise: sometimes(30, 15),
            claims: sometimes(40, 30),
            release: 4,
            repeat: 1,
            renew: 3,
            ..general
        },
        2..=4 => Mix {
            // Higher classes that come later, for what was granted ahead.
            paths: vec!["a", "a/b", "p"][..1 + sometimes(60, 1) as usize + sometimes(30, 1) as usize]
                .to_vec(),
            class: 85,
            rising: sometimes(70, 1) == 1,
            ahead: 60,
            asap: 15,
            units: sometimes(60, 75),
            expects: sometimes(40, 25),
            slack: 40,
            repeat: 8,
            known: 5,
            regions: sometimes(15, 50),
            ..general
        },
        5 => Mix { revise: 40, known: 30, wait: 20, class: sometimes(30, 40), ..general },
        6 => Mix { expects: 50, revise: sometimes(50, 25), shared: 30, ..general },
        _ => general,
    }
}

fn general(r: &mut Random) -> Mix {
    let paths = match r.below(5) {
        0 => PATHS.to_vec(),
        1 => vec!["a", "a/b", "p"],
        2 => vec!["a/b", "a/c", "f"],
        3 => vec!["a", "p"],
        _ => (0..r.between(1, 4)).map(|_| r.pick(&PATHS)).collect(),
    };
    let agents = r.between(2, 4);
    let mut sometimes = |percent: u64, much: u64| if r.chance(percent) { much } else { 0 };
    Mix {
        agents,
        paths,
        hold: sometimes(50, 50) + 10,
        wait: sometimes(60, 70) + 10,
        slack: sometimes(60, 50) + 10,
        units: sometimes(35, 60),
        shared: sometimes(50, 30) + 5,
        regions: sometimes(25, 60),
        expects: sometimes(25, 40) + 2,
        class: sometimes(50, 60),
        task: sometimes(30, 40),
        claims: sometimes(60, 50),
        asap: sometimes(70, 50) + 20,
        odd: sometimes(30, 15),
        known: sometimes(30, 60) + 10,
        rising: false,
        ahead: 35,
        revise: sometimes(60, 25) + 3,
        repeat: sometimes(40, 10) + 2,
        release: sometimes(60, 10) + 2,
        renew: sometimes(50, 15) + 2,
        system: sometimes(25, 10),
    }
}

fn spec(r: &mut Random, mix: &Mix) -> Spec {
    let us = Micros::from_us;
    let freeze = r.pick(&[0, 0, 1_000, 5_000, 10_000]);
    let rules = Rules {
        min_lead: us(if r.chance(20) { r.pick(&[1, 1000, 2000, 10_000, 13_000]) } else { 0 }),
        horizon: us(if r.chance(70) { 200_000 } else { r.pick(&[40_000, 60_000]) }),
        history: us(if r.chance(70) { 1_000_000 } else { r.pick(&[0, 5_000, 20_000]) }),
        retention: us(if r.chance(60) { 1_000_000 } else { r.pick(&[0, 1, 10_000, 15_000]) }),
        preemption: (mix.class > 0 && r.chance(80)).then_some(us(freeze)),
        fair_window: us(if r.chance(50) { 1_000_000 } else { r.pick(&[1, 10_000, 25_000]) }),
        patience: r.chance(25).then(|| us(r.pick(&[0, 5_000, 15_000, 20_000]))),
        resources: resources(r, mix),
        ..Rules::default()
    };
    let weighted = Model::Weighted { aging: r.pick(&[0.1, 0.1, 100.0]) };
    let model = r.pick(&[weighted, weighted, Model::Fifo, Model::Deadline, Model::Fair]);
    Spec { rules, model }
}

fn resources(r: &mut Random, mix: &Mix) -> Vec<Resource> {
    let mut resources: Vec<Resource> = Vec::new();
    let bounds = r.chance(25);
    let thresholds = r.chance(40);
    for at in PATHS {
        let mut resource = Resource::new(path(at));
        if mix.units > 0 && r.chance(45) {
            resource.capacity = Some(r.between(0, 5));
        }
        if thresholds && r.chance(30) {
            resource.time_tolerance = Some(Micros::from_us(r.pick(&[0, 1, 1000, 2000, 3000])));
        }
        if thresholds && mix.regions > 0 && r.chance(40) {
            resource.overlap_ratio = Some(r.pick(&[0.0, 0.125, 0.25, 0.25, 0.5, 0.333_333_333]));
        }
        if bounds && r.chance(40) {
            resource.max_hold = Some(Micros::from_us(r.pick(&[10_000, 15_000, 20_000, 30_000])));
        }
        if resource != Resource::new(path(at)) {
            resources.push(resource);
        }
    }
    resources
}

impl Generator {
    fn lines(&mut self) -> Vec<Line> {
        let count = self.random.between(3, 26);
        let mut lines = Vec::new();
        for _ in 0..count {
            self.pass_time();
            let op = self.op();
            lines.push(Line { at: self.now, op });
        }
        lines
    }

    fn pass_time(&mut self) {
        let r = &mut self.random;
        self.now = match r.below(20) {
            0 => (self.now / SLOT_US + 1) * SLOT_US,
            1 => (self.now / SLOT_US + 1) * SLOT_US - 1,
            2 => self.now + 1,
            3 | 4 => self.now,
            5 => self.now + r.between(10, 30) * 1000,
            _ => self.now + r.below(5) * 1000,
        };
    }

    fn d(&self) -> u64 {
        (self.now / SLOT_US + 1) * SLOT_US
    }

    /// Mostly a multiple of 1000, and at times one beside it.
    fn span(&mut self, from: u64, to: u64) -> u64 {
        let odd = self.random.chance(self.mix.odd);
        let us = self.random.between(from, to) * 1000;
        if !odd {
            us
        } else if self.random.chance(50) {
            us + 1
        } else {
            us.saturating_sub(1)
        }
    }

    fn op(&mut self) -> Op {
        let dice = self.random.below(100);
        let mix = &self.mix;
        let steps = [mix.revise, mix.repeat, mix.release, mix.renew, mix.system];
        let mut below = 0;
        let chosen = steps.iter().position(|step| {
            below += step;
            dice < below
        });
        match chosen {
            Some(4) => self.system(),
            Some(kind) if !self.declared.is_empty() => self.follow_up(kind),
            _ => self.declare(),
        }
    }

    fn declare(&mut self) -> Op {
        let who = AGENTS[self.random.below(self.mix.agents) as usize];
        let intent = self.intent();
        self.declared.push(Declared { who, intent: intent.clone(), d: self.d() });
        if self.random.chance(4) { Op::Revise(who, intent) } else { Op::Declare(who, intent) }
    }

    fn follow_up(&mut self, kind: usize) -> Op {
        let recent = self.declared.len().saturating_sub(8);
        let at = recent + self.random.below((self.declared.len() - recent) as u64) as usize;
        let Declared { who, intent, d } = self.declared[at].clone();
        match kind {
            0 => self.revise(who, intent, d),
            1 if self.random.chance(70) => Op::Declare(who, intent),
            1 => Op::Revise(who, intent),
            2 => Op::Release(who, intent.id),
            _ => {
                let until = self.now / 1000 * 1000 + self.span(0, 45);
                Op::Renew(who, intent.id, until)
            }
        }
    }

    fn revise(&mut self, who: &'static str, was: RawIntent, d: u64) -> Op {
        let mut intent = was;
        if self.random.chance(55) {
            self.shrink(&mut intent, d);
        }
        for _ in 0..self.random.below(3) {
            self.mutate(&mut intent);
        }
        if self.random.chance(10) {
            intent = RawIntent { id: intent.id, ..self.intent() };
        }
        self.declared.push(Declared { who, intent: intent.clone(), d: self.d() });
        if self.random.chance(10) { Op::Declare(who, intent) } else { Op::Revise(who, intent) }
    }

    /// Makes it likely that the revision takes no more than the grant, which most likely began at the
    /// start asked for, or with the slot's decision.
    fn shrink(&mut self, intent: &mut RawIntent, d: u64) {
        let start = intent.start.unwrap_or(d + self.spec.rules.min_lead.as_us());
        intent.start = Some(start);
        (intent.slack, intent.expects) = (0, Vec::new());
        if intent.claims.len() > 1 && self.random.chance(40) {
            let at = self.random.below(intent.claims.len() as u64) as usize;
            intent.claims.remove(at);
        }
        for at in 0..intent.claims.len() {
            let cut = self.random.below(4) * 2000;
            let late = self.random.chance(30);
            let deeper = self.random.chance(25);
            let weaker = self.random.chance(25);
            let claim = &mut intent.claims[at];
            if claim.duration > cut {
                claim.duration -= cut;
                claim.offset += if late { cut } else { 0 };
            }
            weaken(claim, deeper, weaker);
        }
    }

    fn mutate(&mut self, intent: &mut RawIntent) {
        match self.random.below(9) {
            0 => intent.start = intent.start.map(|start| start + 1000 * self.random.below(20)),
            1 => intent.slack = if intent.expects.is_empty() { self.span(0, 20) } else { 0 },
            2 => intent.wait = if intent.expects.is_empty() { self.span(0, 40) } else { 0 },
            3 => intent.class = self.random.below(4),
            4 => intent.urgency = self.random.pick(&[0.0, 0.5, 1.0]),
            5 => intent.hold = !intent.hold,
            6 => intent.start = Some(self.start()),
            7 => intent.claims.push(self.claim()),
            _ => {
                let longer = self.span(0, 10);
                let last = intent.claims.last_mut();
                last.into_iter().for_each(|claim| claim.duration += longer);
            }
        }
        if intent.start.is_some() {
            intent.expects.clear();
        }
    }

    fn system(&mut self) -> Op {
        let r = &mut self.random;
        match r.below(10) {
            0..3 => Op::Capacity(r.pick(&PATHS), r.below(6)),
            3..6 => {
                let at = self.declared.len().saturating_sub(1 + r.below(3) as usize);
                let known = self.declared.get(at).map(|declared| (declared.who, declared.intent.id));
                let (who, id) = known.unwrap_or(("a", 1));
                Op::OperatorRelease(who, id)
            }
            6 => Op::Restart(r.below(40)),
            _ => Op::Config(self.change()),
        }
    }

    fn change(&mut self) -> Change {
        let r = &mut self.random;
        let mut change = Change::default();
        match r.below(5) {
            0 => change.min_lead = Some(r.pick(&[0, 1000, 5000, 12_000])),
            1 => change.horizon = Some(r.pick(&[30_000, 80_000, 200_000])),
            2 => change.freeze = Some(r.pick(&[None, Some(0), Some(10_000)])),
            3 => change.model = Some(r.pick(&[Model::Fifo, Model::Deadline, Model::Fair])),
            _ => change.resources = Some(resources(r, &self.mix)),
        }
        change
    }

    fn start(&mut self) -> u64 {
        let ahead = self.span(0, self.mix.ahead);
        (self.d() + ahead).saturating_sub(if self.random.chance(25) { 7_000 } else { 0 })
    }

    fn intent(&mut self) -> RawIntent {
        self.last_id += 1;
        let id = if self.random.chance(self.mix.known) { self.random.between(1, 3) } else { self.last_id };
        let mut intent = RawIntent { id, ..RawIntent::default() };
        if self.random.chance(self.mix.expects) {
            intent.expects = self.expects();
        } else {
            if !self.random.chance(self.mix.asap) {
                intent.start = Some(self.start());
            }
            if self.random.chance(self.mix.slack) {
                intent.slack = self.span(0, 30);
            }
            if self.random.chance(self.mix.wait) {
                let is_for_ever = self.random.chance(4);
                intent.wait = if is_for_ever { u64::MAX } else { self.span(5, 60) };
            }
        }
        let r = &mut self.random;
        intent.hold = r.chance(self.mix.hold);
        let floor = if self.mix.rising { (self.now / 15_000).min(4) } else { 0 };
        intent.class = if r.chance(self.mix.class) { floor + r.below(4) } else { 0 };
        intent.task = if r.chance(self.mix.task) { r.below(2) } else { 0 };
        intent.urgency = r.pick(&[0.0, 0.0, 0.5, 1.0]);
        intent.safety_margin = r.pick(&[0.0, 0.0, 0.0, 0.5]);
        intent.social_value = r.pick(&[0.0, 0.0, 0.0, 1.0]);
        let more = if r.chance(self.mix.claims) { r.below(3) } else { 0 };
        intent.claims = (0..=more).map(|_| self.claim()).collect();
        if !intent.expects.is_empty() && self.random.chance(40) {
            // Windows that begin later than the intent does: a grant that can still be withdrawn.
            intent.claims.iter_mut().for_each(|claim| claim.offset += 12_000);
        }
        if self.random.chance(1) {
            self.spoil(&mut intent);
        }
        intent
    }

    fn spoil(&mut self, intent: &mut RawIntent) {
        match self.random.below(4) {
            0 => intent.class = 8,
            1 => intent.urgency = 1.5,
            2 => intent.claims[0].duration = 0,
            _ => intent.claims.clear(),
        }
    }

    fn expects(&mut self) -> Vec<RawExpect> {
        let count = self.random.between(1, 2);
        let mut one = |_| {
            let path = self.random.pick(&self.mix.paths).to_owned();
            let late = self.random.chance(3);
            let back = self.span(0, 30);
            let as_of = if late { self.d() + 1 } else { self.d().saturating_sub(back).min(self.d()) };
            RawExpect { path, as_of }
        };
        (0..count).map(&mut one).collect()
    }

    fn claim(&mut self) -> RawClaim {
        let offset = if self.random.chance(25) { self.span(0, 20) } else { 0 };
        let duration = self.span(1, 25).max(1);
        if self.random.chance(self.mix.regions) {
            let target = self.region();
            let mode = if self.random.chance(self.mix.shared) { RawMode::Shared } else { RawMode::Exclusive };
            return RawClaim { target, mode, offset, duration };
        }
        let target = RawTarget::Path(self.random.pick(&self.mix.paths).to_owned());
        let mode = if self.random.chance(self.mix.units) {
            RawMode::Units(self.random.between(1, 3))
        } else if self.random.chance(self.mix.shared) {
            RawMode::Shared
        } else {
            RawMode::Exclusive
        };
        RawClaim { target, mode, offset, duration }
    }

    fn region(&mut self) -> RawTarget {
        let r = &mut self.random;
        let frame = r.pick(&["f", "f", "f", "f/x", "a/b"]).to_owned();
        let mut half = || r.below(7) as f64 / 2.0;
        let (x, y) = (half(), half());
        let (width, depth) = (half() + 0.5, half() + 0.5);
        let (floor, height) = (half(), half() + 0.5);
        let tall = r.chance(30);
        if r.chance(50) {
            let mut min = vec![x, y];
            let mut max = vec![x + width, y + depth];
            if tall {
                min.push(floor);
                max.push(floor + height);
            }
            return RawTarget::Box { frame, min, max };
        }
        let corners = if r.chance(50) {
            vec![vec![x, y], vec![x + width, y], vec![x, y + depth]]
        } else {
            let (w, h) = (width / 2.0, depth / 2.0);
            vec![vec![x - w, y], vec![x, y - h], vec![x + w, y], vec![x, y + h]]
        };
        let height = tall.then(|| vec![floor, floor + height]);
        RawTarget::Polygon { frame, corners, height }
    }
}

/// Makes a claim take less: a node below, a smaller box, a weaker mode, fewer units.
fn weaken(claim: &mut RawClaim, deeper: bool, weaker: bool) {
    if deeper {
        match &mut claim.target {
            RawTarget::Path(at) => {
                let below = PATHS.iter().find(|path| path.starts_with(at.as_str()) && path.len() > at.len());
                if let Some(below) = below {
                    *at = (*below).to_owned();
                }
            }
            RawTarget::Box { min, max, .. } if max[0] - min[0] > 0.5 => max[0] -= 0.5,
            RawTarget::Box { .. } | RawTarget::Polygon { .. } => {}
        }
    }
    if weaker {
        claim.mode = match claim.mode {
            RawMode::Units(n) if n > 1 => RawMode::Units(n - 1),
            RawMode::Exclusive => RawMode::Shared,
            mode => mode,
        };
    }
}
