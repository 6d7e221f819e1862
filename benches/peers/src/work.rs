//! The work that every system is given: who needs what, for how long, and in which order.

use std::time::Duration;

use crate::dice::Dice;

/// One piece of work: what it needs at once, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// In a fixed order, so that whoever locks one after the other can do so without deadlock.
    pub(crate) paths: Vec<String>,
    /// How long the agent thinks before it needs it.
    pub(crate) think: Duration,
    pub(crate) work: Duration,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Workload {
    /// (a) Each agent a path of its own, at any time.
    Own,
    /// (a), known 50 ms before it is needed: only who can declare ahead gains by that.
    OwnLater,
    /// (a), 64 at once of each agent.
    OwnBatch,
    /// (b) 64 agents for 8 resources, 20 ms of work each.
    Contended,
    /// (b) The same, released at once.
    Released,
    /// (c) Windows of time ahead.
    Windows,
    /// (d) 3 of 10 resources at once, for 5 ms.
    Atomic,
    /// (e) Directories and files, 5 ms of work after 50 ms of thinking.
    Tree,
}

pub(crate) const ALL: [Workload; 8] = [
    Workload::Own,
    Workload::OwnLater,
    Workload::OwnBatch,
    Workload::Contended,
    Workload::Released,
    Workload::Windows,
    Workload::Atomic,
    Workload::Tree,
];

/// Declarations of one agent at once.
pub(crate) const BATCH: usize = 64;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Workload {
    /// What the table calls it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Workload::Own => "(a) uncontended: 8 agents, each its own path, every 10 ms on average",
            Workload::OwnLater => "(a) uncontended, known 50 ms before it is needed",
            Workload::OwnBatch => "(a) uncontended: 8 agents, each 64 paths of its own at once",
            Workload::Contended => "(b) contended: 64 agents for 8 resources, 20 ms of work",
            Workload::Released => "(b) contended: 64 agents for 8 resources, released at once",
            Workload::Windows => "(c) windows: 64 agents book time ahead on 100 resources, 30 % overlap",
            Workload::Atomic => "(d) atomic: 64 agents, each 3 of 10 resources at once, 5 ms of work",
            Workload::Tree => "(e) no lock collapse: 20 agents think for 50 ms and hold files for 5 ms",
        }
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Own => "own",
            Workload::OwnLater => "own-later",
            Workload::OwnBatch => "own-batch",
            Workload::Contended => "contended",
            Workload::Released => "released",
            Workload::Windows => "windows",
            Workload::Atomic => "atomic",
            Workload::Tree => "tree",
        }
    }

    pub(crate) fn agents(self) -> usize {
        match self {
            Workload::Own | Workload::OwnLater | Workload::OwnBatch => 8,
            Workload::Tree => 20,
            _ => 64,
        }
    }

    /// Whether an agent knows beforehand when it will need what.
    pub(crate) fn is_known_before(self) -> bool {
        matches!(self, Workload::OwnLater | Workload::Tree)
    }

    fn work(self) -> Duration {
        match self {
            Workload::Contended => millis(20),
            Workload::Atomic | Workload::Tree => millis(5),
            _ => Duration::ZERO,
        }
    }

    /// What agent `agent` needs in its round `round`: the same for every system.
    pub(crate) fn wanted(self, agent: usize, round: u64) -> Wanted {
        let mut dice = Dice::new((agent as u64) << 32 ^ round);
        let paths = match self {
            Workload::Contended | Workload::Released => vec![format!("resource/{}", agent % 8)],
            Workload::Atomic => some_of(&mut dice, 3, 10),
            Workload::Tree => vec![in_a_tree(&mut dice)],
            _ => vec![format!("own/{agent}")],
        };
        let think = match self {
            Workload::Own => Duration::from_micros(dice.below(20_000)),
            Workload::OwnLater | Workload::Tree => millis(50),
            _ => Duration::ZERO,
        };
        Wanted { paths, think, work: self.work() }
    }
}

/// `count` different ones of `all` resources, in order.
fn some_of(dice: &mut Dice, count: usize, all: u64) -> Vec<String> {
    let mut chosen = std::collections::BTreeSet::new();
    while chosen.len() < count {
        chosen.insert(dice.below(all));
    }
    chosen.into_iter().map(|nth| format!("resource/{nth}")).collect()
}

/// A file, mostly, or a directory with all that is in it: 4 modules of 3 directories of 8 files.
fn in_a_tree(dice: &mut Dice) -> String {
    let (module, directory, file) = (dice.below(4), dice.below(3), dice.below(8));
    match dice.below(10) {
        0 => format!("src/module-{module}/part-{directory}"),
        _ => format!("src/module-{module}/part-{directory}/file-{file}"),
    }
}

/// The part of the tree that one lock covers where locks know no tree: the module.
pub(crate) fn covering(path: &str) -> &str {
    match path.match_indices('/').nth(1) {
        Some((at, _)) if path.starts_with("src/") => &path[..at],
        _ => path,
    }
}

/// The nodes above `path`, from the root on.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Whether one of them is the other or above it.
pub(crate) fn related(one: &str, other: &str) -> bool {
    let above =
        |a: &str, b: &str| b.strip_prefix(a).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    above(one, other) || above(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_related_along_the_tree_and_not_by_their_letters() {
        assert!(related("src/a", "src/a") && related("src/a", "src/a/b") && related("src/a/b", "src"));
        assert!(!related("src/a", "src/ab") && !related("src/a/b", "src/a/c"));
    }

    #[test]
    fn the_covering_lock_is_the_module() {
        assert_eq!(covering("src/module-1/part-2/file-3"), "src/module-1");
        assert_eq!(covering("src/module-1/part-2"), "src/module-1");
        assert_eq!(covering("resource/3"), "resource/3");
        assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a", "a/b"]);
    }

    #[test]
    fn the_same_round_needs_the_same_and_three_different_ones() {
        for round in 0..100 {
            let wanted = Workload::Atomic.wanted(5, round);
            assert_eq!(wanted, Workload::Atomic.wanted(5, round));
            assert!(wanted.paths.windows(2).all(|two| two[0] < two[1]) && wanted.paths.len() == 3);
        }
    }
}
