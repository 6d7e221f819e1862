//! Rings of waiting: which of numbered things lead to each other.

/// For each of the things from 0 to below `things`, the number of its strongly connected component:
/// those that `edges` lead from each to each have the same. Edges to other things are left aside.
pub(super) fn components(things: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut forth = vec![Vec::new(); things];
    let mut back = vec![Vec::new(); things];
    for (from, to) in edges.iter().filter(|(from, to)| *from < things && *to < things) {
        forth[*from].push(*to);
        back[*to].push(*from);
    }
    // Kosaraju's way: those that are left last on the way forth are the roots of the way back.
    let mut left = Vec::with_capacity(things);
    let mut seen = vec![false; things];
    (0..things).for_each(|root| walk(root, &forth, &mut seen, &mut left));
    let mut component = vec![0; things];
    let mut seen = vec![false; things];
    for root in left.into_iter().rev() {
        let mut together = Vec::new();
        walk(root, &back, &mut seen, &mut together);
        together.into_iter().for_each(|thing| component[thing] = root);
    }
    component
}

/// Goes depth first from `root` to all that has not been seen, and notes in `left` in which order they
/// are left. It keeps its own stack: a ring may be as long as there are tasks.
fn walk(root: usize, next: &[Vec<usize>], seen: &mut [bool], left: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[root], true) {
        return;
    }
    let mut open = vec![(root, next[root].iter())];
    while let Some((thing, ahead)) = open.last_mut() {
        let thing = *thing;
        match ahead.find(|it| !std::mem::replace(&mut seen[**it], true)) {
            Some(further) => open.push((*further, next[*further].iter())),
            None => {
                left.push(thing);
                open.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_lead_to_each_other_are_together_and_others_are_not() {
        let of = components(6, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (5, 0)]);
        assert!(of[0] == of[1] && of[1] == of[2] && of[3] == of[4]);
        assert!(of[0] != of[3] && of[5] != of[0] && of[5] != of[3]);
    }

    #[test]
    fn a_component_is_what_is_reached_both_ways() {
        for graph in 0..1 << 12 {
            let pairs = (0..4).flat_map(|a| (0..4).filter(move |b| *b != a).map(move |b| (a, b)));
            let edges: Vec<_> =
                pairs.enumerate().filter(|(at, _)| graph >> at & 1 == 1).map(|(_, it)| it).collect();
            let mut reaches = [[false; 4]; 4];
            (0..4).for_each(|a| reaches[a][a] = true);
            edges.iter().for_each(|(a, b)| reaches[*a][*b] = true);
            for (by, a, b) in (0..64).map(|at| (at / 16, at / 4 % 4, at % 4)) {
                reaches[a][b] |= reaches[a][by] && reaches[by][b];
            }
            let of = components(4, &edges);
            for (a, b) in (0..16).map(|at| (at / 4, at % 4)) {
                assert_eq!(of[a] == of[b], reaches[a][b] && reaches[b][a], "{edges:?}: {a} and {b}");
            }
        }
    }

    #[test]
    fn a_ring_of_all_is_walked_without_the_call_stack() {
        let ring: Vec<_> = (0..100_000).map(|at| (at, (at + 1) % 100_000)).collect();
        let of = components(100_000, &ring);
        assert!(of.iter().all(|it| *it == of[0]));
    }
}
