//! What is remembered of ended windows: for `expects`, the latest ends by target; for the `fair`
//! model, how long each agent held what has ended.

mod consistency;

use std::collections::VecDeque;

use super::digest::{Item, ItemHasher, StateDigest};
use super::nodes::{NodeId, Nodes};
use super::state::{EndedTarget, EndedWindow};
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

    fn take_in(&mut self, other: &LatestTwo) {
        other.first.iter().chain(&other.second).for_each(|(end, key)| self.note(*end, key));
    }

    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn to_pair(&self) -> [Option<(Time, IntentKey)>; 2] {
        [self.first.clone(), self.second.clone()]
    }

    fn of([first, second]: [Option<(Time, IntentKey)>; 2]) -> Self {
        LatestTwo { first, second }
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
    /// What was noted in this slot, where somebody wants to know.
    noted: Vec<EndedWindow>,
    keeps_noted: bool,
    hasher: ItemHasher,
}

impl EndedWindows {
    /// Remembers that `key` had `claim` in a window that ended at `end`.
    pub(super) fn note(&mut self, key: &IntentKey, claim: &Claim, window: Window) {
        if claim.mode == Mode::Shared {
            return;
        }
        let is_region = matches!(claim.target, Target::Region(_));
        let (path, end) = (claim.target.path(), window.end());
        self.enter(key, path, is_region, end);
        if self.keeps_noted {
            self.noted.push(EndedWindow { key: key.clone(), path: path.clone(), is_region, end });
        }
    }

    /// From here on each slot tells what was noted in it.
    pub(super) fn keep_noted(&mut self) {
        self.keeps_noted = true;
    }

