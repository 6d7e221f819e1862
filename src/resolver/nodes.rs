//! The tree of paths as numbered nodes: a path is looked up once, and its ancestors are reached by
//! number from there on.

mod consistency;

use super::keyed::{Keyed, KeyedSlab};
use super::slab::Number;
use crate::types::{Path, fixed_hash};

/// A node's number. It is used again once its node is gone.
pub(super) type NodeId = Number;

#[derive(Debug)]
struct Node<T> {
    path: Path,
    parent: Option<NodeId>,
    /// Who needs the node: its children and those who entered it.
    needed_by: usize,
    value: T,
}

impl<T> Keyed for Node<T> {
    type Key = str;

    fn key(&self) -> &str {
        self.path.as_str()
    }
}

/// Nodes of the tree of paths, each with a value; a node is there as long as somebody needs it.
#[derive(Debug)]
pub(super) struct Nodes<T>(KeyedSlab<Node<T>>);

impl<T> Default for Nodes<T> {
    fn default() -> Self {
        Nodes(KeyedSlab::default())
    }
}

impl<T: Default> Nodes<T> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number of a node that is there.
    pub(super) fn find(&self, path: &str) -> Option<NodeId> {
        self.0.find(fixed_hash(path), path)
    }

    /// The numbers of those of the path's ancestors and itself that are there, from the bottom up.
    pub(super) fn find_lineage(&self, path: &Path) -> impl Iterator<Item = NodeId> + Clone {
        let lowest = path.lineage().rev().find_map(|text| self.find(text));
        // An ancestor is there wherever a node below it is.
        std::iter::successors(lowest, |id| self.parent(*id))
    }

    pub(super) fn value(&self, id: NodeId) -> Option<&T> {
        self.node(id).map(|node| &node.value)
    }

    pub(super) fn value_mut(&mut self, id: NodeId) -> Option<&mut T> {
        self.node_mut(id).map(|node| &mut node.value)
    }

    pub(super) fn path_and_value_mut(&mut self, id: NodeId) -> Option<(&Path, &mut T)> {
        self.node_mut(id).map(|node| (&node.path, &mut node.value))
    }

    pub(super) fn path(&self, id: NodeId) -> Option<&Path> {
        self.node(id).map(|node| &node.path)
    }

    pub(super) fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.node(id)?.parent
    }

    /// Whether nobody needs the node but one who entered it.
    pub(super) fn is_needed_once(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| node.needed_by == 1)
    }

    /// Needs the node of `path` from here on, and makes it where it is not there, with its ancestors.
    pub(super) fn enter(&mut self, path: &Path) -> NodeId {
        let id = self.find(path.as_str()).unwrap_or_else(|| self.make(path));
        self.need(id);
        id
    }

    /// Needs the node no longer; what nobody needs goes, ancestors included.
    pub(super) fn leave(&mut self, id: NodeId) {
        let mut next = Some(id);
        while let Some(id) = next {
            let Some(node) = self.node_mut(id) else { return };
            node.needed_by -= 1;
            if node.needed_by > 0 {
                return;
            }
            next = node.parent;
            self.0.remove(id);
        }
    }

    fn make(&mut self, path: &Path) -> NodeId {
        let parent = path.parent().map(|parent| self.enter(&parent));
        let node = || Node { path: path.clone(), parent, needed_by: 0, value: T::default() };
        self.0.enter(fixed_hash(path.as_str()), path.as_str(), node).0
    }

    /// Needs a node that is there.
    pub(super) fn need(&mut self, id: NodeId) {
        if let Some(node) = self.node_mut(id) {
            node.needed_by += 1;
        }
    }

    fn node(&self, id: NodeId) -> Option<&Node<T>> {
        self.0.get(id)
    }

    fn node_mut(&mut self, id: NodeId) -> Option<&mut Node<T>> {
        self.0.get_mut(id)
    }
}
