//! Whether what is remembered of ended windows and grants agrees with itself.

use super::*;
use crate::resolver::invariants::{Breach, holds};

impl EndedWindows {
    /// The digest's part of each target, made afresh.
    pub(in crate::resolver) fn hashes(&self) -> impl Iterator<Item = u128> {
        let has_any = |here: &EndedHere| here.own.first.is_some() || here.regions.first.is_some();
        let known = self.nodes.all().filter(move |(_, _, here)| has_any(here));
        let mut hasher = ItemHasher::default();
        known.map(move |(_, path, here)| hash_of_ends(&mut hasher, path, here))
    }

    /// # Errors
    /// The first target that is not forgotten in its turn, or whose ancestors do not know of it.
    pub(in crate::resolver) fn agrees(&self) -> Result<(), Breach> {
        let is_settled = self.touched.is_empty() && self.dropped.is_empty();
        holds(is_settled, "what changed has been taken into the digest", &self.touched)?;
        let queued: FixedMap<NodeId, usize> = self.queue.iter().map(|id| (*id, 1)).collect();
        holds(queued.len() == self.queue.len(), "a target is forgotten once", &self.queue)?;
        self.nodes.agrees(&queued)?;
        for (id, path, here) in self.nodes.all() {
            holds(queued.contains_key(&id) && here.is_queued, "each target is forgotten in its turn", path)?;
            if self.forgotten == Time::ZERO {
                holds(
                    ends(&here.below) == ends(&self.below(path)),
                    "a target knows the ends below it",
                    path,
                )?;
            }
        }
        Ok(())
    }

    /// The latest ends below a path, from those on each target below it.
    fn below(&self, path: &Path) -> LatestTwo {
        let mut latest = LatestTwo::default();
        for (_, other, here) in self.nodes.all().filter(|(_, other, _)| path.covers(other)) {
            let own = (other != path).then_some(&here.own);
            for two in own.into_iter().chain([&here.regions]) {
                let both = [&two.first, &two.second].into_iter().flatten();
                both.for_each(|(end, key)| latest.note(*end, key));
            }
        }
        latest
    }
}

/// Of ends at one time, which came first says nothing.
fn ends(two: &LatestTwo) -> [Option<Time>; 2] {
    [&two.first, &two.second].map(|it| it.as_ref().map(|(end, _)| *end))
}

impl EndedGrants {
    /// The digest's part of each grant, made afresh.
    pub(in crate::resolver) fn hashes(&self) -> impl Iterator<Item = u128> {
        let mut hasher = ItemHasher::default();
        let of_agent = move |(agent, held): (&Agent, &VecDeque<Window>)| -> Vec<u128> {
            held.iter().map(|window| hash_of_held(&mut hasher, agent, *window)).collect()
        };
        self.by_agent.iter().flat_map(of_agent)
    }
}
