//! That the tree keeps few nodes; what its sums say is tested where they are used.

use super::*;

/// Numbers, and how many.
struct Counted;

impl Measure for Counted {
    type Item = u64;
    type Key = u64;
    type Sum = usize;

    fn key(item: &u64) -> u64 {
        *item
    }

    fn of_items(items: &[u64]) -> usize {
        items.len()
    }

    fn of_entries(entries: &[Entry<Self>]) -> usize {
        entries.iter().map(|entry| entry.sum).sum()
    }
}

fn tree(set: &Sorted<Counted>) -> &Tree<Counted> {
    match set.top() {
        Top::Tree(tree) => tree,
        Top::Items(items) => panic!("only {} items", items.len()),
    }
}

#[test]
fn nodes_that_empty_are_used_again() {
    let mut set = Sorted::<Counted>::new();
    (0..1_000).for_each(|item| assert_eq!(set.insert(item), None));
    let after_growing = (tree(&set).leaves.nodes.len(), tree(&set).inners.nodes.len());
    for item in 1_000..30_000 {
        set.insert(item);
        assert_eq!(set.remove(item - 1_000), Some(item - 1_000));
    }
    let after_moving_on = (tree(&set).leaves.nodes.len(), tree(&set).inners.nodes.len());
    assert!(
        after_moving_on.0 <= after_growing.0 + 8,
        "{after_growing:?} leaves and inner nodes: {after_moving_on:?}"
    );
    assert!(
        after_moving_on.1 <= after_growing.1 + 4,
        "{after_growing:?} leaves and inner nodes: {after_moving_on:?}"
    );
    assert_eq!((set.len(), set.sum()), (1_000, Some(1_000)));
}

#[test]
fn nodes_that_thin_out_are_merged() {
    let mut set = Sorted::<Counted>::new();
    // In an order that splits nodes in half.
    (0..10_000).for_each(|item| assert_eq!(set.insert(item * 7_919 % 10_000), None));
    (0..10_000).filter(|item| item % 50 > 0).for_each(|item| assert_eq!(set.remove(item), Some(item)));
    let tree = tree(&set);
    let leaves = tree.leaves.nodes.len() - tree.leaves.free.len();
    assert!(leaves <= 200 / SPARSE, "{leaves} leaves for 200 items");
    let mut left = Vec::new();
    tree.collect_below(tree.root, &mut left);
    assert_eq!(left, (0..200).map(|item| item * 50).collect::<Vec<_>>());
}

#[test]
fn a_copy_goes_its_own_way() {
    let mut set = Sorted::<Counted>::new();
    (0..100).for_each(|item| assert_eq!(set.insert(item), None));
    let copy = set.clone();
    (0..100).for_each(|item| assert_eq!(set.remove(item), Some(item)));
    assert_eq!((set.len(), copy.len()), (0, 100));
    assert!((0..100).all(|item| copy.get(item) == Some(&item)));
}
