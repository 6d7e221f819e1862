//! The proxy tried by itself, against a peer that sends everything back.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::udp_proxy::{Fate, Faults, HELD, Link, Proxy, Way, fate};

const FEW: u64 = 20_000;

fn share(link: Link, is: impl Fn(&Fate) -> bool) -> f64 {
    (0..FEW).filter(|number| is(&fate(7, Way::Up, 3, *number, &link))).count() as f64 / FEW as f64
}

#[test]
fn as_many_are_lost_doubled_and_held_back_as_was_asked_for() {
    let link = Link { loss: 0.2, doubled: 0.1, reordered: 0.05, ..Link::default() };
    let near = |found: f64, asked: f64| (found - asked).abs() < 0.01;
    assert!(near(share(link, |fate| fate.is_lost), 0.2));
    assert!(near(share(link, |fate| fate.copy_after.is_some()), 0.1));
    assert!(near(share(link, |fate| fate.held_back.is_some()), 0.05));
    assert_eq!(share(Link::default(), |fate| *fate != NOTHING), 0.0);
}

const NOTHING: Fate = Fate { is_lost: false, delay: Duration::ZERO, held_back: None, copy_after: None };

#[test]
fn the_same_seed_means_the_same_fate_and_another_place_another() {
    let link = Link { loss: 0.5, jitter: Duration::from_millis(500), ..Link::default() };
    let of = |seed, way, flow| (0..64).map(|number| fate(seed, way, flow, number, &link)).collect::<Vec<_>>();
    let first = of(1, Way::Up, 0);
    assert_eq!(first, of(1, Way::Up, 0));
    for other in [of(2, Way::Up, 0), of(1, Way::Down, 0), of(1, Way::Up, 1)] {
        assert_ne!(first, other);
    }
    let more = Link { loss: 0.9, ..link };
    let delay = |link: &Link| fate(1, Way::Up, 0, 9, link).delay;
    assert_eq!(delay(&link), delay(&more), "a share that is changed moves no other");
}

#[test]
fn jitter_stays_within_its_bounds() {
    let (delay, jitter) = (Duration::from_millis(30), Duration::from_millis(20));
    let link = Link { delay, jitter, ..Link::default() };
    assert_eq!(share(link, |fate| fate.delay < delay || fate.delay > delay + jitter), 0.0);
    assert!(share(link, |fate| fate.delay < delay + jitter / 2) > 0.4);
}

/// One socket whose datagrams go through a proxy to another.
struct Line {
    near: UdpSocket,
    far: UdpSocket,
    proxy: Proxy,
}

impl Line {
    fn through(faults: Faults) -> Self {
        let socket = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            socket
        };
        let (near, far) = (socket(), socket());
        let proxy = Proxy::start(far.local_addr().unwrap(), 1).unwrap();
        proxy.set(faults);
        near.connect(proxy.addr()).unwrap();
        Line { near, far, proxy }
    }

    fn send(&self, number: u64) {
        self.near.send(&number.to_le_bytes()).unwrap();
    }

    /// What comes out at the far end next, and from where. A packet of QUIC, which is longer, was meant for whoever had
    /// the port before: another test beside this one.
    fn receive(&self) -> (u64, SocketAddr) {
        loop {
            let mut bytes = [0; 16];
            let (length, from) = self.far.recv_from(&mut bytes).unwrap();
            if let (8, Some(number)) = (length, bytes.first_chunk()) {
                return (u64::from_le_bytes(*number), from);
            }
        }
    }

    /// Waits until so many datagrams were seen to; a socket's buffer is not to overflow meanwhile.
    fn until_arrived(&self, count: u64) {
        let late = std::time::Instant::now() + Duration::from_secs(20);
        while self.proxy.counters().arrived < count {
            assert!(std::time::Instant::now() < late, "{:?}", self.proxy.counters());
            std::thread::yield_now();
        }
    }
}

