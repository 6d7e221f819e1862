//! Inputs and decisions in a few words, for people.

use super::super::claims::described;
use super::super::output::harmless;
use super::super::times::{Wall, length};
use crate::audit::{StoredInput, StoredOp};
use crate::resolver::AgentOp;
use crate::session::coordinator::{
    Attempt, DrainNote, ForbiddenNote, OperatorNote, Priority, ReloadNote, RightsNote, Sent,
};
use crate::types::{Agent, Blocker, Claim, Decision, Intent, IntentId, IntentKey, RenewDenial, Verdict};
use crate::wire::{raw_mode, raw_target};

pub(super) fn key(key: &IntentKey) -> String {
    name(&key.agent, key.id)
}

fn name(agent: &Agent, id: IntentId) -> String {
    format!("{}/{id}", harmless(agent.as_str()))
}

/// What is claimed, and how: `dock/3 (exclusive)`.
pub(super) fn claim(claim: &Claim) -> String {
    harmless(&described(&raw_target(&claim.target), raw_mode(claim.mode)))
}

/// All claims of an intent, the first few spelled.
pub(super) fn claims(intent: &Intent) -> String {
    let spelled = intent.claims.iter().map(|it| format!("{} {}", claim(it), length(it.duration)));
    several(spelled, intent.claims.len())
}

/// How many of a list are spelled in one line.
const SPELLED: usize = 4;

/// A list in one line, whose rest is counted.
pub(super) fn several(items: impl Iterator<Item = String>, count: usize) -> String {
    let mut text = items.take(SPELLED).collect::<Vec<_>>().join("; ");
    if count > SPELLED {
        text.push_str(&format!("; and {} more", count - SPELLED));
    }
    text
}

pub(super) fn input(input: &StoredInput, wall: &Wall) -> String {
    match input {
        StoredInput::Agent { agent, op, .. } => format!("{} {}", name(agent, op.id()), asked(op, wall)),
        StoredInput::System { op, .. } => system(op),
    }
}

/// What was sent of a priority of which less counts, and why less does.
pub(super) fn sent(sent: &Sent) -> String {
    let Sent { priority: Priority { class, urgency, safety_margin, social_value }, by } = sent;
    let mut text = format!("sent class {}, urgency {urgency}", class.number());
    if *safety_margin > 0.0 {
        text.push_str(&format!(", safety margin {safety_margin}"));
    }
    if *social_value > 0.0 {
        text.push_str(&format!(", social value {social_value}"));
    }
    let rule = by.rule.as_ref().map(|rule| format!("rule \"{}\"", harmless(rule)));
    let spent = by.allowance.then(|| "its allowance".to_owned());
    let why: Vec<String> = rule.into_iter().chain(spent).collect();
    format!("{text}, lowered by {}", why.join(" and "))
}

/// Who tried what, and why that is forbidden.
pub(super) fn forbidden(note: &ForbiddenNote) -> String {
    let ForbiddenNote { at: _, agent, asked, what, rule, by } = note;
    let own = |id: &IntentId| name(agent, *id);
    let tried = match asked {
        Attempt::Declare(id) => format!("{} declares", own(id)),
        Attempt::Renew(id) => format!("{} renews", own(id)),
        Attempt::Release(id) => format!("{} releases", own(id)),
        Attempt::Administer(of, id) => {
            format!("{} releases {} of another", harmless(agent.as_str()), name(of, *id))
        }
        Attempt::Look => format!("{} looks", harmless(agent.as_str())),
        Attempt::Drain => format!("{} has it drain", harmless(agent.as_str())),
        Attempt::SetCapacity => format!("{} sets a capacity", harmless(agent.as_str())),
    };
    let on = if what.is_empty() { String::new() } else { format!(" on {}", harmless(what)) };
    let rule = match rule {
        Some(rule) => format!("rule \"{}\", {}", harmless(rule), by.as_str()),
        None => by.as_str().to_owned(),
    };
    format!("{tried}{on}: forbidden by {rule}")
}

/// A note of the record about rights, in a few words; of what was lowered, with the name of the intent.
pub(super) fn rights(note: &RightsNote, inputs: &[StoredInput], wall: &Wall) -> String {
    let of = |input: usize| match inputs.get(input) {
        Some(StoredInput::Agent { agent, op, .. }) => name(agent, op.id()),
        Some(StoredInput::System { op: StoredOp::Release { agent, id, .. }, .. }) => name(agent, *id),
        _ => format!("input {input}"),
    };
    let capacity = |input: usize| match inputs.get(input) {
        Some(StoredInput::System { op: StoredOp::Capacity { path, .. }, .. }) => {
            Some(harmless(path.as_str()))
        }
        _ => None,
    };
    match note {
        RightsNote::Forbidden(note) => forbidden(note),
        RightsNote::LeftOut(count) => format!("{count} more were forbidden"),
        RightsNote::Lowered { input, sent: by } => format!("{} {}", of(*input), sent(by)),
        RightsNote::Administered { input, by } => match capacity(*input) {
            Some(path) => format!("capacity of {path} was set by {}", harmless(by.as_str())),
            None => format!("{} was released by {}", of(*input), harmless(by.as_str())),
        },
        RightsNote::Drain(note) => drain(note, wall),
    }
}

