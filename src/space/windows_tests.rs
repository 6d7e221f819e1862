//! The set against a slow twin, a plain list, on spans so short that everything collides.

use proptest::prelude::*;

use super::*;

fn window(start: u64, end: u64) -> Window {
    Window::new(Time::from_us(start), Time::from_us(end)).unwrap()
}

fn t(us: u64) -> Time {
    Time::from_us(us)
}

fn us(us: u64) -> Micros {
    Micros::from_us(us)
}

#[derive(Default)]
struct Twin(Vec<Member<u32>>);

impl Twin {
    fn insert(&mut self, member: Member<u32>) -> Option<Member<u32>> {
        let same = |m: &Member<u32>| (m.window.start(), m.key) == (member.window.start(), member.key);
        let old = self.0.iter().position(same).map(|at| self.0.remove(at));
        self.0.push(member);
        self.0.sort_by_key(|m| (m.window.start(), m.key));
        old
    }

    fn remove(&mut self, window: Window, key: u64) -> Option<Member<u32>> {
        let at = self.0.iter().position(|m| m.window == window && m.key == key)?;
        Some(self.0.remove(at))
    }

    fn overlapping(&self, range: Window) -> Vec<Member<u32>> {
        self.0.iter().filter(|m| m.window.overlap(range).is_some()).copied().collect()
    }

    /// Tries one start after the other.
    fn earliest_gap(&self, from: Time, duration: Micros, tau: Micros, limit: Time) -> Option<Time> {
        (from.as_us()..=limit.as_us()).map(t).find(|start| {
            Window::new(*start, start.after(duration))
                .is_none_or(|wanted| !self.0.iter().any(|m| m.conflicts(wanted, tau)))
        })
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Member<u32>),
    /// Takes out the member at this place, counted around.
    Remove(usize),
    /// Takes out every second member, so that nodes merge.
    Thin,
}

fn ops(span: u64, longest: u64, taus: &'static [u64], most: usize) -> impl Strategy<Value = Vec<Op>> {
    let member = (0..span, 1..=longest, 0u64..4, proptest::sample::select(taus), any::<u32>()).prop_map(
        |(start, length, key, tau, value)| {
            let window = window(start, start + length);
            Op::Insert(Member { window, key, tau: us(tau), value })
        },
    );
    let op = prop_oneof![120 => member, 25 => any::<usize>().prop_map(Op::Remove), 1 => Just(Op::Thin)];
    proptest::collection::vec(op, 0..most)
}

fn apply(set: &mut WindowSet<u32>, twin: &mut Twin, op: &Op) {
    let remove = |set: &mut WindowSet<u32>, twin: &mut Twin, at: usize| {
        let Member { window, key, .. } = twin.0[at];
        assert_eq!(set.remove(window, key), twin.remove(window, key));
        assert_eq!(set.remove(window, key), None);
    };
    match op {
        Op::Insert(member) => {
            let replaced = set.insert(member.window, member.key, member.tau, member.value);
            assert_eq!(replaced, twin.insert(*member));
        }
        Op::Remove(_) if twin.0.is_empty() => {}
        Op::Remove(at) => remove(set, twin, at % twin.0.len()),
        Op::Thin => (0..twin.0.len() / 2).for_each(|at| remove(set, twin, at)),
    }
}

