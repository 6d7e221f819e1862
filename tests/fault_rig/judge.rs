//! What held: what agents said, held against what the coordinator's audit log says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use super::house::{Granted, Log};
use super::ledger::{Book, Key, Ledger, Stay};
use super::plan::Plan;
use super::rack::Rack;
use super::words::{Event, Refused};
use crate::udp_proxy::Counters;

/// How a row went, as time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    pub(super) lasted: Duration,
    /// From the end of all faults until the last agent had finished.
    pub(super) settled: Option<Duration>,
    /// From then until the coordinator listed nothing.
    pub(super) emptied: Option<Duration>,
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) grants: u64,
    pub(crate) declared: u64,
    pub(crate) double_grants: u64,
    pub(crate) lost_decisions: u64,
    pub(crate) unknown: u64,
    pub(crate) reconnects: u64,
    pub(crate) agent_kills: u64,
    pub(crate) agent_stops: u64,
    pub(crate) coordinator_kills: u64,
    pub(crate) leases_lost: u64,
    pub(crate) writes: u64,
    pub(crate) late_writes: u64,
    pub(crate) at_once: Spread,
    pub(crate) took: Spread,
    /// All that did not hold, in words.
    pub(crate) wrong: Vec<String>,
    pub(crate) details: String,
}

/// Of times in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
}

impl Spread {
    fn of(times: &[u64]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let at = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.max(1) - 1).copied().unwrap_or(0)
        };
        Spread { p50: at(0.5), p99: at(0.99) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} / {:.1}", self.p50 as f64 / 1e3, self.p99 as f64 / 1e3)
    }
}

impl Report {
    pub(crate) fn held(&self) -> bool {
        self.wrong.is_empty()
    }

    pub(crate) fn headings() -> String {
        let headings = [
            "what goes wrong",
            "declared",
            "grants",
            "double grants",
            "lost decisions",
            "unknown, asked again",
            "reconnects",
            "killed: agents, coordinator",
            "leases lost",
            "late writes refused",
            "to resolve, no wait, p50 / p99 ms",
            "to resolve, all, p50 / p99 ms",
            "held",
        ];
        let line = |cells: &[&str]| format!("| {} |", cells.join(" | "));
        let rule: Vec<&str> =
            headings.iter().enumerate().map(|(n, _)| if n == 0 { "---" } else { "---:" }).collect();
        format!("{}\n{}", line(&headings), line(&rule))
    }

    pub(crate) fn row(&self) -> String {
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {}, {} | {} | {} | {} | {} | {} |",
            self.name,
            self.declared,
            self.grants,
            self.double_grants,
            self.lost_decisions,
            self.unknown,
            self.reconnects,
            self.agent_kills,
            self.coordinator_kills,
            self.leases_lost,
            self.late_writes,
            self.at_once,
            self.took,
            if self.held() { "yes" } else { "**no**" },
        )
    }
}

pub(super) fn judge(
    plan: &Plan,
    ledger: &Ledger,
    rack: &Rack,
    passed: &Counters,
    log: &Log,
    course: Course,
) -> Report {
    let book = ledger.book();
    let (double, lost) = (double_grants(&book, log), lost_decisions(&book, log));
    let mut wrong: Vec<String> = double.iter().chain(&lost).cloned().collect();
    wrong.extend(log.damage.iter().cloned());
    wrong.extend(book.breaches.iter().chain(&book.gone).cloned());
    wrong.extend(odd_refusals(&book));
    if course.settled.is_none() {
        wrong.push("agents had not finished long after the last fault".into());
    }
    if course.emptied.is_none() {
        wrong.push("leases or waiting intents were left over".into());
    }
    let count = |event| book.events.get(&event).copied().unwrap_or(0);
    Report {
        name: plan.name,
        what: plan.what,
        grants: book.grants,
        declared: book.cases.len() as u64,
        double_grants: double.len() as u64,
        lost_decisions: lost.len() as u64,
        unknown: book.unknown,
        reconnects: count(Event::Resumed),
        agent_kills: rack.kills,
        agent_stops: rack.stops,
        coordinator_kills: log.kills,
        leases_lost: book.lost.values().sum(),
        writes: book.writes,
        late_writes: book.late_writes,
        at_once: Spread::of(&book.took_at_once),
        took: Spread::of(&book.took),
        wrong,
        details: details(&book, rack, passed, &course),
    }
}

