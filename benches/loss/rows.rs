//! What is held against what.

use std::time::Duration;

use preclaim::client::{Congestion, Tuning};

use super::load::{Ends, Load, Way};

/// The delay of either way.
pub(crate) const DELAY: Duration = Duration::from_millis(20);
/// That of a near way.
pub(crate) const NEAR: Duration = Duration::from_millis(1);

/// As in service.
pub(crate) const CHOSEN: Ends = Ends { coordinator: Tuning::CHOSEN, agent: Tuning::CHOSEN, lanes: None };
/// As quinn is by itself, and one lane for all.
pub(crate) const PLAIN: Ends = Ends { coordinator: Tuning::QUINN, agent: Tuning::QUINN, lanes: Some(1) };

/// Each agent seldom declares: a loss shows by a timer alone.
pub(crate) const SPARSE: Load = Load {
    agents: 100,
    rate: 10,
    burst: 1,
    warmup: Duration::from_millis(1500),
    measured: Duration::from_secs(6),
};
/// Few agents declare often: what is behind a loss waits with it.
pub(crate) const DENSE: Load = Load { agents: 10, rate: 100, ..SPARSE };
/// So many on one connection that what is under way is more than what congestion control shrinks to.
pub(crate) const HEAVY: Load = Load { agents: 4, rate: 250, ..SPARSE };
/// Many at once on each connection: they leave in several datagrams.
pub(crate) const BURSTS: Load = Load { agents: 10, rate: 10, burst: 64, ..SPARSE };

/// As much as two cores bear with room to spare.
pub(crate) const BUSY: Load = Load { agents: 100, rate: 60, ..SPARSE };

/// One line of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) load: Load,
    pub(crate) way: Way,
    pub(crate) ends: Ends,
}

/// Rows that are run in turn, and shown together.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) rows: Vec<Row>,
}

pub(crate) fn lossy(loss: f64) -> Way {
    Way::Proxy { delay: DELAY, loss }
}

pub(crate) fn tables() -> Vec<Table> {
    vec![
        Table { name: "way", title: "The way, and what the proxy costs", rows: ways() },
        Table {
            name: "plain",
            title: "As chosen, and as quinn is by itself with one lane for all",
            rows: plain(),
        },
        Table { name: "lanes", title: "One lane for all, and more", rows: lanes() },
        Table { name: "acks", title: "How soon the other end acknowledges", rows: acks() },
        Table { name: "control", title: "The rest, each changed alone", rows: control() },
        Table { name: "bursts", title: "64 at a time, 1 % lost", rows: bursts() },
        Table { name: "clear", title: "Where nothing is delayed or lost", rows: clear() },
    ]
}

fn ways() -> Vec<Row> {
    let of = |name, way| Row { name, load: SPARSE, way, ends: CHOSEN };
    vec![
        of("no proxy", Way::Straight),
        of("proxy, no delay, no loss", Way::Proxy { delay: Duration::ZERO, loss: 0.0 }),
        of("20 ms either way, no loss", lossy(0.0)),
        of("20 ms, 1 % lost", lossy(0.01)),
        of("20 ms, 5 % lost", lossy(0.05)),
        of("20 ms, 0.25 % lost", lossy(0.0025)),
    ]
}

fn plain() -> Vec<Row> {
    let mut rows = Vec::new();
    for (load, shape) in [(SPARSE, "100 × 10/s"), (DENSE, "10 × 100/s")] {
        for (way, loss) in [(lossy(0.01), "1 %"), (lossy(0.05), "5 %")] {
            for (ends, what) in [(PLAIN, "quinn"), (CHOSEN, "chosen")] {
                let name = leaked(format!("{shape}, {loss}, {what}"));
                rows.push(Row { name, load, way, ends });
            }
        }
    }
    rows
}

