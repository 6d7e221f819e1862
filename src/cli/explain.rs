//! What a decision means to people, in words: pure, so that each message has a test.

use super::ExitCode;
use super::claims::{self, Written};
use super::complaint::Complaint;
use super::connect::refusal_code;
use super::output::harmless;
use super::times::{self, Wall};
use crate::client::{Conflict, Rejected};
use crate::types::{IntentId, Micros, Time};
use crate::wire::{AllowanceLeft, Blocker, InForce, Refusal};

/// The commands that declare the same again, in another way.
pub(super) trait Again {
    /// With this `--wait`.
    fn waiting(&self, wait: &str) -> String;
    /// With this start.
    fn at(&self, start: Time) -> String;
    /// With another reading of `path`.
    fn expecting(&self, path: &str) -> String;
    /// Releases an intent of the same name.
    fn release(&self, id: IntentId) -> String;
}

/// What the declaration asked for, as far as it matters for advice.
#[derive(Clone, Debug)]
pub(super) struct Asked<'a> {
    /// The agent's name.
    pub(super) name: &'a str,
    pub(super) claims: &'a [Written],
    /// It may begin whenever it can.
    pub(super) is_asap: bool,
    /// It rests on readings, so it may not wait.
    pub(super) expects: bool,
    /// The `--wait`, where it passed.
    pub(super) waited: Option<Micros>,
}

/// A final conflict, in its parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct InTheWay<'a> {
    pub(super) blockers: &'a [Blocker],
    pub(super) offer: Option<Time>,
    pub(super) is_deadlock: bool,
}

impl<'a> From<&'a Conflict> for InTheWay<'a> {
    fn from(of: &'a Conflict) -> Self {
        InTheWay { blockers: of.blockers(), offer: of.offer(), is_deadlock: of.is_deadlock() }
    }
}

/// Who is in the way, until when, and what to do.
pub(super) fn conflict(
    asked: &Asked<'_>,
    conflict: InTheWay<'_>,
    wall: &Wall,
    again: &dyn Again,
) -> Complaint {
    let code = if asked.waited.is_some() { ExitCode::WaitPassed } else { ExitCode::Conflict };
    let mut complaint = Complaint::new(code, not_free(asked, conflict));
    complaint.why = reasons(conflict.blockers, wall);
    if conflict.is_deadlock {
        return complaint
            .why("they wait for what this name holds, and it waited for what they hold")
            .todo("release what it holds (preclaim ls --agent NAME), and declare all of it in one command");
    }
    let own = conflict.blockers.iter().find(|blocker| blocker.agent == asked.name);
    match conflict.offer {
        None => complaint = complaint.todo("ask for less, or for another time: nothing later is free"),
        Some(offer) if asked.expects => {
            let from = wall.ahead(offer);
            complaint = complaint.todo(format!("read again and declare anew at {from}, which is free now"));
        }
        Some(offer) => {
            let free = wall.clock(offer);
            let is_lease = conflict.blockers.iter().any(|it| it.holding.as_ref().is_some_and(|it| it.hold));
            let how = if is_lease { "and keep the lease from being renewed" } else { "which is free now" };
            let at = format!("{}      start at {free}, {how}", again.at(offer));
            let wait = asked.is_asap.then(|| again.waiting(&times::at_least(offer.since(wall.now))));
            // Who waits for a lease waits for as long as it is renewed.
            let ways = match wait {
                None => vec![at],
                Some(wait) if is_lease => vec![at, format!("{wait}      where it is not renewed meanwhile")],
                Some(wait) => vec![wait, at],
            };
            complaint = ways.into_iter().fold(complaint, Complaint::todo);
        }
    }
    match own {
        Some(own) => complaint.todo(format!("{}      it is of the same name", again.release(own.id))),
        None => complaint,
    }
}

fn not_free(asked: &Asked<'_>, conflict: InTheWay<'_>) -> String {
    // Each claim once, in the order in which they were declared.
    let mut mine: Vec<usize> = conflict.blockers.iter().map(|blocker| blocker.claim.into()).collect();
    mine.sort_unstable();
    mine.dedup();
    let blocked: Vec<String> =
        mine.iter().filter_map(|at| asked.claims.get(*at)).map(Written::described).collect();
    let all = || asked.claims.iter().map(Written::described).collect();
    let what: Vec<String> = if blocked.is_empty() { all() } else { blocked };
    let (are, did) = if what.len() == 1 { ("is", "did") } else { ("are", "did") };
    let what = what.join(", ");
    match asked.waited {
        Some(wait) => format!("{what} {did} not become free within {}", times::length(wait)),
        None if conflict.is_deadlock => format!("{what} would be waited for in a ring"),
        None => format!("{what} {are} not free"),
    }
}

