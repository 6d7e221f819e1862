//! Whether the tree of paths holds what is needed and nothing else.

use super::*;
use crate::resolver::invariants::{Breach, holds};
use crate::types::FixedMap;

impl<T: Default> Nodes<T> {
    /// Every node with its path.
    pub(in crate::resolver) fn all(&self) -> impl Iterator<Item = (NodeId, &Path, &T)> {
        self.0.iter().map(|(id, node)| (id, &node.path, &node.value))
    }

    /// `entered`: how often each node was entered and not left again.
    ///
    /// # Errors
    /// The first node that nobody needs or nobody finds.
    pub(in crate::resolver) fn agrees(&self, entered: &FixedMap<NodeId, usize>) -> Result<(), Breach> {
        for (id, node) in self.0.iter() {
            let children = self.0.iter().filter(|(_, other)| other.parent == Some(id)).count();
            let needed = children + entered.get(&id).copied().unwrap_or(0);
            holds(
                needed > 0 && needed == node.needed_by,
                "a node is there as long as it is needed",
                &node.path,
            )?;
            holds(self.find(node.path.as_str()) == Some(id), "a node is found by its path", &node.path)?;
            let parent = node.parent.and_then(|parent| self.path(parent)).cloned();
            holds(parent == node.path.parent(), "a node has its parent", &node.path)?;
        }
        Ok(())
    }
}
