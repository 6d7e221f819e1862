//! What is counted of scripted slots. A script is a trace, as `preclaim resolve` reads it.

use std::fs;
use std::path::Path as FilePath;

use super::counts::{Counts, End, Kept, Kind, Offer, Outcome, Phase, Rejection};
use super::instrument::{Counters, Histogram, Label};
use super::metrics::Metrics;
use crate::config::Config;
use crate::coordinator::{Decided, Departure, Observer, Punctuality, SlotReport};
use crate::resolver::{Input, Resolver, SlotBatch};
use crate::trace::TraceReader;
use crate::types::{Micros, Slot, Time};

/// A resolver whose slots are counted: awake 95 µs after their ends, closed 5 µs later, then resolved in 30 µs,
/// persisted in 2,000 µs and published in 70 µs.
struct Script {
    resolver: Resolver,
    metrics: Metrics,
}

impl Script {
    fn run(config: &str, trace: &str) -> Self {
        let config = Config::parse("config.toml", config).unwrap();
        let resolver = Resolver::new(config.rules.clone());
        let length = resolver.rules().length;
        let mut script = Script { resolver, metrics: Metrics::new(length) };
        let mut reader = TraceReader::new(config);
        let lines = trace.lines().map(|line| reader.read(line.as_bytes()).unwrap());
        let mut open: Option<(Slot, Vec<Input>)> = None;
        for input in lines.flatten() {
            let slot = Slot::of(input.at(), length);
            match &mut open {
                Some((at, inputs)) if *at == slot => inputs.push(input),
                _ => {
                    script.close(open.take());
                    script.decide_due(slot);
                    open = Some((slot, vec![input]));
                }
            }
        }
        script.close(open);
        script
    }

    /// Goes on with empty slots until the one that is decided at `until`.
    fn until(mut self, until_us: u64) -> Self {
        self.decide_due(Slot::of(Time::from_us(until_us), self.resolver.rules().length));
        self
    }

    fn close(&mut self, open: Option<(Slot, Vec<Input>)>) {
        let Some((slot, inputs)) = open else { return };
        self.decide(&SlotBatch::new(slot, self.resolver.rules().length, inputs).unwrap());
    }

    fn decide_due(&mut self, before: Slot) {
        while let Some(due) = self.resolver.next_due().filter(|due| *due < before) {
            self.decide(&SlotBatch::empty(due));
        }
    }

    fn decide(&mut self, batch: &SlotBatch) {
        let outcome = self.resolver.resolve(batch);
        let after = |us| outcome.at.after(Micros::from_us(us));
        let report = SlotReport {
            slot: outcome.slot,
            at: outcome.at,
            woken: after(95),
            closed: after(100),
            resolved: after(130),
            persisted: after(2_130),
            published: after(2_200),
            inputs: batch.inputs().len(),
            decisions: outcome.decisions.len(),
            punctuality: Punctuality::OnTime,
        };
        self.metrics.slot_done(&report);
        let decided = Decided { batch, outcome: &outcome, resolver: &self.resolver, traced: &[] };
        self.metrics.slot_decided(&report, &decided);
    }

    fn counts(&self) -> &Counts {
        &self.metrics.counts
    }

    fn outcomes(&self) -> String {
        shown(&self.counts().intents)
    }
}

/// What is not zero, in the order of the labels.
fn shown<L: Label>(counters: &Counters<L>) -> String {
    let counted = counters.iter().filter(|(_, count)| count.get() > 0);
    counted.map(|(label, count)| format!("{} {}", label.as_str(), count.get())).collect::<Vec<_>>().join(", ")
}

/// How many there are, and their sum in µs.
fn sum(histogram: &Histogram) -> (u64, u64) {
    let snapshot = histogram.snapshot();
    (snapshot.count, (snapshot.sum * 1e6).round() as u64)
}

