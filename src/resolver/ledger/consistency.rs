//! Whether the ledger's indexes hold the windows of the grants in force and nothing else.

use super::*;
use crate::resolver::book::Book;
use crate::resolver::invariants::{Breach, holds};

/// A window as an index has it.
type Indexed = (u64, Window);

impl Ledger {
    /// # Errors
    /// The first group without a grant, or index that says something else than the groups do.
    pub(in crate::resolver) fn agrees(&self, book: &Book, settings: &Settings) -> Result<(), Breach> {
        holds(self.left_units == 0, "nothing is left over after a slot", self.left_units)?;
        let mut entered: FixedMap<NodeId, usize> = FixedMap::default();
        for (number, entry) in self.entries.iter() {
            holds(super::number(entry.id) == number, "a group stands where its id says", entry.id)?;
            self.entry_agrees(entry, book, settings)?;
            entry.nodes.iter().for_each(|node| *entered.entry(*node).or_default() += 1);
        }
        holds(self.entries.len() == book.counts().0, "each grant has its windows", self.entries.len())?;
        self.nodes.agrees(&entered)?;
        for (_, path, node) in self.nodes.all() {
            self.node_agrees(path, node)?;
        }
        self.pools_agree(settings)
    }

    fn entry_agrees(&self, entry: &Entry, book: &Book, settings: &Settings) -> Result<(), Breach> {
        let Entry { id, group, nodes, laid } = entry;
        let Kind::Granted(token) = group.kind else {
            return holds(false, "no place is held after a slot, and nothing is left over", group);
        };
        let grant = book.grant(token).filter(|grant| grant.group == *id && grant.key == group.key);
        holds(
            grant.is_some_and(|grant| grant.intent.claims == group.claims),
            "each group is a grant's",
            group,
        )?;
        let all = u64::MAX >> (u64::BITS as usize - group.claims.len());
        holds(*laid == all, "every granted window stands", group)?;
        holds(*group.tolerances == *settings.tolerances(&group.claims), "tolerances are the rules'", group)?;
        let paths = nodes.iter().map(|node| self.nodes.path(*node));
        let has_nodes = paths.eq(group.claims.iter().map(|claim| Some(claim.target.path())));
        holds(has_nodes, "each claim has its node", group)
    }

    /// All windows of claims that `which` names, as an index has them.
    fn indexed(&self, which: impl Fn(&Claim) -> bool) -> Vec<Indexed> {
        let mut found = Vec::new();
        for (_, entry) in self.entries.iter() {
            let claims = entry.group.claims.iter().zip(entry.group.windows.iter()).enumerate();
            let named = claims.filter(|(_, (claim, _))| which(claim));
            let place = |claim| Place { group: entry.id, claim };
            found.extend(named.map(|(claim, (_, window))| (place(claim).to_key(), *window)));
        }
        found.sort_unstable();
        found
    }

    fn node_agrees(&self, path: &Path, node: &Node) -> Result<(), Breach> {
        let is_region = |claim: &Claim| matches!(claim.target, Target::Region(_));
        let is_here = |claim: &Claim| claim.target.path() == path;
        for mode in 0..Mode::KINDS {
            let is_of = |claim: &Claim| claim.mode.kind() == mode;
            let own = self.indexed(|claim| is_of(claim) && is_here(claim) && !is_region(claim));
            holds(contents(&node.own[mode]) == own, "a node knows the windows on it", (path, mode))?;
            let is_below =
                |claim: &Claim| path.covers(claim.target.path()) && (!is_here(claim) || is_region(claim));
            let below = self.indexed(|claim| is_of(claim) && is_below(claim));
            holds(contents(&node.below[mode]) == below, "a node knows the windows below it", (path, mode))?;
            let regions = self.indexed(|claim| is_of(claim) && is_here(claim) && is_region(claim));
            let is_complete = node.regions[mode].len() == regions.len();
            holds(is_complete, "a frame knows its regions", (path, mode))?;
        }
        Ok(())
    }

    /// The sums of units, made afresh between any two instants at which one may change.
    fn pools_agree(&self, settings: &Settings) -> Result<(), Breach> {
        let is_pool = settings.all_pools().all(|path| self.pools.contains_key(path));
        let count = settings.all_pools().count();
        holds(is_pool && count == self.pools.len(), "each capacity has its pool", self.pools.len())?;
        for (path, profile) in &self.pools {
            let groups = self.entries.iter().map(|(_, entry)| &entry.group);
            let windows = groups.flat_map(|group| group.claims.iter().zip(group.windows.iter()));
            let uses = windows.filter(|(claim, _)| path.covers(claim.target.path()));
            let uses: Vec<(u64, Window)> =
                uses.filter_map(|(claim, at)| Some((units_of(claim)?, *at))).collect();
            let mut edges: Vec<Time> = uses.iter().flat_map(|(_, at)| [at.start(), at.end()]).collect();
            edges.sort_unstable();
            for step in edges.windows(2).filter_map(|pair| Window::new(pair[0], pair[1])) {
                let sum: u64 = uses.iter().filter(|(_, at)| at.covers(step)).map(|(units, _)| units).sum();
                holds(profile.max_over(step) == sum, "a pool knows what is used of it", (path, step, sum))?;
            }
            holds(profile.is_empty() == uses.is_empty(), "a pool that nobody uses is empty", path)?;
        }
        Ok(())
    }
}

fn contents(set: &WindowSet<()>) -> Vec<Indexed> {
    let mut found = Vec::new();
    set.for_each_overlapping(ALL_TIME, |member| found.push((member.key, member.window)));
    found.sort_unstable();
    found
}

fn units_of(claim: &Claim) -> Option<u64> {
    match claim.mode {
        Mode::Units(units) => Some(units),
        Mode::Shared | Mode::Exclusive => None,
    }
}
