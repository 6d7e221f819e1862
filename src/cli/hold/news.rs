//! What happens to the lease while the command runs, in words, each once.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cli::explain;
use crate::cli::output::harmless;
use crate::cli::times::{self, Wall};
use crate::client::Event;
use crate::limits;
use crate::types::{IntentId, Micros, Time};
use crate::wire::Blocker;

/// What was told already. A denied renewal is asked for again and again, and somebody who waits is news
/// in each slot.
#[derive(Debug)]
pub(super) struct News {
    id: IntentId,
    /// How long before the end of a lease that is not renewed the command is asked to end.
    early: Micros,
    denied: Option<Denial>,
    /// The coordinator drains, and renews no lease past its deadline.
    drains: bool,
    contenders: BTreeSet<(String, IntentId)>,
}

type Denial = (Time, BTreeSet<(String, IntentId)>);

impl News {
    pub(super) fn new(id: IntentId, early: Duration) -> Self {
        News { id, early: early.into(), denied: None, drains: false, contenders: BTreeSet::new() }
    }

    /// Whether it is about this lease, and was not told yet. Takes note of it.
    pub(super) fn is_new(&mut self, event: &Event) -> bool {
        match event {
            Event::RenewalDenied { id, end, blockers } if *id == self.id => {
                let denial = (*end, who(blockers));
                let is_new = self.denied.as_ref() != Some(&denial);
                self.denied = Some(denial);
                is_new
            }
            Event::Renewed { id, .. } if *id == self.id => self.denied.take().is_some(),
            Event::Contested { id, by, by_id, .. } if *id == self.id => {
                // Who comes after so many is not told: a lease so sought after has been told of often enough.
                self.contenders.len() < limits::HOLD_CONTENDERS
                    && self.contenders.insert((by.clone(), *by_id))
            }
            Event::Draining { deadline, .. } => {
                self.drains = deadline.is_some();
                true
            }
            Event::Disconnected { .. } | Event::Resumed { .. } => {
                self.drains = false;
                true
            }
            _ => false,
        }
    }

    /// For people; `None` where there is nothing to say to them.
    pub(super) fn words(&self, event: &Event, wall: &Wall) -> Option<String> {
        Some(match event {
            Event::RenewalDenied { end, blockers, .. } => self.denied(*end, blockers, wall),
            Event::Renewed { end, .. } => format!("renewed: the lease lasts until {}", wall.ahead(*end)),
            Event::Contested { by, by_id, class, wanted, waits, note, .. } => {
                let (by, from) = (harmless(by), wall.clock(wanted.start()));
                let waits = match Micros::from(*waits) {
                    Micros::ZERO => String::new(),
                    waits => format!(", and waits {}", times::length(waits)),
                };
                let note = if note.is_empty() { String::new() } else { format!(": {}", harmless(note)) };
                let class = class.number();
                format!("contested: {by} (intent {by_id}, class {class}) wants it from {from}{waits}{note}")
            }
            Event::Disconnected { why } => {
                format!("disconnected: {}; the lease stands until its end", harmless(why))
            }
            Event::Resumed { away, .. } => {
                format!("connected again after {}", times::length(Micros::from(*away)))
            }
            Event::Draining { reason, deadline: Some(deadline), .. } => {
                let until = wall.ahead(*deadline);
                format!("{}; the lease is renewed up to {until}, and no further", harmless(reason))
            }
            Event::Draining { reason, .. } => {
                format!("the coordinator shuts down: {}; the lease stands until its end", harmless(reason))
            }
            _ => return None,
        })
    }

    fn denied(&self, end: Time, blockers: &[Blocker], wall: &Wall) -> String {
        let mut why = explain::reasons(blockers, wall);
        if why.is_empty() {
            why.push(match self.drains {
                true => "the coordinator drains, and renews nothing past its deadline".into(),
                false => "a longer one is beyond max_hold or the horizon".into(),
            });
        }
        let (end, asked) = (wall.ahead(end), wall.clock(end.before(self.early)));
        format!(
            "not renewed: the lease ends at {end}\n  why  {}\n  do   be done by {asked}: the command gets TERM then",
            why.join("\n  why  ")
        )
    }
}