#[test]
fn a_slot_is_counted_by_how_it_kept_its_time_and_its_phases_are_added_up() {
    let script =
        Script::run("", r#"{"at":1000,"agent":"a","declare":{"id":1,"claims":[{"path":"x","duration":9}]}}"#);
    let counts = script.counts();
    assert_eq!(shown(&counts.slots), "ok 1");
    assert_eq!(sum(&counts.lag), (1, 95));
    let phases = [(Phase::Collect, 5), (Phase::Resolve, 30), (Phase::Persist, 2_000), (Phase::Publish, 70)];
    for (phase, us) in phases {
        assert_eq!(sum(counts.work.of(phase)), (1, us), "{phase:?}");
    }
    assert_eq!(counts.inputs.get(), 1);
    let mut report = script.metrics.recent()[0];
    let batch = SlotBatch::empty(Slot::new(7));
    let outcome = crate::resolver::SlotOutcome::empty(Slot::new(7), Time::from_us(80_000));
    let decided = Decided { batch: &batch, outcome: &outcome, resolver: &script.resolver, traced: &[] };
    for punctuality in [Punctuality::Late, Punctuality::CaughtUp, Punctuality::CaughtUp] {
        report.punctuality = punctuality;
        script.metrics.slot_decided(&report, &decided);
    }
    assert_eq!(shown(&counts.slots), "ok 1, late 1, caught_up 2");
    assert_eq!(counts.slots.of(Kept::Late).get(), 1);
}

#[test]
fn what_leaves_is_counted_from_the_end_of_its_slot() {
    let metrics = Metrics::new(Micros::from_ms(10));
    let (peer, at) = ("127.0.0.1:9".parse().unwrap(), Time::from_us);
    let slot = Slot::new(2);
    metrics.departed(&Departure { peer, slot, first: at(30_100), last: at(30_400), messages: 2 });
    metrics.socket_full();
    assert_eq!(sum(&metrics.counts.sent), (1, 400));
    assert_eq!(metrics.counts.socket_full.get(), 1);
}

#[test]
fn a_grant_a_conflict_its_offer_and_what_comes_of_it() {
    let script = Script::run(
        "",
        r#"{"at":1000,"agent":"a","declare":{"id":1,"claims":[{"path":"x","duration":50000}]}}
           {"at":2000,"agent":"b","declare":{"id":1,"claims":[{"path":"x/1","duration":5}]}}
           {"at":3000,"agent":"c","declare":{"id":1,"claims":[{"path":"x","duration":5}]}}
           {"at":11000,"agent":"b","declare":{"id":2,"start":60000,"claims":[{"path":"x","duration":5}]}}
           {"at":12000,"agent":"c","declare":{"id":2,"start":60000,"claims":[{"path":"x","duration":5}]}}"#,
    );
    let counts = script.counts();
    assert_eq!(script.outcomes(), "granted 2, conflict 3");
    assert_eq!(shown(&counts.conflicts), "path 3");
    assert_eq!(shown(&counts.offers), "made 3, taken 1, missed 1");
    assert_eq!(sum(counts.decisions.of(Outcome::Granted)), (2, 9_000 + 2_200 + 9_000 + 2_200));
    assert_eq!(sum(&counts.waits), (0, 0));
    assert_eq!(counts.grants_live.get(), 2);
    let hot = script.metrics.most_contended(9, Time::from_us(20_000));
    let hot: Vec<_> = hot.iter().map(|(path, heat)| (path.as_str(), heat.conflicts)).collect();
    assert_eq!(hot, [("x", 3)], "the holder's path, not that of who wants a part of it");
}

#[test]
fn one_that_waits_counts_when_it_begins_to_and_when_that_ends() {
    let script = Script::run(
        "",
        r#"{"at":1000,"agent":"a","declare":{"id":1,"hold":true,"claims":[{"path":"x","duration":500000}]}}
           {"at":2000,"agent":"b","declare":{"id":1,"wait":100000,"claims":[{"path":"x","duration":5}]}}
           {"at":15000,"agent":"a","renew":{"id":1,"until":600000}}
           {"at":25000,"agent":"a","renew":{"id":1,"until":700000}}
           {"at":35000,"agent":"a","release":{"id":1}}"#,
    );
    let counts = script.counts();
    assert_eq!(script.outcomes(), "granted 2, waiting 1, released 1, renewed 2");
    assert_eq!(sum(counts.decisions.of(Outcome::Waiting)), (1, 8_000 + 2_200));
    assert_eq!(sum(counts.decisions.of(Outcome::Renewed)), (2, 2 * (5_000 + 2_200)));
    assert_eq!(sum(&counts.waits), (1, 38_000));
    assert_eq!(shown(&counts.conflicts), "path 1");
    assert!(counts.offers.of(Offer::Made).get() >= 2, "told anew as the lease is renewed");
    assert_eq!(shown(&counts.ended), "released 1");
    assert_eq!((counts.grants_live.get(), counts.undecided.get()), (1, 0));
    assert!(counts.contested.get() >= 1);
}

#[test]
fn how_long_a_contended_path_is_held_is_seen_where_it_is_released_and_where_it_runs_out() {
    let script = Script::run(
        "",
        r#"{"at":1000,"agent":"a","declare":{"id":1,"hold":true,"claims":[{"path":"x","duration":500000}]}}
           {"at":11000,"agent":"b","declare":{"id":1,"claims":[{"path":"x","duration":5}]}}
           {"at":21000,"agent":"a","release":{"id":1}}
           {"at":31000,"agent":"b","declare":{"id":2,"hold":true,"claims":[{"path":"x","duration":900000}]}}
           {"at":131000,"agent":"b","release":{"id":2}}
           {"at":131000,"agent":"c","declare":{"id":1,"claims":[{"path":"calm","duration":5}]}}
           {"at":141000,"agent":"c","declare":{"id":2,"claims":[{"path":"y","duration":5},{"path":"x","duration":100000}]}}"#,
    );
    let hot = |us| script.metrics.most_contended(9, Time::from_us(us));
    let seen = |us| hot(us)[0].1.of.holds.as_ref().map_or(0, |holds| holds.count());
    assert_eq!(hot(150_000).len(), 1, "nobody was in the way of what is calm");
    assert_eq!((seen(249_999), seen(250_000)), (1, 2), "a plain grant is over at its end");
    let holds = hot(250_000)[0].1.of.holds.clone().unwrap();
    let typical = holds.typical().unwrap().as_us();
    assert!((80_000..=120_000).contains(&typical), "{typical}");
    assert_eq!(holds.stated, Micros::from_us(100_000), "the last one's");
    let pairs = script.metrics.most_opposed(9, Time::from_us(250_000));
    let pairs: Vec<_> = pairs.iter().map(|((b, a), heat)| (b.as_str(), a.as_str(), heat.conflicts)).collect();
    assert_eq!(pairs, [("b", "a", 1)]);
    assert_eq!(hot(250_000)[0].1.of.exclusive, 1);
}

#[test]
fn conflicts_are_told_apart_by_what_was_in_the_way() {
    let script = Script::run(
        "[[resource]]\npath = \"pool\"\ncapacity = 10\n",
        r#"{"at":1000,"agent":"a","declare":{"id":1,"claims":[{"path":"pool","mode":{"units":8},"duration":500000}]}}
           {"at":1000,"agent":"a","declare":{"id":2,"claims":[{"frame":"f","box":{"min":[0,0],"max":[2,2]},"duration":500000}]}}
           {"at":2000,"agent":"b","declare":{"id":1,"claims":[{"path":"pool","mode":{"units":3},"duration":5}]}}
           {"at":2000,"agent":"b","declare":{"id":2,"claims":[{"path":"pool","duration":5}]}}
           {"at":2000,"agent":"b","declare":{"id":3,"claims":[{"frame":"f","box":{"min":[1,1],"max":[3,3]},"duration":5}]}}
           {"at":2000,"agent":"b","declare":{"id":4,"claims":[{"path":"f","duration":5}]}}
           {"at":21000,"agent":"c","declare":{"id":1,"expects":[{"path":"f","as_of":1000}],"claims":[{"path":"g","duration":5}]}}"#,
    );
    assert_eq!(shown(&script.counts().conflicts), "path 2, region 1, units 1, stale 1");
    assert_eq!(script.outcomes(), "granted 2, conflict 4, stale 1");
}

#[test]
fn a_ring_that_is_broken_counts_as_a_deadlock() {
    let script = Script::run(
        "",
        r#"{"at":1000,"agent":"a","declare":{"id":1,"hold":true,"claims":[{"path":"x","duration":500000}]}}
           {"at":2000,"agent":"b","declare":{"id":1,"hold":true,"claims":[{"path":"y","duration":500000}]}}
           {"at":3000,"agent":"a","declare":{"id":2,"wait":100000,"claims":[{"path":"y","duration":10000}]}}
           {"at":4000,"agent":"b","declare":{"id":2,"wait":100000,"claims":[{"path":"x","duration":10000}]}}"#,
    );
    assert_eq!(shown(&script.counts().conflicts), "path 1, deadlock 1");
    assert_eq!(script.counts().conflicts.of(Kind::Deadlock).get(), 1);
}

#[test]
fn each_way_to_be_refused_by_the_core_counts() {
    let script = Script::run(
        "[slot]\nhorizon = \"10s\"\n[[resource]]\npath = \"pool\"\ncapacity = 10\n[[resource]]\npath = \"x\"\nmax_hold = \"1s\"\ntime_tolerance = \"1ms\"\n",
        r#"{"at":1000,"agent":"a","declare":{"id":1,"claims":[{"path":"y","duration":50000}]}}
           {"at":1000,"agent":"a","declare":{"id":1,"claims":[{"path":"z","duration":50000}]}}
           {"at":1000,"agent":"a","declare":{"id":2,"urgency":2,"claims":[{"path":"z","duration":50000}]}}
           {"at":1000,"agent":"a","declare":{"id":3,"claims":[{"path":"x","duration":2000000}]}}
           {"at":1000,"agent":"a","declare":{"id":4,"claims":[{"path":"x","duration":2000}]}}
           {"at":1000,"agent":"a","declare":{"id":5,"start":2000,"claims":[{"path":"z","duration":50000}]}}
           {"at":1000,"agent":"a","declare":{"id":6,"claims":[{"path":"z","duration":20000000}]}}
           {"at":1000,"agent":"a","declare":{"id":7,"claims":[{"path":"z","mode":{"units":1},"duration":5}]}}
           {"at":1000,"agent":"a","declare":{"id":8,"claims":[{"path":"pool","mode":{"units":11},"duration":5}]}}"#,
    );
    let rejections = &script.counts().rejections;
    for reason in Rejection::ALL {
        assert_eq!(rejections.of(*reason).get(), 1, "{}", reason.as_str());
    }
    assert_eq!(script.outcomes(), "granted 1, rejected 8");
}

#[test]
fn grants_end_by_expiry_release_revision_and_withdrawal() {
    let script = Script::run(
        "[preemption]\nenabled = true\n",
        r#"{"at":1000,"agent":"a","declare":{"id":1,"hold":true,"claims":[{"path":"x","duration":20000}]}}
           {"at":1000,"agent":"a","declare":{"id":2,"claims":[{"path":"y","duration":5000}]}}
           {"at":1000,"agent":"a","declare":{"id":3,"claims":[{"path":"z","duration":900000}]}}
           {"at":2000,"agent":"l","declare":{"id":1,"start":500000,"slack":100000,"claims":[{"path":"p","duration":10000}]}}
           {"at":2000,"agent":"l","declare":{"id":2,"start":500000,"claims":[{"path":"q","duration":10000}]}}
           {"at":3000,"agent":"a","declare":{"id":3,"claims":[{"path":"z","duration":900000}]}}
           {"at":11000,"agent":"a","revise":{"id":3,"claims":[{"path":"zz","duration":900000}]}}
           {"at":12000,"agent":"h","declare":{"id":1,"class":5,"start":500000,"claims":[{"path":"p","duration":10000},{"path":"q","duration":10000}]}}
           {"at":41000,"agent":"a","release":{"id":3}}
           {"at":41000,"agent":"a","release":{"id":99}}
           {"at":41000,"agent":"a","renew":{"id":1,"until":900000}}"#,
    )
    .until(2_000_000);
    let counts = script.counts();
    assert_eq!(shown(&counts.ended), "expired 4, released 1, withdrawn 2, revised 1");
    assert_eq!(counts.ended.of(End::Withdrawn).get(), 2);
    let outcomes = script.outcomes();
    for outcome in ["moved 1", "revoked 1", "released 2", "renew_denied 1", "expired 1"] {
        assert!(outcomes.contains(outcome), "{outcome} in {outcomes}");
    }
    assert_eq!(counts.grants_live.get(), 0);
}

#[test]
fn what_is_sent_twice_is_a_repeat_and_decides_nothing() {
    let line = r#"{"at":AT,"agent":"a","declare":{"id":1,"claims":[{"path":"x","duration":900000}]}}"#;
    let script = Script::run("", &["1000", "11000", "12000"].map(|at| line.replace("AT", at)).join("\n"));
    assert_eq!(script.outcomes(), "granted 1, repeated 2");
    assert_eq!(sum(script.counts().decisions.of(Outcome::Repeated)), (2, 9_000 + 8_000 + 2 * 2_200));
}

#[test]
fn who_waits_beyond_the_patience_is_overdue() {
    let trace = r#"{"at":1000,"agent":"a","declare":{"id":1,"claims":[{"path":"x","duration":40000}]}}
                   {"at":2000,"agent":"b","declare":{"id":1,"wait":100000,"claims":[{"path":"x","duration":5}]}}"#;
    for (patience, overdue) in [("20ms", 1), ("90ms", 0)] {
        let script = Script::run(&format!("[priority]\npatience = \"{patience}\"\n"), trace).until(200_000);
        assert_eq!(script.outcomes(), "granted 2, waiting 1");
        assert_eq!(script.counts().overdue.get(), overdue, "{patience}");
    }
}

/// On all examples of the contract: what was given and has not ended is in force, each decision counts
/// once, and one that waits once more.
#[test]
fn the_books_balance_on_every_scenario() {
    let scenarios = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut seen = 0;
    for scenario in fs::read_dir(scenarios).unwrap().map(|entry| entry.unwrap().path()) {
        let config = fs::read_to_string(scenario.join("config.toml")).unwrap_or_default();
        let Ok(trace) = fs::read_to_string(scenario.join("trace.jsonl")) else { continue };
        let script = Script::run(&config, &trace).until(3_000_000);
        let (counts, (live, undecided)) = (script.counts(), script.resolver.counts());
        let given = counts.intents.of(Outcome::Granted).get() + counts.intents.of(Outcome::Moved).get();
        let ended: u64 = counts.ended.iter().map(|(_, count)| count.get()).sum();
        assert_eq!(given, ended + live as u64, "{}", scenario.display());
        assert_eq!((counts.grants_live.get(), counts.undecided.get()), (live as u64, undecided as u64));
        seen += 1;
    }
    assert!(seen > 40, "{seen}");
}