fn lanes() -> Vec<Row> {
    let mut rows = Vec::new();
    for (load, shape) in [(SPARSE, "100 × 10/s"), (DENSE, "10 × 100/s")] {
        for (way, loss) in [(lossy(0.01), "1 %"), (lossy(0.05), "5 %")] {
            for lanes in [1, 4, 16, 64] {
                let name = leaked(format!("{shape}, {loss}, {lanes} lanes"));
                rows.push(Row { name, load, way, ends: Ends { lanes: Some(lanes), ..CHOSEN } });
            }
        }
    }
    rows
}

fn acks() -> Vec<Row> {
    let mut rows = Vec::new();
    let asked = [
        ("25 ms (QUIC's own)", None, None),
        ("10 ms", Some(10), Some(10)),
        ("5 ms", Some(5), Some(5)),
        ("coordinator 10 ms, agents 5 ms", Some(10), Some(5)),
        ("2 ms", Some(2), Some(2)),
    ];
    let near = Way::Proxy { delay: NEAR, loss: 0.01 };
    let shapes = [
        (SPARSE, near, "100 × 10/s, 1 ms"),
        (SPARSE, lossy(0.01), "100 × 10/s, 20 ms"),
        (DENSE, lossy(0.01), "10 × 100/s, 20 ms"),
    ];
    for (load, way, shape) in shapes {
        for (name, of_coordinator, of_agents) in asked {
            let name = leaked(format!("{shape}: {name}"));
            let mut ends = CHOSEN;
            // Each end asks the other one.
            ends.agent.ack_delay = of_coordinator.map(Duration::from_millis);
            ends.coordinator.ack_delay = of_agents.map(Duration::from_millis);
            rows.push(Row { name, load, way, ends });
        }
    }
    rows
}

/// One thing is changed at both ends.
fn both(change: impl Fn(&mut Tuning)) -> Ends {
    let mut ends = CHOSEN;
    change(&mut ends.coordinator);
    change(&mut ends.agent);
    ends
}

fn control() -> Vec<Row> {
    let changed = [
        ("as chosen", CHOSEN),
        ("cubic", both(|it| it.congestion = Congestion::Cubic)),
        ("newreno", both(|it| it.congestion = Congestion::NewReno)),
        ("bbr", both(|it| it.congestion = Congestion::Bbr)),
        ("initial window 64 KiB", both(|it| it.initial_window = Some(64 << 10))),
        ("each packet acknowledged at once", both(|it| it.ack_every = 0)),
        ("acknowledged at every fourth", both(|it| it.ack_every = 3)),
        ("lost after 1 later packet", both(|it| it.packet_threshold = 1)),
        ("lost after 1.0 round trips", both(|it| it.time_threshold = 1.0)),
        ("no segmentation offload", both(|it| it.segmentation = false)),
        ("no MTU discovery", both(|it| it.mtu_discovery = false)),
    ];
    let heavy = changed.map(|(name, ends)| Row { name, load: HEAVY, way: lossy(0.05), ends });
    heavy.to_vec()
}

fn clear() -> Vec<Row> {
    let of = |name, load, ends| Row { name, load, way: Way::Straight, ends };
    let whole = both(|it| it.segmentation = false);
    vec![
        of("100 × 60/s: as chosen", BUSY, CHOSEN),
        of("100 × 60/s: quinn", BUSY, PLAIN),
        of("10 × 10/s, 64 at a time: as chosen", BURSTS, CHOSEN),
        of("10 × 10/s, 64 at a time: quinn", BURSTS, PLAIN),
        of("10 × 10/s, 64 at a time: no segmentation offload", BURSTS, whole),
    ]
}

fn bursts() -> Vec<Row> {
    let changed = [
        ("as chosen", CHOSEN),
        ("quinn", PLAIN),
        ("initial window 64 KiB", both(|it| it.initial_window = Some(64 << 10))),
        ("bbr", both(|it| it.congestion = Congestion::Bbr)),
        ("no segmentation offload", both(|it| it.segmentation = false)),
    ];
    changed.map(|(name, ends)| Row { name, load: BURSTS, way: lossy(0.01), ends }).to_vec()
}

/// Names live as long as the program.
fn leaked(name: String) -> &'static str {
    name.leak()
}