fn details(book: &Book, rack: &Rack, passed: &Counters, course: &Course) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "course: {course:?}");
    let _ = writeln!(text, "proxy: {passed:?}");
    let _ = writeln!(text, "agents: stopped {}, ended by themselves {}", rack.stops, rack.ended);
    let _ = writeln!(text, "events: {:?}; lost: {:?}; unsent {}", book.events, book.lost, book.unsent);
    let proven = book.stays.iter().filter(|stay| stay.is_proven()).count();
    let _ = writeln!(text, "stays: {}, of them proven {proven}; writes {}", book.stays.len(), book.writes);
    let _ = writeln!(text, "connections that failed: {:?}", book.connects_failed);
    text
}

/// Two agents with one resource at one instant: by the windows in the log, and by what they were sure of.
fn double_grants(book: &Book, log: &Log) -> Vec<String> {
    let mut found = Vec::new();
    let mut by_resource: BTreeMap<u64, Vec<&Granted>> = BTreeMap::new();
    for grant in &log.granted {
        match book.cases.get(&(grant.agent.clone(), grant.id)) {
            Some(case) => by_resource.entry(case.ask.resource).or_default().push(grant),
            None => found.push(format!("nobody asked for {grant:?}")),
        }
    }
    for grants in by_resource.values_mut() {
        // Released before its window began, it had none.
        grants.retain(|grant| grant.start < grant.end);
        grants.sort_by_key(|grant| grant.start);
        for pair in grants.windows(2) {
            if pair[1].start < pair[0].end {
                found.push(format!("windows overlap: {:?} and {:?}", pair[0], pair[1]));
            }
        }
    }
    let mut stays: Vec<&Stay> = book.stays.iter().filter(|stay| stay.is_proven()).collect();
    stays.sort_by_key(|stay| (stay.resource, stay.first));
    // The one that lasts longest so far, of this resource.
    let mut longest: Option<&Stay> = None;
    for stay in stays {
        match longest.filter(|before| before.resource == stay.resource) {
            Some(before) if before.last > stay.first => {
                found.push(format!("both were sure: {before:?} and {stay:?}"));
                longest = Some(if before.last > stay.last { before } else { stay });
            }
            _ => longest = Some(stay),
        }
    }
    found
}

/// Declarations without an outcome, and outcomes that agents and log do not agree on.
fn lost_decisions(book: &Book, log: &Log) -> Vec<String> {
    let mut found = Vec::new();
    let mut by_key: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
    let mut tokens = BTreeSet::new();
    for grant in &log.granted {
        by_key.entry((grant.agent.clone(), grant.id)).or_default().push(grant.token);
        if !tokens.insert(grant.token) {
            found.push(format!("token {} was given twice", grant.token));
        }
    }
    let refused: BTreeSet<&Key> = log.refused.iter().collect();
    for (key, case) in &book.cases {
        let logged = by_key.get(key).map_or(&[][..], Vec::as_slice);
        let told: BTreeSet<u64> = case.tokens.iter().copied().collect();
        let has_ended = case.refused.contains(&Refused::Ended);
        if told.is_empty() && case.refused.is_empty() {
            found.push(format!("{key:?} came to no outcome; the log has {logged:?}"));
        }
        for token in told.iter().filter(|token| !logged.contains(token)) {
            found.push(format!("{key:?} was told of token {token}, which is not in the log"));
        }
        for token in logged.iter().filter(|token| !told.contains(token) && !has_ended) {
            found.push(format!("{key:?} has token {token} in the log and never heard of it"));
        }
        if logged.len() > 1 {
            found.push(format!("{key:?} was decided more than once: {logged:?}"));
        }
        if case.refused.contains(&Refused::Conflict) && (!logged.is_empty() || !refused.contains(key)) {
            found.push(format!("{key:?} was told of a conflict, and the log has {logged:?}"));
        }
    }
    found
}

/// Nothing in a row gives cause to any other refusal.
fn odd_refusals(book: &Book) -> Vec<String> {
    let odd = book.cases.iter().filter_map(|(key, case)| {
        // Killed between its release and the word of it, an agent asks again what it has let go itself.
        let was_let_go = !case.tokens.is_empty();
        let is_odd = |what: &&Refused| match what {
            Refused::Conflict | Refused::Ended => false,
            Refused::Withdrawn => !was_let_go,
            _ => true,
        };
        let what = case.refused.iter().find(is_odd)?;
        Some(format!("{key:?} was refused: {what:?}"))
    });
    odd.collect()
}