#[test]
fn without_faults_everything_passes_in_order_both_ways() {
    let line = Line::through(Faults::default());
    for number in 0..500 {
        line.send(number);
        let (came, from) = line.receive();
        assert_eq!(came, number);
        line.far.send_to(&number.to_le_bytes(), from).unwrap();
        let mut back = [0; 8];
        line.near.recv(&mut back).unwrap();
        assert_eq!(u64::from_le_bytes(back), number);
    }
    let counters = line.proxy.counters();
    assert_eq!((counters.arrived, counters.passed, counters.flows), (1000, 1000, 1));
    assert_eq!(counters.most_held, 0, "nothing waits where nothing is delayed");
}

#[test]
fn delay_and_jitter_keep_the_order() {
    let link = Link { delay: Duration::from_millis(5), jitter: Duration::from_millis(20), ..Link::default() };
    let line = Line::through(Faults { up: link, down: Link::default() });
    (0..100).for_each(|number| line.send(number));
    assert_eq!((0..100).map(|_| line.receive().0).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

#[test]
fn those_held_back_are_overtaken_and_copies_come_twice() {
    let link = Link { reordered: 0.3, doubled: 0.3, ..Link::default() };
    let line = Line::through(Faults { up: link, down: Link::default() });
    (0..100).for_each(|number| line.send(number));
    let doubled = (0..100).filter(|number| fate(1, Way::Up, 0, *number, &link).copy_after.is_some()).count();
    let came: Vec<u64> = (0..100 + doubled).map(|_| line.receive().0).collect();
    assert!(!came.is_sorted());
    let mut times = BTreeMap::new();
    came.iter().for_each(|number| *times.entry(*number).or_insert(0) += 1);
    assert_eq!((times.len(), came.len()), (100, 100 + doubled));
    assert_eq!(line.proxy.counters().doubled, doubled as u64);
}

#[test]
fn what_is_lost_is_what_the_seed_says() {
    let link = Link { loss: 0.2, ..Link::default() };
    let line = Line::through(Faults { up: link, down: Link::default() });
    let kept: Vec<u64> = (0..200).filter(|number| !fate(1, Way::Up, 0, *number, &link).is_lost).collect();
    (0..200).for_each(|number| line.send(number));
    assert_eq!(kept.iter().map(|_| line.receive().0).collect::<Vec<_>>(), kept);
    assert_eq!(line.proxy.counters().lost, 200 - kept.len() as u64);
}

#[test]
fn a_cut_lets_nothing_pass_not_even_what_is_on_its_way() {
    let slow = Link { delay: Duration::from_millis(50), ..Link::default() };
    let line = Line::through(Faults { up: slow, down: Link::default() });
    line.send(1);
    line.until_arrived(1);
    line.proxy.cut();
    line.send(2);
    line.until_arrived(2);
    let late = std::time::Instant::now() + Duration::from_secs(20);
    while line.proxy.counters().cut < 2 {
        assert!(std::time::Instant::now() < late, "{:?}", line.proxy.counters());
        std::thread::yield_now();
    }
    line.proxy.mend();
    line.send(3);
    assert_eq!(line.receive().0, 3);
}

#[test]
fn after_a_change_of_path_the_far_end_sees_another_address_and_answers_there() {
    let line = Line::through(Faults::default());
    line.send(1);
    let (_, before) = line.receive();
    line.proxy.change_paths().unwrap();
    line.send(2);
    let (_, after) = line.receive();
    assert_ne!(before, after);
    line.far.send_to(&[1; 8], before).unwrap();
    line.far.send_to(&[2; 8], after).unwrap();
    let mut back = [0; 8];
    line.near.recv(&mut back).unwrap();
    assert_eq!(back, [2; 8], "the old address is forgotten");
}

#[test]
fn more_than_fit_on_the_way_are_dropped_and_counted() {
    let link = Link { delay: Duration::from_secs(3600), ..Link::default() };
    let line = Line::through(Faults { up: link, down: Link::default() });
    let beyond = 100;
    for number in 0..HELD as u64 + beyond {
        line.send(number);
        // One after the other, so that it is the proxy that drops and no socket's buffer.
        if number % 64 == 0 {
            line.until_arrived(number + 1);
        }
    }
    line.until_arrived(HELD as u64 + beyond);
    let counters = line.proxy.counters();
    assert_eq!((counters.most_held, counters.overflowed), (HELD, beyond));
}