/// A note of the record about what operators did, in a few words.
pub(super) fn operator(note: &OperatorNote) -> String {
    match note {
        OperatorNote::Reason { reason, .. } => format!("since: {}", harmless(reason)),
        OperatorNote::Reload(ReloadNote { at: _, by, changes, more, refused }) => {
            let count = changes.len() + usize::try_from(*more).unwrap_or(usize::MAX - changes.len());
            let changes = several(changes.iter().map(|change| harmless(change)), count);
            let changes = if changes.is_empty() { "no key has changed".to_owned() } else { changes };
            match refused {
                None => format!("read again by {}: {changes}", harmless(by)),
                Some(why) => format!("not read again by {}: {}", harmless(by), harmless(why)),
            }
        }
    }
}

/// Who ordered a drain, until when and why.
fn drain(note: &DrainNote, wall: &Wall) -> String {
    let DrainNote { at: _, by, reason, deadline } = note;
    let by = by.as_ref().map_or_else(|| "a signal".to_owned(), |by| harmless(by.as_str()));
    let why = if reason.is_empty() { String::new() } else { format!(": {}", harmless(reason)) };
    format!("drains until {}, by {by}{why}", wall.clock(*deadline))
}

/// What an agent asks for, after the intent's name.
pub(super) fn asked(op: &AgentOp, wall: &Wall) -> String {
    match op {
        AgentOp::Declare(intent) => format!("declares {}", claims(intent)),
        AgentOp::Revise(intent) => format!("revises to {}", claims(intent)),
        AgentOp::Invalid { revision, why, .. } => {
            let does = if *revision { "revises" } else { "declares" };
            format!("{does} what is invalid: {}", harmless(&why.field))
        }
        AgentOp::Release { .. } => "releases".to_owned(),
        AgentOp::Renew { until, .. } => format!("renews until {}", wall.clock(*until)),
    }
}

fn system(op: &StoredOp) -> String {
    match op {
        StoredOp::Capacity { path, capacity } => {
            format!("capacity of {} is {capacity}", harmless(path.as_str()))
        }
        StoredOp::Release { agent, id, reason } => {
            format!("{} released by the operator: {}", name(agent, *id), harmless(reason))
        }
        StoredOp::Config { .. } => "new rules".to_owned(),
        StoredOp::Restart { next_token } => format!("restart, tokens from {next_token}"),
    }
}

pub(super) fn decision(decision: &Decision, wall: &Wall) -> String {
    format!("{} {}", key(&decision.key), verdict(&decision.verdict, wall))
}

/// What was decided, after the intent's name.
pub(super) fn verdict(verdict: &Verdict, wall: &Wall) -> String {
    let from_to = |start, end| format!("{} to {}", wall.clock(start), wall.clock(end));
    match verdict {
        Verdict::Granted { start, end, token } => format!("granted {}, token {token}", from_to(*start, *end)),
        Verdict::Moved { start, end, token } => format!("moved to {}, token {token}", from_to(*start, *end)),
        Verdict::Conflict(conflict) => {
            let how = match (conflict.deadlock, conflict.is_final) {
                (true, _) => "deadlock",
                (false, true) => "conflict",
                (false, false) => "waits",
            };
            let offer = conflict.offer.map(|at| format!(", free from {}", wall.clock(at)));
            format!("{how}, {}{}", in_the_way(&conflict.blockers), offer.unwrap_or_default())
        }
        Verdict::Stale { path, as_of, .. } => {
            format!("stale: {} is to be read at {} or later", harmless(path.as_str()), wall.clock(*as_of))
        }
        Verdict::Rejected { reason, field, .. } if field.is_empty() => {
            format!("rejected: {}", reason.as_str())
        }
        Verdict::Rejected { reason, field, .. } => {
            format!("rejected: {}, {}", reason.as_str(), harmless(field))
        }
        Verdict::Released { reason: None } => "released".to_owned(),
        Verdict::Released { reason: Some(reason) } => {
            format!("released by the operator: {}", harmless(reason))
        }
        Verdict::ReleasedUnknown => "nothing to release".to_owned(),
        Verdict::Renewed { end } => format!("renewed until {}", wall.clock(*end)),
        Verdict::RenewDenied(RenewDenial::Unknown) => "not renewed: there is no such grant".to_owned(),
        Verdict::RenewDenied(RenewDenial::Kept { end, blockers }) => {
            format!("not renewed, ends {}, {}", wall.clock(*end), in_the_way(blockers))
        }
        Verdict::Expired { token } => format!("expired, token {token}"),
        Verdict::Revoked { by, waiting, .. } => {
            format!("revoked for {}{}", key(by), if *waiting { ", waits" } else { "" })
        }
    }
}

fn in_the_way(blockers: &[Blocker]) -> String {
    let mut keys: Vec<String> = blockers.iter().map(|blocker| key(&blocker.key)).collect();
    keys.dedup();
    match keys.len() {
        0 => "nobody in the way".to_owned(),
        count => format!("in the way {}", several(keys.into_iter(), count)),
    }
}
