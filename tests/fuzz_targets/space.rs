//! The indexes over time and space, each beside a plain list.

use preclaim::space::profile::Profile;
use preclaim::space::regions::RegionSet;
use preclaim::space::windows::{Member, WindowSet};
use preclaim::types::{Micros, Shape, Time, Window};

use super::script::Script;

/// Instants of the world, so few that everything collides.
const SPAN: u64 = 128;

/// Windows, units and regions come and go; after each step the indexes say what the lists say.
pub(crate) fn space(data: &[u8]) {
    let mut script = Script::new(data);
    match script.below(3) {
        0 => windows(&mut script),
        1 => units(&mut script),
        _ => regions(&mut script),
    }
}

fn window(script: &mut Script<'_>) -> Window {
    let start = u64::from(script.byte()) % SPAN;
    let end = start + 1 + u64::from(script.below(40));
    Window::new(Time::from_us(start), Time::from_us(end)).unwrap()
}

fn windows(script: &mut Script<'_>) {
    let (mut set, mut list) = (WindowSet::new(), Vec::<Member<u32>>::new());
    let mut value = 0;
    while !script.is_over() {
        value += 1;
        match script.below(4) {
            0 | 1 => {
                let (window, key) = (window(script), script.below(4).into());
                let tau = Micros::from_us(script.below(3).into());
                let place = list.iter().position(|m| (m.window.start(), m.key) == (window.start(), key));
                let old = place.map(|at| list.remove(at));
                assert_eq!(set.insert(window, key, tau, value), old);
                list.push(Member { window, key, tau, value });
            }
            2 if !list.is_empty() => {
                let gone = list.remove(usize::from(script.byte()) % list.len());
                assert_eq!(set.remove(gone.window, gone.key), Some(gone));
                assert_eq!(set.remove(gone.window, gone.key), None);
            }
            _ => ask_windows(script, &set, &list),
        }
        assert_eq!((set.len(), set.is_empty()), (list.len(), list.is_empty()));
        assert_eq!(set.latest_end(), list.iter().map(|m| m.window.end()).max());
    }
}

fn ask_windows(script: &mut Script<'_>, set: &WindowSet<u32>, list: &[Member<u32>]) {
    let range = window(script);
    let mut found = Vec::new();
    set.for_each_overlapping(range, |member| found.push(*member));
    let mut expected: Vec<Member<u32>> =
        list.iter().filter(|member| member.window.overlap(range).is_some()).copied().collect();
    expected.sort_by_key(|member| (member.window.start(), member.key));
    assert_eq!(found, expected);
    let (duration, tau) = (Micros::from_us(script.below(30).into()), Micros::from_us(script.below(3).into()));
    let limit = range.start().after(Micros::from_us(script.byte().into()));
    let is_free = |start: &Time| {
        let wanted = Window::new(*start, start.after(duration));
        wanted.is_none_or(|wanted| !list.iter().any(|member| member.conflicts(wanted, tau)))
    };
    let first = (range.start().as_us()..=limit.as_us()).map(Time::from_us).find(is_free);
    assert_eq!(set.earliest_gap(range.start(), duration, tau, limit), first);
}

fn units(script: &mut Script<'_>) {
    let (mut profile, mut list) = (Profile::new(), Vec::<(Window, u64)>::new());
    while !script.is_over() {
        match script.below(4) {
            0 | 1 => {
                let (window, units) = (window(script), script.number());
                profile.add(window, units);
                list.push((window, units));
            }
            2 if !list.is_empty() => {
                let (window, units) = list.remove(usize::from(script.byte()) % list.len());
                profile.sub(window, units);
            }
            _ => ask_units(script, &profile, &list),
        }
        let is_nothing = list.iter().all(|(_, units)| *units == 0);
        assert!(!is_nothing || profile.is_empty());
    }
}

/// The highest sum of units at any instant of `range`.
fn peak(list: &[(Window, u64)], range: Window) -> u128 {
    let at = |instant: u64| {
        let instant = Time::from_us(instant);
        let runs = |window: &Window| window.start() <= instant && instant < window.end();
        list.iter().filter(|(window, _)| runs(window)).map(|(_, units)| u128::from(*units)).sum()
    };
    (range.start().as_us()..range.end().as_us()).map(at).max().unwrap_or(0)
}

fn ask_units(script: &mut Script<'_>, profile: &Profile, list: &[(Window, u64)]) {
    let range = window(script);
    assert_eq!(profile.max_over(range), u64::try_from(peak(list, range)).unwrap_or(u64::MAX));
    let (needed, capacity) = (script.number(), script.number());
    let duration = Micros::from_us(1 + u64::from(script.below(20)));
    let limit = range.start().after(Micros::from_us(script.below(100).into()));
    let fits = |start: &Time| {
        let wanted = Window::new(*start, start.after(duration)).unwrap();
        peak(list, wanted) + u128::from(needed) <= u128::from(capacity)
    };
    let first = (range.start().as_us()..=limit.as_us()).map(Time::from_us).find(fits);
    assert_eq!(profile.earliest_fit(range.start(), duration, needed, capacity, limit), first);
}

fn regions(script: &mut Script<'_>) {
    let (mut set, mut list) = (RegionSet::new(), Vec::<(Shape, Window, u64)>::new());
    let mut key = 0;
    while !script.is_over() {
        match script.below(4) {
            0 | 1 => {
                let (shape, window) = (square(script), window(script));
                key += 1;
                set.insert(&shape, window, key, key);
                list.push((shape, window, key));
            }
            2 if !list.is_empty() => {
                let (shape, window, key) = list.remove(usize::from(script.byte()) % list.len());
                assert_eq!(set.remove(&shape, window, key), Some(key));
                assert_eq!(set.remove(&shape, window, key), None);
            }
            _ => ask_regions(script, &set, &list),
        }
        assert_eq!((set.len(), set.is_empty()), (list.len(), list.is_empty()));
    }
}

fn ask_regions(script: &mut Script<'_>, set: &RegionSet<u64>, list: &[(Shape, Window, u64)]) {
    let (asked, range) = (square(script), window(script));
    let mut found = Vec::new();
    set.for_each_candidate(&asked, range, |region| found.push((region.window.start(), region.value)));
    let meets = |shape: &Shape| {
        let (a, b) = ((shape.min(), shape.max()), (asked.min(), asked.max()));
        a.0.x_um < b.1.x_um && b.0.x_um < a.1.x_um && a.0.y_um < b.1.y_um && b.0.y_um < a.1.y_um
    };
    let shares = |(shape, window, _): &&(Shape, Window, u64)| meets(shape) && window.overlap(range).is_some();
    let mut expected: Vec<(Time, u64)> =
        list.iter().filter(shares).map(|(_, window, key)| (window.start(), *key)).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// A square of whole metres, somewhere.
fn square(script: &mut Script<'_>) -> Shape {
    let (x, y) = (f64::from(script.below(32)), f64::from(script.below(32)));
    let (wide, deep) = (f64::from(script.below(12)) + 1.0, f64::from(script.below(12)) + 1.0);
    Shape::from_box(&[x, y], &[x + wide, y + deep]).unwrap()
}
