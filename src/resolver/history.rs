//! What is remembered of ended windows: for `expects`, the latest ends by target; for the `fair`
//! model, how long each agent held what has ended.

use std::collections::{BTreeSet, VecDeque};

use super::digest::{Item, ItemHasher, StateDigest};
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

#[derive(Clone, Debug, Default)]
struct Node {
    own: LatestTwo,
    below: LatestTwo,
    last_end: Time,
    /// Its part of the state digest, as of the last slot.
    hash: Option<u128>,
}

/// The latest ends of writers' windows, by target.
#[derive(Debug, Default)]
pub(super) struct EndedWindows {
    nodes: FixedMap<Path, Node>,
    by_end: BTreeSet<(Time, Path)>,
    /// A reading from before this may have missed a window that was forgotten.
    forgotten: Time,
    /// Nodes that changed in this slot.
    touched: BTreeSet<Path>,
    /// The hashes of nodes that were forgotten in this slot.
    dropped: Vec<Option<u128>>,
}

impl EndedWindows {
    /// Remembers that `key` had `claim` in a window that ended at `end`.
    pub(super) fn note(&mut self, key: &IntentKey, claim: &Claim, window: Window) {
        if claim.mode == Mode::Shared {
            return;
        }
        let path = claim.target.path();
        let is_region = matches!(claim.target, Target::Region(_));
        for text in path.lineage() {
            let is_own = text.len() == path.as_str().len() && !is_region;
            self.note_at(text, key, window.end(), is_own);
        }
        while self.nodes.len() > limits::ENDED_TARGETS {
            let Some((end, path)) = self.by_end.pop_first() else { break };
            self.dropped.extend(self.nodes.remove(&path).map(|node| node.hash));
            self.forgotten = self.forgotten.max(end);
        }
    }

    fn note_at(&mut self, text: &str, key: &IntentKey, end: Time, is_own: bool) {
        if !self.nodes.contains_key(text) {
            self.nodes.extend(Path::new(text).map(|path| (path, Node::default())));
        }
        let (Some(node), Some(path)) = (self.nodes.get_mut(text), Path::new(text)) else { return };
        if is_own { &mut node.own } else { &mut node.below }.note(end, key);
        self.by_end.remove(&(node.last_end, path.clone()));
        node.last_end = node.last_end.max(end);
        self.by_end.insert((node.last_end, path.clone()));
        self.touched.insert(path);
    }

    /// The latest end after `as_of` of a window of another than `key` on a path related to `path`.
    pub(super) fn latest_end(&self, path: &Path, key: &IntentKey, as_of: Time) -> Option<Time> {
        let own = path.lineage().filter_map(|text| self.nodes.get(text)).map(|node| &node.own);
        let below = self.nodes.get(path).map(|node| &node.below);
        let ends = own.chain(below).filter_map(|two| two.of_another_than(key));
        ends.filter(|end| *end > as_of).max()
    }

    /// Takes what changed in this slot into the state digest.
    pub(super) fn settle(&mut self, digest: &mut StateDigest) {
        self.dropped.drain(..).for_each(|hash| digest.replace(hash, None));
        for path in std::mem::take(&mut self.touched) {
            let Some(node) = self.nodes.get_mut(&path) else { continue };
            let mut hasher = ItemHasher::new(Item::EndedWindows);
            hasher.text(path.as_str());
            let both = [&node.own, &node.below];
            both.iter().flat_map(|two| [&two.first, &two.second]).for_each(|end| {
                hasher.option(end.as_ref(), |hasher, (end, key)| {
                    hasher.time(*end);
                    hasher.key(key);
                });
            });
            let hash = Some(hasher.finish());
            digest.replace(node.hash, hash);
            node.hash = hash;
        }
    }

    /// A reading from before this is stale whatever was or was not written.
    pub(super) fn forgotten(&self) -> Time {
        self.forgotten
    }
}

/// What one agent held.
#[derive(Debug, Default)]
struct HeldByAgent {
    held: VecDeque<Window>,
    /// Its part of the state digest, as of the last slot.
    hash: Option<u128>,
}

/// What each agent held, as far as the `fair` model may look back.
#[derive(Debug, Default)]
pub(super) struct EndedGrants {
    by_agent: FixedMap<Agent, HeldByAgent>,
    /// How many agents there were after those who held nothing lately were last forgotten.
    agents_kept: usize,
    /// Agents whose grants ended in this slot.
    touched: BTreeSet<Agent>,
    /// The hashes of agents that were forgotten in this slot.
    dropped: Vec<Option<u128>>,
}

impl EndedGrants {
    /// Remembers that `agent` held a grant in `window`, and forgets what ended before `from`.
    pub(super) fn note(&mut self, agent: &Agent, window: Window, from: Time) {
        self.touched.insert(agent.clone());
        let held = &mut self.by_agent.entry(agent.clone()).or_default().held;
        while held.len() >= limits::ENDED_GRANTS_BY_AGENT || held.front().is_some_and(|it| it.end() <= from) {
            held.pop_front();
        }
        held.push_back(window);
        // Looking at every agent costs little where it is done only when their number has doubled.
        if self.by_agent.len() > 2 * self.agents_kept.max(AGENTS_KEPT_ANYWAY) {
            let gone = |it: &HeldByAgent| it.held.iter().all(|window| window.end() <= from);
            self.dropped.extend(self.by_agent.extract_if(|_, it| gone(it)).map(|(_, it)| it.hash));
            self.agents_kept = self.by_agent.len();
        }
    }

    /// Takes what changed in this slot into the state digest.
    pub(super) fn settle(&mut self, digest: &mut StateDigest) {
        self.dropped.drain(..).for_each(|hash| digest.replace(hash, None));
        for agent in std::mem::take(&mut self.touched) {
            let Some(it) = self.by_agent.get_mut(&agent) else { continue };
            let mut hasher = ItemHasher::new(Item::EndedGrants);
            hasher.text(agent.as_str());
            it.held.iter().for_each(|window| hasher.window(*window));
            let hash = Some(hasher.finish());
            digest.replace(it.hash, hash);
            it.hash = hash;
        }
    }

    /// How long the agent's ended grants lay within `span`, summed.
    pub(super) fn held(&self, agent: &Agent, span: Window) -> Micros {
        let held = self.by_agent.get(agent).into_iter().flat_map(|it| &it.held);
        let parts = held.filter_map(|window| window.overlap(span)).map(Window::duration);
        parts.fold(Micros::ZERO, Micros::plus)
    }
}
