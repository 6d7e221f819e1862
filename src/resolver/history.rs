//! What is remembered of ended windows: for `expects`, the latest ends by target; for the `fair`
//! model, how long each agent held what has ended.

mod consistency;

use std::collections::VecDeque;

use super::digest::{Item, ItemHasher, StateDigest};
use super::nodes::{NodeId, Nodes};
use crate::limits;
use crate::types::{Agent, Claim, FixedMap, IntentKey, Micros, Mode, Path, Target, Time, Window};

/// The latest ends on or below a node, of two different intents: whoever asks, the latest end of
/// another is one of the two.
#[derive(Clone, Debug, Default)]
struct LatestTwo {
    first: Option<(Time, IntentKey)>,
    second: Option<(Time, IntentKey)>,
}

impl LatestTwo {
    fn note(&mut self, end: Time, key: &IntentKey) {
        let is_of = |it: &Option<(Time, IntentKey)>| it.as_ref().is_some_and(|(_, other)| other == key);
        let is_before = |it: &Option<(Time, IntentKey)>| it.as_ref().is_none_or(|(other, _)| *other < end);
        if is_before(&self.first) {
            if !is_of(&self.first) {
                self.second = self.first.take();
            }
            self.first = Some((end, key.clone()));
        } else if !is_of(&self.first) && is_before(&self.second) {
            self.second = Some((end, key.clone()));
        }
    }

    fn of_another_than(&self, key: &IntentKey) -> Option<Time> {
        let mut both = [&self.first, &self.second].into_iter().flatten();
        both.find(|(_, other)| other != key).map(|(end, _)| *end)
    }
}

/// Below twice this many agents nobody is forgotten early.
const AGENTS_KEPT_ANYWAY: usize = 512;

/// What is remembered of ended windows on and below a path.
#[derive(Clone, Debug, Default)]
struct EndedHere {
    /// On the path itself.
    own: LatestTwo,
    /// Of regions in the frame that the path names, which are just below it.
    regions: LatestTwo,
    /// Anywhere below, regions of the frame included.
    below: LatestTwo,
    last_end: Time,
    /// Whether it waits to be forgotten, and whether something has ended here since it began to.
    is_queued: bool,
    is_fresh: bool,
    /// Its part of the state digest, as of the last slot, and whether it has changed since.
    hash: Option<u128>,
    is_touched: bool,
}

/// The latest ends of writers' windows, by target.
#[derive(Debug, Default)]
pub(super) struct EndedWindows {
    nodes: Nodes<EndedHere>,
    /// Every node, the longest without a new end at the front, give or take one round.
    queue: VecDeque<NodeId>,
    /// A reading from before this may have missed a window that was forgotten.
    forgotten: Time,
    /// Nodes that changed in this slot.
    touched: Vec<NodeId>,
    /// The hashes of nodes that were forgotten in this slot.
    dropped: Vec<Option<u128>>,
}

impl EndedWindows {
    /// Remembers that `key` had `claim` in a window that ended at `end`.
    pub(super) fn note(&mut self, key: &IntentKey, claim: &Claim, window: Window) {
        if claim.mode == Mode::Shared {
            return;
        }
        let leaf = self.nodes.enter(claim.target.path());
        let is_region = matches!(claim.target, Target::Region(_));
        let mut next = Some(leaf);
        while let Some(id) = next {
            next = self.nodes.parent(id);
            let Some(here) = self.nodes.value_mut(id) else { continue };
            here.last_end = here.last_end.max(window.end());
            here.is_fresh = true;
            if id != leaf || is_region {
                here.below.note(window.end(), key);
            }
            if id == leaf {
                if is_region { &mut here.regions } else { &mut here.own }.note(window.end(), key);
                if !std::mem::replace(&mut here.is_touched, true) {
                    self.touched.push(id);
                }
            }
            if !std::mem::replace(&mut here.is_queued, true) {
                // The queue needs the node from here on.
                self.queue.push_back(id);
                if id != leaf {
                    self.nodes.need(id);
                }
            } else if id == leaf {
                self.nodes.leave(id);
            }
        }
        while self.nodes.len() > limits::ENDED_TARGETS && self.forget_one() {}
    }

    /// Forgets the node at the front of the queue that nobody ended anything on for the longest; one
    /// with newer ends, or with others below it, gets another round.
    fn forget_one(&mut self) -> bool {
        for _ in 0..=2 * self.queue.len() {
            let Some(id) = self.queue.pop_front() else { return false };
            let is_last = self.nodes.is_needed_once(id);
            let Some(here) = self.nodes.value_mut(id) else { return false };
            if std::mem::replace(&mut here.is_fresh, false) || !is_last {
                self.queue.push_back(id);
                continue;
            }
            self.forgotten = self.forgotten.max(here.last_end);
            self.dropped.push(here.hash);
            self.nodes.leave(id);
            return true;
        }
        false
    }