fn compare(set: &WindowSet<u32>, twin: &Twin, span: u64, taus: &[u64]) {
    assert_eq!(set.len(), twin.0.len());
    assert_eq!(set.is_empty(), twin.0.is_empty());
    assert_eq!(set.latest_end(), twin.0.iter().map(|m| m.window.end()).max());
    let mut finger = Finger::new(set);
    for start in (0..span).step_by(3) {
        for length in [1, 4, span] {
            let mut found = Vec::new();
            set.for_each_overlapping(window(start, start + length), |m| found.push(*m));
            assert_eq!(found, twin.overlapping(window(start, start + length)));
        }
        for (duration, tau) in
            [1, 2, 3, 5, 8, 13, 40].into_iter().flat_map(|d| taus.iter().map(move |t| (d, *t)))
        {
            for limit in [start, start + 7, 4 * span] {
                let (duration, tau) = (us(duration), us(tau));
                let found = set.earliest_gap(t(start), duration, tau, t(limit));
                assert_eq!(found, finger.earliest_gap(t(start), duration, tau, t(limit)), "by the finger");
                let twin = twin.earliest_gap(t(start), duration, tau, t(limit));
                assert_eq!(found, twin, "from {start} for {duration:?} tolerating {tau:?} up to {limit}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn short_windows_without_tolerance_agree_with_the_twin(ops in ops(300, 3, &[0], 400)) {
        let (mut set, mut twin) = Default::default();
        ops.iter().for_each(|op| apply(&mut set, &mut twin, op));
        compare(&set, &twin, 300, &[0, 2]);
    }

    #[test]
    fn windows_of_all_lengths_and_tolerances_agree_with_the_twin(ops in ops(120, 30, &[0, 0, 0, 1, 2, 5, 9], 300)) {
        let (mut set, mut twin) = Default::default();
        ops.iter().for_each(|op| apply(&mut set, &mut twin, op));
        compare(&set, &twin, 120, &[0, 1, 3, 9]);
    }

    #[test]
    fn windows_of_one_tolerance_agree_with_the_twin(ops in ops(400, 9, &[2], 500)) {
        let (mut set, mut twin) = Default::default();
        ops.iter().for_each(|op| apply(&mut set, &mut twin, op));
        compare(&set, &twin, 400, &[0, 1, 2, 3]);
    }

    #[test]
    fn few_windows_agree_with_the_twin_after_every_step(ops in ops(24, 10, &[0, 1, 4], 40)) {
        let (mut set, mut twin) = Default::default();
        for op in &ops {
            apply(&mut set, &mut twin, op);
            compare(&set, &twin, 24, &[0, 2, 4]);
        }
    }

    #[test]
    fn what_is_known_of_each_part_is_what_its_members_say(ops in ops(9_000, 200, &[0, 3, 150], 4_000)) {
        let (mut set, mut twin) = Default::default();
        for op in &ops {
            apply(&mut set, &mut twin, op);
        }
        while let Top::Tree(tree) = set.members.top() {
            check_sums(tree, tree.root());
            apply(&mut set, &mut twin, &Op::Thin);
        }
    }
}

/// Members below a node, after comparing each entry on the way with what it should say.
fn check_sums(tree: &Tree<ByStart<u32>>, node: NodeId) -> Vec<Member<u32>> {
    let entries = match tree.below(node) {
        Below::Items(members) => return members.to_vec(),
        Below::Entries(entries) => entries,
    };
    let mut all: Vec<Member<u32>> = Vec::new();
    for entry in entries {
        let below = check_sums(tree, tree.child(node, entry));
        assert_eq!(entry.first, ByStart::key(&below[0]));
        let plain = ByStart::of_items(&below);
        let covered = ByStart::of_items(&all).covered;
        assert_eq!(
            (entry.sum.end, entry.sum.opens, entry.sum.covered),
            (plain.end, plain.opens, plain.covered)
        );
        assert_eq!((entry.sum.tau_min, entry.sum.tau_max), (plain.tau_min, plain.tau_max));
        for (known, exact) in
            [(entry.sum.gap, plain.gap), (entry.sum.gap_in_node, gap_among(&below, covered))]
        {
            // Where members overlap, a bound below zero is as good as the number.
            assert!(known == exact || (exact <= known && known < 0), "{known} for {exact}");
        }
        all.extend(below);
    }
    all
}

fn crowded(count: u64) -> WindowSet<u32> {
    let mut set = WindowSet::new();
    for k in 0..count {
        set.insert(window(10 * k, 10 * k + 10), k, us(0), 0);
    }
    set
}

#[test]
fn a_gap_behind_many_windows_is_found_and_one_that_is_too_short_is_passed_over() {
    let mut set = crowded(50_000);
    assert_eq!(set.earliest_gap(t(3), us(5), us(0), Time::MAX), Some(t(500_000)));
    assert_eq!(set.earliest_gap(t(3), us(5), us(0), t(499_999)), None);
    assert_eq!(set.earliest_gap(t(3), us(5), us(0), t(500_000)), Some(t(500_000)));
    set.remove(window(400_000, 400_010), 40_000);
    assert_eq!(set.earliest_gap(t(3), us(10), us(0), Time::MAX), Some(t(400_000)));
    assert_eq!(set.earliest_gap(t(3), us(11), us(0), Time::MAX), Some(t(500_000)));
    assert_eq!(set.earliest_gap(t(400_005), us(5), us(0), Time::MAX), Some(t(400_005)));
}

#[test]
fn a_tolerance_counts_on_both_sides_of_a_gap() {
    let mut set = WindowSet::new();
    set.insert(window(0, 100), 1, us(5), ());
    set.insert(window(110, 200), 2, us(5), ());
    assert_eq!(set.earliest_gap(t(0), us(20), us(5), Time::MAX), Some(t(95)));
    assert_eq!(set.earliest_gap(t(0), us(20), us(9), Time::MAX), Some(t(95)), "the smaller of the two");
    assert_eq!(set.earliest_gap(t(0), us(21), us(5), Time::MAX), Some(t(195)));
    assert_eq!(set.earliest_gap(t(0), us(20), us(0), Time::MAX), Some(t(200)));
    assert_eq!(set.earliest_gap(t(0), us(5), us(5), Time::MAX), Some(t(0)), "never more than it tolerates");
}

#[test]
fn one_start_and_key_stand_for_one_member() {
    let mut set = WindowSet::new();
    assert_eq!(set.insert(window(0, 10), 1, us(0), 'a'), None);
    assert_eq!(set.insert(window(0, 10), 2, us(0), 'b'), None, "another key is another member");
    assert_eq!(set.insert(window(0, 20), 1, us(0), 'c').map(|old| old.value), Some('a'));
    assert_eq!(set.len(), 2);
    assert_eq!(set.remove(window(0, 10), 1), None, "the window must be the same too");
    assert_eq!(set.remove(window(0, 20), 1).map(|old| old.value), Some('c'));
}

#[test]
fn the_ends_of_time_neither_panic_nor_wrap() {
    let mut set = WindowSet::new();
    for key in 0..100 {
        set.insert(window(u64::MAX - 1, u64::MAX), key, us(0), ());
        set.insert(window(0, u64::MAX), key, us(u64::MAX), ());
        set.insert(window(key, u64::MAX), key, us(0), ());
    }
    let last = window(u64::MAX - 1, u64::MAX);
    let mut found = 0;
    set.for_each_overlapping(last, |_| found += 1);
    assert_eq!(found, set.len());
    for (duration, tau) in [(1, 0), (u64::MAX, 0), (u64::MAX, u64::MAX), (1, u64::MAX)] {
        let found = set.earliest_gap(t(0), us(duration), us(tau), Time::MAX);
        assert_eq!(found, Some(Time::MAX), "a window there is empty");
        assert_eq!(set.earliest_gap(t(0), us(duration), us(tau), t(u64::MAX - 1)), None);
    }
    let empty = WindowSet::<()>::new();
    assert_eq!(empty.earliest_gap(Time::MAX, us(u64::MAX), us(0), Time::MAX), Some(Time::MAX));
    assert_eq!(empty.earliest_gap(t(1), us(1), us(0), t(0)), None, "from after the limit");
    assert_eq!(empty.latest_end(), None);
}

#[test]
fn an_empty_set_takes_the_room_of_a_pointer() {
    assert_eq!(size_of::<WindowSet<u64>>(), size_of::<usize>());
    let mut set = crowded(1_000);
    for k in 0..1_000 {
        assert!(set.remove(window(10 * k, 10 * k + 10), k).is_some());
    }
    assert!(set.is_empty());
    assert!(matches!(set.members.top(), Top::Items([])));
}

#[test]
fn iteration_stops_where_it_is_told_to() {
    let set = crowded(500);
    let mut seen = 0;
    let stopped = set.try_for_each_overlapping(window(100, 4_000), |member| {
        seen += 1;
        if member.key == 12 { ControlFlow::Break(member.window) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((stopped, seen), (ControlFlow::Break(window(120, 130)), 3));
}