fn who(blockers: &[Blocker]) -> BTreeSet<(String, IntentId)> {
    blockers.iter().map(|blocker| (blocker.agent.clone(), blocker.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Class, Token, Window};

    const NOW: Time = Time::from_us(1_795_948_258_350_000); // 2026-11-29T10:30:58.35Z
    const OWN: IntentId = IntentId::new(7);

    fn after(secs: u64) -> Time {
        NOW.after(Micros::from_secs(secs))
    }

    fn denied(end: Time, by: &[&str]) -> Event {
        let blocker = |agent: &&str| Blocker {
            agent: (*agent).into(),
            id: IntentId::new(3),
            token: Some(Token::new(9)),
            claim: 0,
            their_claim: 0,
            start: end,
            end: end.after(Micros::from_secs(5)),
            ratio: None,
            holding: None,
        };
        Event::RenewalDenied { id: OWN, end, blockers: by.iter().map(blocker).collect() }
    }

    fn contested(by_id: u64) -> Event {
        Event::Contested {
            id: OWN,
            token: Token::new(4),
            at: NOW,
            by: "bob\u{1b}[2J".into(),
            by_id: IntentId::new(by_id),
            class: Class::default(),
            wanted: Window::new(after(1), after(2)).unwrap(),
            waits: Duration::from_secs(30),
            note: "deploys\u{7}".into(),
        }
    }

    #[test]
    fn a_denied_renewal_says_which_end_stands_by_whom_and_when_the_command_is_asked_to_end() {
        let mut news = News::new(OWN, Duration::from_secs(5));
        let event = denied(after(20), &["bob"]);
        assert!(news.is_new(&event));
        let said = news.words(&event, &Wall::utc(NOW)).unwrap();
        assert_eq!(
            said,
            "not renewed: the lease ends at 10:31:18.350, in 20.0 s\n  \
             why  bob (intent 3, token 9) has it from 10:31:18.350 until 10:31:23.350, in 25.0 s\n  \
             do   be done by 10:31:13.350: the command gets TERM then"
        );
        let said = news.words(&denied(after(20), &[]), &Wall::utc(NOW)).unwrap();
        assert!(said.contains("max_hold"), "{said}");
    }

    #[test]
    fn a_drain_says_until_when_the_lease_is_renewed_and_why_no_further() {
        let mut news = News::new(OWN, Duration::from_secs(5));
        let reason = || "the coordinator drains: up\u{7}grade".to_owned();
        let drains =
            Event::Draining { reason: reason(), retry_after: None, deadline: Some(after(30)), left: None };
        assert!(news.is_new(&drains));
        let said = news.words(&drains, &Wall::utc(NOW)).unwrap();
        assert!(said.contains("renewed up to 10:31:28.350, in 30.0 s") && !said.contains('\u{7}'), "{said}");
        let said = news.words(&denied(after(30), &[]), &Wall::utc(NOW)).unwrap();
        assert!(said.contains("drains") && !said.contains("max_hold"), "{said}");
        let stops = Event::Draining { reason: reason(), retry_after: None, deadline: None, left: None };
        assert!(news.is_new(&stops));
        assert!(news.words(&stops, &Wall::utc(NOW)).unwrap().contains("stands until its end"));
    }

    #[test]
    fn it_is_told_once_until_something_about_it_changes() {
        let mut news = News::new(OWN, Duration::from_secs(5));
        assert!(news.is_new(&denied(after(20), &["bob"])));
        assert!(!news.is_new(&denied(after(20), &["bob"])));
        assert!(news.is_new(&denied(after(21), &["bob"])));
        assert!(news.is_new(&denied(after(21), &["cy"])));
        let renewed = Event::Renewed { id: OWN, end: after(40) };
        assert!(news.is_new(&renewed), "the denial is over");
        assert!(!news.is_new(&renewed), "a renewal that was to be expected is no news");
        assert!(news.is_new(&denied(after(21), &["cy"])));
    }

    #[test]
    fn each_contender_is_told_once_and_not_too_many_of_them() {
        let mut news = News::new(OWN, Duration::from_secs(5));
        let said = news.words(&contested(1), &Wall::utc(NOW)).unwrap();
        assert!(said.contains("wants it from 10:30:59.350, and waits 30.0 s: deploys"), "{said}");
        assert!(!said.contains(['\u{1b}', '\u{7}']), "{said}");
        let told = (0..1_000).filter(|by| news.is_new(&contested(*by)) && !news.is_new(&contested(*by)));
        assert_eq!(told.count(), limits::HOLD_CONTENDERS);
    }

    #[test]
    fn what_is_of_another_intent_is_no_news() {
        let mut news = News::new(IntentId::new(8), Duration::from_secs(5));
        assert!(!news.is_new(&denied(after(20), &["bob"])));
        assert!(!news.is_new(&contested(1)));
        assert!(
            news.is_new(&Event::Resumed {
                away: Duration::ZERO,
                degradations: crate::client::Tally::default()
            })
        );
    }
}