/// One line for each claim in the way.
pub(super) fn reasons(blockers: &[Blocker], wall: &Wall) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for blocker in blockers {
        let line = reason(blocker, wall);
        // One claim of theirs may be in the way of several of mine.
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn reason(blocker: &Blocker, wall: &Wall) -> String {
    let Blocker { agent, id, token, start, end, holding, .. } = blocker;
    let who = match token {
        Some(token) => format!("{} (intent {id}, token {token})", harmless(agent)),
        None => format!("{} (intent {id}, which waits and has a place kept)", harmless(agent)),
    };
    let (what, window, lease, note) = match holding {
        Some(holding) => (
            harmless(&claims::described(&holding.target, holding.mode)),
            (holding.window.start(), holding.window.end()),
            holding.hold,
            holding.note.as_str(),
        ),
        None => ("it".into(), (*start, *end), false, ""),
    };
    let from = if window.0 > wall.now { format!("from {} ", wall.clock(window.0)) } else { String::new() };
    let lease = if lease { ", a lease that it may renew" } else { "" };
    let note = if note.is_empty() { String::new() } else { format!(": {}", harmless(note)) };
    format!("{who} has {what} {from}until {}{lease}{note}", wall.ahead(window.1))
}

/// What was written meanwhile, and what to read again.
pub(super) fn stale(path: &str, as_of: Time, wall: &Wall, again: &dyn Again) -> Complaint {
    let shown = harmless(path);
    let complaint = Complaint::new(ExitCode::Stale, format!("{shown} may have changed since it was read"));
    let until = wall.ahead(as_of);
    let first = if as_of > wall.now { format!("wait until {until}, ") } else { String::new() };
    let then = again.expecting(path);
    complaint
        .why(format!("somebody could write there until {until}"))
        .todo(format!("{first}read {shown} again, then {then}      TIME: of right before that reading"))
}

/// A refusal on arrival, in its parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused<'a> {
    pub(super) reason: Refusal,
    pub(super) field: &'a str,
    pub(super) hint: &'a str,
    pub(super) retry_after: Option<Micros>,
}

impl<'a> From<&'a Rejected> for Refused<'a> {
    fn from(of: &'a Rejected) -> Self {
        let micros = |span: std::time::Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let retry_after = of.retry_after().map(micros).map(Micros::from_us);
        Refused { reason: of.reason(), field: of.field(), hint: of.hint(), retry_after }
    }
}

/// Why it was refused on arrival.
pub(super) fn rejected(refused: Refused<'_>) -> Complaint {
    let Refused { reason, field, hint, retry_after } = refused;
    let field = if field.is_empty() { String::new() } else { format!(", in {}", harmless(field)) };
    let (why, todo) = advice(reason);
    let mut complaint =
        Complaint::new(refusal_code(reason), format!("{}{field}", refusal_name(reason))).why(why);
    if !hint.is_empty() {
        // Of a value, it says what may stand there; of anything else, what is the matter.
        let may_be = if reason == Refusal::Invalid { "it may be: " } else { "" };
        complaint = complaint.why(format!("{may_be}{}", harmless(hint)));
    }
    match retry_after {
        Some(after) => complaint.todo(format!("the same again in {}", times::length(after))),
        None => complaint.todo(todo),
    }
}

/// As the contract spells it; one that is not known here by its number.
fn refusal_name(reason: Refusal) -> String {
    match reason {
        Refusal::Other(number) => format!("reason {number}"),
        known => known.as_str().to_owned(),
    }
}

/// Why, and what to do.
fn advice(reason: Refusal) -> (&'static str, &'static str) {
    match reason {
        Refusal::Invalid => ("a value is out of its range", "mend that value"),
        Refusal::IdInUse => ("the id stands for something else that was declared", "declare it without --id"),
        Refusal::TooShort => (
            "a claim is not longer than twice the time tolerance configured there",
            "ask for longer with --for",
        ),
        Refusal::TooLong => ("a claim is longer than max_hold allows there", "ask for less with --for"),
        Refusal::TooLate => {
            ("its last start has passed before it could be decided", "a later --at, or more --slack")
        }
        Refusal::BeyondHorizon => (
            "it could end beyond the horizon that the coordinator plans to",
            "an earlier --at, or less --for and --slack",
        ),
        Refusal::NoCapacity => (
            "units are asked for, and no capacity is configured there or above",
            "claim it as `PATH` or `PATH:shared`, or have a [[resource]] with a capacity configured",
        ),
        Refusal::OverCapacity => ("it asks for more units than there are", "ask for fewer units"),
        Refusal::Forbidden => (
            "this name has no right to it",
            "have a [[rule]] of the coordinator's configuration let it; preclaim config check --as NAME tells which does",
        ),
        Refusal::Overloaded => ("the coordinator has no room for it now", "the same again in a while"),
        Refusal::Draining => ("the coordinator shuts down or drains", "the same again when it is back"),
        Refusal::Infeasible => (
            "a check of the operator's found that it cannot be carried out",
            "plan it anew, slower or nearer",
        ),
        Refusal::Unsupported | Refusal::Other(_) => {
            ("the two sides are of different releases", "use the same release on both sides")
        }
    }
}

