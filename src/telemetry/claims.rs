//! `/claims`: who holds longest, who waits longest, and on which paths intents find no place. The slot
//! loop's thread only picks a bounded number of entries; they are put into words on the asker's task.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::contention::{Heat, OnPath};
use super::holds;
use crate::limits;
use crate::resolver::{GrantView, Resolver, UndecidedView};
use crate::types::{Intent, IntentId, IntentKey, Micros, Path, Slot, Time, Token};

/// What a look picks out.
#[derive(Debug)]
pub(super) struct Picked {
    decided: (Slot, Time),
    counts: (usize, usize),
    held: Vec<Held>,
    waiting: Vec<Waiting>,
    contended: Vec<(Path, Heat<OnPath>, Option<Held>)>,
}

#[derive(Clone, Debug)]
struct Held {
    key: IntentKey,
    token: Token,
    intent: Arc<Intent>,
    since: Time,
    until: Time,
}

#[derive(Clone, Debug)]
struct Waiting {
    key: IntentKey,
    intent: Arc<Intent>,
    since: Time,
    until: Time,
    offer: Option<Time>,
}

impl Picked {
    /// Runs where the resolver is owned, between two slots. Looks at [`limits::LIST_SCAN`] grants, those given
    /// first, and as many undecided intents at most.
    pub(super) fn look(resolver: &Resolver, contended: Vec<(Path, Heat<OnPath>)>) -> Self {
        let grant = |token| resolver.grant(token).map(|view| Held::of(&view));
        let contended = contended.into_iter();
        Picked {
            decided: resolver.last_decided(),
            counts: resolver.counts(),
            held: resolver.grants().take(limits::LIST_SCAN).map(|view| Held::of(&view)).collect(),
            waiting: resolver.undecided().take(limits::LIST_SCAN).map(|view| Waiting::of(&view)).collect(),
            contended: contended
                .map(|(path, heat)| {
                    let holder = heat.of.holder.and_then(grant);
                    (path, heat, holder)
                })
                .collect(),
        }
    }

    /// Puts it into words: up to `top` entries of each list, the worst first. What begins after `now` is
    /// not held yet.
    pub(super) fn words(&self, top: usize, now: Time) -> Claims<'_> {
        let (grants, undecided) = self.counts;
        let mut held: Vec<&Held> = self.held.iter().filter(|held| held.since <= now).collect();
        held.sort_by_key(|held| (held.since, held.token));
        let overdue = overdue(&held, top, now);
        held.truncate(top);
        let mut waiting: Vec<&Waiting> = self.waiting.iter().collect();
        waiting.sort_by(|a, b| (a.since, &a.key).cmp(&(b.since, &b.key)));
        waiting.truncate(top);
        Claims {
            slot: self.decided.0,
            at: self.decided.1,
            now,
            grants,
            undecided,
            is_complete: grants == self.held.len() && undecided == self.waiting.len(),
            contended: self.contended(),
            overdue: overdue.into_iter().map(HeldLine::of).collect(),
            agents: self.agents(top),
            longest_held: held.into_iter().map(HeldLine::of).collect(),
            longest_waiting: waiting.into_iter().map(WaitingLine::of).collect(),
        }
    }

    /// The contended paths, the most contended first, with how each is spoken of otherwise.
    pub(super) fn contended(&self) -> Vec<ContendedLine<'_>> {
        self.contended.iter().map(|it| ContendedLine::of(it, self.wanting(&it.0))).collect()
    }

    /// What was picked of contended paths, in the order of [`Picked::contended`].
    pub(super) fn heat(&self) -> impl Iterator<Item = (&Path, &Heat<OnPath>)> {
        self.contended.iter().map(|(path, heat, _)| (path, heat))
    }

    /// The agents with the most grants and waits among those that were looked at.
    fn agents(&self, top: usize) -> Vec<AgentLine<'_>> {
        let mut agents: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        self.held.iter().for_each(|held| agents.entry(held.key.agent.as_str()).or_default().0 += 1);
        self.waiting.iter().for_each(|it| agents.entry(it.key.agent.as_str()).or_default().1 += 1);
        let agents = agents.into_iter();
        let mut lines: Vec<AgentLine<'_>> =
            agents.map(|(agent, (grants, waiting))| AgentLine { agent, grants, waiting }).collect();
        lines.sort_by_key(|line| Reverse(line.grants + line.waiting));
        lines.truncate(top);
        lines
    }

    /// How many of the intents that wait name the path, something below it or something that it is a part of.
    fn wanting(&self, path: &Path) -> usize {
        let wants =
            |it: &&Waiting| it.intent.claims.iter().any(|claim| claim.target.path().is_related_to(path));
        self.waiting.iter().filter(wants).count()
    }
}