    fn enter(&mut self, key: &IntentKey, path: &Path, is_region: bool, end: Time) {
        let leaf = self.nodes.enter(path);
        let mut next = Some(leaf);
        while let Some(id) = next {
            next = self.nodes.parent(id);
            let Some(here) = self.nodes.value_mut(id) else { continue };
            here.last_end = here.last_end.max(end);
            here.is_fresh = true;
            if id != leaf || is_region {
                here.below.note(end, key);
            }
            if id == leaf {
                if is_region { &mut here.regions } else { &mut here.own }.note(end, key);
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
    ///
    /// Returns the windows that were noted in this slot, where they are kept.
    pub(super) fn settle(&mut self, digest: &mut StateDigest) -> Vec<EndedWindow> {
        self.dropped.drain(..).for_each(|hash| digest.replace(hash, None));
        for id in std::mem::take(&mut self.touched) {
            let Some((path, here)) = self.nodes.path_and_value_mut(id).filter(|(_, here)| here.is_touched)
            else {
                continue;
            };
            let hash = Some(hash_of_ends(&mut self.hasher, path, here));
            digest.replace(here.hash, hash);
            here.hash = hash;
            here.is_touched = false;
        }
        std::mem::take(&mut self.noted)
    }

    /// A reading from before this is stale whatever was or was not written.
    pub(super) fn forgotten(&self) -> Time {
        self.forgotten
    }

    /// Takes what another such slot noted.
    pub(super) fn apply(&mut self, noted: &[EndedWindow], digest: &mut StateDigest) {
        noted.iter().for_each(|it| self.enter(&it.key, &it.path, it.is_region, it.end));
        self.settle(digest);
    }

    /// What is remembered, in the order in which it is to be forgotten.
    pub(super) fn targets(&self) -> impl Iterator<Item = EndedTarget> {
        self.queue.iter().filter_map(|id| {
            let here = self.nodes.value(*id)?;
            Some(EndedTarget {
                path: self.nodes.path(*id)?.clone(),
                own: here.own.to_pair(),
                regions: here.regions.to_pair(),
                last_end: here.last_end,
                is_fresh: here.is_fresh,
            })
        })
    }

    /// The history of which `targets` told, that remembers nothing from before `forgotten`.
    pub(super) fn restore(targets: Vec<EndedTarget>, forgotten: Time, digest: &mut StateDigest) -> Self {
        let mut history = EndedWindows { forgotten, ..EndedWindows::default() };
        for target in targets {
            let id = history.nodes.enter(&target.path);
            let Some(here) = history.nodes.value_mut(id) else { continue };
            if std::mem::replace(&mut here.is_queued, true) {
                history.nodes.leave(id); // a path that is told of twice stands once
                continue;
            }
            (here.own, here.regions) = (LatestTwo::of(target.own), LatestTwo::of(target.regions));
            (here.last_end, here.is_fresh) = (target.last_end, target.is_fresh);
            here.is_touched = !here.own.is_empty() || !here.regions.is_empty();
            if here.is_touched {
                history.touched.push(id);
            }
            history.queue.push_back(id);
        }
        for id in history.queue.clone() {
            history.tell_ancestors(id);
        }
        history.settle(digest);
        history
    }

    /// Puts the ends on a node into what is known below its ancestors; those of regions are below the
    /// node itself.
    fn tell_ancestors(&mut self, id: NodeId) {
        let Some(here) = self.nodes.value_mut(id) else { return };
        let (own, regions) = (here.own.clone(), here.regions.clone());
        here.below.take_in(&regions);
        let mut next = self.nodes.parent(id);
        while let Some(ancestor) = next {
            if let Some(above) = self.nodes.value_mut(ancestor) {
                above.below.take_in(&own);
                above.below.take_in(&regions);
            }
            next = self.nodes.parent(ancestor);
        }
    }
}

fn hash_of_ends(hasher: &mut ItemHasher, path: &Path, here: &EndedHere) -> u128 {
    hasher.hash(Item::EndedWindows, |hasher| {
        hasher.text(path.as_str());
        for end in [&here.own.first, &here.own.second, &here.regions.first, &here.regions.second] {
            hasher.option(end.as_ref(), |hasher, (end, key)| {
                hasher.time(*end);
                hasher.key(key);
            });
        }
    })
}

/// What each agent held, as far as the `fair` model may look back.
#[derive(Debug, Default)]
pub(super) struct EndedGrants {
    by_agent: FixedMap<Agent, VecDeque<Window>>,
    /// How many agents there were after those who held nothing lately were last forgotten.
    agents_kept: usize,
    /// What this part of the state has changed in its digest since the last slot.
    change: StateDigest,
    /// What was noted in this slot, where somebody wants to know.
    noted: Vec<(Agent, Window)>,
    keeps_noted: bool,
    hasher: ItemHasher,
}

impl EndedGrants {
    /// Remembers that `agent` held a grant in `window`, and forgets what ended before `from`.
    pub(super) fn note(&mut self, agent: &Agent, window: Window, from: Time) {
        if self.keeps_noted {
            self.noted.push((agent.clone(), window));
        }
        let held = self.by_agent.entry(agent.clone()).or_default();
        while held.len() >= limits::ENDED_GRANTS_BY_AGENT || held.front().is_some_and(|it| it.end() <= from) {
            let gone = held.pop_front().map(|gone| hash_of_held(&mut self.hasher, agent, gone));
            self.change.replace(gone, None);
        }
        held.push_back(window);
        self.change.replace(None, Some(hash_of_held(&mut self.hasher, agent, window)));
        self.forget_agents(from);
    }

    /// From here on each slot tells what was noted in it.
    pub(super) fn keep_noted(&mut self) {
        self.keeps_noted = true;
    }

    /// Forgets agents who held nothing from `from` on, now and then.
    fn forget_agents(&mut self, from: Time) {
        // Looking at every agent costs little where it is done only when their number has doubled.
        if self.by_agent.len() > 2 * self.agents_kept.max(AGENTS_KEPT_ANYWAY) {
            let is_over = |held: &VecDeque<Window>| held.iter().all(|it| it.end() <= from);
            for (agent, held) in self.by_agent.extract_if(|_, held| is_over(held)) {
                for it in held {
                    self.change.replace(Some(hash_of_held(&mut self.hasher, &agent, it)), None);
                }
            }
            self.agents_kept = self.by_agent.len();
        }
    }

    /// Takes what changed in this slot into the state digest, and returns what was noted in it.
    pub(super) fn settle(&mut self, digest: &mut StateDigest) -> Vec<(Agent, Window)> {
        let change = std::mem::take(&mut self.change);
        digest.replace(None, Some(change.to_number()));
        std::mem::take(&mut self.noted)
    }

    /// Takes what another such slot noted.
    pub(super) fn apply(&mut self, noted: &[(Agent, Window)], from: Time, digest: &mut StateDigest) {
        noted.iter().for_each(|(agent, window)| self.note(agent, *window, from));
        self.settle(digest);
    }

    /// What each agent held, by agent, and how many agents were kept when some were last forgotten.
    pub(super) fn by_agent(&self) -> (impl Iterator<Item = (&Agent, &VecDeque<Window>)>, usize) {
        let by_agent: std::collections::BTreeMap<_, _> = self.by_agent.iter().collect();
        (by_agent.into_iter(), self.agents_kept)
    }

    /// The history of which [`EndedGrants::by_agent`] told.
    pub(super) fn restore(
        held: Vec<(Agent, Vec<Window>)>,
        agents_kept: usize,
        digest: &mut StateDigest,
    ) -> Self {
        let mut history = EndedGrants { agents_kept, ..EndedGrants::default() };
        for (agent, windows) in held {
            for it in &windows {
                history.change.replace(None, Some(hash_of_held(&mut history.hasher, &agent, *it)));
            }
            history.by_agent.entry(agent).or_default().extend(windows);
        }
        history.settle(digest);
        history
    }

    /// How long the agent's ended grants lay within `span`, summed.
    pub(super) fn held(&self, agent: &Agent, span: Window) -> Micros {
        let held = self.by_agent.get(agent).into_iter().flatten();
        let parts = held.filter_map(|window| window.overlap(span)).map(Window::duration);
        parts.fold(Micros::ZERO, Micros::plus)
    }
}

fn hash_of_held(hasher: &mut ItemHasher, agent: &Agent, window: Window) -> u128 {
    hasher.hash(Item::EndedGrants, |hasher| {
        hasher.text(agent.as_str());
        hasher.window(window);
    })
}