/// What counts of a priority where that is less than was sent, and why.
pub(super) fn lowered(of: &InForce) -> String {
    let InForce { class, urgency, safety_margin, social_value, rule, by_allowance, allowance } = of;
    let mut counts = format!("class {}, urgency {urgency}", class.number());
    if *safety_margin > 0.0 {
        counts.push_str(&format!(", safety margin {safety_margin}"));
    }
    if *social_value > 0.0 {
        counts.push_str(&format!(", social value {social_value}"));
    }
    let rule = rule.as_ref().map(|rule| format!("rule \"{}\" has no more", harmless(rule)));
    let spent = by_allowance.then(|| match allowance {
        Some(AllowanceLeft { left, size, refill }) => format!(
            "the allowance cannot pay for more: {left:.2} of {size} credits are left, and {refill} come back a second"
        ),
        None => "the allowance cannot pay for more".to_owned(),
    });
    let why: Vec<String> = rule.into_iter().chain(spent).collect();
    format!("{counts} count, less than was asked for: {}", why.join("; "))
}

/// A claim list for people.
pub(super) fn listed(claims: &[Written]) -> String {
    claims.iter().map(Written::described).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{RawMode, RawTarget, Token, Window};
    use crate::wire::Holding;

    const NOW: Time = Time::from_us(1_795_948_258_350_000); // 2026-11-29T10:30:58.35Z
    const END: Time = Time::from_us(1_795_948_267_250_000); // 8.9 s later

    struct Commands;

    impl Again for Commands {
        fn waiting(&self, wait: &str) -> String {
            format!("again --wait {wait}")
        }
        fn at(&self, start: Time) -> String {
            format!("again --at {}", times::rfc3339(start))
        }
        fn expecting(&self, path: &str) -> String {
            format!("again --expect {path}@TIME")
        }
        fn release(&self, id: IntentId) -> String {
            format!("release {id}")
        }
    }

    fn blocker(claim: u16, agent: &str) -> Blocker {
        let holding = Holding {
            target: RawTarget::Path("file/src".into()),
            mode: RawMode::Exclusive,
            window: Window::new(NOW.before(Micros::from_secs(1)), END).unwrap(),
            hold: false,
            note: String::new(),
        };
        Blocker {
            agent: agent.into(),
            id: IntentId::new(41),
            token: Some(Token::new(1043)),
            claim,
            their_claim: 0,
            start: NOW,
            end: END,
            ratio: None,
            holding: Some(holding),
        }
    }

    fn claims(texts: &[&str]) -> Vec<Written> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn asked<'a>(claims: &'a [Written]) -> Asked<'a> {
        Asked { name: "ada@loom", claims, is_asap: true, expects: false, waited: None }
    }

    fn says(asked: &Asked<'_>, blockers: &[Blocker], offer: Option<Time>) -> String {
        let way = InTheWay { blockers, offer, is_deadlock: false };
        conflict(asked, way, &Wall::utc(NOW), &Commands).to_string()
    }

    #[test]
    fn a_conflict_says_who_until_when_and_what_to_paste() {
        let claims = claims(&["file/src/db.rs"]);
        assert_eq!(
            says(&asked(&claims), &[blocker(0, "planner-2")], Some(END)),
            "conflict: file/src/db.rs (exclusive) is not free\n  \
             why  planner-2 (intent 41, token 1043) has file/src (exclusive) until 10:31:07.250, in 8.9 s\n  \
             do   again --wait 9s\n  \
             or   again --at 2026-11-29T10:31:07.25Z      start at 10:31:07.250, which is free now"
        );
    }

    #[test]
    fn only_what_is_blocked_is_named_and_each_holder_once() {
        let claims = claims(&["file/src/a", "db", "file/src/b:shared"]);
        let said = says(&asked(&claims), &[blocker(2, "p"), blocker(0, "p")], None);
        assert!(
            said.starts_with("conflict: file/src/a (exclusive), file/src/b (shared) are not free\n"),
            "{said}"
        );
        assert_eq!(said.matches("why").count(), 1, "{said}");
        assert!(said.contains("nothing later is free"), "{said}");
    }

    #[test]
    fn what_does_not_apply_is_not_advised() {
        let claims = claims(&["a"]);
        let timed = Asked { is_asap: false, ..asked(&claims) };
        let said = says(&timed, &[blocker(0, "p")], Some(END));
        assert!(!said.contains("--wait") && said.contains("--at"), "{said}");
        let rests = Asked { expects: true, ..asked(&claims) };
        let said = says(&rests, &[blocker(0, "p")], Some(END));
        assert!(!said.contains("--wait") && !said.contains("--at") && said.contains("read again"), "{said}");
    }

    #[test]
    fn one_s_own_grant_in_the_way_can_be_released() {
        let claims = claims(&["a"]);
        let said = says(&asked(&claims), &[blocker(0, "ada@loom")], Some(END));
        assert!(said.ends_with("or   release 41      it is of the same name"), "{said}");
    }

    #[test]
    fn a_wait_that_passed_says_so_and_ends_with_its_own_code() {
        let claims = claims(&["a"]);
        let waited = Asked { waited: Some(Micros::from_secs(5)), ..asked(&claims) };
        let way = InTheWay { blockers: &[blocker(0, "p")], offer: Some(END), is_deadlock: false };
        let complaint = conflict(&waited, way, &Wall::utc(NOW), &Commands);
        assert_eq!(complaint.code, ExitCode::WaitPassed);
        assert_eq!(complaint.what, "a (exclusive) did not become free within 5.0 s");
    }

    #[test]
    fn a_ring_of_waiting_is_told_as_one() {
        let claims = claims(&["a"]);
        let way = InTheWay { blockers: &[blocker(0, "p")], offer: Some(END), is_deadlock: true };
        let said = conflict(&asked(&claims), way, &Wall::utc(NOW), &Commands).to_string();
        assert!(said.contains("in a ring") && said.contains("one command"), "{said}");
    }

    #[test]
    fn leases_notes_later_starts_and_kept_places_are_told() {
        let wall = Wall::utc(NOW);
        let mut lease = blocker(0, "p\u{1b}[2J");
        if let Some(holding) = &mut lease.holding {
            (holding.hold, holding.note) = (true, "deploys\u{7}".into());
            holding.window = Window::new(NOW.after(Micros::from_secs(1)), END).unwrap();
        }
        let line = &reasons(&[lease], &wall)[0];
        assert!(
            line.contains(
                "from 10:30:59.350 until 10:31:07.250, in 8.9 s, a lease that it may renew: deploys"
            ),
            "{line}"
        );
        assert!(!line.contains(['\u{1b}', '\u{7}']), "{line}");
        let kept = Blocker { token: None, holding: None, ..blocker(0, "p") };
        let line = &reasons(&[kept], &wall)[0];
        assert!(line.contains("waits and has a place kept") && line.contains("until 10:31:07.250"), "{line}");
    }

    #[test]
    fn a_stale_reading_is_to_be_made_again_and_when() {
        let said = stale("cfg/a", END, &Wall::utc(NOW), &Commands);
        assert_eq!(said.code, ExitCode::Stale);
        let said = said.to_string();
        assert!(said.starts_with("stale: cfg/a may have changed"), "{said}");
        assert!(said.contains("wait until 10:31:07.250, in 8.9 s, read cfg/a again"), "{said}");
        assert!(said.contains("--expect cfg/a@TIME"), "{said}");
        let past = stale("cfg/a", NOW, &Wall::utc(END), &Commands).to_string();
        assert!(past.contains("do   read cfg/a again"), "{past}");
    }

    #[test]
    fn every_reason_of_a_rejection_comes_with_advice() {
        for reason in Refusal::ALL.iter().chain(&[Refusal::Other(99)]) {
            let refused = Refused { reason: *reason, field: "claims[0]", hint: "", retry_after: None };
            let said = rejected(refused);
            assert!(said.what.contains("claims[0]") && said.why.len() == 1 && said.todo.len() == 1, "{said}");
        }
        let busy = Refused {
            reason: Refusal::Overloaded,
            field: "",
            hint: "1024 undecided",
            retry_after: Some(Micros::from_ms(20)),
        };
        let said = rejected(busy).to_string();
        assert!(said.contains("1024 undecided") && said.contains("in 20 ms"), "{said}");
    }
}
