//! Makes a trace on which the two differ smaller for as long as they do.

use preclaim::types::{Micros, RawIntent, RawMode};

use super::trace::{Line, Model, Op, Trace};

/// The smallest trace found that `differs`, taking away lines, then fields, then rules.
pub(crate) fn shrink(trace: &Trace, differs: impl Fn(&Trace) -> bool) -> Trace {
    let mut best = trace.clone();
    loop {
        let before = best.print();
        drop_lines(&mut best, &differs);
        drop_rules(&mut best, &differs);
        plainer_fields(&mut best, &differs);
        if best.print() == before {
            return best;
        }
    }
}

fn try_one(best: &mut Trace, differs: &impl Fn(&Trace) -> bool, change: impl FnOnce(&mut Trace)) -> bool {
    let mut smaller = best.clone();
    change(&mut smaller);
    let works = smaller.print() != best.print() && differs(&smaller);
    if works {
        *best = smaller;
    }
    works
}

fn drop_lines(best: &mut Trace, differs: &impl Fn(&Trace) -> bool) {
    let mut chunk = best.lines.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        while at < best.lines.len() {
            let to = (at + chunk).min(best.lines.len());
            if !try_one(best, differs, |trace| drop(trace.lines.drain(at..to))) {
                at += chunk;
            }
        }
        chunk /= 2;
    }
}

fn drop_rules(best: &mut Trace, differs: &impl Fn(&Trace) -> bool) {
    for at in (0..best.spec.rules.resources.len()).rev() {
        try_one(best, differs, |trace| drop(trace.spec.rules.resources.remove(at)));
    }
    for at in 0..best.spec.rules.resources.len() {
        try_one(best, differs, |trace| trace.spec.rules.resources[at].capacity = None);
        try_one(best, differs, |trace| trace.spec.rules.resources[at].time_tolerance = None);
        try_one(best, differs, |trace| trace.spec.rules.resources[at].overlap_ratio = None);
        try_one(best, differs, |trace| trace.spec.rules.resources[at].max_hold = None);
    }
    let plain = preclaim::resolver::Rules::default();
    try_one(best, differs, |trace| trace.spec.rules.min_lead = plain.min_lead);
    try_one(best, differs, |trace| trace.spec.rules.horizon = plain.horizon);
    try_one(best, differs, |trace| trace.spec.rules.history = plain.history);
    try_one(best, differs, |trace| trace.spec.rules.retention = plain.retention);
    try_one(best, differs, |trace| trace.spec.rules.preemption = None);
    try_one(best, differs, |trace| trace.spec.rules.preemption = Some(Micros::ZERO));
    try_one(best, differs, |trace| trace.spec.rules.fair_window = plain.fair_window);
    try_one(best, differs, |trace| trace.spec.rules.patience = None);
    try_one(best, differs, |trace| trace.spec.model = Model::Fifo);
}

fn intent_of(line: &mut Line) -> Option<&mut RawIntent> {
    match &mut line.op {
        Op::Declare(_, intent) | Op::Revise(_, intent) => Some(intent),
        _ => None,
    }
}

fn plainer_fields(best: &mut Trace, differs: &impl Fn(&Trace) -> bool) {
    for at in 0..best.lines.len() {
        // Later is fine as long as the order and the slot stay.
        let slot_opens = best.lines[at].at / 10_000 * 10_000;
        let least = if at == 0 { 0 } else { best.lines[at - 1].at };
        for time in [slot_opens.max(least), slot_opens.max(least) + 1000, least + 1000] {
            if time < best.lines[at].at {
                try_one(best, differs, |trace| trace.lines[at].at = time);
            }
        }
        if let Op::Revise(who, intent) = best.lines[at].op.clone() {
            try_one(best, differs, |trace| trace.lines[at].op = Op::Declare(who, intent));
        }
        let Some(intent) = intent_of(&mut best.lines[at]).cloned() else { continue };
        plainer_claims(best, differs, at, &intent);
        for change in plainer_intents(&intent) {
            let set = |trace: &mut Trace| intent_of(&mut trace.lines[at]).map(change);
            try_one(best, differs, |trace| {
                let _ = set(trace);
            });
        }
    }
    earlier(best, differs);
}

/// Moves all times forward by whole slots, and the rest of the trace after a gap.
fn earlier(best: &mut Trace, differs: &impl Fn(&Trace) -> bool) {
    for at in 0..best.lines.len() {
        while best.lines[at].at >= 10_000
            && try_one(best, differs, |trace| {
                trace.lines[at..].iter_mut().for_each(|line| move_back(line, 10_000))
            })
        {}
    }
}

fn move_back(line: &mut Line, by: u64) {
    line.at = line.at.saturating_sub(by);
    if let Op::Renew(_, _, until) = &mut line.op {
        *until = until.saturating_sub(by);
    }
    if let Some(intent) = intent_of(line) {
        intent.start = intent.start.map(|start| start.saturating_sub(by));
        intent.expects.iter_mut().for_each(|expect| expect.as_of = expect.as_of.saturating_sub(by));
    }
}

fn plainer_intents(intent: &RawIntent) -> Vec<fn(&mut RawIntent)> {
    let mut changes: Vec<fn(&mut RawIntent)> = vec![
        |intent| intent.slack = 0,
        |intent| intent.wait = 0,
        |intent| intent.hold = false,
        |intent| intent.task = 0,
        |intent| intent.class = 0,
        |intent| intent.urgency = 0.0,
        |intent| intent.safety_margin = 0.0,
        |intent| intent.social_value = 0.0,
        |intent| intent.start = None,
        |intent| intent.slack = intent.slack.div_ceil(1000) * 1000,
        |intent| intent.wait = intent.wait.div_ceil(1000) * 1000,
    ];
    if !intent.expects.is_empty() {
        changes.push(|intent| drop(intent.expects.pop()));
        changes.push(|intent| drop(intent.expects.drain(..intent.expects.len().min(1))));
    }
    changes
}

fn plainer_claims(best: &mut Trace, differs: &impl Fn(&Trace) -> bool, at: usize, intent: &RawIntent) {
    for claim in (0..intent.claims.len()).rev() {
        let one = |change: fn(&mut preclaim::types::RawClaim)| {
            move |trace: &mut Trace| {
                if let Some(claim) =
                    intent_of(&mut trace.lines[at]).and_then(|intent| intent.claims.get_mut(claim))
                {
                    change(claim);
                }
            }
        };
        let removed = try_one(best, differs, |trace| {
            if let Some(intent) = intent_of(&mut trace.lines[at]).filter(|intent| intent.claims.len() > 1) {
                intent.claims.remove(claim);
            }
        });
        if removed {
            continue;
        }
        try_one(best, differs, one(|claim| claim.offset = 0));
        try_one(best, differs, one(|claim| claim.mode = RawMode::Exclusive));
        try_one(best, differs, one(|claim| claim.duration = claim.duration / 1000 * 1000));
        try_one(best, differs, one(|claim| claim.duration = 10_000));
        try_one(best, differs, one(|claim| claim.duration = 5_000));
        try_one(best, differs, one(|claim| claim.target = preclaim::types::RawTarget::Path("a".into())));
        try_one(best, differs, one(|claim| claim.target = preclaim::types::RawTarget::Path("f".into())));
    }
}