#[cfg(test)]
mod tests {
    use super::super::house::Log;
    use super::super::ledger::Ledger;
    use super::super::words::{Ask, Said};
    use super::*;

    const ASK: Ask = Ask { id: 1, resource: 0, lease_ms: 1000, wait_ms: 0, work_ms: 1 };

    fn granted(agent: &str, token: u64, start: u64, end: u64) -> Granted {
        Granted { agent: agent.into(), id: 1, token, start, end }
    }

    /// Two agents that were told what the log says, if `log` says it.
    fn told(log: &Log) -> Ledger {
        let ledger = Ledger::silent();
        for grant in &log.granted {
            let (id, token) = (grant.id, grant.token);
            ledger.book().hear(&grant.agent, 0, Said::Declared(ASK));
            ledger.book().hear(&grant.agent, 0, Said::Granted { id, token, took_us: Some(1) });
        }
        ledger
    }

    fn log(granted: Vec<Granted>) -> Log {
        Log { granted, ..Log::default() }
    }

    #[test]
    fn windows_that_touch_are_fine_and_windows_that_overlap_are_found() {
        for (start, found) in [(20, 0), (19, 1)] {
            let log = log(vec![granted("a", 1, 10, 20), granted("b", 2, start, 30)]);
            let ledger = told(&log);
            assert_eq!(double_grants(&ledger.book(), &log).len(), found);
            assert_eq!(lost_decisions(&ledger.book(), &log), Vec::<String>::new());
        }
    }

    /// `a` writes, `b` comes in, and `a` was sure until after that, or not.
    fn visits(a_is_sure_late: bool) -> Ledger {
        let ledger = told(&log(vec![granted("a", 1, 10, 20), granted("b", 2, 20, 30)]));
        let say = |agent: &str, said| ledger.book().hear(agent, 0, said).accepted;
        assert!(say("a", Said::Enter { id: 1, fence: (10, 1) }));
        say("a", Said::Held { id: 1 });
        assert!(say("a", Said::Write { id: 1, fence: (10, 1) }));
        assert!(say("b", Said::Enter { id: 1, fence: if a_is_sure_late { (10, 1) } else { (20, 2) } }));
        say("b", Said::Held { id: 1 });
        assert_eq!(say("a", Said::Write { id: 1, fence: (10, 1) }), a_is_sure_late);
        if a_is_sure_late {
            say("a", Said::Held { id: 1 });
        }
        ledger
    }

    #[test]
    fn two_that_were_sure_at_one_instant_are_found_and_a_late_write_is_refused() {
        let log = log(Vec::new());
        let ledger = visits(false);
        assert_eq!(double_grants(&ledger.book(), &log).len(), 0);
        assert_eq!(ledger.book().late_writes, 1);
        assert_eq!(double_grants(&visits(true).book(), &log).len(), 1);
    }

    #[test]
    fn what_was_not_told_what_is_not_in_the_log_and_what_is_in_it_twice_are_found() {
        let both = log(vec![granted("a", 1, 10, 20), granted("b", 2, 20, 30)]);
        let one = log(vec![granted("a", 1, 10, 20)]);
        let twice = log(vec![granted("a", 1, 10, 20), granted("b", 1, 20, 30)]);
        assert_eq!(lost_decisions(&told(&both).book(), &one).len(), 1, "told, and not in the log");
        assert_eq!(lost_decisions(&told(&twice).book(), &twice).len(), 1, "one token, twice");
        let ledger = told(&one);
        ledger.book().hear("b", 0, Said::Declared(ASK));
        // In the log and never heard of; and no outcome.
        assert_eq!(lost_decisions(&ledger.book(), &both).len(), 2);
        let said = Said::Refused { id: 1, what: Refused::Ended, took_us: None };
        ledger.book().hear("b", 0, said);
        assert_eq!(lost_decisions(&ledger.book(), &both).len(), 0, "asked again, and it had ended");
    }

    #[test]
    fn spreads_are_of_what_is_there() {
        assert_eq!(Spread::of(&[]), Spread::default());
        let times: Vec<u64> = (1..=200).collect();
        assert_eq!(Spread::of(&times), Spread { p50: 100, p99: 198 });
    }
}