    /// The latest end after `as_of` of a window of another than `key` on a path related to `path`.
    pub(super) fn latest_end(&self, path: &Path, key: &IntentKey, as_of: Time) -> Option<Time> {
        let lineage = self.nodes.find_lineage(path).filter_map(|id| self.nodes.value(id));
        let own = lineage.map(|here| &here.own);
        let below = self.nodes.find(path.as_str()).and_then(|id| self.nodes.value(id));
        let ends = own.chain(below.map(|here| &here.below)).filter_map(|two| two.of_another_than(key));
        ends.filter(|end| *end > as_of).max()
    }

    /// Takes what changed in this slot into the state digest. What is known below a path follows from
    /// the paths below it.
    pub(super) fn settle(&mut self, digest: &mut StateDigest) {
        self.dropped.drain(..).for_each(|hash| digest.replace(hash, None));
        for id in std::mem::take(&mut self.touched) {
            let Some(path) = self.nodes.path(id).cloned() else { continue };
            let Some(here) = self.nodes.value_mut(id).filter(|here| here.is_touched) else { continue };
            let hash = Some(hash_of_ends(&path, here));
            digest.replace(here.hash, hash);
            here.hash = hash;
            here.is_touched = false;
        }
    }

    /// A reading from before this is stale whatever was or was not written.
    pub(super) fn forgotten(&self) -> Time {
        self.forgotten
    }
}

fn hash_of_ends(path: &Path, here: &EndedHere) -> u128 {
    let mut hasher = ItemHasher::new(Item::EndedWindows);
    hasher.text(path.as_str());
    for end in [&here.own.first, &here.own.second, &here.regions.first, &here.regions.second] {
        hasher.option(end.as_ref(), |hasher, (end, key)| {
            hasher.time(*end);
            hasher.key(key);
        });
    }
    hasher.finish()
}

/// What each agent held, as far as the `fair` model may look back.
#[derive(Debug, Default)]
pub(super) struct EndedGrants {
    by_agent: FixedMap<Agent, VecDeque<Window>>,
    /// How many agents there were after those who held nothing lately were last forgotten.
    agents_kept: usize,
    /// What this part of the state has changed in its digest since the last slot.
    change: StateDigest,
}

impl EndedGrants {
    /// Remembers that `agent` held a grant in `window`, and forgets what ended before `from`.
    pub(super) fn note(&mut self, agent: &Agent, window: Window, from: Time) {
        let held = self.by_agent.entry(agent.clone()).or_default();
        while held.len() >= limits::ENDED_GRANTS_BY_AGENT || held.front().is_some_and(|it| it.end() <= from) {
            let gone = held.pop_front().map(|gone| hash_of_held(agent, gone));
            self.change.replace(gone, None);
        }
        held.push_back(window);
        self.change.replace(None, Some(hash_of_held(agent, window)));
        // Looking at every agent costs little where it is done only when their number has doubled.
        if self.by_agent.len() > 2 * self.agents_kept.max(AGENTS_KEPT_ANYWAY) {
            let is_over = |held: &VecDeque<Window>| held.iter().all(|it| it.end() <= from);
            for (agent, held) in self.by_agent.extract_if(|_, held| is_over(held)) {
                held.into_iter().for_each(|it| self.change.replace(Some(hash_of_held(&agent, it)), None));
            }
            self.agents_kept = self.by_agent.len();
        }
    }

    /// Takes what changed in this slot into the state digest.
    pub(super) fn settle(&mut self, digest: &mut StateDigest) {
        let change = std::mem::take(&mut self.change);
        digest.replace(None, Some(change.to_number()));
    }

    /// How long the agent's ended grants lay within `span`, summed.
    pub(super) fn held(&self, agent: &Agent, span: Window) -> Micros {
        let held = self.by_agent.get(agent).into_iter().flatten();
        let parts = held.filter_map(|window| window.overlap(span)).map(Window::duration);
        parts.fold(Micros::ZERO, Micros::plus)
    }
}

fn hash_of_held(agent: &Agent, window: Window) -> u128 {
    let mut hasher = ItemHasher::new(Item::EndedGrants);
    hasher.text(agent.as_str());
    hasher.window(window);
    hasher.finish()
}