/// Leases that are held for far longer than they were declared for, by how many times; the worst first.
fn overdue<'a>(held: &[&'a Held], top: usize, now: Time) -> Vec<&'a Held> {
    let times = |held: &Held| {
        let stated = holds::stated(&held.intent).as_us().max(1);
        now.since(held.since).as_us() / stated
    };
    let mut overdue: Vec<&Held> = held.iter().copied().filter(|held| held.intent.hold).collect();
    overdue.retain(|held| times(held) >= limits::OVERDUE_TIMES);
    overdue.sort_by_key(|held| (Reverse(times(held)), held.since));
    overdue.truncate(top);
    overdue
}

impl Held {
    fn of(view: &GrantView<'_>) -> Self {
        Held {
            key: view.key.clone(),
            token: view.token,
            intent: Arc::clone(view.intent),
            since: view.start.max(view.granted_at),
            until: view.end,
        }
    }
}

impl Waiting {
    fn of(view: &UndecidedView<'_>) -> Self {
        Waiting {
            key: view.key.clone(),
            intent: Arc::clone(view.intent),
            since: view.arrival,
            until: view.waits_until,
            offer: view.offer,
        }
    }
}

/// `/claims`. Times are µs since the epoch.
#[derive(Debug, Serialize)]
pub(super) struct Claims<'a> {
    slot: Slot,
    at: Time,
    /// Now: slots in which nothing happens are not run, so the last one may be long ago.
    now: Time,
    grants: usize,
    undecided: usize,
    /// Whether all of both were looked at; otherwise the grants given first, and some who wait.
    #[serde(rename = "complete")]
    is_complete: bool,
    contended: Vec<ContendedLine<'a>>,
    longest_held: Vec<HeldLine<'a>>,
    longest_waiting: Vec<WaitingLine<'a>>,
    overdue: Vec<HeldLine<'a>>,
    agents: Vec<AgentLine<'a>>,
}

/// How much of what was looked at is of one agent.
#[derive(Debug, Serialize)]
struct AgentLine<'a> {
    agent: &'a str,
    grants: usize,
    waiting: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct ContendedLine<'a> {
    path: &'a str,
    /// Intents that found no place on it lately; those of a minute ago count half, and so on.
    conflicts: u64,
    last_conflict: Time,
    /// Intents that wait and name it, something below it or something that it is a part of.
    waiting: usize,
    /// Who was in the way last, where it still is.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<HeldLine<'a>>,
}

#[derive(Debug, Serialize)]
struct HeldLine<'a> {
    agent: &'a str,
    id: IntentId,
    token: Token,
    /// Of its first claim.
    path: &'a str,
    claims: usize,
    hold: bool,
    since: Time,
    until: Time,
    /// How long it was declared for.
    stated_us: Micros,
}

#[derive(Debug, Serialize)]
struct WaitingLine<'a> {
    agent: &'a str,
    id: IntentId,
    path: &'a str,
    claims: usize,
    class: u8,
    since: Time,
    until: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    offer: Option<Time>,
}

impl<'a> ContendedLine<'a> {
    fn of((path, heat, holder): &'a (Path, Heat<OnPath>, Option<Held>), waiting: usize) -> Self {
        ContendedLine {
            path: path.as_str(),
            conflicts: heat.conflicts,
            last_conflict: heat.last,
            waiting,
            holder: holder.as_ref().map(HeldLine::of),
        }
    }
}

impl<'a> HeldLine<'a> {
    fn of(held: &'a Held) -> Self {
        HeldLine {
            agent: held.key.agent.as_str(),
            id: held.key.id,
            token: held.token,
            path: first_path(&held.intent),
            claims: held.intent.claims.len(),
            hold: held.intent.hold,
            since: held.since,
            until: held.until,
            stated_us: holds::stated(&held.intent),
        }
    }
}

impl<'a> WaitingLine<'a> {
    fn of(waiting: &'a Waiting) -> Self {
        WaitingLine {
            agent: waiting.key.agent.as_str(),
            id: waiting.key.id,
            path: first_path(&waiting.intent),
            claims: waiting.intent.claims.len(),
            class: waiting.intent.class.number(),
            since: waiting.since,
            until: waiting.until,
            offer: waiting.offer,
        }
    }
}

fn first_path(intent: &Intent) -> &str {
    intent.claims.first().map_or("", |claim| claim.target.path().as_str())
}
